"""The tables of a junction tree and the variables that they are over, read from its Plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .plan import Plan


class JunctionTable(NamedTuple):
    """A table of a junction tree: its offset in the layout, its variables, and the stride of each."""

    at: int
    scope: tuple[int, ...]
    steps: Mapping[int, int]

    def variables_beside(self, hub: int) -> list[int]:
        """The variables of the table without the hub."""
        return [number for number in self.scope if number != hub]


class JunctionTables(NamedTuple):
    """The variables of a junction tree by number, with their states and edges, and all tables over them."""

    layout_size: int
    sizes: tuple[int, ...]
    edges: tuple[int, ...]
    tables: tuple[JunctionTable, ...]


_Axis: TypeAlias = tuple[int, int]
"""A Diverter, and one of the variables that its product space is made of."""


def junction_tables_of(plan: Plan) -> JunctionTables | None:
    """Return the tables of a junction tree by variables; None if the network is not one."""
    if len(plan.siso_input) or not plan.is_factor.any():
        return None
    ends: dict[int, list[list[_Axis]]] = {}  # of each edge: the axes of Diverters that it carries
    for diverter in range(plan.diverters):
        for leg in plan.legs(diverter):
            axes = plan.leg_axes[leg]
            axes = tuple(range(len(plan.spaces[diverter]))) if axes is None else axes
            ends.setdefault(int(plan.leg_edge[leg]), []).append([(diverter, axis) for axis in axes])
    numbers = _variables_of_axes([axis for legs in ends.values() for leg in legs for axis in leg], ends.values())
    sizes, edges = [0] * (max(numbers.values()) + 1), [-1] * (max(numbers.values()) + 1)
    for (diverter, axis), number in numbers.items():
        sizes[number] = plan.spaces[diverter][axis]
    sources = plan.source_of
    tables = []
    for edge, legs in ends.items():
        scope = tuple(numbers[axis] for axis in legs[0])
        if edge in sources:
            steps = {one: prod(sizes[other] for other in scope[place + 1 :]) for place, one in enumerate(scope)}
            tables.append(JunctionTable(int(plan.source_at[sources[edge]]), scope, steps))
        elif len(legs) == len(scope) == 1:
            edges[scope[0]] = edge
    return JunctionTables(plan.layout.size, tuple(sizes), tuple(edges), tuple(tables))


def _variables_of_axes(axes: Iterable[_Axis], ends: Iterable[list[list[_Axis]]]) -> dict[_Axis, int]:
    """Return the variable number of each axis; the two ends of an edge are the same variable."""
    same = {axis: axis for axis in axes}

    def first(axis: _Axis) -> _Axis:
        while same[axis] != axis:
            axis = same[axis]
        return axis

    for legs in ends:
        for one, other in zip(legs[0], legs[-1], strict=True):
            same[first(other)] = first(one)
    found = {axis: number for number, axis in enumerate(dict.fromkeys(map(first, same)))}
    return {axis: found[first(axis)] for axis in same}
