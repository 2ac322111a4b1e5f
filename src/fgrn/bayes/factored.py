"""FactoredModel: models given by tables over a few variables each; queries are answered by their Network.

`to_network` realises a model in reduced normal form; all inference and learning happens there, with the same Plan,
engines and Counts as for any other Network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, FgrnError, WiringError, nearest, unknown_name
from ..core.labels import Labels, labels_of_codes
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode, known_names
from ..flow.marginals import normalised
from ..flow.messages import Messages
from ..flow.parameters import Parameters, initial
from ..graph.blocks import Factor
from ..graph.network import Network
from ..graph.supervisor import specification_of
from ..graph.wiring import check_ties
from ..queries.questions import MostProbable, Queries, most_probable
from ..tables import frames
from ..tables.outputs import frame_of_records
from .assignment_queries import AssignmentQueries
from .clique_memory import check_memory, engine_memory
from .document import Document, WrittenTable
from .elimination import PrunedModel
from .junction_tree import JunctionTree, junction_tree
from .pruned_queries import FEW_ROWS, PrunedQueries, TableArrays
from .realisation import (
    ScopedTable,
    alike_in_all_but_start,
    exact,
    factor_of,
    lonely,
    loopy,
)

METHODS = ("exact", "loopy")

MOST_NETWORKS = 16
"""The most cached Networks of one model, with some variables in one clique."""


class FactoredModel(PrunedQueries, Queries, AssignmentQueries):
    """Base class of models given by tables over a few variables each: `BayesianNetwork` and `MarkovNetwork`."""

    memory_limit: float | None = None
    """The most bytes that the cliques of exact inference may take; None for half of the memory of the machine."""

    def __init__(
        self,
        variables: Mapping[str, Variable],
        parts: Sequence[ScopedTable],
        name: str = "",
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.name = name
        self.properties = {key: dict(value) for key, value in (properties or {}).items()}
        self._variables = dict(variables)
        self._given = tuple(parts)
        self._parts = (*parts, *lonely(variables, parts))
        blocks = [factor_of(variables, part) for part in self._parts]
        check_ties(blocks)
        self._spec = specification_of(blocks)
        self._parameters: Parameters = initial(self._spec)
        self._trained: tuple[dict[str, Any], ...] = ()
        self._networks: dict[tuple[str, ...], Network] = {}
        self._questions: dict[tuple[Any, ...], PrunedModel] = {}
        self._kept_arrays: TableArrays | None = None

    # Properties

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, in order."""
        return tuple(self._variables.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variables, in order."""
        return tuple(self._variables)

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of all variables: each of them may be observed."""
        return self.names

    @cached_property
    def labels(self) -> tuple[Labels, ...]:
        """The labels of the states of all variables, in order."""
        return tuple(variable.labels for variable in self._variables.values())

    @cached_property
    def index(self) -> dict[str, int]:
        """The position of every variable, by name."""
        return {name: number for number, name in enumerate(self._variables)}

    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""
        try:
            found = self._variables[settings.name_of(name)]
        except (KeyError, TypeError):
            raise unknown_name("variable", name, self._variables) from None
        settings.check_states(name, found.labels)
        return found

    def table(self, name: Name) -> np.ndarray:
        """Return a table by name, (joint states of all its variables but the last, states of the last); read-only.

        The rows are in the order of `scope`, the first variable slowest.
        """
        return self._spec.layout.table(
            self._parameters.values, self._spec.layout.table_number(settings.name_of(name, self.variable))
        )

    def to_frame(self, name: Name) -> Any:
        """Return a table as a pandas data frame: a row for each joint state of its variables, the probability last."""
        scope = self.scope(name)
        labels = [self._variables[one].labels for one in scope]
        last = "probability"
        while last in scope:
            last += "_"
        cells = zip(product(*labels), self.table(name).reshape(-1).tolist(), strict=True)
        return frame_of_records([{**dict(zip(scope, states, strict=True)), last: value} for states, value in cells])

    def scope(self, name: Name) -> tuple[str, ...]:
        """Return the variables of a table; the last one is its columns."""
        found = next((part.scope for part in self._given if part.name == settings.name_of(name)), None)
        if found is None:
            raise unknown_name("table", name, [part.name for part in self._given])
        return found

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """The training record: one mapping per call of `learn`, with rows, settings, likelihood and execution.

        "engine" and "merge" are the chosen ones if they were not given. A merge of None means that merging was decided
        by a sample of the rows; an engine of None that there were no missing values, so that rows were only counted.
        """
        return self._trained

    @property
    def tree(self) -> JunctionTree:
        """The junction tree for exact inference; an error if its cliques need too much memory."""
        check_memory(self._tree, engine_memory(self._tree), self.memory_limit)
        return self._tree

    @cached_property
    def _tree(self) -> JunctionTree:
        """The junction tree, however much memory it needs."""
        return self._tree_with(self._parts)

    def _tree_with(self, parts: Sequence[ScopedTable]) -> JunctionTree:
        sizes = {name: variable.cardinality for name, variable in self._variables.items()}
        return junction_tree(sizes, [part.scope for part in parts])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactoredModel) or type(other) is not type(self):
            return NotImplemented
        alike = len(self._given) == len(other._given) and all(map(alike_in_all_but_start, self._given, other._given))
        return self.variables == other.variables and alike and self._parameters == other._parameters

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def __getstate__(self) -> dict[str, Any]:
        properties = {key: dict(some) for key, some in self.properties.items()}
        made_again: dict[str, Any] = {"_networks": {}, "_questions": {}, "_kept_arrays": None, "_kept_draws": None}
        return {**self.__dict__, **made_again, "properties": properties}

    def copy(self) -> Self:
        """Return a copy of the model, to be learnt further."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__getstate__())
        return other

    def save(self, path: str | Path) -> None:
        """Write the model to a model file (`.fgrn`); `fgrn.load` reads it back.

        For other programs there is `fgrn.write`.
        """
        from ..files.model_file import save

        save(self, path)

    def _repr_html_(self) -> str | None:
        """Return the HTML for notebooks: a drawing with the beliefs, and a button that opens the model's page."""
        from ..page.notebook import notebook_html

        return notebook_html(self)

    def to_document(self) -> Document:
        """Return the model as the content of a network file."""
        states = {name: tuple(str(label) for label in variable.labels) for name, variable in self._variables.items()}
        factors = tuple(WrittenTable(scope, values) for scope, values in self._written())
        return Document(states, factors, self._directed, self.name, self.properties, self._compact_records())

    _directed = False

    def _compact_records(self) -> dict[str, dict[str, Any]]:
        """Return the parameters of compact tables, for files."""
        return {}

    def _written(self) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Return the variables and numbers of every table, one axis for each variable."""
        raise NotImplementedError

    # As a Network

    def to_network(self, method: str = "exact") -> Network:
        """Return the model in reduced normal form, as a Network.

        Args:
            method: "exact", a junction tree, whose two sweeps are exact; or "loopy", the graph of the model itself, on
                which messages are sent round until they converge, and beliefs are approximations. There a compact
                table, such as a `NoisyOr`, is frozen: to learn its parameters, learn the model itself.
        """
        settings.choice("method", method, METHODS)
        parts = [replace(part, table=self._start(part)) if part.conditional else part for part in self._parts]
        if method == "loopy":
            return Network(loopy(self._variables, parts))
        return Network(exact(self._variables, parts, self.tree))

    def _start(self, part: ScopedTable) -> np.ndarray | None:
        """Return the current values of a table; None if it has not been drawn at random yet."""
        number = self._spec.layout.table_number(part.name)
        return None if number in self._parameters.undrawn_tables else self.table(part.name)

    def propagate(
        self,
        evidence: frames.Data = None,
        *,
        keep: Collection[Name] | None = None,
        parts: Collection[str] = ("marginal", "likelihood"),
        method: str = "exact",
        **options: Any,
    ) -> Messages:
        """Return the marginals of all variables and the log-likelihood of every row of evidence.

        The log-likelihood is the natural logarithm of the sum, over everything unknown, of the product of all tables:
        of a Bayesian network the probability of the evidence, of any other model its partition function.

        Args:
            evidence: a mapping of columns or a dataframe; a value is a label, a code, missing, or a distribution: the
                likelihood of each state. A variable without a column is unknown.
            keep: the variables whose marginals to keep; all of them unless given.
            parts: which of "marginal" and "likelihood" to keep.
            method: "exact" or "loopy", see `to_network`.
            options: those of `Network.propagate`: impossible, engine, threads, device, precision; for loops rounds,
                damping, tolerance.
        """
        settings.choice("method", method, METHODS)
        if method == "exact" and not {*settings.variable_names("parts", parts)} <= {"marginal", "likelihood"}:
            raise FgrnError("Messages belong to the edges of the Network of this model: see to_network.")
        kept = self.names if keep is None else settings.variable_names("keep", keep, own=self.variable)
        for name in kept:
            self.variable(name)
        if method == "exact" and not {*options} - {"impossible"}:
            found = self._pruned_messages(evidence, tuple(dict.fromkeys(kept)), parts, **options)
            if found is not None:
                return found
        network = self._tree_network() if method == "exact" else self.to_network(method)
        return network.propagate(self._checked(evidence), keep=kept, parts=parts, **options)

    def posterior(self, data: frames.Data, name: Name, *, engine: str = "auto", **options: Any) -> np.ndarray:
        """Return the posterior of a variable in each row, the row's own evidence on it included: (rows, states).

        With `engine="auto"`, a few rows are computed from only those tables that the posterior depends on, given the
        evidence. The options are `device` and `precision` of `propagate`.
        """
        asked = self.variable(name).name
        found = self._pruned(data, (asked,)) if engine == "auto" and not options else None
        return super().posterior(data, asked, engine=engine, **options) if found is None else found

    def joint(self, evidence: frames.Data, names: Sequence[Name], **options: Any) -> np.ndarray:
        """Return the joint distribution of a few variables in each row, (rows, states of the first, second, ...)."""
        wanted = settings.variable_names("names", names, own=self.variable)
        sizes = [self.variable(name).cardinality for name in wanted]
        if not wanted:
            raise EvidenceError("No variable is named.", remedies="name one or more")
        twice = next((name for place, name in enumerate(wanted) if name in wanted[:place]), None)
        if twice is not None:
            raise EvidenceError(
                f"Each variable of a joint distribution must be named once; {twice!r} is named twice.",
                value=twice,
                remedies="leave out one of them",
            )
        found = self._pruned(evidence, tuple(wanted)) if not options else None
        if found is not None:
            return found
        network = self._tree_network(wanted)
        joint = self._joint_name()
        name = next(one.variable.name for one in network.blocks if isinstance(one, Factor) and one.name == joint)
        found = network.propagate(self._checked(evidence), keep=[name], parts=["marginal"], **options).marginal(name)
        return found.reshape(len(found), *sizes)

    def embed(self, data: frames.Data, name: Name, *, engine: str = "auto") -> np.ndarray:
        """Return the likelihood of a row's known values for each state of a variable, normalised: (rows, states).

        Proportional to the probability of the values given each state; zero for a state that cannot be.
        """
        before = self.propagate(None, keep=[name], parts=["marginal"], engine=engine).marginal(name)[0]
        after = self.posterior(data, name, engine=engine)
        return normalised(np.divide(after, before, out=np.zeros_like(after), where=before > 0))

    def multiplications(self, data: frames.Data, *, direct: bool = False) -> int:
        """See `Queries`."""
        return self._tree_network().multiplications(self._checked(data), direct=direct)

    def most_probable(self, evidence: frames.Data = None, *, names: Collection[Name] | None = None) -> MostProbable:
        """Return the most probable joint states of all variables given evidence, and their log-probability.

        Args:
            evidence: see `propagate`.
            names: the variables of that assignment to return; all unless given. A warning is issued if unknown
                variables are left out. For the most probable states of some variables, summed over the others, see
                `map`, `joint` and `posterior`.
        """
        checked, asked = self._checked(evidence), self._query_names(names)
        pruned = self._pruned_likeliest(checked)
        if pruned is None:
            found = self._tree_network()._assignments(checked).likeliest_labels(asked, frames.is_one_row(checked))
        else:
            found = labels_of(asked, self._variables, *pruned, frames.is_one_row(checked))
        known = () if names is None else known_names(encode(self, checked))
        return most_probable(*found, self.names, known, () if names is None else self.names)

    def max_marginals(
        self, evidence: frames.Data = None, *, names: Collection[Name] | None = None
    ) -> dict[str, np.ndarray]:
        """See `Network.max_marginals`."""
        checked, asked = self._checked(evidence), self._query_names(names)
        found = self._pruned_max_marginals(checked, asked)
        return self._tree_network().max_marginals(checked, names=asked) if found is None else found

    def sample(
        self,
        rows: int = 1,
        evidence: frames.Data = None,
        seed: int = 0,
        *,
        names: Collection[Name] | None = None,
    ) -> dict[str, np.ndarray]:
        """Draw rows: the labels of all variables, or those named, given evidence.

        There are `rows` of them for each row of the evidence, one after the other.
        """
        settings.whole("rows", rows, 0)
        settings.whole("seed", seed, 0)
        checked, asked = self._checked(evidence), self._query_names(names)
        codes = self._pruned_samples(checked, asked, rows, np.random.default_rng(seed))
        if codes is None:
            return self._tree_network().sample(rows, checked, seed, names=asked)
        return {name: labels_of_codes(self._variables[name].labels, codes[name]) for name in asked}

    def _query_names(self, names: Collection[Name] | None) -> tuple[str, ...]:
        asked = super()._query_names(names)
        for name in asked:
            self.variable(name)
        return asked

    def _checked(self, evidence: frames.Data) -> frames.Data:
        """Return the evidence; an error if it is on variables that the model does not have.

        A few rows have a column for every variable, known or not: all such questions are then alike to an engine.
        """
        columns = frames.columns(evidence)
        for name in columns:
            if name not in self._variables:
                near = nearest(name, self._variables)
                raise EvidenceError(f"this is not a variable of this network. {near}", column=name)
        for key in evidence if isinstance(evidence, Mapping) else ():
            self.variable(key)
        if not columns or frames.row_count(columns) > FEW_ROWS:
            return evidence
        return {name: columns.get(name) for name in self._variables}

    def _joint_name(self) -> str:
        """Return an unused name for a table of ones over variables whose joint distribution is wanted."""
        name = "joint"
        while any(part.name == name for part in self._parts):
            name += "*"
        return name

    def _tree_network(self, together: tuple[str, ...] = ()) -> Network:
        """Return the Network of the junction tree with the current tables; cached.

        Variables `together` are joined in one clique, by a table of ones over them.
        """
        ones = np.ones(prod(self._variables[name].cardinality for name in together)) if together else np.zeros(0)
        if together not in self._networks:
            parts, tree = self._parts, self.tree if not together else None
            if tree is None:
                columns = self._variables[together[-1]].cardinality
                table = ones.reshape(-1, columns)
                parts = (*parts, ScopedTable(self._joint_name(), together, table, False, conditional=False))
                tree = self._tree_with(parts)
                check_memory(tree, engine_memory(tree), self.memory_limit)
            if len(self._networks) >= MOST_NETWORKS:
                self._networks.clear()
            self._networks[together] = Network(exact(self._variables, parts, tree))
        network = self._networks[together]
        values = self._parameters.values
        network._parameters = (
            replace(self._parameters, values=np.concatenate([values, ones])) if together else self._parameters
        )
        return network


def labels_of(
    names: Sequence[str],
    variables: Mapping[str, Variable],
    codes: Mapping[str, np.ndarray],
    logs: np.ndarray,
    is_one_row: bool,
) -> tuple[dict[str, Any], Any]:
    """Return labels of some variables from the codes of all, and log-probabilities; scalars for one row."""
    labels = {name: labels_of_codes(variables[name].labels, codes[name]) for name in names}
    if is_one_row:
        return {name: column.tolist()[0] for name, column in labels.items()}, float(logs[0])
    return labels, logs


def variables_of(document: Document) -> list[Variable]:
    """Return the variables of a document; states without names are numbers."""
    numbered = all(
        name == f"x{number}" and labels == tuple(map(str, range(len(labels))))
        for number, (name, labels) in enumerate(document.states.items())
    )
    return [Variable(name, len(labels) if numbered else labels) for name, labels in document.states.items()]


def checked_variables(variables: Any) -> dict[str, Variable]:
    """Return variables by name, from a mapping to their states or a list of variables."""
    if isinstance(variables, Mapping):
        variables = [Variable(name, states) for name, states in variables.items()]
    known: dict[str, Variable] = {}
    for variable in settings.as_tuple_of_names("variables", variables, WiringError):
        if not isinstance(variable, Variable):
            raise WiringError(f"The variables are a mapping to their states, or Variables. Got {variable!r} instead.")
        if variable.name in known:
            raise WiringError(f"Two variables are called {variable.name!r}.")
        known[variable.name] = variable
    if not known:
        raise WiringError("A model needs at least one variable.")
    return known
