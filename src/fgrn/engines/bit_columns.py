"""Columns as bit sets: for each state of a column, the rows that have it, 64 rows per word."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .kernels.arguments import ScoredBits

WORD = 64
MOST_STATES = 16
"""The most states of a column that is stored as bits, so that it takes at most two bytes per row."""

MOST_WEIGHTS = 64
"""The most different weights of rows: rows of each weight are stored together, and their last word is padded."""

BLOCK_WORDS = 256
"""Words that are processed at a time, so that the rows of some cells stay in the cache."""


def columns_as_bits(codes: np.ndarray, sizes: np.ndarray, weights: np.ndarray, train: int) -> ScoredBits | None:
    """The bits of codes, (columns, rows), with a weight for each row or one for all.

    Rows from `train` on are held out. None if there are too many different weights; a column of too many states has
    no bits, and -1 for its first state.
    """
    rows = codes.shape[1]
    kinds, kind = (weights, np.zeros(rows, dtype=np.int64))
    if len(weights) > 1:
        kinds, kind = np.unique(weights, return_inverse=True)
    if len(kinds) > min(MOST_WEIGHTS, 1 + rows // WORD):
        return None
    part = kind.ravel() + len(kinds) * (np.arange(rows) >= train)  # rows of one weight, held out or not
    order = np.argsort(part, kind="stable")
    inside = np.bincount(part, minlength=2 * len(kinds))
    words = -(-inside // WORD)
    begin = np.concatenate([[0], np.cumsum(words)])
    place = np.arange(rows) + np.repeat(begin[:-1] * WORD - np.cumsum(inside) + inside, inside)
    some = sizes <= MOST_STATES
    first = np.where(some, np.cumsum(np.where(some, sizes, 0)) - sizes, -1)
    bits = np.zeros((int(sizes[some].sum()), int(begin[-1])), dtype="<u8")
    padded = np.full(int(begin[-1]) * WORD, -1, dtype=codes.dtype)
    for column in np.flatnonzero(some).tolist():
        padded[place] = codes[column][order]
        for state in range(int(sizes[column])):
            bits[first[column] + state] = np.packbits(padded == state, bitorder="little").view("<u8")
    blocks, each = [], []
    for number, (one, other) in enumerate(pairwise(begin.tolist())):
        cuts = [*range(one, other, BLOCK_WORDS), other]
        blocks += [(a, b, number >= len(kinds)) for a, b in pairwise(cuts)]
        each += [kinds[number % len(kinds)]] * (len(cuts) - 1)
    parts = np.array(blocks, dtype=np.int64), np.array(each)
    return ScoredBits(bits.astype(np.uint64, copy=False), first, sizes, *parts)
