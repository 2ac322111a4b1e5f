"""Minimisation of a smooth function from its values and gradients: L-BFGS.

The direction of a step is -H g, with the gradient g and an estimate H of the inverse Hessian matrix from the last
MEMORY steps s and changes of the gradient y (two loops over them: Nocedal and Wright, "Numerical Optimization", 2006,
algorithm 7.4). The length of the step fulfils the strong Wolfe conditions (their algorithms 3.5 and 3.6).

SciPy has this algorithm too. Importing `scipy.optimize` takes longer than all minimisations of a small table together,
and each of its steps more than a step here.

The direction is computed by NumPy, or with `compiled` by a kernel, in a tenth of the time for up to 1,000 numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np

from ..engines import ONE_BLAS_THREAD

MEMORY = 10
"""The number of past steps that L-BFGS uses."""

DECREASE, CURVATURE = 1e-3, 0.9
"""The Wolfe conditions: of the decrease that the slope promises, and of the slope that may be left."""

MOST_LENGTHS = 20
"""Lengths of a step that are tried, at most."""

LONGEST_GROWTH = 10.0
"""The factor by which a length that is too short grows, at most."""

INSIDE = 0.1
"""The part of an interval at its ends in which no length is tried: the interval has to shrink."""

ROUNDING = 2.0**-52
"""A gain of this part of the value is none."""

Function: TypeAlias = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From a point to the value and the gradient there."""


class _Point(NamedTuple):
    """A point on the line of a step: its length, the value, its slope along the line, the point and the gradient."""

    length: float
    value: float
    slope: float
    x: np.ndarray
    gradient: np.ndarray


def minimised(
    function: Function,
    start: np.ndarray,
    iterations: int,
    tolerance: float = 1e-6,
    stopped: Callable[[], bool] = lambda: False,
    compiled: bool = False,
) -> np.ndarray:
    """Return the end point of L-BFGS: where a step gains no more than the tolerance, or at the limit of steps.

    Args:
        function: returns the value and the gradient at a point.
        start: the point to begin with.
        iterations: steps at most.
        tolerance: of the value, relative to its size if that is more than 1.
        stopped: asked after every step whether to end.
        compiled: whether the steps are worth a compiled kernel.
    """
    with ONE_BLAS_THREAD:
        x = np.array(start, dtype=np.float64)
        value, gradient = function(x)
        steps = _Steps(len(x), compiled)
        for _ in range(iterations):
            direction = -steps.times_inverse_hessian(gradient)
            slope = float(direction @ gradient)
            if steps.kept and not slope < 0:  # rounding: begin again
                steps.kept = 0
                direction, slope = -gradient, -float(gradient @ gradient)
            if not (isfinite(slope) and slope < 0):
                break
            first = 1.0 if steps.kept else 1.0 / sqrt(-slope)  # without a scale yet: a step of length 1
            if -slope * first <= ROUNDING * max(abs(value), 1.0):
                break
            found = _step(function, _Point(0.0, value, slope, x, gradient), direction, first)
            if found is None:
                break
            moved, change = found.x - x, found.gradient - gradient
            curvature = float(moved @ change)
            if curvature > ROUNDING * -slope * found.length:
                steps.keep(moved, change, curvature)
            gain, scale = value - found.value, max(abs(value), abs(found.value), 1.0)
            x, value, gradient = found.x, found.value, found.gradient
            if gain <= tolerance * scale or stopped():
                break
    return x


class _Steps:
    """The last steps: how far each went, how it changed the gradient, and the product of these, its curvature."""

    def __init__(self, cells: int, compiled: bool) -> None:
        self.kept = 0
        self._moves, self._changes = np.empty((MEMORY, cells)), np.empty((MEMORY, cells))
        self._curvatures, self._shares = np.empty(MEMORY), np.empty(MEMORY)
        self._following, self._compiled = 0, compiled

    def keep(self, moved: np.ndarray, change: np.ndarray, curvature: float) -> None:
        """Keep a step, in place of the oldest one if there are too many."""
        self._moves[self._following], self._changes[self._following] = moved, change
        self._curvatures[self._following] = curvature
        self._following = (self._following + 1) % MEMORY
        self.kept = min(self.kept + 1, MEMORY)

    def times_inverse_hessian(self, gradient: np.ndarray) -> np.ndarray:
        """Return H g, where H fits the steps."""
        if not self.kept:
            return gradient
        q = gradient.copy()
        if self._compiled:
            from ..engines.descent import times_inverse_hessian  # imports numba

            moves, changes = self._moves.ravel(), self._changes.ravel()
            times_inverse_hessian(q, moves, changes, self._curvatures, self._shares, self.kept, self._following)
            return q
        last = [(self._following - back) % MEMORY for back in range(1, self.kept + 1)]
        for step in last:
            self._shares[step] = self._moves[step] @ q / self._curvatures[step]
            q -= self._shares[step] * self._changes[step]
        q *= self._curvatures[last[0]] / (self._changes[last[0]] @ self._changes[last[0]])
        for step in reversed(last):
            q += (self._shares[step] - self._changes[step] @ q / self._curvatures[step]) * self._moves[step]
        return q


def _step(function: Function, origin: _Point, direction: np.ndarray, first: float) -> _Point | None:
    """Return a point on a line that fulfils the strong Wolfe conditions; else the lowest, None if none is lower.

    Lengths grow from `first` until an interval must have such a point, which then shrinks around it.
    """
    low, high, length = origin, None, first
    for _ in range(MOST_LENGTHS):
        x = origin.x + length * direction
        value, gradient = function(x)
        here = _Point(length, value if isfinite(value) else np.inf, float(gradient @ direction), x, gradient)
        if here.value > origin.value + DECREASE * length * origin.slope or here.value >= low.value:
            high = here
        elif abs(here.slope) <= -CURVATURE * origin.slope:
            return here
        else:
            if here.slope * (1.0 if high is None else high.length - low.length) >= 0:
                high = low
            low = here
        if high is not None and high.length == low.length:  # values that do not fit their slopes: no length is left
            break
        length = _longer(here, origin) if high is None else _between(low, high)
    return None if low is origin else low


def _longer(here: _Point, origin: _Point) -> float:
    """Return a larger length: where the slope would be zero if it changed evenly, within limits."""
    bend = (here.slope - origin.slope) / here.length
    far = -origin.slope / bend if bend > 0 else np.inf
    return here.length * min(max(far / here.length, 2.0), LONGEST_GROWTH)


def _between(low: _Point, high: _Point) -> float:
    """Return a length inside an interval: the minimum of the cubic with the values and slopes of its ends."""
    width = high.length - low.length
    middle = low.length + width / 2
    if not isfinite(high.value):
        return middle
    first = low.slope + high.slope - 3 * (high.value - low.value) / width
    under_root = first * first - low.slope * high.slope
    if under_root < 0:
        return middle
    root = sqrt(under_root) if width > 0 else -sqrt(under_root)
    below = high.slope - low.slope + 2 * root
    if below == 0:
        return middle
    share = 1 - (high.slope + root - first) / below
    return low.length + width * min(max(share, INSIDE), 1 - INSIDE)
