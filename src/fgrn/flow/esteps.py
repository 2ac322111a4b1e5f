"""E-steps: the protocol by which the EM loop gets expected counts, and the E-steps of one run of learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from .counts import CountEach, CountingMethod, Counts


class EStep(Protocol):
    """An E-step: computes the expected counts of the rows under given parameters."""

    @property
    def method(self) -> CountingMethod:
        """How the expected counts are computed."""

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these parameters."""

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """Return a function from tables to expected counts, with the messages held as computed under `values`."""

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """Return E-steps over random parts of the rows, at most `size` rows each; itself if there is one part."""


@runtime_checkable
class TogetherEStep(Protocol):
    """An E-step that may be able to count under several vectors of parameters in one call."""

    @property
    def together(self) -> CountEach | None:
        """Return the function that counts under several vectors of parameters, with the bits of `count`; or None."""


@dataclass(frozen=True)
class ESteps:
    """The E-steps of one run of learning.

    whole     over all rows, whose weight is `weight`
    batches   over each batch of rows in mini-batch EM; none where tables are updated once an epoch
    held_out  over the held-out rows, if there are any
    """

    whole: EStep
    weight: float
    batches: Sequence[EStep] = ()
    held_out: EStep | None = None

    @property
    def method(self) -> CountingMethod:
        """The method by which rows are counted: all of them, or a batch."""
        return (self.batches[0] if self.batches else self.whole).method

    @property
    def together(self) -> CountEach | None:
        """Return the function that counts all rows under several vectors of parameters at once, or None."""
        return self.whole.together if isinstance(self.whole, TogetherEStep) and not self.batches else None

    def score(self, values: np.ndarray) -> float:
        """Return the mean log-likelihood of the held-out rows; minus infinity if one is impossible."""
        if self.held_out is None:
            return 0.0
        try:
            counts = self.held_out.count(values)
        except ImpossibleEvidence:
            return -np.inf
        return counts.log_likelihood / counts.weight


@dataclass(frozen=True)
class Explained:
    """An E-step whose errors explain why a row is impossible; `explain` returns the error, given the parameters."""

    estep: EStep
    explain: Callable[[ImpossibleEvidence, np.ndarray], ImpossibleEvidence]

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.estep.method

    @property
    def together(self) -> CountEach | None:
        """See `TogetherEStep`; parameters under which a row is impossible are counted alone."""
        return self.estep.together if isinstance(self.estep, TogetherEStep) else None

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        try:
            return self.estep.count(values)
        except ImpossibleEvidence as error:
            raise self.explain(error, np.asarray(values)) from None

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `EStep`."""
        recount = self.estep.cycles(values)

        def count(tables: np.ndarray) -> Counts:
            try:
                return recount(tables)
            except ImpossibleEvidence as error:
                raise self.explain(error, np.asarray(values)) from None

        return count

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """See `EStep`."""
        found = self.estep.batches(size, seed)
        return [self] if len(found) == 1 else [replace(self, estep=_Part(one, self.estep)) for one in found]


@dataclass(frozen=True)
class _Part:
    """An E-step over a part of the rows, whose errors name rows as they are numbered in the whole table."""

    estep: EStep
    whole: EStep

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.estep.method

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        try:
            return self.estep.count(values)
        except ImpossibleEvidence:
            self.whole.count(values)
            raise

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `EStep`."""
        return self.estep.cycles(values)

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """See `EStep`."""
        return self.estep.batches(size, seed)
