"""Digests: short hashes of arrays and of objects that contain arrays, the same in every process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

BYTES_AT_ONCE = 2**22
"""Bytes that are copied at a time to hash an array that is not contiguous."""


def digest(*things: object) -> str:
    """Return a hexadecimal hash of arrays, dataclasses, mappings, sequences and plain values.

    A field of a dataclass that was `added` later, by its metadata, is left out if it is None: older digests stay valid.
    """
    from hashlib import blake2b  # loads OpenSSL, which takes longer than most modules

    total = blake2b(digest_size=16)
    for thing in things:
        for part in _parts(thing):
            total.update(part)
    return total.hexdigest()


def _parts(thing: object) -> Iterator[Any]:
    if isinstance(thing, np.ndarray):
        yield f"{thing.dtype.str}{thing.shape}".encode()
        lying = np.atleast_1d(thing.T if thing.flags.f_contiguous else thing)
        step = max(1, BYTES_AT_ONCE * len(lying) // max(1, lying.nbytes))
        for first in range(0, len(lying), step):
            yield np.ascontiguousarray(lying[first : first + step]).reshape(-1).view(np.uint8).data
    elif is_dataclass(thing):
        values = {one.name: getattr(thing, one.name) for one in fields(thing) if one.init}
        added = {one.name for one in fields(thing) if "added" in one.metadata}  # later: digests were made without it
        yield from _named({name: value for name, value in values.items() if value is not None or name not in added})
    elif isinstance(thing, Mapping):
        yield from _named(thing)
    elif isinstance(thing, (tuple, list)):
        yield f"{len(thing)}(".encode()
        for item in thing:
            yield from _parts(item)
    else:
        yield f"{thing!r};".encode()


def _named(values: Mapping[str, object]) -> Iterator[Any]:
    for name, value in values.items():
        yield name.encode()
        yield from _parts(value)
