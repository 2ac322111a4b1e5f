"""Questions of many rows, put side by side in compiled passes over cliques: against enumeration, and row by row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import as_evidence, bayesian_network, marginal, markov_network, random_row, weighted

import fgrn
from fgrn.bayes import elimination, table_numbers
from fgrn.engines.clique_lanes import LANES

seeds = st.integers(0, 2**32 - 1)


@contextmanager
def rows_side_by_side(fewest: int) -> Iterator[None]:
    """Put rows side by side from so many on, however little work they are, and ask the whole network nothing."""
    patch = pytest.MonkeyPatch()
    patch.setattr(elimination, "SMALL_WORK", 0)
    patch.setattr(elimination, "CLIQUE_COST", 0.0)
    patch.setattr(elimination, "FEW_LANES", fewest)
    patch.setattr(fgrn.BayesianNetwork, "_fits", lambda self: False)
    patch.setattr(fgrn.MarkovNetwork, "_fits", lambda self: False)
    try:
        yield
    finally:
        patch.undo()


def test_lanes_have_one_number() -> None:
    assert elimination.MOST_LANES == LANES


def test_rows_are_not_put_side_by_side_in_many_small_cliques() -> None:
    names = [f"v{number}" for number in range(60)]
    chain = fgrn.BayesianNetwork(dict.fromkeys(names, 10), list(pairwise(names)))
    wide = fgrn.BayesianNetwork(dict.fromkeys("abc", 18), [("a", "c"), ("b", "c")])
    small = chain._near(("v59",), frozenset(), frozenset())
    large = wide._near(("c",), frozenset(), frozenset())
    assert small.tree.total > large.tree.total
    assert not small._in_lanes(400)
    assert large._in_lanes(400)


@given(seed=seeds)
def test_rows_side_by_side_are_answered_as_by_the_enumeration(seed: int) -> None:
    model = markov_network(seed) if seed % 3 == 0 else bayesian_network(seed)
    draw = np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(3)]
    table = as_evidence(rows, model.names)
    some = [str(name) for name in draw.permutation(model.names)[:2]]
    axes = [model.names.index(name) for name in some]
    others = tuple(k for k in range(len(model.names)) if k not in axes)
    with rows_side_by_side(1):
        seen, joint = model.propagate(table), model.joint(table, some)
    for number, row in enumerate(rows):
        every = weighted(model, row)
        assert seen.log_likelihood[number] == pytest.approx(np.log(every.sum()), abs=1e-9)
        for axis, name in enumerate(model.names):
            np.testing.assert_allclose(seen.marginal(name)[number], marginal(every, axis), atol=1e-10)
        expected = every.sum(axis=others).transpose(np.argsort(np.argsort(axes))) / every.sum()
        np.testing.assert_allclose(joint[number], expected, atol=1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_more_rows_than_lanes_are_answered_as_by_themselves(seed: int) -> None:
    model = bayesian_network(seed)
    draw, count = np.random.default_rng(seed), 2 * LANES + 3
    known = [str(name) for name in draw.permutation(model.names)[: min(2, len(model.names) - 1)]]
    table = {name: draw.integers(0, model.variable(name).cardinality, count) for name in known}
    soft = next(name for name in model.names if name not in known)
    table[soft] = draw.random((count, model.variable(soft).cardinality))
    coded = {name: [model.variable(name).labels[code] for code in table[name]] for name in known}
    asked = [name for name in model.names if name not in known][:2]
    answers = []
    for fewest in (1, 10**9):
        model._questions.clear()
        with rows_side_by_side(fewest):
            seen = model.propagate({**coded, soft: table[soft]}, impossible="mark")
            possible = np.flatnonzero(np.isfinite(seen.log_likelihood))
            few = {name: [coded[name][row] for row in possible] for name in known}
            joint = model.joint({**few, soft: table[soft][possible]}, asked)
        answers.append([seen.log_likelihood, joint, *(seen.marginal(name) for name in model.names)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("fewest", [1, 10**9])
def test_improbable_rows_of_long_networks_do_not_vanish(fewest: int) -> None:
    """Every scale that is taken out of a message is put back: 300 findings of probability 1e-8 each."""
    length = 300
    arcs = [(f"x{k}", f"x{k + 1}") for k in range(length - 1)] + [(f"x{k}", f"y{k}") for k in range(length)]
    states = {f"{one}{k}": 2 for one in "xy" for k in range(length)}
    tables = {f"x{k}": [[0.7, 0.3], [0.4, 0.6]] for k in range(1, length)}
    tables |= {"x0": [0.5, 0.5]} | {f"y{k}": [[1 - 1e-8, 1e-8], [1 - 3e-8, 3e-8]] for k in range(length)}
    model = fgrn.BayesianNetwork(states, arcs, tables)
    rows = {f"y{k}": [1, 1] for k in range(length)}
    expected = model.propagate(rows, engine="reference")
    with rows_side_by_side(fewest):
        found, largest = model.propagate(rows), model.max_marginals(rows, names=["x0", "x150"])
    whole = model._tree_network().max_marginals(rows, names=["x0", "x150"])
    for name, logs in largest.items():
        np.testing.assert_allclose(logs, whole[name], rtol=1e-12)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-12)
    for name in ("x0", "x150", "x299"):
        np.testing.assert_allclose(found.marginal(name), expected.marginal(name), atol=1e-10)


def test_many_known_children_are_multiplied_without_vanishing() -> None:
    """One variable with 400 known children: their tables come in together, scaled."""
    names = [f"y{k}" for k in range(400)]
    tables = {"x": [0.2, 0.3, 0.5], **{name: [[0.99, 0.01], [0.98, 0.02], [0.97, 0.03]] for name in names}}
    arcs = [("x", name) for name in names]
    model = fgrn.BayesianNetwork({"x": 3, "z": 2, **dict.fromkeys(names, 2)}, [*arcs, ("x", "z")], tables)
    rows = {name: [1] * 20 for name in names}
    with rows_side_by_side(1):
        found = model.propagate(rows, keep=["x", "z"])
    logs = np.log([0.2, 0.3, 0.5]) + 400 * np.log([0.01, 0.02, 0.03])
    expected = np.exp(logs - np.logaddexp.reduce(logs))
    np.testing.assert_allclose(found.marginal("x"), np.tile(expected, (20, 1)), atol=1e-12)
    np.testing.assert_allclose(found.log_likelihood, np.logaddexp.reduce(logs), rtol=1e-12)


def test_kept_sweeps_are_forgotten_with_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows asked again have the same numbers; after learning, those of a new model. One too large is not kept."""
    model = bayesian_network(3)
    known, asked = model.names[-1], model.names[0]
    labels = model.variable(known).labels
    rows = {known: [labels[row % len(labels)] for row in range(2 * LANES + 1)]}

    def answers(one: fgrn.BayesianNetwork) -> list[np.ndarray]:
        return [one.joint(rows, [asked]), one.propagate(rows).marginal(asked)]

    with rows_side_by_side(1):
        first = answers(model)
        assert len(model._arrays.tables.sweeps._sweeps) == 2
        for one, other in zip(first, answers(model), strict=True):
            np.testing.assert_array_equal(one, other)
        model.learn(model.sample(20, seed=1), smoothing=1.0)
        for one, other, old in zip(answers(model), answers(model.copy()), first, strict=True):
            np.testing.assert_array_equal(one, other)
            assert not np.allclose(one, old)
        monkeypatch.setattr(table_numbers, "MOST_NUMBERS", 0)
        fresh = model.copy()
        answers(fresh)
        assert not fresh._arrays.tables.sweeps._sweeps
