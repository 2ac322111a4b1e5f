"""Folding drawings too wide for a page: leaves and branches continue below, steps in time run in lines.

This is decided from the widths of columns, before `placement` places the nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..graph.blocks import SISO, Block, Diverter, Source
from .placement import GAP, Node, assign_layers, linked_nodes, topological_order

FEWEST_STEPS = 3
"""The least number of steps of a sequence; fewer are drawn as a tree."""


@dataclass(frozen=True)
class Widths:
    """The available widths, in inches: of the page, of a column with a card, and of a wire between two steps."""

    wide: float
    column: float
    link: float

    @property
    def columns(self) -> int:
        """The number of columns that fit side by side."""
        return max(1, int((self.wide - 2 * GAP) / self.column))

    @property
    def folded(self) -> int:
        """The number of columns that fit beside the bar of a Diverter that continues below."""
        return max(1, int((self.wide - 6 * GAP) / self.column))


@dataclass
class SequenceStep:
    """A step in time: the block that drives its hidden variable, that variable, its Diverter, and the wire onward."""

    head: Node | None
    state: Node
    body: Node
    link: Node | None = None
    leaves: int = 1

    def width(self, widths: Widths, goes_on: bool) -> float:
        """Return the width in inches, with the wire to the next step if that is in the same line."""
        beside = widths.column + (widths.link if goes_on else 0)
        return max(min(self.leaves, widths.columns) * widths.column, beside)


@dataclass
class Extent:
    """The extent of a node with all below it, in columns and layers; `free` if no other node leads there."""

    columns: int = 1
    layers: int = 1
    free: bool = True


def network_layers(blocks: Sequence[Block], gone: set[str], widths: Widths) -> list[list[Node]]:
    """Return the nodes of blocks and wires in layers, with few crossings, and folded if too wide."""
    whole: set[int] = set()  # Diverters that are not folded because of nodes beside them
    while True:
        layers = assign_layers(_fold_sequence_and_diverters(linked_nodes(blocks, gone), widths, whole))
        crowded = _crowded(layers)
        if not crowded:
            return layers
        whole |= crowded


def _crowded(layers: Sequence[Sequence[Node]]) -> set[int]:
    """Return the ids of folded Diverters with unrelated nodes between their bars."""
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


def _fold_sequence_and_diverters(nodes: list[Node], widths: Widths, whole: Collection[int]) -> list[Node]:
    """Return the nodes with added bars, where sequences run in lines and wide Diverters are folded.

    Diverters in `whole`, by id, are not folded.
    """
    lines = [] if (steps := _find_steps(nodes)) is None else _break_into_lines(steps, widths)
    breaks = {line[-1].link for line in lines} - {None}
    for step in (step for line in lines for step in line[:-1]):
        if step.link is not None:
            step.link.reverse()
    bars, extents = _fold_diverters(topological_order(nodes), widths, breaks, whole)
    base = 0
    for number, line in enumerate(lines):
        for step in line:
            first = step.head or step.state
            first.line, first.least = number, base + (step.head is None)
        base += 2 + max(extents[step.body].layers for step in line)
    return nodes + bars


def _find_steps(nodes: Iterable[Node]) -> list[SequenceStep] | None:
    """Return the steps of a sequence: Diverters that lead, by a table, to the next one; None if there is none."""
    links = {node: link for node in nodes if (link := _link_onward(node)) is not None}
    following = {node: link.below[0].below[0].below[0] for node, link in links.items()}
    starts = [node for node in links if node not in following.values()]
    if len(starts) != 1:
        return None
    body: Node | None = starts[0]
    steps: list[SequenceStep] = []
    while body is not None:
        state = body.above[0]
        head = state.above[0] if state.above else None
        if body.above != [state] or (not steps and head is not None and not isinstance(head.item, Source)):
            return None
        link = links.get(body)
        leaves = sum(_count_leaves(node) for node in body.below if node is not link) if body.below else 1
        steps.append(SequenceStep(head, state, body, link, leaves))
        body = following.get(body)
    return steps if len(steps) >= FEWEST_STEPS else None


def _link_onward(node: Node) -> Node | None:
    """Return the wire from a Diverter to the next step: the only one that leads, by a table, beyond a leaf."""
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


def _count_leaves(node: Node) -> int:
    """Return the number of leaves below a node."""
    count, stack, seen = 0, [node], {node}
    while stack:
        below = stack.pop().below
        count += not below
        stack += [other for other in below if other not in seen]
        seen.update(below)
    return count


def _break_into_lines(steps: Sequence[SequenceStep], widths: Widths) -> list[list[SequenceStep]]:
    """Return the steps in lines of as many as fit."""
    lines = [[steps[0]]]
    for step in steps[1:]:
        before = sum(other.width(widths, goes_on=True) for other in lines[-1])
        if before + step.width(widths, goes_on=False) <= widths.wide - 2 * GAP:
            lines[-1].append(step)
        else:
            lines.append([step])
    return lines


def _fold_diverters(
    order: Sequence[Node], widths: Widths, breaks: Iterable[Node | None], whole: Collection[int]
) -> tuple[list[Node], Mapping[Node, Extent]]:
    """Give Diverters with too many nodes below more bars, each with a row of them; returns bars and extents."""
    extents: dict[Node, Extent] = {}
    bars: list[Node] = []
    cut = set(breaks)
    for node in reversed(order):
        below = [other for other in node.below if other not in cut]
        columns = sum(extents[other].columns for other in below)
        free = len(node.above) <= 1 and not node.rising and all(extents[other].free for other in below)
        extents[node] = Extent(max(columns, 1), 1 + max((extents[other].layers for other in below), default=0), free)
        if isinstance(node.item, Diverter) and columns > widths.columns and id(node.item) not in whole:
            bars = _add_bars(node, below, widths, extents) + bars
    return bars, extents


def _add_bars(node: Node, below: Sequence[Node], widths: Widths, extents: dict[Node, Extent]) -> list[Node]:
    """Return the further bars of a Diverter, each with some of the nodes below it; the onward wire is last."""
    bound = [other for other in below if not extents[other].free]
    rows = _even_rows([other for other in below if extents[other].free], bound, widths, extents)
    bars: list[Node] = []
    last = node
    for above, row in pairwise(rows):
        drop = 1 + max((extents[other].layers for other in above), default=0)
        following = [other for other in node.below if other not in below] if row is rows[-1] else []
        last = Node(node.item, follows=last, drop=drop, below=[*row, *following])
        bars.append(last)
        for wire in last.below:
            wire.above = [last]
            node.below.remove(wire)
    extents[node].columns = widths.columns  # nothing else is placed beside it
    extents[node].layers = sum(1 + max((extents[other].layers for other in row), default=0) for row in rows)
    return bars


def _even_rows(
    free: Sequence[Node], bound: list[Node], widths: Widths, extents: Mapping[Node, Extent]
) -> list[list[Node]]:
    """Return nodes in as few rows as possible, of similar width; the `bound` nodes are in the first row."""

    def rows_within(most: int) -> list[list[Node]]:
        rows = [list(bound)]
        for node in free:
            if rows[-1] and sum(extents[other].columns for other in rows[-1]) + extents[node].columns > most:
                rows.append([])
            rows[-1].append(node)
        return rows

    fewest = len(rows_within(widths.folded))
    return next(rows for most in range(1, widths.folded + 1) if len(rows := rows_within(most)) == fewest)
