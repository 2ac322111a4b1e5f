"""Nested sums of products, one after the other, and the expected counts of their factors: see `nested_sums`."""

from __future__ import annotations

from .basics import kernel

LEAST_EXACT = 2.0**-960
"""A smaller product of positive factors may have lost bits by underflow."""

INEXACT, CLOSE, EXACT = range(3)
"""How sums are: underflow lost something that may matter, nothing that matters, nothing."""

LEAST_CLOSE = 2.0**-600
"""If of each group one sum is not smaller, what underflow took from the others has less than 2^-360 of that one."""


@kernel
def nested_sums(factors, factors_of_term, terms_of_sum, first, groups, group_size, values, terms):
    """Compute sums of products of values, each from those before it; they are appended to the values.

    Returns how exact they are: INEXACT, CLOSE or EXACT.

    Args:
        factors: the numbers of the values that are multiplied, term by term.
        factors_of_term: where the factors of each term begin, and the end.
        terms_of_sum: where the terms of each sum begin, and the end.
        first: the number of the first sum among the values.
        groups: where groups of sums begin among the values, which are compared with each other.
        group_size: how many sums each has.
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
            if product < LEAST_EXACT and least > 0.0:
                is_exact = False
            terms[term] = product
            total += product
        values[first + number] = total
    if is_exact:
        return EXACT
    for group in groups:
        largest = 0.0
        for number in range(group, group + group_size):
            largest = max(largest, values[number])
        if largest < LEAST_CLOSE:
            return INEXACT
    return CLOSE


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
