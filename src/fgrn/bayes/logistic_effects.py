"""The arithmetic of logistic tables: the log-odds of each state of a variable are sums of effects of its parents.

    log P(child = k | parents) / P(child = 0 | parents) = intercept_k + sum over parents i of effect_i(state, k)

The effects of a parent's first state are zero (multinomial logistic regression on indicators of the parents' states).
The M-step is Newton's method on the expected counts, whose log-likelihood is concave.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..core.arrays import ReadOnlyArrays

NEWTON_STEPS, HALVINGS = 25, 30
"""The most steps of one M-step, and the most times that a step is halved."""

TOLERANCE = 1e-12
"""A step that gains no more than this share of the log-likelihood is the last."""

RIDGE = 1e-9
"""Share of the largest second derivative that is added to all, so that poorly determined coefficients do not move."""

LARGEST = 300.0
"""The largest log-odds, which would be infinite for events that never occur in the data."""

SPREAD = 0.1
"""The standard deviation of coefficients in random starts."""


@dataclass(frozen=True, eq=False)
class LogisticForm(ReadOnlyArrays):
    """The form of a logistic table; see the module docstring.

    Attributes:
        sizes: the states of each parent.
        width: the states of the child.
        given: the coefficients, (1 + states of all parents but the first of each, width - 1); None if they are drawn.
    """

    sizes: tuple[int, ...]
    width: int
    given: np.ndarray | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogisticForm):
            return NotImplemented
        given = (self.given is None) == (other.given is None)
        return (
            (self.sizes, self.width) == (other.sizes, other.width)
            and given
            and (
                self.given is None or np.array_equal(self.given, other.given)  # type: ignore[arg-type]
            )
        )

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the coefficients."""
        return 1 + sum(self.sizes) - len(self.sizes), self.width - 1

    @property
    def free_parameters(self) -> int:
        """See `TableForm`."""
        return self.shape[0] * self.shape[1]

    def before_start(self) -> np.ndarray:
        """See `TableForm`."""
        return self.table(np.zeros(self.shape) if self.given is None else self.given)

    def drawn(self, generator: np.random.Generator) -> np.ndarray:
        """See `TableForm`."""
        return self.table(generator.normal(0, SPREAD, self.shape) if self.given is None else self.given)

    def projected(self, table: np.ndarray) -> np.ndarray:
        """See `TableForm`."""
        return self.table(self.coefficients(table))

    def design(self, rows: np.ndarray) -> np.ndarray:
        """Return the design matrix of some rows of the table: an intercept, and indicators of parents' states."""
        parts = [np.ones((len(rows), 1))]
        states = np.unravel_index(rows, self.sizes) if self.sizes else ()
        parts += [np.eye(size)[state][:, 1:] for size, state in zip(self.sizes, states, strict=True)]
        return np.concatenate(parts, axis=1)

    def table(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the table of some coefficients: (joint states of the parents, states of the child)."""
        every = np.arange(prod(self.sizes))
        return np.asarray(np.exp(_log_shares(self.design(every) @ coefficients)))

    def coefficients(self, table: np.ndarray) -> np.ndarray:
        """Return the coefficients of a table, from the rows in which at most one parent is not in its first state."""
        with np.errstate(divide="ignore"):
            odds = np.log(table[:, 1:]) - np.log(table[:, :1])
        odds = np.clip(odds, -LARGEST, LARGEST).reshape(*self.sizes, self.width - 1)
        first = (0,) * len(self.sizes)
        rows = [odds[first][None]]
        for axis in range(len(self.sizes)):
            place = (*first[:axis], slice(1, None), *first[axis + 1 :])
            rows.append(odds[place] - odds[first])
        return np.concatenate(rows)

    def updated(self, table: np.ndarray, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        """See `TableForm`: Newton's method, from the current coefficients."""
        rows = np.flatnonzero(counts.any(axis=1))
        design, weights = self.design(rows), counts[rows]
        here = self.coefficients(table)
        untold = ~design.any(axis=0)
        here[untold] = self.coefficients(before)[untold]
        reached = _likelihood(design, weights, here)
        for _ in range(NEWTON_STEPS):
            step = _newton_step(design, weights, here)
            tried, size = here + step, 1.0
            found = _likelihood(design, weights, tried)
            for _ in range(HALVINGS):
                if found >= reached:
                    break
                size /= 2
                tried = here + size * step
                found = _likelihood(design, weights, tried)
            if not found > reached:
                break
            gained, here, reached = found - reached, tried, found
            if gained <= TOLERANCE * abs(reached):
                break
        return self.table(here)


def _log_shares(odds: np.ndarray) -> np.ndarray:
    """Return the logarithms of probabilities from log-odds against the first state."""
    whole = np.concatenate([np.zeros((len(odds), 1)), np.clip(odds, -LARGEST, LARGEST)], axis=1)
    whole -= whole.max(axis=1, keepdims=True)
    found: np.ndarray = whole - np.log(np.exp(whole).sum(axis=1, keepdims=True))
    return found


def _likelihood(design: np.ndarray, counts: np.ndarray, coefficients: np.ndarray) -> float:
    return float((counts * _log_shares(design @ coefficients)).sum())


def _newton_step(design: np.ndarray, counts: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    shares = np.exp(_log_shares(design @ coefficients))[:, 1:]
    total = counts.sum(axis=1)
    gradient = design.T @ (counts[:, 1:] - total[:, None] * shares)
    width, terms = shares.shape[1], design.shape[1]
    curvature = np.empty((terms, width, terms, width))
    for one in range(width):
        for other in range(width):
            weight = total * shares[:, one] * ((one == other) - shares[:, other])
            curvature[:, one, :, other] = design.T @ (weight[:, None] * design)
    matrix = curvature.reshape(terms * width, terms * width)
    ridge = RIDGE * max(float(np.abs(matrix).max(initial=0)), np.finfo(np.float64).tiny)
    step = np.linalg.solve(matrix + ridge * np.eye(len(matrix)), gradient.ravel())
    return np.asarray(step.reshape(terms, width))
