"""The distinct values of columns that are read in batches, and their weights: what a schema is inferred from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.exceptions import Remedy, SchemaError
from . import frames
from .columns import checked_dictionary, plain_value
from .equal_values import distinct

MOST_WORDS = 10**6
"""The most distinct words of a column: with more it is taken for an identifier, which is an error."""

MOST_EXACT_NUMBERS = 2**18
"""The most distinct numbers of a column that are kept exactly. Of more, neighbours are merged."""

LEAST_QUEUED = 2**16
"""The least number of queued numbers before they are merged into the sorted ones."""


class Distinct:
    """The distinct values of one column, with their weights, in the rows read so far.

    Up to MOST_NUMBERS distinct numbers are kept exactly. Of more, pairs of neighbours are merged to their weighted
    mean, repeatedly, which moves the edges of bins by about a hundred-thousandth of the rows.
    """

    def __init__(self, name: str) -> None:
        self.name, self.rows = name, 0
        self.weights: dict[Any, float] = {}
        self._numbers: np.ndarray = np.zeros(0)
        self._number_weights: np.ndarray = np.zeros(0)
        self._queue: list[tuple[np.ndarray, np.ndarray]] = []
        self._queue_length = 0
        self.categories: dict[Any, None] = {}
        self.categorical = self.ordered = False
        self._zeros_and_ones: dict[tuple[bool, Any], Any] = {}  # those in `weights`, truth values and numbers apart

    def see(self, column: Any, weights: np.ndarray | None) -> None:
        """Add more rows: a column as `frames.columns` reads it by value, and the weights of its rows."""
        if frames.is_numbers(column) and column.dtype.kind != "b" and column.ndim == 1:
            self.rows += len(column)
            self._see_numbers(column, weights)
            return
        found = checked_dictionary(column, self.name, self.rows)
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
                if not isinstance(value, str) and value in (0, 1):
                    self._zeros_and_ones[isinstance(value, bool), value] = value
        self._check_words()

    def join(self, other: Distinct) -> Distinct:
        """Add the distinct values of later rows that were read elsewhere; returns this object."""
        self.rows += other.rows
        for value, share in other.weights.items():
            self.weights[value] = self.weights.get(value, 0.0) + share
        self._check_words()
        self._zeros_and_ones |= other._zeros_and_ones
        self.categories |= other.categories
        self.categorical |= other.categorical
        self.ordered |= other.ordered
        if len(other.numbers):
            self._enqueue(other.numbers, other.number_weights)
        self.settle()
        return self

    def settle(self) -> None:
        """Merge the values that are queued, so that reading the properties changes nothing any more."""
        self._merge_queue()

    def _check_words(self) -> None:
        if len(self.weights) > MOST_WORDS:
            raise SchemaError(
                f"more than {MOST_WORDS:,} distinct values in the first {self.rows:,} rows: probably an identifier.",
                column=self.name,
                remedies=Remedy("leave it out", "", drop=self.name),
            )

    def _see_numbers(self, column: np.ndarray, weights: np.ndarray | None) -> None:
        known = column == column  # without NaN
        values, place = np.unique(column[known], return_inverse=True)
        shares = np.bincount(place, None if weights is None else weights[known], len(values)).astype(np.float64)
        self._enqueue(values, shares)

    def _enqueue(self, values: np.ndarray, shares: np.ndarray) -> None:
        self._queue.append((values, shares))
        self._queue_length += len(values)
        if self._queue_length >= max(LEAST_QUEUED, len(self._numbers)):
            self._merge_queue()

    def _merge_queue(self) -> None:
        """Merge the queued numbers into the sorted ones; done rarely, because it copies all of them."""
        if not self._queue:
            return
        old = [(self._numbers, self._number_weights)] if len(self._numbers) else []
        values, shares = (np.concatenate(parts) for parts in zip(*old, *self._queue, strict=True))
        self._queue, self._queue_length = [], 0
        if not len(values):
            return
        order = np.argsort(values, kind="stable")  # stable sorting is fast on sorted runs
        values, shares = values[order], shares[order]
        first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        self._numbers, self._number_weights = values[first], np.add.reduceat(shares, first)
        while len(self._numbers) > MOST_EXACT_NUMBERS:
            self._merge_neighbours()

    def _merge_neighbours(self) -> None:
        """Merge pairs of neighbouring numbers, except the smallest and the largest number."""
        inner, shares = self._numbers[1:-1].astype(np.float64), self._number_weights[1:-1]
        starts = np.arange(0, len(inner), 2)
        weight = np.add.reduceat(shares, starts)
        means = np.add.reduceat(inner * shares, starts) / weight
        self._numbers = np.concatenate([self._numbers[:1], means, self._numbers[-1:]])
        self._number_weights = np.concatenate([self._number_weights[:1], weight, self._number_weights[-1:]])

    @property
    def numbers(self) -> np.ndarray:
        """The distinct numbers, sorted."""
        self._merge_queue()
        return self._numbers

    @property
    def number_weights(self) -> np.ndarray:
        """The weight of each distinct number."""
        self._merge_queue()
        return self._number_weights

    @property
    def column(self) -> tuple[Any, np.ndarray]:
        """The distinct values as a column in which each occurs once, and their weights.

        If some batches have numbers and others words, all values are words. A warning tells if a truth value and a
        number are one.
        """
        weights = dict(self.weights)
        if not weights and not self.categorical:
            return self.numbers, self.number_weights
        numbers = [plain_value(value, self.name) for value in self.numbers]
        mixed = any(isinstance(value, str) for value in (*weights, *self.categories)) or self.categorical
        if not mixed:
            distinct([*self._zeros_and_ones.values(), *(value for value in numbers if value in (0, 1))], self.name)
        for value, share in zip(numbers, self.number_weights.tolist(), strict=True):
            word = str(value) if mixed else value
            weights[word] = weights.get(word, 0.0) + share
        if mixed:
            weights = _as_words(weights)
        if not self.categorical:
            return list(weights), np.array(list(weights.values()))
        values = list(dict.fromkeys([*self.categories, *weights]))
        codes = np.array([values.index(value) for value in weights], dtype=np.int64)
        return frames.DictionaryColumn(codes, values, True, self.ordered), np.array(list(weights.values()))

    @property
    def values(self) -> list[Any]:
        """The distinct values without their weights."""
        column, _ = self.column
        return (
            column.found if isinstance(column, frames.DictionaryColumn) else [plain_value(v, self.name) for v in column]
        )


def _as_words(weights: dict[Any, float]) -> dict[Any, float]:
    """Return the weights of values as strings; equal strings are added."""
    out: dict[Any, float] = {}
    for value, share in weights.items():
        out[str(value)] = out.get(str(value), 0.0) + share
    return out


def distinct_by_column(columns: Iterable[tuple[dict[str, Any], np.ndarray | None]]) -> dict[str, Distinct]:
    """Return the distinct values of every column, from batches of columns and weights."""
    found: dict[str, Distinct] = {}
    for batch, weights in columns:
        for name, column in batch.items():
            found.setdefault(name, Distinct(name)).see(column, weights)
    return found
