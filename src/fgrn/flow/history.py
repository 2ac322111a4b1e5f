"""The history of learning by epoch, and the training record that is kept with a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.arrays import frozen
from ..core.exceptions import shortened
from ..core.printing import bar, html_table
from ..tables.outputs import frame_of_records
from .em_settings import Rule


@dataclass(frozen=True, eq=False)
class History:
    """The history of the random start that was kept: log-likelihood per epoch, convergence, execution.

    log_likelihood  (epochs,): total over rows, of the parameters each epoch began with
    objective       (epochs,): the same with the logarithm of the smoothing's Dirichlet prior; never falls at K = 1
    weight          the total weight of the rows, so that log_likelihood / weight is per row
    converged       whether the tolerance was met before the epochs were used up, or all values were known, so that
                    counting them once was enough
    start           which random start was kept, and `starts` what they were compared by: the final objective of each
                    or, with held-out rows, the largest of its `validation`
    not_estimated   rows of tables, by the name of the table, that the data do not determine: no row of the data counts
                    for them, or only with a missing value. They keep their values from before learning, which are
                    uniform unless given or learnt before. A prior has row 0.
    validation      (epochs,): the mean log-likelihood of a row held out, of the parameters after each epoch; the best
                    of them were kept. Empty without such rows
    execution       how learning was executed, as text: engine, kernel, rows, threads
    row_counts      the expected count of each row of all tables in the last epoch, in the order of the parameters;
                    empty where it was not kept
    """

    log_likelihood: np.ndarray
    objective: np.ndarray
    weight: float
    converged: bool
    start: int = 0
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    not_estimated: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    execution: str = ""
    validation: np.ndarray = field(default_factory=lambda: np.zeros(0))
    row_counts: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)

    def __post_init__(self) -> None:
        for name in ("log_likelihood", "objective", "starts", "validation", "row_counts"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.float64))

    @property
    def epochs(self) -> int:
        """The number of epochs that were run."""
        return len(self.log_likelihood)

    @property
    def best_epoch(self) -> int | None:
        """The epoch, counted from 0, with the best held-out likelihood; None without held-out rows."""
        return int(np.argmax(self.validation)) if len(self.validation) else None

    @property
    def per_row(self) -> np.ndarray:
        """The mean log-likelihood per row, for each epoch."""
        return self.log_likelihood / self.weight if self.weight else self.log_likelihood

    def __repr__(self) -> str:
        if not self.epochs:
            return "History of no epochs"
        count = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        end = ", converged" if self.converged else ""
        shown = [self.log_likelihood[0], *self.log_likelihood[1:][-1:]]
        values = " ... ".join(f"{value:,.3f}" for value in shown)
        text = f"History of {count}{end}; log-likelihood at the start of each: {values}"
        if self.best_epoch is not None:
            best = self.validation[self.best_epoch]
            text += f"; best validation {best:,.4f} per row, after epoch {self.best_epoch + 1}"
        return f"{text}; {self.told_not_estimated}" if self.not_estimated else text

    def to_frame(self) -> Any:
        """Return the epochs as a pandas data frame: log-likelihood at the start, the same per row, and the objective.

        With held-out rows there is also their log-likelihood per row, after the epoch.
        """
        columns = {
            "log_likelihood": self.log_likelihood, "per_row": self.per_row, "objective": self.objective,
            **({"validation": self.validation} if len(self.validation) else {}),
        }  # fmt: skip
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return frame_of_records(
            [{"epoch": number + 1, **dict(zip(columns, row, strict=True))} for number, row in enumerate(rows)]
        )

    def _repr_html_(self) -> str:
        """Return an HTML table of the first epoch, the last and some between, with bars of the gain."""
        shown = sorted({round(place) for place in np.linspace(0, max(self.epochs - 1, 0), 8)}) if self.epochs else []
        low, high = (self.per_row.min(), self.per_row.max()) if self.epochs else (0.0, 0.0)
        rows = [
            [
                f"{epoch + 1:,}", f"{self.log_likelihood[epoch]:,.3f}", f"{self.per_row[epoch]:.4f}",
                bar((self.per_row[epoch] - low) / (high - low) if high > low else 1.0),
            ]
            for epoch in shown
        ]  # fmt: skip
        end = "converged" if self.converged else "not converged"
        start = f", start {self.start + 1} of {len(self.starts)}" if len(self.starts) > 1 else ""
        caption = "; ".join(filter(None, [f"Learning: {end}{start}", self.execution, self.told_not_estimated]))
        return html_table(caption, ["epoch", "log-likelihood at its start", "per row", ""], rows)

    @property
    def told_not_estimated(self) -> str:
        """Return a text that lists the tables that the data did not determine; empty if there are none."""
        if not self.not_estimated:
            return ""
        rows = sum(map(len, self.not_estimated.values()))
        names = [f"{name} ({len(some):,})" for name, some in self.not_estimated.items()]
        were = "1 row of a table was" if rows == 1 else f"{rows:,} rows of tables were"
        return (
            f"{were} not estimated, since the data say nothing of {'it' if rows == 1 else 'them'}: {shortened(names)}"
        )


def training_record(
    history: History, rows: int, rule: Rule, smoothing: float | Mapping[str, Any], holes: str, run: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a JSON-compatible record of one call of learn."""
    return {
        "rows": rows,
        "weight": float(history.weight),
        "epochs": history.epochs,
        "cycles": int(rule.cycles),
        "smoothing": {k: float(np.mean(v)) for k, v in smoothing.items()}
        if isinstance(smoothing, Mapping)
        else float(smoothing),
        "holes": holes,
        "seed": int(rule.seed),
        "starts": int(rule.starts),
        "accelerate": bool(rule.accelerate),
        **batches_record(rule),
        "log_likelihood": float(history.log_likelihood[-1]) if history.epochs else None,
        **_validation_record(history),
        "converged": bool(history.converged),
        "not_estimated": sum(map(len, history.not_estimated.values())),
        **run,
    }


def batches_record(rule: Rule) -> dict[str, Any]:
    """Return the record of mini-batch EM settings; empty without mini-batches."""
    if rule.batch_size is None:
        return {}
    return {"batch_size": int(rule.batch_size), "step": list(rule.step) if isinstance(rule.step, tuple) else rule.step}


def _validation_record(history: History) -> dict[str, Any]:
    """Return the record of the best held-out likelihood, if rows were held out; None if it is minus infinity."""
    if history.best_epoch is None:
        return {}
    best = float(history.validation[history.best_epoch])
    return {"validation": best if np.isfinite(best) else None}
