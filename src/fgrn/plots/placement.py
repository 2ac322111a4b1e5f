"""Positions of blocks and wires in a drawing: a layered graph from top to bottom, measured in inches.

Blocks and wires are nodes of one layered graph; a wire that passes a layer has a bend there. Drawings too wide for a
page are folded (`folding`): the bar of a Diverter continues below. The sizes of nodes are set by the code that draws
them.
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
"""The gaps between layers, in inches, where all wires are straight, and where some are not."""

STRAIGHT, STEEPEST = 0.01, 1.0
"""Wires shifted sideways by less than the first are straight; the second is the largest gap between layers."""

ASIDE = 0.22
"""The distance from the middle of a block at which two wires below it begin, in inches."""


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
    left: float = 0.0  # the left and right ends of a bar
    right: float = 0.0
    slot: float = 0.1  # the width of a bar that each wire from above takes
    follows: Node | None = None  # the bar above, of which this one is the continuation
    drop: int = 0  # the number of layers below that bar
    least: int = 0  # the first allowed layer
    line: int = 0  # the number of the line of a sequence that begins with this node
    rising: bool = False  # a wire whose driver is below its reader, which occurs in a cycle
    title: list[str] = field(default_factory=list)  # the text in a box, or above the belief of a wire

    def reverse(self) -> None:
        """Make a wire lead upwards, from its driver to a reader above it."""
        self.rising = True
        for box in self.above:
            box.below.remove(self)
            box.above.append(self)
        for box in self.below:
            box.above.remove(self)
            box.below.insert(0, self)
        self.above, self.below = self.below, self.above


def blocks_to_draw(net: Network, most: int, first: Iterable[str] = ()) -> tuple[list[Block], set[str]]:
    """Return the blocks that lead to at most `most` observed variables, and the names of those left out.

    Variables in `first` are drawn before others.
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


def linked_nodes(blocks: Iterable[Block], gone: set[str]) -> list[Node]:
    """Return nodes for blocks and wires, linked to those above and below them."""
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


def assign_layers(nodes: Sequence[Node], short: bool = False) -> list[list[Node]]:
    """Return linked nodes in layers, ordered within each so that few wires cross.

    Each node is as low as those below it allow; with `short` wires, only if it has no more nodes above than below.
    """
    order = topological_order(nodes)
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
    return reduce_crossings([layer for layer in layers if layer])


def topological_order(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with causes before effects; wires that close a cycle are reversed."""
    order, closing = _depth_first(nodes)
    if not closing:
        return order
    for wire in closing:
        wire.reverse()
    return _depth_first(nodes)[0]


def _depth_first(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Return the nodes, each after those above it, and the wires that close a cycle."""
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
    """Add a node in each layer that a wire passes."""
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


def reduce_crossings(layers: list[list[Node]]) -> list[list[Node]]:
    """Return the layers sorted by the mean position of neighbours, down and up, while crossings decrease."""
    best, least = layers, _crossings(layers)
    for sweep in range(12):
        if not least:
            break
        layers = [list(layer) for layer in layers]
        position = {node: float(at) for layer in layers for at, node in enumerate(layer)}
        for layer in layers if sweep % 2 else layers[::-1]:
            near = {node: node.above if sweep % 2 else node.below for node in layer}
            wanted = {n: np.mean([position[o] for o in near[n]]) if near[n] else position[n] for n in layer}
            layer.sort(key=wanted.__getitem__)
            position.update((node, float(at)) for at, node in enumerate(layer))
        if (count := _crossings(layers)) < least:
            best, least = layers, count
    return _swap_neighbours(best) if least else best


def _swap_neighbours(layers: list[list[Node]]) -> list[list[Node]]:
    """Return the layers with neighbours swapped while crossings decrease."""
    layers = [list(layer) for layer in layers]
    position = {node: at for layer in layers for at, node in enumerate(layer)}
    better, left = True, 50
    while better and left:
        better, left = False, left - 1
        for layer in layers:
            for at in range(len(layer) - 1):
                one, other = layer[at], layer[at + 1]
                pairs = [
                    (position[a], position[b])
                    for side in ("above", "below")
                    for a in getattr(one, side)
                    for b in getattr(other, side)
                ]
                if sum(a > b for a, b in pairs) > sum(a < b for a, b in pairs):
                    layer[at], layer[at + 1] = other, one
                    position[one], position[other] = at + 1, at
                    better = True
    return layers


def _crossings(layers: list[list[Node]]) -> int:
    """Return the number of wires that cross."""
    count = 0
    for upper, lower in pairwise(layers):
        position = {node: at for at, node in enumerate(lower)}
        ends = [at for node in upper for at in sorted(position[other] for other in node.below)]
        array = np.array(ends)
        count += int(np.triu(array[:, None] > array[None, :]).sum())
    return count


# Positions


def place_nodes(
    layers: list[list[Node]], least: float = 0.0, slope: float = 0.0, columns: bool = True
) -> tuple[float, float]:
    """Set the position of every node, in inches from the upper left corner; returns the total width and height.

    The width is at least `least`, with the nodes in the middle. The gap between layers is `slope` times the largest
    sideways shift of a wire, at most STEEPEST. With `columns`, nodes in a chain below each other have equal widths.
    """
    order = [node for layer in layers for node in layer]
    bars = [node for node in order if isinstance(node.item, Diverter)]
    folded = [bar for bar in bars if bar.follows or any(other.follows is bar for other in bars)]
    for sweep in (order, order[::-1], order) if columns else ():  # equal widths in a chain
        for node in sweep:
            for other in node.below:
                if len(node.below) == len(other.above) == 1 and not isinstance(other.item, Diverter):
                    node.width = other.width = max(node.width, other.width)
    for bar in folded:  # space for the continued bar
        column = bar.below[:1]
        while column and not _begins(column[0]):
            column[0].width += 4 * GAP
            column = column[0].below
    for bar in bars:
        bar.width = max(bar.width, *(sum(node.width for node in side) for side in (bar.above, bar.below)))
    _centre_on_neighbours(layers)
    _move_parts_together(layers)
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
    """Align all lines at the left, centred if `least` is wider than they are; returns the width."""
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


def _centre_on_neighbours(layers: list[list[Node]]) -> None:
    """Move every node near the middle of those above and below it, ignoring those in other lines."""
    for layer in layers:
        place_in_order(layer, [0.0] * len(layer), [1.0] * len(layer))
    for _ in range(16):
        for down in (True, False):
            for layer in layers if down else layers[::-1]:
                near = [_above(node) if down else [o for o in node.below if not _begins(o)] for node in layer]
                pairs = list(zip(layer, near, strict=True))
                weights = [1e-3 if side in ([], [node]) else 3.0 if node.item is None else 1.0 for node, side in pairs]
                place_in_order(layer, [_middle(side) if side else node.x for node, side in pairs], weights)


def _move_parts_together(layers: list[list[Node]]) -> None:
    """Move parts that are not linked to each other to the left, as far as those before them allow.

    While nodes are centred on their neighbours, nothing keeps such parts near each other.
    """
    if any(_begins(node) for layer in layers for node in layer):
        return
    before = {node: other for layer in layers for other, node in pairwise(layer)}
    parts = _linked_parts(node for layer in layers for node in layer)
    for part in sorted(parts, key=lambda part: min(node.x - node.width / 2 for node in part)):
        own = set(part)
        beside = [(node, before[node]) for node in part if node in before and before[node] not in own]
        gap = min(((node.x - node.width / 2) - (other.x + other.width / 2) for node, other in beside), default=0.0)
        if gap > 0:
            for node in part:
                node.x -= gap


def _linked_parts(nodes: Iterable[Node]) -> list[list[Node]]:
    """Return the nodes of each part of a drawing that is linked by wires."""
    parts, left = [], dict.fromkeys(nodes)
    while left:
        part = [next(iter(left))]
        del left[part[0]]
        for node in part:
            for other in (*node.above, *node.below, *([node.follows] if node.follows else [])):
                if other in left:
                    del left[other]
                    part.append(other)
        parts.append(part)
    return parts


def _leftmost(bar: Node) -> float:
    """Return the left side of all nodes below a folded bar."""
    stack, left = list(bar.below), np.inf
    while stack:
        node = stack.pop()
        if not _begins(node):
            left = min(left, node.x - node.width / 2)
            stack += node.below
    return left


def _begins(node: Node) -> bool:
    """Return whether a line after the first begins with this node."""
    return node.line > 0


def _above(node: Node) -> list[Node]:
    return ([] if _begins(node) else node.above) or [node.follows or node]


def _stretch(layers: list[list[Node]]) -> None:
    """Stretch bars from the first of their wires to the last, as far as the neighbours allow."""
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


def _middle(nodes: Sequence[Node]) -> float:
    """Return the middle between the outermost nodes."""
    return (min(node.x for node in nodes) + max(node.x for node in nodes)) / 2


def place_in_order(layer: list[Node], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """Set the positions nearest to the wanted ones in weighted least squares, without overlap and in order."""
    steps = [(one.width + other.width) / 2 for one, other in pairwise(layer)]
    offsets = np.concatenate([[0.0], np.cumsum(steps)])
    groups: list[list[float]] = []  # groups of touching nodes: mean, weight, count
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
    """Return the variable of a wire, given a node of it."""
    while not isinstance(node.item, Variable):
        node = node.above[0]
    return node.item


def port(node: Node, other: Node) -> float:
    """Return the x position where the wire to another node meets this one: straight below or above it, if possible.

    Each wire from above has a slot of the bar, so that wires from beyond its end do not meet it in one point.
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
    """Return whether the wire between two nodes is vertical."""
    return abs(port(upper, lower) - port(lower, upper)) < STRAIGHT
