"""Compiled kernels on disk: the folders that hold them; a disk that cannot be read or written is never an error.

Numba's own cache insists on a folder it can write to, and trusts the files it finds there. This one reads wherever a
good copy lies, even in a folder that cannot be written to, and writes to the first folder that can be. Each file has
a digest of its content, of all sources of the kernels and of numba's version: one that is cut off, damaged or out of
date is made again. Where nothing can be written, every process compiles its kernels, and warns once.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numba
from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from ...core.exceptions import KernelCacheWarning, warn
from ..kernel_files import below, beside_kernels, can_receive, file_stem, write_kernel
from ..second_process import COMPILING, MEANWHILE

DIGEST_BYTES = 32

RUNTIME = b"NRT_"
"""How the names of functions in numba's runtime begin, in compiled code that calls one."""

LOG = logging.getLogger("fgrn.kernels")
"""Told of each kernel that is about to be compiled (INFO), and of the first of a process (WARNING).

A program that sets up no logging writes the latter to standard error: nobody wonders why the first answer takes long.
"""

MOST_SECONDS, PAUSE = 60, 0.005
"""How long to wait for such a process, then the kernel is compiled here; and how long between two looks at the disk, if
nothing is compiled meanwhile."""


def folders() -> list[Path]:
    """Return the folders in which compiled kernels are searched, in order; the first writable one receives new ones.

    They are `__pycache__` beside the kernels and numba's folder in the user's cache; or NUMBA_CACHE_DIR alone, if set.
    """
    if config.CACHE_DIR:
        return [below(config.CACHE_DIR)]
    own = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    return [beside_kernels(), *([below(own)] if own.is_absolute() else [])]  # some users have no home folder


@cache
def origin() -> bytes:
    """Return a hash of the sources of all kernels and the version of numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(files(__name__.rpartition(".")[0]).iterdir(), key=lambda one: one.name):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    return digest.digest()


class KernelCache(NullCache):  # type: ignore[misc]  # numba is not typed
    """The compiled versions of one kernel on disk, with the interface that numba's dispatcher uses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._from = function.__module__, function.__qualname__
        self.kernel_name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._name = file_stem(self.kernel_name)
        self._place: Path | None = None

    @property
    def cache_path(self) -> str | None:
        """The folder the last version was read from or written to; None if there was none."""
        return None if self._place is None else str(self._place)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled version for a signature; None if no folder has a valid one.

        If another process is compiling the kernel, this waits for it.
        """
        name = self._file_name(sig, target_context.codegen())
        found = self._loaded(name, target_context)
        if found is not None:
            return found
        if not _Said.compiling:
            _Said.compiling = True
            LOG.warning(
                "fgrn is compiling kernels (%s, ...), each once on this machine: a few seconds", self.kernel_name
            )
        if (process := COMPILING.pop(self.kernel_name, None)) is not None:
            found = self._awaited(process, name, target_context)
        if found is None:
            LOG.info("compiling the kernel %s", self._name)
        return found

    def _awaited(self, process: subprocess.Popen[bytes], name: str, target_context: Any) -> Any:
        """The compiled version that another process writes to a file of this name; None if it ends without it."""
        end = monotonic() + MOST_SECONDS
        while process.poll() is None:
            if (found := self._loaded(name, target_context)) is not None:
                return found
            if monotonic() > end:
                process.kill()
            try:
                compiled = MEANWHILE.pop()
            except IndexError:
                sleep(PAUSE)
            else:
                compiled()
        return self._loaded(name, target_context)

    def _loaded(self, name: str, target_context: Any) -> Any:
        """The compiled version in a file of this name, None if no folder has a good one.

        What numba registers to compile, which takes 0.2 s, is not needed for code that does not call its runtime.
        """
        for folder in folders():
            try:
                content = _content(folder / name)
                if content is not None:
                    if RUNTIME in content:
                        target_context.refresh()
                    found = CompileResult._rebuild(target_context, *pickle.loads(content))
                    self._place = folder
                    return found
            except Exception:  # whatever is wrong with a file, the kernel can be compiled again
                continue
        return None

    def is_kept(self) -> bool:
        """Whether a folder has a compiled version of the kernel, for any signature."""
        for folder in folders():
            with suppress(OSError):
                if any(_content(file) is not None for file in folder.glob(f"{self._name}.*.nbc")):
                    return True
        return False

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled version for a signature in the first writable folder, or warn once."""
        name = self._file_name(sig, data.codegen)
        content = dumps(data._reduce())
        self._place, advice = write_to_a_folder(name, _digest(content) + content)
        if advice and not _Said.already:
            _Said.already = True
            warn(advice, KernelCacheWarning)

    def _file_name(self, sig: Any, codegen: Any) -> str:
        kind = hashlib.sha256(repr((self._from, sig, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return f"{self._name}.{kind}.nbc"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(origin() + content).digest()


def _content(file: Path) -> bytes | None:
    """The content of a file without its digest; None if it is damaged, or of other sources."""
    data = file.read_bytes()
    content = data[DIGEST_BYTES:]
    return content if data[:DIGEST_BYTES] == _digest(content) else None


def write_to_a_folder(name: str, data: bytes) -> tuple[Path | None, str]:
    """Write a file to the first writable folder; returns the folder, or None and advice for the user."""
    reasons = []
    for folder in folders():
        try:
            write_kernel(folder / name, data)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
        else:
            return folder, ""
    return None, (
        f"Compiled kernels cannot be kept on disk ({'; '.join(reasons)}): every process compiles them again, which "
        "takes up to half a minute. Set the environment variable NUMBA_CACHE_DIR to a folder that can be written to."
    )


def can_be_written() -> bool:
    """Whether a folder for compiled kernels can be written to."""
    return any(map(can_receive, folders()))


class _Said:
    """Whether this process has warned that kernels are not saved, and reported that they are compiled."""

    already = False
    compiling = False
