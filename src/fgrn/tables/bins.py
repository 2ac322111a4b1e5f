"""Bins of numbers: a column of many different numbers becomes a few levels, divided by edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..core.exceptions import Remedy, SchemaError
from ..core.labels import Label
from .columns import Column, bin_labels


def binned_column(
    name: str, numbers: np.ndarray, missing: tuple[Label, ...], bins: int, weights: np.ndarray | None
) -> Column:
    """Return a column with bins of about equal weight; a value with more weight than a bin has one of its own."""
    known = ~np.isnan(numbers)
    values = numbers[known]
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)[known]
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    share = np.add.reduceat(weight[order], first)
    if len(distinct) < 2:
        raise SchemaError(
            "its numbers are so long that they cannot be told apart as numbers.",
            column=name,
            remedies=(Remedy("if it holds identifiers, leave it out", "", drop=name), "turn it into words"),
        )
    cuts = _cuts(share, bins)
    edges = [float(distinct[cut - 1] / 2 + distinct[cut] / 2) for cut in cuts]
    # the middle of two neighbours in floating point may be the lower one
    edges = [edge if edge > distinct[cut - 1] else float(distinct[cut]) for edge, cut in zip(edges, cuts, strict=True)]
    borders = [0, *cuts, len(distinct)]
    centers = [_weighted_mean(distinct[a:b], share[a:b]) for a, b in pairwise(borders)]
    return Column(name, tuple(bin_labels(edges)), tuple(edges), tuple(centers), missing, ordered=True)


def _cuts(share: np.ndarray, bins: int) -> list[int]:
    """Return the positions, from 1, at which bins begin among the sorted distinct values, given their weights.

    A value with more weight than an equal part of what the other bins have to hold is alone in its bin, so that bins
    are left for the others: of zeros in nine rows of ten, and other numbers in the tenth, the zeros take one bin.
    """
    is_heavy = _heavy(share, bins)
    while True:
        part = max(share[~is_heavy].sum() / max(bins - is_heavy.sum(), 1), np.finfo(float).tiny)
        borders = np.flatnonzero(np.diff(is_heavy, prepend=~is_heavy[0]) | is_heavy | np.roll(is_heavy, 1))
        runs = [slice(a, b) for a, b in pairwise([*borders.tolist(), len(share)])]
        counts = [1 if is_heavy[run.start] else max(1, round(share[run].sum() / part)) for run in runs]
        if sum(counts) <= bins or not is_heavy.any():
            break
        is_heavy[np.argmin(np.where(is_heavy, share, np.inf))] = False
    cuts = {run.start for run in runs} - {0}
    for run, count in zip(runs, counts, strict=True):
        below = np.concatenate([[0.0], np.cumsum(share[run])])  # the weight below each value of the run
        if count > 1 and len(below) > 2:
            wanted = below[-1] * np.arange(1, count) / count
            cuts |= {run.start + int(np.argmin(np.abs(below[1:-1] - goal))) + 1 for goal in wanted}
    return sorted(cuts)


def _heavy(share: np.ndarray, bins: int) -> np.ndarray:
    """Return which values have so much weight that each gets a bin of its own."""
    found = np.zeros(len(share), dtype=bool)
    while found.sum() < bins - 1:
        more = ~found & (share > share[~found].sum() / (bins - found.sum()))
        if not more.any():
            break
        found |= more
    return found


def _weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean, also of numbers whose sum would overflow."""
    size = float(np.abs(values).max()) or 1.0
    return float(np.average(values / size, weights=weights if weights.sum() else None)) * size
