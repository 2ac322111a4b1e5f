"""Identifiers for names, for formats that accept only identifiers, and a note that maps them back to the names.

If a name or a label is not an identifier, the file has a similar identifier, and a note in JSON gives the original:
{"x0_4": "0-4"}. If the identifier is renamed in another program, the note no longer applies and the new name is kept.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


def is_identifier(text: str) -> bool:
    """Return whether a text consists of letters, digits and underscores, and begins with a letter."""
    return bool(_IDENTIFIER.fullmatch(text))


def identifiers(texts: Iterable[str]) -> dict[str, str]:
    """Return a distinct identifier for each text: the text itself if it is one, else a similar one."""
    found = {text: text if is_identifier(text) else "" for text in texts}
    taken = set(found.values())
    numbers: dict[str, int] = {}
    for text, known in found.items():
        if known:
            continue
        stem = identifier = _similar_identifier(text)
        while identifier in taken:
            numbers[stem] = numbers.get(stem, 1) + 1
            identifier = f"{stem}_{numbers[stem]}"
        taken.add(identifier)
        found[text] = identifier
    return found


def _similar_identifier(text: str) -> str:
    """Return an identifier similar to a text: letters without accents, underscores for all else."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    stem = _OTHERS.sub("_", letters).strip("_")
    return stem if is_identifier(stem) else f"x{stem}"


def note_of(meant: Mapping[str, str]) -> str:
    """Return the note that maps identifiers back to the texts; empty if all texts are identifiers."""
    others = {identifier: text for text, identifier in meant.items() if identifier != text}
    return json.dumps(others) if others else ""


def read_note(text: str) -> dict[str, str] | None:
    """Return the mapping in a note; None if the text is not a note."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        return None
    return found
