"""Credible intervals of answers and Dirichlet counts of tables, against derivatives and draws by enumeration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import BayesianNetwork, FgrnError, LearningError, NoisyOr
from fgrn.cli import main


def learnt(seed: int, rows: int = 300) -> BayesianNetwork:
    draw = np.random.default_rng(seed)
    sizes, arcs = {"a": 3, "b": 2, "c": 2, "d": 3}, {"b": ["a"], "c": ["a", "b"], "d": ["c"]}
    rows_of = {"a": 1, "b": 3, "c": 6, "d": 2}
    tables = {name: draw.dirichlet(np.full(size, 2.0), rows_of[name]) for name, size in sizes.items()}
    net = BayesianNetwork(sizes, arcs, tables)
    net.learn(net.sample(rows, seed=seed), smoothing=0.5)
    return net


def answer(net: BayesianNetwork, tables: dict[str, np.ndarray], known: dict[str, int], target: str) -> np.ndarray:
    """The posterior by enumeration; tables need not sum to one."""
    letters = {name: chr(97 + place) for place, name in enumerate(net.names)}
    terms = [tables[name].reshape([net.variable(one).cardinality for one in net.scope(name)]) for name in net.names]
    scopes = ["".join(letters[one] for one in net.scope(name)) for name in net.names]
    for name, code in known.items():
        terms.append(np.eye(net.variable(name).cardinality)[code])
        scopes.append(letters[name])
    found = np.einsum(f"{','.join(scopes)}->{letters[target]}", *terms)
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("seed", range(4))
def test_standard_errors_are_those_of_numerical_derivatives(seed: int) -> None:
    net = learnt(seed)
    draw = np.random.default_rng(seed)
    target, *others = map(str, draw.permutation(net.names))
    known = {name: int(np.argmax(net.posterior(None, name)[0])) for name in others[:2]}
    found = net.credible_interval(known, target)
    now = {name: net.table(name).copy() for name in net.names}
    variance = 0.0
    for name in net.names:
        counts = net.dirichlet_counts(name)
        for row, total in enumerate(counts.sum(axis=1)):
            slopes = []
            for column in range(counts.shape[1]):
                ends = []
                for step in (-1e-6, 1e-6):
                    moved = {**now, name: now[name].copy()}
                    moved[name][row, column] += step
                    ends.append(answer(net, moved, known, target)[0])
                slopes.append((ends[1] - ends[0]) / 2e-6)
            share, slope = now[name][row], np.array(slopes)
            variance += ((share * slope**2).sum() - (share @ slope) ** 2) / (total + 1)
    np.testing.assert_allclose(found.probabilities[0], answer(net, now, known, target), atol=1e-12)
    assert found.standard_errors[0, 0] == pytest.approx(np.sqrt(variance), rel=1e-5, abs=1e-9)


def test_intervals_are_those_of_tables_drawn_by_hand() -> None:
    net = learnt(1, 1000)
    target, known = "a", {"d": 0}
    draw = np.random.default_rng(0)
    counts = {name: net.dirichlet_counts(name) for name in net.names}
    by_hand = [
        answer(
            net, {name: np.apply_along_axis(draw.dirichlet, 1, some) for name, some in counts.items()}, known, target
        )
        for _ in range(1500)
    ]
    ends = np.quantile(by_hand, [0.05, 0.95], axis=0)
    width = ends[1] - ends[0]
    for method in ("delta", "draws"):
        found = net.credible_interval(known, target, level=0.9, method=method, draws=1500)
        assert found.method == method
        assert (np.abs(found.lower[0] - ends[0]) < 0.12 * width).all()
        assert (np.abs(found.upper[0] - ends[1]) < 0.12 * width).all()
        np.testing.assert_allclose(found.standard_errors[0], np.std(by_hand, axis=0), rtol=0.12)


def test_tied_tables_stay_tied_after_an_intervention() -> None:
    net = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"b": ["a"], "c": ["b"]}, ties={"b": "same", "c": "same"})
    rng = np.random.default_rng(0)
    net.learn({name: rng.integers(0, 2, 60) for name in "abc"})
    seen = net.credible_interval({"c": [1], "a": [0]}, "b")
    done = net.do(a=0).credible_interval({"c": [1]}, "b")
    np.testing.assert_allclose(done.standard_errors, seen.standard_errors, rtol=1e-9)  # nothing else goes to a
    np.testing.assert_allclose(net.do(b=0).dirichlet_counts("c"), net.dirichlet_counts("c"))  # one table of the group


def test_counts_are_those_of_the_rows_and_are_kept() -> None:
    table = {"a": [0, 0, 1, 1, 1], "b": [0, 1, 1, 1, 0]}
    net = BayesianNetwork.from_data([("a", "b")], table, smoothing=1.0)
    np.testing.assert_allclose(net.dirichlet_counts("a"), [[3, 4]])
    np.testing.assert_allclose(net.dirichlet_counts("b"), [[2, 2], [2, 3]])
    np.testing.assert_allclose(net.copy().dirichlet_counts("b"), net.dirichlet_counts("b"))
    np.testing.assert_allclose(net.do(a=1).dirichlet_counts("b"), net.dirichlet_counts("b"))
    assert np.isinf(net.do(a=1).dirichlet_counts("a")).all()
    hidden = BayesianNetwork.from_data([("a", "b")], {"a": [0, 1, None], "b": [0, 1, 1]}, epochs=50)
    assert hidden.dirichlet_counts("a").sum() == pytest.approx(3.0)
    assert fgrn.search(table, score="bdeu").dirichlet_counts("a").sum() == pytest.approx(
        5.0 + 2
    )  # and a smoothing of 1
    frozen = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.3, 0.7]]}, frozen=["a"])
    frozen.learn(table)
    assert np.isinf(frozen.dirichlet_counts("a")).all()
    found = frozen.credible_interval(None, "a")
    np.testing.assert_allclose(found.lower, [[0.3, 0.7]])
    np.testing.assert_allclose(found.upper, [[0.3, 0.7]])
    unseen = BayesianNetwork.from_data([("a", "b")], {"a": [0, 0], "b": [0, 1]}, states={"a": 2})
    np.testing.assert_allclose(unseen.dirichlet_counts("b")[1], [1.0, 1.0])


def test_what_has_no_counts_says_so() -> None:
    net = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]})
    with pytest.raises(LearningError, match="has no counts"):
        net.credible_interval(None, "a")
    net.learn({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    with pytest.raises(FgrnError, match="between 0 and 1"):
        net.credible_interval(None, "a", level=1.5)
    with pytest.raises(FgrnError, match="method"):
        net.credible_interval(None, "a", method="guess")
    compact = BayesianNetwork({"a": 2, "c": 2}, {"c": ["a"]}, {"c": NoisyOr({"a": 0.7})})
    compact.learn({"a": [0, 1, 1], "c": [0, 1, 0]})
    with pytest.raises(FgrnError, match="compact table"):
        compact.credible_interval(None, "c")


def test_model_files_and_the_command_line_keep_counts(tmp_path: Path, capsys: Any) -> None:
    net = learnt(2)
    path = tmp_path / "net.fgrn"
    net.save(path)
    again = fgrn.load(path)
    assert isinstance(again, BayesianNetwork)
    for name in net.names:
        np.testing.assert_array_equal(again.dirichlet_counts(name), net.dirichlet_counts(name))
    first, last = net.names[0], net.names[-1]
    asked = ["query", str(path), "--given", f"{last}={net.variable(last).labels[0]}", "--target", first]
    main([*asked, "--interval", ".9", "--json"])
    told = json.loads(capsys.readouterr().out)
    found = net.credible_interval({last: [net.variable(last).labels[0]]}, first, level=0.9)
    assert [one["upper"] for one in told["posterior"][first].values()] == pytest.approx(found.upper[0].tolist())
    main([*asked, "--method", "sampling", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["method"] == "importance sampling" and told["effective_size"] > 100
    main([*asked, "--method", "sampling"])
    assert "approximation: 10,000 samples" in capsys.readouterr().out
    main([*asked, "--interval", ".9"])
    assert "credible intervals of probability 0.9" in capsys.readouterr().out


def with_missing(seed: int, rows: int = 400, share: float = 0.4) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 2, rows)
    b = (draw.random(rows) < np.where(a == 1, 0.7, 0.2)).astype(int)
    table: dict[str, np.ndarray] = {"a": a.astype(object), "b": b.astype(object)}
    table["b"][draw.random(rows) < share] = None
    return table


@pytest.mark.parametrize("method", ["delta", "draws"])
def test_missing_values_of_a_child_count_for_nothing(method: str) -> None:
    """Rows without the child say nothing of its table: its distribution is that of the other rows alone."""
    table = with_missing(0)
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")])
    net.learn(table, epochs=500, tolerance=1e-9, smoothing=0.5)
    known = [value is not None for value in table["b"]]
    for state in (0, 1):
        seen = [value for a, value in zip(table["a"], table["b"], strict=True) if a == state and value is not None]
        ones, zeros = sum(seen) + 0.5, len(seen) - sum(seen) + 0.5
        error = np.sqrt(ones * zeros / (ones + zeros) ** 2 / (ones + zeros + 1))
        found = net.credible_interval({"a": state}, "b", method=method, draws=2_000)
        np.testing.assert_allclose(found.standard_errors[0], error, rtol=0.08)
        assert found.standard_errors[0, 1] > 1.15 * np.sqrt(ones * zeros) / (ones + zeros) / np.sqrt(
            (ones + zeros) / np.mean(known)
        )
    # the parent is known in all rows
    share = np.mean(table["a"].astype(float))
    found = net.credible_interval(None, "a", method=method, draws=2_000)
    np.testing.assert_allclose(found.standard_errors[0], np.sqrt(share * (1 - share) / 402), rtol=0.08)
    again = net.credible_interval(None, "a", method=method, draws=2_000)
    np.testing.assert_array_equal(again.lower, found.lower)


def test_a_marginal_is_as_sure_as_the_rows_that_know_it() -> None:
    """Parents are missing, the child is not: its own distribution is known from all rows, whatever the tables are."""
    table = with_missing(1, share=0.0)
    table["a"][::2] = None
    net = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")])
    net.learn(table, epochs=500, tolerance=1e-9, smoothing=0.5)
    share = np.mean(table["b"].astype(float))
    for method in ("delta", "draws"):
        found = net.credible_interval(None, "b", method=method, draws=2_000)
        np.testing.assert_allclose(found.standard_errors[0], np.sqrt(share * (1 - share) / 402), rtol=0.1)


def test_rows_with_missing_values_are_asked_for_where_they_are_not_kept(tmp_path: Path, capsys: Any) -> None:
    table = with_missing(2)
    net = BayesianNetwork({"a": ["no", "yes"], "b": ["no", "yes"]}, [("a", "b")])
    words = {name: [None if one is None else ("no", "yes")[one] for one in column] for name, column in table.items()}
    net.learn(words, epochs=200, smoothing=1.0)
    here = net.credible_interval({"a": "yes"}, "b", draws=200)
    after = net.do(a="yes").credible_interval(None, "b", draws=200)
    np.testing.assert_allclose(after.standard_errors, here.standard_errors)
    np.testing.assert_array_equal(net.copy().credible_interval({"a": "yes"}, "b", draws=200).lower, here.lower)
    path = tmp_path / "net.fgrn"
    net.save(path)
    again = fgrn.load(path)
    assert isinstance(again, BayesianNetwork)
    with pytest.warns(fgrn.FgrnWarning, match="too narrow"):
        narrow = again.credible_interval({"a": "yes"}, "b", draws=200)
    assert (narrow.standard_errors < 0.9 * here.standard_errors).all()
    given = again.credible_interval({"a": "yes"}, "b", draws=200, learnt_from=words)
    np.testing.assert_array_equal(given.lower, here.lower)
    with pytest.raises(fgrn.EvidenceError, match="learnt from 400 rows"):
        again.credible_interval({"a": "yes"}, "b", learnt_from={"a": ["yes"], "b": ["no"]})
    rows = tmp_path / "rows.csv"
    cells = zip(words["a"], words["b"], strict=True)
    rows.write_text("a,b\n" + "".join(f"{a},{b or ''}\n" for a, b in cells))
    asked = ["query", str(path), "--given", "a=yes", "--target", "b", "--interval", ".95"]
    main([*asked, "--learnt-from", str(rows), "--json"])
    told = json.loads(capsys.readouterr().out)
    found = again.credible_interval({"a": ["yes"]}, "b", learnt_from=words)
    assert [one["upper"] for one in told["posterior"]["b"].values()] == pytest.approx(found.upper[0].tolist())
    main(asked)
    assert "--learnt-from" in capsys.readouterr().err
    assert main(["query", str(path), "--learnt-from", str(rows)]) == 2
    assert "goes with --interval" in capsys.readouterr().err


def test_weights_frequencies_and_frozen_tables_are_drawn_as_they_count() -> None:
    table = with_missing(3, rows=200)
    pairs = list(zip(table["a"], table["b"], strict=True))
    distinct = sorted({*pairs}, key=str)
    short = {"a": [a for a, _ in distinct], "b": [b for _, b in distinct]}
    long, few = (BayesianNetwork({"a": 2, "b": 2}, [("a", "b")]) for _ in range(2))
    long.learn(table, epochs=200, smoothing=0.5)
    few.learn(short, epochs=200, smoothing=0.5, weights=[float(pairs.count(one)) for one in distinct])
    for known, name in ((None, "b"), ({"b": 1}, "a")):
        one, other = (net.credible_interval(known, name, draws=3_000) for net in (long, few))
        np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=0.1)
    frozen = BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], {"a": [[0.3, 0.7]]}, frozen=["a"])
    frozen.learn(table, epochs=50)
    np.testing.assert_allclose(frozen.credible_interval(None, "a").lower, [[0.3, 0.7]])
    np.testing.assert_allclose(frozen.credible_interval(None, "a", method="draws").upper, [[0.3, 0.7]])
