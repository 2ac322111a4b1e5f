"""Continuous columns in model files: their names and units, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.variable import Variable
from ..flow.gaussian_leaves import GaussianLeaves
from .container import Refused, short_repr, value_of
from .records import refusing_invalid_models

CONTINUOUS_COLUMNS = "its continuous columns"
"""What continuous columns, and the tensor of their means and variances, are called in messages."""

MOST_OF_LEAVES = 600.0
"""Means and logarithms of variances in the units of their columns are smaller: larger ones have no logarithm."""


def leaves_record(leaves: GaussianLeaves) -> dict[str, object]:
    """Return the record of continuous columns."""
    return {
        "variable": leaves.variable,
        "columns": list(leaves.columns),
        "covariance": leaves.covariance,
        "centres": list(leaves.centres),
        "scales": list(leaves.scales),
        **({} if leaves.start is None else {"start": [list(row) for row in leaves.start]}),
    }


def read_leaves(document: dict[str, Any], variables: Mapping[str, Variable]) -> GaussianLeaves | None:
    """Return the continuous columns of a document, if there are any."""
    if "leaves" not in document:
        return None
    record = value_of(dict, document, "leaves", "its description")
    variable, columns = (
        value_of(str, record, "variable", CONTINUOUS_COLUMNS),
        value_of(list, record, "columns", CONTINUOUS_COLUMNS),
    )
    if variable not in variables or not columns or not all(isinstance(name, str) for name in columns):
        raise Refused(f"{CONTINUOUS_COLUMNS} are {short_repr(columns)} of {short_repr(variable)}.")
    states = variables[variable].cardinality
    start = [
        _finite_list(row, len(columns)) for row in value_of(list, {"start": [], **record}, "start", CONTINUOUS_COLUMNS)
    ]
    if start and len(start) != states:
        raise Refused(f"{CONTINUOUS_COLUMNS} start in {len(start)} states, and there are {states}.")
    units = [_finite_list(record.get(key), len(columns)) for key in ("centres", "scales")]
    if min(units[1]) <= 0:
        raise Refused(f"{CONTINUOUS_COLUMNS} have a unit that is not positive.")
    with refusing_invalid_models():
        covariance = value_of(str, record, "covariance", CONTINUOUS_COLUMNS)
        return GaussianLeaves(variable, states, tuple(columns), covariance, units[0], units[1], tuple(start) or None)


def _finite_list(values: object, length: int) -> tuple[float, ...]:
    """Return a list of finite numbers, checked to have the given length."""
    good = isinstance(values, list) and len(values) == length
    if not good or not all(type(one) in (int, float) and abs(one) < np.inf for one in values):  # type: ignore[attr-defined]
        raise Refused(f"{CONTINUOUS_COLUMNS} have {short_repr(values)} in place of {length} numbers.")
    return tuple(float(one) for one in values)  # type: ignore[attr-defined]


def check_leaves(numbers: np.ndarray) -> None:
    """Raise `Refused` unless means and logarithms of variances are finite, and not too large."""
    if not (np.abs(numbers) < MOST_OF_LEAVES).all():
        raise Refused(f"{CONTINUOUS_COLUMNS} have means or variances that are not finite.")
