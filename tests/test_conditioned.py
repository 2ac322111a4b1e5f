"""E-steps of junction trees in whose rows one variable is hidden, by a star: the counts are those of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import engines
from fgrn.flow.counts import LocalEStep
from fgrn.graph import conditioned as module
from fgrn.graph import missing_sums
from fgrn.graph.conditioned import ConditionedEStep, estep_of_rows
from fgrn.graph.row_products import products_of_rows
from fgrn.tables.encoded import Evidence

STATES = {"S": 3, "a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
PARENTS = {"a": ("S",), "b": ("S", "a"), "c": ("S", "a"), "d": ("b", "S"), "e": ("c",)}
"""A tree of the columns under a hidden variable, in any place among the parents, and a table without it."""


def network() -> fgrn.Network:
    net = fgrn.BayesianNetwork(STATES, PARENTS).to_network()
    net.learn({"a": [0, 1, 1], "e": [1, 0, 0]}, epochs=1, smoothing=0.3, engine="reference")
    return net


def rows_of(missing: float, known: str, count: int = 60) -> Evidence:
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, STATES[name], count) for name in known], axis=1).astype(np.int32)
    codes[rng.random(codes.shape) < missing] = -1
    return Evidence.of_codes(tuple(known), np.asfortranarray(codes), rng.random(count) + 0.5)


def both(net: fgrn.Network, rows: Evidence, engine: str = "reference") -> tuple[LocalEStep, object]:
    plan = net._plan()
    encoded = net._encode(plan, rows)
    how = engines.get(engine), plan, net._programs_for(plan, (), encoded), encoded
    return LocalEStep(*how, expect=True), estep_of_rows(*how, expect=True)


@pytest.mark.parametrize(("most", "rest"), [(2**12, False), (6, True)])
@pytest.mark.parametrize(("missing", "known"), [(0.0, "abcde"), (0.2, "abcde"), (0.2, "bdec"), (0.4, "edcba")])
def test_the_counts_of_a_star_are_those_of_messages(
    missing: float, known: str, most: int, rest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_sums, "MOST_STATES", (most,))  # with 6, rows of which more is missing are left out
    net = network()
    messages, star = both(net, rows_of(missing, known), "cpu")
    assert isinstance(star, ConditionedEStep)
    assert (star.rest is not None) == (rest and missing > 0)
    assert_equal_counts(messages, star, net._parameters.values)


def test_rows_are_left_out_where_sums_would_have_too_many_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_sums, "MOST_STATES", (2**12, 6))
    monkeypatch.setattr(missing_sums, "MOST_FACTORS", 750)
    net = network()
    messages, star = both(net, rows_of(0.3, "abcde"), "cpu")
    assert isinstance(star, ConditionedEStep)
    assert star.rest is not None
    assert_equal_counts(messages, star, net._parameters.values)


def assert_equal_counts(one: LocalEStep, other: object, values: np.ndarray) -> None:
    expected, found = one.count(values), other.count(values)
    assert found.values == pytest.approx(expected.values, abs=1e-10)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-9)
    assert found.weight == pytest.approx(expected.weight)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_counts_of_rows_of_negative_weight_are_subtracted(engine: str) -> None:
    net, rows = network(), rows_of(0.2, "abcde", 300)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], rows.rows)
    rows = rows.with_arrays(row_weights=rows.row_weights * signs)
    for found in both(net, rows, engine):
        assert_equal_counts(both(net, rows)[0], found, net._parameters.values)


def random_case(seed: int) -> tuple[fgrn.Network, Evidence]:
    """A network of variables with up to four parents, and rows in which many values and one variable are missing."""
    rng = np.random.default_rng(seed)
    names = [f"v{number}" for number in rng.permutation(rng.integers(3, 8))]
    states = {name: int(rng.integers(1, 4)) for name in names}
    parents = {}
    for number, name in enumerate(names[1:], start=1):
        some = rng.choice(names[:number], min(number, rng.integers(0, 4)), replace=False).tolist()
        hub = [names[0]] if rng.random() < 0.6 and names[0] not in some else []
        parents[name] = tuple(rng.permutation([*some, *hub]).tolist())
    known = rng.permutation(names[1:])[: len(names) - int(rng.integers(1, 3))].tolist()
    codes = np.stack([rng.integers(0, states[name], 30) for name in known], axis=1).astype(np.int32)
    codes[rng.random(codes.shape) < rng.choice([0.1, 0.4, 0.8])] = -1
    net = fgrn.BayesianNetwork(states, {name: those for name, those in parents.items() if those}).to_network()
    return net, Evidence.of_codes(tuple(known), np.asfortranarray(codes), rng.random(30) + 0.5)


def test_values_that_are_missing_in_any_pattern_are_summed_out() -> None:
    compared = 0
    for seed in range(60):
        net, rows = random_case(seed)
        messages, star = both(net, rows, "cpu")
        cells = np.random.default_rng(seed).random(net._plan().layout.size)
        if isinstance(star, ConditionedEStep) and star.sums is not None:
            assert_equal_counts(messages, star, cells)
            compared += 1
    assert compared > 25


def test_too_many_sums_are_left_to_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_sums, "MOST_FACTORS", 200)
    _, star = both(network(), rows_of(0.5, "abcde"), "cpu")
    assert isinstance(star, LocalEStep)


def test_products_that_lose_bits_are_left_to_messages() -> None:
    names = [f"v{number}" for number in range(60)]
    parents = dict.fromkeys(names, ("S", "top")) | {"top": ("S",)}
    net = fgrn.BayesianNetwork({"S": 2, "top": 2, **dict.fromkeys(names, 2)}, parents).to_network()
    known = ("top", *names)
    codes = np.zeros((3, len(known)), dtype=np.int32)
    codes[1:, 0] = -1  # so that sixty cells are multiplied before the sum over "top"
    rows = Evidence.of_codes(known, np.asfortranarray(codes), np.ones(3))
    rng = np.random.default_rng(0)
    cells = rng.random(net._plan().layout.size) * 1e-8
    messages, star = both(net, rows, "cpu")
    assert isinstance(star, ConditionedEStep)
    assert star.sums.of(np.append(cells, 1.0)).is_wrong
    assert_equal_counts(messages, star, cells)
    cells[:] = 1e-8 + rng.random(len(cells)) * (np.arange(len(cells)) % 3 == 0)  # some sums are large enough
    evaluated = star.sums.of(np.append(cells, 1.0))
    assert not evaluated.is_exact
    assert_equal_counts(messages, star, cells)


def test_cells_that_vanish_in_learning_do_not_slow_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without smoothing EM leaves cells down to 1e-320, of which products underflow where it does not matter."""
    rng = np.random.default_rng(0)
    kinds, shifts = rng.integers(0, 3, 400), rng.integers(0, 4, 400)
    names = [f"c{number}" for number in range(12)]
    codes = np.stack(
        [np.where(rng.random(400) < 0.85, (kinds + shifts) % 4, rng.integers(0, 4, 400)) for _ in names], axis=1
    ).astype(np.int32)
    codes[rng.random(codes.shape) < 0.15] = -1
    rows = Evidence.of_codes(tuple(names), np.asfortranarray(codes), np.ones(400))
    parents = {name: ("S", names[number // 2]) for number, name in enumerate(names[1:])} | {names[0]: ("S",)}
    net = fgrn.BayesianNetwork({"S": 6, **dict.fromkeys(names, 4)}, parents).to_network()
    net.learn(rows, epochs=150, tolerance=0, engine="cpu", seed=1)
    assert net._parameters.values[net._parameters.values > 0].min() < 1e-200
    messages, star = both(net, rows, "cpu")
    assert isinstance(star, ConditionedEStep)
    assert_equal_counts(messages, star, net._parameters.values)
    monkeypatch.setattr(LocalEStep, "count", counted := CountedCalls(LocalEStep.count))
    star.count(net._parameters.values)
    assert counted.calls == 1  # of the star


class CountedCalls:
    """A method, and how often it was called."""

    def __init__(self, method: Any) -> None:
        self.method, self.calls = method, 0

    def __get__(self, instance: Any, owner: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            return self.method(instance, *arguments)

        return call


def test_no_rows_have_no_products() -> None:
    net = network()
    rows = rows_of(0.0, "abcde").take(np.zeros(0, dtype=int))
    plan = net._plan()
    assert products_of_rows(plan.junction_tables, net._encode(plan, rows)) is None
    some = fgrn.LatentClassifier(structure="tan", refine=False).fit(
        {name: np.arange(11) % 2 for name in "abc"}, [f"c{number % 4}" for number in range(11)]
    )  # of which a part holds out no rows
    assert some.predict({"a": [0], "b": [1], "c": [0]}).shape == (1,)


def test_soft_evidence_is_left_to_messages() -> None:
    net = network()
    plan = net._plan()
    assert products_of_rows(plan.junction_tables, net._encode(plan, {"a": [[0.5, 0.5]], "b": [1]})) is None


def test_rows_without_a_hidden_variable_are_left_to_messages() -> None:
    net = network()
    _, star = both(net, rows_of(0.1, "Sabcde"))
    assert isinstance(star, LocalEStep)


def test_learning_a_tree_gives_the_tables_that_messages_give(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, settings = rows_of(0.1, "abcde"), {"epochs": 5, "smoothing": 0.1, "engine": "cpu"}
    star, messages = network(), network()
    history = star.learn(rows, **settings)
    monkeypatch.setattr(module, "products_of_rows", lambda *_: None)
    assert messages.learn(rows, **settings).execution.startswith("lanes kernel")
    assert history.execution.startswith("star kernel of the cpu engine: 60 rows")
    assert star._parameters.values == pytest.approx(messages._parameters.values, abs=1e-9)


def test_an_impossible_row_is_named_as_it_is_in_the_table() -> None:
    never = np.array([[1.0, 0.0]] * 3)
    net = fgrn.BayesianNetwork({"S": 3, "a": 2, "b": 2}, {"a": ("S",), "b": ("S", "a")}, {"a": never}).to_network()
    with pytest.raises(fgrn.ImpossibleEvidence) as error:
        net.learn({"a": [0, 0, None, 1], "b": [0, 1, 1, 1]}, epochs=1, engine="reference")
    assert list(error.value.rows) == [3]
