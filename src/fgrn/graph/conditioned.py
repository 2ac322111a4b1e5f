"""E-steps of junction trees in whose rows all variables but one are known: a product of one cell of each table.

In such a row the messages of the junction tree visit all joint states of its cliques, most of them needlessly. Given
the known values, the likelihood of each state of the hidden variable h is the product of one cell of each table, as in
the E-step of a star: h is its hub, every table is a leaf, and the code of the leaf is the joint state of the other
variables of the table.

Values that are missing in some rows are summed out (`missing_sums`): the sums are further leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..core.labels import code_type
from ..core.variable import Variable
from ..engines import Engine, compile_aside
from ..flow.counts import CountingMethod, Counts, LocalEStep
from ..flow.esteps import EStep, WholeEStep
from ..plan.junction_tables import JunctionTable, JunctionTables
from ..plan.plan import Plan
from ..plan.schedule import Programs, special_edges
from ..tables.encoded import Evidence
from ..tables.frames import UNKNOWN
from .blocks import SISO, Block, Diverter, Source
from .missing_sums import RowSums, sums_over_missing
from .supervisor import make_plan
from .wiring import Wiring

if TYPE_CHECKING:
    from ..engines.nested_sums import NestedSums


def estep_of_rows(
    engine: Engine,
    plan: Plan,
    programs: Programs,
    evidence: Evidence,
    queried_by: str | None = None,
    **options: Any,
) -> WholeEStep:
    """Return the E-step over rows; for junction trees with one hidden variable per row, that of an equivalent star.

    The kernels of a star are not those of queries to the junction tree, which `queried_by` names, if any are expected:
    a second process compiles them, if that was never done.
    """
    whole = LocalEStep(engine, plan, programs, evidence, **options)
    tables = None if engine.name == "torch" else plan.junction_tables
    found = _star_of(tables, evidence) if tables is not None and _fits(tables, evidence) else None
    if found is None or (found.sums is not None and engine.name != "cpu"):
        return whole
    if queried_by is not None and engine.name == "cpu":
        compile_aside(queried_by)
    return ConditionedEStep(whole, found.cells, found.nested_sums(plan.layout.size), found.estep(whole))


@dataclass(frozen=True, eq=False)
class ConditionedEStep:
    """The E-step of a junction tree, computed by that of an equivalent star; see the module docstring.

    whole  that of all rows by messages
    cells  of each cell of the star: the number of its cell in the junction tree, or of what comes after these: of a 1,
           and of the sums over missing values
    sums   these sums; None if nothing but the hidden variable is missing
    star   the E-step of the star
    """

    whole: LocalEStep
    cells: np.ndarray
    sums: NestedSums | None
    star: LocalEStep

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.star.method

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`."""
        cells, terms, is_exact = np.append(values, 1.0), np.zeros(0), True
        if self.sums is not None:
            cells, terms, is_exact = self.sums.of(cells)
        if not is_exact:
            return self.whole.count(values)
        try:
            found = self.star.count(cells[self.cells])
        except ImpossibleEvidence:
            return self.whole.count(values)  # it names the rows as they are in the table
        counts = np.bincount(self.cells, found.values, minlength=len(cells))
        if self.sums is not None:
            self.sums.add_counts(cells, terms, counts)
        return replace(found, values=counts[: len(values)])

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `WholeEStep`."""
        return self.whole.cycles(values)

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """See `WholeEStep`."""
        found = self.whole.batches(size, seed)
        return [self] if len(found) == 1 else found


def _fits(model: JunctionTables, evidence: Evidence) -> bool:
    """Return whether all evidence is hard, in memory, and on variables of the junction tree."""
    return not evidence.soft.shape[1] and evidence.in_memory and evidence.edges() <= set(model.edges)


@dataclass(frozen=True, eq=False)
class _Star:
    """The star that is equivalent to a junction tree for some rows.

    hub        how many states the hidden variable has
    leaves     how many codes each leaf has
    cells      see `ConditionedEStep`
    sums       the sums over missing values; None if nothing but the hub is missing
    evidence   on the leaves
    """

    hub: int
    leaves: Sequence[int]
    cells: np.ndarray
    sums: RowSums | None
    evidence: Evidence

    def nested_sums(self, cells: int) -> NestedSums | None:
        """Return the sums over missing values, given how many cells the junction tree has."""
        if self.sums is None:
            return None
        from ..engines.nested_sums import NestedSums  # imports numba

        return NestedSums(cells + 1, self.sums.factors, self.sums.factors_of_term, self.sums.terms_of_sum)

    def estep(self, whole: LocalEStep) -> LocalEStep:
        """Return the E-step of the star, executed as that of the junction tree would be."""
        hub = Variable("hidden", self.hub)
        copies = [Variable(f"hidden {name}", self.hub) for name in self.evidence.columns]
        outputs = map(Variable, self.evidence.columns, self.leaves)
        blocks: list[Block] = [SISO(copy, output) for copy, output in zip(copies, outputs, strict=True)]
        plan = make_plan(Wiring((*blocks, Source(hub), Diverter([hub], copies))))
        rows = self.evidence.numbered_by(plan)
        programs = Programs(plan, special_edges(plan, rows.slot, rows.soft_edges()))
        return replace(whole, plan=plan, programs=programs, evidence=rows, expect=False)


def _star_of(model: JunctionTables, evidence: Evidence) -> _Star | None:
    """Return the star for rows of a junction tree; None if no variable is hidden in all rows, or too many are missing.

    Its leaves are the tables, where some row knows their variables; and after these the sums over missing values: the
    first of each row, the second, ...
    """
    codes = np.full((evidence.rows, len(model.sizes)), UNKNOWN, dtype=np.int64)
    for number, edge in enumerate(model.edges):
        if edge >= 0 and evidence.slot[edge] >= 0:
            codes[:, number] = evidence.codes[:, evidence.slot[edge]]
    missing = codes == UNKNOWN
    hidden = np.flatnonzero(missing.all(axis=0)).tolist()
    if not hidden:
        return None
    hub = max(hidden, key=lambda number: sum(number in table.scope for table in model.tables))
    missing[:, hub] = False
    sums = sums_over_missing(model, hub, codes, missing) if missing.any() else None
    if sums is None and missing.any():
        return None
    found = [_table_leaf(model, hub, table, codes, missing) for table in model.tables]
    tables = [leaf for leaf in found if leaf is not None]
    cells, own = [leaf.cells for leaf in tables], [leaf.codes for leaf in tables]
    if sums is not None:
        cells += sums.leaves
        own += list(sums.codes.T)
    sizes = [some.shape[1] for some in cells]
    names = tuple(f"{number}" for number in range(len(sizes)))
    rows = Evidence.of_codes(names, np.stack(own, axis=1).astype(code_type(max(sizes))), evidence.row_weights)
    rows = replace(rows, log_scale=evidence.log_scale)
    ones = np.full(model.sizes[hub], model.layout_size)
    return _Star(model.sizes[hub], sizes, np.concatenate([*map(np.ravel, cells), ones]), sums, rows)


class _Leaf(NamedTuple):
    """A leaf of a star: a table of the junction tree.

    codes   (rows,): the code of each row, UNKNOWN if a variable of the table is missing
    cells   (states of the hub, codes): of each cell, the number of its cell in the junction tree
    """

    codes: np.ndarray
    cells: np.ndarray


def _table_leaf(
    model: JunctionTables, hub: int, table: JunctionTable, codes: np.ndarray, missing: np.ndarray
) -> _Leaf | None:
    """Return the leaf of a table, for rows in which all its variables but the hub are known; None without such rows."""
    others = table.variables_beside(hub)
    known = ~missing[:, others].any(axis=1)
    if not known.any():
        return None
    place, code = np.full(1, table.at), np.zeros(len(codes), dtype=np.int64)
    for number in others:
        size = model.sizes[number]
        place = (place[:, None] + table.steps[number] * np.arange(size)).ravel()
        code = code * size + codes[:, number]
    states = table.steps.get(hub, 0) * np.arange(model.sizes[hub])
    return _Leaf(np.where(known, code, UNKNOWN), states[:, None] + place)
