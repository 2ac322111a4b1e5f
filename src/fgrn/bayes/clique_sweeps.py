"""Sums and maxima over the cliques of a junction tree for a block of rows, by messages inwards and outwards.

A table has an axis for rows, of one entry if all rows have the same, and one for each variable of its clique, of one
entry if the table does not depend on it. Inwards every clique multiplies its tables and sends what is left, summed over
all but the separator, towards the root; outwards the root sends its separators back, each divided by what came from
there (Jensen, Lauritzen and Olesen, 1990). Where that is zero, so is all of the clique behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from .junction_tree import JunctionTree
from .matrix_sums import MANY_CELLS, summed_by_matrices
from .table_numbers import factors_of_number

MANY_FACTORS = 8
"""A product of more factors than this is scaled, so that it neither vanishes nor overflows; see `TableNumbers`."""

CELLS_TO_DRAW = 2**20
"""Numbers of a clique times samples that are summed together; with more, those of each state of what it shares."""

WHOLE_AXIS = slice(None)

RunningProduct = tuple[float, np.ndarray]
"""How many factors were multiplied since the last scaling, and the product: an axis for rows, one for each variable."""


class CliqueStep(NamedTuple):
    """A clique in the order of the sweep towards the root.

    Attributes:
        number: of the clique.
        before: the clique that it is joined to on the way; -1 for the root.
        names: its variables, those it shares with that one last: sums over the others then run along memory.
        sizes: the number of states of each.
        own: how many of them it does not share.
        growth: for how many factors a sum over those counts.
        spread: the index of its message by which it becomes a table of the clique before it.
    """

    number: int
    before: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    own: int
    growth: float
    spread: tuple[slice | None, ...]

    def shape_of(self, scope: Sequence[str]) -> tuple[int, ...]:
        """Return the shape of a table over some of the variables, with length 1 for the others."""
        if len(scope) == len(self.names):
            return self.sizes
        return tuple([size if name in scope else 1 for name, size in zip(self.names, self.sizes, strict=True)])

    def spread_of(self, scope: Sequence[str]) -> tuple[slice | None, ...]:
        """The index by which a table over rows and some of the variables, in order, has an axis for each of them."""
        return WHOLE_AXIS, *[WHOLE_AXIS if name in scope else None for name in self.names]

    def axes_but(self, kept: Sequence[str]) -> tuple[int, ...]:
        """Return the axes of all variables except some, counting the axis for rows."""
        return tuple([axis for axis, name in enumerate(self.names, 1) if name not in kept])

    def line(self, codes: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """Return the joint state of the separator, (rows,), from the state of each variable."""
        line = np.zeros(rows, dtype=np.int64)
        for name, size in zip(self.names[self.own :], self.sizes[self.own :], strict=True):
            line = line * size + codes[name]
        return line

    def store(self, joint: np.ndarray, codes: dict[str, np.ndarray]) -> None:
        """Add the states of the variables outside the separator, from their joint state."""
        if self.own:
            states = np.unravel_index(joint, self.sizes[: self.own])
            codes.update(zip(self.names[: self.own], states, strict=True))


class CliqueOrder:
    """The cliques of a tree from a root outwards, with their variables in one common order.

    A variable that first appears further out comes earlier, so that all tables have their axes in one order.

    Attributes:
        steps: every clique after the one it is joined to.
        rank: the place of each variable in the order.
    """

    def __init__(self, tree: JunctionTree, root: int) -> None:
        self.rank: dict[str, int] = {}
        self.steps: list[CliqueStep] = []
        self._step_of: dict[int, CliqueStep] = {}
        self._first: dict[str, CliqueStep] = {}  # the clique nearest to the root that has a variable
        rank, sizes, step_of, first = self.rank, tree.sizes, self._step_of, self._first
        for number, before, _ in tree.outwards(root):
            names = list(tree.cliques[number])
            new = [name for name in names if name not in rank]
            for name in new:
                rank[name] = -len(rank)
            names.sort(key=rank.__getitem__)
            states = tuple([sizes[name] for name in names])
            own = len(new)
            spread = step_of[before].spread_of(names[own:]) if before >= 0 else ()
            step = CliqueStep(number, before, tuple(names), states, own, factors_of_number(prod(states[:own])), spread)
            step_of[number] = step
            self.steps.append(step)
            for name in new:
                first[name] = step

    def step(self, number: int) -> CliqueStep:
        """Return the step of a clique."""
        return self._step_of[number]

    def nearest_step(self, names: Sequence[str]) -> CliqueStep:
        """Return the clique nearest to the root that contains some variables: where the first of them appears."""
        return self._first[names[0]] if names else self.steps[0]


@dataclass(eq=False)
class CliqueSweep:
    """The tables of each clique, for a block of rows.

    Attributes:
        order: the cliques, and the order of their variables.
        tables: of each clique; see `CliqueStep.shape_of`.
        logs: (rows,) or (1,): the logarithm of what was taken out of the messages.
    """

    order: CliqueOrder
    tables: list[list[RunningProduct]]
    logs: np.ndarray = field(default_factory=lambda: np.zeros(1))
    _beliefs: dict[int, np.ndarray] = field(default_factory=dict)
    _messages: dict[int, np.ndarray] = field(default_factory=dict)
    _scales: dict[int, np.ndarray] = field(default_factory=dict)  # (rows,) what messages of cliques were divided by

    def inwards(self, largest: bool = False, keep: bool = False) -> np.ndarray:
        """Send messages to the root; returns the product of its tables, with axes in the order of its step.

        With `largest`, maxima instead of sums; with `keep`, the products of all cliques are kept.
        """
        for step in reversed(self.order.steps[1:]):
            self._send(step, largest, keep)
        root = self.order.steps[0]
        _, product = self.product(root)
        if keep:
            self._beliefs[root.number] = product
        return product

    def summed_inwards(self, names: Sequence[str]) -> np.ndarray:
        """Send messages to the root; returns the product of its tables summed to some of its variables.

        It has an axis for rows, and one for each of `names` in their order. Products of whole cliques are not made
        where sums of them come sooner.
        """
        for step in reversed(self.order.steps[1:]):
            self._send(step, False, False)
        root = self.order.steps[0]
        _, found = self._summed(root, root.axes_but(names))
        sizes = tuple([size for name, size in zip(root.names, root.sizes, strict=True) if name in names])
        if found.shape[1:] != sizes:
            found = np.broadcast_to(found, (len(found), *sizes))
        left = [name for name in root.names if name in names]
        return found if left == [*names] else found.transpose([0, *(left.index(name) + 1 for name in names)])

    def _send(self, step: CliqueStep, largest: bool, keep: bool) -> None:
        """Send the message of a clique to its parent; see `inwards`."""
        own = tuple(range(1, 1 + step.own))
        if keep or largest:
            count, product = self.product(step)
            if keep:
                self._beliefs[step.number] = product
            reduce = np.maximum.reduce if largest else np.add.reduce
            message = reduce(product, axis=own) if own else product
        else:
            count, message = self._summed(step, own)
        count += step.growth
        if count > MANY_FACTORS:
            count, self._scales[step.number] = 1.0, self.taken_out(message)
            message = _divided(message, self._scales[step.number])
        if keep:
            self._messages[step.number] = message
        self.tables[step.before].append((count, message[step.spread]))

    def outwards(self, largest: bool = False) -> None:
        """Send messages from the root, so that the product of each clique is the joint of its variables.

        `inwards` must have kept the products. All of them sum to one, but for rounding; to zero in an impossible row.
        With `largest`, after `inwards(largest=True)`: the largest joint probability for each state, and 1 in all.
        """
        reduce = np.maximum.reduce if largest else np.add.reduce
        beliefs, step = self._beliefs, self.order.step
        root = self.order.steps[0].number
        total = reduce(beliefs[root].reshape(len(beliefs[root]), -1), axis=1)
        beliefs[root] = _divided(beliefs[root], np.where(total > 0, total, 1))
        for one in self.order.steps[1:]:
            new = reduce(beliefs[one.before], axis=step(one.before).axes_but(one.names[one.own :]))
            old = self._messages[one.number]
            if old.all():
                ratio = new / old
            else:
                ratio = np.divide(new, old, out=np.zeros(np.broadcast_shapes(new.shape, old.shape)), where=old > 0)
            if one.number in self._scales:
                ratio = _divided(ratio, self._scales[one.number])
            beliefs[one.number] = beliefs[one.number] * ratio.reshape(len(ratio), *[1] * one.own, *ratio.shape[1:])

    def marginal(self, number: int, name: str, largest: bool = False) -> np.ndarray:
        """Return the marginal of a variable of a clique after `outwards`, not normalised, (rows or 1, states).

        With `largest`, after `outwards(largest=True)`: the largest joint probability for each state.
        """
        reduce = np.maximum.reduce if largest else np.add.reduce
        found: np.ndarray = reduce(self._beliefs[number], axis=self.order.step(number).axes_but((name,)))
        return found

    def joint_of(self, number: int, names: Sequence[str]) -> np.ndarray:
        """Return the joint distribution of some variables of a clique after `outwards`, rows first."""
        return summed_to(self._beliefs[number], self.order.step(number).names, names)

    def traced(self, rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the most probable joint states, by variable, and the logarithm of their product.

        After `inwards(largest=True, keep=True)`. Of equals it is the first.
        """
        codes: dict[str, np.ndarray] = {}
        every = np.arange(rows)
        value = np.zeros(rows)
        for step in self.order.steps:
            belief = self._beliefs[step.number]
            table = belief.reshape(len(belief), int(np.prod(step.sizes[: step.own], dtype=int)), -1)
            mine = table[every if len(table) > 1 else 0, :, step.line(codes, rows)]
            best = mine.argmax(axis=1)
            if step.before < 0:
                with np.errstate(divide="ignore"):
                    value = np.log(mine[every, best]) + self.logs
            step.store(best, codes)
        return codes, value

    def drawn(self, samples: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        """Return samples of all variables, by variable, for a sweep of one row; after `inwards(keep=True)`.

        From the root outwards the variables of each clique are drawn given what it shares (Dawid, 1992).
        """
        codes: dict[str, np.ndarray] = {}
        for step in self.order.steps:
            table = self._beliefs[step.number].reshape(int(np.prod(step.sizes[: step.own], dtype=int)), -1)
            step.store(_drawn_from_columns(table, step.line(codes, samples), random), codes)
        return codes

    def product(self, step: CliqueStep) -> RunningProduct:
        """Return the product of the tables of a clique over all its variables, and its factors since a scaling."""
        count, total, last = self._two_tables(step)
        return count, _whole(step, total, last)

    def _summed(self, step: CliqueStep, axes: tuple[int, ...]) -> RunningProduct:
        """Return the product of the tables of a clique summed over axes, and its factors since the last scaling.

        It has an axis of one entry for a variable that no table depends on.
        """
        count, total, last = self._two_tables(step)
        if last is not None and prod(step.sizes) >= MANY_CELLS:
            found = summed_by_matrices(total, last, step.sizes, axes)
            if found is not None:
                return count, found
        whole = total if last is None else total * last
        if whole.shape[1:] != step.sizes:  # what a clique has of its own, a table depends on, but for a lonely variable
            alike = prod([step.sizes[axis - 1] for axis in axes if whole.shape[axis] == 1])
            whole = whole if alike == 1 else whole * alike
        return count, np.add.reduce(whole, axis=axes) if axes else whole

    def _two_tables(self, step: CliqueStep) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Return the factors of a clique's tables since the last scaling, the product of all but the largest, and that.

        There is no largest one where there are fewer than two.
        """
        tables = self.tables[step.number]
        if len(tables) < 2:
            count, total = tables[0] if tables else (0.0, np.ones([1] * (1 + len(step.sizes))))
            return count, total, None
        if len(tables) > 2:
            tables.sort(key=_number_of_cells)  # those of few cells first: their product is made of few
        count, total = tables[0]
        for more, values in tables[1:-1]:
            if count + more > MANY_FACTORS and count > 1:
                count, total = 1.0, self.scaled(total)
            total = total * values
            count += more
        more, last = tables[-1]
        if count + more > MANY_FACTORS and count > 1:
            count, total = 1.0, self.scaled(total)
        return count + more, total, last

    def scaled(self, table: np.ndarray) -> np.ndarray:
        """Return a table scaled to a maximum of 1 in each row; the logarithm of the scale is added to `logs`."""
        return _divided(table, self.taken_out(table))

    def taken_out(self, table: np.ndarray) -> np.ndarray:
        """Return the maximum of each row, (rows,), or 1 for a row of zeros; its logarithm is added to `logs`."""
        flat: np.ndarray = np.maximum.reduce(table.reshape(len(table), -1), axis=1)
        if flat.all():
            self.logs = self.logs + np.log(flat)
            return flat
        with np.errstate(divide="ignore"):
            self.logs = self.logs + np.log(flat)
        return np.where(flat > 0, flat, 1)


def _divided(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return a table with each row divided by a number."""
    found: np.ndarray = table / numbers.reshape(-1, *[1] * (table.ndim - 1))
    return found


def _drawn_from_columns(table: np.ndarray, columns: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw a row index from each column of a table, with probabilities proportional to its entries."""
    level = random.random(len(columns))
    if len(table) * len(columns) <= CELLS_TO_DRAW:
        upto = np.cumsum(table[:, columns], axis=0)
        level = np.minimum(level * upto[-1], np.nextafter(upto[-1], 0))  # below the last: what is zero is never drawn
        return np.asarray((upto <= level).sum(axis=0))
    found = np.zeros(len(columns), dtype=np.int64)
    for column in np.unique(columns).tolist():  # each is summed once
        mine = np.flatnonzero(columns == column)
        upto = np.cumsum(table[:, column])
        found[mine] = np.searchsorted(upto, np.minimum(level[mine] * upto[-1], np.nextafter(upto[-1], 0)), "right")
    return found


def _whole(step: CliqueStep, total: np.ndarray, last: np.ndarray | None) -> np.ndarray:
    """Return the product of two tables of a clique, if there is a second, over all its variables."""
    total = total if last is None else total * last
    return total if total.shape[1:] == step.sizes else np.broadcast_to(total, (len(total), *step.sizes))


def _number_of_cells(factor: RunningProduct) -> int:
    return factor[1].size


def summed_to(table: np.ndarray, names: Sequence[str], kept: Sequence[str]) -> np.ndarray:
    """Return a table summed to some variables, with an axis for each of them in order."""
    axes = tuple(axis + 1 for axis, name in enumerate(names) if name not in kept)
    left = [name for name in names if name in kept]
    found: np.ndarray = table.sum(axis=axes) if axes else table
    return found.transpose([0, *(left.index(name) + 1 for name in kept)])
