"""Pages of `fgrn.explore` in a real browser: any names, any screen, in notebooks and with a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from models import chest, circle, refined_classifier
from pages import MESSAGES, STUDIED, Open, Opened, absent, assert_messages, assert_same, random_rows

import fgrn
from fgrn.page.disk_rows import RowsOnDisk
from fgrn.page.export import shown_model
from fgrn.page.server import server_of
from fgrn.page.widget import SCRIPT

pytestmark = pytest.mark.slow

HOSTILE = [
    "</script><script>alert(1)</script>", "\"quotes\" & 'more'", "😀 emoji 👩‍🔬", "x" * 200, "שלום עולם", "__proto__",
    "line\nbreak\ttab", "<b>bold</b>", "a,b=c&d#e%41", "constructor", "\u202egnirts", "-->",
]  # fmt: skip


def test_hostile_names_are_only_names(page: Open) -> None:
    states = {name: [f"{k} {name}"[:150] for k in range(2)] if k % 2 else 2 for k, name in enumerate(HOSTILE)}
    states = {name: ["</script>", "<!--"] if name == "-->" else value for name, value in states.items()}
    arcs = [(HOSTILE[0], name) for name in HOSTILE[1:]]
    draw = np.random.default_rng(0)
    tables = {name: draw.dirichlet([1, 1], 2 if k else 1) for k, name in enumerate(HOSTILE)}
    model = fgrn.BayesianNetwork(states, arcs, tables, name="</title><script>alert(2)</script>")
    dialogs: list[Any] = []
    opened = page(model)
    opened.tab.on("dialog", lambda dialog: dialogs.append(dialog))
    assert_same(model, opened, random_rows(model, draw, 10))
    for number in range(len(HOSTILE)):
        opened.click(number, 1)
    assert len(opened.evidence) == len(HOSTILE)
    again = page(model, opened.tab.evaluate("location.hash"))
    assert again.evidence == opened.evidence
    opened.tab.locator(".share summary").click()
    python = opened.tab.locator(".share code").first.inner_text()
    seen = eval(python, {"model": model})
    assert seen.log_likelihood[0] == pytest.approx(opened.log_likelihood, abs=1e-9)
    assert dialogs == []
    assert opened.tab.locator("b:text('bold')").count() == 0


OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('.card')].map(one => one.querySelector('.paper').getBoundingClientRect());
  const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  let found = 0;
  boxes.forEach((a, i) => boxes.forEach((b, j) => { if (i < j && cross(a, b)) found++; }));
  for (const card of document.querySelectorAll('.card')) {
    const paper = card.querySelector('.paper').getBoundingClientRect();
    for (const text of card.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.width && (box.left < paper.left - 2 || box.right > paper.right + 2)) found++;
    }
    for (const row of card.querySelectorAll('.state')) {
      const [label, share] = ['.label', '.share'].map(one => row.querySelector(one).getBoundingClientRect());
      if (label.width && label.right > share.left) found++;
    }
  }
  return found; }"""


TEXTS_ACROSS = """() => {
  const boxes = [...document.querySelectorAll('.graph text')].map(one => one.getBoundingClientRect());
  const along = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
  const cross = (a, b) => along(a, b) && a.top < b.bottom - 1.5 && b.top < a.bottom - 1.5;
  return boxes.filter((a, i) => a.width && boxes.some((b, j) => i < j && b.width && cross(a, b))).length; }"""


@pytest.mark.parametrize("options", [
    {"color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True},
])  # fmt: skip
def test_nothing_overlaps_and_everything_is_in_reach(page: Open, options: dict[str, Any]) -> None:
    states = {name: [f"a state with a long name {k}" for k in range(3)] for name in HOSTILE}
    wide = fgrn.BayesianNetwork(states, [(HOSTILE[0], name) for name in HOSTILE[1:]])
    for model in (chest(), wide):
        opened = page(model, **options)
        assert opened.tab.evaluate(OVERLAPS) == 0
        assert opened.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for button in opened.tab.locator("header button, .zoom button").all():
            box = button.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= opened.tab.viewport_size["width"]
        opened.press("v")
        assert opened.tab.evaluate(TEXTS_ACROSS) == 0
    dark = options.get("color_scheme") == "dark"
    for turned in (dark, not dark):  # as the system has it, then by the button
        colours = (
            opened.tab.evaluate(f"getComputedStyle(document.body).{one}") for one in ("backgroundColor", "color")
        )
        paper, ink = (sum(map(int, colour[4:-1].split(", "))) for colour in colours)
        assert (paper < 200, ink > 400) == (turned, turned)
        opened.tab.get_by_role("button", name="Light or dark").click()


def test_a_finger_sets_evidence_on_a_phone(page: Open) -> None:
    opened = page(chest(), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    opened.tab.get_by_role("button", name="Show the whole network").tap()
    opened.tab.locator('[data-variable="0"] .heading').dispatch_event("click")
    opened.tab.get_by_role("button", name="travel is yes", exact=True).tap()
    opened.wait()
    assert opened.evidence == {0: [1, 0]}


def test_models_without_directions_have_factors(page: Open) -> None:
    model = circle()
    opened = page(model)
    assert opened.tab.locator(".square").count() == 7
    opened.click(0, 1)
    assert_same(model, opened, random_rows(model, np.random.default_rng(1), 5))


def test_a_notebook_shows_the_page_in_a_frame(tab: Opened, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><p>cell</p>{fgrn.explore(chest())._repr_html_()}", encoding="utf-8")
    tab.tab.goto(path.as_uri())
    frame = tab.tab.frame_locator("iframe")
    bar = frame.locator('[data-variable="0"] [data-state="0"]')
    bar.click()
    frame.locator(".known li").wait_for()
    assert frame.locator(".known li").inner_text().startswith("travel = yes")
    assert frame.locator("output.probability b").inner_text() == "0.02"
    tab.assert_quiet()


def test_a_model_in_a_notebook_opens_its_page_by_a_button(tab: Opened, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><p>cell</p>{chest()._repr_html_()}", encoding="utf-8")
    tab.tab.goto(path.as_uri())
    assert tab.tab.locator("svg").first.is_visible()
    frame = tab.tab.frame_locator("iframe")
    assert frame.locator(".card").count() == 0, "it does not work before it is wanted"
    tab.tab.get_by_text("Explore", exact=True).click()
    frame.locator('[data-variable="0"] [data-state="0"]').click()
    frame.locator(".known li").wait_for()
    tab.assert_quiet()


NOTEBOOK = """<!DOCTYPE html><p>cell</p><script>{script}</script><script>
  const values = {values}, heard = {{}};
  window.model = {{ get: name => values[name], set: some => Object.assign(values, some), save_changes: () => {{}},
    on: (name, act) => (heard[name] = act), values,
    tell: given => (values._given = given, heard["change:_given"]()) }};
  widget.render({{ model, el: document.body }});
</script>"""


def test_a_widget_carries_evidence_and_beliefs_both_ways(tab: Opened, tmp_path: Path) -> None:
    if find_spec("anywidget") is None:
        absent("widgets are made by anywidget, which is not installed (pip install 'fgrn[browser]')")
    model = chest()
    names = list(model.names)
    made = fgrn.explore(model).widget()
    made.evidence = {"smoke": "yes"}
    values = json.dumps({"_html": made._html, "_given": made._given, "_beliefs": []}).replace("<", "\\u003c")
    script = SCRIPT.replace("export default", "window.widget =")
    path = tmp_path / "notebook.html"
    path.write_text(NOTEBOOK.format(script=script, values=values), encoding="utf-8")
    tab.tab.goto(path.as_uri())

    def settle(known: dict[str, Any]) -> None:
        """Wait until Python's side knows this, and what follows."""
        seen = model.propagate({name: [value] for name, value in known.items()} or None)
        expected = np.concatenate([seen.marginal(name)[0] for name in names])
        for _ in range(1000):
            made._given, made._beliefs = tab.tab.evaluate("[model.values._given, model.values._beliefs]")
            found = [share for belief in made.beliefs.values() for share in belief.values()]
            if made.evidence == known and len(found) and np.allclose(found, expected, rtol=0, atol=1e-9):
                return
            tab.tab.wait_for_timeout(10)
        pytest.fail(f"{made.evidence} and {made.beliefs} are not what {known} comes to")

    settle({"smoke": "yes"})
    xray = f'[data-variable="{names.index("xray")}"] [data-state="1"]'
    tab.tab.frame_locator("iframe").locator(xray).click()
    settle({"smoke": "yes", "xray": "no"})
    made.evidence = {"dysp": [0.5, 1.0], "lung": None}
    tab.tab.evaluate("given => model.tell(given)", made._given)
    settle({"dysp": [0.5, 1.0]})
    tab.assert_quiet()


@contextmanager
def served(model: Any, **options: Any) -> Iterator[str]:
    """The address of a page whose model stays in Python."""
    server, address = server_of(model, "served", **options)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_that_is_served_does_the_same(tab: Opened) -> None:
    model = chest()
    names = list(model.names)
    with served(model) as address:
        opened = tab.open(address, "#t=lung&e=dysp,0.2:1")
        opened.click(names.index("xray"), 0)
        seen = model.propagate({"xray": ["yes"], "dysp": [[0.2, 1]]})
        for name, belief in zip(names, opened.beliefs, strict=True):
            np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
        assert opened.tab.evaluate(STUDIED)["entropy"] > 0
        opened.tab.locator(".target .fall").first.get_by_text("xray = yes").wait_for()
        opened.tab.get_by_role("button", name="Factor graph").click()
        opened.tab.wait_for_function("fgrn.store.messages !== null")
        network = model._tree_network()
        assert_messages(network.propagate({"xray": ["yes"], "dysp": [[0.2, 1]]}), *opened.tab.evaluate(MESSAGES))
        opened.press(",", "v")
        opened.click(names.index("tub"), 0)
        opened.click(names.index("either"), 1)
        assert "tub = yes" in opened.tab.locator(".impossible p").inner_text()
        assert opened.complaints == []
        assert all(url.startswith(address) for url in opened.requests)


def test_a_served_page_predicts_the_class_as_the_classifier_does(tab: Opened) -> None:
    model, table = refined_classifier(2)
    names = [one.name for one in shown_model(model).cards]
    with served(model) as address:
        opened = tab.open(address)
        assert opened.tab.locator(".refined").inner_text().startswith("class is predicted by 2 networks refined for it")
        opened.click(names.index("a"), 1)
        known = {name: ["yes" if name == "a" else None] for name in table}
        expected = model.predict_proba(known)[0]
        np.testing.assert_allclose(opened.beliefs[names.index("class")], expected, rtol=0, atol=1e-9)
        for _ in range(100):  # the server answers this question after that for the beliefs
            probability = opened.tab.evaluate(STUDIED)["explanation"]["probability"]
            if probability == pytest.approx(expected.max(), abs=1e-9):
                break
            opened.tab.wait_for_timeout(100)
        assert probability == pytest.approx(expected.max(), abs=1e-9)
        assert opened.complaints == []


def test_rounds_of_a_served_page_are_stepped_through(tab: Opened) -> None:
    net = chest().to_network("loopy")
    with served(net) as address:
        opened = tab.open(address, "#v=factor&e=dysp,0")
        steps = list(net.steps({"dysp": ["yes"]}, tolerance=1e-9))
        assert opened.tab.locator(".loops").inner_text().endswith(f"after {steps[-1].number} rounds.")
        opened.tab.get_by_role("slider", name="Step through the messages").fill("2")
        opened.wait()
        assert_messages(steps[2].messages, *opened.tab.evaluate(MESSAGES))
        assert opened.complaints == []


def test_the_rows_of_a_table_on_disk_are_walked_through(tab: Opened, tmp_path: Path) -> None:
    model = chest()
    names = list(model.names)
    lines = [f"{'yes' if k % 2 else 'no'},{'' if k % 3 else 'yes'}" for k in range(500)]
    (tmp_path / "many.csv").write_text("\n".join(["smoke,xray", *lines]))
    with served(model, rows=RowsOnDisk(str(tmp_path / "many.csv"))) as address:
        opened = tab.open(address)
        opened.tab.get_by_text("Row 0 of 500").wait_for()
        opened.wait()
        assert opened.evidence == {names.index("smoke"): [0, 1], names.index("xray"): [1, 0]}
        field = opened.tab.get_by_label("Go to row")
        field.fill("449")
        field.press("Enter")
        opened.tab.get_by_text("Row 449 of 500").wait_for()
        opened.tab.locator(".known li", has_text="smoke = yes").wait_for()
        opened.wait()
        assert opened.evidence == {names.index("smoke"): [1, 0]}
        assert opened.complaints == []


def test_the_policy_forbids_requests(page: Open) -> None:
    opened = page(chest())
    tried = """async () => {
        const failed = [];
        try { await fetch('http://127.0.0.1:9/'); } catch { failed.push('fetch'); }
        await new Promise(done => { const image = new Image(); image.onerror = () => (failed.push('image'), done());
            image.onload = done; image.src = 'http://127.0.0.1:9/a.png'; });
        try { (0, eval)('1 + 1'); } catch { failed.push('eval'); }
        return failed; }"""
    assert opened.tab.evaluate(tried) == ["fetch", "image", "eval"]
    assert all("Content Security Policy" in one for one in opened.complaints)
    opened.complaints.clear()
    opened.requests[:] = [url for url in opened.requests if not url.startswith("http://127.0.0.1:9/")]
