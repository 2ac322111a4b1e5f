"""Pages of `fgrn.explore` in a real browser: what people do with them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from xml.dom.minidom import parseString

import numpy as np
import pytest
from models import chest, refined_classifier
from pages import STUDIED, Open, shown

import fgrn
from fgrn import datasets
from fgrn.cli import main

pytestmark = pytest.mark.slow


# What people do


def test_evidence_is_set_and_taken_back_by_clicking(page: Open) -> None:
    model = chest()
    opened = page(model)
    names = list(model.names)
    smoke, xray = names.index("smoke"), names.index("xray")
    opened.click(xray, 0)
    opened.click(smoke, 1)
    seen = model.propagate({"xray": ["yes"], "smoke": ["no"]})
    for name, belief in zip(names, opened.beliefs, strict=True):
        np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
    assert opened.log_likelihood == pytest.approx(seen.log_likelihood[0], abs=1e-9)
    lung = opened.state(names.index("lung"), 0)
    assert f"{100 * seen.marginal('lung')[0, 0]:.1f}%" in lung.text_content()
    assert opened.tab.locator("output.probability b").inner_text() == f"{np.exp(seen.log_likelihood[0]):.4g}"
    opened.click(xray, 0)
    assert opened.evidence == {smoke: [0, 1]}
    opened.click(smoke, 1)
    assert opened.evidence == {}


def test_a_bar_is_dragged_to_the_belief_that_is_wanted(page: Open) -> None:
    model = chest()
    opened, number = page(model), list(model.names).index("bronc")
    box = opened.state(number, 0).locator(".track").bounding_box()
    x = box["x"] + box["width"]
    opened.tab.mouse.move(box["x"] + 5, box["y"] + 5)
    opened.tab.mouse.down()
    opened.tab.mouse.move(x - 0.5 * box["width"], box["y"] + 5, steps=4)
    opened.tab.mouse.move(x - 0.2 * box["width"], box["y"] + 5, steps=4)
    opened.tab.mouse.up()
    opened.wait()
    assert opened.beliefs[number][0] == pytest.approx(0.8, abs=0.006)
    (weights,) = opened.evidence.values()
    assert max(weights) == 1 and 0 < min(weights) < 1
    seen = model.propagate({"bronc": [weights]})
    np.testing.assert_allclose(opened.beliefs[number], seen.marginal("bronc")[0], rtol=0, atol=1e-9)
    assert opened.log_likelihood == pytest.approx(seen.log_likelihood[0], abs=1e-9)
    opened.press("Control+z")
    assert opened.evidence == {}, "a drag is undone as a whole"


def test_the_drawing_is_moved_and_zoomed(page: Open) -> None:
    model = chest()
    opened = page(model)
    group = opened.tab.locator(".graph > g")

    def place() -> tuple[float, float, float]:
        found = re.fullmatch(r"translate\((\S+) (\S+)\) scale\((\S+)\)", group.get_attribute("transform"))
        assert found
        return float(found[1]), float(found[2]), float(found[3])

    bar = opened.state(0, 0).bounding_box()
    name = opened.tab.locator('[data-variable="0"] .heading').bounding_box()
    for box in (bar, name, {"x": 300, "y": 600, "width": 0, "height": 0}):  # a bar, a name, and the ground
        before = place()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        opened.tab.mouse.move(x, y)
        opened.tab.mouse.down()
        opened.tab.mouse.move(x, y + 20, steps=4)
        opened.tab.mouse.move(x + 30, y + 40, steps=4)
        opened.tab.mouse.up()
        after = place()
        assert after[0] - before[0] == pytest.approx(30, abs=1)
        assert 30 <= after[1] - before[1] <= 40
        assert opened.evidence == {}
        assert opened.tab.locator(".detail").count() == 0
        opened.press("f")
    scale = place()[2]
    opened.tab.mouse.move(400, 400)
    opened.tab.mouse.wheel(0, -300)
    for _ in range(1000):
        if place()[2] > 1.3 * scale:
            break
        opened.tab.wait_for_timeout(5)
    assert place()[2] > 1.3 * scale
    opened.press("f")
    assert place()[2] == pytest.approx(scale)


def test_what_depends_on_a_variable_alone_is_folded_into_it(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    smoke, bronc = names.index("smoke"), names.index("bronc")

    def cards() -> set[str]:
        found = opened.tab.locator(".card").evaluate_all("all => all.map(one => Number(one.dataset.variable))")
        return {names[number] for number in found}

    opened.click(bronc, 0)
    handle = opened.tab.get_by_role("button", name=re.compile("Fold 2 variables into smoke"))
    handle.click()
    assert cards() == set(names) - {"lung", "bronc"}
    assert opened.tab.locator(".arc.through").count() == 2, "arcs of lung and bronc to their other children"
    assert opened.tab.locator(f'[data-variable="{smoke}"] .fold text').text_content() == "2 • ▸"
    assert opened.evidence == {bronc: [1, 0]}
    again = page(model, opened.tab.evaluate("location.hash"))
    assert again.tab.locator(".card").count() == 6
    assert again.tab.locator("[tabindex='0'][data-state]").count() == 1
    again.press("/")
    again.tab.keyboard.type("lung")
    again.press("Enter")
    assert again.tab.locator(".card").count() == 8, "what is searched for is unfolded"
    opened.state(smoke, 0).focus()
    opened.press("g")
    assert cards() == set(names)
    opened.state(names.index("travel"), 0).focus()
    opened.press("g")
    assert cards() == set(names) - {"tub"}
    opened.tab.get_by_role("button", name="Unfold all").click()
    assert cards() == set(names)
    assert opened.tab.locator(".zoom button").count() == 3


def test_not_this_state_undo_redo_and_clear(page: Open, shared_data: Path) -> None:
    model = fgrn.read(shared_data / "bif" / "survey.bif")
    opened, age = page(model), list(model.names).index("A")
    opened.click(age, 1, modifiers=["Shift"])
    assert opened.evidence == {age: [1, 0, 1]}
    np.testing.assert_allclose(
        opened.beliefs[age], model.propagate({"A": [fgrn.Not("adult")]}).marginal("A")[0], rtol=0, atol=1e-9
    )
    opened.click(age, 2, modifiers=["Shift"])
    assert opened.evidence == {age: [1, 0, 0]}
    button = opened.tab.get_by_role("button", exact=True, name="Undo")
    button.click()
    button.click()
    opened.wait()
    assert opened.evidence == {}
    assert button.is_disabled()
    opened.tab.get_by_role("button", exact=True, name="Redo").click()
    opened.wait()
    assert opened.evidence == {age: [1, 0, 1]}
    opened.tab.get_by_role("button", exact=True, name="Clear").click()
    opened.wait()
    assert opened.evidence == {}
    opened.press("Control+z")
    assert opened.evidence == {age: [1, 0, 1]}


def test_impossible_evidence_names_what_cannot_go_together(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    for name, state in (("smoke", 0), ("tub", 0), ("either", 1)):
        opened.click(names.index(name), state)
    assert opened.log_likelihood == -np.inf
    told = opened.tab.locator(".impossible p").inner_text()
    assert "tub = yes" in told and "either = no" in told and "smoke" not in told
    assert "NaN" not in opened.tab.locator("body").inner_text()
    assert opened.tab.locator("output.probability b").inner_text() == "0"
    opened.tab.get_by_role("button", name="Take back tub = yes").first.click()
    opened.wait()
    assert opened.tab.locator(".impossible").count() == 0
    assert set(opened.evidence) == {names.index("smoke"), names.index("either")}


def test_before_is_shown_as_ghosts_and_can_be_pinned(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    assert opened.tab.locator(".ghost").count() == 0
    opened.click(names.index("smoke"), 0)
    moved = opened.tab.locator(".ghost").count()
    assert moved > 0
    opened.tab.get_by_role("button", exact=True, name="Pin").click()
    assert opened.tab.locator(".ghost").count() == 0
    opened.click(names.index("smoke"), 0)
    assert opened.tab.locator(".ghost").count() == moved
    opened.press("c")
    assert opened.tab.locator(".ghost").count() == 0


def test_everything_is_done_with_keys_alone(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    opened.press("/")
    opened.tab.keyboard.type("dysp")
    opened.press("Enter", "Enter")
    dysp = names.index("dysp")
    assert opened.evidence == {dysp: [1, 0]}
    opened.press("Enter", "ArrowDown", "n")
    assert opened.evidence == {dysp: [1, 0]}
    opened.press("Delete")
    assert opened.evidence == {}
    before = opened.beliefs[dysp][1]
    opened.press("+", "+")
    assert opened.beliefs[dysp][1] == pytest.approx(round(before + 0.05, 2) + 0.05, abs=0.006)
    opened.press("Control+z", "Control+z", "ArrowUp", "ArrowUp", " ")
    ((above, weights),) = opened.evidence.items()
    assert above != dysp and sorted(weights) == [0, 1]
    opened.press("Control+z", "?")
    assert opened.tab.get_by_role("dialog").is_visible()
    opened.press("Escape")
    assert opened.tab.get_by_role("dialog").count() == 0
    opened.press("Control+Shift+Z")
    assert opened.evidence == {above: weights}


def test_tab_leads_through_the_page(page: Open) -> None:
    opened = page(chest())
    reached = set()
    for _ in range(20):
        opened.press("Tab")
        reached.add(opened.tab.evaluate("document.activeElement.closest('main, aside, header')?.tagName"))
    assert {"MAIN", "ASIDE", "HEADER"} <= reached


def test_the_panel_has_all_states_and_weights(page: Open) -> None:
    model = fgrn.BayesianNetwork({"many": 20, "x": 2}, {"x": ["many"]}, {
        "many": np.full((1, 20), 0.05), "x": np.random.default_rng(0).dirichlet([1, 1], 20),
    })  # fmt: skip
    opened = page(model)
    assert opened.tab.locator('[data-variable="0"] [data-state]').count() < 20
    opened.tab.locator('[data-variable="0"] .heading').click()
    assert opened.tab.locator(".detail tbody tr").count() == 20
    opened.tab.get_by_role("button", name="many is 17", exact=True).click()
    opened.wait()
    seen = model.propagate({"many": [17]})
    np.testing.assert_allclose(opened.beliefs[1], seen.marginal("x")[0], rtol=0, atol=1e-9)
    opened.tab.get_by_role("button", name="many is not 17", exact=True).click()
    opened.wait()
    assert opened.evidence == {0: [1.0] * 17 + [0] + [1.0] * 2}
    opened.tab.get_by_label("Weight of 3 in the evidence on many").focus()
    opened.press("ArrowLeft")
    assert opened.evidence[0][3] == 0.99


# Questions, and rows of a table


def test_a_target_is_explained_and_the_next_question_shown(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    opened.click(names.index("xray"), 0)
    opened.tab.locator(".target select").select_option(label="lung")
    studied = opened.tab.evaluate(STUDIED)
    told = model.explain({"xray": "yes"}, "lung")
    why = opened.tab.locator(".target .fall").first
    assert [float(one.replace("−", "-")) for one in why.locator(".number").all_inner_texts()] == pytest.approx(
        [told.prior, told.contributions["xray"], told.log_odds], abs=0.0051
    )
    best = max((gain, number) for number, gain in enumerate(studied["gains"]) if names[number] not in ("lung", "xray"))
    opened.tab.locator(".target .fall button").first.click()
    opened.wait()
    assert opened.tab.locator(".detail h2").inner_text() == names[best[1]]
    opened.tab.locator(".target select").select_option(label="none")
    assert opened.tab.locator(".target .fall").count() == 0
    opened.tab.locator(".likeliest summary").click()  # which needs no target
    assert opened.tab.evaluate(STUDIED)["gains"] == []
    first, *following = model.most_probable_k(5, {"xray": "yes"})
    said = opened.tab.locator(".likeliest .states span").all_inner_texts()
    others = [name for name in names if name != "xray"]
    assert said == [word for name in others for word in (name, first.labels[name])]
    lines = opened.tab.locator(".likeliest dl div").all()
    assert [line.locator("dt").inner_text() for line in lines] == [
        f"{np.exp(one.log_probability):.4g}" for one in following
    ]
    assert [line.locator("dd").inner_text() for line in lines] == [
        ", ".join(f"{name} = {one.labels[name]}" for name in others if one.labels[name] != first.labels[name])
        for one in following
    ]


@pytest.fixture(scope="module")
def survey() -> tuple[Any, Any]:
    """A fitted classifier, and its table."""
    table = datasets.load("survey").frame().head(300)
    model = fgrn.LatentClassifier(n_hidden=3, n_init=1, n_epochs=20, random_state=0)
    return model.fit(table.drop(columns="travels_by"), table["travels_by"]), table


def test_the_rows_of_a_file_are_walked_through(page: Open, survey: tuple[Any, Any], tmp_path: Path) -> None:
    model, table = survey
    table.head(5).to_csv(tmp_path / "people.csv", index=False)
    opened, names = page(model), shown(model)
    opened.tab.locator("input[type=file]").set_input_files(tmp_path / "people.csv")
    target = names.index("travels_by")
    for row in range(5):
        opened.tab.get_by_text(f"Row {row} of 5, counted from 0").wait_for()
        opened.wait()
        one = table.drop(columns="travels_by").iloc[[row]]
        np.testing.assert_allclose(opened.beliefs[target], model.predict_proba(one)[0], rtol=0, atol=1e-9)
        assert target not in opened.evidence
        if isinstance(table["travels_by"].iloc[row], str):
            assert f"travels_by = {table['travels_by'].iloc[row]}" in opened.tab.locator(".row").inner_text()
        if row < 4:
            opened.tab.get_by_role("button", name="Next row").click()
    filled = model.complete(table.drop(columns="travels_by").iloc[[4]])
    for name in filled.columns:
        if table[name].isna().iloc[4] and not model.schema_[name].is_binned:
            chosen = opened.tab.get_by_role("combobox", name=name, exact=True).locator("option").first.inner_text()
            assert chosen.startswith(f"? {filled[name].iloc[0]} (")


@pytest.fixture(scope="module")
def refined() -> tuple[Any, Any]:
    """A classifier whose class a refined network predicts, and its table, with a column of rare words."""
    table = datasets.load("survey").frame()
    table["town"] = [f"town {k % 7 if k % 3 else k}" for k in range(len(table))]
    model = fgrn.LatentClassifier(2, structure="per_class", max_levels=8, random_state=0, engine="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.drop(columns="travels_by"), table["travels_by"])
    assert len(model._decision.refined) == 1
    return model, table


def test_the_rows_of_a_file_are_predicted_as_by_a_refined_classifier(
    page: Open, refined: tuple[Any, Any], tmp_path: Path
) -> None:
    model, table = refined
    table.head(40).to_csv(tmp_path / "people.csv", index=False)
    columns = table.drop(columns="travels_by").head(40)
    expected = model.predict_proba(columns)
    own = model.network_.posterior(model._coded(columns), "travels_by")
    assert (expected.argmax(axis=1) != own.argmax(axis=1)).any(), "the network that is shown would say another class"
    opened, target = page(model), shown(model).index("travels_by")
    opened.tab.locator("input[type=file]").set_input_files(tmp_path / "people.csv")
    opened.tab.get_by_text("Row 0 of 40").wait_for()
    for row in range(40):
        opened.tab.evaluate("row => fgrn.store.take(row)", row)
        opened.wait()
        np.testing.assert_allclose(opened.beliefs[target], expected[row], rtol=0, atol=1e-9)
        share = opened.state(target, int(expected[row].argmax())).locator(".share").text_content()
        assert share == f"{100 * expected[row].max():.1f}%"
        assert opened.tab.locator(".notices p").count() == 0
    told = opened.tab.evaluate(STUDIED)["explanation"]
    assert told["probability"] == pytest.approx(expected[39].max(), abs=1e-9)
    opened.tab.locator(".target h3", has_text=f"{100 * expected[39].max():.1f}%").wait_for()
    opened.tab.locator(".share summary").click()
    python, prediction, _ = opened.tab.locator(".share code").all_inner_texts()
    assert python.startswith("model.network_.propagate(") and prediction.startswith("model.predict_proba(")
    np.testing.assert_allclose(eval(prediction, {"model": model}), expected[39:], rtol=0, atol=1e-9)


def test_the_page_says_where_the_probabilities_of_a_class_come_from(page: Open, refined: tuple[Any, Any]) -> None:
    model, _ = refined
    opened, names = page(model), shown(model)
    target, line = names.index("travels_by"), opened.tab.locator(".refined")
    told = "is predicted by {} refined for it and, where values are missing, by the network shown as well, "
    told += "as in predict_proba; all else comes from the network shown."
    assert line.inner_text() == f"travels_by {told.format('a network')}"
    two = page(refined_classifier(2)[0])
    assert two.tab.locator(".refined").inner_text() == f"class {told.format('2 networks')}"
    opened.tab.locator(".share summary").click()
    prediction = opened.tab.locator(".share code").nth(1).inner_text()
    np.testing.assert_allclose(eval(prediction, {"model": model})[0], opened.beliefs[target], rtol=0, atol=1e-9)
    opened.state(target, 0).focus()
    opened.press("+")  # to a share that is asked for, by soft evidence
    assert opened.beliefs[target][0] * 100 == pytest.approx(round(opened.beliefs[target][0] * 100), abs=1e-3)
    weights = opened.evidence[target]
    expected = model.network_.propagate({"travels_by": [weights]}).marginal("travels_by")[0]
    np.testing.assert_allclose(opened.beliefs[target], expected, rtol=0, atol=1e-9)
    assert line.inner_text() == "While travels_by is evidence, all bars come from the network shown."
    assert opened.tab.locator(".share code").count() == 1, "neither a prediction nor a command has weights of states"
    assert page(chest()).tab.locator(".refined").count() == 0


def test_the_nearest_profiles_of_a_row_are_named(page: Open, survey: tuple[Any, Any]) -> None:
    model, _ = survey
    opened, names = page(model), shown(model)
    row = {"cars": "none", "residence": "centre", "bicycle": "yes"}
    for name, value in row.items():
        state = list(model.network_.variable(name).labels).index(value)
        opened.tab.evaluate(
            "([one, state]) => fgrn.store.toggle(fgrn.store.variables[one], state)", [names.index(name), state]
        )
        opened.wait()
    opened.tab.evaluate(STUDIED)
    nearest = []
    for label in model.classes_:
        profile = model.network_.prototype("travels_by", label)
        shares = [dict(zip(model.network_.variable(name).labels, profile[name], strict=True)) for name in row]
        likeliest = sum(max(one, key=one.__getitem__) == value for one, value in zip(shares, row.values(), strict=True))
        bits = -np.mean([np.log2(one[value]) for one, value in zip(shares, row.values(), strict=True)])
        nearest.append((bits, f"{label}: {bits:.3f}, {likeliest} of 3 likeliest"))
    told = opened.tab.locator(".profile summary").all_inner_texts()
    assert told == [line for _, line in sorted(nearest)][:5]
    opened.tab.locator(".profile summary").first.click()
    assert opened.tab.locator(".profile[open] .states span").count() == 9
    opened.click(names.index("S"), 0)
    assert opened.tab.locator(".profile[open] .states span").count() == 9, "a hidden variable is no value of a row"


def test_a_dropped_file_is_read_and_what_is_strange_is_told(page: Open, survey: tuple[Any, Any]) -> None:
    model, _ = survey
    opened, names = page(model), shown(model)
    code = """content => { const data = new DataTransfer();
        data.items.add(new File([content], 'some.csv'));
        const event = new DragEvent('drop', { bubbles: true, dataTransfer: data });
        document.querySelector('.page').dispatchEvent(event); }"""
    opened.tab.evaluate(code, '\ufeffcars;residence;"other;column"\r\nseven;centre;"a ""b"""\r\nnone;?;\r\n')
    opened.tab.get_by_text("Row 0 of 2").wait_for()
    opened.wait()
    centre = list(model.network_.variable("residence").labels).index("centre")
    assert {names[number]: one.index(1) for number, one in opened.evidence.items()} == {"residence": centre}
    opened.tab.locator(".notices", has_text="Row 0: cars = seven is unknown to the model").wait_for()
    opened.tab.get_by_role("button", name="Next row").click()
    opened.tab.get_by_text("Row 1 of 2").wait_for()
    opened.wait()
    assert [names[number] for number in opened.evidence] == ["cars"]
    opened.tab.evaluate(code, "nothing,known\n1,2\n")
    opened.tab.locator(".notices", has_text="some.csv has no rows with columns of this model.").wait_for()


def test_a_column_without_a_name_is_read_as_python_does(page: Open) -> None:
    model = fgrn.naive_bayes({"x0_": ["a", "b"], "x0": ["p", "q"], "L": ["no", "yes"]}, class_variable="L")
    opened, names = page(model), shown(model)
    code = "content => fgrn.store.open('some.csv', content)"
    opened.tab.evaluate(code, ",x0\nb,p\n")
    opened.wait()
    assert {names[number]: one.index(1) for number, one in opened.evidence.items()} == {"x0_": 1, "x0": 0}


def test_rows_without_values_are_rows_as_in_python(page: Open, survey: tuple[Any, Any]) -> None:
    """Also of a table of one column, where an empty line is one; in others it is none."""
    opened = page(survey[0])
    code = "content => fgrn.store.open('some.csv', content)"
    for content, count in (("cars,age\n,\nnone,31\n,\n\none,60\n", 4), ("cars\n\nnone\n", 2), ("cars,age\none,60", 1)):
        opened.tab.evaluate(code, content)
        opened.tab.get_by_text(f"Row 0 of {count}").wait_for()


def test_the_form_sets_values(page: Open, survey: tuple[Any, Any]) -> None:
    model, _ = survey
    opened, names = page(model), shown(model)
    field = opened.tab.get_by_role("combobox", name="cars", exact=True)
    field.select_option("none")
    opened.wait()
    assert [names[number] for number in opened.evidence] == ["cars"]
    np.testing.assert_allclose(
        opened.beliefs[names.index("travels_by")],
        model.network_.posterior({"cars": ["none"]}, "travels_by")[0],
        atol=1e-9,
    )
    field.select_option("-1")
    opened.wait()
    assert opened.evidence == {}
    number, age = opened.tab.get_by_label("age, as a number"), names.index("age")
    for typed in (17, 41.9, 200):
        number.fill(str(typed))
        number.press("Enter")
        opened.wait()
        assert opened.beliefs[age][model.schema_["age"].codes([typed])[0][0]] == 1
    opened.click(age, 0)
    assert number.input_value() == "", "another bin was chosen"
    number.fill("30")
    number.press("Enter")
    number.fill("")
    number.press("Enter")
    opened.wait()
    assert opened.evidence == {}


def test_columns_that_a_page_has_not_are_named(page: Open) -> None:
    draw = np.random.default_rng(0)
    table = {"a": draw.choice(["no", "yes"], 60), "b": draw.choice(["no", "yes"], 60), "size": draw.normal(size=60)}
    model = fgrn.LatentClassModel(2, continuous=["size"], n_init=1, n_epochs=3, tol=0, random_state=0).fit(table)
    opened = page(model)
    assert opened.tab.get_by_text("Not on this page: size, whose values are continuous.").is_visible()
    opened.click(shown(model).index("a"), 0)
    expected = model.predict_proba({"a": ["no"], "b": [None], "size": [None]})
    np.testing.assert_allclose(opened.beliefs[shown(model).index("S")], expected[0], rtol=0, atol=1e-9)


def test_the_row_of_a_network_is_a_form_when_it_is_opened(page: Open) -> None:
    model = chest()
    opened, names = page(model), list(model.names)
    assert opened.tab.locator(".form").count() == 0
    opened.tab.locator(".row summary").click()
    opened.tab.get_by_role("combobox", name="smoke", exact=True).select_option("yes")
    opened.wait()
    assert opened.evidence == {names.index("smoke"): [1, 0]}


# Share


def test_the_address_reproduces_the_state(page: Open) -> None:
    model = chest()
    first, names = page(model), list(model.names)
    first.click(names.index("smoke"), 0)
    first.click(names.index("xray"), 1)
    first.state(names.index("dysp"), 0).focus()
    first.press("+", "i")
    address = first.tab.evaluate("location.hash")
    second = page(model, address)
    assert second.evidence == first.evidence
    np.testing.assert_array_equal(np.concatenate(second.beliefs), np.concatenate(first.beliefs))
    assert second.tab.locator(".detail h2").inner_text() == "dysp"
    assert page(model, "#e=nobody,1&e=smoke,9&e=smoke&e=lung,a:b&s=__proto__&&=").evidence == {}


def test_the_evidence_as_python_and_as_a_command(page: Open, tmp_path: Path) -> None:
    model = chest()
    names = list(model.names)
    fgrn.write(model, tmp_path / "a chest.bif")
    opened = page(model, about={"source": tmp_path / "a chest.bif"})
    opened.click(names.index("smoke"), 0)
    opened.state(names.index("xray"), 1).focus()
    opened.press("+")
    opened.tab.locator(".share summary").click()
    python, command = opened.tab.locator(".share code").all_inner_texts()
    seen = eval(python, {"model": model})
    for name, belief in zip(names, opened.beliefs, strict=True):
        np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", *words, "--json"], capture_output=True, text=True, check=True, timeout=120
    )
    answer = json.loads(done.stdout)
    assert answer["log_probability"] == pytest.approx(opened.log_likelihood, abs=1e-9)


def test_the_lines_of_an_estimator_run(
    page: Open, survey: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = survey
    model.save(tmp_path / "people.fgrn")
    opened, names = page(model, "#e=cars,0&e=age,2&e=travels_by,1", about={"source": "people.fgrn"}), shown(model)
    opened.tab.locator(".share summary").click()
    python, command = opened.tab.locator(".share code").all_inner_texts()
    seen = eval(python, {"model": model})
    for name, belief in zip(names, opened.beliefs, strict=True):
        np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    assert words[0] == "fgrn"
    assert main(words[1:]) == 0
    assert (tmp_path / "beliefs.svg").stat().st_size > 10_000
    opened.click(names.index("S"), 0)
    assert opened.tab.locator(".share code").count() == 1, "there is no command for evidence on a hidden variable"


def test_pictures_are_exported(page: Open) -> None:
    opened = page(chest())
    opened.click(0, 0)
    opened.tab.locator(".share summary").click()
    for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with opened.tab.expect_download() as waiting:
            opened.tab.get_by_role("button", name=kind, exact=True).click()
        data = Path(waiting.value.path()).read_bytes()
        assert data.startswith(begins)
        assert len(data) > 5000
        if kind == "SVG":
            words = [one.firstChild.data for one in parseString(data).getElementsByTagName("text") if one.firstChild]
            assert {"travel", "smoke", "yes"} <= set(words)
