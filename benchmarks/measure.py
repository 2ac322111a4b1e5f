"""How things are timed, compared and noted down."""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import fgrn

THREADS = 2
FIRST_CALL = "first call"
"""The name of results that are times of the first call on a machine, which compiles."""


@dataclass(frozen=True)
class Result:
    """One comparison: what was done, the seconds of both sides, what the ratio should be at least (or at most)."""

    name: str
    what: str
    ours: float
    theirs: float
    peer: str
    goal: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times as long the peer takes."""
        return self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached; None without one."""
        if self.goal is None:
            return None
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The shortest of a few runs, without the collector of garbage in between."""
    best = np.inf
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
        gc.enable()
    return float(best)


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time, of all threads, of a few runs: other work on the machine hardly changes it."""
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return float(best)


def per_epoch(run: Callable[[int], Any], few: int, many: int, repeats: int = 3) -> float:
    """The seconds of one epoch more: what is done once (reading, starting) cancels out."""
    return (seconds(lambda: run(many), repeats) - seconds(lambda: run(few), repeats)) / (many - few)


def in_turns(one: Callable[[], Any], other: Callable[[], Any], repeats: int = 15) -> tuple[float, float]:
    """The shortest of many runs of two pieces of work, in turns: a machine that is slow for a while is so for both."""
    pairs = [(seconds(one, 1), seconds(other, 1)) for _ in range(repeats)]
    ours, theirs = np.min(pairs, axis=0)
    return float(ours), float(theirs)


def epochs_in_turns(one: Callable[[int], Any], other: Callable[[int], Any], few: int, many: int) -> tuple[float, float]:
    """The same for one epoch more of both."""
    (a, b), (c, d) = (in_turns(lambda n=n: one(n), lambda n=n: other(n), 11) for n in (few, many))
    return (c - a) / (many - few), (d - b) / (many - few)


def random_rows(rows: int, variables: int, states: int, seed: int = 0, holes: float = 0.0) -> np.ndarray:
    """Codes without any structure, where nothing repeats more than it has to; NaN for holes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, states, (rows, variables))
    if not holes:
        return codes
    return np.where(rng.random(codes.shape) < holes, np.nan, codes)


def columns_of(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """A mapping of columns, as `learn` takes it; the columns are views."""
    return {f"Y{i}": matrix[:, i] for i in range(matrix.shape[1])}


def random_star(variables: int, states: int, hidden: int, seed: int = 0) -> fgrn.Network:
    """An LVM whose tables are given, so that a peer can start from the same."""
    rng = np.random.default_rng(seed)
    legs = [fgrn.Variable(f"S:Y{i}", hidden) for i in range(variables)]
    root = fgrn.Variable("S", hidden)
    leaves = [
        fgrn.SISO(leg, fgrn.Variable(f"Y{i}", states), rng.dirichlet(np.full(states, 5.0), hidden))
        for i, leg in enumerate(legs)
    ]
    return fgrn.Network([fgrn.Source(root, rng.dirichlet(np.full(hidden, 5.0))), fgrn.Diverter([root], legs), *leaves])


def tables_of(net: fgrn.Network) -> tuple[np.ndarray, np.ndarray]:
    """The prior, and the tables of a star side by side: (hidden, variables, states)."""
    return net.prior("S"), np.stack([net.table(name) for name in net.observed], axis=1)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import numba

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "fgrn": fgrn.__version__,
    }


def write(path: Path, results: list[Result], extra: dict[str, Any], whole: bool = True) -> None:
    """All that was measured, as JSON. Unless all was measured, results of other names stay in the file."""
    rows = [{**asdict(result), "ratio": result.ratio, "met": result.met} for result in results]
    if not whole:
        old = json.loads(path.read_text())
        names = {result.name for result in results}
        place = next((at for at, row in enumerate(old["results"]) if row["name"] in names), len(old["results"]))
        after = [row for row in old["results"][place:] if row["name"] not in names]
        rows = [*old["results"][:place], *rows, *after]
        extra = {key: value or old[key] for key, value in extra.items()}
    path.write_text(json.dumps({"machine": machine(), "results": rows, **extra}, indent=1) + "\n")


def read(path: Path) -> tuple[dict[str, Any], list[Result], list[dict[str, Any]]]:
    """What `write` wrote: the machine, the results, and how times grow."""
    found = json.loads(path.read_text())
    names = [field.name for field in fields(Result)]
    results = [Result(**{name: row[name] for name in names}) for row in found["results"]]
    return found["machine"], results, found["growth"]
