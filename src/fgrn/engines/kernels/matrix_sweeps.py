"""Trees of hidden variables: the sweeps of `fgrn.engines.matrices`, with one matrix product per link.

The rows of a block are taken a few at a time, as many as make a small product: BLAS does such a product without copying
the matrices first, and the messages of these rows stay near the processor. All messages are flat arrays; that of a
clique to its parent gives way, downwards, to the posterior of the parent without it, and the product of what lies below
a clique to the posterior of the clique.
"""

from __future__ import annotations

import numpy as np

from .basics import LEAST_MARGIN, inner, kernel
from .blas import add_cross_product, matrix_product
from .vectors import copied, increased, least, scaled, set_all, summed, times

VANISHING = 1e-200
"""A sum below this, of a product of which each factor is divided by its sum, may have lost a state."""

LEAST_FACTOR, LARGEST_FACTOR = 1e-100, 1e100
"""Sums are multiplied until their product leaves this range: a logarithm takes as long as twenty products."""

BETWEEN = 16
"""Factors that are multiplied before the product is divided by its sum."""

TINY, LOG_TINY = 1e-300, np.log(1e-300)
"""A state of a product below this has lost digits, or is lost."""

IMPOSSIBLE = 1e-270
"""A message below this stands for zero: a link between two states that the table rules out (`matrices.LEAST`)."""


@inner
def divide_by_sum(x, at, count, lost, row, books):
    """Divide a product by its sum, a factor of the row's likelihood; a sum of zero marks the row as underflowed.

    So does a state that was lost before and might matter now. It had less than `TINY`, and every later sum below one
    may bring it nearer to the others: how near is the margin of the row, a logarithm.
    """
    total = summed(x, at, count)
    if not total > VANISHING:
        books.doubtful[row] = True
        set_all(x, at, 1.0 / count, count)
        return
    if books.margin[row] < np.inf or lost:
        books.margin[row] += min(np.log(total), 0.0)
        if lost:
            books.margin[row] = min(books.margin[row], np.log(total) - LOG_TINY)
        if books.margin[row] < LEAST_MARGIN:
            books.doubtful[row] = True
    scaled(x, at, 1.0 / total, count)
    if not LEAST_FACTOR < total < LARGEST_FACTOR:
        books.scale[row] += np.log(total)
        return
    books.rest[row] *= total
    if not LEAST_FACTOR < books.rest[row] < LARGEST_FACTOR:
        books.scale[row] += np.log(books.rest[row])
        books.rest[row] = 1.0


@inner
def loses_a_state(tree, clique, tables, codes, row, r, rows, work, leaves_end, children_end):
    """Return whether a state of a product underflowed, and is not one that a factor so far rules out."""
    size = tree.size[clique]
    at = tree.start[clique] * rows + r * size
    for s in range(size):
        if work.up[at + s] >= TINY:
            continue
        is_ruled_out = False
        for leaf in range(tree.leaves[clique], leaves_end):
            code = codes[row, tree.leaf_column[leaf]] if tree.leaf_column[leaf] >= 0 else -1
            if code >= 0 and tables.transposed[tree.leaf_table[leaf] + code * size + s] == 0.0:
                is_ruled_out = True
                break
        for number in range(tree.children[clique], children_end):
            if work.message[tree.message[tree.child[number]] * rows + r * size + s] < IMPOSSIBLE:
                is_ruled_out = True
                break
        if not is_ruled_out:
            return True
    return False


@inner
def end_factors(tree, clique, tables, codes, row, r, rows, work, leaves_end, children_end, books):
    """Divide a product by its sum after some factors, those of leaves and children before the given numbers."""
    size = tree.size[clique]
    at = tree.start[clique] * rows + r * size
    lost = least(work.up, at, size) < TINY and loses_a_state(
        tree, clique, tables, codes, row, r, rows, work, leaves_end, children_end
    )
    divide_by_sum(work.up, at, size, lost, row, books)


@inner
def product_below(tree, clique, tables, codes, first, rows, work, books):
    """Multiply the table columns of the leaves of a clique and the messages of its children, in each row."""
    size = tree.size[clique]
    leaves, children = tree.leaves[clique + 1], tree.children[clique]
    for r in range(rows):
        row, at = first + r, tree.start[clique] * rows + r * size
        set_all(work.up, at, 1.0, size)
        factors = 0
        for leaf in range(tree.leaves[clique], leaves):
            code = codes[row, tree.leaf_column[leaf]] if tree.leaf_column[leaf] >= 0 else -1
            if code >= 0:
                times(work.up, at, tables.transposed, tree.leaf_table[leaf] + code * size, size)
                factors += 1
                if factors % BETWEEN == 0:
                    end_factors(tree, clique, tables, codes, row, r, rows, work, leaf + 1, children, books)
        for number in range(children, tree.children[clique + 1]):
            child = tree.child[number]
            times(work.up, at, work.message, tree.message[child] * rows + r * size, size)
            factors += 1
            if factors % BETWEEN == 0:
                end_factors(tree, clique, tables, codes, row, r, rows, work, leaves, number + 1, books)
        end_factors(tree, clique, tables, codes, row, r, rows, work, leaves, tree.children[clique + 1], books)


@inner
def root_posterior(tree, root, tables, first, rows, work, books, totals):
    """Multiply the upward product at the root by the prior, and compute the likelihood and weight of each row."""
    size, at = tree.size[root], tree.start[root] * rows
    largest = 0.0
    for s in range(size):
        largest = max(largest, tables.prior[s])
    for r in range(rows):
        row = first + r
        times(work.up, at, tables.prior, 0, size)
        total = summed(work.up, at, size)
        if total > VANISHING * largest and books.margin[row] + min(np.log(total), 0.0) > LEAST_MARGIN:
            books.scale[row] += np.log(total)
            scaled(work.up, at, totals.weights[row] / total, size)
        else:
            books.doubtful[row] = True
            set_all(work.up, at, 0.0, size)
        increased(totals.prior, 0, 1.0, work.up, at, size)
        at += size


@inner
def posterior_below(tree, clique, tables, first, rows, work, books, totals):
    """Turn the upward product of a clique into its posterior, given its parent's, and count the table between them."""
    parent = tree.parent[clique]
    above, below = tree.size[parent], tree.size[clique]
    message, start, table = tree.message[clique] * rows, tree.start[clique] * rows, tree.table[clique]
    of_parent = tree.start[parent] * rows
    rest, up = work.message[message : message + rows * above], work.up[of_parent : of_parent + rows * above]
    for s in range(rows * above):
        rest[s] = up[s] / rest[s]
    matrix_product(work.message, message, tables.values, table, work.passed, 0, rows, above, below)
    add_cross_product(work.message, message, work.up, start, totals.counts, table, above, rows, below)
    for r in range(rows):
        weight = totals.weights[first + r]
        if weight != 0 and not abs(weight) > VANISHING * abs(summed(work.passed, r * below, below)):
            books.doubtful[first + r] = True
        times(work.up, start + r * below, work.passed, r * below, below)


@inner
def count_leaves(tree, clique, codes, first, rows, work, totals):
    """Add the posterior of a clique to the counts of its leaves: by observed value, or to those of missing values.

    The counts of a leaf are transposed until all rows have been added.
    """
    size, start = tree.size[clique], tree.start[clique] * rows
    for leaf in range(tree.leaves[clique], tree.leaves[clique + 1]):
        column, table = tree.leaf_column[leaf], tree.leaf_table[leaf]
        for r in range(rows):
            code = codes[first + r, column] if column >= 0 else -1
            if code >= 0:
                increased(totals.counts, table + code * size, 1.0, work.up, start + r * size, size)
            else:
                increased(totals.missing, tree.leaf_missing[leaf], 1.0, work.up, start + r * size, size)


@inner
def finish_counts(tree, tables, work, totals):
    """Multiply the counts of links by their tables, and transpose those of leaves, adding expected missing values."""
    for clique in range(len(tree.size)):
        if tree.parent[clique] >= 0:
            cells = tree.size[clique] * tree.size[tree.parent[clique]]
            times(totals.counts, tree.table[clique], tables.values, tree.table[clique], cells)
        size = tree.size[clique]
        for leaf in range(tree.leaves[clique], tree.leaves[clique + 1]):
            table, levels, missing = tree.leaf_table[leaf], tree.leaf_levels[leaf], tree.leaf_missing[leaf]
            copied(totals.counts, table, work.both, 0, size * levels)
            for s in range(size):
                share = totals.missing[missing + s]
                for code in range(levels):
                    cell = table + s * levels + code
                    totals.counts[cell] = work.both[code * size + s] + share * tables.values[cell]


@kernel
def matrix_sweeps(tree, tables, codes, at_once, work, books, totals):
    """Add the expected counts and the log-likelihoods of a block of rows; see `arguments` for the names.

    Without room for counts the sweep goes upwards only: that is enough for the likelihoods.
    """
    first = 0
    while first < len(totals.weights):
        rows = min(at_once, len(totals.weights) - first)
        for number in range(len(tree.order) - 1, -1, -1):
            clique = tree.order[number]
            product_below(tree, clique, tables, codes, first, rows, work, books)
            if number > 0:
                below, above = tree.size[clique], tree.size[tree.parent[clique]]
                start, message = tree.start[clique] * rows, tree.message[clique] * rows
                table = tree.table[clique]
                matrix_product(work.up, start, tables.transposed, table, work.message, message, rows, below, above)
        root_posterior(tree, tree.order[0], tables, first, rows, work, books, totals)
        for number in range(len(tree.order) if len(totals.counts) else 0):
            if number > 0:
                posterior_below(tree, tree.order[number], tables, first, rows, work, books, totals)
            count_leaves(tree, tree.order[number], codes, first, rows, work, totals)
        first += rows
    for row in range(len(totals.weights)):
        books.scale[row] += np.log(books.rest[row])
    if len(totals.counts):
        finish_counts(tree, tables, work, totals)
