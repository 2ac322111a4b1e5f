"""Mixtures of hidden trees in model files, beside the network whose tables the trees share.

"mixture": {"trees": how many, "names": the hidden variables, in the order of their tensors}
"mixture/weights"     the probability of each tree
"mixture/<number>"    the tables of a hidden variable, those of all trees below each other; of the root the priors
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bayes.tree_mixture import TreeMixture, own_names, own_table
from ..graph.network import Network
from ..plan.plan import Layout
from .container import Container, Refused, short_repr, value_of
from .records import refusing_invalid_models

WHAT = "its mixture of trees"

MOST_TREES = 2**20
"""More trees are not read."""


def mixture_parts(mixture: TreeMixture) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the entry of the document and the tensors of a mixture, without those of its network."""
    tensors = {"mixture/weights": mixture.weights}
    for number, stack in enumerate(mixture.tables.values()):
        tensors[f"mixture/{number}"] = stack.reshape(-1, stack.shape[-1])
    return {"mixture": {"trees": mixture.trees, "names": list(mixture.tables)}}, tensors


def request_mixture(container: Container, layout: Layout) -> None:
    """Request the tensors of the mixture in a file, if there is one."""
    if "mixture" not in container.document:
        return
    trees, names = _described(container.document)
    container.want("mixture/weights", f"the weights of {WHAT}", "F64", (trees,))
    known = {*layout.prior_names, *(group[0] for group in layout.table_names)}
    for number, name in enumerate(names):
        if name not in known:
            raise Refused(f"{WHAT} has tables of {short_repr(name)}, which is not there.")
        rows, columns = np.atleast_2d(own_table(layout, np.broadcast_to(0.0, layout.size), name)).shape
        container.want(
            f"mixture/{number}", f"the tables of {short_repr(name)} in {WHAT}", "F64", (trees * rows, columns)
        )


def read_mixture(document: dict[str, Any], network: Network, arrays: Mapping[str, np.ndarray]) -> TreeMixture | None:
    """Return the mixture in a file, if there is one."""
    if "mixture" not in document:
        return None
    trees, names = _described(document)
    if not network.is_tree or names != own_names(network):
        raise Refused(f"{WHAT} is not of the hidden variables of its network.")
    layout, values = network._spec.layout, network._parameters.values
    tables = {
        name: arrays[f"mixture/{number}"].reshape(trees, *own_table(layout, values, name).shape)
        for number, name in enumerate(names)
    }
    with refusing_invalid_models():
        mixture = TreeMixture(network, arrays["mixture/weights"], tables)
    mixture.weights = arrays["mixture/weights"]  # bit for bit, not divided by their sum again
    return mixture


def _described(document: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the number of trees, and the names of the hidden variables."""
    record = value_of(dict, document, "mixture", "its description")
    trees, names = value_of(int, record, "trees", WHAT), value_of(list, record, "names", WHAT)
    if not 1 <= trees <= MOST_TREES or not all(isinstance(name, str) for name in names):
        raise Refused(f"{WHAT} is of {trees} trees, and the variables {short_repr(names)}.")
    return trees, names
