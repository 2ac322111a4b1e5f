"""Tables larger than memory on their way to codes: read in batches, encoded once, and kept on disk for every epoch.

The codes lie column by column in a file without a name, mapped into memory, so that engines read them as they are. The
E-step is that of a table in memory, with the same blocks of rows in the same order: results are the same to the
last bit, however the rows came in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import distinct, frames
from .disk import Disk, unnamed, written
from .evidence import UNKNOWN, Variables, code_type, encode
from .exceptions import (
    EvidenceError,
    FgrnError,
    FgrnWarning,
    ImpossibleEvidence,
    LearningError,
    SchemaError,
    TableFileError,
    UnseenLevelWarning,
    unknown_name,
    warn,
)

if TYPE_CHECKING:
    from .io.batches import Stream
    from .io.spool import Batch
    from .schema import Schema

Coder = Callable[[str, Any], np.ndarray]
"""From the name of a column and its values to codes; an FgrnError for values that have none."""

PLACE = re.compile(r"^(Row [\d,]+, |Column )'[^']*': ")


def recorded(plan: Variables, data: Any, weights: Any) -> tuple[Any, Any]:
    """A table that is not in memory as codes on disk, and its weights; any other as it is."""
    if isinstance(data, frames.Recorded):
        return data, data
    if not frames.is_source(data):
        return data, weights
    from .io.batches import stream_of

    def choose(names: Sequence[str]) -> dict[str, str]:
        for name in names:
            if name not in plan.index:
                near = unknown_name("variable", name, plan.names)
                raise EvidenceError(f"Column {name!r} is not a variable of this network. {near}")
        return {name: name for name in names}

    def code(name: str, values: Any) -> np.ndarray:
        found = encode(plan, {name: values})
        if found.soft.shape[1]:
            raise EvidenceError(f"Column {name!r}: distributions are learnt from in memory only.")
        return found.codes[:, 0]

    table = record(stream_of(data), weights, choose, code, lambda name: len(plan.labels[plan.index[name]]))
    return table, table


def located(error: ImpossibleEvidence, data: Any) -> ImpossibleEvidence:
    """An error on rows that came from files, with the file and row of the first of them."""
    if not isinstance(data, frames.Recorded) or not data.places or not error.rows:
        return error
    return ImpossibleEvidence(f"{error} Row {error.rows[0]:,} of all is {data.place_of(error.rows[0])}.", error.rows)


def record(
    stream: Stream,
    weights: Any,
    choose: Callable[[Sequence[str]], dict[str, str]],
    code: Coder,
    states: Callable[[str], int],
    without_zero: bool = False,
) -> frames.Recorded:
    """The codes of a stream, on disk.

    Args:
        stream: the rows.
        weights: the name of the column of weights, if there is one.
        choose: from the names of columns to those that are kept, and what they are called then.
        code: the codes of some rows of a column.
        states: how many states a column has.
        without_zero: whether rows of weight 0 are left out.
    """
    chunks: list[tuple[int, int]] = []  # where each begins, and how many rows it has
    places: list[tuple[int, str, Sequence[int]]] = []
    kept: dict[str, str] = {}
    kind: Any = np.int8
    rows = 0
    weight_name = checked_weight_name(weights)
    with unnamed(stream.cache) as spool:
        place = 0
        for batch, columns, row_weights in weighted_batches(stream, weight_name, without_zero):
            if not kept:
                kept = choose(list(columns))
                kind = code_type(max((states(name) for name in kept), default=1))
            codes, row_weights, numbers = _coded(stream, batch, {n: columns[n] for n in kept}, row_weights, code, kind)
            if not len(codes):
                continue
            places.append((rows, batch.where, numbers))
            rows += len(codes)
            chunks.append((place, len(codes)))
            parts = [codes.ravel(order="F"), *([] if row_weights is None else [row_weights])]
            for part in parts:
                written(spool, part, place, stream.cache)
                place += part.nbytes
        if stream.left_out:
            warn(f"{stream.called}: {stream.report()}", FgrnWarning)
        if not chunks:
            raise TableFileError(f"{stream.called} holds no rows to learn from.")
        names, weighted = tuple(kept.values()), weight_name is not None
        return replace(_assembled(spool, chunks, names, np.dtype(kind), weighted, stream.cache), places=tuple(places))


def checked_weight_name(weights: Any) -> str | None:
    """The name of the column of weights of a stream."""
    if weights is not None and not isinstance(weights, str):
        raise LearningError(
            "The weights of rows that are not in memory are one of their columns: pass its name. Got "
            f"{type(weights).__name__} instead."
        )
    return weights


def weighted_batches(
    stream: Stream, weights: str | None, without_zero: bool
) -> Iterator[tuple[Batch, dict[str, Any], np.ndarray | None]]:
    """The batches of a stream, their columns by value without that of the weights, and the weights."""
    total, rows = 0.0, 0
    for batch in stream.batches():
        columns = frames.columns(batch.frame, by_value=True)
        if weights is None:
            yield batch, columns, None
            continue
        if weights not in columns:
            raise unknown_name("column", weights, columns)
        row_weights, good = _weights(stream, batch, columns.pop(weights), weights)
        which = np.flatnonzero(good & (row_weights > 0) if without_zero else good)
        if len(which) < len(row_weights):
            batch, columns = _only(batch, columns, which)
            row_weights = row_weights[which]
        total, rows = total + float(row_weights.sum()), rows + len(row_weights)
        if len(row_weights):
            yield batch, columns, row_weights
    if weights is not None and not total:
        raise EvidenceError(f"All weights, column {weights!r}, are zero, so there is nothing to learn from.")


def _weights(stream: Stream, batch: Batch, column: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a batch, and which of them are numbers that a weight can be."""
    from .io.text_batches import Bad

    values = frames.listed(column) if not frames.is_numbers(column) else column
    out = np.zeros(len(batch.numbers))
    for row, value in enumerate(values) if not frames.is_numbers(column) else ():
        try:
            out[row] = np.nan if frames.is_unknown(value) else float(value)
        except (TypeError, ValueError):
            out[row] = np.nan
    if frames.is_numbers(column):
        out = np.asarray(column, dtype=np.float64)
    good = np.isfinite(out) & (out >= 0)
    for row in np.flatnonzero(~good).tolist():
        value = values[row].item() if isinstance(values[row], np.generic) else values[row]
        why = "a weight is a number, finite and not negative"
        stream.bad(batch.where, Bad(int(batch.numbers[row]), why, "no weight", name, value))
    return out, good


def _only(batch: Batch, columns: dict[str, Any], rows: np.ndarray) -> tuple[Batch, dict[str, Any]]:
    """Some rows of a batch, by their columns."""
    numbers = np.asarray(batch.numbers)[rows]
    return batch._replace(frame=None, numbers=numbers), {n: frames.taken(c, rows) for n, c in columns.items()}


def _coded(
    stream: Stream, batch: Batch, columns: dict[str, Any], weights: np.ndarray | None, code: Coder, kind: Any
) -> tuple[np.ndarray, np.ndarray | None, Sequence[int]]:
    """The codes of a batch, and the weights and numbers of the rows that have them all."""
    codes = np.full((len(batch.numbers), len(columns)), UNKNOWN, dtype=kind, order="F")
    good = np.ones(len(batch.numbers), dtype=bool)
    for position, (name, column) in enumerate(columns.items()):
        try:
            codes[:, position] = code(name, column)
        except FgrnError as error:
            bad = _bad_rows(stream, batch, name, column, code, error)
            good &= ~bad
            codes[~bad, position] = code(name, frames.taken(column, np.flatnonzero(~bad)))
    if good.all():
        return codes, weights, batch.numbers
    numbers: Any = np.asarray(batch.numbers)[good]
    return np.asfortranarray(codes[good]), None if weights is None else weights[good], numbers


def _bad_rows(stream: Stream, batch: Batch, name: str, column: Any, code: Coder, error: FgrnError) -> np.ndarray:
    """The rows whose value has no code, each reported: looked for only when some have none."""
    from .io.text_batches import Bad

    found = frames.factored(frames.listed(column) if frames.is_numbers(column) else column)
    if not isinstance(found, frames.Factored):
        raise type(error)(f"{batch.where}: {error}") from error
    reasons: dict[int, str] = {}
    for place, (value, count) in enumerate(zip(found.values, found.counts.tolist(), strict=True)):
        try:
            code(name, [value] if count else [None])
        except FgrnError as problem:
            reasons[place] = PLACE.sub("", str(problem)).rstrip(".")
    bad = np.isin(found.codes, list(reasons))
    if not bad.any():
        raise type(error)(f"{batch.where}: {error}") from error
    for row in np.flatnonzero(bad).tolist():
        place = int(found.codes[row])
        stream.bad(
            batch.where, Bad(int(batch.numbers[row]), reasons[place], "no level of it", name, found.values[place])
        )
    return bad


def _assembled(
    spool: Any, chunks: list[tuple[int, int]], names: tuple[str, ...], kind: np.dtype[Any], weighted: bool, cache: Any
) -> frames.Recorded:
    """The chunks one below the other: each column of all rows in one piece."""
    disk = Disk(cache)
    rows, width = sum(count for _, count in chunks), len(names)
    codes, codes_at = disk.room(rows * width, kind)
    weights, weights_at = disk.room(rows if weighted else 0, np.float64)
    first = 0
    for place, count in chunks:
        spool.seek(place)
        chunk = np.frombuffer(_read(spool, count * width * kind.itemsize), dtype=kind).reshape(width, count)
        for position, column in enumerate(chunk):
            disk.write(column, codes_at + (position * rows + first) * kind.itemsize)
        if weighted:
            disk.write(np.frombuffer(_read(spool, 8 * count)), weights_at + 8 * first)
        first += count
    return frames.Recorded(names, codes.reshape((rows, width), order="F"), weights if weighted else None, disk)


def _read(file: Any, size: int) -> bytearray:
    data, at = bytearray(size), 0
    while at < size:
        at += file.readinto(memoryview(data)[at:])
    return data


class BySchema:
    """The codes of columns by their schema; what is no level is counted, and told of at the end."""

    def __init__(self, schema: Schema, unseen: str) -> None:
        self.schema, self.unseen = schema, unseen
        self.strange: dict[str, Counter[Any]] = {}

    def __call__(self, name: str, values: Any) -> np.ndarray:
        """See `Coder`."""
        codes, found = self.schema[name].codes(values)
        if found and self.unseen == "error":
            raise SchemaError(self.schema.unseen_text({name: found}))
        if found:
            self.strange.setdefault(name, Counter()).update(found)
        return codes

    def tell(self) -> None:
        """Warn of what was no level."""
        if self.strange:
            text = self.schema.unseen_text(self.strange)
            warn(text + " Treated as unknown; unseen='error' stops here.", UnseenLevelWarning)


def _finite(stream: Stream, batch: Batch, columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a batch without infinite numbers, each reported: they fall in no bin."""
    from .io.text_batches import Bad

    out = dict(columns)
    for name, column in columns.items():
        if not frames.is_numbers(column) or column.dtype.kind != "f":
            continue
        endless = np.isinf(column)
        for row in np.flatnonzero(endless).tolist():
            number, value = int(batch.numbers[row]), float(column[row])
            stream.bad(batch.where, Bad(number, "it is in no bin, and no level", "no level of it", name, value))
        out[name] = np.where(endless, np.nan, column) if endless.any() else column
    return out


def distinct_values(stream: Stream, weights: str | None) -> dict[str, distinct.Distinct]:
    """The different values of all columns of a stream, but for that of the weights."""
    batches = weighted_batches(stream, weights, without_zero=True)
    found = distinct.seen((_finite(stream, batch, columns), share) for batch, columns, share in batches)
    if not found:
        raise TableFileError(f"{stream.called} holds no rows to learn from.")
    return found
