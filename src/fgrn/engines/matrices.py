"""Trees of hidden variables on the processor: a product of matrices for each link, many rows at a time (BLAS).

Cliques are those of `device.clique_tree`, each one variable. Upwards, a clique multiplies the columns of its leaves and
the messages of its children, and is divided by its sum; downwards its posterior follows from its parent's:

    u = leaves * messages of the children / sum            message to the parent = u @ table.T
    q = posterior of the parent / message                  posterior = u * (q @ table)
    counts of the table between = q.T @ u * table          summed over rows

This needs no message in the other direction and one product more than the two sweeps. A row in which a product becomes
zero, or next to nothing beside what comes from above, is in doubt: the reference engine decides about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .blas_threads import ONE_BLAS_THREAD
from .device.clique_tree import CliqueTree, clique_tree
from .protocol import Buffers, Loaded, Prepared, RowCounts
from .registry import get
from .row_blocks import blocks_of_rows, sum_of_blocks, thread_count

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..plan.schedule import Programs
    from ..tables.encoded import Evidence

FEWEST_STATES = 24
"""Of the largest clique: products of smaller matrices are not worth a call."""

FEWEST_ROWS = 16
"""Fewer rows are over before matrices are filled."""

BLOCK_CELLS = 2**15
"""Of the messages of one clique in a block of rows: they stay in the second-level cache with a table."""

BETWEEN = 16
"""Messages that are multiplied before the product is divided by its sum."""

LEAST, FAINT = 1e-300, 1e-200
"""What stands for a message of zero, and products so small beside their factors are in doubt."""


def tree_of_matrices(plan: Plan, program: Program, evidence: Evidence) -> CliqueTree | None:
    """Return the cliques, if counts are products of matrices: hard evidence, on leaves alone, and large tables."""
    if not (program.for_counts and plan.is_tree and plan.diverters) or evidence.rows < FEWEST_ROWS:
        return None
    if int(plan.diverter_size.max()) < FEWEST_STATES or evidence.soft_edges() or plan.is_factor.any():
        return None
    tree = clique_tree(plan, frozenset())
    outputs = {leaf.edge for leaf in tree.leaves}
    whole = all(part.index is None for part in tree.home.values())
    sound = whole and evidence.edges() <= outputs and len(tree.links) > 0 and len(tree.roots) == 1
    alike = all(link.table >= 0 and link.downward for link in tree.links.values())
    tied = len(set(plan.siso_table.tolist())) < len(plan.siso_table)
    return tree if sound and alike and not tied and bool(plan.driver.all()) else None


class MatrixPrepared:
    """Rows laid out for products of matrices; what is not counted is left to another layout of the same rows."""

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
        self.order = np.argsort(tree.depth, kind="stable").tolist()  # parents first
        self.rows_at_once = max(FEWEST_ROWS, BLOCK_CELLS // int(tree.sizes.max()))
        self.children: list[list[int]] = [[] for _ in tree.sizes]
        self.leaves: list[list[int]] = [[] for _ in tree.sizes]
        for child, link in tree.links.items():
            self.children[link.parent.clique].append(child)
        for number, leaf in enumerate(tree.leaves):
            self.leaves[leaf.part.clique].append(number)
        self._rooms: list[Room] = []  # whose memory may be used again: fresh memory is slow the first time

    @cached_property
    def others(self) -> Prepared:
        """The same rows, for all that is not counted here."""
        return self._others()

    @cached_property
    def blocks(self) -> list[slice]:
        """All rows, as many at a time as make a block."""
        return blocks_of_rows(self.evidence.rows, self.rows_at_once)

    def codes(self, edge: int, rows: slice) -> np.ndarray | None:
        """The states of a variable in a block, the number of states where it is missing; None without a column."""
        slot, states = int(self.evidence.slot[edge]), int(self.plan.cardinality[edge])
        if slot < 0:
            return None
        column = self.evidence.codes[rows, slot].astype(np.intp)
        column[column < 0] = states
        return column

    @contextmanager
    def room(self, rows: int) -> Iterator[Room]:
        """Room for the messages of a block of rows, for one thread at a time."""
        try:
            whole = self._rooms.pop()
        except IndexError:  # several threads may ask
            most = min(self.rows_at_once, self.evidence.rows)
            sizes = self.tree.sizes.tolist()
            up, message = ([np.empty((most, size)) for size in sizes] for _ in range(2))
            whole = Room(up, message, {size: np.empty((most, size)) for size in sizes})
            for child, link in self.tree.links.items():
                whole.message[child] = np.empty((most, int(self.tree.sizes[link.parent.clique])))
        yield whole.of(rows)
        self._rooms.append(whole)

    def rest(self) -> None:
        """See `fgrn.engines.Prepared`."""
        self.__dict__.pop("others", None)
        self._rooms = []

    def load(self, values: np.ndarray) -> Loaded:
        """See `fgrn.engines.Prepared`."""
        return MatrixLoaded(self, values)


class MatrixLoaded:
    """Rows and parameters in place."""

    def __init__(self, prepared: MatrixPrepared, values: np.ndarray) -> None:
        self.prepared, self.values = prepared, values
        plan, tree = prepared.plan, prepared.tree
        self.links = {child: plan.layout.table(values, link.table) for child, link in tree.links.items()}
        self.columns: dict[int, np.ndarray] = {}  # by leaf: its table, a state in each row, and ones if it is missing
        for number, leaf in enumerate(tree.leaves):
            table = plan.layout.table(values, leaf.table)
            self.columns[number] = np.concatenate([table.T, np.ones((1, len(table)))])
        self.prior = np.ones(int(tree.sizes[tree.roots[0]]))
        for source in range(len(plan.source_edge)):
            self.prior = self.prior * plan.source_values(values, source)

    def propagate(self, parts: Collection[str]) -> Buffers:
        """See `fgrn.engines.Loaded`."""
        return self.prepared.others.load(self.values).propagate(parts)

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
        with ONE_BLAS_THREAD:  # its threads and ours would wait for each other
            found = sum_of_blocks(mine.threads, self._counts_of, mine.blocks)
        if found is None:
            return RowCounts(np.zeros(mine.plan.layout.size), 0.0, np.zeros(0, dtype=np.intp))
        return found

    def _counts_of(self, rows: slice) -> RowCounts:
        """The counts of a block; rows in doubt are counted by the reference engine."""
        mine = self.prepared
        weights = np.array(mine.weights[rows], dtype=np.float64)
        with mine.room(rows.stop - rows.start) as room:
            block = _BlockSweeps(self, rows, weights, room)
            values = block.counts()
            while (found := block.doubtful & (block.weights > 0)).any():  # again without them
                doubtful = block.doubtful
                block = _BlockSweeps(self, rows, np.where(found, 0.0, block.weights), room)
                values = block.counts()
                block.doubtful |= doubtful
        likelihood = float((block.weights * np.where(block.doubtful, 0.0, block.log_likelihood)).sum())
        mine.evidence.release()
        where = np.flatnonzero(block.doubtful & (weights > 0))
        if not len(where):
            return RowCounts(values, likelihood, where)
        evidence = mine.evidence.take(rows).take(where)
        reference = get("reference").prepare(mine.plan, mine.programs, mine.programs.counting, evidence, weights[where])
        more = reference.load(self.values).counts(True)
        return RowCounts(values + more.values, likelihood + more.log_likelihood, where[more.impossible])


class Room(NamedTuple):
    """The messages of all cliques in a block of rows, each (rows, states).

    up        the product of what lies below each clique, and on the way down its posterior in the same place: a sweep
              takes as long as its numbers take to come from memory
    message   of each clique to its parent, and on the way down the posterior of the parent without it
    passed    by number of states, what comes to a clique from its parent
    """

    up: list[np.ndarray]
    message: list[np.ndarray]
    passed: dict[int, np.ndarray]

    def of(self, rows: int) -> Room:
        """The room of the first rows."""
        up, message = ([array[:rows] for array in arrays] for arrays in (self.up, self.message))
        return Room(up, message, {size: array[:rows] for size, array in self.passed.items()})


class _BlockSweeps:
    """The two sweeps of one block of rows."""

    def __init__(self, loaded: MatrixLoaded, rows: slice, weights: np.ndarray, room: Room) -> None:
        self.loaded, self.weights, self.room = loaded, weights, room
        self.doubtful = np.zeros(len(weights), dtype=bool)
        self.log_likelihood = np.zeros(len(weights))
        mine = loaded.prepared
        self.codes = [mine.codes(leaf.edge, rows) for leaf in mine.tree.leaves]

    def counts(self) -> np.ndarray:
        """Return the expected counts of the rows with their weights, in the layout of the plan."""
        self._upwards()
        return self._downwards()

    def _upwards(self) -> None:
        """Compute the product of all that lies below each clique, and the log-likelihood of each row."""
        loaded, mine, room = self.loaded, self.loaded.prepared, self.room
        for clique in reversed(mine.order):
            product = room.up[clique]
            self._leaves(clique, product)
            for number, child in enumerate(mine.children[clique], start=1):
                np.multiply(product, room.message[child], out=product)
                if number % BETWEEN == 0:
                    self._level(product)
            self._level(product)
            if clique in loaded.links:
                message = np.matmul(product, loaded.links[clique].T, out=room.message[clique])
                np.maximum(message, LEAST, out=message)
        root = mine.tree.roots[0]
        total = room.up[root] @ loaded.prior
        self.doubtful |= ~(total > FAINT * loaded.prior.max())
        self.log_likelihood += np.log(np.where(total > 0, total, 1.0))

    def _leaves(self, clique: int, product: np.ndarray) -> None:
        """Begin a product with the columns of the leaves of a clique that have evidence."""
        numbers = self.loaded.prepared.leaves[clique]
        columns_and_codes = ((self.loaded.columns[number], self.codes[number]) for number in numbers)
        known = [(columns, codes) for columns, codes in columns_and_codes if codes is not None]
        if not known:
            product.fill(1.0)
        for position, (columns, codes) in enumerate(known):
            if position == 0:
                columns.take(codes, axis=0, out=product, mode="clip")
            else:
                product *= columns[codes]

    def _level(self, product: np.ndarray) -> None:
        """Divide a product by its sum in each row."""
        total = _row_sums(product)
        faint = ~(total > FAINT)
        if faint.any():
            self.doubtful |= faint
            total[faint] = 1.0
        product *= (1 / total)[:, None]
        self.log_likelihood += np.log(total)

    def _downwards(self) -> np.ndarray:
        """Compute the posteriors, in place of the products of the way up; the messages are overwritten."""
        loaded, mine, room = self.loaded, self.loaded.prepared, self.room
        tree, layout = mine.tree, mine.plan.layout
        out = np.zeros(layout.size)
        root = tree.roots[0]
        posterior = np.multiply(room.up[root], loaded.prior, out=room.up[root])
        total = _row_sums(posterior)
        posterior *= np.divide(self.weights, total, out=np.zeros_like(total), where=total > 0)[:, None]
        for source in range(len(mine.plan.source_edge)):
            mine.plan.source_values(out, source)[...] += posterior.sum(axis=0)
        for clique in mine.order[1:]:
            link, table, up = tree.links[clique], loaded.links[clique], room.up[clique]
            message = room.message[clique]
            rest = np.divide(room.up[link.parent.clique], message, out=message)
            passed = np.matmul(rest, table, out=room.passed[up.shape[1]])
            self.doubtful |= (self.weights > 0) & ~(self.weights > FAINT * _row_sums(passed))
            np.multiply(rest.T @ up, table, out=layout.table(out, link.table))
            np.multiply(passed, up, out=up)
        for number, leaf in enumerate(tree.leaves):
            self._add_leaf(number, room.up[leaf.part.clique], layout.table(out, leaf.table))
        return out

    def _add_leaf(self, number: int, posterior: np.ndarray, counts: np.ndarray) -> None:
        """Add the counts of a leaf: by its value in each row; as its table expects it where that is missing."""
        columns, codes = self.loaded.columns[number], self.codes[number]
        if codes is None:
            counts += posterior.sum(axis=0)[:, None] * columns[:-1].T
            return
        chosen = np.zeros((len(columns), len(codes)))
        chosen[codes, np.arange(len(codes))] = 1.0
        sums = chosen @ posterior
        counts += sums[:-1].T
        if sums[-1].any():
            counts += sums[-1][:, None] * columns[:-1].T


def _row_sums(block: np.ndarray) -> np.ndarray:
    """Return the sum of each row; as a product, which takes a quarter of the time of `sum` and `max`."""
    found: np.ndarray = block @ np.ones(block.shape[1])
    return found
