"""Models with one hidden variable that keep the rows they were fitted on, as codes, for analyses and refits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Number
from operator import itemgetter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import settings
from ..core.arrays import numbers
from ..core.exceptions import LearningError, Remedy
from ..graph import structures
from ..graph.network import Network
from ..statistics.bootstrap import Refit, drawn_from_rows
from ..statistics.continuous_items import ContinuousItems
from ..statistics.imputation import MissingValues, drawn_values, numbers_filled
from ..statistics.latent_classes import LatentClasses, Patterns
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from ._state_count import Choosing
from ._tables import Classes

MOST_KEPT_CELLS = 2**24
"""Cells of a table that are kept with the model: a byte each, or eight for the number of a continuous column."""

REFIT_TOLERANCE = 1e-7
"""Gain per row below which a fit to drawn rows has converged: far less than what differs between draws."""

DRAWN_COUNT = 0.01
"""Dirichlet count, in fits to drawn rows without smoothing, of a level of the table that the drawn rows may lack."""


class KeptRows(Choosing):
    """Base class of models with one hidden variable that keep their training rows, if these are not too many."""

    _kept: Evidence | None = None
    _fit_weights: np.ndarray | None = None
    """The weights of all rows that were given to fit; those of weight 0 are not among the rows that are kept."""
    _fitted_on_stream: bool = False
    """Whether the rows were read from files or batches, some of which may have been left out."""

    def _fit(self, X: Any, sample_weight: Any, classes: Classes | None = None, batch: bool = False) -> Self:
        if isinstance(sample_weight, Iterator):
            sample_weight = list(sample_weight)  # to be read again
        super()._fit(X, sample_weight, classes, batch)
        plain = sample_weight is None or isinstance(sample_weight, Number)
        self._fit_weights = None if plain else numbers(frames.as_column(sample_weight))
        self._fitted_on_stream = False
        return self

    def _fit_stream(self, X: Any, sample_weight: Any, target: Any = None, executor: Any = None) -> Self:
        super()._fit_stream(X, sample_weight, target, executor)
        self._fitted_on_stream = True
        return self

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        super()._fit_table(kind, table, batch)
        small = isinstance(table, Evidence) and table.codes.size + table.numbers.size <= MOST_KEPT_CELLS
        self._kept = table.local_rows().loaded() if small and not batch else None
        self._fit_weights = None
        return self

    def _step(self, table: Evidence) -> Self:
        self._kept = None  # a batch is not all rows
        return super()._step(table)

    def draws(self, X: Any, m: int = 20, *, uncertainty: bool = True) -> list[Any]:
        """Return m completed tables, with missing values drawn from their distribution (multiple imputation).

        Analyse each of the tables, and combine the results with `fgrn.pool`. A missing number becomes one that was
        observed in the bin that was drawn; that of a continuous column is drawn from its normal distribution in the
        class that was drawn for the row. Without smoothing, each cell of a level that occurs in the rows of the fit
        has a Dirichlet count of 0.01 in the fits to drawn rows, so that values are possible that no drawn row has.

        Args:
            X: the table, of any kind; the tables are of the same kind.
            m: the number of tables.
            uncertainty: whether the parameters are uncertain, too: the model is then fitted, for each table, to rows
                drawn with replacement from those that it was fitted on, or from X if they are not kept with the model.
        """
        check_is_fitted(self)
        settings.whole("m", m, 1, LearningError)
        plain = frames.columns(X) if isinstance(X, dict) else {}
        columns, data, _ = self._completable(plain or X)
        model = self._estimates()
        given = Patterns.of(self._encoded(data, None), model.names, merge=False)
        rows = self._rows_of_uncertainty(data) if uncertainty else None
        counts = None if rows is None or self.smoothing else _counts_of_levels(model, rows)
        generator, refit = np.random.default_rng(self._seed()), self._refit(1, counts)
        missing = [
            MissingValues.of(item, self.schema_[name], given.codes[:, item], frames.as_list(columns[name]))
            for item, name in enumerate(model.names)
        ]
        found = []
        for _ in range(m):
            drawn = model
            if rows is not None:
                seed = int(generator.integers(2**31 - 1))
                drawn = refit(drawn_from_rows(rows, generator), model.n_classes, seed)
            full = drawn_values(drawn, given, generator)
            filled = {one.name: one.filled(full.codes[:, one.item], generator) for one in missing if one.rows}
            filled |= numbers_filled(columns, self.schema_.continuous, given.numbers, full.numbers)
            found.append(self._imputed(X, plain, filled))
        return found

    def _as_given(self, kept: Evidence) -> Patterns:
        """Return the kept rows in the positions of the given table, with rows of weight 0 between them."""
        rows = Patterns.of(kept, self._estimates().names, merge=False)
        weights = self._fit_weights
        return rows if weights is None else rows.among(np.flatnonzero(weights), len(weights))

    def _rows_of_uncertainty(self, data: Any) -> Patterns:
        """Return the rows from which parameters are estimated again."""
        if self._kept is not None:
            return Patterns.of(self._kept, self._estimates().names)
        rows = Patterns.of(self._encoded(data, None), self._estimates().names)
        if rows.rows < self.n_rows_ / 2:
            raise LearningError(
                f"The model was fitted on {self.n_rows_:,} rows, which are not kept with it, and {rows.rows:,} are too "
                "few to tell how uncertain it is.",
                remedies=("give the table that it was fitted on", Remedy("draw from the estimate", uncertainty=False)),
            )
        return rows

    def _refit(self, n_init: int | None, smoothing: Mapping[str, np.ndarray] | None = None) -> Refit:
        """Return a function that fits some number of classes to other rows; also from the estimate, for its number."""
        options = self._options() | {"checkpoint": None, "watch": None, "starts": n_init or self.n_init}
        options["tolerance"] = max(self.tol, REFIT_TOLERANCE)
        if smoothing is not None:
            options["smoothing"] = smoothing
        own = self._estimates()

        def refit(rows: Patterns, size: int, seed: int) -> LatentClasses:
            net = self.network_.copy() if size == own.n_classes else self._network(size)
            net.learn(rows.evidence(own.names), **(options | {"seed": seed}))
            return self._estimates_of(net)

        return refit

    def _hidden_of(self, model: LatentClasses) -> str:
        """Return the name of the hidden variable for `_fit_from`, which differs from all columns."""
        return self._free("classes", *model.names)

    def _fit_from(
        self,
        start: LatentClasses,
        rows: Patterns,
        smoothing: Mapping[str, float] | float,
        random: int,
        **settings: Any,
    ) -> LatentClasses:
        """Fit classes to rows of other columns, from given estimates and random starts; returns the best."""
        options = self._options() | {"checkpoint": None, "watch": None, "smoothing": smoothing} | settings
        states = dict(zip(start.names, start.levels, strict=True))
        table, found, hidden = rows.evidence(start.names), [], self._hidden_of(start)
        leaves = None if start.numbers is None else replace(start.numbers.leaves, variable=hidden, start=None)
        given = dict(zip(start.names, start.tables, strict=True)) | {hidden: start.prior}
        for starts, tables in ((1, given), (random, None)):
            if starts:
                net = structures.lvm(
                    states, start.n_classes, name=hidden, tables=tables, learn_prior=start.learns_prior, leaves=leaves
                )
                if start.numbers is not None and tables is not None:
                    net._start_from_moments(start.numbers.moments)
                history = net.learn(table, **(options | {"starts": starts}))
                found.append((history.objective[-1], net))
        best = max(found, key=itemgetter(0))[1]
        numbers = None if leaves is None else ContinuousItems.of(leaves, best.moments)
        tables_found = tuple(best.table(name) for name in start.names)
        return replace(start, prior=best.prior(hidden), tables=tables_found, numbers=numbers)

    def _estimates(self) -> LatentClasses:
        """Return the estimates as arrays."""
        check_is_fitted(self)
        return self._estimates_of(self.network_)

    def _estimates_of(self, net: Network) -> LatentClasses:
        """Return the estimates of a network with the same columns and any number of classes."""
        states = self.schema_.states
        prior = net.prior(self._hidden_name())
        tables = tuple(net.table(name) for name in states)
        levels = tuple(map(tuple, states.values()))
        numbers = None if net.leaves is None else ContinuousItems.of(net.leaves, net.moments)
        return LatentClasses(
            tuple(states), levels, prior, tables, float(self.smoothing), bool(self.learn_prior), numbers=numbers
        )


def _counts_of_levels(model: LatentClasses, rows: Patterns) -> dict[str, np.ndarray]:
    """Return a small count for each level of each item that occurs in some rows, 0 for the others."""
    return {
        name: DRAWN_COUNT * np.isin(np.arange(size), rows.codes[:, item])
        for item, (name, size) in enumerate(zip(model.names, model.sizes, strict=True))
    }
