"""Answers for many rows from the cliques of a junction tree: several rows at once (lanes), in one compiled pass each.

What is the same in all rows (tables without known variables, and messages from cliques with no others behind them) is
multiplied once. Any other table or message is an array (states, lanes), and the product over a clique is never kept:
see `fgrn.engines.clique_lanes`. The messages are those of `clique_sweeps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..engines.clique_lanes import LANES, CliquePass, Leg
from .clique_sweeps import MANY_FACTORS, CliqueOrder, CliqueStep, CliqueSweep, RunningProduct

SMALL_NUMBER = 1e-300
"""The reciprocal of a smaller number may overflow."""


class VaryingTable(NamedTuple):
    """A table that differs between rows, because some of its variables are known or have soft evidence.

    Attributes:
        names: its other variables, in the order of the cliques.
        known: the variables whose states rows know, with the number of states of each.
        numbers: (states of the other variables, states of the known ones); None for the weights of a variable.
    """

    names: tuple[str, ...]
    known: tuple[tuple[str, int], ...] = ()
    numbers: np.ndarray | None = None

    def fill(self, cells: np.ndarray, codes: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]) -> None:
        """Write the numbers of each row into cells, (states, lanes); see `LaneSweep.joint`."""
        if self.numbers is None:
            cells[...] = weights[self.names[0]].T
            return
        state: Any = 0
        for name, size in self.known:
            state = state * size + codes[name]
        self.numbers.take(state, axis=1, out=cells, mode="clip")


class LaneMessage(NamedTuple):
    """The position of a message in the working memory: its first cell, its variables, and its number of states."""

    begin: int
    names: tuple[str, ...]
    states: int

    @property
    def cells(self) -> slice:
        """The range of its cells."""
        return slice(self.begin, self.begin + self.states)


class InputGroup(NamedTuple):
    """Messages into a clique that are multiplied first, because one of them has the variables of all others.

    The product is written over the first if that is a table, which is not needed later.

    Attributes:
        whole: the product.
        members: the messages.
        shapes: of each of them beside the product, lanes last, with an axis of one entry for what it does not have.
    """

    whole: LaneMessage
    members: tuple[LaneMessage, ...]
    shapes: tuple[tuple[int, ...], ...]


class LaneSweep:
    """The cliques of a junction tree with everything that rows have in common, to be swept for some rows at a time.

    Args:
        order: the cliques from the root outwards.
        sizes: the number of states of each variable.
        tables: of each clique, those that are the same in all rows; see `CliqueStep.shape_of`.
        varying: of each clique, the tables that rows differ in.
        wanted: the variables whose distributions are asked for.
    """

    def __init__(
        self,
        order: CliqueOrder,
        sizes: Mapping[str, int],
        tables: list[list[RunningProduct]],
        varying: Mapping[int, Sequence[VaryingTable]],
        wanted: Sequence[str] = (),
    ) -> None:
        self._order, self._sizes = order, sizes
        self._cells, self._work = 0, np.empty((0, LANES))
        self._below: dict[int, list[CliqueStep]] = {step.number: [] for step in order.steps}
        for step in order.steps[1:]:
            self._below[step.before].append(step)
        self._tables = [(self._room(table.names), number, table) for number, some in varying.items() for table in some]
        self._varying: dict[int, list[LaneMessage]] = {}
        for message, number, _ in self._tables:
            self._varying.setdefault(number, []).append(message)
        self._shared = {step.number: self._room(step.names[step.own :]) for step in order.steps[1:]}
        self._same: dict[int, np.ndarray] = {}  # messages towards the root that all rows share, (states, 1)
        self._products: dict[int, np.ndarray] = {}
        self._logs = self._multiply(tables)
        self._scaled = self._to_be_scaled()
        self._groups = {step.number: self._grouped(step.number) for step in order.steps}
        self._homes = self._find_homes(wanted)
        self._scratch = self._cells  # from here on each clique writes what it sends outwards
        self._inward = [
            (step, self._pass(step, [self._shared[step.number]]))
            for step in reversed(order.steps[1:])
            if step.number not in self._same
        ]
        self._last: dict[LaneMessage, CliquePass] = {}  # of the root, for each answer
        self._outward = [(step, *self._sent(step)) for step in order.steps] if wanted else []

    @property
    def suits(self) -> bool:
        """Return whether no clique multiplies so many messages that their product might underflow."""
        return all(len(groups) < MANY_FACTORS for groups in self._groups.values())

    @property
    def numbers(self) -> int:
        """The number of floats it holds: tables, products of cliques, intermediate sums, and messages."""
        tables = sum([table.numbers.size for _, _, table in self._tables if table.numbers is not None])
        products = sum([product.size for product in self._products.values()])
        root = self._products[self._order.steps[0].number].size
        return tables + 3 * products + len(self._last) * root + self._work.size

    def joint(
        self, codes: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray], asked: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the joint distribution of some variables of the root, (rows, states), and log-likelihoods.

        The distribution is all zero in an impossible row. There are `LANES` rows.

        Args:
            codes: the states of the known variables, (rows,) each.
            weights: of the states of other variables, (rows, states) each.
            asked: the variables.
        """
        out = self._at(self._scratch, tuple(asked))
        if out not in self._last:
            self._last[out] = self._pass(self._order.steps[0], [out])
        work, logs = self._swept_inwards(codes, weights, out.cells.stop)
        work[out.cells] = 0.0
        self._last[out].run(work)
        found = work[out.cells]
        total = _made_to_sum_to_one(found)
        with np.errstate(divide="ignore"):
            return found.T.copy(), logs + np.log(total)

    def marginals(
        self, codes: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the marginal of each wanted variable, not normalised, (rows, states), and log-likelihoods.

        See `joint`.
        """
        cells = max(sent[-1].cells.stop for _, _, sent in self._outward if sent)
        work, logs = self._swept_inwards(codes, weights, cells)
        found: dict[str, np.ndarray] = {}
        likelihood = logs
        for step, run, sent in self._outward:
            if not sent:
                continue
            work[self._scratch : sent[-1].cells.stop] = 0.0
            run.run(work)
            for message, below in zip(sent, [*self._below[step.number], *[None] * len(sent)], strict=False):
                new = work[message.cells]
                if step.before < 0 or (below is not None and below.number in self._scaled):
                    total = _made_to_sum_to_one(new)
                    if message is sent[-1] and step.before < 0:
                        with np.errstate(divide="ignore"):
                            likelihood = logs + np.log(total)
                for name in self._homes.get((step.number, message.names), ()):
                    found[name] = self._summed(new, message.names, name)
                if below is not None:
                    self._divide(new, below, work)
        return found, likelihood

    def _room(self, names: Sequence[str]) -> LaneMessage:
        """Reserve cells of the working memory for a message over some variables."""
        found = self._at(self._cells, tuple(names))
        self._cells = found.cells.stop
        return found

    def _at(self, begin: int, names: tuple[str, ...]) -> LaneMessage:
        return LaneMessage(begin, names, prod([self._sizes[name] for name in names]))

    def _multiply(self, tables: list[list[RunningProduct]]) -> np.ndarray:
        """Multiply the tables that are equal in all rows, and send constant messages towards the root; (1,) logs."""
        sweep = CliqueSweep(self._order, tables)
        for step in reversed(self._order.steps):
            _, product = sweep.product(step)
            varies = self._varying.get(step.number) or any(
                one.number not in self._same for one in self._below[step.number]
            )
            if step.before >= 0 and not varies:
                message = sweep.scaled(np.add.reduce(product, axis=tuple(range(1, 1 + step.own))))
                self._same[step.number] = message.reshape(-1, 1)
                sweep.tables[step.before].append((1, message.reshape(1, *step.sizes[step.own :])[step.spread]))
            else:
                product = sweep.scaled(product)
            self._products[step.number] = np.ascontiguousarray(product).reshape(-1)
        return sweep.logs

    def _to_be_scaled(self) -> set[int]:
        """Return the cliques whose messages towards the root are scaled, so that no product has too many factors.

        Those of few states and many tables first. All that rows share is scaled already.
        """
        scaled, factors = {*self._same}, dict.fromkeys(self._same, 1)
        for step in reversed(self._order.steps):
            if step.number in self._same:
                continue
            behind = [one.number for one in self._below[step.number] if one.number not in self._same]
            total = 1 + len(self._varying.get(step.number, ())) + sum([factors[one] for one in behind])
            for one in sorted(behind, key=lambda one: self._shared[one].states / factors[one]):
                if total > MANY_FACTORS and factors[one] > 1:
                    total -= factors[one] - 1
                    scaled.add(one)
            factors[step.number] = total
        return scaled

    def _grouped(self, number: int) -> list[InputGroup]:
        """Return the messages into a clique from tables and children, grouped by what is multiplied first."""
        behind = [self._shared[one.number] for one in self._below[number] if one.number not in self._same]
        groups: list[list[LaneMessage]] = []
        for message in sorted([*self._varying.get(number, ()), *behind], key=lambda one: -one.states):
            host = next((group for group in groups if {*message.names} <= {*group[0].names}), None)
            if host is None:
                groups.append([message])
            else:
                host.append(message)
        found = []
        for group in groups:
            in_place = len(group) == 1 or group[0] in self._varying.get(number, ())  # a message is needed later
            whole = group[0] if in_place else self._room(group[0].names)
            shapes = [
                (*(self._sizes[name] if name in one.names else 1 for name in whole.names), LANES) for one in group
            ]
            found.append(InputGroup(whole, tuple(group), tuple(shapes)))
        return found

    def _find_homes(self, wanted: Sequence[str]) -> dict[tuple[int, tuple[str, ...]], list[str]]:
        """Return, for each variable, the message (sending clique, variables) that its marginal is computed from.

        The smallest that is shared by cliques, or one of its own.
        """
        best: dict[str, tuple[int, int, tuple[str, ...]]] = {}
        for step in self._order.steps[1:]:
            message = self._shared[step.number]
            for name in message.names:
                here = message.states, step.before, message.names
                best[name] = min(best.get(name, here), here)
        homes: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        for name in wanted:
            _, number, names = best.get(name) or (0, self._order.nearest_step([name]).number, (name,))
            homes.setdefault((number, names), []).append(name)
        return homes

    def _sent(self, step: CliqueStep) -> tuple[CliquePass, list[LaneMessage]]:
        """Return what a clique sends outwards: to its children, to marginals of its own variables, and in all."""
        names = [self._shared[one.number].names for one in self._below[step.number]]
        names += [one for number, one in self._homes if number == step.number and one not in names]
        names += [()] if step.before < 0 else []
        sent, begin = [], self._scratch
        for one in names:
            sent.append(self._at(begin, one))
            begin = sent[-1].cells.stop
        return self._pass(step, sent, outwards=True), sent

    def _pass(self, step: CliqueStep, outputs: Sequence[LaneMessage], outwards: bool = False) -> CliquePass:
        inputs = [group.whole for group in self._groups[step.number]]
        if outwards and step.before >= 0:
            inputs.append(self._shared[step.number])
        legs = [[self._leg(step, message) for message in some] for some in (inputs, outputs)]
        return CliquePass(self._products[step.number], step.sizes, *legs)

    def _leg(self, step: CliqueStep, message: LaneMessage) -> Leg:
        steps, step_size = dict.fromkeys(step.names, 0), 1
        for name in reversed(message.names):
            steps[name] = step_size
            step_size *= self._sizes[name]
        return Leg(message.begin, tuple(steps.values()))

    def _swept_inwards(
        self, codes: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray], cells: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the working memory after messages towards the root, and the logarithms of the scales.

        All that the root multiplies is there then.
        """
        if len(self._work) < cells:
            self._work = np.empty((cells, LANES))
        work = self._work
        for message, _, table in self._tables:
            table.fill(work[message.cells], codes, weights)
        logs = np.repeat(self._logs, LANES)
        for step, run in self._inward:
            self._multiply_groups(step, work, logs)
            sent = work[self._shared[step.number].cells]
            sent[...] = 0.0
            run.run(work)
            if step.number in self._scaled:
                _scale(sent, logs)
        self._multiply_groups(self._order.steps[0], work, logs)
        return work, logs

    def _multiply_groups(self, step: CliqueStep, work: np.ndarray, logs: np.ndarray) -> None:
        """Multiply the messages into a clique that belong to one group."""
        for whole, members, shapes in self._groups[step.number]:
            if len(members) == 1:
                continue
            total = work[whole.cells].reshape(shapes[0])
            if whole is not members[0]:
                total[...] = work[members[0].cells].reshape(shapes[0])  # it has the variables of all others
            for count, (member, shape) in enumerate(zip(members[1:], shapes[1:], strict=True), 2):
                total *= work[member.cells].reshape(shape)
                if count % MANY_FACTORS == 0:
                    _scale(work[whole.cells], logs)

    def _divide(self, new: np.ndarray, step: CliqueStep, work: np.ndarray) -> None:
        """Replace the message from a clique by the factor that makes it sum to the new one."""
        mine = work[self._shared[step.number].cells]
        old = self._same.get(step.number, mine)
        if old.all():
            np.divide(new, old, out=mine)
            return
        possible = np.broadcast_to(old > 0, mine.shape)
        ratio = np.divide(new, old, out=np.zeros_like(mine), where=possible)
        mine[...] = ratio

    def _summed(self, message: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
        """Return the marginal of a variable from a message, (lanes, states)."""
        shaped = message.reshape(*(self._sizes[one] for one in names), LANES)
        found: np.ndarray = shaped.sum(axis=tuple(axis for axis, one in enumerate(names) if one != name))
        return found.T


def _made_to_sum_to_one(message: np.ndarray) -> np.ndarray:
    """Divide a message by its sum in each lane, and return the sums; zeros stay zero."""
    total: np.ndarray = np.add.reduce(message, axis=0)
    _divide_lanes(message, total)
    return total


def _scale(message: np.ndarray, logs: np.ndarray) -> None:
    """Scale a message to a maximum of 1 in each lane, and add the logarithm of the scale to `logs`."""
    largest = np.maximum.reduce(message, axis=0)
    with np.errstate(divide="ignore"):
        logs += np.log(largest)
    _divide_lanes(message, largest)


def _divide_lanes(message: np.ndarray, numbers: np.ndarray) -> None:
    """Divide a message by a number in each lane, except where the number is zero."""
    if numbers.min() > SMALL_NUMBER:
        message *= 1 / numbers  # many products are faster than as many quotients
    else:
        message /= np.where(numbers > 0, numbers, 1)
