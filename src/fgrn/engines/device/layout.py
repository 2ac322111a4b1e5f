"""Cliques, links and leaves of one depth and shape side by side, so that each step is one operation on tensors."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .clique_tree import CliqueLeaf, CliqueLink, CliquePart, CliqueTree, clique_tree
from .library import torch

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...tables.encoded import Evidence


@dataclass(frozen=True, eq=False)
class Spread:
    """How messages over one variable and over the space of a clique become each other; empty where they are the same.

    index    (joint states,): the state of the variable
    groups   (states, joint states of each)
    """

    index: torch.Tensor | None
    groups: torch.Tensor | None

    @classmethod
    def of(cls, part: CliquePart, device: torch.device) -> Spread:
        """That of a part of a clique."""
        if part.index is None or part.groups is None:
            return cls(None, None)
        return cls(torch.as_tensor(part.index, device=device), torch.as_tensor(part.groups, device=device))

    def out(self, message: torch.Tensor) -> torch.Tensor:
        """A message over the variable, (..., states), over the space of the clique, (..., joint states)."""
        return message if self.index is None else message[..., self.index]

    def summed(self, product: torch.Tensor) -> torch.Tensor:
        """A product over the space of the clique, summed to the states of the variable."""
        return product if self.groups is None else product[..., self.groups].sum(-1)


@dataclass(eq=False)
class Leaves:
    """Leaves of one shape, no two at the same clique of a group.

    places   (leaves,): of their cliques in the group
    columns  (leaves,): of their evidence; None where there is none
    """

    leaves: list[CliqueLeaf]
    places: torch.Tensor
    columns: torch.Tensor | None
    spread: Spread
    shape: tuple[int, int]


@dataclass(eq=False)
class Incoming:
    """Messages of links to cliques of one group, no two to the same one: which links, and the places of the cliques."""

    links: Links
    which: torch.Tensor
    places: torch.Tensor
    spread: Spread


@dataclass(eq=False)
class Links:
    """Links of one shape from the cliques of a group to their parents.

    places    (links,): of the children in their group
    tables    (links,): which table; empty where there is none between
    parents   where the posterior of the parents is: as Incoming, but from group to links
    """

    links: list[CliqueLink]
    places: torch.Tensor
    spread: Spread
    has_table: bool
    downward: bool
    parents: list[tuple[Group, torch.Tensor, torch.Tensor, Spread]] = field(default_factory=list)

    @property
    def tables(self) -> list[int]:
        """The number of the table of each link."""
        return [link.table for link in self.links]


@dataclass(eq=False)
class Potential:
    """What a Source, evidence, or the lack of a driver says of one variable of a clique."""

    place: int
    part: CliquePart
    spread: Spread
    source: int = -1
    column: int = -1
    soft: int = -1
    uniform: bool = False


@dataclass(eq=False)
class Group:
    """Cliques of one depth and size."""

    cliques: list[int]
    size: int
    potentials: list[Potential] = field(default_factory=list)
    leaves: list[Leaves] = field(default_factory=list)
    incoming: list[Incoming] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)


class DeviceLayout:
    """All groups by depth, the roots first, and where each variable is."""

    def __init__(self, plan: Plan, evidence: Evidence, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.tree = clique_tree(plan, evidence.soft_edges())
        self.levels, self._place = _groups_by_depth(self.tree)
        self._spreads: dict[tuple[int, int], Spread] = {}
        self.leaf_of = {leaf.edge: leaf for leaf in self.tree.leaves}
        self._add_potentials(evidence)
        self._add_leaves(evidence)
        self._add_links()
        self.cells = sum(len(group.cliques) * group.size for level in self.levels for group in level)

    def where(self, part: CliquePart) -> tuple[Group, int]:
        """The group of a part's clique, and its place there."""
        return self._place[part.clique]

    def spread(self, part: CliquePart) -> Spread:
        """How a part lies in its clique, on the device; one for all parts that are alike."""
        key = (part.clique, part.edge)
        if key not in self._spreads:
            self._spreads[key] = Spread.of(part, self.device)
        return self._spreads[key]

    def _add_potentials(self, evidence: Evidence) -> None:
        plan = self.plan
        source_of = plan.source_of
        for edge, part in self.tree.home.items():
            group, place = self.where(part)
            slot, soft = int(evidence.slot[edge]), int(evidence.soft_offset[edge])
            source = source_of.get(edge, -1)
            uniform = not plan.driver[edge]
            if source >= 0 or slot >= 0 or uniform:
                found = Potential(place, part, self.spread(part), source, slot, soft, uniform)
                group.potentials.append(found)

    def _add_leaves(self, evidence: Evidence) -> None:
        rounds: dict[tuple[Group, int, bytes, tuple[int, int], bool], list[CliqueLeaf]] = defaultdict(list)
        seen: dict[tuple[int, bytes, tuple[int, int], bool], int] = defaultdict(int)
        for leaf in self.tree.leaves:
            group, _ = self.where(leaf.part)
            shape = self.plan.layout.table_shapes[leaf.table]
            key = (leaf.part.key, shape, evidence.slot[leaf.edge] >= 0)
            number = seen[(leaf.part.clique, *key)]
            seen[(leaf.part.clique, *key)] += 1
            rounds[(group, number, *key)].append(leaf)
        for (_, _, _, shape, known), leaves in rounds.items():
            group, _ = self.where(leaves[0].part)
            columns = self._numbers(int(evidence.slot[leaf.edge]) for leaf in leaves) if known else None
            places = self._numbers(self.where(leaf.part)[1] for leaf in leaves)
            group.leaves.append(Leaves(leaves, places, columns, self.spread(leaves[0].part), shape))

    def _add_links(self) -> None:
        alike: dict[tuple[Group, bytes, tuple[int, int], bool, bool], list[CliqueLink]] = defaultdict(list)
        for link in self.tree.links.values():
            group, _ = self.where(link.child)
            shape = (link.child.states, link.parent.states)
            alike[(group, link.child.key, shape, link.table >= 0, link.downward)].append(link)
        for (_, _, _, has_table, downward), links in alike.items():
            group, _ = self.where(links[0].child)
            places = self._numbers(self.where(link.child)[1] for link in links)
            found = Links(links, places, self.spread(links[0].child), has_table, downward)
            group.links.append(found)
            self._add_incoming(found)

    def _add_incoming(self, links: Links) -> None:
        rounds: dict[tuple[Group, bytes, int], list[int]] = defaultdict(list)
        parents: dict[tuple[Group, bytes], list[int]] = defaultdict(list)
        seen: dict[tuple[int, bytes], int] = defaultdict(int)
        for number, link in enumerate(links.links):
            group, _ = self.where(link.parent)
            once = (link.parent.clique, link.parent.key)
            rounds[(group, link.parent.key, seen[once])].append(number)
            parents[(group, link.parent.key)].append(number)
            seen[once] += 1
        for numbers in rounds.values():
            first = links.links[numbers[0]].parent
            places = self._numbers(self.where(links.links[number].parent)[1] for number in numbers)
            incoming = Incoming(links, self._numbers(numbers), places, self.spread(first))
            self.where(first)[0].incoming.append(incoming)
        for numbers in parents.values():
            first = links.links[numbers[0]].parent
            places = self._numbers(self.where(links.links[number].parent)[1] for number in numbers)
            links.parents.append((self.where(first)[0], self._numbers(numbers), places, self.spread(first)))

    def _numbers(self, numbers: object) -> torch.Tensor:
        return torch.tensor(list(numbers), dtype=torch.long, device=self.device)  # type: ignore[call-overload]


def _groups_by_depth(tree: CliqueTree) -> tuple[list[list[Group]], dict[int, tuple[Group, int]]]:
    """Groups of cliques by depth, and the group and place of each clique."""
    levels: list[list[Group]] = []
    place: dict[int, tuple[Group, int]] = {}
    for depth in range(int(tree.depth.max(initial=-1)) + 1):
        by_size: dict[int, list[int]] = defaultdict(list)
        for clique in np.flatnonzero(tree.depth == depth).tolist():
            by_size[int(tree.sizes[clique])].append(clique)
        level = [Group(cliques, size) for size, cliques in by_size.items()]
        levels.append(level)
        place |= {clique: (group, number) for group in level for number, clique in enumerate(group.cliques)}
    return levels, place
