"""Nested sums of products, one after the other, and the expected counts of their factors: see `nested_sums`."""

from __future__ import annotations

from .basics import kernel

FAINTEST = 2.0**-960
"""A smaller product of positive factors may have lost bits that matter."""


@kernel
def nested_sums(factors, factors_of_term, terms_of_sum, first, values, terms):
    """Compute sums of products of values, each from those before it; they are appended to the values.

    Returns whether no product of positive factors was so small that it lost bits.

    Args:
        factors: the numbers of the values that are multiplied, term by term.
        factors_of_term: where the factors of each term begin, and the end.
        terms_of_sum: where the terms of each sum begin, and the end.
        first: the number of the first sum among the values.
        values: receives the sums.
        terms: receives the terms.
    """
    is_exact = True
    for number in range(len(terms_of_sum) - 1):
        total = 0.0
        for term in range(terms_of_sum[number], terms_of_sum[number + 1]):
            product, least = 1.0, 1.0
            for place in range(factors_of_term[term], factors_of_term[term + 1]):
                value = values[factors[place]]
                product *= value
                least = min(least, value)
            if product < FAINTEST and least > 0.0:
                is_exact = False
            terms[term] = product
            total += product
        values[first + number] = total
    return is_exact


@kernel
def counts_of_sums(factors, factors_of_term, terms_of_sum, first, values, terms, counts):
    """Add the expected counts of sums to those of their factors, from the last sum to the first."""
    for number in range(len(terms_of_sum) - 2, -1, -1):
        count = counts[first + number]
        if count == 0.0:
            continue
        share = count / values[first + number]
        for term in range(terms_of_sum[number], terms_of_sum[number + 1]):
            expected = terms[term] * share
            for place in range(factors_of_term[term], factors_of_term[term + 1]):
                counts[factors[place]] += expected
