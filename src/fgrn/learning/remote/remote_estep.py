"""The E-step over rows on the workers of a cluster: each worker counts its pieces, and the counts are added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...flow.counts import CountingMethod, Counts
from ...flow.esteps import Cannot, Recount
from . import pieces

if TYPE_CHECKING:
    from .cluster import Cluster


@dataclass(frozen=True, eq=False)
class RemoteEStep:
    """The E-step over rows on the workers of a cluster: see `em.WholeEStep`."""

    cluster: Cluster
    esteps: tuple[Any, ...]
    called: tuple[str, ...]
    rows: int

    batches = Cannot("rows on the workers of a cluster are not cut into batches")

    @property
    def method(self) -> CountingMethod:
        """See `EStep`. Each worker decides by the rows it has."""
        return CountingMethod(f"(on {len(self.esteps):,} pieces of the table at workers) any", self.rows, self.rows)

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        return self._total(pieces.count_piece, values)

    def cycles(self, values: np.ndarray) -> Recount:
        """See `WholeEStep`."""
        return lambda tables: self._total(pieces.recount_piece, values, tables)

    def _total(self, work: Callable[..., Counts], *tables: np.ndarray) -> Counts:
        with self.cluster.requests():
            parts = self.cluster.mapped(work, self.esteps, *map(self.cluster.shared, tables))
            sums = self.cluster.together(pieces.add_counts, parts)
            total: Counts = self.cluster.result(sums, parts, self.called, "counted")
            return total
