"""Mistakes of users of Network that were once wrong, silent or unfriendly."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable


def test_a_number_never_stands_for_a_label_that_is_a_number_in_words() -> None:
    net = fgrn.lvm({"a": ["1", "2", "3"], "b": ["yes", "no"]}, hidden=2)
    for column in ([1, 2], np.array([1, 2]), pd.Series([1, np.nan])):
        with pytest.raises(fgrn.EvidenceError, match=r"another type \(text and numbers differ\)"):
            net.propagate({"a": column})
    with pytest.raises(fgrn.EvidenceError, match="True is not one of its states"):
        net.propagate({"b": [True, False]})
    assert net.propagate({"b": [0, 1]}).marginal("b").tolist() == [[1, 0], [0, 1]]
    assert not np.isnan(net.propagate({"b": pd.Series([1.0, np.nan])}).marginal("b")).any()


def test_a_value_that_is_not_a_state_gets_the_hint_that_helps() -> None:
    net = fgrn.lvm({"a": ["Poor", "Rich"]}, hidden=2)
    with pytest.raises(fgrn.EvidenceError, match="Did you mean 'Poor'"):
        net.propagate({"a": ["poor"]})
    with pytest.raises(fgrn.EvidenceError, match="replace it with None"):
        net.propagate({"a": ["?"]})


def test_a_column_of_missing_values_is_completed_in_every_kind_of_frame() -> None:
    net = fgrn.lvm({"a": ["p", "q"], "b": ["r", "s"]}, hidden=2)
    net.learn({"a": ["p", "q", "p"], "b": ["r", "s", "r"]}, epochs=20)
    frame = pl.DataFrame({"a": [None] * 3, "b": ["r", "s", "r"]})
    assert net.complete(frame)["a"].to_list() == ["p", "q", "p"]
    assert net.complete(frame.lazy()).collect()["a"].to_list() == ["p", "q", "p"]
    category = pd.DataFrame({"a": pd.Categorical([None, "p"], categories=["p"]), "b": ["s", "r"]})
    assert net.complete(category)["a"].tolist() == ["q", "p"]
    assert net.complete({"a": None, "b": "s"}) == {"a": "q", "b": "s"}


def test_tables_tied_across_layers_are_not_learnt_layer_by_layer() -> None:
    net = fgrn.hmm({"Y": 2}, hidden=2, length=3)
    net.learn({"Y[0]": [0, 1]}, epochs=1)
    before = net.copy()
    with pytest.raises(fgrn.LearningError, match="share one table but are in several layers"):
        net.learn_by_layer({"Y[0]": [0, 1]}, epochs=2)
    assert net == before


def test_learning_that_fails_leaves_the_network_as_it_was() -> None:
    net = fgrn.stack({f"Y{i}": 2 for i in range(4)}, hidden=[2, 2], groups=2)
    before = net.copy()
    calls = []

    def watch(start: int, epoch: int, per_row: float) -> None:
        calls.append(epoch)
        if len(calls) == 4:  # in the second layer
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.learn_by_layer({"Y0": [0, 1], "Y3": [1, 0]}, epochs=3, watch=watch)
    assert net == before


def test_classify_does_not_look_at_what_is_given_on_the_class() -> None:
    net = fgrn.naive_bayes({"a": ["x", "y"], "c": ["u", "v"]}, "c")
    net.learn({"a": ["x", "y"], "c": ["u", "v"]}, epochs=2)
    assert net.classify({"a": ["x"], "c": ["v"]}, "c").tolist() == ["u"]
    assert net.classify({"a": "x", "c": "v"}, "c").tolist() == ["u"]
    assert len(net.classify({"c": ["u", "v", None]}, "c")) == 3
    frame = pd.DataFrame({"a": ["x", "y"], "c": ["v", "u"]})
    assert net.classify(frame, "c").tolist() == ["u", "v"]
    assert frame["c"].tolist() == ["v", "u"]


def test_numbers_too_large_to_sum_are_refused() -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    for setting in ({"smoothing": 1e308}, {"weights": [1e308] * 3}):
        with pytest.raises(fgrn.FgrnError):
            net.learn({"a": [0, 1, 1]}, **setting)


def test_watch_may_end_learning_and_keeps_what_was_learnt() -> None:
    data = {"a": [0, 1, 1, 0], "b": [0, 1, 1, 1]}
    one, other = (fgrn.lvm({"a": 2, "b": 2}, hidden=2) for _ in range(2))
    history = one.learn(data, epochs=50, watch=lambda start, epoch, per_row: epoch == 2)
    assert history.epochs == 3
    other.learn(data, epochs=3)
    assert one == other
    with pytest.raises(fgrn.LearningError, match="'watch'"):
        one.learn(data, watch=3)


def test_settings_of_the_wrong_kind_are_refused_before_any_work() -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    data = {"a": [0, 1]}
    for call, words in [
        (lambda: net.learn(data, threads="a"), "'threads'"),
        (lambda: net.propagate(data, threads=0), "'threads'"),
        (lambda: net.propagate(data, damping=2), "'damping'"),
        (lambda: net.propagate(data, rounds=-1), "'rounds'"),
        (lambda: net.propagate(data, tolerance="a"), "'tolerance'"),
        (lambda: net.learn({}), "no rows"),
        (lambda: net.learn(None), "no rows"),
        (lambda: net.propagate(data).belief("a", 5), "no row 5"),
        (lambda: fgrn.sequences([["a", "b"]]), "Sequence 0 is a mapping"),
        (lambda: fgrn.stack({"a": 2, "b": 2}, hidden=[2, 2], groups="x"), "'groups'"),
        (lambda: fgrn.lvm({"a": 10**5}, 10**5), "10,000,000,000 cells"),
        (lambda: fgrn.lvm({"a": 10**9}, 10**9), "1,000,000,000 states"),
        (lambda: Network([SISO(Variable("x", 2), Variable("y", 2))]).prior("x"), "none at all"),
    ]:
        with pytest.raises(fgrn.FgrnError, match=words):
            call()


def test_a_variable_called_like_a_hidden_one_is_refused_in_words() -> None:
    for call in (
        lambda: fgrn.lvm({"S": 2, "a": 2}, 2),
        lambda: fgrn.lvm({"S->a": 2, "a": 2}, 2),
        lambda: fgrn.naive_bayes({"S": 2, "c": 2}, "c"),
        lambda: fgrn.dica({"S1": 2, "a": 2}, [2, 2]),
        lambda: fgrn.stack({"S2": 2, "a": 2}, [2, 2]),
    ):
        with pytest.raises(fgrn.WiringError, match="choose another with name="):
            call()
    assert fgrn.lvm({"S": 2, "a": 2}, 2, name="H").prior("H").shape == (2,)


def test_tied_tables_are_known_by_their_tie_too() -> None:
    root, one, two = (Variable(name, 2) for name in ("S", "S1", "S2"))
    net = Network(
        [Source(root), Diverter([root], [one, two]),
         SISO(one, Variable("x1", 3), tie="T"), SISO(two, Variable("x2", 3), tie="T")]
    )  # fmt: skip
    data = {"x1": [0, 1, 2], "x2": [0, 0, 1]}
    same = net.copy()
    net.learn(data, smoothing={"T": 1.0}, only=["T"], epochs=3)
    same.learn(data, smoothing={"x1": 1.0, "x2": 1.0}, only=["x2"], epochs=3)
    assert net == same
    np.testing.assert_array_equal(net.table("T"), net.table("x2"))
    with pytest.raises(fgrn.LearningError, match="shares its table"):
        net.learn(data, smoothing={"x1": 1.0, "x2": 2.0})


def loop() -> Network:
    a, a1, a2, b, c = (Variable(name, 2) for name in ("a", "a1", "a2", "b", "c"))
    bc = Variable("bc", 4)
    table = [[0.8, 0.2], [0.3, 0.7]]
    return Network(
        [Source(a, [0.5, 0.5]), Diverter([a], [a1, a2]), SISO(a1, b, table), SISO(a2, c, table),
         Diverter([b, c], [bc]), SISO(bc, Variable("d", 2), [[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.2, 0.8]])]
    )  # fmt: skip


def test_rounds_say_what_they_are() -> None:
    net = loop()
    with pytest.warns(fgrn.ConvergenceWarning):
        assert repr(net.propagate({"d": [1]}, rounds=0)).endswith("(0 rounds, not converged)")
    steps = list(net.steps({"d": [1]}))
    assert len(steps) < 200
    assert not steps[-1].changed
    assert steps[-1].messages.converged.all()
    with pytest.raises(fgrn.FgrnError, match="loops"):
        net.multiplications({"d": [1]})
    with pytest.raises(fgrn.LearningError, match="loops"):
        net.learn({"d": [1]})
    tree = fgrn.dica({"Y": 2}, [2, 2])
    assert list(tree.steps({"Y": [1]}))[-1].messages.converged.all()
    assert tree.propagate({"Y": [1]}, rounds=3).rounds == 3


def test_a_history_says_what_its_numbers_are() -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    assert repr(net.learn({"a": [0, 1]}, epochs=1)).startswith(
        "History of 1 epoch; log-likelihood at the start of each: -"
    )
    history = net.learn({"a": [0, 1]}, epochs=30)
    assert " ... -" in repr(history)
    frame = history.to_frame()
    assert frame["epoch"].tolist() == list(range(1, 31))
    assert frame["log_likelihood"].tolist() == history.log_likelihood.tolist()
    page = history._repr_html_()
    assert page.count("<tr>") == 9  # the first epoch, the last, and some between them
    assert f"{history.log_likelihood[-1]:,.3f}" in page


def test_the_prototype_of_an_effect_are_its_causes() -> None:
    a, s, c, both = Variable("A", 2), Variable("S", 2), Variable("C", 2), Variable("AS", 4)
    net = Network([Source(a), Source(s), Diverter([a, s], [both]), SISO(both, c)])
    net.learn({"A": [1, 0, 1, 0], "S": [1, 1, 0, 0], "C": [1, 0, 0, 0]}, epochs=1)
    assert {name: belief.tolist() for name, belief in net.prototype("C", 1).items()} == {"A": [0, 1], "S": [0, 1]}
    impossible = Network([Source(a, [1, 0]), SISO(a, c, np.eye(2))])
    with pytest.raises(fgrn.EvidenceError, match="'C' = 1 cannot be"):
        impossible.prototype("C", 1)


def test_the_states_of_a_table() -> None:
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["small", None, "large"], categories=["small", "middle", "large"]),
            "age": [3, 1, np.nan],
            "colour": ["red", "blue", None],
            "flag": [True, False, True],
        }
    )
    expected = {"size": ["small", "large"], "age": [1.0, 3.0], "colour": ["blue", "red"], "flag": [False, True]}
    assert fgrn.states(frame) == expected
    assert fgrn.states(pl.from_pandas(frame.drop(columns="size")))["colour"] == ["blue", "red"]
    net = fgrn.lvm(fgrn.states(frame), hidden=2)
    net.learn(frame, epochs=2)
    assert net.complete(frame)["colour"].notna().all()
    with pytest.raises(fgrn.EvidenceError, match="no known value"):
        fgrn.states({"a": [None]})
    with pytest.raises(fgrn.EvidenceError, match="holds distributions"):
        fgrn.states({"a": [[0.5, 0.5]]})


@pytest.mark.parametrize("values", [[{1: 2}, {}], [{1}, {2}], [1j, 2j], [object(), object()]])
def test_what_cannot_be_a_state_is_refused(values: list[object]) -> None:
    with pytest.raises(fgrn.EvidenceError, match="'a': states are words and numbers"):
        fgrn.states({"a": values})


def test_errors_cross_processes() -> None:
    with pytest.raises(fgrn.ImpossibleEvidence) as raised:
        Network([Source(Variable("a", 2), [1, 0])]).propagate({"a": [0, 1]})
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.rows == (1,)
    assert str(again) == str(raised.value)


def test_paths_that_are_no_paths(tmp_path: Path) -> None:
    net = fgrn.lvm({"a": 2}, hidden=2)
    for call in (lambda: net.save(3), lambda: fgrn.load(None)):
        with pytest.raises((fgrn.ModelFileError, TypeError)):
            call()
    net.save(tmp_path / "a.fgrn")
    assert fgrn.load(str(tmp_path / "a.fgrn")) == net


def test_parts_of_the_messages_are_kept_as_asked_for() -> None:
    net = fgrn.lvm({"a": 2, "b": 3}, hidden=2)
    for schedule in ("sweeps", "rounds"):
        seen = net.propagate({"a": [0, 1]}, keep=["b"], parts=["marginal"], schedule=schedule)
        np.testing.assert_array_equal(seen.marginal("b"), net.propagate({"a": [0, 1]}, schedule=schedule).marginal("b"))
        with pytest.raises(fgrn.UnknownNameError, match="marginal"):
            seen.forward("b")
    with pytest.raises(fgrn.FgrnError, match="'parts' must be one of 'forward', 'backward', 'marginal'"):
        net.propagate({"a": [0]}, parts=["belief"])
    with pytest.raises(fgrn.FgrnError, match="'parts' is a list"):
        net.propagate({"a": [0]}, parts="marginal")
