"""Random starts side by side: each asks for counts under its parameters, and threads answer several in one call.

A start is a generator. What it computes depends on its own answers alone, so that it ends with the same bits whichever
other starts run beside it, and on however many threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from threading import Condition
from typing import Generic, TypeVar

from ..engines import in_order

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Begun = tuple[Generator[Question, Answer], Question | None]
"""A start and what it has asked; None if it was not begun yet."""


class StartQueue(Generic[Question, Answer]):
    """Starts that have not ended, taken in turns by threads.

    A thread takes its share of them, answers their questions in one call of the function `answered`, lets each go on
    until its next question, and returns them. While one thread is in that call, which releases the interpreter's lock,
    others go on with their starts. At most `together` starts are answered in one call, and no more are begun at a time
    than all threads need: with 1 and one thread they run one after the other.
    """

    def __init__(
        self,
        starts: Iterable[Generator[Question, Answer]],
        answered: Callable[[Sequence[Question]], Sequence[Answer]],
        together: int = 1,
        threads: int = 1,
    ) -> None:
        self._answered, self._together, self._threads = answered, together, threads
        self._waiting = deque(starts)
        self._ready: deque[Begun[Question, Answer]] = deque()
        self._running = 0
        self._failed = False
        self._changed = Condition()

    def run(self) -> None:
        """Run all starts to their end; an error of one ends the others."""
        for _ in in_order(self._threads, self._work, range(self._threads)):
            pass

    def _work(self, _: int) -> None:
        """Take starts in turns, on one thread, until all have ended."""
        returned: list[Begun[Question, Answer]] = []
        ended = 0
        try:
            while taken := self._exchanged(returned, ended):
                returned = self._advanced(taken)
                ended = len(taken) - len(returned)
        except BaseException:
            with self._changed:
                self._failed = True
                self._changed.notify_all()
            raise

    def _exchanged(self, returned: Sequence[Begun[Question, Answer]], ended: int) -> list[Begun[Question, Answer]]:
        """Return a thread's starts to the queue and take its share of those there; waits for some if others have them.

        None are left if all have ended, or one has failed.
        """
        with self._changed:
            self._ready.extend(returned)
            self._running -= ended
            while self._waiting and self._running < max(self._together, self._threads):
                self._ready.append((self._waiting.popleft(), None))
                self._running += 1
            self._changed.notify_all()
            while self._running and not self._ready and not self._failed:
                self._changed.wait()
            if self._failed:
                return []
            share = min(self._together, -(-self._running // self._threads), len(self._ready))
            return [self._ready.popleft() for _ in range(share)]

    def _advanced(self, taken: Sequence[Begun[Question, Answer]]) -> list[Begun[Question, Answer]]:
        """Answer the questions of some starts, and return those that ask again; a start that is new asks its first."""
        asking = []
        for start, question in taken:
            try:
                asking.append((start, next(start) if question is None else question))
            except StopIteration:  # it had ended before
                continue
        again: list[Begun[Question, Answer]] = []
        if asking:
            answers = self._answered([question for _, question in asking])
            for (start, _), answer in zip(asking, answers, strict=True):
                try:
                    again.append((start, start.send(answer)))
                except StopIteration:
                    continue
        return again
