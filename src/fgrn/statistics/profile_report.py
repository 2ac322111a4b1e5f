"""The report of a latent class analysis with continuous columns (latent profile analysis)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import counted, shortened
from ..flow.em import History
from ..tables.outputs import frame_of_records
from .latent_classes import LatentClasses, Patterns
from .latent_profiles import Estimate, ProfileErrors, profile_errors
from .report import Assignment, Convergence, ModelSummary, as_json_record, warnings_of_learning


@dataclass(frozen=True, eq=False)
class LatentProfileReport(ModelSummary):
    """The full report of a latent class analysis with continuous columns: text, or HTML in notebooks.

    Attributes:
        n_rows: how many rows of positive weight there were, and `weight` their total weight.
        n_parameters: free parameters.
        log_likelihood: of the rows.
        criteria: "AIC", "BIC", "CAIC", "SABIC" (sample-size-adjusted BIC); smaller is better.
        relative_entropy: 1 if every row belongs to one class, 0 if nothing is known of it.
        assignment: class sizes and average memberships.
        errors: sizes, probabilities, means and variances with standard errors, a `ProfileErrors`.
        convergence: how learning ended.
        warnings: what to be careful about, in sentences.
        frames: everything as pandas data frames, by name: "summary", "classes", "estimates", "assignment", "warnings".
    """

    errors: ProfileErrors

    def _sizes(self) -> list[dict[str, Any]]:
        average = np.diag(self.assignment.average)
        return [
            {"class": one.number, "estimated": one.value, "standard_error": one.error, "modal": float(modal),
             "average_posterior": float(mean)}
            for one, modal, mean in zip(self.errors.of("size"), self.assignment.modal, average, strict=True)
        ]  # fmt: skip

    @property
    def frames(self) -> dict[str, Any]:
        """Return all results as pandas data frames, by name."""
        common = self._summary_frames()
        return {
            "summary": common["summary"],
            "classes": frame_of_records(self._sizes()),
            "estimates": frame_of_records([one.as_dict() for one in self.errors.estimates if one.what != "size"]),
            "assignment": common["assignment"],
            "warnings": common["warnings"],
            "notes": common["notes"],
        }

    def ordered(self, order: np.ndarray, history: History) -> LatentProfileReport:
        """Return the same report with the classes reordered: class k is the old class `order[k]`."""
        return profile_report_of(
            self.n_rows, self.n_parameters, self.assignment.ordered(order), self.errors.ordered(order), history
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all results as JSON values; a standard error that does not exist is None."""
        return {
            "summary": self.summary(),
            "classes": [as_json_record(one) for one in self._sizes()],
            "estimates": [as_json_record(one.as_dict()) for one in self.errors.estimates if one.what != "size"],
            "average_posteriors": self.assignment.average.tolist(),
            "warnings": list(self.warnings),
            "notes": self.notes,
        }

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return the tables of the report: title, headings, rows."""
        heads = [f"class {k}" for k in range(len(self.assignment.sizes))]
        sizes = [
            ["estimated", *(one.text for one in self.errors.of("size"))],
            ["modal", *(f"{share:.3f}" for share in self.assignment.modal)],
            ["average posterior", *(f"{share:.3f}" for share in np.diag(self.assignment.average))],
        ]
        numbers = _report_lines(self.errors.of("mean") + self.errors.of("variance"))
        items = _report_lines(self.errors.of("probability"))
        return [
            ("Model", ["", ""], self._summary_rows()),
            ("Class sizes (standard errors)", ["", *heads], sizes),
            ("Means and variances (standard errors)", ["column", "", *heads], numbers),
            *([("Item-response probabilities (standard errors)", ["item", "level", *heads], items)] if items else []),
        ]

    @property
    def _marked(self) -> bool:
        return any(one.boundary or not one.identified for one in self.errors.estimates)


def _report_lines(estimates: list[Estimate]) -> list[list[str]]:
    """Return a line per column and level, or mean and variance, with the estimates of all classes."""
    lines: dict[tuple[str, str], list[str]] = {}
    for one in sorted(estimates, key=lambda one: [e.column for e in estimates].index(one.column)):
        what = one.what if one.level is None else str(one.level)
        lines.setdefault((one.column, what), []).append(one.text)
    return [[column, what, *cells] for (column, what), cells in lines.items()]


def latent_profile_report(
    model: LatentClasses, rows: Patterns, history: History, parameters: int
) -> LatentProfileReport:
    """Return the report of a model with the given number of free parameters on its training rows."""
    return profile_report_of(rows.rows, parameters, Assignment.of(model, rows), profile_errors(model, rows), history)


def profile_report_of(
    rows: int, parameters: int, assignment: Assignment, errors: ProfileErrors, history: History
) -> LatentProfileReport:
    """Return the report built from its parts."""
    convergence = Convergence.of(history)
    warned = warnings_of_learning(rows, parameters, assignment, errors.of_levels, convergence)
    warned += _warnings_of(assignment, errors)
    return LatentProfileReport(rows, parameters, assignment, convergence, tuple(warned), errors)


def _warnings_of(assignment: Assignment, errors: ProfileErrors) -> list[str]:
    """Return warnings about variances and probabilities, in sentences."""
    found = []
    fixed = [one for one in errors.estimates if one.boundary and one.number not in assignment.empty]
    flat = [f"{one.column} in class {one.number}" for one in fixed if one.what == "variance"]
    zero = [
        f"{one.column or 'class size'}{'' if one.level is None else f' = {one.level}'} in class {one.number}"
        for one in fixed
        if one.what != "variance"
    ]
    if flat:
        found.append(
            f"{counted(len(flat), 'variance')} at the limit of a millionth of that of the column, where the likelihood "
            f"says little: {shortened(flat, 4)}. Share variances (tied), or use fewer classes."
        )
    if zero:
        found.append(
            f"{counted(len(zero), 'estimate')} on the boundary, without a standard error: {shortened(zero, 4)}."
        )
    return found
