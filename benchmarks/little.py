"""Small things: import, the first fit with caches cold and warm, one row."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from .measure import Result, seconds

IMPORT = "import time; t = time.perf_counter(); import fgrn; print(time.perf_counter() - t)"
FIRST_FIT = """
import sys, time
import numpy as np
import fgrn
codes = np.random.default_rng(0).integers(0, 4, (500, 10))
data = {f"Y{i}": codes[:, i] for i in range(10)}
net = fgrn.lvm(dict.fromkeys(data, 4), hidden=20)
begin = time.perf_counter()
net.learn(data, epochs=20, engine=sys.argv[1])
print(time.perf_counter() - begin)
"""


def _fresh(code: str, *arguments: str, cache: str | None = None) -> float:
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return float(done.stdout.split()[-1])


def little(quick: bool) -> Iterator[Result]:
    """Seconds that people wait; goals are times, so the peer is the goal."""
    took = min(_fresh(IMPORT) for _ in range(5))
    yield Result("import fgrn", "in a new process", took, 0.3, "0.3 s", 1.0, note=f"{took:.3f} s")
    for engine in ("reference", "cpu"):
        with tempfile.TemporaryDirectory() as cache:
            cold = _fresh(FIRST_FIT, engine, cache=cache)
            warm = min(_fresh(FIRST_FIT, engine, cache=cache) for _ in range(3))
            what = f"500 rows, N=10, |S|=20, 20 epochs, engine={engine!r}, in a new process"
            yield Result("first fit, caches cold", what, cold, warm, "caches warm", note=f"{cold:.2f} s")
            yield Result("first fit, caches warm", what, warm, warm, "itself", note=f"{warm:.2f} s")
    import fgrn

    net = fgrn.lvm({f"Y{i}": 4 for i in range(50)}, hidden=20)
    row = {f"Y{i}": [i % 4] for i in range(50)}
    net.propagate(row, engine="cpu")
    took = seconds(lambda: [net.propagate(row, engine="cpu") for _ in range(20)], 5) / 20  # "auto" after fgrn.warm()
    what = "all messages of one row, LVM of 50 variables, kernels loaded"
    yield Result("one row", what, took, 1e-3, "1 ms", 1.0, note=f"{1e3 * took:.2f} ms")
