"""Splitting text in UTF-8 into blocks of whole records; a record is a row as written, on one line or several.

A field that begins with a quotation mark ends at the next one that is not doubled, and may contain delimiters and line
ends; a quotation mark anywhere else is an ordinary character. A record ends with a line feed, a carriage return, or
both. These are the rules of the CSV parser of Arrow, which parses the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..core.exceptions import TableFileError
from .text_source import ByteSource, line_ends

LONGEST_ROW = 2**24
"""The most bytes of a row: a longer one is not a table, or has a quotation mark that is not closed."""

LINE_FEED, RETURN, QUOTE = b'\n\r"'


class RecordBlock(NamedTuple):
    """The bytes of whole records, and the number of the line they begin on, counted from 1."""

    data: bytes
    line: int


class RecordScanner:
    """Finds the ends of records in a text that comes in pieces, wherever the pieces are cut."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._last = LINE_FEED  # the byte before the next piece
        self._last_closes = False  # whether that is a quotation mark that ended a field, unless another follows
        self.is_quoted = False
        """Whether the next piece begins inside a quoted field."""

    @property
    def is_after_return(self) -> bool:
        """Whether the last piece ended a record with a carriage return, to which a line feed belongs."""
        return self._last == RETURN and not self.is_quoted

    def first_and_last_end(self, piece: bytes) -> tuple[int, int]:
        """Return the offsets where the first and the last record end in the next piece; 0 if none."""
        if self.is_quoted or b'"' in piece:
            ends = self.ends(piece)
            return (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)
        self._last, self._last_closes = piece[-1], False
        found = [place for place in (piece.find(b"\n"), piece.find(b"\r")) if place >= 0]
        if not found:
            return 0, 0
        first = min(found)
        first += 2 if piece[first : first + 2] == b"\r\n" else 1
        return first, 1 + max(piece.rfind(b"\n"), piece.rfind(b"\r"))

    def ends(self, piece: bytes) -> np.ndarray:
        """Return the offsets where records end in the next piece."""
        data = np.frombuffer(piece, dtype=np.uint8)
        was_quoted = self.is_quoted
        marks = self._marks(data)
        self.is_quoted = bool((was_quoted + len(marks)) % 2)
        self._last = piece[-1]
        self._last_closes = not self.is_quoted and len(marks) > 0 and marks[-1] == len(piece) - 1
        breaks = np.flatnonzero((data == LINE_FEED) | (data == RETURN))
        breaks = breaks[_are_outside(breaks, marks, was_quoted)]
        follows = data[np.minimum(breaks + 1, len(data) - 1)]
        ends: np.ndarray = 1 + breaks[(data[breaks] == LINE_FEED) | (follows != LINE_FEED)]
        return ends

    def delimiters(self, piece: bytes) -> np.ndarray:
        """Return the offsets of the delimiters between values in a piece, without changing the scanner."""
        data = np.frombuffer(piece, dtype=np.uint8)
        found = np.flatnonzero(data == self._delimiter)
        outside: np.ndarray = found[_are_outside(found, self._marks(data), self.is_quoted)]
        return outside

    def _marks(self, data: np.ndarray) -> np.ndarray:
        """Return the quotation marks that open or close a field, in turn; a doubled one closes and opens."""
        quotes = np.flatnonzero(data == QUOTE)
        if not len(quotes):
            return quotes
        before = data[np.maximum(quotes - 1, 0)]
        if quotes[0] == 0:
            before[0] = self._last
        may_open = (before == self._delimiter) | (before == LINE_FEED) | (before == RETURN)
        doubled = before == QUOTE
        if quotes[0] == 0:
            doubled[0] = self._last_closes
        opening = slice(int(self.is_quoted), None, 2)  # true if every quotation mark opens or closes a field, in turn
        if (may_open[opening] | doubled[opening]).all():
            return quotes
        kept, is_quoted, closed = [], self.is_quoted, -1 if self._last_closes else -2
        for place, opens in zip(quotes.tolist(), may_open.tolist(), strict=True):
            if is_quoted:
                is_quoted, closed = False, place
            elif opens or closed == place - 1:
                is_quoted = True
            else:
                continue
            kept.append(place)
        return np.array(kept, dtype=np.int64)


def _are_outside(places: np.ndarray, marks: np.ndarray, is_quoted: bool) -> np.ndarray:
    """Return which positions are outside quoted fields, given the marks that open and close them in turn."""
    outside: np.ndarray = (np.searchsorted(marks, places) + is_quoted) % 2 == 0
    return outside


def record_ends(data: bytes, delimiter: str) -> np.ndarray:
    """Return the offsets where the records of a block end; the last one may have no line end."""
    ends = RecordScanner(delimiter).ends(data)
    return ends if len(ends) and ends[-1] == len(data) else np.append(ends, len(data))


class Records(NamedTuple):
    """The records of a block: the offsets where each begins and ends, and its number of values."""

    begins: np.ndarray
    ends: np.ndarray
    widths: np.ndarray


def blanks_beside(delimiter: str) -> bytes:
    """Return the characters that an empty line may consist of: space and tab, except the delimiter."""
    return b" \t".replace(delimiter.encode(), b"")


def split_records(data: bytes, delimiter: str, with_empty: bool) -> Records:
    """Return the records of a block, including empty lines and those of blanks only if `with_empty`."""
    ends = record_ends(data, delimiter)
    begins = np.concatenate([[0], ends[:-1]])
    places = np.searchsorted(RecordScanner(delimiter).delimiters(data), ends)
    widths = 1 + np.diff(places, prepend=0)
    is_blank = np.isin(np.frombuffer(data, dtype=np.uint8), list(blanks_beside(delimiter) + b"\r\n"))
    is_row = with_empty | ~np.logical_and.reduceat(is_blank, begins)
    return Records(begins[is_row], ends[is_row], widths[is_row])


def chosen_records(data: bytes, records: Records, which: np.ndarray) -> bytes:
    """Return the bytes of some records of a block, each ended by a line feed."""
    copy = np.frombuffer(data, dtype=np.uint8).copy()
    last = copy[records.ends - 1]
    copy[records.ends - 1] = np.where(last == RETURN, LINE_FEED, last)
    changes = np.zeros(len(data) + 1, dtype=np.int8)
    changes[records.begins[which]] += 1
    changes[records.ends[which]] -= 1
    return copy[np.cumsum(changes[:-1], dtype=np.int8) > 0].tobytes()


def record_blocks(source: ByteSource, where: str, delimiter: str, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield the text of a source in blocks of whole records, each as soon as it is complete.

    Args:
        source: the text, in UTF-8.
        where: the name of the file in errors.
        delimiter: the character between values.
        block_bytes: the number of bytes to read at a time.
    """
    scanner, line = RecordScanner(delimiter), 1
    begun = bytearray()  # the record that is not complete yet
    while piece := source.read(min(block_bytes, LONGEST_ROW)):
        if scanner.is_after_return and piece.startswith(b"\n"):
            piece = piece[1:]
            if not piece:
                scanner = RecordScanner(delimiter)
                continue
        first, last = scanner.first_and_last_end(piece)
        if len(begun) + (first or len(piece)) > LONGEST_ROW:
            raise TableFileError(
                f"a row of more than {LONGEST_ROW:,} bytes, the limit. Is it a table with a row on each line? Or a "
                "quotation mark is not closed.",
                file=where,
                line=line,
                remedies="correct the file there",
            )
        if not last:
            begun += piece
            continue
        yield RecordBlock(data := bytes(begun) + piece[:last], line)
        line += line_ends(data)
        begun = bytearray(piece[last:])
    if begun and scanner.is_quoted:
        raise TableFileError(
            "a quotation mark in this row is not closed, up to the end of the file.",
            file=where,
            line=line,
            remedies="correct the file there",
        )
    if begun:
        yield RecordBlock(bytes(begun), line)
