"""The likelihood of rows for each state of a hidden variable, the hub: a product of one number for each of its leaves.

A leaf is a table, if all its variables but the hub are known in a row, or a sum over missing values (`missing_sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..plan.junction_tables import JunctionTable, JunctionTables
from ..plan.plan import Plan
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .missing_sums import RowSums, sums_over_missing

if TYPE_CHECKING:
    from ..engines.nested_sums import NestedSums


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

    cells    how many cells the tables of the network have; as the number of a value it stands for a 1
    hub      how many states the hub has
    leaves   its leaves
    sums     the sums over missing values, with the numbers after that; None if nothing but the hub is missing
    """

    cells: int
    hub: int
    leaves: Sequence[Leaf]
    sums: RowSums | None

    def nested_sums(self) -> NestedSums | None:
        """Return the sums over missing values."""
        if self.sums is None:
            return None
        from ..engines.nested_sums import NestedSums  # imports numba

        return NestedSums(self.cells + 1, self.sums.factors, self.sums.factors_of_term, self.sums.terms_of_sum)

    def posterior(self, values: np.ndarray) -> np.ndarray | None:
        """Return the posterior of the hub, (rows, states), NaN in impossible rows; None if a product may underflow.

        Args:
            values: the cells of the network.
        """
        every, sums = np.append(values, 1.0), self.nested_sums()
        if sums is not None:
            every, _, is_exact = sums.of(every)
            if not is_exact:
                return None
        found: np.ndarray = np.zeros((len(self.leaves[0].codes), self.hub))
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(every)
            for codes, cells in self.leaves:
                table = np.zeros((cells.shape[1] + 1, self.hub))  # the last row is for UNKNOWN, -1
                table[:-1] = logarithms[cells].T
                found += table[codes]
            found -= found.max(axis=1, keepdims=True)
            np.exp(found, out=found)
            found /= found.sum(axis=1, keepdims=True)
        return found


def products_of_star(plan: Plan, rows: Evidence) -> RowProducts | None:
    """Return the products for rows of a star, whose columns depend on nothing but the hidden variable.

    None if it is no star, or there is other evidence than codes of its columns.
    """
    layout = plan.layout
    names = {name for names in layout.table_names for name in names}
    is_star = plan.diverters == len(plan.source_edge) == 1 and (plan.leg_siso[~plan.leg_is_input] >= 0).all()
    if not is_star or rows.soft.shape[1] or not rows.in_memory or not names.issuperset(rows.columns):
        return None
    begin, hub = int(plan.source_at[0]), int(plan.cardinality[plan.source_edge[0]])
    leaves = [Leaf(np.zeros(rows.rows, dtype=np.intp), np.arange(begin, begin + hub)[:, None])]
    for place, name in enumerate(rows.columns):
        number = layout.table_number(name)
        states, levels = layout.table_shapes[number]
        cells = int(layout.table_offsets[number]) + np.arange(states * levels).reshape(states, levels)
        leaves.append(Leaf(np.asarray(rows.codes[:, place], dtype=np.intp), cells))
    return RowProducts(layout.size, hub, leaves, None)


def products_of_rows(model: JunctionTables, evidence: Evidence, for_counts: bool = True) -> RowProducts | None:
    """Return the products for rows of a junction tree; None if no variable is hidden in all rows, or too many are.

    Its leaves are the tables, where some row knows their variables; and after these the sums over missing values: the
    first of each row, the second, ... If not `for_counts`, tables of variables on which nothing depends, and which are
    missing in all rows, are left out: they sum to one.

    Args:
        model: the tables.
        evidence: codes of some of the variables, in memory.
        for_counts: whether expected counts of all tables are wanted.
    """
    codes = np.full((evidence.rows, len(model.sizes)), UNKNOWN, dtype=np.int64)
    for number, edge in enumerate(model.edges):
        if edge >= 0 and evidence.slot[edge] >= 0:
            codes[:, number] = evidence.codes[:, evidence.slot[edge]]
    missing = codes == UNKNOWN
    hidden = np.flatnonzero(missing.all(axis=0)).tolist()
    if not hidden:
        return None
    uses = [sum(number in table.scope for table in model.tables) for number in range(len(model.sizes))]
    hub = max(hidden, key=lambda number: uses[number])
    missing[:, hub] = False
    if not for_counts:
        alone = {number for number in hidden if number != hub and uses[number] == 1}
        model = model._replace(tables=tuple(table for table in model.tables if table.scope[-1] not in alone))
        missing[:, sorted(alone)] = False
    is_incomplete = bool(missing.any())
    sums = sums_over_missing(model, hub, codes, missing) if is_incomplete else None
    if sums is None and is_incomplete:
        return None
    found = [_table_leaf(model, hub, table, codes, missing) for table in model.tables]
    leaves = [leaf for leaf in found if leaf is not None]
    if sums is not None:
        leaves += map(Leaf, sums.codes.T, sums.leaves)
    return RowProducts(model.layout_size, model.sizes[hub], leaves, sums)


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
    return Leaf(np.where(known, code, UNKNOWN), states[:, None] + place)
