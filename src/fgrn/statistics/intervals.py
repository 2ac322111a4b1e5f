"""Confidence intervals of probabilities, which stay between 0 and 1.

Inside they are symmetric on the logit scale: by the delta method the standard error of logit(p) is that of p divided by
p (1 - p) (Agresti 2002). Where an estimate is on the boundary the scale has no end, and the limit is that of a binomial
proportion of which nothing was seen in n rows, 1 - (1 - level)^(1 / n) (Clopper and Pearson 1934), or the end of the
symmetric interval if that is farther away.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from ..core.exceptions import LearningError


def check_level(level: Any) -> None:
    """Raise an error for an invalid level of confidence intervals."""
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise LearningError("must be between 0 and 1, such as 0.95.", setting="level", value=level)


def half_width(errors: np.ndarray, level: float) -> np.ndarray:
    """Return half the width of a normal confidence interval with these standard errors."""
    return normal_limit(level) * errors


def normal_limit(level: float) -> float:
    """Return the number z such that a standard normal variable is between -z and z with probability `level`."""
    return NormalDist().inv_cdf((1 + level) / 2)


def probability_limits(
    estimates: np.ndarray,
    errors: np.ndarray,
    zeros: np.ndarray,
    ones: np.ndarray,
    rows: np.ndarray,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of confidence intervals of probabilities; all arrays have the same shape.

    Args:
        estimates: the probabilities.
        errors: their standard errors; infinite for one of which nothing is known, whose limits are 0 and 1.
        zeros: which estimates are on the boundary at 0.
        ones: which are on the boundary at 1.
        rows: how many rows each was estimated from.
        level: of the intervals.
    """
    spread, half = estimates * (1 - estimates), half_width(errors, level)
    inner = ~zeros & ~ones & np.isfinite(errors)
    low, high = np.zeros(estimates.shape), np.ones(estimates.shape)
    certain = inner & (spread <= 0)
    low[certain], high[certain] = estimates[certain], estimates[certain]
    inner &= spread > 0
    middle, far = np.log(estimates[inner]) - np.log1p(-estimates[inner]), half[inner] / spread[inner]
    low[inner], high[inner] = _from_logit(middle - far), _from_logit(middle + far)
    unseen = 1 - (1 - level) ** (1 / np.maximum(rows, 1e-9))
    high[zeros] = np.minimum(np.maximum(estimates + half, unseen), 1.0)[zeros]
    low[ones] = np.maximum(np.minimum(estimates - half, 1 - unseen), 0.0)[ones]
    return low, high


def _from_logit(numbers: np.ndarray) -> np.ndarray:
    """Return the probabilities with these logits."""
    found: np.ndarray = np.exp(-np.logaddexp(0.0, -numbers))
    return found
