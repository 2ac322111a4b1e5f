"""Bayesian and Markov networks of any shape against enumeration of their joint states, and errors of users."""

from __future__ import annotations

import copy
import pickle
import warnings
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import (
    as_evidence,
    bayesian_network,
    chain,
    joint_of,
    marginal,
    markov_network,
    random_row,
    weighted,
)

import fgrn
from fgrn import (
    BayesianNetwork,
    EvidenceError,
    ImpossibleEvidence,
    LearningError,
    MarkovNetwork,
    TableError,
    WiringError,
)
from fgrn.bayes.junction_tree import _eliminated, _Graph, _weighted, junction_tree
from fgrn.engines import clique_rows, installed_engines
from fgrn.files import container, factored_file, model_file

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]

seeds = st.integers(0, 2**32 - 1)


def models(seed: int) -> BayesianNetwork | MarkovNetwork:
    return markov_network(seed) if seed % 2 else bayesian_network(seed)


# Inference


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=seeds)
def test_marginals_and_likelihood_are_those_of_the_enumeration(engine: str, seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(3)]
    found = model.propagate(as_evidence(rows, model.names), engine=engine)
    for number, row in enumerate(rows):
        total = weighted(model, row)
        assert found.log_likelihood[number] == pytest.approx(np.log(total.sum()), rel=1e-12, abs=1e-11)
        for axis, name in enumerate(model.names):
            np.testing.assert_allclose(found.marginal(name)[number], marginal(total, axis), atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 40, 150])
def test_rows_side_by_side_are_those_one_by_one(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(24):
        model, draw = models(seed), np.random.default_rng(seed)
        data = as_evidence([random_row(model, draw) for _ in range(rows)], model.names)
        with monkeypatch.context() as patch:
            patch.setattr(clique_rows, "FEWEST_ROWS", 1)
            patch.setattr(clique_rows, "MOST_LANES", 8 * (1 + seed % 3))
            found = model.propagate(data, engine="cpu")
            learnt = model.copy()
            if isinstance(model, BayesianNetwork):
                learnt.learn(data, epochs=2, engine="cpu", weights=1.0 + np.arange(rows) % 3, merge=False)
        expected = model.propagate(data, engine="reference")
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-11, atol=1e-11)
        for name in model.names:
            np.testing.assert_allclose(found.marginal(name), expected.marginal(name), atol=1e-12)
        if isinstance(model, BayesianNetwork):
            other = model.copy()
            other.learn(data, epochs=2, engine="reference", weights=1.0 + np.arange(rows) % 3, merge=False)
            for name in model.names:
                np.testing.assert_allclose(learnt.table(name), other.table(name), atol=1e-10)


@pytest.mark.parametrize(("rows", "lanes"), [(7, 0), (8, 8), (9, 16), (500, 64)])
def test_there_are_not_more_lanes_than_rows(rows: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decide, decided = clique_rows.lanes_for, []

    def noted(*given: Any) -> int:
        decided.append(decide(*given))
        return decided[-1]

    monkeypatch.setattr(clique_rows, "lanes_for", noted)
    model = BayesianNetwork(dict.fromkeys("abc", 3), [("a", "b"), ("a", "c"), ("b", "c")])
    model.propagate({"c": np.arange(rows) % 3}, engine="cpu")
    assert decided[0] == lanes


def test_rows_that_underflow_are_computed_one_by_one() -> None:
    """Tables so extreme that linear products would underflow, in a block with ordinary rows."""
    draw = np.random.default_rng(0)
    names = [f"v{k}" for k in range(12)]
    tables = {}
    for name in names:
        table = 10.0 ** -draw.uniform(0, 250, (2 if name != "v0" else 1, 2))
        table[:, 0] = 1.0
        tables[name] = table / table.sum(axis=1, keepdims=True)
    model = BayesianNetwork(dict.fromkeys(names, 2), [("v0", name) for name in names[1:]], tables)
    data = {name: [None if draw.random() < 0.4 else int(draw.random() < 0.6) for _ in range(64)] for name in names}
    found, expected = (model.propagate(data, engine=engine) for engine in ("cpu", "reference"))
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.marginal("v0"), expected.marginal("v0"), atol=1e-12)
    mine, other = model.copy(), model.copy()
    mine.learn(data, epochs=1, engine="cpu", merge=False)
    other.learn(data, epochs=1, engine="reference", merge=False)
    for name in names:
        np.testing.assert_allclose(mine.table(name), other.table(name), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=seeds)
def test_every_message_of_the_tree_is_consistent_with_the_enumeration(engine: str, seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    network = model.to_network()
    found = network.propagate(as_evidence([row], model.names), engine=engine)
    total = weighted(model, row)
    assert found.log_likelihood[0] == pytest.approx(np.log(total.sum()), rel=1e-12, abs=1e-11)
    for axis, name in enumerate(model.names):
        np.testing.assert_allclose(found.marginal(name)[0], marginal(total, axis), atol=1e-12)
        both = found.forward(name)[0] * found.backward(name)[0]
        np.testing.assert_allclose(both / both.sum(), marginal(total, axis), atol=1e-12)


@given(seed=seeds)
def test_the_joint_of_a_few_variables(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    names = [str(name) for name in draw.permutation(model.names)[: int(draw.integers(1, 4))]]
    found = model.joint(as_evidence([row], model.names), names)[0]
    total = weighted(model, row)
    places = [model.names.index(name) for name in names]
    expected = total.sum(axis=tuple(k for k in range(total.ndim) if k not in places))
    expected = expected.transpose(np.argsort(np.argsort(places))) / total.sum()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(seed=seeds)
def test_the_most_probable_states_together(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(2)]
    labels, logs = model.most_probable(as_evidence(rows, model.names))
    for number, row in enumerate(rows):
        total = weighted(model, row)
        assert logs[number] == pytest.approx(np.log(total.max()), rel=1e-12, abs=1e-11)
        states = [model.variable(name).code(labels[name][number]) for name in model.names]
        assert total[tuple(states)] == pytest.approx(total.max(), rel=1e-12)


@given(seed=seeds)
def test_max_marginals(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    found = model.max_marginals(as_evidence([row], model.names))
    total = weighted(model, row)
    for axis, name in enumerate(model.names):
        expected = total.max(axis=tuple(k for k in range(total.ndim) if k != axis))
        np.testing.assert_allclose(np.exp(found[name][0] - np.log(total.max())), expected / total.max(), atol=1e-12)


def test_one_row_of_plain_values_has_a_plain_answer() -> None:
    model = bayesian_network(4, zeros=False)
    name = model.names[0]
    label = model.variable(name).labels[0]
    found = model.most_probable({name: label})
    assert found.labels[name] == label
    assert isinstance(found.log_probability, float)
    assert model.most_probable().log_probability == pytest.approx(np.log(joint_of(model).max()))


def test_equal_states_are_decided_together() -> None:
    same = np.eye(2)
    model = BayesianNetwork({"a": 2, "b": 2, "c": 2}, [("a", "b"), ("b", "c")], {"a": [0.5, 0.5], "b": same, "c": same})
    labels, log = model.most_probable()
    assert labels["a"] == labels["b"] == labels["c"]
    assert log == pytest.approx(np.log(0.5))


@given(seed=seeds)
def test_samples_are_possible_and_agree_with_the_evidence(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    rows = model.sample(20, as_evidence([row], model.names), seed % 1000)
    total = weighted(model, row)
    codes = [[model.variable(name).code(label) for label in rows[name].tolist()] for name in model.names]
    assert (total[tuple(np.array(codes))] > 0).all()


def test_samples_have_the_posterior_as_their_frequencies() -> None:
    model = bayesian_network(5, zeros=False)
    row = {model.names[-1]: [0]}
    rows = model.sample(20_000, row, 3)
    for axis, name in enumerate(model.names):
        labels = list(model.variable(name).labels)
        counts = np.array([(rows[name] == label).mean() for label in labels])
        expected = marginal(weighted(model, {model.names[-1]: 0}), axis)
        np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(0.25 / 20_000))
    again = model.sample(20_000, row, 3)
    assert all(np.array_equal(rows[name], again[name]) for name in model.names)
    assert any(not np.array_equal(rows[n], model.sample(20_000, row, 4)[n]) for n in model.names)


def test_samples_for_several_rows_of_evidence_follow_each_other() -> None:
    model = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [0.5, 0.5], "b": np.eye(2)})
    assert model.sample(2, {"b": [0, 1, 0]})["a"].tolist() == [0, 0, 1, 1, 0, 0]


@given(seed=seeds)
def test_loops_are_exact_where_there_are_none_and_say_when_they_did_not_settle(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    network = model.to_network("loopy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgrn.ConvergenceWarning)
        found = model.propagate(as_evidence([row], model.names), method="loopy", impossible="mark")
    total = weighted(model, row)
    if network.is_tree:
        assert found.log_likelihood[0] == pytest.approx(np.log(total.sum()), rel=1e-9, abs=1e-9)
        for axis, name in enumerate(model.names):
            np.testing.assert_allclose(found.marginal(name)[0], marginal(total, axis), atol=1e-9)
    for name in model.names:
        assert np.isfinite(found.marginal(name)).all()


def test_difficult_loopy_propagation_gives_a_warning() -> None:
    frustrated = [(("a", "b"), [[1, 9], [9, 1]]), (("b", "c"), [[1, 9], [9, 1]]), (("c", "a"), [[1, 9], [9, 1]])]
    model = MarkovNetwork({"a": 2, "b": 2, "c": 2}, [*frustrated, (("a",), [1, 2])])
    with pytest.warns(fgrn.ConvergenceWarning, match="did not converge in"):
        found = model.propagate(method="loopy", rounds=2)
    assert not found.converged.any()
    settled = model.propagate(method="loopy")
    assert settled.converged.all()


def test_states_can_be_ruled_out() -> None:
    model = bayesian_network(2, zeros=False)
    name = max(model.names, key=lambda one: model.variable(one).cardinality)
    variable = model.variable(name)
    assert variable.cardinality > 1
    gone = variable.labels[0]
    weights = [0.0] + [1.0] * (variable.cardinality - 1)
    for column in (fgrn.Not(gone), [fgrn.Not(gone)], [fgrn.Not(0)]):
        found, expected = model.propagate({name: column}), model.propagate({name: [weights]})
        for other in model.names:
            assert np.array_equal(found.marginal(other), expected.marginal(other))
        assert found.log_likelihood[0] == pytest.approx(np.log(weighted(model, {name: weights}).sum()))
    assert model.most_probable({name: fgrn.Not(gone)}).labels[name] != gone
    assert model.complete({name: [fgrn.Not(gone)]})[name][0] in variable.labels[1:]
    with pytest.raises(EvidenceError, match=r"Row 0, .*'nothing' is not one of its states"):
        model.propagate({name: fgrn.Not("nothing")})
    with pytest.raises(ImpossibleEvidence):
        model.propagate({name: [fgrn.Not(*variable.labels)]})
    assert repr(fgrn.Not("a", 1)) == "Not('a', 1)"


# Learning


def one_step(
    model: BayesianNetwork, rows: list[dict[str, Any]], weights: np.ndarray, smoothing: float
) -> dict[str, Any]:
    """Return the tables after one step of EM, by enumeration, and the log-likelihood before it."""
    names = list(model.names)
    counts = {name: np.full([model.variable(v).cardinality for v in model.scope(name)], smoothing) for name in names}
    likelihood = 0.0
    for row, weight in zip(rows, weights, strict=True):
        total = weighted(model, row)
        likelihood += weight * np.log(total.sum())
        share = weight * total / total.sum()
        for name in names:
            places = [names.index(one) for one in model.scope(name)]
            mine = share.sum(axis=tuple(k for k in range(share.ndim) if k not in places))
            counts[name] += mine.transpose(np.argsort(np.argsort(places)))
    tables = {}
    for name, count in counts.items():
        flat = count.reshape(-1, count.shape[-1])
        norm = flat.sum(axis=1, keepdims=True)
        tables[name] = np.where(norm > 0, flat / np.where(norm > 0, norm, 1), model.table(name))
    return {"tables": tables, "likelihood": likelihood}


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=seeds)
def test_an_epoch_is_a_step_of_em(engine: str, seed: int) -> None:
    model, draw = bayesian_network(seed, most=5), np.random.default_rng(seed)
    rows = [random_row(model, draw) for _ in range(6)]
    weights = draw.integers(1, 4, len(rows)).astype(float)
    smoothing = float(draw.choice([0.0, 0.5]))
    expected = one_step(model, rows, weights, smoothing)
    history = model.learn(as_evidence(rows, model.names), epochs=1, weights=weights, smoothing=smoothing, engine=engine)
    assert history.log_likelihood[0] == pytest.approx(expected["likelihood"], rel=1e-10, abs=1e-9)
    for name in model.names:
        np.testing.assert_allclose(model.table(name), expected["tables"][name], atol=1e-10)


@given(seed=seeds)
def test_what_is_known_of_everything_is_counted_in_one_pass(seed: int) -> None:
    model, draw = bayesian_network(seed, most=5), np.random.default_rng(seed)
    joint = joint_of(model)
    flat = draw.choice(joint.size, p=joint.ravel() / joint.sum(), size=30)
    codes = dict(zip(model.names, np.unravel_index(flat, joint.shape), strict=True))
    rows = [{name: int(codes[name][k]) for name in model.names} for k in range(30)]
    expected = one_step(model, rows, np.ones(30), 0.0)
    other = model.copy()
    history = model.learn(codes, epochs=3)
    assert "tree" not in model.__dict__  # nothing had to be joined
    assert history.log_likelihood[0] == pytest.approx(expected["likelihood"], rel=1e-12, abs=1e-9)
    for name in model.names:
        np.testing.assert_allclose(model.table(name), expected["tables"][name], atol=1e-14)
    swept = other._tree_network()
    swept.learn(codes, epochs=3)
    for name in model.names:
        np.testing.assert_allclose(model.table(name), swept.table(name), atol=1e-12)


def test_more_cycles_go_on_from_the_messages_of_the_epoch() -> None:
    model, draw = bayesian_network(2, most=5, zeros=False), np.random.default_rng(0)
    rows = as_evidence([random_row(model, draw) for _ in range(8)], model.names)
    results = []
    for engine in ENGINES:
        mine = model.copy()
        mine.learn(rows, epochs=3, cycles=4, engine=engine)
        results.append(mine)
    for name in model.names:
        np.testing.assert_allclose(results[0].table(name), results[1].table(name), atol=1e-9)
    once = model.copy()
    once.learn(rows, epochs=3, engine="cpu")
    assert any(not np.allclose(once.table(n), results[0].table(n)) for n in model.names if once.table(n).shape[1] > 1)


def test_frozen_tied_and_supported_tables() -> None:
    draw = np.random.default_rng(1)
    data = {"a": draw.integers(0, 2, 200), "b": draw.integers(0, 2, 200), "c": draw.integers(0, 2, 200)}
    data["c"] = np.where(draw.random(200) < 0.2, None, data["c"])
    arcs = [("a", "b"), ("a", "c")]
    start = [[0.3, 0.7], [0.6, 0.4]]
    model = BayesianNetwork(
        {"a": 2, "b": 2, "c": 2}, arcs, {"b": start, "c": start, "a": [0.2, 0.8]}, frozen=["a"],
        ties={"b": "both", "c": "both"},
    )  # fmt: skip
    model.learn(data, epochs=5)
    assert model.prior("a").tolist() == [0.2, 0.8]
    assert np.array_equal(model.table("b"), model.table("c"))
    assert not np.allclose(model.table("b"), start)
    mask = [[True, False], [True, True]]
    masked = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], supports={"b": mask})
    masked.learn({"a": [0, 0, 1, 1], "b": [0, None, 1, 0]}, epochs=3, smoothing=1)
    assert masked.table("b")[0].tolist() == [1, 0]
    alone = BayesianNetwork({"a": 2}, frozen=["a"])
    with pytest.raises(LearningError, match="frozen"):
        alone.learn({"a": [0, 1]})


def test_hidden_variables_are_learnt_from_a_random_start_and_the_best_is_kept() -> None:
    draw = np.random.default_rng(2)
    hidden = draw.integers(0, 2, 400)
    data = {f"y{k}": np.where(draw.random(400) < 0.9, hidden, 1 - hidden) for k in range(4)}
    model = BayesianNetwork.from_data([("h", f"y{k}") for k in range(4)], data, states={"h": 2}, epochs=30, starts=3)
    assert model.trained[-1]["starts"] == 3
    assert model.trained[-1]["engine"] == "reference"
    model.learn({**data, "h": hidden}, epochs=1)  # rows that know everything are counted
    assert model.trained[-1]["engine"] is None
    assert set(model.names) == {"h", *data}
    posterior = model.posterior(data, "h").argmax(axis=1)
    assert max((posterior == hidden).mean(), (posterior != hidden).mean()) > 0.85


def test_learning_from_a_frame_with_holes(tmp_path: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"rain": ["yes", "no", None, "no"], "wet": ["yes", "no", "yes", None]})
    model = BayesianNetwork.from_data([("rain", "wet")], frame, smoothing=1)
    assert model.variable("rain").labels == ("no", "yes")
    done = model.complete(frame)
    assert done.notna().all().all()


# What it is


def test_a_model_says_what_it_is() -> None:
    model = BayesianNetwork(
        {"a": ["x", "y"], "b": 3, "c": 2}, {"c": ["b", "a"]}, {"c": np.full((3, 2, 2), 0.5)}, name="small"
    )
    assert model.parents("c") == ("b", "a")
    assert model.children("a") == ("c",)
    assert model.arcs == (("b", "c"), ("a", "c"))
    assert model.table("c").shape == (6, 2)
    assert model.prior("a").tolist() == [0.5, 0.5]
    assert model.free_parameters == 1 + 2 + 6
    assert "P(c | b, a): 6 x 2" in repr(model)
    assert "small" in repr(model)
    assert pickle.loads(pickle.dumps(model)) == model
    assert model.copy() == model
    assert model != BayesianNetwork({"a": ["x", "y"], "b": 3, "c": 2}, {"c": ["a", "b"]})
    assert "f0(v0" in repr(MarkovNetwork({"v0": 2}, [(["v0"], [1, 2])]))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({},), WiringError, "at least one variable"),
        (({"a": 2}, [("a", "a")]), WiringError, "cycle: a -> a"),
        (({"a": 2, "b": 2, "c": 2}, [("a", "b"), ("b", "c"), ("c", "a")]), WiringError, "cycle"),
        (({"a": 2}, [("b", "a")]), KeyError, "no variable 'b'"),
        (({"a": 2, "b": 2}, [("a", "b"), ("a", "b")]), WiringError, "twice"),
        (({"a": 2, "b": 2}, ["ab"]), WiringError, "pair"),
        (({"a": 2, "b": 2}, "ab"), WiringError, "list of names"),
        (({"a": 2}, [], {"b": [1, 0]}), KeyError, "no variable 'b'"),
        (({"a": 2}, [], {"a": [1, 0, 0]}), TableError, "shape"),
        (({"a": 2}, [], {"a": [1, 1]}), TableError, "sum to 1"),
        (({"a": 2}, [], {"a": [2, -1]}), TableError, "not negative"),
        (({"a": 2}, [], {"a": ["x", "y"]}), TableError, "numbers"),
        (([1, 2],), WiringError, "Variables"),
    ],
)
def test_what_makes_no_network(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        BayesianNetwork(*arguments)


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ([(["b"], [1, 1])], "no variable 'b'"),
        ([(["a", "a"], np.ones((2, 2)))], "more than once"),
        ([(["a"], [1, 2, 3])], "shape"),
        ([(["a"], [1, -1])], "not negative"),
        ([(["a"], [0, 0])], "not all zero"),
        ([(["a"], [1, np.nan])], "finite"),
        ([(["a"], "xy")], "numbers"),
    ],
)
def test_what_makes_no_factor(factors: Any, words: str) -> None:
    with pytest.raises((KeyError, TableError), match=words):
        MarkovNetwork({"a": 2}, factors)


def test_what_cannot_be_asked() -> None:
    model = bayesian_network(4, zeros=False)
    with pytest.raises(EvidenceError, match="not a variable of this network"):
        model.propagate({"nobody": [0]})
    between = next(v.name for v in model.to_network().variables if v.name not in model.names)
    with pytest.raises(EvidenceError, match="not a variable of this network"):
        model.propagate({between: [0]})
    with pytest.raises(KeyError, match="no variable"):
        model.posterior({}, "nobody")
    with pytest.raises(fgrn.FgrnError, match="'method' must be one of"):
        model.propagate(method="guess")
    with pytest.raises(EvidenceError, match="must be named once"):
        model.joint({}, [model.names[0]] * 2)
    with pytest.raises(EvidenceError, match=r"^No variable is named\. Name one or more\.$"):
        model.map([])
    with pytest.raises(LearningError, match="holes"):
        model.learn({}, holes="ignore")
    with pytest.raises(TypeError, match="no setting 'epoch'"):
        model.learn({}, epoch=3)
    with pytest.raises(LearningError, match="not distributions"):
        markov_network(1).learn({})


def test_evidence_that_cannot_be_is_explained() -> None:
    model = BayesianNetwork(
        {"sex": ["f", "m"], "pregnant": ["no", "yes"], "age": 3}, [("sex", "pregnant")],
        {"sex": [0.5, 0.5], "pregnant": [[0.9, 0.1], [1, 0]]},
    )  # fmt: skip
    row = {"sex": ["m"], "pregnant": ["yes"], "age": [0]}
    for ask in (model.propagate, model.most_probable, lambda e: model.sample(1, e)):
        with pytest.raises(ImpossibleEvidence, match="'sex' = m cannot go with 'pregnant' = yes"):
            ask(row)
    with pytest.raises(ImpossibleEvidence, match=r"Rows? 0"):
        model.copy().learn(row)
    assert model.propagate(row, impossible="mark").impossible.tolist() == [True]


# Size


def test_a_network_that_is_too_wide_is_refused_with_its_size() -> None:
    draw = np.random.default_rng(0)
    names = [f"x{k}" for k in range(40)]
    factors = [((a, b), draw.random((4, 4)) + 40) for a, b in product(names[:20], names[20:])]
    model = MarkovNetwork(dict.fromkeys(names, 4), factors)
    with pytest.raises(WiringError, match=r"clique of 2\d variables .* joint states, .* in all; .* method='loopy'"):
        model.propagate()
    assert model.propagate(method="loopy").converged.all()


def test_a_long_chain_and_a_wide_star() -> None:
    model = chain(3_000, 3)
    found = model.propagate({"x0": [0], "x2999": [2]}, engine="cpu")
    forward = np.eye(3)[0]
    for k in range(1, 3_000):
        forward = forward @ model.table(f"x{k}")
    expected = np.log(model.table("x0")[0, 0]) + np.log(forward[2])
    assert found.log_likelihood[0] == pytest.approx(expected, rel=1e-12)
    draw = np.random.default_rng(3)
    leaves = [f"y{k}" for k in range(3_000)]
    tables = {leaf: draw.dirichlet(np.ones(4), 5) for leaf in leaves} | {"h": np.full(5, 0.2)}
    star = BayesianNetwork({"h": 5, **dict.fromkeys(leaves, 4)}, [("h", leaf) for leaf in leaves], tables)
    states = {leaf: [int(draw.integers(4))] for leaf in leaves}
    logs = np.log(0.2) + sum(np.log(tables[leaf][:, states[leaf][0]]) for leaf in leaves)
    seen = star.propagate(states, engine="cpu")
    assert seen.log_likelihood[0] == pytest.approx(np.logaddexp.reduce(logs), rel=1e-12)
    np.testing.assert_allclose(seen.marginal("h")[0], np.exp(logs - np.logaddexp.reduce(logs)), atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_chain_of_23_is_right_to_twelve_digits(engine: str) -> None:
    model = chain(23, 2, seed=4)
    seen = {"x0": [1], "x11": [[0.2, 0.7]], "x22": [0]}
    forward = [model.table("x0")[0] * np.eye(2)[1]]
    weights = {11: np.array([0.2, 0.7]), 22: np.eye(2)[0]}
    for k in range(1, 23):
        forward.append(forward[-1] @ model.table(f"x{k}") * weights.get(k, np.ones(2)))
    back = [np.ones(2)]
    for k in range(22, 0, -1):
        back.append(model.table(f"x{k}") @ (back[-1] * weights.get(k, np.ones(2))))
    found = model.propagate(seen, engine=engine)
    for k, (f, b) in enumerate(zip(forward, reversed(back), strict=True)):
        np.testing.assert_allclose(found.marginal(f"x{k}")[0], f * b / (f * b).sum(), rtol=1e-12, atol=1e-12)


@given(seed=seeds)
def test_clusters_hold_every_scope_and_keep_every_variable_together(seed: int) -> None:
    draw = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(int(draw.integers(1, 15)))]
    sizes = {name: int(draw.integers(1, 5)) for name in names}
    scopes = [
        [str(n) for n in draw.permutation(names)[: int(draw.integers(1, 4))]] for _ in range(int(draw.integers(15)))
    ]
    tree = junction_tree(sizes, scopes)
    assert len(tree.edges) == len(tree.cliques) - 1
    assert len(tree.outwards(0)) == len(tree.cliques)
    for scope in scopes:
        assert set(scope) <= set(tree.cliques[tree.holding(scope)])
    for name in names:  # as many clusters as joints and one more: connected
        holding = sum(name in cluster for cluster in tree.cliques)
        assert sum(name in shared for _, _, shared in tree.edges) == holding - 1
    for a, b, shared in tree.edges:
        assert set(shared) == set(tree.cliques[a]) & set(tree.cliques[b])


# What a review found


def test_tables_that_are_tied_must_be_alike() -> None:
    states = {"a": 2, "b": 2, "c": 4}
    with pytest.raises(WiringError, match="tied"):
        BayesianNetwork(states, ties={"a": "t", "c": "t"})
    with pytest.raises(WiringError, match="tied"):
        BayesianNetwork(states, tables={"b": [0.3, 0.7]}, ties={"a": "t", "b": "t"})
    with pytest.raises(WiringError, match="tied"):
        BayesianNetwork(states, frozen=["b"], ties={"a": "t", "b": "t"})
    with pytest.raises(WiringError, match="name of a shared table"):
        BayesianNetwork(states, ties={"a": 3})  # type: ignore[dict-item]


def test_a_network_of_a_model_waits_for_a_random_start_as_the_model_does() -> None:
    draw = np.random.default_rng(0)
    hidden = draw.integers(0, 2, 300)
    data = {f"x{k}": np.where(draw.random(300) < 0.9, hidden, 1 - hidden) for k in range(3)}
    model = BayesianNetwork({"h": 2, "x0": 2, "x1": 2, "x2": 2}, [("h", f"x{k}") for k in range(3)])
    for method in ("exact", "loopy"):
        network = model.to_network(method)
        history = network.learn(data, epochs=40, seed=1)
        assert history.log_likelihood[-1] > history.log_likelihood[0] + 50
    assert model.copy().learn(data, epochs=40, seed=1).log_likelihood[-1] > history.log_likelihood[0] + 50


def test_counts_of_tied_factors_are_expected_of_all_of_them() -> None:
    table = [[0.9, 0.1], [0.2, 0.8]]
    model = BayesianNetwork(
        {"a": 2, "b": 2, "c": 2}, [("a", "b"), ("a", "c")], {"a": [0.4, 0.6], "b": table, "c": table},
        ties={"b": "t", "c": "t"},
    )  # fmt: skip
    network = model.to_network()
    running = network.online(weight=10.0).running
    assert running is not None
    assert network._spec.layout.table(running, network._spec.layout.table_number("b")).sum() == pytest.approx(2.0)


@given(seed=seeds)
def test_an_embedding_is_the_backward_message(seed: int) -> None:
    model, draw = bayesian_network(seed), np.random.default_rng(seed)
    row = random_row(model, draw)
    axis = int(draw.integers(len(model.names)))
    name = model.names[axis]
    found = model.embed(as_evidence([row], model.names), name)[0]
    prior, posterior = marginal(joint_of(model), axis), marginal(weighted(model, row), axis)
    likelihood = np.divide(posterior, prior, out=np.zeros_like(prior), where=prior > 0)
    np.testing.assert_allclose(found, likelihood / likelihood.sum(), atol=1e-10)


def test_variables_may_be_called_anything() -> None:
    names = ["joint", "joint*", "{a}", "P(a)", "f0"]
    model = BayesianNetwork(dict.fromkeys(names, 2), [("joint", "joint*"), ("joint*", "{a}")])
    assert model.joint({}, ["joint", "{a}"]).shape == (1, 2, 2)
    assert model.multiplications({}) > 0


def test_what_only_other_networks_have_is_refused() -> None:
    model = bayesian_network(2, zeros=False)
    network = model.to_network()
    with pytest.raises(WiringError, match="no layers"):
        _ = network.layers
    with pytest.raises(fgrn.FgrnError, match="only those can pause"):
        network.propagate(paused=[model.names[0]])
    with pytest.raises(LearningError, match="holes"):
        network.learn({model.names[0]: [0, None]}, holes="ignore")
    with pytest.raises(fgrn.FgrnError, match="to_network"):
        model.propagate(parts=["forward"])
    complete = {name: [0] for name in model.names}
    for options in ({"engine": "foo"}, {"merge": "x"}, {"cycle_tolerance": -1}, {"watch": 3}):
        with pytest.raises(fgrn.FgrnError):
            model.learn(complete, **options)


def test_a_copy_and_what_may_be_learnt_are_their_own() -> None:
    model = BayesianNetwork({"a": 2}, properties={"a": {"k": "v"}})
    other = model.copy()
    other.properties["a"]["k"] = "w"
    assert model.properties["a"]["k"] == "v"
    assert model != BayesianNetwork({"a": 2}, frozen=["a"])


def test_many_samples_of_a_long_chain_take_little_room() -> None:
    model = chain(300, 2)
    rows = model.sample(20_000, None, 1, names=["x0", "x299"])
    assert set(rows) == {"x0", "x299"}
    total = model.propagate().marginal("x299")[0]
    assert (rows["x299"] == 1).mean() == pytest.approx(total[1], abs=0.02)
    given_end = model.sample(2_000, {"x299": [1]}, 1, names=["x298"])
    expected = model.posterior({"x299": [1]}, "x298")[0]
    assert (given_end["x298"] == 1).mean() == pytest.approx(expected[1], abs=0.06)


def test_one_tiny_cell_does_not_send_every_row_to_the_reference_engine() -> None:
    model = chain(6, 3)
    tables = {name: model.table(name).copy() for name in model.names}
    tables["x3"][0] = [1e-170, 0.5, 0.5]
    tiny = BayesianNetwork(dict.fromkeys(model.names, 3), list(model.arcs), tables)
    draw = np.random.default_rng(0)
    data = {name: [None if draw.random() < 0.5 else int(draw.integers(3)) for _ in range(50)] for name in model.names}
    found, expected = (tiny.propagate(data, engine=engine) for engine in ("cpu", "reference"))
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-11)
    for name in model.names:
        np.testing.assert_allclose(found.marginal(name), expected.marginal(name), atol=1e-12)


# Model files


@given(seed=seeds)
def test_a_saved_model_comes_back_as_it_was(seed: int) -> None:
    model, draw = models(seed), np.random.default_rng(seed)
    if isinstance(model, BayesianNetwork):
        model.learn(as_evidence([random_row(model, draw)], model.names), epochs=1, smoothing=0.5)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.fgrn"
        model.save(path)
        again = fgrn.load(path)
    assert again == model
    assert again.to_document() == model.to_document()
    assert again.trained == model.trained


def test_what_learning_may_do_is_saved_too(tmp_path: Path) -> None:
    model = BayesianNetwork(
        {"a": ["x", "y"], "b": 2, "c": 2}, [("a", "b"), ("a", "c")], {"a": [0.25, 0.75]}, frozen=["a"],
        ties={"b": "both", "c": "both"}, supports={"b": np.eye(2), "c": np.eye(2)}, name="n",
        properties={"a": {"k": "v"}},
    )  # fmt: skip
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again == model
    data = {"a": ["x", "y", None], "b": [0, None, 1], "c": [None, 1, 1]}
    for one in (model, again):
        one.learn(data, epochs=2, seed=3)
    assert again == model
    assert (again.name, again.properties) == ("n", {"a": {"k": "v"}})
    assert again.prior("a").tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["model"].update(kind="neural"), "kind 'neural'"),
        (lambda d: d["model"]["tables"][0].update(scope=["q"]), "not there"),
        (lambda d: d["model"]["tables"][1].update(scope=["b", "b"]), "more than once"),
        (lambda d: d["model"]["tables"].pop(), "not those of its variables"),
        (lambda d: d["model"].update(properties={"a": 1}), "not text"),
        (lambda d: d["model"]["tables"][1].update(scope=["a", "b"][::-1]), "must be|not those"),
        (lambda d: d["variables"].pop(), "not there"),
    ],
)
def test_altered_files_are_refused(tmp_path: Path, change: Any, words: str) -> None:
    model = BayesianNetwork({"a": 2, "b": 3}, [("a", "b")], {"a": [0.5, 0.5], "b": np.full((2, 3), 1 / 3)})
    document, tensors = factored_file.encode_factored(model, model_file.HEAD)
    document = copy.deepcopy(document)
    change(document)
    path = tmp_path / "m.fgrn"
    path.write_bytes(container.container_bytes(document, tensors))
    with pytest.raises(fgrn.ModelFileError, match=words):
        fgrn.load(path)


def test_a_table_is_a_frame_with_a_row_for_each_joint_state() -> None:
    net = BayesianNetwork({"a": ["n", "y"], "b": 2}, {"b": ["a"]}, {"a": [0.3, 0.7], "b": [[0.9, 0.1], [0.2, 0.8]]})
    assert net.to_frame("b").to_dict("list") == {
        "a": ["n", "n", "y", "y"], "b": [0, 1, 0, 1], "probability": [0.9, 0.1, 0.2, 0.8]
    }  # fmt: skip
    odd = BayesianNetwork({"probability": 2})
    assert list(odd.to_frame("probability")) == ["probability", "probability_"]


def weight_of_fill_in(graph: Any, neighbours: list[int], one: int) -> float:
    """The definition, pair by pair."""
    mine = [other for other in range(len(neighbours)) if neighbours[one] >> other & 1]
    pairs = [(a, b) for a in mine for b in mine if a < b and not neighbours[a] >> b & 1]
    return float(sum(graph.counts[a] * graph.counts[b] for a, b in pairs))


@pytest.mark.parametrize("seed", range(8))
def test_the_weighted_rule_eliminates_in_the_order_of_its_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size = 25
    arcs = np.triu(draw.random((size, size)) < (0.1, 0.3)[seed % 2], 1)
    names = [str(number) for number in range(size)]
    scopes = [(names[a], names[b]) for a, b in np.argwhere(arcs)]
    graph = _Graph.of(draw.integers(1, 9, size).tolist(), names, scopes)
    assert _eliminated(graph, _weighted) == _eliminated(graph, weight_of_fill_in)


def test_a_star_is_eliminated_in_quadratic_steps() -> None:
    class Counted(list[int]):
        looked = 0

        def __getitem__(self, place: Any) -> Any:
            self.looked += 1
            return super().__getitem__(place)

    leaves = 100
    counts = Counted([3] + [2] * leaves)
    names = [str(number) for number in range(leaves + 1)]
    _eliminated(_Graph.of(counts, names, [("0", leaf) for leaf in names[1:]]), _weighted)
    assert counts.looked < 5 * leaves**2


@pytest.mark.parametrize(("more", "converged"), [({}, True), ({"epochs": 1}, True), ({"batch_size": 10}, False)])
def test_counting_complete_rows_has_converged(more: dict[str, Any], converged: bool) -> None:
    model = fgrn.BayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]})
    table = {"a": [0, 1, 1, 0] * 10, "b": [0, 1, 0, 0] * 10}
    history = model.learn(table, smoothing=1.0, **more)
    assert history.converged is converged
    assert model.trained[-1]["converged"] is converged
