"""Estimators with one hidden variable, whose number of states may be left to the data."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .. import frames, structures
from ..criteria import Candidate, Selection, select, sizes
from ..em import History
from ..frames import Coded
from ..network import Network
from ._base import LatentEstimator
from ._tables import Classes

HELD_OUT = 5
"""Every so manieth row is kept back where the number of hidden states is chosen by rows that were not learnt from."""


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
            self.network_ = self._network(self.n_hidden_)
            self.history_ = self._teach(self.network_, data, weights)

    def _compared(self, X: Any, tried: Any, sample_weight: Any, classes: Classes | None = None) -> Selection:
        """Try some sizes on a copy of this estimator, which stays as it is."""
        from sklearn.base import clone

        self._validate_params()
        other = clone(self)
        other._stop = self._stop
        data, weights = other._learnable(X, sample_weight, classes)
        sizes_tried = sizes(self.max_hidden) if tried is None else list(tried)
        found: Selection = other._compare(data, weights, sizes_tried, {}, tried is None)
        return found

    def _stopped(self) -> bool:
        return self._stop is not None and self._stop()

    def _compare(
        self,
        data: Mapping[str, Coded],
        weights: np.ndarray | None,
        tried: Any,
        taught: dict[int, tuple[Network, History]],
        patient: bool = True,
    ) -> Selection:
        """Try some sizes; the networks go to `taught`. Once asked to stop, none is begun any more."""
        rows = frames.row_count(data)
        back = np.zeros(rows, dtype=bool)
        if self.criterion == "held_out":
            if rows < HELD_OUT:
                raise ValueError(
                    f"To hold rows out, a table has at least {HELD_OUT} of them. Got {rows}; choose criterion='bic'."
                )
            back[HELD_OUT - 1 :: HELD_OUT] = True
        learnt, kept = ({name: Coded(column.codes[which]) for name, column in data.items()} for which in (~back, back))
        weight = np.ones(rows) if weights is None else weights

        def fit(size: int) -> Candidate:
            net, name = self._network(size), self._hidden_name()
            some = None if weights is None else weights[~back]
            taught[size] = (net, self._teach(net, learnt, some, f"{size} hidden states"))
            ask: dict[str, Any] = {"engine": self.engine, "impossible": "mark"}
            found = net.propagate(learnt, keep=[name], parts=["marginal", "likelihood"], **ask)
            held = np.nan
            if back.any():
                scores = net.propagate(kept, keep=[], **ask).log_likelihood
                held = float(np.average(scores, weights=weight[back]))
            return Candidate.of(found.log_likelihood, found.marginal(name), weight[~back], net.free_parameters, held)

        return select(fit, tried, self.criterion, patient, self._stopped)
