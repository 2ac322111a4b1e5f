"""Progress of reading and learning: a bar on a terminal, a line of text in a notebook."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from .exceptions import visible

StopCondition: TypeAlias = Callable[[], bool] | None
"""Called after every epoch; learning ends when it returns True."""

LIKE_A_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables of the environment by which rich may take any output for a terminal."""

NOTEBOOK_PAUSE = 0.1
"""Least seconds between two updates of a line in a notebook: each update is a message to the browser."""

LOG_PAUSE = 10.0
"""Seconds between two lines in a log."""


class ProgressReporter(Protocol):
    """Receives the progress of a long operation."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` units of `what` are done; a total of 0 is unknown."""

    def note(self, text: str) -> None:
        """Show a message."""


def in_notebook() -> bool:
    """Return whether the code runs in an IPython kernel, whose output is a page and not a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def on_terminal() -> bool:
    """Return whether stderr shows progress bars: it is a terminal, or the environment says that it is used as one."""
    if not (sys.stderr and (sys.stderr.isatty() or any(os.environ.get(name) for name in LIKE_A_TERMINAL))):
        return False
    from rich.console import Console

    return Console(stderr=True).is_terminal


class ProgressLine(Protocol):
    """Where progress is told in words instead of a bar."""

    def show(self, text: str) -> None:
        """Tell how far it is, if the last time was long enough ago."""

    def end(self) -> None:
        """End a step."""

    def note(self, text: str) -> None:
        """Show a message."""


def progress_line() -> ProgressLine | None:
    """Return where progress is told in words: in a notebook, or where stderr is no terminal; None where a bar is."""
    if in_notebook():
        return NotebookLine()
    return None if on_terminal() else LogLines()


class LogLines:
    """Lines on stderr that is no terminal, such as a log file: one every LOG_PAUSE seconds, the first after as many."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LOG_PAUSE

    def show(self, text: str) -> None:
        """See `ProgressLine`."""
        if time.monotonic() >= self._next:
            self.note(text)
            self._next = time.monotonic() + LOG_PAUSE

    def end(self) -> None:
        """See `ProgressLine`."""

    def note(self, text: str) -> None:
        """See `ProgressLine`."""
        if sys.stderr:
            print(text, file=sys.stderr, flush=True)


class NotebookLine:
    """A line of text in a notebook that is overwritten in place; the last text stays."""

    def __init__(self) -> None:
        self._text, self._longest, self._next = "", 0, 0.0

    def show(self, text: str) -> None:
        """Replace the text; it is written at once, or by `end` if the last update was less than a moment ago."""
        self._text = text
        if time.monotonic() >= self._next:
            self._write()
            self._next = time.monotonic() + NOTEBOOK_PAUSE

    def end(self) -> None:
        """Write the last text and a line break."""
        if self._text:
            self._write()
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._text, self._longest, self._next = "", 0, 0.0

    def note(self, text: str) -> None:
        """See `ProgressLine`."""
        self.end()
        print(text)

    def _write(self) -> None:
        self._longest = max(self._longest, len(self._text))
        sys.stdout.write("\r" + self._text.ljust(self._longest))
        sys.stdout.flush()


class ReadingProgress:
    """A `ProgressReporter` with a bar on stderr, or lines of text, for each step; or silent."""

    def __init__(self, verbose: int | bool) -> None:
        self._line = progress_line() if verbose else None
        self._has_bar = bool(verbose) and self._line is None
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
        """See `ProgressReporter`."""
        if self._line is not None:
            self._line.note(visible(text))
        elif self._bar is not None:
            self._bar.console.print(visible(text), soft_wrap=True, markup=False, highlight=False)
        elif self._has_bar:
            print(visible(text), file=sys.stderr)

    def __call__(self, what: str, done: int, total: int) -> None:
        """See `ProgressReporter`."""
        new, self._what = what != self._what, what
        if self._line is not None:
            if new:
                self._line.end()
            self._line.show(f"{what}: {done:,} of {total:,}" if total else f"{done:,} {what}")
            return
        if not self._has_bar:
            return
        if self._bar is None or new:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.__exit__()
            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.add_task(what, total=total or None)
            self._bar.start()
        self._bar.update(0, completed=done, description=what if total else f"{done:,} {what}")


class LearningProgress:
    """Context manager and watcher of learning: a bar on a terminal."""

    in_any_order = True  # starts may be run at the same time
    needs_every_epoch = False  # see `fgrn.flow.em.Watcher`

    def __init__(self, epochs: int, starts: int, what: str, stop: StopCondition = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeElapsedColumn(),
        ]
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=epochs * starts, score="")
        self._epochs, self._stop, self._done = epochs, stop, 0

    @staticmethod
    def of(
        verbose: int | bool, epochs: int, starts: int, what: str = "", stop: StopCondition = None
    ) -> LearningProgress | ProgressInWords | SilentProgress:
        """Return a display of the progress, or a silent one if `verbose` is false."""
        if not verbose:
            return SilentProgress(stop)
        line = progress_line()
        kind = LearningProgress if line is None else partial(ProgressInWords, line)
        return kind(epochs, starts, what or "learning", stop)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        self._done = max(self._done, start * self._epochs + epoch + 1)
        self._bar.update(self._task, completed=self._done, score=f"log-likelihood {per_row:.4f} per row")
        return self._stop is not None and self._stop()


class ProgressInWords:
    """Context manager and watcher of learning that tells of it in words."""

    in_any_order = True
    needs_every_epoch = False

    def __init__(self, line: ProgressLine, epochs: int, starts: int, what: str, stop: StopCondition = None) -> None:
        self._line, self._epochs, self._starts, self._what, self._stop = line, epochs, starts, what, stop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.end()

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        run = f"start {start + 1:,} of {self._starts:,}, " if self._starts > 1 else ""
        epochs = f"epoch {epoch + 1:,} of at most {self._epochs:,}"
        self._line.show(f"{self._what}: {run}{epochs}, log-likelihood {per_row:.4f} per row")
        return self._stop is not None and self._stop()


class SilentProgress:
    """Watcher of learning that shows nothing, and ends it where `stop` says so."""

    in_any_order = True
    needs_every_epoch = False

    def __init__(self, stop: StopCondition = None) -> None:
        self._stop = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        return self._stop is not None and self._stop()


class TimedProgress:
    """Watcher of learning that ends it when time is over, but the first start not before some epochs."""

    in_any_order = True
    needs_every_epoch = False

    def __init__(
        self, shown: LearningProgress | ProgressInWords | SilentProgress, is_late: Callable[[], bool], least: int
    ) -> None:
        self._shown, self._is_late, self._least = shown, is_late, least

    def __enter__(self) -> Self:
        self._shown.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.__exit__(kind, error, trace)

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.flow.em.Watcher`."""
        stopped = self._shown(start, epoch, per_row)
        return stopped or (self._is_late() and (start > 0 or epoch + 1 >= self._least))
