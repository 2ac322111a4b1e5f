"""The different values of columns that come in batches, and how often each does: what a schema is found from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.exceptions import Remedy, SchemaError
from . import frames
from .columns import plain_value, told_apart

MOST_WORDS = 10**6
"""Different words of a column that are remembered: more than anybody wants to learn from."""

MOST_NUMBERS = 2**18
"""Different numbers of a column that are remembered as they are. Of more, neighbours are taken together."""

ENOUGH = 2**16
"""Numbers that wait, at least, before they are sorted among the others."""


class Distinct:
    """The different values of one column, with their weights, as seen so far.

    Up to MOST_NUMBERS different numbers nothing is lost. Beyond that two neighbours become one with the weight of both
    and their mean, again and again, so that borders of bins move by about a hundred-thousandth of the rows.
    """

    def __init__(self, name: str) -> None:
        self.name, self.rows = name, 0
        self.weights: dict[Any, float] = {}
        self._numbers: np.ndarray = np.zeros(0)
        self._number_weights: np.ndarray = np.zeros(0)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._waits = 0
        self.categories: dict[Any, None] = {}
        self.categorical = self.ordered = False

    def see(self, column: Any, weights: np.ndarray | None) -> None:
        """Take more rows into account: a column as `frames.columns` reads it by value."""
        if frames.is_numbers(column) and column.dtype.kind != "b" and column.ndim == 1:
            self.rows += len(column)
            self._see_numbers(column, weights)
            return
        found = told_apart(column, self.name, self.rows)
        self.rows += len(found)
        shares = found.counts if weights is None else np.bincount(found.codes + 1, weights, len(found.values) + 1)[1:]
        self.categorical |= found.categorical
        self.ordered |= found.ordered
        for given, count, share in zip(found.values, found.counts.tolist(), shares.tolist(), strict=True):
            value = plain_value(given, self.name)
            if found.categorical and value is not None:
                self.categories[value] = None
            if count and value is not None:
                self.weights[value] = self.weights.get(value, 0.0) + share
        self._check_words()

    def join(self, other: Distinct) -> Distinct:
        """Take in what was seen elsewhere, of rows that come after these."""
        self.rows += other.rows
        for value, share in other.weights.items():
            self.weights[value] = self.weights.get(value, 0.0) + share
        self._check_words()
        self.categories |= other.categories
        self.categorical |= other.categorical
        self.ordered |= other.ordered
        if len(other.numbers):
            self._wait(other.numbers, other.number_weights)
        self.settle()
        return self

    def settle(self) -> None:
        """Have nothing waiting, so that asking changes nothing any more."""
        self._take_in()

    def _check_words(self) -> None:
        if len(self.weights) > MOST_WORDS:
            raise SchemaError(
                f"more than {MOST_WORDS:,} distinct values in the first {self.rows:,} rows looks like an identifier.",
                column=self.name,
                remedies=Remedy("leave it out", "", drop=self.name),
            )

    def _see_numbers(self, column: np.ndarray, weights: np.ndarray | None) -> None:
        known = column == column  # without NaN
        values, place = np.unique(column[known], return_inverse=True)
        shares = np.bincount(place, None if weights is None else weights[known], len(values)).astype(np.float64)
        self._wait(values, shares)

    def _wait(self, values: np.ndarray, shares: np.ndarray) -> None:
        self._waiting.append((values, shares))
        self._waits += len(values)
        if self._waits >= max(ENOUGH, len(self._numbers)):
            self._take_in()

    def _take_in(self) -> None:
        """Sort what waits among the others: now and then, since all of them are moved."""
        if not self._waiting:
            return
        old = [(self._numbers, self._number_weights)] if len(self._numbers) else []
        values, shares = (np.concatenate(parts) for parts in zip(*old, *self._waiting, strict=True))
        self._waiting, self._waits = [], 0
        if not len(values):
            return
        order = np.argsort(values, kind="stable")  # quick where runs of it are sorted
        values, shares = values[order], shares[order]
        first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        self._numbers, self._number_weights = values[first], np.add.reduceat(shares, first)
        while len(self._numbers) > MOST_NUMBERS:
            self._halve()

    def _halve(self) -> None:
        """Take neighbours together, but for the smallest and the largest."""
        inner, shares = self._numbers[1:-1].astype(np.float64), self._number_weights[1:-1]
        starts = np.arange(0, len(inner), 2)
        weight = np.add.reduceat(shares, starts)
        means = np.add.reduceat(inner * shares, starts) / weight
        self._numbers = np.concatenate([self._numbers[:1], means, self._numbers[-1:]])
        self._number_weights = np.concatenate([self._number_weights[:1], weight, self._number_weights[-1:]])

    @property
    def numbers(self) -> np.ndarray:
        """The different numbers, sorted."""
        self._take_in()
        return self._numbers

    @property
    def number_weights(self) -> np.ndarray:
        """The weight of each."""
        self._take_in()
        return self._number_weights

    @property
    def column(self) -> tuple[Any, np.ndarray]:
        """The values as a column in which each stands once, and their weights.

        Where some batches have numbers and others words, all are words.
        """
        weights = dict(self.weights)
        if not weights and not self.categorical:
            return self.numbers, self.number_weights
        numbers = [plain_value(value, self.name) for value in self.numbers]
        mixed = any(isinstance(value, str) for value in (*weights, *self.categories)) or self.categorical
        for value, share in zip(numbers, self.number_weights.tolist(), strict=True):
            word = str(value) if mixed else value
            weights[word] = weights.get(word, 0.0) + share
        if mixed:
            weights = _as_words(weights)
        if not self.categorical:
            return list(weights), np.array(list(weights.values()))
        values = list(dict.fromkeys([*self.categories, *weights]))
        codes = np.array([values.index(value) for value in weights], dtype=np.int64)
        return frames.Factored(codes, values, True, self.ordered), np.array(list(weights.values()))

    @property
    def values(self) -> list[Any]:
        """The values alone."""
        column, _ = self.column
        return column.found if isinstance(column, frames.Factored) else [plain_value(v, self.name) for v in column]


def _as_words(weights: dict[Any, float]) -> dict[Any, float]:
    out: dict[Any, float] = {}
    for value, share in weights.items():
        out[str(value)] = out.get(str(value), 0.0) + share
    return out


def seen(columns: Iterable[tuple[dict[str, Any], np.ndarray | None]]) -> dict[str, Distinct]:
    """The different values of every column of a table that comes in batches, with the weights of its rows."""
    found: dict[str, Distinct] = {}
    for batch, weights in columns:
        for name, column in batch.items():
            found.setdefault(name, Distinct(name)).see(column, weights)
    return found
