"""Diverters: products of messages as plain numbers or, where these would underflow, with an exponent per state."""

from __future__ import annotations

import numpy as np

from .basics import (
    BELIEF_LENGTH,
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
    ONWARD_LENGTH,
    PRODUCT,
    ROOT,
    SMALL,
    SMALLEST,
    SMALLEST_PRODUCT,
    TARGET_LENGTH,
    ZERO,
    account,
    compact,
    inlined,
    inner,
    into_reader,
    is_faint,
    is_known,
    normalise,
    note,
    once,
    settle_backward,
)
from .vectors import copied, least, least_positive, set_all, summed, times


@once
def ones(mantissa, exponent, own, size):
    """Set a running product to one in every state."""
    for i in range(size):
        mantissa[own + i] = 1.0
        exponent[own + i] = 0


@inlined
def place_of(state, maps, index, size, run):
    """Return the state of a leg in a joint state, by its index vector."""
    return maps[index + state // run] + maps[index + size // run + state % run]


@inlined
def times_spread(x, own, size, run, y, place, maps, index):
    """Multiply a product at offset `own` by a message, spread over the product space by its index vector."""
    runs = size // run
    for k in range(runs):
        at, first = own + k * run, place + maps[index + k]
        for i in range(run):
            x[at + i] *= y[first + maps[index + runs + i]]


@once
def times_state(mantissa, exponent, own, value):
    """Multiply one state of a product with an exponent per state."""
    before = mantissa[own]
    product = before * value
    if product < SMALL and before > 0.0 and value > 0.0:
        product = (before * LIFT) * (value * LIFT)
        exponent[own] -= 2
        while product > 1.0:
            product *= DROP
            exponent[own] += 1
    mantissa[own] = product


@inner
def times_carefully(mantissa, exponent, own, x, at, maps, index, size, run):
    """Multiply a product with an exponent per state, at offset `own`, by a message spread over the product space."""
    compact()
    for i in range(size):
        value = x[at + (i if index == NONE else place_of(np.uint64(i), maps, index, size, run))]
        times_state(mantissa, exponent, own + i, value)


@once
def dropped(value, times):
    """Divide a number by 2**500 a given number of times; three times make any number zero."""
    for _ in range(times if times < 3 else 3):
        value *= DROP
    return value


@inner
def levelled(mantissa, exponent, own, size, out, at):
    """Convert a product with an exponent per state to plain numbers, scaled so that the largest is 1.

    Returns the logarithm of the factor divided out, and whether a positive state became zero because it is too small
    beside the largest. All zero, and -inf, if the product is zero.
    """
    compact()
    top = 0
    found = False
    for i in range(size):
        if mantissa[own + i] > 0.0 and (not found or exponent[own + i] > top):
            top = exponent[own + i]
            found = True
    largest = 0.0
    for i in range(size):
        value = dropped(mantissa[own + i], top - exponent[own + i])
        largest = value if value > largest else largest
    if largest <= 0.0:
        for i in range(size):
            out[at + i] = 0.0
        return -np.inf, False
    lost = False
    factor = 1.0 / largest
    for i in range(size):
        value = dropped(mantissa[own + i] * factor, top - exponent[own + i])
        if value < SMALLEST and mantissa[own + i] > 0.0:
            lost = True
        out[at + i] = value
    return top * LOG_LIFT + np.log(largest), lost


@inner
def times_leg_carefully(own, size, run, tape, leg, r, row, base, tables, evidence, work):
    """Multiply a product with an exponent per state by the message of a leg; one without evidence is skipped."""
    compact()
    maps, read, scratch, codes = tables.maps, work.read, work.scratch, evidence.codes
    mantissa, exponent = work.mantissa, work.exponent
    kind, place, known, index = tape[leg], tape[leg + 1], tape[leg + 2], tape[leg + 3]
    if kind == LEG_PRIOR:
        times_carefully(mantissa, exponent, own, tables.values, place, maps, index, size, run)
    elif kind == LEG_BACKWARD:
        if work.known_in[r, known]:
            times_carefully(mantissa, exponent, own, read, base + place, maps, index, size, run)
    elif is_known(codes, row, tape[leg + 4]):
        # the last joint state has the last state of every leg
        count = size if index == NONE else place_of(size - ONE, maps, index, size, run) + ONE
        into_reader(read, base + place, count, scratch, codes, evidence.soft, row, tape[leg + 4], tape[leg + 5])
        times_carefully(mantissa, exponent, own, scratch, ZERO, maps, index, size, run)
    else:
        times_carefully(mantissa, exponent, own, read, base + place, maps, index, size, run)


@inlined
def leg_is_known(tape, leg, r, row, codes, known_in):
    """Return whether the incoming message of a leg depends on evidence."""
    kind, known = tape[leg], tape[leg + 2]
    if kind == LEG_FORWARD:
        return known_in[r, known] or is_known(codes, row, tape[leg + 4])
    if kind == LEG_BACKWARD:
        return known_in[r, known]
    return known != NONE  # a factor


@inlined
def times_leg(x, own, size, run, tape, leg, r, row, base, tables, evidence, work):
    """Multiply a plain product at offset `own` by the incoming message of a leg; one without evidence is skipped."""
    maps, read, scratch, codes = tables.maps, work.read, work.scratch, evidence.codes
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    if kind == LEG_BACKWARD:
        if not work.known_in[r, tape[leg + 2]]:
            return
        if index == NONE:
            times(x, own, read, base + place, size)
        else:
            times_spread(x, own, size, run, read, base + place, maps, index)
    elif kind == LEG_PRIOR:
        if index == NONE:
            times(x, own, tables.values, place, size)
        else:
            times_spread(x, own, size, run, tables.values, place, maps, index)
    else:
        # the last joint state has the last state of every leg
        count = size if index == NONE else place_of(size - ONE, maps, index, size, run) + ONE
        into_reader(read, base + place, count, scratch, codes, evidence.soft, row, tape[leg + 4], tape[leg + 5])
        if index == NONE:
            times(x, own, scratch, ZERO, size)
        else:
            times_spread(x, own, size, run, scratch, ZERO, maps, index)


@inlined
def least_of_leg(size, run, tape, leg, r, base, tables, work):
    """Return a lower bound of the positive values of a leg's incoming message; 0 if no bound is known."""
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    if kind == LEG_BACKWARD and not work.known_in[r, tape[leg + 2]]:
        return 1.0
    if kind == LEG_PRIOR:
        # that of the product of all factors lies before it
        return tables.values[place - ONE] if tape[leg + 2] == PRODUCT else 0.0
    if index == NONE or tape[leg + 4] != NONE:
        return 0.0
    return least_positive(work.read, base + place, place_of(size - ONE, tables.maps, index, size, run) + ONE)


@inner
def leg_forbids(state, size, run, tape, leg, r, row, base, tables, evidence, work):
    """Return whether the incoming message of a leg is zero in a joint state."""
    compact()
    kind, place, index = tape[leg], tape[leg + 1], tape[leg + 3]
    own = state if index == NONE else place_of(state, tables.maps, index, size, run)
    if kind == LEG_BACKWARD:
        return work.known_in[r, tape[leg + 2]] and work.read[base + place + own] == 0.0
    if kind == LEG_PRIOR:
        return tables.values[place + own] == 0.0
    column, codes = tape[leg + 4], evidence.codes
    if is_known(codes, row, column):
        code = codes[row, column]
        if (code >= 0 and np.uint64(code) != own) or (code < 0 and evidence.soft[row, tape[leg + 5] + own] == 0.0):
            return True
    return work.read[base + place + own] == 0.0


@inlined
def plain_products(tape, leg_at, legs, targets, size, run, r, row, base, tables, evidence, work):
    """Compute, for each target k of a Diverter, the product of all other legs, in the k-th piece of the mantissa.

    Products from the left and from the right are multiplied at each target; the running one is the piece after the
    last. Returns False if a product may have underflowed: then `careful_products` has to do it.
    """
    x = work.mantissa
    target_at = leg_at + legs * LEG_LENGTH
    running = np.uint64(targets) * size
    bound = 1.0  # no product is below this, unless it is zero
    for leg in range(legs):
        if bound > SMALLEST_PRODUCT:
            bound *= least_of_leg(size, run, tape, leg_at + leg * LEG_LENGTH, r, base, tables, work)
    set_all(x, running, 1.0, size)
    leg = np.int64(0)
    for number in range(targets):
        position = np.int64(tape[target_at + number * TARGET_LENGTH])
        while leg != position:
            times_leg(x, running, size, run, tape, leg_at + leg * LEG_LENGTH, r, row, base, tables, evidence, work)
            leg += 1
        copied(x, running, x, np.uint64(number) * size, size)
    set_all(x, running, 1.0, size)
    leg = legs - 1
    for number in range(targets - 1, -1, -1):
        position, left = np.int64(tape[target_at + number * TARGET_LENGTH]), np.uint64(number) * size
        while leg != position:
            times_leg(x, running, size, run, tape, leg_at + leg * LEG_LENGTH, r, row, base, tables, evidence, work)
            leg -= 1
        times(x, left, x, running, size)
        if summed(x, left, size) < FAINT:
            return False
        if bound > SMALLEST_PRODUCT or least(x, left, size) > SMALLEST_PRODUCT:
            continue
        for i in range(size):
            if x[left + i] < SMALLEST_PRODUCT:
                forbidden = False
                for other in range(legs):
                    forbidden |= other != position and leg_forbids(
                        np.uint64(i), size, run, tape, leg_at + other * LEG_LENGTH, r, row, base, tables, evidence, work
                    )
                if not forbidden:
                    return False
    return True


@inner
def careful_products(tape, leg_at, legs, targets, size, run, r, row, base, tables, evidence, work):
    """Compute the products of all other legs as `plain_products` does, with an exponent per state."""
    compact()
    mantissa, exponent = work.mantissa, work.exponent
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
                    running, size, run, tape, leg_at + leg * LEG_LENGTH, r, row, base, tables, evidence, work
                )
                leg += 1 if way == 0 else -1
            if way == 0:
                for i in range(size):
                    mantissa[left + i], exponent[left + i] = mantissa[running + i], exponent[running + i]
                continue
            for i in range(size):
                mantissa[left + i] *= mantissa[running + i]
                exponent[left + i] += exponent[running + i]


@inner
def divert(tape, at, first, rows, tables, evidence, work, books):
    """Compute the outgoing messages of a Diverter."""
    size, run, legs, targets = tape[at], tape[at + 1], np.int64(tape[at + 2]), np.int64(tape[at + 3])
    leg_at = at + 4
    codes, known_in, mantissa = evidence.codes, work.known_in, work.mantissa
    scale, margin = books.scale, books.margin
    for r in range(rows):
        row, base = first + r, np.uint64(r) * work.width
        known = 0
        for leg in range(legs):
            known += leg_is_known(tape, leg_at + leg * LEG_LENGTH, r, row, codes, known_in)
        careful = not plain_products(tape, leg_at, legs, targets, size, run, r, row, base, tables, evidence, work)
        if careful:
            careful_products(tape, leg_at, legs, targets, size, run, r, row, base, tables, evidence, work)
        for number in range(targets):
            target = leg_at + legs * LEG_LENGTH + number * TARGET_LENGTH
            own, position = np.uint64(number) * size, np.int64(tape[target])
            others = known > leg_is_known(tape, leg_at + position * LEG_LENGTH, r, row, codes, known_in)
            taken, lost = 0.0, False
            if careful:
                taken, lost = levelled(mantissa, work.exponent, own, size, mantissa, own)
            norm = write_target(tape, target, r, row, base, size, run, others, own, tables.maps, evidence, work)
            if others or not tape[target + 4]:
                lost |= is_faint(work.write, base + tape[target + 1], tape[target + 2])
                if careful and taken > -np.inf:
                    margin[row] += taken
                    if tape[target + 8]:
                        scale[row] += taken
                note(row, norm, lost, margin, books.doubtful)
            if tape[target + 8]:
                account(row, norm, scale, books.rest)


@inlined
def summed_parts(x, own, size, run, maps, index, out, place, count):
    """Sum over the joint states that share a state of a leg."""
    set_all(out, place, 0.0, count)
    runs = size // run
    for k in range(runs):
        at, first = own + k * run, place + maps[index + k]
        for i in range(run):
            out[first + maps[index + runs + i]] += x[at + i]


@inlined
def write_target(tape, target, r, row, base, size, run, others, own, maps, evidence, work):
    """Write the outgoing message of a leg: the product of the others, summed over the space; returns its norm."""
    place, count, known, into = base + tape[target + 1], tape[target + 2], tape[target + 3], tape[target + 4]
    index, column, soft_at = tape[target + 5], tape[target + 6], tape[target + 7]
    level, write, codes = work.mantissa, work.write, evidence.codes
    if others or not into:
        if index == NONE:
            copied(level, own, write, place, count)
        else:
            summed_parts(level, own, size, run, maps, index, write, place, count)
    if not into:
        work.known_out[r, known] = others
        return normalise(write, place, count)
    work.known_out[r, known] = others or is_known(codes, row, column)
    return settle_backward(write, place, count, others, codes, evidence.soft, row, column, soft_at)


@inlined
def product_of_all(tape, leg_at, legs, size, run, r, row, base, tables, evidence, work):
    """Multiply all incoming messages of a Diverter; returns the logarithm of the factor divided out."""
    mantissa, exponent = work.mantissa, work.exponent
    set_all(mantissa, ZERO, 1.0, size)
    for leg in range(legs):
        times_leg(mantissa, ZERO, size, run, tape, leg_at + leg * LEG_LENGTH, r, row, base, tables, evidence, work)
    if summed(mantissa, ZERO, size) >= LOST:
        return 0.0
    ones(mantissa, exponent, ZERO, size)
    for leg in range(legs):
        times_leg_carefully(ZERO, size, run, tape, leg_at + leg * LEG_LENGTH, r, row, base, tables, evidence, work)
    return levelled(mantissa, exponent, ZERO, size, mantissa, ZERO)[0]


@inner
def posterior_of(tape, at, first, rows, tables, evidence, work, books, out_width, marginal):
    """Compute the posterior of a Diverter, and the outgoing messages that follow from it; see `tape`.

    Its norm is the likelihood where the Diverter is a root. The message on an edge that leads on from it is what the
    posterior says of the edge, divided by the incoming message: exact wherever that is not zero, and where it is zero
    the posterior behind the edge is zero too. A state that underflows here has a negligible share of the posterior, and
    is not recorded unless `role` says so: at a root, or where messages that lead on are not computed here.
    """
    store, size, run, role, legs = tape[at], tape[at + 1], tape[at + 2], tape[at + 3], np.int64(tape[at + 4])
    onwards, beliefs, leg_at = np.int64(tape[at + 5]), np.int64(tape[at + 6]), at + 7
    onward_at = leg_at + legs * LEG_LENGTH
    belief_at = onward_at + onwards * ONWARD_LENGTH
    maps, messages, mantissa = tables.maps, work.write, work.mantissa
    scale, margin = books.scale, books.margin
    for r in range(rows):
        row, base, out_base = first + r, np.uint64(r) * work.width, np.uint64(first + r) * out_width
        taken = product_of_all(tape, leg_at, legs, size, run, r, row, base, tables, evidence, work)
        norm = normalise(mantissa, ZERO, size)
        if role != ZERO and taken > -np.inf:
            margin[row] += taken
        if role != ZERO or norm == 0.0:
            note(row, norm, False, margin, books.doubtful)
        if role == ROOT:
            scale[row] += taken if taken > -np.inf else 0.0
            account(row, norm, scale, books.rest)
        if store != NONE:
            copied(mantissa, ZERO, messages, base + store, size)
        for number in range(onwards):
            target = onward_at + number * ONWARD_LENGTH
            index, place, count, back = tape[target], base + tape[target + 1], tape[target + 2], base + tape[target + 3]
            spread_out(mantissa, size, run, maps, index, messages, place, count)
            for i in range(count):
                messages[place + i] = messages[place + i] / messages[back + i] if messages[back + i] > 0.0 else 0.0
            normalise(messages, place, count)
            work.known_out[r, tape[target + 4]] = True
        for number in range(beliefs):
            target = belief_at + number * BELIEF_LENGTH
            spread_out(mantissa, size, run, maps, tape[target], marginal, out_base + tape[target + 1], tape[target + 2])


@inlined
def spread_out(x, size, run, maps, index, out, place, count):
    """Sum the posterior of a Diverter to the states of a leg."""
    if index == NONE:
        copied(x, ZERO, out, place, count)
    else:
        summed_parts(x, ZERO, size, run, maps, index, out, place, count)
