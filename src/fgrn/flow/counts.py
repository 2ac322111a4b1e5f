"""Room 4, counts: expected statistics of rows. `Counts` is a monoid; adding it up is the unit of work everywhere.

A block of rows, a thread, a file or a machine each turn rows into Counts, and Counts are added, always in the order
of the rows, so that the result is the same to the last bit on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..engines import BlockCounts, Engine, Prepared
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import Evidence
from .marginals import refuse_impossible
from .merging import merged
from .threads import blocks_of_rows, in_order


@dataclass(frozen=True, eq=False)
class Counts:
    """Expected counts in the plan's layout, the weighted log-likelihood of the rows, and their weight.

    What an engine counts in a layout of its own is added up in the same way, and settled at the end.
    """

    values: np.ndarray
    log_likelihood: float
    weight: float

    @classmethod
    def zeros(cls) -> Counts:
        """The counts of no rows, in any layout."""
        return cls(np.zeros(()), 0.0, 0.0)

    def joined(self, other: Counts) -> Counts:
        """The sum, in the place of these: for counts that nobody else has."""
        np.add(self.values, other.values, out=self.values)
        return Counts(self.values, self.log_likelihood + other.log_likelihood, self.weight + other.weight)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.values + other.values, self.log_likelihood + other.log_likelihood, self.weight + other.weight
        )


@dataclass(frozen=True, eq=False)
class InMemory:
    """Who makes the Counts when all rows are here: the E-step over a table in memory, or in files mapped into it.

    `hold=True` keeps the messages of the first cycle for the others (the paper's batch learning);
    `hold=False` makes them again from the parameters the epoch began with, in constant memory.
    `merge=True` counts equal rows once, with their weight; None finds out whether that pays.
    `rests=True` gives memory back after every count, where several of these share a machine.
    """

    engine: Engine
    plan: Plan
    programs: Programs
    evidence: Evidence
    weights: np.ndarray
    expect: bool
    hold: bool = True
    threads: int | None = None
    merge: bool | None = None
    rests: bool = False

    @cached_property
    def _rows(self) -> tuple[Evidence, np.ndarray]:
        """The rows that are counted, and their weights."""
        found = None if self.merge is False else merged(self.evidence, self.weights, always=self.merge is True)
        return found or (self.evidence, self.weights)

    @cached_property
    def _counting(self) -> Prepared:
        return self.engine.prepare(self.plan, self.programs, self.programs.counting, self._rows[0])

    @cached_property
    def _whole(self) -> Prepared:
        return self.engine.prepare(self.plan, self.programs, self.programs.everything, self._rows[0])

    def count(self, values: np.ndarray) -> Counts:
        """The expected counts under these parameters."""
        try:
            return self._count(values)
        finally:
            if self.rests:
                self._counting.rest()

    def _count(self, values: np.ndarray) -> Counts:
        loaded, weights = self._counting.load(values), self._rows[1]

        def work(rows: slice) -> BlockCounts:
            return loaded.counts(rows, weights[rows], self.expect)

        try:
            raw = self._added(work, self._counting.rows_at_once, loaded.release)
        except ImpossibleEvidence:
            if self._rows[0] is not self.evidence:
                replace(self, merge=False).count(values)  # to name the rows as they are in the table
            raise
        counts, lacking = loaded.settled(raw.values, self.expect)
        return replace(raw, values=counts, log_likelihood=raw.log_likelihood + lacking)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """A function from tables to counts, with the messages as they are under `values`."""
        loaded, size = self._whole.load(values), self._whole.rows_at_once
        evidence, weights = self._rows
        blocks = blocks_of_rows(evidence.rows, size)
        held: dict[int, Any] = {}
        if self.hold:
            made = in_order(self.engine, self.threads, loaded.hold, blocks)
            held = {rows.start: messages for rows, messages in zip(blocks, made, strict=True)}

        def recount(tables: np.ndarray) -> Counts:
            def work(rows: slice) -> BlockCounts:
                messages = held[rows.start] if self.hold else loaded.hold(rows)
                return self.engine.recount(self.plan, messages, tables, weights[rows], self.expect)

            return self._added(work, size, lambda _: None)

        return recount

    def _added(self, work: Callable[[slice], BlockCounts], size: int, release: Callable[[np.ndarray], None]) -> Counts:
        evidence = self._rows[0]

        def counted(rows: slice) -> Counts:
            block = work(rows)
            refuse_impossible(block.impossible + rows.start)
            return Counts(block.values, block.log_likelihood, 0.0)

        parts = in_order(self.engine, self.threads, counted, blocks_of_rows(evidence.rows, size))
        total = next(parts, Counts.zeros())
        for part in parts:
            total = total.joined(part)
            release(part.values)
            evidence.release()
        return replace(total, log_likelihood=total.log_likelihood + self._scale, weight=self._weight)

    @cached_property
    def _weight(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def _scale(self) -> float:
        """What was taken out of soft evidence, which enters the likelihood."""
        scale = self.evidence.log_scale
        if len(scale) and scale.strides == (0,):  # one number for all rows, written down once
            return float(scale[0]) * self._weight
        return float((self.weights * scale).sum())
