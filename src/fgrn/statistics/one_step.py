"""Latent class regression in one step: item-response probabilities and coefficients of class sizes, maximised jointly.

Each E-step takes the coefficients that are likeliest under the tables as they are (Newton's method), so that EM, in the
learning loop of all models, maximises the profile likelihood of the tables (ECME, Liu and Rubin 1994). Near the maximum
Newton's method for all parameters, with the exact information matrix, which also gives the standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..flow.counts import CountingMethod, Counts
from ..flow.esteps import Cannot
from ..flow.gaussian_leaves import StandardNumbers
from ..plan.plan import Layout
from .alignment import nearest_order
from .continuous_items import ContinuousItems
from .covariates import Covariates
from .fisher_information import Inverse, information
from .intervals import check_level
from .latent_classes import ClassLogits, LatentClasses, Patterns
from .latent_profiles import profile_errors_of
from .membership import LatentClassRegression, Maximum, check_separation, maximised, regression_of
from .report import Convergence
from .standard_errors import ErrorKind, errors_of, parameter_covariance

NEWTON_STEPS, SMALL_DECREMENT = 30, 1e-11
"""Newton's method ends when a step is expected to increase the log-likelihood by less."""


@dataclass(frozen=True, eq=False)
class RowSizes:
    """The class sizes of rows as functions of covariates, to be maximised for given item-response probabilities.

    model    the names, levels and continuous columns of the classes, and where learning starts
    rows     the rows to learn from
    design   (rows, W): their covariates, the first of which is 1
    """

    model: LatentClasses
    rows: Patterns
    design: np.ndarray

    def best(self, model: LatentClasses) -> Maximum:
        """Return the maximum-likelihood coefficients, given the other parameters of a model."""
        flat = ClassLogits.flat(self.design, model.n_classes)
        return maximised(flat, self.rows.weights, model.log_given_class(self.rows))


@dataclass(frozen=True, eq=False)
class SizesEStep:
    """The E-step over rows whose class sizes come from the best coefficients: see `EStep`."""

    sizes: RowSizes
    layout: Layout

    cycles = Cannot("a regression in one step updates tables once an epoch")

    @property
    def method(self) -> CountingMethod:
        """The method by which counts are computed: all rows at once."""
        count = len(self.sizes.rows.codes)
        return CountingMethod("latent class regression", count, count)

    @cached_property
    def _levels(self) -> np.ndarray:
        return self.sizes.model.indicators(self.sizes.rows.codes)

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these tables, means and variances, and the best coefficients."""
        model, rows, layout = self.sizes.model, self.sizes.rows, self.layout
        numbers = [layout.table_number(name) for name in model.names]
        leaves = None if model.numbers is None else model.numbers.leaves
        now = replace(model, tables=tuple(layout.table(values, number) for number in numbers))
        if leaves is not None:
            now = replace(now, numbers=ContinuousItems.of(leaves, leaves.estimates(values[layout.size :])))
        found = self.sizes.best(now)
        shares = found.members * rows.weights[:, None]
        counts, cells = np.zeros(layout.size), shares.T @ self._levels
        for number, first, size in zip(numbers, model.starts, model.sizes, strict=True):
            layout.table(counts, number)[...] = cells[:, first : first + size]
        if leaves is not None:
            counts = np.concatenate([counts, leaves.counts(shares, StandardNumbers.of(leaves, rows.numbers))])
        return Counts(counts, found.value, rows.weight)

    def batches(self, size: int, seed: int) -> Sequence[SizesEStep]:
        """Return itself: all rows are one batch."""
        return [self]


@dataclass(frozen=True, eq=False)
class JointEstimate:
    """Item-response probabilities, covariate-dependent class sizes, and the likelihood of the rows.

    objective   the log-likelihood, and the logarithms of the tables times the smoothing
    """

    model: LatentClasses
    logits: ClassLogits
    objective: float

    @classmethod
    def of(cls, model: LatentClasses, logits: ClassLogits, rows: Patterns) -> JointEstimate:
        """Return the joint estimate from some rows."""
        value = float(rows.weights @ model.posterior(rows, logits.shares)[1])
        return cls(model, logits, value + _log_prior(model))


FitSizes = Callable[[RowSizes, Patterns], tuple[LatentClasses, np.ndarray]]
"""Fits classes whose sizes depend on covariates: the estimates, and the final objectives of all starts."""


def one_step_regression(
    model: LatentClasses,
    rows: Patterns,
    covariates: Any,
    fit: FitSizes,
    free: int,
    kind: ErrorKind | None = None,
    level: float = 0.95,
) -> LatentClassRegression:
    """Estimate a latent class model together with the covariates of its classes.

    Args:
        model: estimates without covariates, the first start.
        rows: the rows, not merged; those without one of the covariates are left out.
        covariates: a mapping of columns or a dataframe.
        fit: how the classes are fitted.
        free: the free parameters of tables, means and variances.
        kind: of the standard errors.
        level: of the confidence intervals of item-response probabilities.
    """
    kind = kind or ErrorKind()
    check_level(level)
    given = Covariates.of(covariates, rows.weights)
    design, some = given.scaled(), rows.at(given.kept)
    sizes = RowSizes(model, some, design)
    end, finals = fit(sizes, some)
    best = _newton(JointEstimate.of(end, sizes.best(end).logits, some), some)
    if model.leader is None:  # constraints may number classes
        best = _with_classes_like(best, model)
    known = information(best.model, some, best.logits)
    inverse, spread = parameter_covariance(known, some, kind.of_rows(given.kept))
    count = best.logits.count
    check_separation(given, best.logits, Inverse.of(known.information), done=True)
    value = best.objective - _log_prior(best.model)
    sized = replace(best.model, prior=known.cells.probability[: model.n_classes])
    members = sized.posterior(rows)[0]
    members[given.kept] = best.model.posterior(some, best.logits.shares)[0]
    convergence = Convergence.of_finals(finals, converged=True)
    return LatentClassRegression(
        **regression_of(given, best.logits, spread[:count, :count], 1, kind.name, value, level),
        profiles=(errors_of if model.numbers is None else profile_errors_of)(
            sized, some, known, inverse, spread, kind.name, level
        ),
        memberships=members,
        n_parameters=count + free,
        weight=some.weight,
        starts=convergence.starts,
        found_best=convergence.found_best,
    )


def _newton(found: JointEstimate, rows: Patterns) -> JointEstimate:
    """Improve all parameters by Newton's method; the estimate is unchanged where the likelihood is not concave."""
    for _ in range(NEWTON_STEPS):
        known = information(found.model, rows, found.logits)
        inverse = Inverse.of(known.information)
        if not inverse.concave or inverse.rank < len(inverse.matrix):
            break
        smooth = np.zeros(len(known.parameter))
        smooth[known.ahead : known.ahead + len(known.cells.free)] = known.cells.smoothing_gradient(
            found.model.smoothing
        )
        gradient = rows.weights @ known.scores + np.bincount(known.parameter, smooth, minlength=known.scores.shape[1])
        move = inverse.matrix @ gradient
        if gradient @ move < SMALL_DECREMENT:
            break
        size, better = 1.0, None
        while size > 1e-4 and better is None:
            made = JointEstimate.of(*known.moved(found.model, found.logits, size * move), rows)
            better = made if made.objective >= found.objective else None
            size /= 2
        if better is None:
            break
        found = better
    return found


def _with_classes_like(found: JointEstimate, like: LatentClasses) -> JointEstimate:
    """Return the estimate with classes in the order of another model; class 0 is the reference of the logits."""
    order = nearest_order(found.model, like)
    beta = found.logits.beta[order]
    logits = ClassLogits(found.logits.design, beta - beta[0])
    return replace(found, model=found.model.ordered(order), logits=logits)


def _log_prior(model: LatentClasses) -> float:
    if not model.smoothing:
        return 0.0
    cells = model.cells if model.held is None else model.cells[~model.held]
    return model.smoothing * float(np.log(cells).sum())
