"""Tables in pieces, as the workers of a cluster have them: codes on their disks, and the E-step over each piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...core.exceptions import FgrnError, ImpossibleEvidence
from ...flow.conflicts import explained
from ...flow.counts import Counts, InMemory
from ...flow.evidence import Variables, encode
from ...flow.tally import Tally
from ...tables.disk import Disk
from ...tables.distinct import Distinct
from ...tables.encoded import Recorded
from ...tables.stream import Stream, StreamPart
from ...tables.table_file import name_in_errors
from .. import checkpoints
from ..encoding import BySchema, Coding, distinct_values, located, record

CLAIMED = 2**22
"""Bytes that a piece, and what is held of it, claim to take: enough that they are seldom moved, and little beside the
memory of a worker, since codes are on disk."""


class Facts(NamedTuple):
    """What is to be known of a piece where learning is led."""

    rows: int
    weight: float
    complete: bool
    left_out: Counter[str]
    strange: dict[str, Counter[Any]]
    told: list[str]


class Piece:
    """The codes of some rows on the disk of a worker, and what is to be known of them."""

    def __init__(self, table: Recorded, facts: Facts) -> None:
        self.table, self.facts = table, facts

    def __sizeof__(self) -> int:
        return CLAIMED

    def __reduce__(self) -> tuple[Any, ...]:
        table = self.table
        return _restored, (table.names, table.codes.T.copy(), table.weights, table.places, self.facts)


def _restored(
    names: tuple[str, ...],
    columns: np.ndarray,
    weights: np.ndarray | None,
    places: Any,
    facts: Facts,
) -> Piece:
    """A piece that has been moved, on the disk of the worker it has come to."""
    from .cluster import worker_folder

    disk = Disk(worker_folder())
    codes = disk.kept(columns).T
    return Piece(Recorded(names, codes, None if weights is None else disk.kept(weights), disk, places), facts)


class Held:
    """The E-step over a piece: see `em.EStep`."""

    def __init__(self, piece: Piece, here: InMemory | Tally, variables: Variables, log_scale: float) -> None:
        self._given = piece, here, variables, log_scale
        self.table = piece.table
        evidence = encode(variables, piece.table)
        self.rows = here.on(evidence.scaled(log_scale) if log_scale else evidence, piece.table.row_weights)

    def __sizeof__(self) -> int:
        return CLAIMED

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, self._given


@contextmanager
def _naming(part: StreamPart) -> Iterator[None]:
    """Errors of a part tell which it is."""
    try:
        yield
        return
    except FgrnError as error:
        found = error
    names = (part.called, *(name_in_errors(share.file) for share in part.shares))
    told = str(found) if any(name in str(found) for name in names) else f"{part.called}: {found}"
    raise type(found)(told)  # bare: what lies behind an error may be something that cannot be sent


def summary(part: StreamPart, stream: Stream, weights: str | None) -> dict[str, Distinct]:
    """The different values of all columns of a part."""
    with _naming(part):
        found = distinct_values(stream.part(part), weights)
    for one in found.values():
        one.settle()
    return found


def joined(*summaries: dict[str, Distinct]) -> dict[str, Distinct]:
    """What several parts, in this order, have together."""
    found: dict[str, Distinct] = {}
    for summary in summaries:
        for name, one in summary.items():
            found.setdefault(name, Distinct(name)).join(one)
    return found


def piece(part: StreamPart, stream: Stream, weights: str | None, coding: Coding, without_zero: bool) -> Piece:
    """The codes of a part."""
    if isinstance(coding.code, BySchema):  # it counts what is no level, and other threads have the same one
        coding = coding._replace(code=coding.code.fresh())
    rows = stream.part(part)
    with _naming(part):
        table = record(rows, weights, lambda _: coding, without_zero)
    strange = coding.code.strange if isinstance(coding.code, BySchema) else {}
    complete = all((column.codes >= 0).all() for column in table.values())
    if table.disk is not None:
        table.disk.release()
    return Piece(table, Facts(table.rows, table.weight, complete, rows.left_out, strange, part.notes))


def facts(piece: Piece) -> Facts:
    """What is to be known of a piece where learning is led."""
    return piece.facts


def digest(piece: Piece) -> tuple[int, str, str]:
    """How many rows a piece has, and numbers for their values and weights."""
    table = piece.table
    found = (table.rows, checkpoints.digest(table.codes), checkpoints.digest(table.weights))
    if table.disk is not None:
        table.disk.release()
    return found


def counted(held: Held, values: np.ndarray) -> Counts:
    """The expected counts of a piece under these parameters."""
    try:
        return held.rows.count(values)
    except ImpossibleEvidence as error:
        told, rows = error, held.rows
        if isinstance(rows, InMemory):
            told = explained(error, rows.plan, rows.programs, values, rows.evidence)
        raise located(told, held.table, "of this piece") from None
    finally:
        if isinstance(held.rows, InMemory):
            held.rows.rest()


def recounted(held: Held, began_with: np.ndarray, tables: np.ndarray) -> Counts:
    """The same with other tables, and the messages that an epoch began with."""
    return held.rows.cycles(began_with)(tables)


def added(first: Counts, *others: Counts) -> Counts:
    """The sum of several, in their order."""
    return reduce(Counts.joined, others[1:], first + others[0]) if others else first
