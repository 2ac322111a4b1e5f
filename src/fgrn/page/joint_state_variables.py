"""The variables whose joint states are the states of a wire: product spaces, cliques, and shared parts of cliques."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.variable import Variable
from ..graph.blocks import Diverter
from ..graph.network import Network


class JointStateVariables:
    """Finds the variables with a card whose joint states are the states of a wire without labels.

    Args:
        net: the network.
        cards: of each variable that has a card, the edge.
    """

    def __init__(self, net: Network, cards: Mapping[str, int]) -> None:
        self._cards = cards
        self._diverters: dict[str, list[Diverter]] = {}
        for block in net.blocks:
            if isinstance(block, Diverter):
                for variable in (*block.inputs, *block.outputs):
                    self._diverters.setdefault(variable.name, []).append(block)

    def parts_of(self, variable: Variable) -> dict[str, Any]:
        """Return the edges of those variables as `parts`, slowest first; nothing for a wire with labels, or unknown."""
        if variable.is_labelled or variable.name in self._cards:
            return {}
        parts = self._resolved(variable.name, frozenset())
        return {} if parts is None else {"parts": parts}

    def _resolved(self, name: str, passed: frozenset[str]) -> list[int] | None:
        """Return the edges of cards that a variable consists of; None if some part of it has no card."""
        if name in self._cards:
            return [self._cards[name]]
        for diverter in () if name in passed else self._diverters.get(name, ()):
            parts: list[int] = []
            for part in _carried(diverter, name):
                found = self._resolved(part, passed | {name})
                if found is None:
                    break
                parts += found
            else:
                return parts
        return None


def _carried(diverter: Diverter, name: str) -> list[str]:
    """Return the parts of the product space of a Diverter that a variable carries, in the order of its states."""
    names = [variable.name for variable in (*diverter.inputs, *diverter.outputs)]
    axes = diverter.legs[names.index(name)]
    return [part for part, _ in (diverter.space if axes is None else (diverter.space[axis] for axis in axes))]
