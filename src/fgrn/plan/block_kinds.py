"""The kinds of block in a plan: for each, its messages, and the steps that compute them. A new kind begins here.

Engines compute steps. Each engine has a table from every kind of step to the function for it: `reference.STEPS`, and
`tape.STEPS` of the CPU engine, which writes operations of `kernels.basics` that its kernels run; `tracing.CHOICES` has
the joint states that most_probable and sample choose at a block. A block of the graph names its kind (`graph.blocks`).
"""

from __future__ import annotations

from collections.abc import Callable
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


class BlockKind(NamedTuple):
    """One kind of block: how many a plan has, the outgoing messages of each, and the steps that compute some."""

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
    return [Message(int(plan.leg_edge[leg]), not plan.leg_is_input[leg]) for leg in plan.legs(block)]


def _diverter_steps(plan: Plan, block: int, messages: list[Message]) -> list[Step]:
    edges = {message.edge for message in messages}
    return [(DIVERT, block, [leg for leg in plan.legs(block) if int(plan.leg_edge[leg]) in edges])]


KINDS = {
    SOURCE: BlockKind(lambda plan: len(plan.source_edge), _source_messages, _source_steps),
    FORWARD: BlockKind(lambda plan: len(plan.siso_table), _siso_messages, _siso_steps),
    DIVERT: BlockKind(lambda plan: plan.diverters, _diverter_messages, _diverter_steps),
}
"""All kinds of block, in the order in which a plan numbers blocks."""
