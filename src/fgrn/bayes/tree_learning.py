"""Structure learning: the tree of Chow and Liu, and tree-augmented naive Bayes (TAN).

A tree is the one structure of which the best can be found: that of the largest sum of mutual information between
neighbours (`pair_scores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, prod
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, LearningError, Remedy, SchemaError, unknown_name
from ..core.settings import Name
from ..core.tree_centre import neighbours_of
from ..core.variable import Variable
from ..flow import em
from ..flow.evidence import encode
from ..learning.convergence import warn_if_gaining
from ..tables import frames
from ..tables.column_inference import MOST_NUMBERS
from ..tables.columns import REPLACE, plain_value
from ..tables.encoded import Evidence
from ..tables.schema import MOST_LEVELS
from .bayesian import BayesianNetwork
from .pair_scores import ColumnPairs, rows_by_class, score_of_edges

PENALTIES = ("bic", "aic")

MOST_CELLS = 2**24
"""Cells of a table of two columns given the class: 128 MB."""


def chow_liu(
    data: frames.Data,
    root: Name | None = None,
    *,
    states: Mapping[str, Any] | None = None,
    smoothing: float | Mapping[str, float] = 1.0,
    weights: Any = None,
    penalty: float | str = 0.0,
    epochs: int = 100,
    tolerance: float = 1e-6,
    threads: int | None = None,
    watch: em.Watcher | None = None,
) -> BayesianNetwork:
    """Return the Chow-Liu tree of a table, the tree with the largest likelihood, with its tables learnt.

    Which columns are neighbours is found from the mutual information of all pairs (Chow and Liu, 1968). A pair is
    counted in the rows where both values are known: with enough rows that finds the tree, if values are missing
    completely at random. An edge that gains nothing is left out, so that a column that is independent of all others
    stays alone. Tables are learnt from all rows: by counting, or by EM if values are missing.

    Args:
        data: the rows: a mapping of columns or any dataframe, with labels, codes and unknown values. Columns of
            measurements are put in bins first, see `Schema`. Distributions count for the tables, not for the tree.
        root: the column that all arcs lead away from; the first unless given. The likelihood does not depend on it.
        states: of columns that have states no row has, or more of them than are taken for a category.
        smoothing: a Dirichlet count for each cell of the tables, 1 unless given; the tree is found without.
        weights: one weight per row.
        penalty: what an edge must gain in log-likelihood for each parameter that it adds: a number, "aic" (1) or "bic"
            (half the logarithm of the rows); the result may then be several trees. Unless given, 0.
        epochs: the maximum number of epochs of learning, if values are missing.
        tolerance: learning stops when an epoch gains less than this per row.
        threads: the number of threads; all processors unless given.
        watch: called after every epoch of learning, see `Network.learn`.
    """
    top = settings.name_of(root)
    table = TreeTable.of(data, states, weights)
    table.check_columns(() if top is None else (top,))
    search = _Search(table, None, top, penalty_rate(penalty, table.evidence.weight))
    return search.learnt(smoothing=smoothing, epochs=epochs, tolerance=tolerance, threads=threads, watch=watch)


def tan(
    data: frames.Data,
    class_variable: Name,
    *,
    root: Name | None = None,
    states: Mapping[str, Any] | None = None,
    smoothing: float | Mapping[str, float] = 1.0,
    weights: Any = None,
    penalty: float | str = 0.0,
    epochs: int = 100,
    tolerance: float = 1e-6,
    threads: int | None = None,
    watch: em.Watcher | None = None,
) -> BayesianNetwork:
    """Return tree-augmented naive Bayes: the parents of every column are the class and one other column.

    The tree is that of the largest likelihood: of the mutual information of pairs given the class (Friedman, Geiger and
    Goldszmidt, 1997), from the rows where both values and the class are known. `network.classify(rows, class_variable)`
    predicts the class.

    Args:
        data: see `chow_liu`; rows whose class is unknown are still used to learn the tables.
        class_variable: the column that is a parent of all others.
        root: the column that has no other parent than the class; the first unless given.
        states: see `chow_liu`, and so are the others.
        smoothing: a Dirichlet count for each cell of the tables, 1 unless given.
        weights: one weight per row.
        penalty: what an edge must gain in log-likelihood for each parameter that it adds: a number, "aic" or "bic".
        epochs: the maximum number of epochs of learning, if values are missing.
        tolerance: learning stops when an epoch gains less than this per row.
        threads: the number of threads; all processors unless given.
        watch: called after every epoch of learning.
    """
    label, top = map(settings.name_of, (class_variable, root))
    table = TreeTable.of(data, states, weights, label)
    table.check_columns((label,) if top is None else (label, top))
    if top == label:
        raise LearningError(f"The root of the tree must not be the class, {label!r}.")
    if len(table.names) < 2:
        raise LearningError(f"There is no column apart from the class, {label!r}, to predict it from.")
    search = _Search(table, table.names.index(label), top, penalty_rate(penalty, table.evidence.weight))
    return search.learnt(smoothing=smoothing, epochs=epochs, tolerance=tolerance, threads=threads, watch=watch)


def penalty_rate(penalty: float | str, weight: float) -> float:
    """Return the penalty per row and parameter: the least gain in log-likelihood that justifies a parameter."""
    if isinstance(penalty, str):
        settings.choice("penalty", penalty, PENALTIES, LearningError)
        return max(0.0, log(weight) / 2) if penalty == "bic" else 1.0
    settings.number("penalty", penalty, LearningError)
    return float(penalty)


def column_states(columns: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Return the states of every column: given, or found if they are few enough to be categories."""
    if given is not None and not isinstance(given, Mapping):
        raise LearningError(f"The 'states' are a mapping from columns to their states. Got {given!r} instead.")
    named = settings.by_name(given)
    for name in named:
        if name not in columns:
            raise unknown_name("column", name, columns)
    found: dict[str, Any] = {}
    for name, column in columns.items():
        if name in named:
            found[name] = named[name]
            continue
        if isinstance(column, frames.Coded):
            raise EvidenceError(
                "it holds codes, which do not say what its states are.",
                column=name,
                remedies=Remedy("give the states", states=...),
            )
        labels = found[name] = frames.states({name: column})[name]
        for label in labels:
            plain_value(label, name)  # an error for a date, or another value that is no label
        endless = next((label for label in labels if label in (inf, -inf)), None)
        if endless is not None:
            raise SchemaError("infinity is not a state.", column=name, value=endless, remedies=REPLACE)
        fractions = any(isinstance(label, float) and not label.is_integer() for label in labels)
        if len(labels) > (MOST_NUMBERS if fractions else MOST_LEVELS):
            raise SchemaError(
                f"{len(labels):,} different values are too many for a table with a row for each.",
                column=name,
                remedies=(
                    "put numbers in bins (schema = fgrn.Schema.infer(table), then schema.codes(table) in place of "
                    "the table, and states=schema.states)",
                    "leave names and identifiers out",
                    Remedy("if all of them are states, list them", states=...),
                ),
            )
    return found


@dataclass(frozen=True, eq=False)
class TreeTable:
    """The rows of a table to learn from, read once."""

    columns: Mapping[str, Any]
    blank: BayesianNetwork  # the variables, without arcs
    evidence: Evidence

    @classmethod
    def of(cls, data: frames.Data, states: Any, weights: Any, class_variable: str | None = None) -> TreeTable:
        """Read a table; an error if it has no rows, or a column has too many states."""
        columns = frames.columns(data, by_value=True)
        if not columns or not frames.row_count(columns):
            raise LearningError("There are no rows to learn from.")
        variables = [Variable(name, labels) for name, labels in column_states(columns, states).items()]
        classes = next((variable.cardinality for variable in variables if variable.name == class_variable), 1)
        for variable in variables:
            if variable.cardinality**2 * classes > MOST_CELLS:
                raise LearningError(
                    f"it has {variable.cardinality:,} states, too many for a table with another such column"
                    f"{' and the class' if classes > 1 else ''}.",
                    column=variable.name,
                    remedies=("join some of them", "leave it out"),
                )
        blank = BayesianNetwork(variables)
        return cls(columns, blank, encode(blank, columns, weights))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.blank.names

    @property
    def weights(self) -> np.ndarray:
        """The weight of each row."""
        return self.evidence.row_weights

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise an error for a name that is not a column."""
        for name in names:
            if not isinstance(name, str) or name not in self.names:
                raise unknown_name("column", name, self.names)

    def first_tables(self, arcs: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        """Return initial tables for data with missing values: counts of rows complete for each table, plus one.

        From a random start it would take twice as many epochs.
        """
        codes = self.evidence.codes
        if not (codes < 0).any():
            return {}
        tables = {}
        for name in self.names:
            scope = [*arcs.get(name, ()), name]
            numbers = [self.blank.index[one] for one in scope]
            shape = [self.blank.variable(one).cardinality for one in scope]
            known = (codes[:, numbers] >= 0).all(axis=1)
            cells = np.ravel_multi_index(tuple(codes[known, number] for number in numbers), shape)
            counts = 1 + np.bincount(cells, self.weights[known], minlength=prod(shape)).reshape(shape)
            tables[name] = counts / counts.sum(axis=-1, keepdims=True)
        return tables


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for arcs between the columns of a table, given a class or none."""

    table: TreeTable
    given: int | None  # the class
    root: str | None
    rate: float  # of the penalty, for each parameter

    def learnt(self, **options: Any) -> BayesianNetwork:
        """Return the network with its tables learnt from all rows."""
        table, arcs = self.table, self.arcs()
        network = BayesianNetwork(table.blank.variables, arcs, table.first_tables(arcs))
        history = network.learn(table.columns, weights=table.weights, **options)
        warn_if_gaining("The tree", history, options["epochs"], options["tolerance"], span=1)
        return network

    def arcs(self) -> dict[str, tuple[str, ...]]:
        """Return the parents of every column: the class, if there is one, and the neighbour nearer to the root."""
        sizes = {variable.name: variable.cardinality for variable in self.table.blank.variables}
        return arcs_of_tree(sizes, self.table.evidence.codes, self.table.weights, self.given, self.root, self.rate)


def arcs_of_tree(
    sizes: Mapping[str, int],
    codes: np.ndarray,
    weights: np.ndarray,
    given: int | None,
    root: str | None = None,
    rate: float = 0.0,
) -> dict[str, tuple[str, ...]]:
    """Return the parents of every column in the best tree: the class, if any, and the neighbour towards the root.

    Args:
        sizes: the levels of each column.
        codes: (rows, columns), -1 where a value is missing.
        weights: of the rows.
        given: the number of the column that is the class, if there is one.
        root: the column that has no other parent; the first unless given.
        rate: what an edge must gain in log-likelihood for each parameter.
    """
    names = list(sizes)
    members = [number for number in range(len(names)) if number != given]
    pairs = ColumnPairs([sizes[names[number]] for number in members], rows_by_class(codes, weights, given, members))
    score = score_of_edges(pairs, rate, 1 if given is None else sizes[names[given]])
    start = 0 if root is None else members.index(names.index(root))
    parents = parents_from(heaviest_forest(score), len(members), start)
    above = () if given is None else (names[given],)
    return {
        names[member]: above if parent < 0 else (*above, names[members[parent]])
        for member, parent in zip(members, parents, strict=True)
    }


def heaviest_forest(score: np.ndarray) -> list[tuple[int, int]]:
    """Return the edges of the maximum spanning forest, of positive scores only; Prim's algorithm.

    Of equal scores the columns that come first have it.
    """
    count = len(score)
    waiting = np.ones(count, dtype=bool)
    best, nearest = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
    edges = []
    for _ in range(count):
        here = int(np.argmax(np.where(waiting, best, -np.inf)))
        if not waiting[here] or best[here] <= 0:
            here = int(np.argmax(waiting))  # the first of another tree
        else:
            edges.append((int(nearest[here]), here))
        waiting[here] = False
        closer = waiting & (score[here] > best)
        best[closer], nearest[closer] = score[here][closer], here
    return edges


def parents_from(edges: Sequence[tuple[int, int]], count: int, root: int) -> list[int]:
    """Return the parent of every node, -1 for roots: the given root, and the first node of every other tree."""
    neighbours = neighbours_of(edges, count)
    parents = [-2] * count
    for start in (root, *range(count)):
        if parents[start] != -2:
            continue
        parents[start] = -1
        line = [start]
        for here in line:  # the list grows during the loop
            for other in neighbours[here]:
                if parents[other] == -2:
                    parents[other] = here
                    line.append(other)
    return parents
