"""Temperature scaling: calibrating the probabilities of a classifier by rows that it did not learn from.

With a temperature T the probabilities of the classes are raised to the power 1 / T, and scaled to add up to one: above
1 the classifier is less sure of the class than before, below 1 more. T has the least log-loss (Guo et al., 2017) of the
rows and of one more, spread over all of them, whose class is the likeliest of those that were wrong: where every row
was predicted rightly, the next one still may not be (in the spirit of Platt, 1999).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

FAINTEST = 1e-9
"""A smaller probability of the class that came true counts as this one."""

LEAST_KNOWN = 1e-100
"""A smaller probability of a class is replaced by this one before it is raised to a power."""

HOTTEST = 20.0
"""The largest temperature; the least is its inverse."""

CLOSE_TO_ONE = 0.02
"""A temperature that differs from 1 by a smaller share is 1: the classifier stays as it was."""

MOST_STEPS = 30
"""Of Newton's method, or of halving where that leads too far; a handful is usual."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """The probabilities that a classifier gave the classes of some rows, and the true classes.

    logs      (rows, classes): the logarithm of the probability of each class
    classes   the number of the true class of each row
    weights   of the rows, 1 for one row
    """

    logs: np.ndarray
    classes: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, chances: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> Predictions:
        """From the probabilities of the classes; those of an impossible row are not numbers, and count as 0."""
        return cls(np.log(np.maximum(np.nan_to_num(chances), LEAST_KNOWN)), classes, weights)

    @classmethod
    def of_all(cls, parts: Iterable[Predictions]) -> Predictions:
        """The predictions of several sets of rows, one after the other."""
        found = list(parts)
        return cls(
            np.concatenate([one.logs for one in found]),
            np.concatenate([one.classes for one in found]),
            np.concatenate([one.weights for one in found]),
        )

    def losses(self, temperature: float = 1.0) -> np.ndarray:
        """Return the log-loss of each row at a temperature, -log P(true class)."""
        logs, sums = self._tempered(1 / temperature)
        found: np.ndarray = np.minimum(np.log(sums) - self._of_class(logs), -np.log(FAINTEST))
        return found

    @property
    def temperature(self) -> float:
        """The temperature of the least mean log-loss.

        It is a convex function of 1 / T, whose slope is the mean over rows of the expected logarithm at that
        temperature less the logarithm of the true class.
        """
        low, high, power = 1 / HOTTEST, HOTTEST, 1.0
        wrong = 1 / (1 + self.weights.sum())
        others = self.logs.copy()
        others[np.arange(len(others)), self.classes] = -np.inf
        true = (1 - wrong) * self._of_class(self.logs) + wrong * others.max(axis=1)
        for _ in range(MOST_STEPS):
            logs, sums = self._tempered(power)
            chances = np.exp(logs) / sums[:, None]
            mean = (chances * self.logs).sum(axis=1)
            slope = np.average(mean - true, weights=self.weights)
            bend = np.average((chances * self.logs**2).sum(axis=1) - mean**2, weights=self.weights)
            low, high = (low, power) if slope > 0 else (power, high)
            step = power - slope / bend if bend > 0 else np.inf
            before, power = power, step if low < step < high else (low * high) ** 0.5
            if abs(power - before) <= 1e-3 * power:
                break
        return 1.0 if abs(power - 1) < CLOSE_TO_ONE else float(1 / power)

    def _tempered(self, power: float) -> tuple[np.ndarray, np.ndarray]:
        """(rows, classes): logarithms times a power, the largest of a row being 0, and the sums of what they are of."""
        logs = power * self.logs
        logs -= logs.max(axis=1, keepdims=True)
        return logs, np.exp(logs).sum(axis=1)

    def _of_class(self, values: np.ndarray) -> np.ndarray:
        """The value of the class of each row."""
        found: np.ndarray = values[np.arange(len(values)), self.classes]
        return found
