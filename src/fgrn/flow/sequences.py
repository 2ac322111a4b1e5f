"""Sequences of rows (chains, hidden Markov models): forward-backward over the rows, between two passes of messages.

In a chain the hidden variable of a row depends on that of the row before, through one transition table. Each row is a
network of the same structure:

    1. each row by itself: the backward message of its values to the hidden variable ("local")
    2. forward-backward along each sequence: messages from the rows before ("past") and after ("future")
    3. each row by itself again, with these messages as soft evidence: messages and counts of everything else
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..engines import (
    Engine,
    LogScan,
    Scan,
    Scanner,
    able,
    distribution,
    log_scan,
    log_sum,
    logarithm,
    tracer,
)
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import Evidence
from .counts import CountingMethod, Counts, LocalEStep
from .equal_rows import RowKinds, kinds_of_rows
from .esteps import IN_ORDER, Cannot
from .marginals import normalised, refuse_impossible
from .messages import Messages, sweeper
from .reachable_states import MOST_STATES, possible_states

Wanted = Literal["messages", "posteriors", "sums"]
"""The results to compute by forward-backward: see `Sequences.scan`."""

SMALLEST, LEAST_SHARE, SMALL_STEP = 2.0**-500, 2.0**-430, 1e-30
"""A state below the first, in a message that sums to one, counts as lost by underflow. That is harmless if every state
it leads to has at least the second share of the mass, as is so for transition tables that are above the third."""

AGREEMENT = 1e-11
"""Log-likelihoods of a sequence that differ by no more are equal: as much may be lost by rounding in 100,000 rows."""

NEGLIGIBLE, LARGEST_LOG = 70.0, 600.0
"""A state is negligible if its posterior is below that of another by a factor of exp of the first; numbers up to exp of
the second can be summed without overflow."""


@dataclass(frozen=True)
class Link:
    """The connection of consecutive rows: the transition table from the hidden variable of a row to that of the next.

    source, prior   the hidden variable as it comes in, and the number of its prior
    leg, table      the copy of it that goes to the next row, and the number of the table it goes through
    output          the hidden variable of the next row, as this row has it
    """

    source: int
    prior: int
    leg: int
    table: int
    output: int

    @classmethod
    def of(cls, plan: Plan, output: str, source: str) -> Link:
        """Return the connection, given the names of its two ends."""
        end, begin = plan.edge(output), plan.edge(source)
        siso = plan.siso_output.tolist().index(end)
        number = plan.source_edge.tolist().index(begin)
        return cls(begin, number, int(plan.siso_input[siso]), int(plan.siso_table[siso]), end)


class ScanResult(NamedTuple):
    """The results of forward-backward for all rows: messages, log-likelihoods, and expected counts.

    `local` are the messages of each row's own values. `again` are the rows of sequences that had to be scanned in the
    log domain, with their scan and local messages.
    """

    scan: Scan
    local: np.ndarray
    log_likelihood: np.ndarray
    first: np.ndarray
    steps: np.ndarray
    again: tuple[np.ndarray, LogScan, np.ndarray] | None = None


@dataclass(eq=False)
class KindMessages:
    """The messages of kinds of rows to the hidden variable, and the parameters they were computed with.

    message   (kinds, states), and `logs`: its logarithms up to a constant in each row, once they were needed
    scale     (kinds,): the logarithm of what was taken out of the message; -inf if the kind is impossible
    """

    values: np.ndarray
    message: np.ndarray
    scale: np.ndarray
    logs: np.ndarray | None = None


MOST_KEPT = 16
"""Sets of variables of which messages of all kinds of rows are kept, at most."""


@dataclass(eq=False)
class Sequences:
    """Evidence as sequences of rows, with the engine that computes their messages."""

    engine: Engine
    plan: Plan
    programs_for: Callable[[Evidence], Programs]  # by the variables on which a table has evidence
    evidence: Evidence
    link: Link
    threads: int | None = None
    merge: bool = True  # rows with equal values have one message
    kept: dict[tuple[int, ...], KindMessages] | None = None  # messages of all kinds of rows, by variables
    _support: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    @property
    def states(self) -> int:
        """The number of states of the hidden variable."""
        return int(self.plan.cardinality[self.link.source])

    def alone(self, values: np.ndarray) -> np.ndarray:
        """Return the parameters for single rows: with a uniform prior of the hidden variable."""
        out = values.copy()
        self.plan.layout.prior(out, self.link.prior)[...] = 1 / self.states
        return out

    def local(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the message of each row's own values to its hidden variable, and the logarithm of its scale."""
        edge = self.link.source
        if not self._others:  # the probability of nothing is one in every state
            return self.evidence.weights(edge, self.states), self.evidence.log_scale
        found = self._possible(values)
        if self._kinds is None:
            return found.message, found.scale
        message = found.message.take(self._kinds.which, axis=0)
        scale = found.scale.take(self._kinds.which) + self.evidence.log_scale
        if self.evidence.slot[edge] >= 0:
            message *= self.evidence.weights(edge, self.states)
            total = message.sum(axis=1)
            faint = np.flatnonzero(total < np.finfo(np.float64).tiny)
            total[faint] = 1.0
            message /= total[:, None]
            scale += np.log(total)
            if len(faint):  # the product is lost, or impossible
                some = replace(self, evidence=self.evidence.take(faint), merge=False)
                try:
                    message[faint], scale[faint] = some.local(values)
                except ImpossibleEvidence as error:
                    refuse_impossible(faint[list(error.rows)])
        return message, scale

    def _possible(self, values: np.ndarray) -> KindMessages:
        """Return the messages of each kind of row, or of every row without kinds; an error if a row is impossible."""
        found = self._of_kinds(values)
        if found.scale.min(initial=0.0) == -np.inf:
            impossible = np.isneginf(found.scale)
            refuse_impossible(np.flatnonzero(impossible if self._kinds is None else impossible[self._kinds.which]))
        return found

    def _of_kinds(self, values: np.ndarray) -> KindMessages:
        """Return the messages of each kind of row, or of all rows, cached for the same parameters."""
        kept = self.kept if self._kinds is not None and self._kinds.all else None
        key = tuple(self._others)
        before = None if kept is None else kept.get(key)
        if before is not None and (before.values is values or np.array_equal(before.values, values)):
            return before
        found = self._sweep_rows(self.alone(values))
        scale = found.log_likelihood + np.log(self.states)
        made = KindMessages(values, found.backward(self.plan.names[self.link.source]), scale)
        if kept is not None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = made
        return made

    @cached_property
    def _sweep_rows(self) -> Callable[[np.ndarray], Messages]:
        """Return the function that computes the messages of rows, or of kinds of rows, to their hidden variables."""
        evidence = self.evidence if self._kinds is None else self._kinds.evidence
        rows = self.engine, self.plan, self.programs_for(evidence), evidence
        return sweeper(*rows, [self.plan.names[self.link.source]], self.threads, ("backward", "likelihood"))

    @cached_property
    def _others(self) -> list[int]:
        """Return the variables of a row that have evidence, without the hidden one."""
        return sorted(self.evidence.edges() - {self.link.source})

    @cached_property
    def _kinds(self) -> RowKinds | None:
        """Return the kinds of rows by their evidence, without the hidden variable; None if there are too many."""
        if not self.merge or self.evidence.soft_edges() - {self.link.source}:
            return None
        return kinds_of_rows(self.evidence, self.plan, self._others)

    @cached_property
    def _scanner(self) -> Scanner:
        return able(self.engine, "scan").scanner(self.evidence.begins, self.states, self.threads)

    def scan(self, values: np.ndarray, weights: np.ndarray | None, wanted: Wanted = "messages") -> ScanResult:
        """Run forward-backward along all sequences: messages, log-likelihoods of rows, and expected counts.

        Args:
            values: the parameters.
            weights: of the rows; None for forward only: the log-likelihoods, and the messages of the past.
            wanted: "messages", each of them with all its digits; "posteriors", products of past and future, with exact
                zeros; or "sums" of these, in which up to 1e-30 may stand for 0.
        """
        local, scale = self.local(values)
        prior = self.plan.layout.prior(values, self.link.prior)
        table = self.plan.layout.table(values, self.link.table)
        scan = self._scanner(prior, table, local, weights)
        both_ways = weights is not None
        found = self._doubtful(values, scan, local, table, both_ways)
        if found is None:
            return ScanResult(scan, local, np.log(scan.likelihood) + scale, scan.first, scan.steps * table)
        if wanted == "sums" or (wanted == "posteriors" and self.states <= MOST_STATES):
            filled = self._without_zeros(scan.likelihood, prior, table, local, weights)
            if filled is not None:
                if wanted == "posteriors":
                    allowed = self._supported(values) if (local < SMALLEST).any() else local > 0
                    before, after = possible_states(prior, table, allowed, self.evidence.begins)
                    filled.past[~before] = 0.0
                    filled.future[~after] = 0.0
                    filled.around[~(before & after)] = 0.0
                return ScanResult(filled, local, np.log(filled.likelihood) + scale, filled.first, filled.steps * table)
        doubtful = found
        while found is not None:  # again without them: they may have hidden others
            sure = np.where(doubtful[:, None], 1 / self.states, local)
            scan = self._scanner(prior, table, sure, None if weights is None else np.where(doubtful, 0.0, weights))
            found = self._doubtful(values, scan, sure, table, both_ways)
            more = doubtful if found is None else doubtful | found
            found, doubtful = (None if np.array_equal(more, doubtful) else found), more
        likelihood = np.log(scan.likelihood) + scale
        rows = np.flatnonzero(doubtful)  # these in the log domain
        log_local = self._log_local(values, rows)
        counted = None if weights is None else weights[rows]
        part = log_scan(logarithm(prior), logarithm(table), log_local, self.evidence.begins[rows], counted)
        refuse_impossible(rows[np.isneginf(part.seen)])
        likelihood[rows] = part.seen + scale[rows] + np.log(local[rows].sum(axis=1))
        scan.past[rows] = distribution(part.past)
        if weights is None:
            return ScanResult(scan, local, likelihood, scan.first, scan.steps)
        scan.future[rows] = np.exp(part.future)
        scan.around[rows] = _representable(part.past + part.future, log_local)
        first, steps = scan.first + part.first, scan.steps * table + part.steps
        return ScanResult(scan, local, likelihood, first, steps, (rows, part, log_local))

    def _without_zeros(
        self,
        likelihood: np.ndarray,
        prior: np.ndarray,
        table: np.ndarray,
        local: np.ndarray,
        weights: np.ndarray | None,
    ) -> Scan | None:
        """Return the scan with a transition table without zeros, if the result is the same; else None.

        `likelihood` is that of each row as it was found, in which underflow has left out paths. Without zeros in the
        table no underflow matters, and paths are only added. So where both likelihoods agree, from the first row of
        each sequence to every other, paths left out and added are negligible, and so is the difference of all
        posteriors.
        """
        lower = likelihood.copy()  # the scanner uses its memory again
        found = self._scanner(prior, np.maximum(table, SMALL_STEP), local, weights)
        if not lower.all() or not found.likelihood.all():
            return None
        starts = np.flatnonzero(self.evidence.begins)
        added = np.cumsum(np.log(found.likelihood / lower))
        added -= np.append(0.0, added)[starts][np.cumsum(self.evidence.begins) - 1]
        return found if np.abs(added).max() <= AGREEMENT else None

    def log_messages(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return messages to the hidden variable as logarithms, up to a constant, and which of them each row has.

        The second is None if there is a message for each row, in order. Where a message nearly underflows it is
        computed in the log domain.
        """
        if not self._others:
            return logarithm(self.evidence.weights(self.link.source, self.states)), None
        found = self._possible(values)
        if found.logs is None:
            found.logs = logarithm(found.message)
            faint = np.flatnonzero((found.message < SMALLEST).any(axis=1) & ~np.isneginf(found.scale))
            if len(faint):
                found.logs[faint] = self._log_local(values, faint, of_kinds=True)
        if self._kinds is None:
            return found.logs, None
        if self.evidence.slot[self.link.source] < 0:
            return found.logs, self._kinds.which
        logs = logarithm(self.evidence.weights(self.link.source, self.states))
        logs += found.logs.take(self._kinds.which, axis=0)
        return logs, None

    def _log_local(
        self, values: np.ndarray, rows: np.ndarray, largest: bool = False, of_kinds: bool = False
    ) -> np.ndarray:
        """Return the messages of some rows to their hidden variables as normalised logarithms, without underflow."""
        every = self._kinds.evidence if of_kinds and self._kinds is not None else self.evidence
        evidence, engine, edges = every.take(rows), tracer(largest), [self.link.source]
        (found,) = engine.logs(self.plan, self.programs_for(evidence), self.alone(values), evidence, edges, whole=False)
        local: np.ndarray = found if largest else found - log_sum(found, axis=1)[:, None]
        return local

    def _doubtful(
        self, values: np.ndarray, scan: Scan, local: np.ndarray, table: np.ndarray, both_ways: bool
    ) -> np.ndarray | None:
        """Return the rows of sequences that seem impossible or, if there are none, where underflow may matter later.

        None if there are no such rows. Where every state leads to every other, a state below SMALLEST never matters
        again.
        """
        has_small_steps = table.min(initial=1.0) < SMALL_STEP
        if not has_small_steps and scan.likelihood.all():
            return None
        begins = self.evidence.begins
        doubtful: np.ndarray = scan.likelihood == 0
        if has_small_steps and not doubtful.any():
            there = local > 0
            if (local < SMALLEST).any():
                there = self._supported(values) | there
            leads = table > 0
            inner = np.flatnonzero(~begins)  # rows with one before
            past = scan.past
            with np.errstate(under="ignore"):
                here = past * local
            lost = there & (past > 0) & (here < SMALLEST * scan.likelihood[:, None])
            missed = (lost[inner - 1] @ leads) & (past[inner] < LEAST_SHARE)
            doubtful[inner] |= missed.any(axis=1)
        if has_small_steps and both_ways and not doubtful.any():
            future = scan.future
            with np.errstate(under="ignore"):
                ahead = local * future
            lost_ahead = there & (future > 0) & (ahead < SMALLEST * ahead.sum(axis=1, keepdims=True))
            share = normalised(future)
            missed = (lost_ahead[inner] @ leads.T) & (share[inner - 1] < LEAST_SHARE)
            doubtful[inner] |= missed.any(axis=1)
            around = past * share
            posterior = (here * share).sum(axis=1)
            doubtful |= lost.any(axis=1) & (posterior < LEAST_SHARE * (around * lost).max(axis=1, initial=0))
        if not doubtful.any():
            return None
        which = np.cumsum(begins)
        out: np.ndarray = np.isin(which, which[doubtful])
        return out

    def _supported(self, values: np.ndarray) -> np.ndarray:
        """Return which states of its hidden variable each row allows, from 0/1 tables, in which nothing underflows."""
        pattern = values > 0
        if self._support is None or not np.array_equal(self._support[0], pattern):
            allowed = replace(self, kept=None).local(pattern.astype(np.float64))[0] > 0
            self._support = (pattern, allowed)
        return self._support[1]

    def around(self, scan: Scan, out: np.ndarray) -> None:
        """Write the product of past and future messages of each row, times the evidence on the hidden variable."""
        out[...] = scan.around
        if self.evidence.slot[self.link.source] >= 0:
            out *= self.evidence.weights(self.link.source, self.states)
            out /= out.sum(axis=1, keepdims=True)

    def with_hidden(self) -> tuple[Evidence, np.ndarray]:
        """Return the evidence with a column for a distribution on the hidden variable, and a view of that column."""
        evidence, edge = self.evidence, self.link.source
        others = {"log_scale": np.zeros(evidence.rows), "begins": np.zeros(0, dtype=bool)}
        return evidence.with_distribution(edge, self.plan.names[edge], self.states, **others)


@dataclass(frozen=True, eq=False)
class SequenceEStep:
    """The E-step over sequences of rows: an epoch is one iteration of Baum and Welch (1970)."""

    sequences: Sequences
    expect: bool

    cycles = Cannot("a chain is scanned once an epoch")
    batches = IN_ORDER

    @cached_property
    def _rows(self) -> tuple[LocalEStep, np.ndarray]:
        """The E-step over single rows, and the array for the messages of past and future to their hidden variables."""
        mine = self.sequences
        evidence, room = mine.with_hidden()
        estep = LocalEStep(
            mine.engine, mine.plan, mine.programs_for(evidence), evidence, self.expect, threads=mine.threads,
            merge=False,
        )  # fmt: skip
        return estep, room

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        inner = self._rows[0].method
        return inner._replace(kernel=f"scan and {inner.kernel}", shareable=False)

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these parameters."""
        return self._counted(values)[0]

    def count_with_posterior(self, values: np.ndarray, edge: int) -> tuple[Counts, np.ndarray]:
        """Return the expected counts, and the posterior of the hidden variable in each row, (rows, states)."""
        counts, found = self._counted(values)
        posterior = normalised(found.scan.around * found.local)
        if found.again is not None:
            rows, part, log_local = found.again
            posterior[rows] = distribution(part.past + part.future + log_local)
        return counts, posterior

    def _counted(self, values: np.ndarray) -> tuple[Counts, ScanResult]:
        """Return the expected counts, and the scan along the rows from which they are computed."""
        mine, (rows, room) = self.sequences, self._rows
        weights = mine.evidence.row_weights
        found = mine.scan(values, weights, "sums")
        mine.around(found.scan, room)
        counts = rows.count(mine.alone(values))
        out = np.array(counts.values)
        mine.plan.layout.prior(out, mine.link.prior)[...] = found.first
        mine.plan.layout.table(out, mine.link.table)[...] = found.steps
        likelihood = float((weights * found.log_likelihood).sum())
        return Counts(out, likelihood, counts.weight), found


def _representable(around: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Return the product of past and future messages as numbers: exact for all but negligible states of the row."""
    both = around + local
    matters = both > both.max(axis=1, keepdims=True) - NEGLIGIBLE
    top = np.where(matters, around, -np.inf).max(axis=1, keepdims=True)
    return normalised(np.exp(np.minimum(around - top, LARGEST_LOG)))
