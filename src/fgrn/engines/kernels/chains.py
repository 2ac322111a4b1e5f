"""Forward-backward and Viterbi along sequences of rows, for hidden Markov models and other chains."""

from __future__ import annotations

import numpy as np

from .basics import FAINT, LOST, ZERO, compact, kernel, normalise
from .vectors import copied, crossed, dot, increased, multiplied, scaled, set_all, summed, times


@kernel
def scan(rows, states, tables, sequences, out, here, ahead):
    """Run forward-backward along sequences of rows (see `Scan`); rows after an impossible one, of norm 0, are skipped.

    Without weights only forward.
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
    if not whole or not len(weights):
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


@kernel
def viterbi(rows, states, tables, sequences, came, now, ahead, path):
    """Find the most probable states of each sequence, the first of equal ones; tables and messages are logarithms.

    The log-weight of a sequence is put into `sequences.weights` at its first row. `came` has room for the state that
    each state of each row comes from, `now` and `ahead` for the states of a row.
    """
    prior, into = tables.prior, tables.transposed
    messages, which, begins, weights = sequences
    has_kinds = len(which) > 0
    first = np.uint64(0)
    for r in range(rows):
        place = np.uint64(r) * states
        local = np.uint64(which[r]) * states if has_kinds else place
        if begins[r]:
            first = np.uint64(r)
            for k in range(states):
                now[k] = prior[k] + messages[local + np.uint64(k)]
        else:
            for j in range(states):
                line = np.uint64(j) * states
                best, most = np.uint64(0), now[0] + into[line]
                for k in range(1, states):
                    total = now[k] + into[line + np.uint64(k)]
                    better = total > most  # selected, not branched on: what is better is hard to foresee
                    best = np.uint64(k) if better else best
                    most = total if better else most
                came[place + np.uint64(j)] = best
                ahead[j] = most + messages[local + np.uint64(j)]
            now, ahead = ahead, now
        if r == rows - 1 or begins[r + 1]:
            best = np.uint64(0)
            for k in range(states):
                if now[k] > now[best]:
                    best = np.uint64(k)
            path[r] = best
            weights[first] = now[best]
    for r in range(rows - 2, -1, -1):
        if not begins[r + 1]:
            path[r] = came[np.uint64(r + 1) * states + np.uint64(path[r + 1])]
