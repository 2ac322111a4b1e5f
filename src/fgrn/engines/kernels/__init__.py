"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

Here are those that Python calls, each in the file of what it is for. They are made of what is in `basics`, `gathers`,
`products`, `sisos`, and in LLVM's words in `vectors` and `llvm`; `cache` keeps them on disk. No other place imports
numba. Arrays that are handed over together are named tuples, see `arguments`.

Kernels release the GIL. None is compiled with `parallel`: threads are the engine's, which adds counts in the order of
the rows. Nor with `fastmath`: sums are free to change their order in `vectors`, and nothing else is.

Places and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat: a row is a place in them, not a view. `NONE`
stands where there is nothing.

Arrays, by the names all kernels use:
    tape                   the records; `at` is where the operands of the current one begin
    values, transposed     parameters in the plan's layout, and products of factors behind them (see `tape`); the same
                           with every table transposed
    codes, soft            evidence, see `fgrn.flow.evidence`
    entries, bounds        what is known of gathered leaves, see `packs.Known`
    joint, shifts, deep    their joint tables, see `packs.Joint`
    read, write            workspaces, flat, `width` to a row: messages read and written; the same one in sweeps
    known_in, known_out    (rows, known width): whether evidence lies behind a message
    scale, rest            (rows,): the likelihood so far is exp(scale) * rest
    margin, doubtful       (rows,): how far a state that was lost is from what is left; rows for the fallback
"""

from __future__ import annotations

from .chains import scan
from .clusters import clusters
from .cycles import recount
from .packing import joint_tables, pack, unpacked
from .stars import star, star_messages
from .trees import tree

__all__ = ["clusters", "joint_tables", "pack", "recount", "scan", "star", "star_messages", "tree", "unpacked"]
