"""The first call of a command that learns: a second process compiles its largest kernels meanwhile."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..engines.row_blocks import thread_count

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

    first = WORKS[work].kernels[0]
    is_new = first not in COMPILING and not _kernel(first)._cache.is_kept()
    if is_new and thread_count() > 1 and can_be_written():
        command = [sys.executable, "-P", "-c", f"import {__name__} as here; here.compile_for({work!r})"]
        nowhere = subprocess.DEVNULL
        with suppress(OSError):
            process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
            COMPILING.update(dict.fromkeys(WORKS[work].kernels, process))
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
    WORKS[work].do()


def _learn_a_star() -> None:
    """Learn a latent variable model; the kernel of packs, which the waiting process compiles, runs as Python here."""
    from ..engines import kernels
    from ..graph.structures import lvm

    kernels.pack = kernels.pack.py_func
    lvm({"a": 2, "b": 2}, hidden=2).learn({"a": [0, 1], "b": [0, None]}, epochs=1, engine="cpu", merge=False)


def _search() -> None:
    """Search for a structure: columns of 30 states are counted by rows, those of two states as bits."""
    from ..bayes.structure_search import search

    rows = range(90)
    search({"a": [row % 30 for row in rows], "b": [7 * row % 30 for row in rows], "c": [row % 2 for row in rows]},
           states={"a": 30, "b": 30, "c": 2}, method="hill_climbing")  # fmt: skip


class _Work(NamedTuple):
    """Work of a command: the names of its largest kernels, that which is always needed first, and a little of it."""

    kernels: tuple[str, ...]
    do: Callable[[], None]


WORKS = {
    "stars": _Work(("stars.star",), _learn_a_star),
    "families": _Work(("family_bits.scores_by_bits", "families.scores_beside"), _search),
}
