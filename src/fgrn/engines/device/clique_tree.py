"""The cliques of a Plan as a rooted tree in levels: structure only, without parameters.

A Diverter is a clique over its (product) space; a variable that ends at no Diverter is a clique of its own. What lies
between two cliques is a link: a SISO table, or nothing where two Diverters share a variable. A leaf is a SISO whose
output has hard evidence or none: its message is a column of its table. Sources, evidence on other variables and the
uniform distribution of a variable without a driver are potentials of a clique.

Each of these acts on one variable, and a variable may be a part of the clique's space: `index` has the state of the
variable for every joint state, None where it is the whole space.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.tree_centre import tree_centre

if TYPE_CHECKING:
    from ...plan.plan import Plan


@dataclass(frozen=True, eq=False)
class CliquePart:
    """One variable in a clique.

    index    (joint states,): its state for every joint state; None if it is the whole space
    groups   (states, joint states of each): the inverse
    """

    clique: int
    edge: int
    states: int
    index: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def key(self) -> bytes:
        """A key that is equal for variables with the same position and sizes in their cliques."""
        return b"" if self.index is None else self.index.tobytes()


@dataclass(frozen=True, eq=False)
class CliqueLink:
    """The link of a clique to its parent: the variable at either end, and the number of the table between them, or -1.

    `downward`: whether the table leads from the parent (its input) to the child (its output).
    """

    child: CliquePart
    parent: CliquePart
    table: int
    downward: bool


@dataclass(frozen=True, eq=False)
class CliqueLeaf:
    """A SISO from a clique to a variable whose evidence is hard or missing."""

    part: CliquePart
    table: int
    edge: int
    siso: int


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """The cliques of a plan, each with at most one parent.

    sizes      the joint states of each clique
    depth      how many links lie between each clique and its root
    links      one for each clique that is no root, by clique
    home       by variable: the part of a clique in which it is; none for the output of a leaf
    """

    sizes: np.ndarray
    depth: np.ndarray
    links: Mapping[int, CliqueLink]
    leaves: tuple[CliqueLeaf, ...]
    home: Mapping[int, CliquePart]
    roots: tuple[int, ...]


def clique_tree(plan: Plan, soft: frozenset[int]) -> CliqueTree:
    """Return the clique tree of a plan; the output of a SISO with `soft` evidence is a clique and not a leaf."""
    ends: dict[int, list[CliquePart]] = defaultdict(list)  # by variable: the Diverters at its ends
    for diverter in range(plan.diverters):
        for leg in plan.legs(diverter):
            edge = int(plan.leg_edge[leg])
            whole = plan.leg_axes[leg] is None
            index = None if whole else np.asarray(plan.leg_index(diverter, leg))
            groups = None if whole else plan.leg_groups(diverter, leg)
            ends[edge].append(CliquePart(diverter, edge, int(plan.cardinality[edge]), index, groups))
    sizes = plan.diverter_size.tolist()
    leaves = _leaf_sisos(plan, ends, soft)
    outputs = {int(plan.siso_output[siso]) for siso in leaves}
    home: dict[int, CliquePart] = {}
    for edge in range(plan.edges):
        if edge in outputs:
            continue
        if not ends[edge]:
            ends[edge].append(CliquePart(len(sizes), edge, int(plan.cardinality[edge])))
            sizes.append(int(plan.cardinality[edge]))
        home[edge] = ends[edge][0]
    between = [(parts[0], parts[1], -1) for parts in ends.values() if len(parts) == 2]
    found = []
    for siso, table in enumerate(plan.siso_table.tolist()):
        source, target = int(plan.siso_input[siso]), int(plan.siso_output[siso])
        if siso in leaves:
            found.append(CliqueLeaf(home[source], table, target, siso))
        else:
            between.append((home[source], home[target], table))
    return _rooted(np.array(sizes), between, found, home)


def _leaf_sisos(plan: Plan, ends: dict[int, list[CliquePart]], soft: frozenset[int]) -> set[int]:
    """Return the SISO blocks whose output no block reads and has no soft evidence."""
    outputs = plan.siso_output.tolist()
    read = set(plan.siso_input.tolist())
    return {siso for siso, edge in enumerate(outputs) if not ends[edge] and edge not in read and edge not in soft}


def _rooted(
    sizes: np.ndarray,
    between: list[tuple[CliquePart, CliquePart, int]],
    leaves: list[CliqueLeaf],
    home: dict[int, CliquePart],
) -> CliqueTree:
    """Root every connected tree at its centre, which gives the fewest levels."""
    near: list[list[tuple[int, int]]] = [[] for _ in sizes]
    for number, (one, other, _) in enumerate(between):
        near[one.clique].append((other.clique, number))
        near[other.clique].append((one.clique, number))
    cliques = [[there for there, _ in links_of] for links_of in near]
    depth = np.full(len(sizes), -1)
    links: dict[int, CliqueLink] = {}
    roots = []
    for first in range(len(sizes)):
        if depth[first] >= 0:
            continue
        root = tree_centre(cliques, first)
        roots.append(root)
        depth[root] = 0
        reached = [root]
        for here in reached:
            for there, number in near[here]:
                if depth[there] < 0:
                    depth[there] = depth[here] + 1
                    one, other, table = between[number]
                    downward = one.clique == here
                    links[there] = (
                        CliqueLink(other, one, table, True) if downward else CliqueLink(one, other, table, False)
                    )
                    reached.append(there)
    return CliqueTree(sizes, depth, links, tuple(leaves), home, tuple(roots))
