"""Sums over the joint states of a clique, for several rows at once (lanes), without storing their product.

A message is an array (states, lanes). Each joint state is read once: the number of the table there, which all rows
share, is multiplied by the messages that come in, and the product is added to those that go out. It stays in registers.
"""

from __future__ import annotations

from .basics import kernel
from .vectors import add_products


@kernel
def clique_sums(table, sizes, steps, begins, inputs, work, place, digits):
    """Multiply a table by incoming messages, and add sums of the product to outgoing messages.

    Args:
        table: the numbers of all joint states, the last axis fastest.
        sizes: (axes,) of the table.
        steps: (axes, legs) how far the cells of two neighbours on an axis are apart in a message, in numbers of `work`.
        begins: (legs,) where each message begins in `work`: those that come in first, then those that go out.
        inputs: how many come in.
        work: (cells * lanes,) all messages.
        place: (legs,) room.
        digits: (axes,) room.
    """
    last, legs = len(sizes) - 1, len(begins)
    for leg in range(legs):
        place[leg] = begins[leg]
    for axis in range(last):
        digits[axis] = 0
    count = sizes[last]
    for first in range(0, len(table), count):
        add_products(table, first, count, work, place, steps[last], inputs, legs)
        axis = last - 1
        while axis >= 0:
            digits[axis] += 1
            for leg in range(legs):
                place[leg] += steps[axis, leg]
            if digits[axis] < sizes[axis]:
                break
            digits[axis] = 0
            for leg in range(legs):
                place[leg] -= steps[axis, leg] * sizes[axis]
            axis -= 1
