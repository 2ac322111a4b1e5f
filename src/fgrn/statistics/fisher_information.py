"""Scores and the exact information matrix of a latent class model, from all rows.

The tables are written in unconstrained parameters, logits phi: theta_l = exp(phi_l) / sum of exp(phi) in each row of a
table, and the same for the prior. With p_ik the membership of row i in class k and s_ik the gradient of log P(y_i, k),

    score         s_i = sum_k p_ik s_ik
    Hessian of row i:  sum_k p_ik (H_ik + s_ik s_ik') - s_i s_i'

(Louis 1982), where H_ik, of the complete data, is minus the covariance matrix of a multinomial for every table row that
the observed items of row i meet. The information is minus the sum over rows; smoothing, which was maximised together
with the likelihood, adds its own second derivatives. No derivative is approximated.

Cells on the boundary (probability 0) are held fixed; the largest other cell of a table row is the reference, whose
logit is 0. Rows are taken in blocks, and everything is a matrix product. Where class sizes depend on covariates of the
row (`ClassLogits`), their coefficients are the first parameters, in place of the logits of the prior. Means and
logarithms of variances of continuous columns are the last (`ContinuousItems`); what is equal is one parameter.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.exceptions import LearningError
from ..engines import ONE_BLAS_THREAD
from .continuous_items import FreeMoments
from .latent_classes import ClassLogits, LatentClasses, Patterns

LEAST_EXPECTED = 0.1
"""Expected rows in a cell, beyond those of smoothing, below which its probability is on the boundary."""

SINGULAR = 1e-9
"""Smallest eigenvalue of the information matrix, scaled to a unit diagonal, that is not zero but for rounding."""

MOST_FREE = 5000
"""Free parameters whose information matrix is made, at most: it has their square of numbers, and takes their cube."""

LARGE = 500
"""Parameters from which on the inverse of the information matrix takes longer than waking the threads of BLAS."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """All probabilities of a model in one row: the prior, then the table rows of class 0, of class 1, ...

    probability   (C,)
    line          (C,): the number of the distribution that each belongs to; 0 is the prior
    boundary      (C,): which are on the boundary, and held fixed
    free          (F,): the cells whose logit is a parameter: not fixed, and not the reference of their distribution
    within        (C,): the probability among those of its distribution that are not fixed; 0 if it is fixed itself
    given         (C,): which were given by constraints, and are fixed for that
    parameter     (F,): the number of the parameter that each free logit is: the same for those that are equal
    """

    probability: np.ndarray
    line: np.ndarray
    boundary: np.ndarray
    free: np.ndarray
    within: np.ndarray
    given: np.ndarray
    parameter: np.ndarray

    @classmethod
    def of(cls, model: LatentClasses, counts: np.ndarray, prior_counts: np.ndarray) -> Estimates:
        """Return the estimates of a model, given expected numbers of rows: (K, M) by level, (K,) by class."""
        classes = model.n_classes
        cells, leader = model.cells.ravel(), None if model.leader is None else model.leader.ravel()
        if leader is not None:  # equal to the last digit, so that the same level is the reference
            cells = cells[leader]
            counts = np.bincount(leader, counts.ravel(), minlength=counts.size)[leader].reshape(counts.shape)
        probability = np.concatenate([model.prior, cells])
        items = np.repeat(np.arange(len(model.names)), model.sizes)
        lines = 1 + np.arange(classes)[:, None] * len(model.names) + items
        line = np.concatenate([np.zeros(classes, dtype=np.intp), lines.ravel()])
        empty = prior_counts < LEAST_EXPECTED
        given = np.zeros(counts.shape, dtype=bool) if model.held is None else model.held
        fixed = (counts < LEAST_EXPECTED) | empty[:, None] | given
        boundary = np.concatenate([empty, fixed.ravel()])
        total = np.bincount(line, probability * ~boundary)
        within = np.divide(probability * ~boundary, total[line], out=np.zeros(len(line)), where=total[line] > 0)
        is_free = ~boundary
        order = np.lexsort((within, line))
        is_free[order[np.append(line[order][1:] != line[order][:-1], True)]] = False  # the largest of each line
        if not model.learns_prior:
            is_free[:classes] = False
        free = np.flatnonzero(is_free)
        same = np.arange(len(line))
        if leader is not None:
            same[classes:] = classes + leader
        parameter = np.unique(same[free], return_inverse=True)[1].reshape(-1)
        given = np.concatenate([np.zeros(classes, dtype=bool), given.ravel()])
        return cls(probability, line, boundary, free, within, given, parameter)

    def jacobian(self) -> np.ndarray:
        """Return the derivative of each probability by each free logit, (C, F)."""
        free, line = self.free, self.line
        same = line[:, None] == line[free][None, :]
        moved = (np.arange(len(line))[:, None] == free[None, :]) - self.within[free][None, :]
        moving = np.where(self.boundary, 0.0, self.probability)
        return np.where(same, moving[:, None] * moved, 0.0)

    def moved(self, step: np.ndarray) -> np.ndarray:
        """Return the probabilities after a step, (F,), of the free logits, (C,)."""
        odds = self.within.copy()
        odds[self.free] *= np.exp(step)
        share = np.bincount(self.line, np.where(self.boundary, 0.0, self.probability))
        total = np.bincount(self.line, odds)
        moved: np.ndarray = odds * np.divide(share, total, out=np.zeros_like(share), where=total > 0)[self.line]
        return np.where(self.boundary, self.probability, moved)

    def smoothing_gradient(self, smoothing: float) -> np.ndarray:
        """Return d/d(free logits), (F,), of smoothing * sum of log(probability) over cells that are not fixed."""
        moving = np.bincount(self.line, ~self.boundary)
        found: np.ndarray = smoothing * (1 - moving[self.line] * self.within)[self.free]
        return found


@dataclass(frozen=True, eq=False)
class Information:
    """The information matrix of the free parameters, and the scores it is computed from.

    F counts the coefficients of class sizes, if these depend on covariates, after them the free logits of `cells`, and
    after these the means and logarithms of variances of `moments`; those that are equal once.

    cells         all probabilities of the model
    logits        class sizes that depend on covariates; None if they do not
    moments       means and variances of continuous columns; None if there are none
    weights       (patterns,): of the rows
    information   (F, F): minus the second derivatives of the log-likelihood, with those of the smoothing
    outer         (F, F): the sum of weight * score * score'
    scores        (patterns, F): the gradient of the log-likelihood of each pattern
    """

    cells: Estimates
    logits: ClassLogits | None
    moments: FreeMoments | None
    weights: np.ndarray
    information: np.ndarray
    outer: np.ndarray
    scores: np.ndarray

    @property
    def ahead(self) -> int:
        """The number of coefficients of class sizes that precede the logits of cells."""
        return 0 if self.logits is None else self.logits.count

    @cached_property
    def parameter(self) -> np.ndarray:
        """The number of the parameter of each coefficient, free logit, and free mean and variance."""
        parts = [np.arange(self.ahead), self.cells.parameter]
        parts += [] if self.moments is None else [self.moments.parameter]
        sizes = [int(part.max(initial=-1)) + 1 for part in parts]
        return np.concatenate([part + sum(sizes[:place]) for place, part in enumerate(parts)])

    @property
    def keys(self) -> np.ndarray:
        """(F,): a key of each parameter that does not depend on what else is free; negative for coefficients."""
        cells = len(self.cells.probability)
        parts = [-1 - np.arange(self.ahead), self.cells.free]
        parts += [] if self.moments is None else [cells + self.moments.keys[self.moments.parameter]]
        found = np.empty(int(self.parameter.max(initial=-1)) + 1, dtype=np.intp)
        found[self.parameter[::-1]] = np.concatenate(parts)[::-1]
        return found

    def jacobian(self) -> np.ndarray:
        """Return the derivative of each probability by each parameter, (C, F); class sizes are means over the rows."""
        own = self.cells.jacobian()
        out = np.zeros((len(own), len(self.parameter)))
        out[:, self.ahead : self.ahead + own.shape[1]] = own
        if self.logits is not None:
            out[: len(self.logits.beta), : self.ahead] = self.logits.size_jacobian(self.weights)
        merging = _merging(self.parameter)
        return out if merging is None else out @ merging

    def moment_jacobian(self) -> np.ndarray:
        """Return the derivative of each mean and log variance by each parameter, (2 K D, F): 1 or 0."""
        if self.moments is None:
            return np.zeros((0, self.information.shape[0]))
        out = np.zeros((len(self.moments.boundary), self.information.shape[0]))
        out[self.moments.free, self.parameter[len(self.parameter) - len(self.moments.free) :]] = 1.0
        return out

    def moved(self, model: LatentClasses, logits: ClassLogits, step: np.ndarray) -> tuple[LatentClasses, ClassLogits]:
        """Return the model and the coefficients of class sizes after a step, (F,), of the parameters."""
        every = step[self.parameter]
        ahead, last = self.ahead, self.ahead + len(self.cells.free)
        cells = self.cells.moved(every[ahead:last])[model.n_classes :].reshape(model.cells.shape)
        moved = model.with_cells(cells)
        if self.moments is not None and model.numbers is not None:
            away = np.zeros(len(self.moments.boundary))
            away[self.moments.free] = every[last:]
            moved = replace(moved, numbers=model.numbers.moved(away))
        return moved, logits.moved(every[:ahead])


def _merging(parameter: np.ndarray) -> np.ndarray | None:
    """Return the matrix, (free, F), that is 1 where a free coordinate is a parameter; None for the identity."""
    count = int(parameter.max(initial=-1)) + 1
    return None if count == len(parameter) else np.eye(count)[parameter]


def expected_counts(
    model: LatentClasses, rows: Patterns, logits: ClassLogits | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected numbers of rows: (K, M) by class and level, (K,) by class, (K, D) with each number known."""
    counts = np.zeros_like(model.cells)
    sizes, known = np.zeros(model.n_classes), np.zeros((model.n_classes, rows.numbers.shape[1]))
    for block in rows.blocks(model.cells.shape[1]):
        shares = None if logits is None else logits.of_rows(block).shares
        some = rows.at(block)
        posterior, _ = model.posterior(some, shares)
        weighted = posterior * some.weights[:, None]
        counts += weighted.T @ model.indicators(some.codes)
        known += weighted.T @ ~np.isnan(some.numbers)
        sizes += weighted.sum(axis=0)
    return counts, sizes, known


def information(model: LatentClasses, rows: Patterns, logits: ClassLogits | None = None) -> Information:
    """Return the scores and the information matrix of a model on some rows.

    With `logits`, whose rows are those of `rows`, the class sizes depend on covariates, and `model.prior` is not used.
    """
    if logits is not None:
        model = replace(model, prior=np.average(logits.shares, axis=0, weights=rows.weights), learns_prior=False)
    counts, sizes, known = expected_counts(model, rows, logits)
    cells = Estimates.of(model, counts, sizes)
    moments = None if model.numbers is None else FreeMoments.of(model.numbers, known, LEAST_EXPECTED)
    ahead = 0 if logits is None else logits.count
    positions = _FreePositions.of(model, cells, moments, ahead)
    last = ahead + len(cells.free)
    free = last + (0 if moments is None else len(moments.free))
    if free > MOST_FREE:
        raise LearningError(
            f"Standard errors need the information matrix of {free:,} free parameters, and more than {MOST_FREE:,} "
            "take too long.",
            remedies="fit fewer classes",
        )
    scores = np.empty((len(rows.codes), free))
    second, outer = np.zeros((free, free)), np.zeros((free, free))
    for block in rows.blocks(free + model.cells.size):
        own = None if logits is None else logits.of_rows(block)
        some, added = _scores_of(model, cells, positions, rows.at(block), own)
        scores[block] = some
        outer += some.T @ (some * rows.weights[block, None])
        second += added
    curved = np.zeros((free, free))
    curved[ahead:last, ahead:last] = _curvature(model, cells, counts, sizes)
    if logits is not None:
        curved[:ahead, :ahead] = logits.curvature(rows.weights, logits.shares)
    found = Information(cells, logits, moments, rows.weights, curved + outer - second, outer, scores)
    merging = _merging(found.parameter)
    if merging is None:
        return found
    whole, squared = (merging.T @ one @ merging for one in (found.information, outer))
    return Information(cells, logits, moments, rows.weights, whole, squared, scores @ merging)


@dataclass(frozen=True, eq=False)
class _FreePositions:
    """The positions of the free parameters: those of the prior, and those of the tables of each class.

    prior   classes whose logit is free
    columns of each class: the columns among the M levels whose logit is free
    numbers of each class: which of its means and variances are free, (2 D,)
    places  of each class: where those are among the free parameters
    first   how many parameters of class sizes stand ahead of those of tables
    """

    prior: np.ndarray
    columns: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]
    places: tuple[np.ndarray, ...]
    first: int

    @classmethod
    def of(cls, model: LatentClasses, cells: Estimates, moments: FreeMoments | None, ahead: int) -> _FreePositions:
        classes, width = model.cells.shape
        owner = np.where(cells.free < classes, -1, (cells.free - classes) // max(width, 1))
        columns, numbers, places = [], [], []
        for k in range(classes):
            mine = np.flatnonzero(owner == k)
            columns.append((cells.free[mine] - classes) % max(width, 1))
            if moments is not None and model.numbers is not None:
                own = model.numbers.cells_of_class(k)
                numbers.append(np.isin(own, moments.free))
                found = np.searchsorted(moments.free, own[numbers[-1]])
                mine = np.concatenate([mine, len(cells.free) + found])
            places.append(ahead + mine)
        prior = cells.free[owner < 0]
        return cls(prior, tuple(columns), tuple(numbers), tuple(places), ahead + len(prior))


def _scores_of(
    model: LatentClasses,
    cells: Estimates,
    positions: _FreePositions,
    rows: Patterns,
    logits: ClassLogits | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of some rows, (rows, F), and sum_ik weight_i p_ik s_ik s_ik', (F, F).

    The second derivatives by means and variances, which depend on the row, are added to the sum.
    """
    classes, weights, count = model.n_classes, rows.weights, len(rows.codes)
    posterior, _ = model.posterior(rows, None if logits is None else logits.shares)
    levels = model.indicators(rows.codes)
    free = positions.first + sum(map(len, positions.places))
    scores = np.zeros((count, free))
    second = np.zeros((free, free))
    within = cells.within[classes:].reshape(classes, -1)
    moving = ~cells.boundary[classes:].reshape(classes, -1)
    first = positions.first
    for k in range(classes):
        weighted = weights * posterior[:, k]
        ahead = _size_gradient(cells, positions, k, classes, logits)
        scores[:, :first] += posterior[:, k, None] * ahead
        second[:first, :first] += (ahead * weighted[:, None]).T @ np.broadcast_to(ahead, (count, first))
        columns, place = positions.columns[k], positions.places[k]
        if not len(place):
            continue
        free_levels = levels * moving[k]
        known = np.repeat(np.add.reduceat(free_levels, model.starts, axis=1), model.sizes, axis=1)
        gradient = (free_levels - known * within[k])[:, columns]
        if model.numbers is not None:
            own = positions.numbers[k]
            gradient = np.concatenate([gradient, model.numbers.gradient(rows.numbers, k)[:, own]], axis=1)
            curved = model.numbers.curvature(rows.numbers, k, weighted)[np.ix_(own, own)]
            last = place[len(columns) :]
            second[np.ix_(last, last)] -= curved
        scores[:, place] = gradient * posterior[:, k, None]
        pulled = gradient * weighted[:, None]
        second[np.ix_(place, place)] += gradient.T @ pulled
        crossed = np.broadcast_to(ahead, (count, first)).T @ pulled
        second[:first, place] += crossed
        second[place, :first] += crossed.T
    return scores, second


def _size_gradient(
    cells: Estimates, positions: _FreePositions, k: int, classes: int, logits: ClassLogits | None
) -> np.ndarray:
    """Return d log P(class k) by the parameters of class sizes, for each row or, (1, parameters), for all."""
    if logits is None:
        found: np.ndarray = (positions.prior == k) - cells.within[positions.prior] * (not cells.boundary[k])
        return found[None, :]
    own = np.zeros((len(logits.design), classes))
    own[:, k] = 1.0
    return logits.gradient(own)


def _curvature(model: LatentClasses, cells: Estimates, counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return minus the summed Hessian of complete data and smoothing, (F, F): multinomial blocks."""
    moving = ~cells.boundary
    known = np.bincount(cells.line, np.concatenate([sizes, counts.ravel()]) * moving)
    smoothed = np.bincount(cells.line, moving * model.smoothing)
    smoothed[0] = 0.0  # the prior is as counted
    free, within = cells.free, cells.within
    same = cells.line[free][:, None] == cells.line[free][None, :]
    spread = np.diag(within[free]) - np.where(same, np.outer(within[free], within[free]), 0.0)
    total: np.ndarray = (known + smoothed)[cells.line[free]][:, None] * spread
    return total


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inverse of an information matrix on the subspace that it determines.

    matrix       (F, F): the inverse; the pseudo-inverse if some directions are not determined
    rank         how many directions are determined
    undetermined (F, F - rank): the directions that are not, orthonormal
    concave      whether the log-likelihood falls in every determined direction, as it does around a maximum
    """

    matrix: np.ndarray
    rank: int
    undetermined: np.ndarray
    concave: bool

    @classmethod
    def of(cls, information: np.ndarray) -> Inverse:
        """Return the inverse of a symmetric matrix, scaled to a unit diagonal first.

        The smallest eigenvalue is at least 1 / (the largest sum of a column of the inverse): where that is not too
        small, the factorisation of Cholesky, many times faster than eigenvalues, tells all.
        """
        size = np.sqrt(np.maximum(np.diag(information), 0.0))
        scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        scaled = information * np.outer(scale, scale)
        limit = SINGULAR * max(1, len(scaled))
        fast = _positive_inverse(scaled)
        if fast is not None and np.abs(fast).sum(axis=0).max(initial=0.0) * limit < 1:
            return cls(fast * np.outer(scale, scale), len(scaled), np.zeros((len(scaled), 0)), True)
        values, vectors = np.linalg.eigh(scaled)
        kept = values > limit
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        lost = vectors[:, ~kept] * np.where(scale > 0, scale, 1.0)[:, None]
        basis = np.linalg.qr(lost)[0] if lost.shape[1] else lost
        return cls(inverse * np.outer(scale, scale), int(kept.sum()), basis, bool((values > -limit).all()))


def _positive_inverse(matrix: np.ndarray) -> np.ndarray | None:
    """Return the inverse of a symmetric matrix by Cholesky factorisation; None if it is not positive definite."""
    from scipy.linalg.lapack import dpotrf, dpotri

    if not len(matrix):
        return None
    with ONE_BLAS_THREAD if len(matrix) < LARGE else nullcontext():
        factor, failed = dpotrf(matrix, lower=1)
        if failed:
            return None
        lower, failed = dpotri(factor, lower=1)
    found: np.ndarray = np.tril(lower) + np.tril(lower, -1).T
    return None if failed else found
