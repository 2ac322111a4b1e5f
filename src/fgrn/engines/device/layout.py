"""Cliques, links and leaves of one depth and shape grouped together, so that each step is one tensor operation.

The cliques of one size lie behind each other, in one tensor for all of them, ordered by the shape of the link to their
parent and by depth; so do messages to parents over one number of states. Everything of one shape and depth is then a
slice, and all links of one shape are one too: their counts are a single batched product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .clique_tree import CliqueLeaf, CliqueLink, CliquePart, clique_tree
from .library import torch

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...tables.encoded import Evidence


@dataclass(frozen=True, eq=False)
class Spread:
    """The map between states of one variable and joint states of its clique; empty if they are the same.

    index    (joint states,): the state of the variable
    groups   (states, joint states of each)
    """

    index: torch.Tensor | None
    groups: torch.Tensor | None

    @classmethod
    def of(cls, part: CliquePart, device: torch.device) -> Spread:
        """Return the map between one variable of a clique and the joint states of the clique."""
        if part.index is None or part.groups is None:
            return cls(None, None)
        return cls(torch.as_tensor(part.index, device=device), torch.as_tensor(part.groups, device=device))

    @property
    def is_whole(self) -> bool:
        """Whether the variable has all joint states of the clique."""
        return self.index is None

    def out(self, message: torch.Tensor) -> torch.Tensor:
        """Return a message over the variable, (..., states), expanded to the clique, (..., joint states)."""
        return message if self.index is None else message[..., self.index]

    def summed(self, product: torch.Tensor) -> torch.Tensor:
        """Return a product over the joint states of the clique, summed to the states of the variable."""
        return product if self.groups is None else product[..., self.groups].sum(-1)


@dataclass(eq=False)
class LinkStack:
    """Links of one shape, ordered by depth.

    links      from the child to its parent
    cliques    where the children are among the cliques of their size
    messages   where the messages are among those over `parent_states` states
    spread     of the link's variable in the child
    """

    links: list[CliqueLink]
    size: int
    cliques: slice
    messages: slice
    spread: Spread
    parent_states: int

    @property
    def child_states(self) -> int:
        """The number of states of the variable in the child."""
        return self.links[0].child.states

    @property
    def has_table(self) -> bool:
        """Whether there is a table between the two variables."""
        return self.links[0].table >= 0

    @property
    def downward(self) -> bool:
        """Whether the tables are those of children given parents."""
        return self.links[0].downward

    @property
    def tables(self) -> list[int]:
        """The number of the table of each link."""
        return [link.table for link in self.links]


@dataclass(eq=False)
class LeafStack:
    """Leaves of one shape at cliques of one size.

    cliques   (leaves,): the places of their cliques
    columns   (leaves,): of their evidence; empty where there is none
    begin     of the logarithms of their tables among those of all leaves with evidence
    """

    leaves: list[CliqueLeaf]
    size: int
    cliques: torch.Tensor
    columns: torch.Tensor
    spread: Spread
    states: int
    values: int
    begin: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is evidence."""
        return bool(len(self.columns))

    @property
    def tables(self) -> list[int]:
        """The number of the table of each leaf."""
        return [leaf.table for leaf in self.leaves]


@dataclass(eq=False)
class Incoming:
    """Messages from some links to different cliques of a group.

    which    (links,): places of the messages among all over so many states, or the leaves in their stack
    places   (links,): the cliques in the group
    """

    which: torch.Tensor
    places: torch.Tensor
    spread: Spread
    states: int


@dataclass(eq=False)
class IncomingLeaves(Incoming):
    """Messages from some leaves of a stack to different cliques of a group."""

    stack: LeafStack


@dataclass(eq=False)
class Potential:
    """A factor on one variable of a clique: from a Source, from evidence, or uniform if it has no driver."""

    place: int
    part: CliquePart
    spread: Spread
    source: int = -1
    column: int = -1
    soft: int = -1
    uniform: bool = False


@dataclass(frozen=True, eq=False)
class Lists:
    """Messages and leaves by clique of a group, in the form of the kernels: those of clique c begin at `start[c]`."""

    message_start: torch.Tensor
    messages: torch.Tensor
    leaf_start: torch.Tensor
    leaf_begin: torch.Tensor
    leaf_column: torch.Tensor
    leaf_values: torch.Tensor


@dataclass(eq=False)
class Group:
    """Cliques of one depth and size whose links to their parents are of one shape.

    cliques    where they are among the cliques of their size
    stack      of their links; None for roots
    messages   where their messages to their parents are
    number     of the first link in its stack
    incoming   messages of children, each Incoming at most one for each clique
    leaves     of the leaves, likewise
    lists      those of `incoming` and `leaves` that are over the whole space, by clique
    """

    size: int
    cliques: slice
    stack: LinkStack | None
    messages: slice
    in_stack: slice
    potentials: list[Potential] = field(default_factory=list)
    incoming: list[Incoming] = field(default_factory=list)
    leaves: list[IncomingLeaves] = field(default_factory=list)
    lists: Lists = field(init=False)

    @property
    def count(self) -> int:
        """The number of cliques."""
        return int(self.cliques.stop - self.cliques.start)


class DeviceLayout:
    """All groups by depth, roots first, and the position of each variable.

    sizes      by size: how many cliques there are
    messages   by number of states: how many messages to parents there are
    """

    def __init__(self, plan: Plan, evidence: Evidence, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.tree = clique_tree(plan, evidence.soft_edges())
        self._spreads: dict[tuple[int, int], Spread] = {}
        self.sizes: dict[int, int] = defaultdict(int)
        self.messages: dict[int, int] = defaultdict(int)
        self.stacks: list[LinkStack] = []
        self.levels: list[list[Group]] = [[] for _ in range(int(self.tree.depth.max(initial=-1)) + 1)]
        self._place: dict[int, tuple[Group, int]] = {}
        self._message: dict[int, int] = {}
        self._arrange_cliques()
        self.leaf_of = {leaf.edge: leaf for leaf in self.tree.leaves}
        self._add_potentials(evidence)
        self._add_incoming()
        self.leaf_stacks: list[LeafStack] = []
        self.leaf_cells = 0
        self._add_leaves(evidence)
        for level in self.levels:
            for group in level:
                group.lists = self._lists(group)

    @property
    def groups(self) -> Iterable[Group]:
        """All groups, roots first."""
        return (group for level in self.levels for group in level)

    def where(self, part: CliquePart) -> tuple[Group, int]:
        """Return the group of the clique that contains a variable, and the position of the clique in it."""
        return self._place[part.clique]

    def leaf_place(self, leaf: CliqueLeaf) -> tuple[LeafStack, int]:
        """Return the stack of a leaf, and its number there."""
        stack = next(one for one in self.leaf_stacks if leaf in one.leaves)
        return stack, stack.leaves.index(leaf)

    def spread(self, part: CliquePart) -> Spread:
        """Return the map between a variable and its clique, on the device; equal ones are shared."""
        key = (part.clique, part.edge)
        if key not in self._spreads:
            self._spreads[key] = Spread.of(part, self.device)
        return self._spreads[key]

    def _arrange_cliques(self) -> None:
        tree = self.tree
        alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for clique in sorted(range(len(tree.sizes)), key=lambda one: tree.depth[one]):
            link = tree.links.get(clique)
            key: tuple[object, ...] = (int(tree.sizes[clique]),)
            if link is not None:
                key += (link.child.key, link.child.states, link.parent.states, link.table >= 0, link.downward)
            alike[key].append(clique)
        for cliques in alike.values():
            self._arrange_alike(cliques)

    def _arrange_alike(self, cliques: list[int]) -> None:
        """Arrange cliques whose links have one shape, or roots of one size, as a group."""
        tree, size = self.tree, int(self.tree.sizes[cliques[0]])
        links = [tree.links[clique] for clique in cliques if clique in tree.links]
        first, stack = self.sizes[size], None
        self.sizes[size] += len(cliques)
        first_message = 0
        if links:
            states = links[0].parent.states
            first_message = self.messages[states]
            self.messages[states] += len(links)
            stack = LinkStack(
                links, size, slice(first, first + len(links)), slice(first_message, first_message + len(links)),
                self.spread(links[0].child), states,
            )  # fmt: skip
            self.stacks.append(stack)
        depths = tree.depth[cliques]
        for depth in np.unique(depths).tolist():
            begin, end = np.searchsorted(depths, [depth, depth + 1]).tolist()
            group = Group(
                size, slice(first + begin, first + end), stack, slice(first_message + begin, first_message + end),
                slice(begin, end),
            )  # fmt: skip
            self.levels[depth].append(group)
            for number in range(begin, end):
                self._place[cliques[number]] = (group, number - begin)
                self._message[cliques[number]] = first_message + number

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

    def _add_incoming(self) -> None:
        rounds: dict[tuple[Group, bytes, int, int], list[int]] = defaultdict(list)
        seen: dict[tuple[int, bytes], int] = defaultdict(int)
        for child, link in self.tree.links.items():
            group, _ = self.where(link.parent)
            once = (link.parent.clique, link.parent.key)
            rounds[(group, link.parent.key, link.parent.states, seen[once])].append(child)
            seen[once] += 1
        for (group, _, states, _), children in rounds.items():
            parents = [self.tree.links[child].parent for child in children]
            group.incoming.append(
                Incoming(
                    self._numbers(self._message[child] for child in children),
                    self._numbers(self.where(parent)[1] for parent in parents),
                    self.spread(parents[0]),
                    states,
                )
            )

    def _add_leaves(self, evidence: Evidence) -> None:
        alike: dict[tuple[object, ...], list[CliqueLeaf]] = defaultdict(list)
        for leaf in sorted(self.tree.leaves, key=lambda one: self.tree.depth[one.part.clique]):
            group, _ = self.where(leaf.part)
            shape = self.plan.layout.table_shapes[leaf.table]
            alike[(group.size, leaf.part.key, shape, evidence.slot[leaf.edge] >= 0)].append(leaf)
        for (size, _, _, known), leaves in alike.items():
            states, values = self.plan.layout.table_shapes[leaves[0].table]
            homes = [self.where(leaf.part) for leaf in leaves]
            stack = LeafStack(
                leaves, int(str(size)), self._numbers(group.cliques.start + place for group, place in homes),
                self._numbers(int(evidence.slot[leaf.edge]) for leaf in leaves if known),
                self.spread(leaves[0].part), states, values, self.leaf_cells,
            )  # fmt: skip
            self.leaf_stacks.append(stack)
            if known:
                self.leaf_cells += len(leaves) * (values + 1) * states
                self._add_leaf_rounds(stack, homes)

    def _add_leaf_rounds(self, stack: LeafStack, homes: list[tuple[Group, int]]) -> None:
        rounds: dict[tuple[Group, int], list[int]] = defaultdict(list)
        seen: dict[tuple[Group, int], int] = defaultdict(int)
        for number, home in enumerate(homes):
            rounds[(home[0], seen[home])].append(number)
            seen[home] += 1
        for (group, _), numbers in rounds.items():
            places = self._numbers(homes[number][1] for number in numbers)
            group.leaves.append(IncomingLeaves(self._numbers(numbers), places, stack.spread, stack.states, stack))

    def _lists(self, group: Group) -> Lists:
        messages: list[list[int]] = [[] for _ in range(group.count)]
        leaves: list[list[tuple[int, int, int]]] = [[] for _ in range(group.count)]
        for incoming in group.incoming:
            if incoming.spread.is_whole:
                for which, place in zip(incoming.which.tolist(), incoming.places.tolist(), strict=True):
                    messages[place].append(which)
        for known in group.leaves:
            if known.spread.is_whole:
                stack = known.stack
                columns, cells = stack.columns.tolist(), (stack.values + 1) * stack.states
                for which, place in zip(known.which.tolist(), known.places.tolist(), strict=True):
                    leaves[place].append((stack.begin + which * cells, columns[which], stack.values))
        every = [leaf for some in leaves for leaf in some]
        return Lists(
            self._counted(messages), self._small(one for some in messages for one in some),
            self._counted(leaves), self._numbers(leaf[0] for leaf in every),
            self._small(leaf[1] for leaf in every), self._small(leaf[2] for leaf in every),
        )  # fmt: skip

    def _counted(
        self, lists: Iterable[list[object]] | list[list[int]] | list[list[tuple[int, int, int]]]
    ) -> torch.Tensor:
        return self._small(np.cumsum([0, *map(len, lists)]).tolist())

    def _small(self, numbers: Iterable[int]) -> torch.Tensor:
        return torch.tensor(list(numbers), dtype=torch.int32, device=self.device)

    def _numbers(self, numbers: Iterable[int]) -> torch.Tensor:
        return torch.tensor(list(numbers), dtype=torch.long, device=self.device)
