"""Covariates of rows as numeric columns: numbers unchanged, categories as 0/1 indicators of levels but the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from ..core.exceptions import LearningError, shortened
from ..tables import frames
from ..tables.missing import is_missing_value

INTERCEPT = "(intercept)"

MOST_WORDS = 100
"""Of a covariate or an outcome of words."""

NUMBERS = (int, float, np.number, np.bool_)


@dataclass(frozen=True)
class Term:
    """One covariate: its name and, for a categorical one, its levels; the first level is the reference."""

    name: str
    levels: tuple[str, ...] | None

    @property
    def of_dates(self) -> bool:
        """Whether all levels are dates."""
        return self.levels is not None and all(map(_is_date, self.levels))

    @property
    def description(self) -> str:
        """The name with the number of levels, as text."""
        dates = ", dates" if self.of_dates else ""
        return self.name if self.levels is None else f"{self.name} ({len(self.levels):,} levels{dates})"

    @property
    def remedy(self) -> str:
        """The advice for a covariate with too many levels."""
        return "give the number of days since a first day in place of dates" if self.of_dates else "join levels of it"

    @property
    def names(self) -> list[str]:
        """The names of its numeric columns."""
        return [self.name] if self.levels is None else [f"{self.name} = {level}" for level in self.levels[1:]]

    def columns(self, values: list[Any], known: np.ndarray) -> list[np.ndarray]:
        """Return its numeric columns, with 0 for missing values."""
        if self.levels is not None:
            words = [str(value) if is_known else "" for value, is_known in zip(values, known, strict=True)]
            return [np.array([float(word == level) for word in words]) for level in self.levels[1:]]
        wrong = [row for row, value in enumerate(values) if known[row] and not isinstance(value, NUMBERS)]
        if wrong:
            raise LearningError(
                f"this covariate is a number, and {values[wrong[0]]!r} is none.",
                column=self.name,
                rows=wrong[:8],
                value=values[wrong[0]],
            )
        numbers = np.array([float(value) if is_known else 0.0 for value, is_known in zip(values, known, strict=True)])
        refuse_infinite(numbers, "A covariate", self.name)
        return [numbers]


@dataclass(frozen=True, eq=False)
class Covariates:
    """The covariates of some rows.

    terms    the covariates
    design   (rows that are kept, W): columns of numbers, the first of which is 1
    kept     (rows,): which rows have all covariates and a positive weight
    left_out how many other rows have a positive weight
    """

    terms: tuple[Term, ...]
    design: np.ndarray
    kept: np.ndarray
    left_out: int

    @classmethod
    def of(cls, covariates: Any, weights: np.ndarray) -> Covariates:
        """Return the covariates in a mapping or dataframe, for all rows whose weight is not 0."""
        rows, kept, terms, known = len(weights), weights > 0, [], {}
        given = _covariate_columns(covariates, rows)
        for name, values in given.items():
            known[name] = np.array([not is_missing_value(value) for value in values]) & (weights > 0)
            kept &= known[name]
            some = [value for value, is_known in zip(values, known[name], strict=True) if is_known]
            plain = all(isinstance(value, NUMBERS) for value in some)
            term = Term(name, None if plain else tuple(sorted({str(value) for value in some})))
            if term.levels is not None and len(term.levels) > MOST_WORDS:
                raise LearningError(
                    f"it has {len(term.levels):,} levels{', dates' * term.of_dates}, and a categorical covariate "
                    f"has at most {MOST_WORDS}.",
                    column=name,
                    value=len(term.levels),
                    remedies=term.remedy,
                )
            terms.append(term)
        if not kept.any():
            raise LearningError("No row has all covariates.")
        parts = [column for term in terms for column in term.columns(given[term.name], known[term.name])]
        return cls(
            tuple(terms), np.stack([np.ones(rows), *parts], axis=1)[kept], kept, int((weights > 0).sum() - kept.sum())
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of `design`."""
        return (INTERCEPT, *(name for term in self.terms for name in term.names))

    @cached_property
    def scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation of each column; 0 and 1 for the intercept, and 1 for a constant."""
        middle, scale = self.design.mean(axis=0), self.design.std(axis=0)
        middle[0] = 0.0
        return middle, np.where(scale > 0, scale, 1.0)

    def scaled(self) -> np.ndarray:
        """Return the columns standardised; an error if one is a linear function of the others."""
        middle, scale = self.scaling
        found: np.ndarray = (self.design - middle) / scale
        constant = any(term.levels is not None and len(term.levels) < 2 for term in self.terms)
        if constant or np.linalg.matrix_rank(found) < found.shape[1]:
            raise LearningError(
                "The coefficients are not identified: one covariate is constant, or a linear function of the others.",
                remedies="leave it out",
            )
        return found

    def to_original_columns(self) -> np.ndarray:
        """Return the matrix, (W, W), from coefficients of standardised columns to those of the original columns."""
        middle, scale = self.scaling
        found = np.diag(1 / scale)
        found[0] -= middle / scale
        return found


def design_of(terms: tuple[Term, ...], covariates: Any) -> np.ndarray:
    """Return the numeric columns, (rows, W), of covariates with known levels; no value may be missing."""
    given = _covariate_columns(covariates, None)
    rows = len(next(iter(given.values())))
    parts = [np.ones(rows)]
    for term in terms:
        if term.name not in given:
            raise LearningError("this covariate is missing.", column=term.name)
        values = given[term.name]
        unknown = [row for row, value in enumerate(values) if is_missing_value(value)]
        if unknown:
            raise LearningError("this covariate must be known for each row.", column=term.name, rows=unknown[:8])
        new = {str(value) for value in values} - set(term.levels) if term.levels is not None else set()
        if new:
            raise LearningError(
                f"it has a level that the rows of the regression do not have: {shortened(sorted(new), 4)}.",
                column=term.name,
            )
        parts += term.columns(values, np.ones(rows, dtype=bool))
    return np.stack(parts, axis=1)


def _covariate_columns(covariates: Any, rows: int | None) -> dict[str, list[Any]]:
    """Return the values of each covariate, for the given number of rows."""
    columns = frames.columns(covariates) if isinstance(covariates, Mapping) or frames.is_frame(covariates) else {}
    if not columns:
        raise LearningError("Covariates are a mapping of columns or a dataframe, with at least one column.")
    given = {name: frames.as_list(column) for name, column in columns.items()}
    wanted = len(next(iter(given.values()))) if rows is None else rows
    for name, values in given.items():
        if len(values) != wanted:
            raise LearningError(f"it has {len(values):,} values for {wanted:,} rows.", column=name)
    return given


def _is_date(word: str) -> bool:
    """Return whether a word is an ISO date, with or without a time."""
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return True


def refuse_infinite(values: np.ndarray, what: str, column: str | None = None) -> None:
    """Raise an error with the rows whose value is infinite."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise LearningError(
            f"{what} is a finite number, or missing.",
            column=column,
            rows=bad[:8],
            value=float(values[bad[0]]),
            remedies="leave the row out, or make the value a missing one",
        )
