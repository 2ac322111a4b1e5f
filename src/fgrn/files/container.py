"""The container of model files: a JSON document and tensors in one safetensors file, in which nothing can run.

    8 bytes    the length of the header
    header     JSON: type, shape and place of every tensor; under __metadata__ the key "fgrn", the document as text
    tensors    among them "sha256", a checksum of the document and of all other tensors

A file is read as if an enemy had written it: what it claims is checked against its size before memory is
given, and numbers are checked as they come in, some rows at a time. That is why it is read here: safetensors
would take all of it into memory before anyone can look, or map it, and a mapped file that somebody cuts short
ends the process. The checksum is there for accidents; it does not say who wrote the file.

What the document and the tensors mean is not known here. `Refused` says what is wrong with a file.
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
from ..core.whole_file import reason

FILE_LIMIT = 2**32
"""Most bytes of a file: half a billion probabilities. Set it higher for a file that is larger and trusted."""

HEADER_LIMIT = 2**25
"""Most bytes of a header: more than 100,000 blocks."""

ITEM_LIMIT = 2**21
"""Most values in one JSON text: each may take 200 bytes of memory, however short it is written."""

DEPTH_LIMIT = 40
"""How deep lists and objects may lie in each other in a JSON text: those that are written here have fewer than 10."""

CHUNK = 2**20
"""How many bytes of a tensor are read and checked at a time, unless one row has more."""

CHECKSUM = "sha256"
DTYPES = {name: np.dtype(kind) for name, kind in (("F64", "<f8"), ("I64", "<i8"), ("U8", "u1"), ("BOOL", "u1"))}

DAMAGED = "The file is damaged or was altered: take it from a copy, or save the network again."
FOREIGN = Remedy("give a file written by {}", "save, of a network or an estimator", model=...)
SIGNATURES = (  # of which none is the length of a header: the fourth byte of that is at most 2
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
    """Why a file is not read: what is wrong, and what to do."""

    def __init__(self, what: str, remedy: Remedy | str = DAMAGED) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def shown(value: object) -> str:
    """A value from a file, cut to what a message can hold."""
    return _SHORT.repr(value)


def value_of(kind: type[Kind], record: Mapping[str, Any], key: str, what: str) -> Kind:
    """The value of a key, which is of exactly this type: True is no number here."""
    if key not in record:
        raise Refused(f"{what} has no {shown(key)}.")
    value = record[key]
    if type(value) is not kind:
        raise Refused(f"{what} has {shown(value)} as its {shown(key)}.")
    return value


# Bytes


def packed(document: Mapping[str, object], tensors: Mapping[str, np.ndarray]) -> bytes:
    """A whole file: the document, tensors of float64 and bool, and their checksum."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    arrays: dict[str, np.ndarray] = {}
    digests = {}
    for name, tensor in tensors.items():
        dtype = "BOOL" if tensor.dtype == bool else "F64"
        # safetensors copies memory as it lies, so it has to lie row by row
        array = np.ascontiguousarray(tensor, dtype=bool if dtype == "BOOL" else DTYPES[dtype])
        arrays[name], digests[name] = array, (dtype, array.shape, sha256(array.reshape(-1).data).digest())
    arrays[CHECKSUM] = np.frombuffer(checksum(text, digests), dtype=np.uint8)
    # safetensors writes several keys in an order that changes from run to run, so everything is under one
    return safetensors.save(arrays, {"fgrn": text})


def checksum(text: str, digests: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """The digest of the document's digest and of [name, type, shape, digest] of every tensor, by name."""
    total = sha256(sha256(text.encode("ascii")).digest())
    for name in sorted(digests):
        dtype, shape, digest = digests[name]
        total.update(json.dumps([name, dtype, shape, digest.hex()]).encode("ascii"))
    return total.digest()


class _Wanted(NamedTuple):
    what: str
    dtype: str
    shape: tuple[int, ...]


class Container:
    """A file whose header has been read. Its tensors are read once all that are wanted have been named.

    `check` is given the document before anyone looks for tensors: those of a later format may be of other types.
    """

    def __init__(self, file: Readable, check: Callable[[dict[str, Any]], None]) -> None:
        header, room = _header(file)
        metadata = header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or "fgrn" not in metadata:
            raise Refused("it is a safetensors file, but not of a network.", FOREIGN)
        self._text = value_of(str, metadata, "fgrn", "its header")
        if not self._text.isascii():
            raise Refused("its description is not plain ASCII.")
        self.document = _parsed(self._text, "its description")
        check(self.document)
        self._file, self._entries = file, _entries(header, room)
        self._wanted = {CHECKSUM: _Wanted("its checksum", "U8", (sha256().digest_size,))}

    def want(self, name: str, what: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Ask for a tensor, which is one thing only, lest what is made of a file outgrow it."""
        if name in self._wanted:
            raise Refused(f"{what} and {self._wanted[name].what} are one tensor, {shown(name)}.")
        self._wanted[name] = _Wanted(what, dtype, shape)

    def tensors(self, check: Callable[[np.ndarray, int, str], None]) -> dict[str, np.ndarray]:
        """All tensors that are wanted, by name, read in the order of the file and checked, first each and then all.

        `check` is given the rows of every F64 tensor as they come in, the number of the first, and what they are.
        """
        for name, want in self._wanted.items():
            found = self._entries.get(name, ("missing", ()))
            if found != (want.dtype, want.shape):
                got = " ".join(map(str, filter(None, found)))
                raise Refused(f"{want.what} must be {want.dtype} {want.shape}; the tensor {shown(name)} is {got}.")
        arrays: dict[str, np.ndarray] = {}
        digests = {}
        for name, (dtype, shape) in self._entries.items():
            digest = sha256()
            if name in self._wanted:
                array = arrays[name] = np.empty(shape, DTYPES[dtype])
                for first, rows in _filled(self._file, array):
                    digest.update(rows.reshape(-1).data)
                    if dtype == "F64":
                        check(rows, first, self._wanted[name].what)
                    elif dtype == "BOOL" and rows.max() > 1:
                        raise Refused(f"{self._wanted[name].what} is more than yes and no.")
            else:
                size = prod(shape) * DTYPES[dtype].itemsize
                for first in range(0, size, CHUNK):
                    digest.update(self._file.read(min(CHUNK, size - first)))
            digests[name] = (dtype, shape, digest.digest())
        del digests[CHECKSUM]
        if arrays.pop(CHECKSUM).tobytes() != checksum(self._text, digests):
            raise Refused("its checksum is wrong.")
        return arrays


def _header(file: Readable) -> tuple[dict[str, Any], int]:
    """The header, and how many bytes there are for tensors."""
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
    return _parsed(raw.decode("ascii"), "its header"), size - 8 - length


def _parsed(text: str, what: str) -> dict[str, Any]:
    if sum(map(text.count, ",[{")) > ITEM_LIMIT:
        raise Refused(f"{what} holds more than {ITEM_LIMIT:,} values.", FOREIGN)
    try:
        found = json.loads(
            text,
            object_pairs_hook=_without_repeats,
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


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refused(f"a name is there twice in {shown(pairs)}.")
    return found


def _whole_number(digits: str) -> int:
    if len(digits) > 20:  # many long ones can be made to collide in a set, and each takes its time
        raise Refused(f"the whole number {digits[:20]}... has more than 64 bits.")
    return int(digits)


def _finite_number(text: str) -> float:
    """A number with a fraction or exponent; infinity, NaN, and what is too large for either, are none in JSON."""
    number = float(text)
    if not isfinite(number):
        raise Refused(f"the number {text[:20]} is not finite.")
    return number


def _entries(header: dict[str, Any], room: int) -> dict[str, Entry]:
    """The tensors in the order of the file. They fill it: no gap, no overlap, nothing beyond its end."""
    places: list[tuple[int, int, str, Entry]] = []
    for name in header:
        what = f"the tensor {shown(name)}"
        record = value_of(dict, header, name, "its header")
        dtype, shape = value_of(str, record, "dtype", what), value_of(list, record, "shape", what)
        place = value_of(list, record, "data_offsets", what)
        if len(shape) > 8 or len(place) != 2 or any(type(n) is not int or n < 0 for n in (*shape, *place)):
            raise Refused(f"{what} has {shown(shape)} as its shape and {shown(place)} as its place.")
        if dtype not in DTYPES or prod(shape) * DTYPES[dtype].itemsize != place[1] - place[0]:
            raise Refused(f"{what}, {shown(dtype)} of shape {shown(shape)}, does not fill {place}.")
        places.append((place[0], place[1], name, (dtype, tuple(shape))))
    places.sort()
    at = 0
    for begin, end, name, _ in places:
        if begin != at:
            raise Refused(f"the tensor {shown(name)} begins at byte {begin:,}, not at {at:,}.")
        at = end
    if at != room:
        how = "it was cut short" if at > room else "something was appended"
        raise Refused(f"its tensors have {at:,} bytes, but there are {room:,}: {how}.")
    return {name: entry for _, _, name, entry in places}


def _filled(file: Readable, array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Fills an array some rows at a time: memory is only taken while the rows are good, and none by a hole."""
    rows = np.atleast_2d(array)
    step = max(1, CHUNK // rows[0].nbytes)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        if file.readinto(some.reshape(-1).data) < some.nbytes:
            raise Refused("it was cut short while it was read.")
        yield first, some


# The disk


def opened(place: Path) -> io.BufferedReader:
    """A file to read from. OSError where the system has none; a pipe or a device could go on for ever."""
    try:
        mode = place.stat().st_mode
    except ValueError as error:
        raise Refused(f"{reason(error)}.", "Check the name.") from error
    if stat.S_ISDIR(mode):
        raise Refused("it is a folder.", "Give the name of a file in it.")
    if not stat.S_ISREG(mode):
        raise Refused("it is a pipe or a device.", FOREIGN)
    return place.open("rb")
