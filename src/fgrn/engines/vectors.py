"""The two loops that learning spends its time in, in LLVM's own words: gather-and-multiply, and scatter-and-add.

The same loops written in Python are vectorised too, but each of them begins with tests whether its arrays overlap and
ends with a scalar rest, and the product goes through memory for every factor. Here a piece of the product, up to 32
states, stays in registers while all factors pass by, which makes a row 1.4 times as fast. Rows of tables are whole
vectors long (see `packs.padded`): there is no rest.

Numba's cache on disk notices changes in the file of a kernel only, so `kernels` holds the digest of this file, and a
test compares the two: who changes a line here has to touch the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTHS = (32, 16, 8, 4)
"""States in one piece, the largest that is left first. The last divides the length of every row."""

DOUBLE = ir.DoubleType()
DOUBLE_BYTES = 8


@intrinsic
def gathered(typing_context, base, joint, start, stride, entries, begin, end, p):  # type: ignore[no-untyped-def]
    """Make p = base * joint[row of entry] * ..., for entries `begin` to `end`; returns the sum of p."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base, joint, entries, p = (_data(context, builder, signature, arguments, k) for k in (0, 1, 4, 7))
        start, stride, begin, end = (arguments[k] for k in (2, 3, 5, 6))
        total = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0))

        def piece(at: Any, width: int) -> None:
            def times(cell: Any, product: Any) -> Any:
                return builder.fmul(product, _load(builder, joint, cell, width))

            offset = builder.add(start, at)
            first = _load(builder, base, at, width)
            product = _each_entry(builder, entries, begin, end, offset, stride, times, first)
            _store(builder, product, p, at, width)
            kind = ir.FunctionType(DOUBLE, [DOUBLE, product.type])
            add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{width}f64")
            share = builder.call(add, [ir.Constant(DOUBLE, 0.0), product], fastmath=("reassoc",))
            builder.store(builder.fadd(builder.load(total), share), total)

        _pieces(builder, stride, piece)
        return builder.load(total)

    return types.float64(base, joint, start, stride, entries, begin, end, p), code


@intrinsic
def scattered(typing_context, p, factor, counts, start, stride, entries, begin, end):  # type: ignore[no-untyped-def]
    """Add factor * p to the row of `counts` of every entry from `begin` to `end`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        p, counts, entries = (_data(context, builder, signature, arguments, k) for k in (0, 2, 5))
        factor, start, stride, begin, end = (arguments[k] for k in (1, 3, 4, 6, 7))

        def piece(at: Any, width: int) -> None:
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
            spread = ir.Constant(ir.VectorType(DOUBLE, width), ir.Undefined)
            spread = builder.insert_element(spread, factor, ir.Constant(ir.IntType(32), 0))
            share = builder.fmul(builder.shuffle_vector(spread, spread, everywhere), _load(builder, p, at, width))

            def add(cell: Any, added: Any) -> Any:
                _store(builder, builder.fadd(added, _load(builder, counts, cell, width)), counts, cell, width)
                return added

            _each_entry(builder, entries, begin, end, builder.add(start, at), stride, add, share)

        _pieces(builder, stride, piece)
        return context.get_dummy_value()

    return types.void(p, factor, counts, start, stride, entries, begin, end), code


def _data(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def _vector(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(DOUBLE, width).as_pointer())


def _load(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.load(_vector(builder, data, index, width), align=DOUBLE_BYTES)


def _store(builder: Any, value: Any, data: Any, index: Any, width: int) -> None:
    builder.store(value, _vector(builder, data, index, width), align=DOUBLE_BYTES)


def _pieces(builder: Any, length: Any, body: Callable[[Any, int], None]) -> None:
    """Run the body on pieces of a row: as many as there are of each width, the widest first."""
    place = cgutils.alloca_once_value(builder, ir.Constant(length.type, 0))
    for width in WIDTHS:
        test, work, done = (builder.append_basic_block(f"{name}_{width}") for name in ("test", "work", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        at = builder.load(place)
        after = builder.add(at, ir.Constant(length.type, width))
        builder.cbranch(builder.icmp_unsigned("<=", after, length), work, done)
        builder.position_at_end(work)
        body(at, width)
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
    body: Callable[[Any, Any], Any],
    value: Any,
) -> Any:
    """Run the body on the cell of every entry, handing a value on from one to the next; returns the last."""
    before = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("entry", "entries_done"))
    builder.cbranch(builder.icmp_unsigned("<", begin, end), loop, done)
    builder.position_at_end(loop)
    number, running = builder.phi(begin.type), builder.phi(value.type)
    entry = builder.zext(builder.load(builder.gep(entries, [number])), stride.type)
    following = body(builder.add(offset, builder.mul(entry, stride)), running)
    after = builder.add(number, ir.Constant(number.type, 1))
    for phi, first, later in ((number, begin, after), (running, value, following)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_unsigned("<", after, end), loop, done)
    builder.position_at_end(done)
    result = builder.phi(value.type)
    result.add_incoming(value, before)
    result.add_incoming(following, loop)
    return result
