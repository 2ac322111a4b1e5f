"""Merge equal rows of a table into one row with a weight, where there are enough of them to save time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ..plan.plan import Plan
from ..tables.encoded import Evidence

SAMPLE = 2**14
"""The size of the sample from which the number of distinct rows is estimated."""

WORTH, STILL_WORTH = 0.5, 0.8
"""The share of distinct rows below which merging pays: as guessed from the sample, and as found."""

# Odd numbers without a pattern: multiplied and shifted they spread a key over all its bits.
FIRST_MIX, SECOND_MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


def merged(evidence: Evidence, always: bool = False) -> Evidence | None:
    """Return the distinct rows with the sums of their weights; None if merging would not save time.

    Rows with distributions are left as they are: `None`.
    """
    if evidence.soft.shape[1] or not evidence.rows:
        return None
    if not always and _guessed_share(evidence) > WORTH:
        return None
    found = groups_of_equal_rows(evidence, np.inf if always else STILL_WORTH * evidence.rows)
    if found is None:
        return None
    first, number = found
    return replace(evidence.take(first), row_weights=np.bincount(number, evidence.row_weights, minlength=len(first)))


def groups_of_equal_rows(evidence: Evidence, most: float = np.inf) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the first row of each group of rows with equal codes, and the group of each row.

    The groups are in the order of a hash of their codes. None if there are more than `most`, or if unequal rows have
    one hash, which is very rare.
    """
    _, first, number = np.unique(_keys(evidence), return_index=True, return_inverse=True)
    if len(first) > most:
        return None
    distinct = evidence.codes[first]
    for column in range(evidence.codes.shape[1]):
        if not np.array_equal(distinct[number, column], evidence.codes[:, column]):
            return None
    return first, number


def _guessed_share(evidence: Evidence) -> float:
    """Estimate the share of distinct rows from repeats in a sample, as if all rows were equally frequent."""
    step = max(1, evidence.rows // SAMPLE)
    sample = evidence.take(slice(None, None, step))
    repeats = sample.rows - len(np.unique(_keys(sample)))
    if repeats == 0:
        return 1.0
    kinds = sample.rows**2 / (2 * repeats)
    return float(kinds * -np.expm1(-evidence.rows / kinds) / evidence.rows)


def _keys(evidence: Evidence) -> np.ndarray:
    """Return a hash of each row, the same for equal rows."""
    keys: np.ndarray = np.zeros(evidence.rows, dtype=np.uint64)
    for column in range(evidence.codes.shape[1]):
        keys += evidence.codes[:, column].astype(np.uint64)  # unknown is the largest number
        keys *= FIRST_MIX
        keys ^= keys >> HALF
        keys *= SECOND_MIX
    return keys


MOST_ROW_KINDS = 2**16
"""Joint states of all columns, missing values included, up to which each combination has a number."""

FEW_ROW_KINDS = 64
"""Up to this many kinds of rows, the messages of all are computed: finding those that occur would take longer."""


@dataclass(frozen=True, eq=False)
class RowKinds:
    """Kinds of rows: all rows with equal codes of some variables are of one kind.

    which   (rows,): the kind of each row
    all     whether every possible kind is there, in order, so that the rows of another table have the same ones
    codes   returns the codes of each kind, (kinds, variables)
    """

    which: np.ndarray
    all: bool
    codes: Callable[[], np.ndarray]
    plan: Plan
    edges: Sequence[int]

    @cached_property
    def evidence(self) -> Evidence:
        """Return a row of each kind, with all other values missing."""
        names = tuple(self.plan.names[edge] for edge in self.edges)
        return Evidence.of_codes(names, np.asfortranarray(self.codes(), dtype=np.int32)).numbered_by(self.plan)


def kinds_of_rows(evidence: Evidence, plan: Plan, edges: Sequence[int]) -> RowKinds | None:
    """Return the kinds of rows by their codes of some variables, none of them a distribution.

    All possible ones if these are few, or few beside the rows; else those that occur. None if there could be too many,
    or half as many as rows.
    """
    widths = [int(plan.cardinality[edge]) + 1 for edge in edges]
    size = math.prod(widths)
    if size > MOST_ROW_KINDS:
        return None
    columns = [evidence.codes[:, evidence.slot[edge]] for edge in edges]
    number = np.add(columns[0], 1, dtype=np.intp) if columns else np.zeros(evidence.rows, dtype=np.intp)
    for column, width in zip(columns[1:], widths[1:], strict=True):
        number *= width
        number += column
        number += 1  # unknown is -1
    if size <= max(FEW_ROW_KINDS, evidence.rows // 2):
        return RowKinds(number, True, partial(_every_kind, widths), plan, edges)
    row_of = np.full(size, -1, dtype=np.intp)
    row_of[number] = np.arange(evidence.rows)
    first = row_of[row_of >= 0]
    if 2 * len(first) > evidence.rows:
        return None
    row_of[number[first]] = np.arange(len(first))
    return RowKinds(row_of[number], False, lambda: np.stack([one[first] for one in columns], axis=1), plan, edges)


def _every_kind(widths: Sequence[int]) -> np.ndarray:
    """Return the codes of every possible kind, UNKNOWN included, (kinds, variables), last variable fastest."""
    number = np.arange(math.prod(widths))
    codes = np.empty((len(number), len(widths)), dtype=np.intp)
    for place in range(len(widths) - 1, -1, -1):
        codes[:, place] = number % widths[place] - 1
        number //= widths[place]
    return codes
