"""Tables filled in: unknown and partly known values replaced by the likeliest state, the rest left as it was."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from . import frames
from .labels import Labels, named, takes_codes
from .messages import Messages


def completed(
    data: frames.Data,
    beside: Collection[str],
    labels_of: Callable[[str], Labels],
    propagate: Callable[[frames.Data, list[str]], Messages],
) -> frames.Data:
    """The table, as the kind it came in. A column of codes is filled with codes, any other with labels.

    Columns `beside` the variables stay as they are.
    """
    columns = frames.columns(data)
    open_rows = {name: _open_rows(column) for name, column in columns.items() if name not in beside}
    wanted = [name for name, rows in open_rows.items() if rows.any()]
    found = propagate(columns or data, wanted)
    filled = {}
    for name in wanted:
        labels, column, rows = labels_of(name), columns[name], open_rows[name]
        codes = found.marginal(name).argmax(axis=1)
        values = (codes if _speaks_codes(labels, column, rows) else named(labels, codes)).tolist()
        if rows.ndim:
            values = [new if is_open else old for new, is_open, old in zip(values, rows, column, strict=True)]
        filled[name] = values
    return frames.replaced(data, columns, filled)


def _open_rows(column: Any) -> np.ndarray:
    """Which values of a column are unknown or distributions; one answer for one bare value."""
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return np.ones(len(column), dtype=bool)
    if isinstance(column, list) or (isinstance(column, np.ndarray) and column.ndim):
        return np.array([frames.is_unknown(v) or frames.is_distribution(v) for v in column], dtype=bool)
    return np.array(frames.is_unknown(column.tolist() if isinstance(column, np.ndarray) else column))


def _speaks_codes(labels: Labels, column: Any, open_rows: np.ndarray) -> bool:
    """Whether what is known in a column are the positions of states that have names."""
    if not open_rows.ndim or not takes_codes(labels):
        return False
    known = [value for value, is_open in zip(column, open_rows, strict=True) if not is_open]
    return bool(known) and all(isinstance(value, (int, float, np.number)) for value in known)
