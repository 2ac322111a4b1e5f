"""Sources and SISO blocks: messages through a table, evidence at the ends of the graph, and expected counts."""

from __future__ import annotations

import numpy as np

from .basics import (
    NONE,
    ZERO,
    account,
    check,
    inner,
    into_reader,
    is_faint,
    is_known,
    normalise,
    note,
    settle_backward,
    through,
)
from .vectors import copied, dot, increased, set_all


@inner
def constant(tape, at, first, rows, width, values, write, known_out, scale, rest, margin, doubtful):
    """Write a forward message that is the same in every row: a prior, a factor, or uniform."""
    place, count, known, start, factor = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    for r in range(rows):
        known_out[r, known] = factor != ZERO
        target = np.uint64(r) * width + place
        if start == NONE:
            set_all(write, target, 1.0 / count, count)
            continue
        copied(values, start, write, target, count)
        if factor:
            norm = normalise(write, target, count)
            note(first + r, norm, is_faint(write, target, count), margin, doubtful)
            if tape[at + 5]:
                account(first + r, norm, scale, rest)


@inner
def boundary(tape, at, first, rows, width, codes, soft, write, known_out, margin, doubtful):
    """Write the backward message of a variable that no block reads: the evidence on it."""
    place, count, known, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    for r in range(rows):
        row = first + r
        known_out[r, known] = is_known(codes, row, column)
        target = np.uint64(r) * width + place
        norm = settle_backward(write, target, count, False, codes, soft, row, column, soft_at)
        note(row, norm, is_faint(write, target, count), margin, doubtful)


@inner
def siso_forward(
    tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale, rest,
    margin, doubtful, scratch,
):  # fmt: skip
    """Compute the forward message of a SISO, from input to output through its table."""
    source, n, target, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        into_reader(read, base + source, n, scratch, codes, soft, row, column, soft_at)
        through(values, transposed, table, n, m, scratch, ZERO, write, base + target)
        known_out[r, known_target] = known_in[r, known_source] or is_known(codes, row, column)
        norm = normalise(write, base + target, m)
        note(row, norm, is_faint(write, base + target, m), margin, doubtful)
        if inward:
            account(row, norm, scale, rest)


@inner
def siso_backward(
    tape, at, first, rows, width, values, transposed, codes, soft, read, write, known_in, known_out, scale, rest,
    margin, doubtful,
):  # fmt: skip
    """Compute the backward message of a SISO, from output to input through its table."""
    target, n, source, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = known_in[r, known_source]
        if known:
            through(transposed, values, table, m, n, read, base + source, write, base + target)
        known_out[r, known_target] = known or is_known(codes, row, column)
        norm = settle_backward(write, base + target, n, known, codes, soft, row, column, soft_at)
        note(row, norm, is_faint(write, base + target, n), margin, doubtful)
        if inward:
            account(row, norm, scale, rest)


@inner
def meet(tape, at, first, rows, width, read, known_in, scale, rest, margin, doubtful):
    """Compute the likelihood of a row at a root: the sum of forward times backward on one of its edges."""
    forward, backward, count, known = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if known_in[r, known]:
            base = np.uint64(r) * width
            norm = dot(read, base + forward, read, base + backward, count)
            note(first + r, norm, False, margin, doubtful)
            account(first + r, norm, scale, rest)


@inner
def joint_norm(tape, at, first, rows, width, values, codes, soft, work, margin, doubtful, scratch):
    """Compute the norm f @ table @ b of a SISO, with the evidence on its input."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7]
    for r in range(rows):
        base = np.uint64(r) * width
        into_reader(work, base + source, n, scratch, codes, soft, first + r, column, soft_at)
        total = 0.0
        for i in range(n):
            if scratch[i] != 0.0:
                total += scratch[i] * dot(values, table + i * m, work, base + output, m)
        work[base + norm] = total
        check(first + r, total, margin, doubtful)


@inner
def joint_add(tape, at, first, rows, width, codes, soft, work, known, weights, expect, scratch, inner_counts):
    """Add f b^T / norm of a SISO to its counts; the sum over rows is multiplied by the table at the end."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm, known_output = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7], tape[at + 8]
    for r in range(rows):
        weight = weights[r]
        if weight == 0.0 or not (expect or known[r, known_output]):
            continue
        base = np.uint64(r) * width
        back = base + output
        into_reader(work, base + source, n, scratch, codes, soft, first + r, column, soft_at)
        for i in range(n):
            share = weight / work[base + norm] * scratch[i]
            if share != 0.0:
                increased(inner_counts, table + i * m, share, work, back, m)


@inner
def lone_source(tape, at, rows, width, work, weights, inner_counts):
    """Add the marginal of the variable of a Source that is connected to no Diverter."""
    count, prior = tape[at + 2], tape[at + 3]
    for r in range(rows):
        if weights[r] != 0.0:
            base = np.uint64(r) * width
            forward, backward = base + tape[at], base + tape[at + 1]
            share = weights[r] / dot(work, forward, work, backward, count)
            for i in range(count):
                inner_counts[prior + i] += share * work[forward + i] * work[backward + i]
