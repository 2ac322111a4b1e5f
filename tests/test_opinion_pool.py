"""The geometric mean of the messages of several models, also where one of them has a row impossible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.engines.batched import MessageSums
from fgrn.queries.opinion_pool import OpinionPool

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
