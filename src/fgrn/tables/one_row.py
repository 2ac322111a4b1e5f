"""Tables of one row or a few rows: their values by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.exceptions import EvidenceError, counted
from . import frames
from .frames import Data


def named_row(data: Data) -> dict[str, Any] | None:
    """Return the values of one row by name if this is a pandas Series indexed by column names, else None."""
    index = getattr(data, "index", None)
    if frames.kind_of(data) != "array" or type(data).__name__ != "Series" or index is None:
        return None
    names = list(index)
    return dict(zip(names, data.tolist(), strict=True)) if names and all(isinstance(n, str) for n in names) else None


def values_of_few_rows(data: Data) -> dict[str, list[Any]] | None:
    """Return the columns of a pandas frame of a few rows, if all values are words, numbers or None; else None.

    This is faster than reading column by column, and leaves out the categories of categorical columns.
    """
    if frames.kind_of(data) != "pandas" or not 0 < len(data) < frames.SHORT:
        return None
    rows = [data.iloc[0].tolist()] if len(data) == 1 else data.to_numpy(dtype=object).tolist()
    found: dict[str, list[Any]] = {}
    for name, values in zip(data.columns.tolist(), zip(*rows, strict=True), strict=True):
        column = found[name] = []
        for value in values:
            plain = value.item() if isinstance(value, np.generic) else value
            is_number = type(plain) is float or type(plain) is int
            # of numbers of different types in one row pandas makes float64, which does not hold all of them
            if type(plain) is not str and plain is not None and not (is_number and not abs(plain) >= 2.0**53):
                return None
            column.append(plain)
    return found


def only_row(data: Data, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the values by name of a table of one row, or of a list of values in the order of `names`."""
    row = named_row(data)
    if row is not None:
        return row
    if names is not None:
        array = np.asarray(data, dtype=object)
        if array.size != len(names):
            raise EvidenceError(f"One row has {counted(len(names), 'value')}. Got {array.size} instead.")
        return dict(zip(names, array.ravel().tolist(), strict=True))
    found = frames.columns(data)
    if frames.row_count(found) != 1:
        raise EvidenceError(f"One row is wanted here. This table has {frames.row_count(found):,}.")
    return {name: column if frames.is_bare(column) else column[0] for name, column in found.items()}
