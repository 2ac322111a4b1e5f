"""Candidates in the choice of a classifier: one structure and size, learnt from some rows and tested on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..core.distributions import geometric_mean
from ..tables.encoded import Evidence
from .calibration import Calibration, Predictions
from .choice_budget import Budget
from .conditional import Conditional, Penalty
from .criteria import ClassCandidate
from .cross_validation import PartedRows
from .incomplete_rows import (
    MOST_HELD_OUT,
    IncompletePredictions,
    seconds_to_keep,
    with_hidden_values,
    with_level_factors,
)

ITERATIONS = 30
"""The most steps of the optimiser with one penalty."""

EPOCHS, TOLERANCE = 60, 1e-5
"""The most epochs in which a candidate is learnt, and the gain per row at which the optimiser has converged."""

REFINED_ROWS = 200_000
"""Rows that the tables of the chosen model are refined on, at most."""


class Family(Protocol):
    """The protocol of classifiers of one structure with any number of hidden states, as the choice uses them."""

    @property
    def structure(self) -> str:
        """The name of the structure."""

    @property
    def target(self) -> str:
        """The column that is the class."""

    @property
    def seed(self) -> int:
        """The seed of what is random."""

    @property
    def refine(self) -> bool:
        """Whether tables may be refined for predicting the class."""

    @property
    def temper(self) -> bool:
        """Whether a temperature may be fitted."""

    @property
    def ordered(self) -> Sequence[str]:
        """The columns whose levels are ordered."""

    def new_model(self, size: int, rows: Evidence) -> Any:
        """Return a model with a number of hidden states per class (or in all) for some rows, not learnt yet."""

    def learn(self, model: Any, rows: Evidence, epochs: int, tolerance: float) -> int:
        """Learn the tables of a model by EM; returns the number of epochs."""

    def size_of(self, model: Any, rows: Evidence) -> tuple[int, int, float]:
        """Return the states of the hidden variable, the free parameters, and the work of an E-step over these rows."""

    def overhead(self, columns: int, again: bool) -> tuple[float, float]:
        """Return the work of building and querying a model with this number of columns, apart from rows.

        `again` is a model for rows for which another size was made before.
        """

    def conditional(self, model: Any, rows: Evidence) -> Conditional:
        """Return the conditional likelihood of the class in some rows."""

    def with_tables(self, model: Any, values: np.ndarray) -> Any:
        """Return a copy of a model with other tables."""

    def level_of_cells(self, model: Any) -> np.ndarray:
        """Return the number of the level, of all columns but the class, that each cell belongs to; -1 for others."""

    def scaled(self, model: Any, logarithms: np.ndarray) -> np.ndarray:
        """Return the tables of a model whose cells are multiplied by factors, given as logarithms, and sum to one."""

    def products_of(self, model: Any, rows: Evidence) -> Any:
        """Return what `chances` of these rows has in common for all models of this structure and size, if anything."""

    def chances(self, model: Any, rows: Evidence, products: Any = None) -> np.ndarray:
        """Return the distribution of the class in each row given its other columns, (rows, classes).

        `products` are those of a model of this structure and size, see `products_of`.
        """

    def mean_of(self, models: Sequence[tuple[Any, float]]) -> Any:
        """Return a model whose cells are the geometric mean of those of several models, each at a temperature.

        With one state for each class, and no value missing, what it tells of the classes has the mean logarithm, too.
        It has the structure of the first model. Others have the same one, or one state for each class, whose tables
        then count for all states of the class.
        """

    def calibrated(self, model: Any, calibration: Calibration) -> Any:
        """Return a copy of a model whose tables include a calibration, and sum to one.

        With a temperature alone its joint distribution is raised to the power 1 / temperature.
        """


@dataclass(frozen=True)
class Refinement:
    """How the tables of a candidate are refined for predicting the class; not at all if `towards` is empty."""

    structure: str
    size: int
    towards: str = ""
    strength: float = 0.0

    @classmethod
    def of(cls, found: ClassCandidate) -> Refinement:
        """Return how a candidate was refined."""
        return cls(found.structure, found.size, found.towards, found.strength)


class Trial:
    """A candidate in one fold: learnt from some rows, and tested on the others.

    `learning` is the work of EM until now, `refining` that of refining its tables; `models` is what came of it.

    Args:
        rows: all of them.
        part: the number of the part.
        family: the structure.
        size: the number of hidden states of each class, or of all.
        budget: what this is counted in.
        again: whether another size of the structure was tried before.
    """

    def __init__(self, rows: PartedRows, part: int, family: Family, size: int, budget: Budget, again: bool) -> None:
        self.family, self.size, self._budget = family, size, budget
        self._target, self._copies = rows.target, rows.copies
        self._rows, self._held_out = rows.parts[part]
        self.model = family.new_model(size, self._rows)
        made, self.query_work = family.overhead(len(self._rows.columns), again)
        budget.spend(made)
        self.states, self.parameters, self.work = family.size_of(self.model, self._rows)
        self.held_out_rows = self._held_out.rows
        self.learnt_rows = rows.copies * self._rows.weight
        self.learning, self.refining = 0.0, 0.0
        self.models: dict[Refinement, Any] = {}
        self._z: dict[str, np.ndarray] = {}

    @cached_property
    def _learnt(self) -> Any:
        epochs = self.family.learn(self.model, self._rows, EPOCHS, 10 * TOLERANCE)
        self.learning += epochs * self.work
        self._budget.spend(epochs * self.work)
        return self.model

    @cached_property
    def _task(self) -> Conditional:
        return self.family.conditional(self._learnt, self._rows)

    @cached_property
    def _asked(self) -> Evidence:
        """The held-out rows without the class."""
        return self._held_out.without(self._target)

    @cached_property
    def _products(self) -> Any:
        return self.family.products_of(self.model, self._asked)

    def predictions(self, how: Refinement) -> Predictions:
        """Return the predictions of a candidate for the held-out rows."""
        model, budget = self._learnt, self._budget
        if how.towards:
            penalty = Penalty(how.strength, how.towards, self.family.ordered)
            before = self._task.evaluations
            z = self._task.maximised(penalty, ITERATIONS, TOLERANCE, self._z.get(how.towards), budget.stopped)
            work = 2 * (self._task.evaluations - before) * self.work
            self.refining += work
            budget.spend(work)
            self._z[how.towards] = z
            model = self.family.with_tables(model, self._task.values(z))
        self.models[how] = model
        return self.predicted_by([model])

    def predicted_by(self, models: Sequence[Any]) -> Predictions:
        """Return predictions for the held-out rows, by the geometric mean of the predictions of some models."""
        classes = self._held_out.codes[:, self._held_out.columns.index(self._target)]
        chances = geometric_mean([self.family.chances(model, self._asked, self._products) for model in models])
        self._budget.spend(len(models) * self.query_work)
        self.classes = chances.shape[1]
        return Predictions.of(chances, classes, self._copies * self._held_out.row_weights)

    @property
    def seconds_for_incomplete_rows(self) -> float:
        """The seconds that are kept for scaling the tables of one model for rows with missing values."""
        return seconds_to_keep(self._budget.seconds, self.work, self._rows.rows) if self.family.temper else 0.0

    def incomplete_predictions(self, models: Sequence[Any]) -> IncompletePredictions:
        """Return predictions for held-out rows with hidden values, by some refined models and by that of EM."""
        seed = self.family.seed
        rows = with_hidden_values(self._held_out, self._target, seed, MOST_HELD_OUT)
        learnt = with_hidden_values(self._rows, self._target, seed)
        asked, classes = rows.without(self._target), rows.codes[:, rows.columns.index(self._target)]
        ready, products = _scaled(self.family, models, learnt, self._budget), self.family.products_of(self.model, asked)
        refined, general = (
            geometric_mean([self.family.chances(model, asked, products) for model in some])
            for some in (ready, [self._learnt])
        )
        return IncompletePredictions(refined, general, asked.known_values(), classes, rows.row_weights)


@dataclass(frozen=True)
class RefinedMeans:
    """How models for prediction are made from the tables of EM, as means of candidates.

    means   for each model, whose geometric mean tells the class, the candidates whose mean it is, each at its
            temperature; of one alone it is that one
    paths   the refinements in the order in which they were tried, each from where the one before it ended
    """

    means: Sequence[Mapping[Refinement, float]]
    paths: Sequence[Sequence[Refinement]]

    @property
    def is_refined(self) -> bool:
        """Whether there are tables that were refined for the class."""
        return any(how.towards for members in self.means for how in members)

    def models(self, family: Family, model: Any, table: Evidence, budget: Budget) -> list[Any]:
        """Return the models, from one that was learnt by EM; they are refined on some rows."""
        found: dict[Refinement, Any] = {how: model for members in self.means for how in members if not how.towards}
        if self.paths:
            task = family.conditional(model, table)
        for path in self.paths:
            z = None
            for how in path:
                penalty = Penalty(how.strength, how.towards, family.ordered)
                z = task.maximised(penalty, ITERATIONS, TOLERANCE, z, budget.stopped)
                if any(how in members for members in self.means):
                    found[how] = family.with_tables(model, task.values(z))
        return [mean_model(family, [(found[how], t) for how, t in members.items()]) for members in self.means]


@dataclass(frozen=True)
class SimplestPart:
    """The part of candidates with one state for each class in the prediction, beside a larger model.

    family        of these candidates
    refined       how their mean is made
    temperature   of that mean
    of_others     the temperature of the larger model
    share         the weight of the logarithms of that mean; that of the others is 1 - share
    """

    family: Family
    refined: RefinedMeans
    temperature: float
    of_others: float
    share: float

    def pooled(self, family: Family, models: Sequence[Any], simplest: Any) -> list[Any]:
        """Return the weighted geometric mean of each of the larger models and of one with one state for each class."""
        of_others, of_simplest = self.of_others / (2 * (1 - self.share)), self.temperature / (2 * self.share)
        return [family.mean_of([(model, of_others), (simplest, of_simplest)]) for model in models]

    def learnt(self, table: Evidence, budget: Budget) -> Any:
        """Return the mean of the candidates, learnt from some rows."""
        model = self.family.new_model(1, table)
        self.family.learn(model, table, EPOCHS, 10 * TOLERANCE)
        (found,) = self.refined.models(self.family, model, table, budget)
        return found


@dataclass(frozen=True)
class Recipe:
    """How the tables for prediction are made from the tables of EM.

    refined      how the models are made from them
    calibration  of what comes of it
    rows         distinct rows of the table, of which values are hidden, see `with_level_factors`
    simplest     the part of candidates with one state for each class; None if they have none
    """

    refined: RefinedMeans
    calibration: Calibration
    rows: Evidence
    simplest: SimplestPart | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether predictions are made with the tables of EM."""
        return not self.refined.is_refined and self.calibration.changes_nothing and self.simplest is None


def refined(family: Family, model: Any, table: Evidence, recipe: Recipe, budget: Budget) -> list[Any]:
    """Return models with tables refined for predicting the class, from as many rows as needed, and calibrated.

    What tells the class is the geometric mean of what they tell. A model is refined as the candidates were, by one
    penalty after the other with as many iterations: more would fit the rows more closely than those candidates. At the
    end its levels get the factors that suit rows with missing values, as far as the seconds of the budget allow.
    """
    some = table.take(slice(None, None, max(1, table.rows // REFINED_ROWS)))
    means = recipe.refined.models(family, model, some, budget)
    if recipe.simplest is not None:
        means = recipe.simplest.pooled(family, means, recipe.simplest.learnt(some, budget))
    if not recipe.calibration.changes_nothing:
        means = [family.calibrated(mean, recipe.calibration) for mean in means]
    budget.release()
    return _scaled(family, means, with_hidden_values(recipe.rows, family.target, family.seed), budget)


def _scaled(family: Family, models: Sequence[Any], hidden: Evidence, budget: Budget) -> list[Any]:
    """Return models with the factors of levels that suit rows with hidden values, each in its share of the time."""
    return [
        with_level_factors(family, model, hidden, budget.must_end, budget.seconds_left / (len(models) - place))
        for place, model in enumerate(models)
    ]


def mean_model(family: Family, models: Sequence[tuple[Any, float]]) -> Any:
    """Return the geometric mean of several models, each at a temperature (`Family.mean_of`), or the only one."""
    (first, temperature), *others = models
    return first if not others and temperature == 1.0 else family.mean_of(models)
