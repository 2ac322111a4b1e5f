"""Observed leaves: products of gathered rows of joint tables, and posteriors added to the counts of those rows."""

from __future__ import annotations

import numpy as np

from .basics import FAINT, LOG_TWO, NONE, SMALLEST_PRODUCT, ZERO, compact, inlined, inner, note, once
from .joint_rows import gathered, scattered
from .products import levelled, ones, times_state
from .subnormals import restore_subnormals, subnormals_to_zero
from .vectors import copied, increased, least, set_all, summed, times


@once
def shift_of(shifts, first, entries, begin, end):
    """Return the sum of the exponents that were taken out of the rows of joint tables."""
    total = 0
    for entry in range(begin, end):
        total += shifts[first + np.uint64(entries[entry])]
    return total


@inner
def gathered_carefully(joint, start, stride, size, entries, begin, end, mantissa, exponent, out, at):
    """Multiply `out` by gathered rows of joint tables, with an exponent per state; see `levelled`."""
    compact()
    ones(mantissa, exponent, ZERO, size)
    for i in range(size):
        times_state(mantissa, exponent, i, out[at + i])
    for entry in range(begin, end):
        cell = start + np.uint64(entries[entry]) * stride
        for i in range(size):
            times_state(mantissa, exponent, i, joint[cell + i])
    return levelled(mantissa, exponent, ZERO, size, out, at)


@inner
def lost_a_state(joint, start, stride, size, entries, begin, end, p, deep):
    """Return whether the product underflowed in a state that no factor excludes, or nearly so."""
    compact()
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
def leaves(tape, at, first, rows, tables, evidence, work, books):
    """Multiply the joint-table rows of all packs of a Diverter: one gather and one product each."""
    size, known, number = tape[at + 1], tape[at + 2], tape[at + 3]
    start, stride, shift_at = tape[at + 4], tape[at + 5], tape[at + 6]
    deep, joint, entries, bounds = tables.deep, tables.joint, evidence.entries, evidence.bounds
    out, p, scale = work.write, work.scratch, books.scale
    mode = subnormals_to_zero()
    for r in range(rows):
        row, place = first + r, np.uint64(r) * work.width + tape[at]
        begin, end = bounds[number, row], bounds[number, row + 1]
        work.known_out[r, known] = end > begin
        if end == begin:
            continue
        set_all(p, ZERO, 1.0, stride)
        total = gathered(p, ZERO, joint, start, stride, entries, begin, end, p, ZERO)
        scale[row] += shift_of(tables.shifts, shift_at, entries, begin, end) * LOG_TWO
        copied(p, ZERO, out, place, size)
        if total > FAINT:
            if least(p, ZERO, size) < SMALLEST_PRODUCT:
                restore_subnormals(mode)
                lost = lost_a_state(joint, start, stride, size, entries, begin, end, p, deep)
                note(row, 1.0, lost, books.margin, books.doubtful)
                mode = subnormals_to_zero()
            continue
        restore_subnormals(mode)
        set_all(out, place, 1.0, size)
        taken, lost = gathered_carefully(
            joint, start, stride, size, entries, begin, end, work.mantissa, work.exponent, out, place
        )
        note(row, 0.0 if deep or taken == -np.inf else 1.0, lost, books.margin, books.doubtful)
        scale[row] += taken
        mode = subnormals_to_zero()
    restore_subnormals(mode)


@inlined
def star_prior(x, at, base, size, stride, codes, soft, row):
    """Write the product of the priors of a star times the evidence on its hidden variable, if there is any."""
    compact()
    copied(base, ZERO, x, at, stride)
    if len(codes) and codes[row] >= 0:
        set_all(x, at, 0.0, stride)
        x[at + np.uint64(codes[row])] = base[codes[row]]
    elif len(codes) and codes[row] == -2:
        times(x, at, soft, np.uint64(row) * size, size)


@once
def star_products(first, rows, known, tables, work):
    """Compute, for a block of rows of a star, the product of priors and all evidence, and its sum.

    Returns whether no sum is faint. Else a product may have underflowed: then `mend_star_products` has to follow.
    """
    entries, bounds, codes, soft = known.entries, known.bounds, known.codes, known.soft
    size, stride, base, joint = tables.size, tables.stride, tables.base, tables.joint
    p, norms, taken = work.products, work.norms, work.taken
    mode = subnormals_to_zero()
    for r in range(rows):
        begin, end, at = bounds[0, first + r], bounds[0, first + r + 1], np.uint64(r) * stride
        prior, place = base, ZERO
        if len(codes):
            star_prior(p, at, base, size, stride, codes, soft, first + r)
            prior, place = p, at
        norms[r] = gathered(prior, place, joint, ZERO, stride, entries, begin, end, p, at)
    restore_subnormals(mode)
    sound = True
    for r in range(rows):
        taken[r] = 0.0
        sound &= norms[r] > FAINT
    return sound


@once
def mend_star_products(first, rows, known, tables, work, careful):
    """Compute the products of a block of rows again where their sum is faint, with an exponent per state.

    The sum is 0 where the product underflowed, or may have; `taken` is the logarithm of what was divided out. Returns
    how many rows had a faint sum.
    """
    entries, bounds = known.entries, known.bounds
    size, stride, joint = tables.size, tables.stride, tables.joint
    p, norms, taken = work.products, work.norms, work.taken
    faint = 0
    for r in range(rows):
        if norms[r] > FAINT:
            continue
        faint += 1
        begin, end, at = bounds[0, first + r], bounds[0, first + r + 1], np.uint64(r) * stride
        star_prior(p, at, tables.base, size, stride, known.codes, known.soft, first + r)
        taken[r], _ = gathered_carefully(
            joint, ZERO, stride, size, entries, begin, end, careful.mantissa, careful.exponent, p, at
        )
        norms[r] = 0.0 if tables.deep or taken[r] == -np.inf else summed(p, at, size)
    return faint


@inner
def scatter(tape, at, first, rows, evidence, work, totals):
    """Add the posterior of a Diverter to its expected counts, and to the row of each pack's code.

    A pack of which nothing is known has no entry: what it would add is the total less what the others added.
    """
    size, total, number = tape[at + 1], tape[at + 2], tape[at + 3]
    start, stride = tape[at + 4], tape[at + 5]
    messages, p, bounds = work.write, work.scratch, evidence.bounds
    for r in range(rows):
        weight = work.sure[r]
        if weight == 0.0:
            continue
        place = np.uint64(r) * work.width + tape[at]
        increased(totals.posteriors, total, weight, messages, place, size)
        if number == NONE:
            continue
        copied(messages, place, p, ZERO, size)
        for i in range(size, stride):
            p[i] = 0.0
        begin, end = bounds[number, first + r], bounds[number, first + r + 1]
        scattered(p, ZERO, weight, totals.joint, start, stride, evidence.entries, begin, end)
