"""Schemas: the meaning of the columns of a table (levels and their order, codes for missing values, bins of numbers).

A `Schema` is inferred from a table, printed, changed, and saved with a model, so that later tables are read in the same
way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from ..core import printing, settings
from ..core.exceptions import (
    EmptyColumnWarning,
    Remedy,
    SchemaError,
    UnseenLevelWarning,
    counted,
    shortened,
    unknown_name,
    visible,
    warn,
)
from ..core.labels import Label, is_number
from . import frames, table_warnings
from .column_inference import continuous_column, inferred_column
from .columns import (
    STOP_AT_UNSEEN,
    Column,
    bin_labels,
    plain_value,
)
from .distinct_values import Distinct
from .frames import Coded

MOST_LEVELS = 50
"""The most distinct words of a column by default: with more it looks like a name or an identifier."""

BESIDE_LEVELS = 20
"""Terminal cells beside the name and the levels of a column in a printed schema."""

BINS = 5

UNSEEN = ("unknown", "error")

MOST_UNSEEN_LISTED = 3
"""The most columns that a warning of unseen levels lists."""


class Schema(Mapping[str, Column]):
    """A mapping from the names of the columns of a table to their descriptions.

    `Schema.infer(table)` infers it, `print` shows it, `schema.with_column("age", edges=[30, 60], levels=[...])` and
    `schema.without("id")` return a changed one.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns: dict[str, Column] = {}
        for column in columns:
            if not isinstance(column, Column):
                raise SchemaError(f"A Schema is made of Columns. Got {column!r} instead.", value=column)
            if column.name in self._columns:
                raise SchemaError("there are two columns of this name.", column=column.name)
            self._columns[column.name] = column

    @classmethod
    def infer(
        cls,
        data: Any,
        *,
        missing: Iterable[Label] | Label | None = None,
        bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        weights: Any = None,
        categories: Mapping[str, Sequence[Any] | None] | None = None,
        keep_empty: bool = False,
        continuous: Collection[str] | str = (),
    ) -> Schema:
        """Infer the schema of a table: words and few distinct numbers are levels, many numbers go into quantile bins.

        Args:
            data: a mapping of columns, any dataframe, or a `Stream` or what can be made one, which is read once with
                constant memory; weights are then the name of a column.
            missing: values that mean a missing value, besides None and NaN, in this table and in later ones. None for
                words such as "?", "NA" and "", as in files, with a warning; () keeps these as levels.
            bins: the number of bins of a column with many distinct numbers.
            max_levels: the maximum number of levels of a column of words or categories.
            weights: one weight per row, for the edges of bins.
            categories: the levels of some columns in order; categorical columns of a frame have their own.
            keep_empty: whether a column without any observed value is kept, without levels and with a warning,
                instead of being an error.
            continuous: the continuous columns, whose numbers are used without bins, for models that support them;
                "auto" for all columns that would have bins.
        """
        settings.whole("bins", bins, 2, SchemaError)
        settings.whole("max_levels", max_levels, 1, SchemaError)
        codes = None if missing is None else _missing_codes(missing)
        columns = _columns_of(data, weights)
        if not columns:
            raise SchemaError("This table has no column.")
        if weights is not None and not isinstance(weights, str) and not np.all(weights):
            kept = np.flatnonzero(weights)  # rows of weight zero are left out
            columns = {name: frames.select_rows(column, kept) for name, column in columns.items()}
            weights = np.asarray(weights)[kept]
        given = categories or {}
        named = () if continuous == "auto" else settings.one_or_more("continuous", continuous, SchemaError)
        for name in named:
            if name not in columns:
                raise unknown_name("column", name, columns)

        def described(name: str, column: Any) -> Column:
            if name in named:
                return continuous_column(name, column, codes)
            found = inferred_column(name, column, given.get(name), codes, bins, max_levels, weights)
            return continuous_column(name, column, codes) if continuous == "auto" and found.is_binned else found

        known: list[Column] = []
        unfit: list[SchemaError] = []
        for name, column in columns.items():
            try:
                known.append(replace(described(name, column), missing_words=codes is None))
            except SchemaError as error:
                unfit.append(error)
        if unfit:
            raise table_warnings.one_error_of_columns(unfit)
        found = cls(known)
        empty = [name for name, column in found.items() if not column.levels and not column.continuous]
        if empty and (not keep_empty or len(empty) == len(found)):
            remedy = Remedy(f"leave {'it' if len(empty) == 1 else 'them'} out", "", drop=...)
            raise SchemaError(f"{_columns_have(empty)} no known value.", value=tuple(empty), remedies=remedy)
        if empty:
            what = "it" if len(empty) == 1 else "them"
            text = f"{_columns_have(empty)} no known value, so nothing is learnt about {what}."
            warn(text, EmptyColumnWarning, value=tuple(empty))
        if codes is None:
            table_warnings.warn_of_missing_words(table_warnings.words_as_missing(found, columns))
        table_warnings.warn_of_names_like_values(found.values())
        return found

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except (KeyError, TypeError):
            raise unknown_name("column", name, self._columns) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __eq__(self, other: object) -> bool:
        return list(self.values()) == list(other.values()) if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._columns.values()))

    @property
    def states(self) -> dict[str, list[Label]]:
        """The levels by column, as `fgrn.lvm` and similar functions take them; columns without levels are left out."""
        return {name: list(column.levels) for name, column in self._columns.items() if column.levels}

    @property
    def continuous(self) -> tuple[str, ...]:
        """The names of the continuous columns, whose numbers are used without bins."""
        return tuple(name for name, column in self._columns.items() if column.continuous)

    def with_column(self, name: str, **changes: Any) -> Schema:
        """Return a schema with one column changed: its levels, edges, centers, missing, ordered or missing_words."""
        known = set(Column.__dataclass_fields__) - {"name"}
        for field in changes:
            if field not in known:
                raise unknown_name("part of a column", field, sorted(known))
        if "edges" in changes:
            edges = changes["edges"]
            numbers = isinstance(edges, (list, tuple, np.ndarray)) and all(
                isinstance(edge, (int, float, np.number)) and isfinite(edge) for edge in edges
            )
            if not numbers or not len(edges) or any(a >= b for a, b in pairwise(edges)):
                raise SchemaError(
                    f"the edges of bins are numbers that ascend. Got {edges!r}.", column=name, value=edges
                )
            changes.setdefault("levels", bin_labels(edges))
            changes.setdefault("centers", ())
        elif self[name].is_binned and "levels" in changes and len(list(changes["levels"])) != len(self[name].levels):
            changes |= {"edges": (), "centers": ()}
        changed = replace(self[name], **changes)
        return Schema(changed if column.name == name else column for column in self.values())

    def without(self, *names: str) -> Schema:
        """Return a schema without some of the columns."""
        for name in names:
            self[name]
        return Schema(column for column in self.values() if column.name not in names)

    def codes(self, data: Any, unseen: str = "unknown", kept: bool = False, learning: bool = False) -> dict[str, Any]:
        """Return the columns of a table as codes; unseen values are missing, with one warning for all.

        Columns without levels are left out; continuous ones are arrays of numbers, with NaN for missing values.

        Args:
            data: a mapping of columns or any dataframe; columns that are not in the schema are an error.
            unseen: "unknown" to treat a value that is not a level as missing, "error" to raise SchemaError.
            kept: whether the warning says that such values stay in the table, for imputation.
            learning: whether rows are learnt from: words in a column of numbers are then an error, as in its inference.
        """
        settings.choice("unseen", unseen, UNSEEN, SchemaError)
        columns = frames.columns(data, by_value=True)
        for name in columns:
            self[name]
        out: dict[str, Any] = {}
        strange: dict[str, dict[Any, int]] = {}
        for name, values in columns.items():
            column = self._columns[name]
            if column.continuous:
                out[name] = column.numbers(values)
            if not column.levels:
                continue
            codes, found = column.codes(values)
            out[name] = Coded(codes)
            if found:
                strange[name] = found
        words = {name: found for name, found in strange.items() if learning and self[name].is_binned}
        if words or (strange and unseen == "error"):
            raise SchemaError(**self.unseen_parts(words or strange))
        if strange:
            parts = self.unseen_parts(strange)
            parts["message"] += " Kept unchanged, and treated as unknown." if kept else " Treated as unknown."
            warn(kind=UnseenLevelWarning, remedies=STOP_AT_UNSEEN, **parts)
        return out

    def unseen_parts(self, strange: Mapping[str, Mapping[Any, int]]) -> dict[str, Any]:
        """Return the parts of a `Report` about values that are not among the levels.

        Args:
            strange: by column, such values and how often each is there.
        """
        told = [_unseen_text(self[name], found) for name, found in strange.items()]
        rest = [f"Column {name!r}: {text}" for name, text in zip(strange, told, strict=True)][1:MOST_UNSEEN_LISTED]
        left = len(told) - MOST_UNSEEN_LISTED
        more = [counted(left, "more column has such values.", "more columns have such values.")] if left > 0 else []
        name, found = next(iter(strange.items()))
        return {"message": " ".join([told[0], *rest, *more]), "column": name, "value": next(iter(found))}

    def as_dict(self) -> list[dict[str, Any]]:
        """Return the schema as lists and mappings, in the form of model files."""
        kept = []
        for column in self.values():
            record: dict[str, Any] = {"name": column.name, "levels": list(column.levels)}
            for field in ("edges", "centers", "missing"):
                if getattr(column, field):
                    record[field] = list(getattr(column, field))
            record |= {} if column.other is None else {"other": column.other}
            flags = ("ordered", "missing_words", "continuous")
            kept.append(record | {flag: True for flag in flags if getattr(column, flag)})
        return kept

    @classmethod
    def from_dict(cls, records: Sequence[Mapping[str, Any]]) -> Schema:
        """Return the schema from the form that `as_dict` returns."""
        return cls(Column(**dict(record)) for record in records)

    def __repr__(self) -> str:
        rows = []
        room = printing.room_beside(list(self), BESIDE_LEVELS)
        for column in self.values():
            codes = f"(missing: {_codes_text(column.missing)})" if column.missing else ""
            rows.append(
                [
                    column.name,
                    f"{len(column.levels):3}",
                    column.kind,
                    printing.listed(column.levels, 6, room)
                    or ("(without bins)" if column.continuous else "(nothing known)"),
                    codes,
                ]
            )
        heading = f"Schema of {counted(len(self), 'column')}"
        return "\n".join([heading, *([printing.text_table([], rows, 5, 2, printing.terminal_width())] if rows else [])])

    def _repr_html_(self) -> str:
        from html import escape

        def cells(column: Column) -> list[str]:
            return [f"{len(column.levels)}", column.kind, shortened(column.levels, 8), _codes_text(column.missing)]

        rows = "".join(
            f"<tr><th>{escape(visible(column.name))}</th>"
            + "".join(f"<td>{escape(visible(cell))}</td>" for cell in cells(column))
            + "</tr>"
            for column in self.values()
        )
        head = "<tr><th>column</th><th>states</th><th>kind</th><th>levels</th><th>missing</th></tr>"
        return f"<table><caption>Schema of {counted(len(self), 'column')}</caption>{head}{rows}</table>"


def _missing_codes(missing: Any) -> tuple[Label, ...]:
    """Return the codes for missing values; the word "-9" also gives the number, for columns of numbers."""
    codes = [plain_value(value, "missing") for value in settings.one_or_more("missing", missing, SchemaError)]
    numbers = [float(code) for code in codes if isinstance(code, str) and is_number(code)]
    every = dict.fromkeys([*codes, *(plain_value(number, "missing") for number in numbers)])
    return tuple(code for code in every if code is not None)


def _columns_of(data: Any, weights: Any) -> dict[str, Any]:
    """Return the columns of a table by value, or the distinct values of the columns of a stream."""
    if isinstance(data, Mapping):
        return (
            dict(data)
            if all(isinstance(one, Distinct) for one in data.values())
            else frames.columns(data, by_value=True)
        )
    if not frames.is_source(data):
        return frames.columns(data, by_value=True)
    from ..learning.encoding import checked_weight_name, rows_of_source

    return dict(rows_of_source(data).distinct(checked_weight_name(weights)))


def _codes_text(codes: Iterable[Label]) -> str:
    """Return the codes for missing values as text, without repeats of the same word or number."""
    return shortened([word or "''" for word in dict.fromkeys(map(str, codes))])


def _columns_have(names: Sequence[str]) -> str:
    """Return the subject and verb of a sentence about columns: "Column 'a' has", "Columns 'a', 'b' have"."""
    one = len(names) == 1
    return f"{'Column' if one else 'Columns'} {shortened(map(repr, names))} {'has' if one else 'have'}"


def _unseen_text(column: Column, found: Mapping[Any, int]) -> str:
    """Return a sentence about the values of a column that are not levels."""
    levels = shortened([repr(level) for level in found], 4)
    word = "level" if len(found) == 1 else "levels"
    rows = sum(found.values())
    if column.is_binned:
        what = "is not a number" if len(found) == 1 else "are not numbers"
        return f"{levels} {what}, in {rows:,} {'row' if rows == 1 else 'rows'}."
    return (
        f"{word} {levels} not seen in training (known: {shortened(column.levels, 6)}), "
        f"in {rows:,} {'row' if rows == 1 else 'rows'}."
    )
