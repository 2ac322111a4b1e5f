"""Gathered leaves of a Diverter, a few of them packed into one code whose joint table is the product of theirs.

A row then costs one gather and one scatter per pack of which it knows something. An unknown value in a pack is one more
code, of a row of ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..evidence import Evidence
    from ..plan import Plan, Program

ROWS_AT_ONCE = 2**15
"""Rows whose entries are made together."""


@dataclass(frozen=True, eq=False)
class Pack:
    """Leaves that share one code: their SISO blocks, in the order of the code, last fastest.

    `sizes[i]` is the number of codes of leaf i: its states, and one more if some row does not know it.
    `start` is where its joint table begins in the vector of all joint tables.
    """

    sisos: tuple[int, ...]
    sizes: tuple[int, ...]
    diverter: int
    start: int
    nothing: int  # the code of which all values are unknown, or -1 if there is none

    @property
    def codes(self) -> int:
        """The number of codes."""
        return int(np.prod(self.sizes))


def joint_size(plan: Plan, packs: Sequence[Pack]) -> int:
    """The cells of all joint tables together."""
    return sum(pack.codes * int(plan.diverter_size[pack.diverter]) for pack in packs)


def known_entries(plan: Plan, packs: Sequence[Pack], evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """What is known of the packs, row by row: where in the joint tables the row of each pack's code begins.

    Returns the entries, those of a row in the order of the packs, and per row where those of each Diverter that has
    packs begin, with the end of the last twice (for Diverters without packs). A pack of which a row knows nothing has
    no entry, so that a row costs as much as is known of it.
    """
    owners = [pack.diverter for pack in packs]
    first_of = [column for column, owner in enumerate(owners) if column == 0 or owner != owners[column - 1]]
    kind = np.uint32 if joint_size(plan, packs) < 2**32 else np.uint64
    pieces, counts = [np.zeros(0, dtype=kind)], np.zeros((evidence.rows, len(first_of) + 2), dtype=np.int64)
    for first in range(0, evidence.rows, ROWS_AT_ONCE):
        rows = evidence.take(slice(first, first + ROWS_AT_ONCE))
        starts = np.empty((rows.rows, len(owners)), dtype=kind)
        known = np.ones((rows.rows, len(owners)), dtype=bool)
        for column, pack in enumerate(packs):
            code = np.zeros(rows.rows, dtype=np.int64)
            for siso, size in zip(pack.sisos, pack.sizes, strict=True):
                values = rows.codes[:, rows.slot[plan.siso_output[siso]]]
                code *= size
                code += np.where(values < 0, size - 1, values)
            known[:, column] = code != pack.nothing
            starts[:, column] = pack.start + code * int(plan.diverter_size[pack.diverter])
        pieces.append(starts[known])
        if first_of:
            counts[first : first + rows.rows, 1:-1] = np.add.reduceat(known, first_of, axis=1, dtype=np.int64)
    ends = np.cumsum(counts.ravel()).reshape(counts.shape)
    return np.concatenate(pieces), ends


def joint_tables(plan: Plan, packs: Sequence[Pack], values: np.ndarray) -> tuple[np.ndarray, float]:
    """All joint tables end to end, each (codes, states of the Diverter): the product of the leaves' columns.

    Also the bits by which one factor may shrink a product at most: of a pack, those of its leaves together.
    """
    out = np.empty(joint_size(plan, packs))
    bits = 0.0
    for pack in packs:
        states = int(plan.diverter_size[pack.diverter])
        joint = np.ones((1, states))
        smallest = 0.0
        for siso, size in zip(pack.sisos, pack.sizes, strict=True):
            columns = np.ones((size, states))
            table = plan.layout.table(values, int(plan.siso_table[siso])).T
            columns[: len(table)] = table
            smallest -= float(np.log2(table.min(initial=1.0, where=table > 0)))
            joint = (joint[:, None, :] * columns[None]).reshape(-1, states)
        bits = max(bits, smallest)
        out[pack.start : pack.start + joint.size] = joint.ravel()
    return out, bits


def unpacked_counts(
    plan: Plan,
    packs: Sequence[Pack],
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
    for pack in packs:
        states = int(plan.diverter_size[pack.diverter])
        counts = joint[pack.start : pack.start + pack.codes * states].reshape(*pack.sizes, states)
        if pack.nothing >= 0:
            every = tuple(range(len(pack.sizes)))
            total = posteriors[place[pack.diverter] : place[pack.diverter] + states]
            rest = total - counts.sum(axis=every)
            least = np.finfo(np.float64).eps * total  # what rounding hides may be there: no zero is made up
            counts[(-1,) * len(pack.sizes)] = np.maximum(rest, least)
        for position, siso in enumerate(pack.sisos):
            others = tuple(axis for axis in range(len(pack.sizes)) if axis != position)
            mine = counts.sum(axis=others).T
            counted.add(siso)
            _add_leaf(plan, siso, mine, values, expect, out)
    source_of = {edge: source for source, edge in enumerate(plan.source_edge.tolist())}
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
                prior = plan.layout.prior(out, int(plan.source_prior[source]))
                index = plan.leg_index(diverter, leg)
                prior += posterior if index is None else np.bincount(index, posterior, minlength=len(prior))
    return out


def _add_leaf(plan: Plan, siso: int, counts: np.ndarray, values: np.ndarray, expect: bool, out: np.ndarray) -> None:
    number = int(plan.siso_table[siso])
    table = plan.layout.table(values, number)
    known, unknown = counts[:, : table.shape[1]], counts[:, table.shape[1] :]
    total = plan.layout.table(out, number)
    total += known
    if expect and unknown.size:
        total += table * unknown
