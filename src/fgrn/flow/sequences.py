"""Rows that follow each other: a chain is one scan over its rows, between two passes of the ordinary flow.

In a chain the hidden variable of a row follows from that of the row before, through one table. Every row is a network
of its own, the same for all:

    1. each row by itself: what its values say of the hidden variable (its backward message)
    2. a scan along each sequence, to and fro: what the past and the future say of it
    3. each row by itself again, with that as soft evidence: messages and counts of everything else
"""

from __future__ import annotations

from collections.abc import Callable
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
    best_path,
    distribution,
    log_scan,
    log_sum,
    logarithm,
    tracer,
)
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import SOFT, Evidence
from .counts import CountingMethod, Counts, LocalEStep
from .marginals import normalised, refuse_impossible
from .messages import WAYS, Messages, sweep

SMALLEST, LEAST_SHARE, SMALL_STEP = 2.0**-500, 2.0**-430, 1e-30
"""What is below the first, of a message that sums to one, counts as lost; it does not matter where all that it leads
to has the second of what is left. From a table above the third it leads everywhere."""

NEGLIGIBLE, LARGEST_LOG = 70.0, 600.0
"""A state whose posterior is less than that of another by exp of the first does not matter; a number may be exp of the
second and still be added up."""


@dataclass(frozen=True)
class Link:
    """Where a chain hangs together: the table from the hidden variable of a row to that of the next.

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
        """By the names of the two ends."""
        end, begin = plan.edge(output), plan.edge(source)
        siso = plan.siso_output.tolist().index(end)
        number = plan.source_edge.tolist().index(begin)
        return cls(begin, number, int(plan.siso_input[siso]), int(plan.siso_table[siso]), end)


class Scanned(NamedTuple):
    """A scan of all rows, what each says of its hidden variable, their log-likelihoods, and expected counts.

    `again` are rows of sequences that had to be scanned in the log domain, with their scan and what they say.
    """

    scan: Scan
    local: np.ndarray
    log_likelihood: np.ndarray
    first: np.ndarray
    steps: np.ndarray
    again: tuple[np.ndarray, LogScan, np.ndarray] | None = None


@dataclass(eq=False)
class Sequences:
    """The rows of evidence as sequences, and how an engine scans them."""

    engine: Engine
    plan: Plan
    programs: Programs
    evidence: Evidence
    link: Link
    threads: int | None = None
    _support: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    @property
    def states(self) -> int:
        """Of the hidden variable."""
        return int(self.plan.cardinality[self.link.source])

    def alone(self, values: np.ndarray) -> np.ndarray:
        """The parameters of a row by itself: nothing is known of its hidden variable before."""
        out = values.copy()
        self.plan.layout.prior(out, self.link.prior)[...] = 1 / self.states
        return out

    def local(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each row says of its hidden variable, and the logarithm of its scale."""
        name = self.plan.names[self.link.source]
        found = sweep(
            self.engine,
            self.plan,
            self.programs,
            self.alone(values),
            self.evidence,
            [name],
            self.threads,
            ("backward", "likelihood"),
        )
        refuse_impossible(np.flatnonzero(found.impossible))
        return found.backward(name), found.log_likelihood + np.log(self.states)

    @cached_property
    def _scanner(self) -> Scanner:
        return able(self.engine, "scan").scanner(self.evidence.begins, self.states, self.threads)

    def scan(self, values: np.ndarray, weights: np.ndarray) -> Scanned:
        """Along all sequences: what past and future say of each row, the likelihood of each, and expected counts."""
        local, scale = self.local(values)
        prior = self.plan.layout.prior(values, self.link.prior)
        table = self.plan.layout.table(values, self.link.table)
        scan = self._scanner(prior, table, local, weights)
        doubtful = found = self._doubtful(values, scan, local, table)
        while found.any():  # once more without them: what they hid comes to light
            sure = np.where(doubtful[:, None], 1 / self.states, local)
            scan = self._scanner(prior, table, sure, np.where(doubtful, 0.0, weights))
            found = self._doubtful(values, scan, sure, table) & ~doubtful
            doubtful = doubtful | found
        likelihood = np.log(scan.likelihood) + scale
        if not doubtful.any():
            return Scanned(scan, local, likelihood, scan.first, scan.steps * table)
        rows = np.flatnonzero(doubtful)  # those by themselves
        log_local = self._log_local(values, rows)
        part = log_scan(logarithm(prior), logarithm(table), log_local, self.evidence.begins[rows], weights[rows])
        refuse_impossible(rows[np.isneginf(part.seen)])
        likelihood[rows] = part.seen + scale[rows]
        scan.past[rows] = distribution(part.past)
        scan.future[rows] = np.exp(part.future)
        scan.around[rows] = _representable(part.past + part.future, log_local)
        first, steps = scan.first + part.first, scan.steps * table + part.steps
        return Scanned(scan, local, likelihood, first, steps, (rows, part, log_local))

    def _log_local(self, values: np.ndarray, rows: np.ndarray, largest: bool = False) -> np.ndarray:
        """What some rows say of their hidden variable, as logarithms that sum to one: nothing gets lost."""
        evidence = self.evidence.take(rows)
        engine = tracer(largest)
        (found,) = engine.logs(self.plan, self.programs, self.alone(values), evidence, [self.link.source], whole=False)
        local: np.ndarray = found if largest else found - log_sum(found, axis=1)[:, None]
        return local

    def _doubtful(self, values: np.ndarray, scan: Scan, local: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Rows of sequences that seem impossible; if there are none, those in which a lost state may matter later.

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
        """Which states of its hidden variable a row allows, however little: tables of ones cannot lose any."""
        pattern = values > 0
        if self._support is None or not np.array_equal(self._support[0], pattern):
            self._support = (pattern, self.local(pattern.astype(np.float64))[0] > 0)
        return self._support[1]

    def around(self, scan: Scan, out: np.ndarray) -> None:
        """What past and future say of each row together, with the evidence on the hidden variable itself."""
        out[...] = scan.around
        if self.evidence.slot[self.link.source] >= 0:
            out *= self.evidence.weights(self.link.source, self.states)
            out /= out.sum(axis=1, keepdims=True)

    def with_hidden(self) -> tuple[Evidence, np.ndarray]:
        """The evidence with room for a distribution on the hidden variable, and that room."""
        evidence, edge = self.evidence, self.link.source
        soft = np.concatenate([evidence.soft, np.ones((evidence.rows, self.states))], axis=1)
        slot, soft_offset, codes = evidence.slot.copy(), evidence.soft_offset.copy(), evidence.codes
        if slot[edge] < 0:
            slot[edge] = codes.shape[1]
            codes = np.concatenate([codes, np.empty((evidence.rows, 1), dtype=codes.dtype)], axis=1)
        codes = np.asfortranarray(codes.copy() if codes is evidence.codes else codes)
        codes[:, slot[edge]] = SOFT
        soft_offset[edge] = evidence.soft.shape[1]
        found = Evidence(codes, soft, slot, soft_offset, np.zeros(evidence.rows), row_weights=evidence.row_weights)
        return found, soft[:, soft_offset[edge] :]


@dataclass(frozen=True, eq=False)
class Chained:
    """The E-step over sequences: see the top of the file. Each epoch is one of Baum and Welch."""

    sequences: Sequences
    inner_programs: Programs  # with evidence on the hidden variable
    expect: bool

    @cached_property
    def _rows(self) -> tuple[LocalEStep, np.ndarray]:
        """Each row by itself, and the room for what past and future say of its hidden variable."""
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
        """A chain has but one cycle."""
        raise LearningError("A chain is learnt with cycles=1.")

    def count(self, values: np.ndarray) -> Counts:
        """The expected counts under these parameters."""
        mine, (rows, room) = self.sequences, self._rows
        weights = mine.evidence.row_weights
        found = mine.scan(values, weights)
        mine.around(found.scan, room)
        counts = rows.count(mine.alone(values))
        out = counts.values.copy()
        mine.plan.layout.prior(out, mine.link.prior)[...] = found.first
        mine.plan.layout.table(out, mine.link.table)[...] = found.steps
        likelihood = float((weights * found.log_likelihood).sum())
        return Counts(out, likelihood, counts.weight)


def marked_messages(sequences: Sequences, inner: Programs, values: np.ndarray, kept: tuple[str, ...]) -> Messages:
    """The messages of all rows; an impossible row, and what follows it in its sequence, have none and are marked."""
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
    """The messages of all rows of the sequences; the log-likelihood of a row is that given all rows before."""
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
    """What the next row and those after it say of its hidden variable; nothing in the last row of a sequence."""
    out = np.full_like(message, nothing)
    inner = np.flatnonzero(~begins)
    out[inner - 1] = message[inner]
    return out


def _onwards(forward: np.ndarray, backward: np.ndarray) -> list[np.ndarray]:
    return [forward, normalised(backward), normalised(forward * backward)]


def _representable(around: np.ndarray, local: np.ndarray) -> np.ndarray:
    """What past and future say together, as numbers: exact for the states that matter in the row, others may be cut."""
    both = around + local
    matters = both > both.max(axis=1, keepdims=True) - NEGLIGIBLE
    top = np.where(matters, around, -np.inf).max(axis=1, keepdims=True)
    return normalised(np.exp(np.minimum(around - top, LARGEST_LOG)))


def likeliest_path(sequences: Sequences, values: np.ndarray, alone: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The hidden variable of all rows, likeliest together with everything else, and the log-weight of each sequence.

    The second is at the first row of each, and 0 elsewhere. With `alone` it is the path that is likeliest by itself:
    what else is unknown is summed out.
    """
    mine, layout = sequences, sequences.plan.layout
    local = mine._log_local(values, np.arange(mine.evidence.rows), largest=not alone)
    prior = logarithm(layout.prior(values, mine.link.prior))
    path, weight = best_path(prior, logarithm(layout.table(values, mine.link.table)), local, mine.evidence.begins)
    impossible = np.isneginf(weight)
    refuse_impossible(np.flatnonzero(impossible))
    return path, weight
