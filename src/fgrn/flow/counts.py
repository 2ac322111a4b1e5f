"""Expected counts of rows (the E-step): `Counts` of blocks, threads, files and workers are added.

A block of rows, a thread, a file or a machine each turn rows into Counts, and Counts are added, always in the order
of the rows, so that the result is the same to the last bit on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..core import settings
from ..engines import (
    ROUNDED,
    CountsTogether,
    Engine,
    EpochCounts,
    EpochRequest,
    MStep,
    Prepared,
    RowCounts,
    SilentEpochs,
)
from ..plan.plan import Plan, Program
from ..plan.schedule import Programs
from ..tables.encoded import Evidence
from .equal_rows import merged
from .marginals import refuse_impossible
from .messages import Messages, sweeper


@dataclass(frozen=True, eq=False)
class Counts:
    """Expected counts in the plan's layout, the weighted log-likelihood of the rows, and their weight."""

    values: np.ndarray
    log_likelihood: float
    weight: float

    def joined(self, other: Counts) -> Counts:
        """Add other counts in place; only for counts that nothing else refers to."""
        np.add(self.values, other.values, out=self.values)
        return Counts(self.values, self.log_likelihood + other.log_likelihood, self.weight + other.weight)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.values + other.values, self.log_likelihood + other.log_likelihood, self.weight + other.weight
        )


class CountedEpoch(NamedTuple):
    """An epoch: its parameters, the expected counts under them and, if the engine has computed them, update and prior.

    `earlier` tells of the silent epochs before it.
    """

    values: np.ndarray
    counts: Counts
    updated: np.ndarray | None = None
    log_prior: float = 0.0
    earlier: SilentEpochs | None = None

    @property
    def objective(self) -> float:
        """The objective of learning: log-likelihood plus log prior."""
        return self.counts.log_likelihood + self.log_prior


class TogetherCounts(NamedTuple):
    """Counts under several vectors of parameters in one call, with the bits of counts under each of them.

    epochs_of_each  some epochs from each vector; none from one that has to be counted by itself
    log_prior       the log prior of parameters that were counted by themselves, with the bits of those of epochs
    """

    epochs_of_each: Callable[[Sequence[EpochRequest], MStep | None], Sequence[Sequence[CountedEpoch]]]
    log_prior: Callable[[MStep, np.ndarray], float]


def decayed(running: np.ndarray | None, fresh: np.ndarray, step: float) -> np.ndarray:
    """Return counts in which earlier ones decay, (1 - step) * running + step * fresh; step 1 forgets them all."""
    return fresh if step == 1.0 or running is None else (1 - step) * running + step * fresh


class CountingMethod(NamedTuple):
    """The method of an E-step: the kernel, the numbers of rows per epoch and per block, and the threads.

    `shareable`: whether several threads may count at the same time, each under parameters of its own.
    """

    kernel: str
    rows: int
    rows_at_once: int
    threads: int = 1
    shareable: bool = False


@dataclass(frozen=True, eq=False)
class LocalEStep:
    """The E-step over rows that this process can read: in memory, or in memory-mapped files.

    `hold=True` keeps the messages of the first cycle for the others (the paper's batch learning);
    `hold=False` recomputes them from the parameters at the start of the epoch, in constant memory.
    `merge=True` counts equal rows once, with their weight; None decides by a sample whether that is faster.
    `frees_memory=True` frees memory after every count, for several E-steps on one machine.
    """

    engine: Engine
    plan: Plan
    programs: Programs
    evidence: Evidence
    expect: bool
    hold: bool = True
    threads: int | None = None
    merge: bool | None = None
    frees_memory: bool = False

    def __post_init__(self) -> None:
        if self.threads is not None:
            settings.whole("threads", self.threads, 1)

    @cached_property
    def _rows(self) -> Evidence:
        """The rows to count: all of them, or the distinct ones with weights."""
        found = None if self.merge is False else merged(self.evidence, always=self.merge is True)
        return found or self.evidence

    def _prepared(self, program: Program) -> Prepared:
        rows = self._rows
        return self.engine.prepare(self.plan, self.programs, program, rows, rows.row_weights, self.threads)

    @cached_property
    def _counting(self) -> Prepared:
        return self._prepared(self.programs.counting)

    @cached_property
    def _whole(self) -> Prepared:
        return self._prepared(self.programs.everything)

    @cached_property
    def _sweepers(self) -> dict[int, Callable[[np.ndarray], Messages]]:
        """By variable, the function that computes its posterior in each row."""
        return {}

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        prepared = self._counting
        return CountingMethod(prepared.kernel, self._rows.rows, prepared.rows_at_once, prepared.threads, shareable=True)

    @property
    def together(self) -> TogetherCounts | None:
        """See `fgrn.flow.esteps.TogetherEStep`."""
        prepared = self._counting
        if not isinstance(prepared, CountsTogether) or not prepared.counts_together:
            return None
        return TogetherCounts(partial(self._count_each, prepared), prepared.log_prior)

    @property
    def had_faint_rows(self) -> bool:
        """Whether products of some rows nearly underflowed in the last count, as far as the engine tells."""
        return bool(getattr(self._counting, "has_faint_rows", False))

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these parameters."""
        try:
            found = self._counting.load(values).counts(self.expect)
        finally:
            if self.frees_memory:
                self._counting.free_memory()
        if len(found.impossible) and self._rows is not self.evidence:
            replace(self, merge=False).count(values)  # to name the rows as they are in the table
        return self._checked(found)

    def _count_each(
        self, prepared: CountsTogether, requests: Sequence[EpochRequest], mstep: MStep | None
    ) -> list[list[CountedEpoch]]:
        """Return the epochs that the engine runs from each of several vectors of parameters."""
        scale = self._scale
        try:
            every = prepared.epochs_of_each([_without_scale(scale, one) for one in requests], self.expect, mstep)
        finally:
            if self.frees_memory:
                self._counting.free_memory()

        def found(one: EpochCounts) -> CountedEpoch:
            earlier = one.earlier
            if earlier is not None:
                earlier = earlier._replace(likelihoods=[number + scale for number in earlier.likelihoods])
            return CountedEpoch(one.values, self._checked(one.counts), one.updated, one.log_prior, earlier)

        return [[found(one) for one in epochs] for epochs in every]

    def count_with_posterior(self, values: np.ndarray, edge: int) -> tuple[Counts, np.ndarray]:
        """Return the expected counts, and the posterior of a variable in each row, (rows, states)."""
        name = self.plan.names[edge]
        if edge not in self._sweepers:
            rows = self.engine, self.plan, self.programs, self.evidence
            self._sweepers[edge] = sweeper(*rows, [name], self.threads, ("marginal",))
        return self.count(values), self._sweepers[edge](values).marginal(name)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """Return a function from tables to expected counts, with the messages held as computed under `values`."""
        recount = self._whole.load(values).recounting(self.hold, self.expect)
        return lambda tables: self._checked(recount(tables))

    def batches(self, size: int, seed: int) -> Sequence[LocalEStep]:
        """See `WholeEStep`."""
        rows = self._rows
        if rows.rows <= size:
            return [self]
        return [replace(self, evidence=part, merge=False) for part in rows.in_batches(size, seed)]

    def _checked(self, found: RowCounts) -> Counts:
        """Return the counts of all rows, or raise if some are impossible."""
        refuse_impossible(found.impossible)
        return Counts(found.values, found.log_likelihood + self._scale, self.evidence.weight)

    @cached_property
    def _scale(self) -> float:
        """Return the weighted sum of the log-scales that were divided out of soft evidence."""
        scale = self.evidence.log_scale
        if len(scale) and scale.strides == (0,):  # one number for all rows, written down once
            return float(scale[0]) * self.evidence.weight
        return float((self.evidence.row_weights * scale).sum())


def _without_scale(scale: float, request: EpochRequest) -> EpochRequest:
    """Return a request whose objectives lack the scale of soft evidence, as those of engines do.

    The engine may end early, by a little more than rounding changes: the caller decides.
    """
    least, where = request.least - scale, request.round
    known = [least]
    if where is not None:
        where = where._replace(before=where.before - scale, previous=where.previous - scale)
        known += [where.before, where.previous]
    largest = max((abs(number) for number in known if np.isfinite(number)), default=0.0)
    return request._replace(least=least, round=where, rounding=ROUNDED * (abs(scale) + largest))
