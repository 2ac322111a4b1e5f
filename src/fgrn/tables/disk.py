"""Arrays in a file on disk that are read as if they were in memory.

The file has no name, so that nothing is left behind in whatever way the process ends. Pages that were read count as
memory of the process until `release`; the operating system may cache them as long as memory is free.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import IO, Any
from weakref import finalize

import numpy as np

from ..core.exceptions import Remedy, TableFileError

SEGMENT = 2**28
"""The least number of bytes that are mapped at a time: the number of maps of a process is limited."""


AT_ONCE = 2**20
"""The number of items of an array that are computed at a time."""

LARGE = "/var/tmp"
"""The folder of Unix for large temporary files."""


class Disk:
    """A file for arrays, which is deleted when nothing refers to it or to one of its arrays any more."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = folder_for(folder)
        self._file = unnamed(self.folder, self)
        self._maps: list[mmap.mmap] = []
        self._lock = RLock()
        self._begins, self._at = 0, 0  # of the last map in the file, and the next free byte in it

    def room(self, count: int, dtype: Any) -> tuple[np.ndarray, int]:
        """Return an array of `count` zeros, and its byte offset in the file."""
        size = count * np.dtype(dtype).itemsize
        if not size:
            return np.zeros(0, dtype=dtype), 0
        if not self._maps or self._at + size > len(self._maps[-1]):
            self._begins += len(self._maps[-1]) if self._maps else 0
            length = -(-max(size, SEGMENT) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            os.truncate(self._file.fileno(), self._begins + length)  # takes no space until it is written to
            self._maps.append(mmap.mmap(self._file.fileno(), length, offset=self._begins))
            self._at = 0
        at = self._at
        self._at += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return np.frombuffer(self._maps[-1], dtype=dtype, count=count, offset=at), self._begins + at

    def write(self, data: np.ndarray, place: int) -> None:
        """Write to the file, not to the memory map, so that a full disk is an error instead of killing the process."""
        with self._lock:
            write_at(self._file, data, place, self.folder)

    def stored(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array, stored on disk; several threads may call this."""
        with self._lock:
            mapped, place = self.room(array.size, array.dtype)
            self.write(array, place)
        return mapped.reshape(array.shape)

    def computed(self, count: int, dtype: Any, part: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Return an array of `count` numbers on disk, computed part by part by a function."""
        with self._lock:
            mapped, place = self.room(count, dtype)
        for first in range(0, count, AT_ONCE):
            rows = slice(first, min(first + AT_ONCE, count))
            self.write(part(rows).astype(dtype, copy=False), place + first * mapped.itemsize)
        return mapped

    def release(self) -> None:
        """Free the memory of pages that were read from disk; arrays keep their values."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for one in self._maps:
                one.madvise(mmap.MADV_DONTNEED)


def folder_for(folder: str | os.PathLike[str] | None) -> str:
    """Return the folder of the cache: as given, or that of TMPDIR, or that of large temporary files.

    The folder of small temporary files is in memory on many systems.
    """
    if folder is not None:
        return os.fspath(folder)
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return LARGE if not chosen and os.access(LARGE, os.W_OK | os.X_OK) else tempfile.gettempdir()


def unnamed(folder: str | os.PathLike[str] | None, owner: object = None) -> IO[bytes]:
    """Return a new unbuffered temporary file without a name, in a folder as for `folder_for`.

    It is closed when its owner is garbage collected, if it has one.
    """
    try:
        file: IO[bytes] = tempfile.TemporaryFile(dir=folder_for(folder), buffering=0)  # noqa: SIM115
        if owner is not None:
            finalize(owner, file.close)
        return file
    except OSError as error:
        where = folder_for(folder)
        why = "there is no such folder" if not Path(where).is_dir() else (error.strerror or str(error)).lower()
        raise TableFileError(
            f"Nothing can be kept in the cache folder {where!r}: {why}.",
            value=where,
            remedies=Remedy("choose another folder", cache=...),
        ) from error


def write_at(file: IO[bytes], data: np.ndarray, place: int, folder: str | os.PathLike[str] | None) -> None:
    """Write an array into a file at an offset; the error for a full disk says what to do."""
    view = memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    try:
        file.seek(place)
        while len(view):
            view = view[file.write(view) :]
    except OSError as error:
        raise write_error(error, folder) from error


def write_error(error: OSError, folder: str | os.PathLike[str] | None) -> TableFileError:
    """Return the error for a cache file that cannot be written."""
    why = (error.strerror or str(error)).lower()
    return TableFileError(
        f"The cache in {folder_for(folder)!r} cannot be written: {why}. Nothing was left behind.",
        value=folder_for(folder),
        remedies=(
            "make room there",
            Remedy("choose a folder on another disk", "fgrn.Stream(..., cache=folder)", cache=...),
        ),
    )
