"""Triton kernels for all cliques of a level at once: the elementwise parts of both sweeps, and the counts of leaves.

Imported only where Triton is; `sweeps` does the same with operations of PyTorch. One program has some rows and all
states of one clique; it reads each message once, and writes each result once. Nothing is added atomically, so that the
result is the same every time.
"""

# mypy: ignore-errors
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from .library import torch

if TYPE_CHECKING:
    from .layout import Group, LeafStack
    from .sweeps import Sweep

BYTES = 4096
"""Of the messages of one clique that one program of `_combine` and `_finish` has."""

MOST_STATES = 4096
"""Of a clique that one program can hold."""

WARPS = 4

TILE_FLOAT32, TILE_BFLOAT16 = (256, 128, 32, 8, 4), (256, 128, 64, 8, 3)
"""Of the products that count leaves: values, states, rows, warps, and stages of loading ahead."""


def fits(size: int) -> bool:
    """Return whether the kernels support cliques of this number of states."""
    return size <= MOST_STATES


@triton.jit
def _combine(
    up, message, leaf_logs, known, largest, doubt, codes,
    message_start, messages, leaf_start, leaf_begin, leaf_column, leaf_values,
    first, rows, faint, states: tl.constexpr, HAS_KNOWN: tl.constexpr, ROWS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(1)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    s = tl.arange(0, STATES)
    is_row = r < rows
    inside = is_row[:, None] & (s < states)[None, :]
    cell = r[:, None] * states + s[None, :]
    plane = rows.to(tl.int64) * states
    total = tl.zeros((ROWS, STATES), dtype=tl.float32)
    if HAS_KNOWN:
        total += tl.load(known + here * plane + cell, mask=inside, other=0.0)
    for leaf in range(tl.load(leaf_start + here), tl.load(leaf_start + here + 1)):
        values = tl.load(leaf_values + leaf)
        code = tl.load(codes + tl.load(leaf_column + leaf).to(tl.int64) * rows + r, mask=is_row, other=0).to(tl.int32)
        code = tl.where((code < 0) | (code >= values), values, code)
        place = tl.load(leaf_begin + leaf) + code[:, None] * states + s[None, :]
        total += tl.load(leaf_logs + place, mask=inside, other=0.0)
    doubtful = tl.zeros((ROWS,), dtype=tl.int32)
    for child in range(tl.load(message_start + here), tl.load(message_start + here + 1)):
        there = tl.load(messages + child).to(tl.int64) * plane
        said = tl.load(message + there + cell, mask=inside, other=0.0).to(tl.float32)
        small = tl.max(said, axis=1) < faint
        doubtful |= small.to(tl.int32)
        total += tl.log(tl.where(small[:, None], 1.0, said))
    total = tl.where(inside, total, float("-inf"))
    most = tl.max(total, axis=1)
    lost = most == float("-inf")
    most = tl.where(lost, 0.0, most)
    clique = (first + here).to(tl.int64)
    made = tl.exp(total - most[:, None])
    tl.store(up + clique * plane + cell, made.to(up.dtype.element_ty), mask=inside)
    tl.store(largest + clique * rows + r, most, mask=is_row)
    tl.store(doubt + clique * rows + r, (doubtful | lost.to(tl.int32)).to(tl.uint8), mask=is_row)


@triton.jit
def _finish(
    posterior, up, message, largest, doubt, weights, message_start, messages,
    first, rows, faint, states: tl.constexpr, IS_ROOT: tl.constexpr, ROWS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(1)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    s = tl.arange(0, STATES)
    is_row = r < rows
    inside = is_row[:, None] & (s < states)[None, :]
    cell = r[:, None] * states + s[None, :]
    plane = rows.to(tl.int64) * states
    clique = (first + here).to(tl.int64)
    weight = tl.load(weights + r, mask=is_row, other=0.0)
    product = tl.load(up + clique * plane + cell, mask=inside, other=0.0).to(tl.float32)
    doubtful = tl.zeros((ROWS,), dtype=tl.int32)
    if IS_ROOT:
        total = tl.sum(product, axis=1)
        seen = tl.load(largest + clique * rows + r, mask=is_row, other=0.0)
        tl.store(largest + clique * rows + r, seen + tl.log(tl.where(total > 0, total, 1.0)), mask=is_row)
    else:
        passed = tl.load(posterior + clique * plane + cell, mask=inside, other=0.0).to(tl.float32)
        product = product * passed
        total = tl.sum(product, axis=1)
        doubtful = ((total <= faint * tl.max(passed, axis=1)) & (weight != 0)).to(tl.int32)
    tl.store(doubt + clique * rows + r, doubtful.to(tl.uint8), mask=is_row)
    factor = tl.where(total > 0, weight / tl.where(total > 0, total, 1.0), 0.0)
    product = product * factor[:, None]
    tl.store(posterior + clique * plane + cell, product.to(posterior.dtype.element_ty), mask=inside)
    for child in range(tl.load(message_start + here), tl.load(message_start + here + 1)):
        there = message + tl.load(messages + child).to(tl.int64) * plane + cell
        said = tl.load(there, mask=inside, other=0.0).to(tl.float32)
        rest = tl.where(said > 0, product / tl.where(said > 0, said, 1.0), 0.0)
        tl.store(there, rest.to(message.dtype.element_ty), mask=inside)


@triton.jit
def _add_by_value(
    totals, posterior, codes, cliques, columns, rows, values, states,
    MISSING: tl.constexpr, EXACT: tl.constexpr, VALUES: tl.constexpr, STATES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    leaf = tl.program_id(0)
    v = tl.program_id(1) * VALUES + tl.arange(0, VALUES)
    s = tl.program_id(2) * STATES + tl.arange(0, STATES)
    begin = posterior + tl.load(cliques + leaf) * rows * states
    mine = codes + tl.load(columns + leaf) * rows
    added = tl.zeros((VALUES, STATES), dtype=tl.float32)
    missing = tl.zeros((STATES,), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        r = start + tl.arange(0, ROWS)
        code = tl.load(mine + r, mask=r < rows, other=0).to(tl.int32)
        inside = (r < rows)[:, None] & (s < states)[None, :]
        part = tl.load(begin + r[:, None] * states + s[None, :], mask=inside, other=0.0)
        one_hot = (v[:, None] == code[None, :]).to(part.dtype)
        added = tl.dot(one_hot, part, added, input_precision="tf32x3") if EXACT else tl.dot(one_hot, part, added)
        if MISSING:
            unknown = (code < 0) | (code >= values)
            missing += tl.sum(tl.where(unknown[:, None], part.to(tl.float32), 0.0), axis=0)
    out = totals + leaf.to(tl.int64) * (values + 1) * states
    place = v[:, None] * states + s[None, :]
    inside = (v < values)[:, None] & (s < states)[None, :]
    before = tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, before + added.to(tl.float64), mask=inside)
    if MISSING:
        last = (s < states) & (tl.program_id(1) == 0)
        before = tl.load(out + values * states + s, mask=last, other=0.0)
        tl.store(out + values * states + s, before + missing.to(tl.float64), mask=last)


def combine(sweep: Sweep, group: Group, known: Any) -> None:
    """See `Sweep._combine`."""
    size, lists = group.size, group.lists
    states, rows = _extent(size, sweep.precision.bytes_stored)
    message = sweep.message.get(size, sweep.up[size])
    _combine[(triton.cdiv(sweep.rows, rows), group.count)](
        sweep.up[size], message, sweep.tables.leaf_logs, sweep.up[size] if known is None else known,
        sweep.largest[size], sweep.doubt_up[size], sweep.block.codes,
        lists.message_start, lists.messages, lists.leaf_start, lists.leaf_begin, lists.leaf_column, lists.leaf_values,
        group.cliques.start, sweep.rows, sweep.precision.faint, states=size, HAS_KNOWN=known is not None, ROWS=rows,
        STATES=states, num_warps=WARPS,
    )  # fmt: skip


def finish(sweep: Sweep, group: Group) -> None:
    """See `Sweep._finish`."""
    size, lists = group.size, group.lists
    states, rows = _extent(size, sweep.precision.bytes_stored)
    message = sweep.message.get(size, sweep.up[size])
    _finish[(triton.cdiv(sweep.rows, rows), group.count)](
        sweep.posterior[size], sweep.up[size], message, sweep.largest[size], sweep.doubt_down[size], sweep.weights,
        lists.message_start, lists.messages, group.cliques.start, sweep.rows, sweep.precision.faint, states=size,
        IS_ROOT=group.stack is None, ROWS=rows, STATES=states, num_warps=WARPS,
    )  # fmt: skip


def add_by_value(sweep: Sweep, stack: LeafStack, totals: torch.Tensor) -> bool:
    """Add the posteriors of leaves by value; returns False if this kernel does not support them."""
    if not stack.is_known or not stack.spread.is_whole:
        return False
    tile = TILE_BFLOAT16 if sweep.precision.stored == torch.bfloat16 else TILE_FLOAT32
    most_values, most_states, rows, warps, stages = tile
    values = min(most_values, max(16, triton.next_power_of_2(stack.values)))
    states = min(most_states, max(16, triton.next_power_of_2(stack.states)))
    grid = (len(stack.leaves), triton.cdiv(stack.values, values), triton.cdiv(stack.states, states))
    _add_by_value[grid](
        totals, sweep.posterior[stack.size], sweep.block.codes, stack.cliques, stack.columns, sweep.rows,
        stack.values, stack.states, MISSING=not sweep.complete, EXACT=sweep.precision.name == "float32",
        VALUES=values, STATES=states, ROWS=rows, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return True


def _extent(size: int, bytes_stored: int) -> tuple[int, int]:
    """Return the numbers of states (a power of two) and of rows that one program works on."""
    states = triton.next_power_of_2(size)
    return states, max(1, BYTES // bytes_stored // states)
