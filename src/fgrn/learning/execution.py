"""How a thing is run: which engine, whether equal rows are merged, threads, blocks. It is decided here.

The decision follows from the plan, the rows and the settings, never from what ran before in the process: the same call
gives the same bits. What was decided in learning is kept with its history, as a line that people can read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import engines
from ..core.exceptions import LearningError, counted

if TYPE_CHECKING:
    from ..flow.counts import CountingMethod
    from ..flow.em import Rule
    from ..plan.plan import Plan
    from ..tables.encoded import EncodedTable

SMALL_WORK = 2e6
"""Table cells visited; below this "auto" is the reference engine, which has done them within half a second.

In that time the kernels of the CPU engine would just be loaded, and compiling them, where that was never done, takes up
to half a minute: a small request must not wait for it.
"""

EPOCHS_TO_MERGE = 5
"""Fewer epochs than these are over before equal rows are found."""


@dataclass(frozen=True)
class Execution:
    """How learning was run.

    engine         its name; None where rows are only counted, since all their values are known
    kernel         which of its ways to compute the engine took
    rows           how many rows there were, and `rows_counted` in an epoch: fewer if equal ones were merged
    rows_at_once   how many rows made a block
    threads        how many threads shared the blocks, at most
    starts_at_once how many random starts were run at the same time
    """

    engine: str | None
    kernel: str
    rows: int
    rows_counted: int
    rows_at_once: int
    threads: int
    starts_at_once: int = 1

    @classmethod
    def of(cls, engine: str | None, method: CountingMethod, rows: int, starts_at_once: int = 1) -> Execution:
        """As an E-step goes about so many rows."""
        blocks = -(-method.rows // max(method.rows_at_once, 1))
        threads = max(1, min(method.threads, blocks))
        return cls(
            engine, method.kernel, rows, method.rows, min(method.rows_at_once, method.rows), threads, starts_at_once
        )

    def __str__(self) -> str:
        how = f"{self.kernel} kernel of the {self.engine} engine" if self.engine else self.kernel
        merged = f", merged to {self.rows_counted:,} different ones" if self.rows_counted < self.rows else ""
        at_once = f" in blocks of at most {self.rows_at_once:,}" if self.rows_at_once < self.rows_counted else ""
        threads = counted(self.threads, "thread")
        if self.starts_at_once > 1:
            threads = f"{self.starts_at_once:,} starts at once, {threads} each"
        return f"{how}: {counted(self.rows, 'row')}{merged}{at_once}, {threads}"


def engine_for(name: str, plan: Plan, rows: int) -> engines.Engine:
    """The engine of that name; "auto" is decided by the work of so many rows."""
    if name == "auto":
        return engines.get("cpu") if rows * plan.work >= SMALL_WORK else engines.get("reference", batched=True)
    return engines.get(name)


def starts_at_once(method: CountingMethod, rule: Rule, watch: object) -> int:
    """How many random starts are run at the same time: as many as there are threads, if one leaves the others idle.

    A function of the user's is told of one start after the other.
    """
    has_one_block = method.rows <= method.rows_at_once
    in_any_order = watch is None or getattr(watch, "in_any_order", False)
    return min(rule.starts, method.threads) if method.shareable and has_one_block and in_any_order else 1


def merging(merge: bool | None, rule: Rule, table: EncodedTable) -> bool | None:
    """Whether equal rows are to be merged, if that can be told before looking at them.

    A few epochs are over before equal rows are found, and merging takes memory.
    """
    if merge and not table.in_memory:
        raise LearningError("Equal rows are merged in memory, and these rows are not there: leave out merge=True.")
    few = rule.epochs * rule.starts < EPOCHS_TO_MERGE
    return False if merge is None and (few or not table.in_memory) else merge
