"""Learning that is interrupted and resumed gives the same parameters, bit for bit, as an uninterrupted run."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import numpy as safetensors
from sklearn.base import clone
from strategies import Evidence, SmallNetwork, networks, networks_with_evidence

import fgrn
from fgrn import BayesianNetwork, CheckpointError, CheckpointWarning, LearningError, Network, cli
from fgrn.core.digests import digest
from fgrn.engines import installed_engines
from fgrn.files import checkpoint_file, container
from fgrn.flow.evidence import encode
from fgrn.graph.blocks import Diverter
from fgrn.learning import execution

ENGINES = installed_engines()


pytestmark = pytest.mark.slow

ROWS = 60
STATES = {f"Y{number}": 3 for number in range(4)}
OPTIONS: dict[str, Any] = {"epochs": 6, "starts": 2, "smoothing": 0.1, "engine": "reference"}


class Interrupted(Exception):
    """Raised to interrupt learning."""


def interrupting(after: int) -> Callable[..., None]:
    """Return a watcher that interrupts after some epochs."""
    seen = 0

    def watch(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen > after:
            raise Interrupted

    return watch


def table(seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {name: generator.integers(0, 3, rows) for name in STATES}


def lvm() -> Network:
    return fgrn.lvm(STATES, hidden=3)


def resumed(make: Callable[[], Any], learn: Callable[..., Any], path: Path, after: int = 1, every: int = 1) -> Any:
    """Interrupt and resume until done; returns the result and the number of interruptions."""
    for count in range(10_000):
        model = make()
        try:
            history = learn(model, checkpoint=path, every=every, resume=True, watch=interrupting(after))
        except Interrupted:
            continue
        return model, history, count
    raise RuntimeError("it does not end")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(one: Any, other: Any) -> None:
    assert one._parameters.values.tobytes() == other._parameters.values.tobytes()
    assert one._parameters == other._parameters
    assert one.trained == other.trained


def assert_same_history(one: fgrn.flow.em.History, other: fgrn.flow.em.History) -> None:
    for name in ("log_likelihood", "objective", "starts"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    for name in ("weight", "converged", "start", "not_estimated"):
        assert getattr(one, name) == getattr(other, name), name


# Interrupted after every epoch


@pytest.mark.parametrize("engine", ENGINES)
@given(
    case=networks_with_evidence(networks(zeros=False)),
    cycles=st.integers(1, 3),
    starts=st.integers(1, 3),
    smoothing=st.sampled_from([0.0, 0.2]),
    tolerance=st.sampled_from([0.0, 1e-3]),
    holes=st.sampled_from(["expect", "ignore"]),
    accelerate=st.booleans(),
    rhythm=st.tuples(st.integers(1, 3), st.integers(0, 3)),
)
def test_any_network_ends_as_if_nothing_had_happened(
    case: tuple[SmallNetwork, Evidence],
    engine: str,
    cycles: int,
    starts: int,
    smoothing: float,
    tolerance: float,
    holes: str,
    accelerate: bool,
    rhythm: tuple[int, int],
) -> None:
    network, evidence = case
    if not any(block.learn for block in network.blocks if not isinstance(block, Diverter)):
        return
    every, more = rhythm
    options: dict[str, Any] = {
        "epochs": 4, "cycles": cycles, "starts": starts, "smoothing": smoothing, "tolerance": tolerance,
        "holes": holes, "engine": engine, "seed": 7,
    }  # fmt: skip
    if accelerate:
        options |= {"accelerate": True, "cycles": 1, "epochs": 7}
    plain = Network(network.blocks)
    expected = plain.learn(evidence.columns, **options)
    with TemporaryDirectory() as folder:
        again, history, count = resumed(
            lambda: Network(network.blocks),
            lambda net, **kept: net.learn(evidence.columns, **options, **kept),
            Path(folder, "run.ckpt"),
            after=every + more,
            every=every,
        )
        assert names_in(Path(folder)) == ["run.ckpt"]
    assert_same(again, plain)
    assert_same_history(history, expected)
    assert count or expected.epochs <= every + more


def chain() -> fgrn.Chain:
    return fgrn.hmm({"Y": 3}, hidden=2, sequence="run")


def bayesian() -> BayesianNetwork:
    return BayesianNetwork({"H": 2, **STATES}, {"Y0": ["H"], "Y1": ["H", "Y0"], "Y2": ["Y1"], "Y3": ["H", "Y2"]})


def complete() -> BayesianNetwork:
    return BayesianNetwork(STATES, {"Y1": ["Y0"], "Y2": ["Y0", "Y1"]})


SEQUENCES = {"run": np.repeat(["a", "b", "c"], ROWS // 3), "Y": table()["Y0"]}
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "chain": (chain, {"data": SEQUENCES}),
    "bayesian": (bayesian, {"data": table()}),
    "complete": (complete, {"data": table()}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("settings", [{}, {"starts": 3, "tolerance": 1e-3, "smoothing": 0.5}], ids=["one", "several"])
@pytest.mark.parametrize("engine", ENGINES)
def test_chains_and_bayesian_networks_as_well(name: str, settings: dict[str, Any], engine: str, tmp_path: Path) -> None:
    make, given_ = CASES[name]
    options = {"epochs": 8, "engine": engine, "seed": 3, **given_, **settings}
    plain = make()
    expected = plain.learn(**options)
    again, history, count = resumed(make, lambda net, **kept: net.learn(**options, **kept), tmp_path / "run.ckpt")
    assert count
    assert_same(again, plain)
    assert_same_history(history, expected)


def test_layers_are_stages_of_one_run(tmp_path: Path) -> None:
    def make() -> Network:
        return fgrn.stack(STATES, hidden=[2, 3], groups=2)

    options = {"epochs": 5, "starts": 2, "smoothing": 0.1, "together": 4, "seed": 1}
    plain = make()
    expected = plain.learn_by_layer(table(), **options)
    again, histories, count = resumed(
        make, lambda net, **kept: net.learn_by_layer(table(), **options, **kept), tmp_path / "run.ckpt"
    )
    assert count > 10
    assert_same(again, plain)
    for one, other in zip(histories, expected, strict=True):
        assert_same_history(one, other)


ESTIMATORS = [
    fgrn.LatentClassifier(3, n_epochs=5, random_state=0),
    fgrn.LatentClassifier("auto", n_epochs=3, n_init=2, max_hidden=2, random_state=0),
    fgrn.NaiveBayesClassifier(random_state=0),
    fgrn.DeepLatentClassifier((2, 2), n_epochs=3, random_state=0),
    fgrn.LatentClassModel("auto", n_epochs=4, n_init=2, max_hidden=3, random_state=0),
    fgrn.DiscreteICA((2, 2), n_epochs=5, random_state=0),
    fgrn.LatentImputer(2, n_epochs=5, random_state=0),
    fgrn.HiddenTreeModel(2, n_trees=2, n_epochs=5, random_state=0),
    fgrn.HiddenTreeModel(2, n_trees=3, share_tables=True, validation=None, n_epochs=2, random_state=0),
    fgrn.LatentClassifier(2, structure="tree", refine=False, n_epochs=6, random_state=0),
]


@pytest.mark.usefixtures("quick_choice")
@pytest.mark.filterwarnings("ignore:The best number of hidden states")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: f"{type(one).__name__}-{one.get_params()}"[:40])
def test_estimators_go_on(estimator: Any, tmp_path: Path) -> None:
    X, y = {name: [None if v == 2 else v for v in values] for name, values in table().items()}, table(1)["Y0"]
    plain = clone(estimator).fit(X, y)
    place = fgrn.Checkpoint(tmp_path / "run.ckpt", every=1, resume=True)
    for count in range(100):  # noqa: B007
        again = clone(estimator).set_params(checkpoint=place)
        again._stop = interrupting(12)  # it is asked before each number of hidden states, too
        try:
            again.fit(X, y)
            break
        except Interrupted:
            assert again._journal is None
    assert count or plain.n_iter_ < 12
    assert_same(again.network_, plain.network_)
    assert_same_history(again.history_, plain.history_)
    assert getattr(again, "n_hidden_", None) == getattr(plain, "n_hidden_", None)
    assert getattr(again, "mixture_", None) == getattr(plain, "mixture_", None)
    again.save(tmp_path / "model.fgrn")
    assert fgrn.load(tmp_path / "model.fgrn").checkpoint is None


@pytest.mark.usefixtures("quick_choice")
@pytest.mark.filterwarnings("ignore:The best number of hidden states")
@pytest.mark.parametrize("estimator", ESTIMATORS[:5], ids=lambda one: f"{type(one).__name__}-{one.n_epochs}")
def test_estimators_that_were_stopped_go_on(estimator: Any, tmp_path: Path) -> None:
    """As after Ctrl-C: the stop condition stays true after it was true once."""
    X, y = table(), table(1)["Y0"]
    plain = clone(estimator).fit(X, y)
    for asked_after in (0, 3, 9, 14):
        place = fgrn.Checkpoint(tmp_path / f"{asked_after}.ckpt", resume=True)
        stopped = clone(estimator).set_params(checkpoint=place)
        asked = numbers()
        stopped._stop = lambda asked=asked, after=asked_after: next(asked) >= after
        stopped.fit(X, y)
        again = clone(estimator).set_params(checkpoint=place).fit(X, y)
        assert_same(again.network_, plain.network_)
        assert_same_history(again.history_, plain.history_)


def test_estimators_need_the_same_random_numbers(tmp_path: Path) -> None:
    model = fgrn.LatentClassModel(2, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(LearningError, match="random_state"):
        model.fit(table())
    with pytest.raises(ValueError, match="checkpoint"):
        model.set_params(checkpoint=3).fit(table())


def test_the_first_batch_of_many_is_no_run(tmp_path: Path) -> None:
    model = fgrn.LatentClassModel(2, random_state=0, checkpoint=tmp_path / "run.ckpt")
    model.partial_fit(table()).partial_fit(table(1))
    assert not list(tmp_path.iterdir())


# Killed, as the system kills: in processes of their own, at moments that are counted

KILLED = """
import os, signal, sys
from itertools import count as numbers
from pathlib import Path
import numpy as np
import fgrn
from fgrn.learning import checkpoints
from fgrn.files import checkpoint_file

rows = np.random.default_rng(0)
table = {f"Y{n}": rows.integers(0, 3, 150) for n in range(4)}
states = {name: 3 for name in table}
settings = {"epochs": 8, "starts": 2, "smoothing": 0.1, "tolerance": 1e-9, "seed": 5, "threads": 1}

def in_batches():  # on disk, in a file without a name, that every process makes anew
    return ({name: column[first : first + 40] for name, column in table.items()} for first in range(0, 150, 40))

def learnt(case, **kept):
    if case == "estimator":
        place = fgrn.Checkpoint(**kept) if kept else None
        kept = {"n_epochs": 8, "n_init": 2, "max_hidden": 3, "random_state": 0, "checkpoint": place}
        return fgrn.LatentClassModel("auto", **kept).fit(table).network_._parameters.values.tobytes()
    options = {**settings, "engine": "cpu" if case == "cpu" else "reference", **kept}
    if case == "layers":
        net = fgrn.stack(states, hidden=[2, 2], groups=2)
        net.learn_by_layer(table, together=3, **options)
    elif case == "chain":
        net = fgrn.hmm(states, hidden=3)
        net.learn({**table, "sequence": [n // 50 for n in range(150)]}, **options)
    elif case == "bayesian":
        net = fgrn.BayesianNetwork({**states, "H": 2}, {name: ["H"] for name in states})
        net.learn(table, **options)
    else:
        net = fgrn.lvm(states, hidden=3)
        net.learn(in_batches if case == "stream" else table, cycles=3 if case == "cycles" else 1, **options)
    return net._parameters.values.tobytes()

# Moments at which a process may die: an epoch has ended, a file is being written, is complete, has been replaced.
moments, last = 0, 0
def moment():
    global moments
    moments += 1
    if moments == last:
        os.kill(os.getpid(), signal.SIGKILL)

def before(function):
    return lambda *arguments, **named: (moment(), function(*arguments, **named))[1]

def after(function):
    return lambda *arguments, **named: (function(*arguments, **named), moment())[0]

checkpoints.Journal.keep = before(checkpoints.Journal.keep)
os.fsync = before(lambda file: None)  # the disk may take its time
Path.replace = after(before(Path.replace))

def killed_again_and_again(case, folder):
    global moments, last
    place, result = folder / "run.ckpt", folder / "result"
    name = "path" if case == "estimator" else "checkpoint"
    kept = {name: place, "every": 2 if case in ("chain", "cycles", "estimator") else 1, "resume": True}
    expected, stages, torn, kills, status = learnt(case), set(), 0, 0, 1
    while status:
        child = os.fork()
        if not child:
            moments, last = 0, 5 + kills % 4 + (kills % 3) * 7
            result.write_bytes(learnt(case, **kept))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), (case, status)
        if status:
            kills += 1
            torn += any(path.suffix == ".part" for path in folder.iterdir())
            found, over = checkpoint_file.read_checkpoint(place)  # whenever it was: the file is whole
            stages.add((over, *((len(stage.starts), sum(s.epochs for s in stage.starts)) for stage in found)))
    assert result.read_bytes() == expected, case
    result.unlink()
    assert os.listdir(folder) == ["run.ckpt"], (case, os.listdir(folder))
    print(case, kills, torn, len(stages))

for case in sys.argv[2:]:
    folder = Path(sys.argv[1], case)
    folder.mkdir()
    killed_again_and_again(case, folder)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
@pytest.mark.parametrize("cases", ["lvm stream cycles cpu", "chain bayesian layers estimator"])
def test_killed_at_any_moment(cases: str, tmp_path: Path) -> None:
    """In the middle of an epoch, of a file that is being written, and in between."""
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path), *cases.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        _, kills, torn, stages = line.split()
        assert int(kills) >= 4, line
        assert int(torn) >= 2, line  # files that were not complete yet
        assert int(stages) >= 3, line
    assert len(done.stdout.splitlines()) == 4


def test_a_tree_of_clusters_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, fgrn; from fgrn import *; rng = np.random.default_rng(0)\n"
        "states = {f'v{n}': 2 for n in range(12)}\n"
        "arcs = {f'v{n}': [f'v{n - 1}', f'v{n - 3}'] for n in range(3, 12)}\n"
        "net = BayesianNetwork(states, arcs)\n"
        "data = {name: [None if x == 2 else x for x in rng.integers(0, 3, 30).tolist()] for name in states}\n"
        "try: net.learn(data, epochs=4, checkpoint=sys.argv[1], every=1, resume=True,\n"
        "               watch=(lambda *_: 1 / 0) if sys.argv[2] == 'fails' else None)\n"
        "except ZeroDivisionError: pass\n"
        "print(net._parameters.values.tobytes().hex())"
    )

    def run(seed: int, name: str, how: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", code, str(tmp_path / name), how]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(1, "one", "fails")
    assert run(2, "one", "ends") == run(3, "two", "ends")


# What is over, stopped, or longer than before


def test_what_is_finished_has_its_counts_when_it_is_resumed(tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    histories = [lvm().learn(table(), **OPTIONS, checkpoint=place, resume=again) for again in (False, True)]
    assert len(histories[0].row_counts)
    assert np.array_equal(histories[0].row_counts, histories[1].row_counts)


def test_what_is_finished_returns_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run.ckpt"
    plain = lvm()
    expected = plain.learn(table(), **OPTIONS, checkpoint=place)
    before = place.read_bytes(), place.stat().st_mtime_ns
    monkeypatch.setattr(fgrn.flow.em, "_counted", lambda *_: pytest.fail("it counts"))
    again = lvm()
    assert_same_history(again.learn(table(), **OPTIONS, checkpoint=place, resume=True, watch=pytest.fail), expected)
    assert_same(again, plain)
    history = again.learn(table(), **OPTIONS, checkpoint=place, resume=True)  # also with what was learnt since
    assert_same_history(history, expected)
    assert again._parameters == plain._parameters
    assert (place.read_bytes(), place.stat().st_mtime_ns) == before


@pytest.mark.parametrize("more", [{"epochs": 11}, {"starts": 4}, {"epochs": 9, "starts": 3}], ids=str)
@pytest.mark.parametrize("tolerance", [0.0, 5e-3])
def test_a_run_may_become_longer(more: dict[str, int], tolerance: float, tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    options = {**OPTIONS, "tolerance": tolerance}
    lvm().learn(table(), **options, checkpoint=place)
    plain, again = lvm(), lvm()
    expected = plain.learn(table(), **{**options, **more})
    assert_same_history(again.learn(table(), **{**options, **more}, checkpoint=place, resume=True), expected)
    assert_same(again, plain)


def test_a_longer_run_goes_on_with_the_engine_and_merging_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, plain, again = tmp_path / "run.ckpt", lvm(), lvm()
    expected = plain.learn(table(), epochs=12, engine="reference", merge=False)
    lvm().learn(table(), epochs=4, checkpoint=place)
    monkeypatch.setattr(execution, "SMALL_WORK", 1.0)  # as more epochs would make it, were there more rows
    with pytest.raises(LearningError, match="'engine' was 'reference' and is 'cpu'"):
        lvm().learn(table(), epochs=12, checkpoint=place, resume=True, engine="cpu")
    with pytest.raises(LearningError, match="'merge' was False and is True"):
        lvm().learn(table(), epochs=12, checkpoint=place, resume=True, merge=True)
    assert_same_history(again.learn(table(), epochs=12, checkpoint=place, resume=True), expected)
    assert_same(again, plain)


def test_an_estimator_that_did_not_converge_goes_on_with_more_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, frame = tmp_path / "run.ckpt", pd.DataFrame(table()).astype(str)
    model = fgrn.LatentClassModel(n_hidden=3, n_init=1, n_epochs=3, tol=1e-12, random_state=0, checkpoint=place)
    with pytest.warns(fgrn.ConvergenceWarning, match="more epochs with n_epochs"):
        model.fit(frame)
    monkeypatch.setattr(execution, "SMALL_WORK", 1.0)
    model.set_params(n_epochs=40, tol=1e-12, checkpoint=fgrn.Checkpoint(place, resume=True)).fit(frame)
    assert model.n_iter_ > 3


def test_layers_may_become_longer(tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    nets = [fgrn.stack(STATES, hidden=[2, 3], groups=2) for _ in range(3)]
    nets[0].learn_by_layer(table(), epochs=5, checkpoint=place)
    nets[1].learn_by_layer(table(), epochs=8, checkpoint=place, resume=True)
    nets[2].learn_by_layer(table(), epochs=8)
    assert_same(nets[1], nets[2])


def test_what_was_stopped_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    stopped, again, plain = lvm(), lvm(), lvm()
    assert stopped.learn(table(), **OPTIONS, checkpoint=place, watch=lambda *_: True).epochs == 1
    assert_same_history(again.learn(table(), **OPTIONS, checkpoint=place, resume=True), plain.learn(table(), **OPTIONS))
    assert_same(again, plain)


def test_a_start_that_was_stopped_stays_so_if_the_run_was_killed(tmp_path: Path) -> None:
    """A watcher stops each start by a rule of its own, whatever the interruptions."""

    def early(start: int, epoch: int, _: float) -> bool:
        return epoch == 2 + start

    def learn(net: Network, *, watch: Any, **kept: Any) -> fgrn.flow.em.History:
        def both(*seen: Any) -> bool:
            watch(*seen)
            return early(*seen)

        return net.learn(table(), **OPTIONS, **kept, watch=both)

    plain = lvm()
    expected = plain.learn(table(), **OPTIONS, watch=early)
    again, history, count = resumed(lvm, learn, tmp_path / "run.ckpt")
    assert count > 4
    assert_same_history(history, expected)
    assert_same(again, plain)


def test_the_epochs_that_are_watched_are_those_that_are_left(tmp_path: Path) -> None:
    place, seen = tmp_path / "run.ckpt", []
    with pytest.raises(Interrupted):
        lvm().learn(table(), **OPTIONS, checkpoint=place, every=1, watch=interrupting(3))
    lvm().learn(table(), **OPTIONS, checkpoint=place, resume=True, watch=lambda *told: seen.append(told[:2]))
    assert seen == [(0, epoch) for epoch in range(3, 6)] + [(1, epoch) for epoch in range(6)]


def test_an_interruption_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    net, place = lvm(), tmp_path / "run.ckpt"
    before = net._parameters
    with pytest.raises(Interrupted):
        net.learn(table(), **OPTIONS, checkpoint=place, every=1, watch=interrupting(3))
    assert net._parameters is before
    net.learn(table(), **OPTIONS, checkpoint=place, resume=True)
    plain = lvm()
    plain.learn(table(), **OPTIONS)
    assert_same(net, plain)


def test_every_so_many_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    plain = checkpoint_file.write_checkpoint

    def noted(place: Path, stages: Any, over: bool, tidy: bool) -> None:
        written.append((stages[0].starts[0].epochs if stages[0].starts else 0, over, tidy))
        plain(place, stages, over, tidy)

    monkeypatch.setattr(checkpoint_file, "write_checkpoint", noted)
    lvm().learn(table(), epochs=10, checkpoint=tmp_path / "run.ckpt", every=4)
    assert written == [(0, False, True), (4, False, False), (8, False, False), (10, True, False)]


# Another run


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    place = tmp_path / "run.ckpt"
    with pytest.raises(Interrupted):
        lvm().learn(table(), **OPTIONS, checkpoint=place, every=1, watch=interrupting(4))
    return place


def other_value() -> dict[str, Any]:
    data = table()
    data["Y2"] = data["Y2"].copy()
    data["Y2"][17] = (data["Y2"][17] + 1) % 3
    return data


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "'seed' was 0 and is 1"),
        ({"cycles": 2}, "'cycles' was 1 and is 2"),
        ({"epochs": 5}, "'epochs' was 6 and is 5, and may grow only"),
        ({"starts": 1}, "'starts' was 2 and is 1"),
        ({"smoothing": 0.2}, r"'smoothing' was 0\.1 and is 0\.2"),
        ({"smoothing": {"Y0": 0.1}}, "'smoothing' was"),
        ({"tolerance": 0.1}, "'tolerance' was"),
        ({"cycle_tolerance": 0.1}, "'cycle_tolerance' was"),
        ({"holes": "ignore"}, "'holes' was 'expect' and is 'ignore'"),
        ({"engine": "cpu"}, "'engine' was 'reference' and is 'cpu'"),
        ({"merge": False}, "'merge' was None and is False"),
        ({"hold": False}, "'hold' was True"),
        ({"only": ["Y0"]}, "the network, or the set of learnt tables, differs"),
        ({"weights": np.full(ROWS, 2.0)}, "the weights of the rows differ"),
        ({"data": other_value()}, "the values of the table differ"),
        ({"data": table(rows=30)}, "'rows' was 60 and is 30"),
        ({"data": {name: column for name, column in table().items() if name != "Y1"}}, "the columns differ"),
        ({"seed": 2, "data": other_value()}, "the values of the table differ; 'seed' was 0 and is 2"),
    ],
    ids=str,
)
def test_another_run_is_refused(change: dict[str, Any], told: str, begun: Path) -> None:
    before = begun.read_bytes()
    with pytest.raises(LearningError, match=rf"run\.ckpt' is of another run: .*{told}.* begin anew"):
        lvm().learn(**{"data": table(), **OPTIONS, **change}, checkpoint=begun, resume=True)
    assert begun.read_bytes() == before


def test_another_network_is_refused(begun: Path) -> None:
    for other in (fgrn.lvm(STATES, hidden=4), fgrn.lvm({**STATES, "Z": 2}, hidden=3), fgrn.stack(STATES, [2, 3])):
        with pytest.raises(LearningError, match="the network, or the set of learnt tables, differs"):
            other.learn(table(), **OPTIONS, checkpoint=begun, resume=True)


def test_another_link_or_kind_is_refused(tmp_path: Path) -> None:
    place, blocks = tmp_path / "run.ckpt", chain().blocks
    chain().learn(SEQUENCES, epochs=2, checkpoint=place)
    with pytest.raises(LearningError, match="'model' was 'Chain' and is 'Network'"):
        Network(blocks).learn({"Y": SEQUENCES["Y"]}, epochs=2, checkpoint=place, resume=True)
    other = {**SEQUENCES, "run": np.repeat(["a", "b"], ROWS // 2)}
    with pytest.raises(LearningError, match="the values of the table differ"):
        chain().learn(other, epochs=2, checkpoint=place, resume=True)


def test_other_frozen_tables_are_refused(tmp_path: Path) -> None:
    place, net = tmp_path / "run.ckpt", lvm()
    net.learn(table(), epochs=2)
    other = net.copy()
    other.learn(table(), epochs=1)
    net.copy().learn(table(), epochs=3, only=["Y0"], checkpoint=place)
    net.learn(table(), epochs=3, only=["Y0"], checkpoint=place, resume=True)
    with pytest.raises(LearningError, match="the tables that are not learnt differ"):
        other.learn(table(), epochs=3, only=["Y0"], checkpoint=place, resume=True)


def test_a_file_that_is_there_is_not_written_over(begun: Path) -> None:
    before = begun.read_bytes()
    with pytest.raises(CheckpointError, match=r"There is a file .*run\.ckpt' already.* resume=True"):
        lvm().learn(table(), **OPTIONS, checkpoint=begun)
    assert begun.read_bytes() == before


def test_settings_are_checked(tmp_path: Path) -> None:
    for wrong in ({"every": 0}, {"every": 1.5}, {"resume": "yes"}, {"checkpoint": 7}):
        with pytest.raises(LearningError):
            lvm().learn(table(), **{"checkpoint": tmp_path / "run.ckpt", **wrong})
    place = fgrn.Checkpoint(tmp_path / "run.ckpt")
    for more in ({"every": 2}, {"resume": True}):
        with pytest.raises(LearningError, match="already has the settings"):
            lvm().learn(table(), checkpoint=place, **more)
    with pytest.raises(LearningError, match="Name the file"):
        lvm().learn(table(), resume=True)
    net = lvm()
    with pytest.raises(LearningError, match="'checkpoint' must be left out: online learning"):
        net.learn(table(), epochs=1, online=net.online(), checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(LearningError, match="'cycles' must be 1"):
        fgrn.hmm({"Y": 2}, hidden=2).learn({"Y": [0, 1]}, cycles=2, checkpoint=tmp_path / "run.ckpt")
    assert not list(tmp_path.iterdir())


@given(seed=st.integers(0, 2**32 - 1), places=st.sets(st.integers(0, 899), min_size=1, max_size=3))
def test_a_digest_sees_every_change_and_nothing_else(seed: int, places: set[int]) -> None:
    values = np.random.default_rng(seed).integers(0, 100, (300, 3)).astype(np.int16)
    same = np.asfortranarray(values)
    assert digest(same) == digest(np.array(same, order="F"))
    other = same.copy(order="F")
    for place in places:
        other[place % 300, place // 300] += 1
    assert digest(other) != digest(same)
    assert digest(same[:, :2], same[:, 2:]) != digest(same[:, :1], same[:, 1:])
    assert digest(np.array(1.0)) != digest(np.array(2.0))
    assert digest(np.broadcast_to(np.ones(1), 70)) == digest(np.ones(70))


def test_digests_of_rows_are_those_of_earlier_versions() -> None:
    """A checkpoint that was written before is compared with them."""
    net = fgrn.lvm({"Y1": 3, "Y2": ["a", "b"], "Y3": 2}, hidden=2)
    data = {"Y2": ["a", None, "b", "b"], "Y1": [[0.2, 0.3, 0.5], [2, 0, 0], None, 1]}
    found = encode(net._plan(), data, [1, 2, 0.5, 0]).digests()
    assert found == {
        "rows": 4,
        "names": "e8ded4ad5248ea22d82c6af214549fc8",
        "values": "c7ede6c171ed343ebd95dcf43c6cee9a",
        "weights": "88afcf457ed90386523ecc011d638b66",
    }
    assert encode(net._plan(), data).digests()["weights"] == "3e5f5b3078b7a4b3d938786e53b1271e"


def test_a_checkpoint_of_the_first_version_is_resumed(tmp_path: Path) -> None:
    """The file was written by the first version, as `begun` is, and must not be replaced."""
    place = tmp_path / "run.ckpt"
    place.write_bytes((Path(__file__).parent / "data" / "version-1.ckpt").read_bytes())
    prior = [0.3614673071516644, 0.324438407284715, 0.31409428556362057]  # as that version read it, bit for bit
    assert fgrn.load(place).prior("S").tolist() == prior
    again, plain = lvm(), lvm()
    found = again.learn(table(), **OPTIONS, checkpoint=place, resume=True)
    whole = plain.learn(table(), **OPTIONS)
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood, rtol=1e-13)
    for name in STATES:
        np.testing.assert_allclose(again.table(name), plain.table(name), rtol=1e-11)


# Files


def test_every_truncation_is_refused(begun: Path) -> None:
    whole = begun.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        begun.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="cannot be read"):
            lvm().learn(table(), **OPTIONS, checkpoint=begun, resume=True)
        assert begun.read_bytes() == whole[:size]


def test_every_altered_byte_is_refused(begun: Path) -> None:
    whole = begun.read_bytes()
    for place in range(0, len(whole), 11):
        altered = bytearray(whole)
        altered[place] ^= 0x11
        begun.write_bytes(altered)
        with pytest.raises(CheckpointError, match="cannot be read"):
            lvm().learn(table(), **OPTIONS, checkpoint=begun, resume=True)


def test_other_files_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "run.ckpt"
    lvm().save(tmp_path / "model.fgrn")
    for data, told in (
        (b"", "it is empty"),
        (pickle.dumps({"epoch": 3}), "a pickle, which could run code"),
        (b"epoch,3\n" * 9, "a text file"),
        ((tmp_path / "model.fgrn").read_bytes(), "it is a model file"),
    ):
        place.write_bytes(data)
        with pytest.raises(CheckpointError, match=told):
            lvm().learn(table(), **OPTIONS, checkpoint=place, resume=True)
        assert place.read_bytes() == data


def test_a_checkpoint_holds_the_model_so_far(begun: Path, tmp_path: Path) -> None:
    """The model after the four epochs before the interruption; at the end, the final model."""
    plain, again = lvm(), lvm()
    plain.learn(table(), **{**OPTIONS, "epochs": 4, "starts": 1})
    found = fgrn.load(begun)
    assert found == plain
    again.learn(table(), **OPTIONS, checkpoint=begun, resume=True)
    assert fgrn.load(begun) == again
    chain().learn(SEQUENCES, epochs=3, checkpoint=tmp_path / "chain.ckpt")
    assert isinstance(fgrn.load(tmp_path / "chain.ckpt"), fgrn.Chain)


@pytest.mark.parametrize("make", [bayesian, complete])
def test_other_models_are_not_in_a_checkpoint(make: Callable[[], Any], tmp_path: Path) -> None:
    make().learn(table(), epochs=2, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(fgrn.ModelFileError, match="it is a checkpoint of learning without a model"):
        fgrn.load(tmp_path / "run.ckpt")


def forged(place: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> None:
    """Rewrite a checkpoint with other contents and a correct checksum."""
    raw = place.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    document = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["fgrn"])
    tensors = {name: array.copy() for name, array in safetensors.load(raw).items() if name != container.CHECKSUM}
    change(document, tensors)
    place.write_bytes(container.container_bytes(document, tensors))


def set_at(key: str, value: Any) -> Callable[[dict[str, Any], dict[str, np.ndarray]], None]:
    def change(document: dict[str, Any], _: dict[str, np.ndarray]) -> None:
        here: Any = document
        *path, last = key.split("/")
        for part in path:
            here = here[int(part)] if part.isdecimal() else here[part]
        if value is Interrupted:
            del here[last]
        else:
            here[last] = value

    return change


def set_tensor(name: str, change_: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    def change(_: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        tensors[name] = change_(tensors[name])

    return change


def _with_more_starts(document: dict[str, Any], tensors: dict[str, np.ndarray], count: int) -> None:
    starts = document["stages"][0]["starts"]
    starts[:] = [dict(starts[0]) for _ in range(count)]
    for number in range(1, count):
        for name in ("values", "rest", "history"):
            tensors[f"0/{number}/{name}"] = tensors[f"0/0/{name}"].copy()


def filled_with(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.full_like(array, value)


@pytest.mark.parametrize(
    "change",
    [
        set_at("checkpoint", 2),
        set_at("checkpoint", "1"),
        set_at("checkpoint", Interrupted),
        set_at("over", 1),
        set_at("stages", {}),
        set_at("stages", [3]),
        set_at("stages/0/size", 10**12),
        set_at("stages/0/size", -1),
        set_at("stages/0/size", True),
        set_at("stages/0/about", []),
        set_at("stages/0/began", None),
        set_at("stages/0/began", {"tables": [0.5], "priors": []}),
        set_at("stages/0/began", {"tables": [99], "priors": []}),
        set_at("stages/0/starts", "none"),
        lambda document, tensors: _with_more_starts(document, tensors, 3),
        set_at("stages/0/starts/0/epochs", 10**9),
        set_at("stages/0/starts/0/epochs", 0.0),
        set_at("stages/0/starts/0/converged", "no"),
        set_at("stages/0/starts/0/stopped", Interrupted),
        set_at("stages/0/starts/0/priors", [-1]),
        set_tensor("0/began", lambda array: array[:-1]),
        set_tensor("0/began", filled_with(np.nan)),
        set_tensor("0/0/values", filled_with(-1.0)),
        set_tensor("0/0/values", filled_with(0.9)),
        set_tensor("0/0/values", filled_with(np.inf)),
        set_tensor("0/0/history", lambda array: array[:1]),
        set_tensor("0/0/rest", lambda array: np.zeros(3)),
    ],
)
def test_a_made_up_checkpoint_is_refused(change: Callable[..., None], begun: Path) -> None:
    forged(begun, change)
    with pytest.raises(CheckpointError, match=r"run\.ckpt"):
        lvm().learn(table(), **OPTIONS, checkpoint=begun, resume=True)


def test_the_same_run_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lvm().learn(table(), **OPTIONS, checkpoint=tmp_path / name)
    digests = {sha256((tmp_path / name).read_bytes()).digest() for name in ("one", "two")}
    assert len(digests) == 1


# The disk


def failing(number: int, after: int = 0) -> Callable[[int], None]:
    """Return an fsync that fails with an error of the operating system after some calls."""
    calls = 0
    plain = os.fsync

    def sync(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(number, os.strerror(number))
        plain(file)

    return sync


def test_a_disk_that_is_full_from_the_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run.ckpt"
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(CheckpointError, match=r"run\.ckpt' cannot be written: no space left on device"):
        lvm().learn(table(), **OPTIONS, checkpoint=place, watch=pytest.fail)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_file(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = begun.read_bytes()
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(CheckpointError, match="no space left on device"):
        lvm().learn(table(), **OPTIONS, checkpoint=begun, resume=True, watch=pytest.fail)
    assert begun.read_bytes() == before
    assert names_in(begun.parent) == ["run.ckpt"]


def test_a_disk_that_fills_later_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run.ckpt"
    plain, again, later = lvm(), lvm(), lvm()
    plain.learn(table(), **OPTIONS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(errno.ENOSPC, after=3))
        with pytest.warns(CheckpointWarning, match="no space left on device.* Learning continues") as caught:
            again.learn(table(), **OPTIONS, checkpoint=place, every=1)
    assert len(caught) == 1
    assert_same(again, plain)
    stages, over = checkpoint_file.read_checkpoint(place)  # the last good state
    assert (stages[0].starts[0].epochs, over) == (2, False)
    later.learn(table(), **OPTIONS, checkpoint=place, resume=True)
    assert_same(later, plain)


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        lvm().learn(table(), **OPTIONS, checkpoint=tmp_path / "none" / "run.ckpt", watch=pytest.fail)
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="it is a folder"):
        lvm().learn(table(), **OPTIONS, checkpoint=tmp_path / "folder", resume=True, watch=pytest.fail)


def test_a_read_only_folder_is_an_error_at_once(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = begun.read_bytes()
    begun.parent.chmod(0o555)
    with monkeypatch.context() as patched:
        if os.geteuid() == 0:  # whom no folder keeps out
            patched.setattr(os, "open", failing_open)
        with pytest.raises(CheckpointError, match="cannot be written: permission denied"):
            lvm().learn(table(), **OPTIONS, checkpoint=begun.parent / "other.ckpt", watch=pytest.fail)
    begun.parent.chmod(0o755)
    assert begun.read_bytes() == before


def failing_open(path: Any, *_: Any, **__: Any) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


# The command line


@pytest.fixture
def people(tmp_path: Path) -> str:
    place = tmp_path / "people.csv"
    data = table()
    lines = [",".join(data), *(",".join(f"l{value}" for value in row) for row in zip(*data.values(), strict=True))]
    place.write_text("\n".join(lines), encoding="utf-8")
    return str(place)


def test_the_command_line_resumes(people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(tmp_path / f"{name}.fgrn") for name in ("plain", "again")]
    common = ["fit", people, "--target", "Y3", "--hidden", "3", "--epochs", "8", "--json"]
    assert cli.main([*common, "-o", models[0]]) == 0
    kept = ["-o", models[1], "--checkpoint", str(tmp_path / "run.ckpt"), "--every", "2"]
    assert cli.main([*common, *kept]) == 0
    assert cli.main([*common, *kept]) == 1
    assert "with --resume" in capsys.readouterr().err
    assert cli.main([*common, *kept, "--seed", "1", "--resume"]) == 1
    assert "is of another run: 'seed' was" in capsys.readouterr().err
    assert cli.main([*common, *kept, "--resume"]) == 0
    assert_same(fgrn.load(models[1]).network_, fgrn.load(models[0]).network_)
    assert cli.main([*common, "-o", models[1], "--resume"]) == 2
    assert cli.main([*common, "-o", models[1], "--checkpoint", str(tmp_path)]) == 2
    assert cli.main([*common, "-o", models[1], "--checkpoint", str(tmp_path / "none" / "run.ckpt")]) == 1


KILLED_COMMAND = """
import os, signal, sys
from fgrn.cli import main
*arguments, last = sys.argv[1:]
plain, calls = os.fsync, 0
def sync(file):
    global calls
    calls += 1
    if calls == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    plain(file)
os.fsync = sync
sys.exit(main(arguments))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_command_that_is_killed_is_resumed(people: str, tmp_path: Path) -> None:
    models = [str(tmp_path / f"{name}.fgrn") for name in ("plain", "again")]
    place = tmp_path / "run.ckpt"
    common = ["fit", people, "--hidden", "3", "--epochs", "20", "--tolerance", "0", "--starts", "2", "--json"]
    kept = [*common, "-o", models[1], "--checkpoint", str(place), "--every", "1", "--resume"]
    for writes in (9, 25):
        done = subprocess.run([sys.executable, "-c", KILLED_COMMAND, *kept, str(writes)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert not checkpoint_file.read_checkpoint(place)[1]
        assert not Path(models[1]).exists()
    assert cli.main([*common, "-o", models[0]]) == 0
    assert cli.main(kept) == 0
    assert_same(fgrn.load(models[1]).network_, fgrn.load(models[0]).network_)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_learning_from_disk_is_resumed(kind: str, tmp_path: Path) -> None:
    """The identity of the rows does not depend on where they are stored."""
    frame = pd.DataFrame(table())
    place = tmp_path / f"rows.{kind}"
    frame.to_parquet(place) if kind == "parquet" else frame.to_csv(place, index=False)
    expected = fgrn.lvm(STATES, hidden=2)
    history = expected.learn(place, **OPTIONS)
    again, seen, count = resumed(
        lambda: fgrn.lvm(STATES, hidden=2),
        lambda net, **kept: net.learn(fgrn.Stream(place, rows=7), **OPTIONS, **kept),
        tmp_path / "run.ckpt",
    )
    assert count > 1
    assert again == expected
    assert_same_history(seen, history)


def test_what_was_learnt_is_on_the_disk_when_learning_fails(tmp_path: Path) -> None:
    """Including the epochs after the last regular write."""
    place, net = tmp_path / "run.ckpt", fgrn.lvm(STATES, hidden=2)
    with pytest.raises(Interrupted):
        net.learn(table(), epochs=20, checkpoint=place, every=1000, watch=interrupting(7))
    kept, expected = fgrn.load(place), fgrn.lvm(STATES, hidden=2)
    expected.learn(table(), epochs=7)
    assert np.array_equal(kept._parameters.values, expected._parameters.values)
