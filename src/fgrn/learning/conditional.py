"""Maximum conditional likelihood: the tables that best tell one variable, the target, from the others.

EM makes whole rows likely, all columns alike. Where it is the target that is asked for, better tables maximise

    sum over rows of weight * log P(target | the other columns)  -  strength * penalty

with gradients that are the difference of two E-steps: the expected counts with the target known, less those with it
unknown. Every row of a table is the softmax of free numbers z, so that tables stay tables, and a missing value is
summed out as ever. With naive Bayes this is multinomial logistic regression on indicators of the levels (Roos et al.,
2005; Greiner and Zhou, 2002); with several hidden states a class has several such regressions.

    penalty = 1/2 sum over cells of (z - z0)^2

where z0 is the logarithm of a reference table: that of the network as it was learnt (towards "fit"), or in each row the
mean of all rows, of which nothing is told about the target (towards "independence"). In columns whose levels have an
order it is the differences of z - z0 between neighbouring levels that are squared, and a tenth of the squares of the
cells themselves is added: what is told of a level is close to what is told of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..flow.counts import LocalEStep
from ..tables.frames import Coded
from .execution import engine_for
from .optimiser import minimised

TOWARDS = ("independence", "fit")

OF_ITSELF = 0.1
"""The part of the penalty that an ordered column has for its cells, beside that for neighbouring levels."""

CALLS = 100
"""How often the rows are counted, roughly: what is worth an engine depends on all of them."""

FAINTEST = 1e-12
"""A smaller probability starts as this one: z is finite."""


@dataclass(frozen=True)
class Penalty:
    """How strongly tables are drawn to a reference, which one that is, and the columns whose levels have an order."""

    strength: float = 1.0
    towards: str = "independence"
    ordered: Collection[str] = ()

    def __post_init__(self) -> None:
        settings.number("strength", self.strength, LearningError)
        settings.choice("towards", self.towards, TOWARDS, LearningError)


class Conditional:
    """The conditional likelihood of a target in some rows, to be maximised over the tables of a network.

    Args:
        network: a tree of blocks, with the tables to begin with.
        data: codes by column, the target among them; rows where it is unknown are left out.
        target: the variable to be told.
        weights: one for each row; 1 unless given.
        engine: see `Network.learn`.
    """

    def __init__(
        self,
        network: Any,
        data: Mapping[str, Coded],
        target: str,
        weights: np.ndarray | None = None,
        engine: str = "auto",
    ) -> None:
        known = np.flatnonzero(data[target].codes >= 0)
        if not len(known):
            raise LearningError(f"There are no rows to learn from in which {target!r} is known.")
        rows = {name: Coded(column.codes[known]) for name, column in data.items()}
        weight = np.ones(len(known)) if weights is None else np.asarray(weights, dtype=np.float64)[known]
        self._network, self._spec = network, network._spec
        self._known = self._estep(rows, weight, engine)
        self._unknown = self._estep({name: column for name, column in rows.items() if name != target}, weight, engine)
        self.weight = float(weight.sum())
        self.evaluations = 0

    def _estep(self, rows: Mapping[str, Coded], weights: np.ndarray, engine: str) -> LocalEStep:
        network = self._network
        plan = network._plan(())
        encoded = network._encode(plan, rows, weights)
        return LocalEStep(
            engine=engine_for(engine, plan, CALLS * encoded.rows),
            plan=plan,
            programs=network._programs_for(plan, (), encoded),
            evidence=encoded,
            expect=True,
        )

    @cached_property
    def _line(self) -> np.ndarray:
        """The number of the line (row of a table, or prior) that each cell is in."""
        layout = self._spec.layout
        return np.repeat(np.arange(len(layout.lines)), np.diff(layout.lines, append=layout.size))

    @cached_property
    def _free(self) -> np.ndarray:
        """Which cells are learnt."""
        found: np.ndarray = self._spec.learnt & self._spec.supported
        return found

    def values(self, z: np.ndarray) -> np.ndarray:
        """Tables and priors: the softmax of z in every line, over the cells that may be filled."""
        lines = self._spec.layout.lines
        top = np.maximum.reduceat(np.where(self._free, z, -np.inf), lines)
        top[~np.isfinite(top)] = 0.0
        cells = np.where(self._free, np.exp(np.where(self._free, z - top[self._line], 0.0)), 0.0)
        total = np.add.reduceat(cells, lines)[self._line]
        return np.where(self._free, cells / np.where(total > 0, total, 1.0), self._network._parameters.values)

    def log_likelihood(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum over rows of weight * log P(target | others), and its gradient."""
        self.evaluations += 1
        values = self.values(z)
        seen = np.where(self._free, np.maximum(values, 1e-30), values)
        known, unknown = self._known.count(seen), self._unknown.count(seen)
        more = np.where(self._free, known.values - unknown.values, 0.0)
        slope = more - values * np.add.reduceat(more, self._spec.layout.lines)[self._line]
        return known.log_likelihood - unknown.log_likelihood, np.where(self._free, slope, 0.0)

    def maximised(
        self,
        penalty: Penalty,
        iterations: int = 100,
        tolerance: float = 1e-6,
        begin: np.ndarray | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """The z of the largest penalised likelihood, by L-BFGS from the network's tables, or from another z."""
        start = _logarithms(self._network._parameters.values)
        pull = _Pull(self, penalty, start)

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            likelihood, slope = self.log_likelihood(z)
            cost, uphill = pull(z)
            return (cost - likelihood) / self.weight, (uphill - slope) / self.weight

        return minimised(loss, start if begin is None else begin, iterations, tolerance, stopped)

    def network(self, z: np.ndarray) -> Any:
        """A copy of the network with the tables of z."""
        other = self._network.copy()
        other._parameters = replace(self._network._parameters, values=self.values(z))
        return other


class _Pull:
    """The penalty of some z, and its gradient."""

    def __init__(self, task: Conditional, penalty: Penalty, start: np.ndarray) -> None:
        spec, network = task._spec, task._network
        layout = spec.layout
        free = task._free.astype(np.float64)
        self._centre = start if penalty.towards == "fit" else _independent(network, start)
        ordered = [not set(group).isdisjoint(penalty.ordered) for group in layout.table_names]
        cells = [penalty.strength * (OF_ITSELF if is_ordered else 1.0) for is_ordered in ordered]
        self._cells = free * layout.spread(cells, [0.0] * len(layout.prior_names))
        steps = [penalty.strength if is_ordered else 0.0 for is_ordered in ordered]
        self._steps = free * layout.spread(steps, [0.0] * len(layout.prior_names))
        for number in range(len(layout.table_names)):
            layout.table(self._steps, number)[:, -1] = 0.0  # the last level has no next one

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        off = z - self._centre
        step = self._steps * np.diff(off, append=0.0)
        cost = 0.5 * float(self._cells @ off**2 + step @ np.diff(off, append=0.0))
        uphill = self._cells * off - step
        uphill[1:] += step[:-1]
        return cost, uphill


def _logarithms(values: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.log(np.maximum(values, FAINTEST))
    return out


def _independent(network: Any, start: np.ndarray) -> np.ndarray:
    """In every row of a table the logarithm of the mean row; tables with a support, and priors, as they are."""
    layout, values, centre = network._spec.layout, network._parameters.values, start.copy()
    alone = network.propagate(None, parts=["marginal"], engine="reference")
    for number, (group, support) in enumerate(zip(layout.table_names, network._spec.supports, strict=True)):
        if support is None:
            above = network._wiring.blocks[network._wiring.drivers[group[0]]].input.name
            shares = alone.marginal(above)[0]
            layout.table(centre, number)[...] = _logarithms(shares @ layout.table(values, number))
    return centre
