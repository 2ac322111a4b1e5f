"""Pages of `fgrn.explore` opened in a browser, Debian's chromium, as a person would from a folder.

Without a browser such tests are skipped, with the reason; where FGRN_BROWSER is "required" they fail instead.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import chest

import fgrn
from fgrn.page.export import document, shown_model

QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
READY = """async () => {  // a policy that forbids eval forbids waiting for an expression, too
    for (let left = 6000; left; left--) {
        if (window.fgrn && fgrn.store.seen.answer && !fgrn.store.seen.busy) {
            await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
            return true;
        }
        await new Promise(done => setTimeout(done, 5));
    } return false; }"""
Open = Callable[..., "Opened"]
MESSAGES = """() => { const { forward, backward } = fgrn.store.messages;
    return [forward, backward].map(one => one.map(each => [...each])); }"""
STUDIED = """async () => {
    const { store } = fgrn, enough = one => one && (!store.seen.assigning || one.likeliest.length);
    for (let left = 2000; left && !enough(store.seen.studied); left--) await new Promise(done => setTimeout(done, 5));
    return store.seen.studied; }"""
SCREEN = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}


ASKED = """async ([rows, wanted]) => {
    const store = fgrn.other ?? fgrn.store, lists = some => some.map(one => [...one]), out = [];
    for (const row of rows) {
        const given = row.map(([number, weights]) => [store.variables[number].edge, weights]);
        const { logLikelihood, beliefs, messages: all } = await store.client.ask(given, wanted);
        out.push([String(logLikelihood), lists(beliefs), all && [lists(all.forward), lists(all.backward)]]);
    } return out; }"""


def absent(why: str) -> None:
    if os.environ.get("FGRN_BROWSER") == "required":
        pytest.fail(f"{why}, and FGRN_BROWSER=required")
    pytest.skip(why)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser, or a skipped test."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        absent("pages are tested in chromium, which is not on this machine (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("pages are tested with playwright, which is not installed (pip install 'fgrn[browser]')")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        try:
            yield started
        finally:
            started.close()


def _pairs(row: dict[int, list[float]]) -> list[list[Any]]:
    return [[number, list(weights)] for number, weights in row.items()]


class Tabs:
    """The tabs of a browser, which are used again: a page that is opened in one is a new document, without a past."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.free: dict[str, list[Opened]] = {}
        self.taken: list[tuple[str, Opened]] = []

    def take(self, **options: Any) -> Opened:
        """A tab of a context with these options that nobody uses now."""
        kind = repr(sorted(options.items()))
        waiting = self.free.setdefault(kind, [])
        opened = waiting.pop() if waiting else Opened(self.browser.new_context(**{**SCREEN, **options}).new_page())
        self.taken.append((kind, opened))
        opened.requests.clear()
        opened.complaints.clear()
        return opened

    def give_back(self) -> list[Opened]:
        """Free all tabs, and return those that were in use."""
        used = [opened for _, opened in self.taken]
        for kind, opened in self.taken:
            self.free[kind].append(opened)
        self.taken.clear()
        return used


OPENINGS = count()


class Opened:
    """A page in a browser, and what a person does with it. `requests` are those that left it."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.requests: list[str] = []
        self.complaints: list[str] = []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: Path | str, after: str = "") -> Opened:
        # with a question mark and a number, so that a file which is open already is opened again
        address = path if isinstance(path, str) else f"{path.as_uri()}?{next(OPENINGS)}"
        self.tab.goto(address + after)
        return self.wait()

    def wait(self) -> Opened:
        assert self.tab.evaluate(READY), "the page did not answer within half a minute"
        return self

    def state(self, variable: int, state: int) -> Any:
        """The bar of a state."""
        return self.tab.locator(f'[data-variable="{variable}"] [data-state="{state}"]')

    def click(self, variable: int, state: int, **options: Any) -> None:
        self.state(variable, state).click(**options)
        self.wait()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)
            self.wait()

    @property
    def beliefs(self) -> list[list[float]]:
        """What the page believes now, by variable."""
        found: list[list[float]] = self.tab.evaluate("fgrn.store.seen.answer.beliefs.map(one => [...one])")
        return found

    @property
    def log_likelihood(self) -> float:
        return float(self.tab.evaluate("String(fgrn.store.seen.answer.logLikelihood)"))

    @property
    def evidence(self) -> dict[int, list[float]]:
        """The weights that were given, by variable."""
        told = "fgrn.store.variables.map(one => fgrn.store.weights(one) ?? null)"
        return {number: one for number, one in enumerate(self.tab.evaluate(told)) if one is not None}

    def bring(self, model: Any) -> Opened:
        """Let the page infer in another model, too, which it does not show: `ask`, `messages` and `study` are of it."""
        return self.bring_data(*document(model, "", ""))

    def bring_data(self, text: dict[str, Any], arrays: bytes) -> Opened:
        """Let the page infer in another model, given as what a page carries of it."""
        code = "([text, arrays]) => void (fgrn.other = new fgrn.store.constructor(text, arrays))"
        self.tab.evaluate(code, [text, base64.b64encode(arrays).decode()])
        return self

    def ask(self, rows: list[dict[int, list[float]]]) -> list[tuple[float, list[list[float]]]]:
        """The log-likelihood and beliefs of rows of evidence, which is weights by the number of a variable."""
        found = self.tab.evaluate(ASKED, [list(map(_pairs, rows)), False])
        return [(float(likelihood), beliefs) for likelihood, beliefs, _ in found]

    def messages(self, row: dict[int, list[float]]) -> tuple[list[list[float]], list[list[float]]]:
        """All forward and all backward messages, by edge."""
        ((_, _, (forward, backward)),) = self.tab.evaluate(ASKED, [[_pairs(row)], True])
        return forward, backward

    def study(self, row: dict[int, list[float]], target: int) -> dict[str, Any]:
        """What the page says of a target: why, what to ask next, and the likeliest states of all variables."""
        code = """([row, target]) => { const store = fgrn.other ?? fgrn.store, edge = at => store.variables[at].edge;
            const wanted = { target: edge(target), assignments: 5, profiles: false };
            return store.client.study(row.map(([number, weights]) => [edge(number), weights]), wanted); }"""
        found: dict[str, Any] = self.tab.evaluate(code, [_pairs(row), target])
        return found

    def assert_quiet(self) -> None:
        """Nothing was asked for but the file itself and what it made, and nothing went wrong."""
        assert self.complaints == [], self.complaints
        assert {url.split(":")[0] for url in self.requests} <= {"file", "blob", "data"}
        assert sum(url.startswith("file:") for url in self.requests) <= 1 + sum("#" in url for url in self.requests)


def shown(model: Any) -> list[str]:
    """The names of the variables of a page, in its order."""
    return [one.name for one in shown_model(model).cards]


def assert_same(
    model: Any, page: Opened, rows: list[dict[str, Any]], tolerance: float = 1e-9
) -> list[tuple[float, list[list[float]]]]:
    """The page and Python believe the same of rows of evidence: a code, or a weight for every state; what it is."""
    names = shown(model)
    weights = []
    for row in rows:
        asked = {}
        for name, value in row.items():
            size = model.variable(name).cardinality
            asked[names.index(name)] = value if isinstance(value, list) else np.eye(size)[value].tolist()
        weights.append(asked)
    columns = {name: [None if name not in row else _given(model, name, row[name]) for row in rows] for name in names}
    seen = model.propagate(columns, impossible="mark", engine="reference", parts=["marginal", "likelihood"])
    answers = page.ask(weights)
    for at, (likelihood, beliefs) in enumerate(answers):
        if np.isneginf(seen.log_likelihood[at]):
            assert likelihood == -np.inf
            assert not any(map(any, beliefs)) and not np.isnan(np.concatenate(beliefs)).any()
            continue
        assert abs(likelihood - seen.log_likelihood[at]) <= tolerance * max(1.0, abs(seen.log_likelihood[at]))
        for name, belief in zip(names, beliefs, strict=True):
            np.testing.assert_allclose(belief, seen.marginal(name)[at], rtol=0, atol=tolerance, err_msg=name)
            zeros = seen.marginal(name)[at] == 0
            assert (np.array(belief)[zeros] == 0).all()
    return answers


def assert_messages(seen: Any, forward: list[list[float]], backward: list[list[float]]) -> None:
    for edge, name in enumerate(seen.plan.names):
        np.testing.assert_allclose(forward[edge], seen.forward(name)[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(backward[edge], seen.backward(name)[0], rtol=0, atol=1e-9)


def _given(model: Any, name: str, value: Any) -> Any:
    return value if isinstance(value, list) else model.variable(name).labels[value]


def random_rows(model: Any, draw: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Rows of evidence on some variables: values, weights, states that it is not; some of them impossible."""
    rows: list[dict[str, Any]] = []
    names = shown(model)
    for _ in range(count):
        row: dict[str, Any] = {}
        for name in names:
            size = model.variable(name).cardinality
            kind = draw.random()
            if kind < 0.2:
                row[name] = int(draw.integers(size))
            elif kind < 0.35:
                row[name] = (draw.random(size) + 1e-3).tolist()
            elif kind < 0.42 and size > 1:
                row[name] = (np.arange(size) != draw.integers(size)).astype(float).tolist()
        rows.append(row)
    return [{}, *rows]


@pytest.fixture(scope="session")
def tabs() -> Iterator[Tabs]:
    with browser() as started:
        yield Tabs(started)


@pytest.fixture
def tab(tabs: Tabs) -> Iterator[Opened]:
    """A tab without a page."""
    yield tabs.take()
    tabs.give_back()


@pytest.fixture
def page(tabs: Tabs, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a model; afterwards nothing was requested and nothing went wrong."""

    def show(model: Any, after: str = "", *, about: dict[str, Any] | None = None, **options: Any) -> Opened:
        path = tmp_path / f"page{len(tabs.taken)}.html"
        fgrn.explore(model, path, **(about or {}))
        return tabs.take(**options).open(path, after)

    yield show
    for one in tabs.give_back():
        one.assert_quiet()


@pytest.fixture(scope="session")
def interpreter(tabs: Tabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """One page that stays open, to which models are brought: `interpreter.bring(model)` infers in them."""
    path = tmp_path_factory.mktemp("interpreter") / "page.html"
    fgrn.explore(chest(), path)
    with_page = Opened(tabs.browser.new_page()).open(path)
    yield with_page
    with_page.assert_quiet()
