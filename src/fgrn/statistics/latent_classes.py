"""A latent class model as arrays, and the rows it is evaluated on: distinct rows (patterns) with weights.

    P(y, k) = prior[k] * product over the observed items j of tables[j][k, y_j]

Items with a missing value are left out of the product: they are summed out. Continuous columns add their densities.
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
from .continuous_items import ContinuousItems

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
    held        (K, M): which item-response probabilities were given by constraints; None if none was
    leader      (K, M): the place, among K * M, of the one that each is equal to by constraints; None if all may differ
    numbers     means and variances of continuous columns; None if there are none
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Label, ...], ...]
    prior: np.ndarray
    tables: tuple[np.ndarray, ...]
    smoothing: float = 0.0
    learns_prior: bool = True
    held: np.ndarray | None = None
    leader: np.ndarray | None = None
    numbers: ContinuousItems | None = None

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
        """(J,): the first column of each item in `cells`, where all items are side by side."""
        return np.concatenate([[0], np.cumsum(self.sizes)])[:-1].astype(np.intp)

    @cached_property
    def cells(self) -> np.ndarray:
        """(K, M): the tables of all items side by side."""
        return np.concatenate([np.zeros((self.n_classes, 0)), *self.tables], axis=1)

    @property
    def continuous_items(self) -> ContinuousItems:
        """The continuous columns; an error if there are none."""
        if self.numbers is None:
            raise LearningError("The model has no continuous columns.")
        return self.numbers

    @property
    def values(self) -> np.ndarray:
        """All estimates: class sizes, item-response probabilities class by class, then means, then variances."""
        numbers = [] if self.numbers is None else [self.numbers.values]
        return np.concatenate([self.prior, self.cells.ravel(), *numbers])

    @cached_property
    def coordinates(self) -> np.ndarray:
        """(K, ...): the profile of each class, in the form by which classes are compared."""
        return self.cells if self.numbers is None else np.concatenate([self.cells, self.numbers.coordinates], axis=1)

    def ordered(self, order: np.ndarray) -> LatentClasses:
        """Return the same model with its classes reordered: class k is the old class `order[k]`."""
        numbers = None if self.numbers is None else self.numbers.ordered(order)
        tables = tuple(table[order] for table in self.tables)
        return replace(self, prior=self.prior[order], tables=tables, numbers=numbers)

    def with_cells(self, cells: np.ndarray) -> LatentClasses:
        """Return the same model with other item-response probabilities, (K, M)."""
        return replace(self, tables=tuple(np.split(cells, self.starts[1:], axis=1)) if self.names else ())

    def indicators(self, codes: np.ndarray) -> np.ndarray:
        """Return 0/1 indicators of the level of each item in each row, (rows, M); all 0 for a missing item."""
        out = np.zeros((len(codes), self.cells.shape[1]))
        row, item = np.nonzero(codes != UNKNOWN)
        out[row, self.starts[item] + codes[row, item]] = 1.0
        return out

    def log_given_class(self, rows: Patterns) -> np.ndarray:
        """Return the log-probability of the known values of each row in each class, (rows, K)."""
        codes = rows.codes
        with np.errstate(divide="ignore"):
            logs = [np.log(table.T) for table in self.tables]
        joint = np.zeros((len(codes), self.n_classes))
        for item, log in enumerate(logs):
            known = codes[:, item] != UNKNOWN
            joint[known] += log[codes[known, item]]
        return joint if self.numbers is None else joint + self.numbers.log_density(rows.numbers)

    def posterior(self, rows: Patterns, shares: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the class memberships of each row, (rows, K), and its log-likelihood, (rows,).

        `shares`, (rows, K), are class sizes that differ from row to row, in place of the prior.
        """
        with np.errstate(divide="ignore"):
            return memberships(self.log_given_class(rows) + np.log(self.prior if shares is None else shares))


def memberships(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the class memberships and the log-likelihood of rows, from log P(row, class), (rows, K)."""
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
class ClassLogits:
    """Class sizes that depend on covariates of the row: P(class k | z) = exp(z beta_k) / sum_m exp(z beta_m).

    design   (rows, W): the covariates of each row, the first of which is 1
    beta     (K, W): coefficients; those of class 0, the reference, are 0
    """

    design: np.ndarray
    beta: np.ndarray

    @classmethod
    def flat(cls, design: np.ndarray, classes: int) -> ClassLogits:
        """Return logits of equal class sizes, for all covariates."""
        return cls(design, np.zeros((classes, design.shape[1])))

    @cached_property
    def log_shares(self) -> np.ndarray:
        """Return the logarithms of the class sizes of each row, (rows, K)."""
        logits = self.design @ self.beta.T
        logits -= logits.max(axis=1, keepdims=True)
        found: np.ndarray = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return found

    @cached_property
    def shares(self) -> np.ndarray:
        """Return the class sizes of each row, (rows, K)."""
        found: np.ndarray = np.exp(self.log_shares)
        return found

    @property
    def count(self) -> int:
        """The number of free coefficients."""
        return self.beta[1:].size

    def of_rows(self, some: slice) -> ClassLogits:
        """Return the class sizes of some of the rows."""
        return ClassLogits(self.design[some], self.beta)

    def moved(self, step: np.ndarray) -> ClassLogits:
        """Return the class sizes with a step, (count,), added to the free coefficients."""
        beta = self.beta.copy()
        beta[1:] += step.reshape(beta[1:].shape)
        return ClassLogits(self.design, beta)

    def gradient(self, memberships: np.ndarray) -> np.ndarray:
        """(rows, count): the derivatives of sum_k m_k log P(k | z) by the coefficients, m the memberships of a row."""
        apart = (memberships - self.shares)[:, 1:]
        found: np.ndarray = (apart[:, :, None] * self.design[:, None, :]).reshape(len(self.design), -1)
        return found

    def size_jacobian(self, weights: np.ndarray) -> np.ndarray:
        """(K, count): the derivatives of the mean class sizes, over rows with weights, by the coefficients."""
        found = np.empty((self.beta.shape[0], self.count))
        for k, share in enumerate(self.shares.T):
            own = np.zeros_like(self.shares)
            own[:, k] = 1.0
            found[k] = (weights * share) @ self.gradient(own) / weights.sum()
        return found

    def curvature(self, weights: np.ndarray, memberships: np.ndarray) -> np.ndarray:
        """(count, count): the sum over rows of weight * (diag(m) - m m') times z z', m the memberships of the row."""
        count, width = self.beta.shape[0] - 1, self.beta.shape[1]
        out = np.empty((count, width, count, width))
        for a in range(count):
            for b in range(count):
                factor = weights * memberships[:, a + 1] * ((a == b) - memberships[:, b + 1])
                out[a, :, b, :] = self.design.T @ (self.design * factor[:, None])
        return out.reshape(count * width, count * width)


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows as codes, with equal rows merged; rows with continuous numbers are not merged.

    codes     (patterns, J): the level of each item, UNKNOWN where it is missing
    weights   (patterns,): the sum of the weights of the rows
    squares   (patterns,): the sum of the squares of the weights of the rows
    rows      how many rows of positive weight there were
    numbers   (patterns, continuous columns): NaN where one is missing; no columns if there are none
    """

    codes: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    rows: int
    numbers: np.ndarray

    def __post_init__(self) -> None:
        if len(self.numbers) != len(self.codes):
            raise ValueError(f"There are {len(self.codes):,} patterns, and numbers of {len(self.numbers):,}.")

    @classmethod
    def of_codes(cls, codes: np.ndarray, weights: np.ndarray, squares: np.ndarray, rows: int) -> Patterns:
        """Return patterns without continuous columns."""
        return cls(codes, weights, squares, rows, np.zeros((len(codes), 0)))

    @classmethod
    def of(cls, table: Evidence, names: tuple[str, ...], merge: bool = True) -> Patterns:
        """Return the rows of a table, with columns in the order of the items; an item without a column is missing."""
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
        if not merge or table.numbers.shape[1]:
            return cls(codes, weights, weights**2, count, table.numbers)
        codes, weights = codes[some], weights[some]
        distinct, number = distinct_rows(codes)
        return cls.of_codes(
            distinct,
            np.bincount(number, weights, minlength=len(distinct)),
            np.bincount(number, weights**2, minlength=len(distinct)),
            count,
        )

    def among(self, places: np.ndarray, count: int) -> Patterns:
        """Return these rows as a longer table, in which the other rows have weight 0 and no known value."""
        codes = np.full((count, self.codes.shape[1]), UNKNOWN, dtype=self.codes.dtype)
        weights, squares = np.zeros(count), np.zeros(count)
        codes[places], weights[places], squares[places] = self.codes, self.weights, self.squares
        numbers = np.full((count, self.numbers.shape[1]), np.nan)
        numbers[places] = self.numbers
        return Patterns(codes, weights, squares, self.rows, numbers)

    def at(self, kept: np.ndarray | slice) -> Patterns:
        """Return some of the rows, all assumed to have positive weight."""
        codes = self.codes[kept]
        return Patterns(codes, self.weights[kept], self.squares[kept], len(codes), self.numbers[kept])

    def evidence(self, names: tuple[str, ...]) -> Evidence:
        """Return the rows as a table to learn from, with these names of items."""
        return replace(Evidence.of_codes(names, self.codes, self.weights), numbers=self.numbers)

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.weights.sum())

    def blocks(self, width: int) -> Iterator[slice]:
        """Yield slices of the patterns such that a block with `width` numbers per pattern is small."""
        step = max(1, CELLS_AT_ONCE // max(width, 1))
        for first in range(0, len(self.codes), step):
            yield slice(first, min(first + step, len(self.codes)))


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of a table of codes, sorted, and the number of each row among them."""
    keys, space = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        width = int(column.max(initial=0)) + 2  # UNKNOWN is -1
        if space * width >= 2**62:
            different, keys = np.unique(keys, return_inverse=True)
            keys, space = keys.reshape(-1), len(different)
        keys, space = keys * width + (column + 1), space * width
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], number.reshape(-1)
