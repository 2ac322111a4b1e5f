"""How epochs of a star follow one another: in plain EM, and in the rounds of accelerated EM.

The parameters that epochs begin with, and what a caller needs to go on after the last of them, are in `StarEpochs`.
Where rounding decides, the epochs end: then the caller does.
"""

from __future__ import annotations

import numpy as np

from ..protocol import GROWTH, LIMIT, ROUNDED
from .basics import ZERO, compact, inner, once
from .updates import extrapolated_lines
from .vectors import copied

MOST, COUNTED, UPDATED, POSITION, FAILED, ORIGIN = range(6)
"""Numbers of a vector of parameters: of epochs, at most; of those counted; of those with updated parameters. And of
the next epoch: its position, whether extrapolated parameters failed, and what it begins with."""

LEAST, GAIN, BEFORE, PREVIOUS, ROUNDING = range(5)
"""Limits of a vector, see `EpochRequest` and `AcceleratedRound`; and what rounding may have changed in objectives."""

LENGTH, LONGEST = range(2)
"""Lengths of the steps to extrapolated parameters: of the last one, and of the longest allowed."""

OF_LAST_COUNTED, STEPS_OF_LAST_COUNTED = ORIGIN + 1, LONGEST + 1
"""Where a second copy begins of POSITION, FAILED and ORIGIN, and of LENGTH and LONGEST: of the last epoch counted."""

NUMBERS, LIMITS, STEPS = OF_LAST_COUNTED + 3, ROUNDING + 1, STEPS_OF_LAST_COUNTED + 2
"""How many numbers, limits and lengths of steps a vector has."""

PLAIN, TRIED, FIRST, SECOND = range(4)
"""The position of an epoch: in plain EM; in a round, with the extrapolated parameters, after them, or the last."""

OF_FIRST, OF_AHEAD, OF_LAST, GIVEN, OF_UPDATE = range(5)
"""What an epoch begins with: parameters of the round (see `AcceleratedRound`), those given, or the last update."""

ROUND_PARAMETERS = OF_LAST + 1
"""How many vectors of parameters a round keeps."""

ENDS, GOES_ON, AGAIN = range(3)
"""After an epoch: none follows, another one does, or the same from the last parameters instead of extrapolated ones."""


@once
def begun_with(requests, vector, epoch, kept, origin):
    """Return the parameters that an epoch begins with."""
    if origin == GIVEN:
        return requests.values[vector]
    if origin == OF_UPDATE:
        return requests.updated[vector * kept + (epoch - 1) % kept]
    return requests.rounds[vector, origin]


@once
def note_epoch(requests, vector, epoch):
    """Note that an epoch was counted, and where it is in its round."""
    numbers, steps = requests.numbers, requests.steps
    numbers[vector, COUNTED] = epoch + 1
    for which in range(OF_LAST_COUNTED - POSITION):
        numbers[vector, OF_LAST_COUNTED + which] = numbers[vector, POSITION + which]
    for which in range(STEPS_OF_LAST_COUNTED):
        steps[vector, STEPS_OF_LAST_COUNTED + which] = steps[vector, which]


@inner
def next_epoch(update, requests, vector, epoch, kept, objective):
    """Return how the epochs of a vector go on after one that has updated parameters, and prepare for the next one."""
    compact()
    numbers, limits, steps = requests.numbers[vector], requests.limits[vector], requests.steps[vector]
    numbers[UPDATED] = epoch + 1
    slack, position = limits[ROUNDING] + ROUNDED * abs(objective), numbers[POSITION]
    if position == PLAIN:
        is_enough = objective > limits[LEAST] + slack
        limits[LEAST] = objective + limits[GAIN]
        numbers[ORIGIN] = OF_UPDATE
        return GOES_ON if is_enough and epoch + 1 < numbers[MOST] else ENDS
    before, previous = limits[BEFORE], limits[PREVIOUS]
    if position == TRIED and not numbers[FAILED]:
        if objective < previous - slack:
            numbers[FAILED], numbers[ORIGIN], numbers[UPDATED] = 1, OF_LAST, epoch
            return AGAIN
        if objective < previous + slack:
            return ENDS
    if limits[GAIN] > -np.inf:
        least = before + limits[GAIN] if position == TRIED else previous
        if objective <= least + slack:
            return ENDS
    if epoch + 1 >= numbers[MOST]:
        return ENDS
    limits[BEFORE], limits[PREVIOUS] = previous, objective
    rounds, size, origin = requests.rounds, np.uint64(requests.rounds.shape[2]), numbers[ORIGIN]
    values, after = begun_with(requests, vector, epoch, kept, origin), requests.updated[vector * kept + epoch % kept]
    numbers[ORIGIN] = OF_UPDATE
    if position == TRIED:
        length, longest = steps[LENGTH], steps[LONGEST]
        if numbers[FAILED]:
            steps[LONGEST] = max(1.0, length / GROWTH)
        elif length >= longest:
            steps[LONGEST] = min(longest * GROWTH, LIMIT)
        numbers[POSITION], numbers[FAILED] = FIRST, 0
    elif position == FIRST:
        copied(values, ZERO, rounds[vector, OF_FIRST], ZERO, size)
        numbers[POSITION] = SECOND
    else:
        steps[LENGTH] = extrapolated_lines(
            update.lines, update.learnt, rounds[vector, OF_FIRST], values, after, steps[LONGEST],
            rounds[vector, OF_AHEAD],
        )  # fmt: skip
        copied(after, ZERO, rounds[vector, OF_LAST], ZERO, size)
        numbers[POSITION], numbers[ORIGIN] = TRIED, OF_AHEAD
    return GOES_ON
