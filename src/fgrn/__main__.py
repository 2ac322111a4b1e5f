"""The command `fgrn`, also as `python -m fgrn`.

What the command needs is imported inside `entry`, so that Ctrl-C ends it without a traceback from the first moment.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any


class QuickImports(MetaPathFinder):
    """Import finder of the command: what PyArrow and scikit-learn load, and no command uses, takes no time.

    pandas is hidden, unless a cluster is asked for, whose library needs it; `scipy.stats` is loaded when one of its
    attributes is first used.
    """

    hides_pandas = "--dask" not in sys.argv

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Refuse pandas, load `scipy.stats` later, and leave other modules to other finders."""
        if fullname == "pandas" and self.hides_pandas:
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)
        found = PathFinder.find_spec(fullname, path) if fullname == "scipy.stats" else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def entry() -> None:
    """Run the installed command, and exit with its status."""
    try:
        sys.meta_path.insert(0, QuickImports())
        from .cli import main

        status = main()
    except KeyboardInterrupt:
        status = 130  # as `fgrn.cli.signals` has it
        print("interrupted", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    entry()
