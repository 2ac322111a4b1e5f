"""Junction trees of small cliques, many rows at once (see `kernels.cliques`); rows that may underflow one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .kernels.arguments import Lanes, RowBooks, Totals
from .packs import aligned_zeros
from .protocol import Buffers, RowCounts

if TYPE_CHECKING:
    from ..plan.plan import Plan, Program
    from ..tables.encoded import Evidence
    from .linear import Loaded
    from .tape import Tape

NOTHING = np.zeros(0)

LANE_BYTES = 2**23
"""Of the messages and the product over the largest clique in all lanes: in main memory lanes would be slower."""

MOST_LANES, FEWEST_LANES = 64, 8
FEWEST_ROWS = 8
"""With fewer rows most lanes would be empty."""


def lanes_for(plan: Plan, program: Program, tape: Tape, evidence: Evidence) -> int:
    """Return how many rows to compute at once; 0 if that is slower or not possible."""
    if not program.by_posteriors or evidence.rows < FEWEST_ROWS:
        return 0
    merged = sum(len(product.sources) for product in tape.products)
    inside = any(plan.reader[edge] for edge in evidence.edges())
    if inside or merged < len(plan.source_edge):
        return 0
    fitting = LANE_BYTES // (8 * (tape.width + tape.largest_space))
    lanes = min(fitting, MOST_LANES, evidence.rows + FEWEST_LANES - 1)
    return lanes - lanes % FEWEST_LANES


def messages(loaded: Loaded, rows: slice, room: dict[str, np.ndarray]) -> tuple[Buffers, np.ndarray]:
    """Return the marginals of a junction tree, in the array of `room`, and which rows were computed singly."""
    mine, count = loaded.prepared, rows.stop - rows.start
    marginal = room["marginal"] if "marginal" in room else np.empty((count, mine.width))
    nothing = np.empty((count, 0))
    unknown = np.zeros((0, mine.plan.edges), dtype=np.bool_)
    scale, doubtful = _run_lanes(loaded, rows, marginal)
    where = np.flatnonzero(doubtful)
    if len(where):
        again = mine.one_by_one(rows, where).load(loaded.values).propagate(("marginal", "likelihood"))
        marginal[where], scale[where] = again.marginal, again.log_likelihood
    return Buffers(nothing, nothing, marginal, unknown, unknown, scale), doubtful


def counts(loaded: Loaded, rows: slice, expect: bool, raw: np.ndarray) -> RowCounts:
    """Add the expected counts of a junction tree to `raw`."""
    mine = loaded.prepared
    weights = mine.weights_of(rows)
    found, doubtful = _run_lanes(loaded, rows, np.zeros((len(weights), 0)), weights, loaded.parts_of(raw)[1])
    likelihood = float((weights * np.where(doubtful, 0.0, found)).sum())
    where = np.flatnonzero(doubtful)
    if not len(where):
        return RowCounts(raw, likelihood, where)
    singly = mine.one_by_one(rows, where).load(loaded.values)
    again = singly.counts_of(slice(0, len(where)), expect)
    raw += again.values
    if singly.by_fallback:
        loaded.by_fallback[rows.start] = singly.by_fallback[0]
    return RowCounts(raw, likelihood + again.log_likelihood, where[again.impossible])


def _run_lanes(
    loaded: Loaded,
    rows: slice,
    marginal: np.ndarray,
    weights: np.ndarray = NOTHING,
    posteriors: np.ndarray = NOTHING,
) -> tuple[np.ndarray, np.ndarray]:
    """Write marginals, or add posteriors to counts; returns log-likelihoods, and which rows may have underflowed."""
    mine, tape, lanes = loaded.prepared, loaded.prepared.tape, loaded.prepared.lanes
    count = rows.stop - rows.start
    scale, rest, doubtful = np.zeros(count), np.ones(count), np.full(count, loaded.is_deep)
    if not loaded.is_deep:
        work = Lanes(
            np.uint64(lanes), aligned_zeros(tape.width * lanes), np.zeros(tape.known_width, dtype=np.bool_),
            np.ones(tape.known_width * lanes), aligned_zeros((tape.largest_space + tape.largest_end) * lanes),
            np.empty(lanes), np.empty(lanes), np.zeros(lanes),
        )  # fmt: skip
        kernels.cliques(
            mine.tapes, count, loaded.tables, mine.known_rows(rows), work, RowBooks(scale, rest, NOTHING, doubtful),
            np.uint64(marginal.shape[1]), marginal.ravel(), Totals(weights, True, NOTHING, posteriors, NOTHING),
        )  # fmt: skip
    scale += np.log(rest)
    return scale, doubtful
