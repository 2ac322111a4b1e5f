"""Packed leaves: codes of packs, joint tables computed from tables of leaves, and counts of leaves from those of packs.

The latter two are done once an epoch, on whole arrays. Their records are as `arguments.Packing` describes them.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from .basics import LOG_TWO, NONE, ONE, ZERO, compact, inner, kernel, once, short_kernel
from .products import place_of
from .subnormals import restore_subnormals, subnormals_to_zero
from .vectors import copied, increased, largest, least_positive, product, scaled, set_all, summed

ROUNDING = 2.0**-52


@kernel
def pack(codes, first, rows, packs, leaves, work, entries, ends, before):
    """Write, for each row, an entry for each pack with at least one known value, and where the entries of the row end.

    `codes` has a column of evidence in each row. `packs` has (first row, code of nothing, number of leaves) for each,
    `leaves` (column, codes, code of the unknown) one pack after the other; `work` has room for the codes of a block of
    rows, (packs, block). Entries are counted from `before` on; returns how many were written.
    """
    count, width = ZERO, np.uint64(work.shape[1])
    for begin in range(ZERO, rows, width):
        block = width if begin + width < rows else rows - begin
        leaf = 0
        for k in range(len(packs)):
            for r in range(block):
                work[k, r] = 0
            for _ in range(packs[k, 2]):
                column, size, unknown = leaves[leaf, 0], np.int32(leaves[leaf, 1]), np.int32(leaves[leaf, 2])
                for r in range(block):  # column by column, so that it is vectorised
                    value = np.int32(codes[column, first + begin + r])
                    work[k, r] = work[k, r] * size + (unknown if value < 0 else value)
                leaf += 1
        for r in range(block):
            for k in range(len(packs)):
                if work[k, r] != packs[k, 1]:
                    entries[count] = packs[k, 0] + work[k, r]
                    count += ONE
            ends[begin + r] = before + count
    return count


@kernel
def sort_entries(entries, bounds, begins, rows, offsets):
    """Sort the entries of each piece of rows by their codes, those of a code by rows.

    Writes, for each entry in this order, its row in the piece and, (pieces, codes + 1), where those of a code begin.
    `bounds` are the first entry of each row, `begins` the first row of each piece.
    """
    for piece in range(len(begins) - 1):
        first, last, place = begins[piece], begins[piece + 1], offsets[piece]
        place[:] = 0
        for entry in range(bounds[first], bounds[last]):
            place[np.uint64(entries[entry]) + ONE] += ONE
        place[0] = bounds[first]
        for code in range(1, len(place)):
            place[code] += place[code - 1]
        for row in range(first, last):
            for entry in range(bounds[row], bounds[row + 1]):
                code = np.uint64(entries[entry])
                rows[place[code]] = row - first
                place[code] += ONE
        for after in range(1, len(place)):  # each has moved to where the next code begins
            code = len(place) - after
            place[code] = place[code - 1]
        place[0] = bounds[first]


@once
def leaf_columns(values, leaf, states, stride, columns, exponents):
    """Copy the columns of a leaf's table, one per code, each times the power of two that brings its largest near 1.

    A code beyond the known states is that of a missing value: a column of ones. Returns the smallest positive cell.
    """
    smallest = 1.0
    for code in range(leaf.codes):
        at = code * stride
        if code < leaf.known:
            for s in range(states):
                columns[at + s] = values[leaf.table + s * leaf.known + code]
        else:
            set_all(columns, at, 1.0, states)
        for s in range(states, stride):
            columns[at + s] = 0.0
        exponent = frexp(largest(columns, at, states))[1]
        exponents[code] = exponent
        half = exponent // 2  # the factor as a whole may be too large
        scaled(columns, at, ldexp(1.0, -half), states)
        scaled(columns, at, ldexp(1.0, half - exponent), states)
        here = least_positive(columns, at, states)
        smallest = here if here < smallest else smallest
    return smallest


@short_kernel
def joint_tables(packing, values, maps, joint, shifts, base, columns, exponents):
    """Compute the joint tables of all packs as `fill_packs` does, called from Python."""
    return fill_packs(packing, 0, len(packing.packs), 0, values, maps, joint, shifts, base, columns, exponents)


@inner
def fill_packs(packing, first, last, number, values, maps, joint, shifts, base, columns, exponents):
    """Compute the joint tables of some packs, the first leaf of which has this number; returns the largest depth.

    With the first pack comes the product of the priors of a star. The depth of a pack is by how many bits its smallest
    cell may differ from its largest.
    """
    compact()
    deepest = 0.0
    if first == 0 and len(base):
        set_all(base, ZERO, 0.0, np.uint64(len(base)))
        set_all(base, ZERO, 1.0, packing.space[0])
        for prior in packing.priors:
            for state in range(prior.size):
                base[state] *= values[prior.place + own_state(state, maps, prior)]
    for which in range(first, last):
        pack = packing.packs[which]
        start, stride, shift = pack.start, pack.stride, pack.shift
        set_all(joint, start, 1.0, stride)
        shifts[shift] = 0
        rows, depth = ONE, 0.0
        for _ in range(pack.leaves):
            leaf = packing.leaves[number]
            number += 1
            depth -= np.log2(leaf_columns(values, leaf, pack.states, stride, columns, exponents))
            codes = leaf.codes
            mode = subnormals_to_zero()
            for after in range(rows):  # from behind: a row is read before it is written over
                row = rows - ONE - after
                source, shifted = start + row * stride, shifts[shift + row]
                for behind in range(codes):
                    code = codes - ONE - behind
                    place = row * codes + code
                    product(joint, source, columns, code * stride, joint, start + place * stride, stride)
                    shifts[shift + place] = shifted + exponents[code]
            restore_subnormals(mode)
            rows *= codes
        deepest = depth if depth > deepest else deepest
    return deepest


@once
def own_state(state, maps, prior):
    """Return the state of a Source in a joint state of its Diverter."""
    return state if prior.index == NONE else place_of(state, maps, prior.index, prior.size, prior.run)


@once
def folded(source, at, fold, stride, work):
    """Sum rows (outer, inner) over the inner ones, and over the outer ones."""
    set_all(work, fold.left, 0.0, fold.outer * stride)
    set_all(work, fold.right, 0.0, fold.inner * stride)
    row = at
    for a in range(fold.outer):
        for b in range(fold.inner):
            increased(work, fold.left + a * stride, 1.0, source, row, stride)
            increased(work, fold.right + b * stride, 1.0, source, row, stride)
            row += stride


@once
def add_leaf(counts, at, stride, states, leaf, values, expect, out):
    """Add the counts of a leaf's codes to its table; missing values, if `expect`, in proportion to the old table."""
    table, known = leaf.table, leaf.known
    for s in range(states):
        unknown = counts[at + known * stride + s] if expect and leaf.codes > known else 0.0
        for y in range(known):
            cell = table + s * known + y
            out[cell] = out[cell] + counts[at + y * stride + s] + values[cell] * unknown


@once
def add_priors(sources, posteriors, maps, out):
    """Add the posteriors of Diverters to the counts of their Sources."""
    for source in sources:
        for state in range(source.size):
            out[source.place + own_state(state, maps, source)] += posteriors[source.posterior + state]


@short_kernel
def prior_counts(sources, posteriors, maps, out):
    """Add the counts of Sources as `add_priors` does, called from Python: all that `unpacked` does without packs."""
    add_priors(sources, posteriors, maps, out)


@short_kernel
def unpacked(packing, counts, posteriors, shifts, values, maps, expect, is_star, exponents, out, work):
    """Add the counts of packs, (blocks, cells), and posteriors to those in the plan's layout, called from Python.

    Returns what was taken out of the joint tables of a star, which its log-likelihood lacks.
    """
    if is_star:
        find_posterior(packing.packs, counts, posteriors, work)
    add_packs(
        packing, 0, len(packing.packs), 0, 0, counts, posteriors, shifts, values, expect, is_star, exponents, out, work
    )
    add_unknown(packing.unknown, packing.sources, posteriors, values, maps, expect, out)
    return log_of_exponents(exponents)


@once
def log_of_exponents(exponents):
    """Return the logarithm of what was taken out of joint tables, given the exponents of packs."""
    total = 0.0
    for exponent in exponents:
        total += exponent
    return total * LOG_TWO


@once
def add_blocks(counts, pack):
    """Add the counts of a pack in all other blocks to those in the first."""
    for block in range(1, len(counts)):
        increased(counts[0], pack.start, 1.0, counts[block], pack.start, pack.codes * pack.stride)


@inner
def find_posterior(packs, counts, posteriors, work):
    """Compute the posterior of a star: the sum of the counts of its first pack, in which every row has an entry."""
    compact()
    pack = packs[0]
    add_blocks(counts, pack)
    set_all(work, ZERO, 0.0, pack.stride)
    for code in range(pack.codes):
        increased(work, ZERO, 1.0, counts[0], pack.start + code * pack.stride, pack.stride)
    copied(work, ZERO, posteriors, ZERO, pack.states)


@inner
def add_packs(
    packing, begin, end, leaf_number, fold_number, counts, posteriors, shifts, values, expect, is_star, exponents, out,
    work,
):  # fmt: skip
    """Add the counts of some packs to those of their leaves, whose numbers and those of their folds begin here.

    Writes the sum of the exponents that were taken out of the joint table of each pack of a star, 0 of others.
    """
    compact()
    joint = counts[0]
    for number in range(begin, end):
        pack = packing.packs[number]
        start, stride, states = pack.start, pack.stride, pack.states
        if number > 0 or not is_star:  # else `find_posterior` has done it
            add_blocks(counts, pack)
        exponents[number] = 0.0
        if is_star:
            for code in range(pack.codes):
                exponents[number] += summed(joint, start + code * stride, stride) * shifts[pack.shift + code]
        if pack.has_nothing:  # a code of nothing known, which no row has an entry for: what the others left
            set_all(work, ZERO, 0.0, stride)
            for code in range(pack.codes):
                increased(work, ZERO, 1.0, joint, start + code * stride, stride)
            last = start + (pack.codes - ONE) * stride
            for s in range(states):
                total = posteriors[pack.posterior + s]
                rest = total - work[s]
                # what rounding hides may be there: no zero is made up
                joint[last + s] = rest if rest > ROUNDING * total else ROUNDING * total
        for _ in range(pack.leaves - ONE):
            fold = packing.folds[fold_number]
            fold_number += 1
            rows, at = joint, start
            if not fold.of_pack:
                rows, at = work, fold.at
            folded(rows, at, fold, stride, work)
        for _ in range(pack.leaves):
            leaf = packing.leaves[leaf_number]
            leaf_number += 1
            rows, at = joint, start
            if leaf.place != NONE:
                rows, at = work, leaf.place
            add_leaf(rows, at, stride, states, leaf, values, expect, out)


@inner
def add_unknown(unknown, sources, posteriors, values, maps, expect, out):
    """Add the expected counts of leaves that no row knows, and those of Sources."""
    compact()
    if expect:
        for leaf in unknown:
            for s in range(leaf.states):
                for y in range(leaf.known):
                    cell = leaf.table + s * leaf.known + y
                    out[cell] += values[cell] * posteriors[leaf.posterior + s]
    add_priors(sources, posteriors, maps, out)
