"""Queries about the arcs of a Bayesian network: ancestors, Markov blanket, d-separation, equivalence class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from ..core import settings
from ..core.exceptions import FgrnError, unknown_name
from ..core.settings import Name
from ..core.variable import Variable

ParentsOf = Mapping[str, Sequence[str]]
"""The parents of every variable."""


class EquivalenceClass(NamedTuple):
    """All structures that imply the same independences, as one partly directed graph (CPDAG).

    Attributes:
        arcs: pairs (parent, child) that all of them have.
        edges: pairs of neighbours whose arc has either direction in some of them, in the order of the variables.
    """

    arcs: frozenset[tuple[str, str]]
    edges: frozenset[tuple[str, str]]


def children_of(parents: ParentsOf) -> dict[str, list[str]]:
    """Return the children of every variable."""
    out: dict[str, list[str]] = {name: [] for name in parents}
    for child, some in parents.items():
        for parent in some:
            out[parent].append(child)
    return out


def closure(names: Iterable[str], beside: Mapping[str, Iterable[str]]) -> set[str]:
    """Return some names, and all names that can be reached from them."""
    found = set(names)
    line = list(found)
    for name in line:  # the list grows during the loop
        new = [other for other in beside[name] if other not in found]
        found.update(new)
        line += new
    return found


def d_connected(parents: ParentsOf, sources: Iterable[str], given: Collection[str]) -> set[str]:
    """Return the variables that are not d-separated from the sources given others (Shachter, 1998).

    A path through a variable is open where that is not given; where two arrows meet in it, if it or a descendant is.
    """
    known = set(given)
    children = children_of(parents)
    above = closure(known, parents)  # of which a descendant is given, or which are given
    seen: set[tuple[str, bool]] = set()
    line = [(name, True) for name in sources if name not in known]
    seen.update(line)
    found: set[str] = set()
    for name, from_child in line:  # the list grows during the loop
        if name not in known:
            found.add(name)
        steps: list[tuple[str, bool]] = []
        if name not in known:
            steps += [(child, False) for child in children[name]]
        if (from_child and name not in known) or (not from_child and name in above):
            steps += [(parent, True) for parent in parents[name]]
        for step in steps:
            if step not in seen:
                seen.add(step)
                line.append(step)
    return found


def moral_pairs(parents: ParentsOf) -> set[frozenset[str]]:
    """Return the pairs of the moral graph: arcs without direction, and parents of a common child."""
    return {frozenset(pair) for child, some in parents.items() for pair in combinations([*some, child], 2)}


def equivalence_class(parents: ParentsOf) -> EquivalenceClass:
    """Return the equivalence class of a structure: its colliders and all arcs they imply (Meek, 1995)."""
    graph = PartlyDirected.of(parents, ((parent, child) for child, some in parents.items() for parent in some))
    for child, some in parents.items():
        for one, other in combinations(some, 2):
            if other not in graph.beside[one]:
                graph.into[child] |= {one, other}
    graph.direct_what_follows()
    return graph.equivalence_class()


@dataclass
class PartlyDirected:
    """A graph in which some edges have a direction, and others have none yet.

    Attributes:
        names: of the variables, in order.
        beside: the neighbours of each variable.
        into: the parents of each variable: the neighbours from which an arc leads to it.
    """

    names: tuple[str, ...]
    beside: dict[str, set[str]]
    into: dict[str, set[str]]

    @classmethod
    def of(cls, names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> PartlyDirected:
        """Return the graph of some pairs of neighbours without directions."""
        listed = tuple(names)
        beside: dict[str, set[str]] = {name: set() for name in listed}
        for one, other in pairs:
            beside[one].add(other)
            beside[other].add(one)
        return cls(listed, beside, {name: set() for name in listed})

    def undirected_edges(self) -> list[tuple[str, str]]:
        """Return the edges without a direction, in order."""
        place = {name: number for number, name in enumerate(self.names)}
        return [
            (one, other)
            for one in self.names
            for other in sorted(self.beside[one], key=place.__getitem__)
            if place[one] < place[other] and one not in self.into[other] and other not in self.into[one]
        ]

    def direct_what_follows(self) -> None:
        """Direct every edge whose other direction would make a new collider or a cycle (Meek, 1995)."""
        undirected, changed = self.undirected_edges(), True
        while changed:
            changed = False
            for pair in list(undirected):
                for one, other in (pair, pair[::-1]):
                    if self._must_lead(one, other):
                        self.into[other].add(one)
                        undirected.remove(pair)
                        changed = True
                        break

    def _must_lead(self, one: str, other: str) -> bool:
        """Return whether an edge must have the direction one -> other, by Meek's four rules."""
        beside, into = self.beside, self.into
        if any(third not in beside[other] for third in into[one]):
            return True
        if any(one in into[third] for third in into[other]):
            return True
        through = [
            third for third in into[other] if third in beside[one] and third not in into[one] and one not in into[third]
        ]
        if any(second not in beside[first] for first, second in combinations(through, 2)):
            return True
        return any(  # first -> third -> other; only where some directions were known beforehand
            first in beside[one] and first not in beside[other]
            for third in into[other] & beside[one]
            for first in into[third]
        )

    def equivalence_class(self) -> EquivalenceClass:
        """Return the arcs, and the edges without a direction."""
        arcs = frozenset((one, other) for other, some in self.into.items() for one in some)
        return EquivalenceClass(arcs, frozenset(self.undirected_edges()))

    def extension(self) -> dict[str, set[str]] | None:
        """Return the parents of each variable after directing all edges without new colliders; None if impossible.

        Dor and Tarsi (1992). Where several are possible, arcs lead from earlier variables to later ones.
        """
        beside = {name: set(some) for name, some in self.beside.items()}
        parents = {name: set(some) for name, some in self.into.items()}
        left = list(self.names)
        while left:
            for last in reversed(left):
                near = beside[last]
                if any(last in parents[other] for other in near):
                    continue  # an arc leads away from it
                edges = near - parents[last]
                if all(near - {one} <= beside[one] for one in edges):
                    break
            else:
                return None
            parents[last] |= edges
            left.remove(last)
            for one in near:
                beside[one].discard(last)
        return parents


class DirectedGraph:
    """Queries about the arcs of a Bayesian network."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all variables, in order."""

    @abstractmethod
    def parents(self, name: Name) -> tuple[str, ...]:
        """Return the parents of a variable."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""

    @property
    def parents_of_all(self) -> dict[str, tuple[str, ...]]:
        """Return the parents of every variable, by name."""
        return {name: self.parents(name) for name in self.names}

    def ancestors(self, name: Name) -> tuple[str, ...]:
        """Return the ancestors of a variable, in order, without the variable itself."""
        own = self.variable(name).name
        found = closure([own], self.parents_of_all) - {own}
        return tuple(one for one in self.names if one in found)

    def descendants(self, name: Name) -> tuple[str, ...]:
        """Return the descendants of a variable, in order, without the variable itself."""
        own = self.variable(name).name
        found = closure([own], children_of(self.parents_of_all)) - {own}
        return tuple(one for one in self.names if one in found)

    def markov_blanket(self, name: Name) -> tuple[str, ...]:
        """Return the Markov blanket (parents, children, their other parents): given it, all others are independent."""
        own = self.variable(name).name
        found = {other for pair in moral_pairs(self.parents_of_all) if own in pair for other in pair} - {own}
        return tuple(one for one in self.names if one in found)

    def moral_graph(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of the moral graph: arcs without direction, and parents of a common child; in order."""
        place = {name: number for number, name in enumerate(self.names)}
        pairs = (tuple(sorted(pair, key=place.__getitem__)) for pair in moral_pairs(self.parents_of_all))
        return tuple((one, other) for one, other in sorted(pairs, key=lambda pair: (place[pair[0]], place[pair[1]])))

    def d_separated(
        self, one: Name | Collection[Name], other: Name | Collection[Name], given: Collection[Name] = ()
    ) -> bool:
        """Return whether the arcs imply that variables are independent of others, given some (d-separation).

        Args:
            one: a variable, or several.
            other: those they may depend on.
            given: the variables whose states are known.
        """
        left, right = (self._several(which) for which in (one, other))
        known = set(settings.variable_names("given", given, own=self.variable))
        for name in known:
            self.variable(name)
        for name in left:
            if name in right or name in known or (right & known):
                raise FgrnError(
                    "The variables of 'one', 'other' and 'given' must all be different.",
                    value=name,
                    remedies="name each of them once",
                )
        return not d_connected(self.parents_of_all, left, known) & right

    def cpdag(self) -> EquivalenceClass:
        """Return the equivalence class of the structure (CPDAG), as arcs and edges without direction."""
        return equivalence_class(self.parents_of_all)

    def structural_hamming_distance(self, other: DirectedGraph, *, equivalence: bool = True) -> int:
        """Return the number of pairs of variables whose arc differs between two networks (SHD).

        Args:
            other: a network of the same variables.
            equivalence: compare the equivalence classes, where an edge without direction is a fourth way
                (Tsamardinos, Brown and Aliferis, 2006); False compares the arcs themselves.
        """
        for name in {*self.names} ^ {*other.names}:
            raise unknown_name("variable", name, self.names if name not in self.names else other.names)
        mine, theirs = (_joined(one.cpdag() if equivalence else one._as_class()) for one in (self, other))
        return sum(mine.get(pair) != theirs.get(pair) for pair in {*mine, *theirs})

    def _as_class(self) -> EquivalenceClass:
        arcs = ((parent, child) for child, some in self.parents_of_all.items() for parent in some)
        return EquivalenceClass(frozenset(arcs), frozenset())

    def _several(self, names: Name | Collection[Name]) -> set[str]:
        """Return the names of one variable or several, checked."""
        listed = [names] if isinstance(names, (str, Variable)) else list(names)
        return {self.variable(name).name for name in listed}


def _joined(graph: EquivalenceClass) -> dict[frozenset[str], str]:
    """Return the head of the arc between each pair of neighbours; "" if it has no direction."""
    return {frozenset(arc): arc[1] for arc in graph.arcs} | {frozenset(edge): "" for edge in graph.edges}
