"""Imputation: missing values and distributions in a table are replaced by the most probable state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.labels import Labels, labels_of_codes, takes_codes
from ..flow.messages import Messages
from ..tables import frames, outputs
from ..tables.missing import is_missing_value
from ..tables.schema import Schema


def completed(
    data: frames.Data,
    beside: Collection[str],
    labels_of: Callable[[str], Labels],
    propagate: Callable[[frames.Data, list[str]], Messages],
) -> frames.Data:
    """Return a table of the same kind with missing values imputed; a column of codes gets codes, others labels.

    Columns in `beside` are not variables, and are not changed.
    """
    columns = frames.columns(data, by_value=True)
    open_rows = {name: _open_rows(column) for name, column in columns.items() if name not in beside}
    wanted = [name for name, rows in open_rows.items() if rows.any()]
    found = propagate(columns or data, wanted)
    filled = {}
    for name in wanted:
        labels, column, rows = labels_of(name), columns[name], open_rows[name]
        codes = found.marginal(name).argmax(axis=1)
        values = (codes if _has_codes(labels, column, rows) else labels_of_codes(labels, codes)).tolist()
        if rows.ndim:
            values = _merged(values, rows, frames.as_list(column))
        filled[name] = values
    return outputs.with_columns_replaced(data, columns, filled)


def impute(
    columns: Mapping[str, Any],
    data: Mapping[str, frames.Coded],
    schema: Schema,
    marginals: Callable[[list[str]], Mapping[str, np.ndarray]],
) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Return the columns with imputed levels or expected numbers, and the probability of each value, (rows, columns).

    A level that was not seen in training is kept, with probability 0.

    Args:
        columns: the table as it was read.
        data: the same columns as codes.
        schema: the levels and bins of the columns.
        marginals: returns the marginals of some columns in each row.
    """
    found = marginals([name for name, column in data.items() if schema[name].levels and column.unknown.any()])
    sure = np.ones((frames.row_count(columns), len(columns)))
    out: dict[str, list[Any]] = {}
    for position, name in enumerate(columns):
        if name not in found:
            continue
        column, belief, old = schema[name], found[name], frames.as_list(columns[name])
        unknown = data[name].unknown
        sure[unknown, position] = 0.0
        for row in np.flatnonzero(unknown).tolist():  # unseen levels are kept
            unknown[row] = column.is_missing(old[row])
        best = belief.argmax(axis=1)
        sure[unknown, position] = belief[unknown, best[unknown]]
        if column.centers:
            new: list[Any] = (belief @ np.array(column.centers)).tolist()
        else:
            new = [column.levels[code] for code in best.tolist()]
        out[name] = _merged(new, unknown, old)
    return out, sure


def impute_numbers(
    columns: Mapping[str, Any],
    data: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    sure: np.ndarray,
) -> dict[str, list[Any]]:
    """Return continuous columns with missing numbers replaced by their expectation, where `sure` is set to 0.

    A number has a density and no probability.

    Args:
        columns: the table as it was read.
        data: its continuous columns as numbers, NaN where one is missing.
        expected: by column the expected number in each row.
        sure: the probability of each value, (rows, columns), which is changed.
    """
    out: dict[str, list[Any]] = {}
    for position, name in enumerate(columns):
        if name in expected and np.isnan(data[name]).any():
            unknown = np.isnan(data[name])
            sure[unknown, position] = 0.0
            out[name] = _merged(expected[name].tolist(), unknown, frames.as_list(columns[name]))
    return out


def _merged(new: Sequence[Any], unknown: np.ndarray, old: Sequence[Any]) -> list[Any]:
    """Return a column with new values in the rows marked `unknown`, and old values in the others."""
    return [n if is_open else o for n, is_open, o in zip(new, unknown.tolist(), old, strict=True)]


def _open_rows(column: Any) -> np.ndarray:
    """Return which values of a column are missing or distributions; one answer for a bare value."""
    if isinstance(column, frames.DictionaryColumn):
        return column.spread([is_missing_value(v) or frames.is_distribution(v) for v in column.values], True, bool)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return np.ones(len(column), dtype=bool)
    if frames.is_numbers(column) and column.ndim:
        is_missing: np.ndarray = np.isnan(column)
        return is_missing
    if not frames.is_bare(column):
        return np.array([is_missing_value(v) or frames.is_distribution(v) for v in column], dtype=bool)
    return np.array(is_missing_value(column.tolist() if isinstance(column, np.ndarray) else column))


def _has_codes(labels: Labels, column: Any, open_rows: np.ndarray) -> bool:
    """Return whether the observed values of a column are positions of labelled states."""
    if not open_rows.ndim or not takes_codes(labels):
        return False
    if frames.is_numbers(column):
        return column.dtype.kind != "b" and not open_rows.all()
    if isinstance(column, frames.DictionaryColumn):
        known = [value for value in column.found if not (is_missing_value(value) or frames.is_distribution(value))]
    else:
        known = [value for value, is_open in zip(column, open_rows, strict=True) if not is_open]
    return bool(known) and all(isinstance(value, (int, float, np.number)) for value in known)
