"""The choice of a classifier by cross-validation: structure, hidden states and penalty of the least log-loss.

Every candidate is learnt from some of the rows and asked for the class of the others, in turn. Within a structure the
number of hidden states grows as long as that pays. Each number begins with EM, which makes the rows likely, and goes on
with tables that predict the class (see `learning.conditional`), whose penalty is made weaker, or else stronger, as long
as that pays. Every candidate is judged at its best temperature (see `learning.calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from ..core.progress import ReadingProgress
from ..tables.encoded import Evidence
from .calibration import Calibration, CalibrationJudge, Predictions, can_be_mixed
from .choice_budget import Budget
from .conditional import Conditional, Penalty
from .criteria import EQUAL, ClassCandidate, ClassSelection
from .cross_validation import PartedRows, mean_and_error

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""The strengths of the penalty, the strongest first."""

FIRST_STRENGTH = 3.0
"""The strength that is tried first, unless the best candidate so far has a weaker one: then the one before that. A
strong penalty makes hidden states alike, and they stay so."""

ALMOST_SURE = 0.01
"""The log-loss below which the classes are predicted almost surely: no other penalty can be much better."""

ITERATIONS = 30
"""The most steps of the optimiser with one penalty."""

EPOCHS, TOLERANCE = 60, 1e-5
"""The most epochs in which a candidate is learnt, and the gain per row at which the optimiser has converged."""

USUAL_EPOCHS = 15
"""The epochs that a candidate usually takes, to foresee its cost."""

REFINED_ROWS = 200_000
"""Rows that the tables of the chosen model are refined on, at most."""

CALIBRATING_SHARE = 0.1
"""The share of the budget that calibrating may cost beyond that of the search."""

CATCHING_UP = 4
"""A candidate that is clearly worse is tried with further strengths only if so many gains like the last one would make
it as good as the best."""

CLEARLY_WORSE = 3.0
"""The standard errors by which the log-loss of a candidate on the first rows may be larger than that of the best: with
more it is not tried on the other rows."""


class Family(Protocol):
    """Classifiers of one structure with any number of hidden states: what the choice needs to know of them."""

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

    def overhead(self, columns: int, again: bool) -> tuple[float, float]:
        """The work of making a model of so many columns, and of asking one, however few rows there are.

        `again` is a model for rows for which another size was made before.
        """

    def conditional(self, model: Any, rows: Evidence) -> Conditional:
        """The conditional likelihood of the class in some rows."""

    def with_tables(self, model: Any, values: np.ndarray) -> Any:
        """A copy of a model with other tables."""

    def chances(self, model: Any, rows: Evidence) -> np.ndarray:
        """(rows, classes): the distribution of the class in each row, given its other columns."""

    def calibrated(self, model: Any, calibration: Calibration) -> Any:
        """A copy of a model whose tables tell the classes so, and sum to one again.

        With a temperature alone its joint distribution is raised to the power 1 / temperature.
        """


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
        """Whether no further penalty is worth a trial: no better than the one before, or too far behind to catch up."""
        rows = min(len(self.losses), len(before.losses))
        last, now = (np.average(one.losses[:rows], weights=self.weights[:rows]) for one in (before, self))
        return bool(last - now < max(self.behind / CATCHING_UP, EQUAL * last))


@dataclass
class ClassSearch:
    """A search over classifiers: fits one candidate after the other, and records its log-loss on held-out rows.

    rows       what they are tried on
    families   the structures, in the order in which they are tried
    budget     what this may cost
    told       who is told what is tried
    strengths  of the penalty that may be tried, the strongest first
    tried      the candidates so far
    unfinished the structures of which the budget did not allow to try all that might be better
    calibration  of the best candidate, see `calibrate`
    """

    rows: PartedRows
    families: Sequence[Family]
    budget: Budget
    told: ReadingProgress
    strengths: Sequence[float] = STRENGTHS
    tried: list[ClassCandidate] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    calibration: Calibration = field(default_factory=Calibration)
    _of_best: list[tuple[_Trial, Any]] = field(default_factory=list)
    _losses: list[np.ndarray] = field(default_factory=list)
    _begun: list[Refinement] = field(default_factory=list)
    _edges: dict[Refinement, str] = field(default_factory=dict)

    @property
    def selection(self) -> ClassSelection:
        """What was tried, and what was chosen."""
        unfinished = tuple(one.structure for one in self.families if one.structure in self.unfinished)
        dropped = len(self._begun) - len(self.tried)
        temperature, mixed = self.calibration.temperature, self.calibration.mixing is not None
        return ClassSelection(
            tuple(self.tried), dropped=dropped, unfinished=unfinished, temperature=temperature, mixed=mixed
        )

    @property
    def best(self) -> ClassCandidate:
        """The candidate of the least log-loss; the first of equal ones."""
        return self.selection.best

    @property
    def best_family(self) -> Family:
        """The structure of the best candidate."""
        return next(family for family in self.families if family.structure == self.best.structure)

    @property
    def edge(self) -> str:
        """The end of the strengths that were tried at which the best one is, "weakest" or "strongest"; "" if at none.

        There, what lies beyond may be better; elsewhere the next one was tried, and was not.
        """
        best = self.best
        how = Refinement(best.structure, best.size, best.towards, best.strength)
        return "" if len(self.strengths) == 1 or best.log_loss < ALMOST_SURE else self._edges.get(how, "")

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
                better = self._least(progress.family) < before * (1 - EQUAL)
                progress.failed = 0 if better else progress.failed + 1 if tried else 2
                progress.used += self.budget.used - used
                if self.budget.stopped():
                    break

    def calibrate(self) -> None:
        """Find the temperature and the matrix by which the network of the best candidate is calibrated for the class.

        Every candidate is judged at its best temperature. Where classes have several hidden states, or values are
        missing, a network at a temperature is not quite the same: there the temperature is searched for once more.
        """
        family, best, begun = self.best_family, self.best, self.budget.used
        self.calibration = Calibration(best.temperature)
        if not family.temper:
            return

        def predicted(trial: _Trial, model: Any, calibration: Calibration) -> Predictions:
            self.budget.spent += trial.work
            return trial.predicted(family.calibrated(model, calibration))

        parts = [partial(predicted, trial, model) for trial, model in self._of_best]
        judge = CalibrationJudge(
            parts, lambda: not self.budget.stopped() and self.budget.used - begun < CALIBRATING_SHARE
        )
        trials = [trial for trial, _ in self._of_best]
        if best.n_hidden != trials[0].classes or not self.rows.is_complete:
            self.calibration = judge.tempered(best.temperature)
        if can_be_mixed(sum(trial.asked_rows for trial in trials), trials[0].classes):
            self.calibration = judge.mixed(self.calibration)

    def _has_begun(self, family: Family) -> bool:
        """Whether some size of a structure has been tried."""
        return any(one.structure == family.structure for one in self._begun)

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
        parts = self.rows.parts
        made, asked = family.overhead(len(parts[0][0].columns), self._has_begun(family))
        if patient and self.tried and not self.budget.allows(len(parts) * (made + asked)):
            self.unfinished.add(family.structure)
            return False
        first = _Trial(self, family, size, parts[0])
        cost = len(parts) * first.work
        if any((one.n_hidden, one.n_parameters) == (first.states, first.parameters) for one in self.tried):
            return False
        if patient and self.tried and not self.budget.allows(USUAL_EPOCHS * cost + len(parts) * (made + asked)):
            self.unfinished.add(family.structure)
            return False
        trials = [first, *(_Trial(self, family, size, part) for part in parts[1:])]
        start = self._first_strength
        self._judge(trials, Refinement(family.structure, size), always=not patient)
        for towards in (["independence"] if size == 1 else ["independence", "fit"]) * family.refine:
            self._try_strengths(trials, towards, cost, start)
        return True

    def _try_strengths(self, trials: Sequence[_Trial], towards: str, cost: float, start: int) -> None:
        """Try penalties from one of the strengths on: weaker ones while that pays, or else stronger ones.

        Where it still paid when there were no more of them, or the budget ended, the last one is at the edge.
        """
        family, size = trials[0].family, trials[0].size
        weaker, stronger = self.strengths[start:], self.strengths[:start][::-1]
        begun, paid, is_over = self._along(weaker, trials, towards, cost)
        if paid and not is_over:
            self._edges[Refinement(family.structure, size, towards, weaker[paid - 1])] = "weakest"
        if paid == 1 and (size == 1 or towards == "fit"):  # else states become alike, as if there were one
            _, paid, is_over = self._along(stronger, trials, towards, cost, begun)
            if not is_over:
                last = Refinement(family.structure, size, towards, [weaker[0], *stronger][paid])
                self._edges.setdefault(last, "strongest")

    def _along(
        self,
        strengths: Sequence[float],
        trials: Sequence[_Trial],
        towards: str,
        cost: float,
        last: _Judged | None = None,
    ) -> tuple[_Judged | None, int, bool]:
        """Try one strength after the other while each pays beside the `last` one.

        Returns what the first of them came to, how many paid, the first among them if none came before, and whether
        one did not.
        """
        begun, paid = None, 0
        for strength in strengths:
            if self.budget.is_over or not self.budget.allows(ITERATIONS * cost + len(trials) * trials[0].asking):
                self.unfinished.add(trials[0].family.structure)
                break
            found = self._judge(trials, Refinement(trials[0].family.structure, trials[0].size, towards, strength))
            begun = begun or found
            if last is not None and found.ends(last):
                return begun, paid, True
            last, paid = found, paid + 1
        return begun, paid, False

    @property
    def _first_strength(self) -> int:
        """Where to begin among the strengths: one before that of the best candidate so far."""
        first = min(sum(one > FIRST_STRENGTH for one in self.strengths), len(self.strengths) - 1)
        best = self.best.strength if self.tried else 0.0
        return max(first, self.strengths.index(best) - 1) if best else first

    def _judge(self, trials: Sequence[_Trial], how: Refinement, always: bool = False) -> _Judged:
        """Note the log-loss of a candidate, unless it is dropped: clearly worse than another on the first rows."""
        states, parameters = trials[0].states, trials[0].parameters
        self.told(f"candidates tried; now {states} states{', refined' if how.towards else ''}", len(self.tried), 0)
        self._begun.append(how)
        rival = None if always else self._rival(how)
        parts: list[Predictions] = []
        for trial in trials:
            parts.append(trial.judged(how))
            predictions = Predictions.of_all(parts)
            temperature = predictions.temperature if trial.family.temper else 1.0
            losses, weights = predictions.losses(temperature), predictions.weights
            behind = 0.0 if rival is None else _deficit(losses - rival[: len(losses)], weights)
            if behind:
                return _Judged(losses, weights, behind)
        mean, error = mean_and_error(losses, weights)
        self.tried.append(
            ClassCandidate(
                how.structure, how.size, states, how.towards, how.strength, mean, error, parameters, temperature
            )
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


def _deficit(differences: np.ndarray, weights: np.ndarray) -> float:
    """By how much losses are larger in the mean; 0 if that may be by chance."""
    mean, error = mean_and_error(differences, weights)
    return mean if weights.sum() > 20 and mean > CLEARLY_WORSE * error > 0 else 0.0


class _Trial:
    """A candidate in one part: learnt from some rows, to be asked for the class of the others."""

    def __init__(self, search: ClassSearch, family: Family, size: int, part: tuple[Evidence, Evidence]) -> None:
        self.family, self.size, self._search = family, size, search
        self._rows, self._asked = part
        self.model = family.untaught(size, self._rows)
        made, self.asking = family.overhead(len(self._rows.columns), search._has_begun(family))
        search.budget.spent += made
        self.states, self.parameters, self.work = family.size_of(self.model, self._rows)
        self.asked_rows = self._asked.rows
        self._z: dict[str, np.ndarray] = {}

    @cached_property
    def _taught(self) -> Any:
        epochs = self.family.teach(self.model, self._rows, EPOCHS, 10 * TOLERANCE)
        self._search.budget.spent += epochs * self.work
        return self.model

    @cached_property
    def _task(self) -> Conditional:
        return self.family.conditional(self._taught, self._rows)

    def judged(self, how: Refinement) -> Predictions:
        """Predictions of a candidate for the rows that were kept back; its model is `tried` from now on."""
        model, budget = self._taught, self._search.budget
        if how.towards:
            penalty = Penalty(how.strength, how.towards, self.family.ordered)
            before = self._task.evaluations
            z = self._task.maximised(penalty, ITERATIONS, TOLERANCE, self._z.get(how.towards), budget.stopped)
            budget.spent += 2 * (self._task.evaluations - before) * self.work
            self._z[how.towards] = z
            model = self.family.with_tables(model, self._task.values(z))
        self.tried = model
        return self.predicted(model)

    def predicted(self, model: Any) -> Predictions:
        """Predictions of a model for the rows that were kept back."""
        target, copies = self._search.rows.target, self._search.rows.copies
        classes = self._asked.codes[:, self._asked.columns.index(target)]
        chances = self.family.chances(model, self._asked.without(target))
        self._search.budget.spent += self.asking
        self.classes = chances.shape[1]
        return Predictions.of(chances, classes, copies * self._asked.row_weights)


def refined(
    family: Family,
    model: Any,
    table: Evidence,
    penalties: Sequence[Penalty],
    calibration: Calibration,
    stopped: Callable[[], bool],
) -> Any:
    """Return a model with tables refined for the class, from all rows, or as many as are needed, and calibrated.

    It is refined as the candidate was, by one penalty after the other with as many iterations: more of them would fit
    the rows more closely than what was judged.
    """
    if penalties:
        task = family.conditional(model, table.take(slice(None, None, max(1, table.rows // REFINED_ROWS))))
        z = None
        for penalty in penalties:
            z = task.maximised(penalty, ITERATIONS, TOLERANCE, z, stopped)
        model = model if z is None else family.with_tables(model, task.values(z))
    return model if calibration.changes_nothing else family.calibrated(model, calibration)
