"""Messages of several models as one: their geometric mean, and in an impossible row the messages without evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.distributions import geometric_mean
from ..core.exceptions import ImpossibleEvidence, ImpossibleRowWarning, Remedy, warn
from ..tables.frames import Coded


class Propagates(Protocol):
    """A model that computes messages: a network, or a mixture of trees."""

    @property
    def propagate(self) -> Any:
        """See `fgrn.Network.propagate`."""


def mean_messages(
    models: Sequence[Propagates], data: Mapping[str, Coded], names: Sequence[str], way: str, engine: str
) -> dict[str, np.ndarray]:
    """Return the geometric mean of the messages of several models on some variables in each row, (rows, states).

    Args:
        models: with these variables.
        data: the rows, as codes.
        names: of the variables.
        way: "marginal", or another kind of message.
        engine: see `fgrn.Network.propagate`.

    In an impossible row all values count as missing, with a warning.
    """
    ask: dict[str, Any] = {"keep": names, "parts": [way], "engine": engine}

    def mean(data: Any, **options: Any) -> dict[str, np.ndarray]:
        found = [model.propagate(data, **ask, **options) for model in models]
        return {name: geometric_mean([getattr(one, way)(name) for one in found]) for name in names}

    try:
        return mean(data)
    except ImpossibleEvidence as error:
        why, impossible = error.message, set(error.rows)
    without, out = mean(None), {name: one.copy() for name, one in mean(data, impossible="mark").items()}
    for messages in out.values():  # the row may be impossible by another model, too
        impossible.update(np.flatnonzero(np.isnan(messages).any(axis=1)).tolist())
    rows = sorted(impossible)
    warn(
        f"{why} The answer for such a row is the one without evidence.",
        ImpossibleRowWarning,
        rows=rows,
        remedies=Remedy("learn tables without zeros", smoothing=...),
    )
    for name, messages in out.items():
        messages[rows] = without[name][0]
    return out
