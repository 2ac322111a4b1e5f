"""Helpers for NumPy arrays: conversion to float64, equal numbers, and arrays that stay read-only after pickling."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

LARGEST_CONTINUOUS = 1e50
"""The largest number of a continuous column: fourth powers of larger ones, in standard errors, would overflow."""


def frozen(values: Iterable[object] | np.ndarray, dtype: type | str = np.int64) -> np.ndarray:
    """Return the values as a new read-only array of the given type."""
    array = np.array(values if isinstance(values, np.ndarray) else list(values), dtype=dtype)
    array.setflags(write=False)
    return array


def numbers(values: object) -> np.ndarray:
    """Return the values as a new float64 array; TypeError or ValueError for strings, complex numbers, ragged lists."""
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind not in "biufO" or (kind == "O" and any(isinstance(v, (str, bytes, complex)) for v in array.flat)):
        raise TypeError("not real numbers")
    return np.array(array, dtype=np.float64)


def is_masked(value: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return whether a value is a masked array of NumPy, whose module takes long to import, or its masked value."""
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray and np.ma.isMaskedArray(value)


@lru_cache(maxsize=64)
def equal_numbers(value: float, count: int) -> np.ndarray:
    """Return a read-only array in which all items are one number, stored only once in memory."""
    return np.ndarray((count,), np.float64, np.float64(value).tobytes(), strides=(0,))


class ReadOnlyArrays:
    """Base class whose array attributes are read-only again after unpickling, which NumPy does not ensure."""

    def __setstate__(self, state: dict[str, object]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)


def first_beyond(numbers: np.ndarray) -> tuple[int, str] | None:
    """Return the first row whose number is infinite or too large, and the reason as a text; None if there is none."""
    sizes = np.abs(numbers)
    if sizes.max(initial=0.0) <= LARGEST_CONTINUOUS:
        return None
    beyond = sizes > LARGEST_CONTINUOUS  # NaN is not
    if not beyond.any():
        return None
    row = int(beyond.argmax())
    endless = np.isinf(numbers[row])
    return row, "is not a finite number." if endless else f"is beyond {LARGEST_CONTINUOUS:g}, so its powers overflow."
