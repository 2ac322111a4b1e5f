"""Which engine "auto" is, and the kernels that `fgrn.warm` puts in place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import engines
from fgrn.engines import kernels, star_counts
from fgrn.engines.kernels.cache import KernelCache
from fgrn.engines.kernels.directions import times_inverse_hessian
from fgrn.engines.kernels.sums import counts_of_sums, nested_sums
from fgrn.learning import execution

KERNELS = {
    "tree": 1, "cliques": 1, "recount": 1, "pack": 3, "star_messages": 1, "star": 1, "star_block": 1, "scan": 1,
    "joint_tables": 1, "unpacked": 1, "sort_entries": 1, "prior_counts": 1, "viterbi": 1, "matrix_sweeps": 1,
    "log_prior_of_cells": 1,
}  # fmt: skip
"""Those that Python calls, and for how many kinds of arguments each is compiled."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that are used from now on, by name."""
    names: list[str] = []
    plain = engines.get

    def watched(name: str, **settings: Any) -> Any:
        names.append(name)
        return plain(name, **settings)

    monkeypatch.setattr(engines, "get", watched)
    return names


def signatures() -> dict[str, int]:
    return {name: len(getattr(kernels, name).signatures) for name in KERNELS}


def small() -> fgrn.Network:
    return fgrn.lvm({f"Y{i}": 3 for i in range(4)}, hidden=3)


def rows(count: int, columns: int = 4) -> dict[str, np.ndarray]:
    return {f"Y{i}": np.random.default_rng(i).integers(0, 3, count) for i in range(columns)}


def test_the_kernel_that_a_second_process_compiles_is_the_one_that_learns() -> None:
    star_counts.compile_star()
    before = len(kernels.star.signatures)
    rng = np.random.default_rng(0)
    data = {f"Y{i}": rng.integers(0, 3, 300) for i in range(5)}
    for threads in (1, 2):
        fgrn.lvm(dict.fromkeys(data, 3), hidden=4).learn(data, epochs=3, starts=2, engine="cpu", threads=threads)
    assert len(kernels.star.signatures) == before == 1


def test_warming_compiles_the_kernels_that_are_not_exported() -> None:
    fgrn.warm()
    assert [len(kernel.signatures) for kernel in (nested_sums, counts_of_sums, times_inverse_hessian)] == [1, 1, 1]


def test_every_kernel_is_known_here() -> None:
    kept = {name for name, thing in vars(kernels).items() if isinstance(getattr(thing, "_cache", None), KernelCache)}
    assert kept == set(KERNELS)


def test_small_requests_stay_with_the_reference_however_many_there_were(asked: list[str]) -> None:
    net, data = small(), rows(1)
    net.posterior(data, "S", engine="cpu")  # what is loaded does not matter
    asked.clear()
    many = int(execution.SMALL_WORK // net._plan(()).work // 1000 + 1) * 2
    for _ in range(many):
        net.propagate(rows(1000))  # together far above the limit
    assert set(asked) == {"reference"}
    assert (
        net.propagate(data).log_likelihood.tobytes() == net.propagate(data, engine="reference").log_likelihood.tobytes()
    )


def test_the_engine_is_chosen_by_plan_and_rows(asked: list[str]) -> None:
    net = small()
    enough = int(np.ceil(execution.SMALL_WORK * execution.ANSWERED / net._plan(()).work))
    for count, name in ((enough, "cpu"), (enough - 1, "reference"), (enough, "cpu")):
        asked.clear()
        net.posterior(rows(count), "S")
        assert set(asked) == {name}
    asked.clear()
    net.propagate(rows(enough - 1), keep=["S"])  # messages, which the reference engine does not compute all at once
    assert set(asked) == {"cpu"}


@pytest.mark.parametrize("name", engines.installed_engines())
def test_an_engine_that_is_named_is_used(name: str) -> None:
    plan = small()._plan(())
    assert {execution.engine_for(name, plan, rows).name for rows in (0, 10**12)} == {name}


def test_estimators_follow_the_same_rule(asked: list[str]) -> None:
    table = {**{name: column.tolist() for name, column in rows(40).items()}, "Y0": ["a", "b"] * 20}
    y = table.pop("Y0")
    frame = np.array([*table.values()]).T
    model = fgrn.LatentClassifier(2, random_state=0, n_epochs=2).fit(frame, y)
    model.predict(frame)
    model.predict_proba(frame)
    assert set(asked) == {"reference"}


@pytest.mark.slow
def test_warming_compiles_all_that_anything_needs(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fgrn.warm()
    assert signatures() == KERNELS
    asked.clear()
    net = small()
    net.propagate(rows(1))
    assert set(asked) == {"reference"}  # as it was without
    monkeypatch.setattr(execution, "SMALL_WORK", 0.0)
    net.propagate(rows(1))
    small().learn(rows(1), epochs=1, cycles=2)
    net.learn(rows(50), epochs=2, weights=np.ones(50), holes="ignore")
    net.learn({**rows(50), "Y0": [[0.2, 0.3, 0.5]] * 50}, epochs=1, cycles=2)
    net.propagate({**rows(50), "S": [[0.2, 0.3, 0.5]] * 50}, schedule="rounds")
    net.complete({**rows(50, 2)})
    stacked = fgrn.stack({f"Y{i}": 3 for i in range(4)}, hidden=[2, 2])
    stacked.learn(rows(50), epochs=1, cycles=2)
    stacked.posterior(rows(50), "S2")
    chain = fgrn.hmm({f"Y{i}": 3 for i in range(4)}, hidden=2)
    chain.learn(rows(50), epochs=1)
    chain.propagate(rows(50))
    path = tmp_path / "rows.csv"
    path.write_text("Y0,Y1\n" + "0,1\n2,\n" * 30)
    small().learn(fgrn.Stream(path), epochs=2)
    arrow = fgrn.BayesianNetwork({f"Y{i}": 3 for i in range(4)}, {"Y1": ["Y0"], "Y2": ["Y0", "Y1"]})
    arrow.learn(rows(50), epochs=1, smoothing=1.0)
    arrow.learn({**rows(50), "Y0": [None, 1] * 25}, epochs=1, smoothing=1.0)
    arrow.posterior(rows(50, 2), "Y2")
    assert signatures() == KERNELS


CALLS = """
import sys
import numpy as np
import fgrn
model = fgrn.LatentClassifier(2, random_state=0, n_epochs=2).fit(np.eye(4, dtype=int), ["a", "b"] * 2)
model.predict(np.eye(4, dtype=int)[:1])
model.network_.propagate(None)
print("numba" in sys.modules)
"""


def test_nothing_small_imports_the_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr
