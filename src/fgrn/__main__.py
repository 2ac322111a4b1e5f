"""The command `fgrn`, also as `python -m fgrn`.

What the command needs is imported inside `entry`, so that Ctrl-C ends it without a traceback from the first moment.
"""

from __future__ import annotations

import gc
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any

LATER = frozenset(
    {
        "asyncio",
        "matplotlib.dviread",
        "numpy.f2py",
        "numpy.ma",
        "numpy.testing",
        "psutil",
        "scipy.special",
        "scipy.stats",
        "urllib.request",
        "yaml",
    }
)
"""Modules that libraries import whether they use them or not: loaded when one of their attributes is first used."""

NEVER = frozenset({"mpl_toolkits.mplot3d", "pandas"})
"""Modules that libraries import where they are installed, and that no command uses."""

FEW_COLLECTIONS = 300_000
"""Allocations between two garbage collections: imports allocate many objects, and keep all of them."""


class QuickImports:
    """Import finder of the command that skips or defers imports of libraries that the command does not use.

    It loads the modules `LATER` when they are used, and hides those of `NEVER`; pandas is not hidden if a cluster is
    asked for, whose library needs it.
    """

    hidden = NEVER - {"pandas"} if "--dask" in sys.argv else NEVER

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Reject some modules, defer others, and leave the rest to other finders."""
        if fullname in self.hidden:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        found = PathFinder.find_spec(fullname, path) if fullname in LATER else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def entry() -> None:
    """Run the installed command, and exit with its status."""
    try:
        gc.set_threshold(FEW_COLLECTIONS)
        sys.meta_path.insert(0, QuickImports())
        warnings.filterwarnings("ignore", "Unable to import Axes3D")  # matplotlib misses it, and needs it for 3D only
        from .cli import main

        status = main()
        gc.freeze()  # objects that end with the process: looking for garbage among them would take a tenth of a second
    except KeyboardInterrupt:
        status = 130  # as `fgrn.cli.signals` has it
        print("interrupted", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    entry()
