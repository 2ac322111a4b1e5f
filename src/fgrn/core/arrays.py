"""Arrays as this package keeps them: of real numbers, and read-only, also after they crossed processes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def frozen(values: Iterable[object] | np.ndarray, dtype: type | str = np.int64) -> np.ndarray:
    """A read-only array."""
    array = np.array(values if isinstance(values, np.ndarray) else list(values), dtype=dtype)
    array.setflags(write=False)
    return array


def numbers(values: object) -> np.ndarray:
    """A new array of float64; TypeError or ValueError for strings, complex numbers and ragged lists."""
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind not in "biufO" or (kind == "O" and any(isinstance(v, (str, bytes, complex)) for v in array.flat)):
        raise TypeError("not real numbers")
    return np.array(array, dtype=np.float64)


class ReadOnlyArrays:
    """Arrays stay read-only when they are unpickled or copied: NumPy forgets it."""

    def __setstate__(self, state: dict[str, object]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)
