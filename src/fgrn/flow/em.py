"""The EM loop of all models; ways of learning differ in their E-step alone.

epoch:  Counts = E-step(parameters)        every block from the messages at its two ends
        parameters = update(Counts)        cycle 1
        K > 1: the tables again from the same messages, cycle after cycle
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, RLock
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..core import settings
from ..core.arrays import frozen
from ..core.exceptions import ImpossibleEvidence, LearningError, shortened
from ..engines import in_order
from ..plan.plan import Layout
from .acceleration import Extrapolation
from .counts import CountingMethod, Counts
from .parameters import Parameters, Smoothing, Specification, named_lines, random_start, uncounted, unmoved, updated


class EStep(Protocol):
    """An E-step: computes the expected counts of the rows under given parameters."""

    @property
    def method(self) -> CountingMethod:
        """How the expected counts are computed."""

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these parameters."""

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """Return a function from tables to expected counts, with the messages held as they are under `values`."""


@dataclass(frozen=True)
class Explained:
    """An E-step whose errors explain why a row is impossible; `explain` makes the error, given the parameters."""

    estep: EStep
    explain: Callable[[ImpossibleEvidence, np.ndarray], ImpossibleEvidence]

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.estep.method

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        return self._tried(self.estep.count, values, values)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `EStep`."""
        recount = self.estep.cycles(values)
        return lambda tables: self._tried(recount, tables, values)

    def _tried(self, count: Callable[[np.ndarray], Counts], tables: np.ndarray, values: np.ndarray) -> Counts:
        try:
            return count(tables)
        except ImpossibleEvidence as error:
            raise self.explain(error, np.asarray(values)) from None


@dataclass(frozen=True)
class Rule:
    """How to learn: T epochs of K cycles, when to stop, how many random starts, whether steps are extrapolated."""

    epochs: int = 20
    cycles: int = 1
    tolerance: float = 0.0
    cycle_tolerance: float = 1e-10
    starts: int = 1
    seed: int = 0
    accelerate: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "cycles", "starts"):
            settings.whole(name, getattr(self, name), 1, LearningError)
        for name in ("tolerance", "cycle_tolerance"):
            settings.number(name, getattr(self, name), LearningError)
        settings.whole("seed", self.seed, 0, LearningError)
        settings.choice("accelerate", self.accelerate, (True, False), LearningError)
        if self.accelerate and self.cycles > 1:
            raise LearningError(
                "accelerate=True needs updates that never lower the objective, as one cycle per epoch makes them. "
                "Use cycles=1, or accelerate=False."
            )


@dataclass(frozen=True, eq=False)
class History:
    """The course of learning, of the random start that was kept: log-likelihood per epoch, convergence, execution.

    log_likelihood  (epochs,): total over rows, of the parameters each epoch began with
    objective       (epochs,): the same with the logarithm of the smoothing's Dirichlet prior; never falls at K = 1
    weight          the total weight of the rows, so that log_likelihood / weight is per row
    converged       whether the tolerance was met before the epochs were used up
    start           which random start was kept, and `starts` the final objective of each
    not_estimated   rows of tables, by the name of the table, of which the data say nothing: no row of the data counts
                    for them, or only with a missing value. They are as they were before learning, which is uniform
                    unless they were given or learnt before. A prior has row 0.
    execution       how it was run, in words: engine, kernel, rows, threads
    """

    log_likelihood: np.ndarray
    objective: np.ndarray
    weight: float
    converged: bool
    start: int = 0
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    not_estimated: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    execution: str = ""

    def __post_init__(self) -> None:
        for name in ("log_likelihood", "objective", "starts"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.float64))

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return len(self.log_likelihood)

    @property
    def per_row(self) -> np.ndarray:
        """The mean log-likelihood of a row, per epoch."""
        return self.log_likelihood / self.weight if self.weight else self.log_likelihood

    def __repr__(self) -> str:
        if not self.epochs:
            return "History of no epochs"
        count = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        end = ", converged" if self.converged else ""
        shown = [self.log_likelihood[0], *self.log_likelihood[1:][-1:]]
        values = " ... ".join(f"{value:,.3f}" for value in shown)
        text = f"History of {count}{end}; log-likelihood each began with: {values}"
        return f"{text}; {self.told_not_estimated}" if self.not_estimated else text

    @property
    def told_not_estimated(self) -> str:
        """Return a text that lists the tables that the data did not determine; empty if there are none."""
        if not self.not_estimated:
            return ""
        rows = sum(map(len, self.not_estimated.values()))
        names = [f"{name} ({len(some):,})" for name, some in self.not_estimated.items()]
        were = "1 row of a table was" if rows == 1 else f"{rows:,} rows of tables were"
        return (
            f"{were} not estimated, since the data say nothing of {'it' if rows == 1 else 'them'}: {shortened(names)}"
        )


def training_record(
    history: History, rows: int, rule: Rule, smoothing: float | Mapping[str, float], holes: str, run: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a JSON-compatible record of one call of learn."""
    return {
        "rows": rows,
        "weight": float(history.weight),
        "epochs": history.epochs,
        "cycles": int(rule.cycles),
        "smoothing": {k: float(v) for k, v in smoothing.items()}
        if isinstance(smoothing, Mapping)
        else float(smoothing),
        "holes": holes,
        "seed": int(rule.seed),
        "starts": int(rule.starts),
        "accelerate": bool(rule.accelerate),
        "log_likelihood": float(history.log_likelihood[-1]) if history.epochs else None,
        "converged": bool(history.converged),
        "not_estimated": sum(map(len, history.not_estimated.values())),
        **run,
    }


Outcome: TypeAlias = tuple[Parameters, History]
"""What learning comes to."""

Watcher = Callable[[int, int, float], object]
"""Called after every epoch with the number of the start, of the epoch, and the log-likelihood per row.

What it watches is the likelihood the epoch began with. If it returns True the epoch is the last one.
"""


@dataclass(frozen=True, eq=False)
class Start:
    """The state of one random start: everything that is needed to continue it.

    parameters    as they are after its epochs
    likelihoods   and `objectives`, one for each epoch, as in `History`
    weight        of the rows
    converged     whether the tolerance was met, and `stopped`: whether the watcher ended it
    final         the objective of the parameters as they are, once that is known
    uncounted     the numbers of the lines of the layout (rows of tables, priors) that were not estimated; found when
                  it has ended
    extrapolation where it is in a round of accelerated EM
    """

    parameters: Parameters
    likelihoods: tuple[float, ...] = ()
    objectives: tuple[float, ...] = ()
    weight: float = 0.0
    converged: bool = False
    stopped: bool = False
    final: float | None = None
    uncounted: tuple[int, ...] = ()
    extrapolation: Extrapolation = field(default_factory=Extrapolation)

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return len(self.likelihoods)

    @property
    def kept(self) -> list[Parameters]:
        """All parameters of the state: the current ones, and those of a round of accelerated EM."""
        others = (self.extrapolation.first, self.extrapolation.ahead)
        return [self.parameters, *(replace(self.parameters, values=one) for one in others if one is not None)]

    def has_ended(self, rule: Rule) -> bool:
        """Return whether learning has ended by this rule."""
        return self.converged or self.stopped or self.epochs >= rule.epochs


class Keeper(Protocol):
    """Stores the state of learning (a checkpoint), so that it can continue after an interruption."""

    def begun(self, spec: Specification, parameters: Parameters, rule: Rule) -> tuple[Parameters, list[Start]]:
        """Return the initial parameters and the starts so far; the given parameters and none at the first time.

        The parameters of the keeper take the place of those given.
        """

    def keep(self, starts: Sequence[Start], ended: bool = False) -> None:
        """Store the state of a start: called after every epoch, and when the start has `ended`."""


def learn(
    estep: EStep,
    spec: Specification,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
    watch: Watcher | None = None,
    keeper: Keeper | None = None,
    starts_at_once: int = 1,
) -> tuple[Parameters, History]:
    """Run EM from several starts and return the best; the first start continues from the given parameters.

    Some may be run at once, on threads; the results are the same, and the calls of `watch` and `keeper` mixed.
    """
    if watch is not None and not callable(watch):
        raise LearningError(f"'watch' must be a function of (start, epoch, log-likelihood). Got {watch!r} instead.")
    starts: list[Start] = []
    if keeper is not None:
        parameters, starts = keeper.begun(spec, parameters, rule)
    one_at_a_time, has_failed = RLock(), Event()

    def watched(number: int, epoch: int, per_row: float) -> object:
        with one_at_a_time:
            return has_failed.is_set() or (watch is not None and watch(number, epoch, per_row))

    def kept(number: int, start: Start, ended: bool = False) -> None:
        with one_at_a_time:
            starts[number] = start
            if keeper is not None:
                keeper.keep(starts, ended)

    def drawn_for(number: int) -> Parameters:
        return random_start(spec, parameters, rule.seed, number, again=number > 0)

    def run(number: int) -> None:
        begun = drawn_for(number)
        with one_at_a_time:
            while len(starts) <= number:  # those before may be about to begin, on another thread
                starts.append(Start(begun if len(starts) == number else drawn_for(len(starts))))
        try:
            for start in _epochs(estep, spec, (parameters, begun), starts[number], rule, smoothing, number, watched):
                kept(number, start)
            if rule.starts > 1 and starts[number].final is None:  # the last update is not in the history yet
                values = starts[number].parameters.values
                final = estep.count(values).log_likelihood + smoothing.log_prior(spec, values)
                kept(number, replace(starts[number], final=final), ended=True)
        except BaseException:
            has_failed.set()  # the others need not go on
            raise

    for _ in in_order(starts_at_once, run, range(rule.starts)):
        pass
    finals = [start.final for start in starts] if rule.starts > 1 else []
    best = int(np.argmax(np.array(finals, dtype=np.float64))) if finals else 0
    return outcome(starts, best, finals, spec.layout)


def outcome(starts: Sequence[Start], best: int, finals: Sequence[float | None], layout: Layout) -> Outcome:
    """Return the parameters and history of learning, given the best start and the final objectives of all."""
    kept = starts[best]
    return kept.parameters.handed_over(), History(
        np.array(kept.likelihoods), np.array(kept.objectives), kept.weight, kept.converged, best,
        np.array(finals, dtype=np.float64), named_lines(layout, kept.uncounted),
    )  # fmt: skip


def _epochs(
    estep: EStep,
    spec: Specification,
    origin: tuple[Parameters, Parameters],
    start: Start,
    rule: Rule,
    smoothing: Smoothing,
    number: int,
    watch: Watcher | None,
) -> Iterator[Start]:
    """Yield the start after each remaining epoch; `origin` are the parameters before and after the random draw."""
    (before, begun), resumed = origin, start

    def counted(parameters: Parameters) -> tuple[Counts, float]:
        counts = estep.count(parameters.values)
        return counts, counts.log_likelihood + smoothing.log_prior(spec, parameters.values)

    while not start.has_ended(rule):
        ahead, began_with = start.extrapolation.ahead, start.parameters
        tried = began_with if ahead is None else replace(began_with, values=ahead)
        counts, objective = counted(tried)
        if ahead is not None and objective < start.objectives[-1]:  # too far: as if it had not been tried
            counts, objective = counted(began_with)
        else:
            began_with = tried
        per_row = counts.log_likelihood / max(counts.weight, sys.float_info.min)
        stopped = watch is not None and watch(number, start.epochs, per_row) is True
        converged, parameters = _has_converged(start, objective, counts.weight, rule), began_with
        extrapolation = start.extrapolation
        if not converged:
            parameters = updated(spec, began_with, counts.values, smoothing, before)
            if rule.cycles > 1:
                parameters = _more_cycles(estep, spec, before, began_with, parameters, rule, smoothing)
            if rule.accelerate:
                succeeded = ahead is not None and began_with is tried
                extrapolation = extrapolation.after(spec, began_with.values, parameters.values, succeeded)
        start = Start(
            parameters,
            (*start.likelihoods, counts.log_likelihood),
            (*start.objectives, objective),
            counts.weight,
            converged,
            stopped,
            extrapolation=extrapolation,
        )
        if start.has_ended(rule):
            start = _ended(spec, start, counts.values, smoothing, before, (begun, resumed))
        yield start


def _ended(
    spec: Specification,
    start: Start,
    counts: np.ndarray,
    smoothing: Smoothing,
    before: Parameters,
    earlier: tuple[Parameters, Start],
) -> Start:
    """Return a start at its end: rows of tables without data are as before learning, and recorded.

    These are lines without counts, and those that learning has not moved from where they were drawn, since all that is
    counted for them are values the model itself expects in place of missing ones.
    """
    begun, resumed = earlier
    values = start.parameters.values
    was_noted = np.isin(np.arange(len(spec.layout.lines)), resumed.uncounted)
    is_still = unmoved(spec, values, begun.values, smoothing) & ~unmoved(spec, before.values, begun.values, smoothing)
    is_still |= unmoved(spec, values, resumed.parameters.values, smoothing) & was_noted
    noted = sorted({*uncounted(spec, counts, smoothing), *np.flatnonzero(is_still).tolist()})
    whole = np.repeat(is_still, np.diff(spec.layout.lines, append=spec.layout.size))
    parameters = replace(start.parameters, values=np.where(whole, before.values, values))
    return replace(start, parameters=parameters if is_still.any() else start.parameters, uncounted=tuple(noted))


def _has_converged(start: Start, objective: float, weight: float, rule: Rule) -> bool:
    """Return whether the last epoch, or the last round of accelerated EM, gained no more than the tolerance."""
    if not rule.tolerance or not start.epochs:
        return False
    if rule.accelerate and start.extrapolation.ahead is None:  # in the middle of a round, which has to gain something
        return bool(objective <= start.objectives[-1])
    gained = objective - start.objectives[-2 if rule.accelerate else -1]
    return bool(gained <= rule.tolerance * weight)


def _more_cycles(
    estep: EStep,
    spec: Specification,
    unlearnt: Parameters,
    began_with: Parameters,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
) -> Parameters:
    """Run cycles 2 to K: update the tables from the messages that the epoch began with, until they converge."""
    began_with, parameters = began_with.handed_over(), parameters.handed_over()
    recount = estep.cycles(began_with.values)
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
