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
def constant(tape, at, first, rows, tables, work, books):
    """Write a forward message that is the same in every row: a prior, a factor, or uniform."""
    place, count, known, start, factor = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    write = work.write
    for r in range(rows):
        work.known_out[r, known] = factor != ZERO
        target = np.uint64(r) * work.width + place
        if start == NONE:
            set_all(write, target, 1.0 / count, count)
            continue
        copied(tables.values, start, write, target, count)
        if factor:
            norm = normalise(write, target, count)
            note(first + r, norm, is_faint(write, target, count), books.margin, books.doubtful)
            if tape[at + 5]:
                account(first + r, norm, books.scale, books.rest)


@inner
def boundary(tape, at, first, rows, evidence, work, books):
    """Write the backward message of a variable that no block reads: the evidence on it."""
    place, count, known, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    codes, soft, write = evidence.codes, evidence.soft, work.write
    for r in range(rows):
        row = first + r
        work.known_out[r, known] = is_known(codes, row, column)
        target = np.uint64(r) * work.width + place
        norm = settle_backward(write, target, count, False, codes, soft, row, column, soft_at)
        note(row, norm, is_faint(write, target, count), books.margin, books.doubtful)


@inner
def siso_forward(tape, at, first, rows, tables, evidence, work, books):
    """Compute the forward message of a SISO, from input to output through its table."""
    source, n, target, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    codes, soft, write, scratch = evidence.codes, evidence.soft, work.write, work.scratch
    for r in range(rows):
        row, base = first + r, np.uint64(r) * work.width
        into_reader(work.read, base + source, n, scratch, codes, soft, row, column, soft_at)
        through(tables.values, tables.transposed, table, n, m, scratch, ZERO, write, base + target)
        work.known_out[r, known_target] = work.known_in[r, known_source] or is_known(codes, row, column)
        norm = normalise(write, base + target, m)
        note(row, norm, is_faint(write, base + target, m), books.margin, books.doubtful)
        if inward:
            account(row, norm, books.scale, books.rest)


@inner
def siso_backward(tape, at, first, rows, tables, evidence, work, books):
    """Compute the backward message of a SISO, from output to input through its table."""
    target, n, source, m, table = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], tape[at + 4]
    known_source, known_target = tape[at + 5], tape[at + 6]
    column, soft_at, inward = tape[at + 7], tape[at + 8], tape[at + 9]
    codes, soft, write = evidence.codes, evidence.soft, work.write
    for r in range(rows):
        row, base = first + r, np.uint64(r) * work.width
        known = work.known_in[r, known_source]
        if known:
            through(tables.transposed, tables.values, table, m, n, work.read, base + source, write, base + target)
        work.known_out[r, known_target] = known or is_known(codes, row, column)
        norm = settle_backward(write, base + target, n, known, codes, soft, row, column, soft_at)
        note(row, norm, is_faint(write, base + target, n), books.margin, books.doubtful)
        if inward:
            account(row, norm, books.scale, books.rest)


@inner
def meet(tape, at, first, rows, work, books):
    """Compute the likelihood of a row at a root: the sum of forward times backward on one of the root's edges."""
    forward, backward, count, known = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    for r in range(rows):
        if work.known_in[r, known]:
            base = np.uint64(r) * work.width
            norm = dot(work.read, base + forward, work.read, base + backward, count)
            note(first + r, norm, False, books.margin, books.doubtful)
            account(first + r, norm, books.scale, books.rest)


@inner
def joint_norm(tape, at, first, rows, tables, evidence, work, books):
    """Compute the norm f @ table @ b of a SISO, with the evidence on its input."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7]
    messages, scratch = work.write, work.scratch
    for r in range(rows):
        base = np.uint64(r) * work.width
        into_reader(messages, base + source, n, scratch, evidence.codes, evidence.soft, first + r, column, soft_at)
        total = 0.0
        for i in range(n):
            if scratch[i] != 0.0:
                total += scratch[i] * dot(tables.values, table + i * m, messages, base + output, m)
        messages[base + norm] = total
        check(first + r, total, books.margin, books.doubtful)


@inner
def joint_add(tape, at, first, rows, evidence, work, totals):
    """Add f b^T / norm of a SISO to its counts; the sum over rows is multiplied by the table at the end."""
    source, n, column, soft_at = tape[at], tape[at + 1], tape[at + 2], tape[at + 3]
    output, m, table, norm, known_output = tape[at + 4], tape[at + 5], tape[at + 6], tape[at + 7], tape[at + 8]
    messages, scratch = work.write, work.scratch
    for r in range(rows):
        weight = work.sure[r]
        if weight == 0.0 or not (totals.expect or work.known_out[r, known_output]):
            continue
        base = np.uint64(r) * work.width
        back = base + output
        into_reader(messages, base + source, n, scratch, evidence.codes, evidence.soft, first + r, column, soft_at)
        for i in range(n):
            share = weight / messages[base + norm] * scratch[i]
            if share != 0.0:
                increased(totals.inner, table + i * m, share, messages, back, m)


@inner
def lone_source(tape, at, rows, work, totals):
    """Add the marginal of the variable of a Source that is connected to no Diverter."""
    count, prior = tape[at + 2], tape[at + 3]
    messages = work.write
    for r in range(rows):
        if work.sure[r] != 0.0:
            base = np.uint64(r) * work.width
            forward, backward = base + tape[at], base + tape[at + 1]
            share = work.sure[r] / dot(messages, forward, messages, backward, count)
            for i in range(count):
                totals.inner[prior + i] += share * messages[forward + i] * messages[backward + i]
