"""Old names of modules that moved into folders: both names import the same module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    class _Finder(MetaPathFinder, Loader):
        """What the import system expects."""
else:
    _Finder = object  # to import the abstract classes takes 10 ms, and nothing of them is used

MOVED = {
    "fgrn.criteria": "fgrn.learning.criteria",
    "fgrn.datasets": "fgrn.showcase.datasets",
    "fgrn.document": "fgrn.bayes.document",
    "fgrn.em": "fgrn.flow.em",
    "fgrn.exceptions": "fgrn.core.exceptions",
    "fgrn.explanation": "fgrn.queries.explanation",
    "fgrn.io": "",
    "fgrn.io.formats": "fgrn.files.formats",
    "fgrn.io.table_file": "fgrn.tables.table_file",
    "fgrn.messages": "fgrn.flow.messages",
    "fgrn.online": "fgrn.flow.online",
    "fgrn.paper": "fgrn.showcase.paper",
}
"""The documented old name, and the name of the module now; empty for a folder that is gone."""


class _Moved(_Finder):
    """Import finder for modules under their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=not MOVED[fullname]) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if not MOVED[spec.name]:
            return None  # an empty module
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__  # the one of the old name, which the import has put here
        if spec is not None and spec.loader is self and MOVED[spec.name]:
            module.__spec__ = spec.loader_state


def find_moved() -> None:
    """Install the import finder for old names."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
