"""The most probable joint assignments of all variables of a network, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..core.variable import Variable
from ..graph.network import Network


@dataclass
class Allowed:
    """The assignments that some evidence allows: the most probable one, and the max-marginals of each variable."""

    weights: list[np.ndarray]
    states: list[int]
    log_probability: float
    marginals: list[np.ndarray]

    def runner_up(self) -> tuple[float, int, int]:
        """Return the log-probability of the second assignment, and a variable and state in which it differs."""
        found = (-np.inf, -1, -1)
        for place, (marginal, state) in enumerate(zip(self.marginals, self.states, strict=True)):
            others = np.where(np.arange(len(marginal)) == state, -np.inf, marginal)
            best = int(others.argmax())
            if others[best] > found[0]:
                found = (float(others[best]), place, best)
        return found


class LikeliestStates:
    """Finds the k most probable assignments, by two max-propagations for each (Yanover and Weiss, 2004).

    Args:
        network: a tree.
        variables: whose states are asked for: all but copies.
    """

    def __init__(self, network: Network, variables: Sequence[Variable]) -> None:
        self._network, self._variables = network, variables
        self._names = [variable.name for variable in variables]

    def first(self, weights: Sequence[np.ndarray], count: int) -> list[tuple[list[int], float]]:
        """Return the first assignments, fewer if fewer are possible: a state of each variable, and the log-probability.

        Args:
            weights: by variable, of its states.
            count: how many.
        """
        found: list[Allowed] = []
        following = self._best(list(weights)) if count else None
        while following is not None:
            found.append(following)
            if len(found) == count:
                break
            (value, place, state), one = max(((one.runner_up(), one) for one in found), key=lambda pair: pair[0][0])
            if np.isneginf(value):
                break
            chosen = np.arange(self._variables[place].cardinality) == state
            following = self._best(_limited(one.weights, place, chosen))
            one.weights = _limited(one.weights, place, ~chosen)
            one.marginals = self._marginals(one.weights)
        return [(one.states, one.log_probability) for one in found]

    def _best(self, weights: list[np.ndarray]) -> Allowed | None:
        columns = self._columns(weights)
        try:
            best = self._network.most_probable(columns, names=self._names)
        except ImpossibleEvidence:
            return None
        states = [variable.code(best.labels[variable.name][0]) for variable in self._variables]
        return Allowed(weights, states, float(best.log_probability[0]), self._marginals(weights))

    def _marginals(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = self._network.max_marginals(self._columns(weights), names=self._names)
        return [found[name][0] for name in self._names]

    def _columns(self, weights: Sequence[np.ndarray]) -> dict[str, list[list[float]]]:
        return {name: [one.tolist()] for name, one in zip(self._names, weights, strict=True)}


def _limited(weights: Sequence[np.ndarray], place: int, allowed: np.ndarray) -> list[np.ndarray]:
    """Return the same evidence, with some states of a variable excluded."""
    return [np.where(allowed, one, 0.0) if number == place else one for number, one in enumerate(weights)]
