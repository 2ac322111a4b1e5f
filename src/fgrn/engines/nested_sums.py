"""Sums of products of cells, whose factors may be other such sums, and the expected counts of the cells in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .kernels.sums import EXACT, INEXACT, counts_of_sums, nested_sums


@dataclass(frozen=True, eq=False)
class NestedSums:
    """Sums of products of values: the given ones, and the sums before.

    given            how many values are given; the sums have the numbers after them
    factors          the numbers of the values that are multiplied, term by term
    factors_of_term  where the factors of each term begin, and the end
    terms_of_sum     where the terms of each sum begin, and the end
    groups           the numbers of the first sums of groups that are compared with each other: if one is large enough,
                     underflow of the others does not matter
    group_size       how many sums a group has
    """

    given: int
    factors: np.ndarray
    factors_of_term: np.ndarray
    terms_of_sum: np.ndarray
    groups: np.ndarray
    group_size: int

    def of(self, values: np.ndarray) -> EvaluatedSums:
        """Return the sums for the given values."""
        found = np.empty(self.given + len(self.terms_of_sum) - 1)
        found[: self.given] = values
        terms = np.empty(len(self.factors_of_term) - 1)
        program = self.factors, self.factors_of_term, self.terms_of_sum, self.given
        precision = nested_sums(*program, self.groups, self.group_size, found, terms)
        return EvaluatedSums(found, terms, precision)

    def add_counts(self, sums: EvaluatedSums, counts: np.ndarray) -> None:
        """Divide the expected counts of the sums among their factors: they are added to the counts of these.

        Args:
            sums: the result of `of`.
            counts: of all values, the sums too.
        """
        program = self.factors, self.factors_of_term, self.terms_of_sum, self.given
        counts_of_sums(*program, sums.values, sums.terms, counts)


class EvaluatedSums(NamedTuple):
    """Sums for given values.

    values     the given ones and, after them, the sums
    terms      all terms
    precision  INEXACT, CLOSE or EXACT, see `kernels.sums`
    """

    values: np.ndarray
    terms: np.ndarray
    precision: int

    @property
    def is_exact(self) -> bool:
        """Whether nothing was lost by underflow."""
        return self.precision == EXACT

    @property
    def is_wrong(self) -> bool:
        """Whether something was lost that may matter even if all products of the sums are large enough."""
        return self.precision == INEXACT


def compile_sums() -> None:
    """Compile the kernels of sums, or load them."""
    none, zero = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    nothing = NestedSums(0, none, zero, zero, none, 1)
    nothing.add_counts(nothing.of(np.zeros(0)), np.zeros(0))
