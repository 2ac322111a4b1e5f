"""Checkpoints: the progress of learning in a file, from which an interrupted run continues to the same result.

A run has one stage for each time a network learns: one for `Network.learn`, one per layer for `learn_by_layer`, one
per number of hidden states where an estimator tries several. A stage has its identity (network, rows, settings), the
parameters it began with and the state of each start. `files.checkpoint_file` describes its bytes.

    open_journal(...)  ->  Journal  ->  a Keeper for each stage  ->  em.learn

Without a file a journal is in memory only: estimators have one, to keep the result so far when `fit` is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..core import settings
from ..core.exceptions import CheckpointError, CheckpointWarning, LearningError, Remedy, warn
from ..core.learning_defaults import EPOCHS_PER_CHECKPOINT
from ..engines import engine_names
from ..flow.em import Outcome, Rule, Start, outcome
from ..flow.parameters import Parameters, Specification
from ..plan.plan import Layout
from ..tables.encoded import EncodedTable
from .run_identity import differences, is_possible

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: the file that stores the progress of learning, and whether to continue from it.

    Args:
        path: of the file. It is written before learning begins, every few epochs and at the end, each time all of it or
            nothing. Only one run writes it at a time.
        every: the number of epochs between two checkpoints.
        resume: whether to continue from the file, if it exists. If False, an existing file is an error, so that it is
            not overwritten by another run.
    """

    path: str | os.PathLike[str]
    every: int = EPOCHS_PER_CHECKPOINT
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise LearningError(f"A checkpoint is the name of a file. Got {self.path!r} instead.")
        settings.whole("every", self.every, 1, LearningError)
        settings.choice("resume", self.resume, (True, False), LearningError)


@dataclass
class Stage:
    """One call of `learn` in a run: its identity, the parameters it began with, and the state of each start.

    The `model` that learns is known where the stage has begun in this process.
    """

    about: dict[str, Any]
    began: Parameters
    starts: list[Start] = field(default_factory=list)
    model: Any = None

    @property
    def best(self) -> int | None:
        """Return the number of the best start so far, of those with at least one epoch."""
        tried = [number for number, start in enumerate(self.starts) if start.epochs]
        return max(tried, key=lambda number: _objective(self.starts[number]), default=None)

    def so_far(self, layout: Layout) -> Outcome | None:
        """Return the result as if learning ended now; parameters not estimated are known only for ended starts."""
        if self.best is None:
            return None
        return outcome(self.starts, self.best, [_objective(one) for one in self.starts if one.epochs], layout)


def _objective(start: Start) -> float:
    """Return the objective of a start's current parameters if known, else of those before the last update."""
    if start.final is None and start.validations:
        return max(start.validations)
    return start.objectives[-1] if start.final is None else start.final


@contextmanager
def open_journal(
    checkpoint: Place, every: int = EPOCHS_PER_CHECKPOINT, resume: bool = False, interruptible: bool = False
) -> Iterator[Journal | None]:
    """Open the journal of a checkpoint; it is closed when the context ends without an error.

    What is `interruptible` has one in any case, in memory if there is no checkpoint.
    """
    if checkpoint is None or isinstance(checkpoint, Journal):
        if checkpoint is None and resume is not False:
            raise LearningError(
                "There is no checkpoint to continue from.",
                remedies=Remedy("name the file", checkpoint=..., resume=True),
            )
        if checkpoint is None and every != EPOCHS_PER_CHECKPOINT:
            raise LearningError(
                "is the number of epochs between two checkpoints, and there is no checkpoint.",
                setting="every",
                value=every,
                remedies=(Remedy("name the file", checkpoint=...), "leave it out"),
            )
        yield Journal(None, interruptible) if checkpoint is None and interruptible else checkpoint
        return
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint, every, resume)
    elif every != EPOCHS_PER_CHECKPOINT or resume is not False:
        raise LearningError("A Checkpoint object already has the settings `every` and `resume`.")
    with _alone(Path(checkpoint.path)):
        journal = Journal(checkpoint, interruptible)
        yield journal
        journal.close()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a checkpoint, so that no other run in any process writes it."""
    from ..core.whole_file import FileLocked, locked

    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except FileLocked as holder:
            raise CheckpointError(
                f"The checkpoint {str(path)!r} is being written by {holder}.",
                value=str(path),
                remedies=("wait until that run has ended", "name another checkpoint for this run"),
            ) from holder
        yield


@contextmanager
def stage_journal(checkpoint: Place, every: int, resume: bool) -> Iterator[Journal | None]:
    """Open the journal for one call of `learn`, if there is a checkpoint; it is also written if learning fails."""
    with open_journal(checkpoint, every, resume) as journal:
        try:
            yield journal
        except BaseException:
            if journal is not None:
                journal.save()
            raise


def as_begun(journal: Journal | None, table: EncodedTable, engine: str, merge: bool | None) -> tuple[str, bool | None]:
    """Return the engine and whether to merge rows: as given, or else as in the stage that is resumed.

    What "auto" and None mean depends on the number of epochs, which may grow, and on `fgrn.warm`; sums are rounded
    otherwise by another engine, or where rows are merged.
    """
    before = {} if journal is None else journal.before
    if engine == "auto" and before.get("engine") in engine_names():
        engine = before["engine"]
    if merge is None and isinstance(before.get("merge"), bool) and table.in_memory:
        merge = before["merge"]
    return engine, merge


class Journal:
    """The stages of a run so far, in memory and, if there is a checkpoint, on disk.

    An `interruptible` journal lets interrupted learning end with the result so far; its `interruption` then says when
    that was, and the later steps of the run check it and stop soon.
    """

    def __init__(self, checkpoint: Checkpoint | None, interruptible: bool = False) -> None:
        self.path = None if checkpoint is None else Path(checkpoint.path)
        self._every = EPOCHS_PER_CHECKPOINT if checkpoint is None else checkpoint.every
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
        except OSError:  # a folder that cannot be read: writing will say so
            is_there = False
        if not is_there:
            return [], False
        if not resume:
            raise CheckpointError(
                f"There is a file {str(self.path)!r} already.",
                value=str(self.path),
                remedies=(Remedy("go on from it", resume=True), "delete it or name another to begin anew"),
            )
        stages, over = read_checkpoint(self.path)
        if over:  # a run that its watcher stopped is continued now
            for stage in stages:
                stage.starts = [replace(start, stopped=False) for start in stage.starts]
        return stages, over

    @property
    def before(self) -> dict[str, Any]:
        """Return the identity of the next stage as recorded in the checkpoint; empty if it is new."""
        return self._stages[self._next].about if self._next < len(self._stages) else {}

    def keeper(self, model: Any, about: Callable[[], dict[str, Any]]) -> StageKeeper:
        """Return the keeper of the next stage, in which a model learns; see `run_identity.about`."""
        identity = {} if self.path is None else about()
        self._next += 1
        return StageKeeper(self, self._next - 1, model, identity)

    def finished(self, work: Callable[[], Returned], so_far: Callable[[], Returned | None] = lambda: None) -> Returned:
        """Return the result of a function or, if it is interrupted, the result so far.

        Where there is none yet, but earlier work would be lost, it is done once more, and asked to stop soon, with the
        stages it has begun. An interruption before any epoch, and a second one, end the run as usual.
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

    def resume_or_begin(self, keeper: StageKeeper, spec: Specification, parameters: Parameters, rule: Rule) -> Stage:
        """Return a stage with its progress so far; an error if it cannot be written, or belongs to another run."""
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
            if len(stage.starts) > rule.starts or not all(is_possible(one, spec) for one in every):
                raise CheckpointError(
                    f"The checkpoint {str(self.path)!r} holds tables of another network: it was altered. "
                    "Delete it, or name another, to begin anew."
                )
            given = [one.values[: spec.layout.size][frozen] for one in (parameters, *every)]
            if any(not np.array_equal(one, given[0]) for one in given):
                found = ["the tables that are not learnt differ"]
        if found:
            raise LearningError(
                f"The checkpoint {str(self.path)!r} is of another run: {'; '.join(found)}. Resume with the network, "
                "data and settings it was begun with, or begin anew with another checkpoint."
            )

    def keep(self, stage: Stage, starts: Sequence[Start], ended: bool) -> None:
        """Store the state of the starts, and write the file every few epochs."""
        stage.starts = list(starts)
        self._waiting += 1
        if ended or self._waiting >= self._every:
            self._write()

    def save(self) -> None:
        """Write everything that is not on disk yet, because learning ends."""
        if self._waiting:
            self._write()

    def close(self) -> None:
        """Mark the run as finished, and write the file."""
        if not self._over:
            self._over = True
            self._write()

    def _write(self) -> None:
        """Write the file. A failure is an error the first time, and a warning later, so that learning continues."""
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
                goes_on = f"{error.message} Learning continues, and writing will be tried again."
                warn(CheckpointWarning(**{**error.parts, "message": goes_on}), CheckpointWarning)
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

    @property
    def needs_every_epoch(self) -> bool:
        """See `em.Keeper`: a file is written after every so many of them."""
        return self.journal.path is not None

    def resume_or_begin(
        self, spec: Specification, parameters: Parameters, rule: Rule
    ) -> tuple[Parameters, list[Start]]:
        """See `em.Keeper`."""
        self.stage, self.layout = self.journal.resume_or_begin(self, spec, parameters, rule), spec.layout
        return self.stage.began, list(self.stage.starts)

    def keep(self, starts: Sequence[Start], ended: bool = False) -> None:
        """See `em.Keeper`."""
        if self.stage is not None:
            self.journal.keep(self.stage, starts, ended)

    def so_far(self) -> Outcome | None:
        """Return the result as if learning ended now; None before the first epoch."""
        return None if self.stage is None or self.layout is None else self.stage.so_far(self.layout)


Place: TypeAlias = str | os.PathLike[str] | Checkpoint | Journal | None
"""A checkpoint as users give it, or as a run of several stages passes it to each of them."""
