"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

Exported are the kernels that Python calls, one file for each kind of network. They are made of `basics`, `gathers`,
`products`, `sisos`, and of LLVM code in `joint_rows`, `vectors`, `blas` and `llvm`; in `teams` threads share a call;
`linking` puts the functions that only kernels call into them; `cache` keeps them on disk. No other place imports numba.
Arrays that are passed together are named tuples, see `arguments`. The kernels of structure search, in `families` and
`family_bits`, those of sums over missing values, in `sums`, and that of L-BFGS, in `directions`, are no part of the
engine.

Kernels release the GIL, but for those that take microseconds (`short_kernel`). None is compiled with `parallel`: the
engine has threads of its own, and adds counts in the order of the rows. None is compiled with `fastmath`: only the sums
in `vectors` and `joint_rows` may be reordered.

Offsets and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat: a row is an offset into them, not a view. `NONE`
means "no offset".
"""

from __future__ import annotations

from .chains import scan, viterbi
from .cliques import cliques
from .cycles import recount
from .matrix_sweeps import matrix_sweeps
from .packing import joint_tables, pack, prior_counts, sort_entries, unpacked
from .stars import star, star_block, star_messages
from .trees import tree
from .updates import log_prior_of_cells

__all__ = [
    "cliques",
    "joint_tables",
    "log_prior_of_cells",
    "matrix_sweeps",
    "pack",
    "prior_counts",
    "recount",
    "scan",
    "sort_entries",
    "star",
    "star_block",
    "star_messages",
    "tree",
    "unpacked",
    "viterbi",
]
