"""Joint assignments given evidence: one state for every variable, the most probable assignment or random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..core.labels import labels_of_codes
from ..engines import blocks_of_rows, tracer
from ..flow.conflicts import explained
from ..flow.marginals import refuse_impossible
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import Evidence

STATES_AT_ONCE = 2**23
"""The most states drawn at a time, of all edges; those of edges that were not asked for are dropped then."""


@dataclass(frozen=True, eq=False)
class Assignments:
    """The joint states of all edges of a tree in each row of evidence, under some parameters."""

    plan: Plan
    programs: Programs
    values: np.ndarray
    evidence: Evidence

    def likeliest(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable joint states of all edges in each row, (rows, edges), and their log-probability."""
        prepared = tracer(largest=True).prepare(self.plan, self.programs, self.programs.inward, self.evidence)
        loaded = prepared.load(self.values)
        codes, found = [np.zeros((0, self.plan.edges), dtype=np.int64)], [np.zeros(0)]
        for rows in blocks_of_rows(self.evidence.rows, prepared.rows_at_once):
            mine, likelihood = loaded.trace(rows, np.arange(rows.stop - rows.start), _largest)
            self._refuse(rows.start + np.flatnonzero(np.isneginf(likelihood)))
            codes.append(mine)
            found.append(likelihood)
        return np.concatenate(codes), np.concatenate(found) + self.evidence.log_scale

    def likeliest_labels(self, names: Iterable[str], is_one_row: bool) -> tuple[dict[str, Any], Any]:
        """Return labels of some variables in the most probable assignment of all of them, and its log-probability."""
        edges = {name: self.plan.edge(name) for name in names}
        codes, found = self.likeliest()
        labels = {name: labels_of_codes(self.plan.labels[edge], codes[:, edge]) for name, edge in edges.items()}
        if is_one_row:
            return {name: column.tolist()[0] for name, column in labels.items()}, float(found[0])
        return labels, found

    def max_marginals(self, edges: Sequence[int]) -> list[np.ndarray]:
        """Return, for each state of some edges, the log-probability of the best assignment with it: (rows, states)."""
        found = tracer(largest=True).logs(self.plan, self.programs, self.values, self.evidence, edges, whole=True)
        for array in found:
            self._refuse(np.flatnonzero(np.isneginf(array).all(axis=1)))
            array += self.evidence.log_scale[:, None]
        return list(found)

    @cached_property
    def _sampling(self) -> Any:
        return tracer(largest=False).prepare(self.plan, self.programs, self.programs.inward, self.evidence)

    def sampled(
        self, edges: Sequence[int], each: int, generator: np.random.Generator, values: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the states of some edges, (samples, edges), `each` samples for each row of evidence in order.

        With `values`, under these parameters instead of its own.
        """
        prepared = self._sampling
        loaded = prepared.load(self.values if values is None else values)
        choose = _random(generator)
        at_once = max(1, STATES_AT_ONCE // self.plan.edges)
        codes = [np.zeros((0, len(edges)), dtype=np.int64)]
        for rows in blocks_of_rows(self.evidence.rows, min(prepared.rows_at_once, max(1, at_once // max(each, 1)))):
            count = rows.stop - rows.start
            for first in range(0, max(each, 1), at_once):
                mine = np.repeat(np.arange(count), min(at_once, each - first))
                states, likelihood = loaded.trace(rows, mine, choose)
                self._refuse(rows.start + np.flatnonzero(np.isneginf(likelihood)))
                codes.append(states[:, edges])
        return np.concatenate(codes)

    def multiplications(self, direct: bool) -> int:
        """Return the number of multiplications for all messages, by the linear cascade or the plain product rule."""
        from ..engines.reference import Reference

        engine = Reference(direct=direct)
        prepared = engine.prepare(self.plan, self.programs, self.programs.everything, self.evidence)
        prepared.load(self.values).propagate(["marginal"])
        return engine.multiplications

    def _refuse(self, impossible: np.ndarray) -> None:
        """Raise an error for impossible rows, with the values that cannot occur together."""
        try:
            refuse_impossible(impossible)
        except ImpossibleEvidence as error:
            raise explained(error, self.plan, self.programs, self.values, self.evidence) from None


def _largest(log_weights: np.ndarray) -> np.ndarray:
    """Return the position of the largest weight in each row, the first of equals."""
    found: np.ndarray = log_weights.argmax(axis=1)
    return found


def _random(generator: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that draws one position in each row with probabilities proportional to exp(weights)."""

    def choose(log_weights: np.ndarray) -> np.ndarray:
        upto = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
        draw = generator.random(len(upto)) * upto[:, -1]  # below the last: what has no weight is never passed
        found: np.ndarray = (upto <= draw[:, None]).sum(axis=1)
        return found

    return choose
