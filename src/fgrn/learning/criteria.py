"""Criteria for the number of hidden states: AIC, BIC, held-out likelihood, relative entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..core.printing import html_table, wrapped
from ..tables.outputs import frame_of_records

HELD_OUT = 5
"""One row in this many is held out, where the number of hidden states is chosen by rows that were not learnt from."""

EQUAL = 0.005
"""The relative gain in log-loss that a classifier needs over an earlier, smaller one."""

PATIENCE = 3
"""Sizes without an improvement after which no more are tried."""


def aic(log_likelihood: float, parameters: int) -> float:
    """Return Akaike's criterion (AIC), 2 k - 2 log L; smaller is better."""
    return 2 * parameters - 2 * log_likelihood


def bic(log_likelihood: float, parameters: int, rows: float) -> float:
    """Return the Bayesian criterion of Schwarz (BIC), k log n - 2 log L; smaller is better."""
    return parameters * float(np.log(max(rows, 1))) - 2 * log_likelihood


def caic(log_likelihood: float, parameters: int, rows: float) -> float:
    """Return the consistent AIC of Bozdogan (1987), k (log n + 1) - 2 log L; smaller is better."""
    return bic(log_likelihood, parameters, rows) + parameters


def sabic(log_likelihood: float, parameters: int, rows: float) -> float:
    """Return the sample-size-adjusted BIC of Sclove (1987), k log((n + 2) / 24) - 2 log L; smaller is better."""
    return parameters * float(np.log((rows + 2) / 24)) - 2 * log_likelihood


def relative_entropy(posterior: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return 1 - entropy / log(states): 1 if each row belongs to one state for certain, 0 if nothing is known."""
    rows = len(posterior)
    return Fit.of(np.zeros(rows), posterior, np.ones(rows) if weights is None else weights).relative_entropy


@dataclass(frozen=True, eq=False)
class Fit:
    """The fit of a model with one hidden variable to some rows; the sum of two is the fit to both sets of rows."""

    log_likelihood: float
    weight: float
    entropy: float
    """The entropy of the hidden state, in nats, summed over all rows."""
    sizes: np.ndarray
    """The weight of the rows in each hidden state."""

    @classmethod
    def of(cls, log_likelihood: np.ndarray, posterior: np.ndarray, weights: np.ndarray) -> Fit:
        """Return the fit from each row's log-likelihood, posterior of the hidden states (rows, states), and weight."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(posterior > 0, -posterior * np.log(posterior), 0.0).sum(axis=1)
        return cls(float(weights @ log_likelihood), float(weights.sum()), float(weights @ terms), weights @ posterior)

    def __add__(self, other: Fit) -> Fit:
        return Fit(
            self.log_likelihood + other.log_likelihood,
            self.weight + other.weight,
            self.entropy + other.entropy,
            self.sizes + other.sizes,
        )

    @property
    def relative_entropy(self) -> float:
        """The relative entropy of the rows; see the function of that name."""
        states = len(self.sizes)
        return 1.0 if states == 1 else float(1 - self.entropy / self.weight / np.log(states))


def all_criteria(log_likelihood: float, parameters: int, rows: float) -> dict[str, float]:
    """Return the information criteria by name; smaller is better."""
    return {
        "AIC": aic(log_likelihood, parameters),
        "BIC": bic(log_likelihood, parameters, rows),
        "CAIC": caic(log_likelihood, parameters, rows),
        "SABIC": sabic(log_likelihood, parameters, rows),
    }


@dataclass(frozen=True)
class Candidate:
    """One number of hidden states that was tried, with its criteria."""

    n_hidden: int
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float
    held_out: float
    """The held-out log-likelihood per row; NaN if no rows were held out."""
    relative_entropy: float
    class_sizes: tuple[float, ...]
    weight: float = np.nan
    """The weight of the training rows; NaN if it is not known, and then there is no SABIC."""

    @property
    def caic(self) -> float:
        """The consistent AIC of Bozdogan (1987): BIC plus 1 for every parameter."""
        return self.bic + self.n_parameters

    @property
    def sabic(self) -> float:
        """The sample-size-adjusted BIC of Sclove (1987)."""
        return sabic(self.log_likelihood, self.n_parameters, self.weight)

    @classmethod
    def of(cls, fit: Fit, parameters: int, held_out: float = np.nan) -> Candidate:
        """Return a candidate from its fit to the rows it was learnt from."""
        return cls(
            n_hidden=len(fit.sizes),
            log_likelihood=fit.log_likelihood,
            n_parameters=parameters,
            aic=aic(fit.log_likelihood, parameters),
            bic=bic(fit.log_likelihood, parameters, fit.weight),
            held_out=held_out,
            relative_entropy=fit.relative_entropy,
            class_sizes=tuple((fit.sizes / fit.weight).tolist()),
            weight=fit.weight,
        )


NAMES_OF_CRITERIA = {"aic": "AIC", "bic": "BIC", "caic": "CAIC", "sabic": "SABIC", "held_out": "held out"}
"""The title of the column of each criterion that may decide."""


@dataclass(frozen=True, repr=False)
class Selection:
    """The candidates that were tried, and the criterion by which the best is chosen."""

    criterion: str
    candidates: tuple[Candidate, ...] = field(default=())

    @property
    def best(self) -> Candidate:
        """The candidate that was chosen."""
        if self.criterion == "held_out":
            return max(self.candidates, key=lambda one: one.held_out)
        return min(self.candidates, key=lambda one: float(getattr(one, self.criterion)))

    def as_dicts(self) -> list[dict[str, object]]:
        """Return one mapping per candidate, for a frame or JSON; None for held-out values without held-out rows."""
        records = [asdict(one) | {"caic": one.caic, "sabic": one.sabic} for one in self.candidates]
        return [record | ({"held_out": None} if np.isnan(record["held_out"]) else {}) for record in records]

    def to_frame(self) -> Any:
        """Return the candidates as a pandas data frame, one row each."""
        return frame_of_records(self.as_dicts())

    @property
    def _has_held_out(self) -> bool:
        """Whether rows were held out."""
        return not all(np.isnan(one.held_out) for one in self.candidates)

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["hidden", "log-likelihood", "parameters", "AIC", "BIC", "CAIC", "SABIC"]
        heads += [*(["held out"] if self._has_held_out else []), "rel. entropy", "smallest class", ""]
        mark = f"<- best {NAMES_OF_CRITERIA[self.criterion]}"
        rows = [
            [
                f"{one.n_hidden}", f"{one.log_likelihood:,.1f}", f"{one.n_parameters:,}", f"{one.aic:,.1f}",
                f"{one.bic:,.1f}", f"{one.caic:,.1f}", "-" if np.isnan(one.sabic) else f"{one.sabic:,.1f}",
                *([f"{one.held_out:.4f}"] if self._has_held_out else []), f"{one.relative_entropy:.3f}",
                f"{min(one.class_sizes):.1%}", mark if one is self.best else "",
            ]
            for one in self.candidates
        ]  # fmt: skip
        return heads, rows

    def __str__(self) -> str:
        text = _text_table(*self._rows())
        if self._has_held_out:
            share = 1 - 1 / HELD_OUT
            note = (
                f"log-likelihood and criteria: of the {share:.0%} of the rows that were learnt from; held out: the "
                "log-likelihood of a row of the others"
            )
            text += f"\n{wrapped(note)}"
        return text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table("Numbers of hidden states that were tried", *self._rows())


@dataclass(frozen=True)
class ClassCandidate:
    """One classifier that was tried, and its performance on held-out rows."""

    structure: str
    size: int
    """The number of hidden states of each class or, if they are shared, in all."""
    n_hidden: int
    """The total number of states of the hidden variable, over all classes."""
    towards: str
    """The reference of the penalty on refined tables, "independence" or "fit"; "" if they were not refined."""
    strength: float
    """The strength of that penalty."""
    log_loss: float
    """The mean over held-out rows of -log P(class of the row)."""
    error: float
    """The standard error of that mean."""
    n_parameters: int
    temperature: float = 1.0
    """The temperature at which it was evaluated: its probabilities were raised to the power 1 / temperature."""


@dataclass(frozen=True, repr=False)
class ClassSelection:
    """The classifiers that were tried, and the one that was chosen by the least log-loss."""

    candidates: tuple[ClassCandidate, ...] = field(default=())
    criterion: str = "log_loss"
    dropped: int = 0
    """The number of further candidates that were dropped, being clearly worse on the first held-out rows."""
    unfinished: tuple[str, ...] = ()
    """The structures whose candidates could not all be tried within the budget (`max_seconds`)."""
    temperature: float = 1.0
    """The temperature that calibrates the best candidate: the joint distribution is raised to 1 / temperature."""
    mixed: bool = False
    """Whether it is also calibrated by a matrix over the classes (matrix scaling)."""
    averaged: int = 0
    """The number of candidates whose mean is used instead of the best one, because it was better; 0 for none."""
    networks: int = 1
    """The number of networks that predict the class: 2 for the mean over both ways of refining."""
    simplest_share: float = 0.0
    """The share of candidates with one state for each class in the geometric mean that is used; 0 for none."""

    @property
    def best(self) -> ClassCandidate:
        """The candidate that was chosen: the last one that was better than the best before it, by more than EQUAL."""
        best = self.candidates[0]
        for one in self.candidates:
            best = one if one.log_loss < best.log_loss * (1 - EQUAL) else best
        return best

    def as_dicts(self) -> list[dict[str, object]]:
        """Return one mapping per candidate, for a frame or JSON."""
        return [asdict(candidate) for candidate in self.candidates]

    def to_frame(self) -> Any:
        """Return the candidates as a pandas data frame, one row each."""
        return frame_of_records(self.as_dicts())

    def _best_of_each(self) -> list[ClassCandidate]:
        """Return the best candidate of every structure and number of states, in the order of the trials."""
        found: dict[tuple[str, int], ClassCandidate] = {}
        for one in self.candidates:
            key = one.structure, one.size
            found[key] = min(found.get(key, one), one, key=lambda one: one.log_loss)
        best = self.best  # may be a little worse than another one of its size, which was tried later
        return list((found | {(best.structure, best.size): best}).values())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["structure", "states", "refined towards", "strength", "parameters", "log-loss", "+/-", ""]
        rows = [
            [
                one.structure, f"{one.n_hidden}", one.towards or "-", f"{one.strength:g}" if one.towards else "-",
                f"{one.n_parameters:,}", f"{one.log_loss:.4f}", f"{one.error:.4f}",
                "<- best" if one is self.best else "",
            ]
            for one in self._best_of_each()
        ]  # fmt: skip
        return heads, rows

    @property
    def _notes(self) -> list[str]:
        """What the columns of the table mean, which candidates it shows, and how the best is used."""
        notes = ["log-loss: of the class in held-out rows, smaller is better; +/-: its standard error"]
        shown_losses = [float(f"{one.log_loss:.4f}") for one in (self.best, *self._best_of_each())]
        if min(shown_losses) < shown_losses[0]:
            notes.append(
                f"best: log-losses that are smaller by less than {EQUAL:.1%} do not count, and of such candidates the "
                "first, which has the fewest states, is chosen"
            )
        if any(one.towards for one in self._best_of_each()):
            notes.append(
                "refined: the tables were learnt again to predict the class; a penalty of this strength keeps them "
                "near tables that do not depend on the class (independence), or near those that describe the rows (fit)"
            )
        count, shown = len(self.candidates), len(self._best_of_each())
        some = [f"shown is the best of each structure and size, of {count} candidates"] * (count > shown)
        if self.dropped:
            were = "candidate was" if self.dropped == 1 else "candidates were"
            some.append(f"{self.dropped} more {were} dropped as clearly worse on the first rows")
        used = [f"the mean of {self.averaged} of the best structure and size is used"] * (self.averaged > 0)
        if self.simplest_share:
            share = f"a share of {self.simplest_share:g}"
            used.append(f"candidates with one state for each class have {share} in the prediction, by a geometric mean")
        if self.networks > 1:
            used.append("two networks predict the class, one for each way of refining, which takes twice the time")
        means = [f"a temperature of {self.temperature:.2f}"] * (self.temperature != 1) + ["a matrix"] * self.mixed
        if means:
            used.append(f"it is calibrated by {' and '.join(means)}")
        notes += ["; ".join(one) for one in (some, used) if one]
        if self.unfinished:
            names = " and ".join(self.unfinished)
            notes.append(f"the budget ended before all of {names} was tried: a larger max_seconds allows more")
        return notes

    def __str__(self) -> str:
        return "\n".join([_text_table(*self._rows()), *map(wrapped, self._notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table("Classifiers that were tried", *self._rows(), self._notes)


def _text_table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a text table with columns aligned to the right."""
    wide = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, wide, strict=True)) for row in [heads, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def sizes(most: int) -> Iterator[int]:
    """Yield the numbers of hidden states to try: all small ones, then in steps of about a quarter."""
    size = 1
    while size <= most:
        yield size
        size = size + 1 if size < 6 else max(size + 2, round(size * 1.25))


def select(
    fit: Callable[[int], Candidate],
    candidates: Iterable[int],
    criterion: str,
    patient: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> Selection:
    """Try one size after the other; if `patient`, only until the criterion has not improved several times in a row.

    The one in which it was stopped has not learnt as much as the others, and counts only where there is no other.
    """
    tried: list[Candidate] = []
    since, best = 0, None
    for size in candidates:
        found = fit(size)
        if stopped() and tried:
            break
        tried.append(found)
        now = Selection(criterion, tuple(tried)).best
        since = 0 if now is not best else since + 1
        best = now
        if stopped() or (patient and since >= PATIENCE):
            break
    return Selection(criterion, tuple(tried))
