"""Checkpoints: how far learning has come, kept so that a run that was interrupted ends as if it had not been.

A run has one stage for each time a network learns: one for `Network.learn`, one per layer for `learn_by_layer`, one
per number of hidden states where an estimator tries several. A stage knows what it is about (network, rows, settings),
the parameters it began with and how far each start has come. `files.checkpoint_file` describes the bytes.

    opened(...)  ->  Journal  ->  a Keeper for each stage  ->  em.learn

Without a file a journal is in memory alone: estimators have one, to keep what was learnt when `fit` is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..core import settings
from ..core.distributions import ROW_SUM_TOLERANCE
from ..core.exceptions import CheckpointError, CheckpointWarning, LearningError, warn
from ..engines import engine_names
from ..flow.em import Outcome, Rule, Start, outcome
from ..flow.parameters import Parameters, Specification
from ..plan.plan import Layout
from ..tables.encoded import Evidence, Spread

Result = TypeVar("Result")

EVERY = 5
"""Epochs between two checkpoints, unless said otherwise."""

BYTES_AT_ONCE = 2**22
"""Of an array that does not lie row by row, as much is copied at a time to be digested."""

MAY_GROW = ("epochs", "starts")
"""Settings that may be raised when learning goes on: what was learnt so far is a part of the longer run."""

ADDED_LATER = {"accelerate": False}
"""Settings that older checkpoints do not name, and what they were."""

DIGESTS = {
    "network": "the network, or what of it is learnt, differs",
    "names": "the columns differ",
    "values": "the values of the table differ",
    "weights": "the weights of the rows differ",
    "pieces": "the rows are in other pieces on a cluster, or were on one machine, so that sums are rounded otherwise",
}
"""What is compared without being kept."""


@dataclass(frozen=True)
class Checkpoint:
    """Where learning keeps how far it has come, and whether it goes on from there.

    Args:
        path: of the file. It is written before learning begins, every few epochs and at the end, each time all of it or
            nothing. Only one run writes it at a time.
        every: how many epochs are between two checkpoints.
        resume: go on from the file, if it is there. Otherwise a file that is there is an error: it is not overwritten
            by another run.
    """

    path: str | os.PathLike[str]
    every: int = EVERY
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise LearningError(f"A checkpoint is the name of a file. Got {self.path!r} instead.")
        settings.whole("every", self.every, 1, LearningError)
        settings.choice("resume", self.resume, (True, False), LearningError)


@dataclass
class Stage:
    """One time of learning: what it is about, what it began with, and how far each start has come.

    The `model` that learns is known where the stage has begun in this process.
    """

    about: dict[str, Any]
    began: Parameters
    starts: list[Start] = field(default_factory=list)
    model: Any = None

    @property
    def best(self) -> int | None:
        """Which start is the best so far, of those that have an epoch behind them."""
        tried = [number for number, start in enumerate(self.starts) if start.epochs]
        return max(tried, key=lambda number: _objective(self.starts[number]), default=None)

    def so_far(self, layout: Layout) -> Outcome | None:
        """What learning would end with, did it end here; what is not estimated is known of a start that has ended."""
        if self.best is None:
            return None
        return outcome(self.starts, self.best, [_objective(one) for one in self.starts if one.epochs], layout)


def _objective(start: Start) -> float:
    """Of its parameters as they are, or else of those before the last update."""
    return start.objectives[-1] if start.final is None else start.final


@contextmanager
def opened(
    checkpoint: Place, every: int = EVERY, resume: bool = False, interruptible: bool = False
) -> Iterator[Journal | None]:
    """The journal of a checkpoint, which is over when the context ends well; one that is open stays so.

    What is `interruptible` has one in any case, in memory if there is no checkpoint.
    """
    if checkpoint is None or isinstance(checkpoint, Journal):
        if checkpoint is None and resume is not False:
            raise LearningError("To resume, name the file to go on from: checkpoint='run.ckpt', resume=True.")
        yield Journal(None, interruptible) if checkpoint is None and interruptible else checkpoint
        return
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint, every, resume)
    elif every != EVERY or resume is not False:
        raise LearningError("A Checkpoint says itself how often it is written and whether to resume.")
    with _alone(Path(checkpoint.path)):
        journal = Journal(checkpoint, interruptible)
        yield journal
        journal.close()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Be the only run that writes this checkpoint, in this process and in all others."""
    from ..core.whole_file import FileLocked, locked

    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except FileLocked as holder:
            raise CheckpointError(
                f"The checkpoint {str(path)!r} is being written by {holder}. Wait until that has ended, or name "
                "another checkpoint for this run."
            ) from holder
        yield


@contextmanager
def kept(checkpoint: Place, every: int, resume: bool) -> Iterator[Journal | None]:
    """The journal of one time of learning, if there is a checkpoint; what was learnt is on the disk if it fails."""
    with opened(checkpoint, every, resume) as journal:
        try:
            yield journal
        except BaseException:
            if journal is not None:
                journal.save()
            raise


def as_begun(journal: Journal | None, evidence: Evidence, engine: str, merge: bool | None) -> tuple[str, bool | None]:
    """The engine and whether to merge rows: as named, or else as the stage that goes on was begun.

    What "auto" and None mean depends on the number of epochs, which may grow, and on `fgrn.warm`; sums are rounded
    otherwise by another engine, or where rows are merged.
    """
    before = {} if journal is None else journal.before
    if engine == "auto" and before.get("engine") in engine_names():
        engine = before["engine"]
    if merge is None and isinstance(before.get("merge"), bool) and evidence.in_memory:
        merge = before["merge"]
    return engine, merge


class Journal:
    """The stages of a run so far, in memory, and what of them is on the disk if there is a checkpoint.

    One that is `interruptible` lets learning end well when it is interrupted, with what was learnt until then, and its
    `interruption` then tells when that was. Whoever goes on with the run asks for that, and stops soon.
    """

    def __init__(self, checkpoint: Checkpoint | None, interruptible: bool = False) -> None:
        self.path = None if checkpoint is None else Path(checkpoint.path)
        self._every = EVERY if checkpoint is None else checkpoint.every
        self._interruptible, self.interruption = interruptible, ""
        self._stages, self._over = self._found(checkpoint is not None and checkpoint.resume)
        self._next = 0
        self._waiting = 0  # epochs that are not on the disk yet
        self._is_writable = self._has_warned = False

    def _found(self, resume: bool) -> tuple[list[Stage], bool]:
        from ..files.checkpoint_file import read_checkpoint

        if self.path is None:
            return [], False
        try:
            is_there = self.path.exists()
        except OSError:  # a folder that nobody may look into, which writing will tell
            is_there = False
        if not is_there:
            return [], False
        if not resume:
            raise CheckpointError(
                f"There is a file {str(self.path)!r} already. To go on from it, say resume=True; to begin anew, delete "
                "it or name another."
            )
        stages, over = read_checkpoint(self.path)
        if over:  # whoever stopped the run by its watcher wants it to go on now
            for stage in stages:
                stage.starts = [replace(start, stopped=False) for start in stage.starts]
        return stages, over

    @property
    def before(self) -> dict[str, Any]:
        """What the next stage was about when it was begun; nothing if it is new."""
        return self._stages[self._next].about if self._next < len(self._stages) else {}

    def keeper(self, *described: Any, **others: Any) -> StageKeeper:
        """Who keeps the next stage, which is described as `about` wants it."""
        told = {} if self.path is None else about(*described, **others)
        self._next += 1
        return StageKeeper(self, self._next - 1, described[0], told)

    def finished(self, work: Callable[[], Result], so_far: Callable[[], Result | None] = lambda: None) -> Result:
        """What some work of the run comes to; if it is interrupted, what there is of it so far.

        Where there is nothing of it yet, and it would be a pity for what was done before, it is done once more, and
        asked to stop soon, with the stages it has begun. An interruption before any epoch, or the second one, is what
        it is everywhere else.
        """
        first = self._next
        try:
            return work()
        except KeyboardInterrupt:
            starts = [start for stage in self._stages[: self._next] for start in stage.starts if start.epochs]
            if not (self._interruptible and starts) or self.interruption:
                raise
            epochs, number = starts[-1].epochs, len(self._stages[: self._next][-1].starts)
            self.interruption = f"after {epochs} {'epoch' if epochs == 1 else 'epochs'} of start {number}"
            found = so_far()
            if found is None:
                self._next = first
                found = work()
            return found

    def begun(self, keeper: StageKeeper, spec: Specification, parameters: Parameters, rule: Rule) -> Stage:
        """A stage, as far as it has come. An error if it cannot be written, or is about something else."""
        number = keeper.number
        if number == len(self._stages):
            self._stages.append(Stage(keeper.about, parameters))
        stage = self._stages[number]
        self._compare(stage, keeper.about, spec, parameters, rule)
        stage.about, stage.model = keeper.about, keeper.model
        if len(stage.starts) < rule.starts or not all(start.has_ended(rule) for start in stage.starts):
            del self._stages[number + 1 :]  # what came after a shorter stage
            self._over = False
            self._write()
        return stage

    def _compare(
        self, stage: Stage, about: Mapping[str, Any], spec: Specification, parameters: Parameters, rule: Rule
    ) -> None:
        found = differences(stage.about, about)
        if not found:
            frozen = ~spec.learnt
            every = [stage.began, *(one for start in stage.starts for one in start.kept)]
            if len(stage.starts) > rule.starts or not all(_is_possible(one, spec) for one in every):
                raise CheckpointError(
                    f"The checkpoint {str(self.path)!r} holds tables that are none of this network: it was altered. "
                    "Delete it, or name another, to begin anew."
                )
            if any(not np.array_equal(one.values[frozen], parameters.values[frozen]) for one in every):
                found = ["the tables that are not learnt differ"]
        if found:
            raise LearningError(
                f"The checkpoint {str(self.path)!r} is of another run: {'; '.join(found)}. Resume with the network, "
                "data and settings it was begun with, or begin anew with another checkpoint."
            )

    def keep(self, stage: Stage, starts: Sequence[Start], ended: bool) -> None:
        """Take note, and write where it is time."""
        stage.starts = list(starts)
        self._waiting += 1
        if ended or self._waiting >= self._every:
            self._write()

    def save(self) -> None:
        """Write what is not on the disk yet, since learning ends here."""
        if self._waiting:
            self._write()

    def close(self) -> None:
        """The run is over."""
        if not self._over:
            self._over = True
            self._write()

    def _write(self) -> None:
        """The first time a failure is an error. Later on learning is worth more than its checkpoint: a warning."""
        from ..files.checkpoint_file import write_checkpoint

        if self.path is None:
            return
        try:
            write_checkpoint(self.path, self._stages, self._over, tidy=not self._is_writable)
        except CheckpointError as error:
            if not self._is_writable:
                raise
            if not self._has_warned:
                self._has_warned = True
                warn(f"{error} Learning goes on, and so do attempts to write it.", CheckpointWarning)
            return
        self._waiting, self._is_writable, self._has_warned = 0, True, False


@dataclass
class StageKeeper:
    """Keeps one stage of a run: see `em.Keeper`."""

    journal: Journal
    number: int
    model: Any
    about: dict[str, Any]
    stage: Stage | None = None
    layout: Layout | None = None

    def begun(self, spec: Specification, parameters: Parameters, rule: Rule) -> tuple[Parameters, list[Start]]:
        """See `em.Keeper`."""
        self.stage, self.layout = self.journal.begun(self, spec, parameters, rule), spec.layout
        return self.stage.began, list(self.stage.starts)

    def keep(self, starts: Sequence[Start], ended: bool = False) -> None:
        """See `em.Keeper`."""
        if self.stage is not None:
            self.journal.keep(self.stage, starts, ended)

    def finished(self, learn: Callable[[], Outcome]) -> Outcome:
        """What learning comes to, or has come to when it is interrupted: see `Journal.finished`."""
        return self.journal.finished(learn, self._so_far)

    def _so_far(self) -> Outcome | None:
        return None if self.stage is None or self.layout is None else self.stage.so_far(self.layout)


Place: TypeAlias = str | os.PathLike[str] | Checkpoint | Journal | None
"""What people may give as a checkpoint, and what a run of several stages gives to each of them."""


# What a run is about


def about(
    model: Any,
    structure: Sequence[object],
    spec: Specification,
    table: Callable[[], dict[str, Any]],
    rule: Rule,
    **others: Any,
) -> dict[str, Any]:
    """What a stage is about, as JSON can say it: what has to be the same for learning to go on.

    Args:
        model: what learns.
        structure: what its messages depend on, beside the specification.
        spec: what is learnt.
        table: what the rows are about, see `of_table`.
        rule: how it is learnt.
        others: more settings.
    """
    settings_of_rule = {one.name: _plain(getattr(rule, one.name)) for one in fields(rule)}
    return {
        "model": type(model).__name__,
        "network": digest(*structure, spec),
        **table(),
        **settings_of_rule,
        **{name: _plain(value) for name, value in others.items()},
    }


def of_table(table: Any, evidence: Evidence, weights: np.ndarray) -> Callable[[], dict[str, Any]]:
    """What the rows of a table are about, here or on a cluster, when somebody asks."""
    if isinstance(table, Spread):
        return partial(table.about, evidence.slot)
    return partial(of_rows, evidence, weights)


def of_rows(evidence: Evidence, weights: np.ndarray) -> dict[str, Any]:
    """What rows are about, wherever they are kept."""
    return {
        "rows": evidence.rows,
        "names": digest(evidence.slot),
        "values": digest(replace(evidence, disk=None)),
        "weights": digest(weights),
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In which ways a run is another than it was; none if one can go on as the other."""
    found = []
    apart = before.get("pieces") != now.get("pieces")  # then digests of values differ, whether values do or not
    for name in dict.fromkeys([*now, *before]):
        if apart and name in ("values", "weights"):
            continue
        was, is_now = (one.get(name, ADDED_LATER.get(name)) for one in (before, now))
        has_grown = name in MAY_GROW and type(was) is type(is_now) is int and was < is_now
        if was == is_now or has_grown:
            continue
        told = f"{name!r} was {was!r} and is {is_now!r}"
        found.append(DIGESTS[name] if name in DIGESTS else told + (", and may grow only" if name in MAY_GROW else ""))
    return found


def digest(*things: object) -> str:
    """A number for the values of arrays and of what holds them, the same in every process."""
    total = blake2b(digest_size=16)
    for thing in things:
        for part in _parts(thing):
            total.update(part)
    return total.hexdigest()


def _parts(thing: object) -> Iterator[Any]:
    if isinstance(thing, np.ndarray):
        yield f"{thing.dtype.str}{thing.shape}".encode()
        lying = np.atleast_1d(thing.T if thing.flags.f_contiguous else thing)
        step = max(1, BYTES_AT_ONCE * len(lying) // max(1, lying.nbytes))
        for first in range(0, len(lying), step):
            yield np.ascontiguousarray(lying[first : first + step]).reshape(-1).view(np.uint8).data
    elif is_dataclass(thing):
        for one in fields(thing):
            if one.init:
                yield one.name.encode()
                yield from _parts(getattr(thing, one.name))
    elif isinstance(thing, (tuple, list)):
        yield f"{len(thing)}(".encode()
        for item in thing:
            yield from _parts(item)
    else:
        yield f"{thing!r};".encode()


def _plain(value: Any) -> Any:
    """A setting as JSON can say it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _is_possible(parameters: Parameters, spec: Specification) -> bool:
    """Whether what is learnt are distributions, and nothing is where nothing may be."""
    values, layout = parameters.values, spec.layout
    if len(values) != layout.size:
        return False
    learnt = np.where(spec.learnt, values, 0.0)
    sums = np.add.reduceat(learnt, layout.lines)[spec.learnt[layout.lines]]
    numbers = (parameters.undrawn_tables, len(spec.tables)), (parameters.undrawn_priors, len(spec.priors))
    return (
        bool(np.isfinite(learnt).all())
        and not (learnt < 0).any()
        and not learnt[~spec.supported].any()
        and bool((np.abs(sums - 1) <= ROW_SUM_TOLERANCE).all())
        and all(0 <= number < count for some, count in numbers for number in some)
    )
