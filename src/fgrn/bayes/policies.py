"""Results of influence diagrams: the policies of decisions, the expected utility, the value of information."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.arrays import ReadOnlyArrays
from ..core.exceptions import EvidenceError, unknown_name
from ..core.labels import Label
from ..core.printing import html_table, text_table
from ..core.settings import Name, by_name, name_of
from ..core.variable import Variable
from ..tables.outputs import frame_of_records

if TYPE_CHECKING:
    from .bayesian import BayesianNetwork


@dataclass(frozen=True, eq=False)
class Policy(ReadOnlyArrays):
    """A policy: the action of a decision for each joint state of the known variables that it depends on.

    Attributes:
        decision: the decision, whose states are its actions.
        depends_on: the variables that matter among those that are known.
        utilities: expected utility of each action (last axis) for each state of these variables, up to a term that is
            the same for all actions; read-only.
    """

    decision: Variable
    depends_on: tuple[Variable, ...]
    utilities: np.ndarray

    @property
    def actions(self) -> np.ndarray:
        """The number of the best action for each joint state of what it depends on; the first of equal ones."""
        return np.asarray(self.utilities.argmax(axis=-1))

    @property
    def table(self) -> np.ndarray:
        """Return the policy as P(action | what it depends on), (joint states, actions), with one 1 in each row."""
        return np.asarray(np.eye(self.decision.cardinality)[self.actions.ravel()])

    def choose(self, known: Mapping[Any, Label] | None = None) -> Label:
        """Return the best action at these states of the variables that it depends on."""
        given = by_name(known)
        missing = [one.name for one in self.depends_on if one.name not in given]
        if missing:
            raise EvidenceError(
                f"The decision {self.decision.name!r} depends on {missing[0]!r}, which is not given.",
                value=missing[0],
                remedies="give its state",
            )
        place = tuple(one.code(given[one.name]) for one in self.depends_on)
        return self.decision.labels[int(self.actions[place])]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return, for each joint state of what it depends on, the best action and its gain over the second best."""
        found = []
        for place in product(*(range(one.cardinality) for one in self.depends_on)):
            values = np.sort(self.utilities[place])
            record: dict[str, Any] = {
                one.name: one.labels[code] for one, code in zip(self.depends_on, place, strict=True)
            }
            record[self.decision.name] = self.decision.labels[int(self.actions[place])]
            record["advantage"] = float(values[-1] - values[-2]) if len(values) > 1 else 0.0
            found.append(record)
        return found

    def to_frame(self) -> Any:
        """Return the policy as a pandas data frame; `advantage` is the gain over the second best action."""
        return frame_of_records(self.as_dicts())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        records = self.as_dicts()
        heads = list(records[0])
        return heads, [
            [f"{value:.4g}" if key == "advantage" else str(value) for key, value in one.items()] for one in records
        ]

    def __str__(self) -> str:
        heads, rows = self._rows()
        return text_table(heads, rows, left=len(heads) - 1)

    def _repr_html_(self) -> str:
        return html_table(f"Policy of {self.decision.name}", *self._rows())


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimal policies of an influence diagram.

    Attributes:
        expected_utility: of these decisions.
        policies: what to do at each decision, by name, in the order of time.
        network: the Bayesian network in which each decision follows its policy: every question can be asked of it.
        exact: whether no other policies are better; if False, no change of a single policy is (a local optimum).
        bound: the largest expected utility with nothing forgotten, which none with limited memory exceeds; None where
            its tables would be too large.
    """

    expected_utility: float
    policies: Mapping[str, Policy]
    network: BayesianNetwork
    exact: bool = True
    bound: float | None = None

    @property
    def _how_sure(self) -> str:
        """Return a sentence on whether the solution is only a local optimum."""
        if self.exact:
            return ""
        most = "" if self.bound is None else f"; with nothing forgotten {self.bound:.6g}"
        return f" (a local optimum: no change of a single policy is better{most})"

    def policy(self, decision: Name) -> Policy:
        """Return the policy of a decision."""
        found = self.policies.get(name_of(decision))
        if found is None:
            raise unknown_name("free decision", decision, self.policies)
        return found

    def __str__(self) -> str:
        parts = [f"expected utility: {self.expected_utility:.6g}{self._how_sure}"]
        return "\n\n".join([*parts, *map(str, self.policies.values())])

    def _repr_html_(self) -> str:
        parts = [f"<p>Expected utility: {self.expected_utility:.6g}{self._how_sure}</p>"]
        return "".join([*parts, *(one._repr_html_() for one in self.policies.values())])


class InformationValue(NamedTuple):
    """The value of knowing a variable before a decision.

    Attributes:
        name: of the variable.
        gain: how much the expected utility grows if it is known.
        cost: of observing it.
        value: the gain less the cost.
    """

    name: str
    gain: float
    cost: float
    value: float
