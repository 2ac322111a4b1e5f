"""The one learning loop. Batch, incremental, held or recomputed messages differ only in who makes the Counts.

epoch:  Counts = E-step(parameters)        every block from the messages at its two ends
        parameters = update(Counts)        cycle 1
        K > 1: the tables again from the same messages, cycle after cycle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from . import settings
from .arrays import frozen
from .counts import Counts
from .exceptions import LearningError
from .parameters import Parameters, Smoothing, Specification, drawn, updated


class EStep(Protocol):
    """Who makes the Counts."""

    @property
    def last_values(self) -> np.ndarray:
        """The parameters that were counted with last."""

    def count(self, values: np.ndarray) -> Counts:
        """The expected counts under these parameters."""

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """A function from tables to counts, with the messages as they are under `values`."""


@dataclass(frozen=True)
class Rule:
    """How to learn: T epochs of K cycles, when to stop, how many random starts."""

    epochs: int = 20
    cycles: int = 1
    tolerance: float = 0.0
    cycle_tolerance: float = 1e-10
    starts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "cycles", "starts"):
            settings.whole(name, getattr(self, name), 1, LearningError)
        for name in ("tolerance", "cycle_tolerance"):
            settings.number(name, getattr(self, name), LearningError)
        settings.whole("seed", self.seed, 0, LearningError)


@dataclass(frozen=True, eq=False)
class History:
    """What happened in learning, of the start that was kept.

    log_likelihood  (epochs,): total over rows, of the parameters each epoch began with
    objective       (epochs,): the same with the logarithm of the smoothing's Dirichlet prior; never falls at K = 1
    weight          the total weight of the rows, so that log_likelihood / weight is per row
    converged       whether the tolerance was met before the epochs were used up
    start           which random start was kept, and `starts` the final objective of each
    """

    log_likelihood: np.ndarray
    objective: np.ndarray
    weight: float
    converged: bool
    start: int = 0
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0))

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
        return f"History of {count}{end}; log-likelihood each began with: {values}"


def record(
    history: History, rows: int, rule: Rule, smoothing: float | Mapping[str, float], holes: str
) -> dict[str, Any]:
    """What is worth knowing of one time of learning, as JSON can say it."""
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
        "log_likelihood": float(history.log_likelihood[-1]) if history.epochs else None,
        "converged": bool(history.converged),
    }


Watcher = Callable[[int, int, float], object]
"""Called after every epoch with the number of the start, of the epoch, and the log-likelihood per row.

What it watches is the likelihood the epoch began with. If it returns True the epoch is the last one.
"""


def learn(
    estep: EStep,
    spec: Specification,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
    watch: Watcher | None = None,
) -> tuple[Parameters, History]:
    """Several starts, the best kept. The first goes on from the parameters as they are."""
    if watch is not None and not callable(watch):
        raise LearningError(f"'watch' must be a function of (start, epoch, log-likelihood). Got {watch!r} instead.")
    outcomes: list[tuple[Parameters, History]] = []
    finals: list[float] = []
    for start in range(rule.starts):
        begin = drawn(spec, parameters, rule.seed, start, again=start > 0)
        outcomes.append(_one_start(estep, spec, begin, rule, smoothing, start, watch))
        if rule.starts > 1:  # the last update is not in the history yet
            values = outcomes[-1][0].values
            finals.append(estep.count(values).log_likelihood + smoothing.log_prior(spec, values))
    best = int(np.argmax(finals)) if finals else 0
    learnt, history = outcomes[best]
    return learnt, History(
        history.log_likelihood, history.objective, history.weight, history.converged, best, np.array(finals)
    )


def _one_start(
    estep: EStep,
    spec: Specification,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
    start: int,
    watch: Watcher | None,
) -> tuple[Parameters, History]:
    likelihoods: list[float] = []
    objectives: list[float] = []
    weight, converged = 0.0, False
    for epoch in range(rule.epochs):
        counts = estep.count(parameters.values)
        weight = counts.weight
        likelihoods.append(counts.log_likelihood)
        objectives.append(counts.log_likelihood + smoothing.log_prior(spec, parameters.values))
        stop = watch is not None and watch(start, epoch, likelihoods[-1] / max(weight, np.finfo(float).tiny)) is True
        if epoch and rule.tolerance and objectives[-1] - objectives[-2] <= rule.tolerance * weight:
            converged = True
            break
        began_with = parameters
        parameters = updated(spec, began_with, counts.values, smoothing)
        if rule.cycles > 1:
            parameters = _more_cycles(estep, spec, began_with, parameters, rule, smoothing)
        if stop:
            break
    return parameters, History(np.array(likelihoods), np.array(objectives), weight, converged)


def _more_cycles(
    estep: EStep,
    spec: Specification,
    began_with: Parameters,
    parameters: Parameters,
    rule: Rule,
    smoothing: Smoothing,
) -> Parameters:
    """Cycles 2 to K: each table from the messages the epoch began with, until it comes to rest."""
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
        parameters = updated(spec, before, recount(before.values).values, smoothing, which=moving)
    return parameters


def _change(spec: Specification, one: np.ndarray, other: np.ndarray, number: int) -> float:
    return float(np.abs(spec.layout.table(one, number) - spec.layout.table(other, number)).max(initial=0))
