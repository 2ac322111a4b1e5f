"""Several models of the same variables that answer together, by a geometric mean (a logarithmic opinion pool)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.distributions import geometric_mean
from ..core.exceptions import ImpossibleEvidence, ImpossibleRowWarning, Remedy, warn
from ..core.refined_weight import RefinedWeight
from ..tables import frames
from ..tables.missing import is_missing_value

if TYPE_CHECKING:
    from .questions import Queries


@dataclass(frozen=True)
class OpinionPool:
    """Models of the same variables whose answer is the geometric mean of their answers; of one alone, its own.

    models   which answer together
    general  another one, which counts as well in rows with missing values, if there is one
    weight   how much the models count in such a row
    """

    models: tuple[Queries, ...]
    general: Queries | None = None
    weight: RefinedWeight | None = None

    def messages(
        self, data: frames.Data, names: Sequence[str], way: str = "marginal", engine: str = "auto"
    ) -> dict[str, np.ndarray]:
        """Return the mean messages on each variable, (rows, states).

        A row that is impossible by one of the models gets the answer without any evidence, with a warning. Where it is
        impossible by the `general` model alone, this one has no part in the answer.

        Args:
            data: the rows: a mapping of columns, of labels, codes or weights; with a `general` model every column has a
                value for each row.
            names: of the variables; their own values do not count as known, nor do those of variables with one state.
            way: "marginal", or another kind of message.
            engine: which runs the models.
        """
        ask: dict[str, Any] = {"keep": names, "engine": engine, "parts": [way]}
        try:
            return self._mean(data, ask)[0]
        except ImpossibleEvidence as error:
            why = error.message
        out, impossible = self._mean(data, {**ask, "parts": [way, "likelihood"], "impossible": "mark"})
        rows = np.flatnonzero(impossible).tolist()
        warn(
            f"{why} The answer for such a row is the one without evidence.",
            ImpossibleRowWarning,
            rows=rows,
            remedies=Remedy("learn tables without zeros", smoothing=...),
        )
        nothing, _ = self._mean(None, ask)
        for name, messages in out.items():
            out[name] = messages.copy()
            out[name][rows] = nothing[name][0]
        return out

    def _mean(self, data: frames.Data, ask: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the mean messages of all rows, and which rows one of the models has marked as impossible."""
        way, names = ask["parts"][0], ask["keep"]
        data = {name: [None] for name in names} if data is None else data
        found = [model.propagate(data, **ask) for model in self.models]
        means = {name: geometric_mean([getattr(one, way)(name) for one in found]) for name in names}
        impossible = np.any([one.impossible for one in found], axis=0)
        if self.general is None or self.weight is None:
            return means, impossible
        columns = data if isinstance(data, Mapping) else frames.columns(data)
        own = {one.name for one in self.general.variables if one.cardinality > 1} - {*names}
        known = count_known({name: column for name, column in columns.items() if name in own}, len(impossible))
        shares = self.weight.weights(known)
        rows = np.flatnonzero(shares < 1)
        if len(rows):
            if len(rows) < len(shares):
                columns = {name: frames.select_rows(column, rows) for name, column in columns.items()}
            general = self.general.propagate(columns, **{**ask, "parts": [way, "likelihood"], "impossible": "mark"})
            shared = shares[rows, None]
            for name, mean in means.items():
                pooled = geometric_mean([mean[rows], getattr(general, way)(name)], [shared, 1 - shared])
                means[name] = mean.copy()
                means[name][rows] = np.where(general.impossible[:, None], mean[rows], pooled)
        return means, impossible


def count_known(columns: Mapping[str, Any], rows: int) -> np.ndarray:
    """Return how many of the columns have a value in each row."""
    known = np.full(rows, len(columns))
    for column in columns.values():
        if not isinstance(column, frames.Coded):
            known -= [is_missing_value(value) for value in frames.as_list(column)]
        elif column.codes.min(initial=0) < 0:  # most columns of most tables have no missing value
            known -= column.unknown
    return known
