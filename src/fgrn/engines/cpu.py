"""The CPU engine: Numba kernels that run a tape on blocks of rows, in the linear domain.

Messages are stored normalised; the log-likelihood is the sum of the logarithms of their norms. In a Diverter each state
of the running product has an exponent of its own, so that thousands of factors neither underflow nor lose a state that
is the only one left after a later zero. A row in which a product still becomes zero is computed by the reference
engine, which tells impossible evidence from numbers too small for the linear domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from . import clique_rows, kernels, star_counts
from .cycles import TableMessages
from .kernels.arguments import (
    CarefulProduct,
    ChainRows,
    ChainTables,
    KnownRows,
    PathRows,
    SortedEntries,
    StarRows,
    StarWork,
    Tapes,
)
from .linear import Loaded
from .matrices import MatrixPrepared, tree_of_matrices
from .packs import Known, aligned_zeros, kernel_array, known_entries, padded
from .protocol import Engine, EpochCounts, EpochRequest, MStep
from .registry import get
from .row_blocks import blocks_of_rows, thread_count
from .scanners import BlockScanner
from .scans import Scan
from .star_counts import StarCall, careful_product, star_work
from .stars import shown_leg_of
from .tape import Tape, tape_for

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

MESSAGE_BYTES = 2**22
"""Of the messages that are shown, per call."""

BLOCK_BYTES = 2**17
"""Of the workspace of one block of rows: it stays in the second-level cache with the tables."""

COUNTED_CELLS, COUNTED_BLOCKS = 2**21, 16
"""States visited per call when counting, at least; and calls, at most, unless one would read over MOST_COUNTED rows."""

MOST_COUNTED = 2**18
"""The most rows whose evidence is in memory at once, if it is stored on disk."""

VISITS = 24
"""How often a call visits as many states as it has to clear and add up, so that this is negligible too."""

LEAST_COUNTED, LEAST_VISITS = 2**13, 3
"""The same for a star with few rows, which are two blocks then: two threads count them in one call of the kernel."""

MOST_ROWS, MOST_LEG_ROWS = 2**15, 2**16
"""Rows per call when messages are kept: in general, and where a star shows one leg."""

WIDE_ROW = 2**24
"""Cells of the workspace of a row, above which rows come one at a time, on one thread: more would fill the memory."""

NOTHING, NO_CODES, NO_KINDS = np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.intp)


class Cpu:
    """The CPU engine; rows that underflow in the linear domain are computed by the `fallback` engine."""

    name = "cpu"
    all_messages_up_to = 16

    def __init__(self, fallback: Engine | None = None) -> None:
        self.fallback = get("reference") if fallback is None else fallback

    def prepare(
        self,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None = None,
        threads: int | None = None,
    ) -> Prepared | MatrixPrepared:
        """See `fgrn.engines.Engine`."""
        tree = tree_of_matrices(plan, program, evidence)
        if tree is None:
            return self.by_tape(plan, programs, program, evidence, weights, threads)
        others = partial(self.by_tape, plan, programs, program, evidence, weights, threads)
        return MatrixPrepared(plan, programs, evidence, weights, threads, tree, others)

    def by_tape(
        self,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None,
        threads: int | None,
    ) -> Prepared:
        """Lay out rows for the kernels that run a tape."""
        tape = tape_for(plan, program, evidence)
        lanes = clique_rows.lanes_for(plan, program, tape, evidence)
        return Prepared(self, plan, programs, program, evidence, weights, threads, tape, lanes)

    def scanner(self, begins: np.ndarray, states: int, threads: int | None = None) -> BlockScanner:
        """See `fgrn.engines.Engine`."""
        return BlockScanner(begins, states, threads, _scan_block)

    def best_path(
        self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, which: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `fgrn.engines.Engine`."""
        rows, states = len(begins), local.shape[1]
        path, weights, came = np.empty(rows, dtype=np.int64), np.zeros(rows), np.empty(rows * states, dtype=np.uint16)
        tables = _chain_tables(prior, table)
        kinds = NO_KINDS if which is None else kernel_array(which, np.intp)
        sequences = PathRows(kernel_array(local).ravel(), kinds, kernel_array(begins, np.bool_), weights)
        work = np.empty(states), np.empty(states)
        kernels.viterbi(rows, np.uint64(states), tables, sequences, came, *work, path)
        return path, weights


def _chain_tables(prior: np.ndarray, table: np.ndarray) -> ChainTables:
    return ChainTables(prior.flatten(), table.flatten(), table.T.flatten())


def _scan_block(
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, weights: np.ndarray | None, out: Scan
) -> None:
    rows, states = local.shape
    weights = np.zeros(0) if weights is None else weights
    tables = _chain_tables(prior, table)
    sequences = ChainRows(kernel_array(local).ravel(), kernel_array(begins, np.bool_), kernel_array(weights))
    flat = Scan(*(array.ravel() for array in out))
    kernels.scan(rows, np.uint64(states), tables, sequences, flat, np.empty(states), np.empty(states))


class Prepared:
    """Rows laid out for a tape: the codes of packed leaves, and all other evidence unchanged.

    `kernel` is one of

        star    counts where one Diverter with its Sources and leaves is everything
        leg     messages on one leg of such a network
        lanes   junction trees of small cliques, `lanes` rows side by side
        tree    everything else
    """

    def __init__(
        self,
        engine: Cpu,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None,
        threads: int | None,
        tape: Tape,
        lanes: int,
    ) -> None:
        self.engine, self.plan, self.programs, self.program = engine, plan, programs, program
        self.evidence, self.tape, self.lanes = evidence, tape, lanes
        self.threads = thread_count() if threads is None else threads
        self.weights = np.broadcast_to(1.0, evidence.rows) if weights is None else weights
        self._known: dict[tuple[int, int], Known] = {}
        self._star_rows: dict[tuple[int, int], StarRows] = {}
        self._same = NOTHING
        self._star_work: list[tuple[StarWork, CarefulProduct]] = []
        self.star_calls: list[StarCall] = []  # arguments that no thread is using
        self.has_faint_rows = False  # whether a product of a star might underflow, when its rows were counted last
        self.spare: list[np.ndarray] = []  # counts whose memory may be used again: fresh memory is slow the first time
        self.held: list[dict[int, TableMessages]] = []  # the same for messages of all blocks, by their first rows
        self.maps = kernel_array(plan.maps, np.uint64)
        self.shown_leg = (
            shown_leg_of(plan, program, evidence) if len(tape.regions) == 1 and not program.for_counts else None
        )
        first = tape.regions[0] if tape.regions else None
        self.star_sizes = (np.uint64(first.states), np.uint64(first.stride)) if first else (np.uint64(0),) * 2
        without = -1 if tape.is_star else None if self.shown_leg is None else self.shown_leg.prior
        self.packing = tape.packing(plan, program, without)
        self.kernel = "lanes" if lanes else "star" if tape.is_star else "leg" if self.shown_leg is not None else "tree"
        self.tapes = Tapes(tape.sweep, tape.count, self._shown_places())
        self.width = 0 if program.for_counts else int(plan.cardinality[program.shown].sum())
        self.block = int(np.clip(BLOCK_BYTES // max(1, 8 * self.tape.width), 8, 256))
        if self.tape.width > WIDE_ROW:
            self.block, self.threads = 1, 1
        # counts of packs, posteriors, and inner tables
        inner = 0 if tape.is_star else plan.layout.size
        ends = [*accumulate([tape.joint_size, padded(tape.posteriors), inner])]
        self.parts = [slice(a, b) for a, b in pairwise([0, *ends])]
        if program.for_counts:
            cells = ends[-1]  # to be cleared and added up for every call
            packs = sum(region.stride * len(region.packs) for region in self.tape.regions)
            self.visited = self.tape.width + packs
            enough = max(COUNTED_CELLS, VISITS * cells) // self.visited
            half = -(-evidence.rows // 2)
            if tape.is_star and half * self.visited >= max(LEAST_COUNTED, LEAST_VISITS * cells):
                enough = min(enough, half)
            self.rows_at_once = max(enough, min(-(-evidence.rows // COUNTED_BLOCKS), MOST_COUNTED))
        else:
            shown = 24 * self.width + 16
            self.rows_at_once = int(
                np.clip(MESSAGE_BYTES // shown, 1, MOST_ROWS if self.shown_leg is None else MOST_LEG_ROWS)
            )

    @cached_property
    def blocks(self) -> list[slice]:
        """Return all rows, in blocks of the size that was decided on."""
        return blocks_of_rows(self.evidence.rows, self.rows_at_once)

    def one_by_one(self, rows: slice, where: np.ndarray) -> Prepared:
        """Return some of the rows prepared for the kernel that takes one row at a time."""
        evidence, weights = self.evidence.take(rows).take(where), self.weights[rows][where]
        return Prepared(self.engine, self.plan, self.programs, self.program, evidence, weights, 1, self.tape, lanes=0)

    def workspace(self) -> tuple[np.ndarray, np.ndarray]:
        """Return arrays for the messages of a block that fits the cache, and flags for which depend on evidence."""
        known = np.zeros((self.block, self.tape.known_width), dtype=np.bool_)
        return np.zeros(self.block * self.tape.width), known

    @cached_property
    def _codes(self) -> np.ndarray:
        """The codes as (columns, rows): a single row in the other layout would compile another kernel."""
        return np.require(self.evidence.codes.T, requirements=["C", "W"])

    def zeros(self) -> np.ndarray:
        """Return arrays of zeros for the counts of a block."""
        try:
            found = self.spare.pop()
        except IndexError:  # another thread may have taken the last one
            return aligned_zeros(self.parts[-1].stop)
        found.fill(0.0)
        return found

    def spare_messages(self) -> dict[int, TableMessages]:
        """Take message arrays of blocks that may be reused, by their first rows; empty if there are none."""
        try:
            return self.held.pop()
        except IndexError:  # another thread may have taken the last one
            return {}

    def free_memory(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self.spare, self.held, self._star_work, self.star_calls, self._same = [], [], [], [], NOTHING

    def weights_of(self, rows: slice) -> np.ndarray:
        """Return the weights of a block as an array; one weight for all rows is written out once, not per block."""
        weights = self.weights[rows]
        if not len(weights) or weights.strides != (0,):
            return kernel_array(weights)
        same = self._same  # another thread may put a shorter one there
        if len(same) < len(weights) or same[0] != weights[0]:
            self._same = same = np.full(len(weights), weights[0], dtype=np.float64)
        return same[: len(weights)]

    def packed_entries(self, rows: slice) -> Known:
        """Return the entries of packed leaves in a block of rows; kept for the next epoch."""
        if (rows.start, rows.stop) in self._known:
            return self._known[rows.start, rows.stop]
        found = known_entries(self.plan, self.tape.regions, self._codes, self.evidence.slot, rows, kernels.pack)
        if self.program.for_counts:
            disk = self.evidence.disk
            found = found if disk is None else Known(*map(disk.stored, found))
            self._known[rows.start, rows.stop] = found
        return found

    def known_rows(self, rows: slice) -> KnownRows:
        """Return the evidence in a block of rows."""
        codes, soft = self.evidence.codes[rows], self.evidence.soft[rows]
        return KnownRows(*self.packed_entries(rows), kernel_array(codes, np.int32), kernel_array(soft))

    def star_work(self) -> tuple[StarWork, CarefulProduct]:
        """Take arrays for the products of some rows of a star, for one thread; `done_with` returns them."""
        try:
            return self._star_work.pop()
        except IndexError:  # another thread may have taken the last one
            stride = self.tape.regions[0].stride
            return star_work(stride), careful_product(stride)

    def done_with(self, work: StarWork, careful: CarefulProduct) -> None:
        """Store arrays taken by `star_work` for reuse by the next block."""
        self._star_work.append((work, careful))

    @cached_property
    def star_order(self) -> SortedEntries:
        """Return the entries of packs in pieces of rows, sorted by their codes."""
        known, region = self.star_rows(slice(0, self.evidence.rows)), self.tape.regions[0]
        most = max(pack.codes for pack in region.packs)
        return star_counts.sorted_entries(known, self.blocks, region.rows, most, region.stride)

    @cached_property
    def star_groups(self) -> np.ndarray:
        """Return the groups of packs that threads share; see `groups_of_packs`."""
        return star_counts.groups_of_packs(self.packing)

    @cached_property
    def counts_together(self) -> bool:
        """See `fgrn.engines.CountsTogether`: possible for stars in memory whose epochs are not too long."""
        if self.kernel != "star" or self.evidence.disk is not None or not self.evidence.rows:
            return False
        rows, region = self.evidence.rows, self.tape.regions[0]
        piece = star_counts.rows_of_piece(max(pack.codes for pack in region.packs), region.stride)
        entries = len(region.packs) * min(piece, -(-rows // len(self.blocks)))
        return (
            self.visited * rows <= star_counts.MOST_WORK
            and len(region.packs) * rows <= star_counts.MOST_ENTRIES
            and region.rows <= star_counts.CODES_PER_ENTRY * entries
            and len(self.blocks) * self.tape.joint_size <= star_counts.MOST_ROOM
        )

    def epochs_of_each(
        self, requests: Sequence[EpochRequest], expect: bool, mstep: MStep | None
    ) -> Sequence[Sequence[EpochCounts]]:
        """See `fgrn.engines.CountsTogether`."""
        return star_counts.epochs_of_each(self, requests, expect, mstep)

    def log_prior(self, mstep: MStep, values: np.ndarray) -> float:
        """See `fgrn.engines.CountsTogether`."""
        return star_counts.log_prior_as_in_epochs(mstep, values)

    def star_rows(self, rows: slice) -> StarRows:
        """Return the evidence in a block of rows of a star.

        It is kept for the next epoch, unless it is on disk, or has distributions: those of numbers change every epoch.
        """
        found = self._star_rows.get((rows.start, rows.stop))
        if found is None:
            found = StarRows(*self.packed_entries(rows), *self._on_hidden(rows))
            if self.program.for_counts and self.evidence.disk is None and not self.evidence.soft.shape[1]:
                self._star_rows[rows.start, rows.stop] = found
        return found

    def _on_hidden(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the evidence on the hidden variable of a star, codes and distributions; empty if there is none."""
        edge = int(self.plan.source_edge[0])
        slot, at = int(self.evidence.slot[edge]), int(self.evidence.soft_offset[edge])
        if slot < 0:
            return NO_CODES, NOTHING
        codes = kernel_array(self.evidence.codes[rows, slot], np.int32)
        width = int(self.plan.cardinality[edge]) if at >= 0 else 0
        return codes, kernel_array(self.evidence.soft[rows, at : at + width]).ravel()

    def _shown_places(self) -> np.ndarray:
        """Return, per shown edge, the offsets of its forward and backward message and of the result, and its length."""
        places, at = [], 0
        for edge in [] if self.program.for_counts or len(self.program.believed) else self.program.shown.tolist():
            count = int(self.plan.cardinality[edge])
            places.append((self.tape.forward_at[edge], self.tape.backward_at[edge], at, count))
            at += count
        return np.array(places, dtype=np.uint64).reshape(-1, 4)

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return Loaded(self, values)
