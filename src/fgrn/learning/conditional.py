"""Maximum conditional likelihood: the tables that best predict one variable, the target, from the others.

EM maximises the likelihood of whole rows, for all columns alike. To predict the target, better tables maximise

    sum over rows of weight * log P(target | the other columns)  -  strength * penalty

with gradients that are the expected counts with the target known, minus those with it unknown: one E-step over the rows
with their target, and over the same rows without it, whose weights are negative. Every row of a table is the softmax of
free numbers z, so that rows stay distributions, and missing values are summed out as in EM. With naive Bayes this is
multinomial logistic regression on indicators of the levels (Roos et al., 2005; Greiner and Zhou, 2002); with several
hidden states a class has several such regressions.

    penalty = 1/2 sum over cells of (z - z0)^2

where z0 is the logarithm of a reference table: that of the model as it was learnt (towards "fit"), or one that tells
nothing of the target (towards "independence"): each row is the mean, weighted by expected counts, of the rows that
differ from it in the state of the hidden variable alone. In columns whose levels have an
order the differences of z - z0 between neighbouring levels are squared instead, and a tenth of the squares of the
cells themselves is added: neighbouring levels have similar effects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..flow.esteps import EStep
from ..flow.parameters import Specification
from .optimiser import minimised

TOWARDS = ("independence", "fit")

OF_ITSELF = 0.1
"""The part of the penalty of an ordered column that applies to single cells, beside that for neighbouring levels."""

FAINTEST = 1e-12
"""A smaller probability starts as this one: z is finite."""

LEAST = 1e-30
"""A smaller probability counts as this one: no row becomes impossible."""


@dataclass(frozen=True)
class Penalty:
    """The penalty on refined tables: its strength, the reference it shrinks them to, and the ordered columns."""

    strength: float = 1.0
    towards: str = "independence"
    ordered: Collection[str] = ()

    def __post_init__(self) -> None:
        settings.number("strength", self.strength, LearningError)
        settings.choice("towards", self.towards, TOWARDS, LearningError)


def tables_of_states(spec: Specification, states: int) -> list[int]:
    """Return the numbers of the tables that have one or several rows for each state of the hidden variable."""
    both = enumerate(zip(spec.layout.table_shapes, spec.supports, strict=True))
    return [number for number, (shape, support) in both if support is None and not shape[0] % states]


class _LearntLines(NamedTuple):
    """The learnt cells: their places, at which of them a line of a table begins, and the line that each is in."""

    cells: np.ndarray
    begins: np.ndarray
    numbers: np.ndarray


class Conditional:
    """The conditional likelihood of a target in some rows, as a function of the tables of a model.

    Args:
        spec: which cells there are, and which of them are learnt.
        values: the tables to begin with.
        known: makes the E-step over the rows whose target is known; only "independence" needs it.
        gained: the E-step over these rows, and over the same rows without their target with negative weights.
        weight: of the rows.
        states: of the hidden variable that the target hangs on. Rows of a table that differ in its state alone tell
            something about the target, and "independence" is that they are equal; it is the slowest of the parents.
        compiled: whether it is maximised with a compiled kernel.
    """

    def __init__(
        self,
        spec: Specification,
        values: np.ndarray,
        known: Callable[[], EStep],
        gained: EStep,
        weight: float,
        states: int,
        compiled: bool = False,
    ) -> None:
        self._spec, self._values, self._states = spec, values, states
        self._known, self._gained, self.weight, self.compiled = known, gained, weight, compiled
        self.evaluations = 0

    @cached_property
    def _learnt_cells(self) -> np.ndarray:
        """Which cells are learnt."""
        found: np.ndarray = self._spec.learnt & self._spec.supported
        return found

    @cached_property
    def _learnt_lines(self) -> _LearntLines:
        """Where the learnt cells of each line (row of a table, or prior) are."""
        layout = self._spec.layout
        line = np.repeat(np.arange(len(layout.lines)), np.diff(layout.lines, append=layout.size))
        cells = np.flatnonzero(self._learnt_cells)
        _, begins, numbers = np.unique(line[cells], return_index=True, return_inverse=True)
        return _LearntLines(cells, begins, numbers)

    def values(self, z: np.ndarray) -> np.ndarray:
        """Return tables and priors: the softmax of z in every line, over the cells that may be positive."""
        cells, begins, numbers = self._learnt_lines
        values = self._values.copy()
        if len(cells):
            free = z[cells]
            free = np.exp(free - np.maximum.reduceat(free, begins)[numbers])
            values[cells] = free / np.add.reduceat(free, begins)[numbers]
        return values

    def log_likelihood(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum over rows of weight * log P(target | others), and its gradient."""
        cells, begins, numbers = self._learnt_lines
        values = self.values(z)
        likelihood, more = self.gain(values)
        if len(cells):
            free = more[cells]
            more[cells] = free - values[cells] * np.add.reduceat(free, begins)[numbers]
        return likelihood, more

    def gain(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum over rows of weight * log P(target | others) with some tables, and its gradient.

        The gradient is by the logarithms of the cells, as if these need not sum to one: how much larger the expected
        count of each cell is with the target known than with it unknown.
        """
        self.evaluations += 1
        found = self._gained.count(np.where(self._learnt_cells, np.maximum(values, LEAST), values))
        return found.log_likelihood, np.where(self._learnt_cells & (values > LEAST), found.values, 0.0)

    def maximised(
        self,
        penalty: Penalty,
        iterations: int = 100,
        tolerance: float = 1e-6,
        begin: np.ndarray | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """Return the z with the largest penalised likelihood, by L-BFGS from the given tables or another z."""
        start = _logarithms(self._values)
        centre = start if penalty.towards == "fit" else _logarithms(self._independent)
        pull = _Pull(self._spec, self._penalised, penalty, centre)

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            likelihood, slope = self.log_likelihood(z)
            cost, uphill = pull(z)
            return (cost - likelihood) / self.weight, (uphill - slope) / self.weight

        return minimised(loss, start if begin is None else begin, iterations, tolerance, stopped, self.compiled)

    @cached_property
    def _penalised(self) -> np.ndarray:
        """Which cells are penalised: all learnt ones except priors."""
        layout = self._spec.layout
        tables = [True] * len(layout.table_names)
        drawn: np.ndarray = self._learnt_cells & layout.spread(tables, [False] * len(layout.prior_names), np.bool_)
        return drawn

    @cached_property
    def _independent(self) -> np.ndarray:
        """Return tables that do not depend on the state of the hidden variable; those between hidden variables stay."""
        layout, centre = self._spec.layout, self._values.copy()
        counts = self._known().count(self._values).values
        for number in tables_of_states(self._spec, self._states):
            table = layout.table(self._values, number)
            parted = table.reshape(self._states, -1, table.shape[1])
            weight = layout.table(counts, number).sum(axis=1).reshape(self._states, -1, 1) + FAINTEST
            mean = (weight * parted).sum(axis=0) / weight.sum(axis=0)
            layout.table(centre, number)[...] = np.tile(mean, (self._states, 1))
        return centre


class _Pull:
    """The penalty at some z, and its gradient."""

    def __init__(self, spec: Specification, drawn: np.ndarray, penalty: Penalty, centre: np.ndarray) -> None:
        layout = spec.layout
        self._centre = centre
        ordered = [not set(group).isdisjoint(penalty.ordered) for group in layout.table_names]
        cells = [penalty.strength * (OF_ITSELF if is_ordered else 1.0) for is_ordered in ordered]
        self._cells = drawn * layout.spread(cells, [0.0] * len(layout.prior_names))
        steps = [penalty.strength if is_ordered else 0.0 for is_ordered in ordered]
        self._steps = drawn * layout.spread(steps, [0.0] * len(layout.prior_names))
        for number in range(len(layout.table_names)):
            layout.table(self._steps, number)[:, -1] = 0.0  # the last level has no next one

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        off = z - self._centre
        gaps = np.append(off[1:], 0.0) - off
        step = self._steps * gaps
        cost = 0.5 * float(self._cells @ off**2 + step @ gaps)
        uphill = self._cells * off - step
        uphill[1:] += step[:-1]
        return cost, uphill


def _logarithms(values: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.log(np.maximum(values, FAINTEST))
    return out
