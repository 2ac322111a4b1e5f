"""Networks that estimate the distribution of a distal outcome in latent classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..flow.gaussian_leaves import GaussianLeaves
from ..graph import structures
from ..statistics.outcome_values import OUTCOME, LevelsInClasses, NormalInClasses, OutcomeInClasses, OutcomeValues

CLASSES = "classes"
"""The hidden variable beside the outcome."""

TOLERANCE = 1e-12
"""Gain per row below which the estimates of an outcome have converged; there are few of them."""


def fit_outcome(
    options: Mapping[str, Any],
    members: np.ndarray,
    weights: np.ndarray,
    values: OutcomeValues,
    start: OutcomeInClasses,
) -> OutcomeInClasses:
    """Estimate an outcome in classes, given the class distribution of each row as soft evidence."""
    some = values.known  # other rows tell nothing of the outcome
    size, prior = members.shape[1], np.full(members.shape[1], 1 / members.shape[1])
    options = {**options, "smoothing": 0.0, "tolerance": TOLERANCE, "constraints": (), "starts": 1}
    fixed: dict[str, Any] = {"name": CLASSES, "prior": prior, "learn_prior": False}
    if isinstance(start, LevelsInClasses):
        net = structures.lvm({OUTCOME: len(values.levels)}, size, tables={OUTCOME: start.table}, **fixed)
        net.learn({CLASSES: members[some], OUTCOME: np.asarray(values.codes)[some]}, weights=weights[some], **options)
        return LevelsInClasses(net.table(OUTCOME))
    numbers = values.columns[some]
    means = tuple((float(one),) for one in start.means)
    leaves = GaussianLeaves.of(CLASSES, size, (OUTCOME,), "diagonal", numbers, weights[some], means)
    net = structures.lvm({}, size, leaves=leaves, **fixed)
    net.learn({CLASSES: members[some], OUTCOME: numbers[:, 0]}, weights=weights[some], **options)
    return NormalInClasses(*(part[:, 0] for part in net.moments))
