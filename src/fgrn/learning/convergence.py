"""The warning of learning that reached its limit of epochs before it converged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.exceptions import ConvergenceWarning, Remedy, counted, warn
from ..flow.em_settings import Rule
from ..flow.history import History

USUAL_TOLERANCE = 1e-5
"""The gain in log-likelihood per row and epoch above which learning has not converged, where no tolerance is given."""

ENOUGH_EPOCHS, ENOUGH_TOLERANCE = 1000, 1e-6
"""The limit of epochs and the tolerance that a warning recommends."""


def warn_if_gaining(
    what: str,
    history: History,
    most: int,
    tolerance: float,
    span: int,
    remedies: Iterable[Remedy] = (),
    kind: type[ConvergenceWarning] = ConvergenceWarning,
) -> None:
    """Warn if learning used all its epochs and the last `span` of them gained more than the tolerance per row.

    Args:
        what: did not converge, as the message calls it.
        history: of learning.
        most: the limit of epochs.
        tolerance: the gain in log-likelihood per row.
        span: of epochs: 3 for a round of accelerated EM, else 1.
        remedies: what to do; more epochs unless given.
        kind: of the warning.
    """
    if history.converged or history.epochs < most:
        return
    gained = gain_per_row(history, span)
    if gained is not None and gained <= tolerance:
        return
    span = min(span, history.epochs - 1)
    last = "the last epoch" if span == 1 else f"the last {counted(span, 'epoch')}"
    still = f"{last} still gained {gained:.2g} per row, more than {tolerance:g}" if span else "it had one epoch only"
    further = Remedy("allow more epochs", epochs=max(2 * most, ENOUGH_EPOCHS))
    warn(f"{what} did not converge: {still}.", kind, remedies=remedies or (further,))


def gain_per_row(history: History, span: int) -> float | None:
    """Return how much the last `span` epochs, or all if there are fewer, gained per row; None for a single epoch."""
    span = min(span, history.epochs - 1)
    if span < 1:
        return None
    return float(history.objective[-1] - history.objective[-1 - span]) / max(history.weight, 1e-300)


def warn_of_usual_epochs(history: History, rule: Rule) -> None:
    """Warn if learning with the default number of epochs did not converge.

    Held-out rows and batches of rows have rules of their own, by which learning ends.
    """
    if len(history.validation) or rule.batch_size is not None:
        return
    enough = Remedy("if these are enough, ask for them", epochs=rule.epochs)
    more = Remedy("allow more", epochs=ENOUGH_EPOCHS, tolerance=rule.tolerance or ENOUGH_TOLERANCE)
    what = f"Learning in {counted(rule.epochs, 'epoch')}, the default,"
    span = 3 if rule.accelerate else 1
    warn_if_gaining(what, history, rule.epochs, rule.tolerance or USUAL_TOLERANCE, span, (more, enough))


def warn_of_record(record: Mapping[str, Any], most: int) -> None:
    """Warn if the tables of a network with this training record did not converge within the limit of a search."""
    if record["converged"] or record["epochs"] < most:
        return
    further = f"net.learn(data, epochs={ENOUGH_EPOCHS}, tolerance={ENOUGH_TOLERANCE:g})"
    warn(
        f"The tables of the network did not converge within {counted(most, 'epoch')}.",
        ConvergenceWarning,
        remedies=Remedy("learn them further", further, epochs=ENOUGH_EPOCHS, tolerance=ENOUGH_TOLERANCE),
    )
