"""Engines compute messages and expected counts; they see arrays only, from Plan, Program and Evidence.

    prepared = engine.prepare(plan, programs, program, evidence, weights)     once: the rows are laid out
    loaded = prepared.load(values)                                            once an epoch: the parameters
    loaded.counts(expect)                                                     of all rows, handed over once

How rows are divided into blocks and on how many threads those run is the engine's own affair, and so is the memory it
works in; a device is never waited for but where something is handed over. `protocol` has the whole of it. `registry`
knows the engines by name and imports them when they are asked for, so that numba costs nothing until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .blas_threads import ONE_BLAS_THREAD, limited_kernel_blas
from .protocol import (
    BACKWARD,
    DIVERT,
    FORWARD,
    PARTS,
    SOURCE,
    Buffers,
    CountsTogether,
    Engine,
    Loaded,
    Prepared,
    RowCounts,
    Scanner,
    Vector,
)
from .registry import able, device_column_pairs, engine_names, get, gpu_is_there, installed_engines, register
from .row_blocks import blocks_of_rows, in_order, thread_count
from .scans import LogScan, Scan, best_path, distribution, log_scan, log_sum, logarithm

if TYPE_CHECKING:
    from .reference import Reference

__all__ = [
    "BACKWARD",
    "DIVERT",
    "FORWARD",
    "ONE_BLAS_THREAD",
    "PARTS",
    "SOURCE",
    "Buffers",
    "CountsTogether",
    "Engine",
    "Loaded",
    "LogScan",
    "Prepared",
    "RowCounts",
    "Scan",
    "Scanner",
    "Vector",
    "able",
    "best_path",
    "blocks_of_rows",
    "device_column_pairs",
    "distribution",
    "engine_names",
    "get",
    "gpu_is_there",
    "in_order",
    "installed_engines",
    "limited_kernel_blas",
    "log_scan",
    "log_sum",
    "logarithm",
    "register",
    "thread_count",
]  # fmt: skip


def tracer(largest: bool) -> Reference:
    """Return the engine that can sample or maximise over the states of all variables; `largest` maximises."""
    from .reference import Reference

    return Reference(largest=largest)
