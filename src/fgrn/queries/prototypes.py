"""Prototypes: the class profile (item-response probabilities) of every state of a variable, and their shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..core.labels import Label

State = TypeVar("State")
Profile = dict[str, dict[Label, float]]
"""The item-response probabilities of one state: for every column the probability of each level."""


class Prototypes(dict[State, Profile]):
    """For each class or hidden state the distribution of every column, by level: a `dict` that has the shares, too.

    Attributes:
        shares: the probability of each state without evidence.
        baseline: the distribution of every column without evidence: the profiles, weighted by the shares.
    """

    def __init__(self, states: Iterable[State], profiles: Iterable[Profile], shares: Iterable[float]) -> None:
        names = list(states)
        super().__init__(zip(names, profiles, strict=True))
        self.shares: dict[State, float] = dict(zip(names, map(float, shares), strict=True))
        self.baseline: Profile = weighted_mean(self, self.shares)


def weighted_mean(profiles: Mapping[Any, Mapping[str, Any]], shares: Mapping[Any, float]) -> Profile:
    """Return the profiles summed over states, weighted by shares: sum_s shares[s] P(column = level | s)."""
    total: Profile = {}
    for state, columns in profiles.items():
        for name, column in columns.items():
            sums = total.setdefault(name, {})
            for level, probability in by_level(column).items():
                sums[level] = sums.get(level, 0.0) + shares[state] * float(probability)
    return total


def by_level(column: Any) -> Mapping[Any, float]:
    """Return a distribution as a mapping of levels to probabilities; the levels of an array are 0, 1, ..."""
    return column if isinstance(column, Mapping) else dict(enumerate(column))
