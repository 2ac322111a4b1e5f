"""What classes have to do with other variables, after they were found: three-step estimation with corrections.

Rows are assigned to their likeliest class, and how often that is wrong is known from the model: D[k, a] is the share of
the rows of class k that are assigned to class a. Taking the assignment for the class would weaken every association;
the corrections do not (Bolck, Croon and Hagenaars 2004; Vermunt 2010).

    covariates        P(class k | z) = softmax(z beta_k), by maximum likelihood of sum_k P(k | z_i) D[k, a_i]
    distal outcomes   means with the weights of the inverse of D (BCH)

Standard errors take the classes as they were found: the uncertainty of the first step is not in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.printing import html_table, text_table
from ..tables import frames
from ..tables.missing import is_missing_value
from ..tables.outputs import frame_of_records
from .fisher_information import Inverse
from .latent_classes import LatentClasses, Patterns

MOST_LOGIT, MOST_ERROR = 20.0, 50.0
"""A larger logit, with an estimate that does not settle or such a standard error, means that a covariate separates."""

STEPS, SMALL_STEP = 200, 1e-9


@dataclass(frozen=True, eq=False)
class AssignedRows:
    """Rows with the class they are assigned to.

    assigned   (rows,): the likeliest class
    weights    (rows,)
    errors     (K, K): the share of the rows of class k that are assigned to class a
    """

    assigned: np.ndarray
    weights: np.ndarray
    errors: np.ndarray

    @classmethod
    def of(cls, model: LatentClasses, rows: Patterns) -> AssignedRows:
        """Those of some rows."""
        posterior, _ = model.posterior(rows.codes)
        assigned = posterior.argmax(axis=1)
        chosen = np.eye(model.n_classes)[assigned]
        joint = posterior.T @ (chosen * rows.weights[:, None])
        total = joint.sum(axis=1, keepdims=True)
        if (joint.sum(axis=0) <= 0).any():
            raise LearningError(
                "No row is assigned to some class, so that nothing can be said of it.", remedies="use fewer classes"
            )
        return cls(assigned, rows.weights, joint / total)


@dataclass(frozen=True, eq=False)
class MembershipRegression:
    """Covariates of class membership: a multinomial logit with the first class as reference.

    Attributes:
        names: of the covariates, "(intercept)" first.
        coefficients: (classes, covariates) logits against class 0, whose row is 0.
        errors: (classes, covariates) their standard errors.
        p_values: (classes, covariates).
        log_likelihood: of the third step.
        rows: how many rows had all covariates.
    """

    names: tuple[str, ...]
    coefficients: np.ndarray
    errors: np.ndarray
    p_values: np.ndarray
    log_likelihood: float
    rows: int

    def as_dicts(self) -> list[dict[str, Any]]:
        """One mapping for each class and covariate."""
        return [
            {
                "class": k, "covariate": name, "logit": float(self.coefficients[k, j]),
                "standard_error": float(self.errors[k, j]), "odds_ratio": float(np.exp(self.coefficients[k, j])),
                "p": float(self.p_values[k, j]),
            }
            for k in range(1, len(self.coefficients))
            for j, name in enumerate(self.names)
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """The coefficients as a pandas data frame."""
        return frame_of_records(self.as_dicts())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                f"class {one['class']} against 0", one["covariate"], f"{one['logit']:.4f}",
                f"{one['standard_error']:.4f}", f"{one['odds_ratio']:.4g}", f"{one['p']:.4f}",
            ]
            for one in self.as_dicts()
        ]  # fmt: skip
        return ["", "covariate", "logit", "s.e.", "odds ratio", "p"], rows

    def __str__(self) -> str:
        told = f"three-step estimates by maximum likelihood, {self.rows:,} rows"
        return f"{text_table(*self._rows(), left=2)}\n{told}"

    def _repr_html_(self) -> str:
        return html_table("Covariates of class membership", *self._rows())


def membership_regression(rows: AssignedRows, covariates: Any) -> MembershipRegression:
    """Regress the class on covariates; rows without one of them are left out, which `rows` of the result tells."""
    from scipy.stats import norm

    names, design, kept = _design(covariates, rows.weights)
    weights, likely = rows.weights[kept], rows.errors[:, rows.assigned[kept]].T
    classes, width = len(rows.errors), design.shape[1]
    beta, done = np.zeros((classes, width)), False
    middle, scale = _centre_and_scale(design)
    design = (design - middle) / scale

    def judged(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        logits = design @ beta.T
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        shares /= shares.sum(axis=1, keepdims=True)
        joint = shares * likely
        total = joint.sum(axis=1)
        return float(weights @ np.log(total)), shares, joint / total[:, None]

    value, shares, posterior = judged(beta)
    for _ in range(STEPS):
        gradient = ((posterior - shares) * weights[:, None]).T @ design
        free = gradient[1:].ravel()
        curved = _logit_information(design, weights, shares) - _logit_information(design, weights, posterior)
        expected = _logit_information(design, weights, shares)
        move = np.linalg.lstsq(curved if _is_positive(curved) else expected, free, rcond=None)[0].reshape(-1, width)
        size = 1.0
        while size > SMALL_STEP:
            tried = beta.copy()
            tried[1:] += size * move
            found = judged(tried)
            if found[0] >= value - 1e-12:
                break
            size /= 2
        done = np.abs(size * move).max(initial=0.0) < SMALL_STEP
        beta, (value, shares, posterior) = tried, found
        if done:
            break
    inverse = Inverse.of(_logit_information(design, weights, shares) - _logit_information(design, weights, posterior))
    spread = np.sqrt(np.maximum(np.diag(inverse.matrix), 0.0))
    unsettled = not done or inverse.rank < len(spread) or spread.max(initial=0.0) > MOST_ERROR
    if unsettled and np.abs(design @ beta.T).max(initial=0.0) > MOST_LOGIT:
        raise LearningError(
            "A covariate separates two classes: it tells for certain which of them a row does not belong to, so that "
            "its coefficient has no finite estimate.",
            remedies="leave it out, or join levels of it",
        )
    if inverse.rank < len(spread):
        raise LearningError(
            "The covariates do not determine their coefficients: one of them is constant, or follows from the others.",
            remedies="leave it out",
        )
    back = np.diag(1 / scale)  # from covariates around their means, in standard deviations
    back[0] -= middle / scale
    beta = beta @ back.T
    every = np.kron(np.eye(classes - 1), back)
    errors = np.zeros((classes, width))
    errors[1:] = np.sqrt(np.maximum(np.diag(every @ inverse.matrix @ every.T), 0.0)).reshape(-1, width)
    ratio = np.divide(np.abs(beta), errors, out=np.zeros_like(beta), where=errors > 0)
    return MembershipRegression(names, beta, errors, 2 * norm.sf(ratio), value, int(kept.sum()))


def _centre_and_scale(design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of each covariate; 0 and 1 for the intercept, and 1 for a constant."""
    middle, scale = design.mean(axis=0), design.std(axis=0)
    middle[0] = 0.0
    return middle, np.where(scale > 0, scale, 1.0)


def _logit_information(design: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The sum over rows of (diag(p) - p p') times z z', for the classes but the first."""
    count, width = shares.shape[1] - 1, design.shape[1]
    out = np.empty((count, width, count, width))
    for a in range(count):
        for b in range(count):
            factor = weights * shares[:, a + 1] * ((a == b) - shares[:, b + 1])
            out[a, :, b, :] = design.T @ (design * factor[:, None])
    return out.reshape(count * width, count * width)


def _is_positive(matrix: np.ndarray) -> bool:
    return bool(np.linalg.eigvalsh(matrix).min(initial=1.0) > 0)


def _design(covariates: Any, weights: np.ndarray) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Covariates as columns of numbers, a level of words as 0 and 1 against the first, and which rows have them all.

    Rows of weight 0 are left out.
    """
    rows = len(weights)
    columns = frames.columns(covariates) if isinstance(covariates, Mapping) or frames.is_frame(covariates) else {}
    if not columns:
        raise LearningError("Covariates are a mapping of columns or a dataframe, with at least one column.")
    names, parts, kept = ["(intercept)"], [np.ones(rows)], weights > 0
    for name, column in columns.items():
        values = frames.as_list(column)
        if len(values) != rows:
            raise LearningError(f"it has {len(values):,} values for {rows:,} rows.", column=name)
        known = np.array([not is_missing_value(value) for value in values]) & (weights > 0)
        kept &= known
        some = [value for value, is_known in zip(values, known, strict=True) if is_known]
        if all(isinstance(value, (int, float, np.number)) for value in some):
            names.append(name)
            parts.append(np.array([float(v) if k else 0.0 for v, k in zip(values, known, strict=True)]))
            _check_finite(parts[-1], "A covariate", name)
            continue
        levels = sorted({str(value) for value in some})
        for level in levels[1:]:
            names.append(f"{name} = {level}")
            parts.append(np.array([float(str(value) == level) for value in values]))
    if not kept.any():
        raise LearningError("No row has all covariates.")
    return tuple(names), np.stack(parts, axis=1)[kept], kept


def _check_finite(values: np.ndarray, what: str, column: str | None = None) -> None:
    """Raise an error that names the rows whose value is infinite."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise LearningError(
            f"{what} is a finite number, or missing.",
            column=column,
            rows=bad[:8],
            value=float(values[bad[0]]),
            remedies="leave the row out, or make the value a missing one",
        )


@dataclass(frozen=True, eq=False)
class DistalOutcome:
    """The mean of an outcome in each class, by the correction of Bolck, Croon and Hagenaars.

    Attributes:
        means: (classes,).
        errors: (classes,) standard errors.
        covariance: (classes, classes) of the means.
        chi_square: the Wald test that all means are equal, with `df` and `p`.
        rows: how many rows had the outcome.
    """

    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    chi_square: float
    df: int
    p: float
    rows: int

    def to_frame(self) -> Any:
        """The means as a pandas data frame."""
        pairs = zip(self.means.tolist(), self.errors.tolist(), strict=True)
        return frame_of_records(
            [{"class": k, "mean": mean, "standard_error": error} for k, (mean, error) in enumerate(pairs)]
        )

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        pairs = zip(self.means.tolist(), self.errors.tolist(), strict=True)
        return ["", "mean", "s.e."], [[f"class {k}", f"{m:.4f}", f"{e:.4f}"] for k, (m, e) in enumerate(pairs)]

    def __str__(self) -> str:
        told = f"equal means: chi-square {self.chi_square:.3f}, df {self.df}, p {self.p:.4f}; BCH, {self.rows:,} rows"
        return f"{text_table(*self._rows())}\n{told}"

    def _repr_html_(self) -> str:
        return html_table("Distal outcome (BCH)", *self._rows())


def distal_outcome(rows: AssignedRows, outcome: Any) -> DistalOutcome:
    """The means of a number, or of 0 and 1, in the classes; rows without it are left out."""
    from scipy.stats import chi2

    values = frames.as_list(frames.as_column(outcome, "outcome"))
    if len(values) != len(rows.assigned):
        raise LearningError(f"The outcome has {len(values):,} values for {len(rows.assigned):,} rows.")
    kept = np.array([not is_missing_value(value) for value in values]) & (rows.weights > 0)
    try:
        numbers = np.array([float(value) if known else 0.0 for value, known in zip(values, kept, strict=True)])
    except (TypeError, ValueError):
        raise LearningError("An outcome is a number; ask for a level as 0 and 1, such as y == 'yes'.") from None
    if not kept.any():
        raise LearningError("No row has the outcome.")
    _check_finite(numbers, "An outcome")
    y = numbers[kept]
    correction, weights = np.linalg.pinv(rows.errors)[rows.assigned[kept]], rows.weights[kept]
    total = weights @ correction
    if (total <= 0).any():
        raise LearningError("A class has no weight left among the rows with the outcome.", remedies="use fewer classes")
    means = correction.T @ (weights * y) / total
    around = correction * (y[:, None] - means) / total
    covariance = around.T @ (around * weights[:, None])  # a row of weight 2 is two equal rows
    contrast = np.eye(len(means))[1:] - np.eye(len(means))[0]
    apart, spread = contrast @ means, contrast @ covariance @ contrast.T
    statistic = float(apart @ np.linalg.pinv(spread) @ apart) if len(apart) else 0.0
    df = len(apart)
    return DistalOutcome(
        means, np.sqrt(np.diag(covariance)), covariance, statistic, df, float(chi2.sf(statistic, df)) if df else 1.0,
        int(kept.sum()),
    )  # fmt: skip
