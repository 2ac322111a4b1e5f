"""Constraints on continuous columns: means and variances held at given values, or equal in several states.

With W, X and Q the moments of the counts (see `gaussian_leaves`) and v the variances before, an update under
constraints is, over cells that are equal to each other,

    mean      sum of (X / v) / sum of (W / v)                      or the value that is given
    variance  sum of (Q - 2 m X + W m^2) / sum of W, with the new mean m    or the value that is given

Each of the two maximises the expected log-likelihood with the other as it is (Meng and Rubin 1993).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import ReadOnlyArrays, frozen
from ..core.exceptions import LearningError, Remedy

if TYPE_CHECKING:
    from .gaussian_leaves import GaussianLeaves

FORMS = (
    "('fixed', 'x', 0, 'mean', 2.5) or ('fixed', 'x', 0, 'variance', 1.0), and "
    "('equal', ('x', 0, 'mean'), ('x', 1, 'mean')) for classes 0 and 1"
)

MOMENTS = ("mean", "variance")


@dataclass(frozen=True, eq=False)
class MomentConstraints(ReadOnlyArrays):
    """The means and log variances that are held fixed, and those that are equal, in standardised units.

    fixed    (cells,): the value that a cell is held at; NaN where it is free
    leader   (cells,): the cell that each cell is equal to: itself, or the first of those that are equal
    """

    fixed: np.ndarray
    leader: np.ndarray

    @classmethod
    def of(cls, entries: Iterable[Any], leaves: GaussianLeaves) -> MomentConstraints:
        """Return the constraints from a list by name, see `FORMS`."""
        fixed, leader = np.full(leaves.size, np.nan), leaves.equal_cells.copy()
        for entry in entries:
            parts = list(entry)
            if parts[0] == "equal" and len(parts) > 2:
                cells = [_cell(leaves, part, entry) for part in parts[1:]]
                if len({(part[0], part[2]) for part in parts[1:]}) > 1:
                    raise wrong_constraint(f"make different columns or parts equal in {entry!r}.", entry, FORMS)
                first = leader[cells]
                leader[np.isin(leader, first)] = first.min()
            elif parts[0] == "fixed" and len(parts) == 5:
                cell = _cell(leaves, parts[1:4], entry)
                fixed[cell] = _held_at(leaves, parts, entry)
            else:
                raise _not_of_moments(entry)
        for cell in np.flatnonzero(~np.isnan(fixed)).tolist():
            others = fixed[leader == leader[cell]]
            if (others[~np.isnan(others)] != fixed[cell]).any():
                raise wrong_constraint("hold means or variances that are equal at different values.", None)
            fixed[leader == leader[cell]] = fixed[cell]
        return cls(frozen(fixed, np.float64), frozen(leader, np.intp))

    @property
    def is_free(self) -> np.ndarray:
        """(cells,): which cells are not held."""
        found: np.ndarray = np.isnan(self.fixed)
        return found

    def met(self, parameters: np.ndarray) -> np.ndarray:
        """Return the parameters with fixed ones at their values, and equal ones set to the first of them."""
        return np.where(self.is_free, parameters[self.leader], self.fixed)

    @property
    def free_parameters(self) -> int:
        """Return the number of free parameters; equal ones count once."""
        return len(np.unique(self.leader[self.is_free]))


def names_continuous(entry: Any, columns: tuple[str, ...]) -> bool:
    """Return whether a constraint refers to continuous columns."""
    parts = list(entry) if isinstance(entry, (list, tuple)) else []
    named = [part[0] if isinstance(part, (list, tuple)) and part else part for part in parts[1:]]
    return any(isinstance(name, str) and name in columns for name in named)


def _cell(leaves: GaussianLeaves, part: Any, entry: Any) -> int:
    """Return the number of the mean or variance given by (column, class, "mean" or "variance")."""
    if not isinstance(part, (list, tuple)) or len(part) != 3 or part[0] not in leaves.columns or part[2] not in MOMENTS:
        raise _not_of_moments(entry)
    name, state, what = part
    if isinstance(state, bool) or not isinstance(state, (int, np.integer)) or not 0 <= state < leaves.states:
        last = leaves.states - 1
        raise wrong_constraint(
            f"have {state!r} in {entry!r}, which is not the number of a class; these are 0 to {last}.", entry
        )
    cells = np.arange(leaves.size).reshape(2, *leaves.shape)
    return int(cells[MOMENTS.index(what), int(state), leaves.columns.index(name)])


def _held_at(leaves: GaussianLeaves, parts: list[Any], entry: Any) -> float:
    """Return the fixed value of a mean or variance, in standardised units."""
    name, what, value = parts[1], parts[3], parts[4]
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value)
    if not good or (what == "variance" and not value > 0):
        wanted = "positive number" if what == "variance" else "number"
        raise wrong_constraint(f"hold a {what} in {entry!r} that is not a {wanted}.", entry)
    place = leaves.columns.index(name)
    centre, scale = leaves.centres[place], leaves.scales[place]
    return float((value - centre) / scale if what == "mean" else np.log(value / scale**2))


def _not_of_moments(entry: Any) -> LearningError:
    message = (
        f"have an entry that is not one of them: {entry!r}. A continuous column is named with its mean or variance."
    )
    return wrong_constraint(message, entry, FORMS)


def wrong_constraint(message: str, entry: Any, forms: str = "") -> LearningError:
    """Return the error for an invalid constraint; lists the valid forms if its form is unknown."""
    remedies = [Remedy("write {}", forms, constraints=...)] if forms else []
    return LearningError(message, setting="constraints", value=entry, remedies=remedies)
