"""The choice of a classifier: structures, hidden states and refined tables, compared by the log-loss of the class.

Every candidate is learnt from some of the rows and asked for the class of the others, in turn. Within a structure sizes
grow as long as that pays; each begins with EM, which makes the rows likely, and goes on with tables that tell the class
(see `learning.conditional`), the strength of the penalty being lowered as long as that pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..core.progress import ReadingProgress
from ..tables.encoded import Evidence
from .class_rows import PartedRows
from .conditional import Conditional, Penalty
from .criteria import ClassCandidate, ClassSelection

MOST_WORK = 1.2e10
"""What choosing may cost unless seconds are given, for MANY_ROWS rows: cells visited, summed over all E-steps, about
6 s of CPU time. So the choice always ends at the same candidate. Of a few rows a third of it can be had."""

MANY_ROWS = 10_000
"""Rows from which on the budget is whole."""

STRENGTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Of the penalty: from one of them on they are lowered until one is worse than the one before; and if that did not
help, raised as long as it does."""

FIRST_STRENGTH = STRENGTHS.index(3.0)
"""Where that begins, or before the best so far if that is weaker: a strong one makes states alike, which stay so."""

ITERATIONS = 30
"""Of refining tables by one penalty."""

EPOCHS, TOLERANCE = 60, 1e-5
"""Of learning a candidate: the most epochs, and the gain per row at which it, and refining it, has converged."""

USUAL_EPOCHS = 15
"""Of learning a candidate, to foresee what it costs."""

REFINED_ROWS = 200_000
"""Rows that the tables of the chosen model are refined on, at most."""

FAINTEST = 1e-9
"""A smaller probability of the class that came true counts as this one."""

TEMPERATURE_STEP, MOST_STEPS = 1.1, 6
"""The factor by which the temperature is raised or lowered while that helps, and how often."""

CATCHING_UP = 4
"""Strengths in which a candidate that is clearly worse has to come up with the other, at the pace of the last one."""

CLEARLY_WORSE = 3.0
"""A candidate whose log-loss on the first rows is larger than that of another by so many standard errors of the
difference is not tried on the others."""


class Family(Protocol):
    """Classifiers of one structure, in all sizes, as they are compared here; M is a model of it."""

    @property
    def structure(self) -> str:
        """The name of the structure."""

    @property
    def refine(self) -> bool:
        """Whether tables may be refined for the class."""

    @property
    def temper(self) -> bool:
        """Whether a temperature may be found for the class."""

    @property
    def ordered(self) -> Sequence[str]:
        """The columns whose levels have an order."""

    def untaught(self, size: int, rows: Evidence) -> Any:
        """A model of so many hidden states a class (or of all), made for rows, whose tables are still to be learnt."""

    def teach(self, model: Any, rows: Evidence, epochs: int, tolerance: float) -> int:
        """Learn the tables of a model by EM; returns the epochs that were needed."""

    def size_of(self, model: Any, rows: Evidence) -> tuple[int, int, float]:
        """The states of the hidden variable, the free parameters, and the work of an E-step over these rows."""

    def conditional(self, model: Any, rows: Evidence) -> Conditional:
        """The conditional likelihood of the class in some rows."""

    def with_tables(self, model: Any, values: np.ndarray) -> Any:
        """A copy of a model with other tables."""

    def chances(self, model: Any, rows: Evidence) -> np.ndarray:
        """(rows, classes): the distribution of the class in each row, given its other columns."""

    def tempered(self, model: Any, temperature: float) -> Any:
        """A copy of a model whose joint distribution is raised to the power 1 / temperature, and sums to one again."""


@dataclass
class Budget:
    """The budget of a search: seconds, or an amount of work that does not depend on the clock.

    seconds   after which no candidate is begun; None for the limit of work
    stopped   asked whether to end at once
    rows      of the table
    """

    seconds: float | None
    stopped: Callable[[], bool]
    rows: float = MANY_ROWS
    spent: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    @property
    def work(self) -> float:
        """The limit of work."""
        return MOST_WORK * (1 + 2 * min(self.rows / MANY_ROWS, 1.0)) / 3

    @property
    def used(self) -> float:
        """The share of the budget that is spent."""
        return self.spent / self.work if self.seconds is None else (time.monotonic() - self.begun) / self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, or a stop was requested."""
        return self.stopped() or not self.allows(0.0)

    def allows(self, work: float) -> bool:
        """Whether so much more work is within the budget; how long it takes is foreseen from the work until now."""
        foreseen = work / self.spent if self.seconds is not None and self.spent else work / self.work
        return self.used * (1 + foreseen) <= 1 if self.seconds is not None else self.used + foreseen <= 1


@dataclass(frozen=True)
class Refinement:
    """How the tables of a size are refined for the class: not at all, if `towards` is empty."""

    structure: str
    size: int
    towards: str = ""
    strength: float = 0.0


@dataclass
class _Progress:
    """The progress of a structure in the search: consecutive sizes without gain, and its share of the budget."""

    family: Family
    failed: int = 0
    used: float = 0.0


@dataclass(frozen=True, eq=False)
class _Judged:
    """The log-losses and weights of the rows that a candidate was asked about.

    behind   if it was dropped after some of the rows: by how much it was behind another one, in the mean
    """

    losses: np.ndarray
    weights: np.ndarray
    behind: float = 0.0

    def ends(self, before: _Judged) -> bool:
        """Whether no weaker penalty is worth a trial: worse than the one before, or too far behind to catch up."""
        rows = min(len(self.losses), len(before.losses))
        gain = np.average(before.losses[:rows] - self.losses[:rows], weights=self.weights[:rows])
        return bool(gain < self.behind / CATCHING_UP)


@dataclass
class ClassSearch:
    """A search over classifiers: fits one candidate after the other, and records its log-loss on held-out rows.

    rows       what they are tried on
    families   the structures, in the order in which they are tried
    budget     what this may cost
    told       who is told what is tried
    tried      the candidates so far
    unfinished the structures of which the budget did not allow to try all that might be better
    temperature  of the best candidate, see `calibrate`
    """

    rows: PartedRows
    families: Sequence[Family]
    budget: Budget
    told: ReadingProgress
    tried: list[ClassCandidate] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    temperature: float = 1.0
    _of_best: list[tuple[_Trial, Any]] = field(default_factory=list)
    _losses: list[np.ndarray] = field(default_factory=list)
    _begun: list[Refinement] = field(default_factory=list)

    @property
    def selection(self) -> ClassSelection:
        """What was tried, and what was chosen."""
        unfinished = tuple(one.structure for one in self.families if one.structure in self.unfinished)
        dropped = len(self._begun) - len(self.tried)
        return ClassSelection(tuple(self.tried), dropped=dropped, unfinished=unfinished, temperature=self.temperature)

    @property
    def best(self) -> ClassCandidate:
        """The candidate of the least log-loss; the first of equal ones."""
        return self.selection.best

    @property
    def best_family(self) -> Family:
        """The structure of the best candidate."""
        return next(family for family in self.families if family.structure == self.best.structure)

    def penalties(self, found: ClassCandidate) -> list[Penalty]:
        """By which a candidate was refined, one after the other; none if it was not."""
        if not found.towards:
            return []
        key = (found.structure, found.size, found.towards)
        strengths = [one.strength for one in self._begun if (one.structure, one.size, one.towards) == key]
        until = strengths[: strengths.index(found.strength) + 1]
        return [Penalty(strength, found.towards, self.best_family.ordered) for strength in until]

    def search(self, sizes: Iterable[int], patient: bool = True) -> None:
        """Try all sizes of all structures, each with all that may refine it; if `patient` while that pays.

        The structures take turns, from size to size. One of them ends when two sizes in a row did not tell the class
        better than those before, or it has had its share of the budget, which is the same for all that have not ended.
        """
        begun = [_Progress(family) for family in self.families]
        with self.told:
            for size, progress in ((size, progress) for size in sizes for progress in begun):
                going_on = [one for one in begun if one.failed < 2]
                share = (1 - sum(one.used for one in begun if one.failed > 1)) / max(len(going_on), 1)
                if patient and progress.failed > 1:
                    continue
                if patient and self.tried and (progress.used > share or self.budget.is_over):
                    self.unfinished.add(progress.family.structure)
                    continue
                before, used = self._least(progress.family), self.budget.used
                tried = self._try_size(progress.family, size, patient)
                better = self._least(progress.family) < before
                progress.failed = 0 if better else progress.failed + 1 if tried else 2
                progress.used += self.budget.used - used
                if self.budget.stopped():
                    break

    def calibrate(self) -> None:
        """Find the temperature of the best candidate: what is told of a class is raised to the power 1 / temperature.

        It is the one of the least log-loss of the rows that were kept back (temperature scaling, Guo et al., 2017),
        raised or lowered by a factor as long as that helps. Above 1, the candidate was too sure of the class.
        """
        family = self.best_family

        def loss(temperature: float) -> float:
            found = [trial.asked(family.tempered(model, temperature)) for trial, model in self._of_best]
            losses, weights = (np.concatenate(part) for part in zip(*found, strict=True))
            return float(np.average(losses, weights=weights))

        least = self.best.log_loss
        for factor in (TEMPERATURE_STEP, 1 / TEMPERATURE_STEP) if family.temper else ():
            for step in range(1, MOST_STEPS + 1):
                if self.budget.stopped() or (now := loss(factor**step)) >= least:
                    break
                self.temperature, least = factor**step, now
            if self.temperature != 1.0:
                break

    def _least(self, family: Family) -> float:
        """The least log-loss of a structure so far; of refined tables, if they may be.

        Those that are not, and get better with the size, may still be far behind others that are.
        """
        found = (one for one in self.tried if one.structure == family.structure and (one.towards or not family.refine))
        return min((one.log_loss for one in found), default=np.inf)

    def _try_size(self, family: Family, size: int, patient: bool) -> bool:
        """Try a size with all that may refine it; False if the budget does not allow it, or it is the same as another.

        It is where no class has rows enough for more states, or a tree has no edges.
        """
        parts = list(self.rows.parts())
        first = _Trial(self, family, size, parts[0])
        cost = len(parts) * first.work
        if any((one.n_hidden, one.n_parameters) == (first.states, first.parameters) for one in self.tried):
            return False
        if patient and self.tried and not self.budget.allows(USUAL_EPOCHS * cost):
            self.unfinished.add(family.structure)
            return False
        trials = [first, *(_Trial(self, family, size, part) for part in parts[1:])]
        start = self._first_strength
        self._judge(trials, Refinement(family.structure, size), always=not patient)
        for towards in (["independence"] if size == 1 else ["independence", "fit"]) * family.refine:
            begun, steps = self._along(STRENGTHS[start:], trials, towards, cost)
            if steps == 1:
                self._along(STRENGTHS[:start][::-1], trials, towards, cost, begun)
        return True

    def _along(
        self,
        strengths: Sequence[float],
        trials: Sequence[_Trial],
        towards: str,
        cost: float,
        last: _Judged | None = None,
    ) -> tuple[_Judged | None, int]:
        """Try one strength after the other while each pays beside the `last` one.

        Returns what the first of them came to, and how many paid, the first among them if none came before.
        """
        begun, paid = None, 0
        for strength in strengths:
            if self.budget.is_over or not self.budget.allows(ITERATIONS * cost):
                self.unfinished.add(trials[0].family.structure)
                break
            found = self._judge(trials, Refinement(trials[0].family.structure, trials[0].size, towards, strength))
            begun = begun or found
            if last is not None and found.ends(last):
                break
            last, paid = found, paid + 1
        return begun, paid

    @property
    def _first_strength(self) -> int:
        """Where to begin among the strengths: one before that of the best candidate so far."""
        best = self.best.strength if self.tried else 0.0
        return max(FIRST_STRENGTH, STRENGTHS.index(best) - 1) if best else FIRST_STRENGTH

    def _judge(self, trials: Sequence[_Trial], how: Refinement, always: bool = False) -> _Judged:
        """Note the log-loss of a candidate, unless it is dropped: clearly worse than another on the first rows."""
        states, parameters = trials[0].states, trials[0].parameters
        self.told(f"candidates tried; now {states} states{', refined' if how.towards else ''}", len(self.tried), 0)
        self._begun.append(how)
        losses, weights = np.zeros(0), np.zeros(0)
        rival = None if always else self._rival(how)
        for trial in trials:
            loss, weight = trial.losses(how)
            losses, weights = np.concatenate([losses, loss]), np.concatenate([weights, weight])
            behind = 0.0 if rival is None else _deficit(losses - rival[: len(losses)], weights, self.rows.copies)
            if behind:
                return _Judged(losses, weights, behind)
        mean, error = mean_and_error(losses, weights, self.rows.copies)
        self.tried.append(
            ClassCandidate(how.structure, how.size, states, how.towards, how.strength, mean, error, parameters)
        )
        if self.best is self.tried[-1]:
            self._of_best = [(trial, trial.tried) for trial in trials]
        self._losses.append(losses)
        return _Judged(losses, weights)

    def _rival(self, how: Refinement) -> np.ndarray | None:
        """The losses, row by row, of the best candidate so far: that was refined, if this one is, or of its structure.

        Tables that are not refined yet do not tell what will come of a structure.
        """
        alike = [one.towards if how.towards else one.structure == how.structure for one in self.tried]
        some = [place for place, is_alike in enumerate(alike) if is_alike]
        return self._losses[min(some, key=lambda place: self.tried[place].log_loss)] if some else None


def mean_and_error(values: np.ndarray, weights: np.ndarray, copies: float = 1.0) -> tuple[float, float]:
    """The weighted mean of the values of rows, and its standard error, with so many rows for a weight of 1."""
    mean = float(np.average(values, weights=weights))
    others = max(copies * weights.sum() - 1, 1.0)
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights) / others))


def _deficit(differences: np.ndarray, weights: np.ndarray, copies: float) -> float:
    """By how much losses are larger in the mean; 0 if that may be by chance."""
    mean, error = mean_and_error(differences, weights, copies)
    return mean if copies * weights.sum() > 20 and mean > CLEARLY_WORSE * error > 0 else 0.0


class _Trial:
    """A candidate in one part: learnt from some rows, to be asked for the class of the others."""

    def __init__(self, search: ClassSearch, family: Family, size: int, part: tuple[Evidence, Evidence]) -> None:
        self.family, self.size, self._search = family, size, search
        self._rows, self._asked = part
        self.model = family.untaught(size, self._rows)
        self.states, self.parameters, self.work = family.size_of(self.model, self._rows)
        self._z: dict[str, np.ndarray] = {}

    @cached_property
    def _taught(self) -> Any:
        epochs = self.family.teach(self.model, self._rows, EPOCHS, 10 * TOLERANCE)
        self._search.budget.spent += epochs * self.work
        return self.model

    @cached_property
    def _task(self) -> Conditional:
        return self.family.conditional(self._taught, self._rows)

    def losses(self, how: Refinement) -> tuple[np.ndarray, np.ndarray]:
        """The log-loss of each row that was kept back, and its weight; the model is `tried` from now on."""
        model, budget = self._taught, self._search.budget
        if how.towards:
            penalty = Penalty(how.strength, how.towards, self.family.ordered)
            before = self._task.evaluations
            z = self._task.maximised(penalty, ITERATIONS, TOLERANCE, self._z.get(how.towards), budget.stopped)
            budget.spent += 2 * (self._task.evaluations - before) * self.work
            self._z[how.towards] = z
            model = self.family.with_tables(model, self._task.values(z))
        self.tried = model
        return self.asked(model)

    def asked(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """The log-loss of each row that was kept back by a model, and its weight."""
        target = self._search.rows.target
        classes = self._asked.codes[:, self._asked.columns.index(target)]
        found = self.family.chances(model, self._asked.without(target))
        chances = np.nan_to_num(found[np.arange(len(classes)), classes])
        return -np.log(np.maximum(chances, FAINTEST)), self._asked.row_weights


def refined(
    family: Family,
    model: Any,
    table: Evidence,
    penalties: Sequence[Penalty],
    temperature: float,
    stopped: Callable[[], bool],
) -> Any:
    """Return a model with tables refined for the class, from all rows, or as many as are needed, and its temperature.

    It is refined as the candidate was, by one penalty after the other with as many iterations: more of them would fit
    the rows more closely than what was judged.
    """
    if penalties:
        task = family.conditional(model, table.take(slice(None, None, max(1, table.rows // REFINED_ROWS))))
        z = None
        for penalty in penalties:
            z = task.maximised(penalty, ITERATIONS, TOLERANCE, z, stopped)
        model = model if z is None else family.with_tables(model, task.values(z))
    return model if temperature == 1.0 else family.tempered(model, temperature)
