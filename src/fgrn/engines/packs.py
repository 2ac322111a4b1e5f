"""Gathered leaves of a Diverter, a few of them packed into one code whose joint table is the product of theirs.

A row then costs one gather and one scatter per pack of which it knows something. An unknown value in a pack is one more
code, of a row of ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program

BLOCK = 256
"""Rows whose codes are made together."""

DEEPEST = 900
"""By as many bits the cells of a pack may differ before a product of the smallest could vanish."""

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
        """The number of codes."""
        return prod(self.sizes)

    @property
    def rows(self) -> slice:
        """Its rows in the joint tables of its Diverter."""
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
        """The cells from one row to the next."""
        return padded(self.states)

    @property
    def end(self) -> int:
        """Where the next region may begin."""
        return self.start + -(-self.rows * self.stride // 8) * 8

    def of(self, joint: np.ndarray) -> np.ndarray:
        """Its tables in a vector of all: (rows, stride)."""
        return joint[self.start : self.start + self.rows * self.stride].reshape(self.rows, self.stride)


class Known(NamedTuple):
    """What is known of packs: row r of data has the entries bounds[k, r] : bounds[k, r + 1] of the k-th region.

    An entry is a row of the region. A pack of which nothing is known has none, so that a row costs as much as is known
    of it.
    """

    entries: np.ndarray
    bounds: np.ndarray


def padded(states: int) -> int:
    """The length of a row of a joint table: whole vectors of the processor, whole lines of the cache if it is long."""
    step = 8 if states > 32 else 4
    return -(-states // step) * step


def aligned_zeros(size: int) -> np.ndarray:
    """A vector of zeros that begins with a line of the cache."""
    raw = np.zeros(size + LINE // 8)
    skipped = -raw.ctypes.data % LINE // 8
    return raw[skipped : skipped + size]


def plain(array: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """The array, contiguous and writable: numba compiles a kernel anew for every other kind of array."""
    return np.require(array, dtype=dtype, requirements=["C", "W"])


def known_entries(
    plan: Plan, regions: Sequence[Region], codes: np.ndarray, slot: np.ndarray, rows: slice, pack: Callable[..., int]
) -> Known:
    """What is known of the packs, row by row; `pack` is the kernel that does it."""
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
            codes, rows.start, count, np.array(packs, dtype=np.int64), np.array(leaves, dtype=np.int64),
            np.empty((len(packs), BLOCK), dtype=np.int32), entries, bounds[number, 1:], np.uint64(before),
        ))  # fmt: skip
        before += found
        pieces.append(entries if found == len(entries) else entries[:found].copy())
    return Known(pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, dtype=kind), *pieces]), bounds)


class Joint(NamedTuple):
    """The joint tables of all regions end to end, each row times the power of two that brings its largest near 1.

    `shifts` are the exponents of what was taken out of each row, all regions end to end. `deep` says that a cell may
    have vanished in a product of tiny ones.
    """

    tables: np.ndarray
    shifts: np.ndarray
    deep: bool


def alike(region: Region) -> Iterator[tuple[tuple[Pack, ...], slice]]:
    """Runs of packs that have the same numbers of codes, and their rows: a run is worked on as one array."""
    for _, run in groupby(region.packs, key=lambda pack: pack.sizes):
        packs = tuple(run)
        yield packs, slice(packs[0].first, packs[-1].rows.stop)


def joint_tables(plan: Plan, regions: Sequence[Region], values: np.ndarray) -> Joint:
    """The product of the leaves' columns, for every code of every pack."""
    joint = aligned_zeros(regions[-1].end if regions else 0)
    shifts = np.zeros(sum(region.rows for region in regions), dtype=np.int64)
    at, deepest = 0, 0.0
    for region in regions:
        for packs, rows in alike(region):
            product = np.ones((len(packs), 1, region.stride))
            exponent = np.zeros((len(packs), 1), dtype=np.int64)
            depth = np.zeros(len(packs))
            for position, size in enumerate(packs[0].sizes):
                columns = np.zeros((len(packs), size, region.stride))
                for pack, mine in zip(packs, columns, strict=True):
                    table = plan.layout.table(values, int(plan.siso_table[pack.sisos[position]])).T
                    mine[: len(table), : region.states] = table
                    mine[len(table) :, : region.states] = 1.0  # the unknown
                largest = np.frexp(columns.max(axis=2))[1].astype(np.int64)
                columns = np.ldexp(columns, -largest[:, :, None])
                depth -= np.log2(columns.min(axis=(1, 2), initial=1.0, where=columns > 0))
                last = position == len(packs[0].sizes) - 1
                into = region.of(joint)[rows].reshape(len(packs), -1, size, region.stride) if last else None
                product = np.multiply(product[:, :, None], columns[:, None], out=into)
                product = product.reshape(len(packs), -1, region.stride)
                exponent = (exponent[:, :, None] + largest[:, None]).reshape(len(packs), -1)
            shifts[at : at + region.rows][rows] = exponent.ravel()
            deepest = max(deepest, depth.max())
        at += region.rows
    return Joint(joint, shifts, deepest > DEEPEST)


def unpacked_counts(
    plan: Plan,
    regions: Sequence[Region],
    joint: np.ndarray,
    posteriors: np.ndarray,
    program: Program,
    values: np.ndarray,
    expect: bool,
) -> np.ndarray:
    """Packs and posteriors in the plan's layout: marginalised once, unknown values times the old table."""
    out = np.zeros(plan.layout.size)
    place = np.concatenate([[0], np.cumsum(plan.diverter_size)])
    counted: set[int] = set()
    for region in regions:
        for packs, rows in alike(region):
            counts = region.of(joint)[rows, : region.states].reshape(len(packs), -1, region.states)
            for pack, mine in zip(packs, counts, strict=True):
                if pack.nothing >= 0:
                    total = posteriors[place[pack.diverter] : place[pack.diverter] + region.states]
                    rest = total - mine.sum(axis=0)
                    least = np.finfo(np.float64).eps * total  # what rounding hides may be there: no zero is made up
                    mine[-1] = np.maximum(rest, least)
            for position, leaves in enumerate(_per_leaf(counts, packs[0].sizes)):
                for pack, leaf in zip(packs, leaves, strict=True):
                    counted.add(pack.sisos[position])
                    _add_leaf(plan, pack.sisos[position], leaf.T, values, expect, out)
    source_of = plan.source_of
    for diverter in range(plan.diverters):
        posterior = posteriors[place[diverter] : place[diverter + 1]]
        for leg in plan.legs(diverter):
            siso = int(program.gathered[leg])
            if siso >= 0 and siso not in counted:  # a leaf that no row knows
                table = plan.layout.table(values, int(plan.siso_table[siso]))
                if expect:
                    plan.layout.table(out, int(plan.siso_table[siso]))[...] += table * posterior[:, None]
            source = source_of.get(int(plan.leg_edge[leg]))
            if source is not None:
                prior = plan.source_values(out, source)
                index = plan.leg_index(diverter, leg)
                prior += posterior if index is None else np.bincount(index, posterior, minlength=len(prior))
    return out


def _per_leaf(counts: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """The counts (packs, codes, states), summed over all leaves but one, for each: half by half."""
    if len(sizes) == 1:
        return [counts]
    half = len(sizes) // 2
    both = counts.reshape(len(counts), prod(sizes[:half]), -1, counts.shape[2])
    return _per_leaf(both.sum(axis=2), sizes[:half]) + _per_leaf(both.sum(axis=1), sizes[half:])


def _add_leaf(plan: Plan, siso: int, counts: np.ndarray, values: np.ndarray, expect: bool, out: np.ndarray) -> None:
    number = int(plan.siso_table[siso])
    table = plan.layout.table(values, number)
    known, unknown = counts[:, : table.shape[1]], counts[:, table.shape[1] :]
    total = plan.layout.table(out, number)
    total += known
    if expect and unknown.size:
        total += table * unknown
