"""Inference of what one column of a table means, from its values: levels, bins of numbers, or numbers as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from ..core.exceptions import ManyLevelsWarning, Remedy, SchemaError, counted, warn
from ..core.labels import Label
from . import frames, table_warnings
from .bins import binned_column
from .columns import (
    MOST_BITS,
    REPLACE,
    Column,
    checked_dictionary,
    continuous_numbers,
    missing_remedy,
    numeric,
    plain_value,
)
from .distinct_values import Distinct
from .equal_values import distinct
from .missing import is_missing_word
from .number_spelling import number_spelling, warn_of_numbers_as_words

PLACE = re.compile(r"x\d+")
"""The name of a column that has none, by its place: x0, x1, ..."""

MOST_NUMBERS, FEW_NUMBERS, REPEATS = 12, 3, 3
"""When the distinct numbers of a column are its levels: at most MOST_NUMBERS, and either at most FEW_NUMBERS or each in
REPEATS rows on average. Otherwise they are put into bins."""


def inferred_column(
    name: str,
    column: Any,
    categories: Sequence[Any] | None,
    missing: tuple[Label, ...] | None,
    bins: int,
    max_levels: int,
    weights: np.ndarray | None,
) -> Column:
    """Return the inferred description of one column."""
    table_warnings.check_column_name(name)
    rows, given = None, column
    if isinstance(column, Distinct):
        rows, (column, weights) = column.rows, column.column
    if isinstance(column, np.ndarray) and column.ndim != 1 and column.size:
        raise SchemaError(f"it has {counted(column.ndim, 'dimension')}, and a column of a table has one.", column=name)
    found = _distinct_values(column, name, rows is None)
    used = missing
    if used is None:
        used = tuple(value for value in found if is_missing_word(value) and value not in (categories or ()))
    ordered = categories is not None
    if categories is None and isinstance(column, frames.DictionaryColumn) and column.categorical:
        ordered = column.ordered
        categories = [value for value in column.values if missing is not None or not is_missing_word(value)]
    levels = [value for value in found if value not in used]
    rows = rows if rows is not None else 1 if frames.is_bare(column) else len(column)
    if categories is not None and (levels or not rows):  # a categorical column without any value has no levels
        levels = [plain_value(value, name) for value in categories if value not in used]
    if not levels:
        return Column(name, (), missing=used)
    if categories is None and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in levels):
        numbers = numeric(column, name, used)
        known = ~np.isnan(numbers)
        weight = float(known.sum() if weights is None else np.asarray(weights)[known].sum())
        if len(levels) > MOST_NUMBERS or (len(levels) > FEW_NUMBERS and weight < REPEATS * len(levels)):
            table_warnings.warn_of_long_numbers(name, levels, numbers[known])
            return binned_column(name, numbers, used, bins, weights)
        return Column(name, tuple(sorted(_storable_level(level, name) for level in levels)), missing=used, ordered=True)
    if len(levels) > max_levels:
        odd = table_warnings.words_among_numbers(dict.fromkeys(levels, 1)) if categories is None else []
        if odd:
            more = f" (nor {'is' if len(odd) == 2 else 'are'} {counted(len(odd) - 1, 'other word')})" if odd[1:] else ""
            row = None if isinstance(given, Distinct) else frames.as_list(column).index(odd[0])
            raise SchemaError(
                f"{odd[0]!r} is not a number{more}; the other {len(levels) - len(odd):,} distinct values are.",
                row=row,
                column=name,
                value=odd[0],
                remedies=(*REPLACE, _word_remedy(odd[0], row, name)),
            )
        if len(levels) <= rows / 2 and max_levels > 1:
            return _with_other(name, column, levels, max_levels, weights, used)
        what = "distinct values" if categories is None else "categories"
        raise table_warnings.too_many_levels(name, levels, rows, what, len(found) != len(levels))
    levels = [_storable_level(level, name) for level in levels]
    if categories is None:
        warn_of_numbers_as_words(name, levels)
        levels.sort(key=lambda value: (isinstance(value, str), value))
    return Column(name, tuple(levels), missing=used, ordered=ordered)


def _word_remedy(word: str, row: int | None, name: str) -> Remedy:
    """Return the remedy for a word among numbers; in the first row of a table without names it may be the name."""
    if row == 0 and PLACE.fullmatch(name):
        return Remedy("if the first row has the names of the columns, read the table", "header=True", header=None)
    return missing_remedy(word)


def continuous_column(name: str, column: Any, missing: tuple[Label, ...] | None) -> Column:
    """Return the description of a column whose numbers are taken as they are."""
    table_warnings.check_column_name(name)
    if isinstance(column, Distinct):
        column, _ = column.column
    numbers = continuous_numbers(column, name, missing)
    if np.isnan(numbers).all():
        raise SchemaError("it has no known number.", column=name, remedies=Remedy("leave it out", "", drop=name))
    return Column(name, (), missing=missing or (), continuous=True)


def _with_other(
    name: str, column: Any, levels: list[Any], most: int, weights: np.ndarray | None, missing: tuple[Label, ...]
) -> Column:
    """Return a column of the most frequent levels and one level for all other values, with a warning."""
    column = checked_dictionary(column, name)
    shares = column.counts if weights is None else np.bincount(column.codes + 1, weights, len(column.values) + 1)[1:]
    frequent: dict[Any, float] = dict.fromkeys(levels, 0.0)
    for given, share in zip(column.values, shares.tolist(), strict=True):
        value = plain_value(given, name)
        if value in frequent:
            frequent[value] += share
    ranked = sorted(levels, key=lambda level: (-frequent[level], str(level)))
    kept = sorted(ranked[: most - 1], key=lambda value: (isinstance(value, str), value))
    other = "other"
    while other in levels or other in missing:
        other += "_"
    share = sum(frequent[level] for level in ranked[most - 1 :]) / max(sum(frequent.values()), 1e-300)
    spelt, dates = number_spelling(levels), table_warnings.are_dates(levels)
    what = ", and are dates" if dates else "" if spelt is None else f", and are {spelt.what}"
    instead = table_warnings.PART_OF_DATE if dates else "" if spelt is None else spelt.remedy
    warn(
        f"{len(levels):,} levels are many{what}. "
        f"The {len(levels) - most + 1:,} rarest, in {share:.1%} of the rows, are one "
        f"level, {other!r}.",
        ManyLevelsWarning,
        column=name,
        remedies=(instead, Remedy("keep them all", max_levels=len(levels))),
    )
    return Column(name, (*(_storable_level(level, name) for level in kept), other), missing=missing, other=other)


def _storable_level(level: Any, name: str) -> Any:
    """Return a level as a model file can hold it: an integer of at most 64 bits, or an equal float."""
    if not isinstance(level, int) or level.bit_length() <= MOST_BITS:
        return level
    if int(float(level)) != level:
        raise SchemaError(
            f"{level} has more than {MOST_BITS} bits, so a model file cannot hold it as a level.",
            column=name,
            value=level,
            remedies="turn the values of the column into words",
        )
    return float(level)


def _distinct_values(column: Any, name: str, rows: bool) -> dict[Any, None]:
    """Return the distinct values of a column that are not missing; errors name the row if `rows` is true."""
    if frames.is_numbers(column):
        values = np.unique(column)
        values = values[values == values]  # without NaN
        found = dict.fromkeys(plain_value(value, name) for value in values)
    else:
        apart = checked_dictionary(column, name)
        table_warnings.check_text(apart, name, rows)
        found = distinct((plain_value(value, name) for value in apart.found), name)
    endless = next((value for value in found if value in (inf, -inf)), None)
    if endless is not None:
        row = None
        if rows:
            row, endless = next(
                (row, value) for row, value in enumerate(frames.as_list(column)) if value in (inf, -inf)
            )
        raise SchemaError(f"{endless} is not a finite number.", row=row, column=name, value=endless, remedies=REPLACE)
    return found
