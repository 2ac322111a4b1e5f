"""Questions beyond posteriors against enumeration of all joint states: MAP, interventions, information, sensitivity."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from random_models import bayesian_network, joint_of, markov_network, random_row, weighted

from fgrn import (
    BayesianNetwork,
    EvidenceError,
    FgrnError,
    FgrnWarning,
    ImpossibleEvidence,
    UnknownNameError,
    WiringError,
)

SEEDS = range(6)


def axes_but(model: Any, names: list[str]) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(model.names) if name not in names)


def test_a_table_without_rows_has_empty_answers() -> None:
    tables = {"A": [[0.3, 0.7]], "B": [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]}
    net = BayesianNetwork({"A": 2, "B": 3}, {"B": ["A"]}, tables)
    nothing: dict[str, Any] = {"B": []}
    assert net.posterior(nothing, "A").shape == (0, 2)
    assert net.joint(nothing, ["A", "B"]).shape == (0, 2, 3)
    found = net.map(["A", "B"], nothing)
    assert [len(column) for column in found.labels.values()] == [0, 0]
    assert np.shape(found.log_probability) == (0,)
    sampled = net.sampled_posterior(nothing, "A")
    assert [part.shape for part in sampled] == [(0, 2), (0, 2), (0,)]


# The most probable states


@pytest.mark.parametrize("seed", SEEDS)
def test_map_is_the_largest_of_the_marginal(seed: int) -> None:
    model: Any = markov_network(seed) if seed % 2 else bayesian_network(seed)
    draw = np.random.default_rng(seed)
    row = random_row(model, draw)
    names = [name for name in model.names if draw.random() < 0.6] or [model.names[0]]
    total = weighted(model, row).sum(axis=axes_but(model, names))
    found = model.map(names, {name: [value] for name, value in row.items()} or None)
    states = tuple(model.variable(name).code(np.ravel(found.labels[name])[0]) for name in names)
    assert total[states] == pytest.approx(total.max())
    assert float(np.ravel(found.log_probability)[0]) == pytest.approx(np.log(total.max() / total.sum()))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_k_most_probable_are_the_largest_of_all(seed: int) -> None:
    model = bayesian_network(seed, most=4)
    row = random_row(model, np.random.default_rng(seed), soft=False)
    total = np.sort(weighted(model, row).ravel())[::-1]
    labels = {name: model.variable(name).labels[int(value)] for name, value in row.items()}
    found = model.most_probable_k(6, labels or None)
    assert len(found) == min(6, int((total > 0).sum()))
    np.testing.assert_allclose([np.exp(one.log_probability) for one in found], total[: len(found)], rtol=1e-9)
    assert len({tuple(one.labels.items()) for one in found}) == len(found)


def test_what_cannot_be_asked_for_is_said() -> None:
    model = bayesian_network(1)
    with pytest.raises(UnknownNameError):
        model.map(["nobody"])
    with pytest.raises(EvidenceError, match="one row"):
        model.most_probable_k(2, {model.names[0]: [0, 0]})
    wide = BayesianNetwork({f"x{number}": 2 for number in range(30)})
    with pytest.raises(EvidenceError, match="joint states"):
        wide.map([f"x{number}" for number in range(30)])


# Interventions


def test_a_variable_is_set_once() -> None:
    net = structure("x>y")
    with pytest.raises(FgrnError, match="'x' is set twice"):
        net.do({"x": net.variable("x").labels[0]}, x=net.variable("x").labels[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_an_intervention_leaves_out_the_table_of_what_is_set(seed: int) -> None:
    model = bayesian_network(seed, zeros=False)
    draw = np.random.default_rng(seed)
    name, effect = (str(one) for one in draw.permutation([*model.names, *model.names])[:2])
    state = int(draw.integers(model.variable(name).cardinality))
    changed = model.do({name: model.variable(name).labels[state]})
    expected = np.ones(1)
    for factor in model.to_document().factors:
        if factor.scope[-1] == name:
            factor = type(factor)((name,), np.eye(model.variable(name).cardinality)[state])
        shape = [model.variable(one).cardinality if one in factor.scope else 1 for one in model.names]
        order = np.argsort([model.names.index(one) for one in factor.scope])
        expected = expected * factor.values.transpose(order).reshape(shape)
    np.testing.assert_allclose(joint_of(changed), expected, atol=1e-12)
    if effect != name:
        np.testing.assert_allclose(
            model.average_effect(name, effect)[state], expected.sum(axis=axes_but(model, [effect])), atol=1e-12
        )


def structure(arcs: str) -> BayesianNetwork:
    pairs = [tuple(arc.split(">")) for arc in arcs.split()]
    names = sorted({name for pair in pairs for name in pair})
    draw = np.random.default_rng(len(pairs))
    parents = {name: [one for one, other in pairs if other == name] for name in names}
    tables = {name: draw.dirichlet(np.ones(2), 2 ** len(some)) for name, some in parents.items()}
    return BayesianNetwork(dict.fromkeys(names, 2), parents, tables)


@pytest.mark.parametrize("arcs", ["z>x z>y x>y", "a>x a>b b>y x>m m>y", "u>x u>y x>y x>c y>c", "x>y a>x b>a b>y c>y"])
def test_adjustment_gives_the_effect_of_the_intervention(arcs: str) -> None:
    net = structure(arcs)
    others = [name for name in net.names if name not in "xy"]
    sets = net.adjustment_sets("x", "y")
    truth = net.average_effect("x", "y")
    assert sets
    for some in sets:
        order = [*sorted(some), "x", "y"]
        joint = net.joint(None, order)[0]
        share = joint.sum(axis=(-1, -2))[..., None]
        found = joint / joint.sum(axis=-1, keepdims=True) * share[..., None]
        np.testing.assert_allclose(found.sum(axis=tuple(range(len(some)))), truth, atol=1e-10)
    for size in range(min(map(len, sets))):  # a smaller set does not work in general
        for few in combinations(others, size):
            assert frozenset(few) not in sets
    assert net.average_treatment_effect("x", "y") == pytest.approx(truth[1, 1] - truth[0, 1])


@pytest.mark.parametrize("seed", range(8))
def test_adjustment_sets_are_all_smallest_sets(seed: int) -> None:
    draw = np.random.default_rng(seed)
    names = "abcdefxy"
    order = draw.permutation(list(names)).tolist()
    arcs = [f"{one}>{other}" for one, other in combinations(order, 2) if draw.random() < 0.35]
    net = structure(" ".join([*arcs, "a>z", "b>z", *(f"{name}>w" for name in "xy")]))
    cause, effect = ("x", "y") if order.index("x") < order.index("y") else ("y", "x")
    cut = [(one, other) for one, other in net.arcs if one != cause]
    without = BayesianNetwork(dict.fromkeys(net.names, 2), cut)
    observed = [name for name in net.names if name not in (cause, effect) and draw.random() < 0.8]
    fine = [name for name in observed if name not in net.descendants(cause)]
    working = [
        frozenset(some)
        for size in range(len(fine) + 1)
        for some in combinations(fine, size)
        if without.d_separated(cause, effect, some)
    ]
    smallest = [some for some in working if not any(other < some for other in working)]
    assert set(net.adjustment_sets(cause, effect, observed=observed, most=1000)) == set(smallest)


def test_irrelevant_variables_do_not_hide_adjustment_sets() -> None:
    causes = " ".join(f"{name}>x {name}>y" for name in "abcd")
    net = structure(f"{causes} x>y " + " ".join(f"a>i{number}" for number in range(40)))
    assert net.adjustment_sets("x", "y") == [frozenset("abcd")]
    assert net.adjustment_sets("x", "y", observed=[name for name in net.names if name not in "axy"]) == []


def test_a_list_of_adjustment_sets_that_is_cut_is_told() -> None:
    arcs = [f"{kind}{number}>{kind}{number + 1}" for kind in "pq" for number in range(14)]
    arcs += [f"u{number}>{kind}{number}" for kind in "pq" for number in range(15)]
    net = structure(" ".join([*arcs, "p14>x", "q14>y", "x>y"]))
    causes = [f"u{number}" for number in range(15)]
    with pytest.warns(FgrnWarning, match="Only the 10,000 smallest"):
        assert net.adjustment_sets("x", "y", observed=causes) == [frozenset(causes)]


def test_the_frontdoor() -> None:
    net = structure("u>x u>y x>m m>y")
    assert net.adjustment_sets("x", "y", observed=["m"]) == []
    assert net.frontdoor_sets("x", "y", observed=["m"]) == [frozenset("m")]
    x, m = net.joint(None, ["x", "m"])[0], net.joint(None, ["x", "m", "y"])[0]
    given = m / m.sum(axis=-1, keepdims=True)
    inner = (given * x.sum(axis=1)[:, None, None]).sum(axis=0)
    np.testing.assert_allclose((x / x.sum(axis=1, keepdims=True)) @ inner, net.average_effect("x", "y"), atol=1e-12)
    assert structure("x>y").frontdoor_sets("x", "y") == []


def test_networks_derived_from_another_keep_its_memory_limit() -> None:
    net = structure("a>b c>b")
    net.memory_limit = 16
    assert net.do(a=1).memory_limit == 16
    with pytest.raises(WiringError):  # the clique of all three is larger
        net.sensitivity(("b", 0), ("a", 0))


def test_impossible_interventions_are_refused() -> None:
    net = structure("x>y")
    with pytest.raises(UnknownNameError):
        net.do(z=0)
    with pytest.raises(UnknownNameError):
        net.do(x=7)
    with pytest.raises(FgrnError, match="at least one"):
        net.do()
    with pytest.raises(FgrnError, match="both 'x'"):
        net.adjustment_sets("x", "x")


# Information


@pytest.mark.parametrize("seed", SEEDS)
def test_mutual_information_is_that_of_the_joint_distribution(seed: int) -> None:
    net = bayesian_network(seed, zeros=False)
    if len(net.names) < 2:
        return
    one, other = net.names[:2]
    table = joint_of(net).sum(axis=axes_but(net, [one, other]))

    def entropy(values: np.ndarray) -> float:
        return -float((values * np.log(values)).sum())

    expected = entropy(table.sum(axis=0)) + entropy(table.sum(axis=1)) - entropy(table)
    assert net.mutual_information(one, other) == pytest.approx(expected, abs=1e-12)
    ranked = net.value_of_asking(one, costs={other: 0.5})
    assert [item.value for item in ranked] == sorted((item.value for item in ranked), reverse=True)
    assert next(item for item in ranked if item.name == other).value == pytest.approx(expected - 0.5, abs=1e-9)
    assert all(item.name != other for item in net.value_of_asking(one, {other: net.variable(other).labels[0]}))


def test_only_states_that_are_known_are_not_asked_for() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.3, 0.7]], "b": [[0.9, 0.1], [0.1, 0.9]]})
    unsure = {"b": [[0.6, 0.4]]}
    (one,) = net.value_of_asking("a", unsure)
    assert one.name == "b"
    assert one.information == pytest.approx(net.mutual_information("a", "b", unsure))
    assert net.value_of_asking("a", {"b": 1}) == []
    with pytest.raises(EvidenceError, match="'candidates' has 'b', which is known already"):
        net.value_of_asking("a", {"b": 1}, candidates=["b"])
    with pytest.raises(EvidenceError, match="'candidates' has 'a', which is to be known itself"):
        net.value_of_asking("a", candidates=["a", "b"])


@pytest.mark.parametrize("seed", SEEDS)
def test_sensitivity_is_the_posterior_of_the_changed_network(seed: int) -> None:
    net = bayesian_network(seed, zeros=False)
    draw = np.random.default_rng(seed)
    sized = [name for name in net.names if net.variable(name).cardinality > 1]
    if not sized:
        return
    child, target = str(draw.choice(sized)), str(draw.choice(net.names))
    above = {name: net.variable(name).labels[0] for name in net.parents(child)}
    row = {net.names[-1]: net.variable(net.names[-1]).labels[0]}
    label = net.variable(target).labels[-1]
    found = net.sensitivity((target, label), (child, net.variable(child).labels[0], above), row)
    assert found.probability == pytest.approx(float(net.posterior(row, target)[0, -1]), abs=1e-9)
    for x in (0.1, 0.9):
        table = net.table(child).copy()
        table[0, 1:] *= (1 - x) / table[0, 1:].sum()
        table[0, 0] = x
        tables = {name: table if name == child else net.table(name) for name in net.names}
        other = BayesianNetwork(net.variables, net.parents_of_all, tables)
        assert found(x) == pytest.approx(float(other.posterior(row, target)[0, -1]), abs=1e-9)
    step = 1e-6
    slope = (found(found.parameter + step) - found(found.parameter - step)) / (2 * step)
    assert found.derivative == pytest.approx(slope, abs=1e-5)
    assert found.range[0] - 1e-12 <= found.probability <= found.range[1] + 1e-12
    for wrong in (1.5, -0.1, np.nan, np.array([0.5, 2.0])):
        with pytest.raises(FgrnError, match="from 0 to 1"):
            found(wrong)
    with pytest.raises(FgrnError, match="a state for each parent"):
        net.sensitivity((target, label), (child, net.variable(child).labels[0], {"nobody": 1}))


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_sensitivities_are_those_of_each_number_alone(seed: int) -> None:
    net = bayesian_network(seed, zeros=False)
    target, last = net.names[seed % len(net.names)], net.names[-1]
    label = net.variable(target).labels[0]
    row = {last: net.variable(last).labels[0]} if last != target else {}
    found = net.sensitivities((target, label), row, spread=0.3)
    assert found.probability == pytest.approx(float(net.posterior(row, target)[0, 0]), rel=1e-12)
    assert [one.change for one in found] == sorted((one.change for one in found), reverse=True)
    told = {(one.variable, one.state, *one.parents.items()): one for one in found}
    for name in net.names:
        shape = [net.variable(one).cardinality for one in (*net.parents(name), name)]
        for cell in np.ndindex(*shape):
            labels = [net.variable(one).labels[code] for one, code in zip(net.parents(name), cell, strict=False)]
            above = dict(zip(net.parents(name), labels, strict=True))
            if shape[-1] < 2:
                continue
            state = net.variable(name).labels[cell[-1]]
            alone = net.sensitivity((target, label), (name, state, above), row)
            x = alone.parameter
            ends = alone(0.7 * x), alone(min(1.0, 1.3 * x))
            one = told.get((name, state, *above.items()))
            expected = (one.low, one.high) if one else (found.probability,) * 2
            assert ends == pytest.approx(expected, abs=1e-9)
    assert "each number 30% smaller and larger" in repr(found)
    with pytest.raises(FgrnError, match="at most 1"):
        net.sensitivities((target, label), row, spread=2.0)


def test_sensitivity_of_evidence_of_tiny_probability() -> None:
    names = [f"e{number}" for number in range(200)]
    tables = {"h": [[0.5, 0.5]], **{name: [[0.01, 0.99], [0.01, 0.99]] for name in names}}
    net = BayesianNetwork(dict.fromkeys(["h", *names], 2), [("h", name) for name in names], tables)
    row = dict.fromkeys(names, 0)  # of probability 1e-400
    found = net.sensitivity(("h", 0), ("h", 0), row)
    np.testing.assert_allclose(found(np.array([0.0, 0.3, 1.0])), [0, 0.3, 1], atol=1e-9)
    assert found.range == (0.0, pytest.approx(1.0))
    assert found.derivative == pytest.approx(1.0)


def test_sensitivity_has_no_rounding_noise() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.3, 0.7]], "b": [[0.9, 0.1], [0.1, 0.9]]})
    same = net.sensitivity(("a", 0), ("b", 0, {"a": 1}))  # without evidence a does not depend on it
    assert same.derivative == 0.0
    assert same.range == (pytest.approx(0.3), pytest.approx(0.3))
    known = net.sensitivity(("a", 0), ("a", 0), {"a": 0})
    assert known(1.0) == 1.0
    assert known.range == (1.0, 1.0)
    with pytest.raises(ImpossibleEvidence, match="this value"):
        known(0.0)


def test_sensitivities_say_which_numbers_would_be_above_1() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.3, 0.7]], "b": [[0.9, 0.1], [0.25, 0.75]]})
    found = net.sensitivities(("a", 0), {"b": 0}, spread=0.2)
    assert "1 number would be above 1 where larger, and is taken as 1 there" in repr(found)
    assert "above 1" not in repr(net.sensitivities(("a", 0), {"b": 0}, spread=0.1))


def test_conflict_is_positive_where_evidence_disagrees() -> None:
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.5, 0.5]], "b": [[0.9, 0.1], [0.1, 0.9]]})
    for a, b in product(range(2), repeat=2):
        probability = 0.5 * net.table("b")[a, b]
        assert net.conflict({"a": a, "b": b}) == pytest.approx(np.log(0.25 / probability))
    assert net.conflict({"a": 1}) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(EvidenceError, match="one row"):
        net.conflict({"a": [0, 1], "b": [0, 0]})


# Sampling


@pytest.mark.parametrize("seed", SEEDS)
def test_sampled_posteriors_are_as_near_as_they_say(seed: int) -> None:
    net = bayesian_network(seed, zeros=seed % 2 == 0)
    draw = np.random.default_rng(seed)
    rows = [random_row(net, draw) for _ in range(2)]
    table = {name: [row.get(name) for row in rows] for name in net.names}
    for name in net.names[:3]:
        found = net.sampled_posterior(table, name, samples=4000, seed=seed)
        exact = net.posterior(table, name)
        assert (np.abs(found.probabilities - exact) <= 5 * found.standard_errors + 2e-3).all()
        np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)
        assert (found.effective_size <= 4000 + 1e-6).all()
        again = net.sampled_posterior(table, name, samples=4000, seed=seed)
        np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_standard_errors_are_those_of_repeated_samples() -> None:
    net = structure("a>b b>c")
    found = [net.sampled_posterior({"c": 1}, "a", samples=400, seed=seed) for seed in range(60)]
    spread = np.std([one.probabilities[0, 0] for one in found])
    told = np.mean([one.standard_errors[0, 0] for one in found])
    assert 0.7 < spread / told < 1.4
    sure = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[1.0, 0.0]], "b": [[1.0, 0.0], [0.0, 1.0]]})
    with pytest.raises(EvidenceError, match="none of 10 samples"):
        sure.sampled_posterior({"b": 1}, "a", samples=10)


def test_a_state_that_was_never_drawn_is_not_said_to_be_impossible() -> None:
    rare = 1e-4
    net = BayesianNetwork({"a": 3, "b": 2}, [("a", "b")], {"a": [0.5, 0.5 - rare, rare], "b": [[0.5, 0.5]] * 3})
    inside = 0
    for seed in range(40):
        found = net.sampled_posterior(None, "a", samples=500, seed=seed)
        assert (found.standard_errors > 0).all()
        inside += abs(found.probabilities[0, 2] - rare) <= 2 * found.standard_errors[0, 2]
    assert inside >= 36
    told = net.sampled_posterior({"a": [0, None], "b": [1, 1]}, "a", samples=500)
    assert (told.standard_errors[0] == 0).all()  # it is known
    assert (told.standard_errors[1] > 0).all()
    excluded = net.sampled_posterior({"a": [[1.0, 1.0, 0.0]]}, "a", samples=500)
    assert excluded.standard_errors[0, 2] == 0
    assert (excluded.standard_errors[0, :2] > 0).all()


def test_standard_errors_hold_where_the_evidence_is_improbable() -> None:
    off: list[float] = []
    for seed in range(12):
        draw = np.random.default_rng(seed)
        names = [f"v{number}" for number in range(20)]
        arcs = {name: [names[k] for k in draw.choice(at, 2, False)] for at, name in enumerate(names) if at > 1}
        tables = {name: draw.dirichlet(np.full(3, 0.4), 3 ** len(arcs.get(name, ()))) for name in names}
        net = BayesianNetwork(dict.fromkeys(names, 3), arcs, tables)
        known: dict[str, int] = {}
        for name in names[-6:]:  # each the least probable, given those before
            share = net.posterior(known or None, name)[0]
            known[name] = int(np.where(share > 1e-3, share, 2).argmin())
        assert net.propagate(known).log_likelihood[0] < np.log(1e-2)
        found = net.sampled_posterior(known, "v3", samples=4000, seed=seed)
        assert found.method == "importance sampling"
        assert found.effective_size[0] > 100
        exact = net.posterior(known, "v3")[0]
        some = (exact > 0.02) & (exact < 0.98)
        off += ((found.probabilities[0] - exact) / found.standard_errors[0])[some].tolist()
    assert len(off) > 20
    assert np.mean(np.abs(off) < 2) > 0.85
    assert np.sqrt(np.mean(np.square(off))) < 1.5


def test_messages_say_how_they_were_found() -> None:
    net = structure("a>b a>c b>d c>d")
    assert net.propagate({"d": 1}).method == "exact"
    assert net.propagate({"d": 1}, method="loopy").method == "loopy"
    assert structure("a>b").propagate({"b": 1}, method="loopy").method == "exact"


def test_samples_find_impossible_evidence_that_is_apart_from_the_question() -> None:
    tables = {"b": [[1.0, 0.0], [0.0, 1.0]]}
    net = BayesianNetwork({"t": 2, "a": 2, "b": 2}, {"a": ["t"], "b": ["a"]}, tables)
    with pytest.raises(ImpossibleEvidence, match="agrees with this evidence"):
        net.sampled_posterior({"a": 0, "b": 1}, "t")
    assert net.sampled_posterior({"a": 0, "b": 0}, "t").probabilities[0, 0] == pytest.approx(0.5, abs=0.05)


def test_questions_that_cannot_be_meant_say_why() -> None:
    net = structure("a>b")
    with pytest.raises(FgrnError, match=r"two states of 'a'.*given="):
        net.average_treatment_effect("a", "b", {"b": 1})  # type: ignore[arg-type]
    with pytest.raises(EvidenceError, match="known already"):
        net.value_of_asking("a", {"a": 1})
