"""The geometric mean of the messages of several models, also where one of them has a row impossible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn.core.refined_weight import RefinedWeight
from fgrn.engines.batched import MessageSums
from fgrn.flow.evidence import encode
from fgrn.flow.gaussian_leaves import GaussianLeaves
from fgrn.graph import wired_model
from fgrn.queries.opinion_pool import OpinionPool
from fgrn.tables.encoded import Evidence
from fgrn.tables.frames import Coded

SIZES = {"L": 2, "a": 2, "b": 2}


def model(a: Any, b: Any) -> fgrn.Network:
    return fgrn.naive_bayes(SIZES, class_variable="L", tables={"a": a, "b": b})


FIRST = model([[1, 0], [1, 0]], [[0.5, 0.5], [0.2, 0.8]])  # a = 1 is impossible
SECOND = model([[0.5, 0.5], [0.1, 0.9]], [[1, 0], [1, 0]])  # b = 1 is impossible


def test_the_answer_is_the_geometric_mean() -> None:
    rows = {"a": [0, None], "b": [0, 0]}
    (found,) = OpinionPool((FIRST, SECOND)).messages(rows, ["L"]).values()
    both = np.sqrt(FIRST.posterior(rows, "L") * SECOND.posterior(rows, "L"))
    np.testing.assert_allclose(found, both / both.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(OpinionPool((FIRST,)).messages(rows, ["L"])["L"], FIRST.posterior(rows, "L"))


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_row_that_one_model_has_impossible_is_answered_without_evidence(engine: str) -> None:
    """Whichever other rows there are: each model has another one impossible."""
    rows = {"a": [1, 0, 0], "b": [0, 1, 0]}
    general = OpinionPool((FIRST, SECOND)).messages(None, ["L"])["L"][0]
    with pytest.warns(fgrn.ImpossibleRowWarning) as told:
        found = OpinionPool((FIRST, SECOND)).messages(rows, ["L"], engine=engine)["L"]
    assert [list(one.message.rows) for one in told] == [[0, 1]]
    np.testing.assert_allclose(found[:2], [general, general], rtol=1e-12)
    for row in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = OpinionPool((FIRST, SECOND)).messages(
                {name: [rows[name][row]] for name in rows}, ["L"], engine=engine
            )
        np.testing.assert_allclose(one["L"][0], found[row], rtol=1e-12)


def test_two_models_of_one_structure_keep_their_products_when_they_are_asked_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fgrn.lvm({"a": 3, "b": 2, "c": 2}, hidden=2)
    data = {"a": [0, 1, 2, 2], "b": [1, 0, 1, 1], "c": [0, 0, 1, None]}
    one.learn(data, epochs=2, seed=1)
    learnt = one.copy()
    learnt.learn(data, epochs=2)
    two = one._with_parameters(learnt._parameters)  # shares the plan of the first, as refined tables do
    pool, computed, plain = OpinionPool((one, two)), [0], MessageSums.factors_of

    def counted(self: MessageSums, values: np.ndarray) -> np.ndarray:
        computed[0] += 1
        return plain(self, values)

    monkeypatch.setattr(MessageSums, "factors_of", counted)
    first = pool.messages({"a": [1], "b": [None]}, ["c"])["c"]
    once = computed[0]
    assert once
    assert pool.messages({"a": [1], "b": [None]}, ["c"])["c"].tolist() == first.tolist()
    assert computed[0] == once


CLASS, STATES = "L", {"L": ["no", "yes"], "a": 3, "b": ["x", "y"], "c": 4}


def random_networks(structure: str, generator: np.random.Generator) -> list[fgrn.Network]:
    """Three networks of one structure with random tables; they share no plan, as after reading a file."""
    rows = {
        name: generator.choice(states if isinstance(states, list) else np.arange(states), 60).tolist()
        for name, states in STATES.items()
    }
    if structure == "shared":
        network = fgrn.lvm(STATES, hidden=3)
    elif structure == "per_class":
        network = fgrn.class_mixture(STATES, CLASS, 2)
    else:
        network = fgrn.tan(rows, CLASS, states=STATES).to_network()
    found = [network.copy() for _ in range(3)]
    for one in found:
        one.learn({**rows, "b": generator.choice(["x", "y"], 60)}, weights=generator.random(60), epochs=2, smoothing=1)
    return found


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("structure", ["shared", "per_class", "tan"])
def test_rows_that_are_encoded_once_get_the_answers_of_each_model_asked_alone(structure: str, rows: int) -> None:
    generator = np.random.default_rng(rows)
    one, two, general = random_networks(structure, generator)
    labels: dict[str, list[Any]] = {
        "b": [["x", None, "y"][code] for code in generator.integers(0, 3, rows)],
        "a": [
            [0.2, 0.5, 0.3] if code == 3 else None if code == 4 else int(code)
            for code in generator.integers(0, 5, rows)
        ],
        "c": [None if code == 4 else int(code) for code in generator.integers(0, 5, rows)],
    }
    codes = {"b": [-1 if value is None else "xy".index(value) for value in labels["b"]], "c": labels["c"]}
    coded = {name: Coded(np.array([-1 if code is None else code for code in column])) for name, column in codes.items()}
    for table in (labels, coded, pd.DataFrame({"b": labels["b"], "c": pd.array(labels["c"], dtype="Int64")})):
        alone = [model.posterior(table, CLASS) for model in (one, two, general)]
        logs = [np.log(posterior) for posterior in alone]
        known = sum(np.array([value is not None for value in labels[name]]) for name in table)
        share = (known / 3)[:, None] ** 0.5
        for models, refined in (((one,), logs[0]), ((one, two), (logs[0] + logs[1]) / 2)):
            found = OpinionPool(models, general, RefinedWeight(3.0, 0.5)).messages(table, [CLASS])[CLASS]
            both = np.exp(share * refined + (1 - share) * logs[2])
            np.testing.assert_allclose(found, both / both.sum(axis=1, keepdims=True), rtol=1e-12)
            complete = np.flatnonzero(known == 3)
            if len(models) == 1:
                assert found[complete].tolist() == alone[0][complete].tolist()


def test_rows_are_encoded_once_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, general = random_networks("shared", np.random.default_rng(0))
    tables: list[Any] = []

    def counted(variables: Any, data: Any, *arguments: Any, **options: Any) -> Evidence:
        tables.append(data)
        return encode(variables, data, *arguments, **options)

    monkeypatch.setattr(wired_model, "encode", counted)
    pool = OpinionPool((one, two), general, RefinedWeight(3.0, 1.0))
    found = pool.messages({"a": [0, 1], "b": ["x", None], "L": ["no", None]}, [CLASS])[CLASS]
    assert len(tables) == 4
    assert not isinstance(tables[0], Evidence)
    assert all(isinstance(table, Evidence) for table in tables[1:])
    assert np.allclose(found.sum(axis=1), 1)


def test_the_known_values_of_rows_are_counted_in_all_columns_but_some() -> None:
    leaves = GaussianLeaves.of("S", 2, ["z"], "diagonal", np.array([[0.0], [1.0]]), np.ones(2))
    network = fgrn.lvm(STATES, hidden=2, leaves=leaves)
    rows = {"a": [0, None, [0.1, 0.2, 0.7]], "L": ["no", None, "yes"], "z": [0.5, 1.5, None], "b": ["x", "y", None]}
    table = network._encoded_rows(rows)
    assert table.known_values().tolist() == [4, 2, 2]
    assert table.known_values(["L"]).tolist() == [3, 2, 1]
    assert network._encoded_rows(None).known_values(["L"]).tolist() == [0]
