"""Hidden Chow-Liu trees: the tree is that of chow_liu, learning starts near it and goes beyond, and it is a Network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import hidden_tree
from fgrn.bayes.tree_defaults import TreeSizes
from fgrn.core.tree_centre import neighbours_of, tree_centre


def tree_rows(rows: int = 600, seed: int = 0, missing: float = 0.0) -> dict[str, list[Any]]:
    """A chain a - b - c - d with e beside b, of three letters each."""
    rng = np.random.default_rng(seed)

    def noisy(column: np.ndarray, keep: float) -> np.ndarray:
        return np.where(rng.random(rows) < keep, column, rng.integers(0, 3, rows))

    a = rng.integers(0, 3, rows)
    b = noisy(a, 0.8)
    c = noisy(b, 0.7)
    columns = {"a": a, "b": b, "c": c, "d": noisy(c, 0.75), "e": noisy(b, 0.6)}
    return {
        name: [None if rng.random() < missing else "xyz"[code] for code in column] for name, column in columns.items()
    }


def neighbours(net: fgrn.Network) -> set[frozenset[str]]:
    """Pairs of columns whose hidden variables are joined."""
    found = set()
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.output.name.startswith("S:"):
            above = block.input.name.split("->")[0]
            found.add(frozenset({above.removeprefix("S:"), block.output.name.removeprefix("S:")}))
    return found


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_tree_is_that_of_chow_liu(missing: float) -> None:
    rows = tree_rows(missing=missing)
    tree = fgrn.chow_liu(rows, epochs=1)
    net = hidden_tree(rows, hidden=4)
    assert neighbours(net) == {frozenset(arc) for arc in tree.arcs}
    assert {variable.name for variable in net.variables} >= {"a", "S:a", "S:b->b"}


def test_learning_starts_near_the_chow_liu_tree_and_goes_beyond() -> None:
    rows, held_out = tree_rows(2000), tree_rows(2000, seed=1)
    tree = fgrn.chow_liu(rows)
    net = hidden_tree(rows, hidden=6)
    independent = sum(
        np.log(pd.Series(column).map(pd.Series(column).value_counts(normalize=True)).to_numpy()).mean()
        for column in rows.values()
    )
    reached = tree.propagate(rows, keep=[]).log_likelihood.mean()
    history = net.learn(rows, epochs=60, smoothing=0.01)
    assert history.per_row[0] > independent + 0.4 * (reached - independent)
    assert (np.diff(history.objective) >= -1e-9).all()
    assert history.per_row[-1] > reached - 0.01
    assert net.propagate(held_out, keep=[]).log_likelihood.mean() > independent


def test_a_seed_is_a_start() -> None:
    rows = tree_rows()
    one, same, other = (hidden_tree(rows, hidden=3, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_it_is_an_ordinary_network(tmp_path: Any) -> None:
    rows = tree_rows(missing=0.2)
    net = hidden_tree(rows, hidden=3)
    net.learn(rows, epochs=3)
    assert net.posterior(rows, "d").shape == (600, 3)
    completed = net.complete(rows)
    assert list(completed) == list(rows)
    assert all(value is not None for column in completed.values() for value in column)
    assert set(net.sample(5)) >= set(rows)
    net.save(tmp_path / "tree.fgrn")
    assert fgrn.load(tmp_path / "tree.fgrn") == net


def test_states_by_column_and_a_root() -> None:
    rows = tree_rows()
    net = hidden_tree(rows, hidden={"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}, root="d")
    sizes = {variable.name: variable.cardinality for variable in net.variables}
    assert [sizes[f"S:{name}"] for name in "abcde"] == [2, 3, 4, 5, 6]
    assert net.prior("S:d").shape == (5,)


def test_columns_of_many_levels_and_columns_of_no_use() -> None:
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 200, 2000)
    rows = {
        "grey": grey, "next": np.clip(grey + rng.integers(-9, 10, 2000), 0, 199), "same": np.zeros(2000, dtype=int),
        "coin": rng.integers(0, 2, 2000),
    }  # fmt: skip
    net = hidden_tree(rows, hidden=8, states={"grey": 200, "next": 200, "same": 2, "coin": 2}, penalty="bic")
    assert frozenset({"grey", "next"}) in neighbours(net)
    assert len(neighbours(net)) == 3  # one tree: what gains by no edge is joined to the root
    net.learn(rows, epochs=2)
    assert np.isfinite(net.propagate(rows, keep=[]).log_likelihood).all()


def test_as_many_states_as_levels() -> None:
    """Parts of a state at levels it has no share of are tiny, and there are many of them."""
    net = hidden_tree({"a": np.arange(256) % 250, "b": np.arange(256) % 7}, 128, states={"a": 256, "b": 7})
    np.testing.assert_allclose(net.table("a").sum(axis=1), 1, rtol=1e-12)


def test_one_column() -> None:
    net = hidden_tree({"a": ["x", "y", "x"]}, hidden=2)
    assert net.posterior({"a": ["x"]}, "S:a").shape == (1, 2)


@pytest.mark.parametrize(("edges", "count", "found"), [
    ([(0, 1), (1, 2), (2, 3), (3, 4)], 5, 2),
    ([], 1, 0),
    ([(0, 1), (0, 2), (0, 3)], 4, 0),
])  # fmt: skip
def test_the_root_is_in_the_middle(edges: list[tuple[int, int]], count: int, found: int) -> None:
    assert tree_centre(neighbours_of(edges, count)) == found


@pytest.mark.parametrize(("options", "words"), [
    ({"hidden": 0}, "hidden"),
    ({"hidden": {"a": 2}}, "no number of states for column 'b'"),
    ({"hidden": {"z": 2}}, "'z'"),
    ({"root": "z"}, "'z'"),
    ({"penalty": "mdl"}, "penalty"),
])  # fmt: skip
def test_what_cannot_be_meant_is_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(fgrn.FgrnError, match=words):
        hidden_tree(tree_rows(20), **options)


def mixed_rows(rows: int = 1500, seed: int = 0) -> dict[str, np.ndarray]:
    """Of two trees: in one all columns are alike, in the other each is the opposite of the one before."""
    rng = np.random.default_rng(seed)
    which = rng.random(rows) < 0.5
    columns = [rng.integers(0, 2, rows)]
    for _ in range(5):
        follows = np.where(which, columns[-1], 1 - columns[-1])
        columns.append(np.where(rng.random(rows) < 0.1, rng.integers(0, 2, rows), follows))
    return {f"x{number}": column for number, column in enumerate(columns)}


def test_a_mixture_of_trees_is_a_network_with_states_by_tree() -> None:
    rows = mixed_rows()
    net = hidden_tree(rows, hidden=2, trees=3)
    root = net._spec.layout.prior_names[0]
    assert {net.variable(f"S:{name}").cardinality for name in rows} == {6}
    same_tree = np.kron(np.eye(3), np.ones((2, 2))) > 0
    links = [name for name in rows if f"S:{name}" != root]
    for name in links:
        assert (net.table(f"S:{name}")[~same_tree] == 0).all()
    net.learn(rows, epochs=5, smoothing=0.1)
    for name in links:
        assert (net.table(f"S:{name}")[~same_tree] == 0).all()
    assert len({net.table(f"S:{links[0]}")[2 * k : 2 * k + 2, 2 * k : 2 * k + 2].tobytes() for k in range(3)}) == 3


def test_the_likelihood_of_a_mixture_is_that_of_its_trees() -> None:
    rows = mixed_rows(200)
    net = hidden_tree(rows, hidden=2, trees=2, seed=4)
    root = net._spec.layout.prior_names[0]
    total = np.zeros(200)
    for tree in range(2):
        one = {name: net.table(name)[2 * tree : 2 * tree + 2] for name in rows}
        part = slice(2 * tree, 2 * tree + 2)
        links = {f"S:{n}": net.table(f"S:{n}")[part, part] for n in rows if f"S:{n}" != root}
        prior = net.prior(root)[part]
        alone = hidden_tree(rows, hidden=2)
        blocks: list[Any] = []
        for block in alone.blocks:
            if isinstance(block, fgrn.Source):
                blocks.append(fgrn.Source(block.variable, prior / prior.sum()))
            elif isinstance(block, fgrn.SISO):
                blocks.append(fgrn.SISO(block.input, block.output, {**one, **links}[block.output.name]))
            else:
                blocks.append(block)
        total += prior.sum() * np.exp(fgrn.Network(blocks).propagate(rows).log_likelihood)
    np.testing.assert_allclose(net.propagate(rows).log_likelihood, np.log(total), rtol=1e-9)


def test_a_mixture_finds_two_trees_that_one_cannot_be() -> None:
    rows, other = mixed_rows(), mixed_rows(seed=1)
    scores = {
        trees: fgrn.HiddenTreeModel(2, n_trees=trees, n_epochs=15, random_state=0).fit(rows).score(other)
        for trees in (1, 3)
    }
    assert scores[3] > scores[1] + 0.05


def test_an_encoded_table_gives_the_same_tree() -> None:
    rows = tree_rows(100, missing=0.1)
    net = hidden_tree(rows, hidden=3)
    states = {name: net.variable(name).labels for name in rows}
    encoded = net._encode(net._plan(), rows)
    assert hidden_tree(encoded, hidden=3, states=states) == net


def test_hidden_variables_may_have_another_name() -> None:
    net = hidden_tree({"S:a": [0, 1, 0], "a": [0, 1, 1]}, hidden=2, name="H")
    assert {"H:S:a", "H:a"} <= {variable.name for variable in net.variables}
    model = fgrn.HiddenTreeModel(2, n_epochs=2, random_state=0).fit({"S:a": [0, 1, 0], "a": [0, 1, 1]})
    assert model._hidden()[0].startswith("S_:")
    assert model.root_ in ("S:a", "a")


# The estimator


def test_columns_may_have_arrows_in_their_names() -> None:
    rows = {name.replace("b", "a->b"): values for name, values in tree_rows(100).items()}
    model = fgrn.HiddenTreeModel(2, n_trees=1, n_epochs=1, random_state=0).fit(rows)
    assert {frozenset(arc) for arc in model.arcs_} == set(map(frozenset, fgrn.chow_liu(rows, epochs=1).arcs))
    classes = ["xyz".index(value) > 0 for value in rows["a"]]
    trees = fgrn.LatentClassifier(2, structure="tree", n_epochs=2, random_state=0).fit(rows, classes)
    assert trees.score(rows, classes) > 0.9


def test_smoothing_by_cells_is_added_to_the_counts() -> None:
    rows = {"a": [0, 0, 1], "b": [1, 1, 1]}
    net = fgrn.naive_bayes({"a": 2, "b": 2}, "a", tables={"b": [[0.5, 0.5], [0.5, 0.5]]})
    net.learn(rows, epochs=1, smoothing={"b": np.array([[2.0, 0.0], [0.5, 0.5]])})
    np.testing.assert_allclose(net.table("b"), [[0.5, 0.5], [0.25, 0.75]])
    net.learn(rows, epochs=1, smoothing={"b": np.array([1.0, 0.0])})
    np.testing.assert_allclose(net.table("b"), [[1 / 3, 2 / 3], [0.5, 0.5]])
    assert net.trained[-1]["smoothing"] == {"b": 0.5}
    with pytest.raises(fgrn.LearningError, match=r"shape \(3,\)"):
        net.learn(rows, smoothing={"b": np.ones(3)})
    with pytest.raises(fgrn.LearningError, match="count per cell"):
        net.learn(rows, smoothing={"b": np.array([1.0, -1.0])})


def test_the_prior_has_the_levels_of_the_column() -> None:
    rows = {"a": [0] * 9 + [1], "b": [0, 1] * 5}
    model = fgrn.HiddenTreeModel(2, n_trees=2, smoothing=1e9, n_epochs=2, random_state=0).fit(rows)
    np.testing.assert_allclose(model.network_.table("a"), np.tile([9.5 / 11, 1.5 / 11], (4, 1)), atol=1e-6)
    other = next(name for name in ("S:a", "S:b") if name != model._hidden()[0])
    np.testing.assert_allclose(model.network_.table(other), np.kron(np.eye(2), np.full((2, 2), 0.5)), atol=1e-6)


def test_sizes_follow_the_table() -> None:
    def tried(levels: int, rows: int, *given: Any, choice: bool = True) -> list[tuple[int, int, bool]]:
        found = TreeSizes.to_try(levels, rows, *(given or (None, None, None)), choice)
        return [(one.states, one.trees, one.shared) for one in found]

    assert tried(2, 60, choice=False) == [(2, 1, False)]
    assert tried(2, 1600) == [(8, 8, False), (32, 4, True)]
    assert tried(5, 1600) == [(20, 3, False), (32, 4, True)]
    assert tried(5, 1600, choice=False) == [(20, 3, False)]
    assert tried(256, 55_000) == [(128, 16, True)]
    assert tried(256, 55_000, 100, None, None) == [(100, 16, True)]
    assert tried(2, 1600, 4, None, None) == [(4, 16, False)]
    assert tried(2, 1600, None, 3, None) == [(8, 3, False)]
    assert tried(2, 20_000, None, None, True) == [(32, 10, True)]


def test_of_both_kinds_of_trees_the_better_is_kept() -> None:
    rows = tree_rows(300)
    few = fgrn.HiddenTreeModel(n_epochs=1, random_state=0).fit({name: column[:60] for name, column in rows.items()})
    assert (few.n_hidden_, few.n_trees_) == (2, 1)
    assert not len(few.history_.validation)
    both = {
        share: fgrn.HiddenTreeModel(n_epochs=2, random_state=0, share_tables=share, validation=tree_rows(100, 1))
        for share in (False, True, "auto")
    }
    scores = {share: model.fit(rows).score(tree_rows(100, 1)) for share, model in both.items()}
    assert scores["auto"] == max(scores[False], scores[True])
    assert scores[False] != scores[True]


def test_the_root_is_in_the_largest_tree() -> None:
    rows = tree_rows(300)
    net = hidden_tree({"same": ["x"] * 300, **rows}, hidden=2)
    assert net._spec.layout.prior_names[0] == "S:b"
    assert frozenset({"same", "b"}) in neighbours(net)


def test_rows_are_drawn_given_what_is_known() -> None:
    model = fgrn.HiddenTreeModel(3, n_trees=1, n_epochs=10, random_state=0).fit(pd.DataFrame(tree_rows(800)))
    drawn = model.sample(300, given=pd.DataFrame({"a": ["x", "z"]}).reindex(columns=[*"abcde"]))
    assert list(drawn.columns) == list("abcde")
    assert (drawn["a"] == ["x"] * 300 + ["z"] * 300).all()
    assert (drawn["b"][:300] == "x").mean() > 0.7
    assert (drawn["b"][300:] == "z").mean() > 0.7
    assert len(model.sample(7)) == 7


def test_held_out_rows_may_be_a_table(tmp_path: Any) -> None:
    rows, other = pd.DataFrame(tree_rows(300)), pd.DataFrame(tree_rows(100, seed=1))
    model = fgrn.HiddenTreeModel(3, n_trees=1, n_epochs=5, validation=other, random_state=0).fit(rows)
    assert model.score(other) == pytest.approx(max(model.history_.validation), rel=1e-9)
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    np.testing.assert_array_equal(again.score_samples(other), model.score_samples(other))
    assert again.n_trees_ == 1
    assert again.root_ == model.root_


def test_a_class_may_be_one_of_the_columns() -> None:
    rows, test = pd.DataFrame(tree_rows(1000)), pd.DataFrame(tree_rows(300, seed=1))
    model = fgrn.HiddenTreeModel(4, n_trees=1, random_state=0).fit(rows)
    assert model.root_ == "b"
    assert {frozenset(arc) for arc in model.arcs_} == {frozenset(pair) for pair in ("ab", "bc", "cd", "be")}
    assert ("b", "a") in model.arcs_
    filled = model.complete(test.assign(c=None))
    majority = (test["c"] == rows["c"].mode()[0]).mean()
    assert (filled["c"] == test["c"]).mean() > majority + 0.3


def test_many_states_and_levels_start_from_distributions() -> None:
    """What keeps cells of the start above zero adds up over 128 states x 256 levels."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, 256, (300, 2))
    net = fgrn.hidden_tree({"a": codes[:, 0], "b": codes[:, 1]}, 128, states={"a": 256, "b": 256})
    for name in ("a", "b"):
        np.testing.assert_allclose(net.table(name).sum(axis=1), 1, rtol=1e-12)
