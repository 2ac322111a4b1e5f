"""Batches of rows, and a temporary file that stores them to be read again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import TableFileError, first_line
from . import frames
from .disk import unnamed, write_error
from .text_types import ColumnTypes


class Batch(NamedTuple):
    """Some rows of a source: a frame, the name of the source, and the number of each row in it, counted from 0."""

    frame: Any
    where: str
    numbers: Sequence[int]


class Spool:
    """Batches in a temporary file, to be read several times.

    Each is written with its own types: those of text are only known at the end, and others may change on the way.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, types: ColumnTypes | None = None) -> None:
        self.folder, self.types = folder, types
        self.file = unnamed(folder, self)
        self.places: list[tuple[int, str, Sequence[int]]] = []
        self.left_out: Counter[str] = Counter()

    def fill(self, batches: Iterable[Batch]) -> None:
        """Write all batches to the file, and store the origin of each."""
        import pyarrow as pa

        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for batch in batches:
            table = with_dictionaries(as_arrow(batch))
            if self.types is not None:
                self.types.see(table)
            self.places.append((self.file.tell(), batch.where, batch.numbers))
            try:
                with pa.ipc.new_stream(pa.PythonFile(self.file, mode="w"), table.schema, options=options) as writer:
                    writer.write_table(table)
            except OSError as error:
                raise write_error(error, self.folder) from error

    def batches(self, rows: int) -> Iterator[Batch]:
        """Yield all batches in order, split into at most `rows` rows each."""
        import pyarrow as pa

        for place, where, numbers in self.places:
            self.file.seek(place)
            table = pa.ipc.open_stream(pa.PythonFile(self.file, mode="r")).read_all()
            table = table if self.types is None else self.types.typed(table)
            yield from cut(Batch(table, where, numbers), rows)


def without_dictionaries(table: Any) -> Any:
    """Return an Arrow table with its dictionary columns converted to plain text."""
    import pyarrow as pa

    columns = [
        column.cast(column.type.value_type)
        if pa.types.is_dictionary(column.type) and not column.type.ordered
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def with_dictionaries(table: Any) -> Any:
    """Return an Arrow table with its text columns dictionary-encoded, which is compact and fast to read."""
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if pa.types.is_null(column.type):
            column = column.cast(pa.string())
        columns.append(column.combine_chunks().dictionary_encode() if pa.types.is_string(column.type) else column)
    return pa.table(columns, names=table.column_names)


def one_table(tables: Sequence[Any], called: str) -> Any:
    """Return Arrow tables as one, with the types that have room for all; `called` is the name of their source."""
    import pyarrow as pa

    if not tables:
        raise TableFileError(f"{called} holds no rows that can be read.")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        for name in tables[0].column_names:
            kinds = dict.fromkeys(str(table.schema.field(name).type) for table in tables if name in table.column_names)
            if len(kinds) > 1 and not _have_one_type(tables, name):
                raise TableFileError(
                    f"{called} is not one table: column {name!r} has the types {' and '.join(kinds)}. Write it with "
                    "one type in all files.",
                    column=name,
                ) from error
        raise TableFileError(f"{called} is not one table: {first_line(error)}.") from error


def _have_one_type(tables: Sequence[Any], name: str) -> bool:
    """Return whether a column of Arrow tables has a type with room for the values of all."""
    import pyarrow as pa

    try:
        pa.concat_tables(
            [one.select([name]) for one in tables if name in one.column_names], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def as_arrow(batch: Batch) -> Any:
    """Return the frame of a batch as an Arrow table."""
    import pyarrow as pa

    if hasattr(batch.frame, "column_names"):
        return batch.frame
    if isinstance(batch.frame, Mapping):
        columns = {name: frames.as_list(column) for name, column in batch.frame.items()}
    else:
        frame = frames.narwhals_frame(batch.frame)
        try:
            return frame.to_arrow().select(frame.columns)  # the index of a pandas frame is not a column
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            columns = {name: frame[name].to_list() for name in frame.columns}
    try:
        return pa.table(columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TableFileError(
            f"{batch.where} cannot be kept to be read a second time: {first_line(error)}. Pass a function that "
            "returns the iterator, or give a schema."
        ) from error


def cut(batch: Batch, rows: int) -> Iterator[Batch]:
    """Yield a batch as batches of at most `rows` rows."""
    if len(batch.numbers) <= rows:
        yield batch
        return
    for first in range(0, len(batch.numbers), rows):
        part = slice(first, first + rows)
        if isinstance(batch.frame, Mapping):
            which = np.arange(len(batch.numbers))[part]
            piece: Any = {name: frames.select_rows(column, which) for name, column in batch.frame.items()}
        elif isinstance(batch.frame, np.ndarray):
            piece = batch.frame[part]
        else:
            piece = frames.narwhals_frame(batch.frame)[part].to_native()
        yield batch._replace(frame=piece, numbers=batch.numbers[part])
