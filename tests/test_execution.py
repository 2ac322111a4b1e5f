"""How a thing is run: which kernel ran for which kind of network, what of it is recorded, and engines by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable, engines
from fgrn.engines import MStep, cpu, kernels, registry, star_counts
from fgrn.engines.reference import Reference
from fgrn.flow import em
from fgrn.flow.acceleration import Extrapolation
from fgrn.flow.counts import CountingMethod
from fgrn.flow.em_settings import Rule
from fgrn.flow.evidence import encode
from fgrn.learning import execution
from fgrn.learning.execution import Execution
from fgrn.learning.remote.remote_estep import RemoteEStep

KERNELS = ("star", "star_block", "star_messages", "tree", "cliques", "matrix_sweeps", "scan", "recount")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The kernels that run from now on, and "reference" if that engine is asked anything."""
    found: set[str] = set()

    def watched(owner: Any, name: str, called: str) -> None:
        plain = getattr(owner, name)

        def telling(work: Callable[..., Any]) -> Any:
            def call(*given: Any, **options: Any) -> Any:
                found.add(called)
                return work(*given, **options)

            return call

        watching = telling(plain)
        watching.compile = lambda types: telling(plain.compile(types))
        monkeypatch.setattr(owner, name, watching)

    for name in KERNELS:
        watched(kernels, name, name)
    monkeypatch.setattr(star_counts, "STAR_CODE", {})
    watched(Reference, "prepare", "reference")
    yield found


def rows(count: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"Y{i}": np.where(rng.random(count) < 0.1, np.nan, rng.integers(0, 3, count)) for i in range(6)}


def cliques() -> fgrn.BayesianNetwork:
    arcs = {f"Y{i}": [f"Y{i - 1}", f"Y{i - 2}"] if i > 1 else [f"Y{j}" for j in range(i)] for i in range(6)}
    return fgrn.BayesianNetwork(dict.fromkeys(rows(), 3), arcs)


STATES = dict.fromkeys(rows(), 3)
LEARNT = {
    "star": (lambda: fgrn.lvm(STATES, hidden=4), {}, "star", {"star"}),
    "star with soft evidence on its hidden variable": (
        lambda: fgrn.lvm(STATES, hidden=2), {"S": [[0.2, 0.8]] * 60}, "star", {"star"}
    ),
    "soft leaves": (lambda: fgrn.lvm(STATES, hidden=4), {"Y0": [[0.2, 0.3, 0.5]] * 60}, "tree", {"tree"}),
    "product space": (lambda: fgrn.dica(STATES, hidden=[2, 2]), {}, "star", {"star"}),
    "tree": (lambda: fgrn.stack(STATES, hidden=[3, 2], groups=3), {}, "matrix", {"matrix_sweeps"}),
    "junction tree": (cliques, {}, "lanes", {"cliques"}),
    "chain": (lambda: fgrn.hmm(STATES, hidden=3), {}, "scan and star", {"scan", "star", "star_messages"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNT)
def test_each_kind_of_network_is_learnt_by_its_kernel(kind: str, ran: set[str]) -> None:
    make, more, kernel, expected = LEARNT[kind]
    model = make()
    history = model.learn({**rows(), **more}, epochs=2, smoothing=0.1, engine="cpu")
    assert model.trained[-1]["kernel"] == kernel
    assert history.execution.startswith(f"{kernel} kernel of the cpu engine: 60 rows")
    assert ran == expected


ASKED = {
    "a leaf of a star": (lambda: fgrn.lvm(STATES, hidden=4), "Y0", {"star_messages"}),
    "the hidden variable of a star": (lambda: fgrn.lvm(STATES, hidden=4), "S", {"star_messages"}),
    "a leaf of a tree": (lambda: fgrn.stack(STATES, hidden=[3, 2], groups=3), "Y0", {"tree"}),
    "a junction tree": (cliques, "Y0", {"cliques"}),
    "a chain": (lambda: fgrn.hmm(STATES, hidden=3), "Y0", {"scan", "star_messages", "tree"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ASKED)
def test_each_kind_of_question_is_answered_by_its_kernel(kind: str, ran: set[str]) -> None:
    make, name, expected = ASKED[kind]
    model, data = make(), rows()
    model.learn(data, epochs=1, smoothing=0.1, engine="cpu")
    ran.clear()
    model.posterior({key: column for key, column in data.items() if key != name}, name, engine="cpu")
    assert ran == expected


@pytest.mark.parametrize("kind", [kind for kind in ASKED if kind != "a chain"])
def test_few_rows_are_answered_at_once_and_without_a_kernel(
    kind: str, ran: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, name, _ = ASKED[kind]
    model = make()
    given = {key: 1 for key in STATES if key != name}
    expected = model.posterior(given, name, engine="reference")
    monkeypatch.setattr("fgrn.engines.reference.Loaded._in_logarithms", None)
    np.testing.assert_allclose(model.posterior(given, name), expected, rtol=1e-12)
    assert ran == {"reference"}


def test_what_few_rows_could_lose_is_left_to_the_log_domain() -> None:
    net = fgrn.lvm({f"Y{i}": 2 for i in range(30)}, hidden=2)
    table = np.array([[1.0, 1e-24], [1e-24, 1.0]])
    blocks = [replace(block, table=table) if isinstance(block, fgrn.SISO) else block for block in net.blocks]
    rows = {f"Y{i}": [0, int(i < 15), int(i < 10)] for i in range(30)}  # of probability 0.5, 1e-360 and 1e-240
    rows = {name: [*column, *column] for name, column in rows.items()}
    deep = fgrn.Network([*blocks])
    seen, exact = (
        deep.propagate(rows, keep=["S"], parts=["marginal", "likelihood"], engine=engine)
        for engine in ("auto", "reference")
    )
    np.testing.assert_allclose(seen.marginal("S"), exact.marginal("S"), rtol=1e-9)
    np.testing.assert_allclose(seen.log_likelihood, exact.log_likelihood, rtol=1e-12)


@pytest.mark.slow
def test_cycles_count_held_messages(ran: set[str]) -> None:
    fgrn.lvm(STATES, hidden=4).learn(rows(), epochs=1, cycles=3, smoothing=0.1, engine="cpu")
    assert ran == {"star", "tree", "recount"}


def test_what_was_decided_is_told() -> None:
    net = fgrn.lvm(STATES, hidden=2)
    history = net.learn(rows(), epochs=1, engine="reference", threads=3)
    assert history.execution == "log domain kernel of the reference engine: 60 rows, 1 thread"
    many = {name: np.tile(column, 10) for name, column in rows().items()}
    history = net.learn(many, epochs=1, merge=True, engine="reference")
    assert "600 rows, merged to 59 different ones" in history.execution
    complete = {name: [0, 1, 2] for name in STATES}
    assert cliques().learn(complete, smoothing=0.1).execution == "counting of known values: 3 rows, 1 thread"
    blocks = Execution.of("cpu", CountingMethod("tree", 1000, 300, 8), 1000)
    assert str(blocks) == "tree kernel of the cpu engine: 1,000 rows in blocks of at most 300, 4 threads"


# Random starts at the same time


@pytest.mark.slow
@pytest.mark.parametrize(("cycles", "together"), [(1, False), (3, False), (1, True)])
def test_starts_run_at_once_give_the_same_bits(
    cycles: int, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SHORT_EPOCH", 10**6)
    if not together:
        monkeypatch.setattr(execution, "CELLS_TOGETHER", 0)
    how = "6 starts together, 3 threads" if together else "3 starts at once, 1 thread each"
    data, nets = rows(400), [fgrn.lvm(STATES, hidden=4) for _ in range(3)]
    options: dict[str, Any] = {"epochs": 15, "starts": 6, "cycles": cycles, "engine": "cpu", "seed": 3}
    calls: list[tuple[int, int]] = []
    histories = [
        nets[0].learn(data, **options, threads=3),
        nets[1].learn(data, **options, threads=3, watch=lambda start, epoch, _: calls.append((start, epoch))),
        nets[2].learn(data, **options, threads=3, checkpoint=tmp_path / "run.ckpt", every=4),
    ]
    assert nets[0] == nets[1] == nets[2]
    assert [history.execution.rpartition(": ")[2] for history in histories] == [
        f"400 rows, {how}",
        "400 rows, 1 thread",
        f"400 rows, {how}",
    ]
    assert calls == sorted(calls)
    assert all(np.array_equal(histories[0].starts, other.starts) for other in histories[1:])
    again = fgrn.lvm(STATES, hidden=4)
    again.learn(data, **options, threads=3, checkpoint=tmp_path / "run.ckpt", resume=True)
    assert again == nets[0]


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1, "accelerate": True, "tolerance": 1e-3}])
@pytest.mark.parametrize("width", [2, 9])  # sums of short lines, and of long ones
def test_starts_that_learn_together_have_the_bits_of_each_alone(
    options: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    data = {f"Y{i}": rng.integers(-1, width, 300) for i in range(4)}
    data = {name: [None if code < 0 else int(code) for code in codes] for name, codes in data.items()}
    nets = [fgrn.lvm(dict.fromkeys(data, width), hidden=3) for _ in range(3)]
    told = {"epochs": 40, "starts": 5, "engine": "cpu", "seed": 2, **options}
    monkeypatch.setattr(star_counts, "WORK_OF_THREAD", 1)
    histories = [net.learn(data, threads=threads, **told) for net, threads in zip(nets[:2], (1, 3), strict=True)]
    assert [history.execution.rpartition("rows, ")[2] for history in histories] == [
        "5 starts together, 1 thread",
        "5 starts together, 3 threads",
    ]
    monkeypatch.setattr(execution, "CELLS_TOGETHER", 0)
    histories.append(nets[2].learn(data, threads=1, **told))
    assert histories[2].execution.endswith("300 rows, 1 thread")
    assert nets[0] == nets[1] == nets[2]
    for name in ("starts", "log_likelihood", "objective", "row_counts"):
        assert all(np.array_equal(getattr(histories[2], name), getattr(one, name)) for one in histories)


def test_starts_that_learn_together_are_asked_by_one_thread() -> None:
    method = CountingMethod("star", 100, 30_000, 4, shareable=True)
    rules = Rule(epochs=10, starts=6), Rule(epochs=10, starts=6, accelerate=True)
    assert [execution.start_threads(method, rule, None, 6) for rule in rules] == [1, 1]


@pytest.mark.parametrize("starts", [1, 2, 5])
@pytest.mark.parametrize("kind", ["missing values", "tied tables", "soft evidence", "weights", "many columns"])
def test_threads_that_share_a_call_have_the_bits_of_one(
    kind: str, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one start threads share the pieces of each epoch, else the starts; some come late or find nothing to do."""
    monkeypatch.setattr(star_counts, "WORK_OF_THREAD", 1)
    monkeypatch.setattr(star_counts, "GROUPED_CELLS", 1)
    monkeypatch.setattr(cpu, "LEAST_COUNTED", 1)
    monkeypatch.setattr(cpu, "COUNTED_CELLS", 4000)
    rng = np.random.default_rng(3)
    data: dict[str, Any] = {f"Y{i}": rng.integers(0, 3, 400) for i in range(60 if kind == "many columns" else 6)}
    if kind == "missing values":
        data = {name: np.where(rng.random(400) < 0.3, np.nan, codes) for name, codes in data.items()}
    net = fgrn.lvm(dict.fromkeys(data, 3), hidden=5 if kind != "many columns" else 70)
    if kind == "tied tables":
        net = fgrn.Network([replace(one, tie="t") if isinstance(one, SISO) else one for one in net.blocks])
    if kind == "soft evidence":
        data["S"] = rng.dirichlet(np.ones(5), 400)
    weights = rng.integers(0, 4, 400) if kind == "weights" else None
    told = {"epochs": 12, "starts": starts, "engine": "cpu", "weights": weights, "merge": False, "seed": 5}
    alone = net.copy()
    history = alone.learn(data, threads=1, **told)
    for threads in (2, 3, 8) * (1 if kind == "many columns" else 8):
        other = net.copy()
        assert np.array_equal(other.learn(data, threads=threads, **told).log_likelihood, history.log_likelihood)
        assert other == alone
    reference = net.copy()
    found = reference.learn(data, **{**told, "engine": "reference"}).log_likelihood
    np.testing.assert_allclose(history.log_likelihood, found, rtol=1e-10)


@pytest.mark.parametrize("columns", [1, 2, 7, 40, 300])
def test_groups_of_packs_have_all_packs_once(columns: int) -> None:
    data = {f"Y{i}": np.random.default_rng(i).integers(0, 4, 900) for i in range(columns)}
    net = fgrn.lvm(dict.fromkeys(data, 4), hidden=20)
    plan = net._plan(())
    encoded = encode(plan, data)
    programs = net._programs_for(plan, (), encoded)
    packing = engines.get("cpu").prepare(plan, programs, programs.counting, encoded).packing
    groups = star_counts.groups_of_packs(packing)
    packs = packing.packing.packs
    assert groups[0].tolist() == [0, 0, 0]
    assert groups[-1].tolist() == [len(packs), columns, columns - len(packs)]
    assert (np.diff(groups[:, 0]) > 0).all()
    assert len(groups) - 1 <= star_counts.MOST_GROUPS
    for pack, leaf, fold in groups[1:-1]:
        assert [leaf, fold] == [packs["leaves"][:pack].sum(), (packs["leaves"][:pack] - 1).sum()]


# Epochs that the engine runs ahead


def _starlike(kind: str) -> fgrn.Network:
    """Return a network of one Diverter: with short or long lines, with a frozen table, or with cells that stay zero."""
    rng = np.random.default_rng(4)
    width = {"long": 12, "longest": 140}.get(kind, 3)
    columns = {f"Y{i}": width for i in range(4)}
    if kind == "per class":
        return fgrn.class_mixture({**columns, "L": 2}, class_variable="L", hidden=3)
    net = fgrn.lvm(columns, hidden=4)
    if kind == "frozen":
        frozen = {"table": rng.dirichlet(np.ones(width), 4), "learn": False}
        blocks = [replace(one, **frozen) if isinstance(one, fgrn.SISO) and one.output.name == "Y2" else one
                  for one in net.blocks]  # fmt: skip
        return fgrn.Network(blocks)
    return net


@pytest.mark.parametrize("kind", ["short", "long", "longest", "frozen", "per class"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"smoothing": 0.1, "tolerance": 1e-4},
        {"accelerate": True, "tolerance": 1e-6},
        {"accelerate": True, "smoothing": 0.3, "holes": "ignore"},
    ],
)
def test_epochs_run_ahead_have_the_bits_of_one_at_a_time(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    first = _starlike(kind)
    columns = {one.name: one.cardinality for one in first.variables if one.name.startswith(("Y", "L"))}
    codes = {name: rng.integers(-1, size, 200) for name, size in columns.items()}
    data = {name: [None if code < 0 else int(code) for code in some] for name, some in codes.items()}
    given = {"epochs": 60, "starts": 3, "engine": "cpu", "weights": rng.integers(0, 3, 200), "threads": 1, **options}
    epochs: list[int] = []
    ahead = star_counts.epochs_of_each

    def counted(*arguments: Any) -> Any:
        found = ahead(*arguments)
        silent = ([epoch.earlier.likelihoods for epoch in one if epoch.earlier is not None] for one in found)
        epochs.extend(len(one) + sum(map(len, some)) for one, some in zip(found, silent, strict=True))
        return found

    monkeypatch.setattr(star_counts, "epochs_of_each", counted)
    nets, histories = [first, _starlike(kind), _starlike(kind)], []
    histories.append(nets[0].learn(data, **given))
    assert max(epochs) == 1 if kind == "longest" else max(epochs) > 16
    monkeypatch.setattr(star_counts, "EPOCHS_AHEAD", 1)
    monkeypatch.setattr(star_counts, "SILENT_EPOCHS", 1)
    histories.append(nets[1].learn(data, **given))
    monkeypatch.setattr(em, "engine_mstep", lambda *_: None)  # tables are updated by NumPy
    histories.append(nets[2].learn(data, **given))
    assert nets[0] == nets[1] == nets[2]
    for name in ("starts", "log_likelihood", "objective", "row_counts"):
        assert np.array_equal(getattr(histories[0], name), getattr(histories[1], name))
        rounding = 1e-13 if "smoothing" in options and name in ("starts", "objective") else 0.0  # of the log prior
        np.testing.assert_allclose(getattr(histories[2], name), getattr(histories[0], name), rtol=rounding)


def test_rows_so_improbable_that_products_may_underflow_have_a_kernel_of_their_own(ran: set[str]) -> None:
    """The state of the first rows has a probability of 1e-100 at first, and the share of its rows after an epoch."""
    s, legs = Variable("S", 2), [Variable(f"S{i}", 2) for i in range(2)]
    leaves = [SISO(leg, Variable(f"Y{i}", 2), np.eye(2)) for i, leg in enumerate(legs)]
    net = Network([Source(s, [1e-100, 1.0]), Diverter([s], legs), *leaves])
    data = {"Y0": [0] * 8 + [1] * 24, "Y1": [0] * 8 + [None, 1] * 12}
    learnt = {engine: net.copy() for engine in ("cpu", "reference")}
    histories = [one.learn(data, epochs=4, engine=engine).log_likelihood for engine, one in learnt.items()]
    assert {"star", "star_block"} <= ran
    np.testing.assert_allclose(*histories, rtol=1e-12)
    assert learnt["cpu"].prior("S").tolist() == learnt["reference"].prior("S").tolist() == [0.25, 0.75]


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_have_the_bits_of_epochs_in_one_call(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(1).integers(0, 3, 60) + 0.5 if weighted else None

    def learnt() -> list[np.ndarray]:
        net = fgrn.lvm(STATES, hidden=4)
        history = net.learn(rows(), epochs=20, smoothing=0.1, engine="cpu", weights=weights, merge=False)
        return [net._tables, np.array(history.log_likelihood)]

    together = learnt()
    monkeypatch.setattr(cpu.Prepared, "counts_together", False)
    for one, other in zip(learnt(), together, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("tolerance", [1e-16, 1e-15, 1e-12, 1e-6])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("options", [{}, {"accelerate": True}, {"accelerate": True, "smoothing": 0.2}])
def test_epochs_that_nobody_watches_end_where_watched_ones_do(
    tolerance: float, soft: bool, options: dict[str, Any]
) -> None:
    """The gains of the last epochs are as small as rounding: the engine ends early, and the loop decides."""
    for seed in range(6):
        data: dict[str, Any] = rows(200 + 20 * seed)
        if soft:
            data["S"] = 1e-30 * np.random.default_rng(seed).dirichlet(np.ones(4), len(data["Y0"]))
        nets = [fgrn.lvm(STATES, hidden=4) for _ in range(2)]
        told = {"epochs": 800, "tolerance": tolerance, "engine": "cpu", "seed": seed, "merge": False, **options}
        ended = [net.learn(data, **told, watch=watch) for net, watch in zip(nets, (None, lambda *_: None), strict=True)]
        for name in ("log_likelihood", "objective"):
            assert np.array_equal(*(getattr(history, name) for history in ended))
        assert nets[0] == nets[1]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, {"Y1": 2.0}])
def test_rounds_that_an_engine_runs_ahead_have_the_bits_of_watched_ones(
    smoothing: float | dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the extrapolated parameters fail; the engine then goes on from the last ones, as the loop does."""
    outcomes: list[bool] = []
    judged = Extrapolation._next_longest

    def noted(state: Extrapolation, succeeded: bool) -> float:
        outcomes.append(succeeded)
        return judged(state, succeeded)

    monkeypatch.setattr(Extrapolation, "_next_longest", noted)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        width, hidden, count = rng.integers(2, 5), int(rng.integers(2, 7)), int(rng.integers(2, 8))
        codes = rng.integers(-(seed % 2), width, (int(rng.integers(20, 400)), count))
        data = {f"Y{i}": [None if code < 0 else int(code) for code in codes[:, i]] for i in range(count)}
        told = {"epochs": 200, "starts": 1 + seed % 3, "accelerate": True, "tolerance": (0.0, 1e-6, 1e-13)[seed % 3],
                "smoothing": smoothing, "engine": "cpu", "seed": seed, "threads": 1 + seed % 2}  # fmt: skip
        nets = [fgrn.lvm(dict.fromkeys(data, int(width)), hidden=hidden) for _ in range(2)]
        silent, watched = (
            net.learn(data, **told, watch=watch) for net, watch in zip(nets, (None, lambda *_: None), strict=True)
        )
        assert nets[0] == nets[1]
        assert silent.converged == watched.converged
        for name in ("starts", "log_likelihood", "objective", "row_counts"):
            assert np.array_equal(getattr(silent, name), getattr(watched, name))
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_epochs_counted_by_themselves_within_rounds_have_the_bits_of_others(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a row is next to impossible: the engine leaves such an epoch, here one in three or so, to the loop."""
    rng = np.random.default_rng(0)
    data = {f"Y{i}": rng.integers(0, 3, 90) for i in range(5)}
    told = {"epochs": 50, "starts": 4, "accelerate": True, "smoothing": smoothing, "engine": "cpu", "merge": False}
    ahead, learnt = star_counts.epochs_of_each, []
    for most, refused in ((128, 0.0), (4, 0.3), (7, 0.3)):
        monkeypatch.setattr(star_counts, "SILENT_EPOCHS", most)
        monkeypatch.setattr(
            star_counts, "epochs_of_each",
            lambda mine, requests, *rest, refused=refused: [
                [] if rng.random() < refused else epochs for epochs in ahead(mine, requests, *rest)
            ],
        )  # fmt: skip
        net = fgrn.lvm(dict.fromkeys(data, 3), hidden=4)
        learnt.append((net, net.learn(data, **told).objective))
    for net, objective in learnt[1:]:
        assert net == learnt[0][0]
        assert np.array_equal(objective, learnt[0][1])


@pytest.mark.parametrize("shown", [False, True])
def test_estimators_learn_small_tables_in_a_few_calls(shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their watchers end learning or show a bar, and need not see every epoch; a checkpoint does."""
    calls, ahead = [], star_counts.epochs_of_each
    monkeypatch.setattr(star_counts, "epochs_of_each", lambda *given: calls.append(1) or ahead(*given))
    if shown:
        monkeypatch.setenv("FORCE_COLOR", "1")
    table = {f"Y{i}": np.random.default_rng(i).integers(0, 3, 500) for i in range(8)}
    told = {"n_hidden": 3, "n_init": 4, "random_state": 0, "engine": "cpu"}
    model = fgrn.LatentClassModel(**told, verbose=shown).fit(table)
    assert len(calls) < model.n_iter_ / 4
    assert model.history_.converged


def test_estimators_with_a_checkpoint_learn_the_same(tmp_path: Path) -> None:
    table = {f"Y{i}": np.random.default_rng(i).integers(0, 3, 300) for i in range(6)}
    told = {"n_hidden": 3, "n_init": 3, "random_state": 0, "engine": "cpu", "tol": 1e-5}
    usual, kept = (fgrn.LatentClassModel(**told, checkpoint=path) for path in (None, str(tmp_path / "run.ckpt")))
    assert usual.fit(table).network_ == kept.fit(table).network_
    assert np.array_equal(usual.history_.objective, kept.history_.objective)


def test_the_log_prior_of_an_engine_is_that_of_numpy() -> None:
    """Also with cells so small that their products would underflow, and with zeros without smoothing."""
    rng = np.random.default_rng(0)
    for number in range(50):
        sizes = rng.integers(1, 40, int(rng.integers(1, 400)))
        lines = np.concatenate([[0], np.cumsum(sizes)])
        values = np.concatenate([rng.dirichlet(np.full(size, 0.3)) for size in sizes])
        values *= 10.0 ** -rng.choice([0, 0, 0, 120, 290], len(values))
        smoothing = rng.choice([0.0, 0.5, 0.5, 2.0], len(values))
        values[(smoothing == 0) & (rng.random(len(values)) < 0.2)] = 0.0
        learnt = rng.random(len(sizes)) < 0.8
        mstep = MStep(smoothing, lines.astype(np.uint64), learnt, 1e-300)
        here = (smoothing > 0) & np.repeat(learnt, sizes)
        found = star_counts.log_prior_as_in_epochs(mstep, values)
        np.testing.assert_allclose(found, smoothing[here] @ np.log(values[here]), rtol=1e-12)
        if number == 0:
            values[np.flatnonzero(here)[0]] = 0.0
            assert star_counts.log_prior_as_in_epochs(mstep, values) == -np.inf


def test_rows_that_may_underflow_are_remembered_whichever_block_they_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "LEAST_COUNTED", 1)
    s, legs = Variable("S", 2), [Variable(f"S{i}", 2) for i in range(2)]
    leaves = [SISO(leg, Variable(f"Y{i}", 2), np.eye(2)) for i, leg in enumerate(legs)]
    net = Network([Source(s, [1e-100, 1.0], learn=False), Diverter([s], legs), *leaves])
    tried, ahead = [], star_counts.epochs_of_each
    monkeypatch.setattr(
        star_counts, "epochs_of_each", lambda mine, *given: tried.append(mine.has_faint_rows) or ahead(mine, *given)
    )
    net.learn({"Y0": [0] * 8 + [1] * 24, "Y1": [0] * 8 + [1] * 24}, epochs=5, engine="cpu", merge=False)
    assert tried[0] is False
    assert all(tried[1:])


def test_a_watcher_ends_learning_at_its_epoch_though_others_were_run_ahead() -> None:
    data = rows(300)
    nets = [fgrn.lvm(STATES, hidden=4) for _ in range(2)]
    seen: list[int] = []
    history = nets[0].learn(data, epochs=50, engine="cpu", watch=lambda _, epoch, __: seen.append(epoch) or epoch == 4)
    nets[1].learn(data, epochs=5, engine="cpu")
    assert seen == [0, 1, 2, 3, 4]
    assert history.epochs == 5
    assert nets[0] == nets[1]


def test_a_line_that_loses_its_counts_while_epochs_are_run_ahead_keeps_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {**{f"Y{i}": [0] * 40 for i in range(6)}, "Z": [0, 1] * 20}
    unlike = np.array([[0.9, 0.1], [0.1, 0.9]])  # each epoch makes the second state less probable by far
    learnt = []
    for ahead in (16, 1):
        monkeypatch.setattr(star_counts, "SILENT_EPOCHS", ahead)
        net = fgrn.lvm(dict.fromkeys(rows, 2), hidden=2)
        blocks = [
            replace(one, prior=[1 - 1e-290, 1e-290]) if isinstance(one, fgrn.Source)
            else replace(one, table=unlike, learn=False) if isinstance(one, fgrn.SISO) and one.output.name != "Z"
            else one
            for one in net.blocks
        ]  # fmt: skip
        net = fgrn.Network(blocks)
        history = net.learn(rows, epochs=20, engine="cpu", seed=3, merge=False)
        learnt.append((net, history.log_likelihood, history.not_estimated))
    assert learnt[0][0] == learnt[1][0]
    assert np.array_equal(learnt[0][1], learnt[1][1])
    assert learnt[0][2] == learnt[1][2] == {"Z": (1,)}


@pytest.mark.parametrize(
    ("options", "scale", "most"),
    [
        ({"tolerance": 1e-7}, 100.0, 8),
        ({"accelerate": True}, 100.0, 35),
        ({"smoothing": 1.0, "tolerance": 1e-8}, 1.0, 8),
    ],
)
def test_as_many_epochs_are_run_ahead_with_weights_of_states_and_with_smoothing(
    options: dict[str, Any], scale: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, ahead = [], star_counts.epochs_of_each
    monkeypatch.setattr(star_counts, "epochs_of_each", lambda *given: calls.append(1) or ahead(*given))
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {name: rng.integers(0, 3, 300) for name in STATES}
    data["S"] = scale * rng.dirichlet(np.ones(4), 300)
    fgrn.lvm(STATES, hidden=4).learn(data, epochs=60, engine="cpu", seed=1, merge=False, **options)
    assert len(calls) <= most


def test_a_start_that_finds_an_impossible_row_is_explained_as_alone() -> None:
    net = fgrn.lvm({"A": 2, "B": 2}, hidden=2)
    net.learn({"A": [0, 0], "B": [0, 1]}, epochs=1)
    data = {"A": [0, 0, 0, 1], "B": [0, 1, 0, 1]}
    told = []
    for starts in (1, 3):
        with pytest.raises(fgrn.ImpossibleEvidence, match="Row 3: ") as raised:
            net.learn(data, only=["B"], starts=starts, engine="cpu")
        told.append(str(raised.value))
    assert told[0] == told[1]


def test_starts_whose_epochs_are_short_run_one_after_the_other() -> None:
    rule = Rule(epochs=10, starts=6)
    for counted, at_once in ((1_000, 1), (20_000, 2), (40_000, 1)):  # 40,000 rows are blocks for several threads
        method = CountingMethod("star", counted, 30_000, 2, shareable=True)
        assert execution.start_threads(method, rule, None, together=1) == at_once


@pytest.mark.slow
def test_an_error_in_a_start_is_raised_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SHORT_EPOCH", 10**6)
    monkeypatch.setattr(execution, "CELLS_TOGETHER", 0)
    ended = em._has_converged
    threads: set[int] = set()

    def failing(*given: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        if len(threads) == 2:
            raise ValueError("of one start")
        return ended(*given, **options)

    monkeypatch.setattr(em, "_has_converged", failing)
    with pytest.raises(ValueError, match="of one start"):
        fgrn.lvm(STATES, hidden=4).learn(rows(400), epochs=100_000, starts=2, threads=2, engine="cpu")


# Engines by name


def test_an_engine_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    engines.register("nowhere", "fgrn.no_such_module", "Nothing")
    assert engines.engine_names()[-1] == "nowhere"
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        engines.get("nowhere")


def test_an_engine_that_is_registered_is_used_and_delegates_what_it_does_not_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Borrowed(Reference):
        name = "borrowed"

        def scanner(self, *_: Any) -> Any:
            raise AssertionError("it does not do that itself")

    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr("fgrn.engines.reference.Borrowed", Borrowed, raising=False)
    engines.register("borrowed", "fgrn.engines.reference", "Borrowed", does=("tracing",))
    data = rows()
    learnt = [fgrn.hmm(STATES, hidden=2) for _ in range(2)]
    for net, name in zip(learnt, ("borrowed", "reference"), strict=True):
        net.learn(data, epochs=2, engine=name)
    assert learnt[0] == learnt[1]
    assert [net.trained[-1]["engine"] for net in learnt] == ["borrowed", "reference"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("cpu", "m", "A"), "already"),
        (("auto", "m", "A"), "already"),
        (("new", "m", "A", {"does": ["flying"]}), "flying"),
        (("new", "m", "A", {"fallback": "abacus"}), "abacus"),
    ],
)
def test_a_wrong_registration_is_refused(given: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    *plain, options = given if isinstance(given[-1], dict) else (*given, {})
    with pytest.raises(fgrn.FgrnError, match=message):
        engines.register(*plain, **options)
    assert "new" not in engines.engine_names()


def test_parameters_are_laid_out_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgrn.engines.batched import MessageSums

    plain, laid_out = MessageSums.factors_of, []

    def watched(sums: MessageSums, values: np.ndarray) -> np.ndarray:
        laid_out.append(sums)
        return plain(sums, values)

    monkeypatch.setattr(MessageSums, "factors_of", watched)
    net = fgrn.lvm({"a": 2, "b": 3}, hidden=2)
    first = net.posterior({"a": [1]}, "b")
    made = len(laid_out)
    assert made
    np.testing.assert_array_equal(net.posterior({"a": [1]}, "b"), first)
    assert len(laid_out) == made


def test_a_setting_that_an_estep_cannot_do_is_named_before_anything_is_counted() -> None:
    remote = RemoteEStep(Any, [], (), 10)  # type: ignore[arg-type]  # never asked
    assert execution.esteps_of(remote, Rule(cycles=3), 10.0, None).cycles == remote.cycles
    assert execution.esteps_of(remote, Rule(), 10.0, None).cycles is None
    with pytest.raises(fgrn.LearningError) as caught:
        execution.esteps_of(remote, Rule(batch_size=5), 10.0, None)
    assert (caught.value.setting, caught.value.value) == ("batch_size", 5)
    told = "The 'batch_size' must be left out: rows on the workers of a cluster are not cut into batches."
    assert str(caught.value) == told


@pytest.mark.parametrize("watch", [None, lambda *_: None])
def test_epochs_that_gain_nothing_at_all_are_the_last(watch: Any) -> None:
    """Where the tolerance underflows and the log-likelihood is zero, only equality ends learning."""
    hidden, other = Variable("S", 2), Variable("Z", 2)
    net = Network(
        [Source(hidden, [0.5, 0.5]), Diverter([hidden], [other]), SISO(other, Variable("Y", 2), [[1, 0], [1, 0]])]
    )
    given = {"weights": [1e-200, 1e-200], "tolerance": 1e-200, "epochs": 40, "merge": False}
    history = net.learn({"Y": [0, 0]}, engine="cpu", watch=watch, **given)
    assert history.converged and history.epochs == 2
