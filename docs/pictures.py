"""The pictures of the documentation, drawn when it is built: each is what the code draws today."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable, datasets, plots

QUESTIONS = ("residence", "cars", "travels_by")
"""Of the survey: few enough to see every message."""


def draw(folder: Path) -> None:
    """All pictures, as SVG files in a folder."""
    folder.mkdir(exist_ok=True)
    for name, figure in {**ten(), **gallery()}.items():
        plots.save(figure, folder / f"{name}.svg")


def include(page: Path, target: Path) -> None:
    """A page that may not be there, without its title; or a line that says so."""
    text = page.read_text(encoding="utf-8") if page.is_file() else "The tables are not in this copy of the site.\n"
    lines = text.splitlines()
    target.write_text("\n".join(lines[1:] if lines[0].startswith("# ") else lines) + "\n", encoding="utf-8")


def ten() -> dict[str, Any]:
    """FGrn in ten pictures."""
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
        "ten-1-variable": plots.network(alone, {"rain": [[0.2, 0.8]]}),
        "ten-2-source": plots.network(alone),
        "ten-3-siso": plots.network(block, {"road": ["wet"]}),
        "ten-4-diverter": plots.network(diverter, {"road": ["wet"], "umbrella": ["yes"]}),
        "ten-5-product": plots.network(product, {"grass": ["wet"], "sprinkler": ["on"]}),
        "ten-6-evidence": plots.network(learnt, row),
        "ten-7-holes": plots.network(learnt, {**row, "cars": [None], "travels_by": [None]}),
        "ten-8-beliefs": plots.network(learnt),
        "ten-9-untaught": plots.network(untaught),
        "ten-10-stack": plots.network(stack, {"cars": ["none"]}),
        "ten-10-chain": plots.network(chain, {"sound[0]": ["hum"], "sound[2]": ["rattle"]}),
    }


def survey() -> tuple[dict[str, list[Any]], Network]:
    """Some columns of the survey, and a network that has learnt them."""
    columns = datasets.load("survey").columns
    table = {name: columns[name] for name in QUESTIONS}
    net = fgrn.lvm(fgrn.states(table), hidden=3)
    net.learn(table, epochs=100, smoothing=0.1, starts=3)
    return table, net


def gallery() -> dict[str, Any]:
    """One picture of each kind, as the page of the gallery has the code."""
    table = datasets.load("survey").frame()
    rows = table.drop(columns="travels_by")
    train, test = table[:900], table[900:]
    model = fgrn.LatentClassifier(8, random_state=0).fit(train.drop(columns="travels_by"), train["travels_by"])
    types = fgrn.LatentClassModel(4, random_state=0).fit(rows)
    sizes = fgrn.LatentClassModel(random_state=0, criterion="bic").compare(rows, sizes=[1, 2, 3, 4, 5, 6])
    unknown = test.drop(columns="travels_by")
    _, few = survey()
    chest, symptoms = diagnosis(), {"smoking": "yes", "short of breath": "yes"}
    return {
        "network": plots.network(few, {"cars": ["none"]}),
        "graph": plots.graph(chest),
        "graph-symptoms": plots.graph(chest, symptoms),
        "graph-diagnosis": plots.graph(chest, {**symptoms, "x-ray": "yes"}),
        "prototypes": plots.prototypes(types.prototypes_),
        "convergence": plots.convergence(types.history_),
        "selection": plots.selection(sizes),
        "explanation": plots.explanation(model.explain(unknown.iloc[[0]])),
        "confusion": plots.confusion(test["travels_by"], model.predict(unknown)),
        "missingness": plots.missingness(table),
    }


def diagnosis() -> fgrn.BayesianNetwork:
    """The network of the gallery's diagnosis, by the code on its page."""
    page = Path(__file__).with_name("gallery.md").read_text(encoding="utf-8")
    code = re.search(r"^## Diagnosis$.*?^```python$(.*?)^```$", page, re.M | re.S)[1]
    names: dict[str, Any] = {"fgrn": fgrn, "plots": plots}
    exec(code, names)
    return names["chest"]
