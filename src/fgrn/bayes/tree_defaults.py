"""The defaults of hidden trees: how many states and trees a table gets, and how they are learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .mixture_learning import TREES

STATES_PER_LEVEL, FEWEST_STATES, MOST_STATES, ALL_STATES = 4, 8, 128, 64
"""Hidden states for each level of a column, their bounds, and states of all trees that share nothing."""

ROWS_OF_A_STATE, ROWS_OF_A_TREE = 25, 1000
"""There are no more hidden states, and trees that share tables, than one for so many rows."""

BATCH_ROWS, BATCHES = (400, 2000), 16
"""The fewest and the most rows of a batch, and batches in between."""

MOST_EPOCHS, PATIENCE = 30, 5
"""Epochs of learning, at most, and those in which the rows kept back did not become more probable."""

FIRST_AND_LAST_STEP = (0.55, 0.03)
"""The part of a batch in the counts that tables are made of."""


@dataclass(frozen=True)
class TreeDefaults:
    """What a table gets: the states of each hidden variable, the number of trees, and whether they share tables."""

    states: int
    trees: int
    shared: bool

    @classmethod
    def of(cls, levels: float, rows: int, states: int | None = None, shared: bool | None = None) -> TreeDefaults:
        """Return the defaults of a table.

        Args:
            levels: of a column, in the mean.
            rows: how many there are.
            states: of each hidden variable, if these are given.
            shared: whether trees share the tables of columns, if that is given.
        """
        most = rows // ROWS_OF_A_STATE
        if states is None:
            states = max(1, min(int(np.clip(STATES_PER_LEVEL * levels, FEWEST_STATES, MOST_STATES)), most))
        if shared is None:
            shared = states >= ALL_STATES
        trees = min(TREES, rows // ROWS_OF_A_TREE) if shared else min(ALL_STATES, most) // states
        return cls(states, max(1, trees), shared)


def default_batch_size(rows: int) -> int:
    """Return the rows of a batch: in smaller ones, chance lets one tree take the rows of all others."""
    return int(np.clip(rows // BATCHES, *BATCH_ROWS))
