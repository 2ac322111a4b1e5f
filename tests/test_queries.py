"""Queries beyond messages: samples, explanations, online learning, most probable assignments, schemas."""

from __future__ import annotations

import pickle
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Evidence, SmallNetwork, networks, networks_with_evidence

import fgrn
from fgrn.tables.frames import Coded

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]


@settings(max_examples=25)
@given(networks(zeros=True))
def test_samples_have_the_marginals_of_the_network(case: SmallNetwork) -> None:
    net = fgrn.Network(case.blocks)
    names = [variable.name for variable in net.variables]
    rows = 4000
    drawn = net.sample(rows, seed=1, names=names)
    alone = net.propagate(None)
    if not all(block.reads or block.drives for block in case.blocks):
        return
    for name in names:
        belief = alone.marginal(name)[0]
        if name in case.priors or not _meets(case):
            counts = np.bincount(drawn[name], minlength=len(belief)) / rows
            np.testing.assert_allclose(counts, belief, atol=6 * np.sqrt(0.25 / rows))
            assert not counts[belief == 0].any()


def _meets(case: SmallNetwork) -> bool:
    """Return whether a variable is driven from two sides, so that ancestral samples have other marginals."""
    driven = {variable.name for block in case.blocks for variable in block.drives}
    return any(variable.name not in driven for block in case.blocks for variable in block.reads)


def test_samples_are_the_same_for_a_seed_and_go_together() -> None:
    net = fgrn.lvm({"a": ["x", "y"], "b": 3}, hidden=2)
    net.learn({"a": ["x", "y"] * 50, "b": [0, 2] * 50}, epochs=50)
    one, other = net.sample(50, seed=3), net.sample(50, seed=3)
    assert set(one) == {"a", "b"}
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert ((one["a"] == "x") == (one["b"] == 0)).all()
    assert len(net.sample(0)["a"]) == 0


def test_a_chain_is_sampled_along_its_rows() -> None:
    state, following = fgrn.Variable("S", 2), fgrn.Variable("S next", 2)
    legs = [fgrn.Variable("S->Y", 2), fgrn.Variable("S->next", 2)]
    blocks = [
        fgrn.Source(state, [1.0, 0.0]),
        fgrn.Diverter([state], legs),
        fgrn.SISO(legs[0], fgrn.Variable("Y", 2), np.eye(2)),
        fgrn.SISO(legs[1], following, [[0.9, 0.1], [0.2, 0.8]]),
    ]
    drawn = fgrn.Chain(blocks, ("S next", "S")).sample(20_000, seed=0)["Y"]
    assert drawn[0] == 0
    assert np.mean(drawn[1:][drawn[:-1] == 0] == 1) == pytest.approx(0.1, abs=0.02)
    assert np.mean(drawn[1:][drawn[:-1] == 1] == 0) == pytest.approx(0.2, abs=0.02)


@settings(max_examples=60)
@given(networks_with_evidence(most_rows=1))
def test_contributions_sum_to_the_log_odds_of_any_network(case: tuple[SmallNetwork, Evidence]) -> None:
    small, evidence = case
    net = fgrn.Network(small.blocks)
    row = evidence.columns
    for name in list(small.variables)[:3]:
        others = {key: value for key, value in row.items() if key != name}
        belief = net.posterior(others or {name: [None]}, name)[0]
        for state in range(len(belief)):
            found = net.explain(row, name, net.variable(name).labels[state], orders=2)
            assert np.isfinite(found.log_odds)
            total = found.prior + sum(found.contributions.values())
            assert total == pytest.approx(found.log_odds, rel=1e-9, abs=1e-7)
            rest = float(np.delete(belief, state).sum())
            if belief[state] > 0 and rest > 0:
                odds = np.log(belief[state]) - np.log(rest)
                assert found.log_odds == pytest.approx(odds, rel=1e-7, abs=1e-9)
            known = {key for key, (value,) in others.items() if value is not None}
            assert set(found.contributions) == known


@pytest.mark.parametrize("known", [1, 2, 3, 4, 6])
def test_an_explanation_does_not_depend_on_the_sequence_of_the_row(known: int) -> None:
    generator = np.random.default_rng(known)
    names = [f"q{number}" for number in range(known)]
    net = fgrn.lvm(
        {**dict.fromkeys(names, 3), "L": 2},
        hidden=4,
        tables={name: generator.dirichlet(np.ones(3), 4) for name in names} | {"L": generator.dirichlet(np.ones(2), 4)},
    )
    row = {name: int(generator.integers(3)) for name in names}
    found = net.explain(row, "L").contributions
    for names_ in (names[::-1], generator.permutation(names).tolist()):
        again = net.explain({name: row[name] for name in names_}, "L").contributions
        assert again == pytest.approx(dict(found), abs=1e-12)


@pytest.mark.parametrize(("known", "orders"), [(3, 1), (4, 1), (5, 60)])
def test_all_orders_give_the_shapley_value(known: int, orders: int) -> None:
    generator = np.random.default_rng(known)
    names = [f"q{number}" for number in range(known)]
    tables = {name: generator.dirichlet(np.ones(3), 4) for name in names}
    net = fgrn.lvm({**dict.fromkeys(names, 3), "L": 2}, hidden=4, tables=tables)
    row = dict.fromkeys(names, 1)
    found = net.explain(row, "S", 2, orders=orders)

    def odds(some: tuple[str, ...]) -> float:
        belief = net.posterior({name: [1] for name in some} or {"L": [None]}, "S")[0]
        return float(np.log(belief[2] / (1 - belief[2])))

    for name in names:
        others = [other for other in names if other != name]
        expected = 0.0
        for size in range(known):
            weight = factorial(size) * factorial(known - size - 1) / factorial(known)
            for some in combinations(others, size):
                expected += weight * (odds((*some, name)) - odds(some))
        assert found.contributions[name] == pytest.approx(expected, abs=1e-9)


def test_an_explanation_reads_well_and_refuses_what_is_no_row() -> None:
    net = fgrn.naive_bayes({"a": ["x", "y"], "b": 2, "L": ["no", "yes"]}, class_variable="L")
    net.learn({"a": ["x", "y", "x"], "b": [0, 1, 1], "L": ["no", "yes", "yes"]}, epochs=1, smoothing=1)
    text = str(net.explain({"a": "x", "b": None, "L": "no"}, "L"))
    assert "a = x" in text
    assert "total" in text
    assert "b =" not in text
    with pytest.raises(fgrn.EvidenceError, match="takes one row"):
        net.explain({"a": ["x", "y"]}, "L")
    with pytest.raises(fgrn.UnknownNameError):
        net.explain({"a": "x"}, "M")


def test_one_batch_online_is_one_epoch() -> None:
    rows = {"a": [0, 1, 1, None], "b": [2, 0, 1, 1]}
    one, other = (fgrn.lvm({"a": 2, "b": 3}, hidden=2) for _ in range(2))
    state = other.online()
    one.learn(rows, epochs=1, smoothing=0.5)
    other.learn(rows, epochs=1, smoothing=0.5, online=state)
    for name in ("a", "b"):
        np.testing.assert_allclose(one.table(name), other.table(name), rtol=1e-12)
    assert state.batches == 1
    assert state.weight == 4


def test_the_running_counts_follow_the_rule() -> None:
    """With a source alone the counts are the shares of its states, computed by hand."""
    net = fgrn.Network([fgrn.Source(variable := fgrn.Variable("x", 2))])
    state = net.online(power=0.7)
    share, seen = 0.0, 0
    for ones, size in [(3, 4), (1, 10), (5, 5), (0, 2)]:
        net.learn({variable.name: [1] * ones + [0] * (size - ones)}, epochs=1, online=state)
        step = (size / (seen + size)) ** 0.7
        share, seen = (1 - step) * share + step * ones / size, seen + size
        assert net.prior("x")[1] == pytest.approx(share)
        assert state.weight == seen


def test_online_goes_on_from_what_was_learnt() -> None:
    rng = np.random.default_rng(0)
    rows = {"a": rng.integers(0, 2, 300), "b": rng.integers(0, 3, 300)}
    net = fgrn.lvm({"a": 2, "b": 3}, hidden=2)
    net.learn(rows, epochs=200)
    before = net.table("a").copy()
    net.learn({"a": [0], "b": [0]}, epochs=1, online=net.online(weight=300.0, power=1.0))
    assert np.abs(net.table("a") - before).max() < 0.02
    with pytest.raises(fgrn.LearningError, match=r"'cycles' must be 1: .* seen once are not held"):
        net.learn(rows, epochs=1, cycles=2, online=net.online())
    with pytest.raises(fgrn.LearningError, match=r"0\.5 to 1"):
        net.online(power=0.2)


@settings(max_examples=30)
@given(networks_with_evidence(soft=False))
def test_coded_columns_say_the_same(case: tuple[SmallNetwork, Evidence]) -> None:
    small, evidence = case
    net = fgrn.Network(small.blocks)
    coded = {
        name: Coded(np.array([-1 if value is None else value for value in values], dtype=np.int32))
        for name, values in evidence.columns.items()
    }
    one, other = net.propagate(evidence.columns), net.propagate(coded)
    np.testing.assert_array_equal(one.log_likelihood, other.log_likelihood)


def test_a_code_that_is_no_state_is_refused() -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    for code in (2, -2):
        with pytest.raises(fgrn.EvidenceError, match="'a'"):
            net.propagate({"a": Coded(np.array([0, code]))})


def test_free_parameters_and_training_are_told(tmp_path: object) -> None:
    net = fgrn.lvm({"a": 2, "b": ["x", "y", "z"]}, hidden=4)
    assert net.free_parameters == 3 + 4 * 1 + 4 * 2
    frozen = fgrn.lvm({"a": 2}, hidden=4, learn_prior=False)
    assert frozen.free_parameters == 4
    bayes = fgrn.naive_bayes({"a": 2, "L": 3}, class_variable="L")
    assert bayes.free_parameters == 2 + 3
    assert net.trained == ()
    net.learn({"a": [0, 1], "b": ["x", None]}, epochs=3, smoothing=0.5, seed=7)
    (record,) = net.trained
    assert record["rows"] == 2
    assert record["epochs"] == 3
    assert record["smoothing"] == 0.5
    assert record["seed"] == 7
    assert (record["engine"], record["merge"]) == ("reference", False)
    path = tmp_path / "m.fgrn"  # type: ignore[operator]
    net.save(path)
    assert fgrn.load(path).trained == net.trained
    net.reset()
    assert net.trained == ()


def test_notebooks_show_pictures_and_tables() -> None:
    net = fgrn.naive_bayes({"a<b": ["x", "y"], "L": ["no", "yes"]}, class_variable="L")
    assert net._repr_html_().startswith("<div><svg")
    assert repr(net.explain({"a<b": "x"}, "L")) == str(net.explain({"a<b": "x"}, "L"))
    text = net.explain({"a<b": "x"}, "L")._repr_html_()
    assert "a&lt;b = x" in text
    assert text.endswith("</table>")


def test_causes_in_a_circle_cannot_be_drawn() -> None:
    one, two, three = (fgrn.Variable(name, 2) for name in "PQR")
    net = fgrn.Network([fgrn.Diverter([one], [two, three]), fgrn.SISO(two, one)])
    with pytest.raises(fgrn.FgrnError, match="form a cycle"):
        net.sample(3)


def test_batches_have_one_start() -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    for setting, value, words in (
        ("starts", 2, "must be left out: online learning continues from the current tables"),
        ("accelerate", True, "must be left out: online learning"),
        ("validation", 0.5, "must be left out: online learning"),
        ("batch_size", 1, "must be left out: a batch that is seen once is not cut into batches"),
        ("cycles", 2, "must be 1: the messages of batches that are seen once are not held"),
    ):
        with pytest.raises(fgrn.LearningError, match=words) as caught:
            net.learn({"a": [0, 1]}, epochs=1, online=net.online(), **{setting: value})
        assert (caught.value.setting, caught.value.value) == (setting, value)


def test_copies_and_interrupted_learning_keep_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = fgrn.hmm({"Y": 2}, hidden=2)
    chain.learn({"Y": [0, 1, 0]}, epochs=2)
    assert len(chain.copy().trained) == len(pickle.loads(pickle.dumps(chain)).trained) == 1
    net = fgrn.stack({f"Y{k}": 2 for k in range(4)}, hidden=[2, 2])
    before = net.table("Y0").copy()

    def stop(start: int, epoch: int, per_row: float) -> bool:
        raise KeyboardInterrupt if calls.append(1) or len(calls) > 3 else ValueError

    calls: list[int] = []
    with pytest.raises((KeyboardInterrupt, ValueError)):
        net.learn_by_layer({f"Y{k}": [0, 1] for k in range(4)}, epochs=2, watch=stop)
    assert net.trained == ()
    np.testing.assert_array_equal(net.table("Y0"), before)


# Certainty


def ruling() -> fgrn.Network:
    """Naive Bayes in which some values rule a class out."""
    kind, a, b, c = (fgrn.Variable(name, ["n", "y"]) for name in ("kind", "a", "b", "c"))
    copies = [fgrn.Variable(f"kind {k}", 2) for k in range(4)]
    diagonal, sure = np.eye(2), np.array([[1.0, 0.0], [0.4, 0.6]])
    return fgrn.Network(
        [
            fgrn.Source(fgrn.Variable("S", 2), [0.7, 0.3]),
            fgrn.Diverter([fgrn.Variable("S", 2)], copies),
            fgrn.SISO(copies[0], kind, diagonal),
            fgrn.SISO(copies[1], a, sure),
            fgrn.SISO(copies[2], b, sure),
            fgrn.SISO(copies[3], c, np.array([[0.5, 0.5], [0.2, 0.8]])),
        ]
    )


@pytest.mark.parametrize(
    ("row", "state", "certain"),
    [
        ({"a": "n", "c": "y"}, "n", {}),
        ({"a": "y", "c": "y"}, "y", {"a": 1}),
        ({"a": "y", "c": "y"}, "n", {"a": -1}),
        ({"a": "y", "b": "y", "c": "n"}, "y", {"a": 0.5, "b": 0.5}),
    ],
)
def test_what_is_certain_is_said_to_be(row: dict[str, str], state: str, certain: dict[str, float]) -> None:
    found = ruling().explain(row, "kind", state)
    assert ("of the orders in which the values may become known" in str(found)) is ("(" in str(found._rows()))
    assert found.certain == pytest.approx(certain)
    assert found.prior + sum(found.contributions.values()) == pytest.approx(found.log_odds)
    text = str(found)
    assert "69" not in text
    if not certain:
        return
    word = "certain" if state == "y" else "ruled out"
    lines = {line.split("  ")[1]: line for line in text.splitlines()[1:]}
    assert lines["total"].endswith(word)
    assert lines["a = y"].endswith(word if len(certain) == 1 else f"{word} (50%)")
    assert lines[f"c = {row['c']}"].endswith(f"{found.contributions['c']:+.3f}")
    assert word in found._repr_html_()


def test_an_impossible_row_is_the_one_that_was_given() -> None:
    net = fgrn.Network(
        [fgrn.Source(fgrn.Variable("S", 2), [1, 0]), fgrn.SISO(fgrn.Variable("S", 2), fgrn.Variable("y", 2), np.eye(2))]
    )
    with pytest.raises(fgrn.ImpossibleEvidence, match="Row 0") as caught:
        net.explain({"y": 1}, "S")
    assert caught.value.rows == (0,)


@given(seed=st.integers(0, 2**32 - 1))
def test_the_most_probable_assignment_with_missing_leaves(seed: int) -> None:
    """A missing leaf contributes the maximum over its states, not the sum."""
    rng = np.random.default_rng(seed)
    hidden, states = 3, [2, 3]
    top, legs = fgrn.Variable("S", hidden), [fgrn.Variable(f"S{k}", hidden) for k in range(2)]
    tables = [rng.dirichlet(np.ones(n), hidden) for n in states]
    prior = rng.dirichlet(np.ones(hidden))
    leaves = [fgrn.SISO(legs[k], fgrn.Variable(f"Y{k}", states[k]), tables[k]) for k in range(2)]
    net = fgrn.Network([fgrn.Source(top, prior), fgrn.Diverter([top], legs), *leaves])
    joint = prior[:, None, None] * tables[0][:, :, None] * tables[1][:, None, :]
    known = int(rng.integers(2))
    labels, logs = net.most_probable({"Y0": [None, known]}, names=["S", "Y0", "Y1"])
    for row, whole in enumerate((joint, joint[:, known : known + 1])):
        assert logs[row] == pytest.approx(np.log(whole.max()))
        place = labels["S"][row], labels["Y0"][row], labels["Y1"][row]
        assert joint[place] == pytest.approx(whole.max())
    largest = net.max_marginals({"Y0": [None]}, names=["S", "Y1"])
    np.testing.assert_allclose(np.exp(largest["S"][0]), joint.max(axis=(1, 2)))
    np.testing.assert_allclose(np.exp(largest["Y1"][0]), joint.max(axis=(0, 1)))
