"""The continuous columns of a latent class model: independent and normally distributed within each class.

Their parameters stand in one vector of cells, (2, classes, columns): means m, then logarithms of variances v. For an
observed number x with z = (x - m) / sqrt(v) the derivatives of log P(x | class) are

    first     z / sqrt(v) by m and (z^2 - 1) / 2 by log v
    second    -1 / v, -z / sqrt(v) (crossed) and -z^2 / 2

A missing number is integrated out: it has no part in any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..flow.gaussian_leaves import GaussianLeaves, Moments
from ..flow.moment_constraints import MomentConstraints


@dataclass(frozen=True, eq=False)
class ContinuousItems:
    """Means and variances of the continuous columns of a latent class model.

    leaves    the columns, their units, and which variances are equal
    means     (K, D), in the units of the table, and `variances` (K, D)
    constraints  which of them are held, or equal; None if no more than the leaves say
    """

    leaves: GaussianLeaves
    means: np.ndarray
    variances: np.ndarray
    constraints: MomentConstraints | None = None

    @classmethod
    def of(cls, leaves: GaussianLeaves, moments: Moments) -> ContinuousItems:
        """Return the continuous columns of a network, from its parts."""
        return cls(leaves, *moments)

    @property
    def moments(self) -> Moments:
        """The means and variances."""
        return Moments(self.means, self.variances)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.leaves.columns

    @cached_property
    def at_limit(self) -> np.ndarray:
        """(K, D): which variances are at their limit."""
        return self.leaves.at_limit(self.moments)

    @property
    def values(self) -> np.ndarray:
        """(2 K D,): means, then variances."""
        return np.concatenate([self.means.ravel(), self.variances.ravel()])

    @cached_property
    def coordinates(self) -> np.ndarray:
        """(K, 2 D): means and standard deviations in the units of the columns, by which classes are compared."""
        scales = np.array(self.leaves.scales)
        return np.concatenate([self.means / scales, np.sqrt(self.variances) / scales], axis=1)

    def ordered(self, order: np.ndarray) -> ContinuousItems:
        """Return the continuous columns with the classes in another order."""
        return replace(self, means=self.means[order], variances=self.variances[order])

    def at(self, columns: Sequence[int], names: Sequence[str]) -> ContinuousItems:
        """Return some of the columns under other names; a column may occur several times."""
        own = self.leaves
        leaves = replace(
            own,
            columns=tuple(names),
            centres=tuple(own.centres[column] for column in columns),
            scales=tuple(own.scales[column] for column in columns),
            start=None,
        )
        some = list(columns)
        return ContinuousItems(leaves, self.means[:, some], self.variances[:, some])

    def log_density(self, numbers: np.ndarray) -> np.ndarray:
        """(rows, K): the logarithm of the density of the known numbers of each row, (rows, D), in each class."""
        out = np.zeros((len(numbers), len(self.means)))
        if numbers.shape[1]:
            for k, (means, variances) in enumerate(zip(self.means, self.variances, strict=True)):
                dense = -0.5 * ((numbers - means) ** 2 / variances + np.log(2 * np.pi * variances))
                out[:, k] = np.where(np.isnan(dense), 0.0, dense).sum(axis=1)
        return out

    def drawn(self, classes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return random numbers for rows of these classes, (rows, D)."""
        spread = np.sqrt(self.variances)[classes]
        found: np.ndarray = self.means[classes] + spread * generator.standard_normal(spread.shape)
        return found

    def with_column(self, numbers: ContinuousItems) -> ContinuousItems:
        """Return the continuous columns with more columns appended, whose variances are not constrained."""
        own, more = self.leaves, numbers.leaves
        joined = {name: getattr(own, name) + getattr(more, name) for name in ("columns", "centres", "scales")}
        means = np.concatenate([self.means, numbers.means], axis=1)
        variances = np.concatenate([self.variances, numbers.variances], axis=1)
        return ContinuousItems(replace(own, **joined, start=None), means, variances)

    # Derivatives by means and logarithms of variances

    @property
    def equal_to(self) -> np.ndarray:
        """(2 K D,): for each cell the cell it is equal to: itself, or the first of a set of equal ones."""
        return self.leaves.equal_cells if self.constraints is None else self.constraints.leader

    @property
    def fixed(self) -> np.ndarray:
        """(2 K D,): which means and variances are fixed by constraints."""
        if self.constraints is None:
            return np.zeros(2 * self.means.size, dtype=bool)
        return ~self.constraints.is_free

    @property
    def meets_constraints(self) -> bool:
        """Return whether these means and variances satisfy the constraints."""
        if self.constraints is None:
            return True
        found = self.leaves.parameters_of(self.moments)
        return bool(np.allclose(found, self.constraints.met(found), rtol=0, atol=1e-9))

    def cells_of_class(self, k: int) -> np.ndarray:
        """Return the numbers of the cells of one class, (2 D,)."""
        cells = np.arange(2 * self.means.size).reshape(2, *self.means.shape)
        found: np.ndarray = cells[:, k].ravel()
        return found

    def gradient(self, numbers: np.ndarray, k: int) -> np.ndarray:
        """(rows, 2 D): the derivatives of the log density in class k by the cells of the class."""
        away, known = self._away(numbers, k)
        variances = self.variances[k]
        return np.concatenate([away / variances, 0.5 * (away**2 / variances - known)], axis=1)

    def curvature(self, numbers: np.ndarray, k: int, share: np.ndarray) -> np.ndarray:
        """(2 D, 2 D): minus the second derivatives in class k, summed over rows with weights `share`."""
        away, known = self._away(numbers, k)
        variances, count = self.variances[k], len(self.names)
        means, logs = np.arange(count), count + np.arange(count)
        out = np.zeros((2 * count, 2 * count))
        out[means, means] = share @ known / variances
        out[means, logs] = out[logs, means] = share @ away / variances
        out[logs, logs] = 0.5 * (share @ away**2) / variances
        return out

    def moved(self, step: np.ndarray) -> ContinuousItems:
        """Return the continuous columns after a step, (2 K D,), of means and log variances."""
        means, logs = step.reshape(2, *self.means.shape)
        return replace(self, means=self.means + means, variances=self.variances * np.exp(logs))

    def _away(self, numbers: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the deviations of numbers from the mean of a class, 0 if missing, and which are known, as 1 and 0."""
        known = ~np.isnan(numbers)
        return np.where(known, numbers - self.means[k], 0.0), known.astype(np.float64)


@dataclass(frozen=True, eq=False)
class FreeMoments:
    """The means and log variances that are estimated, as opposed to fixed.

    boundary    (2 K D,): those that are fixed: variances at their limit, and where a class has no known number
    given       (2 K D,): those that were given by constraints
    free        the numbers of the other cells
    parameter   the number of the parameter that each of these is: the same for variances that are equal
    keys        of each parameter: the number of a cell, the same whatever else is free
    """

    boundary: np.ndarray
    given: np.ndarray
    free: np.ndarray
    parameter: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, items: ContinuousItems, expected: np.ndarray, least: float) -> FreeMoments:
        """Return the free moments of a model, given expected numbers of known values, (K, D), of at least `least`."""
        few = expected < least
        given = items.fixed
        boundary = np.concatenate([few.ravel(), (few | items.at_limit).ravel()]) & ~given
        free = np.flatnonzero(~boundary & ~given)
        keys, parameter = np.unique(items.equal_to[free], return_inverse=True)
        return cls(boundary, given, free, parameter.reshape(-1), keys)
