"""The torch engine: rows in blocks of one size, parameters once an epoch, counts handed over once.

What it does not do itself is delegated: messages as such and learning cycles (K > 1) to the CPU engine, chains and the
tracing of states as the registry says, rows in doubt to the reference engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...core.exceptions import FgrnError
from ..protocol import Buffers, Loaded, Prepared, RowCounts, Scanner
from ..registry import get
from .layout import DeviceLayout
from .library import device_of, precision_of, torch
from .sweeps import DeviceRows, DeviceTables, Sums, Sweep

if TYPE_CHECKING:
    from ...plan.plan import Plan, Program
    from ...plan.schedule import Programs
    from ...tables.encoded import Evidence

CPU_BYTES = 2**27
"""Of the messages of a block of rows on the processor."""

GPU_SHARE = 0.4
"""Of the free memory of a GPU that the messages of a block of rows may take."""

MOST_ROWS, FEWEST_ROWS = 4096, 16
"""Rows of a block."""


class Torch:
    """The engine. `device` and `precision` as `fgrn.engines.device.library` has them."""

    name = "torch"
    all_messages_up_to = 0

    def __init__(self, device: str | None = None, precision: str | None = None) -> None:
        self.device = device_of(device)
        self.precision = precision_of(precision, self.device)
        self.fallback = get("cpu")

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

    def scanner(self, begins: np.ndarray, states: int, threads: int | None = None) -> Scanner:
        """See `fgrn.engines.Engine`: chains are scanned by the CPU engine."""
        return self.fallback.scanner(begins, states, threads)


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
        self.layout = DeviceLayout(plan, evidence, engine.device)
        self.kernel = f"batched products on {engine.device.type}"
        self.rows_at_once = self._rows_that_fit()

    def _rows_that_fit(self) -> int:
        """How many rows make a block: their messages, about six for each state of each clique, fit into memory."""
        size = torch.finfo(self.engine.precision.summed).bits // 8
        room = CPU_BYTES
        if self.engine.device.type == "cuda":
            room = int(GPU_SHARE * torch.cuda.mem_get_info(self.engine.device)[0])
        fitting = room // max(1, 6 * size * self.layout.cells)
        return int(np.clip(fitting, FEWEST_ROWS, min(MOST_ROWS, max(self.evidence.rows, FEWEST_ROWS))))

    def fallback(self, program: Program | None = None) -> Prepared:
        """The same rows for the engine that does what is not done here."""
        return self.engine.fallback.prepare(
            self.plan, self.programs, program or self.program, self.evidence, self.weights
        )

    def rest(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self.__dict__.pop("_codes", None)

    @cached_property
    def _codes(self) -> np.ndarray:
        """The codes, a column in each row; a missing or soft value is the number of states."""
        states = np.zeros(max(self.evidence.codes.shape[1], 1), dtype=np.int64)
        for edge in self.evidence.edges():
            states[self.evidence.slot[edge]] = self.plan.cardinality[edge]
        kind = np.uint8 if states.max(initial=0) < 256 else np.int32
        codes = self.evidence.codes
        return np.where(codes < 0, states[: codes.shape[1]], codes).T.astype(kind, order="C")

    def blocks(self, weights: np.ndarray) -> Iterator[tuple[slice, DeviceRows]]:
        """All rows in blocks of one size; the last is filled up with rows without weight."""
        device, kind = self.engine.device, self.engine.precision.summed
        size = self.rows_at_once
        for first in range(0, self.evidence.rows, size):
            rows = slice(first, min(first + size, self.evidence.rows))
            lacking = size - (rows.stop - rows.start)
            codes = np.pad(self._codes[:, rows], ((0, 0), (0, lacking)), mode="edge")
            soft = np.pad(self.evidence.soft[rows], ((0, lacking), (0, 0)), mode="edge")
            is_soft = np.pad(self.evidence.codes[rows].T == -2, ((0, 0), (0, lacking)), mode="edge")
            padded = np.pad(weights[rows], (0, lacking))
            yield (
                rows,
                DeviceRows(
                    torch.as_tensor(codes, device=device),
                    torch.as_tensor(soft, device=device).to(kind),
                    torch.as_tensor(is_soft, device=device),
                    torch.as_tensor(padded, device=device).to(kind),
                ),
            )
            self.evidence.release()

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return TorchLoaded(self, values)


class TorchLoaded:
    """Rows and parameters in place."""

    def __init__(self, prepared: TorchPrepared, values: np.ndarray) -> None:
        self.prepared, self.values = prepared, values

    @cached_property
    def _tables(self) -> DeviceTables:
        mine = self.prepared
        return DeviceTables(mine.layout, self.values, mine.engine.precision)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`. Messages as such are left to the fallback; marginals are made here."""
        mine = self.prepared
        if not set(parts) <= {"marginal", "likelihood"}:
            return mine.fallback().load(self.values).propagate(parts)
        edges = mine.program.shown.tolist()
        ones = np.ones(mine.evidence.rows)
        marginal = np.empty((mine.evidence.rows, int(mine.plan.cardinality[mine.program.shown].sum())))
        likelihood, doubtful = np.empty(mine.evidence.rows), np.empty(mine.evidence.rows, dtype=bool)
        for rows, block in mine.blocks(ones):
            sweep = Sweep(self._tables, block)
            count = rows.stop - rows.start
            if edges:
                found = torch.cat([sweep.marginal(edge) for edge in edges], dim=1)
                marginal[rows] = found[:count].to(torch.float64).cpu().numpy()
            likelihood[rows] = sweep.log_likelihood[:count].to(torch.float64).cpu().numpy()
            doubtful[rows] = sweep.doubtful[:count].cpu().numpy()
        if doubtful.any():
            where = np.flatnonzero(doubtful)
            decided = (
                get("reference")
                .prepare(mine.plan, mine.programs, mine.program, mine.evidence.take(where))
                .load(self.values)
                .propagate(("marginal", "likelihood"))
            )
            marginal[where], likelihood[where] = decided.marginal, decided.log_likelihood
        nothing = np.empty((0, 0))
        return Buffers(nothing, nothing, marginal, nothing, nothing, likelihood)

    def round(self, before: Buffers) -> Buffers:
        """See `fgrn.engines.Loaded`: left to the fallback."""
        return self.prepared.fallback().load(self.values).round(before)

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """See `fgrn.engines.Loaded`: left to the fallback."""
        return self.prepared.fallback().load(self.values).recounting(hold, expect)

    def counts(self, expect: bool) -> RowCounts:
        """See `fgrn.engines.Loaded`.

        Rows that turn out to be in doubt are counted by the reference engine, and the others once more without them.
        """
        mine = self.prepared
        if not expect and mine.layout.tree.links:
            return mine.fallback().load(self.values).counts(expect)
        weights = mine.weights
        doubtful = np.zeros(len(weights), dtype=bool)
        while True:
            sums, found = self._summed(np.where(doubtful, 0.0, weights))
            if not (found & ~doubtful).any():
                break
            doubtful |= found
        out = RowCounts(sums.in_layout(expect), float(sums.log_likelihood), np.zeros(0, dtype=np.intp))
        if not doubtful.any():
            return out
        where = np.flatnonzero(doubtful)
        rest = (
            get("reference")
            .prepare(mine.plan, mine.programs, mine.program, mine.evidence.take(where), weights[where])
            .load(self.values)
            .counts(expect)
        )
        return RowCounts(out.values + rest.values, out.log_likelihood + rest.log_likelihood, where[rest.impossible])

    def _summed(self, weights: np.ndarray) -> tuple[Sums, np.ndarray]:
        """The counts of all rows with a weight, and which of these are in doubt."""
        mine = self.prepared
        sums, doubtful = Sums(self._tables), []
        for rows, block in mine.blocks(weights):
            sweep = Sweep(self._tables, block)
            sums.add(sweep)
            doubtful.append(sweep.doubtful[: rows.stop - rows.start])
        if not doubtful:
            raise FgrnError("There are no rows to count.")
        found: np.ndarray = torch.cat(doubtful).cpu().numpy() & (weights > 0)
        return sums, found
