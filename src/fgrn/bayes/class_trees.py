"""Naive Bayes augmented by a tree, with hidden states of each class: a mixture of such trees, as a Network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.labels import Label
from ..graph.network import Network
from ..graph.structures import states_of_classes
from ..tables.encoded import Evidence
from .bayesian import BayesianNetwork
from .tree_learning import arcs_of_tree, penalty_rate


def class_tree_mixture(
    observed: Mapping[str, Sequence[Label]],
    class_variable: str,
    hidden: int | Sequence[int],
    rows: Evidence,
    *,
    penalty: float | str = 0.0,
    name: str = "S",
) -> Network:
    """Return a mixture for each class in which every column depends on the hidden state and on one other column.

    The tree of the columns is the same for all states: that of the largest mutual information given the class
    (Friedman, Geiger and Goldszmidt, 1997). With one state for each class it is `tan`, with several a mixture of trees
    for each class (Meila and Jordan, 2000). It is the junction tree of the Bayesian network

        S -> class,  S -> column,  other column -> column

    where S determines the class; its tables are still to be learnt.

    Args:
        observed: the columns and their levels, the class among them.
        class_variable: which of them is the class.
        hidden: how many states each class has: a number for all, or one for each class in order.
        rows: codes of these columns, from which the tree is found.
        penalty: what an edge must gain in log-likelihood for each parameter that it adds, see `tan`.
        name: the name of the hidden variable.
    """
    labels, support = states_of_classes(observed, class_variable, hidden)
    sizes = {column: len(observed[column]) for column in rows.columns}
    place = rows.columns.index(class_variable)
    codes, weights = np.asarray(rows.codes), np.asarray(rows.row_weights)
    found = arcs_of_tree(sizes, codes, weights, place, rate=penalty_rate(penalty, rows.weight))
    arcs = {column: (name, *parents[1:]) for column, parents in found.items()}
    return BayesianNetwork(
        {name: labels, **observed}, {**arcs, class_variable: (name,)}, {class_variable: support},
        frozen=[class_variable], supports={class_variable: support},
    ).to_network()  # fmt: skip
