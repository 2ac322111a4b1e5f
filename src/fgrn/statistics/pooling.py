"""Pooling the results of several imputed tables: Rubin's rules (1987), with the df of Barnard and Rubin (1999).

With m tables, estimates q_i and their variances u_i:

    estimate   mean of q_i
    variance   W + (1 + 1/m) B        W: mean of u_i (within), B: variance of the q_i (between)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import LearningError
from ..core.printing import decimals, html_table, text_table
from .intervals import check_level
from .results import Result


@dataclass(frozen=True, eq=False)
class Pooled(Result):
    """Pooled estimates from several imputed tables.

    Attributes:
        names: of the estimates.
        estimates: (p,) the means over the tables.
        errors: (p,) standard errors, which hold the uncertainty of the missing values.
        within: (p,) the mean of the variances, as if nothing had been missing.
        between: (p,) the variance of the estimates between the tables.
        df: (p,) degrees of freedom of the t distribution.
        low: (p,) lower limits of the confidence intervals, and `high` the upper ones.
        p_values: (p,) of the hypothesis that the estimate is 0.
        missing_information: (p,) the fraction of information that is missing.
        tables: how many tables there were.
        level: of the confidence intervals.
        frames: everything as pandas data frames, by name: "estimates", "notes".
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    errors: np.ndarray
    within: np.ndarray
    between: np.ndarray
    df: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_values: np.ndarray
    missing_information: np.ndarray
    tables: int
    level: float

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per estimate."""
        columns = {
            "estimate": self.estimates, "standard_error": self.errors, "low": self.low, "high": self.high,
            "df": self.df, "p": self.p_values, "missing_information": self.missing_information,
        }  # fmt: skip
        return [
            {"name": name} | {key: float(values[place]) for key, values in columns.items()}
            for place, name in enumerate(self.names)
        ]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["", "estimate", "s.e.", "low", "high", "df", "p", "missing information"]
        numbers = ("estimate", "standard_error", "low", "high")
        rows = [
            [
                one["name"], *(decimals(one[key], one["standard_error"]) for key in numbers),
                f"{one['df']:,.1f}", f"{one['p']:.4f}", f"{one['missing_information']:.1%}",
            ]
            for one in self.as_dicts()
        ]  # fmt: skip
        return heads, rows

    @property
    def notes(self) -> list[str]:
        """The method of pooling, in sentences."""
        return [f"pooled over {self.tables} tables; {self.level:.0%} confidence intervals"]

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows()), *self.notes])

    def _repr_html_(self) -> str:
        return html_table(self.notes[0], *self._rows())


def pool(estimates: Any, variances: Any = None, *, df: float | None = None, level: float = 0.95) -> Pooled:
    """Pool the results of several imputed tables by Rubin's rules.

    Args:
        estimates: for each table a number, or a sequence or mapping of numbers; or the fitted results of statsmodels,
            which have `params` and `bse`.
        variances: the squared standard errors, in the same form; not needed where `estimates` are fitted results.
            Where both have names, these say which variance belongs to which estimate.
        df: degrees of freedom that the analysis of a complete table has, such as rows minus coefficients; for small
            tables. None for many.
        level: of the confidence intervals.
    """
    from scipy.stats import t

    check_level(level)
    given = list(estimates)
    if variances is None:
        if not all(hasattr(one, "params") and hasattr(one, "bse") for one in given):
            raise LearningError(
                "Variances are needed beside the estimates, one for each.",
                remedies="give them as the second argument, the squares of the standard errors",
            )
        names, values = _stacked("estimates", [one.params for one in given])
        squares = _stacked("standard errors", [one.bse for one in given], names)[1] ** 2
    else:
        names, values = _stacked("estimates", given)
        squares = _stacked("variances", list(variances), names)[1]
    if values.shape != squares.shape:
        raise LearningError(
            f"There are {values.shape[0]} x {values.shape[1]} estimates and {squares.shape[0]} x {squares.shape[1]} "
            "variances; one each is wanted."
        )
    if len(values) < 2:
        raise LearningError("At least two imputed tables are needed to estimate the variance between them.")
    if (squares < 0).any():
        raise LearningError("A variance is not negative.", value=float(squares.min()))
    count = len(values)
    mean, within, between = values.mean(axis=0), squares.mean(axis=0), values.var(axis=0, ddof=1)
    extra = (1 + 1 / count) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)
    freedom = _degrees(share, count, df)
    riv = np.divide(extra, within, out=np.zeros_like(total), where=within > 0)
    missing = np.where(within > 0, (riv + 2 / (freedom + 3)) / (riv + 1), share)
    missing = np.where(extra > 0, np.minimum(missing, 1.0), 0.0)
    errors = np.sqrt(total)
    half = t.ppf((1 + level) / 2, freedom) * errors
    ratio = np.divide(np.abs(mean), errors, out=np.where(mean == 0, 0.0, np.inf), where=errors > 0)
    names = names or tuple(f"x{place}" for place in range(len(mean)))
    return Pooled(
        names, mean, errors, within, between, freedom, mean - half, mean + half, 2 * t.sf(ratio, freedom), missing,
        count, float(level),
    )  # fmt: skip


def _degrees(share: np.ndarray, count: int, complete: float | None) -> np.ndarray:
    """Return the degrees of freedom, given the share of the variance due to missing values."""
    most = 1e9  # as good as normal, and no infinity
    many = (count - 1) / np.maximum(share, 1e-12) ** 2
    if complete is None:
        few: np.ndarray = np.minimum(many, most)
        return few
    if not complete > 0:
        raise LearningError("must be positive.", setting="df", value=complete)
    observed = (complete + 1) / (complete + 3) * complete * (1 - share)
    both: np.ndarray = np.minimum(1 / (1 / many + 1 / np.maximum(observed, 1e-12)), most)
    return both


def _stacked(
    what: str, given: Sequence[Any], order: tuple[str, ...] | None = None
) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """Return the numbers of all tables, (tables, p), and their names, if any, in the order of the first table."""
    parts = [_checked_numbers(what, one) for one in given]
    first = parts[0][0] if parts else None
    order = first if order is None or first is None else order
    wanted = None if order is None else sorted(order)
    alike = all(
        len(one) == len(parts[0][1]) and (None if names is None else sorted(names)) == wanted for names, one in parts
    )
    if not parts or not alike:
        raise LearningError(f"The {what} of all tables have the same names and the same number.")
    if order is None:
        return None, np.array([one for _, one in parts])
    return order, np.array([_in_order(names or (), one, order) for names, one in parts])


def _in_order(names: tuple[str, ...], values: np.ndarray, order: tuple[str, ...]) -> np.ndarray:
    """Return named values in another order; names that occur twice must already be in that order."""
    if names == order:
        return values
    if len(set(names)) < len(names):
        raise LearningError("Names occur twice, so that they do not tell which variance belongs to which estimate.")
    place = {name: number for number, name in enumerate(names)}
    return values[[place[name] for name in order]]


def _checked_numbers(what: str, given: Any) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """Return one or several numbers as an array, and their names; None for the names if there are none."""
    names = given.keys() if isinstance(given, Mapping) else getattr(given, "index", None)
    values = list(given.values()) if isinstance(given, Mapping) else given
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        raise LearningError(f"The {what} are numbers. Got {given!r}.") from None
    if not np.isfinite(array).all():
        raise LearningError(f"The {what} are finite numbers. Got {array[~np.isfinite(array)][0]}.")
    return None if names is None or callable(names) else tuple(map(str, names)), array
