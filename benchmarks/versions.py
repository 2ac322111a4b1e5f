"""Two versions of the project side by side: CPU time of epochs, answers and first calls, measured in turns.

    python -m benchmarks.versions FOLDER [case ...]

FOLDER is another checkout (`git worktree add --detach FOLDER COMMIT`). Each version runs in a process of its own; they
take turns, so that a machine that is slow for a while is so for both. Times are CPU time of one thread, the shortest of
several runs; `noise` is how far the halves of the runs of one version differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIF = Path(os.environ.get("FGRN_SHARED", ROOT.parent / "shared")) / "data" / "bif"
RUNS, LEAST_SECONDS = 8, 0.4
"""Runs of each case and version, and the CPU seconds that a run takes at least: short work is repeated."""

COLD = (
    "import fgrn",
    "fgrn.Network",
    "first star",
    "first posterior of a star",
    "first chain",
    "first junction tree",
    "first tree",
)


def cases() -> dict[str, Callable[[], Callable[[], float]]]:
    """What is measured: each makes its data, and returns a function that does the work and returns its CPU seconds."""
    import numpy as np

    import fgrn

    from .measure import columns_of, random_rows, random_star

    def cpu(work: Callable[[], Any]) -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    def epochs(net: Any, table: Any, few: int, many: int, **settings: Any) -> Callable[[], float]:
        settings = {"merge": False, "threads": 1, "engine": "cpu", **settings}

        def run(count: int) -> float:
            mine = net.copy()
            return cpu(lambda: mine.learn(table, epochs=count, **settings))

        return lambda: (run(many) - run(few)) / (many - few) if few else run(many)

    def star(
        rows: int, variables: int, states: int, hidden: int, few: int, many: int, holes: float = 0.0, **more: Any
    ) -> Callable[[], float]:
        table = columns_of(random_rows(rows, variables, states, holes=holes))
        return epochs(random_star(variables, states, hidden), table, few, many, **more)

    def stack() -> Callable[[], float]:
        table = columns_of(random_rows(20_000, 10, 4))
        names = list(table)
        net = fgrn.stack(dict.fromkeys(names, 4), hidden=[8, 6], groups=[[names[:5], names[5:]]])
        net.learn(table, epochs=1, engine="cpu")
        return epochs(net, table, 1, 5)

    def chain() -> Callable[[], float]:
        table = {"Y": np.random.default_rng(0).integers(0, 20, 20_000), "sequence": np.arange(20_000) // 100}
        net = fgrn.hmm({"Y": 20}, hidden=10)
        net.learn(table, epochs=1, engine="cpu")
        return epochs(net, table, 1, 41, merge=None)

    def rows_of(model: Any, rows: int, known: float) -> dict[str, Any]:
        drawn, rng = model.sample(rows, seed=0), np.random.default_rng(1)
        return {name: np.where(rng.random(rows) < known, np.asarray(drawn[name]), None) for name in drawn}

    def child() -> Callable[[], float]:
        model = fgrn.read(BIF / "child.bif")
        return epochs(model, rows_of(model, 2_000, 0.8), 1, 21)

    def posteriors(name: str, rows: int) -> Callable[[], float]:
        model = fgrn.read(BIF / f"{name}.bif")
        table = rows_of(model, rows, 0.5)
        return lambda: cpu(lambda: model.propagate(table, engine="cpu", threads=1))

    def asked(question: Callable[..., Any], rows: int) -> Callable[[], float]:
        net = random_star(10, 4, 20)
        table = columns_of(random_rows(rows, 10, 4, holes=0.2))
        try:
            question(net, table, threads=1)
        except TypeError:  # an older version uses as many threads as it likes, whose CPU time is added
            return lambda: cpu(lambda: question(net, table))
        return lambda: cpu(lambda: question(net, table, threads=1))

    def one_row(name: str | None) -> Callable[[], float]:
        if name is None:
            net, row = random_star(10, 4, 20), {"Y0": [1], "Y1": [2], "Y2": [3]}
            return lambda: cpu(lambda: net.posterior(row, "S"))
        model = fgrn.read(BIF / f"{name}.bif")
        first, last = model.names[0], model.names[-1]
        row = {first: [model.sample(1, seed=0)[first][0]]}
        return lambda: cpu(lambda: model.posterior(row, last))

    return {
        "star 1,000 x 10, S=20": lambda: star(1_000, 10, 4, 20, 10, 110),
        "star 10,000 x 10, S=20": lambda: star(10_000, 10, 4, 20, 5, 55),
        "star 5,000 x 30, S=10": lambda: star(5_000, 30, 4, 10, 5, 55),
        "star 1,000 x 100, S=64": lambda: star(1_000, 100, 4, 64, 5, 55),
        "star 20,000 x 100, S=64": lambda: star(20_000, 100, 4, 64, 2, 12),
        "star 20,000 x 100, first two epochs": lambda: star(20_000, 100, 4, 64, 0, 2),
        "star 200,000 x 10, S=20": lambda: star(200_000, 10, 4, 20, 2, 12),
        "star 200,000 x 10, 30 % missing": lambda: star(200_000, 10, 4, 20, 2, 12, holes=0.3),
        "star 20,000 x 10, K=5": lambda: star(20_000, 10, 4, 20, 1, 3, cycles=5),
        "star 200,000 x 5, merged": lambda: star(200_000, 5, 3, 10, 2, 102, merge=True),
        "stack 20,000 x 10": stack,
        "hidden Markov model, 20,000": chain,
        "child learnt, 2,000": child,
        "posteriors of alarm, 1,000": lambda: posteriors("alarm", 1_000),
        "posteriors of child, 1,000": lambda: posteriors("child", 1_000),
        "posteriors of insurance, 1,000": lambda: posteriors("insurance", 1_000),
        "posteriors of hepar2, 1,000": lambda: posteriors("hepar2", 1_000),
        "posterior of S, 50,000": lambda: asked(
            lambda net, rows, **more: net.posterior(rows, "S", engine="cpu", **more), 50_000
        ),
        "complete, 20,000": lambda: asked(lambda net, rows, **more: net.complete(rows, engine="cpu", **more), 20_000),
        "propagate, 20,000": lambda: asked(lambda net, rows, **more: net.propagate(rows, engine="cpu", **more), 20_000),
        "one row, star": lambda: one_row(None),
        "one row, alarm": lambda: one_row("alarm"),
        "one row, child": lambda: one_row("child"),
        "one row, hepar2": lambda: one_row("hepar2"),
    }


def first_call(name: str) -> float:
    """CPU seconds of a first call in this process."""
    begin = time.process_time()
    import fgrn

    if name == "import fgrn":
        return time.process_time() - begin
    fgrn.Network  # noqa: B018 (imported at its first use)
    if name == "fgrn.Network":
        return time.process_time() - begin
    import numpy as np

    codes = np.random.default_rng(0).integers(0, 4, (500, 10))
    table: dict[str, Any] = {f"Y{i}": codes[:, i] for i in range(10)}
    states = dict.fromkeys(table, 4)
    begin = time.process_time()
    if name == "first star":
        fgrn.lvm(states, hidden=20).learn(table, epochs=2, engine="cpu")
    elif name == "first posterior of a star":
        fgrn.lvm(states, hidden=20).posterior(table, "S", engine="cpu")
    elif name == "first chain":
        fgrn.hmm(states, hidden=5).learn(table, epochs=2, engine="cpu")
    elif name == "first junction tree":
        arcs = [(f"Y{i}", f"Y{j}") for i in range(10) for j in (i + 1, i + 2) if j < 10]
        fgrn.BayesianNetwork(states, arcs).learn({**table, "Y3": [None] * 500}, epochs=2, engine="cpu")
    elif name == "first tree":
        fgrn.lvm(states, hidden=20).propagate(table, engine="cpu")
    return time.process_time() - begin


def serve() -> None:
    """Measure the cases whose names come in, a line each; answers are lines of JSON."""
    made: dict[str, Any] = {}
    known = cases()
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in made:
                made.clear()
                made[name] = known[name]()
                made[name]()
            found, runs, begin = 0.0, 0, time.process_time()
            while runs == 0 or (time.process_time() - begin < LEAST_SECONDS and runs < 100):
                found += made[name]()
                runs += 1
            answer: Any = found / runs
        except Exception as error:  # a version may not know what is asked
            answer = repr(error)
        print(json.dumps(answer), flush=True)


class Version:
    """One version of the project, measured in a process that imports the sources of its folder."""

    def __init__(self, folder: Path) -> None:
        self.settings = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        self.settings.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled to bytecode
        self._process: Any = None

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.versions", *words]

    def measure(self, name: str) -> float:
        """CPU seconds of a case; NaN where this version does not know how."""
        if name in COLD:
            with tempfile.TemporaryDirectory() as folder:
                settings = {**self.settings, "NUMBA_CACHE_DIR": folder}
                command = self._command(".", "--first", name)
                return float(subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout)
        if self._process is None:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._process = subprocess.Popen(
                self._command(".", "--serve"), env=self.settings, stderr=subprocess.DEVNULL, **pipes
            )
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            print(f"  {answer}", file=sys.stderr)
            return float("nan")
        return float(answer)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()


def main() -> None:
    """Compare this version with the one in the folder; or be the process that measures one of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("folder", type=Path, help="the other checkout")
    parser.add_argument("cases", nargs="*", help="parts of the names of cases; all without them")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.first:
        print(first_call(options.first))
    else:
        compare(options.folder.resolve(), options.cases, options.runs)


def compare(folder: Path, parts: list[str], repeats: int) -> None:
    """Measure both versions in turns, and print a table."""
    names = [n for n in [*COLD, *cases()] if not parts or any(part in n for part in parts)]
    versions = Version(folder), Version(ROOT)
    print("| CPU ms | before | after | ratio | noise |\n|---|---|---|---|---|")
    for name in names:
        runs = max(2, repeats // 2) if name in COLD else repeats
        times = [[version.measure(name) for version in versions] for _ in range(runs)]
        before, after = (1000 * min(column) for column in zip(*times, strict=True))
        halves = [[min(part) for part in zip(*times[k::2], strict=True)] for k in (0, 1)]
        noise = max(abs(a / b - 1) for a, b in zip(*halves, strict=True))
        print(f"| {name} | {before:.3g} | {after:.3g} | {after / before:.2f} | {noise:.2f} |", flush=True)
    for version in versions:
        version.close()


if __name__ == "__main__":
    main()
