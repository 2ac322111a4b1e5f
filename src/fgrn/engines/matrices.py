"""Trees of hidden variables on the processor: one matrix product (BLAS) per link, for many rows at a time.

Cliques are those of `device.clique_tree`, each one variable. Upwards, a clique multiplies the columns of its leaves and
the messages of its children, and is divided by its sum; downwards its posterior follows from its parent's:

    u = leaves * messages of the children / sum            message to the parent = u @ table.T
    q = posterior of the parent / message                  posterior = u * (q @ table)
    counts of the table between = q.T @ u * table          summed over rows

This needs no message in the other direction and one product more than the two sweeps; see `kernels.matrix_sweeps`. A
row in which a product becomes zero, or negligible beside the downward message, may have underflowed, and is computed by
the reference engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .blas_threads import limited_kernel_blas
from .cycles import transposed_tables
from .device.clique_tree import CliqueTree, clique_tree
from .kernels.arguments import HiddenTree, HiddenTreeRows, HiddenTreeTables, HiddenTreeTotals, HiddenTreeWork
from .packs import kernel_array
from .protocol import Buffers, Loaded, Prepared, RowCounts
from .registry import get
from .row_blocks import blocks_of_rows, put_together, sum_of_blocks, thread_count

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

FEWEST_ROWS = 16
"""With fewer rows, setting up matrices takes longer than it saves."""

SMALL_PRODUCT = 2**19
"""Multiplications of a product of matrices that BLAS does at once, without copying the matrices first."""

MOST_AT_ONCE, FEWEST_AT_ONCE, LARGE_PRODUCT = 512, 16, 256
"""Rows of a product: at most the first, and where fewer than the second would make a small one, it is a large one."""

BLOCK_PRODUCTS = 8
"""Products of each table in a block of rows, at most: its counts are summed with those of other blocks."""

ENOUGH_BLOCKS = 4
"""Blocks for threads to share: where there would be fewer, a block has fewer products."""

LEAST = 1e-290
"""The value that replaces a probability of zero between two cliques, so that no message is divided by zero."""


NOTHING = np.zeros(0)


def tree_of_matrices(plan: Plan, program: Program, evidence: Evidence) -> CliqueTree | None:
    """Return the clique tree if counts or likelihoods are matrix products: hard evidence, on leaves only; else None."""
    no_message = program.for_counts or not len(program.shown)
    if not (no_message and plan.is_tree and plan.diverters) or evidence.rows < FEWEST_ROWS:
        return None
    if evidence.soft_edges() or plan.is_factor.any():
        return None
    tree = clique_tree(plan, frozenset())
    outputs = {leaf.edge for leaf in tree.leaves}
    whole = all(part.index is None for part in tree.home.values())
    sound = whole and evidence.edges() <= outputs and len(tree.links) > 0 and len(tree.roots) == 1
    alike = all(link.table >= 0 and link.downward for link in tree.links.values())
    tied = len(set(plan.siso_table.tolist())) < len(plan.siso_table)
    return tree if sound and alike and not tied and bool(plan.driver.all()) else None


class MatrixPrepared:
    """Rows laid out for matrix products; what these cannot compute is left to another layout of the same rows."""

    kernel = "matrix"

    def __init__(
        self,
        plan: Plan,
        programs: Programs,
        evidence: Evidence,
        weights: np.ndarray | None,
        threads: int | None,
        tree: CliqueTree,
        others: Callable[[], Prepared],
    ) -> None:
        self.plan, self.programs, self.evidence, self.tree = plan, programs, evidence, tree
        self.weights = np.broadcast_to(1.0, evidence.rows) if weights is None else weights
        self.threads = thread_count() if threads is None else threads
        self._others = others
        self.shape = _shape(plan, tree, evidence.slot)
        largest = int(tree.sizes.max())
        small = SMALL_PRODUCT // largest**2
        self.rows_at_once = min(small, MOST_AT_ONCE) if small >= FEWEST_AT_ONCE else LARGE_PRODUCT
        self._rooms: list[HiddenTreeWork] = []  # whose memory may be used again: fresh memory is slow the first time

    @cached_property
    def others(self) -> Prepared:
        """The same rows in the layout for everything that is not counted here."""
        return self._others()

    @cached_property
    def blocks(self) -> list[slice]:
        """Return all rows, in blocks."""
        products = self.evidence.rows // (ENOUGH_BLOCKS * self.rows_at_once)
        return blocks_of_rows(self.evidence.rows, min(max(products, 1), BLOCK_PRODUCTS) * self.rows_at_once)

    @contextmanager
    def room(self) -> Iterator[HiddenTreeWork]:
        """A context with buffers for the messages of some rows, for one thread at a time."""
        try:
            found = self._rooms.pop()
        except IndexError:  # another thread may have taken the last one
            shape, rows = self.shape, min(self.rows_at_once, self.evidence.rows)
            largest = int(shape.size.max())
            table = largest * max(largest, int(shape.leaf_levels.max(initial=0)))
            cells = rows * int(shape.size.sum()), rows * int(shape.size[shape.parent].sum()), rows * largest, table
            found = HiddenTreeWork(*(np.empty(count) for count in cells))
        yield found
        self._rooms.append(found)

    def free_memory(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self.__dict__.pop("others", None)
        self._rooms = []

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return MatrixLoaded(self, values)


class MatrixLoaded:
    """Rows and parameters laid out for matrix products."""

    def __init__(self, prepared: MatrixPrepared, values: np.ndarray) -> None:
        self.prepared, self.values = prepared, values
        plan, tree = prepared.plan, prepared.tree
        transposed = transposed_tables(plan, values)
        for link in tree.links.values():
            cells = plan.layout.table(transposed, link.table)
            np.maximum(cells, LEAST, out=cells)
        self.tables = HiddenTreeTables(kernel_array(values), transposed, np.ones(int(tree.sizes[tree.roots[0]])))
        for source in range(len(plan.source_edge)):
            np.multiply(self.tables.prior, plan.source_values(values, source), out=self.tables.prior)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`; if only likelihoods are wanted, they come from the upward sweep."""
        mine = self.prepared
        if set(parts) != {"likelihood"}:
            return mine.others.load(self.values).propagate(parts)
        with limited_kernel_blas():
            return put_together(mine.threads, self._likelihoods_of, mine.blocks, (mine.evidence.rows, 0, 0), parts)

    def round(self, before: Buffers) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        return self.prepared.others.load(self.values).round(before)

    def recounting(self, hold: bool, expect: bool) -> Callable[[np.ndarray], RowCounts]:
        """See `fgrn.engines.Loaded`."""
        return self.prepared.others.load(self.values).recounting(hold, expect)

    def counts(self, expect: bool) -> RowCounts:
        """See `fgrn.engines.Loaded`."""
        mine = self.prepared
        if not expect:
            return mine.others.load(self.values).counts(expect)
        with limited_kernel_blas():
            found = sum_of_blocks(mine.threads, self._counts_of, mine.blocks)
        if found is None:
            return RowCounts(np.zeros(mine.plan.layout.size), 0.0, np.zeros(0, dtype=np.intp))
        return found

    def _likelihoods_of(self, rows: slice, _: dict[str, np.ndarray]) -> Buffers:
        """Return the log-likelihoods of a block; the reference engine computes rows that may have underflowed."""
        mine = self.prepared
        codes = kernel_array(mine.evidence.codes[rows], np.int32)
        mine.evidence.release()
        likelihood, doubtful = self._run(codes, HiddenTreeTotals(np.ones(len(codes)), NOTHING, NOTHING, self._states))
        where = np.flatnonzero(doubtful)
        if len(where):
            evidence = mine.evidence.take(rows).take(where)
            reference = get("reference").prepare(mine.plan, mine.programs, mine.programs.everything, evidence)
            likelihood[where] = reference.load(self.values).propagate(("likelihood",)).log_likelihood
        return Buffers(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, likelihood)

    def _counts_of(self, rows: slice) -> RowCounts:
        """Return the counts of a block; the reference engine counts rows that may have underflowed."""
        mine = self.prepared
        weights = kernel_array(mine.weights[rows])
        codes = kernel_array(mine.evidence.codes[rows], np.int32)
        mine.evidence.release()
        values, likelihood, doubtful = self._swept(codes, weights)
        while doubtful.any():  # again without them, until no other row is in doubt
            values, likelihood, more_doubtful = self._swept(codes, np.where(doubtful, 0.0, weights))
            if not more_doubtful.any():
                break
            doubtful |= more_doubtful
        where = np.flatnonzero(doubtful)
        if not len(where):
            return RowCounts(values, likelihood, where)
        evidence = mine.evidence.take(rows).take(where)
        reference = get("reference").prepare(mine.plan, mine.programs, mine.programs.counting, evidence, weights[where])
        more = reference.load(self.values).counts(True)
        return RowCounts(values + more.values, likelihood + more.log_likelihood, where[more.impossible])

    def _swept(self, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """Return the counts of a block, its log-likelihood, and the weighted rows that may have underflowed."""
        mine = self.prepared
        missing = int((np.diff(mine.shape.leaves) * mine.shape.size).sum())
        totals = HiddenTreeTotals(weights, np.zeros(mine.plan.layout.size), np.zeros(missing), self._states)
        likelihoods, doubtful = self._run(codes, totals)
        for source in range(len(mine.plan.source_edge)):
            mine.plan.source_values(totals.counts, source)[...] += totals.prior
        likelihood = float((weights * np.where(doubtful, 0.0, likelihoods)).sum())
        return totals.counts, likelihood, doubtful & (weights != 0)

    @property
    def _states(self) -> np.ndarray:
        """Return zeros for the posterior of the root."""
        return np.zeros(len(self.tables.prior))

    def _run(self, codes: np.ndarray, totals: HiddenTreeTotals) -> tuple[np.ndarray, np.ndarray]:
        """Run the kernel on a block; returns the log-likelihood of each row, and whether it may have underflowed."""
        mine, count = self.prepared, len(codes)
        books = HiddenTreeRows(np.zeros(count), np.ones(count), np.full(count, np.inf), np.zeros(count, dtype=np.bool_))
        with mine.room() as room:
            kernels.matrix_sweeps(mine.shape, self.tables, codes, mine.rows_at_once, room, books, totals)
        return books.scale, books.doubtful


def _shape(plan: Plan, tree: CliqueTree, slot: np.ndarray) -> HiddenTree:
    """Return the cliques of a tree in the form of the kernel; `slot` has the column of each variable."""
    cliques, offsets = range(len(tree.sizes)), plan.layout.table_offsets
    parent = [tree.links[clique].parent.clique if clique in tree.links else -1 for clique in cliques]
    table = [int(offsets[tree.links[clique].table]) if clique in tree.links else -1 for clique in cliques]
    leaves = sorted(tree.leaves, key=lambda leaf: leaf.part.clique)
    homes = np.array([leaf.part.clique for leaf in leaves], dtype=np.int64)
    children = np.argsort(parent, kind="stable")[len(tree.roots) :]  # the root has the least
    found = HiddenTree(
        order=np.argsort(tree.depth, kind="stable"),
        size=tree.sizes,
        parent=np.array(parent),
        start=_first_cells(tree.sizes),
        message=_first_cells(np.where(np.array(parent) < 0, 0, tree.sizes[parent])),
        table=np.array(table),
        children=np.searchsorted(np.array(parent)[children], np.arange(len(cliques) + 1)),
        child=children,
        leaves=np.searchsorted(homes, np.arange(len(cliques) + 1)),
        leaf_column=np.array([slot[leaf.edge] for leaf in leaves], dtype=np.int64),
        leaf_levels=np.array([plan.cardinality[leaf.edge] for leaf in leaves], dtype=np.int64),
        leaf_table=np.array([offsets[leaf.table] for leaf in leaves], dtype=np.int64),
        leaf_missing=_first_cells(tree.sizes[homes]),
    )
    return HiddenTree(*(kernel_array(array, np.int64) for array in found))


def _first_cells(sizes: np.ndarray) -> np.ndarray:
    """Return the offsets of consecutive pieces of given sizes."""
    found: np.ndarray = np.cumsum(sizes) - sizes
    return found
