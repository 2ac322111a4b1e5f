"""Sums over missing values in rows of a junction tree, given the state of one hidden variable: the hub.

The missing variables of a row are eliminated one by one, in an order that is the same for all rows. The sum over the
values x of a variable, of the product of

    the cells of the tables that have this variable, and no missing one that comes before it in the order, and
    the sums over variables before it, if these depend on x and on no missing variable before it,

depends on the hub and on missing variables that come later. Where there are none of these, it is a factor of the
likelihood of the row. Rows share a sum if they are equal in all it depends on. So the work grows with the rows and
variables, not with the joint states of what is missing. Rows in which a sum depends on too much are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..plan.junction_tables import JunctionTables
from ..tables.frames import UNKNOWN

MOST_STATES = 2**12, 2**8
"""The joint states of a variable and the missing variables that the sum over it depends on, at most; and the limit if
there are too many factors otherwise."""

MOST_FACTORS = 2**23
"""The factors in all sums, at most."""


class RowSums(NamedTuple):
    """The sums over the missing values of some rows, in the form of `NestedSums`, with a one after the given values.

    codes            (rows, places): for each factor of the likelihood of a row, in any place, its number among the
                     `leaves` of this place; UNKNOWN if a row has fewer
    leaves           of each place: the numbers of the sums that are these factors, (states of the hub, factors)
    others           the numbers of the rows that are left out
    factors, factors_of_term, terms_of_sum  see `NestedSums`
    """

    codes: np.ndarray
    leaves: Sequence[np.ndarray]
    others: np.ndarray
    factors: np.ndarray
    factors_of_term: np.ndarray
    terms_of_sum: np.ndarray


def sums_over_missing(model: JunctionTables, hub: int, codes: np.ndarray, missing: np.ndarray) -> RowSums | None:
    """Return the sums over the missing values of some rows; None if they have more than MOST_FACTORS factors.

    Args:
        model: the tables.
        hub: the number of the hub, which counts as known.
        codes: (rows, variables).
        missing: (rows, variables): which of them are missing.
    """
    eliminated = np.flatnonzero(missing.any(axis=0)).tolist()
    later = elimination_order([table.variables_beside(hub) for table in model.tables], eliminated)
    for most in MOST_STATES:
        found = _Elimination(model, hub, codes, missing, later, most)
        if all(found.eliminate(variable) for variable in later):
            return found.sums()
    return None


def elimination_order(scopes: Sequence[Sequence[int]], eliminated: Sequence[int]) -> dict[int, list[int]]:
    """Return variables in an order of elimination, each with those that the sum over it may depend on.

    The next one is always one whose sum depends on the fewest.
    """
    beside = {number: set[int]() for number in eliminated}
    for scope in scopes:
        for number in beside.keys() & set(scope):
            beside[number] |= (beside.keys() & set(scope)) - {number}
    found: dict[int, list[int]] = {}
    while beside:
        number = min(beside, key=lambda one: (len(beside[one]), one))
        others = beside.pop(number)
        for other in others:
            beside[other] = (beside[other] | others) - {number, other}
        found[number] = sorted(others)
    return found


def distinct_codes(columns: Iterable[np.ndarray], levels: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each group of equal rows, and the group of each row, in the order of their values.

    Args:
        columns: of non-negative integers.
        levels: more than the largest integer of each column.
    """
    keys, most = np.zeros(1, dtype=np.int64), 1
    for column, count in zip(columns, levels, strict=True):
        if most * count > np.iinfo(np.int64).max:
            keys = np.unique(keys, return_inverse=True)[1]
            most = len(keys)
        keys, most = keys * count + column, most * count
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which


class _SumsOver(NamedTuple):
    """The different sums over one variable.

    at       where each begins, among all values
    joint    how many joint states the missing variables have that it depends on: so many sums for each state of the hub
    strides  of these variables: how far sums of neighbouring states are apart; 0 if it does not depend on one
    """

    at: np.ndarray
    joint: np.ndarray
    strides: Mapping[int, np.ndarray]


class _Factors(NamedTuple):
    """Factors of the sums over a variable: a table, or sums over another variable.

    has    of each sum: whether it has such a factor
    place  returns the numbers of cells, given the number of each sum, the states of the missing variables, and that of
           the hub; any number where there is no such factor
    """

    has: np.ndarray
    place: Callable[[np.ndarray, Mapping[int, np.ndarray], np.ndarray], np.ndarray]


class _Elimination:
    """The elimination of the missing variables of some rows; see the module docstring.

    Args:
        model: the tables.
        hub: the number of the hub.
        codes: (rows, variables).
        missing: (rows, variables).
        later: the order of elimination, see `elimination_order`.
        most: joint states of a variable and the missing variables that the sum over it depends on, at most.
    """

    def __init__(
        self,
        model: JunctionTables,
        hub: int,
        codes: np.ndarray,
        missing: np.ndarray,
        later: Mapping[int, Sequence[int]],
        most: int,
    ) -> None:
        self._model, self._hub, self._later, self._most = model, hub, later, most
        self._codes, self._missing = np.asfortranarray(codes), np.array(missing, order="F")
        self._left_out = np.zeros(len(codes), dtype=np.bool_)
        self._used = [np.zeros(len(codes), dtype=np.bool_) for _ in model.tables]
        self._waiting: dict[int, np.ndarray] = {}  # of each variable: the sum over it that a row has yet to use, or -1
        self._over: dict[int, _SumsOver] = {}
        self._roots: list[tuple[np.ndarray, np.ndarray]] = []  # rows, and where the sum begins that is a factor of each
        self._values, self._count = model.layout_size + 1, 0
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def eliminate(self, variable: int) -> bool:
        """Sum over a variable in the rows in which it is missing; False if there are too many factors."""
        rows = np.flatnonzero(self._missing[:, variable])
        beside = [number for number, table in enumerate(self._model.tables) if variable in table.scope]
        has_table = {number: ~self._used[number][rows] for number in beside}
        before = {one: self._waiting[one][rows] for one in self._over if variable in self._later[one]}
        first, which = distinct_codes(*zip(*self._dependences(variable, rows, has_table, before), strict=True))
        some = rows[first]
        depends = self._depends(variable, some)
        sizes = np.array([[float(self._model.sizes[other])] for other in self._later[variable]]).reshape(-1, 1)
        joint = np.where(depends, sizes, 1.0).prod(axis=0) * self._model.sizes[variable]
        if (is_large := joint > self._most)[which].any():
            self._leave_out(rows[is_large[which]])
            return self.eliminate(variable)
        for number in beside:
            self._used[number][rows] = True
        for one, waiting in before.items():
            self._waiting[one][rows[waiting >= 0]] = -1
        sums = self._located(variable, depends)
        factors = [self._of_table(number, has[first], some) for number, has in has_table.items()]
        factors += [self._of_sums(one, waiting[first]) for one, waiting in before.items()]
        if not self._add(variable, sums, factors):
            return False
        self._over[variable] = sums
        is_root = (depends.sum(axis=0) == 0)[which]
        self._roots.append((rows[is_root], sums.at[which[is_root]]))
        self._waiting[variable] = np.full(len(self._codes), -1)
        self._waiting[variable][rows[~is_root]] = which[~is_root]
        return True

    def _leave_out(self, rows: np.ndarray) -> None:
        """Leave out some rows: nothing is missing there any more."""
        self._left_out[rows] = True
        self._missing[rows] = False
        for waiting in self._waiting.values():
            waiting[rows] = -1

    def sums(self) -> RowSums:
        """Return the sums over all variables that were eliminated."""
        states = np.arange(self._model.sizes[self._hub])
        place, leaves = np.zeros(len(self._codes), dtype=np.int64), []
        rows = np.concatenate([np.zeros(0, dtype=np.intp), *(rows for rows, _ in self._roots)])
        at = np.concatenate([np.zeros(0, dtype=np.int64), *(at for _, at in self._roots)])
        places = np.empty_like(at)
        begin = 0
        for some, _ in self._roots:
            places[begin : begin + len(some)] = place[some]
            place[some] += 1
            begin += len(some)
        codes = np.full((len(self._codes), int(place.max(initial=0))), UNKNOWN, dtype=np.int64)
        for number in range(codes.shape[1]):
            here = places == number
            different, codes[rows[here], number] = np.unique(at[here], return_inverse=True)
            leaves.append(different + states[:, None])
        nothing = np.zeros(0, dtype=np.int64)
        factors, of_term, of_sum = (
            np.concatenate([nothing, *parts]) for parts in zip(*self._parts, (nothing,) * 3, strict=True)
        )
        return RowSums(codes, leaves, np.flatnonzero(self._left_out), factors, _bounds(of_term), _bounds(of_sum))

    def _depends(self, variable: int, rows: np.ndarray) -> np.ndarray:
        """Return which of the variables after one are missing in some rows, (variables, rows)."""
        return self._missing.T[list(self._later[variable])][:, rows]

    def _dependences(
        self, variable: int, rows: np.ndarray, has_table: Mapping[int, np.ndarray], before: Mapping[int, np.ndarray]
    ) -> Iterator[tuple[np.ndarray, int]]:
        """Yield what the sums over a variable depend on in some rows, and how many values each of this may have."""
        model, known = self._model, dict[int, np.ndarray]()
        for number, has in has_table.items():
            for other in model.tables[number].variables_beside(self._hub):
                if other != variable:
                    known[other] = known.get(other, False) | has
            yield has, 2
        for other, matters in known.items():
            size = model.sizes[other]
            states = np.where(self._missing[rows, other], size, self._codes[rows, other])
            yield np.where(matters, states, size + 1), size + 2
        for is_missing in self._depends(variable, rows):
            yield is_missing, 2
        for one, which in before.items():
            yield which + 1, len(self._over[one].at) + 1

    def _located(self, variable: int, depends: np.ndarray) -> _SumsOver:
        """Return where sums over a variable will be, after all values so far, given which variables they depend on."""
        joint, strides = np.ones(depends.shape[1], dtype=np.int64), {}
        for other, is_missing in zip(self._later[variable], depends, strict=True):
            if is_missing.any():
                strides[other] = np.where(is_missing, joint, 0)
                joint = np.where(is_missing, joint * self._model.sizes[other], joint)
        lengths = joint * self._model.sizes[self._hub]
        return _SumsOver(self._values + np.cumsum(lengths) - lengths, joint, strides)

    def _of_table(self, number: int, has: np.ndarray, rows: np.ndarray) -> _Factors:
        """Return a table as a factor of sums, each for one of some rows."""
        table, hub = self._model.tables[number], self._hub
        at, steps = np.full(len(rows), table.at), {}
        for other in table.variables_beside(hub):
            is_missing, of_codes = self._missing[rows, other], table.steps[other] * self._codes[rows, other]
            if is_missing.any():
                steps[other] = np.where(is_missing, table.steps[other], 0)
                of_codes[is_missing] = 0
            at += of_codes

        def place(sums: np.ndarray, states: Mapping[int, np.ndarray], of_hub: np.ndarray) -> np.ndarray:
            cells: np.ndarray = at[sums] + table.steps.get(hub, 0) * of_hub
            for other, step in steps.items():
                if other in states:
                    cells += step[sums] * states[other]
            return cells

        return _Factors(has, place)

    def _of_sums(self, one: int, which: np.ndarray) -> _Factors:
        """Return sums over a variable as a factor of others, given which sum each has, -1 for none."""
        over = self._over[one]

        def place(sums: np.ndarray, states: Mapping[int, np.ndarray], of_hub: np.ndarray) -> np.ndarray:
            chosen = which[sums]
            cells: np.ndarray = over.at[chosen] + over.joint[chosen] * of_hub
            for other, stride in over.strides.items():
                if other in states:
                    cells += stride[chosen] * states[other]
            return cells

        return _Factors(which >= 0, place)

    def _add(self, variable: int, sums: _SumsOver, factors: Sequence[_Factors]) -> bool:
        """Append the terms of sums over a variable: for each state of the hub, joint state of the others, and state."""
        hub, size = self._model.sizes[self._hub], self._model.sizes[variable]
        lengths, each = sums.joint * size, np.sum([one.has for one in factors], axis=0)
        begins = hub * (np.cumsum(lengths * each) - lengths * each)
        count = int((hub * lengths) @ each)
        self._count += count
        if self._count > MOST_FACTORS:
            return False
        terms = hub * lengths
        which, term = np.repeat(np.arange(len(terms)), terms), _counting(terms)
        of_hub, rest = np.divmod(term, lengths[which])
        joint, state = np.divmod(rest, size)
        states = {variable: state}
        for other, stride in sums.strides.items():
            step = stride[which]
            states[other] = np.where(step > 0, joint // np.maximum(step, 1) % self._model.sizes[other], 0)
        found, place = np.empty(count, dtype=np.int64), begins[which] + term * each[which]
        for one in factors:
            numbers = one.place(which, states, of_hub)
            if one.has.all():
                found[place] = numbers
                place += 1
            else:
                has = one.has[which]
                found[place[has]] = numbers[has]
                place += has
        total = int(hub * sums.joint.sum())
        self._parts.append((found, np.repeat(each, terms), np.full(total, size)))
        self._values += total
        return True


def _counting(lengths: np.ndarray) -> np.ndarray:
    """Return 0, 1, ... below each of some lengths, one after the other."""
    found: np.ndarray = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return found


def _bounds(lengths: np.ndarray) -> np.ndarray:
    """Return where parts of these lengths begin, and the end."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
