"""One step of a dynamic network as a Bayesian network: a slice, the states of earlier slices, and those handed on.

The variables of earlier slices that a slice depends on are copies, `x[-1]`, `x[-2]`, ..., with one state more: "not
there yet", in the first slices. All of them together are one variable, the `past`, whose states are those that can
occur; and what is handed on to the next slice is another, the `next`. With one copy of one variable both are left out:
the past is the copy, and the next the variable itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.distributions import frozen_array
from ..core.exceptions import TableError, WiringError, counted, shortened, unknown_name
from ..core.printing import memory_size
from ..core.variable import Variable
from .bayesian import BayesianNetwork
from .clique_memory import MEMORY_SHARE, machine_memory
from .compact_tables import CompactTable

MOST_LAG = 1024
"""The largest lag of a link."""

BYTES_PER_STEP_CELL = 256
"""Bytes for each pair of joint states before and after a slice, as measured: tables, cliques, messages of some rows."""


class Copy(NamedTuple):
    """A variable of an earlier slice, `lag` slices before."""

    name: str
    lag: int

    @property
    def called(self) -> str:
        """The name of the copy."""
        return f"{self.name}[-{self.lag}]"


def checked_links(known: Mapping[str, Variable], links: Any) -> dict[str, tuple[Copy, ...]]:
    """Return the copies that each variable depends on, from names, pairs (name, lag), or pairs (parent, child)."""
    found: dict[str, list[Copy]] = {}
    if not isinstance(links, Mapping):
        for given in settings.as_tuple_of_names("links", links, WiringError):
            pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
            if len(pair) not in (2, 3):
                raise WiringError(
                    f"A link is (parent, child) or (parent, child, lag). Got {given!r}.", remedies="write it so"
                )
            found.setdefault(settings.name_of(pair[1]), []).append(
                Copy(settings.name_of(pair[0]), pair[2] if len(pair) == 3 else 1)
            )
    else:
        for child, some in links.items():
            for one in settings.as_tuple_of_names("links", some, WiringError):
                pair = (one, 1) if isinstance(one, (str, Variable)) else one
                if not isinstance(pair, Sequence) or len(pair) != 2:
                    raise WiringError(f"A link is a name, or (name, lag). Got {one!r}.", remedies="write it so")
                found.setdefault(settings.name_of(child), []).append(Copy(settings.name_of(pair[0]), pair[1]))
    for child, copies in found.items():
        for name in (child, *(copy.name for copy in copies)):
            if name not in known:
                raise unknown_name("variable", name, known)
        for copy in copies:
            settings.whole("lag", copy.lag, 1, WiringError)
            if copy.lag > MOST_LAG:
                raise WiringError(f"A lag is at most {MOST_LAG:,}. Got {copy.lag:,}.", value=copy.lag)
        if len(set(copies)) < len(copies):
            raise WiringError(f"A link to {child!r} is there twice.", remedies="leave out one of them")
    return {child: tuple(copies) for child, copies in found.items()}


@dataclass(frozen=True, eq=False)
class SliceStructure:
    """The variables of a slice, their parents in it, and the copies of earlier ones that each depends on."""

    variables: Mapping[str, Variable]
    parents: Mapping[str, tuple[str, ...]]
    links: Mapping[str, tuple[Copy, ...]]

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """All copies that are kept from slice to slice: of each linked variable those up to its largest lag."""
        longest: dict[str, int] = {}
        for copy in (one for some in self.links.values() for one in some):
            longest[copy.name] = max(longest.get(copy.name, 0), copy.lag)
        return tuple(Copy(name, lag) for name in self.variables for lag in range(1, longest.get(name, 0) + 1))

    @property
    def order(self) -> int:
        """The largest lag: how many earlier slices a slice depends on."""
        return max((copy.lag for copy in self.copies), default=0)

    def size(self, copy: Copy) -> int:
        """Return the number of states of a copy: those of its variable, and "not there yet", which is the last."""
        return self.variables[copy.name].cardinality + 1

    @cached_property
    def is_plain(self) -> bool:
        """Whether exactly one copy of one variable is handed on."""
        return len(self.copies) == 1

    @cached_property
    def past(self) -> np.ndarray:
        """The states of the past as states of the copies, (states, copies); in the last, no copy exists yet."""
        sizes = [self.size(copy) for copy in self.copies]
        rows: list[tuple[int, ...]] = []
        total = sum(
            prod(size - 1 for copy, size in zip(self.copies, sizes, strict=True) if copy.lag <= time)
            for time in range(self.order + 1)
        )
        needed, limit = BYTES_PER_STEP_CELL * float(total) ** 2, MEMORY_SHARE * machine_memory()
        if needed > limit:
            raise WiringError(
                f"A slice has {total:,} joint states from earlier ones "
                f"({shortened((copy.called for copy in self.copies), 5)}), each of which may lead to any other; that "
                f"takes about {memory_size(needed)}, and the limit is {memory_size(limit)}, half of the memory "
                "of the machine.",
                remedies=("link fewer variables", "ask the network of some slices: unrolled(length)"),
            )
        for time in range(self.order, -1, -1):
            choices = [
                range(size - 1) if copy.lag <= time else (size - 1,)
                for copy, size in zip(self.copies, sizes, strict=True)
            ]
            rows += product(*choices)
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.copies))

    @cached_property
    def handed_on(self) -> np.ndarray:
        """For each state of the next, the state of the past one slice later."""
        return np.arange(len(self.past) - 1 if self.is_plain else len(self.past))

    @cached_property
    def now(self) -> tuple[str, ...]:
        """The variables of the step network that form the next, one for each copy."""
        return tuple(copy.name if copy.lag == 1 else Copy(copy.name, copy.lag - 1).called for copy in self.copies)

    @cached_property
    def next_places(self) -> np.ndarray:
        """The joint state of `now` for each state of the next, with the first variable slowest."""
        if self.is_plain:
            return self.handed_on
        there = np.array([self.variables[copy.name].cardinality + (copy.lag > 1) for copy in self.copies])
        found = np.full(len(self.past), -1)
        fine = (self.past < there).all(axis=1)
        found[fine] = np.ravel_multi_index(tuple(self.past[fine].T), tuple(there))
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a table in the step network: parents, copies, and the variable itself."""
        above = [self.variables[one].cardinality for one in self.parents[name]]
        copies = [self.size(copy) for copy in self.links.get(name, ())]
        return (*above, *copies, self.variables[name].cardinality)

    def lags(self, name: str) -> list[int]:
        """Return the distinct lags of the copies that a variable depends on, one per initial table."""
        return sorted({copy.lag for copy in self.links.get(name, ())})

    def stage(self, name: str, time: int) -> int:
        """Return how many lags of a variable exist in a slice; slices of the same stage share a table."""
        return sum(lag <= time for lag in self.lags(name))

    def cells(self, name: str, stage: int) -> tuple[Any, ...]:
        """Return the part of a variable's table for a stage: copies that do not exist yet have their last state."""
        above = [slice(None)] * len(self.parents[name])
        copies = self.links.get(name, ())
        time = [0, *self.lags(name)][stage]
        return (
            *above,
            *(slice(0, self.size(copy) - 1) if copy.lag <= time else self.size(copy) - 1 for copy in copies),
            slice(None),
        )

    def table(self, name: str, later: Any, first: Any) -> np.ndarray | None:
        """Return a table of the step network, from those of later and first slices; None if none is given."""
        if later is None and first is None:
            return None
        shape = self.shape(name)
        whole = np.zeros(shape)
        whole[..., 0] = 1  # in rows that never occur
        stages = len(self.lags(name))
        for stage in range(stages + 1):
            whole[self.cells(name, stage)] = 1 / shape[-1]
        starts = [first] if stages == 1 else first
        starts = list(starts) if isinstance(starts, Sequence) and not isinstance(starts, str) else starts
        listed = isinstance(starts, list) or (isinstance(starts, np.ndarray) and starts.ndim > 0)
        if first is not None and (not stages or not listed or len(starts) != stages):
            raise TableError(
                f"{name!r} has {counted(stages, 'initial table')}, one for each of its lags.",
                remedies="leave out `initial`" if not stages else "give each, the first slice first",
            )
        for stage, given in [(stages, later), *enumerate(starts if first is not None else ())]:
            if given is None:
                continue
            place = self.cells(name, stage)
            wanted = whole[place].shape
            what = f"The {'table' if stage == stages else 'initial table'} of {name!r}"
            if isinstance(given, CompactTable):
                raise TableError(
                    f"{what} is a {type(given).__name__}; a dynamic network has whole tables.",
                    remedies="give the array: the table of a BayesianNetwork of the variable and its parents",
                )
            array = frozen_array(given, what)
            if array is None or array.shape not in (wanted, (prod(wanted[:-1]), wanted[-1])):
                raise TableError(
                    f"{what} must have the shape {wanted}: its parents in the slice, its links, and "
                    f"itself. Got {np.shape(given)} instead."
                )
            whole[place] = array.reshape(wanted)
        return whole

    def support(self, name: str) -> np.ndarray | None:
        """Return which cells of a table can be positive; rows that never occur have one, so that none is learnt."""
        if not self.links.get(name):
            return None
        mask = np.zeros(self.shape(name), dtype=bool)
        mask[..., 0] = True
        for stage in range(len(self.lags(name)) + 1):
            mask[self.cells(name, stage)] = True
        return mask

    @cached_property
    def names(self) -> tuple[str, str]:
        """The names of the past and the next in the step network."""
        if self.is_plain:
            return self.copies[0].called, self.copies[0].name
        taken = {*self.variables, *(copy.called for copy in self.copies)}
        found = []
        for name in ("past", "next"):
            while name in taken:
                name += "*"
            found.append(name)
        return found[0], found[1]

    def network(self, tables: Mapping[str, Any], frozen: Sequence[str], name: str) -> BayesianNetwork:
        """Return the step network, with the tables of `table`."""
        past, handed = self.names
        variables: dict[str, Any] = {past: len(self.past)} if self.copies else {}
        parents: dict[str, tuple[str, ...]] = {}
        whole: dict[str, Any] = dict(tables)
        fixed = list(frozen)
        if self.copies:
            whole[past] = np.full((1, len(self.past)), 1 / len(self.past))
            fixed.append(past)
        if self.copies and not self.is_plain:
            for axis, copy in enumerate(self.copies):
                variables[copy.called] = self.size(copy)
                parents[copy.called] = (past,)
                whole[copy.called] = np.eye(self.size(copy))[self.past[:, axis]]
                fixed.append(copy.called)
        variables |= {one: variable.labels for one, variable in self.variables.items()}
        for one, above in self.parents.items():
            parents[one] = (*above, *(copy.called for copy in self.links.get(one, ())))
        if self.copies and not self.is_plain:
            variables[handed] = len(self.past)
            parents[handed] = self.now
            whole[handed] = self._handed_table()
            fixed.append(handed)
        supports = {one: mask for one in self.variables if (mask := self.support(one)) is not None}
        return BayesianNetwork(
            [Variable(one, states) for one, states in variables.items()],
            parents,
            {one: table for one, table in whole.items() if table is not None},
            frozen=fixed,
            supports=supports,
            name=name,
        )

    def _handed_table(self) -> np.ndarray:
        """Return the state of the next for each joint state of its parts; any state for those that never occur."""
        sizes = [self.variables[copy.name].cardinality + (copy.lag > 1) for copy in self.copies]
        number = {tuple(row): state for state, row in enumerate(self.past.tolist())}
        limits = np.array([self.size(copy) - 1 for copy in self.copies])
        rows = np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1) if sizes else np.zeros((1, 0))
        states = [number.get(tuple(row), 0) for row in np.minimum(rows, limits).astype(int).tolist()]
        return np.eye(len(self.past))[states].reshape(*sizes, len(self.past))
