"""The bytes of a table in a file or a pipe: decompressed if gzipped, and decoded to UTF-8."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import select
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ..core.exceptions import FgrnError, Remedy, TableFileError

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their encodings; those of UTF-32 first, as one begins like a mark of UTF-16."""

GZIP = b"\x1f\x8b\x08"
"""The first bytes of a gzip file."""

SAMPLE_BYTES = 100_000
"""The number of bytes that are read to find the encoding and the delimiter."""

UNPACKED_LIMIT = 2**30
UNPACKED_RATIO = 100
"""A gzipped table in memory may unpack to UNPACKED_LIMIT bytes, or to this many times its size if larger."""


class ByteSource(Protocol):
    """The protocol of a source of bytes that is read from start to end."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, as soon as there are any; none at the end."""


def open_table(name: str, in_memory: bool = False) -> BinaryIO:
    """Open a file for reading, decompressed if its name ends in .gz; "-" is standard input.

    Args:
        name: the name of the file.
        in_memory: whether all of it will be held in memory, which limits the size that a gzip file may unpack to.
    """
    try:
        if name == "-":
            return _Stdin()  # type: ignore[return-value]
        if not name.endswith(".gz"):
            return Path(name).open("rb")
        return _Unpacked(name, in_memory)  # type: ignore[return-value]
    except FileNotFoundError as error:
        raise no_file(name) from error
    except IsADirectoryError as error:
        raise TableFileError(f"{name!r} is a folder, not a table.") from error
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise TableFileError(f"{name!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


class _Unpacked(io.RawIOBase):
    """The decompressed content of a gzip file, with a limit on its size if it is held in memory."""

    def __init__(self, name: str, in_memory: bool) -> None:
        self._name, self._file, self._size = name, gzip.open(name), 0  # noqa: SIM115 (closed by close)
        packed = Path(name).stat().st_size
        self._limit = max(UNPACKED_LIMIT, UNPACKED_RATIO * packed) if in_memory else None

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            data = self._file.read(len(into))
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(repr(self._name), error) from error
        self._size += len(data)
        if self._limit is not None and self._size > self._limit:
            raise TableFileError(
                f"it unpacks to more than {self._limit:,} bytes, the limit for a gzipped table in memory.",
                file=repr(self._name),
                remedies=(Remedy("read it in batches", "fgrn.Stream", stream=True), "unpack it first, if you trust it"),
            )
        into[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Stdin(io.RawIOBase):
    """Standard input, which stays open when this is closed; a read returns what is available, at least one byte."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data = self._available(len(into))
        into[: len(data)] = data
        return len(data)

    def _available(self, most: int) -> bytes:
        if sys.stdin is None:
            raise TableFileError("Standard input is closed, so there is no table to read from it.")
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


def no_file(name: str) -> TableFileError:
    """Return the error for a table file that does not exist."""
    return TableFileError(f"There is no file {name!r}.", value=name, remedies="check the name and the folder")


def unreadable(where: str, error: Exception) -> TableFileError:
    """Return the error for a file that could not be read to its end."""
    why = getattr(error, "strerror", None) or "it is not a gzip file, is damaged, or is cut off"
    return TableFileError(f"it cannot be read: {why}.", file=where)


class TextSource:
    """The text of a file in UTF-8, without a byte order mark.

    Bytes of a file in UTF-8 are passed on unchecked; whether they are valid is checked value by value later.

    Args:
        file: the source of the bytes.
        where: the name of the file in errors.
        encoding: the encoding of the bytes; None for that of the byte order mark, or UTF-8.
        live: whether to begin as soon as a line of a pipe is available.
    """

    def __init__(self, file: BinaryIO, where: str, encoding: str | None, live: bool) -> None:
        raw: ByteSource = io.BufferedReader(file) if isinstance(file, io.RawIOBase) and not live else file
        bytes_ = _WithNamedErrors(raw, where)
        head = _first_bytes(bytes_, live)
        if head.startswith(GZIP):
            raise TableFileError(
                "it is packed by gzip.", file=where, remedies=("unpack it first", "give it a name that ends in .gz")
            )
        mark, kind = _encoding_of(head, where, encoding)
        rest: ByteSource = _Joined(head.removeprefix(mark), bytes_, live)
        if kind != "utf-8":
            rest = _Decoded(rest, kind, where)
            head = rest.read(SAMPLE_BYTES)
            rest = _Joined(head, rest, live=True)  # text before an error in the encoding is returned first
        else:
            head = head.removeprefix(mark)
        self._rest = rest
        self.sample = head
        """The first bytes, which `read` returns as well."""

    def read(self, size: int) -> bytes:
        """See `ByteSource`."""
        return self._rest.read(size)


def _first_bytes(source: ByteSource, live: bool) -> bytes:
    """Return the first bytes of a file; of a live pipe what is available, at least a line that is not empty."""
    head = b""
    while len(head) < SAMPLE_BYTES and (more := source.read(SAMPLE_BYTES - len(head))):
        head += more
        line = head.lstrip(b"\r\n")
        if live and (b"\n" in line or b"\r" in line):
            break
    return head


class _WithNamedErrors:
    """A source of bytes whose errors name the file."""

    def __init__(self, source: ByteSource, where: str) -> None:
        self._source, self._where = source, where

    def read(self, size: int) -> bytes:
        try:
            return self._source.read(size) or b""
        except FgrnError:
            raise
        except (OSError, EOFError, ValueError) as error:
            raise unreadable(self._where, error) from error


class _Joined:
    """A source that gives the bytes in `head`, then `rest`; if `live`, one read does not combine both."""

    def __init__(self, head: bytes, rest: ByteSource, live: bool) -> None:
        self._head, self._rest, self._live = head, rest, live

    def read(self, size: int) -> bytes:
        if not self._head:
            return self._rest.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data if self._live or len(data) == size else data + self._rest.read(size - len(data))


def _encoding_of(data: bytes, where: str, encoding: str | None) -> tuple[bytes, str]:
    """Return the byte order mark of a text and its encoding: by that mark, as given, or UTF-8."""
    mark, marked = next(((mark, name) for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), (b"", None))
    try:
        kind = codecs.lookup(marked or encoding or "utf-8").name
        io.TextIOWrapper(io.BytesIO(), kind)  # some codecs are not for text
        codecs.getincrementaldecoder(kind)
    except (LookupError, ValueError, TypeError):
        raise TableFileError(
            f"must name an encoding of texts, such as utf-8, cp1252, latin-1 or utf-16. Got {encoding!r} instead.",
            setting="encoding",
            value=encoding,
        ) from None
    if kind == "utf-8" and b"\x00" in data[len(mark) :][:4096]:
        raise TableFileError(
            "this is not a text file.",
            file=where,
            remedies=(
                Remedy("if it is Parquet, use {}", format="parquet"),
                Remedy("if it is text with two bytes per letter, use {} (or utf-16-be)", encoding="utf-16-le"),
            ),
        )
    return mark, kind


class _Decoded:
    """A text in another encoding as UTF-8; an invalid byte is an error after all text before it was read."""

    def __init__(self, source: ByteSource, kind: str, where: str) -> None:
        self._source, self._kind, self._where = source, kind, where
        self._decoder = codecs.getincrementaldecoder(kind)()
        self._ready, self._at = b"", 0
        self._ended = False
        self._error: TableFileError | None = None
        self._lines = LineCounter()

    def read(self, size: int) -> bytes:
        while self._at >= len(self._ready):
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._ready, self._at = self._next(max(size, 64)), 0
        self._at += size
        return self._ready[self._at - size : self._at]

    def _next(self, size: int) -> bytes:
        raw = self._source.read(size)
        self._ended = not raw
        before = self._decoder.getstate()
        try:
            text = self._decoder.decode(raw, final=self._ended)
            data = text.encode()
            self._lines.count(data)
            return data
        except UnicodeDecodeError as error:
            self._decoder.setstate(before)
            good = max(0, error.start - (len(error.object) - len(raw)))
            data = self._decoder.decode(raw[:good]).encode() if good else b""
            self._lines.count(data)
            self._error = TableFileError(
                f"this is not {self._kind.upper()} (byte 0x{error.object[error.start]:02x}).",
                file=self._where,
                line=self._lines.line,
                remedies=(Remedy("choose another encoding", encoding=...), "save the file as UTF-8"),
            )
            return data
        except UnicodeError as error:
            self._error = TableFileError(f"it cannot be read as {self._kind}: {error}.", file=self._where)
            return b""


class LineCounter:
    """Counts lines that end in a line feed, a carriage return, or both, in a text that comes in pieces."""

    def __init__(self) -> None:
        self.line = 1
        """The number of the line on which the next piece begins, counted from 1."""
        self._after_return = False

    def count(self, data: bytes) -> None:
        """Count the line ends of the next piece."""
        if not data:
            return
        self.line += line_ends(data) - (self._after_return and data.startswith(b"\n"))
        self._after_return = data.endswith(b"\r")


def line_ends(data: bytes) -> int:
    """Return the number of line ends in a piece of text."""
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)
