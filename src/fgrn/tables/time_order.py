"""Rows of sequences sorted by time: the row of each step, the beginnings of sequences, and missing steps.

Tables of logs are often unsorted: rows of several sequences are mixed, and steps are missing. A missing step is
inserted as a row without values, so that the hidden state makes a transition there as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.exceptions import EvidenceError, FgrnWarning, Remedy, counted, warn
from . import frames
from .encoded import Evidence
from .missing import is_missing_value

MOST_INSERTED = 10
"""Missing steps for each row, at most, that are inserted where the step is found out."""

REGULAR = 0.5
"""The share of rows that come one step after the row before, at least, in times that have a regular step."""

ACCEPTED = Remedy("accept this", "HiddenMarkovModel(step=None)", step=None)


def check_two_columns(sequence: Any, time: Any) -> None:
    """Raise an error if the columns of sequences and of times have the same name."""
    if isinstance(sequence, str) and isinstance(time, str) and sequence == time:
        raise EvidenceError("is 'sequence' and 'time' at once.", column=sequence, remedies="name two columns")


@dataclass(frozen=True, eq=False)
class TimeOrder:
    """The rows of a table in the order of their sequences and times.

    rows     (steps,): the row of the table at each step; -1 for a step that the table does not have
    begins   (steps,): where a sequence begins
    names    the name of each sequence, in the order of their first rows
    as_given whether the rows are those of the table, in its order
    """

    rows: np.ndarray
    begins: np.ndarray
    names: tuple[Any, ...]
    as_given: bool = False

    @classmethod
    def of(cls, count: int, sequence: Any = None, time: Any = None, step: Any = "auto") -> TimeOrder:
        """Return the order in time of the rows of a table.

        Args:
            count: how many rows.
            sequence: which sequence each row belongs to; all are one unless given.
            time: when each row was; in the order of the table unless given.
            step: the time between two steps, of dates a timedelta or nanoseconds; "auto" finds it in whole numbers and
                dates, None inserts no steps.
        """
        step = as_nanoseconds(step)
        begins, numbers, names = _runs_of_sequences(sequence, count)
        if time is None and len(names) == len(numbers):
            return cls(np.arange(count), begins, names, as_given=True)
        ids = np.array(numbers, dtype=np.intp)[np.cumsum(begins) - 1]
        if time is None:
            order = np.argsort(ids, kind="stable")
            return cls(order, _changes(ids[order]), names)
        moments, numeric = _moments(time, count)
        order = np.lexsort((np.arange(count), moments, ids))
        begins = _changes(ids[order])
        _refuse_equal_times(order, begins, moments[order], sequence is not None)
        if not numeric and not (step is None or step == "auto"):
            raise EvidenceError(
                "is given, but the times are neither numbers nor dates.",
                setting="step",
                value=step,
                remedies=("give times that are numbers or ISO dates", Remedy("only order the rows", step=None)),
            )
        if not numeric or step is None or not count:
            return cls(order, begins, names)
        return cls(*_with_missing_steps(order, begins, moments[order], step), names)

    @property
    def ends(self) -> np.ndarray:
        """(sequences,): the last step of each sequence."""
        return np.append(np.flatnonzero(self.begins)[1:], len(self.rows)) - 1

    def evidence(self, table: Evidence) -> Evidence:
        """Return the rows of an encoded table in this order, with the missing steps inserted."""
        if self.as_given and table.disk is None:
            return table.with_arrays(begins=self.begins)
        codes = np.full((len(self.rows), table.codes.shape[1]), frames.UNKNOWN, dtype=table.codes.dtype, order="F")
        known = self.rows >= 0
        codes[known] = table.codes[self.rows[known]]
        numbers = np.full((len(self.rows), table.numbers.shape[1]), np.nan)
        numbers[known] = table.numbers[self.rows[known]]
        inner = Evidence.of_codes(table.columns, codes)
        return inner.with_arrays(begins=self.begins, numbers=numbers, inserted=~known)

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Return values of all steps in the order of the table, without the steps that were inserted."""
        if self.as_given:
            return values
        known = self.rows >= 0
        out = np.empty((int(known.sum()), *values.shape[1:]), dtype=values.dtype)
        out[self.rows[known]] = values[known]
        return out


def as_nanoseconds(step: Any) -> Any:
    """Return a step length that is a timedelta as a number of nanoseconds; anything else unchanged."""
    if isinstance(step, np.timedelta64):
        return int(step.astype("timedelta64[ns]").astype(np.int64))
    if isinstance(step, timedelta):
        return (step.days * 86_400 + step.seconds) * 10**9 + step.microseconds * 1000
    return step


def _changes(ids: np.ndarray) -> np.ndarray:
    """Return a mask of the values that differ from the one before."""
    begins = np.ones(len(ids), dtype=bool)
    begins[1:] = ids[1:] != ids[:-1]
    return begins


def _runs_of_sequences(sequence: Any, count: int) -> tuple[np.ndarray, list[int], tuple[Any, ...]]:
    """Return runs of consecutive rows of one sequence: their beginnings, sequence numbers, and the sequences' names.

    Sequences are numbered in the order of their first rows. There are more runs than names if they are mixed.
    """
    if sequence is None:
        begins = np.zeros(count, dtype=bool)
        begins[:1] = True
        return begins, [0] * min(count, 1), (0,) * min(count, 1)
    column = frames.dictionary_encoded(frames.as_column(sequence, "sequence"))
    if frames.is_bare(column) or len(column) != count:
        given = 1 if frames.is_bare(column) else len(column)
        raise EvidenceError(f"'sequence' has {counted(given, 'value')}, and the table has {count:,} rows.")
    if not isinstance(column, frames.DictionaryColumn) and not (isinstance(column, np.ndarray) and column.ndim == 1):
        row = next(row for row, value in enumerate(frames.as_list(column)) if not isinstance(value, Hashable))
        value = frames.as_list(column)[row]
        raise EvidenceError(f"{value!r} is not the name of a sequence.", row=row, value=value)
    keys = column if isinstance(column, np.ndarray) else column.codes
    begins = _changes(keys)
    number_of: dict[Any, int] = {}
    numbers = [number_of.setdefault(key, len(number_of)) for key in keys[begins].tolist()]
    names = list(number_of)
    if isinstance(column, frames.DictionaryColumn):
        names = [None if code == frames.UNKNOWN else column.values[code] for code in names]
    if any(map(is_missing_value, names)):
        unknown = next(place for place, one in enumerate(numbers) if is_missing_value(names[one]))
        row = int(np.flatnonzero(begins)[unknown])
        raise EvidenceError("it is not known which sequence this row belongs to.", row=row)
    return begins, numbers, tuple(names)


def _moments(time: Any, count: int) -> tuple[np.ndarray, bool]:
    """Return the time of each row in a sortable form, and whether it is numeric (dates in nanoseconds).

    Words are read as numbers if all of them are numbers, else as dates if all of them are ISO dates; other words are
    sorted as texts, with a warning.
    """
    values = frames.as_list(frames.as_column(time, "time"))
    if len(values) != count:
        raise EvidenceError(f"'time' has {counted(len(values), 'value')}, and the table has {count:,} rows.")
    for row, value in enumerate(values):
        if is_missing_value(value):
            raise EvidenceError("the time of this row is not known.", row=row, value=value)
    array = np.array(values)
    if array.dtype.kind == "O":
        array = _read_objects(values)
    if array.dtype.kind == "U":
        array = _read_words(array)
        if array.dtype.kind == "U":
            _warn_of_words(array)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise EvidenceError("the time of this row is infinite.", row=row, value=values[row])
    if array.dtype.kind in "mM":
        return array.astype("datetime64[ns]" if array.dtype.kind == "M" else "timedelta64[ns]").astype(np.int64), True
    return (array, True) if array.dtype.kind in "iuf" else (np.unique(array, return_inverse=True)[1].reshape(-1), False)


def _read_objects(values: list[Any]) -> np.ndarray:
    """Return dates, with or without time zones, or durations as NumPy's types; an error for other objects."""
    lengths = all(isinstance(value, timedelta) for value in values)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy's on time zones, which it converts to UTC
            return np.array(values, dtype="timedelta64[ns]" if lengths else "datetime64[ns]")
    except (TypeError, ValueError):
        raise EvidenceError(
            "Times are numbers, dates, lengths of time, or words that sort in their order, all of one kind."
        ) from None


def _refuse_equal_times(order: np.ndarray, begins: np.ndarray, moments: np.ndarray, parted: bool) -> None:
    """Raise an error if two consecutive rows of one sequence have the same time."""
    same = np.flatnonzero(~begins[1:] & (moments[1:] == moments[:-1]))
    if len(same):
        one, other = (int(order[place]) for place in (same[0], same[0] + 1))
        raise EvidenceError(
            f"this row has the same time as row {one} of its sequence, so that their order is not known.",
            row=other,
            remedies="leave one of them out, or correct its sequence or time"
            if parted
            else Remedy("say which sequence each row belongs to", sequence=...),
        )


def _read_words(words: np.ndarray) -> np.ndarray:
    """Return words as integers, numbers or ISO dates, the first type that fits all of them; else unchanged."""
    dated = all(word.strip()[:1].isdigit() for word in words.tolist())  # "now" and "today" are words
    for kind in ("int64", "float64", *(["datetime64[ns]"] if dated else [])):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # NumPy's on time zones, which it converts to UTC
                found = words.astype(kind)
        except (ValueError, OverflowError):
            continue
        if not (np.isnat(found) if found.dtype.kind == "M" else ~np.isfinite(found)).any():
            return found
    return words


def _warn_of_words(words: np.ndarray) -> None:
    """Warn that times are texts; give two whose sorted order differs from the order of the rows, if there are any."""
    turned = np.flatnonzero(words[1:] < words[:-1])
    first = str(words[int(turned[0]) + 1 if len(turned) else 0])
    example = f"{first!r} before {str(words[turned[0]])!r}" if len(turned) else f"such as {first!r}"
    warn(
        f"The times are neither numbers nor ISO dates, and are sorted as texts, letter by letter: {example}.",
        FgrnWarning,
        value=first,
        remedies="give numbers, dates, or texts such as 2024-12-31 or 2024-12-31T09:00",
    )


def _with_missing_steps(
    order: np.ndarray, begins: np.ndarray, moments: np.ndarray, step: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the order and the beginnings with steps inserted where times are more than one step apart."""
    apart = np.diff(moments, prepend=moments[:1]).astype(np.float64)
    apart[begins] = 0
    positive = apart[apart > 0]
    if not len(positive):
        return order, begins
    if step == "auto":
        if np.allclose(positive, positive[0], rtol=1e-6, atol=0):  # no step is missing
            return order, begins
        if (positive != np.round(positive)).any() or positive.max() >= 2**62:
            _warn_of_irregular_times()
            return order, begins
        length = float(np.gcd.reduce(positive.astype(np.int64)))
    else:
        if isinstance(step, bool) or not isinstance(step, (int, float, np.number)) or not step > 0:
            raise EvidenceError("must be a positive number, 'auto' or None.", setting="step", value=step)
        length = float(step)
    more = np.maximum(np.round(apart / length) - 1, 0)
    if more.sum() > MOST_INSERTED * len(order):
        if step != "auto":
            raise EvidenceError(
                f"is {step:g}, at which {more.sum():,.0f} steps are missing between {len(order):,} rows.",
                setting="step",
                value=step,
                remedies=("give a longer one", Remedy("take rows as consecutive steps", step=None)),
            )
        if (apart[apart > 0] == length).mean() < REGULAR:
            _warn_of_irregular_times()
        else:
            _warn_of_long_gap(int(order[apart.argmax()]), float(apart.max() / length))
        return order, begins
    gaps = more.astype(np.intp)
    places = np.arange(len(order)) + np.cumsum(gaps)
    rows = np.full(len(order) + int(gaps.sum()), -1, dtype=np.intp)
    rows[places] = order
    starts = np.zeros(len(rows), dtype=bool)
    starts[places[begins]] = True
    return rows, starts


def _warn_of_irregular_times() -> None:
    warn(
        "The times have no regular step, so that rows are taken as consecutive steps.",
        FgrnWarning,
        remedies=(ACCEPTED, Remedy("give the length of a step", "HiddenMarkovModel(step=...)", step=...)),
    )


def _warn_of_long_gap(row: int, steps: float) -> None:
    warn(
        f"a gap of {steps:,.0f} steps before this row is too long to insert the missing steps, so that rows follow "
        "each other whatever the time between them.",
        FgrnWarning,
        row=row,
        remedies=("correct the time", "begin another sequence after the gap", ACCEPTED),
    )
