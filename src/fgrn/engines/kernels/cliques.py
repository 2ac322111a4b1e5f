"""Junction trees of small cliques: each step of the tape is run on many rows at once (lanes).

A message is an array (states, lanes): for each state, the numbers of all rows of a block (its lanes). Underflow is only
detected here: a row in which it might matter is doubtful, and computed again by itself. Records are as in `products`.
"""

from __future__ import annotations

import numpy as np

from .basics import (
    BELIEF_LENGTH,
    BOUNDARY,
    DIVERT,
    FAINT,
    LEG_LENGTH,
    LEG_PRIOR,
    LOST,
    NONE,
    ONWARD_LENGTH,
    POSTERIOR,
    PRODUCT,
    ROOT,
    SCATTER,
    SMALLEST,
    SMALLEST_PRODUCT,
    ZERO,
    compact,
    inlined,
    inner,
    is_known,
    kernel,
)
from .vectors import copied, divided, dot, increased, scaled, set_all, sums_of_columns, times


@inner
def wide_boundary(tape, at, first, rows, evidence, side):
    """Write the evidence on a variable in every lane; nothing is written if it is missing in all lanes."""
    compact()
    place, count, flag, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    lanes, work, least, codes, soft = side.lanes, side.messages, side.least, evidence.codes, evidence.soft
    missing = side.norms  # of each lane: what a state has before the codes are written
    set_all(missing, ZERO, 1.0, lanes)
    some = False
    for r in range(rows):
        if is_known(codes, first + r, column):
            missing[r], some = 0.0, True
    side.known[flag] = some
    if not some:
        return
    for s in range(count):
        copied(missing, ZERO, work, (place + s) * lanes, lanes)
    set_all(least, flag * lanes, 1.0, lanes)
    for r in range(rows):
        if missing[r] > 0.0:
            continue
        lane = np.uint64(r)
        code = codes[first + r, column]
        if code >= 0:
            work[(place + np.uint64(code)) * lanes + lane] = 1.0
            continue
        smallest = 1.0
        for s in range(count):
            value = soft[first + r, soft_at + s]
            work[(place + s) * lanes + lane] = value
            smallest = value if 0.0 < value < smallest else smallest
        least[flag * lanes + lane] = smallest


@inlined
def wide_product(tape, leg_at, legs, without, size, run, tables, side):
    """Multiply the messages of all legs of a Diverter but one, over its product space, in every lane."""
    compact()
    lanes, work, x, values, maps = side.lanes, side.messages, side.product, tables.values, tables.maps
    runs = size // run
    fresh = True
    for leg in range(legs):
        record = leg_at + leg * LEG_LENGTH
        kind, place, index = tape[record], tape[record + 1], tape[record + 3]
        if leg == without or (kind != LEG_PRIOR and not side.known[tape[record + 2]]):
            continue
        for k in range(runs):
            start = ZERO if index == NONE else maps[index + k]
            for i in range(run):
                cell = k * run + i
                state = place + (cell if index == NONE else start + maps[index + runs + i])
                if kind != LEG_PRIOR and fresh:
                    copied(work, state * lanes, x, cell * lanes, lanes)
                elif kind != LEG_PRIOR:
                    times(x, cell * lanes, work, state * lanes, lanes)
                elif fresh:
                    set_all(x, cell * lanes, values[state], lanes)
                else:
                    scaled(x, cell * lanes, values[state], lanes)
        fresh = False
    if fresh:
        set_all(x, ZERO, 1.0, size * lanes)


@inlined
def wide_sums(x, size, run, lanes, maps, index, out, place, count):
    """Sum over the joint states that share a state of a leg, in every lane."""
    compact()
    if index == NONE:
        copied(x, ZERO, out, place * lanes, count * lanes)
        return
    set_all(out, place * lanes, 0.0, count * lanes)
    runs = size // run
    for k in range(runs):
        start = place + maps[index + k]
        for i in range(run):
            increased(out, (start + maps[index + runs + i]) * lanes, 1.0, x, (k * run + i) * lanes, lanes)


@inlined
def wide_norms(x, at, count, lanes, norms):
    """Compute the sum over all states, in every lane."""
    compact()
    sums_of_columns(x, at * lanes, count, lanes, norms)


@inlined
def wide_scaled(x, at, count, lanes, norms):
    """Divide a message by its norm, in every lane; the norms are replaced by their inverses."""
    compact()
    for r in range(lanes):
        norms[r] = 1.0 / norms[r] if norms[r] > 0.0 else 0.0
    for s in range(count):
        times(x, (at + s) * lanes, norms, ZERO, lanes)


@inlined
def wide_account(first, rows, norms, scale, rest):
    """Multiply the likelihoods of the lanes by their norms."""
    compact()
    for r in range(rows):
        rest[first + r] *= norms[r]
        if rest[first + r] < FAINT:
            scale[first + r] += np.log(rest[first + r]) if rest[first + r] > 0.0 else 0.0
            rest[first + r] = 1.0


@inner
def wide_divert(tape, at, first, rows, tables, side, books):
    """Compute the message of a Diverter towards the root, in every lane."""
    lanes, work, known, least = side.lanes, side.messages, side.known, side.least
    norms, bounds, doubtful = side.norms, side.bounds, books.doubtful
    size, run, legs = tape[at], tape[at + 1], np.int64(tape[at + 2])
    leg_at = at + 4
    target = leg_at + legs * LEG_LENGTH
    without = np.int64(tape[target])
    place, count, flag, index = tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 5]
    set_all(bounds, ZERO, 1.0, lanes)
    for leg in range(legs):
        record = leg_at + leg * LEG_LENGTH
        if leg == without:
            continue
        if tape[record] == LEG_PRIOR:
            smallest = tables.values[tape[record + 1] - np.uint64(1)] if tape[record + 2] == PRODUCT else 0.0
            for r in range(lanes):
                bounds[r] *= smallest
        elif known[tape[record + 2]]:
            times(bounds, ZERO, least, tape[record + 2] * lanes, lanes)
    wide_product(tape, leg_at, legs, without, size, run, tables, side)
    wide_sums(side.product, size, run, lanes, tables.maps, index, work, place, count)
    wide_norms(work, place, count, lanes, norms)
    for r in range(rows):
        if norms[r] < FAINT or bounds[r] < SMALLEST_PRODUCT:
            doubtful[first + r] = True
    wide_account(first, rows, norms, books.scale, books.rest)
    wide_scaled(work, place, count, lanes, norms)
    known[flag] = True
    set_all(least, flag * lanes, 1.0, lanes)
    for s in range(count):
        for r in range(lanes):
            value = work[(place + s) * lanes + np.uint64(r)]
            if 0.0 < value < least[flag * lanes + np.uint64(r)]:
                least[flag * lanes + np.uint64(r)] = value
    for r in range(rows):
        if least[flag * lanes + np.uint64(r)] < SMALLEST:
            doubtful[first + r] = True


@inner
def wide_posterior(tape, at, first, rows, tables, side, books, out_width, marginal):
    """Compute the posterior of a Diverter and the messages that follow from it; see `products.posterior_of`."""
    compact()
    lanes, work, x, norms, maps = side.lanes, side.messages, side.product, side.norms, tables.maps
    store, size, run, role, legs = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], np.int64(tape[at + 4])
    onwards, beliefs, leg_at = np.int64(tape[at + 5]), np.int64(tape[at + 6]), at + 7
    onward_at = leg_at + legs * LEG_LENGTH
    belief_at = onward_at + onwards * ONWARD_LENGTH
    wide_product(tape, leg_at, legs, np.int64(-1), size, run, tables, side)
    wide_norms(x, ZERO, size, lanes, norms)
    for r in range(rows):
        if norms[r] < (FAINT if role == ROOT else LOST):
            books.doubtful[first + r] = True
    if role == ROOT:
        wide_account(first, rows, norms, books.scale, books.rest)
    wide_scaled(x, ZERO, size, lanes, norms)
    if store != NONE:
        copied(x, ZERO, work, store * lanes, size * lanes)
    for number in range(onwards):
        target = onward_at + number * ONWARD_LENGTH
        index, place, count, back = tape[target], tape[target + 1], tape[target + 2], tape[target + 3]
        wide_sums(x, size, run, lanes, maps, index, work, place, count)
        divided(work, place * lanes, work, back * lanes, count * lanes)
        wide_norms(work, place, count, lanes, norms)
        wide_scaled(work, place, count, lanes, norms)
        side.known[tape[target + 4]] = True
    spare = size * lanes
    for number in range(beliefs):
        target = belief_at + number * BELIEF_LENGTH
        index, place, count = tape[target], tape[target + 1], tape[target + 2]
        if index == NONE:
            for r in range(rows):
                for s in range(count):
                    marginal[np.uint64(first + r) * out_width + place + s] = x[s * lanes + np.uint64(r)]
            continue
        wide_sums(x, size, run, lanes, maps, index, x, size, count)
        for r in range(rows):
            for s in range(count):
                marginal[np.uint64(first + r) * out_width + place + s] = x[spare + s * lanes + np.uint64(r)]


@inner
def wide_scatter(tape, at, side, posteriors):
    """Add the posteriors of a Diverter in all lanes to its expected counts."""
    compact()
    place, size, total = tape[at], tape[at + 1], tape[at + 2]
    lanes = side.lanes
    for c in range(size):
        posteriors[total + c] += dot(side.messages, (place + c) * lanes, side.sure, ZERO, lanes)


@kernel
def cliques(tapes, total, tables, evidence, side, books, out_width, marginal, totals):
    """Run the tapes of a junction tree on all rows, `side.lanes` at a time; rows that may underflow add nothing."""
    compact()
    count, doubtful = side.lanes, books.doubtful
    for first in range(0, total, np.int64(count)):
        rows = np.int64(count) if first + np.int64(count) < total else total - first
        at = np.int64(0)
        while at < len(tapes.sweep):
            operation, length = tapes.sweep[at], np.int64(tapes.sweep[at + 1])
            at += 2
            if operation == BOUNDARY:
                wide_boundary(tapes.sweep, at, first, rows, evidence, side)
            elif operation == DIVERT:
                wide_divert(tapes.sweep, at, first, rows, tables, side, books)
            at += length
        for stage in range(2 if len(totals.weights) else 1):
            if stage == 1:
                set_all(side.sure, ZERO, 0.0, count)
                for r in range(rows):
                    side.sure[r] = 0.0 if doubtful[first + r] else totals.weights[first + r]
            at = np.int64(0)
            while at < len(tapes.counting):
                operation, length = tapes.counting[at], np.int64(tapes.counting[at + 1])
                at += 2
                if stage == 0 and operation == POSTERIOR:
                    wide_posterior(tapes.counting, at, first, rows, tables, side, books, out_width, marginal)
                elif stage == 1 and operation == SCATTER:
                    wide_scatter(tapes.counting, at, side, totals.posteriors)
                at += length
