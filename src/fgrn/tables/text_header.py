"""The first lines of a text table: the delimiter between values, and the names of the columns."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from ..core.exceptions import FgrnWarning, Remedy, TableFileError, shortened, warn
from ..core.labels import is_number
from .text_source import SAMPLE_BYTES

DELIMITERS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
"""The delimiters between values, and their names in messages; the first is taken unless others fit better."""

NO_HEADER = Remedy("if the first line is data, use {}", header=False)
"""The remedy if the first line does not contain column names."""

SAMPLE_LINES = 50
"""The number of lines that are read to find the delimiter."""


def detect_delimiter(sample: bytes, where: str) -> str:
    """Return the delimiter found in the first lines, with a warning unless it is ','."""
    lines = _whole_lines(sample)
    delimiter = delimiter_of(lines)
    if delimiter == ",":
        _warn_of_blanks(lines, where)
    else:
        warn(
            f"values seem to be separated by {DELIMITERS[delimiter]}.",
            FgrnWarning,
            file=where,
            value=delimiter,
            remedies=Remedy("choose another delimiter", delimiter=...),
        )
    return delimiter


def _warn_of_blanks(text: str, where: str) -> None:
    """Warn if lines contain no comma but the same number of words, two or more, as if spaces separated the values."""
    lines = [line.strip() for line in text.splitlines()[:SAMPLE_LINES] if line.strip()]
    counts = {len(line.split()) for line in lines}
    if len(lines) < 3 or len(counts) > 1 or min(counts) < 2 or any("," in line or '"' in line for line in lines):
        return
    single = all(len(line.split(" ")) in counts for line in lines)
    warn(
        f"each line is taken as one value, and each has {counts.pop()} words.",
        FgrnWarning,
        file=where,
        remedies=Remedy("if spaces separate values, use {}", delimiter=" ")
        if single
        else "if spaces separate values, replace each run of them with a comma",
    )


def delimiter_of(text: str) -> str:
    """Return the delimiter with which most of the first lines have the same number of values; a comma if unclear."""
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
            new.append(free)
    if names[0].startswith("# "):
        warn(
            f"the first line is taken as the names of columns, and begins with {names[0][:40]!r}.",
            FgrnWarning,
            file=where,
            value=names[0],
            remedies="if it is a comment, remove it from the file",
        )
    elif all(map(is_number, filter(None, names))) and any(names):
        warn(
            f"the columns are called {shortened(names, 4)}.",
            FgrnWarning,
            file=where,
            value=tuple(names),
            remedies=NO_HEADER,
        )
    elif new:
        word = "a column" if len(new) == 1 else f"{len(new):,} columns"
        warn(
            f"{word} without a name in the first line, here called {shortened(map(repr, new))}.",
            FgrnWarning,
            file=where,
            value=tuple(new),
            remedies=(Remedy("leave out what is not needed", drop=...), NO_HEADER),
        )
    check_unique_names(out, where)
    return out


def check_unique_names(names: Sequence[str], where: str) -> None:
    """Raise TableFileError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableFileError(
            f"it has several columns called {shortened(map(repr, twice))}.",
            file=where,
            value=twice[0],
            remedies=("rename them", NO_HEADER),
        )
