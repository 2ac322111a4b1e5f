"""The torch engine on the processor against the reference engine; on a GPU `benchmarks/gpu.py` compares them too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import as_evidence, bayesian_network, random_row
from strategies import Evidence, SmallNetwork, networks, networks_with_evidence
from test_engines import star

import fgrn
from fgrn import Network, engines

pytest.importorskip("torch", reason="PyTorch is not installed: pip install fgrn[torch]")


def assert_same_answers(net: Network, data: Any, rtol: float = 1e-10, **learning: Any) -> None:
    """Marginals, likelihoods and learnt tables are those of the reference engine."""
    ways = {"parts": ["marginal", "likelihood"], "impossible": "mark"}
    one, other = (net.propagate(data, engine=engine, **ways) for engine in ("reference", "torch"))
    np.testing.assert_array_equal(other.impossible, one.impossible)
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=rtol, atol=rtol)
    for name in one.kept:
        np.testing.assert_allclose(other.marginal(name), one.marginal(name), rtol=rtol, atol=rtol, err_msg=name)
    if not any((*net._spec.learnt_tables, *net._spec.learnt_priors)):
        return
    if one.impossible.any():
        for engine in ("reference", "torch"):
            with pytest.raises(fgrn.ImpossibleEvidence):
                net.copy().learn(data, engine=engine, epochs=1)
        return
    learners = net.copy(), net.copy()
    histories = [
        learner.learn(data, engine=engine, epochs=2, merge=False, **learning)
        for learner, engine in zip(learners, ("reference", "torch"), strict=True)
    ]
    np.testing.assert_allclose(histories[1].log_likelihood, histories[0].log_likelihood, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(learners[1]._parameters.values, learners[0]._parameters.values, rtol=1e-8, atol=rtol)


@given(case=networks_with_evidence(networks()), holes=st.sampled_from(["expect", "ignore"]))
@settings(deadline=None)
def test_random_trees_with_hard_soft_and_missing_evidence(case: tuple[SmallNetwork, Evidence], holes: str) -> None:
    small, evidence = case
    assert_same_answers(Network(small.blocks), evidence.columns, holes=holes)


@pytest.mark.parametrize("seed", range(12))
def test_junction_trees_of_bayesian_networks(seed: int) -> None:
    model = bayesian_network(seed)
    draw = np.random.default_rng(seed)
    evidence = as_evidence([random_row(model, draw) for _ in range(7)], model.names)
    one, other = (
        model.propagate(evidence, impossible="mark", parts=["marginal", "likelihood"], engine=engine)
        for engine in ("reference", "torch")
    )
    np.testing.assert_array_equal(other.impossible, one.impossible)
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-10, atol=1e-10)
    for name in model.names:
        np.testing.assert_allclose(other.marginal(name), one.marginal(name), atol=1e-10)


@given(seed=st.integers(0, 2**32 - 1), leaves=st.integers(2, 40), depth=st.sampled_from([5, 40, 150, 300]))
@settings(deadline=None, max_examples=40)
def test_cells_that_underflow_are_left_to_the_reference_engine(seed: int, leaves: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    hidden = int(rng.integers(2, 5))
    tables = []
    for _ in range(leaves):
        cells = 10.0 ** -rng.uniform(0, depth, (hidden, 3)) * (rng.random((hidden, 1)) < 0.9)
        cells[:, -1] += cells.sum(axis=1) == 0
        tables.append(cells / cells.sum(axis=1, keepdims=True))
    data = {f"Y{i}": rng.integers(0, 3, 5).tolist() for i in range(leaves)}
    assert_same_answers(star(tables), data)


@pytest.mark.parametrize(("precision", "bound"), [("float32", 2e-5), ("bfloat16", 0.05)])
def test_other_precisions_are_near(precision: str, bound: float) -> None:
    rng = np.random.default_rng(0)
    names = [f"Y{i}" for i in range(12)]
    net = fgrn.stack(dict.fromkeys(names, 4), hidden=[5, 3], groups=[[names[:4], names[4:8], names[8:]]])
    data = {name: [None if rng.random() < 0.2 else int(rng.integers(0, 4)) for _ in range(60)] for name in names}
    net.learn(data, epochs=2, engine="reference")
    plan = net._plan(())
    encoded = net._encode(plan, data)
    programs = net._programs_for(plan, (), encoded)
    found = []
    for engine in (engines.get("reference"), engines.get("torch", device="cpu", precision=precision)):
        loaded = engine.prepare(plan, programs, programs.counting, encoded).load(net._parameters.values)
        found.append(loaded.counts(True))
    one, other = found
    counts = np.asarray(other.values)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=bound)
    assert np.abs(counts - one.values).max() <= bound * one.values.max()
    assert np.isfinite(counts).all()


def test_blocks_of_any_size_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgrn.engines.device import engine as device_engine

    rng = np.random.default_rng(1)
    net = fgrn.lvm({f"Y{i}": 3 for i in range(6)}, hidden=4)
    data = {f"Y{i}": rng.integers(0, 3, 100).tolist() for i in range(6)}
    tables = []
    for most in (7, 64, 4096):
        monkeypatch.setattr(device_engine, "MOST_ROWS", most)
        monkeypatch.setattr(device_engine, "FEWEST_ROWS", 1)
        learner = net.copy()
        learner.learn(data, epochs=3, engine="torch", weights=np.arange(100.0), merge=False)
        tables.append(learner._parameters.values)
    np.testing.assert_allclose(tables[0], tables[2], rtol=1e-10)
    np.testing.assert_allclose(tables[1], tables[2], rtol=1e-10)


def test_what_is_delegated_has_the_same_numbers() -> None:
    rng = np.random.default_rng(2)
    net = fgrn.lvm({f"Y{i}": 3 for i in range(4)}, hidden=3)
    data = {f"Y{i}": rng.integers(0, 3, 30).tolist() for i in range(4)}
    for options in ({"cycles": 3}, {"cycles": 3, "hold": False}):
        one, other = net.copy(), net.copy()
        one.learn(data, epochs=2, engine="cpu", **options)
        other.learn(data, epochs=2, engine="torch", **options)
        np.testing.assert_allclose(other._parameters.values, one._parameters.values, rtol=1e-9)
    seen, same = (net.propagate(data, engine=engine) for engine in ("cpu", "torch"))
    np.testing.assert_array_equal(same.forward("Y0"), seen.forward("Y0"))


@pytest.mark.parametrize(("options", "words"), [
    ({"device": "abacus"}, "no device 'abacus'"),
    ({"precision": "float8"}, "'precision' must be one of 'float64'"),
])  # fmt: skip
def test_a_device_or_precision_that_is_not_there_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(fgrn.FgrnError, match=words):
        engines.get("torch", **options)


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(fgrn.FgrnError, match=r"device='cuda' needs a GPU.*device='cpu'"):
        engines.get("torch", device="cuda")
