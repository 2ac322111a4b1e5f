"""The paper's cycles: expected counts computed again with new tables and the messages from the start of an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import kernels
from .kernels.arguments import HeldMessages
from .protocol import Buffers, RowCounts

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..tables.encoded import Evidence


class TableMessages(NamedTuple):
    """The messages of a block of rows at both ends of every SISO, and the beliefs of the Sources.

    `doubtful` are rows in which a product underflowed: the reference engine has to count them.
    """

    into: np.ndarray
    back: np.ndarray
    belief: np.ndarray
    known: np.ndarray
    log_likelihood: np.ndarray
    doubtful: np.ndarray


def table_messages(plan: Plan, evidence: Evidence, buffers: Buffers, doubtful: np.ndarray) -> TableMessages:
    """Return the messages at SISO blocks, those at inputs multiplied by the evidence there."""
    into = buffers.forward
    for edge in plan.siso_input.tolist():
        if evidence.slot[edge] >= 0:
            into[:, plan.columns(edge)] *= evidence.weights(edge, int(plan.cardinality[edge]))
    known = buffers.known_backward
    return TableMessages(into, buffers.backward, buffers.marginal, known, buffers.log_likelihood, doubtful)


def counts_from_messages(
    plan: Plan,
    messages: TableMessages,
    values: np.ndarray,
    weights: np.ndarray,
    expect: bool,
    by_reference: Callable[[np.ndarray], RowCounts],
) -> RowCounts:
    """Return expected counts from held messages and given tables; `by_reference` counts rows that may underflow."""
    transposed = transposed_tables(plan, values)
    cells = np.zeros(plan.layout.size)  # tables transposed, without the factor of the table itself
    doubtful = messages.doubtful.copy()
    count, longest = len(weights), int(plan.cardinality.max(initial=1))
    held = HeldMessages(messages.into.ravel(), messages.back.ravel(), messages.belief.ravel(), messages.known)
    kernels.recount(
        _places(plan), _sources(plan), count, np.uint64(plan.states), transposed, held,
        np.array(weights, dtype=np.float64), expect, doubtful, np.empty((count, len(plan.siso_table))), cells,
        np.empty(longest),
    )  # fmt: skip
    counts = np.zeros(plan.layout.size)
    for number, (rows, columns) in enumerate(plan.layout.table_shapes):
        start = plan.layout.table_offsets[number]
        mine = cells[start : start + rows * columns].reshape(columns, rows).T
        plan.layout.table(counts, number)[...] = mine * plan.layout.table(values, number)
    for number in range(len(plan.layout.prior_sizes)):
        plan.layout.prior(counts, number)[...] = plan.layout.prior(cells, number)
    sure = np.where(doubtful, 0.0, weights)
    for source in np.flatnonzero(plan.is_factor).tolist():
        joint = messages.back[:, plan.columns(int(plan.source_edge[source]))] * plan.source_values(values, source)
        norm = joint.sum(axis=1)
        plan.source_values(counts, source)[...] += (sure / np.where(norm > 0, norm, 1)) @ joint
    where = np.flatnonzero(doubtful)
    if len(where):
        counts += by_reference(where).values
    return RowCounts.of_rows(counts, messages.log_likelihood, weights)


def transposed_tables(plan: Plan, values: np.ndarray) -> np.ndarray:
    """Return the parameters with every table transposed, at the same offset."""
    out = values.copy()
    for number in range(len(plan.layout.table_shapes)):
        table = plan.layout.table(values, number)
        start = plan.layout.table_offsets[number]
        out[start : start + table.size] = table.T.ravel()
    return out


def _places(plan: Plan) -> np.ndarray:
    """Return, per SISO, the offset and states of its input in a row of messages, of its output, its table, its edge."""
    rows = [
        (plan.offset[a], plan.cardinality[a], plan.offset[b], plan.cardinality[b], plan.layout.table_offsets[t], b)
        for a, b, t in zip(plan.siso_input, plan.siso_output, plan.siso_table, strict=True)
    ]
    return np.array(rows, dtype=np.uint64).reshape(-1, 6)


def _sources(plan: Plan) -> np.ndarray:
    """Return, per Source except Factors, the offset and states of its variable in a row of messages, its prior."""
    sources = ~plan.is_factor
    edges = plan.source_edge[sources]
    places = (plan.offset[edges], plan.cardinality[edges], plan.source_at[sources])
    return np.stack(places, axis=1).astype(np.uint64).reshape(-1, 3)
