"""Tables given by few parameters, against enumeration of hidden effects, pyAgrum and scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import BayesianNetwork, DeterministicTable, FgrnError, LogisticTable, NoisyMax, NoisyOr, TableError
from fgrn.bayes.compact_tables import CompactTable

YES_NO = ["no", "yes"]
SIZES = {"a": 2, "b": 3, "c": 2, "y": 3}
PARENTS = {"y": ["a", "b", "c"]}


def with_table(table: Any, sizes: dict[str, Any] = SIZES, parents: dict[str, list[str]] = PARENTS) -> BayesianNetwork:
    draw = np.random.default_rng(5)
    others = {name: draw.dirichlet(np.full(size, 3.0), 1) for name, size in sizes.items() if name not in parents}
    return BayesianNetwork(sizes, parents, {**others, "y": table})


def random_effects(seed: int, reverse: bool = False) -> tuple[dict[str, list[list[float]]], list[float]]:
    draw = np.random.default_rng(seed)
    effects = {}
    for name in PARENTS["y"]:
        rows = draw.dirichlet(np.ones(3), SIZES[name])
        rows[0] = np.eye(3)[-1 if reverse else 0]
        effects[name] = rows.tolist()
    return effects, draw.dirichlet([1.0, 1, 1] if reverse else [4.0, 1, 1]).tolist()


def compact(kind: str, start: bool = True) -> CompactTable:
    effects, leak = random_effects(3)
    if kind == "noisy_max":
        return NoisyMax(effects, leak) if start else NoisyMax(leak=None)
    if kind == "no_leak":
        return NoisyMax(effects) if start else NoisyMax()
    draw = np.random.default_rng(1)
    sizes = [(SIZES[name] - 1, 2) for name in PARENTS["y"]]
    if not start:
        return LogisticTable()
    return LogisticTable([0.2, -0.7], {name: draw.normal(0, 1, size) for name, size in zip("abc", sizes, strict=True)})


def holed(rows: dict[str, np.ndarray], share: float = 0.3) -> dict[str, list[Any]]:
    draw = np.random.default_rng(8)
    return {
        name: [
            None if out else value for value, out in zip(column.tolist(), draw.random(len(column)) < share, strict=True)
        ]
        for name, column in rows.items()
    }


# The tables


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_max_is_the_largest_of_hidden_effects(seed: int, reverse: bool) -> None:
    effects, leak = random_effects(seed, reverse)
    off = {"y": 2} if reverse else None
    net = with_table(NoisyMax(effects, leak, off=off))
    hidden = {f"z{name}": 3 for name in (*PARENTS["y"], "0")}
    larger = (lambda *some: min(some)) if reverse else (lambda *some: max(some))
    tables: dict[str, Any] = {f"z{name}": rows for name, rows in effects.items()}
    tables |= {"z0": [leak], "y": DeterministicTable(larger)}
    tables |= {name: net.table(name) for name in PARENTS["y"]}
    arcs = {**{f"z{name}": [name] for name in PARENTS["y"]}, "y": list(hidden)}
    whole = BayesianNetwork({**SIZES, **hidden}, arcs, tables)
    joint = whole.joint(None, ["a", "b", "c", "y"])[0]
    expected = joint / joint.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(net.table("y").reshape(expected.shape), expected, atol=1e-12)


def test_a_noisy_or_is_that_of_pyagrum() -> None:
    gum = pytest.importorskip("pyagrum")
    theirs = gum.BayesNet()
    chances = {"a": 0.8, "b": 0.3, "c": 0.55}
    for name in chances:
        theirs.add(gum.LabelizedVariable(name, name, 2))
    theirs.addNoisyORNet(gum.LabelizedVariable("y", "y", 2), 0.05)
    for name, chance in chances.items():
        theirs.addWeightedArc(name, "y", chance)
    ours = with_table(NoisyOr(chances, 0.05), dict.fromkeys("abcy", 2))
    table = theirs.cpt("y")
    for row, states in enumerate(np.ndindex(2, 2, 2)):
        here = table[dict(zip("abc", map(int, states), strict=True))]
        np.testing.assert_allclose(ours.table("y")[row], here, atol=1e-6)  # they have single precision


def test_small_probabilities_are_exact() -> None:
    net = with_table(NoisyOr({"a": 1e-12, "b": 0.0, "c": 1e-9}, 1e-15), dict.fromkeys("abcy", 2))
    np.testing.assert_allclose(net.table("y")[[0, 1, 4], 1], [1e-15, 1e-9 + 1e-15, 1e-12 + 1e-15], rtol=1e-12)
    again: Any = net.compact_table("y")
    assert again.effects["c"] == pytest.approx(1e-9, rel=1e-9)


@pytest.mark.parametrize("kind", ["noisy_max", "no_leak", "logistic"])
def test_the_parameters_are_found_in_the_table_again(kind: str) -> None:
    given: Any = compact(kind)
    found: Any = with_table(given).compact_table("y")
    for name in "abc":
        np.testing.assert_allclose(
            np.array(found.effects[name]).ravel(), np.array(given.effects[name]).ravel(), atol=1e-12
        )


def test_a_function_of_the_parents() -> None:
    def more(a: str, b: int) -> str:
        return "yes" if a == "yes" and b > 0 else "no"

    sizes = {"a": YES_NO, "b": 3, "y": YES_NO}
    states = ["no"] * 4 + ["yes"] * 2
    tables = [BayesianNetwork(sizes, {"y": ["a", "b"]}, {"y": one}) for one in (
        DeterministicTable(more), DeterministicTable(states), DeterministicTable([states[:3], states[3:]])
    )]  # fmt: skip
    for net in tables:
        np.testing.assert_array_equal(net.table("y")[:, 1], [0, 0, 0, 0, 1, 1])
        assert net.free_parameters == 3  # those of a and b
    tables[0].learn({"a": YES_NO * 2, "b": [0, 1, 2, 2]})
    np.testing.assert_array_equal(tables[0].table("y")[:, 1], [0, 0, 0, 0, 1, 1])


# Learning


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("kind", ["noisy_max", "no_leak", "logistic"])
def test_learning_never_lowers_the_likelihood_and_keeps_the_form(kind: str, accelerate: bool) -> None:
    true = with_table(compact(kind))
    rows = holed(true.sample(300, seed=2))
    net = BayesianNetwork(SIZES, PARENTS, {"y": compact(kind, start=False)})
    history = net.learn(rows, epochs=8, seed=1, accelerate=accelerate, smoothing=0.1)
    objective = history.objective
    assert (np.diff(objective) > -1e-9 * abs(objective[-1])).all()
    assert objective[-1] > objective[0] + 1
    found: Any = net.compact_table("y")
    np.testing.assert_allclose(with_table(found).table("y"), net.table("y"), atol=1e-9)


@pytest.mark.parametrize("kind", ["noisy_max", "logistic"])
def test_complete_rows_are_learnt_to_the_maximum(kind: str) -> None:
    rows = with_table(compact(kind)).sample(2000, seed=4)
    net = BayesianNetwork(SIZES, PARENTS, {"y": compact(kind, start=False)})
    net.learn(rows, epochs=60)
    found: Any = net.compact_table("y")
    best = net.propagate(rows).log_likelihood.sum()
    draw = np.random.default_rng(0)
    tables = {name: net.table(name) for name in "abc"}
    for _ in range(6):  # no step in any direction is uphill
        if kind == "logistic":
            moved: CompactTable = LogisticTable(
                np.array(found.intercept) + draw.normal(0, 0.01, 2),
                {name: np.reshape(some, (-1, 2)) + draw.normal(0, 0.01, 2) for name, some in found.effects.items()},
            )
        else:
            effects = {}
            for name, some in found.effects.items():
                shaken = np.array(some) * np.exp(draw.normal(0, 0.01, np.shape(some)))
                effects[name] = shaken / shaken.sum(axis=1, keepdims=True)
            moved = NoisyMax(effects, found.leak)
        other = BayesianNetwork(SIZES, PARENTS, {**tables, "y": moved})
        assert other.propagate(rows).log_likelihood.sum() < best + 1e-3


def test_a_logistic_table_is_the_regression_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    rows = with_table(compact("logistic")).sample(1500, seed=6)
    net = BayesianNetwork(SIZES, PARENTS, {"y": LogisticTable()})
    net.learn(rows, epochs=2)
    found: Any = net.compact_table("y")
    X = np.concatenate([np.eye(SIZES[name])[rows[name]][:, 1:] for name in "abc"], axis=1)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, rows["y"])
    slopes = np.concatenate([np.reshape(found.effects[name], (-1, 2)) for name in "abc"])
    np.testing.assert_allclose(slopes, (theirs.coef_[1:] - theirs.coef_[0]).T, atol=2e-4)
    np.testing.assert_allclose(found.intercept, theirs.intercept_[1:] - theirs.intercept_[0], atol=2e-4)


def test_what_no_row_tells_is_as_it_was() -> None:
    net = with_table(NoisyOr({"a": 0.7, "b": 0.4, "c": 0.2}, 0.1), dict.fromkeys("abcy", 2))
    net.learn({"a": [0] * 9, "b": [0, 1, 1] * 3, "c": [0, 0, 1] * 3, "y": [0, 1, 0, 0, 0, 1, 1, 1, 0]}, epochs=30)
    found: Any = net.compact_table("y")
    assert found.effects["a"] == pytest.approx(0.7)
    assert found.effects["b"] != pytest.approx(0.4, abs=1e-3)


def test_tied_and_frozen_tables_of_few_parameters() -> None:
    sizes = dict.fromkeys(["a", "b", "y", "z"], 2)
    table = NoisyOr({"a": 0.6}, 0.1)
    arcs = {"y": ["a"], "z": ["a"]}
    net = BayesianNetwork(sizes, arcs, {"y": table, "z": table}, ties={"y": "same", "z": "same"})
    rows = net.sample(200, seed=1)
    net.learn(rows, epochs=20)
    np.testing.assert_array_equal(net.table("y"), net.table("z"))
    assert net.free_parameters == 2 + 2
    kept = BayesianNetwork(sizes, arcs, {"y": table, "z": table}, frozen=["y"])
    kept.learn(rows, epochs=5)
    assert kept.compact_table("y") == table
    assert kept.compact_table("z") != table


# Files and bad input


@pytest.mark.parametrize("kind", ["noisy_max", "no_leak", "logistic"])
def test_a_model_file_keeps_the_parameters(kind: str, tmp_path: Path) -> None:
    for given in (compact(kind), compact(kind, start=False)):
        net = with_table(given)
        net.learn(with_table(compact(kind)).sample(100), epochs=2)
        net.save(tmp_path / "m.fgrn")
        again = fgrn.load(tmp_path / "m.fgrn")
        assert again == net
        assert type(again.compact_table("y")) is type(given)
        assert again.free_parameters == net.free_parameters
        np.testing.assert_array_equal(again.table("y"), net.table("y"))


def test_other_files_have_the_whole_table(tmp_path: Path) -> None:
    net = with_table(compact("noisy_max"))
    fgrn.write(net, tmp_path / "m.bif")
    np.testing.assert_allclose(fgrn.read(tmp_path / "m.bif").table("y"), net.table("y"), atol=1e-12)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (NoisyOr({"a": 0.5, "b": 0.2, "c": 0.1}), "two states.*NoisyMax"),
        (NoisyMax({"a": [[1, 0, 0], [0, 1, 0]]}), "leave out 'b', 'c'.*each parent"),
        (NoisyMax({"d": [[1, 0, 0], [0, 1, 0]]}), "parent of 'y' called 'd'"),
        (NoisyMax(leak=[0.5, 0.6, 0.1]), "sum to 1"),
        (NoisyMax(leak=0.5), "shape"),
        (NoisyMax(off={"y": 1}), "first or the last"),
        (NoisyMax({"a": [[0, 1, 0], [0, 1, 0]], "b": np.eye(3), "c": [[1, 0, 0]] * 2}), "is none"),
        (LogisticTable([0, 0]), "both, or neither"),
        (LogisticTable([0, np.nan], dict.fromkeys("abc", 1)), "finite"),
        (DeterministicTable([0, 1]), "12 joint states"),
        (DeterministicTable(lambda *some: "much"), "'much'"),
    ],
)  # fmt: skip
def test_what_makes_no_table_is_said(table: CompactTable, words: str) -> None:
    with pytest.raises(FgrnError, match=words):
        BayesianNetwork(SIZES, PARENTS, {"y": table})


def test_a_first_state_called_yes_is_not_taken_for_absent() -> None:
    sizes = {"a": ["yes", "no"], "y": ["yes", "no"]}
    with pytest.raises(TableError, match="off='no'"):
        BayesianNetwork(sizes, {"y": ["a"]}, {"y": NoisyOr({"a": 0.9})})
    net = BayesianNetwork(sizes, {"y": ["a"]}, {"y": NoisyOr({"a": 0.9}, off="no")})
    np.testing.assert_allclose(net.table("y"), [[0.9, 0.1], [0, 1]])
    with pytest.raises(TableError, match="from 0 to 1"):
        BayesianNetwork(sizes, {"y": ["a"]}, {"y": NoisyOr({"a": 1.9}, off="no")})
    with pytest.raises(TableError, match="support"):
        BayesianNetwork(sizes, {"y": ["a"]}, {"y": NoisyOr({"a": 0.9}, off="no")}, supports={"y": np.ones((2, 2))})


@pytest.mark.parametrize("states", [5, "ab", None, lambda: 0, lambda one, two: 0])
def test_what_is_no_function_of_the_parents_is_told(states: Any) -> None:
    with pytest.raises(fgrn.TableError, match="DeterministicTable"):
        fgrn.BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"b": fgrn.DeterministicTable(states)})


def test_a_loopy_network_leaves_few_parameters_as_they_are() -> None:
    net = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]}, {"c": NoisyOr({"a": 0.7, "b": 0.4})})
    network = net.to_network("loopy")
    rows = {"a": [0, 1, 1], "b": [1, 0, 1], "c": [0, 1, 0]}
    network.learn(rows, epochs=2)
    np.testing.assert_allclose(network.table("c"), net.table("c"))
    assert network.prior("a")[1] == pytest.approx(2 / 3)
