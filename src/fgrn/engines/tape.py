"""Compile a Plan and a Program to a tape: a vector of integers, the instructions that a kernel runs for each row.

Everything a step needs (offsets and lengths of messages, which table, which evidence) is resolved here once, so that
the kernels look nothing up. Messages are in a workspace with one row per row of data; `Tape` has their offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from . import protocol
from .factor_products import Product, ProductCache
from .kernels.basics import (
    ALONE,
    BACKWARD,
    BELIEF_LENGTH,
    BOUNDARY,
    CONSTANT,
    DIVERT,
    FACTOR,
    FORWARD,
    JOINT_ADD,
    JOINT_NORM,
    LEAVES,
    LEG_BACKWARD,
    LEG_FORWARD,
    LEG_LENGTH,
    LEG_PRIOR,
    LONE_SOURCE,
    MEET,
    ONWARD_LENGTH,
    PASSING,
    POSTERIOR,
    PRODUCT,
    ROOT,
    SCATTER,
)
from .packs import Pack, PackPlan, Region, packed, padded
from .shape import MORE_CODES, Shape

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence

MOST_CELLS, MOST_REGION = 2**15, 5 * 2**15
"""Cells of the joint table of a pack, at most, and of all packs of a Diverter, unless the smallest packs have more.

The second is 1.25 MiB: the second-level cache holds them, and later the counts of their codes. Where it does not, an
epoch of 200,000 rows x 100 columns of 4 levels, 64 states, takes 126 ms instead of 80 on one thread.
"""

CODES = (256, 128, 64, 32, 16)
"""Codes of one pack, at most: the first of which the joint tables are small enough. More codes were no faster."""

MOST_TAPES = 64
"""Tapes of one program that are kept: they are quick to write again."""

MOST_FACTOR_CELLS = 2**24
"""Cells of the products of factors of one tape: 128 MiB."""


@dataclass(eq=False)
class Tape:
    """The instructions of a program, and the offsets of messages, posteriors and joint tables that they use."""

    width: int = 0
    known_width: int = 0
    forward_at: dict[int, int] = field(default_factory=dict)
    backward_at: dict[int, int] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    posteriors: int = 0  # the length of the posteriors of all Diverters, end to end
    posterior_at: dict[int, int] = field(default_factory=dict)
    sweep: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    count: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    largest_space: int = 1
    largest_message: int = 1
    largest_end: int = 1  # of the messages whose marginals a program shows
    most_targets: int = 1
    is_star: bool = False  # one Diverter with Sources and gathered leaves is everything
    products: list[Product] = field(default_factory=list)
    packings: dict[int | None, PackPlan] = field(default_factory=dict)
    multiplied: ProductCache = field(default_factory=ProductCache)

    def packing(self, plan: Plan, program: Program, without: int | None) -> PackPlan:
        """Return the packs as kernels take them; see `packed`."""
        if without not in self.packings:
            self.packings[without] = packed(plan, program, self.regions, without)
        return self.packings[without]

    @property
    def joint_size(self) -> int:
        """The number of cells of all joint tables."""
        return self.regions[-1].end if self.regions else 0


_written: WeakKeyDictionary[Program, dict[tuple[object, ...], Tape]] = WeakKeyDictionary()


def tape_for(plan: Plan, program: Program, evidence: Evidence) -> Tape:
    """Return the tape that runs a program on evidence of this shape; cached."""
    shape = Shape.of(plan, program, evidence)
    tapes = _written.setdefault(program, {})
    if shape.key not in tapes:
        if len(tapes) >= MOST_TAPES:
            tapes.clear()
        tapes[shape.key] = _Writer(plan, program, shape).tape
    return tapes[shape.key]


class _Writer:
    def __init__(self, plan: Plan, program: Program, shape: Shape) -> None:
        self.plan, self.program, self.shape = plan, program, shape
        self.tape = Tape(
            largest_space=int(plan.diverter_size.max(initial=1)),
            largest_message=int(plan.cardinality.max(initial=1)),
            largest_end=int(plan.cardinality[program.believed].max(initial=1)),
        )
        roots = program.roots.tolist()
        self.inward = {(edge, bool(way)) for edge, way in [*program.inward.tolist(), *roots]}
        self.met = {*program.shown.tolist(), *(edge for edge, _ in roots)}  # edges whose both messages are needed
        self.region_of: dict[int, int] = {}  # the number of each Diverter's region, of those that have packs
        self.source_of = plan.source_of
        inputs = zip(plan.leg_edge, plan.leg_is_input, strict=True)
        self.read_by_diverter = {int(edge) for edge, into in inputs if into}
        self.leaves_at: dict[int, tuple[int, int]] = {}
        self.codes: list[int] = []
        self.operations: set[int] = set()
        legs = np.flatnonzero(program.gathered >= 0).tolist()
        self.leaf_codes = dict(zip(legs, shape.codes, strict=True))
        self.product_of: dict[int, Product] = {}
        self.believed = set(program.believed.tolist())
        # edges between two Diverters, whose message away from the root is made from a posterior
        self.onward = {int(edge) for edge in plan.leg_edge[~plan.leg_is_input]} & self.read_by_diverter
        self._places()
        self._pack()
        self._multiply()
        self._sweep()
        self.tape.sweep = self._written()
        if len(program.believed):
            self._posteriors()
            self.tape.count = self._written()
        if program.for_counts:
            self._posteriors()
            self._counts()
            self.tape.count = self._written()
            kinds = {LEAVES, POSTERIOR, SCATTER}
            if len(plan.source_edge) == 1 and plan.leg_map.max(initial=-1) < 0:
                self.operations -= {CONSTANT}  # the prior of a hidden variable that has evidence
            if plan.diverters == 1 and bool(plan.driver.all()) and self.operations == kinds:
                self.tape.is_star = True
                self._tell_posterior()

    def _tell_posterior(self) -> None:
        """Give every row of a star an entry in its first pack, so that the counts of that pack sum to the posterior."""
        first, *others = self.tape.regions[0].packs
        self.tape.regions[0] = replace(self.tape.regions[0], packs=(replace(first, nothing=-1), *others))

    def _written(self) -> np.ndarray:
        """Return the instructions written so far as a tape; -1 (none) becomes the largest integer."""
        written = np.array(self.codes, dtype=np.int64).view(np.uint64)
        self.codes = []
        return written

    # places

    def _places(self) -> None:
        """Assign offsets: forward messages of all edges first, then backward ones."""
        made = self._made()
        at = 0
        for way, places in ((True, self.tape.forward_at), (False, self.tape.backward_at)):
            for edge in range(self.plan.edges):
                if (edge, way) in made:
                    places[edge] = at
                    at += int(self.plan.cardinality[edge])
        self.tape.width = at
        self.tape.known_width = 2 * self.plan.edges + self.plan.diverters

    def _made(self) -> set[tuple[int, bool]]:
        """Return the messages that have a place: all that a step computes, but for priors that are read directly."""
        made = {(int(edge), False) for edge in self.program.boundary}
        made |= {(int(edge), True) for edge in np.flatnonzero(~self.plan.driver)}
        made |= {(edge, True) for edge in self.onward if self.program.by_posteriors}
        for kind, block, first, last in self.program.steps.tolist():
            made.update(self.plan.step_messages(kind, block, self.program.targets[first:last].tolist()))
        made.difference_update((edge, True) for edge in self.source_of if self._prior_leg(edge) is not None)
        return made

    def _prior_leg(self, edge: int) -> int | None:
        """Return the Source of an edge whose prior a Diverter can read directly, without a copy for every row."""
        source = self.source_of.get(edge)
        if source is None or edge in self.met or self.shape.slot[edge] >= 0:
            return None
        return source if edge in self.read_by_diverter else None

    def _room(self, count: int) -> int:
        at = self.tape.width
        self.tape.width += count
        return at

    def _known_forward(self, edge: int) -> int:
        return edge

    def _known_backward(self, edge: int) -> int:
        return self.plan.edges + edge

    def _evidence(self, edge: int) -> list[int]:
        return [int(self.shape.slot[edge]), int(self.shape.soft_offset[edge])]

    # packs

    def _pack(self) -> None:
        for diverter in range(self.plan.diverters):
            states = int(self.plan.diverter_size[diverter])
            packs: list[Pack] = []
            for codes, cells in ((MORE_CODES, MOST_CELLS), *((codes, MOST_REGION) for codes in CODES)):
                most = min(codes, self.shape.most_codes, MOST_CELLS // padded(states))
                packs = self._packs(diverter, most)
                if packs and packs[-1].rows.stop * padded(states) <= cells:
                    break
            if packs:
                self.region_of[diverter] = len(self.tape.regions)
                self.tape.regions.append(Region(self.tape.joint_size, packs[-1].rows.stop, states, tuple(packs)))

    def _packs(self, diverter: int, most: int) -> list[Pack]:
        """Divide the leaves of a Diverter into packs with a limited number of codes."""
        packs: list[Pack] = []
        group: list[tuple[int, int]] = []
        for leg in self.plan.legs(diverter):
            siso, size = int(self.program.gathered[leg]), self.leaf_codes.get(leg, 0)
            if not size:
                continue  # not a leaf, or one that no row knows
            if group and prod([size, *(n for _, n in group)]) > most:
                packs.append(self._packed(diverter, group, packs))
                group = []
            group.append((siso, size))
        if group:
            packs.append(self._packed(diverter, group, packs))
        return packs

    def _packed(self, diverter: int, group: list[tuple[int, int]], before: list[Pack]) -> Pack:
        sisos, sizes = zip(*group, strict=True)
        states = [int(self.plan.cardinality[self.plan.siso_output[siso]]) for siso in sisos]
        # what is left of the total is not computed from counts that may be negative: every row has an entry then
        blank = not self.shape.subtracts and all(size > count for size, count in zip(sizes, states, strict=True))
        first = before[-1].rows.stop if before else 0
        return Pack(sisos, sizes, diverter, first, prod(sizes) - 1 if blank else -1)

    # sweeps

    def _put(self, operation: int, *operands: int) -> None:
        self.operations.add(operation)
        self.codes += [operation, len(operands), *(int(operand) for operand in operands)]

    def _sweep(self) -> None:
        plan, tape = self.plan, self.tape
        for edge in np.flatnonzero(~plan.driver).tolist():
            self._put(CONSTANT, tape.forward_at[edge], plan.cardinality[edge], self._known_forward(edge), -1, 0, 0)
        for edge in self.program.boundary.tolist():
            place = (tape.backward_at[edge], plan.cardinality[edge], self._known_backward(edge))
            self._put(BOUNDARY, *place, *self._evidence(edge))
        shifts = 0
        for diverter, number in self.region_of.items():
            region = tape.regions[number]
            at, known = self.leaves_at[diverter] = (self._room(region.states), 2 * plan.edges + diverter)
            self._put(LEAVES, at, region.states, known, number, region.start, region.stride, shifts)
            shifts += region.rows
        for kind, block, first, last in self.program.steps.tolist():
            STEPS[kind](self, block, self.program.targets[first:last].tolist())
        for edge, _ in self.program.roots.tolist():
            place = (tape.forward_at[edge], tape.backward_at[edge], plan.cardinality[edge])
            self._put(MEET, *place, self._known_backward(edge))

    def _source(self, block: int) -> None:
        edge = int(self.plan.source_edge[block])
        if edge in self.tape.forward_at:
            place = (self.tape.forward_at[edge], self.plan.cardinality[edge], self._known_forward(edge))
            factor = int(self.plan.is_factor[block])
            self._put(CONSTANT, *place, self.plan.source_at[block], factor, self._is_inward(edge, True))

    def _siso(self, block: int, forward: bool) -> None:
        plan, tape = self.plan, self.tape
        source, output = int(plan.siso_input[block]), int(plan.siso_output[block])
        sizes = (int(plan.cardinality[source]), int(plan.cardinality[output]))
        table = int(plan.layout.table_offsets[plan.siso_table[block]])
        if forward:
            self._put(
                FORWARD, tape.forward_at[source], sizes[0], tape.forward_at[output], sizes[1], table,
                self._known_forward(source), self._known_forward(output), *self._evidence(source),
                self._is_inward(output, True),
            )  # fmt: skip
        else:
            self._put(
                BACKWARD, tape.backward_at[source], sizes[0], tape.backward_at[output], sizes[1], table,
                self._known_backward(output), self._known_backward(source), *self._evidence(source),
                self._is_inward(source, False),
            )  # fmt: skip

    def _is_inward(self, edge: int, forward: bool) -> int:
        return int((edge, forward) in self.inward)

    def _legs(self, diverter: int) -> tuple[list[int], dict[int, int]]:
        """Return the records of incoming messages, all leaves as one, and the position of each leg among them."""
        records: list[int] = []
        position: dict[int, int] = {}
        if diverter in self.leaves_at:
            at, known = self.leaves_at[diverter]
            records += [LEG_BACKWARD, at, known, -1, -1, -1]
        product = self.product_of.get(diverter)
        if product is not None:
            records += [LEG_PRIOR, product.at, PRODUCT, -1, -1, -1]
        done = set() if product is None else {leg for _, leg in product.sources}
        for leg in self.plan.legs(diverter):
            if self.program.gathered[leg] >= 0 or leg in done:
                continue
            edge, index = int(self.plan.leg_edge[leg]), int(self.plan.leg_map[leg])
            position[leg] = len(records) // LEG_LENGTH
            if not self.plan.leg_is_input[leg]:
                place = [LEG_BACKWARD, self.tape.backward_at.get(edge, -1), self._known_backward(edge)]
                records += [*place, index, -1, -1]
            elif (source := self._prior_leg(edge)) is not None:
                known = FACTOR if self.plan.is_factor[source] else -1
                records += [LEG_PRIOR, int(self.plan.source_at[source]), known, index, -1, -1]
            else:
                place = [LEG_FORWARD, self.tape.forward_at.get(edge, -1), self._known_forward(edge), index]
                records += [*place, *self._evidence(edge)]
        return records, position

    def _divert(self, diverter: int, targets: list[int]) -> None:
        records, position = self._legs(diverter)
        out: list[int] = []
        for leg in targets:
            edge, into = int(self.plan.leg_edge[leg]), bool(self.plan.leg_is_input[leg])
            place = self.tape.backward_at[edge] if into else self.tape.forward_at[edge]
            known = self._known_backward(edge) if into else self._known_forward(edge)
            out += [position[leg], place, int(self.plan.cardinality[edge]), known, int(into)]
            out += [int(self.plan.leg_map[leg]), *(self._evidence(edge) if into else (-1, -1))]
            out.append(self._is_inward(edge, not into))
        legs, count = len(records) // LEG_LENGTH, len(targets)
        self.tape.most_targets = max(self.tape.most_targets, count)
        size, run = int(self.plan.diverter_size[diverter]), int(self.plan.diverter_run[diverter])
        self._put(DIVERT, size, run, legs, count, *records, *out)

    def _multiply(self) -> None:
        """Multiply the factors of a Diverter once for all rows, unless the product has too many cells."""
        at = self.plan.layout.size
        for diverter in range(self.plan.diverters):
            found = []
            for leg in self.plan.legs(diverter):
                source = self._prior_leg(int(self.plan.leg_edge[leg])) if self.plan.leg_is_input[leg] else None
                if source is not None and self.plan.is_factor[source]:
                    found.append((source, leg))
            size = int(self.plan.diverter_size[diverter])
            if found and at + size - self.plan.layout.size <= MOST_FACTOR_CELLS:
                product = self.product_of[diverter] = Product(diverter, tuple(found), at + 1)
                self.tape.products.append(product)
                at += 1 + size

    # counts

    def _posteriors(self) -> None:
        """Write the steps for the posterior of every Diverter that is needed, and for messages that follow from it.

        A record says where it is kept for the counts, or nowhere; then come what comes in, the messages that lead on
        from it (where they go, what came in there, what is known), and the marginals it holds (where they go).
        """
        plan, program = self.plan, self.program
        places = dict(
            zip(program.shown.tolist(), np.cumsum([0, *plan.cardinality[program.shown]]).tolist(), strict=False)
        )
        needed = program.needed
        for position, (kind, diverter, parent) in enumerate(plan.order):
            if kind != protocol.DIVERT or (needed is not None and diverter not in needed):
                continue
            records, _ = self._legs(diverter)
            onwards: list[int] = []
            beliefs: list[int] = []
            for leg in plan.legs(diverter):
                edge, index = int(plan.leg_edge[leg]), int(plan.leg_map[leg])
                count = int(plan.cardinality[edge])
                if program.by_posteriors and edge != parent and edge in self.onward:
                    place = (self.tape.forward_at[edge], count, self.tape.backward_at[edge], self._known_forward(edge))
                    onwards += [index, *place]
                elif edge in self.believed:
                    beliefs += [index, places[edge], count]
            size, run = int(plan.diverter_size[diverter]), int(plan.diverter_run[diverter])
            store = self._room(size) if program.for_counts else -1
            self.tape.posterior_at[diverter] = store
            role = ROOT if position in plan.root else PASSING if program.by_posteriors else ALONE
            head = (store, size, run, role, len(records) // LEG_LENGTH)
            counts = (len(onwards) // ONWARD_LENGTH, len(beliefs) // BELIEF_LENGTH)
            self._put(POSTERIOR, *head, *counts, *records, *onwards, *beliefs)

    def _counts(self) -> None:
        plan, tape = self.plan, self.tape
        inner = np.flatnonzero(~self.program.is_gathered).tolist()
        norms = {siso: self._room(1) for siso in inner}
        for operation in (JOINT_NORM, JOINT_ADD):
            for siso in inner:
                source, output = int(plan.siso_input[siso]), int(plan.siso_output[siso])
                self._put(
                    operation, tape.forward_at[source], plan.cardinality[source], *self._evidence(source),
                    tape.backward_at[output], plan.cardinality[output],
                    plan.layout.table_offsets[plan.siso_table[siso]], norms[siso], self._known_backward(output),
                )  # fmt: skip
        for diverter in range(plan.diverters):
            size = int(plan.diverter_size[diverter])
            number = self.region_of.get(diverter, -1)
            where = (tape.regions[number].start, tape.regions[number].stride) if number >= 0 else (-1, -1)
            self._put(SCATTER, tape.posterior_at[diverter], size, tape.posteriors, number, *where)
            tape.posteriors += size
        for source, edge in enumerate(plan.source_edge.tolist()):
            if edge not in self.read_by_diverter:
                place = (tape.forward_at[edge], tape.backward_at[edge], plan.cardinality[edge])
                self._put(LONE_SOURCE, *place, plan.source_at[source])


STEPS: dict[int, Callable[[_Writer, int, list[int]], None]] = {
    protocol.SOURCE: lambda writer, source, legs: writer._source(source),
    protocol.FORWARD: lambda writer, siso, legs: writer._siso(siso, forward=True),
    protocol.BACKWARD: lambda writer, siso, legs: writer._siso(siso, forward=False),
    protocol.DIVERT: _Writer._divert,
}
"""The function that writes the operations of each kind of step, given the number of the block and a Diverter's legs."""
