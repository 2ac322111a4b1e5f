"""Files of compiled kernels: their folders and names, without numba, whose import takes a fifth of a second."""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from contextlib import suppress
from pathlib import Path

KERNELS = Path(__file__).resolve().parent / "kernels"


def beside_kernels() -> Path:
    """Return the folder beside the sources of the kernels, which receives compiled ones if it can be written to."""
    return KERNELS / "__pycache__"


def below(folder: str | Path) -> Path:
    """Return the folder for compiled kernels in one that other programs use: one for each place of installation."""
    return Path(folder).absolute() / f"fgrn_{hashlib.sha256(str(KERNELS).encode()).hexdigest()[:16]}"


def file_stem(kernel: str) -> str:
    """Return how the names of the files of a kernel, MODULE.FUNCTION, begin."""
    return f"{kernel.replace('.', '-')}.{sys.implementation.cache_tag}"


def is_missing(kernel: str) -> bool:
    """Whether a kernel has no file in the folder that would receive it; False if that cannot be said without numba."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    folder = below(given) if given else beside_kernels()
    return not any(folder.glob(f"{file_stem(kernel)}.*.nbc")) and can_receive(folder)


def can_receive(folder: Path) -> bool:
    """Whether files can be written to a folder."""
    test = folder / f"test.{os.getpid()}"
    with suppress(OSError):
        write_kernel(test, b"")
        test.unlink()
        return True
    return False


def write_kernel(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, even if other processes write the same file at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        new.write_bytes(data)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
