"""The reference engine: NumPy in the log domain, simple rather than fast; the other engines are tested against it.

Messages are logarithms and never normalised on the way, so nothing can underflow, an exact zero is -inf, and the
likelihood is the sum of forward times backward on any edge. It can count its multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .batched import Batched, batched_for
from .protocol import BACKWARD, DIVERT, FORWARD, SOURCE, Buffers, RowCounts
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

    into: list[np.ndarray]  # forward times evidence at the input, (rows, input states)
    back: list[np.ndarray]  # backward at the output, (rows, output states)
    known: list[np.ndarray]  # whether evidence lies behind it, (rows,)
    source: list[np.ndarray]  # (rows, states): of a Factor, the logarithm of its backward message
    log_likelihood: np.ndarray


class Reference:
    """The reference engine; `direct=True` computes each outgoing message of a Diverter as the product of all others.

    `largest=True` takes the largest where others add: messages are those of the likeliest states of everything else.
    `batched=True` finds marginals and likelihoods in the linear domain where that is as exact: see `batched`.
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
        """How many rows make a block."""
        shapes = self.plan.layout.table_shapes
        cells = max([self.plan.states, *self.plan.diverter_size, *(rows * columns for rows, columns in shapes)])
        return max(1, CELLS_AT_ONCE // int(cells))

    @property
    def blocks(self) -> list[slice]:
        """Return all rows in blocks."""
        return blocks_of_rows(self.evidence.rows, self.rows_at_once)

    def rest(self) -> None:
        """See `fgrn.engines.Prepared`: nothing is kept."""

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
        """Marginals and likelihoods in the linear domain; rows that could be lost there, in the log domain."""
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
            [state.into_reader(int(edge)) for edge in plan.siso_input],
            [state.backward[:, plan.columns(int(edge))].copy() for edge in plan.siso_output],
            [state.known_backward[:, edge].copy() for edge in plan.siso_output],
            [
                state.backward[:, plan.columns(edge)].copy() if factor else distribution(state.belief(edge))
                for edge, factor in zip(plan.source_edge.tolist(), plan.is_factor.tolist(), strict=True)
            ],
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


class State:
    """The log messages of a block of rows while a program runs; parallel rounds read those of the round `before`."""

    def __init__(
        self,
        engine: Reference,
        plan: Plan,
        values: np.ndarray,
        evidence: Evidence,
        before: Buffers | None = None,
    ) -> None:
        self.engine, self.plan, self.values, self.evidence = engine, plan, values, evidence
        rows = evidence.rows
        self.forward = np.zeros((rows, plan.states))
        self.backward = np.zeros((rows, plan.states))
        self.known_forward = np.zeros((rows, plan.edges), dtype=bool)
        self.known_backward = np.zeros((rows, plan.edges), dtype=bool)
        self.soft = {e: logarithm(evidence.weights(e, int(plan.cardinality[e]))) for e in self._edges_with_evidence()}
        for start in np.flatnonzero(~plan.driver).tolist():
            self.forward[:, plan.columns(start)] = -np.log(plan.cardinality[start])
        if before is None:
            self.old_forward, self.old_backward = self.forward, self.backward
            self.old_known_forward, self.old_known_backward = self.known_forward, self.known_backward
        else:
            self.old_forward = logarithm(before.forward)
            self.old_backward = logarithm(before.backward)
            for edge in range(plan.edges):  # an unknown backward message stands for ones
                self.old_backward[~before.known_backward[:, edge], plan.columns(edge)] = 0
            self.old_known_forward, self.old_known_backward = before.known_forward, before.known_backward

    def _edges_with_evidence(self) -> list[int]:
        return [int(edge) for edge in np.flatnonzero(self.evidence.slot >= 0)]

    def run(self, program: Program) -> None:
        """Run all steps of the program."""
        for edge in program.boundary:
            # a sum over all states of something unknown is one; the largest of them has to be found
            self._write_backward(int(edge), 0.0, np.full(self.evidence.rows, self.engine.largest))
        for kind, block, first, last in program.steps.tolist():
            STEPS[kind](self, block, program.targets[first:last].tolist(), program.gathered)

    def into_reader(self, edge: int) -> np.ndarray:
        """Return the message to the block that reads an edge: forward times the evidence on it."""
        message = self.old_forward[:, self.plan.columns(edge)]
        if edge in self.soft:
            self._count(self.plan.cardinality[edge], self.evidence.known(edge))
            message = message + self.soft[edge]
        return message

    def belief(self, edge: int) -> np.ndarray:
        """Return the logarithm of forward times backward of an edge."""
        columns = self.plan.columns(edge)
        out: np.ndarray = self.forward[:, columns] + self.backward[:, columns]
        return out

    def log_likelihood(self, program: Program) -> np.ndarray:
        """Return the log-likelihood of each row, from its roots."""
        total = np.zeros(self.evidence.rows)
        for edge in program.roots[:, 0]:
            total += self.engine.total(self.belief(int(edge)), axis=1)
        return total

    def buffers(self, program: Program, log_likelihood: np.ndarray) -> Buffers:
        """Return the messages that a program shows, each summing to one."""
        columns = [self.plan.columns(int(edge)) for edge in program.shown]
        parts = []
        for messages in (self.forward, self.backward, self.forward + self.backward):
            shown = [distribution(messages[:, place]) for place in columns]
            parts.append(np.concatenate(shown, axis=1) if shown else np.zeros((self.evidence.rows, 0)))
        forward, backward, marginal = parts
        return Buffers(forward, backward, marginal, self.known_forward, self.known_backward, log_likelihood)

    def _count(self, size: int, rows: np.ndarray) -> None:
        self.engine.multiplications += int(size) * int(np.count_nonzero(rows))

    def _write_backward(self, edge: int, message: np.ndarray | float, known: np.ndarray) -> None:
        columns = self.plan.columns(edge)
        self.backward[:, columns] = message
        self.known_backward[:, edge] = known
        if edge in self.soft:
            self.backward[:, columns] += self.soft[edge]
            self.known_backward[:, edge] |= self.evidence.known(edge)

    def table(self, siso: int) -> np.ndarray:
        """Return the logarithms of the table of a SISO."""
        return logarithm(self.plan.layout.table(self.values, int(self.plan.siso_table[siso])))

    def _source(self, source: int) -> None:
        edge = int(self.plan.source_edge[source])
        self.forward[:, self.plan.columns(edge)] = logarithm(self.plan.source_values(self.values, source))
        self.known_forward[:, edge] = self.plan.is_factor[source]

    def _siso_forward(self, siso: int) -> None:
        source, target = int(self.plan.siso_input[siso]), int(self.plan.siso_output[siso])
        table, message = self.table(siso), self.into_reader(source)
        self._count(table.size, np.ones(self.evidence.rows))
        self.forward[:, self.plan.columns(target)] = self.engine.total(message[:, :, None] + table[None], axis=1)
        self.known_forward[:, target] = self.old_known_forward[:, source] | self.evidence.known(source)

    def _siso_backward(self, siso: int) -> None:
        self._write_backward(int(self.plan.siso_input[siso]), *self._to_input(siso))

    def _to_input(self, siso: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute the message to the input of a SISO; ones in rows that have no evidence behind it."""
        output = int(self.plan.siso_output[siso])
        table = self.table(siso)
        known = self.old_known_backward[:, output]
        message = np.zeros((self.evidence.rows, len(table)))
        beyond = self.old_backward[known, self.plan.columns(output)]
        self._count(table.size, known)
        message[known] = self.engine.total(beyond[:, None, :] + table[None], axis=2)
        return message, known

    def incoming(self, diverter: int, gathered: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Return the message of each leg into a Diverter, over its product space; `gathered` leaves from tables."""
        for leg in self.plan.legs(diverter):
            edge, index = int(self.plan.leg_edge[leg]), self.plan.leg_index(diverter, leg)
            if self.plan.leg_is_input[leg]:
                message = self.into_reader(edge)
            elif gathered is not None and gathered[leg] >= 0:
                message, self.old_known_backward[:, edge] = self._leaf(int(gathered[leg]))
            else:
                message = self.old_backward[:, self.plan.columns(edge)]
            yield message if index is None else message[:, index]

    def _divert(self, diverter: int, targets: list[int], gathered: np.ndarray) -> None:
        legs = list(self.plan.legs(diverter))
        incoming = list(self.incoming(diverter, gathered))
        known, carries = [], []
        for leg in legs:
            edge = int(self.plan.leg_edge[leg])
            if self.plan.leg_is_input[leg]:
                known.append(self.old_known_forward[:, edge] | self.evidence.known(edge))
                carries.append(np.ones(self.evidence.rows, dtype=bool))
            else:
                known.append(self.old_known_backward[:, edge].copy())
                carries.append(known[-1])
        positions = [leg - legs[0] for leg in targets]
        products = self._direct if self.engine.direct else self._cascade
        tally = np.sum(known, axis=0)
        for position, product in zip(positions, products(incoming, carries, positions), strict=True):
            leg = legs[position]
            edge = int(self.plan.leg_edge[leg])
            others = tally > known[position]
            if self.plan.leg_axes[leg] is not None:  # sum the joint states that share a state of this leg
                product = self.engine.total(product[:, self.plan.leg_groups(diverter, leg)], axis=2)
            if self.plan.leg_is_input[leg]:
                product = np.where(others[:, None], product, 0.0)  # nothing known elsewhere: ones
                self._write_backward(edge, product, others)
            else:
                self.forward[:, self.plan.columns(edge)] = product
                self.known_forward[:, edge] = others

    def _leaf(self, siso: int) -> tuple[np.ndarray, np.ndarray]:
        output = int(self.plan.siso_output[siso])
        known = self.evidence.known(output)
        self.old_known_backward[:, output] = known
        if output in self.soft:
            self.old_backward[:, self.plan.columns(output)] = self.soft[output]
        return self._to_input(siso)

    def _cascade(self, incoming: list[np.ndarray], carries: list[np.ndarray], positions: list[int]) -> list[np.ndarray]:
        """Multiply all messages but one, for each position, by the paper's linear double cascade, without division."""
        size = incoming[0].shape[1]
        count = len(incoming)
        from_left: list[np.ndarray | None] = [None]
        for leg in range(max(positions)):
            left = from_left[-1]
            if left is not None:
                self._count(size, carries[leg])
            from_left.append(incoming[leg] if left is None else left + incoming[leg])
        from_right: list[np.ndarray | None] = [None] * count
        for leg in range(count - 1, min(positions), -1):
            right = from_right[leg]
            if right is not None:
                self._count(size, carries[leg])
            from_right[leg - 1] = incoming[leg] if right is None else right + incoming[leg]
        products = []
        for position in positions:
            left, right = from_left[position], from_right[position]
            if left is not None and right is not None:
                self._count(size, np.ones(len(left)))
                products.append(left + right)
            else:
                one = left if left is not None else right
                products.append(np.zeros_like(incoming[0]) if one is None else one)
        return products

    def _direct(self, incoming: list[np.ndarray], carries: list[np.ndarray], positions: list[int]) -> list[np.ndarray]:
        """Multiply all messages but one, for each position, by the product rule: M (M - 2) vector products in all."""
        products = []
        for position in positions:
            others = [leg for leg in range(len(incoming)) if leg != position]
            product = incoming[others[0]] if others else np.zeros_like(incoming[position])
            for leg in others[1:]:
                self._count(product.shape[1], carries[leg])
                product = product + incoming[leg]
            products.append(product)
        return products


STEPS: dict[int, Callable[[State, int, list[int], np.ndarray], None]] = {
    SOURCE: lambda state, source, legs, gathered: state._source(source),
    FORWARD: lambda state, siso, legs, gathered: state._siso_forward(siso),
    BACKWARD: lambda state, siso, legs, gathered: state._siso_backward(siso),
    DIVERT: State._divert,
}
"""The function for each kind of step: of the state, the number of the block, and the legs and leaves of a Diverter."""
