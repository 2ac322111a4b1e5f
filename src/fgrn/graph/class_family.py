"""Classifiers of one structure and any size: how their networks are built, learnt, refined and queried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..flow.counts import LocalEStep
from ..learning.conditional import Conditional
from ..learning.execution import engine_for
from ..tables.encoded import Evidence
from .network import Network

CALLS = 100
"""How often the rows are counted while tables are refined, roughly: which engine is worth it depends on that."""


@dataclass(frozen=True)
class ClassFamily:
    """Networks of one structure, in all sizes; see `fgrn.learning.class_search.Family`.

    structure   what the structure is called
    build       makes a network of a size for some rows
    target      the class
    hidden      the hidden variable that the class hangs on
    smoothing   of learning by EM
    engine      see `Network.learn`
    seed        of random starts
    refine      whether tables may be refined for the class
    ordered     the columns whose levels have an order
    """

    structure: str
    build: Callable[[int, Evidence], Network]
    target: str
    hidden: str
    smoothing: float | Mapping[str, float]
    engine: str = "auto"
    seed: int = 0
    refine: bool = False
    ordered: Sequence[str] = ()

    def untaught(self, size: int, rows: Evidence) -> Network:
        """See `Family`."""
        return self.build(size, rows)

    def teach(self, model: Network, rows: Evidence, epochs: int, tolerance: float) -> int:
        """See `Family`."""
        history = model.learn(
            rows, epochs=epochs, tolerance=tolerance, accelerate=True, smoothing=self.smoothing, seed=self.seed,
            engine=self.engine,
        )  # fmt: skip
        return history.epochs

    def size_of(self, model: Network) -> tuple[int, int, int]:
        """See `Family`. Observed values are looked up: a row does not visit all cells of their tables."""
        plan = model._plan()
        return model.variable(self.hidden).cardinality, model.free_parameters, plan.work - plan.layout.size

    def conditional(self, model: Network, rows: Evidence) -> Conditional:
        """See `Family`. Rows whose class is unknown are left out."""
        classes = rows.codes[:, rows.columns.index(self.target)]
        known = rows.take(np.flatnonzero(classes >= 0))
        states = model.variable(self.hidden).cardinality
        both = (self._estep(model, known), self._estep(model, known.without(self.target)))
        return Conditional(model._spec, model._parameters.values, *both, states)

    def _estep(self, model: Network, rows: Evidence) -> LocalEStep:
        plan = model._plan()
        encoded = model._encode_rows(plan, rows)
        return LocalEStep(
            engine=engine_for(self.engine, plan, CALLS * encoded.rows),
            plan=plan,
            programs=model._programs_for(plan, (), encoded),
            evidence=encoded,
            expect=True,
        )

    def with_tables(self, model: Network, values: np.ndarray) -> Network:
        """See `Family`."""
        other = model.copy()
        other._parameters = replace(model._parameters, values=values)
        return other

    def chances(self, model: Network, rows: Evidence) -> np.ndarray:
        """See `Family`."""
        return model.propagate(
            rows, keep=[self.target], parts=["marginal"], engine=self.engine, impossible="mark"
        ).marginal(self.target)
