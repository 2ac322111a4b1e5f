"""Forward and backward messages along sequences of slices, with steps as matrices that depend on the evidence.

A step is M(past, next) = P(next, what is seen in the slice | past). With f the distribution of the past given all
slices before, and b the likelihood of all slices after given the next:

    f' = f M / sum, handed on to the next slice            b of the slice before = M b
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..engines import blocks_of_rows

CELLS_AT_ONCE = 2**22
"""Cells of the steps of several sequences that are multiplied together: 32 MB."""


@dataclass(frozen=True, eq=False)
class SliceSteps:
    """The steps of all rows of some sequences, stored once for equal rows.

    Attributes:
        begins: where a sequence begins, (rows,).
        which: the distinct row that each row is.
        steps: for each distinct row, (past states, next states), but for a factor; or its logarithm for `best_path`.
        logs: the logarithm of that factor.
        handed_on: the state of the past that each state of the next is one slice later.
        start: the state of the past before the first slice.
    """

    begins: np.ndarray
    which: np.ndarray
    steps: np.ndarray
    logs: np.ndarray
    handed_on: np.ndarray
    start: int

    def _rows_by_time(self) -> list[np.ndarray]:
        """Return the rows of all sequences at each time."""
        first = np.flatnonzero(self.begins)
        lengths = np.diff(first, append=len(self.begins))
        return [first[lengths > time] + time for time in range(int(lengths.max(initial=0)))]

    def _blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        cells = max(1, self.steps.shape[1] * self.steps.shape[2])
        for part in blocks_of_rows(len(rows), max(1, CELLS_AT_ONCE // cells)):
            yield rows[part]

    def first_past(self) -> np.ndarray:
        """Return the `past` of the first rows of sequences, in which nothing exists yet; zero for other rows."""
        past = np.zeros((len(self.begins), self.steps.shape[1]))
        past[self.begins, self.start] = 1
        return past

    def forward(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the past of each row given earlier rows, its next given the row too, and its log-likelihood.

        With an impossible row its sequence ends: the log-likelihood of it, and of all after it, is -inf.
        """
        past = self.first_past()
        after = np.zeros((len(self.begins), self.steps.shape[2]))
        total = np.zeros(len(self.begins))
        for rows in self._rows_by_time():
            for some in self._blocks(rows):
                found = np.matmul(past[some, None, :], self.steps[self.which[some]])[:, 0]
                total[some] = found.sum(axis=1)
                after[some] = found / np.where(total[some] > 0, total[some], 1)[:, None]
            onwards = rows[rows + 1 < len(self.begins)]
            onwards = onwards[~self.begins[onwards + 1]]
            past[(onwards + 1)[:, None], self.handed_on[None, :]] = after[onwards]
        with np.errstate(divide="ignore"):
            return past, after, np.log(total) + self.logs[self.which]

    def backward(self) -> np.ndarray:
        """Return the likelihood of all rows after each row given its next, up to a factor."""
        ahead = np.ones((len(self.begins), self.steps.shape[2]))
        for rows in reversed(self._rows_by_time()[1:]):
            for some in self._blocks(rows):
                found = np.matmul(self.steps[self.which[some]], ahead[some, :, None])[:, :, 0]
                largest = found.max(axis=1, keepdims=True)
                ahead[some - 1] = (found / np.where(largest > 0, largest, 1))[:, self.handed_on]
        return ahead

    def best_path(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the most probable states of past and next of each row, and the log-weight of each sequence (Viterbi).

        The steps are logarithms of the largest products.
        """
        count = len(self.begins)
        score = np.full((count, self.steps.shape[1]), -np.inf)
        score[self.begins, self.start] = 0.0
        reached = np.full((count, self.steps.shape[2]), -np.inf)
        before = np.zeros((count, self.steps.shape[2]), dtype=np.int64)
        times = self._rows_by_time()
        for rows in times:
            for some in self._blocks(rows):
                both = score[some, :, None] + self.steps[self.which[some]]
                before[some] = both.argmax(axis=1)
                reached[some] = both.max(axis=1) + self.logs[self.which[some], None]
            onwards = rows[rows + 1 < count]
            onwards = onwards[~self.begins[onwards + 1]]
            score[(onwards + 1)[:, None], self.handed_on[None, :]] = reached[onwards]
        after = np.zeros(count, dtype=np.int64)
        past = np.zeros(count, dtype=np.int64)
        ends = np.flatnonzero(np.append(self.begins[1:], True)) if count else np.zeros(0, dtype=np.int64)
        after[ends] = reached[ends].argmax(axis=1)
        place = np.full(self.steps.shape[1], -1)
        place[self.handed_on] = np.arange(len(self.handed_on))
        for rows in reversed(times):
            past[rows] = before[rows, after[rows]]
            inner = rows[~self.begins[rows]]
            after[inner - 1] = place[past[inner]]
        return past, after, reached[ends].max(axis=1, initial=-np.inf)
