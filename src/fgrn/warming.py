"""Kernels that are compiled in advance, by doing a little of the work that needs them: `fgrn.warm`, `compile_for`."""

from __future__ import annotations

import sys
from typing import Any, cast

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
    import numpy as np

    from .bayes.bayesian import BayesianNetwork
    from .engines.descent import compile_direction
    from .engines.nested_sums import compile_sums
    from .graph.chain import Chain
    from .graph.structures import hmm, lvm, stack

    rows = {"a": [0, 1] * (ROWS // 2), "b": [0, 0, 1, None] * (ROWS // 4)}
    for states in STATES:
        lvm({"a": states, "b": 2}, hidden=2).learn(rows, epochs=1, engine="cpu", merge=False)
    star = lvm({"a": 2, "b": 2}, hidden=2)
    star.learn(rows, epochs=1, cycles=2, engine="cpu", merge=False)
    star.posterior(rows, "S", engine="cpu")
    star.propagate(rows, engine="cpu")
    _learn_an_improbable_row()
    stack({"a": 2, "b": 2}, hidden=[2, 2], groups=1).learn(rows, epochs=1, engine="cpu", merge=False)
    chain, sequence = cast(Chain, hmm({"a": 2}, hidden=2)), {"a": rows["a"], "sequence": [0] * ROWS}
    chain.learn(sequence, epochs=1, engine="cpu")
    chain.decode(sequence, engine="cpu")
    even = np.full((2, 2), 0.5)
    arrow = BayesianNetwork({"a": 2, "b": 2}, {"b": ["a"]}, {"a": even[0], "b": even})
    arrow.propagate(rows, keep=["a"], parts=["marginal"], engine="cpu")
    collider = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]})
    collider.learn({**rows, "c": rows["b"]}, epochs=1, smoothing=1.0, engine="cpu")
    compile_direction()
    compile_sums()


def _learn_an_improbable_row() -> None:
    """Learn a star from a row so improbable that its product may underflow, by the kernel of tables of many blocks."""
    import numpy as np

    from .core.variable import Variable
    from .graph.blocks import SISO, Diverter, Source
    from .graph.network import Network

    s, t, a = Variable("s", 2), Variable("t", 2), Variable("a", 2)
    net = Network([Source(s, [1e-100, 1.0]), Diverter([s], [t]), SISO(t, a, np.eye(2))])
    net.learn({"a": [0]}, epochs=1, smoothing=0.1, engine="cpu")


def compile_for(work: str) -> None:
    """Compile the kernels of some work, a key of `engines.second_process.KERNELS`, in a process for that alone."""
    sys.modules.setdefault(
        "scipy", cast(Any, None)
    )  # numba would import its linear algebra, which no kernel here needs
    {"stars": _compile_a_star, "chains": _compile_a_star, "cliques": _query_cliques, "families": _search}[work]()


def _compile_a_star() -> None:
    """Compile the kernel of epochs of a star."""
    from .engines.star_counts import compile_star

    compile_star()


def _query_cliques() -> None:
    """Query a junction tree."""
    from .bayes.bayesian import BayesianNetwork

    collider = BayesianNetwork({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]})
    collider.propagate({"a": [0, 1] * (ROWS // 2)}, engine="cpu")


def _search() -> None:
    """Search for a structure: columns of 30 states are counted by rows, those of two states as bits.

    The last column is the product of two others, so that it gets two parents.
    """
    from .bayes.structure_search import search

    rows = range(90)
    table = {"a": [row % 30 for row in rows], "b": [7 * row % 30 for row in rows], "c": [row % 2 for row in rows],
             "d": [row // 2 % 2 for row in rows], "e": [row % 2 * (row // 2 % 2) for row in rows]}  # fmt: skip
    search(table, states={"a": 30, "b": 30, "c": 2, "d": 2, "e": 2}, method="hill_climbing")
