"""Rows for a model: its columns in its types, batch by batch, with each warning printed once."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..core.exceptions import (
    FgrnWarning,
    Remedy,
    SchemaError,
    TableFileError,
    TableWarning,
    did_you_mean_instead,
    near_names,
    shortened,
)
from ..tables.columns import missing_remedy
from ..tables.number_spelling import AS_TEXT, number_spelling
from . import input_files
from .terminal import print_message
from .wording import spoken

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator
    from ..tables.columns import Column
    from ..tables.stream import Stream

MOST_NAMED = 3
"""The most words in a column of numbers that a remark names."""


class Remarks:
    """Remarks on rows, each printed once, however many batches there are."""

    def __init__(self, kept: bool = False) -> None:
        self._kept = kept
        self._said: set[str] = set()
        self._words: dict[str, list[str]] = {}
        self._times: Counter[str] = Counter()

    def remark(self, text: str) -> None:
        """Print a remark unless it was printed before."""
        if text not in self._said:
            self._said.add(text)
            print_message(text)

    def no_numbers(self, column: str, words: Counter[str]) -> None:
        """Count words in a column of numbers; of many different ones the first are remembered."""
        known = self._words.setdefault(column, [])
        known += [word for word in words if word not in known][: MOST_NAMED + 1 - len(known)]
        self._times[column] += words.total()

    def print_collected(self) -> None:
        """Print the remarks that need all batches."""
        for column, words in self._words.items():
            named = ", ".join(map(repr, words[:MOST_NAMED])) + (" and other words" if len(words) > MOST_NAMED else "")
            one, times = len(words) == 1, self._times[column]
            verb, them = ("is not a number", "it is") if one else ("are not numbers", "they are")
            kept = f" for the other columns, and kept as {them}" if self._kept else ""
            count = "once" if times == 1 else f"{times:,} times{'' if one else ' in all'}"
            told = f"{named} in column {column!r} {verb}: taken as unknown{kept}, {count}."
            self.remark(spoken(TableWarning(told, remedies=_reading(words))))


def matching(model: LatentEstimator, table: Any, remarks: Remarks | None = None) -> Any:
    """Return the columns of a model from a table, in its order; absent ones are missing in every row.

    `remarks` collects remarks over many batches; the caller prints them.
    """
    import pyarrow as pa

    names = list(model.schema_)
    mine = remarks or Remarks()
    present = dict(zip(table.column_names, table.columns, strict=True))
    if not present.keys() & set(names):
        raise SchemaError(
            f"This table has none of the columns of the model ({shortened(names)}). If its first line is data, add "
            "--no-header."
        )
    gone = [name for name in names if name not in present]
    if gone:
        others = [name for name in present if name not in model.schema_]
        near = {one: name for name in gone for one in near_names(name, others)[:1]}
        mine.remark(f"{shortened(gone)} not in this table: taken as unknown. {did_you_mean_instead(near)}".rstrip())
    unseen = str(model.unseen)
    found = {
        name: _as_learnt(present[name], model.schema_[name], unseen, mine)
        if name in present
        else pa.nulls(table.num_rows)
        for name in names
    }
    if remarks is None:
        mine.print_collected()
    return pa.table(found)


def _as_learnt(values: Any, column: Column, unseen: str, remarks: Remarks) -> Any:
    """Return a column in the type of the model: one file may have numbers where another also has words.

    `unseen` says, as for levels that are not known, whether such words are unknown or an error.
    """
    import pyarrow as pa

    if not column.is_numeric and pa.types.is_integer(values.type):
        return values.cast(pa.string())
    if not column.is_numeric or not pa.types.is_string(values.type):
        return values
    numbers: list[float | None] = []
    words: Counter[str] = Counter()
    for row, value in enumerate(values.to_pylist()):
        number = None if value is None else _number(value)
        numbers.append(number)
        if value is None or number is not None:
            continue
        if unseen == "error":
            raise SchemaError(
                f"{value!r} is not a number.",
                row=row,
                column=column.name,
                value=value,
                remedies=(*_reading([value]), missing_remedy(value), Remedy("take words as unknown", unseen="unknown")),
            )
        words[value] += 1
    if words:
        remarks.no_numbers(column.name, words)
    return pa.array(numbers, pa.float64())


def _reading(words: list[str]) -> tuple[Remedy | str, ...]:
    """Return how to have words read as numbers, if they write numbers in another way; nothing for other words."""
    spelt = number_spelling(words)
    return () if spelt is None or spelt is AS_TEXT else (spelt.remedy,)


def _number(word: str) -> float | None:
    """Return a word as a finite number, or None."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if isfinite(number) else None


def matched(model: LatentEstimator, rows: Stream, quiet: bool = False, kept: bool = False) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of a stream, each unchanged and as columns of a model.

    Warnings of later batches name the rows, counted over all batches; only the first of each kind is printed. `quiet`
    prints none. `kept` says in the remarks that words among numbers stay in the output.
    """
    remarks, first = Remarks(kept), 0
    told: set[type[Warning]] = set()
    for table in input_files.finite(rows, model.schema_):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                known = matching(model, table, remarks)
            except SchemaError as error:
                raise error.shifted(first) from None
            yield table, known
        for one in () if quiet else caught:
            if not isinstance(one.message, FgrnWarning) or (first and one.category in told):
                continue
            told.add(one.category)
            where = f"in rows {first:,} to {first + table.num_rows - 1:,}: " if first else ""
            remarks.remark(where + spoken(one.message.shifted(first)))
        first += table.num_rows
    if not quiet:
        remarks.print_collected()
        input_files.report_left_out(rows)
    if not first:
        raise TableFileError(f"{rows.called} holds no rows. A table has a line of names and at least one more.")
