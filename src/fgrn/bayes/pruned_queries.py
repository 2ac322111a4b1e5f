"""Queries answered from the part of a model that they depend on, with evidence entered into the tables."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.exceptions import WiringError
from ..core.labels import Labels
from ..core.settings import Name, name_of
from ..core.variable import Variable
from ..flow.evidence import encode
from ..flow.marginals import refuse_impossible
from ..flow.messages import Messages
from ..flow.plain_rows import plain_row
from ..tables import frames
from ..tables.encoded import Evidence
from .elimination import PrunedModel, hard_and_soft
from .realisation import ScopedTable
from .table_graph import TableGraph
from .table_numbers import TableNumbers

if TYPE_CHECKING:
    from ..flow.parameters import Parameters, Specification

FEW_ROWS = 16
"""Up to this many rows, posteriors are always computed from the tables they depend on."""

MOST_KEPT = 2**17
"""The most cached variables times pruned models."""

LARGE_TOTAL = 2**16
"""Joint states of the cliques of the whole model from which a few rows always use cliques of unknown variables."""

STATE_COST, VARIABLE_COST = 0.007, 60.0
"""Microseconds for a joint state of a clique in a row, and for a variable of a junction tree that is built."""


class VariableList(NamedTuple):
    """Variables in the form of `Messages`: their names, labels and numbers of states."""

    names: tuple[str, ...]
    labels: tuple[Labels, ...]
    cardinality: np.ndarray

    def edge(self, name: Name) -> int:
        """Return the number of a variable."""
        return self.names.index(name_of(name))


class TableArrays:
    """The numbers of all tables of a model.

    Attributes:
        parameters: of the model, from which they are.
        tables: by name, with an axis for each variable.
    """

    def __init__(
        self,
        parts: Sequence[ScopedTable],
        variables: Mapping[str, Variable],
        spec: Specification,
        parameters: Parameters,
    ) -> None:
        self.parameters = parameters
        layout, values = spec.layout, parameters.values
        self.tables = TableNumbers(
            (
                part.name,
                layout.table(values, layout.table_number(part.name)).reshape(
                    [variables[one].cardinality for one in part.scope]
                ),
            )
            for part in parts
        )

    @cached_property
    def with_zeros(self) -> frozenset[str]:
        """The names of the tables with zeros."""
        return frozenset(name for name, table in self.tables.items() if not table.all())


class PrunedQueries:
    """Pruned answers of a model given by tables."""

    memory_limit: float | None
    _variables: dict[str, Variable]
    _parts: tuple[ScopedTable, ...]
    _spec: Specification
    _parameters: Parameters
    _questions: dict[tuple[Any, ...], PrunedModel]
    _kept_arrays: TableArrays | None

    def _pruned(self, data: frames.Data, target: tuple[str, ...]) -> np.ndarray | None:
        """Return the joint distribution of some variables in each row, from the tables it depends on.

        None for many rows that an engine answers faster, and for impossible ones, of which the whole says why.
        """
        model: Any = self
        evidence, many = plain_row(model, data), False
        if evidence is None:
            columns = frames.columns(data)
            many = bool(columns) and frames.row_count(columns) > FEW_ROWS
            if many and self._fits() and not self._may_pay(frames.row_count(columns), 1):
                return None
            evidence = encode(model, data)
        groups = hard_and_soft(evidence, model.names)
        if many and not self._pays(groups, [self._near(target, known, weighted) for _, known, weighted in groups]):
            return None
        if len(groups) == 1:
            ((_, known, weighted),) = groups
            out, _ = self._joint(evidence, target, known, weighted, {}, likelihood=False)
            out = out if out.flags.writeable else out.copy()
        else:
            out = np.zeros((evidence.rows, *(self._variables[one].cardinality for one in target)))
            for rows, known, weighted in groups:
                out[rows], _ = self._joint(evidence.take(rows), target, known, weighted, {}, likelihood=False)
        possible = np.logical_or.reduce(out, axis=tuple(range(1, out.ndim)))
        if possible.all():
            return out
        if self._fits():
            return None
        refuse_impossible(np.flatnonzero(~possible))
        return out

    def _joint(
        self,
        evidence: Evidence,
        target: tuple[str, ...],
        known: frozenset[str],
        weighted: frozenset[str],
        changed: Mapping[str, np.ndarray],
        likelihood: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the joint distribution of some variables, and log-likelihoods, of rows with the same known variables.

        A distribution is all zero where the evidence is impossible.

        Args:
            evidence: the rows.
            target: the variables.
            known: those whose states the rows know.
            weighted: those of whose states they know weights.
            changed: tables, by name, that are to be used instead of those of the model.
            likelihood: whether the log-likelihood is wanted; without it, it is -inf for impossible rows alone.
        """
        model: Any = self
        near = self._near(target, known, weighted)
        tables = self._arrays.tables.with_changed(changed)
        shares, logs = near.joint(model.index, tables, evidence, target)
        logs = logs + evidence.log_scale + self._taken_out(near.parts)
        rest = self._apart(near.apart, target, known, weighted, likelihood or bool(changed))
        if rest is not None:
            _, more = rest.joint(model.index, tables, evidence, ())
            logs = logs + more + self._taken_out(rest.parts)
            shares = np.where((more > -np.inf).reshape(-1, *[1] * len(target)), shares, 0.0)
        return shares, logs

    def _apart(
        self,
        apart: Sequence[ScopedTable],
        target: tuple[str, ...],
        known: frozenset[str],
        weighted: frozenset[str],
        likelihood: bool,
    ) -> PrunedModel | None:
        """The tables that known states separate from a target; None if there are none.

        All of them, or those that decide whether the evidence is possible if the log-likelihood is not wanted.
        """
        if not apart or likelihood:
            return self._question("apart", target, known, weighted, lambda: (apart, (), ())) if apart else None
        zeros = self._arrays.with_zeros

        def tables() -> tuple[Sequence[ScopedTable], tuple[str, ...], tuple[ScopedTable, ...]]:
            some = zeros.union([part.name for part in apart if not weighted.isdisjoint(part.scope)])
            return self._graph.deciding(apart, some, known | weighted), (), ()

        found = self._question(("deciding", zeros), target, known, weighted, tables)
        return found if found.parts else None

    def _doubtful(
        self, apart: Sequence[ScopedTable], known: frozenset[str], weighted: frozenset[str]
    ) -> tuple[ScopedTable, ...]:
        """Return the tables that may make evidence impossible: with zeros or soft evidence, or connected to such."""
        zeros = self._arrays.with_zeros
        some = [part for part in apart if part.name in zeros or not weighted.isdisjoint(part.scope)]
        return self._graph.joined_to(some, apart, known) if some else ()

    def _near(self, target: tuple[str, ...], known: frozenset[str], weighted: frozenset[str]) -> PrunedModel:
        """Return the tables that the distribution of a target depends on, and those separated from it."""

        def tables() -> tuple[Sequence[ScopedTable], tuple[str, ...], tuple[ScopedTable, ...]]:
            near, apart = self._graph.near_and_apart(target, known, weighted)
            return near, target, apart

        return self._question("near", target, known, weighted, tables)

    def _question(
        self, kind: Hashable, target: tuple[str, ...], known: frozenset[str], weighted: frozenset[str], tables: Any
    ) -> PrunedModel:
        """Return a pruned model built from the result of `tables`, or a cached one.

        It is kept when it is complete, for threads may ask one model at once.

        Args:
            kind: of question.
            target: the variables whose joint distribution is wanted.
            known: those whose states are known.
            weighted: those of whose states weights are known.
            tables: a function to its tables, the variables that are together in a clique, and the tables apart.
        """
        key = (kind, target, known, weighted, self.memory_limit)
        found = self._questions.get(key)
        if found is None:
            parts, together, apart = tables()
            found = PrunedModel.of(self._variables, parts, together, known, weighted, self.memory_limit, apart)
            if len(self._questions) * len(self._variables) >= MOST_KEPT:
                self._questions.clear()
            self._questions[key] = found
        return found

    def _pruned_messages(
        self, data: frames.Data, kept: tuple[str, ...], parts: Collection[str], impossible: str = "raise"
    ) -> Messages | None:
        """Return the marginals of some variables and the log-likelihood, from cliques of unknown variables.

        None where the cliques of the whole model are faster, and for impossible rows, of which the whole says why.
        """
        model: Any = self
        columns = frames.columns(data)
        count = frames.row_count(columns) if columns else 1
        if self._fits() and not self._may_pay(count, 1):
            return None
        evidence = encode(model, model._checked(data))
        groups = hard_and_soft(evidence, model.names)
        if self._fits() and not self._may_pay(count, len(groups)):
            return None
        found = [
            self._question(
                "alive", kept, known, weighted, lambda k=known, w=weighted: (self._graph.alive({*kept, *k, *w}), (), ())
            )
            for _, known, weighted in groups
        ]
        if not self._pays(groups, found):
            return None
        sizes = np.array([self._variables[name].cardinality for name in kept], dtype=np.int64)
        marginals, logs = np.zeros((evidence.rows, int(sizes.sum()))), np.zeros(evidence.rows)
        for (rows, _, _), question in zip(groups, found, strict=True):
            tables = self._arrays.tables
            marginals[rows], logs[rows] = question.marginals(model.index, tables, _rows_of(evidence, rows), kept)
            logs[rows] += self._taken_out(question.parts)
        logs += evidence.log_scale
        if impossible != "mark" and np.isneginf(logs).any():
            if self._fits():
                return None
            refuse_impossible(np.flatnonzero(np.isneginf(logs)))
        every = VariableList(model.names, model.labels, np.array([one.cardinality for one in model.variables]))
        ways = tuple(dict.fromkeys(parts))
        return Messages(
            every, kept, logs, None, np.ones(evidence.rows, dtype=bool),
            np.array([model.index[name] for name in kept], dtype=np.intp),
            {"marginal": marginals} if "marginal" in ways else {}, ways,
        )  # fmt: skip

    def _pruned_likelihood(self, data: frames.Data) -> np.ndarray:
        """Return the log-likelihood of each row, from the evidence and its ancestors; -inf if it is impossible."""
        model: Any = self
        evidence = encode(model, model._checked(data))
        logs = np.zeros(evidence.rows)
        for rows, known, weighted in hard_and_soft(evidence, model.names):
            _, logs[rows] = self._joint(_rows_of(evidence, rows), (), known, weighted, {}, likelihood=True)
        return logs

    def _pruned_likeliest(self, data: frames.Data) -> tuple[dict[str, np.ndarray], np.ndarray] | None:
        """Return the most probable joint states of all variables, from cliques of unknown ones; log-probability.

        None where the cliques of the whole model are faster, and for impossible rows, of which the whole says why.
        """
        model: Any = self
        evidence = encode(model, model._checked(data))
        every = self._questions_of_all(evidence)
        if every is None:
            return None
        codes = {name: np.zeros(evidence.rows, dtype=np.int64) for name in model.names}
        logs = np.zeros(evidence.rows)
        for rows, question in every:
            tables = self._arrays.tables
            found, logs[rows] = question.likeliest(model.index, tables, _rows_of(evidence, rows))
            for name, column in found.items():
                codes[name][rows] = column
        if np.isneginf(logs).any() and self._fits():
            return None
        refuse_impossible(np.flatnonzero(np.isneginf(logs)))
        return codes, logs + evidence.log_scale + self._taken_out(self._parts)

    def _pruned_max_marginals(self, data: frames.Data, names: Sequence[str]) -> dict[str, np.ndarray] | None:
        """Return the log-probability of the best assignment with each state of some variables, (rows, states).

        None where the cliques of the whole model are faster, and for impossible rows, of which the whole says why.
        """
        model: Any = self
        evidence = encode(model, data)
        found = self._questions_of_all(evidence)
        if found is None:
            return None
        sizes = [self._variables[name].cardinality for name in names]
        shares, logs = np.zeros((evidence.rows, sum(sizes))), np.zeros(evidence.rows)
        for rows, question in found:
            some = _rows_of(evidence, rows)
            shares[rows], logs[rows] = question.marginals(model.index, self._arrays.tables, some, names, largest=True)
        if np.isneginf(logs).any() and self._fits():
            return None
        refuse_impossible(np.flatnonzero(np.isneginf(logs)))
        with np.errstate(divide="ignore"):
            whole = np.log(shares) + (logs + evidence.log_scale + self._taken_out(self._parts))[:, None]
        return dict(zip(names, np.split(whole, np.cumsum(sizes)[:-1], axis=1), strict=True))

    def _pruned_samples(
        self, data: frames.Data, names: Sequence[str], each: int, random: np.random.Generator
    ) -> dict[str, np.ndarray] | None:
        """Return samples of some variables given each row, `each` for one row after another, by variable.

        None where the cliques of the whole model are faster, and for impossible rows, of which the whole says why.
        """
        model: Any = self
        evidence = encode(model, data)
        groups = hard_and_soft(evidence, model.names)
        if self._fits() and not self._may_pay(evidence.rows, len(groups)):
            return None
        drawn: dict[int, dict[str, np.ndarray] | None] = {}
        asked = tuple(names)
        for rows, known, weighted in groups:
            some = {*asked, *known, *weighted}
            question = self._question("drawn", asked, known, weighted, lambda s=some: (self._graph.alive(s), (), ()))
            for row in rows.tolist():
                one = evidence.take(slice(row, row + 1))
                drawn[row] = question.drawn(model.index, self._arrays.tables, one, each, random)
        impossible = [row for row in range(evidence.rows) if drawn[row] is None]
        if impossible and self._fits():
            return None
        refuse_impossible(np.array(impossible, dtype=np.intp))
        found = [drawn[row] or {} for row in range(evidence.rows)]
        return {name: np.concatenate([np.zeros(0, dtype=np.int64), *(one[name] for one in found)]) for name in names}

    def _questions_of_all(self, evidence: Evidence) -> list[tuple[np.ndarray, PrunedModel]] | None:
        """Return the cliques of unknown variables for each pattern of evidence; None if the whole model is faster."""
        model: Any = self
        groups = hard_and_soft(evidence, model.names)
        if self._fits() and not self._may_pay(evidence.rows, len(groups)):
            return None
        every = [
            self._question("all", (), known, weighted, lambda: (self._parts, (), ())) for _, known, weighted in groups
        ]
        if not self._pays(groups, every):
            return None
        return [(rows, question) for (rows, _, _), question in zip(groups, every, strict=True)]

    @cached_property
    def _graph(self) -> TableGraph:
        return TableGraph(self._parts)

    def _may_pay(self, rows: int, patterns: int) -> bool:
        """Return whether the cliques of the whole model are slower than building cliques for each pattern."""
        model: Any = self
        if rows <= FEW_ROWS and model.tree.total >= LARGE_TOTAL:
            return True
        return bool(rows * model.tree.total * STATE_COST > 2 * patterns * len(self._variables) * VARIABLE_COST)

    def _pays(
        self, groups: Sequence[tuple[np.ndarray, frozenset[str], frozenset[str]]], found: Sequence[PrunedModel]
    ) -> bool:
        """Return whether the cliques of pruned models are faster than those of the whole model."""
        model: Any = self
        if not self._fits():
            return True
        rows = [len(group[0]) for group in groups]
        if sum(rows) <= FEW_ROWS and model.tree.total >= LARGE_TOTAL:
            return True
        pruned = sum(one.microseconds(count) for count, one in zip(rows, found, strict=True))
        return bool(pruned < sum(rows) * model.tree.total * STATE_COST)

    @property
    def _arrays(self) -> TableArrays:
        """The current tables, cached until they change."""
        found = self._kept_arrays
        if found is None or found.parameters is not self._parameters:
            found = self._kept_arrays = TableArrays(self._parts, self._variables, self._spec, self._parameters)
        return found

    def _taken_out(self, parts: Sequence[ScopedTable]) -> float:
        """The logarithm of what tables that are no distributions were divided by; their largest number is one."""
        if self._graph.directed:
            return 0.0
        tables = [part.table for part in parts if not part.conditional]
        return float(sum([np.log(table.max()) for table in tables if table is not None]))

    def _fits(self) -> bool:
        """Return whether the cliques of the whole model fit into memory, and into a Network."""
        model: Any = self
        try:
            return bool(model.tree)
        except WiringError:
            return False


def _rows_of(evidence: Evidence, rows: np.ndarray) -> Evidence:
    """Return some rows of the evidence, in order; the same object if they are all rows."""
    return evidence if len(rows) == evidence.rows else evidence.take(rows)
