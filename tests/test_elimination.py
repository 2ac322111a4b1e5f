"""Pruned questions against enumeration and the whole network, and the limits of memory."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import as_evidence, bayesian_network, joint_of, marginal, markov_network, random_row, weighted

import fgrn
from fgrn import BayesianNetwork, ImpossibleEvidence, WiringError
from fgrn.bayes import clique_sweeps
from fgrn.bayes.matrix_sums import summed_by_matrices

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds)
def test_pruned_answers_are_those_of_the_enumeration(seed: int) -> None:
    model = markov_network(seed) if seed % 3 == 0 else bayesian_network(seed)
    draw = np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(4)]
    table = as_evidence(rows, model.names)
    for axis, name in enumerate(model.names):
        expected = [marginal(weighted(model, row), axis) for row in rows]
        np.testing.assert_allclose(model.posterior(table, name), expected, atol=1e-10)
        np.testing.assert_allclose(model.posterior(table, name, engine="reference"), expected, atol=1e-10)
    some = [str(name) for name in draw.permutation(model.names)[:3]]
    axes = [model.names.index(name) for name in some]
    others = tuple(k for k in range(len(model.names)) if k not in axes)
    expected_joint = []
    for row in rows:
        total = weighted(model, row).sum(axis=others)
        expected_joint.append(total.transpose(np.argsort(np.argsort(axes))) / total.sum())
    np.testing.assert_allclose(model.joint(table, some), expected_joint, atol=1e-10)


@given(seed=seeds)
def test_cliques_of_what_is_unknown_answer_whole_questions(seed: int) -> None:
    model = markov_network(seed) if seed % 3 == 0 else bayesian_network(seed)
    draw = np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(4)]
    table = as_evidence(rows, model.names)
    model._fits = lambda: False  # type: ignore[method-assign]  # so that nothing is asked of the whole network
    seen = model.propagate(table)
    best = model.most_probable(table)
    for number, row in enumerate(rows):
        joint = weighted(model, row)
        assert seen.log_likelihood[number] == pytest.approx(np.log(joint.sum()), abs=1e-9)
        for axis, name in enumerate(model.names):
            np.testing.assert_allclose(seen.marginal(name)[number], marginal(joint, axis), atol=1e-10)
        place = tuple(model.variable(name).code(best.labels[name][number]) for name in model.names)
        assert joint[place] == pytest.approx(joint.max(), rel=1e-9)
        assert best.log_probability[number] == pytest.approx(np.log(joint.max()), abs=1e-9)
    largest = model.max_marginals(table)
    for axis, name in enumerate(model.names):
        others = tuple(k for k in range(len(model.names)) if k != axis)
        for number, row in enumerate(rows):
            with np.errstate(divide="ignore"):
                expected = np.log(weighted(model, row).max(axis=others))
            np.testing.assert_allclose(largest[name][number], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_samples_of_cliques_of_what_is_unknown_have_the_joint_distribution(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed > 1:  # as for cliques of many states
        monkeypatch.setattr(clique_sweeps, "CELLS_TO_DRAW", 0)
    model = markov_network(seed) if seed % 2 else bayesian_network(seed)
    row = random_row(model, np.random.default_rng(seed))
    model._fits = lambda: False  # type: ignore[method-assign]
    drawn = model.sample(4000, as_evidence([row, row], model.names), seed=seed)
    codes = [np.array([model.variable(name).code(value) for value in drawn[name]]) for name in model.names]
    joint = weighted(model, row)
    cells = np.ravel_multi_index(codes, joint.shape)
    share = joint.ravel() / joint.sum()
    seen = np.bincount(cells, minlength=joint.size)
    assert not seen[share == 0].any()
    off = (seen - 8000 * share) / np.sqrt(np.maximum(8000 * share, 1))
    assert np.abs(off).max() < 5.5
    some = model.sample(3, as_evidence([row], model.names), seed=seed, names=model.names[:1])
    assert list(some) == [model.names[0]]
    assert len(some[model.names[0]]) == 3


def test_impossible_rows_are_marked_or_refused() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [0.5, 0.5], "b": [[1, 0], [0.5, 0.5]]})
    net._fits = lambda: False  # type: ignore[method-assign]
    table = {"a": [0, 1], "b": [1, 1]}
    assert net.propagate(table, impossible="mark").impossible.tolist() == [True, False]
    for ask in (net.propagate, net.most_probable, net.max_marginals, lambda some: net.sample(2, some)):
        with pytest.raises(ImpossibleEvidence):
            ask(table)


def test_many_rows_that_know_the_same_need_no_cliques_of_the_whole() -> None:
    model = wide_network(18)
    table = {"x0x1": [0, 1] * 10}
    model._tree_network = None  # type: ignore[assignment,method-assign]
    expected = model.posterior({"x0x1": [0, 1]}, "x0")
    np.testing.assert_allclose(model.posterior(table, "x0"), np.tile(expected, (10, 1)), atol=1e-12)


def wide_network(width: int = 27) -> BayesianNetwork:
    """A child for each pair of causes: all causes are in one clique."""
    draw = np.random.default_rng(0)
    causes = [f"x{number}" for number in range(width)]
    arcs: dict[str, list[str]] = {cause: [] for cause in causes}
    arcs |= {f"{one}{other}": [one, other] for one, other in combinations(causes, 2)}
    tables: dict[str, Any] = {name: draw.dirichlet(np.ones(2), 2 ** len(some)) for name, some in arcs.items()}
    return BayesianNetwork(dict.fromkeys(arcs, 2), arcs, tables)


def test_what_does_not_matter_is_left_out() -> None:
    model = wide_network()
    model.memory_limit = 2.0**30
    with pytest.raises(WiringError, match="GiB"):
        model.propagate()
    joint = model.prior("x0")[:, None, None] * model.prior("x1")[:, None] * model.table("x0x1").reshape(2, 2, 2)
    np.testing.assert_allclose(model.posterior(None, "x0x1"), [joint.sum(axis=(0, 1))], atol=1e-12)
    found = model.posterior({"x0x1": [0, 1] * 10}, "x0")  # many rows, where the whole does not fit
    both = joint.sum(axis=1)
    np.testing.assert_allclose(found[:2], (both / both.sum(axis=0)).T, atol=1e-12)
    drawn = model.sample(5, {"x0x1": 0}, names=["x1"])
    assert len(drawn["x1"]) == 5
    question = next(iter(model._questions.values()))
    assert {part.name for part in question.parts} == {"x0", "x1", "x0x1"}


def test_known_states_separate() -> None:
    net = BayesianNetwork(dict.fromkeys("abcd", 3), [("a", "b"), ("b", "c"), ("c", "d")])
    question = net._near(("d",), frozenset("b"), frozenset())
    assert [part.name for part in question.parts] == ["c", "d"]
    assert question.tree.total == 9


def test_tables_that_were_learnt_are_asked_anew() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")])
    assert net.posterior({"b": 0}, "a")[0, 0] == pytest.approx(0.5)
    net.learn({"a": [0, 0, 1], "b": [0, 0, 1]})
    assert net.posterior({"b": 0}, "a")[0, 0] == pytest.approx(1.0)
    with pytest.raises(ImpossibleEvidence, match="cannot go with"):
        net.posterior({"a": 0, "b": 1}, "a")


def test_the_limit_of_memory_can_be_set() -> None:
    net = BayesianNetwork(dict.fromkeys("abc", 100), [("a", "c"), ("b", "c")])
    net.memory_limit = 2.0**20
    with pytest.raises(WiringError, match=r"about \d\d\.\d MiB, and the limit is 1\.0 MiB.*memory_limit"):
        net.propagate()
    with pytest.raises(WiringError, match="memory_limit"):
        net.posterior(None, "c")
    assert net.posterior(None, "a").shape == (1, 100)
    assert joint_of(fgrn.BayesianNetwork({"a": 2})).shape == (2,)


def test_learning_follows_the_limit_of_memory() -> None:
    net = BayesianNetwork(dict.fromkeys("abc", 10), [("a", "c"), ("b", "c")])
    holes = {"a": [0, None, 3], "b": [None, 1, 2], "c": [4, 5, 6]}
    net.learn(holes, epochs=1)
    net.memory_limit = 2.0**15  # 64,000 bytes are needed
    with pytest.raises(
        WiringError, match=r"1,000 joint states.* KiB, and the limit is 32\.0 KiB.*missing.*memory_limit"
    ):
        net.learn(holes, epochs=1)
    net.learn({"a": [0, 1], "b": [2, 1], "c": [4, 5]}, smoothing=1.0)  # no clique is needed to count
    net.memory_limit = 2.0**16
    net.learn(holes, epochs=1)


def test_cliques_may_be_larger_than_product_spaces_made_by_hand() -> None:
    names = {pair: list(pair) for pair in ("ab", "bc", "ac")}
    net = BayesianNetwork({**dict.fromkeys("abc", 512), **dict.fromkeys(names, 2)}, names)
    net.memory_limit = 2.0**40
    assert max(net.tree.states) == 2**27 > fgrn.graph.blocks.PRODUCT_SPACE_LIMIT
    sizes = [block.size for block in net.to_network().blocks if isinstance(block, fgrn.Diverter)]
    assert max(sizes) == 2**27
    net.memory_limit = 2.0**32
    with pytest.raises(WiringError, match=r"about 8\.\d GiB, and the limit is 4.0 GiB"):
        net.to_network()


def test_what_is_kept_of_a_question_is_complete_and_may_be_forgotten_at_any_time() -> None:
    """Threads may ask one network at once: what one keeps, others use; and one may clear what another is to use."""

    class Kept(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            stored.append(key)  # and forgotten

    stored: list[Any] = []
    network = fgrn.BayesianNetwork(
        {"a": 2, "b": 2, "c": 2}, [("a", "b")], {"a": [[1, 0]], "b": [[1, 0], [0, 1]], "c": [[0.3, 0.7]]}
    )
    network._questions = Kept()
    assert network._near(("c",), frozenset({"b"}), frozenset()).apart
    assert len(stored) == 1
    with pytest.raises(fgrn.ImpossibleEvidence):
        network.joint({"b": [1]}, ["c"])


@pytest.mark.parametrize("seed", range(12))
def test_two_tables_are_summed_by_products_of_matrices(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [*random.integers(1, 5, size=6).tolist(), 6, 7, 8]
    axes = (*tuple(sorted(random.choice(range(1, 7), random.integers(0, 5), replace=False).tolist())), 9)
    rows = int(random.integers(1, 3))
    first = [*random.choice([True, False], 6).tolist(), True, False, True]
    second = [not here or there for here, there in zip(first, random.choice([True, False], 9), strict=True)]
    second[6:] = [False, True, True]
    one = random.random([rows, *(size if here else 1 for size, here in zip(sizes, first, strict=True))])
    other = random.random([1, *(size if here else 1 for size, here in zip(sizes, second, strict=True))])
    found = summed_by_matrices(one, other, sizes, axes)
    expected = (one * other).sum(axis=axes)
    if found is None:  # the matrices are small
        assert expected.size < 42 * 512
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    alone = summed_by_matrices(one, one, sizes, axes)
    assert alone is None, "one table has nothing that the other has not"


@pytest.mark.parametrize("scale", [1e-39, 1e-64, 1e-150])
def test_posteriors_from_many_improbable_values_keep_their_digits(scale: float) -> None:
    random = np.random.default_rng(0)
    names = [f"h{number}" for number in range(12)]
    seen = [f"y{number}" for number in range(12)]
    tables: dict[str, np.ndarray] = {name: random.dirichlet(np.ones(3), 3 if name != "h0" else 1) for name in names}
    for name in seen:
        share = random.random(3) * scale
        tables[name] = np.stack([1 - share, share], axis=1)
    arcs = [*pairwise(names), *zip(names, seen, strict=True)]
    net = BayesianNetwork({**dict.fromkeys(names, 3), **dict.fromkeys(seen, 2)}, arcs, tables)
    row = dict.fromkeys(seen, 1)
    np.testing.assert_allclose(net.posterior(row, "h6"), net.posterior(row, "h6", engine="reference"), rtol=1e-9)


@given(seed=seeds)
def test_evidence_is_impossible_where_its_probability_is_zero(seed: int) -> None:
    """Whatever is known apart from the question, with many zeros; weights of states may be zero too."""
    draw = np.random.default_rng(seed)
    model = bayesian_network(seed, most=7)
    sparse = {}
    for name in model.names:
        table = model.table(name) * (draw.random(model.table(name).shape) < 0.6)
        table[np.arange(len(table)), draw.integers(table.shape[1], size=len(table))] += 0.1
        sparse[name] = table / table.sum(axis=1, keepdims=True)
    model = BayesianNetwork(model.variables, {name: model.parents(name) for name in model.names}, sparse)
    model._fits = lambda: False  # type: ignore[method-assign]  # so that nothing is asked of the whole network
    for _ in range(6):
        row: dict[str, Any] = {}
        for name in model.names:
            size, kind = model.variable(name).cardinality, draw.integers(4)
            if kind < 2:
                row[name] = int(draw.integers(size))
            elif kind == 2 and draw.random() < 0.3:
                row[name] = [(draw.random(size) * (draw.random(size) < 0.7)).tolist()]
        total = weighted(model, {name: value[0] if isinstance(value, list) else value for name, value in row.items()})
        for axis, name in enumerate(model.names):
            if total.sum() > 0:
                np.testing.assert_allclose(model.posterior(row, name)[0], marginal(total, axis), atol=1e-10)
            else:
                with pytest.raises(ImpossibleEvidence):
                    model.posterior(row, name)


def test_a_sum_over_many_variables_neither_overflows_nor_vanishes() -> None:
    for scale, other in ((1.0, 1.0), (1e-3, 0.5)):
        names = [f"x{number}" for number in range(2_000)]
        factors: list[Any] = [([name], [scale, 1.0]) for name in names]
        factors += [([*pair], [[1.0, other], [other, 1.0]]) for pair in pairwise(names)]
        model = fgrn.MarkovNetwork(dict.fromkeys(names, 2), factors)
        model._fits = lambda: False  # type: ignore[method-assign]
        row = {"x0": 1}
        np.testing.assert_allclose(
            model.posterior(row, "x1999"), model.posterior(row, "x1999", engine="reference"), rtol=1e-9
        )
        found, expected = (model.propagate(row, keep=["x1999"], **way) for way in ({}, {"engine": "reference"}))
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-9)
