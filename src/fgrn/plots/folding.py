"""What is too wide for a page is folded: leaves and branches go on below, steps in time run sideways, line by line.

This is decided before nodes have places, by how wide a column is; `placement` keeps to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..graph.blocks import SISO, Block, Diverter, Source
from .placement import GAP, Node, causes_first, stacked, wired

FEWEST_STEPS = 3
"""Steps that make a sequence; fewer are drawn as what they are, a tree."""


@dataclass(frozen=True)
class Room:
    """What there is room for, in inches: the page, a column with a belief, and a wire from one step to the next."""

    wide: float
    column: float
    link: float

    @property
    def columns(self) -> int:
        """Columns side by side."""
        return max(1, int((self.wide - 2 * GAP) / self.column))

    @property
    def folded(self) -> int:
        """Columns side by side beside the bar that goes on below."""
        return max(1, int((self.wide - 6 * GAP) / self.column))


@dataclass
class Step:
    """A step in time: the block that drives its state, that hidden variable, what hangs on it, the wire to the next."""

    head: Node | None
    state: Node
    body: Node
    link: Node | None = None
    leaves: int = 1

    def width(self, room: Room, goes_on: bool) -> float:
        """In inches, with the wire to the next step if that is beside it."""
        beside = room.column + (room.link if goes_on else 0)
        return max(min(self.leaves, room.columns) * room.column, beside)


@dataclass
class Shape:
    """How much a node and all below it take: columns side by side and layers; `free` if nothing else leads there."""

    columns: int = 1
    layers: int = 1
    free: bool = True


def layered(blocks: Sequence[Block], gone: set[str], room: Room) -> list[list[Node]]:
    """The nodes of blocks and wires in layers, in an order that few wires cross; what is too wide is folded."""
    whole: set[int] = set()  # Diverters that are not folded, as other nodes are beside them
    while True:
        layers = stacked(_arranged(wired(blocks, gone), room, whole))
        crowded = _crowded(layers)
        if not crowded:
            return layers
        whole |= crowded


def _crowded(layers: Sequence[Sequence[Node]]) -> set[int]:
    """The folded Diverters between whose bars are nodes that do not hang on them; a Diverter by its `id`."""
    own: dict[int, set[Node]] = {}
    for bar in (node for layer in layers for node in layer if node.follows):
        own.setdefault(id(bar.item), set())
    rows: dict[int, list[int]] = {}
    for number, layer in enumerate(layers):
        for node in layer:
            if id(node.item) in own:
                rows.setdefault(id(node.item), []).append(number)
                stack = [node]
                while stack:
                    one = stack.pop()
                    if one not in own[id(node.item)] and not one.line:
                        own[id(node.item)].add(one)
                        stack += one.below
    return {
        item
        for item, numbers in rows.items()
        if any(node not in own[item] for layer in layers[numbers[0] : numbers[-1] + 1] for node in layer)
    }


def _arranged(nodes: list[Node], room: Room, whole: Collection[int]) -> list[Node]:
    """The nodes, and those that had to be added: what is too wide is folded, but for Diverters that are to be whole."""
    lines = [] if (steps := _steps(nodes)) is None else _lines(steps, room)
    breaks = {line[-1].link for line in lines} - {None}
    for step in (step for line in lines for step in line[:-1]):
        if step.link is not None:
            step.link.turn_round()
    bars, shapes = _folded(causes_first(nodes), room, breaks, whole)
    base = 0
    for number, line in enumerate(lines):
        for step in line:
            first = step.head or step.state
            first.line, first.least = number, base + (step.head is None)
        base += 2 + max(shapes[step.body].layers for step in line)
    return nodes + bars


def _steps(nodes: Iterable[Node]) -> list[Step] | None:
    """The steps of a sequence: Diverters of which each leads to the next one, by a table, and to leaves beside it."""
    links = {node: link for node in nodes if (link := _link(node)) is not None}
    following = {node: link.below[0].below[0].below[0] for node, link in links.items()}
    starts = [node for node in links if node not in following.values()]
    if len(starts) != 1:
        return None
    body: Node | None = starts[0]
    steps: list[Step] = []
    while body is not None:
        state = body.above[0]
        head = state.above[0] if state.above else None
        if body.above != [state] or (not steps and head is not None and not isinstance(head.item, Source)):
            return None
        link = links.get(body)
        leaves = sum(_leaves(node) for node in body.below if node is not link) if body.below else 1
        steps.append(Step(head, state, body, link, leaves))
        body = following.get(body)
    return steps if len(steps) >= FEWEST_STEPS else None


def _link(node: Node) -> Node | None:
    """The wire from a Diverter to the next step: the only one that leads, by a table, to more than a leaf."""
    if not isinstance(node.item, Diverter) or len(node.item.inputs) != 1 or len(node.below) < 2 or not node.above:
        return None
    found = []
    for wire in node.below:
        path, last = [wire], wire
        while len(path) < 4 and len(last.below) == len(last.above) == 1:
            last = last.below[0]
            path.append(last)
        if len(path) == 4 and isinstance(path[1].item, SISO) and len(last.above) == 1:
            found.append(wire)
    return found[0] if len(found) == 1 else None


def _leaves(node: Node) -> int:
    """How many ends there are below a node."""
    count, stack, seen = 0, [node], {node}
    while stack:
        below = stack.pop().below
        count += not below
        stack += [other for other in below if other not in seen]
        seen.update(below)
    return count


def _lines(steps: Sequence[Step], room: Room) -> list[list[Step]]:
    """As many steps in a line as there is room for."""
    lines = [[steps[0]]]
    for step in steps[1:]:
        before = sum(other.width(room, goes_on=True) for other in lines[-1])
        if before + step.width(room, goes_on=False) <= room.wide - 2 * GAP:
            lines[-1].append(step)
        else:
            lines.append([step])
    return lines


def _folded(
    order: Sequence[Node], room: Room, breaks: Iterable[Node | None], whole: Collection[int]
) -> tuple[list[Node], Mapping[Node, Shape]]:
    """Give Diverters with too much below them more bars, each with a row of it; the bars, those above before others."""
    shapes: dict[Node, Shape] = {}
    bars: list[Node] = []
    cut = set(breaks)
    for node in reversed(order):
        below = [other for other in node.below if other not in cut]
        columns = sum(shapes[other].columns for other in below)
        free = len(node.above) <= 1 and not node.rising and all(shapes[other].free for other in below)
        shapes[node] = Shape(max(columns, 1), 1 + max((shapes[other].layers for other in below), default=0), free)
        if isinstance(node.item, Diverter) and columns > room.columns and id(node.item) not in whole:
            bars = _more_bars(node, below, room, shapes) + bars
    return bars, shapes


def _more_bars(node: Node, below: Sequence[Node], room: Room, shapes: dict[Node, Shape]) -> list[Node]:
    """The bars a Diverter goes on with, each with some of the nodes below it; what leads to the next line is last."""
    bound = [other for other in below if not shapes[other].free]
    rows = _rows([other for other in below if shapes[other].free], bound, room, shapes)
    bars: list[Node] = []
    last = node
    for above, row in pairwise(rows):
        drop = 1 + max((shapes[other].layers for other in above), default=0)
        following = [other for other in node.below if other not in below] if row is rows[-1] else []
        last = Node(node.item, follows=last, drop=drop, below=[*row, *following])
        bars.append(last)
        for wire in last.below:
            wire.above = [last]
            node.below.remove(wire)
    shapes[node].columns = room.columns  # nothing else is beside it
    shapes[node].layers = sum(1 + max((shapes[other].layers for other in row), default=0) for row in rows)
    return bars


def _rows(free: Sequence[Node], bound: list[Node], room: Room, shapes: Mapping[Node, Shape]) -> list[list[Node]]:
    """Nodes in as few rows as there is room for, as even as can be; what is bound to others is in the first."""

    def filled(most: int) -> list[list[Node]]:
        rows = [list(bound)]
        for node in free:
            if rows[-1] and sum(shapes[other].columns for other in rows[-1]) + shapes[node].columns > most:
                rows.append([])
            rows[-1].append(node)
        return rows

    fewest = len(filled(room.folded))
    return next(rows for most in range(1, room.folded + 1) if len(rows := filled(most)) == fewest)
