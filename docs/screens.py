"""Pictures of pages for the documentation: `python docs/screens.py FOLDER`, which has alarm.bif; needs chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import fgrn
from fgrn import datasets

PICTURES = Path(__file__).parent / "_static"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
WIDE, PHONE = {"width": 1280, "height": 760}, {"width": 390, "height": 780}

OBSERVE = """async values => {
    const { store } = fgrn, wait = () => new Promise(done => setTimeout(done, 400));
    while (!store.seen.answer) await wait();
    for (const [name, state] of values) {
        const variable = store.variables.find(one => one.name === name);
        store.toggle(variable, variable.states.indexOf(state));
        await wait();
    }
    await wait(); }"""


def survey() -> Any:
    """A classifier of the table that comes with the package."""
    table = datasets.load("survey").frame()
    return fgrn.LatentClassifier(n_hidden=6, random_state=0).fit(table.drop(columns="travels_by"), table["travels_by"])


def small() -> fgrn.Network:
    """A latent class model of four questions."""
    table = datasets.load("survey").frame()[["residence", "cars", "bicycle", "ticket"]]
    net = fgrn.lvm(fgrn.states(table), hidden=3)
    net.learn(table, epochs=30, smoothing=0.1)
    return net


def main() -> None:
    """Draw all of them."""
    from playwright.sync_api import sync_playwright

    alarm = fgrn.read(Path(sys.argv[1]) / "alarm.bif")
    shown: dict[str, tuple[Any, str, list[tuple[str, str]]]] = {
        "alarm": (alarm, "#s=HR", [("HRBP", "HIGH"), ("BP", "LOW")]),
        "survey": (survey(), "", [("cars", "none"), ("occupation", "student")]),
        "step": (small(), "#v=factor", [("cars", "none")]),
    }
    screens = {"light": (WIDE, "light"), "dark": (WIDE, "dark"), "phone": (PHONE, "light")}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        for (name, (model, after, known)), (screen, (size, scheme)) in product(shown.items(), screens.items()):
            path = Path(folder) / "page.html"
            fgrn.explore(model, path, title=name)
            tab = browser.new_page(viewport=size, color_scheme=scheme)
            tab.goto(path.as_uri() + after)
            tab.evaluate(OBSERVE, known)
            if name == "step":
                tab.evaluate("fgrn.store.goTo(12)")
                tab.locator('[data-block="siso 1"]').click()
            tab.wait_for_timeout(800)
            tab.screenshot(path=PICTURES / f"explore-{name}-{screen}.png")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
