"""Mini-batch EM: tables are updated after every batch of rows, from counts in which earlier batches decay.

    running = (1 - step) * running + step * (counts of the batch) * (weight of all rows / weight of the batch)
    step    = first * (last / first) ** (t / (T - 1))        for update t = 0, 1, ... of T in all epochs

and the tables are made of `running` and the smoothing. A large step forgets what was counted with poor tables, a small
one averages over many batches; the steps fall geometrically from the first to the last. The first batch of all has
nothing before it, and is taken whole. Batches are drawn once, from the seed, and come in a new order in every epoch.
With one batch of all rows and the step 1 this is EM, bit for bit.

Sato and Ishii (2000), "On-line EM algorithm for the normalized Gaussian network", Neural Computation 12; Cappé and
Moulines (2009), "On-line expectation-maximization algorithm for latent data models", JRSS B 71.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .counts import Counts, decayed
from .em_settings import Rule
from .parameters import Parameters

ORDER = 1
"""Part of the seed of the order in which batches come."""


@dataclass(frozen=True, eq=False)
class BatchPass:
    """The result of one pass over all batches: the last tables, their decayed counts, and the likelihood.

    The likelihood of each batch is that under the tables it was counted with.
    """

    parameters: Parameters
    counts: Counts


def one_pass(
    batches: Sequence[Callable[[np.ndarray], Counts]],
    weight: float,
    parameters: Parameters,
    running: np.ndarray | None,
    rule: Rule,
    place: tuple[int, int],
    update: Callable[[Parameters, np.ndarray], Parameters],
) -> BatchPass:
    """Process all batches once, and update the tables after each.

    Args:
        batches: what counts each of them.
        weight: of all rows.
        parameters: to begin with.
        running: the decayed counts so far, if there are any.
        rule: the steps, and how many epochs there will be.
        place: the number of the start, and of the epoch.
        update: makes tables of counts.
    """
    start, epoch = place
    order = np.random.default_rng((rule.seed, ORDER, start, epoch)).permutation(len(batches)).tolist()
    likelihood = 0.0
    for number, batch in enumerate(order, start=epoch * len(batches)):
        fresh = batches[batch](parameters.values)
        step = 1.0 if running is None else rule.step_at(number, rule.epochs * len(batches))
        scale = weight / fresh.weight if fresh.weight else 0.0
        if scale:  # a batch of rows without weight says nothing
            running = decayed(running, fresh.values if scale == 1.0 else fresh.values * scale, step)
            parameters = update(parameters, running)
        likelihood += fresh.log_likelihood
    counted = np.zeros(len(parameters.values)) if running is None else running
    return BatchPass(parameters, Counts(counted, likelihood, weight))
