"""Families of columns, a child with some parents: counts of their joint states, and the sum of a score's terms.

The scores that structure search compares are sums over families, and that of a family is

    sum over cells of t(cell, a)  -  sum over joint states of the parents of t(joint state, a * states of the child)

where t is one of three terms (`kernels.families`) and a the prior count of a cell. Penalties are not added here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from threading import local
from typing import NamedTuple

import numpy as np

from .bit_columns import BLOCK_WORDS, columns_as_bits
from .kernels import families as kernels
from .kernels import family_bits
from .kernels.arguments import BitRoom, CellRoom, ScoredBits, ScoredRows, SubsetRoom
from .row_blocks import in_order, thread_count

TERMS = {
    "likelihood": kernels.LIKELIHOOD,
    "dirichlet": kernels.DIRICHLET,
    "held out": kernels.HELD_OUT,
}

PREFIX = 4
"""Columns whose subsets are divided among threads, where all subsets are counted."""

MOST_CELLS_BY_BITS = 256
"""Cells of a family, but for one state of its last parent, that are counted in bits: more are counted row by row."""

CELLS_PER_VISIT = 400
"""Cells that are counted in bits in the time of visiting every row once."""

VISITS_AT_ONCE = 2**18
"""Visits to rows that are worth a thread."""


class JointStates(NamedTuple):
    """The joint states of some columns that occur in rows: the state of each row, (rows,), and their number."""

    number: np.ndarray
    amount: int


@dataclass(frozen=True, eq=False)
class FamilyTable:
    """Rows without missing values, as codes, with the score to compute.

    codes     (columns, rows), each column contiguous
    sizes     the number of states of each column
    weights   (rows,), or (1,) if all are equal
    train     rows from this one on are held out, and scored under tables of the others
    term      a key of TERMS
    threads   how many threads count; None for all processors
    """

    codes: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    train: int
    term: str
    threads: int | None = None
    _room: local = field(default_factory=local, init=False, repr=False)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.codes.shape[1])

    @cached_property
    def _scored(self) -> ScoredRows:
        """The rows as kernels take them."""
        return ScoredRows(self.codes, self.sizes, self.weights, self.train)

    @cached_property
    def everything(self) -> JointStates:
        """All rows in one group, for a child without parents."""
        return JointStates(np.zeros(self.rows, dtype=np.int32), 1)

    def refined(self, groups: JointStates, column: int) -> JointStates:
        """Return the groups of rows subdivided by the states of a column."""
        size = int(self.sizes[column])
        places = np.full(groups.amount * size, -1, dtype=np.int32)
        out = np.empty(self.rows, dtype=np.int32)
        return JointStates(out, kernels.refine(groups.number, self.codes[column], size, places, out))

    @cached_property
    def bits(self) -> ScoredBits | None:
        """The columns as bits, for counting small families; None if the weights do not allow it."""
        return columns_as_bits(self.codes, self.sizes, self.weights, self.train)

    @cached_property
    def _compared(self) -> np.ndarray:
        """(columns + 1,) states that a cell is compared with; one for no column, the last; infinity without bits."""
        if self.bits is None:
            return np.full(len(self.sizes) + 1, np.inf)
        return np.append(np.where(self.bits.first < 0, np.inf, np.maximum(self.sizes - 1, 1)), 1.0)

    def scores(self, child: int, parents: Sequence[int], columns: np.ndarray, priors: np.ndarray) -> np.ndarray:
        """Return the scores of a child whose parents are given columns and one more: each of `columns`, -1 for none.

        `priors` has the prior count of a cell for each of them.
        """
        family = [child, *parents]
        cells = prod(self.sizes[family].tolist())
        possible = bool((self._compared[family] < np.inf).all())
        compared = cells * self._compared[columns]
        small = compared <= (MOST_CELLS_BY_BITS if possible else 0)
        out = np.empty(len(columns))
        few, many = small.nonzero()[0], (~small).nonzero()[0]
        if self.bits is not None and len(few):
            above = np.array(parents, dtype=np.int64)
            work = partial(self._by_bits, self.bits, child, above, cells, columns, priors)
            self._shared(work, few, compared[few].sum() / CELLS_PER_VISIT, out)
        if len(many):
            groups = self.everything
            for parent in parents:
                groups = self.refined(groups, parent)
            self._shared(partial(self._by_rows, child, groups, columns, priors), many, len(many), out)
        return out

    def _shared(
        self, work: Callable[[np.ndarray], np.ndarray], some: np.ndarray, visits: float, out: np.ndarray
    ) -> None:
        """Compute the scores of some columns, on several threads if there is enough work."""
        threads = self.threads or thread_count()
        amount = 1 if threads == 1 else min(len(some), 4 * threads, round(visits * self.rows / VISITS_AT_ONCE))
        if amount <= 1:
            out[some] = work(some)
            return
        parts = np.array_split(some, amount)
        for part, found in zip(parts, in_order(threads, work, parts), strict=True):
            out[part] = found

    def _by_bits(
        self,
        bits: ScoredBits,
        child: int,
        parents: np.ndarray,
        cells: int,
        columns: np.ndarray,
        priors: np.ndarray,
        part: np.ndarray,
    ) -> np.ndarray:
        """Return the scores with some of the columns, counted with bits."""
        mine = columns[part]
        room = self._cells(cells * int(self.sizes[mine].sum()))  # for no column that of the last is room enough
        out = np.empty(len(mine))
        family_bits.scores_by_bits(bits, child, parents, mine, TERMS[self.term], priors[part], self._words(), room, out)
        return out

    def _by_rows(
        self, child: int, groups: JointStates, columns: np.ndarray, priors: np.ndarray, part: np.ndarray
    ) -> np.ndarray:
        """Return the scores with some of the columns, counted row by row."""
        mine = columns[part]
        room = self._cells(groups.amount * int(self.sizes[mine].max()) * int(self.sizes[child]))
        out = np.empty(len(mine))
        kernels.scores_beside(
            self._scored, child, groups.number, groups.amount, mine, TERMS[self.term], priors[part], room, out
        )
        return out

    def subsets(self, priors: np.ndarray, equivalent: bool, most: int) -> np.ndarray:
        """Return sums of terms over the joint states of each subset of at most `most` columns, (priors, 2 ** columns).

        A subset is the number with a bit for each of its columns. With `equivalent` a prior count is divided by the
        number of joint states of the subset. Larger subsets have zeros; so has the empty one, whose only joint
        state, all rows, is scored at once where `most` is 0.
        """
        width = len(self.sizes)
        out = np.zeros((len(priors), 2**width))
        first = min(PREFIX, width)
        out[:, 0] = [self._whole(prior) for prior in priors.tolist()]

        def one(prefix: int) -> None:
            cells = self.rows * int(self.sizes.max())
            room = CellRoom(np.empty(cells), np.empty(cells), np.empty(kernels.FEW))
            shapes = (cells, (width + 1, self.rows), width + 1, width + 1)
            walk = SubsetRoom(*(np.empty(shape, dtype=np.int64) for shape in shapes))
            kernels.subset_terms(
                self._scored, TERMS[self.term], priors, equivalent, prefix, first, most, room, walk, out
            )

        for _ in in_order(self.threads, one, range(2**first)):
            pass
        return out

    def _whole(self, prior: float) -> float:
        """Return the term of a cell that contains all rows."""
        weights = np.broadcast_to(self.weights, self.rows)
        count, held_out = float(weights[: self.train].sum()), float(weights[self.train :].sum())
        return float(kernels.one_term(TERMS[self.term], count, held_out, prior))

    def _cells(self, cells: int) -> CellRoom:
        """Return a buffer for the counts of this many cells, reused by all calls from one thread."""
        room: CellRoom | None = getattr(self._room, "cells", None)
        if room is None or len(room.counts) < cells:
            size = max(cells, 4 * kernels.WIDE)
            held_out = np.empty(size if self.term == "held out" else 1)
            room = self._room.cells = CellRoom(np.empty(size), held_out, np.empty(kernels.FEW))
        return room

    def _words(self) -> BitRoom:
        """Return a buffer for the rows of cells in a block of words, reused by all calls from one thread."""
        room: BitRoom | None = getattr(self._room, "words", None)
        if room is None:
            rows = np.empty((MOST_CELLS_BY_BITS, BLOCK_WORDS), dtype=np.uint64)
            room = self._room.words = BitRoom(rows, np.empty(MOST_CELLS_BY_BITS, dtype=np.uint64))
        return room
