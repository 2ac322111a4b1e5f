"""The parameters of a network as one vector: which are learnt and how, and random initialisations (starts).

`Parameters` is a read-only vector in the plan's layout, followed by the parameters of continuous columns if there are
any (see `gaussian_leaves`); an update (see `mstep`) returns a new one. Counts are such vectors as well, with moments at
their end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeGuard

import numpy as np

from ..core.arrays import ReadOnlyArrays, frozen
from ..core.exceptions import LearningError, unknown_name
from ..engines import Vector, in_order
from ..plan.plan import Layout
from .constraints import Constraints
from .gaussian_leaves import GaussianLeaves
from .table_forms import TableForm

MANY_CELLS = 2**22
"""From so many cells on, random starts are drawn on several threads."""

SUM_TOLERANCE = 1e-9
"""The rows of tables that an engine computed in double precision sum to one up to this."""

START_CONCENTRATION = 20.0
"""Of the Dirichlet distribution that random starts are drawn from.

Starts near the uniform table let every hidden state compete for every row; flat ones (1.0) settle at once around chance
prototypes. On the digits of scikit-learn with 60 hidden states the likelihood after 40 epochs was better for 4 seeds of
4, by 0.8 nats a row in the mean.
"""


@dataclass(frozen=True, eq=False)
class Specification:
    """How each table and prior is learnt: its initial value, whether it is frozen, which cells may be positive.

    A start of None is uniform over its support until learning draws it at random. `forms` has for each table its form
    if it follows from few parameters; it is None if no table does. Constraints hold cells at given probabilities, and
    rows equal to each other. `leaves` are continuous columns, and `frozen_columns` the names of those not learnt.
    """

    layout: Layout
    tables: tuple[np.ndarray | None, ...]
    priors: tuple[np.ndarray | None, ...]
    supports: tuple[np.ndarray | None, ...]
    learnt_tables: tuple[bool, ...]
    learnt_priors: tuple[bool, ...]
    forms: tuple[TableForm | None, ...] | None = field(default=None, metadata={"added": True})
    leaves: GaussianLeaves | None = field(default=None, metadata={"added": True})
    constraints: Constraints | None = field(default=None, metadata={"added": True})
    frozen_columns: tuple[str, ...] | None = field(default=None, metadata={"added": True})

    @property
    def learnt_forms(self) -> list[tuple[int, TableForm]]:
        """The numbers and forms of learnt tables that are functions of few parameters."""
        every = enumerate(zip(self.forms or (), self.learnt_tables, strict=False))
        return [(number, form) for number, (form, learnt) in every if form is not None and learnt]

    def form(self, number: int) -> TableForm | None:
        """Return the form of a table that is a function of few parameters; None for other tables."""
        return None if self.forms is None else self.forms[number]

    @cached_property
    def is_free(self) -> np.ndarray:
        """For each cell, whether it is learnt and not determined by a form: its row is any distribution."""
        formed = [self.form(number) is not None for number in range(len(self.tables))]
        found: np.ndarray = self.learnt & ~self.layout.spread(formed, [False] * len(self.priors), np.bool_)
        return found

    @property
    def is_learnt(self) -> np.ndarray:
        """For each table, then each prior, whether it is learnt."""
        return np.array([*self.learnt_tables, *self.learnt_priors], dtype=np.bool_)

    @cached_property
    def learnt(self) -> np.ndarray:
        """For each cell, whether it is learnt."""
        return self.layout.spread(self.learnt_tables, self.learnt_priors, np.bool_)

    @cached_property
    def learnt_moments(self) -> np.ndarray:
        """For each parameter of continuous columns, stored after tables and priors, whether it is learnt."""
        if self.leaves is None:
            return np.zeros(0, dtype=bool)
        learnt = [name not in (self.frozen_columns or ()) for name in self.leaves.columns]
        return np.tile(np.array(learnt, dtype=bool), 2 * self.leaves.states)

    @cached_property
    def all_learnt(self) -> bool:
        """Whether every cell is learnt."""
        return bool(self.learnt.all())

    @cached_property
    def has_choice(self) -> np.ndarray:
        """For each line, whether it is learnt and has more than one cell that may be positive."""
        lines = self.layout.lines
        if self.constraints is None and all(support is None for support in self.supports):
            cells = np.diff(lines, append=self.layout.size)
        else:
            may_move = self.supported if self.constraints is None else self.supported & self.constraints.is_free
            cells = np.add.reduceat(may_move, lines, dtype=np.int64)
        found: np.ndarray = self.is_free[lines] & (cells > 1)
        return found

    @cached_property
    def supported(self) -> np.ndarray:
        """For each cell, whether it may be positive."""
        tables = [True if support is None else support for support in self.supports]
        return self.layout.spread(tables, [True] * len(self.priors), np.bool_)

    def without(self, paused: Collection[str]) -> Specification:
        """Return a copy in which tables used only by paused blocks are frozen."""
        learnt = [
            learnt and not set(group) <= set(paused)
            for learnt, group in zip(self.learnt_tables, self.layout.table_names, strict=True)
        ]
        return replace(self, learnt_tables=tuple(learnt))

    def restricted(self, names: Collection[str]) -> Specification:
        """Return a copy in which all is frozen except the tables, priors and continuous columns of these names."""
        layout = self.layout
        columns = () if self.leaves is None else self.leaves.columns
        known = {*(n for group in layout.table_names for n in group), *filter(None, layout.ties)}
        known |= {*layout.prior_names, *columns}
        for name in names:
            if name not in known:
                raise unknown_name("table or prior", name, sorted(known))
        wanted = set(names)
        frozen_columns = tuple(name for name in columns if name not in wanted)
        if self.leaves is not None and self.leaves.covariance == "spherical" and 0 < len(frozen_columns) < len(columns):
            raise LearningError(
                "names some of the continuous columns, which have one variance with spherical covariance.",
                setting="only",
                remedies="name all of them, or none",
            )
        groups = [{*group, tie} for group, tie in zip(layout.table_names, layout.ties, strict=True)]
        return replace(
            self,
            frozen_columns=frozen_columns or None,
            learnt_tables=tuple(
                learnt and not wanted.isdisjoint(group)
                for learnt, group in zip(self.learnt_tables, groups, strict=True)
            ),
            learnt_priors=tuple(
                learnt and name in wanted for learnt, name in zip(self.learnt_priors, layout.prior_names, strict=True)
            ),
        )


def free_parameters(spec: Specification) -> int:
    """Return the number of free parameters: cells that may be positive, less one per row, or those of a `TableForm`.

    Means and variances of continuous columns are free.
    """
    leaves = 0 if spec.leaves is None else spec.leaves.free_parameters
    if spec.constraints is not None:
        leaves = leaves if spec.constraints.moments is None else spec.constraints.moments.free_parameters
        return leaves + spec.constraints.free_parameters(spec.layout, spec.learnt & spec.supported)
    cells = int((spec.is_free & spec.supported).sum())
    rows = int(spec.is_free[spec.layout.lines].sum()) if spec.layout.size else 0
    return cells - rows + leaves + sum(form.free_parameters for _, form in spec.learnt_forms)


@dataclass(frozen=True, eq=False)
class Parameters(ReadOnlyArrays):
    """All tables and priors as one read-only vector, and which of them have not been drawn at random yet.

    The cells of tables and priors are in the order of the Layout; means and variances of continuous columns follow
    them. Where a network holds its parameters, `values` is an array. Within `em.learn` alone it may be the `Vector`
    that an engine keeps on a device, which `handed_over` turns into the array; the annotation tells of the first.
    """

    values: np.ndarray
    undrawn_tables: frozenset[int] = frozenset()
    undrawn_priors: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not kept_by_engine(self.values) and not _is_frozen(self.values):
            object.__setattr__(self, "values", frozen(self.values, np.float64))

    def handed_over(self) -> Parameters:
        """Return the parameters with their values as a NumPy array."""
        return replace(self, values=self.values.as_parameters()) if kept_by_engine(self.values) else self

    def normalised(self, spec: Specification) -> Parameters:
        """Return the parameters with each learnt line divided by its sum; unchanged if all sums are 1.

        Those of an engine of a lower precision, in a checkpoint, do so in that precision only.
        """
        layout = spec.layout
        if not layout.size:
            return self
        tables = self.values[: layout.size]
        sums = np.where(spec.learnt[layout.lines], np.add.reduceat(tables, layout.lines), 1.0)
        if (np.abs(sums - 1) <= SUM_TOLERANCE).all():
            return self
        return replace(self, values=np.concatenate([tables / sums[layout.line_of], self.values[layout.size :]]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameters):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and self.undrawn_tables == other.undrawn_tables
            and self.undrawn_priors == other.undrawn_priors
        )


def _is_frozen(values: np.ndarray) -> bool:
    """Return whether an array cannot be changed through any reference, so that no copy is needed."""
    return values.dtype == np.float64 and values.flags.owndata and not values.flags.writeable


def kept_by_engine(values: object) -> TypeGuard[Vector]:
    """Return whether parameters or counts are a `Vector` of an engine instead of an array."""
    return not isinstance(values, np.ndarray) and isinstance(values, Vector)


def initial(spec: Specification) -> Parameters:
    """Return the parameters as given; those not given are uniform, and marked to be drawn at random."""
    layout = spec.layout
    values = np.empty(layout.size)
    for number, table in enumerate(spec.tables):
        layout.table(values, number)[...] = _uniform(spec, number) if table is None else table
    for number, prior in enumerate(spec.priors):
        layout.prior(values, number)[...] = 1 / layout.prior_sizes[number] if prior is None else prior
    return Parameters(
        values if spec.leaves is None else np.concatenate([values, spec.leaves.initial()]),
        frozenset(number for number, table in enumerate(spec.tables) if table is None),
        frozenset(number for number, prior in enumerate(spec.priors) if prior is None),
    )


def random_start(spec: Specification, parameters: Parameters, seed: int, start: int, again: bool = False) -> Parameters:
    """Draw learnt parameters that are not given at random; `again`: also those drawn before.

    Rows, and priors, are drawn from a Dirichlet distribution over their support, not far from uniform. The same seed
    and start give the same tables whatever else is in the network's history, and with or without tables of one column,
    in which nothing is random.
    """
    layout = spec.layout
    *streams, count = np.cumsum([0, *(columns > 1 for _, columns in layout.table_shapes)]).tolist()
    tables = [
        number
        for number, given in enumerate(spec.tables)
        if given is None and spec.learnt_tables[number] and (again or number in parameters.undrawn_tables)
    ]
    priors = [
        number
        for number, given in enumerate(spec.priors)
        if given is None and spec.learnt_priors[number] and (again or number in parameters.undrawn_priors)
    ]
    if not tables and not priors and spec.leaves is None and spec.constraints is None:
        return parameters
    values = parameters.values.copy()

    def draw(number: int) -> None:
        support = spec.supports[number]
        generator = np.random.default_rng([seed, start, streams[number]])
        form = spec.form(number)
        if form is not None:
            layout.table(values, number)[...] = form.drawn(generator)
            return
        table = layout.table(values, number)
        generator.standard_gamma(START_CONCENTRATION, out=table)
        if support is not None:
            table *= support
        table /= table.sum(axis=1, keepdims=True)

    threads = None if layout.size >= MANY_CELLS else 1
    for _ in in_order(threads, draw, tables):  # each from a seed of its own: the same on any number of threads
        pass
    for number in priors:
        generator = np.random.default_rng([seed, start, count + number])
        weights = generator.standard_gamma(START_CONCENTRATION, layout.prior_sizes[number])
        layout.prior(values, number)[...] = weights / weights.sum()
    if spec.leaves is not None and (again or np.array_equal(values[layout.size :], spec.leaves.initial())):
        generator = np.random.default_rng([seed, start, count + len(spec.priors)])
        values[layout.size :] = np.where(spec.learnt_moments, spec.leaves.drawn(generator), values[layout.size :])
    if spec.constraints is not None:
        tables_and_priors = values[: layout.size]
        met = spec.constraints.met(layout, tables_and_priors, tables_and_priors, spec.supported)
        tables_and_priors[...] = np.where(spec.learnt, met, tables_and_priors)
        if spec.constraints.moments is not None:
            values[layout.size :] = spec.constraints.moments.met(values[layout.size :])
    return Parameters(values, parameters.undrawn_tables - set(tables), parameters.undrawn_priors - set(priors))


def _uniform(spec: Specification, number: int) -> np.ndarray:
    form = spec.form(number)
    if form is not None:
        return form.before_start()
    support = spec.supports[number]
    cells = np.ones(spec.layout.table_shapes[number]) if support is None else support.astype(np.float64)
    out: np.ndarray = cells / cells.sum(axis=1, keepdims=True)
    return out
