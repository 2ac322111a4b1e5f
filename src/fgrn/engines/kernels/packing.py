"""Packed leaves: codes of packs, joint tables computed from tables of leaves, and counts of leaves from those of packs.

The latter two are done once an epoch, on whole arrays. Their records are as `arguments.Packing` describes them.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from .basics import LOG_TWO, NONE, ONE, ZERO, compact, inner, kernel, once, short_kernel
from .products import place_of
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
    """Compute joint tables as `fill_joint_tables` does, called from Python."""
    return fill_joint_tables(packing, values, maps, joint, shifts, base, columns, exponents)


@inner
def fill_joint_tables(packing, values, maps, joint, shifts, base, columns, exponents):
    """Compute the joint tables of all packs and, of a star, the product of its priors; returns the largest depth.

    The depth of a pack is by how many bits its smallest cell may differ from its largest.
    """
    compact()
    deepest, number = 0.0, 0
    for pack in packing.packs:
        start, stride, shift = pack.start, pack.stride, pack.shift
        set_all(joint, start, 1.0, stride)
        shifts[shift] = 0
        rows, depth = ONE, 0.0
        for _ in range(pack.leaves):
            leaf = packing.leaves[number]
            number += 1
            depth -= np.log2(leaf_columns(values, leaf, pack.states, stride, columns, exponents))
            codes = leaf.codes
            for after in range(rows):  # from behind: a row is read before it is written over
                row = rows - ONE - after
                source, shifted = start + row * stride, shifts[shift + row]
                for behind in range(codes):
                    code = codes - ONE - behind
                    place = row * codes + code
                    product(joint, source, columns, code * stride, joint, start + place * stride, stride)
                    shifts[shift + place] = shifted + exponents[code]
            rows *= codes
        deepest = depth if depth > deepest else deepest
    if len(base):
        set_all(base, ZERO, 0.0, np.uint64(len(base)))
        set_all(base, ZERO, 1.0, packing.space[0])
        for prior in packing.priors:
            for state in range(prior.size):
                base[state] *= values[prior.place + own_state(state, maps, prior)]
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
def unpacked(packing, joint, posteriors, shifts, values, maps, expect, is_star, out, work):
    """Add the counts of packs as `add_unpacked` does, called from Python."""
    return add_unpacked(packing, joint, posteriors, shifts, values, maps, expect, is_star, out, work)


@inner
def add_unpacked(packing, joint, posteriors, shifts, values, maps, expect, is_star, out, work):
    """Add the counts of packs and posteriors to those in the plan's layout.

    Returns what was taken out of the joint tables of a star, which its log-likelihood lacks; its posterior is the sum
    of the counts of the first pack, in which every row has an entry.
    """
    compact()
    missing, fold_number, leaf_number = 0.0, 0, 0
    for pack in packing.packs:
        start, stride, states = pack.start, pack.stride, pack.states
        last = start + (pack.codes - ONE) * stride
        if is_star:
            for code in range(pack.codes):
                missing += summed(joint, start + code * stride, stride) * shifts[pack.shift + code]
        tells_posterior = is_star and leaf_number == 0
        if tells_posterior or pack.has_nothing:
            set_all(work, ZERO, 0.0, stride)
            for code in range(pack.codes):
                increased(work, ZERO, 1.0, joint, start + code * stride, stride)
        if tells_posterior:
            copied(work, ZERO, posteriors, ZERO, states)
        if pack.has_nothing:  # a code of nothing known, which no row has an entry for: what the others left
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
    if expect:
        for leaf in packing.unknown:  # leaves that no row knows
            for s in range(leaf.states):
                for y in range(leaf.known):
                    cell = leaf.table + s * leaf.known + y
                    out[cell] += values[cell] * posteriors[leaf.posterior + s]
    add_priors(packing.sources, posteriors, maps, out)
    return missing * LOG_TWO
