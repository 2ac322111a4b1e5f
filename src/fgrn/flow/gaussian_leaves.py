"""Gaussian leaves: continuous columns that are normally distributed in each state of one hidden variable.

In state k the columns are independent, with means m_kd and variances v_kd. The likelihood of the numbers x of a row is
a soft message to the hidden variable; the row adds moments to the counts, weighted by its posterior p:

    message    log P(x | k) = sum over observed d of  -1/2 (x_d - m_kd)^2 / v_kd - 1/2 log(2 pi v_kd)
    counts     W_kd = sum of p_k,  X_kd = sum of p_k x_d,  Q_kd = sum of p_k x_d^2     over rows in which d is observed
    update     m_kd = X_kd / W_kd,  v = sum of (Q - W m^2) / sum of W                  over what shares the variance

A missing number is integrated out: it is in neither the message nor the moments. Variances are `diagonal` (of every
state and column), `spherical` (of every state, one for all columns) or `tied` (of every column, one for all states).
Numbers are standardised by the mean and standard deviation of their column; for spherical variances, which compare
columns, by one standard deviation for all of them. Parameters are kept in these units, variances as logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..engines import blocks_of_rows
from .moment_constraints import MomentConstraints

COVARIANCES = ("diagonal", "spherical", "tied")

LEAST_VARIANCE = 1e-6
"""Smallest variance in a state, as a part of the variance of the whole column: a state of equal numbers has no density.

The update with this limit is still the maximum of the expected log-likelihood, so EM never lowers the likelihood."""

LEAST_WEIGHT = 1e-12
"""Rows below which a state has none of a column: its mean and variance stay as they were."""

FAINTEST_MESSAGE = -650.0
"""Logarithm of the smallest part of a message, beside its largest: no state is ruled out by a number alone."""

ROWS_AT_ONCE = 2**12
"""Rows of a block: its numbers and messages stay in the cache."""

UNITS_AT_ONCE = 2**16
"""Rows of a block whose means and variances are added to those of the others."""

LOG_TWO_PI = float(np.log(2 * np.pi))


class Moments(NamedTuple):
    """Means and variances, each (states, columns)."""

    means: np.ndarray
    variances: np.ndarray

    def of_column(self, place: int) -> Moments:
        """Return the means and variances of one column, each (states,)."""
        return Moments(self.means[:, place], self.variances[:, place])


class LogDensities(NamedTuple):
    """The logarithm of normal densities as polynomials of standardised numbers: coefficients, each (states, columns).

    squared, linear, constant   of x^2, x and 1
    constants                   (states, 1): the sum of the constants of all columns, for rows without missing numbers
    """

    squared: np.ndarray
    linear: np.ndarray
    constant: np.ndarray
    constants: np.ndarray

    def messages(self, rows: StandardNumbers, out: np.ndarray) -> np.ndarray:
        """Write the message of each row's numbers to the state, (rows, states), that sums to one; return its log-scale.

        The log-scale, (rows,), is the logarithm of what was taken out of the message.
        """
        scale = np.empty(len(out))
        for part, values, known in rows.blocks():
            found = self.linear @ values.T  # (states, rows): a few long rows are quicker than many short ones
            found += self.squared @ (values**2).T
            found += self.constants if known is None else self.constant @ known.T
            most = found.max(axis=0)
            found -= most
            np.exp(np.maximum(found, FAINTEST_MESSAGE, out=found), out=found)
            total = found.sum(axis=0)
            np.divide(found, total, out=out[part].T)
            np.add(most, np.log(total, out=total), out=scale[part])
        return scale


@dataclass(frozen=True)
class GaussianLeaves:
    """Continuous columns that are normally distributed in each state of a hidden variable.

    variable    the name of the hidden variable, and `states`: how many it has
    columns     the names of the columns
    covariance  which variances are equal: "diagonal", "spherical" or "tied" (see the module)
    centres     the mean of each column, and `scales` its standard deviation: the units of the parameters
    start       the mean of each column in each state where learning starts, (states, columns); at random unless given
    """

    variable: str
    states: int
    columns: tuple[str, ...]
    covariance: str
    centres: tuple[float, ...]
    scales: tuple[float, ...]
    start: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        settings.choice("covariance", self.covariance, COVARIANCES, LearningError)

    @classmethod
    def of(
        cls, variable: str, states: int, columns: tuple[str, ...], covariance: str, numbers: np.ndarray,
        weights: np.ndarray, start: tuple[tuple[float, ...], ...] | None = None,
        release: Callable[[], None] | None = None,
    ) -> GaussianLeaves:  # fmt: skip
        """Return the leaves in the units of a table, (rows, columns), with NaN for missing numbers.

        `release` is called after each block of rows, to free the memory that rows on disk take.
        """

        def sums(power: int, centres: np.ndarray) -> np.ndarray:
            """Weighted sums over rows of the known numbers less their centres, to a power, (columns,)."""
            total = np.zeros(len(columns))
            for part in blocks_of_rows(len(numbers), UNITS_AT_ONCE):
                block = np.asfortranarray(numbers[part]) - centres
                np.power(block, power, out=block)
                block *= weights[part][:, None]
                block[np.isnan(numbers[part])] = 0.0
                total += block.sum(axis=0)
                if release is not None:
                    release()
            return total

        nothing = np.zeros(len(columns))
        total = sums(0, nothing)
        for column, weight in zip(columns, total.tolist(), strict=True):
            if not weight:
                raise LearningError("it has no known number.", column=column, remedies="leave the column out")
        centres = sums(1, nothing) / total
        squares = sums(2, centres)
        flat = squares <= (1e-12 * np.abs(centres)) ** 2 * total
        if flat.any():
            raise LearningError(
                "all its known numbers are equal, so that it has no variance.",
                column=columns[int(flat.argmax())],
                remedies=("leave the column out", "take it for levels: do not name it as continuous"),
            )
        scales = np.sqrt(squares / total)
        if covariance == "spherical":
            scales = np.full_like(scales, np.sqrt(squares.sum() / total.sum()))
        return cls(variable, states, columns, covariance, tuple(centres.tolist()), tuple(scales.tolist()), start)

    @property
    def shape(self) -> tuple[int, int]:
        """(states, columns)."""
        return self.states, len(self.columns)

    @property
    def size(self) -> int:
        """The number of cells of the parameters: means, then logarithms of variances."""
        return 2 * self.states * len(self.columns)

    @property
    def free_parameters(self) -> int:
        """The number of free parameters: all means, and the variances that may differ."""
        states, columns = self.shape
        return states * columns + {"diagonal": states * columns, "spherical": states, "tied": columns}[self.covariance]

    @cached_property
    def equal_cells(self) -> np.ndarray:
        """(size,): for each parameter the one it is equal to: itself, or the first of a shared variance."""
        means, logs = np.arange(self.size).reshape(2, *self.shape)
        shared = {"diagonal": logs, "spherical": logs[:, :1], "tied": logs[:1]}[self.covariance]
        return np.concatenate([means.ravel(), np.broadcast_to(shared, self.shape).ravel()])

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.centres), np.array(self.scales)

    # Parameters

    def initial(self) -> np.ndarray:
        """Return the parameters before learning: moments of the table in every state, or given initial values."""
        out = np.zeros(self.size)
        if self.start is not None:
            centres, scales = self._units
            out[: self.size // 2] = ((np.array(self.start) - centres) / scales).ravel()
        return out

    def drawn(self, generator: np.random.Generator) -> np.ndarray:
        """Return random initial parameters: means drawn with the spread of the rows, and the variances of the table."""
        out = self.initial()
        if self.start is None:
            out[: self.size // 2] = generator.standard_normal(self.size // 2)
        return out

    def estimates(self, parameters: np.ndarray) -> Moments:
        """Return means and variances in the units of the table."""
        means, logs = self._parts(parameters)
        centres, scales = self._units
        return Moments(centres + scales * means, scales**2 * np.exp(logs))

    def parameters_of(self, moments: Moments) -> np.ndarray:
        """Return the parameters with these means and variances, in the table's units, and variances within limits."""
        centres, scales = self._units
        logs = np.log(np.maximum(moments.variances / scales**2, LEAST_VARIANCE))
        return np.concatenate([((moments.means - centres) / scales).ravel(), logs.ravel()])

    def at_limit(self, moments: Moments) -> np.ndarray:
        """(states, columns): which variances are at their lower limit."""
        found: np.ndarray = moments.variances <= LEAST_VARIANCE * (1 + 1e-9) * self._units[1] ** 2
        return found

    def ordered(self, parameters: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the parameters with states in another order."""
        return np.concatenate([part[order].ravel() for part in self._parts(parameters)])

    def _parts(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, logs = parameters.reshape(2, *self.shape)
        return means, logs

    # E-step

    def log_densities(self, parameters: np.ndarray) -> LogDensities:
        """The log-density of a standardised number in each state and column, as coefficients of a polynomial."""
        means, logs = self._parts(parameters)
        precision = np.exp(-logs)
        constant = -0.5 * (means**2 * precision + logs + LOG_TWO_PI) - np.log(self._units[1])
        return LogDensities(-0.5 * precision, means * precision, constant, constant.sum(axis=1)[:, None])

    def counts(self, shares: np.ndarray, rows: StandardNumbers) -> np.ndarray:
        """Return the moments W, X and Q of rows, as one vector, given posteriors of states, (rows, states)."""
        total = np.zeros((3, *self.shape))
        for part, values, known in rows.blocks():
            share = shares[part].T
            total[0] += share.sum(axis=1)[:, None] if known is None else share @ known
            total[1] += share @ values
            total[2] += share @ values**2
        return total.ravel()

    def expected_counts(self, shares: np.ndarray, moments: Moments) -> np.ndarray:
        """Return the moments per row that the model expects, given shares of states and no missing numbers."""
        means, logs = self._parts(self.parameters_of(moments))
        weight = np.broadcast_to(shares[:, None], self.shape)
        return np.concatenate([weight, weight * means, weight * (np.exp(logs) + means**2)]).ravel()

    @property
    def count_size(self) -> int:
        """The number of cells of the counts: W, X and Q."""
        return 3 * self.states * len(self.columns)

    # M-step

    def updated(
        self, counts: np.ndarray, parameters: np.ndarray, constraints: MomentConstraints | None = None
    ) -> np.ndarray:
        """Return the parameters from moments, under constraints; parameters without moments are unchanged."""
        weight, sums, squares = (part.ravel() for part in counts.reshape(3, *self.shape))
        half = self.size // 2
        means, logs = (part.ravel().copy() for part in self._parts(parameters))
        equal = self.equal_cells if constraints is None else constraints.leader
        fixed = np.full(self.size, np.nan) if constraints is None else constraints.fixed
        there = weight > LEAST_WEIGHT
        weight = np.where(there, weight, 0.0)

        def pooled(values: np.ndarray, leader: np.ndarray) -> np.ndarray:
            found: np.ndarray = np.bincount(leader, np.where(there, values, 0.0), minlength=half)[leader]
            return found

        of_means, of_logs = equal[:half], equal[half:] - half
        if not np.array_equal(of_means, np.arange(half)):  # equal means of different variances
            precision = np.exp(-logs)
            total, sums_of_all = pooled(weight * precision, of_means), pooled(sums * precision, of_means)
        else:
            total, sums_of_all = weight, sums
        np.divide(sums_of_all, total, out=means, where=total > LEAST_WEIGHT)
        means = np.where(np.isnan(fixed[:half]), means, fixed[:half])
        left = pooled(squares - 2 * means * sums + weight * means**2, of_logs)
        total = pooled(weight, of_logs)
        variances = np.divide(left, total, out=np.exp(logs), where=total > LEAST_WEIGHT)
        logs = np.log(np.maximum(variances, LEAST_VARIANCE))
        return np.concatenate([means, np.where(np.isnan(fixed[half:]), logs, fixed[half:])])

    def within_limits(self, parameters: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """Return extrapolated parameters; the previous ones if one is not finite, or a variance is below its limit."""
        logs = self._parts(parameters)[1]
        fine = np.isfinite(parameters).all() and logs.min(initial=0.0) >= np.log(LEAST_VARIANCE) and logs.max() < 600
        return parameters if fine else otherwise


@dataclass(frozen=True, eq=False)
class StandardNumbers:
    """Standardised numbers of rows, 0 for missing ones, and which are known; None if all are."""

    values: np.ndarray
    known: np.ndarray | None

    @classmethod
    def of(cls, leaves: GaussianLeaves, numbers: np.ndarray) -> StandardNumbers:
        """Return the standardised numbers of a table, (rows, columns), with NaN for missing numbers."""
        centres, scales = leaves._units
        values = np.empty(numbers.shape, order="F")  # a few long columns are quicker than many short rows
        np.divide(np.subtract(numbers, centres, out=values), scales, out=values)
        if not np.isnan(np.add.reduce(values, axis=None)):  # the quickest way to see that no number is missing
            return cls(values, None)
        missing = np.isnan(values)
        values[missing] = 0.0
        return cls(values, ~missing)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray | None]]:
        """Yield blocks of rows: their slice, numbers, and which of these are known, as 1 and 0."""
        for part in blocks_of_rows(len(self.values), ROWS_AT_ONCE):
            yield part, self.values[part], None if self.known is None else self.known[part].astype(np.float64)
