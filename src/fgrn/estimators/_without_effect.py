"""The warning of settings that were given to an estimator and have no effect beside the others."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

from ..core.exceptions import FgrnWarning, Remedy, warn

if TYPE_CHECKING:
    from ._base import LatentEstimator


def warn_without_effect(model: LatentEstimator) -> None:
    """Warn of a criterion for the number of hidden states, other than the default, if this number is given."""
    default, hidden = signature(type(model)).parameters.get("criterion"), getattr(model, "n_hidden", "auto")
    if default is not None and not isinstance(hidden, str) and model.criterion != default.default:
        warn(
            f"has no effect on fit: the number of hidden states is given, n_hidden={hidden!r}.",
            FgrnWarning,
            setting="criterion",
            value=model.criterion,
            remedies=("leave it out", Remedy("let it choose the number", n_hidden="auto")),
        )
