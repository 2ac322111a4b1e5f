"""A Variable is accepted wherever its name is, and a row of a frame wherever a table of one row is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import BayesianNetwork, MarkovNetwork, Variable

A, B, C = Variable("a", ["no", "yes"]), Variable("b", 2), Variable("c", ["x", "y", "z"])


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return all(map(same, one, other))
    return bool(np.array_equal(one, other))


@pytest.fixture(scope="module")
def network() -> fgrn.Network:
    net = fgrn.lvm({"a": ["no", "yes"], "b": 2, "c": ["x", "y", "z"]}, hidden=2)
    net.learn({"a": ["no", "yes"] * 4, "b": [0, 1] * 4, "c": ["x", "y", "z", "x"] * 2}, epochs=3, smoothing=0.1)
    return net


@pytest.fixture(scope="module")
def bayesian() -> BayesianNetwork:
    tables = {"a": [[0.3, 0.7]], "b": [[0.2, 0.8], [0.6, 0.4]], "c": [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]}
    return BayesianNetwork([A, B, C], [("a", "b"), ("a", "c")], tables)


QUESTIONS = {
    "variable": lambda m, a, b, c: m.variable(a).labels,
    "posterior": lambda m, a, b, c: m.posterior({b: [1, 0]}, a),
    "classify": lambda m, a, b, c: m.classify({b: [1, 0], a: ["no", "no"]}, a),
    "complete": lambda m, a, b, c: list(m.complete({a: [None, "no"], b: [1, 0]}).values()),
    "complete one": lambda m, a, b, c: list(m.complete({a: None, b: 1}).values()),
    "prototype": lambda m, a, b, c: m.prototype(a, "yes"),
    "embed": lambda m, a, b, c: m.embed({b: [1]}, a),
    "explain": lambda m, a, b, c: m.explain({b: 1, c: "x", a: "no"}, a).contributions,
    "most_probable": lambda m, a, b, c: m.most_probable({b: 1}, names=[a, c]).labels,
    "max_marginals": lambda m, a, b, c: m.max_marginals({b: [1]}, names=[a]),
    "sample": lambda m, a, b, c: m.sample(3, {b: [1]}, names=[a, c]),
    "keep": lambda m, a, b, c: m.propagate({b: [1]}, keep=[a]).marginal(a),
    "belief": lambda m, a, b, c: m.propagate({b: [1]}).belief(a),
    "table": lambda m, a, b, c: m.table(b),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_variable_stands_for_its_name(network: fgrn.Network, bayesian: BayesianNetwork, question: str) -> None:
    ask = QUESTIONS[question]
    for model in (network, bayesian):
        assert same(ask(model, A, B, C), ask(model, "a", "b", "c"))


def test_a_variable_stands_for_its_name_in_networks(network: fgrn.Network) -> None:
    (hidden,) = (one for one in network.variables if one.name == "S")
    assert same(network.prior(hidden), network.prior("S"))
    seen, named = (network.propagate({"b": [1]}, paused=[one]) for one in (A, "a"))
    assert same(seen.marginal(A), named.marginal("a"))
    assert len(list(network.steps({A: ["no"]}, paused=[B]))) == len(list(network.steps({"a": ["no"]}, paused=["b"])))


def test_a_variable_stands_for_its_name_in_learning() -> None:
    rows = {"a": ["no", "yes", "yes"], "b": [0, 1, 0], "c": ["x", "y", "z"]}
    found = []
    for a, c in ((A, C), ("a", "c")):
        net = fgrn.lvm({"a": ["no", "yes"], "b": 2, "c": ["x", "y", "z"]}, hidden=2)
        net.learn(rows, epochs=2, only=[a, c], smoothing={a: 0.5, c: 0.25}, paused=[c])
        found.append([net.table(a), net.table(c), net.table("b")])
    assert all(map(same, *found))


@pytest.mark.parametrize("make", [
    lambda: fgrn.lvm({"a": ["no", "yes"], "b": 2}, hidden=2),
    lambda: BayesianNetwork({"a": ["no", "yes"], "b": 2}, [("a", "b")]),
])  # fmt: skip
def test_smoothing_by_variables_is_saved_and_resumed(make: Any, tmp_path: Path) -> None:
    rows, path = {"a": ["no", "yes", "yes"], "b": [0, 1, 0]}, tmp_path / "run.ckpt"
    model = make()
    model.learn(rows, epochs=2, smoothing={A: 1.0}, checkpoint=path)
    model.save(tmp_path / "model.fgrn")
    assert fgrn.load(tmp_path / "model.fgrn").trained == model.trained
    assert model.trained[-1]["smoothing"] == {"a": 1.0}
    again = make()
    again.learn(rows, epochs=2, smoothing={"a": 1.0}, checkpoint=path, resume=True)
    assert again == model


def test_a_variable_stands_for_its_name_in_models(bayesian: BayesianNetwork) -> None:
    tables = {A: [[0.3, 0.7]], B: [[0.2, 0.8], [0.6, 0.4]], C: [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]}
    assert BayesianNetwork([A, B, C], [(A, B), (A, C)], tables) == bayesian
    assert BayesianNetwork([A, B, C], {B: [A], C: [A]}, tables) == bayesian
    assert bayesian.parents(B) == ("a",)
    assert bayesian.children(A) == ("b", "c")
    assert same(bayesian.prior(A), bayesian.prior("a"))
    assert same(bayesian.joint({C: ["x"]}, [A, B]), bayesian.joint({"c": ["x"]}, ["a", "b"]))
    factors = [[1.0, 2], [3, 4]]
    assert MarkovNetwork([A, B], [((A, B), factors)]) == MarkovNetwork([A, B], [(("a", "b"), factors)])
    assert fgrn.naive_bayes({"a": 2, "b": 2}, Variable("a", 2)) == fgrn.naive_bayes({"a": 2, "b": 2}, "a")


def test_a_variable_stands_for_its_name_where_networks_are_made() -> None:
    states, start = {"a": ["no", "yes"], "b": 2, "c": ["x", "y", "z"]}, [[0.8, 0.2], [0.3, 0.7]]
    rows = {"a": ["no", "yes", "yes", "no"], "b": [0, 1, 0, 0], "c": ["x", "y", "z", "x"]}
    made = [
        [
            fgrn.lvm(states, hidden=2, tables={a: start}),
            fgrn.hmm(states, hidden=2, tables={a: start}),
            fgrn.hmm(states, hidden=2, length=2, tables={a: start}),
            fgrn.stack(states, [2, 2], groups=[[[a, b], [c]]], tables={a: start}),
            fgrn.chow_liu(rows, c, states={a: ["no", "yes", "unsure"]}, smoothing={b: 0.5}),
            fgrn.tan(rows, a, root=b, states={c: ["x", "y", "z", "w"]}),
            BayesianNetwork.from_data([(a, b)], rows, states={a: ["no", "yes", "unsure"]}),
        ]
        for a, b, c in ((A, B, C), ("a", "b", "c"))
    ]
    for one, other in zip(*made, strict=True):
        assert one == other


def test_a_part_of_the_most_probable_assignment_says_so(network: fgrn.Network, bayesian: BayesianNetwork) -> None:
    told = "part of the most probable joint assignment: MostProbable(labels={'a': "
    known = {"b": 1, "c": "x"}
    for model, row in ((bayesian, known), (network, {**known, "S": 0})):
        whole = model.most_probable(row, names=["a"])
        assert repr(whole).startswith("MostProbable(labels={'a': ")
        for evidence in (None, {"b": 1}, {**row, "c": None}, {**row, "c": [[0.5, 0.5, 0.0]]}):
            with pytest.warns(fgrn.FgrnWarning, match=r"a part of the most probable.*posterior\(evidence, 'a'\)"):
                part = model.most_probable(evidence, names=["a"])
            assert repr(part).startswith(told), evidence
            labels, log_probability = part
            assert labels is part.labels and log_probability is part.log_probability
    assert repr(bayesian.most_probable()).startswith("MostProbable(")
    assert repr(network.most_probable()).startswith(told)  # what is hidden is not in it
    assert repr(network.most_probable(names=["S", "a", "b", "c"])).startswith("MostProbable(")
    chain = fgrn.hmm({"a": ["no", "yes"]}, hidden=2)
    assert repr(chain.most_probable({"a": ["no", "yes"]}, names=["S"])).startswith("MostProbable(")
    assert repr(chain.most_probable({"a": ["no", None]}, names=["S"])).startswith("part of")


WIDE = Variable("a", 5)
MISTAKEN = {
    "variable": lambda m: m.variable(WIDE),
    "posterior": lambda m: m.posterior({}, WIDE),
    "evidence": lambda m: m.posterior({WIDE: [0]}, "b"),
    "one row": lambda m: m.posterior({WIDE: 0}, "b"),
    "many rows": lambda m: m.posterior({WIDE: [0] * 500}, "b"),
    "classify": lambda m: m.classify({"b": [0]}, WIDE),
    "classify given": lambda m: m.classify({WIDE: [0]}, "b"),
    "complete": lambda m: m.complete({WIDE: [None]}),
    "explain": lambda m: m.explain({WIDE: 0}, "b"),
    "names": lambda m: m.most_probable({}, names=[WIDE]),
    "sample": lambda m: m.sample(2, names=[WIDE]),
    "belief": lambda m: m.propagate({}).belief(WIDE),
    "table": lambda m: m.table(WIDE),
    "only": lambda m: m.copy().learn({"a": ["no"]}, epochs=1, only=[WIDE]),
    "smoothing": lambda m: m.copy().learn({"a": ["no"]}, epochs=1, smoothing={WIDE: 1.0}),
}


@pytest.mark.parametrize("question", MISTAKEN)
def test_a_variable_with_other_states_than_the_model_has_is_refused(
    network: fgrn.Network, bayesian: BayesianNetwork, question: str
) -> None:
    for model in (network, bayesian):
        with pytest.raises(fgrn.FgrnError, match=r"'a' has the states no, yes .* given has 0, 1, 2, 3, 4"):
            MISTAKEN[question](model)


def test_a_variable_and_its_name_are_one_key(network: fgrn.Network, bayesian: BayesianNetwork) -> None:
    rows = {"a": ["no", "yes"], "b": [0, 1]}
    for model in (network, bayesian):
        for ask in (
            lambda m: m.posterior({A: "yes", "b": 0, "a": "no"}, "c"),
            lambda m: m.complete({A: ["yes"], "a": ["no"]}),
            lambda m: m.copy().learn(rows, epochs=1, smoothing={A: 1.0, "a": 0.5}),
        ):
            with pytest.raises(fgrn.FgrnError, match="'a' is there twice: as a Variable and by its name"):
                ask(model)
    with pytest.raises(fgrn.FgrnError, match="'a' is there twice"):
        BayesianNetwork([A], tables={A: [[0.3, 0.7]], "a": [[0.5, 0.5]]})


def test_a_variable_of_another_network_is_called_by_its_name(network: fgrn.Network) -> None:
    with pytest.raises(fgrn.UnknownNameError, match="no variable"):
        network.posterior({}, Variable("elsewhere", 2))


# One row


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = np.where(rng.random(80) < 0.5, "red", "blue")
    return pd.DataFrame({"kind": kind, "size": rng.normal(np.where(kind == "red", 3.0, -3.0), 1.0)})


@pytest.fixture(scope="module")
def classifier(frame: pd.DataFrame) -> fgrn.LatentClassifier:
    y = np.where(frame["size"] > 0, "big", "small")
    return fgrn.LatentClassifier(n_hidden=2, n_epochs=5, n_init=1, random_state=0).fit(frame, y)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "score_samples", "embed"])
def test_a_row_of_a_frame_is_asked_like_a_table_of_it(
    frame: pd.DataFrame, classifier: fgrn.LatentClassifier, ask: str
) -> None:
    table = frame.iloc[:1]
    expected = getattr(classifier, ask)(table)
    for row in (frame.iloc[0], frame.iloc[0][::-1], frame.iloc[0].to_dict()):
        assert np.array_equal(getattr(classifier, ask)(row), expected)


def test_a_row_is_explained_by_its_names(frame: pd.DataFrame, classifier: fgrn.LatentClassifier) -> None:
    expected = classifier.explain(frame.iloc[:1]).contributions
    assert classifier.explain(frame.iloc[0]).contributions == expected
    assert classifier.explain(frame.iloc[0][::-1]).contributions == pytest.approx(expected)


def test_a_row_is_completed_as_it_came(frame: pd.DataFrame, classifier: fgrn.LatentClassifier) -> None:
    row = frame.iloc[0].copy()
    row["kind"] = None
    full = classifier.complete(row)
    assert isinstance(full, pd.Series)
    assert full.to_dict() == classifier.complete(row.to_dict())
    assert full["kind"] in ("red", "blue")


def test_a_series_without_names_is_refused(classifier: fgrn.LatentClassifier) -> None:
    with pytest.raises(ValueError, match="Expected 2D"):
        classifier.predict(pd.Series([1.0, 2.0]))


def test_the_network_of_an_estimator_says_how_to_read_a_table(
    frame: pd.DataFrame, classifier: fgrn.LatentClassifier
) -> None:
    with pytest.raises(fgrn.EvidenceError, match=r"schema_\.codes"):
        classifier.network_.propagate(frame)
    classifier.network_.propagate(classifier.schema_.codes(frame))
