"""Answers for many rows from the cliques of a junction tree: some rows side by side, one compiled pass over a clique.

What is the same in all rows (tables without known variables, and messages from cliques with no others behind them) is
multiplied once. Any other table or message is an array (states, lanes), and the product over a clique is never kept:
see `fgrn.engines.clique_lanes`. The messages are those of `clique_sweeps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..engines.clique_lanes import LANES, CliquePass, Leg
from .clique_sweeps import MANY_FACTORS, CliqueOrder, CliqueStep, CliqueSweep, RunningProduct

VaryingTables = Mapping[int, Sequence[np.ndarray]]
"""Of each clique, the numbers of the tables that rows differ in: (rows, states) each."""


class LaneMessage(NamedTuple):
    """Where a message is in the working memory: its first cell, its variables in order, and its number of states."""

    begin: int
    names: tuple[str, ...]
    states: int

    @property
    def cells(self) -> slice:
        """Its cells."""
        return slice(self.begin, self.begin + self.states)


class InputGroup(NamedTuple):
    """Messages into a clique that are multiplied before they come in, since one has the variables of all others."""

    whole: LaneMessage
    members: tuple[LaneMessage, ...]


class LaneSweep:
    """The cliques of a junction tree with all that rows have in common, to be swept for some rows at a time.

    Args:
        order: the cliques from the root outwards.
        sizes: the number of states of each variable.
        tables: of each clique, those that are the same in all rows; see `CliqueStep.shape_of`.
        varying: of each clique, the variables of the tables that rows differ in, in the order of the cliques.
        wanted: the variables whose distributions are asked for.
    """

    def __init__(
        self,
        order: CliqueOrder,
        sizes: Mapping[str, int],
        tables: list[list[RunningProduct]],
        varying: Mapping[int, Sequence[tuple[str, ...]]],
        wanted: Sequence[str] = (),
    ) -> None:
        self._order, self._sizes = order, sizes
        self._cells, self._work = 0, np.empty((0, LANES))
        self._below: dict[int, list[CliqueStep]] = {step.number: [] for step in order.steps}
        for step in order.steps[1:]:
            self._below[step.before].append(step)
        self._varying = {number: [self._room(names) for names in some] for number, some in varying.items()}
        self._shared = {step.number: self._room(step.names[step.own :]) for step in order.steps[1:]}
        self._same: dict[int, np.ndarray] = {}  # messages towards the root that all rows share, (states, 1)
        self._products: dict[int, np.ndarray] = {}
        self._logs = self._multiply(tables)
        self._groups = {step.number: self._grouped(step.number) for step in order.steps}
        self._homes = self._find_homes(wanted)
        self._scratch = self._cells  # from here on each clique writes what it sends outwards
        self._inward = [
            (step, self._pass(step, [self._shared[step.number]]))
            for step in reversed(order.steps[1:])
            if step.number not in self._same
        ]
        self._outward = [(step, *self._sent(step)) for step in order.steps] if wanted else []

    @property
    def suits(self) -> bool:
        """Whether no clique multiplies so many messages that their product might vanish."""
        return all(len(groups) < MANY_FACTORS for groups in self._groups.values())

    def joint(self, tables: VaryingTables, asked: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(rows, states) of the joint distribution of some variables of the root, in order, and log-likelihoods.

        The distribution is all zero in an impossible row. There are at most `LANES` rows.
        """
        root = self._order.steps[0]
        out = self._at(self._scratch, tuple(asked))
        work, logs = self._swept_inwards(tables, out.cells.stop)
        work[out.cells] = 0.0
        self._pass(root, [out]).run(work)
        found = work[out.cells]
        total = _made_to_sum_to_one(found)
        with np.errstate(divide="ignore"):
            return found.T.copy(), logs + np.log(total)

    def marginals(self, tables: VaryingTables) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(rows, states) of the distribution of each variable that is wanted, and log-likelihoods; see `joint`."""
        work, logs = self._swept_inwards(tables, max(sent[-1].cells.stop for _, _, sent in self._outward if sent))
        found: dict[str, np.ndarray] = {}
        likelihood = logs
        for step, run, sent in self._outward:
            if not sent:
                continue
            work[self._scratch : sent[-1].cells.stop] = 0.0
            run.run(work)
            for message, below in zip(sent, [*self._below[step.number], *[None] * len(sent)], strict=False):
                new = work[message.cells]
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
        """Take room in the working memory for a message over some variables."""
        found = self._at(self._cells, tuple(names))
        self._cells = found.cells.stop
        return found

    def _at(self, begin: int, names: tuple[str, ...]) -> LaneMessage:
        return LaneMessage(begin, names, prod([self._sizes[name] for name in names]))

    def _multiply(self, tables: list[list[RunningProduct]]) -> np.ndarray:
        """Multiply what is the same in all rows, and send it towards the root where nothing else comes; (1,) logs."""
        sweep = CliqueSweep(self._order, tables)
        for step in reversed(self._order.steps):
            _, product = sweep.product(step)
            varies = self._varying.get(step.number) or any(
                one.number not in self._same for one in self._below[step.number]
            )
            if step.before >= 0 and not varies:
                message = sweep.scaled(np.add.reduce(product, axis=tuple(range(1, 1 + step.own))))
                self._same[step.number] = message.reshape(-1, 1)
                sweep.tables[step.before].append((1, message.reshape(1, *step.shape)))
            else:
                product = sweep.scaled(product)
            self._products[step.number] = np.ascontiguousarray(product).reshape(-1)
        return sweep.logs

    def _grouped(self, number: int) -> list[InputGroup]:
        """The messages that come into a clique from tables and from behind, those multiplied before together."""
        behind = [self._shared[one.number] for one in self._below[number] if one.number not in self._same]
        groups: list[list[LaneMessage]] = []
        for message in sorted([*self._varying.get(number, ()), *behind], key=lambda one: -one.states):
            host = next((group for group in groups if {*message.names} <= {*group[0].names}), None)
            if host is None:
                groups.append([message])
            else:
                host.append(message)
        return [
            InputGroup(group[0] if len(group) == 1 else self._room(group[0].names), tuple(group)) for group in groups
        ]

    def _find_homes(self, wanted: Sequence[str]) -> dict[tuple[int, tuple[str, ...]], list[str]]:
        """Which message, by the clique that sends it and its variables, the distribution of a variable comes from.

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
        """What a clique sends outwards: to each clique behind it, to variables of its own, and the root in all."""
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

    def _swept_inwards(self, tables: VaryingTables, cells: int) -> tuple[np.ndarray, np.ndarray]:
        """The working memory after messages went towards the root, and the logarithms of what was taken out.

        All that the root multiplies is there then.
        """
        if len(self._work) < cells:
            self._work = np.empty((cells, LANES))
        work = self._work
        for number, some in tables.items():
            for message, numbers in zip(self._varying[number], some, strict=True):
                work[message.cells, : len(numbers)] = numbers.T
                work[message.cells, len(numbers) :] = 1.0  # lanes without a row
        logs = np.repeat(self._logs, LANES)
        for step, run in self._inward:
            self._multiply_groups(step, work, logs)
            sent = work[self._shared[step.number].cells]
            sent[...] = 0.0
            run.run(work)
            _scale(sent, logs)
        self._multiply_groups(self._order.steps[0], work, logs)
        return work, logs

    def _multiply_groups(self, step: CliqueStep, work: np.ndarray, logs: np.ndarray) -> None:
        """Multiply the messages into a clique that come in together."""
        for whole, members in self._groups[step.number]:
            if len(members) == 1:
                continue
            shape = [self._sizes[name] for name in whole.names]
            total = work[whole.cells].reshape(*shape, LANES)
            total[...] = 1.0
            for count, member in enumerate(members, 1):
                there = [size if name in member.names else 1 for name, size in zip(whole.names, shape, strict=True)]
                total *= work[member.cells].reshape(*there, LANES)
                if count % MANY_FACTORS == 0:
                    _scale(work[whole.cells], logs)

    def _divide(self, new: np.ndarray, step: CliqueStep, work: np.ndarray) -> None:
        """Replace the message from a clique by what it has to be multiplied by, so that it sums to the new one."""
        mine = work[self._shared[step.number].cells]
        old = self._same.get(step.number, mine)
        if old.all():
            np.divide(new, old, out=mine)
            return
        possible = np.broadcast_to(old > 0, mine.shape)
        ratio = np.divide(new, old, out=np.zeros_like(mine), where=possible)
        mine[...] = ratio

    def _summed(self, message: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
        """(lanes, states) the distribution of a variable of a message."""
        shaped = message.reshape(*(self._sizes[one] for one in names), LANES)
        found: np.ndarray = shaped.sum(axis=tuple(axis for axis, one in enumerate(names) if one != name))
        return found.T


def _made_to_sum_to_one(message: np.ndarray) -> np.ndarray:
    """Divide a message by its sum in each lane, which is returned; zeros stay zero."""
    total: np.ndarray = np.add.reduce(message, axis=0)
    message /= np.where(total > 0, total, 1)
    return total


def _scale(message: np.ndarray, logs: np.ndarray) -> None:
    """Make the largest number of a message one in each lane, and add the logarithm of what it was to `logs`."""
    largest = np.maximum.reduce(message, axis=0)
    with np.errstate(divide="ignore"):
        logs += np.log(largest)
    message /= np.where(largest > 0, largest, 1)
