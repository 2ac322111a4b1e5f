"""Tables drawn from their posterior distribution given rows with missing values, by data augmentation.

In turns the missing values of each row are drawn given the tables, and the tables given the rows that are complete then
(Tanner and Wong, 1987). The tables that are drawn vary as much as the rows leave open: expected counts, which stand for
missing values as if they had been seen, would tell too little of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..tables.encoded import Evidence

if TYPE_CHECKING:
    from .bayesian import BayesianNetwork

BURN_IN = 50
"""Draws that are left out, since they depend on the tables that were begun with."""

MOST_DRAWN_NUMBERS = 2**24
"""Numbers of all tables that are drawn: 128 MB. Of larger networks there are fewer draws."""

FEWEST_DRAWS = 100

MOST_REPEATED = 2**22
"""Rows, each as often as it counts, up to which those of equal rows are drawn one by one; with more, all are alike."""


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """What tables were learnt from, where values were missing.

    Attributes:
        rows: the rows, with their weights.
        prior: a Dirichlet count for each cell of all tables, in their layout.
        tables: the numbers of the tables that were learnt.
    """

    rows: Evidence
    prior: np.ndarray
    tables: frozenset[int]


def drawn_tables(
    network: BayesianNetwork, learnt_from: IncompleteRows, totals: Sequence[np.ndarray], draws: int, seed: int
) -> dict[int, np.ndarray]:
    """Tables drawn given rows with missing values, (draws, rows, states) by the number of the table.

    A row of a table without any Dirichlet count has one in all, shared out as its probabilities are: with none, a state
    that no row has once would never be drawn again. Tables that were not learnt from these rows are drawn from the
    counts they have, or stay as they are.

    Args:
        network: with the tables that were learnt.
        learnt_from: the rows.
        totals: the Dirichlet count of each row of each table; infinite where it is certain.
        draws: how many; at most `MOST_DRAWN_NUMBERS` numbers in all are drawn.
        seed: of the draws.
    """
    layout, random = network._spec.layout, np.random.default_rng(seed)
    count = max(min(draws, FEWEST_DRAWS), min(draws, MOST_DRAWN_NUMBERS // max(layout.size, 1)))
    found: dict[int, list[np.ndarray]] = {number: [] for number in range(len(layout.table_shapes))}
    priors = [_prior(network, learnt_from, number) for number in range(len(layout.table_shapes))]
    values = network._parameters.values.copy()
    for number, counts in enumerate(_counts_of_draws(network, learnt_from, values, BURN_IN + count, random)):
        for table, kept in found.items():
            old = layout.table(network._parameters.values, table)
            if table in learnt_from.tables:
                new = drawn_rows(layout.table(counts, table) + priors[table], old, random)
            else:
                certain = np.isinf(totals[table])[:, None]
                new = np.where(
                    certain, old, drawn_rows(np.where(certain, 1.0, totals[table][:, None]) * old, old, random)
                )
            layout.table(values, table)[...] = new
            if number >= BURN_IN:
                kept.append(new)
    return {table: np.array(kept) for table, kept in found.items()}


def drawn_rows(counts: np.ndarray, otherwise: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A table whose rows are drawn from Dirichlet distributions with some counts; a row without any is `otherwise`."""
    gamma = random.standard_gamma(counts)
    sums = gamma.sum(axis=1, keepdims=True)
    found: np.ndarray = np.where(sums > 0, gamma / np.where(sums > 0, sums, 1), otherwise)
    return found


def _prior(network: BayesianNetwork, learnt_from: IncompleteRows, number: int) -> np.ndarray:
    """The Dirichlet count of each cell of a table; those of a row without any are its probabilities."""
    layout = network._spec.layout
    prior, table = layout.table(learnt_from.prior, number), layout.table(network._parameters.values, number)
    found: np.ndarray = np.where(prior.sum(axis=1, keepdims=True) > 0, prior, table)
    return found


def _counts_of_draws(
    network: BayesianNetwork,
    learnt_from: IncompleteRows,
    values: np.ndarray,
    draws: int,
    random: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Counts of all cells, with missing values drawn under `values`, which is to be changed before the next are."""
    rows, cells = learnt_from.rows, network._cells()
    weights = rows.given_weights
    places = np.arange(rows.rows)
    if (weights == np.round(weights)).all() and weights.sum() <= MOST_REPEATED:
        places = np.repeat(places, weights.astype(np.int64))
        weights = np.ones(len(weights))
    known = np.zeros((rows.rows, len(network.names)), dtype=np.int64)
    for edge in range(len(network.names)):
        column = rows.slot[edge]
        known[:, edge] = rows.codes[:, column] if column >= 0 else -1
    complete: np.ndarray = np.logical_and.reduce(known >= 0, axis=1)
    same = _counts_of_complete(network, cells, known[places[complete[places]]], weights[places[complete[places]]])
    places = places[~complete[places]]
    if not len(places):
        for _ in range(draws):
            yield same
        return
    drawing = network._tree_network()._assignments(rows.take(places))
    edges = [drawing.plan.edge(name) for name in network.names]
    for _ in range(draws):
        yield same + _counts_of_complete(network, cells, drawing.sampled(edges, 1, random, values), weights[places])


def _counts_of_complete(
    network: BayesianNetwork, cells: Sequence[tuple[int, list[int], list[int]]], codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """How often each cell of all tables occurs in complete rows, (rows, variables), in the layout of the tables."""
    layout = network._spec.layout
    out = np.zeros(layout.size)
    for number, variables, sizes in cells:
        states = np.ravel_multi_index(tuple(codes[:, variable] for variable in variables), tuple(sizes))
        mine = layout.table(out, number)
        mine += np.bincount(states, weights, minlength=mine.size).reshape(mine.shape)
    return out
