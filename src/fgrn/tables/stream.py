"""Tables larger than memory: files, globs, datasets and iterators of frames, as batches that can be read again."""

from __future__ import annotations

import glob
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
from ..core.exceptions import FgrnError, FgrnWarning, TableFileError, first_line, shortened, unknown_name, warn
from ..core.labels import Label
from . import frames, table_file
from .disk import full, unnamed
from .doubts import tell_missing
from .parquet import Share
from .spool import Batch, Spool, cut, with_dictionaries, without_dictionaries
from .table_file import called
from .text_header import check_names
from .text_options import TextOptions
from .text_reader import BadRow, bad_row_error, read_batches
from .text_source import opened
from .text_types import ColumnTypes

BATCH = 2**16
"""Rows of a batch, unless said otherwise."""

POLICIES = ("error", "skip")


class Part(NamedTuple):
    """Some rows of a stream, which are read elsewhere: a frame, or some row groups of Parquet files.

    `names` are the columns of the whole stream, and what there is to say is put into `told`.
    """

    called: str
    names: tuple[str, ...]
    shares: Sequence[Share]
    frame: Any
    cache: str | None
    told: list[str]


class Stream:
    """Rows that need not fit into memory, for `Network.learn`, `fit` of every estimator, and to be walked through.

    Walking through it gives one frame after the other, in order: those of an iterator as they are, tables of Arrow from
    files. Text files are read once, into a file without a name in the cache folder; Parquet files and datasets are read
    anew each time.

    Args:
        source: a path; a glob, such as ``logs/*.csv``; a folder; a list of these; "-" for standard input; a dataset of
            Arrow; an iterator of frames; a function that returns one, so that it can be walked through again.
        columns: which columns to read, all of the first file or frame unless given.
        drop: columns to leave out.
        rows: how many rows a batch has, at most.
        cache: the folder of what has to be kept; unless given, that of the environment variable TMPDIR, /var/tmp, or
            the system's. It needs two to four bytes for each value, and the size of text files at most; nothing in
            it has a name, so nothing is left behind.
        on_bad: "error" for a row that cannot be read, with its file, row, column and value; "skip" leaves such rows out
            and counts them in `left_out`.
        format: "csv", "tsv" or "parquet"; by the ends of the names unless given.
        missing: words or numbers that are missing values in text files; () for none. Unless given they are the empty
            cell, ?, NA, NaN and the like (`fgrn.core.labels.MISSING`), and learning warns which were met.
        header: whether the first line of a text file names the columns; else they are called x0, x1, ...
        delimiter: between values of text files; seen in the first lines unless given.
        encoding: of text files; by their byte order mark, or UTF-8, unless given.
        decimal: what stands before the fraction of a number in a text file: "." or ",".

    Text is read as `fgrn.tables.table_file.read` does it; in a table of one column an empty line is a missing value.
    Files of one stream are of one kind. Columns are found by name, in any order; one that a file does not have is
    unknown in its rows, with a warning, and one that the first file does not have is an error.
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
        if not frames.is_source(source) and not _is_list_of_paths(source):
            raise TableFileError(
                "A stream is made of a path, a glob, a folder, a list of these, a dataset of Arrow, an iterator of "
                f"frames, or a function that returns one. Got {type(source).__name__} instead."
            )
        self._source, self.rows, self.cache, self.on_bad = source, rows, cache, on_bad
        self._columns = None if columns is None else settings.names("columns", columns)
        self._drop = frozenset(settings.names("drop", drop))
        settings.choice("format", format, (None, *table_file.KINDS), TableFileError)
        self.format = format
        self._text = TextOptions(missing, header, delimiter, encoding, decimal)
        self._spool: Spool | None = None
        self._copies: dict[str, Any] = {}
        self._used = False
        self._told: set[tuple[str, str]] = set()
        self._has_told_missing = False
        self._part: Part | None = None
        self.left_out: Counter[str] = Counter()
        """Why rows were left out, and how many for each reason, of the last time through."""
        self.missing_words: dict[str, Counter[str]] = {}
        """By column of text files: the words taken as missing values, and in how many rows each is; as `left_out`."""

    def __getstate__(self) -> dict[str, Any]:
        """What can be sent elsewhere: all but the files in the cache of this process."""
        return {**self.__dict__, "_spool": None, "_copies": {}}

    def absolute(self) -> Stream:
        """The same files, wherever their names are looked up."""
        other = copy(self)
        given = self._source if _is_list_of_paths(self._source) else [self._source]
        other._source = [str(Path(one).absolute()) for one in given]
        return other

    def part(self, part: Part) -> Stream:
        """Some of the rows, to be read elsewhere, with the same options."""
        other = copy(self)
        other._part, other.left_out, other._told = part, Counter(), set()
        other.cache = part.cache if self.cache is None else self.cache
        return other

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches():
            yield without_dictionaries(batch.frame) if hasattr(batch.frame, "column_names") else batch.frame

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        first = next(iter(self.again().batches()), None)
        if first is None:
            raise TableFileError(f"{self.called} holds no rows.")
        return tuple(_names_of(first.frame))

    @property
    def called(self) -> str:
        """What errors call it."""
        if isinstance(self._source, (str, os.PathLike)):
            return called(os.fspath(self._source))
        return f"This {type(self._source).__name__}"

    def again(self) -> Stream:
        """The same, to be walked through several times: what an iterator gives is kept on disk."""
        if self._spool is None and _is_once(self._source):
            spool = Spool(self.cache)
            spool.fill(self._first_time())
            self._spool = spool
        return self

    def bad(self, where: str, row: BadRow) -> None:
        """Leave a row out and count it, or stop."""
        if self.on_bad == "error":
            raise bad_row_error(where, row)
        self.left_out[f"{row.kind}, column {row.column!r}" if row.column else row.kind] += 1

    def report(self) -> str:
        """What was left out, in one sentence; nothing if that is nothing."""
        rows = sum(self.left_out.values())
        if not rows:
            return ""
        parts = [f"{count:,} ({why})" for why, count in self.left_out.most_common()]
        return f"{rows:,} {'row was' if rows == 1 else 'rows were'} left out: {shortened(parts, 4)}."

    def tell(self) -> None:
        """Warn of rows that were left out, and, once, of words taken as missing values that nobody gave."""
        if self.left_out:
            warn(f"{self.called}: {self.report()}", FgrnWarning)
        if self._text.missing_by_default and not self._has_told_missing:
            self._has_told_missing = bool(self.missing_words)
            tell_missing(self.missing_words)

    def once(self) -> Iterator[Batch]:
        """The same as `batches`, where nothing is kept: the columns of text are what they were seen to be so far."""
        if self._spool is not None or not self._is_text:
            yield from self.batches()
            return
        self.left_out = Counter()
        types = ColumnTypes(self._text.decimal)
        for batch in self._first_time():
            table = with_dictionaries(batch.frame)
            types.see(table)
            yield batch._replace(frame=types.typed(table))

    def batches(self) -> Iterator[Batch]:
        """The rows, with where they come from."""
        if self._spool is not None:
            self.left_out = Counter(self._spool.left_out)
            yield from self._spool.batches(self.rows)
            return
        self.left_out = Counter()
        if not self._is_text:
            yield from self._first_time()
            return
        spool = Spool(self.cache, ColumnTypes(self._text.decimal))
        spool.fill(self._first_time())
        spool.left_out = Counter(self.left_out)
        self._spool = spool
        yield from self.batches()

    @property
    def _is_text(self) -> bool:
        """Whether it is made of text files."""
        if self._part is not None or not self.is_files:
            return False
        kinds = {table_file.format_of(file, self.format) for file in self.files}
        if "parquet" in kinds and len(kinds) > 1:
            raise TableFileError(f"{self.called} has text files and Parquet files; make two streams of them.")
        return "parquet" not in kinds

    @property
    def is_files(self) -> bool:
        """Whether it is made of paths, globs or folders."""
        return _is_path(self._source) or _is_list_of_paths(self._source)

    @property
    def files(self) -> list[str]:
        """All files of paths, globs and folders, in order."""
        given = self._source if _is_list_of_paths(self._source) else [self._source]
        return [file for one in given for file in _found(os.fspath(one), self.format)]

    def _first_time(self) -> Iterator[Batch]:
        """The rows from where they come from, the columns in order."""
        names = None if self._part is None else self._part.names
        self.missing_words = {}
        every: dict[str, None] = {}
        with closing(self._raw()) as raw:  # so that nothing is read any more, whatever goes wrong
            for batch in raw:
                found = _names_of(batch.frame)
                every |= dict.fromkeys(found)
                if names is None:
                    names = self.chosen(found)
                yield batch._replace(frame=self._arranged(batch, found, names))
        if every and self._part is None:
            self.check_dropped(every)

    def check_dropped(self, every: Iterable[str]) -> None:
        """Refuse to leave out a column that no file has."""
        for name in self._drop if self._columns is None else ():
            if name not in every:
                raise unknown_name("column", name, every)

    def chosen(self, found: Sequence[str]) -> tuple[str, ...]:
        """The columns to read, of those that were found."""
        chosen = found if self._columns is None else self._columns
        names = tuple(name for name in chosen if name not in self._drop)
        if not names:
            raise TableFileError(f"{self.called} has no column left to read.")
        return names

    def _arranged(self, batch: Batch, found: Iterable[str], names: tuple[str, ...]) -> Any:
        if list(found) == list(names):
            return batch.frame
        found, wanted = dict.fromkeys(found), frozenset(names)
        lacking = {name: None for name in names if name not in found}
        if len(lacking) == len(names):
            raise TableFileError(f"{batch.where} has none of the columns {shortened(map(repr, names))}.")
        strange = [name for name in found if name not in wanted and name not in self._drop]
        if strange and self._columns is None:
            raise TableFileError(
                f"{batch.where} has a column {strange[0]!r}, which what came before it has not. List the columns to "
                "read, columns=[...], or leave it out, drop=[...]."
            )
        for name in lacking:
            if (batch.where, name) not in self._told:
                self._told.add((batch.where, name))
                self._tell(f"{batch.where} has no column {name!r}: unknown in its rows.")
        if hasattr(batch.frame, "column_names"):
            import pyarrow as pa

            rows = len(batch.numbers)
            return pa.table({n: pa.nulls(rows) if n in lacking else batch.frame[n] for n in names})
        columns = frames.columns(batch.frame)
        return {n: frames.nothing(len(batch.numbers)) if n in lacking else columns[n] for n in names}

    def _tell(self, what: str) -> None:
        if self._part is None:
            warn(what, FgrnWarning)
        else:
            self._part.told.append(what)

    def _raw(self) -> Generator[Batch, None, None]:
        """Batches as they come."""
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
            if _is_once(source):
                if self._used:
                    raise TableFileError(
                        "This iterator has been used up. Pass a function that returns a new one, to read it again."
                    )
                self._used = True
            yield from self._of_frames(source() if callable(source) else source)

    def _of_frames(self, source: Any, called: str = "") -> Iterator[Batch]:
        for number, frame in enumerate(source):
            if isinstance(frame, Mapping):
                frame = {name: frames.plain(column, name) for name, column in frame.items()}
            frame = frames.gathered(frame)
            rows = len(frame) if frames.is_frame(frame) else frames.row_count(frames.columns(frame))
            if not rows:
                continue
            yield from cut(Batch(frame, called or f"batch {number}", range(rows)), self.rows)

    def _fragments(self, dataset: Any) -> Iterator[Batch]:
        for fragment in _fragments_of(dataset):
            where, first = repr(fragment.path) if getattr(fragment, "path", "") else "a fragment", 0
            try:
                for batch in fragment.to_batches(schema=dataset.schema, batch_size=self.rows, batch_readahead=2):
                    if batch.num_rows:
                        yield Batch(
                            table_file.as_text_would_be(_table([batch])), where, range(first, first + batch.num_rows)
                        )
                    first += batch.num_rows
            except FgrnError:
                raise
            except Exception as error:  # pyarrow has several, all with a message worth reading
                raise TableFileError(f"{where} cannot be read after row {first:,}: {first_line(error)}") from error

    def _parquet(self, name: str, share: Share | None = None) -> Iterator[Batch]:
        import pyarrow.parquet as parquet

        first = 0 if share is None else share.first
        groups = None if share is None else list(share.groups)
        with ExitStack() as stack:
            at_once = Path(name).is_file() and not name.endswith(".gz")
            source = stack.enter_context(opened(name)) if at_once else self._copied(name)
            try:
                with parquet.ParquetFile(source) as found:
                    check_names(found.schema_arrow.names, called(name))
                    wanted = (
                        None if self._columns is None else [n for n in self._columns if n in found.schema_arrow.names]
                    )
                    for batch in found.iter_batches(self.rows, groups, wanted):
                        if batch.num_rows:
                            numbers = range(first, first + batch.num_rows)
                            yield Batch(table_file.as_text_would_be(_table([batch])), called(name), numbers)
                        first += batch.num_rows
            except FgrnError:
                raise
            except Exception as error:
                where = f" after row {first:,}" if first else ""
                raise TableFileError(f"{called(name)} cannot be read as parquet{where}: {first_line(error)}") from error

    def _copied(self, name: str) -> Any:
        """A file that can be read from its end, as Parquet is, of one that cannot."""
        if name not in self._copies:
            copy = unnamed(self.cache, self)
            try:
                with opened(name, in_memory=True) as file:
                    shutil.copyfileobj(file, copy)
            except FgrnError:
                raise
            except OSError as error:
                raise full(error, self.cache) from error
            self._copies[name] = copy
        self._copies[name].seek(0)
        return self._copies[name]

    def _text_batches(self, name: str, kind: str) -> Iterator[Batch]:
        where = called(name)
        options = self._text
        if kind == "tsv" and options.delimiter is None:
            options = replace(options, delimiter="\t")
        for batch in read_batches(name, where, options, partial(self.bad, where), rows=self.rows):
            for column, words in batch.missing.items():
                if column not in self._drop and (self._columns is None or column in self._columns):
                    self.missing_words.setdefault(column, Counter()).update(words)
            yield Batch(batch.table, where, batch.numbers)


def is_many(name: str) -> bool:
    """Whether a path stands for several files: a folder, or a glob that is no name of a file."""
    return name != "-" and (Path(name).is_dir() or (glob.has_magic(name) and not Path(name).exists()))


def stream_of(data: Any, missing: Iterable[Label] | None = None) -> Stream:
    """The stream of a source; `missing` stands for unknown in text, with the empty cell, unless it is a stream."""
    if isinstance(data, Stream):
        return data
    return Stream(data, missing=None if missing is None else [*missing, ""])


def _names_of(frame: Any) -> list[str]:
    if hasattr(frame, "column_names"):
        return list(frame.column_names)
    return list(frame) if isinstance(frame, Mapping) else list(frames.columns(frame))


def _found(name: str, kind: str | None) -> list[str]:
    """The files of a path, a folder or a glob, in the order of their names."""
    if name == "-" or (Path(name).exists() and not Path(name).is_dir()):  # a file, or a pipe with a name
        return [name]
    if Path(name).is_dir():
        inside = sorted(
            str(path) for path in Path(name).rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        )
        files = [one for one in inside if kind is not None or table_file.kind_of(one) is not None]
        if not files:
            raise TableFileError(f"The folder {name!r} has no table in it ({', '.join(table_file.FORMATS)}).")
        if any("=" in part for file in files for part in Path(file).relative_to(name).parts[:-1]):
            warn(
                f"The folders in {name!r} are named like values of a column, which is not read. "
                f"pyarrow.dataset.dataset({name!r}, partitioning='hive') has it.",
                FgrnWarning,
            )
        return files
    files = sorted(one for one in glob.glob(name, recursive=True) if Path(one).is_file())  # noqa: PTH207
    if not files and glob.has_magic(name):
        raise TableFileError(f"No file is called like {name!r}. Check the folder and the pattern.")
    if not files:
        raise TableFileError(f"There is no file {name!r}. Check the name and the folder.")
    return files


def _fragments_of(dataset: Any) -> Iterator[Any]:
    """The files of a dataset; of one that is filtered, which does not tell them, the rows of it in pieces."""
    import pyarrow as pa
    import pyarrow.dataset as arrow

    try:
        yield from dataset.get_fragments()
    except (ValueError, pa.ArrowInvalid):
        for batch in dataset.to_batches():
            yield from arrow.dataset(pa.Table.from_batches([batch])).get_fragments()


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _is_list_of_paths(source: Any) -> bool:
    return isinstance(source, (list, tuple)) and bool(source) and all(map(_is_path, source))


def _is_once(source: Any) -> bool:
    """Whether a source can be walked through only once."""
    if _is_path(source) or _is_list_of_paths(source) or hasattr(source, "get_fragments"):
        return False
    return not callable(source)


def _table(batches: list[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches)
