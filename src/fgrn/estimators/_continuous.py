"""Continuous columns of estimators with one hidden variable: normally distributed in each of its states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import FgrnWarning, LearningError, Remedy, shortened, unknown_name, warn
from ..flow.gaussian_leaves import COVARIANCES, GaussianLeaves, Moments
from ..queries.completion import impute_numbers
from ..queries.prototypes import MeanAndSpread
from ..tables.encoded import EncodedTable
from ..tables.schema import Schema
from ._base import LatentEstimator
from ._tables import Columns


class ContinuousColumns(LatentEstimator):
    """Base class of estimators whose columns may be continuous (Gaussian leaves)."""

    _continuous_constraints: ClassVar[dict[str, list[Any]]] = {
        "continuous": ["array-like", StrOptions({"auto"}), None],
        "covariance": [StrOptions(set(COVARIANCES))],
    }

    _leaves: GaussianLeaves | None = None  # of one state, in the units of the table to learn from

    # Learning

    def _continuous_columns(self, names: Sequence[str]) -> list[str] | str:
        given = self.continuous
        if given is None or isinstance(given, str):
            return "auto" if given == "auto" else []
        found = []
        for one in given:
            is_place = isinstance(one, Integral) and one in range(-len(names), len(names))
            name = names[int(one)] if is_place else one
            if name not in names:
                raise unknown_name("column", one, names)
            found.append(str(name))
        return found

    def _take_units(self, table: EncodedTable) -> None:
        names = self.schema_.continuous
        self._leaves = None
        if names:
            rows = table.local_rows()
            self._leaves = GaussianLeaves.of(
                self._hidden_name(), 1, names, self.covariance, rows.numbers, rows.row_weights, release=rows.release
            )

    def _leaves_of(self, states: int) -> GaussianLeaves | None:
        """Return the continuous columns of a network with the given number of hidden states."""
        found = self._leaves
        if found is None and self.schema_.continuous and hasattr(self, "network_"):
            found = self.network_.leaves
        if found is None:
            return None
        found = replace(found, states=states, start=None)
        return replace(found, start=self._start_of_means(found))

    def _start_of_means(self, leaves: GaussianLeaves) -> tuple[tuple[float, ...], ...] | None:
        """Return the initial means, (states, columns), if they are given."""
        return None

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        super()._fit_table(kind, table, batch)
        leaves = self.network_.leaves
        if leaves is not None:
            at_limit = leaves.at_limit(self.network_.moments)
            names = [name for place, name in enumerate(leaves.columns) if at_limit[:, place].any()]
            if names:
                warn(
                    f"The variance of {shortened(map(repr, names))} is at its limit in some state, a millionth of that "
                    "of the column: the state is made of nearly equal numbers, and the likelihood says little.",
                    FgrnWarning,
                    column=names[0],
                    remedies=(Remedy("share variances", covariance="tied"), Remedy("use fewer states", n_hidden=...)),
                )
        return self

    def _is_continuous(self) -> bool:
        """Return whether columns may be continuous, before a table is read."""
        return self.continuous is not None or (self.schema is not None and bool(self.schema.continuous))

    def _fit_stream(self, X: Any, sample_weight: Any, target: Any = None, executor: Any = None) -> Self:
        if executor is not None and self._is_continuous():
            raise LearningError(
                "columns cannot be learnt on a cluster.",
                setting="continuous",
                remedies=("leave the cluster out", Remedy("put the numbers into bins", continuous=None)),
            )
        return super()._fit_stream(X, sample_weight, target, executor)

    # Public queries

    @property
    def means_(self) -> np.ndarray:
        """(states, continuous columns): the mean of each column in each state."""
        return self._moments_or_none().means

    @property
    def variances_(self) -> np.ndarray:
        """(states, continuous columns): the variance of each column in each state."""
        return self._moments_or_none().variances

    def _moments_or_none(self) -> Moments:
        """Return the means and variances; empty arrays for a model without continuous columns."""
        check_is_fitted(self, "network_")
        if self.network_.leaves is not None:
            return self.network_.moments
        nothing = np.zeros((self.network_.variable(self._hidden_name()).cardinality, 0))
        return Moments(nothing, nothing)

    def _numbers_of_states(self) -> list[dict[str, MeanAndSpread]]:
        names, moments = self.schema_.continuous, self._moments_or_none()
        pairs = zip(moments.means.tolist(), np.sqrt(moments.variances).tolist(), strict=True)
        return [dict(zip(names, map(MeanAndSpread, *pair), strict=True)) for pair in pairs]

    @property
    def continuous_(self) -> tuple[str, ...]:
        """The names of the continuous columns."""
        check_is_fitted(self, "network_")
        return self.schema_.continuous

    def _filled(self, columns: Columns, data: Any, schema: Schema) -> tuple[dict[str, list[Any]], np.ndarray]:
        filled, sure = super()._filled(columns, data, schema)
        name = self._hidden_name()
        return self._with_numbers(filled, sure, columns, data, lambda: self._variable_messages(data, [name])[name])

    def _with_numbers(
        self,
        filled: dict[str, list[Any]],
        sure: np.ndarray,
        columns: Columns,
        data: Any,
        posterior_of_rows: Callable[[], np.ndarray],
    ) -> tuple[dict[str, list[Any]], np.ndarray]:
        """Return imputed columns with the continuous ones added, whose missing numbers become their expectation."""
        numbers = {name: data[name] for name in self.schema_.continuous if name in data}
        if any(np.isnan(one).any() for one in numbers.values()):
            posterior = posterior_of_rows()
            means = dict(zip(self.schema_.continuous, self.means_.T, strict=True))
            filled |= impute_numbers(columns, numbers, {name: posterior @ means[name] for name in numbers}, sure)
        return filled, sure

    def _drawn_numbers(self, states: np.ndarray) -> dict[str, list[float]]:
        """Return random numbers of the continuous columns, given the state of each row."""
        names = self.schema_.continuous
        if not names:
            return {}
        generator = np.random.default_rng([self._seed(), len(states)])
        spread = np.sqrt(self.variances_)[states]
        drawn = self.means_[states] + spread * generator.standard_normal(spread.shape)
        return {name: column.tolist() for name, column in zip(names, drawn.T, strict=True)}
