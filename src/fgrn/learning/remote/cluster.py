"""Learning on a cluster: rows stay on the workers of dask.distributed, tables are sent there, sums of counts come back.

    part of the table  -->  Piece: its codes, on the disk of a worker  -->  PieceEStep: the E-step over it
                                                                              |  tables, once an epoch
    Counts of all rows  <--  added up in a tree, always in the same order  <--+

What a worker has made can be made again: if it dies, others read its part of the table anew, and the result is the
same. Where pieces begin depends on the table alone, and not on the number of workers.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import numpy as np

from ..._version import __version__
from ...core.digests import digest
from ...core.exceptions import (
    FgrnError,
    FgrnWarning,
    LearningError,
    Remedy,
    TableFileError,
    first_line,
    unknown_name,
    warn,
)
from ...core.progress import ProgressReporter
from ...tables import frames
from ...tables.distinct_values import Distinct
from ...tables.encoded import EncodedTable, RowsPlace, Variables, column_of_each
from ...tables.parquet import parts_of, row_groups_of
from ...tables.stream import Stream, StreamPart, stream_of
from ...tables.table_file import name_in_errors
from ..encoding import Coding, CodingFor, check_rows
from ..schema_coding import BySchema
from . import pieces
from .remote_estep import RemoteEStep

FAN_IN = 16
"""How many Counts are added up at once."""

FAILED = ("error", "cancelled")
"""The states of futures that will never have a result; one that is lost with a worker is computed again."""

MOMENT, LOOK, PATIENCE = 0.02, 5.0, 60.0
"""Seconds between two checks of the tasks, between two checks of the workers, and without any worker until an error."""

FETCH = 30.0
"""Seconds to wait for a result that is finished; if it was lost with its worker since, it is computed again."""

# On the workers


def _work_on_part(work: Callable[..., Any], part: StreamPart, frame: Any, *others: Any) -> Any:
    """Call a function on a part of a table, on the worker that reads it."""
    return work(part._replace(frame=frame, cache=worker_folder(), notes=[]), *others)


def worker_folder() -> str | None:
    """Return the folder for temporary files of the worker that calls this."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # no worker
        return None


def _same(thing: Any) -> Any:
    return thing


def _version() -> str:
    return __version__


# In the process that runs the learning loop


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A context with the client of the cluster at an address."""
    Client = _client_class()
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise LearningError(f"There is no cluster at {address!r}: {first_line(error)}") from error
    with client:
        yield client


def _client_class() -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise LearningError(
            "Learning on a cluster needs dask.",
            remedies=(
                "install it (pip install 'fgrn[dask]')",
                Remedy("leave out {} to learn here", "executor", executor=...),
            ),
        ) from None
    return Client


class Cluster:
    """The workers behind a client of dask.distributed."""

    def __init__(self, client: Any) -> None:
        Client = _client_class()
        if not isinstance(client, Client) or client.asynchronous:
            kind = "an asynchronous one" if isinstance(client, Client) else f"{type(client).__name__}"
            raise LearningError(
                f"is a client, dask.distributed.Client(...). Got {kind} instead.", setting="executor", value=client
            )
        if client.status != "running":
            raise LearningError("The client of this cluster is closed. Open another one.")
        self.client = client
        self.workers = 0
        self._looked = monotonic()
        self._alone: float | None = None
        with self.requests():
            versions = client.run(_version, on_error="return")
        for worker, version in versions.items():
            if isinstance(version, OSError):  # it has just gone
                continue
            if isinstance(version, Exception):
                raise LearningError(
                    f"Worker {worker} cannot use fgrn: {first_line(version)}. Install fgrn {__version__} there."
                )
            if version != __version__:
                raise LearningError(f"Worker {worker} has fgrn {version}, and here it is {__version__}. Have one.")
            self.workers += 1
        if not self.workers:
            raise LearningError(
                "This cluster has no worker.",
                remedies=("start some", Remedy("wait for them", "client.wait_for_workers(1)", client=...)),
            )

    def __repr__(self) -> str:
        count = f"{self.workers} {'worker' if self.workers == 1 else 'workers'}"
        link = self.client.dashboard_link
        return f"A cluster of {count}" + (f"; dashboard: {link}" if link else "")

    @contextmanager
    def requests(self) -> Iterator[None]:
        """A context for requests to the workers, in which the loss of the cluster becomes a clear error."""
        try:
            yield
        except FgrnError:
            raise
        except Exception as error:
            if self.client.status == "running":
                raise
            raise LearningError(f"The cluster has gone away: {first_line(error)}") from error

    def shared(self, thing: Any) -> Any:
        """Return an object that many tasks need, sent to one worker and from there to the others."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # large tables have to go there
            return self.client.submit(_same, thing, key=_key("share"))

    def each(self, work: Callable[..., Any], parts: Sequence[tuple[Any, Any]], *shared: Any) -> list[Any]:
        """Return futures of a function applied to every part with its frame, which may be the result of other tasks."""
        from dask import delayed

        common = [delayed(thing, name=_key("share"), traverse=False) for thing in shared]
        named, key = delayed(_work_on_part), _key(work.__name__)
        tasks = [named(work, *part, *common, dask_key_name=(key, number)) for number, part in enumerate(parts)]
        found: list[Any] = self.client.compute(tasks)
        return found

    def mapped(self, work: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """Return futures of a function applied to every item."""
        same = [[thing] * len(items) for thing in shared]
        keys = [f"{key}-{number}" for key in [_key(work.__name__)] for number in range(len(items))]
        found: list[Any] = self.client.map(work, items, *same, key=keys)
        return found

    def together(self, add: Callable[..., Any], items: Sequence[Any]) -> Any:
        """Return the sum of all items, added in order, a few at a time."""
        while len(items) > 1:
            groups = [items[first : first + FAN_IN] for first in range(0, len(items), FAN_IN)]
            items = [self.client.submit(add, *group, key=_key(add.__name__)) for group in groups]
        return items[0]

    def finish(
        self, futures: Sequence[Any], names: Sequence[str], what: str = "", reporter: ProgressReporter | None = None
    ) -> None:
        """Wait for all futures; if one fails, the error has the name of its part."""
        from distributed import as_completed

        coming, done = as_completed(futures), 0
        with self._or_cancelled(futures):
            while not coming.is_empty():
                found = coming.next_batch(block=False)
                if any(future.status in FAILED for future in found):
                    raise _first_failure(futures, names, "read")
                done += len(found)
                if found and reporter is not None:
                    reporter(what, done, len(futures))
                if not found:
                    self._look()
                    sleep(MOMENT)

    def result(self, total: Any, parts: Sequence[Any] = (), names: Sequence[str] = (), done: str = "read") -> Any:
        """Return the result of a future that depends on all parts, or raise the error of the part that failed."""
        with self._or_cancelled(parts):
            while True:
                try:
                    total.exception(timeout=LOOK)  # unlike distributed.wait, asks the client that the future is of
                    if total.status in FAILED:
                        break
                    return total.result(timeout=FETCH)  # the worker that has it may be gone by now
                except TimeoutError:
                    self._look()
            raise _first_failure([*parts, total], [*names, "What the workers have"], done)

    @contextmanager
    def _or_cancelled(self, futures: Sequence[Any]) -> Iterator[None]:
        """A context that cancels the tasks of workers if it ends before their results arrived."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # of a cluster that is not there any more
                self.client.cancel(list(futures))
            raise

    def _look(self) -> None:
        """Check from time to time that there are workers, with some patience because they may restart."""
        now = monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        if self.client.nthreads():
            self._alone = None
            return
        self._alone = now if self._alone is None else self._alone
        if now - self._alone > PATIENCE:
            raise LearningError(f"This cluster has had no worker for {PATIENCE:.0f} seconds.")


def _first_failure(futures: Sequence[Any], names: Sequence[str], done: str) -> Exception:
    """Return the error of the first task that failed, with the name of its part."""
    from distributed import CancelledError, KilledWorker

    future, name = next(pair for pair in zip(futures, names, strict=True) if pair[0].status in FAILED)
    try:
        error = future.exception()
    except CancelledError as cancelled:
        error = cancelled
    if isinstance(error, FgrnError):
        return error
    if isinstance(error, KilledWorker):
        return LearningError(
            f"{name}, or what was done beside it: every worker that took it on died. Is it too large for their memory? "
            f"What they wrote last is in their logs; the last one was {error.last_worker.address}."
        )
    if isinstance(error, CancelledError):
        return LearningError(f"{name} was lost with a worker, or the whole cluster, and cannot be made again.")
    kind = TableFileError if done == "read" else LearningError
    raised = kind(f"{name} cannot be {done}: {type(error).__name__}: {first_line(error)}")
    raised.__cause__ = error
    return raised


def _key(what: str) -> str:
    return f"fgrn-{what}-{uuid4().hex}"


class RemoteRows:
    """Rows that are read by the workers of a cluster: see `encoding.Rows`."""

    def __init__(self, data: Any, executor: Any, reporter: ProgressReporter | None = None) -> None:
        self.cluster, self._reporter = Cluster(executor), reporter
        if reporter is not None:
            reporter.note(f"{self.cluster!r}")
        self._frames: list[Any] = []
        if hasattr(data, "to_delayed") and hasattr(data, "columns"):
            names = [frames.checked_name(name) for name in data.columns]
            self._frames = list(data.to_delayed())
            self._stream = Stream(iter(()))
            self._called = "This Dask dataframe"
            parts = [StreamPart(f"partition {n}", tuple(names), (), None, None, []) for n in range(len(self._frames))]
        elif isinstance(data, (str, os.PathLike)) or (isinstance(data, Stream) and data.is_files):
            self._stream = stream_of(data)
            self._called = self._stream.called
            parts = self._file_parts(self._stream.absolute())
        else:
            raise LearningError(
                "On a cluster a table is a Dask dataframe, or the path of Parquet files that every worker can read. "
                f"Got {type(data).__name__} instead; dask.dataframe.from_pandas(table, npartitions=...) makes one "
                "of what is in memory."
            )
        self._parts = parts
        self._names = [part.called for part in parts]

    def _file_parts(self, stream: Stream) -> list[StreamPart]:
        """Return the parts of the files, listed by a worker."""
        with self.cluster.requests():
            names, shares = self.cluster.result(self.cluster.client.submit(_list_row_groups, stream, key=_key("list")))
        if not shares:
            raise TableFileError(f"{self._called} holds no rows to learn from.")
        stream.check_dropped(names)
        chosen = stream.chosen(names)
        found = []
        for part in parts_of(shares):
            first, last = part[0], part[-1]
            text = f"{name_in_errors(first.file)}, rows {first.first:,} to {first.first + first.rows - 1:,}"
            text = text if len(part) == 1 else f"{name_in_errors(first.file)} to {name_in_errors(last.file)}"
            found.append(StreamPart(text, chosen, tuple(part), None, None, []))
        return found

    def _tasks(self) -> list[tuple[StreamPart, Any]]:
        given = self._frames or [None] * len(self._parts)
        return list(zip(self._parts, given, strict=True))

    def distinct(self, weights: str | None) -> dict[str, Distinct]:
        """See `encoding.Rows`."""
        cluster = self.cluster
        self._check_weights(weights)
        with cluster.requests():
            summaries = cluster.each(pieces.distinct_in_part, self._tasks(), self._stream, weights)
            total = cluster.together(pieces.joined, summaries)
            cluster.finish(summaries, self._names, "looking at columns", self._reporter)
            found: dict[str, Distinct] = cluster.result(total, summaries, self._names)
        check_rows(self._called, len(found), len(found), weights)
        return found

    def encoded(self, weights: str | None, coding_for: CodingFor, without_zero: bool = False) -> RemoteTable:
        """See `encoding.Rows`."""
        cluster, columns = self.cluster, self._parts[0].names
        self._check_weights(weights)
        coding = coding_for([name for name in columns if name != weights])
        with cluster.requests():
            made = cluster.each(pieces.piece, self._tasks(), self._stream, weights, coding, without_zero)
            cluster.finish(made, self._names, "reading rows", self._reporter)
            found = cluster.mapped(pieces.facts, made)
            cluster.finish(found, self._names)
            facts: list[pieces.Facts] = cluster.client.gather(found)
        self._issue_warnings(facts, coding)
        check_rows(self._called, sum(one.rows for one in facts), sum(one.weight for one in facts), weights)
        full = [(piece, name, one) for piece, name, one in zip(made, self._names, facts, strict=True) if one.rows]
        kept, names, known = zip(*full, strict=True)
        return RemoteTable(tuple(coding.kept.values()), cluster, kept, names, known)

    def _check_weights(self, weights: str | None) -> None:
        if weights is not None and weights not in self._parts[0].names:
            raise unknown_name("column", weights, self._parts[0].names)

    def _issue_warnings(self, facts: Sequence[pieces.Facts], coding: Coding) -> None:
        """Issue the warnings about the rows in this process."""
        for text in dict.fromkeys(text for one in facts for text in one.warnings):
            warn(text, FgrnWarning)
        left_out = sum((Counter(one.left_out) for one in facts), Counter[str]())
        self._stream.left_out = left_out
        if left_out:
            warn(f"{self._called}: {self._stream.report()}", FgrnWarning)
        if isinstance(coding.code, BySchema):
            for one in facts:
                for name, strange in one.strange.items():
                    coding.code.strange.setdefault(name, Counter()).update(strange)


def _list_row_groups(stream: Stream) -> Any:
    try:
        return row_groups_of(stream.files, stream.format)
    except TableFileError as error:
        found = error
    raise found.changed(message=f"{found.message} Reported by a worker of the cluster.")


@dataclass(frozen=True, eq=False)
class RemoteTable(EncodedTable):
    """A table in pieces on the workers of a cluster, with the numbering of its own columns or of `variables`."""

    columns: tuple[str, ...]
    cluster: Cluster
    futures: tuple[Any, ...]
    called: tuple[str, ...]
    facts: tuple[pieces.Facts, ...]
    variables: Variables | None = None
    log_scale: float = 0.0

    @cached_property
    def slot(self) -> np.ndarray:  # type: ignore[override]
        """See `EncodedTable`."""
        return np.arange(len(self.columns)) if self.variables is None else column_of_each(self.variables, self.columns)

    @property
    def place(self) -> RowsPlace:
        """See `EncodedTable`."""
        return "workers"

    @property
    def rows(self) -> int:
        """See `EncodedTable`."""
        return sum(one.rows for one in self.facts)

    @property
    def weight(self) -> float:
        """See `EncodedTable`."""
        return float(sum(one.weight for one in self.facts))

    @property
    def complete(self) -> bool:
        """See `EncodedTable`."""
        return all(one.complete for one in self.facts)

    def numbered_by(self, variables: Variables) -> RemoteTable:
        """See `EncodedTable`."""
        column_of_each(variables, self.columns)
        return replace(self, variables=variables)

    def scaled(self, log_scale: float) -> RemoteTable:
        """See `EncodedTable`."""
        return replace(self, log_scale=self.log_scale + log_scale)

    def estep(self, make: pieces.EStepOver) -> RemoteEStep:
        """See `EncodedTable`. Each worker computes the E-step over its pieces."""
        shared = map(self.cluster.shared, (make, self.variables, self.log_scale))
        with self.cluster.requests():
            esteps = self.cluster.mapped(pieces.PieceEStep, self.futures, *shared)
            self.cluster.finish(esteps, self.called)
        return RemoteEStep(self.cluster, tuple(esteps), self.called, self.rows)

    def digests(self) -> dict[str, Any]:
        """See `EncodedTable`. The borders of pieces are included, because they decide the order of summation."""
        with self.cluster.requests():
            found = self.cluster.mapped(pieces.digests, self.futures)
            self.cluster.finish(found, self.called)
            rows, values, weights = zip(*self.cluster.client.gather(found), strict=True)
        return {
            "rows": self.rows,
            "names": digest(self.slot),
            "values": digest(values),
            "weights": digest(weights),
            "pieces": digest(rows),
        }
