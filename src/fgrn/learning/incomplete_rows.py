"""Prediction of rows with missing values by tables that were refined for the class.

Refined tables (see `learning.conditional`) predict the class of rows as complete as those they were refined on. Many
tables do so equally well: the cells of one level of a column may be multiplied by a factor, the same in all hidden
states, if the sums of the rows of tables are moved into the prior of the hidden variable. Complete rows then have the
same class probabilities as before, and rows with missing values have others. Here

1. the factors of all levels are found that maximise the conditional likelihood of the class in rows of which some
   values are hidden, by gradients that are differences of expected counts, as in `learning.conditional`;
2. held-out rows with hidden values tell how fast the weight of refined tables falls with the number of missing values
   (`RefinedWeight`). Beside them counts the network that was learnt by EM, in a geometric mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.distributions import geometric_mean
from ..core.refined_weight import RefinedWeight
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .optimiser import minimised

if TYPE_CHECKING:
    from .class_trials import Family

LEAST_ROWS, MOST_ROWS = 500, 4_000
"""The number of rows with hidden values: of fewer rows, each is used several times."""

MOST_WORK, LEAST_FOR_FACTORS = 2e8, 200
"""The work of finding factors for one model, about half a second, beyond which fewer rows are used; but so many rows in
any case."""

WORK_PER_SECOND, LARGEST_SHARE = 1e8, 0.2
"""The work of finding factors in one second, and the largest share of a budget of seconds that is kept for it."""

RIDGE = 1.0
"""The strength of the penalty on the squares of the logarithms of factors, in rows."""

ITERATIONS, TOLERANCE = 15, 1e-4
"""The most steps of the optimiser, and the gain per row at which it has converged."""

POWERS, USUAL_POWER = (0.5, 1.0, 2.0, 4.0, 8.0), 2.0
"""The powers of `RefinedWeight` that are compared, and the one that is used where there is no time for that."""

MOST_HELD_OUT, ENOUGH_HELD_OUT = 1_000, 300
"""The number of held-out rows of a fold that powers are compared on, and that of all folds from which on further folds
are left out."""

LEAST_CHANCE = 1e-6
"""A smaller probability of the true class counts as this one: a row of a class that a fold has not learnt from, which
the tables of EM have almost ruled out, must not decide alone."""

SEED = 3
"""Part of the seed by which values are hidden."""


def with_hidden_values(rows: Evidence, target: str, seed: int, most: int = MOST_ROWS) -> Evidence:
    """Return rows of known class with values hidden at random: in each row another share of them, up to all.

    Their total weight is that of the rows they are made from.
    """
    generator = np.random.default_rng([seed, SEED])
    known = np.flatnonzero(rows.codes[:, rows.columns.index(target)] >= 0)
    drawn = generator.permutation(known)[:most]
    times = max(1, -(-LEAST_ROWS // max(len(drawn), 1)))
    some = rows.take(np.tile(drawn, times))
    hidden = generator.random(some.codes.shape) < generator.random((some.rows, 1))
    hidden[:, rows.columns.index(target)] = False
    codes = np.where(hidden, np.asarray(UNKNOWN, dtype=some.codes.dtype), some.codes)
    return replace(some, codes=codes, row_weights=some.row_weights / times)


def with_level_factors(
    family: Family,
    model: Any,
    rows: Evidence,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = np.inf,
) -> Any:
    """Return a model that predicts the class of complete rows as before, and best that of rows with hidden values.

    Args:
        family: the structure.
        model: with refined tables.
        rows: with hidden values.
        stopped: asked whether to end at once, with the factors so far.
        seconds: approximately, how long this may take: so many rows are used, or none, and the model stays as it is.
    """
    work = 2 * ITERATIONS * family.size_of(model, rows)[2]
    least = min(LEAST_FOR_FACTORS, rows.rows)
    count = min(max(least, int(rows.rows * MOST_WORK / work)), rows.rows)
    if (needed := count / rows.rows * work / WORK_PER_SECOND) > seconds:
        count = int(count * seconds / needed)
    if count < least or stopped():
        return model
    some = rows.take(slice(0, count))
    task, levels = family.conditional(model, some), family.level_of_cells(model)
    inside, count = levels >= 0, int(levels.max(initial=-1)) + 1

    def tables(logarithms: np.ndarray) -> np.ndarray:
        return family.scaled(model, np.where(inside, logarithms[levels], 0.0))

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        likelihood, more = task.gain(tables(logarithms))
        slope = np.bincount(levels[inside], more[inside], count)
        cost = 0.5 * RIDGE * float(logarithms @ logarithms)
        return (cost - likelihood) / task.weight, (RIDGE * logarithms - slope) / task.weight

    best = minimised(loss, np.zeros(count), ITERATIONS, TOLERANCE, stopped, task.compiled)
    return family.with_tables(model, tables(best))


def seconds_to_keep(seconds: float | None, work: float, rows: int) -> float:
    """Return how many seconds of a budget to keep for finding the factors of one model.

    Args:
        seconds: the budget; without one, nothing is kept.
        work: of an E-step over the rows.
        rows: their number.
    """
    if seconds is None:
        return 0.0
    whole = 2 * ITERATIONS * work * min(1.0, MOST_ROWS / max(rows, 1))
    return min(LARGEST_SHARE * seconds, min(whole, MOST_WORK) / WORK_PER_SECOND)


@dataclass(frozen=True, eq=False)
class IncompletePredictions:
    """Class probabilities of held-out rows with hidden values, (rows, classes), by refined tables and by those of EM.

    known    (rows,): the number of known values
    classes  (rows,): the true class
    weights  (rows,)
    """

    refined: np.ndarray
    general: np.ndarray
    known: np.ndarray
    classes: np.ndarray
    weights: np.ndarray

    def loss(self, weight: RefinedWeight) -> float:
        """Return the sum over rows of weight * log-loss, with refined tables of this weight."""
        share = weight.weights(self.known)[:, None]
        chances = geometric_mean([self.refined, self.general], [share, 1 - share])
        told = chances[np.arange(len(chances)), self.classes]
        return -float(self.weights @ np.log(np.maximum(told, LEAST_CHANCE)))


def best_refined_weight(usual: float, parts: Sequence[IncompletePredictions]) -> RefinedWeight:
    """Return the weight of refined tables with the least log-loss in held-out rows with hidden values.

    Without any rows it is that of the usual power.
    """
    if not parts:
        return RefinedWeight(usual, USUAL_POWER)
    tried = [RefinedWeight(usual, power) for power in POWERS]
    return min(tried, key=lambda one: sum(part.loss(one) for part in parts))
