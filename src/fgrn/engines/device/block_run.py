"""Device buffers for blocks of rows of one size, allocated once, and on a GPU a CUDA graph of the steps."""

from __future__ import annotations

import importlib
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

from .device_counts import Sums
from .layout import DeviceLayout
from .library import Precision, products, torch
from .sweeps import DeviceRows, DeviceTables, Sweep

if TYPE_CHECKING:
    from .device_vectors import DeviceVector, VectorLayout


def kernels_for(precision: Precision, device: torch.device) -> ModuleType | None:
    """Return the Triton kernels; None if they do not support the device or precision, or Triton is not installed."""
    if device.type != "cuda" or precision.summed != torch.float32:
        return None
    try:
        return importlib.import_module("fgrn.engines.device.kernels")
    except ImportError:
        return None


class BlockRun:
    """Sweeps and counts of blocks of rows, one after the other, in the same buffers.

    `room` is where the rows of a block are put; `complete`: none of their values is missing.
    """

    def __init__(
        self, layout: DeviceLayout, vectors: VectorLayout, precision: Precision, room: DeviceRows, complete: bool
    ) -> None:
        self.layout, self.precision, self.rows = layout, precision, room
        self.tables = DeviceTables(layout, vectors, precision)
        self.sweep = Sweep(self.tables, room, complete, kernels_for(precision, layout.device))
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        if layout.device.type == "cuda":
            self._run(counting=True)  # compiles, and fails now if memory does not suffice
            torch.cuda.synchronize(layout.device)

    @cached_property
    def sums(self) -> Sums:
        """The expected counts of all blocks so far, as one vector."""
        return Sums(self.sweep)

    def begin(self, vector: DeviceVector, counting: bool) -> None:
        """Copy parameters to the buffers; if `counting`, set the counts to zero."""
        self.tables.load(vector)
        if self.layout.device.type == "cuda" and counting not in self._graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._run(counting)
            self._graphs[counting] = graph
        if counting:
            self.sums.clear()

    def run(self, rows: DeviceRows, counting: bool) -> None:
        """Compute the messages of a block; if `counting`, add its expected counts to `sums`."""
        if rows is not self.rows:
            self.rows.fill(rows)
        if counting in self._graphs:
            self._graphs[counting].replay()
        else:
            self._run(counting)
        if counting:
            self.sums.has_added()

    def _run(self, counting: bool) -> None:
        with products(self.precision):
            self.sweep.run()
            if counting:
                self.sums.add()
