"""Matrix products in kernels, by SciPy's BLAS through numba's runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .llvm import DOUBLE, pointer


@intrinsic
def matrix_product(typing_context, x, first, y, start, out, target, n, k, m):
    """Compute out = x @ y, of matrices (n, k) and (k, m) in flat arrays."""
    return types.void(x, first, y, start, out, target, n, k, m), _call(transposed=False, add=False)


@intrinsic
def add_cross_product(typing_context, x, first, y, start, out, target, n, k, m):
    """Compute out += x.T @ y, of matrices (k, n) and (k, m) in flat arrays."""
    return types.void(x, first, y, start, out, target, n, k, m), _call(transposed=True, add=True)


def _call(transposed: bool, add: bool) -> Callable[..., Any]:
    """Return code that calls BLAS, which stores matrices by columns and therefore computes out.T = y.T @ x.T."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        char, number, void = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()
        kinds = [char] * 3 + [number] * 3 + [void, void, number, void, number, void, void, number]
        gemm = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), kinds), "numba_xxgemm")

        def place(array: int) -> Any:
            data = pointer(context, builder, signature, arguments, array)
            return builder.bitcast(builder.gep(data, [arguments[array + 1]]), void)

        def constant(value: float) -> Any:
            return builder.bitcast(cgutils.alloca_once_value(builder, ir.Constant(DOUBLE, value)), void)

        n, k, m = arguments[6:9]
        kind, plain, turned = (ir.Constant(char, ord(letter)) for letter in "dnt")
        x, y, out = place(0), place(2), place(4)
        one, beta = constant(1.0), constant(1.0 if add else 0.0)
        side, width = (turned, n) if transposed else (plain, k)
        builder.call(gemm, [kind, plain, side, m, n, k, one, y, m, x, width, beta, out, m])
        return context.get_dummy_value()

    return code
