"""The first call of a command that learns: a second process compiles its largest kernels meanwhile."""

from __future__ import annotations

import atexit
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ..engines.row_blocks import thread_count

WORKS = {"stars": ("stars.star",), "families": ("family_bits.scores_by_bits", "families.scores_beside")}
"""The kernels of latent variable models, and of structure search; the one that is always needed is the first."""

FEW_BYTES = 2**13
"""The size of a file, in bytes, up to which the reference engine is expected to learn from it, without kernels."""


def compile_aside(data: str, work: str) -> None:
    """Start a process that compiles the kernels of some `work`, a key of `WORKS`, unless they are on disk already.

    `data` is the file that will be learnt from. The process works while this one imports libraries, reads the table and
    compiles other kernels. A kernel waits for it at its first call (`KernelCache.load_overload`), and is compiled there
    if the process failed.
    """
    path = Path(data)
    if path.is_file() and path.stat().st_size <= FEW_BYTES:
        return
    from ..engines.kernels.cache import COMPILING, can_be_written

    first = WORKS[work][0]
    is_new = first not in COMPILING and not _kernel(first)._cache.is_kept()
    if is_new and thread_count() > 1 and can_be_written():
        command = [sys.executable, "-P", "-c", f"import {__name__} as here; here.compile_for({work!r})"]
        nowhere = subprocess.DEVNULL
        with suppress(OSError):
            process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
            COMPILING.update(dict.fromkeys(WORKS[work], process))
            atexit.register(_terminate, process)


def _kernel(name: str) -> Any:
    """Return a kernel by its name, MODULE.FUNCTION."""
    module, _, function = name.partition(".")
    return getattr(import_module(f"..engines.kernels.{module}", __package__), function)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody waits for any more."""
    process.terminate()
    process.wait()


def compile_for(work: str) -> None:
    """Compile the kernels of some work, a key of `WORKS`, by doing a little of it."""
    from ..engines import kernels

    if work == "stars":
        from ..graph.structures import lvm

        kernels.pack = kernels.pack.py_func  # it is needed before, and compiled by the process that waits for this one
        lvm({"a": 2, "b": 2}, hidden=2).learn({"a": [0, 1], "b": [0, None]}, epochs=1, engine="cpu", merge=False)
    else:
        from ..bayes.structure_search import search

        rows = range(90)  # columns of 30 states are counted by rows, those of two states as bits
        search({"a": [row % 30 for row in rows], "b": [7 * row % 30 for row in rows], "c": [row % 2 for row in rows]},
               states={"a": 30, "b": 30, "c": 2}, method="hill_climbing")  # fmt: skip
