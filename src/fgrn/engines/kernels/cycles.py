"""Expected counts from held messages: the paper's cycles 2 to K."""

from __future__ import annotations

import numpy as np

from .basics import LOST, ZERO, kernel
from .vectors import dot, increased, set_all


@kernel
def recount(sisos, sources, rows, width, transposed, messages, weights, expect, doubtful, norms, cells, x):
    """Add expected counts from held messages (see `engines.cycles`); rows that may underflow add nothing.

    For a SISO f b^T / norm is added, transposed; the sum over rows is multiplied by the table at the end.
    """
    into, back, belief, known = messages.into, messages.back, messages.belief, messages.known
    for r in range(rows):
        if weights[r] == 0.0 or doubtful[r]:
            continue
        base = np.uint64(r) * width
        for k in range(len(sisos)):
            source, n, output, m, table = sisos[k, 0], sisos[k, 1], sisos[k, 2], sisos[k, 3], sisos[k, 4]
            set_all(x, ZERO, 0.0, n)
            for j in range(m):
                value = back[base + output + j]
                if value != 0.0:
                    increased(x, ZERO, value, transposed, table + j * n, n)
            norms[r, k] = dot(into, base + source, x, ZERO, n)
            if norms[r, k] < LOST:
                doubtful[r] = True
                break
        if doubtful[r]:
            continue
        for k in range(len(sisos)):
            if not (expect or known[r, sisos[k, 5]]):
                continue
            source, n, output, m, table = sisos[k, 0], sisos[k, 1], sisos[k, 2], sisos[k, 3], sisos[k, 4]
            share = weights[r] / norms[r, k]
            for j in range(m):
                value = back[base + output + j]
                if value != 0.0:
                    increased(cells, table + j * n, share * value, into, base + source, n)
        for k in range(len(sources)):
            increased(cells, sources[k, 2], weights[r], belief, base + sources[k, 0], sources[k, 1])
