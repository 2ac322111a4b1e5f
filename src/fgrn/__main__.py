"""The command `fgrn`, also as `python -m fgrn`.

What the command needs is imported inside `entry`, so that Ctrl-C ends it without a traceback from the first moment.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class WithoutPandas(MetaPathFinder):
    """Import finder that hides pandas: PyArrow and scikit-learn would load it, and no command uses it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Refuse pandas, and leave other modules to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


def entry() -> None:
    """Run the installed command, and exit with its status."""
    try:
        sys.meta_path.insert(0, WithoutPandas())
        from .cli import main

        status = main()
    except KeyboardInterrupt:
        status = 130  # as `fgrn.cli.signals` has it
        print("interrupted", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    entry()
