"""One pass over the joint states of a clique for several rows at once: messages are multiplied and summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .kernels.clique_sums import clique_sums
from .kernels.vectors import LANES

__all__ = ["LANES", "CliquePass", "Leg"]


class Leg(NamedTuple):
    """A message of a clique in the working memory.

    Attributes:
        begin: its first cell.
        steps: for each axis of the clique, how many cells two neighbours are apart; 0 if it does not depend on it.
    """

    begin: int
    steps: tuple[int, ...]


class CliquePass:
    """The sums over one clique, from incoming to outgoing messages in a working memory, (cells, lanes).

    Args:
        table: the numbers of all its joint states, the last axis fastest.
        sizes: of its axes.
        inputs: the messages by which the table is multiplied.
        outputs: those that the product is added to, summed over the axes they do not have.
    """

    def __init__(self, table: np.ndarray, sizes: Sequence[int], inputs: Sequence[Leg], outputs: Sequence[Leg]) -> None:
        legs = [*inputs, *outputs]
        every = [(size, tuple([leg.steps[axis] for leg in legs])) for axis, size in enumerate(sizes)]
        alone = tuple([axis for axis, (_, steps) in enumerate(every) if not any(steps)])
        if alone:  # no message depends on these: they are summed over once, not for every row
            table = np.add.reduce(table.reshape(sizes), axis=alone).reshape(-1)
        axes = _joined_axes([(size, steps) for size, steps in every if any(steps)]) or [(1, (0,) * len(legs))]
        self._table = table
        self._sizes = np.array([size for size, _ in axes], dtype=np.int64)
        self._steps = LANES * np.array([steps for _, steps in axes], dtype=np.int64).reshape(len(axes), len(legs))
        self._begins = LANES * np.array([leg.begin for leg in legs], dtype=np.int64)
        self._inputs = len(inputs)
        self._place, self._digits = np.zeros(len(legs), dtype=np.int64), np.zeros(len(axes), dtype=np.int64)

    def run(self, work: np.ndarray) -> None:
        """Add the results to the outputs, which are not set to zero first."""
        clique_sums(
            self._table, self._sizes, self._steps, self._begins, self._inputs, work.reshape(-1), self._place,
            self._digits,
        )  # fmt: skip


def _joined_axes(axes: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return axes (sizes and strides) over the same cells with consecutive axes merged, so that there are fewest."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in axes:
        if size == 1:
            continue
        if found and all(before == size * step for before, step in zip(found[-1][1], steps, strict=True)):
            found[-1] = found[-1][0] * size, steps
        else:
            found.append((size, steps))
    return found
