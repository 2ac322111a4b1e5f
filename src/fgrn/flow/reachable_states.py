"""The states of the hidden variable that each row of a sequence can have, from zeros in tables and evidence.

A set of states is a whole number with a bit for each: the step to the next row is then computed once for each set that
occurs, of which there are few, and nothing underflows.
"""

from __future__ import annotations

import numpy as np

MOST_STATES = 62
"""States of which a set is a number that NumPy has, too."""


def possible_states(
    prior: np.ndarray, table: np.ndarray, allowed: np.ndarray, begins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the states of each row that the earlier rows allow, and those that the later rows allow.

    Args:
        prior: (states,) that of the first row of a sequence.
        table: (states, states) the transitions.
        allowed: (rows, states) which states each row allows by itself.
        begins: (rows,) where a sequence begins.

    Returns:
        Two arrays, (rows, states).
    """
    states = len(prior)
    bits = 1 << np.arange(states, dtype=np.int64)
    leads, own = table > 0, (allowed @ bits).tolist()
    ends = np.append(begins[1:], True)
    past = _along(int((prior > 0) @ bits), (leads @ bits).tolist(), own, begins.tolist())
    future = _along(int(bits.sum()), (leads.T @ bits).tolist(), own[::-1], ends[::-1].tolist())[::-1]
    before, after = ((np.array(sets, dtype=np.int64)[:, None] & bits) > 0 for sets in (past, future))
    return before, after


def _along(first: int, leads: list[int], own: list[int], begins: list[bool]) -> list[int]:
    """Return for each row the states reachable from the rows before it; `first` where a sequence begins."""
    steps: dict[int, int] = {}
    now, found = first, []
    for mine, begin in zip(own, begins, strict=True):
        now = first if begin else now
        found.append(now)
        now &= mine
        after = steps.get(now)
        if after is None:
            after = 0
            for state, to in enumerate(leads):
                if now >> state & 1:
                    after |= to
            steps[now] = after
        now = after
    return found
