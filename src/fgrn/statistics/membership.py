"""Covariates of class membership: a multinomial logit, estimated in one step with the classes, or in two or three.

    P(class k | z) = exp(z beta_k) / sum_m exp(z beta_m),    maximum likelihood of sum_k P(k | z_i) L_ik

    three steps   L_ik is the probability that a row of class k is assigned to the class that row i is assigned to
                  (Vermunt 2010)
    two steps     L_ik is the probability of the answers of row i in class k, as they were estimated without covariates
                  (Bakk and Kuha 2018)
    one step      the same, with item-response probabilities and coefficients estimated together (Dayton and Macready
                  1988; Bandeen-Roche, Miglioretti, Zeger and Rathouz 1997)

The errors of two and three steps contain the uncertainty of the classes: see `first_step`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError, Remedy, counted
from ..core.printing import decimals, html_table, text_table
from ..learning.criteria import all_criteria
from ..tables.outputs import frame_of_records
from .chi_square import chi_square_tail
from .covariates import Covariates, Term, design_of
from .first_step import LaterStep, Uncertainty, membership_derivative
from .fisher_information import Inverse
from .intervals import check_level, half_width
from .latent_classes import ClassLogits, LatentClasses, Patterns, memberships
from .latent_profiles import UNDETERMINED, ProfileErrors
from .results import Result
from .standard_errors import ErrorKind, StandardErrors
from .three_step import AssignedRows

MOST_LOGIT, MOST_ERROR = 20.0, 50.0
"""A larger logit, with an estimate that does not settle or such a standard error, means that a covariate separates."""

MOST_ODDS = 1e300
"""A larger odds ratio is shown as "more than this", since it may be infinite."""

STEPS, SMALL_STEP = 200, 1e-9

STEP_NAMES = {1: "one-step", 2: "two-step", 3: "three-step"}


@dataclass(frozen=True, eq=False)
class MembershipRegression(Result):
    """Covariates of class membership: a multinomial logit with the first class as reference.

    Attributes:
        names: of the covariates, "(intercept)" first.
        coefficients: (classes, covariates) logits against class 0, whose row is 0.
        errors: (classes, covariates) their standard errors.
        p_values: (classes, covariates).
        log_likelihood: of the last step.
        rows: how many rows had all covariates.
        left_out: how many rows were left out, since they have no value of a covariate.
        steps: 1, 2 or 3.
        kind: of the standard errors, "observed", "robust" or "outer".
        covariance: of the coefficients but those of class 0, class by class.
        level: of the confidence intervals.
        frames: everything as pandas data frames, by name: "coefficients", "tests", "notes"; of one step also
            "summary", "estimates", "memberships".
    """

    _table_name = "coefficients"

    names: tuple[str, ...]
    coefficients: np.ndarray
    errors: np.ndarray
    p_values: np.ndarray
    log_likelihood: float
    rows: int
    left_out: int
    steps: int
    kind: str
    covariance: np.ndarray
    terms: tuple[Term, ...]
    level: float

    def predict_proba(self, covariates: Any) -> np.ndarray:
        """Return the class sizes for given covariates, (rows, classes).

        Args:
            covariates: a mapping of columns or a dataframe, as given to the regression, without missing values.
        """
        return ClassLogits(design_of(self.terms, covariates), self.coefficients).shares

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per class and covariate, with the confidence interval of the logit."""
        half = half_width(self.errors, self.level)
        with np.errstate(over="ignore", under="ignore"):
            odds = np.exp(self.coefficients)
        return [
            {
                "class": k, "covariate": name, "logit": float(self.coefficients[k, j]),
                "standard_error": float(self.errors[k, j]), "low": float((self.coefficients - half)[k, j]),
                "high": float((self.coefficients + half)[k, j]),
                "odds_ratio": float(odds[k, j]), "p": float(self.p_values[k, j]),
            }
            for k in range(1, len(self.coefficients))
            for j, name in enumerate(self.names)
        ]  # fmt: skip

    def _other_frames(self) -> dict[str, Any]:
        return {"tests": frame_of_records(self.tests())}

    def tests(self) -> list[dict[str, Any]]:
        """Return, for each covariate, the Wald test of no effect on any class: chi-square, df, p."""
        found, first, width = [], 1, len(self.names)
        for term in self.terms:
            columns = range(first, first + len(term.names))
            first += len(term.names)
            places = [k * width + column for k in range(len(self.coefficients) - 1) for column in columns]
            beta, spread = self.coefficients[1:].ravel()[places], self.covariance[np.ix_(places, places)]
            statistic = float(beta @ np.linalg.pinv(spread) @ beta) if places else 0.0
            p = chi_square_tail(statistic, len(places)) if places else 1.0
            found.append({"covariate": term.name, "chi_square": statistic, "df": len(places), "p": p})
        return found

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                f"class {one['class']} against 0", one["covariate"], decimals(one["logit"], one["standard_error"]),
                decimals(one["standard_error"]), _odds_text(one["odds_ratio"]), f"{one['p']:.4f}",
            ]
            for one in self.as_dicts()
        ]  # fmt: skip
        return ["", "covariate", "logit", "s.e.", "odds ratio", "p"], rows

    def _test_rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [one["covariate"], f"{one['chi_square']:.3f}", str(one["df"]), f"{one['p']:.4f}"] for one in self.tests()
        ]
        return ["Wald test", "chi-square", "df", "p"], rows

    @property
    def notes(self) -> list[str]:
        """The method of estimation, in sentences."""
        errors = "" if self.kind == "observed" else f", {self.kind} standard errors"
        found = [f"{STEP_NAMES[self.steps]} estimates by maximum likelihood, {counted(self.rows, 'row')}{errors}"]
        if self.left_out:
            are = "is" if self.left_out == 1 else "are"
            found.append(f"{counted(self.left_out, 'row')} without a covariate {are} left out")
        return found

    def __str__(self) -> str:
        told = "\n".join(self.notes)
        return f"{text_table(*self._rows(), left=2)}\n\n{text_table(*self._test_rows())}\n{told}"

    def _repr_html_(self) -> str:
        return html_table(f"Covariates of class membership: {'; '.join(self.notes)}", *self._rows()) + html_table(
            "Wald tests", *self._test_rows()
        )


@dataclass(frozen=True, eq=False)
class LatentClassRegression(MembershipRegression):
    """A latent class model and the covariates of its classes, estimated together (one step).

    Attributes:
        profiles: class sizes (means over the rows) and item-response probabilities with standard errors, a
            `StandardErrors`; with continuous columns also means and variances, a `ProfileErrors`.
        memberships: (rows, classes) the probability of each class given the covariates and answers of each row, in the
            order of the rows that were given; by the answers and the mean class sizes where a covariate is missing.
        n_parameters: free parameters.
        weight: the total weight of the rows that have all covariates.
        criteria: "AIC", "BIC", "CAIC", "SABIC"; smaller is better.
        starts: how many starts there were, and `found_best` how many of them found the best likelihood.
    """

    profiles: StandardErrors | ProfileErrors
    memberships: np.ndarray
    n_parameters: int
    weight: float
    starts: int
    found_best: int

    @property
    def criteria(self) -> dict[str, float]:
        """The information criteria by name."""
        return all_criteria(self.log_likelihood, self.n_parameters, self.weight)

    def _other_frames(self) -> dict[str, Any]:
        numbers = {
            "log-likelihood": self.log_likelihood, "parameters": float(self.n_parameters), **self.criteria,
            "starts": float(self.starts), "starts that found the best": float(self.found_best),
        }  # fmt: skip
        members = [{f"class {k}": share for k, share in enumerate(row)} for row in self.memberships.tolist()]
        return super()._other_frames() | {
            "summary": frame_of_records([{"name": name, "value": value} for name, value in numbers.items()]),
            "estimates": self.profiles.to_frame(),
            "memberships": frame_of_records(members),
        }

    @property
    def _summary(self) -> list[list[str]]:
        return [
            ["log-likelihood", f"{self.log_likelihood:,.4f}"],
            ["parameters", f"{self.n_parameters:,}"],
            *([name, f"{value:,.2f}"] for name, value in self.criteria.items()),
            ["starts that found the best", f"{self.found_best} of {self.starts}"],
        ]

    def __str__(self) -> str:
        parts = [super().__str__(), text_table([], self._summary), str(self.profiles)]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + html_table("Model", ["", ""], self._summary) + self.profiles._repr_html_()


def regression_of(
    covariates: Covariates,
    logits: ClassLogits,
    covariance: np.ndarray,
    steps: int,
    kind: str,
    value: float,
    level: float,
) -> dict[str, Any]:
    """Return the fields of a `MembershipRegression` from estimates for standardised covariates."""
    from scipy.special import ndtr

    classes, width = logits.beta.shape
    back = covariates.to_original_columns()
    every = np.kron(np.eye(classes - 1), back)
    beta, spread = logits.beta @ back.T, every @ covariance @ every.T
    errors = np.zeros((classes, width))
    errors[1:] = np.sqrt(np.maximum(np.diag(spread), 0.0)).reshape(-1, width)
    ratio = np.divide(np.abs(beta), errors, out=np.zeros_like(beta), where=errors > 0)
    return {
        "names": covariates.names, "coefficients": beta, "errors": errors, "p_values": 2 * ndtr(-ratio),
        "log_likelihood": value, "rows": int(covariates.kept.sum()),
        "left_out": covariates.left_out, "steps": steps, "kind": kind,
        "covariance": spread, "terms": covariates.terms, "level": level,
    }  # fmt: skip


def three_step_regression(
    assigned: AssignedRows, covariates: Any, kind: ErrorKind | None = None, level: float = 0.95
) -> MembershipRegression:
    """Regress the assigned class on covariates, corrected for misclassification (three steps).

    Rows without one of the covariates are left out, which `rows` of the result tells.
    """
    return _later_regression(assigned.model, assigned.rows, assigned.first, covariates, kind, 3, level)


def two_step_regression(
    model: LatentClasses, rows: Patterns, covariates: Any, kind: ErrorKind | None = None, level: float = 0.95
) -> MembershipRegression:
    """Regress the class on covariates with fixed item-response probabilities (two steps)."""
    settings.choice("kind", "observed" if kind is None else kind.name, ("observed", "robust"), LearningError)
    return _later_regression(model, rows, Uncertainty.of(model, rows), covariates, kind, 2, level)


def _later_regression(
    model: LatentClasses,
    rows: Patterns,
    first: Uncertainty | None,
    covariates: Any,
    kind: ErrorKind | None,
    steps: int,
    level: float,
) -> MembershipRegression:
    """Regress the class on covariates, given the fixed likelihood of each row in each class.

    The errors contain the uncertainty of the first step, if it is given: see `first_step`.
    """
    kind = kind or ErrorKind()
    check_level(level)
    given = Covariates.of(covariates, rows.weights)
    some = rows.at(given.kept)
    found = maximised(ClassLogits.flat(given.scaled(), model.n_classes), some.weights, model.log_given_class(some))
    check_separation(given, found.logits, found.inverse, found.done, by_assignment=steps == 3)
    scores = np.zeros((len(rows.codes), found.logits.count))
    scores[given.kept] = found.scores
    each = [found.logits.gradient(np.broadcast_to(one, found.members.shape)) for one in np.eye(model.n_classes)]
    across = membership_derivative(model, some, found.members, np.stack(each, axis=1), with_sizes=False)
    spread = LaterStep(found.inverse.matrix, scores, across).covariance(first, rows.weights, kind)
    return MembershipRegression(**regression_of(given, found.logits, spread, steps, kind.name, found.value, level))


@dataclass(frozen=True, eq=False)
class Maximum:
    """Coefficients that maximise sum_i weight_i log sum_k P(k | z_i) L_ik.

    logits    the coefficients
    value     the log-likelihood
    members   (rows, K): class memberships
    scores    (rows, count): the gradient of each row
    inverse   of the information matrix
    done      whether the steps became small
    """

    logits: ClassLogits
    value: float
    members: np.ndarray
    scores: np.ndarray
    inverse: Inverse
    done: bool


def maximised(logits: ClassLogits, weights: np.ndarray, likely: np.ndarray, steps: int = STEPS) -> Maximum:
    """Maximise by Newton's method from given coefficients; `likely`, (rows, K), are the logarithms of L.

    A step that does not increase the likelihood is halved. Where the likelihood is not concave, the information of the
    complete data takes the place of minus its second derivatives.
    """

    def likelihood_and_members(tried: ClassLogits) -> tuple[float, np.ndarray]:
        members, value = memberships(tried.log_shares + likely)
        return float(weights @ value), members

    value, members = likelihood_and_members(logits)
    done = logits.count == 0
    for _ in range(0 if done else steps):
        gradient = weights @ logits.gradient(members)
        expected = logits.curvature(weights, logits.shares)
        curved = expected - logits.curvature(weights, members)
        move = np.linalg.lstsq(curved if _is_positive(curved) else expected, gradient, rcond=None)[0]
        size, tried, found = 1.0, logits, (value, members)
        while size > SMALL_STEP:
            tried = logits.moved(size * move)
            found = likelihood_and_members(tried)
            if found[0] >= value - 1e-12:
                break
            size /= 2
        done = bool(np.abs(size * move).max(initial=0.0) < SMALL_STEP)
        logits, (value, members) = tried, found
        if done:
            break
    curved = logits.curvature(weights, logits.shares) - logits.curvature(weights, members)
    return Maximum(logits, value, members, logits.gradient(members), Inverse.of(curved), done)


def check_separation(
    covariates: Covariates, logits: ClassLogits, inverse: Inverse, done: bool, by_assignment: bool = False
) -> None:
    """Raise an error if coefficients of standardised covariates have no finite estimate (separation).

    `by_assignment`: they are estimated from the classes that rows are assigned to (three steps).
    """
    spread = np.sqrt(np.maximum(np.diag(inverse.matrix)[: logits.count], 0.0))
    unsettled = not done or inverse.rank < len(inverse.matrix) or spread.max(initial=0.0) > MOST_ERROR
    if unsettled and np.abs(logits.design @ logits.beta.T).max(initial=0.0) > MOST_LOGIT:
        given = f" The covariates: {', '.join(term.description for term in covariates.terms)}."
        others = tuple(dict.fromkeys(term.remedy for term in covariates.terms if term.levels is not None))
        if by_assignment:
            raise LearningError(
                "A coefficient has no finite estimate from the classes that rows are assigned to: for some values of a "
                "covariate more of them are assigned to a class than if all belonged to it, or the covariate separates "
                f"two classes.{given}",
                remedies=(
                    Remedy("estimate from the answers", steps=2),
                    Remedy("estimate together with the classes", steps=1),
                    "leave the covariate out",
                    *others,
                ),
            )
        raise LearningError(
            "A covariate separates two classes: it determines to which of them a row does not belong, so that "
            f"its coefficient has no finite estimate.{given}",
            remedies=("leave it out", *others),
        )
    if np.abs(inverse.undetermined[: logits.count]).max(initial=0.0) > UNDETERMINED:
        raise LearningError(
            "The coefficients are not identified: the items do not distinguish the classes, or a class is empty.",
            remedies="use fewer classes",
        )


def _odds_text(ratio: float) -> str:
    """Return an odds ratio as text; one beyond the range of floats is given as a bound."""
    if MOST_ODDS > ratio > 1 / MOST_ODDS:
        return f"{ratio:.4g}"
    return "> 1e300" if ratio > 1 else "< 1e-300"


def _is_positive(matrix: np.ndarray) -> bool:
    return bool(np.linalg.eigvalsh(matrix).min(initial=1.0) > 0)
