"""L-BFGS that asks for values and gradients: the minimum of a smooth function that only its user can compute."""

from __future__ import annotations

import numpy as np

from .kernels.descent import (
    BASE,
    ENOUGH_GAIN,
    FINISHED,
    MEMORY,
    NEXT_STEP,
    STATE_COUNTERS,
    STATE_NUMBERS,
    STATE_VECTORS,
    STEPS_LEFT,
    descend,
)


class Descent:
    """A descent from a point to a minimum, see `kernels.descent`.

    `point` is where the value and the gradient are wanted; `has_ended` says that they are not, and `is_new_step` that
    the last step ended. `best` is the point that the last step led to.

    Args:
        start: the point to begin with.
        steps: at most.
        tolerance: a step that gains no more is the last one; relative to the size of the value if that is more than 1.
    """

    def __init__(self, start: np.ndarray, steps: int, tolerance: float) -> None:
        self.point = np.array(start, dtype=np.float64)
        self.has_ended = self.is_new_step = False
        self._vectors = np.empty(STATE_VECTORS * len(self.point))
        self._numbers, self._counters = np.zeros(STATE_NUMBERS), np.zeros(STATE_COUNTERS, dtype=np.int64)
        self._curvatures = np.empty(2 * MEMORY)
        self._numbers[ENOUGH_GAIN], self._counters[STEPS_LEFT] = tolerance, -1 - steps

    @property
    def best(self) -> np.ndarray:
        """The best point so far."""
        size = len(self.point)
        return self._vectors[BASE * size : (BASE + 1) * size].copy()

    def told(self, value: float, gradient: np.ndarray) -> None:
        """Take the value and the gradient at the point, and go to the next one; the gradient may be overwritten."""
        slopes = np.require(gradient, np.float64, ["C", "W"])
        state = self._vectors, self._numbers, self._counters, self._curvatures
        found = descend(float(value), slopes, self.point, *state)
        self.has_ended, self.is_new_step = found == FINISHED, found == NEXT_STEP


def compile_minimiser() -> None:
    """Compile the kernel of a descent, or load it."""
    Descent(np.zeros(1), 1, 0.0).told(0.0, np.zeros(1))
