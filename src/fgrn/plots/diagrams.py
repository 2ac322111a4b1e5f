"""Drawing an influence diagram: chance variables as rounded boxes, decisions as rectangles, utilities as diamonds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..bayes.influence import InfluenceDiagram
from ..core.variable import Variable
from .arcs import SLOPE, FactorNode, GraphSketch, draw_arcs
from .canvas import NARROWEST_DRAWING, Canvas, Legend, new_canvas
from .placement import Node, assign_layers, place_nodes
from .style import BELIEF, GREY, INK, LINE, PALE, cut_to_width, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIAMOND = 0.46
"""The height of a diamond, in inches."""


@dataclass
class DiagramSketch(GraphSketch):
    """The nodes of an influence diagram by their names."""

    decisions: Sequence[str] = ()

    def measure(self, layers: Iterable[Sequence[Node]]) -> None:
        """Set the title, width and height of each node."""
        for node in (node for layer in layers for node in layer):
            if isinstance(node, FactorNode):
                node.title = [cut_to_width(node.called, 1.1, self.size)]
                node.width, node.height = 1.6 * width_of(node.title[0], self.size) + 0.5, DIAMOND
            elif isinstance(node.item, Variable):
                self._measure_variable(node, node.item)

    def draw(self, canvas: Canvas, layers: Iterable[Sequence[Node]]) -> None:
        """Draw all nodes."""
        from matplotlib.patches import Polygon

        for node in (node for layer in layers for node in layer):
            left, width, middle = node.x - node.width / 2 + 0.08, node.width - 0.16, node.top + node.height / 2
            if isinstance(node, FactorNode):
                corners = [(node.x, node.top), (left + width, middle), (node.x, node.top + node.height), (left, middle)]
                canvas.ax.add_artist(Polygon(corners, facecolor=LINE, edgecolor=INK, linewidth=0.8, zorder=2))
                canvas.text(node.x, middle, node.title[0], self.size)
            elif isinstance(node.item, Variable) and node.item.name in self.decisions:
                canvas.box(left, node.top, width, node.height, BELIEF, edgecolor=INK)
                canvas.text(node.x, middle, node.title[0], self.size, weight="bold")
            elif isinstance(node.item, Variable):
                canvas.box(left, node.top, width, node.height, PALE, 0.12, edgecolor=GREY)
                canvas.text(node.x, middle, node.title[0], self.size)


def draw_influence_diagram(diagram: InfluenceDiagram, ax: Axes | None) -> Figure:
    """Draw the graph of an influence diagram; arrows to a decision come from the variables known before it."""
    nodes: dict[str, Node] = {variable.name: Node(variable) for variable in diagram.variables}
    nodes |= {name: FactorNode(called=name) for name in diagram.utilities}
    pairs = [*diagram.network.arcs]
    pairs += [(one, name) for name, seen in diagram.to_document().decisions.items() for one in seen]
    pairs += [(one, name) for name, utility in diagram.utilities.items() for one in utility.scope]
    for parent, child in pairs:
        nodes[parent].below.append(nodes[child])
        nodes[child].above.append(nodes[parent])
    layers = assign_layers(list(nodes.values()), short=True)
    sketch = DiagramSketch("names", {}, {}, decisions=diagram.decisions)
    sketch.measure(layers)
    wide, height = place_nodes(layers, NARROWEST_DRAWING, SLOPE, columns=False)
    legend = Legend([(PALE, "chance"), (BELIEF, "decision"), (LINE, "utility")], [], wide)
    figure, canvas = new_canvas(ax, wide, height + legend.height)
    draw_arcs(canvas, layers, True)
    sketch.draw(canvas, layers)
    legend.draw(canvas, height)
    return figure
