"""A schema as `fit` prints it: a line for each column, or for each kind of column; and whether values are missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import counted
from ..core.printing import listed, room_beside, terminal_width, text_table
from ..tables import frames
from ..tables.columns import Column
from ..tables.schema import Schema

MOST_COLUMNS = 40
"""The most columns that have a line each; of more, those with the same levels have one together."""

MOST_COLUMN_KINDS = 20
"""The most kinds of columns that have a line; the others are counted."""

BESIDE_NAMES = 36
"""Cells of such a line beside the names and levels of its columns."""


def schema_text(schema: Schema) -> str:
    """Return a schema as text; columns with the same levels are grouped if there are many."""
    if len(schema) <= MOST_COLUMNS:
        return repr(schema)
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for column in schema.values():
        kinds.setdefault((column.kind, tuple(map(str, column.levels))), []).append(column.name)
    ranked = sorted(kinds.items(), key=lambda one: -len(one[1]))
    room = room_beside([listed(names, 2) for _, names in ranked[:MOST_COLUMN_KINDS]], BESIDE_NAMES)
    rows = [
        [counted(len(names), "column"), listed(names, 2), f"{len(levels)}", kind, listed(levels, 4, room)]
        for (kind, levels), names in ranked[:MOST_COLUMN_KINDS]
    ]
    left = sum(len(names) for _, names in ranked[MOST_COLUMN_KINDS:])
    rest = [f"  and {counted(left, 'column')} of other levels"] if left else []
    heading = f"Schema of {counted(len(schema), 'column')}, those with the same levels in one line"
    return "\n".join([heading, text_table([], rows, 5, 2, terminal_width()), *rest])


def has_missing(schema: Schema, table: Any) -> bool:
    """Return whether a value is missing in a table that a schema was inferred from."""
    columns = frames.columns(table, by_value=True)
    known = ((column, columns[name]) for name, column in schema.items() if name in columns)
    return any(_is_missing_somewhere(column, values) for column, values in known)


def _is_missing_somewhere(column: Column, values: Any) -> bool:
    if column.continuous:
        return bool(np.isnan(column.numbers(values)).any())
    return not column.levels or bool((column.codes(values)[0] == frames.UNKNOWN).any())
