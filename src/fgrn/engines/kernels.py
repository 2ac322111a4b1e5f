"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

This is the one place that imports numba. Kernels release the GIL and are cached on disk. None is compiled with
`parallel`: threads are the flow's, which adds counts in the order of the rows. `fastmath` is limited to reassociation
and contraction, in sums that need them to be vectorised; zeros and infinities keep their meaning everywhere.

Arrays, by the names all kernels use:
    tape                   the records; `at` is where the operands of the current one begin
    values, transposed     parameters in the plan's layout; the same with every table transposed
    codes, soft            evidence, see `fgrn.evidence`; `packed`: the codes of the packs
    read, write            workspaces (rows, width): messages read and written; the same one in sweeps
    known_in, known_out    (rows, known width): whether evidence lies behind a message
    scale                  (rows,): log-likelihood so far; doubtful (rows,): something vanished in the linear domain
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .tape import (
    BACKWARD,
    BOUNDARY,
    CONSTANT,
    DIVERT,
    FORWARD,
    JOINT_ADD,
    JOINT_NORM,
    LEAVES,
    LEG_BACKWARD,
    LEG_FORWARD,
    LEG_LENGTH,
    LEG_PRIOR,
    LONE_SOURCE,
    MEET,
    POSTERIOR,
    SCATTER,
    TARGET_LENGTH,
)

# Division by zero gives infinity, as in NumPy, rather than an exception nobody could handle in a loop over rows.
kernel = njit(nogil=True, cache=True, error_model="numpy")
# Called from kernels only: without the wrappers Python would need, and cached as a part of those.
inner = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
summing = njit(
    nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"reassoc", "contract"}
)

# A state's running product is mantissa * 2**(500 * exponent); a mantissa below SMALL is lifted before it is used on.
LIFT, DROP, SMALL = 2.0**500, 2.0**-500, 2.0**-400
LOG_LIFT = 500 * np.log(2.0)
# A product of leaves is left as it is while its sum is above FAINT, which saves a logarithm and a division.
FAINT = 2.0**-300
# Below this the plain product of a few normalised messages may have lost a state that matters.
LOST = 2.0**-800


@summing
def _sum(x, at, count):
    total = 0.0
    for i in range(count):
        total += x[at + i]
    return total


@summing
def _dot(x, first, y, second, count):
    total = 0.0
    for i in range(count):
        total += x[first + i] * y[second + i]
    return total


@inner
def _normalise(x, at, count):
    """Divide by the sum, and return its logarithm: -inf for a message that vanished."""
    total = _sum(x, at, count)
    lifted = 0.0
    if total < LOST:
        for i in range(count):
            x[at + i] *= LIFT
        total *= LIFT
        lifted = LOG_LIFT
    if total <= 0.0:
        return -np.inf
    factor = 1.0 / total
    for i in range(count):
        x[at + i] *= factor
    return np.log(total) - lifted


@inner
def _is_known(codes, row, column):
    return column >= 0 and codes[row, column] != -1


@inner
def _apply_evidence(x, at, count, codes, soft, row, column, soft_at):
    """Multiply by the evidence in a column, which must be known in this row."""
    code = codes[row, column]
    if code >= 0:
        for i in range(count):
            if i != code:
                x[at + i] = 0.0
    else:
        for i in range(count):
            x[at + i] *= soft[row, soft_at + i]


@summing
def _through(table, start, rows, columns, x, first, out, target):
    """Out = x @ table; zeros in x cost nothing."""
    for j in range(columns):
        out[target + j] = 0.0
    for i in range(rows):
        value = x[first + i]
        if value != 0.0:
            for j in range(columns):
                out[target + j] += value * table[start + i * columns + j]


@inner
def _settle_backward(x, at, count, known, codes, soft, row, column, soft_at):
    """Put evidence on a backward message (of ones, if not `known`) and normalise it; returns the log of its norm."""
    if _is_known(codes, row, column):
        if not known:
            for i in range(count):
                x[at + i] = 1.0
        _apply_evidence(x, at, count, codes, soft, row, column, soft_at)
    elif not known:
        for i in range(count):
            x[at + i] = 1.0 / count
        return 0.0
    return _normalise(x, at, count)


# --- messages -----------------------------------------------------------------------------------------------------


@inner
def _constant(tape, at, rows, values, write, known_out):
    place, count, known, start = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        known_out[r, known] = False
        for i in range(count):
            write[r, place + i] = 1.0 / count if start < 0 else values[start + i]


@inner
def _boundary(tape, at, first, rows, codes, soft, write, known_out, doubtful):
    place, count, known, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    for r in range(rows):
        known_out[r, known] = _is_known(codes, first + r, column)
        if _settle_backward(write[r], place, count, False, codes, soft, first + r, column, soft_at) == -np.inf:
            doubtful[first + r] = True


@inner
def _forward(tape, at, first, rows, values, codes, soft, read, write, known_in, known_out, scale, doubtful, scratch):
    source, n, target, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        here = _is_known(codes, first + r, column)
        if here:
            for i in range(n):
                scratch[i] = read[r, source + i]
            _apply_evidence(scratch, 0, n, codes, soft, first + r, column, soft_at)
            _through(values, table, n, m, scratch, 0, write[r], target)
        else:
            _through(values, table, n, m, read[r], source, write[r], target)
        known_out[r, known_target] = known_in[r, known_source] or here
        norm = _normalise(write[r], target, m)
        if norm == -np.inf:
            doubtful[first + r] = True
        elif inward:
            scale[first + r] += norm


@inner
def _backward(tape, at, first, rows, transposed, codes, soft, read, write, known_in, known_out, scale, doubtful):
    target, n, source, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        known = known_in[r, known_source]
        if known:
            _through(transposed, table, m, n, read[r], source, write[r], target)
        known_out[r, known_target] = known or _is_known(codes, first + r, column)
        norm = _settle_backward(write[r], target, n, known, codes, soft, first + r, column, soft_at)
        if norm == -np.inf:
            doubtful[first + r] = True
        elif inward:
            scale[first + r] += norm


@inner
def _ones(mantissa, exponent, size):
    for i in range(size):
        mantissa[i] = 1.0
        exponent[i] = 0


@inner
def _leaves(tape, at, end, first, rows, window, joint, packed, write, known_out, scale, mantissa, exponent, level):
    """The product of all packs of a Diverter: a gather and a product each, lifted once in a window of packs."""
    place, size, known = tape[at], tape[at + 1], tape[at + 2]
    for r in range(rows):
        out = write[r]
        some = False
        since = 0
        lifted = window == 0  # factors so small that every single one needs care
        if lifted:
            _ones(mantissa, exponent, size)
        for record in range(at + 3, end, 3):
            code = np.int64(packed[first + r, tape[record]])
            if code == tape[record + 2]:
                continue
            start = tape[record + 1] + code * size
            if window == 0:
                _times(mantissa, exponent, size, joint, start, tape, -1)
            elif not some:
                for i in range(size):
                    out[place + i] = joint[start + i]
            else:
                if since == window:
                    since = 0
                    if not lifted:
                        lifted = True
                        for i in range(size):
                            exponent[i] = 0
                    for i in range(size):
                        if out[place + i] < SMALL and out[place + i] > 0.0:
                            out[place + i] *= LIFT
                            exponent[i] -= 1
                for i in range(size):
                    out[place + i] *= joint[start + i]
            some = True
            since += 1
        known_out[r, known] = some
        if some:
            if lifted:
                if window > 0:
                    for i in range(size):
                        mantissa[i] = out[place + i]
                scale[first + r] += LOG_LIFT * _levelled(mantissa, exponent, size, level)
                for i in range(size):
                    out[place + i] = level[i]
            total = _sum(out, place, size)
            if total < FAINT and total > 0.0:
                scale[first + r] += _normalise(out, place, size)


@inner
def _levelled(mantissa, exponent, size, out):
    """The product as plain numbers, up to the common exponent that is returned; all zero if it vanished."""
    top = 0
    found = False
    for i in range(size):
        if mantissa[i] > 0.0 and (not found or exponent[i] > top):
            top = exponent[i]
            found = True
    for i in range(size):
        behind = top - exponent[i]
        if mantissa[i] <= 0.0 or behind > 3:
            out[i] = 0.0
        else:
            value = mantissa[i]
            for _ in range(behind):
                value *= DROP
            out[i] = value
    return top


@inner
def _times(mantissa, exponent, size, x, at, maps, index):
    """Multiply the running product by a message (spread over the product space by its index vector)."""
    for i in range(size):
        value = x[at + (i if index < 0 else maps[index + i])]
        product = mantissa[i] * value
        if product < SMALL and mantissa[i] > 0.0 and value > 0.0:
            product = (mantissa[i] * LIFT) * (value * LIFT)
            exponent[i] -= 2
            while product > 1.0:
                product *= DROP
                exponent[i] += 1
        mantissa[i] = product


@inner
def _times_leg(mantissa, exponent, size, tape, leg, row, values, maps, codes, soft, read, known_in, scratch):
    """Multiply the running product by what comes in on a leg, from one row of messages; an unknown one is skipped."""
    kind, place, known, index = tape[leg], tape[leg + 1], tape[leg + 2], tape[leg + 3]
    if kind == LEG_PRIOR:
        _times(mantissa, exponent, size, values, place, maps, index)
    elif kind == LEG_BACKWARD:
        if known_in[known]:
            _times(mantissa, exponent, size, read, place, maps, -1)
    elif _is_known(codes, row, tape[leg + 4]):
        count = size
        if index >= 0:
            count = maps[index + size - 1] + 1  # the last joint state has the last state of every input
        for i in range(count):
            scratch[i] = read[place + i]
        _apply_evidence(scratch, 0, count, codes, soft, row, tape[leg + 4], tape[leg + 5])
        _times(mantissa, exponent, size, scratch, 0, maps, index)
    else:
        _times(mantissa, exponent, size, read, place, maps, index)


@inner
def _leg_is_known(tape, leg, row, codes, known_in):
    kind, known = tape[leg], tape[leg + 2]
    if kind == LEG_FORWARD:
        return known_in[known] or _is_known(codes, row, tape[leg + 4])
    return kind == LEG_BACKWARD and known_in[known]


@inner
def _divert(
    tape, at, first, rows, values, maps, codes, soft, read, write, known_in, known_out, scale, doubtful,
    mantissas, exponents, level, scratch,
):  # fmt: skip
    """The outgoing messages of a Diverter: products from the left and from the right, joined at each target."""
    size, legs, targets = tape[at], tape[at + 1], tape[at + 2]
    leg_at = at + 3
    target_at = leg_at + legs * LEG_LENGTH
    running, running_exponent = mantissas[targets], exponents[targets]
    for r in range(rows):
        row = first + r
        known = 0
        for leg in range(legs):
            known += _leg_is_known(tape, leg_at + leg * LEG_LENGTH, row, codes, known_in[r])
        _ones(running, running_exponent, size)
        leg = 0
        for number in range(targets):  # from the left: the product of all legs before each target
            position = tape[target_at + number * TARGET_LENGTH]
            while leg < position:
                _times_leg(
                    running, running_exponent, size, tape, leg_at + leg * LEG_LENGTH, row, values, maps, codes, soft,
                    read[r], known_in[r], scratch,
                )  # fmt: skip
                leg += 1
            for i in range(size):
                mantissas[number, i] = running[i]
                exponents[number, i] = running_exponent[i]
        _ones(running, running_exponent, size)
        leg = legs - 1
        for number in range(targets - 1, -1, -1):  # from the right, joining
            target = target_at + number * TARGET_LENGTH
            position = tape[target]
            while leg > position:
                _times_leg(
                    running, running_exponent, size, tape, leg_at + leg * LEG_LENGTH, row, values, maps, codes, soft,
                    read[r], known_in[r], scratch,
                )  # fmt: skip
                leg -= 1
            left, left_exponent = mantissas[number], exponents[number]
            for i in range(size):
                left[i] *= running[i]
                left_exponent[i] += running_exponent[i]
            others = known > _leg_is_known(tape, leg_at + position * LEG_LENGTH, row, codes, known_in[r])
            top = _levelled(left, left_exponent, size, level)
            norm = _target(tape, target, row, size, others, level, maps, codes, soft, write[r], known_out[r])
            if norm == -np.inf:
                doubtful[row] = True
            elif tape[target + 8]:
                scale[row] += norm + (top * LOG_LIFT if others or not tape[target + 4] else 0.0)


@inner
def _target(tape, target, row, size, others, level, maps, codes, soft, write, known_out):
    """Write the product of the other legs on a target leg, summed over the product space; returns the log norm."""
    place, count, known, into = tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 4]
    index, column, soft_at = tape[target + 5], tape[target + 6], tape[target + 7]
    if not into:
        for i in range(size):
            write[place + i] = level[i]
        known_out[known] = others
        return _normalise(write, place, size)
    if others:
        if index < 0:
            for i in range(size):
                write[place + i] = level[i]
        else:
            for i in range(count):
                write[place + i] = 0.0
            for i in range(size):
                write[place + maps[index + i]] += level[i]
    known_out[known] = others or _is_known(codes, row, column)
    return _settle_backward(write, place, count, others, codes, soft, row, column, soft_at)


@inner
def _posterior(
    tape, at, first, rows, values, maps, codes, soft, work, known, scale, doubtful, mantissas, exponents, level, scratch
):
    """The product of everything that comes in to a Diverter; its norm is the likelihood where it is a root."""
    place, size, root, legs = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    leg_at = at + 4
    plain = True  # every leg carries the whole space, without evidence on its edge
    for leg in range(legs):
        record = leg_at + leg * LEG_LENGTH
        plain &= tape[record + 3] < 0 and tape[record + 4] < 0
    for r in range(rows):
        row = first + r
        out = work[r]
        total = 0.0
        if plain:
            begun = False
            for leg in range(legs):
                record = leg_at + leg * LEG_LENGTH
                kind, source = tape[record], tape[record + 1]
                if kind == LEG_BACKWARD and not known[r, tape[record + 2]]:
                    continue
                message = values if kind == LEG_PRIOR else out
                if begun:
                    for i in range(size):
                        out[place + i] *= message[source + i]
                else:
                    begun = True
                    for i in range(size):
                        out[place + i] = message[source + i]
            total = _sum(out, place, size)
        if total > LOST:
            factor = 1.0 / total
            for i in range(size):
                out[place + i] *= factor
            if root:
                scale[row] += np.log(total)
            continue
        mantissa, exponent = mantissas[0], exponents[0]
        _ones(mantissa, exponent, size)
        for leg in range(legs):
            _times_leg(
                mantissa, exponent, size, tape, leg_at + leg * LEG_LENGTH, row, values, maps, codes, soft,
                out, known[r], scratch,
            )  # fmt: skip
        top = _levelled(mantissa, exponent, size, level)
        for i in range(size):
            out[place + i] = level[i]
        norm = _normalise(out, place, size)
        if norm == -np.inf:
            doubtful[row] = True
        elif root:
            scale[row] += norm + top * LOG_LIFT


@inner
def _meet(tape, at, first, rows, read, known_in, scale, doubtful):
    """The likelihood at a root: forward times backward on one of its edges."""
    forward, backward, count, known = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if known_in[r, known]:
            meeting = _dot(read[r], forward, read[r], backward, count)
            if meeting > 0.0:
                scale[first + r] += np.log(meeting)
            else:
                doubtful[first + r] = True


@kernel
def sweep(
    tape, first, rows, window, values, transposed, joint, packed, maps, codes, soft, read, write, known_in, known_out,
    scale, doubtful, mantissas, exponents, level, scratch,
):  # fmt: skip
    """Run a tape of messages on rows `first` to `first + rows`, which are the first rows of the workspaces."""
    at = 0
    while at < len(tape):
        operation, length = tape[at], tape[at + 1]
        at += 2
        if operation == CONSTANT:
            _constant(tape, at, rows, values, write, known_out)
        elif operation == BOUNDARY:
            _boundary(tape, at, first, rows, codes, soft, write, known_out, doubtful)
        elif operation == FORWARD:
            _forward(
                tape, at, first, rows, values, codes, soft, read, write, known_in, known_out, scale, doubtful, scratch
            )
        elif operation == BACKWARD:
            _backward(tape, at, first, rows, transposed, codes, soft, read, write, known_in, known_out, scale, doubtful)
        elif operation == LEAVES:
            _leaves(
                tape, at, at + length, first, rows, window, joint, packed, write, known_out, scale,
                mantissas[0], exponents[0], level,
            )  # fmt: skip
        elif operation == DIVERT:
            _divert(
                tape, at, first, rows, values, maps, codes, soft, read, write, known_in, known_out, scale, doubtful,
                mantissas, exponents, level, scratch,
            )  # fmt: skip
        elif operation == MEET:
            _meet(tape, at, first, rows, read, known_in, scale, doubtful)
        at += length


@kernel
def marginals(places, rows, read, out, doubtful):
    """Forward times backward, normalised, for places (forward, backward, target, count)."""
    for r in range(rows):
        for k in range(len(places)):
            forward, backward, target, count = places[k, 0], places[k, 1], places[k, 2], places[k, 3]
            for i in range(count):
                out[r, target + i] = read[r, forward + i] * read[r, backward + i]
            if _normalise(out[r], target, count) == -np.inf:
                doubtful[r] = True


# --- counts -------------------------------------------------------------------------------------------------------


@inner
def _joint_norm(tape, at, first, rows, values, codes, soft, work, doubtful, scratch):
    """F @ table @ b of a SISO, with the evidence on its input."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m = tape[at + 4], tape[at + 5]
    table, norm = tape[at + 6], tape[at + 7]
    for r in range(rows):
        for i in range(n):
            scratch[i] = work[r, source + i]
        if _is_known(codes, first + r, column):
            _apply_evidence(scratch, 0, n, codes, soft, first + r, column, soft_at)
        total = 0.0
        for i in range(n):
            if scratch[i] != 0.0:
                total += scratch[i] * _dot(values, table + i * m, work[r], output, m)
        work[r, norm] = total
        if total < LOST:
            doubtful[first + r] = True


@inner
def _joint_add(tape, at, first, rows, codes, soft, work, known, weights, expect, scratch, inner):
    """Add f b^T / norm of a SISO, which meets the table when all rows are in."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m = tape[at + 4], tape[at + 5]
    table, norm, known_output = tape[at + 6], tape[at + 7], tape[at + 8]
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0 or not (expect or known[r, known_output]):
            continue
        for i in range(n):
            scratch[i] = work[r, source + i]
        if _is_known(codes, first + r, column):
            _apply_evidence(scratch, 0, n, codes, soft, first + r, column, soft_at)
        for i in range(n):
            share = weight / work[r, norm] * scratch[i]
            if share != 0.0:
                for j in range(m):
                    inner[table + i * m + j] += share * work[r, output + j]


@inner
def _scatter(tape, at, end, first, rows, packed, work, weights, joint_counts, posteriors):
    """Add the posterior of a Diverter to its total, and to the row of each pack's code."""
    place, size, total_at = tape[at], tape[at + 1], tape[at + 2]
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0:
            continue
        posterior = work[r]
        if weight != 1.0:
            for i in range(size):
                posterior[place + i] *= weight
        for i in range(size):
            posteriors[total_at + i] += posterior[place + i]
        for record in range(at + 3, end, 3):
            start = tape[record + 1] + np.int64(packed[first + r, tape[record]]) * size
            for i in range(size):
                joint_counts[start + i] += posterior[place + i]


@inner
def _lone_source(tape, at, rows, work, weights, inner):
    forward, backward, count, prior = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if weights[r] != 0.0:
            share = weights[r] / _dot(work[r], forward, work[r], backward, count)
            for i in range(count):
                inner[prior + i] += share * work[r, forward + i] * work[r, backward + i]


@kernel
def counts(
    sweep_tape, count_tape, first, last, work, known, sure, window, values, transposed, joint, packed, maps,
    codes, soft, weights, expect, scale, doubtful, joint_counts, posteriors, inner, mantissas, exponents, level,
    scratch,
):  # fmt: skip
    """Expected counts of the rows from `first` to `last`, in blocks that stay in the cache.

    All that can vanish is computed before anything is added, so that a doubtful row adds nothing.
    """
    block = len(work)
    for begin in range(first, last, block):
        rows = min(block, last - begin)
        sweep(
            sweep_tape, begin, rows, window, values, transposed, joint, packed, maps, codes, soft, work, work,
            known, known, scale, doubtful, mantissas, exponents, level, scratch,
        )  # fmt: skip
        for stage in range(2):
            if stage == 1:
                for r in range(rows):
                    sure[r] = 0.0 if doubtful[begin + r] else weights[begin + r]
            at = 0
            while at < len(count_tape):
                operation, length = count_tape[at], count_tape[at + 1]
                at += 2
                if stage == 0:
                    if operation == POSTERIOR:
                        _posterior(
                            count_tape, at, begin, rows, values, maps, codes, soft, work, known, scale, doubtful,
                            mantissas, exponents, level, scratch,
                        )  # fmt: skip
                    elif operation == JOINT_NORM:
                        _joint_norm(count_tape, at, begin, rows, values, codes, soft, work, doubtful, scratch)
                    elif operation == MEET:
                        _meet(count_tape, at, begin, rows, work, known, scale, doubtful)
                elif operation == SCATTER:
                    _scatter(count_tape, at, at + length, begin, rows, packed, work, sure, joint_counts, posteriors)
                elif operation == JOINT_ADD:
                    _joint_add(count_tape, at, begin, rows, codes, soft, work, known, sure, expect, scratch, inner)
                elif operation == LONE_SOURCE:
                    _lone_source(count_tape, at, rows, work, sure, inner)
                at += length
