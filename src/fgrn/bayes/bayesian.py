"""BayesianNetwork: a directed acyclic graph, with a table for every variable given its parents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import engines
from ..core import settings
from ..core.digests import digest
from ..core.distributions import normalised_rows
from ..core.exceptions import (
    LearningError,
    TableError,
    WiringError,
    counted,
    shortened,
    unknown_name,
    visible,
)
from ..core.labels import Label, labels_of_codes
from ..core.learning_defaults import EPOCHS_PER_CHECKPOINT
from ..core.settings import Name
from ..core.variable import Variable
from ..flow import em
from ..flow.complete_data import CompleteDataEStep
from ..flow.evidence import encode
from ..flow.parameters import free_parameters
from ..learning import checkpoints
from ..learning.encoding import checked_weight_name, rows_of_source, table_elsewhere
from ..learning.learn import Training, estep_over
from ..learning.validation import check_patience, split_off
from ..queries.sampling import draw_states
from ..tables import frames
from ..tables.encoded import EncodedTable
from .causal import Interventions
from .clique_memory import LEARNING_REMEDIES, check_memory, engine_memory
from .compact_kinds import compact_of_record
from .compact_tables import CompactTable, TableFamily
from .credible import UncertainQueries
from .document import Document
from .factored import FactoredModel, checked_variables, variables_of
from .importance import SampledQueries
from .observation_value import InformationQueries
from .realisation import ScopedTable, shape_of
from .sensitivity import SensitivityQueries

if TYPE_CHECKING:
    from .structure_search import SearchRecord

Arcs = Mapping[str, Sequence[str]] | Iterable[tuple[str, str]]
"""The parents of each variable that has some, or pairs (parent, child)."""


OPTIONS = (
    "accelerate", "batch_size", "cycle_tolerance", "device", "engine", "hold", "merge", "online", "patience",
    "precision", "step", "threads", "validation",
)  # fmt: skip
"""The arguments that `learn` passes to `Network.learn`."""


class BayesianNetwork(
    FactoredModel, Interventions, InformationQueries, SensitivityQueries, SampledQueries, UncertainQueries
):
    """A discrete Bayesian network: variables, the parents of each, and its table given them.

    Args:
        variables: every variable with its states, a number or a list of labels; or a list of `Variable`s.
        arcs: the parents of each variable that has some, as a mapping; or pairs (parent, child).
        tables: P(variable | parents) by name, one axis for each parent in their order and the last for the variable, or
            with the axes of all parents in one; or a compact table, such as a `NoisyOr`. One that is not given is
            uniform until `learn` draws a random start.
        frozen: the names of tables that are never learnt.
        ties: tables that are the same for several variables: a name for each group, by variable.
        supports: by name, which cells may be other than zero, in the shape of the table.
        name: of the network.
        properties: text about each variable, and under "" about the network, for files.
    """

    search_record: SearchRecord | None = None
    """How `fgrn.search` found the structure, if it did; a file does not keep it."""

    def __init__(
        self,
        variables: Mapping[str, int | Iterable[Label]] | Iterable[Variable],
        arcs: Arcs = (),
        tables: Mapping[str, ArrayLike | CompactTable] | None = None,
        *,
        frozen: Collection[Name] = (),
        ties: Mapping[str, str] | None = None,
        supports: Mapping[str, ArrayLike] | None = None,
        name: str = "",
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        known = checked_variables(variables)
        parents = _checked_parents(known, arcs)
        self._order = causes_first(parents)
        given, masks, groups = settings.by_name(tables), settings.by_name(supports), settings.by_name(ties)
        frozen = settings.variable_names("frozen", frozen)
        for what in (given, masks, groups, frozen):
            for key in what:
                if key not in known:
                    raise unknown_name("variable", key, known)
        parts = []
        self._as_given: dict[str, np.ndarray] = {}
        self._compact = {child: some for child, some in given.items() if isinstance(some, CompactTable)}
        for child in known:
            scope = (*parents[child], child)
            learnt, tie = child not in frozen, groups.get(child)
            if child in self._compact:
                parts.append(_compact_part(known, scope, self._compact[child], masks.get(child), learnt, tie))
                continue
            table, mask = (_shaped(known, scope, source.get(child)) for source in (given, masks))
            if table is not None:
                self._as_given[child] = table
            parts.append(ScopedTable(child, scope, table, learnt, tie, mask))
        super().__init__(known, parts, name, properties)

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Return the network that a document describes."""
        variables = variables_of(document)
        parents = {factor.scope[-1]: factor.scope[:-1] for factor in document.factors}
        # files round their numbers: rows that nearly sum to one are made to, and written as they were
        tables: dict[str, Any] = {factor.scope[-1]: normalised_rows(factor.values) for factor in document.factors}
        known = {variable.name: variable for variable in variables}
        for child, record in document.compact.items():
            family = TableFamily(tuple(known[name] for name in parents[child]), known[child])
            tables[child] = compact_of_record(family, record)
        network = cls(variables, parents, tables, name=document.name, properties=document.properties)
        for factor in document.factors:
            if factor.scope[-1] in document.compact:
                continue
            given = network._as_given[factor.scope[-1]]
            network._as_given[factor.scope[-1]] = factor.values.reshape(given.shape)
        return network

    @classmethod
    def from_data(
        cls, arcs: Arcs, data: frames.Data, *, states: Mapping[str, Any] | None = None, **options: Any
    ) -> Self:
        """Return a network with these arcs, its states and tables learnt from a table.

        Args:
            arcs: see the class; a column that is in none of them is a variable by itself.
            data: the rows, with one column for each observed variable; values may be missing, and rows be on disk.
            states: of hidden variables, which have no column, or of variables with states that no row has.
            options: those of `learn`.
        """
        hidden = settings.by_name(states)
        if frames.is_source(data):
            from ..tables.stream import stream_of

            data = stream_of(data).again()
            found = rows_of_source(data).distinct(checked_weight_name(options.get("weights")))
            columns: dict[str, Any] = {key: one.values for key, one in found.items() if key not in hidden}
        else:
            columns = {key: column for key, column in frames.columns(data).items() if key not in hidden}
        network = cls({**frames.states(columns), **hidden}, arcs)
        network.learn(data, **options)
        return network

    # Properties

    def parents(self, name: Name) -> tuple[str, ...]:
        """Return the parents of a variable, in the order of its table's axes."""
        self.variable(name)
        return self.scope(name)[:-1]

    def children(self, name: Name) -> tuple[str, ...]:
        """Return the variables that have this one as a parent."""
        parent = self.variable(name).name
        return tuple(part.name for part in self._parts if parent in part.scope[:-1])

    @property
    def arcs(self) -> tuple[tuple[str, str], ...]:
        """All pairs (parent, child)."""
        return tuple((parent, part.name) for part in self._parts for parent in part.scope[:-1])

    def prior(self, name: Name) -> np.ndarray:
        """Return the distribution of a variable without parents, (states,); read-only."""
        if self.parents(name):
            raise unknown_name("prior", name, [part.name for part in self._parts if len(part.scope) == 1])
        row: np.ndarray = self.table(name)[0]
        return row

    def compact_table(self, name: Name) -> CompactTable | None:
        """Return the current parameters of a compact table, such as a `NoisyOr`; None for a full table."""
        child = self.variable(name).name
        given = self._compact.get(child)
        return None if given is None else given.with_numbers(self._family(child), self.table(child))

    def _family(self, child: str) -> TableFamily:
        *parents, last = (self._variables[one] for one in self.scope(child))
        return TableFamily(tuple(parents), last)

    @property
    def free_parameters(self) -> int:
        """The number of free parameters: cells of tables, less one for every row, or those of a compact table."""
        return free_parameters(self._spec)

    def score(
        self,
        data: frames.Data,
        score: str = "bic",
        *,
        weights: Any = None,
        equivalent_size: float = 1.0,
        held_out: float = 0.2,
        smoothing: float = 1.0,
        seed: int = 0,
    ) -> float:
        """Return the score of the structure on a table, independent of the network's tables; larger is better.

        Natural logarithms; for definitions see `fgrn.bayes.scores`.

        Args:
            data: rows in which all variables are known.
            score: "bic", "aic", "bdeu", "k2", or "log_likelihood", that of held-out rows.
            weights: one weight per row.
            equivalent_size: the equivalent sample size of "bdeu".
            held_out: the share of rows that "log_likelihood" holds out, drawn at random.
            smoothing: a Dirichlet count for each cell of the tables that held-out rows are scored under.
            seed: of the draw.
        """
        from .scores import ScoreRule
        from .structure_search import score_of

        return score_of(self, data, ScoreRule(score, equivalent_size, held_out, smoothing, seed), weights)

    def __repr__(self) -> str:
        title = f"BayesianNetwork {self.name!r}" if self.name else "BayesianNetwork"
        lines = [f"{title} of {counted(len(self._variables), 'variable')} and {counted(len(self.arcs), 'arc')}"]
        for part in self._parts[:40]:
            given = f" | {', '.join(part.scope[:-1])}" if len(part.scope) > 1 else ""
            lines.append(f"  P({part.name}{given}): {' x '.join(map(str, shape_of(self._variables, part.scope)))}")
        if len(self._parts) > 40:
            lines.append(f"  ... {len(self._parts) - 40:,} more")
        return "\n".join(map(visible, lines))

    _directed = True

    def _compact_records(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for child, some in self._compact.items():
            record = some.written_record(self._family(child), self.table(child))
            found |= {} if record is None else {child: record}
        return found

    def _written(self) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield the tables exactly as given, unless they were learnt since."""
        for part in self._parts:
            given, now = self._as_given.get(part.name), self.table(part.name)
            values = given if given is not None and np.array_equal(normalised_rows(given), now) else now
            yield part.scope, values.reshape([self._variables[name].cardinality for name in part.scope])

    def sample(
        self,
        rows: int = 1,
        evidence: frames.Data = None,
        seed: int = 0,
        *,
        names: Collection[Name] | None = None,
    ) -> dict[str, np.ndarray]:
        """Draw rows: the labels of all variables, or those named, given evidence.

        There are `rows` of them for each row of the evidence, one after the other. Without evidence they are drawn
        along the arcs (ancestral sampling), without a junction tree.
        """
        if frames.columns(evidence):
            return super().sample(rows, evidence, seed, names=names)
        settings.whole("rows", rows, 0)
        settings.whole("seed", seed, 0)
        asked = self._query_names(names)
        for name in asked:
            self.variable(name)
        generator, codes = np.random.default_rng(seed), dict[str, np.ndarray]()
        for name in self._order:
            parents = self.scope(name)[:-1]
            row = np.zeros(rows, dtype=np.int64)
            for parent in parents:
                row *= self._variables[parent].cardinality
                row += codes[parent]
            codes[name] = draw_states(self.table(name), row, generator)
        return {name: labels_of_codes(self._variables[name].labels, codes[name]) for name in asked}

    # Learning

    def learn(
        self,
        data: frames.Data,
        epochs: int | None = None,
        cycles: int = 1,
        smoothing: float | Mapping[str, Any] = 0.0,
        weights: Any = None,
        holes: str = "expect",
        seed: int = 0,
        *,
        starts: int = 1,
        tolerance: float = 0.0,
        only: Collection[Name] | None = None,
        watch: em.Watcher | None = None,
        checkpoint: checkpoints.Place = None,
        every: int = EPOCHS_PER_CHECKPOINT,
        resume: bool = False,
        executor: Any = None,
        **options: Any,
    ) -> em.History:
        """Learn the tables by maximum likelihood (EM); values may be missing or soft, and variables hidden.

        Complete rows are counted in one pass, without a junction tree. With missing values
        its cliques may take half of the memory of the machine, or the `memory_limit` of the model, and a
        ConvergenceWarning says if 20 epochs, which are run unless `epochs` is given, were not enough. Other options are
        those of `Network.learn`: accelerate, batch_size, cycle_tolerance, device, engine, hold, merge, online,
        patience, precision, step, threads, validation.
        """
        strange = [name for name in options if name not in OPTIONS]
        if strange:
            raise TypeError(f"learn() has no setting {strange[0]!r}; it has {', '.join(OPTIONS)}, and those by name.")
        if holes != "expect":
            raise LearningError(
                "holes='ignore' is supported for a Network only; for a BayesianNetwork use holes='expect'."
            )
        smoothing = settings.by_name(smoothing, self.variable) if isinstance(smoothing, Mapping) else smoothing
        patience, validation = options.get("patience"), options.get("validation")
        check_patience(patience, validation)
        elsewhere = table_elsewhere(self, data, weights, executor)
        table = encode(self, self._checked(data), weights) if elsewhere is None else elsewhere
        held_out, spec = None, self._spec
        if only is not None:
            spec = spec.restricted(settings.variable_names("only", only, own=self.variable))
        in_batches = options.get("online") is not None
        if not in_batches and self._is_complete(table):
            table, held_out = split_off(table, validation, seed, self._encoded)
        if not in_batches and self._is_complete(table) and (not held_out or self._is_complete(held_out)):
            settings.choice("engine", options.get("engine", "auto"), ("auto", *engines.engine_names()))
            settings.choice("merge", options.get("merge"), (True, False, None))
            most = em.USUAL_EPOCHS if epochs is None else epochs
            rule = em.Rule(
                most, cycles, tolerance, options.get("cycle_tolerance", 1e-10), starts, seed,
                options.get("accelerate", False), options.get("batch_size"), options.get("step"), patience,
            )  # fmt: skip
            cells = self._cells()
            structure = self.names, self.labels, cells
            training = Training(self, structure, spec, table, rule, smoothing, holes, watch, is_complete=True)
            over = partial(estep_over, partial(CompleteDataEStep, spec.layout, cells), None)
            estep, held_out_estep = table.estep(over), None if held_out is None else held_out.estep(over)
            with checkpoints.stage_journal(checkpoint, every, resume) as journal:
                identity = {} if held_out is None else {"validation": digest(held_out.digests())}
                learnt = training.run(estep, self._parameters, journal, None, held_out_estep, **identity)
            self._parameters, history, record = learnt
            self._trained += (record,)
            self._keep_counts(history.row_counts, spec, smoothing)
            return history
        check_memory(self._tree, engine_memory(self._tree), self.memory_limit, LEARNING_REMEDIES)
        network = self._tree_network()
        network._queried_by = "cliques"
        history = network.learn(
            data if elsewhere is None else elsewhere, epochs, cycles, smoothing, weights, holes, seed, starts=starts,
            tolerance=tolerance, only=only, watch=watch, checkpoint=checkpoint, every=every, resume=resume, **options,
        )  # fmt: skip
        self._parameters = network._parameters
        self._trained += network._trained[-1:]
        if not in_batches and held_out is None:
            table, _ = split_off(table, validation, seed, self._encoded)
        self._keep_counts(history.row_counts, spec, smoothing, None if in_batches else table)
        return history

    def _encoded(self, data: Any) -> EncodedTable:
        """Return the rows of a table as codes, in memory, on disk or on workers."""
        elsewhere = table_elsewhere(self, data, None)
        return encode(self, self._checked(data)) if elsewhere is None else elsewhere

    def _is_complete(self, table: EncodedTable) -> bool:
        """Return whether every variable is known in every row."""
        return bool(table.rows) and len(table.columns) == len(self._variables) and table.complete

    def _cells(self) -> list[tuple[int, list[int], list[int]]]:
        """Return every table with its variables and their sizes."""
        found = []
        for part in self._parts:
            variables = [self.index[name] for name in part.scope]
            sizes = [self._variables[name].cardinality for name in part.scope]
            found.append((self._spec.layout.table_number(part.name), variables, sizes))
        return found


def _checked_parents(known: Mapping[str, Variable], arcs: Any) -> dict[str, tuple[str, ...]]:
    parents: dict[str, list[str]] = {name: [] for name in known}
    if isinstance(arcs, Mapping):
        pairs = [
            (parent, child)
            for child, some in arcs.items()
            for parent in settings.variable_names("arcs", some, WiringError)
        ]
        pairs += [(None, child) for child, some in arcs.items() if not some]
    else:
        pairs = list(settings.variable_names("arcs", arcs, WiringError))
    for pair in pairs:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise WiringError(f"An arc is a pair (parent, child). Got {pair!r} instead.")
        parent, child = map(settings.name_of, pair)
        for end in (child,) if parent is None else (parent, child):
            if end not in known:
                raise unknown_name("variable", end, known)
        if parent is None:
            continue
        if parent in parents[child]:
            raise WiringError(f"The arc {parent!r} -> {child!r} is given twice.")
        parents[child].append(parent)
    return {name: tuple(some) for name, some in parents.items()}


def causes_first(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the variables after their parents (a topological order); an error names a cycle, if there is one.

    Variables without parents are removed repeatedly; those that remain are on cycles, or descend from one.
    """
    waiting = {name: len(some) for name, some in parents.items()}
    children: dict[str, list[str]] = {name: [] for name in parents}
    for child, some in parents.items():
        for parent in some:
            children[parent].append(child)
    free = [name for name, count in waiting.items() if not count]
    for name in free:  # the list grows during the loop
        for child in children[name]:
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    if len(free) < len(parents):
        here = next(name for name in parents if waiting[name])
        path: list[str] = []
        while here not in path:
            path.append(here)
            here = next(parent for parent in parents[here] if waiting[parent])
        circle = [here, *reversed(path[path.index(here) :])]
        raise WiringError(
            f"The arcs form a cycle: {shortened(circle, 12).replace(', ', ' -> ')}.",
            remedies="leave one of them out, or turn it round",
        )
    return free


def _compact_part(
    known: Mapping[str, Variable], scope: tuple[str, ...], given: CompactTable, mask: Any, learn: bool, tie: str | None
) -> ScopedTable:
    """Return the part of a compact table; cells that its zeros exclude are outside its support."""
    *parents, child = (known[name] for name in scope)
    if mask is not None:
        raise TableError(
            f"The table of {child.name!r} is a {type(given).__name__}, which determines its own support.",
            value=child.name,
            remedies="leave out its support",
        )
    family = TableFamily(tuple(parents), child)
    table, form = given.table(family), given.form(family)
    start = table if form is None else form.before_start()
    support = None if start is None or start.all() else start > 0
    return ScopedTable(child.name, scope, table, learn and form is not None, tie, support, form=form)


def _shaped(known: Mapping[str, Variable], scope: Sequence[str], table: Any) -> np.ndarray | None:
    """Return a table with all parents in one axis."""
    if table is None:
        return None
    shape = tuple(known[name].cardinality for name in scope)
    try:
        array = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"The table of {scope[-1]!r} is not a rectangular array of numbers.") from None
    whole = (prod(shape[:-1]), shape[-1])
    if array.shape not in (shape, whole):
        names = " x ".join(f"{name} ({size})" for name, size in zip(scope, shape, strict=True))
        raise TableError(f"The table of {scope[-1]!r} must have the shape {shape}: {names}. Got {array.shape} instead.")
    return array.reshape(whole)
