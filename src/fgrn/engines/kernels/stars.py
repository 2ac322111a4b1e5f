"""Stars (one Diverter, its Sources and its observed leaves, such as LVM and naive Bayes): one pass over the rows."""

from __future__ import annotations

import numpy as np

from .arguments import StarTables, StarWork
from .basics import FAINT, LOG_TWO, ONE, ZERO, compact, inner, kernel, once
from .gathers import mend_star_products, shift_of, star_products
from .joint_rows import add_rows_of_code, projected, scattered
from .packing import add_packs, add_unknown, fill_packs, find_posterior, log_of_exponents
from .rounds import ENDS, GIVEN, GOES_ON, ORIGIN, begun_with, next_epoch, note_epoch
from .subnormals import restore_subnormals, subnormals_to_zero
from .teams import DONE, ENDED, IDLE_LOOKS, PUBLISHED, STAGE, add_at_once, claim, number_now, wait
from .updates import log_prior_of_lines, pieces_of_update, update_lines
from .vectors import copied, scaled, set_all


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
    mode = subnormals_to_zero()
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
    restore_subnormals(mode)
    return likelihood, product


@kernel
def star_block(total, known, tables, work, careful, weights, doubtful, counts):
    """Add the expected counts of packs in a block of rows of a star, in one pass in which no message is stored.

    A doubtful row adds nothing. Returns the log-likelihood of all rows without the exponents taken out of the joint
    tables (`unpacked` adds them), how many products were faint, and how many rows are doubtful.
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


JOIN, COUNT, ADD, UPDATE, VECTOR = range(5)
"""The stages of an epoch of a star: joint tables, by groups of packs; counts of packs, by blocks of rows; counts of
leaves, by groups of packs; updated parameters, by ranges of lines. After the last epoch: another vector of parameters.
"""


@inner
def count_star_block(block, order, known, weights, tables, work, counts):
    """Count the packs in a block of rows; returns its log-likelihood, and whether no product is faint.

    In pieces of rows whose products stay in the second-level cache: all are made, and then added code by code.
    """
    stride, norms = tables.stride, work.norms
    set_all(counts, ZERO, 0.0, np.uint64(len(counts)))
    likelihood, product = 0.0, 1.0
    for piece in range(order.blocks[block], order.blocks[block + 1]):
        first, offsets = order.begins[piece], order.offsets[piece]
        rows = order.begins[piece + 1] - first
        if not star_products(first, rows, known, tables, work):
            return 0.0, False
        for r in range(rows):
            weight = weights[first + r]
            scaled(work.products, np.uint64(r) * stride, weight / norms[r], stride)
            if weight == 1.0:
                product *= norms[r]
                if product < FAINT or product > 1.0 / FAINT:
                    likelihood += np.log(product)
                    product = 1.0
            elif weight != 0.0:
                likelihood += weight * np.log(norms[r])
        mode = subnormals_to_zero()
        for code in range(np.uint64(len(offsets) - 1)):
            if offsets[code] != offsets[code + ONE]:
                add_rows_of_code(
                    work.products, stride, order.rows, offsets[code], offsets[code + ONE], counts, code * stride
                )
        restore_subnormals(mode)
    return likelihood + np.log(product), True


@kernel
def star(task, room, scratch, requests, team, number):
    """Run epochs of EM on all rows of a star from each of several vectors of parameters, on the threads of a team.

    This is the thread with this number. If there is room for a vector on each thread, the threads share the vectors;
    else the one with the number 0 leads, from stage to stage of every epoch, and they share the pieces of these. The
    joint tables are made and the counts unpacked in the same room for every epoch. The epochs of a vector end before
    one in which a product of a row is faint, which only `star_block` can count, after one that has no update, and where
    `next_epoch` says so.
    """
    compact()
    packing, groups, maps, update = task.packing, task.groups, task.maps, task.update
    vectors, each = len(requests.values), len(room.joint) > 1
    most, kept = len(requests.likelihoods) // vectors, len(requests.counts) // vectors
    lines, updates, smoothed = len(update.lines) - 1, pieces_of_update(update.lines), len(update.smoothing) > 0
    size, stride = task.sizes
    r = number if each else 0
    work = StarWork(scratch.products[number], scratch.norms[number], scratch.taken[number])
    posteriors, likelihoods, exponents = room.posteriors[r], room.likelihoods[r], room.exponents[r]
    folded, priors, faults = scratch.folded[number], room.priors[r], room.faults[r]
    tables = StarTables(size, stride, False, room.base[r], room.joint[r], room.shifts[r])
    stage, origin, pieces, before, idle = VECTOR, GIVEN, 0, 0, 0
    vector, epoch = np.int64(-1), np.int64(0)  # with types: for a literal, what is called is compiled once more
    helps = shares = number > 0 and not each
    while True:
        if shares:
            piece = claim(team)
        else:
            piece = before if before < pieces else -1
            before += 1
        if piece >= 0:
            if shares:
                stage, vector, epoch, origin = team[STAGE], team[STAGE + 1], team[STAGE + 2], team[STAGE + 3]
                piece -= team[STAGE + 4]
            at, values = vector * kept + epoch % kept, begun_with(requests, vector, epoch, kept, origin)
            if stage == COUNT and not faults[0]:
                likelihoods[piece], counted = count_star_block(
                    piece, task.order, task.known, task.weights, tables, work, room.counts[r, piece]
                )
                if not counted:
                    faults[0] = 1
            elif stage == COUNT:
                pass  # for nothing: another block has a faint product
            elif stage == JOIN:
                fill_packs(
                    packing, groups[piece, 0], groups[piece + 1, 0], groups[piece, 1], values, maps, tables.joint,
                    tables.shifts, tables.base, scratch.columns[number], scratch.codes[number],
                )  # fmt: skip
            elif stage == ADD:
                add_packs(
                    packing, groups[piece, 0], groups[piece + 1, 0], groups[piece, 1], groups[piece, 2], room.counts[r],
                    posteriors, tables.shifts, values, task.expect, True, exponents, requests.counts[at], folded,
                )  # fmt: skip
            else:
                first, last = lines * piece // updates, lines * (piece + 1) // updates
                if smoothed:
                    priors[piece] = log_prior_of_lines(
                        update.lines, update.smoothing, update.learnt, first, last, values
                    )
                if not update_lines(
                    update.lines, update.smoothing, update.learnt, update.least, first, last, requests.counts[at],
                    values, requests.updated[at],
                ):  # fmt: skip
                    faults[1] = 1
            if shares:
                add_at_once(team, DONE, 1)
            idle = 0
            continue
        if helps:
            idle += 1
            if idle > IDLE_LOOKS or number_now(team, ENDED):
                return
            wait(idle)
            continue
        if shares and number_now(team, DONE) < number_now(team, PUBLISHED):
            idle += 1
            wait(idle)
            continue
        # the stage is over: this thread goes on to the next one
        at, place = vector * kept + epoch % kept, vector * most + epoch
        if stage == JOIN:
            stage, pieces = COUNT, len(likelihoods)
        elif stage == COUNT and faults[0]:
            stage = VECTOR
            faults[2] = 1
        elif stage == COUNT:
            set_all(requests.counts[at], ZERO, 0.0, np.uint64(requests.counts.shape[1]))
            find_posterior(packing.packs, room.counts[r], posteriors, folded)
            stage, pieces = ADD, len(groups) - 1
        elif stage == ADD:
            values = begun_with(requests, vector, epoch, kept, origin)
            add_unknown(packing.unknown, packing.sources, posteriors, values, maps, task.expect, requests.counts[at])
            likelihood = likelihoods[0]
            for block in range(1, len(likelihoods)):
                likelihood += likelihoods[block]
            requests.likelihoods[place] = likelihood + log_of_exponents(exponents)
            note_epoch(requests, vector, epoch)
            stage, pieces = UPDATE if updates else VECTOR, updates
        elif stage == UPDATE:
            stage, prior = VECTOR, 0.0
            if smoothed:
                for part in range(updates):
                    prior += priors[part]
            requests.priors[place] = prior
            if not faults[1]:
                follows = next_epoch(update, requests, vector, epoch, kept, requests.likelihoods[place] + prior)
                epoch += follows == GOES_ON
                if follows != ENDS:
                    stage, pieces, origin = JOIN, len(groups) - 1, requests.numbers[vector, ORIGIN]
        if stage == VECTOR:
            if each and vector >= 0:
                add_at_once(team, DONE, 1)
            vector = claim(team) if each else vector + 1
            if vector < 0 or vector >= vectors:
                break
            stage, epoch, pieces, origin = JOIN, 0, len(groups) - 1, GIVEN
            faults[0] = faults[1] = 0
        before, shares = 0, pieces > 1 and not each  # one piece alone is faster where its arrays are in the cache
        if shares:
            team[STAGE], team[STAGE + 1], team[STAGE + 2], team[STAGE + 3] = stage, vector, epoch, origin
            team[STAGE + 4] = number_now(team, PUBLISHED)
            add_at_once(team, PUBLISHED, pieces)
    if number == 0:
        while number_now(team, DONE) < number_now(team, PUBLISHED):
            idle += 1
            wait(idle)
        add_at_once(team, ENDED, 1)
