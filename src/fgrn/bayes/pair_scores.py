"""Scores of all pairs of columns as edges of a tree: their mutual information, less a penalty for parameters.

All pairs are counted at once, as products of blocks of rows written as zeros and ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ..engines import ONE_BLAS_THREAD

DIGITS = 12
"""Decimals of mutual information, in nats per row, that are compared: smaller differences are rounding errors."""

TILE = 2**11
"""States of columns whose pairs are counted at once: the counts of two such groups take 32 MB."""

BLOCK_CELLS = 2**20
"""Zeros and ones that are written out at once."""

LARGE_PAIR = 256
"""Joint states of two columns from which on rows are counted one by one: a product of zeros and ones takes longer."""

LARGE_PRODUCT = 2**26
"""Multiplications of such products, from which on they take longer than waking the threads of BLAS."""


class PairsOfColumns(Protocol):
    """The mutual information of all pairs of columns, from which a tree is found."""

    @property
    def sizes(self) -> Sequence[int]:
        """The number of levels of each column."""

    def information(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mutual information of every pair, in nats, and the weight of the rows where both are known."""


def score_of_edges(pairs: PairsOfColumns, rate: float, classes: int = 1) -> np.ndarray:
    """Return the score of each pair of columns: mutual information less the penalty for its parameters."""
    information, known = pairs.information()
    states = np.array(pairs.sizes) - 1
    added = classes * states[:, None] * states[None, :]
    score: np.ndarray = np.round(information - rate * added / np.where(known > 0, known, np.inf), DIGITS)
    return score


def rows_by_class(
    codes: np.ndarray, weights: np.ndarray, given: int | None, members: Sequence[int]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the codes of some columns, and weights, by class; rows without a class are left out."""
    if given is None:
        return [(codes, weights)]
    order = np.argsort(codes[:, given], kind="stable")
    borders = np.searchsorted(codes[order, given], np.arange(max(0, int(codes[:, given].max())) + 2))
    parts = [order[first:last] for first, last in pairwise(borders) if last > first]
    return [(np.asfortranarray(codes[np.ix_(rows, np.array(members))]), weights[rows]) for rows in parts]


@dataclass(frozen=True, eq=False)
class ColumnPairs:
    """Counts of all pairs of columns, by group of rows (class)."""

    sizes: Sequence[int]
    groups: Sequence[tuple[np.ndarray, np.ndarray]]  # codes (rows, columns) and weights

    def information(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mutual information of every pair given the group, in nats, and the weight of its rows."""
        count = len(self.sizes)
        gain, known = np.zeros((count, count)), np.zeros((count, count))
        tiles = list(self._tiles())
        work = sum(self.sizes) ** 2 * sum(len(codes) for codes, _ in self.groups)
        with ONE_BLAS_THREAD if work < LARGE_PRODUCT else nullcontext():
            for codes, weights in self.groups:
                for number, first in enumerate(tiles):
                    for second in tiles[number:]:
                        counts = self._counted(codes, weights, first, second)
                        gained, weight = _gain(counts, self._offsets(first), self._offsets(second))
                        gain[first, second] += gained
                        known[first, second] += weight
        gain, known = (np.triu(upper) + np.triu(upper, 1).T for upper in (gain, known))  # to the last bit the same
        return gain / np.where(known > 0, known, 1), known

    def counts(self, one: int, other: int) -> np.ndarray:
        """Return the weight of the rows with each pair of states of two columns, (states of one, of the other)."""
        columns = slice(one, one + 1), slice(other, other + 1)
        return sum((self._counted(codes, weights, *columns) for codes, weights in self.groups), start=np.zeros(()))

    def _tiles(self) -> Iterator[slice]:
        """Yield ranges of consecutive columns with not too many states in total."""
        first, states = 0, 0
        for number, size in enumerate(self.sizes):
            if states and states + size > TILE:
                yield slice(first, number)
                first, states = number, 0
            states += size
        yield slice(first, len(self.sizes))

    def _offsets(self, columns: slice) -> np.ndarray:
        return np.cumsum([0, *self.sizes[columns][:-1]])

    def _counted(self, codes: np.ndarray, weights: np.ndarray, first: slice, second: slice) -> np.ndarray:
        """Return the weight of rows with each pair of states of some columns and of others."""
        here, there = sum(self.sizes[first]), sum(self.sizes[second])
        if here * there >= LARGE_PAIR * len(self.sizes[first]) * len(self.sizes[second]):
            return self._histograms(codes, weights, first, second)
        equal = bool((weights == weights[0]).all()) if len(weights) else True
        kind = np.float32 if equal else np.float64  # whole numbers of so few rows are exact in both
        counts = np.zeros((here, there))
        step = max(2**6, BLOCK_CELLS // max(here, there))
        for begin in range(0, len(codes), step):
            block = codes[begin : begin + step]
            left = _indicators(block[:, first], self.sizes[first], kind)
            right = left if first == second else _indicators(block[:, second], self.sizes[second], kind)
            counts += left @ (right if equal else right * weights[begin : begin + step]).T
        return counts * weights[0] if equal and len(weights) else counts

    def _histograms(self, codes: np.ndarray, weights: np.ndarray, first: slice, second: slice) -> np.ndarray:
        """Return the counts of pairs of states, row by row, which is faster for columns with many states."""
        there = sum(self.sizes[second])
        counts = np.zeros((sum(self.sizes[first]), there))
        step = max(2**6, BLOCK_CELLS // len(self.sizes[second]))
        for begin in range(0, len(codes), step):
            left, right = (codes[begin : begin + step, some].astype(np.int64) for some in (first, second))
            places = np.where(right < 0, there, right + self._offsets(second))  # after the last: missing
            shares = np.repeat(weights[begin : begin + step], right.shape[1])
            for line, size, values in zip(self._offsets(first), self.sizes[first], left.T, strict=True):
                cells = np.where(values < 0, size, values)[:, None] * (there + 1) + places
                found = np.bincount(cells.ravel(), shares, (size + 1) * (there + 1)).reshape(size + 1, there + 1)
                counts[line : line + size] += found[:size, :there]
        return counts


def _indicators(codes: np.ndarray, sizes: Sequence[int], kind: Any) -> np.ndarray:
    """Return one-hot codes, (states of all columns, rows): one where a row has the state."""
    out = np.empty((sum(sizes), len(codes)), dtype=kind)
    line = 0
    for column, size in enumerate(sizes):
        values = np.ascontiguousarray(codes[:, column])
        for state in range(size):
            np.equal(values, state, out=out[line], casting="unsafe")
            line += 1
    return out


def _gain(counts: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weight * mutual information, and weight, of the tables that begin at these rows and columns."""

    def over_columns(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, columns, axis=1)

    def over_rows(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, rows, axis=0)

    left, right = over_columns(counts), over_rows(counts)
    weight = over_rows(left)
    cells = over_rows(over_columns(_times_log(counts)))
    return cells - over_rows(_times_log(left)) - over_columns(_times_log(right)) + _times_log(weight), weight


def _times_log(values: np.ndarray) -> np.ndarray:
    """Return x log x; 0 for 0."""
    out: np.ndarray = values * np.log(np.where(values > 0, values, 1))
    return out
