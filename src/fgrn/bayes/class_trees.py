"""Classifiers with a tree over the columns and hidden states for each class, as Networks.

One hidden variable for all columns, which depend on each other as well (`class_tree_mixture`), or one for each column,
joined as the columns would be (`class_hidden_tree`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.labels import Label
from ..core.variable import Variable
from ..graph.blocks import SISO
from ..graph.class_family import CALL, CELL, ClassFamily
from ..graph.network import Network
from ..graph.structures import states_of_classes
from ..tables.encoded import Evidence
from .bayesian import BayesianNetwork
from .hidden_trees import LINK_ROWS, TreeRows, initial_tables, joined_as_tree, network_of_tree, pairs_in_bins
from .pair_scores import score_of_edges
from .tree_learning import arcs_of_tree, penalty_rate
from .tree_mixture import copied_variables

COLUMN_WORK, STATE_WORK, CELL_WORK = 190.0, 13.0, 0.2
"""The work of a row in an E-step of hidden trees: for each column, for each of its hidden states, and for each cell of
the table to the next one; see `CALL`. It is a quarter of the measured work: trees are tried only on request, and the
choice may then take longer."""


def tree_of_columns(
    observed: Mapping[str, Sequence[Label]], class_variable: str, rows: Evidence, penalty: float | str = 0.0
) -> dict[str, tuple[str, ...]]:
    """Return the parent of each column in the tree with the largest mutual information given the class.

    It is that of Friedman, Geiger and Goldszmidt (1997).

    Args:
        observed: the columns and their levels, the class among them.
        class_variable: which of them is the class.
        rows: codes of these columns.
        penalty: what an edge must gain in log-likelihood for each parameter that it adds, see `tan`.
    """
    sizes = {column: len(observed[column]) for column in rows.columns}
    place = rows.columns.index(class_variable)
    codes, weights = np.asarray(rows.codes), np.asarray(rows.row_weights)
    found = arcs_of_tree(sizes, codes, weights, place, rate=penalty_rate(penalty, rows.weight))
    return {column: parents[1:] for column, parents in found.items()}


def class_tree_mixture(
    observed: Mapping[str, Sequence[Label]],
    class_variable: str,
    hidden: int | Sequence[int],
    tree: Mapping[str, tuple[str, ...]],
    *,
    name: str = "S",
) -> Network:
    """Return a mixture for each class in which every column depends on the hidden state and on one other column.

    The tree of the columns is the same for all states. With one state for each class it is `tan`, with several a
    mixture of trees for each class (Meila and Jordan, 2000). It is the junction tree of the Bayesian network

        S -> class,  S -> column,  other column -> column

    where S determines the class; its tables are still to be learnt.

    Args:
        observed: the columns and their levels, the class among them.
        class_variable: which of them is the class.
        hidden: how many states each class has: a number for all, or one for each class in order.
        tree: the parent of each column, if it has one, see `tree_of_columns`.
        name: the name of the hidden variable.
    """
    labels, support = states_of_classes(observed, class_variable, hidden)
    arcs = {column: (name, *parents) for column, parents in tree.items()}
    return BayesianNetwork(
        {name: labels, **observed}, {**arcs, class_variable: (name,)}, {class_variable: support},
        frozen=[class_variable], supports={class_variable: support},
    ).to_network()  # fmt: skip


def class_hidden_tree(
    observed: Mapping[str, Sequence[Label]],
    class_variable: str,
    hidden: int | Sequence[int],
    rows: Evidence,
    *,
    seed: int = 0,
    name: str = "S",
) -> Network:
    """Return a hidden tree for each class: one hidden variable per column, whose states belong to a class.

    The columns are joined by the tree of the largest mutual information given the class (Friedman, Geiger and
    Goldszmidt, 1997), the same for all classes, and each column depends on a hidden variable (Liu and Van den Broeck,
    2021). Tables between hidden variables lead from states of a class to states of the same class only, so the hidden
    variable of the root, which is called `name`, determines the class; the one of another column "a" is called "S:a".
    With one state for each class this is naive Bayes. Learning starts near the tree of each class.

    Args:
        observed: the columns and their levels, the class among them.
        class_variable: which of them is the class.
        hidden: how many states each class has: a number for all, or one for each class in order.
        rows: codes of these columns, from which the tree is found, and where learning starts.
        seed: of the random part of where learning starts.
        name: the name of the hidden variable of the root, and what the names of the others begin with.
    """
    _, support = states_of_classes(observed, class_variable, hidden)
    place = rows.columns.index(class_variable)
    columns = [Variable(column, observed[column]) for column in rows.columns if column != class_variable]
    sizes = [column.cardinality for column in columns]
    known = rows.without(class_variable)
    classes = np.asarray(rows.codes[:, place])
    kinds = [
        TreeRows(known.take(np.flatnonzero(classes == number)), [int(states)] * len(sizes))
        for number, states in enumerate(support.sum(axis=0))
    ]
    parents = joined_as_tree(score_of_edges(pairs_in_bins([kind.evidence for kind in kinds], sizes), 0.0))
    starts = initial_tables(kinds, sizes, parents, np.random.default_rng(seed))
    names = [name if parent < 0 else f"{name}:{column.name}" for column, parent in zip(columns, parents, strict=True)]
    label = Variable(class_variable, observed[class_variable])
    return network_of_tree(columns, parents, starts, names, (label, support))


@dataclass(frozen=True)
class HiddenTreeFamily(ClassFamily):
    """Hidden trees for each class, in all sizes; for `smoothing` see `smoothing_of_class_tree`."""

    def smoothing_of(self, model: Network) -> Any:
        """See `ClassFamily`."""
        return smoothing_of_class_tree(model, self.smoothing)

    def size_of(self, model: Network, rows: Evidence) -> tuple[int, int, float]:
        """See `Family`."""
        states, columns = model.variable(self.hidden).cardinality, len(rows.columns)
        visited = columns * (COLUMN_WORK + STATE_WORK * states + CELL_WORK * states**2)
        return states, model.free_parameters, CALL + rows.rows * visited + CELL * model._plan().layout.size

    def _of_logarithms(self, model: Network, logs: np.ndarray) -> Network:
        """See `ClassFamily`. Row sums are moved up the tree, one hidden variable at a time.

        They are kept as logarithms: those of two classes may differ by more than a number can be large.
        """
        layout, values = model._spec.layout, model._parameters.values.copy()
        sums = {name: np.zeros(model.variable(name).cardinality) for name in (self.hidden, *_below_root(model))}
        copies = copied_variables(model)
        for block in _upwards(model, self.hidden):
            number, name = layout.table_number(block.output.name), copies.get(block.input.name, block.input.name)
            table, total = _normalised(layout.table(logs, number) + sums.get(block.output.name, 0.0))
            layout.table(values, number)[...] = table
            sums[name] += total
        number = layout.prior_number(self.hidden)
        layout.prior(values, number)[...], _ = _normalised(layout.prior(logs, number) + sums[self.hidden])
        return self.with_tables(model, values)


def _normalised(logarithms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row of numbers, given as logarithms, divided by its sum; and the logarithms of the sums."""
    largest = logarithms.max(axis=-1, keepdims=True)
    cells = np.exp(logarithms - largest)
    total = cells.sum(axis=-1, keepdims=True)
    return cells / total, (largest + np.log(total))[..., 0]


def smoothing_of_class_tree(network: Network, columns: float | Mapping[str, float]) -> dict[str, Any]:
    """Return the Dirichlet counts of the tables of `class_hidden_tree`.

    Args:
        network: the network.
        columns: the count of each cell, for all tables or by column. Where it is by column, each row of a table between
            hidden variables gets LINK_ROWS in all, spread over the states of the class.
    """
    siso = {block.output.name: block for block in network.blocks if isinstance(block, SISO)}
    if not isinstance(columns, Mapping):
        return dict.fromkeys(siso, columns)
    out: dict[str, Any] = {name: columns[name] for name in network.observed}
    for name in _below_root(network):
        block = siso[name]
        shape = (block.input.cardinality, block.output.cardinality)
        allowed = np.ones(shape) if block.support is None else block.support.astype(np.float64)
        out[name] = LINK_ROWS * allowed / allowed.sum(axis=1, keepdims=True)
    return out


def _below_root(network: Network) -> list[str]:
    """Return the hidden variables except the root."""
    outputs = (block.output.name for block in network.blocks if isinstance(block, SISO))
    return [name for name in outputs if name not in network.observed]


def _upwards(network: Network, root: str) -> list[SISO]:
    """Return the tables of a hidden tree, each after those below it."""
    below: dict[str, list[SISO]] = {}
    copies = copied_variables(network)
    for block in network.blocks:
        if isinstance(block, SISO):
            below.setdefault(copies.get(block.input.name, block.input.name), []).append(block)
    order, line = [], [root]
    for name in line:  # the list grows during the loop
        order += below.get(name, [])
        line += [block.output.name for block in below.get(name, [])]
    return order[::-1]
