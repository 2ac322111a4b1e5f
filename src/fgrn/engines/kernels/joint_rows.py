"""Loops over rows of joint tables as LLVM code: gather and multiply, scatter and add, and sums over rows of one code.

Learning spends its time in these. A piece of a product or of a row of counts, up to 32 or 64 states, stays in registers
while all factors, or all rows, pass by. See `vectors` for why they are not written in Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .llvm import (
    DOUBLE,
    ROW_PIECES,
    Values,
    each_entry,
    each_number,
    load_all,
    pieces,
    pointer,
    spread,
    store_all,
    sum_of_all,
)


@intrinsic
def gathered(typing_context, x, first, joint, start, stride, entries, begin, end, out, at):
    """Compute out = x * joint[row of entry] * ..., for entries `begin` to `end`; returns the sum of out."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, joint, entries, out = (pointer(context, builder, signature, arguments, k) for k in (0, 2, 5, 8))
        first, start, stride, begin, end, target = (arguments[k] for k in (1, 3, 4, 6, 7, 9))
        total = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            def times(cell: Any, products: Values) -> Values:
                factors = load_all(builder, joint, cell, widths)
                return tuple(builder.fmul(*both) for both in zip(products, factors, strict=True))

            before = load_all(builder, x, builder.add(first, at), widths)
            products = each_entry(builder, entries, begin, end, builder.add(start, at), stride, times, before)
            store_all(builder, products, out, builder.add(target, at), widths)
            builder.store(builder.fadd(builder.load(total), sum_of_all(builder, products, widths)), total)

        pieces(builder, stride, ROW_PIECES, piece)
        return builder.load(total)

    return types.float64(x, first, joint, start, stride, entries, begin, end, out, at), code


@intrinsic
def scattered(typing_context, x, at, factor, counts, start, stride, entries, begin, end):
    """Add factor * x to the row of `counts` of every entry from `begin` to `end`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, counts, entries = (pointer(context, builder, signature, arguments, k) for k in (0, 3, 6))
        first, factor, start, stride, begin, end = (arguments[k] for k in (1, 2, 4, 5, 7, 8))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            values = zip(load_all(builder, x, builder.add(first, at), widths), widths, strict=True)
            shares = tuple(builder.fmul(spread(builder, factor, width), value) for value, width in values)

            def add(cell: Any, shares: Values) -> Values:
                before = load_all(builder, counts, cell, widths)
                after = tuple(builder.fadd(*both) for both in zip(shares, before, strict=True))
                store_all(builder, after, counts, cell, widths)
                return shares

            each_entry(builder, entries, begin, end, builder.add(start, at), stride, add, shares)

        pieces(builder, stride, ROW_PIECES, piece)
        return context.get_dummy_value()

    return types.void(x, at, factor, counts, start, stride, entries, begin, end), code


@intrinsic
def add_rows_of_code(typing_context, x, stride, rows, begin, end, out, at):
    """Add x of the rows in `rows`, from `begin` to `end`, to a row of `out`, which is in registers meanwhile.

    The same bits as `scattered`, row after row, if x was multiplied by the factors before.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, rows, out = (pointer(context, builder, signature, arguments, k) for k in (0, 2, 5))
        stride, begin, end, target = (arguments[k] for k in (1, 3, 4, 6))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            def add(number: Any, sums: Values) -> Values:
                row = builder.zext(builder.load(builder.gep(rows, [number])), stride.type)
                values = load_all(builder, x, builder.add(at, builder.mul(row, stride)), widths)
                return tuple(builder.fadd(*both) for both in zip(sums, values, strict=True))

            place = builder.add(target, at)
            sums = each_number(builder, begin, end, add, load_all(builder, out, place, widths), short=True)
            store_all(builder, sums, out, place, widths)

        pieces(builder, stride, ROW_PIECES, piece)
        return context.get_dummy_value()

    return types.void(x, stride, rows, begin, end, out, at), code


@intrinsic
def projected(typing_context, x, at, y, start, stride):
    """Return the sum of x * y over a row of a joint table: `dot`, with one horizontal sum for a short row."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = (pointer(context, builder, signature, arguments, k) for k in (0, 2))
        first, start, stride = (arguments[k] for k in (1, 3, 4))
        total = cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, 0.0))

        def piece(at: Any, widths: tuple[int, ...]) -> None:
            ours = load_all(builder, x, builder.add(first, at), widths)
            theirs = load_all(builder, y, builder.add(start, at), widths)
            products = tuple(builder.fmul(*both) for both in zip(ours, theirs, strict=True))
            builder.store(builder.fadd(builder.load(total), sum_of_all(builder, products, widths)), total)

        pieces(builder, stride, ROW_PIECES, piece)
        return builder.load(total)

    return types.float64(x, at, y, start, stride), code
