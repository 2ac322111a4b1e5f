"""The ready-made networks, and what they are for."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import Network
from fgrn.engines import installed_engines

ENGINES = installed_engines()


engines = pytest.mark.parametrize("engine", ENGINES)


def two_kinds(rows: int = 600, seed: int = 0) -> dict[str, list]:
    """A class with two prototypes of four ternary answers, 15 % of them noise."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    prototypes = np.array([[0, 1, 2, 0], [2, 1, 0, 1]])
    answers = np.where(rng.random((rows, 4)) < 0.85, prototypes[label], rng.integers(0, 3, (rows, 4)))
    data: dict[str, list] = {f"Y{i}": answers[:, i].tolist() for i in range(4)}
    data["L"] = [("benign", "malignant")[k] for k in label]
    return data


SHAPE = {"Y0": 3, "Y1": 3, "Y2": 3, "Y3": 3, "L": ["benign", "malignant"]}


def accuracy(net: Network, data: dict[str, list], engine: str = "auto") -> float:
    unlabelled = {name: column for name, column in data.items() if name != "L"}
    return float(np.mean(net.classify(unlabelled, "L", engine=engine) == np.array(data["L"])))


@engines
def test_the_papers_tasks_on_a_latent_variable_model(engine: str) -> None:
    train, test = two_kinds(), two_kinds(seed=1)
    net = fgrn.lvm(SHAPE, hidden=4)
    assert net.diameter == 3
    net.learn(train, epochs=40, smoothing=0.1, seed=1, engine=engine)
    assert accuracy(net, test, engine) > 0.9
    # completion: hide an answer and a class
    holes = {"Y0": [0, None], "Y1": [1, 1], "Y2": [None, 0], "Y3": [0, 1], "L": [None, "malignant"]}
    assert net.complete(holes, engine=engine) == {
        "Y0": [0, 2], "Y1": [1, 1], "Y2": [2, 0], "Y3": [0, 1], "L": ["benign", "malignant"],
    }  # fmt: skip
    # the prototype of a class is the forward message with a delta on it
    prototype = net.prototype("L", "malignant", engine=engine)
    assert list(prototype) == ["Y0", "Y1", "Y2", "Y3"]
    assert [int(belief.argmax()) for belief in prototype.values()] == [2, 1, 0, 1]
    seen = net.propagate({"L": ["malignant"]}, engine=engine)
    for name, belief in prototype.items():
        np.testing.assert_allclose(belief, seen.forward(name)[0], rtol=1e-12)
    # the prototype of a cluster is a row of each table
    cluster = net.prototype("S", 2, engine=engine)
    for name, belief in cluster.items():
        np.testing.assert_allclose(belief, net.table(name)[2], rtol=1e-9)
    # embedding: the product of the columns of what is known
    embedding = net.embed({"Y0": [2], "Y3": [1]}, "S", engine=engine)
    expected = net.table("Y0")[:, 2] * net.table("Y3")[:, 1]
    np.testing.assert_allclose(embedding[0], expected / expected.sum(), rtol=1e-9)
    # a partly known class: its own evidence is in the posterior, and not in the classification
    forward = net.propagate({"Y0": [2], "L": [[0.8, 0.2]]}, engine=engine).forward("L")[0]
    posterior = net.posterior({"Y0": [2], "L": [[0.8, 0.2]]}, "L", engine=engine)[0]
    np.testing.assert_allclose(posterior, forward * [0.8, 0.2] / (forward @ [0.8, 0.2]), rtol=1e-9)
    assert net.classify({"Y0": [2], "L": ["benign"]}, "L", engine=engine).tolist() == ["malignant"]


@engines
def test_naive_bayes_counts_and_equals_scikit_learn(engine: str) -> None:
    naive_bayes = pytest.importorskip("sklearn.naive_bayes")
    train, test = two_kinds(), two_kinds(seed=2)
    net = fgrn.naive_bayes(SHAPE, class_variable="L")
    net.learn(train, epochs=1, smoothing=1.0, engine=engine)
    np.testing.assert_array_equal(net.table("L"), np.eye(2))
    features = [f"Y{i}" for i in range(4)]
    theirs = naive_bayes.CategoricalNB(min_categories=3).fit(
        np.column_stack([train[name] for name in features]), train["L"]
    )
    expected = theirs.predict_proba(np.column_stack([test[name] for name in features]))
    ours = net.posterior({name: test[name] for name in features}, "L", engine=engine)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)
    assert net.variable("S").labels == ("benign", "malignant")


@engines
def test_several_hidden_variables_in_a_product_space(engine: str) -> None:
    net = fgrn.dica({"Y1": 2, "Y2": 4}, hidden=[3, 2])
    assert net.table("Y2").shape == (6, 4)
    assert net.is_tree
    assert net.diameter == 3
    rng = np.random.default_rng(0)
    data = {"Y1": rng.integers(0, 2, 50), "Y2": rng.integers(0, 4, 50)}
    net.learn(data, epochs=3, engine=engine)
    seen = net.propagate({"Y1": [1], "Y2": [3]}, engine=engine)
    joint = np.outer(net.prior("S1"), net.prior("S2")).ravel() * net.table("Y1")[:, 1] * net.table("Y2")[:, 3]
    np.testing.assert_allclose(np.exp(seen.log_likelihood), joint.sum())
    posterior = (joint / joint.sum()).reshape(3, 2)
    np.testing.assert_allclose(seen.marginal("S1")[0], posterior.sum(axis=1))
    np.testing.assert_allclose(seen.marginal("S2")[0], posterior.sum(axis=0))


def test_the_states_of_a_product_space_are_called_after_those_of_the_causes() -> None:
    net = fgrn.dica({"Y": 2}, hidden=[["old", "young"], 2])
    assert net.variable("S1,S2->Y").labels == ("old,0", "old,1", "young,0", "young,1")
    assert fgrn.dica({"Y": 2}, hidden=[2, 2]).variable("S1,S2->Y").labels == range(4)


@engines
def test_a_stack_is_trained_layer_by_layer_and_then_together(engine: str) -> None:
    rng = np.random.default_rng(3)
    top = rng.integers(0, 2, 500)
    middle = [np.where(rng.random(500) < 0.9, top, 1 - top) for _ in range(3)]
    data: dict[str, np.ndarray] = {
        f"Y{i}": np.where(rng.random(500) < 0.9, middle[i // 2], 1 - middle[i // 2]) for i in range(6)
    }
    data["L"] = top
    net = fgrn.stack({**{f"Y{i}": 2 for i in range(6)}, "L": 2}, hidden=[3, 4], groups=2, class_variable="L")
    assert net.is_tree
    assert net.layers == (
        ("Y0", "Y1", "Y2", "Y3", "Y4", "Y5"), ("S2", "S1.1", "S1.2", "S1.3", "L"),
    )  # fmt: skip
    lower = [f"Y{i}" for i in range(6)]
    before = net.copy()
    histories = net.learn_by_layer(data, epochs=15, smoothing=0.1, engine=engine)
    assert len(histories) == 2
    # the lower layer does not depend on what is above it: each group alone, under a uniform prior
    alone = fgrn.lvm({"Y0": 2, "Y1": 2}, hidden=3, learn_prior=False)
    alone._parameters = fgrn.flow.parameters.Parameters(
        np.concatenate([_start(before, "Y0", net), _start(before, "Y1", net), alone.prior("S")])
    )
    alone.learn({name: data[name] for name in ("Y0", "Y1")}, epochs=15, smoothing=0.1, engine=engine)
    frozen = {name: net.table(name).copy() for name in lower}
    np.testing.assert_allclose(alone.table("Y0"), frozen["Y0"], rtol=1e-8)
    together = net.propagate(data, keep=[], engine=engine).log_likelihood.sum()
    history = net.learn(data, epochs=10, smoothing=0.1, engine=engine)
    assert history.log_likelihood[0] == pytest.approx(together)
    assert (np.diff(history.objective) > -1e-8).all()
    assert any(not np.allclose(frozen[name], net.table(name)) for name in lower)
    unlabelled = {name: column for name, column in data.items() if name != "L"}
    assert np.mean(net.classify(unlabelled, "L", engine=engine) == top) > 0.85
    again = fgrn.stack({**{f"Y{i}": 2 for i in range(6)}, "L": 2}, hidden=[3, 4], groups=2, class_variable="L")
    assert len(again.learn_by_layer(data, epochs=2, together=3, engine=engine)) == 3


def _start(before: Network, name: str, trained: Network) -> np.ndarray:
    """The random start that `trained` drew for a table."""
    from fgrn.flow.parameters import random_start

    spec = trained._spec
    return spec.layout.table(
        random_start(spec, before._parameters, 0, 0).values, spec.layout.table_number(name)
    ).ravel()


def test_a_paused_block_lets_nothing_through() -> None:
    net = fgrn.stack({f"Y{i}": 2 for i in range(4)}, hidden=[2, 3], groups=2)
    rng = np.random.default_rng(0)
    net.learn({f"Y{i}": rng.integers(0, 2, 50) for i in range(4)}, epochs=3)
    open_ = net.propagate({"Y0": [1]})
    paused = net.propagate({"Y0": [1]}, paused=["S1.1"])
    assert not np.allclose(open_.marginal("S2"), net.prior("S2"))
    np.testing.assert_allclose(paused.marginal("S2")[0], net.prior("S2"))
    np.testing.assert_allclose(paused.forward("S1.1")[0], [0.5, 0.5])
    with pytest.raises(fgrn.UnknownNameError, match="nobody"):
        net.propagate({"Y0": [1]}, paused=["nobody"])


def test_three_layers_and_named_groups() -> None:
    names = [f"Y{i}" for i in range(8)]
    net = fgrn.stack(dict.fromkeys(names, 2), hidden=[2, 3, 4], groups=2)
    assert len(net.layers) == 3
    assert net.layers[2] == ("S3", "S2.1", "S2.2")
    named = fgrn.stack(dict.fromkeys(names, 2), hidden=[2, 3], groups=[[names[:3], names[3:]]])
    assert named.table("Y7").shape == (2, 2)
    assert {v.name for v in named.variables} >= {"S1.1", "S1.2", "S2"}
    with pytest.raises(fgrn.WiringError, match="leave out Y3"):
        fgrn.stack(dict.fromkeys(names, 2), hidden=[2, 3], groups=[[names[:3], names[4:]]])
    with pytest.raises(fgrn.WiringError, match="two or more layers"):
        fgrn.stack({"Y": 2}, hidden=[2])


def brute_force_sequences(net: Network, sequences: list[list[int]]) -> tuple[np.ndarray, ...]:
    """Baum and Welch by enumeration of all hidden paths."""
    start, step, emit = net.prior("S[0]"), net.table("S[1]"), net.table("Y[0]")
    begins, moves, emits = np.zeros_like(start), np.zeros_like(step), np.zeros_like(emit)
    total = 0.0
    for sequence in sequences:
        paths = list(product(range(len(start)), repeat=len(sequence)))
        weights = np.array(
            [start[p[0]] * np.prod([step[a, b] for a, b in pairwise(p)])
             * np.prod([emit[s, y] for s, y in zip(p, sequence, strict=True)]) for p in paths]
        )  # fmt: skip
        total += np.log(weights.sum())
        for path, weight in zip(paths, weights / weights.sum(), strict=True):
            begins[path[0]] += weight
            for a, b in pairwise(path):
                moves[a, b] += weight
            for s, y in zip(path, sequence, strict=True):
                emits[s, y] += weight
    return *(part / part.sum(axis=-1, keepdims=True) for part in (begins, moves, emits)), np.array(total)


@engines
def test_a_hidden_markov_model_on_sequences_of_unequal_length_is_baum_and_welch(engine: str) -> None:
    sequences = [[0, 1, 2, 1, 0], [2, 2], [1], [0, 0, 1, 2]]
    net = fgrn.hmm({"Y": 3}, hidden=2, length=5)
    assert net.is_tree
    rows = fgrn.sequences([{"Y": sequence} for sequence in sequences])
    assert rows["Y[4]"] == [0, None, None, None]
    net.learn(rows, epochs=1, holes="ignore", seed=4, engine=engine)
    start, step, emit, total = brute_force_sequences(net, sequences)
    history = net.learn(rows, epochs=1, holes="ignore", engine=engine)
    assert history.log_likelihood[0] == pytest.approx(float(total))
    np.testing.assert_allclose(net.prior("S[0]"), start, rtol=1e-9)
    np.testing.assert_allclose(net.table("S[3]"), step, rtol=1e-9)
    np.testing.assert_allclose(net.table("Y[2]"), emit, rtol=1e-9)


def test_wrong_words_get_plain_answers() -> None:
    with pytest.raises(fgrn.UnknownNameError, match="'LL'"):
        fgrn.naive_bayes({"Y": 2, "L": 2}, class_variable="LL")
    with pytest.raises(fgrn.WiringError, match="mapping"):
        fgrn.lvm({}, hidden=2)
    with pytest.raises(fgrn.WiringError, match="each hidden variable"):
        fgrn.dica({"Y": 2}, hidden=3)
    with pytest.raises(fgrn.WiringError, match="'length'"):
        fgrn.hmm({"Y": 2}, hidden=2, length=0)
    with pytest.raises(fgrn.WiringError, match="Sequence 1 has 3 steps"):
        fgrn.sequences([{"Y": [0]}, {"Y": [0, 1, 1]}], length=2)
    net = fgrn.lvm({"Y": ["a", "b"]}, hidden=2)
    with pytest.raises(fgrn.UnknownNameError, match="'c'"):
        net.prototype("Y", "c")


# What the states of hidden variables mean


@pytest.mark.parametrize("length", [None, 4])
def test_labels_of_hidden_states_mean_what_their_initial_table_says(length: int | None) -> None:
    """The example of the README: with its start for all seeds, and without it for some of them only."""
    sounds = [["hum", "hum", "rattle", "rattle"], ["hum", None, "hum"]]
    log: Any = {"sequence": [0] * 4 + [1] * 3, "sound": sounds[0] + sounds[1]}
    log = log if length is None else fgrn.sequences([{"sound": one} for one in sounds], length)

    def heard(seed: int, tables: Any) -> list[str]:
        net = fgrn.hmm({"sound": ["hum", "rattle"]}, ["well", "worn"], length, tables=tables)
        net.learn(log, epochs=12, smoothing=0.1, seed=seed, starts=1 + seed % 2, holes="ignore", engine="reference")
        table = net.table("sound")
        return ["hum" if row[0] > row[1] else "rattle" for row in table]

    rough = [[0.7, 0.3], [0.3, 0.7]]
    for seed in range(4):
        assert heard(seed, {"sound": rough}) == ["hum", "rattle"]
        assert heard(seed, {"sound": rough[::-1]}) == ["rattle", "hum"]
    assert {tuple(heard(seed, None)) for seed in range(8)} >= {("hum", "rattle"), ("rattle", "hum")}


def test_labels_of_a_latent_variable_mean_what_their_start_says() -> None:
    rng = np.random.default_rng(0)
    ill = rng.random(300) < 0.3
    rows = {name: np.where(rng.random(300) < 0.85, ill, ~ill).astype(int) for name in ("fever", "cough", "ache")}
    states = {name: ["no", "yes"] for name in rows}
    for seed in range(4):
        net = fgrn.lvm(states, hidden=["well", "ill"], tables={"fever": [[0.7, 0.3], [0.3, 0.7]]})
        net.learn(rows, epochs=30, smoothing=0.1, seed=seed, starts=1 + seed % 2, engine="reference")
        for name in rows:
            assert net.table(name)[0, 0] > 0.6 > 0.4 > net.table(name)[1, 0]
        assert net.prior("S")[0] > 0.5


def test_tables_to_start_from_are_those_of_the_network() -> None:
    states = {"a": 2, "b": 3, "c": 2}
    two, three, four = [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [[0.25, 0.75]] * 4
    for net, given in [
        (fgrn.lvm(states, 2, tables={"a": two, "S": [0.3, 0.7]}), {"a": two, "S": [0.3, 0.7]}),
        (fgrn.naive_bayes(states, "a", tables={"b": three, "a": np.eye(2)}), {"b": three, "a": np.eye(2)}),
        (fgrn.dica(states, [2, 2], tables={"c": four, "S2": [0.4, 0.6]}), {"c": four, "S2": [0.4, 0.6]}),
        (fgrn.stack(states, [2, 2], tables={"b": three, "S1.2": two}), {"b": three, "S1.2": two}),
        (fgrn.hmm(states, 2, tables={"b": three, "S next": two}), {"b": three, "S next": two}),
        (
            fgrn.hmm(states, 2, 3, tables={"b": three, "S next": two, "S": [0.3, 0.7]}),
            {"b": three, "S to S": two, "S[0]": [0.3, 0.7]},
        ),
    ]:
        for name, start in given.items():
            found = net.prior(name) if np.ndim(start) == 1 else net.table(name)
            np.testing.assert_allclose(found, start)
        layout = net._spec.layout
        assert len(net._parameters.undrawn_tables) + len(net._parameters.undrawn_priors) == (
            len(layout.table_names) + len(layout.prior_names) - len(given)
        )


def test_tables_to_start_from_that_are_none_are_refused_in_words() -> None:
    states = {"colour": 2, "b": 2}
    with pytest.raises(fgrn.UnknownNameError, match=r"no table 'color' here\. Did you mean 'colour'"):
        fgrn.lvm(states, 2, tables={"color": np.eye(2)})
    with pytest.raises(fgrn.UnknownNameError, match="Known: S, S next, b, colour"):
        fgrn.hmm(states, 2, 3, tables={"S following": np.eye(2)})
    with pytest.raises(fgrn.TableError, match=r"'colour'.*\(3, 2\)"):
        fgrn.lvm(states, 3, tables={"colour": np.eye(2)})
    with pytest.raises(fgrn.WiringError, match="'tables' is a mapping"):
        fgrn.stack(states, [2, 2], tables=[np.eye(2)])
    with pytest.raises(fgrn.WiringError, match="given twice"):
        fgrn.lvm(states, 2, prior=[0.5, 0.5], tables={"S": [0.4, 0.6]})
    with pytest.raises(fgrn.TableError):
        fgrn.naive_bayes(states, "b", tables={"b": [[0.5, 0.5], [0.5, 0.5]]})


def test_a_mixture_of_one_state_for_each_class_is_naive_bayes() -> None:
    rng = np.random.default_rng(0)
    rows = {"a": rng.integers(0, 3, 80), "y": np.array(["no", "yes"])[rng.integers(0, 2, 80)]}
    observed = {"a": 3, "y": ["no", "yes"]}
    one, other = fgrn.class_mixture(observed, "y", 1), fgrn.naive_bayes(observed, "y")
    for net in (one, other):
        net.learn(rows, epochs=3, smoothing=1.0, engine="reference")
    assert one.posterior({"a": [0, 1, 2]}, "y") == pytest.approx(other.posterior({"a": [0, 1, 2]}, "y"))


def test_every_class_has_hidden_states_of_its_own() -> None:
    net = fgrn.class_mixture({"a": 2, "y": ["no", "yes", "?"]}, "y", [2, 1, 3])
    assert net.variable("S").labels == ("no.1", "no.2", "yes.1", "?.1", "?.2", "?.3")
    assert np.array_equal(net.table("y"), np.repeat(np.eye(3), [2, 1, 3], axis=0))
    net.learn({"a": [0, 1, 1, 0], "y": ["no", "yes", "?", "?"]}, epochs=3, smoothing=0.5, engine="reference")
    assert np.array_equal(net.table("y"), np.repeat(np.eye(3), [2, 1, 3], axis=0))
    assert net.free_parameters == 6 + 5  # a row of two cells for each state, and the prior


def test_a_mixture_for_no_class_is_refused() -> None:
    with pytest.raises(fgrn.FgrnError, match="z"):
        fgrn.class_mixture({"a": 2, "y": 2}, "z", 2)
    with pytest.raises(fgrn.WiringError, match="each of the 2 classes"):
        fgrn.class_mixture({"a": 2, "y": 2}, "y", [1, 2, 3])
    with pytest.raises(fgrn.WiringError, match="hidden"):
        fgrn.class_mixture({"a": 2, "y": 2}, "y", 0)


def test_groups_of_one_layer_need_a_list_for_the_layer() -> None:
    observed = dict.fromkeys("abcd", 2)
    with pytest.raises(fgrn.WiringError, match=r"here 1: .* Got 2 entries instead.*groups=\[\[\['a', 'b'\]"):
        fgrn.stack(observed, hidden=[2, 2], groups=[["a", "b"], ["c", "d"]])
    assert fgrn.stack(observed, hidden=[2, 2], groups=[[["a", "b"], ["c", "d"]]]).variable("S1.2").cardinality == 2
