"""Search over orders of columns, in which each has the best parents among those before it (Teyssier and Koller, 2005).

There are fewer orders than structures, none has a cycle, and one step changes many arcs at once. A step moves a column
to another place: it goes there by exchanges of two columns next to each other, which change what these two may have as
parents. The parents of a column are chosen one by one (Cooper and Herskovits, 1992), each time the one that gains most,
and taken away or exchanged for another where that gains; parents found for one order are remembered for all others.
Where no step gains, the best order is shaken and improved again (iterated local search: Lourenço, Martin and Stützle,
2003): a stretch of it is turned round, or columns are moved at random.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .arc_rules import ArcRules
from .bayesian import causes_first
from .climbing import GAIN_DIGITS, LEAST_GAIN, Parents
from .scores import FamilyScores

ROUNDS = 8
"""How often an order is shaken unless a number is given; fewer times if twice as many families are counted by then."""

MOVED_SHARES = (8, 2)
"""Of how many columns one is moved when an order is shaken, in turns."""

Family = tuple[int, frozenset[int]]
"""A column and its parents."""


class _Remembered(NamedTuple):
    """Parents of a column found for some order; sorted by score, highest first."""

    rank: tuple[float, int, tuple[int, ...]]
    score: float
    parents: frozenset[int]
    bits: int  # the parents, as a number with a bit for each


@dataclass
class OrderSearch:
    """A local search over orders, under rules on arcs.

    Attributes:
        scores: of families.
        rules: for arcs.
        watch: called with the number of steps and the score after each step; the search ends when it returns True.
    """

    scores: FamilyScores
    rules: ArcRules
    watch: Callable[[int, float], object] | None = None
    steps: int = 0
    stopped: bool = False
    _chosen: dict[int, dict[int, _Remembered]] = field(default_factory=dict)
    _known: dict[int, list[_Remembered]] = field(default_factory=dict)
    _paths: dict[int, list[tuple[int, int, frozenset[int]]]] = field(default_factory=dict)  # see `_greedy`
    _kept: set[Family] = field(default_factory=set)
    _gaining: dict[Family, list[int]] = field(default_factory=dict)
    _gaining_instead: dict[Family, list[tuple[int, frozenset[int]]]] = field(default_factory=dict)
    _settled: dict[Family, frozenset[int]] = field(default_factory=dict)

    def run(self, start: Parents, restarts: int | None, seed: int) -> Parents:
        """Return the best structure found, starting from the order of a given one, whose parents are candidates too.

        Args:
            start: the structure to begin with, which keeps the rules.
            restarts: how often to shake the best order and go on from there; `ROUNDS` unless given.
            seed: of what is random.
        """
        for child, parents in enumerate(start):
            self._remember(child, parents)
        random = np.random.default_rng(seed)
        names = self.rules.names
        order = causes_first({name: [names[one] for one in some] for name, some in zip(names, start, strict=True)})
        best = self._improved(_Order.of(self, [names.index(name) for name in order]), random)
        most = np.inf if restarts is not None else 2 * self.scores.counted
        for number in range(ROUNDS if restarts is None else restarts):
            if self.stopped or self.scores.counted > most:
                break
            moved = self._shaken(best, number, random)
            found = self._improved(moved, random)
            if found.total > best.total + LEAST_GAIN:
                best = found
        return tuple(best.parents(child) for child in range(len(start)))

    def _shaken(self, order: _Order, number: int, random: np.random.Generator) -> _Order:
        """A copy of an order, changed at random: in turns a stretch of it is turned round, or columns are moved."""
        moved, count = _Order.of(self, list(order.columns)), len(order.columns)
        if number % 2 == 0:
            first, last = sorted(random.integers(count, size=2).tolist())
            for place, column in enumerate(reversed(moved.columns[first : last + 1]), first):
                moved.shift(moved.columns.index(column), place)
            return moved
        some = max(2, count // MOVED_SHARES[number // 2 % len(MOVED_SHARES)])
        for column in random.integers(count, size=some).tolist():
            moved.shift(moved.columns.index(column), int(random.integers(count)))
        return moved

    def _improved(self, order: _Order, random: np.random.Generator) -> _Order:
        """Move each column to its best position, until no move gains."""
        unmoved = 0
        line: list[int] = []
        while unmoved < len(order.columns) and not self.stopped:
            line = line or random.permutation(len(order.columns)).tolist()
            if order.place_best(line.pop()):
                unmoved = 0
                self.steps += 1
                if self.watch is not None and self.watch(self.steps, float(order.total)) is True:
                    self.stopped = True
            else:
                unmoved += 1
        return order

    def family(self, child: int, before: int) -> _Remembered:
        """Return the best parents of a column among those before it, given as bits of an integer."""
        mine = self._chosen.get(child)
        if mine is None:
            mine = self._chosen[child] = {}
        found = mine.get(before)
        if found is None:
            self._remember(child, self._greedy(child, before))
            outside = ~before
            found = mine[before] = next(one for one in self._known[child] if not one.bits & outside)  # the best first
        return found

    def _remember(self, child: int, parents: frozenset[int]) -> None:
        """Store parents of a column as candidates for later orders."""
        if (child, parents) not in self._kept:
            self._kept.add((child, parents))
            score = self.scores.score(child, parents)
            rank = -round(score, GAIN_DIGITS), len(parents), tuple(sorted(parents))
            one = _Remembered(rank, score, parents, sum(1 << one for one in parents))
            insort(self._known.setdefault(child, []), one)

    def _greedy(self, child: int, before: int) -> frozenset[int]:
        """Return parents among the columns before, added and removed one by one while the score increases.

        Of the columns before only those count that were taken, and that would have been taken sooner: with the same of
        both, the parents of another order are found again.
        """
        paths = self._paths.setdefault(child, [])
        for taken, sooner, parents in paths:
            if not taken & ~before and not sooner & before:
                return parents
        parents = frozenset(np.flatnonzero(self.rules.required[:, child]).tolist())
        taken = sooner = 0
        while True:
            new = None
            for one in self._additions(child, parents):
                if before >> one & 1:
                    taken, new = taken | 1 << one, parents | {one}
                    break
                sooner |= 1 << one
            else:
                for one, exchanged in self._exchanges(child, parents):
                    if before >> one & 1:
                        taken, new = taken | 1 << one, exchanged
                        break
                    sooner |= 1 << one
            if new is None:
                paths.append((taken, sooner, parents))
                return parents
            parents = self._reduced(child, new)

    def _additions(self, child: int, parents: frozenset[int]) -> list[int]:
        """Return the columns that gain as another parent, largest gain first."""
        key = child, parents
        found = self._gaining.get(key)
        if found is None:
            found = []
            if len(parents) < self.rules.most:
                more = self.scores.with_one_more(child, parents, self.rules.allowed[:, child])
                gains = np.round(more - self.scores.score(child, parents), GAIN_DIGITS)
                order = np.argsort(-gains, kind="stable")
                found = order[gains[order] > LEAST_GAIN].tolist()
            self._gaining[key] = found
        return found

    def _exchanges(self, child: int, parents: frozenset[int]) -> list[tuple[int, frozenset[int]]]:
        """Return the columns that gain in place of a parent, with the new parents, largest gain first."""
        key = child, parents
        found = self._gaining_instead.get(key)
        if found is None:
            now, every = self.scores.score(child, parents), list[tuple[float, int, frozenset[int]]]()
            for old in sorted(parents):
                if self.rules.required[old, child]:
                    continue
                rest = parents - {old}
                more = self.scores.with_one_more(child, rest, self.rules.allowed[:, child])
                gains = np.round(more - now, GAIN_DIGITS)
                every += [(-gains[one], one, rest | {one}) for one in np.flatnonzero(gains > LEAST_GAIN).tolist()]
            every.sort(key=lambda one: one[:2])
            found = self._gaining_instead[key] = [(one, new) for _, one, new in every]
        return found

    def _reduced(self, child: int, parents: frozenset[int]) -> frozenset[int]:
        """Return parents after removing, one by one, those without which the score is higher."""
        key = child, parents
        found = self._settled.get(key)
        if found is None:
            found, now = parents, self.scores.score(child, parents)
            while len(found) > 1:
                free = [one for one in found if not self.rules.required[one, child]]
                less = max(((self.scores.score(child, found - {one}), -one) for one in free), default=(-np.inf, 0))
                if less[0] <= now + LEAST_GAIN:
                    break
                found, now = found - {-less[1]}, less[0]
            self._settled[key] = found
        return found


@dataclass
class _Order:
    """An order of columns, and the score of each with its best parents among those before it."""

    search: OrderSearch
    columns: list[int]
    before: list[int]  # of each column, the columns before it, as bits
    score: list[float]  # of each column
    total: float  # the score of the structure

    @classmethod
    def of(cls, search: OrderSearch, columns: list[int]) -> _Order:
        """Return an order with its scores."""
        before, seen = [0] * len(columns), 0
        for column in columns:
            before[column] = seen
            seen |= 1 << column
        score = [search.family(column, before[column]).score for column in range(len(columns))]
        return cls(search, columns, before, score, sum(score))

    def parents(self, child: int) -> frozenset[int]:
        """Return the best parents of a column among those before it."""
        return self.search.family(child, self.before[child]).parents

    def swap(self, place: int) -> bool:
        """Exchange the columns at a position and after it; False if a required arc connects them."""
        one, other = self.columns[place], self.columns[place + 1]
        if self.search.rules.required[one, other]:
            return False
        self.columns[place], self.columns[place + 1] = other, one
        self.before[one] |= 1 << other
        self.before[other] &= ~(1 << one)
        for column in (one, other):
            score = self.search.family(column, self.before[column]).score
            self.total += score - self.score[column]
            self.score[column] = score
        return True

    def shift(self, place: int, target: int) -> int:
        """Move a column towards another position, as far as required arcs allow; returns its new position."""
        while place != target:
            step = 1 if target > place else -1
            if not self.swap(min(place, place + step)):
                break
            place += step
        return place

    def place_best(self, column: int) -> bool:
        """Move a column to the position with the highest score; False if it is there already."""
        begin, own = self.columns.index(column), self.score[column]
        required, family, bit = self.search.rules.required, self.search.family, 1 << column
        self.total = sum(self.score)
        best, score = begin, self.total
        for passed, step in ((self.columns[:begin][::-1], -1), (self.columns[begin + 1 :], 1)):
            place, before, others = begin, self.before[column], self.total - own
            for other in passed:  # the column goes past one after the other
                if required[other, column] if step < 0 else required[column, other]:
                    break
                place += step
                before ^= 1 << other
                others += family(other, self.before[other] ^ bit).score - self.score[other]
                total = others + family(column, before).score
                if total > score + LEAST_GAIN:
                    best, score = place, total
        self.shift(begin, best)
        return best != begin
