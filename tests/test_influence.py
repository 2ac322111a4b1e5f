"""Influence diagrams against enumeration of all policies, the sum-max rule on the whole joint table, and pyAgrum."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn import BayesianNetwork, EvidenceError, FgrnError, ImpossibleEvidence, InfluenceDiagram, WiringError
from fgrn.bayes import limited_memory
from fgrn.bayes.decision_elimination import DecisionTable, on_scope
from fgrn.bayes.policies import Solution
from fgrn.cli import main

SEEDS = range(12)


def random_diagram(seed: int, most: int = 5) -> InfluenceDiagram:
    """One or two decisions among a few chance variables; what is known before each does not depend on it."""
    draw = np.random.default_rng(seed)
    names = [f"v{number}" for number in range(int(draw.integers(3, most + 1)))]
    places = sorted(draw.choice(len(names), size=int(draw.integers(1, 3)), replace=False).tolist())
    sizes = {name: int(draw.integers(2, 4)) for name in names}
    parents: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        parents[name] = [str(one) for one in draw.permutation(names[:place])[: int(draw.integers(0, 3))]]
    tables = {}
    for name in names:
        table = draw.random([*(sizes[one] for one in parents[name]), sizes[name]])
        table *= draw.random(table.shape) < 0.85
        table[..., 0] += 0.05
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    decisions = {
        names[place]: [one for one in names[:place] if one not in {names[k] for k in places} and draw.random() < 0.6]
        for place in places
    }
    utilities = {}
    for number in range(int(draw.integers(1, 4))):
        scope = [str(one) for one in draw.permutation(names)[: int(draw.integers(1, 4))]]
        utilities[f"u{number}"] = (scope, draw.normal(0, 10, [sizes[one] for one in scope]).round(2))
    return InfluenceDiagram(BayesianNetwork(sizes, parents, tables), decisions, utilities)


def whole(diagram: InfluenceDiagram) -> tuple[np.ndarray, np.ndarray]:
    """The product of all tables but those of decisions, and the sum of all utilities: an axis for each variable."""
    names = list(diagram.names)
    share, gain = np.ones([1] * len(names)), np.zeros([one.cardinality for one in diagram.variables])
    for factor in diagram.to_document().factors:
        share = share * on_scope(factor, names)  # type: ignore[arg-type]
    for one in diagram.utilities.values():
        gain = gain + on_scope(one, names)
    return np.broadcast_to(share, gain.shape), gain


def sum_max(diagram: InfluenceDiagram, seen: dict[str, list[str]], at: dict[str, int] | None = None) -> float:
    """Sum over what is never known, maximum over the last decision, sum over what was known before it, ..."""
    names = list(diagram.names)
    share, gain = whole(diagram)
    place = tuple(slice(at[name], at[name] + 1) if at and name in at else slice(None) for name in names)
    share, gain = share[place], gain[place]
    total = share * gain
    done: set[str] = set()
    order = list(seen)
    for number in range(len(order), -1, -1):
        known = {one for name in order[:number] for one in (*seen[name], name)}
        for axis, name in enumerate(names):
            if name not in known and name not in done and name not in seen:
                total, share = total.sum(axis=axis, keepdims=True), share.sum(axis=axis, keepdims=True)
                done.add(name)
        if number:
            axis = names.index(order[number - 1])
            total, share = total.max(axis=axis, keepdims=True), share.max(axis=axis, keepdims=True)
            done.add(order[number - 1])
    return float(total.ravel()[0] / share.ravel()[0])


def seen_of(diagram: InfluenceDiagram) -> dict[str, list[str]]:
    return {name: [one for one in diagram.information(name) if one not in diagram.decisions]
            for name in diagram.decisions}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_is_that_of_the_sum_max_rule(seed: int) -> None:
    diagram = random_diagram(seed)
    found = diagram.solve()
    assert found.expected_utility == pytest.approx(sum_max(diagram, seen_of(diagram)), abs=1e-9)
    assert diagram.expected_utility(found.policies) == pytest.approx(found.expected_utility, abs=1e-9)
    for name, policy in found.policies.items():
        assert {one.name for one in policy.depends_on} <= set(diagram.information(name))


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_no_policy_is_better(seed: int) -> None:
    draw = np.random.default_rng(seed)
    names = ["a", "d", "b", "e"]
    parents = {"b": ["a", "d"]}
    tables = {"a": draw.dirichlet([1, 1], 1), "b": draw.dirichlet([1, 1], 4)}
    net = BayesianNetwork(dict.fromkeys(names, 2), parents, tables)
    utilities = {"u": (["a", "e", "b"], draw.normal(0, 5, (2, 2, 2))), "v": (["d"], [0, -0.3])}
    diagram = InfluenceDiagram(net, {"d": ["a"], "e": ["b"]}, utilities)
    share, gain = whole(diagram)
    best = -np.inf
    for first in product(range(2), repeat=2):  # d given a
        for second in product(range(2), repeat=8):  # e given a, d, b
            rule = np.zeros((2, 2, 2, 2))
            for a, d, b in np.ndindex(2, 2, 2):
                rule[a, d, b, second[4 * a + 2 * d + b]] = first[a] == d
            best = max(best, float((share * gain * rule).sum()))
    assert diagram.solve().expected_utility == pytest.approx(best)


PYAGRUM = """
import itertools, json, sys
import pyagrum
answers = []
for diagram in json.load(sys.stdin):
    theirs = pyagrum.InfluenceDiagram()
    kinds = {"decision": theirs.addDecisionNode, "chance": theirs.addChanceNode, "utility": theirs.addUtilityNode}
    for name, kind, size in diagram["nodes"]:
        kinds[kind](pyagrum.LabelizedVariable(name, name, size))
    for pair in diagram["arcs"]:
        theirs.addArc(*pair)
    for name, kind, scope, sizes, values in diagram["tables"]:
        states = list(itertools.product(*map(range, sizes)))
        width = len(values) // len(states)
        for number, place in enumerate(states):
            row = values[number * width : (number + 1) * width]
            table = theirs.cpt(name) if kind == "chance" else theirs.utility(name)
            table[dict(zip(scope, place))] = row if kind == "chance" else row[0]
    inference = pyagrum.ShaferShenoyLIMIDInference(theirs)
    inference.makeInference()
    answers.append(inference.MEU()["mean"])
print(json.dumps(answers))
"""


def described(diagram: InfluenceDiagram) -> dict[str, Any]:
    """A diagram as plain values for a program that builds it with pyAgrum."""
    sizes = {variable.name: variable.cardinality for variable in diagram.variables}
    nodes: list[Any] = [
        (name, "decision" if name in diagram.decisions else "chance", size) for name, size in sizes.items()
    ]
    arcs = [*diagram.network.arcs, *((one, name) for name in diagram.decisions for one in diagram.information(name))]
    tables: list[Any] = []
    for name in diagram.names:
        if name not in diagram.decisions:
            above = diagram.network.parents(name)
            values = diagram.network.table(name).ravel().tolist()
            tables.append((name, "chance", above, [sizes[one] for one in above], values))
    for name, some in diagram.utilities.items():
        nodes.append((name, "utility", 1))
        arcs += [(one, name) for one in some.scope]
        tables.append((name, "utility", some.scope, list(some.values.shape), some.values.ravel().tolist()))
    return {"nodes": nodes, "arcs": arcs, "tables": tables}


def test_the_solution_is_that_of_pyagrum() -> None:
    if find_spec("pyagrum") is None:
        pytest.skip("pyAgrum is not installed")
    diagrams = [random_diagram(seed) for seed in range(8)]
    # in a process of its own, whatever other libraries this one has loaded
    ran = subprocess.run(
        [sys.executable, "-c", PYAGRUM],
        input=json.dumps([described(one) for one in diagrams]),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [one.solve().expected_utility for one in diagrams]
    np.testing.assert_allclose(found, json.loads(ran.stdout), atol=1e-4)


def rules_of(diagram: InfluenceDiagram, decision: str) -> list[np.ndarray]:
    """Every policy of a decision that knows only what is listed for it: an axis for each variable of the diagram."""
    scope = (*diagram._seen[decision], decision)
    sizes = [diagram.variable(name).cardinality for name in scope]
    return [
        on_scope(DecisionTable(scope, np.eye(sizes[-1])[list(chosen)].reshape(sizes)), diagram.names)
        for chosen in product(range(sizes[-1]), repeat=int(np.prod(sizes[:-1], dtype=int)))
    ]


@pytest.mark.parametrize("seed", [0, 17, 57, 64, 69, 134])
def test_decisions_that_forget_have_the_best_of_all_policies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = random_diagram(seed, 4)
    share, gain = whole(diagram)
    every = product(*(rules_of(diagram, name) for name in diagram.decisions))
    best = max(float((share * gain * np.prod(np.broadcast_arrays(*some), axis=0)).sum()) for some in every)
    found = diagram.solve(limited_memory=True)
    assert found.exact
    assert found.expected_utility == pytest.approx(best, abs=1e-9)
    assert found.bound == pytest.approx(diagram.solve().expected_utility)
    assert diagram.expected_utility(found.policies) == pytest.approx(best, abs=1e-9)
    for name, policy in found.policies.items():
        assert {one.name for one in policy.depends_on} <= set(diagram._seen[name])
    monkeypatch.setattr(limited_memory, "MOST_POLICIES", 0)
    local = diagram.solve(limited_memory=True, starts=3)
    assert local.expected_utility <= best + 1e-9
    assert diagram.expected_utility(local.policies) == pytest.approx(local.expected_utility, abs=1e-9)
    for name in diagram.decisions:  # no other policy of one decision is better
        others = np.prod(
            np.broadcast_arrays(*(
                on_scope(
                    DecisionTable(
                        (*(one.name for one in policy.depends_on), other),
                        policy.table.reshape([one.cardinality for one in (*policy.depends_on, policy.decision)]),
                    ),
                    diagram.names,
                )
                for other, policy in local.policies.items()
                if other != name
            ), np.ones([1] * len(diagram.names))),
            axis=0,
        )  # fmt: skip
        for rule in rules_of(diagram, name):
            assert float((share * gain * others * rule).sum()) <= local.expected_utility + 1e-9


def test_what_is_forgotten_is_said() -> None:
    net = BayesianNetwork({"coin": 2, "first": 2, "second": 2}, {}, {"coin": [[0.5, 0.5]]})
    same = np.zeros((2, 2, 2))
    same[0, 0, 0] = same[1, 1, 1] = 1.0
    diagram = InfluenceDiagram(net, {"first": ["coin"], "second": []}, {"u": (["coin", "first", "second"], same)})
    assert diagram.solve().expected_utility == pytest.approx(1.0)
    found = diagram.solve(limited_memory=True)
    assert found.expected_utility == pytest.approx(0.5)  # the second does not know the coin any more
    assert (found.exact, found.bound) == (True, pytest.approx(1.0))
    assert "local optimum" not in str(found)
    local = Solution(0.4, found.policies, found.network, False, 1.0)
    assert "a local optimum: no change of a single policy is better; with nothing forgotten 1" in str(local)
    with pytest.raises(FgrnError, match="'starts'"):
        diagram.solve(limited_memory=True, starts=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_evidence_and_decisions_that_are_made(seed: int) -> None:
    diagram = random_diagram(seed)
    draw = np.random.default_rng(seed)
    first = diagram.decisions[0]
    state = int(draw.integers(diagram.variable(first).cardinality))
    free = [name for name in diagram.decisions if name != first]
    behind = {child for name in free for child in (name, *diagram.network.descendants(name))}
    at = {first: state}
    for name in diagram.names:
        if name not in behind and name != first and draw.random() < 0.4:
            at[name] = 0
    given = {name: diagram.variable(name).labels[code] for name, code in at.items()}
    seen = {name: some for name, some in seen_of(diagram).items() if name in free}
    found = diagram.solve(given)
    assert found.expected_utility == pytest.approx(sum_max(diagram, {**seen}, at), abs=1e-9)
    assert diagram.expected_utility({**found.policies, first: state}, given) == pytest.approx(
        found.expected_utility, abs=1e-9
    )
    values = diagram.action_values(first)
    assert values[diagram.variable(first).labels[state]] == pytest.approx(sum_max(diagram, seen, {first: state}))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_information_is_the_gain_of_one_more_arc(seed: int) -> None:
    diagram = random_diagram(seed)
    name = diagram.decisions[-1]
    seen = seen_of(diagram)
    base = sum_max(diagram, seen)
    listed = diagram.value_of_information(name)
    for one in listed:
        more = sum_max(diagram, {**seen, name: [*seen[name], one.name]})
        assert one.gain == pytest.approx(more - base, abs=1e-9)
    assert [one.value for one in listed] == sorted((one.value for one in listed), reverse=True)
    if listed:
        priced = diagram.value_of_information(name, candidates=[listed[0].name], costs={listed[0].name: 2})
        assert priced[0].value == pytest.approx(listed[0].gain - 2)


def umbrella() -> InfluenceDiagram:
    net = BayesianNetwork(
        {"weather": ["dry", "wet"], "forecast": ["sunny", "cloudy", "rainy"]},
        {"forecast": ["weather"]},
        {"weather": [[0.7, 0.3]], "forecast": [[0.7, 0.2, 0.1], [0.15, 0.25, 0.6]]},
    )
    return InfluenceDiagram(
        net,
        {"umbrella": ["forecast"]},
        {"comfort": (["weather", "umbrella"], [[20, 100], [70, 0]])},
        actions={"umbrella": ["take", "leave"]},
    )


def test_the_umbrella() -> None:
    found = umbrella().solve()
    assert found.expected_utility == pytest.approx(77)  # a known example, of Shachter and Peot
    policy = found.policy("umbrella")
    assert [one["umbrella"] for one in policy.as_dicts()] == ["leave", "leave", "take"]
    assert policy.choose({"forecast": "rainy"}) == "take"
    assert list(policy.to_frame().columns) == ["forecast", "umbrella", "advantage"]
    assert "77" in str(found)
    np.testing.assert_allclose(found.network.posterior(None, "umbrella"), [[0.25, 0.75]])
    (weather,) = umbrella().value_of_information("umbrella")
    assert weather.gain == pytest.approx(0.7 * 100 + 0.3 * 70 - 77)
    assert umbrella().solve({"forecast": [[0, 0, 1.0]]}).expected_utility == pytest.approx(56)  # soft evidence


def test_learning_leaves_decisions_alone() -> None:
    diagram = random_diagram(3)
    before = {name: diagram.network.table(name) for name in diagram.decisions}
    diagram.learn(diagram.network.sample(50, seed=0), smoothing=1.0)
    for name, table in before.items():
        np.testing.assert_array_equal(diagram.network.table(name), table)


def test_a_diagram_is_saved(tmp_path: Path) -> None:
    for seed in (0, 3):
        diagram = random_diagram(seed)
        diagram.save(tmp_path / "d.fgrn")
        again = fgrn.load(tmp_path / "d.fgrn")
        assert again == diagram
        assert again.solve().expected_utility == diagram.solve().expected_utility


@pytest.mark.parametrize("ending", ["xdsl", "net"])
@pytest.mark.parametrize("seed", [0, 3, 7])
def test_a_diagram_is_written_and_read(seed: int, ending: str, tmp_path: Path) -> None:
    diagram = random_diagram(seed)
    fgrn.write(diagram, tmp_path / f"d.{ending}")
    again: Any = fgrn.read(tmp_path / f"d.{ending}")
    assert isinstance(again, InfluenceDiagram)
    assert again.decisions == diagram.decisions
    assert again.utilities.keys() == diagram.utilities.keys()
    assert again.solve().expected_utility == pytest.approx(diagram.solve().expected_utility)


def test_formats_without_decisions_say_so(tmp_path: Path) -> None:
    with pytest.raises(FgrnError, match=r"decisions.*\.xdsl"):
        fgrn.write(umbrella(), tmp_path / "d.bif")


def test_what_is_no_diagram_is_said() -> None:
    net = BayesianNetwork({"a": 2, "d": 2, "b": 2}, {"b": ["a", "d"]})
    utility: Any = {"u": (["b"], [0, 1])}
    with pytest.raises(WiringError, match="cannot know what depends on it"):
        InfluenceDiagram(net, {"d": ["b"]}, utility)
    with pytest.raises(WiringError, match="a decision or a utility"):
        InfluenceDiagram(net, {}, {})
    assert InfluenceDiagram(net, {}, utility).solve().expected_utility == pytest.approx(0.5)
    with pytest.raises(WiringError, match=r"actions=.*'e'"):
        InfluenceDiagram(net, {"e": ["b"]}, utility)
    with pytest.raises(FgrnError, match="shape"):
        InfluenceDiagram(net, {"d": []}, {"u": (["b", "a"], [0, 1])})
    with pytest.raises(WiringError, match="name that no variable has"):
        InfluenceDiagram(net, {"d": []}, {"a": (["b"], [0, 1])})
    with pytest.raises(FgrnError, match="not finite"):
        InfluenceDiagram(net, {"d": []}, {"u": (["b"], [0, np.inf])})
    diagram = InfluenceDiagram(net, {"d": []}, utility)
    with pytest.raises(EvidenceError, match="depends on the decision 'd'"):
        diagram.solve({"b": 1})
    with pytest.raises(EvidenceError, match="known only after"):
        diagram.value_of_information("d", candidates=["b"])
    with pytest.raises(EvidenceError, match="one row"):
        diagram.solve({"a": [0, 1]})
    with pytest.raises(EvidenceError, match="depends on 'forecast'"):
        umbrella().solve().policy("umbrella").choose()
    sure = InfluenceDiagram(
        BayesianNetwork({"a": 2, "d": 2}, {}, {"a": [[1, 0]]}), {"d": ["a"]}, {"u": (["d"], [0, 1])}
    )
    with pytest.raises(ImpossibleEvidence):
        sure.solve({"a": 1})


GENIE = """<?xml version="1.0" encoding="UTF-8"?>
<smile version="1.0" id="Oil"><nodes>
<cpt id="Oil"><state id="Dry"/><state id="Wet"/><probabilities>0.6 0.4</probabilities></cpt>
<decision id="Test"><state id="No"/><state id="Yes"/></decision>
<cpt id="Result"><state id="None"/><state id="Good"/><state id="Bad"/><parents>Test Oil</parents>
<probabilities>1 0 0 1 0 0 0 0.2 0.8 0 0.9 0.1</probabilities></cpt>
<decision id="Drill"><state id="No"/><state id="Yes"/><parents>Test Result</parents></decision>
<utility id="Cost"><parents>Test</parents><utilities>0 -10</utilities></utility>
<utility id="Profit"><parents>Drill Oil</parents><utilities>0 0 -70 200</utilities></utility>
<mau id="Total"><parents>Cost Profit</parents><weights>1 0.5</weights></mau>
</nodes></smile>"""

HUGIN = """net { }
node Oil { states = ("Dry" "Wet"); }
decision Drill { states = ("No" "Yes"); }
utility Profit { label = "of the well"; }
potential ( Oil ) { data = (0.6 0.4); }
potential ( Drill | Oil ) { }
potential ( Profit | Drill Oil ) { data = ((0 0)(-70 200)); }"""


def test_files_of_genie_and_hugin(tmp_path: Path) -> None:
    (tmp_path / "oil.xdsl").write_text(GENIE)
    oil: Any = fgrn.read(tmp_path / "oil.xdsl")
    assert oil.decisions == ("Test", "Drill")
    assert oil.utilities["Profit"].values.tolist() == [[0, 0], [-35, 100]]  # weighted
    # without a test drilling gains 19; with it 0.48 * 55.3 is less the cost
    assert oil.solve().expected_utility == pytest.approx(max(0.6 * -35 + 0.4 * 100, 0.6 * 0.2 * -35 + 0.36 * 100 - 10))
    (tmp_path / "oil.net").write_text(HUGIN)
    well: Any = fgrn.read(tmp_path / "oil.net")
    assert well.solve().expected_utility == pytest.approx(80)
    assert well.to_document().properties["Profit"] == {"label": "of the well"}
    for text, words in (
        (GENIE.replace("1 0.5", "1"), "1 weights for 2"),
        (GENIE.replace("0 -10", "0"), "1 values instead of 2"),
        (GENIE.replace("<utilities>0 -10</utilities>", ""), "no <utilities>"),
    ):
        (tmp_path / "bad.xdsl").write_text(text)
        with pytest.raises(fgrn.NetworkFileError, match=words):
            fgrn.read(tmp_path / "bad.xdsl")


def test_decisions_whose_order_is_not_told_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "oil.xdsl").write_text(GENIE.replace("<parents>Test Result</parents></decision>", "</decision>"))
    with pytest.warns(fgrn.FgrnWarning, match="which of the decisions 'Test' and 'Drill'"):
        fgrn.read(tmp_path / "oil.xdsl")


def test_the_command_solves_a_diagram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "oil.xdsl")
    Path(path).write_text(GENIE)
    assert main(["solve", path]) == 0
    assert "expected utility: 21.8" in capsys.readouterr().out
    assert main(["solve", path, "--given", "Test=No", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expected_utility"] == pytest.approx(19)
    assert main(["solve", path, "--limited-memory", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["expected_utility"], told["exact"]) == (pytest.approx(21.8), True)
    assert main(["solve", path, "--voi", "Drill", "--cost", "Oil=1"]) == 0
    assert "Oil" in capsys.readouterr().out
    assert main(["query", path]) == 1
    assert "fgrn solve" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "oil.fgrn.net")]) == 0
    umbrella().save(tmp_path / "u.fgrn")
    assert main(["solve", str(tmp_path / "u.fgrn")]) == 0
    assert main(["draw", str(tmp_path / "u.fgrn"), "-o", str(tmp_path / "u.svg")]) == 0
    picture = (tmp_path / "u.svg").read_text()
    assert all(word in picture for word in ("weather", "umbrella", "comfort", "decision"))
    assert main(["draw", path, "-o", str(tmp_path / "u.svg"), "--given", "Oil=Wet"]) == 2
    fgrn.write(BayesianNetwork({"a": 2}), tmp_path / "a.bif")
    assert main(["solve", str(tmp_path / "a.bif")]) == 1
    assert "fgrn query" in capsys.readouterr().err


def test_xdsl_keeps_the_parameters_of_a_noisy_max_and_functions(tmp_path: Path) -> None:
    states = ["bad", "some", "none"]
    table = fgrn.NoisyMax({"a": [[0, 0, 1], [0.2, 0.3, 0.5]], "b": [[0.1, 0.1, 0.8], [0, 0, 1]]}, [0.05, 0.05, 0.9],
                          off={"a": "no", "b": "no", "y": "none"})  # fmt: skip
    net = BayesianNetwork(
        {"a": ["no", "yes"], "b": ["yes", "no"], "y": states, "z": ["no", "yes"]},
        {"y": ["a", "b"], "z": ["y"]},
        {"y": table, "z": fgrn.DeterministicTable(["yes", "no", "no"])},
    )
    fgrn.write(net, tmp_path / "n.xdsl")
    again = fgrn.read(tmp_path / "n.xdsl")
    assert isinstance(again.compact_table("y"), fgrn.NoisyMax)
    assert isinstance(again.compact_table("z"), fgrn.DeterministicTable)
    assert again.free_parameters == net.free_parameters
    np.testing.assert_allclose(again.table("y"), net.table("y"), atol=1e-14)
    np.testing.assert_array_equal(again.table("z"), net.table("z"))


def test_impossible_evidence_has_no_answer() -> None:
    network = BayesianNetwork(
        {"a": ["n", "y"], "b": ["n", "y"], "c": 2},
        [("a", "b")],
        {"a": [[0.5, 0.5]], "b": [[1, 0], [0, 1]]},
    )
    diagram = InfluenceDiagram(network, {"D": ["b"]}, {"U": (["a", "D"], [[1, 0], [0, 1]])}, actions={"D": ["x", "z"]})
    given = {"a": ["n"], "b": ["y"]}
    for ask in (diagram.solve, lambda row: diagram.action_values("D", row),
                lambda row: diagram.value_of_information("D", row)):  # fmt: skip
        with pytest.raises(ImpossibleEvidence):
            ask(given)
    assert diagram.action_values("D", {"a": ["n"]}) == {"x": 1.0, "z": 0.0}


@pytest.mark.parametrize(
    ("decisions", "utilities"), [(["a"], {"U": (["a"], [1, 0])}), ({"a": []}, [1]), ({"a": []}, None)]
)
def test_decisions_and_utilities_are_given_by_name(decisions: Any, utilities: Any) -> None:
    with pytest.raises(WiringError, match="by name"):
        InfluenceDiagram(BayesianNetwork({"a": 2}), decisions, utilities)


def test_a_noisy_max_that_xdsl_cannot_hold_is_warned_of(tmp_path: Path) -> None:
    net = BayesianNetwork({"a": ["no", "yes"], "y": ["no", "yes"]}, [("a", "y")], {"y": fgrn.NoisyOr({"a": 0.8}, 0.1)})
    with pytest.warns(fgrn.FgrnWarning, match="whole table is written"):
        fgrn.write(net, tmp_path / "n.xdsl")
    np.testing.assert_allclose(fgrn.read(tmp_path / "n.xdsl").table("y"), net.table("y"), atol=1e-14)


def test_a_model_file_is_written_by_save(tmp_path: Path) -> None:
    with pytest.raises(FgrnError, match=r"model\.save\("):
        fgrn.write(BayesianNetwork({"a": 2}), tmp_path / "n.fgrn")


def test_the_tables_of_a_diagram_follow_the_memory_limit() -> None:
    net = BayesianNetwork({"a": 4, "d": 3})
    diagram = InfluenceDiagram(net, {"d": ["a"]}, {"u": (["a", "d"], np.ones((4, 3)))})
    assert diagram.solve().expected_utility == pytest.approx(1.0)
    diagram.network.memory_limit = 100.0
    with pytest.raises(fgrn.WiringError, match=r"12 joint states; that takes about .* bytes, and the limit is"):
        diagram.solve()
