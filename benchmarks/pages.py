"""How fast pages are: `python -m benchmarks.pages FOLDER`, with alarm.bif and hepar2.bif in FOLDER; needs chromium.

Opened to drawn: from the beginning of the navigation to the frame after the first beliefs. Click to redrawn: from the
event of the pointer to the frame after the new beliefs, the median of clicks on different bars and the fastest of them,
which other programs disturb the least; bars reach their new length in an animation of 0.28 s that begins then.
Processor: the time that the thread of the page works for a click, and that all threads of its process work, the one
that infers and the compiler of the script included; it does not depend on what else the machine does.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import fgrn

CLICKS = 20
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

MEASURED = """async clicks => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  while (!(window.fgrn && fgrn.store.seen.answer)) await new Promise(done => setTimeout(done, 1));
  await frame();
  const opened = performance.now();
  const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? opened;
  const rows = [...document.querySelectorAll('[data-state]')], times = [];
  for (let at = 0; at < clicks; at++) {
    const row = rows[(at * 7) % rows.length], begin = performance.now(), before = fgrn.store.seen.answer;
    const about = { bubbles: true, pointerId: 1, button: 0, clientX: 0, clientY: 0 };
    row.setPointerCapture = () => {};
    row.dispatchEvent(new PointerEvent('pointerdown', about));
    row.dispatchEvent(new PointerEvent('pointerup', about));
    while (fgrn.store.seen.answer === before) await new Promise(done => setTimeout(done));
    await frame();
    times.push(performance.now() - begin);
    fgrn.store.undo();
    while (fgrn.store.seen.busy) await new Promise(done => setTimeout(done));
    await new Promise(done => setTimeout(done, 400));  // until the animation has ended
  }
  return { opened, paint, times }; }"""


def latent_class_model() -> fgrn.Network:
    """A hidden variable of 12 states over 100 columns."""
    draw = np.random.default_rng(0)
    sizes = {f"Y{k}": int(draw.integers(2, 6)) for k in range(100)}
    net = fgrn.lvm(sizes, hidden=12)
    net.learn({name: draw.integers(0, size, 500) for name, size in sizes.items()}, epochs=3, smoothing=0.1)
    return net


def processor_time(tab: Any) -> tuple[float, float]:
    """Milliseconds that the page's own thread, and its whole process, work for a click; without animation."""
    tab.emulate_media(reduced_motion="reduce")
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    browser = tab.context.browser.new_browser_cdp_session()

    def spent() -> np.ndarray:
        metrics = session.send("Performance.getMetrics")["metrics"]
        processes = browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return np.array([
            next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration"),
            max(float(one["cpuTime"]) for one in processes if one["type"] == "renderer"),
        ])  # fmt: skip

    before = spent()
    for number in range(CLICKS):
        tab.evaluate("number => void fgrn.store.toggle(fgrn.store.variables[number], 0)", number)
        tab.wait_for_timeout(200)
    own, process = 1000 * (spent() - before) / CLICKS
    return float(own), float(process)


def main() -> None:
    """Print a table of the figures."""
    from playwright.sync_api import sync_playwright

    folder = Path(sys.argv[1])
    models: dict[str, Any] = {name: fgrn.read(folder / f"{name}.bif") for name in ("alarm", "hepar2")}
    models["lvm of 100"] = latent_class_model()
    print(f"{os.cpu_count()} processors, on average {os.getloadavg()[0]:.1f} programs running on them before this one")
    print(
        f"{'model':<12} {'kB':>5} {'first paint ms':>15} {'opened ms':>10} {'click ms':>9} {'fastest':>8} "
        f"{'processor ms':>13} {'all threads':>12}"
    )
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        for name, model in models.items():
            path = Path(place) / f"{name}.html"
            size = fgrn.explore(model, path).size
            tab = browser.new_page(viewport={"width": 1360, "height": 820})
            tab.goto(path.as_uri())
            found = tab.evaluate(MEASURED, CLICKS)
            own, process = processor_time(tab)
            tab.close()
            click = statistics.median(found["times"])
            opened = f"{found['paint']:>15.0f} {found['opened']:>10.0f}"
            clicks = f"{click:>9.1f} {min(found['times']):>8.1f} {own:>13.1f} {process:>12.1f}"
            print(f"{name:<12} {size / 1000:>5.0f} {opened} {clicks}")
        browser.close()


if __name__ == "__main__":
    main()
