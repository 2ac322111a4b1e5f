"""Packs: several observed leaves of a Diverter as one code, whose joint table is the product of their tables.

A row then costs one gather and one scatter per pack in which a value is known. A missing value in a pack is one more
code, with a row of ones in the joint table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import kernels
from .kernels.arguments import FOLD, LEAF, PACK, PRIOR, UNKNOWN_LEAF, Packing
from .kernels.basics import DEEPEST

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program

BLOCK = 256
"""Rows whose codes are made together."""

LINE = 64
"""Bytes of a line of the cache. Rows of a joint table that cross lines as seldom as they can are much faster."""


@dataclass(frozen=True, eq=False)
class Pack:
    """Leaves that share one code: their SISO blocks, in the order of the code, last fastest.

    `sizes[i]` is the number of codes of leaf i: its states, and one more if some row does not know it.
    `first` is the row of its code 0 in the joint tables of its Diverter, which lie on top of each other.
    """

    sisos: tuple[int, ...]
    sizes: tuple[int, ...]
    diverter: int
    first: int
    nothing: int  # the code of which all values are unknown, or -1 if there is none

    @cached_property
    def codes(self) -> int:
        """The number of codes of the pack."""
        return prod(self.sizes)

    @property
    def rows(self) -> slice:
        """The rows of the pack in the joint tables of its Diverter."""
        return slice(self.first, self.first + self.codes)


@dataclass(frozen=True, eq=False)
class Region:
    """The joint tables of one Diverter in the vector of all: `rows` of `stride` cells from `start` on.

    A row is as long as the Diverter's space, and some zeros that keep rows in line with the cache.
    """

    start: int
    rows: int
    states: int
    packs: tuple[Pack, ...]

    @property
    def stride(self) -> int:
        """The distance between rows, in cells."""
        return padded(self.states)

    @property
    def end(self) -> int:
        """The offset after the region, where the next one may begin."""
        return self.start + -(-self.rows * self.stride // 8) * 8

    def of(self, joint: np.ndarray) -> np.ndarray:
        """Return the tables of the region in the vector of all: (rows, stride)."""
        return joint[self.start : self.start + self.rows * self.stride].reshape(self.rows, self.stride)


class Known(NamedTuple):
    """The codes of packs in each row: row r has the entries bounds[k, r] : bounds[k, r + 1] of the k-th region.

    An entry is a row of the region. A pack whose values are all missing has none, so that the cost of a row depends on
    the values that are known.
    """

    entries: np.ndarray
    bounds: np.ndarray


def padded(states: int) -> int:
    """Return the padded length of a row of a joint table: a multiple of the vector width, or of the cache line."""
    step = 8 if states > 32 else 4
    return -(-states // step) * step


def aligned_zeros(size: int) -> np.ndarray:
    """Return a vector of zeros aligned to a cache line."""
    return _from_a_line(np.zeros(size + LINE // 8), size)


def aligned_empty(size: int) -> np.ndarray:
    """Return an uninitialised vector aligned to a cache line."""
    return _from_a_line(np.empty(size + LINE // 8), size)


def _from_a_line(raw: np.ndarray, size: int) -> np.ndarray:
    skipped = -raw.__array_interface__["data"][0] % LINE // 8
    return raw[skipped : skipped + size]


def kernel_array(array: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return the array, contiguous and writable: numba compiles a kernel again for every other kind of array."""
    if array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable:
        return array
    return np.require(array, dtype=dtype, requirements=["C", "W"])


def known_entries(
    plan: Plan, regions: Sequence[Region], codes: np.ndarray, slot: np.ndarray, rows: slice, pack: Callable[..., int]
) -> Known:
    """Return the codes of the packs in each row; `pack` is the kernel that computes them."""
    count = rows.stop - rows.start
    most = max((region.rows for region in regions), default=0)
    kind = np.uint16 if most <= 2**16 else np.uint32
    bounds = np.zeros((len(regions), count + 1), dtype=np.uint64)
    pieces: list[np.ndarray] = []
    before = 0
    for number, region in enumerate(regions):
        packs = [(pack.first, pack.nothing, len(pack.sisos)) for pack in region.packs]
        leaves = [
            (slot[plan.siso_output[siso]], size, size - 1)
            for pack in region.packs
            for siso, size in zip(pack.sisos, pack.sizes, strict=True)
        ]
        entries: np.ndarray = np.empty(count * len(packs), dtype=kind)
        bounds[number, 0] = before
        found = int(pack(
            codes, np.uint64(rows.start), np.uint64(count), np.array(packs, dtype=np.int64),
            np.array(leaves, dtype=np.int64), np.empty((len(packs), BLOCK), dtype=np.int32), entries,
            bounds[number, 1:], np.uint64(before),
        ))  # fmt: skip
        before += found
        pieces.append(entries if found == len(entries) else entries[:found].copy())
    return Known(pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, dtype=kind), *pieces]), bounds)


class PackPlan(NamedTuple):
    """The packs of a tape as kernels take them, and the sizes of their workspaces."""

    packing: Packing
    columns: int  # of the longest leaf
    codes: int
    folded: int
    shifts: int
    base: int  # 0 where there is not one Diverter


class Joint(NamedTuple):
    """The joint tables of all regions, concatenated, each row times the power of two that brings its largest near 1.

    `shifts` are the exponents of what was taken out of each row, all regions end to end. `deep` says that a cell may
    have vanished in a product of tiny ones. `base` is the product of the priors of a star.
    """

    tables: np.ndarray
    shifts: np.ndarray
    deep: bool
    base: np.ndarray


def packed(plan: Plan, program: Program, regions: Sequence[Region], without: int | None) -> PackPlan:
    """Return the packs of a tape as kernels take them and, of a star, the priors that are multiplied.

    That product is `without` the prior of one Source, or of none (-1); None if it is not needed.
    """
    place = np.concatenate([[0], np.cumsum(plan.diverter_size)]).tolist()
    offsets, shapes = plan.layout.table_offsets.tolist(), plan.layout.table_shapes
    packs, leaves, folds = [], [], []
    columns = codes = folded = shifts = 0
    for region in regions:
        for pack in region.packs:
            start = region.start + pack.first * region.stride
            packs.append((
                start, region.stride, region.states, len(pack.sisos), shifts + pack.first, pack.codes,
                int(pack.nothing >= 0), place[pack.diverter],
            ))  # fmt: skip
            steps, places, cells = _folds(pack.sizes, region.stride)
            folds += steps
            for siso, size, where in zip(pack.sisos, pack.sizes, places, strict=True):
                number = int(plan.siso_table[siso])
                leaves.append((offsets[number], shapes[number][1], size, where))
                codes, columns = max(codes, size), max(columns, size * region.stride)
            folded = max(folded, cells, region.stride)
        shifts += region.rows
    inside = {siso for region in regions for pack in region.packs for siso in pack.sisos}
    unknown, sources, priors = [], [], []
    source_of = plan.source_of
    for diverter in range(plan.diverters):
        size, run = int(plan.diverter_size[diverter]), int(plan.diverter_run[diverter])
        for leg in plan.legs(diverter):
            siso = int(program.gathered[leg])
            if siso >= 0 and siso not in inside:
                number = int(plan.siso_table[siso])
                unknown.append((offsets[number], shapes[number][1], shapes[number][0], place[diverter]))
            source = source_of.get(int(plan.leg_edge[leg]))
            if source is not None:
                record = (int(plan.source_at[source]), place[diverter], size, run, int(plan.leg_map[leg]))
                sources.append(record)
                priors += [record] if source != without else []
    base = 0 if without is None else padded(int(plan.diverter_size[0]))
    space = [int(plan.diverter_size[0])] if plan.diverters else [0]
    packing = Packing(
        _records(packs, PACK), _records(leaves, LEAF), _records(folds, FOLD), _records(unknown, UNKNOWN_LEAF),
        _records(sources, PRIOR), _records(priors, PRIOR), np.array(space, dtype=np.uint64),
    )  # fmt: skip
    return PackPlan(packing, columns, codes, folded, shifts, base)


def no_packs() -> Packing:
    """Return the packs of a tape without any."""
    kinds = PACK, LEAF, FOLD, UNKNOWN_LEAF, PRIOR, PRIOR
    packs, leaves, folds, unknown, sources, priors = (_records([], kind) for kind in kinds)
    return Packing(packs, leaves, folds, unknown, sources, priors, np.zeros(1, dtype=np.uint64))


def _records(rows: Sequence[tuple[int, ...]], kind: np.dtype) -> np.ndarray:
    """Return an array of records of unsigned integers; -1 becomes the largest."""
    return np.array(rows, dtype=np.int64).reshape(-1, kind.itemsize // 8).view(kind).ravel()


def _folds(sizes: tuple[int, ...], stride: int) -> tuple[list[tuple[int, ...]], list[int], int]:
    """Return the steps that sum the counts of a pack's codes over all leaves but one, for each leaf, by halving.

    Returns the steps, where the counts of each leaf are in the end (-1 for one leaf: as they were), and the cells that
    the sums take.
    """
    steps: list[tuple[int, ...]] = []
    cells = 0

    def halve(part: tuple[int, ...], at: int) -> list[int]:
        nonlocal cells
        if len(part) == 1:
            return [at]
        first, second = part[: len(part) // 2], part[len(part) // 2 :]
        left = cells
        right = left + prod(first) * stride
        cells = right + prod(second) * stride
        steps.append((int(at < 0), max(at, 0), prod(first), prod(second), left, right))
        return halve(first, left) + halve(second, right)

    places = halve(sizes, -1)
    return steps, places, cells


def load_joint(plan: PackPlan, values: np.ndarray, maps: np.ndarray, cells: int) -> Joint:
    """Return the joint tables: the product of the leaves' columns for every code of every pack, and a star's priors.

    A tape without packs, as those of junction trees are, needs no kernel for that.
    """
    joint, shifts, base = aligned_empty(cells), np.empty(plan.shifts, dtype=np.int64), np.empty(plan.base)
    if not len(plan.packing.packs) and not plan.base:
        return Joint(joint, shifts, False, base)
    columns, exponents = np.empty(plan.columns), np.empty(plan.codes, dtype=np.int64)
    depth = kernels.joint_tables(plan.packing, values, maps, joint, shifts, base, columns, exponents)
    return Joint(joint, shifts, depth > DEEPEST, base)
