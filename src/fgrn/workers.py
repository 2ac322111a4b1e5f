"""Who does the work: blocks of rows, one after the other or on several threads, the results always in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from . import settings
from .engines import Engine

BLOCKS_PER_THREAD = 4
"""Blocks whose results may wait for each other."""


def thread_count() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks_of_rows(rows: int, size: int) -> list[slice]:
    """The rows in blocks of at most `size`, nearly equal; where they begin does not depend on the number of threads."""
    count = -(-rows // size)
    if count > 1:  # as many for each of 2 or 4 threads
        count = -(-count // 4) * 4
    ends = [rows * number // count for number in range(count + 1)] if count else []
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def in_order(engine: Engine, threads: int | None, work: Callable[[slice], Any], blocks: list[slice]) -> Iterator[Any]:
    """The results of the work on each block, in order, made by several threads where the engine gains by it.

    Who asks works too. If blocks fail, the error is that of the first of them: blocks are taken in order, so it is the
    same on any number of threads.
    """
    if threads is None:
        threads = thread_count()
    settings.whole("threads", threads, 1)
    threads = min(threads, len(blocks))
    if threads <= 1 or not engine.parallel:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        together = BLOCKS_PER_THREAD * threads
        for first in range(0, len(blocks), together):
            yield from _together(pool, threads, work, blocks[first : first + together])


def _together(
    pool: ThreadPoolExecutor, threads: int, work: Callable[[slice], Any], blocks: list[slice]
) -> Iterator[Any]:
    results: list[Any] = [None] * len(blocks)
    errors: dict[int, Exception] = {}
    waiting = iter(enumerate(blocks))  # next() of it is atomic
    stop = False

    def run() -> None:
        for number, rows in waiting:
            try:
                results[number] = work(rows)
            except Exception as error:
                errors[number] = error
            if errors or stop:
                break

    helpers = [pool.submit(run) for _ in range(threads - 1)]
    try:
        run()
    finally:  # an interruption leaves the rest undone
        stop = True
        for helper in helpers:
            helper.result()
    if errors:
        raise errors[min(errors)]
    yield from results
