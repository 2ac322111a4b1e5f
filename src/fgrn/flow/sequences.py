"""Sequences of rows (chains, hidden Markov models): forward-backward over the rows, between two passes of messages.

In a chain the hidden variable of a row depends on that of the row before, through one transition table. Each row is a
network of the same structure:

    1. each row by itself: the backward message of its values to the hidden variable ("local")
    2. forward-backward along each sequence: messages from the rows before ("past") and after ("future")
    3. each row by itself again, with these messages as soft evidence: messages and counts of everything else
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.exceptions import ImpossibleEvidence, LearningError
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
from .marginals import normalised, refuse_impossible
from .messages import WAYS, Messages, sweep, sweeper

SMALLEST, LEAST_SHARE, SMALL_STEP = 2.0**-500, 2.0**-430, 1e-30
"""A state below the first, in a message that sums to one, counts as lost by underflow. That is harmless if every state
it leads to has at least the second share of the mass, as is so for transition tables that are above the third."""

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
        """Find the connection by the names of its two ends."""
        end, begin = plan.edge(output), plan.edge(source)
        siso = plan.siso_output.tolist().index(end)
        number = plan.source_edge.tolist().index(begin)
        return cls(begin, number, int(plan.siso_input[siso]), int(plan.siso_table[siso]), end)


class Scanned(NamedTuple):
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
class Sequences:
    """Evidence as sequences of rows, with the engine that computes their messages."""

    engine: Engine
    plan: Plan
    programs: Programs
    evidence: Evidence
    link: Link
    threads: int | None = None
    _support: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    @property
    def states(self) -> int:
        """The number of states of the hidden variable."""
        return int(self.plan.cardinality[self.link.source])

    def alone(self, values: np.ndarray) -> np.ndarray:
        """Return the parameters for a row by itself: with a uniform prior of its hidden variable."""
        out = values.copy()
        self.plan.layout.prior(out, self.link.prior)[...] = 1 / self.states
        return out

    def local(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the message of each row's own values to its hidden variable, and the logarithm of its scale."""
        name = self.plan.names[self.link.source]
        found = self._sweep_rows(self.alone(values))
        refuse_impossible(np.flatnonzero(found.impossible))
        return found.backward(name), found.log_likelihood + np.log(self.states)

    @cached_property
    def _sweep_rows(self) -> Callable[[np.ndarray], Messages]:
        """What computes the messages of single rows to their hidden variables."""
        rows = self.engine, self.plan, self.programs, self.evidence
        return sweeper(*rows, [self.plan.names[self.link.source]], self.threads, ("backward", "likelihood"))

    @cached_property
    def _scanner(self) -> Scanner:
        return able(self.engine, "scan").scanner(self.evidence.begins, self.states, self.threads)

    def scan(self, values: np.ndarray, weights: np.ndarray) -> Scanned:
        """Run forward-backward along all sequences: messages, log-likelihoods of rows, and expected counts."""
        local, scale = self.local(values)
        prior = self.plan.layout.prior(values, self.link.prior)
        table = self.plan.layout.table(values, self.link.table)
        scan = self._scanner(prior, table, local, weights)
        doubtful = found = self._doubtful(values, scan, local, table)
        while found.any():  # again without them: they may have hidden others
            sure = np.where(doubtful[:, None], 1 / self.states, local)
            scan = self._scanner(prior, table, sure, np.where(doubtful, 0.0, weights))
            found = self._doubtful(values, scan, sure, table) & ~doubtful
            doubtful = doubtful | found
        likelihood = np.log(scan.likelihood) + scale
        if not doubtful.any():
            return Scanned(scan, local, likelihood, scan.first, scan.steps * table)
        rows = np.flatnonzero(doubtful)  # these in the log domain
        log_local = self._log_local(values, rows)
        part = log_scan(logarithm(prior), logarithm(table), log_local, self.evidence.begins[rows], weights[rows])
        refuse_impossible(rows[np.isneginf(part.seen)])
        likelihood[rows] = part.seen + scale[rows]
        scan.past[rows] = distribution(part.past)
        scan.future[rows] = np.exp(part.future)
        scan.around[rows] = _representable(part.past + part.future, log_local)
        first, steps = scan.first + part.first, scan.steps * table + part.steps
        return Scanned(scan, local, likelihood, first, steps, (rows, part, log_local))

    def log_messages(self, values: np.ndarray) -> np.ndarray:
        """Return the message of each row to its hidden variable as logarithms; where it nearly underflows, exactly."""
        local, _ = self.local(values)
        logs = logarithm(local)
        faint = np.flatnonzero((local < SMALLEST).any(axis=1))
        if len(faint):
            logs[faint] = self._log_local(values, faint)
        return logs

    def _log_local(self, values: np.ndarray, rows: np.ndarray, largest: bool = False) -> np.ndarray:
        """Return the messages of some rows to their hidden variables as normalised logarithms, without underflow."""
        evidence = self.evidence.take(rows)
        engine = tracer(largest)
        (found,) = engine.logs(self.plan, self.programs, self.alone(values), evidence, [self.link.source], whole=False)
        local: np.ndarray = found if largest else found - log_sum(found, axis=1)[:, None]
        return local

    def _doubtful(self, values: np.ndarray, scan: Scan, local: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return the rows of sequences that seem impossible or, if there are none, in which underflow may matter later.

        Where every state leads to every other, a state below SMALLEST never matters again.
        """
        begins = self.evidence.begins
        doubtful: np.ndarray = scan.likelihood == 0
        if not doubtful.any() and table.min(initial=1.0) < SMALL_STEP:
            there = local > 0
            if (local < SMALLEST).any():
                there = self._supported(values) | there
            leads = table > 0
            inner = np.flatnonzero(~begins)  # rows with one before
            past, future = scan.past, scan.future
            with np.errstate(under="ignore"):
                here, ahead = past * local, local * future
            lost = there & (past > 0) & (here < SMALLEST * scan.likelihood[:, None])
            missed = (lost[inner - 1] @ leads) & (past[inner] < LEAST_SHARE)
            doubtful[inner] |= missed.any(axis=1)
            lost_ahead = there & (future > 0) & (ahead < SMALLEST * ahead.sum(axis=1, keepdims=True))
            share = normalised(future)
            missed = (lost_ahead[inner] @ leads.T) & (share[inner - 1] < LEAST_SHARE)
            doubtful[inner] |= missed.any(axis=1)
            around = past * share
            posterior = (here * share).sum(axis=1)
            doubtful |= lost.any(axis=1) & (posterior < LEAST_SHARE * (around * lost).max(axis=1, initial=0))
        if not doubtful.any():
            return doubtful
        which = np.cumsum(begins)
        out: np.ndarray = np.isin(which, which[doubtful])
        return out

    def _supported(self, values: np.ndarray) -> np.ndarray:
        """Return which states of its hidden variable each row allows, from 0/1 tables, in which nothing underflows."""
        pattern = values > 0
        if self._support is None or not np.array_equal(self._support[0], pattern):
            self._support = (pattern, self.local(pattern.astype(np.float64))[0] > 0)
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
        found, room = evidence.with_distribution(edge, self.plan.names[edge], self.states)
        return replace(found, log_scale=np.zeros(evidence.rows), begins=np.zeros(0, dtype=bool)), room


@dataclass(frozen=True, eq=False)
class Chained:
    """The E-step over sequences of rows: an epoch is one iteration of Baum and Welch (1970)."""

    sequences: Sequences
    inner_programs: Programs  # with evidence on the hidden variable
    expect: bool

    @cached_property
    def _rows(self) -> tuple[LocalEStep, np.ndarray]:
        """The E-step over single rows, and the array for the messages of past and future to their hidden variables."""
        mine = self.sequences
        evidence, room = mine.with_hidden()
        estep = LocalEStep(
            mine.engine, mine.plan, self.inner_programs, evidence, self.expect, threads=mine.threads, merge=False
        )
        return estep, room

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        inner = self._rows[0].method
        return inner._replace(kernel=f"scan and {inner.kernel}", shareable=False)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """Raise an error: a chain is learnt with one cycle."""
        raise LearningError("A chain is learnt with cycles=1.")

    def batches(self, size: int, seed: int) -> Sequence[Chained]:
        """See `EStep`."""
        raise LearningError("The rows of a chain follow each other, and have no batches: leave out batch_size.")

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

    def _counted(self, values: np.ndarray) -> tuple[Counts, Scanned]:
        """The expected counts, and the scan along the rows that they come from."""
        mine, (rows, room) = self.sequences, self._rows
        weights = mine.evidence.row_weights
        found = mine.scan(values, weights)
        mine.around(found.scan, room)
        counts = rows.count(mine.alone(values))
        out = np.array(counts.values)
        mine.plan.layout.prior(out, mine.link.prior)[...] = found.first
        mine.plan.layout.table(out, mine.link.table)[...] = found.steps
        likelihood = float((weights * found.log_likelihood).sum())
        return Counts(out, likelihood, counts.weight), found


def marked_messages(sequences: Sequences, inner: Programs, values: np.ndarray, kept: tuple[str, ...]) -> Messages:
    """Return the messages of all rows; the log-likelihood of impossible rows and those after them is -inf."""
    evidence = sequences.evidence
    which = np.cumsum(evidence.begins)
    fine = np.ones(evidence.rows, dtype=bool)
    while True:
        rows = np.flatnonzero(fine)
        part = sequences if fine.all() else replace(sequences, evidence=evidence.take(rows))
        try:
            found = chained_messages(part, inner, values, kept)
        except ImpossibleEvidence as error:
            for row in rows[list(error.rows)].tolist():
                fine[row:] &= which[row:] != which[row]
        else:
            break
    if fine.all():
        return found
    arrays = {way: np.zeros((evidence.rows, array.shape[1])) for way, array in found._arrays.items()}
    for way, array in arrays.items():
        array[rows] = found._arrays[way]
        array.setflags(write=False)
    likelihood = np.full(evidence.rows, -np.inf)
    likelihood[rows] = found.log_likelihood
    everywhere = np.ones(evidence.rows, dtype=bool)
    return replace(found, _likelihood=likelihood, converged=everywhere, _arrays=arrays)


def chained_messages(sequences: Sequences, inner: Programs, values: np.ndarray, kept: tuple[str, ...]) -> Messages:
    """Return the messages of all rows of sequences; the log-likelihood of a row is conditional on the rows before."""
    mine, plan, link = sequences, sequences.plan, sequences.link
    whole = mine.scan(values, np.ones(mine.evidence.rows))
    scan, local = whole.scan, whole.local
    evidence, room = mine.with_hidden()
    mine.around(scan, room)
    found = sweep(mine.engine, plan, inner, mine.alone(values), evidence, plan.names, mine.threads)
    arrays = {way: found._arrays[way].copy() for way in WAYS}
    table = plan.layout.table(values, link.table)
    begins = mine.evidence.begins
    here = normalised(scan.past * local)  # of the hidden variable, given this row and all before
    known = {
        link.source: [scan.past, normalised(local * scan.future), normalised(here * scan.future)],
        link.leg: [here, normalised(scan.future), normalised(here * scan.future)],
        link.output: _onwards(here @ table, _ahead(local * scan.future, begins, 1.0)),
    }
    if whole.again is not None:
        rows, part, log_local = whole.again
        now, log_table = part.past + log_local, logarithm(table)
        onwards = log_sum(now[:, :, None] + log_table, axis=1)
        ahead = _ahead(log_local + part.future, begins[rows], 0.0)
        exact = {
            link.source: (part.past, log_local + part.future, now + part.future),
            link.leg: (now, part.future, now + part.future),
            link.output: (onwards, ahead, onwards + ahead),
        }
        for edge, logs in exact.items():
            for message, theirs in zip(known[edge], logs, strict=True):
                message[rows] = distribution(theirs)
    for edge, messages in known.items():
        place = plan.columns(edge)
        for way, message in zip(WAYS, messages, strict=True):
            arrays[way][:, place] = message
    for array in arrays.values():
        array.setflags(write=False)
    return replace(found, kept=kept, _likelihood=whole.log_likelihood, _arrays=arrays)


def _ahead(message: np.ndarray, begins: np.ndarray, nothing: float) -> np.ndarray:
    """Return the message of all later rows to the next hidden variable; `nothing` in the last row of a sequence."""
    out = np.full_like(message, nothing)
    inner = np.flatnonzero(~begins)
    out[inner - 1] = message[inner]
    return out


def _onwards(forward: np.ndarray, backward: np.ndarray) -> list[np.ndarray]:
    return [forward, normalised(backward), normalised(forward * backward)]


def _representable(around: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Return the product of past and future messages as numbers: exact for all but negligible states of the row."""
    both = around + local
    matters = both > both.max(axis=1, keepdims=True) - NEGLIGIBLE
    top = np.where(matters, around, -np.inf).max(axis=1, keepdims=True)
    return normalised(np.exp(np.minimum(around - top, LARGEST_LOG)))


def likeliest_path(sequences: Sequences, values: np.ndarray, alone: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable path of the hidden variable (Viterbi), and the log-weight of each sequence.

    The log-weight is at the first row of each sequence, and 0 elsewhere. Other unknown variables have their most
    probable states, too; with `alone` they are summed out.
    """
    mine, layout = sequences, sequences.plan.layout
    every = np.arange(mine.evidence.rows)
    local = mine.log_messages(values) if alone else mine._log_local(values, every, largest=True)
    prior = logarithm(layout.prior(values, mine.link.prior))
    table = logarithm(layout.table(values, mine.link.table))
    path, weight = able(mine.engine, "scan").best_path(prior, table, local, mine.evidence.begins)
    impossible = np.isneginf(weight)
    refuse_impossible(np.flatnonzero(impossible))
    return path, weight
