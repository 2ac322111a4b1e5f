"""Values of a column that are equal but of different types, True and 1 or False and 0, which are one state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.exceptions import TableWarning, warn


def distinct(values: Iterable[Any], column: str) -> dict[Any, None]:
    """Return the distinct values of a column without None, in order; warn if a truth value and a number are equal."""
    values = [value for value in values if value is not None]
    truths = {value for value in values if isinstance(value, bool)}
    both = [int(value) for value in values if not isinstance(value, bool) and value in truths] if truths else []
    if both:
        number = both[0]
        warn(
            f"{bool(number)} and {number} are equal, and count as one state.",
            TableWarning,
            column=column,
            value=number,
            remedies=f"turn them into words to tell them apart (in pandas: table[{column!r}].astype(str))",
        )
    return dict.fromkeys(values)
