"""Temperature and matrix scaling: calibrating the probabilities of a classifier by rows that it did not learn from.

With a temperature T the probabilities of the classes are raised to the power 1 / T, and scaled to add up to one: above
1 the classifier is less sure of the class than before, below 1 more. T has the least log-loss (Guo et al., 2017) of the
rows and of one more, spread over all of them, whose class is the likeliest of those that were wrong: where every row
was predicted rightly, the next one still may not be (in the spirit of Platt, 1999).

One temperature is not right for all classes where some are easily told from the others, and some are hardly told from
each other. Of three classes or more the logarithms l of what is told of a row, less their mean, become

    l / T + l / T @ mixing + offsets

(matrix scaling, Guo et al., 2017), with the least log-loss plus MIXING_PENALTY / 2 times the sum of the squares of
mixing and offsets (in the spirit of Kull et al., 2019): without rows there is the temperature alone. Where the
logarithms of a class are large, the squares of its row of the matrix count as many times as theirs are in the mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .optimiser import minimised

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

MIXING_PENALTY = 3.0
"""The precision of the prior of each number in the matrix and the offsets, whose mean is 0."""

MIXING_ITERATIONS, MIXING_TOLERANCE = 100, 1e-7
"""The most steps of the optimiser for the matrix, and the gain per row at which it has converged."""

MOST_PRODUCTS = 2e7
"""Rows times squared classes up to which a matrix is found, in a second or two; with more there is the temperature."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How the logarithms of what a classifier tells of the classes are changed, see above.

    temperature   by which they are divided
    mixing        (classes, classes): from class, to class; None for no change but the temperature
    offsets       what is added to each class
    penalty       of mixing and offsets, per row: what they must gain in log-loss
    """

    temperature: float = 1.0
    mixing: np.ndarray | None = None
    offsets: np.ndarray | None = None
    penalty: float = 0.0

    @property
    def changes_nothing(self) -> bool:
        """Whether the classifier stays as it is."""
        return self.temperature == 1.0 and self.mixing is None

    def moved(self, logarithms: np.ndarray) -> np.ndarray:
        """Return what mixing adds to logarithms at that temperature; their first axis is the class."""
        apart = (logarithms - logarithms.mean(axis=0)) / self.temperature
        return np.zeros_like(apart) if self.mixing is None else np.tensordot(self.mixing.T, apart, axes=1)


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
        wrong, others = self._one_more_row
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

    @property
    def _one_more_row(self) -> tuple[float, np.ndarray]:
        """The share of the row that is added, and (rows, classes) the logarithms of classes that did not come true."""
        others = self.logs.copy()
        others[np.arange(len(others)), self.classes] = -np.inf
        return 1 / (1 + float(self.weights.sum())), others

    def mixed(self) -> Calibration | None:
        """Return the matrix and offsets of the least penalised log-loss; None for two classes, or too much work.

        Those of two classes would be a temperature once more.
        """
        rows, classes = self.logs.shape
        if classes < 3 or rows * classes**2 > MOST_PRODUCTS:
            return None
        apart = self.logs - self.logs.mean(axis=1, keepdims=True)
        wrong, others = self._one_more_row
        true = np.zeros_like(apart)
        true[np.arange(rows), self.classes] = 1.0 - wrong
        true[np.arange(rows), others.argmax(axis=1)] += wrong
        total = self.weights.sum()
        sizes = np.maximum(1.0, self.weights @ apart**2 / total)
        precision = MIXING_PENALTY * np.concatenate([np.repeat(sizes, classes), np.ones(classes)])

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            mixing, offsets = z[:-classes].reshape(classes, classes), z[-classes:]
            logs = apart + apart @ mixing + offsets
            logs -= logs.max(axis=1, keepdims=True)
            logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
            excess = self.weights[:, None] * (np.exp(logs) - true)
            slope = np.concatenate([(apart.T @ excess).ravel(), excess.sum(axis=0)]) + precision * z
            cost = 0.5 * precision @ z**2 - self.weights @ (true * logs).sum(axis=1)
            return float(cost / total), slope / total

        z = minimised(loss, np.zeros(classes**2 + classes), MIXING_ITERATIONS, MIXING_TOLERANCE)
        penalty = float(0.5 * precision @ z**2 / total)
        return Calibration(1.0, z[:-classes].reshape(classes, classes), z[-classes:], penalty)

    def _tempered(self, power: float) -> tuple[np.ndarray, np.ndarray]:
        """(rows, classes): logarithms times a power, the largest of a row being 0, and the sums of what they are of."""
        logs = power * self.logs
        logs -= logs.max(axis=1, keepdims=True)
        return logs, np.exp(logs).sum(axis=1)

    def _of_class(self, values: np.ndarray) -> np.ndarray:
        """The value of the class of each row."""
        found: np.ndarray = values[np.arange(len(values)), self.classes]
        return found
