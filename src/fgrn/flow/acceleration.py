"""Accelerated EM by squared extrapolation (SQUAREM), in which the objective never decreases.

Three E-steps make a round. From parameters p0, two updates give p1 = EM(p0) and p2 = EM(p1); then

    r = p1 - p0,   v = (p2 - p1) - r,   a = min(|r| / |v|, longest), at least 1
    ahead = p0 + 2 a r + a^2 v                                       a = 1 gives p2

Learning continues from `ahead` if its objective is not less than that of p1, and otherwise from p2. The longest step
grows by GROWTH after it was taken and succeeded, and shrinks after a step failed. Rows keep their sum, since rows of r
and v sum to zero; a cell that would not be positive is taken from p2, so the zeros are those of p2. Means, and
logarithms of variances, of continuous columns are extrapolated as well, or taken from p2 if a variance were too small.

Varadhan and Roland, "Simple and globally convergent methods for accelerating the convergence of any EM algorithm",
Scandinavian Journal of Statistics 35 (2008), scheme S3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ..engines import GROWTH, LIMIT
from .mstep import line_sums
from .parameters import Specification


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """The state of one round of accelerated EM, from which it can continue.

    first    p0, after its update; None at the beginning of a round
    ahead    the parameters to try next; None to continue from the last update
    length   a, the step length of `ahead`
    longest  the largest allowed a
    """

    first: np.ndarray | None = None
    ahead: np.ndarray | None = None
    length: float = 1.0
    longest: float = GROWTH

    def after(self, spec: Specification, counted: np.ndarray, updated: np.ndarray, succeeded: bool) -> Extrapolation:
        """Return the state of the round after another epoch.

        Args:
            spec: which of the parameters are learnt.
            counted: the parameters of the E-step.
            updated: the parameters after the M-step.
            succeeded: whether `counted` are the extrapolated parameters; False too if there were none.
        """
        if self.ahead is not None:
            return Extrapolation(longest=self._next_longest(succeeded))
        if self.first is None:
            return Extrapolation(first=np.asarray(counted), longest=self.longest)
        ahead, length = extrapolated(spec, self.first, np.asarray(counted), np.asarray(updated), self.longest)
        return Extrapolation(ahead=ahead, length=length, longest=self.longest)

    def _next_longest(self, succeeded: bool) -> float:
        if succeeded:
            return min(self.longest * GROWTH, LIMIT) if self.length >= self.longest else self.longest
        return max(1.0, self.length / GROWTH)


def extrapolated(
    spec: Specification, first: np.ndarray, second: np.ndarray, third: np.ndarray, longest: float
) -> tuple[np.ndarray, float]:
    """Return the parameters extrapolated from three consecutive ones, and the step length (see the module)."""
    layout, size = spec.layout, spec.layout.size
    r = second - first
    v = third - second
    v -= r
    norm = _length(v)
    length = max(1.0, min(_length(r) / norm, longest)) if norm else 1.0
    ahead = first + 2 * length * r + length * length * v
    tables, ends = ahead[:size], third[:size]
    if not (tables.min(initial=1.0) > 0 and ends.min(initial=1.0) > 0):
        tables = np.where((tables > 0) & (ends > 0), tables, ends)
    tables = tables / line_sums(layout, tables).take(layout.line_of)
    if not spec.all_learnt:
        tables = np.where(spec.learnt, tables, ends)
    for number, form in spec.learnt_forms:
        layout.table(tables, number)[...] = form.projected(layout.table(tables, number))
    if spec.constraints is not None:
        tables = np.where(spec.learnt, spec.constraints.met(layout, tables, ends, spec.supported), ends)
    if spec.leaves is not None:
        moments = np.where(spec.learnt_moments, ahead[size:], third[size:])
        tables = np.concatenate([tables, spec.leaves.within_limits(moments, third[size:])])
    tables.setflags(write=False)  # so that it is not copied
    return tables, length


def _length(vector: np.ndarray) -> float:
    """Return the Euclidean length of a vector, whose squares are added one after the other, as kernels add them."""
    return sqrt(np.add.accumulate(vector * vector)[-1]) if len(vector) else 0.0
