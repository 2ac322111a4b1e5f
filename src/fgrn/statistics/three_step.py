"""Assignment of rows to classes, and means of other variables in the classes, corrected for wrong assignments.

Rows are assigned to their likeliest class, and how often that is wrong is known from the model: D[k, a] is the share of
the rows of class k that are assigned to class a. Taking the assignment for the class would weaken every association;
the corrections do not (Bolck, Croon and Hagenaars 2004; Vermunt 2010).

Distal outcomes are means with the weights of the inverse of D (BCH); for covariates of the classes see `membership`.

Standard errors take the classes as they were found: the uncertainty of the first step is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.printing import html_table, text_table
from ..tables import frames
from ..tables.missing import is_missing_value
from ..tables.outputs import frame_of_records
from .chi_square import chi_square_tail
from .covariates import refuse_infinite
from .latent_classes import LatentClasses, Patterns


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
        return cls.of_memberships(model.posterior(rows.codes)[0], rows.weights)

    @classmethod
    def of_memberships(cls, posterior: np.ndarray, weights: np.ndarray) -> AssignedRows:
        """Those of rows with these class memberships, (rows, K)."""
        assigned = posterior.argmax(axis=1)
        chosen = np.eye(posterior.shape[1])[assigned]
        joint = posterior.T @ (chosen * weights[:, None])
        total = joint.sum(axis=1, keepdims=True)
        if (joint.sum(axis=0) <= 0).any():
            raise LearningError(
                "No row is assigned to some class, so that nothing can be said of it.", remedies="use fewer classes"
            )
        return cls(assigned, weights, joint / total)


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
    refuse_infinite(numbers, "An outcome")
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
        means, np.sqrt(np.diag(covariance)), covariance, statistic, df, chi_square_tail(statistic, df) if df else 1.0,
        int(kept.sum()),
    )  # fmt: skip
