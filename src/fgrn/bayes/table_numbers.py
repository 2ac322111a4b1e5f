"""The numbers of the tables of a model, and cached results for repeated queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from math import log10
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .lane_sweeps import LaneSweep

DIGITS_OF_FACTOR = 35
"""Digits, before or after the decimal point, that count as one factor: `MANY_FACTORS` such are 1e280 or 1e-280."""

MOST_NUMBERS = 2**22
"""The most numbers of all cached sweeps for one set of tables: 32 MB."""


class TableNumbers(dict[str, np.ndarray]):
    """The numbers of tables by name, with an axis for each variable; they never change."""

    @cached_property
    def factors(self) -> dict[str, float]:
        """The number of factors of a product that each table counts as: the smaller its numbers, the more."""
        return {name: _factors_of(table) for name, table in self.items()}

    @cached_property
    def sweeps(self) -> KeptSweeps:
        """The cache of sweeps built from these tables."""
        return KeptSweeps()

    def with_changed(self, changed: Mapping[str, np.ndarray]) -> TableNumbers:
        """Return these tables with other numbers for some of them."""
        if not changed:
            return self
        found = TableNumbers({**self, **changed})
        found.factors = {**self.factors, **{name: _factors_of(table) for name, table in changed.items()}}
        return found


class KeptSweeps:
    """A cache of sweeps of many rows, reused for the same query, with at most `MOST_NUMBERS` numbers in total.

    A sweep has a working memory: it is taken out while it is used, so that two threads never share one.
    """

    def __init__(self) -> None:
        self._sweeps: dict[Hashable, LaneSweep] = {}

    def take(self, question: Hashable) -> LaneSweep | None:
        """Remove the sweep of a query from the cache and return it; None if there is none."""
        return self._sweeps.pop(question, None)

    def keep(self, question: Hashable, sweep: LaneSweep) -> None:
        """Add a sweep to the cache; the oldest ones are dropped if all are too large, and too large ones not stored."""
        room = MOST_NUMBERS - sweep.numbers
        if room < 0:
            return
        for other, kept in reversed(list(self._sweeps.items())):
            room -= kept.numbers
            if room < 0:
                self._sweeps.pop(other, None)
        self._sweeps[question] = sweep


def _factors_of(table: np.ndarray) -> float:
    return factors_of_number(table.min(initial=1.0, where=table > 0))


def factors_of_number(number: float) -> float:
    """For how many factors of a product a positive number counts."""
    return abs(log10(number)) / DIGITS_OF_FACTOR
