"""Means of candidates in the choice of a classifier, and how they are made again from all rows.

Which of the candidates is the best is partly chance, the more so the fewer rows there are. Here

1. the candidates with the structure and size of the best one are averaged over their penalties, if the mean has a
   smaller log-loss on held-out rows;
2. what comes of it is averaged with the simplest candidates, of one state for each class, unless that mean is clearly
   worse on held-out rows. The best of many candidates looks better there than it is, and the simplest ones vary least
   with the rows: so a little worse is good enough.

Both are geometric means, written into tables of the structure and size of the best candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .calibration import Predictions
from .class_trials import RefinedMeans, Refinement, SimplestPart, Trial, mean_model
from .criteria import ClassCandidate
from .cross_validation import clear_excess, mean_and_error

SIMPLEST = "per_class", 1
"""The structure and size of the simplest candidates: one state for each class, and columns that depend on it alone."""

SHARES_OF_SIMPLEST = (0.5, 0.25)
"""The shares of the simplest candidates in the mean of them and of the best; the first that is good enough is used."""

LITTLE_WORSE = 1.0
"""The standard errors by which the log-loss of that mean may be larger than that of the best alone."""


@dataclass(frozen=True, eq=False)
class ChosenNetworks:
    """What predicts the class of the held-out rows of each fold: a candidate, or means of several.

    averaged     for each network the candidates whose mean it is; none for a candidate alone
    of_trials    the networks of each fold
    temperature  with the least log-loss
    losses       the log-loss of each held-out row at that temperature
    simplest     the part of the simplest candidates; None if they have none
    """

    averaged: Sequence[Sequence[ClassCandidate]]
    of_trials: Sequence[tuple[Trial, Sequence[Any]]]
    temperature: float
    losses: np.ndarray
    simplest: SimplestPart | None = None

    @classmethod
    def evaluated(
        cls,
        averaged: Sequence[Sequence[ClassCandidate]],
        of_trials: Sequence[tuple[Trial, Sequence[Any]]],
        simplest: SimplestPart | None = None,
    ) -> ChosenNetworks:
        """Return networks with the temperature and losses of what they predict."""
        predictions = Predictions.of_all(trial.predicted_by(models) for trial, models in of_trials)
        temperature = predictions.temperature
        return cls(averaged, of_trials, temperature, predictions.losses(temperature), simplest)


@dataclass(frozen=True, eq=False)
class CandidateMeans:
    """The candidates that were tried, of which means may be taken.

    tried    the candidates
    losses   the log-losses of each in the held-out rows
    weights  of these rows
    begun    all refinements, in the order in which they were tried
    several  whether these have several penalties, so that there may be means over them
    """

    tried: Sequence[ClassCandidate]
    losses: Sequence[np.ndarray]
    weights: np.ndarray
    begun: Sequence[Refinement]
    several: bool = True

    def alone(self, best: ClassCandidate, trials: Sequence[Trial]) -> ChosenNetworks:
        """Return the networks of one candidate."""
        of_trials = [(trial, [trial.models[Refinement.of(best)]]) for trial in trials]
        return ChosenNetworks((), of_trials, best.temperature, self.losses[self.tried.index(best)])

    def over_penalties(self, best: ClassCandidate, trials: Sequence[Trial]) -> ChosenNetworks:
        """Return the mean of the candidates with the structure and size of one, or this one alone if that is better.

        It is the mean of the logarithms of their tables, each at its temperature, and so one network, evaluated as they
        were. Those that are clearly worse are left out. The states of a class, if it has several, are not alike in
        those refined towards independence and in all others: these are two networks, the one with the given candidate
        first, and the second one is used only if the geometric mean of what both tell of the class is better than what
        the first one tells.
        """
        chosen, least = self.alone(best, trials), best.log_loss
        alike = [
            one
            for one, losses in zip(self.tried, self.losses, strict=False)
            if (one.structure, one.size) == (best.structure, best.size)
            and not clear_excess(losses - chosen.losses, self.weights)
        ]
        if len(alike) < 2 or not self.several:
            return chosen
        groups, family = _by_way(alike, best), trials[0].family
        means = [
            [
                mean_model(family, [(trial.models[Refinement.of(one)], one.temperature) for one in group])
                for group in groups
            ]
            for trial in trials
        ]
        for count in range(1 if len(groups[0]) > 1 else 2, len(groups) + 1):
            some = [(trial, models[:count]) for trial, models in zip(trials, means, strict=True)]
            found = ChosenNetworks.evaluated(groups[:count], some)
            loss = float(np.average(found.losses, weights=self.weights))
            if loss < least:
                chosen, least = found, loss
        return chosen

    def with_simplest(self, chosen: ChosenNetworks, trials: Sequence[Trial]) -> ChosenNetworks:
        """Return the mean of what was chosen and of the simplest candidates, or what was chosen if that is better.

        The tables of the simplest candidates are multiplied into those of the chosen networks.

        Args:
            chosen: networks of another structure or size.
            trials: of the simplest candidates.
        """
        best = min((one for one in self.tried if (one.structure, one.size) == SIMPLEST), key=lambda one: one.log_loss)
        simplest = self.over_penalties(best, trials)
        refined, family = self.refined(best, simplest.averaged), chosen.of_trials[0][0].family
        both = list(zip(chosen.of_trials, simplest.of_trials, strict=True))
        for share in SHARES_OF_SIMPLEST:
            part = SimplestPart(trials[0].family, refined, simplest.temperature, chosen.temperature, share)
            pooled = [(trial, part.pooled(family, models, other)) for (trial, models), (_, (other,)) in both]
            found = ChosenNetworks.evaluated(chosen.averaged, pooled, part)
            mean, error = mean_and_error(found.losses - chosen.losses, self.weights)
            if mean <= LITTLE_WORSE * error:
                return found
        return chosen

    def refined(self, best: ClassCandidate, averaged: Sequence[Sequence[ClassCandidate]]) -> RefinedMeans:
        """Return how the tables of a candidate, or of the means of candidates of its structure and size, are made."""
        means = [{Refinement.of(one): one.temperature for one in group} for group in averaged] or [
            {Refinement.of(best): 1.0}
        ]
        members = {how for group in means for how in group}
        paths = []
        for towards in ("independence", "fit"):
            path = [how for how in self.begun if how == Refinement(best.structure, best.size, towards, how.strength)]
            last = max((place for place, how in enumerate(path) if how in members), default=-1)
            paths.append(path[: last + 1])
        return RefinedMeans(means, [path for path in paths if path])


def _by_way(alike: Sequence[ClassCandidate], best: ClassCandidate) -> list[list[ClassCandidate]]:
    """Return candidates of one size in groups whose hidden states correspond, the group of the best one first.

    With one state for each class there is one group; else those refined towards independence are one, all others too.
    """
    if best.size == 1:
        return [list(alike)]
    first = best.towards == "independence"
    ways: dict[bool, list[ClassCandidate]] = {first: [], not first: []}
    for one in alike:
        ways[one.towards == "independence"].append(one)
    return [group for group in ways.values() if group]
