"""Every message, marginal and likelihood against enumeration, on both engines and both schedules."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import Oracle
from hypothesis import given
from strategies import Evidence, SmallNetwork, loopy_networks, networks, networks_with_evidence

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable
from fgrn.engines import installed_engines

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]

engines = pytest.mark.parametrize("engine", ENGINES)


def assert_close(got: np.ndarray, expected: np.ndarray, message: str = "") -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12, err_msg=message)


def assert_all_messages(seen: fgrn.flow.messages.Messages, oracle: Oracle) -> None:
    assert_close(seen.log_likelihood, oracle.log_likelihood)
    for name in seen.kept:
        assert_close(seen.forward(name), oracle.forward(name), f"forward {name}")
        assert_close(seen.backward(name), oracle.backward(name), f"backward {name}")
        assert_close(seen.marginal(name), oracle.marginal(name), f"marginal {name}")


@engines
@given(case=networks_with_evidence())
def test_two_sweeps_give_every_message_of_a_tree(case: tuple[SmallNetwork, Evidence], engine: str) -> None:
    network, evidence = case
    seen = Network(network.blocks).propagate(evidence.columns, engine=engine)
    assert_all_messages(seen, network.oracle(evidence))


@engines
@given(case=networks_with_evidence())
def test_as_many_rounds_as_the_diameter_give_the_same(case: tuple[SmallNetwork, Evidence], engine: str) -> None:
    network, evidence = case
    net = Network(network.blocks)
    seen = net.propagate(evidence.columns, schedule="rounds", engine=engine)
    assert seen.rounds == net.diameter
    assert_all_messages(seen, network.oracle(evidence))


@engines
@given(case=networks_with_evidence())
def test_keeping_some_variables_changes_nothing_in_them(case: tuple[SmallNetwork, Evidence], engine: str) -> None:
    network, evidence = case
    net = Network(network.blocks)
    everything = net.propagate(evidence.columns, engine=engine)
    for name in list(network.variables)[::2]:
        alone = net.propagate(evidence.columns, keep=[name], engine=engine)
        assert alone.kept == (name,)
        for part in ("forward", "backward", "marginal"):
            assert_close(getattr(alone, part)(name), getattr(everything, part)(name), f"{part} {name}")
        assert_close(alone.log_likelihood, everything.log_likelihood)


@given(case=networks_with_evidence(possible=False))
def test_marginals_and_likelihoods_without_messages(case: tuple[SmallNetwork, Evidence]) -> None:
    """What "auto" answers for a few rows: possible rows in the linear domain, impossible ones in the log domain."""
    network, evidence = case
    net, oracle = Network(network.blocks), network.oracle(evidence)
    for keep in (list(network.variables), list(network.variables)[::2], []):
        seen = net.propagate(evidence.columns, keep=keep, parts=["marginal", "likelihood"], impossible="mark")
        assert_close(seen.log_likelihood, oracle.log_likelihood)
        possible = ~np.isneginf(oracle.log_likelihood)
        for name in keep:
            assert_close(seen.marginal(name)[possible], oracle.marginal(name)[possible], name)


@engines
@given(case=networks_with_evidence(possible=False))
def test_impossible_rows_are_named_or_marked_and_never_nan(case: tuple[SmallNetwork, Evidence], engine: str) -> None:
    network, evidence = case
    net = Network(network.blocks)
    impossible = np.isneginf(network.oracle(evidence).log_likelihood)
    for schedule in ("sweeps", "rounds"):
        seen = net.propagate(evidence.columns, schedule=schedule, impossible="mark", engine=engine)
        np.testing.assert_array_equal(seen.impossible, impossible)
        for name in seen.kept:
            for part in (seen.forward(name), seen.backward(name), seen.marginal(name)):
                assert np.isfinite(part).all()
        if impossible.any():
            with pytest.raises(fgrn.EvidenceError) as raised:
                net.propagate(evidence.columns, schedule=schedule, engine=engine)
            assert raised.value.rows == tuple(np.flatnonzero(impossible))


@given(network=networks())
def test_a_tree_is_known_to_be_one(network: SmallNetwork) -> None:
    assert Network(network.blocks).is_tree


@engines
@given(case=networks_with_evidence(loopy_networks(zeros=False)))
def test_loops_settle_near_the_truth_or_say_so(case: tuple[SmallNetwork, Evidence], engine: str) -> None:
    network, evidence = case
    net = Network(network.blocks)
    assert not net.is_tree
    with pytest.raises(fgrn.FgrnError, match="loops"):
        net.propagate(evidence.columns, schedule="sweeps")
    seen = net.propagate(evidence.columns, engine=engine)
    assert seen.converged.all()
    oracle = network.oracle(evidence)
    for name in network.variables:
        marginal = seen.marginal(name)
        np.testing.assert_allclose(marginal.sum(axis=1), 1)
        assert np.abs(marginal - oracle.marginal(name)).max() < 0.35, name


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_engines_agree_on_a_loop(engine: str) -> None:
    net = frustrated_loop(2.0)
    data = {"b": [0, 1, None], "e": [1, None, None]}
    one, other = (net.propagate(data, engine=name) for name in (ENGINES[0], engine))
    for name in one.kept:
        assert_close(one.marginal(name), other.marginal(name))
    assert_close(one.log_likelihood, other.log_likelihood)


def frustrated_loop(strength: float) -> Network:
    """A diamond: one cause by two ways into one product space."""
    names = ["a", "a1", "a2", "b", "c"]
    a, a1, a2, b, c = (Variable(name, 2) for name in names)
    bc, e = Variable("bc", 4), Variable("e", 2)
    same = np.array([[strength, 1], [1, strength]]) / (1 + strength)
    return Network(
        [Source(a, [0.6, 0.4]), Diverter([a], [a1, a2]), SISO(a1, b, same), SISO(a2, c, same[::-1]),
         Diverter([b, c], [bc]), SISO(bc, e, [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.05, 0.95]])]
    )  # fmt: skip


def test_too_few_rounds_are_said_to_be_too_few() -> None:
    net = frustrated_loop(5.0)
    with pytest.warns(fgrn.ConvergenceWarning, match="Rows 0, 1: the messages did not converge in 2 rounds"):
        seen = net.propagate({"e": [0, 1]}, rounds=2)
    assert not seen.converged.any()
    assert "not converged" in repr(seen)
    assert net.propagate({"e": [0, 1]}).converged.all()


def one_layer(outputs: int, hidden: int = 3, states: int = 2) -> Network:
    root = Variable("S", hidden)
    legs = [Variable(f"S{i}", hidden) for i in range(outputs)]
    rng = np.random.default_rng(outputs)
    tables = rng.dirichlet(np.ones(states), size=(outputs, hidden))
    leaves = [SISO(leg, Variable(f"Y{i}", states), tables[i]) for i, leg in enumerate(legs)]
    return Network([Source(root), Diverter([root], legs), *leaves])


def test_the_steps_of_a_one_layer_network_are_three_and_say_what_moved() -> None:
    net = one_layer(3)
    assert net.diameter == 3
    steps = list(net.steps({"Y0": [1]}))
    assert [step.number for step in steps] == [0, 1, 2, 3]
    assert ("S0", "backward") in steps[1].changed
    assert {("S", "backward"), ("S1", "forward"), ("S2", "forward")} <= set(steps[2].changed)
    assert set(steps[3].changed) == {("Y1", "forward"), ("Y2", "forward")}
    assert "forward Y1, forward Y2" in repr(steps[3])
    seen = net.propagate({"Y0": [1]})
    for name in seen.kept:
        assert_close(steps[-1].messages.marginal(name), seen.marginal(name))


@engines
def test_five_thousand_leaves_do_not_underflow(engine: str) -> None:
    count = 5000
    net = one_layer(count)
    rng = np.random.default_rng(1)
    data = {f"Y{i}": rng.integers(0, 2, 3) for i in range(count)}
    seen = net.propagate(data, keep=["S", "S17", "Y17"], engine=engine)
    logs = np.log([[net.table(f"Y{i}")[:, data[f"Y{i}"][row]] for i in range(count)] for row in range(3)])
    joint = logs.sum(axis=1) + np.log(net.prior("S"))
    np.testing.assert_allclose(seen.log_likelihood, np.logaddexp.reduce(joint, axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        seen.marginal("S"), np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]), atol=1e-9
    )
    without = joint - logs[:, 17]
    expected = np.exp(without - np.logaddexp.reduce(without, axis=1)[:, None])
    np.testing.assert_allclose(seen.forward("S17"), expected, atol=1e-9)


@engines
def test_a_state_made_tiny_by_a_thousand_leaves_is_certain_if_the_last_rules_out_the_others(
    engine: str,
) -> None:
    """0.1 ** 1000 underflows to zero before leaf `last` makes state 1 the only one."""
    count = 1000
    root = Variable("S", 2)
    legs = [Variable(f"S{i}", 2) for i in range(count + 1)]
    biased = [[0.9, 0.1], [0.1, 0.9]]
    leaves = [SISO(legs[i], Variable(f"Y{i}", 2), biased) for i in range(count)]
    certain = SISO(legs[-1], Variable("last", 2), [[1, 0], [0.5, 0.5]])
    net = Network([Source(root, [0.5, 0.5]), Diverter([root], legs), *leaves, certain])
    data = {**{f"Y{i}": [0] for i in range(count)}, "last": [1]}
    expected = np.log(0.5) + count * np.log(0.1) + np.log(0.5)
    seen = net.propagate(data, engine=engine)
    assert seen.log_likelihood[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(seen.marginal("S"), [[0, 1]])
    np.testing.assert_array_equal(seen.marginal(legs[-1].name), [[0, 1]])
    for cycles in (1, 3):
        for hold in (True, False):
            learner = net.copy()
            history = learner.learn(data, epochs=1, cycles=cycles, hold=hold, engine=engine)
            assert history.log_likelihood[0] == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(learner.table("last"), [[1, 0], [0, 1]])


@engines
def test_a_chain_of_ten_thousand_does_not_overflow_the_stack(engine: str) -> None:
    count = 10_000
    variables = [Variable(f"V{i}", 2) for i in range(count)]
    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    blocks = [Source(variables[0], [1, 0])]
    blocks += [SISO(variables[i], variables[i + 1], table, tie="step") for i in range(count - 1)]
    net = Network(blocks)
    assert net.diameter == count - 1
    seen = net.propagate({f"V{count - 1}": [1, None]}, keep=["V3", f"V{count - 1}"], engine=engine)
    np.testing.assert_allclose(seen.forward("V3")[0], np.array([1, 0]) @ np.linalg.matrix_power(table, 3))
    np.testing.assert_allclose(seen.marginal(f"V{count - 1}")[1], [2 / 3, 1 / 3])


def test_impossible_evidence_says_which_values_cannot_go_together() -> None:
    sex, pregnant, age = Variable("sex", ["f", "m"]), Variable("pregnant", ["no", "yes"]), Variable("age", 3)
    cause, one, two = Variable("S", ["f", "m"]), Variable("S1", ["f", "m"]), Variable("S2", ["f", "m"])
    three = Variable("S3", ["f", "m"])
    net = Network(
        [Source(cause), Diverter([cause], [one, two, three]), SISO(one, sex, np.eye(2)),
         SISO(two, pregnant, [[0.8, 0.2], [1, 0]]), SISO(three, age)]
    )  # fmt: skip
    rows = {"age": [1, 0, 2], "sex": ["f", "m", "m"], "pregnant": ["yes", "yes", "yes"]}
    with pytest.raises(fgrn.EvidenceError) as raised:
        net.propagate(rows)
    message = str(raised.value)
    assert message.startswith("Rows 1, 2: ")
    assert "In the first of these rows, 'sex' = m cannot go with 'pregnant' = yes" in message
    assert raised.value.rows == (1, 2)
    with pytest.raises(fgrn.EvidenceError, match="cannot go with"):
        net.learn(rows)
    assert net.propagate({"sex": ["m"]}).belief("pregnant") == {"no": 1.0, "yes": 0.0}


def test_multiplications_of_the_papers_example() -> None:
    net = one_layer(10, hidden=10)
    data = {f"Y{i}": [1] for i in range(10)}
    assert net.multiplications(data) == 670
    assert net.multiplications(data, direct=True) == 1390


def test_unknown_inputs_are_skipped() -> None:
    net = one_layer(100, hidden=10)
    full = {f"Y{i}": [1] for i in range(100)}
    holes = {f"Y{i}": [1 if i < 10 else None] for i in range(100)}
    inward = net.multiplications(full) - net.multiplications(holes)
    per_leaf = 10 * 2 + 2 * 10  # through the table, and into both cascades; the last leg only begins one of them
    assert inward == 89 * per_leaf + 10 * 2
