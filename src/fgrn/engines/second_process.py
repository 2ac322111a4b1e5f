"""The first call on a machine: a second process compiles some of the kernels, while this one compiles others."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .kernel_files import is_missing
from .row_blocks import thread_count

if TYPE_CHECKING:
    import subprocess

KERNELS = {
    "stars": ("stars.star",),
    "chains": ("stars.star",),
    "cliques": ("cliques.cliques",),
    "families": ("family_bits.scores_by_bits", "families.scores_beside", "families.refine"),
}
"""By kind of work, the kernels that a second process compiles (`fgrn.warming.compile_for`), MODULE.FUNCTION.

The first of them is needed whatever the table is. What is not listed is compiled meanwhile where it is called: `pack`;
for chains also `joint_tables`, `star_messages` and `scan`; for a Bayesian network with a hidden variable, whose queries
are cliques, `star`; for structure search with missing values `cliques` and `prior_counts`; for the choice of a
classifier `times_inverse_hessian`, `nested_sums` and `counts_of_sums` (`compile_meanwhile`).
"""


COMPILING: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that compile a kernel for this one, by the kernel's name; `kernels.cache` waits for them."""

MEANWHILE: list[Callable[[], object]] = []
"""What this process compiles while it waits for one of them."""


def compile_aside(work: str) -> bool:
    """Start a process that compiles the kernels of some `work`, a key of `KERNELS`, unless they are on disk already.

    Returns whether it was started.

    It is not started if another one is at work, nor where it would gain nothing: on one processor, without a folder to
    keep compiled kernels in, or in a process that is one of several itself. A kernel waits for it at its first call
    (`KernelCache.load_overload`), and is compiled there if the process failed.
    """
    if any(process.poll() is None for process in COMPILING.values()) or not _is_to_be_compiled(KERNELS[work][0]):
        return False
    import multiprocessing
    import subprocess  # both take 10 ms to import, which only a first call is worth

    has_python = "python" in Path(sys.executable or "").name.lower()
    if has_python and thread_count() > 1 and multiprocessing.parent_process() is None:
        command = [sys.executable, "-P", "-c", f"from fgrn.warming import compile_for; compile_for({work!r})"]
        nowhere = subprocess.DEVNULL
        with suppress(OSError):
            process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
            COMPILING.update(dict.fromkeys(KERNELS[work], process))
            atexit.register(_terminate, process)
            return True
    return False


def compile_meanwhile(*compiled: Callable[[], object]) -> None:
    """Compile further kernels, by these functions, while this process waits for another one, if there is one."""
    if COMPILING:
        MEANWHILE.extend(compiled)


def _is_to_be_compiled(kernel: str) -> bool:
    """Whether a kernel is not on disk and can be kept there: if it has a file, numba says whether that is valid."""
    if is_missing(kernel):
        return True
    from .kernels.cache import can_be_written

    return not _kernel(kernel)._cache.is_kept() and can_be_written()


def _kernel(name: str) -> Any:
    """Return a kernel by its name, MODULE.FUNCTION."""
    module, _, function = name.partition(".")
    return getattr(import_module(f".kernels.{module}", __package__), function)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody waits for any more."""
    process.terminate()
    process.wait()
