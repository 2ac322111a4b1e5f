"""One-way sensitivity analysis: a posterior probability as an exact function of one number of a table.

P(target, evidence) and P(evidence) are both linear in a number x of a table if the other numbers of its row change in
proportion (Castillo, Gutiérrez and Hadi, 1997). The lines of all numbers of a table come from one question: with D the
probability of target, evidence and each joint state of the family but for the factor that the table is, and t the
table, P(target, evidence) = sum of D t over all cells.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core import printing, settings
from ..core.exceptions import EvidenceError, FgrnError, ImpossibleEvidence, counted, visible
from ..core.labels import Label
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode
from ..flow.marginals import refuse_impossible
from ..tables import frames
from .elimination import hard_and_soft

NOISE = 1e-12
"""A share of a probability that is taken for rounding."""

SHOWN = 10
"""Numbers of tables in a text."""

TableNumber = tuple[Name, Label] | tuple[Name, Label, Mapping[Any, Label]]
"""A variable, its state, and the states of its parents: the number P(state | parents) of its table."""


@dataclass(frozen=True)
class Sensitivity:
    """A posterior probability as a function of one number of a table, x: (a x + b) / (c x + d) (Castillo et al., 1997).

    The other numbers of the row change in proportion.

    Attributes:
        coefficients: a, b, c, d; c x + d is the probability of the evidence but for a factor.
        parameter: the number as it is now.
    """

    coefficients: tuple[float, float, float, float]
    parameter: float

    def __call__(self, value: float | np.ndarray) -> Any:
        """Return the posterior probability at a value of the number from 0 to 1."""
        if not np.all((np.asarray(value) >= -NOISE) & (np.asarray(value) <= 1 + NOISE)):
            raise FgrnError(f"A number of a table is a probability, from 0 to 1. Got {value!r}.", value=value)
        a, b, _, _ = self.coefficients
        found = np.clip((a * value + b) / self._evidence(value), 0.0, 1.0)
        return found if isinstance(value, np.ndarray) else float(found)

    def _evidence(self, value: float | np.ndarray) -> Any:
        """Return the probability of the evidence up to a factor; an error if it is impossible."""
        found = self.coefficients[2] * value + self.coefficients[3]
        if np.any(found <= 0):
            raise ImpossibleEvidence("The evidence is impossible where the number has this value.", value=value)
        return found

    @property
    def probability(self) -> float:
        """The posterior probability at the current value."""
        return float(self(self.parameter))

    @property
    def derivative(self) -> float:
        """The derivative of the probability with respect to the number, at its current value."""
        a, b, c, d = self.coefficients
        return float((a * d - b * c) / self._evidence(self.parameter) ** 2)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest probability over all values of the number at which evidence is possible."""
        ends = self.at_ends(0.0, 1.0)
        return min(ends), max(ends)

    def at_ends(self, low: float, high: float) -> list[float]:
        """Return the probability at two values of the number, without those at which evidence is impossible."""
        return [float(self(x)) for x in (low, high) if self.coefficients[2] * x + self.coefficients[3] > 0]


class NumberSensitivity(NamedTuple):
    """The effect of one number of a table, P(state | parents), on a posterior probability.

    Attributes:
        variable: whose table it is.
        state: of the variable.
        parents: the state of each parent.
        function: the posterior probability as a function of the number.
        low: the posterior probability where the number is smaller, by the spread.
        high: that where it is larger.
    """

    variable: str
    state: Label
    parents: Mapping[str, Label]
    function: Sensitivity
    low: float
    high: float

    @property
    def change(self) -> float:
        """The width of the interval of the posterior probability."""
        return abs(self.high - self.low)

    @property
    def text(self) -> str:
        """The number as text: P(state | parents)."""
        given = ", ".join(f"{name}={state}" for name, state in self.parents.items())
        return f"P({self.variable}={self.state}{' | ' if given else ''}{given})"


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """The effects of all numbers of the tables on a posterior probability; `fgrn.plots.tornado` draws them.

    Attributes:
        target: the variable and its state.
        probability: the posterior probability as it is.
        spread: by which part each number is made smaller and larger.
        numbers: those that change the probability, the largest change first.
    """

    target: tuple[str, Label]
    probability: float
    spread: float
    numbers: tuple[NumberSensitivity, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[NumberSensitivity]:
        return iter(self.numbers)

    def __getitem__(self, place: int) -> NumberSensitivity:
        return self.numbers[place]

    def __repr__(self) -> str:
        name, state = self.target
        heading = f"P({name}={state}) = {self.probability:.4g}, each number {self.spread:.0%} smaller and larger"
        rows = [
            [one.text, f"{one.function.parameter:.4g}", f"{one.low:.4g}", f"{one.high:.4g}"]
            for one in self.numbers[:SHOWN]
        ]
        table = printing.text_table(["number", "value", "smaller", "larger"], rows, 4, 1, printing.terminal_width())
        more = f"\n({len(self.numbers) - SHOWN:,} more)" if len(self.numbers) > SHOWN else ""
        ended = sum((1 + self.spread) * one.function.parameter > 1 for one in self.numbers)
        if ended:
            are = "is" if ended == 1 else "are"
            more += f"\n{counted(ended, 'number')} would be above 1 where larger, and {are} taken as 1 there"
        return visible(f"{heading}\n{table}{more}" if rows else f"{heading}: nothing changes it", lines=True)


class SensitivityQueries:
    """Sensitivity analyses that a Bayesian network answers."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all variables."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""

    @abstractmethod
    def parents(self, name: Name) -> tuple[str, ...]:
        """Return the parents of a variable."""

    def sensitivity(self, target: tuple[Name, Label], parameter: TableNumber, given: frames.Data = None) -> Sensitivity:
        """Return a posterior probability as an exact function of one number of a table.

        Args:
            target: a variable and its state, whose probability is asked for.
            parameter: a variable, its state, and the state of each of its parents: the number P(state | parents).
            given: one row of evidence.
        """
        aim = self.variable(target[0])
        child = self.variable(parameter[0])
        above = settings.by_name(parameter[2] if len(parameter) > 2 else None, self.variable)
        needed = self.parents(child.name)
        if set(above) != set(needed):
            raise FgrnError(
                f"A number of the table of {child.name!r} has a state for each parent: {', '.join(needed) or 'none'}.",
                value=sorted(above),
                remedies="name all of them, and no others",
            )
        if child.cardinality < 2:
            raise FgrnError(f"{child.name!r} has one state, of probability 1, which cannot change.")
        cell = (*(self.variable(name).code(above[name]) for name in needed), child.code(parameter[1]))
        lines = self._lines(aim, aim.code(target[1]), child, given)
        me: Any = self
        return Sensitivity(lines.at(cell), float(me.table(child.name).reshape(lines.shape)[cell]))

    def sensitivities(
        self, target: tuple[Name, Label], given: frames.Data = None, *, spread: float = 0.1
    ) -> Sensitivities:
        """Return the numbers of tables that a posterior probability depends on most, each varied alone.

        A number x goes from (1 - spread) x to (1 + spread) x, at most 1; the others of its row change in proportion.
        Numbers of 0 stay. Evidence that is impossible at an end leaves the probability as it is there.

        Args:
            target: a variable and its state, whose probability is asked for.
            given: one row of evidence.
            spread: by which part a number is made smaller and larger: more than 0, at most 1.
        """
        settings.number("spread", spread)
        if not 0 < spread <= 1:
            raise FgrnError("must be more than 0 and at most 1.", setting="spread", value=spread)
        me: Any = self
        aim = self.variable(target[0])
        state = aim.code(target[1])
        found = []
        for name in self.names:
            child = self.variable(name)
            if child.cardinality < 2:
                continue
            lines = self._lines(aim, state, child, given)
            table = me.table(name).reshape(lines.shape)
            above = [self.variable(one) for one in self.parents(name)]
            for cell in np.argwhere(lines.matters & (table > 0)).tolist():
                function = Sensitivity(lines.at(tuple(cell)), float(table[tuple(cell)]))
                x = function.parameter
                low, high = (function.at_ends(end, end) for end in ((1 - spread) * x, min(1.0, (1 + spread) * x)))
                found.append(
                    NumberSensitivity(
                        name,
                        child.labels[cell[-1]],
                        {one.name: one.labels[code] for one, code in zip(above, cell[:-1], strict=True)},
                        function,
                        low[0] if low else function.probability,
                        high[0] if high else function.probability,
                    )
                )
        found.sort(key=lambda one: -one.change)
        probability = float(me.posterior(given, aim.name)[0, state])
        kept = tuple(one for one in found if one.change > NOISE)
        return Sensitivities((aim.name, aim.labels[state]), probability, float(spread), kept)

    def _lines(self, aim: Variable, state: int, child: Variable, given: frames.Data) -> _Lines:
        """Return P(target, evidence) and P(evidence) as linear functions of each number of a table, up to a factor."""
        me: Any = self
        evidence = encode(me, me._checked(given))
        if len(evidence.log_scale) != 1:
            raise EvidenceError(
                f"This query takes one row of evidence. Got {len(evidence.log_scale):,} rows.",
                remedies="give one value for each variable",
            )
        ((_, known, weighted),) = hard_and_soft(evidence, self.names)
        scope = (*self.parents(child.name), child.name)
        shape = tuple(self.variable(name).cardinality for name in scope)
        names = tuple(dict.fromkeys((aim.name, *scope)))
        even = np.full(shape, 1 / child.cardinality)
        joint, log = me._joint(evidence, names, known, weighted, {child.name: even}, likelihood=True)
        refuse_impossible(np.flatnonzero(np.isneginf(log)))
        joint = joint[0].reshape([self.variable(name).cardinality for name in names])
        if aim.name in scope:
            place = scope.index(aim.name)
            whole = np.moveaxis(joint, 0, place)
            here = np.zeros_like(whole)
            chosen = (*[slice(None)] * place, state)
            here[chosen] = whole[chosen]
        else:
            whole, here = joint.sum(axis=0), joint[state]
        table = me.table(child.name).reshape(shape)
        return _Lines(*_line_of_each(here, table), *_line_of_each(whole, table))


class _Lines(NamedTuple):
    """P(target, evidence) and P(evidence) at 0 and 1 of each number of a table, in the shape of the table."""

    target_begin: np.ndarray
    target_end: np.ndarray
    evidence_begin: np.ndarray
    evidence_end: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table."""
        return self.target_begin.shape

    @property
    def matters(self) -> np.ndarray:
        """Return whether the posterior probability depends on a number."""
        one, other = self.target_begin * self.evidence_end, self.target_end * self.evidence_begin
        changes: np.ndarray = np.abs(one - other) > NOISE * (one + other)
        return changes

    def at(self, cell: tuple[int, ...]) -> tuple[float, float, float, float]:
        """Return the coefficients of `Sensitivity` of one number."""
        begin, end, low, high = (float(one[cell]) for one in self)
        return end - begin, begin, high - low, low


def _line_of_each(cells: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of cells times the numbers of a table, at 0 and at 1 of each number.

    The others of its row, the last axis, change in proportion; where it is 1 already, equally. What is rounding in
    comparison with the sum is zero.
    """
    parts = cells * table
    rows = parts.sum(axis=-1, keepdims=True)
    rest = parts.sum() - rows  # of the other rows
    left = 1 - table
    states = table.shape[-1]
    others = (rows - parts) / np.where(left > 0, left, 1.0)
    even = (cells.sum(axis=-1, keepdims=True) - cells) / (states - 1)
    begin = rest + np.where(left > NOISE, others, even)
    end = rest + cells
    noise = NOISE * np.maximum(begin, end)
    return np.where(begin > noise, begin, 0.0), np.where(end > noise, end, 0.0)
