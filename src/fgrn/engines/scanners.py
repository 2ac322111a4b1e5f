"""Forward-backward scans of many sequences: blocks of whole sequences, on several threads, in memory that is reused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .row_blocks import in_order
from .scans import Scan, distribution, log_scan, logarithm

BLOCKS = 16
"""Blocks of whole sequences, at least, if there are as many sequences."""

LEAST_ROWS = 4096
"""Rows of a block, at least, as whole sequences have them: fewer take less time than handing them to a thread."""

BlockScan = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, Scan], None]
"""Computes the scan of some rows, given prior, table, the message of each row, beginnings of sequences, and weights.

Without weights only the past of each row and its likelihood."""


class BlockScanner:
    """The scanner of an engine that scans a block of rows; see `fgrn.engines.Scanner`."""

    def __init__(
        self, begins: np.ndarray, states: int, threads: int | None, scan_block: BlockScan, blocks: int = BLOCKS
    ) -> None:
        self._begins, self._threads, self._scan_block = begins, threads, scan_block
        self._blocks = _whole_sequences(begins, blocks)
        self._room = Scan.room(len(begins), states)

    def __call__(self, prior: np.ndarray, table: np.ndarray, local: np.ndarray, weights: np.ndarray | None) -> Scan:
        """See `fgrn.engines.Scanner`."""
        if len(self._blocks) == 1:
            whole = self._room.with_new_counts()
            self._scan_block(prior, table, local, self._begins, weights, whole)
            return whole

        def work(rows: slice) -> Scan:
            out = self._room.of(rows)
            counted = None if weights is None else weights[rows]
            self._scan_block(prior, table, local[rows], self._begins[rows], counted, out)
            return out

        parts = list(in_order(self._threads, work, self._blocks))
        first, steps = (np.sum([part[k] for part in parts], axis=0) for k in (4, 5))
        return self._room._replace(first=first, steps=steps)


def _whole_sequences(begins: np.ndarray, blocks: int) -> list[slice]:
    """Split rows into blocks of whole sequences, which do not depend on the number of threads."""
    rows = len(begins)
    size = max(LEAST_ROWS, rows // blocks)
    if rows <= size:
        return [slice(0, rows)]
    cuts = [0]
    for begin in np.flatnonzero(begins).tolist():
        if begin - cuts[-1] >= size:
            cuts.append(begin)
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], rows], strict=True)]


def scan_in_logarithms(
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, weights: np.ndarray | None, out: Scan
) -> None:
    """Compute the scan of a block in the log domain."""
    found = log_scan(logarithm(prior), logarithm(table), logarithm(local), begins, weights)
    if np.isneginf(found.seen).any():
        out.likelihood[...] = ~np.isneginf(found.seen)
        return
    out.past[...], out.likelihood[...] = np.exp(found.past), np.exp(found.seen)
    if weights is None:
        return
    out.future[...] = np.exp(found.future)
    out.around[...] = distribution(found.past + found.future)
    out.first[...] = found.first
    np.divide(found.steps, table, out=out.steps, where=table > 0)
