"""Explanation of a prediction: how much each observed value adds to the log-odds of a state.

The contribution of a value depends on the values before it, so it is averaged over orders of the values: over all of
them if there are few values (Shapley values), else over several random ones, each with its reverse (sampled Shapley
values). In every order the contributions sum to the log-odds, and so do their means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

from ..core import printing
from ..core.exceptions import visible
from ..core.labels import Label, shown_number

ORDERS = 8
"""The default number of random orders, each with its reverse."""

FEW_VALUES = 4
"""Up to so many known values all orders are used, so that their sequence does not matter."""

FAINTEST = 1e-300
"""Smaller probabilities are replaced by this one, so that the log-odds of an impossible state are finite."""

BESIDE = 22
"""The terminal cells beside the name and value of a variable, for its contribution."""

OF_STATE = 45
"""The terminal cells beside the state that is explained, for its probability and what the numbers are."""

WHOLE = 1 - 1e-9
"""A larger share of the orders is all of them."""

CERTAIN = -float(np.log(FAINTEST))
"""The log-odds of a state when all others are impossible."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """The contributions of the values of a row to a state of a variable, in nats of log-odds against all others.

    Attributes:
        variable: the name of the variable.
        state: the state that is explained, usually the most probable one.
        probability: the probability of that state in this row.
        prior: its log-odds without evidence (the baseline).
        contributions: the contribution of each observed variable; with `prior` they sum to `log_odds`.
        values: the observed values.
        log_odds: the log-odds of the state in this row; `CERTAIN` if all others are impossible, its negative if the
            state itself is.
        certain: the variables that make all other states impossible (above 0), or the state itself (below 0), and the
            share of the orders in which this one does. Their contribution includes the share times `CERTAIN`.
        levels: of the variables, from which printed values that are shortened stay different.
    """

    variable: str
    state: Label
    probability: float
    prior: float
    contributions: Mapping[str, float]
    values: Mapping[str, Any]
    log_odds: float
    certain: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Sequence[Label]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """The contributions, sorted by their absolute value, the largest first."""
        return sorted(self.contributions.items(), key=lambda item: -abs(item[1]))

    @property
    def shares(self) -> tuple[float, float]:
        """For the baseline and the row: 1 if all other states are impossible, -1 if the state is, else 0."""
        return float(_ruled_out(self.prior)), float(_ruled_out(self.log_odds))

    def _rows(self, room: int | None = None) -> list[list[str]]:
        """Return the rows of the printed table: from the baseline, value by value, to the log-odds of the row."""
        first, last = self.shares
        known = [(name, value_text(self.values[name])) for name, _ in self.ranked]
        labels = self._equations(known, None if room is None else room - BESIDE)
        between = [
            [label, contribution_text(value, self.certain.get(name, 0.0))]
            for label, (name, value) in zip(labels, self.ranked, strict=True)
        ]
        return [
            ["baseline", contribution_text(self.prior, first)],
            *between,
            ["total", contribution_text(self.log_odds, last)],
        ]

    def _equations(self, pairs: list[tuple[str, str]], room: int | None) -> list[str]:
        """Return variables and values as "name = value", different from those of other levels of these variables."""
        others = [(name, value_text(level)) for name, _ in pairs for level in self.levels.get(name, ())]
        return printing.equations(pairs, room, others)

    def __str__(self) -> str:
        room = printing.terminal_width()
        [state] = self._equations([(self.variable, value_text(self.state))], None if room is None else room - OF_STATE)
        what = f"{state}  ({self.probability:.1%})"
        table = printing.text_table([], self._rows(room), indent=2, room=room)
        some = [f"{abs(share):.0%}" for share in self.certain.values() if abs(share) < WHOLE]
        note = f"\n  ({some[0]}): in {some[0]} of the orders in which the values may become known" if some else ""
        return f"{what}; log-odds, for (+) or against (-)\n{table}{note}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(visible(name))}</th><td>{text}</td></tr>"
            for name, text in self._rows()
        )
        what = escape(visible(f"{self.variable} = {value_text(self.state)} ({self.probability:.1%}), log-odds"))
        return f"<table><caption>{what}</caption>{cells}</table>"


def value_text(value: Any) -> str:
    """Return a value as text; numbers are rounded to four digits."""
    return shown_number(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def _ruled_out(odds: Any) -> Any:
    """Return 1 where all other states are impossible, -1 where the state itself is, and 0 elsewhere."""
    return np.sign(odds) * (np.abs(odds) > CERTAIN - 1e-6)


def contribution_text(value: float, share: float, form: str = "+.3f") -> str:
    """Return a contribution as text, or that a value rules out states, and in which share of the orders."""
    if not share:
        return format(value, form)
    word = "certain" if share > 0 else "ruled out"
    return word if abs(share) > WHOLE else f"{word} ({abs(share):.0%})"


def orders_of(known: int, orders: int = ORDERS) -> list[np.ndarray]:
    """Return the orders in which values become known, without their reverses; the same at every call.

    Args:
        known: the number of values.
        orders: the number of random orders. If there are not more in all, or few values, all orders are returned.
    """
    if known <= FEW_VALUES or factorial(known) <= 2 * orders:
        return [np.array(way, dtype=np.intp) for way in permutations(range(known)) if not known or way[0] <= way[-1]]
    generator = np.random.default_rng(0)
    return [generator.permutation(known) for _ in range(orders)]


def explain(
    row: Mapping[str, Any],
    known: list[str],
    posterior: Callable[[np.ndarray], np.ndarray],
    variable: str,
    labels: Any,
    state: int | None,
    orders: int = ORDERS,
    levels: Mapping[str, Sequence[Label]] | None = None,
) -> Explanation:
    """Return the contributions of the observed values of a row to the log-odds of a state.

    Args:
        row: the values of the row, for display.
        known: the names of the observed variables, in the sequence of the model's variables.
        posterior: from a mask (rows, names) of the values to use, returns the variable's posterior, (rows, states).
        variable: the name of the variable.
        labels: its states.
        state: the code of the state to explain; None for the most probable one.
        orders: the number of random orders, each with its reverse; see `orders_of`.
        levels: of the variables, for display.
    """
    ways = [way for one in orders_of(len(known), orders) for way in (one, one[::-1])]
    shown = np.zeros((2 + len(ways) * max(len(known) - 1, 0), len(known)), dtype=bool)
    shown[1] = True
    for number, way in enumerate(ways):
        for position in range(len(known) - 1):
            shown[2 + number * (len(known) - 1) + position, way[: position + 1]] = True
    beliefs = posterior(shown)
    code = int(beliefs[1].argmax()) if state is None else state
    others = np.delete(beliefs, code, axis=1).sum(axis=1)
    odds = np.log(np.maximum(beliefs[:, code], FAINTEST)) - np.log(np.maximum(others, FAINTEST))
    both = np.stack([odds, _ruled_out(odds)], axis=1)
    means = np.zeros((len(known), 2))
    for number, way in enumerate(ways):
        between = both[2 + number * (len(known) - 1) : 2 + (number + 1) * (len(known) - 1)]
        means[way] += np.diff(np.concatenate([both[:1], between, both[1:2]]), axis=0)[: len(known)]
    mean = dict(zip(known, (means / len(ways)).tolist(), strict=True))
    mean = {name: mean[name] for name in row if name in mean}  # in the sequence of the row
    return Explanation(
        variable=variable,
        state=labels[code],
        probability=float(beliefs[1, code]),
        prior=float(odds[0]),
        contributions={name: contribution for name, (contribution, _) in mean.items()},
        values={name: row[name] for name in mean},
        log_odds=float(odds[1]) if known else float(odds[0]),
        certain={name: share for name, (_, share) in mean.items() if share},
        levels=levels or {},
    )
