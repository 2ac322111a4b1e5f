"""Pages of `fgrn.explore` in a real browser: the factor graph, its messages one by one, and rounds on loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import chest
from pages import MESSAGES, Open, Opened, assert_messages, shown
from random_models import random_tree

import fgrn

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["product space", "stack", "junction tree"])
def test_factor_graphs_of_all_kinds_are_drawn(page: Open, kind: str) -> None:
    model: Any = {"product space": random_tree(1), "stack": random_tree(2), "junction tree": chest()}[kind]
    opened, first = page(model, "#v=factor"), model.variable(shown(model)[0])
    net = model if isinstance(model, fgrn.Network) else model._tree_network()
    assert opened.tab.locator("[data-wire]").count() == net._plan(()).edges
    opened.click(0, 0)
    assert_messages(net.propagate({first.name: [first.labels[0]]}), *opened.tab.evaluate(MESSAGES))


def heat(opened: Opened) -> np.ndarray:
    """The numbers of a heat map."""
    rows = opened.tab.locator(".heat tbody tr").all()
    return np.array([[float(cell) for cell in row.locator("td").all_inner_texts()] for row in rows])


def test_a_wire_shows_its_messages_and_a_block_its_table(page: Open) -> None:
    draw = np.random.default_rng(0)
    net = fgrn.lvm({"a": ["no", "yes"], "b": 3}, hidden=2, tables={"a": draw.dirichlet([1, 1], 2)})
    opened = page(net)
    opened.tab.get_by_role("button", name="Factor graph").click()
    opened.click(shown(net).index("a"), 1)
    seen = net.propagate({"a": ["yes"]})
    edge = seen.plan.edge("S")
    opened.tab.locator(f'[data-wire="{edge}"]').click()
    rows = [
        row.all_inner_texts() for row in (one.locator("td") for one in opened.tab.locator(".detail tbody tr").all())
    ]
    parts = (seen.forward("S")[0], seen.backward("S")[0], seen.marginal("S")[0])
    assert rows == [[f"{100 * part[state]:.1f}%" for part in parts] for state in range(2)]
    opened.tab.locator('[data-block="siso 0"]').click()
    np.testing.assert_allclose(heat(opened), net.table("a"), atol=0.0051)
    opened.tab.get_by_role("button", name="Sorted").click()
    peaks = heat(opened).argmax(axis=1).tolist()
    assert peaks == sorted(peaks)
    opened.tab.locator('[data-block="diverter 0"]').first.click()
    assert "Diverter" in opened.tab.locator(".detail h2").inner_text()


def test_a_factor_of_a_junction_tree_shows_its_conditional_table(page: Open) -> None:
    model = chest()
    opened = page(model, "#v=factor")
    opened.tab.locator(".block", has_text="P(dysp | bronc, either)").click()
    np.testing.assert_allclose(heat(opened), model.table("dysp"), atol=0.0051)
    assert opened.tab.locator(".heat tbody th").all_inner_texts() == ["yes, yes", "yes, no", "no, yes", "no, no"]
    opened.tab.locator(".block", has_text="P(smoke)").click()
    assert opened.tab.locator(".heat tbody th").all_inner_texts() == ["yes", "no"]
    opened.tab.locator("[data-wire]", has_text="{lung, either}").click()  # between two cliques
    assert opened.tab.locator(".detail tbody th").all_inner_texts() == ["yes, yes", "yes, no", "no, yes", "no, no"]
    assert opened.tab.get_by_text("States of lung, either, in this order.").count() == 1


def test_wires_and_blocks_are_folded_behind_a_wire(page: Open) -> None:
    net = fgrn.lvm({"a": 2, "b": 2, "c": 2}, hidden=2)
    opened, names = page(net, "#v=factor"), shown(net)

    def seen(of: Opened) -> tuple[int, int, int]:
        return tuple(of.tab.locator(one).count() for one in ("[data-wire]", "[data-block]", ".wiring > .wire"))

    whole = seen(opened)
    assert whole == (7, 5, 11)
    branch = opened.tab.get_by_role("button", name="Fold 1 wire behind S->a:")
    branch.click()
    assert seen(opened) == (6, 4, 9), "the SISO block of a, its lines, and a"
    opened.click(names.index("b"), 1)
    opened.tab.locator(f'[data-variable="{names.index("S")}"] .fold').click()
    assert seen(opened) == (1, 1, 1), "all but the Source and S"
    assert opened.tab.locator(f'[data-variable="{names.index("S")}"] .fold text').text_content() == "6 • ▸"
    again = page(net, opened.tab.evaluate("location.hash"))
    assert seen(again) == (1, 1, 1) and again.evidence == opened.evidence
    again.press("/")
    again.tab.keyboard.type("b")
    again.press("Enter")
    assert seen(again) == (6, 4, 9), "what is searched for is unfolded, and no more"
    opened.tab.get_by_role("button", name="Unfold all").click()
    assert seen(opened) == whole


def test_joint_states_are_named(page: Open) -> None:
    net = fgrn.Network([
        fgrn.Source(rain := fgrn.Variable("rain", ["no", "yes"]), [0.7, 0.3]),
        fgrn.Source(tap := fgrn.Variable("tap", ["off", "on", "hot"]), [0.5, 0.3, 0.2]),
        fgrn.Diverter([rain, tap], [both := fgrn.Variable("both", 6)]),
        fgrn.SISO(both, fgrn.Variable("grass", ["dry", "wet"]), np.linspace([0.9, 0.1], [0.1, 0.9], 6)),
    ])  # fmt: skip
    joint = [f"{one}, {two}" for one in ("no", "yes") for two in ("off", "on", "hot")]
    opened = page(net, "#v=factor")
    opened.tab.locator("[data-wire]", has_text="both").click()
    heads = opened.tab.locator(".detail tbody th")
    assert heads.all_inner_texts() == joint
    assert opened.tab.get_by_text("States of rain, tap, in this order.").count() == 1
    opened.tab.locator("[data-block='siso 0']").click()
    assert heads.all_inner_texts() == joint


def test_wires_and_blocks_are_reached_by_keys_and_kept_in_the_address(page: Open) -> None:
    net = fgrn.lvm({"a": ["no", "yes"], "b": 3}, hidden=2)
    opened = page(net, "#v=factor&m=3")
    told = opened.tab.locator(".stepper p").inner_text()
    assert ", message 3 of" in told
    opened.tab.locator("[data-block='source 0']").focus()
    opened.press("ArrowDown")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert opened.tab.evaluate(focused).startswith("Wire S: Forward ")
    opened.press("ArrowDown", "Enter")
    assert opened.tab.evaluate(focused) == "Diverter"
    title = opened.tab.locator(".detail h2")
    assert title.inner_text() == "Diverter"
    opened.tab.locator(".detail .buttons button", has_text="S->a").focus()
    opened.press("Enter")
    assert title.inner_text() == "S->a"
    assert opened.tab.evaluate("document.activeElement.tagName") == "H2", "the keyboard goes along"
    again = page(net, opened.tab.evaluate("location.hash"))
    assert again.tab.locator(".detail h2").inner_text() == "S->a"
    assert again.tab.locator(".stepper p").inner_text() == told
    again.tab.locator("[data-block='siso 1']").click()
    address = again.tab.evaluate("location.hash") + "&w=nothing&b=siso,9&m=999&f=%23edge99"  # and what is not there
    assert page(net, address).tab.locator(".detail h2").inner_text() == "P(b | S->b)"


def test_a_tall_factor_graph_has_names_and_the_newest_message_in_sight(page: Open) -> None:
    opened = page(fgrn.hmm({"Y": 2}, hidden=2, length=20), "#v=factor")
    assert opened.tab.locator(".far").count() == 1
    assert {"S[0]", "S[19]", "Y[7]"} <= set(opened.tab.locator(".block .large:visible").all_text_contents())
    for _ in range(5):
        opened.tab.get_by_role("button", name="Zoom in").click()
    inside = """() => { const room = document.querySelector('.graph').getBoundingClientRect();
        const { left, right, top, bottom } = document.querySelector('.fresh').getBoundingClientRect();
        return left >= room.left && right <= room.right && top >= room.top && bottom <= room.bottom; }"""
    slider = opened.tab.get_by_role("slider", name="Step through the messages")
    for step in (1, 50, 90, 130):
        slider.fill(str(step))
        opened.wait()
        assert opened.tab.evaluate(inside), step


def test_messages_are_sent_one_by_one(page: Open) -> None:
    net = fgrn.hmm({"Y": 2}, hidden=2, length=3)
    opened = page(net, "#v=factor")
    opened.click(shown(net).index("Y[1]"), 0)
    sends = opened.tab.evaluate("fgrn.store.factor.sends")
    ends = sum(name in net.observed for name in (one.name for one in net.variables))
    assert len(sends) == 2 * len(net.variables) - ends, "every message but those of the boundary, once"
    rounds = [one["round"] for one in sends]
    assert rounds == sorted(rounds) and rounds[0] == 1 and rounds[-1] <= net.diameter
    slider = opened.tab.get_by_role("slider", name="Step through the messages")
    slider.fill("0")
    told = opened.tab.locator(".stepper p")
    assert told.inner_text().startswith("Start. No message has been sent. Evidence is in place on 1 variable;")
    assert opened.tab.locator(".state .share:text('%')").count() == 0
    seen = set()
    for at in range(len(sends)):
        opened.press(".")
        assert told.inner_text().startswith(f"Round {rounds[at]} of {rounds[-1]}, message {at + 1} of {len(sends)}.")
        seen.add(told.inner_text())
        assert opened.tab.locator('.message[data-sent="true"]').count() == at + 1 + ends
    assert len(seen) == len(sends)
    assert opened.tab.get_by_role("button", name="One message on").is_disabled()
    opened.press(",")
    opened.tab.get_by_role("button", name="Play").click()
    opened.tab.locator(".stepper p", has_text=f"message {len(sends)} of").wait_for()
    opened.tab.get_by_role("button", name="All", exact=True).click()
    opened.press("v")
    assert opened.tab.locator(".stepper").count() == 0


def test_rounds_are_stepped_through_on_loops(page: Open) -> None:
    net = chest().to_network("loopy")
    assert not net.is_tree
    opened = page(net, "#v=factor")
    names = shown(net)
    opened.click(names.index("dysp"), 0)
    steps = list(net.steps({"dysp": ["yes"]}, tolerance=1e-9))
    seen = net.propagate({"dysp": ["yes"]})
    for name, belief in zip(names, opened.beliefs, strict=True):
        np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
    assert opened.tab.locator(".loops").inner_text() == (
        f"This network has loops: beliefs are approximations, after {seen.rounds} rounds."
    )
    assert opened.tab.locator("output.probability b").inner_text().startswith("≈ ")
    slider = opened.tab.get_by_role("slider", name="Step through the messages")
    told = opened.tab.locator(".stepper p")
    for number in (0, 1, 5, int(slider.get_attribute("max"))):
        slider.fill(str(number))
        opened.wait()
        expected = "Start." if number == 0 else f"Round {number} of {seen.rounds}."
        assert told.inner_text().startswith(expected)
        share = steps[min(number, len(steps) - 1)].messages.marginal("bronc")[0, 0]
        assert f"{100 * share:.1f}%" in opened.state(names.index("bronc"), 0).text_content()
        assert_messages(steps[min(number, len(steps) - 1)].messages, *opened.tab.evaluate(MESSAGES))
    opened.press(",")
    assert told.inner_text().startswith(f"Round {seen.rounds - 1} of")
