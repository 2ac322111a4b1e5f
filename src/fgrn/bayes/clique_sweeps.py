"""Sums and maxima over the cliques of a junction tree, for a block of rows: tables in, messages inwards and outwards.

A table has an axis for rows, of one entry if all rows have the same, and one for each of its variables. Inwards every
clique multiplies its tables and sends what is left, summed over all but the separator, towards the root; outwards the
root sends its separators back, each divided by what came from there (Jensen, Lauritzen and Olesen, 1990). Where that is
zero, so is all of the clique behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .junction_tree import JunctionTree

MANY_FACTORS = 8
"""After so many factors a product is scaled, so that it does not vanish."""

Table = tuple[tuple[str, ...], np.ndarray]
"""Variables, and numbers with an axis for rows and one for each variable."""


@dataclass(eq=False)
class CliqueSweep:
    """The tables of each clique, for a block of rows.

    Attributes:
        tree: the cliques.
        order: every clique after the one it is joined to; see `JunctionTree.outwards`.
        tables: of each clique.
        logs: (rows,) or (1,): the logarithm of what was taken out of the messages.
    """

    tree: JunctionTree
    order: Sequence[tuple[int, int, tuple[str, ...]]]
    tables: list[list[Table]]
    logs: np.ndarray = field(default_factory=lambda: np.zeros(1))
    _beliefs: dict[int, np.ndarray] = field(default_factory=dict)
    _messages: dict[int, np.ndarray] = field(default_factory=dict)

    def inwards(self, largest: bool = False, keep: bool = False) -> np.ndarray:
        """Send messages to the root: the product of all its tables, its variables in the order of `names`.

        With `largest`, maxima instead of sums; with `keep`, the products of all cliques are kept.
        """
        for number, before, shared in reversed(self.order):
            names = self.names(number, shared)
            product = self._product(names, self.tables[number])
            if keep:
                self._beliefs[number] = product
            if before < 0:
                return product
            away = tuple(range(1, 1 + len(names) - len(shared)))
            message = (product.max(axis=away) if largest else product.sum(axis=away)) if away else product
            message = self._scaled(message)
            if keep:
                self._messages[number] = message
            self.tables[before].append((shared, message))
        raise AssertionError("the order of a tree has a root")  # pragma: no cover

    def names(self, number: int, shared: Sequence[str]) -> tuple[str, ...]:
        """The variables of a clique, those it shares last: sums over the others then run along memory."""
        return (*(name for name in self.tree.cliques[number] if name not in shared), *shared)

    def outwards(self) -> None:
        """Send messages from the root, so that the product of each clique is the joint distribution of its variables.

        `inwards` must have kept the products. They are scaled, so that they do not sum to one.
        """
        names = {number: self.names(number, shared) for number, _, shared in self.order}
        for number, before, shared in self.order[1:]:
            new = summed_to(self._beliefs[before], names[before], shared)
            old = self._messages[number]
            ratio = np.divide(new, old, out=np.zeros(np.broadcast_shapes(new.shape, old.shape)), where=old > 0)
            largest = largest_in_rows(ratio)
            ratio /= np.where(largest > 0, largest, 1)
            away = [1] * (len(names[number]) - len(shared))
            self._beliefs[number] = self._beliefs[number] * ratio.reshape(len(ratio), *away, *ratio.shape[1:])

    def marginal(self, name: str) -> np.ndarray:
        """(rows or 1, states) the distribution of a variable after `outwards`; zeros for an impossible row."""
        number = self.tree.holding([name])
        shared = next(common for one, _, common in self.order if one == number)
        found = summed_to(self._beliefs[number], self.names(number, shared), (name,))
        total = found.sum(axis=1, keepdims=True)
        return found / np.where(total > 0, total, 1)

    def traced(self, rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The states that are likeliest together, by variable, and the logarithm of their product.

        After `inwards(largest=True, keep=True)`. Of equals it is the first.
        """
        codes: dict[str, np.ndarray] = {}
        every = np.arange(rows)
        value = np.zeros(rows)
        for number, before, shared in self.order:
            names = self.names(number, shared)
            belief = self._beliefs[number]
            sizes = belief.shape[1:]
            away = len(names) - len(shared)
            table = belief.reshape(len(belief), int(np.prod(sizes[:away], dtype=int)), -1)
            line = np.zeros(rows, dtype=np.int64)
            for name, size in zip(shared, sizes[away:], strict=True):
                line = line * size + codes[name]
            mine = table[every if len(table) > 1 else 0, :, line]
            best = mine.argmax(axis=1)
            if before < 0:
                with np.errstate(divide="ignore"):
                    value = np.log(mine[every, best]) + self.logs
            codes.update(zip(names[:away], np.unravel_index(best, sizes[:away]) if away else (), strict=True))
        return codes, value

    def _product(self, names: tuple[str, ...], tables: Sequence[Table]) -> np.ndarray:
        """The product of some tables over the variables of a clique."""
        place = {name: number + 1 for number, name in enumerate(names)}
        total: np.ndarray = np.ones([1] * (len(names) + 1))
        for number, (scope, values) in enumerate(sorted(tables, key=lambda one: one[1].size)):
            order = sorted(range(len(scope)), key=lambda axis: place[scope[axis]])
            shape = [1] * (len(names) + 1)
            shape[0] = len(values)
            for axis in order:
                shape[place[scope[axis]]] = values.shape[axis + 1]
            total = total * values.transpose([0, *(axis + 1 for axis in order)]).reshape(shape)
            if number % MANY_FACTORS == MANY_FACTORS - 1:
                total = self._scaled(total)
        whole = (len(total), *(self.tree.sizes[name] for name in names))
        return total if total.shape == whole else np.broadcast_to(total, whole)

    def _scaled(self, table: np.ndarray) -> np.ndarray:
        """A table with a largest number of one in each row; the logarithm of what it was is added to `logs`."""
        largest = largest_in_rows(table)
        flat = largest.reshape(len(largest))
        if flat.all():
            self.logs = self.logs + np.log(flat)
        else:
            with np.errstate(divide="ignore"):
                self.logs = self.logs + np.log(flat)
            largest = np.where(largest > 0, largest, 1)
        found: np.ndarray = table / largest
        return found


def largest_in_rows(table: np.ndarray) -> np.ndarray:
    """The largest number of each row, with an axis of one entry for each of the others."""
    found: np.ndarray = table.reshape(len(table), -1).max(axis=1).reshape(len(table), *[1] * (table.ndim - 1))
    return found


def summed_to(table: np.ndarray, names: Sequence[str], kept: Sequence[str]) -> np.ndarray:
    """A table summed over all variables but some, with an axis for each of those in their order."""
    axes = tuple(axis + 1 for axis, name in enumerate(names) if name not in kept)
    left = [name for name in names if name in kept]
    found: np.ndarray = table.sum(axis=axes) if axes else table
    return found.transpose([0, *(left.index(name) + 1 for name in kept)])
