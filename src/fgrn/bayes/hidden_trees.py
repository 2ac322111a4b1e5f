"""The hidden Chow-Liu tree: one hidden variable per column, connected like the Chow-Liu tree of the columns.

    Source -> S:b -> Diverter -> SISO -> b
                              -> SISO -> S:a -> Diverter -> SISO -> a ...

A mixture of several such trees is such a network as well, whose hidden states include the number of the tree.

The tree of the columns is found by their mutual information; with hidden variables in between, the information between
neighbours is no longer limited to their own states (Liu and Van den Broeck, 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import WiringError, unknown_name
from ..core.settings import Name
from ..core.tree_centre import in_largest_tree, neighbours_of, tree_centre
from ..core.variable import Variable
from ..engines import device_column_pairs, gpu_is_there
from ..graph.blocks import SISO, Block, Diverter, Source
from ..graph.network import Network
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from .pair_scores import ColumnPairs, PairsOfColumns, score_of_edges
from .tree_learning import TreeTable, heaviest_forest, parents_from, penalty_rate
from .tree_mixture import side_by_side

COARSE = 32
"""A column with more levels is counted in this many bins of neighbouring levels while the tree is found."""


MOST_VALUES, FEWEST_ROWS, DRAWN = 6e9, 10_000, 4
"""The most pairs of columns times rows to find a tree from, the fewest rows, and part of the seed of a sample."""

GPU_VALUES = 2e9
"""Columns times columns times rows from which on pairs are counted on a GPU, if there is one."""

LEVEL_COUNT = 0.5
"""Added to the counts of levels and of pairs of levels where learning starts."""

BLUR = 0.1
"""The part of the column's own distribution in the start of each table from a hidden state to the column."""

LEVELS_PER_ROW, MOST_PRIOR_ROWS, LINK_ROWS = 8, 20, 0.5
"""The prior: levels of a column per row of each hidden state, the most rows, and the rows of other tables."""

UNEVENNESS = 1.0
"""Shape of the gamma distribution that cells between hidden variables are multiplied by; smaller is more uneven."""


def hidden_tree(
    data: frames.Data | EncodedTable,
    hidden: int | Mapping[str, int] = 16,
    root: Name | None = None,
    penalty: float | str | None = None,
    *,
    trees: int = 1,
    states: Mapping[str, Any] | None = None,
    weights: Any = None,
    seed: int = 0,
    name: str = "S",
    engine: str = "auto",
    device: str | None = None,
) -> Network:
    """Return a hidden Chow-Liu tree over the columns of a table, with tables that are not learnt yet.

    The tree is that of `chow_liu`: of the largest sum of mutual information between neighbours, each pair counted in
    the rows where both values are known. Columns of more than 32 levels are counted in 32 bins of neighbouring levels;
    the network itself has all levels. If that would be more than 6e9 values, a sample of at least 10,000 rows is used.
    The hidden variable of column "a" is called "S:a". The result is an ordinary network: it can be learnt, queried,
    drawn and saved; any column may be a class.

    Args:
        data: the rows: a mapping of columns or any dataframe, with labels, codes and missing values; or an encoded
            table, whose columns `states` describes.
        hidden: the states of each hidden variable: one number for all, or one by column.
        root: the column whose hidden variable is the root of the tree; unless given, the one in the middle, from which
            the others are the fewest steps away, of the largest tree if some columns are independent of the others.
            The likelihood does not depend on it, if all columns are joined.
        penalty: what an edge must gain in log-likelihood for each parameter that it would add between the columns
            themselves: a number, "aic" or "bic". Unless given, 0. Columns that gain by no edge are joined to the root.
        trees: for more than one, a mixture of so many trees that join the columns alike. Each hidden variable then has
            trees x hidden states, of which state t * hidden + s is state s of tree t; tables between hidden variables
            lead from states of a tree to states of the same tree only, so the root tells which tree a row is of.
        states: of columns that have states no row has, or more of them than are taken for a category.
        weights: one weight per row.
        seed: of the random part of where learning starts, and of rows that are drawn.
        name: what the names of hidden variables begin with.
        engine: with "torch" pairs of columns are counted on a device; "auto" does so for wide tables if there is a GPU.
        device: "cuda" or "cpu"; unless given, a GPU if there is one.

    Learning starts near the Chow-Liu tree of the columns: each hidden state stands for an equal share of the rows in
    the order of the column's levels, and tables between hidden variables are those of the columns, made uneven at
    random.
    """
    top = settings.name_of(root)
    settings.whole("trees", trees, 1, WiringError)
    columns, evidence = _columns_and_rows(data, states, weights)
    names = [column.name for column in columns]
    if top is not None and top not in names:
        raise unknown_name("column", top, names)
    sizes = [column.cardinality for column in columns]
    count = _states_of_hidden(hidden, names)
    some = _rows_for_tree(evidence, seed)
    pairs = pairs_in_bins([some], sizes, engine, device)
    rate = penalty_rate(0.0 if penalty is None else penalty, evidence.weight)
    score = score_of_edges(pairs, rate * some.weight / evidence.weight)
    parents = joined_as_tree(score, None if top is None else names.index(top))
    starts = initial_tables([TreeRows(evidence, count)], sizes, parents, np.random.default_rng(seed), trees)
    return network_of_tree(columns, parents, starts, [f"{name}:{column.name}" for column in columns])


def joined_as_tree(score: np.ndarray, root: int | None = None) -> list[int]:
    """Return the parent of each column in the tree with the largest score, -1 for the root.

    Args:
        score: of each pair of columns, see `score_of_edges`. Columns that gain by no edge are joined to the root.
        root: a column by number; unless given the one in the middle of the largest tree.
    """
    edges = heaviest_forest(score)
    near = neighbours_of(edges, len(score))
    top = tree_centre(near, in_largest_tree(near)) if root is None else root
    parents = parents_from(edges, len(score), top)
    return [top if parent < 0 and node != top else parent for node, parent in enumerate(parents)]


def _rows_for_tree(evidence: Evidence, seed: int) -> Evidence:
    """Return the rows to find the tree from: all of them, or a sample if the table is long and wide."""
    columns = evidence.codes.shape[1]
    most = max(FEWEST_ROWS, int(MOST_VALUES / max(columns * (columns - 1) / 2, 1)))
    if evidence.rows <= most:
        return evidence
    counted = np.flatnonzero(evidence.row_weights)
    return evidence.take(np.sort(np.random.default_rng((seed, DRAWN)).permutation(counted)[:most]))


def pairs_in_bins(
    groups: Sequence[Evidence], sizes: Sequence[int], engine: str = "auto", device: str | None = None
) -> PairsOfColumns:
    """Return the pairs of all columns, with the levels of large columns grouped in bins.

    One group of rows is counted on the processor or, if there are many values and there is a GPU, on that.

    Args:
        groups: the rows, in groups within which pairs are counted: those of each class, or one group.
        sizes: the levels of each column.
        engine: "torch" for a device, "auto" to choose.
        device: "cuda" or "cpu".
    """
    bins = [min(size, COARSE) for size in sizes]
    counted = [(_in_bins(rows.codes, sizes), rows.row_weights) for rows in groups]
    first, weights = counted[0]
    is_large = engine == "auto" and first.size * len(sizes) >= GPU_VALUES
    if len(groups) == 1 and (engine == "torch" or (is_large and gpu_is_there())):
        found: PairsOfColumns = device_column_pairs(bins, first, weights, device)
        return found
    return ColumnPairs(bins, counted)


def _columns_and_rows(
    data: frames.Data | EncodedTable, states: Mapping[str, Any] | None, weights: Any
) -> tuple[Sequence[Variable], Evidence]:
    """Return the columns of a table as variables, and its rows as their codes."""
    if not isinstance(data, EncodedTable):
        table = TreeTable.of(data, states, weights)
        return table.blank.variables, table.evidence
    evidence, known = data.local_rows(), settings.by_name(states)
    return [Variable(name, known[name]) for name in evidence.columns], evidence


def _in_bins(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return the codes with the levels of large columns grouped in bins."""
    out = np.asfortranarray(codes)
    for column, size in enumerate(sizes):
        if size > COARSE:
            out = out.copy(order="F") if out is codes else out
            known = codes[:, column].astype(np.int64)
            out[:, column] = np.where(known < 0, known, known * COARSE // size)
    return out


def _states_of_hidden(hidden: int | Mapping[str, int], names: Sequence[str]) -> list[int]:
    """Return the number of states of the hidden variable of each column."""
    if not isinstance(hidden, Mapping):
        settings.whole("hidden", hidden, 1, WiringError)
        return [int(hidden)] * len(names)
    named = settings.by_name(hidden)
    for name in named:
        if name not in names:
            raise unknown_name("column", name, names)
    missing = [name for name in names if name not in named]
    if missing:
        raise WiringError(
            f"'hidden' has no number of states for column {missing[0]!r}. Name every column, or give one."
        )
    for name in names:
        settings.whole(f"hidden[{name!r}]", named[name], 1, WiringError)
    return [int(named[name]) for name in names]


@dataclass(frozen=True, eq=False)
class TreeRows:
    """The rows that one tree of a mixture starts from, and the number of hidden states of each column in it."""

    evidence: Evidence
    hidden: Sequence[int]

    @cached_property
    def codes(self) -> np.ndarray:
        """Return the codes of the rows, stored column by column."""
        return np.asfortranarray(self.evidence.codes)

    def shares(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return P(state, level) of each column, given the number of its levels."""
        codes, weights = self.codes, self.evidence.row_weights
        out = []
        for column, (size, states) in enumerate(zip(sizes, self.hidden, strict=True)):
            known = codes[:, column] >= 0
            counts = np.bincount(codes[known, column].astype(np.int64), weights[known], minlength=size) + LEVEL_COUNT
            out.append(_shares(counts / counts.sum(), states))
        return out


def initial_tables(
    kinds: Sequence[TreeRows], sizes: Sequence[int], parents: Sequence[int], draw: np.random.Generator, copies: int = 1
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the initial tables of each column: P(column | hidden), and P(hidden | parent's hidden) or its prior.

    Args:
        kinds: the rows and hidden states of trees; the states of all trees are one after the other in the tables.
        sizes: the levels of each column.
        parents: the parent of each column, -1 for a root.
        draw: of the random part of tables between hidden variables.
        copies: how many trees start from the rows of each kind.
    """
    pairs = [ColumnPairs(sizes, [(one.codes, one.evidence.row_weights)]) for one in kinds]
    shares = [one.shares(sizes) for one in kinds]
    out = []
    for column, parent in enumerate(parents):
        emissions, links, priors = [], [], []
        for kind, pair, share in zip(kinds, pairs, shares, strict=True):
            of_column = share[column]
            level = of_column / of_column.sum(axis=1, keepdims=True)  # P(level | state)
            marginal = of_column.sum(axis=0)
            emission = (1 - BLUR) * level + BLUR * marginal
            emissions += [emission / emission.sum(axis=1, keepdims=True)] * copies
            if parent < 0:
                priors += [of_column.sum(axis=1) * (kind.evidence.weight + LEVEL_COUNT)] * copies
                continue
            state = of_column / marginal  # (states, levels): P(state | level), by column
            both = pair.counts(parent, column) + LEVEL_COUNT
            above = share[parent] / share[parent].sum(axis=1, keepdims=True)
            link = above @ (both / both.sum(axis=1, keepdims=True)) @ state.T
            uneven = [link * draw.standard_gamma(UNEVENNESS, link.shape) + 1e-6 for _ in range(copies)]
            links += [one / one.sum(axis=1, keepdims=True) for one in uneven]
        prior = np.concatenate(priors) if priors else np.zeros(0)
        out.append((np.concatenate(emissions), side_by_side(links) if links else prior / prior.sum()))
    return out


def _shares(marginal: np.ndarray, states: int) -> np.ndarray:
    """Return P(state, level), in which consecutive levels are divided among equally probable states."""
    ends = np.cumsum(marginal)
    begins = ends - marginal
    low, high = np.arange(states)[:, None] / states, np.arange(1, states + 1)[:, None] / states
    overlap: np.ndarray = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
    return overlap + 1e-9


def network_of_tree(
    columns: Sequence[Variable],
    parents: Sequence[int],
    starts: Sequence[tuple[np.ndarray, np.ndarray]],
    names: Sequence[str],
    label: tuple[Variable, np.ndarray] | None = None,
) -> Network:
    """Return a hidden tree: a Source for the root, Diverters for hidden variables with children, a SISO for each arc.

    Args:
        columns: the columns as variables.
        parents: the parent of each column, -1 for a root.
        starts: the initial tables of each column, see `initial_tables`; cells that are 0 stay 0.
        names: of the hidden variable of each column.
        label: one more column that is determined by the hidden variable of the root, and the table of zeros and ones
            from that to it.
    """
    causes = [Variable(name, len(start[0])) for name, start in zip(names, starts, strict=True)]
    children: list[list[int]] = [[] for _ in columns]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    blocks: list[Block] = [Source(causes[node], starts[node][1]) for node, parent in enumerate(parents) if parent < 0]
    for node, cause in enumerate(causes):
        below = [SISO(cause, columns[node], starts[node][0])]
        for one in children[node]:
            table = starts[one][1]
            below.append(SISO(cause, causes[one], table, support=None if table.all() else table > 0))
        if label is not None and parents[node] < 0:
            below.append(SISO(cause, *label, support=label[1]))
        if len(below) == 1:
            blocks += below
            continue
        legs = [Variable(f"{cause.name}->{block.output.name}", cause.labels) for block in below]
        blocks.append(Diverter([cause], legs))
        blocks += [
            SISO(leg, block.output, block.table, support=block.support) for leg, block in zip(legs, below, strict=True)
        ]
    return Network(blocks)


def counts_of_prior(network: Network, evidence: Evidence, rows: float, trees: int) -> dict[str, np.ndarray]:
    """Return the smoothing of a hidden tree, by table: cell counts that are worth a given number of rows.

    Each hidden state has `rows` times levels / LEVELS_PER_ROW rows (MOST_PRIOR_ROWS at most), which have the levels of
    the column as all rows of the table have them; each row of a table between hidden variables `rows` times LINK_ROWS,
    spread evenly; and each tree `rows` rows at its root, without which noise in small batches would let trees die out.
    """
    (root,) = network._spec.layout.prior_names
    states = network.variable(root).cardinality
    out: dict[str, np.ndarray] = {root: np.full(states, rows * trees / states)}
    columns = np.asfortranarray(evidence.codes)  # read column by column
    for block in network.blocks:
        if not isinstance(block, SISO):
            continue
        states, levels = block.input.cardinality, block.output.cardinality
        if block.output.name not in evidence.columns:
            allowed = np.ones((states, levels)) if block.support is None else block.support.astype(np.float64)
            out[block.output.name] = rows * LINK_ROWS * allowed / allowed.sum(axis=1, keepdims=True)
            continue
        codes = columns[:, evidence.columns.index(block.output.name)]
        counts = np.bincount(codes[codes >= 0].astype(np.int64), evidence.row_weights[codes >= 0], minlength=levels)
        shares = (counts + LEVEL_COUNT) / (counts + LEVEL_COUNT).sum()
        out[block.output.name] = np.tile(rows * min(levels / LEVELS_PER_ROW, MOST_PRIOR_ROWS) * shares, (states, 1))
    return out
