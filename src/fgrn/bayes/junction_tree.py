"""Junction trees: cliques of variables by which a network with loops becomes a tree (names and sizes only).

Variables are eliminated one after the other; each, with its neighbours at that time, is a clique, and is joined to the
clique of the first of these neighbours to go. Cliques inside others are merged with them. A good order makes small
cliques: some greedy rules are tried, and the order with the fewest joint states is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import log, prod
from random import Random

MANY_VARIABLES = 3_000
"""With more of them only the first rule is tried."""

SMALL_TOTAL, TRIES = 50_000, 6
"""With more joint states than the first number, this many more orders are tried."""

SPARSE_TOTAL = 8_000
"""Joint states per variable up to which the fastest rule is good enough for one query: to sum
them takes no longer than to count which neighbours are not joined."""

QUICK_TOTAL = 20_000
"""Joint states per variable up to which a tree for one query is good enough: to sum them takes no longer than
another order."""

MANY_TIMES = 4
"""The ratio of joint states from which other orders of equal variables are tried for one query."""

Steps = list[tuple[int, list[int]]]
"""Variables in the order of their elimination, each with its neighbours at that time, by number."""

EliminationRule = Callable[["_Graph", list[int], int], float]


@dataclass(frozen=True)
class JunctionTree:
    """A junction tree: cliques such that every scope is in one, and each variable's cliques are connected.

    Edges are pairs of cliques with the variables they share, possibly none.
    """

    sizes: Mapping[str, int]
    cliques: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[int, int, tuple[str, ...]], ...]
    states: tuple[int, ...] = field(init=False)  # the joint states of each clique

    def __post_init__(self) -> None:
        sizes = self.sizes
        states = tuple([prod([sizes[name] for name in clique]) for clique in self.cliques])
        object.__setattr__(self, "states", states)

    @property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """The cliques; another name for `cliques`."""
        return self.cliques

    @cached_property
    def total(self) -> int:
        """The total number of joint states of all cliques."""
        return sum(self.states)

    @cached_property
    def largest(self) -> int:
        """The number of the clique with the most joint states."""
        return max(range(len(self.cliques)), key=self.states.__getitem__)

    @cached_property
    def _where(self) -> dict[str, list[int]]:
        where: dict[str, list[int]] = {name: [] for name in self.sizes}
        for number, clique in enumerate(self.cliques):
            for name in clique:
                where[name].append(number)
        return where

    def holding(self, scope: Iterable[str]) -> int:
        """Return the smallest clique that contains all these variables."""
        names = sorted(set(scope), key=lambda name: len(self._where[name]))
        if names and len(self._where[names[0]]) == 1:
            return self._where[names[0]][0]
        found = set(self._where[names[0]]) if names else set(range(len(self.cliques)))
        for name in names[1:]:
            found.intersection_update(self._where[name])
        return min(found, key=lambda number: (self.states[number], number))

    def outwards(self, root: int) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return every clique after its parent: (clique, parent, separator)."""
        beside: list[list[tuple[int, tuple[str, ...]]]] = [[] for _ in self.cliques]
        for a, b, shared in self.edges:
            beside[a].append((b, shared))
            beside[b].append((a, shared))
        order: list[tuple[int, int, tuple[str, ...]]] = [(root, -1, ())]
        for number, before, _ in order:  # the list grows during the loop
            order += [(other, number, shared) for other, shared in beside[number] if other != before]
        return order


def junction_tree(sizes: Mapping[str, int], scopes: Iterable[Sequence[str]], quick: bool = False) -> JunctionTree:
    """Return a junction tree for tables with these scopes, with as few joint states as the heuristics find.

    With `quick`, the variable with the fewest neighbours goes first, and the rules are tried only if that leaves many
    joint states; see `SPARSE_TOTAL` and `QUICK_TOTAL`.
    """
    names = list(sizes)
    graph = _Graph.of([sizes[name] for name in names], names, scopes)
    if quick:
        steps = _fewest_neighbours_first(graph)
        if graph.total(steps) <= SPARSE_TOTAL * len(names):
            return _joined_cliques(names, sizes, steps)
    few = len(names) <= MANY_VARIABLES
    enough = max(SMALL_TOTAL, QUICK_TOTAL * len(names)) if quick else SMALL_TOTAL
    best = _eliminated(graph, RULES[0])
    if graph.is_eliminated_by(best):
        return _spread(_joined_cliques(names, sizes, best))
    if few and not (quick and graph.total(best) <= enough):
        best = min(best, *(_eliminated(graph, rule) for rule in RULES[1:]), key=graph.total)
    again, much = Random(0), MANY_TIMES * enough if quick else enough
    for _ in range(TRIES if few and graph.total(best) > much else 0):  # equals in another order
        ranks = again.sample(range(len(names)), len(names))
        best = min(best, *(_eliminated(graph, rule, ranks) for rule in RULES[:2]), key=graph.total)
    return _spread(_joined_cliques(names, sizes, best))


@dataclass(frozen=True)
class _Graph:
    """The neighbours of each variable (those in a common table), as bits of an integer."""

    counts: Sequence[int]  # of states
    neighbours: Sequence[int]

    @classmethod
    def of(cls, counts: Sequence[int], names: Sequence[str], scopes: Iterable[Sequence[str]]) -> _Graph:
        place_of = {name: place for place, name in enumerate(names)}
        joined = [0] * len(names)
        for scope in scopes:
            if len(scope) < 2:
                continue
            places = [place_of[name] for name in scope]
            members = 0
            for place in places:
                members |= 1 << place
            for place in places:
                joined[place] |= members
        return cls(counts, [members & ~(1 << place) for place, members in enumerate(joined)])

    @cached_property
    def by_count(self) -> list[tuple[int, int]]:
        """Numbers of states, each with the variables that have it, as bits."""
        found: dict[int, int] = {}
        for place, count in enumerate(self.counts):
            found[count] = found.get(count, 0) | 1 << place
        return list(found.items())

    def total(self, steps: Steps) -> int:
        """Return the total number of joint states of all cliques of an elimination."""
        counts = self.counts
        return sum([counts[one] * prod([counts[k] for k in others]) for one, others in steps])

    def is_eliminated_by(self, steps: Steps) -> bool:
        """Return whether an elimination adds no edge, in which case its cliques are optimal."""
        return 2 * sum(len(others) for _, others in steps) == sum(mine.bit_count() for mine in self.neighbours)

    def weight(self, members: int) -> int:
        """Return the sum of the states of some variables."""
        return sum(count * (members & same).bit_count() for count, same in self.by_count)


def places_of_bits(bits: int) -> list[int]:
    """Return the positions of the bits that are one."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def _missing(graph: _Graph, neighbours: list[int], one: int) -> float:
    """Return the number of fill-in edges: pairs of neighbours that would have to be joined."""
    mine = neighbours[one]
    if mine.bit_count() < 2:
        return 0.0
    members = places_of_bits(mine)
    return (sum([(mine & ~neighbours[other]).bit_count() for other in members]) - len(members)) / 2


def _weighted(graph: _Graph, neighbours: list[int], one: int) -> float:
    """Return the weight of fill-in edges: the joint states of pairs of neighbours that would have to be joined."""
    mine, counts = neighbours[one], graph.counts
    total = 0
    for other in places_of_bits(mine):
        apart = mine & ~neighbours[other]
        if apart.bit_count() > 1:  # itself is always among them
            total += counts[other] * (graph.weight(apart) - counts[other])
    return total / 2


def _joint_states(graph: _Graph, neighbours: list[int], one: int) -> float:
    """Return the logarithm of the number of joint states of the clique."""
    mine = neighbours[one]
    return log(graph.counts[one]) + sum([log(count) * (mine & same).bit_count() for count, same in graph.by_count])


RULES: tuple[EliminationRule, ...] = (_missing, _weighted, _joint_states)
"""The cost of eliminating a variable next: the one for which it is least goes."""


def _eliminated(graph: _Graph, rule: EliminationRule, ranks: Sequence[int] | None = None) -> Steps:
    """Return the elimination order, each variable with its neighbours at that time; ties are broken by rank."""
    now = list(graph.neighbours)
    cost = [rule(graph, now, one) for one in range(len(now))]

    def entry(one: int) -> tuple[float, int, int]:
        return cost[one], now[one].bit_count() if ranks is None else ranks[one], one

    heap = [entry(one) for one in range(len(now))]
    heapify(heap)
    gone = [False] * len(now)
    steps: Steps = []
    while heap:
        value, _, one = heappop(heap)
        if gone[one] or value != cost[one]:
            continue  # an old entry
        gone[one] = True
        mine, bit = now[one], 1 << one
        members = places_of_bits(mine)
        steps.append((one, members))
        if rule is _missing and not value:  # the neighbours are joined already: their costs follow without counting
            for other in members:
                less = now[other].bit_count() - len(members)
                now[other] &= ~bit
                if less:
                    cost[other] -= less
                    heappush(heap, entry(other))
            continue
        touched = mine
        for other in members:
            new = mine & ~now[other] & ~(1 << other)
            now[other] = (now[other] | new) & ~bit
            for third in places_of_bits(new):  # whose pairs of neighbours were joined
                touched |= now[other] & now[third]
        for other in places_of_bits(touched & ~bit):
            value = rule(graph, now, other)
            if value != cost[other]:
                cost[other] = value
                heappush(heap, entry(other))
    return steps


def _fewest_neighbours_first(graph: _Graph) -> Steps:
    """Return the elimination order by the number of neighbours, which needs no counts of pairs."""
    now = list(graph.neighbours)
    heap = [(mine.bit_count(), one) for one, mine in enumerate(now)]
    heapify(heap)
    gone = [False] * len(now)
    steps: Steps = []
    while heap:
        count, one = heappop(heap)
        mine = now[one]
        if gone[one] or count != mine.bit_count():
            continue  # an old entry
        gone[one] = True
        bit = 1 << one
        if count == 1:  # what most of them are
            other = mine.bit_length() - 1
            steps.append((one, [other]))
            now[other] = new = now[other] ^ bit
            heappush(heap, (new.bit_count(), other))
            continue
        members, whole = [], mine | bit
        while mine:
            lowest = mine & -mine
            mine ^= lowest
            other = lowest.bit_length() - 1
            members.append(other)
            old = now[other]
            now[other] = new = (old | whole) ^ (bit | lowest)
            if (fewer := new.bit_count()) != old.bit_count():
                heappush(heap, (fewer, other))
        steps.append((one, members))
    return steps


def _joined_cliques(names: Sequence[str], sizes: Mapping[str, int], steps: Steps) -> JunctionTree:
    """Return the tree of the cliques, without those that are subsets of another."""
    when = [0] * len(steps)
    for place, (one, _) in enumerate(steps):
        when[one] = place
    members: list[list[int]] = []  # of each clique
    shared: list[list[int]] = []  # of each clique, its separator
    waiting: list[list[int]] = [[] for _ in steps]  # cliques whose separator goes to this step
    edges_to: list[int] = []  # of each clique, the one its separator goes to; -1 if it is empty
    for place, (one, others) in enumerate(steps):
        came, wanted = waiting[place], 1 + len(others)
        for number in came:
            if len(shared[number]) == wanted:  # the separator is this clique
                shared[number] = others
                break
        else:
            number = len(members)
            members.append(sorted([one, *others]))
            shared.append(others)
            edges_to.append(-1)
        for other in came:
            edges_to[other] = number
        edges_to[number] = -1
        if others:
            waiting[when[others[0]] if wanted == 2 else min([when[other] for other in others])].append(number)
    cliques = tuple([tuple([names[one] for one in some]) for some in members])
    edges = [
        (number, target, tuple([names[one] for one in shared[number]]))
        for number, target in enumerate(edges_to)
        if target >= 0
    ]
    if len(edges) < len(cliques) - 1:  # pieces that have nothing in common
        first, *tops = [number for number, target in enumerate(edges_to) if target < 0]
        edges += [(top, first, ()) for top in tops]
    return JunctionTree(dict(sizes), cliques, tuple(edges))


def _spread(tree: JunctionTree) -> JunctionTree:
    """Return the cliques with neighbours of a large one moved to a smaller neighbour that contains their separator."""
    below: dict[int, list[tuple[int, tuple[str, ...]]]] = {}
    order = tree.outwards(tree.largest)
    for number, before, shared in order[1:]:
        below.setdefault(before, []).append((number, shared))
    edges: list[tuple[int, int, tuple[str, ...]]] = []
    for number, _, _ in order:
        hosts: list[int] = []
        for other, shared in sorted(below.get(number, ()), key=lambda one: (-len(one[1]), tree.states[one[0]], one[0])):
            wanted = set(shared)
            host = next((one for one in hosts if wanted.issubset(tree.cliques[one])), number)
            edges.append((other, host, shared))
            if host == number and tree.states[other] < tree.states[number]:
                hosts.append(other)
    return JunctionTree(tree.sizes, tree.cliques, tuple(edges))
