"""The M-step: tables and priors from expected counts and smoothing, and the rows that have no counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..engines import MStep
from ..plan.plan import Layout
from .parameters import Parameters, Specification, kept_by_engine

ROUNDING = 1e-7
"""Differences of probabilities up to this may be rounding errors, which accelerated EM amplifies."""

SHORT_LINE = 32
"""Up to this mean number of cells per line sums are those of `bincount`, cell by cell, which kernels make as well.

That is twice as fast as `reduceat` with 4 cells, and takes three times as long with 20, where an epoch takes far
longer; with more, `reduceat` adds the cells.
"""

MOST_COUNT = 1e100
"""The largest smoothing count: larger ones would dominate any data, and overflow when summed."""

LEAST_COUNT = float(np.finfo(np.float64).tiny)
"""A smaller total counts as zero: engines may lose any part of subnormal numbers."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Dirichlet counts added to every cell, in the plan's layout.

    cells    the counts; None if there are none
    lines    where the rows of tables and the priors begin among them
    given    what the counts were made from
    """

    cells: np.ndarray | None
    lines: np.ndarray
    given: float | Mapping[str, Any]

    @classmethod
    def of(cls, spec: Specification, smoothing: float | Mapping[str, Any] | Smoothing) -> Smoothing:
        """Return the smoothing from one number for all tables, or from numbers by name; priors only if named.

        In place of a number there may be an array, with a count for each cell, or one that is broadcast to the cells.
        A smoothing that is made already is returned as it is.
        """
        if isinstance(smoothing, Smoothing):
            return smoothing
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
            return cls(None, layout.lines, smoothing)
        moving = spec.supported if spec.constraints is None else spec.supported & spec.constraints.is_free
        return cls(layout.spread(tables, priors) * moving, layout.lines, smoothing)

    @cached_property
    def line_counts(self) -> np.ndarray | float:
        """The total count that is added to each row of a table, and to each prior."""
        return 0.0 if self.cells is None else np.add.reduceat(self.cells, self.lines)

    def log_prior(self, spec: Specification, values: np.ndarray, counts: np.ndarray) -> float:
        """Return the log prior of the parameters: the sum over learnt cells of count * log(probability).

        It is computed where the expected counts of the rows are: with the same bits whether learning goes on, or was
        interrupted and goes on with parameters that are an array again.
        """
        if self.cells is None:
            return 0.0
        if kept_by_engine(counts):
            return counts.vector_of(values).sum_of_logarithms(self.cells, spec.is_learnt)
        where = spec.learnt & (self.cells > 0)
        cells, known = self.cells, np.asarray(values)[: spec.layout.size]
        if not where.all():
            cells, known = cells[where], known[where]
        with np.errstate(divide="ignore"):
            return float(cells @ np.log(known))


def _check_cells(name: str, counts: Any, shape: tuple[int, ...]) -> None:
    """Raise an error for an array of counts whose shape does not fit a table or prior."""
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

    A row without counts keeps its values from `before` learning, whatever the random start.
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
        moments = parameters.values[end:]
        met = None if spec.constraints is None else spec.constraints.moments
        moved = np.where(spec.learnt_moments, spec.leaves.updated(counts[end:], moments, met), moments)
        return replace(tables, values=np.concatenate([tables.values, moved]))
    cells, totals = _cells_and_totals(spec, np.asarray(counts), smoothing)
    if not totals.max() < np.inf:  # NaN is not less either
        raise LearningError("The expected counts are not finite. This should not happen; please report it.")
    total = totals.take(layout.line_of)
    if spec.constraints is not None:
        met_cells = spec.constraints.met(layout, cells, before.values, spec.supported)
        values = np.where(spec.learnt, met_cells, parameters.values)
    elif which is None and spec.all_learnt and totals.min() >= LEAST_COUNT:
        values = cells / total
    else:
        learnt = spec.learnt
        if which is not None:
            chosen = [number in which for number in range(len(spec.tables))]
            learnt = learnt & layout.spread(chosen, [False] * len(spec.priors), np.bool_)
        values = np.where(learnt & (total < LEAST_COUNT), before.values, parameters.values)
        np.divide(cells, total, out=values, where=learnt & (total >= LEAST_COUNT))
    for number, form in spec.learnt_forms if spec.forms else ():
        if which is None or number in which:
            table, first = (layout.table(one.values, number) for one in (parameters, before))
            layout.table(values, number)[...] = form.updated(table, layout.table(cells, number), first)
    values.setflags(write=False)  # so that it is not copied
    return Parameters(values, parameters.undrawn_tables, parameters.undrawn_priors)


def engine_mstep(spec: Specification, smoothing: Smoothing) -> MStep | None:
    """Return the M-step as an engine can take it itself, with the same bits as `updated`; None if it is another one.

    That is so if tables are not learnt from their own counts alone, or if lines are long.
    """
    layout = spec.layout
    has_more = spec.leaves is not None or spec.constraints is not None or spec.forms is not None
    if has_more or not layout.size or not has_short_lines(layout):
        return None
    cells = np.zeros(0) if smoothing.cells is None else np.array(smoothing.cells)
    ends = np.append(layout.lines, layout.size).astype(np.uint64)
    return MStep(cells, ends, spec.learnt[layout.lines], LEAST_COUNT)


def uncounted(spec: Specification, counts: np.ndarray, smoothing: Smoothing) -> tuple[int, ...]:
    """Return the numbers of the lines (rows of tables, priors) that are learnt and have no counts."""
    if not spec.layout.size:
        return ()
    if kept_by_engine(counts):
        totals = counts.line_sums() + smoothing.line_counts
    else:
        totals = _cells_and_totals(spec, counts[: spec.layout.size], smoothing)[1]
    return tuple(np.flatnonzero(spec.has_choice & (totals < LEAST_COUNT)).tolist())


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
    found: np.ndarray = spec.has_choice & (moved <= ROUNDING) & (smoothing.line_counts == 0)
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
    return cells, line_sums(spec.layout, cells)


def line_sums(layout: Layout, cells: np.ndarray) -> np.ndarray:
    """Return the sum of each line of a vector in the plan's layout: of each row of each table, and of each prior."""
    if has_short_lines(layout):
        return np.bincount(layout.line_of, cells)
    sums: np.ndarray = np.add.reduceat(cells, layout.lines)
    return sums


def has_short_lines(layout: Layout) -> bool:
    """Return whether lines are short in the mean, so that their cells are added one after the other."""
    return layout.size <= SHORT_LINE * len(layout.lines)
