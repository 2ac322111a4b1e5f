"""Loops over the states of messages as LLVM code: products with tables, sums, copies.

The same loops written in Python are vectorised too, but each of them begins with tests whether its arrays overlap, and
messages are short: the tests cost more than the work. These know that their arrays either are one, at one place, or
apart. Those over rows of joint tables are in `joint_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .llvm import (
    DOUBLE,
    MESSAGE_WIDTHS,
    VOID,
    Values,
    each_number,
    load,
    pieces,
    pointer,
    smallest,
    spread,
    store,
    sum_of,
)

LANES = 16
"""Rows that are worked on together: a product of as many numbers fits into a few registers."""


@intrinsic
def bits_set(typing_context, word):
    """Count the bits of a word that are one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


@intrinsic
def multiplied(typing_context, x, first, n, table, start, m, out, target):
    """Compute out = x @ table, (n, m), keeping a piece of the result in registers while all of x is read."""

    def body(builder: Any, x: Any, table: Any, out: Any, n: Any, m: Any) -> None:
        two = ir.Constant(n.type, 2)
        half = builder.udiv(n, two)

        def piece(at: Any, width: int) -> None:
            def added(number: Any, running: Any) -> Any:
                factor = spread(builder, builder.load(builder.gep(x, [number])), width)
                cell = builder.add(at, builder.mul(number, m))
                product = builder.fmul(factor, load(builder, table, cell, width), flags=("contract",))
                return builder.fadd(running, product, flags=("contract",))

            def both(number: Any, running: Values) -> Values:  # two sums wait for each other less
                return added(number, running[0]), added(builder.add(number, half), running[1])

            def rest(number: Any, running: Values) -> Values:
                return (added(number, running[0]),)

            zeros = ir.Constant(ir.VectorType(DOUBLE, width), [0.0] * width)
            sums = each_number(builder, ir.Constant(n.type, 0), half, both, (zeros, zeros))
            result = (builder.fadd(*sums),)
            result = each_number(builder, builder.mul(half, two), n, rest, result)
            store(builder, result[0], out, at, width)

        pieces(builder, m, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, 1), (3, 4), (6, 7))
    return types.void(x, first, n, table, start, m, out, target), _function("multiplied", arrays, (2, 5), body)


@intrinsic
def crossed(typing_context, out, factor, x, first, n, y, start, m):
    """Compute out += factor * x y^T, (n, m), from the beginning of `out`."""

    def body(builder: Any, out: Any, x: Any, y: Any, factor: Any, n: Any, m: Any) -> None:
        def piece(at: Any, width: int) -> None:
            share = builder.fmul(spread(builder, factor, width), load(builder, y, at, width))

            def add(number: Any, unchanged: Values) -> Values:
                value = spread(builder, builder.load(builder.gep(x, [number])), width)
                cell = builder.add(at, builder.mul(number, m))
                product = builder.fmul(value, share, flags=("contract",))
                raised = builder.fadd(load(builder, out, cell, width), product, flags=("contract",))
                store(builder, raised, out, cell, width)
                return unchanged

            each_number(builder, ir.Constant(n.type, 0), n, add, ())

        pieces(builder, m, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, None), (2, 3), (5, 6))
    return types.void(out, factor, x, first, n, y, start, m), _function("crossed", arrays, (1, 4, 7), body)


@intrinsic
def add_products(typing_context, table, first, count, work, place, step, inputs, legs):
    """Multiply each of some numbers of a table by the messages that come in, and add it to those that go out.

    Messages are in `work`: of each, the cell for the first number, and how far it is to that of the next.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, work, place, step = (pointer(context, builder, signature, arguments, k) for k in (0, 3, 4, 5))
        first, count, inputs, legs = (arguments[k] for k in (1, 2, 6, 7))
        zero = ir.Constant(count.type, 0)

        def cell(number: Any, unchanged: Values) -> Values:
            factor = builder.load(builder.gep(table, [builder.add(first, number)]))

            def at(leg: Any) -> Any:
                begin, far = (builder.load(builder.gep(data, [leg])) for data in (place, step))
                return builder.add(begin, builder.mul(number, far))

            def times(leg: Any, running: Values) -> Values:
                return (builder.fmul(running[0], load(builder, work, at(leg), LANES)),)

            with builder.if_then(builder.fcmp_ordered("!=", factor, ir.Constant(DOUBLE, 0.0))):
                (product,) = each_number(builder, zero, inputs, times, (spread(builder, factor, LANES),))

                def add(leg: Any, unchanged: Values) -> Values:
                    where = at(leg)
                    store(builder, builder.fadd(load(builder, work, where, LANES), product), work, where, LANES)
                    return unchanged

                each_number(builder, inputs, legs, add, ())
            return unchanged

        each_number(builder, zero, count, cell, ())
        return context.get_dummy_value()

    return types.void(table, first, count, work, place, step, inputs, legs), code


@intrinsic
def set_all(typing_context, x, at, value, count):
    """Make x = value."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return value

    return types.void(x, at, value, count), _each_state("set_all", change, x=(0, 1), factor=2, count=3)


@intrinsic
def copied(typing_context, y, start, x, at, count):
    """Make x = y."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return y

    return types.void(y, start, x, at, count), _each_state("copied", change, x=(2, 3), y=(0, 1), count=4)


@intrinsic
def times(typing_context, x, at, y, start, count):
    """Make x *= y."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return builder.fmul(x, y)

    return types.void(x, at, y, start, count), _each_state("times", change, x=(0, 1), y=(2, 3), count=4)


@intrinsic
def divided(typing_context, x, at, y, start, count):
    """Make x /= y; x is zero where y is."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        zeros = ir.Constant(x.type, [0.0] * x.type.count)
        return builder.select(builder.fcmp_ordered(">", y, zeros), builder.fdiv(x, y), zeros)

    return types.void(x, at, y, start, count), _each_state("divided", change, x=(0, 1), y=(2, 3), count=4)


@intrinsic
def sums_of_columns(typing_context, x, at, rows, columns, out):
    """Compute the sum of each column of x, (rows, columns), from the beginning of `out`; kept in registers."""

    def body(builder: Any, x: Any, out: Any, rows: Any, columns: Any) -> None:
        def piece(at: Any, width: int) -> None:
            def add(row: Any, running: Values) -> Values:
                return (builder.fadd(running[0], load(builder, x, builder.add(at, builder.mul(row, columns)), width)),)

            zeros = ir.Constant(ir.VectorType(DOUBLE, width), [0.0] * width)
            sums = each_number(builder, ir.Constant(rows.type, 0), rows, add, (zeros,))
            store(builder, sums[0], out, at, width)

        pieces(builder, columns, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, 1), (4, None))
    return types.void(x, at, rows, columns, out), _function("sums_of_columns", arrays, (2, 3), body)


@intrinsic
def product(typing_context, x, first, y, start, out, at, count):
    """Make out = x * y."""

    def body(builder: Any, x: Any, y: Any, out: Any, count: Any) -> None:
        def piece(place: Any, width: int) -> None:
            found = builder.fmul(load(builder, x, place, width), load(builder, y, place, width))
            store(builder, found, out, place, width)

        pieces(builder, count, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, 1), (2, 3), (4, 5))
    return types.void(x, first, y, start, out, at, count), _function("product", arrays, (6,), body)


@intrinsic
def scaled(typing_context, x, at, factor, count):
    """Make x *= factor."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return builder.fmul(x, value)

    return types.void(x, at, factor, count), _each_state("scaled", change, x=(0, 1), factor=2, count=3)


@intrinsic
def shared_out(typing_context, x, at, total, count):
    """Make x /= total, the same number for all of x."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return builder.fdiv(x, value)

    return types.void(x, at, total, count), _each_state("shared_out", change, x=(0, 1), factor=2, count=3)


@intrinsic
def increased(typing_context, x, at, factor, y, start, count):
    """Make x += factor * y."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return builder.fadd(x, builder.fmul(value, y), flags=("contract",))

    signature = types.void(x, at, factor, y, start, count)
    return signature, _each_state("increased", change, x=(0, 1), y=(3, 4), factor=2, count=5)


@intrinsic
def summed(typing_context, x, at, count):
    """Sum x."""
    return types.float64(x, at, count), _all_states("summed", lambda builder, x, y: x, True, x=(0, 1), count=2)


@intrinsic
def dot(typing_context, x, at, y, start, count):
    """Sum x * y."""

    def product(builder: Any, x: Any, y: Any) -> Any:
        return builder.fmul(x, y)

    signature = types.float64(x, at, y, start, count)
    return signature, _all_states("dot", product, True, x=(0, 1), y=(2, 3), count=4)


@intrinsic
def least(typing_context, x, at, count):
    """Return the smallest of x; 1 if all are larger."""
    return types.float64(x, at, count), _all_states("least", lambda builder, x, y: x, False, x=(0, 1), count=2)


@intrinsic
def least_positive(typing_context, x, at, count):
    """Return the smallest of x that is not zero; 1 if all are larger."""

    def positive(builder: Any, x: Any, y: Any) -> Any:
        zeros, ones = (ir.Constant(x.type, [value] * x.type.count) for value in (0.0, 1.0))
        return builder.select(builder.fcmp_ordered(">", x, zeros), x, ones)

    return types.float64(x, at, count), _all_states("least_positive", positive, False, x=(0, 1), count=2)


@intrinsic
def largest(typing_context, x, at, count):
    """Return the largest of x, of which none is negative."""
    least_of = _all_states("largest", lambda builder, x, y: builder.fneg(x), False, x=(0, 1), count=2)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fneg(least_of(context, builder, signature, arguments))

    return types.float64(x, at, count), code


ArrayArgument = tuple[int, int | None]
"""Which arguments are an array and where to begin in it; None for its beginning."""


def _all_states(
    name: str,
    made: Callable[[Any, Any, Any], Any],
    add: bool,
    x: ArrayArgument,
    count: int,
    y: ArrayArgument | None = None,
) -> Callable[..., Any]:
    """Return code for the sum, or the minimum and 1, of a function `made` of the states of x and y."""

    def body(builder: Any, x: Any, *others: Any) -> None:
        y, count = (others[0] if len(others) > 1 else None), others[-1]
        out = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0 if add else 1.0))

        def piece(at: Any, width: int) -> None:
            one = load(builder, x, at, width)
            found, before = made(builder, one, None if y is None else load(builder, y, at, width)), builder.load(out)
            if add:
                after = builder.fadd(before, sum_of(builder, found, width))
            else:
                here = smallest(builder, found, width)
                after = builder.select(builder.fcmp_ordered("<", here, before), here, before)
            builder.store(after, out)

        pieces(builder, count, MESSAGE_WIDTHS, piece)
        builder.ret(builder.load(out))

    return _function(name, (x,) if y is None else (x, y), (count,), body, DOUBLE)


def _each_state(
    name: str,
    change: Callable[[Any, Any, Any, Any], Any],
    x: ArrayArgument,
    count: int,
    y: ArrayArgument | None = None,
    factor: int | None = None,
) -> Callable[..., Any]:
    """Return code that replaces each state of x by a function `change` of it, the state of y and a factor."""

    def body(builder: Any, x: Any, *others: Any) -> None:
        rest = list(others)
        other = rest.pop(0) if y is not None else None
        number = rest.pop(0) if factor is not None else None

        def piece(at: Any, width: int) -> None:
            before = load(builder, x, at, width)
            beside = None if other is None else load(builder, other, at, width)
            value = None if number is None else spread(builder, number, width)
            store(builder, change(builder, before, beside, value), x, at, width)

        pieces(builder, rest[0], MESSAGE_WIDTHS, piece)
        builder.ret_void()

    numbers = (count,) if factor is None else (factor, count)
    return _function(name, (x,) if y is None else (x, y), numbers, body)


def _function(
    name: str,
    arrays: tuple[ArrayArgument, ...],
    numbers: tuple[int, ...],
    body: Callable[..., None],
    result: Any = VOID,
) -> Callable[..., Any]:
    """Return code that calls a function of pointers and numbers, which a module defines once.

    In line, the same loops a hundred times over would take LLVM a dozen seconds; in a function that is `compact` they
    are never in line.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = []
        for array, place in arrays:
            data = pointer(context, builder, signature, arguments, array)
            given.append(data if place is None else builder.gep(data, [arguments[place]]))
        given += [arguments[number] for number in numbers]
        apart = "optsize" in builder.function.attributes  # see `basics.compact`
        full = f"fgrn_{name}_apart" if apart else f"fgrn_{name}"
        function = builder.module.globals.get(full)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(result, [value.type for value in given]), full)
            function.linkage = "linkonce_odr"
            if apart:
                function.attributes.add("noinline")
            body(ir.IRBuilder(function.append_basic_block("entry")), *function.args)
        found = builder.call(function, given)
        return context.get_dummy_value() if result is VOID else found

    return code
