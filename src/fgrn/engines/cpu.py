"""The CPU engine: Numba kernels that run a tape on blocks of rows, in the linear domain.

A message is stored normalised, and the logarithms of the norms make the likelihood. Inside a Diverter each state of the
running product has an exponent of its own, so thousands of factors neither underflow nor lose a state that a
later zero will bring to the front. A row in which a product still vanishes is given to the judge, the reference
engine, which knows whether it is impossible or was only too small for the linear domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import BlockCounts, Buffers, Engine, kernels
from .tape import joint_tables, packed_codes, unpacked_counts, write_tape

if TYPE_CHECKING:
    from ..evidence import Evidence
    from ..plan import Plan, Program
    from ..schedule import Programs

MESSAGE_BYTES = 2**20
"""Of the workspace of one block when messages are kept."""

BLOCK_BYTES = 2**17
"""Of the workspace of one block when only counts are kept: it stays in the second-level cache with the tables."""

COUNTED_ROWS = 2**14
"""Rows per call when counting: enough work to make the Python around it negligible, and many calls for the threads."""


class Held(NamedTuple):
    """The messages at both ends of every SISO, the posterior of every Source, and the rows the judge holds."""

    into: list[np.ndarray]
    back: list[np.ndarray]
    known: list[np.ndarray]
    source: list[np.ndarray]
    log_likelihood: np.ndarray
    doubtful: np.ndarray
    judged: Any


class Cpu:
    """The engine. `judge` decides the rows that vanish in the linear domain."""

    name = "cpu"
    parallel = True

    def __init__(self, judge: Engine) -> None:
        self.judge = judge

    def prepare(self, plan: Plan, programs: Programs, program: Program, evidence: Evidence) -> Prepared:
        """See `Engine`."""
        return Prepared(self, plan, programs, program, evidence)

    def recount(self, plan: Plan, held: Held, values: np.ndarray, weights: np.ndarray, expect: bool) -> BlockCounts:
        """See `Engine`."""
        counts = np.zeros(plan.layout.size)
        sure = np.where(held.doubtful, 0.0, weights)
        for siso, number in enumerate(plan.siso_table.tolist()):
            table = plan.layout.table(values, number)
            into, back = held.into[siso], held.back[siso]
            norm = (into @ table * back).sum(axis=1)
            rows = sure if expect else sure * held.known[siso]
            share = np.divide(rows, norm, out=np.zeros_like(norm), where=norm > 0)
            plan.layout.table(counts, number)[...] += table * ((into * share[:, None]).T @ back)
        for source, number in enumerate(plan.source_prior.tolist()):
            plan.layout.prior(counts, number)[...] += sure @ held.source[source]
        if held.judged is not None:
            counts += self.judge.recount(plan, held.judged, values, weights[held.doubtful], expect).values
        return BlockCounts(counts, held.log_likelihood)


class Prepared:
    """Evidence laid out for a tape: the codes of the packs, and the rest as it is."""

    def __init__(self, engine: Cpu, plan: Plan, programs: Programs, program: Program, evidence: Evidence) -> None:
        self.engine, self.plan, self.programs, self.program = engine, plan, programs, program
        self.evidence = evidence
        self.tape = write_tape(plan, program, evidence)
        self.is_star = self.tape.is_star()
        self.packed = packed_codes(plan, self.tape, evidence)
        self.codes = _plain(evidence.codes, np.int32)
        self.soft = _plain(evidence.soft, np.float64)
        self.maps = _plain(plan.maps, np.uint64)
        row_bytes = 8 * self.tape.width
        if program.for_counts:
            self.rows_at_once = max(COUNTED_ROWS, (plan.layout.size + self.tape.joint_size) // 8)
            self.block = int(np.clip(BLOCK_BYTES // row_bytes, 8, 256))
        else:
            self.rows_at_once = self.block = int(np.clip(MESSAGE_BYTES // row_bytes, 1, COUNTED_ROWS))
        self.places = self._shown_places()
        self.columns = [_columns(self.places[:, way].tolist(), self.places[:, 3].tolist()) for way in range(2)]

    def _shown_places(self) -> np.ndarray:
        """Per shown edge: its forward and backward message in the workspace, its place among the shown, its length."""
        places, at = [], 0
        for edge in self.program.shown.tolist():
            count = int(self.plan.cardinality[edge])
            places.append((self.tape.forward_at[edge], self.tape.backward_at[edge], at, count))
            at += count
        return np.array(places, dtype=np.uint64).reshape(-1, 4)

    def load(self, values: np.ndarray) -> Loaded:
        """See `Prepared` of the package."""
        return Loaded(self, values)


class Loaded:
    """Parameters laid out for a tape: tables both ways round, and the joint tables of the packs."""

    def __init__(self, prepared: Prepared, values: np.ndarray) -> None:
        plan, tape = prepared.plan, prepared.tape
        self.prepared = prepared
        self.values = _plain(values, np.float64)
        self.transposed = values.copy()
        for number in range(len(plan.layout.table_shapes)):
            table = plan.layout.table(values, number)
            start = plan.layout.table_offsets[number]
            self.transposed[start : start + table.size] = table.T.ravel()
        self.joint = joint_tables(plan, tape, values)
        self.window = _window(self.joint)

    def _tables(self) -> tuple[Any, ...]:
        return np.uint64(self.prepared.tape.width), self.window, self.values, self.transposed, self.joint

    def _room(self) -> tuple[np.ndarray, ...]:
        """Work arrays for the products inside Diverters."""
        tape = self.prepared.tape
        products = (tape.most_targets + 1) * tape.largest_space
        longest = max(tape.largest_space, tape.largest_message)
        return np.empty(products), np.empty(products, dtype=np.int64), np.empty(tape.largest_space), np.empty(longest)

    def propagate(self, rows: slice) -> Buffers:
        """See `Loaded` of the package."""
        mine = self.prepared
        codes, soft, packed = mine.codes[rows], mine.soft[rows], mine.packed[rows]
        count = len(codes)
        work = np.zeros((count, mine.tape.width))
        known = np.zeros((count, mine.tape.known_width), dtype=np.bool_)
        scale, doubtful = np.zeros(count), np.zeros(count, dtype=np.bool_)
        kernels.sweep(
            mine.tape.sweep, 0, count, *self._tables(), packed, mine.maps, codes, soft, work.ravel(), work.ravel(),
            known, known, scale, doubtful, *self._room(),
        )  # fmt: skip
        buffers = self._shown(work, known, scale, doubtful)
        where = np.flatnonzero(doubtful)
        if len(where):
            judge, evidence = mine.engine.judge, mine.evidence.take(rows).take(where)
            loaded = judge.prepare(mine.plan, mine.programs, mine.program, evidence).load(self.values)
            for ours, theirs in zip(buffers, loaded.propagate(slice(0, len(where))), strict=True):
                ours[where] = theirs
        return buffers

    def _shown(self, work: np.ndarray, known: np.ndarray, scale: np.ndarray, doubtful: np.ndarray) -> Buffers:
        places, edges = self.prepared.places, self.prepared.plan.edges
        marginal = np.zeros((len(work), int(places[:, 3].sum())))
        width, shown = np.uint64(work.shape[1]), np.uint64(marginal.shape[1])
        kernels.marginals(places, len(work), width, work.ravel(), shown, marginal.ravel(), doubtful)
        forward, backward = (work[:, columns] for columns in self.prepared.columns)
        return Buffers(forward, backward, marginal, known[:, :edges], known[:, edges : 2 * edges], scale)

    def round(self, before: Buffers) -> Buffers:
        """See `Loaded` of the package."""
        mine = self.prepared
        work = np.concatenate([before.forward, before.backward], axis=1)
        known = np.zeros((len(work), mine.tape.known_width), dtype=np.bool_)
        known[:, : 2 * mine.plan.edges] = np.concatenate([before.known_forward, before.known_backward], axis=1)
        after, known_after = np.zeros_like(work), np.zeros_like(known)
        scale, doubtful = np.zeros(len(work)), np.zeros(len(work), dtype=np.bool_)
        kernels.sweep(
            mine.tape.sweep, 0, len(work), *self._tables(), mine.packed, mine.maps, mine.codes, mine.soft,
            work.ravel(), after.ravel(), known, known_after, scale, doubtful, *self._room(),
        )  # fmt: skip
        return self._shown(after, known_after, scale, doubtful)

    def counts(self, rows: slice, weights: np.ndarray, expect: bool) -> BlockCounts:
        """See `Loaded` of the package."""
        mine, plan, tape = self.prepared, self.prepared.plan, self.prepared.tape
        codes, soft, packed = mine.codes[rows], mine.soft[rows], mine.packed[rows]
        count = len(codes)
        scale, doubtful = np.zeros(count), np.zeros(count, dtype=np.bool_)
        joint, posteriors = np.zeros(tape.joint_size), np.zeros(tape.posteriors)
        inner = np.zeros(plan.layout.size)
        work = np.zeros(mine.block * tape.width)
        known = np.zeros((mine.block, tape.known_width), dtype=np.bool_)
        kernel = kernels.star_counts if mine.is_star else kernels.counts
        kernel(
            tape.sweep, tape.count, count, mine.block, work, known, np.empty(mine.block), *self._tables(), packed,
            mine.maps, codes, soft, _plain(weights, np.float64), expect, scale, doubtful, joint, posteriors, inner,
            *self._room(),
        )  # fmt: skip
        for number in range(len(plan.layout.table_shapes)):  # f b^T / norm meets the table
            plan.layout.table(inner, number)[...] *= plan.layout.table(self.values, number)
        counts = inner + unpacked_counts(plan, tape, joint, posteriors, mine.program, self.values, expect)
        where = np.flatnonzero(doubtful)
        if len(where):
            judge, evidence = mine.engine.judge, mine.evidence.take(rows).take(where)
            loaded = judge.prepare(plan, mine.programs, mine.program, evidence).load(self.values)
            judged = loaded.counts(slice(0, len(where)), weights[where], expect)
            counts += judged.values
            scale[where] = judged.log_likelihood
        return BlockCounts(counts, scale)

    def hold(self, rows: slice) -> Held:
        """See `Loaded` of the package."""
        mine, plan = self.prepared, self.prepared.plan
        buffers, evidence = self.propagate(rows), mine.evidence.take(rows)
        into, doubtful = [], np.isneginf(buffers.log_likelihood)
        for siso, edge in enumerate(plan.siso_input.tolist()):
            message = buffers.forward[:, plan.columns(edge)] * evidence.weights(edge, int(plan.cardinality[edge]))
            into.append(message)
            beyond = buffers.backward[:, plan.columns(int(plan.siso_output[siso]))]
            table = plan.layout.table(self.values, int(plan.siso_table[siso]))
            doubtful |= (message @ table * beyond).sum(axis=1) <= 0
        judged = None
        if doubtful.any():
            again = evidence.take(doubtful)
            loaded = mine.engine.judge.prepare(plan, mine.programs, mine.program, again).load(self.values)
            judged = loaded.hold(slice(0, again.rows))
        return Held(
            into,
            [buffers.backward[:, plan.columns(edge)] for edge in plan.siso_output.tolist()],
            [buffers.known_backward[:, edge] for edge in plan.siso_output],
            [buffers.marginal[:, plan.columns(edge)] for edge in plan.source_edge.tolist()],
            buffers.log_likelihood,
            doubtful,
            judged,
        )


def _plain(array: np.ndarray, dtype: type) -> np.ndarray:
    """Contiguous and writable: numba compiles a kernel anew for every other kind of array."""
    return np.require(array, dtype=dtype, requirements=["C", "W"])


def _columns(starts: list[int], counts: list[int]) -> slice | np.ndarray:
    """The columns of messages in a workspace: a slice where they lie side by side."""
    if all(start + count == after for start, count, after in zip(starts, counts, starts[1:], strict=False)):
        return slice(starts[0], starts[-1] + counts[-1]) if starts else slice(0, 0)
    return np.concatenate([np.arange(start, start + count) for start, count in zip(starts, counts, strict=True)])


def _window(joint: np.ndarray) -> int:
    """How many factors of the joint tables a product can take before a small state has to be lifted; 0: none."""
    smallest = joint.min(initial=1.0, where=joint > 0)
    bits = -np.log2(smallest)
    return 2**20 if bits <= 0 else int(min(2**20, 600 // bits))
