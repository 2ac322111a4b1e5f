"""Queries that every model answers: posteriors, classes, imputed tables, class profiles, embeddings, explanations.

All queries here use `propagate`, for any kind of model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, FgrnWarning, counted, shortened, warn
from ..core.labels import Label, labels_of_codes
from ..core.settings import Name
from ..tables import frames
from ..tables.missing import is_missing_value
from . import explanation
from .completion import completed
from .opinion_pool import OpinionPool

if TYPE_CHECKING:
    from ..core.variable import Variable
    from ..flow.messages import Messages
    from ..flow.parameters import Specification
    from ..tables.encoded import Evidence


class MostProbable(NamedTuple):
    """The most probable joint labels of variables, and the log-probability of labels and evidence together."""

    labels: Mapping[str, Any]
    log_probability: Any


class PartOfMostProbable(MostProbable):
    """A part of the most probable joint labels; other variables without evidence are left out.

    The states are the most probable jointly with the others, and need not be so by themselves: see `posterior`. The
    log-probability is that of the whole assignment.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"part of the most probable joint assignment: Most{super().__repr__().partition('Most')[2]}"


def most_probable(
    labels: dict[str, Any],
    logarithm: Any,
    every: Collection[str],
    known: Collection[str],
    otherwise: Collection[str] = (),
) -> MostProbable:
    """Return the answer, as a `PartOfMostProbable` if some variables are neither in it nor in the evidence.

    Where some names were asked for, and others would have been in the answer `otherwise`, a part is warned of: it is
    easily taken for the most probable states of these variables alone, which is another question.
    """
    left_out = [name for name in otherwise if name not in labels and name not in known]
    if left_out:
        alone = f"posterior(evidence, {next(iter(labels))!r})" if len(labels) == 1 else f"joint(evidence, {[*labels]})"
        warn(
            f"This is a part of the most probable assignment of all unknown variables together; {shortened(left_out)} "
            f"{'is' if len(left_out) == 1 else 'are'} left out. The most probable states of {shortened(labels)} alone "
            f"may be others: take the largest of {alone}.",
            FgrnWarning,
        )
    is_part = any(name not in labels and name not in known for name in every)
    return (PartOfMostProbable if is_part else MostProbable)(labels, logarithm)


class Queries(ABC):
    """Base class of models that answer queries by their method `propagate`."""

    _beside: frozenset[str] = frozenset()  # columns of a table that are not variables
    _spec: Specification

    @property
    @abstractmethod
    def variables(self) -> tuple[Variable, ...]:
        """All variables of the model."""

    @property
    @abstractmethod
    def observed(self) -> tuple[str, ...]:
        """The names of the variables that leave the graph."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""

    @abstractmethod
    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        keep: Collection[Name] | None = None,
        parts: Collection[str] = ("marginal", "likelihood"),
        engine: str = "auto",
        device: str | None = None,
        precision: str | None = None,
    ) -> Messages:
        """Return the messages and marginals of every row of evidence, of some variables and parts."""

    def posterior(self, data: frames.Data, name: Name, *, engine: str = "auto", **options: Any) -> np.ndarray:
        """Return the posterior of a variable in each row, the row's own evidence on it included: (rows, states).

        The options are `device` and `precision` of `propagate`.
        """
        return self.propagate(data, keep=[name], parts=["marginal"], engine=engine, **options).marginal(name)

    def classify(self, data: frames.Data, name: Name, *, engine: str = "auto", **options: Any) -> np.ndarray:
        """Return the most probable label of a variable in each row given all others; evidence on it is not used.

        The options are `device` and `precision` of `propagate`.
        """
        name, columns = settings.name_of(name, self.variable), self._columns(data)
        if name in columns:
            given = columns.pop(name)
            if not columns:
                columns[name] = None if frames.is_bare(given) else [None] * len(given)
        found = self.propagate(columns or data, keep=[name], parts=["marginal"], engine=engine, **options)
        belief = found.marginal(name)
        return labels_of_codes(self.variable(name).labels, belief.argmax(axis=1))

    def complete(self, data: frames.Data, *, engine: str = "auto", **options: Any) -> Any:
        """Return the table with every missing or uncertain value replaced by its most probable label (imputation).

        The options are `device` and `precision` of `propagate`.
        """
        self._check_keys(data)
        return completed(
            data,
            self._beside,
            lambda name: self.variable(name).labels,
            lambda columns, wanted: self.propagate(columns, keep=wanted, parts=["marginal"], engine=engine, **options),
        )

    def prototype(self, name: Name, state: Label, *, engine: str = "auto") -> dict[str, np.ndarray]:
        """Return the distribution of every other observed variable given a state of one (its class profile).

        Of a state of a hidden variable that is its Bayesian cluster.
        Where no other variable is observed at an end of the graph, that of the Sources' variables.
        """
        variable = self.variable(name)
        name = variable.name
        label = variable.labels[variable.code(state)]
        ends = [other for other in self.observed if other != name]
        others = ends or [other for other in self._spec.layout.prior_names if other != name]
        found = self.propagate({name: [label]}, keep=others, engine=engine)
        return {other: found.marginal(other)[0] for other in others}

    def embed(self, data: frames.Data, name: Name, *, engine: str = "auto") -> np.ndarray:
        """Return the backward message at a hidden variable, the embedding of each row: (rows, states)."""
        return self.propagate(data, keep=[name], parts=["backward"], engine=engine).backward(name)

    def explain(
        self,
        row: Mapping[str, Any],
        name: Name,
        state: Label | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        orders: int = explanation.ORDERS,
        engine: str = "auto",
    ) -> explanation.Explanation:
        """Return how much each known value of a row adds to the log-odds of a state of a variable.

        The contribution of a value depends on the values before it; it is the mean over all orders in which the values
        become known (the Shapley value) or, of more than four values, over random orders, each with its reverse. The
        contributions and the log-odds without evidence sum to those of the row.

        Args:
            row: the values of one row; what is given on the variable itself is not used.
            name: the variable that is decided.
            state: the state to explain, the most probable one unless given.
            values: the same values as people know them, if the row holds codes.
            orders: the number of random orders; all orders are used if there are not more.
            engine: see `propagate`.
        """
        pool = OpinionPool((self,))
        return explained_by(pool, row, name, state, values=values, orders=orders, engine=engine)

    def _encoded_rows(self, data: frames.Data) -> Evidence:
        """Return the rows of a table as codes, to ask several networks of the same variables; see `OpinionPool`."""
        raise NotImplementedError

    def _query_names(self, names: Collection[Name] | None) -> tuple[str, ...]:
        return self.observed if names is None else settings.variable_names("names", names, own=self.variable)

    def _columns(self, data: frames.Data) -> dict[str, Any]:
        """Return the columns of a table by name; a column named by a Variable is checked against the model's states."""
        self._check_keys(data)
        return frames.columns(data)

    def _check_keys(self, data: frames.Data) -> None:
        """Raise an error for Variables other than those of the model; columns are not read, as some are iterators."""
        for key in data if isinstance(data, Mapping) else ():
            settings.name_of(key, self.variable)


def explained_by(
    pool: OpinionPool,
    row: Mapping[str, Any],
    name: Name,
    state: Label | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    sequence: Sequence[str] | None = None,
    orders: int = explanation.ORDERS,
    engine: str = "auto",
) -> explanation.Explanation:
    """Explain a state by one model, see `Queries.explain`, or by several that answer together.

    Orders of values are drawn for the `sequence` of columns, or else for that of the variables of the model.
    """
    settings.whole("orders", orders, 1)
    first = pool.models[0]
    variable = first.variable(name)
    name = variable.name
    columns = {key: only_value(key, column) for key, column in first._columns(row).items() if key != name}
    known = [key for key, column in columns.items() if not _is_open(column)]
    place = {key: number for number, key in enumerate(sequence or [one.name for one in first.variables])}
    known.sort(key=lambda key: place.get(key, len(place)))  # so that the sequence of the row's keys does not matter

    def posterior(shown: np.ndarray) -> np.ndarray:
        table = {key: shown_where(columns[key], shown[:, number]) for number, key in enumerate(known)}
        return pool.messages(table or {name: [None] * len(shown)}, [name], engine=engine)[name]

    code = None if state is None else variable.code(state)
    for model in pool.models if known else ():  # refused here if it is impossible, as the one row it is
        model.propagate({key: shown_where(columns[key], np.ones(1, bool)) for key in known}, keep=[], engine=engine)
    named_values = values or {key: column for key, column in columns.items() if key in known}
    levels = {one.name: one.labels for one in first.variables if one.name in (*known, name)}
    return explanation.explain(named_values, known, posterior, name, variable.labels, code, orders, levels)


def only_value(name: Name, column: Any) -> Any:
    """Return the only value of a column."""
    if isinstance(column, frames.Coded) or not frames.is_bare(column):
        if len(column) != 1:
            raise EvidenceError(f"An explanation takes one row, and {name!r} has {counted(len(column), 'value')}.")
        return column if isinstance(column, frames.Coded) else column[0]
    return column


def _is_open(value: Any) -> bool:
    return bool(value.unknown[0]) if isinstance(value, frames.Coded) else is_missing_value(value)


def shown_where(value: Any, shown: np.ndarray) -> Any:
    """Return a column with one value in the rows marked `shown`, and missing elsewhere."""
    if isinstance(value, frames.Coded):
        return frames.Coded(np.where(shown, value.codes[0], frames.UNKNOWN))
    return [value if here else None for here in shown.tolist()]
