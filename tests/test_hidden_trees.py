"""Hidden Chow-Liu trees: the tree is that of chow_liu, learning starts near it and goes beyond, and it is a Network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import hidden_tree
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
