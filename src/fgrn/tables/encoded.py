"""Encoded tables: rows as codes of states, with weights, in memory, on disk or on the workers of a cluster.

    EncodedTable     how many rows there are, their weights, on which variables, and where they are kept
      Evidence       rows that this process reads: in memory, or on disk and mapped into memory
      RemoteTable    rows on the workers of a cluster, see `fgrn.learning.remote.cluster`

A table that has just been read is about its own columns; `numbered_by` returns the same rows by the numbers of a
network's variables. Weights go with the rows. Engines read blocks of an `Evidence`. Learning gets the E-step over the
rows from the table, which builds it where the rows are: nothing else depends on the place, except what needs memory
(merging equal rows, holding messages), which is decided where learning chooses its E-step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Protocol, Self

import numpy as np

from ..core.arrays import equal_numbers, numbers
from ..core.digests import digest
from ..core.exceptions import EvidenceError, ImpossibleEvidence, LearningError, nearest
from ..core.labels import Labels
from .frames import UNKNOWN, as_column

RowsPlace = Literal["memory", "disk", "workers"]

SOFT = -2
"""The code of a value that is a distribution."""

ROWS_TO_CHECK = 2**20
"""Rows that are checked at a time, so that this takes next to no memory."""

ROWS_OF_BATCHES = 2
"""Part of the seed by which rows are put into batches."""

MOST_WEIGHT = 1e100
"""Sums of larger row weights could overflow."""


class Variables(Protocol):
    """The protocol of an object with the names and labels of variables by number, such as a Plan or a model."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each variable."""

    @property
    def labels(self) -> tuple[Labels, ...]:
        """The labels of the states of each variable."""

    @property
    def index(self) -> Mapping[str, int]:
        """The number of each name."""


@dataclass(frozen=True)
class NamedStates:
    """Names and labels of variables that do not belong to a model yet; see `Variables`."""

    names: tuple[str, ...]
    labels: tuple[Labels, ...]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The number of each name."""
        return {name: number for number, name in enumerate(self.names)}


class ArrayStore(Protocol):
    """The protocol of a store for arrays outside of memory; see `fgrn.tables.disk`."""

    def stored(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in the store."""

    def computed(self, count: int, dtype: Any, part: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Return an array of `count` numbers in the store, computed part by part."""

    def release(self) -> None:
        """Free the memory used by arrays of the store."""


class EncodedTable(ABC):
    """The rows of a table as codes of some variables, with their weights, wherever they are kept.

    columns   the names of the variables that have a column, in the order of the columns
    slot      (variables,): the column of each variable, -1 if it has none
    """

    columns: tuple[str, ...]
    slot: np.ndarray

    @property
    @abstractmethod
    def place(self) -> RowsPlace:
        """The place of the rows: "memory", "disk" or "workers"."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The total weight of the rows."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether no value is missing in any column."""

    @abstractmethod
    def numbered_by(self, variables: Variables) -> Self:
        """Return the same rows with columns numbered by the given variables; other columns are an error."""

    @abstractmethod
    def scaled(self, log_scale: float) -> Self:
        """Return the same rows with a term added to the log-likelihood of each."""

    @abstractmethod
    def estep(self, make: Callable[[Evidence, str], Any]) -> Any:
        """Return the E-step over all rows, built by `make` from the rows of one place and their name in errors."""

    @abstractmethod
    def digests(self) -> dict[str, Any]:
        """Return the number of rows, and hashes of names, values and weights, which checkpoints compare."""

    def local_rows(self) -> Evidence:
        """Return the rows as `Evidence` that this process can read; an error if they are on other machines."""
        raise LearningError("These rows are on the workers of a cluster, and cannot be read here.")

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in the memory of this process."""
        return self.place == "memory"

    def edges(self) -> frozenset[int]:
        """Return the numbers of the variables that have a column."""
        return frozenset((self.slot >= 0).nonzero()[0].tolist())

    def soft_edges(self) -> frozenset[int]:
        """Return the variables for which some row has a distribution instead of a value."""
        return frozenset()


@dataclass(frozen=True, eq=False)
class Evidence(EncodedTable):
    """The evidence in rows, as arrays that this process can read; variable e has a column if `slot[e] >= 0`.

    codes        (rows, columns): the state, UNKNOWN, or SOFT; column by column, of as few bytes as will do
    soft         (rows, width): distributions, those of edge e from column `soft_offset[e]` on; each sums to one,
                 or is all zero where a value was impossible in itself
    log_scale    (rows,): the logarithm of the scale divided out of the distributions
    begins       (rows,): where a sequence begins, if rows are steps of sequences; else empty
    inserted     (rows,): which steps of sequences the table does not have; empty if it has all. They are without
                 values, and count as no rows
    numbers      (rows, continuous columns): their values, NaN where one is missing; no columns if there are none
    disk         where the arrays are, and where more can be kept, if that is not in memory
    row_weights  (rows,): the weight of each row, 1 unless given
    origins      where rows come from, one for each run of rows: the number of its first row, what they are a part of,
                 and the number of each row in that
    """

    codes: np.ndarray
    soft: np.ndarray
    slot: np.ndarray
    soft_offset: np.ndarray
    log_scale: np.ndarray
    begins: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    disk: ArrayStore | None = None
    columns: tuple[str, ...] = ()
    row_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    origins: tuple[tuple[int, str, Sequence[int]], ...] = ()
    numbers: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    inserted: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        if not len(self.row_weights):
            object.__setattr__(self, "row_weights", equal_numbers(1.0, self.rows))
        if len(self.numbers) != self.rows:
            if self.numbers.shape != (0, 0):
                raise ValueError(f"There are {self.rows:,} rows, and numbers of {len(self.numbers):,}.")
            object.__setattr__(self, "numbers", np.zeros((self.rows, 0)))

    @classmethod
    def of_codes(
        cls,
        columns: tuple[str, ...],
        codes: np.ndarray,
        weights: np.ndarray | None = None,
        disk: ArrayStore | None = None,
        origins: tuple[tuple[int, str, Sequence[int]], ...] = (),
    ) -> Evidence:
        """Make a table from codes, (rows, columns), of its own columns."""
        rows, width = codes.shape
        scale = equal_numbers(0.0, rows)
        given = np.zeros(0) if weights is None else weights
        return cls(
            codes, np.zeros((rows, 0)), np.arange(width), np.full(width, -1), scale, disk=disk, columns=columns,
            row_weights=given, origins=origins,
        )  # fmt: skip

    @property
    def place(self) -> RowsPlace:
        """See `EncodedTable`."""
        return "memory" if self.disk is None else "disk"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.log_scale)

    @cached_property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.given_weights.sum())

    @property
    def given_weights(self) -> np.ndarray:
        """(rows,): the weight of each row of the table; 0 for a time step that was inserted."""
        return np.where(self.inserted, 0.0, self.row_weights) if len(self.inserted) else self.row_weights

    @property
    def is_weighted(self) -> bool:
        """Whether weights were given; if not, every row has weight 1."""
        return self.row_weights.strides != (0,)

    @property
    def complete(self) -> bool:
        """See `EncodedTable`."""
        return not self.soft_edges() and all(map(self.is_complete, self.edges()))

    @property
    def unknown_rows(self) -> np.ndarray:
        """(rows,): whether all values of a row are missing."""
        unknown = np.isnan(self.numbers).all(axis=1) if self.numbers.shape[1] else np.ones(self.rows, dtype=bool)
        for column in self.slot[self.slot >= 0].tolist():
            unknown &= self.codes[:, column] == UNKNOWN
        return unknown

    def known_values(self, without: Collection[str] = ()) -> np.ndarray:
        """Return how many values of each row are known, (rows,), in all columns `without` some."""
        others = [place for place, name in enumerate(self.columns) if name not in without]
        codes = self.codes if len(others) == len(self.columns) else self.codes[:, others]
        known: np.ndarray = np.count_nonzero(codes != UNKNOWN, axis=1)
        return known + np.count_nonzero(~np.isnan(self.numbers), axis=1) if self.numbers.shape[1] else known

    def numbered_by(self, variables: Variables) -> Evidence:
        """See `EncodedTable`. Codes stay where they are."""
        if self.__dict__.get("_numbering") == variables.names:
            return self
        slot = column_of_each(variables, self.columns)
        offsets = np.full(len(self.columns) + 1, -1)  # of the distributions in each column, and in none
        if self.soft.shape[1]:
            offsets[self.slot] = np.where(self.slot >= 0, self.soft_offset, -1)
        return self.with_arrays(slot=slot, soft_offset=offsets[slot]).marked_as_numbered(variables)

    def marked_as_numbered(self, variables: Variables) -> Evidence:
        """Note that the columns have the numbers of these variables already, for `numbered_by`; returns the same rows.

        A table that is made of this one by replacing arrays is without this mark.
        """
        self.__dict__["_numbering"] = variables.names
        return self

    def with_arrays(self, **others: Any) -> Evidence:
        """Return the same rows with some arrays replaced, by name; five times as fast as `dataclasses.replace`."""
        if not others.keys() <= _FIELDS.keys():
            raise TypeError(f"Evidence has no array {min(others.keys() - _FIELDS.keys())!r}.")
        mine, found = self.__dict__, object.__new__(Evidence)
        found.__dict__.update({name: mine[name] for name in _FIELDS}, **others)
        found.__post_init__()
        return found

    def scaled(self, log_scale: float) -> Evidence:
        """See `EncodedTable`. One number for all rows is stored once."""
        if not log_scale:
            return self
        same = len(self.log_scale) and self.log_scale.strides == (0,)
        scale = equal_numbers(self.log_scale[0] + log_scale, self.rows) if same else self.log_scale + log_scale
        return replace(self, log_scale=scale)

    def estep(self, make: Callable[[Evidence, str], Any]) -> Any:
        """See `EncodedTable`."""
        return make(self, "of all")

    def local_rows(self) -> Evidence:
        """See `EncodedTable`."""
        return self

    def digests(self) -> dict[str, Any]:
        """See `EncodedTable`. The hashes do not depend on where the rows are stored."""
        values = ["codes", "soft", "slot", "soft_offset", "log_scale", "begins"]
        values += ["numbers"] if self.numbers.shape[1] else []
        return {
            "rows": self.rows,
            "names": digest(self.slot),
            "values": digest({**{name: getattr(self, name) for name in values}, "disk": None}),
            "weights": digest(self.row_weights),
        }

    def located(self, error: ImpossibleEvidence, among: str) -> ImpossibleEvidence:
        """Return the error with the file and row that its first row comes from, if that is known."""
        if not self.origins or not error.rows:
            return error
        row = error.rows[0]
        return error.changed(message=f"{error.message} Row {row:,} {among} is {self.origin_of(row)}.")

    def origin_of(self, row: int) -> str:
        """Return a text that says where a row comes from."""
        first, where, numbers = next(origin for origin in reversed(self.origins) if origin[0] <= row)
        return f"row {int(numbers[row - first]):,} of {where}"

    def take(self, rows: slice | np.ndarray) -> Evidence:
        """Return some of the rows, in memory."""
        begins, inserted = (one[rows] if len(one) else one for one in (self.begins, self.inserted))
        codes = self.codes[rows] if isinstance(rows, slice) else np.asfortranarray(self.codes[rows])
        return Evidence(
            codes, self.soft[rows], self.slot, self.soft_offset, self.log_scale[rows], begins,
            columns=self.columns, row_weights=self.row_weights[rows], numbers=self.numbers[rows],
            inserted=inserted,
        )  # fmt: skip

    def loaded(self) -> Evidence:
        """Return the rows in memory: a copy of those on disk, without their origins."""
        if self.in_memory:
            return self
        arrays = {name: getattr(self, name) for name in _FIELDS_OF_ROWS}
        copies = {name: one if one.strides == (0,) else one.copy(order="K") for name, one in arrays.items()}
        self.release()
        return self.with_arrays(**copies, disk=None, origins=())

    def with_distribution(self, edge: int, name: str, states: int, **others: Any) -> tuple[Evidence, np.ndarray]:
        """Return the rows with a distribution as the evidence on a variable, and a view of it, (rows, states).

        The distribution is to be written there; until then all states have the weight 1. `others` are arrays of the
        rows, by name, that are changed at the same time.
        """
        others_end = self.soft.shape[1]
        soft = np.ones((self.rows, others_end + states))
        if others_end:
            soft[:, :others_end] = self.soft
        slot, soft_offset, columns = self.slot.copy(), self.soft_offset.copy(), self.columns
        if slot[edge] < 0:
            slot[edge] = self.codes.shape[1]
            columns = (*columns, name)
        codes = np.empty((self.rows, len(columns)), dtype=self.codes.dtype, order="F")
        codes[:, : self.codes.shape[1]] = self.codes
        codes[:, slot[edge]] = SOFT
        soft_offset[edge] = others_end
        found = self.with_arrays(
            codes=codes, soft=soft, slot=slot, soft_offset=soft_offset, columns=columns, **others
        )  # fmt: skip
        return found, soft[:, others_end:]

    def in_batches(self, size: int, seed: int) -> list[Evidence]:
        """Return all rows in nearly equal batches of at most `size`: random rows in memory, consecutive on disk."""
        count = -(-self.rows // size)
        ends = [self.rows * number // count for number in range(count + 1)]
        order = None if self.disk is not None else np.random.default_rng((seed, ROWS_OF_BATCHES)).permutation(self.rows)
        parts = (slice(first, last) for first, last in pairwise(ends))
        found = (self.take(part if order is None else np.sort(order[part])) for part in parts)
        return [replace(one, disk=self.disk) for one in found]

    def without(self, column: str) -> Evidence:
        """Return the same rows with one column set to missing."""
        place = self.columns.index(column)
        slot = np.where(self.slot == place, -1, self.slot - (self.slot > place))
        return replace(
            self, codes=np.delete(self.codes, place, axis=1), columns=self.columns[:place] + self.columns[place + 1 :],
            slot=slot, soft_offset=np.where(slot < 0, -1, self.soft_offset),
        )  # fmt: skip

    def release(self) -> None:
        """Free the memory used by rows on disk."""
        if self.disk is not None:
            self.disk.release()

    def soft_edges(self) -> frozenset[int]:
        """Return the edges for which some row has a distribution instead of a value."""
        return frozenset((self.soft_offset >= 0).nonzero()[0].tolist()) if self.soft.shape[1] else frozenset()

    def has_evidence(self, edge: int) -> np.ndarray:
        """Return which rows have evidence on an edge."""
        if self.slot[edge] < 0:
            return np.zeros(self.rows, dtype=bool)
        known: np.ndarray = self.codes[:, self.slot[edge]] != UNKNOWN
        return known

    def is_complete(self, edge: int) -> bool:
        """Return whether every row has evidence on an edge that has a column."""
        column = self.codes[:, self.slot[edge]]
        parts = (column[first : first + ROWS_TO_CHECK] for first in range(0, self.rows, ROWS_TO_CHECK))
        complete = not any((part == UNKNOWN).any() for part in parts)
        self.release()
        return complete

    def weights(self, edge: int, cardinality: int) -> np.ndarray:
        """Return the evidence on an edge as an array (rows, states), ones where it is missing."""
        if self.slot[edge] < 0:
            return np.ones((self.rows, cardinality))
        codes = self.codes[:, self.slot[edge]]
        if self.soft_offset[edge] >= 0 and np.count_nonzero(codes == SOFT) == len(codes):
            return self.soft[:, self.soft_offset[edge] : self.soft_offset[edge] + cardinality].copy()
        out: np.ndarray = np.equal(codes[:, None], np.arange(cardinality)[None, :]).astype(np.float64)
        out[codes == UNKNOWN] = 1.0
        if self.soft_offset[edge] >= 0:
            where = codes == SOFT
            start = self.soft_offset[edge]
            out[where] = self.soft[where, start : start + cardinality]
        return out


_FIELDS = dict.fromkeys(one.name for one in fields(Evidence))
_FIELDS_OF_ROWS = ("codes", "soft", "log_scale", "begins", "row_weights", "numbers", "inserted")


def column_of_each(variables: Variables, columns: Iterable[str]) -> np.ndarray:
    """Return the number of each variable's column, -1 where it has none; other columns are an error."""
    slot = np.full(len(variables.names), -1)
    for position, name in enumerate(columns):
        if name not in variables.index:
            near = nearest(name, variables.names)
            raise EvidenceError(f"this is not a variable of this network. {near}", column=name)
        slot[variables.index[name]] = position
    return slot


def checked_weights(weights: Any, rows: int) -> np.ndarray:
    """Return row weights as float64: one per row, finite, not negative, not all zero; 1 for each row if not given."""
    if weights is None:
        return equal_numbers(1.0, rows)
    try:
        array = numbers(as_column(weights))
    except (TypeError, ValueError):
        raise EvidenceError("The weights must be numbers, one per row.") from None
    if array.shape != (rows,):
        raise EvidenceError(f"The weights must be one number per row, {rows:,} of them. Got {array.shape} instead.")
    bad = np.flatnonzero(~is_weight(array))
    if len(bad):
        value = float(array[bad[0]])
        raise EvidenceError(f"a weight is finite and not negative. Got {value} instead.", row=bad[0], value=value)
    if array.max(initial=0) > MOST_WEIGHT:
        raise EvidenceError(f"A weight is at most {MOST_WEIGHT:g}. Divide all of them by a common number.")
    if rows and not array.any():
        raise EvidenceError("All weights are zero, so there is nothing to learn from.")
    return array


def is_weight(values: np.ndarray) -> np.ndarray:
    """Return which numbers can be the weight of a row: finite and not negative."""
    good: np.ndarray = np.isfinite(values) & (values >= 0)
    return good
