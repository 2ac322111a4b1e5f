"""Pages of `fgrn.explore` in a real browser: the same numbers as Python, and all that people do with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from models import chest, circle
from pages import Opened, absent, assert_same, browser, random_rows, shown
from random_models import bayesian_network, markov_network

import fgrn
from fgrn.page.widget import SCRIPT

pytestmark = pytest.mark.slow

Open = Callable[..., Opened]
FILES = ("alarm", "andes", "asia", "cancer", "child", "hepar2", "insurance", "sachs", "survey", "water", "win95pts")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a model; afterwards nothing was requested and nothing went wrong."""
    opened: list[Opened] = []
    contexts: list[Any] = []

    def show(model: Any, after: str = "", *, about: dict[str, Any] | None = None, **options: Any) -> Opened:
        path = tmp_path / f"page{len(opened)}.html"
        fgrn.explore(model, path, **(about or {}))
        contexts.append(chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}))
        opened.append(Opened(contexts[-1].new_page()))
        return opened[-1].open(path, after)

    yield show
    for one in opened:
        one.assert_quiet()
    for context in contexts:
        context.close()


# The same numbers as Python


def random_tree(seed: int) -> fgrn.Network:
    """A network of one of the ready-made kinds, with random tables, a few of them with zeros."""
    draw = np.random.default_rng(seed)
    sizes = {f"Y{k}": int(draw.integers(2, 5)) for k in range(int(draw.integers(2, 7)))}
    kind = seed % 4
    if kind == 0:
        net = fgrn.lvm(sizes, hidden=int(draw.integers(2, 6)))
    elif kind == 1:
        net = fgrn.dica(sizes, hidden=[2, 3])
    elif kind == 2:
        names = list(sizes)
        net = fgrn.stack(sizes, [3, 2], groups=[[names[:1], names[1:]]])
    else:
        net = fgrn.hmm({"Y": 3}, hidden=3, length=4)
    tables = {}
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.learn:
            shape = (block.input.cardinality, block.output.cardinality)
            table = draw.dirichlet(np.full(shape[1], 0.5), shape[0])
            table[draw.random(shape) < 0.1] = 0
            table[:, 0] += 1e-3
            tables[block.output.name] = table / table.sum(axis=1, keepdims=True)
    blocks: list[Any] = []
    for block in net.blocks:
        if isinstance(block, fgrn.SISO) and block.output.name in tables:
            blocks.append(fgrn.SISO(block.input, block.output, tables[block.output.name]))
        elif isinstance(block, fgrn.Source):
            blocks.append(fgrn.Source(block.variable, draw.dirichlet(np.ones(block.variable.cardinality))))
        else:
            blocks.append(block)
    return fgrn.Network(blocks)


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_are_as_in_python(page: Open, seed: int) -> None:
    net = random_tree(seed)
    assert_same(net, page(net), random_rows(net, np.random.default_rng(seed), 20))


@pytest.mark.parametrize("seed", range(6))
def test_random_models_are_as_in_python(page: Open, seed: int) -> None:
    for model in (bayesian_network(seed), markov_network(seed)):
        assert_same(model, page(model), random_rows(model, np.random.default_rng(seed), 20))


@pytest.mark.parametrize("name", FILES)
def test_known_networks_are_as_in_python(page: Open, shared_data: Path, name: str) -> None:
    model = fgrn.read(shared_data / "bif" / f"{name}.bif")
    assert_same(model, page(model), random_rows(model, np.random.default_rng(0), 1 if name == "water" else 4))


def test_a_latent_class_model_with_missing_and_soft_values_is_as_in_python(page: Open) -> None:
    draw = np.random.default_rng(0)
    sizes = {f"Y{k}": int(draw.integers(2, 5)) for k in range(100)}
    net = fgrn.lvm(sizes, hidden=12)
    net.learn({name: draw.integers(0, size, 300) for name, size in sizes.items()}, epochs=3, smoothing=0.01)
    assert_same(net, page(net), random_rows(net, draw, 10))


def test_products_far_below_the_smallest_number_are_right(page: Open) -> None:
    """Hundreds of leaves that disagree by orders of magnitude: in plain numbers everything would vanish."""
    sizes = {f"Y{k}": 2 for k in range(150)}
    tables = {name: [[1 - 1e-9, 1e-9], [1e-7, 1 - 1e-7], [0.0, 1.0]] for name in sizes}
    net = fgrn.lvm(sizes, hidden=3, tables=tables)
    half = {name: k % 2 for k, name in enumerate(sizes)}
    all_one = dict.fromkeys(sizes, 1)
    assert_same(net, page(net), [half, all_one, {**all_one, "Y3": [1.0, 1e-200]}])


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
    for _ in range(100):
        if place()[2] > 1.3 * scale:
            break
        opened.tab.wait_for_timeout(50)
    assert place()[2] > 1.3 * scale
    opened.press("f")
    assert place()[2] == pytest.approx(scale)


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


# The factor graph

MESSAGES = """() => { const { forward, backward } = fgrn.store.messages;
    return [forward, backward].map(one => one.map(each => [...each])); }"""


@pytest.mark.parametrize("seed", range(8))
def test_all_messages_are_as_in_python(page: Open, seed: int) -> None:
    net = random_tree(seed) if seed < 6 else bayesian_network(seed)._tree_network()
    opened = page(net, "#v=factor")
    draw = np.random.default_rng(seed)
    names = shown(net)
    leaf = next(number for number, name in enumerate(names) if name in net.observed)
    size = net.variable(names[leaf]).cardinality
    weights = (draw.random(size) + 0.1).round(3)
    opened.tab.evaluate(
        "([number, weights]) => weights.forEach((weight, state) => "
        "fgrn.store.weigh(fgrn.store.variables[number], state, weight))",
        [leaf, weights.tolist()],
    )
    opened.wait()
    seen = (
        net.propagate({names[leaf]: [opened.evidence[leaf]]}, engine="reference")
        if opened.evidence
        else net.propagate()
    )
    forward, backward = opened.tab.evaluate(MESSAGES)
    for edge, name in enumerate(seen.plan.names):
        np.testing.assert_allclose(forward[edge], seen.forward(name)[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(backward[edge], seen.backward(name)[0], rtol=0, atol=1e-9)


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


# Loops


@pytest.mark.parametrize("seed", range(5))
def test_loops_are_as_in_python(page: Open, seed: int) -> None:
    model: Any = (chest, circle)[seed]() if seed < 2 else bayesian_network(seed + 10, zeros=False)
    net = model.to_network("loopy")
    draw = np.random.default_rng(seed)
    assert_same(
        net, page(net), [{}, *({name: int(draw.integers(model.variable(name).cardinality))} for name in model.names)]
    )


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
        forward, backward = opened.tab.evaluate(MESSAGES)
        for edge, name in enumerate(seen.plan.names):
            round_ = steps[min(number, len(steps) - 1)].messages
            np.testing.assert_allclose(forward[edge], round_.forward(name)[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(backward[edge], round_.backward(name)[0], rtol=0, atol=1e-9)
    opened.press(",")
    assert told.inner_text().startswith(f"Round {seen.rounds - 1} of")


# Questions, and rows of a table

STUDIED = """async () => {
    for (let left = 200; left && !fgrn.store.seen.studied; left--) await new Promise(done => setTimeout(done, 50));
    return fgrn.store.seen.studied; }"""


@pytest.mark.parametrize("seed", range(6))
def test_questions_are_answered_as_in_python(page: Open, seed: int) -> None:
    model: Any = bayesian_network(seed, zeros=False) if seed % 2 else random_tree(seed)
    names, draw = shown(model), np.random.default_rng(seed)
    target = names[-1]
    some = [name for name in names[:-1] if model.variable(name).cardinality > 1 and draw.random() < 0.6]
    row = {name: model.variable(name).labels[0] for name in some}
    if np.isneginf(
        model.propagate({name: [value] for name, value in row.items()}, impossible="mark").log_likelihood[0]
    ):
        row = {}
    opened = page(model, f"#t={quote(target)}")
    for name in row:
        opened.tab.evaluate("number => fgrn.store.toggle(fgrn.store.variables[number], 0)", names.index(name))
    opened.wait()
    opened.tab.evaluate("fgrn.store.aim(fgrn.store.seen.target)")
    found = opened.tab.evaluate(STUDIED)
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
    # the likeliest states together
    best = model.most_probable(row, names=names)
    assert found["logProbability"] == pytest.approx(float(np.ravel(best.log_probability)[0]), abs=1e-9)
    states = {
        name: [model.variable(name).labels[state]] for name, state in zip(names, found["assignment"], strict=True)
    }
    assert model.propagate(states).log_likelihood[0] == pytest.approx(found["logProbability"], abs=1e-9)


def survey() -> tuple[Any, Any]:
    from fgrn import datasets

    table = datasets.load("survey").frame().head(300)
    model = fgrn.LatentClassifier(n_hidden=3, n_init=1, n_epochs=20, random_state=0)
    return model.fit(table.drop(columns="travels_by"), table["travels_by"]), table


def test_the_rows_of_a_file_are_walked_through(page: Open, tmp_path: Path) -> None:
    model, table = survey()
    table.head(5).to_csv(tmp_path / "people.csv", index=False)
    opened, names = page(model), shown(model)
    opened.tab.locator("input[type=file]").set_input_files(tmp_path / "people.csv")
    target = names.index("travels_by")
    for row in range(5):
        opened.tab.get_by_text(f"Row {row + 1} of 5").wait_for()
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


def test_a_dropped_file_is_read_and_what_is_strange_is_told(page: Open) -> None:
    model, _ = survey()
    opened, names = page(model), shown(model)
    code = """content => { const data = new DataTransfer();
        data.items.add(new File([content], 'some.csv'));
        const event = new DragEvent('drop', { bubbles: true, dataTransfer: data });
        document.querySelector('.page').dispatchEvent(event); }"""
    opened.tab.evaluate(code, '\ufeffcars;residence;"other;column"\r\nseven;centre;"a ""b"""\r\nnone;?;\r\n')
    opened.tab.get_by_text("Row 1 of 2").wait_for()
    opened.wait()
    centre = list(model.network_.variable("residence").labels).index("centre")
    assert {names[number]: one.index(1) for number, one in opened.evidence.items()} == {"residence": centre}
    opened.tab.locator(".notices", has_text="Row 1: cars = seven is unknown to the model").wait_for()
    opened.tab.get_by_role("button", name="Next row").click()
    opened.tab.get_by_text("Row 2 of 2").wait_for()
    opened.wait()
    assert [names[number] for number in opened.evidence] == ["cars"]
    opened.tab.evaluate(code, "nothing,known\n1,2\n")
    opened.tab.locator(".notices", has_text="some.csv has no rows with columns of this model.").wait_for()


def test_the_form_sets_values(page: Open) -> None:
    model, _ = survey()
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
    import json
    import shlex
    import subprocess
    import sys

    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", *words, "--json"], capture_output=True, text=True, check=True, timeout=120
    )
    answer = json.loads(done.stdout)
    assert answer["log_probability"] == pytest.approx(opened.log_likelihood, abs=1e-9)


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
            from xml.dom.minidom import parseString

            words = [one.firstChild.data for one in parseString(data).getElementsByTagName("text") if one.firstChild]
            assert {"travel", "smoke", "yes"} <= set(words)


# Any model, any screen

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
    paper, ink = (opened.tab.evaluate(f"getComputedStyle(document.body).{one}") for one in ("backgroundColor", "color"))
    dark = options.get("color_scheme") == "dark"
    assert (sum(map(int, paper[4:-1].split(", "))) < 200) == dark
    assert (sum(map(int, ink[4:-1].split(", "))) > 400) == dark


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


def test_an_estimator_is_explored_by_its_network(page: Open) -> None:
    from fgrn import datasets

    table = datasets.load_survey() if hasattr(datasets, "load_survey") else None
    draw = np.random.default_rng(0)
    X = {f"q{k}": draw.choice(["no", "yes"], 60) for k in range(5)} if table is None else table
    import pandas as pd

    model = fgrn.LatentClassModel(n_hidden=2, n_epochs=5, random_state=0).fit(pd.DataFrame(X))
    opened = page(model)
    assert_same(model.network_, opened, random_rows(model.network_, draw, 5))


def test_a_network_of_hundreds_can_be_used(page: Open, shared_data: Path) -> None:
    model = fgrn.read(shared_data / "bif" / "andes.bif")
    opened = page(model)
    assert opened.tab.locator(".card").count() == 223
    assert opened.tab.get_by_role("button", name="Factor graph").count() == 0, "too large to be drawn"
    opened.press("/")
    opened.tab.keyboard.type("SNode_155")
    opened.press("Enter", "Enter")
    assert opened.evidence == {list(model.names).index("SNode_155"): [1, 0]}
    assert opened.tab.locator(".far").count() == 0, "what was searched for can be read"


def test_a_notebook_shows_the_page_in_a_frame(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><p>cell</p>{fgrn.explore(chest())._repr_html_()}", encoding="utf-8")
    tab = chromium.new_page()
    opened = Opened(tab)
    try:
        tab.goto(path.as_uri())
        frame = tab.frame_locator("iframe")
        bar = frame.locator('[data-variable="0"] [data-state="0"]')
        bar.click()
        frame.locator(".known li").wait_for()
        assert frame.locator(".known li").inner_text().startswith("travel = yes")
        assert frame.locator("output.probability b").inner_text() == "0.02"
        opened.assert_quiet()
    finally:
        tab.close()


NOTEBOOK = """<!DOCTYPE html><p>cell</p><script>{script}</script><script>
  const values = {values}, heard = {{}};
  window.model = {{ get: name => values[name], set: some => Object.assign(values, some), save_changes: () => {{}},
    on: (name, act) => (heard[name] = act), values,
    tell: given => (values._given = given, heard["change:_given"]()) }};
  widget.render({{ model, el: document.body }});
</script>"""


def test_a_widget_carries_evidence_and_beliefs_both_ways(chromium: Any, tmp_path: Path) -> None:
    import json
    from importlib.util import find_spec

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
    tab = chromium.new_page()
    opened = Opened(tab)
    try:
        tab.goto(path.as_uri())

        def settle(known: dict[str, Any]) -> None:
            """Wait until Python's side knows this, and what follows."""
            seen = model.propagate({name: [value] for name, value in known.items()} or None)
            expected = np.concatenate([seen.marginal(name)[0] for name in names])
            for _ in range(100):
                made._given, made._beliefs = tab.evaluate("[model.values._given, model.values._beliefs]")
                found = [share for belief in made.beliefs.values() for share in belief.values()]
                if made.evidence == known and len(found) and np.allclose(found, expected, rtol=0, atol=1e-9):
                    return
                tab.wait_for_timeout(100)
            pytest.fail(f"{made.evidence} and {made.beliefs} are not what {known} comes to")

        settle({"smoke": "yes"})
        xray = f'[data-variable="{names.index("xray")}"] [data-state="1"]'
        tab.frame_locator("iframe").locator(xray).click()
        settle({"smoke": "yes", "xray": "no"})
        made.evidence = {"dysp": [0.5, 1.0], "lung": None}
        tab.evaluate("given => model.tell(given)", made._given)
        settle({"dysp": [0.5, 1.0]})
        opened.assert_quiet()
    finally:
        tab.close()


def test_a_page_that_is_served_does_the_same(chromium: Any) -> None:
    from threading import Thread

    from fgrn.page.server import server_of

    model = chest()
    names = list(model.names)
    server, address = server_of(model, "chest")
    Thread(target=server.serve_forever, daemon=True).start()
    tab = chromium.new_page()
    try:
        opened = Opened(tab).open(address, "#t=lung&e=dysp,0.2:1")
        opened.click(names.index("xray"), 0)
        seen = model.propagate({"xray": ["yes"], "dysp": [[0.2, 1]]})
        for name, belief in zip(names, opened.beliefs, strict=True):
            np.testing.assert_allclose(belief, seen.marginal(name)[0], rtol=0, atol=1e-9)
        assert opened.tab.evaluate(STUDIED)["entropy"] > 0
        opened.click(names.index("tub"), 0)
        opened.click(names.index("either"), 1)
        assert "tub = yes" in opened.tab.locator(".impossible p").inner_text()
        assert opened.complaints == []
        assert all(url.startswith(address) for url in opened.requests)
    finally:
        tab.close()
        server.shutdown()
        server.server_close()


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
