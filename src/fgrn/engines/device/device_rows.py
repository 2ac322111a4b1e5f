"""Copies of the rows of a table on the device, in blocks of one size.

Codes of columns of up to 254 states are bytes, 255 for a missing value and 254 for a distribution; so are those of 255
or 256 states where no value is missing. Other codes are as the table has them. The last block is filled up with rows
without weight. Blocks that fit into a part of the device's memory stay there; others are copied again in every epoch,
from memory that is pinned, so that the device need not wait, and while it works on the block before.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .library import torch
from .sweeps import DeviceRows

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...tables.encoded import Evidence

RESIDENT_SHARE = 0.25
"""The largest share of the free memory of a GPU for rows that stay there."""

RING = 3
"""The number of blocks in transfer."""

SOFT = -2
"""The code of a distribution."""


class RowBlock(NamedTuple):
    """A block of rows on the device, with the numbers of its first row and of the row after its last."""

    first: int
    last: int
    rows: DeviceRows


def type_on_device(plan: Plan, evidence: Evidence) -> torch.dtype:
    """Return the integer type that the codes of a table have on the device."""
    codes = evidence.codes
    for edge in evidence.edges():
        states, column = int(plan.cardinality[edge]), int(evidence.slot[edge])
        if states > 256 or (states > 254 and bool((codes[:, column] < 0).any())):
            return torch.int16 if codes.dtype.itemsize <= 2 else torch.int32
    return torch.uint8


class RowBlocks:
    """All rows of a table in blocks of `size`."""

    def __init__(
        self, evidence: Evidence, weights: np.ndarray | None, kind: torch.dtype, summed: torch.dtype,
        device: torch.device, size: int, room: int | None = None,
    ) -> None:  # fmt: skip
        self.evidence, self.weights = evidence, weights
        self.kind, self.summed, self.device, self.size = kind, summed, device, size
        self.is_soft = bool(evidence.soft.shape[1])
        self._resident: list[DeviceRows] | None = [] if self._stays(room) else None
        self._ring: list[DeviceRows] = []

    def _stays(self, room: int | None) -> bool:
        """Return whether all rows stay on the device."""
        if self.device.type == "cpu":
            return False
        if room is None:
            room = int(RESIDENT_SHARE * torch.cuda.mem_get_info(self.device)[0])
        return self.bytes_per_row * self.evidence.rows <= room

    @property
    def bytes_per_row(self) -> int:
        """Return the memory of a row on the device, in bytes: its codes, weight and distributions."""
        columns = self.evidence.codes.shape[1]
        soft = self.evidence.soft.shape[1] * self.summed.itemsize + columns if self.is_soft else 0
        return int(columns * self.kind.itemsize + self.summed.itemsize + soft)

    def empty(self, device: torch.device, pinned: bool = False) -> DeviceRows:
        """Return buffers for one block of rows."""
        columns, width = self.evidence.codes.shape[1], self.evidence.soft.shape[1]
        soft_columns = columns if self.is_soft else 0
        return DeviceRows(
            torch.zeros((columns, self.size), dtype=self.kind, device=device, pin_memory=pinned),
            torch.zeros((self.size, width), dtype=self.summed, device=device, pin_memory=pinned),
            torch.zeros((soft_columns, self.size), dtype=torch.bool, device=device, pin_memory=pinned),
            torch.zeros(self.size, dtype=self.summed, device=device, pin_memory=pinned),
        )

    def _fill(self, block: DeviceRows, first: int) -> None:
        """Copy the rows of a block to buffers in the memory of the processor."""
        evidence = self.evidence
        rows = slice(first, min(first + self.size, evidence.rows))
        count = rows.stop - rows.start
        codes = block.codes.numpy()
        found = evidence.codes[rows].T
        np.copyto(codes[:, :count], found, casting="unsafe")
        codes[:, count:] = codes[:, count - 1 : count]
        weights = block.weights.numpy()
        weights[:count] = 1.0 if self.weights is None else self.weights[rows]
        weights[count:] = 0.0
        if self.is_soft:
            soft, is_soft = block.soft.numpy(), block.is_soft.numpy()
            soft[:count], is_soft[:, :count] = evidence.soft[rows], found == SOFT
            soft[count:], is_soft[:, count:] = soft[count - 1], is_soft[:, count - 1 : count]
        evidence.release()

    def __iter__(self) -> Iterator[RowBlock]:
        starts = range(0, self.evidence.rows, self.size)
        if self._resident:
            for first, rows in zip(starts, self._resident, strict=True):
                yield self._block(first, rows)
        elif self._resident is not None and len(starts) == 1:
            block = self.empty(torch.device("cpu"))
            self._fill(block, 0)
            self._resident = [DeviceRows(*(one.to(self.device) for one in block))]
            yield self._block(0, self._resident[0])
        elif self.device.type == "cpu":
            self._ring = self._ring or [self.empty(self.device)]
            for first in starts:
                self._fill(self._ring[0], first)
                yield self._block(first, self._ring[0])
        else:
            yield from self._streamed(starts)

    def _block(self, first: int, rows: DeviceRows) -> RowBlock:
        return RowBlock(first, min(first + self.size, self.evidence.rows), rows)

    def _streamed(self, starts: range) -> Iterator[RowBlock]:
        """Yield blocks copied from pinned memory; the next blocks are prepared during the computation on one."""
        self._ring = self._ring or [self.empty(torch.device("cpu"), pinned=True) for _ in range(RING)]
        copied = [torch.cuda.Event() for _ in self._ring]
        resident: list[DeviceRows] = []

        def written(number: int) -> DeviceRows:
            place = number % RING
            copied[place].synchronize()  # what was in it is on the device; at once if nothing was
            self._fill(self._ring[place], starts[number])
            return self._ring[place]

        with ThreadPoolExecutor(1) as writer:
            waiting: list[Future[DeviceRows]] = []
            for number, first in enumerate(starts):
                while len(waiting) < RING - 1 and number + len(waiting) < len(starts):
                    waiting.append(writer.submit(written, number + len(waiting)))
                pinned = waiting.pop(0).result()
                rows = DeviceRows(*(one.to(self.device, non_blocking=True) for one in pinned))
                copied[number % RING].record()
                if self._resident is not None:
                    resident.append(rows)
                yield self._block(first, rows)
        if self._resident is not None:
            self._resident = resident
            self._ring = []
