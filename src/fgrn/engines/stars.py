"""Messages on a single leg of a star (one Diverter, its Sources and leaves), computed without a sweep.

The message that leaves the Diverter on that leg is a product of columns of tables, gathered as for counting. So the
class posterior of a row costs no more than its share of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence


@dataclass(frozen=True, eq=False)
class ShownLeg:
    """The leg whose messages are shown: to a leaf, or to the Source. Nothing is known of its own variables.

    `leg` is the variable on the Diverter; `leaf` is that behind it, after the table number `table`. Both are None and
    -1 for the Source, which has the prior `prior`.
    """

    leg: int
    leaf: int | None = None
    table: int = -1
    prior: int = -1


def shown_leg_of(plan: Plan, program: Program, evidence: Evidence) -> ShownLeg | None:
    """Return the only leg a program shows, if the network is a star and all other legs are priors and leaves."""
    shown = set(program.shown.tolist())
    if plan.diverters != 1 or not shown or any(evidence.slot[edge] >= 0 for edge in shown) or plan.is_factor.any():
        return None
    sources = plan.source_of
    if any(edge in sources and evidence.slot[edge] >= 0 for edge in plan.leg_edge.tolist()):
        return None
    legs = []
    for leg, edge in enumerate(plan.leg_edge.tolist()):
        siso = int(plan.leg_siso[leg])
        if edge in sources and edge in shown and plan.leg_map[leg] < 0 and shown == {edge}:
            legs.append(ShownLeg(edge, prior=sources[edge]))
        elif edge not in sources and program.gathered[leg] < 0:
            if siso < 0 or not shown <= {edge, leaf := int(plan.siso_output[siso])}:
                return None
            if evidence.slot[leaf] >= 0 or evidence.slot[edge] >= 0:
                return None
            legs.append(ShownLeg(edge, leaf, int(plan.siso_table[siso])))
    return legs[0] if len(legs) == 1 else None
