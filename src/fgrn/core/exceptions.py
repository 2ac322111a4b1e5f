"""Everything that can go wrong, in one tree.

    FgrnError
    ├── WiringError            blocks that cannot be joined to a network
    ├── TableError             a table or prior that is not a distribution, or of the wrong shape
    ├── UnknownNameError       a variable, table or state the network does not have
    ├── EvidenceError          a value that cannot be evidence
    │   └── ImpossibleEvidence    values that are fine alone and have probability zero together
    ├── SchemaError            a column that cannot be read as levels or bins
    ├── LearningError          learning that was asked for in a way that cannot be done
    ├── TableFileError         a file with a table that cannot be read or written
    ├── NetworkFileError       a network in a format of other programs that cannot be read or written
    ├── ModelFileError         a model file that cannot be read or written
    └── CheckpointError        a checkpoint of learning that cannot be read or written

    FgrnWarning
    ├── ConvergenceWarning     messages, or tables, that were still moving when the rounds, or epochs, were used up
    ├── InterruptedWarning     a fit that was interrupted, and keeps the best model so far
    ├── TableWarning           a table that may not be what it seems: words for missing values, names that are values
    ├── UnseenLevelWarning     a value, or a column, that was not there when the model was learnt
    ├── EmptyColumnWarning     a column without any known value, of which nothing is learnt
    ├── ImpossibleRowWarning   rows of probability zero, answered as if nothing were known of them
    ├── RescaledTableWarning   a table in a file whose rows do not sum to one, and were divided by their sum
    ├── CheckpointWarning      a checkpoint that could not be written while learning went on
    └── KernelCacheWarning     compiled kernels that could not be kept on disk for the next process

Messages say what, where, why and what to do. All errors but `UnknownNameError` (a `KeyError`) and those of files (an
`OSError`) are also `ValueError`, so code that knows nothing of fgrn can catch them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that are invisible or control a terminal."""

JOINERS = "\u200c\u200d"
"""Characters without a shape of their own that are part of words in Persian, Hindi and others: between letters."""


def visible(text: str, lines: bool = False) -> str:
    """Return a text with control characters and invisible ones escaped, as `repr` writes them.

    Names and values come from files of others, and a terminal would obey an escape sequence in them. Letters of all
    languages stay as they are, and so do the joiners between them.

    Args:
        text: what people are going to read.
        lines: whether the text has lines of its own, whose ends stay.
    """
    if text.isprintable():
        return text

    def escaped(found: re.Match[str]) -> str:
        letter = found[0]
        if unicodedata.category(letter) not in HIDDEN or (lines and letter == "\n"):
            return letter
        if letter in JOINERS and _is_letter(text, found.start() - 1) and _is_letter(text, found.end()):
            return letter
        return repr(letter)[1:-1]

    return re.sub(r"[^ -~]", escaped, text)


def _is_letter(text: str, place: int) -> bool:
    """Return whether the character at a position of a text is a letter or a combining mark."""
    return 0 <= place < len(text) and unicodedata.category(text[place])[0] in "LM"


class FgrnError(Exception):
    """The root of every error of this package. Its text has no character that cannot be seen."""

    def __str__(self) -> str:
        return visible(super().__str__())


class WiringError(FgrnError, ValueError):
    """Blocks that cannot be joined to a network."""


class TableError(FgrnError, ValueError):
    """A table or prior that is not a distribution, or of the wrong shape."""


class UnknownNameError(FgrnError, KeyError):
    """A variable, table or state the network does not have."""

    def __str__(self) -> str:  # KeyError would show the repr, with quotes inside quotes
        return visible(str(self.args[0])) if self.args else ""


class EvidenceError(FgrnError, ValueError):
    """A value that cannot be evidence."""


class ImpossibleEvidence(EvidenceError):
    """Evidence of probability zero; `rows` holds the positions of the rows."""

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(rows)

    def __reduce__(self) -> tuple[type[ImpossibleEvidence], tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.rows)


class SchemaError(FgrnError, ValueError):
    """A column that cannot be read as levels or bins."""


class LearningError(FgrnError, ValueError):
    """Learning that was asked for in a way that cannot be done."""


class TableFileError(FgrnError, OSError):
    """A file with a table that cannot be read or written."""


class NetworkFileError(FgrnError, OSError):
    """A network in a format of other programs that cannot be read or written; `line` is where, None for all of it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line

    def __reduce__(self) -> tuple[type[NetworkFileError], tuple[str, int | None]]:
        return type(self), (str(self), self.line)


class ModelFileError(FgrnError, OSError):
    """A model file that cannot be read or written."""


class CheckpointError(FgrnError, OSError):
    """A checkpoint of learning that cannot be read or written."""


class FgrnWarning(UserWarning):
    """The root of every warning of this package. Its text has no character that cannot be seen."""

    def __str__(self) -> str:
        return visible(super().__str__())


class ConvergenceWarning(FgrnWarning):
    """Messages or tables that were still changing when the rounds or epochs were used up."""


class InterruptedWarning(FgrnWarning):
    """A fit that was interrupted, and keeps the best model so far.

    Attributes:
        told: what happened.
        remedy: what to do in Python.
        checkpoint: the path of the checkpoint to go on from; None without one.
    """

    def __init__(self, told: str, remedy: str, checkpoint: str | None) -> None:
        super().__init__(f"{told} {remedy}")
        self.told, self.remedy, self.checkpoint = told, remedy, checkpoint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.told, self.remedy, self.checkpoint)


class TableWarning(FgrnWarning):
    """A table that may not be what it seems: words that stand for missing values, a line of names that is a row."""


class UnseenLevelWarning(FgrnWarning):
    """A value, or a column, that was not there when the model was learnt."""


class EmptyColumnWarning(FgrnWarning):
    """A column without any known value, of which nothing is learnt."""


class ImpossibleRowWarning(FgrnWarning):
    """Rows of probability zero, answered as if nothing were known of them."""


class RescaledTableWarning(FgrnWarning):
    """A table in a file whose rows do not sum to one, and were divided by their sum."""


class CheckpointWarning(FgrnWarning):
    """A checkpoint that could not be written while learning went on."""


class KernelCacheWarning(FgrnWarning):
    """Compiled kernels that could not be kept on disk for the next process."""


def warn(message: str | FgrnWarning, kind: type[FgrnWarning]) -> None:
    """Give a warning that points to the line that called this package, through however many of its functions."""
    depth, frame, between = 1, sys._getframe(1), ("fgrn", "sklearn", "numba")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in between:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=depth + 1)


def shortened(items: Iterable[object], most: int = 8) -> str:
    """Return the first `most` items as a comma-separated list, with the number of the others."""
    items = items if isinstance(items, Sequence) else list(items)
    shown = ", ".join(str(item) for item in items[:most])
    return shown if len(items) <= most else f"{shown}, ... ({len(items) - most:,} more)"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 row", "2 rows"; `many` is the plural if it does not end in s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def first_line(error: Exception) -> str:
    """Return the first line of the message of an error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def unknown_name(kind: str, name: object, known: Iterable[object]) -> UnknownNameError:
    """The error for a name that is not there, with the nearest ones that are."""
    names = known if isinstance(known, range) else [str(item) for item in known]
    lower: dict[str, list[str]] = {}
    for item in names if not isinstance(names, range) else ():
        lower.setdefault(item.lower(), []).append(item)
    near = [item for match in get_close_matches(str(name).lower(), lower, n=3) for item in lower[match]][:3]
    hint = f"Did you mean {' or '.join(repr(n) for n in near)}?" if near else f"Known: {shortened(names)}."
    hint = hint if len(names) else "There is none at all."
    return UnknownNameError(f"There is no {kind} {name!r} here. {hint}")
