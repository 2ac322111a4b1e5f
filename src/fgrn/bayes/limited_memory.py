"""Optimal policies of decisions with limited memory: limited memory influence diagrams (LIMIDs).

Without the rule that nothing is forgotten there is no order in which decisions can be maximised one after the other.
Three ways, the first that is possible (Lauritzen and Nilsson, 2001):

1. the policies with nothing forgotten, where these depend only on what is listed: no others can be better;
2. all policies of all decisions but one, where there are few, with the best policy of that one for each of them;
3. single policy updating: the policy of one decision is made the best for those of the others, in turns, until nothing
   gains. Every round gains or ends; the end is a local optimum: no change of a single policy is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from .decision_elimination import DecisionStage, DecisionTable, EliminationResult, TableRoom, eliminate, on_scope

MOST_POLICIES = 300
"""Combinations of policies that are tried one by one."""

LEAST_GAIN = 1e-12
"""A smaller gain, relative to the expected utility, is a rounding error."""


class LimitedSolution(NamedTuple):
    """Policies of decisions with limited memory.

    Attributes:
        utility: the expected utility.
        decisions: for each decision its utilities, as `EliminationResult` has them.
        exact: whether no other policies are better; otherwise no change of a single policy is.
    """

    utility: float
    decisions: Mapping[str, DecisionTable]
    exact: bool


@dataclass(frozen=True)
class LimitedMemory:
    """The tables of a diagram whose decisions know only the variables listed for each.

    Attributes:
        room: the number of states of each variable, and what tables may take.
        probabilities: tables that are multiplied.
        utilities: tables that are added.
        seen: by decision that is not made yet, the variables that are known at it; decisions may be among them.
        chance: the variables that are neither decisions nor known beforehand.
    """

    room: TableRoom
    probabilities: Sequence[DecisionTable]
    utilities: Sequence[DecisionTable]
    seen: Mapping[str, tuple[str, ...]]
    chance: frozenset[str]

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of states of each variable."""
        return self.room.sizes

    def solve(self, starts: int, seed: int) -> LimitedSolution:
        """Return the best policies found.

        Args:
            starts: how often single policy updating begins: once with all actions equally probable, then at random.
            seed: of the random policies.
        """
        counts = {name: self._policies(name) for name in self.seen}
        free = max(counts, key=lambda name: counts[name])
        if prod(counts.values()) / counts[free] <= MOST_POLICIES:
            others = [name for name in self.seen if name != free]
            tried = (
                {free: self._even(free), **dict(zip(others, some, strict=True))}
                for some in product(*(list(self._policies_of(name)) for name in others))
            )
            best = max(tried, key=lambda one: self._best_alone(free, one).utility)
            return self._updated(best)._replace(exact=True)
        random = np.random.default_rng(seed)
        begins = [{name: self._even(name) for name in self.seen}]
        begins += [{name: self._random_policy(name, random) for name in self.seen} for _ in range(starts - 1)]
        return max((self._updated(one) for one in begins), key=lambda one: one.utility)

    def _updated(self, policies: Mapping[str, DecisionTable]) -> LimitedSolution:
        """Improve policies by single policy updating, the decision with most policies first."""
        followed, found = dict(policies), dict[str, DecisionTable]()
        order = sorted(self.seen, key=lambda name: -self._policies(name))
        before, utility = -np.inf, -np.inf
        while not found or utility > before + LEAST_GAIN * (1 + abs(utility)):
            before = utility
            for name in order:
                best = self._best_alone(name, followed)
                if name not in found or best.utility > utility + LEAST_GAIN * (1 + abs(utility)):
                    found[name] = best.decisions[name]
                    followed[name] = self._best_actions(name, found[name])
                    utility = best.utility
        return LimitedSolution(utility, found, False)

    def _best_alone(self, name: str, policies: Mapping[str, DecisionTable]) -> EliminationResult:
        """Return the best policy of one decision, given those of all others."""
        others = [table for one, table in policies.items() if one != name]
        rest = (self.chance | set(self.seen)) - {name, *self.seen[name]}
        stages = [DecisionStage(None, frozenset(self.seen[name])), DecisionStage(name, frozenset(rest))]
        return eliminate(self.room, [*self.probabilities, *others], self.utilities, stages)

    def _scope(self, name: str) -> tuple[str, ...]:
        return (*self.seen[name], name)

    def _shape(self, name: str) -> list[int]:
        return [self.sizes[one] for one in self._scope(name)]

    def _policies(self, name: str) -> float:
        """Return the number of policies of a decision."""
        return float(self.sizes[name]) ** prod(self._shape(name)[:-1])

    def _even(self, name: str) -> DecisionTable:
        """Return the policy in which all actions are equally probable."""
        return DecisionTable(self._scope(name), np.full(self._shape(name), 1 / self.sizes[name]))

    def _policies_of(self, name: str) -> Iterator[DecisionTable]:
        """Yield each policy of a decision."""
        *above, actions = self._shape(name)
        for chosen in product(range(actions), repeat=prod(above)):
            yield self._table(name, np.array(chosen, dtype=int))

    def _random_policy(self, name: str, random: np.random.Generator) -> DecisionTable:
        """Return a random policy."""
        *above, actions = self._shape(name)
        return self._table(name, random.integers(actions, size=prod(above)))

    def _table(self, name: str, chosen: np.ndarray) -> DecisionTable:
        """Return the policy with given actions for the joint states of what is known."""
        return DecisionTable(self._scope(name), np.eye(self.sizes[name])[chosen].reshape(self._shape(name)))

    def _best_actions(self, name: str, utilities: DecisionTable) -> DecisionTable:
        """Return the policy of the first action with the largest utility."""
        whole = np.broadcast_to(on_scope(utilities, self._scope(name)), self._shape(name))
        return self._table(name, whole.argmax(axis=-1).ravel())
