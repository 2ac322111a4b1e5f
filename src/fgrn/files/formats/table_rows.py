"""A table given row by row, in any order, each with the states of the parents, and an optional default row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..container import short_repr
from .builder import Builder


class TableRows:
    """Collects the rows of one table.

    Args:
        builder: the document under construction.
        child: the name of the child.
        parents: the names of the parents, in the order of the table.
        line: the line on which the table begins.
    """

    def __init__(self, builder: Builder, child: str, parents: Sequence[str], line: int) -> None:
        self.what = f"the table of {short_repr(child)}"
        *self._sizes, self._width = builder.sizes((*parents, child), line, self.what)
        self._builder, self._child, self._line = builder, child, line
        self.parents = parents
        self._found: dict[int, tuple[list[float], int]] = {}
        self._default: tuple[list[float], int] | None = None

    def add(self, codes: Sequence[int], numbers: str, line: int, written: str) -> None:
        """Add a row: the codes of the parents' states, its numbers, and the states as written in the file."""
        place = 0
        for code, size in zip(codes, self._sizes, strict=True):
            place = place * size + code
        if place in self._found:
            raise self._builder.error(line, f"{self.what} has two rows for {written[:100]}. Remove one of them.")
        self._found[place] = (self._row(numbers, line), line)

    def fill(self, numbers: str, line: int) -> None:
        """Set the default, which is used for all rows that the file does not give."""
        self._default = (self._row(numbers, line), line)

    def _row(self, numbers: str, line: int) -> list[float]:
        values = self._builder.numbers(numbers, line)
        if len(values) != self._width:
            few = f"a row has {len(values):,} numbers, but there are {self._width:,} states."
            raise self._builder.error(line, f"{self.what}: {few}")
        return values

    def finish(self) -> None:
        """Add the table to the document; an error if rows are missing and there is no default."""
        builder, found = self._builder, self._found
        total = builder.product(self._sizes)
        if len(found) < total and self._default is None:
            first = next(place for place in range(total) if place not in found)
            which = builder.configuration(self.parents, first, self._line)
            rows = f"{len(found):,} rows of {total:,}; there is none for {which}."
            raise builder.error(self._line, f"{self.what} has {rows}")
        rest, line_of_rest = self._default or ([], self._line)
        if len(found) < total:
            builder.expand(min(total * self._width, 10**18), line_of_rest, self.what)
        values = np.empty((total, self._width))
        if len(found) < total:
            values[:] = rest
        values[list(found)] = [row for row, _ in found.values()] or np.empty((0, self._width))

        def line_of(row: int) -> int:
            return found[row][1] if row in found else line_of_rest

        builder.add_table(self._child, self.parents, values.ravel(), self._line, line_of)


def code_of_label(builder: Builder, what: str, parent: str, codes: Mapping[str, int], label: str, line: int) -> int:
    """Return the code of a parent's state, by its label."""
    if label not in codes:
        known = ", ".join(map(short_repr, builder.states[parent][:8]))
        why = f"{what}: {short_repr(label)} is not a state of {short_repr(parent)} (known: {known})."
        raise builder.error(line, why)
    return codes[label]
