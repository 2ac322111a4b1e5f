"""LLVM code of which the loops in `vectors` are made: loads, stores, sums and loops over vectors of the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils

HAS_WIDE_REGISTERS = bool(binding.get_host_cpu_features().get("avx512f"))
"""Whether 64 numbers and more fit into the registers of this processor; elsewhere 32 do."""

ROW_PIECES = (
    *(((64,),) if HAS_WIDE_REGISTERS else ()),
    *((32,), (16, 8, 4), (16, 8), (16, 4), (16,), (8, 4), (8,), (4,)),
)
"""Pieces of a row of a joint table, as the vectors each is made of; the widest that fits comes first."""

MESSAGE_WIDTHS = (16, 8, 4, 2, 1)
"""The same for messages, which have any length, one vector a piece."""

DOUBLE, VOID = ir.DoubleType(), ir.VoidType()
DOUBLE_BYTES = 8

Values = tuple[Any, ...]
"""What is handed on from one turn of a loop to the next."""


def spread(builder: Any, number: Any, width: int) -> Any:
    """Return a vector with one number in all places."""
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    vector = ir.Constant(ir.VectorType(DOUBLE, width), ir.Undefined)
    vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(vector, vector, everywhere)


def sum_of(builder: Any, vector: Any, width: int) -> Any:
    """Return the sum of a vector, in any order."""
    kind = ir.FunctionType(DOUBLE, [DOUBLE, vector.type])
    add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{width}f64")
    return builder.call(add, [ir.Constant(DOUBLE, 0.0), vector], fastmath=("reassoc",))


def sum_of_all(builder: Any, vectors: Values, widths: tuple[int, ...]) -> Any:
    """Return the sum of vectors, the widest first: each is halved until the next can be added."""
    running, width = vectors[0], widths[0]
    for vector, narrower in zip(vectors[1:], widths[1:], strict=True):
        while width > narrower:
            width //= 2
            kind = ir.VectorType(ir.IntType(32), width)
            halves = (ir.Constant(kind, list(range(begin, begin + width))) for begin in (0, width))
            running = builder.fadd(*(builder.shuffle_vector(running, running, half) for half in halves))
        running = builder.fadd(running, vector)
    return sum_of(builder, running, width)


def smallest(builder: Any, vector: Any, width: int) -> Any:
    """Return the smallest number in a vector."""
    kind = ir.FunctionType(DOUBLE, [vector.type])
    least = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fmin.v{width}f64")
    return builder.call(least, [vector], fastmath=("nnan",))


def pointer(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    """Return the pointer to the data of an array argument."""
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def _vector(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(DOUBLE, width).as_pointer())


def load(builder: Any, data: Any, index: Any, width: int) -> Any:
    """Load a vector from an offset in an array."""
    return builder.load(_vector(builder, data, index, width), align=DOUBLE_BYTES)


def store(builder: Any, value: Any, data: Any, index: Any, width: int) -> None:
    """Store a vector at an offset in an array."""
    builder.store(value, _vector(builder, data, index, width), align=DOUBLE_BYTES)


def load_all(builder: Any, data: Any, index: Any, widths: tuple[int, ...]) -> Values:
    """Load consecutive vectors."""
    return tuple(load(builder, data, place, width) for place, width in _behind(builder, index, widths))


def store_all(builder: Any, values: Values, data: Any, index: Any, widths: tuple[int, ...]) -> None:
    """Store consecutive vectors."""
    for value, (place, width) in zip(values, _behind(builder, index, widths), strict=True):
        store(builder, value, data, place, width)


def _behind(builder: Any, index: Any, widths: tuple[int, ...]) -> list[tuple[Any, int]]:
    before = [sum(widths[:number]) for number in range(len(widths))]
    places = [builder.add(index, ir.Constant(index.type, skipped)) for skipped in before]
    return list(zip(places, widths, strict=True))


def pieces(builder: Any, length: Any, pieces: tuple[Any, ...], body: Callable[[Any, Any], None]) -> None:
    """Run the body on consecutive pieces of a row, of several vectors or one, the widest first."""
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


def each_entry(
    builder: Any,
    entries: Any,
    begin: Any,
    end: Any,
    offset: Any,
    stride: Any,
    body: Callable[[Any, Values], Values],
    values: Values,
) -> Values:
    """Run the body on the cell of every entry, passing values from one to the next; returns the last."""

    def one(number: Any, running: Values) -> Values:
        entry = builder.zext(builder.load(builder.gep(entries, [number])), stride.type)
        return body(builder.add(offset, builder.mul(entry, stride)), running)

    return each_number(builder, begin, end, one, values)


def each_number(
    builder: Any,
    begin: Any,
    end: Any,
    body: Callable[[Any, Values], Values],
    values: Values,
    short: bool = False,
) -> Values:
    """Run the body on every integer of a range, passing values from one to the next; returns the last."""
    before = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("each", "each_done"))
    builder.cbranch(builder.icmp_unsigned("<", begin, end), loop, done)
    builder.position_at_end(loop)
    number, running = builder.phi(begin.type), tuple(builder.phi(value.type) for value in values)
    following = body(number, running)
    last = builder.block  # another one than the first where the body has loops of its own
    after = builder.add(number, ir.Constant(number.type, 1))
    for phi, first, later in zip((number, *running), (begin, *values), (after, *following), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, last)
    branch = builder.cbranch(builder.icmp_unsigned("<", after, end), loop, done)
    if short:
        branch.set_metadata("llvm.loop", _not_unrolled(builder.module))
    builder.position_at_end(done)
    results = tuple(builder.phi(value.type) for value in values)
    for result, first, later in zip(results, values, following, strict=True):
        result.add_incoming(first, before)
        result.add_incoming(later, last)
    return results


def _not_unrolled(module: Any) -> Any:
    """Return metadata of a loop, of its own, that keep LLVM from unrolling it."""
    name = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = ir.values.MDValue(module, [name], name=str(len(module.metadata)))
    loop.operands = (loop, name)
    return loop
