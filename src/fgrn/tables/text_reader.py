"""Reading text tables (CSV, TSV) in batches with constant memory; a table in memory is the batches joined.

Blocks of whole records (`text_records`) are parsed by Arrow, each value as text (`text_types` converts numbers). Values
are trimmed. In a table of one column an empty line is a row with a missing value; in others empty lines are skipped, as
are those before the line of names. A line of blanks is an empty line.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import Remedy, TableFileError
from .text_header import column_names, detect_delimiter
from .text_options import TextOptions
from .text_records import (
    LONGEST_ROW,
    RecordBlock,
    blanks_beside,
    chosen_records,
    record_blocks,
    record_ends,
    split_records,
)
from .text_source import TextSource, line_ends, open_table
from .text_types import ColumnTypes, encode_text, missing_values

PARSED_BYTES = 2**22
"""The number of bytes to parse at a time."""

LONGEST_VALUE = 2**16
"""The most bytes of a value: a longer one has a quotation mark that is not closed."""

LONGEST_SHOWN = 40
"""The most characters of a value in an error."""

ENCODING = Remedy("state the encoding, such as cp1252,", encoding=...)
"""The remedy for bytes that are not UTF-8 text."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BadRow(NamedTuple):
    """A row that cannot be read: its position and the reason.

    `row` is counted from 0 and `line`, if known, from 1; `kind` is the reason in a few words; `column` and `value` are
    given if one value is the reason. A `fatal` row is an error even if bad rows are skipped. The `remedies` are those
    of its error, beside skipping the row.
    """

    row: int
    why: str
    kind: str
    column: str = ""
    value: object = None
    line: int | None = None
    fatal: bool = False
    remedies: tuple[Remedy | str, ...] = ()


class TextBatch(NamedTuple):
    """Some rows of a text file.

    table     an Arrow table of dictionaries
    numbers   the number of each row in its file, counted from 0
    missing   by column: the words for missing values in it, and the number of rows of each
    """

    table: Any
    numbers: Sequence[int]
    missing: Mapping[str, Mapping[str, int]]


def infinite(row: int, column: str, value: float) -> BadRow:
    """Return the BadRow for an infinite number, which no column may hold."""
    return BadRow(row, f"{value} is not a finite number", "not a finite number", column, value)


def bad_row_error(where: str, bad: BadRow) -> TableFileError:
    """Return the error for a row that cannot be read."""
    skip = () if bad.fatal else (Remedy("leave such rows out", on_bad="skip"),)
    return TableFileError(
        f"{bad.why}. Rows are counted from 0.",
        file=where,
        row=bad.row,
        line=bad.line,
        column=bad.column or None,
        value=bad.value,
        remedies=(*bad.remedies, *skip),
    )


def read_table(name: str, where: str, options: TextOptions) -> tuple[Any, Mapping[str, Counter[str]]]:
    """Return all rows of a text file as an Arrow table, None without rows, and the words for missing values."""
    import pyarrow as pa

    from .spool import without_dictionaries

    def refuse(bad: BadRow) -> None:
        raise bad_row_error(where, bad)

    types = ColumnTypes(options.decimal)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    tables = []
    for batch in read_batches(name, where, options, refuse, in_memory=True):
        types.see(batch.table)
        for column, some in batch.missing.items():
            words[column].update(some)
        tables.append(batch.table)
    if not tables:
        return None, words
    return pa.concat_tables([without_dictionaries(types.typed(table)) for table in tables]), words


def read_batches(
    name: str,
    where: str,
    options: TextOptions,
    on_bad: Callable[[BadRow], None],
    *,
    rows: int | None = None,
    in_memory: bool = False,
    block_bytes: int | None = None,
) -> Iterator[TextBatch]:
    """Yield batches of a text file, or of standard input ("-"), as soon as their rows are read.

    Args:
        name: the name of the file.
        where: the name of the file in errors.
        options: how the text is written.
        on_bad: called with every row that cannot be read; if it returns, the row is skipped.
        rows: the maximum number of rows of a batch.
        in_memory: whether all batches will be held in memory, which limits the size that a gzip file may unpack to;
            a pipe is then read in large blocks.
        block_bytes: the number of bytes to parse at a time, None for PARSED_BYTES; rows and errors do not depend on it.
    """
    with open_table(name, in_memory) as file:
        source = TextSource(file, where, options.encoding, live=name == "-" and not in_memory)
        delimiter = options.delimiter or detect_delimiter(source.sample, where)
        blocks = record_blocks(source, where, delimiter, block_bytes or PARSED_BYTES)
        missing = missing_values(options.missing)
        parser, first = None, 0
        for block in _from_first_record(blocks, where, delimiter, options.header):
            if parser is None:
                parser, block = _start_parser(block, where, delimiter, options.header)
            if not block.data:
                continue
            parsed = parser.parse_block(block, first)
            for table, numbers in parsed.parts(on_bad, where):
                for piece, those in _pieces(table, numbers, rows):
                    yield _text_batch(piece, parser.names, those, missing)
            first += parsed.total


def _from_first_record(
    blocks: Iterator[RecordBlock], where: str, delimiter: str, header: bool
) -> Iterator[RecordBlock]:
    """Yield blocks from the first line that is not blank; without a header, preceded by blank lines."""
    begun, before, line = False, b"", 1
    for block in blocks:
        if begun:
            yield block
            continue
        end = _blank_end(block.data, delimiter)
        if header:
            before, line = b"", block.line + line_ends(block.data[:end])
            data = block.data[end:]
        else:
            data = before + block.data
            if len(data) > LONGEST_ROW and end == len(block.data):
                raise TableFileError(f"it begins with more than {LONGEST_ROW:,} bytes of empty lines.", file=where)
        begun = end < len(block.data)
        if begun:
            yield RecordBlock(data, line)
        before = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # else \r and \n at a border would be one line end


def _blank_end(data: bytes, delimiter: str) -> int:
    """Return the offset where the blank lines at the beginning of a block end."""
    blanks = blanks_beside(delimiter)
    found = re.match(rb"(?:[%s]*(?:\r\n|\r|\n))*" % blanks, data)
    end = 0 if found is None else found.end()
    return end if data[end:].strip(blanks) else len(data)


def _start_parser(block: RecordBlock, where: str, delimiter: str, header: bool) -> tuple[_Parser, RecordBlock]:
    """Return the parser of a table that begins with a block, and the block without the header."""
    before = 0 if header else _blank_end(block.data, delimiter)
    end = int(record_ends(block.data[before:], delimiter)[0])
    record = block.data[before : before + end]
    values = _record_values(record, delimiter)
    if not header:
        return _Parser([f"x{place}" for place in range(len(values))], delimiter), block
    for value in values:
        if len(value) > LONGEST_VALUE:
            begins = value[:LONGEST_SHOWN].decode("utf-8", "replace")
            raise TableFileError(
                f"the name of a column has more than {LONGEST_VALUE:,} bytes, from {begins!r} on. A quotation mark "
                "before it is probably not closed.",
                file=where,
                line=block.line,
                value=begins,
                remedies="correct the file there",
            )
    try:
        names = column_names([value.decode().strip() for value in values], where)
    except UnicodeDecodeError as error:
        raise TableFileError(
            f"the names of its columns are not UTF-8 ({error.object[:LONGEST_SHOWN]!r}).",
            file=where,
            line=block.line,
            value=error.object[:LONGEST_SHOWN],
            remedies=ENCODING,
        ) from None
    return _Parser(names, delimiter), RecordBlock(block.data[end:], block.line + line_ends(record))


def _record_values(record: bytes, delimiter: str) -> list[bytes]:
    """Return the values of one record, split by Arrow."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    most = 1 + record.count(delimiter.encode())
    found = arrow.read_csv(
        pa.BufferReader(_with_second_mark(record) + b"\n"),
        arrow.ReadOptions(autogenerate_column_names=True, block_size=_one_block(record), use_threads=False),
        arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        arrow.ConvertOptions(column_types={f"f{place}": pa.binary() for place in range(most)}),
    )
    return [column[0].as_py() for column in found.columns]


def _one_block(data: bytes) -> int:
    """Return a block size with which Arrow does not split the data."""
    return len(data) + 64


def _with_second_mark(data: bytes) -> bytes:
    """Return the data with its byte order mark doubled, if any, because Arrow removes one."""
    return BYTE_ORDER_MARK + data if data.startswith(BYTE_ORDER_MARK) else data


class _Parser:
    """Parses blocks of whole records into columns of text."""

    def __init__(self, names: list[str], delimiter: str) -> None:
        self.names, self.delimiter = names, delimiter
        self._places = [f"f{place}" for place in range(len(names))]
        self._has_empty = len(names) == 1  # an empty line is a row

    def parse_block(self, block: RecordBlock, first: int) -> _ParsedBlock:
        """Return the rows of a block, the first of which has the number `first`."""
        import pyarrow as pa

        try:
            table = self._table(block.data, self._as_text)
        except pa.ArrowInvalid:
            table, numbers, bad = self._parse_readable(block.data)
        else:
            numbers, bad = np.arange(len(table)), []
        total = len(numbers) + len(bad)
        bad += self._too_long(table, numbers) if len(block.data) > LONGEST_VALUE else []
        return _ParsedBlock(table, numbers + first, self._with_lines(block, bad, first), total)

    @cached_property
    def _text_schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([(place, pa.string()) for place in self._places])

    @cached_property
    def _as_text(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow

        return arrow.ConvertOptions(column_types=dict.fromkeys(self._places, pa.string()), strings_can_be_null=False)

    @cached_property
    def _as_bytes(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow

        return arrow.ConvertOptions(column_types=dict.fromkeys(self._places, pa.binary()), strings_can_be_null=False)

    def _table(self, data: bytes, convert: Any) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow

        return arrow.read_csv(
            pa.BufferReader(_with_second_mark(data)),
            arrow.ReadOptions(
                column_names=self._places, block_size=_one_block(data), use_threads=len(data) > LONGEST_VALUE
            ),
            arrow.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=not self._has_empty
            ),
            convert,
        )

    def _parse_readable(self, data: bytes) -> tuple[Any, np.ndarray, list[BadRow]]:
        """Return the rows that can be read, their numbers, and the others: wrong number of values, or not UTF-8."""
        import pyarrow as pa

        records = split_records(data, self.delimiter, self._has_empty)
        is_whole = records.widths == len(self.names)
        bad = [self._ragged(row, int(records.widths[row])) for row in np.flatnonzero(~is_whole).tolist()]
        numbers = np.flatnonzero(is_whole)
        if not len(numbers):
            return self._text_schema.empty_table(), numbers, bad
        table = self._table(chosen_records(data, records, numbers), self._as_bytes)
        is_text = np.ones(len(table), dtype=bool)
        for name, column in zip(self.names, table.columns, strict=True):
            try:
                column.cast(pa.string())
                continue
            except pa.ArrowInvalid:
                pass
            for place, value in enumerate(column.to_pylist()):
                if is_text[place] and not _is_utf8(value):
                    is_text[place] = False
                    shown = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + b"..."
                    why, row = f"{shown!r} is not UTF-8", int(numbers[place])
                    bad.append(BadRow(row, why, "not UTF-8", name, shown, remedies=(ENCODING,)))
        return table.filter(pa.array(is_text)).cast(self._text_schema), numbers[is_text], bad

    def _ragged(self, row: int, width: int) -> BadRow:
        """Return the BadRow for a wrong number of values."""
        values = "1 value" if width == 1 else f"{width:,} values"
        why = f"{values}, where the first line has {len(self.names):,} of them"
        if self.names[0].startswith("#"):
            comment = "remove the first line from the file if it is a comment, as its '#' suggests"
            return BadRow(row, why, "more or fewer values than others", remedies=(comment,))
        remedies = (
            f"correct the line (a value that holds {self.delimiter!r} is put in quotation marks)",
            Remedy("state what stands between values", delimiter=...),
        )
        return BadRow(row, why, "more or fewer values than others", remedies=remedies)

    def _too_long(self, table: Any, numbers: np.ndarray) -> list[BadRow]:
        """Return the BadRow for the first row with a value that is too long."""
        import pyarrow.compute as pc

        found = []
        for name, column in zip(self.names, table.columns, strict=True):
            lengths = pc.binary_length(column)
            if (pc.max(lengths).as_py() or 0) > LONGEST_VALUE:
                place = int(np.flatnonzero(lengths.to_numpy() > LONGEST_VALUE)[0])
                begins = column[place].as_py()[:LONGEST_SHOWN]
                why = (
                    f"a value has more than {LONGEST_VALUE:,} bytes, from {begins!r} on. A quotation mark before it is "
                    "probably not closed"
                )
                remedies = ("correct the file there",)
                found.append(BadRow(int(numbers[place]), why, "too long", name, begins, fatal=True, remedies=remedies))
        return sorted(found, key=lambda row: row.row)[:1]

    def _with_lines(self, block: RecordBlock, bad: list[BadRow], first: int) -> list[BadRow]:
        """Return bad rows in order, with their numbers in the file and the lines they begin on."""
        if not bad:
            return []
        begins = split_records(block.data, self.delimiter, self._has_empty).begins
        out, line, place = [], block.line, 0
        for row in sorted(bad, key=lambda row: row.row):
            line += line_ends(block.data[place : begins[row.row]])
            place = begins[row.row]
            out.append(row._replace(row=row.row + first, line=line))
        return out


class _ParsedBlock(NamedTuple):
    """A block as columns of text: rows that can be read with their numbers, bad rows, and the number of rows."""

    table: Any
    numbers: np.ndarray
    bad: Sequence[BadRow]
    total: int

    def parts(self, on_bad: Callable[[BadRow], None], where: str) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the rows before the first bad row and, if bad rows are skipped, the other rows."""
        before = int(np.searchsorted(self.numbers, self.bad[0].row)) if self.bad else len(self.numbers)
        yield self.table.slice(0, before), self.numbers[:before]
        for row in self.bad:
            if row.fatal:
                raise bad_row_error(where, row)
            on_bad(row)
        yield self.table.slice(before), self.numbers[before:]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _pieces(table: Any, numbers: np.ndarray, rows: int | None) -> Iterator[tuple[Any, Sequence[int]]]:
    """Yield the rows in pieces of at most `rows`."""
    rows = rows or len(numbers)
    for first in range(0, len(numbers), rows or 1):
        yield table.slice(first, rows), _as_range(numbers[first : first + rows])


def _as_range(numbers: np.ndarray) -> Any:
    """Return the numbers of rows, as a range if they are consecutive."""
    begin, end = int(numbers[0]), int(numbers[-1]) + 1
    return range(begin, end) if end - begin == len(numbers) else numbers


def _text_batch(table: Any, names: list[str], numbers: Sequence[int], missing: Any) -> TextBatch:
    """Return some rows of text as a batch, with columns as Arrow dictionaries."""
    import pyarrow as pa

    columns, words = zip(*(encode_text(column.combine_chunks(), missing) for column in table.columns), strict=True)
    met = {name: some for name, some in zip(names, words, strict=True) if some}
    return TextBatch(pa.table(list(columns), names=names), numbers, met)
