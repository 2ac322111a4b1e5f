"""The likelihood of rows for each state of a hidden variable, the hub: a product of one number for each of its leaves.

A leaf is a table, if all its variables but the hub are known in a row, or a sum over missing values (`missing_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.labels import code_type
from ..plan.junction_tables import JunctionTable, JunctionTables
from ..plan.plan import Plan
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .missing_sums import RowSums, sums_over_missing

if TYPE_CHECKING:
    from ..engines.nested_sums import NestedSums


LEAST_OF_LARGEST = -300 * np.log(2.0)
"""In rows with a larger likelihood than this, as a logarithm and relative to the product of the largest values of all
leaves, it does not matter if sums have underflowed that are not the largest of their leaf."""


class Leaf(NamedTuple):
    """A leaf of the hub.

    codes   (rows,): the code of each row, UNKNOWN if the leaf tells nothing of it
    cells   (states of the hub, codes): of each cell, the number of its value: a cell of the network, or a sum
    """

    codes: np.ndarray
    cells: np.ndarray


@dataclass(frozen=True, eq=False)
class RowProducts:
    """The products that are the likelihoods of some rows for each state of the hub.

    size     how many cells the tables of the network have; as the number of a value it stands for a 1
    states   how many states the hub has
    rows     how many rows there are
    leaves   the leaves of the hub
    sums     the sums over missing values, with the numbers after `size`; None if nothing but the hub is missing
    others   the numbers of the rows that are left out, because too much is missing
    """

    size: int
    states: int
    rows: int
    leaves: Sequence[Leaf]
    sums: RowSums | None = None
    others: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def kept(self) -> slice | np.ndarray:
        """The numbers of the rows that are not left out."""
        return np.setdiff1d(np.arange(self.rows), self.others) if len(self.others) else slice(None)

    def nested_sums(self) -> NestedSums | None:
        """Return the sums over missing values."""
        if self.sums is None:
            return None
        from ..engines.nested_sums import NestedSums  # imports numba

        program = self.sums.factors, self.sums.factors_of_term, self.sums.terms_of_sum
        groups = np.concatenate([np.zeros(0, dtype=np.int64), *(leaf[0] for leaf in self.sums.leaves)])
        return NestedSums(self.size + 1, *program, groups, self.states)

    def posterior(self, values: np.ndarray) -> np.ndarray | None:
        """Return the posterior of the hub, (rows, states), NaN in impossible rows.

        None if some rows are left out, or a product may have underflowed that matters.

        Args:
            values: the cells of the network.
        """
        if len(self.others):
            return None
        every, sums, is_exact = np.append(values, 1.0), self.nested_sums(), True
        if sums is not None:
            evaluated = sums.of(every)
            if evaluated.is_wrong:
                return None
            every, is_exact = evaluated.values, evaluated.is_exact
        found, largest = np.zeros((self.rows, self.states)), np.zeros(self.rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(every)
            for codes, cells in self.leaves:
                table = np.zeros((cells.shape[1] + 1, self.states))  # the last row is for UNKNOWN, -1
                table[:-1] = logarithms[cells].T
                found += table[codes]
                if not is_exact:
                    largest += table.max(axis=1)[codes]
            best = found.max(axis=1)
            if not is_exact and not (best - largest > LEAST_OF_LARGEST).all():
                return None
            np.exp(found - best[:, None], out=found)
            found /= found.sum(axis=1, keepdims=True)
        return found


def products_of_star(plan: Plan, rows: Evidence) -> RowProducts | None:
    """Return the products for rows of a star, whose columns depend on nothing but the hidden variable.

    None if it is no star, or there is other evidence than codes of its columns.
    """
    layout = plan.layout
    names = {name for names in layout.table_names for name in names}
    is_star = (
        plan.diverters == len(plan.source_edge) == 1
        and plan.leg_edge[plan.leg_is_input].tolist() == plan.source_edge.tolist()
        and bool((plan.leg_siso[~plan.leg_is_input] >= 0).all())
    )
    if not is_star or rows.soft.shape[1] or not rows.in_memory or not names.issuperset(rows.columns):
        return None
    begin, states = int(plan.source_at[0]), int(plan.cardinality[plan.source_edge[0]])
    leaves = [Leaf(np.zeros(rows.rows, dtype=np.int8), np.arange(begin, begin + states)[:, None])]
    for place, name in enumerate(rows.columns):
        number = layout.table_number(name)
        cells = int(layout.table_offsets[number]) + np.arange(math.prod(layout.table_shapes[number]))
        leaves.append(Leaf(rows.codes[:, place], cells.reshape(states, -1)))
    return RowProducts(layout.size, states, rows.rows, leaves)


def products_of_rows(
    model: JunctionTables, evidence: Evidence, hub_edge: int | None = None, for_counts: bool = True
) -> RowProducts | None:
    """Return the products for rows of a junction tree, whose hub is hidden in all rows.

    None if no variable is, too much is missing, or there is other evidence than codes in memory. Its leaves are the
    tables, where some row knows their variables; and after these the sums over missing values: the first of each row,
    the second, ... If not `for_counts`, tables of variables on which nothing depends, and which are missing in all
    rows, are left out: they sum to one.

    Args:
        model: the tables.
        evidence: on some of the variables.
        hub_edge: the edge of the hub; None for the variable of the most tables.
        for_counts: whether expected counts of all tables are wanted.
    """
    if evidence.soft.shape[1] or not evidence.in_memory or not evidence.edges() <= set(model.edges):
        return None
    codes = np.full((evidence.rows, len(model.sizes)), UNKNOWN, dtype=np.int64)
    for number, edge in enumerate(model.edges):
        if edge >= 0 and evidence.slot[edge] >= 0:
            codes[:, number] = evidence.codes[:, evidence.slot[edge]]
    missing = codes == UNKNOWN
    hidden = np.flatnonzero(missing.all(axis=0)).tolist()
    possible = [number for number in hidden if hub_edge in (None, model.edges[number])]
    if not possible or not evidence.rows:
        return None
    uses = [sum(number in table.scope for table in model.tables) for number in range(len(model.sizes))]
    hub = max(possible, key=lambda number: uses[number])
    missing[:, hub] = False
    if not for_counts:
        unused = {number for number in hidden if number != hub and uses[number] == 1}
        unused &= {table.scope[-1] for table in model.tables}  # by tables that sum to one over them
        model = model._replace(tables=tuple(table for table in model.tables if table.scope[-1] not in unused))
        missing[:, sorted(unused)] = False
    is_incomplete = bool(missing.any())
    sums = sums_over_missing(model, hub, codes, missing) if is_incomplete else None
    if is_incomplete and (sums is None or 2 * len(sums.others) > evidence.rows):
        return None
    found = [_table_leaf(model, hub, table, codes, missing) for table in model.tables]
    leaves = [leaf for leaf in found if leaf is not None]
    if sums is None:
        return RowProducts(model.layout_size, model.sizes[hub], evidence.rows, leaves)
    leaves += map(Leaf, sums.codes.T, sums.leaves)
    return RowProducts(model.layout_size, model.sizes[hub], evidence.rows, leaves, sums, sums.others)


def _table_leaf(
    model: JunctionTables, hub: int, table: JunctionTable, codes: np.ndarray, missing: np.ndarray
) -> Leaf | None:
    """Return the leaf of a table, for rows in which all its variables but the hub are known; None without such rows."""
    others = table.variables_beside(hub)
    known = ~missing[:, others].any(axis=1)
    if not known.any():
        return None
    place, code = np.full(1, table.at), np.zeros(len(codes), dtype=np.int64)
    for number in others:
        size = model.sizes[number]
        place = (place[:, None] + table.steps[number] * np.arange(size)).ravel()
        code = code * size + codes[:, number]
    states = table.steps.get(hub, 0) * np.arange(model.sizes[hub])
    return Leaf(np.where(known, code, UNKNOWN).astype(code_type(len(place))), states[:, None] + place)
