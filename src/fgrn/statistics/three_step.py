"""Assignment of rows to their most probable class, its misclassification rates, and their uncertainty.

Rows are assigned to their likeliest class, and how often that is wrong is known from the model: D[k, a] is the share of
the rows of class k that are assigned to class a. Taking the assignment for the class would weaken every association;
the corrections of three steps do not (Bolck, Croon and Hagenaars 2004; Vermunt 2010). For covariates of the classes see
`membership`, for outcomes `distal_outcomes`.

D is estimated: it depends on the estimates of the first step, and on the rows. Standard errors that took it as certain
would be too small (Bakk, Oberski and Vermunt 2014).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.exceptions import LearningError
from .first_step import Uncertainty, membership_derivative
from .latent_classes import LatentClasses, Patterns


@dataclass(frozen=True, eq=False)
class AssignedRows:
    """Rows with the class they are assigned to.

    assigned   (rows,): the likeliest class
    weights    (rows,)
    errors     (K, K), D: the share of the rows of class k that are assigned to class a
    sizes      (K,): the class sizes; equal unless given
    first      how uncertain the logarithms of class sizes and of D, row by row, are; None if they are taken as certain
    """

    assigned: np.ndarray
    weights: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray | None = None
    first: Uncertainty | None = None

    @classmethod
    def of(cls, model: LatentClasses, rows: Patterns) -> AssignedRows:
        """Return the assignments of rows that are not merged, from which the model was estimated."""
        posterior = model.posterior(rows)[0]
        plain = cls.of_memberships(posterior, rows.weights, model.prior)
        classes, assigned, errors = model.n_classes, plain.assigned, plain.errors
        total = rows.weights @ posterior
        scale = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0) / total[:, None]
        apart = (np.eye(classes)[assigned][:, None, :] - errors) * scale  # (rows, class k, assigned a)
        values = np.zeros((len(posterior), classes, classes, classes))
        for k in range(classes):
            values[:, k, k] = apart[:, k]
        moved = membership_derivative(model, rows, posterior, values.reshape(len(posterior), classes, -1))
        sizes = np.eye(classes, moved.shape[1])
        own = np.zeros((len(posterior), classes + classes**2))
        own[:, classes:] = (posterior[:, :, None] * apart).reshape(len(posterior), -1)
        first = Uncertainty.of(model, rows).carried(np.concatenate([sizes, moved]), own)
        return cls(assigned, rows.weights, errors, model.prior, first)

    @classmethod
    def of_memberships(
        cls, posterior: np.ndarray, weights: np.ndarray, sizes: np.ndarray | None = None
    ) -> AssignedRows:
        """Return the assignments of rows with these class memberships, (rows, K), taken as certain."""
        assigned = posterior.argmax(axis=1)
        chosen = np.eye(posterior.shape[1])[assigned]
        joint = posterior.T @ (chosen * weights[:, None])
        total = joint.sum(axis=1, keepdims=True)
        if (joint.sum(axis=0) <= 0).any():
            raise LearningError(
                "A class has no assigned rows, so that nothing can be estimated for it.", remedies="use fewer classes"
            )
        return cls(assigned, weights, joint / total, sizes)

    @property
    def model(self) -> LatentClasses:
        """Return a model whose only item is the assignment, with D as its probabilities in the classes."""
        classes = tuple(range(len(self.errors)))
        sizes = np.full(len(classes), 1 / len(classes)) if self.sizes is None else self.sizes
        return LatentClasses(("assigned",), (classes,), sizes, (self.errors,))

    @property
    def rows(self) -> Patterns:
        """Return the rows with the assignment as their only item."""
        codes = self.assigned[:, None].astype(np.int32)
        return Patterns.of_codes(codes, self.weights, self.weights**2, len(codes))
