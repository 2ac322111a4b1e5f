"""The reference engine: NumPy in the log domain, simple rather than fast; the other engines are tested against it.

Messages are logarithms and never normalised on the way, so nothing can underflow, an exact zero is -inf, and the
likelihood is the sum of forward times backward on any edge. It can count its multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .batched import Batched, batched_for
from .log_state import State
from .protocol import Buffers, RowCounts
from .row_blocks import blocks_of_rows, put_together, sum_of_blocks
from .scanners import BlockScanner, scan_in_logarithms
from .scans import best_path, distribution, log_sum, logarithm
from .tracing import Choice, traced

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

CELLS_AT_ONCE = 2**20
"""Cells of the largest temporary array, (rows, input states, output states): 8 MiB."""

NOTHING = np.zeros((0, 0))


class LogMessages(NamedTuple):
    """Logarithms of the messages at both ends of every SISO and Factor, and the posterior of every other Source."""

    into: tuple[np.ndarray, ...]  # forward times evidence at the input, (rows, input states)
    back: tuple[np.ndarray, ...]  # backward at the output, (rows, output states)
    known: tuple[np.ndarray, ...]  # whether evidence lies behind it, (rows,)
    source: tuple[np.ndarray, ...]  # (rows, states): of a Factor, the logarithm of its backward message
    log_likelihood: np.ndarray


class Reference:
    """The reference engine; `direct=True` computes each outgoing message of a Diverter as the product of all others.

    `largest=True` maximises instead of summing (max-product messages).
    `batched=True` computes marginals and likelihoods in the linear domain where that is as exact: see `batched`.
    """

    name = "reference"
    all_messages_up_to = 0

    def __init__(self, direct: bool = False, largest: bool = False, batched: bool = False) -> None:
        self.direct, self.largest, self.batched = direct, largest, batched
        self.multiplications = 0

    def total(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return the logarithm of a sum over states, or of the maximum if `largest`."""
        out: np.ndarray = values.max(axis=axis) if self.largest else log_sum(values, axis)
        return out

    def prepare(
        self,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None = None,
        threads: int | None = None,
    ) -> Prepared:
        """See `fgrn.engines.Engine`; one thread is used, since more would not be faster."""
        return Prepared(self, plan, programs, program, evidence, weights)

    def best_path(
        self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, which: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `fgrn.engines.Engine`."""
        return best_path(prior, table, local if which is None else local[which], begins)

    def scanner(self, begins: np.ndarray, states: int, threads: int | None = None) -> BlockScanner:
        """See `fgrn.engines.Engine`; all rows at once, in the log domain."""
        return BlockScanner(begins, states, 1, scan_in_logarithms, blocks=1)

    def logs(
        self, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, edges: Sequence[int], whole: bool
    ) -> list[np.ndarray]:
        """Return the logarithms of forward times backward (`whole`) or of the backward messages of some edges.

        Each is (rows, states), and not normalised: nothing is ever lost.
        """
        program = programs.ungathered(edges, whole)
        prepared = self.prepare(plan, programs, program, evidence)
        loaded, out = prepared.load(values), [np.empty((evidence.rows, int(plan.cardinality[edge]))) for edge in edges]
        for first in range(0, evidence.rows, prepared.rows_at_once):
            rows = slice(first, min(first + prepared.rows_at_once, evidence.rows))
            state = loaded._state(rows)
            state.run(program)
            for edge, room in zip(edges, out, strict=True):
                room[rows] = state.belief(edge) if whole else state.backward[:, plan.columns(edge)]
        return out


class Prepared:
    """Rows for the reference engine, which needs no layout."""

    kernel, threads = "log domain", 1

    def __init__(
        self,
        engine: Reference,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None,
    ) -> None:
        self.engine, self.plan, self.programs, self.program = engine, plan, programs, program.plain or program
        self.evidence, self._given_weights = evidence, weights

    @cached_property
    def weights(self) -> np.ndarray:
        """The weight of each row, 1 unless given."""
        return np.broadcast_to(1.0, self.evidence.rows) if self._given_weights is None else self._given_weights

    @cached_property
    def rows_at_once(self) -> int:
        """The number of rows of a block."""
        shapes = self.plan.layout.table_shapes
        cells = max([self.plan.states, *self.plan.diverter_size, *(rows * columns for rows, columns in shapes)])
        return max(1, CELLS_AT_ONCE // int(cells))

    @property
    def blocks(self) -> list[slice]:
        """Return all rows in blocks."""
        return blocks_of_rows(self.evidence.rows, self.rows_at_once)

    def free_memory(self) -> None:
        """See `fgrn.engines.Prepared`: there is nothing to free."""

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return Loaded(self, values)


class Loaded:
    """Rows and parameters for the reference engine, which needs no layout."""

    def __init__(self, prepared: Prepared, values: np.ndarray) -> None:
        self.prepared, self.values = prepared, values

    def _state(self, rows: slice | None = None, before: Buffers | None = None) -> State:
        mine = self.prepared
        evidence = mine.evidence if rows is None else mine.evidence.take(rows)
        return State(mine.engine, mine.plan, self.values, evidence, before)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        mine = self.prepared
        if mine.engine.batched and {*parts} <= {"marginal", "likelihood"}:
            batched = batched_for(mine.plan, mine.program, mine.evidence)
            if batched is not None:
                return self._batched(batched, parts)
        return self._in_logarithms(parts)

    def _batched(self, batched: Batched, parts: Collection[str]) -> Buffers:
        """Return marginals and likelihoods in the linear domain; rows that may underflow, in the log domain."""
        evidence, rows_at_once = self.prepared.evidence, max(1, CELLS_AT_ONCE // batched.cells)
        if evidence.rows <= rows_at_once:
            marginal, likelihood, doubtful = batched.beliefs(self.values, evidence)
        else:
            blocks = blocks_of_rows(evidence.rows, rows_at_once)
            found = zip(*(batched.beliefs(self.values, evidence.take(rows)) for rows in blocks), strict=True)
            marginal, likelihood, doubtful = map(np.concatenate, found)
        if doubtful.any():
            where = np.flatnonzero(doubtful)
            mine = self.prepared
            some = Prepared(mine.engine, mine.plan, mine.programs, mine.program, evidence.take(where), None)
            exact = Loaded(some, self.values)._in_logarithms(["marginal", "likelihood"])
            marginal[where], likelihood[where] = exact.marginal, exact.log_likelihood
        return Buffers(NOTHING, NOTHING, marginal, NOTHING, NOTHING, likelihood)

    def _in_logarithms(self, parts: Collection[str]) -> Buffers:
        mine = self.prepared

        def work(rows: slice, room: dict[str, np.ndarray]) -> Buffers:
            state = self._state(rows)
            state.run(mine.program)
            return state.buffers(mine.program, state.log_likelihood(mine.program))

        shape = (mine.evidence.rows, int(mine.plan.cardinality[mine.program.shown].sum()), mine.plan.edges)
        return put_together(1, work, mine.blocks, shape, parts)

    def round(self, before: Buffers) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        state, program = self._state(before=before), self.prepared.program
        state.run(program)
        return state.buffers(program, np.zeros(len(before.log_likelihood)))

    def counts(self, expect: bool) -> RowCounts:
        """See `fgrn.engines.Loaded`."""
        return self.recounting(False, expect)(self.values)

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """See `fgrn.engines.Loaded`."""
        mine = self.prepared
        held = {rows.start: self._log_messages(rows) for rows in mine.blocks} if hold else {}

        def recount(tables: np.ndarray) -> RowCounts:
            def work(rows: slice) -> RowCounts:
                messages = held[rows.start] if hold else self._log_messages(rows)
                return counts_of_messages(mine.plan, messages, tables, mine.weights[rows], expect)

            def after(_: np.ndarray) -> None:
                if mine.evidence.disk is not None:
                    mine.evidence.disk.release()

            nothing = RowCounts(np.zeros(mine.plan.layout.size), 0.0, np.zeros(0, dtype=np.intp))
            return sum_of_blocks(1, work, mine.blocks, after) or nothing

        return recount

    def trace(self, rows: slice, which: np.ndarray, choose: Choice) -> tuple[np.ndarray, np.ndarray]:
        """Return a state for every edge, chosen outwards from the root (see `tracing`), and log-likelihoods of rows."""
        program = self.prepared.programs.inward
        state = self._state(rows)
        state.run(program)
        likelihood = state.log_likelihood(program)
        impossible = np.isneginf(likelihood[which])
        return traced(state, which[~impossible], choose), likelihood

    def _log_messages(self, rows: slice) -> LogMessages:
        """Return the messages at both ends of every table, of some rows."""
        plan, program = self.prepared.plan, self.prepared.programs.everything
        state = self._state(rows)
        state.run(program)
        return LogMessages(
            tuple(state.into_reader(int(edge)) for edge in plan.siso_input),
            tuple(state.backward[:, plan.columns(int(edge))].copy() for edge in plan.siso_output),
            tuple(state.known_backward[:, edge].copy() for edge in plan.siso_output),
            tuple(
                state.backward[:, plan.columns(edge)].copy() if factor else distribution(state.belief(edge))
                for edge, factor in zip(plan.source_edge.tolist(), plan.is_factor.tolist(), strict=True)
            ),
            state.log_likelihood(program),
        )


def counts_of_messages(
    plan: Plan, messages: LogMessages, values: np.ndarray, weights: np.ndarray, expect: bool
) -> RowCounts:
    """Return the expected counts of rows from the messages at both ends of every table."""
    counts = np.zeros(plan.layout.size)
    for siso, table in enumerate(plan.siso_table):
        rows = weights if expect else weights * messages.known[siso]
        log_table = logarithm(plan.layout.table(values, int(table)))
        joint = messages.into[siso][:, :, None] + log_table[None] + messages.back[siso][:, None, :]
        shape = joint.shape
        share = distribution(joint.reshape(shape[0], -1)).reshape(shape)
        plan.layout.table(counts, int(table))[...] += np.tensordot(rows, share, 1)
    for source in range(len(plan.source_edge)):
        share = messages.source[source]
        if plan.is_factor[source]:
            share = distribution(share + logarithm(plan.source_values(values, source)))
        plan.source_values(counts, source)[...] += weights @ share
    return RowCounts.of_rows(counts, messages.log_likelihood, weights)
