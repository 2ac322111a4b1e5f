"""Mini-batch EM and held-out rows: the rule itself in NumPy, one batch as EM, seeds, checkpoints, early stopping."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SmallNetwork, networks_with_evidence, weights

import fgrn
from fgrn import LearningError
from fgrn.flow.em_settings import Rule
from fgrn.flow.gaussian_leaves import GaussianLeaves
from fgrn.tables.encoded import Evidence

STATES = {"a": 2, "b": 3, "c": 2, "d": 3}


def drawn(count: int = 300, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of two classes, with missing values."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 2, count)
    tables = {name: rng.dirichlet(np.full(size, 0.6), 2) for name, size in STATES.items()}
    out = {name: np.array([rng.choice(len(t[0]), p=t[k]) for k in classes], dtype=float) for name, t in tables.items()}
    return {name: np.where(rng.random(count) < 0.1, np.nan, column) for name, column in out.items()}


def star(seed: int = 3) -> fgrn.Network:
    rng = np.random.default_rng(seed)
    tables = {name: rng.dirichlet(np.ones(size), 2) for name, size in STATES.items()}
    return fgrn.lvm(STATES, hidden=2, tables={**tables, "S": rng.dirichlet(np.ones(2))})


def oracle(
    data: dict[str, np.ndarray], order: Callable[[int], list[np.ndarray]], epochs: int, step: tuple[float, float]
) -> dict[str, np.ndarray]:
    """Mini-batch EM of a latent class model in plain NumPy, with a smoothing of 0.5 a cell of the tables."""
    net = star()
    prior, tables = net.prior("S"), {name: net.table(name) for name in STATES}
    total, running, update = len(data["a"]), None, 0
    updates = epochs * len(order(0))
    for epoch in range(epochs):
        for rows in order(epoch):
            likelihood = np.repeat(prior[None, :], len(rows), axis=0)
            for name, table in tables.items():
                for at, row in enumerate(rows):
                    if not np.isnan(data[name][row]):
                        likelihood[at] = likelihood[at] * table[:, int(data[name][row])]
            posterior = likelihood / likelihood.sum(axis=1, keepdims=True)
            fresh = {"S": posterior.sum(axis=0)}
            for name, table in tables.items():
                fresh[name] = np.zeros_like(table)
                for at, row in enumerate(rows):
                    value = data[name][row]
                    if np.isnan(value):
                        fresh[name] += posterior[at][:, None] * table
                    else:
                        fresh[name][:, int(value)] += posterior[at]
            t = step[0] * (step[1] / step[0]) ** (update / (updates - 1))
            scaled = {name: counts * total / len(rows) for name, counts in fresh.items()}
            if running is None:
                running = scaled
            else:
                running = {name: (1 - t) * running[name] + t * scaled[name] for name in scaled}
            prior = running["S"] / running["S"].sum()
            for name in tables:
                cells = running[name] + 0.5
                tables[name] = cells / cells.sum(axis=1, keepdims=True)
            update += 1
    return {"S": prior, **tables}


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_rule_is_that_of_the_module(engine: str) -> None:
    data, seed = drawn(100), 5
    shuffled = np.random.default_rng((seed, 2)).permutation(100)
    ends = [100 * number // 4 for number in range(5)]
    batches = [np.sort(shuffled[a:b]) for a, b in pairwise(ends)]

    def order(epoch: int) -> list[np.ndarray]:
        return [batches[k] for k in np.random.default_rng((seed, 1, 0, epoch)).permutation(4)]

    net = star()
    history = net.learn(
        data, epochs=3, batch_size=30, step=(0.8, 0.1), smoothing=0.5, seed=seed, engine=engine, only=[*STATES, "S"]
    )
    expected = oracle(data, order, 3, (0.8, 0.1))
    for name in STATES:
        np.testing.assert_allclose(net.table(name), expected[name], rtol=1e-9)
    np.testing.assert_allclose(net.prior("S"), expected["S"], rtol=1e-9)
    assert "in 4 batches" in history.execution
    assert net.trained[-1]["batch_size"] == 30


@given(
    case=networks_with_evidence(),
    data=st.data(),
    holes=st.sampled_from(["expect", "ignore"]),
    tolerance=st.sampled_from([0.0, 1e-3]),
)
def test_one_batch_of_all_rows_with_step_one_is_em_bit_for_bit(
    case: tuple[SmallNetwork, Any], data: Any, holes: str, tolerance: float
) -> None:
    small, evidence = case
    plain, batched = fgrn.Network(small.blocks), fgrn.Network(small.blocks)
    learn: dict[str, Any] = {"epochs": 3, "smoothing": 0.25, "seed": 1, "tolerance": tolerance, "holes": holes}
    learn["weights"] = data.draw(weights(evidence.rows))
    try:
        one = plain.learn(evidence.columns, **learn)
    except LearningError:  # all is frozen
        return
    size = evidence.rows + data.draw(st.integers(0, 3))
    other = batched.learn(evidence.columns, **learn, batch_size=size, step=1)
    assert plain == batched
    np.testing.assert_array_equal(one.log_likelihood, other.log_likelihood)
    np.testing.assert_array_equal(one.objective, other.objective)
    assert one.not_estimated == other.not_estimated


def test_steps_fall_geometrically() -> None:
    rule = Rule(epochs=5, batch_size=10, step=(0.8, 0.05))
    assert [rule.step_at(t, 5) for t in range(5)] == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05])
    assert Rule(batch_size=10, step=0.3).step_at(7, 9) == 0.3
    assert Rule(batch_size=10).step == (0.55, 0.03)


def test_batches_have_every_row_once() -> None:
    evidence = Evidence.of_codes(("a",), np.arange(103, dtype=np.int8)[:, None])
    parts = evidence.in_batches(25, seed=4)
    assert sorted(np.concatenate([part.codes[:, 0] for part in parts]).tolist()) == list(range(103))
    assert {part.rows for part in parts} <= {20, 21}
    assert not np.array_equal(parts[0].codes[:, 0], np.arange(parts[0].rows))


def test_a_seed_decides_everything_and_threads_nothing() -> None:
    data = drawn()
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 40, "validation": 0.2}
    one, same, other = star(), star(), star()
    one.learn(data, seed=1, threads=1, **settings)
    same.learn(data, seed=1, threads=4, **settings)
    other.learn(data, seed=2, **settings)
    assert one == same
    assert one != other


def test_fewer_epochs_than_all_rows_at_once() -> None:
    data = drawn(2000)
    batched, whole = star(), star()
    settings: dict[str, Any] = {"epochs": 4, "smoothing": 0.1}
    batched.learn(data, batch_size=100, **settings)
    whole.learn(data, **settings)
    assert batched.propagate(data).log_likelihood.sum() > whole.propagate(data).log_likelihood.sum() + 1


def test_the_best_parameters_by_held_out_rows_are_kept() -> None:
    data, other = drawn(40), drawn(60, seed=1)
    values: list[fgrn.Network] = []
    net = star()
    history = net.learn(data, epochs=30, validation=other)
    for epochs in range(1, 31):
        values.append(star())
        values[-1].learn(data, epochs=epochs)
    means = [float(one.propagate(other).log_likelihood.mean()) for one in values]
    np.testing.assert_allclose(history.validation, means, rtol=1e-9)
    assert history.best_epoch == int(np.argmax(means))
    assert history.best_epoch < 29, "the test needs a model that overfits"
    assert net == values[history.best_epoch]
    assert f"after epoch {history.best_epoch + 1}" in repr(history)
    patient = star()
    short = patient.learn(data, epochs=30, validation=other, patience=2)
    assert short.epochs == history.best_epoch + 3
    assert patient == net


def test_the_start_with_the_best_validation_is_kept() -> None:
    data, other = drawn(60), drawn(60, seed=1)
    net = fgrn.lvm(STATES, hidden=3)
    history = net.learn(data, epochs=5, starts=4, validation=other, batch_size=20, seed=2)
    assert history.starts[history.start] == max(history.starts) == max(history.validation)
    assert float(net.propagate(other).log_likelihood.mean()) == pytest.approx(max(history.starts), rel=1e-9)


def test_held_out_rows_are_not_learnt_from() -> None:
    data = drawn(50)
    net = star()
    net.learn(data, epochs=2, validation=0.3, seed=7)
    order = np.random.default_rng((7, 3)).permutation(50)
    rest = star()
    rest.learn({name: column[np.sort(order[15:])] for name, column in data.items()}, epochs=2, seed=7,
               validation={name: column[np.sort(order[:15])] for name, column in data.items()})  # fmt: skip
    assert net == rest


def test_an_impossible_held_out_row_is_no_error() -> None:
    net = star()
    one = {"a": [0, 0], "b": [0, 1], "c": [1, 1], "d": [0, 0]}
    history = net.learn(one, epochs=2, validation={"a": [1]})
    assert np.isneginf(history.validation).all()
    assert net.table("a")[0, 0] == 1


def test_an_impossible_row_in_a_batch_is_named_as_in_the_table() -> None:
    rows = {"L": ["no"] * 20, "Y": ["x"] * 19 + ["y"]}
    net = fgrn.naive_bayes({"L": ["no", "yes"], "Y": ["x", "y"]}, "L", tables={"Y": [[1, 0], [0.5, 0.5]]})
    with pytest.raises(fgrn.ImpossibleEvidence) as caught:
        net.learn(rows, epochs=1, batch_size=5)
    assert caught.value.rows == (19,)


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    data = drawn()
    settings: dict[str, Any] = {"epochs": 8, "batch_size": 50, "validation": 0.2, "starts": 2, "smoothing": 0.1}
    whole = star()
    expected = whole.learn(data, **settings)

    def stop(start: int, epoch: int, _: float) -> None:
        if (start, epoch) == (1, 4):
            raise KeyboardInterrupt

    place, net = tmp_path / "run.fgrn", star()
    with pytest.raises(KeyboardInterrupt):
        net.learn(data, **settings, checkpoint=place, every=1, watch=stop)
    history = net.learn(data, **settings, checkpoint=place, resume=True)
    assert net == whole
    np.testing.assert_array_equal(history.validation, expected.validation)
    for changed, why in [({"epochs": 9}, "'epochs'"), ({"step": 0.5}, "'step'"), ({"validation": 0.3}, "differ")]:
        with pytest.raises(LearningError, match=why):
            star().learn(data, **{**settings, **changed}, checkpoint=place, resume=True)


def test_rows_on_disk_come_in_batches_too(tmp_path: Path) -> None:
    data = drawn(200)
    pd.DataFrame(data).to_csv(tmp_path / "rows.csv", index=False)
    states = {name: [float(k) for k in range(size)] for name, size in STATES.items()}
    net = fgrn.lvm(states, hidden=2)
    history = net.learn(str(tmp_path / "rows.csv"), epochs=3, batch_size=64, validation=drawn(50, 1))
    assert history.per_row[-1] > history.per_row[0]
    assert len(history.validation) == 3
    net, same = fgrn.lvm(states, hidden=2), fgrn.lvm(states, hidden=2)
    net.learn(str(tmp_path / "rows.csv"), epochs=2, validation=0.1, seed=3)
    history = same.learn(data, epochs=2, validation=0.1, seed=3)
    np.testing.assert_allclose(net.table("a"), same.table("a"), rtol=1e-9)
    assert history.weight == 180


def test_a_bayesian_network_learns_in_batches() -> None:
    data = {name: np.nan_to_num(column) for name, column in drawn().items()}
    arcs = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    known, whole = fgrn.BayesianNetwork(STATES, arcs), fgrn.BayesianNetwork(STATES, arcs)
    history = known.learn(data, epochs=3, batch_size=60, step=1, validation=0.1, smoothing=1.0)
    whole.learn(data, epochs=1, smoothing=1.0)
    assert len(history.validation) == 3
    np.testing.assert_allclose(known.table("b"), whole.table("b"), atol=0.15)
    some = {**data, "d": np.where(np.arange(300) % 3 == 0, np.nan, data["d"])}
    history = known.learn(some, epochs=3, batch_size=60, validation=0.1, patience=1, smoothing=1.0)
    assert "in 5 batches" in history.execution


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"batch_size": 0}, "whole number"),
        ({"batch_size": 5, "step": 0}, "above 0"),
        ({"batch_size": 5, "step": (0.5, 2)}, "up to 1"),
        ({"batch_size": 5, "step": (0.5, 0.4, 0.3)}, "up to 1"),
        ({"step": 0.5}, "no batches"),
        ({"batch_size": 5, "cycles": 2}, "one cycle"),
        ({"batch_size": 5, "accelerate": True}, "accelerate=False"),
        ({"patience": 3}, "held-out rows"),
        ({"validation": 0.2, "patience": 0}, "whole number"),
        ({"validation": 1.5}, "fraction"),
        ({"validation": 0.001}, "holds out 0 of"),
        ({"validation": {"a": []}}, "without rows"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(LearningError, match=told):
        star().learn(drawn(60), **settings)


def test_batches_seen_once_and_chains_have_no_batches_within() -> None:
    net = star()
    with pytest.raises(LearningError, match="batch_size"):
        net.learn(drawn(20), online=net.online(), batch_size=5)
    chain = fgrn.hmm({"a": 2}, hidden=2)
    with pytest.raises(LearningError, match="must be left out: a sequence cannot be split"):
        chain.learn({"a": [0, 1, 0, 1]}, batch_size=2)
    with pytest.raises(LearningError, match="are not sequences"):
        chain.learn({"a": [0, 1, 0, 1]}, validation=0.5)
    assert len(chain.learn({"a": [0, 1, 0, 1]}, epochs=2, validation={"a": [0, 1]}).validation) == 2


def test_a_chain_with_numbers_has_no_batches_of_rows() -> None:
    leaves = GaussianLeaves("S", 2, ("y",), "diagonal", (0.0,), (1.0,))
    chain = fgrn.hmm({"a": 2}, hidden=2, leaves=leaves)
    with pytest.raises(LearningError, match="cannot be split into batches") as caught:
        chain.learn({"a": [0, 1, 0, 1], "y": [0.1, 0.9, 0.2, 1.3]}, batch_size=2)
    assert (caught.value.setting, caught.value.value) == ("batch_size", 2)


@pytest.mark.parametrize("accelerate", [False, True])
def test_patience_ends_where_held_out_rows_stay_as_probable_as_they_were(accelerate: bool) -> None:
    net = fgrn.lvm({"a": 2, "b": 3}, hidden=1)  # learnt in the first epoch
    rows = {"a": [0, 1, 1] * 20, "b": [2, 0, 1, 1] * 15}
    history = net.learn(rows, epochs=50, validation=0.2, patience=3, accelerate=accelerate)
    assert len(set(history.validation.tolist())) == 1
    assert (history.epochs, history.best_epoch) == (4, 0)
