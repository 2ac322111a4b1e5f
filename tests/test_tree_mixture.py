"""Mixtures of trees that share the tables of columns: the same model as one network, learnt, asked, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_hidden_trees import tree_rows

import fgrn
from fgrn import TreeMixture, hidden_tree, tree_mixture
from fgrn.bayes.mixture_learning import nearest_centres
from fgrn.bayes.tree_mixture import own_names
from fgrn.files.container import Refused
from fgrn.page.estimator_view import fitted_network
from fgrn.tables.encoded import Evidence

OTHER = tree_rows(60, seed=1, missing=0.2)


def patterns(rows: int = 900, seed: int = 0) -> dict[str, np.ndarray]:
    """Each row is one of five patterns of twelve zeros and ones, some of which are turned."""
    known = np.random.default_rng(9).integers(0, 2, (5, 12))
    rng = np.random.default_rng(seed)
    codes = known[rng.integers(0, 5, rows)] ^ (rng.random((rows, 12)) < 0.1)
    return {f"x{number}": column for number, column in enumerate(codes.T)}


@pytest.fixture(scope="module")
def mixture() -> TreeMixture:
    """Three trees over a - b - c - d, e; some values are missing."""
    rows = tree_rows(300, missing=0.1)
    net = hidden_tree(rows, hidden=3)
    net.learn(rows, epochs=4, smoothing=0.1)
    return tree_mixture(net, rows, 3, rounds=1, epochs=3, strength=2.0)


def test_it_is_the_same_model_as_one_network(mixture: TreeMixture) -> None:
    one = mixture.as_network()
    mine, theirs = mixture.propagate(OTHER), one.propagate(OTHER)
    np.testing.assert_allclose(mine.log_likelihood, theirs.log_likelihood, rtol=1e-12)
    for name in "abcde":
        np.testing.assert_allclose(mine.marginal(name), theirs.marginal(name), atol=1e-12)
    both = theirs.marginal("S:c").reshape(-1, 3, 3)  # rows, trees, states
    np.testing.assert_allclose(mine.marginal("S:c"), both.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(mixture.tree_posterior(OTHER), both.sum(axis=2), atol=1e-12)
    (root,) = one._spec.layout.prior_names
    prior = one.prior(root).reshape(3, 3)
    likelihood = one.embed(OTHER, root).reshape(-1, 3, 3)  # of the row, by tree and state
    given_state = (likelihood * prior).sum(axis=1) / prior.sum(axis=0)
    expected = given_state / given_state.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.embed(OTHER, root), expected, atol=1e-12)
    assert mixture.complete(OTHER) == one.complete(OTHER)
    assert mixture.free_parameters == mixture.network.free_parameters + 2 * (2 + 4 * 6 + 1)


def test_trees_share_the_tables_of_columns_alone(mixture: TreeMixture) -> None:
    trees = [mixture.tree(number) for number in range(3)]
    for name in "abcde":
        assert all(np.array_equal(tree.table(name), mixture.network.table(name)) for tree in trees)
    links = [name for name in own_names(mixture.network) if name not in mixture.network._spec.layout.prior_names]
    assert all(not np.allclose(tree.table(name), mixture.network.table(name)) for tree in trees for name in links)
    assert mixture.weights.sum() == pytest.approx(1)
    with pytest.raises(fgrn.FgrnError, match="There is no tree 3"):
        mixture.tree(3)


def test_a_strong_prior_leaves_the_tree_as_it_is() -> None:
    rows = tree_rows(200)
    net = hidden_tree(rows, hidden=2)
    net.learn(rows, epochs=3, smoothing=0.1)
    found = tree_mixture(net, rows, 2, rounds=1, strength=1e12)
    np.testing.assert_allclose(
        found.propagate(OTHER).log_likelihood, net.propagate(OTHER).log_likelihood, rtol=1e-6
    )  # fmt: skip


def test_rows_are_drawn_as_the_trees_say(mixture: TreeMixture) -> None:
    drawn = mixture.sample(4000, seed=1)
    expected = mixture.propagate(None, keep=["a"]).marginal("a")[0]
    found = [(drawn["a"] == letter).mean() for letter in mixture.variable("a").labels]
    np.testing.assert_allclose(found, expected, atol=0.04)
    given = mixture.sample(500, {"b": ["x", "z"], "d": [None, "y"]}, seed=2)
    assert (given["b"] == np.repeat(["x", "z"], 500)).all()
    assert (given["d"][500:] == "y").all()
    share = mixture.posterior({"b": ["x"], "d": [None]}, "a")[0]
    found = [(given["a"][:500] == letter).mean() for letter in mixture.variable("a").labels]
    np.testing.assert_allclose(found, share, atol=0.08)
    again = mixture.sample(4000, seed=1)
    assert all((again[name] == drawn[name]).all() for name in drawn)


def test_it_comes_back_from_a_file(mixture: TreeMixture, tmp_path: Path) -> None:
    mixture.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert isinstance(again, TreeMixture)
    assert again == mixture
    np.testing.assert_array_equal(again.scores(OTHER), mixture.scores(OTHER))


def test_a_file_whose_mixture_is_of_other_variables_is_refused(mixture: TreeMixture) -> None:
    from fgrn.files.mixture_file import mixture_parts, read_mixture

    document, tensors = mixture_parts(mixture)
    document["mixture"]["names"] = document["mixture"]["names"][::-1]
    with pytest.raises(Refused, match="not of the hidden variables"):
        read_mixture(document, mixture.network, tensors)


def test_held_out_rows_tell_whether_several_trees_are_better() -> None:
    rows, other = patterns(), patterns(seed=1)
    net = hidden_tree(rows, hidden=2)
    net.learn(rows, epochs=10, smoothing=0.5)
    alone = net.propagate(other, keep=[]).log_likelihood.mean()
    several = tree_mixture(net, rows, 5, validation=other)
    assert several.trees == 5
    assert several.propagate(other, keep=[]).log_likelihood.mean() > alone + 0.2
    noise = np.random.default_rng(0).integers(0, 3, (60, 5))
    few = dict(zip("abcde", noise.T, strict=True))
    coins = hidden_tree(few, hidden=1)
    coins.learn(few, epochs=3, smoothing=1.0)
    unlike = {name: 2 - column for name, column in few.items()}
    assert tree_mixture(coins, few, 4, validation=unlike).trees == 1  # with one hidden state trees are all alike


def test_learning_may_be_ended() -> None:
    rows = tree_rows(100)
    net = hidden_tree(rows, hidden=2)
    seen: list[tuple[int, int]] = []

    def watch(tree: int, epoch: int, likelihood: float) -> bool:
        seen.append((tree, epoch))
        return tree == 1

    found = tree_mixture(net, rows, 3, watch=watch)
    assert seen == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]
    for name, stack in found.tables.items():
        own = net.prior(name) if name in net._spec.layout.prior_names else net.table(name)
        np.testing.assert_array_equal(stack[2], own)


def test_rows_begin_in_groups_of_near_ones() -> None:
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 2, 200)
    codes = np.clip(np.where(kind[:, None] == 0, 1, 8) + draw.integers(-1, 2, (200, 6)), 0, 9)
    codes[draw.random(codes.shape) < 0.2] = -1
    group = nearest_centres(Evidence.of_codes(tuple("abcdef"), codes), [10] * 6, 2)
    agrees = (group == kind).mean()
    assert max(agrees, 1 - agrees) > 0.98


@pytest.mark.parametrize("options", [{"trees": 0}, {"rounds": 0}, {"epochs": 0}, {"strength": -1.0}])
def test_settings_are_checked(mixture: TreeMixture, options: dict[str, Any]) -> None:
    with pytest.raises(fgrn.LearningError, match=next(iter(options))):
        tree_mixture(mixture.network, OTHER, **{"trees": 2, **options})


def test_other_messages_have_no_meaning(mixture: TreeMixture) -> None:
    with pytest.raises(fgrn.FgrnError, match="parts"):
        mixture.propagate(OTHER, parts=["forward"])
    with pytest.raises(fgrn.FgrnError, match="not the hidden variable of the root"):
        mixture.embed(OTHER, "S:a")
    with pytest.raises(fgrn.WiringError, match="positive number"):
        TreeMixture(mixture.network, [1.0, 0.0, 1.0], mixture.tables)
    with pytest.raises(fgrn.WiringError, match="shape"):
        TreeMixture(mixture.network, [1.0], mixture.tables)
    with pytest.raises(fgrn.WiringError, match="finite"):
        TreeMixture(mixture.network, [np.inf, *[1.0] * (mixture.trees - 1)], mixture.tables)
    name, stack = next(iter(mixture.tables.items()))
    with pytest.raises(fgrn.TableError, match="sum to 1"):
        TreeMixture(mixture.network, mixture.weights, {**mixture.tables, name: 2 * stack})


# The estimator


@pytest.fixture(scope="module")
def model() -> fgrn.HiddenTreeModel:
    rows = pd.DataFrame(patterns())
    return fgrn.HiddenTreeModel(2, n_trees=5, share_tables=True, n_epochs=8, random_state=0).fit(rows)


def test_the_estimator_answers_with_the_mixture(model: fgrn.HiddenTreeModel, tmp_path: Path) -> None:
    other = pd.DataFrame(patterns(seed=1))
    assert model.n_trees_ == model.mixture_.trees == 5
    assert model.n_hidden_ == model.network_.variable(model._hidden()[0]).cardinality == 2
    codes = model.schema_.codes(other)
    np.testing.assert_array_equal(model.score_samples(other), model.mixture_.propagate(codes, keep=[]).log_likelihood)
    assert model.score(other) > model.network_.propagate(codes, keep=[]).log_likelihood.mean() + 0.2
    assert model.transform(other).shape == (len(other), 2)
    assert len(model.sample(5)) == 5
    drawn = model.sample(3, given=other[:2])
    assert (drawn.to_numpy() == np.repeat(other[:2].to_numpy(), 3, axis=0)).all()
    holes = other[:20].assign(**{other.columns[0]: None})
    assert model.complete(holes)[other.columns[0]].notna().all()
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    np.testing.assert_array_equal(again.score_samples(other), model.score_samples(other))
    np.testing.assert_array_equal(again.transform(other), model.transform(other))
    assert again.n_trees_ == 5
    assert fitted_network(model) == model.mixture_.as_network()
    with pytest.raises(fgrn.LearningError, match="n_trees=1"):
        model.partial_fit(other)


def test_batches_that_are_seen_once_have_one_tree() -> None:
    rows = pd.DataFrame(patterns())
    model = fgrn.HiddenTreeModel(2, n_trees=3, share_tables=True, n_epochs=1, random_state=0).partial_fit(rows[:300])
    model.partial_fit(rows[300:])
    assert model.n_trees_ == 1
    assert not hasattr(model, "mixture_")
