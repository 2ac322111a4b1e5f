"""Expected counts of a star (one Diverter, its Sources and leaves) under one vector of parameters, or several at once.

Where all rows are one block, a call of the kernel makes the joint tables, counts the rows, unpacks the counts and
updates the parameters, for some epochs in a row: with few rows this takes less time than a call from Python. Given
several vectors of parameters, as by random starts that learn together, it does so for one after the other. Each has
the same counts, to the last bit, whichever others it is counted with and however many epochs a call runs.

That kernel leaves alone what hardly any table needs: rows so improbable that their product may underflow. Under
parameters that have such a row another kernel counts, block by block, given the joint tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kernels
from .kernels.arguments import CarefulProduct, StarEpochs, StarRoom, StarRows, StarTables, StarWork
from .kernels.basics import code_for
from .packs import PackPlan, aligned_empty, aligned_zeros, no_packs, padded
from .protocol import EpochCounts, EpochRequest, MStep, RowCounts

if TYPE_CHECKING:
    from .cpu import Prepared

STAR_BYTES = 2**13
"""Of the products of one block of rows of a star: they stay in the first-level cache until they are scattered."""

EPOCHS_AHEAD, WORK_AHEAD, CELLS_AHEAD = 16, 2**20, 2**20
"""What a call runs ahead for each vector of parameters, at most: epochs, and states visited in these (about a
millisecond); and cells of the counts of all vectors and epochs, 8 MiB.
"""

NOTHING, NO_ROWS = np.zeros(0), np.zeros(0, dtype=np.intp)
NO_UPDATE = MStep(NOTHING, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_), 0.0)


def star_work(stride: int) -> StarWork:
    """Make scratch arrays for the products of some rows."""
    block = max(1, STAR_BYTES // (8 * stride))
    return StarWork(aligned_zeros(block * stride), np.empty(block), np.empty(block))


def careful_product(stride: int) -> CarefulProduct:
    """Make scratch arrays for the product of one row that may underflow."""
    return CarefulProduct(np.empty(stride), np.empty(stride, dtype=np.int64))


def star_room(plan: PackPlan, cells: int, posteriors: int) -> StarRoom:
    """Make room for joint tables of so many cells, and for the counts under them."""
    return StarRoom(
        aligned_empty(cells), np.empty(plan.shifts, dtype=np.int64), np.empty(plan.base), np.empty(plan.columns),
        np.empty(plan.codes, dtype=np.int64), np.empty(plan.folded), aligned_zeros(cells), np.zeros(padded(posteriors)),
    )  # fmt: skip


def epochs_of_each(
    mine: Prepared, requests: Sequence[EpochRequest], expect: bool, mstep: MStep | None
) -> list[list[EpochCounts]]:
    """Run epochs on all rows, one block, from each vector of parameters; none where a product may underflow."""
    if mine.has_faint_rows:
        return [[] for _ in requests]
    known, weights = mine.star_rows(mine.blocks[0]), mine.weights_of(mine.blocks[0])
    count, cells = len(requests), mine.plan.layout.size
    most = 1 if mstep is None else epochs_at_most(mine, known, count)
    room, work, kept = mine.star_room()
    updated = 0 if mstep is None else cells
    if len(kept.values) < count or len(kept.counts) != most * len(kept.values) or kept.updated.shape[1] != updated:
        kept = star_epochs(count, most, cells, updated)
    epochs = StarEpochs(*(array[: count * (len(array) // len(kept.values))] for array in kept))
    for vector, one in enumerate(requests):
        epochs.values[vector] = one.values
        epochs.limits[vector] = one.least, one.gain
        epochs.numbers[vector] = min(one.epochs, most), 0, 0
    arguments = (
        len(weights), known, mine.packing.packing, mine.maps, mine.star_sizes, room, work, weights, expect,
        NO_UPDATE if mstep is None else mstep, epochs,
    )  # fmt: skip
    mine.has_faint_rows = not _star_code(arguments)(*arguments)
    found = [_epochs_from(one.values, epochs, vector, vector * most) for vector, one in enumerate(requests)]
    mine.star_rooms.append((room, work, kept))
    return found


def star_epochs(vectors: int, epochs: int, cells: int, updated: int) -> StarEpochs:
    """Make room for some epochs of each of several vectors of so many cells, and for so many updated cells."""
    rows = vectors * epochs
    return StarEpochs(
        np.empty((vectors, cells)), np.empty((vectors, 2)), np.empty((vectors, 3), dtype=np.int64),
        np.empty((rows, cells)), np.empty(rows), np.empty((rows, updated)),
    )  # fmt: skip


def _epochs_from(values: np.ndarray, found: StarEpochs, vector: int, first: int) -> list[EpochCounts]:
    """Return the epochs that the kernel ran from one of several vectors of parameters, in arrays of their own.

    `first` is the row of the first of them.
    """
    _, counted, updates = found.numbers[vector].tolist()
    epochs = []
    for row, likelihood in enumerate(found.likelihoods[first : first + counted].tolist(), first):
        updated = None
        if row < first + updates:
            updated = found.updated[row].copy()
            updated.setflags(write=False)  # so that it is not copied again
        epochs.append(EpochCounts(values, RowCounts(found.counts[row].copy(), likelihood, NO_ROWS), updated))
        values = values if updated is None else updated
    return epochs


def epochs_at_most(mine: Prepared, known: StarRows, vectors: int) -> int:
    """Return the number of epochs that a call runs from each of so many vectors of parameters, at most."""
    visited = len(known.entries) * mine.tape.regions[0].stride  # states, in an epoch
    cells = CELLS_AHEAD // (vectors * max(1, mine.plan.layout.size))
    return max(1, min(EPOCHS_AHEAD, WORK_AHEAD // max(1, visited), cells))


def compile_star() -> None:
    """Compile the kernel that runs epochs, or load it, for entries of the usual type and without any rows."""
    rows = StarRows(
        np.zeros(0, dtype=np.uint16), np.zeros((1, 1), dtype=np.uint64), np.zeros(0, dtype=np.int32), NOTHING
    )
    plan = PackPlan(no_packs(), 0, 0, 0, 0, 0)
    size = np.uint64(0)
    _star_code((
        0, rows, plan.packing, np.zeros(0, dtype=np.uint64), (size, size), star_room(plan, 0, 0), star_work(1), NOTHING,
        True, NO_UPDATE, star_epochs(1, 1, 0, 0),
    ))  # fmt: skip


STAR_CODE: dict[np.dtype, Callable[..., Any]] = {}
"""The machine code of the kernel for each type of the entries of packs: all other arrays are always of one type."""


def _star_code(arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of the kernel for arguments as `epochs_of_each` makes them."""
    kind = arguments[1].entries.dtype
    code = STAR_CODE.get(kind)
    if code is None:
        code = STAR_CODE[kind] = code_for(kernels.star, arguments)
    return code


def counts_of_block(mine: Prepared, rows: slice, tables: StarTables, counts: np.ndarray) -> tuple[float, np.ndarray]:
    """Add the counts of packs in a block of rows to `counts`; returns its log-likelihood, and the doubtful rows."""
    weights = mine.weights_of(rows)
    doubtful = np.zeros(len(weights), dtype=np.bool_)
    work, careful = mine.star_work()
    likelihood, faint, found = kernels.star_block(
        len(weights), mine.star_rows(rows), tables, work, careful, weights, doubtful, counts
    )
    mine.has_faint_rows = faint > 0
    mine.done_with(work, careful)
    return likelihood, np.flatnonzero(doubtful) if found else NO_ROWS
