"""The numbers of the tables of a model, and what was worked out from them for questions that are asked again."""

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
"""Numbers of all sweeps that are kept for one set of tables: 32 MB. They can be made again."""


class TableNumbers(dict[str, np.ndarray]):
    """The numbers of tables by name, an axis for each variable, which do not change; and how small these are."""

    @cached_property
    def factors(self) -> dict[str, float]:
        """For how many factors of a product each table counts: for more the smaller its numbers are."""
        return {name: _factors_of(table) for name, table in self.items()}

    @cached_property
    def sweeps(self) -> KeptSweeps:
        """Sweeps of many rows that were made from these tables."""
        return KeptSweeps()

    def with_changed(self, changed: Mapping[str, np.ndarray]) -> TableNumbers:
        """The same with other numbers for some tables."""
        if not changed:
            return self
        found = TableNumbers({**self, **changed})
        found.factors = {**self.factors, **{name: _factors_of(table) for name, table in changed.items()}}
        return found


class KeptSweeps:
    """Sweeps of many rows side by side, kept for the next rows of the same question, up to `MOST_NUMBERS` in all.

    A sweep has a working memory: it is taken out while it is used, so that two threads never share one.
    """

    def __init__(self) -> None:
        self._sweeps: dict[Hashable, LaneSweep] = {}

    def take(self, question: Hashable) -> LaneSweep | None:
        """The sweep of a question, which is not kept any longer; None if there is none."""
        return self._sweeps.pop(question, None)

    def keep(self, question: Hashable, sweep: LaneSweep) -> None:
        """Keep a sweep; those kept longest are forgotten if all are too large. One that is too large is not kept."""
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
