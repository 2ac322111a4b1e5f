"""Parts of influence diagrams: the network in which decisions are variables, and the order of the decisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnWarning, WiringError, unknown_name, warn
from ..core.variable import Variable
from .bayesian import BayesianNetwork, causes_first
from .directed_graph import closure
from .document import Document


def in_order_of_time(document: Document) -> dict[str, tuple[str, ...]]:
    """Return what is known at each decision of a document, ordered so that each follows those it depends on."""
    parents: dict[str, Sequence[str]] = {factor.scope[-1]: factor.scope[:-1] for factor in document.factors}
    parents |= document.decisions
    above = {name: closure([name], parents) & set(document.decisions) - {name} for name in document.decisions}
    order = sorted(document.decisions, key=lambda name: len(above[name]))  # stable: else in the order of the file
    unclear = next((pair for pair in pairwise(order) if pair[0] not in above[pair[1]]), None)
    if unclear is not None:
        warn(
            f"The arcs do not say which of the decisions {unclear[0]!r} and {unclear[1]!r} is made first: they are "
            "taken in the order of the file, and what is known at the first is known at the second.",
            FgrnWarning,
            remedies="draw an arc from the earlier to the later decision",
        )
    return {name: tuple(document.decisions[name]) for name in order}


def with_actions(
    network: BayesianNetwork, decisions: Mapping[str, Any], actions: Mapping[str, Any] | None
) -> dict[str, Variable]:
    """Return the variables of the network, and the decisions that are not in it."""
    variables = {variable.name: variable for variable in network.variables}
    states = settings.by_name(actions)
    for name, some in states.items():
        if name not in decisions:
            raise unknown_name("decision", name, decisions)
        if name in variables:
            raise WiringError(
                f"The decision {name!r} has its states in the network already.", remedies="leave it out of `actions`"
            )
        variables[name] = Variable(name, some)
    for name in decisions:
        if name not in variables:
            raise WiringError(
                f"The decision {name!r} is not in the network, and its actions are not given.",
                value=name,
                remedies=f"give them: actions={{{name!r}: ['no', 'yes']}}",
            )
    return variables


def with_open_decisions(
    network: BayesianNetwork, variables: Mapping[str, Variable], decisions: Collection[str]
) -> BayesianNetwork:
    """Return the network with decisions as variables without parents, whose uniform tables are never learnt."""
    parts = {part.name: part for part in network._given}
    tables: dict[str, Any] = {}
    frozen = list(decisions)
    for name, part in parts.items():
        if name not in decisions:
            start = network._start(part)
            tables[name] = network.compact_table(name) or start
            frozen += [] if part.learn else [name]
    tables |= {name: np.full((1, one.cardinality), 1 / one.cardinality) for name, one in variables.items()
               if name in decisions}  # fmt: skip
    parents = {name: () if name in decisions else some for name, some in network.parents_of_all.items()}
    kept = [name for name in parts if name not in decisions]
    changed = BayesianNetwork(
        variables.values(),
        parents,
        {name: table for name, table in tables.items() if table is not None},
        frozen=frozen,
        ties={name: tie for name in kept if (tie := parts[name].tie) is not None},
        supports={
            name: mask
            for name in kept
            if (mask := parts[name].support) is not None and network.compact_table(name) is None
        },
        name=network.name,
        properties=network.properties,
    )
    changed.memory_limit = network.memory_limit
    return changed


def check_order_of_time(network: BayesianNetwork, seen: Mapping[str, Sequence[str]]) -> None:
    """Raise an error for a decision that knows a variable that depends on it or on a later decision."""
    parents = {name: list(some) for name, some in network.parents_of_all.items()}
    order = list(seen)
    for place, name in enumerate(order):
        parents[name] = [*seen[name], *(one for one in order[:place] if one not in seen[name])]
    try:
        causes_first(parents)
    except WiringError as error:
        raise WiringError(
            f"{error.message} A decision cannot know what depends on it or on a later decision.",
            remedies="put the decisions in the order of time, each with the variables that are known before it",
        ) from None
