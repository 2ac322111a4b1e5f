"""The networks that predict the class of rows: the fitted one, or those that were refined for the class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.refined_weight import RefinedWeight
from ..graph.network import Network
from ..queries.opinion_pool import OpinionPool

REFINED = ("decision_network_", "second_decision_network_")
"""The attributes of an estimator with the networks that were refined for the class, where there are any."""

WEIGHT = "decision_weight_"
"""The attribute with how much these count in rows with missing values."""


@dataclass(frozen=True)
class Decision:
    """The networks that are asked for the class; an estimator has those that were refined for it as attributes."""

    estimator: Any

    @property
    def refined(self) -> tuple[Network, ...]:
        """The networks that were refined for the class; none if the fitted one predicts it."""
        return tuple(getattr(self.estimator, name) for name in REFINED if hasattr(self.estimator, name))

    @property
    def weight(self) -> RefinedWeight | None:
        """How much the refined networks count in rows with missing values; None if they count alone in all."""
        found: RefinedWeight | None = getattr(self.estimator, WEIGHT, None)
        return found

    @property
    def pool(self) -> OpinionPool:
        """The networks that predict the class together: those refined for it, and the fitted one; or this one alone."""
        fitted, refined, weight = self.estimator.network_, self.refined, self.weight
        if not refined:
            return OpinionPool((fitted,))
        return OpinionPool(refined) if weight is None else OpinionPool(refined, fitted, weight)

    def keep(self, networks: Sequence[Network], weight: RefinedWeight | None = None) -> None:
        """Keep the networks that were refined for the class; of none, the fitted one predicts it."""
        for name in (*REFINED, WEIGHT):
            self.estimator.__dict__.pop(name, None)
        for name, network in zip(REFINED, networks, strict=False):
            setattr(self.estimator, name, network)
        if networks and weight is not None:
            setattr(self.estimator, WEIGHT, weight)
