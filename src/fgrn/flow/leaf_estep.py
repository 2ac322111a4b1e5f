"""The E-step with continuous columns: in each epoch their likelihoods are soft evidence on the hidden variable.

1. numbers of each row -> message to the hidden variable, by the means and variances of the moment
2. the E-step over the other columns, with these messages as soft evidence: counts, and the posterior of each row
3. moments of the numbers, weighted by the posterior: counts of the continuous columns, after all others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Protocol

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..engines import blocks_of_rows, in_order
from ..tables.encoded import Evidence
from .counts import CountingMethod, Counts
from .esteps import IN_ORDER, Cannot, EStep
from .gaussian_leaves import GaussianLeaves, LogDensities, StandardNumbers


class RowEStep(EStep, Protocol):
    """The protocol of an E-step that also returns the posterior of a hidden variable in each row."""

    def count_with_posterior(self, values: np.ndarray, edge: int) -> tuple[Counts, np.ndarray]:
        """Return the expected counts, and the posterior of a variable in each row, (rows, states)."""


ROWS_OF_PART = 2**16
"""Rows whose messages, and posteriors, are in memory at the same time."""


@dataclass(frozen=True, eq=False)
class LeafEStep:
    """The E-step over rows with continuous columns, in parts of the rows that threads share; a chain is one part.

    What is made of a part is kept for the next epoch if the rows are in memory; of rows on disk it is made again.

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

    cycles = Cannot("continuous columns are updated once an epoch")

    @cached_property
    def _parts(self) -> list[slice]:
        rows = self.evidence.rows
        return blocks_of_rows(rows, max(rows, 1) if len(self.evidence.begins) else ROWS_OF_PART)

    @cached_property
    def _cached_parts(self) -> dict[int, LeafPart]:
        """Parts of rows in memory, by their first rows."""
        return {}

    def _part(self, rows: slice) -> LeafPart:
        if rows.start in self._cached_parts:
            return self._cached_parts[rows.start]
        whole = self.evidence.in_memory and len(self._parts) == 1
        evidence = self.evidence if whole else self.evidence.take(rows)
        made = LeafPart(self.leaves, self.edge, self.size, self.make, evidence)
        if self.evidence.in_memory:
            self._cached_parts[rows.start] = made
        return made

    @cached_property
    def method(self) -> CountingMethod:
        """See `EStep`. One start counts at a time, because the messages of a part have one array."""
        first = self._part(self._parts[0])
        inner = first.estep.method
        return inner._replace(
            kernel=f"Gaussian leaves and {inner.kernel}",
            rows=self.evidence.rows,
            rows_at_once=min(inner.rows_at_once, first.evidence.rows),
            shareable=False,
        )

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        densities = self.leaves.log_densities(values[self.size :])

        def counted(rows: slice) -> Counts:
            try:
                return self._part(rows).count(values, densities)
            except ImpossibleEvidence as error:
                raise error.changed(rows=[rows.start + row for row in error.rows]) from None
            finally:
                self.evidence.release()

        parts: Iterator[Counts] = in_order(self.method.threads, counted, self._parts)
        return reduce(Counts.joined, parts)

    @property
    def batches(self) -> Callable[[int, int], Sequence[LeafEStep]] | Cannot:
        """See `WholeEStep`."""
        return IN_ORDER if len(self.evidence.begins) else self._batches

    def _batches(self, size: int, seed: int) -> Sequence[LeafEStep]:
        if self.evidence.rows <= size:
            return [self]
        return [replace(self, evidence=part) for part in self.evidence.in_batches(size, seed)]


@dataclass(frozen=True, eq=False)
class LeafPart:
    """Some rows with continuous columns, and the E-step over them; see `LeafEStep`."""

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
        with_room, room = self.evidence.with_distribution(self.edge, self.leaves.variable, self.leaves.states)
        given = self.evidence.slot[self.edge] >= 0
        return self.make(with_room), room, self.evidence.weights(self.edge, self.leaves.states) if given else None

    @property
    def estep(self) -> RowEStep:
        """The E-step over the other columns, with a distribution on the hidden variable."""
        return self._rows[0]

    def count(self, values: np.ndarray, densities: LogDensities) -> Counts:
        """The expected counts of these rows under the parameters, whose log-densities are given as well."""
        estep, room, given = self._rows
        scale = densities.messages(self._numbers, room)
        if given is not None:
            _multiply(room, scale, given)
        counts, posterior = estep.count_with_posterior(values[: self.size], self.edge)
        weights = self.evidence.row_weights
        moments = self.leaves.counts(posterior * weights[:, None], self._numbers)
        likelihood = counts.log_likelihood + float((weights * scale).sum())
        return Counts(np.concatenate([counts.values, moments]), likelihood, counts.weight)


def with_messages(leaves: GaussianLeaves, densities: LogDensities, edge: int, evidence: Evidence) -> Evidence:
    """Return the rows with the likelihoods of their numbers as evidence on the hidden variable."""
    if not evidence.numbers.shape[1]:
        return evidence
    scale = np.empty(evidence.rows)
    others = {"log_scale": scale, "numbers": evidence.numbers[:, :0]}
    with_room, room = evidence.with_distribution(edge, leaves.variable, leaves.states, **others)
    scale[...] = densities.messages(StandardNumbers.of(leaves, evidence.numbers), room)
    if evidence.slot[edge] >= 0:
        _multiply(room, scale, evidence.weights(edge, leaves.states))
    scale += evidence.log_scale
    return with_room


def _multiply(messages: np.ndarray, scale: np.ndarray, given: np.ndarray) -> None:
    """Multiply messages by other evidence on the same variable; each sums to one, the rest goes to the log-scale."""
    messages *= given
    total = messages.sum(axis=1)
    total[total <= 0] = 1.0  # an impossible row stays one
    messages /= total[:, None]
    scale += np.log(total)
