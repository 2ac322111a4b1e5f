"""Decisions on how learning and inference are executed: the engine, merging of equal rows, threads, blocks.

The decision follows from the network, the rows and the settings, never from what else ran before in the process: the
same call gives the same bits. The decision for learning is stored with its history, as a line of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import engines
from ..core.exceptions import FgrnError, LearningError, Remedy, counted

if TYPE_CHECKING:
    from ..flow.counts import CountingMethod
    from ..flow.em_settings import Rule
    from ..flow.esteps import Cannot, EStep, ESteps, WholeEStep
    from ..plan.plan import Plan
    from ..tables.encoded import EncodedTable

SMALL_WORK = 2e6
"""Table cells visited; below this "auto" is the reference engine, which has done them within half a second.

In that time the kernels of the CPU engine would just be loaded, and compiling them, where that was never done, takes up
to half a minute: a small request must not wait for it. For marginals and likelihoods "auto" lets the engine work in the
linear domain, where all messages of equal depth are one operation (see `fgrn.engines.batched`): a few rows are then as
fast as the compiled kernels.
"""

ANSWERED = 2.5
"""How many times as much work is small where only marginals or likelihoods of a tree are asked for.

The reference engine then takes at most about 15 ms; importing the compiler takes 200, and compiling a kernel seconds.
"""

GPU_WORK = 1e11
"""Table cells visited; from this on "auto" takes a GPU, if PyTorch is installed and finds one.

The CPU engine takes about a minute for as many; finding out whether there is a GPU takes some seconds.
"""

SHORT_EPOCH = 8
"""An epoch is short if its rows are fewer than this part of what makes a block: 2**18 states visited by a kernel.

This is for kernels whose starts are counted one by one. Stars are counted together, and have two blocks from a few
hundred rows on. Measured with stars when they were counted so: ten starts of 100 epochs on two threads beside one after
the other took 1.5 times as long with 1,000 rows, as long with 3,000, 0.7 with 10,000 and 0.55 with 30,000.
"""

CELLS_TOGETHER = 2**22
"""Cells of the tables of all starts that learn together, at most: 32 MiB for each of a few copies."""

EPOCHS_TO_MERGE = 5
"""With fewer epochs, finding equal rows takes longer than it saves."""


@dataclass(frozen=True)
class Execution:
    """The record of how learning was executed.

    engine         its name; None where rows are only counted, since all their values are known
    kernel         the method of the engine that was used
    rows           how many rows there were, and `rows_counted` in an epoch: fewer if equal ones were merged
    rows_at_once   how many rows made a block
    threads        how many threads shared the blocks, at most
    start_threads  on how many threads random starts were run at the same time, each with threads of its own
    together       how many random starts were counted in one call, shared by the threads
    batches        in how many batches the rows came, in mini-batch EM
    """

    engine: str | None
    kernel: str
    rows: int
    rows_counted: int
    rows_at_once: int
    threads: int
    start_threads: int = 1
    batches: int = 1
    together: int = 1

    @classmethod
    def of(
        cls,
        engine: str | None,
        method: CountingMethod,
        rows: int,
        start_threads: int = 1,
        batches: int = 1,
        together: int = 1,
    ) -> Execution:
        """Return the record, from the method of an E-step and the number of rows in all or per batch."""
        blocks = -(-method.rows // max(method.rows_at_once, 1))
        threads = max(1, min(method.threads, max(blocks, together)))
        return cls(
            engine, method.kernel, rows, rows if batches > 1 else method.rows, min(method.rows_at_once, method.rows),
            threads, start_threads, max(batches, 1), together,
        )  # fmt: skip

    def __str__(self) -> str:
        how = f"{self.kernel} kernel of the {self.engine} engine" if self.engine else self.kernel
        merged = f", merged to {self.rows_counted:,} different ones" if self.rows_counted < self.rows else ""
        several = f" in {self.batches:,} batches" if self.batches > 1 else ""
        at_once = f" in blocks of at most {self.rows_at_once:,}" if self.rows_at_once < self.rows_counted else ""
        threads = counted(self.threads, "thread")
        if self.together > 1:
            threads = f"{self.together:,} starts together, {threads}"
        elif self.start_threads > 1:
            threads = f"{self.start_threads:,} starts at once, {threads} each"
        return f"{how}: {counted(self.rows, 'row')}{merged}{several}{at_once}, {threads}"


def engine_for(
    name: str | engines.Engine,
    plan: Plan,
    rows: int,
    device: str | None = None,
    precision: str | None = None,
    preferred: str | None = None,
    answers: bool = False,
) -> engines.Engine:
    """Return the engine with this name, or the given engine; "auto" is decided by the work for this number of rows.

    `preferred` is an engine for any number of rows: the one that a chain was learnt with, as its record says. Compiled
    kernels, once loaded, answer it in a fraction of the time; where they are not loaded yet that takes half a second.
    `answers` tells that only marginals or likelihoods are asked for (see `ANSWERED`).
    """
    if hasattr(name, "prepare"):
        return cast("engines.Engine", name)
    settings = {"device": device, "precision": precision}
    given: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
    work = rows * plan.work
    if name == "auto" and (given or (work >= GPU_WORK and plan.is_tree and engines.gpu_is_there())):
        name = "torch"
    if name == "auto":
        small = SMALL_WORK * (ANSWERED if answers and plan.is_tree else 1)
        name = "cpu" if work >= small or preferred == "cpu" else "reference"
        given |= {"batched": True} if name == "reference" else {}
    elif given and name != "torch":
        raise FgrnError(
            f"is for engine='torch', and this is {name!r}.",
            setting=next(iter(given)),
            value=next(iter(given.values())),
            remedies=Remedy("use that engine", engine="torch"),
        )
    return engines.get(name, **given)


WITHOUT = {"cycles": "must be 1", "batch_size": "must be left out"}
"""By a setting that some E-steps cannot do: what it has to be then."""

Offer = TypeVar("Offer")


def offered(what: Offer | Cannot, setting: str, value: object = None) -> Offer:
    """Return what an E-step offers for a setting; an error that names the setting if it cannot do this."""
    from ..flow.esteps import Cannot

    if isinstance(what, Cannot):
        raise LearningError(f"{WITHOUT[setting]}: {what.since}.", setting=setting, value=value)
    return what


def esteps_of(estep: WholeEStep, rule: Rule, weight: float, held_out: EStep | None) -> ESteps:
    """Return the E-steps that learning by this rule takes, of those that the one over all rows offers."""
    from ..flow.esteps import ESteps

    batches: Sequence[EStep] = ()
    if rule.batch_size is not None:
        batches = offered(estep.batches, "batch_size", rule.batch_size)(rule.batch_size, rule.seed)
    cycles = offered(estep.cycles, "cycles", rule.cycles) if rule.cycles > 1 else None
    return ESteps(estep, weight, batches, held_out, cycles)


def start_threads(method: CountingMethod, rule: Rule, watch: object, together: int) -> int:
    """Return on how many threads random starts are run: one per processor, if a start uses one thread.

    A function of the user's is told of one start after the other. Starts that are counted `together` share the threads
    of these calls, and are asked by one. Others whose epochs are short have one thread: threads that take turns in
    Python would wait for each other longer than they work.
    """
    if together > 1:
        return 1
    has_one_block = method.rows_at_once < SHORT_EPOCH * method.rows <= SHORT_EPOCH * method.rows_at_once
    return min(rule.starts, method.threads) if method.shareable and has_one_block and _in_any_order(watch) else 1


def starts_together(esteps: ESteps, rule: Rule, watch: object, cells: int) -> int:
    """Return how many random starts learn at a time, of which one call counts the rows for several.

    As many as there are, if the engine can and their tables of so many `cells` are small. It does not depend on the
    threads, which share these starts. A function of the user's is told of one start after the other.
    """
    can = rule.starts > 1 and _in_any_order(watch) and esteps.together is not None
    return min(rule.starts, max(1, CELLS_TOGETHER // max(cells, 1))) if can else 1


def limits_of(method: CountingMethod) -> AbstractContextManager[None]:
    """Return the context in which all epochs run: limits BLAS to one thread if the kernel calls it."""
    return engines.limited_kernel_blas() if method.kernel == "matrix" else nullcontext()


def _in_any_order(watch: object) -> bool:
    """Return whether the watcher of learning, if any, accepts reports of several starts at the same time."""
    return watch is None or getattr(watch, "in_any_order", False)


def merging(merge: bool | None, rule: Rule, table: EncodedTable) -> bool | None:
    """Return whether to merge equal rows; None if that depends on the rows.

    A few epochs are over before equal rows are found, and merging takes memory. In batches rows are drawn one by one.
    """
    if merge and not table.in_memory:
        raise LearningError("Equal rows are merged in memory, and these rows are not there: leave out merge=True.")
    few = rule.epochs * rule.starts < EPOCHS_TO_MERGE
    in_batches = rule.batch_size is not None and rule.batch_size < table.rows
    return False if merge is None and (few or in_batches or not table.in_memory) else merge
