"""How much refined tables count in a row with missing values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RefinedWeight:
    """How much the tables that were refined for the class count in a row, by how many of its values are known.

    Beside them counts the network that describes whole rows, with the rest of the weight.

    usual   the mean number of known values in a row that they were refined on; with so many, or more, they count alone.
            Values of columns that have no other do not count as known: they tell nothing
    power   of the share of these that a row has: the larger, the less they count where values are missing
    """

    usual: float
    power: float

    def weights(self, known: np.ndarray) -> np.ndarray:
        """Return the weight of refined tables in rows with these numbers of known values, from 0 to 1."""
        weights: np.ndarray = np.minimum(known / self.usual, 1.0) ** self.power
        return weights
