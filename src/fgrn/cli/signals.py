"""Signals that end a command: Ctrl-C (SIGINT), and SIGTERM, sent by systems and schedulers.

Outside of learning both raise exceptions, so that unfinished files are removed. During learning the first signal ends
learning after the current epoch, and the model is written; a second one raises an exception.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from .terminal import print_text

INTERRUPTED, TERMINATED = 130, 143
"""The exit status after each: 128 and the number of the signal, as shells have it."""


CHOICE_CUT_SHORT = "interrupted: not all candidates were tried, and this is the best of those that were"
"""The line below the candidates of a choice that a signal ended."""


class Terminated(BaseException):
    """The process received SIGTERM."""


class Stop:
    """Callable that returns after every epoch whether a signal requested learning to stop."""

    def __init__(self) -> None:
        self.status = 0

    def __call__(self) -> bool:
        """Return whether a signal has arrived."""
        return self.status != 0

    def end(self) -> None:
        """End the command with the exit status of the signal that stopped it, if any."""
        if self.status:
            raise click.exceptions.Exit(self.status)


@contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM into the exception `Terminated`, unless the process was started with SIGTERM ignored."""

    def end(*_: Any) -> None:
        raise Terminated

    with _handled({} if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN else {signal.SIGTERM: end}):
        yield


@contextmanager
def stoppable(step: str = "epoch") -> Iterator[Stop]:
    """Let the first Ctrl-C or SIGTERM end learning after the current step; the second one stops at once."""
    stop = Stop()

    def asked(number: int, *_: Any) -> None:
        if stop.status:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        stop.status = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        print_text(f"stopping after this {step}; once more to stop at once", err=True)

    ignored = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    with _handled({signal.SIGINT: asked} | ({} if ignored else {signal.SIGTERM: asked})):
        yield stop


@contextmanager
def _handled(handlers: dict[signal.Signals, Callable[..., None]]) -> Iterator[None]:
    """Install signal handlers for the context; not in other threads than the main one, which receive no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
