"""Counts of hidden trees by products of matrices: the same as the reference engine's, also where products vanish."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable, engines
from fgrn.engines import blas_threads, matrices
from fgrn.flow.counts import Counts, LocalEStep


def rows_of(count: int, columns: int, levels: int, seed: int, missing: float = 0.1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = [rng.integers(0, levels, count)]
    for _ in range(columns - 1):
        found.append(np.where(rng.random(count) < 0.3, rng.integers(0, levels, count), found[rng.integers(len(found))]))
    return {f"x{k}": np.where(rng.random(count) < missing, np.nan, column) for k, column in enumerate(found)}


def counted(net: fgrn.Network, data: Any, weights: Any, engine: str, **options: Any) -> tuple[Counts, str]:
    plan = net._plan()
    evidence = net._encode_rows(plan, data, None if weights is None else np.abs(weights))
    if weights is not None and (weights < 0).any():
        evidence = evidence.with_arrays(row_weights=np.asarray(weights, dtype=float))
    programs = net._programs_for(plan, (), evidence)
    estep = LocalEStep(engines.get(engine), plan, programs, evidence, **{"expect": True, "merge": False, **options})
    return estep.count(net._parameters.values), estep.method.kernel


def likelihoods(net: fgrn.Network, data: Any, engine: str) -> np.ndarray:
    return net.propagate(data, keep=[], parts=["likelihood"], impossible="mark", engine=engine).log_likelihood


def compare(net: fgrn.Network, data: Any, weights: Any = None) -> None:
    mine, kernel = counted(net, data, weights, "cpu")
    assert kernel == "matrix"
    reference, _ = counted(net, data, weights, "reference")
    np.testing.assert_allclose(mine.values, reference.values, rtol=1e-9, atol=1e-10)
    assert mine.log_likelihood == pytest.approx(reference.log_likelihood, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(
        likelihoods(net, data, "cpu"), likelihoods(net, data, "reference"), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(("hidden", "trees"), [(24, 1), (6, 4), (1, 1)])
def test_counts_are_those_of_the_reference_engine(hidden: int, trees: int) -> None:
    data = rows_of(300, 7, 3, seed=trees)
    net = fgrn.hidden_tree(data, hidden=hidden, trees=trees, states=dict.fromkeys(data, 3))
    weights = np.random.default_rng(0).integers(0, 3, 300)
    compare(net, data, weights)
    compare(net, data, weights - 1)  # rows of negative weight are subtracted
    net.learn(data, epochs=3, smoothing=0.1)
    compare(net, {name: data[name] for name in ("x1", "x4")})  # the others have no column


def test_blas_has_one_thread_where_blocks_have_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def watched(*block: Any) -> Any:
        seen.append(threads())
        return plain(*block)

    seen: list[set[int]] = []
    plain = matrices.MatrixLoaded._swept
    monkeypatch.setattr(matrices.MatrixLoaded, "_swept", watched)
    data = rows_of(100, 3, 3, seed=0)
    net = fgrn.hidden_tree(data, hidden=24, states=dict.fromkeys(data, 3))
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        counted(net, data, None, "cpu")
        assert threads() == before
    assert set.union(*seen) == {1}


def test_blas_is_limited_after_a_failure_to_limit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limited:
        def restore_original_limits(self) -> None:
            told.append("restored")

    class Libraries:
        def limit(self, **_: Any) -> Limited:
            told.append("asked")
            if len(told) == 1:
                raise OSError("no such library")
            return Limited()

    told: list[str] = []
    libraries = Libraries()
    monkeypatch.setattr(blas_threads, "_blas_libraries", lambda _: libraries)
    one_thread = blas_threads.OneBlasThread()
    with pytest.raises(OSError, match="no such library"), one_thread:
        pass
    with one_thread, one_thread:
        assert told == ["asked", "asked"]
    assert told == ["asked", "asked", "restored"]


def test_blas_is_limited_once_for_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []
    plain = blas_threads._blas_libraries
    data = rows_of(100, 3, 3, seed=0)
    tree = fgrn.hidden_tree(data, hidden=4, states=dict.fromkeys(data, 3))
    monkeypatch.setattr(blas_threads, "_blas_libraries", lambda scipy: (entered.append(1), plain(scipy))[1])
    tree.learn(data, epochs=3, engine="cpu")
    assert entered == [1]
    assert blas_threads.ONE_BLAS_THREAD._users == 0


def test_columns_of_many_leaves_and_children_do_not_underflow() -> None:
    rng = np.random.default_rng(1)
    data = {f"x{k}": rng.integers(0, 2, 60) for k in range(150)}
    states = dict.fromkeys(data, 2)
    net = fgrn.hidden_tree(data, hidden=24, states=states, penalty=1e9)  # no edge pays: a star
    compare(net, data)


def test_a_state_that_underflows_early_and_wins_late_is_not_lost() -> None:
    """Its product of 16 columns is below the least number; in all other columns it is the more probable one by far."""
    one, other = [1e-21] * 16 + [0.5] * 32, [1e-6] * 16 + [1e-11] * 32
    hidden, link, group, leg = (Variable(name, 2) for name in ("S", "L", "g", "Z"))
    copies = [Variable(f"Q{i}", 2) for i in range(48)]
    blocks = [
        Source(hidden, [0.5, 0.5]),
        Diverter([hidden], [link, leg]),
        SISO(leg, Variable("Y", 2), [[0.5, 0.5], [0.4, 0.6]]),
        SISO(link, group, [[0.9, 0.1], [0.2, 0.8]]),
        Diverter([group], copies),
    ]
    for i, (copy, a, b) in enumerate(zip(copies, one, other, strict=True)):
        blocks.append(SISO(copy, Variable(f"X{i}", 2), [[a, 1 - a], [b, 1 - b]]))
    data = {f"X{i}": [0] * 64 for i in range(48)} | {"Y": [0] * 64}
    nets = [Network(blocks) for _ in range(2)]
    found, expected = (
        net.learn(data, epochs=1, engine=engine, merge=False)
        for net, engine in zip(nets, ("cpu", "reference"), strict=True)
    )
    assert "matrix kernel" in str(found.execution)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood)
    for name in ("X0", "X47", "g"):
        np.testing.assert_allclose(nets[0].table(name), nets[1].table(name), rtol=1e-12)


def test_rows_in_which_a_product_vanishes_are_left_to_the_reference_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows_of(200, 6, 3, seed=5)
    net = fgrn.hidden_tree(data, hidden=24, states=dict.fromkeys(data, 3))
    blocks: list[Any] = []
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.table is not None:
            rows, columns = block.table.shape  # values that differ are nearly impossible together
            table = np.where(np.arange(rows)[:, None] % 3 == np.arange(columns) % 3, 3 / columns, 1e-220)
            blocks.append(fgrn.SISO(block.input, block.output, table))
        else:
            blocks.append(block)
    asked: list[int] = []
    reference = engines.get("reference")
    plain = type(reference).prepare

    def prepare(self: Any, *given: Any) -> Any:
        asked.append(given[3].rows)
        return plain(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(type(reference), "prepare", prepare)
        mine, kernel = counted(fgrn.Network(blocks), data, None, "cpu")
    assert kernel == "matrix"
    assert 0 < sum(asked) < 200
    expected, _ = counted(fgrn.Network(blocks), data, None, "reference")
    np.testing.assert_allclose(mine.values, expected.values, rtol=1e-9, atol=1e-10)
    found = [likelihoods(fgrn.Network(blocks), data, engine) for engine in ("cpu", "reference")]
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_likelihoods_alone_are_not_asked_of_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel for trees takes longest to compile."""
    data = rows_of(50, 4, 2, seed=3)
    net = fgrn.hidden_tree(data, hidden=4, states=dict.fromkeys(data, 2))

    def asked(*_: Any) -> Any:
        raise AssertionError("the tape was asked")

    monkeypatch.setattr(type(engines.get("cpu")), "by_tape", asked)
    assert np.isfinite(likelihoods(net, data, "cpu")).all()


def test_an_impossible_row_is_named() -> None:
    data = rows_of(100, 4, 2, seed=7, missing=0.0)
    net = fgrn.hidden_tree(data, hidden=24, states={**dict.fromkeys(data, 2), "x2": 3})
    blocks: list[Any] = [
        fgrn.SISO(block.input, block.output, np.tile([0.5, 0.5, 0.0], (24, 1)))
        if isinstance(block, fgrn.SISO) and block.output.name == "x2"
        else block
        for block in net.blocks
    ]
    data["x2"][77] = 2
    with pytest.raises(fgrn.ImpossibleEvidence) as caught:
        fgrn.Network(blocks).learn(data, epochs=1, engine="cpu")
    assert caught.value.rows == (77,)
    assert np.flatnonzero(np.isneginf(likelihoods(fgrn.Network(blocks), data, "cpu"))).tolist() == [77]


def test_products_of_large_tables_are_not_small() -> None:
    data = rows_of(40, 3, 2, seed=1)
    compare(fgrn.hidden_tree(data, hidden=200, states=dict.fromkeys(data, 2)), data)


@pytest.mark.parametrize("missing", [0.0, 1.0])
def test_likelihoods_of_wide_trees_are_finite(missing: float) -> None:
    """The sum of a product may be as large as its states: many of them must not overflow together."""
    data = rows_of(20, 2, 2, seed=0, missing=missing)
    observed = {f"Y{i}": 2 for i in range(400)}
    wide = {name: data[f"x{number % 2}"] for number, name in enumerate(observed)}
    net = fgrn.stack(observed, hidden=[12, 3], groups=1)
    compare(net, wide)


def test_threads_do_not_matter() -> None:
    data = rows_of(3000, 5, 2, seed=3)
    net = fgrn.hidden_tree(data, hidden=32, states=dict.fromkeys(data, 2))
    one, many = (counted(net, data, None, "cpu", threads=threads)[0] for threads in (1, 3))
    np.testing.assert_array_equal(one.values, many.values)


@pytest.mark.parametrize(("count", "blocks"), [(300, 1), (1_000, 2), (1_200, 4), (6_000, 8), (60_000, 16)])
def test_few_rows_are_blocks_for_several_threads(count: int, blocks: int) -> None:
    net = fgrn.hidden_tree(rows_of(100, 3, 2, seed=0), hidden=12)
    plan, evidence = net._plan(), net._encode_rows(net._plan(), rows_of(count, 3, 2, seed=0))
    programs = net._programs_for(plan, (), evidence)
    prepared = engines.get("cpu").prepare(plan, programs, programs.counting, evidence, None, None)
    assert len(prepared.blocks) == blocks


def test_other_networks_are_left_to_the_tape() -> None:
    data = rows_of(100, 4, 2, seed=0)
    large = fgrn.hidden_tree(data, hidden=32, states=dict.fromkeys(data, 2))
    inside = {**data, "S:x0": np.zeros(100)}
    assert counted(large, inside, None, "cpu")[1] == "tree"
    soft = {"x0": [[0.5, 0.5]] * 100, "x1": data["x1"]}
    assert counted(large, soft, None, "cpu")[1] == "tree"
    assert counted(fgrn.lvm(dict.fromkeys(data, 2), hidden=32), data, None, "cpu")[1] == "star"
    few = {name: column[: matrices.FEWEST_ROWS - 1] for name, column in data.items()}
    assert counted(large, few, None, "cpu")[1] == "tree"
    ignored, _ = counted(large, data, None, "cpu", expect=False)
    reference, _ = counted(large, data, None, "reference", expect=False)
    np.testing.assert_allclose(ignored.values, reference.values, rtol=1e-9, atol=1e-10)
