"""Small things: import, the first call with caches cold and warm, one row."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

from .measure import FIRST_CALL, Result, seconds

IMPORT = "import time; t = time.perf_counter(); import fgrn; fgrn.Network; print(time.perf_counter() - t)"
FIRST = """
import time
import numpy as np
import fgrn
fgrn.Network
codes = np.random.default_rng(0).integers(0, 4, (500, 10))
data = {f"Y{i}": codes[:, i] for i in range(10)}
begin = time.perf_counter()
"""
LAST = """
print(time.perf_counter() - begin)
"""
REFERENCE = """
fgrn.lvm(dict.fromkeys(data, 4), hidden=20).learn(data, epochs=20, engine="reference")
"""
HIDDEN = """
net = fgrn.lvm(dict.fromkeys(data, 4), hidden=20)
net.learn(data, epochs=20, engine="cpu")
"""
CHAIN = """
chain = fgrn.hmm(dict.fromkeys(data, 4), hidden=5)
chain.learn(data, epochs=20, engine="cpu")
"""
BAYESIAN = """
arcs = [(f"Y{i}", f"Y{j}") for i in range(10) for j in (i + 1, i + 2) if j < 10]
model = fgrn.BayesianNetwork(dict.fromkeys(data, 4), arcs)
model.learn({**data, "Y3": [None] * 500}, epochs=20, engine="cpu")
model.propagate({"Y0": data["Y0"]}, engine="cpu")
"""
REST = """
soft = {**data, "Y0": np.full((500, 4), 0.25)}
net.learn(soft, epochs=2, engine="cpu")
net.learn(data, epochs=2, cycles=3, engine="cpu")
net.propagate(data, engine="cpu")
fgrn.stack(dict.fromkeys(data, 4), hidden=[3, 3]).learn(data, epochs=2, engine="cpu")
fgrn.dica(dict.fromkeys(data, 4), hidden=[3, 2]).learn(data, epochs=2, engine="cpu")
chain.propagate(data, engine="cpu")
model.joint({"Y0": data["Y0"]}, ["Y1", "Y2"])
model.most_probable({"Y0": data["Y0"]})
model.sample(10, seed=0)
"""
FIRST_CALLS = {
    "learning from a small table (the reference engine compiles nothing)": REFERENCE,
    "learning with one hidden variable": HIDDEN,
    "learning a chain (a hidden Markov model)": CHAIN,
    "learning a Bayesian network with a hidden variable, and its posteriors": BAYESIAN,
    "all of these, and layers, product spaces, soft evidence, all messages, samples": HIDDEN + CHAIN + BAYESIAN + REST,
}


def _fresh(code: str, cache: str | None = None) -> float:
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.split()[-1])


def little(quick: bool) -> Iterator[Result]:
    """Seconds that people wait; goals are times, so the peer is the goal."""
    took = min(_fresh(IMPORT) for _ in range(5))
    yield Result("import fgrn", "in a new process", took, 0.3, "0.3 s", 1.0, note=f"{took:.3f} s")
    for what, code in FIRST_CALLS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = _fresh(FIRST + code + LAST, cache=cache)
            warm = min(_fresh(FIRST + code + LAST, cache=cache) for _ in range(3))
        yield Result(FIRST_CALL, what, cold, warm, "later processes")
    import fgrn

    net = fgrn.lvm({f"Y{i}": 4 for i in range(50)}, hidden=20)
    row = {f"Y{i}": [i % 4] for i in range(50)}
    net.propagate(row, engine="cpu")
    took = seconds(lambda: [net.propagate(row, engine="cpu") for _ in range(20)], 5) / 20  # "auto" after fgrn.warm()
    what = "all messages of one row, LVM of 50 variables, kernels loaded"
    yield Result("one row", what, took, 1e-3, "1 ms", 1.0, note=f"{1e3 * took:.2f} ms")
    yield from one_row()


def one_row() -> Iterator[Result]:
    """One row asked of a fitted classifier of 20 columns, and one question to small Bayesian networks."""
    import numpy as np
    import pandas as pd

    import fgrn

    from .networks import FOLDER

    rng = np.random.default_rng(0)
    mixed = {f"x{i}": rng.choice(list("abcd"), 1000) if i % 2 else rng.normal(size=1000) for i in range(20)}
    frame, codes = pd.DataFrame(mixed), rng.integers(0, 4, (1000, 20))
    sure = mixed["x0"] + (mixed["x1"] == "a") - (codes[:, 0] == 1) + rng.normal(size=1000)
    classes = np.where(sure > 0, "yes", "no")
    by_name, by_place = (fgrn.LatentClassifier(random_state=0).fit(table, classes) for table in (frame, codes))
    first = {name: [column[0]] for name, column in mixed.items()}
    gaps = {name: [None] if name in ("x2", "x3", "x4", "x5") else value for name, value in first.items()}
    asked = {
        "a pandas frame": (partial(by_name.predict_proba, frame[:1]), 0.8e-3),
        "a pandas frame, 4 of 20 values missing": (partial(by_name.predict_proba, pd.DataFrame(gaps)), 0.8e-3),
        "a mapping": (partial(by_name.predict_proba, first), 0.3e-3),
        "a mapping, 4 of 20 values missing": (partial(by_name.predict_proba, gaps), 0.3e-3),
        "an array": (partial(by_place.predict_proba, codes[:1]), 0.3e-3),
    }
    for name in ("asia", "alarm"):
        model = fgrn.read(FOLDER / f"{name}.bif")
        row = {key: str(value[0]) for key, value in model.sample(1, seed=0).items()}
        known, last = dict(list(row.items())[: len(row) // 2]), list(row)[-1]
        asked[f"the Bayesian network {name}"] = (partial(model.posterior, known, last), 0.3e-3)
    for what, (ask, goal) in asked.items():
        ask()
        took = seconds(lambda ask=ask: [ask() for _ in range(100)], 7) / 100
        slow = 1e3 * np.percentile([seconds_of(ask) for _ in range(2000)], 99)
        note = f"{1e3 * took:.2f} ms, 99 of 100 calls within {slow:.2f}"
        yield Result("one row", what, took, goal, f"{1e3 * goal:g} ms", 1.0, note=note)


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds of a single call, as a user meets it."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
