"""Tables in files: CSV, TSV and Parquet, also through pipes ("-"), by pyarrow.

Words are trimmed, and codes for missing values become unknown, wherever they stand. What is written is complete or not
there at all.
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
from ..core.exceptions import FgrnError, TableFileError, first_line
from .doubts import tell_missing
from .text_header import check_names
from .text_options import TextOptions
from .text_reader import read_table
from .text_source import opened, unreadable

FORMATS = {
    ".csv": "csv",
    ".data": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
KINDS = ("csv", "tsv", "parquet")
MISSING = labels.MISSING

INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")
"""What frames call an index without a name in Parquet files."""


def kind_of(path: str) -> str | None:
    """The format of a file by the end of its name, if that says one; CSV for a pipe."""
    return "csv" if path == "-" else FORMATS.get(Path(path.removesuffix(".gz")).suffix.lower())


def format_of(path: str, given: str | None = None) -> str:
    """The format of a file, by what is given or by the end of its name; CSV for a pipe."""
    settings.choice("format", given, (None, *KINDS), TableFileError)
    found = given or kind_of(path)
    if found is None:
        if Path(path).is_dir():
            raise TableFileError(f"{path!r} is a folder, not a table.")
        raise TableFileError(
            f"{path!r}: the format of a table is told by the end of its name ({', '.join(FORMATS)}, each also .gz). "
            "Rename it, or say which with format=: csv, tsv or parquet."
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
    """The table in a file, as an Arrow table.

    In a text file of one column an empty line is a row whose value is missing; in others empty lines are skipped. A
    value that its quotation mark does not close, or longer than 65,536 bytes, and a row longer than 16 MiB are errors,
    as is a gzipped table that unpacks to more than 1 GiB and more than 100 times its own size: `Stream` reads that.

    Args:
        path: of the file, or "-" for standard input.
        format: "csv", "tsv" or "parquet"; by the end of the name unless given.
        missing: words or numbers that are missing values in a text file; () for none. Unless given they are the empty
            cell, ?, NA, NaN and the like (`fgrn.core.labels.MISSING`), and a `TableWarning` says which were met.
        header: whether the first line names the columns; else they are called x0, x1, ...
        delimiter: between values of a text file; seen in its first lines unless given.
        encoding: of a text file; by its byte order mark, or UTF-8, unless given.
        decimal: what stands before the fraction of a number in a text file: "." or ",".
    """
    name = os.fspath(path)
    kind = format_of(name, format)
    where = called(name)
    options = TextOptions(
        missing, header, "\t" if kind == "tsv" and delimiter is None else delimiter, encoding, decimal
    )
    try:
        table, words = (_parquet(name, where), {}) if kind == "parquet" else read_table(name, where, options)
    except FgrnError:
        raise
    except Exception as error:  # pyarrow has several, all with a message worth reading
        raise TableFileError(f"{where} cannot be read as {kind}: {first_line(error)}") from error
    if table is None or not table.num_columns or not table.num_rows:
        raise TableFileError(f"{where} holds no rows: it is empty, or has a line of names alone.")
    if options.missing_by_default:
        tell_missing(words)
    return table


def _parquet(name: str, where: str) -> Any:
    import pyarrow.parquet as parquet

    with opened(name, in_memory=True) as file:
        try:
            data = io.BytesIO(file.read())
        except FgrnError:
            raise
        except OSError as error:
            raise unreadable(where, error) from error
    table = as_text_would_be(parquet.read_table(data))
    check_names(table.column_names, where)
    return table


def write(columns: Mapping[str, Any] | Any, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a table to a file, or "-" for standard output; an older file stays as it was if that fails."""
    import pyarrow as pa

    name = os.fspath(path)
    kind = format_of(name, format)
    try:
        table = pa.table(dict(columns)) if isinstance(columns, Mapping) else columns
        data = _encoded(table, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TableFileError(f"This table cannot be written as {kind}: {first_line(error)}") from error
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    put(name, gzip.compress(data) if name.endswith(".gz") else data)


def put(name: str, data: bytes, failure: type[FgrnError] = TableFileError) -> None:
    """Write bytes to a file: all of them or, where that fails, nothing."""
    try:
        whole_file.write(Path(name), data)
    except (OSError, RuntimeError, ValueError) as error:
        raise unwritable(name, error, failure) from error


def unwritable(name: str, error: Exception, failure: type[FgrnError] = TableFileError) -> FgrnError:
    """The error for a file that cannot be written."""
    return failure(f"{name!r} cannot be written: {whole_file.reason(error)}. An older file is as it was.")


def as_text_would_be(table: Any) -> Any:
    """A table whose dates are words and whose decimals are numbers, as they are when they come from text.

    The index of a frame, which Parquet files may have as a column, is left out, unless it has a name.
    """
    import pyarrow as pa

    table = table.select(data_names(table.column_names))
    columns = []
    for column in table.columns:
        kind = pa.string() if pa.types.is_temporal(column.type) else column.type
        kind = pa.float64() if pa.types.is_decimal(column.type) else kind
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what has no text stays, and is refused by name
            column = column.cast(kind)
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def data_names(names: Iterable[str]) -> list[str]:
    """The names of columns but for an index without one."""
    return [name for name in names if not INDEX.fullmatch(name)]


def called(name: str) -> str:
    """What errors call a file."""
    return "standard input" if name == "-" else repr(name)


def _encoded(table: Any, kind: str) -> bytes:
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
    """How text tables are written."""
    from pyarrow import csv as arrow

    delimiter = "\t" if kind == "tsv" else ","
    return arrow.WriteOptions(include_header=header, delimiter=delimiter, quoting_style="needed")
