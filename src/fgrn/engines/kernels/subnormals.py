"""The processor's mode for subnormal numbers, those below 2**-1022: computed exactly, or taken as zero.

An operation on subnormal numbers takes a hundred times as long as any other on some processors, and products of many
probabilities are full of them: states that a row all but excludes. While they are taken as zero, an epoch of a star of
100 columns takes a fifth of the time.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .llvm import VOID

HAS_MODE = platform.machine().lower() in ("x86_64", "amd64")
"""Whether this is a processor on which the mode matters and can be set: those of x86."""

TAKEN_AS_ZERO = 0x8040
"""The bits of the control word: of operands (DAZ), and of results (FTZ)."""

WORD = ir.IntType(32)


def _word(builder: Any, instruction: str, value: Any) -> Any:
    """Store the control word, or load it, by way of the stack."""
    place = cgutils.alloca_once_value(builder, value)
    builder.store(value, place)
    byte = ir.IntType(8).as_pointer()
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(VOID, [byte]), f"llvm.x86.sse.{instruction}"
    )
    builder.call(function, [builder.bitcast(place, byte)])
    return builder.load(place)


@intrinsic
def subnormals_to_zero(typing_context):
    """Take subnormal numbers as zero from now on; returns what `restore_subnormals` needs."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        before = ir.Constant(WORD, 0)
        if HAS_MODE:
            before = _word(builder, "stmxcsr", before)
            _word(builder, "ldmxcsr", builder.or_(before, ir.Constant(WORD, TAKEN_AS_ZERO)))
        return before

    return types.uint32(), code


@intrinsic
def restore_subnormals(typing_context, before):
    """Set the mode that there was before `subnormals_to_zero`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if HAS_MODE:
            _word(builder, "ldmxcsr", arguments[0])
        return context.get_dummy_value()

    return types.void(types.uint32), code
