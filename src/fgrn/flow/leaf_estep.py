"""The E-step with continuous columns: in each epoch their likelihoods are soft evidence on the hidden variable.

1. numbers of each row -> message to the hidden variable, by the means and variances of the moment
2. the E-step over the other columns, with these messages as soft evidence: counts, and the posterior of each row
3. moments of the numbers, weighted by the posterior: counts of the continuous columns, after all others
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ..core.exceptions import LearningError
from ..tables.encoded import Evidence
from .counts import CountingMethod, Counts
from .esteps import EStep
from .gaussian_leaves import GaussianLeaves, StandardNumbers


class RowEStep(EStep, Protocol):
    """The protocol of an E-step that also returns the posterior of a hidden variable in each row."""

    def count_with_posterior(self, values: np.ndarray, edge: int) -> tuple[Counts, np.ndarray]:
        """Return the expected counts, and the posterior of a variable in each row, (rows, states)."""


@dataclass(frozen=True, eq=False)
class LeafEStep:
    """The E-step over rows with continuous columns.

    leaves    the continuous columns
    edge      the number of their hidden variable
    size      cells of tables and priors, before those of the leaves
    make      the E-step over rows with a distribution on the hidden variable
    evidence  the rows, with their numbers
    """

    leaves: GaussianLeaves
    edge: int
    size: int
    make: Callable[[Evidence], RowEStep]
    evidence: Evidence

    @cached_property
    def _numbers(self) -> StandardNumbers:
        numbers = self.evidence.numbers
        if not numbers.shape[1]:  # a table without any of the columns
            numbers = np.full((self.evidence.rows, len(self.leaves.columns)), np.nan)
        return StandardNumbers.of(self.leaves, numbers)

    @cached_property
    def _rows(self) -> tuple[RowEStep, np.ndarray, np.ndarray | None]:
        """The E-step over the other columns, the array for messages to the hidden variable, and the evidence on it."""
        told, room = self.evidence.with_distribution(self.edge, self.leaves.variable, self.leaves.states)
        given = self.evidence.slot[self.edge] >= 0
        return self.make(told), room, self.evidence.weights(self.edge, self.leaves.states) if given else None

    @property
    def method(self) -> CountingMethod:
        """See `EStep`. One thread counts at a time, because messages share one array."""
        inner = self._rows[0].method
        return inner._replace(kernel=f"Gaussian leaves and {inner.kernel}", shareable=False)

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        estep, room, given = self._rows
        messages, scale = self.leaves.messages(values[self.size :], self._numbers)
        if given is not None:
            messages, scale = _multiplied(messages, scale, given)
        room[...] = messages
        counts, posterior = estep.count_with_posterior(values[: self.size], self.edge)
        weights = self.evidence.row_weights
        moments = self.leaves.counts(posterior * weights[:, None], self._numbers)
        likelihood = counts.log_likelihood + float((weights * scale).sum())
        return Counts(np.concatenate([counts.values, moments]), likelihood, counts.weight)

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """Raise an error: with continuous columns, only one cycle per epoch is supported."""
        raise LearningError("must be 1 with continuous columns.", setting="cycles")

    def batches(self, size: int, seed: int) -> Sequence[LeafEStep]:
        """See `EStep`."""
        if self.evidence.rows <= size:
            return [self]
        return [replace(self, evidence=part) for part in self.evidence.in_batches(size, seed)]


def with_messages(leaves: GaussianLeaves, parameters: np.ndarray, edge: int, evidence: Evidence) -> Evidence:
    """Return the rows with the likelihoods of their numbers as evidence on the hidden variable."""
    if not evidence.numbers.shape[1]:
        return evidence
    messages, scale = leaves.messages(parameters, StandardNumbers.of(leaves, evidence.numbers))
    if evidence.slot[edge] >= 0:
        messages, scale = _multiplied(messages, scale, evidence.weights(edge, leaves.states))
    others = {"log_scale": evidence.log_scale + scale, "numbers": np.zeros((evidence.rows, 0))}
    told, room = evidence.with_distribution(edge, leaves.variable, leaves.states, **others)
    room[...] = messages
    return told


def _multiplied(messages: np.ndarray, scale: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return messages times other evidence on the same variable, normalised, and the log of the scale."""
    found = messages * given
    total = found.sum(axis=1)
    total[total <= 0] = 1.0  # an impossible row stays one
    return found / total[:, None], scale + np.log(total)
