"""Building blocks of all kernels: compilation options, codes of operations, evidence, and tracking of underflow."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, cast

import numba
import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from .cache import KernelCache
from .linking import KernelCompiler, LinkedCompiler
from .vectors import copied, dot, increased, least_positive, scaled, set_all, summed
from .versions import check_numba

# Operations. A record on the tape is: operation, length of what follows, operands.
CONSTANT, BOUNDARY, FORWARD, BACKWARD, LEAVES, DIVERT, POSTERIOR, MEET = range(8)
SCATTER, JOINT_NORM, JOINT_ADD, LONE_SOURCE = range(8, 12)
# What comes in on the leg of a Diverter: a forward message (with evidence), a backward one, a prior.
LEG_FORWARD, LEG_BACKWARD, LEG_PRIOR = range(3)
# What is known of a prior: it is a factor, or the product of several, with its smallest positive number before it.
FACTOR, PRODUCT = range(2)
# The role of a Diverter whose posterior is made: messages lead on from it, root, or neither.
PASSING, ROOT, ALONE = range(3)
LEG_LENGTH, TARGET_LENGTH, ONWARD_LENGTH, BELIEF_LENGTH = 6, 9, 5, 3

check_numba(numba.__version__)

# Division by zero gives infinity, as in NumPy, rather than an exception, which a loop over rows cannot handle. Kernels
# never allocate an array: so the runtime that counts references is left out, which saves a seventh of an epoch of 1,000
# or 10,000 rows x 10 columns (0.097 -> 0.084 ms, 0.372 -> 0.307 ms of CPU; `benchmarks/versions.py`).
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: Any, nogil: bool = True) -> Any:
    """Decorate a function that Python calls: compile it, and keep the compiled code on disk (see `cache`)."""
    found = njit(no_cfunc_wrapper=True, pipeline_class=KernelCompiler, **{**OPTIONS, "nogil": nogil})(function)
    found._cache = KernelCache(function)
    compiled = found.compile

    def without_collector(signature: Any) -> Any:
        """Compile while no garbage is collected, which would take a tenth of the time: nearly all objects are kept."""
        enabled = gc.isenabled()
        gc.disable()
        try:
            return compiled(signature)
        finally:
            if enabled:
                gc.enable()

    found.compile = without_collector
    return found


def short_kernel(function: Any) -> Any:
    """Decorate a kernel that takes microseconds: it keeps the interpreter's lock.

    Where several threads learn, who gives the lock away waits longer for it than such a kernel takes.
    """
    return kernel(function, nogil=False)


def code_for(kernel: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
    """Return the machine code of a kernel for arguments of these types, to be called with such arguments only.

    Types are not checked: arguments of other types make it read the wrong memory. So it is only for callers that build
    all arguments themselves. A kernel checks them in every call, 5 microseconds where there are tuples of arrays.
    """
    return cast("Callable[..., Any]", kernel.compile(tuple(map(numba.typeof, arguments))))


# Functions called from kernels only: compiled and cached as a part of these, see `linking`.
LINKED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": LinkedCompiler}
inner = njit(**LINKED, **OPTIONS)
# Functions called for every row: inlined, since passing all the arrays would cost more than the work. That saves half
# of an epoch of a tree (30 -> 15 ms of CPU for a stack of 20,000 rows x 10), and nothing in a star.
inlined = njit(forceinline=True, **LINKED, **OPTIONS)

# Functions that are tiny or called in one place only: compiled as a part of their caller, not by themselves and again
# there, which takes longer.
once = njit(inline="always", **OPTIONS)


@intrinsic
def compact(typing_context):
    """Compile the function that calls this for size: in half of the time, where little time is spent in it later."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("optsize")
        return context.get_dummy_value()

    return types.void(), code


NONE, ZERO, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)

# A state's running product is mantissa * 2**(500 * exponent); a mantissa below SMALL is lifted before it is used on.
LIFT, DROP, SMALL = 2.0**500, 2.0**-500, 2.0**-400
LOG_TWO = np.log(2.0)
LOG_LIFT = 500 * LOG_TWO
# A state below the first of these, in a message that sums to one, counts as lost, since a product or two may underflow:
# its share is below exp(-FULL_MARGIN). A lost state must stay below exp(-LEAST_MARGIN) of the rest.
SMALLEST, FULL_MARGIN, LEAST_MARGIN = 2.0**-500, 346.0, 46.0
# A product of leaves is left as it is while its sum is above FAINT, which saves a logarithm and a division: no factor
# is above 1, so what got below SMALLEST_PRODUCT, or vanished, has less than exp(-FULL_MARGIN) of it.
FAINT, SMALLEST_PRODUCT = 2.0**-300, 2.0**-900
# By as many bits the cells of a pack may differ before a product of the smallest could vanish.
DEEPEST = 900
# Below this the plain product of a few normalised messages may have lost a state that matters.
LOST = 2.0**-800


@inlined
def normalise(x, at, count):
    """Divide a message by its sum, which is returned; 0 if the message underflowed, or nearly so."""
    norm = summed(x, at, count)
    if norm < LOST:  # bits of the smallest may be gone
        return 0.0
    scaled(x, at, 1.0 / norm, count)
    return norm


@inlined
def is_known(codes, row, column):
    """Return whether a column has evidence in a row."""
    return column != NONE and codes[row, column] != -1


@inlined
def apply_evidence(x, at, count, codes, soft, row, column, soft_at):
    """Multiply a message by the evidence in a column, which must not be missing in this row."""
    code = codes[row, column]
    if code >= 0:
        kept = x[at + np.uint64(code)]
        set_all(x, at, 0.0, count)
        x[at + np.uint64(code)] = kept
    else:
        for i in range(count):
            x[at + i] *= soft[row, soft_at + i]


@inlined
def into_reader(x, at, count, scratch, codes, soft, row, column, soft_at):
    """Write a forward message times the evidence on its edge to the scratch, for the block that reads it."""
    copied(x, at, scratch, ZERO, count)
    if is_known(codes, row, column):
        apply_evidence(scratch, ZERO, count, codes, soft, row, column, soft_at)


@inlined
def through(table, other, start, n, m, x, first, out, target):
    """Compute out = x @ table, (n, m), along its longer side, skipping zeros of x; `other` is the transposed table."""
    if m < n:
        for j in range(m):
            out[target + j] = dot(x, first, other, start + j * n, n)
        return
    set_all(out, target, 0.0, m)
    for i in range(n):
        if x[first + i] != 0.0:
            increased(out, target, x[first + i], table, start + i * m, m)


@inlined
def settle_backward(x, at, count, known, codes, soft, row, column, soft_at):
    """Multiply a backward message (ones, if not `known`) by evidence and normalise it; returns its norm."""
    if is_known(codes, row, column):
        if not known:
            set_all(x, at, 1.0, count)
        apply_evidence(x, at, count, codes, soft, row, column, soft_at)
    elif not known:
        set_all(x, at, 1.0 / count, count)
        return 1.0
    return normalise(x, at, count)


@inlined
def is_faint(x, at, count):
    """Return whether a message has a positive state so small that a product may underflow."""
    return least_positive(x, at, count) < SMALLEST


@inlined
def note(row, norm, lost, margin, doubtful):
    """Record the norm of a message of a row: track whether underflow may have lost a state that matters.

    A lost state has at most exp(-FULL_MARGIN) of the mass of the message it was lost from. Every norm below one may
    bring it nearer to what is left; a row in which it could come near is doubtful. So is a row whose message is zero.
    """
    if norm == 0.0:
        doubtful[row] = True
        return
    if margin[row] < np.inf and norm < 1.0:
        margin[row] += np.log(norm)
    if lost and margin[row] > FULL_MARGIN:
        margin[row] = FULL_MARGIN
    if margin[row] < LEAST_MARGIN:
        doubtful[row] = True


@inlined
def account(row, norm, scale, rest):
    """Multiply the likelihood of a row, exp(scale) * rest, by a norm, taking a logarithm only now and then.

    It is the logarithm of the rest without this norm: times a norm as small as LOST, the rest may underflow.
    """
    product = rest[row] * norm
    if product < FAINT or product > 1.0 / FAINT:
        scale[row] += np.log(rest[row])
        product = norm if norm > 0.0 else 1.0  # a row that vanished is doubtful
    rest[row] = product


@inner
def check(row, norm, margin, doubtful):
    """Mark a row as doubtful as `note` does, for a product from which no message is computed: nothing is tracked."""
    if norm < LOST or (margin[row] < np.inf and margin[row] + np.log(norm) < LEAST_MARGIN):
        doubtful[row] = True
