"""The torch engine on the processor against the reference engine; on a GPU `benchmarks/gpu.py` compares them too."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
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


@pytest.mark.parametrize(("precision", "bound"), [("float32", 2e-5), ("tf32", 2e-5), ("bfloat16", 0.05)])
def test_other_precisions_are_near(precision: str, bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from fgrn.engines.device import device_counts
    from fgrn.engines.device import engine as device_engine

    monkeypatch.setattr(device_engine, "MOST_ROWS", 16)  # four blocks
    monkeypatch.setattr(device_counts, "ADDED_AT_ONCE", 3)
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
    seen = net.propagate(data, parts=["marginal"], engine="torch", device="cpu", precision=precision)
    for name in plan.names:
        assert np.allclose(seen.marginal(name).sum(axis=1), 1, atol=1e-6), name


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


# Learning with tables and counts on the device


def small_tree(seed: int = 0) -> tuple[Network, dict[str, list[Any]]]:
    """A hidden tree of six columns, and rows with missing values."""
    rng = np.random.default_rng(seed)
    names = [f"Y{i}" for i in range(6)]
    net = fgrn.stack(dict.fromkeys(names, 4), hidden=[5, 3], groups=[[names[:3], names[3:]]])
    data = {name: [None if rng.random() < 0.2 else int(rng.integers(0, 4)) for _ in range(90)] for name in names}
    return net, data


@pytest.mark.parametrize("options", [
    {}, {"smoothing": 0.3}, {"only": ["Y0", "Y4"], "smoothing": {"Y0": 1.0}}, {"accelerate": True, "epochs": 7},
    {"batch_size": 20, "smoothing": 0.1}, {"validation": 0.2, "patience": 3}, {"cycles": 2}, {"starts": 2},
    {"weights": np.arange(90.0)}, {"tolerance": 1e-3, "epochs": 30},
], ids=str)  # fmt: skip
def test_learning_with_counts_on_the_device_gives_the_same_tables(options: dict[str, Any]) -> None:
    net, data = small_tree()
    one, other = net.copy(), net.copy()
    options = {"epochs": 4, "merge": False, **options}
    right = one.learn(data, engine="reference", **options)
    found = other.learn(data, engine="torch", device="cpu", precision="float64", **options)
    assert found.execution.startswith("PyTorch (processor, float64) kernel of the torch engine: ")
    np.testing.assert_allclose(found.objective, right.objective, rtol=1e-10)
    np.testing.assert_allclose(found.validation, right.validation, rtol=1e-10)
    np.testing.assert_allclose(other._parameters.values, one._parameters.values, rtol=1e-7, atol=1e-12)


def test_tied_frozen_and_supported_tables_on_the_device() -> None:
    a, y = fgrn.Variable("A", 3), [fgrn.Variable(f"Y{i}", 3) for i in range(3)]
    legs = [fgrn.Variable(f"A{i}", 3) for i in range(3)]
    frozen = [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.4, 0.0]]
    net = Network([
        fgrn.Source(a), fgrn.Diverter([a], legs), fgrn.SISO(legs[0], y[0], tie="t"), fgrn.SISO(legs[1], y[1], tie="t"),
        fgrn.SISO(legs[2], y[2], table=frozen, learn=False),
    ])  # fmt: skip
    rng = np.random.default_rng(4)
    data = {f"Y{i}": rng.integers(0, 3, 60) for i in range(3)}
    one, other, coarse = net.copy(), net.copy(), net.copy()
    one.learn(data, engine="reference", epochs=3)
    other.learn(data, engine="torch", epochs=3)
    np.testing.assert_allclose(other._parameters.values, one._parameters.values, rtol=1e-9)
    coarse.learn(data, engine="torch", precision="float32", epochs=3)
    np.testing.assert_array_equal(coarse.table("Y2"), frozen)
    np.testing.assert_allclose(coarse._parameters.values, one._parameters.values, rtol=1e-4)
    np.testing.assert_allclose(coarse.table("Y0").sum(axis=1), 1, rtol=1e-15)


def test_rows_of_tables_without_counts_are_exactly_as_before() -> None:
    before = np.array([[0.3, 0.7], [0.1, 0.9], [0.25, 0.75]])
    a, y = fgrn.Variable("A", 3), fgrn.Variable("Y", 2)
    net = Network([fgrn.Source(a), fgrn.SISO(a, y, table=before)])
    history = net.learn({"A": [0, 0, 1, 1], "Y": [0, 1, 1, 1]}, engine="torch", precision="float32", epochs=2)
    np.testing.assert_array_equal(net.table("Y")[2], before[2])
    assert history.not_estimated == {"Y": (2,)}


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
def test_a_checkpoint_is_resumed_to_the_same_bits(precision: str, tmp_path: Path) -> None:
    net, data = small_tree()
    whole, parts = net.copy(), net.copy()
    options = {"engine": "torch", "device": "cpu", "precision": precision, "smoothing": 0.1, "merge": False}
    whole.learn(data, epochs=6, **options)
    parts.copy().learn(data, epochs=3, checkpoint=tmp_path / "c", **options)
    parts.learn(data, epochs=6, checkpoint=tmp_path / "c", resume=True, **options)
    np.testing.assert_array_equal(parts._parameters.values, whole._parameters.values)


def test_the_processor_is_done_without_numba_and_other_libraries() -> None:
    """A machine with a GPU may have NumPy and PyTorch alone."""
    code = (
        "import sys, numpy as np, fgrn\n"
        "net = fgrn.lvm({'a': 3, 'b': 3}, hidden=2)\n"
        "data = {'a': np.arange(9) % 3, 'b': np.arange(9) // 3}\n"
        "net.learn(data, epochs=2, engine='torch', device='cpu'), net.posterior(data, 'S', engine='torch')\n"
        "print([name for name in ('numba', 'narwhals', 'sklearn', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_blocks_become_smaller_where_memory_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from fgrn.engines.device import block_run

    net, data = small_tree()
    right, learner = net.copy(), net.copy()
    right.learn(data, epochs=2, engine="torch")
    fitting, tried = 32, []
    begin = block_run.BlockRun.begin

    def scarce(self: block_run.BlockRun, *arguments: Any, **options: Any) -> None:
        tried.append(len(self.rows.weights))
        if tried[-1] > fitting:
            raise torch.OutOfMemoryError("out of memory")
        begin(self, *arguments, **options)

    monkeypatch.setattr(block_run.BlockRun, "begin", scarce)
    learner.learn(data, epochs=2, engine="torch")
    assert tried[:3] == [96, 48, 24]
    np.testing.assert_allclose(learner._parameters.values, right._parameters.values, rtol=1e-9)
    fitting = 0
    with pytest.raises(fgrn.FgrnError, match=r"memory of processor does not suffice.*16 rows at a time.*engine='cpu'"):
        net.learn(data, epochs=2, engine="torch")


@pytest.mark.parametrize(("states", "missing", "kind"), [
    (2, True, "uint8"), (254, True, "uint8"), (256, False, "uint8"), (256, True, "int16"), (300, False, "int16"),
])  # fmt: skip
def test_codes_are_bytes_where_they_fit(states: int, missing: bool, kind: str) -> None:
    from fgrn.engines.device.device_rows import type_on_device

    net = fgrn.lvm({"a": states, "b": 3}, hidden=2)
    rng = np.random.default_rng(0)
    data = {"a": [*rng.integers(0, states, 40).tolist(), states - 1, None if missing else 0], "b": [0, 1, None] * 14}
    plan = net._plan(())
    assert str(type_on_device(plan, net._encode(plan, data))) == f"torch.{kind}"
    assert_same_answers(net, data)


def test_settings_of_the_engine_are_for_it_alone() -> None:
    net, data = small_tree()
    with pytest.raises(fgrn.FgrnError, match=r"'precision' is for engine='torch', and this is 'cpu'"):
        net.propagate(data, engine="cpu", precision="tf32")
    right = net.posterior(data, "Y0", engine="reference")
    found = net.posterior(data, "Y0", precision="float64", device="cpu")  # "auto" is then the torch engine
    np.testing.assert_allclose(found, right, atol=1e-10)
    assert net.complete(data, device="cpu", precision="float64") == net.complete(data, engine="reference")


def test_a_gpu_is_taken_for_much_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgrn.learning import execution

    plan = fgrn.lvm({f"Y{i}": 256 for i in range(100)}, hidden=128)._plan(())
    monkeypatch.setattr(engines, "gpu_is_there", lambda: True)
    assert [execution.engine_for("auto", plan, rows).name for rows in (100_000, 10_000)] == ["torch", "cpu"]
    monkeypatch.setattr(engines, "gpu_is_there", lambda: False)
    assert execution.engine_for("auto", plan, 100_000).name == "cpu"


@pytest.mark.parametrize(("version", "told"), [("2.5.1", "needs PyTorch 2.6 or later. This is 2.5.1"), ("3.0", None)])
def test_versions_that_are_too_old_or_untested_are_told(version: str, told: str | None) -> None:
    from fgrn.engines.device.library import checked_version

    if told is None:
        with pytest.warns(fgrn.FgrnWarning, match=r"not tested with PyTorch 3.0"):
            checked_version(version)
    else:
        with pytest.raises(fgrn.FgrnError, match=told):
            checked_version(version)


@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) >= "2.4.0", reason="Triton's interpreter needs an older NumPy")
@pytest.mark.filterwarnings("ignore")  # of the interpreter: NumPy says that log(0) is
def test_kernels_of_gpus_make_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the processor, by Triton's interpreter."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    from fgrn.engines.device import block_run

    kernels = importlib.import_module("fgrn.engines.device.kernels")
    net, data = small_tree()
    net.learn(data, epochs=1, engine="reference")
    plan = net._plan(())
    encoded = net._encode(plan, data)
    programs = net._programs_for(plan, (), encoded)
    found = []
    for chosen in (None, kernels):
        monkeypatch.setattr(block_run, "kernels_for", lambda *_, chosen=chosen: chosen)
        engine = engines.get("torch", device="cpu", precision="float32")
        loaded = engine.prepare(plan, programs, programs.counting, encoded).load(net._parameters.values)
        found.append(loaded.counts(True))
    assert found[1].log_likelihood == pytest.approx(found[0].log_likelihood, rel=1e-6)
    np.testing.assert_allclose(np.asarray(found[1].values), np.asarray(found[0].values), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_of_columns_are_counted_on_the_device_as_here(weighted: bool) -> None:
    from fgrn.bayes.pair_scores import ColumnPairs
    from fgrn.engines import device_column_pairs

    draw = np.random.default_rng(3)
    codes = draw.integers(-1, 4, (500, 7))
    codes[:, 3] = np.where(codes[:, 2] > 1, 1, codes[:, 2])
    weights = draw.random(500) if weighted else np.full(500, 2.0)
    sizes = [4, 4, 4, 4, 4, 5, 4]
    right, known = ColumnPairs(sizes, [(codes, weights)]).information()
    found, weight = device_column_pairs(sizes, codes, weights, "cpu").information()
    np.testing.assert_allclose(weight, known, rtol=1e-12)
    np.testing.assert_allclose(found, right, atol=1e-12)


def test_a_mixture_of_trees_is_learnt_on_the_device() -> None:
    draw = np.random.default_rng(4)
    rows = {name: draw.integers(0, 3, 120) for name in "abcd"}
    options: dict[str, Any] = {"states": dict.fromkeys("abcd", 3)}
    net = fgrn.hidden_tree(rows, 2, engine="torch", device="cpu", **options)
    assert net == fgrn.hidden_tree(rows, 2, **options)
    here = fgrn.tree_mixture(net, rows, 3, rounds=2, validation=rows)
    there = fgrn.tree_mixture(net, rows, 3, rounds=2, validation=rows, engine="torch", device="cpu")
    assert here.trees == there.trees
    for name, stack in here.tables.items():
        np.testing.assert_allclose(there.tables[name], stack, atol=1e-10)
    found = there.propagate(rows, keep=["a"], engine="torch", device="cpu")
    np.testing.assert_allclose(found.log_likelihood, here.propagate(rows).log_likelihood, rtol=1e-10)
