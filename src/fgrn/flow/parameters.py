"""Tables and priors updated from expected counts (the M-step): smoothing, frozen, tied and constrained tables.

`Parameters` is a read-only vector in the plan's layout, followed by the parameters of continuous columns if there are
any (see `gaussian_leaves`); an update returns a new one. Counts are such vectors as well, with moments at their end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeGuard, cast

import numpy as np

from ..core import settings
from ..core.arrays import ReadOnlyArrays, frozen
from ..core.exceptions import LearningError, unknown_name
from ..engines import Vector, in_order
from ..plan.plan import Layout
from .constraints import Constraints
from .gaussian_leaves import GaussianLeaves
from .table_forms import TableForm

ROUNDING = 1e-7
"""Probabilities that differ by no more may be the same: accelerated EM multiplies what rounding has changed."""

MOST_COUNT = 1e100
"""A larger smoothing count would leave nothing of the data, and overflow when it is summed."""

LEAST_COUNT = float(np.finfo(np.float64).tiny)
"""A smaller total is none: of what is below the normal numbers an engine may have lost any part."""

MANY_CELLS = 2**22
"""From so many cells on, random starts are drawn on several threads."""

START_CONCENTRATION = 20.0
"""Of the Dirichlet distribution that random starts are drawn from.

Starts near the uniform table let every hidden state compete for every row; flat ones (1.0) settle at once around chance
prototypes. On the digits of scikit-learn with 60 hidden states the likelihood after 40 epochs was better for 4 seeds of
4, by 0.8 nats a row in the mean.
"""


@dataclass(frozen=True, eq=False)
class Specification:
    """How each table and prior may be learnt: its start, whether it is frozen, which cells may be positive.

    A start of None is uniform over its support until learning draws it at random. `forms` has for each table its form
    if it follows from few parameters; it is None if no table does. Constraints hold cells at given probabilities, and
    rows equal to each other. `leaves` are continuous columns.
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

    @property
    def learnt_forms(self) -> list[tuple[int, TableForm]]:
        """The numbers and forms of learnt tables that follow from few parameters."""
        every = enumerate(zip(self.forms or (), self.learnt_tables, strict=False))
        return [(number, form) for number, (form, learnt) in every if form is not None and learnt]

    def form(self, number: int) -> TableForm | None:
        """The form of a table that follows from few parameters, or None."""
        return None if self.forms is None else self.forms[number]

    @cached_property
    def is_free(self) -> np.ndarray:
        """For each cell, whether it is learnt and not given by a form: its row is a distribution of its own."""
        formed = [self.form(number) is not None for number in range(len(self.tables))]
        found: np.ndarray = self.learnt & ~self.layout.spread(formed, [False] * len(self.priors), np.bool_)
        return found

    @property
    def is_learnt(self) -> np.ndarray:
        """Per table, and after these per prior: whether it is learnt."""
        return np.array([*self.learnt_tables, *self.learnt_priors], dtype=np.bool_)

    @cached_property
    def learnt(self) -> np.ndarray:
        """For each cell, whether it is learnt."""
        return self.layout.spread(self.learnt_tables, self.learnt_priors, np.bool_)

    @cached_property
    def all_learnt(self) -> bool:
        """Whether every cell is learnt."""
        return bool(self.learnt.all())

    @cached_property
    def supported(self) -> np.ndarray:
        """For each cell, whether it may be positive."""
        tables = [True if support is None else support for support in self.supports]
        return self.layout.spread(tables, [True] * len(self.priors), np.bool_)

    def without(self, paused: Collection[str]) -> Specification:
        """Return a copy in which tables are frozen that only paused blocks use."""
        learnt = [
            learnt and not set(group) <= set(paused)
            for learnt, group in zip(self.learnt_tables, self.layout.table_names, strict=True)
        ]
        return replace(self, learnt_tables=tuple(learnt))

    def restricted(self, names: Collection[str]) -> Specification:
        """Return a copy in which everything is frozen but the tables and priors of these names."""
        layout = self.layout
        known = {*(n for group in layout.table_names for n in group), *filter(None, layout.ties), *layout.prior_names}
        for name in names:
            if name not in known:
                raise unknown_name("table or prior", name, sorted(known))
        wanted = set(names)
        groups = [{*group, tie} for group, tie in zip(layout.table_names, layout.ties, strict=True)]
        return replace(
            self,
            learnt_tables=tuple(
                learnt and not wanted.isdisjoint(group)
                for learnt, group in zip(self.learnt_tables, groups, strict=True)
            ),
            learnt_priors=tuple(
                learnt and name in wanted for learnt, name in zip(self.learnt_priors, layout.prior_names, strict=True)
            ),
        )


def free_parameters(spec: Specification) -> int:
    """Return the number of free parameters: cells that may be positive, less one for every row, or those of a form.

    Means and variances of continuous columns are free.
    """
    leaves = 0 if spec.leaves is None else spec.leaves.free_parameters
    if spec.constraints is not None:
        return leaves + spec.constraints.free_parameters(spec.layout, spec.learnt & spec.supported)
    cells = int((spec.is_free & spec.supported).sum())
    rows = int(spec.is_free[spec.layout.lines].sum()) if spec.layout.size else 0
    return cells - rows + leaves + sum(form.free_parameters for _, form in spec.learnt_forms)


@dataclass(frozen=True, eq=False)
class Parameters(ReadOnlyArrays):
    """All tables and priors as one read-only vector, and which of them still need a random start.

    While learning goes on, `values` may be the `Vector` that an engine keeps in place of the array.
    """

    values: np.ndarray
    undrawn_tables: frozenset[int] = frozenset()
    undrawn_priors: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not kept_by_engine(self.values):
            object.__setattr__(self, "values", frozen(self.values, np.float64))

    def handed_over(self) -> Parameters:
        """The same with an array for values."""
        return replace(self, values=self.values.as_parameters()) if kept_by_engine(self.values) else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameters):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and self.undrawn_tables == other.undrawn_tables
            and self.undrawn_priors == other.undrawn_priors
        )


def kept_by_engine(values: object) -> TypeGuard[Vector]:
    """Whether parameters or counts are not an array here, but a `Vector` of an engine."""
    return not isinstance(values, np.ndarray) and isinstance(values, Vector)


def initial(spec: Specification) -> Parameters:
    """Return the parameters as given; those not given are uniform, and marked for a random start."""
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
    """Draw a random start for learnt parameters that need one; `again`: for all learnt ones that were not given.

    Rows, and priors, are drawn from a Dirichlet distribution over their support, not far from uniform. The same seed
    and start give the same tables whatever else is in the network's history.
    """
    layout = spec.layout
    values = parameters.values.copy()
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

    def draw(number: int) -> None:
        support = spec.supports[number]
        generator = np.random.default_rng([seed, start, number])
        form = spec.form(number)
        if form is not None:
            layout.table(values, number)[...] = form.drawn(generator)
            return
        rows = generator.standard_gamma(START_CONCENTRATION, layout.table_shapes[number])
        rows = rows if support is None else rows * support
        np.divide(rows, rows.sum(axis=1, keepdims=True), out=layout.table(values, number))

    threads = None if layout.size >= MANY_CELLS else 1
    for _ in in_order(threads, draw, tables):  # each from a seed of its own: the same on any number of threads
        pass
    for number in priors:
        generator = np.random.default_rng([seed, start, len(spec.tables) + number])
        weights = generator.standard_gamma(START_CONCENTRATION, layout.prior_sizes[number])
        layout.prior(values, number)[...] = weights / weights.sum()
    if spec.leaves is not None and (again or np.array_equal(values[layout.size :], spec.leaves.initial())):
        generator = np.random.default_rng([seed, start, len(spec.tables) + len(spec.priors)])
        values[layout.size :] = spec.leaves.drawn(generator)
    if spec.constraints is not None:
        tables_and_priors = values[: layout.size]
        tables_and_priors[...] = spec.constraints.met(layout, tables_and_priors, tables_and_priors)
    return Parameters(values, parameters.undrawn_tables - set(tables), parameters.undrawn_priors - set(priors))


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Dirichlet counts added to every cell, in the plan's layout; None if there are none."""

    cells: np.ndarray | None

    @classmethod
    def of(cls, spec: Specification, smoothing: float | Mapping[str, Any]) -> Smoothing:
        """Make it from one number for all tables, or from numbers by name; a prior is smoothed only if it is named.

        In place of a number there may be an array, with a count for each cell, or one that is broadcast to the cells.
        """
        layout = spec.layout
        named = settings.by_name(smoothing) if isinstance(smoothing, Mapping) else {}
        every = 0.0 if isinstance(smoothing, Mapping) else smoothing
        for name, value in [("smoothing", every), *named.items()]:
            numbers = isinstance(value, (int, float, np.number, np.ndarray)) and not isinstance(value, bool)
            if not numbers or not ((np.asarray(value) >= 0) & (np.asarray(value) <= MOST_COUNT)).all():
                raise LearningError(
                    f"The 'smoothing' must be a count per cell, from 0 to {MOST_COUNT:g}. Got {name!s}={value!r}."
                )
        tables: list[Any] = [every] * len(layout.table_names)
        priors: list[Any] = [0.0] * len(layout.prior_names)
        given: dict[int, Any] = {}
        for name, value in named.items():
            is_prior = name in layout.prior_names
            number = layout.prior_number(name) if is_prior else layout.table_number(name)
            shape = (layout.prior_sizes[number],) if is_prior else layout.table_shapes[number]
            _check_cells(name, value, shape)
            if not is_prior and not np.array_equal(given.setdefault(number, value), value):
                raise LearningError(
                    f"The 'smoothing' of {name!r} differs from that of a block it shares its table with."
                )
            (priors if is_prior else tables)[number] = value
        if not any(map(np.any, tables)) and not any(map(np.any, priors)):
            return cls(None)
        moving = spec.supported if spec.constraints is None else spec.supported & spec.constraints.is_free
        return cls(layout.spread(tables, priors) * moving)

    def log_prior(self, spec: Specification, values: np.ndarray) -> float:
        """Return the log prior of the parameters: the sum over learnt cells of count * log(probability)."""
        if self.cells is None:
            return 0.0
        if kept_by_engine(values):
            return values.sum_of_logarithms(self.cells, spec.is_learnt)
        where = spec.learnt & (self.cells > 0)
        with np.errstate(divide="ignore"):
            return float(self.cells[where] @ np.log(values[: spec.layout.size][where]))


def _check_cells(name: str, counts: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array of counts that does not go with the cells of a table or prior."""
    try:
        np.broadcast_to(counts, shape)
    except ValueError:
        told = f"The 'smoothing' of {name!r} has the shape {np.shape(counts)}, and its cells {shape}."
        raise LearningError(told, setting="smoothing", value=name) from None


def updated(
    spec: Specification,
    parameters: Parameters,
    counts: np.ndarray,
    smoothing: Smoothing,
    before: Parameters,
    which: Collection[int] | None = None,
) -> Parameters:
    """Return new tables and priors: counts plus smoothing, each row divided by its sum.

    A row without any count says nothing of its cells: it is as it was `before` learning, whatever the random start.
    `which` limits the update to some tables, and leaves the priors alone.
    """
    layout = spec.layout
    if not layout.size:
        return parameters
    if kept_by_engine(counts) and which is None and not spec.forms and spec.constraints is None:
        made = counts.updated(parameters.values, before.values, smoothing.cells, spec.is_learnt, LEAST_COUNT)
        return replace(parameters, values=cast(np.ndarray, made))
    parameters, before = parameters.handed_over(), before.handed_over()
    if spec.leaves is not None:
        end = layout.size
        now, then = (replace(one, values=one.values[:end]) for one in (parameters, before))
        tables = updated(replace(spec, leaves=None), now, counts[:end], smoothing, then, which)
        moved = spec.leaves.updated(counts[end:], parameters.values[end:])
        return replace(tables, values=np.concatenate([tables.values, moved]))
    cells, totals = _cells_and_totals(spec, np.asarray(counts), smoothing)
    if not totals.max() < np.inf:  # NaN is not less either
        raise LearningError("The expected counts are not finite. This should not happen; please report it.")
    total = totals[layout.line_of]
    if spec.constraints is not None:
        values = np.where(spec.learnt, spec.constraints.met(layout, cells, before.values), parameters.values)
    elif which is None and spec.all_learnt and totals.min() >= LEAST_COUNT:
        values = cells / total
    else:
        learnt = spec.learnt
        if which is not None:
            chosen = [number in which for number in range(len(spec.tables))]
            learnt = learnt & layout.spread(chosen, [False] * len(spec.priors), np.bool_)
        values = np.where(learnt & (total < LEAST_COUNT), before.values, parameters.values)
        np.divide(cells, total, out=values, where=learnt & (total >= LEAST_COUNT))
    for number, form in spec.learnt_forms:
        if which is None or number in which:
            table, first = (layout.table(one.values, number) for one in (parameters, before))
            layout.table(values, number)[...] = form.updated(table, layout.table(cells, number), first)
    return Parameters(values, parameters.undrawn_tables, parameters.undrawn_priors)


def uncounted(spec: Specification, counts: np.ndarray, smoothing: Smoothing) -> tuple[int, ...]:
    """Return the numbers of the lines (rows of tables, priors) that are learnt and have no counts."""
    if not spec.layout.size:
        return ()
    if kept_by_engine(counts):
        totals = counts.line_sums() + _smoothed(spec, smoothing)
    else:
        totals = _cells_and_totals(spec, counts[: spec.layout.size], smoothing)[1]
    return tuple(np.flatnonzero(_has_choice(spec) & (totals < LEAST_COUNT)).tolist())


def unmoved(spec: Specification, one: np.ndarray, other: np.ndarray, smoothing: Smoothing) -> np.ndarray:
    """Return which lines are learnt, not smoothed, and equal in two vectors of parameters up to rounding."""
    lines = spec.layout.lines
    if not len(lines):
        return np.zeros(0, dtype=bool)
    if kept_by_engine(one):
        moved = one.line_distances(other)
    elif kept_by_engine(other):
        moved = other.line_distances(one)
    else:
        moved = np.maximum.reduceat(np.abs(one - other)[: spec.layout.size], lines)
    found: np.ndarray = _has_choice(spec) & (moved <= ROUNDING) & (_smoothed(spec, smoothing) == 0)
    return found


def _smoothed(spec: Specification, smoothing: Smoothing) -> np.ndarray | float:
    """The counts that smoothing adds to each line."""
    return 0.0 if smoothing.cells is None else np.add.reduceat(smoothing.cells, spec.layout.lines)


def _has_choice(spec: Specification) -> np.ndarray:
    """Return which lines are learnt and have more than one cell that may be positive."""
    lines = spec.layout.lines
    may_move = spec.supported if spec.constraints is None else spec.supported & spec.constraints.is_free
    found: np.ndarray = spec.is_free[lines] & (np.add.reduceat(may_move, lines, dtype=np.int64) > 1)
    return found


def named_lines(layout: Layout, lines: Collection[int]) -> dict[str, tuple[int, ...]]:
    """Return numbers of lines as rows by the name of their table (its tie, or first output); a prior has row 0."""
    found: dict[str, tuple[int, ...]] = {}
    names = [tie or group[0] for tie, group in zip(layout.ties, layout.table_names, strict=True)]
    begin = 0
    for name, (rows, _) in [
        *zip(names, layout.table_shapes, strict=True),
        *((one, (1, 0)) for one in layout.prior_names),
    ]:
        some = tuple(line - begin for line in lines if begin <= line < begin + rows)
        if some:
            found[name] = some
        begin += rows
    return found


def _cells_and_totals(spec: Specification, counts: np.ndarray, smoothing: Smoothing) -> tuple[np.ndarray, np.ndarray]:
    """Return counts plus smoothing, and the sum of each row."""
    cells = counts if smoothing.cells is None else counts + smoothing.cells
    cells = cells if spec.constraints is None else spec.constraints.pooled(cells)
    return cells, np.add.reduceat(cells, spec.layout.lines)


def _uniform(spec: Specification, number: int) -> np.ndarray:
    form = spec.form(number)
    if form is not None:
        return form.before_start()
    support = spec.supports[number]
    cells = np.ones(spec.layout.table_shapes[number]) if support is None else support.astype(np.float64)
    out: np.ndarray = cells / cells.sum(axis=1, keepdims=True)
    return out
