"""Text tables read in batches, at constant memory: every value as a word, trimmed, and the types found on the way."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import select
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..exceptions import FgrnError, TableFileError
from . import text_table

BLOCK = 2**22
"""Bytes that are parsed at once."""

PATIENCE = 1.0
"""Seconds to wait for a read that is under way when nobody wants more."""


class TextOptions(NamedTuple):
    """How text tables are written; see `table_file.read`."""

    missing: Sequence[str]
    header: bool = True
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."


class Bad(NamedTuple):
    """A row that cannot be read: where, counted from 0; why, and of what kind; column and value, if it is one value."""

    row: int
    why: str
    kind: str
    column: str = ""
    value: object = None


def words(
    name: str, where: str, options: TextOptions, bad: Callable[[Bad], None]
) -> Generator[tuple[Any, Sequence[int]], None, None]:
    """Batches of a text file, or of standard input ("-"), with the number of each row; None is what is unknown.

    Args:
        name: of the file.
        where: what errors call it.
        options: how it is written.
        bad: called with every row that cannot be read; such rows are left out, if it returns.
    """
    try:
        with opened(name) as file:
            head = _head(file)
            if not head.strip() or (options.header and b"\n" not in head and b"\r" not in head):
                return  # nothing, or the names of columns alone
            text_table.check_decimal(options.decimal)
            mark, kind = text_table.encoding_of(head, where, options.encoding)
            sample = head.removeprefix(mark)
            source: io.RawIOBase = _Joined(sample, file)
            if kind != "utf-8":
                source, sample = _Decoded(source, kind, where), sample.decode(kind, "ignore").encode()
            delimiter = text_table.checked_delimiter(options.delimiter, sample, where)
            if name == "-" and kind == "utf-8":
                yield from _piped(source, where, delimiter, options, bad)
            else:
                yield from _parsed(source, sample, where, delimiter, options, bad)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, FgrnError):
            raise
        raise cut_off(where, error) from error


def _head(file: BinaryIO) -> bytes:
    """The first lines of a file, without those that are empty: as much as there is of them yet, if it is a pipe."""
    head = b""
    while b"\n" not in head and (more := file.read(text_table.SAMPLE_BYTES)):
        head = (head + more).lstrip(b"\r\n")
    return head


def cut_off(where: str, error: Exception) -> TableFileError:
    """The error for a file that could not be read to its end."""
    why = getattr(error, "strerror", None) or "it is not a gzip file, or is cut off"
    return TableFileError(f"{where} cannot be read: {why}.")


def opened(name: str) -> BinaryIO:
    """A file to read from, unpacked if it is packed."""
    try:
        if name == "-":
            return _Stdin()  # type: ignore[return-value]
        return gzip.open(name) if name.endswith(".gz") else Path(name).open("rb")  # type: ignore[return-value]
    except FileNotFoundError as error:
        raise TableFileError(f"There is no file {name!r}. Check the name and the folder.") from error
    except IsADirectoryError as error:
        raise TableFileError(f"{name!r} is a folder, not a table.") from error
    except OSError as error:
        raise TableFileError(f"{name!r} cannot be read: {error.strerror or error}.") from error


class _Stdin(io.RawIOBase):
    """Standard input, which stays open when who read from it is done."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data = self._waiting(len(into))
        into[: len(data)] = data
        return len(data)

    def _waiting(self, most: int) -> bytes:
        """What is there, once something is: who writes to a pipe may take his time for more."""
        try:
            pipe = sys.stdin.fileno()
        except (OSError, ValueError, AttributeError):
            pipe = -1
        if pipe < 0 or os.name != "posix":
            return sys.stdin.buffer.read(most)
        data = os.read(pipe, most)
        while data and len(data) < most and select.select([pipe], [], [], 0)[0]:
            more = os.read(pipe, most - len(data))
            if not more:
                break
            data += more
        return data


class _Finite(io.RawIOBase):
    """What another thread reads from: it ends when nobody wants more, and no read is under way then."""

    def __init__(self, source: io.RawIOBase) -> None:
        self.source, self.lock, self.ended = source, Lock(), False

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        with self.lock:
            return 0 if self.ended else self.source.readinto(into) or 0

    def finish(self) -> bool:
        """Let no more be read; whether no read is under way. A pipe that is silent is not waited for."""
        self.ended = True
        is_quiet = self.lock.acquire(timeout=PATIENCE)
        if is_quiet:
            self.lock.release()
        return is_quiet


class _Joined(io.RawIOBase):
    """What was read of a file to look at it, and the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data = self.head[: len(into)] if self.head else self.rest.read(len(into))
        self.head = self.head[len(into) :]
        into[: len(data)] = data
        return len(data)


class _Decoded(io.RawIOBase):
    """The same text in UTF-8."""

    def __init__(self, source: io.RawIOBase, kind: str, where: str) -> None:
        self.source, self.kind, self.where = source, kind, where
        self.decoder, self.ready, self.done = codecs.getincrementaldecoder(kind)(), b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self.ready and not self.done:
            raw = self.source.read(len(into)) or b""
            self.done = not raw
            try:
                self.ready = self.decoder.decode(raw, final=self.done).encode()
            except UnicodeError as error:
                raise TableFileError(f"{self.where} cannot be read as {self.kind}: {error}.") from error
        data, self.ready = self.ready[: len(into)], self.ready[len(into) :]
        into[: len(data)] = data
        return len(data)


def _piped(
    source: io.RawIOBase, where: str, delimiter: str, options: TextOptions, bad: Callable[[Bad], None]
) -> Iterator[tuple[Any, Sequence[int]]]:
    """The rows of a pipe as they come: what there is of them is parsed before more is waited for."""
    names: list[str] = []
    first = 0  # of the rows that come next
    left, ended = b"", False
    while not ended:
        data = source.read(BLOCK) or b""
        ended, left = not data, left + data
        cut = len(left) if ended else left.rfind(b"\n") + 1
        if not ended and left.count(b'"', 0, cut) % 2 and len(left) < BLOCK:
            continue  # it may be within a value in quotation marks
        block, left = left[:cut], left[cut:]
        if not block.strip():
            continue
        rows = _parsed(io.BytesIO(block), block, where, delimiter, options, _shifted(bad, first), names)  # type: ignore[arg-type]
        while True:
            try:
                table, numbers = next(rows)
            except StopIteration as end:
                count, names = end.value
                first += count
                break
            yield table, _plain(np.asarray(numbers) + first)


def _shifted(bad: Callable[[Bad], None], first: int) -> Callable[[Bad], None]:
    return lambda problem: bad(problem._replace(row=problem.row + first))


def _parsed(
    source: io.RawIOBase,
    sample: bytes,
    where: str,
    delimiter: str,
    options: TextOptions,
    bad: Callable[[Bad], None],
    known: Sequence[str] = (),
) -> Generator[tuple[Any, Sequence[int]], None, tuple[int, list[str]]]:
    """Batches of rows; how many rows there were, and the names of columns: in the first row, or `known` before."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    width = len(known) or len(
        next(csv.reader([sample.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")], delimiter=delimiter))
    )
    ragged: list[int] = []  # the rows of the file, the first line being 1, that have too many values or too few
    has_names = options.header and not known
    first_row = 2 if has_names else 1

    def handle(row: Any) -> str:
        ragged.append(row.number)
        values = "1 value" if row.actual_columns == 1 else f"{row.actual_columns} values"
        why = f"{values}, where others have {row.expected_columns} of them"
        problems.append(Bad(row.number - first_row, why, "more or fewer values than others"))
        return "skip"

    problems: list[Bad] = []
    finite = _Finite(source)
    try:
        reader = arrow.open_csv(
            pa.PythonFile(finite, mode="r"),
            arrow.ReadOptions(
                column_names=[f"f{k}" for k in range(len(known))] or None,
                autogenerate_column_names=not known,
                block_size=BLOCK,
                use_threads=False,
            ),
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handle),
            arrow.ConvertOptions(column_types={f"f{k}": pa.binary() for k in range(width)}, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise TableFileError(f"{where} cannot be read as text: {str(error).splitlines()[0]}") from error
    names = list(known)
    read = 1  # the number of the next row of the file

    def handed(rows: Any, numbers: np.ndarray) -> Iterator[tuple[Any, Sequence[int]]]:
        columns, kept = _texts(rows.columns, numbers - first_row, names, bad)
        if len(kept):
            table = pa.table([text_table.known(one, options.missing) for one in columns], names=names)
            yield table, _plain(numbers[kept] - first_row)

    try:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            except pa.ArrowInvalid as error:
                raise TableFileError(f"{where} cannot be read as text: {str(error).splitlines()[0]}") from error
            wrong, problems[:] = sorted(problems, key=lambda problem: problem.row), []
            numbers, read = _numbers(len(batch), read, ragged)
            if not names and len(numbers):
                names = _names(batch, where) if has_names else [f"x{place}" for place in range(len(batch.columns))]
                batch, numbers = (batch.slice(1), numbers[1:]) if has_names else (batch, numbers)
            good = int(np.searchsorted(numbers - first_row, wrong[0].row)) if wrong else len(numbers)
            yield from handed(batch.slice(0, good), numbers[:good])  # what comes before a row that cannot be read
            for problem in wrong:
                bad(problem)
            yield from handed(batch.slice(good), numbers[good:])
        for problem in problems:
            bad(problem)
        return read - first_row + sum(number >= read for number in ragged), names
    finally:
        if finite.finish():
            with suppress(StopIteration, pa.ArrowInvalid):  # a thread that still reads would wait for ever at exit
                while True:
                    reader.read_next_batch()
        reader.close()


def _names(batch: Any, where: str) -> list[str]:
    """The names of columns in the first row of a file."""
    try:
        return text_table.column_names([column[0].as_py().decode().strip() for column in batch.columns], where)
    except UnicodeDecodeError as error:
        raise TableFileError(
            f"{where}, line 1: the names of its columns are not UTF-8. Say which encoding it is in, such as cp1252."
        ) from error


def _numbers(count: int, begin: int, ragged: list[int]) -> tuple[np.ndarray, int]:
    """The numbers of the next rows of a file, without those that are left out, and that of the one after them."""
    out = np.array(sorted(number for number in ragged if number >= begin), dtype=np.int64)
    end = begin + count
    for number in out.tolist():  # each that is left out makes room for one more
        end += number < end
    numbers: np.ndarray = np.setdiff1d(np.arange(begin, end), out, assume_unique=True)
    return numbers, end


def _plain(numbers: np.ndarray) -> Any:
    """Numbers of rows, as a range where none is left out."""
    whole = int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers)
    return range(int(numbers[0]), int(numbers[-1]) + 1) if whole else numbers


def _texts(
    columns: Sequence[Any], rows: np.ndarray, names: list[str], bad: Callable[[Bad], None]
) -> tuple[list[Any], np.ndarray]:
    """Columns of bytes as trimmed words, and which rows are left: those in which all of them are UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = np.ones(len(rows), dtype=bool)
    try:
        out = [column.cast(pa.string()) for column in columns]
    except pa.ArrowInvalid:
        for position, column in enumerate(columns):
            for row, value in enumerate(column.to_pylist()):
                try:
                    value.decode()
                except UnicodeDecodeError:
                    if kept[row]:
                        why = "this is not UTF-8; say which encoding= it is, such as cp1252"
                        bad(Bad(int(rows[row]), why, "not UTF-8", names[position], value))
                    kept[row] = False
        mask = pa.array(kept)
        out = [column.filter(mask).cast(pa.string()) for column in columns]
    return [pc.utf8_trim_whitespace(column) for column in out], np.flatnonzero(kept)


class Types:
    """What columns of words are, as found so far: whole numbers, numbers, or words.

    As where a table is read at once: numbers if all values that are known are, and none is written like 007.
    """

    def __init__(self, decimal: str) -> None:
        self.decimal = decimal
        self._kinds: dict[str, int] = {}  # the least that fits: 0, 1, 2 in the order above
        self._known: set[str] = set()

    def see(self, table: Any) -> None:
        """Take the columns of a batch into account, each by its dictionary of words."""
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._kinds.setdefault(name, 0)
            for part in column.chunks if kind < 2 else ():
                if len(part.dictionary):
                    self._known.add(name)
                    kind = max(kind, text_table.kind_of_words(part.dictionary, self.decimal))
            self._kinds[name] = kind

    def typed(self, table: Any) -> Any:
        """A batch with its columns in the types that were found."""
        import pyarrow as pa

        columns = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._kinds[name] if name in self._known else 2
            parts = [
                part if kind == 2 else text_table.as_kind(part.dictionary, kind, self.decimal).take(part.indices)
                for part in column.chunks
            ]
            columns.append(pa.chunked_array(parts))
        return pa.table(columns, names=table.column_names)
