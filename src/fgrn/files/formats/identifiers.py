"""Names for a format that has only identifiers, and a note beside them of what they stand for.

Where a name or a label is no identifier, the file has one like it, and the note says what was meant: a text in JSON,
{"x0_4": "0-4"}. Whoever renames the identifier in another program makes the note void, and keeps the new name.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


def is_identifier(text: str) -> bool:
    """Whether a text is letters, digits and underscores, and begins with a letter."""
    return bool(_IDENTIFIER.fullmatch(text))


def identifiers(texts: Iterable[str]) -> dict[str, str]:
    """An identifier for each text, different for each: itself where it is one, or else one like it."""
    found = {text: text if is_identifier(text) else "" for text in texts}
    taken = set(found.values())
    numbers: dict[str, int] = {}
    for text, known in found.items():
        if known:
            continue
        stem = identifier = _like(text)
        while identifier in taken:
            numbers[stem] = numbers.get(stem, 1) + 1
            identifier = f"{stem}_{numbers[stem]}"
        taken.add(identifier)
        found[text] = identifier
    return found


def _like(text: str) -> str:
    """An identifier as like a text as can be: letters without their accents, and an underscore for all else."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    stem = _OTHERS.sub("_", letters).strip("_")
    return stem if is_identifier(stem) else f"x{stem}"


def note(meant: Mapping[str, str]) -> str:
    """What the identifiers of some texts stand for, as one line; nothing where all stand for themselves."""
    others = {identifier: text for text, identifier in meant.items() if identifier != text}
    return json.dumps(others) if others else ""


def noted(text: str) -> dict[str, str] | None:
    """What a note says; None if the text is no note."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        return None
    return found
