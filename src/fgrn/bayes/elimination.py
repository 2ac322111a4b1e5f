"""A part of a model, with what is known put in: the tables that an answer depends on, and cliques of what is not known.

Of a Bayesian network only ancestors of the question and of the evidence matter (others are barren), and of these only
what known states do not separate from the question (Baker and Boult, 1990; Shachter, 1998). Known states are put into
the tables, which then have an axis less. What is left has a junction tree of its own (`clique_sweeps`).
Which tables these are depends on which variables are known, not on their states: it is worked out once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.variable import Variable
from ..tables.encoded import SOFT, Evidence
from ..tables.frames import UNKNOWN
from .clique_sweeps import CliqueSweep, summed_to
from .directed_graph import closure
from .junction_tree import JunctionTree
from .realisation import ScopedTable, tree_of

CELLS_AT_ONCE = 2**22
"""Cells of cliques times rows that are worked on together: 32 MB."""


@dataclass(frozen=True, eq=False)
class PrunedModel:
    """Some tables of a model, given which variables are known, and the cliques of the others.

    Attributes:
        variables: of the model, by name.
        known: variables whose state is known.
        weighted: variables with a weight for each state.
        parts: the tables.
        tree: the cliques of what is not known in them.
        apart: tables of the evidence and its ancestors that known states separate from the question: they decide
            only how probable the evidence is.
    """

    variables: Mapping[str, Variable]
    known: frozenset[str]
    weighted: frozenset[str]
    parts: tuple[ScopedTable, ...]
    tree: JunctionTree
    apart: tuple[ScopedTable, ...] = ()

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Variable],
        parts: Sequence[ScopedTable],
        together: Sequence[str],
        known: frozenset[str],
        weighted: frozenset[str],
        memory: float | None,
    ) -> PrunedModel:
        """Make cliques, one of which holds the variables `together`; an error if they need too much memory."""
        asked = unknown_of(together, known)
        scopes = [*(unknown_of(part.scope, known) for part in parts), asked]
        left = {name for scope in scopes for name in scope}
        tree = JunctionTree({}, ((),), ())
        if left:
            chosen = {name: variable for name, variable in variables.items() if name in left}
            tree = tree_of(chosen, [scope for scope in scopes if scope], memory, quick=True)
        return cls(variables, known, weighted & left, tuple(parts), tree)

    def joint(
        self, index: Mapping[str, int], tables: Mapping[str, np.ndarray], evidence: Evidence, target: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The joint distribution of some variables in each row, and the log-likelihood of the row under the tables.

        The variables that are not known are those `together` of the cliques, or among them. A distribution is all zero
        where the evidence is impossible.

        Args:
            index: the number of each variable.
            tables: by the name of the part, with one axis for each variable of its scope.
            evidence: rows that know the states of exactly the `known`.
            target: the variables.
        """
        asked = unknown_of(target, self.known)
        root = self.tree.holding(asked)
        shares, logs = [np.zeros((0, *(self.variables[name].cardinality for name in target)))], [np.zeros(0)]
        for rows, sweep in self._sweeps(index, tables, evidence, self.tree.states[self.tree.largest], root):
            found = summed_to(sweep.inwards(), sweep.names(root, ()), asked)
            total = found.reshape(len(found), -1).sum(axis=1)
            with np.errstate(divide="ignore"):
                log = np.log(total) + sweep.logs
            found = found / np.where(total > 0, total, 1).reshape(-1, *[1] * len(asked))
            found = np.broadcast_to(found, (rows.rows, *found.shape[1:]))
            shares.append(self._with_known(self._codes(index, rows), asked, target, found))
            logs.append(np.broadcast_to(log, rows.rows))
        return np.concatenate(shares), np.concatenate(logs)

    def marginals(
        self, index: Mapping[str, int], tables: Mapping[str, np.ndarray], evidence: Evidence, names: Sequence[str]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The distribution of each of some variables, (rows, states), and the log-likelihood of each row."""
        out = {name: np.zeros((evidence.rows, self.variables[name].cardinality)) for name in names}
        logs, first = np.zeros(evidence.rows), 0
        root = self.tree.largest
        for rows, sweep in self._sweeps(index, tables, evidence, self.tree.total, root):
            mine = slice(first, first + rows.rows)
            top = sweep.inwards(keep=True)
            with np.errstate(divide="ignore"):
                logs[mine] = np.log(top.reshape(len(top), -1).sum(axis=1)) + sweep.logs
            sweep.outwards()
            possible = logs[mine] > -np.inf
            codes = self._codes(index, rows)
            for name in names:
                if name in self.known:
                    out[name][np.arange(mine.start, mine.stop), codes[name]] = possible
                else:
                    out[name][mine] = sweep.marginal(name) * possible[:, None]
            first = mine.stop
        return out, logs

    def likeliest(
        self, index: Mapping[str, int], tables: Mapping[str, np.ndarray], evidence: Evidence
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The states of all variables that are likeliest together, by variable, and their log-probability."""
        parts, logs = [], [np.zeros(0)]
        for rows, sweep in self._sweeps(index, tables, evidence, self.tree.total, self.tree.largest):
            sweep.inwards(largest=True, keep=True)
            codes, value = sweep.traced(rows.rows)
            parts.append({**codes, **self._codes(index, rows)})
            logs.append(value)
        names = [*self.tree.sizes, *self.known]
        return {name: np.concatenate([part[name] for part in parts]) for name in names}, np.concatenate(logs)

    def _sweeps(
        self, index: Mapping[str, int], tables: Mapping[str, np.ndarray], evidence: Evidence, cells: int, root: int
    ) -> Iterator[tuple[Evidence, CliqueSweep]]:
        """Blocks of rows, each with the tables of the cliques; a row takes so many cells."""
        step = max(1, CELLS_AT_ONCE // max(cells, 1))
        order = self.tree.outwards(root)
        for first in range(0, evidence.rows, step):
            rows = evidence.take(slice(first, first + step))
            codes = self._codes(index, rows)
            homes: list[list[tuple[tuple[str, ...], np.ndarray]]] = [[] for _ in self.tree.cliques]
            for part, (home, scope) in zip(self.parts, self._homes, strict=True):
                homes[home].append((scope, _sliced(tables[part.name], part.scope, codes)))
            for name in sorted(self.weighted):
                weights = rows.weights(index[name], self.variables[name].cardinality)
                homes[self.tree.holding([name])].append(((name,), weights))
            yield rows, CliqueSweep(self.tree, order, homes)

    def _codes(self, index: Mapping[str, int], evidence: Evidence) -> dict[str, np.ndarray]:
        """The states of the known variables, (rows,) each."""
        return {name: evidence.codes[:, evidence.slot[index[name]]].astype(np.int64) for name in self.known}

    @cached_property
    def _homes(self) -> list[tuple[int, tuple[str, ...]]]:
        """The clique of each table, and the variables of the table that are not known."""
        scopes = [unknown_of(part.scope, self.known) for part in self.parts]
        return [(self.tree.holding(scope), scope) for scope in scopes]

    def _with_known(
        self, codes: Mapping[str, np.ndarray], asked: Sequence[str], target: Sequence[str], found: np.ndarray
    ) -> np.ndarray:
        """The distribution with an axis for each variable of the target that is known, in their order."""
        if len(asked) == len(target):
            return found
        out = np.zeros((len(found), *(self.variables[name].cardinality for name in target)))
        each = np.arange(len(found))
        place = tuple(codes[name] if name in codes else slice(None) for name in target)
        if not asked:
            out[(each, *place)] = found
            return out
        for row in each.tolist():
            here = tuple(int(one[row]) if isinstance(one, np.ndarray) else one for one in place)
            out[(row, *here)] = found[row]
        return out


def unknown_of(scope: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The variables of a scope whose state is not known."""
    return tuple(name for name in scope if name not in known)


def alive_tables(parts: Sequence[ScopedTable], names: Collection[str]) -> Sequence[ScopedTable]:
    """The tables of some variables and their ancestors; all of them where a model has no directions."""
    if not all(part.conditional for part in parts):
        return parts
    alive = closure(names, {part.scope[-1]: part.scope[:-1] for part in parts})
    return [part for part in parts if part.scope[-1] in alive]


def joined_tables(target: Collection[str], known: Collection[str], parts: Sequence[ScopedTable]) -> list[ScopedTable]:
    """The tables that are joined to some variables by variables whose state is not known."""
    of_variable: dict[str, list[int]] = {}
    for number, part in enumerate(parts):
        for name in unknown_of(part.scope, known):
            of_variable.setdefault(name, []).append(number)
    line = [name for name in target if name not in known]
    seen, found = set(line), set[int]()
    for name in line:  # grows while it is walked
        for number in of_variable.get(name, ()):
            if number in found:
                continue
            found.add(number)
            new = [other for other in unknown_of(parts[number].scope, known) if other not in seen]
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
