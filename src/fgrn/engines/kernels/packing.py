"""Packed leaves: codes of packs, joint tables computed from tables of leaves, and counts of leaves from those of packs.

The latter two are done once an epoch, on whole arrays. Their records are as `arguments.Packing` describes them.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from .basics import LOG_TWO, NONE, ZERO, inner, kernel
from .products import place_of
from .vectors import copied, increased, product, scaled, set_all, summed, times

ROUNDING = 2.0**-52


@kernel
def pack(codes, first, rows, packs, leaves, work, entries, ends, before):
    """Write, for each row, an entry for each pack with at least one known value, and where the entries of the row end.

    `codes` has a column of evidence in each row. `packs` has (first row, code of nothing, number of leaves) for each,
    `leaves` (column, codes, code of the unknown) one pack after the other; `work` has room for the codes of a block of
    rows, (packs, block). Entries are counted from `before` on; returns how many were written.
    """
    count = np.uint64(0)
    for begin in range(0, rows, work.shape[1]):
        block = min(work.shape[1], rows - begin)
        leaf = 0
        for k in range(len(packs)):
            mine = work[k]
            mine[:] = 0
            for _ in range(packs[k, 2]):
                column = codes[leaves[leaf, 0], first + begin : first + begin + block]
                size, unknown = np.int32(leaves[leaf, 1]), np.int32(leaves[leaf, 2])
                for r in range(block):  # column by column, so that it is vectorised
                    value = np.int32(column[r])
                    mine[r] = mine[r] * size + (unknown if value < 0 else value)
                leaf += 1
        for r in range(block):
            for k in range(len(packs)):
                if work[k, r] != packs[k, 1]:
                    entries[count] = packs[k, 0] + work[k, r]
                    count += np.uint64(1)
            ends[begin + r] = before + count
    return count


@inner
def leaf_columns(values, table, states, stride, known, codes, columns, exponents):
    """Copy the columns of a leaf's table, one per code, each times the power of two that brings its largest near 1.

    A code beyond the `known` states is that of a missing value: a column of ones. Returns the smallest positive cell.
    """
    smallest = 1.0
    for code in range(codes):
        at = code * stride
        set_all(columns, at, 1.0 if code >= known else 0.0, states)
        set_all(columns, at + states, 0.0, stride - states)
        largest = 1.0 if code >= known else 0.0
        if code < known:
            for s in range(states):
                value = values[table + s * known + code]
                columns[at + s] = value
                largest = max(largest, value)
        exponent = frexp(largest)[1]
        exponents[code] = exponent
        if exponent > -1000:
            scaled(columns, at, ldexp(1.0, -exponent), states)
        else:
            for s in range(states):
                columns[at + s] = ldexp(columns[at + s], -exponent)
        for s in range(states):
            if 0.0 < columns[at + s] < smallest:
                smallest = columns[at + s]
    return smallest


@kernel
def joint_tables(packing, values, maps, joint, shifts, base, columns, exponents):
    """Compute the joint tables of all packs and, of a star, the product of its priors; returns the largest depth.

    The depth of a pack is by how many bits its smallest cell may differ from its largest.
    """
    deepest = 0.0
    leaf = 0
    for number in range(len(packing.packs)):
        start, stride, states = packing.packs[number, 0], packing.packs[number, 1], packing.packs[number, 2]
        leaves, shift = packing.packs[number, 3], packing.packs[number, 4]
        rows = np.int64(1)
        depth = 0.0
        for position in range(leaves):
            table, known, codes = packing.leaves[leaf, 0], packing.leaves[leaf, 1], packing.leaves[leaf, 2]
            leaf += 1
            depth -= np.log2(leaf_columns(values, table, states, stride, known, codes, columns, exponents))
            if position == 0:
                copied(columns, ZERO, joint, start, codes * stride)
                for code in range(codes):
                    shifts[shift + code] = exponents[code]
                rows = np.int64(codes)
                continue
            for row in range(rows - 1, -1, -1):  # from behind: a row is read before it is written over
                source, shifted = start + np.uint64(row) * stride, shifts[shift + np.uint64(row)]
                for code in range(np.int64(codes) - 1, -1, -1):
                    place = np.uint64(row) * codes + np.uint64(code)
                    product(joint, source, columns, np.uint64(code) * stride, joint, start + place * stride, stride)
                    shifts[shift + place] = shifted + exponents[code]
            rows *= np.int64(codes)
        deepest = max(deepest, depth)
    if len(base):
        set_all(base, ZERO, 0.0, np.uint64(len(base)))
        set_all(base, ZERO, 1.0, packing.space[0])
        for number in range(len(packing.priors)):
            place, index = packing.priors[number, 0], packing.priors[number, 4]
            size, run = packing.priors[number, 2], packing.priors[number, 3]
            if index == NONE:
                times(base, ZERO, values, place, size)
            else:
                for state in range(size):
                    base[state] *= values[place + place_of(state, maps, index, size, run)]
    return deepest


@inner
def folded(source, at, outer, inner_rows, stride, work, left, right):
    """Sum rows (outer, inner) over the inner ones, and over the outer ones."""
    for a in range(outer):
        for b in range(inner_rows):
            row = at + (a * inner_rows + b) * stride
            if b == 0:
                copied(source, row, work, left + a * stride, stride)
            else:
                increased(work, left + a * stride, 1.0, source, row, stride)
            if a == 0:
                copied(source, row, work, right + b * stride, stride)
            else:
                increased(work, right + b * stride, 1.0, source, row, stride)


@inner
def add_leaf(counts, at, stride, states, table, known, codes, values, expect, out):
    """Add the counts of a leaf's codes to its table; missing values, if `expect`, in proportion to the old table."""
    for s in range(states):
        for y in range(known):
            out[table + s * known + y] += counts[at + y * stride + s]
    if expect and codes > known:
        for s in range(states):
            unknown = counts[at + known * stride + s]
            for y in range(known):
                cell = table + s * known + y
                out[cell] += values[cell] * unknown


@kernel
def unpacked(packing, joint, posteriors, shifts, values, maps, expect, is_star, out, work):
    """Add the counts of packs and posteriors to those in the plan's layout.

    Returns what was taken out of the joint tables of a star, which its log-likelihood lacks; its posterior is the sum
    of the counts of the first pack, in which every row has an entry.
    """
    missing = 0.0
    if is_star:
        stride, states = packing.packs[0, 1], packing.packs[0, 2]
        set_all(work, ZERO, 0.0, stride)
        for number in range(len(packing.packs)):
            start, codes, shift = packing.packs[number, 0], packing.packs[number, 5], packing.packs[number, 4]
            for code in range(codes):
                missing += summed(joint, start + code * stride, stride) * shifts[shift + code]
                if number == 0:
                    increased(work, ZERO, 1.0, joint, start + code * stride, stride)
        copied(work, ZERO, posteriors, ZERO, states)
    fold, leaf = 0, 0
    for number in range(len(packing.packs)):
        start, stride, states = packing.packs[number, 0], packing.packs[number, 1], packing.packs[number, 2]
        leaves, codes = packing.packs[number, 3], packing.packs[number, 5]
        if packing.packs[number, 6]:  # a code of nothing known, which no row has an entry for: what the others left
            last, posterior = start + (codes - np.uint64(1)) * stride, packing.packs[number, 7]
            set_all(work, ZERO, 0.0, stride)
            for code in range(codes):
                increased(work, ZERO, 1.0, joint, start + code * stride, stride)
            for s in range(states):
                total = posteriors[posterior + s]
                # what rounding hides may be there: no zero is made up
                joint[last + s] = max(total - work[s], ROUNDING * total)
        for _ in range(leaves - np.uint64(1)):
            is_root, at, left = packing.folds[fold, 0], packing.folds[fold, 1], packing.folds[fold, 4]
            outer, inner_rows, right = packing.folds[fold, 2], packing.folds[fold, 3], packing.folds[fold, 5]
            fold += 1
            if is_root:
                folded(joint, start, outer, inner_rows, stride, work, left, right)
            else:
                folded(work, at, outer, inner_rows, stride, work, left, right)
        for _ in range(leaves):
            table, known, size = packing.leaves[leaf, 0], packing.leaves[leaf, 1], packing.leaves[leaf, 2]
            place = packing.leaves[leaf, 3]
            leaf += 1
            if place == NONE:
                add_leaf(joint, start, stride, states, table, known, size, values, expect, out)
            else:
                add_leaf(work, place, stride, states, table, known, size, values, expect, out)
    if expect:
        for number in range(len(packing.unknown)):  # leaves that no row knows
            table, known = packing.unknown[number, 0], packing.unknown[number, 1]
            states, posterior = packing.unknown[number, 2], packing.unknown[number, 3]
            for s in range(states):
                for y in range(known):
                    out[table + s * known + y] += values[table + s * known + y] * posteriors[posterior + s]
    for number in range(len(packing.sources)):
        place, posterior, size = packing.sources[number, 0], packing.sources[number, 1], packing.sources[number, 2]
        run, index = packing.sources[number, 3], packing.sources[number, 4]
        for state in range(size):
            own = state if index == NONE else place_of(state, maps, index, size, run)
            out[place + own] += posteriors[posterior + state]
    return missing * LOG_TWO
