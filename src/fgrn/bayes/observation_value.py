"""Mutual information, which variable to ask for next, sensitivity to a number of a table, conflict of evidence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, FgrnError, ImpossibleEvidence
from ..core.labels import Label
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode, known_names
from ..flow.marginals import refuse_impossible
from ..flow.messages import Messages
from ..queries.questions import only_value, shown_where
from ..tables import frames
from ..tables.missing import is_missing_value
from .elimination import hard_and_soft

NOISE = 1e-12
"""A share of a probability that is taken for rounding."""


class Observation(NamedTuple):
    """What observing a variable would tell of a target: mutual information in nats, what it costs, and the difference.

    Attributes:
        name: of the variable.
        information: expected decrease of the entropy of the target, in nats.
        cost: of observing it.
        value: the information less the cost.
    """

    name: str
    information: float
    cost: float
    value: float


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
        """The posterior probability where the number has a value from 0 to 1."""
        a, b, _, _ = self.coefficients
        found = np.clip((a * value + b) / self._evidence(value), 0.0, 1.0)
        return found if isinstance(value, np.ndarray) else float(found)

    def _evidence(self, value: float | np.ndarray) -> Any:
        """The probability of the evidence but for a factor; an error where it is impossible."""
        found = self.coefficients[2] * value + self.coefficients[3]
        if np.any(found <= 0):
            raise ImpossibleEvidence("The evidence is impossible where the number has this value.", value=value)
        return found

    @property
    def probability(self) -> float:
        """The posterior probability as it is now."""
        return float(self(self.parameter))

    @property
    def derivative(self) -> float:
        """How much the probability changes with the number, as it is now."""
        a, b, c, d = self.coefficients
        return float((a * d - b * c) / self._evidence(self.parameter) ** 2)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest probability of all values of the number, as far as they are possible."""
        ends = [float(self(x)) for x in (0.0, 1.0) if self.coefficients[2] * x + self.coefficients[3] > 0]
        return min(ends), max(ends)


class InformationQueries:
    """Questions about information that a Bayesian network answers."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all variables."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """A variable by name."""

    @abstractmethod
    def joint(self, evidence: frames.Data, names: Sequence[Name]) -> np.ndarray:
        """The joint distribution of some variables."""

    @abstractmethod
    def propagate(self, evidence: frames.Data = None, **options: Any) -> Messages:
        """The marginals of all variables and the log-likelihood."""

    @abstractmethod
    def parents(self, name: Name) -> tuple[str, ...]:
        """The parents of a variable."""

    def mutual_information(self, one: Name, other: Name, given: frames.Data = None) -> float:
        """How much two variables tell of each other, in nats, given one row of evidence."""
        joint = self.joint(given, [self.variable(one).name, self.variable(other).name])
        _check_one_row(joint)
        return _mutual_information(joint[0])

    def value_of_asking(
        self,
        target: Name,
        given: frames.Data = None,
        *,
        candidates: Collection[Name] | None = None,
        costs: Mapping[Name, float] | None = None,
    ) -> list[Observation]:
        """What to observe next to know a target: the value of each variable, the most valuable first.

        The value is the expected decrease of the target's entropy in nats (mutual information), less the cost. A
        variable of which a distribution is given is not known.

        Args:
            target: the variable that is to be known.
            given: what is known already: one row of evidence.
            candidates: the variables that can be observed, neither the target nor known; all of these unless given.
            costs: of observing a variable, in nats; 0 unless given.
        """
        aim = self.variable(target).name
        me: Any = self
        known = known_names(encode(me, me._checked(given)))
        prices = settings.by_name(costs, self.variable)
        for name, price in prices.items():
            self.variable(name)
            settings.number(f"costs[{name!r}]", price, EvidenceError)
        listed = tuple(name for name in self.names if name != aim and name not in known)
        if candidates is not None:
            listed = settings.variable_names("candidates", candidates, own=self.variable)
        for name in listed:
            if name == aim or name in known:
                raise EvidenceError(
                    f"has {name!r}, which is {'the target' if name == aim else 'known already'}.",
                    setting="candidates",
                    value=name,
                    remedies="leave it out",
                )
        found = []
        for name, gained in self._information(aim, listed, given).items():
            cost = float(prices.get(name, 0.0))
            found.append(Observation(name, gained, cost, gained - cost))
        return sorted(found, key=lambda one: -one.value)

    def _information(self, aim: str, names: Collection[str], given: frames.Data) -> dict[str, float]:
        """The mutual information of a variable and each of some others, given one row of evidence.

        The distribution of all others given each state of the variable takes one row of evidence for each state.
        """
        me: Any = self
        if not me._fits():  # the cliques of two variables may
            return {name: self.mutual_information(aim, name, given) for name in names}
        share = me.posterior(given, aim)
        _check_one_row(share)
        states = np.flatnonzero(share[0] > 0)
        every = np.ones(len(states), dtype=bool)
        table = {
            name: shown_where(only_value(name, value), every)
            for name, value in frames.columns(given).items()
            if name != aim
        }
        table[aim] = frames.Coded(states)
        seen = self.propagate(table, keep=list(names), parts=["marginal"])
        return {name: _mutual_information(share[0][states, None] * seen.marginal(name)) for name in names}

    def conflict(self, given: frames.Data) -> float:
        """The conflict of evidence: log of the product of the probabilities of its parts over that of all together.

        Above 0 the values go together less often than if they were independent (Jensen et al., 1991): a hint that one
        is wrong, or that the case is a rare one.

        Args:
            given: one row of evidence.
        """
        columns = {
            name: value for name, value in frames.columns(given).items() if not is_missing_value(_single_value(value))
        }
        me: Any = self
        whole = me._pruned_likelihood(columns or None)
        _check_one_row(whole)
        if np.isneginf(whole[0]):
            self.propagate(columns, keep=[], parts=["likelihood"])  # says which values cannot go together
        return sum(float(me._pruned_likelihood({name: value})[0]) for name, value in columns.items()) - float(whole[0])

    def sensitivity(
        self,
        target: tuple[Name, Label],
        parameter: tuple[Name, Label] | tuple[Name, Label, Mapping[Any, Label]],
        given: frames.Data = None,
    ) -> Sensitivity:
        """How a posterior probability depends on one number of a table: exactly, as a function.

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
        row = tuple(self.variable(name).code(above[name]) for name in needed)
        column, state = child.code(parameter[1]), aim.code(target[1])
        return self._function(aim, state, child, row, column, given)

    def _function(
        self, aim: Variable, state: int, child: Variable, row: tuple[int, ...], column: int, given: frames.Data
    ) -> Sensitivity:
        """Both P(target, evidence) and P(evidence) are linear in the number: two values of it tell them."""
        me: Any = self
        evidence = encode(me, me._checked(given))
        _check_one_row(evidence.log_scale)
        ((_, known, weighted),) = hard_and_soft(evidence, self.names)
        shape = [me.variable(name).cardinality for name in (*me.parents(child.name), child.name)]
        now = me.table(child.name).reshape(shape)
        if shape[-1] < 2:
            raise FgrnError(f"{child.name!r} has one state, of probability 1, which cannot change.")
        shares, logs = [], []
        for x in (0.25, 0.75):
            changed = now.copy()
            rest = np.delete(now[row], column)
            share = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
            changed[row] = np.insert(share * (1 - x), column, x)
            found, log = me._joint(evidence, (aim.name,), known, weighted, {child.name: changed}, likelihood=True)
            refuse_impossible(np.flatnonzero(np.isneginf(log)))
            logs.append(float(log[0]))
            shares.append(float(found[0, state]))
        low, high = (float(np.exp(one - max(logs))) for one in logs)  # their ratio counts, and neither vanishes
        above = _line_of_probabilities(low * shares[0], high * shares[1])
        return Sensitivity((*above, *_line_of_probabilities(low, high)), float(now[row][column]))


def _line_of_probabilities(low: float, high: float) -> tuple[float, float]:
    """The slope, and the value at 0, of a line that is never negative between 0 and 1, from its values at 1/4 and 3/4.

    What is rounding in comparison with these is zero.
    """
    noise = NOISE * max(low, high)
    begin, end = (one if one > noise else 0.0 for one in (1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low))
    slope = end - begin
    return (slope if abs(slope) > noise else 0.0), begin


def _mutual_information(joint: np.ndarray) -> float:
    """The mutual information of the two axes of a joint distribution, in nats."""
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return max(0.0, float((joint[some] * np.log(joint[some] / product[some])).sum()))


def _single_value(value: Any) -> Any:
    """The value of a column of one row."""
    return value if frames.is_bare(value) or isinstance(value, frames.Coded) or len(value) != 1 else value[0]


def _check_one_row(found: np.ndarray) -> None:
    if len(found) != 1:
        raise EvidenceError(
            f"This question is asked of one row of evidence. Got {len(found):,} rows.",
            remedies="give one value for each variable",
        )
