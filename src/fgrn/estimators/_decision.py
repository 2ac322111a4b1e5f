"""The networks that tell the class of rows, and what several networks tell together: the geometric mean of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bayes.tree_mixture import TreeMixture
from ..core.distributions import geometric_mean
from ..core.exceptions import ImpossibleEvidence, ImpossibleRowWarning, Remedy, warn
from ..graph.network import Network
from ..tables.frames import Coded

REFINED = ("decision_network_", "second_decision_network_")
"""The attributes of an estimator with the networks that were refined for the class, where there are any."""


@dataclass(frozen=True)
class Decision:
    """The networks that are asked for the class; an estimator has those that were refined for it as attributes."""

    estimator: Any

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks whose geometric mean predicts the class: the fitted one, unless others were refined for that."""
        found = (getattr(self.estimator, name) for name in REFINED if hasattr(self.estimator, name))
        return tuple(found) or (self.estimator.network_,)

    def keep(self, networks: Sequence[Network]) -> None:
        """Keep the networks that were refined for the class; of none, the fitted one predicts it."""
        for name in REFINED:
            self.estimator.__dict__.pop(name, None)
        for name, network in zip(REFINED, networks, strict=False):
            setattr(self.estimator, name, network)


def messages_of(
    networks: Sequence[Network | TreeMixture], data: Mapping[str, Coded], names: Sequence[str], way: str, engine: str
) -> dict[str, np.ndarray]:
    """Return the geometric mean of what networks tell of some variables in each row, (rows, states).

    Args:
        networks: which are asked, one after the other.
        data: the rows, as codes.
        names: of the variables.
        way: "marginal", or another kind of message.
        engine: which runs them.

    In an impossible row all values count as missing, with a warning.
    """
    ask: dict[str, Any] = {"keep": names, "parts": [way], "engine": engine}

    def told(data: Any, **options: Any) -> dict[str, np.ndarray]:
        found = [network.propagate(data, **ask, **options) for network in networks]
        return {name: geometric_mean([getattr(one, way)(name) for one in found]) for name in names}

    try:
        return told(data)
    except ImpossibleEvidence as error:
        why, impossible = error.message, set(error.rows)
    general, out = told(None), {name: one.copy() for name, one in told(data, impossible="mark").items()}
    for messages in out.values():  # the row may be impossible by another network, too
        impossible.update(np.flatnonzero(np.isnan(messages).any(axis=1)).tolist())
    rows = sorted(impossible)
    warn(
        f"{why} The answer for such a row is the one without evidence.",
        ImpossibleRowWarning,
        rows=rows,
        remedies=Remedy("learn tables without zeros", smoothing=...),
    )
    for name, messages in out.items():
        messages[rows] = general[name][0]
    return out
