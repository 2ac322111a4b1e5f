"""Tree learning: against all possible trees, and against known results on some tables."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fgrn
from fgrn import BayesianNetwork
from fgrn.bayes import pair_scores
from fgrn.bayes import tree_learning as trees

pytestmark = pytest.mark.slow

Edge = frozenset[str]


# Oracles


def forests(count: int, edges: int | None = None) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield all sets of edges without a cycle over some nodes, of any size or of one."""
    pairs = list(combinations(range(count), 2))
    for size in range(count) if edges is None else (edges,):
        for some in combinations(pairs, size):
            group = list(range(count))
            for one, other in some:
                group = [group[one] if g == group[other] else g for g in group]
            if len(set(group)) == count - size:
                yield some


def information(one: Sequence[Any], other: Sequence[Any], weights: Sequence[float]) -> float:
    """The mutual information of two columns in the rows where both are known, from its definition."""
    both: Counter[tuple[Any, Any]] = Counter()
    left: Counter[Any] = Counter()
    right: Counter[Any] = Counter()
    for a, b, weight in zip(one, other, weights, strict=True):
        if a is not None and b is not None:
            both[a, b] += weight  # type: ignore[assignment]
            left[a] += weight  # type: ignore[assignment]
            right[b] += weight  # type: ignore[assignment]
    total = sum(both.values())
    return sum(n / total * log(n * total / (left[a] * right[b])) for (a, b), n in both.items() if n)


def conditional(one: Sequence[Any], other: Sequence[Any], labels: Sequence[Any], weights: Sequence[float]) -> float:
    """Return the mutual information given the class, in the rows where all three are observed."""
    parts = []
    for label in set(labels) - {None}:
        rows = [
            row
            for row, values in enumerate(zip(one, other, labels, strict=True))
            if None not in values and values[2] == label
        ]
        some = [[column[row] for row in rows] for column in (one, other, weights)]
        parts.append((sum(some[2]), information(*some) if sum(some[2]) else 0.0))
    total = sum(weight for weight, _ in parts)
    return sum(weight * value for weight, value in parts) / total if total else 0.0


def log_likelihood(columns: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]) -> float:
    """Return the log-likelihood of complete rows under the best tables of a tree, from joint counts of neighbours."""

    def term(*some: Sequence[int]) -> float:
        rows = list(zip(*some, strict=True))
        count = Counter(rows)
        return sum(log(count[row] / len(rows)) for row in rows)

    degree = Counter(node for edge in edges for node in edge)
    joint = sum(term(columns[one], columns[other]) for one, other in edges)
    return joint - sum((degree[node] - 1) * term(column) for node, column in enumerate(columns))


def edges_of(network: BayesianNetwork, without: str | None = None) -> set[Edge]:
    return {frozenset(arc) for arc in network.arcs if without not in arc}


def numbered(network: BayesianNetwork, without: str | None = None) -> list[tuple[int, int]]:
    names = [name for name in network.names if name != without]
    return [(names.index(a), names.index(b)) for a, b in network.arcs if without not in (a, b)]


@st.composite
def tables(draw: st.DrawFn, least: int = 2, holes: bool = True) -> dict[str, list[int | None]]:
    """A few columns of a few states, with holes and columns that are alike."""
    columns, rows = draw(st.integers(least, 5)), draw(st.integers(1, 25))
    value = st.integers(0, 2) if not holes else st.one_of(st.integers(0, 2), st.none())
    found = {f"c{n}": draw(st.lists(value, min_size=rows, max_size=rows)) for n in range(columns)}
    for name, other in pairwise(list(found)):
        if draw(st.booleans()):
            found[name] = [b if draw(st.integers(0, 4)) else a for a, b in zip(found[name], found[other], strict=True)]
    return found  # type: ignore[return-value]


def some_weights(rows: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 3), min_size=rows, max_size=rows).filter(any)


def a_tree(seed: int, columns: int = 10, states: int = 3) -> BayesianNetwork:
    """A tree whose neighbours are clearly dependent."""
    rng = np.random.default_rng(seed)
    names = [f"c{number}" for number in range(columns)]
    arcs = {names[n]: [names[rng.integers(n)]] for n in range(1, columns)}
    table = 0.7 * np.eye(states) + 0.3 / states
    made = {name: rng.permutation(table) if name in arcs else np.full(states, 1 / states) for name in names}
    return BayesianNetwork(dict.fromkeys(names, states), arcs, made)


def with_holes(rows: dict[str, np.ndarray], share: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.where(rng.random(len(column)) < share, np.nan, column) for name, column in rows.items()}


# The best of all trees


@given(table=tables(holes=False))
def test_no_tree_has_a_larger_likelihood(table: dict[str, list[int]]) -> None:
    network = fgrn.chow_liu(table, smoothing=0)
    columns = list(table.values())
    best = max(log_likelihood(columns, edges) for edges in forests(len(columns), len(columns) - 1))
    found = network.propagate(table, keep=[]).log_likelihood.sum()
    assert found == pytest.approx(best, abs=1e-8)


@given(data=st.data(), table=tables())
def test_the_sum_of_information_is_the_largest_also_with_holes_and_weights(
    data: st.DataObject, table: dict[str, list[int | None]]
) -> None:
    columns = list(table.values())
    weights = data.draw(some_weights(len(columns[0])))
    network = fgrn.chow_liu(table, states=dict.fromkeys(table, 3), weights=weights, epochs=1)

    def total(edges: Sequence[tuple[int, int]]) -> float:
        return sum(information(columns[a], columns[b], weights) for a, b in edges)

    edges = numbered(network)
    assert total(edges) == pytest.approx(max(map(total, forests(len(columns)))), abs=1e-9)
    assert all(information(columns[a], columns[b], weights) > 1e-13 for a, b in edges)


@given(data=st.data(), table=tables(least=3))
def test_naive_bayes_is_augmented_by_the_tree_of_the_largest_conditional_information(
    data: st.DataObject, table: dict[str, list[int | None]]
) -> None:
    label, *columns = table.values()
    weights = data.draw(some_weights(len(label)))
    network = fgrn.tan(table, "c0", states=dict.fromkeys(table, 3), weights=weights, epochs=1)

    def total(edges: Sequence[tuple[int, int]]) -> float:
        return sum(conditional(columns[a], columns[b], label, weights) for a, b in edges)

    assert all(network.parents(name)[:1] == ("c0",) for name in list(table)[1:])
    assert network.parents("c0") == ()
    edges = numbered(network, without="c0")
    assert len(edges) < len(columns)
    assert total(edges) == pytest.approx(max(map(total, forests(len(columns)))), abs=1e-9)


@given(
    score=st.integers(1, 5).flatmap(
        lambda n: arrays(np.float64, (n, n), elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]))
    )
)
def test_the_forest_is_the_heaviest_and_has_no_edge_that_gains_nothing(score: np.ndarray) -> None:
    score = np.minimum(score, score.T)
    edges = trees.heaviest_forest(score)
    assert sum(score[edge] for edge in edges) == max(sum(score[edge] for edge in some) for some in forests(len(score)))
    assert tuple(sorted((min(edge), max(edge)) for edge in edges)) in {tuple(sorted(f)) for f in forests(len(score))}
    assert all(score[edge] > 0 for edge in edges)


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_a_tree_is_recovered_from_its_rows(seed: int, share: float) -> None:
    truth = a_tree(seed)
    rows = with_holes(truth.sample(5000, seed=seed), share, seed + 100)
    network = fgrn.chow_liu(rows)
    assert edges_of(network) == edges_of(truth)
    assert network.arcs == truth.arcs  # with the first column as their root, as here
    for name in truth.names:
        np.testing.assert_allclose(network.table(name), truth.table(name), atol=0.06)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_an_augmented_tree_is_recovered_from_its_rows(share: float) -> None:
    rng = np.random.default_rng(3)
    tree = a_tree(2, 8)
    arcs = {name: ["class", *tree.parents(name)] for name in tree.names}
    made = {
        name: np.stack([rng.permutation(0.7 * np.eye(3) + 0.1)[: len(tree.table(name))] for _ in range(2)]).squeeze()
        for name in tree.names
    }
    truth = BayesianNetwork({"class": ["no", "yes"], **dict.fromkeys(tree.names, 3)}, arcs, made)
    drawn = truth.sample(6000, seed=1)
    rows = {"class": drawn.pop("class").tolist(), **with_holes(drawn, share, 5)}
    rows["class"][::50] = [None] * len(rows["class"][::50])
    network = fgrn.tan(rows, "class")
    assert edges_of(network, "class") == edges_of(truth, "class")
    assert edges_of(network) == edges_of(truth)


# What must not matter


@given(data=st.data(), table=tables())
def test_the_order_of_rows_does_not_matter(data: st.DataObject, table: dict[str, list[int | None]]) -> None:
    order = data.draw(st.permutations(range(len(table["c0"]))))
    moved = {name: [column[row] for row in order] for name, column in table.items()}
    states = dict.fromkeys(table, 3)
    for learn in (fgrn.chow_liu, lambda rows, **options: fgrn.tan(rows, "c0", **options)):
        one, other = (learn(rows, states=states, epochs=1) for rows in (table, moved))
        assert one.arcs == other.arcs


@given(data=st.data(), table=tables())
def test_weights_are_rows_that_are_there_several_times(data: st.DataObject, table: dict[str, list[int | None]]) -> None:
    weights = data.draw(some_weights(len(table["c0"])))
    several = {name: np.repeat(np.array(column, object), weights).tolist() for name, column in table.items()}
    states = dict.fromkeys(table, 3)
    for learn in (fgrn.chow_liu, lambda rows, **options: fgrn.tan(rows, "c0", **options)):
        for penalty in (0.0, "bic"):
            one = learn(table, states=states, weights=weights, penalty=penalty, epochs=2)
            other = learn(several, states=states, penalty=penalty, epochs=2)
            assert one.arcs == other.arcs
            for name in table:
                np.testing.assert_allclose(one.table(name), other.table(name), atol=1e-9)


@given(data=st.data(), table=tables())
def test_the_root_turns_arcs_round_and_changes_nothing_else(
    data: st.DataObject, table: dict[str, list[int | None]]
) -> None:
    states = dict.fromkeys(table, 3)
    root = data.draw(st.sampled_from(list(table)))
    one = fgrn.chow_liu(table, states=states, epochs=1)
    other = fgrn.chow_liu(table, root, states=states, epochs=1)
    assert other.parents(root) == ()
    assert edges_of(one) == edges_of(other)
    assert all(len(other.parents(name)) <= 1 for name in table)


def test_the_root_of_an_augmented_tree_hangs_on_the_class_alone() -> None:
    rows = a_tree(1).sample(2000)
    one, other = fgrn.tan(rows, "c3"), fgrn.tan(rows, "c3", root="c5")
    assert one.parents("c0") == other.parents("c5") == ("c3",)
    assert edges_of(one) == edges_of(other)
    assert len(one.arcs) == 9 + 8


def test_small_tiles_and_blocks_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = {f"c{n}": rng.choice([np.nan, *range(n + 1)], 3000) for n in range(1, 8)}
    weights = rng.random(3000)
    given_pairs = [
        pair_scores.ColumnPairs([n + 1 for n in range(1, 8)], [(_codes(rows), some)]) for some in (weights, weights > 2)
    ]
    before = [pairs.information() for pairs in given_pairs]
    monkeypatch.setattr(pair_scores, "TILE", 7)
    monkeypatch.setattr(pair_scores, "BLOCK_CELLS", 500)
    for pairs, whole in zip(given_pairs, before, strict=True):
        for one, other in zip(pairs.information(), whole, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
            np.testing.assert_array_equal(one, one.T)


def test_pairs_of_large_columns_are_counted_row_by_row_to_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    codes = np.asfortranarray(np.stack([draw.integers(-1, size, 300) for size in (20, 3, 40, 17)], axis=1))
    for weights in (np.full(300, 2.0), draw.random(300)):
        found = []
        for least in (1, 10**6):
            monkeypatch.setattr(pair_scores, "LARGE_PAIR", least)
            found.append(pair_scores.ColumnPairs([20, 3, 40, 17], [(codes, weights)]).information())
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-14)


def _codes(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([np.where(np.isnan(column), -1, column) for column in rows.values()], axis=1).astype(np.int8)


def test_any_table_will_do() -> None:
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    rng = np.random.default_rng(1)
    rain = rng.choice(["no", "yes"], 300)
    wet = np.where(rng.random(300) < 0.9, rain, "no")
    rows = {
        "rain": rain.tolist(),
        "wet": [None if row % 7 == 0 else value for row, value in enumerate(wet.tolist())],
        "day": rng.integers(1, 8, 300).tolist(),
    }
    expected = fgrn.chow_liu(rows)
    assert ("rain", "wet") in expected.arcs
    for other in (pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows), pd.DataFrame(rows).astype("category")):
        assert fgrn.chow_liu(other) == expected
    frame = pd.DataFrame(rows)
    schema = fgrn.Schema.infer(frame)
    assert fgrn.chow_liu(schema.codes(frame), states=schema.states) == expected


# Penalties, and columns that tell nothing


def test_independent_columns_stay_alone_when_edges_cost_something() -> None:
    rng = np.random.default_rng(0)
    rows = {f"c{n}": rng.integers(0, 3, 2000) for n in range(8)}
    rows["twin"] = np.where(rng.random(2000) < 0.9, rows["c7"], 0)
    assert len(fgrn.chow_liu(rows).arcs) == 8
    assert fgrn.chow_liu(rows, penalty="bic").arcs == (("c7", "twin"),)
    assert fgrn.chow_liu(rows, "twin", penalty="bic").arcs == (("twin", "c7"),)
    assert fgrn.chow_liu(rows, penalty=1e9).arcs == ()
    number = {"bic": log(2000) / 2, "aic": 1}
    for name, value in number.items():
        assert fgrn.chow_liu(rows, penalty=name) == fgrn.chow_liu(rows, penalty=value)


@given(table=tables(holes=False))
def test_with_a_penalty_no_forest_is_better(table: dict[str, list[int]]) -> None:
    columns, rate = list(table.values()), 0.3
    network = fgrn.chow_liu(table, smoothing=0, penalty=rate)
    free = [len(set(column)) - 1 for column in columns]

    def value(edges: Sequence[tuple[int, int]]) -> float:
        return log_likelihood(columns, edges) - rate * sum(free[a] * free[b] for a, b in edges)

    assert value(numbered(network)) == pytest.approx(max(map(value, forests(len(columns)))), abs=1e-8)
    assert network.free_parameters == sum(free) + sum(free[a] * free[b] for a, b in numbered(network))


def test_columns_that_tell_nothing_have_no_arcs() -> None:
    rows = {"a": [0, 0, 1, 1] * 5, "b": [0, 1, 0, 1] * 5, "constant": ["x"] * 20, "twin": [1, 1, 0, 0] * 5}
    assert fgrn.chow_liu(rows).arcs == (("a", "twin"),)
    assert fgrn.chow_liu({"a": [0, 1, 1]}).arcs == ()
    network = fgrn.tan(rows, "b")
    assert set(network.arcs) == {("b", "a"), ("b", "constant"), ("b", "twin"), ("a", "twin")}


def test_columns_that_are_never_known_together_are_not_neighbours() -> None:
    rows = {"a": [0, 1] * 10 + [None] * 20, "b": [None] * 20 + [0, 1] * 10, "c": [0, 1] * 20}
    assert edges_of(fgrn.chow_liu(rows)) == {frozenset("ac"), frozenset("bc")}


def test_distributions_count_for_the_tables_and_not_for_the_tree() -> None:
    rows = {"a": [0, 1, 0, 1, [0.9, 0.1]], "b": [0, 1, 0, 1, 1]}
    network = fgrn.chow_liu(rows, states={"a": 2}, smoothing=0.1)
    assert network.arcs == (("a", "b"),)
    assert network.table("a")[0, 0] > 0.5


def test_settings_of_learning_are_passed_on() -> None:
    rows = {"a": [0, 1, None, 1, 0, 0], "b": [0, 1, 1, 1, None, 0]}
    seen: list[int] = []
    network = fgrn.chow_liu(
        rows, epochs=3, tolerance=0, smoothing={"a": 5}, watch=lambda _, epoch, __: seen.append(epoch)
    )
    assert seen == [0, 1, 2]
    assert network.trained[-1]["smoothing"] == {"a": 5.0}


# What people get wrong


@pytest.mark.parametrize(
    ("data", "options", "error", "words"),
    [
        ({}, {}, fgrn.LearningError, "no rows"),
        (None, {}, fgrn.LearningError, "no rows"),
        ({"a": []}, {}, fgrn.LearningError, "no rows"),
        ({"a": [0, 1], "b": [0]}, {}, fgrn.EvidenceError, "equally many rows"),
        ({"a": [None, None], "b": [0, 1]}, {}, fgrn.EvidenceError, "no known value"),
        ({"a": np.linspace(0, 1, 13)}, {}, fgrn.SchemaError, "Schema.infer"),
        ({"a": list(range(51))}, {}, fgrn.SchemaError, "51 different values"),
        ({"a": [str(n) for n in range(60)]}, {}, fgrn.SchemaError, "identifiers"),
        ({"a": [0, 1]}, {"states": {"b": 2}}, fgrn.UnknownNameError, "'b'"),
        ({"a": [0, 1]}, {"states": {"a": 10**9}}, fgrn.LearningError, "1,000,000,000 states"),
        ({"a": [0, 1]}, {"states": ["a"]}, fgrn.LearningError, "mapping"),
        ({"a": [0, 2]}, {"states": {"a": 2}}, fgrn.EvidenceError, "Row 1, 'a'"),
        ({"a": [0, 1]}, {"root": "c"}, fgrn.UnknownNameError, "'c'"),
        ({"a": [0, 1]}, {"root": np.array(["a", "b"])}, fgrn.UnknownNameError, "array"),
        ({"a": [{1: 2}, {2: 3}]}, {}, fgrn.EvidenceError, "words and numbers"),
        ({"a": [0, 1]}, {"penalty": "mdl"}, fgrn.LearningError, "'bic'"),
        ({"a": [0, 1]}, {"penalty": -1}, fgrn.LearningError, "penalty"),
        ({"a": [0, 1]}, {"penalty": float("nan")}, fgrn.LearningError, "penalty"),
        ({"a": [0, 1]}, {"weights": [1]}, fgrn.EvidenceError, "one number per row"),
        ({"a": [0, 1]}, {"weights": [0, 0]}, fgrn.EvidenceError, "zero"),
        ({"a": [0, 1]}, {"smoothing": -1}, fgrn.LearningError, "smoothing"),
        ({"a": [0, 1]}, {"epochs": 0}, fgrn.LearningError, "epochs"),
        ({"a": [[0.5, 0.5], [1, 0]]}, {}, fgrn.EvidenceError, "distributions"),
        ({"a": fgrn.tables.frames.Coded(np.array([0, 1]))}, {}, fgrn.EvidenceError, "states="),
        (np.zeros((3, 2)), {}, fgrn.EvidenceError, "name its columns"),
    ],
)
def test_errors_say_what_to_do(data: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        fgrn.chow_liu(data, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("clas", {}, fgrn.UnknownNameError, "'class'"),
        (None, {}, fgrn.UnknownNameError, "None"),
        ("class", {"root": "class"}, fgrn.LearningError, "must not be the class"),
        ("class", {"root": "b"}, fgrn.UnknownNameError, "'b'"),
        ("class", {"states": {"class": 5000}}, fgrn.LearningError, "5,000 states"),
    ],
)
def test_errors_about_classes(name: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        fgrn.tan({"a": [0, 1], "class": [0, 1]}, name, **options)
    assert words in str(caught.value)


def test_a_class_alone_cannot_be_told() -> None:
    with pytest.raises(fgrn.LearningError, match="no column apart from the class"):
        fgrn.tan({"class": [0, 1]}, "class")


@pytest.mark.parametrize("scale", [1e-200, 1e90])
def test_huge_and_tiny_weights(scale: float) -> None:
    rows = a_tree(0).sample(2000)
    weights = np.random.default_rng(0).random(2000)
    assert fgrn.chow_liu(rows, weights=weights * scale).arcs == fgrn.chow_liu(rows, weights=weights).arcs


def test_rows_of_weight_zero_tell_nothing() -> None:
    rows = {"a": [0, 1, 0, 1, 0, 1], "b": [0, 1, 0, 1, 1, 0], "c": [0, 0, 1, 1, 0, 1]}
    network = fgrn.tan(rows, "c", weights=[1, 1, 1, 1, 0, 0])
    assert ("a", "b") in network.arcs


# Known tables


PUBLISHED = {"nltcs": -6.76, "msnbc": -6.54, "plants": -16.52, "jester": -58.23, "dna": -87.7}
"""Mean log-likelihood of the test rows under Chow and Liu's tree, as others report it; they smooth differently."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_likelihoods_are_those_that_others_report(shared_data: Path, name: str) -> None:
    folder = shared_data / "debd"
    if not folder.is_dir():
        pytest.skip("the binary tables are not beside this checkout")

    def read(part: str) -> dict[str, np.ndarray]:
        with gzip.open(folder / f"{name}.{part}.data.gz") as file:
            rows = np.loadtxt(file, delimiter=",", dtype=np.int8)
        return {f"x{number}": column for number, column in enumerate(rows.T)}

    train = read("ts")
    network = fgrn.chow_liu(train, states=dict.fromkeys(train, 2))
    found = network.propagate(read("test"), keep=[], parts=["likelihood"]).log_likelihood.mean()
    assert found == pytest.approx(PUBLISHED[name], abs=0.05)


@pytest.mark.parametrize(
    ("file", "label", "gain"),
    [("car.data", 6, 0.06), ("nursery.data", 8, 0.02), ("house-votes-84.data", 0, 0.02)],
)
def test_it_classifies_better_than_naive_bayes(shared_data: Path, file: str, label: int, gain: float) -> None:
    path = shared_data / "tables" / file
    if not path.is_file():
        pytest.skip("the categorical tables are not beside this checkout")
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").split() if line]
    lines = [lines[row] for row in np.random.default_rng(0).permutation(len(lines))]
    table = {f"a{n}": [None if value == "?" else value for value in c] for n, c in enumerate(zip(*lines, strict=True))}
    name, half = f"a{label}", len(lines) // 2
    train, test = ({key: column[part] for key, column in table.items()} for part in (slice(half), slice(half, None)))
    classes = test.pop(name)
    augmented = fgrn.tan(train, name, states=fgrn.states(table))
    naive = BayesianNetwork(fgrn.states(table), [(name, other) for other in test])
    naive.learn(train, smoothing=1.0)
    right = [np.mean(network.classify(test, name) == np.array(classes)) for network in (augmented, naive)]
    assert right[0] > right[1] + gain
