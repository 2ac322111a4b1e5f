"""`fgrn.warm`: compile or load the kernels of the CPU engine before the first request."""

from __future__ import annotations

from typing import cast

import numpy as np

from .bayes.bayesian import BayesianNetwork
from .graph.chain import Chain
from .graph.structures import hmm, lvm, stack

ROWS = 32
"""More rows than those of which the CPU engine computes every message, so that all of its kernels are used."""

STATES = (2, 2**7 + 1, 2**15 + 1)
"""Numbers of states whose codes take one, two and four bytes; there is a kernel for each."""


def warm() -> None:
    """Compile or load all kernels of the CPU engine in advance; results do not change.

    For services that answer many small requests: call it once, before the first request, and query with `engine="cpu"`.
    It takes about half a minute if the kernels were never compiled, and a second if they are cached on disk (`fgrn
    doctor` says where). "auto" uses the reference engine for small work, which never waits for a compiler but takes
    milliseconds for a row where the CPU engine takes half of one. A network of more than about a thousand columns has
    kernels of its own: make one query with `engine="cpu"` after this call.
    """
    rows = {"a": [0, 1] * (ROWS // 2), "b": [0, 0, 1, None] * (ROWS // 4)}
    for states in STATES:
        lvm({"a": states, "b": 2}, hidden=2).learn(rows, epochs=1, engine="cpu", merge=False)
    star = lvm({"a": 2, "b": 2}, hidden=2)
    star.learn(rows, epochs=1, cycles=2, engine="cpu", merge=False)
    star.posterior(rows, "S", engine="cpu")
    star.propagate(rows, engine="cpu")
    stack({"a": 2, "b": 2}, hidden=[2, 2], groups=1).learn(rows, epochs=1, engine="cpu", merge=False)
    chain, sequence = cast(Chain, hmm({"a": 2}, hidden=2)), {"a": rows["a"], "sequence": [0] * ROWS}
    chain.learn(sequence, epochs=1, engine="cpu")
    chain.decode(sequence, engine="cpu")
    even = np.full((2, 2), 0.5)
    arrow = BayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]}, {"a": even[0], "b": even})
    arrow.propagate(rows, keep=["a"], parts=["marginal"], engine="cpu")
    collider = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]})
    collider.learn({**rows, "c": rows["b"]}, epochs=1, smoothing=1.0, engine="cpu")
