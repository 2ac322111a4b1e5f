"""Chains against the same model unrolled as a Network: messages, likelihood, epochs, and errors."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable
from fgrn.engines import installed_engines, scans
from fgrn.flow import sequences
from fgrn.flow.reachable_states import possible_states
from fgrn.graph.chain import Chain

ENGINES = installed_engines()


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_is_asked_for")]

engines = pytest.mark.parametrize("engine", ENGINES)


def started(net: Network, tables: dict[str, np.ndarray]) -> list:
    """Return the blocks with given tables, by the first part of the names of their outputs."""
    blocks: list = []
    for block in net.blocks:
        if isinstance(block, Source):
            blocks.append(Source(block.variable, tables["prior"]))
        elif isinstance(block, SISO):
            kind = block.output.name.split("[")[0].split(" ")[0]
            blocks.append(SISO(block.input, block.output, tables[kind], tie=block.tie))
        else:
            blocks.append(block)
    return blocks


def both(
    rng: np.random.Generator, lengths: list[int], zeros: bool = False
) -> tuple[Chain, Network, dict[str, list], dict[str, list]]:
    """Return a chain and the unrolled network, with data for each, which have all kinds of evidence."""
    hidden, states = int(rng.integers(1, 5)), [int(n) for n in rng.integers(2, 4, 2)]
    tables = {"prior": rng.dirichlet(np.ones(hidden)), "S": rng.dirichlet(np.ones(hidden), hidden)}
    tables |= {name: rng.dirichlet(np.ones(n), hidden) for name, n in zip("XY", states, strict=True)}
    if zeros and hidden > 1:
        tables["S"] = np.triu(tables["S"])
        tables["S"] /= tables["S"].sum(axis=1, keepdims=True)
    observed = dict(zip("XY", states, strict=True))
    plain = fgrn.hmm(observed, hidden)
    chain = Chain(started(plain, tables), ("S next", "S"))
    unrolled = Network(started(fgrn.hmm(observed, hidden, length=max(lengths)), tables))
    long: dict[str, list] = {"sequence": [], "X": [], "Y": [], "S": []}
    wide: dict[str, list] = {f"{name}[{t}]": [] for t in range(max(lengths)) for name in "XYS"}
    for number, length in enumerate(lengths):
        for t in range(max(lengths)):
            for name, count in (*observed.items(), ("S", hidden)):
                kind = rng.choice(["hard", "hole", "soft"], p=[0.1, 0.85, 0.05] if name == "S" else [0.6, 0.2, 0.2])
                value = {"hard": int(rng.integers(count)), "hole": None, "soft": rng.random(count).tolist()}[str(kind)]
                if t < length:
                    long[name].append(value)
                wide[f"{name}[{t}]"].append(value if t < length else None)
            if t < length:
                long["sequence"].append(f"number {number}")
    return chain, unrolled, long, wide


LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@engines
@given(seed=st.integers(0, 2**32 - 1), lengths=LENGTHS)
def test_the_messages_of_a_chain_are_those_of_the_steps_unrolled(engine: str, seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    chain, unrolled, long, wide = both(rng, lengths, zeros=bool(rng.integers(2)))
    one = unrolled.propagate(wide, impossible="mark", engine="reference")
    possible = ~one.impossible
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    if not possible.all():
        with pytest.raises(fgrn.ImpossibleEvidence):
            chain.propagate(long, engine=engine)
        return
    other = chain.propagate(long, engine=engine)
    np.testing.assert_allclose(np.bincount(row_of, other.log_likelihood), one.log_likelihood, rtol=1e-9, atol=1e-9)
    row = 0
    for number, length in enumerate(lengths):
        for t in range(length):
            for name in ("X", "Y", "S"):
                for part in ("forward", "backward", "marginal"):
                    got, expected = getattr(other, part)(name)[row], getattr(one, part)(f"{name}[{t}]")[number]
                    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10, err_msg=f"{part} {name} {t}")
            if t + 1 < length:
                for part in ("forward", "marginal"):
                    got, expected = getattr(other, part)("S next")[row], getattr(one, part)(f"S[{t + 1}]")[number]
                    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
            row += 1


@engines
@given(seed=st.integers(0, 2**32 - 1), lengths=LENGTHS, holes=st.sampled_from(["expect", "ignore"]))
def test_an_epoch_of_a_chain_is_one_of_the_steps_unrolled(
    engine: str, seed: int, lengths: list[int], holes: str
) -> None:
    """The unrolled steps beyond the end of a shorter sequence are not counted."""
    rng = np.random.default_rng(seed)
    chain, unrolled, long, wide = both(rng, [max(lengths)] * len(lengths))
    shares = rng.choice([0.5, 1.0, 2.0], len(lengths))
    weights = np.repeat(shares, max(lengths))
    epochs = 2 if holes == "expect" else 1  # a chain counts every step, even if nothing is known from there on
    one = unrolled.learn(wide, epochs=epochs, weights=shares, holes=holes, engine="reference", smoothing=0.1)
    other = chain.learn(long, epochs=epochs, weights=weights, holes=holes, engine=engine, smoothing=0.1)
    np.testing.assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(chain.prior("S"), unrolled.prior("S[0]"), rtol=1e-7, atol=1e-10)
    names = {"X": "X[0]", "Y": "Y[0]"}
    if max(lengths) > 1 and holes == "expect":
        names["S next"] = "S[1]"
    for name, step in names.items():
        np.testing.assert_allclose(chain.table(name), unrolled.table(step), rtol=1e-7, atol=1e-10, err_msg=name)


def test_the_likelihood_never_falls_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(60), 40)
    data = {"sequence": ids, "Y": rng.integers(0, 4, 2400)}
    learnt = []
    for threads in (1, 2, 3):
        chain = fgrn.hmm({"Y": 4}, 3)
        history = chain.learn(data, epochs=15, engine="cpu", threads=threads)
        assert (np.diff(history.log_likelihood) > -1e-8).all()
        learnt.append(chain)
    assert learnt[0] == learnt[1] == learnt[2]


@engines
def test_ten_thousand_steps(engine: str) -> None:
    rng = np.random.default_rng(2)
    hidden = np.cumsum(rng.random(10_000) < 0.05) % 2
    data = {"Y": np.where(rng.random(10_000) < 0.9, hidden, 1 - hidden)}
    chain = fgrn.hmm({"Y": 2}, 2)
    chain.learn(data, epochs=2 if engine == "reference" else 100, engine=engine)
    seen = chain.propagate(data, keep=["S"], engine=engine)
    assert np.isfinite(seen.log_likelihood).all()
    if engine == "cpu":
        agreement = (chain.classify(data, "S") == hidden).mean()
        assert max(agreement, 1 - agreement) > 0.95
        np.testing.assert_allclose(chain.table("S next").diagonal(), 0.95, atol=0.01)


def test_tables_of_all_kinds_and_what_is_made_of_them() -> None:
    chain = fgrn.hmm({"Y": ["a", "b"]}, 2, sequence="day")
    rows = {"day": ["mon", "mon", "tue", "tue"], "Y": ["a", None, "b", "b"]}
    days = [f"{day} {week}" for week in range(5) for day in rows["day"]]
    chain.learn({"day": days, "Y": ["a", "a", "b", "b"] * 5}, epochs=5)
    expected = chain.posterior(rows, "S")
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows)):
        np.testing.assert_allclose(chain.posterior(frame, "S"), expected)
        filled = chain.complete(frame)
        assert list(filled["day"]) == rows["day"]
        assert list(filled["Y"])[1] in ("a", "b")
    assert chain.embed(rows, "S").shape == (4, 2)
    assert chain.classify(rows, "S").shape == (4,)
    assert "chained: 'S next' is 'S' of the next row of its 'day'" in repr(chain)


def test_it_can_be_saved_copied_and_sent(tmp_path: Path) -> None:
    chain = fgrn.hmm({"Y": 3}, 2, sequence="day")
    chain.learn({"Y": [0, 1, 2, 1, 0]}, epochs=2)
    chain.save(tmp_path / "m.fgrn")
    back = fgrn.load(tmp_path / "m.fgrn")
    for other in (back, chain.copy(), pickle.loads(pickle.dumps(chain))):
        assert isinstance(other, Chain)
        assert other == chain
        assert (other.link, other.sequence) == (("S next", "S"), "day")
    same = Network(chain.blocks)
    same._parameters = chain._parameters
    assert chain != same
    assert same != chain


def test_what_cannot_be_is_refused_in_words() -> None:
    chain = fgrn.hmm({"Y": 2}, 2)
    with pytest.raises(
        fgrn.EvidenceError, match="Row 2, 'sequence': the rows of a sequence must be consecutive, but 'a' had ended"
    ):
        chain.propagate({"sequence": ["a", "b", "a"], "Y": [0, 1, 0]})
    with pytest.raises(fgrn.EvidenceError, match="Row 1, 'sequence': it is not known which sequence"):
        chain.propagate({"sequence": ["a", None], "Y": [0, 1]})
    with pytest.raises(fgrn.EvidenceError, match="'sequence': it has 1 row, the others have 2"):
        chain.propagate({"sequence": ["a"], "Y": [0, 1]})
    with pytest.raises(fgrn.EvidenceError, match="'S next' is 'S' of the next row"):
        chain.propagate({"S next": [0]})
    with pytest.raises(fgrn.EvidenceError, match="All rows of a sequence must have the same weight"):
        chain.learn({"Y": [0, 1]}, weights=[1, 2])
    with pytest.raises(fgrn.LearningError, match="'cycles' must be 1: a chain is scanned once an epoch") as caught:
        chain.learn({"Y": [0, 1]}, cycles=2)
    assert (caught.value.setting, caught.value.value) == ("cycles", 2)
    with pytest.raises(fgrn.LearningError, match="neither rounds nor blocks that pause"):
        chain.learn({"Y": [0, 1]}, paused=["Y"])
    with pytest.raises(fgrn.LearningError, match="cannot pause"):
        chain.learn_by_layer({"Y": [0]})
    for wrong in ({"schedule": "rounds"}, {"rounds": 3}, {"damping": 0.1}, {"paused": ["Y"]}):
        with pytest.raises(fgrn.FgrnError, match="scanned along its rows"):
            chain.propagate({"Y": [0]}, **wrong)
    with pytest.raises(fgrn.FgrnError, match="scanned along its rows"):
        chain.steps({"Y": [0]})
    with pytest.raises(fgrn.WiringError, match="like the column that tells sequences apart"):
        fgrn.hmm({"sequence": 2}, 2)


def test_what_cannot_be_linked_is_refused_in_words() -> None:
    S, A, B, N = Variable("S", 2), Variable("A", 2), Variable("B", 2), Variable("N", 2)
    Y, Z = Variable("Y", 2), Variable("Z", 3)
    blocks = [Source(S), Diverter([S], [A, B]), SISO(A, Y), SISO(B, N)]
    assert Chain(blocks, ("N", "S")).link == ("N", "S")
    with pytest.raises(fgrn.WiringError, match="'A' is the hidden variable of the next row: it must be the output"):
        Chain(blocks, ("A", "S"))
    with pytest.raises(fgrn.WiringError, match="'A' must come from a Source"):
        Chain(blocks, ("N", "A"))
    with pytest.raises(fgrn.WiringError, match="same states"):
        Chain([*blocks[:-1], SISO(B, Z)], ("Z", "S"))
    with pytest.raises(fgrn.WiringError, match="is two names"):
        Chain(blocks, "NS")
    with pytest.raises(fgrn.UnknownNameError):
        Chain(blocks, ("M", "S"))
    C = Variable("C", 2)
    with pytest.raises(fgrn.WiringError, match="must be connected to the Diverter of 'S'"):
        Chain([Source(S), Diverter([S], [A]), SISO(A, C), Diverter([C], [B]), SISO(B, N)], ("N", "S"))


@engines
def test_a_row_that_cannot_follow_is_named(engine: str) -> None:
    tables = {"prior": np.array([1.0, 0.0]), "S": np.eye(2), "Y": np.eye(2)}
    chain = Chain(started(fgrn.hmm({"Y": 2}, 2), tables), ("S next", "S"))
    with pytest.raises(fgrn.ImpossibleEvidence, match="Row 3: "):
        chain.propagate({"sequence": [1, 1, 2, 2], "Y": [0, 0, 0, 1]}, engine=engine)
    with pytest.raises(fgrn.ImpossibleEvidence, match="Row 3: "):
        chain.learn({"sequence": [1, 1, 2, 2], "Y": [0, 0, 0, 1]}, engine=engine)


@engines
def test_what_is_impossible_is_marked_on_request(engine: str) -> None:
    tables = {"prior": np.array([1.0, 0.0]), "S": np.array([[0.5, 0.5], [0.0, 1.0]]), "Y": np.eye(2)}
    chain = Chain(started(fgrn.hmm({"Y": 2}, 2), tables), ("S next", "S"))
    data = {"sequence": list("aaaabbbccd"), "Y": [0, 1, 0, 0, 0, 0, 1, 1, 0, 0]}
    seen = chain.propagate(data, impossible="mark", engine=engine)
    assert np.flatnonzero(seen.impossible).tolist() == [2, 3, 7, 8]
    alone = chain.propagate({"sequence": list("aabbbd"), "Y": [0, 1, 0, 0, 1, 0]}, engine=engine)
    rows = [0, 1, 4, 5, 6, 9]
    np.testing.assert_allclose(seen.log_likelihood[rows], alone.log_likelihood)
    np.testing.assert_allclose(seen.marginal("S")[rows], alone.marginal("S"))
    assert not seen.marginal("S")[[2, 3, 7, 8]].any()


@engines
def test_rows_of_which_nothing_is_known_are_certain_in_the_log_domain_too(engine: str) -> None:
    steps = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])  # the first state is never left
    tables = {"prior": np.full(3, 1 / 3), "S": steps, "Y": np.full((3, 2), 0.5)}
    chain = Chain(started(fgrn.hmm({"Y": 2}, 3), tables), ("S next", "S"))
    faint = [1, 1e-300, 0]  # twice: the product underflows, and only the second state leads on
    found = chain.propagate({"S": [None, None, faint, faint, None, 1, None]}, engine=engine).log_likelihood.sum()
    first = (np.full(3, 1 / 3) @ steps @ steps)[1]
    assert np.isclose(found, np.log(first) + 2 * np.log(1e-300) + 3 * np.log(0.5), rtol=1e-13)


@engines
def test_no_rows_have_no_messages(engine: str) -> None:
    chain = fgrn.hmm({"Y": 2}, 3)
    for table in ({"Y": []}, {"Y": [], "sequence": []}, pd.DataFrame({"Y": []})):
        assert chain.posterior(table, "S", engine=engine).shape == (0, 3)
    assert chain.complete({"Y": []}, engine=engine) == {"Y": []}


def test_names_that_are_none_are_refused_in_words() -> None:
    with pytest.raises(fgrn.WiringError, match="'sequence' is the name of a column"):
        fgrn.hmm({"Y": 2}, 2, sequence=["x"])  # type: ignore[arg-type]
    with pytest.raises(fgrn.WiringError, match="is two names"):
        Chain(fgrn.hmm({"Y": 2}, 2).blocks, None)  # type: ignore[arg-type]
    with pytest.raises(fgrn.WiringError, match="is called 'S next'"):
        fgrn.hmm({"Y": 2, "S next": 2}, 2)
    with pytest.raises(fgrn.EvidenceError, match=r"Row 0, 'sequence': \[1\] is not the name of a sequence"):
        fgrn.hmm({"Y": 2}, 2).propagate({"sequence": [[1], [2]], "Y": [0, 1]})


# The likeliest path


@given(seed=st.integers(0, 2**32 - 1), lengths=LENGTHS)
def test_the_likeliest_path_is_that_of_the_steps_unrolled(seed: int, lengths: list[int]) -> None:
    chain, _, long, _ = both(np.random.default_rng(seed), lengths, zeros=seed % 2 == 0)
    try:
        labels, logs = chain.most_probable(long, names=["X", "Y", "S"])
    except fgrn.ImpossibleEvidence:
        assert chain.propagate(long, impossible="mark").impossible.any()
        return
    at = 0
    tables = {name: chain.table(name) for name in ("X", "Y")} | {"S": chain.table("S next"), "prior": chain.prior("S")}
    observed = {name: chain.variable(name).cardinality for name in "XY"}
    for number, length in enumerate(lengths):
        unrolled = Network(started(fgrn.hmm(observed, chain.variable("S").cardinality, length=length), tables))
        steps = [(name, t) for t in range(length) for name in "XYS"]
        _, expected = unrolled.most_probable({f"{name}[{t}]": [long[name][at + t]] for name, t in steps})
        assert logs[number] == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
        chosen = {f"{name}[{t}]": [int(labels[name][at + t])] for name, t in steps}
        reached = unrolled.propagate(chosen).log_likelihood[0]
        for name, t in steps:
            if isinstance(long[name][at + t], list):
                reached += np.log(long[name][at + t][chosen[f"{name}[{t}]"][0]])
        assert reached == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
        at += length


def test_the_likeliest_path_is_that_of_hmmlearn() -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(5)
    prior, table, emission = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(6), 4)
    chain = Chain(started(fgrn.hmm({"X": 6}, 4), {"prior": prior, "S": table, "X": emission}), ("S next", "S"))
    lengths = [1, 50, 7, 200]
    values = rng.integers(0, 6, sum(lengths))
    other = hmm.CategoricalHMM(4)
    other.startprob_, other.transmat_, other.emissionprob_ = prior, table, emission
    ids = np.repeat(np.arange(4), lengths)
    labels, logs = chain.most_probable({"sequence": ids, "X": values}, names=["S", "X", "S next"])
    total, path = other.decode(values[:, None], lengths)
    assert logs.sum() == pytest.approx(total, rel=1e-10)
    assert np.array_equal(labels["S"], path)
    assert np.array_equal(labels["X"], values)
    assert np.array_equal(labels["S next"][:-1][ids[1:] == ids[:-1]], path[1:][ids[1:] == ids[:-1]])


# What is too small for plain numbers


@engines
def test_a_state_whose_probability_underflows_for_many_rows_is_recovered(engine: str) -> None:
    """Sequences without transitions: thousands of rows for one state, then more for the other."""
    emission = np.array([[0.9, 0.1], [0.1, 0.9]])
    chain = Chain(started(fgrn.hmm({"X": 2}, 2), {"prior": [0.5, 0.5], "S": np.eye(2), "X": emission}), ("S next", "S"))
    values = np.array([0] * 600 + [1] * 900)
    found = chain.propagate({"X": values}, engine=engine)
    logs = np.log(0.5) + np.array([np.log(emission[s, values]).sum() for s in range(2)])
    assert found.log_likelihood.sum() == pytest.approx(np.logaddexp(*logs), rel=1e-12)
    expected = np.exp(logs - np.logaddexp(*logs))
    for name in ("S", "S next"):
        np.testing.assert_allclose(found.marginal(name), np.tile(expected, (1500, 1)), atol=1e-12)
    history = chain.learn({"X": values}, epochs=1, engine=engine)
    assert history.log_likelihood[0] == pytest.approx(np.logaddexp(*logs), rel=1e-12)
    np.testing.assert_allclose(chain.prior("S"), expected, atol=1e-12)
    np.testing.assert_allclose(chain.table("X")[1], [0.4, 0.6], atol=1e-12)


@engines
@given(seed=st.integers(0, 2**32 - 1))
def test_rows_that_are_sure_of_themselves_and_contradict_each_other(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hidden, length = 3, int(rng.integers(2, 6))
    table = rng.dirichlet(np.ones(hidden), hidden) * (rng.random((hidden, hidden)) < 0.6)
    table[np.arange(hidden), rng.permutation(hidden)] += 0.1
    table /= table.sum(axis=1, keepdims=True)
    extreme = 10.0 ** -rng.uniform(0, 300, (hidden, 4)) * (rng.random((hidden, 4)) < 0.9)
    extreme[:, 3] = 1.0
    extreme /= extreme.sum(axis=1, keepdims=True)
    tables = {"prior": rng.dirichlet(np.ones(hidden)), "S": table, "X": extreme, "Y": extreme[:, ::-1]}
    observed = {"X": 4, "Y": 4}
    chain = Chain(started(fgrn.hmm(observed, hidden), tables), ("S next", "S"))
    unrolled = Network(started(fgrn.hmm(observed, hidden, length=length), tables))
    values = {name: rng.integers(0, 4, length) for name in observed}
    wide = {f"{name}[{t}]": [int(values[name][t])] for t in range(length) for name in observed}
    expected = unrolled.propagate(wide, engine="reference", impossible="mark")
    found = chain.propagate(values, engine=engine, impossible="mark")
    if expected.impossible[0]:
        assert found.impossible.any()
        return
    assert found.log_likelihood.sum() == pytest.approx(expected.log_likelihood[0], rel=1e-10)
    for t in range(length):
        np.testing.assert_allclose(found.marginal("S")[t], expected.marginal(f"S[{t}]")[0], atol=1e-9)


@engines
def test_a_sequence_that_underflows_hides_no_other(engine: str) -> None:
    """One sequence underflows at first, beside one that loses the state its last row needs."""
    table = np.array([[1 - 1e-200, 0, 1e-200], [0, 1, 0], [0, 0, 1]])
    emission = np.array([[1 - 2e-10, 1e-10, 1e-10], [1e-8, 1 - 2e-8, 1e-8], [1e-8, 1e-8, 1 - 2e-8]])
    emission[0] = [1.0, 0.0, 0.0]
    tables = {"prior": [0.5, 0.5, 0.0], "S": table, "X": emission}
    chain = Chain(started(fgrn.hmm({"X": 3}, 3), tables), ("S next", "S"))
    one, other = [0] * 60 + [1], [0] * 100 + [2]
    alone = [chain.propagate({"X": part}, engine="reference") for part in (one, other)]
    ids = [0] * len(one) + [1] * len(other)
    both_at_once = chain.propagate({"X": one + other, "sequence": ids}, engine=engine)
    expected = np.concatenate([part.log_likelihood for part in alone])
    np.testing.assert_allclose(both_at_once.log_likelihood, expected, rtol=1e-9, atol=1e-9)
    beliefs = np.concatenate([part.marginal("S") for part in alone])
    np.testing.assert_allclose(both_at_once.marginal("S"), beliefs, atol=1e-9)
    chain.learn({"X": one + other, "sequence": ids}, epochs=1, engine=engine)


def test_a_chain_does_not_draw_given_evidence() -> None:
    with pytest.raises(fgrn.FgrnError, match="unroll"):
        fgrn.hmm({"X": 2}, 2).sample(3, {"X": [0]})


def test_the_hidden_variable_is_named_and_not_what_leads_on() -> None:
    labels, _ = fgrn.hmm({"X": 2}, 2).most_probable({"X": [0, 1]})
    assert list(labels) == ["S", "X"]


def test_decoding_is_the_same_in_all_engines() -> None:
    rng = np.random.default_rng(4)
    rows = 300
    tables = {
        "S": [0.5, 0.5, 0.0],
        "S next": [[0.6, 0.4, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]],
        "Y": rng.dirichlet(np.ones(4), 3),
        "Z": [[1.0, 0.0], [0.5, 0.5], [1e-200, 1.0]],
    }
    chain = fgrn.hmm({"Y": 4, "Z": 2}, 3, tables=tables)
    drawn = chain.sample(rows, seed=1, names=["Y", "Z"])
    table = {name: np.where(rng.random(rows) < 0.2, np.nan, drawn[name]) for name in ("Y", "Z")}
    table["sequence"] = [0] * rows
    assert (chain.decode(table, engine="cpu") == chain.decode(table, engine="reference")).all()
    alone = {**table, "sequence": list(range(rows))}
    own = chain.propagate({**alone}, keep=["S"]).marginal("S").argmax(axis=1)
    assert (chain.decode(alone, engine="cpu") == own).all()


@given(seed=st.integers(0, 2**32 - 1), states=st.integers(1, 4), rows=st.integers(1, 30))
def test_steps_of_a_scan_may_be_taken_in_any_order(seed: int, states: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    table, local = (rng.random(shape) * (rng.random(shape) < 0.8) for shape in ((states, states), (rows, states)))
    begins = rng.random(rows) < 0.2
    begins[0] = True
    given_ = [scans.logarithm(one) for one in (rng.dirichlet(np.ones(states)), table, local)]
    for total in (scans.log_sum, np.max):
        found = {}
        for cells in (0, 2**40):  # sequences side by side, and by halves
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(scans, "STEP_CELLS", cells)
                found[cells] = scans.along_rows(*given_, begins, total)
        np.testing.assert_allclose(found[0], found[2**40], atol=1e-12)


@engines
def test_rows_of_one_kind_have_one_message_also_with_evidence_on_the_hidden_variable(engine: str) -> None:
    chain = fgrn.hmm({"Y": 3, "Z": 2}, hidden=2, tables={"Y": [[0.9, 0.1, 0], [0.2, 0.3, 0.5]]})
    rng = np.random.default_rng(0)
    rows: dict = {"Y": rng.integers(0, 3, 60).tolist(), "Z": [0, None, 1] * 20, "S": [[0.2, 0.8]] * 60}
    rows["S"][7] = None
    found = chain.propagate(rows, keep=["S"], engine=engine)
    each = chain.propagate({**rows, "Z": [[1.0, 0.0], None, [0.0, 1.0]] * 20}, engine=engine)  # no kinds: soft values
    for way in ("forward", "backward", "marginal"):
        np.testing.assert_allclose(getattr(found, way)("S"), getattr(each, way)("S"), atol=1e-12)
    np.testing.assert_allclose(found.log_likelihood, each.log_likelihood, atol=1e-11)
    only = chain.propagate(rows, keep=[], engine=engine).log_likelihood
    np.testing.assert_allclose(only, each.log_likelihood, atol=1e-11)
    wrong = {**rows, "S": [*rows["S"][:30], [1.0, 0.0], *rows["S"][31:]], "Y": [*rows["Y"][:30], 2, *rows["Y"][31:]]}
    with pytest.raises(fgrn.ImpossibleEvidence) as caught:
        chain.propagate(wrong, engine=engine)
    assert next(iter(caught.value.rows)) == 30


def test_messages_of_kinds_of_rows_are_kept_until_the_tables_change() -> None:
    tables = {"Y": [[0.9, 0.1, 0], [0.2, 0.3, 0.5]], "Z": [[1, 0], [0, 1]]}  # Y=2 with Z=0 is impossible
    chain = fgrn.hmm({"Y": 3, "Z": 2}, hidden=2, tables=tables)
    rng = np.random.default_rng(1)
    rows = {"Y": rng.integers(0, 2, 80).tolist(), "Z": [None, 1, None, 0] * 20}
    rows["Y"][1] = 2

    def agrees() -> np.ndarray:
        """The same answers as the other engine, twice: made, and kept."""
        other = chain.propagate(rows, engine="reference")
        for _ in range(2):
            found = chain.propagate(rows, keep=["S"], engine="cpu")
            np.testing.assert_allclose(found.marginal("S"), other.marginal("S"), atol=1e-12)
            np.testing.assert_allclose(found.log_likelihood, other.log_likelihood, atol=1e-11)
            assert (chain.decode(rows, engine="cpu") == chain.decode(rows, engine="reference")).all()
        return found.log_likelihood

    before = agrees()
    chain.learn(rows, epochs=2, engine="cpu")
    assert agrees().sum() > before.sum() + 1
    rows["Z"][1] = 0
    for _ in range(2):
        with pytest.raises(fgrn.ImpossibleEvidence) as caught:
            chain.decode(rows, engine="cpu")
        assert next(iter(caught.value.rows)) == 1


def test_a_chain_that_compiled_kernels_have_learnt_is_asked_by_them(tmp_path: Path) -> None:
    rows = {"Y": np.random.default_rng(2).integers(0, 3, 40)}
    chain = fgrn.hmm({"Y": 3}, hidden=2)
    chain.learn(rows, epochs=3, engine="reference")
    slow = chain.propagate(rows, engine="reference").log_likelihood
    assert chain._preferred_engine == "reference"
    chain.learn(rows, epochs=1, engine="cpu")
    assert chain._preferred_engine == "cpu"
    chain.save(tmp_path / "c.fgrn")
    asked = chain.propagate(rows, engine="cpu").log_likelihood
    for again in (chain, fgrn.load(tmp_path / "c.fgrn"), pickle.loads(pickle.dumps(chain))):
        assert (again.propagate(rows).log_likelihood == asked).all()
    assert asked.sum() > slow.sum()


@pytest.mark.parametrize("is_needed", [False, True])
def test_the_log_domain_serves_where_underflow_matters_only(is_needed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are left out by underflow make no difference, unless the last row can be of such a state alone."""
    rows, states = 60, 6
    rng = np.random.default_rng(3)
    turned = np.where(np.eye(states) > 0, 0.9, 0.0) + 0.1 * np.roll(np.eye(states), 1, axis=1)  # on to the next state
    path = np.repeat(np.arange(5), 12)
    far = 1e-200 + np.exp(-(40.0 * (path[:, None] - np.arange(states)) ** 2))
    far /= far.sum(axis=1, keepdims=True)
    if is_needed:
        far[-1] = np.eye(states)[0]  # state 0 has been left behind: 1e-200 in each row since
    evidence = {"S": far, "Y": rng.integers(0, 2, rows)}
    first = Variable("S", states)
    inner, onwards, seen = Variable("a", states), Variable("b", states), Variable("next", states)
    blocks = [
        Source(first, np.full(states, 1 / states)), Diverter([first], [inner, onwards]),
        SISO(inner, Variable("Y", 2), rng.dirichlet([1, 1], states)), SISO(onwards, seen, turned),
    ]  # fmt: skip
    chain = Chain(blocks, ("next", "S"))
    used: list[int] = []
    log_scan = sequences.log_scan
    monkeypatch.setattr(sequences, "log_scan", lambda *given: used.append(1) or log_scan(*given))
    score = chain.propagate(evidence, keep=[], engine="cpu").log_likelihood
    assert bool(used) == is_needed
    exact = chain.propagate(evidence, engine="reference").log_likelihood
    np.testing.assert_allclose(score, exact, atol=1e-9, rtol=1e-12)
    shown = chain.propagate(evidence, keep=["S"], engine="cpu").marginal("S")
    assert used  # zeros that are shown are exact
    np.testing.assert_allclose(shown, chain.propagate(evidence, engine="reference").marginal("S"), atol=1e-12)
    del used[:]
    found = {}
    for engine in ("cpu", "reference"):
        learnt = chain.copy()
        learnt.learn(evidence, epochs=1, engine=engine)
        found[engine] = {name: learnt.table(name) for name in ("Y", "next")} | {"prior": learnt.prior("S")}
        assert engine == "reference" or bool(used) == is_needed
    for name, table in found["cpu"].items():
        np.testing.assert_allclose(table, found["reference"][name], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_states_that_zeros_allow_are_found_along_sequences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states, begins = 4, np.isin(np.arange(30), [0, 7, 19])
    prior, table = rng.random(states) < 0.6, rng.random((states, states)) < 0.4
    allowed = rng.random((30, states)) < 0.8
    before, after = possible_states(prior * 1.0, table * 1.0, allowed, begins)
    for row in range(30):
        wanted = prior if begins[row] else (before[row - 1] & allowed[row - 1]) @ table
        np.testing.assert_array_equal(before[row], wanted)
        last = row == 29 or begins[row + 1]
        wanted = np.ones(states, dtype=bool) if last else table @ (after[row + 1] & allowed[row + 1])
        np.testing.assert_array_equal(after[row], wanted)


def test_posteriors_of_states_that_are_left_for_good_are_exact() -> None:
    rows, moves = 3000, np.array([[0.999, 0.001, 0.0], [0.0, 0.999, 0.001], [0.0, 0.0, 1.0]])
    answers = np.array([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.0, 0.02, 0.98]])
    codes = np.repeat([0, 1, 2], rows // 3)
    net = fgrn.hmm({"x": 3}, 3, tables={"x": answers, "S next": moves, "S": [1.0, 0.0, 0.0]})
    table = {"x": codes, "sequence": np.zeros(rows, dtype=int)}
    found = net.propagate(table, keep=["S"], parts=["marginal"], engine="cpu").marginal("S")
    logs = net.propagate(table, keep=["S"], parts=["forward", "backward", "marginal"], engine="cpu").marginal("S")
    np.testing.assert_allclose(found, logs, atol=1e-11)
    assert (found[0, 1:] == 0).all()
    assert (found[: rows // 3, 2] == 0).all()  # the third state never answers 0


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_row_of_which_nothing_is_known_has_probability_one(engine: str) -> None:
    """Exactly: a sum that is rounded to a little more than 1 would be a probability above it."""
    for seed in range(8):
        draw = np.random.default_rng(seed)
        chain = fgrn.hmm(
            {"y": 2}, hidden=3, tables={"y": draw.dirichlet([1, 1], 3), "S next": draw.dirichlet([1] * 3, 3)}
        )
        found = chain.propagate({"y": [0, None, 1, None, None, 0, None]}, engine=engine).log_likelihood
        assert found[[1, 3, 4, 6]].tolist() == [0, 0, 0, 0]
        assert (found[[0, 2, 5]] < 0).all()
