"""E-steps: the protocol by which the EM loop gets expected counts, and the E-steps of one run of learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from .counts import CountingMethod, Counts, TogetherCounts

Recount: TypeAlias = Callable[[np.ndarray], Counts]
"""From tables to expected counts, with messages held as they were under earlier parameters."""


class Cannot(NamedTuple):
    """Stands in an E-step for something that it cannot do; `since` is the reason, a clause of an error message."""

    since: str


IN_ORDER = Cannot("a sequence cannot be split into batches")
"""Why sequences have no batches of rows."""


class EStep(Protocol):
    """An E-step: computes the expected counts of its rows under given parameters."""

    @property
    def method(self) -> CountingMethod:
        """How the expected counts are computed."""

    def count(self, values: np.ndarray) -> Counts:
        """Return the expected counts under these parameters."""


class WholeEStep(EStep, Protocol):
    """An E-step over all rows to learn from; it offers methods for some settings, or tells why it `Cannot`."""

    @property
    def cycles(self) -> Callable[[np.ndarray], Recount] | Cannot:
        """For cycles > 1: a function from parameters to a `Recount` that holds the messages computed under them."""

    @property
    def batches(self) -> Callable[[int, int], Sequence[EStep]] | Cannot:
        """For mini-batch EM: given a size and a seed, E-steps over parts of at most so many rows, drawn at random.

        If one part is all rows, this is the E-step itself.
        """


@runtime_checkable
class TogetherEStep(Protocol):
    """An E-step that may be able to count under several vectors of parameters in one call."""

    @property
    def together(self) -> TogetherCounts | None:
        """Return how to count under several vectors of parameters in one call, with the bits of `count`; or None."""


@dataclass(frozen=True)
class ESteps:
    """The E-steps of one run of learning.

    whole     over all rows, whose weight is `weight`
    batches   over each batch of rows in mini-batch EM; none where tables are updated once an epoch
    held_out  over the held-out rows, if there are any
    cycles    given parameters, counts again with held messages, where an epoch has several cycles
    """

    whole: EStep
    weight: float
    batches: Sequence[EStep] = ()
    held_out: EStep | None = None
    cycles: Callable[[np.ndarray], Recount] | None = None

    @property
    def method(self) -> CountingMethod:
        """The method by which rows are counted: all of them, or a batch."""
        return (self.batches[0] if self.batches else self.whole).method

    @property
    def together(self) -> TogetherCounts | None:
        """Return how to count all rows under several vectors of parameters in one call, or None."""
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
class ExplainingEStep:
    """An E-step whose errors explain why a row is impossible; `explain` returns the error, given the parameters."""

    estep: WholeEStep
    explain: Callable[[ImpossibleEvidence, np.ndarray], ImpossibleEvidence]

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.estep.method

    @property
    def together(self) -> TogetherCounts | None:
        """See `TogetherEStep`; parameters under which a row is impossible are counted alone."""
        return self.estep.together if isinstance(self.estep, TogetherEStep) else None

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        try:
            return self.estep.count(values)
        except ImpossibleEvidence as error:
            raise self.explain(error, np.asarray(values)) from None

    @property
    def cycles(self) -> Callable[[np.ndarray], Recount] | Cannot:
        """See `WholeEStep`."""
        held = self.estep.cycles
        return held if isinstance(held, Cannot) else partial(self._cycles, held)

    def _cycles(self, held: Callable[[np.ndarray], Recount], values: np.ndarray) -> Recount:
        recount = held(values)

        def count(tables: np.ndarray) -> Counts:
            try:
                return recount(tables)
            except ImpossibleEvidence as error:
                raise self.explain(error, np.asarray(values)) from None

        return count

    @property
    def batches(self) -> Callable[[int, int], Sequence[EStep]] | Cannot:
        """See `WholeEStep`."""
        cut = self.estep.batches
        return cut if isinstance(cut, Cannot) else partial(self._batches, cut)

    def _batches(self, cut: Callable[[int, int], Sequence[EStep]], size: int, seed: int) -> Sequence[EStep]:
        found = cut(size, seed)
        return [self] if len(found) == 1 else [_Part(one, self) for one in found]


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
