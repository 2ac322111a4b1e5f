"""Expected counts of a star (one Diverter, its Sources and leaves) under one vector of parameters, or several at once.

Where all rows are one block, a call of the kernel makes the joint tables, counts the rows and unpacks the counts; given
several vectors of parameters, as by random starts that learn together, threads share these. Each vector has the same
counts, to the last bit, whichever others it is counted with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kernels
from .kernels.arguments import StarRoom, StarWork
from .kernels.basics import code_for
from .packs import Joint, PackPlan, aligned_empty, aligned_zeros, padded
from .protocol import RowCounts
from .row_blocks import blocks_of_rows, in_order

if TYPE_CHECKING:
    from .cpu import Prepared

STAR_BYTES = 2**13
"""Of the products of one block of rows of a star: they stay in the first-level cache until they are scattered."""

SHARED_WORK = 2**19
"""States visited in all, below which one thread is done about as soon: waking another and waiting for it takes 0.1 ms.

Ten starts of 100 epochs with 10 columns and 10 states, two threads beside one: 1.15 times as long with 300 rows, 0.97
with 1,000, 0.74 with 3,000, 0.65 with 10,000 and 0.54 with 30,000. Threads with a group of starts each, which never
wait for each other but for the interpreter's lock, took as long as one up to 10,000 rows, without smoothing.
"""

NOTHING, NO_NUMBERS, NO_ROWS = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.intp)


def star_work(stride: int) -> StarWork:
    """Make scratch arrays for the products of some rows."""
    block = max(1, STAR_BYTES // (8 * stride))
    careful = np.empty(stride), np.empty(stride, dtype=np.int64)
    return StarWork(aligned_zeros(block * stride), np.empty(block), np.empty(block), *careful)


def star_room(plan: PackPlan, cells: int, posteriors: int, rows: int) -> StarRoom:
    """Make room for joint tables of so many cells, and for the counts of so many rows."""
    return StarRoom(
        aligned_empty(cells), np.empty(plan.shifts, dtype=np.int64), np.empty(plan.base), np.empty(1),
        np.empty(plan.columns), np.empty(plan.codes, dtype=np.int64), np.empty(plan.folded), aligned_zeros(cells),
        np.zeros(padded(posteriors)), np.zeros(rows, dtype=np.bool_),
    )  # fmt: skip


def counts_of_each(mine: Prepared, values: Sequence[np.ndarray], expect: bool) -> list[RowCounts | None]:
    """Return the expected counts of all rows, one block, under each vector of parameters; None where rows are doubtful.

    Threads share the vectors, if these are several and there is enough to do.
    """
    every = np.array(values, dtype=np.float64)
    counts, likelihoods = np.zeros((len(every), mine.plan.layout.size)), np.empty(len(every))
    known, weights = mine.star_rows(mine.blocks[0]), mine.weights_of(mine.blocks[0])

    def work(some: slice | None = None) -> None:
        room, work = mine.star_room()
        outcome = (every, counts, likelihoods) if some is None else (every[some], counts[some], likelihoods[some])
        arguments = (
            len(weights), known, mine.packing.packing, mine.maps, mine.star_sizes, room, work, weights, expect, True,
            *outcome,
        )  # fmt: skip
        _star_code(arguments)(*arguments)
        mine.star_rooms.append((room, work))

    if len(every) == 1:
        work()
    else:
        threads = mine.threads_of_each(len(every))
        for _ in in_order(threads, work, blocks_of_rows(len(every), -(-len(every) // threads))):
            pass
    return [
        None if isnan(likelihood) else RowCounts(found, likelihood, NO_ROWS)
        for found, likelihood in zip(counts, likelihoods.tolist(), strict=True)
    ]


STAR_CODE: dict[np.dtype, Callable[..., Any]] = {}
"""The machine code of the kernel for each type of the entries of packs: all other arrays are always of one type."""


def _star_code(arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of the kernel for arguments as `counts_of_each` makes them."""
    kind = arguments[1].entries.dtype
    code = STAR_CODE.get(kind)
    if code is None:
        code = STAR_CODE[kind] = code_for(kernels.star, arguments)
    return code


def counts_of_block(
    mine: Prepared, rows: slice, values: np.ndarray, tables: Joint, expect: bool, joint: np.ndarray
) -> tuple[float, np.ndarray]:
    """Add the counts of packs in a block of rows to `joint`; returns its log-likelihood, and the doubtful rows."""
    weights = mine.weights_of(rows)
    doubtful, depth, likelihood = np.zeros(len(weights), dtype=np.bool_), np.zeros(1), np.empty(1)
    depth[0] = np.inf if tables.deep else 0.0
    room = StarRoom(
        tables.tables, tables.shifts, tables.base, depth, NOTHING, NO_NUMBERS, NOTHING, joint, NOTHING, doubtful
    )
    work = mine.star_work()
    found = kernels.star(
        len(weights), mine.star_rows(rows), mine.packing.packing, mine.maps, mine.star_sizes, room, work, weights,
        expect, False, values[None], np.zeros((1, 0)), likelihood,
    )  # fmt: skip
    mine.done_with(work)
    return float(likelihood[0]), np.flatnonzero(doubtful) if found else NO_ROWS
