"""Minimisation of a smooth function from its values and gradients: L-BFGS, by SciPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..engines import ONE_BLAS_THREAD

MEMORY = 10
"""The number of past steps that L-BFGS uses."""


def minimised(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    iterations: int,
    tolerance: float = 1e-6,
    stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Return the end point of L-BFGS: where a step gains no more than the tolerance, or at the limit of steps."""
    from scipy.optimize import minimize  # scikit-learn brings SciPy, which takes time to import

    def end_if_asked(here: np.ndarray) -> None:
        if stopped():
            raise StopIteration

    limits = {"maxiter": iterations, "maxfun": 20 * iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": MEMORY}
    with ONE_BLAS_THREAD:
        found = minimize(function, start, jac=True, method="L-BFGS-B", callback=end_if_asked, options=limits)
    return np.asarray(found.x)
