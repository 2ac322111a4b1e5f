"""CompactTable: base class of tables that are functions of few parameters, and checks of these.

Each of them stands where a table of a `BayesianNetwork` does. The whole table is made of it for inference; `learn`
estimates the few parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..core import settings
from ..core.distributions import check_distribution, frozen_array, normalised_rows
from ..core.exceptions import TableError, shortened, unknown_name
from ..core.variable import Variable
from ..flow.table_forms import TableForm

MOST_CELLS = 2**26
"""The most cells of the full table of a compact one."""


class TableFamily(NamedTuple):
    """A variable and its parents, in the order of its table's axes."""

    parents: tuple[Variable, ...]
    child: Variable

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of states of the parents."""
        return tuple(parent.cardinality for parent in self.parents)


class CompactTable(ABC):
    """Base class of tables with few parameters: `NoisyOr`, `NoisyMax`, `LogisticTable`, `DeterministicTable`."""

    kind: ClassVar[str]
    """The name of the form in model files."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none

    def table(self, family: TableFamily) -> np.ndarray | None:
        """Return the full table; None if `learn` has to draw numbers that are not given."""
        cells = prod((*family.sizes, family.child.cardinality))
        if cells > MOST_CELLS:
            raise TableError(
                f"The table of {family.child.name!r} would have {cells:,} cells; the limit is {MOST_CELLS:,}.",
                remedies="introduce a variable between some of its parents and it",
            )
        return self._table(family)

    @abstractmethod
    def _table(self, family: TableFamily) -> np.ndarray | None:
        """See `table`."""

    @abstractmethod
    def form(self, family: TableFamily) -> TableForm | None:
        """Return the form by which the parameters are learnt; None if there are none."""

    @abstractmethod
    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """Return the same kind of table with the parameters of a full table."""

    @abstractmethod
    def record(self, family: TableFamily) -> dict[str, Any]:
        """Return the family and all parameters as JSON values."""

    @classmethod
    @abstractmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """Return the table from JSON values; a TableError or UnknownNameError if they are not valid."""

    def written_record(self, family: TableFamily, table: np.ndarray) -> dict[str, Any] | None:
        """Return the parameters for a file of another program, see `Document`; None for the full table only."""
        return None


def effects_by_parent(given: Mapping[Any, Any] | None, family: TableFamily) -> dict[str, Any] | None:
    """Return the given values for each parent, by name; an error unless all parents and no others have one."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TableError(
            f"The effects on {family.child.name!r} are a mapping from its parents. Got {given!r} instead.", value=given
        )
    named, names = settings.by_name(given), [parent.name for parent in family.parents]
    for name in named:
        if name not in names:
            raise unknown_name(f"parent of {family.child.name!r} called", name, names)
    missing = [name for name in names if name not in named]
    if missing:
        raise TableError(
            f"The effects on {family.child.name!r} leave out {shortened(map(repr, missing))}.",
            value=missing,
            remedies="give one for each parent",
        )
    return {name: named[name] for name in names}


def checked_distributions(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the values as an array of distributions; an error if they are not distributions."""
    array = shaped_numbers(values, what, shape)
    check_distribution(array, what)
    return normalised_rows(array)


def checked_probabilities(values: Any, what: str, count: int) -> np.ndarray:
    """Return the values as an array of numbers from 0 to 1; an error if they are not."""
    array = shaped_numbers(values, what, (count,))
    if not ((array >= 0) & (array <= 1)).all():
        raise TableError(f"{what} is a probability, from 0 to 1. Got {values!r}.", value=values)
    return array


def shaped_numbers(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the values as an array of this shape; axes of length 1 may be left out."""
    array = frozen_array(values, what)
    if array is None or [size for size in array.shape if size != 1] != [size for size in shape if size != 1]:
        raise TableError(f"{what} must have the shape {shape}. Got {np.shape(values)} instead.", value=np.shape(values))
    if not np.isfinite(array).all():
        raise TableError(f"{what} has a number that is not finite.")
    return array.reshape(shape)


def plain_effects(effects: Mapping[Any, Any] | None) -> dict[Any, Any] | None:
    """Return the effects of parents as lists, for texts and files."""
    return None if effects is None else {name: as_plain_numbers(some) for name, some in effects.items()}


def as_plain_numbers(values: Any) -> Any:
    """Return numbers as lists, for texts and files."""
    return values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values


def checked_code(code: object, variable: Variable) -> int:
    """Return the number of a state from a file; an error if it is not valid."""
    if type(code) is not int or not 0 <= code < variable.cardinality:
        raise TableError(f"{code!r} is not the number of a state of {variable.name!r}.")
    return code
