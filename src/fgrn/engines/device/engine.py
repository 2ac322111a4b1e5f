"""The torch engine: blocks of rows of one size; parameters and counts stay on the device until they are requested.

Other operations are delegated: messages and learning cycles (K > 1) to the CPU engine, chains and the tracing of states
as registered, and rows that may have underflowed to the reference engine.

Memory on the device, for a block of R rows of a network with C cells in its cliques and M in the messages to parents:

    R * (b * (2 * C + M) + columns + about 10 for each clique) bytes,  b = 8, 4, 4, 2 for the precisions

and BYTES_PER_CELL for each cell of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...core.exceptions import FgrnError
from ..protocol import Buffers, Loaded, Prepared, RowCounts, Scanner
from ..registry import get
from .block_run import BlockRun
from .clique_tree import clique_tree
from .device_rows import RowBlocks, type_on_device
from .device_vectors import DeviceVector, VectorLayout
from .layout import DeviceLayout
from .library import device_of, precision_of, torch

if TYPE_CHECKING:
    from ...plan.plan import Plan, Program
    from ...plan.schedule import Programs
    from ...tables.encoded import Evidence
    from ..protocol import Engine

CPU_BYTES = 2**27
"""Of the messages of a block of rows on the processor."""

GPU_SHARE = 0.85
"""Of the free memory of a GPU that tables, counts and the messages of a block of rows may take."""

BYTES_PER_CELL = 45
"""Of the tables and counts, at most, while they are updated."""

MOST_ROWS, FEWEST_ROWS, SIZES_PER_OCTAVE = 8192, 16, 8
"""Rows of a block, and how many sizes of blocks there are from a number of rows to twice that number.

Tables of about the same number of rows have blocks of the same size, which are made ready once.
"""

MOST_RUNS = 6
"""Block sizes with cached buffers on the device: of batches, of the last batch, of held-out rows."""


Found = TypeVar("Found")


class Torch:
    """The torch engine; `device` and `precision` as in `fgrn.engines.device.library`."""

    name = "torch"
    all_messages_up_to = 0

    def __init__(self, device: str | None = None, precision: str | None = None) -> None:
        self.device = device_of(device)
        self.precision = precision_of(precision, self.device)
        self._plan: Plan | None = None
        self._vectors: VectorLayout | None = None
        self._layouts: dict[tuple[bytes, bytes, frozenset[int]], DeviceLayout] = {}
        self._runs: dict[tuple[DeviceLayout, int, torch.dtype, bool], BlockRun] = {}

    @cached_property
    def fallback(self) -> Engine:
        """The engine for operations that this one does not have."""
        return get("cpu")

    def prepare(
        self,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None = None,
        threads: int | None = None,
    ) -> Prepared:
        """See `fgrn.engines.Engine`."""
        if not plan.is_tree:
            return self.fallback.prepare(plan, programs, program, evidence, weights, threads)
        return TorchPrepared(self, plan, programs, program, evidence, weights)

    def best_path(
        self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, which: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `fgrn.engines.Engine`: delegated to another engine."""
        return self.fallback.best_path(prior, table, local, begins, which)

    def scanner(self, begins: np.ndarray, states: int, threads: int | None = None) -> Scanner:
        """See `fgrn.engines.Engine`: chains are scanned by the CPU engine."""
        return self.fallback.scanner(begins, states, threads)

    # What several tables of rows, such as batches, share

    def _clear_other_plans(self, plan: Plan) -> None:
        """Clear the caches if they belong to another plan."""
        if plan is not self._plan:
            self._plan, self._vectors = plan, None
            self._layouts.clear()
            self._runs.clear()

    def vectors(self, plan: Plan) -> VectorLayout:
        """Return the layout of the tables of a plan on the device."""
        self._clear_other_plans(plan)
        if self._vectors is None:
            tree = clique_tree(plan, frozenset())
            self._vectors = VectorLayout(plan, tree, self.device, self.precision.summed)
        return self._vectors

    def layout(self, plan: Plan, evidence: Evidence) -> DeviceLayout:
        """Return the layout of cliques and links, given which variables have evidence."""
        self._clear_other_plans(plan)
        key = (evidence.slot.tobytes(), evidence.soft_offset.tobytes(), evidence.soft_edges())
        if key not in self._layouts:
            self._layouts[key] = DeviceLayout(plan, evidence, self.device)
        return self._layouts[key]

    def block_run(self, plan: Plan, layout: DeviceLayout, blocks: RowBlocks, complete: bool) -> BlockRun:
        """Return the buffers and steps for blocks of rows; blocks of the same size and layout share them."""
        self._clear_other_plans(plan)
        alike = (layout, blocks.size, blocks.kind, complete)
        found = self._runs.pop(alike, None)
        if found is None:
            while len(self._runs) >= MOST_RUNS:
                del self._runs[next(iter(self._runs))]  # the one that was not used for the longest time
            room = blocks.empty(self.device)
            found = BlockRun(layout, self.vectors(plan), self.precision, room, complete)
        self._runs[alike] = found
        return found

    @property
    def reserved(self) -> int:
        """Return the memory of the device that PyTorch has reserved and does not use, in bytes."""
        if self.device.type == "cpu":
            return 0
        return int(torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device))

    def free(self) -> None:
        """Free all memory of the device except that of parameters and counts."""
        self._runs.clear()
        if self._vectors is not None:
            self._vectors.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


class TorchPrepared:
    """Rows laid out for a device."""

    threads = 1

    def __init__(
        self,
        engine: Torch,
        plan: Plan,
        programs: Programs,
        program: Program,
        evidence: Evidence,
        weights: np.ndarray | None,
    ) -> None:
        self.engine, self.plan, self.programs, self.program = engine, plan, programs, program
        self.evidence = evidence
        self.weights = np.ones(evidence.rows) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        self.layout = engine.layout(plan, evidence)
        kind = "GPU" if engine.device.type == "cuda" else "PyTorch"
        self.kernel = f"{kind} ({_device_name(engine.device)}, {engine.precision.name})"
        self.rows_at_once = self._rows_that_fit()
        self._blocks: dict[bool, RowBlocks] = {}

    @property
    def bytes_per_row(self) -> int:
        """Return the memory of the messages of a row on the device, in bytes."""
        layout, precision = self.layout, self.engine.precision
        cells = 2 * sum(size * count for size, count in layout.sizes.items())
        cells += sum(states * count for states, count in layout.messages.items())
        return int(precision.bytes_stored * cells + (precision.summed.itemsize + 2) * sum(layout.sizes.values()))

    def _rows_that_fit(self) -> int:
        """Return the number of rows of a block: their messages fit into memory, and few of them are padding."""
        fitting = self._fitting()
        if self.engine.device.type == "cuda" and fitting < min(MOST_ROWS, self.evidence.rows):
            self.engine.free()  # of the room for blocks of other tables
            fitting = self._fitting()
        blocks = -(-self.evidence.rows // min(MOST_ROWS, fitting))
        needed = -(-self.evidence.rows // max(blocks, 1))
        step = max(FEWEST_ROWS, 2 ** (max(needed, 1).bit_length() - 1) // SIZES_PER_OCTAVE)
        return int(min(fitting, MOST_ROWS, max(-(-needed // step) * step, FEWEST_ROWS)))

    def _fitting(self) -> int:
        """Return the number of rows whose messages fit into the memory of the device."""
        room = CPU_BYTES
        if self.engine.device.type == "cuda":
            free = torch.cuda.mem_get_info(self.engine.device)[0] + self.engine.reserved
            room = int(GPU_SHARE * free) - BYTES_PER_CELL * self.plan.layout.size
        return int(max(room // max(1, self.bytes_per_row), FEWEST_ROWS))

    def fallback(self, program: Program | None = None) -> Prepared:
        """Return the same rows prepared for the fallback engine."""
        return self.engine.fallback.prepare(
            self.plan, self.programs, program or self.program, self.evidence, self.weights
        )

    def free_memory(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self._blocks.clear()
        self.engine.free()

    @cached_property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return self.evidence.complete

    @cached_property
    def _codes(self) -> torch.dtype:
        return type_on_device(self.plan, self.evidence)

    def blocks(self, weighted: bool) -> RowBlocks:
        """Return all rows in blocks, with their weights or with weight 1."""
        if weighted not in self._blocks:
            weights = self.weights if weighted else None
            self._blocks[weighted] = RowBlocks(
                self.evidence, weights, self._codes, self.engine.precision.summed, self.engine.device,
                self.rows_at_once,
            )  # fmt: skip
        return self._blocks[weighted]

    def shrink(self, error: Exception) -> None:
        """Halve the size of blocks after memory ran out; an error if they are small already."""
        self.free_memory()
        if self.rows_at_once <= FEWEST_ROWS:
            tables = self.plan.layout.size * BYTES_PER_CELL / 2**30
            raise FgrnError(
                f"The memory of {_device_name(self.engine.device)} does not suffice for this network, even for "
                f"{self.rows_at_once} rows at a time: its tables take about {tables:.1f} GiB there, and the messages "
                f"of a row {self.bytes_per_row / 2**20:.1f} MiB. Use fewer hidden states, precision='bfloat16', or "
                "engine='cpu'."
            ) from error
        self.rows_at_once = max(FEWEST_ROWS, self.rows_at_once // 2)

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return TorchLoaded(self, values)


class TorchLoaded:
    """Rows and parameters on a device, ready to compute messages and counts."""

    def __init__(self, prepared: TorchPrepared, values: Any) -> None:
        self.prepared, self.values = prepared, values

    def _with_memory(self, work: Callable[[], Found]) -> Found:
        """Call a function, with smaller blocks if memory runs out."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                self.prepared.shrink(error)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`. Marginals are computed here, messages by the fallback engine."""
        mine = self.prepared
        if not set(parts) <= {"marginal", "likelihood"}:
            return mine.fallback().load(np.asarray(self.values)).propagate(parts)
        marginal, likelihood, doubtful = self._with_memory(self._marginals)
        if doubtful.any():
            where = np.flatnonzero(doubtful)
            decided = (
                get("reference")
                .prepare(mine.plan, mine.programs, mine.program, mine.evidence.take(where))
                .load(np.asarray(self.values))
                .propagate(("marginal", "likelihood"))
            )
            marginal[where], likelihood[where] = decided.marginal, decided.log_likelihood
        nothing = np.empty((0, 0))
        return Buffers(nothing, nothing, marginal, nothing, nothing, likelihood)

    def _marginals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the marginals of all shown edges, log-likelihoods, and which rows may have underflowed."""
        mine = self.prepared
        edges, rows = mine.program.shown.tolist(), mine.evidence.rows
        marginal = np.empty((rows, int(mine.plan.cardinality[mine.program.shown].sum())))
        likelihood, doubtful = np.empty(rows), np.empty(rows, dtype=bool)
        run, vector = self._started_run(weighted=False)
        for first, last, block in mine.blocks(weighted=False):
            run.run(block, counting=False)
            sweep, count = run.sweep, last - first
            if edges:
                found = torch.cat([sweep.marginal(edge, vector)[:count] for edge in edges], dim=1)
                marginal[first:last] = found.cpu().numpy()
            likelihood[first:last] = sweep.log_likelihood[:count].cpu().numpy()
            doubtful[first:last] = (sweep.lost | sweep.late)[:count].cpu().numpy()
        return marginal, likelihood, doubtful

    def _started_run(self, weighted: bool) -> tuple[BlockRun, DeviceVector]:
        """Return the run over blocks of rows, with the parameters copied to the device."""
        mine = self.prepared
        vector = mine.engine.vectors(mine.plan).vector(self.values)
        run = mine.engine.block_run(mine.plan, mine.layout, mine.blocks(weighted), mine.complete)
        run.begin(vector, counting=weighted)
        return run, vector

    def round(self, before: Buffers) -> Buffers:
        """See `fgrn.engines.Loaded`: computed by the fallback engine."""
        return self.prepared.fallback().load(np.asarray(self.values)).round(before)

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """See `fgrn.engines.Loaded`: computed by the fallback engine."""
        return self.prepared.fallback().load(np.asarray(self.values)).recounting(hold, expect)

    def counts(self, expect: bool) -> RowCounts:
        """See `fgrn.engines.Loaded`; the counts are a `Vector`, unless another engine has counted some rows.

        Rows that may have underflowed are counted by the reference engine. If that is found only after some of their
        counts were added, the others are counted again without them.
        """
        mine = self.prepared
        if not expect and mine.layout.tree.links:
            return mine.fallback().load(np.asarray(self.values)).counts(expect)
        if not mine.evidence.rows:
            raise FgrnError("There are no rows to count.")
        left_out = np.zeros(mine.evidence.rows, dtype=bool)
        while True:
            found, doubtful, late = self._with_memory(partial(self._counted, expect, left_out))
            if not late.any():
                break
            left_out = left_out | late
        doubtful |= left_out
        if not doubtful.any():
            return found
        where = np.flatnonzero(doubtful)
        rest = (
            get("reference")
            .prepare(mine.plan, mine.programs, mine.program, mine.evidence.take(where), mine.weights[where])
            .load(np.asarray(self.values))
            .counts(expect)
        )
        return RowCounts(found.values + rest.values, found.log_likelihood + rest.log_likelihood, where[rest.impossible])

    def _counted(self, expect: bool, left_out: np.ndarray) -> tuple[RowCounts, np.ndarray, np.ndarray]:
        """Return the counts of all rows but `left_out`, and the rows with underflow: not counted, and counted."""
        mine = self.prepared
        run, vector = self._started_run(weighted=True)
        flags = []
        for first, last, block in mine.blocks(weighted=True):
            if left_out[first:last].any():
                kept = np.ones(len(block.weights))
                kept[: last - first] = ~left_out[first:last]
                block = block._replace(weights=block.weights * torch.as_tensor(kept).to(block.weights))
            run.run(block, counting=True)
            flags.append(torch.stack([run.sweep.lost, run.sweep.late])[:, : last - first])
        marked = torch.cat(flags, dim=1)
        lost, late = np.zeros((2, mine.evidence.rows), dtype=bool)
        likelihood, any_marked = torch.stack([run.sums.log_likelihood, marked.any().double()]).tolist()
        if any_marked:
            lost, late = marked.cpu().numpy() & (mine.weights != 0) & ~left_out
        counts: Any = run.sums.in_vector(vector, expect)
        return RowCounts(counts, likelihood, np.zeros(0, dtype=np.intp)), lost, late & ~lost


def _device_name(device: torch.device) -> str:
    """Return a description of a device for messages."""
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else "processor"
