"""A latent class model as arrays, and the rows it is judged on: distinct rows (patterns) with their weights.

    P(y, k) = prior[k] * product over the observed items j of tables[j][k, y_j]

Items with a missing value are left out of the product: they are summed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.exceptions import ImpossibleEvidence, LearningError
from ..core.labels import Label
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN

CELLS_AT_ONCE = 2**21
"""Numbers in a block of rows: a few blocks of this size fit into the cache and memory of any machine."""


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """The estimates of a latent class model.

    names       of the items (columns), J of them
    levels      the labels of the levels of each item
    prior       (K,): the class sizes
    tables      of each item, (K, levels): item-response probabilities P(level | class)
    smoothing   the Dirichlet count that was added to every cell of every table
    learns_prior  whether the class sizes were estimated, and not given
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Label, ...], ...]
    prior: np.ndarray
    tables: tuple[np.ndarray, ...]
    smoothing: float = 0.0
    learns_prior: bool = True

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.prior)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels of each item."""
        return tuple(len(one) for one in self.levels)

    @cached_property
    def starts(self) -> np.ndarray:
        """(J,): the first column of each item where the levels of all items stand side by side."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.intp)

    @cached_property
    def cells(self) -> np.ndarray:
        """(K, M): the tables of all items side by side."""
        return np.concatenate(self.tables, axis=1)

    def ordered(self, order: np.ndarray) -> LatentClasses:
        """The same model with its classes in another order: class k becomes what class `order[k]` was."""
        return replace(self, prior=self.prior[order], tables=tuple(table[order] for table in self.tables))

    def indicators(self, codes: np.ndarray) -> np.ndarray:
        """(rows, M): 1 at the level of each item in each row; all 0 for an item that is missing."""
        out = np.zeros((len(codes), self.cells.shape[1]))
        row, item = np.nonzero(codes != UNKNOWN)
        out[row, self.starts[item] + codes[row, item]] = 1.0
        return out

    def posterior(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The class memberships of each row, (rows, K), and its log-likelihood, (rows,)."""
        with np.errstate(divide="ignore"):
            logs = [np.log(table.T) for table in self.tables]
            joint = np.tile(np.log(self.prior), (len(codes), 1))
        for item, log in enumerate(logs):
            known = codes[:, item] != UNKNOWN
            joint[known] += log[codes[known, item]]
        most = joint.max(axis=1)
        if not np.isfinite(most).all():
            raise ImpossibleEvidence(
                "This row has probability zero under the model, whose tables have zeros.",
                rows=np.flatnonzero(~np.isfinite(most))[:8],
                remedies="fit with a positive smoothing, or leave the row out",
            )
        shares = np.exp(joint - most[:, None])
        total = shares.sum(axis=1)
        return shares / total[:, None], most + np.log(total)


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows as codes, equal rows merged to one.

    codes     (patterns, J): the level of each item, UNKNOWN where it is missing
    weights   (patterns,): the sum of the weights of the rows
    squares   (patterns,): the sum of the squares of the weights of the rows
    rows      how many rows of positive weight there were
    """

    codes: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    rows: int

    @classmethod
    def of(cls, table: Evidence, names: tuple[str, ...], merge: bool = True) -> Patterns:
        """The rows of a table, with its columns in the order of the items; an item without a column is missing."""
        place = {name: position for position, name in enumerate(table.columns)}
        codes = np.full((table.rows, len(names)), UNKNOWN, dtype=np.int32)
        for item, name in enumerate(names):
            if name in place:
                codes[:, item] = table.codes[:, place[name]]
        weights = np.array(table.row_weights, dtype=np.float64)
        if not weights.sum():
            raise LearningError("There is no row with a positive weight.")
        some = weights > 0
        count = int(np.count_nonzero(some))
        if not merge:
            return cls(codes, weights, weights**2, count)
        codes, weights = codes[some], weights[some]
        distinct, number = distinct_rows(codes)
        return cls(
            distinct,
            np.bincount(number, weights, minlength=len(distinct)),
            np.bincount(number, weights**2, minlength=len(distinct)),
            count,
        )

    def among(self, places: np.ndarray, count: int) -> Patterns:
        """The rows at these places of a table of so many rows, whose other rows have weight 0 and no known value."""
        codes = np.full((count, self.codes.shape[1]), UNKNOWN, dtype=self.codes.dtype)
        weights, squares = np.zeros(count), np.zeros(count)
        codes[places], weights[places], squares[places] = self.codes, self.weights, self.squares
        return Patterns(codes, weights, squares, self.rows)

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.weights.sum())

    def blocks(self, width: int) -> Iterator[slice]:
        """Slices of the patterns such that a block with `width` numbers for each pattern is small."""
        step = max(1, CELLS_AT_ONCE // max(width, 1))
        for first in range(0, len(self.codes), step):
            yield slice(first, min(first + step, len(self.codes)))


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a table of codes, sorted, and the number of each row among them."""
    keys, space = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        width = int(column.max(initial=0)) + 2  # UNKNOWN is -1
        if space * width >= 2**62:
            different, keys = np.unique(keys, return_inverse=True)
            keys, space = keys.reshape(-1), len(different)
        keys, space = keys * width + (column + 1), space * width
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], number.reshape(-1)
