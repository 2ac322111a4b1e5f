"""The number of BLAS threads: one for short vectors, or where several threads call BLAS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any


class OneBlasThread:
    """A context in which BLAS uses one thread, for short vectors or for calls from several threads.

    There the threads of BLAS only wait for each other, and keep processors busy. The limit holds for the whole process:
    it is lifted when the last of several users, in threads of their own, leaves.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                libraries = _blas_libraries("scipy.linalg" in sys.modules)
                self._limit = libraries.limit(limits=1, user_api="blas")
            self._users += 1  # only now: who could not enter does not leave

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = OneBlasThread()


@contextmanager
def limited_kernel_blas() -> Iterator[None]:
    """Limit SciPy's BLAS, which compiled kernels call, to one thread, because the kernels run on several threads.

    Within another such context nothing is to be done. Each time a limit is lifted, a thread of OpenBLAS keeps a
    processor busy for about 25 ms, waiting for work.
    """
    import scipy.linalg  # noqa: F401 - so that it is among the libraries that are limited

    with ONE_BLAS_THREAD:
        yield


@cache
def _blas_libraries(with_scipy: bool) -> Any:
    """Return the BLAS library of NumPy, and that of SciPy if it has been imported."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
