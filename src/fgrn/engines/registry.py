"""The registry of engines by name; the module of an engine is imported when it is first used.

    engines.register("torch", "some.module", "Torch", does={"scan"}, fallback="cpu")
    engines.get("torch", device="cuda")

What an engine does not do itself is delegated to the one it names as its fallback; see `able`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..core.exceptions import FgrnError

if TYPE_CHECKING:
    import numpy as np

    from .protocol import Engine

ABILITIES = ("scan", "tracing")
"""What an engine may leave to another: scans along sequences (`scanner`, `best_path`), and choices of all variables."""


@dataclass(frozen=True)
class Entry:
    """The module and class of an engine, what it can do itself, and where it delegates the rest.

    module, attribute   what is imported, and what of it is called, with the options of the engine, to make one
    does                some of ABILITIES
    fallback            the engine that the rest is delegated to; None if there is nothing to delegate
    library             a package that it needs and that is not always installed; "" if there is none
    """

    module: str
    attribute: str
    does: frozenset[str]
    fallback: str | None
    library: str = ""


_entries: dict[str, Entry] = {}


def register(
    name: str,
    module: str,
    attribute: str,
    *,
    does: Collection[str] = (),
    fallback: str | None = "reference",
    library: str = "",
) -> None:
    """Register an engine by a name, to be used as `engine=name`; a name can be registered only once."""
    if name in _entries or name == "auto":
        raise FgrnError(f"An engine {name!r} is registered already.")
    unknown = set(does) - set(ABILITIES)
    if unknown:
        raise FgrnError(f"Abilities of engines are {', '.join(ABILITIES)}. Got {', '.join(sorted(unknown))} instead.")
    if set(does) != set(ABILITIES) and fallback not in _entries:
        raise FgrnError(f"The engine {name!r} delegates to {fallback!r}, and there is no such engine.")
    _entries[name] = Entry(module, attribute, frozenset(does), fallback, library)


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines."""
    return tuple(_entries)


def installed_engines() -> tuple[str, ...]:
    """Return the names of the engines whose libraries are installed."""
    return tuple(name for name, entry in _entries.items() if not entry.library or find_spec(entry.library))


def get(name: str, **options: Any) -> Engine:
    """Return the engine with this name, imported now, with options of its own."""
    if name not in _entries:
        raise FgrnError(f"The 'engine' must be one of {', '.join(map(repr, engine_names()))}. Got {name!r} instead.")
    entry = _entries[name]
    module = sys.modules.get(entry.module) or import_module(entry.module)
    found: Engine = getattr(module, entry.attribute)(**options)
    return found


def gpu_is_there() -> bool:
    """Return whether the torch engine would find a GPU; imports PyTorch if it is installed."""
    if not find_spec("torch"):
        return False
    try:
        return bool(import_module("fgrn.engines.device.library").has_gpu())
    except FgrnError:
        return False


def device_column_pairs(sizes: Sequence[int], codes: np.ndarray, weights: np.ndarray, device: str | None) -> Any:
    """Return the counts of all pairs of columns, computed on a device; see `fgrn.engines.device.column_pairs`."""
    return import_module("fgrn.engines.device.column_pairs").DeviceColumnPairs(sizes, codes, weights, device)


def able(engine: Engine, ability: str) -> Engine:
    """Return the engine itself if it has an ability, else the engine it delegates this to."""
    entry = _entries.get(engine.name)
    while entry is not None and ability not in entry.does and entry.fallback is not None:
        engine = get(entry.fallback)
        entry = _entries[entry.fallback]
    return engine


register("reference", "fgrn.engines.reference", "Reference", does=ABILITIES, fallback=None)
register("cpu", "fgrn.engines.cpu", "Cpu", does=("scan",))
register("torch", "fgrn.engines.device.engine", "Torch", fallback="cpu", library="torch")
