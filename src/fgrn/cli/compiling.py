"""The first call of a command that learns: a second process compiles the largest kernel meanwhile."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ..engines.row_blocks import thread_count

FEW_BYTES = 2**13
"""Of a file with so few rows that the reference engine learns from them, which needs no kernels."""


def compile_aside(data: str) -> None:
    """Start a process that compiles the kernel of stars (latent variable models), unless it is on disk already.

    `data` is the file that will be learnt from. The process works while this one imports libraries, reads the table and
    compiles smaller kernels. The kernel waits for it at its first call (`KernelCache.load_overload`), and is compiled
    there if the process failed.
    """
    path = Path(data)
    if path.is_file() and path.stat().st_size <= FEW_BYTES:
        return
    from ..engines import kernels
    from ..engines.kernels.cache import COMPILING

    kept = kernels.star._cache
    if thread_count() > 1 and kept.kernel_name not in COMPILING and not kept.is_kept():
        command = [sys.executable, "-P", "-c", f"import {__name__} as here; here.compile_star()"]
        nowhere = subprocess.DEVNULL
        with suppress(OSError):
            COMPILING[kept.kernel_name] = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def compile_star() -> None:
    """Compile the kernel of stars and no other: that of packs, which is needed before, runs as plain Python."""
    from ..engines import kernels
    from ..graph.structures import lvm

    kernels.pack = kernels.pack.py_func
    lvm({"a": 2, "b": 2}, hidden=2).learn({"a": [0, 1], "b": [0, None]}, epochs=1, engine="cpu", merge=False)
