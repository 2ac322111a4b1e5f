"""Questions about arcs alone, against other ways to find the answers on random structures."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from test_structure_search import structures

import fgrn
from fgrn import BayesianNetwork, FgrnError, UnknownNameError
from fgrn.bayes.directed_graph import EquivalenceClass, PartlyDirected


def network_of(parents: dict[str, tuple[str, ...]]) -> BayesianNetwork:
    return BayesianNetwork(dict.fromkeys(parents, 2), parents)


def random_structure(seed: int, count: int = 7) -> BayesianNetwork:
    draw = np.random.default_rng(seed)
    names = [f"v{number}" for number in draw.permutation(count)]
    parents = {
        name: tuple(other for other in names[:place] if draw.random() < 0.35) for place, name in enumerate(names)
    }
    return network_of(parents)


def separated_in_moral_graph(net: BayesianNetwork, one: str, other: str, given: set[str]) -> bool:
    """d-separation by the moral graph of the ancestors (Lauritzen et al., 1990)."""
    kept = {one, other, *given}
    kept |= {above for name in kept for above in net.ancestors(name)}
    beside: dict[str, set[str]] = defaultdict(set)
    for child in kept:
        for a, b in combinations([*net.parents(child), child], 2):
            beside[a].add(b)
            beside[b].add(a)
    seen, line = {one}, [one]
    for name in line:
        for near in beside[name] - given - seen:
            seen.add(near)
            line.append(near)
    return other not in seen


@pytest.mark.parametrize("seed", range(8))
def test_d_separation_is_that_of_the_moral_graph_of_ancestors(seed: int) -> None:
    net, draw = random_structure(seed), np.random.default_rng(seed)
    for _ in range(60):
        one, other, *rest = (str(name) for name in draw.permutation(net.names))
        given = set(rest[: int(draw.integers(0, 4))])
        assert net.d_separated(one, other, given) == separated_in_moral_graph(net, one, other, given)
    for name in net.names:
        blanket = net.markov_blanket(name)
        rest = [other for other in net.names if other != name and other not in blanket]
        assert not rest or net.d_separated(name, rest, blanket)
        assert set(net.ancestors(name)) == {one for one in net.names if name in net.descendants(one)}


def test_equivalence_classes_are_those_of_equal_independences() -> None:
    names = ["a", "b", "c", "d"]
    same: dict[tuple[bool, ...], list[BayesianNetwork]] = defaultdict(list)
    for parents in structures(names):
        net = network_of(parents)
        told = []
        for one, other in combinations(names, 2):
            rest = [name for name in names if name not in (one, other)]
            told += [net.d_separated(one, other, some) for k in range(3) for some in combinations(rest, k)]
        same[tuple(told)].append(net)
    for group in same.values():
        arcs = set.intersection(*(set(net.arcs) for net in group))
        skeleton = {frozenset(arc) for arc in group[0].arcs}
        for net in group[:3]:
            found = net.cpdag()
            assert found.arcs == arcs
            assert {frozenset(edge) for edge in found.edges} == skeleton - {frozenset(arc) for arc in arcs}
            assert net.structural_hamming_distance(group[0]) == 0


def graph_of(names: tuple[str, ...], found: EquivalenceClass) -> PartlyDirected:
    graph = PartlyDirected.of(names, [*found.arcs, *found.edges])
    for parent, child in found.arcs:
        graph.into[child].add(parent)
    return graph


@pytest.mark.parametrize("seed", range(8))
def test_an_extension_is_a_structure_of_the_class(seed: int) -> None:
    net = random_structure(seed)
    parents = graph_of(net.names, net.cpdag()).extension()
    assert parents is not None
    extended = network_of({name: tuple(some) for name, some in parents.items()})
    assert extended.cpdag() == net.cpdag()


def test_a_circle_of_four_has_no_extension_without_a_new_collider() -> None:
    circle = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    assert PartlyDirected.of("abcd", circle).extension() is None
    assert PartlyDirected.of("abcd", [*circle, ("a", "c")]).extension() is not None


def test_known_directions_imply_others() -> None:
    graph = PartlyDirected.of("abcd", [("a", "b"), ("a", "c"), ("a", "d"), ("c", "d"), ("d", "b")])
    graph.into["d"].add("c")
    graph.into["b"].add("d")
    graph.direct_what_follows()  # b -> a would need c -> a, so that no circle is closed: a collider of b and c
    assert graph.equivalence_class() == ({("c", "d"), ("d", "b"), ("a", "b")}, {("a", "c"), ("a", "d")})


def test_the_hamming_distance_counts_pairs() -> None:
    one = BayesianNetwork(dict.fromkeys("abc", 2), [("a", "b"), ("b", "c")])
    other = BayesianNetwork(dict.fromkeys("abc", 2), [("b", "a"), ("a", "c")])
    assert one.structural_hamming_distance(other, equivalence=False) == 3
    assert one.structural_hamming_distance(other) == 2
    collider = BayesianNetwork(dict.fromkeys("abc", 2), [("a", "b"), ("c", "b")])
    assert one.structural_hamming_distance(collider) == 2
    assert one.moral_graph() == (("a", "b"), ("b", "c"))
    assert collider.moral_graph() == (("a", "b"), ("a", "c"), ("b", "c"))
    with pytest.raises(UnknownNameError):
        one.structural_hamming_distance(BayesianNetwork({"a": 2}))


def test_questions_about_arcs_check_their_names() -> None:
    net = random_structure(1)
    with pytest.raises(FgrnError, match="all be different"):
        net.d_separated("v0", "v1", ["v1"])
    for ask in (lambda: net.d_separated("v0", "x"), lambda: net.markov_blanket("x"), lambda: net.ancestors("x")):
        with pytest.raises(UnknownNameError):
            ask()
    assert net.d_separated(net.variable("v0"), ["v1"], [net.variable("v2")]) == net.d_separated("v0", "v1", ["v2"])
    assert fgrn.BayesianNetwork({"a": 2, "b": 2}).d_separated("a", "b")
