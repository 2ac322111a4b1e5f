"""Marginals of small networks in the linear domain: all messages of equal depth are one NumPy operation.

The cost of a few rows is the number of operations, not of cells. Only the messages that the wanted marginals need are
made: depth by depth, from the far ends of the tree towards the wanted variables. Each is a sum over the joint states of
a block of a product of what comes in,

    message[state] = sum over joint states with that state of table * product of incoming messages,

and messages are not normalised on the way. Where the parameters are so small that a product of them could underflow, a
row with a result that is not far above what could be lost is left to the log domain; so is an impossible row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence

LEAST_SAFE, MOST_SAFE = 1e-288, 1e280
"""Between these a result has all its digits, where no message exceeds 1: underflow takes away less than 1e-307."""

MOST_GROWTH = log(1e150)
"""The logarithm of the largest number that messages could grow to; more, and most rows would be left to the log domain.
"""

MOST_LOADED = 4
"""Vectors of parameters whose products are kept: models of one structure may be asked in turns."""


@dataclass(eq=False)
class MessageSums:
    """The sums that compute all messages of one depth: the positions of their terms and of the results."""

    messages: np.ndarray  # (factors, cells)
    values: np.ndarray  # (factors, cells), into the parameters with a one at their end
    scale: np.ndarray  # (cells,)
    starts: np.ndarray | None  # where the cells of each state begin; None if each state has one
    targets: np.ndarray

    def factors_of(self, values: np.ndarray) -> np.ndarray:
        """The product of the parameters of each cell, (cells,)."""
        product: np.ndarray = np.multiply.reduce(values[self.values], axis=0) * self.scale
        return product

    def of(self, messages: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the sums, (rows, states)."""
        terms = messages.take(self.messages, axis=1)
        product = np.multiply.reduce(terms, axis=1) if len(self.messages) > 1 else terms[:, 0]
        product *= factors
        return product if self.starts is None else np.add.reduceat(product, self.starts, axis=1)


class Factors(NamedTuple):
    """The products of parameters that occur in the sums of a network, for given parameters.

    of_sums            the product of the parameters of each cell of each sum
    least              a result that is not less has all its digits
    has_no_underflow   whether every product of parameters is zero or large enough
    """

    of_sums: tuple[np.ndarray, ...]
    least: float
    has_no_underflow: bool


@dataclass(eq=False)
class Batched:
    """The sums that compute the marginals shown by a program, by depth, for any evidence on the same variables.

    width      of the messages of one row: forward and backward ones of all edges, those of the evidence on edges that
               some block reads, and a one
    depths     what is summed, in order; the last are the beliefs
    growth     the logarithm of the largest number a belief can be, if no parameter exceeds 1
    """

    plan: Plan
    width: int
    depths: list[MessageSums]
    growth: float
    observable: _Observable
    edge_starts: np.ndarray  # where the beliefs of each edge begin
    edge_of: np.ndarray  # the edge of each cell of the beliefs, by position
    shown: int  # cells of the beliefs that are shown; the rest are for the likelihood
    pieces: np.ndarray  # positions of edges, one in each connected piece
    _loaded: deque[tuple[np.ndarray, Factors]] = field(default_factory=lambda: deque(maxlen=MOST_LOADED), repr=False)

    @cached_property
    def cells(self) -> int:
        """The cells of the largest array for one row."""
        return max(self.width, max(sums.messages.size for sums in self.depths))

    def loaded(self, values: np.ndarray) -> Factors:
        """Return the products of these parameters, which are cached for the next calls."""
        for kept, found in tuple(self._loaded):
            if kept is values:
                return found
        plan, ended = self.plan, np.append(values, 1.0)
        tables = [plan.layout.table(values, table) for table in plan.siso_table.tolist()]
        tables += [plan.source_values(values, source) for source in range(len(plan.source_edge))]
        smallest = sum(log(table[table > 0].min(initial=1.0)) for table in tables)
        growth = self.growth + len(tables) * log(ended.max())
        found = Factors(
            tuple(sums.factors_of(ended) for sums in self.depths),
            LEAST_SAFE * exp(growth) if growth < MOST_GROWTH else np.inf,
            smallest > log(LEAST_SAFE),
        )
        if not values.flags.writeable:
            self._loaded.append((values, found))
        return found

    def beliefs(self, values: np.ndarray, evidence: Evidence) -> tuple[np.ndarray, ...]:
        """Return marginals side by side, log-likelihoods, and the rows that may have underflowed and are invalid."""
        factors, least, has_no_underflow = self.loaded(values)
        messages = np.ones((evidence.rows, self.width))
        self.observable.write(evidence, messages)
        with np.errstate(all="ignore"):
            for sums, factor in zip(self.depths[:-1], factors, strict=False):
                messages[:, sums.targets] = sums.of(messages, factor)
            joint = self.depths[-1].of(messages, factors[-1])
            norms = np.add.reduceat(joint, self.edge_starts, axis=1)
            safe = (norms > 0) & (norms <= MOST_SAFE)
            if not has_no_underflow or evidence.soft.shape[1]:
                safe &= np.minimum.reduceat(joint, self.edge_starts, axis=1) >= least
            marginal = (joint / norms.take(self.edge_of, axis=1))[:, : self.shown]
            likelihood = np.log(norms.take(self.pieces, axis=1)).sum(axis=1)
        return marginal, likelihood, ~np.logical_and.reduce(safe, axis=1)


class _Observable(NamedTuple):
    """The cells of messages that hold evidence: those of edges that no block reads, or that have evidence."""

    edges: np.ndarray  # (cells,)
    states: np.ndarray
    places: np.ndarray

    def write(self, evidence: Evidence, messages: np.ndarray) -> None:
        """Write the evidence on the variables: 1 for a possible state, 0 for others, or its distribution."""
        if not evidence.codes.shape[1]:
            return
        slot = evidence.slot.take(self.edges)
        codes = evidence.codes.take(slot, axis=1)
        messages[:, self.places] = (codes == self.states) | (codes < 0) | (slot < 0)
        for edge in np.flatnonzero(evidence.soft_offset >= 0).tolist() if evidence.soft.shape[1] else ():
            places = self.places[self.edges == edge]
            messages[:, places] = evidence.weights(edge, len(places))


_written: WeakKeyDictionary[Program, dict[bytes, Batched | None]] = WeakKeyDictionary()


def batched_for(plan: Plan, program: Program, evidence: Evidence) -> Batched | None:
    """Return the sums for the marginals that a program shows; None if they could underflow in the linear domain."""
    read = (evidence.slot >= 0) & plan.reader
    key = read.tobytes()
    found = _written.setdefault(program, {})
    if key not in found:
        made = _Needed(plan, program.shown.tolist(), read).written() if plan.is_tree else None
        found[key] = made if made is not None and made.growth < MOST_GROWTH else None
    return found[key]


class _Message(NamedTuple):
    """One directed message: on which edge, and whether it is the forward one."""

    edge: int
    is_forward: bool


@dataclass(eq=False)
class _Terms:
    """The terms of one message or belief: a cell for each joint state, grouped by the state of the result."""

    cells_by_state: np.ndarray  # (states, cells of each)
    messages: list[np.ndarray] = field(default_factory=list)  # places among the messages, each (cells,)
    values: list[np.ndarray] = field(default_factory=list)  # places among the parameters
    scale: float = 1.0
    sums_to_one: bool = False  # the parameters of each state: those of a row of a table
    reads: list[_Message] = field(default_factory=list)  # messages that have to be made before
    target: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


class _Needed:
    """Finds which messages are needed for some beliefs, and the depth of each."""

    def __init__(self, plan: Plan, shown: Sequence[int], read_evidence: np.ndarray) -> None:
        self.plan, self.shown = plan, shown
        self.source_of = plan.source_of
        self.siso_to = {edge: siso for siso, edge in enumerate(plan.siso_output.tolist())}
        self.siso_from = {edge: siso for siso, edge in enumerate(plan.siso_input.tolist())}
        owners = np.repeat(np.arange(plan.diverters), np.diff(plan.leg_start)).tolist()
        legs = list(zip(plan.leg_edge.tolist(), plan.leg_is_input.tolist(), owners, strict=True))
        self.leg_to = {edge: (owner, leg) for leg, (edge, is_input, owner) in enumerate(legs) if not is_input}
        self.leg_from = {edge: (owner, leg) for leg, (edge, is_input, owner) in enumerate(legs) if is_input}
        self.evidence_at: dict[int, int] = {}  # of edges that some block reads
        self.one = 2 * plan.states
        for edge in np.flatnonzero(read_evidence).tolist():
            self.evidence_at[edge] = self.one
            self.one += int(plan.cardinality[edge])
        self.made: dict[_Message, _Terms] = {}
        self.depth: dict[_Message, int] = {}
        self.growth: dict[_Message, float] = {}

    def written(self) -> Batched:
        """Return the sums of all messages that are needed, by depth, and of the beliefs."""
        plan, piece_of = self.plan, self._pieces()
        seen = {piece_of.get(edge) for edge in self.shown}
        others = {piece: edge for edge, piece in reversed(piece_of.items()) if piece not in seen}
        edges = [*self.shown, *others.values()]
        beliefs = [self._belief(edge) for edge in edges]
        for terms in beliefs:
            for message in terms.reads:
                self._make(message)
        by_depth: dict[int, list[_Terms]] = {}
        for message, depth in self.depth.items():
            by_depth.setdefault(depth, []).append(self.made[message])
        depths = [self._side_by_side(by_depth[depth]) for depth in sorted(by_depth)]
        sizes = plan.cardinality[edges]
        first = {piece_of[edge]: position for position, edge in enumerate(edges) if edge in piece_of}
        return Batched(
            plan, self.one + 1, [*depths, self._side_by_side(beliefs)], max(map(self._growth, beliefs)),
            self._observable(), np.cumsum(sizes) - sizes, np.repeat(np.arange(len(edges)), sizes),
            int(sizes[: len(self.shown)].sum()), np.array([*first.values()]),
        )  # fmt: skip

    def _pieces(self) -> dict[int, int]:
        """Return the number of the connected component of each edge that some block is connected to."""
        found: dict[int, int] = {}
        piece = -1
        for kind, block, parent in self.plan.order:
            piece += parent < 0
            found.update((edge, piece) for edge in self.plan.ends(kind, block))
        return found

    def _make(self, wanted: _Message) -> None:
        """Add a message and all that it depends on, with a stack instead of recursion, since networks may be deep."""
        stack = [wanted]
        while stack:
            message = stack[-1]
            if message not in self.made:
                self.made[message] = self._terms(message)
            terms = self.made[message]
            waiting = [read for read in terms.reads if read not in self.depth]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.depth[message] = 1 + max((self.depth[read] for read in terms.reads), default=0)
            self.growth[message] = self._growth(terms)

    def _growth(self, terms: _Terms) -> float:
        """Return the logarithm of the largest possible sum, if no parameter and no evidence exceeds 1."""
        cells = 0.0 if terms.sums_to_one else log(terms.cells_by_state.shape[1])
        return cells + sum(self.growth[read] for read in terms.reads)

    def _terms(self, message: _Message) -> _Terms:
        """Return the terms whose sum is a message."""
        edge, is_forward = message
        siso = (self.siso_to if is_forward else self.siso_from).get(edge)
        if siso is None:
            terms = self._at_diverter(*(self.leg_to if is_forward else self.leg_from)[edge], edge)
        else:
            rows, columns = self.plan.layout.table_shapes[self.plan.siso_table[siso]]
            table = np.arange(rows * columns).reshape(rows, columns)
            terms = _Terms(table.T if is_forward else table, sums_to_one=not is_forward)
            cells = terms.cells_by_state.ravel()
            terms.values.append(int(self.plan.layout.table_offsets[self.plan.siso_table[siso]]) + cells)
            if is_forward:
                self._read_forward(terms, int(self.plan.siso_input[siso]), cells // columns)
            else:
                self._read_backward(terms, int(self.plan.siso_output[siso]), cells % columns)
        start = int(self.plan.offset[edge]) + (0 if is_forward else self.plan.states)
        terms.target = start + np.arange(int(self.plan.cardinality[edge]))
        return terms

    def _belief(self, edge: int) -> _Terms:
        """Return the terms of forward times backward of an edge; at a Diverter, of all its incoming messages."""
        found = self.leg_to.get(edge) or self.leg_from.get(edge)
        if found is not None:
            return self._at_diverter(*found)
        states = np.arange(int(self.plan.cardinality[edge]))
        terms = _Terms(states[:, None])
        self._read_forward(terms, edge, states, with_evidence=False)
        self._read_backward(terms, edge, states)
        return terms

    def _at_diverter(self, diverter: int, leg: int, without: int | None = None) -> _Terms:
        """Return the product of the incoming messages of a Diverter by the state of a leg, `without` one edge."""
        plan = self.plan
        terms = _Terms(plan.leg_groups(diverter, leg))
        joint = terms.cells_by_state.ravel()
        for other in plan.legs(diverter):
            edge, index = int(plan.leg_edge[other]), plan.leg_index(diverter, other)
            if edge != without:
                read = self._read_forward if plan.leg_is_input[other] else self._read_backward
                read(terms, edge, joint if index is None else index[joint])
        return terms

    def _read_forward(self, terms: _Terms, edge: int, states: np.ndarray, with_evidence: bool = True) -> None:
        """Multiply the terms by the forward message of an edge, and by the evidence on it."""
        if edge in self.source_of:
            terms.values.append(int(self.plan.source_at[self.source_of[edge]]) + states)
        elif self.plan.driver[edge]:
            terms.messages.append(int(self.plan.offset[edge]) + states)
            terms.reads.append(_Message(edge, True))
        else:
            terms.scale /= int(self.plan.cardinality[edge])
        if with_evidence and edge in self.evidence_at:
            terms.messages.append(self.evidence_at[edge] + states)

    def _read_backward(self, terms: _Terms, edge: int, states: np.ndarray) -> None:
        """Multiply the terms by the backward message of an edge, and by the evidence on it."""
        terms.messages.append(self.plan.states + int(self.plan.offset[edge]) + states)
        if self.plan.reader[edge]:
            terms.reads.append(_Message(edge, False))
            if edge in self.evidence_at:
                terms.messages.append(self.evidence_at[edge] + states)

    def _side_by_side(self, every: list[_Terms]) -> MessageSums:
        """Put the terms of all messages of equal depth into one array; absent factors are ones."""
        counts = [terms.cells_by_state.size for terms in every]
        messages, values = (
            np.full((max(1, *(len(getattr(terms, what)) for terms in every)), sum(counts)), missing, dtype=np.intp)
            for what, missing in (("messages", self.one), ("values", self.plan.layout.size))
        )
        at = 0
        for terms, count in zip(every, counts, strict=True):
            for room, given in ((messages, terms.messages), (values, terms.values)):
                for factor, places in enumerate(given):
                    room[factor, at : at + count] = places
            at += count
        groups = np.concatenate([np.full(*terms.cells_by_state.shape) for terms in every])
        scale = np.repeat([terms.scale for terms in every], counts)
        starts = None if (groups == 1).all() else np.cumsum(groups) - groups
        return MessageSums(messages, values, scale, starts, np.concatenate([terms.target for terms in every]))

    def _observable(self) -> _Observable:
        plan = self.plan
        places = {edge: plan.states + int(plan.offset[edge]) for edge in np.flatnonzero(~plan.reader).tolist()}
        places |= self.evidence_at
        sizes = plan.cardinality[[*places]]
        states = np.concatenate([np.arange(size) for size in sizes.tolist()])
        return _Observable(np.repeat([*places], sizes), states, np.repeat([*places.values()], sizes) + states)
