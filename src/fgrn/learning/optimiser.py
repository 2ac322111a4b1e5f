"""Minimisation of a smooth function from its values and gradients: L-BFGS, see `fgrn.engines.kernels.descent`.

SciPy has this algorithm too. Importing `scipy.optimize` takes longer than all minimisations of a small table together,
and each of its steps more than a step here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..engines import ONE_BLAS_THREAD

Function: TypeAlias = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From a point to the value and the gradient there."""


def minimised(
    function: Function,
    start: np.ndarray,
    iterations: int,
    tolerance: float = 1e-6,
    stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Return the end point of L-BFGS: where a step gains no more than the tolerance, or at the limit of steps.

    Args:
        function: returns the value and the gradient at a point, in a new array.
        start: the point to begin with.
        iterations: steps at most.
        tolerance: of the value, relative to its size if that is more than 1.
        stopped: asked after every step whether to end.
    """
    from ..engines.minimiser import Descent  # imports numba

    with ONE_BLAS_THREAD:
        descent = Descent(start, iterations, tolerance)
        while not descent.has_ended and not (descent.is_new_step and stopped()):
            descent.told(*function(descent.point))
        return descent.best
