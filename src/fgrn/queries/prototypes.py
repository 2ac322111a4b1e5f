"""Prototypes: the class profile (item-response probabilities) of every state of a variable, and their shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core import printing
from ..core.exceptions import visible
from ..core.labels import Label
from ..tables.outputs import frame_of_records

StateLabel = TypeVar("StateLabel")
Profile = dict[str, dict[Label, float]]
"""The item-response probabilities of one state: for every column the probability of each level."""

LEAST_SEEN = 0.9
"""The least number of rows, without smoothing, for which a value is called typical of a state."""

SHOWN = 5
"""Values of each state in a printed profile."""

BESIDE, OF_SHARE = 32, 10
"""Cells beside the names of typical values, for their frequencies, and beside the name of a state, for its share."""


class TypicalValue(NamedTuple):
    """A value that is more frequent in a state than in the whole table (the baseline).

    column, level   the value
    probability     in the state
    lift            how many times as probable as in the baseline
    """

    column: str
    level: Label
    probability: float
    lift: float


class MeanAndSpread(NamedTuple):
    """The mean and the standard deviation of a continuous column in a state."""

    mean: float
    sd: float


class Prototypes(dict[StateLabel, Profile]):
    """The distribution of every column, by level, for each class or hidden state: a `dict` with the shares of states.

    Attributes:
        shares: the probability of each state without evidence.
        baseline: the distribution of every column without evidence: the profiles, weighted by the shares.
        numbers: for each state the mean and the standard deviation of every continuous column, which has no levels.
    """

    def __init__(
        self,
        states: Iterable[StateLabel],
        profiles: Iterable[Profile],
        shares: Iterable[float],
        weight: float = np.inf,
        smoothed: Iterable[Mapping[str, float]] = (),
        numbers: Iterable[Mapping[str, MeanAndSpread]] = (),
    ) -> None:
        """Store the profiles.

        Args:
            states: their names.
            profiles: of each state.
            shares: of each state.
            weight: of the rows that they were learnt from: how many rows a probability stands for.
            smoothed: for each state, how many rows smoothing has added to a level of each column, at most.
            numbers: for each state the mean and the standard deviation of each continuous column.
        """
        names = list(states)
        super().__init__(zip(names, profiles, strict=True))
        self.shares: dict[StateLabel, float] = dict(zip(names, map(float, shares), strict=True))
        self.baseline: Profile = weighted_mean(self, self.shares)
        self.numbers: dict[StateLabel, Mapping[str, MeanAndSpread]] = dict(zip(names, numbers, strict=False))
        self._weight = weight
        self._smoothed = dict(zip(names, smoothed, strict=False))

    def typical(self, state: StateLabel, most: int | None = None) -> list[TypicalValue]:
        """Return the values that are more frequent in a state than in the baseline, the most informative first.

        They are ordered by what each adds to the divergence of the profile from the baseline, p log(p / baseline). A
        value that no row of the state has, which only smoothing makes possible, is not among them.

        Args:
            state: the class or hidden state.
            most: how many, at most.
        """
        found = [one for one in self._more_frequent(state) if self.is_seen(state, one.column, one.level)]
        found.sort(key=lambda one: -one.probability * np.log(one.lift))
        return found[:most]

    def _more_frequent(self, state: StateLabel) -> list[TypicalValue]:
        """Return the values that are more probable in a state than in the baseline."""
        found = []
        for name, levels in self[state].items():
            for level, probability in levels.items():
                lift = probability / self.baseline[name][level] if self.baseline[name][level] else 1.0
                if lift > 1:
                    found.append(TypicalValue(name, level, float(probability), float(lift)))
        return found

    def is_seen(self, state: StateLabel, column: str, level: Label) -> bool:
        """Return whether a row of the state has a value, by its probability: False where smoothing may be all of it."""
        added = self._smoothed.get(state, {}).get(column, 0.0)
        return bool(self[state][column][level] * self._weight * self.shares[state] >= LEAST_SEEN + added)

    def without_typical(self, state: StateLabel) -> str:
        """Return what is said of a state that no value is typical of."""
        return "too few rows" if self._more_frequent(state) else "as the baseline"

    def told_numbers(self, state: StateLabel, most: int | None = None) -> list[str]:
        """Return texts on continuous columns of a state, "x: mean 2.1, standard deviation 0.5", at most `most`."""
        some = list(self.numbers.get(state, {}).items())[:most]
        return [f"{visible(name)}: mean {mean:.4g}, standard deviation {sd:.3g}" for name, (mean, sd) in some]

    def heading(self, state: StateLabel, room: int | None) -> str:
        """Return the heading of a printed profile: the state, different from all others, and its share."""
        names = printing.shortened_to_cells(list(map(str, self)), (room or printing.WIDEST_COLUMN) - OF_SHARE)
        return f"{names[list(self).index(state)]}  ({self.shares[state]:.1%})"

    def names_of(self, values: Iterable[TypicalValue], room: int | None) -> list[str]:
        """Return typical values as "column = level", shortened to the terminal, different from those of other levels.

        Args:
            values: to be named.
            room: the width of the terminal in cells, None if there is none.
        """
        pairs = [(one.column, str(one.level)) for one in values]
        others = [(name, str(level)) for name in dict(pairs) for level in self.baseline[name]]
        return printing.equations(pairs, None if room is None else room - BESIDE, others)

    def as_dicts(self) -> list[dict[str, object]]:
        """Return one mapping per value of each state: state, share, column, level, probability, baseline, lift, seen.

        `seen` is what `is_seen` returns.
        """
        return [
            {
                "state": state,
                "share": self.shares[state],
                "column": name,
                "level": level,
                "probability": float(probability),
                "baseline": self.baseline[name][level],
                "lift": probability / self.baseline[name][level] if self.baseline[name][level] else 1.0,
                "seen": self.is_seen(state, name, level),
            }
            for state, columns in self.items()
            for name, levels in columns.items()
            for level, probability in levels.items()
        ]

    def to_frame(self) -> Any:
        """Return all profiles as a pandas data frame: a row for each state, column and level."""
        return frame_of_records(self.as_dicts())

    def __str__(self) -> str:
        room = printing.terminal_width()
        parts = []
        for state in self.shares:
            values = self.typical(state, SHOWN)
            names = self.names_of(values, room)
            rows = [
                [name, f"{one.probability:.1%}", f"{one.lift:.2f}", printing.bar(one.probability)]
                for name, one in zip(names, values, strict=True)
            ]
            head = ["value", "here", "times the baseline", ""]
            table = printing.text_table(head, rows, indent=2, bars=True) if rows else f"  {self.without_typical(state)}"
            numbers = self.told_numbers(state, SHOWN)
            lines = [table] if rows or not numbers else []
            parts.append("\n".join([self.heading(state, room), *lines, *(f"  {one}" for one in numbers)]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        largest = max(self.shares.values(), default=0.0) or 1.0
        rows = [
            [
                str(state), f"{share:.1%}", printing.bar(share / largest),
                "; ".join([
                    *(f"{one.column} = {one.level} ({one.probability:.0%}, {one.lift:.1f} times)"
                      for one in self.typical(state, SHOWN)),
                    *self.told_numbers(state, SHOWN),
                ]) or self.without_typical(state),
            ]
            for state, share in self.shares.items()
        ]  # fmt: skip
        caption = "Profiles: the most typical values of each state, and how many times as frequent as in the baseline"
        return printing.html_table(caption, ["state", "share", "", "typical values"], rows)


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
