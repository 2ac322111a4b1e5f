"""The positions of cards (variables) and arcs on a page: the layers of `plots.placement`, in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, sqrt
from typing import Any

from ..bayes.factored import FactoredModel
from ..core.labels import Label
from ..core.variable import Variable
from ..graph.blocks import SISO, Diverter
from ..graph.network import Network
from ..plots.arcs import SLOPE, FactorNode, draw_arcs, model_layers
from ..plots.canvas import Canvas
from ..plots.placement import Node, assign_layers, place_nodes

PIXELS = 100.0
"""Of an inch."""

CARD = {"width": 184, "head": 30, "row": 20, "foot": 8, "most": 8}
"""The size of a card in pixels: its width, heading, line per state, foot; and the most states that are listed."""

APART = 0.34
"""Between cards side by side, in inches."""

WIDEST = 8
"""Cards side by side in any case; in a larger network up to `1.7 * sqrt(cards)`, and more are put in several rows."""


class Recorder(Canvas):
    """Records the arcs that are drawn, as lists of points."""

    arcs: list[list[tuple[float, float]]]

    def __init__(self) -> None:
        self.arcs = []

    def arc(self, points: Sequence[tuple[float, float]], name: str, width: float = 0.9) -> None:
        """Record an arc."""
        self.arcs.append(list(points))

    def arrow(self, x: float, y: float, rising: bool = False) -> None:
        """Do nothing: the page draws the ends of arcs itself."""


def card_pixels(states: int) -> float:
    """Return the height of the card of a variable, in pixels."""
    shown = min(states, CARD["most"])
    more = 1 if states > shown else 0
    return float(CARD["head"] + (shown + more) * CARD["row"] + CARD["foot"])


def states_as_json(variable: Variable) -> int | list[Label]:
    """Return the labels of a variable as JSON values, or their number; numbers stay numbers."""
    if not variable.is_labelled:
        return variable.cardinality
    return [str(label) if isinstance(label, float) and not isfinite(label) else label for label in variable.labels]


def graph_view(model: FactoredModel | Network, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the model as a graph of cards: their positions, the arcs between them, and the total size, in pixels.

    Args:
        model: a model of tables, or a Network.
        numbers: of each variable that has a card, the edge of the Plan.
    """
    found = model_layers(model, set(numbers)) if isinstance(model, FactoredModel) else _network_layers(model, numbers)
    layers = _folded(found)
    for node in (node for layer in layers for node in layer):
        if isinstance(node.item, Variable):
            node.width = CARD["width"] / PIXELS + APART
            node.height = card_pixels(node.item.cardinality) / PIXELS
        elif isinstance(node, FactorNode):
            node.width, node.height = 0.36, 0.26
    width, height = place_nodes(layers, 0.0, SLOPE, columns=False)
    canvas = Recorder()
    draw_arcs(canvas, layers, directed=False)
    nodes = [node for layer in layers for node in layer if _is_shown(node)]
    place_of = {id(node): number for number, node in enumerate(nodes)}
    ends = [(place_of[id(node)], place_of[id(_end(other))]) for node in nodes for other in node.below]
    arcs = [
        {"ends": pair, "points": [[round(x * PIXELS, 1), round(y * PIXELS, 1)] for x, y in points]}
        for pair, points in zip(ends, canvas.arcs, strict=True)
    ]
    cards = [_card(node, numbers) for node in nodes]
    return {"width": round(width * PIXELS), "height": round(height * PIXELS), "cards": cards, "arcs": arcs}


def _card(node: Node, numbers: Mapping[str, int]) -> dict[str, Any]:
    card: dict[str, Any] = {"x": round(node.x * PIXELS, 1), "y": round(node.top * PIXELS, 1)}
    if isinstance(node.item, Variable):
        return {"edge": numbers[node.item.name], **card, "height": round(node.height * PIXELS)}
    return {"edge": -1, "factor": node.called if isinstance(node, FactorNode) else "", **card}


def _is_shown(node: Node) -> bool:
    return node.item is not None or isinstance(node, FactorNode)


def _end(node: Node) -> Node:
    """Return the point at which an arc through bends ends."""
    while not _is_shown(node):
        node = node.below[0]
    return node


def _folded(layers: list[list[Node]]) -> list[list[Node]]:
    """Return the layers, with long ones split into several rows; arcs are then straight lines without bends."""
    count = sum(_is_shown(node) for layer in layers for node in layer)
    if max(sum(map(_is_shown, layer)) for layer in layers) <= max(WIDEST, 1.7 * sqrt(count)):
        return layers
    for node in (node for layer in layers for node in layer if _is_shown(node)):
        node.below = [_end(other) for other in node.below]
    rows: list[list[Node]] = []
    most = max(WIDEST // 2, ceil(1.4 * sqrt(count)))
    for layer in layers:
        shown = [node for node in layer if _is_shown(node)]
        parts = ceil(len(shown) / most)
        size = ceil(len(shown) / max(parts, 1))
        rows += [shown[first : first + size] for first in range(0, len(shown), max(size, 1))]
    for row in rows:
        for node in row:
            node.above = []
    for row in rows:
        for node in row:
            for other in node.below:
                other.above.append(node)
    return rows


# A Network as a graph of variables


def shown_variables(net: Network) -> list[Variable]:
    """Return the variables of a network that have a card: all except copies made by Diverters."""
    driver, read = _driver_by_name(net), {variable.name for block in net.blocks for variable in block.reads}
    return [
        variable
        for variable in net.variables
        if not (isinstance(driver.get(variable.name), Diverter) and variable.name in read)
    ]


def network_arcs(net: Network) -> list[tuple[str, str]]:
    """Return the arcs between variables with a card: from the inputs of SISO blocks and Diverters to their outputs."""
    driver, shown = _driver_by_name(net), [variable.name for variable in shown_variables(net)]
    arcs = []
    for name in shown:
        block = driver.get(name)
        if isinstance(block, (SISO, Diverter)):
            arcs += [(origin, name) for read in block.reads for origin in _origins(read.name, driver, set(shown))]
    return list(dict.fromkeys(arcs))


def _driver_by_name(net: Network) -> dict[str, Any]:
    return {variable.name: block for block in net.blocks for variable in block.drives}


def _origins(name: str, driver: Mapping[str, Any], shown: set[str]) -> list[str]:
    """Return the variables with a card of which a variable is a copy."""
    if name in shown:
        return [name]
    return [origin for read in driver[name].reads for origin in _origins(read.name, driver, shown)]


def _network_layers(net: Network, numbers: Mapping[str, int]) -> list[list[Node]]:
    nodes = {variable.name: Node(variable) for variable in net.variables if variable.name in numbers}
    for parent, child in network_arcs(net):
        nodes[parent].below.append(nodes[child])
        nodes[child].above.append(nodes[parent])
    return assign_layers(list(nodes.values()), short=True)
