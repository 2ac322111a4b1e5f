"""The part of a page about a fitted estimator: its class, and how table values become states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph.network import Network
from ..queries.opinion_pool import OpinionPool
from ..tables.missing import MISSING


@dataclass(frozen=True)
class RefinedClass:
    """The class of a classifier with networks that were refined for it, and how they predict it with the fitted one."""

    name: str
    networks: tuple[Network, ...]
    pool: OpinionPool


def refined_class(model: Any) -> RefinedClass | None:
    """Return the class of an estimator with the networks that were refined for it; None if there are none."""
    decision = model._decision
    return RefinedClass(model._class_name(), decision.refined, decision.pool) if decision.refined else None


def fitted_network(model: Any) -> Network:
    """Return the network of a fitted estimator; a mixture of trees as one network."""
    found: Network = model.mixture_.as_network() if hasattr(model, "mixture_") else model.network_
    return found


def predicted_variable(model: Any) -> str | None:
    """Return the name of the variable that an estimator predicts: its class or hidden variable; None for neither."""
    if hasattr(model, "classes_"):
        return str(model._class_name())
    hidden = list(model._hidden()) if hasattr(model, "predict") else []
    return str(hidden[0]) if len(hidden) == 1 else None


def estimator_text(model: Any) -> dict[str, Any]:
    """Return the record of the predicted variable, and of each column as files contain it."""
    columns = []
    for name, column in model.schema_.items():
        words = [word for word in MISSING if word not in column.levels] if column.missing_words else [""]
        columns.append({
            "name": name, "missing": [*map(str, column.missing), *words],
            **({"edges": list(column.edges)} if column.is_binned else {}),
            **({} if column.other is None else {"other": column.levels.index(column.other)}),
        })  # fmt: skip
    return {
        "target": predicted_variable(model),
        "columns": [one for one in columns if one["name"] in model.schema_.states],
    }
