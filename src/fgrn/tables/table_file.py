"""Table files: reading and writing CSV, TSV and Parquet, also through pipes ("-"), with pyarrow.

Words are trimmed, and words for missing values become null. Files are written completely or not at all.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..core import labels, settings, whole_file
from ..core.exceptions import FgrnError, Remedy, TableFileError, first_line
from .table_warnings import warn_of_missing_words
from .text_header import check_unique_names
from .text_options import TextOptions
from .text_reader import read_table
from .text_source import open_table, unreadable

FORMATS = {
    ".csv": "csv",
    ".data": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
TABLE_KINDS = ("csv", "tsv", "parquet")

OTHER_FORMATS = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".sav", ".dta", ".sas7bdat", ".rds", ".feather", ".arrow")
"""Extensions of tables of other programs, which renaming a file does not make readable."""

INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")
"""The names of unnamed index columns of dataframes in Parquet files."""


def format_by_name(path: str) -> str | None:
    """Return the format of a file by the extension of its name, or None; CSV for a pipe."""
    return "csv" if path == "-" else FORMATS.get(Path(path.removesuffix(".gz")).suffix.lower())


def format_of(path: str, given: str | None = None) -> str:
    """Return the format of a file as given, or by the extension of its name; an error if that is unknown."""
    settings.choice("format", given, (None, *TABLE_KINDS), TableFileError)
    found = given or format_by_name(path)
    if found is None:
        if Path(path).is_dir():
            raise TableFileError(f"{path!r} is a folder, not a table.")
        other = Path(path.removesuffix(".gz")).suffix.lower()
        if other in OTHER_FORMATS:
            raise TableFileError(
                f"{other} files are not read.", file=repr(path), remedies="save the table as a CSV or Parquet file"
            )
        raise TableFileError(
            f"the format of a table must be given by the extension of its name ({', '.join(FORMATS)}, each also .gz).",
            file=repr(path),
            remedies=("rename it", Remedy(f"state the format ({', '.join(TABLE_KINDS)})", format=...)),
        )
    return found


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    missing: Iterable[labels.Label] | labels.Label | None = None,
    header: bool = True,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> Any:
    """Return the table in a file, as an Arrow table.

    In a text file of one column an empty line is a row with a missing value; in others empty lines are skipped. A
    quoted value that is not closed, a value longer than 65,536 bytes, and a row longer than 16 MiB are errors, as is a
    gzipped table that unpacks to more than 1 GiB and more than 100 times its own size: `Stream` reads that.

    Args:
        path: the path of the file, or "-" for standard input.
        format: "csv", "tsv" or "parquet"; None for the one that the extension of the name indicates.
        missing: words or numbers that mean a missing value in a text file; () for none; None for the empty cell, ?, NA,
            NaN and others (`fgrn.tables.missing.MISSING`), with a `TableWarning` that lists those met.
        header: whether the first line has the names of the columns; otherwise they are x0, x1, ...
        delimiter: the character between values of a text file; None to find it in the first lines.
        encoding: the encoding of a text file; None for that of the byte order mark, or UTF-8.
        decimal: the decimal mark of numbers in a text file: "." or ",".
    """
    name = os.fspath(path)
    kind = format_of(name, format)
    where = name_in_errors(name)
    options = TextOptions(
        missing, header, "\t" if kind == "tsv" and delimiter is None else delimiter, encoding, decimal
    )
    try:
        table, words = (_parquet(name, where), {}) if kind == "parquet" else read_table(name, where, options)
    except FgrnError:
        raise
    except Exception as error:  # pyarrow raises several kinds
        raise TableFileError(f"it cannot be read as {kind}: {first_line(error)}", file=where) from error
    if table is None or not table.num_columns or not table.num_rows:
        raise TableFileError("it holds no rows: it is empty, or has a line of names alone.", file=where)
    if options.missing_by_default:
        warn_of_missing_words(words)
    return table


def _parquet(name: str, where: str) -> Any:
    import pyarrow.parquet as parquet

    with open_table(name, in_memory=True) as file:
        try:
            data = io.BytesIO(file.read())
        except FgrnError:
            raise
        except OSError as error:
            raise unreadable(where, error) from error
    table = with_types_of_text(parquet.read_table(data))
    check_unique_names(table.column_names, where)
    return table


def write(columns: Mapping[str, Any] | Any, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a table to a file, or to standard output for "-"; on an error an older file stays as it was."""
    import pyarrow as pa

    name = os.fspath(path)
    kind = format_of(name, format)
    try:
        table = pa.table(dict(columns)) if isinstance(columns, Mapping) else columns
        data = _table_bytes(table, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TableFileError(f"This table cannot be written as {kind}: {first_line(error)}") from error
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    write_file(name, gzip.compress(data) if name.endswith(".gz") else data)


def write_file(name: str, data: bytes, failure: type[FgrnError] = TableFileError) -> None:
    """Write bytes to a file completely; if that fails, an older file stays as it was."""
    try:
        whole_file.write_whole(Path(name), data)
    except (OSError, RuntimeError, ValueError) as error:
        raise unwritable(name, error, failure) from error


def unwritable(name: str, error: Exception, failure: type[FgrnError] = TableFileError) -> FgrnError:
    """Return the error for a file that cannot be written."""
    return failure(f"{name!r} cannot be written: {whole_file.reason_of(error)}. An older file is as it was.")


def with_types_of_text(table: Any) -> Any:
    """Return a table with dates as words and decimals as numbers, as if it had been read from text.

    An unnamed index of a frame, which Parquet files have as a column, is left out.
    """
    import pyarrow as pa

    table = table.select(names_without_index(table.column_names))
    columns = []
    for column in table.columns:
        kind = pa.string() if pa.types.is_temporal(column.type) else column.type
        kind = pa.float64() if pa.types.is_decimal(column.type) else kind
        with suppress(
            pa.ArrowInvalid, pa.ArrowNotImplementedError
        ):  # values without a text form stay, and are an error later
            column = column.cast(kind)
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def names_without_index(names: Iterable[str]) -> list[str]:
    """Return the names of the columns without those of unnamed indexes."""
    return [name for name in names if not INDEX.fullmatch(name)]


def name_in_errors(name: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if name == "-" else repr(name)


def _table_bytes(table: Any, kind: str) -> bytes:
    """Return the bytes of a table file."""
    out: BinaryIO = io.BytesIO()
    if kind == "parquet":
        import pyarrow.parquet as parquet

        parquet.write_table(table, out)
    else:
        from pyarrow import csv as arrow

        arrow.write_csv(table, out, text_options(kind))
    out.seek(0)
    return out.read()


def text_options(kind: str, header: bool = True) -> Any:
    """Return the Arrow options for writing text tables."""
    from pyarrow import csv as arrow

    delimiter = "\t" if kind == "tsv" else ","
    return arrow.WriteOptions(include_header=header, delimiter=delimiter, quoting_style="needed")
