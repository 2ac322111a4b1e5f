"""The description of one column of a table: its levels or bins, and how values are converted to codes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from ..core.arrays import first_beyond
from ..core.exceptions import Remedy, SchemaError, counted
from ..core.labels import Label, bin_names, is_number, plain_number
from . import frames
from .missing import is_missing_value, is_missing_word

REPLACE = ("replace it", "leave it unknown")
"""The remedy for a value that cannot be in a column."""

STOP_AT_UNSEEN = Remedy("stop at such a value", unseen="error")
"""The remedy if values that are not levels should be errors instead of unknown."""

MOST_BITS = 64
"""Bits of the largest integer that can be a level: other programs that read model files do not accept longer ones."""

FEW_NUMBERS = 1024
"""Integers between the smallest and the largest of a column up to which their codes are looked up in a table."""

MOST_NUMBER = 2.0**53
"""Smaller integers are the same number as float64."""


@dataclass(frozen=True)
class Column:
    """The description of a column: the levels of its variable in order, and how values are converted to levels.

    Attributes:
        name: the name of the column.
        levels: the labels of the states; empty for a column without any observed value, which is not a variable.
        edges: the inner edges of bins, one fewer than levels; a value equal to an edge is in the upper bin. Empty for a
            column whose values are the levels themselves.
        centers: one number for each bin, used where a number has to represent the bin.
        missing: values that mean a missing value, besides None and NaN.
        ordered: whether the levels are ordered (ordinal).
        other: the level for all other values, if there is one.
        missing_words: whether words such as "?", "NA" and "" mean a missing value too, as in files, unless they are
            levels.
        continuous: whether values are numbers that are used without levels or bins.
    """

    name: str
    levels: tuple[Label, ...]
    edges: tuple[float, ...] = ()
    centers: tuple[float, ...] = ()
    missing: tuple[Label, ...] = ()
    ordered: bool = False
    missing_words: bool = False
    other: Label | None = None
    continuous: bool = False

    def __post_init__(self) -> None:
        for field in ("levels", "edges", "centers", "missing"):
            given = getattr(self, field)
            if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
                raise SchemaError(f"{field!r} is a list. Got {given!r} instead.", column=self.name, value=given)
            values = [plain_value(value, self.name) for value in given]
            if field in ("edges", "centers"):
                values = [float(value) if isinstance(value, int) else value for value in values]
            object.__setattr__(self, field, tuple(values))
        if not isinstance(self.name, str):
            raise SchemaError(f"The name of a column must be a text. Got {self.name!r} instead.", value=self.name)
        if None in self.levels:
            raise SchemaError("unknown is not a level.", column=self.name)
        twice = [level for level, count in Counter(self.levels).items() if count > 1]
        if twice:
            raise SchemaError(f"it has the level {twice[0]!r} twice.", column=self.name, value=twice[0])
        codes = set(self.missing)
        both = [level for level in self.levels if level in codes]
        if both:
            raise SchemaError(f"{both[0]!r} is a level and a code for missing values.", column=self.name, value=both[0])
        if self.other is not None and self.other not in self.levels:
            raise SchemaError("the level for other values is not among its levels.", column=self.name, value=self.other)
        if self.continuous and (self.levels or self.edges):
            raise SchemaError("it is continuous, and so has neither levels nor bins.", column=self.name)
        if self.edges:
            self._check_bins()
        elif self.centers:
            raise SchemaError("it has centers of bins, but no edges between them.", column=self.name)

    def _check_bins(self) -> None:
        numbers = all(isinstance(value, (int, float)) and isfinite(value) for value in (*self.edges, *self.centers))
        if not numbers or any(a >= b for a, b in pairwise(self.edges)):
            raise SchemaError(
                f"the edges of bins are numbers that ascend. Got {self.edges!r}.", column=self.name, value=self.edges
            )
        if len(self.levels) != len(self.edges) + 1:
            raise SchemaError(
                f"it has {counted(len(self.edges), 'edge')}, which make {len(self.edges) + 1} bins, but "
                f"{counted(len(self.levels), 'level')} to name them.",
                column=self.name,
            )
        if self.centers and len(self.centers) != len(self.levels):
            raise SchemaError(
                f"there is one center for each of its {counted(len(self.levels), 'bin')}.", column=self.name
            )

    @property
    def kind(self) -> str:
        """The kind of the values, in one word: "numbers", "bins" of numbers, "ordered" levels, "levels", or "empty"."""
        if self.continuous:
            return "numbers"
        if not self.levels:
            return "empty"
        return "bins" if self.is_binned else "ordered" if self.ordered else "levels"

    @property
    def is_binned(self) -> bool:
        """Return whether values are numbers that are put into bins."""
        return bool(self.edges)

    def value(self, level: Label) -> Label:
        """Return the value that represents a level in a table: the level itself, or the center of a bin."""
        return self.centers[self.levels.index(level)] if self.centers else level

    @property
    def is_numeric(self) -> bool:
        """Return whether the values are numbers."""
        numbers = [isinstance(level, (int, float)) and not isinstance(level, bool) for level in self.levels]
        return self.continuous or self.is_binned or (all(numbers) and bool(numbers))

    def is_missing(self, value: Any) -> bool:
        """Return whether a value means a missing value: None, NaN, one of `missing`, or a missing word."""
        if is_missing_value(value) or value in self.missing:
            return True
        return self.missing_words and is_missing_word(value) and value.strip() not in self.levels

    def codes(self, values: Any) -> tuple[np.ndarray, dict[Any, int]]:
        """Return the code of each value, UNKNOWN where it is not a level, and how often each unseen value occurs."""
        few = self._codes_of_few(values)
        if few is not None:
            return np.array(few, dtype=np.int32), {}
        if self.is_binned:
            return self._binned(values)
        if frames.is_numbers(values) and values.ndim == 1 and self._is_exact:
            return self._numbers(values)
        column = checked_dictionary(values, self.name)
        places = self._places
        codes = [frames.UNKNOWN] * len(column.values)
        unseen: dict[Any, int] = {}
        for place, (given, count) in enumerate(zip(column.values, column.counts.tolist(), strict=True)):
            if not count:
                continue
            value = plain_value(given, self.name)
            spelt = next((one for one in (value, *_spellings(value)) if one in places), self)
            codes[place] = places.get(spelt, frames.UNKNOWN)
            if spelt is not self or self.is_missing(value):
                continue
            if self.other is not None:
                codes[place] = places[self.other]
            else:
                unseen[value] = unseen.get(value, 0) + count
        return column.spread(codes, frames.UNKNOWN, np.int32), unseen

    def _codes_of_few(self, values: Any) -> list[int] | None:
        """Return the codes of a few values, looked up one by one; None if one needs the full conversion."""
        if isinstance(values, np.ndarray) and len(values) < frames.SHORT and frames.is_numbers(values):
            values = values.tolist()
        if not frames.is_short_list(values):
            return None
        places, edges = self._places, self.edges
        codes = []
        for value in values:
            if isinstance(value, np.generic):
                value = value.item()
            kind = type(value)
            if value is None or (kind is float and value != value):
                codes.append(frames.UNKNOWN)
            elif edges and (kind is int or kind is float) and -MOST_NUMBER < value < MOST_NUMBER:
                codes.append(frames.UNKNOWN if value in self.missing else bisect_right(edges, value))
            elif not edges and (kind is str or kind is int or kind is float) and value in places:
                codes.append(places[value])
            else:
                return None
        return codes

    def numbers(self, values: Any) -> np.ndarray:
        """Return the values of a continuous column as float64, NaN where one is missing."""
        return numeric(values, self.name, self.missing, self.missing_words, "numbers")

    @cached_property
    def _places(self) -> dict[Any, int]:
        """The code of each level, and UNKNOWN for each value that means missing."""
        places: dict[Any, int] = {level: code for code, level in enumerate(self.levels)}
        return places | dict.fromkeys((*self.missing, None), frames.UNKNOWN)

    @cached_property
    def _is_exact(self) -> bool:
        """Whether the levels are numbers that float64 represents exactly."""
        return all(isinstance(level, (int, float)) and abs(level) < 2**53 for level in self.levels)

    def _numbers(self, values: np.ndarray) -> tuple[np.ndarray, dict[Any, int]]:
        if values.dtype.kind in "iu" and len(values):
            low, high = int(values.min()), int(values.max())
            if high - low < FEW_NUMBERS and all(one in self._places for one in range(low, high + 1)):
                table = np.array([self._places[one] for one in range(low, high + 1)], dtype=np.int32)
                return table[values - low], {}
        levels = np.array([float(level) for level in self.levels])
        order = np.argsort(levels)
        numbers = values.astype(np.float64)
        place = np.minimum(np.searchsorted(levels[order], numbers), len(levels) - 1)
        codes = order[place].astype(np.int32)
        wrong = levels[codes] != numbers
        codes[wrong] = frames.UNKNOWN
        known = ~np.isnan(numbers) & ~np.isin(numbers, _as_floats(self.missing))
        found, count = np.unique(numbers[wrong & known], return_counts=True)
        return codes, {plain_value(value, self.name): int(n) for value, n in zip(found, count, strict=True)}

    def _binned(self, values: Any) -> tuple[np.ndarray, dict[Any, int]]:
        numbers, words = _numbers_and_words(values, self.name, self.missing, self.missing_words)
        _check_finite(numbers, self.name)
        codes = np.searchsorted(np.array(self.edges), numbers, side="right").astype(np.int32)
        codes[np.isnan(numbers)] = frames.UNKNOWN
        return codes, words


def numeric(
    values: Any, name: str, missing: Iterable[Label] = (), missing_words: bool = False, what: str = "numbers in bins"
) -> np.ndarray:
    """Return a column as float64, with NaN for missing values; SchemaError for words that are not numbers.

    `missing` and `missing_words` are those of `Column`; `what` says in errors what the column holds.
    """
    numbers, words = _numbers_and_words(values, name, missing, missing_words)
    if words:
        word = next(iter(words))
        raise SchemaError(
            f"it holds {what}, and {word!r} is not a number.",
            column=name,
            value=word,
            remedies=(missing_remedy(word), "name the levels of the column"),
        )
    if what == "numbers in bins":
        _check_finite(numbers, name)
    elif (wrong := first_beyond(numbers)) is not None:
        row, problem = wrong
        value = float(numbers[row])
        raise SchemaError(f"{value} {problem}", row=row, column=name, value=value, remedies=REPLACE)
    return numbers


def _check_finite(numbers: np.ndarray, name: str) -> None:
    """Raise SchemaError for an infinite number, naming its row."""
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        value = float(numbers[row])
        raise SchemaError(f"{value} is not a finite number.", row=row, column=name, value=value, remedies=REPLACE)


def _numbers_and_words(
    values: Any, name: str, missing: Iterable[Label], missing_words: bool
) -> tuple[np.ndarray, dict[Any, int]]:
    """Return a column as float64, NaN for missing values and words; and how often each word occurs."""
    words: dict[Any, int] = {}
    if frames.is_numbers(values):
        numbers: np.ndarray = values.astype(np.float64)
    else:
        column = checked_dictionary(values, name)
        codes, found = set(missing), np.full(len(column.values), np.nan)
        for place, (given, count) in enumerate(zip(column.values, column.counts.tolist(), strict=True)):
            value = plain_value(given, name) if count else None
            if value is None or value in codes or (missing_words and is_missing_word(value)):
                continue
            if is_number(value):
                found[place] = float(value)
            else:
                words[value] = words.get(value, 0) + count
        numbers = column.spread(found, np.nan, np.float64)
    if missing_numbers := _as_floats(missing):
        numbers[np.isin(numbers, missing_numbers)] = np.nan
    return numbers, words


def continuous_numbers(values: Any, name: str, missing: tuple[Label, ...] | None) -> np.ndarray:
    """Return a column declared continuous as float64; the error for text says not to declare it so."""
    try:
        return numeric(values, name, missing or (), missing is None, "numbers")
    except SchemaError as error:
        if not isinstance(error.value, str) or any(map(is_number, checked_dictionary(values, name).values)):
            raise
        told = f"it holds words, such as {error.value!r}, and no numbers."
        raise error.changed(message=told, remedies=Remedy("leave out {}", continuous=name)) from None


def missing_remedy(value: Any) -> Remedy:
    """Return the remedy for a value that stands for a missing one."""
    return Remedy("add it to the codes for missing values", "", missing=value)


def bin_labels(edges: Sequence[float]) -> list[str]:
    """Return a label for each bin between the edges, with the fewest digits that keep the edges distinct."""
    for digits in range(2, 18):
        shown = [plain_number(edge, digits) for edge in edges]
        if len(set(shown)) == len(shown) and all(
            abs(float(text) - edge) <= 0.005 * min(_gaps(edges)) for text, edge in zip(shown, edges, strict=True)
        ):
            break
    return bin_names(shown)


def _gaps(edges: Sequence[float]) -> list[float]:
    """Return the widths of the inner bins; for a single edge, its absolute value or 1."""
    return [b - a for a, b in pairwise(edges)] or [abs(edges[0]) or 1.0]


def plain_value(value: Any, name: str) -> Any:
    """Return a value as a label: None if it is missing, and an integer for any number that is whole."""
    if is_missing_value(value):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**MOST_BITS:
        return int(value)
    if isinstance(value, (str, bool, int, float)):
        return value
    raise SchemaError(
        f"it holds {value!r} of type {type(value).__name__}. Levels are words, numbers and truth values.",
        column=name,
        value=value,
        remedies=_remedy_for(value),
    )


def _remedy_for(value: Any) -> str:
    """Return the remedy for a value that cannot be a level."""
    if hasattr(value, "total_seconds"):
        return "turn it into a number, such as its hours (in pandas column.dt.total_seconds() / 3600)"
    if hasattr(value, "isoformat") or hasattr(value, "strftime"):
        return (
            "take a part of it that repeats, such as the month or the day of the week (in pandas column.dt.month), "
            "or leave it out"
        )
    return "turn it into one of these (in pandas column.astype(str))"


def checked_dictionary(column: Any, name: str, first: int = 0) -> frames.DictionaryColumn:
    """Return a column as a `DictionaryColumn`; SchemaError for a value that cannot be a level.

    Rows in errors are counted from `first`.
    """
    if frames.is_bare(column):
        column = frames.as_list(column)
    found = frames.dictionary_encoded(frames.as_list(column) if frames.is_numbers(column) else column)
    if not isinstance(found, frames.DictionaryColumn):
        found = frames.dictionary_encoded([plain_value(value, name) for value in found])
    plain: frames.DictionaryColumn = found
    for place, value in enumerate(plain.values):
        if type(value) is int and value.bit_length() >= 1024:
            digits = int(value.bit_length() * 0.30103) + 1
            raise SchemaError(
                f"a whole number of {digits:,} digits is larger than any number that can be computed with.",
                row=first + row_of(plain, place),
                column=name,
                value=value,
                remedies=("turn it into a word", "leave it unknown"),
            )
    return plain


def row_of(column: frames.DictionaryColumn, place: int) -> int:
    """Return the first row that has the distinct value at a position."""
    return int(np.argmax(column.codes == place))


def _spellings(value: Any) -> list[Any]:
    """Return other ways to write a value: 2 as "2", "2" as 2, "true" as True.

    A table may have words where the one the schema was inferred from had numbers.
    """
    if not isinstance(value, str):
        return [str(value), str(value).lower()]
    if value.lower() in ("true", "false"):
        return [value.lower() == "true", value.capitalize(), value.lower()]
    return [plain_value(float(value), value)] if is_number(value) else []


def _as_floats(values: Iterable[Label]) -> list[float]:
    return [float(value) for value in values if not isinstance(value, str)]
