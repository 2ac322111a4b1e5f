"""Small models for tests: a diagnosis, factors in a circle, and a classifier with networks refined for its class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fgrn import BayesianNetwork, LatentClassifier, MarkovNetwork, Network
from fgrn.core.refined_weight import RefinedWeight

YES_NO = ["yes", "no"]


def chest() -> BayesianNetwork:
    """Return a textbook network of eight variables with two loops, with made-up probabilities."""
    arcs = {
        "tub": ["travel"],
        "lung": ["smoke"],
        "bronc": ["smoke"],
        "either": ["lung", "tub"],
        "xray": ["either"],
        "dysp": ["bronc", "either"],
    }
    yes = {
        "travel": [0.02],
        "tub": [0.06, 0.01],
        "smoke": [0.4],
        "lung": [0.12, 0.02],
        "bronc": [0.55, 0.25],
        "either": [1.0, 1.0, 1.0, 0.0],
        "xray": [0.95, 0.06],
        "dysp": [0.9, 0.75, 0.7, 0.1],
    }
    names = ["travel", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]
    tables = {name: [[share, 1 - share] for share in yes[name]] for name in names}
    return BayesianNetwork(dict.fromkeys(names, YES_NO), arcs, tables, name="chest")


def circle() -> MarkovNetwork:
    """Return factors over a loop of four variables, and one variable by itself."""
    rng = np.random.default_rng(0)
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b",), ("e",), ("b", "c", "d")]
    return MarkovNetwork(dict.fromkeys("abcde", 2), [(scope, rng.random([2] * len(scope))) for scope in scopes])


def refined_classifier(
    networks: int, structure: str = "per_class", seed: int = 0
) -> tuple[LatentClassifier, dict[str, list[Any]]]:
    """Return a classifier whose class is predicted by other networks than its own, with random tables, and a table.

    Half of the values of the table are missing; "size" is a column of numbers in bins, "same" has one value only.
    """
    draw = np.random.default_rng(seed)
    classes = draw.choice(["low", "mid", "high"], 60)
    table: dict[str, list[Any]] = {
        name: draw.choice(labels, 60).tolist() for name, labels in (("a", ["no", "yes"]), ("b", [0, 1, 2]))
    }
    table |= {"c": np.where(classes == "low", "x", draw.choice(["x", "y", "z"], 60)).tolist()}
    table |= {"size": draw.normal(5, 2, 60).round(2).tolist(), "same": ["s"] * 60}
    model = LatentClassifier(2, structure=structure, refine=False, n_init=1, n_epochs=5, n_bins=3, random_state=seed)
    model.set_params(tol=1e9).fit(table, classes)
    model._decision.keep([other_tables(model.network_, draw) for _ in range(networks)], RefinedWeight(3.5, 0.5))
    holes = draw.random((60, 5)) < 0.5
    rows = zip(table.items(), holes.T, strict=True)
    return model, {
        name: [None if hole else value for value, hole in zip(values, some, strict=True)]
        for (name, values), some in rows
    }


def other_tables(net: Network, draw: np.random.Generator) -> Network:
    """Return a copy of a network with random tables, which have zeros where its own have them."""
    other, layout = net.copy(), net._spec.layout
    values = net._parameters.values * draw.gamma(0.5, size=net._parameters.values.size)
    total = np.add.reduceat(values, layout.lines)[layout.line_of]
    other._parameters = replace(net._parameters, values=values / total)
    return other
