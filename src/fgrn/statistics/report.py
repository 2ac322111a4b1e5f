"""The report of a latent class analysis: class sizes, profiles, standard errors, criteria, fit, and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.exceptions import counted, shortened
from ..core.printing import html_table, text_table
from ..flow.em import History
from ..learning.criteria import Fit, all_criteria
from ..tables.outputs import frame_of_records
from .error_warnings import places_of, warnings_of_information, warnings_of_large_errors
from .fisher_information import LEAST_EXPECTED
from .fit import GoodnessOfFit, goodness_of_fit
from .latent_classes import LatentClasses, Patterns
from .results import sentences_frame
from .standard_errors import StandardErrors, standard_errors

SAME_MAXIMUM = 1e-3
"""Log-likelihoods that differ by less, or by a millionth, are of one maximum."""

MARKS = (
    f"b: no standard error, because the estimate is on the boundary: 0 or 1 but for smoothing, as fewer than "
    f"{LEAST_EXPECTED} rows of the class are expected to have this answer, or to have another one (a variance: at its "
    "lower limit). ?: not identified: the rows do not determine the estimate"
)
"""What the marks in place of standard errors mean."""

FEW_OF_ROWS = 0.5
"""Weight for each row below which weights are hardly numbers of rows, but shares of a whole."""

SMALL_CLASS = 1.0
"""Rows below which a class is called empty."""


@dataclass(frozen=True)
class Convergence:
    """How learning ended: whether the tolerance was met, and how many starts found the best maximum."""

    converged: bool
    starts: int
    found_best: int

    @classmethod
    def of(cls, history: History) -> Convergence:
        """Return the convergence from the history of learning; there are no final values if there was one start."""
        finals = np.asarray(history.starts)
        return cls.of_finals(finals, history.converged) if len(finals) else cls(history.converged, 1, 1)

    @classmethod
    def of_finals(cls, finals: np.ndarray, converged: bool) -> Convergence:
        """Return the convergence from the final values of all starts."""
        near = max(SAME_MAXIMUM, 1e-6 * abs(float(finals.max())))
        return cls(converged, len(finals), int((finals >= finals.max() - near).sum()))

    @property
    def notes(self) -> list[str]:
        """How many starts found the best likelihood, in sentences; only one is a warning."""
        if self.found_best < 2:
            return []
        return [
            f"{self.found_best} of {self.starts} random starts found the largest likelihood; more starts might find a "
            "larger one"
        ]


@dataclass(frozen=True, eq=False)
class Assignment:
    """The assignment of rows to their most probable class.

    sizes       (K,): the share of rows, each divided among the classes by its memberships
    modal       (K,): the share of rows whose likeliest class it is
    average     (K, K): of the rows assigned to class a, the mean membership in class b; zero if there are none
    fit         log-likelihood, weight and entropy of the rows
    """

    sizes: np.ndarray
    modal: np.ndarray
    average: np.ndarray
    fit: Fit

    @classmethod
    def of(cls, model: LatentClasses, rows: Patterns) -> Assignment:
        """Return the assignment of some rows to classes."""
        classes = model.n_classes
        sums, modal = np.zeros((classes, classes)), np.zeros(classes)
        fit = Fit(0.0, 0.0, 0.0, np.zeros(classes))
        for block in rows.blocks(model.cells.shape[1]):
            posterior, likelihood = model.posterior(rows.at(block))
            weights = rows.weights[block]
            fit = fit + Fit.of(likelihood, posterior, weights)
            likeliest = np.eye(classes)[posterior.argmax(axis=1)] * weights[:, None]
            sums += likeliest.T @ posterior
            modal += likeliest.sum(axis=0)
        average = np.divide(sums, modal[:, None], out=np.zeros_like(sums), where=modal[:, None] > 0)
        return cls(fit.sizes / fit.weight, modal / fit.weight, average, fit)

    @property
    def empty(self) -> np.ndarray:
        """The numbers of classes that have less than one row."""
        return np.flatnonzero(self.sizes * self.fit.weight < SMALL_CLASS)

    def ordered(self, order: np.ndarray) -> Assignment:
        """Return the assignment with the classes in another order."""
        fit = replace(self.fit, sizes=self.fit.sizes[order])
        return Assignment(self.sizes[order], self.modal[order], self.average[np.ix_(order, order)], fit)


@dataclass(frozen=True, eq=False)
class ModelSummary:
    """The results that every report of a latent class analysis has, with or without continuous columns.

    Attributes:
        n_rows: how many rows there were, and `weight` their total weight.
        n_parameters: free parameters.
        log_likelihood: of the rows.
        criteria: "AIC", "BIC", "CAIC", "SABIC" (sample-size-adjusted BIC); smaller is better.
        relative_entropy: 1 if every row belongs to one class, 0 if nothing is known of it.
        assignment: class sizes and average memberships.
        convergence: how learning ended.
        warnings: what to be careful about, in sentences.
        other_rows: the first of the warnings if the rows are not those of the fit; it stands ahead of all numbers.
    """

    n_rows: int
    n_parameters: int
    assignment: Assignment
    convergence: Convergence
    warnings: tuple[str, ...]
    other_rows: str = field(default="", kw_only=True)

    @property
    def _last_warnings(self) -> tuple[str, ...]:
        """The warnings printed after the numbers."""
        return self.warnings[1:] if self.other_rows else self.warnings

    @property
    def notes(self) -> list[str]:
        """Explanations of the numbers, in sentences."""
        return self.convergence.notes if len(self.assignment.sizes) > 1 else []

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return self.assignment.fit.weight

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of the rows."""
        return self.assignment.fit.log_likelihood

    @property
    def relative_entropy(self) -> float:
        """The relative entropy: 1 if every row belongs to one class for certain, 0 if nothing is known."""
        return self.assignment.fit.relative_entropy

    @property
    def criteria(self) -> dict[str, float]:
        """The information criteria by name; smaller is better."""
        return all_criteria(self.log_likelihood, self.n_parameters, self.weight)

    def summary(self) -> dict[str, float | int | bool]:
        """Return the numbers of the whole model by name."""
        return {
            "rows": self.n_rows,
            "weight": self.weight,
            "classes": len(self.assignment.sizes),
            "log-likelihood": self.log_likelihood,
            "parameters": self.n_parameters,
            **self._freedom,
            **self.criteria,
            "relative entropy": self.relative_entropy,
            "starts": self.convergence.starts,
            "starts that found the best": self.convergence.found_best,
            "converged": self.convergence.converged,
        }

    @property
    def _freedom(self) -> dict[str, int]:
        """Degrees of freedom, if there is a test of fit."""
        return {}

    def _summary_frames(self) -> dict[str, Any]:
        """Return the data frames that every report has."""
        average = [
            {"assigned": a} | {f"class {b}": float(share) for b, share in enumerate(row)}
            for a, row in enumerate(self.assignment.average)
        ]
        return {
            "summary": frame_of_records([{"name": name, "value": float(v)} for name, v in self.summary().items()]),
            "assignment": frame_of_records(average),
            "warnings": sentences_frame(self.warnings, "warning"),
            "notes": sentences_frame(self.notes),
        }

    def _summary_rows(self) -> list[list[str]]:
        """Return the first table of a report: name and number."""
        return [
            ["rows", f"{self.n_rows:,}" + (f" (weight {self.weight:,.2f})" if self.weight != self.n_rows else "")],
            ["log-likelihood", f"{self.log_likelihood:,.4f}"],
            ["parameters", f"{self.n_parameters:,}"],
            *(["degrees of freedom", f"{df:,}"] for df in self._freedom.values()),
            *([name, f"{value:,.2f}"] for name, value in self.criteria.items()),
            ["relative entropy", f"{self.relative_entropy:.4f}"],
            ["starts that found the best", f"{self.convergence.found_best} of {self.convergence.starts}"],
            ["converged", "yes" if self.convergence.converged else "no"],
        ]

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return the tables of the report: title, headings, rows."""
        raise NotImplementedError

    @property
    def _marked(self) -> bool:
        """Return whether an estimate has a mark in place of its standard error."""
        raise NotImplementedError

    def __str__(self) -> str:
        parts = [f"Latent class analysis, {counted(len(self.assignment.sizes), 'class', 'classes')}"]
        parts += [self.other_rows] if self.other_rows else []
        for title, heads, rows in self._tables():
            left = 2 if heads[0] in ("item", "column") else 1
            parts.append(f"{title}\n{text_table(heads if any(heads) else [], rows, left=left, indent=2)}")
        if self.notes:
            parts[-1] += "".join(f"\n  {note}" for note in self.notes)
        if self._marked:
            parts.append(MARKS)
        if self._last_warnings:
            parts.append("Warnings\n" + "\n".join(f"  - {one}" for one in self._last_warnings))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        from html import escape

        tables = "".join(html_table(title, heads, rows) for title, heads, rows in self._tables())
        warned = "".join(
            f"<li>{escape(one)}</li>" for one in (*self.notes, *([MARKS] if self._marked else []), *self._last_warnings)
        )
        first = f"<p>{escape(self.other_rows)}</p>" if self.other_rows else ""
        return f"<div>{first}{tables}{f'<ul>{warned}</ul>' if warned else ''}</div>"


@dataclass(frozen=True, eq=False)
class LatentClassReport(ModelSummary):
    """The full report of a latent class analysis: text, or HTML in notebooks.

    Attributes:
        n_rows: how many rows there were, and `weight` their total weight.
        n_parameters: free parameters.
        log_likelihood: of the rows.
        criteria: "AIC", "BIC", "CAIC", "SABIC" (sample-size-adjusted BIC); smaller is better.
        relative_entropy: 1 if every row belongs to one class, 0 if nothing is known of it.
        assignment: class sizes and average memberships.
        errors: the item-response probabilities with standard errors, a `StandardErrors`.
        fit: the `GoodnessOfFit`.
        convergence: how learning ended.
        warnings: what to be careful about, in sentences.
        frames: everything as pandas data frames, by name: "summary", "classes", "items", "assignment", "fit",
            "warnings", "notes".
    """

    errors: StandardErrors
    fit: GoodnessOfFit

    @property
    def df(self) -> int:
        """Degrees of freedom of the tests of fit."""
        return self.fit.df

    @property
    def _freedom(self) -> dict[str, int]:
        return {"df": self.df}

    @property
    def frames(self) -> dict[str, Any]:
        """Return all results as pandas data frames, by name."""
        classes = range(len(self.assignment.sizes))
        sizes = [
            {"class": k, "estimated": float(self.errors.estimates[k]), "standard_error": float(self.errors.errors[k]),
             "modal": float(self.assignment.modal[k]), "average_posterior": float(self.assignment.average[k, k])}
            for k in classes
        ]  # fmt: skip
        common = self._summary_frames()
        return {
            "summary": common["summary"],
            "classes": frame_of_records(sizes),
            "items": frame_of_records([one for one in self.errors.as_dicts() if one["level"]]),
            "assignment": common["assignment"],
            "fit": self.fit.to_frame(),
            "warnings": common["warnings"],
            "notes": common["notes"],
        }

    def as_dict(self) -> dict[str, Any]:
        """Return all results as JSON values; a standard error that does not exist is None."""
        estimates = self.errors.as_dicts()
        classes = len(self.assignment.sizes)
        sizes = [
            as_json_record(
                {"estimated": one["estimate"], "standard_error": one["standard_error"], "modal": float(modal)}
            )
            for one, modal in zip(estimates[:classes], self.assignment.modal, strict=True)
        ]
        return {
            "summary": self.summary(),
            "classes": sizes,
            "items": [as_json_record(one) for one in estimates[classes:]],
            "average_posteriors": self.assignment.average.tolist(),
            "fit": self.fit.as_dicts(),
            "warnings": list(self.warnings),
            "notes": self.notes,
        }

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return the tables of the report: title, headings, rows."""
        classes = range(len(self.assignment.sizes))
        heads = [f"class {k}" for k in classes]
        errors = self.errors
        sizes = [
            ["estimated", *(_with_error(errors, k) for k in classes)],
            ["modal", *(f"{share:.3f}" for share in self.assignment.modal)],
            ["average posterior", *(f"{self.assignment.average[k, k]:.3f}" for k in classes)],
        ]
        width = errors.model.cells.shape[1]
        first = [label for label in errors.labels if label[1] == 0 and label[0]]
        items = [
            [item, str(level), *(_with_error(errors, len(classes) + k * width + place) for k in classes)]
            for place, (item, _, level) in enumerate(first)
        ]
        return [
            ("Model", ["", ""], self._summary_rows()),
            ("Class sizes (standard errors)", ["", *heads], sizes),
            ("Item-response probabilities (standard errors)", ["item", "level", *heads], items),
            ("Fit", *self.fit._rows()),
        ]

    @property
    def _marked(self) -> bool:
        return bool((self.errors.boundary | ~self.errors.identified).any())

    @property
    def notes(self) -> list[str]:
        """Explanations of the numbers and of the tests of fit, in sentences."""
        return [*super().notes, *self.fit.notes]

    def ordered(self, order: np.ndarray, history: History) -> LatentClassReport:
        """Return the same report with the classes reordered: class k is the old class `order[k]`."""
        errors = self.errors.ordered(order)
        return report_of(self.n_rows, self.n_parameters, self.assignment.ordered(order), errors, self.fit, history)


def _with_error(errors: StandardErrors, place: int) -> str:
    """Return an estimate with its standard error, or with a mark if there is none."""
    if errors.held[place]:
        mark = "fixed"
    elif errors.boundary[place]:
        mark = "b"
    elif not errors.identified[place]:
        mark = "?"
    else:
        mark = f"{errors.errors[place]:.3f}" if errors.errors[place] > 0 else "certain"
    return f"{errors.estimates[place]:.3f} ({mark})"


def latent_class_report(model: LatentClasses, rows: Patterns, history: History, parameters: int) -> LatentClassReport:
    """Return the report of a model with the given number of free parameters on its training rows."""
    assignment = Assignment.of(model, rows)
    errors, fit = standard_errors(model, rows), goodness_of_fit(model, rows, parameters)
    return report_of(rows.rows, parameters, assignment, errors, fit, history)


def report_of(
    rows: int,
    parameters: int,
    assignment: Assignment,
    errors: StandardErrors,
    fit: GoodnessOfFit,
    history: History,
) -> LatentClassReport:
    """Return the report built from its parts."""
    convergence = Convergence.of(history)
    warned = warnings_of_learning(rows, parameters, assignment, errors, convergence)
    warned += _warnings(assignment, errors, fit)
    return LatentClassReport(rows, parameters, assignment, convergence, tuple(warned), errors, fit)


def warnings_of_learning(
    rows: int, parameters: int, assignment: Assignment, errors: StandardErrors, convergence: Convergence
) -> list[str]:
    """Return warnings about rows, starts, convergence, empty classes and identification, in sentences."""
    found, weight = [], assignment.fit.weight
    several = len(assignment.sizes) > 1
    if rows == 1:
        found.append("There is only one row, from which standard errors cannot be estimated.")
    elif parameters > rows:
        found.append(
            f"There are more parameters ({parameters:,}) than rows ({rows:,}): the estimates say little of other rows. "
            "Use fewer classes."
        )
    if weight < FEW_OF_ROWS * rows:
        found.append(
            f"The weights of {rows:,} rows sum to {weight:,.4g}, and are taken for numbers of rows: standard errors, "
            "criteria and tests are those of so few. Scale them so that they sum to the number of rows."
        )
    if not convergence.converged:
        found.append(
            "Learning did not converge: standard errors and criteria are not those of a maximum. Allow more epochs."
        )
    if several and convergence.starts == 1:
        found.append("There was only one random start, so that there may be a better maximum. Use more starts.")
    elif several and convergence.found_best == 1:
        found.append(
            f"The best likelihood was found by 1 of {convergence.starts} starts: there may be a better one. Take more "
            "starts."
        )
    if len(assignment.empty):
        empty = ", ".join(str(int(k)) for k in assignment.empty)
        each = f"Class {empty} has" if len(assignment.empty) == 1 else f"Classes {empty} have"
        found.append(f"{each} less than one row: fewer classes fit as well.")
    return found + warnings_of_information(errors) + warnings_of_large_errors(errors)


def _warnings(assignment: Assignment, errors: StandardErrors, fit: GoodnessOfFit) -> list[str]:
    """Return warnings about probabilities, in sentences."""
    found = []
    if errors.rank == errors.n_free and fit.df < 0:
        found.append(
            f"There are more parameters ({fit.parameters:,}) than independent cells ({fit.cells - fit.tables:,}) in "
            "the table of all items, so that no rows identify them: other estimates fit as well. Use fewer classes, or "
            "more items."
        )
    inside = errors.boundary.copy()
    for k in assignment.empty:
        inside[np.array([label[1] == k for label in errors.labels])] = False
    if inside.any():
        found.append(
            f"{counted(int(inside.sum()), 'estimate')} on the boundary (probability 0 or 1), where standard errors and "
            f"Wald intervals are not valid: {shortened(places_of(errors, inside), 4)}."
        )
    return found


def as_json_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with None in place of numbers that are not finite, which JSON cannot represent."""
    return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in record.items()}
