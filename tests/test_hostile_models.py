"""Altered model files with a correct checksum give a working model or are refused."""

from __future__ import annotations

import copy
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_model_file import forged, taken_apart

import fgrn
from fgrn.files import model_file

MUTATIONS = 25
"""Of each model; more of them find more, see `altered`."""

ROWS = 40


def table() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    return {
        "colour": [None if k % 9 == 0 else str(v) for k, v in enumerate(rng.choice(["red", "blue", "green"], ROWS))],
        "age": np.round(rng.normal(50, 10, ROWS), 1).tolist(),
        "many": rng.integers(0, 3, ROWS).tolist(),
    }


def estimator(model: Any, target: bool = False) -> Any:
    return model.fit(table(), {"buys": ["no", "yes"] * (ROWS // 2)}) if target else model.fit(table())


SETTINGS: dict[str, Any] = {"n_epochs": 2, "random_state": 0, "engine": "reference"}
STATES = {"a": 2, "b": ["x", "y", "z"], "c": 2}


def taught(net: Any, columns: str = "abc", **more: Any) -> Any:
    rng = np.random.default_rng(1)
    data = {name: rng.integers(0, 2, 12).tolist() for name in columns}
    net.learn({**data, **more}, epochs=2, engine="reference")
    return net


def bayesian() -> fgrn.BayesianNetwork:
    net = fgrn.BayesianNetwork(
        {"a": 2, "b": 2, "c": 2}, {"b": ["a"], "c": ["a"]}, {"a": [[0.5, 0.5]]},
        frozen=["a"], ties={"b": "t", "c": "t"}, name="net", properties={"a": {"position": "1, 2"}},
    )  # fmt: skip
    return taught(net)


MODELS: dict[str, Callable[[], Any]] = {
    "LatentClassifier": lambda: estimator(fgrn.LatentClassifier("auto", max_hidden=2, n_init=2, **SETTINGS), True),
    "tan": lambda: estimator(fgrn.LatentClassifier(1, structure="tan", refine=False, **SETTINGS), True),
    "tree": lambda: estimator(fgrn.LatentClassifier(2, structure="tree", refine=False, **SETTINGS), True),
    "LatentClassModel": lambda: estimator(fgrn.LatentClassModel("auto", max_hidden=2, n_init=1, **SETTINGS)),
    "NaiveBayesClassifier": lambda: estimator(fgrn.NaiveBayesClassifier(**SETTINGS), True),
    "DeepLatentClassifier": lambda: estimator(fgrn.DeepLatentClassifier((2, 2), n_init=1, **SETTINGS), True),
    "DiscreteICA": lambda: estimator(fgrn.DiscreteICA((2, 2), n_init=1, **SETTINGS)),
    "HiddenTreeModel": lambda: estimator(fgrn.HiddenTreeModel(2, n_trees=2, **SETTINGS)),
    "LatentImputer": lambda: estimator(fgrn.LatentImputer(2, n_init=1, missing_values=["?"], **SETTINGS)),
    "lvm": lambda: taught(fgrn.lvm(STATES, hidden=2)),
    "dica": lambda: fgrn.dica(STATES, hidden=[2, 2]),
    "stack": lambda: fgrn.stack(STATES, hidden=[2, 2], groups=2),
    "naive Bayes": lambda: fgrn.naive_bayes(STATES, class_variable="b"),
    "chain": lambda: taught(fgrn.hmm({"a": 2}, hidden=2, sequence="run"), "a", run=[0] * 6 + [1] * 6),
    "bayesian": bayesian,
    "junction tree": lambda: bayesian().to_network(),
    "markov": lambda: fgrn.MarkovNetwork({"a": 2, "b": 3}, [(("a", "b"), np.ones((2, 3))), (("b",), [1.0, 2, 3])]),
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, dict[str, np.ndarray]]]:
    """The document and the tensors of a model, by its name in MODELS."""
    found: dict[str, tuple[Any, dict[str, np.ndarray]]] = {}

    def of(name: str) -> tuple[Any, dict[str, np.ndarray]]:
        if name not in found:
            path = tmp_path_factory.mktemp("models") / "m.fgrn"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                MODELS[name]().save(path)
            found[name] = taken_apart(path.read_bytes())
        document, tensors = found[name]
        return copy.deepcopy(document), dict(tensors)

    return of


# Alterations


DEEP = re.compile(r'"<([0-9]+) (lists|records)>"')


def text_of(document: Any) -> str:
    """A document as JSON, with lists and records in each other where it says so."""

    def nested(found: re.Match[str]) -> str:
        depth, (begin, end) = int(found[1]), ("[", "]") if found[2] == "lists" else ('{"a":', "}")
        return begin * depth + "1" + end * depth

    return DEEP.sub(nested, json.dumps(document))


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 1.5, -0.5, 1e308, -1e308, 5e-324, 10**9, -(10**9), 2**63 - 1, 2**63, 2**64 - 1,
    float("nan"), float("inf"), -float("inf"), "", "x", "a", "S", "auto", "nan", "\ud800", "\0", "x" * 5000, [], {},
    [1], ["a", "b"], [None], [[]], {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"float": "x"}, {"a": 1},
    "<40 lists>", "<300 lists>", "<300 records>", "<900 lists>", "<900 records>", [0.5] * 3, [True, False],
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: what holds a value, and its key there."""
    if isinstance(value, (dict, list)):
        for key, one in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from places(one)


def altered(document: Any, tensors: dict[str, np.ndarray], rng: random.Random) -> str:
    """Change one thing in a document or its tensors; what was changed."""
    if tensors and rng.random() < 0.1:
        name = rng.choice(sorted(tensors))
        array = tensors[name].copy()
        if array.dtype == bool or rng.random() < 0.4:
            tensors[name] = rng.choice([array.reshape(-1), array[:0], array[None], array.T, array.astype(np.int64)])
            return f"the shape of {name}"
        array.reshape(-1)[rng.randrange(array.size)] = change = rng.choice([np.nan, np.inf, -1, 2, 0, 5e-324, 1e308])
        tensors[name] = array
        return f"{name} holds {change}"
    some = list(places(document))
    holder, key = rng.choice(some)
    where = f"{key!r} of {str(holder)[:200]}"
    what = rng.random()
    if what < 0.2:
        del holder[key]
        return f"without {where}"
    if what < 0.3 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
        return f"twice {where}"
    if what < 0.4:
        other, place = rng.choice(some)
        holder[key] = copy.deepcopy(other[place])
        return f"{where} becomes {str(holder[key])[:200]}"
    if what < 0.45 and isinstance(holder, dict):
        holder[rng.choice(["", "x", "__class__", key + "_"])] = holder.pop(key)
        return f"renamed {where}"
    holder[key] = copy.deepcopy(rng.choice(VALUES))
    return f"{where} becomes {str(holder[key])[:200]}"


def used(model: Any, path: Path) -> None:
    """Use a model in all ways; errors of this package are accepted."""
    tries: list[Callable[[], Any]] = [lambda: repr(model), lambda: str(model), lambda: model._repr_html_()]
    if isinstance(model, (fgrn.Network, fgrn.BayesianNetwork, fgrn.MarkovNetwork)):
        names = [variable.name for variable in model.variables]
        row = {name: [None] for name in names[1:]}
        tries += [lambda: model.trained, lambda: model.posterior({names[0]: [0]}, names[-1]) if names else None]
        tries += [
            lambda: model.copy() == model,
            lambda: model.log_likelihood(row) if hasattr(model, "log_likelihood") else 0,
        ]
    else:
        for method in (
            "predict",
            "predict_proba",
            "score_samples",
            "transform",
            "complete",
            "prototypes",
            "get_params",
        ):
            if hasattr(model, method):
                rows = () if method in ("get_params", "prototypes") else ({n: v[:2] for n, v in table().items()},)
                tries.append(lambda method=method, rows=rows: getattr(model, method)(*rows))
        tries += [
            lambda: str(model.history_),
            lambda: str(getattr(model, "selection_", None)),
            lambda: str(model.schema_),
        ]
    for one in tries:
        try:
            one()
        except fgrn.FgrnError:
            pass
        except AttributeError as error:
            if "_repr_html_" not in str(error):
                raise
    model.save(path)  # what could be read can be written
    again = fgrn.load(path)
    assert model_file._is_equal(again, model, model_file._record_of(model))
    with suppress(fgrn.FgrnError, ValueError):  # settings are checked when they are used
        if isinstance(model, fgrn.Network):
            model.learn({}, epochs=1)
        elif hasattr(model, "classes_"):
            model.partial_fit(table(), [model.classes_[0]] * ROWS)
        elif hasattr(model, "partial_fit"):
            model.partial_fit(table())


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_file_gives_a_model_that_works_or_is_refused(
    name: str, parts: Callable[[str], tuple[Any, dict[str, np.ndarray]]], tmp_path: Path
) -> None:
    path = tmp_path / "m.fgrn"
    refused = 0
    for seed in range(MUTATIONS):
        document, tensors = parts(name)
        rng = random.Random(f"{name} {seed}")
        changes = [altered(document, tensors, rng) for _ in range(1 + (seed % 5 == 0))]
        path.write_bytes(forged(text_of(document), tensors))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = fgrn.load(path)
                except fgrn.ModelFileError as error:
                    assert str(error).startswith(("The model file", "There is"))
                    refused += 1
                    continue
                used(model, tmp_path / "again.fgrn")
        except Exception as error:
            raise AssertionError(f"{name}, {seed}: {'; '.join(changes)}") from error
    assert refused >= MUTATIONS // 4


@pytest.mark.parametrize(
    ("name", "alter", "said"),
    [
        ("LatentClassModel", lambda one: one["params"].update(smoothing="<900 lists>"), "nested too deeply"),
        ("LatentClassModel", lambda one: one["params"].update(smoothing="<41 lists>"), "nested too deeply"),
        ("NaiveBayesClassifier", lambda one: one.pop("classes"), "has no 'classes'"),
        ("LatentClassModel", lambda one: one.pop("n_hidden"), "has no 'n_hidden'"),
        ("LatentClassModel", lambda one: one["history"].update(objective=[float("nan")] * 2), "not finite"),
        ("LatentClassModel", lambda one: one["history"].update(objective=["<big>"] * 2), "1e999 is not finite"),
    ],
    ids=["deep", "a little deep", "no classes", "no states", "NaN", "too large"],
)
def test_what_is_refused_is_told(
    name: str,
    alter: Callable[[Any], Any],
    said: str,
    parts: Callable[[str], tuple[Any, dict[str, np.ndarray]]],
    tmp_path: Path,
) -> None:
    document, tensors = parts(name)
    alter(document["estimator"])
    path = tmp_path / "m.fgrn"
    path.write_bytes(forged(text_of(document).replace('"<big>"', "1e999"), tensors))
    with pytest.raises(fgrn.ModelFileError, match=said):
        fgrn.load(path)


def test_numbers_that_json_does_not_know_come_back(
    parts: Callable[[str], tuple[Any, dict[str, np.ndarray]]], tmp_path: Path
) -> None:
    document, tensors = parts("LatentClassModel")
    document["estimator"]["history"]["log_likelihood"] = [{"float": "nan"}, {"float": "-inf"}]
    path = tmp_path / "m.fgrn"
    path.write_bytes(forged(document, tensors))
    model = fgrn.load(path)
    model.save(path)
    assert np.array_equal(fgrn.load(path).history_.log_likelihood, [np.nan, -np.inf], equal_nan=True)
