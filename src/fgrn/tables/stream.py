"""Tables larger than memory: files, globs, datasets and iterators of frames, read in batches, repeatedly."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..core import settings
from ..core.exceptions import (
    FgrnError,
    FgrnWarning,
    Remedy,
    TableFileError,
    counted,
    first_line,
    shortened,
    unknown_name,
    warn,
)
from ..core.labels import Label
from . import frames, table_file
from .disk import unnamed, write_error
from .parquet import RowGroups
from .spool import Batch, Spool, as_arrow, cut, with_dictionaries, without_dictionaries
from .stream_source import expanded_path, fragments_of, is_list_of_paths, is_path, is_read_once
from .table_file import name_in_errors
from .table_warnings import warn_of_missing_words
from .text_header import check_unique_names
from .text_options import TextOptions
from .text_reader import BadRow, bad_row_error, read_batches
from .text_source import open_table
from .text_types import ColumnTypes

BATCH = 2**16
"""The default number of rows of a batch."""

POLICIES = ("error", "skip")


class StreamPart(NamedTuple):
    """A part of a stream that another process reads: a frame, or row groups of Parquet files.

    `names` are the columns of the whole stream; warnings are appended to `notes`.
    """

    called: str
    names: tuple[str, ...]
    shares: Sequence[RowGroups]
    frame: Any
    cache: str | None
    notes: list[str]


class Stream:
    """A table that need not fit into memory, for `Network.learn`, `fit` of every estimator, and iteration.

    Iterating yields one frame after the other, in order: those of an iterator unchanged, Arrow tables from files. Text
    files are read once, into an unnamed file in the cache folder; Parquet files and datasets are read again each time.

    Args:
        source: a path; a glob, such as ``logs/*.csv``; a folder; a list of these; "-" for standard input; an Arrow
            dataset; an iterator of frames; a function that returns one, which can be read repeatedly.
        columns: the columns to read; None for all of the first file or frame.
        drop: columns to leave out.
        rows: the maximum number of rows of a batch.
        cache: the folder for temporary data; None for that of the environment variable TMPDIR, /var/tmp, or the
            system's. It needs two to four bytes for each value, and at most the size of the text files. Its files have
            no name, so none is left behind.
        on_bad: "error" to stop at a row that cannot be read, with its file, row, column and value; "skip" to leave such
            rows out and count them in `left_out`.
        format: "csv", "tsv" or "parquet"; None for the one that the extensions of the names indicate.
        missing: words or numbers that mean a missing value in text files; () for none; None for the empty cell, ?, NA,
            NaN and others (`fgrn.tables.missing.MISSING`), with a warning when learning meets them.
        header: whether the first line of a text file has the names of the columns; otherwise they are x0, x1, ...
        delimiter: the character between values of text files; None to find it in the first lines.
        encoding: the encoding of text files; None for that of the byte order mark, or UTF-8.
        decimal: the decimal mark of numbers in text files: "." or ",".

    Text is read as by `fgrn.tables.table_file.read`; in a table of one column an empty line is a missing value. All
    files of a stream are text, or all are Parquet. Columns are matched by name, in any order. A column that a later
    file lacks is missing in its rows, with a warning; one that the first file lacks is an error.
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        rows: int = BATCH,
        cache: str | os.PathLike[str] | None = None,
        on_bad: str = "error",
        format: str | None = None,
        missing: Iterable[Label] | Label | None = None,
        header: bool = True,
        delimiter: str | None = None,
        encoding: str | None = None,
        decimal: str = ".",
    ) -> None:
        settings.whole("rows", rows, 1)
        settings.choice("on_bad", on_bad, POLICIES)
        if not frames.is_source(source) and not is_list_of_paths(source):
            raise TableFileError(
                "A stream is made of a path, a glob, a folder, a list of these, a dataset of Arrow, an iterator of "
                f"frames, or a function that returns one. Got {type(source).__name__} instead."
            )
        self._source, self.rows, self.cache, self.on_bad = source, rows, cache, on_bad
        self._columns = None if columns is None else settings.variable_names("columns", columns)
        self._drop = frozenset(settings.variable_names("drop", drop))
        settings.choice("format", format, (None, *table_file.TABLE_KINDS), TableFileError)
        self.format = format
        self._text = TextOptions(missing, header, delimiter, encoding, decimal)
        self._spool: Spool | None = None
        self._copies: dict[str, Any] = {}
        self._used = False
        self._warned: set[tuple[str, str]] = set()
        self._has_warned_of_missing = False
        self._has_nulls = False
        self._part: StreamPart | None = None
        self.left_out: Counter[str] = Counter()
        """The reasons for which rows were skipped in the latest iteration, with their numbers of rows."""
        self.missing_words: dict[str, Counter[str]] = {}
        """By column of text files, the words taken as missing values in the latest iteration, and how often."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the files in the cache of this process."""
        return {**self.__dict__, "_spool": None, "_copies": {}}

    def absolute(self) -> Stream:
        """Return the stream with absolute paths, for other processes."""
        other = copy(self)
        given = self._source if is_list_of_paths(self._source) else [self._source]
        other._source = [str(Path(one).absolute()) for one in given]
        return other

    def part(self, part: StreamPart) -> Stream:
        """Return a stream of some of the rows, with the same options, to be read by another process."""
        other = copy(self)
        other._part, other.left_out, other._warned = part, Counter(), set()
        other.cache = part.cache if self.cache is None else self.cache
        return other

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches():
            yield without_dictionaries(batch.frame) if hasattr(batch.frame, "column_names") else batch.frame

    def arrow_tables(self) -> Iterator[Any]:
        """Yield the rows in batches as Arrow tables, whatever frames they come in."""
        for batch in self.batches():
            yield without_dictionaries(as_arrow(batch))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        first = next(iter(self.again().batches()), None)
        if first is None:
            raise TableFileError(f"{self.called} holds no rows.")
        return tuple(_names_of(first.frame))

    @property
    def called(self) -> str:
        """The name of the source in error messages."""
        if isinstance(self._source, (str, os.PathLike)):
            return name_in_errors(os.fspath(self._source))
        return f"This {type(self._source).__name__}"

    def again(self) -> Stream:
        """Return a stream that can be iterated repeatedly: an iterator is copied to disk."""
        if self._spool is None and is_read_once(self._source):
            spool = Spool(self.cache)
            spool.fill(self._read_source())
            self._spool = spool
        return self

    def bad(self, where: str, row: BadRow) -> None:
        """Skip a bad row and count it, or raise an error, by `on_bad`."""
        if self.on_bad == "error":
            raise bad_row_error(where, row)
        self.left_out[f"{row.kind}, column {row.column!r}" if row.column else row.kind] += 1

    def report(self) -> str:
        """Return a sentence on the rows that were skipped; empty if there are none."""
        rows = sum(self.left_out.values())
        if not rows:
            return ""
        parts = [f"{count:,} ({why})" for why, count in self.left_out.most_common()]
        return f"{rows:,} {'row was' if rows == 1 else 'rows were'} left out: {shortened(parts, 4)}."

    @property
    def has_missing(self) -> bool:
        """Whether a value may be missing: known of the text files that were read, assumed for other sources."""
        return self._has_nulls or not self._is_text

    def issue_warnings(self) -> None:
        """Warn of skipped rows and, once, of words taken as missing values by default."""
        if self.left_out:
            warn(f"{self.called}: {self.report()}", FgrnWarning)
        if self._text.missing_by_default and not self._has_warned_of_missing:
            self._has_warned_of_missing = bool(self.missing_words)
            warn_of_missing_words(self.missing_words)

    def once(self) -> Iterator[Batch]:
        """Yield batches without a cache: the types of text columns are those found in the rows so far."""
        if self._spool is not None or not self._is_text:
            yield from self.batches()
            return
        self.left_out = Counter()
        types = ColumnTypes(self._text.decimal)
        for batch in self._read_source():
            table = with_dictionaries(batch.frame)
            types.see(table)
            yield batch._replace(frame=types.typed(table))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in batches, with their origin."""
        if self._spool is not None:
            self.left_out = Counter(self._spool.left_out)
            yield from self._spool.batches(self.rows)
            return
        self.left_out = Counter()
        if not self._is_text:
            yield from self._read_source()
            return
        spool = Spool(self.cache, ColumnTypes(self._text.decimal))
        spool.fill(self._read_source())
        spool.left_out = Counter(self.left_out)
        self._spool = spool
        yield from self.batches()

    @property
    def _is_text(self) -> bool:
        """Whether the source consists of text files."""
        if self._part is not None or not self.is_files:
            return False
        kinds = {table_file.format_of(file, self.format) for file in self.files}
        if "parquet" in kinds and len(kinds) > 1:
            raise TableFileError(
                f"{self.called} has text files and Parquet files.",
                remedies="name the files of one kind, by a pattern such as 'folder/*.csv'",
            )
        return "parquet" not in kinds

    @property
    def is_files(self) -> bool:
        """Whether the source consists of paths, globs or folders."""
        return is_path(self._source) or is_list_of_paths(self._source)

    @property
    def files(self) -> list[str]:
        """All files of the paths, globs and folders, in order."""
        given = self._source if is_list_of_paths(self._source) else [self._source]
        return [file for one in given for file in expanded_path(os.fspath(one), self.format)]

    def _read_source(self) -> Iterator[Batch]:
        """Yield batches from the source, with the chosen columns in order."""
        names = None if self._part is None else self._part.names
        self.missing_words = {}
        every: dict[str, None] = {}
        with closing(self._raw_batches()) as raw:  # closes files and stops reading on an error
            for batch in raw:
                found = _names_of(batch.frame)
                every |= dict.fromkeys(found)
                if names is None:
                    names = self.chosen(found)
                frame = self._select_columns(batch, found, names)
                self._has_nulls |= hasattr(frame, "column_names") and any(one.null_count for one in frame.columns)
                yield batch._replace(frame=frame)
        if every and self._part is None:
            self.check_dropped(every)

    def check_dropped(self, every: Iterable[str]) -> None:
        """Raise an error if `drop` names a column that no file has."""
        for name in self._drop if self._columns is None else ():
            if name not in every:
                raise unknown_name("column", name, every)

    def chosen(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns to read, given those of the first batch."""
        chosen = found if self._columns is None else self._columns
        names = tuple(name for name in chosen if name not in self._drop)
        if not names:
            raise TableFileError("it has no column left to read.", file=self.called)
        return names

    def _select_columns(self, batch: Batch, found: Iterable[str], names: tuple[str, ...]) -> Any:
        """Return the frame of a batch with the chosen columns in order; absent ones are missing."""
        if list(found) == list(names):
            return batch.frame
        found, wanted = dict.fromkeys(found), frozenset(names)
        lacking = {name: None for name in names if name not in found}
        if len(lacking) == len(names):
            raise TableFileError(f"it has none of the columns {shortened(map(repr, names))}.", file=batch.where)
        strange = [name for name in found if name not in wanted and name not in self._drop]
        if strange and self._columns is None:
            ways = Remedy("list the columns to read", columns=...), Remedy("leave it out", drop=[strange[0]])
            raise TableFileError(
                "what came before has no such column.", file=batch.where, column=strange[0], remedies=ways
            )
        for name in lacking:
            if (batch.where, name) not in self._warned:
                self._warned.add((batch.where, name))
                self._warn_or_note(f"{batch.where} has no column {name!r}: unknown in its rows.")
        if hasattr(batch.frame, "column_names"):
            import pyarrow as pa

            rows = len(batch.numbers)
            return pa.table({n: pa.nulls(rows) if n in lacking else batch.frame[n] for n in names})
        columns = frames.columns(batch.frame)
        return {n: frames.missing_column(len(batch.numbers)) if n in lacking else columns[n] for n in names}

    def _warn_or_note(self, what: str) -> None:
        if self._part is None:
            warn(what, FgrnWarning)
        else:
            self._part.notes.append(what)

    def _raw_batches(self) -> Generator[Batch, None, None]:
        """Yield batches with their columns as in the source."""
        source = self._source
        if self._part is not None and self._part.frame is not None:
            yield from self._of_frames([self._part.frame], self._part.called)
        elif self._part is not None:
            for share in self._part.shares:
                yield from self._parquet(share.file, share)
        elif hasattr(source, "get_fragments"):
            yield from self._fragments(source)
        elif self.is_files:
            for file in self.files:
                kind = table_file.format_of(file, self.format)
                yield from self._parquet(file) if kind == "parquet" else self._text_batches(file, kind)
        else:
            if is_read_once(source):
                if self._used:
                    raise TableFileError(
                        "This iterator has been used up.",
                        remedies="to read it again, pass a function that returns a new one",
                    )
                self._used = True
            yield from self._of_frames(source() if callable(source) else source)

    def _of_frames(self, source: Any, called: str = "") -> Iterator[Batch]:
        for number, frame in enumerate(source):
            if isinstance(frame, Mapping):
                frame = {name: frames.as_column(column, name) for name, column in frame.items()}
            frame = frames.collected(frame)
            rows = len(frame) if frames.is_frame(frame) else frames.row_count(frames.columns(frame))
            if not rows:
                continue
            yield from cut(Batch(frame, called or f"batch {number}", range(rows)), self.rows)

    def _fragments(self, dataset: Any) -> Iterator[Batch]:
        for fragment in fragments_of(dataset):
            where, first = repr(fragment.path) if getattr(fragment, "path", "") else "a fragment", 0
            try:
                for batch in fragment.to_batches(schema=dataset.schema, batch_size=self.rows, batch_readahead=2):
                    if batch.num_rows:
                        yield Batch(
                            table_file.with_types_of_text(_table_of([batch])),
                            where,
                            range(first, first + batch.num_rows),
                        )
                    first += batch.num_rows
            except FgrnError:
                raise
            except Exception as error:  # pyarrow raises several kinds
                why = f"it cannot be read after {counted(first, 'row')}: {first_line(error)}"
                raise TableFileError(why, file=where) from error

    def _parquet(self, name: str, share: RowGroups | None = None) -> Iterator[Batch]:
        import pyarrow.parquet as parquet

        first = 0 if share is None else share.first
        groups = None if share is None else list(share.groups)
        with ExitStack() as stack:
            at_once = Path(name).is_file() and not name.endswith(".gz")
            source = stack.enter_context(open_table(name)) if at_once else self._seekable_copy(name)
            try:
                with parquet.ParquetFile(source) as found:
                    check_unique_names(found.schema_arrow.names, name_in_errors(name))
                    wanted = (
                        None if self._columns is None else [n for n in self._columns if n in found.schema_arrow.names]
                    )
                    for batch in found.iter_batches(self.rows, groups, wanted):
                        if batch.num_rows:
                            numbers = range(first, first + batch.num_rows)
                            yield Batch(
                                table_file.with_types_of_text(_table_of([batch])), name_in_errors(name), numbers
                            )
                        first += batch.num_rows
            except FgrnError:
                raise
            except Exception as error:
                where = f" after {counted(first, 'row')}" if first else ""
                why = f"it cannot be read as parquet{where}: {first_line(error)}"
                raise TableFileError(why, file=name_in_errors(name)) from error

    def _seekable_copy(self, name: str) -> Any:
        """Return a copy of a pipe or gzipped file, as Parquet is read from its end."""
        if name not in self._copies:
            copy = unnamed(self.cache, self)
            try:
                with open_table(name, in_memory=True) as file:
                    shutil.copyfileobj(file, copy)
            except FgrnError:
                raise
            except OSError as error:
                raise write_error(error, self.cache) from error
            self._copies[name] = copy
        self._copies[name].seek(0)
        return self._copies[name]

    def _text_batches(self, name: str, kind: str) -> Iterator[Batch]:
        where = name_in_errors(name)
        options = self._text
        if kind == "tsv" and options.delimiter is None:
            options = replace(options, delimiter="\t")
        for batch in read_batches(name, where, options, partial(self.bad, where), rows=self.rows):
            for column, words in batch.missing.items():
                if column not in self._drop and (self._columns is None or column in self._columns):
                    self.missing_words.setdefault(column, Counter()).update(words)
            yield Batch(batch.table, where, batch.numbers)


def stream_of(data: Any, missing: Iterable[Label] | None = None) -> Stream:
    """Return the stream of a source; `missing` and the empty cell are missing values unless it is a stream already."""
    if isinstance(data, Stream):
        return data
    return Stream(data, missing=None if missing is None else [*missing, ""])


def _names_of(frame: Any) -> list[str]:
    if hasattr(frame, "column_names"):
        return list(frame.column_names)
    return list(frame) if isinstance(frame, Mapping) else list(frames.columns(frame))


def _table_of(batches: list[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches)
