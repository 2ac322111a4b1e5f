"""NoisyMax and NoisyOr: tables of variables that are the maximum of independent effects of their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import settings
from ..core.exceptions import Remedy, TableError
from ..core.labels import Label
from ..core.variable import Variable
from .compact_tables import (
    CompactTable,
    TableFamily,
    as_plain_numbers,
    checked_code,
    checked_distributions,
    checked_probabilities,
    effects_by_parent,
    plain_effects,
)
from .noisy_effects import NoisyMaxForm

AFFIRMATIVE = frozenset({"yes", "true", "y", "t", "present", "positive", "on"})
"""Labels that cannot mean the state without an effect."""


@dataclass(frozen=True, eq=False)
class NoisyMax(CompactTable):
    """A variable that is the maximum of independent effects of its parents (Henrion, 1989; Diez, 1993).

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

    def __repr__(self) -> str:
        off = "" if self.off is None else f", off={self.off!r}"
        return f"{type(self).__name__}({plain_effects(self.effects)!r}, leak={as_plain_numbers(self.leak)!r}{off})"

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
        rows = effects_by_parent(self.effects, family)
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
        shown = plain_effects(effects_by_parent(self.effects, family))
        off = {one.name: self._off_state(one) for one in (*family.parents, family.child)}
        return {"kind": self.kind, "effects": shown, "leak": as_plain_numbers(self.leak), "off": off}

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        codes, known = record.get("off"), {one.name: one for one in (*family.parents, family.child)}
        if not isinstance(codes, Mapping) or set(codes) != set(known):
            raise TableError(f"The record of a {cls.__name__} has no state without an effect for each variable.")
        off = {name: known[name].labels[checked_code(code, known[name])] for name, code in codes.items()}
        effects = record.get("effects")
        if effects is not None and not isinstance(effects, Mapping):
            raise TableError(f"The record of a {cls.__name__} has no effects of its parents.")
        return cls(effects, record.get("leak"), off=off)

    def written_record(self, family: TableFamily, table: np.ndarray) -> dict[str, Any]:
        """See `CompactTable`."""
        form = self.form(family)
        leak, *effects = (form.by_state(some).tolist() for some in form.effects(table))
        rows = {parent.name: some for parent, some in zip(family.parents, effects, strict=True)}
        off = {one.name: self._off_state(one) for one in (*family.parents, family.child)}
        return {"kind": NoisyMax.kind, "effects": rows, "leak": leak[0], "off": off}

    def _off_state(self, variable: Variable) -> int:
        """Return the state of a variable that means no effect."""
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
        """Return the leak as a row over ranks."""
        if self.leak is None:
            return None
        if np.ndim(self.leak) == 0 and self.leak == 0:
            return np.eye(1, child.cardinality)
        what = f"The leak of {child.name!r}"
        return checked_distributions(self.leak, what, (child.cardinality,))[None, list(order)]

    def _effect_rows(
        self, rows: ArrayLike, parent: Variable, off: int, child: Variable, order: Sequence[int]
    ) -> np.ndarray:
        """Return the effects of a parent as rows over ranks."""
        what = f"The effect of {parent.name!r} on {child.name!r}"
        found = checked_distributions(rows, what, (parent.cardinality, child.cardinality))[:, list(order)]
        if found[off, 0] != 1:
            raise TableError(
                f"{what} where it is {parent.labels[off]!r} is none: all of that row is on {child.labels[order[0]]!r}.",
                value=parent.labels[off],
                remedies=("correct the row", Remedy("name another state without an effect", off=...)),
            )
        return found

    def _shown(self, rows: np.ndarray, form: NoisyMaxForm) -> Any:
        """Return the effects of a parent in the form of the arguments: by state of the child."""
        return form.by_state(rows).tolist()

    def _shown_leak(self, row: np.ndarray, form: NoisyMaxForm) -> Any:
        return 0.0 if row[0] == 1 else form.by_state(row[None])[0].tolist()


@dataclass(frozen=True, eq=False, repr=False)
class NoisyOr(NoisyMax):
    """A variable of two states that each parent can cause independently (Pearl, 1988).

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
        leak = checked_probabilities(self.leak, f"The leak of {child.name!r}", 1)
        return np.stack([1 - leak, leak], axis=1)

    def _effect_rows(
        self, rows: ArrayLike, parent: Variable, off: int, child: Variable, order: Sequence[int]
    ) -> np.ndarray:
        what = f"The effect of {parent.name!r} on {child.name!r}"
        if np.ndim(rows) == 0:
            given = checked_probabilities(rows, what, 1)
            chances = np.where(np.arange(parent.cardinality) == off, 0.0, given)
        else:
            chances = checked_probabilities(rows, what, parent.cardinality)
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
