"""Small models for tests: a diagnosis, and factors in a circle."""

from __future__ import annotations

import numpy as np

from fgrn import BayesianNetwork, MarkovNetwork

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
