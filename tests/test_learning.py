"""Learning against enumeration: counts, one step and whole epochs of the paper's rule, and invariants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import Holes
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import Evidence, SmallNetwork, networks, networks_with_evidence, weights

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable
from fgrn.engines import installed_engines
from fgrn.flow.equal_rows import merged
from fgrn.flow.evidence import encode
from fgrn.graph.blocks import Factor

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]

engines = pytest.mark.parametrize("engine", ENGINES)
HOLES: st.SearchStrategy[Holes] = st.sampled_from(("expect", "ignore"))
SMOOTHING = st.sampled_from([0.0, 0.0, 0.5, 2.0])


def learnable(network: SmallNetwork) -> bool:
    return any(block.learn for block in network.blocks if not isinstance(block, Diverter))


def assert_parameters(net: Network, tables: dict, priors: dict) -> None:
    for name, table in tables.items():
        np.testing.assert_allclose(net.table(name), table, rtol=1e-8, atol=1e-10, err_msg=name)
    for name, prior in priors.items():
        np.testing.assert_allclose(net.prior(name), prior, rtol=1e-8, atol=1e-10, err_msg=name)


@engines
@given(case=networks_with_evidence(), data=st.data(), holes=HOLES, smoothing=SMOOTHING)
def test_three_epochs_equal_three_steps_of_enumeration(
    case: tuple[SmallNetwork, Evidence], data: st.DataObject, holes: Holes, smoothing: float, engine: str
) -> None:
    network, evidence = case
    assume(learnable(network))
    row_weights = data.draw(weights(evidence.rows))
    net = Network(network.blocks)
    oracle = network.oracle(evidence)
    likelihoods = []
    for _ in range(3):
        counted = row_weights > 0  # a row of no weight may become impossible
        likelihoods.append(row_weights[counted] @ oracle.log_likelihood[counted])
        tables, priors = oracle.em_step(row_weights, smoothing, holes)
        oracle = replace(oracle, tables=tables, priors=priors)
    history = net.learn(
        evidence.columns, epochs=3, weights=row_weights, holes=holes, smoothing=smoothing, engine=engine
    )
    assert_parameters(net, oracle.tables, oracle.priors)
    np.testing.assert_allclose(history.log_likelihood, likelihoods, rtol=1e-8, atol=1e-9)


@engines
@given(
    case=networks_with_evidence(),
    data=st.data(),
    holes=HOLES,
    smoothing=SMOOTHING,
    cycles=st.integers(2, 5),
    hold=st.booleans(),
)
def test_batch_epochs_hold_the_messages_as_the_paper_does(
    case: tuple[SmallNetwork, Evidence],
    data: st.DataObject,
    holes: Holes,
    smoothing: float,
    cycles: int,
    hold: bool,
    engine: str,
) -> None:
    network, evidence = case
    assume(learnable(network))
    row_weights = data.draw(weights(evidence.rows))
    net = Network(network.blocks)
    oracle = network.oracle(evidence)
    for _ in range(2):
        tables, priors = oracle.epoch(cycles, row_weights, smoothing, holes)
        oracle = replace(oracle, tables=tables, priors=priors)
        assume(np.isfinite(oracle.log_likelihood).all())
    net.learn(
        evidence.columns, epochs=2, cycles=cycles, weights=row_weights, holes=holes, smoothing=smoothing,
        hold=hold, cycle_tolerance=0, engine=engine,
    )  # fmt: skip
    assert_parameters(net, oracle.tables, oracle.priors)


@engines
@given(case=networks_with_evidence(networks(zeros=False)), holes=HOLES, smoothing=SMOOTHING)
def test_the_penalised_likelihood_never_falls(
    case: tuple[SmallNetwork, Evidence], holes: Holes, smoothing: float, engine: str
) -> None:
    network, evidence = case
    assume(learnable(network))
    history = Network(network.blocks).learn(
        evidence.columns, epochs=15, holes=holes, smoothing=smoothing, engine=engine
    )
    slack = 1e-9 * np.maximum(1, np.abs(history.objective[:-1]))
    assert (np.diff(history.objective) >= -slack).all()


@engines
@given(case=networks_with_evidence(), data=st.data())
def test_a_weighted_row_is_a_repeated_row(
    case: tuple[SmallNetwork, Evidence], data: st.DataObject, engine: str
) -> None:
    network, evidence = case
    assume(learnable(network))
    times = data.draw(st.lists(st.integers(0, 3), min_size=evidence.rows, max_size=evidence.rows).filter(any))
    repeated = {name: [v for v, n in zip(column, times, strict=True) for _ in range(n)]
                for name, column in evidence.columns.items()}  # fmt: skip
    one, other = Network(network.blocks), Network(network.blocks)
    one.learn(evidence.columns, epochs=2, weights=times, engine=engine)
    other.learn(repeated, epochs=2, engine=engine)
    np.testing.assert_allclose(one._parameters.values, other._parameters.values, rtol=1e-9, atol=1e-12)


def survey(rows: int = 400, holes: float = 0.0, seed: int = 0) -> dict[str, list]:
    """Answers of two kinds of people to five questions."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    answers = {}
    for question in range(5):
        sharp = rng.dirichlet([0.5] * 3, size=2)
        codes = [rng.choice(3, p=sharp[k]) for k in kind]
        answers[f"Q{question}"] = [None if rng.random() < holes else int(code) for code in codes]
    return answers


def latent(hidden: int = 2, **source: object) -> Network:
    root = Variable("S", hidden)
    legs = [Variable(f"S{i}", hidden) for i in range(5)]
    leaves = [SISO(leg, Variable(f"Q{i}", 3)) for i, leg in enumerate(legs)]
    return Network([Source(root, **source), Diverter([root], legs), *leaves])


@engines
def test_both_rules_for_missing_values_converge_to_the_same_tables(engine: str) -> None:
    data = survey(holes=0.4)
    expect, ignore = latent(), latent()
    slow = expect.learn(data, epochs=3000, tolerance=1e-13, holes="expect", engine=engine)
    fast = ignore.learn(data, epochs=3000, tolerance=1e-13, holes="ignore", engine=engine)
    assert fast.epochs < slow.epochs
    np.testing.assert_allclose(expect._parameters.values, ignore._parameters.values, atol=1e-4)


@engines
def test_learning_is_the_same_to_the_bit_on_any_number_of_threads(engine: str) -> None:
    data = {name: column * 120 for name, column in survey(holes=0.1).items()}
    nets = [latent() for _ in range(3)]
    for threads, net in enumerate(nets, start=1):
        net.learn(data, epochs=2, threads=threads, engine=engine, seed=5)
    assert nets[0] == nets[1] == nets[2]


def test_the_seed_decides_the_start_and_a_given_table_is_the_start() -> None:
    data = survey()
    one, same, other = latent(), latent(), latent()
    one.learn(data, epochs=1, seed=1)
    same.learn(data, epochs=1, seed=1)
    other.learn(data, epochs=1, seed=2)
    assert one == same
    assert one != other
    root, leg, leaf = Variable("S", 2), Variable("S0", 2), Variable("Q0", 3)
    given_table = [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]
    blocks = [Source(root, [0.4, 0.6]), Diverter([root], [leg]), SISO(leg, leaf, given_table)]
    nets = [Network(blocks) for _ in range(2)]
    for seed, net in enumerate(nets):
        net.learn({"Q0": data["Q0"]}, epochs=3, seed=seed)
    assert nets[0] == nets[1]


def test_tables_are_uniform_before_learning_and_learning_goes_on() -> None:
    net = latent()
    np.testing.assert_array_equal(net.table("Q0"), np.full((2, 3), 1 / 3))
    data = survey()
    once, twice = latent(), latent()
    once.learn(data, epochs=6)
    twice.learn(data, epochs=2)
    twice.learn(data, epochs=4)
    np.testing.assert_allclose(once._parameters.values, twice._parameters.values, rtol=1e-12)
    twice.reset()
    assert twice == latent()


def test_the_best_of_several_starts_is_kept() -> None:
    data = survey(holes=0.2)
    net = latent(3)
    history = net.learn(data, epochs=15, starts=4)
    assert len(history.starts) == 4
    assert history.start == np.argmax(history.starts)
    assert history.starts[history.start] == pytest.approx(net.propagate(data).log_likelihood.sum())
    single = latent(3)
    single.learn(data, epochs=15)
    assert single.propagate(data).log_likelihood.sum() == pytest.approx(history.starts[0])


def test_tolerance_stops_early_and_says_so() -> None:
    history = latent().learn(survey(), epochs=500, tolerance=1e-5)
    assert history.converged
    assert history.epochs < 500
    assert "converged" in repr(history)
    np.testing.assert_allclose(history.per_row * 400, history.log_likelihood)


def test_frozen_tied_and_constrained_tables() -> None:
    root, a, b, c = (Variable(name, 3) for name in ("S", "Sa", "Sb", "Sc"))
    fixed = np.eye(3)[::-1] * 0.9 + 0.1 / 3
    fixed /= fixed.sum(axis=1, keepdims=True)
    net = Network(
        [Source(root, learn=False), Diverter([root], [a, b, c]),
         SISO(a, Variable("A", 3), fixed, learn=False), SISO(b, Variable("B", 3), tie="t"),
         SISO(c, Variable("C", 3), support=np.eye(3))]
    )  # fmt: skip
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, 3, 200) for name in "ABC"}
    net.learn(data, epochs=5, smoothing=1.0)
    np.testing.assert_array_equal(net.table("A"), fixed)
    np.testing.assert_array_equal(net.table("C"), np.eye(3))
    np.testing.assert_array_equal(net.prior("S"), np.full(3, 1 / 3))
    assert not np.allclose(net.table("B"), 1 / 3)


def asbestos() -> tuple[Network, dict[str, list[int]]]:
    a, s, c, both = Variable("A", 2), Variable("S", 2), Variable("C", 2), Variable("AS", 4)
    rows = ["111", "100", "011", "010", "111", "000", "101"]
    data = {name: [int(row[i]) for row in rows] for i, name in enumerate("ASC")}
    return Network([Source(a), Source(s), Diverter([a, s], [both]), SISO(both, c)]), data


@engines
def test_asbestos_smoking_cancer(engine: str) -> None:
    net, data = asbestos()
    net.learn(data, epochs=1, engine=engine)
    np.testing.assert_allclose(net.prior("A"), [3 / 7, 4 / 7])
    np.testing.assert_allclose(net.prior("S"), [3 / 7, 4 / 7])
    np.testing.assert_allclose(net.table("C")[:, 1], [0, 1 / 2, 1 / 2, 1], atol=1e-15)
    # a smoker, nothing else known: p(c=1) = 3/7 * 1/2 + 4/7 * 1
    seen = net.propagate({"S": [1]}, engine=engine)
    np.testing.assert_allclose(seen.forward("C"), [[3 / 14, 11 / 14]])
    np.testing.assert_allclose(seen.backward("A"), [[1 / 2, 1 / 2]])
    # with cancer as well, p(c=1 | a, s=1) = 1/2 and 1 speak for asbestos two to one
    seen = net.propagate({"S": [1], "C": [1]}, engine=engine)
    np.testing.assert_allclose(seen.backward("A"), [[1 / 3, 2 / 3]])
    np.testing.assert_allclose(seen.marginal("A"), [[3 / 11, 8 / 11]])
    np.testing.assert_allclose(np.exp(seen.log_likelihood), [4 / 7 * 11 / 14])


@engines
def test_asbestos_hidden_in_training(engine: str) -> None:
    net, data = asbestos()
    del data["A"]
    history = net.learn(data, epochs=60, seed=3, engine=engine)
    assert (np.diff(history.log_likelihood) >= -1e-12).all()
    np.testing.assert_allclose(net.prior("S"), [3 / 7, 4 / 7])
    # whatever the hidden cause is called, p(c | s) is what was counted: 1 of 3 and 3 of 4
    for smoking, expected in ((0, 1 / 3), (1, 3 / 4)):
        forward = net.propagate({"S": [smoking]}, engine=engine).forward("C")
        assert forward[0, 1] == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_learnt_is_said() -> None:
    net, data = asbestos()
    for settings, message in [
        ({"epochs": 0}, "'epochs'"),
        ({"cycles": 1.5}, "'cycles'"),
        ({"smoothing": -1}, "'smoothing'"),
        ({"smoothing": {"nobody": 1.0}}, "nobody"),
        ({"holes": "drop"}, "'holes'"),
        ({"seed": -3}, "'seed'"),
        ({"tolerance": float("nan")}, "'tolerance'"),
        ({"weights": [1, 2]}, "one number per row"),
        ({"weights": [-1] * 7}, "not negative"),
        ({"weights": [0] * 7}, "All weights are zero"),
        ({"only": ["nobody"]}, "nobody"),
        ({"engine": "abacus"}, "'engine'"),
    ]:
        with pytest.raises(fgrn.FgrnError, match=message):
            net.learn(data, **settings)
    with pytest.raises(fgrn.LearningError, match="no rows"):
        net.learn({"A": []})
    frozen = Network([Source(Variable("A", 2), learn=False)])
    with pytest.raises(fgrn.LearningError, match="frozen"):
        frozen.learn({"A": [1]})


def test_impossible_rows_in_training_are_named_and_rows_of_no_weight_are_not_asked() -> None:
    v, y = Variable("V", 2), Variable("Y", 2)
    net = Network([Source(v), SISO(v, y, [[1, 0], [1, 0]])])
    data = {"Y": [0, 1, 0, 1]}
    with pytest.raises(
        fgrn.EvidenceError, match=r"Rows 1, 3: .*In the first of these rows, 'Y' = 1 cannot be, since it is always 0"
    ):
        net.learn(data)
    net.learn(data, weights=[1, 0, 1, 0])


@given(seed=st.integers(0, 2**32 - 1), cycles=st.sampled_from([1, 3]), holes=st.sampled_from(["expect", "ignore"]))
def test_equal_rows_merged_teach_the_same(seed: int, cycles: int, holes: str) -> None:
    rng = np.random.default_rng(seed)
    kinds = [[None if rng.random() < 0.2 else int(code) for code in rng.integers(0, 3, 4)] for _ in range(6)]
    rows = [kinds[k] for k in rng.integers(0, 6, 50)]
    data = {f"Y{i}": [row[i] for row in rows] for i in range(4)}
    shares = rng.choice([0.0, 1.0, 0.3], 50) + (np.arange(50) == 0)
    learners = [fgrn.lvm(dict.fromkeys(data, 3), hidden=3) for _ in range(2)]
    histories = [
        net.learn(data, epochs=3, cycles=cycles, holes=holes, weights=shares, merge=merge, smoothing=0.1)
        for net, merge in zip(learners, (True, False), strict=True)
    ]
    np.testing.assert_allclose(histories[0].log_likelihood, histories[1].log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(learners[0]._parameters.values, learners[1]._parameters.values, rtol=1e-9, atol=1e-12)
    assert histories[0].weight == pytest.approx(histories[1].weight)


def test_equal_rows_are_merged_where_it_pays() -> None:
    rng = np.random.default_rng(0)
    net = fgrn.lvm({f"Y{i}": 4 for i in range(6)}, hidden=2)
    plan = net._plan(())

    def share(states: int, rows: int) -> float:
        encoded = encode(plan, {f"Y{i}": rng.integers(0, states, rows) for i in range(6)})
        found = merged(encoded)
        return 1.0 if found is None else found.rows / rows

    assert share(4, 2000) == 1.0  # 4096 kinds of row
    assert share(4, 100_000) < 0.05
    assert share(2, 2000) < 0.05
    soft = encode(plan, {"Y0": [[0.1, 0.2, 0.3, 0.4]] * 1000})
    assert merged(soft, always=True) is None


def test_an_impossible_row_is_named_as_in_the_table_if_rows_are_merged() -> None:
    net = fgrn.naive_bayes({"Y": 2, "L": 2}, class_variable="L")
    net.learn({"Y": [0, 1], "L": [0, 1]}, epochs=1)
    data = {"Y": [0, 0, 1, 0, 0], "L": [0, 0, 0, 0, 0]}
    with pytest.raises(fgrn.ImpossibleEvidence, match="Row 2: ") as raised:
        net.learn(data, merge=True)
    with pytest.raises(fgrn.ImpossibleEvidence) as expected:
        net.learn(data, merge=False)
    assert str(raised.value) == str(expected.value)
    assert raised.value.rows == (2,)


# What no row of the data tells anything of


def never_together() -> tuple[fgrn.BayesianNetwork, dict[str, list[str]]]:
    """A network whose node C has parents A and B, and rows in which A=1 never comes with B=1."""
    states = {"A": ["0", "1"], "B": ["0", "1"], "C": ["no", "yes"]}
    rows = {"A": ["0", "0", "1", "0"], "B": ["0", "1", "0", "1"], "C": ["no", "yes", "yes", "no"]}
    return fgrn.BayesianNetwork(states, [("A", "C"), ("B", "C")]), rows


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("settings", [{}, {"starts": 3}, {"accelerate": True}, {"cycles": 3}])
def test_what_was_not_estimated_is_uniform_for_every_seed_and_told(hole: bool, settings: dict) -> None:
    tables = []
    for seed in (0, 1, 2):
        net, rows = never_together()
        if hole:  # messages instead of one pass of counting
            rows["C"].append(None)
            rows |= {name: [*rows[name], "0"] for name in "AB"}
        history = net.learn(rows, epochs=40, seed=seed, **settings)
        assert history.not_estimated == {"C": (3,)}
        assert "1 row of a table was not estimated" in repr(history) and "C (1)" in repr(history)
        assert net.trained[-1]["not_estimated"] == 1
        tables.append(net.table("C"))
        np.testing.assert_array_equal(net.table("C")[3], [0.5, 0.5])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-6)
    np.testing.assert_allclose(tables[0], tables[2], atol=1e-6)


def test_what_is_not_estimated_stays_as_it_was_learnt_before() -> None:
    net, rows = never_together()
    first = {"A": ["1"] * 4 + ["0"], "B": ["1"] * 4 + ["0"], "C": ["no", "no", "no", "yes", "no"]}
    net.learn(first, epochs=2, only=["C"], smoothing={"A": 1.0})
    history = net.learn(rows, epochs=2, seed=5)
    assert history.not_estimated == {"C": (3,)}
    np.testing.assert_array_equal(net.table("C")[3], [0.75, 0.25])


def test_smoothing_estimates_everything() -> None:
    net, rows = never_together()
    history = net.learn(rows, epochs=2, smoothing=0.5)
    assert history.not_estimated == {} and "not estimated" not in repr(history)
    np.testing.assert_array_equal(net.table("C")[3], [0.5, 0.5])


def test_a_hidden_state_that_no_row_needs_is_told() -> None:
    S, wires = Variable("S", 2), [Variable("S1", 2), Variable("S2", 2)]
    blocks = [Source(S, [1.0, 0.0], learn=False), Diverter([S], wires)]
    net = Network([*blocks, SISO(wires[0], Variable("Y", 2)), SISO(wires[1], Variable("Z", 3))])
    history = net.learn({"Y": [0, 1, 1], "Z": [0, 2, 1]}, epochs=3, seed=9)
    assert history.not_estimated == {"Y": (1,), "Z": (1,)}
    np.testing.assert_allclose(net.table("Z")[1], 1 / 3)


@pytest.mark.parametrize("settings", [{}, {"starts": 3}, {"accelerate": True, "epochs": 200}, {"cycles": 3}])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_only_counted_with_missing_values_is_not_estimated(engine: str, settings: dict) -> None:
    rows = {"A": [0] * 50 + [1] * 50, "B": [0, 1, 1, 1, 1] * 10 + [None] * 50}
    for seed in (0, 1):
        net = fgrn.BayesianNetwork({"A": 2, "B": 2}, [("A", "B")])
        history = net.learn(rows, **{"epochs": 20, "seed": seed, "engine": engine, **settings})
        assert history.not_estimated == {"B": (1,)}
        np.testing.assert_array_equal(net.table("B")[1], [0.5, 0.5])
        np.testing.assert_allclose(net.table("B")[0], [0.2, 0.8])


def test_a_column_of_missing_values_has_uniform_tables() -> None:
    rng = np.random.default_rng(0)
    rows = {"Y": rng.integers(0, 2, 60), "Z": rng.integers(0, 2, 60), "N": [None] * 60}
    net = fgrn.lvm({"Y": 2, "Z": 2, "N": 3}, hidden=2)
    history = net.learn(rows, epochs=30, seed=4, accelerate=True)
    assert history.not_estimated == {"N": (0, 1)}
    np.testing.assert_array_equal(net.table("N"), np.full((2, 3), 1 / 3))


def test_what_has_one_cell_only_is_nothing_to_estimate() -> None:
    net = fgrn.naive_bayes({"a": 2, "L": 3}, class_variable="L")
    history = net.learn({"a": [0, 1, 1], "L": [0, 1, 1]}, epochs=2)
    assert history.not_estimated == {"a": (2,)}


def test_what_was_not_estimated_is_known_after_the_run_has_grown(tmp_path: Path) -> None:
    rows = {"A": [0] * 5 + [1] * 5, "B": [0, 1, 1, 1, 1] + [None] * 5}
    place = tmp_path / "run.ckpt"

    def learnt(**options: Any) -> tuple[fgrn.BayesianNetwork, Any]:
        net = fgrn.BayesianNetwork({"A": 2, "B": 2}, [("A", "B")])
        return net, net.learn(rows, seed=3, engine="reference", merge=False, **options)

    whole, expected = learnt(epochs=9)
    learnt(epochs=4, checkpoint=place)
    longer, history = learnt(epochs=9, checkpoint=place, resume=True)
    assert history.not_estimated == expected.not_estimated == {"B": (1,)}
    np.testing.assert_array_equal(longer.table("B"), whole.table("B"))


def test_a_factor_that_is_no_distribution_is_left_as_it_is() -> None:
    hidden, left, right = (fgrn.Variable(name, 2) for name in ("S", "A", "B"))
    factor = Factor(hidden, "f", (1, 2), [[1.0, 0.5]], learn=False, sums_to_one=False)
    leaves = [fgrn.SISO(left, fgrn.Variable("Y", 2)), fgrn.SISO(right, fgrn.Variable("Z", 2))]
    net = fgrn.Network([factor, fgrn.Diverter([hidden], [left, right]), *leaves])
    net.learn({"Y": [0, 1, 1]}, epochs=3, engine="reference")
    layout = net._spec.layout
    assert layout.table(net._parameters.values, layout.table_number("f")).tolist() == [[1.0, 0.5]]
