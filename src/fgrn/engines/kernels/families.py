"""Scores of families (a variable with some parents): rows are counted by cell, and a term per cell is summed."""

from __future__ import annotations

from math import lgamma

import numpy as np

from .arguments import FamilyColumns
from .basics import NONE, inlined, inner, kernel

# The term of a cell with n rows, m held-out rows, and a prior count of a:
# n log(n); log Gamma(n + a) - log Gamma(a); m log(n + a)
LIKELIHOOD, DIRICHLET, HELD_OUT = range(3)
WIDE = 2**12
"""Cells of a table that is counted once, and not in four parts."""

FEW = 32
"""Terms of so few rows are computed once for all cells; there are many such cells."""


@inlined
def cell_term(kind, count, held_out, prior):
    """Return the term of one cell of a score."""
    if kind == LIKELIHOOD:
        return count * np.log(count) if count > 0.0 else 0.0
    if kind == DIRICHLET:
        return lgamma(count + prior) - lgamma(prior) if count > 0.0 else 0.0
    return held_out * np.log(count + prior) if held_out > 0.0 else 0.0


@inner
def sum_of_terms(kind, room, at, cells, prior):
    """Return the sum of the terms of some cells from `at` on; those of small integers are computed once."""
    known = 0 if kind == HELD_OUT or cells < FEW else FEW
    for number in range(known):
        room.few[number] = cell_term(kind, float(number), 0.0, prior)
    total = 0.0
    for cell in range(at, at + cells):
        count = room.counts[cell]
        if kind == HELD_OUT:
            total += cell_term(kind, count, room.held_out[cell], prior)
        elif count < known and count == np.floor(count):
            total += room.few[int(count)]
        else:
            total += cell_term(kind, count, 0.0, prior)
    return total


@inner
def score_of_cells(kind, room, at, lines, states, prior):
    """Return the score of a family from the counts of its cells, child states fastest; overwrites the counts."""
    counts, held_out = room.counts, room.held_out
    total = sum_of_terms(kind, room, at, lines * states, prior)
    for line in range(lines):  # sums over the child, in place: line <= line * states
        count, held = 0.0, 0.0
        for state in range(states):
            count += counts[at + line * states + state]
            if kind == HELD_OUT:
                held += held_out[at + line * states + state]
        counts[at + line] = count
        if kind == HELD_OUT:
            held_out[at + line] = held
    return total - sum_of_terms(kind, room, at, lines, prior * states)


@inner
def count_weighted(family, cells, weights, train, room):
    """Add the weight of each row to its cell; the weights of held-out rows go to other cells."""
    counts, held_out = room.counts, room.held_out
    for cell in range(cells):
        counts[cell] = 0.0
    for cell in range(min(cells, len(held_out))):
        held_out[cell] = 0.0
    for row in range(len(family.group)):
        cell = cell_of(family, row)
        weight = weights[row] if len(weights) > 1 else weights[0]
        if row < train:
            counts[cell] += weight
        else:
            held_out[cell] += weight


@inner
def count_equal(family, cells, weight, counts):
    """Count rows of equal weight by cell, in four interleaved tables, since consecutive rows often share a cell."""
    rows = len(family.group)
    for cell in range(4 * cells):
        counts[cell] = 0.0
    for row in range(0, rows - 3, 4):
        counts[cell_of(family, row)] += 1.0
        counts[cells + cell_of(family, row + 1)] += 1.0
        counts[2 * cells + cell_of(family, row + 2)] += 1.0
        counts[3 * cells + cell_of(family, row + 3)] += 1.0
    for row in range(rows - rows % 4, rows):
        counts[cell_of(family, row)] += 1.0
    for cell in range(cells):
        total = counts[cell] + counts[cells + cell] + counts[2 * cells + cell] + counts[3 * cells + cell]
        counts[cell] = weight * total


@inlined
def cell_of(family, row):
    """Return the cell of a row in the table of a child given groups and a column."""
    row = np.uint64(row)
    line = np.uint64(family.group[row])
    if family.column != NONE:
        line = line * family.size + np.uint64(family.codes[family.column, row])
    return line * family.states + np.uint64(family.codes[family.child, row])


@kernel
def scores_beside(rows, child, group, groups, columns, kind, priors, room, out):
    """Compute the scores of a child given groups of rows (joint states of parents) and each one of several columns.

    Args:
        rows: see `arguments.ScoredRows`.
        child: the column that is the child.
        group: (rows,) the group of each row.
        groups: how many there are.
        columns: the further parents, one after the other; -1 for none.
        kind: of the terms.
        priors: the prior count of a cell, for each column.
        room: for groups * largest size * states of the child cells, four times if there are no more than WIDE; the same
            for held-out rows, if the kind needs them; for FEW terms.
        out: the scores, without penalties.
    """
    child = np.uint64(child)
    states = np.uint64(rows.sizes[child])
    for number in range(len(columns)):
        column = np.uint64(columns[number])
        size = np.uint64(rows.sizes[column] if column != NONE else 1)
        lines = np.uint64(groups) * size
        cells = lines * states
        family = FamilyColumns(rows.codes, child, states, group, column, size)
        if kind == HELD_OUT or len(rows.weights) > 1 or cells > WIDE:
            count_weighted(family, cells, rows.weights, rows.train, room)
        else:
            count_equal(family, cells, rows.weights[0], room.counts)
        out[number] = score_of_cells(kind, room, np.uint64(0), lines, states, priors[number])


@kernel
def refine(group, column, size, places, out):
    """Subdivide groups of rows by a column; returns the number of new groups. `places` has -1 for all pairs."""
    found = 0
    for row in range(len(group)):
        pair = np.int64(group[row]) * size + column[row]
        if places[pair] < 0:
            places[pair] = found
            found += 1
        out[row] = places[pair]
    return found


@kernel
def subset_terms(rows, kind, priors, equivalent, prefix, first, most, room, walk, out):
    """Compute sums of terms over the joint states of every subset of columns that has a given part in common.

    Subsets are numbers with a bit for each column. The others are gone through depth first: each adds a column after
    its last one, and divides the groups of rows of the subset before.

    Args:
        rows: see `arguments.ScoredRows`.
        kind: of the terms.
        priors: prior counts of a cell; if `equivalent`, one that is divided by the number of joint states.
        equivalent: whether it is.
        prefix: the bits of the part among the columns before `first`.
        first: the first column that may be added.
        most: the most columns of a subset; other subsets are left out.
        room: for rows * largest size cells, the same for held-out rows, and FEW terms.
        walk: see `arguments.SubsetRoom`; `places` for as many cells.
        out: (priors, subsets) the sums.
    """
    sizes, found = rows.sizes, walk.found
    width = len(sizes)
    for row in range(rows.codes.shape[1]):
        walk.groups[0, row] = 0
    found[0] = 1
    depth, subset, states = 0, np.int64(0), 1.0
    for column in range(first):
        if (prefix >> column) & 1:
            states *= sizes[column]
            subset |= np.int64(1) << column
            found[depth + 1] = divide(rows, column, walk, depth, room, True)
            depth += 1
    base = depth
    if depth > most:
        return
    if depth > 0:  # the counts are those of the last division
        for number in range(len(priors)):
            prior = priors[number] / states if equivalent else priors[number]
            out[number, subset] = sum_of_terms(kind, room, 0, found[depth], prior)
    column = first
    while True:
        if column < width and depth < most:
            deeper = depth + 1 < most and column + 1 < width
            found[depth + 1] = divide(rows, column, walk, depth, room, deeper)
            depth += 1
            walk.chosen[depth] = column
            states *= sizes[column]
            subset |= np.int64(1) << column
            for number in range(len(priors)):
                prior = priors[number] / states if equivalent else priors[number]
                out[number, subset] = sum_of_terms(kind, room, 0, found[depth], prior)
            column += 1
            continue
        if depth == base:
            return
        column = walk.chosen[depth]
        states /= sizes[column]
        subset &= ~(np.int64(1) << column)
        depth -= 1
        column += 1


@inner
def divide(rows, column, walk, depth, room, deeper):
    """Count the rows of groups subdivided by a column, occupied cells first in `counts`; returns the number of these.

    The new group of each row is kept if `deeper` columns are to divide it.
    """
    codes, weights = rows.codes, rows.weights
    counts, held_out, places, groups = room.counts, room.held_out, walk.places, walk.groups
    size = rows.sizes[column]
    for cell in range(walk.found[depth] * size):
        places[cell] = -1
    used = 0
    for row in range(codes.shape[1]):
        cell = groups[depth, row] * size + codes[column, row]
        place = places[cell]
        if place < 0:
            place = used
            places[cell] = place
            counts[place] = 0.0
            held_out[place] = 0.0
            used += 1
        weight = weights[row] if len(weights) > 1 else weights[0]
        if row < rows.train:
            counts[place] += weight
        else:
            held_out[place] += weight
        if deeper:
            groups[depth + 1, row] = place
    return used


@kernel
def one_term(kind, count, held_out, prior):
    """Return the term of one cell, for calls from Python."""
    return cell_term(kind, count, held_out, prior)
