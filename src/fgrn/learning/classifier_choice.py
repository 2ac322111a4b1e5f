"""Choosing a classifier by cross-validation: the structure, hidden states and penalty with the least log-loss.

Every candidate is learnt from some of the rows and predicts the class of the others, in turn. Within a structure the
number of hidden states grows as long as the log-loss improves. Each number begins with EM, which maximises the
likelihood of the rows, and continues with tables that predict the class (see `learning.conditional`), whose penalty is
made weaker, or else stronger, as long as the log-loss improves. Every candidate is evaluated at its best temperature
(see `learning.calibration`). At the end the best candidates are averaged, also with the simplest ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..core.progress import ReadingProgress
from ..core.refined_weight import RefinedWeight
from .calibration import Calibration, CalibrationSearch, Predictions, can_fit_matrix
from .candidate_means import SIMPLEST, CandidateMeans
from .choice_budget import Budget
from .class_trials import ITERATIONS, REFINED_ROWS, Family, Recipe, Refinement, SimplestPart, Trial
from .criteria import EQUAL, ClassCandidate, ClassSelection
from .cross_validation import MOST_ROWS, PartedRows, clear_excess, mean_and_error
from .incomplete_rows import ENOUGH_HELD_OUT, IncompletePredictions, best_refined_weight

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""The strengths of the penalty, the strongest first."""

FIRST_STRENGTH = 3.0
"""The strength that is tried first, unless the best candidate so far has a weaker one: then the one before that. A
strong penalty makes hidden states alike, and they stay so."""

ALMOST_SURE = 0.01
"""The log-loss below which the classes are predicted almost surely: no other penalty can be much better."""

USUAL_EPOCHS = 15
"""The usual number of epochs of a candidate, to estimate its work in advance."""

CALIBRATING_SHARE, CALIBRATIONS = 0.1, 10
"""The share of the budget for calibration, and the usual number of passes over all folds that it takes."""

CATCHING_UP = 4
"""A candidate that is clearly worse is tried with further strengths only if this many gains like the last would make
it as good as the best."""


@dataclass
class _Progress:
    """The progress of one structure in the search: consecutive sizes without gain, and its share of the budget."""

    family: Family
    failed: int = 0
    used: float = 0.0


@dataclass(frozen=True, eq=False)
class _HeldOutLosses:
    """The log-losses and weights of the held-out rows that a candidate was tested on.

    behind   if it was dropped after some of the rows: by how much it was behind another one, in the mean
    """

    losses: np.ndarray
    weights: np.ndarray
    behind: float = 0.0

    def ends(self, before: _HeldOutLosses) -> bool:
        """Return whether no further penalty is worth a trial: no gain over the last one, or too far behind."""
        rows = min(len(self.losses), len(before.losses))
        last, now = (np.average(one.losses[:rows], weights=self.weights[:rows]) for one in (before, self))
        return bool(last - now < max(self.behind / CATCHING_UP, EQUAL * last))


@dataclass
class ClassSearch:
    """A search over classifiers: fits one candidate after another, and records its log-loss on held-out rows.

    rows       what they are tried on
    families   the structures, in the order in which they are tried
    budget     what this may cost
    reporter   reports the progress of the search
    strengths  of the penalty that may be tried, the strongest first
    starts     random starts of learning the best candidate from all rows
    tried      the candidates so far
    unfinished the structures of which the budget did not allow to try all that might be better
    averaged   for each network the candidates whose mean it is, if that is better than the best of them, see `average`
    simplest   the part of the simplest candidates in the prediction, see `average`; None if they have none
    calibration  of the best candidate, or of the mean, see `calibrate`
    weight     how much the chosen tables count in rows with missing values, see `weigh_incomplete_rows`
    """

    rows: PartedRows
    families: Sequence[Family]
    budget: Budget
    reporter: ReadingProgress
    strengths: Sequence[float] = STRENGTHS
    starts: int = 1
    tried: list[ClassCandidate] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    averaged: Sequence[Sequence[ClassCandidate]] = ()
    simplest: SimplestPart | None = None
    calibration: Calibration = field(default_factory=Calibration)
    weight: RefinedWeight | None = None
    _of_best: Sequence[tuple[Trial, Sequence[Any]]] = ()
    _of_simplest: list[Trial] = field(default_factory=list)
    _losses: list[np.ndarray] = field(default_factory=list)
    _begun: list[Refinement] = field(default_factory=list)
    _edges: dict[Refinement, str] = field(default_factory=dict)

    @property
    def selection(self) -> ClassSelection:
        """The candidates that were tried, and the chosen one."""
        unfinished = tuple(one.structure for one in self.families if one.structure in self.unfinished)
        dropped = len(self._begun) - len(self.tried)
        temperature, mixed = self.calibration.temperature, self.calibration.mixing is not None
        return ClassSelection(
            tuple(self.tried), dropped=dropped, unfinished=unfinished, temperature=temperature, mixed=mixed,
            averaged=sum(map(len, self.averaged)), networks=max(len(self.averaged), 1),
            simplest_share=0.0 if self.simplest is None else self.simplest.share,
        )  # fmt: skip

    @property
    def best(self) -> ClassCandidate:
        """The candidate with the least log-loss; the first of equal ones."""
        return self.selection.best

    @property
    def losses_of_best(self) -> np.ndarray:
        """The log-loss of the best candidate in each held-out row, fold by fold."""
        return self._losses[self.tried.index(self.best)]

    @property
    def best_family(self) -> Family:
        """The structure of the best candidate."""
        return next(family for family in self.families if family.structure == self.best.structure)

    @property
    def edge(self) -> str:
        """Which end of the tried strengths the best one is at, "weakest" or "strongest"; "" if at neither.

        There, what lies beyond may be better; elsewhere the next one was tried, and was not.
        """
        best = self.best
        return (
            "" if len(self.strengths) == 1 or best.log_loss < ALMOST_SURE else self._edges.get(Refinement.of(best), "")
        )

    @property
    def recipe(self) -> Recipe:
        """How the tables of the best candidate, or of the chosen mean, are made."""
        refined = self._means.refined(self.best, self.averaged)
        return Recipe(refined, self.calibration, self.rows.table, self.simplest)

    @property
    def _means(self) -> CandidateMeans:
        """The candidates so far, of which means may be taken."""
        weights, several = self.rows.weights_of_parts, len(self.strengths) > 1
        return CandidateMeans(self.tried, self._losses, weights, self._begun, several)

    def search(self, sizes: Iterable[int], patient: bool = True) -> None:
        """Try all sizes of all structures with all their refinements; if `patient`, only while they improve.

        The structures take turns, from size to size. One of them ends when two sizes in a row did not tell the class
        better than those before, or it has had its share of the budget, which is the same for all that have not ended.
        """
        begun = [_Progress(family) for family in self.families]
        with self.reporter:
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

    def average(self) -> None:
        """Use the mean of the best candidates over penalties, and that of these and the simplest ones.

        The first one is used if it predicts better, see `CandidateMeans.over_penalties`, the second one unless it
        predicts worse, see `CandidateMeans.with_simplest`. Where one penalty was given, or nothing is refined, there
        is nothing to take the first mean of; where nothing is refined, there is no second one either.
        """
        trials, means = [trial for trial, _ in self._of_best], self._means
        chosen = means.alone(self.best, trials) if self.budget.must_end() else means.over_penalties(self.best, trials)
        is_simplest = (self.best.structure, self.best.size) == SIMPLEST
        if self._of_simplest and not is_simplest and self.best_family.refine and not self.budget.must_end():
            chosen = means.with_simplest(chosen, self._of_simplest)
        self.averaged, self.simplest, self._of_best = chosen.averaged, chosen.simplest, chosen.of_trials
        self.calibration = Calibration(chosen.temperature)

    def calibrate(self) -> None:
        """Fit the temperature and the matrix that calibrate the best candidate.

        Every candidate is evaluated at its best temperature. Where classes have several hidden states, or values are
        missing, a network at a temperature is not quite the same: there the temperature is searched for once more.
        """
        family, best, budget, begun = self.best_family, self.best, self.budget, self.budget.used
        trials = [trial for trial, _ in self._of_best]
        temperature = self.calibration.temperature
        budget.reserved = self._work_to_learn(trials)
        if not family.temper:
            return

        def predicted(trial: Trial, models: Sequence[Any], calibration: Calibration) -> Predictions:
            budget.spend(len(models) * trial.work)
            return trial.predicted_by([family.calibrated(model, calibration) for model in models])

        def allowed() -> bool:
            return not budget.must_end() and budget.used - begun < CALIBRATING_SHARE

        search = CalibrationSearch([partial(predicted, trial, models) for trial, models in self._of_best], allowed)
        if best.n_hidden != trials[0].classes or not self.rows.is_complete:
            self.calibration = search.best_temperature(temperature)
        if can_fit_matrix(sum(trial.held_out_rows for trial in trials), trials[0].classes):
            self.calibration = search.with_matrix_if_better(self.calibration)

    def weigh_incomplete_rows(self) -> None:
        """Find how much the chosen tables count in rows with missing values, beside those of EM.

        Of the seconds that are left it uses half at most, and keeps as many as it used, to do the same with all rows.
        """
        family, rows, budget = self.best_family, self.rows, self.budget
        known = rows.table.known_values([rows.target])
        mean = float(np.average(known, weights=rows.table.row_weights * (rows.classes >= 0)))
        usual = round(mean, 9)  # of complete rows it is their number of columns, whatever their weights
        if not usual or self.recipe.changes_nothing:
            budget.kept = 0.0
            return
        parts: list[IncompletePredictions] = []
        tried, begun = 0, budget.elapsed
        budget.keep_half()
        for trial, models in self._of_best:
            if budget.must_end() or tried >= ENOUGH_HELD_OUT:
                break
            tried += trial.held_out_rows
            ready = [family.calibrated(model, self.calibration) for model in models]
            parts.append(trial.incomplete_predictions(ready))
        budget.kept = budget.elapsed - begun
        self.weight = best_refined_weight(usual, parts)

    def reserve_for_refining(self) -> None:
        """Reserve only the budget for refining the best candidate with all rows."""
        trial = self._of_best[0][0]
        refining = trial.refining + self._work_of_simplest
        self.budget.reserved = self._times_the_rows(trial, REFINED_ROWS) * refining

    def _work_to_learn(self, trials: Sequence[Trial], more: float = 0.0) -> float:
        """Return the work of learning a candidate from all rows, extrapolated from its work in a fold."""
        trial = trials[0]
        refining = trial.refining + more / len(trials) + self._work_of_simplest
        learning = self.starts * trial.learning
        return self._times_the_rows(trial) * learning + self._times_the_rows(trial, REFINED_ROWS) * refining

    @property
    def _work_of_simplest(self) -> float:
        """The work of the simplest candidates in a fold, if they have a part in the prediction."""
        return 0.0 if self.simplest is None else self._of_simplest[0].learning + self._of_simplest[0].refining

    def _work_to_finish(self, trials: Sequence[Trial], more: float = 0.0) -> float:
        """Return the work after the search if this candidate is the best: calibration, and learning from all rows."""
        calibrating = CALIBRATIONS * sum(trial.work + trial.query_work for trial in trials) * trials[0].family.temper
        return calibrating + self._work_to_learn(trials, more)

    def _times_the_rows(self, trial: Trial, most: float = np.inf) -> float:
        """Return the ratio of all rows to the rows that one fold learns from.

        The limit of work is one of the choice: the rows of a large table that are not chosen by do not count there.
        """
        count = min(self.rows.count, most, np.inf if self.budget.seconds is not None else MOST_ROWS)
        return count / max(trial.learnt_rows, 1.0)

    def _least(self, family: Family) -> float:
        """Return the least log-loss of a structure so far; that of refined tables, if refinement is allowed.

        Those that are not, and get better with the size, may still be far behind others that are.
        """
        found = (one for one in self.tried if one.structure == family.structure and (one.towards or not family.refine))
        return min((one.log_loss for one in found), default=np.inf)

    def _try_size(self, family: Family, size: int, patient: bool) -> bool:
        """Try a size with all its refinements; False if the budget is too small, or it equals another size.

        It is where no class has rows enough for more states, or a tree has no edges.
        """
        parts = self.rows.parts
        again = any(one.structure == family.structure for one in self._begun)
        made, queried = family.overhead(len(parts[0][0].columns), again)
        if patient and self.tried and not self.budget.allows(len(parts) * (made + queried)):
            self.unfinished.add(family.structure)
            return False
        first = Trial(self.rows, 0, family, size, self.budget, again)
        cost = len(parts) * first.work
        if any((one.n_hidden, one.n_parameters) == (first.states, first.parameters) for one in self.tried):
            return False
        work = USUAL_EPOCHS * cost + len(parts) * (made + queried)
        finishing = self.starts * USUAL_EPOCHS * first.work * self._times_the_rows(first)
        if patient and self.tried and not self.budget.allows(work, finishing):
            self.unfinished.add(family.structure)
            return False
        others = (Trial(self.rows, number, family, size, self.budget, again) for number in range(1, len(parts)))
        trials = [first, *others]
        if (family.structure, size) == SIMPLEST:
            self._of_simplest = trials
        start = self._first_strength
        self._evaluate(trials, Refinement(family.structure, size), always=not patient)
        for towards in (["independence"] if size == 1 else ["independence", "fit"]) * family.refine:
            self._try_strengths(trials, towards, cost, start)
        return True

    def _try_strengths(self, trials: Sequence[Trial], towards: str, cost: float, start: int) -> None:
        """Try penalties from a given strength on: weaker ones while they improve, or else stronger ones.

        Where it still paid when there were no more of them, or the budget ended, the last one is at the edge.
        """
        family, size = trials[0].family, trials[0].size
        weaker, stronger = self.strengths[start:], self.strengths[:start][::-1]
        begun, paid, is_over = self._try_while_better(weaker, trials, towards, cost)
        if paid and not is_over:
            self._edges[Refinement(family.structure, size, towards, weaker[paid - 1])] = "weakest"
        if paid == 1 and (size == 1 or towards == "fit"):  # else states become alike, as if there were one
            _, paid, is_over = self._try_while_better(stronger, trials, towards, cost, begun)
            if not is_over:
                last = Refinement(family.structure, size, towards, [weaker[0], *stronger][paid])
                self._edges.setdefault(last, "strongest")

    def _try_while_better(
        self,
        strengths: Sequence[float],
        trials: Sequence[Trial],
        towards: str,
        cost: float,
        last: _HeldOutLosses | None = None,
    ) -> tuple[_HeldOutLosses | None, int, bool]:
        """Try one strength after another while each improves on the `last` one.

        Returns what the first of them came to, how many paid, the first among them if none came before, and whether
        one did not.
        """
        begun, paid = None, 0
        for strength in strengths:
            work = ITERATIONS * cost + len(trials) * trials[0].query_work
            if self.budget.is_over or not self.budget.allows(work, self._work_to_finish(trials, work)):
                self.unfinished.add(trials[0].family.structure)
                break
            found = self._evaluate(trials, Refinement(trials[0].family.structure, trials[0].size, towards, strength))
            begun = begun or found
            if last is not None and found.ends(last):
                return begun, paid, True
            last, paid = found, paid + 1
        return begun, paid, False

    @property
    def _first_strength(self) -> int:
        """Return the position of the first strength to try: one before that of the best candidate so far."""
        first = min(sum(one > FIRST_STRENGTH for one in self.strengths), len(self.strengths) - 1)
        best = self.best.strength if self.tried else 0.0
        return max(first, self.strengths.index(best) - 1) if best else first

    def _evaluate(self, trials: Sequence[Trial], how: Refinement, always: bool = False) -> _HeldOutLosses:
        """Record the log-loss of a candidate, or drop it if it is clearly worse than another on the first rows."""
        states, parameters = trials[0].states, trials[0].parameters
        self.reporter(f"candidates tried; now {states} states{', refined' if how.towards else ''}", len(self.tried), 0)
        self._begun.append(how)
        rival = None if always else self._rival(how)
        parts: list[Predictions] = []
        for trial in trials:
            parts.append(trial.predictions(how))
            predictions = Predictions.of_all(parts)
            temperature = predictions.temperature if trial.family.temper else 1.0
            losses, weights = predictions.losses(temperature), predictions.weights
            behind = 0.0 if rival is None else clear_excess(losses - rival[: len(losses)], weights)
            if behind:
                return _HeldOutLosses(losses, weights, behind)
        mean, error = mean_and_error(losses, weights)
        self._losses.append(losses)  # before the candidate, which may be the last one if the user interrupts
        self.tried.append(
            ClassCandidate(
                how.structure, how.size, states, how.towards, how.strength, mean, error, parameters, temperature
            )
        )
        if self.best is self.tried[-1]:
            self._of_best = [(trial, [trial.models[how]]) for trial in trials]
            self.budget.reserved = self._work_to_finish(trials)
            self.budget.kept = 2 * trials[0].seconds_for_incomplete_rows  # for a fold, and for all rows
        return _HeldOutLosses(losses, weights)

    def _rival(self, how: Refinement) -> np.ndarray | None:
        """Return the losses, row by row, of the best comparable candidate: refined if this one is, or of its structure.

        Tables that are not refined yet do not tell what will come of a structure.
        """
        alike = [one.towards if how.towards else one.structure == how.structure for one in self.tried]
        some = [place for place, is_alike in enumerate(alike) if is_alike]
        return self._losses[min(some, key=lambda place: self.tried[place].log_loss)] if some else None
