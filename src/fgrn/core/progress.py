"""How far learning has come: a bar on a terminal, a line of text in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from .exceptions import visible

Stop: TypeAlias = Callable[[], bool] | None
"""Asked after every epoch whether learning is to end."""

PAUSE = 0.1
"""Seconds between two writings of a line in a notebook: each is a message to the browser."""


class Told(Protocol):
    """Who is told how far something has come that takes long."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """What is done, how much of it is, and how much there is."""

    def note(self, text: str) -> None:
        """Something that is good to know."""


def in_notebook() -> bool:
    """Whether this is run in a kernel of IPython, whose output is a page and not a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Line:
    """A line of text in a notebook that is written over and over; the last text stays."""

    def __init__(self) -> None:
        self._text, self._longest, self._next = "", 0, 0.0

    def show(self, text: str) -> None:
        """This text from now on, on the page at the latest when the line ends."""
        self._text = text
        if time.monotonic() >= self._next:
            self._write()
            self._next = time.monotonic() + PAUSE

    def end(self) -> None:
        """The text as it is, and what comes next is below it."""
        if self._text:
            self._write()
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._text, self._longest, self._next = "", 0, 0.0

    def _write(self) -> None:
        self._longest = max(self._longest, len(self._text))
        sys.stdout.write("\r" + self._text.ljust(self._longest))
        sys.stdout.flush()


class Steps:
    """Shows how far reading has come, as `Told`: a bar on stderr or a line of a notebook for each step, or nothing."""

    def __init__(self, verbose: int | bool) -> None:
        from rich.console import Console

        self._line = Line() if verbose and in_notebook() else None
        self._console = Console(stderr=True, highlight=False) if verbose and self._line is None else None
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._line is not None:
            self._line.end()
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def note(self, text: str) -> None:
        """See `Told`."""
        if self._line is not None:
            self._line.end()
            print(visible(text))
        elif self._console is not None:
            self._console.print(visible(text), soft_wrap=True, markup=False)

    def __call__(self, what: str, done: int, total: int) -> None:
        """See `Told`."""
        from rich.progress import Progress as Bar

        new, self._what = what != self._what, what
        if self._line is not None:
            if new:
                self._line.end()
            self._line.show(f"{what}: {done:,} of {total:,}" if total else f"{done:,} {what}")
            return
        if self._console is None or not self._console.is_terminal:
            return
        if self._bar is None or new:
            self.__exit__()
            self._bar = Bar(console=self._console, transient=True)
            self._bar.add_task(what, total=total or None)
            self._bar.start()
        self._bar.update(0, completed=done, description=what if total else f"{done:,} {what}")


class Progress:
    """Watches learning and shows a bar on stderr, if that is a terminal, or a line of a notebook; a context."""

    def __init__(self, epochs: int, starts: int, what: str, stop: Stop = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeElapsedColumn(),
        ]
        self._what = what or "learning"
        self._line = Line() if in_notebook() else None
        shown = console.is_terminal and self._line is None
        self._bar = Bar(*columns, console=console, transient=True, disable=not shown)
        self._task = self._bar.add_task(self._what, total=epochs * starts, score="")
        self._epochs, self._starts, self._stop = epochs, starts, stop

    @staticmethod
    def of(verbose: int | bool, epochs: int, starts: int, what: str = "", stop: Stop = None) -> Progress | Silence:
        """A bar or a line, or nothing."""
        return Progress(epochs, starts, what, stop) if verbose else Silence(stop)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._line is not None:
            self._line.end()

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        if self._line is not None:
            run = f"start {start + 1:,} of {self._starts:,}, " if self._starts > 1 else ""
            epochs = f"epoch {epoch + 1:,} of at most {self._epochs:,}"
            self._line.show(f"{self._what}: {run}{epochs}, log-likelihood {per_row:.4f} per row")
        done = start * self._epochs + epoch + 1
        self._bar.update(self._task, completed=done, score=f"log-likelihood {per_row:.4f} a row")
        return self._stop is not None and self._stop()


class Silence:
    """Watches and says nothing."""

    def __init__(self, stop: Stop = None) -> None:
        self._stop = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        return self._stop is not None and self._stop()
