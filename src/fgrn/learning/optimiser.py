"""L-BFGS: the minimum of a smooth function from its values and gradients.

The limited-memory method of Nocedal (1980), with a line search for the weak conditions of Wolfe. Sums are short and in
a fixed order, so that the same function gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]

MEMORY = 10
"""Steps that are remembered."""

ENOUGH, FLAT = 1e-4, 0.9
"""The part of the promised descent that a step must bring, and of the slope that may be left after it."""

TRIES = 20
"""Of a line search."""


def minimised(
    function: Function,
    start: np.ndarray,
    iterations: int,
    tolerance: float = 1e-6,
    stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """The place where L-BFGS ends: where a step gains no more than the tolerance, or after so many steps."""
    here, (value, slope) = start, function(start)
    steps: list[tuple[np.ndarray, np.ndarray, float]] = []
    for number in range(iterations):
        direction = _direction(slope, steps)
        descent = float(slope @ direction)
        if not descent < 0:
            break
        first = 1.0 if steps else min(1.0, 1.0 / float(np.abs(slope).sum() or 1.0))
        found = _line_search(function, here, (value, descent), direction, first)
        if found is None:
            break
        new, new_value, new_slope = found
        moved, bent = new - here, new_slope - slope
        gained, curvature = value - new_value, float(moved @ bent)
        here, value, slope = new, new_value, new_slope
        if curvature > 1e-12 * float(bent @ bent):
            steps = [*steps[1 - MEMORY :], (moved, bent, curvature)]
        if stopped() or (number and gained <= tolerance):
            break
    return here


def _direction(slope: np.ndarray, steps: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Minus the gradient times what the steps tell of the inverse of the second derivatives."""
    out = -slope
    parts = []
    for moved, bent, curvature in reversed(steps):
        part = float(moved @ out) / curvature
        out = out - part * bent
        parts.append(part)
    if steps:
        _, bent, curvature = steps[-1]
        out = out * (curvature / float(bent @ bent))
    for (moved, bent, curvature), part in zip(steps, reversed(parts), strict=True):
        out = out + (part - float(bent @ out) / curvature) * moved
    return out


def _line_search(
    function: Function, here: np.ndarray, begin: tuple[float, float], direction: np.ndarray, step: float
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """A place on the line that is lower, and not steep any more, by halving an interval; None if there is none."""
    value, descent = begin
    low, high, best = 0.0, np.inf, None
    for _ in range(TRIES):
        new = here + step * direction
        there, slope = function(new)
        if not there <= value + ENOUGH * step * descent:
            high = step
        elif float(slope @ direction) < FLAT * descent:
            low, best = step, (new, there, slope)
        else:
            return new, there, slope
        step = 2 * low if high == np.inf else (low + high) / 2
    return best
