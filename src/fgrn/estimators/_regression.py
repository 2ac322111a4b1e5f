"""Latent class regression in one step, by the common learning loop: class sizes are a function of the row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines import Engine
from ..graph import structures
from ..graph.network import Network
from ..learning.learn import EStepOf
from ..plan.plan import Plan
from ..statistics.continuous_items import ContinuousItems
from ..statistics.latent_classes import LatentClasses, Patterns
from ..statistics.one_step import RowSizes, SizesEStep
from ..tables.encoded import EncodedTable

REGRESSION_TOLERANCE = 1e-8
"""Gain per row below which EM has converged: Newton's method, near the maximum, does the rest."""


class RegressionNetwork(Network):
    """A network of latent classes whose prior differs from row to row, as a function of covariates."""

    sizes: RowSizes

    def _estep_for(
        self, engine: Engine, plan: Plan, paused: Collection[str], table: EncodedTable, **options: Any
    ) -> EStepOf:
        return lambda rows: SizesEStep(self.sizes, self._spec.layout)


def fit_with_sizes(
    options: Mapping[str, Any], sizes: RowSizes, rows: Patterns, starts: int, hidden: str
) -> tuple[LatentClasses, np.ndarray]:
    """Estimate latent classes whose sizes depend on covariates: returns the best start and all final objectives.

    Args:
        options: of learning.
        sizes: the classes to start from, and the covariates.
        rows: the rows to learn from.
        starts: how many; all but the first begin with random tables.
        hidden: a name for the hidden variable.
    """
    start = sizes.model
    states = dict(zip(start.names, start.levels, strict=True))
    leaves = None if start.numbers is None else replace(start.numbers.leaves, variable=hidden, start=None)
    given = dict(zip(start.names, start.tables, strict=True))
    flat = np.full(start.n_classes, 1 / start.n_classes)
    best, most = start, -np.inf
    finals: list[float] = []
    for count, tables in ((1, given), (starts - 1, {})):
        if not count:
            continue
        plain = structures.lvm(
            states, start.n_classes, name=hidden, tables={**tables, hidden: flat}, learn_prior=False, leaves=leaves
        )
        net = RegressionNetwork(plain.blocks, leaves=leaves)
        net.sizes = sizes
        if start.numbers is not None and tables:
            net._start_from_moments(start.numbers.moments)
        history = net.learn(rows.evidence(start.names), **{**options, "starts": count})
        ends = history.starts.tolist() or [float(history.objective[-1])]
        finals += ends
        if max(ends) > most:
            numbers = None if leaves is None else ContinuousItems.of(leaves, net.moments)
            if numbers is not None and start.numbers is not None:
                numbers = replace(numbers, constraints=start.numbers.constraints)
            tables_found = tuple(net.table(name) for name in start.names)
            best, most = replace(start, tables=tables_found, numbers=numbers), max(ends)
    return best, np.array(finals)
