"""Several threads in one call of a kernel: pieces of work that they claim one after another.

All of them call the kernel with the same arguments; one leads. It publishes a number of pieces, which all claim until
none is left, and waits for those that others have claimed, but for no thread that has none, such as one that comes
late. A thread that waits lets the system run others now and then: the one it waits for may be paused on the same
processor. What is computed from a piece does not depend on who claimed it.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .llvm import VOID, pointer

INTEGER = ir.IntType(64)
HAS_PAUSE, HAS_YIELD = platform.machine().lower() in ("x86_64", "amd64"), os.name == "posix"

# Numbers of a team, each in a line of the cache of its own: how many pieces were claimed, published and done since the
# beginning, and whether the leader has ended. From STAGE on, what the published pieces are: the stage of an epoch, the
# vector of parameters, the epoch and what it begins with, and how many pieces there were before.
CLAIMED, PUBLISHED, DONE, ENDED, STAGE = 0, 8, 16, 24, 32
TEAM_NUMBERS = 48

IDLE_LOOKS = 2**20
"""How often a thread looks for a new piece before it leaves: tens of milliseconds, longer than most pieces take."""

LOOKS_IN_A_TURN = 64
"""After as many looks, a thread that waits lets the system run another one on its processor."""


def team_numbers(pieces: int = 0) -> np.ndarray:
    """Return the numbers of a new team, with some pieces to claim from the beginning."""
    numbers = np.zeros(TEAM_NUMBERS, dtype=np.int64)
    numbers[PUBLISHED] = pieces
    return numbers


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.gep(pointer(context, builder, signature, arguments, 0), [arguments[1]])


@intrinsic
def number_now(typing_context, numbers, at):
    """Return a number that other threads may be changing."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(numbers, types.int64), code


@intrinsic
def add_at_once(typing_context, numbers, at, more):
    """Add to a number that other threads may be changing."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.atomic_rmw("add", _place(context, builder, signature, arguments), arguments[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(numbers, types.int64, types.int64), code


@intrinsic
def claim(typing_context, numbers):
    """Return the number of a piece that no other thread has, of all that were ever published; -1 if there is none."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = pointer(context, builder, signature, arguments, 0)
        claimed, published = (builder.gep(data, [INTEGER(at)]) for at in (CLAIMED, PUBLISHED))
        look, take, ended = (builder.append_basic_block(name) for name in ("look", "take", "claimed"))
        builder.branch(look)
        builder.position_at_end(look)
        piece = builder.load_atomic(claimed, "seq_cst", 8)
        is_left = builder.icmp_signed("<", piece, builder.load_atomic(published, "seq_cst", 8))
        builder.cbranch(is_left, take, ended)
        builder.position_at_end(take)  # another thread may have taken it meanwhile
        outcome = builder.cmpxchg(claimed, piece, builder.add(piece, INTEGER(1)), "seq_cst")
        builder.cbranch(builder.extract_value(outcome, 1), ended, look)
        builder.position_at_end(ended)
        found = builder.phi(INTEGER)
        found.add_incoming(INTEGER(-1), look)
        found.add_incoming(piece, take)
        return found

    return types.int64(numbers), code


@intrinsic
def wait(typing_context, looks):
    """Wait a moment, after so many looks for something to do: in a loop, or by letting another thread have its turn."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if HAS_PAUSE:
            kind = ir.FunctionType(VOID, [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        if HAS_YIELD:
            kind = ir.FunctionType(ir.IntType(32), [])
            turn = builder.urem(arguments[0], INTEGER(LOOKS_IN_A_TURN))
            with builder.if_then(builder.icmp_unsigned("==", turn, INTEGER(LOOKS_IN_A_TURN - 1))):
                builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(types.int64), code
