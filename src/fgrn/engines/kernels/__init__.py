"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

Here are those that Python calls; what they are made of is in `basics`, `clusters`, `gathers`, `products`, `sisos`, and
in LLVM's words in `vectors` and `llvm`. `cache` keeps them on disk. No other place imports numba.

Kernels release the GIL. None is compiled with `parallel`: threads are the flow's, which adds counts in the order of the
rows. Nor with `fastmath`: sums are free to change their order in `vectors`, and nothing else is.

Places and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat: a row is a place in them, not a view. `NONE`
stands where there is nothing.

Arrays, by the names all kernels use:
    tape                   the records; `at` is where the operands of the current one begin
    values, transposed     parameters in the plan's layout, and products of factors behind them (see `tape`); the same
                           with every table transposed
    codes, soft            evidence, see `fgrn.flow.evidence`
    entries, bounds        what is known of gathered leaves, see `packs.Known`
    joint, shifts, deep    their joint tables, see `packs.Joint`
    read, write            workspaces, flat, `width` to a row: messages read and written; the same one in sweeps
    known_in, known_out    (rows, known width): whether evidence lies behind a message
    scale, rest            (rows,): the likelihood so far is exp(scale) * rest
    margin, doubtful       (rows,): how far a state that was lost is from what is left; rows for the fallback
"""

from __future__ import annotations

import numpy as np

from .basics import (
    BACKWARD,
    BOUNDARY,
    CONSTANT,
    DIVERT,
    FAINT,
    FORWARD,
    JOINT_ADD,
    JOINT_NORM,
    LEAVES,
    LOG_TWO,
    LONE_SOURCE,
    LOST,
    MEET,
    POSTERIOR,
    SCATTER,
    ZERO,
    check,
    kernel,
    normalise,
    once,
)
from .clusters import wide_boundary, wide_divert, wide_posterior, wide_scatter
from .gathers import leaves, scatter, shift_of, star_products
from .products import divert, posterior_of
from .sisos import boundary, constant, joint_add, joint_norm, lone_source, meet, siso_backward, siso_forward
from .vectors import copied, crossed, dot, filled, increased, multiplied, projected, scaled, scattered, summed, times


@once
def sweep(
    tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft, read, write,
    known_in, known_out, scale, rest, margin, doubtful, mantissa, exponent, scratch,
):  # fmt: skip
    """Run a tape of messages on rows `first` to `first + rows`, which are the first rows of the workspaces."""
    at = np.int64(0)
    while at < len(tape):
        operation, length = tape[at], np.int64(tape[at + 1])
        at += 2
        if operation == CONSTANT:
            constant(tape, at, first, rows, width, values, write, known_out, scale, rest, margin, doubtful)
        elif operation == BOUNDARY:
            boundary(tape, at, first, rows, width, codes, soft, write, known_out, margin, doubtful)
        elif operation == FORWARD:
            siso_forward(
                tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful, scratch,
            )  # fmt: skip
        elif operation == BACKWARD:
            siso_backward(
                tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful,
            )  # fmt: skip
        elif operation == LEAVES:
            leaves(
                tape, at, first, rows, width, deep, joint, shifts, entries, bounds, write, known_out, scale, margin,
                doubtful, mantissa, exponent, scratch,
            )  # fmt: skip
        elif operation == DIVERT:
            divert(
                tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale,
                rest, margin, doubtful, mantissa, exponent, scratch,
            )  # fmt: skip
        elif operation == MEET:
            meet(tape, at, first, rows, width, read, known_in, scale, rest, margin, doubtful)
        at += length


@once
def show(
    places, first, rows, width, work, known, margin, doubtful, out_width, forward, backward, marginal, edges,
    known_forward, known_backward,
):  # fmt: skip
    """Copy out what is shown, and make marginals; `places` has (forward, backward, target, count) for each edge."""
    for r in range(rows):
        base, out_base = np.uint64(r) * width, np.uint64(first + r) * out_width
        for k in range(len(places)):
            target, count = out_base + places[k, 2], places[k, 3]
            copied(work, base + places[k, 0], forward, target, count)
            copied(work, base + places[k, 1], backward, target, count)
            copied(forward, target, marginal, target, count)
            times(marginal, target, backward, target, count)
            check(first + r, normalise(marginal, target, count), margin, doubtful)
        for edge in range(edges):
            known_forward[first + r, edge] = known[r, edge]
            known_backward[first + r, edge] = known[r, edges + edge]


@kernel
def tree(
    sweep_tape, count_tape, places, total, block, width, deep, values, transposed, joint, shifts, entries, bounds,
    maps, codes, soft, read, write, known_in, known_out, scale, rest, margin, doubtful, mantissa, exponent, scratch,
    out_width, forward, backward, marginal, edges, known_forward, known_backward, sure, weights, expect, joint_counts,
    posteriors, inner_counts,
):  # fmt: skip
    """Run the tapes on all rows, in blocks that stay in the cache: messages that are shown, or expected counts.

    One kernel for all that is not a star, since every other one would compile the sweeps again. What can vanish is
    computed before anything is added, so that a doubtful row adds nothing.
    """
    for first in range(0, total, block):
        rows = min(block, total - first)
        sweep(
            sweep_tape, first, rows, width, deep, values, transposed, joint, shifts, entries, bounds, maps, codes, soft,
            read, write, known_in, known_out, scale, rest, margin, doubtful, mantissa, exponent, scratch,
        )  # fmt: skip
        if len(places):
            show(
                places, first, rows, width, write, known_out, margin, doubtful, out_width, forward, backward, marginal,
                edges, known_forward, known_backward,
            )  # fmt: skip
        for stage in range(0 if not len(count_tape) else 2 if len(weights) else 1):
            if stage == 1:
                for r in range(rows):
                    sure[r] = 0.0 if doubtful[first + r] else weights[first + r]
            at = np.int64(0)
            while at < len(count_tape):
                operation, length = count_tape[at], np.int64(count_tape[at + 1])
                at += 2
                if stage == 0:
                    if operation == POSTERIOR:
                        posterior_of(
                            count_tape, at, first, rows, width, values, maps, codes, soft, write, known_out, scale,
                            rest, margin, doubtful, mantissa, exponent, scratch, out_width, marginal,
                        )  # fmt: skip
                    elif operation == JOINT_NORM:
                        joint_norm(
                            count_tape, at, first, rows, width, values, codes, soft, write, margin, doubtful, scratch
                        )
                elif operation == SCATTER:
                    scatter(
                        count_tape, at, first, rows, width, entries, bounds, write, sure, joint_counts, posteriors,
                        scratch,
                    )  # fmt: skip
                elif operation == JOINT_ADD:
                    joint_add(
                        count_tape, at, first, rows, width, codes, soft, write, known_out, sure, expect, scratch,
                        inner_counts,
                    )  # fmt: skip
                elif operation == LONE_SOURCE:
                    lone_source(count_tape, at, rows, width, write, sure, inner_counts)
                at += length


@kernel
def clusters(
    sweep_tape, count_tape, total, lanes, values, maps, codes, soft, work, known, least, scale, rest, doubtful, x,
    norms, bounds, out_width, marginal, weights, sure, posteriors,
):  # fmt: skip
    """Run the tapes of a tree of clusters on all rows, so many at a time, side by side; a doubtful row adds nothing."""
    for first in range(0, total, np.int64(lanes)):
        rows = min(np.int64(lanes), total - first)
        at = np.int64(0)
        while at < len(sweep_tape):
            operation, length = sweep_tape[at], np.int64(sweep_tape[at + 1])
            at += 2
            if operation == BOUNDARY:
                wide_boundary(sweep_tape, at, first, rows, lanes, codes, soft, work, known, least)
            elif operation == DIVERT:
                wide_divert(
                    sweep_tape, at, first, rows, lanes, values, maps, work, known, least, scale, rest, doubtful, x,
                    norms, bounds,
                )  # fmt: skip
            at += length
        for stage in range(2 if len(weights) else 1):
            if stage == 1:
                filled(sure, ZERO, 0.0, lanes)
                for r in range(rows):
                    sure[r] = 0.0 if doubtful[first + r] else weights[first + r]
            at = np.int64(0)
            while at < len(count_tape):
                operation, length = count_tape[at], np.int64(count_tape[at + 1])
                at += 2
                if stage == 0 and operation == POSTERIOR:
                    wide_posterior(
                        count_tape, at, first, rows, lanes, values, maps, work, known, scale, rest, doubtful, x, norms,
                        out_width, marginal,
                    )  # fmt: skip
                elif stage == 1 and operation == SCATTER:
                    wide_scatter(count_tape, at, lanes, work, sure, posteriors)
                at += length


@kernel
def recount(
    sisos, sources, rows, width, transposed, into, back, belief, known, weights, expect, doubtful, norms, cells, x
):
    """Expected counts from messages that are held; see `cycles`. A doubtful row adds nothing.

    What is added for a SISO is f b^T / norm, transposed, which meets the table when all rows are in.
    """
    for r in range(rows):
        if weights[r] == 0.0 or doubtful[r]:
            continue
        base = np.uint64(r) * width
        for k in range(len(sisos)):
            source, n, output, m, table = sisos[k, 0], sisos[k, 1], sisos[k, 2], sisos[k, 3], sisos[k, 4]
            filled(x, ZERO, 0.0, n)
            for j in range(m):
                value = back[base + output + j]
                if value != 0.0:
                    increased(x, ZERO, value, transposed, table + j * n, n)
            norms[r, k] = dot(into, base + source, x, ZERO, n)
            if norms[r, k] < LOST:
                doubtful[r] = True
                break
        if doubtful[r]:
            continue
        for k in range(len(sisos)):
            if not (expect or known[r, sisos[k, 5]]):
                continue
            source, n, output, m, table = sisos[k, 0], sisos[k, 1], sisos[k, 2], sisos[k, 3], sisos[k, 4]
            share = weights[r] / norms[r, k]
            for j in range(m):
                value = back[base + output + j]
                if value != 0.0:
                    increased(cells, table + j * n, share * value, into, base + source, n)
        for k in range(len(sources)):
            increased(cells, sources[k, 2], weights[r], belief, base + sources[k, 0], sources[k, 1])


@kernel
def pack(codes, first, rows, packs, leaves, work, entries, ends, before):
    """Write the entry of each row in each pack of which it knows something, and where its entries end.

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


@kernel
def star_messages(
    total, block, size, stride, deep, base, joint, entries, bounds, codes, soft, mantissa, exponent, p, norms, taken,
    shifts, columns, states, scale, rest, doubtful, out,
):  # fmt: skip
    """The message on one leg of a star, or that behind its table (if `states` is not 0), normalised, for all rows.

    `columns` are those of the table, each as long as a row of a joint table. Without room in `scale` the likelihood is
    not asked for.
    """
    for first in range(0, total, block):
        rows = min(block, total - first)
        star_products(
            first, rows, size, stride, deep, base, joint, entries, bounds, codes, soft, mantissa, exponent, p, norms,
            taken,
        )  # fmt: skip
        for r in range(rows):
            row, norm, at = first + r, norms[r], np.uint64(r) * stride
            count = size if states == ZERO else states
            if norm == 0.0:
                doubtful[row] = True
                if len(scale):
                    scale[row] = 0.0
                filled(out, np.uint64(row) * count, 0.0, count)
                continue
            if len(scale):
                shift = shift_of(shifts, ZERO, entries, bounds[0, row], bounds[0, row + 1])
                scale[row] = taken[r] + shift * LOG_TWO
                rest[row] = norm
            place, share = np.uint64(row) * count, 1.0 / norm
            if states == ZERO:
                copied(p, at, out, place, size)
                scaled(out, place, share, size)
            for j in range(states):
                out[place + j] = share * projected(p, at, columns, j * stride, stride)


@kernel
def star(
    total, block, size, stride, deep, base, joint, entries, bounds, codes, soft, mantissa, exponent, p, norms, taken,
    weights, doubtful, joint_counts,
):  # fmt: skip
    """Expected counts where one Diverter with its Sources and leaves is everything: one pass, nothing kept.

    `base` is the product of the priors. `codes` and `soft` are the evidence on the hidden variable, if there is any. A
    doubtful row adds nothing. Returns the log-likelihood of all rows together, but for what was taken out of the rows
    of the joint tables: their counts tell how often. Rows of weight 1 are multiplied up, with a logarithm now and then.
    """
    likelihood, product = 0.0, 1.0
    for first in range(0, total, block):
        rows = min(block, total - first)
        star_products(
            first, rows, size, stride, deep, base, joint, entries, bounds, codes, soft, mantissa, exponent, p, norms,
            taken,
        )  # fmt: skip
        for r in range(rows):
            row, norm, weight, at = first + r, norms[r], weights[first + r], np.uint64(r) * stride
            if weight == 0.0:
                continue
            if norm == 0.0:
                doubtful[row] = True
                continue
            if weight == 1.0:
                likelihood += taken[r]
                product *= norm
                if product < FAINT or product > 1.0 / FAINT:
                    likelihood += np.log(product)
                    product = 1.0
            else:
                likelihood += weight * (np.log(norm) + taken[r])
            factor = weight / norm
            scattered(p, at, factor, joint_counts, ZERO, stride, entries, bounds[0, row], bounds[0, row + 1])
    return likelihood + np.log(product)


@kernel
def scan(
    rows, states, prior, table, transposed, local, begins, weights, past, future, around, norms, first, steps, here,
    ahead,
):  # fmt: skip
    """Along sequences of rows, to and fro; see `Scan`. What follows an impossible row, of norm 0, is not looked at.

    What is handed on from row to row is not normalised, which would take longer than all the rest, but kept in bounds.
    """
    before = 1.0  # the sum of what was handed on
    ended, whole = False, True
    for r in range(rows):
        place = np.uint64(r) * states
        if begins[r]:
            copied(prior, ZERO, here, ZERO, states)
            before = 1.0
            ended = False
        elif ended:
            norms[r] = 1.0
            continue
        else:
            multiplied(ahead, ZERO, states, table, ZERO, states, here, ZERO)
        copied(here, ZERO, past, place, states)
        scaled(past, place, 1.0 / before, states)
        copied(here, ZERO, ahead, ZERO, states)
        times(ahead, ZERO, local, place, states)
        total = summed(ahead, ZERO, states)
        norms[r] = total / before
        before = total
        if total < LOST:
            norms[r] = 0.0
            ended, whole = True, False
        elif total < FAINT:
            scaled(ahead, ZERO, 1.0 / total, states)
            before = 1.0
    if not whole:
        return
    for r in range(rows - 1, -1, -1):
        place = np.uint64(r) * states
        if r == rows - 1 or begins[r + 1]:
            filled(future, place, 1.0, states)
        else:
            copied(local, place + states, ahead, ZERO, states)
            times(ahead, ZERO, future, place + states, states)
            total = summed(ahead, ZERO, states)
            if total < FAINT or total > 1.0 / FAINT:
                scaled(ahead, ZERO, 1.0 / total, states)
            multiplied(ahead, ZERO, states, transposed, ZERO, states, future, place)
            copied(past, place, here, ZERO, states)
            times(here, ZERO, local, place, states)
            share = weights[r] / dot(here, ZERO, future, place, states)
            crossed(steps, share, here, ZERO, states, ahead, ZERO, states)
        copied(past, place, around, place, states)
        times(around, place, future, place, states)
        normalise(around, place, states)
        if begins[r]:
            copied(around, place, here, ZERO, states)
            times(here, ZERO, local, place, states)
            normalise(here, ZERO, states)
            increased(first, ZERO, weights[r], here, ZERO, states)
