"""The forward-backward scan along sequences of rows, for hidden Markov models and other chains."""

from __future__ import annotations

import numpy as np

from .basics import FAINT, LOST, ZERO, compact, kernel, normalise
from .vectors import copied, crossed, dot, increased, multiplied, scaled, set_all, summed, times


@kernel
def scan(rows, states, tables, sequences, out, here, ahead):
    """Run forward-backward along sequences of rows (see `Scan`); rows after an impossible one, of norm 0, are skipped.

    Messages from row to row are not normalised, which would take longer than all the rest, but kept within bounds.
    """
    compact()
    prior, table, transposed = tables.prior, tables.table, tables.transposed
    local, begins, weights = sequences.local, sequences.begins, sequences.weights
    past, future, around, norms, first, steps = out
    before = 1.0  # the sum of what was handed on
    ended, whole = False, True
    for r in range(rows):
        place = np.uint64(r) * states
        if begins[r]:
            copied(prior, ZERO, here, ZERO, states)
            before = 1.0
            ended = False
        elif ended:
            norms[r] = 1.0
            continue
        else:
            multiplied(ahead, ZERO, states, table, ZERO, states, here, ZERO)
        copied(here, ZERO, past, place, states)
        scaled(past, place, 1.0 / before, states)
        copied(here, ZERO, ahead, ZERO, states)
        times(ahead, ZERO, local, place, states)
        total = summed(ahead, ZERO, states)
        norms[r] = total / before
        before = total
        if total < LOST:
            norms[r] = 0.0
            ended, whole = True, False
        elif total < FAINT:
            scaled(ahead, ZERO, 1.0 / total, states)
            before = 1.0
    if not whole:
        return
    for r in range(rows - 1, -1, -1):
        place = np.uint64(r) * states
        if r == rows - 1 or begins[r + 1]:
            set_all(future, place, 1.0, states)
        else:
            copied(local, place + states, ahead, ZERO, states)
            times(ahead, ZERO, future, place + states, states)
            total = summed(ahead, ZERO, states)
            if total < FAINT or total > 1.0 / FAINT:
                scaled(ahead, ZERO, 1.0 / total, states)
            multiplied(ahead, ZERO, states, transposed, ZERO, states, future, place)
            copied(past, place, here, ZERO, states)
            times(here, ZERO, local, place, states)
            share = weights[r] / dot(here, ZERO, future, place, states)
            crossed(steps, share, here, ZERO, states, ahead, ZERO, states)
        copied(past, place, around, place, states)
        times(around, place, future, place, states)
        normalise(around, place, states)
        if begins[r]:
            copied(around, place, here, ZERO, states)
            times(here, ZERO, local, place, states)
            normalise(here, ZERO, states)
            increased(first, ZERO, weights[r], here, ZERO, states)
