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
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.exceptions import ImpossibleEvidence
from ..core.labels import code_type
from ..core.variable import Variable
from ..engines import Engine, compile_aside
from ..flow.counts import CountingMethod, Counts, LocalEStep
from ..flow.esteps import EStep, WholeEStep
from ..plan.junction_tables import JunctionTables
from ..plan.plan import Plan
from ..plan.schedule import Programs, special_edges
from ..tables.encoded import Evidence
from .blocks import SISO, Block, Diverter, Source
from .row_products import RowProducts, products_of_rows
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
    found = products_of_rows(tables, evidence) if tables is not None and _fits(tables, evidence) else None
    if found is None or (found.sums is not None and engine.name != "cpu"):
        return whole
    if queried_by is not None and engine.name == "cpu":
        compile_aside(queried_by)
    ones = np.full(found.hub, found.cells)
    cells = np.concatenate([*(leaf.cells.ravel() for leaf in found.leaves), ones])
    return ConditionedEStep(whole, cells, found.nested_sums(), _estep_of_star(found, whole))


@dataclass(frozen=True, eq=False)
class ConditionedEStep:
    """The E-step of a junction tree, computed by that of an equivalent star; see the module docstring.

    whole  that of all rows by messages
    cells  of each cell of the star: the number of its cell in the junction tree, or of what comes after these: of a 1,
           and of the sums over missing values (see `RowProducts`)
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


def _estep_of_star(products: RowProducts, whole: LocalEStep) -> LocalEStep:
    """Return the E-step of the star with these leaves, executed as that of the junction tree would be."""
    sizes = [leaf.cells.shape[1] for leaf in products.leaves]
    codes = np.stack([leaf.codes for leaf in products.leaves], axis=1).astype(code_type(max(sizes)))
    names = tuple(f"{number}" for number in range(len(sizes)))
    rows = Evidence.of_codes(names, codes, whole.evidence.row_weights)
    hub = Variable("hidden", products.hub)
    copies = [Variable(f"hidden {name}", products.hub) for name in names]
    blocks: list[Block] = [SISO(copy, output) for copy, output in zip(copies, map(Variable, names, sizes), strict=True)]
    plan = make_plan(Wiring((*blocks, Source(hub), Diverter([hub], copies))))
    rows = replace(rows, log_scale=whole.evidence.log_scale).numbered_by(plan)
    programs = Programs(plan, special_edges(plan, rows.slot, rows.soft_edges()))
    return replace(whole, plan=plan, programs=programs, evidence=rows, expect=False)
