"""Tables that have been read already: codes in memory, on disk, or in pieces on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from .frames import Coded


class Kept(Protocol):
    """A place for arrays outside of memory; see `fgrn.disk`."""

    def kept(self, array: np.ndarray) -> np.ndarray:
        """The same array, in that place."""

    def made(self, count: int, dtype: Any, part: Callable[[slice], np.ndarray]) -> np.ndarray:
        """An array of so many numbers, made part by part."""

    def release(self) -> None:
        """Let go of the memory that arrays in it take."""


@dataclass(frozen=True, eq=False)
class Recorded(Mapping[str, Coded]):
    """A table that has been read already, all of it: the codes of its columns side by side, which may lie on disk."""

    names: tuple[str, ...]
    codes: np.ndarray
    weights: np.ndarray | None = None
    disk: Kept | None = None
    places: tuple[tuple[int, str, Sequence[int]], ...] = ()
    """Where rows come from: the first of them here, what they are a part of, and the number of each in that."""

    def place_of(self, row: int) -> str:
        """Where a row comes from, in words."""
        first, where, numbers = next(place for place in reversed(self.places) if place[0] <= row)
        return f"row {int(numbers[row - first]):,} of {where}"

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.codes)

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of every row."""
        return np.broadcast_to(np.ones(1), len(self.codes)) if self.weights is None else self.weights

    @cached_property
    def weight(self) -> float:
        """Of all rows together."""
        return float(self.row_weights.sum())

    def __getitem__(self, name: str) -> Coded:
        if name not in self.names:
            raise KeyError(name)
        return Coded(self.codes[:, self.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Spread:
    """A table that has been read already, and whose rows are on other machines; see `fgrn.cluster`."""

    names: tuple[str, ...]
    rows: int
    weight: float
    complete: bool
    """Whether every row knows the state of every variable."""
    weights: ClassVar[None] = None
    """Those of the rows are where these are."""

    @property
    def row_weights(self) -> np.ndarray:
        """Nothing that could be looked at here."""
        return np.zeros(0)

    def estep(self, here: Any, variables: Any) -> Any:
        """Who makes the Counts there, as who would make them here does, of the evidence on some variables."""
        raise NotImplementedError

    def about(self, slot: np.ndarray) -> dict[str, Any]:
        """See `checkpoints.of_rows`; `slot` is that of the evidence."""
        raise NotImplementedError
