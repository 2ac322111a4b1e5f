"""The CPU engine: Numba kernels that run a tape on blocks of rows, in the linear domain.

A message is stored normalised, and the logarithms of the norms make the likelihood. Inside a Diverter each state of the
running product has an exponent of its own, so thousands of factors neither underflow nor lose a state that a
later zero will bring to the front. A row in which a product still vanishes is given to the judge, the reference
engine, which knows whether it is impossible or was only too small for the linear domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from . import BlockCounts, Buffers, Engine, Room, Scan, kernels, wide
from .cycles import Held, held, recount, transposed_tables
from .kernels.basics import FAINT, LOG_TWO
from .packs import Known, aligned_zeros, joint_tables, known_entries, padded, unpacked_counts
from .stars import Ray, base_of, ray_of
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
"""What is known of so many rows is in memory at once, if it is kept on disk."""

VISITS = 192
"""How often a call visits as many states as it has to clear and add up, so that this is negligible too."""

MOST_ROWS, MOST_RAY_ROWS = 2**15, 2**16
"""Rows per call when messages are kept: in general, and where a star shows one leg."""

STAR_BYTES = 2**13
"""Of the products of one block of rows of a star: they stay in the first-level cache until they are scattered."""

NOTHING = np.zeros(0)


class Cpu:
    """The engine. `judge` decides the rows that vanish in the linear domain."""

    name = "cpu"
    parallel = True
    few_rows = 16

    def __init__(self, judge: Engine) -> None:
        self.judge = judge

    def prepare(self, plan: Plan, programs: Programs, program: Program, evidence: Evidence) -> Prepared:
        """See `Engine`."""
        return Prepared(self, plan, programs, program, evidence)

    def scan(
        self,
        prior: np.ndarray,
        table: np.ndarray,
        local: np.ndarray,
        begins: np.ndarray,
        weights: np.ndarray,
        out: Scan,
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Engine`."""
        rows, states = local.shape
        first, steps = np.zeros(states), np.zeros((states, states))
        past, future, around, likelihood = out
        kernels.scan(
            rows, np.uint64(states), _plain(prior, np.float64), _plain(table, np.float64).ravel(),
            _plain(table.T, np.float64).ravel(), _plain(local, np.float64).ravel(), _plain(begins, np.bool_),
            _plain(weights, np.float64), past.ravel(), future.ravel(), around.ravel(), likelihood, first,
            steps.ravel(), np.empty(states), np.empty(states),
        )  # fmt: skip
        return first, steps

    def recount(self, plan: Plan, held: Held, values: np.ndarray, weights: np.ndarray, expect: bool) -> BlockCounts:
        """See `Engine`."""
        return recount(plan, self.judge, held, values, weights, expect)


class Prepared:
    """Evidence laid out for a tape: the codes of the packs, and the rest as it is."""

    def __init__(
        self, engine: Cpu, plan: Plan, programs: Programs, program: Program, evidence: Evidence,
        tape: Tape | None = None,
    ) -> None:  # fmt: skip
        self.engine, self.plan, self.programs, self.program = engine, plan, programs, program
        self.evidence = evidence
        self.tape = tape_for(plan, program, evidence) if tape is None else tape
        self.lanes = wide.lanes_for(plan, program, self.tape, evidence)
        self._known: dict[int, Known] = {}
        self._same = NOTHING
        self.spare: list[np.ndarray] = []  # counts whose room may be used again: fresh memory is slow the first time
        self.maps = _plain(plan.maps, np.uint64)
        self.ray = ray_of(plan, program, evidence) if len(self.tape.regions) == 1 and not program.for_counts else None
        self.places = self._shown_places()
        self.width = 0 if program.for_counts else int(plan.cardinality[program.shown].sum())
        self.block = int(np.clip(BLOCK_BYTES // max(1, 8 * self.tape.width), 8, 256))
        self.parts = np.cumsum(
            [0, self.tape.joint_size, padded(self.tape.posteriors), plan.layout.size, plan.layout.size]
        )
        if program.for_counts:
            cells = int(self.parts[-1])  # to be cleared and added up for every call
            visited = self.tape.width + sum(region.stride * len(region.packs) for region in self.tape.regions)
            enough = max(COUNTED_CELLS, VISITS * cells) // visited
            self.rows_at_once = max(enough, min(-(-evidence.rows // COUNTED_BLOCKS), MOST_COUNTED))
        else:
            shown = 24 * self.width + 16
            self.rows_at_once = int(
                np.clip(MESSAGE_BYTES // shown, 1, MOST_ROWS if self.ray is None else MOST_RAY_ROWS)
            )

    def one_by_one(self, rows: slice, where: np.ndarray) -> Prepared:
        """The same for some of the rows, none of them side by side."""
        found = Prepared(
            self.engine, self.plan, self.programs, self.program, self.evidence.take(rows).take(where), self.tape
        )
        found.lanes = 0
        return found

    def workspace(self) -> tuple[np.ndarray, np.ndarray]:
        """Room for the messages of a block that stays in the cache, and for what is known behind them."""
        known = np.zeros((self.block, self.tape.known_width), dtype=np.bool_)
        return np.zeros(self.block * self.tape.width), known

    @cached_property
    def _codes(self) -> np.ndarray:
        """The codes, a column of evidence in each row: (rows, columns) would compile another kernel for one row."""
        return np.require(self.evidence.codes.T, requirements=["C", "W"])

    def room(self) -> np.ndarray:
        """Zeros for the counts of a block."""
        try:
            found = self.spare.pop()
        except IndexError:  # several threads may ask
            return aligned_zeros(int(self.parts[-1]))
        found.fill(0.0)
        return found

    def rest(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self.spare, self._same = [], NOTHING

    def spread(self, weights: np.ndarray) -> np.ndarray:
        """The weights of a block as a kernel takes them; one for all rows is written out once, not for every block."""
        if not len(weights) or weights.strides != (0,):
            return _plain(weights, np.float64)
        same = self._same  # another thread may put a shorter one there
        if len(same) < len(weights) or same[0] != weights[0]:
            self._same = same = np.full(len(weights), weights[0], dtype=np.float64)
        return same[: len(weights)]

    def known(self, rows: slice) -> Known:
        """What is known of the packs in a block of rows; kept for the next epoch."""
        if rows.start in self._known:
            return self._known[rows.start]
        found = known_entries(self.plan, self.tape.regions, self._codes, self.evidence.slot, rows, kernels.pack)
        if self.program.for_counts:
            disk = self.evidence.disk
            found = found if disk is None else Known(*map(disk.kept, found))
            self._known[rows.start] = found
        return found

    def on_hidden(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """The evidence on the hidden variable of a star, codes and distributions; both are empty if there is none."""
        edge = int(self.plan.source_edge[0])
        slot, at = int(self.evidence.slot[edge]), int(self.evidence.soft_offset[edge])
        codes = np.zeros(0, dtype=np.int32) if slot < 0 else _plain(self.evidence.codes[rows, slot], np.int32)
        width = int(self.plan.cardinality[edge]) if at >= 0 else 0
        return codes, _plain(self.evidence.soft[rows, at : at + width], np.float64).ravel()

    def _shown_places(self) -> np.ndarray:
        """Per shown edge: its forward and backward message in the workspace, its place among the shown, its length."""
        places, at = [], 0
        for edge in [] if self.program.for_counts or len(self.program.believed) else self.program.shown.tolist():
            count = int(self.plan.cardinality[edge])
            places.append((self.tape.forward_at[edge], self.tape.backward_at[edge], at, count))
            at += count
        return np.array(places, dtype=np.uint64).reshape(-1, 4)

    def load(self, values: np.ndarray) -> Loaded:
        """See `Prepared` of the package."""
        return Loaded(self, values)


class Loaded:
    """Parameters laid out for a tape, with the joint tables of the packs."""

    def __init__(self, prepared: Prepared, values: np.ndarray) -> None:
        plan, tape = prepared.plan, prepared.tape
        self.prepared = prepared
        self.values = _plain(values, np.float64)
        self.joint = joint_tables(plan, tape.regions, values)
        self.with_products, self.is_deep = tape.multiplied.of(plan, tape.products, values)

    @cached_property
    def transposed(self) -> np.ndarray:
        """The same values with every table the other way round, if messages go through any."""
        return (
            self.values
            if not len(self.prepared.plan.siso_table)
            else transposed_tables(self.prepared.plan, self.values)
        )

    def _tables(self) -> tuple[Any, ...]:
        tables, shifts, deep = self.joint
        return np.uint64(self.prepared.tape.width), deep, self.with_products, self.transposed, tables, shifts

    def _evidence(self, rows: slice) -> tuple[np.ndarray, ...]:
        """What is known in some rows: entries and their bounds, index vectors, codes, distributions."""
        mine = self.prepared
        codes, soft = _plain(mine.evidence.codes[rows], np.int32), _plain(mine.evidence.soft[rows], np.float64)
        return *mine.known(rows), mine.maps, codes, soft

    def _room(self) -> tuple[np.ndarray, ...]:
        """Work arrays for the products inside Diverters."""
        tape = self.prepared.tape
        products = (tape.most_targets + 1) * tape.largest_space
        longest = max(padded(tape.largest_space), tape.largest_message)
        return np.empty(products), np.empty(products, dtype=np.int64), aligned_zeros(longest)

    def propagate(self, rows: slice, beliefs: bool = True, room: Room | None = None) -> Buffers:
        """See `Loaded` of the package."""
        return self._propagate(rows, beliefs, room)[0]

    def _propagate(self, rows: slice, beliefs: bool = True, room: Room | None = None) -> tuple[Buffers, np.ndarray]:
        """The messages, and which rows the judge made."""
        mine = self.prepared
        if mine.ray is not None:
            return self._ray(mine.ray, rows, beliefs, room)
        if mine.lanes:
            return wide.messages(self, rows)
        work, known = mine.workspace()
        buffers, doubtful = self._run(rows, mine.block, work, known, work, known)
        return self._judged(rows, buffers, doubtful)

    def _run(
        self,
        rows: slice,
        block: int,
        read: np.ndarray,
        known_in: np.ndarray,
        write: np.ndarray,
        known_out: np.ndarray,
        weights: np.ndarray = NOTHING,
        expect: bool = False,
        counts: tuple[np.ndarray, ...] = (NOTHING, NOTHING, NOTHING),
    ) -> tuple[Buffers, np.ndarray]:
        """Run the tape on some rows, and count if there are weights: what it shows, and which rows are doubtful."""
        mine, tape = self.prepared, self.prepared.tape
        count, edges, width = rows.stop - rows.start, mine.plan.edges, mine.width
        forward, backward = (np.empty((count, width if len(mine.places) else 0)) for _ in range(2))
        marginal = np.empty((count, width))
        known_forward, known_backward = np.zeros((2, count if len(mine.places) else 0, edges), dtype=np.bool_)
        scale, rest, margin = np.zeros(count), np.ones(count), np.full(count, np.inf)
        doubtful = np.full(count, self.is_deep)
        kernels.tree(
            tape.sweep, tape.count, mine.places, count, block, *self._tables(), *self._evidence(rows), read, write,
            known_in, known_out, scale, rest, margin, doubtful, *self._room(), np.uint64(width), forward.ravel(),
            backward.ravel(), marginal.ravel(), edges, known_forward, known_backward, np.empty(block), weights, expect,
            *counts,
        )  # fmt: skip
        scale += np.log(rest)
        return Buffers(forward, backward, marginal, known_forward, known_backward, scale), doubtful

    def _ray(self, ray: Ray, rows: slice, beliefs: bool, room: Room | None) -> tuple[Buffers, np.ndarray]:
        """The messages on the one leg of a star that is shown; see `stars`."""
        mine, plan = self.prepared, self.prepared.plan
        count = rows.stop - rows.start
        room = {"log_likelihood": np.empty(count)} if room is None else room
        scale = room.get("log_likelihood", NOTHING)
        rest, doubtful = np.ones(len(scale)), np.zeros(count, dtype=np.bool_)
        edges = mine.program.shown.tolist()
        way = "backward" if ray.prior >= 0 else "forward" if "forward" in room else "marginal"
        out = {}
        for edge in edges:
            behind = edge == ray.leaf
            states = int(plan.cardinality[edge])
            message = room[way] if len(edges) == 1 and way in room else np.empty((count, states))
            kernels.star_messages(
                *self._star(rows), self.joint.shifts, self._behind, np.uint64(states if behind else 0), scale, rest,
                doubtful, message.ravel(),
            )  # fmt: skip
            out[edge] = message
        scale += np.log(rest)
        if ray.prior >= 0:
            forward, backward = plan.source_values(self.values, ray.prior), out[ray.leg]
            norm = np.einsum("ij,j->i", backward, forward)
            doubtful |= norm < FAINT  # a state that was lost may matter now
            norm[doubtful] = 1.0
            marginal = forward * backward / norm[:, None] if beliefs else backward
            scale += np.log(norm) if len(scale) else 0.0
        else:
            parts = [out[edge] for edge in edges]
            forward = marginal = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
            backward = np.concatenate([np.full(out[edge].shape[1], 1 / out[edge].shape[1]) for edge in edges])
        unknown = np.broadcast_to(np.False_, (count, plan.edges))  # nobody asks where these messages come from
        shape = marginal.shape
        forward, backward = np.broadcast_to(forward, shape), np.broadcast_to(backward, shape)
        likelihood = scale if len(scale) else np.broadcast_to(0.0, count)
        buffers = Buffers(forward, backward, marginal, unknown, unknown, likelihood)
        if doubtful.any():
            buffers = Buffers(*(part.copy() for part in buffers))
        return self._judged(rows, buffers, doubtful)

    def _judged(self, rows: slice, buffers: Buffers, doubtful: np.ndarray) -> tuple[Buffers, np.ndarray]:
        """The messages with those of the judge where it has to decide, and where that was."""
        mine, where = self.prepared, np.flatnonzero(doubtful)
        if len(where):
            judge, blocks = self._judge(mine.evidence.take(rows).take(where))
            for block in blocks:
                for ours, theirs in zip(buffers, judge.propagate(block), strict=True):
                    if ours.size or not theirs.size:  # some programs leave marginals and the likelihood only
                        ours[where[block]] = theirs
        return buffers, doubtful

    def _judge(self, evidence: Evidence) -> tuple[Any, list[slice]]:
        """The judge with the doubtful rows before it, and the blocks in which it takes them."""
        mine = self.prepared
        prepared = mine.engine.judge.prepare(mine.plan, mine.programs, mine.program, evidence)
        size = prepared.rows_at_once
        blocks = [slice(start, min(start + size, evidence.rows)) for start in range(0, evidence.rows, size)]
        return prepared.load(self.values), blocks

    def round(self, before: Buffers) -> Buffers:
        """See `Loaded` of the package."""
        mine, rows = self.prepared, len(before.log_likelihood)
        read = np.concatenate([before.forward, before.backward], axis=1)
        known = np.zeros((rows, mine.tape.known_width), dtype=np.bool_)
        known[:, : 2 * mine.plan.edges] = np.concatenate([before.known_forward, before.known_backward], axis=1)
        return self._run(slice(0, rows), rows, read.ravel(), known, np.zeros(read.size), np.zeros_like(known))[0]

    def counts(self, rows: slice, weights: np.ndarray, expect: bool) -> BlockCounts:
        """See `Loaded` of the package. The counts are those of packs, posteriors, inner tables, and the judge's."""
        mine = self.prepared
        raw = mine.room()
        *counted, judged = self.parts_of(raw)
        if mine.lanes:
            return wide.counts(self, rows, weights, expect, raw)
        count = self._star_counts if mine.tape.is_star else self._tree_counts
        likelihood, doubtful = count(rows, mine.spread(weights), expect, *counted)
        impossible = [np.zeros(0, dtype=np.intp)]
        if doubtful.any():
            where = np.flatnonzero(doubtful)
            judge, blocks = self._judge(mine.evidence.take(rows).take(where))
            for block in blocks:
                found = judge.counts(block, weights[where[block]], expect)
                judged += found.values
                likelihood += found.log_likelihood
                impossible.append(where[block][found.impossible])
        return BlockCounts(raw, likelihood, np.concatenate(impossible))

    def release(self, counts: np.ndarray) -> None:
        """See `Loaded` of the package."""
        self.prepared.spare.append(counts)

    def settled(self, counts: np.ndarray, expect: bool) -> tuple[np.ndarray, float]:
        """See `Loaded` of the package."""
        plan, tape = self.prepared.plan, self.prepared.tape
        joint, posteriors, inner, judged = self.parts_of(counts)
        missing = 0.0
        if tape.is_star:
            tables = tape.regions[0].of(joint)
            missing = float(tables.sum(axis=1) @ self.joint.shifts) * LOG_TWO
            tables[tape.regions[0].packs[0].rows].sum(axis=0, out=posteriors)
        out = unpacked_counts(plan, tape.regions, joint, posteriors, self.prepared.program, self.values, expect)
        tables_end = plan.layout.tables_end
        inner[:tables_end] *= self.values[:tables_end]  # f b^T / norm meets the table
        out += inner
        out += judged
        self.release(counts)
        return out, missing

    def parts_of(self, raw: np.ndarray) -> list[np.ndarray]:
        """The counts of packs, posteriors, inner tables, and the judge's."""
        return [raw[a:b] for a, b in pairwise(self.prepared.parts.tolist())]

    def _star_counts(
        self, rows: slice, weights: np.ndarray, expect: bool, joint: np.ndarray, *_: np.ndarray
    ) -> tuple[float, np.ndarray]:
        doubtful = np.zeros(len(weights), dtype=np.bool_)
        likelihood = kernels.star(*self._star(rows), weights, doubtful, joint)
        return likelihood, doubtful

    def _star(self, rows: slice) -> tuple[Any, ...]:
        """What the kernels of a star begin with: its rows, its space and tables, what is known, and room to work in."""
        mine, region, (tables, _, deep) = self.prepared, self.prepared.tape.regions[0], self.joint
        stride = region.stride
        block = max(1, STAR_BYTES // (8 * stride))
        careful = np.empty(stride), np.empty(stride, dtype=np.int64)
        return (
            rows.stop - rows.start, block, np.uint64(region.states), np.uint64(stride), deep, self._base, tables,
            *mine.known(rows), *mine.on_hidden(rows), *careful, aligned_zeros(block * stride), np.empty(block),
            np.empty(block),
        )  # fmt: skip

    @cached_property
    def _behind(self) -> np.ndarray:
        """The columns of the table behind the leg of a star that is shown, each as long as a row of a joint table."""
        ray, region = self.prepared.ray, self.prepared.tape.regions[0]
        if ray is None or ray.leaf is None:
            return NOTHING
        table = self.prepared.plan.layout.table(self.values, ray.table)
        columns = np.zeros((table.shape[1], region.stride))
        columns[:, : region.states] = table.T
        return columns.ravel()

    @cached_property
    def _base(self) -> np.ndarray:
        ray = self.prepared.ray
        return base_of(self.prepared.plan, self.values, -1 if ray is None else ray.prior)

    def _tree_counts(
        self, rows: slice, weights: np.ndarray, expect: bool, *counts: np.ndarray
    ) -> tuple[float, np.ndarray]:
        work, known = self.prepared.workspace()
        found, doubtful = self._run(rows, self.prepared.block, work, known, work, known, weights, expect, counts)
        return float((weights * np.where(doubtful, 0.0, found.log_likelihood)).sum()), doubtful

    def hold(self, rows: slice) -> Held:
        """See `Loaded` of the package."""
        mine, plan = self.prepared, self.prepared.plan
        (buffers, doubtful), evidence = self._propagate(rows), mine.evidence.take(rows)

        def judged(where: np.ndarray) -> Iterator[tuple[slice, Any]]:
            if len(where):
                judge, blocks = self._judge(evidence.take(where))
                for block in blocks:
                    yield block, judge.hold(block)

        return held(plan, evidence, buffers, doubtful, judged)


def _plain(array: np.ndarray, dtype: type) -> np.ndarray:
    """Contiguous and writable: numba compiles a kernel anew for every other kind of array."""
    return np.require(array, dtype=dtype, requirements=["C", "W"])
