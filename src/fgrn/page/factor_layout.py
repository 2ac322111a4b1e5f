"""The positions of blocks and wires of a factor graph on a page: the layers of `plots.folding`, in pixels."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from ..core.variable import Variable
from ..graph.blocks import SISO, Diverter, Factor, Source
from ..graph.network import Network
from ..plan.plan import Plan
from ..plots.folding import Widths, network_layers
from ..plots.placement import Node, is_straight, place_nodes, port
from .card_layout import CARD, PIXELS, card_pixels, states_as_json
from .joint_state_variables import JointStateVariables

MOST_BLOCKS = 1000
"""Of a factor graph that is drawn."""

WIRE = {"width": 104, "label": 16, "glyph": 34, "height": 58}
"""The size in pixels of a wire without a card: its name and its two messages."""

BOX = {"width": 150, "height": 38, "bar": 10}
"""The size in pixels of a block, and the height of a Diverter."""


def factor_view(net: Network, plan: Plan, cards: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the network as blocks and wires with positions and lines, in pixels; None if it is too large.

    Args:
        net: the network.
        plan: its Plan.
        cards: of each variable that is shown with its beliefs, the edge.
    """
    if len(net.blocks) > MOST_BLOCKS:
        return None
    column = CARD["width"] / PIXELS + 0.3
    widths = Widths(max(14.0, 1.5 * sqrt(len(cards)) * column), column, WIRE["width"] / PIXELS)
    layers = network_layers(net.blocks, set(), widths)
    for node in (node for layer in layers for node in layer):
        _measure(node, cards)
    width, height = place_nodes(layers)
    view: dict[str, Any] = {"width": round(width * PIXELS), "height": round(height * PIXELS), "wire": WIRE, "box": BOX}
    nodes = [node for layer in layers for node in layer]
    parts = JointStateVariables(net, cards)
    view["wires"] = [
        _wire(node, node.item, plan, cards) | parts.parts_of(node.item)
        for node in nodes
        if isinstance(node.item, Variable)
    ]
    boxes = [node for node in nodes if _is_block(node)]
    view["blocks"] = [_block(node, plan) for node in boxes]
    number_of = {id(node): number for number, node in enumerate(boxes)}
    view["lines"] = [
        line
        for layer in layers
        for node in layer
        for line in _lines(node, max(n.top + n.height for n in layer), plan, number_of)
    ]
    return view


def _is_block(node: Node) -> bool:
    return node.item is not None and not isinstance(node.item, Variable)


def _measure(node: Node, cards: Mapping[str, int]) -> None:
    if isinstance(node.item, Variable):
        node.width, node.height = WIRE["width"] / PIXELS, WIRE["height"] / PIXELS
        if node.item.name in cards:
            node.width = CARD["width"] / PIXELS + 0.3
            node.height += card_pixels(node.item.cardinality) / PIXELS
    elif isinstance(node.item, Diverter):
        node.width, node.height, node.slot = 0.6, BOX["bar"] / PIXELS, 0.2
    elif node.item is not None:
        node.width, node.height = BOX["width"] / PIXELS + 0.2, BOX["height"] / PIXELS


def _wire(node: Node, variable: Variable, plan: Plan, cards: Mapping[str, int]) -> dict[str, Any]:
    edge = plan.edge(variable.name)
    wire: dict[str, Any] = {"edge": edge, "x": _pixels(node.x), "y": _pixels(node.top)}
    if variable.name in cards:
        return {**wire, "height": round(card_pixels(variable.cardinality))}
    return {**wire, "name": variable.name, "states": states_as_json(variable)}


def _block(node: Node, plan: Plan) -> dict[str, Any]:
    """Return a block with its kind, number in the Plan and position; a folded Diverter has several."""
    block, top = node.item, _pixels(node.top)
    if isinstance(block, Diverter):
        number = _reader(plan, plan.edge(block.inputs[0].name))
        place = {"x": _pixels(node.left), "y": top, "width": _pixels(node.right - node.left), "height": BOX["bar"]}
        if node.follows:
            place["from"] = _pixels(node.follows.top)
        return {"kind": "diverter", "number": number, **place}
    place = {"x": _pixels(node.x) - BOX["width"] / 2, "y": top, "width": BOX["width"], "height": BOX["height"]}
    if isinstance(block, SISO):
        number = plan.siso_output.tolist().index(plan.edge(block.output.name))
        return {"kind": "siso", "number": number, **place}
    if not isinstance(block, (Source, Factor)):
        raise TypeError(f"a block of an unknown kind: {block!r}")
    number = plan.source_edge.tolist().index(plan.edge(block.variable.name))
    return {"kind": "factor" if isinstance(block, Factor) else "source", "number": number, **place}


def _reader(plan: Plan, edge: int) -> int:
    """Return the Diverter that reads an edge."""
    return next(
        diverter
        for diverter in range(plan.diverters)
        for leg in plan.legs(diverter)
        if plan.leg_is_input[leg] and plan.leg_edge[leg] == edge
    )


def _lines(node: Node, bottom: float, plan: Plan, number_of: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the lines from a node to those below it, each with its wire and the block at its end.

    A line has two points, or the same and a curve of three more.

    Args:
        node: a block, a wire, or a bend of a wire.
        bottom: of its layer.
        plan: of the network.
        number_of: each block, in the list of blocks, by the id of its node.
    """
    lines = []
    for other in node.below:
        start, end = port(node, other), port(other, node)
        points = [(start, node.top + node.height), (start, bottom)]
        if is_straight(node, other):
            points = [points[0], (start, other.top)]
        else:
            middle = (bottom + other.top) / 2
            points += [(start, middle), (end, middle), (end, other.top)]
        upper, lower = _without_bends(node, up=True), _without_bends(other, up=False)
        wire, block = (upper, lower) if isinstance(upper.item, Variable) else (lower, upper)
        edge = plan.edge(wire.item.name)  # type: ignore[union-attr]
        pixels = [[_pixels(x), _pixels(y)] for x, y in points]
        lines.append({"edge": edge, "block": number_of[id(block)], "points": pixels})
    return lines


def _without_bends(node: Node, up: bool) -> Node:
    """Return the wire or block that a line with bends leads to."""
    while node.item is None:
        node = (node.above if up else node.below)[0]
    return node


def _pixels(inches: float) -> float:
    return round(inches * PIXELS, 1)
