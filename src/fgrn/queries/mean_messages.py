"""The messages of several models of the same variables as one answer: their geometric mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.distributions import geometric_mean
from ..core.exceptions import ImpossibleEvidence, ImpossibleRowWarning, Remedy, warn
from ..tables import frames
from .questions import Queries


def mean_messages(
    models: Sequence[Queries], data: frames.Data, names: Sequence[str], way: str = "marginal", engine: str = "auto"
) -> dict[str, np.ndarray]:
    """Return the geometric mean of the messages of some models on each variable, (rows, states); of one, its own.

    A row that is impossible by one of the models gets the answer without any evidence, with a warning.

    Args:
        models: which are asked, one after the other.
        data: the rows: a mapping of columns, of labels, codes or weights.
        names: of the variables.
        way: "marginal", or another kind of message.
        engine: which runs the models.
    """
    ask: dict[str, Any] = {"keep": names, "engine": engine, "parts": [way]}
    mark: dict[str, Any] = {**ask, "parts": [way, "likelihood"], "impossible": "mark"}

    def mean(found: Sequence[Any]) -> dict[str, np.ndarray]:
        return {name: geometric_mean([getattr(one, way)(name) for one in found]) for name in names}

    try:
        return mean([model.propagate(data, **ask) for model in models])
    except ImpossibleEvidence as error:
        why = error.message
    found = [model.propagate(data, **mark) for model in models]
    rows = np.flatnonzero(np.any([np.isneginf(one.log_likelihood) for one in found], axis=0)).tolist()
    warn(
        f"{why} The answer for such a row is the one without evidence.",
        ImpossibleRowWarning,
        rows=rows,
        remedies=Remedy("learn tables without zeros", smoothing=...),
    )
    general = mean([model.propagate(None, **ask) for model in models])
    out = {name: messages.copy() for name, messages in mean(found).items()}
    for name, messages in out.items():
        messages[rows] = general[name][0]
    return out
