"""How far learning has come, on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

Stop: TypeAlias = Callable[[], bool] | None
"""Asked after every epoch whether learning is to end."""


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
