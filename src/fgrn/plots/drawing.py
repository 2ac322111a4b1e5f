"""Drawing a network as a factor graph, with the messages on every wire and the marginals of variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError
from ..core.printing import without_common_prefix
from ..core.variable import Variable
from ..graph.blocks import Block, Diverter, Factor, Source
from ..graph.chain import Chain
from ..tables import frames
from ..tables.missing import is_missing_value
from .canvas import NARROWEST_DRAWING, ROW, Canvas, Card, Legend, card_height, evidence_entries, new_canvas
from .folding import Widths, network_layers
from .placement import GAP, Node, blocks_to_draw, is_straight, place_nodes, port, wire_of
from .style import (
    BACKWARD_COLOR,
    BELIEF,
    FORWARD_COLOR,
    GREY,
    INK,
    LINE,
    PALE,
    PAPER,
    cut_to_width,
    readable,
    width_of,
    wrap_to_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..bayes.factored import FactoredModel
    from ..flow.messages import Messages
    from ..graph.network import Network

FAINT = 0.3
"""The opacity of a uniform message."""

MOST_FULL_CARDS = 12
"""The most observed variables that are drawn with a label for each state; more are drawn smaller."""

WIDE = 9.2
"""The width of a drawing, in inches, if possible, at which notebooks and pages show it unscaled."""

GLYPH, BAR = 0.30, 0.16
"""The heights of a message and of the bar of a Diverter, in inches."""

BESIDE, POINTER = 0.06, 8
"""The gap between a wire, its message and the message's arrow, in inches; the size of that arrow, in points."""


def faint(color: str) -> str:
    """Return the colour of a uniform message on white."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (FAINT * part + 1 - FAINT for part in to_rgb(color))
    return to_hex((red, green, blue))


def is_uniform(message: np.ndarray) -> bool:
    """Return whether a message is uniform."""
    return float(np.ptp(message)) < 1e-9


# The network


@dataclass
class NetworkSketch:
    """The messages and evidence on the wires of a network in one row, and how they are drawn."""

    driver: Mapping[str, Block]
    reader: Mapping[str, Block]
    gone: set[str]
    known: Mapping[str, str]  # the kind of evidence by variable: "hard" or "soft"
    called: dict[str, str]  # the displayed name of each variable
    values: Mapping[tuple[str, str], np.ndarray]  # by ("forward", "backward" or "marginal", variable)
    messages: bool
    compact: bool

    @property
    def card(self) -> float:
        """The width of a card, in inches."""
        return 0.86 if self.compact else 1.42

    @property
    def size(self) -> float:
        """The size of text, in points."""
        return 7.0 if self.compact else 7.5

    @property
    def glyph(self) -> float:
        """The width of a message, in inches."""
        return 0.25 if self.compact else 0.38

    @property
    def widths(self) -> Widths:
        """The widths of the page, of a column and of a link, for folding."""
        return Widths(WIDE, self.card + 0.12, self._link if self.messages else 0.7)

    @property
    def _link(self) -> float:
        """The width of a wire with its messages and their arrows, and the gap to the next wire."""
        return max(self.card * 0.9, 2 * (self.glyph + 2 * BESIDE) + width_of("↓↑", POINTER))

    def choose_names(self, names: Sequence[str]) -> None:
        """Set the displayed names of variables: names that would look alike lose their common prefix."""
        narrowest = self.card - 0.24 - width_of("P( |", self.size)
        texts = [readable(name) for name in names]
        apart = without_common_prefix(texts, lambda text: cut_to_width(text, narrowest, self.size))
        self.called = dict(zip(names, apart, strict=True))

    def measure(self, layers: list[list[Node]]) -> None:
        """Set the title, width and height of each node."""
        for layer in layers:
            for node in layer:
                if isinstance(node.item, Variable):
                    self._measure_wire(node, node.item)
                elif node.item is not None:
                    self._measure_box(node, node.item)
            lines = max(len(node.title) for node in layer)
            for node in layer:
                if isinstance(node.item, Variable) and self.has_card(node.item):
                    # bars of neighbouring cards begin at the same height
                    node.title += [""] * (lines - len(node.title))
                    node.height += card_height(node.item, lines, self.compact)

    def has_card(self, variable: Variable) -> bool:
        """Return whether a variable has a card: copies made by a Diverter share one belief, shown once."""
        driver, reader = self.driver.get(variable.name), self.reader.get(variable.name)
        copy = isinstance(driver, Diverter) and reader is not None
        joint = isinstance(driver, Diverter) and len(driver.outputs) == 1 < len(driver.inputs)
        return not copy or joint or variable.name in self.known

    def _measure_wire(self, node: Node, variable: Variable) -> None:
        node.width, node.height = self.widths.link, GLYPH + 0.15 if self.messages else 0.16
        if self.has_card(variable):
            node.width = self.card + 0.12
            node.title = wrap_to_width(
                self.called[variable.name], self.card - 0.1, self.size, 3 if self.compact else 2, "bold"
            )
        elif not self.compact:
            node.height += ROW

    def _measure_box(self, node: Node, block: Block) -> None:
        if isinstance(block, Diverter):
            more = any(variable.name in self.gone for variable in block.outputs)
            extra = 0 if node.follows else 0.26 if len(block.inputs) > 1 else ROW if more else 0
            node.width, node.height = 0.5, BAR + extra
            if len(block.inputs) > 1 and node.above:
                node.slot = BESIDE + max(_table_width(variable, block) for variable in block.inputs)
                node.width = max(node.width, len(node.above) * node.slot + 2 * GAP)
                for other in node.above:
                    other.width = max(other.width, node.slot)
            return
        width, size = self.card - 0.24, self.size
        notes = [] if block.learn else ["fixed"]
        if isinstance(block, Source):
            notes.insert(0, f"{block.variable.cardinality} state{'s' * (block.variable.cardinality > 1)}")
            node.title = [f"P({cut_to_width(self.called[block.variable.name], width - width_of('P()', size), size)})"]
        elif isinstance(block, Factor):
            notes.insert(0, f"{block.shape[0]} × {block.shape[1]}")
            node.title = [cut_to_width(self.called[block.variable.name], width, size)]
        else:
            notes.insert(0, f"{block.input.cardinality} × {block.output.cardinality}")
            notes += ["tied"] if block.tie else []
            names = self.called[block.output.name], ", ".join(self.called[name] for name in self._meaning(block.input))
            node.title = [f"P({readable(names[0])} | {readable(names[1])})"]
            if width_of(node.title[0], size) > width:
                output, given = (cut_to_width(name, width - width_of("P( |", size), size) for name in names)
                node.title = [f"P({output} |", f"{given})"]
        node.title.append(", ".join(notes))
        node.width = max(width_of(line, size) for line in node.title) + 0.2
        node.height = len(node.title) * ROW + 0.1

    def _meaning(self, variable: Variable, depth: int = 0) -> list[str]:
        """Return the names of the variables that a copy is a copy of."""
        driver = self.driver.get(variable.name)
        if isinstance(driver, Diverter) and depth < 8:
            return [name for one in driver.inputs for name in self._meaning(one, depth + 1)]
        return [variable.name]

    def draw(self, canvas: Canvas, layers: list[list[Node]]) -> None:
        """Draw all nodes and the lines between them."""
        for layer in layers:
            bottom = max(node.top + node.height for node in layer)
            for node in layer:
                if isinstance(node.item, Variable):
                    self._draw_wire(canvas, node, node.item)
                elif isinstance(node.item, Diverter):
                    self._draw_diverter(canvas, node, node.item)
                elif node.item is not None:
                    self._draw_box(canvas, node, node.item)
                for other in node.below:
                    self._join(canvas, node, other, bottom)

    def _join(self, canvas: Canvas, node: Node, other: Node, bottom: float) -> None:
        start, end = port(node, other), port(other, node)
        canvas.line([(start, node.top + node.height), (start, bottom)])
        bar = isinstance(other.item, Diverter) and len(other.item.inputs) == 1
        entry = other.top + other.height - BAR if bar else other.top
        if is_straight(node, other):
            canvas.line([(start, bottom), (start, entry)])
        else:
            middle = (bottom + other.top) / 2
            canvas.line([(start, bottom), (start, middle), (end, middle), (end, other.top)])
            canvas.line([(end, other.top), (end, entry)])
        if isinstance(other.item, Block) and not node.rising:
            canvas.arrow(end, entry)
        elif isinstance(node.item, Block) and other.rising:
            canvas.arrow(start, node.top + node.height, rising=True)

    def _draw_box(self, canvas: Canvas, node: Node, block: Block) -> None:
        width = max(width_of(line, self.size) for line in node.title) + 0.2
        round = 0.1 if isinstance(block, Source) else 0
        canvas.box(node.x - width / 2, node.top, width, node.height, PALE, round, edgecolor=GREY)
        for number, line in enumerate(node.title, start=1):
            last = number == len(node.title)
            canvas.text(node.x, node.top + 0.05 + (number - 0.5) * ROW, line, self.size - last, GREY if last else INK)

    def _draw_diverter(self, canvas: Canvas, node: Node, block: Diverter) -> None:
        top = node.top + node.height - BAR
        canvas.box(node.left, top, node.right - node.left, BAR, INK, edgecolor=INK)
        if node.follows:
            start = node.follows.top + node.follows.height - BAR
            canvas.box(node.left, start, BAR, top + BAR - start, INK, edgecolor=INK)
        else:
            canvas.text(node.x, top + BAR / 2, "=", 9, PAPER, weight="bold")
        inputs = [other for other in node.above if wire_of(other) in block.inputs] if len(block.inputs) > 1 else []
        for other in inputs:  # each has a fixed table into the product space
            x, width = port(node, other), _table_width(wire_of(other), block)
            canvas.box(x - width / 2, node.top, width, 0.19, LINE, edgecolor=GREY)
            canvas.text(x, node.top + 0.095, _table_label(wire_of(other), block), 6)
            canvas.line([(x, node.top + 0.19), (x, top)])
        more = sum(variable.name in self.gone for variable in block.outputs)
        if more and not node.follows:
            canvas.text(node.right, top - 0.08, f"{more:,} more …", 7, GREY, ha="right")

    def _draw_wire(self, canvas: Canvas, node: Node, variable: Variable) -> None:
        name, x, y = variable.name, node.x, node.top
        has_card = self.has_card(variable)
        if not has_card and not self.compact:
            label = cut_to_width(self.called[name], node.width - 0.1, 6)
            canvas.text(x, y + ROW / 2, label, 6, GREY)
            y += ROW
        canvas.line([(x, y), (x, node.top + node.height)])
        if self.messages:
            width = self.glyph
            for way, color, side in (("forward", FORWARD_COLOR, -1), ("backward", BACKWARD_COLOR, 1)):
                values = self.values[way, name]
                left = x - BESIDE - width if side < 0 else x + BESIDE
                canvas.histogram(
                    values, left, y + 0.04, width, GLYPH,
                    color=color, name=f"{way} {readable(name)}", alpha=FAINT if is_uniform(values) else 1,
                )  # fmt: skip
                pointer = "↓" if (side < 0) != node.rising else "↑"
                canvas.text(x + side * (width + 2 * BESIDE), y + 0.2, pointer, POINTER, color)
        y += GLYPH + 0.15 if self.messages else 0.16
        if has_card:
            kind, values = self.known.get(name, ""), self.values["marginal", name]
            card = Card(variable, node.title, values, kind, self.compact, self.size)
            card.draw(canvas, x - self.card / 2, y, self.card, node.top + node.height - y)
        if name not in self.reader and not node.rising:
            canvas.arrow(x, y)


def _table_label(variable: Variable, block: Diverter) -> str:
    """Return the label of the fixed table from an input of a Diverter into its product space."""
    return f"{variable.cardinality} → {block.size}"


def _table_width(variable: Variable, block: Diverter) -> float:
    return width_of(_table_label(variable, block), 6) + 0.14


def draw_network(
    net: Network, evidence: Any, row: int, messages: bool, most: int, always: Collection[str], ax: Axes | None
) -> Figure:
    """Draw a network with the beliefs given one row of evidence."""
    settings.whole("row", row, 0)
    settings.whole("most", most, 1)
    columns, kinds, at = one_row(net, evidence, row)
    first = [net.variable(name).name for name in settings.variable_names("always", always)]
    blocks, gone = blocks_to_draw(net, most, [*first, *kinds])
    names = [variable.name for variable in net.variables if variable.name not in gone]
    seen = net.propagate(columns, keep=names)
    ways = {"forward": seen.forward, "backward": seen.backward, "marginal": seen.marginal}
    values = {(way, name): ask(name)[at] for way, ask in ways.items() for name in names}
    sketch = NetworkSketch(
        driver={variable.name: block for block in net.blocks for variable in block.drives},
        reader={variable.name: block for block in net.blocks for variable in block.reads},
        gone=gone, known=kinds, called={}, values=values, messages=messages and evidence is not None,
        compact=len(set(names).intersection(net.observed)) > MOST_FULL_CARDS,
    )  # fmt: skip
    layers = network_layers(blocks, gone, sketch.widths)
    if (
        any(node.line for layer in layers for node in layer) and not sketch.compact
    ):  # smaller cards give more steps in a line
        sketch.compact = True
        layers = network_layers(blocks, gone, sketch.widths)
    sketch.choose_names([variable.name for variable in net.variables])
    sketch.measure(layers)
    wide, height = place_nodes(layers, NARROWEST_DRAWING)
    legend = Legend(_legend_entries(sketch), _network_notes(net, gone, row, seen, at, evidence is not None), wide)
    figure, canvas = new_canvas(ax, wide, height + legend.height)
    sketch.draw(canvas, layers)
    legend.draw(canvas, height)
    return figure


def one_row(net: Network | FactoredModel, evidence: frames.Data, row: int) -> tuple[Any, dict[str, str], int]:
    """Return the evidence to propagate, its kind by variable, and the number of the row in it.

    It has one row, except for a chain, whose rows depend on each other.
    """
    columns = frames.columns(evidence)
    rows = frames.row_count(columns) if columns else frames.rows_without_columns(evidence)
    if row >= rows:
        raise FgrnError(f"There is no row {row} in this evidence: it has {rows:,}, counted from 0.")
    here, variables = np.array([row]), {variable.name for variable in net.variables}
    kinds = {}
    for name, column in columns.items():
        value = frames.select_rows(column, here)
        if isinstance(value, frames.Coded):
            known, soft = bool(value.codes[0] >= 0), False
        else:
            value = value if frames.is_bare(value) else value[0]
            soft = frames.is_distribution(value)
            weights = soft and not isinstance(value, frames.Not)
            known = not all(map(is_missing_value, value)) if weights else not is_missing_value(value)
        if known and name in variables:
            kinds[name] = "soft" if soft else "hard"
    if isinstance(net, Chain) or not columns:
        return evidence, kinds, row
    return {name: frames.select_rows(column, here) for name, column in columns.items()}, kinds, 0


def _network_notes(net: Network, gone: set[str], row: int, seen: Messages, at: int, with_evidence: bool) -> list[str]:
    notes = []
    if with_evidence:
        likelihood = float(seen.log_likelihood[at])
        about = "" if net.is_tree else " (an estimate)"
        number = f"{likelihood:.4g}".replace("-", "−")
        notes.append(f"Row {row:,}: log-likelihood {number}{about}.")
    if not net.is_tree:
        notes.append("This network has loops: the beliefs are approximations.")
    if isinstance(net, Chain):
        onward, start = map(readable, net.link)
        notes.append(f"A chain: {onward} is {start} of the next row.")
    rest = len(gone.intersection(net.observed))
    if rest > 0:
        count = "observed variable is" if rest == 1 else "observed variables are"
        notes.append(f"{rest:,} of {len(net.observed):,} {count} not drawn; evidence on them is still used.")
    return notes


def _legend_entries(sketch: NetworkSketch) -> list[tuple[str, str]]:
    """Return the colours of the drawing and their meaning."""
    entries = [(BELIEF, "belief")]
    if sketch.messages:
        entries += [(FORWARD_COLOR, "forward message"), (BACKWARD_COLOR, "backward message")]
        for way, color in (("forward", FORWARD_COLOR), ("backward", BACKWARD_COLOR)):
            if any(is_uniform(message) for (kind, _), message in sketch.values.items() if kind == way):
                entries.append((faint(color), f"uniform {way} message"))
    return entries + evidence_entries(kind for name, kind in sketch.known.items() if name not in sketch.gone)
