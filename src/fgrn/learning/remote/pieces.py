"""Tables in pieces on the workers of a cluster: codes on their disks, and the E-step over each piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...core.digests import digest
from ...core.exceptions import FgrnError
from ...flow.counts import Counts
from ...flow.esteps import WholeEStep
from ...tables.disk import Disk
from ...tables.distinct_values import Distinct
from ...tables.encoded import Evidence, Variables
from ...tables.stream import Stream, StreamPart
from ..encoding import Coding, distinct_values, encode_stream
from ..execution import offered
from ..schema_coding import BySchema

CLAIMED = 2**22
"""The size in bytes that pieces report to Dask: enough that they are seldom moved, and little beside the
memory of a worker, since codes are on disk."""


EStepOver = Callable[[Evidence, str], WholeEStep]
"""The function that builds the E-step over rows in one place."""


class Facts(NamedTuple):
    """The facts about a piece that the client needs."""

    rows: int
    weight: float
    complete: bool
    left_out: Mapping[str, int]
    strange: Mapping[str, Mapping[Any, int]]
    warnings: tuple[str, ...]


class Piece:
    """The codes of some rows on the disk of a worker, and facts about them."""

    def __init__(self, table: Evidence, facts: Facts) -> None:
        self.table, self.facts = table, facts

    def __sizeof__(self) -> int:
        return CLAIMED

    def __reduce__(self) -> tuple[Any, ...]:
        table = self.table
        weights = table.row_weights if table.is_weighted else None
        return _moved_piece, (table.columns, table.codes.T.copy(), weights, table.origins, self.facts)


def _moved_piece(
    names: tuple[str, ...],
    columns: np.ndarray,
    weights: np.ndarray | None,
    origins: Any,
    facts: Facts,
) -> Piece:
    """Return a piece that was moved, stored on the disk of its new worker."""
    from .cluster import worker_folder

    disk = Disk(worker_folder())
    given = None if weights is None else disk.stored(weights)
    return Piece(Evidence.of_codes(names, disk.stored(columns).T, given, disk, origins), facts)


class PieceEStep:
    """The E-step over a piece, which is prepared again on another worker when it is moved."""

    def __init__(self, piece: Piece, make: EStepOver, variables: Variables, log_scale: float) -> None:
        self._given = piece, make, variables, log_scale
        self.estep = make(piece.table.numbered_by(variables).scaled(log_scale), "of this piece")

    def __sizeof__(self) -> int:
        return CLAIMED

    def __reduce__(self) -> tuple[Any, ...]:
        return PieceEStep, self._given


@contextmanager
def _naming(part: StreamPart) -> Iterator[None]:
    """A context that adds the name of the part to errors."""
    try:
        yield
        return
    except FgrnError as error:
        found = error
    raise found.changed(file=found.file or part.called)  # new: what lies behind an error may not be something to send


def distinct_in_part(part: StreamPart, stream: Stream, weights: str | None) -> dict[str, Distinct]:
    """Return the distinct values of all columns of a part."""
    with _naming(part):
        found = distinct_values(stream.part(part), weights)
    for one in found.values():
        one.settle()
    return found


def joined(*summaries: dict[str, Distinct]) -> dict[str, Distinct]:
    """Return the distinct values of several parts, joined in their order."""
    found: dict[str, Distinct] = {}
    for summary in summaries:
        for name, one in summary.items():
            found.setdefault(name, Distinct(name)).join(one)
    return found


def piece(part: StreamPart, stream: Stream, weights: str | None, coding: Coding, without_zero: bool) -> Piece:
    """Return the codes of a part."""
    if isinstance(coding.code, BySchema):  # it counts what is not a level, and other threads have the same one
        coding = coding._replace(code=coding.code.fresh())
    rows = stream.part(part)
    with _naming(part):
        table = encode_stream(rows, weights, lambda _: coding, without_zero)
    strange = coding.code.strange if isinstance(coding.code, BySchema) else {}
    return Piece(table, Facts(table.rows, table.weight, table.complete, rows.left_out, strange, tuple(part.notes)))


def facts(piece: Piece) -> Facts:
    """Return the facts about a piece that the client needs."""
    return piece.facts


def digests(piece: Piece) -> tuple[int, str, str]:
    """Return the number of rows of a piece, and digests of their values and weights."""
    table = piece.table
    found = (table.rows, digest(table.codes), digest(table.row_weights if table.is_weighted else None))
    table.release()
    return found


def count_piece(mine: PieceEStep, values: np.ndarray) -> Counts:
    """Return the expected counts of a piece under these parameters."""
    found = mine.estep.count(values)
    return replace(found, values=np.asarray(found.values))  # not what an engine keeps in its place


def recount_piece(mine: PieceEStep, began_with: np.ndarray, tables: np.ndarray) -> Counts:
    """Return the expected counts of a piece with new tables and the messages from the start of the epoch."""
    return offered(mine.estep.cycles, "cycles")(began_with)(tables)


def add_counts(first: Counts, *others: Counts) -> Counts:
    """Return the sum of several counts, in their order."""
    return reduce(Counts.joined, others[1:], first + others[0]) if others else first
