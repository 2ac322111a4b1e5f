"""Work on blocks of rows, by one thread or several; the results are summed or concatenated in the order of the rows."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from threading import Condition, Lock, Thread, current_thread
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .protocol import Buffers, RowCounts

MOST_HELPERS = 256
"""Threads of a process that help, at most."""

BLOCKS_PER_THREAD = 4
"""Blocks whose results may wait for each other."""


def thread_count() -> int:
    """Return the number of processors that this process may use."""
    return len(_processors()) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processors() -> set[int]:
    """Return the processors that the calling thread may use, or a helper if it were not kept off one."""
    caller = current_thread()
    return caller.allowed if isinstance(caller, _Helper) and caller.allowed else os.sched_getaffinity(0)


def _processor_of_caller() -> Callable[[], int] | None:
    """Return a function that tells on which processor its caller runs; None where threads cannot be kept off one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)


PROCESSOR_NOW = _processor_of_caller()


def blocks_of_rows(rows: int, size: int) -> list[slice]:
    """Split rows into blocks of at most `size`, nearly equal and the same for any number of threads."""
    count = -(-rows // size)
    if count > 2:  # as many for each of 2 or 4 threads
        count = -(-count // 4) * 4
    ends = [rows * number // count for number in range(count + 1)] if count else []
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def in_order(threads: int | None, work: Callable[[Any], Any], blocks: Sequence[Any]) -> Iterator[Any]:
    """Yield the result of `work` for each block, in order, computed by `threads` threads (None: one per processor).

    The calling thread works too while it waits. If blocks fail, the error is that of the first of them: blocks
    are taken in order, so it is the same on any number of threads.
    """
    threads = min(thread_count() if threads is None else threads, len(blocks))
    if threads <= 1:
        yield from map(work, blocks)
        return
    queue = _Queue(work, blocks, BLOCKS_PER_THREAD * threads)
    for _ in range(threads - 1):
        _Helper.call(queue)
    try:
        for number in range(len(blocks)):
            yield queue.result(number)
    finally:  # an interruption leaves the rest undone
        queue.stop()


def call_helpers(count: int, work: Callable[[int], object]) -> None:
    """Let so many other threads call `work`, each with its number from 1 on, without waiting for them.

    Fewer do if the helpers of an earlier call are on their way back yet, and there are twice as many already.
    """
    for number in range(1, count + 1):
        _Helper.call(_Aside(work, number), 2 * count)


def sum_of_blocks(
    threads: int | None,
    work: Callable[[slice], RowCounts],
    blocks: list[slice],
    after: Callable[[np.ndarray], None] = lambda _: None,
) -> RowCounts | None:
    """Return the sum of the counts of all blocks, in their order, in the arrays of the first; None without blocks.

    `after` is called with the arrays of every other block once they have been added.
    """
    if len(blocks) == 1:
        return work(blocks[0])
    total: RowCounts | None = None
    impossible = []
    for rows, part in zip(blocks, in_order(threads, work, blocks), strict=True):
        if len(part.impossible):
            impossible.append(part.impossible + rows.start)
        if total is None:
            total = part
            continue
        np.add(total.values, part.values, out=total.values)
        total = total._replace(log_likelihood=total.log_likelihood + part.log_likelihood)
        after(part.values)
    return total._replace(impossible=np.concatenate(impossible)) if total is not None and impossible else total


def put_together(
    threads: int | None,
    work: Callable[[slice, dict[str, np.ndarray]], Buffers],
    blocks: list[slice],
    shape: tuple[int, int, int],
    parts: Collection[str],
) -> Buffers:
    """Return the messages of all blocks as one; `parts` are wanted, `shape` is (rows, states, edges) of all rows.

    `work` is given arrays for what is wanted, by the names of `Buffers`, and may write into them; what it returns is
    copied if it is elsewhere.
    """
    rows, states, edges = shape
    out: dict[str, np.ndarray] = {
        part: np.empty((rows, states)) for part in ("forward", "backward", "marginal") if part in parts
    }
    if "likelihood" in parts:
        out["log_likelihood"] = np.empty(rows)
    if "known" in parts:
        out |= {name: np.empty((rows, edges), dtype=np.bool_) for name in ("known_forward", "known_backward")}

    def one(block: slice) -> np.ndarray | None:
        room = {name: array[block] for name, array in out.items()}
        found = work(block, room)
        for name, array in room.items():
            if getattr(found, name) is not array:
                array[...] = getattr(found, name)
        if "likelihood" in parts:
            return None
        impossible: np.ndarray = block.start + np.flatnonzero(np.isneginf(found.log_likelihood))
        return impossible

    impossible = list(in_order(threads, one, blocks))
    if "likelihood" not in parts:
        out["log_likelihood"] = _marked(rows, impossible)
    nothing = {name: np.empty((0, 0)) for name in Buffers._fields if name not in out}
    return Buffers(**out, **nothing)


def _marked(rows: int, impossible: list[np.ndarray]) -> np.ndarray:
    """Return 0 for each row, -inf for impossible ones; takes no memory while there are none."""
    found = np.concatenate([np.zeros(0, dtype=np.intp), *impossible])
    out = np.zeros(rows) if len(found) else np.broadcast_to(0.0, rows)
    if len(found):
        out[found] = -np.inf
    return out


class _Helper(Thread):
    """A thread that helps with one queue after another: waking it takes a fifth of the time of starting one.

    It is woken by a lock of its own, since an executor's queue and futures would double the time that this takes.
    """

    idle: ClassVar[list[_Helper]] = []
    started: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__(name="fgrn", daemon=True)
        self.queue: _Queue | _Aside | None = None
        self.off = -1  # the processor that it is kept off
        self.allowed: set[int] = set()  # those that it might run on
        self.called = Lock()
        self.called.acquire()

    @classmethod
    def call(cls, queue: _Queue | _Aside, most: int = MOST_HELPERS) -> None:
        """Let a thread help with a queue; nobody does if there are too many threads already."""
        try:
            helper = cls.idle.pop()
        except IndexError:
            if cls.started >= min(most, MOST_HELPERS):
                return
            cls.started += 1
            helper = cls()
            helper.start()
        helper.queue = queue
        helper.keep_off(-1 if PROCESSOR_NOW is None else PROCESSOR_NOW())
        helper.called.release()

    def keep_off(self, processor: int) -> None:
        """Let the thread run on all processors but that of its caller, if there are others.

        Some systems wake a thread where its caller runs, to save power, and move it only after milliseconds: until then
        the two take turns, and work that is shared takes as long as on one thread.
        """
        if processor < 0 or self.native_id is None:
            return
        allowed = _processors()
        if (processor, allowed) == (self.off, self.allowed):
            return
        self.off, self.allowed = processor, allowed
        with suppress(OSError):  # a system may forbid it
            os.sched_setaffinity(self.native_id, allowed - {processor} or allowed)

    def run(self) -> None:
        """Help with the queues that the thread is called to, one after the other."""
        while True:
            self.called.acquire()
            if self.queue is not None:
                self.queue.help()
            self.queue = None
            self.idle.append(self)

    @classmethod
    def forget(cls) -> None:
        """Start with none again: a forked process has none of the threads."""
        cls.idle, cls.started = [], 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Helper.forget)


class _Aside(NamedTuple):
    """A call that a helper makes, and nobody waits for."""

    work: Callable[[int], object]
    number: int

    def help(self) -> None:
        """Make the call."""
        self.work(self.number)


class _Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class _Queue:
    """Blocks still to be worked on, and a bounded number of results that wait for the caller."""

    def __init__(self, work: Callable[[Any], Any], blocks: Sequence[Any], ahead: int) -> None:
        self.work, self.blocks, self.ahead = work, blocks, ahead
        self.done: dict[int, _Outcome] = {}
        self.taken = self.handed = self.running = 0
        self.last = len(blocks)  # where to stop: the end, or the first that failed
        self.changed = Condition()

    def _take(self) -> int | None:
        """Return the next block, or None if there is none or too many results are waiting."""
        if self.taken < min(self.last, self.handed + self.ahead):
            self.taken += 1
            self.running += 1
            return self.taken - 1
        return None

    def _run(self, number: int) -> None:
        try:
            outcome = _Outcome(self.work(self.blocks[number]))
        except BaseException as error:  # also an exit: who waits for the result has to know
            outcome = _Outcome(error=error)
        with self.changed:
            self.done[number] = outcome
            self.running -= 1
            if outcome.error is not None:
                self.last = min(self.last, number)
            self.changed.notify_all()

    def help(self) -> None:
        """Work on blocks until none is left."""
        while True:
            with self.changed:
                while (number := self._take()) is None:
                    if self.taken >= self.last:
                        return
                    self.changed.wait()
            self._run(number)

    def result(self, number: int) -> Any:
        """Return the result of a block, working on others until it is there."""
        while True:
            with self.changed:
                mine = None
                while number not in self.done and (mine := self._take()) is None:
                    self.changed.wait()
                if mine is None:
                    outcome = self.done.pop(number)
                    self.handed += 1
                    self.changed.notify_all()
                    break
            self._run(mine)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def stop(self) -> None:
        """Stop: no thread takes another block, and none is still working on one."""
        with self.changed:
            self.last = 0
            self.changed.notify_all()
            while self.running:
                self.changed.wait()
