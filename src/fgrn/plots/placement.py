"""Where the blocks and wires of a network are drawn: in layers from the top, in inches.

Blocks and wires are nodes of one layered graph; a wire that passes a layer has a bend there. What is too wide is folded
(`folding`): the bar of a Diverter goes on below. How large a node is says who draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..core.variable import Variable
from ..graph.blocks import Block, Diverter

if TYPE_CHECKING:
    from ..graph.network import Network

GAP, SLANT = 0.13, 0.34
"""Between layers, in inches, where all wires are straight, and where some are not."""

STRAIGHT, STEEPEST = 0.01, 1.0
"""Wires that go aside by less than the first are straight; between layers there are at most so many inches."""

ASIDE = 0.22
"""How far from the middle of a block two wires that both hang on it begin, in inches."""


@dataclass(eq=False)
class Node:
    """A block, a wire, or a bend of a wire that passes a layer."""

    item: Block | Variable | None = None
    above: list[Node] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)
    layer: int = 0
    width: float = 0.12
    height: float = 0.0
    x: float = 0.0
    top: float = 0.0
    left: float = 0.0  # the ends of a bar
    right: float = 0.0
    slot: float = 0.1  # how much of a bar each wire from above takes
    follows: Node | None = None  # the bar that this one goes on with
    drop: int = 0  # so many layers below that bar
    least: int = 0  # in no layer above this one
    line: int = 0  # of the lines that a sequence runs in, the one that begins with this node
    rising: bool = False  # a wire whose driver is below its reader, which happens in a circle of blocks
    title: list[str] = field(default_factory=list)  # what is written in a box, or over the belief on a wire

    def turn_round(self) -> None:
        """Let a wire lead up, from its driver to a reader that is above it."""
        self.rising = True
        for box in self.above:
            box.below.remove(self)
            box.above.append(self)
        for box in self.below:
            box.above.remove(self)
            box.below.insert(0, self)
        self.above, self.below = self.below, self.above


def shown_blocks(net: Network, most: int, first: Iterable[str] = ()) -> tuple[list[Block], set[str]]:
    """The blocks that lead to some observed variables, and the names of the variables that are left out.

    Those named come first, then the others in their order.
    """
    driver = {variable.name: block for block in net.blocks for variable in block.drives}
    observed = set(net.observed)
    order = list(dict.fromkeys([*(name for name in first if name in observed), *net.observed]))
    gone, dropped = set(order[most:]), set()
    queue = list(gone)
    while queue:
        block = driver.get(queue.pop())
        if block is not None and all(variable.name in gone for variable in block.drives):
            dropped.add(id(block))
            new = {variable.name for variable in block.reads} - gone
            gone |= new
            queue += new
    return [block for block in net.blocks if id(block) not in dropped], gone


def wired(blocks: Iterable[Block], gone: set[str]) -> list[Node]:
    """The nodes of blocks and wires, which know what is above and below them."""
    wires: dict[str, Node] = {}
    nodes: list[Node] = []
    for block in blocks:
        box = Node(block)
        nodes.append(box)
        for variable in (*block.reads, *block.drives):
            if variable.name not in gone and variable.name not in wires:
                wires[variable.name] = Node(variable, layer=1)
                nodes.append(wires[variable.name])
        box.above += [wires[variable.name] for variable in block.reads]
        box.below += [wires[variable.name] for variable in block.drives if variable.name in wires]
        for wire in box.above:
            wire.below.append(box)
        for wire in box.below:
            wire.above.append(box)
    return nodes


def stacked(nodes: Sequence[Node], short: bool = False) -> list[list[Node]]:
    """Nodes that know what is above and below them, in layers and in an order that few wires cross.

    Each is as low as those below it allow; to keep wires `short`, only if there are not more of them above.
    """
    order = causes_first(nodes)
    for node in order:
        node.layer = max(node.layer, node.least)
        if node.follows:
            node.layer = node.follows.layer + node.drop
        for other in node.below:
            other.layer = max(other.layer, node.layer + 1)
    for node in reversed(order):
        if node.below and (not short or len(node.below) >= len(node.above)):
            node.layer = min(other.layer for other in node.below) - 1
    _add_bends(order)
    layers: list[list[Node]] = [[] for _ in range(1 + max(node.layer for node in order))]
    for node in order:
        layers[node.layer].append(node)
    return uncrossed([layer for layer in layers if layer])


def causes_first(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in an order in which wires lead down, those that close a circle turned round."""
    order, closing = _visited(nodes)
    if not closing:
        return order
    for wire in closing:
        wire.turn_round()
    return _visited(nodes)[0]


def _visited(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes, each after those above it, and the wires that lead back to one that was begun with."""
    done: dict[Node, bool] = {}  # False while the nodes below are being visited
    order: list[Node] = []
    closing: dict[Node, None] = {}
    for start in [*(node for node in reversed(nodes) if not node.above), *reversed(nodes)]:
        stack = [] if start in done else [(start, iter(start.below[::-1]))]
        done.setdefault(start, False)
        while stack:
            node, following = stack[-1]
            other = next(following, None)
            if other is None:
                done[node] = True
                order.append(stack.pop()[0])
            elif other not in done:
                done[other] = False
                stack.append((other, iter(other.below[::-1])))
            elif not done[other]:
                closing[node if isinstance(node.item, Variable) else other] = None
    return order[::-1], list(closing)


def _add_bends(order: list[Node]) -> None:
    """A wire that passes layers has a node in each."""
    for node in list(order):
        for position, other in enumerate(list(node.below)):
            last = node
            for layer in range(node.layer + 1, other.layer):
                bend = Node(above=[last], layer=layer, rising=node.rising or other.rising)
                if last is node:
                    node.below[position] = bend
                else:
                    last.below.append(bend)
                order.append(bend)
                last = bend
            if last is not node:
                last.below.append(other)
                other.above[other.above.index(node)] = last


def uncrossed(layers: list[list[Node]]) -> list[list[Node]]:
    """Each layer sorted by the mean place of the neighbours, down and up, while fewer wires cross."""
    best, least = layers, _crossings(layers)
    for sweep in range(12):
        if not least:
            break
        layers = [list(layer) for layer in layers]
        place = {node: float(at) for layer in layers for at, node in enumerate(layer)}
        for layer in layers if sweep % 2 else layers[::-1]:
            near = {node: node.above if sweep % 2 else node.below for node in layer}
            wanted = {n: np.mean([place[o] for o in near[n]]) if near[n] else place[n] for n in layer}
            layer.sort(key=wanted.__getitem__)
            place.update((node, float(at)) for at, node in enumerate(layer))
        if (count := _crossings(layers)) < least:
            best, least = layers, count
    return _swapped(best) if least else best


def _swapped(layers: list[list[Node]]) -> list[list[Node]]:
    """Neighbours in a layer change places while fewer wires cross."""
    layers = [list(layer) for layer in layers]
    place = {node: at for layer in layers for at, node in enumerate(layer)}
    better, left = True, 50
    while better and left:
        better, left = False, left - 1
        for layer in layers:
            for at in range(len(layer) - 1):
                one, other = layer[at], layer[at + 1]
                pairs = [
                    (place[a], place[b])
                    for side in ("above", "below")
                    for a in getattr(one, side)
                    for b in getattr(other, side)
                ]
                if sum(a > b for a, b in pairs) > sum(a < b for a, b in pairs):
                    layer[at], layer[at + 1] = other, one
                    place[one], place[other] = at + 1, at
                    better = True
    return layers


def _crossings(layers: list[list[Node]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        place = {node: at for at, node in enumerate(lower)}
        ends = [at for node in upper for at in sorted(place[other] for other in node.below)]
        array = np.array(ends)
        count += int(np.triu(array[:, None] > array[None, :]).sum())
    return count


# Where it is drawn


def place(
    layers: list[list[Node]], least: float = 0.0, slope: float = 0.0, columns: bool = True
) -> tuple[float, float]:
    """Give every node its place, in inches from the upper left corner; returns the width and height of all.

    They are in the middle of the width if that is to be larger than they need. Between layers there is this part of
    how far wires go aside, at most STEEPEST. Nodes that hang below each other, one by one, are equally wide in columns.
    """
    order = [node for layer in layers for node in layer]
    bars = [node for node in order if isinstance(node.item, Diverter)]
    folded = [bar for bar in bars if bar.follows or any(other.follows is bar for other in bars)]
    for sweep in (order, order[::-1], order) if columns else ():  # what hangs straight below each other is equally wide
        for node in sweep:
            for other in node.below:
                if len(node.below) == len(other.above) == 1 and not isinstance(other.item, Diverter):
                    node.width = other.width = max(node.width, other.width)
    for bar in folded:  # room where the bar goes on
        column = bar.below[:1]
        while column and not _begins(column[0]):
            column[0].width += 4 * GAP
            column = column[0].below
    for bar in bars:
        bar.width = max(bar.width, *(sum(node.width for node in side) for side in (bar.above, bar.below)))
    _sweep(layers)
    width = _align(layers, least)
    _stretch(layers)
    for bar in folded:
        bar.left = min(_leftmost(other) for other in folded if other.item is bar.item)
    y = 0.0
    for upper, layer in zip([[], *layers], layers, strict=False):
        aside = max((abs(port(a, b) - port(b, a)) for a in upper for b in a.below), default=0.0)
        y += GAP if aside < STRAIGHT else max(SLANT, min(slope * aside, STEEPEST))
        for node in layer:
            node.top = y
        y += max(node.height for node in layer)
    return width, y + GAP


def _align(layers: list[list[Node]], least: float) -> float:
    """Let all lines begin at the left, and be in the middle of what is to be wider than they; returns the width."""
    lines: list[list[Node]] = [[]]
    for layer in layers:
        if max(node.line for node in layer) >= len(lines):
            lines.append([])
        lines[-1] += layer
    lefts = [min(node.x - node.width / 2 for node in line) - GAP for line in lines]
    width = max(node.x + node.width / 2 + GAP - left for line, left in zip(lines, lefts, strict=True) for node in line)
    for line, left in zip(lines, lefts, strict=True):
        for node in line:
            node.x += max(least - width, 0) / 2 - left
    return max(width, least)


def _sweep(layers: list[list[Node]]) -> None:
    """Every node as near to the middle of those above and below as can be; what is in another line does not count."""
    for layer in layers:
        spread(layer, [0.0] * len(layer), [1.0] * len(layer))
    for _ in range(16):
        for down in (True, False):
            for layer in layers if down else layers[::-1]:
                near = [_above(node) if down else [o for o in node.below if not _begins(o)] for node in layer]
                pairs = list(zip(layer, near, strict=True))
                weights = [1e-3 if side in ([], [node]) else 3.0 if node.item is None else 1.0 for node, side in pairs]
                spread(layer, [_mean(side) if side else node.x for node, side in pairs], weights)


def _leftmost(bar: Node) -> float:
    """The left side of all that hangs on a bar which is folded."""
    stack, left = list(bar.below), np.inf
    while stack:
        node = stack.pop()
        if not _begins(node):
            left = min(left, node.x - node.width / 2)
            stack += node.below
    return left


def _begins(node: Node) -> bool:
    """Whether a line after the first begins with this node."""
    return node.line > 0


def _above(node: Node) -> list[Node]:
    return ([] if _begins(node) else node.above) or [node.follows or node]


def _stretch(layers: list[list[Node]]) -> None:
    """Bars from the first of their wires to the last, with their slots, as far as there is room beside neighbours."""
    for layer in layers:
        edge = -np.inf
        for at, node in enumerate(layer):
            node.left, node.right = node.x - node.width / 2, node.x + node.width / 2
            if isinstance(node.item, Diverter):
                beside, needed = max(GAP, node.slot / 2), len(node.above) * node.slot
                starts = [node.x - 0.15 - GAP, *(o.x - beside for o in node.above), *(o.x - GAP for o in node.below)]
                ends = [node.x + 0.15 + GAP, *(o.x + beside for o in node.above), *(o.x + GAP for o in node.below)]
                limit = min((other.x - other.width / 2 for other in layer[at + 1 : at + 2]), default=np.inf) - GAP
                node.right = min(max(ends), limit)
                node.left = max(min(*starts, node.right - needed), edge)
                node.right = max(node.right, node.left + needed)
            edge = node.right + GAP


def _mean(nodes: Sequence[Node]) -> float:
    """The middle of the outermost: a bar is drawn from one to the other."""
    return (min(node.x for node in nodes) + max(node.x for node in nodes)) / 2


def spread(layer: list[Node], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """As near to the wanted places as can be, by weighted squares, without overlap and in the same order."""
    steps = [(one.width + other.width) / 2 for one, other in pairwise(layer)]
    offsets = np.concatenate([[0.0], np.cumsum(steps)])
    groups: list[list[float]] = []  # of nodes that touch: mean, weight, count
    for value, weight in zip(np.array(wanted) - offsets, weights, strict=True):
        groups.append([float(value), weight, 1])
        while len(groups) > 1 and groups[-2][0] >= groups[-1][0]:
            mean, total, count = groups.pop()
            last = groups[-1]
            last[0] = (last[0] * last[1] + mean * total) / (last[1] + total)
            last[1:] = [last[1] + total, last[2] + count]
    means = np.repeat([group[0] for group in groups], [int(group[2]) for group in groups])
    for node, x in zip(layer, means + offsets, strict=True):
        node.x = float(x)


def wire_of(node: Node) -> Variable:
    """The variable of a wire, found from a bend of it above a block."""
    while not isinstance(node.item, Variable):
        node = node.above[0]
    return node.item


def port(node: Node, other: Node) -> float:
    """Where the wire to another node meets this one: right under or over it, if it is a bar that reaches so far.

    Each wire from above takes a slot of the bar: wires that come from beyond its end do not meet it in one point.
    """
    if isinstance(node.item, Diverter) and other in node.above:
        before = sum(one.x < other.x for one in node.above)
        after = len(node.above) - 1 - before
        first = node.left + (before + 0.5) * node.slot
        return min(max(other.x, first), node.right - (after + 0.5) * node.slot)
    if isinstance(node.item, Diverter):
        return min(max(other.x, node.left + 0.05), node.right - 0.05)
    if other in node.below and len(node.below) > 1 and any(one.rising for one in node.below):
        return min(max(other.x, node.x - ASIDE), node.x + ASIDE)
    return node.x


def is_straight(upper: Node, lower: Node) -> bool:
    """Whether the wire between two nodes leads straight down."""
    return abs(port(upper, lower) - port(lower, upper)) < STRAIGHT
