"""Encoded tables: the codes of rows in memory, on disk, or on the workers of a cluster, and `Evidence`.

`Recorded` and `Spread` are tables by column; `Evidence` is what of a table concerns a network, by its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from .frames import UNKNOWN, Coded

SOFT = -2
"""The code of a value that is a distribution."""

ROWS_TO_CHECK = 2**20
"""Rows that are checked at a time, so that this takes next to no memory."""


class Kept(Protocol):
    """A place for arrays outside of memory; see `fgrn.tables.disk`."""

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
    """A table that has been read already, and whose rows are on other machines; see `fgrn.learning.remote.cluster`."""

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


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known, as arrays. Edge e has evidence if `slot[e] >= 0`.

    codes      (rows, columns): the state, UNKNOWN, or SOFT; column by column, of as few bytes as will do
    soft       (rows, width): distributions, those of edge e from column `soft_offset[e]` on; each sums to one,
               or is all zero where a value was impossible in itself
    log_scale  (rows,): the logarithm of what was taken out of the distributions
    begins     (rows,): where a sequence begins, if rows follow each other; else empty
    disk       where the arrays are, and where more can be kept, if that is not in memory
    """

    codes: np.ndarray
    soft: np.ndarray
    slot: np.ndarray
    soft_offset: np.ndarray
    log_scale: np.ndarray
    begins: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    disk: Kept | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.log_scale)

    @property
    def in_memory(self) -> bool:
        """Whether the codes are here, and not on disk or on other machines."""
        return self.disk is None and len(self.codes) == self.rows

    def scaled(self, log_scale: float) -> Evidence:
        """The same with more taken out of every row; one number for all of them takes no room."""
        same = len(self.log_scale) and self.log_scale.strides == (0,)
        scale = np.broadcast_to(self.log_scale[:1] + log_scale, self.rows) if same else self.log_scale + log_scale
        return replace(self, log_scale=scale)

    def take(self, rows: slice | np.ndarray) -> Evidence:
        """Some of the rows."""
        begins = self.begins[rows] if len(self.begins) else self.begins
        return Evidence(self.codes[rows], self.soft[rows], self.slot, self.soft_offset, self.log_scale[rows], begins)

    def edges(self) -> frozenset[int]:
        """The edges that have a column."""
        return frozenset(int(edge) for edge in np.flatnonzero(self.slot >= 0))

    def soft_edges(self) -> frozenset[int]:
        """The edges on which some row has a distribution."""
        return frozenset(int(edge) for edge in np.flatnonzero(self.soft_offset >= 0))

    def known(self, edge: int) -> np.ndarray:
        """Which rows say something about an edge."""
        if self.slot[edge] < 0:
            return np.zeros(self.rows, dtype=bool)
        known: np.ndarray = self.codes[:, self.slot[edge]] != UNKNOWN
        return known

    def is_complete(self, edge: int) -> bool:
        """Whether every row says something about an edge that has a column."""
        column = self.codes[:, self.slot[edge]]
        parts = (column[first : first + ROWS_TO_CHECK] for first in range(0, self.rows, ROWS_TO_CHECK))
        complete = not any((part == UNKNOWN).any() for part in parts)
        if self.disk is not None:
            self.disk.release()
        return complete

    def weights(self, edge: int, cardinality: int) -> np.ndarray:
        """The evidence on an edge as a (rows, states) array: ones where nothing is known."""
        if self.slot[edge] < 0:
            return np.ones((self.rows, cardinality))
        codes = self.codes[:, self.slot[edge]]
        out: np.ndarray = np.equal(codes[:, None], np.arange(cardinality)[None, :]).astype(np.float64)
        out[codes == UNKNOWN] = 1.0
        if self.soft_offset[edge] >= 0:
            where = codes == SOFT
            start = self.soft_offset[edge]
            out[where] = self.soft[where, start : start + cardinality]
        return out
