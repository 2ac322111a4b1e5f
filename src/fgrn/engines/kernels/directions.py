"""The direction of a step of L-BFGS, from the steps before it: see `fgrn.learning.optimiser`."""

from __future__ import annotations

import numpy as np

from .basics import ZERO, compact, short_kernel
from .vectors import dot, increased, scaled


@short_kernel
def times_inverse_hessian(vector, moves, changes, curvatures, shares, kept, following):
    """Multiply a vector by an estimate of the inverse of the Hessian matrix; it is overwritten.

    Args:
        vector: (cells,).
        moves: (steps * cells,) how far each step went.
        changes: (steps * cells,) how it changed the gradient.
        curvatures: (steps,) the products of these.
        shares: (steps,) room.
        kept: how many of the steps are used.
        following: the place of the next step; those before it are the last ones, and before the first comes the last.
    """
    compact()
    size, places = np.uint64(len(vector)), len(curvatures)
    bend = 1.0
    for back in range(1, kept + 1):
        step = (following - back) % places
        at = np.uint64(step) * size
        share = dot(moves, at, vector, ZERO, size) / curvatures[step]
        shares[step] = share
        increased(vector, ZERO, -share, changes, at, size)
        if back == 1:
            bend = curvatures[step] / dot(changes, at, changes, at, size)
    scaled(vector, ZERO, bend, size)
    for back in range(kept, 0, -1):
        step = (following - back) % places
        at = np.uint64(step) * size
        share = shares[step] - dot(changes, at, vector, ZERO, size) / curvatures[step]
        increased(vector, ZERO, share, moves, at, size)
