"""Steps of L-BFGS, which asks its caller for the value and gradient at one point after the other: see `minimiser`."""

from __future__ import annotations

import numpy as np

from .basics import ZERO, compact, inner, short_kernel
from .vectors import copied, dot, increased, scaled

MEMORY = 10
"""The number of past steps that L-BFGS uses."""

DECREASE, CURVATURE = 1e-3, 0.9
"""The Wolfe conditions: of the decrease that the slope promises, and of the slope that may be left."""

MOST_LENGTHS = 20
"""Lengths of a step that are tried, at most."""

LONGEST_GROWTH = 10.0
"""The factor by which a length that is too short grows, at most."""

INSIDE = 0.1
"""The part of an interval at its ends in which no length is tried: the interval has to shrink."""

ROUNDING = 2.0**-52
"""A gain of this part of the value is none."""

FINISHED, SAME_STEP, NEXT_STEP = range(3)
"""After a value: the end, another value of the same step, or the first one of the next step."""

STEPS_LEFT, KEPT, NEXT, TRIED, BRACKETED = range(5)
"""Whole numbers of the state: how many steps may follow, -1 before the first value; how many past ones are kept, and
which of them the next one replaces; the lengths tried in this step, and whether they have an upper limit."""
STATE_COUNTERS = BRACKETED + 1

ENOUGH_GAIN, VALUE, SLOPE, STEP_LENGTH = range(4)
"""Numbers of the state: the gain at which it ends; where the step begins, value and slope; the length now tried."""
LOW, HIGH = 4, 7
"""And the two ends of the interval of lengths: of each the length, the value and the slope, see the next."""
OF_LENGTH, OF_VALUE, OF_SLOPE = range(3)
STATE_NUMBERS = HIGH + 3

BASE, GRADIENT, DIRECTION, LOW_GRADIENT, FIRST_MOVE = range(5)
"""Vectors of the state: where the step begins, the gradient there, its direction, and the gradient at the lower end of
the interval. After them, of each past step, what it moved and how it changed the gradient."""
STATE_VECTORS = FIRST_MOVE + 2 * MEMORY


@short_kernel
def descend(value, gradient, point, vectors, numbers, counters, curvatures):
    """Take the value and gradient at a point, and write the point where they are wanted next.

    The direction of a step is -H g, with the gradient g and an estimate H of the inverse Hessian matrix from the last
    MEMORY steps s and changes of the gradient y (two loops over them: Nocedal and Wright, "Numerical Optimization",
    2006, algorithm 7.4). The length of the step fulfils the strong Wolfe conditions (their algorithms 3.5 and 3.6):
    lengths grow until an interval must have such a point, which then shrinks around it.

    Args:
        value: at the point.
        gradient: at the point.
        point: the point; is overwritten.
        vectors: of the state, one after the other.
        numbers: of the state.
        counters: of the state.
        curvatures: of each past step, s y; and room for as many numbers.

    Returns:
        What follows; at the end the best point is the origin of the state.
    """
    compact()
    size = np.uint64(len(point))
    gradients, directions = GRADIENT * size, DIRECTION * size
    if counters[STEPS_LEFT] < 0:
        counters[STEPS_LEFT] = -1 - counters[STEPS_LEFT]
        copied(point, ZERO, vectors, BASE * size, size)
        copied(gradient, ZERO, vectors, gradients, size)
        numbers[VALUE] = value
        return SAME_STEP if begin_step(point, vectors, numbers, counters, curvatures) else FINISHED
    length, slope = numbers[STEP_LENGTH], dot(vectors, directions, gradient, ZERO, size)
    if not np.isfinite(value):
        value = np.inf
    counters[TRIED] += 1
    is_found = False
    if value > numbers[VALUE] + DECREASE * length * numbers[SLOPE] or value >= numbers[LOW + OF_VALUE]:
        counters[BRACKETED] = 1
        numbers[HIGH + OF_LENGTH], numbers[HIGH + OF_VALUE], numbers[HIGH + OF_SLOPE] = length, value, slope
    elif abs(slope) <= -CURVATURE * numbers[SLOPE]:
        is_found = True
    else:
        if slope * (numbers[HIGH + OF_LENGTH] - numbers[LOW + OF_LENGTH] if counters[BRACKETED] else 1.0) >= 0.0:
            counters[BRACKETED] = 1
            for which in range(3):
                numbers[HIGH + which] = numbers[LOW + which]
        numbers[LOW + OF_LENGTH], numbers[LOW + OF_VALUE], numbers[LOW + OF_SLOPE] = length, value, slope
        copied(gradient, ZERO, vectors, LOW_GRADIENT * size, size)
    if not is_found:
        # equal ends: values that do not fit their slopes, no length is left
        is_empty = counters[BRACKETED] and numbers[HIGH + OF_LENGTH] == numbers[LOW + OF_LENGTH]
        if not is_empty and counters[TRIED] < MOST_LENGTHS:
            numbers[STEP_LENGTH] = (
                length_between(numbers) if counters[BRACKETED] else longer_length(numbers, length, slope)
            )
            go_to(point, vectors, numbers[STEP_LENGTH])
            return SAME_STEP
        length, value = numbers[LOW + OF_LENGTH], numbers[LOW + OF_VALUE]
        if length == 0.0:
            return FINISHED
        go_to(point, vectors, length)
        copied(vectors, LOW_GRADIENT * size, gradient, ZERO, size)
    gain, scale = numbers[VALUE] - value, max(max(abs(numbers[VALUE]), abs(value)), 1.0)
    keep_step(gradient, point, length, vectors, numbers, counters, curvatures)
    numbers[VALUE] = value
    counters[STEPS_LEFT] -= 1
    if gain <= numbers[ENOUGH_GAIN] * scale or counters[STEPS_LEFT] == 0:
        return FINISHED
    return NEXT_STEP if begin_step(point, vectors, numbers, counters, curvatures) else FINISHED


@inner
def go_to(point, vectors, length):
    """Write the point at a length of the step."""
    size = np.uint64(len(point))
    copied(vectors, BASE * size, point, ZERO, size)
    increased(point, ZERO, length, vectors, DIRECTION * size, size)


@inner
def keep_step(gradient, point, length, vectors, numbers, counters, curvatures):
    """Keep a step in place of the oldest one, and move its origin to the point; a step of no curvature is dropped."""
    size = np.uint64(len(point))
    which = counters[NEXT]
    move, change = np.uint64(FIRST_MOVE + 2 * which) * size, np.uint64(FIRST_MOVE + 2 * which + 1) * size
    for begin, old, new in ((move, BASE * size, point), (change, GRADIENT * size, gradient)):
        copied(new, ZERO, vectors, begin, size)
        increased(vectors, begin, -1.0, vectors, old, size)
        copied(new, ZERO, vectors, old, size)
    curvature = dot(vectors, move, vectors, change, size)
    if curvature > ROUNDING * -numbers[SLOPE] * length:
        curvatures[which] = curvature
        counters[NEXT] = (which + 1) % MEMORY
        counters[KEPT] = min(counters[KEPT] + 1, MEMORY)


@inner
def begin_step(point, vectors, numbers, counters, curvatures):
    """Begin a step: write its direction, and the point at its first length; returns False if there is no gain in it."""
    compact()
    size = np.uint64(len(point))
    gradients, directions = GRADIENT * size, DIRECTION * size
    while True:
        copied(vectors, gradients, vectors, directions, size)
        scaled(vectors, directions, -1.0, size)
        kept = counters[KEPT]
        if kept:
            times_inverse_hessian(size, kept, counters[NEXT], vectors, curvatures)
        slope = dot(vectors, directions, vectors, gradients, size)
        if kept and not slope < 0.0:  # rounding: begin again
            counters[KEPT] = 0
            continue
        break
    if not (np.isfinite(slope) and slope < 0.0):
        return False
    length = 1.0 if kept else 1.0 / np.sqrt(-slope)  # without a scale yet: a step of length 1
    if -slope * length <= ROUNDING * max(abs(numbers[VALUE]), 1.0):
        return False
    numbers[SLOPE], numbers[STEP_LENGTH], counters[TRIED], counters[BRACKETED] = slope, length, 0, 0
    numbers[LOW + OF_LENGTH], numbers[LOW + OF_VALUE], numbers[LOW + OF_SLOPE] = 0.0, numbers[VALUE], slope
    go_to(point, vectors, length)
    return True


@inner
def times_inverse_hessian(size, kept, following, vectors, curvatures):
    """Multiply the direction by an estimate of the inverse Hessian matrix, from the steps that are kept."""
    directions = DIRECTION * size
    for back in range(1, kept + 1):
        which = (following - back) % MEMORY
        move, change = np.uint64(FIRST_MOVE + 2 * which) * size, np.uint64(FIRST_MOVE + 2 * which + 1) * size
        share = dot(vectors, move, vectors, directions, size) / curvatures[which]
        curvatures[MEMORY + which] = share
        increased(vectors, directions, -share, vectors, change, size)
        if back == 1:
            bend = dot(vectors, change, vectors, change, size)
    scaled(vectors, directions, curvatures[(following - 1) % MEMORY] / bend, size)
    for back in range(kept, 0, -1):
        which = (following - back) % MEMORY
        move, change = np.uint64(FIRST_MOVE + 2 * which) * size, np.uint64(FIRST_MOVE + 2 * which + 1) * size
        share = curvatures[MEMORY + which] - dot(vectors, change, vectors, directions, size) / curvatures[which]
        increased(vectors, directions, share, vectors, move, size)


@inner
def longer_length(numbers, length, slope):
    """Return a larger length: where the slope would be zero if it changed evenly, within limits."""
    bend = (slope - numbers[SLOPE]) / length
    far = -numbers[SLOPE] / bend if bend > 0.0 else np.inf
    return length * min(max(far / length, 2.0), LONGEST_GROWTH)


@inner
def length_between(numbers):
    """Return a length inside an interval: the minimum of the cubic with the values and slopes of its ends."""
    low, low_value, low_slope = numbers[LOW + OF_LENGTH], numbers[LOW + OF_VALUE], numbers[LOW + OF_SLOPE]
    high_value, high_slope = numbers[HIGH + OF_VALUE], numbers[HIGH + OF_SLOPE]
    width = numbers[HIGH + OF_LENGTH] - low
    middle = low + width / 2
    if not np.isfinite(high_value):
        return middle
    first = low_slope + high_slope - 3 * (high_value - low_value) / width
    under_root = first * first - low_slope * high_slope
    if under_root < 0.0:
        return middle
    root = np.sqrt(under_root) if width > 0.0 else -np.sqrt(under_root)
    below = high_slope - low_slope + 2 * root
    if below == 0.0:
        return middle
    share = 1 - (high_slope + root - first) / below
    return low + width * min(max(share, INSIDE), 1 - INSIDE)
