"""Variable: an edge of the graph, with a name and its states."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .exceptions import WiringError, shortened, unknown_name
from .labels import Label, Labels, takes_codes


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Variable:
    """An edge of the graph: a name and its states, given as a number or as a list of labels.

    Without labels the states are called 0, 1, 2, ... Labels are strings, numbers or booleans, all different.
    """

    name: str
    labels: Labels

    def __init__(self, name: str, states: int | Iterable[Label]) -> None:
        if not isinstance(name, str) or not name.strip():
            raise WiringError(f"A Variable needs a name, a string that is not blank. Got {name!r} instead.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "labels", _checked_labels(name, states))

    @property
    def cardinality(self) -> int:
        """The number of states."""
        return len(self.labels)

    @property
    def is_labelled(self) -> bool:
        """Whether the states were given labels, instead of only a number of states."""
        return not isinstance(self.labels, range)

    def code(self, state: object) -> int:
        """Return the position of a state given by its label or, where labels are not numbers, by its position."""
        if isinstance(state, np.generic):
            state = state.item()
        labels = self.labels
        if isinstance(labels, range):  # `in` would step through the whole range for a string or a fraction
            whole = isinstance(state, int) or (isinstance(state, float) and state.is_integer())
            if whole and 0 <= state < len(labels):  # type: ignore[operator]  # a number, as it is whole
                return int(state)  # type: ignore[call-overload, no-any-return]
        elif isinstance(state, (str, int, float)) and state in labels:
            return labels.index(state)
        elif takes_codes(labels) and isinstance(state, int) and 0 <= state < len(labels):
            return state
        raise unknown_name(f"state of {self.name!r} called", state, self.labels)

    def __repr__(self) -> str:
        states = list(self.labels) if self.is_labelled else self.cardinality
        return f"Variable({self.name!r}, {states!r})"


def _checked_labels(name: str, states: Any) -> Labels:
    """Return the labels of a new variable from a number or an iterable of labels; WiringError if they are invalid."""
    if isinstance(states, (bool, np.bool_, str)) or states is None:
        raise WiringError(f"Variable {name!r}: the states are a number or a list of labels. Got {states!r} instead.")
    if isinstance(states, (int, np.integer)):
        if states < 1:
            raise WiringError(f"Variable {name!r} needs at least one state. Got {states} instead.")
        if states > sys.maxsize:
            raise WiringError(f"Variable {name!r} has {states:,} states, more than can be counted.")
        return range(int(states))
    if isinstance(states, range) and states and states == range(len(states)):
        return states
    if isinstance(states, (set, frozenset)):
        raise WiringError(f"Variable {name!r}: a set of labels has no order. Make it a list.")
    try:
        labels = tuple(item.item() if isinstance(item, np.generic) else item for item in states)
    except TypeError:
        raise WiringError(
            f"Variable {name!r}: the states are a number or a list of labels. Got {states!r} instead."
        ) from None
    if not labels:
        raise WiringError(f"Variable {name!r} needs at least one state. Got an empty list of labels.")
    for label in labels:
        if not isinstance(label, (str, int, float)) or label != label:
            raise WiringError(
                f"Variable {name!r}: a label is a string, a number or a boolean; {label!r} is none of them "
                "(None and NaN stand for 'unknown' in data)."
            )
    if len(set(labels)) != len(labels):
        raise WiringError(f"Variable {name!r} has states with the same label: {shortened(more_than_once(labels))}.")
    if labels == tuple(range(len(labels))) and not any(isinstance(label, (bool, float)) for label in labels):
        return range(len(labels))
    return labels


def more_than_once(items: Sequence[Label]) -> list[str]:
    """Return the items that occur more than once, as sorted strings."""
    count = Counter(items)
    return sorted({str(item) for item in items if count[item] > 1})
