"""Pruned questions: the distribution of a few variables, from the tables alone that it depends on.

Of a Bayesian network only ancestors of the question and of the evidence matter (others are barren), and of these only
what known states do not separate from the question (Baker and Boult, 1990; Shachter, 1998). Known states are put into
the tables, which then have an axis less. What is left is summed variable by variable along a junction tree of its own.
Which tables these are depends on which variables are known, not on their states: it is worked out once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..core.variable import Variable
from ..tables.encoded import SOFT, Evidence
from ..tables.frames import UNKNOWN
from .directed_graph import closure
from .junction_tree import JunctionTree
from .realisation import ScopedTable, tree_of

CELLS_AT_ONCE = 2**22
"""Cells of the largest clique times rows that are summed together: 32 MB."""


@dataclass(frozen=True, eq=False)
class PrunedQuestion:
    """A question for the joint distribution of some variables, given the states of others: what it is computed from.

    Attributes:
        target: the variables of the question.
        known: variables whose state is known.
        weighted: variables with a weight for each state.
        parts: the tables that matter.
        apart: tables of the evidence and its ancestors that are separated from the target: they decide only whether
            the evidence is possible.
        tree: the cliques of what is not known in them.
    """

    target: tuple[str, ...]
    known: frozenset[str]
    weighted: frozenset[str]
    parts: tuple[ScopedTable, ...]
    apart: tuple[ScopedTable, ...]
    tree: JunctionTree
    _other: list[PrunedQuestion] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Variable],
        parts: Sequence[ScopedTable],
        target: tuple[str, ...],
        known: frozenset[str],
        weighted: frozenset[str],
        memory: float | None,
    ) -> PrunedQuestion:
        """Prune a model; an error if what is left needs too much memory."""
        kept: Sequence[ScopedTable] = parts
        if all(part.conditional for part in parts):
            above = {part.scope[-1]: part.scope[:-1] for part in parts}
            alive = closure([*target, *known, *weighted], above)
            kept = [part for part in parts if part.scope[-1] in alive]
        near = _joined_tables(target, known, kept)
        names = {part.name for part in near}
        apart = tuple(part for part in kept if part.name not in names)
        asked = tuple(name for name in target if name not in known)
        return cls(target, known, weighted, tuple(near), apart, _tree_over(variables, near, asked, known, memory))

    def evidence_apart(self, variables: Mapping[str, Variable], memory: float | None) -> PrunedQuestion:
        """The question whether the evidence that is separated from the target is possible; made once."""
        if not self._other:
            tree = _tree_over(variables, self.apart, (), self.known, memory)
            self._other.append(PrunedQuestion((), self.known, self.weighted, self.apart, (), tree))
        return self._other[0]

    def answer(
        self,
        variables: Mapping[str, Variable],
        index: Mapping[str, int],
        tables: Mapping[str, np.ndarray],
        evidence: Evidence,
    ) -> np.ndarray:
        """The joint distribution of the target in each row, (rows, states of the first, of the second, ...).

        Rows whose product vanishes, impossible ones among them, are all zero.

        Args:
            variables: of the model.
            index: the number of each.
            tables: by the name of the part, with one axis for each variable of its scope.
            evidence: rows that know the states of exactly the `known`, by the numbers of the variables.
        """
        step = max(1, CELLS_AT_ONCE // max(self.tree.states[self.tree.largest], 1))
        blocks = [
            self._block(variables, index, tables, evidence.take(slice(first, first + step)))
            for first in range(0, evidence.rows, step)
        ]
        return np.concatenate(blocks)

    def _block(
        self,
        variables: Mapping[str, Variable],
        index: Mapping[str, int],
        tables: Mapping[str, np.ndarray],
        evidence: Evidence,
    ) -> np.ndarray:
        rows = evidence.rows
        codes = {name: evidence.codes[:, evidence.slot[index[name]]].astype(np.int64) for name in self.known}
        asked = tuple(name for name in self.target if name not in self.known)
        homes: list[list[tuple[tuple[str, ...], np.ndarray]]] = [[] for _ in self.tree.cliques]
        for part, (home, scope) in zip(self.parts, self._homes, strict=True):
            homes[home].append((scope, _sliced(tables[part.name], part.scope, codes)))
        for name in sorted(self.weighted & self.tree.sizes.keys()):
            weights = evidence.weights(index[name], variables[name].cardinality)
            homes[self.tree.holding([name])].append(((name,), weights))
        order = self._order
        for number, before, shared in reversed(order[1:]):
            homes[before].append((shared, _summed(self.tree.cliques[number], homes[number], shared)))
        found = _summed(self.tree.cliques[order[0][0]], homes[order[0][0]], asked)
        total = found.reshape(len(found), -1).sum(axis=1)
        found = found / np.where(total > 0, total, 1).reshape(-1, *[1] * len(asked))
        found = np.broadcast_to(found, (rows, *found.shape[1:]))
        return self._with_known(variables, codes, asked, found)

    @cached_property
    def _order(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """The cliques from that of the target outwards; see `JunctionTree.outwards`."""
        return self.tree.outwards(self.tree.holding(_open(self.target, self.known)))

    @cached_property
    def _homes(self) -> list[tuple[int, tuple[str, ...]]]:
        """The clique of each table, and the variables of the table that are not known."""
        scopes = [_open(part.scope, self.known) for part in self.parts]
        return [(self.tree.holding(scope), scope) for scope in scopes]

    def _with_known(
        self,
        variables: Mapping[str, Variable],
        codes: Mapping[str, np.ndarray],
        asked: tuple[str, ...],
        found: np.ndarray,
    ) -> np.ndarray:
        """The distribution with an axis for each variable of the target that is known, in their order."""
        if len(asked) == len(self.target):
            return found
        out = np.zeros((len(found), *(variables[name].cardinality for name in self.target)))
        each = np.arange(len(found))
        place = tuple(codes[name] if name in codes else slice(None) for name in self.target)
        if not asked:
            out[(each, *place)] = found
            return out
        for row in each.tolist():
            here = tuple(int(one[row]) if isinstance(one, np.ndarray) else one for one in place)
            out[(row, *here)] = found[row]
        return out


def _tree_over(
    variables: Mapping[str, Variable],
    parts: Sequence[ScopedTable],
    asked: tuple[str, ...],
    known: Collection[str],
    memory: float | None,
) -> JunctionTree:
    """A junction tree over what is not known in some tables, with the variables that are asked for in one clique."""
    scopes = [*(_open(part.scope, known) for part in parts), asked]
    left = {name for scope in scopes for name in scope}
    if not left:
        return JunctionTree({}, ((),), ())
    chosen = {name: variable for name, variable in variables.items() if name in left}
    return tree_of(chosen, [scope for scope in scopes if scope], memory, quick=True)


def _open(scope: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The variables of a scope whose state is not known."""
    return tuple(name for name in scope if name not in known)


def _joined_tables(target: Sequence[str], known: Collection[str], parts: Sequence[ScopedTable]) -> list[ScopedTable]:
    """The tables that are joined to the target by variables whose state is not known."""
    of_variable: dict[str, list[int]] = {}
    for number, part in enumerate(parts):
        for name in _open(part.scope, known):
            of_variable.setdefault(name, []).append(number)
    line = [name for name in target if name not in known]
    seen, found = set(line), set[int]()
    for name in line:  # grows while it is walked
        for number in of_variable.get(name, ()):
            if number in found:
                continue
            found.add(number)
            new = [other for other in _open(parts[number].scope, known) if other not in seen]
            seen.update(new)
            line += new
    return [part for number, part in enumerate(parts) if number in found]


def _sliced(table: np.ndarray, scope: Sequence[str], codes: Mapping[str, np.ndarray]) -> np.ndarray:
    """A table at the known states of each row, (rows, states of the others), or with one row for all."""
    if not any(name in codes for name in scope):
        return table[None]
    given = tuple(axis for axis, name in enumerate(scope) if name in codes)
    first = np.moveaxis(table, given, range(len(given)))
    found: np.ndarray = first[tuple(codes[scope[axis]] for axis in given)]
    return found


def _summed(
    clique: Sequence[str], factors: Sequence[tuple[tuple[str, ...], np.ndarray]], shared: Sequence[str]
) -> np.ndarray:
    """The product of factors over a clique, summed over all but `shared`, (rows, states); its largest is one."""
    names = [*(name for name in clique if name not in shared), *shared]
    place = {name: number + 1 for number, name in enumerate(names)}
    total: np.ndarray = np.ones([1] * (len(names) + 1))
    for scope, values in sorted(factors, key=lambda one: one[1].size):
        order = sorted(range(len(scope)), key=lambda axis: place[scope[axis]])
        moved = values.transpose([0, *(axis + 1 for axis in order)])
        shape = [1] * (len(names) + 1)
        shape[0] = len(values)
        for axis in order:
            shape[place[scope[axis]]] = values.shape[axis + 1]
        total = total * moved.reshape(shape)
    away = tuple(range(1, 1 + len(names) - len(shared)))
    summed: np.ndarray = total.sum(axis=away) if away else total
    largest = summed.reshape(len(summed), -1).max(axis=1).reshape(-1, *[1] * len(shared))
    return summed / np.where(largest > 0, largest, 1)


def hard_and_soft(evidence: Evidence, names: Sequence[str]) -> list[tuple[np.ndarray, frozenset[str], frozenset[str]]]:
    """Rows that know the states of the same variables: their numbers, these variables, and those with weights."""
    seen = [name for name in names if name in evidence.columns]
    codes = np.stack([evidence.codes[:, evidence.columns.index(name)] for name in seen], axis=1) if seen else None
    if codes is None:
        return [(np.arange(evidence.rows), frozenset(), frozenset())]
    kinds = np.where(codes == UNKNOWN, 0, np.where(codes == SOFT, 2, 1)).astype(np.int8)
    patterns, number = np.unique(kinds, axis=0, return_inverse=True)
    number = number.ravel()
    return [
        (
            np.flatnonzero(number == one),
            frozenset(name for name, kind in zip(seen, pattern.tolist(), strict=True) if kind == 1),
            frozenset(name for name, kind in zip(seen, pattern.tolist(), strict=True) if kind == 2),
        )
        for one, pattern in enumerate(patterns)
    ]
