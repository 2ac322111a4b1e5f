"""Tables for people to read: aligned as letters are wide, and no wider than there is room."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence

from .exceptions import visible

NARROWEST = 12
"""Cells of the terminal that a column of names has at least."""


LONGEST_WORD = 12
"""A longer word is not kept whole where names begin alike."""


def room() -> int | None:
    """The cells in a line of the terminal; None if the output goes elsewhere, where nothing needs to be cut."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(shutil.get_terminal_size().columns, 2 * NARROWEST)
    return None


def aligned(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    indent: int = 0,
    room: int | None = None,
    bars: bool = False,
) -> str:
    """Columns for people: the first `left` of them, words, on the left, numbers on the right.

    Args:
        heads: over the columns; none if there is none.
        rows: the cells of each row.
        left: how many columns are words. They are shortened where there is not enough room.
        indent: cells before each line.
        room: cells in a line; as many as are needed unless given.
        bars: whether the last column begins on the left, too.
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
        begins = [k < left or (bars and k == len(row) - 1) for k in range(len(row))]
        cells = [c + gap if begin else gap + c for c, gap, begin in zip(row, gaps, begins, strict=True)]
        lines.append((" " * indent + "  ".join(cells)).rstrip(" "))
    return "\n".join(lines)


def _limit(wide: Sequence[int], most: int) -> int:
    """The width to which columns are cut, so that all together have the room there is."""
    limit = max(wide, default=0)
    while limit > NARROWEST and sum(min(width, limit) for width in wide) > most:
        limit -= 1
    return limit


def fitted(texts: Sequence[str], room: int) -> list[str]:
    """Texts of at most so many cells: the middle is left out, and the beginning of those that would look alike."""

    def cut(text: str) -> str:
        return _cut(text, room)

    return [cut(text) for text in told_apart([_one_line(text) for text in texts], cut)]


def equations(pairs: Sequence[tuple[str, str]], room: int | None) -> list[str]:
    """Names and values as "name = value", of at most so many cells, where both can be told from others."""
    from rich.cells import cell_len

    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    if room is not None and pairs:
        values = fitted(values, max(NARROWEST, 2 * room // 5))
        names = fitted(names, max(NARROWEST, room - 3 - max(map(cell_len, values))))
    return [f"{name} = {value}" for name, value in zip(names, values, strict=True)]


def told_apart(texts: Sequence[str], cut: Callable[[str], object]) -> list[str]:
    """The texts, but those that differ and would look alike once they are cut without what they have in common."""
    alike: dict[object, dict[str, None]] = {}
    for text in texts:
        alike.setdefault(cut(text), {})[text] = None
    out = []
    for text in texts:
        others = list(alike[cut(text)])
        same = _same(others) if len(others) > 1 else 0
        word = text.rfind(" ", 0, same) + 1
        out.append(f"…{text[word if same - word < LONGEST_WORD else same :]}" if same else text)
    return out


def _same(texts: Sequence[str]) -> int:
    """How many letters all texts begin with."""
    places = (place for place, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    return next(places, min(map(len, texts)))


def _one_line(text: str) -> str:
    """A text in one line, of letters that can be seen; spaces that follow each other are one."""
    return " ".join(visible(text).split())


def _cut(text: str, room: int) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    end = _taken(text[::-1], (room - 1) * 2 // 5)[::-1]
    return f"{_taken(text, room - 1 - cell_len(end)).rstrip()}…{end.lstrip()}"


def _taken(text: str, room: int) -> str:
    """The first letters that fit."""
    from rich.cells import cell_len

    kept = min(len(text), room)
    while cell_len(text[:kept]) > room:
        kept -= 1
    return text[:kept]
