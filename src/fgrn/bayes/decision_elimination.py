"""Optimal decisions by variable elimination: sums over chance variables, maxima over decisions, last first.

There are two kinds of tables: probabilities, which are multiplied, and utilities, which are added (Jensen, Jensen and
Dittmer, 1994). A chance variable X is eliminated from the tables that have it by

    p' = sum over X of p,    u' = (sum over X of p u) / p'

where p is the product of its probabilities and u the sum of its utilities, so that u' is an expectation; a decision by
u' = max over it of u, and where that is reached is its policy. What is not known at a decision has to be eliminated
before it (a strong elimination order).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..core.exceptions import ImpossibleEvidence, WiringError, shortened
from ..core.printing import memory_size
from .clique_memory import allowed_memory

TABLE_BYTES = 24
"""Bytes for a joint state of an intermediate table: the table, a factor over the same variables, and their product."""


class TableRoom(NamedTuple):
    """The number of states of each variable, and the limit of bytes for intermediate tables.

    Without a number, half of the memory of the machine.
    """

    sizes: Mapping[str, int]
    memory: float | None = None

    def shape(self, scope: Collection[str]) -> list[int]:
        """Return the shape of a table over some variables; an error if it would need too much memory."""
        found = [self.sizes[name] for name in scope]
        needed, limit = TABLE_BYTES * prod(found), allowed_memory(self.memory)
        if needed > limit:
            raise WiringError(
                f"The best decisions would need a table of {len(scope)} variables ({shortened(scope, 5)}) with "
                f"{prod(found):,} joint states; that takes about {memory_size(needed)}, and the limit is "
                f"{memory_size(limit)}.",
                remedies=(
                    "let decisions see fewer variables",
                    "give variables fewer states",
                    "set `network.memory_limit` of the diagram, in bytes",
                ),
            )
        return found


class DecisionTable(NamedTuple):
    """A table over some variables, its scope, with one axis for each."""

    scope: tuple[str, ...]
    values: np.ndarray

    def at(self, states: Mapping[str, int]) -> DecisionTable:
        """Return the table at these states of some variables, without their axes."""
        place = tuple(states.get(name, slice(None)) for name in self.scope)
        return DecisionTable(tuple(name for name in self.scope if name not in states), self.values[place])


class DecisionStage(NamedTuple):
    """A decision, and the chance variables that become known between it and the next one, or never."""

    decision: str | None
    after: frozenset[str]


class EliminationResult(NamedTuple):
    """The result of elimination: the expected utility, and the utilities of the actions of each decision.

    Those are, for each joint state of what the decision depends on and for each action (the last axis), expected
    utilities up to a term that is the same for all actions.
    """

    utility: float
    decisions: Mapping[str, DecisionTable]


def eliminate(
    room: TableRoom,
    probabilities: Iterable[DecisionTable],
    utilities: Iterable[DecisionTable],
    stages: Sequence[DecisionStage],
) -> EliminationResult:
    """Eliminate all variables, last stage first, and within a stage the variable with the smallest product.

    Args:
        room: the number of states of each variable, and what tables may take.
        probabilities: tables that are multiplied.
        utilities: tables that are added.
        stages: in the order of time; the first has no decision, and what is known before all of them.
    """
    product, total = list(probabilities), list(utilities)
    found: dict[str, DecisionTable] = {}
    for stage in reversed(stages):
        left = set(stage.after)
        while left:
            name = min(sorted(left), key=lambda one: _joint_states_with(one, room.sizes, [*product, *total]))
            left.discard(name)
            _sum_out(name, room, product, total)
        if stage.decision is not None:
            found[stage.decision] = _maximise(stage.decision, room, product, total)
    if prod(float(one.values) for one in product) <= 0:
        raise ImpossibleEvidence("These values have probability zero together.", remedies="leave out some")
    return EliminationResult(sum(float(one.values) for one in total), found)


def _joint_states_with(name: str, sizes: Mapping[str, int], potentials: Iterable[DecisionTable]) -> int:
    """Return the number of joint states of all variables that share a table with this one."""
    return prod(sizes[other] for other in {one for some in potentials if name in some.scope for one in some.scope})


def _sum_out(name: str, room: TableRoom, product: list[DecisionTable], total: list[DecisionTable]) -> None:
    mine, gains = _tables_taken(name, product), _tables_taken(name, total)
    if not mine and not gains:
        return
    share = product_of_tables(mine, _scope_with_last(mine, name), room)
    summed = share.values.sum(axis=-1)
    product.append(DecisionTable(share.scope[:-1], summed))
    if not gains:
        return
    scope = _scope_with_last([*mine, *gains], name)
    weights, gained = on_scope(share, scope), sum_of_tables(gains, scope, room).values
    expected = np.broadcast_to(weights * gained, room.shape(scope)).sum(axis=-1)
    whole = np.broadcast_to(weights.sum(axis=-1), expected.shape)
    total.append(
        DecisionTable(scope[:-1], np.divide(expected, whole, out=np.zeros_like(expected), where=whole > 0))
    )  # what is impossible does not count


def _maximise(name: str, room: TableRoom, product: list[DecisionTable], total: list[DecisionTable]) -> DecisionTable:
    """Eliminate a decision; the probability of earlier variables does not depend on it."""
    mine, gains = _tables_taken(name, product), _tables_taken(name, total)
    if mine:
        share = product_of_tables(mine, _scope_with_last(mine, name), room)
        product.append(DecisionTable(share.scope[:-1], share.values.max(axis=-1)))  # equal but for rounding
    found = sum_of_tables(gains, _scope_with_last(gains, name), room)
    total.append(DecisionTable(found.scope[:-1], found.values.max(axis=-1)))
    return found


def _tables_taken(name: str, potentials: list[DecisionTable]) -> list[DecisionTable]:
    """Remove the tables that contain a variable from a list, and return them."""
    mine = [one for one in potentials if name in one.scope]
    potentials[:] = [one for one in potentials if name not in one.scope]
    return mine


def _scope_with_last(potentials: Iterable[DecisionTable], last: str) -> tuple[str, ...]:
    """Return the variables of some tables, with one of them last."""
    names = dict.fromkeys(name for one in potentials for name in one.scope)
    return (*(name for name in names if name != last), last)


def on_scope(one: DecisionTable, scope: Sequence[str]) -> np.ndarray:
    """Return a table with an axis for each variable of a larger scope, of length 1 for those it lacks."""
    order = sorted(range(len(one.scope)), key=lambda axis: scope.index(one.scope[axis]))
    moved = one.values.transpose(order)
    shape = iter(moved.shape)
    return moved.reshape([next(shape) if name in one.scope else 1 for name in scope])


def product_of_tables(tables: Iterable[DecisionTable], scope: tuple[str, ...], room: TableRoom) -> DecisionTable:
    """Return the product of some tables over a scope."""
    out = np.ones(room.shape(scope))
    for one in tables:
        out = out * on_scope(one, scope)
    return DecisionTable(scope, out)


def sum_of_tables(tables: Iterable[DecisionTable], scope: tuple[str, ...], room: TableRoom) -> DecisionTable:
    """Return the sum of some tables over a scope."""
    out = np.zeros(room.shape(scope))
    for one in tables:
        out = out + on_scope(one, scope)
    return DecisionTable(scope, out)
