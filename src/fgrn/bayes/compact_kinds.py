"""LogisticTable and DeterministicTable, and a registry of all kinds of compact tables by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import TableError
from ..core.labels import Label
from .compact_tables import (
    CompactTable,
    TableFamily,
    as_plain_numbers,
    checked_code,
    effects_by_parent,
    plain_effects,
    shaped_numbers,
)
from .logistic_effects import LogisticForm
from .noisy_tables import NoisyMax, NoisyOr


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

    def __repr__(self) -> str:
        return f"LogisticTable({as_plain_numbers(self.intercept)!r}, {plain_effects(self.effects)!r})"

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
        rows = effects_by_parent(self.effects, family) or {}
        parts = [shaped_numbers(self.intercept, f"The intercept of {family.child.name!r}", (1, width - 1))]
        for parent in family.parents:
            what = f"The effect of {parent.name!r} on {family.child.name!r}"
            parts.append(shaped_numbers(rows[parent.name], what, (parent.cardinality - 1, width - 1)))
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
        shown = plain_effects(effects_by_parent(self.effects, family))
        return {"kind": self.kind, "intercept": as_plain_numbers(self.intercept), "effects": shown}

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        effects = record.get("effects")
        if effects is not None and not isinstance(effects, Mapping):
            raise TableError("The record of a LogisticTable has no effects of its parents.")
        return cls(record.get("intercept"), effects)


@dataclass(frozen=True, eq=False)
class DeterministicTable(CompactTable):
    """A variable that is a function of its parents; its table is never learnt.

    Args:
        states: a function from the labels of the parents, in their order, to the label of the variable; or a list of
            these labels, nested by parent or with all joint states of the parents in one, the first parent slowest.
    """

    kind: ClassVar[str] = "deterministic"
    states: Callable[..., Label] | Sequence[Any]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.states == other.states

    __hash__ = None  # of lists there is none

    def form(self, family: TableFamily) -> None:
        """See `CompactTable`: there is nothing to learn."""
        return

    def _table(self, family: TableFamily) -> np.ndarray:
        cases, child = prod(family.sizes), family.child
        if callable(self.states):
            self._check_arguments(self.states, family)
            joint = np.ndindex(*family.sizes)
            labels = [
                self.states(*(parent.labels[code] for parent, code in zip(family.parents, codes, strict=True)))
                for codes in joint
            ]
        elif isinstance(self.states, str) or not isinstance(self.states, (Sequence, np.ndarray)):
            raise TableError(
                f"The DeterministicTable of {child.name!r} is a function or a list. Got {self.states!r} instead.",
                value=self.states,
                remedies="give the state of the variable for each joint state of its parents",
            )
        else:
            labels = _unnested(self.states, len(family.parents))
        if len(labels) != cases:
            raise TableError(
                f"The DeterministicTable of {child.name!r} has {len(labels):,} states, and its parents have {cases:,} "
                "joint states.",
                remedies="give one for each, the first parent slowest",
            )
        return np.eye(child.cardinality)[[child.code(label) for label in labels]]

    @staticmethod
    def _check_arguments(function: Callable[..., Label], family: TableFamily) -> None:
        """Raise an error if a function cannot be called with a state of each parent."""
        try:
            signature(function).bind(*family.parents)
        except ValueError:
            return  # a function without a known signature
        except TypeError as why:
            parents = ", ".join(parent.name for parent in family.parents)
            raise TableError(
                f"The function of the DeterministicTable of {family.child.name!r} cannot be called with a state of "
                f"each parent ({parents}): {why}.",
                remedies="give a function with an argument for each parent, in their order",
            ) from None

    def with_numbers(self, family: TableFamily, table: np.ndarray) -> Self:
        """See `CompactTable`."""
        return self

    def record(self, family: TableFamily) -> dict[str, Any]:
        """See `CompactTable`."""
        return {"kind": self.kind, "states": self._table(family).argmax(axis=1).tolist()}

    def written_record(self, family: TableFamily, table: np.ndarray) -> dict[str, Any]:
        """See `CompactTable`."""
        return self.record(family)

    @classmethod
    def from_record(cls, family: TableFamily, record: Mapping[str, Any]) -> Self:
        """See `CompactTable`."""
        states = record.get("states")
        if not isinstance(states, list):
            raise TableError("The record of a DeterministicTable has no list of states.")
        return cls([family.child.labels[checked_code(code, family.child)] for code in states])


COMPACT_KINDS = {one.kind: one for one in (NoisyOr, NoisyMax, LogisticTable, DeterministicTable)}
"""The kinds of compact tables by their names in model files."""


def compact_of_record(family: TableFamily, record: Mapping[str, Any]) -> CompactTable:
    """Return the compact table stored as JSON values."""
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in COMPACT_KINDS:
        raise TableError(f"There is no kind {kind!r} of compact tables.", value=kind)
    return COMPACT_KINDS[kind].from_record(family, record)


def _unwrapped(values: np.ndarray) -> Any:
    return float(values.ravel()[0]) if values.size == 1 else values.tolist()


def _unnested(states: Sequence[Any], depth: int) -> list[Any]:
    """Return the labels of a list that may be nested by parent."""
    found = list(states)
    while depth > 1 and found and all(isinstance(one, (list, tuple, np.ndarray)) for one in found):
        found = [label for some in found for label in some]
        depth -= 1
    return found
