"""Messages and expected counts by the CPU engine: parameters laid out for kernels that are run on blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np

from . import clique_rows, kernels
from .cycles import TableMessages, counts_from_messages, table_messages, transposed_tables
from .kernels.arguments import RowBooks, ShownMessages, StarTables, Tables, Totals, Work
from .kernels.basics import FAINT
from .packs import Joint, aligned_zeros, load_joint, padded
from .protocol import PARTS, Buffers, EpochRequest, RowCounts
from .protocol import Loaded as AnyLoaded
from .row_blocks import in_order, put_together, sum_of_blocks
from .star_counts import counts_of_block, epochs_of_each
from .stars import ShownLeg

if TYPE_CHECKING:
    from .cpu import Prepared

NOTHING, NO_ROWS = np.zeros(0), np.zeros(0, dtype=np.intp)


class Loaded:
    """Parameters laid out for a tape, with the joint tables of packed leaves."""

    def __init__(self, prepared: Prepared, values: np.ndarray) -> None:
        plan, tape = prepared.plan, prepared.tape
        self.prepared = prepared
        self.by_fallback: dict[int, np.ndarray] = {}  # counts of the fallback by the first row of a block
        self.values = np.array(values, dtype=np.float64)
        self.with_products, self.is_deep = self.values, False
        if tape.products:
            self.with_products, self.is_deep = tape.multiplied.of(plan, tape.products, values)

    @cached_property
    def joint(self) -> Joint:
        """The joint tables of packed leaves."""
        mine = self.prepared
        return load_joint(mine.packing, self.values, mine.maps, mine.tape.joint_size)

    @cached_property
    def transposed(self) -> np.ndarray:
        """The parameters with every table transposed; as they are if no message goes through a table."""
        return (
            self.values
            if not len(self.prepared.plan.siso_table)
            else transposed_tables(self.prepared.plan, self.values)
        )

    @cached_property
    def tables(self) -> Tables:
        """The parameters as the kernels of trees and junction trees take them."""
        tables, shifts, deep, _ = self.joint
        return Tables(self.with_products, self.transposed, tables, shifts, deep, self.prepared.maps)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        mine = self.prepared

        def work(rows: slice, room: dict[str, np.ndarray]) -> Buffers:
            return self._propagate(rows, room)[0]

        shape = (mine.evidence.rows, mine.width, mine.plan.edges)
        return put_together(mine.threads, work, mine.blocks, shape, parts)

    def _propagate(
        self, rows: slice, room: dict[str, np.ndarray] | None = None, spare: TableMessages | None = None
    ) -> tuple[Buffers, np.ndarray]:
        """Return the messages of a block, in the arrays of `room`, and which rows the fallback engine computed.

        `spare` are messages of the same rows whose memory may be used again.
        """
        mine = self.prepared
        if mine.shown_leg is not None:
            buffers, doubtful = self._leg_messages(mine.shown_leg, rows, room)
        elif mine.kernel == "lanes":
            return clique_rows.messages(self, rows, room or {})
        else:
            work, known = mine.workspace()
            buffers, doubtful = self._run(rows, mine.block, work, known, work, known, spare=spare)
        where = np.flatnonzero(doubtful)
        if len(where):
            for ours, theirs in zip(buffers, self._fallback(rows, where).propagate(PARTS), strict=True):
                if ours.size or not theirs.size:  # some programs leave marginals and the likelihood only
                    ours[where] = theirs
        return buffers, doubtful

    def _fallback(self, rows: slice, where: np.ndarray) -> AnyLoaded:
        """Return the fallback engine loaded with the rows of a block that underflowed."""
        mine = self.prepared
        evidence, weights = mine.evidence.take(rows).take(where), mine.weights[rows][where]
        prepared = mine.engine.fallback.prepare(mine.plan, mine.programs, mine.program, evidence, weights, 1)
        return prepared.load(self.values)

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
        spare: TableMessages | None = None,
    ) -> tuple[Buffers, np.ndarray]:
        """Run the tape on some rows, and count if there are weights; returns shown messages and underflowed rows."""
        mine, tape, places = self.prepared, self.prepared.tape, self.prepared.tapes.places
        count, edges, width = rows.stop - rows.start, mine.plan.edges, mine.width
        if spare is None:
            forward, backward = (np.empty((count, width if len(places) else 0)) for _ in range(2))
            marginal = np.empty((count, width))
        else:
            forward, backward, marginal = spare.into, spare.back, spare.belief
        known_forward, known_backward = np.zeros((2, count if len(places) else 0, edges), dtype=np.bool_)
        scale, rest, margin = np.zeros(count), np.ones(count), np.full(count, np.inf)
        doubtful = np.full(count, self.is_deep)
        products = (tape.most_targets + 1) * tape.largest_space
        longest = max(padded(tape.largest_space), tape.largest_message)
        kernels.tree(
            mine.tapes, count, block, self.tables, mine.known_rows(rows),
            Work(
                np.uint64(tape.width), read, write, known_in, known_out, np.empty(products),
                np.empty(products, dtype=np.int64), aligned_zeros(longest), np.empty(block),
            ),
            RowBooks(scale, rest, margin, doubtful),
            ShownMessages(
                np.uint64(width), edges, forward.ravel(), backward.ravel(), marginal.ravel(), known_forward,
                known_backward,
            ),
            Totals(weights, expect, *counts),
        )  # fmt: skip
        scale += np.log(rest)
        return Buffers(forward, backward, marginal, known_forward, known_backward, scale), doubtful

    def _leg_messages(
        self, shown_leg: ShownLeg, rows: slice, room: dict[str, np.ndarray] | None
    ) -> tuple[Buffers, np.ndarray]:
        """Return the messages on the only leg of a star that is shown; see `stars`."""
        mine, plan = self.prepared, self.prepared.plan
        count = rows.stop - rows.start
        beliefs = room is None or "marginal" in room
        room = {"log_likelihood": np.empty(count)} if room is None else room
        scale = room.get("log_likelihood", NOTHING)
        rest, doubtful = np.ones(len(scale)), np.zeros(count, dtype=np.bool_)
        edges = mine.program.shown.tolist()
        way = "backward" if shown_leg.prior >= 0 else "forward" if "forward" in room else "marginal"
        out = {}
        for edge in edges:
            behind = edge == shown_leg.leaf
            states = int(plan.cardinality[edge])
            message = room[way] if len(edges) == 1 and way in room else np.empty((count, states))
            work, careful = mine.star_work()
            kernels.star_messages(
                count, mine.star_rows(rows), self._star, work, careful, self._behind,
                np.uint64(states if behind else 0), scale, rest, doubtful, message.ravel(),
            )  # fmt: skip
            mine.done_with(work, careful)
            out[edge] = message
        scale += np.log(rest)
        if shown_leg.prior >= 0:
            forward, backward = plan.source_values(self.values, shown_leg.prior), out[shown_leg.leg]
            norm = np.einsum("ij,j->i", backward, forward)
            doubtful |= norm < FAINT  # a state that was lost may matter now
            norm[doubtful] = 1.0
            marginal = forward * backward / norm[:, None] if beliefs else backward
            scale += np.log(norm) if len(scale) else 0.0
        else:
            parts = [out[edge] for edge in edges]
            forward = marginal = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
            backward = np.concatenate([np.full(out[edge].shape[1], 1 / out[edge].shape[1]) for edge in edges])
        unknown = np.broadcast_to(np.False_, (count, plan.edges))  # the origin of these messages is not used
        shape = marginal.shape
        forward, backward = np.broadcast_to(forward, shape), np.broadcast_to(backward, shape)
        likelihood = scale if len(scale) else np.broadcast_to(0.0, count)
        buffers = Buffers(forward, backward, marginal, unknown, unknown, likelihood)
        if doubtful.any():
            buffers = Buffers(*(part.copy() for part in buffers))
        return buffers, doubtful

    def round(self, before: Buffers) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        mine, rows = self.prepared, len(before.log_likelihood)
        read = np.concatenate([before.forward, before.backward], axis=1)
        known = np.zeros((rows, mine.tape.known_width), dtype=np.bool_)
        known[:, : 2 * mine.plan.edges] = np.concatenate([before.known_forward, before.known_backward], axis=1)
        return self._run(slice(0, rows), rows, read.ravel(), known, np.zeros(read.size), np.zeros_like(known))[0]

    def counts(self, expect: bool) -> RowCounts:
        """See `fgrn.engines.Loaded`."""
        mine, disk = self.prepared, self.prepared.evidence.disk

        def after(counts: np.ndarray) -> None:
            mine.spare.append(counts)
            if disk is not None:
                disk.release()

        if mine.counts_together and (alone := epochs_of_each(mine, [EpochRequest(self.values)], expect, None)[0]):
            return alone[0].counts
        mine.has_faint_rows = False  # a block with such a row says so
        found = sum_of_blocks(mine.threads, lambda rows: self.counts_of(rows, expect), mine.blocks, after)
        if found is None:
            return RowCounts(np.zeros(mine.plan.layout.size), 0.0, NO_ROWS)
        values, missing = self._unpacked(found.values, expect)
        for first in sorted(self.by_fallback):
            values += self.by_fallback.pop(first)
        mine.spare.append(found.values)
        return RowCounts(values, found.log_likelihood + missing, found.impossible)

    def counts_of(self, rows: slice, expect: bool) -> RowCounts:
        """Return the expected counts of a block (packs, posteriors, inner tables) without rows that may underflow."""
        mine = self.prepared
        raw = mine.zeros()
        if mine.kernel == "lanes":
            return clique_rows.counts(self, rows, expect, raw)
        count = self._star_counts if mine.kernel == "star" else self._tree_counts
        likelihood, where = count(rows, expect, *self.parts_of(raw))
        if not len(where):
            return RowCounts(raw, likelihood, where)
        found = self._fallback(rows, where).counts(expect)
        self.by_fallback[rows.start] = found.values
        return RowCounts(raw, likelihood + found.log_likelihood, where[found.impossible])

    def _unpacked(self, counts: np.ndarray, expect: bool) -> tuple[np.ndarray, float]:
        """Return the counts of all blocks in the plan's layout, and the rest of the log-likelihood."""
        mine, layout = self.prepared, self.prepared.plan.layout
        joint, posteriors, inner = self.parts_of(counts)
        out, is_star = np.zeros(layout.size), mine.tape.is_star
        packing, missing = mine.packing.packing, 0.0
        if len(packing.packs) or len(packing.unknown):
            missing = kernels.unpacked(
                packing, joint.reshape(1, -1), posteriors, self.joint.shifts, self.values, mine.maps, expect, is_star,
                np.empty(len(packing.packs)), out, np.empty(mine.packing.folded),
            )  # fmt: skip
        else:
            kernels.prior_counts(packing.sources, posteriors, mine.maps, out)
        if not is_star:
            inner[: layout.tables_end] *= self.values[: layout.tables_end]  # f b^T / norm meets the table
            out += inner
        return out, missing

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """See `fgrn.engines.Loaded`."""
        mine, blocks = self.prepared, self.prepared.blocks
        held: dict[int, TableMessages] = {}
        if hold:
            spare = mine.spare_messages()
            made = in_order(mine.threads, lambda rows: self._table_messages(rows, spare.get(rows.start)), blocks)
            held = {rows.start: messages for rows, messages in zip(blocks, made, strict=True)}

        def again(tables: np.ndarray) -> RowCounts:
            def work(rows: slice) -> RowCounts:
                messages = held[rows.start] if hold else self._table_messages(rows)

                def by_reference(where: np.ndarray) -> RowCounts:
                    return self._fallback(rows, where).recounting(False, expect)(tables)

                return counts_from_messages(mine.plan, messages, tables, mine.weights[rows], expect, by_reference)

            nothing = RowCounts(np.zeros(mine.plan.layout.size), 0.0, NO_ROWS)
            return sum_of_blocks(mine.threads, work, blocks) or nothing

        if hold:  # the next epoch uses the memory again: fresh memory takes a third of the time of five cycles
            finalize(again, mine.held.append, held).atexit = False
        return again

    def _table_messages(self, rows: slice, spare: TableMessages | None = None) -> TableMessages:
        buffers, doubtful = self._propagate(rows, spare=spare)
        return table_messages(self.prepared.plan, self.prepared.evidence.take(rows), buffers, doubtful)

    def parts_of(self, raw: np.ndarray) -> list[np.ndarray]:
        """Split a vector of counts into those of packs, posteriors, and inner tables."""
        return [raw[part] for part in self.prepared.parts]

    def _star_counts(self, rows: slice, expect: bool, joint: np.ndarray, *_: np.ndarray) -> tuple[float, np.ndarray]:
        return counts_of_block(self.prepared, rows, self._star, joint)

    @cached_property
    def _star(self) -> StarTables:
        tables, shifts, deep, base = self.joint
        return StarTables(*self.prepared.star_sizes, deep, base, tables, shifts)

    @cached_property
    def _behind(self) -> np.ndarray:
        """Return the columns of the table of the shown leg of a star, each as long as a row of a joint table."""
        shown_leg, region = self.prepared.shown_leg, self.prepared.tape.regions[0]
        if shown_leg is None or shown_leg.leaf is None:
            return NOTHING
        table = self.prepared.plan.layout.table(self.values, shown_leg.table)
        columns = np.zeros((table.shape[1], region.stride))
        columns[:, : region.states] = table.T
        return columns.ravel()

    def _tree_counts(self, rows: slice, expect: bool, *counts: np.ndarray) -> tuple[float, np.ndarray]:
        work, known = self.prepared.workspace()
        weights = self.prepared.weights_of(rows)
        found, doubtful = self._run(rows, self.prepared.block, work, known, work, known, weights, expect, counts)
        likelihood = float((weights * np.where(doubtful, 0.0, found.log_likelihood)).sum())
        return likelihood, np.flatnonzero(doubtful)
