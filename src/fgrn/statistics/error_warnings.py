"""Warnings about standard errors: an information matrix that is not positive definite, and very large errors."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import counted, shortened
from .standard_errors import StandardErrors

LARGE_ERROR = 0.5
"""A larger standard error of a probability means that the rows hardly determine it."""


def warnings_of_information(errors: StandardErrors) -> list[str]:
    """Return sentences that warn if an information matrix is not that of a maximum."""
    found = []
    if errors.rank < errors.n_free:
        found.append(
            f"The model is not identified: the information matrix has rank {errors.rank:,} for "
            f"{counted(errors.n_free, 'parameter')}, so that other estimates fit as well. Use fewer classes, or more "
            "items or rows."
        )
    if not errors.concave:
        found.append(
            "The information matrix is not positive: the estimate is not a maximum. Allow more epochs or starts."
        )
    return found


def warnings_of_large_errors(errors: StandardErrors) -> list[str]:
    """Return a sentence that warns of probabilities with very large standard errors."""
    large = errors.identified & np.isfinite(errors.errors) & (errors.errors > LARGE_ERROR)
    if not large.any():
        return []
    return [
        f"{counted(int(large.sum()), 'probability', 'probabilities')} with a standard error above {LARGE_ERROR}, which "
        f"the rows hardly determine: {shortened(places_of(errors, large), 4)}. Use fewer classes, or more rows."
    ]


def places_of(errors: StandardErrors, some: np.ndarray) -> list[str]:
    """Return a text that names some of the estimates: item, level and class."""
    return [
        f"{item or 'class size'}{'' if level is None else f' = {level}'} in class {k}"
        for (item, k, level), wanted in zip(errors.labels, some, strict=True)
        if wanted
    ]
