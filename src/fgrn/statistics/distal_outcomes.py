"""Distal outcomes: a number or a word of each row whose distribution depends on its class.

    one step      the outcome is one more column of the model, and all is estimated together
    two steps     classes stay as they were found; maximum likelihood of sum_k size_k P(answers | k) P(outcome | k)
                  (Bakk and Kuha 2018)
    three steps   by the class that each row is assigned to, corrected for wrong assignments. BCH: means with the
                  weights of the inverse of D, whatever the distribution (Bolck, Croon and Hagenaars 2004). ML: as in
                  two steps, with the probability of the assignment in place of that of the answers (Vermunt 2010)

But for BCH a number is normally distributed in each class, with a mean and a variance of its own. Numbers 0 and 1 are
levels whose mean is reported. Errors contain the uncertainty of the classes: see `first_step`. In one step, two steps
and ML a row without the outcome has its part in the classes alone, as far as they are estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.labels import Label
from ..core.printing import html_table, text_table
from ..flow.gaussian_leaves import GaussianLeaves
from ..tables import frames
from ..tables.frames import UNKNOWN
from ..tables.missing import is_missing_value
from ..tables.outputs import frame_of_records
from .alignment import nearest_order
from .chi_square import chi_square_tail
from .continuous_items import ContinuousItems
from .covariates import NUMBERS, refuse_infinite
from .first_step import LaterStep, Uncertainty, membership_derivative
from .fisher_information import Inverse, information
from .latent_classes import LatentClasses, Patterns, memberships
from .standard_errors import ErrorKind, parameter_covariance
from .three_step import AssignedRows

OUTCOME = "outcome"

MOST_LEVELS = 100
"""Of an outcome of words."""

NO_VARIANCE, NO_DIFFERENCE = 1e-10, 1e-6
"""Variances for one row, and differences of means, that are 0, in units of the outcome over the rows."""

STEP_WORDS = {1: "one step", 2: "two steps", 3: "three steps"}


@dataclass(frozen=True, eq=False)
class DistalOutcome:
    """The mean of a number, or the probabilities of the levels of a word, in each class.

    Attributes:
        means: (classes,) of a number; (classes, levels) probabilities of words.
        errors: their standard errors.
        covariance: of all of them, class by class.
        chi_square: the Wald test that they are equal in all classes, with `df` and `p`; None, as `p`, where means that
            differ have no variance, so that it does not apply.
        rows: how many rows had the outcome.
        levels: the words; empty for a number.
        variances: (classes,) of a number that is normally distributed in the classes, else None.
        steps: 1, 2 or 3, and `correction`: "bch" or "ml" in three steps, else "".
        kind: of the standard errors, "observed", "robust" or "outer".
    """

    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    chi_square: float | None
    df: int
    p: float | None
    rows: int
    levels: tuple[Label, ...] = ()
    variances: np.ndarray | None = None
    steps: int = 3
    correction: str = "bch"
    kind: str = "robust"

    def as_dicts(self) -> list[dict[str, Any]]:
        """One mapping for each class, and level of words, with the 95 % confidence interval."""
        from scipy.special import ndtri

        half, found = float(ndtri(0.975)), []
        words: tuple[Label | None, ...] = self.levels or (None,)
        shape = (len(self.means), len(words))
        for k, (means, errors) in enumerate(zip(self.means.reshape(shape), self.errors.reshape(shape), strict=True)):
            for level, mean, error in zip(words, means.tolist(), errors.tolist(), strict=True):
                one = {"class": k} if level is None else {"class": k, "level": str(level)}
                low, high = mean - half * error, mean + half * error
                found.append(one | {"mean": mean, "standard_error": error, "low": low, "high": high})
        return found

    def to_frame(self) -> Any:
        """The means as a pandas data frame."""
        return frame_of_records(self.as_dicts())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        numbers = [(f"{one['mean']:.4f}", f"{one['standard_error']:.4f}") for one in self.as_dicts()]
        if not self.levels:
            return ["", "mean", "s.e."], [[f"class {k}", *cells] for k, cells in enumerate(numbers)]
        places = [(k, level) for k in range(len(self.means)) for level in self.levels]
        rows = [[f"class {k}", str(level), *cells] for (k, level), cells in zip(places, numbers, strict=True)]
        return ["", "level", "probability", "s.e."], rows

    @property
    def _told(self) -> str:
        how = STEP_WORDS[self.steps] + (f", {self.correction.upper()}" if self.correction else "")
        test = "estimates are on the boundary, where Wald's test does not apply"
        if self.chi_square is not None and self.p is not None:
            test = f"chi-square {self.chi_square:.3f}, df {self.df}, p {self.p:.4f}"
        return f"equal {'probabilities' if self.levels else 'means'}: {test}; {how}, {self.rows:,} rows"

    def __str__(self) -> str:
        return f"{text_table(*self._rows(), left=2 if self.levels else 1)}\n{self._told}"

    def _repr_html_(self) -> str:
        return html_table(f"Distal outcome: {self._told}", *self._rows())


@dataclass(frozen=True, eq=False)
class OutcomeValues:
    """The outcome of each row.

    known    (rows,): which rows have it, and a positive weight
    numbers  (rows,): of numbers, 0 where it is not known; None for words
    codes    (rows,): the number of the level, of words and of 0 and 1; UNKNOWN where it is not known; None for numbers
    levels   the levels
    """

    known: np.ndarray
    numbers: np.ndarray | None
    codes: np.ndarray | None
    levels: tuple[Label, ...]

    @classmethod
    def of(cls, outcome: Any, weights: np.ndarray) -> OutcomeValues:
        """From a value for each row, with a missing value where it is not known."""
        values = frames.as_list(frames.as_column(outcome, OUTCOME))
        if len(values) != len(weights):
            raise LearningError(f"The outcome has {len(values):,} values for {len(weights):,} rows.")
        known = np.array([not is_missing_value(value) for value in values], dtype=bool) & (weights > 0)
        if not known.any():
            raise LearningError("No row has the outcome.")
        some = [value for value, is_known in zip(values, known, strict=True) if is_known]
        of_numbers = all(isinstance(value, NUMBERS) for value in some)
        if len({float(value) if of_numbers else str(value) for value in some}) < 2:
            raise LearningError("All known values of the outcome are equal: there is nothing to compare.")
        if of_numbers:
            numbers = np.array([float(v) if is_known else 0.0 for v, is_known in zip(values, known, strict=True)])
            refuse_infinite(numbers, "An outcome")
            if not set(numbers[known].tolist()) <= {0.0, 1.0}:
                return cls(known, numbers, None, ())
            return cls(known, numbers, np.where(known, numbers, UNKNOWN).astype(np.int32), (0, 1))
        levels, code = np.unique(np.array([str(value) for value in some]), return_inverse=True)
        if len(levels) > MOST_LEVELS:
            raise LearningError(
                f"An outcome of words has at most {MOST_LEVELS} different ones. Got {len(levels):,}.",
                value=len(levels),
                remedies="join levels",
            )
        codes = np.full(len(values), UNKNOWN, dtype=np.int32)
        codes[known] = code.reshape(-1)
        return cls(known, None, codes, tuple(levels.tolist()))

    @property
    def indicators(self) -> np.ndarray:
        """(rows, L): 1 for the level of a row and 0 for the others; all 0 where it is not known."""
        found: np.ndarray = np.asarray(self.codes)[:, None] == np.arange(len(self.levels))
        return found.astype(np.float64)

    @property
    def columns(self) -> np.ndarray:
        """(rows, Q): the number, 0 where it is not known; or the levels as `indicators`."""
        found: np.ndarray = self.indicators if self.numbers is None else self.numbers[:, None]
        return found


def _wald_test(
    means: np.ndarray, covariance: np.ndarray, values: OutcomeValues
) -> tuple[float | None, int, float | None]:
    """The test that means are equal in all classes: chi-square, degrees of freedom, p-value.

    Means are in units of the standard deviation of the outcome over the rows. Contrasts without variance are left out
    if they are 0; else there is no test.
    """
    classes, width = means.shape
    used = width - (values.numbers is None)  # the probabilities of words sum to 1
    unit = 1 / values.columns[values.known].std(axis=0)[:used]
    contrast = np.kron(np.eye(classes)[1:] - np.eye(classes)[0], np.eye(width)[:used] * unit[:, None])
    apart, spread = contrast @ means.ravel(), contrast @ covariance @ contrast.T
    variances, directions = np.linalg.eigh(spread)
    along = directions.T @ apart
    sure = variances <= max(NO_VARIANCE / values.known.sum(), len(apart) * 1e-15 * variances.max(initial=0.0))
    df = int((~sure).sum())
    if (np.abs(along[sure]) > NO_DIFFERENCE).any():
        return None, df, None
    statistic = float((along[~sure] ** 2 / variances[~sure]).sum())
    return statistic, df, chi_square_tail(statistic, df) if df else 1.0


def _outcome(means: np.ndarray, covariance: np.ndarray, values: OutcomeValues, **told: Any) -> DistalOutcome:
    """The result from means, (classes, Q), and their covariance matrix, class by class."""
    classes, words = len(means), values.numbers is None
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    shape = means.shape if words else (classes,)
    return DistalOutcome(
        means.reshape(shape), errors.reshape(shape), covariance, *_wald_test(means, covariance, values),
        int(values.known.sum()), values.levels if words else (), **told,
    )  # fmt: skip


def corrected_means(assigned: AssignedRows, outcome: Any, kind: ErrorKind | None = None) -> DistalOutcome:
    """Three steps with the correction of Bolck, Croon and Hagenaars; rows without the outcome are left out."""
    kind = kind or ErrorKind("robust")
    values = OutcomeValues.of(outcome, assigned.weights)
    classes, kept = len(assigned.errors), values.known
    y, weights, chosen = values.columns[kept], assigned.weights[kept], assigned.assigned[kept]
    back = np.linalg.pinv(assigned.errors)
    share = back[chosen]
    total = weights @ share
    if (total <= 0).any():
        raise LearningError("A class has no weight left among the rows with the outcome.", remedies="use fewer classes")
    means = (share * weights[:, None]).T @ y / total[:, None]
    around = share[:, :, None] * (y[:, None, :] - means) / total[:, None]  # (rows, classes, Q)
    influence = np.zeros((len(kept), classes * y.shape[1]))
    influence[kept] = around.reshape(len(y), -1)
    if assigned.first is not None:  # the derivative of the inverse of D is -inverse dD inverse
        sums = np.eye(classes)[chosen].T @ (weights[:, None] * y)
        counts = np.bincount(chosen, weights, minlength=classes)
        apart = sums - counts[:, None] * means[:, None, :]  # (class, assigned, Q)
        moved = np.einsum("lr,rk,sl,ksq->lrkq", assigned.errors, back, back, apart, optimize=True) / total[:, None]
        influence -= assigned.first.influence[:, classes:] @ moved.reshape(classes**2, -1)
    covariance = kind.meat(influence, assigned.weights, assigned.weights**2)
    return _outcome(means, covariance, values, kind="robust")


@dataclass(frozen=True, eq=False)
class LevelsInClasses:
    """The probabilities of the levels of an outcome in each class, (K, L); the parameters are their logits."""

    table: np.ndarray

    def log_density(self, values: OutcomeValues) -> np.ndarray:
        """(rows, K): the logarithm of the probability of the outcome of each row; 0 where it is missing."""
        with np.errstate(divide="ignore"):
            found = np.log(self.table.T)[values.codes]
        return np.where(values.known[:, None], found, 0.0)

    def gradient(self, values: OutcomeValues) -> np.ndarray:
        """(rows, K, P): the derivatives of `log_density` in class k by the parameters of class k."""
        return np.where(values.known[:, None, None], values.indicators[:, None, :] - self.table, 0.0)

    def curvature(self, values: OutcomeValues, share: np.ndarray) -> np.ndarray:
        """(K, P, P): minus the second derivatives, summed over rows with these weights in the classes, (rows, K)."""
        found: np.ndarray = (values.known @ share)[:, None, None] * self._spread
        return found

    def reported(self, values: OutcomeValues) -> tuple[np.ndarray, np.ndarray]:
        """(K, Q): the probabilities that are reported, and (K, Q, P): their derivatives by the parameters."""
        shown = slice(None) if values.numbers is None else slice(1, 2)  # of 0 and 1 the mean
        return self.table[:, shown], self._spread[:, shown]

    @property
    def variances(self) -> None:
        """None: levels have no variance."""

    @property
    def _spread(self) -> np.ndarray:
        return np.array([np.diag(row) - np.outer(row, row) for row in self.table])


@dataclass(frozen=True, eq=False)
class NormalInClasses:
    """The means and variances of an outcome in each class, (K,); the parameters are the mean and log(variance)."""

    means: np.ndarray
    variances: np.ndarray

    def log_density(self, values: OutcomeValues) -> np.ndarray:
        """See `LevelsInClasses`."""
        away = (values.columns - self.means) ** 2 / self.variances
        return np.where(values.known[:, None], -0.5 * (away + np.log(2 * np.pi * self.variances)), 0.0)

    def gradient(self, values: OutcomeValues) -> np.ndarray:
        """See `LevelsInClasses`."""
        away = values.columns - self.means
        scaled = away / self.variances
        return np.where(values.known[:, None, None], np.stack([scaled, 0.5 * (away * scaled - 1)], axis=2), 0.0)

    def curvature(self, values: OutcomeValues, share: np.ndarray) -> np.ndarray:
        """See `LevelsInClasses`."""
        share, away = share * values.known[:, None], values.columns - self.means
        found = np.empty((len(self.means), 2, 2))
        found[:, 0, 0] = share.sum(axis=0) / self.variances
        found[:, 0, 1] = found[:, 1, 0] = (share * away).sum(axis=0) / self.variances
        found[:, 1, 1] = 0.5 * (share * away**2).sum(axis=0) / self.variances
        return found

    def reported(self, values: OutcomeValues) -> tuple[np.ndarray, np.ndarray]:
        """See `LevelsInClasses`."""
        return self.means[:, None], np.tile([[[1.0, 0.0]]], (len(self.means), 1, 1))


OutcomeInClasses = LevelsInClasses | NormalInClasses


def _outcome_in_classes(members: np.ndarray, weights: np.ndarray, values: OutcomeValues) -> OutcomeInClasses:
    """The distribution of an outcome in rows with these class memberships, (rows, K)."""
    share = members * (weights * values.known)[:, None]
    total = np.maximum(share.sum(axis=0), 1e-300)
    if values.codes is not None:
        return LevelsInClasses(share.T @ values.indicators / total[:, None])
    means = share.T @ values.columns[:, 0] / total
    return NormalInClasses(means, (share * (values.columns - means) ** 2).sum(axis=0) / total)


FitOutcome = Callable[[np.ndarray, np.ndarray, OutcomeValues, OutcomeInClasses], OutcomeInClasses]
"""Estimates an outcome: (class memberships without it, weights, the outcome, where to start)."""


def later_outcome(
    model: LatentClasses,
    rows: Patterns,
    first: Uncertainty | None,
    outcome: Any,
    fit: FitOutcome,
    kind: ErrorKind | None = None,
) -> DistalOutcome:
    """Two steps: the distribution of an outcome in classes whose sizes and probabilities stay as they were found.

    For three steps by ML the model is that of the assigned classes.
    """
    kind = kind or ErrorKind()
    values = OutcomeValues.of(outcome, rows.weights)
    before = model.posterior(rows)[0]
    found = fit(before, rows.weights, values, _outcome_in_classes(before, rows.weights, values))
    with np.errstate(divide="ignore"):
        members = memberships(np.log(before) + found.log_density(values))[0]
    classes, each = model.n_classes, found.gradient(values)
    blocks = np.zeros((len(each), classes, classes, each.shape[2]))
    for k in range(classes):
        blocks[:, k, k] = each[:, k]
    own = blocks.reshape(len(each), classes, -1)
    scores = np.einsum("ik,ikq->iq", members, own)
    share = members * rows.weights[:, None]
    curved = np.zeros((classes, each.shape[2], classes, each.shape[2]))
    for k, block in enumerate(found.curvature(values, share)):
        curved[k, :, k] = block - (each[:, k] * share[:, [k]]).T @ each[:, k]
    matrix = curved.reshape(scores.shape[1], -1) + scores.T @ (scores * rows.weights[:, None])
    across = membership_derivative(model, rows, members, own)
    spread = LaterStep(Inverse.of(matrix).matrix, scores, across).covariance(first, rows.weights, kind)
    return _later_result(found, values, spread, kind=kind.name, steps=2, correction="")


def _later_result(found: OutcomeInClasses, values: OutcomeValues, spread: np.ndarray, **told: Any) -> DistalOutcome:
    """The result from the covariance matrix of the parameters of all classes."""
    from scipy.linalg import block_diag

    means, moved = found.reported(values)
    jacobian = block_diag(*moved)
    return _outcome(means, jacobian @ spread @ jacobian.T, values, variances=found.variances, **told)


def assigned_outcome(
    assigned: AssignedRows, outcome: Any, fit: FitOutcome, kind: ErrorKind | None = None
) -> DistalOutcome:
    """Three steps by maximum likelihood: the distribution of an outcome by the classes that rows are assigned to."""
    found = later_outcome(assigned.model, assigned.rows, assigned.first, outcome, fit, kind)
    return replace(found, steps=3, correction="ml")


FitJointly = Callable[[LatentClasses, Patterns], LatentClasses]
"""Fits a model of the items and the outcome, from given estimates."""


def joint_outcome(
    model: LatentClasses, rows: Patterns, outcome: Any, fit: FitJointly, kind: ErrorKind | None = None
) -> DistalOutcome:
    """One step: the outcome is one more column of the model, and all is estimated together."""
    kind = kind or ErrorKind()
    values = OutcomeValues.of(outcome, rows.weights)
    start = _outcome_in_classes(model.posterior(rows)[0], rows.weights, values)
    first, table = _with_outcome(model, rows, values, start)
    found = fit(first, table)
    found = found.ordered(nearest_order(found, first))
    known = information(found, table)
    spread = parameter_covariance(known, table, kind)[1]
    if isinstance(start, LevelsInClasses):
        width, last = found.cells.shape[1], len(values.levels)
        shown = range(width - last, width) if values.numbers is None else [width - 1]
        cells = [found.n_classes + k * width + cell for k in range(found.n_classes) for cell in shown]
        means, moved = known.cells.probability[cells].reshape(found.n_classes, -1), known.jacobian()[cells]
        variances = None
    else:
        items = found.continuous_items
        means, variances = items.means[:, -1:], items.variances[:, -1]
        moved = known.moment_jacobian()[np.arange(items.means.size).reshape(items.means.shape)[:, -1]]
    told = {"steps": 1, "correction": "", "kind": kind.name, "variances": variances}
    return _outcome(means, moved @ spread @ moved.T, values, **told)


def _with_outcome(
    model: LatentClasses, rows: Patterns, values: OutcomeValues, start: OutcomeInClasses
) -> tuple[LatentClasses, Patterns]:
    """A model and its rows with the outcome as the last column, under a name that no other has."""
    name = OUTCOME
    while name in (*model.names, *(() if model.numbers is None else model.numbers.names)):
        name += "_"
    if isinstance(start, LevelsInClasses):
        codes = np.column_stack([rows.codes, np.asarray(values.codes)]).astype(np.int32)
        wider = replace(
            model,
            names=(*model.names, name),
            levels=(*model.levels, values.levels),
            tables=(*model.tables, start.table),
        )
        return wider, replace(rows, codes=codes)
    column = np.where(values.known, values.columns[:, 0], np.nan)[:, None]
    leaves = GaussianLeaves.of(f"classes of {name}", model.n_classes, (name,), "diagonal", column, rows.weights)
    numbers = ContinuousItems(leaves, start.means[:, None], start.variances[:, None])
    if model.numbers is not None:
        if model.numbers.leaves.covariance != "diagonal":
            raise LearningError(
                "must be 2 or 3 for an outcome of numbers where continuous columns share variances.",
                setting="steps",
                value=1,
            )
        numbers = model.numbers.with_column(numbers)
    return replace(model, numbers=numbers), replace(rows, numbers=np.concatenate([rows.numbers, column], axis=1))
