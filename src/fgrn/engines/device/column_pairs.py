"""The mutual information of all pairs of columns, from counts computed on the device as products of indicator matrices.

For tables such as images, whose hundreds of thousands of pairs take a processor a minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .library import PRECISIONS, device_of, products, torch

TILE_STATES = 2**11
"""States of the columns that are counted together with all others."""

ROWS_AT_ONCE = 2**12
"""Rows that are written as zeros and ones at once; so few that their sums are exact in float32."""


class DeviceColumnPairs:
    """Counts of all pairs of columns, as in `fgrn.bayes.pair_scores.ColumnPairs`, computed on a device.

    Args:
        sizes: the levels of each column.
        codes: (rows, columns), below 0 where a value is missing.
        weights: of the rows.
        device: its name; None for a GPU if there is one.
    """

    def __init__(self, sizes: Sequence[int], codes: np.ndarray, weights: np.ndarray, device: str | None) -> None:
        self.sizes, self.device, self.weights = sizes, device_of(device), weights
        self.levels = max(sizes)
        known = torch.as_tensor(np.ascontiguousarray(codes.T), device=self.device)
        self._codes = torch.where(known < 0, self.levels, known.long())  # (columns, rows); the last level is missing
        equal = bool(len(weights)) and bool((weights == weights[0]).all())
        self._kind = torch.float32 if equal else torch.float64
        self._scale = float(weights[0]) if equal else 1.0
        self._weights = None if equal else torch.as_tensor(weights, device=self.device, dtype=self._kind)

    def information(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mutual information of every pair, in nats, and the weight of the rows where both are known."""
        columns = len(self.sizes)
        step = max(1, TILE_STATES // self.levels)
        gains, knowns = [], []
        for first in range(0, columns, step):
            gain, known = self._gain(slice(first, min(first + step, columns)))
            gains.append(gain.cpu().numpy())
            knowns.append(known.cpu().numpy())
        gain, known = (np.triu(np.concatenate(one)) for one in (gains, knowns))
        gain, known = (upper + np.triu(upper, 1).T for upper in (gain, known))
        return gain / np.where(known > 0, known, 1), known

    def _gain(self, some: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weight times mutual information, and the weight, of some columns with all, (some, columns)."""
        here, every = some.stop - some.start, len(self.sizes)
        counts = torch.zeros((here * self.levels, every * self.levels), dtype=torch.float64, device=self.device)
        for first in range(0, self._codes.shape[1], ROWS_AT_ONCE):
            right = self._indicators(self._codes[:, first : first + ROWS_AT_ONCE])
            left = right[some].reshape(here * self.levels, -1)
            if self._weights is not None:
                left = left * self._weights[first : first + ROWS_AT_ONCE]
            with products(PRECISIONS["float32"]):
                counts += left @ right.reshape(every * self.levels, -1).T
        counts = (counts * self._scale).view(here, self.levels, every, self.levels)
        left, right = counts.sum(3), counts.sum(1)
        weight = right.sum(2)
        terms = (torch.special.xlogy(one, one) for one in (counts, left, right, weight))
        cells, of_left, of_right, of_weight = terms
        return cells.sum((1, 3)) - of_left.sum(1) - of_right.sum(2) + of_weight, weight

    def _indicators(self, codes: torch.Tensor) -> torch.Tensor:
        """Return indicators: 1 where a row has a level, (columns, levels, rows)."""
        columns, rows = codes.shape
        out = torch.zeros((columns, self.levels + 1, rows), dtype=self._kind, device=self.device)
        out.scatter_(1, codes[:, None], 1.0)
        return out[:, :-1]
