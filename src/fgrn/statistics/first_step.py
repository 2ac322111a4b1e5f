"""The uncertainty of classes that a later step takes as known: the first step of two- and three-step estimation.

A later step holds the class sizes and the item-response probabilities c fixed, or what follows from them, and the means
and variances of continuous columns. With I22 the information matrix of its own parameters, I21 the block that crosses
them with log c, means and log variances, and V the covariance matrix of the estimates of these, its own is

    I22^-1 + I22^-1 I21 V I12 I22^-1          (Gong and Samaniego 1981; Bakk, Oberski and Vermunt 2014)

The robust one has in its middle the squares of the scores of both steps: that of a row in the later step, less I21
times the influence of the row on the estimates of the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .fisher_information import Inverse, information
from .latent_classes import LatentClasses, Patterns
from .standard_errors import ErrorKind


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The uncertainty of the estimates of the first step.

    covariance   (C, C) of the logarithms of the estimates, but of the means themselves, from the observed information
    influence    (rows, C): how far one more row like this moves each of them
    """

    covariance: np.ndarray
    influence: np.ndarray

    @classmethod
    def of(cls, model: LatentClasses, rows: Patterns) -> Uncertainty:
        """Return the uncertainty of estimates in the order of `LatentClasses.values`, from rows that are not merged."""
        known = information(model, rows)
        inverse = Inverse.of(known.information).matrix
        moved, chance = known.jacobian(), known.cells.probability[:, None]
        logs = np.divide(moved, chance, out=np.zeros_like(moved), where=chance > 0)
        logs = np.concatenate([logs, known.moment_jacobian()])
        return cls(logs @ inverse @ logs.T, known.scores @ (inverse @ logs.T))

    def carried(self, jacobian: np.ndarray, own: np.ndarray) -> Uncertainty:
        """Return the uncertainty of quantities with this derivative, (Q, C), and influence of rows, (rows, Q)."""
        return Uncertainty(jacobian @ self.covariance @ jacobian.T, self.influence @ jacobian.T + own)


@dataclass(frozen=True, eq=False)
class LaterStep:
    """The F parameters of a later step, with their information and dependence on the first step.

    inverse   of their information matrix
    scores    (rows, F): the gradient of each row; 0 for a row that the step leaves out
    across    (F, C): the derivatives of the sum of the scores by the logarithms of the estimates of the first step
    """

    inverse: np.ndarray
    scores: np.ndarray
    across: np.ndarray

    def covariance(self, first: Uncertainty | None, weights: np.ndarray, kind: ErrorKind) -> np.ndarray:
        """Return the covariance matrix of the estimates, (F, F); without a first step, it is taken as certain."""
        if kind.name == "robust":
            scores = self.scores if first is None else self.scores + first.influence @ self.across.T
            robust: np.ndarray = self.inverse @ kind.meat(scores, weights, weights**2) @ self.inverse
            return robust
        spread = self.inverse
        if kind.name == "outer":
            spread = Inverse.of(kind.meat(self.scores, weights, weights**2)).matrix
        if first is None:
            return spread
        pulled = self.inverse @ self.across
        found: np.ndarray = spread + pulled @ first.covariance @ pulled.T
        return found


def membership_derivative(
    model: LatentClasses, rows: Patterns, members: np.ndarray, values: np.ndarray, with_sizes: bool = True
) -> np.ndarray:
    """Return d/d(estimates) of sum_i w_i sum_k m_ik v_ik, (Q, C): by logarithms, and by means directly.

    The memberships m are proportional to P(row, k), and the derivative of m_ik is m_ik (a_ik - sum_l m_il a_il), where
    a_ik is 1 for the size of class k and for the probabilities in class k of what row i answered, and that of its log
    density for means and variances.

    Args:
        model: the probabilities.
        rows: the rows and their weights w.
        members: (rows, K) the memberships m, which may depend on more than the model.
        values: (rows, K, Q) the v, which stay as they are.
        with_sizes: whether memberships depend on the class sizes of the model; their derivatives are 0 if they do not.
    """
    classes, width = model.cells.shape
    levels = model.indicators(rows.codes)
    mean = np.einsum("ik,ikq->iq", members, values)
    first = classes + classes * width
    found = np.zeros((values.shape[2], len(model.values)))
    for k in range(classes):
        pulled = (rows.weights * members[:, k])[:, None] * (values[:, k] - mean)
        if with_sizes:
            found[:, k] = pulled.sum(axis=0)
        found[:, classes + k * width : classes + (k + 1) * width] = pulled.T @ levels
        if model.numbers is not None:
            found[:, first + model.numbers.cells_of_class(k)] = pulled.T @ model.numbers.gradient(rows.numbers, k)
    return found
