"""Families of columns, a child with some parents: their rows counted, and the terms of a score summed over the cells.

The scores that structure search compares are sums over families, and that of a family is

    sum over cells of t(cell, a)  -  sum over joint states of the parents of t(joint state, a * states of the child)

where t is one of three terms (`kernels.families`) and a the prior count of a cell. Penalties are not added here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import NamedTuple

import numpy as np

from .kernels import families as kernels
from .row_blocks import in_order, thread_count

TERMS = {
    "likelihood": kernels.LIKELIHOOD,
    "dirichlet": kernels.DIRICHLET,
    "kept back": kernels.KEPT_BACK,
}

PREFIX = 4
"""Columns whose subsets are divided among threads, where all subsets are counted."""


class JointStates(NamedTuple):
    """The joint states of some columns that rows have, numbered: (rows,), and how many there are."""

    number: np.ndarray
    amount: int


@dataclass(frozen=True, eq=False)
class FamilyTable:
    """Rows in which all columns are known, as codes, and how they are to be scored.

    codes     (columns, rows), each column contiguous
    sizes     the number of states of each column
    weights   (rows,), or (1,) if all are equal
    train     rows from this one on are kept back, and scored under tables of the others
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
    def everything(self) -> JointStates:
        """All rows in one group: no parents."""
        return JointStates(np.zeros(self.rows, dtype=np.int32), 1)

    def refined(self, groups: JointStates, column: int) -> JointStates:
        """Groups of rows divided by the states of a column."""
        size = int(self.sizes[column])
        places = np.full(groups.amount * size, -1, dtype=np.int32)
        out = np.empty(self.rows, dtype=np.int32)
        return JointStates(out, kernels.refine(groups.number, self.codes[column], size, places, out))

    def scores(
        self, child: int, groups: JointStates, columns: Sequence[int] | np.ndarray, priors: np.ndarray
    ) -> np.ndarray:
        """Scores of a child, its parents the groups and one column more: for each of the columns, -1 for none."""
        asked = np.asarray(columns, dtype=np.int64)
        out = np.empty(len(asked))
        parts = np.array_split(np.arange(len(asked)), max(1, min(len(asked), 4 * (self.threads or thread_count()))))

        def one(part: np.ndarray) -> None:
            mine = asked[part]
            size = max((int(self.sizes[column]) for column in mine if column >= 0), default=1)
            counts, back = self._cells(groups.amount * size * int(self.sizes[child]))
            found, few = np.empty(len(mine)), np.empty(kernels.FEW)
            kernels.scores_beside(
                self.codes, self.sizes, child, groups.number, groups.amount, mine, self.weights, self.train,
                TERMS[self.term], priors[part], counts, back, few, found,
            )  # fmt: skip
            out[part] = found

        for _ in in_order(self.threads, one, [part for part in parts if len(part)]):
            pass
        return out

    def subsets(self, priors: np.ndarray, equivalent: bool, most: int) -> np.ndarray:
        """Sums of terms over the joint states of each subset of at most `most` columns, (priors, 2 ** columns).

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
            kernels.subset_terms(
                self.codes, self.sizes, self.weights, self.train, TERMS[self.term], priors, equivalent, prefix, first,
                most, np.empty(cells), np.empty(cells), np.empty(cells, dtype=np.int64),
                np.empty((width + 1, self.rows), dtype=np.int64), np.empty(width + 1, dtype=np.int64),
                np.empty(width + 1, dtype=np.int64), np.empty(kernels.FEW), out,
            )  # fmt: skip

        for _ in in_order(self.threads, one, range(2**first)):
            pass
        return out

    def _whole(self, prior: float) -> float:
        """The term of all rows in one cell."""
        weights = np.broadcast_to(self.weights, self.rows)
        count, back = float(weights[: self.train].sum()), float(weights[self.train :].sum())
        return float(kernels.one_term(TERMS[self.term], count, back, prior))

    def _cells(self, cells: int) -> tuple[np.ndarray, np.ndarray]:
        """Room for the counts of so many cells, the same for every call from a thread."""
        room = getattr(self._room, "arrays", None)
        if room is None or len(room[0]) < cells:
            size = max(cells, 4 * kernels.WIDE)
            room = self._room.arrays = (np.empty(size), np.empty(size if self.term == "kept back" else 1))
        return room
