"""One state for every variable: the most probable ones together, or drawn ones, given what is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..engines import blocks_of_rows, tracer
from ..flow.marginals import refuse_impossible
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import Evidence

STATES_AT_ONCE = 2**23
"""Of all edges together that are drawn before those that nobody asked for are dropped."""


def likeliest(plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """The states of all edges that are likeliest together in each row, (rows, edges), and their log-probability."""
    prepared = tracer(largest=True).prepare(plan, programs, programs.inward, evidence)
    loaded = prepared.load(values)
    codes, found = [np.zeros((0, plan.edges), dtype=np.int64)], [np.zeros(0)]
    for rows in blocks_of_rows(evidence.rows, prepared.rows_at_once):
        mine, likelihood = loaded.trace(rows, np.arange(rows.stop - rows.start), best)
        refuse_impossible(rows.start + np.flatnonzero(np.isneginf(likelihood)))
        codes.append(mine)
        found.append(likelihood)
    return np.concatenate(codes), np.concatenate(found) + evidence.log_scale


def max_marginals(
    plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence, edges: Sequence[int]
) -> list[np.ndarray]:
    """For each state of some edges, the log-probability of the likeliest states of everything: (rows, states)."""
    found = tracer(largest=True).logs(plan, programs, values, evidence, edges, whole=True)
    for array in found:
        refuse_impossible(np.flatnonzero(np.isneginf(array).all(axis=1)))
        array += evidence.log_scale[:, None]
    return list(found)


def sampled_given(
    plan: Plan,
    programs: Programs,
    values: np.ndarray,
    evidence: Evidence,
    edges: Sequence[int],
    each: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """The states of some edges, (samples, edges), so many drawn for each row of evidence, one after the other."""
    prepared = tracer(largest=False).prepare(plan, programs, programs.inward, evidence)
    loaded = prepared.load(values)
    choose = drawn(generator)
    at_once = max(1, STATES_AT_ONCE // plan.edges)
    codes = [np.zeros((0, len(edges)), dtype=np.int64)]
    for rows in blocks_of_rows(evidence.rows, min(prepared.rows_at_once, max(1, at_once // max(each, 1)))):
        count = rows.stop - rows.start
        for first in range(0, max(each, 1), at_once):
            mine = np.repeat(np.arange(count), min(at_once, each - first))
            states, likelihood = loaded.trace(rows, mine, choose)
            refuse_impossible(rows.start + np.flatnonzero(np.isneginf(likelihood)))
            codes.append(states[:, edges])
    return np.concatenate(codes)


def best(log_weights: np.ndarray) -> np.ndarray:
    """The first of the largest."""
    found: np.ndarray = log_weights.argmax(axis=1)
    return found


def drawn(generator: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """A choice at random, by the weights."""

    def choose(log_weights: np.ndarray) -> np.ndarray:
        upto = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
        draw = generator.random(len(upto)) * upto[:, -1]  # below the last: what has no weight is never passed
        found: np.ndarray = (upto <= draw[:, None]).sum(axis=1)
        return found

    return choose
