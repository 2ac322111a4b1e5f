"""The product of two tables of a clique, summed over some of its variables, by matrix products.

Variables of both tables that are summed over are the inner axis of the matrices; for each joint state of the other
variables of both there is one product. The table over all variables, which is larger than both, is never made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

MANY_CELLS = 2**14
"""Joint states of a clique from which matrix products are considered."""

MANY_MULTIPLICATIONS = 512
"""Multiplications of a matrix product below which starting it takes longer than computing the large table."""


def summed_by_matrices(
    one: np.ndarray, other: np.ndarray, sizes: Sequence[int], axes: Sequence[int]
) -> np.ndarray | None:
    """Return the product of two tables summed over some axes; None if matrix products are not faster.

    Args:
        one: a table with an axis for rows, and one for each variable, of one entry if it does not depend on it.
        other: another one.
        sizes: the number of states of each variable.
        axes: those to sum over, not that for rows.
    """
    both, inner, mine, theirs = [0], list[int](), list[int](), list[int]()
    mine_alone, theirs_alone = list[int](), list[int]()
    for axis, size in enumerate(sizes, 1):
        here, there = one.shape[axis] == size, other.shape[axis] == size
        if here and there:
            (inner if axis in axes else both).append(axis)
        elif here:
            (mine_alone if axis in axes else mine).append(axis)
        elif there:
            (theirs_alone if axis in axes else theirs).append(axis)
        else:
            return None
    rows, columns, over = (prod([sizes[axis - 1] for axis in some]) for some in (mine, theirs, inner))
    if min(rows, columns) == 1 or rows * columns * over < MANY_MULTIPLICATIONS:
        return None
    if mine_alone:
        one = np.add.reduce(one, axis=tuple(mine_alone), keepdims=True)
    if theirs_alone:
        other = np.add.reduce(other, axis=tuple(theirs_alone), keepdims=True)
    alone = [*mine_alone, *theirs_alone]
    left = one.transpose([*both, *mine, *inner, *theirs, *alone])
    right = other.transpose([*both, *inner, *theirs, *mine, *alone])
    product = np.matmul(
        left.reshape(*left.shape[: len(both)], rows, over), right.reshape(*right.shape[: len(both)], over, columns)
    )
    order = [*both, *mine, *theirs]
    shaped = product.reshape(*product.shape[: len(both)], *[sizes[axis - 1] for axis in order[len(both) :]])
    found: np.ndarray = shaped.transpose([order.index(axis) for axis in sorted(order)])
    return found
