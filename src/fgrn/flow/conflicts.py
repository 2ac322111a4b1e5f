"""Explanations of impossible rows: a smallest set of values that cannot occur together, found by leaving out values."""

from __future__ import annotations

import numpy as np

from .. import engines
from ..core.exceptions import ImpossibleEvidence
from ..plan.plan import Plan
from ..plan.schedule import Programs
from ..tables.encoded import SOFT, Evidence
from .evidence import UNKNOWN

MOST_WORK = 50_000
"""Known values times blocks: with more, the search would take longer than an error message should."""


def explained(
    error: ImpossibleEvidence, plan: Plan, programs: Programs, values: np.ndarray, evidence: Evidence
) -> ImpossibleEvidence:
    """Return the error with an explanation: the values of its first row that cannot occur together."""
    row = error.rows[0]
    clash = _conflict(plan, programs, values, evidence.take(slice(row, row + 1)))
    if not clash:
        return error
    named = [_value_text(plan, evidence, edge, row) for edge in clash]
    why = f"{named[0]} cannot go with {' and '.join(named[1:])}" if named[1:] else f"{named[0]} cannot be"
    first = ". In the first of these rows," if error.rows[1:] else ":"
    return error.changed(message=f"this evidence has probability zero under the model{first} {why}.")


def _conflict(plan: Plan, programs: Programs, values: np.ndarray, row: Evidence) -> list[int]:
    """Return a minimal set of edges whose values are impossible together, and possible without any one of them."""
    edges = [edge for edge in sorted(row.edges()) if row.has_evidence(edge)[0]]
    if len(edges) * len(plan.order) > MOST_WORK or not plan.is_tree:
        return []
    engine = engines.get("reference")
    program = programs.some([])

    def impossible(without: int) -> bool:
        codes = row.codes.copy()
        for edge in [without, *dropped]:
            codes[0, row.slot[edge]] = UNKNOWN
        part = Evidence(codes, row.soft, row.slot, row.soft_offset, row.log_scale)
        loaded = engine.prepare(plan, programs, program, part).load(values)
        return bool(np.isneginf(loaded.propagate(["likelihood"]).log_likelihood[0]))

    dropped: list[int] = []
    for edge in edges:  # one after the other: each depends on those dropped before
        dropped += [edge] if impossible(edge) else []
    return [edge for edge in edges if edge not in dropped]


def _value_text(plan: Plan, evidence: Evidence, edge: int, row: int) -> str:
    code = int(evidence.codes[row, evidence.slot[edge]])
    what = "as a distribution" if code == SOFT else f"= {plan.labels[edge][code]}"
    return f"'{plan.names[edge]}' {what}"
