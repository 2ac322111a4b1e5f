"""The budget of the choice of a classifier: seconds, or an amount of work, so that it ends at the same candidate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_WORK = 1.2e10
"""What choosing may cost unless seconds are given, for MANY_ROWS rows: cells visited, summed over all E-steps, about
6 s of CPU time. So the choice always ends at the same candidate. Of a few rows a third of it can be had."""

MANY_ROWS = 10_000
"""Rows from which on the budget is whole."""


@dataclass
class Budget:
    """The budget of a search: seconds, or an amount of work that does not depend on the clock.

    seconds   after which no candidate is begun; None for the limit of work
    stopped   asked whether to end at once
    rows      of the table
    """

    seconds: float | None
    stopped: Callable[[], bool]
    rows: float = MANY_ROWS
    spent: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    @property
    def work(self) -> float:
        """The limit of work."""
        return MOST_WORK * (1 + 2 * min(self.rows / MANY_ROWS, 1.0)) / 3

    @property
    def used(self) -> float:
        """The share of the budget that is spent."""
        return self.spent / self.work if self.seconds is None else (time.monotonic() - self.begun) / self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, or a stop was requested."""
        return self.stopped() or not self.allows(0.0)

    def allows(self, work: float) -> bool:
        """Whether so much more work is within the budget; how long it takes is foreseen from the work until now."""
        foreseen = work / self.spent if self.seconds is not None and self.spent else work / self.work
        return self.used * (1 + foreseen) <= 1 if self.seconds is not None else self.used + foreseen <= 1
