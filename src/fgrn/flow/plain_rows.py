"""A few plain rows as codes: each value is looked up by itself, which is faster than operations on whole columns.

Anything else than a plain state in them, such as a distribution or an error, is left to `evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.arrays import equal_numbers, is_masked
from ..core.labels import Labels, code_type, codes_of_labels
from ..tables import frames
from ..tables.encoded import Evidence, Variables
from ..tables.frames import UNKNOWN

MOST_PLAIN_ROWS = 16
"""Up to so many rows are encoded value by value: an operation on a column takes as long as it takes for all of them."""


def plain_row(variables: Variables, data: frames.Data) -> Evidence | None:
    """The evidence in a mapping from names to single values; None if it is another table, or some value no plain state.

    Each value is looked up once: what is known of one row, the most frequent question, takes little time.
    """
    if data is None:
        data = {}
    elif type(data) is not dict:
        return None
    index, labels = variables.index, variables.labels
    edges, codes, most = list[int](), list[int](), 1
    for name, value in data.items():
        edge = index.get(name) if type(name) is str else None
        if edge is None:
            return None
        own = labels[edge]
        code = _plain_code(own, None if isinstance(own, range) else codes_of_labels(own), value)
        if code is None:
            return None
        edges.append(edge)
        codes.append(code)
        most = max(most, len(own))
    slot, soft_offset = np.full(len(labels), -1), np.full(len(labels), -1)
    for column, edge in enumerate(edges):
        slot[edge] = column
    none = np.zeros((1, 0))
    return Evidence(
        np.array([codes], dtype=code_type(most)), none, slot, soft_offset, equal_numbers(0.0, 1), columns=tuple(data),
        row_weights=equal_numbers(1.0, 1), numbers=none,
    )  # fmt: skip


def codes_of_few_rows(variables: Variables, columns: Mapping[str, Any], rows: int) -> np.ndarray | None:
    """Return the codes of a few rows, looked up one by one, (rows, columns); None if a value is not a plain state.

    Anything that is not a plain state (a distribution, an error) is left to the functions for whole columns.
    """
    if columns and all(type(column) is frames.Coded for column in columns.values()):
        return _checked_codes(variables, columns)
    found = []
    for name, column in columns.items():
        labels = variables.labels[variables.index[name]]
        if column is None:
            found.append([UNKNOWN] * rows)
            continue
        values = _plain_values(column, rows)
        codes = None if values is None else _plain_codes(labels, values)
        if codes is None:
            return None
        found.append(codes)
    return np.array(found, dtype=type_of_codes(variables, columns)).reshape(len(found), rows).T


def _checked_codes(variables: Variables, columns: Mapping[str, frames.Coded]) -> np.ndarray | None:
    """Return columns of codes side by side; None if one of them is not that of a state."""
    index, labels = variables.index, variables.labels
    states = [len(labels[index[name]]) for name in columns]
    codes = np.array([column.codes for column in columns.values()]).T
    is_state = (codes >= UNKNOWN) & (codes < states)
    return codes.astype(code_type(max(states))) if is_state.all() else None


def _plain_values(column: Any, rows: int) -> list[Any] | None:
    """Return the values of a short column as Python values."""
    if isinstance(column, list):
        return column
    if isinstance(column, np.generic):
        column = column.item()
    if type(column) in (str, int, float):
        return [column] * rows
    plain = isinstance(column, np.ndarray) and column.ndim == 1 and not is_masked(column)
    return column.tolist() if plain and column.dtype.kind in "iufU" else None


def _plain_codes(labels: Labels, values: list[Any]) -> list[int] | None:
    """Return the codes of some values; None if one of them is not a plain state."""
    table = None if isinstance(labels, range) else codes_of_labels(labels)
    codes = []
    for value in values:
        code = _plain_code(labels, table, value)
        if code is None:
            return None
        codes.append(code)
    return codes


def _plain_code(labels: Labels, table: Mapping[Any, int] | None, value: Any) -> int | None:
    """The code of a value, looked up in a table of those of labels if there is one; None if it is no plain state."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if value is None or (kind is float and value != value):
        return UNKNOWN
    if kind is not str and kind is not int and kind is not float:
        return None
    if table is not None:
        return table.get(value)
    is_code = isinstance(value, (int, float)) and 0 <= value < len(labels) and value == int(value)
    return int(value) if is_code else None


def type_of_codes(variables: Variables, columns: Mapping[str, Any]) -> type[np.signedinteger[Any]]:
    """Return the narrowest integer type that holds the states of these variables."""
    return code_type(max((len(variables.labels[variables.index[name]]) for name in columns), default=1))
