"""The defaults of hidden trees: the numbers of states and of trees for a table, and settings of learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .mixture_learning import TREES

STATES_PER_LEVEL, FEWEST_STATES, MOST_STATES, ALL_STATES = 4, 8, 128, 64
"""Of trees with tables of their own: hidden states per level of a column, their bounds, and the states of all trees."""

SHARED_STATES_PER_LEVEL = 16
"""Of trees that share the tables of columns: hidden states per level of a column."""

ROWS_OF_A_STATE, ROWS_OF_A_SHARED_STATE, ROWS_OF_A_TREE, FEWEST_TREES = 25, 50, 2000, 4
"""Rows per state of all trees, per state of trees that share tables, and per such tree; the fewest such trees."""

BATCH_ROWS, BATCHES = (400, 1000), 16
"""The fewest and the most rows of a batch, and the number of batches within these limits."""

MOST_EPOCHS, PATIENCE = 30, 5
"""The most epochs of learning, and after how many without gain for the held-out rows it ends."""

FIRST_AND_LAST_STEP = (0.55, 0.03)
"""The weight of a batch in the decayed counts, at the first and at the last update."""


@dataclass(frozen=True)
class TreeSizes:
    """The states of each hidden variable, the number of trees, and whether they share the tables of columns."""

    states: int
    trees: int
    shared: bool

    @classmethod
    def alone(cls, levels: float, rows: int, states: int | None = None) -> TreeSizes:
        """Return the sizes of trees with tables of their own, by the mean levels of a column and the rows."""
        most = rows // ROWS_OF_A_STATE
        if states is None:
            states = max(1, min(int(np.clip(STATES_PER_LEVEL * levels, FEWEST_STATES, MOST_STATES)), most))
        return cls(states, max(1, min(ALL_STATES, most) // states), False)

    @classmethod
    def sharing(cls, levels: float, rows: int, states: int | None = None) -> TreeSizes:
        """Return the sizes of trees that share the tables of columns."""
        if states is None:
            wanted = int(np.clip(SHARED_STATES_PER_LEVEL * levels, FEWEST_STATES, MOST_STATES))
            states = max(1, min(wanted, rows // ROWS_OF_A_SHARED_STATE))
        return cls(states, int(np.clip(rows // ROWS_OF_A_TREE, FEWEST_TREES, TREES)), True)

    @classmethod
    def to_try(
        cls, levels: float, rows: int, states: int | None, trees: int | None, shared: bool | None, choice: bool
    ) -> list[TreeSizes]:
        """Return the sizes that are tried for a table.

        Trees that share tables where hidden variables have many states: others would be too large. Else trees that
        share nothing; where nothing was asked for, and rows are held out for a `choice`, both.

        Args:
            levels: of a column, in the mean.
            rows: how many there are.
            states: of each hidden variable, if that is given.
            trees: how many, if that is given.
            shared: whether they share the tables of columns, if that is given.
            choice: whether there are rows that tell which is better.
        """
        alone, sharing = cls.alone(levels, rows, states), cls.sharing(levels, rows, states)
        if shared is None and states is None and trees is None and choice and alone.states < ALL_STATES:
            return [alone, sharing]
        if shared is None:
            shared = alone.states >= ALL_STATES
        found = sharing if shared else alone
        return [found if trees is None else cls(found.states, trees, found.shared)]


def default_batch_size(rows: int) -> int:
    """Return the rows of a batch; with small batches, one tree may by chance get the rows of all others."""
    return int(np.clip(rows // BATCHES, *BATCH_ROWS))
