"""Online EM: learning from batches of rows that are each seen once, with decaying counts.

After every batch the expected counts per row are

    running = (1 - step) * running + step * (counts of the batch / its weight)
    step    = share ** power,   share = weight of the batch / all weight so far, this batch included

and the tables are made from running * (all weight so far), so that smoothing fades as rows come in. The first batch has
the step 1, and batch t of equal ones t ** -power. With the power 1 all rows have equal weight; a smaller power forgets
counts from earlier, poor tables, and 0.5 is the smallest for which the tables converge.

For data that change with time, the tables must not converge. With an effective size the step is never less than

    weight of the batch / (effective size + weight of the batch)

so that in the long run the weight of a row halves with every 0.7 effective sizes of later rows, and all earlier rows
together weigh as much as that many current rows; smoothing is then relative to that many rows, and does not fade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..core.learning_defaults import ONLINE_POWER
from ..plan.plan import Layout, Plan
from .counts import CountingMethod, Counts, decayed
from .em_settings import Rule
from .esteps import Cannot, EStep
from .mstep import Smoothing

ROUNDING = 1e-9
"""The relative rounding error of a number of rows that is converted to tables and back."""


@dataclass(eq=False)
class Online:
    """The state of online learning: the counts of the batches so far; pass it to `Network.learn` with every batch.

    A network keeps that of the last batch as `Network.online_state`, and so does its model file. Smoothing is not among
    the counts: it is added each time tables are made of them.

    Attributes:
        power: of the step, from 0.5 (forget fast) to 1 (forget nothing).
        effective_size: the largest total weight of earlier rows, in rows; None for no limit.
        batches: the number of batches so far.
        weight: of all rows so far.
        running: expected counts per row, in the plan's layout.
    """

    power: float = ONLINE_POWER
    effective_size: float | None = None
    batches: int = 0
    weight: float = 0.0
    running: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        settings.number("power", self.power, LearningError)
        if not 0.5 <= self.power <= 1:
            raise LearningError(f"The 'power' of an online step is from 0.5 to 1. Got {self.power!r} instead.")
        if self.effective_size is not None:
            settings.number("effective_size", self.effective_size, LearningError)
            if not self.effective_size:
                raise LearningError("The 'effective_size' is a number of rows, more than 0. Got 0.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Online):
            return NotImplemented
        mine, others = ((o.power, o.effective_size, o.batches, o.weight) for o in (self, other))
        return mine == others and np.array_equal(self.running, other.running)

    __hash__ = None  # type: ignore[assignment]  # the next batch changes it

    def step(self, weight: float) -> float:
        """The weight of the next batch in the running counts."""
        decaying = float((weight / (self.weight + weight)) ** self.power)
        return decaying if self.effective_size is None else max(decaying, weight / (self.effective_size + weight))

    def stands_for(self, weight: float) -> float:
        """Return the effective number of rows of the running counts after the next batch."""
        return weight + (self.weight if self.effective_size is None else min(self.weight, self.effective_size))

    def blended(self, counts: Counts) -> np.ndarray:
        """Return the running counts per row, updated with those of a batch."""
        fresh = np.asarray(counts.values) / counts.weight
        return decayed(self.running, fresh, self.step(counts.weight))

    def close_batch(self, running: np.ndarray, weight: float) -> None:
        """Update the running counts with a batch."""
        self.batches, self.weight, self.running = self.batches + 1, self.weight + weight, running


def check_online(online: object, rule: Rule, checkpoint: object, validation: object) -> None:
    """Raise an error for an invalid state of online learning, or settings that online learning does not allow."""
    if not isinstance(online, Online):
        raise LearningError(
            f"must be the state that is passed with every batch of rows, or None. Got {online!r} instead.",
            setting="online",
            value=online,
            remedies="make one before the first batch: state = fgrn.flow.online.Online(), or online() of a Network",
        )
    for setting, value, allowed in (
        ("starts", rule.starts, rule.starts == 1),
        ("accelerate", rule.accelerate, not rule.accelerate),
        ("checkpoint", checkpoint, checkpoint is None),
        ("validation", validation, validation is None),
    ):
        if not allowed:
            raise LearningError(
                "must be left out: online learning continues from the current tables, with rows that are seen once.",
                setting=setting,
                value=value,
            )


def expected(plan: Plan, values: np.ndarray, beliefs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the expected counts per row of the model without evidence, from the marginals of all edges."""
    out = np.zeros(plan.layout.size)
    for block, edge in enumerate(plan.siso_input.tolist()):
        number = int(plan.siso_table[block])
        plan.layout.table(out, number)[...] += beliefs[edge][:, None] * plan.layout.table(values, number)
    for source, edge in enumerate(plan.source_edge.tolist()):
        plan.source_values(out, source)[...] += beliefs[edge]
    return out


def without_smoothing(
    layout: Layout, values: np.ndarray, running: np.ndarray, smoothing: Smoothing, weight: float
) -> np.ndarray:
    """Return the counts per row that give these tables under the given smoothing.

    A row of a table with the probabilities p, the counts of smoothing a, and C expected rows of data was counted

        c = p * (C + sum of a) - a

    times. C is at least as large as its least cell needs to have been counted at all. A row that would need more than
    there are in the data was not made with this smoothing, and is taken as it is.

    Args:
        layout: of the network.
        values: its tables and priors.
        running: the counts per row that these expect, smoothing included.
        smoothing: which they were made with.
        weight: how many rows of data the tables were made of.
    """
    if smoothing.cells is None:
        return running
    cells, lines = smoothing.cells, layout.lines
    sizes = np.diff(lines, append=layout.size)
    added = np.add.reduceat(cells, lines)
    with np.errstate(divide="ignore"):
        rows_of_cells = np.divide(cells, values, out=np.zeros(layout.size), where=cells > 0)
    needed = np.maximum.reduceat(rows_of_cells, lines) - added
    per_row = [layout.table(running, number).sum() for number in range(len(layout.table_names))]  # more than 1 if tied
    most = weight * layout.spread(per_row, [1.0] * len(layout.prior_names))[lines]
    possible = needed <= most * (1 + ROUNDING)
    totals = np.maximum(np.add.reduceat(running, lines) * weight, np.where(possible, needed, 0.0))
    counts = np.maximum(values * np.repeat(totals + added, sizes) - cells, 0.0) / weight
    return np.where(np.repeat(possible, sizes), counts, running)


@dataclass
class OnlineEStep:
    """The E-step of online learning: the counts of a batch, added to the decayed counts of earlier batches."""

    rows: EStep
    online: Online
    latest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    weight: float = 0.0

    cycles = Cannot("the messages of batches that are seen once are not held")
    batches = Cannot("a batch that is seen once is not cut into batches")

    @property
    def method(self) -> CountingMethod:
        """See `EStep`."""
        return self.rows.method

    def count(self, values: np.ndarray) -> Counts:
        """See `EStep`; the likelihood is that of the batch."""
        fresh = self.rows.count(values)
        self.latest, self.weight = self.online.blended(fresh), fresh.weight
        return replace(fresh, values=self.latest * self.online.stands_for(fresh.weight))

    def close(self) -> None:
        """Update the running counts with the batch, after its last epoch."""
        self.online.close_batch(self.latest, self.weight)
