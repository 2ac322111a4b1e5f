"""TableForm: a table that is a function of few parameters, such as a noisy-or; how it is drawn and updated."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class TableForm(Protocol):
    """The form of a table that is a function of few parameters, which can be recovered from the table.

    Tables are (rows, columns) arrays whose rows sum to one; counts have the same shape.
    """

    @property
    def free_parameters(self) -> int:
        """The number of free parameters."""

    def before_start(self) -> np.ndarray:
        """Return the table before a random start is drawn: parameters that are not given are neutral."""

    def drawn(self, generator: np.random.Generator) -> np.ndarray:
        """Return a table with random values for the parameters that are not given."""

    def updated(self, table: np.ndarray, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return a table of this form under which the counts are at least as probable as under `table` (M-step).

        The sum of counts * log(table) does not decrease. Parameters that no count tells of are those of `before`.
        """

    def projected(self, table: np.ndarray) -> np.ndarray:
        """Return a table of this form near one that may not have it, such as an extrapolated one."""
