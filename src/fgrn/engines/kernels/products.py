"""Diverters: products of messages, in plain numbers while they will do, and with an exponent per state where not."""

from __future__ import annotations

import numpy as np

from .basics import (
    DROP,
    FAINT,
    LEG_BACKWARD,
    LEG_FORWARD,
    LEG_LENGTH,
    LEG_PRIOR,
    LIFT,
    LOG_LIFT,
    LOST,
    NONE,
    ONE,
    SMALL,
    SMALLEST,
    SMALLEST_PRODUCT,
    TARGET_LENGTH,
    ZERO,
    account,
    inlined,
    inner,
    into_reader,
    is_faint,
    is_known,
    normalise,
    note,
    settle_backward,
)
from .vectors import copied, filled, least, summed, times


@inner
def ones(mantissa, exponent, own, size):
    """Begin a running product."""
    for i in range(size):
        mantissa[own + i] = 1.0
        exponent[own + i] = 0


@inner
def times_carefully(mantissa, exponent, own, x, at, maps, index, size):
    """Multiply the running product, from `own` on, by a message (spread over the product space by its index vector)."""
    for i in range(size):
        value = x[at + (i if index == NONE else maps[index + i])]
        before = mantissa[own + i]
        product = before * value
        if product < SMALL and before > 0.0 and value > 0.0:
            product = (before * LIFT) * (value * LIFT)
            exponent[own + i] -= 2
            while product > 1.0:
                product *= DROP
                exponent[own + i] += 1
        mantissa[own + i] = product


@inner
def levelled(mantissa, exponent, own, size, out, at):
    """The product as plain numbers of which the largest is 1.

    Returns the logarithm of what was taken out, and whether a state was lost because it is smaller than the largest by
    more than a plain number can say. All zero, and -inf, if the product vanished.
    """
    top = 0
    found = False
    for i in range(size):
        if mantissa[own + i] > 0.0 and (not found or exponent[own + i] > top):
            top = exponent[own + i]
            found = True
    largest = 0.0
    for i in range(size):
        value = mantissa[own + i]
        for _ in range(min(top - exponent[own + i], 3)):
            value *= DROP
        largest = max(largest, value)
    if largest <= 0.0:
        for i in range(size):
            out[at + i] = 0.0
        return -np.inf, False
    lost = False
    factor = 1.0 / largest
    for i in range(size):
        value = mantissa[own + i] * factor
        for _ in range(min(top - exponent[own + i], 3)):
            value *= DROP
        if value < SMALLEST and mantissa[own + i] > 0.0:
            lost = True
        out[at + i] = value
    return top * LOG_LIFT + np.log(largest), lost


@inner
def times_leg_carefully(
    mantissa, exponent, own, size, tape, leg, r, row, base, values, maps, codes, soft, read, known_in, scratch
):
    """Multiply the running product by what comes in on a leg; an unknown one is skipped."""
    kind, place, known, index = tape[leg], tape[leg + 1], tape[leg + 2], tape[leg + 3]
    if kind == LEG_PRIOR:
        times_carefully(mantissa, exponent, own, values, place, maps, index, size)
    elif kind == LEG_BACKWARD:
        if known_in[r, known]:
            times_carefully(mantissa, exponent, own, read, base + place, maps, NONE, size)
    elif is_known(codes, row, tape[leg + 4]):
        count = size
        if index != NONE:
            count = maps[index + size - ONE] + ONE  # the last joint state has the last state of every input
        into_reader(read, base + place, count, scratch, codes, soft, row, tape[leg + 4], tape[leg + 5])
        times_carefully(mantissa, exponent, own, scratch, ZERO, maps, index, size)
    else:
        times_carefully(mantissa, exponent, own, read, base + place, maps, index, size)


@inlined
def leg_is_known(tape, leg, r, row, codes, known_in):
    """Whether evidence lies behind what comes in on a leg."""
    kind, known = tape[leg], tape[leg + 2]
    if kind == LEG_FORWARD:
        return known_in[r, known] or is_known(codes, row, tape[leg + 4])
    return kind == LEG_BACKWARD and known_in[r, known]


@inlined
def times_leg(x, own, size, tape, leg, r, row, base, values, maps, codes, soft, read, known_in, scratch):
    """Multiply a plain product, from `own` on, by what comes in on a leg; an unknown one is skipped."""
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    if kind == LEG_BACKWARD:
        if known_in[r, tape[leg + 2]]:
            times(x, own, read, base + place, size)
    elif kind == LEG_PRIOR:
        if index == NONE:
            times(x, own, values, place, size)
        else:
            for i in range(size):
                x[own + i] *= values[place + maps[index + i]]
    else:
        count = size if index == NONE else maps[index + size - ONE] + ONE  # the last joint state is the last of all
        into_reader(read, base + place, count, scratch, codes, soft, row, tape[leg + 4], tape[leg + 5])
        if index == NONE:
            times(x, own, scratch, ZERO, size)
        else:
            for i in range(size):
                x[own + i] *= scratch[maps[index + i]]


@inner
def leg_forbids(state, tape, leg, r, row, base, values, maps, codes, soft, read, known_in):
    """Whether what comes in on a leg is zero in a state of the space."""
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    own = state if index == NONE else maps[index + state]
    if kind == LEG_BACKWARD:
        return known_in[r, tape[leg + 2]] and read[base + place + own] == 0.0
    if kind == LEG_PRIOR:
        return values[place + own] == 0.0
    column = tape[leg + 4]
    if is_known(codes, row, column):
        code = codes[row, column]
        if (code >= 0 and np.uint64(code) != own) or (code < 0 and soft[row, tape[leg + 5] + own] == 0.0):
            return True
    return read[base + place + own] == 0.0


@inlined
def plain_products(
    tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, x, scratch
):
    """The product of all legs but that of target k, in the k-th piece of `x`, for all targets of a Diverter.

    Products from the left and from the right are joined at each target; the running one has the piece behind the last.
    False if one of them lost a state: then plain numbers will not do.
    """
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    filled(x, running, 1.0, size)
    leg = np.int64(0)
    for number in range(targets):
        position = np.int64(tape[target_at + number * TARGET_LENGTH])
        while leg != position:
            times_leg(
                x, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                known_in, scratch,
            )  # fmt: skip
            leg += 1
        copied(x, running, x, np.uint64(number) * size, size)
    filled(x, running, 1.0, size)
    leg = legs - 1
    for number in range(targets - 1, -1, -1):
        position, left = np.int64(tape[target_at + number * TARGET_LENGTH]), np.uint64(number) * size
        while leg != position:
            times_leg(
                x, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                known_in, scratch,
            )  # fmt: skip
            leg -= 1
        times(x, left, x, running, size)
        if summed(x, left, size) < FAINT:
            return False
        if least(x, left, size) > SMALLEST_PRODUCT:
            continue
        for i in range(size):
            if x[left + i] < SMALLEST_PRODUCT:
                forbidden = False
                for other in range(legs):
                    forbidden |= other != position and leg_forbids(
                        np.uint64(i), tape, leg_at + other * LEG_LENGTH, r, row, base, values, maps, codes, soft, read,
                        known_in,
                    )  # fmt: skip
                if not forbidden:
                    return False
    return True


@inner
def careful_products(
    tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa, exponent,
    scratch,
):  # fmt: skip
    """The same, each state with an exponent of its own."""
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    for way in range(2):
        ones(mantissa, exponent, running, size)
        leg = np.int64(0) if way == 0 else legs - 1
        for step in range(targets):
            number = step if way == 0 else targets - 1 - step
            position, left = np.int64(tape[target_at + number * TARGET_LENGTH]), np.uint64(number) * size
            while leg != position:
                times_leg_carefully(
                    mantissa, exponent, running, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps,
                    codes, soft, read, known_in, scratch,
                )  # fmt: skip
                leg += 1 if way == 0 else -1
            if way == 0:
                for i in range(size):
                    mantissa[left + i], exponent[left + i] = mantissa[running + i], exponent[running + i]
                continue
            for i in range(size):
                mantissa[left + i] *= mantissa[running + i]
                exponent[left + i] += exponent[running + i]


@inner
def divert(
    tape, at, first, rows, width, values, maps, codes, soft, read, write, known_in, known_out, scale, rest, margin,
    doubtful, mantissa, exponent, scratch,
):  # fmt: skip
    """The outgoing messages of a Diverter."""
    size, legs, targets = tape[at], np.int64(tape[at + 1]), np.int64(tape[at + 2])
    leg_at = at + 3
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        known = 0
        for leg in range(legs):
            known += leg_is_known(tape, leg_at + leg * LEG_LENGTH, r, row, codes, known_in)
        careful = not plain_products(
            tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa,
            scratch,
        )  # fmt: skip
        if careful:
            careful_products(
                tape, leg_at, legs, targets, size, r, row, base, values, maps, codes, soft, read, known_in, mantissa,
                exponent, scratch,
            )  # fmt: skip
        for number in range(targets):
            target = leg_at + legs * LEG_LENGTH + number * TARGET_LENGTH
            own, position = np.uint64(number) * size, np.int64(tape[target])
            others = known > leg_is_known(tape, leg_at + position * LEG_LENGTH, r, row, codes, known_in)
            taken, lost = 0.0, False
            if careful:
                taken, lost = levelled(mantissa, exponent, own, size, mantissa, own)
            norm = write_target(
                tape, target, r, row, base, size, others, mantissa, own, maps, codes, soft, write, known_out
            )  # fmt: skip
            if others or not tape[target + 4]:
                lost |= is_faint(write, base + tape[target + 1], tape[target + 2])
                if careful and taken > -np.inf:
                    margin[row] += taken
                    if tape[target + 8]:
                        scale[row] += taken
                note(row, norm, lost, margin, doubtful)
            if tape[target + 8]:
                account(row, norm, scale, rest)


@inlined
def write_target(tape, target, r, row, base, size, others, level, own, maps, codes, soft, write, known_out):
    """Write the product of the other legs on a target leg, summed over the product space; returns the norm."""
    place, count, known, into = base + tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 4]
    index, column, soft_at = tape[target + 5], tape[target + 6], tape[target + 7]
    if others or not into:
        if index == NONE:
            copied(level, own, write, place, count)
        else:
            filled(write, place, 0.0, count)
            for i in range(size):
                write[place + maps[index + i]] += level[own + i]
    if not into:
        known_out[r, known] = others
        return normalise(write, place, count)
    known_out[r, known] = others or is_known(codes, row, column)
    return settle_backward(write, place, count, others, codes, soft, row, column, soft_at)


@inner
def posterior_of(
    tape, at, first, rows, width, values, maps, codes, soft, work, known, scale, rest, margin, doubtful, mantissa,
    exponent, scratch,
):  # fmt: skip
    """The product of everything that comes in to a Diverter; its norm is the likelihood where it is a root."""
    size, root, legs = tape[at + 1], tape[at + 2], np.int64(tape[at + 3])
    leg_at = at + 4
    for r in range(rows):
        row, base = first + r, np.uint64(r) * width
        place = base + tape[at]
        filled(mantissa, ZERO, 1.0, size)
        for leg in range(legs):
            times_leg(
                mantissa, ZERO, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes, soft, work,
                known, scratch,
            )  # fmt: skip
        taken = 0.0
        if summed(mantissa, ZERO, size) < LOST:
            ones(mantissa, exponent, ZERO, size)
            for leg in range(legs):
                times_leg_carefully(
                    mantissa, exponent, ZERO, size, tape, leg_at + leg * LEG_LENGTH, r, row, base, values, maps, codes,
                    soft, work, known, scratch,
                )  # fmt: skip
            taken, _ = levelled(mantissa, exponent, ZERO, size, mantissa, ZERO)
        copied(mantissa, ZERO, work, place, size)
        norm = normalise(work, place, size)
        if taken > -np.inf:
            margin[row] += taken
            if root:
                scale[row] += taken
        note(row, norm, False, margin, doubtful)
        if root:
            account(row, norm, scale, rest)
