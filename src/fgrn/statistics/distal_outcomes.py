"""Distal outcomes: a number or a category of each row whose distribution depends on its class.

    one step      the outcome is one more column of the model, and all is estimated together
    two steps     classes stay as they were found; maximum likelihood of sum_k size_k P(answers | k) P(outcome | k)
                  (Bakk and Kuha 2018)
    three steps   by the class that each row is assigned to, corrected for wrong assignments. BCH: means with the
                  weights of the inverse of D, whatever the distribution (Bolck, Croon and Hagenaars 2004). ML: as in
                  two steps, with the probability of the assignment in place of that of the answers (Vermunt 2010)

But for BCH a number is normally distributed in each class, with a mean and a variance of its own. Numbers 0 and 1 are
levels whose mean is reported. In one step, two steps and ML a row without the outcome has its part in the classes
alone, as far as they are estimated.

Errors contain the uncertainty of the classes: see `first_step`. They are robust unless said otherwise: those of BCH are
of no other kind, and those of the observed information are too small, or too large, where the outcome is not normally
distributed in the classes, or the classes do not explain all of what the items have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.labels import Label
from ..core.printing import decimals, html_table, text_table
from ..flow.gaussian_leaves import GaussianLeaves
from ..tables.outputs import frame_of_records
from .alignment import nearest_order
from .chi_square import chi_square_tail
from .continuous_items import ContinuousItems
from .first_step import LaterStep, Uncertainty, membership_derivative
from .fisher_information import LEAST_EXPECTED, Inverse, information
from .intervals import check_level, half_width
from .latent_classes import LatentClasses, Patterns, memberships
from .outcome_values import OUTCOME, LevelsInClasses, OutcomeInClasses, OutcomeValues, outcome_in_classes
from .results import Result
from .share_intervals import CorrectedShares, MixedShares, Shares, expected_rows, share_intervals
from .standard_errors import ErrorKind, parameter_covariance
from .three_step import AssignedRows

NO_VARIANCE, NO_DIFFERENCE = 1e-10, 1e-6
"""Variances for one row, and differences of means, that are 0, in units of the outcome over the rows."""

STEP_WORDS = {1: "one step", 2: "two steps", 3: "three steps"}


@dataclass(frozen=True, eq=False)
class DistalOutcome(Result):
    """The mean of a numeric outcome, or the probabilities of the levels of a categorical one, in each class.

    Attributes:
        means: (classes,) of a number; (classes, levels) probabilities of words. Those of "bch" may be a little below 0
            or above 1.
        errors: their standard errors.
        low: lower limits of the confidence intervals, and `high` the upper ones; those of probabilities, and of the
            mean of 0 and 1, stay between 0 and 1.
        boundary: which probabilities are 0 or 1, and have no standard error; for their limits see `share_intervals`.
        covariance: of all of them, class by class.
        chi_square: the Wald test that they are equal in all classes, with `df` and `p`; None, as `p`, where means that
            differ have no variance, so that it does not apply.
        rows: how many rows had the outcome.
        levels: the words; empty for a number.
        variances: (classes,) of a number that is normally distributed in the classes, else None.
        steps: 1, 2 or 3, and `correction`: "bch" or "ml" in three steps, else "".
        kind: of the standard errors, "observed", "robust" or "outer".
        level: of the confidence intervals.
        frames: everything as pandas data frames, by name: "outcome", "test", "notes".
    """

    _table_name = "outcome"

    means: np.ndarray
    errors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    boundary: np.ndarray
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
    level: float = 0.95

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per class, and per level of a categorical outcome, with the confidence interval."""
        places = [(k, level) for k in range(len(self.means)) for level in self.levels or (None,)]
        parts = (self.means, self.errors, self.low, self.high, self.boundary)
        return [
            ({"class": k} if level is None else {"class": k, "level": str(level)})
            | {self._what: value, "standard_error": error, "low": low, "high": high, "boundary": bound}
            for (k, level), value, error, low, high, bound in zip(
                places, *(part.ravel().tolist() for part in parts), strict=True
            )
        ]

    @property
    def _what(self) -> str:
        """The quantity that is reported for each class."""
        return "probability" if self.levels else "mean"

    def _other_frames(self) -> dict[str, Any]:
        test = {"chi_square": self.chi_square, "df": self.df, "p": self.p, "rows": self.rows, "steps": self.steps,
                "correction": self.correction, "kind": self.kind}  # fmt: skip
        return {"test": frame_of_records([{key: np.nan if v is None else v for key, v in test.items()}])}

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        def shown(one: dict[str, Any], key: str) -> str:
            is_probability = self.levels or self.boundary.any()
            return f"{one[key]:.4f}" if is_probability else decimals(one[key], one["standard_error"])

        rows = [
            [
                f"class {one['class']}", *([one["level"]] if self.levels else []), shown(one, self._what),
                "-" if one["boundary"] or not one["standard_error"] else shown(one, "standard_error"),
                shown(one, "low"), shown(one, "high"),
                *(["boundary" if one["boundary"] else ""] if self.boundary.any() else []),
            ]
            for one in self.as_dicts()
        ]  # fmt: skip
        heads = ["", *(["level"] if self.levels else []), self._what, "s.e.", "low", "high"]
        return [*heads, *([""] if self.boundary.any() else [])], rows

    @property
    def notes(self) -> list[str]:
        """The test, the method of estimation, and cautions, in sentences."""
        how = STEP_WORDS[self.steps] + (f", {self.correction.upper()}" if self.correction else "")
        test = "estimates are on the boundary, where Wald's test does not apply"
        if self.chi_square is not None and self.p is not None:
            test = f"chi-square {self.chi_square:.3f}, df {self.df}, p {self.p:.4f}"
        equal = "equal probabilities" if self.levels else "equal means"
        found = [f"{equal}: {test}; {how}, {self.rows:,} rows; {self.kind} standard errors, {self.level:.0%} intervals"]
        if self.boundary.any():
            found.append(
                "boundary: the probability is 0 or 1 and has no standard error; its limits, as all limits of "
                "probabilities, are those that a test with the variance at the limit does not reject"
            )
        sure = sorted(set(np.nonzero(~self.boundary & (self.errors == 0))[0].tolist()))
        if sure:
            found.append(
                f"no standard error: the rows of class {', '.join(map(str, sure))} have one value of the outcome, from "
                "which its variance is not known; use fewer classes"
            )
        if self.boundary.any() and ((self.means < 0) | (self.means > 1)).any():
            found.append(
                "BCH corrects means, and its probabilities may be below 0 or above 1; those of ML and of two steps "
                "are not"
            )
        return found

    def __str__(self) -> str:
        table = text_table(*self._rows(), left=2 if self.levels else 1, bars=bool(self.boundary.any()))
        return "\n".join([table, *self.notes])

    def _repr_html_(self) -> str:
        return html_table("Distal outcome: " + "; ".join(self.notes), *self._rows())


def _wald_test(
    means: np.ndarray, covariance: np.ndarray, values: OutcomeValues
) -> tuple[float | None, int, float | None]:
    """Return the Wald test that means are equal in all classes: chi-square, degrees of freedom, p-value.

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


def _refuse_empty(within: np.ndarray) -> None:
    """Raise an error if a class has no row with the outcome; `within`, (classes,), is the weight of such rows."""
    empty = np.flatnonzero(within < LEAST_EXPECTED)
    if len(empty):
        raise LearningError(
            f"No row of class {', '.join(map(str, empty))} has the outcome, so that it cannot be estimated there.",
            remedies="use fewer classes",
        )


def _outcome(
    means: np.ndarray,
    covariance: np.ndarray,
    values: OutcomeValues,
    within: np.ndarray,
    level: float,
    shares: Shares | None = None,
    added: Callable[[np.ndarray], np.ndarray] | None = None,
    **attributes: Any,
) -> DistalOutcome:
    """Return the result, from means, (classes, Q), and their covariance matrix, class by class.

    Args:
        means: the means of numbers, or the probabilities of levels.
        covariance: of all of them.
        values: the outcome of each row.
        within: (classes,) the rows of each class that have the outcome.
        level: of the confidence intervals.
        shares: of levels, from which their intervals follow; None for numbers.
        added: the factors of their variances, deff of `share_intervals`, for a table of probabilities that are not on
            the boundary; needed unless variances do not vanish there.
        attributes: others of the result.
    """
    check_level(level)
    _refuse_empty(within)
    classes, words = len(means), values.numbers is None
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0)).reshape(means.shape)
    half, boundary = half_width(errors, level), np.zeros(means.shape, dtype=bool)
    low, high = means - half, means + half
    if shares is not None:
        boundary = np.minimum(means, 1 - means) * within[:, None] < LEAST_EXPECTED
        factors = np.full(means.shape, np.nan)
        if added is not None and boundary.any():
            table = outcome_table(means, values)
            inner = (table * within[:, None] + 1 / table.shape[1]) / (within[:, None] + 1)
            factors[boundary] = added(inner)[boundary]
        low, high = share_intervals(shares, means, errors, factors, level)
    arrays = {"means": means, "errors": errors, "low": low, "high": high, "boundary": boundary}
    shape = means.shape if words else (classes,)
    chi_square, df, p = _wald_test(means, covariance, values)
    return DistalOutcome(
        **{name: part.reshape(shape) for name, part in arrays.items()}, covariance=covariance, chi_square=chi_square,
        df=df, p=p, rows=int(values.known.sum()), levels=values.levels if words else (), level=level, **attributes,
    )  # fmt: skip


def outcome_table(means: np.ndarray, values: OutcomeValues) -> np.ndarray:
    """Return the probabilities of all levels, (classes, L), from those reported: for 0 and 1 only the mean is."""
    return means if values.numbers is None else np.concatenate([1 - means, means], axis=1)


def corrected_means(
    assigned: AssignedRows, outcome: Any, kind: ErrorKind | None = None, level: float = 0.95
) -> DistalOutcome:
    """Estimate an outcome in three steps with the BCH correction (Bolck, Croon, Hagenaars), where it is known."""
    kind = kind or ErrorKind("robust")
    values = OutcomeValues.of(outcome, assigned.weights)
    classes, kept = len(assigned.errors), values.known
    y, weights, chosen = values.columns[kept], assigned.weights[kept], assigned.assigned[kept]
    back = np.linalg.pinv(assigned.errors)
    share = back[chosen]
    total = weights @ share
    _refuse_empty(total)
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
    shares = None
    if values.codes is not None:
        counted = kind.counted(assigned.weights)[kept, None]
        seen = np.eye(classes)[chosen].T @ (counted * values.indicators[kept])
        shares = CorrectedShares(back, seen)
    return _outcome(means, covariance, values, total, level, shares, kind="robust")


FitOutcome = Callable[[np.ndarray, np.ndarray, OutcomeValues, OutcomeInClasses], OutcomeInClasses]
"""Estimates an outcome: (class memberships without it, weights, the outcome, where to start)."""


def later_outcome(
    model: LatentClasses,
    rows: Patterns,
    first: Uncertainty | None,
    outcome: Any,
    fit: FitOutcome,
    kind: ErrorKind | None = None,
    level: float = 0.95,
) -> DistalOutcome:
    """Estimate an outcome in two steps: class sizes and item-response probabilities are fixed in the second.

    For three steps by ML the model is that of the assigned classes.
    """
    kind = kind or ErrorKind("robust")
    values = OutcomeValues.of(outcome, rows.weights)
    before = model.posterior(rows)[0]
    found = fit(before, rows.weights, values, outcome_in_classes(before, rows.weights, values))

    covariance, within = _later_covariance(model, rows, first, values, found, kind)
    attributes: dict[str, Any] = {"variances": found.variances, "kind": kind.name, "steps": 2, "correction": ""}
    means = found.reported(values)[0]
    if not isinstance(found, LevelsInClasses):
        return _outcome(means, covariance, values, within, level, **attributes)
    shares = MixedShares.of(before, kind.counted(rows.weights), values, found.table)

    def added(table: np.ndarray) -> np.ndarray:
        counted = kind.counted(rows.weights)
        some, known = expected_rows(model, rows, counted, values, table)
        sure = None
        if first is not None:
            sure = replace(first, covariance=first.covariance * (rows.weights.sum() / counted.sum()))
        inner = _later_covariance(model, some, sure, known, LevelsInClasses(table), ErrorKind("observed"))[0]
        return shares.factors(table, inner)

    return _outcome(means, covariance, values, within, level, shares, added, **attributes)


def _later_covariance(
    model: LatentClasses,
    rows: Patterns,
    first: Uncertainty | None,
    values: OutcomeValues,
    found: OutcomeInClasses,
    kind: ErrorKind,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance matrix of the reported numbers of a two-step outcome, and the rows that have it."""
    from scipy.linalg import block_diag

    with np.errstate(divide="ignore"):
        members = memberships(np.log(model.posterior(rows)[0]) + found.log_density(values))[0]
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
    jacobian = block_diag(*found.reported(values)[1])
    return jacobian @ spread @ jacobian.T, values.known @ share


def assigned_outcome(
    assigned: AssignedRows, outcome: Any, fit: FitOutcome, kind: ErrorKind | None = None, level: float = 0.95
) -> DistalOutcome:
    """Estimate an outcome in three steps by maximum likelihood, from the assigned classes of rows."""
    found = later_outcome(assigned.model, assigned.rows, assigned.first, outcome, fit, kind, level)
    return replace(found, steps=3, correction="ml")


FitJointly = Callable[[LatentClasses, Patterns], LatentClasses]
"""Fits a model of the items and the outcome, from given estimates."""


def joint_outcome(
    model: LatentClasses,
    rows: Patterns,
    outcome: Any,
    fit: FitJointly,
    kind: ErrorKind | None = None,
    level: float = 0.95,
) -> DistalOutcome:
    """Estimate an outcome in one step: as one more column of the model, all estimated together."""
    kind = kind or ErrorKind("robust")
    values = OutcomeValues.of(outcome, rows.weights)
    start = outcome_in_classes(model.posterior(rows)[0], rows.weights, values)
    first, table = _with_outcome(model, rows, values, start)
    found = fit(first, table)
    found = found.ordered(nearest_order(found, first))
    means, variances, covariance = _joint_moments(found, table, values, kind)
    within = (rows.weights * values.known) @ found.posterior(table)[0]
    attributes: dict[str, Any] = {"steps": 1, "correction": "", "kind": kind.name, "variances": variances}
    if not isinstance(start, LevelsInClasses):
        return _outcome(means, covariance, values, within, level, **attributes)
    items = replace(found, names=found.names[:-1], levels=found.levels[:-1], tables=found.tables[:-1])
    before = items.posterior(rows)[0]
    shares = MixedShares.of(before, kind.counted(rows.weights), values, outcome_table(means, values))

    def added(inner: np.ndarray) -> np.ndarray:
        moved = replace(found, tables=(*found.tables[:-1], inner))
        some, known = expected_rows(items, rows, kind.counted(rows.weights), values, inner)
        some = replace(some, codes=np.column_stack([some.codes, np.asarray(known.codes)]))
        return shares.factors(inner, _joint_moments(moved, some, known, ErrorKind("observed"))[2])

    return _outcome(means, covariance, values, within, level, shares, added, **attributes)


def _joint_moments(
    found: LatentClasses, table: Patterns, values: OutcomeValues, kind: ErrorKind
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return means or probabilities of the last column, its variances, and the covariance of the former."""
    known = information(found, table)
    spread = parameter_covariance(known, table, kind)[1]
    if values.codes is not None:
        width, last = found.cells.shape[1], len(values.levels)
        shown = range(width - last, width) if values.numbers is None else [width - 1]
        cells = [found.n_classes + k * width + cell for k in range(found.n_classes) for cell in shown]
        means, moved = known.cells.probability[cells].reshape(found.n_classes, -1), known.jacobian()[cells]
        return means, None, moved @ spread @ moved.T
    items = found.continuous_items
    moved = known.moment_jacobian()[np.arange(items.means.size).reshape(items.means.shape)[:, -1]]
    return items.means[:, -1:], items.variances[:, -1], moved @ spread @ moved.T


def _with_outcome(
    model: LatentClasses, rows: Patterns, values: OutcomeValues, start: OutcomeInClasses
) -> tuple[LatentClasses, Patterns]:
    """Return a model and its rows with the outcome as the last column, under an unused name."""
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
