"""Counts and parameters on the device, with tables of one shape stored together, and the M-step.

A table that leads to a leaf is stored turned round, (values, states), since a row of evidence reads one of its columns;
all others as they are, (states of the input, states of the output). A prior is a table of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.exceptions import LearningError
from .clique_tree import CliqueTree
from .library import torch

if TYPE_CHECKING:
    from ...plan.plan import Plan

CELLS_AT_ONCE = 2**24
"""Cells that are copied to or from the device at a time."""

CACHED = 3
"""How many arrays stay on the device once they were copied there."""

STILL = {torch.float64: 0.0, torch.float32: 1e-6}
"""Differences up to this may be rounding errors."""


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Tables of one shape, or priors of one size.

    items    their numbers: those of tables, and after all tables those of priors
    """

    items: tuple[int, ...]
    rows: int
    columns: int
    turned: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tensor that holds the tables."""
        inner = (self.columns, self.rows) if self.turned else (self.rows, self.columns)
        return (len(self.items), *inner)

    @property
    def axis(self) -> int:
        """The axis along which the probabilities of one distribution lie."""
        return 1 if self.turned else 2

    def pieces(self) -> Iterator[slice]:
        """Yield slices of the items, of about CELLS_AT_ONCE cells each."""
        step = max(1, CELLS_AT_ONCE // max(1, self.rows * self.columns))
        for first in range(0, len(self.items), step):
            yield slice(first, min(first + step, len(self.items)))


class VectorLayout:
    """The position of each table and prior of a plan on the device.

    place   by item: the number of its block, and its number there
    """

    def __init__(self, plan: Plan, tree: CliqueTree, device: torch.device, kind: torch.dtype) -> None:
        self.plan, self.device, self.kind = plan, device, kind
        layout = plan.layout
        tables = len(layout.table_shapes)
        self.starts = np.concatenate([layout.table_offsets, layout.prior_offsets]).astype(np.int64)
        self.shapes = [*layout.table_shapes, *((1, size) for size in layout.prior_sizes)]
        self.lines = np.concatenate([[0], np.cumsum([rows for rows, _ in self.shapes])]).astype(np.int64)
        ordered = sorted(tree.links, key=lambda one: (not tree.links[one].downward, tree.depth[one], one))
        order = [tree.links[clique].table for clique in ordered]
        leaves = sorted(tree.leaves, key=lambda leaf: tree.depth[leaf.part.clique])
        order = list(dict.fromkeys(one for one in order if one >= 0))
        turned = {one.table for one in leaves} - set(order)
        order += list(dict.fromkeys(one.table for one in leaves if one.table in turned))
        order += sorted(set(range(tables)) - set(order))
        order += range(tables, len(self.shapes))
        found: dict[tuple[int, int, bool, bool], list[int]] = {}
        for item in order:
            found.setdefault((*self.shapes[item], item in turned, item >= tables), []).append(item)
        self.blocks = [TableBlock(tuple(items), rows, columns, way) for (rows, columns, way, _), items in found.items()]
        self.place = {
            item: (number, position)
            for number, block in enumerate(self.blocks)
            for position, item in enumerate(block.items)
        }
        self._copied: list[tuple[np.ndarray, DeviceVector]] = []
        self._room: torch.Tensor | None = None
        self._found_runs: dict[tuple[int, ...], list[tuple[int, slice]]] = {}

    def vector(self, values: Any) -> DeviceVector:
        """Return numbers in the layout of the plan as a device vector; recent copies are reused."""
        if isinstance(values, DeviceVector) and values.layout is self:
            return values
        for array, vector in self._copied:
            if array is values:
                return vector
        found = DeviceVector(self, [self._copy(np.asarray(values), block) for block in self.blocks])
        self._copied = [(values, found), *self._copied][:CACHED]
        return found

    def forget(self) -> None:
        """Free the cached copies."""
        self._copied.clear()

    def _copy(self, values: np.ndarray, block: TableBlock) -> torch.Tensor:
        out = torch.empty(block.shape, dtype=self.kind, device=self.device)
        for some in block.pieces():
            tables = self.room(block, some)
            np.stack([self.of(values, item) for item in block.items[some]], out=tables.numpy())
            there = tables.to(self.device)
            out[some] = there.transpose(1, 2) if block.turned else there
        return out

    def room(self, block: TableBlock, some: slice) -> torch.Tensor:
        """Return a buffer in host memory for some tables of a block; every call returns the same one.

        A device copies to and from memory that stays in its place ("pinned") several times as fast as to other.
        """
        shape = (some.stop - some.start, block.rows, block.columns)
        cells = prod(shape)
        if self._room is None or len(self._room) < cells:
            pinned = self.device.type == "cuda"
            self._room = torch.empty(max(cells, min(CELLS_AT_ONCE, self.plan.layout.size)), dtype=torch.float64,
                                     pin_memory=pinned)  # fmt: skip
        return self._room[:cells].view(shape)

    def of(self, values: np.ndarray, item: int) -> np.ndarray:
        """Return the view of a table in an array, or of a prior as a table of one row."""
        rows, columns = self.shapes[item]
        start = self.starts[item]
        return values[start : start + rows * columns].reshape(rows, columns)

    def is_chosen(self, block: TableBlock, chosen: np.ndarray) -> torch.Tensor | None:
        """Return which tables of a block are among those chosen, as an array to broadcast; None if all are."""
        mine = chosen[list(block.items)]
        return None if mine.all() else torch.as_tensor(mine, device=self.device)[:, None, None]

    def stacked_tables(self, blocks: Sequence[torch.Tensor], items: Sequence[int], turned: bool) -> torch.Tensor:
        """Return tables stacked, (tables, rows, columns), or (tables, columns, rows) if `turned`."""
        parts = []
        for number, some in self._runs(items):
            part = blocks[number][some]
            parts.append(part.transpose(1, 2) if self.blocks[number].turned != turned else part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def add(self, blocks: list[torch.Tensor | None], items: Sequence[int], counts: torch.Tensor, turned: bool) -> None:
        """Add counts to their tables, always in the same order, for tables that are tied.

        A block that is None has no counts yet.
        """
        begin = 0
        for number, some in self._runs(items):
            part = counts[begin : begin + some.stop - some.start]
            begin += some.stop - some.start
            part = part.transpose(1, 2) if self.blocks[number].turned != turned else part
            held = blocks[number]
            if held is None and part.shape == self.blocks[number].shape:
                blocks[number] = part.contiguous()
                continue
            if held is None:
                held = blocks[number] = self.zeros(number)
            held[some] += part

    def zeros(self, number: int) -> torch.Tensor:
        """Return a block of zero counts."""
        return torch.zeros(self.blocks[number].shape, dtype=self.kind, device=self.device)

    def _runs(self, items: Sequence[int]) -> list[tuple[int, slice]]:
        """Return slices of tables that are consecutive in one block, in the order given."""
        key = tuple(items)
        if key not in self._found_runs:
            found: list[tuple[int, slice]] = []
            for number, position in (self.place[item] for item in items):
                if found and found[-1][0] == number and found[-1][1].stop == position:
                    found[-1] = (number, slice(found[-1][1].start, position + 1))
                else:
                    found.append((number, slice(position, position + 1)))
            self._found_runs[key] = found
        return self._found_runs[key]

    def by_line(self, of_blocks: Sequence[torch.Tensor]) -> np.ndarray:
        """Return numbers of lines, given as (items, rows) for each block, as one vector in the plan's order."""
        out = np.empty(int(self.lines[-1]))
        for block, found in zip(self.blocks, of_blocks, strict=True):
            for item, numbers in zip(block.items, found.cpu().numpy(), strict=True):
                out[self.lines[item] : self.lines[item + 1]] = numbers
        return out


@dataclass(eq=False)
class Exact:
    """Parameters that learning did not change: they are copied exactly when a vector is returned as an array.

    frozen   (items,): which items are as `start` has them
    lines    by the number of a block, (items, rows): which lines are as `before` has them
    """

    start: np.ndarray
    before: np.ndarray
    frozen: np.ndarray
    lines: dict[int, torch.Tensor] = field(default_factory=dict)


class DeviceVector:
    """Numbers in the layout of a plan, on the device; see `fgrn.engines.Vector`."""

    __array_ufunc__ = None  # numbers of NumPy leave products to __rmul__

    def __init__(self, layout: VectorLayout, blocks: Sequence[torch.Tensor], exact: Exact | None = None) -> None:
        self.layout, self.blocks, self.exact = layout, list(blocks), exact

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)  # another process has another device

    def __len__(self) -> int:
        return self.layout.plan.layout.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """See `fgrn.engines.Vector`."""
        out = self._handed_over(normalise=False)
        return out if dtype is None else out.astype(dtype)

    def vector_of(self, values: Any) -> DeviceVector:
        """See `fgrn.engines.Vector`."""
        return self.layout.vector(values)

    def as_parameters(self) -> np.ndarray:
        """See `fgrn.engines.Vector`."""
        out = self._handed_over(normalise=self.layout.kind != torch.float64)
        out.setflags(write=False)  # so that it need not be copied
        return out

    def _handed_over(self, normalise: bool) -> np.ndarray:
        layout, exact = self.layout, self.exact
        is_frozen = np.zeros(len(layout.shapes), dtype=bool) if exact is None else exact.frozen
        out = exact.start.copy() if exact is not None and is_frozen.any() else np.empty(len(self))
        for number, (block, tensor) in enumerate(zip(layout.blocks, self.blocks, strict=True)):
            if is_frozen[list(block.items)].all():
                continue
            for some in block.pieces():
                part = tensor[some].to(torch.float64)
                if normalise:
                    part = part / part.sum(block.axis, keepdim=True)
                tables = layout.room(block, some).copy_(part.transpose(1, 2) if block.turned else part).numpy()
                for item, table in zip(block.items[some], tables, strict=True):
                    if not is_frozen[item]:
                        layout.of(out, item)[...] = table
            self._restore(out, number, block)
        return out

    def _restore(self, out: np.ndarray, number: int, block: TableBlock) -> None:
        """Copy the lines that have no counts from the original; see `Exact`."""
        if self.exact is None or number not in self.exact.lines:
            return
        lines = self.exact.lines[number].cpu().numpy()
        for position, item in enumerate(block.items):
            which = lines[position]
            if which.any() and not self.exact.frozen[item]:
                self.layout.of(out, item)[which] = self.layout.of(self.exact.before, item)[which]

    def __add__(self, other: Any) -> DeviceVector:
        added = self.layout.vector(other)
        return DeviceVector(self.layout, [one + more for one, more in zip(self.blocks, added.blocks, strict=True)])

    __radd__ = __add__

    def __mul__(self, factor: float) -> DeviceVector:
        return DeviceVector(self.layout, [one * float(factor) for one in self.blocks])

    __rmul__ = __mul__

    def updated(
        self, parameters: Any, before: Any, smoothing: np.ndarray | None, learnt: np.ndarray, least: float
    ) -> DeviceVector:
        """See `fgrn.engines.Vector`."""
        layout = self.layout
        old = layout.vector(parameters)
        smoothed = None if smoothing is None else layout.vector(smoothing)
        blocks, totals = [], []
        for number, (block, counts) in enumerate(zip(layout.blocks, self.blocks, strict=True)):
            cells = counts if smoothed is None else counts + smoothed.blocks[number]
            total = cells.sum(block.axis, keepdim=True, dtype=torch.float64)
            made = cells / total.to(layout.kind)
            chosen = layout.is_chosen(block, learnt)
            blocks.append(made if chosen is None else torch.where(chosen, made, old.blocks[number]))
            totals.append(total)
        signs = torch.stack([torch.stack([~torch.isfinite(total).all(), (total < least).any()]) for total in totals])
        wrong, empty = signs.any(0).tolist() if len(signs) else (False, False)
        if wrong:
            raise LearningError("The expected counts are not finite. This should not happen; please report it.")
        exact = self._exact(parameters, before, learnt)
        if empty:
            self._keep_empty(blocks, [total < least for total in totals], exact, learnt)
        return DeviceVector(layout, blocks, exact)

    def _exact(self, parameters: Any, before: Any, learnt: np.ndarray) -> Exact:
        if isinstance(parameters, DeviceVector) and parameters.exact is not None:
            start = parameters.exact.start
        else:
            start = np.asarray(parameters)
        return Exact(start, np.asarray(before), ~learnt)

    def _keep_empty(
        self, blocks: list[torch.Tensor], without: list[torch.Tensor], exact: Exact, learnt: np.ndarray
    ) -> None:
        """Set lines `without` counts to their values before learning."""
        before = self.layout.vector(exact.before)
        for number, (block, lines) in enumerate(zip(self.layout.blocks, without, strict=True)):
            chosen = self.layout.is_chosen(block, learnt)
            empty = lines if chosen is None else lines & chosen
            blocks[number] = torch.where(empty, before.blocks[number], blocks[number])
            exact.lines[number] = empty.squeeze(block.axis)

    def sum_of_logarithms(self, weights: np.ndarray, learnt: np.ndarray) -> float:
        """See `fgrn.engines.Vector`."""
        layout = self.layout
        factors = layout.vector(weights)
        total = torch.zeros((), dtype=torch.float64, device=layout.device)
        for number, block in enumerate(layout.blocks):
            terms = torch.special.xlogy(factors.blocks[number], self.blocks[number])
            chosen = layout.is_chosen(block, learnt)
            terms = terms if chosen is None else torch.where(chosen, terms, torch.zeros_like(terms))
            total += terms.sum(dtype=torch.float64)
        return float(total)

    def line_sums(self) -> np.ndarray:
        """See `fgrn.engines.Vector`."""
        layout = self.layout
        sums = [one.sum(block.axis, dtype=torch.float64) for block, one in zip(layout.blocks, self.blocks, strict=True)]
        return layout.by_line(sums)

    def line_distances(self, other: Any) -> np.ndarray:
        """See `fgrn.engines.Vector`. Differences within rounding error are returned as zero."""
        layout, theirs = self.layout, self.layout.vector(other)
        pairs = zip(layout.blocks, self.blocks, theirs.blocks, strict=True)
        found = layout.by_line([(one - other).abs().amax(block.axis) for block, one, other in pairs])
        return np.where(found <= STILL[layout.kind], 0.0, found)

    @cached_property
    def bytes(self) -> int:
        """The memory of the vector, in bytes."""
        return sum(one.numel() * one.element_size() for one in self.blocks)
