"""The number of bins of numeric columns, chosen by cross-validation; for classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from ..core.exceptions import FgrnWarning, Remedy, warn
from ..learning.choice_budget import Budget
from ..learning.classifier_choice import FIRST_STRENGTH, ClassSearch
from ..learning.cross_validation import CLEARLY_WORSE, PartedRows, mean_and_error
from ..tables import frames
from ..tables.bins import binned_column
from ..tables.columns import Column
from ..tables.distinct_values import Distinct
from ..tables.encoded import EncodedTable, Evidence
from ..tables.schema import BINS, Schema
from ._base import LatentEstimator
from ._tables import Classes, Columns

ROWS_FOR_MORE_BINS, MORE_BINS = 100, 10
"""Rows from which on there are more bins, and how many, unless they are given or chosen."""

BIN_COUNTS = (5, 10, 20)
"""The numbers of bins to choose from."""

SHARE_FOR_BINS = 0.25
"""The share of the budget that comparing numbers of bins may take: in wide tables all of it would be spent on this."""


class ChoosingBins(LatentEstimator):
    """Base class of classifiers that can choose the number of bins of columns with many distinct numbers."""

    def _bins(self, columns: Columns, weights: np.ndarray | None) -> int:
        """Return the number of bins: as given, or by the number of rows; a row of weight 2 counts as two."""
        if self.n_bins != "auto":
            return int(self.n_bins)
        column = next(iter(columns.values()), ())
        rows = column.rows if isinstance(column, Distinct) else 1 if frames.is_bare(column) else len(column)
        rows = rows if weights is None else np.sum(weights)
        return BINS if rows < ROWS_FOR_MORE_BINS else MORE_BINS

    def _fit(self, X: Any, sample_weight: Any, classes: Classes | None = None, batch: bool = False) -> Self:
        with self._or_as_before():
            kind = frames.kind_of(X)
            table, budget = self._learnable_in_bins(X, sample_weight, classes)
            return self._fit_by(partial(self._train_within, budget), kind, table, batch)

    def _train(self, table: EncodedTable) -> None:
        self._train_within(None, table)

    def _train_within(self, budget: Budget | None, table: EncodedTable) -> None:
        """Choose a network for a table, and learn it, with what is left of a budget; None for a new one."""
        if budget is None and self.max_seconds is not None:
            given = f"n_hidden={self.n_hidden!r}" if self.n_hidden != "auto" else f"criterion={self.criterion!r}"
            warn(
                f"has no effect: it limits the choice of a classifier by the log-loss of held-out rows, and {given} "
                "leaves nothing to choose so.",
                FgrnWarning,
                setting="max_seconds",
                value=self.max_seconds,
                remedies=("leave it out", Remedy("let the log-loss choose", n_hidden="auto", criterion="log_loss")),
            )
        super()._train(table)

    def _learnable_in_bins(self, X: Any, sample_weight: Any, classes: Classes | None) -> tuple[Evidence, Budget | None]:
        """Return the codes of a table to learn from, in the best bins; and the budget, if some was spent on these."""
        columns, weights, classes = self._training_columns(X, sample_weight, classes)
        table, usual = self._learnable_columns(columns, weights, classes), self.schema_
        is_binned = any(column.is_binned for column in usual.values())
        if self.n_bins != "auto" or self.schema is not None or classes is None or not is_binned:
            return table, None
        schemas = {bins: _with_other_bins(usual, columns, weights, bins) for bins in BIN_COUNTS}
        self.schema_ = schemas[max(BIN_COUNTS)]
        finest = self._encoded(self.schema_.codes(columns, self.unseen, learning=True), weights, classes)
        seed = self._seed()
        rows, budget = self._parted(finest, seed), None
        self.schema_ = usual
        if rows.can_be_parted:
            budget = self._new_budget(rows)
            self.schema_ = self._best_schema(schemas, rows, self._bins(columns, weights), seed, budget)
        if self.schema_ != usual:
            table = self._encoded(self.schema_.codes(columns, self.unseen, learning=True), weights, classes)
        return table, budget

    def _best_schema(
        self, schemas: Mapping[int, Schema], rows: PartedRows, usual: int, seed: int, budget: Budget
    ) -> Schema:
        """Return the schema with the least held-out log-loss; the default unless another is clearly better.

        They are compared by classifiers with one state for each class, whose tables are refined by one penalty, in the
        same parts of the same rows: those with the most bins, which are put into fewer by their centres. Others are not
        tried if they would exceed the share of the budget for this.
        """
        losses: dict[int, np.ndarray] = {}
        for bins in sorted(schemas, key=lambda bins: bins != usual):
            if losses and (budget.is_over or budget.used * (1 + 1 / len(losses)) > SHARE_FOR_BINS):
                break
            self.schema_ = schemas[bins]
            some = replace(rows, table=_in_coarser_bins(rows.table, schemas[max(schemas)], self.schema_))
            search = self._search_of(some, ["per_class"], seed, [FIRST_STRENGTH], budget)
            search.search([1])
            losses[bins] = search.losses_of_best
            budget.release()
        weights = rows.weights_of_parts
        gains = {bins: mean_and_error(losses[usual] - found, weights) for bins, found in losses.items()}
        clear = [bins for bins, (gain, error) in gains.items() if gain > CLEARLY_WORSE * error > 0]
        return schemas[max(clear, key=lambda bins: gains[bins][0], default=usual)]

    def _parted(self, table: Evidence, seed: int) -> PartedRows:
        """Return the rows that classifiers are compared on.

        Columns of one level tell nothing of the class, and are left out unless there are no others.
        """
        states = self.schema_.states
        constant = [name for name, levels in states.items() if len(levels) == 1]
        return PartedRows.of(table, self._class_name(), seed, constant if len(constant) < len(states) else ())

    def _new_budget(self, rows: PartedRows) -> Budget:
        """Return the budget of all that is chosen and learnt from these rows, before any of it is spent."""
        # with a checkpoint it is chosen to the end, so that the same model goes on when it is resumed
        return Budget(self.max_seconds, self._stopped if self.checkpoint is None else _never, rows.count)

    def _search_of(
        self, rows: PartedRows, structures: Sequence[str], seed: int, strengths: Sequence[float], budget: Budget
    ) -> ClassSearch:
        """Return a search among classifiers of some structures, before its first trial."""
        raise NotImplementedError


def _never() -> bool:
    return False


def _with_other_bins(schema: Schema, columns: Columns, weights: np.ndarray | None, bins: int) -> Schema:
    """Return a schema with another number of bins, ignoring rows of weight zero as before."""
    kept = slice(None) if weights is None else np.flatnonzero(weights)

    def described(column: Column) -> Column:
        if not column.is_binned:
            return column
        numbers = column.numbers(columns[column.name])[kept]
        found = binned_column(column.name, numbers, column.missing, bins, None if weights is None else weights[kept])
        return replace(found, missing_words=column.missing_words)

    return Schema(map(described, schema.values()))


def _in_coarser_bins(table: Evidence, fine: Schema, coarse: Schema) -> Evidence:
    """Return rows whose numbers are moved from fine bins to coarser ones, by the centres of the fine ones."""
    codes = table.codes.copy()
    for place, name in enumerate(table.columns):
        if name in fine and fine[name].is_binned:
            lookup = np.searchsorted(coarse[name].edges, fine[name].centers, side="right")
            known = codes[:, place] >= 0
            codes[known, place] = lookup[codes[known, place]]
    return replace(table, codes=codes)
