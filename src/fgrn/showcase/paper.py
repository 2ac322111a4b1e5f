"""Reproduction of the results of the paper, compared with its figures.

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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core import settings
from ..graph.network import Network
from ..graph.structures import lvm
from ..tables.frames import Coded, states
from ..tables.schema import MOST_NUMBERS, Schema
from . import datasets

HIDDEN, EPOCHS, CYCLES, MOST_CYCLES, CONVERGED = 20, 20, 5, 10, 1e-3
SMOOTHING, BINS, CHOICES, FOLDS = 1.0, 6, (2, 4, 8, 12, 20), 3
STARTS, SLOW_STARTS = 5, 2
ROW_ORDERS = {"file": "by file order", "random": "over random splits"}

Watch: TypeAlias = Callable[[str, int, int], object]
"""Called with the next task, the number of tasks done, and their total."""


class Figures(NamedTuple):
    """The accuracies of a table in the paper, in percent; batch first, then incremental."""

    learnt: int
    tested: int
    train: tuple[float, float]
    test: tuple[float, float]


FIGURES = {
    "breast-cancer": Figures(500, 199, (96.6, 96.2), (95.48, 97.99)),
    "mammographic": Figures(800, 161, (86.62, 85.88), (79.5, 78.88)),
    "contraceptive": Figures(1000, 473, (58.1, 58.9), (49.89, 50.52)),
}
"""The sizes of the splits are not in the paper: they are those for which all its percentages are exact fractions."""


class Way(NamedTuple):
    """Settings of learning: hidden=None chooses the number of states, bins=0 keeps numbers as they are."""

    cycles: int = 1
    smoothing: float = 0.0
    hidden: int | None = HIDDEN
    bins: int = 0
    rest: float = 1e-10


BATCH, REST, INCREMENTAL = f"batch, {CYCLES} cycles", "batch, cycles until converged", "incremental"
SMOOTH = f"smoothing {SMOOTHING:g}"
CHOSEN, BINNED, RECOMMENDED = f"{SMOOTH}, states chosen", f"{SMOOTH}, states chosen, numbers in bins", "recommended"
WAYS_OF_LEARNING = {
    BATCH: Way(CYCLES),
    REST: Way(MOST_CYCLES, rest=CONVERGED),
    INCREMENTAL: Way(),
    f"{BATCH}, {SMOOTH}": Way(CYCLES, SMOOTHING),
    f"{INCREMENTAL}, {SMOOTH}": Way(smoothing=SMOOTHING),
    CHOSEN: Way(smoothing=SMOOTHING, hidden=None),
    BINNED: Way(smoothing=SMOOTHING, hidden=None, bins=BINS),
}
PAPER_COLUMN = {BATCH: 0, REST: 0, INCREMENTAL: 1}
"""Which of the two figures of the paper is compared with each way."""
OPERATIONS = {"optimised": 670, "direct": 1500}
OTHERS = ("CategoricalNB", "LogisticRegression", "HistGradientBoosting")


class Outcome(NamedTuple):
    """One run: training and test accuracy in percent, impossible test rows, and the choices by cross-validation."""

    train: float
    test: float
    impossible: int = 0
    hidden: int = 0
    bins: int = 0
    held_out: float = 0.0


@dataclass(frozen=True)
class Score:
    """The runs of one method on one table, with rows in the order "file" or "random"."""

    table: str
    method: str
    order: str
    runs: list[Outcome] = field(default_factory=list)

    def mean(self, part: str = "test") -> float:
        """Return the mean over the runs of "test" or another field of an Outcome."""
        return float(np.mean([getattr(run, part) for run in self.runs]))

    def spread(self, part: str = "test") -> float:
        """Return the standard deviation over the runs; 0 for a single one."""
        return float(np.std([getattr(run, part) for run in self.runs], ddof=1)) if len(self.runs) > 1 else 0.0

    def verdict(self, figure: float) -> str:
        """Return how a figure on test rows compares: "beaten", "within two spreads" of the mean, or "not reached"."""
        near = figure <= self.mean() + 2 * self.spread()
        return "beaten" if self.mean() > figure else "within two spreads" if near else "not reached"

    def shown(self, part: str = "test") -> str:
        """Return mean and standard deviation as text."""
        return f"{self.mean(part):.1f}" + (f" ± {self.spread(part):.1f}" if len(self.runs) > 1 else "")


class Memory(NamedTuple):
    """Peak memory of learning in bytes, beyond what was in use before.

    `messages` is the memory that batch learning adds according to the paper: both messages at every SISO block for
    every row.
    """

    rows: int
    incremental: int
    batch: int
    batch_again: int
    messages: int


class Sheet(NamedTuple):
    """A table of results with a title and a note."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    note: str

    def __str__(self) -> str:
        wide = [max(len(line[k]) for line in (self.heads, *self.lines)) for k in range(len(self.heads))]
        rows = [self.heads, ["-" * width for width in wide], *self.lines]
        text = ["  ".join(f"{c:{w}}" for c, w in zip(row, wide, strict=True)).rstrip() for row in rows]
        return "\n".join([self.title, "", *([*text, ""] if wide else []), self.note])

    def as_markdown(self) -> str:
        """Return the table in Markdown."""
        rows = [f"| {' | '.join(row)} |" for row in (self.heads, ["---"] * len(self.heads), *self.lines)]
        return "\n".join([f"## {self.title}", "", *([*rows, ""] if self.heads else []), self.note])


@dataclass(frozen=True)
class Results:
    """The results of `run`; `str` and `as_markdown` show them, `as_dict` is for programs."""

    scores: tuple[Score, ...]
    operations: dict[str, int]
    memory: tuple[Memory, ...]
    seconds: float

    def score(self, table: str, method: str, order: str) -> Score | None:
        """Return the runs of a method on a table in the order "file" or "random"; None if there are none."""
        return next((s for s in self.scores if (s.table, s.method, s.order) == (table, method, order)), None)

    @property
    def verdicts(self) -> list[str]:
        """How every test figure of the paper compares with the same method, and with the recommended one."""
        lines = []
        for table, figures in FIGURES.items():
            for method in (BATCH, INCREMENTAL, RECOMMENDED):
                beside = PAPER_COLUMN.get(method)
                figure = max(figures.test) if beside is None else figures.test[beside]
                both = [score for order in ROW_ORDERS if (score := self.score(table, method, order))]
                told = [f"{score.verdict(figure)} {ROW_ORDERS[score.order]} ({score.shown()})" for score in both]
                lines.append(f"- {table}, {method}: the paper's {figure} is {' and '.join(told)}.")
        return lines

    def sheets(self) -> Iterator[Sheet]:
        """Yield all tables of results."""
        yield self._accuracies(
            f"Accuracy in percent as in the paper: {HIDDEN} hidden states, {EPOCHS} epochs, hidden prior not learnt",
            list(PAPER_COLUMN),
            "Mean ± standard deviation of runs, and test rows of probability zero in the mean. The paper does not say "
            f"how many cycles it had; converged: no table changes by over {CONVERGED:g}, after {MOST_CYCLES} at most.",
        )
        yield self._accuracies(
            "Accuracy in percent with better settings, and of other methods, beside the better figure of the paper",
            [*(way for way in WAYS_OF_LEARNING if way not in PAPER_COLUMN), RECOMMENDED, *OTHERS],
            f"Smoothing: counts per cell. States: {', '.join(map(str, CHOICES[:-1]))} or {CHOICES[-1]}, chosen in each "
            f"run by {FOLDS}-fold cross-validation among the rows learnt, by the probability of the true class. Bins "
            f"(b): columns of over {MOST_NUMBERS} numbers, in {BINS} bins of about as many learnt rows. Recommended: "
            "in bins or not, as the same cross-validation has it. The methods of scikit-learn are as they come, the "
            "second on one-hot columns; unknown is a level to the first two.",
        )
        yield Sheet("The test figures of the paper", [], [], "\n".join(self.verdicts))
        yield Sheet(
            "Multiplications of one inference: 10 binary outputs, one hidden variable of 10 states",
            ["scheme", "counted", "paper"],
            [[scheme, str(count), str(OPERATIONS[scheme])] for scheme, count in self.operations.items()],
            "Direct, a Diverter of M variables has M(M-2) products of messages by the paper's text; 1500 is M(M-1).",
        )
        yield Sheet(
            "Most memory in use while learning the contraceptive table, in kB",
            ["rows", "incremental", "batch", "batch, messages made again", "messages of batch, by the paper"],
            [[f"{one.rows:,}", *(f"{n / 1000:,.0f}" for n in one[1:])] for one in self.memory],
            "Peak that tracemalloc sees, on one thread; rows drawn from the table, not merged. Made again: hold=False.",
        )

    def __str__(self) -> str:
        return "\n\n\n".join(map(str, self.sheets())) + f"\n\n\nMade in {self.seconds:.0f} s."

    def as_markdown(self) -> str:
        """Return all tables in Markdown."""
        return "\n\n".join(sheet.as_markdown() for sheet in self.sheets()) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return lists, mappings and numbers, as JSON takes them."""
        return {
            "paper": {table: figures._asdict() for table, figures in FIGURES.items()},
            "scores": [
                {
                    **vars(score),
                    "runs": [run._asdict() for run in score.runs],
                    **{f"{part}_mean": score.mean(part) for part in ("train", "test")},
                    **{f"{part}_spread": score.spread(part) for part in ("train", "test")},
                }
                for score in self.scores
            ],
            "verdicts": self.verdicts,
            "multiplications": dict(self.operations),
            "memory": [one._asdict() for one in self.memory],
            "seconds": self.seconds,
        }

    def _accuracies(self, title: str, methods: Sequence[str], note: str) -> Sheet:
        alike = methods[0] in PAPER_COLUMN
        heads = [f"{part} {what}" for part in ("train", "test") for what in ("by file", "random", "paper")]
        lines = []
        for table, figures in FIGURES.items():
            for method in methods:
                both = [self.score(table, method, order) for order in ROW_ORDERS]
                if not any(both):
                    continue
                cells = [table, method]
                for part, figure in (("train", figures.train), ("test", figures.test)):
                    cells += [score.shown(part) if score else "" for score in both]
                    cells.append(f"{figure[PAPER_COLUMN[method]] if alike else max(figure):g}")
                runs = [run for score in both if score for run in score.runs]
                sizes = sorted(Counter((run.hidden, bool(run.bins)) for run in runs if run.hidden).items())
                chosen = ", ".join(f"{count} × {size}{'b' * binned}" for (size, binned), count in sizes)
                lines.append([*cells, f"{np.mean([run.impossible for run in runs]):.1f}" if alike else chosen])
        return Sheet(title, ["table", "method", *heads, "impossible" if alike else "runs × states"], lines, note)


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
    scores: dict[tuple[str, str, str], Score] = {}
    tell: Watch = watch or (lambda *_: None)
    for done, (name, order, number) in enumerate(parts):
        tell(f"{name}, {'start' if order == 'file' else 'split'} {number + 1}", done, len(parts) + 1)
        for method, outcome in _outcomes(tables[name], FIGURES[name].learnt, order, number, quick):
            scores.setdefault((name, method, order), Score(name, method, order)).runs.append(outcome)
    tell("multiplications and memory", len(parts), len(parts) + 1)
    memory = _measure_memory(tables["contraceptive"], [1000] if quick else [1000, 10_000])
    return Results(tuple(scores.values()), _count_multiplications(), memory, time.perf_counter() - began)


# Accuracies


@dataclass(frozen=True, eq=False)
class _CodedTable:
    """A table as codes (rows, columns), the class last, and the values of columns with many distinct numbers."""

    states: dict[str, list[Any]]
    codes: np.ndarray
    numbers: dict[int, list[Any]]

    @classmethod
    def of(cls, table: datasets.Dataset) -> _CodedTable:
        columns = {**table.features, table.target: table.classes}
        found = states(columns)
        places = {name: {level: code for code, level in enumerate(levels)} for name, levels in found.items()}
        codes = [[places[name].get(value, -1) for value in column] for name, column in columns.items()]
        many = [at for at, name in enumerate(columns) if name not in table.levels and len(found[name]) > MOST_NUMBERS]
        return cls(found, np.array(codes).T, {at: list(columns.values())[at] for at in many})

    def as_seen(self, learnt: np.ndarray) -> _CodedTable:
        """Return the table with values missing that do not occur in the training rows."""
        codes = self.codes.copy()
        for column in codes[:, :-1].T:
            column[~np.isin(column, column[learnt])] = -1
        return _CodedTable(self.states, codes, self.numbers)

    def binned(self, learnt: np.ndarray) -> _CodedTable:
        """Return the table with columns of many numbers in bins, whose edges come from the training rows."""
        found, codes = dict(self.states), self.codes.copy()
        for at, values in self.numbers.items():
            name = list(self.states)[at]
            column = Schema.infer({name: [values[row] for row in learnt.tolist()]}, bins=BINS)[name]
            found[name], codes[:, at] = list(column.levels), column.codes(values)[0]
        return _CodedTable(found, codes, {})

    def columns(self, rows: np.ndarray) -> dict[str, Coded]:
        return {name: Coded(self.codes[rows, at]) for at, name in enumerate(self.states)}


def _outcomes(table: _CodedTable, learnt: int, order: str, number: int, quick: bool) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of every way of learning, and of other methods, on one split."""
    rows = np.random.default_rng(number).permutation(len(table.codes))
    train, test = np.split(np.sort(rows) if order == "file" else rows, [learnt])
    table, chosen = table.as_seen(train), []
    for method, way in WAYS_OF_LEARNING.items():
        rarely = method == REST and (quick or order == "random" or number >= SLOW_STARTS)
        if not rarely and (table.numbers or not way.bins) and not (quick and number and way.cycles > 1):
            outcome = _run_once(table.binned(train) if way.bins else table, way, train, test, number)
            chosen += [] if way.hidden else [outcome]
            yield method, outcome
    if chosen:
        yield RECOMMENDED, max(chosen, key=lambda outcome: outcome.held_out)
    if not number or (order == "random" and not quick):  # these methods are deterministic
        yield from _other_methods(table, train, test)


def _run_once(table: _CodedTable, way: Way, train: np.ndarray, test: np.ndarray, seed: int) -> Outcome:
    held_out, hidden = (0.0, way.hidden) if way.hidden else _choose_hidden(table, way, train, seed)
    net = _learn_lvm(table, way, hidden, train, seed)
    commonest = np.bincount(table.codes[train, -1]).argmax()
    shares, marked = [], np.zeros(0)
    for rows in (train, test):
        belief, marked = _class_posteriors(net, table, rows)
        found = np.where(marked, commonest, belief.argmax(axis=1))
        shares.append(100 * float(np.mean(found == table.codes[rows, -1])))
    return Outcome(shares[0], shares[1], int(marked.sum()), hidden, way.bins, held_out)


def _learn_lvm(table: _CodedTable, way: Way, hidden: int, rows: np.ndarray, seed: int) -> Network:
    net = lvm(table.states, hidden, learn_prior=False)
    net.learn(table.columns(rows), EPOCHS, way.cycles, way.smoothing, seed=seed, cycle_tolerance=way.rest, engine="cpu")
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


def _other_methods(table: _CodedTable, train: np.ndarray, test: np.ndarray) -> Iterator[tuple[str, Outcome]]:
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
        yield name, Outcome(shares[0], shares[1])


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
