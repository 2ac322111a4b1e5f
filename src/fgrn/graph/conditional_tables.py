"""Conditional distributions whose product is that of the tables of a junction tree, up to a constant.

From the last variable to the first, the lines of its table are divided by their sums, and the table that has all the
other variables of this one is multiplied by these.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..plan.junction_tables import JunctionTable, JunctionTables


def conditional_logarithms(model: JunctionTables, logarithms: np.ndarray) -> np.ndarray:
    """Return the logarithms of the conditional distributions, in the layout of the tables.

    Lines of zeros stay as they are.

    Args:
        model: the tables, each of another variable, its last one; the others of each are in the table of one of them.
        logarithms: of their cells.
    """
    owner = {table.scope[-1]: table for table in model.tables}
    found = logarithms.copy()
    followers = Counter(number for table in model.tables for number in table.scope[:-1])
    ready = [table for number, table in owner.items() if not followers[number]]
    while ready:
        table = ready.pop()
        cells, others = _view_of(model, table, found), table.scope[:-1]
        with np.errstate(divide="ignore"):
            largest = np.maximum(cells.max(axis=-1), np.finfo(np.float64).min)
            sums = np.log(np.exp(cells - largest[..., None]).sum(axis=-1)) + largest
        cells -= np.where(np.isfinite(sums), sums, 0.0)[..., None]
        if others:
            receiver = next(owner[number] for number in others if set(others) <= set(owner[number].scope))
            order = sorted(range(len(others)), key=lambda axis: receiver.scope.index(others[axis]))
            shape = [model.sizes[number] if number in others else 1 for number in receiver.scope]
            into = _view_of(model, receiver, found)
            into += sums.transpose(order).reshape(shape)
        followers.subtract(others)
        ready += [owner[number] for number in others if not followers[number]]
    return found


def _view_of(model: JunctionTables, table: JunctionTable, values: np.ndarray) -> np.ndarray:
    """Return the view of a table in a flat vector, with an axis for each of its variables."""
    shape = [model.sizes[number] for number in table.scope]
    return values[table.at : table.at + int(np.prod(shape))].reshape(shape)
