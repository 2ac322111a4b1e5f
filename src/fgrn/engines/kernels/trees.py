"""Networks in general: tapes of messages and counts, run on blocks of rows that stay in the cache."""

from __future__ import annotations

import numpy as np

from .basics import (
    BACKWARD,
    BOUNDARY,
    CONSTANT,
    DIVERT,
    FORWARD,
    JOINT_ADD,
    JOINT_NORM,
    LEAVES,
    LONE_SOURCE,
    MEET,
    POSTERIOR,
    SCATTER,
    check,
    kernel,
    normalise,
    once,
)
from .gathers import leaves, scatter
from .products import divert, posterior_of
from .sisos import boundary, constant, joint_add, joint_norm, lone_source, meet, siso_backward, siso_forward
from .vectors import copied, times


@once
def sweep_block(
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
        sweep_block(
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
