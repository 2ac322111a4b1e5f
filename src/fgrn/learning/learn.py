"""Training, the common part of every `learn`: the E-step over a table, the EM loop, checkpoint and record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.exceptions import ImpossibleEvidence, LearningError
from ..flow import em
from ..flow.mstep import Smoothing
from ..flow.parameters import Parameters, Specification
from ..tables.encoded import EncodedTable, Evidence
from .checkpoints import Journal
from .execution import Execution, esteps_of, limits_of, start_threads, starts_together
from .run_identity import about

EStepOf = Callable[[Evidence], em.WholeEStep]
"""From rows in one place to the E-step over them."""


@dataclass(frozen=True, eq=False)
class Training:
    """One call of `learn`: the model and the tables to learn, the rows, and the settings of the loop.

    `structure` is what the messages of the model depend on, beside the specification. `is_complete`: all values are
    known, so that one epoch of all rows finds the maximum.
    """

    model: Any
    structure: tuple[object, ...]
    spec: Specification
    table: EncodedTable
    rule: em.Rule
    smoothing: float | Mapping[str, Any] | Smoothing
    holes: str
    watch: em.Watcher | None
    is_complete: bool = False

    def __post_init__(self) -> None:
        if not self.table.rows or not (self.table.columns or self.spec.leaves):
            raise LearningError("There are no rows to learn from.")
        if not any((*self.spec.learnt_tables, *self.spec.learnt_priors, self.spec.learnt_moments.any())):
            raise LearningError("There is nothing to learn: all tables and priors are frozen.")

    def run(
        self,
        estep: em.WholeEStep,
        parameters: Parameters,
        journal: Journal | None,
        run: Mapping[str, Any] | None = None,
        held_out: em.EStep | None = None,
        **others: Any,
    ) -> tuple[Parameters, em.History, dict[str, Any]]:
        """Learn; returns the new parameters, the history, and the training record.

        Args:
            estep: over the rows of the table.
            parameters: to go on from.
            journal: of the checkpoint, if there is one.
            run: the engine, and whether equal rows are merged, if these were chosen: recorded, and the same when
                learning is resumed.
            held_out: over the held-out rows, if there are any.
            others: more settings that have to be the same then.
        """
        smooth = Smoothing.of(self.spec, self.smoothing)
        keeper = None
        if journal is not None:
            identity = {"smoothing": smooth.given, "holes": self.holes, **others, **(run or {})}
            described = partial(about, self.model, self.structure, self.spec, self.table, self.rule, identity)
            keeper = journal.keeper(self.model, described)
        esteps = esteps_of(estep, self.rule, self.table.weight, held_out)
        method = esteps.method
        together = starts_together(esteps, self.rule, self.watch, self.spec.layout.size)
        threads = start_threads(method, self.rule, self.watch, together)
        starts = {"start_threads": threads, "starts_together": together}
        learn = partial(em.learn, esteps, self.spec, parameters, self.rule, smooth, self.watch, keeper, **starts)
        with limits_of(method):
            learnt, history = learn() if keeper is None else keeper.journal.finished(learn, keeper.so_far)
        ran = run or {"engine": None, "merge": None}  # rows are counted as they are
        how = Execution.of(ran["engine"], method, self.table.rows, threads, len(esteps.batches), together)
        converged = history.converged or (self.is_complete and self.rule.batch_size is None)
        history, ran = replace(history, execution=str(how), converged=converged), {**ran, "kernel": how.kernel}
        record = em.training_record(history, self.table.rows, self.rule, smooth.given, self.holes, ran)
        return learnt, history, record


def estep_over(
    make: EStepOf,
    explain: Callable[..., ImpossibleEvidence] | None,
    evidence: Evidence,
    among: str,
) -> em.WholeEStep:
    """Return the E-step over rows, whose errors explain an impossible row and name its file and line."""

    def explained(error: ImpossibleEvidence, values: np.ndarray) -> ImpossibleEvidence:
        return evidence.located(error if explain is None else explain(error, values=values, evidence=evidence), among)

    return em.ExplainingEStep(make(evidence), explained)
