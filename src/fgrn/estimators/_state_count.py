"""The number of hidden states, chosen by a criterion, for estimators with one hidden variable."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.exceptions import FgrnWarning, LearningError, Remedy, counted, warn
from ..flow.em import History
from ..flow.gaussian_leaves import GaussianLeaves
from ..graph import structures
from ..graph.network import Network
from ..learning.criteria import HELD_OUT, Candidate, ClassSelection, Fit, Selection, select, sizes
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from ._base import LatentEstimator
from ._streams import encoded_stream
from ._tables import Classes

ROWS_AT_ONCE = 2**16
"""Rows whose hidden states are in memory while a model is evaluated."""


class Choosing(LatentEstimator):
    """Base class of estimators with one hidden variable whose number of states can be chosen by a criterion."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentEstimator._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "criterion": [StrOptions({"bic", "aic", "caic", "sabic", "held_out"})],
        "max_hidden": [Interval(Integral, 1, None, closed="left")],
        "learn_prior": ["boolean"],
    }

    selection_: Selection | ClassSelection

    def _leaves_of(self, states: int) -> GaussianLeaves | None:
        """Return the continuous columns of a network with the given number of hidden states, if there are any."""
        return None

    def _network(self, n_hidden: int) -> Network:
        name = self._hidden_name()
        leaves = self._leaves_of(n_hidden)
        return structures.lvm(self._observed(), hidden=n_hidden, name=name, learn_prior=self.learn_prior, leaves=leaves)

    def _parameter_count(self, net: Network) -> int:
        """Return the number of free parameters of a network of this estimator."""
        return net.free_parameters

    def _train(self, table: EncodedTable) -> None:
        if self.n_hidden != "auto":
            super()._train(table)
            self.n_hidden_ = self.n_hidden
            self.__dict__.pop("selection_", None)
            return
        trained: dict[int, tuple[Network, History]] = {}
        self.selection_ = self._compare(table.local_rows(), sizes(self.max_hidden), trained)
        self.n_hidden_ = self.selection_.best.n_hidden
        self.network_, self.history_ = trained[self.n_hidden_]
        if self.criterion == "held_out" and not self._stopped():  # it has not seen all rows yet
            whole, history = self._finished(lambda: self._learnt(self.n_hidden_, table))
            if not self._stopped() or history.per_row[-1] > self.history_.per_row[-1]:
                self.network_, self.history_ = whole, history

    def _learnt(self, size: int, table: EncodedTable, what: str = "") -> tuple[Network, History]:
        """Return a new network with the given number of hidden states, learnt, and its history."""
        net = self._network(size)
        return net, self._learn_network(net, table, what)

    def _compared(
        self, X: Any, tried: Any, sample_weight: Any, classes: Classes | None = None, target: Any = None
    ) -> Selection:
        """Compare numbers of states on a copy of this estimator, which is not changed."""
        from sklearn.base import clone

        self._validate_params()
        other = clone(self)
        other._stop = self._stop
        sizes_tried = sizes(self.max_hidden) if tried is None else list(tried)
        found: Selection
        if frames.is_source(X):
            table = encoded_stream(other, X, sample_weight, target, None).local_rows()
            found = other._compare(table, sizes_tried, {}, tried is None)
        else:
            found = other._compare_rows(X, sample_weight, classes, sizes_tried, tried is None)
        return found

    def _compare_rows(
        self, X: Any, sample_weight: Any, classes: Classes | None, tried: Any, patient: bool
    ) -> Selection:
        """Compare some numbers of states on a table in memory."""
        return self._compare(self._learnable(X, sample_weight, classes), tried, {}, patient)

    def _compare(
        self, table: Evidence, tried: Any, trained: dict[int, tuple[Network, History]], patient: bool = True
    ) -> Selection:
        """Compare numbers of states and store the networks in `trained`; ends early if a stop is requested."""
        learnt, kept = table, None
        if self.criterion == "held_out":
            if table.rows < HELD_OUT:
                raise LearningError(
                    f"To hold rows out, a table has at least {HELD_OUT} of them. Got {table.rows}.",
                    remedies=Remedy("choose another criterion", criterion="bic"),
                )
            learnt, kept = _split_held_out(table)

        def fit(size: int) -> Candidate:
            name, what = self._hidden_name(), counted(size, "hidden state")
            net, history = self._finished(lambda: self._learnt(size, learnt, what))
            trained[size] = net, history
            ask: dict[str, Any] = {"engine": self.engine, "impossible": "mark"}

            def fitted(rows: Evidence) -> Fit:
                found = net.propagate(rows, keep=[name], parts=["marginal", "likelihood"], **ask)
                return Fit.of(found.log_likelihood, found.marginal(name), rows.row_weights)

            def score(rows: Evidence) -> float:
                return float(rows.row_weights @ net.propagate(rows, keep=[], **ask).log_likelihood)

            def candidate() -> Candidate:
                held = np.nan if kept is None else sum(map(score, _blocks(kept))) / kept.weight
                whole = reduce(operator.add, map(fitted, _blocks(learnt)))
                return Candidate.of(whole, self._parameter_count(net), held)

            return self._finished(candidate)

        found = select(fit, tried, self.criterion, patient, self._stopped)
        if patient and not self._stopped() and found.best.n_hidden == max(sizes(self.max_hidden)) > 1:
            warn(
                f"The best number of hidden states is the largest that was tried, "
                f"{found.best.n_hidden}, so that more may be better.",
                FgrnWarning,
                value=found.best.n_hidden,
                remedies=(
                    Remedy("try more", max_hidden=2 * self.max_hidden),
                    Remedy("choose the number", n_hidden=...),
                ),
            )
        return found


def _split_held_out(table: Evidence) -> tuple[Evidence, Evidence]:
    """Return the rows to learn from, and the held-out rows.

    Rows on disk stay there all together, and have no weight where they do not count.
    """
    if table.disk is None:
        held_out = np.arange(table.rows) % HELD_OUT == HELD_OUT - 1
        return table.take(~held_out), table.take(held_out)

    def weights_of(rows: slice, held_out: bool) -> np.ndarray:
        is_held_out = np.arange(rows.start, rows.stop) % HELD_OUT == HELD_OUT - 1
        return np.where(is_held_out == held_out, table.row_weights[rows], 0.0)

    some, others = (
        table.disk.computed(table.rows, np.float64, partial(weights_of, held_out=out)) for out in (False, True)
    )
    return replace(table, row_weights=some), replace(table, row_weights=others)


def _blocks(table: Evidence) -> Iterator[Evidence]:
    """Yield the rows in blocks, without rows of weight 0."""
    for first in range(0, table.rows, ROWS_AT_ONCE):
        weights = table.row_weights[first : first + ROWS_AT_ONCE]
        yield table.take(slice(first, first + len(weights)) if weights.all() else first + np.flatnonzero(weights))
        table.release()
