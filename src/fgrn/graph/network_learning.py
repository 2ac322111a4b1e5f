"""Learning of a Network layer after layer, and online learning that continues from its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.exceptions import LearningError
from ..flow.em import History
from ..flow.mstep import Smoothing
from ..flow.online import Online, expected, without_smoothing
from ..learning import checkpoints
from ..learning.encoding import table_elsewhere
from ..learning.layers import steps
from ..tables import frames

if TYPE_CHECKING:
    from .network import Network


def learn_by_layer(network: Network, data: frames.Data, together: int, options: dict[str, Any]) -> list[History]:
    """Learn a network layer after layer; see `Network.learn_by_layer`. If that fails, the network stays as it was."""
    for name in ("only", "paused"):
        if name in options:
            raise LearningError(f"The setting {name!r} is determined by the layers; leave it out, or use learn.")
    before = network._parameters, network._trained, network._counted
    kept = {name: options.pop(name) for name in ("checkpoint", "every", "resume") if name in options}
    try:
        with checkpoints.open_journal(**{"checkpoint": None, **kept}) as options["checkpoint"]:
            layers = steps(network._spec, network.layers)
            executor = options.pop("executor", None)
            data = table_elsewhere(network._plan(), data, options.get("weights"), executor) or data
            histories = [network.learn(data, only=layer, paused=above, **options) for layer, above in layers]
            if together:
                histories.append(network.learn(data, **{**options, "epochs": together, "starts": 1}))
    except BaseException:
        network._parameters, network._trained, network._counted = before
        raise
    return histories


def online_from_tables(network: Network, weight: float, power: float, effective_size: float | None) -> Online:
    """Return a state of online learning in which the tables of a network count as `weight` rows."""
    if not weight:
        return Online(power, effective_size)
    plan, values = network._plan(), network._tables
    last = network._trained[-1] if network._trained else {}
    alone = network.propagate(None, parts=["marginal"], engine="reference")  # the same bits every time
    running = expected(plan, values, [alone.marginal(name)[0] for name in plan.names])
    rows = weight if effective_size is None else min(weight, last.get("weight", 0.0) + effective_size)
    smoothing = Smoothing.of(network._spec, last.get("smoothing", 0.0))
    running = network._with_moments(without_smoothing(plan.layout, values, running, smoothing, rows), alone.marginal)
    return Online(power, effective_size, 1, weight, running)
