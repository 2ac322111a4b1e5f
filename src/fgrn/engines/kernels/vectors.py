"""Loops over the states of messages, in LLVM's own words.

The same loops written in Python are vectorised too, but each of them begins with tests whether its arrays overlap, and
messages are short: the tests cost more than the work. These know that their arrays either are one, at one place, or
apart. In the two that learning spends its time in, gather-and-multiply and scatter-and-add, a piece of the product, up
to 32 states, also stays in registers while all factors pass by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROW_PIECES = ((32,), (16, 8, 4), (16, 8), (16, 4), (16,), (8, 4), (8,), (4,))
"""Pieces of a row of a joint table, as the vectors each is made of; the widest that fits comes first."""

MESSAGE_WIDTHS = (16, 8, 4, 2, 1)
"""The same for messages, which have any length, one vector a piece."""

DOUBLE, VOID = ir.DoubleType(), ir.VoidType()
DOUBLE_BYTES = 8


@intrinsic
def gathered(typing_context, x, first, joint, start, stride, entries, begin, end, out, at):
    """Make out = x * joint[row of entry] * ..., for entries `begin` to `end`; returns the sum of out."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, joint, entries, out = (_data(context, builder, signature, arguments, k) for k in (0, 2, 5, 8))
        first, start, stride, begin, end, target = (arguments[k] for k in (1, 3, 4, 6, 7, 9))
        total = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            def times(cell: Any, products: Values) -> Values:
                factors = _load_all(builder, joint, cell, widths)
                return tuple(builder.fmul(*both) for both in zip(products, factors, strict=True))

            before = _load_all(builder, x, builder.add(first, at), widths)
            products = _each_entry(builder, entries, begin, end, builder.add(start, at), stride, times, before)
            _store_all(builder, products, out, builder.add(target, at), widths)
            for product, width in zip(products, widths, strict=True):
                builder.store(builder.fadd(builder.load(total), _sum_of(builder, product, width)), total)

        _pieces(builder, stride, ROW_PIECES, piece)
        return builder.load(total)

    return types.float64(x, first, joint, start, stride, entries, begin, end, out, at), code


@intrinsic
def scattered(typing_context, x, at, factor, counts, start, stride, entries, begin, end):
    """Add factor * x to the row of `counts` of every entry from `begin` to `end`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, counts, entries = (_data(context, builder, signature, arguments, k) for k in (0, 3, 6))
        first, factor, start, stride, begin, end = (arguments[k] for k in (1, 2, 4, 5, 7, 8))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            values = zip(_load_all(builder, x, builder.add(first, at), widths), widths, strict=True)
            shares = tuple(builder.fmul(_spread(builder, factor, width), value) for value, width in values)

            def add(cell: Any, shares: Values) -> Values:
                before = _load_all(builder, counts, cell, widths)
                after = tuple(builder.fadd(*both) for both in zip(shares, before, strict=True))
                _store_all(builder, after, counts, cell, widths)
                return shares

            _each_entry(builder, entries, begin, end, builder.add(start, at), stride, add, shares)

        _pieces(builder, stride, ROW_PIECES, piece)
        return context.get_dummy_value()

    return types.void(x, at, factor, counts, start, stride, entries, begin, end), code


@intrinsic
def multiplied(typing_context, x, first, n, table, start, m, out, target):
    """Make out = x @ table, (n, m), a piece of the result in registers while all of x passes by."""

    def body(builder: Any, x: Any, table: Any, out: Any, n: Any, m: Any) -> None:
        two = ir.Constant(n.type, 2)
        half = builder.udiv(n, two)

        def piece(at: Any, width: int) -> None:
            def added(number: Any, running: Any) -> Any:
                factor = _spread(builder, builder.load(builder.gep(x, [number])), width)
                cell = builder.add(at, builder.mul(number, m))
                product = builder.fmul(factor, _load(builder, table, cell, width), flags=("contract",))
                return builder.fadd(running, product, flags=("contract",))

            def both(number: Any, running: Values) -> Values:  # two sums wait for each other less
                return added(number, running[0]), added(builder.add(number, half), running[1])

            def rest(number: Any, running: Values) -> Values:
                return (added(number, running[0]),)

            zeros = ir.Constant(ir.VectorType(DOUBLE, width), [0.0] * width)
            sums = _each_number(builder, ir.Constant(n.type, 0), half, both, (zeros, zeros))
            result = (builder.fadd(*sums),)
            result = _each_number(builder, builder.mul(half, two), n, rest, result)
            _store(builder, result[0], out, at, width)

        _pieces(builder, m, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, 1), (3, 4), (6, 7))
    return types.void(x, first, n, table, start, m, out, target), _function("multiplied", arrays, (2, 5), body)


@intrinsic
def crossed(typing_context, out, factor, x, first, n, y, start, m):
    """Make out += factor * x y^T, (n, m), from the beginning of `out`."""

    def body(builder: Any, out: Any, x: Any, y: Any, factor: Any, n: Any, m: Any) -> None:
        def piece(at: Any, width: int) -> None:
            share = builder.fmul(_spread(builder, factor, width), _load(builder, y, at, width))

            def add(number: Any, unchanged: Values) -> Values:
                value = _spread(builder, builder.load(builder.gep(x, [number])), width)
                cell = builder.add(at, builder.mul(number, m))
                product = builder.fmul(value, share, flags=("contract",))
                raised = builder.fadd(_load(builder, out, cell, width), product, flags=("contract",))
                _store(builder, raised, out, cell, width)
                return unchanged

            _each_number(builder, ir.Constant(n.type, 0), n, add, ())

        _pieces(builder, m, MESSAGE_WIDTHS, piece)
        builder.ret_void()

    arrays = ((0, None), (2, 3), (5, 6))
    return types.void(out, factor, x, first, n, y, start, m), _function("crossed", arrays, (1, 4, 7), body)


@intrinsic
def filled(typing_context, x, at, value, count):
    """Make x = value."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return value

    return types.void(x, at, value, count), _each_state("filled", change, x=(0, 1), factor=2, count=3)


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
def scaled(typing_context, x, at, factor, count):
    """Make x *= factor."""

    def change(builder: Any, x: Any, y: Any, value: Any) -> Any:
        return builder.fmul(x, value)

    return types.void(x, at, factor, count), _each_state("scaled", change, x=(0, 1), factor=2, count=3)


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
    """Find the smallest of x; 1 if all are larger."""
    return types.float64(x, at, count), _all_states("least", lambda builder, x, y: x, False, x=(0, 1), count=2)


@intrinsic
def least_positive(typing_context, x, at, count):
    """Find the smallest of x that is not zero; 1 if all are larger."""

    def positive(builder: Any, x: Any, y: Any) -> Any:
        zeros, ones = (ir.Constant(x.type, [value] * x.type.count) for value in (0.0, 1.0))
        return builder.select(builder.fcmp_ordered(">", x, zeros), x, ones)

    return types.float64(x, at, count), _all_states("least_positive", positive, False, x=(0, 1), count=2)


Place = tuple[int, int | None]
"""Which arguments are an array and where to begin in it; None for its beginning."""

Values = tuple[Any, ...]


def _all_states(
    name: str, made: Callable[[Any, Any, Any], Any], add: bool, x: Place, count: int, y: Place | None = None
) -> Callable[..., Any]:
    """Code for the sum, or the smallest up to 1, of what is `made` of each state of x and that of y."""

    def body(builder: Any, x: Any, *others: Any) -> None:
        y, count = (others[0] if len(others) > 1 else None), others[-1]
        out = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0 if add else 1.0))

        def piece(at: Any, width: int) -> None:
            one = _load(builder, x, at, width)
            found, before = made(builder, one, None if y is None else _load(builder, y, at, width)), builder.load(out)
            if add:
                after = builder.fadd(before, _sum_of(builder, found, width))
            else:
                smallest = _smallest(builder, found, width)
                after = builder.select(builder.fcmp_ordered("<", smallest, before), smallest, before)
            builder.store(after, out)

        _pieces(builder, count, MESSAGE_WIDTHS, piece)
        builder.ret(builder.load(out))

    return _function(name, (x,) if y is None else (x, y), (count,), body, DOUBLE)


def _each_state(
    name: str,
    change: Callable[[Any, Any, Any, Any], Any],
    x: Place,
    count: int,
    y: Place | None = None,
    factor: int | None = None,
) -> Callable[..., Any]:
    """Code that replaces each state of x by what `change` makes of it, of that of y, and of a factor."""

    def body(builder: Any, x: Any, *others: Any) -> None:
        rest = list(others)
        other = rest.pop(0) if y is not None else None
        number = rest.pop(0) if factor is not None else None

        def piece(at: Any, width: int) -> None:
            before = _load(builder, x, at, width)
            beside = None if other is None else _load(builder, other, at, width)
            value = None if number is None else _spread(builder, number, width)
            _store(builder, change(builder, before, beside, value), x, at, width)

        _pieces(builder, rest[0], MESSAGE_WIDTHS, piece)
        builder.ret_void()

    numbers = (count,) if factor is None else (factor, count)
    return _function(name, (x,) if y is None else (x, y), numbers, body)


def _function(
    name: str, arrays: tuple[Place, ...], numbers: tuple[int, ...], body: Callable[..., None], result: Any = VOID
) -> Callable[..., Any]:
    """Code for a call of a function of pointers and numbers, which a module has once, however often it is called.

    In line, the same loops a hundred times over would take LLVM a dozen seconds.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = []
        for array, place in arrays:
            data = _data(context, builder, signature, arguments, array)
            given.append(data if place is None else builder.gep(data, [arguments[place]]))
        given += [arguments[number] for number in numbers]
        full = f"fgrn_{name}"
        function = builder.module.globals.get(full)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(result, [value.type for value in given]), full)
            function.linkage = "linkonce_odr"
            body(ir.IRBuilder(function.append_basic_block("entry")), *function.args)
        found = builder.call(function, given)
        return context.get_dummy_value() if result is VOID else found

    return code


def _spread(builder: Any, number: Any, width: int) -> Any:
    """A vector of one number."""
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    vector = ir.Constant(ir.VectorType(DOUBLE, width), ir.Undefined)
    vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(vector, vector, everywhere)


def _sum_of(builder: Any, vector: Any, width: int) -> Any:
    """The sum of a vector, in any order."""
    kind = ir.FunctionType(DOUBLE, [DOUBLE, vector.type])
    add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{width}f64")
    return builder.call(add, [ir.Constant(DOUBLE, 0.0), vector], fastmath=("reassoc",))


def _smallest(builder: Any, vector: Any, width: int) -> Any:
    kind = ir.FunctionType(DOUBLE, [vector.type])
    least = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fmin.v{width}f64")
    return builder.call(least, [vector], fastmath=("nnan",))


def _data(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def _vector(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(DOUBLE, width).as_pointer())


def _load(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.load(_vector(builder, data, index, width), align=DOUBLE_BYTES)


def _store(builder: Any, value: Any, data: Any, index: Any, width: int) -> None:
    builder.store(value, _vector(builder, data, index, width), align=DOUBLE_BYTES)


def _load_all(builder: Any, data: Any, index: Any, widths: tuple[int, ...]) -> Values:
    """Vectors that lie one behind the other."""
    return tuple(_load(builder, data, place, width) for place, width in _behind(builder, index, widths))


def _store_all(builder: Any, values: Values, data: Any, index: Any, widths: tuple[int, ...]) -> None:
    for value, (place, width) in zip(values, _behind(builder, index, widths), strict=True):
        _store(builder, value, data, place, width)


def _behind(builder: Any, index: Any, widths: tuple[int, ...]) -> list[tuple[Any, int]]:
    before = [sum(widths[:number]) for number in range(len(widths))]
    places = [builder.add(index, ir.Constant(index.type, skipped)) for skipped in before]
    return list(zip(places, widths, strict=True))


def _pieces(builder: Any, length: Any, pieces: tuple[Any, ...], body: Callable[[Any, Any], None]) -> None:
    """Run the body on pieces of a row, of one vector or several: as many as there are of each, the widest first."""
    place = cgutils.alloca_once_value(builder, ir.Constant(length.type, 0))
    for piece in pieces:
        width = piece if isinstance(piece, int) else sum(piece)
        test, work, done = (builder.append_basic_block(f"{name}_{width}") for name in ("test", "work", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        at = builder.load(place)
        after = builder.add(at, ir.Constant(length.type, width))
        builder.cbranch(builder.icmp_unsigned("<=", after, length), work, done)
        builder.position_at_end(work)
        body(at, piece)
        builder.store(after, place)
        builder.branch(test)
        builder.position_at_end(done)


def _each_entry(
    builder: Any,
    entries: Any,
    begin: Any,
    end: Any,
    offset: Any,
    stride: Any,
    body: Callable[[Any, Values], Values],
    values: Values,
) -> Values:
    """Run the body on the cell of every entry, handing values on from one to the next; returns the last."""

    def one(number: Any, running: Values) -> Values:
        entry = builder.zext(builder.load(builder.gep(entries, [number])), stride.type)
        return body(builder.add(offset, builder.mul(entry, stride)), running)

    return _each_number(builder, begin, end, one, values)


def _each_number(builder: Any, begin: Any, end: Any, body: Callable[[Any, Values], Values], values: Values) -> Values:
    """Run the body on every number, handing values on from one to the next; returns the last."""
    before = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("each", "each_done"))
    builder.cbranch(builder.icmp_unsigned("<", begin, end), loop, done)
    builder.position_at_end(loop)
    number, running = builder.phi(begin.type), tuple(builder.phi(value.type) for value in values)
    following = body(number, running)
    after = builder.add(number, ir.Constant(number.type, 1))
    for phi, first, later in zip((number, *running), (begin, *values), (after, *following), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_unsigned("<", after, end), loop, done)
    builder.position_at_end(done)
    results = tuple(builder.phi(value.type) for value in values)
    for result, first, later in zip(results, values, following, strict=True):
        result.add_incoming(first, before)
        result.add_incoming(later, loop)
    return results
