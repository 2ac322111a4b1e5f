"""Checks of probability tables: real numbers, the right shape, rows that sum to one; and means of distributions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .arrays import numbers
from .exceptions import TableError

ROW_SUM_TOLERANCE = 1e-6
"""Largest accepted difference between the sum of a given row and one: files often round to 7 digits."""

FAINTEST = 1e-100
"""The value that replaces a probability of zero in a geometric mean."""


def frozen_array(values: ArrayLike | None, what: str) -> np.ndarray | None:
    """Return a table as a read-only float64 array, or None for None; TableError if it is not numeric."""
    if values is None:
        return None
    try:
        array = numbers(values)
    except (TypeError, ValueError):
        raise TableError(f"{what} is not a rectangular array of numbers.") from None
    array.setflags(write=False)
    return array


def check_distribution(array: np.ndarray, what: str, row_names: Sequence[object] = ()) -> None:
    """Raise TableError unless every row of a table is a distribution: finite, not negative, sum one."""
    rows = np.atleast_2d(array)
    bad = np.argwhere(~np.isfinite(rows) | (rows < 0))
    if len(bad):
        at, value = tuple(bad[0]), rows[tuple(bad[0])]
        where = f" in row {row_names[at[0]]!r}" if len(row_names) else ""
        raise TableError(f"{what} holds {value}{where}; probabilities are finite and not negative.")
    sums = rows.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)
    if len(off):
        where = f"row {row_names[off[0]]!r}" if len(row_names) else "it"
        more = f" ({len(off):,} rows are wrong)" if len(off) > 1 else ""
        hint = " Its columns do: is it transposed?" if _is_transposed(array) else ""
        raise TableError(f"{what} must sum to 1, but {where} sums to {sums[off[0]]:.9g}{more}.{hint}")


def _is_transposed(array: np.ndarray) -> bool:
    """Return whether the columns, instead of the rows, sum to one."""
    return array.ndim == 2 and bool(np.all(np.abs(array.sum(axis=0) - 1) <= ROW_SUM_TOLERANCE))


def normalised_rows(array: np.ndarray) -> np.ndarray:
    """Return a read-only table, each row divided by its sum; rows whose sum is within 1e-15 of one are kept."""
    sums = array.sum(axis=-1, keepdims=True)
    exact: np.ndarray = np.where(np.abs(sums - 1) < 1e-15, array, array / sums)
    exact.setflags(write=False)
    return exact


def geometric_mean(found: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """Return the distributions with the mean logarithm of those of several models, scaled to sum to one.

    A probability of zero counts as FAINTEST beside one that is not, so that there is a mean of any distributions. Where
    all of them are zero, or one is not a number, the mean is so, too.

    Args:
        found: (rows, states) of each model; those of one alone are returned as they are.
        weights: (rows, 1) of each model, which sum to one over the models; equal unless given.
    """
    if len(found) == 1:
        return found[0]
    every = np.array(found)
    logs = np.log(np.maximum(every, FAINTEST))
    mean_logs = logs.mean(axis=0) if weights is None else np.add.reduce(logs * np.array(weights), axis=0)
    likely = np.exp(mean_logs - np.maximum.reduce(mean_logs, axis=-1, keepdims=True)) * (every != 0).any(axis=0)
    mean: np.ndarray = likely / np.add.reduce(likely, axis=-1, keepdims=True)
    return mean


def checked_support(support: ArrayLike | None, shape: tuple[int, int], what: str) -> np.ndarray | None:
    """Return a read-only mask of the cells that may be positive, or None for None; TableError if it is not one."""
    if support is None:
        return None
    try:
        mask = numbers(support)
    except (TypeError, ValueError):
        mask = np.full(shape, np.nan)
    if not np.isfinite(mask).all():
        raise TableError(f"{what}: its 'support' is not a rectangular array of True and False.")
    mask = mask.astype(bool)
    if mask.shape != shape:
        raise TableError(f"{what}: its 'support' must have the shape {shape}. Got {mask.shape} instead.")
    if not mask.any(axis=1).all():
        raise TableError(f"{what}: its 'support' leaves row {int(np.argmin(mask.any(axis=1)))} without any cell.")
    mask.setflags(write=False)
    return mask
