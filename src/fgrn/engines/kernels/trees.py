"""Networks in general: tapes of messages and counts, run on blocks of rows that stay in the processor's cache."""

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
def sweep_block(tape, first, rows, tables, evidence, work, books):
    """Run a tape of messages on rows `first` to `first + rows`, which are the first rows of the workspaces."""
    at = np.int64(0)
    while at < len(tape):
        operation, length = tape[at], np.int64(tape[at + 1])
        at += 2
        if operation == CONSTANT:
            constant(tape, at, first, rows, tables, work, books)
        elif operation == BOUNDARY:
            boundary(tape, at, first, rows, evidence, work, books)
        elif operation == FORWARD:
            siso_forward(tape, at, first, rows, tables, evidence, work, books)
        elif operation == BACKWARD:
            siso_backward(tape, at, first, rows, tables, evidence, work, books)
        elif operation == LEAVES:
            leaves(tape, at, first, rows, tables, evidence, work, books)
        elif operation == DIVERT:
            divert(tape, at, first, rows, tables, evidence, work, books)
        elif operation == MEET:
            meet(tape, at, first, rows, work, books)
        at += length


@once
def show(places, first, rows, work, books, shown):
    """Copy the shown messages, and compute marginals; `places` has (forward, backward, target, count) per edge."""
    forward, backward, marginal, edges = shown.forward, shown.backward, shown.marginal, shown.edges
    for r in range(rows):
        base, out_base = np.uint64(r) * work.width, np.uint64(first + r) * shown.width
        for k in range(len(places)):
            target, count = out_base + places[k, 2], places[k, 3]
            copied(work.write, base + places[k, 0], forward, target, count)
            copied(work.write, base + places[k, 1], backward, target, count)
            copied(forward, target, marginal, target, count)
            times(marginal, target, backward, target, count)
            check(first + r, normalise(marginal, target, count), books.margin, books.doubtful)
        for edge in range(edges):
            shown.known_forward[first + r, edge] = work.known_out[r, edge]
            shown.known_backward[first + r, edge] = work.known_out[r, edges + edge]


@once
def count_block(tape, first, rows, tables, evidence, work, books, out_width, marginal, totals):
    """Run a tape of posteriors and counts on rows whose messages are in the workspaces.

    What may underflow is computed before anything is added, so that a doubtful row adds nothing.
    """
    sure, doubtful = work.sure, books.doubtful
    for stage in range(2 if len(totals.weights) else 1):
        if stage == 1:
            for r in range(rows):
                sure[r] = 0.0 if doubtful[first + r] else totals.weights[first + r]
        at = np.int64(0)
        while at < len(tape):
            operation, length = tape[at], np.int64(tape[at + 1])
            at += 2
            if stage == 0:
                if operation == POSTERIOR:
                    posterior_of(tape, at, first, rows, tables, evidence, work, books, out_width, marginal)
                elif operation == JOINT_NORM:
                    joint_norm(tape, at, first, rows, tables, evidence, work, books)
            elif operation == SCATTER:
                scatter(tape, at, first, rows, evidence, work, totals)
            elif operation == JOINT_ADD:
                joint_add(tape, at, first, rows, evidence, work, totals)
            elif operation == LONE_SOURCE:
                lone_source(tape, at, rows, work, totals)
            at += length


@kernel
def tree(tapes, total, block, tables, evidence, work, books, shown, totals):
    """Run the tapes on all rows, in blocks that stay in the cache, for shown messages or for expected counts.

    One kernel for everything that is not a star, since a second one would compile the sweeps again.
    """
    for first in range(0, total, block):
        rows = block if first + block < total else total - first
        sweep_block(tapes.sweep, first, rows, tables, evidence, work, books)
        if len(tapes.places):
            show(tapes.places, first, rows, work, books, shown)
        if len(tapes.counting):
            count_block(tapes.counting, first, rows, tables, evidence, work, books, shown.width, shown.marginal, totals)
