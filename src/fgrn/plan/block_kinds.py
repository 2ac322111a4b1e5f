"""The kinds of block in a plan, and the steps that compute their messages, in one table to which new kinds are added.

Engines compute steps. Each has a table from every kind of step to the function for it; the CPU engine's writes
operations, numbered in `kernels.basics`, that its kernels run. A test keeps this overview true:

    block      step       reference engine      operations on a tape     functions of kernels
    source     SOURCE     State._source         CONSTANT LONE_SOURCE     constant lone_source
    siso       FORWARD    State._siso_forward   FORWARD                  siso_forward
               BACKWARD   State._siso_backward  BACKWARD                 siso_backward
               counts     counts_of_messages    JOINT_NORM JOINT_ADD     joint_norm joint_add
    diverter   DIVERT     State._divert         LEAVES DIVERT            leaves divert
               counts     counts_of_messages    POSTERIOR SCATTER        posterior_of scatter
    evidence              State.run             BOUNDARY MEET            boundary meet

The tables are `log_state.STEPS`, `tape.STEPS`, and `tracing.CHOICES` for the states that most_probable and sample
choose at a block. `graph.blocks` has the class of each kind; a Factor is a source to a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .plan import Plan

SOURCE, FORWARD, BACKWARD, DIVERT = range(4)
"""Kinds of step: prior to forward message; forward and backward message of a SISO; outgoing messages of a Diverter.

A block is known by its kind of step, a SISO by FORWARD, and its number among blocks of this kind.
"""

Step = tuple[int, int, list[int]]
"""The kind of step, the number of the block, and the legs of a Diverter whose outgoing messages are computed."""


class Message(NamedTuple):
    """One directed message: on which edge, and whether it is the forward one."""

    edge: int
    is_forward: bool


class StepKind(NamedTuple):
    """One kind of step: its name, and the function that lists the messages it computes for a block."""

    name: str
    messages: Callable[[Plan, int, Sequence[int]], list[Message]]


class BlockKind(NamedTuple):
    """One kind of block: its name, its number in a plan, its outgoing messages, and the steps that compute them."""

    name: str
    count: Callable[[Plan], int]
    outgoing: Callable[[Plan, int], list[Message]]
    steps: Callable[[Plan, int, list[Message]], list[Step]]


def _source_messages(plan: Plan, block: int) -> list[Message]:
    return [Message(int(plan.source_edge[block]), True)]


def _source_steps(plan: Plan, block: int, messages: list[Message]) -> list[Step]:
    return [(SOURCE, block, [])]


def _siso_messages(plan: Plan, block: int) -> list[Message]:
    return [Message(int(plan.siso_input[block]), False), Message(int(plan.siso_output[block]), True)]


def _siso_steps(plan: Plan, block: int, messages: list[Message]) -> list[Step]:
    return [(FORWARD if message.is_forward else BACKWARD, block, []) for message in messages]


def _diverter_messages(plan: Plan, block: int) -> list[Message]:
    return _leg_messages(plan, plan.legs(block))


def _leg_messages(plan: Plan, legs: Sequence[int]) -> list[Message]:
    return [Message(int(plan.leg_edge[leg]), not plan.leg_is_input[leg]) for leg in legs]


def _diverter_steps(plan: Plan, block: int, messages: list[Message]) -> list[Step]:
    edges = {message.edge for message in messages}
    return [(DIVERT, block, [leg for leg in plan.legs(block) if int(plan.leg_edge[leg]) in edges])]


BLOCK_KINDS = {
    SOURCE: BlockKind("source", lambda plan: len(plan.source_edge), _source_messages, _source_steps),
    FORWARD: BlockKind("siso", lambda plan: len(plan.siso_table), _siso_messages, _siso_steps),
    DIVERT: BlockKind("diverter", lambda plan: plan.diverters, _diverter_messages, _diverter_steps),
}
"""All kinds of block, in the order in which a plan numbers blocks."""

STEP_KINDS = {
    SOURCE: StepKind("SOURCE", lambda plan, source, legs: _source_messages(plan, source)),
    FORWARD: StepKind("FORWARD", lambda plan, siso, legs: _siso_messages(plan, siso)[1:]),
    BACKWARD: StepKind("BACKWARD", lambda plan, siso, legs: _siso_messages(plan, siso)[:1]),
    DIVERT: StepKind("DIVERT", lambda plan, diverter, legs: _leg_messages(plan, legs)),
}
"""All kinds of step."""
