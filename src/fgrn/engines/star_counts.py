"""Expected counts of a star (one Diverter, its Sources and leaves) under one vector of parameters, or several at once.

Where all rows are one block, a call of the kernel makes the joint tables, counts the rows, unpacks the counts and
updates the parameters, for some epochs in a row: with few rows this takes less time than a call from Python. Given
several vectors of parameters, as by random starts that learn together, it does so for one after the other. Each has
the same counts, to the last bit, whichever others it is counted with and however many epochs a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kernels
from .kernels.arguments import StarEpochs, StarRoom, StarWork
from .kernels.basics import code_for
from .packs import Joint, PackPlan, aligned_empty, aligned_zeros, padded
from .protocol import Asked, EpochCounts, MStep, RowCounts

if TYPE_CHECKING:
    from .cpu import Prepared

STAR_BYTES = 2**13
"""Of the products of one block of rows of a star: they stay in the first-level cache until they are scattered."""

EPOCHS_AHEAD, WORK_AHEAD, CELLS_AHEAD = 16, 2**20, 2**20
"""What a call runs ahead for each vector of parameters, at most: epochs, and states visited in these (about a
millisecond); and cells of the counts of all vectors and epochs, 8 MiB.
"""

NOTHING, NO_NUMBERS, NO_ROWS = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.intp)
NO_UPDATE = MStep(NOTHING, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_), 0.0, False)


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


def epochs_of_each(
    mine: Prepared, asked: Sequence[Asked], expect: bool, mstep: MStep | None
) -> list[list[EpochCounts]]:
    """Run epochs on all rows, one block, from each vector of parameters; none where rows are doubtful."""
    values = np.array([one.values for one in asked], dtype=np.float64)
    count, cells = values.shape
    most = 1 if mstep is None else epochs_at_most(mine, count)
    epochs = [min(one.epochs, most) for one in asked]
    longest = max(epochs)
    whole = StarEpochs(
        values, np.array(epochs, dtype=np.int64), np.array([one.least for one in asked], dtype=np.float64),
        np.array([one.gain for one in asked], dtype=np.float64), np.zeros((count, longest, cells)),
        np.empty((count, longest)), np.empty((count, longest, 0 if mstep is None else cells)),
        np.zeros((count, 2), dtype=np.int64),
    )  # fmt: skip
    known, weights = mine.star_rows(mine.blocks[0]), mine.weights_of(mine.blocks[0])

    room, work = mine.star_room()
    arguments = (
        len(weights), known, mine.packing.packing, mine.maps, mine.star_sizes, room, work, weights, expect, True,
        NO_UPDATE if mstep is None else mstep, whole,
    )  # fmt: skip
    _star_code(arguments)(*arguments)
    mine.star_rooms.append((room, work))
    return [_epochs_from(one.values, whole, vector) for vector, one in enumerate(asked)]


def _epochs_from(values: np.ndarray, found: StarEpochs, vector: int) -> list[EpochCounts]:
    """Return the epochs that the kernel ran from one of several vectors of parameters."""
    counted, updates = found.done[vector].tolist()
    epochs = []
    for epoch, likelihood in enumerate(found.likelihoods[vector, :counted].tolist()):
        updated = _read_only(found.updated[vector, epoch]) if epoch < updates else None
        epochs.append(EpochCounts(values, RowCounts(found.counts[vector, epoch], likelihood, NO_ROWS), updated))
        values = values if updated is None else updated
    return epochs


def _read_only(values: np.ndarray) -> np.ndarray:
    """Return a read-only copy of an array, which needs no other copy."""
    values = values.copy()
    values.setflags(write=False)
    return values


def epochs_at_most(mine: Prepared, vectors: int) -> int:
    """Return the number of epochs that a call runs from each of so many vectors of parameters, at most."""
    cells = CELLS_AHEAD // (vectors * max(1, mine.plan.layout.size))
    return max(1, min(EPOCHS_AHEAD, WORK_AHEAD // max(1, visited(mine)), cells))


def visited(mine: Prepared) -> int:
    """Return how many states the kernel visits in an epoch."""
    return len(mine.star_rows(mine.blocks[0]).entries) * mine.tape.regions[0].stride


STAR_CODE: dict[np.dtype, Callable[..., Any]] = {}
"""The machine code of the kernel for each type of the entries of packs: all other arrays are always of one type."""


def _star_code(arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of the kernel for arguments as `epochs_of_each` makes them."""
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
    doubtful, depth, likelihood = np.zeros(len(weights), dtype=np.bool_), np.zeros(1), np.empty((1, 1))
    depth[0] = np.inf if tables.deep else 0.0
    room = StarRoom(
        tables.tables, tables.shifts, tables.base, depth, NOTHING, NO_NUMBERS, NOTHING, joint, NOTHING, doubtful
    )
    work = mine.star_work()
    found = kernels.star(
        len(weights), mine.star_rows(rows), mine.packing.packing, mine.maps, mine.star_sizes, room, work, weights,
        expect, False, NO_UPDATE,
        StarEpochs(
            values[None], np.ones(1, dtype=np.int64), np.zeros(1), np.zeros(1), np.zeros((1, 1, 0)), likelihood,
            np.zeros((1, 1, 0)), np.zeros((1, 2), dtype=np.int64),
        ),
    )  # fmt: skip
    mine.done_with(work)
    return float(likelihood[0, 0]), np.flatnonzero(doubtful) if found else NO_ROWS
