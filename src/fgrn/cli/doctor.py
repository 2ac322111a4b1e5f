"""The command `doctor`, which checks the installation."""

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
from . import shared_options, terminal
from .terminal import print_text

NEEDED = ("numpy", "numba", "narwhals", "safetensors", "scikit-learn", "pyarrow", "matplotlib", "rich", "click")
MODULES = {"scikit-learn": "sklearn"}


@click.command(epilog="\b\nExamples\n  fgrn doctor --json\n  fgrn doctor --warm")
@click.option("--warm", is_flag=True, help="Compile all kernels now, so that no other process has to.")
@shared_options.json_option
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
        terminal.print_json(found)
    else:
        print_text(terminal.aligned(["what", "", "says"], [_line(one) for one in found], left=3))
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
