"""Dynamic networks against the unrolled Bayesian network, and hidden Markov models."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fgrn
from fgrn import DynamicBayesianNetwork, EvidenceError, FgrnError, ImpossibleEvidence, WiringError
from fgrn.cli import main

STRUCTURES: dict[str, Any] = {
    "chain of one": ({"h": 3, "y": 2}, {"y": ["h"]}, {"h": ["h"]}),
    "observed inputs": ({"u": 2, "h": 2, "y": 2}, {"h": ["u"], "y": ["h"]}, {"h": ["h"]}),
    "output of two slices": ({"h": 2, "y": 3}, {"y": ["h"]}, {"h": ["h"], "y": ["h", "y"]}),
    "factorial": ({"a": 2, "b": 3, "y": 2}, {"y": ["a", "b"]}, {"a": ["a"], "b": ["b"]}),
    "coupled": ({"a": 2, "b": 2, "y": 2}, {"b": ["a"], "y": ["b"]}, {"a": ["a", "b"], "b": ["b"]}),
    "second order": ({"h": 2, "y": 2}, {"y": ["h"]}, {"h": ["h", ("h", 2)]}),
    "gap": ({"h": 2, "y": 2}, {"y": ["h"]}, [("h", "h", 3), ("y", "y")]),
}
LENGTH = 4


def network(kind: str, seed: int = 0) -> DynamicBayesianNetwork:
    sizes, arcs, links = STRUCTURES[kind]
    draw = np.random.default_rng(seed)
    empty = DynamicBayesianNetwork(sizes, arcs, links)
    tables, initial = {}, {}
    for name in sizes:
        lags = empty._structure.lags(name)

        def drawn(time: int | None, name: str = name) -> np.ndarray:
            shape = empty.table(name, time).shape
            table = draw.dirichlet(np.ones(shape[-1]), shape[:-1])
            table *= draw.random(shape) < 0.9
            table[..., 0] += 0.01
            return np.asarray(table / table.sum(axis=-1, keepdims=True))

        tables[name] = drawn(None)
        if lags:
            starts = [drawn(time) for time in [0, *lags[:-1]]]
            initial[name] = starts[0] if len(lags) == 1 else starts
    return DynamicBayesianNetwork(sizes, arcs, links, tables, initial)


def sequences(net: DynamicBayesianNetwork, count: int = 3, seed: int = 1) -> dict[str, Any]:
    """Sequences with missing values, and the first variable unknown."""
    rows = net.sample(LENGTH, count, seed)
    draw = np.random.default_rng(seed)
    hidden = next(name for name in net.names if name in "ha")
    found: dict[str, Any] = {"sequence": rows["sequence"]}
    for name in net.names:
        if name != hidden:
            found[name] = [None if draw.random() < 0.25 else value for value in rows[name].tolist()]
    return found


def unrolled_rows(data: dict[str, Any], upto: int = LENGTH) -> dict[str, list[Any]]:
    """The same as one row for each sequence."""
    columns = {name: np.reshape(np.array(column, dtype=object), (-1, LENGTH)) for name, column in data.items()}
    return {
        f"{name}[{time}]": column[:, time].tolist()
        for name, column in columns.items()
        for time in range(upto)
        if name != "sequence"
    }


every_kind = pytest.mark.parametrize("kind", STRUCTURES)


@every_kind
def test_smoothing_filtering_and_prediction_are_those_of_the_unrolled_network(kind: str) -> None:
    net = network(kind)
    data = sequences(net)
    whole = net.unrolled(LENGTH)
    seen = whole.propagate(unrolled_rows(data))
    smooth, filtered = net.smooth(data), net.filter(data)
    for time in range(LENGTH):
        upto = net.unrolled(time + 1).propagate(unrolled_rows(data, time + 1))
        for name in net.names:
            np.testing.assert_allclose(smooth.marginal(name)[time::LENGTH], seen.marginal(f"{name}[{time}]"), atol=1e-9)
            np.testing.assert_allclose(
                filtered.marginal(name)[time::LENGTH], upto.marginal(f"{name}[{time}]"), atol=1e-9
            )
    totals = smooth.log_likelihood.reshape(-1, LENGTH).sum(axis=1)
    np.testing.assert_allclose(totals, seen.log_likelihood, atol=1e-9)
    np.testing.assert_allclose(net.log_likelihood(data), filtered.log_likelihood)
    ahead = net.predict(data, steps=2)
    later = net.unrolled(LENGTH + 2).propagate(unrolled_rows(data))
    new, first = net.predict(steps=3), net.unrolled(3).propagate(None)
    for name in net.names:
        for step in range(2):
            np.testing.assert_allclose(
                ahead.marginal(name)[step::2], later.marginal(f"{name}[{LENGTH + step}]"), atol=1e-9
            )
        for step in range(3):
            np.testing.assert_allclose(new.marginal(name)[[step]], first.marginal(f"{name}[{step}]"), atol=1e-9)


@every_kind
def test_the_most_probable_path_is_that_of_the_unrolled_network(kind: str) -> None:
    net = network(kind, seed=3)
    data = sequences(net, seed=2)
    found = net.most_probable(data)
    whole = net.unrolled(LENGTH)
    best = whole.most_probable(unrolled_rows(data))
    np.testing.assert_allclose(found.log_probability, best.log_probability, atol=1e-9)
    complete: Any = {name: column.tolist() for name, column in found.labels.items()}
    rows = unrolled_rows({"sequence": data["sequence"], **complete})
    np.testing.assert_allclose(whole.propagate(rows).log_likelihood, found.log_probability, atol=1e-9)


@every_kind
def test_learning_is_that_of_the_unrolled_network(kind: str) -> None:
    net = network(kind, seed=5)
    data = sequences(net, count=8)
    whole = net.unrolled(LENGTH)
    theirs = whole.learn(unrolled_rows(data), epochs=3)
    ours = net.learn(data, epochs=3)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=1e-8)
    assert (np.diff(ours.log_likelihood) >= -1e-9).all()
    for name in net.names:
        for time in (0, 1, LENGTH - 1):
            np.testing.assert_allclose(
                net.table(name, time).reshape(-1, net.variable(name).cardinality), whole.table(f"{name}[{time}]"),
                atol=1e-8,
            )  # fmt: skip


def test_sequences_of_different_lengths_and_weights() -> None:
    net = network("coupled")
    rows = net.sample(5, 2, seed=4)
    keep = np.r_[0:5, 5:7]
    data = {name: column[keep].tolist() for name, column in rows.items() if name != "a"}
    alone = [{name: column[part] for name, column in data.items()} for part in (slice(0, 5), slice(5, 7))]
    whole = net.smooth(data).marginal("a")
    np.testing.assert_allclose(whole, np.concatenate([net.smooth(one).marginal("a") for one in alone]))
    assert net.predict(data, 2).sequence.tolist() == [0, 0, 1, 1]
    twice = {name: [*alone[0][name], *alone[1][name], *alone[1][name]] for name in data}
    twice["sequence"] = [0] * 5 + [1] * 2 + [2] * 2
    other = net.copy()
    net.learn(data, epochs=2, weights=[1] * 5 + [2] * 2)
    other.learn(twice, epochs=2)
    np.testing.assert_allclose(net.table("a"), other.table("a"))
    with pytest.raises(EvidenceError, match="the same weight"):
        net.learn(data, weights=range(1, 8))


def test_a_hidden_markov_model_is_a_special_case() -> None:
    draw = np.random.default_rng(0)
    chain = fgrn.hmm({"y": 3, "z": 2}, hidden=2)
    rows = {"y": draw.integers(0, 3, 60).tolist(), "z": draw.integers(0, 2, 60).tolist()}
    rows["y"][7] = None
    ids = np.repeat([0, 1, 2], 20)
    chain.learn({**rows, "sequence": ids}, epochs=1)
    source, output = chain.link[1], chain.link[0]
    net = DynamicBayesianNetwork(
        {source: 2, "y": 3, "z": 2},
        {"y": [source], "z": [source]},
        {source: [source]},
        {source: chain.table(output), "y": chain.table("y"), "z": chain.table("z")},
        {source: chain.prior(source)},
    )
    data = {**rows, "sequence": ids}
    np.testing.assert_allclose(net.smooth(data).marginal(source), chain.posterior(data, source), atol=1e-10)
    np.testing.assert_allclose(net.log_likelihood(data), chain.propagate(data).log_likelihood, atol=1e-10)
    theirs, ours = chain.learn(data, epochs=6), net.learn(data, epochs=6)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=1e-8)
    np.testing.assert_allclose(net.table(source), chain.table(output), atol=1e-8)


def test_a_start_is_drawn_and_learning_finds_the_truth() -> None:
    rows = network("factorial", seed=2).sample(15, 60, seed=3)
    sizes, arcs, links = STRUCTURES["factorial"]
    net = DynamicBayesianNetwork(sizes, arcs, links)
    history = net.learn(rows, epochs=2, smoothing=0.5)
    assert history.log_likelihood[-1] > history.log_likelihood[0]
    np.testing.assert_allclose(net.table("a"), network("factorial", seed=2).table("a"), atol=0.1)
    assert net.free_parameters == (1 + 2) + (2 + 6) + 6
    assert pickle.loads(pickle.dumps(net)) == net
    frame = net.smooth(rows).to_frame()
    assert list(frame.columns[:4]) == ["sequence", "step", "a", "P(a)"]


@every_kind
def test_a_dynamic_network_is_saved(kind: str, tmp_path: Path) -> None:
    net = network(kind)
    net.learn(sequences(net), epochs=1)
    net.save(tmp_path / "n.fgrn")
    again = fgrn.load(tmp_path / "n.fgrn")
    assert again == net
    data = sequences(net)
    np.testing.assert_array_equal(again.smooth(data).marginal("y"), net.smooth(data).marginal("y"))


def test_what_is_no_dynamic_network_is_said() -> None:
    with pytest.raises(WiringError, match="No variable depends"):
        DynamicBayesianNetwork({"a": 2})
    with pytest.raises(FgrnError, match="'c'"):
        DynamicBayesianNetwork({"a": 2}, links={"a": ["c"]})
    with pytest.raises(WiringError, match="from 1 on"):
        DynamicBayesianNetwork({"a": 2}, links={"a": [("a", 0)]})
    with pytest.raises(WiringError, match="twice"):
        DynamicBayesianNetwork({"a": 2}, links=[("a", "a"), ("a", "a", 1)])
    with pytest.raises(FgrnError, match="shape"):
        DynamicBayesianNetwork({"a": 2}, links={"a": ["a"]}, tables={"a": [[1, 0]]})
    with pytest.raises(FgrnError, match="2 initial tables"):
        DynamicBayesianNetwork({"a": 2}, links={"a": ["a", ("a", 2)]}, initial={"a": [[1, 0]]})
    with pytest.raises(WiringError, match=r"GiB.*unrolled\(length\)"):
        DynamicBayesianNetwork({f"v{n}": 4 for n in range(12)}, links={f"v{n}": [f"v{n}"] for n in range(12)})
    net = DynamicBayesianNetwork({"a": 2}, links={"a": ["a"]}, tables={"a": [[1, 0], [0, 1]]})
    with pytest.raises(ImpossibleEvidence) as caught:
        net.smooth({"a": [0, 0, 1]})
    assert list(caught.value.rows) == [2]
    with pytest.raises(ImpossibleEvidence):
        net.most_probable({"a": [0, 1, 1]})
    with pytest.raises(EvidenceError, match="not a variable of a slice"):
        net.filter({"b": [0, 1]})


def test_tables_that_are_not_learnt_are_not_learnt_in_the_unrolled_network() -> None:
    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    net = DynamicBayesianNetwork({"s": 2, "o": 2}, [("s", "o")], {"s": ["s"]}, {"o": table}, frozen=["o"])
    long = net.unrolled(3)
    long.learn({f"o[{time}]": [0, 1, 1] for time in range(3)}, epochs=2)
    assert all(np.allclose(long.table(f"o[{time}]"), table) for time in range(3))
    assert not np.allclose(long.table("s[0]"), net.unrolled(1).table("s[0]"))


def test_no_rows_have_no_next_slice() -> None:
    net = DynamicBayesianNetwork({"s": 2, "o": 2}, [("s", "o")], {"s": ["s"]})
    assert net.predict({"sequence": [], "o": []}).marginal("o").shape == (0, 2)


def test_impossible_rows_are_found_by_what_there_is() -> None:
    net = DynamicBayesianNetwork({"s": 2}, (), {"s": ["s"]}, {"s": np.eye(2)})
    with pytest.raises(ImpossibleEvidence) as error:
        net.filter({"s": [0, 1]})
    assert error.value.row == 1
    assert "log_likelihood" in str(error.value)
    assert "propagate" not in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"tables": {"o": fgrn.NoisyOr({"s": 0.5})}},
        {"tables": {"o": "x"}},
        {"links": [3]},
        {"links": 3},
        {"links": ["so"]},
        {"links": {"s": [3]}},
        {"links": {"s": ["s", ("s", 2)]}, "initial": {"s": 3.0}},
        {"links": {"s": ["s", ("s", 2)]}, "initial": {"s": "xy"}},
    ],
)
def test_wrong_arguments_are_told_in_words(options: dict[str, Any]) -> None:
    with pytest.raises((WiringError, fgrn.TableError)):
        DynamicBayesianNetwork({"s": 2, "o": 2}, [("s", "o")], **{"links": {"s": ["s"]}, **options})


def test_learning_goes_on_from_a_checkpoint_and_reads_files(tmp_path: Path) -> None:
    net = network("coupled")
    rows = sequences(net)
    whole, part, resumed, read = (net.copy() for _ in range(4))
    whole.learn(rows, epochs=4)
    part.learn(rows, epochs=2, checkpoint=tmp_path / "run.ckpt", every=1)
    resumed.learn(rows, epochs=4, checkpoint=tmp_path / "run.ckpt", resume=True)
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    read.learn(tmp_path / "rows.csv", epochs=4)
    assert resumed == whole == read


def test_what_is_handed_on_may_have_many_joint_states() -> None:
    draw = np.random.default_rng(0)
    stays = {name: draw.dirichlet(np.ones(8), 8) for name in "ab"}
    net = DynamicBayesianNetwork(
        {"a": 8, "b": 8, "y": 2},
        {"y": ["a", "b"]},
        {"a": ["a"], "b": ["b"]},
        {**stays, "y": draw.dirichlet([1, 1], (8, 8))},
    )
    seen = net.smooth({"y": [0, 1]})
    wanted = net.unrolled(2).propagate({"y[0]": [0], "y[1]": [1]})
    for name in "ab":
        np.testing.assert_allclose(seen.marginal(name)[1], wanted.marginal(f"{name}[1]")[0], atol=1e-12)


# Two slices, and the commands


@pytest.mark.parametrize("kind", [kind for kind in STRUCTURES if network(kind).order == 1])
def test_two_slices_in_a_file_are_the_same_network(kind: str, tmp_path: Path) -> None:
    net, path = network(kind), tmp_path / "two.bif"
    fgrn.write(net, path)
    two = fgrn.read(path)
    assert isinstance(two, fgrn.BayesianNetwork)
    back = DynamicBayesianNetwork.of_two_slices(two)
    rows = sequences(net)
    words = {name: [None if one is None else str(one) for one in column] for name, column in rows.items()}
    ours, theirs = net.smooth(rows), back.smooth(words)
    np.testing.assert_allclose(theirs.log_likelihood, ours.log_likelihood, atol=1e-12)
    for name in net.names:
        np.testing.assert_allclose(theirs.marginal(name), ours.marginal(name), atol=1e-12)
    agrum = pytest.importorskip("pyagrum")
    question = agrum.LazyPropagation(agrum.loadBN(str(path)))
    question.makeInference()
    seen = net.predict(None, 2)
    for name in net.names:
        for step, end in enumerate("0t"):
            found = question.posterior(name + end).toarray()
            np.testing.assert_allclose(found, seen.marginal(name)[step], atol=1e-7)  # it stores 32 bits


def test_two_slices_keep_which_tables_are_never_learnt() -> None:
    net = DynamicBayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]}, {"a": ["a"]}, frozen=["b"])
    two = net.two_slices()
    assert DynamicBayesianNetwork.of_two_slices(two) == net  # also in that no table has a start
    net.learn({"a": [0, 1, 1, 0], "b": [0, 1, 0, 0]}, epochs=1)
    assert DynamicBayesianNetwork.of_two_slices(net.two_slices()) == net
    half = fgrn.BayesianNetwork(two.variables, two.parents_of_all, frozen=["b0"])
    with pytest.raises(WiringError, match="'b0' is frozen and 'bt' is not"):
        DynamicBayesianNetwork.of_two_slices(half)


def test_uai_files_have_no_names_for_two_slices(tmp_path: Path) -> None:
    net = network("coupled")
    for path, format in ((tmp_path / "net.uai.gz", None), (tmp_path / "net", "uai")):
        with pytest.raises(fgrn.NetworkFileError, match=r"no names.*\.bif"):
            fgrn.write(net, path, format)
        assert not path.exists()


def test_two_slices_whose_first_tables_differ_are_told_apart() -> None:
    two = fgrn.BayesianNetwork(
        {"u0": 2, "h0": 2, "ut": 2, "ht": 2},
        {"h0": ["u0"], "ht": ["h0"]},  # no parent in later slices
        {"u0": [0.9, 0.1], "h0": [[0.8, 0.2], [0.3, 0.7]], "ut": [0.5, 0.5], "ht": [[0.6, 0.4], [0.1, 0.9]]},
    )
    net = DynamicBayesianNetwork.of_two_slices(two)
    found = net.predict(None, 2)
    seen = two.propagate(None)
    for name in ("u", "h"):
        np.testing.assert_allclose(found.marginal(name), [seen.marginal(f"{name}{end}")[0] for end in "0t"], atol=1e-12)
    for wrong, told in [
        (fgrn.BayesianNetwork({"a": 2, "b": 2}), "no network of two slices"),
        (fgrn.BayesianNetwork({"a0": 2, "at": 2}, {"a0": ["at"]}), "later"),
        (fgrn.BayesianNetwork({"a0": 2, "at": 3}), "the same states"),
    ]:
        with pytest.raises(WiringError, match=told):
            DynamicBayesianNetwork.of_two_slices(wrong)
    with pytest.raises(WiringError, match="2 slices before"):
        network("second order").two_slices()


def test_commands_follow_and_forecast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, model, rows = network("coupled"), tmp_path / "net.fgrn", tmp_path / "log.csv"
    net.save(model)
    fgrn.write(net, tmp_path / "net.bif")
    data = net.sample(LENGTH, 3, 0)
    table = pd.DataFrame({"machine": data["sequence"], "hour": list(range(LENGTH)) * 3, "y": data["y"]})
    table = table.sample(frac=1, random_state=0)
    table.to_csv(rows, index=False)
    along = ["--sequence", "machine", "--time", "hour"]

    def answer(*words: str) -> Any:
        assert main([words[0], words[1], str(rows), *along, *words[2:], "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    seen = {"sequence": data["sequence"], "y": data["y"]}
    place = table["machine"].to_numpy() * LENGTH + table["hour"].to_numpy()
    for method, beliefs in (("smooth", net.smooth(seen)), ("filter", net.filter(seen))):
        wanted = beliefs.marginal("b").max(axis=1)[place]
        for file in (model, tmp_path / "net.bif"):
            found = answer("track", str(file), "--method", method)
            assert [one["machine"] for one in found] == table["machine"].tolist()
            assert [one["step"] for one in found] == table["hour"].tolist()
            assert "sequence" not in found[0]
            np.testing.assert_allclose([one["P(b)"] for one in found], wanted, atol=1e-9)
    path = net.most_probable(seen).labels["b"][place]
    likeliest = answer("track", str(model), "--method", "path")
    assert list(likeliest[0]) == ["machine", "step", *net.names]
    assert [one["b"] for one in likeliest] == path.tolist()
    for column, told in (("machine", "machine"), ("hour", "step")):
        assert [one[told] for one in likeliest] == table[column].tolist()
    following = answer("forecast", str(model), "--steps", "2")
    assert [one["step"] for one in following] == [1, 2] * 3  # as in `HiddenMarkovModel.forecast`
    assert [one["machine"] for one in following[::2]] == list(dict.fromkeys(table["machine"]))
    ahead = net.predict(seen, 2).marginal("y").max(axis=1)
    order = [list(dict.fromkeys(table["machine"])).index(one) for one in range(3)]
    np.testing.assert_allclose(np.reshape([one["P(y)"] for one in following], (3, 2))[order].ravel(), ahead, atol=1e-9)
    learnt = tmp_path / "learnt.fgrn"
    answer("track", str(model), "--learn", str(learnt), "--epochs", "3")
    assert fgrn.load(learnt).log_likelihood(seen).sum() > net.log_likelihood(seen).sum()
    for words, status, told in [
        (["track", str(model), str(rows)], 0, "'hour' are not variables of the network: left out. --sequence"),
        (["track", str(model), str(rows), "--sequence", "machine", "--time", "machine"], 1, "at once"),
        (["track", str(tmp_path / "log.csv"), str(rows)], 1, "no dynamic network"),
        (["predict", str(model), str(rows)], 1, "fgrn track"),
    ]:
        assert main(words) == status
        assert told in capsys.readouterr().err
