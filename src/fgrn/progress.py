"""How far learning has come, on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from .exceptions import visible

Stop: TypeAlias = Callable[[], bool] | None
"""Asked after every epoch whether learning is to end."""


class Told(Protocol):
    """Who is told how far something has come that takes long."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """What is done, how much of it is, and how much there is."""

    def note(self, text: str) -> None:
        """Something that is good to know."""


class Steps:
    """Shows how far reading has come, as `Told`: a bar on stderr for each thing that is done; or nothing."""

    def __init__(self, verbose: int | bool) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False) if verbose else None
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def note(self, text: str) -> None:
        """See `Told`."""
        if self._console is not None:
            self._console.print(visible(text), soft_wrap=True, markup=False)

    def __call__(self, what: str, done: int, total: int) -> None:
        """See `Told`."""
        from rich.progress import Progress as Bar

        if self._console is None or not self._console.is_terminal:
            return
        if self._bar is None or what != self._what:
            self.__exit__()
            self._bar, self._what = Bar(console=self._console, transient=True), what
            self._bar.add_task(what, total=total or None)
            self._bar.start()
        self._bar.update(0, completed=done, description=what if total else f"{done:,} {what}")


class Progress:
    """Watches learning and shows a bar on stderr, if that is a terminal; as a context, it clears up after itself."""

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
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(what or "learning", total=epochs * starts, score="")
        self._epochs, self._stop = epochs, stop

    @staticmethod
    def of(verbose: int | bool, epochs: int, starts: int, what: str = "", stop: Stop = None) -> Progress | Silence:
        """A bar, or nothing."""
        return Progress(epochs, starts, what, stop) if verbose else Silence(stop)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, start: int, epoch: int, per_row: float) -> bool:
        """See `fgrn.em.Watcher`."""
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
        """See `fgrn.em.Watcher`."""
        return self._stop is not None and self._stop()
