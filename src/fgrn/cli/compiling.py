"""The first call of a command that learns: a second process begins to compile before libraries are imported here."""

from __future__ import annotations

from pathlib import Path

from ..engines.second_process import compile_aside

FEW_BYTES = 2**13
"""The size of a file, in bytes, up to which the reference engine is expected to learn from it, without kernels."""


def compile_for_table(data: str, work: str) -> None:
    """Let a second process compile the kernels of some work (`compile_aside`), unless the file `data` is small."""
    path = Path(data)
    if not path.is_file() or path.stat().st_size > FEW_BYTES:
        compile_aside(work)
