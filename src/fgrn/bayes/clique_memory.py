"""The memory that the cliques of a junction tree may use, and the error if they need more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from ..core.exceptions import Remedy, WiringError, shortened
from ..core.printing import memory_size
from .junction_tree import JunctionTree

MEMORY_SHARE = 0.5
"""The share of the memory of the machine that cliques may take unless a limit is given."""

ENGINE_BYTES, ENGINE_BYTES_OF_LARGEST = 16, 48
"""Memory of an engine that sweeps a row: for a joint state of any clique, and more for one of the largest.

Measured, in learning: 40 bytes for each state of one large clique by the CPU engine, 61 by the reference engine.
"""

QUESTION_REMEDIES = (
    Remedy("approximate", method="loopy"),
    "ask for one variable (`posterior`), which needs smaller cliques",
    "draw samples (`sampled_posterior`), which have standard errors",
)

LEARNING_REMEDIES = (
    "learn from rows without missing values, which are counted one by one",
    "give variables fewer parents or states",
)


def check_memory(
    tree: JunctionTree, needed: float, memory: float | None, remedies: Sequence[str | Remedy] = QUESTION_REMEDIES
) -> None:
    """Raise an error if the cliques of a tree need more bytes than `allowed_memory`."""
    limit = allowed_memory(memory)
    if needed <= limit:
        return
    largest = tree.largest
    raise WiringError(
        f"Exact inference needs a clique of {len(tree.cliques[largest])} variables "
        f"({shortened(tree.cliques[largest], 5)}) with {tree.states[largest]:,} joint states, {tree.total:,} in "
        f"all; that takes about {memory_size(needed)}, and the limit is {memory_size(limit)}.",
        remedies=(*remedies, "set the `memory_limit` of the model, in bytes"),
    )


def engine_memory(tree: JunctionTree) -> float:
    """Return the bytes that an engine needs for the cliques of a tree, in learning or for many rows."""
    return float(ENGINE_BYTES * tree.total + ENGINE_BYTES_OF_LARGEST * tree.states[tree.largest])


def allowed_memory(limit: float | None) -> float:
    """Return the bytes that exact inference may use: the given limit, or half of the machine's memory."""
    return MEMORY_SHARE * machine_memory() if limit is None else limit


@cache
def machine_memory() -> float:
    """Return the memory of the machine in bytes; 8 GiB if it is unknown."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 * 2.0**30
