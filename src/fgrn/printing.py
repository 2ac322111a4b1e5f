"""Tables for people to read: aligned as letters are wide, and no wider than there is room."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

NARROWEST = 12
"""Cells of the terminal that a column of names has at least."""


def room() -> int | None:
    """The cells in a line of the terminal; None if the output goes elsewhere, where nothing needs to be cut."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(shutil.get_terminal_size().columns, 2 * NARROWEST)
    return None


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: int = 0, room: int | None = None
) -> str:
    """Columns for people: the first `left` of them, words, on the left, numbers on the right.

    Args:
        heads: over the columns; none if there is none.
        rows: the cells of each row.
        left: how many columns are words. They are shortened where there is not enough room.
        indent: cells before each line.
        room: cells in a line; as many as are needed unless given.
    """
    from rich.cells import cell_len

    table = [[_one_line(cell) for cell in row] for row in ([heads, *rows] if heads else rows)]
    wide = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    if room is not None:
        others = sum(wide[left:]) + 2 * (len(wide) - 1) + indent
        limit = _limit(wide[:left], room - others)
        for place in range(left):
            if wide[place] > limit:
                short = fitted([row[place] for row in table], limit)
                wide[place] = max(map(cell_len, short))
                for row, cell in zip(table, short, strict=True):
                    row[place] = cell
    if heads:
        table.insert(1, ["-" * width for width in wide])
    lines = []
    for row in table:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, wide, strict=True)]
        cells = [cell + gap if k < left else gap + cell for k, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
        lines.append((" " * indent + "  ".join(cells)).rstrip(" "))
    return "\n".join(lines)


def _limit(wide: Sequence[int], most: int) -> int:
    """The width to which columns are cut, so that all together have the room there is."""
    limit = max(wide, default=0)
    while limit > NARROWEST and sum(min(width, limit) for width in wide) > most:
        limit -= 1
    return limit


def fitted(texts: Sequence[str], room: int) -> list[str]:
    """Texts of at most so many cells: the middle is left out, or what is the same in all that would look alike."""
    whole = [_one_line(text) for text in texts]
    short = [_middle_cut(text, room) for text in whole]
    alike: dict[str, dict[str, None]] = {}
    for text, cut in zip(whole, short, strict=True):
        alike.setdefault(cut, {})[text] = None
    for place, (text, cut) in enumerate(zip(whole, list(short), strict=True)):
        others = list(alike[cut])
        if len(others) > 1:
            same = _same(others)
            short[place] = _end_cut(f"…{text[same - min(same, room // 6) :]}", room)
    return short


def _same(texts: Sequence[str]) -> int:
    """How many letters all texts begin with."""
    places = (place for place, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    return next(places, min(map(len, texts)))


def _one_line(text: str) -> str:
    """A text in one line, of letters that can be seen."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def _middle_cut(text: str, room: int) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    end = _taken(text[::-1], (room - 1) * 2 // 5)[::-1]
    return f"{_taken(text, room - 1 - cell_len(end)).rstrip()}…{end.lstrip()}"


def _end_cut(text: str, room: int) -> str:
    from rich.cells import cell_len

    return text if cell_len(text) <= room else f"{_taken(text, room - 1).rstrip()}…"


def _taken(text: str, room: int) -> str:
    """The first letters that fit."""
    from rich.cells import cell_len

    kept = min(len(text), room)
    while cell_len(text[:kept]) > room:
        kept -= 1
    return text[:kept]
