"""Counts of complete data (no missing values, no hidden variables): one pass over the rows, without messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..engines import blocks_of_rows
from ..plan.plan import Layout
from ..tables.encoded import ROWS_TO_CHECK, Evidence
from .counts import CountingMethod, Counts
from .marginals import refuse_impossible


@dataclass(frozen=True, eq=False)
class CompleteDataEStep:
    """The E-step over complete data: the counts are the same in every epoch.

    `scopes` has, for every table and with its number, the variables whose joint states are its cells.
    """

    layout: Layout
    scopes: Sequence[tuple[int, Sequence[int], Sequence[int]]]  # table, variables, their numbers of states
    evidence: Evidence

    @property
    def method(self) -> CountingMethod:
        """See `EStep`: observed values are counted once."""
        return CountingMethod("counting of known values", self.evidence.rows, ROWS_TO_CHECK)

    def cells(self, variables: Sequence[int], sizes: Sequence[int], rows: slice) -> np.ndarray:
        """Return the cell of a table that each of some rows belongs to."""
        codes = self.evidence.codes[rows]
        out = np.zeros(len(codes), dtype=np.int64)
        for variable, size in zip(variables, sizes, strict=True):
            out *= size
            out += codes[:, self.evidence.slot[variable]]
        return out

    @cached_property
    def _counts(self) -> np.ndarray:
        out = np.zeros(self.layout.size)
        for rows in blocks_of_rows(self.evidence.rows, ROWS_TO_CHECK):
            for number, variables, sizes in self.scopes:
                table = self.layout.table(out, number)
                cells = self.cells(variables, sizes, rows)
                table += np.bincount(cells, self.evidence.row_weights[rows], minlength=table.size).reshape(table.shape)
            self.evidence.release()
        return out

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        seen = self._counts > 0
        if not (values[seen] > 0).all():
            self._refuse(values)
        likelihood = float(self._counts[seen] @ np.log(values[seen]))
        return Counts(self._counts, likelihood, self.evidence.weight)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `WholeEStep`: counts of complete data do not depend on the tables."""
        return self.count

    def batches(self, size: int, seed: int) -> Sequence[CompleteDataEStep]:
        """See `WholeEStep`."""
        if self.evidence.rows <= size:
            return [self]
        return [replace(self, evidence=part) for part in self.evidence.in_batches(size, seed)]

    def _refuse(self, values: np.ndarray) -> None:
        """Raise an error with the rows that are impossible under the tables."""
        found = []
        for rows in blocks_of_rows(self.evidence.rows, ROWS_TO_CHECK):
            impossible = np.zeros(rows.stop - rows.start, dtype=bool)
            for number, variables, sizes in self.scopes:
                impossible |= self.layout.table(values, number).ravel()[self.cells(variables, sizes, rows)] == 0
            found.append(rows.start + np.flatnonzero(impossible & (self.evidence.row_weights[rows] != 0)))
        refuse_impossible(np.concatenate(found))
