"""A joint assignment of all variables, chosen block by block outwards from the root: the most probable, or a sample.

The messages towards the root summarise the evidence behind every edge. At the root a joint state is chosen from the
product of all incoming messages; every further block is given the state of the edge towards the root, and chooses the
rest. With max-product messages and the best choice this is the most probable explanation; with sum-product messages and
a random choice it is an exact sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .protocol import DIVERT, FORWARD, SOURCE

if TYPE_CHECKING:
    from .log_state import State

Choice = Callable[[np.ndarray], np.ndarray]
"""From logarithms of weights, (rows, choices), to one choice for each row."""

CELLS_AT_ONCE = 2**22


def traced(state: State, which: np.ndarray, choose: Choice) -> np.ndarray:
    """Return the state of every edge, (choices, edges); `which` is the row of messages for each choice."""
    plan = state.plan
    codes = np.full((len(which), plan.edges), -1, dtype=np.int64)
    for kind, block, parent in plan.order:
        CHOICES[kind](state, block, parent, which, choose, codes)
    return codes


def _at_source(state: State, source: int, parent: int, which: np.ndarray, choose: Choice, codes: np.ndarray) -> None:
    if parent < 0:  # nothing else is connected to it
        edge = int(state.plan.source_edge[source])
        codes[:, edge] = choose(state.belief(edge)[which])


def _at_siso(state: State, siso: int, parent: int, which: np.ndarray, choose: Choice, codes: np.ndarray) -> None:
    plan = state.plan
    source, output = int(plan.siso_input[siso]), int(plan.siso_output[siso])
    table = state.table(siso)
    into, back = state.into_reader(source), state.backward[:, plan.columns(output)]
    if parent == source:
        codes[:, output] = choose(table[codes[:, source]] + back[which])
    elif parent == output:
        codes[:, source] = choose(table.T[codes[:, output]] + into[which])
    else:
        joint = (into[:, :, None] + table + back[:, None, :]).reshape(len(into), -1)
        codes[:, source], codes[:, output] = np.divmod(choose(joint[which]), table.shape[1])


def _at_diverter(
    state: State, diverter: int, parent: int, which: np.ndarray, choose: Choice, codes: np.ndarray
) -> None:
    plan = state.plan
    legs = list(plan.legs(diverter))
    edges = [int(plan.leg_edge[leg]) for leg in legs]
    total = np.zeros((state.evidence.rows, int(plan.diverter_size[diverter])))
    for edge, message in zip(edges, state.incoming(diverter), strict=True):
        if edge != parent:
            total += message
    if parent < 0:
        cells = np.arange(total.shape[1])[None]
        given = np.zeros(len(which), dtype=np.int64)
    else:
        cells = plan.leg_groups(diverter, legs[edges.index(parent)])
        given = codes[:, parent]
    chosen = np.empty(len(which), dtype=np.int64)
    step = max(1, CELLS_AT_ONCE // cells.shape[1])
    for first in range(0, len(which), step):
        part = slice(first, first + step)
        mine = cells[given[part]]
        pick = choose(total[which[part, None], mine])
        chosen[part] = mine[np.arange(len(mine)), pick]
    for leg, edge in zip(legs, edges, strict=True):
        if edge != parent:
            index = plan.leg_index(diverter, leg)
            codes[:, edge] = chosen if index is None else index[chosen]


CHOICES = {SOURCE: _at_source, FORWARD: _at_siso, DIVERT: _at_diverter}
"""The function that chooses the states at each kind of block, given that of the edge towards the root."""
