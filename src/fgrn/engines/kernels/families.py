"""Scores of families (a variable with some parents): rows are counted by cell, and a term per cell is summed."""

from __future__ import annotations

from math import lgamma

import numpy as np

from .basics import NONE, inlined, inner, kernel

# The term of a cell with n rows, m held-out rows, and a prior count of a:
# n log(n); log Gamma(n + a) - log Gamma(a); m log(n + a)
LIKELIHOOD, DIRICHLET, KEPT_BACK = range(3)
WIDE = 2**12
"""Cells of a table that is counted once, and not in four parts."""

FEW = 32
"""Terms of so few rows are computed once for all cells; there are many such cells."""


@inlined
def cell_term(kind, count, back, prior):
    """Return the term of one cell of a score."""
    if kind == LIKELIHOOD:
        return count * np.log(count) if count > 0.0 else 0.0
    if kind == DIRICHLET:
        return lgamma(count + prior) - lgamma(prior) if count > 0.0 else 0.0
    return back * np.log(count + prior) if back > 0.0 else 0.0


@inner
def sum_of_terms(kind, counts, back, at, cells, prior, few):
    """Return the sum of the terms of some cells from `at` on; `few` caches the terms of small integers."""
    known = 0 if kind == KEPT_BACK or cells < FEW else FEW
    for number in range(known):
        few[number] = cell_term(kind, float(number), 0.0, prior)
    total = 0.0
    for cell in range(at, at + cells):
        count = counts[cell]
        if kind == KEPT_BACK:
            total += cell_term(kind, count, back[cell], prior)
        elif count < known and count == np.floor(count):
            total += few[int(count)]
        else:
            total += cell_term(kind, count, 0.0, prior)
    return total


@inner
def score_of_cells(kind, counts, back, at, lines, states, prior, few):
    """Return the score of a family from the counts of its cells, child states fastest; overwrites the counts."""
    total = sum_of_terms(kind, counts, back, at, lines * states, prior, few)
    for line in range(lines):  # sums over the child, in place: line <= line * states
        count, held = 0.0, 0.0
        for state in range(states):
            count += counts[at + line * states + state]
            if kind == KEPT_BACK:
                held += back[at + line * states + state]
        counts[at + line] = count
        if kind == KEPT_BACK:
            back[at + line] = held
    return total - sum_of_terms(kind, counts, back, at, lines, prior * states, few)


@inner
def count_weighted(codes, child, states, group, column, size, cells, weights, train, counts, back):
    """Add the weight of each row to its cell; the weights of held-out rows go to other cells."""
    for cell in range(cells):
        counts[cell] = 0.0
    for cell in range(min(cells, len(back))):
        back[cell] = 0.0
    for row in range(len(group)):
        cell = cell_of(codes, child, states, group, column, size, row)
        weight = weights[row] if len(weights) > 1 else weights[0]
        if row < train:
            counts[cell] += weight
        else:
            back[cell] += weight


@inner
def count_equal(codes, child, states, group, column, size, cells, weight, counts):
    """Count rows of equal weight by cell, in four interleaved tables, since consecutive rows often share a cell."""
    rows = len(group)
    for cell in range(4 * cells):
        counts[cell] = 0.0
    for row in range(0, rows - 3, 4):
        counts[cell_of(codes, child, states, group, column, size, row)] += 1.0
        counts[cells + cell_of(codes, child, states, group, column, size, row + 1)] += 1.0
        counts[2 * cells + cell_of(codes, child, states, group, column, size, row + 2)] += 1.0
        counts[3 * cells + cell_of(codes, child, states, group, column, size, row + 3)] += 1.0
    for row in range(rows - rows % 4, rows):
        counts[cell_of(codes, child, states, group, column, size, row)] += 1.0
    for cell in range(cells):
        total = counts[cell] + counts[cells + cell] + counts[2 * cells + cell] + counts[3 * cells + cell]
        counts[cell] = weight * total


@inlined
def cell_of(codes, child, states, group, column, size, row):
    """Return the cell of a row in the table of a child given groups and a column."""
    row = np.uint64(row)
    line = np.uint64(group[row])
    if column != NONE:
        line = line * size + np.uint64(codes[column, row])
    return line * states + np.uint64(codes[child, row])


@kernel
def scores_beside(codes, sizes, child, group, groups, columns, weights, train, kind, priors, counts, back, few, out):
    """Compute the scores of a child given groups of rows (joint states of parents) and each one of several columns.

    Args:
        codes: (columns, rows) the state of each column in each row; all are known.
        sizes: the number of states of each column.
        child: the column that is the child.
        group: (rows,) the group of each row.
        groups: how many there are.
        columns: the further parents, one after the other; -1 for none.
        weights: (rows,) the weight of each row, or (1,) of all.
        train: rows from this one on are held out.
        kind: of the terms.
        priors: the prior count of a cell, for each column.
        counts: room for groups * largest size * states of the child cells, four times if there are no more than WIDE.
        back: the same for held-out rows, if the kind needs them.
        few: room for FEW terms.
        out: the scores, without penalties.
    """
    child = np.uint64(child)
    states = np.uint64(sizes[child])
    for number in range(len(columns)):
        column = np.uint64(columns[number])
        size = np.uint64(sizes[column] if column != NONE else 1)
        lines = np.uint64(groups) * size
        cells = lines * states
        if kind == KEPT_BACK or len(weights) > 1 or cells > WIDE:
            count_weighted(codes, child, states, group, column, size, cells, weights, train, counts, back)
        else:
            count_equal(codes, child, states, group, column, size, cells, weights[0], counts)
        out[number] = score_of_cells(kind, counts, back, np.uint64(0), lines, states, priors[number], few)


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
def subset_terms(
    codes, sizes, weights, train, kind, priors, equivalent, prefix, first, most, counts, back, places, groups, found,
    chosen, few, out,
):  # fmt: skip
    """Compute sums of terms over the joint states of every subset of columns that has a given part in common.

    Subsets are numbers with a bit for each column. The others are gone through depth first: each adds a column after
    its last one, and divides the groups of rows of the subset before.

    Args:
        codes: (columns, rows), see `scores_beside`, and so are the others.
        sizes: of the columns.
        weights: (rows,) or (1,).
        train: rows from this one on are held out.
        kind: of the terms.
        priors: prior counts of a cell; if `equivalent`, one that is divided by the number of joint states.
        equivalent: whether it is.
        prefix: the bits of the part among the columns before `first`.
        first: the first column that may be added.
        most: the most columns of a subset; other subsets are left out.
        counts: room for rows * largest size cells.
        back: the same.
        places: the same, of numbers.
        groups: (columns + 1, rows) room for the groups at each depth.
        found: (columns + 1,) room for how many there are.
        chosen: (columns + 1,) room for the column added at each depth.
        few: room for FEW terms.
        out: (priors, subsets) the sums.
    """
    width, rows = codes.shape
    for row in range(rows):
        groups[0, row] = 0
    found[0] = 1
    depth, subset, states = 0, np.int64(0), 1.0
    for column in range(first):
        if (prefix >> column) & 1:
            states *= sizes[column]
            subset |= np.int64(1) << column
            found[depth + 1] = divide(
                codes, sizes, weights, train, column, groups, found, depth, counts, back, places, True
            )
            depth += 1
    base = depth
    if depth > most:
        return
    if depth > 0:  # the counts are those of the last division
        for number in range(len(priors)):
            prior = priors[number] / states if equivalent else priors[number]
            out[number, subset] = sum_of_terms(kind, counts, back, 0, found[depth], prior, few)
    column = first
    while True:
        if column < width and depth < most:
            deeper = depth + 1 < most and column + 1 < width
            found[depth + 1] = divide(
                codes, sizes, weights, train, column, groups, found, depth, counts, back, places, deeper
            )
            depth += 1
            chosen[depth] = column
            states *= sizes[column]
            subset |= np.int64(1) << column
            for number in range(len(priors)):
                prior = priors[number] / states if equivalent else priors[number]
                out[number, subset] = sum_of_terms(kind, counts, back, 0, found[depth], prior, few)
            column += 1
            continue
        if depth == base:
            return
        column = chosen[depth]
        states /= sizes[column]
        subset &= ~(np.int64(1) << column)
        depth -= 1
        column += 1


@inner
def divide(codes, sizes, weights, train, column, groups, found, depth, counts, back, places, deeper):
    """Count the rows of groups subdivided by a column, occupied cells first in `counts`; returns the number of these.

    The new group of each row is kept if `deeper` columns are to divide it.
    """
    size, rows = sizes[column], codes.shape[1]
    cells = found[depth] * size
    for cell in range(cells):
        places[cell] = -1
    used = 0
    for row in range(rows):
        cell = groups[depth, row] * size + codes[column, row]
        place = places[cell]
        if place < 0:
            place = used
            places[cell] = place
            counts[place] = 0.0
            back[place] = 0.0
            used += 1
        weight = weights[row] if len(weights) > 1 else weights[0]
        if row < train:
            counts[place] += weight
        else:
            back[place] += weight
        if deeper:
            groups[depth + 1, row] = place
    return used


@kernel
def one_term(kind, count, back, prior):
    """Return the term of one cell, for calls from Python."""
    return cell_term(kind, count, back, prior)
