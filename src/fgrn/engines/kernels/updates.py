"""Updates of the parameters of a star from expected counts: the M-step, the log prior, and extrapolated parameters."""

from __future__ import annotations

import numpy as np

from .basics import compact, inner, short_kernel
from .vectors import copied, increased, shared_out

LONG_UPDATE, UPDATES = 2**13, 8
"""The number of cells from which on an update is done in pieces, and the number of these."""

SMALL_CELL, SMALL_PRODUCT = 1e-150, 1e-100
"""Below these a cell is not multiplied with others, and a product not with another cell, before its logarithm is
taken: a product does not underflow.
"""


@inner
def update_lines(lines, smoothing, learnt, least, first, last, counts, values, out):
    """Write the parameters of some lines that follow from expected counts; returns False if a learnt line has none.

    The same bits as `fgrn.flow.mstep.updated`.
    """
    for line in range(first, last):
        begin, end, total = lines[line], lines[line + 1], 0.0
        if not learnt[line]:
            copied(values, begin, out, begin, end - begin)
            continue
        for i in range(begin, end):
            total += counts[i] + smoothing[i] if len(smoothing) else counts[i]
        if not least <= total < np.inf:
            return False
        copied(counts, begin, out, begin, end - begin)
        if len(smoothing):
            increased(out, begin, 1.0, smoothing, begin, end - begin)
        shared_out(out, begin, total, end - begin)
    return True


@inner
def log_prior_of_lines(lines, smoothing, learnt, first, last, values):
    """Return the sum of smoothing * log(probability) over the cells of some lines that are learnt.

    Cells with the same smoothing are multiplied, with a logarithm now and then.
    """
    compact()
    total, count, product = 0.0, 0.0, 1.0
    for line in range(first, last):
        if not learnt[line]:
            continue
        for i in range(lines[line], lines[line + 1]):
            if smoothing[i] != count or product < SMALL_PRODUCT:
                total += count * np.log(product)
                count, product = smoothing[i], 1.0
            if count > 0.0:
                if values[i] < SMALL_CELL:
                    total += count * np.log(values[i])
                else:
                    product *= values[i]
    return total + count * np.log(product)


@inner
def pieces_of_update(lines):
    """Return in how many pieces an update is done; 0 without lines."""
    count = len(lines) - 1
    return 0 if count < 0 else 1 if lines[count] < LONG_UPDATE else UPDATES


@short_kernel
def log_prior_of_cells(lines, smoothing, learnt, values):
    """Return the log prior of all lines, piece by piece as in epochs, called from Python."""
    total, pieces, count = 0.0, pieces_of_update(lines), len(lines) - 1
    for piece in range(pieces):
        total += log_prior_of_lines(
            lines, smoothing, learnt, count * piece // pieces, count * (piece + 1) // pieces, values
        )
    return total


@inner
def extrapolated_lines(lines, learnt, first, second, third, longest, out):
    """Write the parameters extrapolated from three consecutive ones; returns the length of the step.

    The same bits as `fgrn.flow.acceleration.extrapolated`.
    """
    compact()
    squared_r, squared_v = 0.0, 0.0
    for i in range(len(out)):
        r = second[i] - first[i]
        v = third[i] - second[i] - r
        squared_r += r * r
        squared_v += v * v
    norm, length = np.sqrt(squared_v), 1.0
    if norm > 0.0:
        length = max(1.0, min(np.sqrt(squared_r) / norm, longest))
    twice, square = 2 * length, length * length
    for line in range(len(lines) - 1):
        begin, end, total = lines[line], lines[line + 1], 0.0
        if not learnt[line]:
            copied(third, begin, out, begin, end - begin)
            continue
        for i in range(begin, end):
            r = second[i] - first[i]
            v = third[i] - second[i] - r
            ahead = first[i] + twice * r + square * v
            if not (ahead > 0.0 and third[i] > 0.0):
                ahead = third[i]
            out[i] = ahead
            total += ahead
        shared_out(out, begin, total, end - begin)
    return length
