"""Encoding of tables larger than memory: read in batches, encoded once, and stored on disk for all epochs.

The codes lie column by column in a file without a name, mapped into memory, so that engines read them as they are. The
E-step is that of a table in memory, with the same blocks of rows in the same order: results are the same to the
last bit, however the rows came in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..core.exceptions import (
    EvidenceError,
    FgrnError,
    LearningError,
    TableFileError,
    unknown_name,
)
from ..core.labels import code_type, is_number
from ..flow.evidence import UNKNOWN, encode
from ..tables import frames
from ..tables.disk import Disk, unnamed, write_at
from ..tables.distinct_values import Distinct, distinct_by_column
from ..tables.encoded import EncodedTable, Evidence, Variables, column_of_each, is_weight
from ..tables.missing import is_missing_value
from .schema_coding import BySchema

if TYPE_CHECKING:
    from ..core.progress import ProgressReporter
    from ..tables.spool import Batch
    from ..tables.stream import Stream

Coder = Callable[[str, Any], np.ndarray]
"""From the name of a column and its values to codes; an FgrnError for values that have none."""


class Coding(NamedTuple):
    """The encoding of columns: their names in the encoded table, numbers of states, and the function to codes.

    The numbers of `continuous` columns are kept beside the codes; the function returns these instead.
    """

    kept: Mapping[str, str]
    states: Mapping[str, int]
    code: Coder
    continuous: tuple[str, ...] = ()

    @property
    def kind(self) -> np.dtype[Any]:
        """The narrowest integer type that holds the codes."""
        return np.dtype(code_type(max((self.states[name] for name in self.kept), default=1)))


NOTHING = Coding({}, {}, lambda _, values: np.asarray(values))
"""How columns are read before there are any."""


class WeightedBatch(NamedTuple):
    """A batch of a stream, its columns by value, and the weights of its rows."""

    batch: Batch
    columns: Mapping[str, Any]
    weights: np.ndarray | None


CodingFor = Callable[[Sequence[str]], Coding]
"""From the names of the columns to how they are read."""


class CodedBatch(NamedTuple):
    """The codes and weights of some rows, the name of their source, and the number of each row in it.

    `continuous` are the numbers of continuous columns, (rows, columns), NaN where one is missing.
    """

    codes: np.ndarray
    weights: np.ndarray | None
    where: str
    numbers: Sequence[int]
    continuous: np.ndarray


class Rows(Protocol):
    """The protocol of rows that are not in memory: read on this machine, or on a cluster."""

    def distinct(self, weights: str | None) -> dict[str, Distinct]:
        """Return the distinct values of all columns but that of the weights."""

    def encoded(self, weights: str | None, coding_for: CodingFor, without_zero: bool = False) -> EncodedTable:
        """Return the codes of all rows or, if `without_zero`, of those with a positive weight."""


def table_of_source(data: Any, missing: Sequence[Any] | None = None) -> Any:
    """Return all rows of a source as one Arrow table in memory; `missing` as in `rows_of_source`."""
    from ..tables.spool import one_table
    from ..tables.stream import stream_of

    stream = stream_of(data, missing)
    return one_table(list(stream.arrow_tables()), stream.called)


class KeptColumns:
    """Columns that are removed from a source and stored in memory while it is read."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Any]] = {}

    def column(self, name: str) -> Any:
        """Return one of the columns, as an Arrow array, of all rows of the last reading."""
        import pyarrow as pa

        tables = [pa.table({name: one}) for one in self.parts[name]]
        return pa.concat_tables(tables, promote_options="permissive").column(name)


def without_columns(data: Any, names: Sequence[str], missing: Sequence[Any] | None = None) -> tuple[Any, KeptColumns]:
    """Return a source without some columns, which are stored when it is read; `missing` as in `rows_of_source`."""
    from ..tables.stream import stream_of

    stream, kept = stream_of(data, missing).again(), KeptColumns()

    def read() -> Iterator[Any]:
        kept.parts = {name: [] for name in names}
        for table in stream.arrow_tables():
            for name in names:
                if name not in table.column_names:
                    raise unknown_name("column", name, table.column_names)
                kept.parts[name].append(table.column(name))
            yield table.drop_columns(list(names))

    return read, kept


def rows_of_source(
    data: Any,
    executor: Any = None,
    again: bool = False,
    reporter: ProgressReporter | None = None,
    missing: Sequence[Any] | None = None,
) -> Rows:
    """Return the rows of a source, read on this machine or by the workers of a cluster.

    Args:
        data: the source.
        executor: the client of a cluster, whose workers read Parquet files and frames; or None.
        again: whether they are read more than once.
        reporter: receives the progress of reading.
        missing: the values that mean a missing one in text files, see `stream_of`.
    """
    if executor is None:
        from ..tables.stream import stream_of

        stream = stream_of(data, missing)
        return LocalRows(stream.again() if again else stream)
    from .remote.cluster import RemoteRows

    return RemoteRows(data, executor, reporter)


def table_elsewhere(
    variables: Variables, data: Any, weights: Any, executor: Any = None, continuous: tuple[str, ...] = ()
) -> EncodedTable | None:
    """Return the rows of a source as codes on disk or on a cluster; None for a table in memory.

    A table that is encoded already is taken as it is, with its weights. The numbers of `continuous` columns are kept.
    """
    if isinstance(data, EncodedTable):
        return data.numbered_by(variables)
    if executor is None and not frames.is_source(data):
        return None
    if executor is not None and continuous:
        raise LearningError("Continuous columns are learnt on one machine.", remedies="leave the cluster out")
    coding_for = partial(_by_variables, variables, continuous=continuous)
    return rows_of_source(data, executor).encoded(checked_weight_name(weights), coding_for).numbered_by(variables)


def _by_variables(variables: Variables, names: Sequence[str], continuous: tuple[str, ...] = ()) -> Coding:
    """Return the encoding of columns that are variables of a network, or continuous columns of it."""
    kept = [name for name in names if name not in continuous]
    column_of_each(variables, kept)
    sizes = {name: len(variables.labels[variables.index[name]]) for name in kept}
    as_numbers = continuous if len(kept) < len(names) else ()
    return Coding({name: name for name in kept}, sizes, partial(_state_codes, variables, as_numbers), as_numbers)


def _state_codes(variables: Variables, continuous: tuple[str, ...], name: str, values: Any) -> np.ndarray:
    """See `Coder`."""
    if name in continuous:
        return encode(variables, {name: values}, continuous=(name,)).numbers[:, 0]
    found = encode(variables, {name: values})
    if found.soft.shape[1]:
        raise EvidenceError("distributions are supported in memory only.", column=name)
    return found.codes[:, 0]


class LocalRows:
    """Rows that are read on this machine; see `Rows`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def distinct(self, weights: str | None) -> dict[str, Distinct]:
        """See `Rows`."""
        found = distinct_values(self._stream, weights)
        check_rows(self._stream.called, len(found), len(found), weights)
        return found

    def encoded(self, weights: str | None, coding_for: CodingFor, without_zero: bool = False) -> Evidence:
        """See `Rows`."""
        stream = self._stream
        table = encode_stream(stream, weights, coding_for, without_zero)
        stream.issue_warnings()
        check_rows(stream.called, table.rows, table.weight, weights)
        return table


def check_rows(called: str, rows: int, weight: float, weights: str | None) -> None:
    """Raise an error for a table without rows, or whose weights are all zero."""
    if weights is not None and not weight:
        raise EvidenceError("all of these weights are zero, so there is nothing to learn from.", column=weights)
    if not rows:
        raise TableFileError("it holds no rows to learn from.", file=called)


def encode_stream(stream: Stream, weights: str | None, coding_for: CodingFor, without_zero: bool = False) -> Evidence:
    """Return the codes of a stream, on disk; the stream may be empty.

    Args:
        stream: the rows.
        weights: the name of the column of weights, if there is one.
        coding_for: how its columns are read.
        without_zero: whether rows of weight 0 are left out.
    """
    chunks: list[_Chunk] = []
    coding = NOTHING
    with unnamed(stream.cache) as spool:
        place = 0
        for batch in weighted_batches(stream.batches(), stream, weights, without_zero):
            if coding is NOTHING:
                coding = coding_for(list(batch.columns))
            codes, row_weights, where, numbers, continuous = coded(stream, batch, coding)
            if not len(codes):
                continue
            chunks.append(_Chunk(place, len(codes), where, numbers if isinstance(numbers, range) else None))
            parts = [codes.ravel(order="F"), continuous.ravel(order="F")]
            parts += [] if row_weights is None else [row_weights]
            for part in [*parts, *([] if isinstance(numbers, range) else [np.asarray(numbers, dtype=np.int64)])]:
                write_at(spool, part, place, stream.cache)
                place += part.nbytes
        return _assembled(spool, chunks, coding, weights is not None, stream.cache)


class _Chunk(NamedTuple):
    """Rows in the temporary file: offset, count, source and, unless stored in the file, their numbers."""

    place: int
    rows: int
    where: str
    numbers: range | None


def checked_weight_name(weights: Any) -> str | None:
    """Return the name of the column of weights of a stream, checked."""
    if weights is not None and not isinstance(weights, str):
        raise LearningError(
            "The weights of rows that are not in memory are one of their columns: pass its name. Got "
            f"{type(weights).__name__} instead."
        )
    return weights


def weighted_batches(
    batches: Iterable[Batch], stream: Stream, weights: str | None, without_zero: bool
) -> Iterator[WeightedBatch]:
    """Yield the batches of a stream, with the column of weights apart from the others."""
    for batch in batches:
        columns = frames.columns(batch.frame, by_value=True)
        if weights is None:
            yield WeightedBatch(batch, columns, None)
            continue
        if weights not in columns:
            raise unknown_name("column", weights, columns)
        row_weights, good = _weights(stream, batch, columns.pop(weights), weights)
        which = np.flatnonzero(good & (row_weights > 0) if without_zero else good)
        if len(which) < len(row_weights):
            batch, columns = _only(batch, columns, which)
            row_weights = row_weights[which]
        if len(row_weights):
            yield WeightedBatch(batch, columns, row_weights)


def _weights(stream: Stream, batch: Batch, column: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of a batch, and which of them are valid."""
    from ..tables.text_reader import BadRow

    values = frames.as_list(column) if not frames.is_numbers(column) else column
    out = np.zeros(len(batch.numbers))
    for row, value in enumerate(values) if not frames.is_numbers(column) else ():
        try:
            out[row] = np.nan if is_missing_value(value) else float(value)
        except (TypeError, ValueError):
            out[row] = np.nan
    if frames.is_numbers(column):
        out = np.asarray(column, dtype=np.float64)
    good = is_weight(out)
    for row in np.flatnonzero(~good).tolist():
        value = values[row].item() if isinstance(values[row], np.generic) else values[row]
        why = f"{value!r} is not a weight, which is a number, finite and not negative"
        stream.bad(batch.where, BadRow(int(batch.numbers[row]), why, "no weight", name, value))
    return out, good


def _only(batch: Batch, columns: dict[str, Any], rows: np.ndarray) -> tuple[Batch, dict[str, Any]]:
    """Return some rows of a batch, as columns."""
    numbers = np.asarray(batch.numbers)[rows]
    return batch._replace(frame=None, numbers=numbers), {n: frames.select_rows(c, rows) for n, c in columns.items()}


def coded(stream: Stream, rows: WeightedBatch, coding: Coding) -> CodedBatch:
    """Return the codes of a batch, without the rows that have a value that cannot be encoded."""
    batch, weights = rows.batch, rows.weights
    count = len(batch.numbers)
    codes = np.full((count, len(coding.kept)), UNKNOWN, dtype=coding.kind, order="F")
    continuous = np.full((count, len(coding.continuous)), np.nan, order="F")
    good = np.ones(count, dtype=bool)
    for name, out in [*zip(coding.kept, codes.T, strict=True), *zip(coding.continuous, continuous.T, strict=True)]:
        if name in coding.continuous and name not in rows.columns:  # all its numbers are missing
            continue
        column = rows.columns[name]
        try:
            out[...] = coding.code(name, column)
        except FgrnError as error:
            bad = _bad_rows(stream, batch, name, column, coding, error)
            good &= ~bad
            out[~bad] = coding.code(name, frames.select_rows(column, np.flatnonzero(~bad)))
    if good.all():
        return CodedBatch(codes, weights, batch.where, batch.numbers, continuous)
    numbers: Any = np.asarray(batch.numbers)[good]
    left = None if weights is None else weights[good]
    codes, continuous = np.asfortranarray(codes[good]), np.asfortranarray(continuous[good])
    return CodedBatch(codes, left, batch.where, numbers, continuous)


def _bad_rows(stream: Stream, batch: Batch, name: str, column: Any, coding: Coding, error: FgrnError) -> np.ndarray:
    """Return the rows whose value cannot be encoded, each reported to the stream."""
    from ..tables.text_reader import BadRow

    found = frames.dictionary_encoded(frames.as_list(column) if frames.is_numbers(column) else column)
    if not isinstance(found, frames.DictionaryColumn):
        raise error.changed(file=batch.where) from error
    reasons: dict[int, FgrnError] = {}
    code = coding.code.fresh() if isinstance(coding.code, BySchema) else coding.code  # what is tried is not counted
    for place, (value, count) in enumerate(zip(found.values, found.counts.tolist(), strict=True)):
        try:
            code(name, [value] if count else [None])
        except FgrnError as problem:
            reasons[place] = problem
    bad = np.isin(found.codes, list(reasons))
    if not bad.any():
        raise error.changed(file=batch.where) from error
    for row in np.flatnonzero(bad).tolist():
        place = int(found.codes[row])
        why, remedies = reasons[place].message.rstrip("."), reasons[place].remedies
        number, value = int(batch.numbers[row]), found.values[place]
        kind = _why_left_out(value, name in coding.continuous)
        stream.bad(batch.where, BadRow(number, why, kind, name, value, remedies=remedies))
    return bad


def _why_left_out(value: Any, continuous: bool) -> str:
    """Return in a few words why a value cannot be in a column, which is `continuous` or has levels."""
    if is_number(value) and np.isfinite(float(value)):
        return "too large a number" if continuous else "no level of it"
    return "not a finite number" if continuous or is_number(value) else "no level of it"


def _assembled(spool: Any, chunks: Sequence[_Chunk], coding: Coding, weighted: bool, cache: Any) -> Evidence:
    """Return one table of all chunks, on disk, its codes and continuous numbers column by column."""
    disk = Disk(cache)
    rows = sum(chunk.rows for chunk in chunks)
    blocks: list[tuple[np.ndarray, int, int]] = []  # arrays for all rows, their places on disk, and columns
    for width, kind in ((len(coding.kept), coding.kind), (len(coding.continuous), np.dtype(np.float64))):
        blocks.append((*disk.room(rows * width, kind), width))
    weights, weights_at = disk.room(rows if weighted else 0, np.float64)
    origins: list[tuple[int, str, Sequence[int]]] = []
    first = 0
    for place, count, where, numbers in chunks:
        spool.seek(place)
        for block, at, width in blocks:
            size = block.itemsize
            chunk = np.frombuffer(_read_bytes(spool, count * width * size), dtype=block.dtype)
            for position, column in enumerate(chunk.reshape(width, count)):
                disk.write(column, at + (position * rows + first) * size)
        if weighted:
            disk.write(np.frombuffer(_read_bytes(spool, 8 * count)), weights_at + 8 * first)
        known: Any = (
            disk.stored(np.frombuffer(_read_bytes(spool, 8 * count), dtype=np.int64)) if numbers is None else numbers
        )
        origins.append((first, where, known))
        first += count
    given = weights if weighted else None
    codes, continuous = (block.reshape((rows, width), order="F") for block, _, width in blocks)
    found = Evidence.of_codes(tuple(coding.kept.values()), codes, given, disk, tuple(origins))
    return found.with_arrays(numbers=continuous)


def _read_bytes(file: Any, size: int) -> bytearray:
    data, at = bytearray(size), 0
    while at < size:
        at += file.readinto(memoryview(data)[at:])
    return data


def _finite(stream: Stream, batch: Batch, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a batch with infinite numbers replaced by NaN, each reported to the stream."""
    from ..tables.text_reader import infinite

    out = dict(columns)
    for name, column in columns.items():
        if not frames.is_numbers(column) or column.dtype.kind != "f":
            continue
        endless = np.isinf(column)
        if not endless.any():
            continue
        for row in np.flatnonzero(endless).tolist():
            stream.bad(batch.where, infinite(int(batch.numbers[row]), name, float(column[row])))
        out[name] = np.where(endless, np.nan, column)
    return out


def distinct_values(stream: Stream, weights: str | None) -> dict[str, Distinct]:
    """Return the distinct values of all columns of a stream but that of the weights."""
    return distinct_of_batches(stream, weighted_batches(stream.batches(), stream, weights, without_zero=True))


def distinct_of_batches(stream: Stream, batches: Iterable[WeightedBatch]) -> dict[str, Distinct]:
    """Return the distinct values of all columns of some batches."""
    finite = ((_finite(stream, batch, columns), weights) for batch, columns, weights in batches)
    return distinct_by_column(finite)
