"""Records that several kinds of model share in a file: variables and their states, and what may go wrong with them."""

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
from .container import Refused, shown, value_of

NEWER = "A newer fgrn may know it: pip install --upgrade fgrn."


def states_of(variable: Variable) -> int | list[object]:
    """The states of a variable as JSON can say them."""
    if not variable.is_labelled:
        return variable.cardinality
    for label in variable.labels:
        if isinstance(label, int) and label.bit_length() > 64:
            raise Refused(f"{shown(variable.name)} has a label of more than 64 bits. Make it a string.")
    # JSON knows no infinity
    return [{"float": str(label)} if label in (np.inf, -np.inf) else label for label in variable.labels]


def records_of(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of records in a document."""
    records = value_of(list, document, key, "its description")
    for record in records:
        if not isinstance(record, dict):
            raise Refused(f"{shown(record)} is among its {key}.")
    return records


def variables_of(document: dict[str, Any]) -> dict[str, Variable]:
    """The variables of a document, by name."""
    variables: dict[str, Variable] = {}
    for record in records_of(document, "variables"):
        name = value_of(str, record, "name", "a variable")
        what = f"the variable {shown(name)}"
        if name in variables:
            raise Refused(f"{what} is there twice.")
        states = record.get("states")
        if type(states) is not int:
            states = [_label(label, what) for label in value_of(list, record, "states", what)]
        elif states > PRODUCT_SPACE_LIMIT:
            raise Refused(f"{what} has {states:,} states; the limit is {PRODUCT_SPACE_LIMIT:,}.")
        with wiring_errors():
            variables[name] = Variable(name, states)
    return variables


def _label(value: object, what: str) -> Label:
    if isinstance(value, dict) and value.get("float") in ("inf", "-inf"):
        return float(value["float"])
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise Refused(f"{what} has {shown(value)} as a label.")


@contextmanager
def wiring_errors() -> Iterator[None]:
    """What cannot be joined to a model is a file that cannot be read."""
    try:
        yield
    except FgrnError as error:
        raise Refused(str(error)[:500]) from error


def check_rows(rows: np.ndarray, first: int, what: str) -> None:
    """Refuses rows that are no distributions; the first of them has the number `first`."""
    with np.errstate(invalid="ignore"):
        bad = ~((rows >= 0) & (rows <= 1 + ROW_SUM_TOLERANCE))
    if bad.any():
        row, column = divmod(int(bad.argmax()), rows.shape[1])
        raise Refused(f"{what} holds {rows[row, column]} in row {first + row}, which is no probability.")
    off = np.abs((sums := rows.sum(axis=1)) - 1) > ROW_SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise Refused(f"{what} sums to {sums[row]:.9g} in row {first + row}, not to 1.")
