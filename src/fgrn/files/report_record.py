"""The report of a latent class analysis in a model file: its numbers, checked when they are read.

The estimates themselves are those of the network in the file, and what follows from others is computed again.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..flow.em import History
from ..learning.criteria import Fit
from ..statistics.fit import GoodnessOfFit, statistics_of
from ..statistics.latent_classes import LatentClasses
from ..statistics.latent_profiles import MomentErrors, ProfileErrors
from ..statistics.profile_report import LatentProfileReport, profile_report_of
from ..statistics.report import Assignment, LatentClassReport, report_of
from ..statistics.standard_errors import StandardErrors
from .container import Refused, short_repr, value_of

WHAT = "its report"
MOST_WHOLE = 2**63 - 1
"""The largest whole number of a model file; a larger number of cells, of a wide table, is written in hexadecimal."""


def report_record(report: LatentClassReport | LatentProfileReport) -> dict[str, Any]:
    """Return a report as JSON values; a standard error that does not exist is None."""
    fit = report.assignment.fit
    found = {
        "rows": report.n_rows,
        "weight": fit.weight,
        "log_likelihood": fit.log_likelihood,
        "entropy": fit.entropy,
        "sizes": report.assignment.sizes.tolist(),
        "modal": report.assignment.modal.tolist(),
        "average": report.assignment.average.ravel().tolist(),
        "free": report.errors.n_free,
        "rank": report.errors.rank,
        "concave": report.errors.concave,
    }
    if isinstance(report, LatentProfileReport):
        moments = _limits_record(report.errors.of_numbers)
        return found | _limits_record(report.errors.of_levels) | {"moments": moments}
    return (
        found
        | _limits_record(report.errors)
        | {
            "fit": [one.value for one in report.fit.statistics],
            "cells": report.fit.cells if report.fit.cells <= MOST_WHOLE else hex(report.fit.cells),
            "tables": report.fit.tables,
        }
    )


def _limits_record(errors: StandardErrors | MomentErrors) -> dict[str, Any]:
    """Return standard errors and limits as JSON values."""
    return {
        "errors": [value if np.isfinite(value) else None for value in errors.errors.tolist()],
        "low": errors.low.tolist(),
        "high": errors.high.tolist(),
        "boundary": np.flatnonzero(errors.boundary).tolist(),
    }


def _restore_limits(record: dict[str, Any], count: int) -> MomentErrors:
    """Return standard errors and limits from their record, checked to have the given number."""
    boundary = np.zeros(count, dtype=bool)
    places = value_of(list, record, "boundary", WHAT)
    if not all(type(one) is int and 0 <= one < count for one in places):
        raise Refused(f"{WHAT} has estimates on the boundary that the model does not have.")
    boundary[places] = True
    errors = _listed_numbers(record, "errors", count, np.inf)
    if errors.min(initial=0.0) < 0:
        raise Refused(f"{WHAT} has negative numbers.")
    low, high = _listed_numbers(record, "low", count), _listed_numbers(record, "high", count)
    return MomentErrors(errors, low, high, boundary, np.isfinite(errors))


def _listed_numbers(record: dict[str, Any], name: str, length: int, missing: float | None = None) -> np.ndarray:
    values = value_of(list, record, name, WHAT)
    values = [missing if one is None else one for one in values]
    if len(values) != length or not all(type(one) in (int, float) and one == one for one in values):
        raise Refused(f"{WHAT} does not have {length:,} numbers as its {name}.")
    return np.array(values, dtype=np.float64)


def restore_report(
    record: dict[str, Any], model: LatentClasses, history: History, parameters: int
) -> LatentClassReport | LatentProfileReport:
    """Return the report of a model from its record; `Refused` if it does not fit the model."""
    classes, count = model.n_classes, model.n_classes * (1 + model.cells.shape[1])

    def number(name: str) -> float:
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < np.inf:
            raise Refused(f"{WHAT} has {short_repr(value)} as its {name}.")
        return float(value)

    def whole(name: str) -> int:
        value = value_of(int, record, name, WHAT)
        if isinstance(value, bool) or not 0 <= value <= MOST_WHOLE:
            raise Refused(f"{WHAT} has {short_repr(value)} as its {name}.")
        return value

    def cells_of_table() -> int:
        value = record.get("cells")
        if not isinstance(value, str):
            return whole("cells")
        if not re.fullmatch("0x[0-9a-f]+", value):
            raise Refused(f"{WHAT} has {short_repr(value)} as its cells.")
        return int(value, 16)

    found = _restore_limits(record, count)
    sizes, weight = _listed_numbers(record, "sizes", classes), number("weight")
    if not weight > 0 or min(sizes.min(), number("entropy")) < 0:
        raise Refused(f"{WHAT} has negative numbers.")
    errors = StandardErrors(
        "observed", 0.95, model, np.concatenate([model.prior, model.cells.ravel()]), found.errors, found.low,
        found.high, found.boundary, found.identified, whole("free"), whole("rank"),
        value_of(bool, record, "concave", WHAT), np.zeros((0, 0)),
    )  # fmt: skip
    fit = Fit(number("log_likelihood"), weight, number("entropy"), sizes * weight)
    average = _listed_numbers(record, "average", classes**2).reshape(classes, classes)
    assignment = Assignment(sizes, _listed_numbers(record, "modal", classes), average, fit)
    if model.numbers is not None:
        moments = _restore_limits(value_of(dict, record, "moments", WHAT), len(model.numbers.values))
        return profile_report_of(whole("rows"), parameters, assignment, ProfileErrors(errors, moments), history)
    cells, tables = cells_of_table(), whole("tables")
    df = cells - tables - parameters
    goodness = GoodnessOfFit(
        statistics_of(_listed_numbers(record, "fit", 3).tolist(), df), df, cells, tables, weight, parameters
    )
    return report_of(whole("rows"), parameters, assignment, errors, goodness, history)
