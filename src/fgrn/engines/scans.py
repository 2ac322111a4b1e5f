"""Forward-backward and Viterbi along sequences of rows, in the log domain: exact, and slow (row by row in NumPy)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Scan(NamedTuple):
    """The results of forward-backward along sequences of rows.

    past, future     (rows, states): the hidden variable as the rows before know it, and those after (1 in the last)
    around           (rows, states): both together, each row summing to one
    likelihood       (rows,): of each row given those before it; 0 where it is impossible
    first, steps     expected counts of the first rows, (states,), and from row to row without the factor of the table,
                     (states, states)
    """

    past: np.ndarray
    future: np.ndarray
    around: np.ndarray
    likelihood: np.ndarray
    first: np.ndarray
    steps: np.ndarray

    @classmethod
    def room(cls, rows: int, states: int) -> Scan:
        """Return empty arrays for the scan of some rows."""
        past, future, around = (np.empty((rows, states)) for _ in range(3))
        return cls(past, future, around, np.empty(rows), np.zeros(states), np.zeros((states, states)))

    def of(self, rows: slice) -> Scan:
        """Return views for some of the rows, with new arrays for their counts."""
        past, future, around = self.past[rows], self.future[rows], self.around[rows]
        return Scan(past, future, around, self.likelihood[rows], np.zeros_like(self.first), np.zeros_like(self.steps))


class LogScan(NamedTuple):
    """The results of forward-backward as logarithms, (rows, states), with the log-likelihood of each row.

    `first` and `steps` are the expected counts of the first rows and from row to row. Where a row is impossible, its
    `seen` is -inf, and nothing of its sequence means anything from there on.
    """

    past: np.ndarray
    future: np.ndarray
    seen: np.ndarray
    first: np.ndarray
    steps: np.ndarray


def log_scan(
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, weights: np.ndarray
) -> LogScan:
    """Run forward-backward in the log domain; all arguments are logarithms but `begins` and `weights`.

    Counts are those of sequences without an impossible row.
    """
    rows, states = local.shape
    past, future, seen = np.zeros((rows, states)), np.zeros((rows, states)), np.zeros(rows)
    first, steps = np.zeros(states), np.zeros((states, states))
    ended = np.zeros(rows, dtype=bool)  # after an impossible row
    for row in range(rows):
        if begins[row]:
            past[row] = prior
        elif np.isneginf(seen[row - 1]) or ended[row - 1]:
            ended[row] = True
            continue
        else:
            here = past[row - 1] + local[row - 1] - seen[row - 1]
            past[row] = log_sum(here[:, None] + table, axis=0)
        seen[row] = log_sum(past[row] + local[row], axis=0)
    number = np.cumsum(begins)
    lost = np.isin(number, number[np.isneginf(seen)])
    for row in np.flatnonzero(~lost)[::-1].tolist():
        here = past[row] + local[row]
        if row < rows - 1 and not begins[row + 1]:
            ahead = local[row + 1] + future[row + 1]
            future[row] = log_sum(table + ahead, axis=1)
            norm = log_sum(here + future[row], axis=0)
            steps += weights[row] * np.exp(here[:, None] + table + ahead[None] - norm)
        if begins[row]:
            joint = here + future[row]
            first += weights[row] * np.exp(joint - log_sum(joint, axis=0))
        future[row] -= future[row].max()
    return LogScan(past, future, seen, first, steps)


def best_path(
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable states of each sequence (Viterbi) and, at its first row, the log-weight of the path.

    All sequences take a step together, so that many are as quick as one.
    """
    rows, states = local.shape
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, rows))
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    came = np.zeros((rows, states), dtype=np.int64)
    path, weight = np.zeros(rows, dtype=np.int64), np.zeros(rows)
    now = prior + local[starts]
    for step in range(1, int(lengths.max(initial=1))):
        going = int(np.count_nonzero(lengths > step))
        joint = now[:going, :, None] + table
        came[starts[:going] + step] = joint.argmax(axis=1)
        now[:going] = joint.max(axis=1) + local[starts[:going] + step]
    last = starts + lengths - 1
    path[last] = now.argmax(axis=1)
    weight[starts] = now.max(axis=1)
    for step in range(1, int(lengths.max(initial=1))):
        here = last[: int(np.count_nonzero(lengths > step))] - step
        path[here] = came[here + 1, path[here + 1]]
    return path, weight


def logarithm(values: np.ndarray) -> np.ndarray:
    """log, with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        out: np.ndarray = np.log(values)
    return out


def log_sum(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Log of the sum of exponentials along an axis; -inf where all are -inf."""
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total: np.ndarray = logarithm(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return total


def distribution(log_weights: np.ndarray) -> np.ndarray:
    """Normalise rows of logarithms to distributions; a row that is all -inf becomes all zero."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights: np.ndarray = np.exp(log_weights - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)
