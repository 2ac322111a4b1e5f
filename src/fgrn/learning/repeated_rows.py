"""Whether equal rows of a table are observations of their own, or copies of one: for cross-validation.

Copies of a row in the rows to learn from and in those held out make every model look good that remembers rows. They
come from rows that were repeated to balance classes, drawn with replacement, or weighted by whole numbers. In a table
of few columns, or one of frequencies, equal rows are observations of their own, and must not be kept together.

Of rows with equal columns, observations agree in the class as often as the class can be told from the columns, and
copies always agree. For each group g of such rows,

    observed_g = pairs of rows of one class / all pairs
    expected_g = sum over classes of P(class | columns)^2

with the probabilities of naive Bayes, at its best temperature, learnt from all other groups.
"""

from __future__ import annotations

import numpy as np

from ..flow.equal_rows import groups_of_equal_rows
from ..tables.encoded import Evidence

FEW_DIFFERENT, MANY_LINES = 100, 5.0
"""Fewer different rows than FEW_DIFFERENT, with more than MANY_LINES lines of the table for each, are cells of a few
columns, and lines are observations of their own."""

FEW_REPEATED = 0.05
"""A smaller share of rows that are repeated does not matter."""

CLEARLY_MORE = 3.0
"""The standard errors by which agreement is clearly more than expected."""

MOSTLY = 0.75
"""The part of the expected disagreement that has to be missing."""

MOST_COMPARED = 5_000
"""Groups that are compared, at most."""

LEAST = 1e-12
"""Added to each probability of a class, relative to the largest."""

TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Those that naive Bayes is tried at, which is too sure of itself where columns depend on each other."""


def are_copies(rows: Evidence, target: str, copies: np.ndarray, lines: int) -> bool:
    """Return whether equal rows are copies of one observation, rather than observations of their own.

    Args:
        rows: the different rows of a table, the class included.
        target: the column that is the class.
        copies: how often each row occurs.
        lines: of the table, without regard to weights.
    """
    classes = rows.codes[:, rows.columns.index(target)]
    known = np.flatnonzero(classes >= 0)
    total, repeated = copies[known].sum(), copies[known][copies[known] > 1].sum()
    are_cells = rows.rows < FEW_DIFFERENT and lines > MANY_LINES * rows.rows
    if repeated <= FEW_REPEATED * total or are_cells or rows.soft.shape[1]:
        return False
    columns = rows.take(known).without(target)
    found = groups_of_equal_rows(columns)
    if found is None:
        return False
    firsts, group = found
    some = np.flatnonzero(group < MOST_COMPARED)  # groups are in the order of hashes, like at random
    counts = np.zeros((min(len(firsts), MOST_COMPARED), int(classes.max()) + 1))
    np.add.at(counts, (group[some], classes[known[some]]), copies[known[some]])
    return _agree_more_than_expected(counts, _chances(columns.codes[firsts[:MOST_COMPARED]], counts))


def _agree_more_than_expected(counts: np.ndarray, chances: np.ndarray) -> bool:
    """Return whether the rows of groups are of one class clearly more often than they would be by these chances.

    Args:
        counts: how many rows of each class a group has, (groups, classes).
        chances: the probability of each class given the columns.
    """
    sizes = counts.sum(axis=1)
    several = sizes >= 2
    pairs = (counts * (counts - 1)).sum(axis=1)[several] / (sizes * (sizes - 1))[several]
    expected = (chances**2).sum(axis=1)[several]
    more, spread = (pairs - expected).sum(), np.sqrt((expected * (1 - expected)).sum())
    return bool(more > CLEARLY_MORE * spread and more > MOSTLY * (1 - expected).sum())


def _chances(codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the probability of each class in each group, by naive Bayes learnt from the others, each of weight 1.

    Args:
        codes: of the columns of each group, (groups, columns); negative for a missing value.
        counts: how many rows of each class a group has, (groups, classes).
    """
    counts = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log(counts.sum(axis=0) - counts + 1)
    for column in codes.T:
        known = np.flatnonzero(column >= 0)
        if len(known):
            own, levels = counts[known], int(column.max()) + 1
            table = np.zeros((levels, counts.shape[1]))
            np.add.at(table, column[known], own)
            logs[known] += np.log(table[column[known]] - own + 1 / levels) - np.log(table.sum(axis=0) - own + 1)
    return min((_softmax(logs / one) for one in TEMPERATURES), key=lambda chances: -(counts * np.log(chances)).sum())


def _softmax(logs: np.ndarray) -> np.ndarray:
    """Return distributions over the classes, with no probability zero."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True)) + LEAST
    out: np.ndarray = shares / shares.sum(axis=1, keepdims=True)
    return out
