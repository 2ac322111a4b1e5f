"""The results of the reproduction of the paper: scores of methods, beside published figures, and tables of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..tables.column_inference import MOST_NUMBERS

HIDDEN, PAPER_EPOCHS, CYCLES, MOST_CYCLES, CONVERGED = 20, 20, 5, 10, 1e-3
SMOOTHING, PAPER_BINS, CHOICES, FOLDS = 1.0, 6, (2, 4, 8, 12, 20), 3
STARTS, SLOW_STARTS = 5, 2
ROW_ORDERS = {"file": "in the order of the file", "random": "over random splits"}


class Figures(NamedTuple):
    """The published accuracies for a table, in percent; batch first, then incremental."""

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
    cycle_tolerance: float = 1e-10


BATCH, UNTIL_CONVERGED, INCREMENTAL = f"batch, {CYCLES} cycles", "batch, cycles until converged", "incremental"
SMOOTH = f"smoothing {SMOOTHING:g}"
CHOSEN, BINNED, RECOMMENDED = f"{SMOOTH}, states chosen", f"{SMOOTH}, states chosen, numbers in bins", "recommended"
WAYS_OF_LEARNING = {
    BATCH: Way(CYCLES),
    UNTIL_CONVERGED: Way(MOST_CYCLES, cycle_tolerance=CONVERGED),
    INCREMENTAL: Way(),
    f"{BATCH}, {SMOOTH}": Way(CYCLES, SMOOTHING),
    f"{INCREMENTAL}, {SMOOTH}": Way(smoothing=SMOOTHING),
    CHOSEN: Way(smoothing=SMOOTHING, hidden=None),
    BINNED: Way(smoothing=SMOOTHING, hidden=None, bins=PAPER_BINS),
}
PAPER_COLUMN = {BATCH: 0, UNTIL_CONVERGED: 0, INCREMENTAL: 1}
"""Which of the two figures of the paper is compared with each way."""
OPERATIONS = {"optimised": 670, "direct": 1500}
OTHERS = ("CategoricalNB", "LogisticRegression", "HistGradientBoosting")


class PaperRun(NamedTuple):
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
    runs: tuple[PaperRun, ...] = ()

    def mean(self, part: str = "test") -> float:
        """Return the mean over the runs of "test" or another field of a run."""
        return float(np.mean([getattr(run, part) for run in self.runs]))

    def spread(self, part: str = "test") -> float:
        """Return the standard deviation over the runs; 0 for a single one."""
        return float(np.std([getattr(run, part) for run in self.runs], ddof=1)) if len(self.runs) > 1 else 0.0

    def verdict(self, figure: float) -> str:
        """Return how a published test figure compares: "beaten", "within two spreads" of the mean, or "not reached"."""
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
    operations: Mapping[str, int]
    memory: tuple[Memory, ...]
    seconds: float

    def score(self, table: str, method: str, order: str) -> Score | None:
        """Return the runs of a method on a table in the order "file" or "random"; None if there are none."""
        return next((s for s in self.scores if (s.table, s.method, s.order) == (table, method, order)), None)

    @property
    def verdicts(self) -> list[str]:
        """Return how every published test figure compares with the same method, and with the recommended one."""
        lines = []
        for table, figures in FIGURES.items():
            for method in (BATCH, INCREMENTAL, RECOMMENDED):
                beside = PAPER_COLUMN.get(method)
                figure = max(figures.test) if beside is None else figures.test[beside]
                both = [score for order in ROW_ORDERS if (score := self.score(table, method, order))]
                compared = [f"{score.verdict(figure)} {ROW_ORDERS[score.order]} ({score.shown()})" for score in both]
                lines.append(f"- {table}, {method}: the paper's {figure} is {' and '.join(compared)}.")
        return lines

    def sheets(self) -> Iterator[Sheet]:
        """Yield all tables of results."""
        yield self._accuracies(
            f"Accuracy in percent as in the paper: {HIDDEN} hidden states, {PAPER_EPOCHS} epochs, hidden prior not "
            "learnt",
            list(PAPER_COLUMN),
            "Mean ± standard deviation over the runs; impossible: the mean number of test rows of probability zero. "
            "The paper does not give its number of cycles; converged means that no table changes by more than "
            f"{CONVERGED:g}, after {MOST_CYCLES} cycles at most.",
        )
        yield self._accuracies(
            "Accuracy in percent with better settings, and of other methods, beside the better figure of the paper",
            [*(way for way in WAYS_OF_LEARNING if way not in PAPER_COLUMN), RECOMMENDED, *OTHERS],
            f"Smoothing: the count added to each cell. States: {', '.join(map(str, CHOICES[:-1]))} or {CHOICES[-1]}, "
            f"chosen in each run by {FOLDS}-fold cross-validation of the training rows, by the probability of the true "
            f"class. Bins (b): columns of more than {MOST_NUMBERS} distinct numbers, in {PAPER_BINS} bins with about "
            "the same number of training rows. Recommended: with or without bins, whichever is better in the same "
            "cross-validation. The methods of scikit-learn have their default settings; LogisticRegression has one-hot "
            "columns, and for it and CategoricalNB a missing value is one more level.",
        )
        spread = "A spread is the standard deviation over the runs."
        yield Sheet("The test figures of the paper", [], [], "\n".join([*self.verdicts, "", spread]))
        yield Sheet(
            "Multiplications of one inference: 10 binary outputs, one hidden variable of 10 states",
            ["scheme", "counted", "paper"],
            [[scheme, str(count), str(OPERATIONS[scheme])] for scheme, count in self.operations.items()],
            "By the text of the paper, a Diverter of M variables takes M(M-2) products of messages in the direct "
            "scheme; its figure of 1500 is that of M(M-1).",
        )
        yield Sheet(
            "Peak memory while learning the contraceptive table, in kB",
            ["rows", "incremental", "batch", "batch, messages recomputed", "messages of batch, by the paper"],
            [[f"{one.rows:,}", *(f"{n / 1000:,.0f}" for n in one[1:])] for one in self.memory],
            "The peak that tracemalloc reports, on one thread; the rows are drawn from the table and not merged. "
            "Recomputed messages: hold=False.",
        )

    def __str__(self) -> str:
        return "\n\n\n".join(map(str, self.sheets())) + f"\n\n\nMade in {self.seconds:.0f} s."

    def as_markdown(self) -> str:
        """Return all tables in Markdown."""
        return "\n\n".join(sheet.as_markdown() for sheet in self.sheets()) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return lists, mappings and numbers, for JSON."""
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
        heads = [f"{part}, {what}" for part in ("train", "test") for what in ("file order", "random", "paper")]
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
