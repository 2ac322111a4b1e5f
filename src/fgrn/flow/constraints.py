"""Constraints on rows of tables: cells held at a given probability, and rows that are equal to each other.

An update under constraints adds the counts of equal rows, and divides what the cells that are held leave of a row among
its other cells in proportion to their counts: the maximum of the likelihood under the constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import ReadOnlyArrays, frozen
from ..plan.plan import Layout
from .gaussian_leaves import GaussianLeaves
from .moment_constraints import MOMENTS, MomentConstraints, names_continuous, wrong_constraint

FORMS = (
    "('equal', 'q1', 'q2', ...) for items, ('equal', ('q1', 0), ('q1', 1), ...) for rows of tables (classes), "
    "('fixed', 'q1', 0, 'yes', 0.9) or ('zero', 'q1', 0, 'yes'); the row of a prior is None"
)

ROUNDED = 1e-9
"""Sums of probabilities that differ by no more from 1 are 1."""


@dataclass(frozen=True, eq=False)
class Constraints(ReadOnlyArrays):
    """The cells of tables that are held fixed, and the rows that are equal, in the plan's layout.

    fixed    (cells,): the probability a cell is held at; NaN where it is free
    leader   (cells,): the cell that each cell is equal to: itself, or one of the first of the equal rows
    moments  those of means and variances of continuous columns, if there are any
    """

    fixed: np.ndarray
    leader: np.ndarray
    moments: MomentConstraints | None = None

    @classmethod
    def of(
        cls,
        entries: Iterable[Any],
        layout: Layout,
        place: Callable[[str, Any], int],
        leaves: GaussianLeaves | None = None,
    ) -> Constraints:
        """Return the constraints from a list by name, see `FORMS`; `place` finds the number of a level of a table."""
        moments = None
        if leaves is not None:
            every = list(entries)
            of_numbers = [entry for entry in every if names_continuous(entry, leaves.columns)]
            entries = [entry for entry in every if entry not in of_numbers]
            moments = MomentConstraints.of(of_numbers, leaves) if of_numbers else None
        fixed, first = np.full(layout.size, np.nan), np.arange(len(layout.lines))
        for entry in entries:
            parts = list(entry) if isinstance(entry, (list, tuple)) else []
            kind = parts[0] if parts else None
            if kind == "equal" and len(parts) > 2:
                for lines in _equal_lines(parts[1:], layout, entry):
                    first[np.isin(first, first[lines])] = first[lines].min()
            elif (kind == "fixed" and len(parts) == 5) or (kind == "zero" and len(parts) == 4):
                value = float(parts[4]) if kind == "fixed" and isinstance(parts[4], (int, float)) else 0.0
                if kind == "fixed" and (not isinstance(parts[4], (int, float)) or not 0 <= value <= 1):
                    raise wrong_constraint(f"hold a probability in {entry!r} that is not a number from 0 to 1.", entry)
                start = layout.lines[_line_number(layout, parts[1], parts[2], entry)]
                cell = start + place(parts[1], parts[3])
                if not np.isnan(fixed[cell]) and fixed[cell] != value:
                    message = f"hold one probability at {fixed[cell]:g}, and in {entry!r} at {value:g}."
                    raise wrong_constraint(message, entry)
                fixed[cell] = value
            else:
                raise wrong_constraint(f"have an entry that is not one of them: {entry!r}.", entry, FORMS)
        within = np.arange(layout.size) - layout.lines[layout.line_of]
        leader = layout.lines[first[layout.line_of]] + within
        fixed = _shared(fixed, leader)
        nothing_left = np.bincount(layout.line_of, np.nan_to_num(fixed)) >= 1 - ROUNDED
        fixed[np.isnan(fixed) & nothing_left[layout.line_of]] = 0.0
        return cls(frozen(fixed, np.float64), frozen(leader, np.intp), moments)._checked(layout)

    def _checked(self, layout: Layout) -> Constraints:
        held = np.bincount(layout.line_of, np.nan_to_num(self.fixed))
        some = np.bincount(layout.line_of, np.isnan(self.fixed))
        if (held > 1 + ROUNDED).any() or ((some == 0) & (np.abs(held - 1) > ROUNDED)).any():
            raise wrong_constraint(
                "hold probabilities in a row of a table that sum to more than 1, or all and not to 1.", None
            )
        return self

    @property
    def constrained(self) -> np.ndarray:
        """(cells,): which cells are held or equal to others."""
        found: np.ndarray = ~self.is_free | (np.bincount(self.leader, minlength=len(self.leader)) > 1)[self.leader]
        return found

    @property
    def is_free(self) -> np.ndarray:
        """(cells,): which cells are not held."""
        found: np.ndarray = np.isnan(self.fixed)
        return found

    def pooled(self, counts: np.ndarray) -> np.ndarray:
        """Return counts in which those of equal rows are added."""
        found: np.ndarray = np.bincount(self.leader, counts, minlength=len(counts))[self.leader]
        return found

    def met(self, layout: Layout, values: np.ndarray, before: np.ndarray, supported: np.ndarray) -> np.ndarray:
        """Return rows proportional to given counts or probabilities that satisfy the constraints.

        What is left by held cells goes to the other cells in proportion; where these have no value, in proportion to
        what they were `before`, and where that is 0, too, evenly to those that may be positive (`supported`).
        """
        free, line = self.is_free, layout.line_of
        cells = np.where(free, self.pooled(values), 0.0)
        total = np.bincount(line, cells)
        for other in (before, supported):
            if (total <= 0).any():
                cells = np.where(free & (total <= 0)[line], self.pooled(other), cells)
                total = np.bincount(line, cells)
        left = np.maximum(1 - np.bincount(line, np.where(free, 0.0, self.fixed)), 0.0)
        share = np.divide(left, total, out=np.zeros_like(left), where=total > 0)
        return np.where(free, cells * share[line], self.fixed)

    def free_parameters(self, layout: Layout, learnt: np.ndarray) -> int:
        """Return the number of free parameters: cells not held, less one for each row; equal rows count once."""
        own = (self.leader == np.arange(layout.size)) & learnt & self.is_free
        return int(np.maximum(np.bincount(layout.line_of, own, minlength=len(layout.lines)) - 1, 0).sum())


def _shared(fixed: np.ndarray, leader: np.ndarray) -> np.ndarray:
    """Return the held probabilities, copied to all rows that are equal to a row with held cells."""
    known = ~np.isnan(fixed)
    low, high = np.full(len(fixed), np.inf), np.full(len(fixed), -np.inf)
    np.minimum.at(low, leader[known], fixed[known])
    np.maximum.at(high, leader[known], fixed[known])
    if (high > low).any():
        raise wrong_constraint("hold rows of tables that are equal at different probabilities.", None)
    found: np.ndarray = np.where(np.isfinite(low), low, np.nan)[leader]
    return found


def _equal_lines(parts: list[Any], layout: Layout, entry: Any) -> list[np.ndarray]:
    """Return the numbers of the lines of each set of equal rows, from whole tables or from named rows."""
    if all(isinstance(part, str) for part in parts):
        rows = {layout.table_shapes[layout.table_number(part)] for part in parts}
        if len(rows) > 1:
            raise wrong_constraint(f"make tables equal in {entry!r} that have different numbers of levels.", entry)
        return [np.array([_line_number(layout, part, row, entry) for part in parts]) for row in range(rows.pop()[0])]
    numeric = [part[0] for part in parts if isinstance(part, (list, tuple)) and len(part) == 3 and part[2] in MOMENTS]
    if numeric:
        message = f"name means or variances in {entry!r}, and {numeric[0]!r} is not a continuous column."
        raise wrong_constraint(message, entry)
    if not all(isinstance(part, (list, tuple)) and len(part) == 2 for part in parts):
        raise wrong_constraint(f"have an entry that is not one of them: {entry!r}.", entry, FORMS)
    found = np.array([_line_number(layout, part[0], part[1], entry) for part in parts])
    if len({int(np.diff(layout.lines, append=layout.size)[line]) for line in found}) > 1:
        raise wrong_constraint(f"make rows of tables equal in {entry!r} that have different numbers of levels.", entry)
    return [found]


def _line_number(layout: Layout, name: Any, row: Any, entry: Any) -> int:
    if row is None and name in layout.prior_names:
        return len(layout.lines) - len(layout.prior_names) + layout.prior_names.index(name)
    number = layout.table_number(name)
    rows = layout.table_shapes[number][0]
    if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < rows:
        raise wrong_constraint(
            f"have {row!r} in {entry!r}, which is not the number of a class; these are 0 to {rows - 1}.", entry
        )
    return sum(shape[0] for shape in layout.table_shapes[:number]) + int(row)
