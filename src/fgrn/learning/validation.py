"""Held-out rows during learning: they decide when to stop, and which parameters are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.exceptions import LearningError, Remedy
from ..tables.encoded import EncodedTable, Evidence

HELD_OUT_STREAM = 3
"""Part of the seed by which rows are held out."""


MOST_ON_DISK = 2**17
"""Held-out rows, at most, where all rows are on disk: they are in memory."""


def check_patience(patience: int | None, validation: Any) -> None:
    """Raise an error for `patience` without held-out rows."""
    if patience is not None and validation is None:
        raise LearningError(
            "is for held-out rows, and there are none.",
            setting="patience",
            value=patience,
            remedies=Remedy("hold some out", validation=0.1),
        )


def split_off(
    table: EncodedTable, validation: Any, seed: int, encode: Callable[[Any], EncodedTable]
) -> tuple[EncodedTable, EncodedTable | None]:
    """Return the rows to learn from, and the held-out rows, if there are any.

    Args:
        table: all rows.
        validation: the fraction of the rows to hold out, drawn by the seed; or a table of other rows; or None.
        seed: of the draw.
        encode: encodes another table.
    """
    if validation is None:
        return table, None
    if isinstance(validation, bool) or not isinstance(validation, (int, float, np.number)):
        other = encode(validation)
        if not other.rows or not other.weight:
            raise LearningError("is a table without rows.", setting="validation")
        return table, other
    if not 0 < validation < 1:
        raise LearningError(
            f"is a fraction of the rows, above 0 and below 1, or a table. Got {validation!r} instead.",
            setting="validation",
            value=validation,
        )
    if not isinstance(table, Evidence) or len(table.begins):
        raise LearningError(
            "can be a fraction only if the rows are on this machine and are not sequences.",
            setting="validation",
            value=validation,
            remedies=Remedy("give a table of other rows", validation=...),
        )
    count = round(validation * table.rows) if table.disk is None else min(round(validation * table.rows), MOST_ON_DISK)
    if not 0 < count < table.rows:
        raise LearningError(
            f"holds out {count:,} of {table.rows:,} rows; there must be some to learn from, and some to hold out.",
            setting="validation",
            value=validation,
        )
    order = np.random.default_rng((seed, HELD_OUT_STREAM)).permutation(table.rows)
    kept, learnt = np.sort(order[:count]), np.sort(order[count:])
    parts = _without(table, kept) if table.disk is not None else table.take(learnt), table.take(kept)
    if not all(part.weight for part in parts):
        raise LearningError("leaves only rows of weight 0 on one side.", setting="validation", value=validation)
    return parts


def _without(table: Evidence, kept: np.ndarray) -> Evidence:
    """Return the rows of a table on disk with zero weight for the held-out ones."""
    weights = np.array(table.row_weights)
    weights[kept] = 0.0
    return replace(table, row_weights=weights if table.disk is None else table.disk.stored(weights))
