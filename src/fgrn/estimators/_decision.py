"""The networks of an estimator that predict the class: those refined for it, or the fitted one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.network import Network

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
