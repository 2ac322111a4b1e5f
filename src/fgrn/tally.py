"""Counts of a table in which everything is known: one pass over the rows, and no messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .counts import Counts
from .evidence import Evidence
from .marginals import refuse_impossible
from .plan import Layout


@dataclass(frozen=True, eq=False)
class Tally:
    """Who makes the Counts when every row knows every variable: they are the same in every epoch.

    `scopes` has, for every table and with its number, the variables whose joint states are its cells.
    """

    layout: Layout
    scopes: Sequence[tuple[int, Sequence[int], Sequence[int]]]  # table, variables, their numbers of states
    evidence: Evidence
    weights: np.ndarray
    _last: list[np.ndarray] = field(default_factory=list)

    @property
    def last_values(self) -> np.ndarray:
        """See `EStep`."""
        return self._last[-1]

    def cells(self, variables: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
        """The cell of a table that each row is in."""
        out = np.zeros(self.evidence.rows, dtype=np.int64)
        for variable, size in zip(variables, sizes, strict=True):
            out *= size
            out += self.evidence.codes[:, self.evidence.slot[variable]]
        return out

    @cached_property
    def _counts(self) -> np.ndarray:
        out = np.zeros(self.layout.size)
        for number, variables, sizes in self.scopes:
            table = self.layout.table(out, number)
            cells = self.cells(variables, sizes)
            table += np.bincount(cells, self.weights, minlength=table.size).reshape(table.shape)
        return out

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        self._last[:] = [values]
        seen = self._counts > 0
        if not (values[seen] > 0).all():
            self._refuse(values)
        likelihood = float(self._counts[seen] @ np.log(values[seen]))
        return Counts(self._counts, likelihood, float(self.weights.sum()))

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `EStep`. Counts of what is known do not depend on the tables."""
        return self.count

    def _refuse(self, values: np.ndarray) -> None:
        """Name the rows that are impossible under the tables."""
        impossible = np.zeros(self.evidence.rows, dtype=bool)
        for number, variables, sizes in self.scopes:
            impossible |= self.layout.table(values, number).ravel()[self.cells(variables, sizes)] == 0
        refuse_impossible(np.flatnonzero(impossible & (self.weights > 0)))


def is_complete(evidence: Evidence, variables: int) -> bool:
    """Whether every row knows the state of every variable."""
    return len(evidence.edges()) == variables and bool((evidence.codes >= 0).all())
