"""Numbers of which one is added after every epoch, such as log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, overload

import numpy as np


class Series(Sequence[float]):
    """A sequence that does not change: one number more makes another one, in the memory of the first.

    So ten thousand epochs take the time of ten thousand numbers, not of their copies after every epoch.

    Attributes:
        largest_at: the index of its largest number, the first if there are several; -1 if it is empty.
    """

    __slots__ = ("_count", "_numbers", "largest_at")

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        self._numbers = list(numbers)
        self._count = len(self._numbers)
        self.largest_at = max(range(self._count), key=self._numbers.__getitem__, default=-1)

    def and_one(self, number: float) -> Series:
        """Return the sequence with one number more."""
        return self.and_all([number])

    def and_all(self, numbers: Sequence[float]) -> Series:
        """Return the sequence with some numbers more."""
        found = Series.__new__(Series)
        goes_on = len(self._numbers) == self._count  # else another sequence has gone on from here
        found._numbers = all_of_them = self._numbers if goes_on else self._numbers[: self._count]
        all_of_them.extend(numbers)
        found._count, found.largest_at = len(all_of_them), self.largest_at
        largest = max(numbers, default=-inf)
        if numbers and (self._count == 0 or largest > all_of_them[self.largest_at]):
            found.largest_at = self._count + numbers.index(largest)
        return found

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, which: int) -> float: ...

    @overload
    def __getitem__(self, which: slice) -> list[float]: ...

    def __getitem__(self, which: int | slice) -> float | list[float]:
        if isinstance(which, int) and -self._count <= which < self._count:
            return self._numbers[which if which >= 0 else which + self._count]
        return self._numbers[: self._count][which]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._numbers[: self._count], dtype=dtype)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
