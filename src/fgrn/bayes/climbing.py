"""Hill climbing and tabu search for a structure: arcs are added, removed or reversed one at a time.

The gain of every possible move is kept in matrices (parents, children). A move changes the parents of one column, or of
two if it reverses an arc: only the gains of these columns are computed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .arc_rules import ArcRules
from .scores import FamilyScores

MOVES = ("add", "remove", "reverse")

LEAST_GAIN = 1e-6
"""A smaller gain is a rounding error: structures that imply the same independences have the same score."""

GAIN_DIGITS = 8
"""Decimals to which gains are rounded before they are compared, so that rounding does not decide between moves."""

REST, PATIENCE, TABU_PATIENCE = 10, 15, 100
"""How many moves the arc between two columns stays as it is after a move that need not gain (the length of the tabu
list); and after how many moves without a better structure hill climbing and a tabu search end."""

Parents = tuple[frozenset[int], ...]
"""The parents of each column."""

StructureWatcher = Callable[[int, float], object]
"""Called with the number of moves and the score; the search ends when it returns True."""


class ArcMove(NamedTuple):
    """One step of a search: "add", "remove" or "reverse" an arc, with its gain and the new score.

    A step of kind "restart" has no arc: the search goes on from the best structure after some random moves.
    """

    kind: str
    parent: str | None
    child: str | None
    gain: float
    score: float


@dataclass
class _Place:
    """A structure during a search, with the scores of all families that are one move away."""

    scores: FamilyScores
    rules: ArcRules
    parents: list[frozenset[int]]
    family: np.ndarray = field(init=False)  # (children,) the score of each family
    more: np.ndarray = field(init=False)  # (parents, children) the score with the parent added
    less: np.ndarray = field(init=False)  # (parents, children) the score with it removed
    arcs: np.ndarray = field(init=False)  # (parents, children) whether an arc is there
    reach: np.ndarray = field(init=False)  # (from, to) see `reachable`

    def __post_init__(self) -> None:
        count = len(self.parents)
        self.family = np.empty(count)
        self.more, self.less = np.full((count, count), -np.inf), np.full((count, count), -np.inf)
        self.arcs = np.zeros((count, count), dtype=bool)
        for child, some in enumerate(self.parents):
            self.arcs[list(some), child] = True
        self.reach = reachable(self.arcs)
        self.update(range(count))

    def update(self, children: Sequence[int]) -> None:
        """Score the families of some children again."""
        for child in children:
            mine = self.parents[child]
            self.family[child] = self.scores.score(child, mine)
            full = len(mine) >= self.rules.most
            self.more[:, child] = (
                -np.inf if full else self.scores.with_one_more(child, mine, self.rules.allowed[:, child])
            )
            self.less[:, child] = -np.inf
            for parent in mine:
                self.less[parent, child] = self.scores.score(child, mine - {parent})

    @property
    def total(self) -> float:
        """The score of the structure."""
        return float(self.family.sum())

    def gains(self) -> np.ndarray:
        """Return the gain of each move, (kinds, parents, children); minus infinity for moves not allowed."""
        gains = np.empty((len(MOVES), *self.arcs.shape))
        add, remove, reverse = gains
        np.subtract(self.more, self.family[None, :], out=add)
        add[self.arcs | self.reach.T] = -np.inf
        fixed = ~self.arcs | self.rules.required
        np.subtract(self.less, self.family[None, :], out=remove)
        remove[fixed] = -np.inf
        np.add(remove, self.more.T - self.family[:, None], out=reverse)  # the child as a parent of its parent
        paths = self.arcs.astype(np.float32) @ self.reach.astype(np.float32)  # children by which the head is reached
        reverse[paths > 1.5] = -np.inf
        return np.round(gains, GAIN_DIGITS, out=gains)

    def move(self, kind: int, parent: int, child: int) -> None:
        """Make a move."""
        changed = [child]
        if MOVES[kind] == "add":
            self.parents[child] |= {parent}
            self.arcs[parent, child] = True
            self.reach |= np.outer(self.reach[:, parent], self.reach[child])
        else:
            self.parents[child] -= {parent}
            self.arcs[parent, child] = False
            if MOVES[kind] == "reverse":
                self.parents[parent] |= {child}
                self.arcs[child, parent] = True
                changed.append(parent)
            self.reach = reachable(self.arcs)
        self.update(changed)


def reachable(arcs: np.ndarray) -> np.ndarray:
    """Return whether a path of arcs leads from one column to another, (from, to); True from each to itself."""
    reach = arcs | np.eye(len(arcs), dtype=bool)
    while True:  # paths of twice as many arcs each time
        steps = reach.astype(np.float32)
        further = steps @ steps > 0
        if np.array_equal(further, reach):
            return reach
        reach = further


@dataclass
class Climb:
    """Hill climbing or tabu search under rules on arcs.

    Attributes:
        scores: the scores of families.
        rules: which arcs are allowed and required.
        watch: see `StructureWatcher`.
        moves: the moves so far.
        stopped: whether `watch` ended the search.
        steps: all moves that were made, those that led nowhere too.
    """

    scores: FamilyScores
    rules: ArcRules
    watch: StructureWatcher | None = None
    moves: list[ArcMove] = field(default_factory=list)
    stopped: bool = False
    steps: int = 0

    def hill_climbing(self, start: Parents, restarts: int, seed: int) -> Parents:
        """Take the best move until none gains; repeat after random moves, `restarts` times, and keep the best."""
        best, score = self._uphill(_Place(self.scores, self.rules, list(start)))
        random = np.random.default_rng(seed)
        for _ in range(restarts):
            if self.stopped:
                break
            place = _Place(self.scores, self.rules, list(best))
            fewest = max(2, len(best) // 4)  # with fewer the climb ends where it was; as many as columns leave little
            self._wander(place, int(random.integers(fewest, max(fewest, len(best)) + 1)), random)
            self.moves.append(ArcMove("restart", None, None, place.total - score, place.total))
            found, reached = self._uphill(place)
            if reached > score + LEAST_GAIN:
                best, score = found, reached
        return best

    def tabu(self, start: Parents) -> Parents:
        """Climb to a maximum, then take the best move even if it loses; returns the best structure (Glover, 1989).

        After a move between two columns there is none between them for `REST` moves, unless it leads to a structure
        better than any before. `TABU_PATIENCE` moves in a row without a better structure end the search.
        """
        best, score = self._uphill(_Place(self.scores, self.rules, list(start)))
        place, since, path = _Place(self.scores, self.rules, list(best)), 0, len(self.moves)
        recent: deque[tuple[int, int]] = deque(maxlen=REST)
        while since < TABU_PATIENCE and not self.stopped:
            gains = place.gains()
            for one, other in recent:
                for a, b in ((one, other), (other, one)):
                    lost = gains[:, a, b]
                    lost[lost <= score - place.total + LEAST_GAIN] = -np.inf
            move = _best(gains)
            if move is None:
                break
            self._go(place, *move)
            recent.append(move[1:])
            since += 1
            if place.total > score + LEAST_GAIN:
                best, score, since, path = tuple(place.parents), place.total, 0, len(self.moves)
        del self.moves[path:]  # they led to no better structure
        return best

    def straight_to(self, start: Parents, end: Parents) -> None:
        """Append the moves from one structure to another to the path: removed arcs first, then added ones."""
        place = list(start)
        score = self.scores.total(place)
        names = self.rules.names
        both = list(enumerate(zip(start, end, strict=True)))
        removed = [("remove", parent, child) for child, (old, new) in both for parent in sorted(old - new)]
        added = [("add", parent, child) for child, (old, new) in both for parent in sorted(new - old)]
        for kind, parent, child in (*removed, *added):
            before = self.scores.score(child, place[child])
            place[child] = place[child] ^ {parent}
            gain = float(self.scores.score(child, place[child]) - before)
            score += gain
            self.moves.append(ArcMove(kind, names[parent], names[child], gain, score))

    def _uphill(self, place: _Place) -> tuple[Parents, float]:
        """Take the best move as long as one gains; returns the structure reached and its score.

        Where none gains, up to `PATIENCE` moves of gain zero are made: structures of one equivalence class have the
        same score, but not the same moves.
        """
        best, score, path = tuple(place.parents), place.total, len(self.moves)
        recent: deque[tuple[int, int]] = deque(maxlen=REST)
        since = 0
        while since <= PATIENCE and not self.stopped:
            gains = place.gains()
            move = _best(gains)
            if move is None or gains[move] <= LEAST_GAIN:
                for one, other in recent:
                    gains[:, [one, other], [other, one]] = -np.inf
                move = _best(gains)
                since += 1
                if move is None or gains[move] < -LEAST_GAIN:
                    break
                recent.append(move[1:])
                self._go(place, *move)
                continue
            self._go(place, *move)
            best, score, path, since = tuple(place.parents), place.total, len(self.moves), 0
            recent.clear()
        if not self.stopped:
            del self.moves[path:]  # they led to no better structure
            return best, score
        return tuple(place.parents), place.total

    def _wander(self, place: _Place, moves: int, random: np.random.Generator) -> None:
        """Make some random moves."""
        for _ in range(moves):
            possible = np.argwhere(np.isfinite(place.gains()))
            if not len(possible):
                return
            place.move(*possible[random.integers(len(possible))].tolist())

    def _go(self, place: _Place, kind: int, parent: int, child: int) -> None:
        before = place.total
        place.move(kind, parent, child)
        names = self.rules.names
        self.moves.append(ArcMove(MOVES[kind], names[parent], names[child], place.total - before, place.total))
        self.steps += 1
        if self.watch is not None and self.watch(self.steps, float(place.total)) is True:
            self.stopped = True


def _best(gains: np.ndarray) -> tuple[int, int, int] | None:
    """Return the move with the largest gain, the first of equal ones; None if none is allowed."""
    place = int(np.argmax(gains))
    if not np.isfinite(gains.flat[place]):
        return None
    kind, parent, child = np.unravel_index(place, gains.shape)
    return int(kind), int(parent), int(child)
