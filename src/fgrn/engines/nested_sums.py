"""Sums of products of cells, whose factors may be other such sums, and the expected counts of the cells in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kernels.sums import counts_of_sums, nested_sums


@dataclass(frozen=True, eq=False)
class NestedSums:
    """Sums of products of values: the given ones, and the sums before.

    given            how many values are given; the sums have the numbers after them
    factors          the numbers of the values that are multiplied, term by term
    factors_of_term  where the factors of each term begin, and the end
    terms_of_sum     where the terms of each sum begin, and the end
    """

    given: int
    factors: np.ndarray
    factors_of_term: np.ndarray
    terms_of_sum: np.ndarray

    def of(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the given values and after them the sums, all terms, and whether no product lost bits by underflow."""
        found = np.empty(self.given + len(self.terms_of_sum) - 1)
        found[: self.given] = values
        terms = np.empty(len(self.factors_of_term) - 1)
        is_exact = nested_sums(self.factors, self.factors_of_term, self.terms_of_sum, self.given, found, terms)
        return found, terms, bool(is_exact)

    def add_counts(self, values: np.ndarray, terms: np.ndarray, counts: np.ndarray) -> None:
        """Divide the expected counts of the sums among their factors: they are added to the counts of these.

        Args:
            values: the result of `of`.
            terms: likewise.
            counts: of all values, the sums too.
        """
        counts_of_sums(self.factors, self.factors_of_term, self.terms_of_sum, self.given, values, terms, counts)


def compile_sums() -> None:
    """Compile the kernels of sums, or load them."""
    nothing = NestedSums(0, *(np.zeros(count, dtype=np.int64) for count in (0, 1, 1)))
    values, terms, _ = nothing.of(np.zeros(0))
    nothing.add_counts(values, terms, np.zeros(0))
