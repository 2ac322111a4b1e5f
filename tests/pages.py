"""Pages of `fgrn.explore` opened in a browser, Debian's chromium, as a person would from a folder.

Without a browser such tests are skipped, with the reason; where FGRN_BROWSER is "required" they fail instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn

QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
READY = """async () => {  // a policy that forbids eval forbids waiting for an expression, too
    for (let left = 600; left; left--) {
        if (window.fgrn && fgrn.store.seen.answer && !fgrn.store.seen.busy) return true;
        await new Promise(done => setTimeout(done, 50));
    } return false; }"""


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
        self.tab.goto((path if isinstance(path, str) else path.as_uri()) + after)
        return self.wait()

    def wait(self) -> Opened:
        assert self.tab.evaluate(READY), "the page did not answer within half a minute"
        self.tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
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

    def ask(self, rows: list[dict[int, list[float]]]) -> list[tuple[float, list[list[float]]]]:
        """The log-likelihood and beliefs of rows of evidence, which is weights by the number of a variable."""
        code = """async rows => { const out = [];
            for (const row of rows) {
                const found = await fgrn.ask(row);
                out.push([String(found.logLikelihood), found.beliefs.map(one => [...one])]);
            } return out; }"""
        found = self.tab.evaluate(code, [[[number, list(one)] for number, one in row.items()] for row in rows])
        return [(float(likelihood), beliefs) for likelihood, beliefs in found]

    def assert_quiet(self) -> None:
        """Nothing was asked for but the file itself and what it made, and nothing went wrong."""
        assert self.complaints == []
        assert {url.split(":")[0] for url in self.requests} <= {"file", "blob", "data"}
        assert sum(url.startswith("file:") for url in self.requests) <= 1 + sum("#" in url for url in self.requests)


def shown(model: Any) -> list[str]:
    """The names of the variables of a page, in its order."""
    from fgrn.page.export import document

    return [one["name"] for one in document(model, "", "")[0]["variables"]]


def assert_same(model: Any, page: Opened, rows: list[dict[str, Any]], tolerance: float = 1e-9) -> None:
    """The page and Python believe the same of rows of evidence: a code, or a weight for every state."""
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
    for at, (likelihood, beliefs) in enumerate(page.ask(weights)):
        if np.isneginf(seen.log_likelihood[at]):
            assert likelihood == -np.inf
            assert not any(map(any, beliefs)) and not np.isnan(np.concatenate(beliefs)).any()
            continue
        assert abs(likelihood - seen.log_likelihood[at]) <= tolerance * max(1.0, abs(seen.log_likelihood[at]))
        for name, belief in zip(names, beliefs, strict=True):
            np.testing.assert_allclose(belief, seen.marginal(name)[at], rtol=0, atol=tolerance, err_msg=name)
            zeros = seen.marginal(name)[at] == 0
            assert (np.array(belief)[zeros] == 0).all()


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


def load(path: Path) -> Any:
    """A network of a file."""
    return fgrn.read(path)
