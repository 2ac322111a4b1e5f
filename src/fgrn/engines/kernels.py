"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

This is the one place that imports numba, and one file on purpose, with every constant a kernel knows: the cache on
disk is renewed when the file of a kernel changes, and would not notice a change in another. Kernels release the GIL.
None is compiled with `parallel`: threads are the flow's, which adds counts in the order of the rows. `fastmath` is
limited to reassociation and contraction, in sums that need them to be vectorised; zeros and infinities keep their
meaning everywhere.

Places and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat, and no kernel takes a view of a row: a view in a
loop is counted by reference, atomically, which threads pay for twice. `NONE` stands where there is nothing.

Arrays, by the names all kernels use:
    tape                   the records; `at` is where the operands of the current one begin
    values, transposed     parameters in the plan's layout; the same with every table transposed
    codes, soft            evidence, see `fgrn.evidence`
    entries, bounds        what is known of gathered leaves, see `packs.Known`
    joint, shifts, deep    their joint tables, see `packs.Joint`
    read, write            workspaces, flat, `width` to a row: messages read and written; the same one in sweeps
    known_in, known_out    (rows, known width): whether evidence lies behind a message
    scale                  (rows,): log-likelihood so far
    margin, doubtful       (rows,): how far a state that was lost is from what is left; rows the judge has to decide
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .vectors import gathered, scattered

# Operations. A record on the tape is: operation, length of what follows, operands.
CONSTANT, BOUNDARY, FORWARD, BACKWARD, LEAVES, DIVERT, POSTERIOR, MEET = range(8)
SCATTER, JOINT_NORM, JOINT_ADD, LONE_SOURCE = range(8, 12)
# What comes in on the leg of a Diverter: a forward message (with evidence), a backward one, a prior.
LEG_FORWARD, LEG_BACKWARD, LEG_PRIOR = range(3)
LEG_LENGTH, TARGET_LENGTH = 6, 9

# Division by zero gives infinity, as in NumPy, rather than an exception nobody could handle in a loop over rows.
kernel = njit(nogil=True, cache=True, error_model="numpy")
# Called from kernels only: without the wrappers Python would need, and cached as a part of those.
inner = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
# The innermost loops over entries: a call for every row would cost as much as they do.
inlined = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
summing = njit(
    nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"reassoc", "contract"}
)

# The digest of `vectors.py`, a part of the kernels: to change it there is to change this file, which renews the cache.
VECTORS = "b29c5735d225"

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
def _copy(x, first, out, second, count):
    for i in range(count):
        out[second + i] = x[first + i]


@inner
def _normalise(x, at, count):
    """Divide by the sum, and return its logarithm: -inf for a message that vanished, or nearly so."""
    total = _sum(x, at, count)
    if total < LOST:  # bits of the smallest may be gone
        return -np.inf
    factor = 1.0 / total
    for i in range(count):
        x[at + i] *= factor
    return np.log(total)


@inner
def _is_known(codes, row, column):
    return column != NONE and codes[row, column] != -1


@inner
def _apply_evidence(x, at, count, codes, soft, row, column, soft_at):
    """Multiply by the evidence in a column, which must be known in this row."""
    code = codes[row, column]
    if code >= 0:
        kept = x[at + np.uint64(code)]
        for i in range(count):
            x[at + i] = 0.0
        x[at + np.uint64(code)] = kept
    else:
        for i in range(count):
            x[at + i] *= soft[row, soft_at + i]


@inner
def _into_reader(x, at, count, scratch, codes, soft, row, column, soft_at):
    """Copy a forward message to the scratch, times the evidence on its edge, for the block that reads it."""
    _copy(x, at, scratch, ZERO, count)
    if _is_known(codes, row, column):
        _apply_evidence(scratch, ZERO, count, codes, soft, row, column, soft_at)


@summing
def _through(table, start, n, m, x, first, out, target):
    """Make out = x @ table, (n, m); zeros in x cost nothing."""
    for j in range(m):
        out[target + j] = 0.0
    for i in range(n):
        value = x[first + i]
        if value != 0.0:
            row = start + i * m
            for j in range(m):
                out[target + j] += value * table[row + j]


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
def _constant(tape, at, rows, width, values, write, known_out):
    place, count, known, start = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        known_out[r, known] = False
        target = np.uint64(r) * width + place
        if start == NONE:
            for i in range(count):
                write[target + i] = 1.0 / count
        else:
            _copy(values, start, write, target, count)


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
    tape, at, first, rows, width, values, codes, soft, read, write, known_in, known_out, scale, margin, doubtful,
    scratch,
):  # fmt: skip
    source, n, target, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        _into_reader(read, base + source, n, scratch, codes, soft, row, column, soft_at)
        _through(values, table, n, m, scratch, ZERO, write, base + target)
        known_out[r, known_target] = known_in[r, known_source] or _is_known(codes, row, column)
        norm = _normalise(write, base + target, m)
        _note(row, norm, _is_faint(write, base + target, m), margin, doubtful)
        if inward:
            scale[row] += norm


@inner
def _backward(
    tape, at, first, rows, width, transposed, codes, soft, read, write, known_in, known_out, scale, margin, doubtful
):
    target, n, source, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = known_in[r, known_source]
        if known:
            _through(transposed, table, m, n, read, base + source, write, base + target)
        known_out[r, known_target] = known or _is_known(codes, row, column)
        norm = _settle_backward(write, base + target, n, known, codes, soft, row, column, soft_at)
        _note(row, norm, _is_faint(write, base + target, n), margin, doubtful)
        if inward:
            scale[row] += norm


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
        for i in range(stride):
            p[i] = 1.0
        total = gathered(p, joint, start, stride, entries, begin, end, p)
        scale[row] += _shift(shifts, shift_at, entries, begin, end) * LOG_TWO
        smallest = 1.0
        for i in range(size):
            out[place + i] = p[i]
            smallest = min(smallest, p[i])
        if total > FAINT:
            if smallest < SMALLEST_PRODUCT:
                lost = _vanished(joint, start, stride, size, entries, begin, end, p, deep)
                _note(row, 0.0, lost, margin, doubtful)
            continue
        for i in range(size):
            out[place + i] = 1.0
        taken, lost = _carefully(joint, start, stride, size, entries, begin, end, mantissa, exponent, out, place)
        _note(row, -np.inf if deep or taken == -np.inf else 0.0, lost, margin, doubtful)
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


@inner
def _is_faint(x, at, count):
    """Whether a message holds a state so small that a product may make it vanish."""
    smallest = 1.0
    for i in range(count):
        value = x[at + i]
        smallest = min(smallest, value if value > 0.0 else 1.0)
    return smallest < SMALLEST


@inner
def _note(row, norm, lost, margin, doubtful):
    """Keep the books of what was lost in a row.

    A lost state has at most exp(-FULL_MARGIN) of the mass of the message it was lost from. Every norm below one may
    bring it nearer to what is left; a row in which it could come near is doubtful. So is one that vanished.
    """
    if norm == -np.inf:
        doubtful[row] = True
        return
    if margin[row] < np.inf and norm < 0.0:
        margin[row] += norm
    if lost:
        margin[row] = min(margin[row], FULL_MARGIN)
    if margin[row] < LEAST_MARGIN:
        doubtful[row] = True


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


@inner
def _leg_is_known(tape, leg, r, row, codes, known_in):
    kind, known = tape[leg], tape[leg + 2]
    if kind == LEG_FORWARD:
        return known_in[r, known] or _is_known(codes, row, tape[leg + 4])
    return kind == LEG_BACKWARD and known_in[r, known]


@inner
def _divert(
    tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale, margin,
    doubtful, mantissa, exponent, level, scratch,
):  # fmt: skip
    """The outgoing messages of a Diverter: products from the left and from the right, joined at each target.

    The product from the left of target k is kept in the k-th piece of `mantissa` and `exponent`; the running
    product has the piece behind the last.
    """
    size, legs, targets = tape[at], np.int64(tape[at + 1]), np.int64(tape[at + 2])
    leg_at = at + 3
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = 0
        for leg in range(legs):
            known += _leg_is_known(tape, leg_at + leg * LEG_LENGTH, r, row, codes, known_in)
        for way in range(2):  # from the left, then from the right, joining at each target
            _ones(mantissa, exponent, running, size)
            leg = np.int64(0) if way == 0 else legs - 1
            for step in range(targets):
                number = step if way == 0 else targets - 1 - step
                target = target_at + number * TARGET_LENGTH
                position = np.int64(tape[target])
                while leg != position:
                    _times_leg(
                        mantissa, exponent, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base,
                        values, maps, codes, soft, read, known_in, scratch,
                    )  # fmt: skip
                    leg += 1 if way == 0 else -1
                left = np.uint64(number) * size
                if way == 0:
                    _copy(mantissa, running, mantissa, left, size)
                    _copy(exponent, running, exponent, left, size)
                    continue
                for i in range(size):
                    mantissa[left + i] *= mantissa[running + i]
                    exponent[left + i] += exponent[running + i]
                others = known > _leg_is_known(tape, leg_at + position * LEG_LENGTH, r, row, codes, known_in)
                taken, lost = _levelled(mantissa, exponent, left, size, level, ZERO)
                norm = _target(tape, target, r, row, base, size, others, level, maps, codes, soft, write, known_out)
                if others or not tape[target + 4]:
                    norm += taken
                    _note(row, norm, lost, margin, doubtful)
                if tape[target + 8]:
                    scale[row] += norm


@inner
def _target(tape, target, r, row, base, size, others, level, maps, codes, soft, write, known_out):
    """Write the product of the other legs on a target leg, summed over the product space; returns the log norm."""
    place, count, known, into = base + tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 4]
    index, column, soft_at = tape[target + 5], tape[target + 6], tape[target + 7]
    if others or not into:
        if index == NONE:
            _copy(level, ZERO, write, place, count)
        else:
            for i in range(count):
                write[place + i] = 0.0
            for i in range(size):
                write[place + maps[index + i]] += level[i]
    if not into:
        known_out[r, known] = others
        return _normalise(write, place, count)
    known_out[r, known] = others or _is_known(codes, row, column)
    return _settle_backward(write, place, count, others, codes, soft, row, column, soft_at)


@inner
def _posterior(
    tape, at, first, rows, width, values, maps, codes, soft, work, known, scale, margin, doubtful, mantissa,
    exponent, scratch,
):  # fmt: skip
    """The product of everything that comes in to a Diverter; its norm is the likelihood where it is a root."""
    size, root, legs = tape[at + 1], tape[at + 2], np.int64(tape[at + 3])
    leg_at = at + 4
    plain = True  # every leg carries the whole space, without evidence on its edge
    for leg in range(legs):
        record = leg_at + leg * LEG_LENGTH
        plain &= tape[record + 3] == NONE and tape[record + 4] == NONE
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        place = base + tape[at]
        total = 0.0
        if plain:
            for i in range(size):
                work[place + i] = 1.0
            for leg in range(legs):
                record = leg_at + leg * LEG_LENGTH
                kind, source = tape[record], tape[record + 1]
                if kind == LEG_PRIOR:
                    for i in range(size):
                        work[place + i] *= values[source + i]
                elif kind == LEG_FORWARD or known[r, tape[record + 2]]:
                    source += base
                    for i in range(size):
                        work[place + i] *= work[source + i]
            total = _sum(work, place, size)
        if total > LOST:
            factor = 1.0 / total
            for i in range(size):
                work[place + i] *= factor
            norm = np.log(total)
            _note(row, norm, False, margin, doubtful)
            if root:
                scale[row] += norm
            continue
        _ones(mantissa, exponent, ZERO, size)
        for leg in range(legs):
            _times_leg(
                mantissa, exponent, ZERO, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes,
                soft, work, known, scratch,
            )  # fmt: skip
        taken, _ = _levelled(mantissa, exponent, ZERO, size, work, place)
        norm = _normalise(work, place, size) + taken
        _note(row, norm, False, margin, doubtful)
        if root:
            scale[row] += norm


@inner
def _meet(tape, at, first, rows, width, read, known_in, scale, margin, doubtful):
    """The likelihood at a root: forward times backward on one of its edges."""
    forward, backward, count, known = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if known_in[r, known]:
            base = np.uint64(r) * width
            meeting = _dot(read, base + forward, read, base + backward, count)
            norm = np.log(meeting) if meeting > 0.0 else -np.inf
            _note(first + r, norm, False, margin, doubtful)
            scale[first + r] += norm


@inner
def _check(row, norm, margin, doubtful):
    """As `_note`, for a product that nothing else is made from: the books stay as they are."""
    if norm == -np.inf or margin[row] + norm < LEAST_MARGIN:
        doubtful[row] = True


@kernel
def sweep(
    tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft, read, write,
    known_in, known_out, scale, margin, doubtful, mantissa, exponent, level, scratch,
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
                tape, at, first, rows, width, values, codes, soft, read, write, known_in, known_out, scale, margin,
                doubtful, scratch,
            )  # fmt: skip
        elif operation == BACKWARD:
            _backward(
                tape, at, first, rows, width, transposed, codes, soft, read, write, known_in, known_out, scale, margin,
                doubtful,
            )  # fmt: skip
        elif operation == LEAVES:
            _leaves(
                tape, at, first, rows, width, deep, joint, shifts, entries, bounds, write, known_out, scale, margin,
                doubtful, mantissa, exponent, scratch,
            )  # fmt: skip
        elif operation == DIVERT:
            _divert(
                tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale,
                margin, doubtful, mantissa, exponent, level, scratch,
            )  # fmt: skip
        elif operation == MEET:
            _meet(tape, at, first, rows, width, read, known_in, scale, margin, doubtful)
        at += length


@kernel
def marginals(places, rows, width, read, out_width, out, margin, doubtful):
    """Forward times backward, normalised, for places (forward, backward, target, count)."""
    for r in range(rows):
        base, out_base = np.uint64(r) * width, np.uint64(r) * out_width
        for k in range(len(places)):
            forward, backward = base + places[k, 0], base + places[k, 1]
            target, count = out_base + places[k, 2], places[k, 3]
            for i in range(count):
                out[target + i] = read[forward + i] * read[backward + i]
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
                total += scratch[i] * _dot(values, table + i * m, work, base + output, m)
        work[base + norm] = total
        _check(first + r, np.log(total) if total > LOST else -np.inf, margin, doubtful)


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
                cell = table + i * m
                for j in range(m):
                    inner_counts[cell + j] += share * work[back + j]


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
        for i in range(size):
            posteriors[total + i] += weight * work[place + i]
        if number == NONE:
            continue
        _copy(work, place, p, ZERO, size)
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
            share = weights[r] / _dot(work, forward, work, backward, count)
            for i in range(count):
                inner_counts[prior + i] += share * work[forward + i] * work[backward + i]


@kernel
def star(
    first, rows, size, stride, deep, base, joint, shifts, entries, bounds, weights, doubtful, joint_counts, posterior,
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
        begin, end = bounds[0, first + r], bounds[0, first + r + 1]
        total = gathered(base, joint, ZERO, stride, entries, begin, end, p)
        taken = 0.0
        if total <= FAINT:
            for i in range(stride):
                p[i] = base[i]
            taken, _ = _carefully(joint, ZERO, stride, size, entries, begin, end, mantissa, exponent, p, ZERO)
            total = _sum(p, ZERO, size)
            if deep or taken == -np.inf:
                doubtful[r] = True
                continue
        here = _shift(shifts, ZERO, entries, begin, end)
        if weight == 1.0:
            shift += here
            likelihood += taken
            product *= total
            if product < FAINT or product > 1.0 / FAINT:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += weight * (np.log(total) + here * LOG_TWO + taken)
        factor = weight / total
        for i in range(stride):
            posterior[i] += factor * p[i]
        scattered(p, factor, joint_counts, ZERO, stride, entries, begin, end)
    return likelihood + np.log(product) + shift * LOG_TWO


@kernel
def counts(
    sweep_tape, count_tape, total, block, work, known, sure, width, deep, values, transposed, joint, shifts, entries,
    bounds, maps, codes, soft, weights, expect, scale, margin, doubtful, joint_counts, posteriors, inner_counts,
    mantissa, exponent, level, scratch,
):  # fmt: skip
    """Expected counts of all rows, in blocks that stay in the cache.

    All that can vanish is computed before anything is added, so that a doubtful row adds nothing.
    """
    for first in range(0, total, block):
        rows = min(block, total - first)
        sweep(
            sweep_tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft,
            work, work, known, known, scale, margin, doubtful, mantissa, exponent, level, scratch,
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
                            count_tape, at, first, rows, width, values, maps, codes, soft, work, known, scale, margin,
                            doubtful, mantissa, exponent, scratch,
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
