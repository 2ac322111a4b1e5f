"""Writing tables batch by batch; the result is the complete file, or no file if an error occurs."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..core.exceptions import TableFileError, first_line
from ..core.whole_file import replacing
from . import table_file
from .spool import without_dictionaries


class TableWriter:
    """Writes batches of a table to a file; columns and types are those of the first batch."""

    def __init__(self, sink: Any, kind: str, name: str | None = None) -> None:
        self._sink, self._kind, self._name = sink, kind, name
        self._names: list[str] | None = None
        self._parquet: Any = None

    def write(self, columns: Mapping[str, Any] | Any) -> None:
        """Write more rows. An error of the disk names the file, if it has a name."""
        import pyarrow as pa

        try:
            table = pa.table(dict(columns)) if isinstance(columns, Mapping) else columns
            self._write(without_dictionaries(table) if self._kind != "parquet" else table)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TableFileError(f"This table cannot be written as {self._kind}: {first_line(error)}") from error
        except OSError as error:
            if self._name is None:
                raise
            raise table_file.unwritable(self._name, error) from error

    def _write(self, table: Any) -> None:
        first, self._names = self._names is None, table.column_names
        if self._kind == "parquet":
            import pyarrow.parquet as parquet

            if first:
                self._parquet = parquet.ParquetWriter(self._sink, table.schema)
            self._parquet.write_table(table.cast(self._parquet.schema))
            return
        from pyarrow import csv as arrow

        arrow.write_csv(table, self._sink, table_file.text_options(self._kind, header=first))

    def close(self) -> None:
        """Write the end of the file and close it."""
        if self._parquet is not None:
            self._parquet.close()


@contextmanager
def table_writer(path: str | os.PathLike[str], *, format: str | None = None) -> Iterator[TableWriter]:
    """Open a writer of batches to a file, or to standard output for "-"; on an error the old file stays.

    Args:
        path: the path of the file.
        format: "csv", "tsv" or "parquet"; None for the one that the extension of the name indicates.
    """
    name = os.fspath(path)
    kind = table_file.format_of(name, format)
    if name == "-":
        writer = TableWriter(sys.stdout.buffer, kind)
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    error_of_caller: BaseException | None = None
    try:
        with replacing(Path(name)) as file:
            sink: Any = gzip.GzipFile(fileobj=file, mode="wb") if name.endswith(".gz") else file
            writer = TableWriter(sink, kind, name)
            try:
                yield writer
            except BaseException as error:
                error_of_caller = error
                _close_ignoring_errors(writer, sink)
                raise
            writer.close()
            if sink is not file:
                sink.close()
    except (OSError, RuntimeError, ValueError) as error:
        if error is error_of_caller:
            raise
        raise table_file.unwritable(name, error) from error


def _close_ignoring_errors(writer: TableWriter, sink: Any) -> None:
    """Close a file that will not be kept, ignoring errors of the disk."""
    for one in (writer, sink):
        with suppress(OSError, ValueError):
            one.close()
