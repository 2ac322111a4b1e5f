"""Evidence: any table becomes codes and distributions by variable; missing values are defined in `tables.missing`.

A value is a label, a code, missing, or a distribution. Hard values become codes; distributions are scaled to sum to
one, and the scale is kept per row, since it enters the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.arrays import equal_numbers, first_beyond, is_masked, numbers
from ..core.exceptions import EvidenceError, counted, shortened
from ..core.labels import Labels, bin_of, codes_of_labels, is_binned, takes_codes
from ..core.settings import check_states, name_of
from ..tables import frames
from ..tables.encoded import SOFT, Evidence, Variables, checked_weights, column_of_each
from ..tables.missing import MISSING, is_missing_value
from .plain_rows import MOST_PLAIN_ROWS, codes_of_few_rows, plain_row, type_of_codes

ROWS_AT_ONCE = 2**14
"""Rows of which all columns of numbers are encoded before the next: columns of one matrix share lines of the cache."""

WIDEST_LOOKUP = 2**16
"""Integers from the smallest to the largest in a column, to look each up in a table rather than sort them."""

UNKNOWN = frames.UNKNOWN


def encode(
    variables: Variables,
    data: frames.Data,
    weights: Any = None,
    rows: int | None = None,
    continuous: Sequence[str] = (),
) -> Evidence:
    """Return the evidence in a table; variables without a column are unknown, and a table without columns has one row.

    Args:
        variables: those of a network, or of any model.
        data: a mapping of columns, any dataframe, or a table that is encoded already.
        weights: one weight per row; those of a table that is encoded already go with it.
        rows: how many there are, if no column tells.
        continuous: the columns of numbers that are kept as they are, beside the codes.
    """
    if isinstance(data, Evidence):
        return data.numbered_by(variables)
    if weights is None and rows is None and not continuous and (one := plain_row(variables, data)) is not None:
        return one
    columns = frames.columns(data, by_value=True)
    if rows is None:
        rows = frames.row_count(columns) if columns else frames.rows_without_columns(data)
    numbers = _continuous_numbers(continuous, columns, rows)
    if continuous:
        columns = {name: column for name, column in columns.items() if name not in continuous}
    slot, soft_offset = column_of_each(variables, columns), np.full(len(variables.names), -1)
    for key in data if isinstance(data, Mapping) else ():
        if not isinstance(key, str) and name_of(key) in columns:  # a Variable
            check_states(key, variables.labels[variables.index[name_of(key)]])
    weights = checked_weights(weights, rows)
    log_scale = equal_numbers(0.0, rows)  # takes no room until there is a distribution
    if rows <= MOST_PLAIN_ROWS and (few := codes_of_few_rows(variables, columns, rows)) is not None:
        soft = np.zeros((rows, 0))
        return Evidence(
            few, soft, slot, soft_offset, log_scale, columns=tuple(columns), row_weights=weights, numbers=numbers
        ).marked_as_numbered(variables)
    codes = np.empty((rows, len(columns)), dtype=type_of_codes(variables, columns), order="F")
    soft_columns: list[np.ndarray] = []
    width = 0
    counted: list[tuple[_Column, np.ndarray | frames.Coded, np.ndarray]] = []
    for position, (name, values) in enumerate(columns.items()):
        if values is None:
            codes[:, position] = UNKNOWN
            continue
        edge = variables.index[name]
        column = _Column(name, variables.labels[edge])
        if column.is_counted(values):
            counted.append((column, values, codes[:, position]))
            continue
        codes[:, position], distributions = column.encode(values, rows)
        if distributions is not None:
            for measure in (np.max, np.sum):  # the largest first: the sum of the largest numbers overflows
                scale = np.where(codes[:, position] == SOFT, measure(distributions, axis=1), 1)
                scale = np.where(scale > 0, scale, 1)  # a row of zeros is impossible, and stays so
                log_scale = log_scale + np.log(scale)
                distributions = distributions / scale[:, None]
            soft_columns.append(distributions)
            soft_offset[edge] = width
            width += distributions.shape[1]
    for first in range(0, rows, ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        for column, values, out in counted:
            column.count(values, part, out)
    soft = np.concatenate(soft_columns, axis=1) if soft_columns else np.zeros((rows, 0))
    return Evidence(
        codes, soft, slot, soft_offset, log_scale, columns=tuple(columns), row_weights=weights, numbers=numbers
    )


def _continuous_numbers(names: Sequence[str], columns: Mapping[str, Any], rows: int) -> np.ndarray:
    """Return the numbers of continuous columns, (rows, names), NaN where missing; (rows, 0) without such columns."""
    if not any(name in columns for name in names):
        return np.zeros((rows, 0))
    out = np.empty((rows, len(names)), order="F")
    for place, name in enumerate(names):
        out[:, place] = np.nan if columns.get(name) is None else _numbers_of(columns[name], name)
    if first_beyond(out.T.ravel()) is not None:
        for name, found in zip(names, out.T, strict=True):
            if (wrong := first_beyond(found)) is not None:
                row, problem = wrong
                raise EvidenceError(f"{found[row]} {problem}", row=row, column=name, value=float(found[row]))
    return out


def _numbers_of(column: Any, name: str) -> np.ndarray:
    """Return the numbers of a continuous column as float64, NaN where one is missing."""
    if frames.is_numbers(column):
        found = np.asarray(column, dtype=np.float64)
    else:
        found = np.full(1 if frames.is_bare(column) else len(column), np.nan)
        for row, value in enumerate([column] if frames.is_bare(column) else frames.as_list(column)):
            if is_missing_value(value):
                continue
            if isinstance(value, (str, bytes)) or not isinstance(value, (int, float, np.number)):
                raise EvidenceError(f"{value!r} is not a number.", row=row, column=name, value=value)
            found[row] = float(value)
    return found


def known_names(evidence: Evidence) -> set[str]:
    """Return the variables whose state is known in every row."""
    return {evidence.columns[column] for column in np.flatnonzero((evidence.codes >= 0).all(axis=0)).tolist()}


@lru_cache(maxsize=1024)
def _codes_of_words(labels: Labels) -> dict[str, int]:
    """Return the codes of the labels that are words."""
    if isinstance(labels, range):
        return {}
    return {label: code for code, label in enumerate(labels) if isinstance(label, str)}


@dataclass(frozen=True)
class _Column:
    """Encodes one column: its name and the labels of its variable."""

    name: str
    labels: Labels

    def encode(self, column: Any, rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        if frames.is_bare(column):
            column = [column.tolist() if isinstance(column, np.ndarray) else column] * rows
        if isinstance(column, np.ndarray):
            if column.ndim == 2:
                return self._distributions(column)
            if column.ndim > 2:
                raise EvidenceError(f"it has {column.ndim} dimensions; it may have one or two.", column=self.name)
            if not is_masked(column) and column.dtype.kind in "biuf":
                return self._numbers(column), None
            column = list(column)
        return self._distinct(column) if isinstance(column, frames.DictionaryColumn) else self._values(column)

    def is_counted(self, column: Any) -> bool:
        """Return whether the values are codes already: plain numbers, for a variable whose states are numbered."""
        if isinstance(column, frames.Coded):
            return True
        plain = isinstance(column, np.ndarray) and column.ndim == 1 and not is_masked(column)
        return plain and column.dtype.kind in "biuf" and isinstance(self.labels, range)

    def count(self, column: np.ndarray | frames.Coded, rows: slice, out: np.ndarray) -> None:
        """Check and copy the codes of some rows of a column for which `is_counted`."""
        into = out[rows]
        if isinstance(column, frames.Coded):
            given = column.codes[rows]
            if given.min() < UNKNOWN or given.max() >= len(self.labels):
                raise EvidenceError("it holds a code that is neither the position of a state nor -1.", column=self.name)
            into[...] = given
            return
        part = column[rows]
        if part.dtype.kind != "f":
            if part.min() < 0 or part.max() >= len(self.labels):
                raise self._not_a_code(column)
            into[...] = part
            return
        unknown = np.isnan(part)
        values = np.where(unknown, 0, part)
        if self._is_no_code(values).any():
            raise self._not_a_code(column)
        into[...] = values
        into[unknown] = UNKNOWN

    def _is_no_code(self, values: np.ndarray) -> np.ndarray:
        wrong: np.ndarray = (values < 0) | (values >= len(self.labels)) | (values != np.floor(values))
        return wrong

    def _not_a_code(self, column: np.ndarray) -> EvidenceError:
        bad = self._is_no_code(np.where(np.isnan(column), 0, column))
        row = int(np.argmax(bad))
        return self._not_a_state(row, column[row].item(), int(bad.sum()))

    def _numbers(self, column: np.ndarray) -> np.ndarray:
        if len(column) and column.dtype.kind in "iu" and (spread := self._looked_up(column)) is not None:
            return spread
        distinct, inverse = np.unique(column, return_inverse=True)
        code = self._coder()
        try:
            found = [code(value) for value in distinct.tolist()]
        except KeyError:
            return self._values(column.tolist())[0]  # to find the first bad row, and say which
        return np.array(found, dtype=np.int32)[inverse]

    def _looked_up(self, column: np.ndarray) -> np.ndarray | None:
        """Return the codes of integers, by a table from the smallest to the largest; None if it would be too long."""
        low, high = int(column.min()), int(column.max())
        if high - low >= WIDEST_LOOKUP:
            return None
        offset = (column - column.dtype.type(low)).view(f"u{column.itemsize}")  # of narrow integers it may wrap round
        place = offset.astype(np.intp)
        seen = np.flatnonzero(np.bincount(place))
        table = np.full(high - low + 1, UNKNOWN, dtype=np.int32)
        code = self._coder()
        try:
            table[seen] = [code(low + int(value)) for value in seen]
        except KeyError:
            return self._values(column.tolist())[0]  # to find the first bad row, and say which
        codes: np.ndarray = table[place]
        return codes

    def _distinct(self, column: frames.DictionaryColumn) -> tuple[np.ndarray, np.ndarray | None]:
        code = self._coder()
        try:
            counted = zip(column.values, column.counts.tolist(), strict=True)
            codes = [code(value) if count else UNKNOWN for value, count in counted]
        except (KeyError, TypeError):  # a distribution, or no state: row by row, to say which it is
            return self._values(column.tolist())
        return column.spread(codes, UNKNOWN, np.int32), None

    def _values(self, values: Sequence[Any]) -> tuple[np.ndarray, np.ndarray | None]:
        codes = [UNKNOWN] * len(values)
        soft: np.ndarray | None = None
        code = self._coder()
        words, most = _codes_of_words(self.labels), len(self.labels) if isinstance(self.labels, range) else 0
        for row, value in enumerate(values):
            if value is None:
                continue
            if type(value) is str and value in words:  # what most values are: looked up without further questions
                codes[row] = words[value]
                continue
            if type(value) is int and 0 <= value < most:
                codes[row] = value
                continue
            if frames.is_distribution(value):
                if soft is None:
                    soft = np.ones((len(values), len(self.labels)))
                if isinstance(value, frames.Not):
                    soft[row] = self._without(row, value, code)
                    codes[row] = SOFT
                    continue
                if len(value) == len(self.labels) and all(is_missing_value(weight) for weight in value):
                    continue
                soft[row] = self._distribution(row, value)
                codes[row] = SOFT
                continue
            try:
                codes[row] = code(value)
            except (KeyError, TypeError):
                raise self._not_a_state(row, value) from None
        return np.array(codes, dtype=np.int32), soft

    def _without(self, row: int, value: frames.Not, code: Callable[[Any], int]) -> np.ndarray:
        """Return weights of 1 for every state that is not excluded, and 0 for the others."""
        weights = np.ones(len(self.labels))
        for state in value.states:
            try:
                found = code(state)
            except (KeyError, TypeError):
                found = UNKNOWN
            if found == UNKNOWN:
                raise self._not_a_state(row, state)
            weights[found] = 0.0
        return weights

    def _coder(self) -> Callable[[Any], int]:
        table, coded = codes_of_labels(self.labels), takes_codes(self.labels)

        def code(value: Any) -> int:
            if is_missing_value(value):
                return UNKNOWN
            if coded and isinstance(value, (bool, np.bool_)):  # true or false is not a position
                raise KeyError(value)
            return table[value.item() if isinstance(value, np.generic) else value]

        return code

    def _distributions(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if column.shape[1] != len(self.labels):
            raise EvidenceError(
                f"its distributions have {counted(column.shape[1], 'weight')}; it has "
                f"{counted(len(self.labels), 'state')} ({shortened(self.labels, 6)}).",
                column=self.name,
            )
        if column.dtype.kind not in "biuf":
            return self._values(list(column))  # type: ignore[return-value]
        soft = column.astype(np.float64)
        soft = soft.filled(np.nan) if is_masked(soft) else soft
        unknown = np.isnan(soft).all(axis=1)
        soft[unknown] = 1.0
        bad = np.flatnonzero(~np.isfinite(soft).all(axis=1) | (soft < 0).any(axis=1))
        if len(bad):
            self._distribution(int(bad[0]), soft[bad[0]])
        return np.where(unknown, UNKNOWN, SOFT).astype(np.int32), soft

    def _distribution(self, row: int, value: Any) -> np.ndarray:
        try:
            weights = numbers(value)
        except (TypeError, ValueError):
            raise self._error(row, value, f"{value!r} is not a list of numbers.") from None
        if weights.ndim != 1:
            raise self._error(row, value, f"a distribution has one dimension. Got the shape {weights.shape} instead.")
        if weights.shape != (len(self.labels),):
            states = f"{counted(len(self.labels), 'state')} ({shortened(self.labels, 6)})"
            raise self._error(row, value, f"a distribution of {counted(len(weights), 'weight')}, but it has {states}.")
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise self._error(row, value, f"the weights of a distribution are finite and not negative. Got {value!r}.")
        return weights

    def _error(self, row: int, value: Any, message: str, remedies: Sequence[str] = ()) -> EvidenceError:
        return EvidenceError(message, row=row, column=self.name, value=value, remedies=remedies)

    def _not_a_state(self, row: int, value: Any, count: int = 1) -> EvidenceError:
        hint = ""
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
        near = get_close_matches(text.lower(), [str(label).lower() for label in self.labels[:1000]], n=1)
        if any(str(label) == text for label in self.labels[:1000]):
            hint = "give it as another type (text and numbers differ) or without blanks, as the state is"
        elif isinstance(value, (int, float)) and is_binned(self.labels):
            place = bin_of(self.labels, value)
            own = "the bin that holds it" if place is None else f"the bin that holds it, {self.labels[place]!r}"
            hint = f"give {own}; the schema of an estimator does so: model.schema_.codes(X)"
        elif isinstance(value, float) and 0 < value < 1:
            hint = "write a distribution in one row as [[...]], a list of rows"
        elif text in (*MISSING, "."):
            hint = "if it stands for a missing value, replace it with None"
        elif isinstance(value, str) and near:
            hint = f"did you mean {next(repr(label) for label in self.labels if str(label).lower() == near[0])}?"
        more = f" ({count:,} rows have such a value.)" if count > 1 else ""
        return self._error(
            row, value, f"{value!r} is not one of its states (known: {shortened(self.labels)}).{more}", [hint]
        )
