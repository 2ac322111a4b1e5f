"""The identity of a run of learning: what must be equal for another run to continue from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ..core.digests import digest
from ..core.distributions import ROW_SUM_TOLERANCE
from ..flow.em import Rule
from ..flow.parameters import Parameters, Specification
from ..tables.encoded import EncodedTable

MAY_GROW = ("epochs", "starts")
"""Settings that may be increased when learning is resumed: the shorter run is a part of the longer one."""

ADDED_LATER = {"accelerate": False, "batch_size": None, "step": None, "patience": None}
"""Settings that older checkpoints do not contain, with their values then."""

DIGESTS = {
    "network": "the network, or the set of learnt tables, differs",
    "names": "the columns differ",
    "values": "the values of the table differ",
    "weights": "the weights of the rows differ",
    "validation": "the held-out rows differ",
    "pieces": "the rows are split differently on a cluster, or were on one machine, which changes rounding errors",
}
"""The parts of which only hashes are stored and compared, and the message if they differ."""


def about(
    model: Any,
    structure: Sequence[object],
    spec: Specification,
    table: EncodedTable,
    rule: Rule,
    others: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the identity of a stage as JSON values: what must be equal for learning to continue.

    Args:
        model: what learns.
        structure: what its messages depend on, beside the specification.
        spec: what is learnt.
        table: the rows.
        rule: how it is learnt.
        others: more settings.
    """
    settings_of_rule = {one.name: _as_json(getattr(rule, one.name)) for one in fields(rule)}
    return {
        "model": type(model).__name__,
        "network": digest(*structure, spec),
        **table.digests(),
        **settings_of_rule,
        **{name: _as_json(value) for name, value in others.items()},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two runs as texts; none if one can continue the other."""
    found = []
    apart = before.get("pieces") != now.get("pieces")  # then digests of values differ, whether values do or not
    may_grow = MAY_GROW if now.get("batch_size") is None else ("starts",)  # steps of batches depend on all epochs
    for name in dict.fromkeys([*now, *before]):
        if apart and name in ("values", "weights"):
            continue
        was, is_now = (one.get(name, ADDED_LATER.get(name)) for one in (before, now))
        has_grown = name in may_grow and type(was) is type(is_now) is int and was < is_now
        if was == is_now or has_grown:
            continue
        told = f"{name!r} was {was!r} and is {is_now!r}"
        found.append(DIGESTS[name] if name in DIGESTS else told + (", and may grow only" if name in may_grow else ""))
    return found


def _as_json(value: Any) -> Any:
    """Return a setting as a JSON value."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return digest(value)
    if isinstance(value, tuple):
        return [_as_json(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def is_possible(parameters: Parameters, spec: Specification) -> bool:
    """Return whether learnt parameters are distributions that are zero outside their support."""
    values, layout = parameters.values, spec.layout
    end = layout.size
    if len(values) != end + (0 if spec.leaves is None else spec.leaves.size) or not np.isfinite(values[end:]).all():
        return False
    learnt = np.where(spec.learnt, values[:end], 0.0)
    sums = np.add.reduceat(learnt, layout.lines)[spec.learnt[layout.lines]]
    numbers = (parameters.undrawn_tables, len(spec.tables)), (parameters.undrawn_priors, len(spec.priors))
    return (
        bool(np.isfinite(learnt).all())
        and not (learnt < 0).any()
        and not learnt[~spec.supported].any()
        and bool((np.abs(sums - 1) <= ROW_SUM_TOLERANCE).all())
        and all(0 <= number < count for some, count in numbers for number in some)
    )
