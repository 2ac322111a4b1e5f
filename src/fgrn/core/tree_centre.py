"""Trees as lists of edges: neighbours of nodes, and the centre, whose distance to the farthest node is smallest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def neighbours_of(edges: Iterable[tuple[int, int]], count: int) -> list[list[int]]:
    """Return the neighbours of each of `count` nodes, in the order of the edges."""
    near: list[list[int]] = [[] for _ in range(count)]
    for one, other in edges:
        near[one].append(other)
        near[other].append(one)
    return near


def tree_centre(near: Sequence[Iterable[int]], first: int = 0) -> int:
    """Return the centre of the tree that contains the node `first`; if there are two, the one with the smaller number.

    It lies in the middle of a longest path, whose ends are the nodes farthest from any node, and from each other.

    Args:
        near: for each node the numbers of its neighbours.
        first: any node of the tree.
    """
    one = _farthest(_path_lengths(near, first))
    from_one = _path_lengths(near, one)
    from_other = _path_lengths(near, _farthest(from_one))
    return min(from_one, key=lambda node: (max(from_one[node], from_other[node]), node))


def in_largest_tree(near: Sequence[Iterable[int]]) -> int:
    """Return the first node that belongs to the tree with the most nodes."""
    sizes: dict[int, int] = {}
    reached: set[int] = set()
    for node in range(len(near)):
        if node not in reached:
            tree = _path_lengths(near, node)
            reached |= tree.keys()
            sizes[node] = len(tree)
    return max(sizes, key=sizes.__getitem__)


def _farthest(distance: dict[int, int]) -> int:
    return max(distance, key=distance.__getitem__)


def _path_lengths(near: Sequence[Iterable[int]], first: int) -> dict[int, int]:
    """Return the number of edges between `first` and each node that can be reached from it."""
    distance, reached = {first: 0}, [first]
    for here in reached:  # the list grows during the loop: breadth first
        for there in near[here]:
            if there not in distance:
                distance[there] = distance[here] + 1
                reached.append(there)
    return distance
