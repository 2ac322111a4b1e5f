"""Who does the work: blocks of rows, one after the other or on several threads, the results always in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import settings
from .engines import Engine


def thread_count() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks_of_rows(rows: int, size: int) -> list[slice]:
    """The rows in blocks of at most `size`; where they begin does not depend on the number of threads."""
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def in_order(engine: Engine, threads: int | None, work: Callable[[slice], Any], blocks: list[slice]) -> Iterator[Any]:
    """The results of the work on each block, in order, made by several threads where the engine gains by it."""
    if threads is None:
        threads = thread_count()
    settings.whole("threads", threads, 1)
    if threads <= 1 or len(blocks) <= 1 or not engine.parallel:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, blocks)
