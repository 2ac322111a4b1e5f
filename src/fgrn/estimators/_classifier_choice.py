"""Which classifier: the hidden states of each class, and how its tables are refined, by the log-loss of the class.

Every candidate is learnt from some of the rows and asked for the class of the others, in turn. Sizes grow as long as
that pays; each begins with EM, which makes the rows likely, and goes on with tables that tell the class (see
`learning.conditional`), the strength of the penalty being lowered as long as that pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.progress import ReadingProgress
from ..graph.network import Network
from ..learning.conditional import Conditional, Penalty
from ..learning.criteria import ClassCandidate
from ..tables.encoded import Evidence
from ..tables.frames import Coded

MOST_ROWS = 20_000
"""Rows that candidates are compared on; of larger tables so many are drawn, as many of each class as it has a share."""

REFINED_ROWS = 200_000
"""Rows that the tables of the chosen model are refined on, at most."""

MOST_WORK = 2e9
"""What choosing may cost unless seconds are given: CALL + rows * columns * (states + 8), summed over all E-steps. It
ends after about 7 s on two cores, and always at the same candidate."""

CALL = 1.5e5
"""What an E-step costs however few rows there are."""

STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
"""Of the penalty: from the second on they are tried until one is worse than the one before; the first, if the second is
the best of them."""

ITERATIONS = 30
"""Of refining tables by one penalty."""

EPOCHS, TOLERANCE = 60, 1e-5
"""Of learning a candidate: the most epochs, and the gain per row at which it, and refining it, has converged."""

LEAST_ROWS = 5
"""Rows of a class for each of its hidden states: a class with fewer has fewer states."""

LEAST_TO_PART = 10
"""Rows of known class from which on some are kept back."""

FAINTEST = 1e-9
"""A smaller probability of the class that came true counts as this one."""

CLEARLY_WORSE = 3.0
"""A candidate whose log-loss on the first rows is larger than that of another by so many standard errors of the
difference is not tried on the others."""


@dataclass(frozen=True)
class Refinement:
    """How the tables of a size are refined for the class: not at all, if `towards` is empty."""

    size: int
    towards: str = ""
    strength: float = 0.0


@dataclass(frozen=True)
class DistinctRows:
    """The different rows of a table, how much each weighs, and in which parts it is kept back.

    Equal rows with the class are one, with their weight: copies of a row are the same as a row of that weight, and the
    order of the rows does not matter.
    """

    data: Mapping[str, Coded]
    target: str
    weights: np.ndarray
    kept_back: np.ndarray
    """(parts, rows): the share of the weight of each row that is kept back in a part."""
    count: float
    """How many rows have a known class, copies included."""

    @classmethod
    def of(cls, table: Evidence, target: str, seed: int) -> DistinctRows:
        """The rows of a table, dealt out to the parts class by class."""
        codes, weight, copies = _distinct(table)
        names = list(table.columns)
        order = np.random.default_rng([seed, 1]).permutation(len(codes))
        codes, weight, copies = codes[order], weight[order], copies[order]
        classes = codes[:, names.index(target)]
        total = copies[classes >= 0].sum()
        kept = np.ones(len(codes), dtype=bool)
        parts = 5 if total <= 2_000 else 3 if total <= 6_000 else 4
        shares = np.zeros((parts if total <= 6_000 else 1, len(codes)))
        for label in np.unique(classes[classes >= 0]):
            rows = np.flatnonzero(classes == label)
            ends = np.cumsum(copies[rows])
            kept[rows] = (ends - copies[rows]) * total < MOST_ROWS * ends[-1]
            for part in range(len(shares)):
                inside = _multiples(ends, parts, part) - _multiples(ends - copies[rows], parts, part)
                shares[part, rows] = inside / copies[rows]
        if total > MOST_ROWS:
            kept &= (classes >= 0) | (np.arange(len(codes)) < 2 * MOST_ROWS)
        some = {name: Coded(np.ascontiguousarray(codes[kept, place])) for place, name in enumerate(names)}
        return cls(some, target, weight[kept], shares[:, kept], float(total))

    @cached_property
    def classes(self) -> np.ndarray:
        """The class of each row, -1 where it is unknown."""
        return self.data[self.target].codes

    def part(self, number: int) -> tuple[WeightedRows, WeightedRows]:
        """The rows to learn from, and those kept back."""
        back = self.kept_back[number] * self.weights
        return self._some(self.weights - back), self._some(back)

    def _some(self, weights: np.ndarray) -> WeightedRows:
        rows = np.flatnonzero(weights > 1e-12 * self.weights)
        return WeightedRows({name: Coded(column.codes[rows]) for name, column in self.data.items()}, weights[rows])

    def states(self, size: int, classes: int) -> list[int]:
        """How many states each class gets, `size` at most: no more than its rows can tell apart."""
        counts = np.bincount(self.classes[self.classes >= 0], minlength=classes)
        return [max(1, min(size, int(count) // LEAST_ROWS)) for count in counts]

    @property
    def can_be_parted(self) -> bool:
        """Whether there is something to be told, and rows enough to tell it from."""
        known = self.classes[self.classes >= 0]
        return len(np.unique(known)) > 1 and self.count >= LEAST_TO_PART


@dataclass(frozen=True)
class WeightedRows:
    """Some rows with their weights."""

    data: Mapping[str, Coded]
    weights: np.ndarray


def _multiples(ends: np.ndarray, parts: int, part: int) -> np.ndarray:
    """How many of the numbers below each end leave this remainder."""
    return np.maximum(0, np.ceil((ends - part) / parts))


def _distinct(table: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different rows in order, the weight of each, and how many copies of it there are.

    Weights that are whole numbers are copies; others (of surveys) are not.
    """
    every = slice(None, None, 1 if table.in_memory else max(1, table.rows // (4 * MOST_ROWS)))
    codes, weight = np.array(table.codes[every], dtype=np.int32), np.array(table.row_weights[every])
    codes, weight = codes[weight > 0], weight[weight > 0]
    different, number = np.unique(codes, axis=0, return_inverse=True)
    number = number.reshape(-1)
    total = np.bincount(number, weight, minlength=len(different))
    is_count = bool((weight == np.round(weight)).all())
    copies = total if is_count else np.bincount(number, minlength=len(different)).astype(np.float64)
    return different, total, copies


@dataclass
class Choice:
    """Tries candidates, one after the other, and notes how each tells the class of rows that were kept back.

    Args:
        rows: what they are tried on.
        structure: of the candidates.
        refine: whether their tables may be refined for the class.
        network: makes a network of a size.
        smoothing: of learning by EM.
        ordered: the columns whose levels have an order.
        engine: see `Network.learn`.
        seed: of random starts.
        seconds: after which no candidate is begun; unless given, a limit of work.
        told: who is told what is tried.
        stopped: asked whether to end.
    """

    rows: DistinctRows
    structure: str
    refine: bool
    network: Callable[[int], Network]
    smoothing: Any
    ordered: Sequence[str]
    engine: str
    seed: int
    seconds: float | None
    told: ReadingProgress
    stopped: Callable[[], bool]
    tried: list[ClassCandidate] = field(default_factory=list)
    spent: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    _losses: list[np.ndarray] = field(default_factory=list)
    _begun: list[Refinement] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, or somebody asked to end."""
        if self.stopped():
            return True
        if self.seconds is not None:
            return time.monotonic() - self.begun > self.seconds
        return self.spent > MOST_WORK

    def penalties(self, found: ClassCandidate) -> list[Penalty]:
        """By which a candidate was refined, one after the other; none if it was not."""
        same = [one for one in self._begun if (one.size, one.towards) == (found.size, found.towards)]
        strengths = [one.strength for one in same] if found.towards else []
        until = strengths[: strengths.index(found.strength) + 1] if found.towards else []
        return [Penalty(strength, found.towards, self.ordered) for strength in until]

    @property
    def best(self) -> ClassCandidate:
        """The candidate of the least log-loss; the first of equal ones."""
        return min(self.tried, key=lambda one: one.log_loss)

    def search(self, sizes: Iterable[int], patient: bool = True) -> None:
        """Try sizes, each with all that may refine it; if `patient` until two did not tell the class better."""
        failed = 0
        with self.told:
            for size in sizes:
                before = self.best.log_loss if self.tried else np.inf
                self._try_size(size, patient)
                failed = failed + 1 if self.best.log_loss >= before else 0
                if self.stopped() or (patient and (failed > 1 or self.is_over)):
                    break

    def _try_size(self, size: int, patient: bool) -> None:
        trials = [_Trial(self, number, size) for number in range(len(self.rows.kept_back))]
        first = self._first_strength
        self._judge(trials, Refinement(size), always=not patient)
        for towards in (["independence"] if size == 1 else ["independence", "fit"]) * self.refine:
            losses: list[float] = []
            for strength in STRENGTHS[first:]:
                if self.is_over:
                    return
                losses.append(self._judge(trials, Refinement(size, towards, strength)))
                if losses[-1] > min(losses):
                    break
            if first and losses[0] == min(losses) and not self.is_over:
                self._judge(trials, Refinement(size, towards, STRENGTHS[first - 1]))

    @property
    def _first_strength(self) -> int:
        """Where to begin among the strengths: one before that of the best candidate so far."""
        best = self.best.strength if self.tried else 0.0
        return max(1, STRENGTHS.index(best) - 1) if best else 1

    def _judge(self, trials: Sequence[_Trial], how: Refinement, always: bool = False) -> float:
        """Note the log-loss of a candidate, unless it is clearly worse than another on the first rows."""
        states = trials[0].states
        self.told(f"candidates tried; now {states} states{', refined' if how.towards else ''}", len(self.tried), 0)
        self._begun.append(how)
        losses, weights = np.zeros(0), np.zeros(0)
        rival = None if always else self._rival(how)
        for trial in trials:
            loss, weight = trial.losses(how)
            losses, weights = np.concatenate([losses, loss]), np.concatenate([weights, weight])
            if rival is not None and _is_clearly_worse(losses - rival[: len(losses)], weights):
                return np.inf
        mean, error = _mean_and_error(losses, weights)
        parameters = trials[0].network.free_parameters
        self.tried.append(
            ClassCandidate(self.structure, how.size, states, how.towards, how.strength, mean, error, parameters)
        )
        self._losses.append(losses)
        return mean

    def _rival(self, how: Refinement) -> np.ndarray | None:
        """The losses, row by row, of the best candidate so far that was refined, if this one is; of the best of all."""
        some = [place for place, one in enumerate(self.tried) if one.towards or not how.towards]
        return self._losses[min(some, key=lambda place: self.tried[place].log_loss)] if some else None


def _mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean of the values of rows, and its standard error."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights) / max(len(values) - 1, 1)))


def _is_clearly_worse(differences: np.ndarray, weights: np.ndarray) -> bool:
    """Whether losses are larger by more than chance would have it."""
    mean, error = _mean_and_error(differences, weights)
    return len(differences) > 20 and mean > CLEARLY_WORSE * error > 0


class _Trial:
    """A candidate in one part: learnt from some rows, to be asked for the class of the others."""

    def __init__(self, choice: Choice, number: int, size: int) -> None:
        self._choice = choice
        self._learnt, self._asked = choice.rows.part(number)
        self.network = choice.network(size)
        self._z: dict[str, np.ndarray] = {}
        history = self.network.learn(
            self._learnt.data, epochs=EPOCHS, tolerance=10 * TOLERANCE, accelerate=True, smoothing=choice.smoothing,
            weights=self._learnt.weights, seed=choice.seed, engine=choice.engine,
        )  # fmt: skip
        self._work = CALL + len(self._learnt.weights) * len(choice.rows.data) * (self.states + 8)
        choice.spent += history.epochs * self._work

    @property
    def states(self) -> int:
        """How many states the hidden variable has."""
        return sum(self.network._spec.layout.prior_sizes)

    @cached_property
    def _task(self) -> Conditional:
        choice = self._choice
        return Conditional(self.network, self._learnt.data, choice.rows.target, self._learnt.weights, choice.engine)

    def losses(self, how: Refinement) -> tuple[np.ndarray, np.ndarray]:
        """The log-loss of each row that was kept back, and its weight."""
        target, network = self._choice.rows.target, self.network
        if how.towards:
            penalty = Penalty(how.strength, how.towards, self._choice.ordered)
            before = self._task.evaluations
            z = self._task.maximised(penalty, ITERATIONS, TOLERANCE, self._z.get(how.towards), self._choice.stopped)
            self._choice.spent += 2 * (self._task.evaluations - before) * self._work
            self._z[how.towards] = z
            network = self._task.network(z)
        data = dict(self._asked.data)
        classes = data.pop(target).codes
        found = network.propagate(
            data, keep=[target], parts=["marginal"], engine=self._choice.engine, impossible="mark"
        ).marginal(target)
        chances = np.nan_to_num(found[np.arange(len(classes)), classes])
        return -np.log(np.maximum(chances, FAINTEST)), self._asked.weights


def refined(
    network: Network,
    table: Evidence,
    target: str,
    penalties: Sequence[Penalty],
    engine: str,
    stopped: Callable[[], bool],
) -> Network:
    """The network with tables that tell the class, from all rows, or as many as that needs.

    It is refined as the candidate was, by one penalty after the other with as many iterations: more of them would fit
    the rows more closely than what was judged.
    """
    some = table.take(slice(None, None, max(1, table.rows // REFINED_ROWS)))
    codes = np.array(some.codes, dtype=np.int32)
    data = {name: Coded(np.ascontiguousarray(codes[:, place])) for place, name in enumerate(some.columns)}
    task = Conditional(network, data, target, np.array(some.row_weights), engine)
    z: np.ndarray = task.maximised(penalties[0], ITERATIONS, TOLERANCE, None, stopped)
    for penalty in penalties[1:]:
        z = task.maximised(penalty, ITERATIONS, TOLERANCE, z, stopped)
    found: Network = task.network(z)
    return found
