"""The hidden Chow-Liu tree: one hidden variable per column, joined as the Chow-Liu tree joins the columns.

    Source -> S:b -> Diverter -> SISO -> b
                              -> SISO -> S:a -> Diverter -> SISO -> a ...

The tree of the columns is found by their mutual information; with hidden variables in between, what neighbours tell
each other is no longer limited to their own states (Liu and Van den Broeck, 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import WiringError, unknown_name
from ..core.settings import Name
from ..core.tree_centre import neighbours_of, tree_centre
from ..core.variable import Variable
from ..graph.blocks import SISO, Block, Diverter, Source
from ..graph.network import Network
from ..tables import frames
from .tree_learning import ColumnPairs, TreeTable, heaviest_forest, parents_from, penalty_rate, score_of_edges

COARSE = 32
"""A column with more levels is counted in this many bins of neighbouring levels while the tree is found."""


LEVEL_COUNT = 0.5
"""Added to the counts of levels and of pairs of levels where learning starts."""

BLUR = 0.1
"""The part of the column's own distribution in the start of each table from a hidden state to the column."""

UNEVENNESS = 1.0
"""Shape of the gamma distribution that cells between hidden variables are multiplied by; smaller is more uneven."""


def hidden_tree(
    data: frames.Data,
    hidden: int | Mapping[str, int] = 16,
    root: Name | None = None,
    penalty: float | str | None = None,
    *,
    states: Mapping[str, Any] | None = None,
    weights: Any = None,
    seed: int = 0,
) -> Network:
    """Return a hidden Chow-Liu tree over the columns of a table, whose tables are still to be learnt.

    The tree is that of `chow_liu`: of the largest sum of mutual information between neighbours, each pair counted in
    the rows where both values are known. Columns of more than 32 levels are counted in 32 bins of neighbouring levels;
    the network itself has all levels. The hidden variable of column "a" is called "S:a". The network is an ordinary
    one: `learn` it, ask it, draw it, save it; any column may be a class.

    Args:
        data: the rows: a mapping of columns or any dataframe, with labels, codes and missing values.
        hidden: the states of each hidden variable: one number for all, or one by column.
        root: the column whose hidden variable is the root of the tree; unless given, the one in the middle, from which
            the others are the fewest steps away. The likelihood does not depend on it.
        penalty: what an edge must gain in log-likelihood for each parameter that it would add between the columns
            themselves: a number, "aic" or "bic". Unless given, 0. Columns that gain by no edge are joined to the root.
        states: of columns that have states no row has, or more of them than are taken for a category.
        weights: one weight per row.
        seed: of the random part of where learning starts.

    Learning starts near the Chow-Liu tree of the columns: each hidden state stands for an equal share of the rows in
    the order of the column's levels, and tables between hidden variables are those of the columns, made uneven at
    random.
    """
    top = settings.name_of(root)
    table = TreeTable.of(data, states, weights)
    table.check_columns(() if top is None else (top,))
    sizes = [variable.cardinality for variable in table.blank.variables]
    count = _states_of_hidden(hidden, table.names)
    pairs = ColumnPairs(
        [min(size, COARSE) for size in sizes], [(_coarse(table.evidence.codes, sizes), table.evidence.row_weights)]
    )
    rate = penalty_rate(0.0 if penalty is None else penalty, table.evidence.weight)
    edges = heaviest_forest(score_of_edges(pairs, rate))
    start = tree_centre(neighbours_of(edges, len(sizes))) if top is None else table.names.index(top)
    parents = parents_from(edges, len(sizes), start)
    parents = [start if parent < 0 and node != start else parent for node, parent in enumerate(parents)]
    return _network(table.blank.variables, count, parents, _starts(table, sizes, count, parents, seed))


def _coarse(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return the codes with the levels of large columns joined in bins."""
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


def _starts(
    table: TreeTable, sizes: Sequence[int], hidden: Sequence[int], parents: Sequence[int], seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the initial tables of each column: P(column | hidden), and P(hidden | parent's hidden) or its prior."""
    draw = np.random.default_rng(seed)
    codes, weights = table.evidence.codes, table.evidence.row_weights
    shares = []
    for column, (size, states) in enumerate(zip(sizes, hidden, strict=True)):
        known = codes[:, column] >= 0
        counts = np.bincount(codes[known, column].astype(np.int64), weights[known], minlength=size) + LEVEL_COUNT
        shares.append(_shares(counts / counts.sum(), states))
    out = []
    for column, parent in enumerate(parents):
        share = shares[column]
        level = share / share.sum(axis=1, keepdims=True)  # P(level | state)
        marginal = share.sum(axis=0)
        emission = (1 - BLUR) * level + BLUR * marginal
        state = share / marginal  # (states, levels): P(state | level), by column
        if parent < 0:
            prior = share.sum(axis=1)
            out.append((emission, prior / prior.sum()))
            continue
        both = _pair_counts(codes, weights, parent, column, sizes) + LEVEL_COUNT
        above = shares[parent] / shares[parent].sum(axis=1, keepdims=True)
        link = above @ (both / both.sum(axis=1, keepdims=True)) @ state.T
        link = link * draw.standard_gamma(UNEVENNESS, link.shape) + 1e-6
        out.append((emission, link / link.sum(axis=1, keepdims=True)))
    return out


def _shares(marginal: np.ndarray, states: int) -> np.ndarray:
    """Return P(state, level), where each state has an equal share of the probability, in the order of the levels."""
    ends = np.cumsum(marginal)
    begins = ends - marginal
    low, high = np.arange(states)[:, None] / states, np.arange(1, states + 1)[:, None] / states
    overlap: np.ndarray = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
    return overlap + 1e-9


def _pair_counts(codes: np.ndarray, weights: np.ndarray, one: int, other: int, sizes: Sequence[int]) -> np.ndarray:
    """How often the levels of two columns meet."""
    known = (codes[:, one] >= 0) & (codes[:, other] >= 0)
    cells = codes[known, one].astype(np.int64) * sizes[other] + codes[known, other]
    counts = np.bincount(cells, weights[known], minlength=sizes[one] * sizes[other])
    return counts.reshape(sizes[one], sizes[other])


def _network(
    columns: Sequence[Variable],
    hidden: Sequence[int],
    parents: Sequence[int],
    starts: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Network:
    """The blocks: a Source for each root, a Diverter for each hidden variable with children, a SISO for each arc."""
    causes = [Variable(f"S:{column.name}", states) for column, states in zip(columns, hidden, strict=True)]
    children: list[list[int]] = [[] for _ in columns]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    blocks: list[Block] = [Source(causes[node], starts[node][1]) for node, parent in enumerate(parents) if parent < 0]
    for node, cause in enumerate(causes):
        targets = [(columns[node], starts[node][0]), *((causes[child], starts[child][1]) for child in children[node])]
        if len(targets) == 1:
            blocks.append(SISO(cause, *targets[0]))
            continue
        legs = [Variable(f"{cause.name}->{target.name}", cause.labels) for target, _ in targets]
        blocks.append(Diverter([cause], legs))
        blocks += [SISO(leg, target, start) for leg, (target, start) in zip(legs, targets, strict=True)]
    return Network(blocks)
