"""Stars (one Diverter, its Sources and its observed leaves, such as LVM and naive Bayes): one pass over the rows."""

from __future__ import annotations

import numpy as np

from .arguments import StarTables
from .basics import FAINT, LOG_TWO, ZERO, compact, inner, kernel, once
from .gathers import mend_star_products, shift_of, star_products
from .packing import add_unpacked, fill_joint_tables
from .vectors import copied, projected, scaled, scattered, set_all


@kernel
def star_messages(total, known, tables, work, careful, columns, states, scale, rest, doubtful, out):
    """Compute the normalised message on one leg of a star, or after its table if `states` is not 0, for all rows.

    `columns` are those of the table, each as long as a row of a joint table. The likelihood is not computed if `scale`
    is empty. Returns how many rows are doubtful.
    """
    size, stride, p, block, found = tables.size, tables.stride, work.products, len(work.norms), 0
    for first in range(0, total, block):
        rows = block if first + block < total else total - first
        if not star_products(first, rows, known, tables, work):
            mend_star_products(first, rows, known, tables, work, careful)
        for r in range(rows):
            row, norm, at = first + r, work.norms[r], np.uint64(r) * stride
            count = size if states == ZERO else states
            if norm == 0.0:
                found += not doubtful[row]
                doubtful[row] = True
                if len(scale):
                    scale[row] = 0.0
                set_all(out, np.uint64(row) * count, 0.0, count)
                continue
            if len(scale):
                shift = shift_of(tables.shifts, ZERO, known.entries, known.bounds[0, row], known.bounds[0, row + 1])
                scale[row] = work.taken[r] + shift * LOG_TWO
                rest[row] = norm
            place, share = np.uint64(row) * count, 1.0 / norm
            if states == ZERO:
                copied(p, at, out, place, size)
                scaled(out, place, share, size)
            for j in range(states):
                out[place + j] = share * projected(p, at, columns, j * stride, stride)
    return found


@once
def add_star_rows(first, rows, known, stride, work, weights, counts, likelihood, product):
    """Add the expected counts of a block of rows of a star; a row whose product has the sum 0 adds nothing.

    Returns the log-likelihood so far, and a product of likelihoods whose logarithm it lacks: those of rows of weight 1
    are multiplied, with a logarithm now and then.
    """
    p, norms, taken, entries, bounds = work.products, work.norms, work.taken, known.entries, known.bounds
    for r in range(rows):
        row, norm, weight, at = first + r, norms[r], weights[first + r], np.uint64(r) * stride
        if weight == 0.0 or norm == 0.0:
            continue
        if weight == 1.0:
            likelihood += taken[r]
            product *= norm
            if product < FAINT or product > 1.0 / FAINT:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += weight * (np.log(norm) + taken[r])
        scattered(p, at, weight / norm, counts, ZERO, stride, entries, bounds[0, row], bounds[0, row + 1])
    return likelihood, product


@kernel
def star_block(total, known, tables, work, careful, weights, doubtful, counts):
    """Add the expected counts of packs in a block of rows of a star, in one pass in which no message is stored.

    A doubtful row adds nothing. Returns the log-likelihood of all rows without the exponents taken out of the joint
    tables (`add_unpacked` adds them), how many products were faint, and how many rows are doubtful.
    """
    likelihood, product, faint, found, block = 0.0, 1.0, 0, 0, len(work.norms)
    for first in range(0, total, block):
        rows = block if first + block < total else total - first
        if not star_products(first, rows, known, tables, work):
            faint += mend_star_products(first, rows, known, tables, work, careful)
            for r in range(rows):
                if work.norms[r] == 0.0 and weights[first + r] != 0.0:
                    doubtful[first + r] = True
                    found += 1
        likelihood, product = add_star_rows(
            first, rows, known, tables.stride, work, weights, counts, likelihood, product
        )
    return likelihood + np.log(product), faint, found


@inner
def update_lines(update, counts, values, out):
    """Write the parameters that follow from expected counts; returns False if a learnt line has none.

    The same bits as `fgrn.flow.mstep.updated`.
    """
    compact()
    lines, smoothing = update.lines, update.smoothing
    for line in range(len(lines) - 1):
        first, last, total = lines[line], lines[line + 1], 0.0
        for i in range(first, last):
            out[i] = counts[i] + smoothing[i] if len(smoothing) else counts[i]
            total += out[i]
        if update.learnt[line] and not update.least <= total < np.inf:
            return False
        for i in range(first, last):
            out[i] = out[i] / total if update.learnt[line] else values[i]
    return True


@kernel
def star(total, known, packing, maps, sizes, room, work, weights, expect, update, requests):
    """Run epochs of EM on all rows of a star, from each of several vectors of parameters, one after the other.

    The joint tables are made and the counts unpacked here, in the same room for every epoch. The epochs of a vector end
    before one in which a product of a row is faint, which only `star_block` can count, and after one that has no
    update. `sizes` are the first fields of `StarTables`. Returns whether no product was faint.
    """
    size, stride = sizes
    sound, vectors, block = True, len(requests.values), len(work.norms)
    most = len(requests.counts) // vectors
    for k in range(vectors):
        values, least = requests.values[k], requests.limits[k, 0]
        for epoch in range(requests.numbers[k, 0]):
            at = k * most + epoch
            fill_joint_tables(packing, values, maps, room.joint, room.shifts, room.base, room.columns, room.exponents)
            set_all(room.counts, ZERO, 0.0, np.uint64(len(room.counts)))
            tables = StarTables(size, stride, False, room.base, room.joint, room.shifts)
            likelihood, product, counted = 0.0, 1.0, True
            for first in range(0, total, block):
                rows = block if first + block < total else total - first
                counted = star_products(first, rows, known, tables, work)
                if not counted:
                    break
                likelihood, product = add_star_rows(
                    first, rows, known, stride, work, weights, room.counts, likelihood, product
                )
            if not counted:
                sound = False
                break
            counts, updated = requests.counts[at], requests.updated[at]
            set_all(counts, ZERO, 0.0, np.uint64(len(counts)))
            missing = add_unpacked(
                packing, room.counts, room.posteriors, room.shifts, values, maps, expect, True, counts, room.folded
            )
            likelihood = likelihood + np.log(product) + missing
            requests.likelihoods[at] = likelihood
            requests.numbers[k, 1] = epoch + 1
            if not len(update.lines) or not update_lines(update, counts, values, updated):
                break
            requests.numbers[k, 2] = epoch + 1
            if likelihood < least:
                break
            values, least = updated, likelihood + requests.limits[k, 1]
    return sound
