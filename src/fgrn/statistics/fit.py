"""The fit of a latent class model to a table: tests of the whole table, and residuals of pairs of items.

Rows with n_c observed and E_c expected rows in cell c, a pattern of answers:

    likelihood ratio   G2 = 2 sum n log(n / E)
    Pearson            X2 = sum (n - E)^2 / E
    Cressie-Read       9/5 sum n ((n / E)^(2/3) - 1)            (Cressie and Read 1984)

with a chi-square distribution of (cells - 1 - parameters) degrees of freedom if the model holds and E is not small.
Missing values: the rows with the same items observed are a table of their own, and the statistics and the cells are
added over these tables. The test is then of the model and of values missing completely at random together
(Little and Rubin 2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from ..core.exceptions import counted
from ..core.printing import html_table, text_table
from ..tables.frames import UNKNOWN
from ..tables.outputs import frame_of_records
from .chi_square import chi_square_tail
from .latent_classes import LatentClasses, Patterns
from .results import Result

FEW_ROWS_PER_CELL = 5.0
"""Rows for each cell below which the chi-square distribution is a poor approximation."""

LARGEST = 1e308
"""Values are cut here, near the largest float; with more degrees of freedom than this there is no p-value."""


@dataclass(frozen=True)
class FitStatistic:
    """One statistic of fit: its name, value, degrees of freedom, and p-value.

    `drawn` is the p-value from tables drawn from the model, None if none were drawn.
    """

    name: str
    value: float
    df: int
    drawn: float | None = None

    @cached_property
    def p(self) -> float | None:
        """The p-value: from drawn tables, else of the chi-square distribution; None where there is no test."""
        if self.drawn is not None:
            return self.drawn
        return chi_square_tail(self.value, float(self.df)) if 0 < self.df < LARGEST else None


@dataclass(frozen=True)
class GoodnessOfFit(Result):
    """Statistics of fit of a latent class model to the table of all patterns of answers.

    Attributes:
        statistics: likelihood ratio, Pearson and Cressie-Read.
        df: degrees of freedom, cells - tables - parameters.
        cells: how many patterns of answers there can be, over all tables.
        tables: sets of items that are observed together, 1 if no value is missing.
        rows: the total weight of the rows.
        parameters: free parameters of the model.
        replicates: tables drawn from the model, by which the p-values were found; 0 if they are of the chi-square
            distribution.
        frames: everything as pandas data frames, by name: "fit", "notes".
    """

    _table_name = "fit"

    statistics: tuple[FitStatistic, ...]
    df: int
    cells: int
    tables: int
    rows: float
    parameters: int
    replicates: int = 0

    def __getitem__(self, name: str) -> FitStatistic:
        """Return a statistic by its name: "G2", "X2" or "CR"."""
        return {"G2": self.statistics[0], "X2": self.statistics[1], "CR": self.statistics[2]}[name]

    @property
    def sparse(self) -> bool:
        """Whether there are fewer than five rows per cell, so that p-values are approximate."""
        return self.rows / FEW_ROWS_PER_CELL < self.cells  # cells may be too many for a float

    @property
    def notes(self) -> list[str]:
        """Cautions about these numbers, in sentences."""
        found = []
        if self.df <= 0:
            found.append(
                f"{counted(self.parameters, 'parameter')} for {_short(self.cells - self.tables)} independent "
                "cells: the fit cannot be tested"
            )
        if self.replicates:
            found.append(
                f"p from {counted(self.replicates, 'table')} drawn from the model, to which it was fitted again"
            )
        elif self.df > 0 and self.sparse:
            found.append(
                f"{self.rows:,.0f} rows for {_short(self.cells)} cells: the chi-square distribution is a poor "
                "approximation; bootstrap the statistic instead"
            )
        if self.tables > 1:
            found.append(
                f"values are missing: {self.tables:,} tables, one for each set of observed items; the test is also of "
                "values missing completely at random"
            )
        return found

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per statistic."""
        return [{"name": one.name, "value": one.value, "df": one.df, "p": one.p} for one in self.statistics]

    def to_frame(self) -> Any:
        """Return the statistics as a pandas data frame; p is missing where there is no test."""
        return frame_of_records([one | {"p": np.nan if one["p"] is None else one["p"]} for one in self.as_dicts()])

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [one.name, _short(one.value, ".4f"), _short(one.df), "-" if one.p is None else f"{one.p:.4f}"]
            for one in self.statistics
        ]
        return ["statistic", "value", "df", "p"], rows

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows()), *self.notes])

    def _repr_html_(self) -> str:
        return html_table("; ".join(["Fit", *self.notes]), *self._rows())


def _short(number: float, digits: str = "") -> str:
    """Return a number with all its digits, or with three if it is too long."""
    return f"{number:,{digits}}" if abs(number) < 1e15 else f"{Decimal(number):.2e}"


def goodness_of_fit(model: LatentClasses, rows: Patterns, parameters: int) -> GoodnessOfFit:
    """Return the fit of a model with the given number of free parameters to some rows."""
    known = rows.codes != UNKNOWN
    sets, number = np.unique(known, axis=0, return_inverse=True)
    number = number.reshape(-1)
    totals = np.bincount(number, rows.weights, minlength=len(sets))
    shares = np.concatenate([model.posterior(rows.at(block))[1] for block in rows.blocks(model.cells.shape[1])])
    counted_rows = rows.weights > 0
    observed = rows.weights[counted_rows]
    log_ratio = np.log(observed) - np.log(totals[number][counted_rows]) - shares[counted_rows]
    sizes = np.array(model.sizes, dtype=object)
    tables = [int(np.prod(sizes[one])) if one.any() else 1 for one in sets]
    cells, several = sum(tables), len(tables)
    df = cells - several - parameters
    values = [
        2 * float(observed @ log_ratio),
        _at_most_a_float(observed, log_ratio),
        9 / 5 * _at_most_a_float(observed, 2 / 3 * log_ratio),
    ]
    return GoodnessOfFit(statistics_of(values, df), df, cells, several, rows.weight, parameters)


def _at_most_a_float(observed: np.ndarray, logs: np.ndarray) -> float:
    """Return the sum of n (exp(log) - 1), limited to about the largest float, which very wide tables exceed."""
    with np.errstate(over="ignore"):
        return min(float(observed @ np.expm1(logs)), LARGEST)


def statistics_of(values: Sequence[float], df: int) -> tuple[FitStatistic, ...]:
    """Return the statistics likelihood ratio, Pearson and Cressie-Read with these values."""
    names = ("likelihood ratio G2", "Pearson X2", "Cressie-Read")
    positive = [max(value, 0.0) for value in values]  # but for rounding
    return tuple(FitStatistic(name, value, df) for name, value in zip(names, positive, strict=True))


@dataclass(frozen=True)
class PairResidual:
    """The association of two items beyond that explained by the classes.

    first, second   the items
    residual        Pearson's X2 of their two-way table against the model, divided by its degrees of freedom
    df              (levels of the first - 1) * (levels of the second - 1)
    rows            the weight of the rows that have both
    """

    first: str
    second: str
    residual: float
    df: int
    rows: float


@dataclass(frozen=True)
class BivariateResiduals(Result):
    """Residual association of every pair of items (Vermunt and Magidson 2005); 1 is expected, above 3.84 is large.

    Attributes:
        names: the items.
        pairs: a `PairResidual` for each pair, the largest first.
        frames: everything as pandas data frames, by name: "pairs", "notes".
    """

    _table_name = "pairs"

    names: tuple[str, ...]
    pairs: tuple[PairResidual, ...]

    @cached_property
    def matrix(self) -> np.ndarray:
        """(items, items): the residuals, symmetric with a zero diagonal, as for a heat map."""
        place = {name: number for number, name in enumerate(self.names)}
        out = np.zeros((len(self.names), len(self.names)))
        for one in self.pairs:
            out[place[one.first], place[one.second]] = out[place[one.second], place[one.first]] = one.residual
        return out

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per pair."""
        return [asdict(one) for one in self.pairs]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [[one.first, one.second, f"{one.residual:.3f}", f"{one.df}", f"{one.rows:,.0f}"] for one in self.pairs]
        return ["item", "item", "residual", "df", "rows"], rows

    def __str__(self) -> str:
        return text_table(*self._rows(), left=2)

    def _repr_html_(self) -> str:
        return html_table("Bivariate residuals", *self._rows())


def bivariate_residuals(model: LatentClasses, rows: Patterns) -> BivariateResiduals:
    """Return the residuals of all pairs of items on some rows; each pair from the rows that have both."""
    levels = model.indicators(rows.codes)
    observed = levels.T @ (levels * rows.weights[:, None])
    expected = model.cells.T @ (model.cells * model.prior[:, None])
    found = []
    ends = model.starts + np.array(model.sizes, dtype=np.intp)
    for a, first in enumerate(model.names):
        for b in range(a + 1, len(model.names)):
            one = slice(model.starts[a], ends[a]), slice(model.starts[b], ends[b])
            table, total = observed[one], float(observed[one].sum())
            mean = total * expected[one]
            terms = np.divide((table - mean) ** 2, mean, out=np.zeros_like(mean), where=mean > 0)
            df = (model.sizes[a] - 1) * (model.sizes[b] - 1)
            found.append(PairResidual(first, model.names[b], float(terms.sum()) / max(df, 1), df, total))
    found.sort(key=lambda one: -one.residual)
    return BivariateResiduals(model.names, tuple(found))
