"""Models that are saved, loaded and learn on give the result of uninterrupted learning, smoothed only once."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier

import fgrn
from fgrn import LearningError, ModelFileError
from fgrn.files import model_file
from fgrn.flow.online import Online

QUICK: dict[str, Any] = {"n_epochs": 5, "random_state": 0, "engine": "reference"}
ESTIMATORS = [
    fgrn.LatentClassifier(n_hidden=3, n_init=2, **QUICK),
    fgrn.LatentClassModel(n_hidden=3, n_init=2, **QUICK),
    fgrn.NaiveBayesClassifier(**QUICK),
    fgrn.DeepLatentClassifier(n_hidden=(2, 3), n_init=1, **QUICK),
    fgrn.DiscreteICA(n_hidden=(2, 2), n_init=1, **QUICK),
    fgrn.LatentImputer(n_hidden=3, n_init=1, **QUICK),
    fgrn.HiddenTreeModel(n_hidden=2, n_trees=2, **QUICK),
    fgrn.LatentClassifier(n_hidden=2, structure="tree", refine=False, **QUICK),
]


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


def table(rows: int = 240, seed: int = 0) -> tuple[pd.DataFrame, list[str], np.ndarray]:
    """Return columns with missing values, a class that depends on them, and weights."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 3, rows)
    frame = pd.DataFrame(
        {
            name: np.array(["low", "mid", "high"])[(state + (rng.random(rows) < 0.25) * rng.integers(1, 3, rows)) % 3]
            for name in ("a", "b", "c", "d")
        }
    )
    answer = np.where(rng.random(rows) < 0.85, state > 0, state == 0)
    holes = rng.random(frame.shape) < 0.05
    return frame.mask(holes), np.where(answer, "yes", "no").tolist(), rng.integers(1, 4, rows) / 2


def taught(model: Any, how: str, rows: slice, weighted: bool = False) -> Any:
    frame, answer, weights = table()
    options: dict[str, Any] = {"sample_weight": weights[rows]} if weighted else {}
    if is_classifier(model):
        options["y"] = answer[rows]
        if how == "partial_fit":
            options["classes"] = ["no", "yes"]
    return getattr(model, how)(frame[rows], **options)


def again(model: Any, place: Path) -> Any:
    model.save(place)
    return fgrn.load(place)


def assert_same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.network_._parameters.values, other.network_._parameters.values)
    assert one.network_.trained == other.network_.trained
    assert one.network_.online_state == other.network_.online_state
    assert (one.n_rows_, one.weight_, one.n_iter_) == (other.n_rows_, other.weight_, other.n_iter_)


# Saved and loaded


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize(("weighted", "size"), [(False, None), (True, 60.0)])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_a_saved_and_loaded_model_continues_learning_like_the_original(
    estimator: Any, first: str, weighted: bool, size: float | None, tmp_path: Path
) -> None:
    stayed = taught(clone(estimator).set_params(effective_size=size), first, slice(0, 80), weighted)
    went = again(stayed, tmp_path / "0.fgrn")
    assert_same(went, stayed)
    for number in range(1, 4):
        rows = slice(40 + 40 * number, 80 + 40 * number)
        taught(stayed, "partial_fit", rows, weighted)
        taught(went, "partial_fit", rows, weighted)
        assert_same(went, stayed)
        went = again(again(went, tmp_path / f"{number}.fgrn"), tmp_path / "twice.fgrn")
        assert_same(went, stayed)


@pytest.mark.parametrize("way", ["file", "pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("kind", ["lvm", "hmm"])
def test_a_network_keeps_what_was_counted_in_batches(kind: str, way: str, tmp_path: Path) -> None:
    states = {"a": ["x", "y", "z"], "b": 2}
    net = getattr(fgrn, kind)(states, hidden=2)
    rng = np.random.default_rng(1)
    batches = [{"a": rng.integers(0, 3, 30), "b": rng.integers(0, 2, 30)} for _ in range(4)]
    assert net.online_state is None
    state = net.online(effective_size=50)
    for batch in batches[:2]:
        net.learn(batch, epochs=1, smoothing=0.5, online=state)
    assert net.online_state == state
    if way == "file":
        net.save(tmp_path / "m.fgrn")
    ways = {
        "file": lambda: fgrn.load(tmp_path / "m.fgrn"),
        "pickle": lambda: pickle.loads(pickle.dumps(net)),
        "copy": net.copy,
        "deepcopy": lambda: copy.deepcopy(net),
    }
    other = ways[way]()
    later = other.online_state
    assert later == state
    for batch in batches[2:]:
        net.learn(batch, epochs=1, smoothing=0.5, online=state)
        other.learn(batch, epochs=1, smoothing=0.5, online=later)
        assert other == net
        assert other.online_state == later == state == net.online_state
    assert later.batches == 4


def test_counts_of_other_tables_are_not_kept() -> None:
    """Running counts belong to the tables that were made from them."""
    rows = {"a": [0, 1, 1, 1], "b": [0, 1, 1, 0]}
    net = fgrn.lvm({"a": 2, "b": 2}, hidden=2)
    state = net.online()
    net.learn(rows, epochs=1, smoothing=0.1, online=state)
    kept = net.online_state
    state.effective_size, state.weight = 1.0, 5.0  # whose it is: not the network's
    kept.weight = 7.0
    assert (net.online_state.effective_size, net.online_state.weight) == (None, 4.0)
    other = net.copy()
    other.learn(rows, epochs=1)
    assert other.online_state is None
    other = net.copy()
    other.reset()
    assert other.online_state is None
    with pytest.raises(LearningError):
        net.learn({"a": []}, epochs=1)
    assert net.online_state is not None


def test_states_are_equal_by_their_values() -> None:
    one = Online(0.6, None, 1, 3.0, np.array([0.25, 0.75]))
    assert one == Online(0.6, None, 1, 3.0, np.array([0.25, 0.75]))
    assert one != Online(0.6, None, 1, 3.0, np.array([0.25, 0.5]))
    assert one != Online(0.6, None, 1, 4.0, np.array([0.25, 0.75]))
    assert one != 3


@pytest.mark.parametrize("net", [fgrn.lvm({"a": 2}, hidden=2), fgrn.BayesianNetwork({"a": 2})])
@pytest.mark.parametrize("wrong", [True, False])
def test_a_state_that_is_none_is_refused_with_what_to_pass(net: Any, wrong: bool) -> None:
    with pytest.raises(fgrn.LearningError, match=rf"'online'.*Got {wrong}.*Online\(\)"):
        net.learn({"a": [0, 1]}, epochs=1, online=wrong)


ALTERED: dict[str, tuple[dict[str, Any], Any]] = {
    "another power": ({"power": 3}, None),
    "a power of words": ({"power": "fast"}, None),
    "no power": ({"power": None}, None),
    "an effective size of nothing": ({"effective_size": 0}, None),
    "a weight below zero": ({"weight": -1.0}, None),
    "an infinite weight": ({"weight": {"float": "inf"}}, None),
    "batches in parts": ({"batches": 1.5}, None),
    "batches below zero": ({"batches": -1}, None),
    "too few counts": ({}, np.zeros(3)),
    "counts below zero": ({}, -1.0),
    "counts without end": ({}, np.inf),
    "counts that are none": ({}, np.nan),
    "no counts": ({"tensor": "missing"}, None),
    "those of a table": ({"tensor": "table/0"}, None),
}


@pytest.mark.parametrize("change", ALTERED)
def test_altered_counts_are_refused(change: str, tmp_path: Path) -> None:
    net = fgrn.lvm({"a": 2, "b": 2}, hidden=2)
    net.learn({"a": [0, 1, 1], "b": [0, 1, 0]}, epochs=1, online=net.online())
    document, tensors = model_file.network_parts(net, net._parameters)
    record, more = model_file.online_parts(net.online_state)
    values, counts = ALTERED[change]
    record["online"].update(values)
    if isinstance(counts, np.ndarray):
        more = dict.fromkeys(more, counts)
    elif counts is not None:
        next(iter(more.values()))[1] = counts
    path = tmp_path / "m.fgrn"
    path.write_bytes(model_file.container_bytes({**document, **record}, {**tensors, **more}))
    with pytest.raises(ModelFileError, match=r"m\.fgrn"):
        fgrn.load(path)


# Smoothed once


def nothing_new(model: Any, how_often: int = 5) -> Any:
    """Continue learning with rows of negligible weight; returns the model."""
    frame, answer, _ = table(12, seed=5)
    options: dict[str, Any] = {"sample_weight": np.full(12, 1e-15)}
    if hasattr(model, "classes_"):
        options["y"] = answer
    for _ in range(how_often):
        model.partial_fit(frame, **options)
    return model


@pytest.mark.parametrize("smoothing", [0.01, 2.0])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_continuing_with_rows_of_no_weight_changes_nothing(estimator: Any, smoothing: float, tmp_path: Path) -> None:
    fitted = taught(clone(estimator).set_params(smoothing=smoothing), "fit", slice(0, 100))
    before = fitted.network_._parameters.values
    loaded = again(fitted, tmp_path / "m.fgrn")
    for model in (nothing_new(fitted), nothing_new(loaded)):
        np.testing.assert_allclose(model.network_._parameters.values, before, atol=1e-7)


def test_rows_of_missing_values_change_nothing() -> None:
    """Without forgetting, they are counted as the model expects them, so the tables stay."""
    model = taught(fgrn.NaiveBayesClassifier(**{**QUICK, "n_epochs": 200}, tol=0.0), "fit", slice(0, 100))
    before = model.network_._parameters.values
    for _ in range(10):
        model.partial_fit({name: [None] * 50 for name in "abcd"}, y=[None] * 50)
    np.testing.assert_allclose(model.network_._parameters.values, before, atol=1e-9)


def test_naive_bayes_after_fit_and_partial_fit_is_that_of_all_rows(tmp_path: Path) -> None:
    frame, answer, weights = table()
    frame = frame.fillna("mid")
    for sizes in (np.ones(240), weights):

        def some(rows: slice, sizes: np.ndarray = sizes) -> dict[str, Any]:
            return {"y": answer[rows], "sample_weight": sizes[rows]}

        whole = fgrn.NaiveBayesClassifier(smoothing=1.0).fit(frame, **some(slice(None)))
        parts = fgrn.NaiveBayesClassifier(smoothing=1.0).fit(frame[:80], **some(slice(0, 80)))
        for first in (80, 120, 160, 200):
            rows = slice(first, first + 40)
            parts = again(parts.partial_fit(frame[rows], **some(rows)), tmp_path / "m.fgrn")
        np.testing.assert_allclose(
            parts.network_._parameters.values, whole.network_._parameters.values, rtol=1e-9, atol=1e-12
        )


def without_counts(model: Any, place: Path) -> Any:
    """Return a model as loaded from a file without running counts."""
    place.write_bytes(
        model_file.container_bytes(
            {
                **(parts := model_file.network_parts(model.network_, model.network_._parameters))[0],
                "estimator": model_file.estimator_record(model),
            },
            parts[1],
        )
    )
    return fgrn.load(place)


@pytest.mark.parametrize("size", [None, 60.0])
@pytest.mark.parametrize("estimator", ESTIMATORS[:3], ids=name_of)
def test_a_model_without_running_counts_continues_from_its_tables(
    estimator: Any, size: float | None, tmp_path: Path
) -> None:
    """With complete rows counts follow from the tables, and are not smoothed twice."""
    model = clone(estimator).set_params(effective_size=size, smoothing=1.0)
    model = taught(taught(model, "partial_fit", slice(0, 100)), "partial_fit", slice(100, 160))
    old = without_counts(model, tmp_path / "m.fgrn")
    assert old.network_.online_state is None
    state = old.network_.online(old.weight_, old._power, size)
    np.testing.assert_allclose(state.running, model.network_.online_state.running, atol=1e-12)
    taught(model, "partial_fit", slice(160, 200))
    taught(old, "partial_fit", slice(160, 200))
    np.testing.assert_allclose(old.network_._parameters.values, model.network_._parameters.values, atol=1e-9)


def test_a_model_file_of_the_first_version_continues_learning() -> None:
    model = fgrn.load(Path(__file__).parent / "data" / "version-1-estimator.fgrn")
    before = model.network_._parameters.values
    model.partial_fit({"colour": ["red"], "age": [3.0], "works": [True]}, y=["yes"], sample_weight=[1e-15])
    np.testing.assert_allclose(model.network_._parameters.values, before, atol=1e-7)


@given(
    st.integers(0, 10**6),
    st.sampled_from(["lvm", "frozen", "dica", "stack", "hmm", "steps", "naive_bayes"]),
    st.floats(0.01, 5),
    st.sampled_from([1.0, 5.0]),
)
def test_counts_derived_from_tables_give_the_same_tables_when_smoothed_again(
    seed: int, kind: str, smoothing: float, off: float
) -> None:
    """Whatever the network, and however many rows are said to be behind it: smoothed again, they are what they were."""
    rng = np.random.default_rng(seed)
    states = {"a": 3, "b": 2, "c": 2}
    if kind == "dica":
        net = fgrn.dica(states, hidden=[2, 2])
    elif kind == "stack":
        net = fgrn.stack(states, hidden=[2, 2])
    elif kind == "naive_bayes":
        net = fgrn.naive_bayes(states, "a")
    elif kind in ("hmm", "steps"):
        net = fgrn.hmm(states, hidden=2, length=2 if kind == "steps" else None)
    else:
        net = fgrn.lvm(states, hidden=2, learn_prior=kind == "lvm")
    rows = {name: rng.integers(0, net.variable(name).cardinality, 40) for name in net.observed if name != "S next"}
    net.learn(rows, epochs=4, smoothing=smoothing, seed=seed, engine="reference")
    before = net._parameters.values
    nothing = {name: column[:1] for name, column in rows.items()}
    state = net.online(weight=40 * off, power=1.0)
    assert (state.running >= 0).all()
    net.learn(nothing, epochs=1, smoothing=smoothing, weights=[1e-12], online=state, engine="reference")
    np.testing.assert_allclose(net._parameters.values, before, atol=1e-6)


def test_tables_that_were_never_smoothed_are_taken_as_they_are() -> None:
    net = fgrn.lvm({"a": 2, "b": 2}, hidden=2)
    plain = net.online(weight=10.0).running
    net.learn({"a": [0, 1, 1], "b": [0, 0, 0]}, epochs=3)
    assert net.table("b")[0, 1] == 0
    zeros = net.online(weight=3.0).running
    np.testing.assert_allclose([plain.sum(), zeros.sum()], 3)
    net._trained = ({"smoothing": 0.5},)  # as if: but then there would be no zeros
    np.testing.assert_array_equal(net._spec.layout.table(net.online(weight=3.0).running, 1)[:, 1], [0, 0])
