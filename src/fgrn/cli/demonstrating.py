"""Commands that demonstrate, measure and check the installation: `demo`, `bench`, `paper`, `doctor`."""

from __future__ import annotations

import importlib
import platform
import sys
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..core.exceptions import counted
from . import common
from .wording import say


@click.command(epilog="\b\nExample\n  fgrn demo --output pictures")
@click.option(
    "--output", default="fgrn-demo", show_default=True, metavar="FOLDER", help="The folder for pictures and models."
)
@click.option("--hidden", type=click.IntRange(1), default=100, show_default=True, help="States of the hidden variable.")
@click.option("--epochs", type=click.IntRange(1), default=40, show_default=True, help="Epochs of learning.")
@common.json_option
def demo(output: str, hidden: int, epochs: int, as_json: bool) -> None:
    """Learn handwritten digits, compare, explain, complete, and draw what was learnt. Needs no network."""
    from ..showcase.demo import run_demo

    results = run_demo(Path(output), hidden, epochs, (lambda _: None) if as_json else say)
    if as_json:
        common.as_json(results)


@click.command(epilog="\b\nExample\n  fgrn bench --rows 200000")
@click.option("--rows", type=click.IntRange(1), default=200_000, show_default=True, help="Random rows to learn from.")
@click.option(
    "--variables",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of observed variables, each with four states.",
)
@click.option("--hidden", type=click.IntRange(1), default=20, show_default=True, help="States of the hidden variable.")
@click.option("--epochs", type=click.IntRange(1), default=10, show_default=True, help="Epochs that are timed.")
@common.json_option
def bench(rows: int, variables: int, hidden: int, epochs: int, as_json: bool) -> None:
    """Measure the speed on this machine: rows per second in learning and inference, beside the reference engine."""
    from ..engines import thread_count
    from ..graph.structures import lvm
    from ..tables.frames import Coded

    generator = np.random.default_rng(0)
    names = [f"Y{number}" for number in range(variables)]
    data = {name: Coded(generator.integers(0, 4, rows).astype(np.int8)) for name in names}
    few = {name: Coded(column.codes[: max(1, rows // 100)]) for name, column in data.items()}

    def seconds(table: Any, engine: str, threads: int | None, count: int) -> float:
        net = lvm(dict.fromkeys(names, 4), hidden=hidden)
        begin = time.perf_counter()
        net.learn(table, epochs=count, engine=engine, threads=threads, merge=False)
        return time.perf_counter() - begin

    begin = time.perf_counter()
    seconds(few, "cpu", None, 1)
    compiled = time.perf_counter() - begin
    results: dict[str, float] = {"seconds to compile or load kernels": compiled}
    for name, threads in ((f"learning, {counted(thread_count(), 'thread')}", None), ("learning, one thread", 1)):
        epoch = min(
            (seconds(data, "cpu", threads, epochs + 1) - seconds(data, "cpu", threads, 1)) / epochs for _ in range(3)
        )
        results[f"{name}, rows per second"] = rows / max(epoch, 1e-9)
    plain = (seconds(few, "reference", 1, 2) - seconds(few, "reference", 1, 1)) / len(few["Y0"])
    results["reference engine, rows per second"] = 1 / max(plain, 1e-12)
    net = lvm(dict.fromkeys(names, 4), hidden=hidden)
    net.posterior(few, "S", engine="cpu")
    begin = time.perf_counter()
    net.posterior(data, "S", engine="cpu")
    results["posterior of the hidden variable, rows per second"] = rows / (time.perf_counter() - begin)
    if as_json:
        common.as_json(results)
        return
    say(
        f"{counted(rows, 'random row')}, {counted(variables, 'variable')} of 4 states, "
        f"{counted(hidden, 'hidden state')}"
    )
    lines = [[name, f"{value:,.1f}" if value < 100 else f"{value:,.0f}"] for name, value in results.items()]
    say(common.aligned(["what", ""], lines))


@click.command(epilog="\b\nExample\n  fgrn paper --quick")
@click.option(
    "--folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="The folder of the three UCI files. [FGRN_DATA, or they are downloaded once]",
)
@click.option(
    "--splits", type=click.IntRange(1), default=20, show_default=True, help="Random splits into training and test rows."
)
@click.option("--quick", is_flag=True, help="Few splits and starts, as a quick check.")
@common.json_option
def paper(folder: str | None, splits: int, quick: bool, as_json: bool) -> None:
    """Reproduce the results of the paper: accuracy on three UCI tables, operations, memory."""
    from ..showcase import paper as module

    results = module.run(folder=folder, splits=splits, quick=quick)
    if as_json:
        common.as_json(results.as_dict())
    else:
        say(str(results))


NEEDED = ("numpy", "numba", "narwhals", "safetensors", "scikit-learn", "pyarrow", "matplotlib", "rich", "click")
MODULES = {"scikit-learn": "sklearn"}


@click.command(epilog="\b\nExamples\n  fgrn doctor --json\n  fgrn doctor --warm")
@click.option("--warm", is_flag=True, help="Compile all kernels now, so that no other process has to.")
@common.json_option
def doctor(warm: bool, as_json: bool) -> None:
    """Check that everything needed is installed and works; exit code 1 if not."""
    from .. import __version__
    from ..core.exceptions import KernelCacheWarning

    found: list[dict[str, Any]] = [
        {"what": "fgrn", "fine": True, "says": __version__},
        {
            "what": "python",
            "fine": sys.version_info >= (3, 11),
            "says": f"{platform.python_version()}, {platform.platform()}",
        },
    ]
    for name in NEEDED:
        try:
            importlib.import_module(MODULES.get(name, name))
            found.append({"what": name, "fine": True, "says": metadata.version(name)})
        except ImportError as error:
            found.append({"what": name, "fine": False, "says": f"{error}; pip install --upgrade fgrn"})
        except Exception as error:  # such as Matplotlib, where no folder can be written to
            found.append({"what": name, "fine": False, "says": f"{type(error).__name__}: {error}"})
    for what, check in (
        ("threads", _threads),
        ("kernels", _kernels),
        *([("all kernels", _all_kernels)] if warm else []),
        ("kernel cache", _cache),
        ("model files", _files),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KernelCacheWarning)  # the last check but one says more
                found.append({"what": what, "fine": True, "says": check()})
        except KernelCacheWarning as advice:  # it works, and could be quicker
            found.append({"what": what, "fine": True, "says": "", "advice": str(advice)})
        except Exception as error:  # any failure is a result of this check
            found.append({"what": what, "fine": False, "says": f"{type(error).__name__}: {error}"})
    if as_json:
        common.as_json(found)
    else:
        say(common.aligned(["what", "", "says"], [_line(one) for one in found], left=3))
    if not all(one["fine"] for one in found):
        raise click.exceptions.Exit(1)


def _line(one: dict[str, Any]) -> list[str]:
    """Return a line of the table of `doctor`: the item, its state, and details."""
    if not one["fine"]:
        return [one["what"], "BROKEN", str(one["says"])]
    return [one["what"], "ADVICE" if "advice" in one else "ok", str(one.get("advice", one["says"]))]


def _threads() -> str:
    from ..engines import thread_count

    return f"{counted(thread_count(), 'processor')} for this process"


def _kernels() -> str:
    """Check that the two engines agree on a small network; returns the result as text."""
    from ..graph.structures import lvm

    rows = {"a": [0, 1, None, 1] * 8, "b": [1, 1, 0, None] * 8}
    begin = time.perf_counter()
    tables = []
    for engine in ("reference", "cpu"):
        net = lvm({"a": 2, "b": 2}, hidden=2)
        net.learn(rows, epochs=3, engine=engine)
        tables.append(net.table("a"))
    if not np.allclose(tables[0], tables[1], rtol=1e-9):
        raise ArithmeticError("the engines do not agree; please report this")
    return f"compiled or loaded, and right, in {time.perf_counter() - begin:.1f} s"


def _all_kernels() -> str:
    from .. import warm

    begin = time.perf_counter()
    warm()
    return f"compiled or loaded in {time.perf_counter() - begin:.1f} s"


def _cache() -> str:
    """Return the folder of compiled kernels, and whether it can be written to."""
    from ..core.exceptions import KernelCacheWarning
    from ..engines import kernels
    from ..engines.kernels import cache

    used = kernels.star.stats
    if sum(used.cache_hits.values()):
        return f"{used.cache_path} (used)"
    folder, advice = cache.write_to_a_folder("doctor", b"")
    if folder is None:
        raise KernelCacheWarning(advice)
    (folder / "doctor").unlink(missing_ok=True)
    return f"{folder} (fresh)"


def _files() -> str:
    from .. import load
    from ..graph.structures import lvm

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.fgrn"
        net = lvm({"a": 2}, hidden=2)
        net.save(path)
        if load(path) != net:
            raise OSError("a model was read back differently; please report this")
    return "written and read"
