"""E-steps of junction trees with one variable that is hidden in all rows, by the E-step of a star.

The messages of the junction tree visit all joint states of its cliques, most of them needlessly where the other
variables are known. Then the likelihood of each state of the hidden variable h is the product of one cell of each
table, as in a star: h is its hub, every table is a leaf, and the code of the leaf is the joint state of the other
variables of the table. Sums over the values that are missing in some rows are further leaves (see `row_products`).
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
    found = None if tables is None else products_of_rows(tables, evidence)
    if found is None or (found.sums is not None and engine.name != "cpu"):
        return whole
    if queried_by is not None and engine.name == "cpu":
        compile_aside(queried_by)
    rest = replace(whole, evidence=evidence.take(found.others)) if len(found.others) else None
    prior = np.full(found.states, found.size)
    values = np.concatenate([*(leaf.cells.ravel() for leaf in found.leaves), prior])
    return ConditionedEStep(whole, values, found.nested_sums(), _estep_of_star(found, whole), rest)


@dataclass(frozen=True, eq=False)
class ConditionedEStep:
    """The E-step of a junction tree, computed by that of an equivalent star; see the module docstring.

    whole   that of all rows by messages
    values  of each cell of the star: the number of its value, see `RowProducts`
    sums    the sums over missing values; None if nothing but the hidden variable is missing
    star    that of the rows which the star counts
    rest    that of the others by messages, if there are any
    """

    whole: LocalEStep
    values: np.ndarray
    sums: NestedSums | None
    star: LocalEStep
    rest: LocalEStep | None

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        star = self.star.method
        return star if self.rest is None else star._replace(rows=star.rows + self.rest.method.rows)

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`. Where underflow may matter, all rows are counted by messages."""
        every = np.append(values, 1.0)
        sums = None if self.sums is None else self.sums.of(every)
        if sums is not None:
            every = sums.values
            if sums.is_wrong:
                return self.whole.count(values)
        try:
            found = self.star.count(every[self.values])
            others = None if self.rest is None else self.rest.count(values)
        except ImpossibleEvidence:
            return self.whole.count(values)  # it names the rows as they are in the table
        counts = np.bincount(self.values, found.values, minlength=len(every))
        if self.sums is not None and sums is not None:
            if self.star.had_faint_rows and not sums.is_exact:
                return self.whole.count(values)
            self.sums.add_counts(sums, counts)
        found = replace(found, values=counts[: len(values)])
        return found if others is None else found + others

    def cycles(self, values: np.ndarray) -> Callable[[np.ndarray], Counts]:
        """See `WholeEStep`."""
        return self.whole.cycles(values)

    def batches(self, size: int, seed: int) -> Sequence[EStep]:
        """See `WholeEStep`."""
        found = self.whole.batches(size, seed)
        return [self] if len(found) == 1 else found


def _estep_of_star(products: RowProducts, whole: LocalEStep) -> LocalEStep:
    """Return the E-step of the star with these leaves, executed as that of the junction tree would be."""
    sizes = [leaf.cells.shape[1] for leaf in products.leaves]
    evidence = whole.evidence.take(products.kept)
    codes = np.stack([leaf.codes for leaf in products.leaves], axis=1).astype(code_type(max(sizes)))
    names = tuple(f"{number}" for number in range(len(sizes)))
    rows = Evidence.of_codes(names, codes[products.kept], evidence.row_weights)
    hub = Variable("hidden", products.states)
    copies = [Variable(f"hidden {name}", products.states) for name in names]
    blocks: list[Block] = [SISO(copy, output) for copy, output in zip(copies, map(Variable, names, sizes), strict=True)]
    plan = make_plan(Wiring((*blocks, Source(hub), Diverter([hub], copies))))
    rows = replace(rows, log_scale=evidence.log_scale).numbered_by(plan)
    programs = Programs(plan, special_edges(plan, rows.slot, rows.soft_edges()))
    return replace(whole, plan=plan, programs=programs, evidence=rows, expect=False)
