"""Forecasts of sequences: the distribution of the hidden state and of every column in the next steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.labels import Labels
from ..core.printing import html_table, text_table
from ..flow.gaussian_leaves import Moments
from ..tables.outputs import frame_of_records


class _Headings(NamedTuple):
    """The names of the columns of a forecast: `beside` has that of the probability, or deviation, of each other."""

    sequence: str
    step: str
    state: str
    beside: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Forecast:
    """The predicted distributions of the next steps of each sequence.

    Attributes:
        sequences: the names of the sequences.
        states: (sequences, steps, states) the distribution of the hidden state.
        columns: by column the distribution of its levels, (sequences, steps, levels).
        levels: by column its levels, and `labels` the hidden states.
        numbers: by continuous column the expected number and its standard deviation, each (sequences, steps).
        heading: what the column of the sequences' names is called.
    """

    sequences: tuple[Any, ...]
    labels: Labels
    levels: Mapping[str, tuple[Any, ...]]
    states: np.ndarray
    columns: Mapping[str, np.ndarray]
    numbers: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    heading: str = "sequence"

    @classmethod
    def of(
        cls,
        sequences: tuple[Any, ...],
        last: np.ndarray,
        transitions: np.ndarray,
        steps: int,
        labels: Labels,
        tables: Mapping[str, np.ndarray],
        levels: Mapping[str, tuple[Any, ...]],
        moments: Mapping[str, Moments] | None = None,
        heading: str | None = None,
    ) -> Forecast:
        """Return the forecast from the state distribution at the last step of each sequence: last * transitions^h.

        `tables` are those of columns with levels, (states, levels), `moments` those of continuous ones, (states,).
        `heading` is the name of the column of sequences, if it has one.
        """
        states = np.empty((len(last), steps, len(transitions)))
        here = last
        for step in range(steps):
            here = here @ transitions
            states[:, step] = here
        numbers = {}
        for name, (means, variances) in (moments or {}).items():
            expected = states @ means
            between = (states * (means - expected[..., np.newaxis]) ** 2).sum(axis=-1)  # E[x²] - E[x]² would cancel
            numbers[name] = expected, np.sqrt(states @ variances + between)
        columns = {name: states @ table for name, table in tables.items()}
        taken = ("step", "state", "P(state)")
        own = "sequence" if heading is None or heading in taken else heading
        return cls(sequences, labels, levels, states, columns, numbers, own)

    @cached_property
    def _headings(self) -> _Headings:
        """Names for everything but the columns that no column has: "state_" if there is a column "state"."""
        taken = {*self.columns, *self.numbers}

        def free(name: str) -> str:
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        sequence, step, state = free(self.heading), free("step"), free("state")
        beside = {key: free(f"P({key})") for key in (state, *self.columns)}
        return _Headings(sequence, step, state, beside | {key: free(f"sd({key})") for key in self.numbers})

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return, for each sequence and step, the likeliest state and levels, each with its probability.

        Of continuous columns the expected number, with its standard deviation as "sd(column)". What is not a column
        has a name with "_" behind it where a column has the same one.
        """
        sequence, at, _, beside = self._headings
        found = []
        for number, name in enumerate(self.sequences):
            for step in range(self.states.shape[1]):
                record: dict[str, Any] = {sequence: name, at: step + 1}
                for key, shares, words in self._all():
                    best = int(shares[number, step].argmax())
                    record |= {key: words[best], beside[key]: float(shares[number, step, best])}
                for key, (expected, spread) in self.numbers.items():
                    record |= {key: float(expected[number, step]), beside[key]: float(spread[number, step])}
                found.append(record)
        return found

    def _all(self) -> list[tuple[str, np.ndarray, tuple[Any, ...]]]:
        columns = [(name, shares, tuple(self.levels[name])) for name, shares in self.columns.items()]
        return [(self._headings.state, self.states, tuple(self.labels)), *columns]

    def to_frame(self) -> Any:
        """Return the likeliest states and levels as a pandas data frame."""
        return frame_of_records(self.as_dicts())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        sequence, step, _, beside = self._headings
        likeliest = [key for key, _, _ in self._all()]
        rows = [
            [
                str(one[sequence]),
                str(one[step]),
                *(f"{one[key]} ({one[beside[key]]:.0%})" for key in likeliest),
                *(f"{one[key]:.4g} (sd {one[beside[key]]:.3g})" for key in self.numbers),
            ]
            for one in self.as_dicts()
        ]
        return [sequence, step, *likeliest, *self.numbers], rows

    def __str__(self) -> str:
        return text_table(*self._rows())

    def _repr_html_(self) -> str:
        return html_table("Forecast", *self._rows())


def stationary(transitions: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Return the long-run shares of the states of a Markov chain with the given initial distribution."""
    lazy = (transitions + np.eye(len(transitions))) / 2  # the same shares, and no circle to go round in
    found = initial @ np.linalg.matrix_power(lazy, 2**20)
    shares: np.ndarray = found / found.sum()
    return shares
