"""The EM loop of all models; ways of learning differ in their E-step alone.

epoch:  Counts = E-step(parameters)        every block from the messages at its two ends
        parameters = update(Counts)        cycle 1
        K > 1: the tables again from the same messages, cycle after cycle

In mini-batch EM an epoch is such a step for each batch of rows, from counts that decay: see `fgrn.flow.minibatch`.
With held-out rows, learning keeps the parameters under which these were the most probable after an epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.exceptions import LearningError
from ..engines import AcceleratedRound, EpochRequest, MStep, SilentEpochs
from ..plan.plan import Layout
from .acceleration import Extrapolation
from .counts import CountedEpoch, Counts, TogetherCounts
from .em_settings import USUAL_EPOCHS, Rule
from .esteps import EStep, ESteps, ExplainingEStep, Recount, WholeEStep
from .history import History, training_record
from .minibatch import one_pass
from .mstep import Smoothing, engine_mstep, named_lines, uncounted, unmoved, updated
from .parameters import Parameters, Specification, kept_by_engine, random_start
from .series import Series
from .start_queue import StartQueue

__all__ = ["USUAL_EPOCHS", "EStep", "ESteps", "ExplainingEStep", "History", "Keeper", "Outcome", "Rule", "Start",
           "Watcher", "WholeEStep", "learn", "outcome", "training_record"]  # fmt: skip


Outcome: TypeAlias = tuple[Parameters, History]
"""The result of learning: parameters and history."""

Watcher = Callable[[int, int, float], object]
"""Called after every epoch with the number of the start, of the epoch, and the log-likelihood per row.

What it watches is the likelihood the epoch began with. If it returns True the epoch is the last one of its start. A
watcher that only ends learning may have `needs_every_epoch = False`: it is called now and then, after several epochs.
"""


@dataclass(frozen=True, eq=False)
class Start:
    """The state of one random start: everything needed to continue it.

    parameters    as they are after its epochs
    likelihoods   and `objectives`, one for each epoch, as in `History`
    weight        of the rows
    converged     whether the tolerance was met, and `stopped`: whether the watcher ended it
    final         the objective of the parameters as they are, once that is known
    uncounted     the numbers of the lines of the layout (rows of tables, priors) that were not estimated; found when
                  it has ended
    extrapolation where it is in a round of accelerated EM
    running       the decayed counts of mini-batch EM
    validations   the mean log-likelihood of held-out rows after each epoch, if there are any, and
    best          the values of the parameters after the epoch at which that was largest
    row_counts    the expected count of each row of the tables, in the last epoch
    """

    parameters: Parameters
    likelihoods: Series = field(default_factory=Series)
    objectives: Series = field(default_factory=Series)
    weight: float = 0.0
    converged: bool = False
    stopped: bool = False
    final: float | None = None
    uncounted: tuple[int, ...] = ()
    extrapolation: Extrapolation = field(default_factory=Extrapolation)
    running: np.ndarray | None = None
    validations: Series = field(default_factory=Series)
    best: np.ndarray | None = None
    row_counts: np.ndarray | None = None

    @property
    def epochs(self) -> int:
        """The number of epochs that were run."""
        return len(self.likelihoods)

    def before_last(self, values: np.ndarray, earlier: SilentEpochs) -> Start:
        """Return the state before an epoch that begins with some values, given the silent epochs before it."""
        if not earlier.likelihoods:
            return self
        now, extrapolation = earlier.round, self.extrapolation
        if now is not None:
            values = values if now.last is None else now.last
            extrapolation = Extrapolation(now.first, now.ahead, now.length, now.longest)
        objectives = [sum(both) for both in zip(earlier.likelihoods, earlier.log_priors, strict=True)]
        return replace(
            self,
            parameters=replace(self.parameters, values=values),
            likelihoods=self.likelihoods.and_all(earlier.likelihoods),
            objectives=self.objectives.and_all(objectives),
            extrapolation=extrapolation,
        )

    @property
    def kept(self) -> list[Parameters]:
        """All parameters in the state: the current ones, the best, and those of a round of accelerated EM."""
        others = (self.best, self.extrapolation.first, self.extrapolation.ahead)
        return [self.parameters, *(replace(self.parameters, values=one) for one in others if one is not None)]

    @property
    def result(self) -> Parameters:
        """The parameters to return: those with the best held-out likelihood, or the current ones."""
        return self.parameters if self.best is None else replace(self.parameters, values=self.best)

    def has_ended(self, rule: Rule) -> bool:
        """Return whether learning has ended by this rule."""
        return self.converged or self.stopped or self.epochs >= rule.epochs or self._is_impatient(rule)

    def _is_impatient(self, rule: Rule) -> bool:
        """Whether too many epochs have passed since the held-out likelihood was best."""
        if rule.patience is None or not self.validations:
            return False
        return len(self.validations) - 1 - self.validations.largest_at >= rule.patience


class Keeper(Protocol):
    """The protocol of an object that stores the state of learning (a checkpoint), to continue after an interruption.

    needs_every_epoch   whether it is told of every epoch, or now and then, after several
    """

    @property
    def needs_every_epoch(self) -> bool:
        """See the class."""

    def resume_or_begin(
        self, spec: Specification, parameters: Parameters, rule: Rule
    ) -> tuple[Parameters, list[Start]]:
        """Return the initial parameters and the starts so far; in a new run, the given parameters and no starts.

        The parameters of the keeper take the place of those given.
        """

    def keep(self, starts: Sequence[Start], ended: bool = False) -> None:
        """Store the state of a start: called after epochs, and when the start has `ended`."""


def learn(
    esteps: ESteps,
    spec: Specification,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
    watch: Watcher | None = None,
    keeper: Keeper | None = None,
    start_threads: int = 1,
    starts_together: int = 1,
) -> tuple[Parameters, History]:
    """Run EM from several starts and return the best; the first start continues from the given parameters.

    Some may be run at once, on so many threads, and some together, with one call of the E-step that counts for all of
    them (see `start_queue`). The results are the same, and the calls of `watch` and `keeper` mixed.
    """
    if watch is not None and not callable(watch):
        raise LearningError(f"'watch' must be a function of (start, epoch, log-likelihood). Got {watch!r} instead.")
    starts: list[Start] = []
    if keeper is not None:
        parameters, starts = keeper.resume_or_begin(spec, parameters, rule)
    one_at_a_time = RLock()

    def watched(number: int, epoch: int, per_row: float) -> object:
        with one_at_a_time:
            return watch is not None and watch(number, epoch, per_row)

    def kept(number: int, start: Start, ended: bool = False) -> None:
        with one_at_a_time:
            starts[number] = start
            if keeper is not None:
                keeper.keep(starts, ended)

    def drawn_for(number: int) -> Parameters:
        return random_start(spec, parameters, rule.seed, number, again=number > 0)

    def run(number: int) -> _Run:
        begun = drawn_for(number)
        with one_at_a_time:
            while len(starts) <= number:  # those before may be about to begin, on another thread
                starts.append(Start(begun if len(starts) == number else drawn_for(len(starts))))
        origin, keep = (parameters, begun), partial(kept, number)
        yield from _epochs(esteps, spec, origin, starts[number], rule, smoothing, number, watched, keep)
        if rule.starts > 1 and starts[number].final is None:  # the last update is not in the history yet
            if starts[number].validations:
                final = starts[number].validations[starts[number].validations.largest_at]
            else:
                (counted,) = yield EpochRequest(starts[number].parameters.values)
                final = counted.objective
            kept(number, replace(starts[number], final=final), ended=True)

    mstep = engine_mstep(spec, smoothing) if esteps.cycles is None else None
    is_seen = any(one is not None and getattr(one, "needs_every_epoch", True) for one in (watch, keeper))
    is_silent = not is_seen and esteps.held_out is None
    counted = partial(_counted, esteps.whole, esteps.together, spec, smoothing, mstep, is_silent)
    StartQueue(map(run, range(rule.starts)), counted, starts_together, start_threads).run()
    finals = [start.final for start in starts] if rule.starts > 1 else []
    best = int(np.argmax(np.array(finals, dtype=np.float64))) if finals else 0
    learnt, history = outcome(starts, best, finals, spec.layout)
    return learnt.normalised(spec), history


def outcome(starts: Sequence[Start], best: int, finals: Sequence[float | None], layout: Layout) -> Outcome:
    """Return the parameters and history of learning, given the best start and the final objectives of all."""
    kept = starts[best]
    return kept.result.handed_over(), History(
        np.array(kept.likelihoods), np.array(kept.objectives), kept.weight, kept.converged, best,
        np.array(finals, dtype=np.float64), named_lines(layout, kept.uncounted), validation=np.array(kept.validations),
        row_counts=np.zeros(0) if kept.row_counts is None else kept.row_counts,
    )  # fmt: skip


_Run: TypeAlias = Generator[EpochRequest, list[CountedEpoch]]
"""A start that runs: it asks for the counts under its parameters, and may be given those of the next epochs as well."""


def _counted(
    estep: EStep,
    together: TogetherCounts | None,
    spec: Specification,
    smoothing: Smoothing,
    mstep: MStep | None,
    is_silent: bool,
    requests: Sequence[EpochRequest],
) -> list[list[CountedEpoch]]:
    """Count all rows under each of several vectors of parameters, in one call if that is possible.

    Such a call may run several epochs from each vector, as many as are asked for, if the engine can take the M-step:
    then it tells their log priors, too. Where nobody looks at the epochs, all but the last are silent.
    """

    def log_prior(values: np.ndarray, counts: Counts) -> float:
        if together is not None and mstep is not None:
            return together.log_prior(mstep, values)
        return smoothing.log_prior(spec, values, counts.values)

    def alone(values: np.ndarray) -> list[CountedEpoch]:
        counts = estep.count(values)
        return [CountedEpoch(values, counts, log_prior=log_prior(values, counts))]

    if together is None:
        return [alone(one.values) for one in requests]
    asked = [one._replace(silent=True) if is_silent else _watched(one) for one in requests]
    found = []
    for one, epochs in zip(requests, together.epochs_of_each(asked, mstep), strict=True):
        if mstep is None:
            epochs = [epoch._replace(log_prior=log_prior(epoch.values, epoch.counts)) for epoch in epochs]
        found.append(list(epochs) or alone(one.values))
    return found


def _watched(request: EpochRequest) -> EpochRequest:
    """Return a request for epochs that are looked at: of a round of accelerated EM, those before the extrapolation."""
    if request.round is None:
        return request
    return request._replace(epochs=min(request.epochs, request.round.epochs_left), gain=-np.inf, round=None)


class _Epoch(NamedTuple):
    """The result of an epoch: the counts, the parameters they were computed with and, if known, the updated ones."""

    counts: Counts
    objective: float
    began_with: Parameters
    updated: Parameters | None = None
    succeeded: bool = False  # whether it began with extrapolated parameters


def _epochs(
    esteps: ESteps,
    spec: Specification,
    origin: tuple[Parameters, Parameters],
    start: Start,
    rule: Rule,
    smoothing: Smoothing,
    number: int,
    watch: Watcher | None,
    keep: Callable[[Start], None],
) -> _Run:
    """Run the remaining epochs of a start, as a generator that yields parameters and receives their counts.

    Args:
        esteps: over all rows, batches of them, and those held out.
        spec: which parameters are learnt.
        origin: the parameters before and after the random draw.
        start: its state so far.
        rule: when to stop.
        smoothing: counts that are added.
        number: of the start.
        watch: called after every epoch.
        keep: called with the state of the start after every epoch.
    """
    (before, begun), resumed = origin, start
    run_ahead: list[CountedEpoch] = []
    ended = start.has_ended(rule)
    while not ended:
        start, epoch = yield from _epoch(esteps, spec, before, start, rule, smoothing, number, run_ahead)
        counts, began_with = epoch.counts, epoch.began_with
        per_row = counts.log_likelihood / max(counts.weight, sys.float_info.min)
        stopped = watch is not None and watch(number, start.epochs, per_row) is True
        converged, parameters = _has_converged(start, epoch.objective, counts.weight, rule), began_with
        extrapolation = start.extrapolation
        if not converged:
            parameters = epoch.updated or updated(spec, began_with, counts.values, smoothing, before)
            if esteps.cycles is not None:
                parameters = _more_cycles(esteps.cycles, spec, before, began_with, parameters, rule, smoothing)
            if rule.accelerate:
                extrapolation = extrapolation.after(spec, began_with.values, parameters.values, epoch.succeeded)
        validations, best = _validated(esteps, start, parameters)
        start = Start(
            parameters,
            start.likelihoods.and_one(counts.log_likelihood),
            start.objectives.and_one(epoch.objective),
            counts.weight,
            converged,
            stopped,
            extrapolation=extrapolation,
            running=None if rule.batch_size is None else counts.values,
            validations=validations,
            best=best,
        )
        ended = start.has_ended(rule)
        if ended:
            start = _ended(spec, start, counts.values, smoothing, before, (begun, resumed))
            if not kept_by_engine(counts.values) and spec.layout.size:
                start = replace(start, row_counts=np.add.reduceat(counts.values[: spec.layout.size], spec.layout.lines))
        keep(start)


def _epoch(
    esteps: ESteps,
    spec: Specification,
    before: Parameters,
    start: Start,
    rule: Rule,
    smoothing: Smoothing,
    number: int,
    run_ahead: list[CountedEpoch],
) -> Generator[EpochRequest, list[CountedEpoch], tuple[Start, _Epoch]]:
    """Count all rows once, under the current or extrapolated parameters, or batch after batch.

    Returns the epoch, and the state before it: silent epochs may have been run before the one that is returned.
    """
    if esteps.batches:
        began_with = start.parameters
        passed = one_pass(
            [batch.count for batch in esteps.batches], esteps.weight, began_with, start.running, rule,
            (number, start.epochs), lambda now, counts: updated(spec, now, counts, smoothing, before),
        )  # fmt: skip
        counts, prior = passed.counts, smoothing.log_prior(spec, began_with.values, passed.counts.values)
        return start, _Epoch(counts, counts.log_likelihood + prior, began_with, passed.parameters)
    failed = False  # whether extrapolated parameters were too far: then it is as if they had not been tried
    while True:
        ahead = None if failed else start.extrapolation.ahead
        tried = start.parameters.values if ahead is None else ahead
        if not run_ahead or run_ahead[0].values is not tried:
            run_ahead[:] = yield _request(start, tried, rule, esteps.weight, failed)
        counted = run_ahead.pop(0)
        if counted.earlier is not None:
            start = start.before_last(counted.values, counted.earlier)
            failed = failed if counted.earlier.round is None else counted.earlier.round.failed
            ahead = None if failed else start.extrapolation.ahead
        succeeded = ahead is not None and counted.objective >= start.objectives[-1]
        if ahead is None or succeeded:
            break
        failed = True
    began_with = replace(start.parameters, values=counted.values)
    drawn = began_with.undrawn_tables, began_with.undrawn_priors
    new = None if counted.updated is None else Parameters(counted.updated, *drawn)
    return start, _Epoch(counted.counts, counted.objective, began_with, new, succeeded)


def _request(start: Start, values: np.ndarray, rule: Rule, weight: float, failed: bool) -> EpochRequest:
    """Return the question for the counts under some parameters, and for the epochs of EM that are left from there.

    These need not go on if an epoch, or a round, gained so little that learning has converged, or if extrapolated
    parameters are worse than those before. `failed`: the values are those to go on from after that.
    """
    left, gain = rule.epochs - start.epochs, rule.tolerance * weight if rule.tolerance else -np.inf
    if not rule.accelerate:
        return EpochRequest(values, left, start.objectives[-1] + gain if start.epochs else -np.inf, gain)
    now, (earlier, last) = start.extrapolation, [-np.inf, -np.inf, *start.objectives[-2:]][-2:]
    is_tried = now.ahead is not None
    where = AcceleratedRound(
        now.first, now.ahead, start.parameters.values if is_tried else None, failed, now.length, now.longest, earlier,
        last,
    )  # fmt: skip
    return EpochRequest(values, left, last if is_tried and not failed else -np.inf, gain, round=where)


def _validated(esteps: ESteps, start: Start, parameters: Parameters) -> tuple[Series, np.ndarray | None]:
    """Return the held-out likelihoods including that of these parameters, and the parameters with the largest."""
    if esteps.held_out is None:
        return start.validations, None
    validations = start.validations.and_one(esteps.score(parameters.values))
    is_best = validations.largest_at == len(validations) - 1 or start.best is None
    return validations, parameters.values if is_best else start.best


def _ended(
    spec: Specification,
    start: Start,
    counts: np.ndarray,
    smoothing: Smoothing,
    before: Parameters,
    earlier: tuple[Parameters, Start],
) -> Start:
    """Return a start after its last epoch: rows of tables without data keep their values, and are recorded.

    These are lines without counts, and those that learning has not moved from where they were drawn, since all that is
    counted for them are values the model itself expects in place of missing ones.
    """
    begun, resumed = earlier
    values = start.parameters.values
    is_still = unmoved(spec, values, begun.values, smoothing)
    if is_still.any():
        is_still &= ~unmoved(spec, before.values, begun.values, smoothing)
    if resumed.uncounted:
        was_noted = np.isin(np.arange(len(spec.layout.lines)), resumed.uncounted)
        is_still |= unmoved(spec, values, resumed.parameters.values, smoothing) & was_noted
    noted = {*uncounted(spec, counts, smoothing)}
    if is_still.any():
        noted.update(np.flatnonzero(is_still).tolist())
        whole = is_still[spec.layout.line_of]
        whole = np.append(whole, np.zeros(len(values) - len(whole), dtype=bool))  # not of continuous columns
        parameters = replace(start.parameters, values=np.where(whole, before.values, values))
        best = None if start.best is None else np.where(whole, before.values, start.best)
        start = replace(start, parameters=parameters, best=best)
    return replace(start, uncounted=tuple(sorted(noted)))


def _has_converged(start: Start, objective: float, weight: float, rule: Rule) -> bool:
    """Return whether the last epoch, or the last round of accelerated EM, gained no more than the tolerance."""
    if not rule.tolerance or not start.epochs:
        return False
    if rule.accelerate and start.extrapolation.ahead is None:  # in the middle of a round, which has to gain something
        return bool(objective <= start.objectives[-1])
    gained = objective - start.objectives[-2 if rule.accelerate else -1]
    return bool(gained <= rule.tolerance * weight)


def _more_cycles(
    cycles: Callable[[np.ndarray], Recount],
    spec: Specification,
    unlearnt: Parameters,
    began_with: Parameters,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
) -> Parameters:
    """Run cycles 2 to K: update the tables with the messages from the start of the epoch, until they converge."""
    began_with, parameters = began_with.handed_over(), parameters.handed_over()
    recount = cycles(began_with.values)
    moving = {number for number, learnt in enumerate(spec.learnt_tables) if learnt}
    before = began_with
    for _ in range(rule.cycles - 1):
        moving = {
            number
            for number in moving
            if _change(spec, before.values, parameters.values, number) > rule.cycle_tolerance
        }
        if not moving:
            break
        before = parameters
        parameters = updated(spec, before, recount(before.values).values, smoothing, unlearnt, which=moving)
    return parameters


def _change(spec: Specification, one: np.ndarray, other: np.ndarray, number: int) -> float:
    return float(np.abs(spec.layout.table(one, number) - spec.layout.table(other, number)).max(initial=0))
