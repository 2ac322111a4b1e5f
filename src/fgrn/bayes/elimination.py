"""A pruned model: the tables that an answer depends on, reduced by evidence, and cliques of the unknown variables.

Of a Bayesian network only ancestors of the question and of the evidence matter (others are barren), and of these only
what known states do not separate from the question (Baker and Boult, 1990; Shachter, 1998). Known states are put into
the tables, which then have an axis less. What is left has a junction tree of its own (`clique_sweeps`).
Which tables these are depends on which variables are known, not on their states: it is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.variable import Variable
from ..learning.execution import SMALL_WORK
from ..tables.encoded import SOFT, Evidence
from ..tables.frames import UNKNOWN
from .clique_memory import allowed_memory
from .clique_sweeps import CliqueOrder, CliqueSweep, RunningProduct, summed_to
from .junction_tree import JunctionTree
from .realisation import ScopedTable, tree_of
from .table_numbers import TableNumbers

if TYPE_CHECKING:
    from .lane_sweeps import LaneSweep, VaryingTable

CELLS_AT_ONCE = 2**22
"""Cells of cliques times rows that are computed together: 32 MB."""

MOST_LANES, FEW_LANES = 16, 8
"""Rows that are computed at once (`fgrn.engines.clique_lanes.LANES`), and the number below which that is not done."""

NUMBER_BYTES = 8

CLIQUE_COST, STATE_COST, LANE_STATE_COST = 40.0, 0.012, 0.003
"""Microseconds for a clique in a block of rows, and for a joint state of a row, without lanes and with lanes."""

SMALL_CLIQUE = 4_096
"""Joint states of a clique up to which it may get a table although a smaller clique contains its variables too."""


class TablePlace(NamedTuple):
    """The clique and axes to which a table belongs, for a root of the cliques.

    Attributes:
        clique: the number of the clique.
        axes: of the table: those of known variables, then the others in the order of the clique.
        known: the known variables of the table.
        shape: of what is left of it as a table of the clique, without the axis for rows.
    """

    clique: int
    axes: tuple[int, ...]
    known: tuple[str, ...]
    shape: tuple[int, ...]

    def filled(self, table: np.ndarray, codes: Mapping[str, Any]) -> np.ndarray:
        """Return the table at the known states, rows first; one row if all rows are equal."""
        table = table.transpose(self.axes)
        if self.known:
            table = table[tuple([codes[name] for name in self.known])]
        found: np.ndarray = table.reshape(-1, *self.shape)
        return found


class SweepLayout(NamedTuple):
    """The arrays of a sweep to one root that are the same for all rows."""

    order: CliqueOrder
    places: Sequence[TablePlace]
    weights: Sequence[tuple[str, int, tuple[int, ...]]]  # of each variable with weights: its clique and shape there


@dataclass(frozen=True, eq=False)
class PrunedModel:
    """Some tables of a model, given which variables are known, and cliques of the others.

    Attributes:
        variables: of the model, by name.
        known: variables whose state is known.
        weighted: variables with a weight for each state.
        parts: the tables.
        tree: the cliques of what is not known in them.
        apart: tables of the evidence and its ancestors that known states separate from the question: they decide
            only how probable the evidence is.
        memory: the most bytes that an answer may take.
    """

    variables: Mapping[str, Variable]
    known: frozenset[str]
    weighted: frozenset[str]
    parts: tuple[ScopedTable, ...]
    tree: JunctionTree
    apart: tuple[ScopedTable, ...] = ()
    memory: float = inf
    _layouts: dict[int, SweepLayout] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Variable],
        parts: Sequence[ScopedTable],
        together: Sequence[str],
        known: frozenset[str],
        weighted: frozenset[str],
        memory: float | None,
        apart: tuple[ScopedTable, ...] = (),
    ) -> PrunedModel:
        """Return the pruned model, with the variables `together` in one clique; an error if memory does not suffice."""
        scopes = [unknown_of(part.scope, known) for part in parts]
        scopes.append(unknown_of(together, known))
        names = {name for scope in scopes for name in scope}
        left = {name: variable for name, variable in variables.items() if name in names}
        tree = tree_of(left, scopes, memory, quick=True) if left else JunctionTree({}, ((),), ())
        limit = allowed_memory(memory)
        return cls(variables, known, weighted & names, tuple(parts), tree, apart, limit)

    def joint(
        self, index: Mapping[str, int], tables: TableNumbers, evidence: Evidence, target: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the joint distribution of some variables in each row, and the row's log-likelihood.

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
        blocks = list(self._joint_blocks(index, tables, evidence, asked, root))
        shares = [self._with_known(index, rows, asked, target, found) for rows, found, _ in blocks]
        if len(blocks) == 1:
            return shares[0], blocks[0][2]
        shares.append(np.zeros((0, *(self.variables[name].cardinality for name in target))))
        return np.concatenate(shares), np.concatenate([*(log for _, _, log in blocks), np.zeros(0)])

    def marginals(
        self,
        index: Mapping[str, int],
        tables: TableNumbers,
        evidence: Evidence,
        names: Sequence[str],
        largest: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the distributions of some variables side by side, (rows, states of all), and log-likelihoods.

        All zero in an impossible row. With `largest`, the largest joint probability with each state, as a share of the
        largest of all, whose logarithm is the other number.
        """
        sizes = [self.variables[name].cardinality for name in names]
        begins = np.cumsum([0, *sizes])
        out, logs, first = np.zeros((evidence.rows, begins[-1])), np.zeros(evidence.rows), 0
        unknown = unknown_of(names, self.known)
        for rows, found, log in self._marginal_blocks(index, tables, evidence, unknown, largest):
            mine = slice(first, first + rows.rows)
            codes, block, every = self._codes(index, rows), out[mine], np.arange(rows.rows)
            for name, begin, size in zip(names, begins.tolist(), sizes, strict=False):
                if name in found:
                    block[:, begin : begin + size] = found[name]
                else:
                    block[every, begin + codes[name]] = 1.0
            logs[mine] = log
            block[np.isneginf(logs[mine])] = 0.0
            first = mine.stop
        if not largest and len(names):
            total = np.add.reduceat(out, begins[:-1], axis=1)
            out /= np.repeat(np.where(total > 0, total, 1), sizes, axis=1)
        return out, logs

    def families(self, index: Mapping[str, int], tables: TableNumbers, row: Evidence) -> list[np.ndarray]:
        """Return the joint distribution of the variables of each table, given one possible row."""
        root = self.tree.largest
        ((_, sweep),) = self._sweeps(index, tables, row, self.tree.total, root)
        sweep.inwards(keep=True)
        sweep.outwards()
        codes = self._codes(index, row)
        found = []
        for part, place in zip(self.parts, self._layout(root).places, strict=True):
            out = np.zeros([self.variables[name].cardinality for name in part.scope])
            cell = tuple(int(codes[name][0]) if name in codes else slice(None) for name in part.scope)
            out[cell] = sweep.joint_of(place.clique, unknown_of(part.scope, self.known))[0]
            found.append(out)
        return found

    def likeliest(
        self, index: Mapping[str, int], tables: TableNumbers, evidence: Evidence
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the most probable joint states of all variables, by variable, and their log-probability."""
        parts, logs = [], [np.zeros(0)]
        for rows, sweep in self._sweeps(index, tables, evidence, self.tree.total, self.tree.largest):
            sweep.inwards(largest=True, keep=True)
            codes, value = sweep.traced(rows.rows)
            parts.append({**codes, **self._codes(index, rows)})
            logs.append(value)
        names = [*self.tree.sizes, *self.known]
        return {name: np.concatenate([part[name] for part in parts]) for name in names}, np.concatenate(logs)

    def drawn(
        self,
        index: Mapping[str, int],
        tables: TableNumbers,
        row: Evidence,
        samples: int,
        random: np.random.Generator,
    ) -> dict[str, np.ndarray] | None:
        """Return samples of all variables given one row of evidence, by variable; None if the row is impossible."""
        ((_, sweep),) = self._sweeps(index, tables, row, self.tree.total, self.tree.largest)
        if not sweep.inwards(keep=True).any():
            return None
        known = {name: np.repeat(codes, samples) for name, codes in self._codes(index, row).items()}
        return {**sweep.drawn(samples, random), **known}

    def _joint_blocks(
        self,
        index: Mapping[str, int],
        tables: TableNumbers,
        evidence: Evidence,
        asked: tuple[str, ...],
        root: int,
    ) -> Iterator[tuple[Evidence, np.ndarray, np.ndarray]]:
        """Yield blocks of rows, with the joint distribution of some variables of the root, and log-likelihoods."""
        lanes = self._lanes(tables, evidence.rows, root)
        if lanes is not None:
            rank = self._layout(root).order.rank
            ordered = tuple(sorted(asked, key=rank.__getitem__))
            sizes = [self.variables[name].cardinality for name in ordered]
            for rows, codes, weights in self._lane_blocks(index, evidence):
                found, log = lanes.joint(codes, weights, ordered)
                yield rows, summed_to(found[: rows.rows].reshape(-1, *sizes), ordered, asked), log[: rows.rows]
            tables.sweeps.keep((self, root, ()), lanes)
            return
        for rows, sweep in self._sweeps(index, tables, evidence, max(self.tree.states), root):
            found = sweep.summed_inwards(asked)
            total = np.add.reduce(found.reshape(len(found), -1), axis=1)
            if total.all():
                log = np.log(total) + sweep.logs
                found = found / total.reshape(-1, *[1] * len(asked))
            else:
                with np.errstate(divide="ignore"):
                    log = np.log(total) + sweep.logs
                found = found / np.where(total > 0, total, 1).reshape(-1, *[1] * len(asked))
            if len(found) < rows.rows:
                found = np.broadcast_to(found, (rows.rows, *found.shape[1:]))
            yield rows, found, log if len(log) == rows.rows else np.broadcast_to(log, rows.rows)

    def _marginal_blocks(
        self,
        index: Mapping[str, int],
        tables: TableNumbers,
        evidence: Evidence,
        names: Sequence[str],
        largest: bool,
    ) -> Iterator[tuple[Evidence, dict[str, np.ndarray], np.ndarray]]:
        """Yield blocks of rows, with the distributions of some variables, not normalised, and log-likelihoods."""
        root = self.tree.largest
        lanes = None if largest or not names else self._lanes(tables, evidence.rows, root, names)
        if lanes is not None:
            for rows, codes, weights in self._lane_blocks(index, evidence):
                every, log = lanes.marginals(codes, weights)
                yield rows, {name: found[: rows.rows] for name, found in every.items()}, log[: rows.rows]
            tables.sweeps.keep((self, root, tuple(names)), lanes)
            return
        cliques = {name: self.tree.holding([name]) for name in names}
        for rows, sweep in self._sweeps(index, tables, evidence, self.tree.total, root):
            top = sweep.inwards(largest, keep=True).reshape(-1, self.tree.states[root])
            with np.errstate(divide="ignore"):
                log = np.log(top.max(axis=1) if largest else top.sum(axis=1)) + sweep.logs
            sweep.outwards(largest)
            yield rows, {name: sweep.marginal(clique, name, largest) for name, clique in cliques.items()}, log

    def microseconds(self, rows: int) -> float:
        """Return an estimate of the time for the marginals of a number of rows."""
        return self._microseconds(rows, self._in_lanes(rows))

    def _microseconds(self, rows: int, in_lanes: bool) -> float:
        """Return an estimate of the time for rows in lanes, or in blocks."""
        total, cliques = self.tree.total, len(self.tree.cliques)
        if in_lanes:
            return rows * total * LANE_STATE_COST + -(-rows // MOST_LANES) * cliques * CLIQUE_COST
        blocks = -(-rows // max(1, CELLS_AT_ONCE // max(total, 1)))
        return rows * total * STATE_COST + blocks * cliques * CLIQUE_COST

    def _in_lanes(self, rows: int) -> bool:
        """Return whether rows are computed in lanes: if there are many, they fit into memory, and it is faster.

        From as much work on as "auto" begins to take compiled kernels of engines. With many small cliques it is slower.
        """
        if rows < FEW_LANES or rows * self.tree.total < SMALL_WORK:
            return False
        if self._microseconds(rows, in_lanes=True) > self._microseconds(rows, in_lanes=False):
            return False
        shared = sum([prod([self.tree.sizes[name] for name in common]) for _, _, common in self.tree.edges])
        return NUMBER_BYTES * (self.tree.total + 2 * shared * MOST_LANES) <= self.memory

    def _lanes(self, tables: TableNumbers, rows: int, root: int, wanted: Sequence[str] = ()) -> LaneSweep | None:
        """Return the cliques for many rows in lanes, built now or cached with the tables.

        None where that is not done, or a product might vanish.
        """
        if not self._in_lanes(rows) or any(tables.factors[part.name] > 1 for part in self.parts):
            return None
        kept = tables.sweeps.take((self, root, tuple(wanted)))
        if kept is not None:
            return kept
        from .lane_sweeps import LaneSweep

        layout = self._layout(root)
        same: list[list[RunningProduct]] = [[] for _ in self.tree.cliques]
        for part, place in zip(self.parts, layout.places, strict=True):
            if not place.known:
                same[place.clique].append((1.0, place.filled(tables[part.name], {})))
        found = LaneSweep(layout.order, self.tree.sizes, same, self._varying_tables(tables, root), wanted)
        return found if found.suits else None

    def _varying_tables(self, tables: TableNumbers, root: int) -> dict[int, list[VaryingTable]]:
        """Return the tables that differ between rows, by clique: those with known variables or soft evidence."""
        from .lane_sweeps import VaryingTable

        layout, found = self._layout(root), dict[int, list[VaryingTable]]()
        for part, place in zip(self.parts, layout.places, strict=True):
            if not place.known:
                continue
            table = tables[part.name].transpose(place.axes)
            sizes = table.shape[: len(place.known)]
            numbers = np.ascontiguousarray(table.reshape(prod(sizes), -1).T)
            left = sorted(unknown_of(part.scope, self.known), key=layout.order.rank.__getitem__)
            varying = VaryingTable(tuple(left), tuple(zip(place.known, sizes, strict=True)), numbers)
            found.setdefault(place.clique, []).append(varying)
        for name, clique, _ in layout.weights:
            found.setdefault(clique, []).append(VaryingTable((name,)))
        return found

    def _lane_blocks(
        self, index: Mapping[str, int], evidence: Evidence
    ) -> Iterator[tuple[Evidence, dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Yield blocks of rows for lanes, with known states and soft evidence; the last row fills unused lanes."""
        for first in range(0, evidence.rows, MOST_LANES):
            rows = evidence.take(slice(first, first + MOST_LANES))
            lanes = np.minimum(np.arange(MOST_LANES), rows.rows - 1)
            codes = {name: column[lanes] for name, column in self._codes(index, rows).items()}
            weights = {
                name: rows.weights(index[name], self.variables[name].cardinality)[lanes] for name in self.weighted
            }
            yield rows, codes, weights

    def _sweeps(
        self, index: Mapping[str, int], tables: TableNumbers, evidence: Evidence, cells: int, root: int
    ) -> Iterator[tuple[Evidence, CliqueSweep]]:
        """Yield blocks of rows with the tables of the cliques, given the number of cells per row."""
        step = max(1, CELLS_AT_ONCE // max(cells, 1))
        layout, factors = self._layout(root), tables.factors
        for first in range(0, evidence.rows, step):
            rows = evidence if evidence.rows <= step else evidence.take(slice(first, first + step))
            if rows.rows == 1:
                row, slot = rows.codes[0].tolist(), rows.slot
                codes: dict[str, Any] = {name: row[slot[index[name]]] for name in self.known}
            else:
                codes = self._codes(index, rows)
            homes: list[list[RunningProduct]] = [[] for _ in self.tree.cliques]
            for part, place in zip(self.parts, layout.places, strict=True):
                homes[place.clique].append((factors[part.name], place.filled(tables[part.name], codes)))
            for name, clique, shape in layout.weights:
                weights = rows.weights(index[name], self.variables[name].cardinality)
                homes[clique].append((1.0, weights.reshape(-1, *shape)))
            yield rows, CliqueSweep(layout.order, homes)

    def _layout(self, root: int) -> SweepLayout:
        """Return the order of cliques and the places of tables, cached when complete, as threads may call at once."""
        found = self._layouts.get(root)
        if found is None:
            order = CliqueOrder(self.tree, root)
            weights = []
            for name in sorted(self.weighted):
                clique = self.tree.holding([name])
                weights.append((name, clique, order.step(clique).shape_of((name,))))
            found = SweepLayout(order, [self._place(part.scope, order) for part in self.parts], weights)
            self._layouts[root] = found
        return found

    def _place(self, scope: Sequence[str], order: CliqueOrder) -> TablePlace:
        rank = order.rank
        names = [name for name in scope if name in rank]
        if len(names) > 1:
            names.sort(key=rank.__getitem__)
        step = order.nearest_step(names)
        if self.tree.states[step.number] > SMALL_CLIQUE:
            step = order.step(self.tree.holding(names))
        axes = tuple([scope.index(name) for name in names])
        if len(axes) == len(scope):
            return TablePlace(step.number, axes, (), step.shape_of(names))
        known = tuple([name for name in scope if name not in rank])
        return TablePlace(step.number, (*[scope.index(name) for name in known], *axes), known, step.shape_of(names))

    def _codes(self, index: Mapping[str, int], evidence: Evidence) -> dict[str, np.ndarray]:
        """Return the states of the known variables, (rows,) each."""
        codes = evidence.codes.astype(np.int64)
        return {name: codes[:, evidence.slot[index[name]]] for name in self.known}

    def _with_known(
        self,
        index: Mapping[str, int],
        rows: Evidence,
        asked: Sequence[str],
        target: Sequence[str],
        found: np.ndarray,
    ) -> np.ndarray:
        """Return the distribution with an axis added for each known variable of the target, in order."""
        if len(asked) == len(target):
            return found
        codes = self._codes(index, rows)
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


def unknown_of(scope: Sequence[str], known: Set[str]) -> tuple[str, ...]:
    """Return the variables of a scope whose state is not known."""
    return tuple(scope) if known.isdisjoint(scope) else tuple([name for name in scope if name not in known])


def hard_and_soft(evidence: Evidence, names: Sequence[str]) -> list[tuple[np.ndarray, frozenset[str], frozenset[str]]]:
    """Return groups of rows with the same known variables: row numbers, these variables, those with soft evidence."""
    if evidence.rows == 1:
        row = dict(zip(evidence.columns, evidence.codes[0].tolist(), strict=True))
        hard = frozenset([name for name, code in row.items() if code not in (UNKNOWN, SOFT)])
        soft = frozenset([name for name, code in row.items() if code == SOFT])
        return [(np.zeros(1, dtype=np.intp), hard, soft)]
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
