"""What people ask a model: posteriors, classes, completed tables, prototypes, embeddings, explanations, new rows.

Everything here is a question to `propagate`, whatever kind of model answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import explanation, frames, settings
from .completion import completed
from .exceptions import EvidenceError
from .labels import Label, named
from .sampling import sampled

if TYPE_CHECKING:
    from .graph import Variable
    from .messages import Messages
    from .parameters import Parameters, Specification
    from .plan import Plan


class Queries:
    """The questions; a model has `propagate`, `variable`, `observed`, and the rest that is named here."""

    _beside: frozenset[str] = frozenset()  # columns of a table that are no variables
    _spec: Specification
    _parameters: Parameters

    propagate: Callable[..., Messages]
    variable: Callable[[str], Variable]
    _plan: Callable[[Collection[str]], Plan]

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the variables that leave the graph."""
        raise NotImplementedError

    def posterior(self, data: frames.Data, name: str, *, engine: str = "auto") -> np.ndarray:
        """The distribution of a variable in each row, the row's own evidence on it included: (rows, states)."""
        return self.propagate(data, keep=[name], parts=["marginal"], engine=engine).marginal(name)

    def classify(self, data: frames.Data, name: str, *, engine: str = "auto") -> np.ndarray:
        """The likeliest label of a variable in each row, given all the others: what is given on it is not used."""
        columns = frames.columns(data)
        if name in columns:
            given = columns.pop(name)
            if not columns:
                columns[name] = None if frames.is_bare(given) else [None] * len(given)
        belief = self.propagate(columns or data, keep=[name], parts=["marginal"], engine=engine).marginal(name)
        return named(self.variable(name).labels, belief.argmax(axis=1))

    def complete(self, data: frames.Data, *, engine: str = "auto") -> Any:
        """The same table with every unknown or partly known value replaced by its likeliest label."""
        return completed(
            data,
            self._beside,
            lambda name: self.variable(name).labels,
            lambda columns, wanted: self.propagate(columns, keep=wanted, parts=["marginal"], engine=engine),
        )

    def prototype(self, name: str, state: Label, *, engine: str = "auto") -> dict[str, np.ndarray]:
        """The distribution of every other observed variable where a variable is in a given state.

        Where no other variable is observed at an end of the graph, that of the Sources' variables.
        """
        variable = self.variable(name)
        label = variable.labels[variable.code(state)]
        ends = [other for other in self.observed if other != name]
        others = ends or [other for other in self._spec.layout.prior_names if other != name]
        found = self.propagate({name: [label]}, keep=others, engine=engine)
        return {other: found.marginal(other)[0] for other in others}

    def centroid(self, name: str, state: Label, *, engine: str = "auto") -> dict[str, np.ndarray]:
        """The distribution of every observed variable around one state of a hidden variable: its Bayesian cluster."""
        return self.prototype(name, state, engine=engine)

    def embed(self, data: frames.Data, name: str, *, engine: str = "auto") -> np.ndarray:
        """The backward message at a hidden variable: what a row's known values say of it, (rows, states)."""
        return self.propagate(data, keep=[name], parts=["backward"], engine=engine).backward(name)

    def explain(
        self,
        row: Mapping[str, Any],
        name: str,
        state: Label | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        orders: int = explanation.ORDERS,
        engine: str = "auto",
    ) -> explanation.Explanation:
        """How much each known value of a row adds to the log-odds of a state of a variable.

        What a value adds depends on what is known already; it is the mean over orders in which the values become known,
        each with its reverse. The contributions and the log-odds before anything is known sum to those of the row.

        Args:
            row: the values of one row; what is given on the variable itself is not used.
            name: the variable that is decided.
            state: the state to explain, the likeliest unless given.
            values: the same values as people know them, if the row holds codes.
            orders: how many orders.
            engine: see `propagate`.
        """
        settings.whole("orders", orders, 1)
        variable = self.variable(name)
        columns = {key: _one(key, column) for key, column in frames.columns(row).items() if key != name}
        known = [key for key, column in columns.items() if not _is_open(column)]

        def posterior(shown: np.ndarray) -> np.ndarray:
            table = {key: _where(columns[key], shown[:, number]) for number, key in enumerate(known)}
            return self.posterior(table or {name: [None] * len(shown)}, name, engine=engine)

        code = None if state is None else variable.code(state)
        named_values = values or {key: column for key, column in columns.items() if key in known}
        return explanation.explain(named_values, known, posterior, name, variable.labels, code, orders)

    def sample(self, rows: int = 1, *, seed: int = 0, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """New rows, drawn along the blocks, causes first: the labels of some variables, those observed unless named."""
        settings.whole("rows", rows, 0)
        settings.whole("seed", seed, 0)
        wanted = self.observed if names is None else settings.names("names", names)
        plan = self._plan(())
        edges = {name: plan.edge(name) for name in wanted}
        codes = self._sampled(plan, rows, np.random.default_rng(seed))
        return {name: named(plan.labels[edge], codes[:, edge]) for name, edge in edges.items()}

    def _sampled(self, plan: Plan, rows: int, generator: np.random.Generator) -> np.ndarray:
        return sampled(plan, self._parameters.values, rows, generator, {})


def _one(name: str, column: Any) -> Any:
    """The only value of a column."""
    if isinstance(column, frames.Coded) or not frames.is_bare(column):
        if len(column) != 1:
            raise EvidenceError(f"One row is explained at a time, and {name!r} has {len(column):,} values.")
        return column if isinstance(column, frames.Coded) else column[0]
    return column


def _is_open(value: Any) -> bool:
    return bool(value.codes[0] < 0) if isinstance(value, frames.Coded) else frames.is_unknown(value)


def _where(value: Any, shown: np.ndarray) -> Any:
    """One value in the rows where it is shown, and unknown elsewhere."""
    if isinstance(value, frames.Coded):
        return frames.Coded(np.where(shown, value.codes[0], -1))
    return [value if here else None for here in shown.tolist()]
