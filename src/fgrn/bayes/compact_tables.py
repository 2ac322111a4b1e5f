"""Tables given by few parameters: noisy-or, noisy-max, logistic tables, and functions of the parents.

Each of them stands where a table of a `BayesianNetwork` does. The whole table is made of it for inference; `learn`
estimates the few parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import settings
from ..core.distributions import check_distribution, frozen_array, normalised_rows
from ..core.exceptions import Remedy, TableError, shortened, unknown_name
from ..core.labels import Label
from ..core.variable import Variable
from ..flow.table_forms import TableForm
from .logistic_effects import LogisticForm
from .noisy_effects import NoisyMaxForm

MOST_CELLS = 2**26
"""Cells of a table that is made of few parameters."""

AFFIRMATIVE = frozenset({"yes", "true", "y", "t", "present", "positive", "on"})
"""Labels that nobody means to be the state without an effect."""


class TableFamily(NamedTuple):
    """A variable and its parents, in the order of its table's axes."""

    parents: tuple[Variable, ...]
    child: Variable

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of states of the parents."""
        return tuple(parent.cardinality for parent in self.parents)


class CompactTable(ABC):
    """Base class of tables given by few parameters: `NoisyOr`, `NoisyMax`, `LogisticTable`, `DeterministicTable`."""

    kind: ClassVar[str]
    """The name of the form in model files."""

    def table(self, family: TableFamily) -> np.ndarray | None:
        """The whole table; None if `learn` has to draw numbers that are not given."""
        cells = prod((*family.sizes, family.child.cardinality))
        if cells > MOST_CELLS:
            raise TableError(
                f"The table of {family.child.name!r} would have {cells:,} cells, and at most {MOST_CELLS:,} are made.",
                remedies="join some of its parents to a variable between them and it",
            )
        return self._table(family)

    @abstractmethod
    def _table(self, family: TableFamily) -> np.ndarray | None:
        """See `table`."""

    @abstractmethod
    def form(self, family: TableFamily) -> TableForm | None:
        """How the few parameters are learnt; None if there are none."""

    @abstractmethod
    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """The same with the parameters that a table has."""

    @abstractmethod
    def record(self, family: TableFamily) -> dict[str, Any]:
        """All of it as JSON values."""

    @classmethod
    @abstractmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """Restore it from JSON values; a TableError or UnknownNameError if they make no sense."""


@dataclass(frozen=True, eq=False)
class NoisyMax(CompactTable):
    """A variable that is the largest of independent effects of its parents (Henrion, 1989; Diez, 1993).

    Each parent has, for each of its states, a distribution of its effect over the states of the variable, and no effect
    in its state `off`. The leak is the effect of all causes that are not among the parents.

    Args:
        effects: for each parent a row for each of its states, a distribution over the states of the variable; the row
            of its state `off` has all on the variable's. None: `learn` begins with random ones.
        leak: a distribution over the states of the variable; 0 for none. None: `learn` begins with a random one.
        off: the state without an effect: a label that all variables have, or one for each variable by name; the first
            state where nothing is given. That of the variable itself is its first or its last: the states are in
            the order of strength.
    """

    kind: ClassVar[str] = "noisy_max"
    effects: Mapping[Any, ArrayLike] | None = None
    leak: ArrayLike | None = 0.0
    off: Label | Mapping[Any, Label] | None = field(default=None, kw_only=True)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none

    def __repr__(self) -> str:
        effects = None if self.effects is None else {name: _listed(some) for name, some in self.effects.items()}
        off = "" if self.off is None else f", off={self.off!r}"
        return f"{type(self).__name__}({effects!r}, leak={_listed(self.leak)!r}{off})"

    def form(self, family: TableFamily) -> NoisyMaxForm:
        """See `CompactTable`."""
        child = family.child
        none = self._off_state(child)
        ranks = range(child.cardinality)
        if none not in (0, child.cardinality - 1):
            raise TableError(
                f"The state of {child.name!r} without an effect is the first or the last: its states are in the order "
                f"of strength. Got {child.labels[none]!r}.",
                value=child.labels[none],
                remedies="put its states in that order",
            )
        order = tuple(reversed(ranks)) if none and child.cardinality > 1 else tuple(ranks)
        off = tuple(self._off_state(parent) for parent in family.parents)
        given: list[np.ndarray | None] = [self._leak_row(child, order)]
        rows = _by_parent(self.effects, family)
        for parent, state in zip(family.parents, off, strict=True):
            given.append(None if rows is None else self._effect_rows(rows[parent.name], parent, state, child, order))
        return NoisyMaxForm(family.sizes, off, order, tuple(given))

    def _table(self, family: TableFamily) -> np.ndarray | None:
        form = self.form(family)
        return None if any(one is None for one in form.given) else form.before_start()

    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """See `CompactTable`."""
        form = self.form(family)
        leak, *effects = form.effects(table)
        rows = {parent.name: self._shown(some, form) for parent, some in zip(family.parents, effects, strict=True)}
        return type(self)(rows, self._shown_leak(leak[0], form), off=self.off)

    def record(self, family: TableFamily) -> dict[str, Any]:
        """See `CompactTable`."""
        effects = None if self.effects is None else _by_parent(self.effects, family)
        shown = None if effects is None else {name: _listed(some) for name, some in effects.items()}
        off = {one.name: self._off_state(one) for one in (*family.parents, family.child)}
        return {"kind": self.kind, "effects": shown, "leak": _listed(self.leak), "off": off}

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        codes, known = record.get("off"), {one.name: one for one in (*family.parents, family.child)}
        if not isinstance(codes, Mapping) or set(codes) != set(known):
            raise TableError(f"The record of a {cls.__name__} has no state without an effect for each variable.")
        off = {name: known[name].labels[_whole(code, known[name])] for name, code in codes.items()}
        effects = record.get("effects")
        if effects is not None and not isinstance(effects, Mapping):
            raise TableError(f"The record of a {cls.__name__} has no effects of its parents.")
        return cls(effects, record.get("leak"), off=off)

    def _off_state(self, variable: Variable) -> int:
        """The state in which a variable has, or is, no effect."""
        if isinstance(self.off, Mapping):
            named = settings.by_name(self.off)
            if variable.name in named:
                return variable.code(named[variable.name])
        elif self.off is not None:
            return variable.code(self.off)
        if str(variable.labels[0]).casefold() in AFFIRMATIVE:
            raise TableError(
                f"The first state of {variable.name!r} is {variable.labels[0]!r}, which would be the one without an "
                "effect.",
                value=variable.labels[0],
                remedies=Remedy("name the state without an effect", off=variable.labels[-1]),
            )
        return 0

    def _leak_row(self, child: Variable, order: Sequence[int]) -> np.ndarray | None:
        """The leak as a row over ranks."""
        if self.leak is None:
            return None
        if np.ndim(self.leak) == 0 and self.leak == 0:
            return np.eye(1, child.cardinality)
        what = f"The leak of {child.name!r}"
        return _distributions(self.leak, what, (child.cardinality,))[None, list(order)]

    def _effect_rows(
        self, rows: ArrayLike, parent: Variable, off: int, child: Variable, order: Sequence[int]
    ) -> np.ndarray:
        """The effects of a parent as rows over ranks."""
        what = f"The effect of {parent.name!r} on {child.name!r}"
        found = _distributions(rows, what, (parent.cardinality, child.cardinality))[:, list(order)]
        if found[off, 0] != 1:
            raise TableError(
                f"{what} where it is {parent.labels[off]!r} is none: all of that row is on {child.labels[order[0]]!r}.",
                value=parent.labels[off],
                remedies=("correct the row", Remedy("name another state without an effect", off=...)),
            )
        return found

    def _shown(self, rows: np.ndarray, form: NoisyMaxForm) -> Any:
        """The effects of a parent as they are given: by state of the child."""
        return form.by_state(rows).tolist()

    def _shown_leak(self, row: np.ndarray, form: NoisyMaxForm) -> Any:
        return 0.0 if row[0] == 1 else form.by_state(row[None])[0].tolist()


@dataclass(frozen=True, eq=False, repr=False)
class NoisyOr(NoisyMax):
    """A variable of two states that each parent may cause by itself (Pearl, 1988).

    P(no effect | parents) is the product of 1 - leak and of 1 - effect over the parents that are present.

    Args:
        effects: for each parent the probability that it causes the variable where it is present; for a parent of more
            than two states a probability for each state, 0 for `off`. None: `learn` begins with random ones.
        leak: the probability of the effect without any of the parents. None: `learn` begins with a random one.
        off: the state "absent": a label that all variables have, or one for each by name; the first where nothing is
            given.
    """

    kind: ClassVar[str] = "noisy_or"

    def form(self, family: TableFamily) -> NoisyMaxForm:
        """See `CompactTable`."""
        if family.child.cardinality != 2:
            raise TableError(
                f"A NoisyOr has two states, and {family.child.name!r} has {family.child.cardinality}.",
                remedies="use NoisyMax",
            )
        return super().form(family)

    def _leak_row(self, child: Variable, order: Sequence[int]) -> np.ndarray | None:
        if self.leak is None:
            return None
        leak = _probabilities(self.leak, f"The leak of {child.name!r}", 1)
        return np.stack([1 - leak, leak], axis=1)

    def _effect_rows(
        self, rows: ArrayLike, parent: Variable, off: int, child: Variable, order: Sequence[int]
    ) -> np.ndarray:
        what = f"The effect of {parent.name!r} on {child.name!r}"
        if np.ndim(rows) == 0:
            given = _probabilities(rows, what, 1)
            chances = np.where(np.arange(parent.cardinality) == off, 0.0, given)
        else:
            chances = _probabilities(rows, what, parent.cardinality)
        if chances[off] != 0:
            raise TableError(
                f"{what} where it is {parent.labels[off]!r} is 0. Got {chances[off]:g}.",
                value=float(chances[off]),
                remedies=Remedy("name another state without an effect", off=...),
            )
        return np.stack([1 - chances, chances], axis=1)

    def _shown(self, rows: np.ndarray, form: NoisyMaxForm) -> Any:
        chances = rows[:, 1].tolist()
        return max(chances) if len(chances) == 2 else chances  # that of the other state is 0

    def _shown_leak(self, row: np.ndarray, form: NoisyMaxForm) -> Any:
        return float(row[1])


@dataclass(frozen=True, eq=False)
class LogisticTable(CompactTable):
    """A variable whose log-odds are sums of effects of its parents: multinomial logistic regression.

    log P(state | parents) / P(first state | parents) is the intercept and one effect for each parent, by its state.
    The first state of each parent has the effect 0.

    Args:
        intercept: for each state of the variable but the first; a number if there are two.
        effects: for each parent an array, (its states but the first, those of the variable but the first); a number if
            both have two states. Without intercept and effects `learn` begins with random ones.
    """

    kind: ClassVar[str] = "logistic"
    intercept: ArrayLike | None = None
    effects: Mapping[Any, ArrayLike] | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none

    def __repr__(self) -> str:
        effects = None if self.effects is None else {name: _listed(some) for name, some in self.effects.items()}
        return f"LogisticTable({_listed(self.intercept)!r}, {effects!r})"

    def form(self, family: TableFamily) -> LogisticForm:
        """See `CompactTable`."""
        width = family.child.cardinality
        if (self.intercept is None) != (self.effects is None):
            raise TableError(
                f"The LogisticTable of {family.child.name!r} has an intercept and effects of its parents.",
                remedies="give both, or neither",
            )
        if width < 2:
            raise TableError(f"{family.child.name!r} has one state, of probability 1.", remedies="leave out its table")
        if self.intercept is None:
            return LogisticForm(family.sizes, width, None)
        rows = _by_parent(self.effects, family) or {}
        parts = [_shaped_numbers(self.intercept, f"The intercept of {family.child.name!r}", (1, width - 1))]
        for parent in family.parents:
            what = f"The effect of {parent.name!r} on {family.child.name!r}"
            parts.append(_shaped_numbers(rows[parent.name], what, (parent.cardinality - 1, width - 1)))
        return LogisticForm(family.sizes, width, np.concatenate(parts))

    def _table(self, family: TableFamily) -> np.ndarray | None:
        return None if self.intercept is None else self.form(family).before_start()

    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """See `CompactTable`."""
        found = self.form(family).coefficients(table)
        effects, at = {}, 1
        for parent in family.parents:
            effects[parent.name] = _unwrapped(found[at : at + parent.cardinality - 1])
            at += parent.cardinality - 1
        return type(self)(_unwrapped(found[0]), effects)

    def record(self, family: TableFamily) -> dict[str, Any]:
        """See `CompactTable`."""
        effects = _by_parent(self.effects, family)
        shown = None if effects is None else {name: _listed(some) for name, some in effects.items()}
        return {"kind": self.kind, "intercept": _listed(self.intercept), "effects": shown}

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        effects = record.get("effects")
        if effects is not None and not isinstance(effects, Mapping):
            raise TableError("The record of a LogisticTable has no effects of its parents.")
        return cls(record.get("intercept"), effects)


@dataclass(frozen=True, eq=False)
class DeterministicTable(CompactTable):
    """A variable that is a function of its parents; it is never learnt.

    Args:
        states: a function from the labels of the parents, in their order, to the label of the variable; or a list of
            these labels, nested by parent or with all joint states of the parents in one, the first parent slowest.
    """

    kind: ClassVar[str] = "deterministic"
    states: Callable[..., Label] | Sequence[Any]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.states == other.states

    __hash__ = None  # type: ignore[assignment]  # of lists there is none

    def form(self, family: TableFamily) -> None:
        """See `CompactTable`: there is nothing to learn."""
        return

    def _table(self, family: TableFamily) -> np.ndarray:
        cases, child = prod(family.sizes), family.child
        if callable(self.states):
            joint = np.ndindex(*family.sizes)
            labels = [
                self.states(*(parent.labels[code] for parent, code in zip(family.parents, codes, strict=True)))
                for codes in joint
            ]
        else:
            labels = _unnested(self.states, len(family.parents))
        if len(labels) != cases:
            raise TableError(
                f"The DeterministicTable of {child.name!r} has {len(labels):,} states, and its parents have {cases:,} "
                "joint states.",
                remedies="give one for each, the first parent slowest",
            )
        return np.eye(child.cardinality)[[child.code(label) for label in labels]]

    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """See `CompactTable`."""
        return self

    def record(self, family: TableFamily) -> dict[str, Any]:
        """See `CompactTable`."""
        return {"kind": self.kind, "states": self._table(family).argmax(axis=1).tolist()}

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        states = record.get("states")
        if not isinstance(states, list):
            raise TableError("The record of a DeterministicTable has no list of states.")
        return cls([family.child.labels[_whole(code, family.child)] for code in states])


KINDS = {one.kind: one for one in (NoisyOr, NoisyMax, LogisticTable, DeterministicTable)}
"""The kinds of compact tables by their names in model files."""


def _by_parent(given: Mapping[Any, Any] | None, family: TableFamily) -> dict[str, Any] | None:
    """What is given for each parent, by name; an error unless it is exactly the parents."""
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


def _distributions(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    array = _shaped_numbers(values, what, shape)
    check_distribution(array, what)
    return normalised_rows(array)


def _probabilities(values: Any, what: str, count: int) -> np.ndarray:
    array = _shaped_numbers(values, what, (count,))
    if not ((array >= 0) & (array <= 1)).all():
        raise TableError(f"{what} is a probability, from 0 to 1. Got {values!r}.", value=values)
    return array


def _shaped_numbers(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    """The values as an array of this shape; axes of one state may be left out."""
    array = frozen_array(values, what)
    if array is None or [size for size in array.shape if size != 1] != [size for size in shape if size != 1]:
        raise TableError(f"{what} must have the shape {shape}. Got {np.shape(values)} instead.", value=np.shape(values))
    if not np.isfinite(array).all():
        raise TableError(f"{what} has a number that is not finite.")
    return array.reshape(shape)


def _listed(values: Any) -> Any:
    """Numbers as lists, for texts and files."""
    return values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values


def _unwrapped(values: np.ndarray) -> Any:
    return float(values.ravel()[0]) if values.size == 1 else values.tolist()


def _unnested(states: Sequence[Any], depth: int) -> list[Any]:
    """The labels of a list that may be nested by parent."""
    found = list(states)
    while depth > 1 and found and all(isinstance(one, (list, tuple, np.ndarray)) for one in found):
        found = [label for some in found for label in some]
        depth -= 1
    return found


def _whole(code: object, variable: Variable) -> int:
    if type(code) is not int or not 0 <= code < variable.cardinality:
        raise TableError(f"{code!r} is not the number of a state of {variable.name!r}.")
    return code
