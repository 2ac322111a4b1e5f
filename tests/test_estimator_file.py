"""Altered estimators in model files are refused with a clear error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.files import estimator_file, model_file

pytestmark = pytest.mark.filterwarnings("ignore:The best number of hidden states")


@pytest.fixture(scope="module")
def fitted() -> fgrn.LatentClassifier:
    rng = np.random.default_rng(0)
    table = {"colour": rng.choice(["red", "blue"], 60).tolist(), "age": rng.normal(50, 10, 60).tolist()}
    model = fgrn.LatentClassifier(
        "auto", criterion="held_out", max_hidden=3, n_epochs=5, random_state=0, engine="reference"
    )
    return model.fit(table, {"buys": ["no", "yes"] * 30})


def set_at(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = to

    return change


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        for key in path[:-1]:
            record = record[key]
        del record[path[-1]]

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another class": (set_at("class", to="os.system"), "os.system"),
    "a class that is none": (set_at("class", to=3), "class"),
    "no params": (without("params"), "params"),
    "params of another kind": (set_at("params", "n_epochs", to="many"), "n_epochs"),
    "params that are a list": (set_at("params", to=[1]), "params"),
    "a negative smoothing": (set_at("params", "smoothing", to=-1), "smoothing"),
    "levels that differ": (set_at("schema", 0, "levels", to=["red", "green"]), "colour"),
    "one level less": (set_at("schema", 0, "levels", to=["red"]), "colour"),
    "no schema": (without("schema"), "schema"),
    "a schema of words": (set_at("schema", to=["colour"]), "not one"),
    "an unknown part of a column": (set_at("schema", 0, "code", to="x"), "not one"),
    "edges that fall": (set_at("schema", 1, "edges", to=[3, 2, 1, 0]), "age"),
    "other features": (set_at("features", to=["age", "colour"]), "columns"),
    "too many features": (set_at("features", to=10**9), "columns"),
    "no classes": (set_at("classes", to=[]), "classes"),
    "other classes": (set_at("classes", to=["no", "perhaps"]), "buys"),
    "classes that are lists": (set_at("classes", to=[["no"], ["yes"]]), "classes"),
    "rows of words": (set_at("rows", to="60"), "rows"),
    "infinite weight": (set_at("weight", to={"float": "inf"}), "weight"),
    "a history of words": (set_at("history", "log_likelihood", to=["a"]), "'a'"),
    "no history": (without("history"), "history"),
    "other hidden states": (set_at("n_hidden", to=4), "states"),
    "no class sizes": (set_at("selection", "candidates", 0, "class_sizes", to=[]), "classes"),
    "another criterion": (set_at("selection", "criterion", to="__class__"), "__class__"),
    "nothing tried": (set_at("selection", "candidates", to=[]), "chosen"),
    "a candidate of words": (set_at("selection", "candidates", 0, to="x"), "tried"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_altered_estimator_is_refused(
    change: str, fitted: fgrn.LatentClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter, word = CHANGES[change]
    record = copy.deepcopy(estimator_file.estimator_record(fitted))
    alter(record)
    path = tmp_path / "m.fgrn"
    path.write_bytes(model_file._network_bytes(fitted.network_, {"estimator": record}))
    with pytest.raises(fgrn.ModelFileError) as caught:
        fgrn.load(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)


def test_what_is_not_altered_comes_back(fitted: fgrn.LatentClassifier, tmp_path: Path) -> None:
    path = tmp_path / "m.fgrn"
    fitted.save(path)
    again = fgrn.load(path)
    assert estimator_file.estimator_record(again) == estimator_file.estimator_record(fitted)
    assert str(again.selection_) == str(fitted.selection_)
    np.testing.assert_array_equal(again.history_.log_likelihood, fitted.history_.log_likelihood)


def test_parameters_of_the_future_are_left_out(fitted: fgrn.LatentClassifier, tmp_path: Path) -> None:
    record = copy.deepcopy(estimator_file.estimator_record(fitted))
    record["params"]["colour_of_the_sky"] = "blue"
    path = tmp_path / "m.fgrn"
    path.write_bytes(model_file._network_bytes(fitted.network_, {"estimator": record}))
    assert isinstance(fgrn.load(path), fgrn.LatentClassifier)


def test_a_schema_that_was_given_is_given_again(fitted: fgrn.LatentClassifier, tmp_path: Path) -> None:
    table = {"colour": ["red", "blue"] * 5, "age": [30.0, 60.0] * 5}
    model = fgrn.LatentClassModel(n_init=1, n_epochs=3, schema=fitted.schema_, engine="reference").fit(table)
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.get_params()["schema"] == fitted.schema_


def test_a_file_of_the_first_version_stays_readable() -> None:
    model = fgrn.load(Path(__file__).parent / "data" / "version-1-estimator.fgrn")
    assert isinstance(model, fgrn.LatentClassifier)
    assert list(model.schema_) == ["colour", "age", "works"]
    assert model.schema_["age"].is_binned
    assert model.classes_.tolist() == ["no", "yes"]
    asked = {"colour": ["red", None], "age": [3.0, None], "works": [None, False]}
    np.testing.assert_allclose(model.predict_proba(asked), [[0.089868, 0.910132], [0.510645, 0.489355]], atol=1e-6)
    assert model.network_.trained[0]["rows"] == 40


@pytest.mark.parametrize("hidden", [["x"], {}, [[1, 2]], [None], "", "auto", [3, 3]])
def test_hidden_variables_that_are_none(hidden: Any, tmp_path: Path) -> None:
    model = fgrn.DiscreteICA(n_hidden=(2, 2), n_init=1, n_epochs=2, engine="reference").fit({"a": [0, 1], "b": [1, 0]})
    record = copy.deepcopy(estimator_file.estimator_record(model))
    record["params"]["n_hidden"] = hidden
    path = tmp_path / "m.fgrn"
    path.write_bytes(model_file._network_bytes(model.network_, {"estimator": record}))
    if hidden == [3, 3]:  # as many of them: a parameter that was changed after fitting
        assert isinstance(fgrn.load(path), fgrn.DiscreteICA)
        return
    with pytest.raises(fgrn.ModelFileError):
        fgrn.load(path)


def test_what_was_not_estimated_is_in_the_file_and_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from fgrn import cli

    model = fgrn.NaiveBayesClassifier(smoothing=0.0).fit({"a": ["x", "y", None]}, ["u", "v", "w"])
    assert model.history_.not_estimated == {"a": (2,)}
    model.save(tmp_path / "n.fgrn")
    assert fgrn.load(tmp_path / "n.fgrn").history_.not_estimated == {"a": (2,)}
    (tmp_path / "t.csv").write_text("a,b\n" + "x,u\ny,v\n" * 5 + ",w\n" * 2)
    command = ["fit", str(tmp_path / "t.csv"), "--target", "b", "--model", "naive-bayes", "--smoothing", "0"]
    assert cli.main([*command, "-o", str(tmp_path / "m.fgrn")]) == 0
    assert "1 row of a table was not estimated, since the data say nothing of it: a (1)" in capsys.readouterr().out
