"""Estimators with one hidden variable, whose number of states may be left to the data."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.exceptions import FgrnWarning, LearningError, Remedy, counted, warn
from ..flow.em import History
from ..graph import structures
from ..graph.network import Network
from ..learning.criteria import HELD_OUT, Candidate, Fit, Selection, select, sizes
from ..tables import frames
from ..tables.encoded import Recorded
from ..tables.frames import Coded
from ._base import LatentEstimator
from ._streams import recorded
from ._tables import Classes

ROWS_AT_ONCE = 2**16
"""Rows whose hidden states are in memory while a model is judged."""


class Choosing(LatentEstimator):
    """An estimator with one hidden variable, whose number of states may be left to the data."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentEstimator._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "criterion": [StrOptions({"bic", "aic", "held_out"})],
        "max_hidden": [Interval(Integral, 1, None, closed="left")],
        "learn_prior": ["boolean"],
    }

    selection_: Selection

    def _network(self, n_hidden: int) -> Network:
        name = self._hidden_name()
        return structures.lvm(self._observed(), hidden=n_hidden, name=name, learn_prior=self.learn_prior)

    def _choose(self, data: Mapping[str, Coded], weights: np.ndarray | None) -> None:
        if self.n_hidden != "auto":
            super()._choose(data, weights)
            self.n_hidden_ = self.n_hidden
            self.__dict__.pop("selection_", None)
            return
        taught: dict[int, tuple[Network, History]] = {}
        self.selection_ = self._compare(data, weights, sizes(self.max_hidden), taught)
        self.n_hidden_ = self.selection_.best.n_hidden
        self.network_, self.history_ = taught[self.n_hidden_]
        if self.criterion == "held_out" and not self._stopped():  # it has not seen all rows yet
            whole, history = self._finished(lambda: self._learnt(self.n_hidden_, data, weights))
            if not self._stopped() or history.per_row[-1] > self.history_.per_row[-1]:
                self.network_, self.history_ = whole, history

    def _learnt(
        self, size: int, data: Mapping[str, Coded], weights: np.ndarray | None, what: str = ""
    ) -> tuple[Network, History]:
        """A network of so many hidden states, and its history: a new one each time, so that this may be done again."""
        net = self._network(size)
        return net, self._teach(net, data, weights, what)

    def _compared(
        self, X: Any, tried: Any, sample_weight: Any, classes: Classes | None = None, target: Any = None
    ) -> Selection:
        """Try some sizes on a copy of this estimator, which stays as it is."""
        from sklearn.base import clone

        self._validate_params()
        other = clone(self)
        other._stop = self._stop
        if frames.is_source(X):
            data: Any = recorded(other, X, sample_weight, target, None)
            weights = data.weights
        else:
            data, weights = other._learnable(X, sample_weight, classes)
        sizes_tried = sizes(self.max_hidden) if tried is None else list(tried)
        found: Selection = other._compare(data, weights, sizes_tried, {}, tried is None)
        return found

    def _compare(
        self,
        data: Mapping[str, Coded],
        weights: np.ndarray | None,
        tried: Any,
        taught: dict[int, tuple[Network, History]],
        patient: bool = True,
    ) -> Selection:
        """Try some sizes; the networks go to `taught`. Once asked to stop, none is begun any more."""
        weight = np.broadcast_to(np.ones(1), _rows_of(data)) if weights is None else weights
        learnt, kept = (data, weight), None
        if self.criterion == "held_out":
            if _rows_of(data) < HELD_OUT:
                raise LearningError(
                    f"To hold rows out, a table has at least {HELD_OUT} of them. Got {_rows_of(data)}.",
                    remedies=Remedy("choose another criterion", criterion="bic"),
                )
            learnt, kept = _parted(data, weight)

        def fit(size: int) -> Candidate:
            name, told = self._hidden_name(), counted(size, "hidden state")
            some = None if weights is None and learnt[1].strides == (0,) else learnt[1]
            net, history = self._finished(lambda: self._learnt(size, learnt[0], some, told))
            taught[size] = net, history
            ask: dict[str, Any] = {"engine": self.engine, "impossible": "mark"}

            def fitted(rows: dict[str, Coded], weight: np.ndarray) -> Fit:
                found = net.propagate(rows, keep=[name], parts=["marginal", "likelihood"], **ask)
                return Fit.of(found.log_likelihood, found.marginal(name), weight)

            def judged() -> Candidate:
                held = np.nan
                if kept is not None:
                    scores = [
                        weight @ net.propagate(rows, keep=[], **ask).log_likelihood for rows, weight in _blocks(*kept)
                    ]
                    held = float(sum(scores) / kept[1].sum())
                whole = reduce(operator.add, (fitted(*block) for block in _blocks(*learnt)))
                return Candidate.of(whole, net.free_parameters, held)

            return self._finished(judged)

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


def _rows_of(data: Mapping[str, Coded]) -> int:
    return data.rows if isinstance(data, Recorded) else frames.row_count(data)


def _parted(data: Mapping[str, Coded], weight: np.ndarray) -> tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]:
    """The rows to learn from and their weights, and the same for those that are kept back.

    Rows on disk stay there all together, and have no weight where they do not count.
    """
    if isinstance(data, Recorded) and data.disk is not None:
        disk = data.disk

        def without(rows: slice, kept_back: bool) -> np.ndarray:
            is_back = np.arange(rows.start, rows.stop) % HELD_OUT == HELD_OUT - 1
            return np.where(is_back == kept_back, weight[rows], 0.0)

        parts = [disk.made(data.rows, np.float64, partial(without, kept_back=back)) for back in (False, True)]
        return (replace(data, weights=parts[0]), parts[0]), (replace(data, weights=parts[1]), parts[1])
    back = np.zeros(len(weight), dtype=bool)
    back[HELD_OUT - 1 :: HELD_OUT] = True
    some, others = ({name: Coded(column.codes[which]) for name, column in data.items()} for which in (~back, back))
    if weight.strides == (0,):
        return (some, weight[: int((~back).sum())]), (others, weight[: int(back.sum())])
    return (some, weight[~back]), (others, weight[back])


def _blocks(data: Mapping[str, Coded], weight: np.ndarray) -> Iterator[tuple[dict[str, Coded], np.ndarray]]:
    """Some rows at a time, those without weight left out."""
    for first in range(0, len(weight), ROWS_AT_ONCE):
        some = weight[first : first + ROWS_AT_ONCE]
        which = slice(first, first + len(some)) if some.all() else first + np.flatnonzero(some)
        yield {name: Coded(column.codes[which]) for name, column in data.items()}, some[some > 0]
        if isinstance(data, Recorded) and data.disk is not None:
            data.disk.release()
