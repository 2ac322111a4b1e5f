"""Tables as text: how the bytes are encoded, what stands between values, what is a number and what is unknown."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from ..exceptions import FgrnWarning, TableFileError, shortened, warn
from ..labels import is_number

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks; those of UTF-32 first, as one of them begins like one of UTF-16."""

DELIMITERS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
"""What may stand between values, and what it is called; the first unless the others fit better."""

SAMPLE_LINES, SAMPLE_BYTES = 50, 100_000
LONGEST_VALUE = 2**16
"""Characters of a value: more are many lines that a quotation mark has swallowed."""
"""How much of a file is looked at to see what stands between its values."""


def parsed(
    data: bytes,
    where: str,
    missing: Sequence[str],
    header: bool,
    delimiter: str | None,
    encoding: str | None,
    decimal: str,
) -> Any:
    """The table in the bytes of a text file, as an Arrow table.

    Every column is read as words, trimmed, and turned into numbers where all its values are.

    Args:
        data: the bytes.
        where: what errors call the file.
        missing: what stands for unknown.
        header: whether the first line names the columns; else they are called x0, x1, ...
        delimiter: between values; seen in the first lines unless given.
        encoding: of the bytes; by their byte order mark, or UTF-8, unless given.
        decimal: what stands before the fraction of a number.
    """
    check_decimal(decimal)
    data = _utf8(data, where, encoding)
    if not data.strip():
        raise TableFileError(f"{where} is empty.")
    words = _words(data, where, delimiter := checked_delimiter(delimiter, data, where))
    if header:
        names = column_names([column[0].as_py() for column in words], where)
        words = [column.slice(1) for column in words]
    else:
        names = [f"x{position}" for position in range(len(words))]
    return _table(words, names, missing, decimal)


def check_decimal(decimal: str) -> None:
    """Refuse what does not stand before the fraction of a number."""
    if decimal not in (".", ","):
        raise TableFileError(f"The decimal mark of numbers is . or a comma. Got {decimal!r}.")


def checked_delimiter(delimiter: str | None, data: bytes, where: str) -> str:
    """What stands between values: as it is given, or as it is seen in the first lines, and said unless it is ','."""
    if delimiter is None:
        delimiter = delimiter_of(_sample(data))
        if delimiter != ",":
            warn(
                f"{where}: values are separated by {DELIMITERS[delimiter]}, it seems; --delimiter chooses.", FgrnWarning
            )
    elif len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\r\n"':
        raise TableFileError(f"The delimiter between values is one plain character. Got {delimiter!r}.")
    return delimiter


def delimiter_of(text: str) -> str:
    """What stands between values in the first lines of a text: a comma, unless with another more lines are alike."""
    best, most = ",", 0.5
    for delimiter in DELIMITERS:
        with suppress(csv.Error):
            rows = csv.reader(io.StringIO(text), delimiter=delimiter)
            widths = [len(row) for row in islice(rows, SAMPLE_LINES) if row]
            alike = widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0
            if alike > most:
                best, most = delimiter, alike
    return best


def _sample(data: bytes) -> str:
    """The first lines of a file, whole ones."""
    sample = data[:SAMPLE_BYTES]
    if len(data) > SAMPLE_BYTES:
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    return sample.decode("utf-8", errors="replace")


def encoding_of(data: bytes, where: str, encoding: str | None) -> tuple[bytes, str]:
    """The byte order mark a text begins with, and its encoding: by that mark, as it is given, or UTF-8."""
    mark, marked = next(((mark, name) for mark, name in MARKS if data.startswith(mark)), (b"", None))
    kind = marked or encoding or "utf-8"
    try:
        kind = codecs.lookup(kind).name
    except LookupError:
        raise TableFileError(
            f"There is no encoding {encoding!r}. Common ones: utf-8, cp1252, latin-1, utf-16."
        ) from None
    if kind == "utf-8" and b"\x00" in data[len(mark) :][:4096]:
        raise TableFileError(
            f"{where} is not a text file. If it is Parquet, say --format parquet; if it is text with two bytes a "
            "letter, --encoding utf-16."
        )
    return mark, kind


def _utf8(data: bytes, where: str, encoding: str | None) -> bytes:
    """The same text in UTF-8, without a byte order mark."""
    mark, kind = encoding_of(data, where, encoding)
    data = data.removeprefix(mark)
    if kind == "utf-8":
        return data  # pyarrow looks at every letter anyway
    try:
        return data.decode(kind).encode()
    except (UnicodeError, LookupError) as error:  # some codecs are not for text
        raise _undecodable(data, where, kind) or TableFileError(
            f"{where} cannot be read as {kind}: {error}."
        ) from error


def _undecodable(data: bytes, where: str, encoding: str) -> TableFileError | None:
    """The error for the first line that cannot be read in an encoding, if there is one."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = 1 + data[: error.start].decode(encoding, errors="replace").count("\n")
        other = "--encoding cp1252 or latin-1" if encoding == "utf-8" else "another --encoding"
        return TableFileError(
            f"{where}, line {line}: this is not {encoding.upper()} (byte 0x{data[error.start]:02x}). Files of older "
            f"programs often are not; say {other}, or save it as UTF-8."
        )
    return None


def _words(data: bytes, where: str, delimiter: str) -> list[Any]:
    """The columns of a text in UTF-8, as trimmed words."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    first = data.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    width = len(next(csv.reader([first.rstrip("\r")], delimiter=delimiter)))
    try:
        words = arrow.read_csv(
            pa.BufferReader(data),
            arrow.ReadOptions(autogenerate_column_names=True, encoding="utf8"),
            # in a table of one column an empty line is an unknown value
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=width > 1),
            arrow.ConvertOptions(column_types={f"f{k}": pa.string() for k in range(width)}, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        found = _undecodable(data, where, "utf-8") or _ragged(data, where, delimiter)
        if found is None:
            raise
        raise found from error
    return [pc.utf8_trim_whitespace(column) for column in words.columns]


def _ragged(data: bytes, where: str, delimiter: str) -> TableFileError | None:
    """The error for the first line with more or fewer values than others, if there is one."""
    text = data.decode("utf-8", errors="replace")
    with suppress(csv.Error):
        widths = [len(row) for row in islice(csv.reader(io.StringIO(text), delimiter=delimiter), SAMPLE_LINES) if row]
        wide = max(widths, key=widths.count)
        rows, begun = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1
        for row in rows:
            if row and len(row) != wide:
                values = "1 value" if len(row) == 1 else f"{len(row)} values"
                return TableFileError(
                    f"{where}, line {begun}: {values}, where others have {wide} of them. Mend the line (a value "
                    f"that holds {DELIMITERS.get(delimiter, repr(delimiter))} is put in quotes), or say what stands "
                    "between values with --delimiter."
                )
            begun = rows.line_num + 1
    return None


def column_names(names: list[str], where: str) -> list[str]:
    """The names of columns; one that has none is called by its place."""
    out, new = list(names), []
    for position, name in enumerate(names):
        if not name:
            free = f"x{position}"
            while free in out:
                free += "_"
            out[position] = free
            new.append(repr(free))
    if all(map(is_number, filter(None, names))) and any(names):
        warn(
            f"{where}: the columns are called {shortened(names, 4)}. If the first line is a row, say --no-header.",
            FgrnWarning,
        )
    elif new:
        word = "a column" if len(new) == 1 else f"{len(new):,} columns"
        warn(
            f"{where}: {word} without a name in the first line, here called {shortened(new)}; --drop leaves "
            f"{'it' if len(new) == 1 else 'them'} out. If the first line is a row, say --no-header.",
            FgrnWarning,
        )
    return out


def _table(words: list[Any], names: list[str], missing: Sequence[str], decimal: str) -> Any:
    import pyarrow as pa

    columns = []
    for column in words:
        column = known(column, missing)
        kind = 2 if column.null_count == len(column) else kind_of_words(column.unique().drop_null(), decimal)
        columns.append(as_kind(column, kind, decimal))
    return pa.table(columns, names=names)


def known(column: Any, missing: Sequence[str]) -> Any:
    """A column of words, null where it says that nothing is known; one as long as a book is an error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > LONGEST_VALUE:
        where = pc.index(pc.binary_length(column), longest).as_py()
        raise TableFileError(
            f"A value has {longest:,} characters, from {column[where].as_py()[:40]!r} on. A quotation mark before it "
            "is probably not closed; mend the file there."
        )
    codes = pa.array([code.strip() for code in missing], pa.string())
    return pc.if_else(pc.is_in(column, codes), pa.scalar(None, pa.string()), column)


def kind_of_words(words: Any, decimal: str) -> int:
    """What different words are: whole numbers (0), numbers (1), or words (2), as codes like 007 are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(words, r"^[+-]?0[0-9]")).as_py():
        return 2
    for kind in (0, 1):
        with suppress(pa.ArrowInvalid):
            as_kind(words, kind, decimal)
            return kind
    return 2


def as_kind(column: Any, kind: int, decimal: str) -> Any:
    """A column of words as whole numbers (0), numbers (1), or words (2)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == 2:
        return column
    digits = pc.replace_substring(column, ",", ".") if decimal == "," else column
    return digits.cast(pa.float64() if kind else pa.int64())
