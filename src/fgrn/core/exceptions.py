"""The errors and warnings of the package, as one class hierarchy, and helpers that word their messages.

    FgrnError
    ├── WiringError            blocks that cannot be joined to a network
    ├── TableError             a table or prior that is not a distribution, or of the wrong shape
    ├── UnknownNameError       a variable, table or state the network does not have
    ├── EvidenceError          a value that cannot be evidence
    │   └── ImpossibleEvidence    values that are fine alone and have probability zero together
    ├── SchemaError            a column that cannot be read as levels or bins
    ├── LearningError          learning with settings, data or a model that do not allow it
    ├── TableFileError         a file with a table that cannot be read or written
    ├── NetworkFileError       a network in a format of other programs that cannot be read or written
    ├── ModelFileError         a model file that cannot be read or written
    └── CheckpointError        a checkpoint of learning that cannot be read or written

    FgrnWarning
    ├── ConvergenceWarning     learning or message passing that did not converge within its epochs or rounds
    ├── InterruptedWarning     a fit that was interrupted and kept the best model so far
    ├── TableWarning           words taken as missing values, a row taken as names, a probable identifier
    ├── UnseenLevelWarning     a value or a column that did not occur in the training data
    ├── EmptyColumnWarning     a column in which every value is missing
    ├── ManyLevelsWarning      a column with too many levels, whose rarest levels are combined into one
    ├── LongNumbersWarning     a column of whole numbers that are too long to be told apart in bins
    ├── ImpossibleRowWarning   rows of probability zero, answered as without any evidence
    ├── RescaledTableWarning   a table in a file whose rows do not sum to one, and were divided by their sum
    ├── CheckpointWarning      a checkpoint that could not be written; learning continued
    └── KernelCacheWarning     compiled kernels that could not be saved to disk for the next process

Messages say what is wrong, where, why and what to do. All errors except `UnknownNameError` (a `KeyError`) and those of
files (an `OSError`) are also `ValueError`, so that code without knowledge of fgrn can catch them.

Every error and warning has its parts as attributes (`row`, `column`, `value`, `setting`, `remedies`, ...; see
`Report`); `str` joins them. Programs should read the attributes: the wording may change in any version.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, Self

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


class Wording:
    """How settings are written in a message: here as in Python, `name=value`; the command line has a subclass."""

    def subject(self, name: str) -> str:
        """Return the name of a setting as the subject of a sentence."""
        return f"The {name!r}"

    def settings(self, remedy: Remedy) -> str | None:
        """Return the settings of a remedy as text; "" for none, None if this interface cannot set them."""
        if remedy.python is not None:
            return remedy.python
        return ", ".join(f"{name}={'...' if value is ... else repr(value)}" for name, value in remedy.settings.items())


PYTHON = Wording()


class Remedy:
    """One thing to do about an error or a warning: an instruction, and the settings that carry it out.

    `Remedy("divide each row by its sum", rescale=True)` reads "divide each row by its sum with rescale=True"; where the
    instruction has `{}`, the settings stand there instead.

    Attributes:
        text: the instruction, which begins with a small letter and has no full stop.
        settings: the parameters to set and their values; `...` stands for a value that the caller chooses.
        python: what to write in Python, if that is not `name=value`.
    """

    def __init__(self, text: str, python: str | None = None, **settings: Any) -> None:
        self.text, self.python, self.settings = text, python, settings

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remedy) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # settings may be lists

    def __repr__(self) -> str:
        return f"Remedy({self.text!r}, {self.settings})"

    def worded(self, wording: Wording = PYTHON) -> str | None:
        """Return the instruction with its settings; None if the interface of this wording cannot set them."""
        settings = wording.settings(self)
        if settings is None or "{}" in self.text:
            return None if settings is None else self.text.replace("{}", settings)
        word = " " if settings.startswith("without ") else " with "
        return f"{self.text}{word}{settings}" if settings else self.text


class Report:
    """The parts of an error or warning; `str` joins them to one text: the place, the problem, and the remedies.

    Args:
        message: what is wrong and why, in whole sentences, without the place and the remedies.
        file: the table or file that it is about, as messages call it.
        row: the row of the table, counted from 0.
        rows: the same, if there are several.
        line: the line of the file, counted from 1.
        column: the name of the column or variable.
        value: what was found there, or what was given for `setting`.
        setting: the parameter that has a wrong value; the message goes on from it.
        remedies: what to do, each a `Remedy`, or a text if no setting is part of it. One of them is enough.
        others: further problems that were found with this one, and need remedies of their own.

    Attributes:
        message: see above, as the others.
        row: the first of `rows`, or None.
    """

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        row: int | None = None,
        rows: Iterable[int] = (),
        line: int | None = None,
        column: str | None = None,
        value: Any = None,
        setting: str | None = None,
        remedies: Iterable[Remedy | str] | Remedy | str = (),
        others: Iterable[Report] = (),
    ) -> None:
        self.others = tuple(others)
        self.message, self.file, self.line = message, file, line
        self.rows = tuple(map(int, rows)) if row is None else (int(row),)
        self.column, self.value, self.setting = column, value, setting
        given = (remedies,) if isinstance(remedies, (Remedy, str)) else remedies
        self.remedies = tuple(one for one in given if one)
        super().__init__(self.worded())  # type: ignore[call-arg]  # the exception that it is mixed with

    @property
    def row(self) -> int | None:
        """The first row concerned, counted from 0; None if no row is."""
        return self.rows[0] if self.rows else None

    @property
    def parts(self) -> dict[str, Any]:
        """The arguments of the constructor that make an equal report."""
        names = ("message", "file", "rows", "line", "column", "value", "setting", "remedies", "others")
        return {name: getattr(self, name) for name in names}

    def changed(self, **parts: Any) -> Self:
        """Return the same report with some parts changed, such as the name of the file."""
        return type(self)(**{**self.parts, **parts})

    def shifted(self, first: int) -> Self:
        """Return the same report with `first` added to all row numbers."""
        return self.changed(rows=[row + first for row in self.rows], others=[one.shifted(first) for one in self.others])

    @property
    def place(self) -> str:
        """The place of the problem as text: file, row, line and column, as far as they are known."""
        found = [] if self.file is None else [self.file]
        if len(self.rows) > 1:
            found.append(f"rows {shortened(self.rows)}")
        elif self.rows:
            found.append(f"row {self.rows[0]:,}")
        found += [] if self.line is None else [f"line {self.line}"]
        if self.column is not None:
            found.append(f"{self.column!r}" if self.rows and self.file is None else f"column {self.column!r}")
        text = ", ".join(found)
        return text if self.file is not None else text[:1].upper() + text[1:]

    def worded(self, wording: Wording = PYTHON) -> str:
        """Return the whole text, with settings as this wording writes them."""
        place = f"{self.place}: " if self.place else ""
        message = self.message if self.setting is None else f"{wording.subject(self.setting)} {self.message}"
        found = [one if isinstance(one, str) else one.worded(wording) for one in self.remedies]
        text = f"{place}{message} {_sentences([one for one in found if one])}".strip()
        return " ".join([text, *(one.worded(wording) for one in self.others)])

    def __str__(self) -> str:
        return visible(self.worded())

    def __reduce__(self) -> tuple[Any, ...]:
        plain = isinstance(self.value, (str, bytes, int, float, NoneType))
        return _report_of, (type(self), {**self.parts, "value": self.value if plain else repr(self.value)})


def _sentences(remedies: Sequence[str]) -> str:
    """Return the remedies as one sentence, "Rename it, or leave it out."; questions come before it."""
    asked = [one for one in remedies if one.endswith("?")]
    others = [one for one in remedies if one not in asked]
    *first, last = others or [""]
    text = f"{', '.join(first)}, or {last}" if first else last
    ends = [*asked, text if text.endswith(".") or not text else f"{text}."]
    return " ".join(one[0].upper() + one[1:] for one in ends if one)


def _report_of(kind: type[Report], parts: dict[str, Any]) -> Report:
    """Return an error or warning that was pickled in another process."""
    return kind(**parts)


class FgrnError(Report, Exception):
    """The base class of all errors of this package; invisible characters in its text are escaped."""


class WiringError(FgrnError, ValueError):
    """Blocks that cannot be joined to a network."""


class TableError(FgrnError, ValueError):
    """A table or prior that is not a distribution, or of the wrong shape."""


class UnknownNameError(FgrnError, KeyError):
    """A variable, table or state the network does not have; `value` is its name."""


class EvidenceError(FgrnError, ValueError):
    """A value that cannot be evidence."""


class ImpossibleEvidence(EvidenceError):
    """Evidence of probability zero; `rows` holds the positions of the rows."""


class SchemaError(FgrnError, ValueError):
    """A column that cannot be read as levels or bins."""


class LearningError(FgrnError, ValueError):
    """Learning with settings, data or a model that do not allow it."""


class TableFileError(FgrnError, OSError):
    """A file with a table that cannot be read or written."""


class NetworkFileError(FgrnError, OSError):
    """A network file of another program that cannot be read or written; `line` is its line, None for the whole file."""


class ModelFileError(FgrnError, OSError):
    """A model file that cannot be read or written."""


class CheckpointError(FgrnError, OSError):
    """A checkpoint of learning that cannot be read or written."""


class FgrnWarning(Report, UserWarning):
    """The base class of all warnings of this package; invisible characters in its text are escaped."""


class ConvergenceWarning(FgrnWarning):
    """Learning or message passing that reached its limit of epochs or rounds before it converged."""


class InterruptedWarning(FgrnWarning):
    """A fit that was interrupted and kept the best model so far; a remedy says how to continue it."""


class TableWarning(FgrnWarning):
    """A table that is probably not meant so: words taken as missing values, a row as column names, an identifier."""


class UnseenLevelWarning(FgrnWarning):
    """A value or a column that did not occur in the data the model was learnt from."""


class EmptyColumnWarning(FgrnWarning):
    """A column in which every value is missing, so that nothing is learnt about it."""


class ManyLevelsWarning(FgrnWarning):
    """A column with more levels than allowed, whose rarest levels are combined into one."""


class LongNumbersWarning(FgrnWarning):
    """A column of whole numbers that are too long to be told apart in bins."""


class ImpossibleRowWarning(FgrnWarning):
    """Rows of probability zero, for which the answer is the one without any evidence."""


class RescaledTableWarning(FgrnWarning):
    """A table in a file whose rows do not sum to one, and were divided by their sum."""


class CheckpointWarning(FgrnWarning):
    """A checkpoint that could not be written; learning continued without it."""


class KernelCacheWarning(FgrnWarning):
    """Compiled kernels that could not be saved to disk for the next process."""


def warn(message: str | FgrnWarning, kind: type[FgrnWarning], **parts: Any) -> None:
    """Issue a warning that points to the line of the user's code that called this package.

    Args:
        message: the warning, or what it says.
        kind: of the warning.
        **parts: more of what `Report` takes, such as `column` and `remedies`.
    """
    depth, frame, between = 1, sys._getframe(1), ("fgrn", "sklearn", "numba")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in between:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(kind(message, **parts) if isinstance(message, str) else message, stacklevel=depth + 1)


def shortened(items: Iterable[object], most: int = 8) -> str:
    """Return the first `most` items as a comma-separated list, with the number of items left out."""
    items = items if isinstance(items, Sequence) else list(items)
    shown = ", ".join(str(item) for item in items[:most])
    return shown if len(items) <= most else f"{shown}, ... ({len(items) - most:,} more)"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 row", "2 rows"; `many` is the plural if it does not end in s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def first_line(error: Exception) -> str:
    """Return the first line of the message of an error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


NEAR = 0.65
"""The least similarity, from 0 to 1, of a name that is suggested; three common letters of four and six are too few."""


def near_names(name: object, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are similar to an unknown one, the most similar first."""
    lower: dict[str, list[str]] = {}
    for item in known:
        lower.setdefault(item.lower(), []).append(item)
    near = get_close_matches(str(name).lower(), lower, n=3, cutoff=NEAR)
    return [item for match in near for item in lower[match]][:3]


def did_you_mean(names: Iterable[str]) -> str:
    """Return the question "Did you mean 'a' or 'b'?" for some names."""
    return f"Did you mean {' or '.join(map(repr, names))}?"


def did_you_mean_instead(meant: Mapping[str, str]) -> str:
    """Return the question "Did you mean 'a' instead of 'A1', or 'b' instead of 'B1'?"; "" for none.

    Args:
        meant: the names that are there, and those that may be meant.
    """
    pairs = [f"{name!r} instead of {typed!r}" for typed, name in meant.items()]
    return f"Did you mean {', or '.join(pairs)}?" if pairs else ""


def nearest(name: object, known: Iterable[object]) -> str:
    """Return a sentence with the known names most similar to an unknown one or, if none is similar, all known names."""
    names = known if isinstance(known, range) else [str(item) for item in known]
    near = [] if isinstance(names, range) else near_names(name, names)
    if near:
        return did_you_mean(near)
    return f"Known: {shortened(names)}." if len(names) else "There is none at all."


def unknown_name(kind: str, name: object, known: Iterable[object]) -> UnknownNameError:
    """Return the error for an unknown name, which suggests similar known names."""
    return UnknownNameError(f"There is no {kind} {name!r} here. {nearest(name, known)}", value=name)
