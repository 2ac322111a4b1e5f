"""Text tables for terminals: columns aligned by the display width of characters, cut to the width of the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

from .exceptions import shortened, visible

NARROWEST_COLUMN = 12
"""Smallest width of a column of names, in terminal cells."""

WIDEST_COLUMN = 100
"""Largest width of a column of names, in cells, where the output is not a terminal."""

NEGLIGIBLE, SMALLEST_DECIMAL, LARGEST_DECIMAL = 1e-9, 0.5e-4, 1e7
"""A share of a standard error that is rounding; the smallest and the largest number that four decimals show well."""

LONGEST_WORD = 12
"""When a common prefix is dropped, the word it ends in is kept whole up to this length."""


def terminal_width() -> int | None:
    """Return the width of the terminal in cells, or None if the output is not a terminal and lines may be long."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(shutil.get_terminal_size().columns, 2 * NARROWEST_COLUMN)
    return None


def wrapped(text: str) -> str:
    """Return a sentence in lines that fit the terminal, from the second on indented; as it is if there is none."""
    width = terminal_width()
    return text if width is None else textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def room_beside(texts: Sequence[str], more: int) -> int:
    """Return the cells of a line that are left beside the longest of some texts and `more` cells."""
    from rich.cells import cell_len

    width = terminal_width() or 2 * WIDEST_COLUMN
    return min(WIDEST_COLUMN, max(2 * NARROWEST_COLUMN, width - more - max(map(cell_len, texts), default=0)))


def text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    indent: int = 0,
    room: int | None = None,
    bars: bool = False,
) -> str:
    """Return a text table: the first `left` columns aligned to the left, the others, numbers, to the right.

    Args:
        heads: headings of the columns; empty for none.
        rows: the texts of each row.
        left: number of columns with words, which are shortened if the table is too wide.
        indent: spaces before each line.
        room: the most cells in a line; None if only columns with words have a limit, `WIDEST_COLUMN`.
        bars: whether the last column is aligned to the left, too.
    """
    from rich.cells import cell_len

    table = [[_one_line(cell) for cell in row] for row in ([heads, *rows] if heads else rows)]
    wide = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    others = sum(wide[left:]) + 2 * (len(wide) - 1) + indent
    limit = WIDEST_COLUMN if room is None else _limit(wide[:left], room - others)
    for place in range(min(left, len(wide))):
        if wide[place] > limit:
            short = shortened_to_cells([row[place] for row in table], limit)
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


def html_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return an HTML table, as notebooks show it, with notes below it."""
    from html import escape

    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    below = "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>{below}"


def decimals(value: float, error: float = 0.0) -> str:
    """Return a number with four decimals; with significant digits if it is too small or too large for them.

    Args:
        value: the number.
        error: its standard error; what is nothing beside it is rounding, and shown as 0.
    """
    if abs(value) <= NEGLIGIBLE * error:
        value = 0.0
    return f"{value:.4f}" if value == 0 or SMALLEST_DECIMAL <= abs(value) < LARGEST_DECIMAL else f"{value:.6g}"


def memory_size(count: float) -> str:
    """Return a number of bytes with the unit that suits it: "512 bytes", "3.2 MiB", "1,024.0 GiB"."""
    if count < 2**10:
        return f"{count:.0f} bytes"
    unit, name = next((unit, name) for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if count >= unit)
    return f"{count / unit:,.1f} {name}"


def bar(share: float, width: int = 10) -> str:
    """Return a bar as long as a share of `width` cells; only that of zero is empty."""
    try:
        block = "█"
        block.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        block = "#"
    return block * round(share * width) or ("|" if share > 0 else "")


def _limit(wide: Sequence[int], most: int) -> int:
    """Return the largest width of each column such that all columns together have at most `most` cells."""
    limit = max(wide, default=0)
    while limit > NARROWEST_COLUMN and sum(min(width, limit) for width in wide) > most:
        limit -= 1
    return limit


def shortened_to_cells(texts: Sequence[str], room: int) -> list[str]:
    """Return texts cut in the middle to at most `room` cells, so that different texts stay different."""

    def cut(text: str) -> str:
        return _cut_middle(text, room)

    lines = [_one_line(text) for text in texts]
    while len({*map(cut, apart := without_common_prefix(lines, cut))}) > len({*map(cut, lines)}):
        lines = apart
    return [cut(line) for line in lines]


def equations(pairs: Sequence[tuple[str, str]], room: int | None, others: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return the pairs as "name = value", each of at most `room` cells, cut so that different ones stay different.

    Args:
        pairs: names and values.
        room: the most cells; None for `WIDEST_COLUMN`.
        others: pairs that are not shown, from which the shown ones stay different, too.
    """
    from rich.cells import cell_len

    room = WIDEST_COLUMN if room is None else room
    names, values = ([_one_line(pair[part]) for pair in (*pairs, *others)] for part in (0, 1))
    if any(cell_len(f"{name} = {value}") > room for name, value in zip(names, values, strict=True)):
        values = shortened_to_cells(values, max(NARROWEST_COLUMN, 2 * room // 5))
        names = shortened_to_cells(names, max(NARROWEST_COLUMN, room - 3 - max(map(cell_len, values))))
    return [f"{name} = {value}" for name, value in zip(names, values, strict=True)][: len(pairs)]


def listed(items: Sequence[object], most: int = 5, room: int = 48) -> str:
    """Return as many items as fit into `room` cells, `most` of them at most, and the number of those left out.

    If not even one of them fits, as many as can be told apart are shortened.
    """
    from rich.cells import cell_len

    texts = [_one_line(str(item)) for item in items]
    ways = (shortened(texts, count) for count in range(most, 0, -1))
    whole = next((text for text in ways if cell_len(text) <= room), None)
    if whole is not None:
        return whole
    one = NARROWEST_COLUMN + len(", ")
    if len(texts) > min(most, room // one):
        room -= len(shortened(texts, 0))
    shown = max(1, min(most, len(texts), room // one))
    return shortened(shortened_to_cells(texts, room // shown - len(", ")), shown)


def without_common_prefix(texts: Sequence[str], cut: Callable[[str], object]) -> list[str]:
    """Return the texts, dropping the common prefix of different texts that `cut` would make equal."""
    alike: dict[object, dict[str, None]] = {}
    for text in texts:
        alike.setdefault(cut(text), {})[text] = None
    common = {short: _common_prefix_length(list(same)) if len(same) > 1 else 0 for short, same in alike.items()}
    out = []
    for text in texts:
        same = common[cut(text)]
        word = text.rfind(" ", 0, same) + 1
        out.append(f"…{text[word if same - word < LONGEST_WORD else same :]}" if same else text)
    return out


def _common_prefix_length(texts: Sequence[str]) -> int:
    """Return the number of characters that all texts begin with."""
    places = (place for place, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    return next(places, min(map(len, texts)))


def _one_line(text: str) -> str:
    """Return a text as one line: runs of white space become one space, invisible characters are escaped."""
    return " ".join(visible(text).split())


def _cut_middle(text: str, room: int) -> str:
    """Return a text of at most `room` cells, with an ellipsis in place of its middle if it is longer."""
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    end = _prefix_of_width(text[::-1], (room - 1) * 2 // 5)[::-1]
    return f"{_prefix_of_width(text, room - 1 - cell_len(end)).rstrip()}…{end.lstrip()}"


def _prefix_of_width(text: str, room: int) -> str:
    """Return the longest prefix of a text that has at most `room` cells."""
    from rich.cells import cell_len

    kept = max(0, min(len(text), room))
    while kept and cell_len(text[:kept]) > room:
        kept -= 1
    return text[:kept]
