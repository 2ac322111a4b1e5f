"""Classifiers of one structure and any size: how their networks are built, learnt, refined and queried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from ..engines import Engine, compile_aside, compile_meanwhile
from ..flow.esteps import EStep
from ..learning.calibration import Calibration
from ..learning.conditional import FAINTEST, Conditional, tables_of_states
from ..learning.execution import engine_for
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .conditional_tables import conditional_logarithms
from .network import Network
from .row_products import RowProducts, products_of_rows, products_of_star

CALLS = 1000
"""The approximate number of E-steps while candidates of one structure are compared, by which the engine is chosen: a
few dozen for each fold, way and strength of refining, and number of bins or states."""

CALL, TREE_CALL, SUM_CALL = 4e5, 8e5, 6e4
"""The fixed work of an E-step: of a star, of a tree, and the extra if values are missing in a tree; a
unit is a cell that a row visits, about 0.4 ns."""

CELL, TREE_CELL = 60.0, 150.0
"""The fixed work per cell of a table in an E-step and in refinement."""

FEW_COLUMNS = 100
"""Up to this many columns the following is not counted, because it is little beside learning."""

STAR_COLUMN, TREE_COLUMN, TREE_PAIR = (7e4, 1e5), (1.2e6, 2.5e5), 600.0
"""The work of building and querying a network, per column, and of finding a tree, per pair of columns."""

SUMMED_OUT = 20.0
"""The work of a missing value in a tree, which is summed out, relative to a known one, see `missing_sums`: 7 to 25."""


@dataclass(frozen=True)
class ClassFamily:
    """Networks of one structure, in all sizes; see `fgrn.learning.class_trials.Family`.

    structure   what the structure is called
    build       makes a network of a size for some rows
    target      the class
    hidden      the hidden variable on which the class depends
    smoothing   of learning by EM
    engine      see `Network.learn`
    seed        of random starts
    refine      whether tables may be refined for the class
    ordered     the columns whose levels have an order
    temper      whether a temperature may be found for the class
    """

    structure: str
    build: Callable[[int, Evidence], Network]
    target: str
    hidden: str
    smoothing: float | Mapping[str, float]
    engine: str = "auto"
    seed: int = 0
    refine: bool = False
    ordered: Sequence[str] = ()
    temper: bool = False

    def new_model(self, size: int, rows: Evidence) -> Network:
        """See `Family`."""
        return self.build(size, rows)

    def learn(self, model: Network, rows: Evidence, epochs: int, tolerance: float) -> int:
        """See `Family`."""
        engine = self._engine(model, rows).name
        if engine == "cpu":
            _compile_kernels()
        history = model.learn(
            rows, epochs=epochs, tolerance=tolerance, accelerate=True, smoothing=self.smoothing_of(model),
            seed=self.seed, engine=engine,
        )  # fmt: skip
        return history.epochs

    def smoothing_of(self, model: Network) -> Any:
        """Return the smoothing of the tables of a model, in the form of `Network.learn`."""
        if not isinstance(self.smoothing, Mapping):
            return self.smoothing
        return {name: count for name, count in self.smoothing.items() if name in model.observed}

    def size_of(self, model: Network, rows: Evidence) -> tuple[int, int, float]:
        """See `Family`. Observed values are looked up: a row does not visit all cells of their tables.

        Columns of one level do not count, so that the choice does not depend on them.
        """
        plan, states = model._plan(), model.variable(self.hidden).cardinality
        levels = [model.variable(name).cardinality for name in model.observed]
        visited = float(sum(states + count for count in levels if count > 1))
        cells = plan.layout.size - states * levels.count(1)
        work = CALL + rows.rows * visited + CELL * cells
        if plan.is_factor.any():
            missing = float(np.mean(np.asarray(rows.codes) == UNKNOWN))
            visited = min(visited * (1 + SUMMED_OUT * missing), plan.work - plan.layout.size)
            calls = TREE_CALL + (SUM_CALL if missing else 0.0)
            work = calls + rows.rows * visited + TREE_CELL * cells
        return states, model.free_parameters, work

    def overhead(self, columns: int, again: bool) -> tuple[float, float]:
        """See `Family`. The tree over columns is found once per fold for all sizes, except for hidden trees."""
        is_tree, many = self.structure in ("tan", "tree"), max(columns - FEW_COLUMNS, 0)
        made, queried = TREE_COLUMN if is_tree else STAR_COLUMN
        is_found = is_tree and not (again and self.structure == "tan")
        return many * (made + TREE_PAIR * columns * is_found), many * queried

    def conditional(self, model: Network, rows: Evidence) -> Conditional:
        """See `Family`. Rows whose class is unknown are left out."""
        place = rows.columns.index(self.target)
        known = rows.take(np.flatnonzero(rows.codes[:, place] >= 0))
        both = known.take(np.tile(np.arange(known.rows), 2))
        both.codes[known.rows :, place] = UNKNOWN
        both = both.with_arrays(row_weights=np.concatenate([known.row_weights, -known.row_weights]))
        states = model.variable(self.hidden).cardinality
        compiled = self._engine(model, both).name == "cpu"
        return Conditional(
            model._spec, model._parameters.values, partial(self._estep, model, known), self._estep(model, both),
            known.weight, states, compiled,
        )  # fmt: skip

    def _engine(self, model: Network, rows: Evidence) -> Engine:
        """Return the engine for all E-steps over some rows; the work of one of them would say too little."""
        return engine_for(self.engine, model._plan(), CALLS * rows.rows)

    def _estep(self, model: Network, rows: Evidence) -> EStep:
        plan = model._plan()
        encoded = model._encode_rows(plan, rows)
        return model._estep(self._engine(model, rows), plan, model._programs_for(plan, (), encoded), expect=True)(
            encoded
        )

    def with_tables(self, model: Network, values: np.ndarray) -> Network:
        """See `Family`."""
        return model._with_parameters(replace(model._parameters, values=values), model._trained)

    def products_of(self, model: Network, rows: Evidence) -> RowProducts | None:
        """See `Family`. Sums over missing values are left to messages where E-steps need no compiled kernels either."""
        plan = model._plan()
        if self.engine not in ("auto", "cpu"):
            return None
        if plan.junction_tables is None:
            return products_of_star(plan, rows)
        encoded, hub = model._encode_rows(plan, rows), plan.edge(self.hidden)
        found = products_of_rows(plan.junction_tables, encoded, hub, for_counts=False)
        is_compiled = self._engine(model, rows).name == "cpu"
        return None if found is not None and found.sums is not None and not is_compiled else found

    def chances(self, model: Network, rows: Evidence, products: RowProducts | None = None) -> np.ndarray:
        """See `Family`."""
        posterior = None if products is None else products.posterior(model._parameters.values)
        if posterior is not None:
            found: np.ndarray = posterior @ model.table(self.target)
            return found
        engine = self._engine(model, rows).name
        return model.propagate(rows, keep=[self.target], parts=["marginal"], engine=engine, impossible="mark").marginal(
            self.target
        )

    def level_of_cells(self, model: Network) -> np.ndarray:
        """See `Family`."""
        layout, columns = model._spec.layout, {*model.observed} - {self.target, self.hidden}
        found, count = np.full(layout.size, -1), 0
        for number, (names, shape) in enumerate(zip(layout.table_names, layout.table_shapes, strict=True)):
            if not columns.isdisjoint(names):
                layout.table(found, number)[...] = count + np.arange(shape[1])
                count += shape[1]
        return found

    def scaled(self, model: Network, logarithms: np.ndarray) -> np.ndarray:
        """See `Family`. Factors of levels alone change nothing in what complete rows tell of the class."""
        with np.errstate(divide="ignore"):
            logs = np.log(model._parameters.values)
        return self._of_logarithms(model, logs + logarithms)._parameters.values

    def calibrated(self, model: Network, calibration: Calibration) -> Network:
        """See `Family`."""
        return self._of_logarithms(model, self._changed_logarithms(model, calibration))

    def mean_of(self, models: Sequence[tuple[Network, float]]) -> Network:
        """See `Family`."""
        first = models[0][0]
        with np.errstate(divide="ignore"):
            logs = [np.log(self._cells_in_layout(first, model)) / temperature for model, temperature in models]
        return self._of_logarithms(first, np.mean(logs, axis=0))

    def _cells_in_layout(self, model: Network, other: Network) -> np.ndarray:
        """Return the cells of a network in the layout of another one, whose classes may have more states.

        A network with one state for each class, in which columns depend on nothing else, has the same cells in all
        states of a class, whatever else a table depends on.
        """
        layout, values = model._spec.layout, other._parameters.values
        if other._spec.layout.table_shapes == layout.table_shapes:
            return values
        states = other.table(self.target).argmax(axis=0)[model.table(self.target).argmax(axis=1)]
        cells = np.ones(layout.size)
        self._hidden_cells(model, cells)[...] = self._hidden_cells(other, values)[states]
        for number, (name, *_) in enumerate(layout.table_names):
            if name != self.hidden:
                table, its_layout = layout.table(cells, number), other._spec.layout
                rows = its_layout.table(values, its_layout.table_number(name))[states]
                table[...] = np.repeat(rows, len(table) // len(rows), axis=0)
        return cells

    def _of_logarithms(self, model: Network, logs: np.ndarray) -> Network:
        """Return a network whose joint distribution is proportional to that of cells with these logarithms.

        The tables are the conditional distributions of what the cells add up to. In a star each row of a table is
        divided by its sum, and the prior takes the sums, of all tables, with it.
        """
        layout = model._spec.layout
        tables = model._plan().junction_tables
        if tables is not None:
            values = np.exp(conditional_logarithms(tables, logs))
        else:
            prior = layout.prior(logs, layout.prior_number(self.hidden))
            values = np.exp(logs)
            with np.errstate(divide="ignore"):  # in logarithms: the product over hundreds of columns may overflow
                for number in range(len(layout.table_names)):
                    prior += np.log(layout.table(values, number).sum(axis=1))
            layout.prior(values, layout.prior_number(self.hidden))[...] = np.exp(prior - prior.max())
        total = np.add.reduceat(values, layout.lines)[layout.line_of]
        return self.with_tables(model, np.where(total > 0, values / np.where(total > 0, total, 1.0), 0.0))

    def _changed_logarithms(self, model: Network, calibration: Calibration) -> np.ndarray:
        """Return the logarithms of all cells divided by the temperature, plus the matrix terms of each class.

        With one state for each class this changes the predictions for rows without missing values exactly; missing
        values are summed out after the change. Several states of a class are changed equally: by the change of the
        table of their class, which is their mean.
        """
        layout, values = model._spec.layout, model._parameters.values
        with np.errstate(divide="ignore"):
            logs: np.ndarray = np.log(values) / calibration.temperature
        if calibration.mixing is None:
            return logs
        of_class = model.table(self.target)  # (states, classes): 1 where a state is one of a class
        cells = self._hidden_cells(model, values)
        sizes = cells @ of_class
        shares = of_class * cells[:, None] / np.maximum(sizes, FAINTEST)
        offsets = calibration.matrix_terms(np.log(np.maximum(sizes, FAINTEST))) + calibration.offsets
        self._hidden_cells(model, logs)[...] += of_class @ offsets
        for number in tables_of_states(model._spec, len(of_class)):
            table = layout.table(values, number)
            means = shares.T @ table.reshape(len(of_class), -1)
            added = calibration.matrix_terms(np.log(np.maximum(means, FAINTEST)))
            layout.table(logs, number)[...] += (of_class @ added).reshape(table.shape)
        return logs

    def _hidden_cells(self, model: Network, values: np.ndarray) -> np.ndarray:
        """Return the cells of the prior of the hidden variable, which is a table of one row in a junction tree."""
        layout = model._spec.layout
        if self.hidden in layout.prior_names:
            return layout.prior(values, layout.prior_number(self.hidden))
        cells: np.ndarray = layout.table(values, layout.table_number(self.hidden))[0]
        return cells


@cache
def _compile_kernels() -> None:
    """Begin to compile the kernels that all candidates need, in two processes, if that was never done."""
    from ..engines.descent import compile_direction
    from ..engines.nested_sums import compile_sums  # they import numba

    compile_aside("stars")
    compile_meanwhile(compile_direction, compile_sums)
