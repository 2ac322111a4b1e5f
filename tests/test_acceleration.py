"""Accelerated EM: it never falls, ends where plain EM ends, and needs fewer epochs where plain EM is slow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import Evidence, SmallNetwork, networks, networks_with_evidence

import fgrn
from fgrn import BayesianNetwork, LearningError, Network
from fgrn.engines import GROWTH, LIMIT
from fgrn.flow.acceleration import Extrapolation, extrapolated
from fgrn.flow.parameters import Specification
from fgrn.graph.blocks import Diverter
from fgrn.plan.plan import Layout

PATTERNS = [42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20]
"""How many of 216 people answered four questions of Stouffer and Toby (1951) in each of the 16 ways."""

ANSWERS = {name: [number >> place & 1 for number in range(16)] for place, name in enumerate("dcba")}


@given(
    case=networks_with_evidence(networks(zeros=False)),
    smoothing=st.sampled_from([0.0, 0.3]),
    holes=st.sampled_from(["expect", "ignore"]),
    tolerance=st.sampled_from([0.0, 1e-6]),
)
def test_the_objective_never_falls(
    case: tuple[SmallNetwork, Evidence], smoothing: float, holes: str, tolerance: float
) -> None:
    network, evidence = case
    assume(any(block.learn for block in network.blocks if not isinstance(block, Diverter)))
    net = Network(network.blocks)
    options: dict[str, Any] = {"smoothing": smoothing, "holes": holes, "engine": "reference"}
    history = net.learn(evidence.columns, epochs=14, accelerate=True, tolerance=tolerance, **options)
    slack = 1e-9 * np.maximum(1, np.abs(history.objective))
    assert (np.diff(history.objective) >= -slack[1:]).all()
    # what is returned is an update of parameters that were counted, never an extrapolation nobody has looked at
    after = net.copy().learn(evidence.columns, epochs=1, **options)
    assert after.objective[0] >= history.objective[-1] - slack[-1]
    for name in net.observed:
        np.testing.assert_allclose(net.posterior({}, name).sum(), 1)


def learnt(hidden: int, seed: int, **options: Any) -> tuple[Network, fgrn.flow.em.History]:
    net = fgrn.lvm(dict.fromkeys("abcd", 2), hidden=hidden)
    return net, net.learn(ANSWERS, weights=PATTERNS, seed=seed, engine="reference", **options)


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_the_maximum_in_fewer_epochs(seed: int) -> None:
    fast, history = learnt(2, seed, epochs=1000, tolerance=1e-10, accelerate=True)
    slow, other = learnt(2, seed, epochs=1000, tolerance=1e-12)
    assert history.converged and other.converged
    assert history.log_likelihood[-1] == pytest.approx(-504.4677, abs=1e-4)  # as others report it
    assert history.log_likelihood[-1] == pytest.approx(other.log_likelihood[-1], abs=1e-6)
    assert history.epochs < 0.6 * other.epochs
    order, turned = np.argsort(fast.prior("S")), np.argsort(slow.prior("S"))
    np.testing.assert_allclose(fast.prior("S")[order], slow.prior("S")[turned], atol=1e-4)
    np.testing.assert_allclose(fast.table("a")[order], slow.table("a")[turned], atol=1e-4)


def test_zeros_frozen_and_tied_tables_stay_what_they_are() -> None:
    from fgrn import SISO, Source, Variable

    hidden, wires = Variable("S", 3), [Variable(f"S->{name}", 3) for name in "abcd"]
    support = np.array([[1, 1], [1, 0], [1, 1]])
    blocks = [Source(hidden), Diverter([hidden], wires)]
    blocks += [SISO(wires[0], Variable("a", 2), [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], learn=False)]
    blocks += [SISO(wires[1], Variable("b", 2), tie="t"), SISO(wires[2], Variable("c", 2), tie="t")]
    blocks += [SISO(wires[3], Variable("d", 2), support=support)]
    net = Network(blocks)
    net.learn(ANSWERS, weights=PATTERNS, epochs=50, accelerate=True)
    np.testing.assert_array_equal(net.table("a"), [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    np.testing.assert_array_equal(net.table("b"), net.table("c"))
    assert net.table("d")[1, 1] == 0
    for name in "abcd":
        np.testing.assert_allclose(net.table(name).sum(axis=1), 1, rtol=1e-12)


def test_chains_and_bayesian_networks_take_it_too() -> None:
    rows = {"Y": [0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1] * 5}
    for model in (fgrn.hmm({"Y": 2}, hidden=2), BayesianNetwork({"H": 2, "Y": 2}, [("H", "Y")])):
        history = model.learn(rows, epochs=30, accelerate=True, smoothing=0.1)
        assert (np.diff(history.objective) >= -1e-9 * abs(history.objective[0])).all()
        assert model.trained[-1]["accelerate"] is True


def test_it_needs_one_cycle_per_epoch() -> None:
    with pytest.raises(LearningError, match="cycles=1"):
        learnt(2, 0, cycles=2, accelerate=True)


SPEC = Specification(Layout((("a",),), ((1, 3),), (), (), (None,)), (None,), (), (None,), (True,), ())


def test_a_geometric_path_is_followed_to_its_end() -> None:
    end, step = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.1, -0.2])
    path = [end + step * 0.9**k for k in range(3)]
    ahead, length = extrapolated(SPEC, *path, longest=LIMIT)
    np.testing.assert_allclose(ahead, end, atol=1e-12)
    assert length == pytest.approx(10)
    assert extrapolated(SPEC, *path, longest=4.0)[1] == 4.0


def test_no_cell_leaves_its_distribution() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        path = generator.dirichlet(np.full(3, 0.3), 3)
        path[2, generator.integers(3)] = 0
        path[2] /= path[2].sum()
        ahead, _ = extrapolated(SPEC, *path, longest=64.0)
        assert ahead.sum() == pytest.approx(1)
        assert ((ahead > 0) == (path[2] > 0)).all()
    still = np.array([0.5, 0.5, 0.0])
    np.testing.assert_array_equal(extrapolated(SPEC, still, still, still, 4.0)[0], still)


def test_the_longest_step_follows_what_succeeds() -> None:
    values = np.ones(3) / 3
    tried = Extrapolation(ahead=values, length=4.0, longest=4.0)
    assert tried.after(SPEC, values, values, True).longest == 4.0 * GROWTH
    assert tried.after(SPEC, values, values, False).longest == 1.0
    short = Extrapolation(ahead=values, length=2.0, longest=16.0)
    assert short.after(SPEC, values, values, True).longest == 16.0
    assert Extrapolation(ahead=values, length=LIMIT, longest=LIMIT).after(SPEC, values, values, True).longest == LIMIT
