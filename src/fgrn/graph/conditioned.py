"""E-steps of junction trees in whose rows all variables but one are known: a product of one cell of each table.

In such a row the messages of the junction tree visit all joint states of its cliques, most of them needlessly. Given
the known values, the likelihood of each state of the hidden variable h is the product of one cell of each table, as in
the E-step of a star: h is its hub, every table is a leaf, and the code of the leaf is the joint state of the other
variables of the table.

Values that are missing in some rows are summed out. The tables that they are in become one leaf, with a code for each
different combination c of what is known in these tables:

    leaf(h, c) = sum over the missing values of the product of the cells

Missing values in one table, or in tables that overlap in missing values, are summed out together; rows in which these
have more than MOST_STATES joint states are counted by the messages of the junction tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..core.labels import code_type
from ..core.variable import Variable
from ..engines import Engine, compile_aside
from ..flow.counts import CountingMethod, Counts, LocalEStep
from ..flow.esteps import EStep, WholeEStep
from ..plan.plan import Plan
from ..plan.schedule import Programs, special_edges
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .blocks import SISO, Block, Diverter, Source
from .supervisor import make_plan
from .wiring import Wiring

MOST_STATES = 512
"""Joint states of missing values that are summed out together."""

MOST_CELLS = 2**23
"""Cells that are visited to sum out the missing values of all rows."""


def estep_of_rows(
    engine: Engine,
    plan: Plan,
    programs: Programs,
    evidence: Evidence,
    queried_by: str | None = None,
    **options: Any,
) -> WholeEStep:
    """Return the E-step over rows; for junction trees with one hidden variable per row, that of an equivalent star.

    The kernels of a star are not those of queries to the junction tree, which `queried_by` names, if any are expected:
    a second process compiles them, if that was never done.
    """
    whole = LocalEStep(engine, plan, programs, evidence, **options)
    tables = None if engine.name == "torch" else _tables_of(plan, evidence)
    found = None if tables is None else _star_of(tables, evidence)
    if found is None:
        return whole
    if queried_by is not None and engine.name == "cpu":
        compile_aside(queried_by)
    rest = replace(whole, evidence=evidence.take(found.others)) if len(found.others) else None
    return ConditionedEStep(whole, found.sums, found.estep(whole), rest)


@dataclass(frozen=True, eq=False)
class MissingSums:
    """The map from cells of the junction tree, in its layout, to cells of the star; index `size` stands for a 1.

    cells     of each cell of the star: the number of its cell
    product   (tables, terms): of each term of a sum over missing values, the cells whose product it is
    begins    where the terms of each sum begin, and how many there are: `lengths`
    sums      of each sum: the number of its cell in the star
    """

    size: int
    cells: np.ndarray
    product: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray
    sums: np.ndarray

    def star_cells(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of the star, and the terms of its sums."""
        padded = np.append(values, 1.0)
        star, terms = padded[self.cells], padded[self.product].prod(axis=0)
        if len(terms):
            star[self.sums] = np.add.reduceat(terms, self.begins)
        return star, terms

    def tree_counts(self, counts: np.ndarray, star: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return the expected counts of the cells of the junction tree; those of a sum are divided among its terms."""
        found = np.bincount(self.cells, counts, minlength=self.size + 1)
        if len(terms):
            total = star[self.sums]
            share = np.where(total > 0, counts[self.sums] / np.where(total > 0, total, 1.0), 0.0)
            expected = terms * np.repeat(share, self.lengths)
            for cells in self.product:
                found += np.bincount(cells, expected, minlength=self.size + 1)
        return found[: self.size]


@dataclass(frozen=True, eq=False)
class ConditionedEStep:
    """The E-step of a junction tree, computed by that of an equivalent star; see the module docstring.

    whole   that of all rows by messages
    sums    from the cells of the junction tree to those of the star
    star    that of the rows which the star counts
    rest    that of the others by messages, if there are any
    """

    whole: LocalEStep
    sums: MissingSums
    star: LocalEStep
    rest: LocalEStep | None

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        star = self.star.method
        return star if self.rest is None else star._replace(rows=star.rows + self.rest.method.rows)

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        star, terms = self.sums.star_cells(values)
        try:
            found = self.star.count(star)
            others = None if self.rest is None else self.rest.count(values)
        except ImpossibleEvidence:
            self.whole.count(values)  # to name the rows as they are in the table
            raise
        counts = replace(found, values=self.sums.tree_counts(found.values, star, terms))
        return counts if others is None else counts + others

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `WholeEStep`."""
        return self.whole.cycles(values)

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """See `WholeEStep`."""
        found = self.whole.batches(size, seed)
        return [self] if len(found) == 1 else found


_Axis: TypeAlias = tuple[int, int]
"""A Diverter, and one of the variables that its product space is made of."""


class _Table(NamedTuple):
    """A table of a junction tree: its offset in the layout, its variables, and the stride of each."""

    at: int
    scope: tuple[int, ...]
    steps: Mapping[int, int]


class _Tables(NamedTuple):
    """The variables of a junction tree by number, with their states and edges, and all tables over them."""

    layout_size: int
    sizes: tuple[int, ...]
    edges: tuple[int, ...]
    tables: tuple[_Table, ...]


def _tables_of(plan: Plan, evidence: Evidence) -> _Tables | None:
    """Return the tables of a junction tree by variables; None if it is not one, or has other evidence."""
    if len(plan.siso_input) or not plan.is_factor.any() or evidence.soft.shape[1] or not evidence.in_memory:
        return None
    ends: dict[int, list[list[_Axis]]] = {}  # of each edge: the axes of Diverters that it carries
    for diverter in range(plan.diverters):
        for leg in plan.legs(diverter):
            axes = plan.leg_axes[leg]
            axes = tuple(range(len(plan.spaces[diverter]))) if axes is None else axes
            ends.setdefault(int(plan.leg_edge[leg]), []).append([(diverter, axis) for axis in axes])
    numbers = _variables_of_axes([axis for legs in ends.values() for leg in legs for axis in leg], ends.values())
    sizes, edges = [0] * (max(numbers.values()) + 1), [-1] * (max(numbers.values()) + 1)
    for (diverter, axis), number in numbers.items():
        sizes[number] = plan.spaces[diverter][axis]
    sources = plan.source_of
    tables = []
    for edge, legs in ends.items():
        scope = tuple(numbers[axis] for axis in legs[0])
        if edge in sources:
            steps = {one: prod(sizes[other] for other in scope[place + 1 :]) for place, one in enumerate(scope)}
            tables.append(_Table(int(plan.source_at[sources[edge]]), scope, steps))
        elif len(legs) == len(scope) == 1:
            edges[scope[0]] = edge
    known = evidence.edges()
    found = _Tables(plan.layout.size, tuple(sizes), tuple(edges), tuple(tables))
    return found if known <= set(edges) else None


def _variables_of_axes(axes: Iterable[_Axis], ends: Iterable[list[list[_Axis]]]) -> dict[_Axis, int]:
    """Return the variable number of each axis; the two ends of an edge are the same variable."""
    same = {axis: axis for axis in axes}

    def first(axis: _Axis) -> _Axis:
        while same[axis] != axis:
            axis = same[axis]
        return axis

    for legs in ends:
        for one, other in zip(legs[0], legs[-1], strict=True):
            same[first(other)] = first(one)
    found = {axis: number for number, axis in enumerate(dict.fromkeys(map(first, same)))}
    return {axis: found[first(axis)] for axis in same}


@dataclass(frozen=True, eq=False)
class _Star:
    """The star that is equivalent to a junction tree for some rows.

    hub        how many states the hidden variable has
    leaves     how many codes each leaf has
    sums       from the cells of the junction tree to those of the star
    evidence   on the leaves, in the rows that it counts
    others     the numbers of the other rows
    """

    hub: int
    leaves: Sequence[int]
    sums: MissingSums
    evidence: Evidence
    others: np.ndarray

    def estep(self, whole: LocalEStep) -> LocalEStep:
        """Return the E-step of the star, executed as that of the junction tree would be."""
        hub = Variable("hidden", self.hub)
        copies = [Variable(f"hidden {name}", self.hub) for name in self.evidence.columns]
        outputs = map(Variable, self.evidence.columns, self.leaves)
        blocks: list[Block] = [SISO(copy, output) for copy, output in zip(copies, outputs, strict=True)]
        plan = make_plan(Wiring((*blocks, Source(hub), Diverter([hub], copies))))
        rows = self.evidence.numbered_by(plan)
        programs = Programs(plan, special_edges(plan, rows.slot, rows.soft_edges()))
        return replace(whole, plan=plan, programs=programs, evidence=rows, expect=False)


def _star_of(model: _Tables, evidence: Evidence) -> _Star | None:
    """Return the star for rows of a junction tree; None if no variable is hidden in all rows, or too many are missing.

    Its leaves are the tables, where some row knows their variables; and after these one for the first group of missing
    values of each row, one for the second, ...
    """
    codes = np.full((evidence.rows, len(model.sizes)), UNKNOWN, dtype=np.int64)
    for number, edge in enumerate(model.edges):
        if edge >= 0 and evidence.slot[edge] >= 0:
            codes[:, number] = evidence.codes[:, evidence.slot[edge]]
    missing = codes == UNKNOWN
    hidden = np.flatnonzero(missing.all(axis=0)).tolist()
    if not hidden:
        return None
    hub = max(hidden, key=lambda number: sum(number in table.scope for table in model.tables))
    missing[:, hub] = False
    groups, others = _groups(model, hub, missing)
    if 2 * len(others) > evidence.rows:
        return None
    leaves = [leaf for table in model.tables if (leaf := _table_leaf(model, hub, table, codes, missing)) is not None]
    for place in range(1 + max((place for place, _ in groups), default=-1)):
        here = {group: rows for (at, group), rows in groups.items() if at == place}
        leaves.append(_sum_leaf(model, hub, here, codes))
    if sum(leaf.product.size for leaf in leaves) > MOST_CELLS:
        return None
    sizes = [leaf.cells.size // model.sizes[hub] for leaf in leaves]
    kept = np.setdiff1d(np.arange(evidence.rows), others)
    names = tuple(f"{number}" for number in range(len(leaves)))
    own = np.stack([leaf.codes for leaf in leaves], axis=1)[kept]
    rows = Evidence.of_codes(names, own.astype(code_type(max(sizes))), evidence.row_weights[kept])
    rows = replace(rows, log_scale=evidence.log_scale[kept])
    return _Star(model.sizes[hub], sizes, _joined_sums(model, hub, leaves), rows, others)


class _Leaf(NamedTuple):
    """A leaf of a star: the codes of all rows, and the cells of the junction tree that form its table.

    codes     (rows,): the code of each row, UNKNOWN if this leaf tells nothing of it
    cells     of each cell (state of the hub, code): the number of its cell; `layout_size` for a sum
    product   (tables, terms) and `lengths`, see `MissingSums`: of the sums, code by code, each of all states of the hub
    """

    codes: np.ndarray
    cells: np.ndarray
    product: np.ndarray
    lengths: np.ndarray


def _table_leaf(model: _Tables, hub: int, table: _Table, codes: np.ndarray, missing: np.ndarray) -> _Leaf | None:
    """Return the leaf of a table, for rows in which all its variables but the hub are known; None without such rows."""
    others = [number for number in table.scope if number != hub]
    known = ~missing[:, others].any(axis=1)
    if not known.any():
        return None
    sizes = [model.sizes[number] for number in others]
    place, code = np.full(1, table.at), np.zeros(len(codes), dtype=np.int64)
    for number, size in zip(others, sizes, strict=True):
        place = (place[:, None] + table.steps[number] * np.arange(size)).ravel()
        code = code * size + codes[:, number]
    states = table.steps.get(hub, 0) * np.arange(model.sizes[hub])
    cells = states[:, None] + place
    return _Leaf(np.where(known, code, UNKNOWN), cells, np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64))


def _sum_leaf(model: _Tables, hub: int, groups: Mapping[tuple[int, ...], np.ndarray], codes: np.ndarray) -> _Leaf:
    """Return the leaf that sums over groups of missing variables, given the rows in which each is missing."""
    code, products, lengths, count = np.full(len(codes), UNKNOWN, dtype=np.int64), [], [], 0
    for group, rows in groups.items():
        tables = [table for table in model.tables if not set(group).isdisjoint(table.scope)]
        known = sorted({number for table in tables for number in table.scope} - {*group, hub})
        different, which = _different(codes[rows][:, known], [model.sizes[one] for one in known])
        code[rows] = count + which
        count += len(different)
        joint = np.stack(np.unravel_index(np.arange(prod(sizes := [model.sizes[one] for one in group])), sizes))
        of_group = []
        for table in tables:
            place = table.at + different @ np.array([table.steps.get(one, 0) for one in known], dtype=np.int64)
            place = place[:, None] + table.steps.get(hub, 0) * np.arange(model.sizes[hub])
            place = place[:, :, None] + np.array([table.steps.get(one, 0) for one in group]) @ joint
            of_group.append(place.ravel())
        products.append(np.stack(of_group))
        lengths.append(np.full(len(different) * model.sizes[hub], joint.shape[1]))
    most = max(map(len, products))
    padded = [np.pad(one, ((0, most - len(one)), (0, 0)), constant_values=model.layout_size) for one in products]
    cells = np.full((model.sizes[hub], count), model.layout_size)
    return _Leaf(code, cells, np.concatenate(padded, axis=1), np.concatenate(lengths))


def _different(codes: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of some codes, and the number of each row among them."""
    keys, most = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in enumerate(sizes):
        if most * size > np.iinfo(np.int64).max:
            keys, most = np.unique(keys, return_inverse=True)[1], len(codes)
        keys, most = keys * size + codes[:, column], most * size
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], which


def _joined_sums(model: _Tables, hub: int, leaves: Sequence[_Leaf]) -> MissingSums:
    """Return the cells of a star with these leaves: their tables in order, and a prior of ones for the hub."""
    states, size = model.sizes[hub], model.layout_size
    most = max(len(leaf.product) for leaf in leaves)
    products = [np.pad(leaf.product, ((0, most - len(leaf.product)), (0, 0)), constant_values=size) for leaf in leaves]
    at, sums = 0, []
    for leaf in leaves:
        if len(leaf.lengths):
            sums.append(at + np.arange(leaf.cells.size).reshape(states, -1).T.ravel())
        at += leaf.cells.size
    cells = np.concatenate([*(leaf.cells.ravel() for leaf in leaves), np.full(states, size)])
    lengths = np.concatenate([leaf.lengths for leaf in leaves])
    begins = np.cumsum(lengths) - lengths
    numbers = np.concatenate(sums) if sums else np.zeros(0, dtype=np.int64)
    return MissingSums(size, cells, np.concatenate(products, axis=1), begins, lengths, numbers)


_Groups: TypeAlias = dict[tuple[int, tuple[int, ...]], np.ndarray]
"""The rows of each group of missing variables; a row with several groups has them in different places: 0, 1, ..."""


def _groups(model: _Tables, hub: int, missing: np.ndarray) -> tuple[_Groups, np.ndarray]:
    """Return the rows of each group of missing variables to sum out together, and the rows whose group is too large."""
    beside = [set[int]() for _ in model.sizes]
    for table in model.tables:
        for number in table.scope:
            beside[number] |= {*table.scope} - {hub}
    keys = np.packbits(missing, axis=1)
    _, first, which = np.unique(keys.view(f"V{keys.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    rows_of = np.split(order, np.cumsum(np.bincount(which))[:-1])
    groups: dict[tuple[int, tuple[int, ...]], list[np.ndarray]] = {}
    others = [np.zeros(0, dtype=np.intp)]
    for row, rows in zip(first, rows_of, strict=True):
        found = list(_connected(set(np.flatnonzero(missing[row]).tolist()), beside))
        if any(prod(model.sizes[one] for one in group) > MOST_STATES for group in found):
            others.append(rows)
            continue
        for place, group in enumerate(found):
            groups.setdefault((place, group), []).append(rows)
    return {key: np.concatenate(rows) for key, rows in groups.items()}, np.sort(np.concatenate(others))


def _connected(numbers: set[int], beside: Sequence[set[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the connected components of some variables, given which are adjacent."""
    while numbers:
        group, waiting = set[int](), {min(numbers)}
        while waiting:
            group |= waiting
            waiting = {other for one in waiting for other in beside[one]} & numbers - group
        numbers = numbers - group
        yield tuple(sorted(group))
