"""Expected counts of a star (one Diverter, its Sources and leaves) under one vector of parameters, or several at once.

A call of the kernel makes the joint tables, counts the rows, unpacks the counts and updates the parameters, for some
epochs in a row: with few rows this takes less time than a call from Python. Several threads are in it at the same time
(`kernels.teams`). Given one vector of parameters they share the pieces of every epoch; given several, as by random
starts that learn together, these. Each has the same counts, to the last bit, whichever others it is counted with, on
however many threads, and however many epochs a call runs.

That kernel leaves alone what hardly any table needs: rows so improbable that their product may underflow. Under
parameters that have such a row another kernel counts, block by block, given the joint tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import kernels
from .kernels import rounds
from .kernels.arguments import (
    CarefulProduct,
    SortedEntries,
    StarEpochs,
    StarRoom,
    StarRows,
    StarScratch,
    StarTables,
    StarTask,
    StarWork,
)
from .kernels.basics import code_for
from .kernels.teams import team_numbers
from .kernels.updates import UPDATES
from .packs import PackPlan, aligned_empty, aligned_zeros, no_packs, padded
from .protocol import AcceleratedRound, EpochCounts, EpochRequest, MStep, RowCounts, SilentEpochs
from .row_blocks import blocks_of_rows, call_helpers

if TYPE_CHECKING:
    from .cpu import Prepared

STAR_BYTES = 2**13
"""Of the products of one block of rows of a star: they stay in the first-level cache until they are scattered."""

EPOCHS_AHEAD, SILENT_EPOCHS, WORK_AHEAD, CELLS_AHEAD = 16, 128, 2**26, 2**20
"""What a call runs ahead for each vector of parameters, at most: epochs, and those if all but the last are silent;
states visited in these (about 50 milliseconds); and cells of the counts of all vectors and epochs, 8 MiB.
"""

MOST_WORK, MOST_ENTRIES = 2**29, 2**24
"""States visited by a thread in an epoch, or in those of several vectors of parameters, in one call, at most: a quarter
of a second, in which nothing can be interrupted. And entries of packs, which take 4 bytes each when they are sorted.
"""

CODES_PER_ENTRY = 2
"""Codes of packs for each entry in a piece of rows, at most: with more of them, most codes have no rows."""

ROWS_OF_CODE, PIECE_BYTES = 16, (2**16, 2**19)
"""A piece of rows, whose products are added code by code: rows of each code, and bytes of products, at least and most.
"""

MOST_ROOM = 2**23
"""Cells of the counts of all blocks under all vectors of parameters that threads work on at a time: 64 MiB at most."""

WORK_OF_THREAD = 2**17
"""States visited in a call for which another thread is woken, which takes as long as visiting half of them."""

GROUPED_CELLS, MOST_GROUPS = 2**12, 8
"""Cells of the joint tables of a group of packs, at least, and groups, at most: threads share these."""

NOTHING, NO_ROWS = np.zeros(0), np.zeros(0, dtype=np.intp)
NO_UPDATE = MStep(NOTHING, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_), 0.0)


def star_work(stride: int) -> StarWork:
    """Make scratch arrays for the products of some rows."""
    block = max(1, STAR_BYTES // (8 * stride))
    return StarWork(aligned_zeros(block * stride), np.empty(block), np.empty(block))


def careful_product(stride: int) -> CarefulProduct:
    """Make scratch arrays for the product of one row that may underflow."""
    return CarefulProduct(np.empty(stride), np.empty(stride, dtype=np.int64))


class StarSizes(NamedTuple):
    """The sizes of the arrays for epochs of a star: of packs, joint tables and their rows, the posterior, blocks."""

    plan: PackPlan
    cells: int
    posteriors: int
    stride: int
    blocks: int
    rows: int  # of the longest piece


def star_room(sizes: StarSizes, vectors: int) -> StarRoom:
    """Make room for the joint tables under so many vectors of parameters at a time, and for the counts under them."""
    plan, blocks, cells = sizes.plan, sizes.blocks, _cells_of_lines(sizes.cells)
    return StarRoom(
        aligned_empty(vectors * cells).reshape(vectors, cells), np.empty((vectors, plan.shifts), dtype=np.int64),
        np.empty((vectors, plan.base)), aligned_zeros(vectors * blocks * cells).reshape(vectors, blocks, cells),
        np.zeros((vectors, padded(sizes.posteriors))), np.empty((vectors, blocks)),
        np.empty((vectors, len(plan.packing.packs))), np.empty((vectors, UPDATES)),
        np.zeros((vectors, 3), dtype=np.int64),
    )  # fmt: skip


def star_scratch(sizes: StarSizes, threads: int) -> StarScratch:
    """Make scratch arrays for so many threads, each in lines of the cache that no other thread writes to."""
    plan, rows = sizes.plan, _cells_of_lines(sizes.rows)
    lengths = *map(_cells_of_lines, (plan.columns, plan.codes, plan.folded, rows * sizes.stride)), rows, rows
    columns, codes, *others = (aligned_zeros(threads * length).reshape(threads, length) for length in lengths)
    return StarScratch(columns, codes.view(np.int64), *others)


def _cells_of_lines(cells: int) -> int:
    """Return the number of cells rounded up to whole lines of the cache."""
    return -(-cells // 8) * 8


def sorted_entries(known: StarRows, blocks: Sequence[slice], codes: int, most: int, stride: int) -> SortedEntries:
    """Return the entries of packs in pieces of rows, sorted by codes: `codes` in all, at `most` in a pack."""
    size = rows_of_piece(most, stride)
    pieces = [blocks_of_rows(block.stop - block.start, size) for block in blocks]
    begins = [block.start + piece.start for block, some in zip(blocks, pieces, strict=True) for piece in some]
    order = SortedEntries(
        np.concatenate([[0], np.cumsum([len(some) for some in pieces])]).astype(np.int64),
        np.array([*begins, len(known.bounds[0]) - 1], dtype=np.int64),
        np.empty(len(known.entries), dtype=np.uint16), np.empty((len(begins), codes + 1), dtype=np.uint64),
    )  # fmt: skip
    kernels.sort_entries(known.entries, known.bounds[0], order.begins, order.rows, order.offsets)
    return order


def rows_of_piece(most: int, stride: int) -> int:
    """Return the number of rows of a piece, at most, for packs of at `most` so many codes."""
    least, longest = (size // (8 * stride) for size in PIECE_BYTES)
    return min(max(ROWS_OF_CODE * most, least, 1), max(longest, 1), 2**16)  # they are counted in 16 bits


def groups_of_packs(plan: PackPlan) -> np.ndarray:
    """Return where groups of packs begin, and the end: the number of the first pack, leaf and fold, (groups + 1, 3).

    There is one group if some leaves share a table, to whose counts only one thread may add.
    """
    packs, leaves = plan.packing.packs, plan.packing.leaves
    cells = np.cumsum(packs["codes"] * packs["stride"]).astype(np.int64)
    total = int(cells[-1]) if len(cells) else 0
    count = min(max(1, total // GROUPED_CELLS), MOST_GROUPS, max(1, len(packs)))
    if len(np.unique(leaves["table"])) < len(leaves):
        count = 1
    begins = np.unique(np.searchsorted(cells, [total * number // count for number in range(count)], side="right"))
    firsts = np.append(begins, len(packs)).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(packs["leaves"].astype(np.int64))])[firsts]
    return np.ascontiguousarray(np.column_stack([firsts, before, before - firsts]))


class CallSizes(NamedTuple):
    """What the arrays of a call of the kernel depend on.

    vectors     of parameters
    epochs      of each, at most; and how many of the last ones are `kept`
    in_rounds   whether these are rounds of accelerated EM
    expect      whether missing values are expected
    threads     and whether `each` takes vectors of its own
    """

    vectors: int
    epochs: int
    kept: int
    in_rounds: bool
    expect: bool
    threads: int
    each: bool


class StarCall(NamedTuple):
    """The arguments of a call of the kernel, which the next call may use again: other arrays would be slow at first.

    sizes    what they depend on
    code     the machine code of the kernel
    task     and `room`, `scratch`, `epochs`: see `kernels.arguments`
    """

    sizes: CallSizes
    code: Callable[..., Any]
    task: StarTask
    room: StarRoom
    scratch: StarScratch
    epochs: StarEpochs


def epochs_of_each(
    mine: Prepared, requests: Sequence[EpochRequest], expect: bool, mstep: MStep | None
) -> list[list[EpochCounts]]:
    """Run epochs on all rows from each vector of parameters; none where a product may underflow."""
    if mine.has_faint_rows:
        return [[] for _ in requests]
    known = mine.star_rows(slice(0, mine.evidence.rows))
    at_once = max(1, mine.threads * MOST_WORK // max(1, visited_states(mine, known)))
    if len(requests) > at_once:
        some = (requests[first : first + at_once] for first in range(0, len(requests), at_once))
        return [epochs for part in some for epochs in epochs_of_each(mine, part, expect, mstep)]
    count, most = len(requests), 1 if mstep is None else epochs_at_most(mine, known, requests)
    kept = min(most, 2) if all(one.silent for one in requests) else most
    threads, each = threads_of_call(mine, known, requests, most)
    in_rounds = mstep is not None and any(one.round is not None for one in requests)
    sizes = CallSizes(count, most, kept, in_rounds, expect, threads, each)
    call = star_call(mine, known, NO_UPDATE if mstep is None else mstep, sizes)
    epochs = call.epochs
    for vector, one in enumerate(requests):
        write_request(one, epochs, vector, most)
    call.room.faults.fill(0)
    # numbers of its own: a thread that comes too late for an earlier call finds that it has ended
    arguments = *call[2:], team_numbers(count if each else 0)
    if threads > 1:
        call_helpers(threads - 1, lambda number: call.code(*arguments, number))
    call.code(*arguments, 0)
    mine.has_faint_rows = bool(call.room.faults[:, 2].any())
    found = [_epochs_from(one, epochs, vector) for vector, one in enumerate(requests)]
    mine.star_calls.append(call)
    return found


def log_prior_as_in_epochs(mstep: MStep, values: np.ndarray) -> float:
    """Return the log prior of parameters, with the bits that epochs have."""
    if not len(mstep.smoothing):
        return 0.0
    # a copy: the kernel is compiled for arrays that can be written to, and again for others
    return float(kernels.log_prior_of_cells(mstep.lines, mstep.smoothing, mstep.learnt, values.copy()))


def star_call(mine: Prepared, known: StarRows, mstep: MStep, wanted: CallSizes) -> StarCall:
    """Take arguments for a call of the kernel; `star_calls` receives them back. New ones if those there do not fit."""
    try:
        call = mine.star_calls.pop()
    except IndexError:  # another thread may have taken the last one
        pass
    else:
        if call.sizes == wanted and call.task.known is known and call.task.update is mstep:
            return call
    cells, order = mine.plan.layout.size, mine.star_order
    sizes = StarSizes(
        mine.packing, mine.tape.joint_size, mine.tape.posteriors, mine.tape.regions[0].stride, len(mine.blocks),
        int(np.diff(order.begins).max()),
    )  # fmt: skip
    task = StarTask(
        known, mine.weights_of(slice(0, mine.evidence.rows)), order, mine.packing.packing, mine.maps,
        mine.star_groups, mine.star_sizes, wanted.expect, mstep,
    )  # fmt: skip
    updated, in_rounds = cells if len(mstep.lines) else 0, cells if wanted.in_rounds else 0
    arrays = (
        star_room(sizes, wanted.threads if wanted.each else 1), star_scratch(sizes, wanted.threads),
        star_epochs(wanted.vectors, wanted.epochs, wanted.kept, cells, updated, in_rounds),
    )  # fmt: skip
    return StarCall(wanted, _star_code((task, *arrays, team_numbers(), 0)), task, *arrays)


def threads_of_call(mine: Prepared, known: StarRows, requests: Sequence[EpochRequest], most: int) -> tuple[int, bool]:
    """Return the number of threads for a call, and whether each of them takes vectors of parameters of its own."""
    count, blocks = len(requests), len(mine.blocks)
    epochs = sum(min(one.epochs, most) for one in requests)
    threads = min(mine.threads, max(1, epochs * visited_states(mine, known) // WORK_OF_THREAD))
    rooms = MOST_ROOM // (blocks * mine.tape.joint_size)
    each = threads > 1 and rooms > 1 and (count >= threads or count > blocks)
    return (min(threads, count, rooms) if each else min(threads, blocks)), each


def visited_states(mine: Prepared, known: StarRows) -> int:
    """Return how many states of joint tables an epoch visits."""
    return len(known.entries) * mine.tape.regions[0].stride


def epochs_at_most(mine: Prepared, known: StarRows, requests: Sequence[EpochRequest]) -> int:
    """Return the number of epochs that a call runs from each of several vectors of parameters, at most."""
    cells = CELLS_AHEAD // (len(requests) * max(1, mine.plan.layout.size))
    limit = SILENT_EPOCHS if all(one.silent for one in requests) else min(EPOCHS_AHEAD, cells)
    asked, vectors = max(one.epochs for one in requests), -(-len(requests) // mine.threads)
    return max(1, min(asked, limit, WORK_AHEAD // max(1, vectors * visited_states(mine, known))))


def star_epochs(vectors: int, epochs: int, kept: int, cells: int, updated: int, in_rounds: int) -> StarEpochs:
    """Make room for some epochs of each of several vectors of so many cells, for updated cells, and those of rounds.

    The counts and parameters of the last epochs are `kept`.
    """
    return StarEpochs(
        np.empty((vectors, cells)), np.empty((vectors, rounds.LIMITS)),
        np.empty((vectors, rounds.NUMBERS), dtype=np.int64), np.empty((vectors, rounds.STEPS)),
        np.empty((vectors, rounds.ROUND_PARAMETERS, in_rounds)), np.empty((vectors * kept, cells)),
        np.empty(vectors * epochs), np.zeros(vectors * epochs), np.empty((vectors * kept, updated)),
    )  # fmt: skip


def write_request(request: EpochRequest, epochs: StarEpochs, vector: int, most: int) -> None:
    """Write what is asked of a vector of parameters to the arrays of a call."""
    epochs.values[vector] = request.values
    where = request.round
    if where is None or not epochs.rounds.size:
        epochs.limits[vector] = request.least, request.gain, -np.inf, -np.inf, request.rounding
        position, failed = rounds.PLAIN, False
    else:
        epochs.limits[vector] = -np.inf, request.gain, where.before, where.previous, request.rounding
        position = rounds.FIRST if where.first is None else rounds.SECOND
        position, failed = position if where.ahead is None else rounds.TRIED, where.failed
        epochs.steps[vector, : rounds.STEPS_OF_LAST_COUNTED] = where.length, where.longest
        for which, values in enumerate((where.first, where.ahead, where.last)):
            if values is not None:
                epochs.rounds[vector, which] = values
    epochs.numbers[vector, : rounds.OF_LAST_COUNTED] = min(request.epochs, most), 0, 0, position, failed, rounds.GIVEN


def _epochs_from(request: EpochRequest, found: StarEpochs, vector: int) -> list[EpochCounts]:
    """Return the epochs that the kernel ran from one of several vectors of parameters, in arrays of their own."""
    numbers = found.numbers[vector].tolist()
    counted, updates = numbers[rounds.COUNTED], numbers[rounds.UPDATED]
    position, failed, origin = numbers[rounds.OF_LAST_COUNTED :]
    if not counted:
        return []
    vectors = len(found.values)
    likelihoods, priors = (
        some.reshape(vectors, -1)[vector, :counted].tolist() for some in (found.likelihoods, found.priors)
    )
    counts, updated = (
        rows.reshape(vectors, len(rows) // vectors, -1)[vector] for rows in (found.counts, found.updated)
    )
    epochs, values, earlier = [], request.values, None
    skipped = counted - 1 if request.silent else 0
    if request.silent:
        if origin == rounds.OF_UPDATE:
            values = _read_only(updated[(skipped - 1) % len(updated)])
        elif origin != rounds.GIVEN:
            values = _read_only(found.rounds[vector, origin])
        where = None if position == rounds.PLAIN else _place_in_round(found, vector, position, bool(failed))
        earlier = SilentEpochs(likelihoods[:skipped], priors[:skipped], where)
    for epoch in range(skipped, counted):
        at = epoch % len(counts)
        after = _read_only(updated[at]) if epoch < updates else None
        row_counts = RowCounts(counts[at].copy(), likelihoods[epoch], NO_ROWS)
        epochs.append(EpochCounts(values, row_counts, after, priors[epoch], earlier))
        values = values if after is None else after
    return epochs


def _place_in_round(found: StarEpochs, vector: int, position: int, failed: bool) -> AcceleratedRound:
    """Return where the last epoch counted from a vector of parameters is in its round."""
    kept, (length, longest) = found.rounds[vector], found.steps[vector, rounds.STEPS_OF_LAST_COUNTED :].tolist()
    if position == rounds.TRIED:
        first, ahead, last = None, _read_only(kept[rounds.OF_AHEAD]), _read_only(kept[rounds.OF_LAST])
    else:
        first, ahead, last = _read_only(kept[rounds.OF_FIRST]) if position == rounds.SECOND else None, None, None
    return AcceleratedRound(first, ahead, last, failed, length, longest)


def _read_only(values: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be changed, so that it is not copied again."""
    values = values.copy()
    values.setflags(write=False)
    return values


def compile_star() -> None:
    """Compile the kernel that runs epochs, or load it, for entries of the usual type and without any rows."""
    rows = StarRows(
        np.zeros(0, dtype=np.uint16), np.zeros((1, 1), dtype=np.uint64), np.zeros(0, dtype=np.int32), NOTHING
    )
    sizes = StarSizes(PackPlan(no_packs(), 0, 0, 0, 0, 0), 0, 0, 8, 1, 1)
    places = np.zeros(2, dtype=np.int64)
    order = SortedEntries(places, places, np.zeros(0, dtype=np.uint16), np.zeros((1, 1), dtype=np.uint64))
    task = StarTask(
        rows, NOTHING, order, sizes.plan.packing, np.zeros(0, dtype=np.uint64), groups_of_packs(sizes.plan),
        (np.uint64(0), np.uint64(0)), True, NO_UPDATE,
    )  # fmt: skip
    _star_code((task, star_room(sizes, 1), star_scratch(sizes, 1), star_epochs(1, 1, 1, 0, 0, 0), team_numbers(), 0))


STAR_CODE: dict[np.dtype, Callable[..., Any]] = {}
"""The machine code of the kernel for each type of the entries of packs: all other arrays are always of one type."""


def _star_code(arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of the kernel for arguments as `epochs_of_each` makes them."""
    kind = arguments[0].known.entries.dtype
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
    mine.has_faint_rows |= faint > 0
    mine.done_with(work, careful)
    return likelihood, np.flatnonzero(doubtful) if found else NO_ROWS
