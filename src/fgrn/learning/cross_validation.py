"""Cross-validation of classifiers: the rows that each fold learns from, and the rows it is tested on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..flow.equal_rows import merged
from ..tables.encoded import Evidence
from .repeated_rows import are_copies

MOST_ROWS = 20_000
"""Rows that classifiers are compared on; of larger tables so many are drawn, of each class by its share."""

LEAST_ROWS = 5
"""Rows of a class for each of its hidden states: a class with fewer has fewer states."""

LEAST_TO_PART = 10
"""The least number of rows with a known class for which some are held out."""

CLEARLY_WORSE = 3.0
"""The standard errors by which a log-loss is clearly larger than another one in the same rows."""


@dataclass(frozen=True)
class PartedRows:
    """The distinct rows of a table with their weights, and the folds in which each is held out.

    Equal rows with the class are one, with their weight: copies of a row are the same as a row of that weight, and the
    order of the rows does not matter. They are in several folds if they are observations of their own, and in one fold
    if they are copies of one observation, see `repeated_rows`.

    table            the rows
    target           the column that is the class
    held_out_shares  (parts, rows): the share of the weight of each row that is held out in a part
    count            how many observations have a known class
    copies           how many observations there are for a weight of 1: 1 where weights count them
    """

    table: Evidence
    target: str
    held_out_shares: np.ndarray
    count: float
    copies: float

    @classmethod
    def of(cls, table: Evidence, target: str, seed: int, ignored: Collection[str] = ()) -> PartedRows:
        """Return the rows of a table, without the `ignored` columns, assigned to folds class by class."""
        different, copies, lines = _different_rows(table, ignored)
        if are_copies(different, target, copies, lines):
            copies = np.ones(different.rows)
        order = np.random.default_rng([seed, 1]).permutation(different.rows)
        different, copies = different.take(order), copies[order]
        classes = different.codes[:, different.columns.index(target)]
        total = copies[classes >= 0].sum()
        kept = np.ones(different.rows, dtype=bool)
        parts = 5 if total <= 2_000 else 3 if total <= 6_000 else 4
        shares = np.zeros((parts if total <= 6_000 else 1, different.rows))
        for label in np.unique(classes[classes >= 0]):
            rows = np.flatnonzero(classes == label)
            ends = np.cumsum(copies[rows])
            kept[rows] = (ends - copies[rows]) * total < MOST_ROWS * ends[-1]
            for part in range(len(shares)):
                inside = _multiples(ends, parts, part) - _multiples(ends - copies[rows], parts, part)
                shares[part, rows] = inside / copies[rows]
        if total > MOST_ROWS:
            kept &= (classes >= 0) | (np.arange(different.rows) < 2 * MOST_ROWS)
        each = float(copies.sum() / different.row_weights.sum())
        return cls(different.take(np.flatnonzero(kept)), target, shares[:, kept], float(total), each)

    @cached_property
    def classes(self) -> np.ndarray:
        """The class of each row, -1 where it is unknown."""
        found: np.ndarray = self.table.codes[:, self.table.columns.index(self.target)]
        return found

    @property
    def is_complete(self) -> bool:
        """Whether the rows with a known class have no missing values and no distributions."""
        return bool((self.table.codes[self.classes >= 0] >= 0).all())

    @cached_property
    def parts(self) -> list[tuple[Evidence, Evidence]]:
        """Return, for each fold, the rows to learn from and the held-out rows."""
        held_out = [shares * self.table.row_weights for shares in self.held_out_shares]
        return [(self._some(self.table.row_weights - weights), self._some(weights)) for weights in held_out]

    @cached_property
    def weights_of_parts(self) -> np.ndarray:
        """Return the weights of the held-out rows, fold by fold, as numbers of copies."""
        return self.copies * np.concatenate([held_out.row_weights for _, held_out in self.parts])

    def _some(self, weights: np.ndarray) -> Evidence:
        rows = np.flatnonzero(weights > 1e-12 * self.table.row_weights)
        return replace(self.table.take(rows), row_weights=weights[rows])

    def states(self, size: int, classes: int) -> list[int]:
        """Return the number of hidden states of each class: at most `size`, and no more than its rows can determine."""
        counts = np.bincount(self.classes[self.classes >= 0], minlength=classes)
        return [max(1, min(size, int(count) // LEAST_ROWS)) for count in counts]

    @property
    def can_be_parted(self) -> bool:
        """Whether there are several classes, and rows enough to hold some out and learn from others."""
        known = self.classes[self.classes >= 0]
        enough = len(np.unique(known)) > 1 and self.count >= LEAST_TO_PART
        return enough and all(learnt.rows for learnt, _ in self.parts)


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean of the values of rows, and its standard error; weights are numbers of copies."""
    mean = float(np.average(values, weights=weights))
    others = max(weights.sum() - 1, 1.0)
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights) / others))


def clear_excess(differences: np.ndarray, weights: np.ndarray) -> float:
    """Return by how much losses are larger in the mean; 0 unless that is clearly more than its standard error."""
    mean, error = mean_and_error(differences, weights)
    return mean if weights.sum() > 20 and mean > CLEARLY_WORSE * error > 0 else 0.0


def _multiples(ends: np.ndarray, parts: int, part: int) -> np.ndarray:
    """Return how many numbers below each end have a given remainder."""
    return np.maximum(0, np.ceil((ends - part) / parts))


def _different_rows(table: Evidence, ignored: Collection[str]) -> tuple[Evidence, np.ndarray, int]:
    """Return the distinct rows with their weights, sorted by value, the number of copies of each, and of all lines.

    Weights that are whole numbers are copies; others (of surveys) are not.
    """
    some = table.take(slice(None, None, 1 if table.in_memory else max(1, table.rows // (4 * MOST_ROWS))))
    some = some.take(np.flatnonzero(some.row_weights > 0))
    for column in ignored:
        some = some.without(column)
    different = merged(some, always=True) or some
    if (some.row_weights == np.round(some.row_weights)).all():
        return different, different.row_weights, some.rows
    single = replace(some, row_weights=np.ones(some.rows))
    return different, (merged(single, always=True) or single).row_weights, some.rows
