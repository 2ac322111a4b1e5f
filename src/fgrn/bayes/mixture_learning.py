"""Learning a mixture of hidden trees that share the tables of columns with a tree learnt from all rows.

Rows are divided into groups by k-means. For each group a tree is learnt by EM: only the tables between hidden
variables, with a prior that is worth some rows as the first tree expects them. Then each row is assigned to the tree
under which it is the most probable, and another round follows (classification EM: Celeux and Govaert, 1992,
Computational Statistics & Data Analysis 14).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError, WiringError
from ..flow import em
from ..flow.mstep import Smoothing
from ..graph.network import Network
from ..learning.checkpoints import Journal, Place, open_journal
from ..learning.execution import engine_for
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from .tree_mixture import TreeMixture, own_names, own_table

CENTRE_ROWS, CENTRE_ROUNDS = 20_000, 12
"""Of k-means: how many rows the centres are found from, at most, and its rounds."""

ROWS_AT_ONCE = 2**13
"""Rows whose nearest centre is found at once."""

LEAST_GAIN = 3e-4
"""The relative gain in held-out log-likelihood that a round must reach for another round to follow."""

MOST_KEPT_CELLS = 2**27
"""The most cells of the tables of all trees and rounds in a checkpoint: 1 GiB."""

TREES, ROUNDS, TREE_EPOCHS, STRENGTH = 16, 4, 5, 15.0
"""Defaults: trees, rounds, epochs of each tree in a round, and rows of the prior for each hidden state."""


def tree_mixture(
    network: Network,
    data: frames.Data | EncodedTable,
    trees: int = TREES,
    *,
    rounds: int = ROUNDS,
    epochs: int = TREE_EPOCHS,
    strength: float = STRENGTH,
    weights: Any = None,
    validation: Any = None,
    seed: int = 0,
    watch: em.Watcher | None = None,
    checkpoint: Place = None,
    engine: str = "auto",
    threads: int | None = None,
    device: str | None = None,
    precision: str | None = None,
) -> TreeMixture:
    """Return a mixture of trees that share the tables of columns with a learnt hidden tree.

    Args:
        network: the hidden tree, see `hidden_tree`; it is not changed.
        data: the rows it was learnt from.
        trees: the number of trees.
        rounds: the number of rounds in which the trees are learnt and rows are assigned to the most probable tree.
        epochs: of EM, for each tree in each round.
        strength: the number of rows that the prior of each tree is worth, for each state of a hidden variable: with few
            rows the tables stay near those of the network.
        weights: one weight per row.
        validation: other rows. The round after which they are the most probable is kept; if that is none of them, the
            network itself, as a mixture of one tree. Learning ends with a round in which they gain next to nothing.
        seed: of the groups of rows that learning begins with.
        watch: called after every epoch with the number of the tree, of the epoch, and the log-likelihood per row of
            its group. Learning ends, and keeps what it has, when it returns True.
        checkpoint: a file, or a `Checkpoint`, that keeps the progress of learning, so that it can be resumed: trees
            that were learnt before are not learnt again, and the mixture is the same to the last bit. Where the trees
            of all rounds take more than 1 GiB nothing is kept.
        engine: see `Network.learn`, and so are the others.
        threads: the number of threads.
        device: where engine="torch" computes.
        precision: of its numbers.
    """
    for name, count in {"trees": trees, "rounds": rounds, "epochs": epochs}.items():
        settings.whole(name, count, 1, LearningError)
    settings.number("strength", strength, LearningError)
    own = own_names(network)
    if len(network._spec.layout.prior_names) != 1 or not network.is_tree:
        raise WiringError("A mixture is made of a hidden tree, which has one Source; see hidden_tree.")
    plan = network._plan()
    table = network._table(plan, data, weights).local_rows()
    held_out = None if validation is None else network._table(plan, validation).local_rows()
    runner = engine_for(engine, plan, table.rows * epochs * rounds, device, precision)
    run: dict[str, Any] = {"engine": runner, "threads": threads}
    best = TreeMixture(network, [1.0], {name: _table(network, name)[None] for name in own})
    reached = -np.inf if held_out is None else mean_log_likelihood(best, held_out, **run)
    group = nearest_centres(table, [network.variable(name).cardinality for name in table.columns], trees, seed)
    prior = Smoothing.of(network._spec, {name: strength * _table(network, name) for name in own})  # made once
    learning = {**run, "epochs": epochs, "only": own, "smoothing": prior, "merge": False}
    watched, mixture = _Watched(watch), best
    is_kept = 2 * trees * rounds * plan.layout.size <= MOST_KEPT_CELLS
    with open_journal(checkpoint if is_kept else None) as journal:
        for number in range(rounds):
            if number:
                group = mixture.scores(table, **run).argmax(axis=1)
            shares = np.bincount(group, table.row_weights, minlength=trees) + 1.0
            tables = _tables_of_trees(network, table, group, trees, watched, journal, learning)
            mixture = TreeMixture(network, shares, tables)
            score = 0.0 if held_out is None else mean_log_likelihood(mixture, held_out, **run)
            gained = score - reached
            if held_out is None or gained > 0:
                best, reached = mixture, score
            if watched.ended or (held_out is not None and gained < LEAST_GAIN * abs(reached)):
                break
    return best


def _tables_of_trees(
    network: Network,
    table: Evidence,
    group: np.ndarray,
    trees: int,
    watched: _Watched,
    journal: Journal | None,
    learning: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Learn the tree of each group of rows; returns the tables of all trees by hidden variable."""
    tables = {name: np.empty((trees, *_table(network, name).shape)) for name in own_names(network)}
    for tree in range(trees):
        member = network._with_parameters(network._parameters)
        rows = table.take(np.flatnonzero(group == tree))
        if rows.weight > 0 and not watched.ended:
            member.learn(rows, watch=watched.of(tree), checkpoint=journal, **learning)
        for name, found in tables.items():
            found[tree] = _table(member, name)
    return tables


def _table(network: Network, name: str) -> np.ndarray:
    """Return the table of a hidden variable, or the prior of the root."""
    return own_table(network._spec.layout, network._parameters.values, name)


def mean_log_likelihood(mixture: TreeMixture, rows: Evidence, **run: Any) -> float:
    """Return the mean log-likelihood of rows; `run`: engine, threads, device and precision."""
    found = mixture.propagate(rows, keep=[], parts=["likelihood"], impossible="mark", **run).log_likelihood
    return float(np.average(found, weights=rows.row_weights))


class _Watched:
    """Calls a callback of the user after every epoch, and records whether it requested a stop."""

    def __init__(self, watch: em.Watcher | None) -> None:
        self.watch, self.ended = watch, False

    def of(self, tree: int) -> em.Watcher | None:
        """Return the callback for the epochs of one tree."""
        if self.watch is None:
            return None

        def watched(_: int, epoch: int, likelihood: float) -> bool:
            self.ended = self.watch is not None and self.watch(tree, epoch, likelihood) is True
            return self.ended

        return watched


def nearest_centres(table: Evidence, sizes: list[int], groups: int, seed: int = 0) -> np.ndarray:
    """Return the group of each row by k-means, with the levels of each column as numbers from 0 to 1.

    Args:
        table: the rows; a missing value is the mean of its column.
        sizes: the levels of each column.
        groups: how many groups.
        seed: of the rows that centres are found from, and begin with.
    """
    draw = np.random.default_rng(seed)
    counted = np.flatnonzero(table.row_weights > 0)
    some = np.sort(draw.choice(counted, CENTRE_ROWS, replace=False)) if len(counted) > CENTRE_ROWS else counted
    scale = np.maximum(np.array(sizes, dtype=np.float32) - 1, 1)
    known = table.codes[some].astype(np.float32)
    known[known < 0] = np.nan
    counts = np.maximum((~np.isnan(known)).sum(axis=0), 1)
    means = np.nansum(known, axis=0) / counts / scale
    points = np.where(np.isnan(known), means, known / scale).astype(np.float32)
    centres = points[draw.choice(len(points), min(groups, len(points)), replace=False)]
    for _ in range(CENTRE_ROUNDS):
        member = (_nearest(points, centres)[:, None] == np.arange(len(centres))).astype(np.float32)
        counts = member.sum(axis=0)[:, None]
        centres = np.where(counts > 0, member.T @ points / np.maximum(counts, 1), centres)
    return np.concatenate([_nearest(block, centres) for block in _points_of(table, scale, means)])


def _points_of(table: Evidence, scale: np.ndarray, means: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows as points, some at a time."""
    for first in range(0, table.rows, ROWS_AT_ONCE):
        codes = table.codes[first : first + ROWS_AT_ONCE]
        yield np.where(codes < 0, means, codes / scale).astype(np.float32)


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the number of the centre nearest to each point."""
    found: np.ndarray = (2 * points @ centres.T - (centres**2).sum(axis=1)).argmax(axis=1)
    return found
