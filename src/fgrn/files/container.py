"""The container of model files: a JSON document and tensors in one safetensors file, which cannot contain code.

    8 bytes    the length of the header
    header     JSON: type, shape and byte range of every tensor; under __metadata__ the key "fgrn", the document as text
    tensors    among them "sha256", a checksum of the document and of all other tensors

Files are not trusted: what the header claims is checked against the size of the file before memory is allocated, and
numbers are checked in blocks of rows while they are read. This is why the package reads them itself: safetensors either
loads all of the file before any check, or maps it, and a mapped file that is truncated meanwhile kills the process. The
checksum detects accidental damage; it does not say who wrote the file.

This module does not interpret the document or the tensors. `Refused` says what is wrong with a file.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from math import isfinite, prod
from pathlib import Path
from reprlib import Repr
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from safetensors import numpy as safetensors

from ..core.exceptions import Remedy
from ..core.whole_file import reason_of

FILE_LIMIT = 2**32
"""The most bytes of a file: half a billion probabilities. Set it higher for a larger file that you trust."""

HEADER_LIMIT = 2**25
"""The most bytes of a header: more than 100,000 blocks."""

ITEM_LIMIT = 2**21
"""The most values in one JSON text: each may take 200 bytes of memory, however short it is written."""

DEPTH_LIMIT = 40
"""The deepest nesting of lists and objects in a JSON text: files of this package nest fewer than 10."""

CHUNK_BYTES = 2**20
"""The number of bytes of a tensor that are read and checked at a time, at least one row."""

CHECKSUM = "sha256"
DTYPES = {name: np.dtype(kind) for name, kind in (("F64", "<f8"), ("I64", "<i8"), ("U8", "u1"), ("BOOL", "u1"))}

DAMAGED = "The file is damaged or was altered: take it from a copy, or save the network again."
FOREIGN = Remedy("give a file written by {}", "save, of a network or an estimator", model=...)
SIGNATURES = (  # no header begins with one of them, as the fourth byte of its length is at most 2
    (rb"(?s)\x80[\x02-\x05].[^\x00-\x02]", "a pickle, which could run code, so that fgrn never opens one"),
    (rb"PK\x03\x04", "a zip archive"),
    (rb"\x89PNG", "a PNG image"),
    (rb"\x93NUMPY", "a NumPy array"),
    (rb"\x1f\x8b", "a gzip file"),
    (rb"[\t\n\r -~]+\Z", "a text file"),
)

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60

Kind = TypeVar("Kind")
Entry: TypeAlias = tuple[str, tuple[int, ...]]
Readable: TypeAlias = io.BufferedReader | io.BytesIO


class Refused(Exception):
    """The reason why a file is not read, and what to do."""

    def __init__(self, what: str, remedy: Remedy | str = DAMAGED) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def short_repr(value: object) -> str:
    """Return the repr of a value from a file, shortened for a message."""
    return _SHORT.repr(value)


def value_of(kind: type[Kind], record: Mapping[str, Any], key: str, what: str) -> Kind:
    """Return the value of a key in a record; `Refused` unless its type is exactly `kind` (a bool is not an int)."""
    if key not in record:
        raise Refused(f"{what} has no {short_repr(key)}.")
    value = record[key]
    if type(value) is not kind:
        raise Refused(f"{what} has {short_repr(value)} as its {short_repr(key)}.")
    return value


# Bytes


def container_bytes(document: Mapping[str, object], tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return the bytes of a file: the document, tensors of float64 and bool, and their checksum."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    arrays: dict[str, np.ndarray] = {}
    digests = {}
    for name, tensor in tensors.items():
        dtype = "BOOL" if tensor.dtype == bool else "F64"
        # safetensors copies the memory as it is, so it must be in C order
        array = np.ascontiguousarray(tensor, dtype=bool if dtype == "BOOL" else DTYPES[dtype])
        arrays[name], digests[name] = array, (dtype, array.shape, sha256(array.reshape(-1).data).digest())
    arrays[CHECKSUM] = np.frombuffer(checksum(text, digests), dtype=np.uint8)
    # safetensors writes several keys in an order that varies between runs, so there is only one
    return safetensors.save(arrays, {"fgrn": text})


def checksum(text: str, digests: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """Return the SHA-256 of the document's digest and of [name, type, shape, digest] of every tensor, by name."""
    total = sha256(sha256(text.encode("ascii")).digest())
    for name in sorted(digests):
        dtype, shape, digest = digests[name]
        total.update(json.dumps([name, dtype, shape, digest.hex()]).encode("ascii"))
    return total.digest()


class _WantedTensor(NamedTuple):
    what: str
    dtype: str
    shape: tuple[int, ...]


class Container:
    """A file whose header has been read; the tensors are read together after all needed ones were requested.

    `check` is called with the document before tensors are looked up, as a later format may have other types of tensors.
    """

    def __init__(self, file: Readable, check: Callable[[dict[str, Any]], None]) -> None:
        header, room = _read_header(file)
        metadata = header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or "fgrn" not in metadata:
            raise Refused("it is a safetensors file, but not of a network.", FOREIGN)
        self._text = value_of(str, metadata, "fgrn", "its header")
        if not self._text.isascii():
            raise Refused("its description is not plain ASCII.")
        self.document = _parse_json(self._text, "its description")
        check(self.document)
        self._file, self._entries = file, _tensor_entries(header, room)
        self._wanted = {CHECKSUM: _WantedTensor("its checksum", "U8", (sha256().digest_size,))}

    def want(self, name: str, what: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Request a tensor by name; a tensor can be requested once, so that the result is not larger than the file."""
        if name in self._wanted:
            raise Refused(f"{what} and {self._wanted[name].what} are one tensor, {short_repr(name)}.")
        self._wanted[name] = _WantedTensor(what, dtype, shape)

    def tensors(self, check: Callable[[np.ndarray, int, str], None]) -> dict[str, np.ndarray]:
        """Return all requested tensors by name, read in the order of the file, with all checks done.

        `check` is called with blocks of rows of every F64 tensor, the number of the first row, and its meaning.
        """
        for name, want in self._wanted.items():
            found = self._entries.get(name, ("missing", ()))
            if found != (want.dtype, want.shape):
                got = " ".join(map(str, filter(None, found)))
                raise Refused(f"{want.what} must be {want.dtype} {want.shape}; the tensor {short_repr(name)} is {got}.")
        arrays: dict[str, np.ndarray] = {}
        digests = {}
        for name, (dtype, shape) in self._entries.items():
            digest = sha256()
            if name in self._wanted:
                array = arrays[name] = np.empty(shape, DTYPES[dtype])
                for first, rows in _read_into(self._file, array):
                    digest.update(rows.reshape(-1).data)
                    if dtype == "F64":
                        check(rows, first, self._wanted[name].what)
                    elif dtype == "BOOL" and rows.max() > 1:
                        raise Refused(f"{self._wanted[name].what} is more than yes and no.")
            else:
                size = prod(shape) * DTYPES[dtype].itemsize
                for first in range(0, size, CHUNK_BYTES):
                    digest.update(self._file.read(min(CHUNK_BYTES, size - first)))
            digests[name] = (dtype, shape, digest.digest())
        del digests[CHECKSUM]
        if arrays.pop(CHECKSUM).tobytes() != checksum(self._text, digests):
            raise Refused("its checksum is wrong.")
        return arrays


def _read_header(file: Readable) -> tuple[dict[str, Any], int]:
    """Return the header, and the number of bytes after it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size == 0:
        raise Refused("it is empty.")
    if size > FILE_LIMIT:
        remedy = f"If you trust it, set {__name__}.FILE_LIMIT higher."
        raise Refused(f"it has {size:,} bytes; the limit is {FILE_LIMIT:,}.", remedy)
    start = file.read(8)
    length = int.from_bytes(start, "little")
    fits = len(start) == 8 and 8 + length <= size
    raw = file.read(length) if fits and length <= HEADER_LIMIT else b""
    if not raw.startswith(b"{") or not raw.isascii() or len(raw) < length:
        for signature, kind in SIGNATURES:
            if re.match(signature, start):
                raise Refused(f"it is {kind}.", FOREIGN)
        if not fits or (raw and len(raw) < length):
            raise Refused(f"it has {size:,} bytes, but its header claims {length:,}: it was cut short.")
        if length > HEADER_LIMIT:
            raise Refused(f"its header has {length:,} bytes; the limit is {HEADER_LIMIT:,}.", FOREIGN)
        raise Refused("it does not begin as a model file does.", FOREIGN)
    return _parse_json(raw.decode("ascii"), "its header"), size - 8 - length


def _parse_json(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object in a text; `Refused` if it is too large, too deep or not valid."""
    if sum(map(text.count, ",[{")) > ITEM_LIMIT:
        raise Refused(f"{what} holds more than {ITEM_LIMIT:,} values.", FOREIGN)
    try:
        found = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_finite_number,
        )
    except RecursionError:
        raise Refused(f"{what} is nested too deeply.") from None
    except ValueError as error:
        raise Refused(f"{what} is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise Refused(f"{what} is not a JSON object.")
    level: list[Any] = [found]
    for _ in range(DEPTH_LIMIT):
        level = [one for held in level for one in (held.values() if isinstance(held, dict) else held)]
        level = [one for one in level if isinstance(one, (dict, list))]
    if level:
        raise Refused(f"{what} is nested too deeply.")
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict; `Refused` if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refused(f"a name is there twice in {short_repr(pairs)}.")
    return found


def _whole_number(digits: str) -> int:
    """Return a JSON integer; `Refused` if it has more than 64 bits."""
    if len(digits) > 20:  # long integers are slow to parse and can be chosen to have equal hashes
        raise Refused(f"the whole number {digits[:20]}... has more than 64 bits.")
    return int(digits)


def _finite_number(text: str) -> float:
    """Return a JSON number with a fraction or exponent; `Refused` for infinity, NaN and overflow."""
    number = float(text)
    if not isfinite(number):
        raise Refused(f"the number {text[:20]} is not finite.")
    return number


def _tensor_entries(header: dict[str, Any], room: int) -> dict[str, Entry]:
    """Return type and shape of the tensors in file order; `Refused` unless they fill the file without gaps."""
    places: list[tuple[int, int, str, Entry]] = []
    for name in header:
        what = f"the tensor {short_repr(name)}"
        record = value_of(dict, header, name, "its header")
        dtype, shape = value_of(str, record, "dtype", what), value_of(list, record, "shape", what)
        place = value_of(list, record, "data_offsets", what)
        if len(shape) > 8 or len(place) != 2 or any(type(n) is not int or n < 0 for n in (*shape, *place)):
            raise Refused(f"{what} has {short_repr(shape)} as its shape and {short_repr(place)} as its place.")
        if dtype not in DTYPES or prod(shape) * DTYPES[dtype].itemsize != place[1] - place[0]:
            raise Refused(f"{what}, {short_repr(dtype)} of shape {short_repr(shape)}, does not fill {place}.")
        places.append((place[0], place[1], name, (dtype, tuple(shape))))
    places.sort()
    at = 0
    for begin, end, name, _ in places:
        if begin != at:
            raise Refused(f"the tensor {short_repr(name)} begins at byte {begin:,}, not at {at:,}.")
        at = end
    if at != room:
        how = "it was cut short" if at > room else "something was appended"
        raise Refused(f"its tensors have {at:,} bytes, but there are {room:,}: {how}.")
    return {name: entry for _, _, name, entry in places}


def _read_into(file: Readable, array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Fill an array from the file in blocks of rows, and yield the number of the first row and the block."""
    rows = np.atleast_2d(array)
    step = max(1, CHUNK_BYTES // rows[0].nbytes)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        if file.readinto(some.reshape(-1).data) < some.nbytes:
            raise Refused("it was cut short while it was read.")
        yield first, some


# Opening


def open_regular_file(place: Path) -> io.BufferedReader:
    """Open a file for reading; `Refused` for a folder, a pipe or a device, OSError if there is no file."""
    try:
        mode = place.stat().st_mode
    except ValueError as error:
        raise Refused(f"{reason_of(error)}.", "Check the name.") from error
    if stat.S_ISDIR(mode):
        raise Refused("it is a folder.", "Give the name of a file in it.")
    if not stat.S_ISREG(mode):
        raise Refused("it is a pipe or a device.", FOREIGN)
    return place.open("rb")
