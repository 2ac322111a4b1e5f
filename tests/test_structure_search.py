"""Structure search against enumeration of all structures, scores against loops and pyAgrum, and errors of users."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import date
from itertools import combinations, product
from math import lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import bayesian_network

import fgrn
from fgrn import BayesianNetwork, FgrnWarning, LearningError, UnknownNameError, Variable
from fgrn.bayes import scores
from fgrn.bayes.independence_search import IndependenceTests, _Skeleton, structure_by_tests
from fgrn.bayes.order_search import OrderSearch
from fgrn.bayes.scores import SCORES, FamilyScores
from fgrn.bayes.structure_search import SEARCHES, SearchSettings
from fgrn.engines import family_table

DECOMPOSABLE = SCORES[:4]


def rows_of(seed: int, rows: int = 300, columns: int = 4) -> dict[str, np.ndarray]:
    """Columns that depend on each other: each is a noisy function of the ones before."""
    draw = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for number in range(columns):
        size = int(draw.integers(2, 4))
        base = sum((column * int(draw.integers(0, 3)) for column in found.values()), np.zeros(rows, dtype=int))
        noise = draw.integers(0, size, rows) * (draw.random(rows) < 0.5)
        found[f"c{number}"] = (base + noise) % size
    return found


def plain_score(
    table: dict[str, np.ndarray], parents: dict[str, tuple[str, ...]], name: str, weights: Any = None, size: float = 1.0
) -> float:
    """The score by loops over joint states, as the definitions have it."""
    weights = np.ones(len(next(iter(table.values())))) if weights is None else np.asarray(weights)
    states = {key: int(column.max()) + 1 for key, column in table.items()}
    total = 0.0
    for child, some in parents.items():
        r, q = states[child], int(np.prod([states[p] for p in some], dtype=int))
        for joint in product(*(range(states[parent]) for parent in some)):
            here = np.ones(len(weights), dtype=bool)
            for parent, state in zip(some, joint, strict=True):
                here &= table[parent] == state
            counts = [float(weights[here & (table[child] == state)].sum()) for state in range(r)]
            if name in ("bic", "aic"):
                total += sum(n * log(n / sum(counts)) for n in counts if n)
            else:
                cell = 1.0 if name == "k2" else size / (q * r)
                total += lgamma(r * cell) - lgamma(r * cell + sum(counts))
                total += sum(lgamma(n + cell) - lgamma(cell) for n in counts)
        total -= {"bic": log(weights.sum()) / 2, "aic": 1.0}.get(name, 0.0) * q * (r - 1)
    return total


def structures(names: list[str]) -> list[dict[str, tuple[str, ...]]]:
    """All structures without circles."""
    pairs = list(combinations(names, 2))
    found = []
    for ways in product((0, 1, 2), repeat=len(pairs)):
        parents: dict[str, list[str]] = {name: [] for name in names}
        for (one, other), way in zip(pairs, ways, strict=True):
            if way:
                parents[other if way == 1 else one].append(one if way == 1 else other)
        left = dict(parents)
        while True:
            free = [name for name, some in left.items() if not set(some) & set(left)]
            if not free:
                break
            for name in free:
                del left[name]
        if not left:
            found.append({name: tuple(some) for name, some in parents.items()})
    return found


# Scores


@pytest.mark.parametrize("score", DECOMPOSABLE)
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_definitions(score: str, seed: int) -> None:
    table = rows_of(seed)
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], 300)
    parents: dict[str, tuple[str, ...]] = {"c0": (), "c1": ("c0",), "c2": ("c1", "c0"), "c3": ("c0", "c2", "c1")}
    net = BayesianNetwork(fgrn.states(table), parents)
    assert net.score(table, score) == pytest.approx(plain_score(table, parents, score), rel=1e-12, abs=1e-8)
    found = net.score(table, score, weights=weights, equivalent_size=7.0)
    assert found == pytest.approx(plain_score(table, parents, score, weights, 7.0), rel=1e-12, abs=1e-8)


def test_scores_are_those_of_pyagrum() -> None:
    gum = pytest.importorskip("pyagrum")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: column.astype(str) for name, column in rows_of(5, 500).items()})
    arcs = [("c0", "c1"), ("c0", "c2"), ("c1", "c3"), ("c2", "c3")]
    net = BayesianNetwork(fgrn.states(frame), arcs)
    for score, use in (("bic", "useScoreBIC"), ("aic", "useScoreAIC"), ("k2", "useScoreK2")):
        learner = gum.BNLearner(frame)
        getattr(learner, use)()
        learner.useNoPrior()
        theirs = sum(learner.score(name, list(net.parents(name))) for name in net.names) * log(2)
        if score == "aic":  # there a parameter costs one bit, and not one nat
            theirs -= (1 - log(2)) * net.free_parameters
        near = 1e-4 if score == "k2" else 1e-8  # log Gamma is approximated there
        assert net.score(frame, score) == pytest.approx(theirs, abs=near), score


@pytest.mark.parametrize("term", family_table.TERMS)
@pytest.mark.parametrize("weights", ["equal", "few", "many"])
def test_counts_by_bits_are_those_by_rows(term: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(4)
    sizes = np.array([2, 3, 1, 4, 17, 2])
    rows = 20_000  # more than one block of words
    base = draw.integers(0, 3, rows)
    codes = np.stack([(base + draw.integers(0, size, rows)) % size for size in sizes]).astype(np.int8)
    each = {"equal": np.array([2.0]), "few": draw.choice([1.0, 0.5, 7.0], rows), "many": draw.random(rows) + 0.1}
    arguments = codes, sizes, each[weights], rows - 333 if term == "held out" else rows, term

    def scores() -> list[np.ndarray]:
        table = family_table.FamilyTable(*arguments)
        columns, priors = np.array([5, 4, 2, -1]), np.array([0.3, 0.2, 1.0, 2.0])
        return [table.scores(child, parents, columns, priors) for child, parents in ((0, [1, 3]), (3, []), (4, [0]))]

    found = scores()
    monkeypatch.setattr(family_table, "MOST_CELLS_BY_BITS", 0)
    np.testing.assert_allclose(found, scores(), rtol=1e-12)


def test_held_out_rows_are_scored_under_tables_of_the_others() -> None:
    table = rows_of(1, 200)
    net = BayesianNetwork(fgrn.states(table), [("c0", "c1"), ("c1", "c2"), ("c0", "c2")])
    order = np.random.default_rng(3).permutation(200)
    train, held = order[:150], order[150:]
    other = BayesianNetwork(net.variables, net.arcs)
    other.learn({name: column[train] for name, column in table.items()}, smoothing=0.5)
    expected = other.propagate({name: column[held] for name, column in table.items()}).log_likelihood.sum()
    found = net.score(table, "log_likelihood", held_out=0.25, smoothing=0.5, seed=3)
    assert found == pytest.approx(float(expected), rel=1e-12)


def test_a_score_needs_all_columns_and_no_missing_values() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")])
    with pytest.raises(LearningError, match="no column 'b'"):
        net.score({"a": [0, 1]})
    with pytest.raises(LearningError, match="missing"):
        net.score({"a": [0, 1], "b": [0, None]})
    with pytest.raises(LearningError, match="one of 'bic'"):
        net.score({"a": [0, 1], "b": [0, 1]}, "bick")


# Search


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(2))
def test_the_exact_search_finds_the_best_of_all_structures(score: str, seed: int) -> None:
    table = rows_of(seed, 120)
    states, every = fgrn.states(table), list(structures(list(table)))
    alone = BayesianNetwork(states).score(table, score)
    gain = {
        (name, some): BayesianNetwork(states, {name: some}).score(table, score) - alone
        for name, some in {pair for parents in every for pair in parents.items()}
    }
    best = alone + max(sum(gain[pair] for pair in parents.items()) for parents in every)
    found = fgrn.search(table, score, "exact")
    assert found.search_record is not None
    assert found.search_record.score == pytest.approx(best, rel=1e-12)
    assert found.score(table, score) == pytest.approx(best, rel=1e-12)


RULES: dict[str, Any] = {
    "required": [("c3", "c0")],
    "forbidden": {"c2": ["c1"]},
    "tiers": [["c3", "c0"], ["c2"]],
    "max_parents": 2,
}


def keeps_rules(parents: dict[str, tuple[str, ...]]) -> bool:
    late = {"c2"} & {*parents["c0"], *parents["c3"]}
    return "c3" in parents["c0"] and "c1" not in parents["c2"] and not late and max(map(len, parents.values())) <= 2


@pytest.mark.parametrize("method", SEARCHES)
def test_rules_are_kept(method: str) -> None:
    table = rows_of(7, 150)
    best = max(
        BayesianNetwork(fgrn.states(table), parents).score(table)
        for parents in structures(list(table))
        if keeps_rules(parents)
    )
    found = fgrn.search(table, method=method, restarts=3, **RULES)
    assert keeps_rules(found.parents_of_all)
    assert found.search_record is not None
    if method == "exact":
        assert found.search_record.score == pytest.approx(best, rel=1e-12)
    assert found.search_record.score <= best + 1e-9
    assert fgrn.search(table, roots=["c2", "c1"]).parents("c2") == ()
    if method != "pc":
        open_table = {name: [None, *values[1:-1], None] for name, values in table.items()}
        assert keeps_rules(fgrn.search(open_table, method=method, start=[("c1", "c3")], **RULES).parents_of_all)
        assert keeps_rules(fgrn.arc_confidence(open_table, 3, method=method, **RULES).network(0.3).parents_of_all)


@pytest.mark.parametrize("method", ["hill_climbing", "tabu", "order"])
def test_the_path_of_moves_leads_to_the_network(method: str) -> None:
    table = rows_of(11, 500, 6)
    start = [("c5", "c0"), ("c4", "c1")]
    found = fgrn.search(table, method=method, start=start)
    record = found.search_record
    assert record is not None
    arcs, best = set(start), (BayesianNetwork(fgrn.states(table), start).score(table), set(start))
    for move in record.moves:
        assert move.parent is not None
        assert move.child is not None
        if move.kind == "add":
            arcs.add((move.parent, move.child))
        else:
            arcs.remove((move.parent, move.child))
            arcs |= {(move.child, move.parent)} if move.kind == "reverse" else set()
        score = BayesianNetwork(fgrn.states(table), sorted(arcs)).score(table)
        assert move.score == pytest.approx(score, rel=1e-10)
        best = max(best, (score, set(arcs)), key=lambda one: one[0])
    assert best[1] == set(found.arcs)
    assert record.score == pytest.approx(best[0], rel=1e-12)
    assert np.isfinite(found.propagate(table).log_likelihood).all()


@pytest.mark.parametrize("seed", range(4))
def test_tabu_and_order_search_reach_at_least_the_score_of_hill_climbing(seed: int) -> None:
    table = rows_of(30 + seed, 200, 8)
    climbed, tabu, order, best = (
        fgrn.search(table, "bdeu", method).search_record for method in ("hill_climbing", "tabu", "order", "exact")
    )
    assert climbed is not None
    assert tabu is not None
    assert order is not None
    assert best is not None
    assert climbed.score - 1e-9 <= tabu.score <= order.score + 1e-9
    assert order.score <= best.score + 1e-9
    assert fgrn.search(table, "bdeu").search_record == order  # the default


def test_an_order_search_finds_what_hill_climbing_misses() -> None:
    for seed in range(20):
        table = rows_of(seed, 300, 8)
        climbed, order, again = (
            fgrn.search(table, method=method, restarts=2 if method == "order" else 0, threads=threads)
            for method, threads in (("hill_climbing", None), ("order", 1), ("order", 2))
        )
        assert order == again
        if order.score(table) > climbed.score(table) + 0.1:
            break
    else:
        pytest.fail("the order search found nothing better in 20 tables")


@pytest.mark.parametrize("seed", range(3))
def test_an_order_that_is_shaken_is_never_worse(seed: int) -> None:
    table = rows_of(50 + seed, 300, 8)
    once, shaken, often, best = (
        fgrn.search(table, method=method, restarts=restarts).search_record
        for method, restarts in (("order", 0), ("order", None), ("order", 30), ("exact", None))
    )
    assert once is not None
    assert shaken is not None
    assert often is not None
    assert best is not None
    assert once.score - 1e-9 <= shaken.score <= often.score + 1e-9 <= best.score + 1e-6
    assert shaken.families < 3 * once.families


def test_parents_of_an_order_are_found_again_without_choosing_them_anew() -> None:
    draw = np.random.default_rng(0)
    table, plan = SearchSettings(max_parents=3).prepared(rows_of(7, 200, 8))
    family = FamilyScores.of(table.evidence, table.sizes, plan.rule)
    kept = OrderSearch(family, plan.rules)
    for _ in range(300):
        child, before = int(draw.integers(8)), int(draw.integers(2**8))
        before &= ~(1 << child)
        assert kept._greedy(child, before) == OrderSearch(family, plan.rules)._greedy(child, before)


def test_a_structure_is_found_again_in_its_sample() -> None:
    net = bayesian_chain()
    found = fgrn.search(net.sample(4000, seed=1), method="exact")
    assert found.structural_hamming_distance(net) == 0
    weights = np.tile([1.0, 0.0], 2000)
    half = {name: column[::2] for name, column in net.sample(4000, seed=1).items()}
    assert fgrn.search(net.sample(4000, seed=1), weights=weights).arcs == fgrn.search(half).arcs


def bayesian_chain() -> BayesianNetwork:
    near = [[0.9, 0.1], [0.2, 0.8]]
    tables = {
        "a": [0.4, 0.6],
        "b": near,
        "c": near,
        "d": [[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.6, 0.4]]],
        "e": [0.3, 0.7],
    }
    arcs = [("a", "b"), ("b", "c"), ("c", "d"), ("e", "d")]
    return BayesianNetwork(
        {name: ["no", "yes"] for name in "abcde"}, arcs, {k: np.atleast_2d(v) for k, v in tables.items()}
    )


def test_threads_and_streams_change_nothing(tmp_path: Path) -> None:
    table = rows_of(2, 400, 6)
    file = tmp_path / "table.csv"
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    file.write_text("\n".join(lines) + "\n")
    one, two = fgrn.search(table, threads=1), fgrn.search(table, threads=2)
    streamed = fgrn.search(fgrn.Stream(file))
    assert one == two
    assert streamed.arcs == one.arcs
    assert streamed.search_record is not None
    assert one.search_record is not None
    assert streamed.search_record.score == one.search_record.score


def test_a_search_can_be_ended() -> None:
    found = fgrn.search(rows_of(4), watch=lambda moves, score: moves == 2)
    assert found.search_record is not None
    assert len(found.search_record.moves) == 2


# Missing values


def test_missing_values_are_averaged_over() -> None:
    net = bayesian_chain()
    table = {name: list(column) for name, column in net.sample(3000, seed=2).items()}
    draw = np.random.default_rng(0)
    holes = {name: [None if draw.random() < 0.15 else value for value in column] for name, column in table.items()}
    found = fgrn.search(holes, draws=3)
    assert found.structural_hamming_distance(net) <= 1
    record = found.search_record
    assert record is not None
    observed = float(found.propagate(holes).log_likelihood.sum())
    assert record.score == pytest.approx(observed - found.free_parameters * log(3000) / 2, abs=2.0)
    assert record.score == max(record.rounds)
    with pytest.raises(LearningError, match="score='bic'"):
        fgrn.search(holes, "log_likelihood")


@pytest.mark.parametrize(("score", "price"), [("bic", log(200) / 2), ("aic", 1.0)])
def test_the_score_with_missing_values_is_that_of_the_observed_ones(score: str, price: float) -> None:
    table: dict[str, Any] = {name: column.tolist() for name, column in rows_of(6, 200, 3).items()}
    for row in range(0, 200, 3):
        table["c1"][row] = None
    found = fgrn.search(table, score, smoothing=2.0, draws=2, rounds=2)
    expected = found.propagate(table, keep=[]).log_likelihood.sum() - price * found.free_parameters
    assert found.search_record.score == pytest.approx(float(expected), rel=1e-12)


def test_a_family_too_large_to_count_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "MOST_FAMILY_CELLS", 10)
    net = BayesianNetwork({"a": 3, "b": 2, "c": 2}, {"c": ["a", "b"]})
    with pytest.raises(LearningError, match=r"table of 'c' given 'a', 'b' would have 12 cells.* fewer parents"):
        net.score({"a": [0, 1, 2], "b": [0, 1, 1], "c": [0, 0, 1]})


def test_threads_are_those_of_structural_em_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Scores(FamilyScores):
        @classmethod
        def of(cls, *args: Any, **options: Any) -> FamilyScores:
            asked.append(options.get("threads", args[-1]))
            return super().of(*args, **options)

    monkeypatch.setattr("fgrn.bayes.structural_em.FamilyScores", Scores)
    fgrn.search({"a": [0, 1, None, 1] * 5, "b": [0, 1, 1, 1] * 5}, rounds=1, draws=2, threads=1)
    assert asked == [1]


def test_hidden_variables_have_a_place_in_the_start() -> None:
    mixture = BayesianNetwork(
        {"h": 2, "a": 2, "b": 2, "c": 2},
        {"a": ["h"], "b": ["h"], "c": ["h"]},
        {"h": [[0.5, 0.5]], **{name: [[0.9, 0.1], [0.1, 0.9]] for name in "abc"}},
    )
    table = mixture.sample(1500, seed=0, names=["a", "b", "c"])
    found = fgrn.search(table, hidden={"h": 2}, start={"a": ["h"], "b": ["h"], "c": ["h"]}, draws=3)
    assert {frozenset(arc) for arc in found.arcs} == {frozenset(("h", name)) for name in "abc"}
    with pytest.raises(LearningError, match="hidden, and a column"):
        fgrn.search(table, hidden={"a": 2})
    with pytest.raises(LearningError, match="hidden variable 'g' has no arc"):
        fgrn.search(table, hidden={"h": 2, "g": 2}, start={"a": ["h"]}, required=[("h", "b")])


# Tests of independence


def independence_tests(table: Any, alpha: float = 0.05) -> tuple[tuple[str, ...], IndependenceTests]:
    rows, plan = SearchSettings(method="pc").prepared(table)
    return rows.names, IndependenceTests.of(FamilyScores.of(rows.evidence, rows.sizes, plan.rule).table, alpha)


def test_tests_of_independence_are_those_of_pyagrum() -> None:
    gum = pytest.importorskip("pyagrum")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: column.astype(str) for name, column in rows_of(5, 200).items()})
    frame["c4"] = np.random.default_rng(0).integers(0, 3, 200).astype(str)
    learner = gum.BNLearner(frame)
    learner.useNoPrior()
    names, tests = independence_tests(frame)
    for one, other, known in (("c0", "c1", []), ("c4", "c1", ["c2"]), ("c4", "c0", ["c3", "c1"])):
        places = [names.index(name) for name in (one, other, *known)]
        statistics, degrees = tests.statistics(places[0], np.array(places[1:2]), tuple(places[2:]))
        statistic, value = learner.G2(one, other, known)
        assert statistics[0] == pytest.approx(statistic, rel=1e-9)
        if len(known) < 2:  # with joint states that no row has it takes off degrees of freedom; bnlearn does not
            assert tests.p_values(statistics, degrees)[0] == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_independence_finds_the_equivalence_class_in_a_sample() -> None:
    net = bayesian_chain()
    table = net.sample(4000, seed=1)
    found = fgrn.search(table, method="pc", alpha=0.01)
    record = found.search_record
    assert record is not None
    tests = record.independence
    assert tests is not None
    assert tests.graph == net.cpdag() == found.cpdag()
    assert tests.extended
    assert tests.conflicts == ()
    assert tests.separations["a", "c"].given == ("b",)
    assert tests.separations["a", "e"] == ((), pytest.approx(tests.separations["a", "e"].p_value))
    assert record.score == pytest.approx(found.score(table), rel=1e-12)
    turned = fgrn.search({name: table[name] for name in "debca"}, method="pc", alpha=0.01).search_record
    assert turned is not None
    assert turned.independence is not None
    assert turned.independence.graph.arcs == tests.graph.arcs  # whatever the order of the columns
    known = fgrn.search(table, method="pc", alpha=0.01, tiers=[["c"], ["b"]])
    assert {("c", "b"), ("b", "a")} <= set(known.arcs)


@given(st.integers(2, 7), st.floats(0.1, 0.9), st.integers(0, 2**32 - 1))
def test_independence_without_error_gives_the_equivalence_class(columns: int, density: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    names = [f"c{number}" for number in range(columns)]
    order = draw.permutation(columns)
    arcs = [(names[a], names[b]) for a, b in combinations(order.tolist(), 2) if draw.random() < density]
    net = BayesianNetwork(dict.fromkeys(names, 2), arcs)

    class Separated(IndependenceTests):
        """d-separation in the network instead of a test."""

        def statistics(self, one: int, others: np.ndarray, given: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
            known = [names[place] for place in given]
            depends = [not net.d_separated(names[one], names[other], known) for other in others.tolist()]
            return np.where(depends, 1e3, 0.0), np.ones(len(others))

    rows, plan = SearchSettings(method="pc", states=dict.fromkeys(names, 2)).prepared({name: [0, 1] for name in names})
    table = FamilyScores.of(rows.evidence, rows.sizes, plan.rule).table
    parents, record = structure_by_tests(Separated(table, 0.05), plan.rules)
    assert record.graph == net.cpdag()
    assert record.extended
    assert record.conflicts == ()
    above = {name: [names[one] for one in some] for name, some in zip(names, parents, strict=True)}
    assert BayesianNetwork(net.variables, above).cpdag() == net.cpdag()


def test_tests_that_contradict_each_other_still_give_a_network() -> None:
    names = ("c0", "c1", "c2", "c3")
    beside, independent = np.zeros((4, 4), dtype=bool), list[set[int]]()
    for one, other in ((0, 1), (1, 2), (2, 3), (0, 3)):
        beside[one, other] = beside[other, one] = True

    separations: dict[tuple[int, int], tuple[tuple[int, ...], float]] = {(0, 2): ((1, 3), 0.9), (1, 3): ((0, 2), 0.8)}

    class Contradictory(IndependenceTests):
        def skeleton(self, rules: Any) -> _Skeleton:
            return _Skeleton(beside, separations, np.where(beside, 2.0, np.inf), 6)

        def depends(self, one: int, other: int, given: tuple[int, ...]) -> bool:
            return {one, other} not in independent

    table = rows_of(0, 100)
    tests = Contradictory(independence_tests(table)[1].table, 0.05)
    rules = SearchSettings().prepared(table)[1].rules
    parents, record = structure_by_tests(tests, rules)  # a circle of four, of which no structure has the colliders
    assert not record.extended
    assert rules.checked(parents, "it") == parents
    assert sum(map(len, parents)) == 4
    few = SearchSettings(roots=["c0", "c1"]).prepared(table)[1].rules
    with pytest.warns(FgrnWarning, match="1 pair of dependent columns without an arc: 'c0' and 'c1'"):
        structure_by_tests(tests, few)
    separations[0, 2], separations[1, 3] = ((), 0.9), ((), 0.95)
    _, record = structure_by_tests(tests, rules)
    assert record.conflicts == (("c0", "c1", "c2"), ("c0", "c3", "c2"))  # those of the smaller p-value
    assert record.graph.arcs == {(one, other) for one in ("c1", "c3") for other in ("c0", "c2")}
    assert record.tests == 6 + 2
    independent.append({1, 3})  # given the middle, too: no colliders there
    _, record = structure_by_tests(tests, rules)
    assert record.conflicts == (("c1", "c0", "c3"), ("c1", "c2", "c3"))
    assert record.graph.arcs == {(one, other) for one in ("c0", "c2") for other in ("c1", "c3")}
    assert names == rules.names


def test_independence_is_tested_where_everything_is_known() -> None:
    table: dict[str, Any] = {name: list(column) for name, column in rows_of(0, 20).items()}
    table["c0"][3] = None
    with pytest.raises(LearningError, match="method='order'"):
        fgrn.search(table, method="pc")


# Confidence


def test_confidence_is_the_share_of_samples_with_an_arc() -> None:
    net = bayesian_chain()
    found = fgrn.arc_confidence(net.sample(800, seed=3), 20, method="exact", max_parents=2)
    assert found.strength("a", "b") == 1.0
    assert found.strength("a", "e") < 0.5
    assert (found.shares + found.shares.T <= 1 + 1e-12).all()
    averaged = found.network()
    assert {frozenset(arc) for arc in averaged.arcs} == {frozenset((one.parent, one.child)) for one in found.arcs()}
    assert averaged.structural_hamming_distance(net) <= 1
    assert "strength" in repr(found)
    import matplotlib as mpl

    mpl.use("agg")
    figure = fgrn.plots.graph(averaged, strength=found)
    widths = {line.get_linewidth() for line in figure.axes[0].patches if (line.get_gid() or "").startswith("arc ")}
    assert 3.0 in widths


def star(children: int, states: int, rows: int) -> dict[str, np.ndarray]:
    """Return noisy copies of a column, which comes last: four of five values are the same."""
    draw = np.random.default_rng(0)
    middle = draw.integers(0, states, rows)
    copies = {
        f"c{number}": np.where(draw.random(rows) < 0.8, middle, draw.integers(0, states, rows))
        for number in range(children)
    }
    return {**copies, "y": middle}


@pytest.mark.parametrize("method", SEARCHES)
def test_an_averaged_network_has_no_colliders_where_directions_are_not_determined(method: str) -> None:
    copies = 3 if method == "pc" else 6  # given five of them, tests of 2,000 rows find y independent of the sixth
    table = star(copies, 2, 2000)
    found = fgrn.arc_confidence(table, 4, method=method)
    assert {one.direction for one in found.arcs(0.9)} == {0.5}
    averaged = found.network()
    assert averaged.cpdag() == fgrn.search(table, method=method).cpdag()
    assert averaged.free_parameters == 1 + copies * 2
    assert max(len(averaged.parents(name)) for name in averaged.names) == 1
    joined = table["c1"][table["c0"] == 1].mean()
    assert averaged.posterior({"c0": [1]}, "c1")[0, 1] == pytest.approx(joined, abs=0.03)
    assert averaged.search_record is not None
    assert averaged.search_record.method == method


def test_the_score_limits_the_parents_of_an_averaged_network() -> None:
    table = star(12, 6, 2000)  # with all of them as parents, the table of y has 6 ** 13 cells
    found = fgrn.arc_confidence(table, 1)
    averaged = found.network()
    assert {frozenset(arc) for arc in averaged.arcs} == {frozenset((f"c{one}", "y")) for one in range(12)}
    assert max(len(averaged.parents(name)) for name in averaged.names) == 1


def test_an_averaged_network_has_the_directions_the_samples_agree_on() -> None:
    draw = np.random.default_rng(0)
    table = {name: draw.integers(0, 2, 1000) for name in "bc"}
    table["a"] = np.where(draw.random(1000) < 0.9, table["b"] | table["c"], 1 - (table["b"] | table["c"]))
    table["d"] = np.where(draw.random(1000) < 0.9, table["a"], 1 - table["a"])
    found = fgrn.arc_confidence(table, 5, start=[("d", "a")])  # an arc in the direction that no sample has
    assert found.arc("b", "a") == ("b", "a", 1.0, 1.0)
    assert found.arc("a", "b") == ("a", "b", 1.0, 0.0)
    assert found.arc("b", "c").direction == 0.5
    assert set(found.network().arcs) == {("b", "a"), ("c", "a"), ("a", "d")}
    against = found.shares.T.copy()  # as if all samples had the other directions: they count, not the score
    assert set(replace(found, shares=against).network().arcs) <= {("a", "b"), ("a", "c"), ("d", "a")}
    assert fgrn.arc_confidence(table, 5, required=[("d", "a")]).network().parents("a").count("d") == 1


def test_an_averaged_network_is_searched_to_its_end_after_the_samples_were_stopped() -> None:
    table, whole = star(6, 2, 500), []

    def watch(*_: object) -> bool:
        whole.append(0)
        return len(whole) > 60

    found = fgrn.arc_confidence(table, 1000, method="hill_climbing", watch=watch)
    assert found.samples < 1000
    calls = len(whole)
    assert len(found.network().arcs) == 6
    assert len(whole) == calls


def test_the_threshold_of_an_averaged_network_is_a_share() -> None:
    found = fgrn.arc_confidence(rows_of(0, 20), 1)
    with pytest.raises(LearningError, match="'threshold' is a share of the samples, from 0 to 1"):
        found.network(2)


def test_an_averaged_network_keeps_the_most_parents() -> None:
    draw = np.random.default_rng(0)
    table = {name: draw.integers(0, 2, 200) for name in "abc"}
    table["d"] = (table["a"] + table["b"] + table["c"] > 1).astype(int)
    found = fgrn.arc_confidence(table, 20, max_parents=1, tiers=[["a", "b", "c"], ["d"]], seed=1)
    parents = found.network(0.05).parents("d")
    assert sum(found.shares[:, 3] > 0.05) > 1  # in one sample or another
    assert len(parents) == 1
    assert found.strength(parents[0], "d") == found.shares[:, 3].max()


# What users get wrong


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"required": [("c0", "c1"), ("c1", "c0")]}, "contradict each other. The arcs form a cycle"),
        ({"required": [("c0", "c1")], "forbidden": [("c0", "c1")]}, "'c0' -> 'c1' is required, and it is forbidden"),
        ({"required": [("c0", "c1")], "tiers": [["c1"], ["c0"]]}, "against the tiers, where 'c0' comes after 'c1'"),
        ({"required": [("c0", "c1")], "roots": ["c1"]}, "to a root"),
        ({"required": {"c0": ["c1", "c2"]}, "max_parents": 1}, "2 required parents"),
        ({"tiers": [["c0"], ["c1", "c0"]]}, "'c0' in two tiers, 1 and 2"),
        ({"tiers": ["c0", "c1"]}, r"Got 'c0' in the place of a tier. Put the columns of each tier in brackets"),
        ({"tiers": "c0"}, r"Got 'c0' in the place of a tier"),
        ({"tiers": {"c0": 1}}, "in the place of a tier"),
        ({"start": [("c0", "c1")], "forbidden": [("c0", "c1")]}, "The start has the arc"),
        ({"start": [("c0", "c1"), ("c1", "c0")]}, "The start has a cycle. The arcs form a cycle: c0 -> c1 -> c0"),
        ({"start": [("c0", "c1")], "required": [("c1", "c0")]}, "cannot have the required arcs"),
        ({"forbidden": ["c0"]}, r"pairs \(parent, child\)"),
        ({"alpha": 1.0}, "'alpha' must be less than 1"),
        ({"method": "climb"}, "must be one of 'hill_climbing'"),
        ({"equivalent_size": 0}, "more than 0"),
        ({"held_out": 1.0}, "less than 1"),
        ({"score": "log_likelihood", "smoothing": 0}, "'smoothing' must be more than 0"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(LearningError, match=expected):
        fgrn.search(rows_of(0, 20), **options)


def test_tables_that_cannot_be() -> None:
    with pytest.raises(LearningError, match="two rows or more"):
        fgrn.search({"a": [1], "b": [0]})
    with pytest.raises(UnknownNameError, match="c9"):
        fgrn.search(rows_of(0, 20), required=[("c9", "c0")])
    wide = {f"c{number}": [0, 1, 1] for number in range(21)}
    with pytest.raises(LearningError, match="method='order'"):
        fgrn.search(wide, method="exact")


def test_dates_are_named_with_what_to_do() -> None:
    table = {"day": [date(2020, 1, 1 + row % 3) for row in range(12)], "b": [0, 1] * 6}
    for work in (fgrn.search, fgrn.Schema.infer):
        with pytest.raises(fgrn.SchemaError, match=r"Column 'day'.* of type date\..*the month or the day of the week"):
            work(table)


def test_tables_may_be_learnt_without_smoothing() -> None:
    table = {"a": [0, 0, 1, 1] * 10, "b": [0, 0, 0, 1] * 10}
    found = fgrn.search(table, start=[("a", "b")], smoothing=0)
    np.testing.assert_allclose(found.joint(None, ["a", "b"])[0], [[0.5, 0], [0.25, 0.25]], atol=1e-12)
    table["b"][0] = None  # type: ignore[call-overload]  # by structural EM
    assert np.isfinite(fgrn.search(table, start=[("a", "b")], smoothing=0).search_record.score)


@pytest.mark.parametrize("given", ["start", "required"])
@pytest.mark.parametrize("method", ["hill_climbing", "tabu", "exact"])
def test_a_table_too_large_to_count_is_named(method: str, given: str) -> None:
    table = {f"c{number}": np.arange(60) % 30 for number in range(6)}
    states = {name: list(range(30)) for name in table}
    options: Any = {given: [(f"c{number}", "c5") for number in range(5)]}
    with pytest.raises(LearningError, match=r"table of 'c5' given 'c0', 'c1'.* would have 729,000,000 cells"):
        fgrn.search(table, method=method, states=states, **options)


def test_variables_stand_for_their_names_in_rules() -> None:
    table = rows_of(3, 100)
    c0, c1 = (Variable(name, int(table[name].max()) + 1) for name in ("c0", "c1"))
    assert fgrn.search(table, required=[(c0, c1)]).arcs == fgrn.search(table, required=[("c0", "c1")]).arcs
    assert ("c0", "c1") in fgrn.search(table, required=[(c0, c1)]).arcs


def test_weights_that_are_not_whole_are_told_as_numbers_of_rows() -> None:
    table = rows_of(0, 20)
    with pytest.warns(FgrnWarning, match="the table counts as 10 rows"):
        fgrn.search(table, weights=np.full(20, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fgrn.search(table, weights=np.full(20, 3.0))


def test_equal_rows_count_as_one_with_a_weight() -> None:
    small = bayesian_network(3, zeros=False)
    table = {name: np.repeat(column, 20) for name, column in small.sample(50, seed=0).items()}
    once = {name: column[::20] for name, column in table.items()}
    assert small.score(table, "k2") == pytest.approx(small.score(once, "k2", weights=np.full(50, 20.0)), rel=1e-12)


@pytest.mark.parametrize("learn", [fgrn.search, fgrn.chow_liu])
def test_infinity_is_no_state(learn: Any) -> None:
    with pytest.raises(fgrn.SchemaError, match="infinity is not a state"):
        learn({"a": [1.5, np.inf] * 10, "b": [0, 1] * 10})


def test_an_order_search_exchanges_parents_where_no_more_are_allowed() -> None:
    draw = np.random.default_rng(0)
    c, d = draw.integers(0, 3, (2, 2_000))
    both = 3 * c + d
    a = np.where(draw.random(2_000) < 0.9, both, draw.integers(0, 9, 2_000))  # tells most, alone; c and d tell all
    y = np.where(draw.random(2_000) < 0.99, both, 0)
    table, plan = SearchSettings(score="aic", tiers=[["a", "c", "d"], ["y"]], max_parents=2).prepared(
        {"a": a, "c": c, "d": d, "y": y}
    )
    family = FamilyScores.of(table.evidence, table.sizes, plan.rule)
    assert family.score(3, frozenset([0])) > max(family.score(3, frozenset([one])) for one in (1, 2))
    assert OrderSearch(family, plan.rules).family(3, 0b0111).parents == {1, 2}
