"""Latent class regression in one step: item-response probabilities and coefficients of class sizes, maximised together.

Rounds of two updates, each of which increases the likelihood (ECME, Liu and Rubin 1994): coefficients by Newton's
method with the tables as they are, then tables by the memberships that follow. Near the maximum, Newton's method for
all parameters with the exact information matrix, which also gives the standard errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .alignment import nearest_order
from .covariates import Covariates
from .fisher_information import Inverse, information
from .intervals import check_level
from .latent_classes import ClassLogits, LatentClasses, Patterns
from .latent_profiles import profile_errors_of
from .membership import LatentClassRegression, check_separation, maximised, regression_of
from .report import Convergence
from .standard_errors import ErrorKind, errors_of, parameter_covariance

ROUNDS, SMALL_GAIN = 2000, 1e-8
"""Rounds end when the log-likelihood per row increases by less."""

NEWTON_STEPS, SMALL_DECREMENT = 30, 1e-11
"""Newton's method ends when a step is expected to increase the log-likelihood by less."""

START_CONCENTRATION = 20.0
"""Of the Dirichlet distribution of random starts, as in `flow.parameters`."""


@dataclass(frozen=True, eq=False)
class JointEstimate:
    """Item-response probabilities and class sizes that depend on covariates, and how probable they make the rows.

    objective   the log-likelihood, and the logarithms of the tables times the smoothing
    """

    model: LatentClasses
    logits: ClassLogits
    objective: float

    @classmethod
    def of(cls, model: LatentClasses, logits: ClassLogits, rows: Patterns) -> JointEstimate:
        """That of some rows."""
        value = float(rows.weights @ model.posterior(rows, logits.shares)[1])
        return cls(model, logits, value + _log_prior(model))


def one_step_regression(
    model: LatentClasses,
    rows: Patterns,
    covariates: Any,
    kind: ErrorKind | None = None,
    starts: int = 1,
    seed: int = 0,
    level: float = 0.95,
) -> LatentClassRegression:
    """Estimate a latent class model together with the covariates of its classes.

    Args:
        model: estimates without covariates, the first start.
        rows: the rows, not merged; those without one of the covariates are left out.
        covariates: a mapping of columns or a dataframe.
        kind: of the standard errors.
        starts: how many; the others begin with random item-response probabilities.
        seed: of these.
        level: of the confidence intervals of item-response probabilities.
    """
    kind = kind or ErrorKind()
    check_level(level)
    given = Covariates.of(covariates, rows.weights)
    design, some = given.scaled(), rows.at(given.kept)
    ends = [
        _newton(_rounds(start, ClassLogits.flat(design, model.n_classes), some), some)
        for start in _start_models(model, starts, seed)
    ]
    finals = np.array([one.objective for one in ends])
    best = _with_classes_like(ends[int(finals.argmax())], model)
    known = information(best.model, some, best.logits)
    inverse, spread = parameter_covariance(known, some, kind.of_rows(given.kept))
    count = best.logits.count
    check_separation(best.logits, Inverse.of(known.information), done=True)
    value = best.objective - _log_prior(best.model)
    sized = replace(best.model, prior=known.cells.probability[: model.n_classes])
    members = sized.posterior(rows)[0]
    members[given.kept] = best.model.posterior(some, best.logits.shares)[0]
    told = Convergence.of_finals(finals, converged=True)
    return LatentClassRegression(
        **regression_of(given, best.logits, spread[:count, :count], 1, kind.name, value, level),
        profiles=(errors_of if model.numbers is None else profile_errors_of)(
            sized, some, known, inverse, spread, kind.name, level
        ),
        memberships=members,
        n_parameters=count + model.free_profile_parameters,
        weight=some.weight,
        starts=told.starts,
        found_best=told.found_best,
    )


def _start_models(model: LatentClasses, count: int, seed: int) -> Iterator[LatentClasses]:
    """The model itself, and then random tables."""
    yield model
    generator = np.random.default_rng(seed)
    for _ in range(count - 1):
        tables = []
        for table in model.tables:
            drawn = generator.standard_gamma(START_CONCENTRATION, table.shape)
            tables.append(drawn / drawn.sum(axis=1, keepdims=True))
        numbers = None if model.numbers is None else model.numbers.at_random(generator)
        yield replace(model, tables=tuple(tables), numbers=numbers)


def _rounds(model: LatentClasses, logits: ClassLogits, rows: Patterns) -> JointEstimate:
    """Update coefficients, and tables, means and variances, in turns, until the likelihood hardly increases."""
    before, levels = -np.inf, model.indicators(rows.codes)
    for _ in range(ROUNDS):
        found = maximised(logits, rows.weights, model.log_given_class(rows), steps=3)
        logits, objective = found.logits, found.value + _log_prior(model)
        if objective - before <= SMALL_GAIN * rows.weight:
            break
        before = objective
        shares = found.members * rows.weights[:, None]
        counts = shares.T @ levels + model.smoothing
        total = np.repeat(np.add.reduceat(counts, model.starts, axis=1), model.sizes, axis=1)
        cells = np.divide(counts, total, out=model.cells.copy(), where=total > 0)
        model = model.with_cells(cells)
        if model.numbers is not None:
            model = replace(model, numbers=model.numbers.updated(shares, rows.numbers))
    return JointEstimate.of(model, logits, rows)


def _newton(found: JointEstimate, rows: Patterns) -> JointEstimate:
    """Newton's method for all parameters; the estimate as it is where the likelihood is not concave."""
    for _ in range(NEWTON_STEPS):
        known = information(found.model, rows, found.logits)
        inverse = Inverse.of(known.information)
        if not inverse.concave or inverse.rank < len(inverse.matrix):
            break
        gradient = rows.weights @ known.scores
        cells = slice(known.ahead, known.ahead + len(known.cells.free))
        gradient[cells] += known.cells.smoothing_gradient(found.model.smoothing)
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
    """The same with classes in the order of another model; class 0 stays the reference of the logits."""
    order = nearest_order(found.model, like)
    beta = found.logits.beta[order]
    logits = ClassLogits(found.logits.design, beta - beta[0])
    return replace(found, model=found.model.ordered(order), logits=logits)


def _log_prior(model: LatentClasses) -> float:
    return model.smoothing * float(np.log(model.cells).sum()) if model.smoothing else 0.0
