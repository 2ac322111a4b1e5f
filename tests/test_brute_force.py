"""The oracle against sums by hand, against a simpler enumeration, and against identities."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from brute_force import Array, Holes, Oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Evidence, SmallNetwork, loopy_networks, networks, networks_with_evidence, weights

from fgrn.graph.blocks import SISO, Block, Diverter, Source, Variable
from fgrn.graph.wiring import Wiring

slow = settings(deadline=None)
HOLES: st.SearchStrategy[Holes] = st.sampled_from(("expect", "ignore"))


def one_hot(codes: list[int], cardinality: int) -> Array:
    return np.eye(cardinality)[codes]


def assert_same(got: dict[str, Array], expected: dict[str, Array]) -> None:
    assert got.keys() == expected.keys()
    for name in got:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=1e-12, err_msg=name)


def asbestos() -> tuple[Oracle, dict[str, Array]]:
    """Two causes, one effect, seven patients: rows of (asbestos, smoking, cancer)."""
    a, s, c = (Variable(name, 2) for name in "ASC")
    both = Variable("AS", 4)
    blocks: list[Block] = [Source(a), Source(s), Diverter([a, s], [both]), SISO(both, c)]
    rows = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1]])
    evidence = {name: np.eye(2)[rows[:, column]] for column, name in enumerate("ASC")}
    priors = {"A": np.array([0.5, 0.5]), "S": np.array([0.3, 0.7])}
    return Oracle(blocks, {"C": np.full((4, 2), 0.5)}, priors, evidence), evidence


def test_fully_observed_rows_are_counted() -> None:
    oracle, _ = asbestos()
    tables, priors = oracle.em_step()
    np.testing.assert_allclose(priors["A"], [3 / 7, 4 / 7])
    np.testing.assert_allclose(priors["S"], [3 / 7, 4 / 7])
    np.testing.assert_allclose(tables["C"][:, 1], [0, 1 / 2, 1 / 2, 1])
    smoothed, unsmoothed = oracle.em_step(smoothing=1.0)
    np.testing.assert_allclose(smoothed["C"][:, 1], [1 / 3, 2 / 4, 2 / 4, 3 / 4])
    np.testing.assert_allclose(unsmoothed["A"], [3 / 7, 4 / 7])


def test_two_causes_explain_each_other_away() -> None:
    oracle, evidence = asbestos()
    tables, priors = oracle.em_step()
    alone = {"C": evidence["C"][:1]}
    learned = replace(oracle, tables=tables, priors=priors, evidence=alone)
    # P(c) = (0*9 + 12/2 + 12/2 + 16) / 49 = 28/49; P(a | c) = (6 + 16) / 28; P(a | c, s) = 16 / (16 + 6)
    np.testing.assert_allclose(np.exp(learned.log_likelihood), 28 / 49)
    np.testing.assert_allclose(learned.marginal("A")[0, 1], 22 / 28)
    np.testing.assert_allclose(learned.forward("A")[0], [3 / 7, 4 / 7])
    # sum over s of P(s) P(c | a, s): 4/7 * 1/2 for a = 0, and 3/7 * 1/2 + 4/7 for a = 1
    np.testing.assert_allclose(learned.backward("A")[0], [4 / 15, 11 / 15])
    smoker = replace(learned, evidence=alone | {"S": one_hot([1], 2)})
    np.testing.assert_allclose(smoker.marginal("A")[0, 1], 16 / 22)
    np.testing.assert_allclose(smoker.forward("AS")[0], [0, 3 / 7, 0, 4 / 7])
    np.testing.assert_allclose(smoker.backward("C")[0], [0, 1])


def chain(evidence: dict[str, Array], known: dict[str, NDArray[np.bool_]] | None = None) -> Oracle:
    """Source A -> SISO -> B -> SISO -> C."""
    a, b, c = (Variable(name, 2) for name in "ABC")
    tables = {"B": np.array([[0.9, 0.1], [0.2, 0.8]]), "C": np.array([[0.5, 0.5], [0.0, 1.0]])}
    return Oracle([Source(a), SISO(a, b), SISO(b, c)], tables, {"A": np.array([0.4, 0.6])}, evidence, known)


def test_soft_evidence_on_an_inner_edge() -> None:
    oracle = chain({"B": np.array([[2.0, 6.0]])})
    # forward(B) = .4*[.9 .1] + .6*[.2 .8] = [.48 .52]; the weights [2 6] enter the likelihood as given
    np.testing.assert_allclose(oracle.forward("B")[0], [0.48, 0.52])
    np.testing.assert_allclose(oracle.backward("B")[0], [0.25, 0.75])
    np.testing.assert_allclose(np.exp(oracle.log_likelihood), [2 * 0.48 + 6 * 0.52])
    np.testing.assert_allclose(oracle.forward("C")[0], [0.48 / 4.08, 3.6 / 4.08])
    np.testing.assert_allclose(oracle.backward("C")[0], [0.5, 0.5])
    np.testing.assert_allclose(oracle.backward("A")[0], np.array([2.4, 5.2]) / 7.6)


def test_a_row_that_is_impossible_takes_no_part() -> None:
    rows = {"B": one_hot([1, 1], 2), "C": one_hot([0, 1], 2)}
    oracle = chain(rows)
    assert oracle.log_likelihood[0] == -np.inf
    assert np.isnan(oracle.marginal("A")[0]).all()
    alone = replace(oracle, evidence={name: values[1:] for name, values in rows.items()})
    assert_same(oracle.table_counts(), alone.table_counts())
    assert_same(oracle.em_step()[1], alone.em_step()[1])
    assert_same(oracle.epoch(3, smoothing=0.5)[0], alone.epoch(3, smoothing=0.5)[0])


def test_holes() -> None:
    evidence = {"A": one_hot([0, 1], 2), "B": np.array([[1.0, 1.0], [0.0, 1.0]])}
    oracle = chain(evidence, known={"A": np.array([True, True]), "B": np.array([False, True])})
    expected = oracle.table_counts([3.0, 1.0])
    np.testing.assert_allclose(expected["B"], [[2.7, 0.3], [0.0, 1.0]])
    np.testing.assert_allclose(expected["C"], [[1.35, 1.35], [0.0, 1.3]])
    ignored = oracle.table_counts([3.0, 1.0], holes="ignore")
    np.testing.assert_allclose(ignored["B"], [[0, 0], [0, 1]])
    np.testing.assert_allclose(ignored["C"], np.zeros((2, 2)))  # nothing was ever seen below
    tables, priors = oracle.em_step([3.0, 1.0], holes="ignore")
    np.testing.assert_allclose(tables["B"], [[0.9, 0.1], [0.0, 1.0]])  # the first row was not seen, and stays
    np.testing.assert_allclose(tables["C"], oracle.tables["C"])
    np.testing.assert_allclose(priors["A"], [0.75, 0.25])


def test_cycles_are_repeated_on_held_messages() -> None:
    """One soft row on a table of one row: theta <- theta * b / (theta b), K times."""
    v, y = Variable("V", 1), Variable("Y", 2)
    oracle = Oracle([SISO(v, y)], {"Y": np.array([[0.5, 0.5]])}, {}, {"Y": np.array([[1.0, 3.0]])})
    for cycles in (1, 2, 3):
        tables, _ = oracle.epoch(cycles)
        np.testing.assert_allclose(tables["Y"], [[1 / (1 + 3**cycles), 3**cycles / (1 + 3**cycles)]])


def test_tied_frozen_and_supported_tables() -> None:
    s, s1, s2, s3, s4 = (Variable(f"S{number}", 2) for number in range(5))
    ys = [Variable(f"Y{number}", 2) for number in range(4)]
    half = np.full((2, 2), 0.5)
    blocks: list[Block] = [
        Diverter([s], [s1, s2, s3, s4]),
        SISO(s1, ys[0], half, tie="shared"),
        SISO(s2, ys[1], half, tie="shared"),
        SISO(s3, ys[2], half, learn=False),
        SISO(s4, ys[3], np.eye(2), support=np.eye(2)),
    ]
    tables = {"Y0": half, "Y1": half, "Y2": half, "Y3": np.eye(2)}
    evidence = {"S0": one_hot([0, 0], 2), "Y0": one_hot([0, 0], 2), "Y1": one_hot([0, 1], 2)}
    new, _ = Oracle(blocks, tables, {}, evidence | {"Y2": one_hot([1, 1], 2)}).em_step(smoothing=1.0)
    shared = np.array([[4 / 6, 2 / 6], [1 / 2, 1 / 2]])
    assert_same(new, {"Y0": shared, "Y1": shared, "Y2": half, "Y3": np.eye(2)})


@slow
@given(st.one_of(networks_with_evidence(networks(largest=200)), networks_with_evidence(loopy_networks())))
def test_against_a_plainer_enumeration(case: tuple[SmallNetwork, Evidence]) -> None:
    """Loop over all states of all variables, for networks small enough for that."""
    network, evidence = case
    if np.prod([float(one.cardinality) for one in network.variables.values()]) > 5_000:
        return
    oracle = network.oracle(evidence)
    names = list(network.variables)
    driven = {one.name for block in network.blocks for one in block.drives}
    marginals = {name: np.zeros((evidence.rows, network.variables[name].cardinality)) for name in names}
    total = np.zeros(evidence.rows)
    for codes in product(*(range(network.variables[name].cardinality) for name in names)):
        x = dict(zip(names, codes, strict=True))
        weight = np.ones(evidence.rows)
        for block in network.blocks:
            if isinstance(block, Source):
                weight *= network.priors[block.variable.name][x[block.variable.name]]
            elif isinstance(block, SISO):
                weight *= network.tables[block.output.name][x[block.input.name], x[block.output.name]]
            else:
                joined = np.ravel_multi_index(
                    [x[one.name] for one in block.inputs], [one.cardinality for one in block.inputs]
                )
                weight *= all(x[one.name] == joined for one in block.outputs)
        for name in names:
            weight *= 1 if name in driven else 1 / network.variables[name].cardinality
            weight *= evidence.weights[name][:, x[name]] if name in evidence.weights else 1
        total += weight
        for name in names:
            marginals[name][:, x[name]] += weight
    assert np.all(total > 0)
    np.testing.assert_allclose(oracle.log_likelihood, np.log(total), rtol=1e-9, atol=1e-12)
    for name in names:
        np.testing.assert_allclose(oracle.marginal(name) * total[:, None], marginals[name], rtol=1e-9)


@slow
@given(networks_with_evidence())
def test_marginal_is_forward_times_backward(case: tuple[SmallNetwork, Evidence]) -> None:
    network, evidence = case
    oracle = network.oracle(evidence)
    for name in network.variables:
        both = oracle.forward(name) * oracle.backward(name)
        marginal = both / both.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(oracle.marginal(name), marginal, rtol=1e-9, atol=1e-12)


@slow
@given(networks_with_evidence(), st.data(), HOLES, st.sampled_from([0.0, 0.5]))
def test_one_cycle_is_one_step_of_em(
    case: tuple[SmallNetwork, Evidence], data: st.DataObject, holes: Holes, smoothing: float
) -> None:
    network, evidence = case
    oracle, row_weights = network.oracle(evidence), data.draw(weights(evidence.rows))
    tables, priors = oracle.em_step(row_weights, smoothing, holes)
    again, same_priors = oracle.epoch(1, row_weights, smoothing, holes)
    assert_same(again, tables)
    assert_same(same_priors, priors)


@slow
@given(st.one_of(networks_with_evidence(), networks_with_evidence(loopy_networks())), st.data())
def test_em_never_lowers_the_likelihood(case: tuple[SmallNetwork, Evidence], data: st.DataObject) -> None:
    network, evidence = case
    oracle, row_weights = network.oracle(evidence), data.draw(weights(evidence.rows))
    counted, before = row_weights > 0, -np.inf
    for _ in range(4):
        after = float(row_weights[counted] @ oracle.log_likelihood[counted])
        assert after >= before - 1e-9 * (1 + abs(after))
        tables, priors = oracle.em_step(row_weights)
        for values in (*tables.values(), *priors.values()):
            np.testing.assert_allclose(values.sum(axis=-1), 1)
        oracle, before = replace(oracle, tables=tables, priors=priors), after


@slow
@given(networks())
def test_drawn_networks_are_trees_within_bounds(network: SmallNetwork) -> None:
    assert Wiring(tuple(network.blocks)).is_tree
    assert network.size <= 20_000
    oracle = Oracle(network.blocks, network.tables, network.priors, {}, rows=1)
    assert oracle.log_likelihood == pytest.approx(0)


@slow
@given(networks(zeros=False))
def test_networks_without_zeros(network: SmallNetwork) -> None:
    assert all((values > 0).all() for values in (*network.tables.values(), *network.priors.values()))


@slow
@given(loopy_networks())
def test_loopy_networks_have_a_loop_and_no_messages(network: SmallNetwork) -> None:
    assert not Wiring(tuple(network.blocks)).is_tree
    oracle = Oracle(network.blocks, network.tables, network.priors, {}, rows=1)
    assert oracle.log_likelihood == pytest.approx(0)
    for block in network.blocks:
        if isinstance(block, Diverter) and len(block.inputs) == 2:
            with pytest.raises(ValueError, match="loop"):
                oracle.forward(block.inputs[0].name)
