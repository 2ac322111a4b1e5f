"""The direction of a step of L-BFGS by a kernel, for `fgrn.learning.optimiser`."""

from __future__ import annotations

import numpy as np

from .kernels.directions import times_inverse_hessian

__all__ = ["compile_direction", "times_inverse_hessian"]


def compile_direction() -> None:
    """Compile the kernel of a direction, or load it."""
    times_inverse_hessian(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), 0, 0)
