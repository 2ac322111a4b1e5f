"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

This is the one place that imports numba, and one file on purpose, with every constant a kernel knows: the cache on
disk is renewed when the file of a kernel changes, and would not notice a change in another. Kernels release the GIL.
None is compiled with `parallel`: threads are the flow's, which adds counts in the order of the rows. Nor with
`fastmath`: sums are free to change their order in `vectors`, and nothing else is.

Places and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat: a row is a place in them, not a view. `NONE`
stands where there is nothing.

Arrays, by the names all kernels use:
    tape                   the records; `at` is where the operands of the current one begin
    values, transposed     parameters in the plan's layout; the same with every table transposed
    codes, soft            evidence, see `fgrn.evidence`
    entries, bounds        what is known of gathered leaves, see `packs.Known`
    joint, shifts, deep    their joint tables, see `packs.Joint`
    read, write            workspaces, flat, `width` to a row: messages read and written; the same one in sweeps
    known_in, known_out    (rows, known width): whether evidence lies behind a message
    scale, rest            (rows,): the likelihood so far is exp(scale) * rest
    margin, doubtful       (rows,): how far a state that was lost is from what is left; rows the judge has to decide
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .vectors import (
    copied,
    dot,
    filled,
    gathered,
    increased,
    least,
    least_positive,
    scaled,
    scattered,
    summed,
    times,
)

# Operations. A record on the tape is: operation, length of what follows, operands.
CONSTANT, BOUNDARY, FORWARD, BACKWARD, LEAVES, DIVERT, POSTERIOR, MEET = range(8)
SCATTER, JOINT_NORM, JOINT_ADD, LONE_SOURCE = range(8, 12)
# What comes in on the leg of a Diverter: a forward message (with evidence), a backward one, a prior.
LEG_FORWARD, LEG_BACKWARD, LEG_PRIOR = range(3)
LEG_LENGTH, TARGET_LENGTH = 6, 9

# Division by zero gives infinity, as in NumPy, rather than an exception nobody could handle in a loop over rows. No
# kernel makes an array: without the runtime for that nobody counts references, which would take half of the time.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
kernel = njit(cache=True, **OPTIONS)
# Called from kernels only: without the wrappers Python would need, and cached as a part of those.
inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)
# What is called for every row: a call, with all the parts of all the arrays, would cost more than the work.
inlined = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, **OPTIONS)

# The digest of `vectors.py`, a part of the kernels: to change it there is to change this file, which renews the cache.
VECTORS = "0bb67ebc81e8"

NONE, ZERO, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)

# A state's running product is mantissa * 2**(500 * exponent); a mantissa below SMALL is lifted before it is used on.
LIFT, DROP, SMALL = 2.0**500, 2.0**-500, 2.0**-400
LOG_TWO = np.log(2.0)
LOG_LIFT = 500 * LOG_TWO
# What is below the first of these, in a message that sums to one, counts as lost, as a product or two may make it
# vanish: its share is below exp(-FULL_MARGIN). What was lost may not come nearer than exp(-LEAST_MARGIN) to the rest.
SMALLEST, FULL_MARGIN, LEAST_MARGIN = 2.0**-500, 346.0, 46.0
# A product of leaves is left as it is while its sum is above FAINT, which saves a logarithm and a division: no factor
# is above 1, so what got below SMALLEST_PRODUCT, or vanished, has less than exp(-FULL_MARGIN) of it.
FAINT, SMALLEST_PRODUCT = 2.0**-300, 2.0**-900
# Below this the plain product of a few normalised messages may have lost a state that matters.
LOST = 2.0**-800


@inlined
def _normalise(x, at, count):
    """Divide by the sum, which is returned: 0 for a message that vanished, or nearly so."""
    norm = summed(x, at, count)
    if norm < LOST:  # bits of the smallest may be gone
        return 0.0
    scaled(x, at, 1.0 / norm, count)
    return norm


@inlined
def _is_known(codes, row, column):
    return column != NONE and codes[row, column] != -1


@inlined
def _apply_evidence(x, at, count, codes, soft, row, column, soft_at):
    """Multiply by the evidence in a column, which must be known in this row."""
    code = codes[row, column]
    if code >= 0:
        kept = x[at + np.uint64(code)]
        filled(x, at, 0.0, count)
        x[at + np.uint64(code)] = kept
    else:
        for i in range(count):
            x[at + i] *= soft[row, soft_at + i]


@inlined
def _into_reader(x, at, count, scratch, codes, soft, row, column, soft_at):
    """Copy a forward message to the scratch, times the evidence on its edge, for the block that reads it."""
    copied(x, at, scratch, ZERO, count)
    if _is_known(codes, row, column):
        _apply_evidence(scratch, ZERO, count, codes, soft, row, column, soft_at)


@inlined
def _through(table, other, start, n, m, x, first, out, target):
    """Make out = x @ table, (n, m), of which `other` has the transposed: along the longer side, zeros in x skipped."""
    if m < n:
        for j in range(m):
            out[target + j] = dot(x, first, other, start + j * n, n)
        return
    filled(out, target, 0.0, m)
    for i in range(n):
        if x[first + i] != 0.0:
            increased(out, target, x[first + i], table, start + i * m, m)


@inlined
def _settle_backward(x, at, count, known, codes, soft, row, column, soft_at):
    """Put evidence on a backward message (of ones, if not `known`) and normalise it; returns its norm."""
    if _is_known(codes, row, column):
        if not known:
            filled(x, at, 1.0, count)
        _apply_evidence(x, at, count, codes, soft, row, column, soft_at)
    elif not known:
        filled(x, at, 1.0 / count, count)
        return 1.0
    return _normalise(x, at, count)


# --- messages -----------------------------------------------------------------------------------------------------


@inner
def _constant(tape, at, rows, width, values, write, known_out):
    place, count, known, start = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        known_out[r, known] = False
        target = np.uint64(r) * width + place
        if start == NONE:
            filled(write, target, 1.0 / count, count)
        else:
            copied(values, start, write, target, count)


@inner
def _boundary(tape, at, first, rows, width, codes, soft, write, known_out, margin, doubtful):
    place, count, known, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    for r in range(rows):
        row = first + r
        known_out[r, known] = _is_known(codes, row, column)
        target = np.uint64(r) * width + place
        norm = _settle_backward(write, target, count, False, codes, soft, row, column, soft_at)
        _note(row, norm, _is_faint(write, target, count), margin, doubtful)


@inner
def _forward(
    tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale, rest,
    margin, doubtful, scratch,
):  # fmt: skip
    source, n, target, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        _into_reader(read, base + source, n, scratch, codes, soft, row, column, soft_at)
        _through(values, transposed, table, n, m, scratch, ZERO, write, base + target)
        known_out[r, known_target] = known_in[r, known_source] or _is_known(codes, row, column)
        norm = _normalise(write, base + target, m)
        _note(row, norm, _is_faint(write, base + target, m), margin, doubtful)
        if inward:
            _account(row, norm, scale, rest)


@inner
def _backward(
    tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale, rest,
    margin, doubtful,
):  # fmt: skip
    target, n, source, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = known_in[r, known_source]
        if known:
            _through(transposed, values, table, m, n, read, base + source, write, base + target)
        known_out[r, known_target] = known or _is_known(codes, row, column)
        norm = _settle_backward(write, base + target, n, known, codes, soft, row, column, soft_at)
        _note(row, norm, _is_faint(write, base + target, n), margin, doubtful)
        if inward:
            _account(row, norm, scale, rest)


@inlined
def _shift(shifts, first, entries, begin, end):
    """The exponent of what was taken out of the rows of joint tables."""
    total = 0
    for entry in range(begin, end):
        total += shifts[first + np.uint64(entries[entry])]
    return total


@inner
def _carefully(joint, start, stride, size, entries, begin, end, mantissa, exponent, out, at):
    """The same product by states with exponents of their own, times what is in `out`; see `_levelled`."""
    _ones(mantissa, exponent, ZERO, size)
    _times(mantissa, exponent, ZERO, out, at, entries, NONE, size)
    for entry in range(begin, end):
        cell = start + np.uint64(entries[entry]) * stride
        _times(mantissa, exponent, ZERO, joint, cell, entries, NONE, size)
    return _levelled(mantissa, exponent, ZERO, size, out, at)


@inner
def _vanished(joint, start, stride, size, entries, begin, end, p, deep):
    """Whether the product lost a state that no factor forbids, or nearly so."""
    for i in range(size):
        if p[i] < SMALLEST_PRODUCT:
            forbidden = False
            if p[i] == 0.0 and not deep:
                for entry in range(begin, end):
                    forbidden |= joint[start + np.uint64(entries[entry]) * stride + i] == 0.0
            if not forbidden:
                return True
    return False


@inner
def _leaves(
    tape, at, first, rows, width, deep, joint, shifts, entries, bounds, out, known_out, scale, margin, doubtful,
    mantissa, exponent, p,
):  # fmt: skip
    """The product of all packs of a Diverter: a gather and a product each."""
    size, known, number = tape[at + 1], tape[at + 2], tape[at + 3]
    start, stride, shift_at = tape[at + 4], tape[at + 5], tape[at + 6]
    for r in range(rows):
        row, place = first + r, np.uint64(r) * width + tape[at]
        begin, end = bounds[number, row], bounds[number, row + 1]
        known_out[r, known] = end > begin
        if end == begin:
            continue
        filled(p, ZERO, 1.0, stride)
        total = gathered(p, joint, start, stride, entries, begin, end, p)
        scale[row] += _shift(shifts, shift_at, entries, begin, end) * LOG_TWO
        copied(p, ZERO, out, place, size)
        if total > FAINT:
            if least(p, ZERO, size) < SMALLEST_PRODUCT:
                lost = _vanished(joint, start, stride, size, entries, begin, end, p, deep)
                _note(row, 1.0, lost, margin, doubtful)
            continue
        filled(out, place, 1.0, size)
        taken, lost = _carefully(joint, start, stride, size, entries, begin, end, mantissa, exponent, out, place)
        _note(row, 0.0 if deep or taken == -np.inf else 1.0, lost, margin, doubtful)
        scale[row] += taken


@inner
def _ones(mantissa, exponent, own, size):
    for i in range(size):
        mantissa[own + i] = 1.0
        exponent[own + i] = 0


@inner
def _times(mantissa, exponent, own, x, at, maps, index, size):
    """Multiply the running product, from `own` on, by a message (spread over the product space by its index vector)."""
    for i in range(size):
        value = x[at + (i if index == NONE else maps[index + i])]
        before = mantissa[own + i]
        product = before * value
        if product < SMALL and before > 0.0 and value > 0.0:
            product = (before * LIFT) * (value * LIFT)
            exponent[own + i] -= 2
            while product > 1.0:
                product *= DROP
                exponent[own + i] += 1
        mantissa[own + i] = product


@inner
def _levelled(mantissa, exponent, own, size, out, at):
    """The product as plain numbers of which the largest is 1.

    Returns the logarithm of what was taken out, and whether a state was lost because it is smaller than the largest by
    more than a plain number can say. All zero, and -inf, if the product vanished.
    """
    top = 0
    found = False
    for i in range(size):
        if mantissa[own + i] > 0.0 and (not found or exponent[own + i] > top):
            top = exponent[own + i]
            found = True
    largest = 0.0
    for i in range(size):
        value = mantissa[own + i]
        for _ in range(min(top - exponent[own + i], 3)):
            value *= DROP
        largest = max(largest, value)
    if largest <= 0.0:
        for i in range(size):
            out[at + i] = 0.0
        return -np.inf, False
    lost = False
    factor = 1.0 / largest
    for i in range(size):
        value = mantissa[own + i] * factor
        for _ in range(min(top - exponent[own + i], 3)):
            value *= DROP
        if value < SMALLEST and mantissa[own + i] > 0.0:
            lost = True
        out[at + i] = value
    return top * LOG_LIFT + np.log(largest), lost


@inlined
def _is_faint(x, at, count):
    """Whether a message holds a state so small that a product may make it vanish."""
    return least_positive(x, at, count) < SMALLEST


@inlined
def _note(row, norm, lost, margin, doubtful):
    """Keep the books of what was lost in a row.

    A lost state has at most exp(-FULL_MARGIN) of the mass of the message it was lost from. Every norm below one may
    bring it nearer to what is left; a row in which it could come near is doubtful. So is one that vanished.
    """
    if norm == 0.0:
        doubtful[row] = True
        return
    if margin[row] < np.inf and norm < 1.0:
        margin[row] += np.log(norm)
    if lost:
        margin[row] = min(margin[row], FULL_MARGIN)
    if margin[row] < LEAST_MARGIN:
        doubtful[row] = True


@inlined
def _account(row, norm, scale, rest):
    """Multiply the likelihood of a row, exp(scale) * rest, by a norm: a logarithm only now and then."""
    rest[row] *= norm
    if rest[row] < FAINT or rest[row] > 1.0 / FAINT:
        scale[row] += np.log(rest[row]) if rest[row] > 0.0 else 0.0  # a row that vanished is doubtful
        rest[row] = 1.0


@inner
def _times_leg(
    mantissa, exponent, own, size, tape, leg, r, row, base, values, maps, codes, soft, read, known_in, scratch
):
    """Multiply the running product by what comes in on a leg; an unknown one is skipped."""
    kind, place, known, index = tape[leg], tape[leg + 1], tape[leg + 2], tape[leg + 3]
    if kind == LEG_PRIOR:
        _times(mantissa, exponent, own, values, place, maps, index, size)
    elif kind == LEG_BACKWARD:
        if known_in[r, known]:
            _times(mantissa, exponent, own, read, base + place, maps, NONE, size)
    elif _is_known(codes, row, tape[leg + 4]):
        count = size
        if index != NONE:
            count = maps[index + size - ONE] + ONE  # the last joint state has the last state of every input
        _into_reader(read, base + place, count, scratch, codes, soft, row, tape[leg + 4], tape[leg + 5])
        _times(mantissa, exponent, own, scratch, ZERO, maps, index, size)
    else:
        _times(mantissa, exponent, own, read, base + place, maps, index, size)


@inlined
def _leg_is_known(tape, leg, r, row, codes, known_in):
    kind, known = tape[leg], tape[leg + 2]
    if kind == LEG_FORWARD:
        return known_in[r, known] or _is_known(codes, row, tape[leg + 4])
    return kind == LEG_BACKWARD and known_in[r, known]


@inlined
def _plain_leg(x, own, size, tape, leg, r, row, base, values, maps, codes, soft, read, known_in, scratch):
    """Multiply a plain product, from `own` on, by what comes in on a leg; an unknown one is skipped."""
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    if kind == LEG_BACKWARD:
        if known_in[r, tape[leg + 2]]:
            times(x, own, read, base + place, size)
    elif kind == LEG_PRIOR:
        if index == NONE:
            times(x, own, values, place, size)
        else:
            for i in range(size):
                x[own + i] *= values[place + maps[index + i]]
    else:
        count = size if index == NONE else maps[index + size - ONE] + ONE  # the last joint state is the last of all
        _into_reader(read, base + place, count, scratch, codes, soft, row, tape[leg + 4], tape[leg + 5])
        if index == NONE:
            times(x, own, scratch, ZERO, size)
        else:
            for i in range(size):
                x[own + i] *= scratch[maps[index + i]]


@inner
def _leg_forbids(state, tape, leg, r, row, base, values, maps, codes, soft, read, known_in):
    """Whether what comes in on a leg is zero in a state of the space."""
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    own = state if index == NONE else maps[index + state]
    if kind == LEG_BACKWARD:
        return known_in[r, tape[leg + 2]] and read[base + place + own] == 0.0
    if kind == LEG_PRIOR:
        return values[place + own] == 0.0
    column = tape[leg + 4]
    if _is_known(codes, row, column):
        code = codes[row, column]
        if (code >= 0 and np.uint64(code) != own) or (code < 0 and soft[row, tape[leg + 5] + own] == 0.0):
            return True
    return read[base + place + own] == 0.0


@inlined
def _plain_products(
    tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, x, scratch
):
    """The product of all legs but that of target k, in the k-th piece of `x`, for all targets of a Diverter.

    Products from the left and from the right are joined at each target; the running one has the piece behind the last.
    False if one of them lost a state: then plain numbers will not do.
    """
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    filled(x, running, 1.0, size)
    leg = np.int64(0)
    for number in range(targets):
        position = np.int64(tape[target_at + number * TARGET_LENGTH])
        while leg != position:
            _plain_leg(
                x, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                known_in, scratch,
            )  # fmt: skip
            leg += 1
        copied(x, running, x, np.uint64(number) * size, size)
    filled(x, running, 1.0, size)
    leg = legs - 1
    for number in range(targets - 1, -1, -1):
        position, left = np.int64(tape[target_at + number * TARGET_LENGTH]), np.uint64(number) * size
        while leg != position:
            _plain_leg(
                x, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                known_in, scratch,
            )  # fmt: skip
            leg -= 1
        times(x, left, x, running, size)
        if summed(x, left, size) < FAINT:
            return False
        if least(x, left, size) > SMALLEST_PRODUCT:
            continue
        for i in range(size):
            if x[left + i] < SMALLEST_PRODUCT:
                forbidden = False
                for other in range(legs):
                    forbidden |= other != position and _leg_forbids(
                        np.uint64(i), tape, leg_at + other * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                        known_in,
                    )  # fmt: skip
                if not forbidden:
                    return False
    return True


@inner
def _careful_products(
    tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa, exponent,
    scratch,
):  # fmt: skip
    """The same, each state with an exponent of its own."""
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    for way in range(2):
        _ones(mantissa, exponent, running, size)
        leg = np.int64(0) if way == 0 else legs - 1
        for step in range(targets):
            number = step if way == 0 else targets - 1 - step
            position, left = np.int64(tape[target_at + number * TARGET_LENGTH]), np.uint64(number) * size
            while leg != position:
                _times_leg(
                    mantissa, exponent, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps,
                    codes, soft, read, known_in, scratch,
                )  # fmt: skip
                leg += 1 if way == 0 else -1
            if way == 0:
                copied(mantissa, running, mantissa, left, size)
                copied(exponent, running, exponent, left, size)
                continue
            for i in range(size):
                mantissa[left + i] *= mantissa[running + i]
                exponent[left + i] += exponent[running + i]


@inner
def _divert(
    tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale, rest, margin,
    doubtful, mantissa, exponent, scratch,
):  # fmt: skip
    """The outgoing messages of a Diverter."""
    size, legs, targets = tape[at], np.int64(tape[at + 1]), np.int64(tape[at + 2])
    leg_at = at + 3
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = 0
        for leg in range(legs):
            known += _leg_is_known(tape, leg_at + leg * LEG_LENGTH, r, row, codes, known_in)
        careful = not _plain_products(
            tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa,
            scratch,
        )  # fmt: skip
        if careful:
            _careful_products(
                tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa,
                exponent, scratch,
            )  # fmt: skip
        for number in range(targets):
            target = leg_at + legs * LEG_LENGTH + number * TARGET_LENGTH
            own, position = np.uint64(number) * size, np.int64(tape[target])
            others = known > _leg_is_known(tape, leg_at + position * LEG_LENGTH, r, row, codes, known_in)
            taken, lost = 0.0, False
            if careful:
                taken, lost = _levelled(mantissa, exponent, own, size, mantissa, own)
            norm = _target(
                tape, target, r, row, base, size, others, mantissa, own, maps, codes, soft, write, known_out
            )  # fmt: skip
            if others or not tape[target + 4]:
                lost |= _is_faint(write, base + tape[target + 1], tape[target + 2])
                if careful and taken > -np.inf:
                    margin[row] += taken
                    if tape[target + 8]:
                        scale[row] += taken
                _note(row, norm, lost, margin, doubtful)
            if tape[target + 8]:
                _account(row, norm, scale, rest)


@inlined
def _target(tape, target, r, row, base, size, others, level, own, maps, codes, soft, write, known_out):
    """Write the product of the other legs on a target leg, summed over the product space; returns the norm."""
    place, count, known, into = base + tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 4]
    index, column, soft_at = tape[target + 5], tape[target + 6], tape[target + 7]
    if others or not into:
        if index == NONE:
            copied(level, own, write, place, count)
        else:
            filled(write, place, 0.0, count)
            for i in range(size):
                write[place + maps[index + i]] += level[own + i]
    if not into:
        known_out[r, known] = others
        return _normalise(write, place, count)
    known_out[r, known] = others or _is_known(codes, row, column)
    return _settle_backward(write, place, count, others, codes, soft, row, column, soft_at)


@inner
def _posterior(
    tape, at, first, rows, width, values, maps, codes, soft, work, known, scale, rest, margin, doubtful, mantissa,
    exponent, scratch,
):  # fmt: skip
    """The product of everything that comes in to a Diverter; its norm is the likelihood where it is a root."""
    size, root, legs = tape[at + 1], tape[at + 2], np.int64(tape[at + 3])
    leg_at = at + 4
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        place = base + tape[at]
        filled(mantissa, ZERO, 1.0, size)
        for leg in range(legs):
            _plain_leg(
                mantissa, ZERO, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, work,
                known, scratch,
            )  # fmt: skip
        taken = 0.0
        if summed(mantissa, ZERO, size) < LOST:
            _ones(mantissa, exponent, ZERO, size)
            for leg in range(legs):
                _times_leg(
                    mantissa, exponent, ZERO, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes,
                    soft, work, known, scratch,
                )  # fmt: skip
            taken, _ = _levelled(mantissa, exponent, ZERO, size, mantissa, ZERO)
        copied(mantissa, ZERO, work, place, size)
        norm = _normalise(work, place, size)
        if taken > -np.inf:
            margin[row] += taken
            if root:
                scale[row] += taken
        _note(row, norm, False, margin, doubtful)
        if root:
            _account(row, norm, scale, rest)


@inner
def _meet(tape, at, first, rows, width, read, known_in, scale, rest, margin, doubtful):
    """The likelihood at a root: forward times backward on one of its edges."""
    forward, backward, count, known = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if known_in[r, known]:
            base = np.uint64(r) * width
            norm = dot(read, base + forward, read, base + backward, count)
            _note(first + r, norm, False, margin, doubtful)
            _account(first + r, norm, scale, rest)


@inner
def _check(row, norm, margin, doubtful):
    """As `_note`, for a product that nothing else is made from: the books stay as they are."""
    if norm < LOST or (margin[row] < np.inf and margin[row] + np.log(norm) < LEAST_MARGIN):
        doubtful[row] = True


@kernel
def sweep(
    tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft, read, write,
    known_in, known_out, scale, rest, margin, doubtful, mantissa, exponent, scratch,
):  # fmt: skip
    """Run a tape of messages on rows `first` to `first + rows`, which are the first rows of the workspaces."""
    at = np.int64(0)
    while at < len(tape):
        operation, length = tape[at], np.int64(tape[at + 1])
        at += 2
        if operation == CONSTANT:
            _constant(tape, at, rows, width, values, write, known_out)
        elif operation == BOUNDARY:
            _boundary(tape, at, first, rows, width, codes, soft, write, known_out, margin, doubtful)
        elif operation == FORWARD:
            _forward(
                tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful, scratch,
            )  # fmt: skip
        elif operation == BACKWARD:
            _backward(
                tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful,
            )  # fmt: skip
        elif operation == LEAVES:
            _leaves(
                tape, at, first, rows, width, deep, joint, shifts, entries, bounds, write, known_out, scale, margin,
                doubtful, mantissa, exponent, scratch,
            )  # fmt: skip
        elif operation == DIVERT:
            _divert(
                tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful, mantissa, exponent, scratch,
            )  # fmt: skip
        elif operation == MEET:
            _meet(tape, at, first, rows, width, read, known_in, scale, rest, margin, doubtful)
        at += length


@kernel
def marginals(places, rows, width, read, out_width, out, margin, doubtful):
    """Forward times backward, normalised, for places (forward, backward, target, count)."""
    for r in range(rows):
        base, out_base = np.uint64(r) * width, np.uint64(r) * out_width
        for k in range(len(places)):
            forward, backward = base + places[k, 0], base + places[k, 1]
            target, count = out_base + places[k, 2], places[k, 3]
            copied(read, forward, out, target, count)
            times(out, target, read, backward, count)
            _check(r, _normalise(out, target, count), margin, doubtful)


# --- counts -------------------------------------------------------------------------------------------------------


@inner
def _joint_norm(tape, at, first, rows, width, values, codes, soft, work, margin, doubtful, scratch):
    """The norm f @ table @ b of a SISO, with the evidence on its input."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7]
    for r in range(rows):
        base = np.uint64(r) * width
        _into_reader(work, base + source, n, scratch, codes, soft, first + r, column, soft_at)
        total = 0.0
        for i in range(n):
            if scratch[i] != 0.0:
                total += scratch[i] * dot(values, table + i * m, work, base + output, m)
        work[base + norm] = total
        _check(first + r, total, margin, doubtful)


@inner
def _joint_add(tape, at, first, rows, width, codes, soft, work, known, weights, expect, scratch, inner_counts):
    """Add f b^T / norm of a SISO, which meets the table when all rows are in."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm, known_output = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7], tape[at + 8]
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0 or not (expect or known[r, known_output]):
            continue
        base = np.uint64(r) * width
        back = base + output
        _into_reader(work, base + source, n, scratch, codes, soft, first + r, column, soft_at)
        for i in range(n):
            share = weight / work[base + norm] * scratch[i]
            if share != 0.0:
                increased(inner_counts, table + i * m, share, work, back, m)


@inner
def _scatter(tape, at, first, rows, width, entries, bounds, work, weights, joint_counts, posteriors, p):
    """Add the posterior of a Diverter to its total, and to the row of each pack's code.

    A pack of which nothing is known has no entry: what it would add is the total less what the others added.
    """
    size, total, number = tape[at + 1], tape[at + 2], tape[at + 3]
    start, stride = tape[at + 4], tape[at + 5]
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0:
            continue
        place = np.uint64(r) * width + tape[at]
        increased(posteriors, total, weight, work, place, size)
        if number == NONE:
            continue
        copied(work, place, p, ZERO, size)
        for i in range(size, stride):
            p[i] = 0.0
        begin, end = bounds[number, first + r], bounds[number, first + r + 1]
        scattered(p, weight, joint_counts, start, stride, entries, begin, end)


@inner
def _lone_source(tape, at, rows, width, work, weights, inner_counts):
    count, prior = tape[at + 2], tape[at + 3]
    for r in range(rows):
        if weights[r] != 0.0:
            base = np.uint64(r) * width
            forward, backward = base + tape[at], base + tape[at + 1]
            share = weights[r] / dot(work, forward, work, backward, count)
            for i in range(count):
                inner_counts[prior + i] += share * work[forward + i] * work[backward + i]


@inlined
def _star_product(size, stride, deep, base, joint, entries, begin, end, mantissa, exponent, p):
    """Make the product of the base and of all that is known; returns its sum, and a logarithm taken out of it.

    The sum is 0 for a product that vanished, or may have.
    """
    norm = gathered(base, joint, ZERO, stride, entries, begin, end, p)
    if norm > FAINT:
        return norm, 0.0
    copied(base, ZERO, p, ZERO, stride)
    taken, _ = _carefully(joint, ZERO, stride, size, entries, begin, end, mantissa, exponent, p, ZERO)
    return 0.0 if deep or taken == -np.inf else summed(p, ZERO, size), taken


@kernel
def star_messages(
    rows, size, stride, deep, base, joint, shifts, entries, bounds, table, states, values, transposed, scale, rest,
    doubtful, out, mantissa, exponent, p,
):  # fmt: skip
    """The message on one leg of a star, or that behind its table (if `states` is not 0), normalised, for all rows."""
    for r in range(rows):
        begin, end = bounds[0, r], bounds[0, r + 1]
        norm, taken = _star_product(size, stride, deep, base, joint, entries, begin, end, mantissa, exponent, p)
        if norm == 0.0:
            doubtful[r] = True
            continue
        scale[r] = taken + _shift(shifts, ZERO, entries, begin, end) * LOG_TWO
        rest[r] = norm
        count = size if states == ZERO else states
        place = np.uint64(r) * count
        if states == ZERO:
            copied(p, ZERO, out, place, size)
        else:
            _through(values, transposed, table, size, states, p, ZERO, out, place)
        scaled(out, place, 1.0 / norm, count)


@kernel
def star(
    rows, size, stride, deep, base, joint, shifts, entries, bounds, weights, doubtful, joint_counts, posterior,
    mantissa, exponent, p,
):  # fmt: skip
    """Expected counts where one Diverter with its Sources and leaves is everything: one pass, nothing kept.

    `base` is the product of the priors, `posterior` its counterpart among the counts. Returns the log-likelihood of all
    rows together. A doubtful row adds nothing. Rows of weight 1 are multiplied up, with a logarithm now and then.
    """
    likelihood, product, shift = 0.0, 1.0, 0
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0:
            continue
        begin, end = bounds[0, r], bounds[0, r + 1]
        norm, taken = _star_product(size, stride, deep, base, joint, entries, begin, end, mantissa, exponent, p)
        if norm == 0.0:
            doubtful[r] = True
            continue
        here = _shift(shifts, ZERO, entries, begin, end)
        if weight == 1.0:
            shift += here
            likelihood += taken
            product *= norm
            if product < FAINT or product > 1.0 / FAINT:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += weight * (np.log(norm) + here * LOG_TWO + taken)
        factor = weight / norm
        increased(posterior, ZERO, factor, p, ZERO, stride)
        scattered(p, factor, joint_counts, ZERO, stride, entries, begin, end)
    return likelihood + np.log(product) + shift * LOG_TWO


@kernel
def counts(
    sweep_tape, count_tape, total, block, work, known, sure, width, deep, values, transposed, joint, shifts, entries,
    bounds, maps, codes, soft, weights, expect, scale, rest, margin, doubtful, joint_counts, posteriors, inner_counts,
    mantissa, exponent, scratch,
):  # fmt: skip
    """Expected counts of all rows, in blocks that stay in the cache.

    All that can vanish is computed before anything is added, so that a doubtful row adds nothing.
    """
    for first in range(0, total, block):
        rows = min(block, total - first)
        sweep(
            sweep_tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft,
            work, work, known, known, scale, rest, margin, doubtful, mantissa, exponent, scratch,
        )  # fmt: skip
        for stage in range(2):
            if stage == 1:
                for r in range(rows):
                    sure[r] = 0.0 if doubtful[first + r] else weights[first + r]
            at = np.int64(0)
            while at < len(count_tape):
                operation, length = count_tape[at], np.int64(count_tape[at + 1])
                at += 2
                if stage == 0:
                    if operation == POSTERIOR:
                        _posterior(
                            count_tape, at, first, rows, width, values, maps, codes, soft, work, known, scale, rest,
                            margin, doubtful, mantissa, exponent, scratch,
                        )  # fmt: skip
                    elif operation == JOINT_NORM:
                        _joint_norm(
                            count_tape, at, first, rows, width, values, codes, soft, work, margin, doubtful, scratch
                        )
                elif operation == SCATTER:
                    _scatter(
                        count_tape, at, first, rows, width, entries, bounds, work, sure, joint_counts, posteriors,
                        scratch,
                    )  # fmt: skip
                elif operation == JOINT_ADD:
                    _joint_add(
                        count_tape, at, first, rows, width, codes, soft, work, known, sure, expect, scratch,
                        inner_counts,
                    )  # fmt: skip
                elif operation == LONE_SOURCE:
                    _lone_source(count_tape, at, rows, width, work, sure, inner_counts)
                at += length
