"""Structure from independence tests: the PC algorithm (Spirtes, Glymour, 1991; PC-stable: Colombo, Maathuis, 2014).

All columns begin as neighbours. Two are no longer if they are independent given some of the other neighbours of one of
them: sets of 0, 1, 2, ... columns are tried, with neighbours removed only after all sets of one size, so that the order
of the columns does not matter. The test is the likelihood-ratio test

    G2 = 2 sum n_xyz log(n_xyz n_z / (n_xz n_yz)),    (r_x - 1) (r_y - 1) q_z degrees of freedom

with r the states of a column and q_z the joint states of the set z. G2 / 2 is the gain in log-likelihood of x by y as
one more parent beside z, so that it comes from the counts of families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from ..core.exceptions import FgrnWarning, LearningError, Remedy, counted, shortened, warn
from ..engines.family_table import FamilyTable
from .arc_rules import ArcRules
from .climbing import Parents
from .directed_graph import EquivalenceClass, PartlyDirected
from .scores import MOST_FAMILY_CELLS


class Separation(NamedTuple):
    """The columns given which two others tested as independent, and the p-value."""

    given: tuple[str, ...]
    p_value: float


@dataclass(frozen=True, eq=False)
class IndependenceRecord:
    """The results of a search by independence tests: `SearchRecord.independence`.

    Attributes:
        alpha: the p-value above which two columns count as independent.
        tests: how many tests were made.
        graph: the graph found: arcs whose direction is known, and edges that may have either direction (CPDAG).
        separations: for each pair of columns that were found to be independent, given which columns.
        conflicts: colliders (one end, middle, other end) that were left out, as they contradict rules for arcs, or
            colliders of larger p-values, or as the ends are independent given the middle, too.
        extended: whether the network is one of the structures of the graph; there may be none, as tests can err.
    """

    alpha: float
    tests: int
    graph: EquivalenceClass
    separations: Mapping[tuple[str, str], Separation]
    conflicts: tuple[tuple[str, str, str], ...]
    extended: bool


class _Skeleton(NamedTuple):
    """The pairs of neighbours, the separating sets of the others, and the strength of dependence of neighbours."""

    beside: np.ndarray  # (columns, columns) whether two are neighbours
    separations: Mapping[tuple[int, int], tuple[tuple[int, ...], float]]
    strength: np.ndarray  # (columns, columns) the smallest G2 per degree of freedom of all tests
    tests: int


@dataclass(frozen=True)
class IndependenceTests:
    """Independence tests on the counts of a table.

    Attributes:
        table: the rows, in which all columns are known.
        alpha: the p-value above which two columns count as independent.
    """

    table: FamilyTable
    alpha: float

    @classmethod
    def of(cls, table: FamilyTable, alpha: float) -> IndependenceTests:
        """Return the tests on all rows of a table, for any score."""
        return cls(replace(table, term="likelihood", train=table.rows), alpha)

    def statistics(self, one: int, others: np.ndarray, given: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return G2 of a column with each of some others, given a set of columns, and the degrees of freedom."""
        sizes = self.table.sizes
        columns = np.concatenate([[-1], others])
        scores = self.table.scores(one, given, columns, np.ones(len(columns)))
        degrees = (sizes[one] - 1) * (sizes[others] - 1) * prod(sizes[list(given)].tolist())
        return np.maximum(0.0, 2 * (scores[1:] - scores[0])), degrees

    def p_values(self, statistics: np.ndarray, degrees: np.ndarray) -> np.ndarray:
        """Return the p-values of independence tests; 1 for a column with one state."""
        from scipy.special import chdtrc

        return np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistics), 1.0)

    def depends(self, one: int, other: int, given: tuple[int, ...]) -> bool:
        """Return whether two columns are dependent given a set; True if there are too many joint states to count."""
        if prod(self.table.sizes[[one, other, *given]].tolist()) > MOST_FAMILY_CELLS:
            return True
        return bool(self.p_values(*self.statistics(one, np.array([other]), given))[0] <= self.alpha)

    def skeleton(self, rules: ArcRules) -> _Skeleton:
        """Return the pairs of neighbours; tested given sets of at most as many columns as a column may have parents."""
        beside, fixed = rules.allowed | rules.allowed.T, rules.required | rules.required.T
        strength = np.full(beside.shape, np.inf)
        separations: dict[tuple[int, int], tuple[tuple[int, ...], float]] = {}
        tests = 0
        for size in range(min(len(beside) - 1, rules.most + 1)):
            found: dict[tuple[int, int], tuple[tuple[int, ...], float]] = {}
            for one, near in enumerate(beside):
                for given in combinations(np.flatnonzero(near).tolist(), size):
                    others = self._others(beside, fixed, one, given)
                    if not len(others):
                        continue
                    tests += len(others)
                    statistics, degrees = self.statistics(one, others, given)
                    values = self.p_values(statistics, degrees)
                    strength[one, others] = np.minimum(strength[one, others], statistics / np.maximum(degrees, 1))
                    for place in np.flatnonzero(values > self.alpha).tolist():
                        pair = (min(one, int(others[place])), max(one, int(others[place])))
                        if pair not in found or values[place] > found[pair][1]:
                            found[pair] = given, float(values[place])
            for pair in found:
                beside[pair] = beside[pair[::-1]] = False
            separations |= found
            if beside.sum(axis=0).max(initial=0) <= size + 1:  # no neighbour has so many others
                break
        return _Skeleton(beside, separations, np.minimum(strength, strength.T), tests)

    def _others(self, beside: np.ndarray, fixed: np.ndarray, one: int, given: tuple[int, ...]) -> np.ndarray:
        """Return the neighbours of a column to test given a set, without tests that were made before."""
        some = beside[one] & ~fixed[one]
        some[list(given)] = False
        some[:one] &= ~beside[:one, list(given)].all(axis=1)
        cells = float(self.table.sizes[one]) * prod(self.table.sizes[list(given)].tolist()) * self.table.sizes
        return np.flatnonzero(some & (cells <= MOST_FAMILY_CELLS))


def structure_by_tests(tests: IndependenceTests, rules: ArcRules) -> tuple[Parents, IndependenceRecord]:
    """Return the structure that the tests imply, with a direction for every edge, and the record of the search.

    Two columns with a common neighbour, not neighbours themselves, and separated by a set without it, make a collider
    there if they depend on each other given the set and the neighbour. One that contradicts a rule for arcs, or a
    collider whose ends are independent with a larger p-value, is left out.
    Directions that follow are added (Meek, 1995), and the rest is chosen without new colliders (Dor and Tarsi, 1992).
    Where the tests contradict each other so that this is not possible, arcs are taken from the strongest dependence to
    the weakest, each in the direction of the graph unless that closes a cycle.
    """
    found = tests.skeleton(rules)
    names = rules.names
    graph = PartlyDirected.of(names, [(names[a], names[b]) for a, b in np.argwhere(np.triu(found.beside)).tolist()])
    for a, b in np.argwhere(found.beside & (rules.required | ~rules.allowed.T)).tolist():
        graph.into[names[b]].add(names[a])
    conflicts, more = _direct_colliders(graph, found, tests, names)
    graph.direct_what_follows()
    parents = graph.extension()
    extended = parents is not None and max(map(len, parents.values())) <= rules.most
    if parents is None or not extended:
        parents = _strongest_arcs(graph, found, rules)
    place = {name: number for number, name in enumerate(names)}
    record = IndependenceRecord(
        tests.alpha,
        found.tests + more,
        graph.equivalence_class(),
        {
            (names[a], names[b]): Separation(tuple(names[one] for one in given), value)
            for (a, b), (given, value) in sorted(found.separations.items())
        },
        conflicts,
        extended,
    )
    return tuple(frozenset(place[one] for one in parents[name]) for name in names), record


def _direct_colliders(
    graph: PartlyDirected, found: _Skeleton, tests: IndependenceTests, names: tuple[str, ...]
) -> tuple[tuple[tuple[str, str, str], ...], int]:
    """Direct the arcs of colliders, largest p-values first; returns those left out, and the number of tests."""
    left_out, made = [], 0
    for (a, b), (given, _) in sorted(found.separations.items(), key=lambda one: (-one[1][1], one[0])):
        one, other = names[a], names[b]
        for common in np.flatnonzero(found.beside[a] & found.beside[b]).tolist():
            middle = names[common]
            if common in given:
                continue
            possible = middle not in graph.into[one] and middle not in graph.into[other]
            made += possible
            if possible and tests.depends(a, b, tuple(sorted((*given, common)))):
                graph.into[middle] |= {one, other}
            else:
                left_out.append((one, middle, other))
    return tuple(left_out), made


def _strongest_arcs(graph: PartlyDirected, found: _Skeleton, rules: ArcRules) -> dict[str, set[str]]:
    """Return as many arcs as form a structure, strongest first; a warning names those left out."""
    place = {name: number for number, name in enumerate(rules.names)}
    known = [(place[a], place[b]) for a, b in graph.equivalence_class().arcs]
    wanted = [*known, *((place[a], place[b]) for a, b in graph.undirected_edges())]
    fixed = rules.required
    wanted.sort(key=lambda arc: (not fixed[arc], -found.strength[arc], arc))
    kept = rules.without_cycles(wanted)
    parents: dict[str, set[str]] = {name: set() for name in rules.names}
    for a, b in kept:
        parents[rules.names[b]].add(rules.names[a])
    missing = {frozenset(arc) for arc in wanted} - {frozenset(arc) for arc in kept}
    if missing:
        pairs = sorted(" and ".join(repr(rules.names[one]) for one in sorted(pair)) for pair in missing)
        warn(
            f"The rules for arcs leave {counted(len(missing), 'pair')} of dependent columns without an arc: "
            f"{shortened(pairs)}.",
            FgrnWarning,
            remedies=("allow more arcs", Remedy("search by a score instead", method="order")),
        )
    return parents


def refuse_missing() -> LearningError:
    """Return the error for missing values or hidden variables, which independence tests do not support."""
    return LearningError(
        "Some values are missing or hidden, and independence tests need complete rows.",
        remedies=(
            "impute them first (`complete`, `LatentImputer`)",
            Remedy("search by a score, which averages over them", method="order"),
        ),
    )
