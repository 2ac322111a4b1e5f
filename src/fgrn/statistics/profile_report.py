"""The report of a latent class analysis with continuous columns (latent profile analysis)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.exceptions import counted, shortened
from ..core.printing import html_table, text_table
from ..flow.em import History
from ..learning.criteria import aic, bic, caic, sabic
from ..tables.outputs import frame_of_records
from .latent_classes import LatentClasses, Patterns
from .latent_profiles import Estimate, ProfileErrors, profile_errors
from .report import SMALL_CLASS, Assignment, Convergence, as_json_record


@dataclass(frozen=True, eq=False)
class LatentProfileReport:
    """All that is usually reported of a latent class analysis with continuous columns: prints as text, shows as HTML.

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

    n_rows: int
    weight: float
    n_parameters: int
    log_likelihood: float
    criteria: dict[str, float]
    relative_entropy: float
    assignment: Assignment
    errors: ProfileErrors
    convergence: Convergence
    warnings: tuple[str, ...]

    def summary(self) -> dict[str, float | int | bool]:
        """The numbers of the whole model by name."""
        return {
            "rows": self.n_rows,
            "weight": self.weight,
            "classes": len(self.assignment.sizes),
            "log-likelihood": self.log_likelihood,
            "parameters": self.n_parameters,
            **self.criteria,
            "relative entropy": self.relative_entropy,
            "starts": self.convergence.starts,
            "starts that found the best": self.convergence.found_best,
            "converged": self.convergence.converged,
        }

    def _sizes(self) -> list[dict[str, Any]]:
        average = np.diag(self.assignment.average)
        return [
            {"class": one.number, "estimated": one.value, "standard_error": one.error, "modal": float(modal),
             "average_posterior": float(mean)}
            for one, modal, mean in zip(self.errors.of("size"), self.assignment.modal, average, strict=True)
        ]  # fmt: skip

    @property
    def frames(self) -> dict[str, Any]:
        """Everything as pandas data frames, by name."""
        average = [
            {"assigned": a} | {f"class {b}": float(share) for b, share in enumerate(row)}
            for a, row in enumerate(self.assignment.average)
        ]
        return {
            "summary": frame_of_records([{"name": name, "value": float(v)} for name, v in self.summary().items()]),
            "classes": frame_of_records(self._sizes()),
            "estimates": frame_of_records([one.as_dict() for one in self.errors.estimates if one.what != "size"]),
            "assignment": frame_of_records(average),
            "warnings": frame_of_records([{"warning": one} for one in self.warnings] or [{"warning": ""}][:0]),
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values; a standard error that does not exist is None."""
        return {
            "summary": self.summary(),
            "classes": [as_json_record(one) for one in self._sizes()],
            "estimates": [as_json_record(one.as_dict()) for one in self.errors.estimates if one.what != "size"],
            "average_posteriors": self.assignment.average.tolist(),
            "warnings": list(self.warnings),
        }

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """The tables of the report: title, headings, rows."""
        heads = [f"class {k}" for k in range(len(self.assignment.sizes))]
        summary = [
            ["rows", f"{self.n_rows:,}" + (f" (weight {self.weight:,.2f})" if self.weight != self.n_rows else "")],
            ["log-likelihood", f"{self.log_likelihood:,.4f}"],
            ["parameters", f"{self.n_parameters:,}"],
            *([name, f"{value:,.2f}"] for name, value in self.criteria.items()),
            ["relative entropy", f"{self.relative_entropy:.4f}"],
            ["starts that found the best", f"{self.convergence.found_best} of {self.convergence.starts}"],
            ["converged", "yes" if self.convergence.converged else "no"],
        ]
        sizes = [
            ["estimated", *(one.text for one in self.errors.of("size"))],
            ["modal", *(f"{share:.3f}" for share in self.assignment.modal)],
            ["average posterior", *(f"{share:.3f}" for share in np.diag(self.assignment.average))],
        ]
        numbers = _report_lines(self.errors.of("mean") + self.errors.of("variance"))
        items = _report_lines(self.errors.of("probability"))
        return [
            ("Latent class analysis", [], summary),
            ("Class sizes (s.e.)", ["", *heads], sizes),
            ("Means and variances (s.e.)", ["column", "", *heads], numbers),
            *([("Item-response probabilities (s.e.)", ["item", "level", *heads], items)] if items else []),
        ]

    def __str__(self) -> str:
        parts = [f"{title}\n{text_table(heads, rows, left=2, indent=2)}" for title, heads, rows in self._tables()]
        return "\n\n".join([*parts, *([_listed(self.warnings)] if self.warnings else [])])

    def _repr_html_(self) -> str:
        from html import escape

        tables = "".join(html_table(title, heads, rows) for title, heads, rows in self._tables())
        warned = "".join(f"<li>{escape(one)}</li>" for one in self.warnings)
        return tables + (f"<p>Warnings</p><ul>{warned}</ul>" if warned else "")


def _report_lines(estimates: list[Estimate]) -> list[list[str]]:
    """A line for each column and level, or mean and variance, with the estimates of all classes."""
    lines: dict[tuple[str, str], list[str]] = {}
    for one in sorted(estimates, key=lambda one: [e.column for e in estimates].index(one.column)):
        what = one.what if one.level is None else str(one.level)
        lines.setdefault((one.column, what), []).append(one.text)
    return [[column, what, *cells] for (column, what), cells in lines.items()]


def _listed(warnings: tuple[str, ...]) -> str:
    return "\n".join(["Warnings", *(f"  - {one}" for one in warnings)])


def latent_profile_report(
    model: LatentClasses, rows: Patterns, history: History, parameters: int
) -> LatentProfileReport:
    """The report of a model with so many free parameters on the rows that it was learnt from."""
    assignment = Assignment.of(model, rows)
    fit = assignment.fit
    errors, convergence = profile_errors(model, rows), Convergence.of(history)
    total = fit.log_likelihood
    criteria = {
        "AIC": aic(total, parameters),
        "BIC": bic(total, parameters, fit.weight),
        "CAIC": caic(total, parameters, fit.weight),
        "SABIC": sabic(total, parameters, fit.weight),
    }
    return LatentProfileReport(
        rows.rows, fit.weight, parameters, total, criteria, fit.relative_entropy, assignment,
        errors, convergence, tuple(_warnings_of(assignment, errors, convergence)),
    )  # fmt: skip


def _warnings_of(assignment: Assignment, errors: ProfileErrors, convergence: Convergence) -> list[str]:
    """Warnings about the estimates, in sentences."""
    found, several = [], len(assignment.sizes) > 1
    if not convergence.converged:
        found.append("Learning did not converge: standard errors are not those of a maximum. Allow more epochs.")
    if several and convergence.found_best == 1:
        found.append(
            f"The best likelihood was found by 1 of {counted(convergence.starts, 'start')}: there may be a better one. "
            "Take more starts."
        )
    empty = np.flatnonzero(assignment.sizes * assignment.fit.weight < SMALL_CLASS)
    if len(empty):
        names = ", ".join(str(int(k)) for k in empty)
        found.append(f"Class {names} has less than one row: it is empty, and fewer classes fit as well.")
    if errors.rank < errors.n_free:
        found.append(
            f"The model is not identified: the information matrix has rank {errors.rank:,} for {errors.n_free:,} "
            "parameters, so that other estimates fit as well. Use fewer classes, or more columns or rows."
        )
    if not errors.concave:
        found.append(
            "The information matrix is not positive: the estimate is not a maximum. Allow more epochs or starts."
        )
    fixed = [one for one in errors.estimates if one.boundary and one.number not in empty]
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
