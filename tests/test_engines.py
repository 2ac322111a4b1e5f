"""The CPU engine against the reference engine where linear numbers underflow: tiny cells, thousands of leaves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from strategies import networks_with_evidence

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable, engines
from fgrn.engines import cpu, installed_engines, row_blocks
from fgrn.engines.row_blocks import blocks_of_rows, call_helpers, in_order, thread_count
from fgrn.flow.counts import Counts, LocalEStep
from fgrn.flow.evidence import encode
from fgrn.flow.parameters import random_start

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]

Columns = dict[str, list]


def star(tables: list[np.ndarray], prior: np.ndarray | None = None) -> Network:
    hidden = len(tables[0])
    root = Variable("S", hidden)
    legs = [Variable(f"S{i}", hidden) for i in range(len(tables))]
    leaves = [
        SISO(leg, Variable(f"Y{i}", table.shape[1]), table)
        for i, (leg, table) in enumerate(zip(legs, tables, strict=True))
    ]
    return Network([Source(root, prior), Diverter([root], legs), *leaves])


def assert_engines_agree(net: Network, data: Columns, **learning: object) -> None:
    one, other = (net.propagate(data, engine=engine) for engine in ("reference", "cpu"))
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-10, atol=1e-10)
    for name in one.kept:
        np.testing.assert_allclose(other.marginal(name), one.marginal(name), rtol=1e-9, atol=1e-10, err_msg=name)
    few = net.propagate(data, parts=["marginal", "likelihood"])  # in the linear domain, where nothing can be lost
    np.testing.assert_allclose(few.log_likelihood, one.log_likelihood, rtol=1e-10, atol=1e-10)
    for name in one.kept:
        np.testing.assert_allclose(few.marginal(name), one.marginal(name), rtol=1e-9, atol=1e-10, err_msg=name)
    learners = [net.copy(), net.copy()]
    histories = [
        learner.learn(data, engine=engine, **learning)
        for learner, engine in zip(learners, ("reference", "cpu"), strict=True)
    ]
    np.testing.assert_allclose(histories[1].log_likelihood, histories[0].log_likelihood, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(learners[1]._parameters.values, learners[0]._parameters.values, rtol=1e-8, atol=1e-10)


@given(
    seed=st.integers(0, 2**32 - 1),
    leaves=st.integers(2, 60),
    depth=st.sampled_from([5, 40, 150, 300]),
    cycles=st.sampled_from([1, 1, 3]),
)
@example(seed=3_494_545_062, leaves=49, depth=150, cycles=1)  # a state is counted 5e-314 times, or never
@example(seed=115_963, leaves=58, depth=150, cycles=1)  # a product of norms is below the normal numbers
def test_cells_of_any_size_hard_and_soft(seed: int, leaves: int, depth: int, cycles: int) -> None:
    rng = np.random.default_rng(seed)
    hidden = int(rng.integers(2, 5))
    tables = []
    for _ in range(leaves):
        cells = 10.0 ** -rng.uniform(0, depth, (hidden, int(rng.integers(2, 4)))) * (rng.random((hidden, 1)) < 0.9)
        cells[:, -1] += cells.sum(axis=1) == 0
        tables.append(cells / cells.sum(axis=1, keepdims=True))
    net = star(tables)
    data: Columns = {}
    for i, table in enumerate(tables):
        kind = rng.choice(["hard", "holes", "soft"], p=[0.6, 0.2, 0.2])
        states = table.shape[1]
        values: list = rng.integers(0, states, 5).tolist()
        if kind == "holes":
            values = [None if rng.random() < 0.5 else v for v in values]
        elif kind == "soft":
            values = [(10.0 ** -rng.uniform(0, depth, states)).tolist() for _ in range(5)]
        data[f"Y{i}"] = values
    possible = ~net.propagate(data, keep=[], impossible="mark", engine="reference").impossible
    np.testing.assert_array_equal(~net.propagate(data, keep=[], impossible="mark", engine="cpu").impossible, possible)
    assume(possible.any())
    rows = {name: [v for v, keep in zip(column, possible, strict=True) if keep] for name, column in data.items()}
    # after several cycles tiny cells may have become zero, and a row impossible: then there is no second epoch
    assert_engines_agree(net, rows, cycles=cycles, epochs=2 if cycles == 1 else 1)


@pytest.mark.parametrize(("hard", "soft"), [(347, 355), (200, 700), (700, 200), (1000, 1003), (3000, 0)])
def test_a_state_that_hundreds_of_leaves_made_tiny_can_win_by_others(hard: int, soft: int) -> None:
    """Hard evidence underflows for one state, and soft evidence makes it the most probable."""
    table = np.array([[0.9, 0.1], [0.1, 0.9]])
    net = star([table] * (hard + soft), np.array([0.5, 0.5]))
    data: Columns = {f"Y{i}": [0] for i in range(hard)}
    data |= {f"Y{hard + i}": [[0.05, 0.95]] for i in range(soft)}
    for engine in ("reference", "cpu"):
        seen = net.propagate(data, keep=["S"], engine=engine)
        vote = hard * np.log(9) - soft * np.log(0.86 / 0.14)
        np.testing.assert_allclose(seen.marginal("S")[0, 0], np.exp(-np.logaddexp(0, -vote)), rtol=1e-9, atol=1e-300)
        learner = net.copy()
        learner.learn(data, epochs=1, engine=engine)
        np.testing.assert_allclose(learner.prior("S"), seen.marginal("S")[0], rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("first", "last"), [(85, 115), (88, 117), (88, 119)])
def test_norms_whose_product_underflows_are_all_in_the_log_likelihood(first: int, last: int) -> None:
    """One leaf makes the likelihood 10**-first, and four others, which contradict each other, 10**(-2 * last) of it."""
    vague, tiny = 10.0**-first, 10.0**-last
    one, other = [[1.0, tiny], [tiny, 1.0]], [[tiny, 1.0], [1.0, tiny]]
    net = star([np.array(table) for table in ([[vague, 1.0]] * 2, one, other, one, other)], np.array([0.3, 0.7]))
    data: Columns = {f"Y{i}": [[1.0, 0.0]] for i in range(5)}
    expected = -(first + 2 * last) * np.log(10)
    for engine in ("reference", "cpu"):
        np.testing.assert_allclose(net.propagate(data, keep=[], engine=engine).log_likelihood, expected, rtol=1e-12)
        learnt = net.copy().learn(data, epochs=1, engine=engine)
        np.testing.assert_allclose(learnt.log_likelihood, expected, rtol=1e-12)


@pytest.mark.parametrize("votes", [(330, 320, 18), (322, 321, 0), (700, 300, 520)])
def test_votes_that_turn_among_groups_under_one_root(votes: tuple[int, int, int]) -> None:
    table = np.array([[0.9, 0.1], [0.1, 0.9]])
    net = fgrn.stack({f"Y{i}": 2 for i in range(sum(votes))}, hidden=[2, 2], groups=[_groups(votes)])
    blocks = [
        SISO(b.input, b.output, table if b.output.name[0] == "Y" else np.eye(2)) if isinstance(b, SISO) else b
        for b in net.blocks
    ]
    net = Network(blocks)
    data: Columns = {}
    at = 0
    for group, count in enumerate(votes):
        data |= {f"Y{at + i}": [0 if group == 0 else 1] for i in range(count)}
        at += count
    one, other = (net.propagate(data, keep=["S2"], engine=engine) for engine in ("reference", "cpu"))
    np.testing.assert_allclose(other.marginal("S2"), one.marginal("S2"), rtol=1e-9)
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-12)


def _groups(votes: tuple[int, int, int]) -> list[list[str]]:
    ends = np.cumsum((0, *votes))
    return [[f"Y{i}" for i in range(a, b)] for a, b in pairwise(ends) if b > a]


def packing_networks(rng: np.random.Generator) -> Network:
    """Draw a ready-made network whose Diverters have enough leaves to pack."""
    observed = {f"Y{i}": int(rng.integers(2, 6)) for i in range(int(rng.integers(3, 14)))}
    hidden = int(rng.integers(1, 40))
    names = list(observed)
    kind = rng.choice(["lvm", "dica", "stack", "naive_bayes"])
    if kind == "lvm":
        return fgrn.lvm(observed, hidden=hidden)
    if kind == "dica":
        return fgrn.dica(observed, hidden=[int(rng.integers(2, 5)), int(rng.integers(2, 5))])
    if kind == "stack":
        groups = [names[: len(names) // 2], names[len(names) // 2 :]]
        return fgrn.stack(observed, hidden=[int(rng.integers(2, 6)), int(rng.integers(2, 6))], groups=[groups])
    return fgrn.naive_bayes(observed, class_variable="Y0")


@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    weights=st.sampled_from([(1.0,), (0.0, 1.0, 2.5), (-1.0, 1.0, 1.0), (-2.5, 0.0, 1.0)]),
)
def test_packed_leaves_give_the_counts_of_the_reference_engine(
    seed: int, share: float, weights: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(seed)
    net = packing_networks(rng)
    values = random_start(net._spec, net._parameters, int(rng.integers(1000)), 0, again=True).values
    plan, rows = net._plan(()), int(rng.integers(2100, 3000))  # enough to pack two leaves
    data = {}
    for name in net.observed:
        codes = rng.integers(0, len(net.variable(name).labels), rows).astype(float)
        codes[rng.random(rows) < share * rng.choice([0, 1], p=[0.3, 0.7])] = np.nan
        data[name] = codes
    encoded = encode(plan, data)
    if len(weights) > 1:
        encoded = encoded.with_arrays(row_weights=rng.choice(weights, rows))
    programs = net._programs_for(plan, (), encoded)
    packed = engines.get("cpu").by_tape(plan, programs, programs.counting, encoded, encoded.row_weights, None)
    for expect in (True, False) if min(weights) >= 0 else (True,):
        reference = LocalEStep(engines.get("reference"), plan, programs, encoded, expect).count(values)
        chosen = LocalEStep(engines.get("cpu"), plan, programs, encoded, expect).count(values)
        for found in (chosen, packed.load(values).counts(expect)):
            np.testing.assert_allclose(found.values, reference.values, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(found.log_likelihood, reference.log_likelihood, rtol=1e-12, atol=1e-9)
    assert any(len(pack.sisos) > 1 for region in packed.tape.regions for pack in region.packs)


@given(drawn=networks_with_evidence(most_rows=8), seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_negative_weight_are_subtracted(engine: str, drawn: Any, seed: int) -> None:
    network, evidence = drawn
    net = Network(network.blocks)
    plan = net._plan(())
    encoded = encode(plan, evidence.columns)
    programs = net._programs_for(plan, (), encoded)
    weights = np.random.default_rng(seed).choice([-1.0, -0.5, 0.0, 1.0, 2.0], evidence.rows)

    def counted(some: np.ndarray) -> Counts:
        rows = encoded.with_arrays(row_weights=some)
        return LocalEStep(engines.get(engine), plan, programs, rows, expect=True).count(net._parameters.values)

    found, more, less = (counted(some) for some in (weights, np.maximum(weights, 0), np.maximum(-weights, 0)))
    np.testing.assert_allclose(found.values, np.asarray(more.values) - np.asarray(less.values), rtol=1e-9, atol=1e-9)
    assert found.log_likelihood == pytest.approx(more.log_likelihood - less.log_likelihood, rel=1e-9, abs=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.sampled_from([0, 1, 40, 300]),
    rows=st.sampled_from([5, 300]),
    kept=st.sampled_from(["Y0", "S0", "S", "both"]),
)
def test_messages_of_one_leaf_of_a_star_are_those_of_the_reference_engine(
    seed: int, depth: int, rows: int, kept: str
) -> None:
    """For an unobserved leaf or the hidden variable, with cells of any size and zeros."""
    rng = np.random.default_rng(seed)
    hidden, leaves = int(rng.integers(1, 25)), int(rng.integers(2, 12))
    tables = []
    for _ in range(leaves):
        cells = 10.0 ** -rng.uniform(0, depth, (hidden, int(rng.integers(2, 5)))) * (rng.random((hidden, 1)) < 0.9)
        cells[:, -1] += cells.sum(axis=1) == 0
        tables.append(cells / cells.sum(axis=1, keepdims=True))
    prior = rng.dirichlet(np.ones(hidden)) * (rng.random(hidden) < 0.9)
    net = star(tables, prior / prior.sum() if prior.sum() > 0 else None)
    data = {}
    for i in range(1, leaves):
        codes = rng.integers(0, tables[i].shape[1], rows).astype(float)
        codes[rng.random(rows) < 0.2] = np.nan
        data[f"Y{i}"] = codes
    names = ["Y0", "S0"] if kept == "both" else [kept]
    one, other = (net.propagate(data, keep=names, impossible="mark", engine=e) for e in ("reference", "cpu"))
    np.testing.assert_array_equal(other.impossible, one.impossible)
    fine = ~one.impossible
    np.testing.assert_allclose(other.log_likelihood[fine], one.log_likelihood[fine], rtol=1e-10, atol=1e-10)
    for name in names:
        for part in ("forward", "backward", "marginal"):
            got, expected = getattr(other, part)(name)[fine], getattr(one, part)(name)[fine]
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10, err_msg=f"{part} of {name}")


@pytest.mark.parametrize("rows", [1, 16, 17])
def test_few_rows_have_the_same_messages(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.Cpu, "all_messages_up_to", 16)  # which the other tests here set to 0
    net = fgrn.stack({f"Y{i}": 3 for i in range(4)}, hidden=[3, 2], groups=[[["Y0", "Y1"], ["Y2", "Y3"]]])
    rng = np.random.default_rng(rows)
    net.learn({f"Y{i}": rng.integers(0, 3, 50) for i in range(4)}, epochs=2)
    data = {f"Y{i}": rng.integers(0, 3, rows) for i in range(3)}
    one, other = (net.propagate(data, keep=["Y3"], engine=engine) for engine in ("reference", "cpu"))
    np.testing.assert_allclose(other.marginal("Y3"), one.marginal("Y3"), rtol=1e-12)
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-12)
    assert other.kept == ("Y3",)
    with pytest.raises(fgrn.UnknownNameError, match="Y0"):
        other.marginal("Y0")


def test_no_zero_is_made_up_by_what_rounding_hides() -> None:
    net = star([np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[1 - 5e-18, 5e-18], [0.5, 0.5]])])
    net.learn({"Y0": [0] * 100_000, "Y1": [0] * 99_999 + [None]}, epochs=1, engine="cpu")
    assert (net.table("Y1") > 0).all()


def test_subnormal_numbers_are_zero_in_products_only() -> None:
    """A table may have them, and NumPy computes with them after a kernel as before."""
    tiny = 5e-320
    net = star([np.array([[tiny, 1 - tiny], [tiny, 1 - tiny]]), np.array([[0.3, 0.7], [0.6, 0.4]])])
    other = star([np.array([[tiny, 1 - tiny], [tiny, 1 - tiny]]), np.array([[0.3, 0.7], [0.6, 0.4]])])
    data = {"Y0": [0, 1, 1, None] * 20, "Y1": [0, 1, None, 0] * 20}
    one = net.learn(data, epochs=6, engine="cpu", merge=False)
    another = other.learn(data, epochs=6, engine="reference")
    np.testing.assert_allclose(one.log_likelihood, another.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(net._tables, other._tables, rtol=1e-10)
    assert np.array([tiny])[0] * 0.5 == tiny / 2 > 0


def test_states_that_rows_all_but_exclude_may_vanish() -> None:
    """Their share passes through the subnormal numbers, epoch after epoch, on its way to zero."""
    rng = np.random.default_rng(3)
    data = {f"Y{i}": rng.integers(0, 4, 40) for i in range(60)}
    nets = [fgrn.lvm(dict.fromkeys(data, 4), hidden=5) for _ in range(2)]
    one, another = (
        net.learn(data, epochs=80, seed=1, engine=engine, merge=False)
        for net, engine in zip(nets, ("cpu", "reference"), strict=True)
    )
    np.testing.assert_allclose(one.log_likelihood, another.log_likelihood, rtol=1e-9)
    np.testing.assert_allclose(nets[0]._tables, nets[1]._tables, rtol=1e-6, atol=1e-300)
    assert (nets[0]._tables == 0).any()


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_many_blocks_are_counted_the_same_to_the_bit_on_any_number_of_threads(
    holes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share reused count buffers, weights and cached entries."""
    monkeypatch.setattr(cpu, "COUNTED_CELLS", 2**12)
    monkeypatch.setattr(cpu, "VISITS", 0)
    monkeypatch.setattr(cpu, "COUNTED_BLOCKS", 10**9)
    rng = np.random.default_rng(0)
    data = {f"Y{i}": np.where(rng.random(20_000) < holes, np.nan, rng.integers(0, 3, 20_000)) for i in range(6)}
    learnt = []
    for network in (fgrn.lvm(dict.fromkeys(data, 3), hidden=4), fgrn.stack(dict.fromkeys(data, 3), hidden=[2, 3])):
        plan = network._plan(())
        encoded = encode(plan, data)
        programs = network._programs_for(plan, (), encoded)
        size = engines.get("cpu").prepare(plan, programs, programs.counting, encoded).rows_at_once
        assert len(blocks_of_rows(encoded.rows, size)) > 20
        for threads in (1, 2, 3, 8):
            net = network.copy()
            net.learn(data, epochs=3, threads=threads, engine="cpu", merge=False)
            learnt.append(net)
    assert all(net == learnt[0] for net in learnt[:4])
    assert all(net == learnt[4] for net in learnt[4:])


def test_a_worker_that_leaves_is_noticed() -> None:
    left = threading.Event()

    def work(rows: slice) -> int:
        if threading.current_thread() is not threading.main_thread():
            left.set()
            raise SystemExit(3)
        assert left.wait(timeout=60)
        return rows.start

    with pytest.raises(SystemExit):
        list(in_order(2, work, [slice(k, k + 1) for k in range(50)]))


def test_who_leaves_blocks_undone_waits_for_the_threads_that_work_on_them() -> None:
    running, begun, go_on = [0], threading.Event(), threading.Event()

    def work(number: int) -> int:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(timeout=60)
            return number
        running[0] += 1
        begun.set()
        assert go_on.wait(timeout=60)
        running[0] -= 1
        return number

    results = in_order(2, work, range(50))
    next_one = threading.Timer(0.05, go_on.set)
    next_one.start()
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert running == [0]
    assert list(in_order(2, lambda number: number, range(50))) == list(range(50))


@pytest.mark.skipif(row_blocks.PROCESSOR_NOW is None, reason="threads cannot be kept off a processor here")
def test_a_thread_that_helps_is_kept_off_the_processor_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they were woken together, two threads took turns on one processor for milliseconds."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:
        pytest.skip("the system forbids it")
    monkeypatch.setattr(row_blocks._Helper, "idle", [])
    monkeypatch.setattr(row_blocks._Helper, "started", 0)
    seen: list[tuple[int, set[int]]] = []
    ended = threading.Event()

    def call_from(processor: int, work: Callable[[int], object]) -> None:
        monkeypatch.setattr(row_blocks, "PROCESSOR_NOW", lambda: processor)
        call_helpers(1, lambda _: (seen.append((processor, os.sched_getaffinity(0))), work(thread_count())))

    counts: list[int] = []

    def helping(count: int) -> None:  # calls a helper in turn
        counts.append(count)
        call_from(max(allowed), lambda _: ended.set())

    call_from(min(allowed), helping)
    assert ended.wait(timeout=60)
    assert [processor for processor, _ in seen] == [min(allowed), max(allowed)]
    assert all(found == (allowed - {processor} or allowed) for processor, found in seen)
    assert counts == [len(allowed)]
    assert os.sched_getaffinity(0) == allowed


def test_threads_change_nothing_in_batch_learning() -> None:
    rng = np.random.default_rng(0)
    net = fgrn.lvm({f"Y{i}": 3 for i in range(6)}, hidden=4)
    data = {f"Y{i}": rng.integers(0, 3, 50_000) for i in range(6)}
    nets = [net.copy() for _ in range(3)]
    for threads, learner in enumerate(nets, start=1):
        learner.learn(data, epochs=2, cycles=3, hold=threads != 2, threads=threads, engine="cpu")
    assert nets[0] == nets[1] == nets[2]


def test_impossible_rows_without_weight_count_for_nothing() -> None:
    net = star([np.eye(8), np.eye(8)])
    plan = net._plan(())
    rows = 3 * (2**20 // 64)
    data = {"Y0": [0] * rows, "Y1": [1] * rows}
    encoded = encode(plan, data, [0] * (rows - 1) + [1])
    encoded.codes[-1, 1] = 0
    estep = LocalEStep(engines.get("cpu"), plan, net._programs_for(plan, (), encoded), encoded, True)
    assert estep.count(net._parameters.values).values.sum() == pytest.approx(3)


@pytest.mark.parametrize("engine", ENGINES)
def test_paused_blocks_cut_learning_and_keep_their_tables(engine: str) -> None:
    rng = np.random.default_rng(1)
    net = fgrn.stack({f"Y{i}": 2 for i in range(4)}, hidden=[3, 2], groups=2)
    data = {f"Y{i}": rng.integers(0, 2, 60).tolist() for i in range(4)}
    net.learn(data, epochs=2, engine=engine)
    kept = net.table("S1.1").copy()
    alone = fgrn.lvm({"Y0": 2, "Y1": 2}, hidden=3, prior=[1 / 3] * 3, learn_prior=False)
    start = Network(
        [SISO(b.input, b.output, net.table(b.output.name)) if isinstance(b, SISO) else b for b in alone.blocks]
    )
    net.learn(data, epochs=3, paused=["S1.1"], smoothing=0.1, engine=engine)
    start.learn({name: data[name] for name in ("Y0", "Y1")}, epochs=3, smoothing=0.1, engine=engine)
    np.testing.assert_array_equal(net.table("S1.1"), kept)
    np.testing.assert_allclose(net.table("Y0"), start.table("Y0"), rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_rounds_where_a_paused_block_leaves_no_diverter(engine: str) -> None:
    S, M, Y = Variable("S", 2), Variable("M", 2), Variable("Y", 2)
    net = Network([
        Source(S, prior=[0.25, 0.75]), SISO(S, M, table=[[0.5, 0.5], [0.0, 1.0]]), SISO(M, Y, table=np.eye(2)),
    ])  # fmt: skip
    found = net.propagate({"Y": [0]}, schedule="rounds", paused=["Y"], engine=engine)
    np.testing.assert_allclose(found.marginal("M"), [[0.125, 0.875]])


@pytest.mark.parametrize("engine", ENGINES)
def test_rounds_on_a_ring_that_a_paused_block_cuts(engine: str) -> None:
    rng = np.random.default_rng(2)
    variables = [Variable(f"v{i}", 2) for i in range(6)]
    legs = [Variable(f"w{i}", 2) for i in range(6)]
    top, joint, end = Variable("a", 2), Variable("j", 4), Variable("e", 2)
    draw = lambda rows: rng.dirichlet([1, 1], rows)  # noqa: E731
    blocks = [Source(top, [0.3, 0.7]), Diverter([top], [legs[0], legs[1]])]
    for side in (0, 1):
        chain = [legs[side], *variables[side::2]]
        blocks += [SISO(a, b, draw(2)) for a, b in pairwise(chain)]
    blocks += [Diverter([variables[4], variables[5]], [joint]), SISO(joint, end, draw(4))]
    net = Network(blocks)
    assert not net.is_tree
    data = {"e": [1, 0], "v1": [0, None]}
    for paused in (["v0"], ["v2"], ["v5"]):
        swept = net.propagate(data, paused=paused, engine=engine)
        rounds = net.propagate(data, paused=paused, schedule="rounds", engine=engine)
        assert rounds.converged.all()
        for name in swept.kept:
            np.testing.assert_allclose(rounds.marginal(name), swept.marginal(name), rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_rounds_know_a_state_that_plain_numbers_lose(engine: str) -> None:
    biased = np.array([[0.9, 0.1], [0.1, 0.9]])
    net = star([*[biased] * 400, np.array([[1.0, 0.0], [0.5, 0.5]])], np.array([0.5, 0.5]))
    data = {**{f"Y{i}": [0] for i in range(400)}, "Y400": [1]}
    swept, rounds = (net.propagate(data, schedule=s, engine=engine) for s in ("sweeps", "rounds"))
    np.testing.assert_allclose(rounds.log_likelihood, swept.log_likelihood)
    np.testing.assert_allclose(rounds.marginal("S"), swept.marginal("S"))


def test_damping_does_not_pass_for_rest() -> None:
    a, b = Variable("a", 2), Variable("b", 2)
    net = Network([Source(a, [0.3, 0.7]), SISO(a, b, [[0.9, 0.1], [0.2, 0.8]])])
    exact = net.propagate({"b": [1]})
    for damping in (0.1, 0.5, 0.9, 0.99):
        slow = net.propagate({"b": [1]}, damping=damping, rounds=10_000)
        np.testing.assert_allclose(slow.marginal("a"), exact.marginal("a"), atol=1e-7)
    with pytest.warns(fgrn.ConvergenceWarning):
        assert not net.propagate({"b": [1]}, damping=0.999999, rounds=50).converged.any()


def test_ten_million_rows_lose_nothing() -> None:
    """Counts of 10^7 rows against exact rational ones, as there are only a few kinds of rows."""
    rng = np.random.default_rng(0)
    rows, kinds = 10_000_000, 50
    patterns = rng.integers(0, 3, (kinds, 4)).astype(np.int8)
    which = rng.integers(0, kinds, rows)
    prior = np.array([0.2, 0.3, 0.5])
    tables = [rng.integers(1, 9, (3, 3)) / 1.0 for _ in range(4)]
    tables = [table / table.sum(axis=1, keepdims=True) for table in tables]
    net = star(tables, prior)
    often = np.bincount(which, minlength=kinds)
    exact = [[[Fraction(0)] * 3 for _ in range(3)] for _ in range(4)]
    for pattern, count in zip(patterns.tolist(), often.tolist(), strict=True):
        joint = [Fraction(prior[s]) for s in range(3)]
        for i, code in enumerate(pattern):
            joint = [value * Fraction(tables[i][s, code]) for s, value in enumerate(joint)]
        for i, code in enumerate(pattern):
            for s in range(3):
                exact[i][s][code] += count * joint[s] / sum(joint)
    data = {f"Y{i}": patterns[which, i] for i in range(4)}
    plan = net._plan(())
    encoded = encode(plan, data)
    programs = net._programs_for(plan, (), encoded)
    estep = LocalEStep(engines.get("cpu"), plan, programs, encoded, True, merge=False)
    counts = estep.count(net._parameters.values)
    for i in range(4):
        expected = np.array(exact[i], dtype=np.float64)
        np.testing.assert_allclose(plan.layout.table(counts.values, i), expected, rtol=1e-12)
    assert counts.weight == rows
