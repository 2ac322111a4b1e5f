"""Reordering the states of a hidden variable: the same model with its classes renumbered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .network import Network


def with_states_ordered(net: Network, order: np.ndarray) -> Network:
    """Return a copy of a network whose hidden variable has reordered states: state k is the old state `order[k]`."""
    new = net.copy()
    layout, before = net._spec.layout, net._parameters
    values = before.values.copy()
    for number in range(len(layout.table_names)):
        layout.table(values, number)[...] = layout.table(before.values, number)[order]
    for number in range(len(layout.prior_names)):
        layout.prior(values, number)[...] = layout.prior(before.values, number)[order]
    if net._spec.leaves is not None:
        values[layout.size :] = net._spec.leaves.ordered(before.values[layout.size :], order)
    new._parameters = replace(before, values=values)
    return new
