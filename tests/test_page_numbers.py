"""Pages of `fgrn.explore` in a real browser: beliefs, messages and answers are the numbers of Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import chest, circle, refined_classifier
from pages import Open, Opened, assert_messages, assert_same, random_rows, shown
from random_models import bayesian_network, markov_network, random_tree

import fgrn
from fgrn.page.export import document
from fgrn.page.server import Answers

pytestmark = pytest.mark.slow

FILES = ("alarm", "andes", "asia", "cancer", "child", "hepar2", "insurance", "sachs", "survey", "water", "win95pts")


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_are_as_in_python(interpreter: Opened, seed: int) -> None:
    net = random_tree(seed)
    assert_same(net, interpreter.bring(net), random_rows(net, np.random.default_rng(seed), 20))


@pytest.mark.parametrize("seed", range(6))
def test_random_models_are_as_in_python(interpreter: Opened, seed: int) -> None:
    for model in (bayesian_network(seed), markov_network(seed)):
        assert_same(model, interpreter.bring(model), random_rows(model, np.random.default_rng(seed), 20))


@pytest.mark.parametrize("name", FILES)
def test_known_networks_are_as_in_python(page: Open, shared_data: Path, name: str) -> None:
    model = fgrn.read(shared_data / "bif" / f"{name}.bif")
    opened = page(model)
    assert opened.tab.locator(".card").count() == len(model.names)
    last = len(model.names) - 1
    clicked = {model.names[last]: 0}
    random = random_rows(model, np.random.default_rng(0), 0 if name in ("andes", "water") else 4)
    *_, (_, expected) = assert_same(model, opened, [*random, clicked])
    opened.click(last, 0)  # as a person does it
    assert opened.beliefs == expected and expected[last][0] == 1
    if name == "andes":
        opened.press("Control+z")
        assert_variables_are_found(opened, list(model.names), "SNode_155")


def assert_variables_are_found(opened: Opened, names: list[str], wanted: str) -> None:
    """A network of hundreds is used by searching."""
    for state in ([1, 0], None):
        opened.press("/")
        opened.tab.keyboard.type(wanted)
        opened.press("Enter", "Enter")
        assert opened.evidence == ({names.index(wanted): state} if state else {})
        assert opened.tab.locator(".far").count() == 0, "what was searched for can be read"
        opened.tab.get_by_role("button", name="Factor graph").click()  # the second time there
        opened.wait()
        assert opened.tab.locator(".far").count() == 0, "it begins where it can be read"


def test_a_latent_class_model_with_missing_and_soft_values_is_as_in_python(interpreter: Opened) -> None:
    draw = np.random.default_rng(0)
    sizes = {f"Y{k}": int(draw.integers(2, 5)) for k in range(100)}
    tables = {name: draw.dirichlet(np.ones(size), 12) for name, size in sizes.items()}
    net = fgrn.lvm(sizes, hidden=12, tables=tables)
    assert_same(net, interpreter.bring(net), random_rows(net, draw, 10))


def test_products_far_below_the_smallest_number_are_right(interpreter: Opened) -> None:
    """Hundreds of leaves that disagree by orders of magnitude: in plain numbers everything would vanish."""
    sizes = {f"Y{k}": 2 for k in range(150)}
    tables = {name: [[1 - 1e-9, 1e-9], [1e-7, 1 - 1e-7], [0.0, 1.0]] for name in sizes}
    net = fgrn.lvm(sizes, hidden=3, tables=tables)
    half = {name: k % 2 for k, name in enumerate(sizes)}
    all_one = dict.fromkeys(sizes, 1)
    assert_same(net, interpreter.bring(net), [half, all_one, {**all_one, "Y3": [1.0, 1e-200]}])


@pytest.mark.parametrize("seed", range(8))
def test_all_messages_are_as_in_python(interpreter: Opened, seed: int) -> None:
    net = random_tree(seed) if seed < 6 else bayesian_network(seed)._tree_network()
    draw = np.random.default_rng(seed)
    names = shown(net)
    leaf = next(number for number, name in enumerate(names) if name in net.observed)
    weights = (draw.random(net.variable(names[leaf]).cardinality) + 0.1).tolist()
    seen = net.propagate({names[leaf]: [weights]}, engine="reference")
    assert_messages(seen, *interpreter.bring(net).messages({leaf: weights}))


@pytest.mark.parametrize("seed", range(5))
def test_loops_are_as_in_python(interpreter: Opened, seed: int) -> None:
    model: Any = (chest, circle)[seed]() if seed < 2 else bayesian_network(seed + 10, zeros=False)
    net = model.to_network("loopy")
    draw = np.random.default_rng(seed)
    rows = [{}, *({name: int(draw.integers(model.variable(name).cardinality))} for name in model.names)]
    assert_same(net, interpreter.bring(net), rows)


@pytest.mark.parametrize("seed", range(6))
def test_questions_are_answered_as_in_python(interpreter: Opened, seed: int) -> None:
    model: Any = bayesian_network(seed, zeros=False) if seed % 2 else random_tree(seed)
    names, draw = shown(model), np.random.default_rng(seed)
    target = names[-1]
    some = [name for name in names[:-1] if model.variable(name).cardinality > 1 and draw.random() < 0.6]
    row = {name: model.variable(name).labels[0] for name in some}
    if np.isneginf(
        model.propagate({name: [value] for name, value in row.items()}, impossible="mark").log_likelihood[0]
    ):
        row = {}
    given = {names.index(name): np.eye(model.variable(name).cardinality)[0].tolist() for name in row}
    found = interpreter.bring(model).study(given, names.index(target))
    columns = {name: [value] for name, value in row.items()}
    # why
    told = model.explain(row, target)
    explanation = found["explanation"]
    assert model.variable(target).labels[explanation["state"]] == told.state
    assert explanation["prior"] == pytest.approx(told.prior, abs=1e-8)
    assert [value for _, value in explanation["contributions"]] == pytest.approx(
        list(told.contributions.values()), abs=1e-8
    )
    assert explanation["prior"] + sum(value for _, value in explanation["contributions"]) == pytest.approx(
        explanation["logOdds"], abs=1e-9
    )

    # what to ask next: the expected reduction of entropy, asking each
    def entropy(shares: np.ndarray) -> float:
        return float(-(shares[shares > 0] * np.log2(shares[shares > 0])).sum())

    now = model.propagate(columns)
    assert found["entropy"] == pytest.approx(entropy(now.marginal(target)[0]), abs=1e-9)
    for number, name in enumerate(names[:-1]):
        if name in row:
            continue
        after = 0.0
        for state, share in enumerate(now.marginal(name)[0]):
            if share > 0:
                known = {**columns, name: [model.variable(name).labels[state]]}
                after += share * entropy(model.propagate(known).marginal(target)[0])
        assert found["gains"][number] == pytest.approx(found["entropy"] - after, abs=1e-9)
    # the likeliest states together, and those that follow
    expected = Answers(model).study(list(given.items()), None, assignments=5)["likeliest"]
    best = model.most_probable(row, names=names)
    assert expected[0]["logProbability"] == pytest.approx(float(np.ravel(best.log_probability)[0]), abs=1e-9)
    values = [one["logProbability"] for one in found["likeliest"]]
    assert values == pytest.approx([one["logProbability"] for one in expected], abs=1e-9)
    assert len({tuple(one["states"]) for one in found["likeliest"]}) == len(values)
    for one in found["likeliest"]:
        states = {name: [model.variable(name).labels[state]] for name, state in zip(names, one["states"], strict=True)}
        assert model.propagate(states).log_likelihood[0] == pytest.approx(one["logProbability"], abs=1e-9)


def test_an_estimator_is_explored_by_its_network(interpreter: Opened) -> None:
    draw = np.random.default_rng(0)
    X = {f"q{k}": draw.choice(["no", "yes"], 60) for k in range(5)}
    model = fgrn.LatentClassModel(n_hidden=2, n_epochs=5, tol=0, random_state=0).fit(X)
    assert_same(model.network_, interpreter.bring(model), random_rows(model.network_, draw, 5))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("networks", "structure"), [(1, "per_class"), (2, "per_class"), (2, "tan"), (1, "tree")])
def test_the_class_is_predicted_as_by_the_classifier(
    interpreter: Opened, networks: int, structure: str, seed: int
) -> None:
    model, table = refined_classifier(networks, structure, seed)
    net, names = model.network_, shown(model)
    page, target = interpreter.bring(model), names.index("class")
    codes = {name: one.codes for name, one in model._coded(table).items()}

    def unit(name: str, code: int) -> list[float]:
        return list(np.eye(net.variable(name).cardinality)[code])

    rows = [
        {names.index(name): unit(name, one[row]) for name, one in codes.items() if one[row] >= 0} for row in range(60)
    ]
    seen = net.propagate(model._coded(table))
    expected = model.predict_proba(table)
    assert np.abs(expected - seen.marginal("class")).max() > 0.1
    for row, (likelihood, beliefs) in enumerate(page.ask(rows)):
        assert likelihood == pytest.approx(seen.log_likelihood[row], abs=1e-9)
        for name, belief in zip(names, beliefs, strict=True):
            same = expected[row] if name == "class" else seen.marginal(name)[row]
            np.testing.assert_allclose(belief, same, rtol=0, atol=1e-9, err_msg=name)
    # why: as `explain` says
    for row in range(5):
        told = model.explain({name: table[name][row] for name in table})
        explanation = page.study(rows[row], target)["explanation"]
        assert net.variable("class").labels[explanation["state"]] == told.state
        found = [explanation["probability"], explanation["prior"], explanation["logOdds"]]
        assert found == pytest.approx([told.probability, told.prior, told.log_odds], abs=1e-9)
        assert [value for _, value in explanation["contributions"]] == pytest.approx(
            list(told.contributions.values()), abs=1e-9
        )
    # as evidence, and beside soft evidence: a class that is known is a variable like others
    assert_same(net, page, [{"class": 1, "a": 0}, {"class": [0.2, 1.0, 0.0], "c": 1}])
    soft = {names.index("b"): [0.2, 1.0, 0.5]}
    (_, beliefs), (_, nothing) = page.ask([soft, {}])
    for found_, known in ((beliefs, {"b": [[0.2, 1.0, 0.5]]}), (nothing, None)):
        mean = model._decision.pool.messages(known, ["class"])["class"][0]
        np.testing.assert_allclose(found_[target], mean, rtol=0, atol=1e-9)


def test_a_row_that_a_refined_network_has_impossible_is_predicted_without_evidence(interpreter: Opened) -> None:
    model, _ = refined_classifier(2)
    second = model.second_decision_network_
    tables = second._spec.layout.table(second._parameters.values, second._spec.layout.table_number("a"))
    values = second._parameters.values.copy()
    second._spec.layout.table(values, second._spec.layout.table_number("a"))[...] = [[1.0, 0.0]] * len(tables)
    second._parameters = replace(second._parameters, values=values)
    rows: dict[str, Any] = {"a": ["yes", "no"], "b": [1, 1], "c": [None, None], "size": [None, None]}
    with pytest.warns(fgrn.ImpossibleRowWarning):
        expected = model.predict_proba(rows)
    names = shown(model)
    given = [
        {names.index("a"): [0, 1], names.index("b"): [0, 1, 0]},
        {names.index("a"): [1, 0], names.index("b"): [0, 1, 0]},
    ]
    page, target = interpreter.bring(model), names.index("class")
    for row, (likelihood, beliefs) in enumerate(page.ask(given)):
        assert np.isfinite(likelihood)
        np.testing.assert_allclose(beliefs[target], expected[row], rtol=0, atol=1e-9)
    # such a row has no explanation, on a page that is served as well
    for row, known in enumerate(given):
        for found in (page.study(known, target), Answers(model).study(list(known.items()), target)):
            assert found["impossible"] is (row == 0)
            assert (found["explanation"] is None) is (row == 0)


def test_data_without_refined_networks_are_read(interpreter: Opened) -> None:
    """As pages were written before there were any: format 1."""
    model, _ = refined_classifier(1)
    text, arrays = document(model, "", "")
    del text["refined"]
    interpreter.bring_data({**text, "format": 1}, arrays)
    assert_same(model.network_, interpreter, random_rows(model.network_, np.random.default_rng(0), 5))
