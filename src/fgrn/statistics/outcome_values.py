"""The outcome of each row, and its distribution in latent classes: categorical or normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.labels import Label
from ..tables import frames
from ..tables.frames import UNKNOWN
from ..tables.missing import is_missing_value
from .covariates import MOST_WORDS, NUMBERS, refuse_infinite

OUTCOME = "outcome"


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
        """Return the outcome, from a value for each row, which may be missing."""
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
        if len(levels) > MOST_WORDS:
            raise LearningError(
                f"An outcome of words has at most {MOST_WORDS} different ones. Got {len(levels):,}.",
                value=len(levels),
                remedies="join levels",
            )
        codes = np.full(len(values), UNKNOWN, dtype=np.int32)
        codes[known] = code.reshape(-1)
        return cls(known, None, codes, tuple(levels.tolist()))

    @property
    def indicators(self) -> np.ndarray:
        """Return 0/1 indicators of the level of each row, (rows, L); all 0 where it is missing."""
        found: np.ndarray = np.asarray(self.codes)[:, None] == np.arange(len(self.levels))
        return found.astype(np.float64)

    @property
    def columns(self) -> np.ndarray:
        """Return the number of each row, 0 where missing, or the `indicators` of its level, (rows, Q)."""
        found: np.ndarray = self.indicators if self.numbers is None else self.numbers[:, None]
        return found


@dataclass(frozen=True, eq=False)
class LevelsInClasses:
    """The probabilities of the levels of an outcome in each class, (K, L); the parameters are their logits."""

    table: np.ndarray

    def log_density(self, values: OutcomeValues) -> np.ndarray:
        """Return the log-probability of the outcome of each row in each class, (rows, K); 0 where it is missing."""
        with np.errstate(divide="ignore"):
            found = np.log(self.table.T)[values.codes]
        return np.where(values.known[:, None], found, 0.0)

    def gradient(self, values: OutcomeValues) -> np.ndarray:
        """Return the derivatives of `log_density` in class k by the parameters of class k, (rows, K, P)."""
        return np.where(values.known[:, None, None], values.indicators[:, None, :] - self.table, 0.0)

    def curvature(self, values: OutcomeValues, share: np.ndarray) -> np.ndarray:
        """Return minus the second derivatives, (K, P, P), summed over rows with weights by class, (rows, K)."""
        found: np.ndarray = (values.known @ share)[:, None, None] * self._spread
        return found

    def reported(self, values: OutcomeValues) -> tuple[np.ndarray, np.ndarray]:
        """Return the reported probabilities, (K, Q), and their derivatives by the parameters, (K, Q, P)."""
        shown = slice(None) if values.numbers is None else slice(1, 2)  # of 0 and 1 the mean
        return self.table[:, shown], self._spread[:, shown]

    @property
    def variances(self) -> None:
        """None, because levels have no variance."""

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


def outcome_in_classes(members: np.ndarray, weights: np.ndarray, values: OutcomeValues) -> OutcomeInClasses:
    """Return the distribution of an outcome in rows with these class memberships, (rows, K)."""
    share = members * (weights * values.known)[:, None]
    total = np.maximum(share.sum(axis=0), 1e-300)
    if values.codes is not None:
        return LevelsInClasses(share.T @ values.indicators / total[:, None])
    means = share.T @ values.columns[:, 0] / total
    return NormalInClasses(means, (share * (values.columns - means) ** 2).sum(axis=0) / total)
