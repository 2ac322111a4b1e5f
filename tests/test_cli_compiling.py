"""The first call on a machine: a second process compiles some of the kernels meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fgrn.cli.compiling import FEW_BYTES, compile_for_table
from fgrn.engines import compile_aside, kernel_files
from fgrn.engines.kernels import cache
from fgrn.engines.kernels.cache import KernelCache
from fgrn.engines.second_process import COMPILING, KERNELS

LEARN = """
import json, sys
import fgrn
from fgrn.engines import compile_aside
from fgrn.engines import kernels
from fgrn.engines.second_process import COMPILING

compile_aside("stars")
started = list(COMPILING)
if sys.argv[1] == "failing":
    for process in COMPILING.values():
        process.kill()
history = fgrn.lvm({"a": 2, "b": 2}, hidden=2).learn({"a": [0, 1] * 9, "b": [0, 0, 1] * 6}, epochs=2, engine="cpu")
stats = kernels.star.stats
hits, misses = sum(stats.cache_hits.values()), sum(stats.cache_misses.values())
print(json.dumps([started, list(COMPILING), hits, misses, history.log_likelihood.tolist()]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_a_kernel_compiled_by_another_process_is_loaded_and_one_that_failed_is_compiled_here(tmp_path: Path) -> None:
    def learnt(how: str, folder: str) -> list[object]:
        there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / folder)}
        done = subprocess.run([sys.executable, "-c", LEARN, how], capture_output=True, text=True, env=there)
        found: list[object] = json.loads(done.stdout.splitlines()[-1])
        return found

    *first, likelihood = learnt("working", "one")
    assert first == [["stars.star"], [], 1, 0]
    assert learnt("working", "one") == [[], [], 1, 0, likelihood]  # it is on disk
    assert learnt("failing", "two") == [["stars.star"], [], 0, 1, likelihood]


SEARCH = """
import json
import fgrn
from fgrn.engines import compile_aside
from fgrn.engines.kernels import families, family_bits
from fgrn.engines.second_process import COMPILING

compile_aside("families")
started = list(COMPILING)
rows = range(200)
fgrn.search({"a": [f"{row % 25}" for row in rows], "b": [f"{3 * row % 25}" for row in rows], "c": ["x", "y"] * 100})
used = [kernel.stats for kernel in (family_bits.scores_by_bits, families.scores_beside)]
print(json.dumps([started, [sum(one.cache_hits.values()) for one in used]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_kernels_of_structure_search_are_compiled_by_the_other_process(tmp_path: Path) -> None:
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SEARCH], capture_output=True, text=True, env=there)
    started, loaded = json.loads(done.stdout.splitlines()[-1])
    assert started == list(KERNELS["families"])
    assert loaded == [1, 1]


PYTHON = """
import json, sys
import numpy as np
import fgrn
from fgrn.engines import kernels

codes = np.random.default_rng(0).integers(0, 3, (200, 4))
data = {f"Y{i}": codes[:, i] for i in range(4)}
if sys.argv[1] == "chain":
    fgrn.hmm(dict.fromkeys(data, 3), hidden=2).learn(data, epochs=2, engine="cpu")
    used = [kernels.star, kernels.scan]
else:
    arcs = [("Y0", "Y1"), ("Y0", "Y2"), ("Y1", "Y3"), ("Y2", "Y3")]
    model = fgrn.BayesianNetwork(dict.fromkeys(data, 3), arcs)
    model.learn({**data, "Y0": [None] * 200}, epochs=2, engine="cpu")
    model.propagate({"Y1": data["Y1"]}, engine="cpu")
    used = [kernels.cliques, kernels.star]
print(json.dumps([sum(one.stats.cache_hits.values()) for one in used]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
@pytest.mark.parametrize("what", ["chain", "network"])
def test_chains_and_bayesian_networks_share_the_kernels_with_a_second_process(what: str, tmp_path: Path) -> None:
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PYTHON, what], capture_output=True, text=True, env=there, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [1, 0]  # loaded, and compiled here


def test_a_process_that_is_one_of_several_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: started.append(words))
    monkeypatch.setattr("fgrn.engines.second_process.is_missing", lambda kernel: False)
    monkeypatch.setattr(KernelCache, "is_kept", lambda self: False)
    monkeypatch.setattr("multiprocessing.parent_process", object)
    compile_aside("stars")
    assert not started


def test_nothing_is_started_for_a_few_rows_or_a_kernel_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("a,b\n1,2\n")
    large.write_text("a,b\n" + "1,2\n" * FEW_BYTES)
    started: list[object] = []

    def start(*words: object, **_: object) -> SimpleNamespace:
        started.append(words)
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setattr("fgrn.engines.second_process.is_missing", lambda kernel: False)
    monkeypatch.setattr(KernelCache, "is_kept", lambda self: False)
    compile_for_table(str(small), "stars")
    assert not started
    monkeypatch.setattr("fgrn.engines.second_process.thread_count", lambda: 1)
    compile_for_table(str(large), "stars")
    assert not started
    monkeypatch.setattr("fgrn.engines.second_process.thread_count", lambda: 2)
    with monkeypatch.context() as read_only:
        read_only.setattr(cache, "folders", lambda: [large / "no folder"])
        compile_for_table(str(large), "stars")
    assert not started  # what it compiles could not be kept
    compile_for_table(str(large), "stars")
    compile_for_table(str(large), "stars")
    assert len(started) == 1  # it is under way
    COMPILING.pop("stars.star")
    monkeypatch.setattr(KernelCache, "is_kept", lambda self: True)
    compile_for_table(str(large), "stars")
    assert len(started) == 1


STARTING = """
import sys
from fgrn.engines import compile_aside
from fgrn.engines.second_process import COMPILING

print(compile_aside("stars"), "numba" in sys.modules)
COMPILING["stars.star"].kill()
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_numba_is_not_imported_before_a_second_process_is_started(tmp_path: Path) -> None:
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, env=there, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_file_of_a_kernel_is_looked_for_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernel_files.is_missing("stars.star")
    file = kernel_files.below(tmp_path) / f"{kernel_files.file_stem('stars.star')}.0.nbc"
    file.write_bytes(b"")  # valid or not: numba has to be asked
    assert not kernel_files.is_missing("stars.star")
    assert kernel_files.is_missing("stars.star_block")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))  # no folder
    assert not kernel_files.is_missing("stars.star_block")
