"""Mutual information, the value of observing a variable, and the conflict of evidence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode, known_names
from ..flow.messages import Messages
from ..queries.questions import only_value, shown_where
from ..tables import frames
from ..tables.missing import is_missing_value


class Observation(NamedTuple):
    """The value of observing a variable for a target: mutual information in nats, its cost, and the difference.

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


class InformationQueries:
    """Queries about information that a Bayesian network answers."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all variables."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""

    @abstractmethod
    def joint(self, evidence: frames.Data, names: Sequence[Name]) -> np.ndarray:
        """Return the joint distribution of some variables."""

    @abstractmethod
    def propagate(self, evidence: frames.Data = None, **options: Any) -> Messages:
        """Return the marginals of all variables and the log-likelihood."""

    @abstractmethod
    def parents(self, name: Name) -> tuple[str, ...]:
        """Return the parents of a variable."""

    def mutual_information(self, one: Name, other: Name, given: frames.Data = None) -> float:
        """Return the mutual information of two variables, in nats, given one row of evidence."""
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
        """Return the value of observing each variable for knowing a target, most valuable first.

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
        if aim in known:
            raise EvidenceError(
                f"The target {aim!r} is known already, so that nothing adds to it.", remedies="leave out its value"
            )
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
                    f"has {name!r}, which is {'to be known itself' if name == aim else 'known already'}.",
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
        """Return the mutual information of a variable with each of some others, given one row of evidence.

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
        """Return the conflict of evidence: log(product of the probabilities of its parts / probability of all).

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


def _mutual_information(joint: np.ndarray) -> float:
    """Return the mutual information of the two axes of a joint distribution, in nats."""
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return max(0.0, float((joint[some] * np.log(joint[some] / product[some])).sum()))


def _single_value(value: Any) -> Any:
    """Return the value of a column with one row."""
    return value if frames.is_bare(value) or isinstance(value, frames.Coded) or len(value) != 1 else value[0]


def _check_one_row(found: np.ndarray) -> None:
    if len(found) != 1:
        raise EvidenceError(
            f"This query takes one row of evidence. Got {len(found):,} rows.",
            remedies="give one value for each variable",
        )
