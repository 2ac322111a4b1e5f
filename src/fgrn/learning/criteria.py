"""Criteria for the number of hidden states: AIC, BIC, held-out likelihood, relative entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

HELD_OUT = 5
"""One row in this many is held out, where the number of hidden states is chosen by rows that were not learnt from."""

PATIENCE = 3
"""Sizes without an improvement after which no more are tried."""


def aic(log_likelihood: float, parameters: int) -> float:
    """Akaike's criterion, 2 k - 2 log L; smaller is better."""
    return 2 * parameters - 2 * log_likelihood


def bic(log_likelihood: float, parameters: int, rows: float) -> float:
    """The Bayesian criterion of Schwarz, k log n - 2 log L; smaller is better."""
    return parameters * float(np.log(max(rows, 1))) - 2 * log_likelihood


def relative_entropy(posterior: np.ndarray, weights: np.ndarray | None = None) -> float:
    """How clearly rows belong to one state: 1 if each does, 0 if nothing is known; 1 - entropy / log(states)."""
    rows = len(posterior)
    return Fit.of(np.zeros(rows), posterior, np.ones(rows) if weights is None else weights).relative_entropy


@dataclass(frozen=True, eq=False)
class Fit:
    """How a model with one hidden variable fits some rows; the sum of two is the fit of both sets of rows."""

    log_likelihood: float
    weight: float
    entropy: float
    """Of the hidden state, in nats, of all rows together."""
    sizes: np.ndarray
    """How much weight each hidden state has."""

    @classmethod
    def of(cls, log_likelihood: np.ndarray, posterior: np.ndarray, weights: np.ndarray) -> Fit:
        """From each row's log-likelihood, hidden states, (rows, states), and weight."""
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
        """See the function of that name."""
        states = len(self.sizes)
        return 1.0 if states == 1 else float(1 - self.entropy / self.weight / np.log(states))


@dataclass(frozen=True)
class Candidate:
    """One number of hidden states that was tried."""

    n_hidden: int
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float
    held_out: float
    """Log-likelihood per row of rows that were not learnt from; NaN where none were kept back."""
    relative_entropy: float
    class_sizes: tuple[float, ...]

    @classmethod
    def of(cls, fit: Fit, parameters: int, held_out: float = np.nan) -> Candidate:
        """A candidate from its fit to the rows it was learnt from."""
        return cls(
            n_hidden=len(fit.sizes),
            log_likelihood=fit.log_likelihood,
            n_parameters=parameters,
            aic=aic(fit.log_likelihood, parameters),
            bic=bic(fit.log_likelihood, parameters, fit.weight),
            held_out=held_out,
            relative_entropy=fit.relative_entropy,
            class_sizes=tuple((fit.sizes / fit.weight).tolist()),
        )


@dataclass(frozen=True)
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
        """One mapping for each candidate, as a frame or JSON takes them; None where nothing was held out."""
        records = [asdict(candidate) for candidate in self.candidates]
        return [record | ({"held_out": None} if np.isnan(record["held_out"]) else {}) for record in records]

    def __str__(self) -> str:
        held = not all(np.isnan(one.held_out) for one in self.candidates)
        heads = ["hidden", "log-likelihood", "parameters", "AIC", "BIC", *(["held out"] if held else [])]
        heads += ["rel. entropy", "smallest class"]
        lines = []
        for one in self.candidates:
            cells = [
                f"{one.n_hidden}", f"{one.log_likelihood:,.1f}", f"{one.n_parameters:,}", f"{one.aic:,.1f}",
                f"{one.bic:,.1f}", *([f"{one.held_out:.4f}"] if held else []), f"{one.relative_entropy:.3f}",
                f"{min(one.class_sizes):.1%}",
            ]  # fmt: skip
            lines.append((cells, one is self.best))
        wide = [max(len(head), *(len(cells[k]) for cells, _ in lines)) for k, head in enumerate(heads)]
        out = ["  ".join(f"{head:>{width}}" for head, width in zip(heads, wide, strict=True))]
        for cells, best in lines:
            row = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, wide, strict=True))
            out.append(row + ("  <- best" if best else ""))
        if held:
            share = 1 - 1 / HELD_OUT
            out.append(
                f"log-likelihood, AIC and BIC: of the {share:.0%} of the rows that were learnt from; held out: the "
                "log-likelihood of a row of the others"
            )
        return "\n".join(line.rstrip() for line in out)


def sizes(most: int) -> Iterator[int]:
    """Numbers of hidden states worth trying: all small ones, then in steps of about a quarter."""
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
    """Try one size after the other; if `patient` only until the criterion has not improved for a while.

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
