"""Drawing a Bayesian network as a directed graph of cards, or a Markov network as variables and factors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bayes.bayesian import BayesianNetwork
from ..bayes.factored import FactoredModel
from ..core import settings
from ..core.exceptions import FgrnError, Remedy, shortened
from ..core.variable import Variable
from .canvas import NARROWEST_DRAWING, ROW, Canvas, Card, Legend, card_height, evidence_entries, new_canvas
from .drawing import one_row
from .placement import Node, assign_layers, place_nodes, reduce_crossings
from .style import BELIEF, GREY, INK, LINE, PALE, PAPER, cut_to_width, readable, width_of, wrap_to_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..bayes.arc_confidence import ArcConfidence
    from ..flow.messages import Messages

DETAILS = ("auto", "full", "compact", "names")

FULL, COMPACT, MOST = 40, 80, 1000
"""The most variables that are drawn with every state, with a row of bars, and at all."""

SLOPE, SQUARE = 0.16, 0.26
"""The height between layers as a part of the widest shift of an arc, and the side of a factor in inches."""

WIDEST_ARC = 3.0
"""The width of the line of an arc that is found in all samples, in points."""


@dataclass(eq=False)
class FactorNode(Node):
    """A node for a factor of a Markov network."""

    called: str = ""


@dataclass
class GraphSketch:
    """The beliefs and evidence of the variables of a model in one row, and how they are drawn."""

    detail: str
    known: Mapping[str, str]  # the kind of evidence by variable: "hard" or "soft"
    said: Mapping[str, str]  # the observed state by variable
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def compact(self) -> bool:
        """Whether states are drawn as a row of bars."""
        return self.detail == "compact"

    @property
    def size(self) -> float:
        """The size of text, in points."""
        return 7.5 if self.detail == "full" else 6.5

    @property
    def card(self) -> float:
        """The width of a card, in inches."""
        return 1.06 if self.compact else 1.42

    def measure(self, layers: Iterable[Sequence[Node]]) -> None:
        """Set the title, width and height of each node."""
        for layer in layers:
            for node in layer:
                variable = node.item
                if isinstance(node, FactorNode):
                    side = max(SQUARE, width_of(node.called, 6) + 0.1)
                    node.width, node.height = side + 0.1, SQUARE
                elif isinstance(variable, Variable):
                    self._measure_variable(node, variable)
            heads = [len(node.title) for node in layer if isinstance(node.item, Variable)]
            for node in layer:
                if isinstance(node.item, Variable) and self.detail != "names":
                    # bars of neighbouring cards begin at the same height
                    node.title += [""] * (max(heads) - len(node.title))
                    node.height = card_height(node.item, len(node.title), self.compact)

    def _measure_variable(self, node: Node, variable: Variable) -> None:
        if self.detail != "names":
            node.width = self.card + 0.24
            node.title = wrap_to_width(variable.name, self.card - 0.1, self.size, 2, "bold")
            return
        node.title = [cut_to_width(variable.name, 1.1, self.size, "bold")]
        if variable.name in self.said:
            node.title.append(cut_to_width(f"= {self.said[variable.name]}", 1.1, self.size))
        node.width = max(width_of(line, self.size, "bold") for line in node.title) + 0.36
        node.height = len(node.title) * ROW + 0.1

    def draw(self, canvas: Canvas, layers: Iterable[Sequence[Node]]) -> None:
        """Draw all nodes."""
        for node in (node for layer in layers for node in layer):
            if isinstance(node, FactorNode):
                width = node.width - 0.1
                canvas.box(node.x - width / 2, node.top, width, node.height, LINE, edgecolor=GREY)
                canvas.text(node.x, node.top + node.height / 2, node.called, 6)
            elif isinstance(node.item, Variable) and self.detail == "names":
                self._draw_name(canvas, node, node.item)
            elif isinstance(node.item, Variable):
                name = node.item.name
                card = Card(
                    node.item, node.title, self.values[name], self.known.get(name, ""), self.compact, self.size
                )  # fmt: skip
                card.draw(canvas, node.x - self.card / 2, node.top, self.card, node.height)

    def _draw_name(self, canvas: Canvas, node: Node, variable: Variable) -> None:
        kind = self.known.get(variable.name, "")
        fill = {"hard": INK, "soft": GREY}.get(kind, PALE)
        width = node.width - 0.16
        edge = INK if kind else LINE
        canvas.box(node.x - width / 2, node.top, width, node.height, fill, 0.08, edgecolor=edge)
        for number, line in enumerate(node.title):
            y, weight = node.top + 0.05 + (number + 0.5) * ROW, "normal" if number else "bold"
            canvas.text(node.x, y, line, self.size, PAPER if kind else INK, weight=weight)


# Layers, nodes and arcs


def model_layers(model: FactoredModel, shown: Collection[str]) -> list[list[Node]]:
    """Return the nodes of a model in layers from the top."""
    if isinstance(model, BayesianNetwork):
        return _bayesian_layers(model, shown)
    return _factor_layers(model, shown)


def _bayesian_layers(model: BayesianNetwork, shown: Collection[str]) -> list[list[Node]]:
    """Return the nodes of a Bayesian network in layers, every variable below its parents."""
    nodes = {variable.name: Node(variable) for variable in model.variables if variable.name in shown}
    for parent, child in model.arcs:
        if parent in nodes and child in nodes:
            nodes[parent].below.append(nodes[child])
            nodes[child].above.append(nodes[parent])
    return assign_layers(list(nodes.values()), short=True)


def _factor_layers(model: FactoredModel, shown: Collection[str]) -> list[list[Node]]:
    """Return variables and factors in layers, by the number of factors between them and the first variable."""
    nodes = {variable.name: Node(variable) for variable in model.variables if variable.name in shown}
    scopes = [
        (f"f{number}", [nodes[name] for name in factor.scope])
        for number, factor in enumerate(model.to_document().factors)
        if factor.scope and all(name in nodes for name in factor.scope)
    ]
    beside: dict[Node, list[Node]] = {node: [] for node in nodes.values()}
    for _, scope in scopes:
        for node in scope:
            beside[node] += [other for other in scope if other is not node]
    seen: dict[Node, int] = {}
    for first in nodes.values():
        if first not in seen:  # starting at an end of the component gives many narrow layers
            far = _distances(first, beside)
            seen |= _distances(max(far, key=far.__getitem__), beside)
    for node, steps in seen.items():
        node.layer = 2 * steps
    squares = []
    for called, scope in scopes:
        least = min(node.layer for node in scope)
        square = FactorNode(layer=least + 1, called=called)
        square.above = [node for node in scope if node.layer == least]
        square.below = [node for node in scope if node.layer > least]
        for node in square.above:
            node.below.append(square)
        for node in square.below:
            node.above.append(square)
        squares.append(square)
    everything = [*nodes.values(), *squares]
    layers: list[list[Node]] = [[] for _ in range(1 + max(node.layer for node in everything))]
    for node in everything:
        layers[node.layer].append(node)
    return reduce_crossings([layer for layer in layers if layer])


def _distances(start: Node, beside: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
    """Return the number of factors between a node and each node of its component."""
    found, queue = {start: 0}, [start]
    for node in queue:  # the list grows during the loop
        for other in beside[node]:
            if other not in found:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def _ports(node: Node, others: Sequence[Node]) -> dict[Node, float]:
    """Return the x positions at which the arcs to other nodes meet a node, side by side in order."""
    if not isinstance(node.item, Variable) or len(others) < 2:
        return dict.fromkeys(others, node.x)
    step = min(0.2, 0.6 * (node.width - 0.24) / (len(others) - 1))
    middle = (len(others) - 1) / 2
    return {other: node.x + (at - middle) * step for at, other in enumerate(sorted(others, key=lambda one: one.x))}


def draw_arcs(
    canvas: Canvas, layers: Sequence[Sequence[Node]], directed: bool, strength: ArcConfidence | None = None
) -> None:
    """Draw the arcs from every node to those below it, through their bends; with arrows if `directed`.

    With a strength, the line of an arc is the wider the stronger it is.
    """
    bottoms = [max(node.top + node.height for node in layer) for layer in layers]
    leaving = {node: _ports(node, node.below) for layer in layers for node in layer}
    entering = {node: _ports(node, node.above) for layer in layers for node in layer}
    for number, layer in enumerate(layers):
        for node in layer:
            if _is_bend(node):
                continue
            for other in node.below:
                at, last, x = number, node, leaving[node][other]
                points = [(x, node.top + node.height), (x, bottoms[at])]
                while True:
                    to = entering[other][last]
                    end = other.top - (0.06 if directed and not _is_bend(other) else 0)
                    middle = (points[-1][1] + end) / 2
                    points += [(x, middle), (to, middle), (to, end)]
                    if not _is_bend(other):
                        break
                    at, x, last, other = at + 1, to, other, other.below[0]
                    points.append((x, bottoms[at]))
                width = 0.9
                if strength is not None and isinstance(node.item, Variable) and isinstance(other.item, Variable):
                    width = WIDEST_ARC * max(0.1, strength.strength(node.item.name, other.item.name))
                canvas.arc(points, f"arc {_display_name(node)} -> {_display_name(other)}", width)
                if directed:
                    canvas.arrow(to, other.top)


def _is_bend(node: Node) -> bool:
    return node.item is None and not isinstance(node, FactorNode)


def _display_name(node: Node) -> str:
    if isinstance(node, FactorNode):
        return node.called
    return readable(node.item.name) if isinstance(node.item, Variable) else ""


# The drawing


def draw_model_graph(
    model: Any,
    evidence: Any,
    row: int,
    detail: str,
    variables: Collection[str] | None,
    method: str,
    strength: ArcConfidence | None,
    ax: Axes | None,
) -> Figure:
    """Draw the graph of a model with the beliefs given one row of evidence."""
    if not isinstance(model, FactoredModel):
        what = type(model).__name__
        raise FgrnError(
            f"plots.graph draws a BayesianNetwork or a MarkovNetwork. Got {what}; plots.network draws a Network."
        )
    settings.whole("row", row, 0)
    settings.choice("detail", detail, DETAILS)
    shown = model.names if variables is None else settings.variable_names("variables", variables)
    for name in shown:
        model.variable(name)
    if len(shown) > MOST or not shown:
        some = shortened(model.names, 3)
        raise FgrnError(
            f"A picture has 1 to {MOST:,} variables and the arcs between them; {len(shown):,} could not be read.",
            remedies=Remedy(f"choose some ({some})", "variables=[...]", variables=...),
        )
    columns, kinds, at = one_row(model, evidence, row)
    if detail == "auto":
        detail = "full" if len(shown) <= FULL else "compact" if len(shown) <= COMPACT else "names"
    kinds = {name: kind for name, kind in kinds.items() if name in shown}
    said = {
        name: _observed_state(model.variable(name), columns[name]) for name, kind in kinds.items() if kind == "hard"
    }
    sketch = GraphSketch(detail, kinds, said)
    seen = None
    if detail != "names":
        seen = model.propagate(columns, keep=shown, method=method)
        sketch.values = {name: seen.marginal(name)[at] for name in shown}
    directed = isinstance(model, BayesianNetwork)
    layers = model_layers(model, set(shown))
    sketch.measure(layers)
    wide, height = place_nodes(layers, NARROWEST_DRAWING, SLOPE, columns=False)
    key = [(BELIEF, "belief")] if seen else []
    key += [] if directed else [(LINE, "factor")]
    legend = Legend(
        key + evidence_entries(kinds.values()), _graph_notes(model, shown, seen, at, bool(kinds), method), wide
    )
    figure, canvas = new_canvas(ax, wide, height + legend.height)
    draw_arcs(canvas, layers, directed, strength)
    sketch.draw(canvas, layers)
    legend.draw(canvas, height)
    return figure


def _observed_state(variable: Variable, column: Any) -> str:
    value = column.codes[0] if hasattr(column, "codes") else column if np.ndim(column) == 0 else column[0]
    return readable(variable.labels[variable.code(value)])


def _graph_notes(
    model: FactoredModel, shown: Collection[str], seen: Messages | None, at: int, known: bool, method: str
) -> list[str]:
    notes = []
    if seen and known and isinstance(model, BayesianNetwork):
        logarithm = float(seen.log_likelihood[at])
        number = f"{logarithm:.4g}".replace("-", "−")
        about = ", an estimate" if method == "loopy" else ""
        notes.append(f"Probability of the evidence: {np.exp(logarithm):.4g} (logarithm {number}{about}).")
    if seen and seen.rounds is not None:
        rest = "" if seen.converged.all() else " and did not converge"
        notes.append(f"Messages went round the loops {seen.rounds} times{rest}: beliefs are approximations.")
    left = len(model.variables) - len(shown)
    if left:
        notes.append(f"{left:,} of {len(model.variables):,} variables are not drawn; evidence on them is still used.")
    return notes
