"""Tail of the chi-square distribution: the p-value of a test statistic."""

from __future__ import annotations


def chi_square_tail(value: float, df: float) -> float:
    """Return the probability that a chi-square variable with the given degrees of freedom exceeds a value."""
    from scipy.special import chdtrc  # `scipy.stats` has it too, and takes a second to import

    return float(chdtrc(df, max(value, 0.0)))  # a difference of log-likelihoods may be negative by rounding
