"""TableForm: a table that follows from few parameters, such as that of a noisy-or; how it is drawn and updated."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class TableForm(Protocol):
    """The form of a table whose cells follow from few parameters, which can be found again from the cells.

    Tables are (rows, columns) arrays whose rows sum to one; counts have the same shape.
    """

    @property
    def free_parameters(self) -> int:
        """The number of free parameters."""

    def before_start(self) -> np.ndarray:
        """The table before a random start is drawn: parameters that are not given have neutral values."""

    def drawn(self, generator: np.random.Generator) -> np.ndarray:
        """A table with random values for the parameters that are not given."""

    def updated(self, table: np.ndarray, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The M-step: a table of this form under which the counts are at least as probable as under `table`.

        The sum of counts * log(table) does not decrease. Parameters that no count tells of are those of `before`.
        """

    def projected(self, table: np.ndarray) -> np.ndarray:
        """A table of this form near one that may have left it, as extrapolation does."""
