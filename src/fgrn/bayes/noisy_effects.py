"""The arithmetic of noisy-max tables: a variable is the maximum of independent effects of its parents and a leak.

Each parent i has, for each of its states, a distribution of its effect z_i over the ranks 0 (none), 1, ... of the
child; in one of its states, "off", it has no effect. A further effect, the leak, does not depend on parents. The child
is max(z_0, z_1, ..., z_n) (Henrion, 1989; Diez, 1993). A noisy-or is the case of two ranks.

Two independent effects with probabilities a, b and cumulative ones A, B have the largest with the probabilities

    (a + b)_k = a_k B_k + A_(k-1) b_k

whose terms are not negative: nothing is lost where probabilities are small. The parameters are learnt by EM through the
hidden effects: given the child's rank r, the posterior of z_i is proportional to e_k o_r for k < r and to e_r O_r for
k = r, where e is the distribution of z_i, and o, O are those of the largest of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..core.arrays import ReadOnlyArrays
from ..flow.parameters import START_CONCENTRATION

STEPS = 20
"""EM steps for the hidden effects in one M-step."""

NOISE = 1e-12
"""A difference of this share of a probability counts as rounding error when effects are recovered from a table."""

Effects: TypeAlias = list[np.ndarray]
"""The leak as one row, and for each parent a row for each of its states: distributions over ranks."""


@dataclass(frozen=True, eq=False)
class NoisyMaxForm(ReadOnlyArrays):
    """The form of a noisy-max table; see the module docstring.

    Attributes:
        sizes: the states of each parent.
        off: the state of each parent in which it has no effect.
        order: the state of the child at each rank, from no effect to the strongest.
        given: the leak, and the effects of each parent, (states, ranks); None for what learning begins to draw.
    """

    sizes: tuple[int, ...]
    off: tuple[int, ...]
    order: tuple[int, ...]
    given: tuple[np.ndarray | None, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyMaxForm):
            return NotImplemented
        alike = (self.sizes, self.off, self.order) == (other.sizes, other.off, other.order)
        return alike and all(
            (one is None) == (two is None) and (one is None or np.array_equal(one, two))  # type: ignore[arg-type]
            for one, two in zip(self.given, other.given, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # of arrays there is none

    @property
    def ranks(self) -> int:
        """The number of ranks of the child."""
        return len(self.order)

    @property
    def free_parameters(self) -> int:
        """See `TableForm`: a zero stays zero."""
        rows = [one for effects in self._filled(self._uniform) for one in effects]
        return sum(int((row > 0).sum()) - 1 for row in rows)

    def before_start(self) -> np.ndarray:
        """See `TableForm`."""
        return self.table(self._filled(self._uniform))

    def drawn(self, generator: np.random.Generator) -> np.ndarray:
        """See `TableForm`."""

        def rows(count: int) -> np.ndarray:
            found = generator.standard_gamma(START_CONCENTRATION, (count, self.ranks))
            return np.asarray(found / found.sum(axis=1, keepdims=True))

        return self.table(self._filled(rows))

    def projected(self, table: np.ndarray) -> np.ndarray:
        """See `TableForm`."""
        return self.table(self.effects(table))

    def _uniform(self, count: int) -> np.ndarray:
        return np.full((count, self.ranks), 1 / self.ranks)

    def _filled(self, rows: Callable[[int], np.ndarray]) -> Effects:
        """Return the given effects, and the others from a function of the number of rows."""
        found: Effects = []
        for number, given in enumerate(self.given):
            if given is not None:
                found.append(given)
                continue
            made = rows(1 if number == 0 else self.sizes[number - 1])
            if number:
                made[self.off[number - 1]] = np.eye(self.ranks)[0]
            found.append(made)
        return found

    # Tables

    def table(self, effects: Effects) -> np.ndarray:
        """Return the table of some effects: (joint states of the parents, states of the child)."""
        total = effects[0]
        for some in effects[1:]:
            total = _larger_rank(total[:, None, :], some[None]).reshape(-1, self.ranks)
        return self.by_state(total)

    def effects(self, table: np.ndarray) -> Effects:
        """Return the effects in a table, from the rows in which at most one parent is not off.

        What the table does not tell, since the leak hides it, is no effect.
        """
        cells = table.reshape(*self.sizes, self.ranks)[..., list(self.order)]
        leak = np.array(cells[self.off])
        found = [leak[None]]
        for axis, size in enumerate(self.sizes):
            place: tuple[Any, ...] = (*self.off[:axis], slice(None), *self.off[axis + 1 :])
            rows = _without_leak(cells[place], leak)
            rows[self.off[axis]] = np.eye(self.ranks)[0]
            found.append(rows.reshape(size, self.ranks))
        return found

    def by_state(self, by_rank: np.ndarray) -> np.ndarray:
        """Return rows over ranks as rows over the states of the child."""
        out = np.empty_like(by_rank)
        out[:, list(self.order)] = by_rank
        return out

    # Learning

    def updated(self, table: np.ndarray, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        """See `TableForm`: some EM steps for the hidden effects of the counted rows."""
        rows = np.flatnonzero(counts.any(axis=1))
        weights = counts[rows][:, list(self.order)]
        states = np.zeros((1 + len(self.sizes), len(rows)), dtype=np.int64)  # of the leak there is one
        if self.sizes:
            states[1:] = np.unravel_index(rows, self.sizes)
        effects, first = self.effects(table), self.effects(before)
        for _ in range(STEPS):
            effects = self._step(effects, first, states, weights)
        return self.table(effects)

    def _step(self, effects: Effects, first: Effects, states: np.ndarray, weights: np.ndarray) -> Effects:
        """Return the effects after one EM step, from the counts of the child's ranks in each row of the table."""
        each = [some[state] for some, state in zip(effects, states, strict=True)]
        found: Effects = []
        for number, others in enumerate(_all_others(each)):
            mine = each[number]
            reached = _larger_rank(mine, others)
            share = np.divide(weights, reached, out=np.zeros_like(weights), where=reached > 0)
            below = np.cumsum((share * others)[:, ::-1], axis=1)[:, ::-1]
            below = np.pad(below[:, 1:], ((0, 0), (0, 1)))  # of all ranks above k
            expected = mine * (below + share * np.cumsum(others, axis=1))
            counted = np.zeros_like(effects[number])
            np.add.at(counted, states[number], expected)
            if number:
                counted[self.off[number - 1]] = np.eye(self.ranks)[0]
            total = counted.sum(axis=1, keepdims=True)
            found.append(np.where(total > 0, counted / np.where(total > 0, total, 1), first[number]))
        return found


def _larger_rank(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distribution of the maximum of two independent ranks, along the last axis."""
    below = np.cumsum(one, axis=-1)
    below = np.concatenate([np.zeros_like(below[..., :1]), below[..., :-1]], axis=-1)
    found: np.ndarray = one * np.cumsum(other, axis=-1) + below * other
    return found


def _all_others(each: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return, for each effect, the distribution of the maximum of all others."""
    none = np.zeros_like(each[0])
    none[:, 0] = 1
    after = [none]
    for one in reversed(each[1:]):
        after.append(_larger_rank(one, after[-1]))
    after.reverse()
    found, before = [], none
    for one, rest in zip(each, after, strict=True):
        found.append(_larger_rank(before, rest))
        before = _larger_rank(before, one)
    return found


def _without_leak(rows: np.ndarray, leak: np.ndarray) -> np.ndarray:
    """Return the distribution of an effect, from that of its maximum with the leak."""
    reached = np.cumsum(leak)
    found = np.zeros_like(rows)
    below = np.zeros(len(rows))
    for rank in range(len(leak)):
        hidden = below * leak[rank]
        left = np.where(rows[:, rank] > hidden * (1 + NOISE), rows[:, rank] - hidden, 0.0)
        if reached[rank] > 0:
            found[:, rank] = left / reached[rank]
        below = below + found[:, rank]
    total = found.sum(axis=1, keepdims=True)
    none = np.eye(len(leak))[0]
    return np.where(total > 0, found / np.where(total > 0, total, 1), none)
