"""The budget for choosing and learning a classifier: seconds, or an amount of work independent of the clock.

It includes the steps after the choice: calibrating the best candidate so far, and learning it from all rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_WORK = 1.8e10
"""The limit of work unless seconds are given, for MANY_ROWS rows: cells visited, summed over all E-steps, about
8 s of CPU time. So the choice always ends at the same candidate. With few rows the limit is a third of it."""

MANY_ROWS = 10_000
"""The number of rows from which on the whole budget is available."""


@dataclass
class Budget:
    """The budget of a search and of the steps after it: seconds, or an amount of work independent of the clock.

    seconds   for all of it; None for the limit of work
    stopped   asked whether to end at once
    rows      of the table
    spent     the work until now, see `spend`
    reserved  the work that is kept for what follows the search
    kept      the seconds that are kept beside it, for rows with missing values; without a limit of seconds, unused
    begun     when it began, by `time.monotonic`
    """

    seconds: float | None
    stopped: Callable[[], bool]
    rows: float = MANY_ROWS
    spent: float = 0.0
    reserved: float = 0.0
    kept: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    _pace: float = 0.0  # seconds for each unit of work, when some was last spent

    @property
    def work(self) -> float:
        """The limit on the amount of work."""
        return MOST_WORK * (1 + 2 * min(self.rows / MANY_ROWS, 1.0)) / 3

    @property
    def used(self) -> float:
        """The share of the budget that has been spent."""
        return self.spent / self.work if self.seconds is None else self.elapsed / self.seconds

    @property
    def elapsed(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self.begun

    def spend(self, work: float) -> None:
        """Add an amount of work to what has been spent."""
        self.spent += work
        self._pace = self.elapsed / self.spent if self.spent else 0.0

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, or a stop was requested."""
        return self.stopped() or not self.allows(0.0)

    @property
    def has_time(self) -> bool:
        """Return whether seconds are left beyond those reserved; True without a limit of seconds."""
        return self.seconds is None or self.allows(0.0)

    def must_end(self) -> bool:
        """Return whether a stop was requested, or no seconds are left; never because of a limit of work."""
        return self.stopped() or not self.has_time

    @property
    def seconds_left(self) -> float:
        """The seconds that are left beyond those reserved; infinite without a limit of seconds."""
        if self.seconds is None:
            return math.inf
        return max(self.seconds - self.elapsed - self.reserved * self._pace - self.kept, 0.0)

    def keep_half(self) -> None:
        """Keep half of the seconds that are left, for a later step that takes as long as the next one."""
        self.kept = 0.0
        if self.seconds is not None:
            self.kept = self.seconds_left / 2

    def release(self) -> None:
        """Keep nothing in reserve: the last step may use all that is left."""
        self.reserved = self.kept = 0.0

    def allows(self, work: float, finishing: float = 0.0) -> bool:
        """Return whether an amount of work is within the budget; its time is estimated from the work so far.

        `finishing` is what would follow if it were the best, instead of what is reserved.
        """
        foreseen = work + max(self.reserved, finishing)
        if self.seconds is None:
            return self.spent + foreseen <= self.work
        return self.elapsed + foreseen * self._pace + self.kept <= self.seconds
