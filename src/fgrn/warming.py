"""Warming up: the kernels of the CPU engine compiled, or loaded, before anybody waits for them."""

from __future__ import annotations

import numpy as np

from .bayes.bayesian import BayesianNetwork
from .graph.structures import hmm, lvm

ROWS = 32
"""More than those of which the CPU engine makes every message, so that it needs all of its kernels."""

STATES = (2, 2**7 + 1, 2**15 + 1)
"""As many as make codes of one, two and four bytes, for each of which there is a kernel."""


def warm() -> None:
    """Compile all kernels of the CPU engine, or load them, before anybody waits for them. It changes nothing else.

    For services, which answer many small requests: call it once, before the first of them, and ask with `engine="cpu"`.
    It takes about half a minute where the kernels were never compiled, and a second where they are on disk (`fgrn
    doctor` says where). `engine="auto"` is the reference engine for small work: that never waits for a compiler, but
    takes milliseconds for a row where the CPU engine takes half of one. A network of more than about a thousand columns
    has kernels of its own: ask it something with `engine="cpu"` after this.
    """
    rows = {"a": [0, 1] * (ROWS // 2), "b": [0, 0, 1, None] * (ROWS // 4)}
    for states in STATES:
        lvm({"a": states, "b": 2}, hidden=2).learn(rows, epochs=1, engine="cpu", merge=False)
    star = lvm({"a": 2, "b": 2}, hidden=2)
    star.learn(rows, epochs=1, cycles=2, engine="cpu", merge=False)
    star.posterior(rows, "S", engine="cpu")
    star.propagate(rows, engine="cpu")
    hmm({"a": 2}, hidden=2).learn({"a": rows["a"], "sequence": [0] * ROWS}, epochs=1, engine="cpu")
    even = np.full((2, 2), 0.5)
    arrow = BayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]}, {"a": even[0], "b": even})
    arrow.propagate(rows, keep=["a"], parts=["marginal"], engine="cpu")
