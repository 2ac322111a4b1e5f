"""Marginals: forward times backward messages, joints of blocks, and the likelihood that follows from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.exceptions import ImpossibleEvidence, Remedy
from ..engines import Buffers, log_sum, logarithm
from ..plan.plan import Plan
from ..tables.encoded import Evidence


def normalised(weights: np.ndarray) -> np.ndarray:
    """Normalise rows to sum to one; a row of zeros stays a row of zeros."""
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def beliefs(plan: Plan, forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Return the marginals p_V = f_V * b_V, normalised, of every variable: (rows, states)."""
    out: np.ndarray = forward * backward
    for edge in range(plan.edges):
        out[:, plan.columns(edge)] = normalised(out[:, plan.columns(edge)])
    return out


def bethe_log_likelihood(plan: Plan, values: np.ndarray, evidence: Evidence, messages: Buffers) -> np.ndarray:
    """Return the log-likelihood: exact on a tree, Bethe's approximation on a graph with loops.

    It is the sum over blocks of log Z_block less the sum over edges of log Z_edge.

    Z_block sums the block's factor times everything that comes in; Z_edge is forward times backward. Evidence
    on an edge belongs to the block that reads it, or stands alone where none does.
    """
    with np.errstate(invalid="ignore"):
        return _bethe(plan, values, evidence, messages)


def _bethe(plan: Plan, values: np.ndarray, evidence: Evidence, messages: Buffers) -> np.ndarray:
    total = np.zeros(evidence.rows)
    into: dict[int, np.ndarray] = {}  # what the reader of each edge receives
    for edge in range(plan.edges):
        columns = plan.columns(edge)
        weights = evidence.weights(edge, int(plan.cardinality[edge]))
        forward, backward = messages.forward[:, columns], messages.backward[:, columns]
        into[edge] = forward * weights
        if plan.driver[edge]:
            total -= logarithm((forward * backward).sum(axis=1))
            if not plan.reader[edge]:
                total += logarithm(into[edge].sum(axis=1))
    for source, edge in enumerate(plan.source_edge):
        prior = plan.source_values(values, source)
        total += logarithm((prior * messages.backward[:, plan.columns(int(edge))]).sum(axis=1))
    for siso, number in enumerate(plan.siso_table):
        table = plan.layout.table(values, int(number))
        output = plan.columns(int(plan.siso_output[siso]))
        product = (into[int(plan.siso_input[siso])] @ table) * messages.backward[:, output]
        total += logarithm(product.sum(axis=1))
    for diverter in range(plan.diverters):
        total += _diverter_log_norm(plan, diverter, into, messages)
    return np.where(np.isnan(total), -np.inf, total)  # -inf - -inf: something was impossible


def _diverter_log_norm(plan: Plan, diverter: int, into: dict[int, np.ndarray], messages: Buffers) -> np.ndarray:
    product = np.zeros((len(messages.forward), int(plan.diverter_size[diverter])))
    for leg in plan.legs(diverter):
        edge = int(plan.leg_edge[leg])
        message = into[edge] if plan.leg_is_input[leg] else messages.backward[:, plan.columns(edge)]
        index = plan.leg_index(diverter, leg)
        product += logarithm(message if index is None else message[:, index])
    return log_sum(product, axis=1)


REMEDIES = (
    "change or leave out a value",
    Remedy("learn tables without zeros", smoothing=...),
    Remedy("see which rows these are", 'propagate(..., impossible="mark")', impossible="mark"),
)
"""What to do about evidence of probability zero."""


def refuse_impossible(impossible: np.ndarray, remedies: Sequence[str | Remedy] = REMEDIES) -> None:
    """Raise ImpossibleEvidence, with the row numbers, if there are rows of probability zero."""
    if len(impossible):
        raise ImpossibleEvidence(
            "this evidence has probability zero under the model; its values cannot occur together.",
            rows=impossible.tolist(),
            remedies=remedies,
        )
