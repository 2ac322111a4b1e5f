"""Forward-backward and Viterbi along sequences of rows, in NumPy and in the log domain, without underflow."""

from __future__ import annotations

from collections.abc import Callable
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
        return Scan(past, future, around, self.likelihood[rows], self.first, self.steps).with_new_counts()

    def with_new_counts(self) -> Scan:
        """Return the same arrays of rows, with new arrays for their counts."""
        return Scan(*self[:4], np.zeros(self.first.shape), np.zeros(self.steps.shape))


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
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, weights: np.ndarray | None
) -> LogScan:
    """Run forward-backward in the log domain; all arguments are logarithms but `begins` and `weights`.

    Counts are those of sequences without an impossible row. Without weights only forward, `past` and `seen`.
    """
    rows, states = local.shape
    inner = np.flatnonzero(~begins)  # rows with one before
    ends = np.append(begins[1:], np.ones(min(1, rows), dtype=bool))
    past, future = np.tile(prior, (rows, 1)), np.zeros((rows, states))
    here = _sums_to_one(along_rows(prior, table, local, begins, log_sum))
    for some in _in_blocks(inner, states * states):
        past[some] = log_sum(_joint(here[some - 1], table), axis=0).T
    seen = log_sum(past + local, axis=1)
    number = np.cumsum(begins)
    lost = np.isin(number, number[np.isneginf(seen)])
    later = inner[lost[inner] & np.isneginf(seen[inner - 1])]  # rows after an impossible one
    past[later], seen[later] = 0.0, 0.0
    if weights is None:
        return LogScan(past, future, seen, np.zeros(states), np.zeros((states, states)))
    ahead = along_rows(np.zeros(states), table.T, local[::-1], ends[::-1], log_sum)[::-1]
    steps = np.zeros((states, states))
    for some in _in_blocks(inner[~lost[inner]], states * states):
        joint = table[:, :, None] + ahead[some].T
        future[some - 1] = log_sum(joint, axis=1).T
        joint += here[some - 1].T[:, None]
        joint -= log_sum(joint, axis=(0, 1))
        steps += np.exp(joint) @ weights[some - 1]
    future[~lost] -= future[~lost].max(axis=1, keepdims=True)
    at_first = begins & ~lost
    first = (weights[at_first, None] * distribution((past + local + future)[at_first])).sum(axis=0)
    return LogScan(past, future, seen, first, steps)


def best_path(
    prior: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable states of each sequence (Viterbi) and, at its first row, the log-weight of the path."""
    rows, states = local.shape
    path, weight = np.zeros(rows, dtype=np.int64), np.zeros(rows)
    if not rows:
        return path, weight
    best = along_rows(prior, table, local, begins, np.max)
    inner = np.flatnonzero(~begins)
    came = np.zeros((rows, states), dtype=np.int64)
    for some in _in_blocks(inner, states * states):
        came[some] = _joint(best[some - 1], table).argmax(axis=0).T
    likeliest, before, is_first = best.argmax(axis=1).tolist(), came.tolist(), [*begins.tolist(), True]
    state = 0
    for row in range(rows - 1, -1, -1):
        state = likeliest[row] if is_first[row + 1] else before[row + 1][state]
        path[row] = state
    steps = np.where(begins, prior[path], table[np.roll(path, 1), path]) + local[np.arange(rows), path]
    weight[begins] = np.add.reduceat(steps, np.flatnonzero(begins))
    return path, weight


def _joint(before: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the logarithms of messages times a table, (states, states, rows), with rows last for speed."""
    found: np.ndarray = np.ascontiguousarray(before.T)[:, None] + table[:, :, None]
    return found


Total = Callable[..., np.ndarray]
"""Sums or maximises logarithms over an axis: `log_sum`, or `numpy.max`."""

STEP_CELLS = 1500
"""Cells of a product of matrices that take as long as one more step of NumPy."""

MOST_CELLS = 2**24
"""Cells of all products of matrices that are made at once: 128 MB."""


def along_rows(first: np.ndarray, table: np.ndarray, local: np.ndarray, begins: np.ndarray, total: Total) -> np.ndarray:
    """Return the message of all rows up to each row, h, as logarithms whose largest is 0, (rows, states).

    h = first + local where a sequence begins, else h(k) = total over j of h(j) + table(j, k), plus local(k). From an
    impossible row to the end of its sequence all are -inf. The steps are products of matrices, and so may be taken in
    any order: row by row, all sequences at the same time, or by halves, in log2(rows) operations (Blelloch, 1990;
    Hassan, Särkkä and García-Fernández, 2021), whichever takes less.
    """
    rows, states = local.shape
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, rows))
    cells = rows * states**3
    if cells > MOST_CELLS or cells >= STEP_CELLS * int(lengths.max(initial=0)):
        return _side_by_side(first, table, local, starts, lengths, total)
    steps = table[:, :, None] + np.ascontiguousarray(local.T)  # rows last, for NumPy's loops
    steps[:, :, begins] = (first + local[starts]).T
    return np.ascontiguousarray(_by_halves(steps, begins, total).T)


def _side_by_side(
    first: np.ndarray, table: np.ndarray, local: np.ndarray, starts: np.ndarray, lengths: np.ndarray, total: Total
) -> np.ndarray:
    """Compute `along_rows` with one step of all sequences at a time."""
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    found = np.empty_like(local)
    now = found[starts] = _largest_is_zero(first + local[starts], 1)
    for step in range(1, int(lengths.max(initial=0))):
        going = int(np.count_nonzero(lengths > step))
        places = starts[:going] + step
        now = _largest_is_zero(total(now[:going, :, None] + table, axis=1) + local[places], 1)
        found[places] = now
    return found


def _by_halves(steps: np.ndarray, begins: np.ndarray, total: Total) -> np.ndarray:
    """Compute `along_rows` by recursive halving, from the matrix of each row, (states, states, rows).

    In the first row of a sequence all lines of the matrix are equal.
    """
    states, rows = steps.shape[1:]
    found = np.empty((states, rows))
    found[:, :1] = _largest_is_zero(steps[0, :, :1], 0)
    if rows > 1:
        even, odd, is_first = steps[:, :, 0 : rows - 1 : 2], steps[:, :, 1::2], begins[1::2]
        both = total(even[:, :, None] + odd[None], axis=1)
        both[:, :, is_first] = odd[:, :, is_first]
        found[:, 1::2] = _by_halves(_largest_is_zero(both, (0, 1)), begins[0 : rows - 1 : 2] | is_first, total)
    if rows > 2:
        rest, is_first = steps[:, :, 2::2], begins[2::2]
        one = total(found[:, None, 1 : rows - 1 : 2] + rest, axis=0)
        one[:, is_first] = rest[0][:, is_first]
        found[:, 2::2] = _largest_is_zero(one, 0)
    return found


def _largest_is_zero(logs: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Return logarithms minus the largest along an axis; where all are -inf they stay -inf."""
    top = logs.max(axis=axis, keepdims=True)
    top[np.isneginf(top)] = 0.0
    found: np.ndarray = logs - top
    return found


def _sums_to_one(logs: np.ndarray) -> np.ndarray:
    """Return rows of logarithms normalised to distributions; a row that is all -inf stays so."""
    scale = log_sum(logs, axis=1)
    scale[np.isneginf(scale)] = 0.0
    found: np.ndarray = logs - scale[:, None]
    return found


def _in_blocks(rows: np.ndarray, cells: int) -> list[np.ndarray]:
    """Return blocks of rows, given the number of cells in memory per row."""
    size = max(1, 2**20 // cells)
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def logarithm(values: np.ndarray) -> np.ndarray:
    """Return the logarithm, with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        out: np.ndarray = np.log(values)
    return out


def log_sum(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Return the log of the sum of exponentials along an axis; -inf where all are -inf."""
    top = values.max(axis=axis, keepdims=True)
    top[np.isneginf(top)] = 0.0
    away = values - top
    total: np.ndarray = logarithm(np.exp(away, out=away).sum(axis=axis))
    total += np.squeeze(top, axis=axis)
    return total


def distribution(log_weights: np.ndarray) -> np.ndarray:
    """Normalise rows of logarithms to distributions; a row that is all -inf becomes all zero."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights: np.ndarray = np.exp(log_weights - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)
