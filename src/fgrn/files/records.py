"""Records shared by several kinds of model files: variables, their states, rows of tables, with checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import numpy as np

from ..core.distributions import ROW_SUM_TOLERANCE
from ..core.exceptions import FgrnError
from ..core.labels import Label
from ..core.variable import Variable
from ..graph.blocks import PRODUCT_SPACE_LIMIT
from .container import Refused, short_repr, value_of

NEWER = "A newer fgrn may know it: pip install --upgrade fgrn."


def states_of(variable: Variable) -> int | list[object]:
    """Return the states of a variable as JSON values: their number, or the list of labels."""
    if not variable.is_labelled:
        return variable.cardinality
    for label in variable.labels:
        if isinstance(label, int) and label.bit_length() > 64:
            raise Refused(f"{short_repr(variable.name)} has a label of more than 64 bits. Make it a string.")
    # JSON has no infinity
    return [{"float": str(label)} if label in (np.inf, -np.inf) else label for label in variable.labels]


def list_of_records(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of records in a document; `Refused` if an item is not a record."""
    records = value_of(list, document, key, "its description")
    for record in records:
        if not isinstance(record, dict):
            raise Refused(f"{short_repr(record)} is among its {key}.")
    return records


def read_variables(document: dict[str, Any]) -> dict[str, Variable]:
    """Return the variables of a document, by name."""
    variables: dict[str, Variable] = {}
    for record in list_of_records(document, "variables"):
        name = value_of(str, record, "name", "a variable")
        what = f"the variable {short_repr(name)}"
        if name in variables:
            raise Refused(f"{what} is there twice.")
        states = record.get("states")
        if type(states) is not int:
            states = [_label(label, what) for label in value_of(list, record, "states", what)]
        elif states > PRODUCT_SPACE_LIMIT:
            raise Refused(f"{what} has {states:,} states; the limit is {PRODUCT_SPACE_LIMIT:,}.")
        with refusing_invalid_models():
            variables[name] = Variable(name, states)
    return variables


def _label(value: object, what: str) -> Label:
    """Return a label from its JSON value; `Refused` if it cannot be one."""
    if isinstance(value, dict) and value.get("float") in ("inf", "-inf"):
        return float(value["float"])
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise Refused(f"{what} has {short_repr(value)} as a label.")


@contextmanager
def refusing_invalid_models() -> Iterator[None]:
    """A context that turns errors of building a model into `Refused`, since the file is then not valid."""
    try:
        yield
    except FgrnError as error:
        raise Refused(str(error)[:500]) from error


def check_distributions(rows: np.ndarray, first: int, what: str) -> None:
    """Raise `Refused` unless all rows are distributions; rows are numbered from `first` in errors."""
    with np.errstate(invalid="ignore"):
        bad = ~((rows >= 0) & (rows <= 1 + ROW_SUM_TOLERANCE))
    if bad.any():
        row, column = divmod(int(bad.argmax()), rows.shape[1])
        raise Refused(f"{what} holds {rows[row, column]} in row {first + row}, which is not a probability.")
    off = np.abs((sums := rows.sum(axis=1)) - 1) > ROW_SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise Refused(f"{what} sums to {sums[row]:.9g} in row {first + row}, not to 1.")
