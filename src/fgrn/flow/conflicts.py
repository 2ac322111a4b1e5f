"""Explanations of impossible rows: a smallest set of values that cannot occur together, found by leaving out values."""

from __future__ import annotations

import numpy as np

from .. import engines
from ..core.exceptions import ImpossibleEvidence
from ..core.labels import Label
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
    if named[1:]:
        why = f"{named[0]} cannot go with {' and '.join(named[1:])}"
    else:
        possible = _possible_states(plan, programs, values, evidence.take(slice(row, row + 1)), clash[0])
        always = (
            f", since it is always {possible[0]}, by the tables or an intervention (do)" if len(possible) == 1 else ""
        )
        why = f"{named[0]} cannot be{always}"
    first = ". In the first of these rows," if error.rows[1:] else ":"
    return error.changed(message=f"this evidence has probability zero under the model{first} {why}.")


def _conflict(plan: Plan, programs: Programs, values: np.ndarray, row: Evidence) -> list[int]:
    """Return a minimal set of edges whose values are impossible together, and possible without any one of them."""
    edges = [edge for edge in sorted(row.edges()) if row.has_evidence(edge)[0]]
    if len(edges) * len(plan.order) > MOST_WORK or not plan.is_tree:
        return []
    dropped: list[int] = []
    for edge in edges:  # one after the other: each depends on those dropped before
        codes = row.codes.copy()
        for gone in [edge, *dropped]:
            codes[0, row.slot[gone]] = UNKNOWN
        dropped += [] if _is_possible(plan, programs, values, row, codes) else [edge]
    return [edge for edge in edges if edge not in dropped]


def _possible_states(plan: Plan, programs: Programs, values: np.ndarray, row: Evidence, edge: int) -> list[Label]:
    """Return the labels of a variable that are possible without any evidence; none if there are too many to try."""
    labels, found = plan.labels[edge], list[Label]()
    if len(labels) * len(plan.order) > MOST_WORK:
        return []
    for code, label in enumerate(labels):
        codes = np.full_like(row.codes, UNKNOWN)
        codes[0, row.slot[edge]] = code
        found += [label] if _is_possible(plan, programs, values, row, codes) else []
    return found


def _is_possible(plan: Plan, programs: Programs, values: np.ndarray, row: Evidence, codes: np.ndarray) -> bool:
    """Return whether a row has a positive probability with these codes in place of its own."""
    part = Evidence(codes, row.soft, row.slot, row.soft_offset, row.log_scale)
    loaded = engines.get("reference").prepare(plan, programs, programs.some([]), part).load(values)
    return not np.isneginf(loaded.propagate(["likelihood"]).log_likelihood[0])


def _value_text(plan: Plan, evidence: Evidence, edge: int, row: int) -> str:
    code = int(evidence.codes[row, evidence.slot[edge]])
    what = "as a distribution" if code == SOFT else f"= {plan.labels[edge][code]}"
    return f"'{plan.names[edge]}' {what}"
