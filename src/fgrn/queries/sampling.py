"""Random rows of a network, drawn along its blocks, causes first (ancestral sampling)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.exceptions import FgrnError
from ..plan.plan import Plan


def sampled(
    plan: Plan, values: np.ndarray, rows: int, generator: np.random.Generator, given: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Draw the state of every edge in each of some rows, (rows, edges), along the blocks.

    A variable that no block drives is drawn from the uniform distribution.

    Args:
        plan: of the network.
        values: its parameters.
        rows: how many.
        generator: of random numbers.
        given: states of some edges that no block but a Source drives, one for each row: these are not drawn, and what
            follows from them is.
    """
    codes = np.full((rows, plan.edges), -1, dtype=np.int64)
    waiting = _blocks_in_order(plan)
    for edge, states in given.items():
        codes[:, edge] = states
    for edge in np.flatnonzero(~plan.driver).tolist():
        if edge not in given:
            codes[:, edge] = generator.integers(0, plan.cardinality[edge], rows)
    for source, edge in enumerate(plan.source_edge.tolist()):
        if edge not in given:
            prior = plan.source_values(values, source)
            codes[:, edge] = draw_states(prior[None], np.zeros(rows, dtype=np.int64), generator)
    for kind, block in waiting:
        if kind == "siso":
            table = plan.layout.table(values, int(plan.siso_table[block]))
            codes[:, plan.siso_output[block]] = draw_states(table, codes[:, plan.siso_input[block]], generator)
            continue
        legs = plan.legs(block)
        inputs = [int(plan.leg_edge[leg]) for leg in legs if plan.leg_is_input[leg]]
        sizes = tuple(int(plan.cardinality[edge]) for edge in inputs)
        joint = np.ravel_multi_index(tuple(codes[:, edge] for edge in inputs), sizes)
        for leg in legs:
            if not plan.leg_is_input[leg]:
                codes[:, plan.leg_edge[leg]] = joint
    return codes


def walked(table: np.ndarray, prior: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the states of a Markov chain: the first from a prior, the others from rows of a transition table."""
    borders = np.cumsum(table, axis=1)
    line = np.cumsum(prior)
    states = np.zeros(rows, dtype=np.int64)
    for row, draw in enumerate(generator.random(rows).tolist()):
        states[row] = np.searchsorted(line, draw * line[-1], side="right")
        line = borders[states[row]]
    return states


def _blocks_in_order(plan: Plan) -> list[tuple[str, int]]:
    """Return SISO blocks and Diverters in topological order: after the blocks that drive their inputs."""
    reads: dict[tuple[str, int], list[int]] = {}
    drives: dict[int, tuple[str, int]] = {}
    for block, (source, output) in enumerate(zip(plan.siso_input.tolist(), plan.siso_output.tolist(), strict=True)):
        if plan.driver[output]:
            reads["siso", block] = [source]
            drives[output] = ("siso", block)
    for block in range(plan.diverters):
        legs = plan.legs(block)
        reads["diverter", block] = [int(plan.leg_edge[leg]) for leg in legs if plan.leg_is_input[leg]]
        for leg in legs:
            if not plan.leg_is_input[leg]:
                drives[int(plan.leg_edge[leg])] = ("diverter", block)
    order: dict[tuple[str, int], None] = {}
    for first in reads:
        stack = [first]  # no recursion: a chain may be long
        while stack:
            missing = [drives[e] for e in reads[stack[-1]] if e in drives and drives[e] not in order]
            if missing:
                if len(stack) > len(reads):
                    raise FgrnError("The arrows of this network form a cycle, so that no row can be drawn.")
                stack.extend(missing[:1])
            else:
                order.setdefault(stack.pop())
    return list(order)


def draw_states(table: np.ndarray, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one state from each of some rows of a table."""
    upto = np.cumsum(table, axis=1)
    upto[:, -1] = np.inf  # rounding leaves the last a little below or above one
    last = np.where(table > 0, np.arange(table.shape[1]), 0).max(axis=1)  # and must not draw what has no probability
    states = (generator.random(len(rows))[:, None] >= upto[rows]).sum(axis=1)
    found: np.ndarray = np.minimum(states, last[rows])
    return found
