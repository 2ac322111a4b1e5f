"""The first lines of a text table: the delimiter between values, and the names of the columns."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from ..core.exceptions import FgrnWarning, TableFileError, shortened, warn
from ..core.labels import is_number
from .text_source import SAMPLE_BYTES

DELIMITERS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
"""The delimiters between values, and their names in messages; the first is taken unless others fit better."""

SAMPLE_LINES = 50
"""The number of lines that are read to find the delimiter."""


def detect_delimiter(sample: bytes, where: str) -> str:
    """Return the delimiter found in the first lines, with a warning unless it is ','."""
    delimiter = delimiter_of(_whole_lines(sample))
    if delimiter != ",":
        warn(f"{where}: values are separated by {DELIMITERS[delimiter]}, it seems; delimiter= chooses.", FgrnWarning)
    return delimiter


def delimiter_of(text: str) -> str:
    """Return the delimiter with which most of the first lines have equally many values; a comma if in doubt."""
    best, most = ",", 0.5
    for delimiter in DELIMITERS:
        with suppress(csv.Error):
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
            widths = [len(row) for row in islice(rows, SAMPLE_LINES) if row[1:] or "".join(row).strip()]
            alike = widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0
            if alike > most:
                best, most = delimiter, alike
    return best


def _whole_lines(sample: bytes) -> str:
    """Return the first lines of a file as text, without the last one, which may be incomplete."""
    sample = sample[:SAMPLE_BYTES]
    if len(sample) == SAMPLE_BYTES:
        sample = sample[: 1 + max(sample.rfind(b"\n"), sample.rfind(b"\r"))] or sample
    return sample.decode("utf-8", errors="replace")


def column_names(names: Sequence[str], where: str) -> list[str]:
    """Return the names of the columns; a column without a name is named after its position."""
    out, taken, new = list(names), set(names), []
    for position, name in enumerate(names):
        if not name:
            free = f"x{position}"
            while free in taken:
                free += "_"
            out[position] = free
            taken.add(free)
            new.append(repr(free))
    if all(map(is_number, filter(None, names))) and any(names):
        warn(
            f"{where}: the columns are called {shortened(names, 4)}. If the first line is a row, say header=False.",
            FgrnWarning,
        )
    elif new:
        word = "a column" if len(new) == 1 else f"{len(new):,} columns"
        warn(
            f"{where}: {word} without a name in the first line, here called {shortened(new)}; drop= leaves "
            f"{'it' if len(new) == 1 else 'them'} out. If the first line is a row, say header=False.",
            FgrnWarning,
        )
    check_unique_names(out, where)
    return out


def check_unique_names(names: Sequence[str], where: str) -> None:
    """Raise TableFileError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableFileError(
            f"{where} has several columns called {shortened(map(repr, twice))}. Rename them; or say header=False, if "
            "the first line is a row."
        )
