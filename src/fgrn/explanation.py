"""Why a row is classified as it is: how much each known value adds to the log-odds of a state.

What a value adds depends on what is known already, so it is averaged over orders in which the values become known, each
with its reverse. In every order the steps add up to the log-odds, and so does their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .labels import Label

ORDERS = 8
"""Pairs of an order and its reverse."""

FAINTEST = 1e-300
"""A smaller probability counts as this one: a state that is ruled out has finite odds, and they can be added."""


@dataclass(frozen=True)
class Explanation:
    """What speaks for a state of a variable in one row, in nats of log-odds against all other states.

    Attributes:
        variable: what is decided.
        state: the state that is explained, usually the likeliest.
        probability: of that state in this row.
        prior: its log-odds before anything is known.
        contributions: for each known variable what it adds; with the prior they sum to `log_odds`.
        values: what is known.
        log_odds: of the state in this row.
    """

    variable: str
    state: Label
    probability: float
    prior: float
    contributions: dict[str, float]
    values: dict[str, Any]
    log_odds: float

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """The contributions, the largest, for or against, first."""
        return sorted(self.contributions.items(), key=lambda item: -abs(item[1]))

    def __str__(self) -> str:
        names = [f"{name} = {shown(self.values[name])}" for name, _ in self.ranked]
        wide = max([len(name) for name in names] + [len("in general")])
        lines = [f"{self.variable} = {self.state}  ({self.probability:.1%}); log-odds, for (+) or against (-)"]
        lines.append(f"  {'in general':{wide}}  {self.prior:+8.3f}")
        lines += [f"  {name:{wide}}  {value:+8.3f}" for name, (_, value) in zip(names, self.ranked, strict=True)]
        lines.append(f"  {'together':{wide}}  {self.log_odds:+8.3f}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        rows = [("in general", self.prior), *((f"{n} = {shown(self.values[n])}", v) for n, v in self.ranked)]
        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{value:+.3f}</td></tr>"
            for name, value in [*rows, ("together", self.log_odds)]
        )
        what = escape(f"{self.variable} = {self.state} ({self.probability:.1%}), log-odds")
        return f"<table><caption>{what}</caption>{cells}</table>"


def shown(value: Any) -> str:
    """A value as people read it: a number with four digits."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def explain(
    row: Mapping[str, Any],
    known: list[str],
    posterior: Callable[[np.ndarray], np.ndarray],
    variable: str,
    labels: Any,
    state: int | None,
    orders: int = ORDERS,
) -> Explanation:
    """Explain a decision.

    Args:
        row: the values as people know them.
        known: the names of those that are known.
        posterior: from (rows, names) of which is known in each row to the distribution of the variable, (rows, states).
        variable: what is decided.
        labels: its states.
        state: the one to explain; the likeliest unless given.
        orders: how many orders, each with its reverse.
    """
    generator = np.random.default_rng(0)
    ways = [generator.permutation(len(known)) for _ in range(orders if len(known) > 1 else 1)]
    ways = [way for one in ways for way in (one, one[::-1])]
    shown = np.zeros((2 + len(ways) * max(len(known) - 1, 0), len(known)), dtype=bool)
    shown[1] = True
    for number, way in enumerate(ways):
        for position in range(len(known) - 1):
            shown[2 + number * (len(known) - 1) + position, way[: position + 1]] = True
    beliefs = posterior(shown)
    code = int(beliefs[1].argmax()) if state is None else state
    others = np.delete(beliefs, code, axis=1).sum(axis=1)
    odds = np.log(np.maximum(beliefs[:, code], FAINTEST)) - np.log(np.maximum(others, FAINTEST))
    added = np.zeros(len(known))
    for number, way in enumerate(ways):
        between = odds[2 + number * (len(known) - 1) : 2 + (number + 1) * (len(known) - 1)]
        added[way] += np.diff(np.concatenate([odds[:1], between, odds[1:2]]))[: len(known)]
    added /= len(ways)
    return Explanation(
        variable=variable,
        state=labels[code],
        probability=float(beliefs[1, code]),
        prior=float(odds[0]),
        contributions=dict(zip(known, added.tolist(), strict=True)),
        values={name: row[name] for name in known},
        log_odds=float(odds[1]) if known else float(odds[0]),
    )
