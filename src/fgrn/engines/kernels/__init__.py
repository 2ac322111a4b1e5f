"""Numba kernels of the CPU engine: they read a tape (see `tape`) and work on a block of rows at a time.

Here are those that Python calls, each in the file of what it is for. They are made of what is in `basics`, `gathers`,
`products`, `sisos`, and in LLVM's words in `vectors` and `llvm`; `cache` keeps them on disk. No other place imports
numba. Arrays that are handed over together are named tuples, see `arguments`. The kernels of structure search, in
`families`, are no part of the engine.

Kernels release the GIL. None is compiled with `parallel`: threads are the engine's, which adds counts in the order of
the rows. Nor with `fastmath`: sums are free to change their order in `vectors`, and nothing else is.

Places and lengths on the tape are unsigned: numba lets a signed index count from the end, and the test for that in
every access keeps a loop from being vectorised. Workspaces are flat: a row is a place in them, not a view. `NONE`
stands where there is nothing.
"""

from __future__ import annotations

from .chains import scan
from .cliques import cliques
from .cycles import recount
from .packing import joint_tables, pack, unpacked
from .stars import star, star_messages
from .trees import tree

__all__ = ["cliques", "joint_tables", "pack", "recount", "scan", "star", "star_messages", "tree", "unpacked"]
