"""The pictures and live pages of the documentation, made when it is built and kept until their code changes."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import outputs  # beside this file

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable, datasets, plots

HERE = Path(__file__).parent
QUESTIONS = ("residence", "cars", "travels_by")
"""Of the survey: few enough to see every message."""


def draw(folder: Path, tell: Callable[[str], None] = print) -> None:
    """All pictures, as SVG files in a folder; those whose sources have not changed are left as they are."""
    folder.mkdir(exist_ok=True)
    package = Path(fgrn.__file__).parent
    code = [*package.rglob("*.py"), *package.glob("page/page.*"), Path(__file__), Path(outputs.__file__)]
    pages = {page.stem: page for page in (HERE / "gallery.md", *sorted((HERE / "tutorials").glob("*.md")))}
    shown = [(name, partial(pictures_of, page), [page]) for name, page in pages.items()]
    for name, figures, sources in (("ten", ten, []), *shown):
        key, kept = _key([*code, *sources]), folder / f"{name}.key"
        if kept.is_file() and kept.read_text() == key:
            tell(f"pictures: {name}: up to date")
            continue
        tell(f"pictures: {name}: computing")
        for picture, figure in figures().items():
            tell(f"pictures: {name}: {picture}.svg")
            plots.save(figure, folder / f"{picture}.svg")
        if name == "ten":
            for page, (net, _) in ten_networks().items():
                fgrn.explore(net, live(folder) / f"{page}.html", title=page.split("-", 2)[2])
        kept.write_text(key)


def live(folder: Path) -> Path:
    """The folder of pages that infer, below that of the pictures."""
    place = folder / "live"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _key(sources: list[Path]) -> str:
    found = hashlib.sha256(" ".join(version(name) for name in ("numpy", "matplotlib")).encode())
    for path in sorted(sources):
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def include(page: Path, target: Path) -> None:
    """A page that may not be there, without its title; or a line that says so."""
    text = page.read_text(encoding="utf-8") if page.is_file() else "The tables are not in this copy of the site.\n"
    lines = text.splitlines()
    wanted = "\n".join(lines[1:] if lines[0].startswith("# ") else lines) + "\n"
    if not target.is_file() or target.read_text(encoding="utf-8") != wanted:  # else the page would be read again
        target.write_text(wanted, encoding="utf-8")


def ten() -> dict[str, Any]:
    """FGrn in ten pictures."""
    return {name: plots.network(net, evidence) for name, (net, evidence) in ten_networks().items()}


def ten_networks() -> dict[str, tuple[Network, dict[str, Any] | None]]:
    """The network of each of the ten pictures, and its evidence."""
    rain = Variable("rain", ["no", "yes"])
    source = Source(rain, [0.7, 0.3])
    road = Variable("road", ["dry", "damp", "wet"])
    umbrella = Variable("umbrella", ["no", "yes"])
    wet = [[0.85, 0.1, 0.05], [0.05, 0.25, 0.7]]
    one, two = Variable("rain->road", rain.labels), Variable("rain->umbrella", rain.labels)
    alone = Network([source])
    block = Network([source, SISO(rain, road, wet)])
    diverter = Network(
        [source, Diverter([rain], [one, two]), SISO(one, road, wet), SISO(two, umbrella, [[0.95, 0.05], [0.25, 0.75]])]
    )
    sprinkler, grass = Variable("sprinkler", ["off", "on"]), Variable("grass", ["dry", "wet"])
    both = Variable("rain,sprinkler", ["no,off", "no,on", "yes,off", "yes,on"])
    product = Network(
        [
            source,
            Source(sprinkler, [0.6, 0.4]),
            Diverter([rain, sprinkler], [both]),
            SISO(both, grass, [[0.95, 0.05], [0.1, 0.9], [0.2, 0.8], [0.02, 0.98]]),
        ]
    )
    table, learnt = survey()
    untaught = fgrn.lvm(fgrn.states(table), hidden=3)
    row = {name: [column[0]] for name, column in table.items()}
    columns = datasets.load("survey").columns
    four = {name: columns[name] for name in ("residence", "cars", "household", "ticket")}
    stack = fgrn.stack(fgrn.states(four), hidden=[3, 3], groups=2)
    stack.learn_by_layer(four, epochs=60, smoothing=0.1, starts=3, together=40)
    chain = fgrn.hmm({"sound": ["hum", "rattle"]}, hidden=2, length=3)
    sounds = [["hum", "hum", "rattle"], ["hum", "rattle", "rattle"], ["hum"] * 3, ["rattle"] * 3]
    chain.learn(
        fgrn.sequences([{"sound": sound} for sound in sounds]), epochs=20, smoothing=0.3, holes="ignore", starts=4
    )
    return {
        "ten-1-variable": (alone, {"rain": [[0.2, 0.8]]}),
        "ten-2-source": (alone, None),
        "ten-3-siso": (block, {"road": ["wet"]}),
        "ten-4-diverter": (diverter, {"road": ["wet"], "umbrella": ["yes"]}),
        "ten-5-product": (product, {"grass": ["wet"], "sprinkler": ["on"]}),
        "ten-6-evidence": (learnt, row),
        "ten-7-holes": (learnt, {**row, "cars": [None], "travels_by": [None]}),
        "ten-8-beliefs": (learnt, None),
        "ten-9-untaught": (untaught, None),
        "ten-10-stack": (stack, {"cars": ["none"]}),
        "ten-10-chain": (chain, {"sound[0]": ["hum"], "sound[2]": ["rattle"]}),
    }


def survey() -> tuple[dict[str, list[Any]], Network]:
    """Some columns of the survey, and a network that has learnt them."""
    columns = datasets.load("survey").columns
    table = {name: columns[name] for name in QUESTIONS}
    net = fgrn.lvm(fgrn.states(table), hidden=3)
    net.learn(table, epochs=100, smoothing=0.1, starts=3)
    return table, net


def pictures_of(place: Path) -> dict[str, Any]:
    """The pictures that a page shows: each is the value of the last block of code above it on the page."""
    page, name = place.read_text(encoding="utf-8"), place.relative_to(HERE).as_posix()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        values = {ran.line: ran.value for ran in outputs.run(page, name)}
    pictures = {}
    for found in re.finditer(r"^!\[.*\]\((?:\.\./)?_pictures/([\w-]+)\.svg\)$", page, re.M):
        line = page.count("\n", 0, found.start())
        pictures[found[1]] = values[max(above for above in values if above < line)]
    return pictures
