"""The warning of an estimator whose learning did not converge within its epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn import exceptions as sklearn_exceptions

from ..core.exceptions import ConvergenceWarning, Remedy, counted, warn

if TYPE_CHECKING:
    from ._base import LatentEstimator


class FitConvergenceWarning(ConvergenceWarning, sklearn_exceptions.ConvergenceWarning):  # type: ignore[misc]
    """Learning did not converge within its epochs: a ConvergenceWarning of fgrn and of scikit-learn."""


def warn_if_not_converged(model: LatentEstimator) -> None:
    """Warn if the limit of epochs was reached before the tolerance; not if a stop was requested."""
    history = model.history_
    if not model.tol or history.converged or history.epochs < model.n_epochs or model._stopped():
        return
    span = min(3 if model.cycles == 1 else 1, history.epochs - 1)  # a round of accelerated EM, or an epoch
    gained = (history.objective[-1] - history.objective[-1 - span]) / max(history.weight, 1e-300)
    if span and gained <= model.tol:
        return
    told = f"the last {counted(span, 'epoch')} still gained {gained:.2g} per row, more than {model.tol:g}"
    enough = max(10 * model.tol, float(f"{gained:.0e}")) if span else 10 * model.tol
    warn(
        f"{type(model).__name__} did not converge: {told if span else 'it had one epoch only'}.",
        FitConvergenceWarning,
        remedies=(
            Remedy("allow more epochs", n_epochs=2 * model.n_epochs),
            Remedy("if this is good enough, accept it", tol=float(f"{enough:g}")),
        ),
    )
