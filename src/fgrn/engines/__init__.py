"""Engines compute messages and expected counts; they see arrays only, from Plan, Program and Evidence.

    prepared = engine.prepare(plan, programs, program, evidence, weights)     once: the rows are laid out
    loaded = prepared.load(values)                                            once an epoch: the parameters
    loaded.counts(expect)                                                     of all rows, handed over once

The engine decides how rows are divided into blocks, on how many threads these run, and which memory it uses; a device
is synchronised only when results are returned. `protocol` describes the methods. `registry` has the engines by name and
imports them when they are first used, so that numba costs nothing until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .blas_threads import ONE_BLAS_THREAD, limited_kernel_blas
from .protocol import (
    BACKWARD,
    DIVERT,
    FORWARD,
    GROWTH,
    LIMIT,
    PARTS,
    ROUNDED,
    SOURCE,
    AcceleratedRound,
    Buffers,
    CountsTogether,
    Engine,
    EpochCounts,
    EpochRequest,
    Loaded,
    MStep,
    Prepared,
    RowCounts,
    Scanner,
    SilentEpochs,
    Vector,
)
from .registry import able, device_column_pairs, engine_names, get, gpu_is_there, installed_engines, register
from .row_blocks import blocks_of_rows, in_order, thread_count
from .scans import LogScan, Scan, best_path, distribution, log_scan, log_sum, logarithm
from .second_process import compile_aside, compile_meanwhile

if TYPE_CHECKING:
    from .reference import Reference

__all__ = [
    "BACKWARD",
    "DIVERT",
    "FORWARD",
    "GROWTH",
    "LIMIT",
    "ONE_BLAS_THREAD",
    "PARTS",
    "ROUNDED",
    "SOURCE",
    "AcceleratedRound",
    "Buffers",
    "CountsTogether",
    "Engine",
    "EpochCounts",
    "EpochRequest",
    "Loaded",
    "LogScan",
    "MStep",
    "Prepared",
    "RowCounts",
    "Scan",
    "Scanner",
    "SilentEpochs",
    "Vector",
    "able",
    "best_path",
    "blocks_of_rows",
    "compile_aside",
    "compile_meanwhile",
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
