"""Reproduction of the results of the paper, beside the published figures.

`run()` learns the three tables of the paper with its settings and with better ones, counts multiplications and measures
memory; `print(run())` shows the results. The method:

- The first rows of a file are the training rows and the others the test rows, with several random initialisations; then
  random splits of the same sizes, with one initialisation each. Learning uses nothing of the test rows.
- The class is one more observed variable. Every value is a state of its own, numbers too.
- Missing values stay missing, and so do values that do not occur in the training rows.
- A row that a network without smoothing finds impossible is predicted as the most frequent class of the training rows.
- The number of hidden states, and whether numbers are put into bins, are chosen by cross-validation within the training
  rows: those with the highest likelihood of the true classes in held-out rows.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..core import settings
from ..graph.network import Network
from ..graph.structures import lvm
from ..tables.column_inference import MOST_NUMBERS
from ..tables.frames import Coded, states
from ..tables.schema import Schema
from . import datasets
from .paper_results import (
    CHOICES,
    CYCLES,
    FIGURES,
    FOLDS,
    HIDDEN,
    OTHERS,
    PAPER_BINS,
    PAPER_EPOCHS,
    RECOMMENDED,
    ROW_ORDERS,
    SLOW_STARTS,
    STARTS,
    UNTIL_CONVERGED,
    WAYS_OF_LEARNING,
    Memory,
    PaperRun,
    Results,
    Score,
    Sheet,
    Way,
)

__all__ = ["Memory", "PaperRun", "Results", "Score", "Sheet", "run"]

Watch: TypeAlias = Callable[[str, int, int], object]
"""Called with the next task, the number of tasks done, and their total."""


def run(
    *, folder: str | Path | None = None, splits: int = 20, quick: bool = False, watch: Watch | None = None
) -> Results:
    """Learn the tables of the paper in all ways, and compare the results with its figures.

    Args:
        folder: the folder of the files of the three tables; see `fgrn.showcase.datasets.load`.
        splits: the number of random splits of each table.
        quick: at most 3 splits and 2 initialisations, and slow methods only once, as a test.
        watch: called with the next task, the number of tasks done, and their total.
    """
    settings.whole("splits", splits, 1)
    began = time.perf_counter()
    tables = {name: _CodedTable.of(datasets.load(name, folder)) for name in FIGURES}
    counts = {"file": 2 if quick else STARTS, "random": min(splits, 3) if quick else splits}
    parts = [(name, order, number) for name in tables for order in ROW_ORDERS for number in range(counts[order])]
    runs: dict[tuple[str, str, str], list[PaperRun]] = {}
    tell: Watch = watch or (lambda *_: None)
    for done, (name, order, number) in enumerate(parts):
        tell(f"{name}, {'start' if order == 'file' else 'split'} {number + 1}", done, len(parts) + 1)
        for method, outcome in _outcomes(tables[name], FIGURES[name].learnt, order, number, quick):
            runs.setdefault((name, method, order), []).append(outcome)
    tell("multiplications and memory", len(parts), len(parts) + 1)
    memory = _measure_memory(tables["contraceptive"], [1000] if quick else [1000, 10_000])
    scores = tuple(Score(*key, tuple(found)) for key, found in runs.items())
    return Results(scores, _count_multiplications(), memory, time.perf_counter() - began)


# Accuracies


@dataclass(frozen=True, eq=False)
class _CodedTable:
    """A table as codes (rows, columns), the class last, and the values of columns with many distinct numbers."""

    states: Mapping[str, Sequence[Any]]
    codes: np.ndarray
    numbers: Mapping[int, Sequence[Any]]

    @classmethod
    def of(cls, table: datasets.Dataset) -> _CodedTable:
        columns = {**table.features, table.target: table.classes}
        found = states(columns)
        places = {name: {level: code for code, level in enumerate(levels)} for name, levels in found.items()}
        codes = [[places[name].get(value, -1) for value in column] for name, column in columns.items()]
        many = [at for at, name in enumerate(columns) if name not in table.levels and len(found[name]) > MOST_NUMBERS]
        return cls(found, np.array(codes).T, {at: list(columns.values())[at] for at in many})

    def as_seen(self, learnt: np.ndarray) -> _CodedTable:
        """Return the table in which values that do not occur in the training rows are missing."""
        codes = self.codes.copy()
        for column in codes[:, :-1].T:
            column[~np.isin(column, column[learnt])] = -1
        return _CodedTable(self.states, codes, self.numbers)

    def binned(self, learnt: np.ndarray) -> _CodedTable:
        """Return the table with columns of many numbers in bins, whose edges come from the training rows."""
        found, codes = dict(self.states), self.codes.copy()
        for at, values in self.numbers.items():
            name = list(self.states)[at]
            column = Schema.infer({name: [values[row] for row in learnt.tolist()]}, bins=PAPER_BINS)[name]
            found[name], codes[:, at] = list(column.levels), column.codes(values)[0]
        return _CodedTable(found, codes, {})

    def columns(self, rows: np.ndarray) -> dict[str, Coded]:
        return {name: Coded(self.codes[rows, at]) for at, name in enumerate(self.states)}


def _outcomes(table: _CodedTable, learnt: int, order: str, number: int, quick: bool) -> Iterator[tuple[str, PaperRun]]:
    """Yield the outcome of every way of learning, and of other methods, on one split."""
    rows = np.random.default_rng(number).permutation(len(table.codes))
    train, test = np.split(np.sort(rows) if order == "file" else rows, [learnt])
    table, chosen = table.as_seen(train), []
    for method, way in WAYS_OF_LEARNING.items():
        rarely = method == UNTIL_CONVERGED and (quick or order == "random" or number >= SLOW_STARTS)
        if not rarely and (table.numbers or not way.bins) and not (quick and number and way.cycles > 1):
            outcome = _run_once(table.binned(train) if way.bins else table, way, train, test, number)
            chosen += [] if way.hidden else [outcome]
            yield method, outcome
    if chosen:
        yield RECOMMENDED, max(chosen, key=lambda outcome: outcome.held_out)
    if not number or (order == "random" and not quick):  # these methods are deterministic
        yield from _other_methods(table, train, test)


def _run_once(table: _CodedTable, way: Way, train: np.ndarray, test: np.ndarray, seed: int) -> PaperRun:
    held_out, hidden = (0.0, way.hidden) if way.hidden else _choose_hidden(table, way, train, seed)
    net = _learn_lvm(table, way, hidden, train, seed)
    commonest = np.bincount(table.codes[train, -1]).argmax()
    shares, marked = [], np.zeros(0)
    for rows in (train, test):
        belief, marked = _class_posteriors(net, table, rows)
        found = np.where(marked, commonest, belief.argmax(axis=1))
        shares.append(100 * float(np.mean(found == table.codes[rows, -1])))
    return PaperRun(shares[0], shares[1], int(marked.sum()), hidden, way.bins, held_out)


def _learn_lvm(table: _CodedTable, way: Way, hidden: int, rows: np.ndarray, seed: int) -> Network:
    net = lvm(table.states, hidden, learn_prior=False)
    net.learn(
        table.columns(rows), PAPER_EPOCHS, way.cycles, way.smoothing, seed=seed,
        cycle_tolerance=way.cycle_tolerance, engine="cpu",
    )  # fmt: skip
    return net


def _class_posteriors(net: Network, table: _CodedTable, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the class distribution of each row given the other columns, and which rows are impossible."""
    known = table.columns(rows)
    target, _ = known.popitem()
    found = net.propagate(known, keep=[target], parts=["marginal"], impossible="mark", engine="cpu")
    return found.marginal(target), found.impossible


def _choose_hidden(table: _CodedTable, way: Way, rows: np.ndarray, seed: int) -> tuple[float, int]:
    """Return the best log-likelihood of the classes of held-out rows, and the number of hidden states for it."""
    folds = np.array_split(np.random.default_rng([seed, FOLDS]).permutation(rows), FOLDS)

    def score(hidden: int) -> float:
        total = 0.0
        for back in folds:
            net = _learn_lvm(table, way, hidden, np.setdiff1d(rows, back), seed)
            belief, _ = _class_posteriors(net, table, back)
            total += float(np.log(belief[np.arange(len(back)), table.codes[back, -1]]).sum())
        return total

    return max((score(hidden), hidden) for hidden in CHOICES)


def _other_methods(table: _CodedTable, train: np.ndarray, test: np.ndarray) -> Iterator[tuple[str, PaperRun]]:
    """Yield the outcomes of methods of scikit-learn on the same rows, if it is installed."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import CategoricalNB
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return
    levels, classes = table.codes[:, :-1] + 1, table.codes[:, -1]  # 0 for missing values
    numbers = np.where(levels > 0, levels, np.nan)
    words = [any(isinstance(level, str) for level in found) for found in list(table.states.values())[:-1]]
    methods = (
        (CategoricalNB(min_categories=levels.max(axis=0) + 1), levels),
        (make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000)), levels),
        (HistGradientBoostingClassifier(categorical_features=words, random_state=0), numbers),
    )
    for name, (method, values) in zip(OTHERS, methods, strict=True):
        with threadpool_limits(1):  # with so few rows threads only wait for each other
            method.fit(values[train], classes[train])
            shares = [100 * float(method.score(values[rows], classes[rows])) for rows in (train, test)]
        yield name, PaperRun(shares[0], shares[1])


# Costs


def _count_multiplications() -> dict[str, int]:
    net = lvm({f"Y{number}": 2 for number in range(10)}, hidden=10)
    row = {name: [0] for name in net.observed}
    return {"optimised": net.multiplications(row), "direct": net.multiplications(row, direct=True)}


def _measure_memory(table: _CodedTable, sizes: Sequence[int]) -> tuple[Memory, ...]:
    """Return the peak memory of learning for several numbers of rows drawn from a table."""

    def learn(rows: np.ndarray, cycles: int, hold: bool) -> None:
        net = lvm(table.states, HIDDEN, learn_prior=False)
        net.learn(table.columns(rows), 2, cycles, hold=hold, engine="cpu", threads=1, merge=False)

    width = sum(HIDDEN + len(levels) for levels in table.states.values())
    found = []
    for size in sizes:
        rows = np.random.default_rng(0).integers(len(table.codes), size=size)
        peaks = [_peak_memory(partial(learn, rows, *way)) for way in ((1, True), (CYCLES, True), (CYCLES, False))]
        found.append(Memory(size, peaks[0], peaks[1], peaks[2], 8 * size * width))
    return tuple(found)


def _peak_memory(work: Callable[[], None]) -> int:
    """Return the peak memory of a task in bytes, beyond what was in use before."""
    work()  # first without measuring, to exclude what is allocated once, such as compiled kernels
    watched = tracemalloc.is_tracing()
    tracemalloc.start()  # has no effect if it is already started
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not watched:
            tracemalloc.stop()
