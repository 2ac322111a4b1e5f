"""Constraints of `fgrn fit`: each given as words, or all of them in a JSON file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ..core.exceptions import FgrnError
from ..core.whole_file import reason_of

FORMS = (
    "'equal q1 q2', 'equal q1:0 q1:1' (classes 0 and 1), 'fixed q1 0 yes 0.9', 'zero q1 0 yes', of a continuous column "
    "'fixed x 0 mean 2.5', 'fixed x 0 variance 1', 'equal x:0:mean x:1:mean', 'equal x:0:variance x:1:variance', or a "
    "file.json"
)

OF_CLASS = re.compile(r"(.+):(\d+)(?::(mean|variance))?")


class Written(tuple[Any, ...]):
    """A constraint that messages show as the user wrote it."""

    text: str

    @classmethod
    def of(cls, parts: Iterable[Any], text: str) -> Written:
        """Return the constraint of these parts, with its text."""
        found = cls(parts)
        found.text = text
        return found

    def __repr__(self) -> str:
        return repr(self.text)


def constraints_of(texts: tuple[str, ...]) -> list[Any]:
    """Return the constraints given by the values of --constraints."""
    found: list[Any] = []
    for text in texts:
        found += _of_file(text) if text.lower().endswith(".json") else [Written.of(_of_words(text), text)]
    return found


def _of_words(text: str) -> tuple[Any, ...]:
    """Return one constraint from words, quoted if they contain blanks."""
    try:
        kind, *words = shlex.split(text)
    except ValueError:
        raise click.UsageError(f"--constraints {text!r} is not understood; write {FORMS}.") from None
    if kind == "equal" and len(words) > 1:
        rows = [OF_CLASS.fullmatch(word) for word in words]
        if all(rows):
            return (kind, *((row[1], int(row[2]), *filter(None, [row[3]])) for row in rows if row))
        return (kind, *words)
    numbers = {"fixed": 4, "zero": 3}
    if numbers.get(kind) != len(words) or not words[1].isdecimal():
        raise click.UsageError(f"--constraints {text!r} is not understood; write {FORMS}.")
    if kind == "zero":
        return kind, words[0], int(words[1]), words[2]
    try:
        return kind, words[0], int(words[1]), words[2], float(words[3])
    except ValueError:
        raise click.UsageError(f"--constraints {text!r}: {words[3]!r} is not a number.") from None


def _of_file(place: str) -> list[Any]:
    """Return constraints from a file: a list of lists, such as ["zero", "q1", 0, "yes"]."""
    try:
        found = json.loads(Path(place).read_text(encoding="utf-8"))
    except OSError as error:
        raise FgrnError(f"{place!r} cannot be read: {reason_of(error)}.") from error
    except ValueError as error:
        raise FgrnError(f"{place!r} is not JSON: {error}.") from error
    if not isinstance(found, list) or not all(isinstance(one, list) and one for one in found):
        raise FgrnError(
            f"{place!r} is not a list of constraints.", remedies='write such as [["zero", "q1", 0, "yes"]] into it'
        )
    return found
