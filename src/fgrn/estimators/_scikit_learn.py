"""Importing this file imports scikit-learn, without `scipy.stats`, which it imports at its start and rarely uses.

That module takes half of the time of `import sklearn`, which a command on a small table would wait for. While
scikit-learn is imported, an object stands in its place in `sys.modules`. Asked for an attribute it imports the module
and hands the attribute on, so nothing is missing; afterwards it is removed, and the next import is an ordinary one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """A module that is imported when one of its attributes is first used."""

    def __getattr__(self, name: str) -> Any:
        """Import the module in place of this object, and return its attribute."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def imported_when_used(name: str) -> Iterator[None]:
    """Put an object in the place of a module that is not imported yet, while others are imported."""
    stand_in = StandIn(name)
    used = sys.modules.setdefault(name, stand_in) is stand_in
    try:
        yield
    finally:
        if used and sys.modules.get(name) is stand_in:
            del sys.modules[name]


with imported_when_used("scipy.stats"):
    import_module("sklearn.base")
