"""Temperature and matrix scaling: calibration of the probabilities of a classifier on held-out rows.

With a temperature T the probabilities of the classes are raised to the power 1 / T, and scaled to sum to one: with T
above 1 the classifier becomes less confident, below 1 more. T minimises the log-loss (Guo et al., 2017) of the rows and
of one added row, spread over all of them, whose class is the most probable of the wrong ones: even if every row was
predicted correctly, the next one may not be (in the spirit of Platt, 1999).

One temperature does not suit all classes if some are easily distinguished from the others, and some are not. With
three classes or more the log-probabilities l of a row, minus their mean, become

    l / T + l / T @ mixing + offsets

(matrix scaling, Guo et al., 2017), with the least log-loss plus MIXING_PENALTY / 2 times the sum of the squares of
mixing and offsets (in the spirit of Kull et al., 2019): without rows only the temperature remains. The squares of a row
of the matrix are multiplied by the mean square of the logarithms of its class, if that is above 1. The matrix is used
only if it clearly reduces the log-loss of rows that it was not fitted to, see `CalibrationSearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .cross_validation import mean_and_error
from .optimiser import minimised

FAINTEST = 1e-9
"""Smaller probabilities of the true class are replaced by this one."""

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

MOST_PRODUCTS = 5e6
"""Rows times squared classes up to which a matrix is fitted and evaluated, in a second or two; with more there is
only the temperature."""

SHARES = 3
"""The number of parts of the held-out rows by which a matrix is evaluated, if there is only one fold."""

CLEARLY_BETTER = 1.0
"""The number of standard errors by which a matrix, fitted to other rows, must reduce the log-loss."""

TEMPERATURE_STEP, MOST_TEMPERATURE_STEPS = 1.1, 6
"""The factor by which the temperature of a network is raised or lowered while that helps, and how often."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A change of the log-probabilities of the classes: a temperature and, optionally, a matrix and offsets.

    temperature   by which they are divided
    mixing        (classes, classes): from class, to class; None for no change but the temperature
    offsets       what is added to each class
    """

    temperature: float = 1.0
    mixing: np.ndarray | None = None
    offsets: np.ndarray | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether the classifier stays as it is."""
        return self.temperature == 1.0 and self.mixing is None

    def matrix_terms(self, logarithms: np.ndarray) -> np.ndarray:
        """Return what the matrix adds to the logarithms at this temperature; their first axis is the class."""
        apart = (logarithms - logarithms.mean(axis=0)) / self.temperature
        return np.zeros_like(apart) if self.mixing is None else np.tensordot(self.mixing.T, apart, axes=1)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted probabilities of the classes of some rows, and the true classes.

    logs      (rows, classes): the logarithm of the probability of each class
    classes   the number of the true class of each row
    weights   of the rows, 1 for one row
    """

    logs: np.ndarray
    classes: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, chances: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> Predictions:
        """Return predictions from probabilities of the classes; NaN, for an impossible row, counts as 0."""
        return cls(np.log(np.maximum(np.nan_to_num(chances), LEAST_KNOWN)), classes, weights)

    @classmethod
    def of_all(cls, parts: Iterable[Predictions]) -> Predictions:
        """Return the predictions of several sets of rows, concatenated."""
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
        """Return the temperature with the least mean log-loss.

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
        """Return the weight per row of the added row, and the logarithms of classes other than the true one."""
        others = self.logs.copy()
        others[np.arange(len(others)), self.classes] = -np.inf
        return 1 / (1 + float(self.weights.sum())), others

    def some(self, rows: slice) -> Predictions:
        """Return the predictions of some of the rows."""
        return Predictions(self.logs[rows], self.classes[rows], self.weights[rows])

    @property
    def mean_loss(self) -> float:
        """Return the mean log-loss of the rows."""
        return float(np.average(self.losses(), weights=self.weights))

    def fitted_matrix(self) -> Calibration:
        """Return the matrix and offsets of the least penalised log-loss."""
        rows, classes = self.logs.shape
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
        return Calibration(1.0, z[:-classes].reshape(classes, classes), z[-classes:])

    def _tempered(self, power: float) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms times a power, (rows, classes), with maximum 0 per row, and sums of exponentials."""
        logs = power * self.logs
        logs -= logs.max(axis=1, keepdims=True)
        return logs, np.exp(logs).sum(axis=1)

    def _of_class(self, values: np.ndarray) -> np.ndarray:
        """Return the value of the true class of each row."""
        found: np.ndarray = values[np.arange(len(values)), self.classes]
        return found


def can_fit_matrix(rows: int, classes: int) -> bool:
    """Return whether a matrix may be fitted: not for two classes, where it equals a temperature, nor for large data."""
    return classes > 2 and rows * classes**2 <= MOST_PRODUCTS


@dataclass(frozen=True)
class CalibrationSearch:
    """Finds the calibration of networks, each learnt from part of the rows, with the least log-loss on held-out rows.

    parts    for each network: its predictions for the held-out rows from it, if it is calibrated so
    allowed  asked whether there is time for more
    """

    parts: Sequence[Callable[[Calibration], Predictions]]
    allowed: Callable[[], bool] = lambda: True

    def best_temperature(self, temperature: float) -> Calibration:
        """Return the temperature with the least log-loss of the networks, searched from a given one or from 1.

        The better one is raised or lowered by a factor as long as that helps.
        """
        losses: dict[float, float] = {}

        def loss(tried: float) -> float:
            if tried not in losses:
                parts = (part(Calibration(tried)) for part in self.parts)
                losses[tried] = Predictions.of_all(parts).mean_loss
            return losses[tried]

        start = min(temperature, 1.0, key=loss)
        found = start
        for factor in (TEMPERATURE_STEP, 1 / TEMPERATURE_STEP):
            for step in range(1, MOST_TEMPERATURE_STEPS + 1):
                if not self.allowed() or loss(start * factor**step) >= loss(found):
                    break
                found = start * factor**step
            if found != start:
                break
        return Calibration(found)

    def with_matrix_if_better(self, tempered: Calibration) -> Calibration:
        """Return the calibration with a matrix added if that is clearly better, else unchanged.

        A matrix is fitted to all parts but one and evaluated on that one, in turn; the one that is used, to all parts.
        """
        if not self.allowed():
            return tempered
        shares = 1 if len(self.parts) > 1 else SHARES
        predictions, places = [], []
        for part in self.parts:
            all_rows = part(tempered)
            for share in range(shares):
                places.append((part, slice(share, None, shares)))
                predictions.append(all_rows.some(places[-1][1]))
        gains = []
        for left_out, (part, rows) in enumerate(places):
            if not self.allowed():
                return tempered
            fitted = self._matrix(predictions[:left_out] + predictions[left_out + 1 :], tempered)
            gains.append(predictions[left_out].losses() - part(fitted).some(rows).losses())
        weights = np.concatenate([one.weights for one in predictions])
        gain, error = mean_and_error(np.concatenate(gains), weights)
        return self._matrix(predictions, tempered) if gain > CLEARLY_BETTER * error else tempered

    def _matrix(self, predictions: Iterable[Predictions], tempered: Calibration) -> Calibration:
        return replace(Predictions.of_all(predictions).fitted_matrix(), temperature=tempered.temperature)
