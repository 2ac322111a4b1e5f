"""Minimising a smooth function from its values and gradients: L-BFGS, by SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

MEMORY = 10
"""Steps that are remembered."""


def minimised(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    iterations: int,
    tolerance: float = 1e-6,
    stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Return where L-BFGS ends: where a step gains no more than the tolerance, or after so many steps."""
    from scipy.optimize import minimize  # scikit-learn brings SciPy, which takes time to import

    def end_if_asked(here: np.ndarray) -> None:
        if stopped():
            raise StopIteration

    limits = {"maxiter": iterations, "maxfun": 20 * iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": MEMORY}
    with ONE_BLAS_THREAD:
        found = minimize(function, start, jac=True, method="L-BFGS-B", callback=end_if_asked, options=limits)
    return np.asarray(found.x)


class OneBlasThread:
    """Lets BLAS use one thread: for vectors this short its threads only wait for each other, and keep processors busy.

    The limit holds for the whole process: it is lifted when the last of several users, in threads of their own, leaves.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = _blas_libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = OneBlasThread()


@cache
def _blas_libraries() -> Any:
    """Find the BLAS of NumPy and that of SciPy, which has been imported by now."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
