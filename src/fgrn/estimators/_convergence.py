"""The warning of an estimator whose learning did not converge within its epochs."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING

from sklearn import exceptions as sklearn_exceptions

from ..core.exceptions import ConvergenceWarning, Remedy
from ..learning.convergence import gain_per_row, warn_if_gaining

if TYPE_CHECKING:
    from ._base import LatentEstimator


class FitConvergenceWarning(ConvergenceWarning, sklearn_exceptions.ConvergenceWarning):  # type: ignore[misc]
    """Learning did not converge within its epochs: a ConvergenceWarning of fgrn and of scikit-learn."""


def _rounded_up(number: float) -> float:
    """Return a positive number rounded up to one digit."""
    unit = 10.0 ** floor(log10(number)) if number > 0 else 1.0
    return float(f"{ceil(number / unit) * unit:.0e}")


def warn_if_not_converged(model: LatentEstimator) -> None:
    """Warn if the limit of epochs was reached before the tolerance; not if a stop was requested."""
    if not model.tol or model._stopped():
        return
    span = 3 if model.cycles == 1 else 1  # a round of accelerated EM, or an epoch
    gained = gain_per_row(model.history_, span)
    enough = 10 * model.tol if gained is None else max(10 * model.tol, _rounded_up(gained))
    remedies = (
        Remedy("allow more epochs", n_epochs=2 * model.n_epochs),
        Remedy("if this is good enough, accept it", tol=float(f"{enough:g}")),
    )
    name = type(model).__name__
    warn_if_gaining(name, model.history_, model.n_epochs, model.tol, span, remedies, FitConvergenceWarning)
