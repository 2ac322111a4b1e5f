"""Learning layer by layer: which tables are learnt, frozen and paused in each step."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.exceptions import LearningError, shortened
from ..flow.parameters import Specification

Layers = tuple[tuple[str, ...], ...]


def steps(spec: Specification, layers: Layers) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield for each layer, from the bottom, the names to learn, and the outputs of the SISO blocks above, to pause."""
    layer_of = {name: number for number, layer in enumerate(layers) for name in layer}
    tables = {name for group in spec.layout.table_names for name in group}
    for group in spec.layout.table_names:
        if len({layer_of[name] for name in group}) > 1:
            raise LearningError(
                f"The blocks of {shortened(map(repr, group))} share one table but are in several layers, which are "
                "learnt apart. Use learn."
            )
    for number, layer in enumerate(layers):
        learnt = spec.restricted(layer)
        if any((*learnt.learnt_tables, *learnt.learnt_priors)):
            yield layer, [name for higher in layers[number + 1 :] for name in higher if name in tables]
