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

if TYPE_CHECKING:
    from .questions import Queries


@dataclass(frozen=True)
class OpinionPool:
    """Models of the same variables whose answer is the geometric mean of their answers; of one alone, its own.

    Several are networks, which take rows that one of them has encoded.

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
            data: the rows: a mapping of columns, of labels, codes or weights, or any other table.
            names: of the variables; their own values do not count as known, nor do those of variables with one state.
            way: "marginal", or another kind of message.
            engine: which runs the models.
        """
        ask: dict[str, Any] = {"keep": names, "engine": engine, "parts": [way]}
        unknown = {name: [None] for name in names}
        rows = self._encoded(unknown if data is None else data)
        try:
            return self._mean(rows, ask)[0]
        except ImpossibleEvidence as error:
            why = error.message
        out, impossible = self._mean(rows, {**ask, "parts": [way, "likelihood"], "impossible": "mark"})
        where = np.flatnonzero(impossible).tolist()
        warn(
            f"{why} The answer for such a row is the one without evidence.",
            ImpossibleRowWarning,
            rows=where,
            remedies=Remedy("learn tables without zeros", smoothing=...),
        )
        nothing, _ = self._mean(self._encoded(unknown), ask)
        for name, messages in out.items():
            out[name] = messages.copy()
            out[name][where] = nothing[name][0]
        return out

    def _encoded(self, data: frames.Data) -> frames.Data:
        """Return the rows as codes, for all models at once; for one alone, as they are."""
        return data if self.general is None and len(self.models) == 1 else self.models[0]._encoded_rows(data)

    def _mean(self, data: frames.Data, ask: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the mean messages of all rows, and which rows one of the models has marked as impossible."""
        way, names = ask["parts"][0], ask["keep"]
        found = [model.propagate(data, **ask) for model in self.models]
        means = {name: geometric_mean([getattr(one, way)(name) for one in found]) for name in names}
        impossible = np.logical_or.reduce([one.impossible for one in found])
        if self.general is None or self.weight is None:
            return means, impossible
        constant = (one.name for one in self.general.variables if one.cardinality == 1)
        shares = self.weight.weights(data.known_values({*names, *constant}))
        incomplete = np.flatnonzero(shares < 1)
        if len(incomplete):
            every = len(incomplete) == len(shares)
            some, rows = (data, slice(None)) if every else (data.take(incomplete), incomplete)
            general = self.general.propagate(some, **{**ask, "parts": [way, "likelihood"], "impossible": "mark"})
            shared = shares[rows, None]
            for name, mean in means.items():
                pooled = geometric_mean([mean[rows], getattr(general, way)(name)], [shared, 1 - shared])
                means[name] = mean.copy()
                means[name][rows] = np.where(general.impossible[:, None], mean[rows], pooled)
        return means, impossible
