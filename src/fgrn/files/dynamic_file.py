"""Dynamic Bayesian networks in model files: the network of one time step, and the variables of its slices.

Under `model` there is the Bayesian network of a step (see `factored_file`) with the `kind` "dynamic", the names of the
variables of a `slice`, the `links` as [parent, child, lag], and the name of the column that identifies sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bayes.bayesian import BayesianNetwork
from ..bayes.dynamic import DynamicBayesianNetwork
from .container import Refused, short_repr, value_of


def dynamic_record(model: DynamicBayesianNetwork) -> dict[str, Any]:
    """Return the record of a dynamic network, apart from the network of one step."""
    links = [
        [copy.name, child, copy.lag] for child, copies in model._structure.links.items() for copy in copies
    ]  # in the order of the axes of tables
    return {"kind": "dynamic", "slice": list(model.names), "links": links, "sequence": model.sequence}


def restore_dynamic(step: BayesianNetwork, record: Mapping[str, Any]) -> DynamicBayesianNetwork:
    """Return the dynamic network with this network of a step; `Refused` if it does not fit the slice and links."""
    document = dict(record)
    names = value_of(list, document, "slice", "its model")
    for name in names:
        if not isinstance(name, str) or name not in step.names:
            raise Refused(f"a slice has the variable {short_repr(name)}, which is not there.")
    links = value_of(list, document, "links", "its model")
    for link in links:
        if not isinstance(link, list) or list(map(type, link)) != [str, str, int]:
            raise Refused(f"{short_repr(link)} is no link of slices.")
    arcs = {name: [one for one in step.parents(name) if one in names] for name in names}
    found = DynamicBayesianNetwork(
        [step.variable(name) for name in names],
        arcs,
        links,
        sequence=value_of(str, document, "sequence", "its model"),
        name=step.name,
    )
    made = found._step
    same = made.names == step.names and made.parents_of_all == step.parents_of_all
    if not same or not all(
        np.array_equal(made.table(name), step.table(name)) for name in made.names if name not in names
    ):
        raise Refused("the network of a step is not that of its slice and links.")
    found._step = step
    return found
