"""Networks in the formats of other programs: BIF, XMLBIF, Hugin NET, XDSL, UAI, DSC and DNE, also gzipped.

This folder converts between files and `Document`, and knows nothing of inference. Each format has a module with
`parse(text, file, rescale)` and, unless it is read-only, `serialise(document)`.
"""

from __future__ import annotations

import codecs
import gzip
import math
import os
import re
import zlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ...bayes.document import Document
from ...core.exceptions import FgrnError, NetworkFileError, Remedy
from ...core.settings import choice, number
from ...core.whole_file import reason_of
from ...tables.table_file import write_file
from ..container import Refused, open_regular_file
from .builder import RESCALE as RESCALE
from .builder import check_document
from .markup import declared_encoding
from .tokens import PERCENT, SLASHES, STARS

FORMATS = ("bif", "xmlbif", "net", "xdsl", "uai")
"""The formats that are read and written; each is also the name of its module."""

READ_ONLY = ("dsc", "dne")
"""The formats that are read and not written: those of MSBN and of Netica."""

WITH_DECISIONS = ("net", "xdsl")
"""The formats that hold influence diagrams."""

EXTENSIONS = {
    ".bif": "bif",
    ".xml": "xmlbif",
    ".xmlbif": "xmlbif",
    ".bifxml": "xmlbif",
    ".net": "net",
    ".hugin": "net",
    ".xdsl": "xdsl",
    ".uai": "uai",
}

READABLE = {**EXTENSIONS, ".oobn": "net", ".dsc": "dsc", ".dne": "dne", ".dnet": "dne"}
"""The extensions of files that can be read; those in EXTENSIONS can be written, too."""

UNREADABLE = {
    ".dsl": ("DSL, the older format of GeNIe", "GeNIe saves it as .xdsl, which fgrn reads."),
    ".neta": ("NETA, a binary format of Netica", "Netica saves it as .dne, which fgrn reads."),
    ".hkb": ("HKB, a binary format of Hugin", "Hugin saves it as .net, which fgrn reads."),
    ".xbn": ("XBN, a format of MSBNx", "MSBNx saves it as .dsc, which fgrn reads."),
    ".pgmx": ("ProbModelXML, the format of OpenMarkov", "pgmpy reads it, and writes BIF, which fgrn reads."),
    ".elv": ("ELV, the format of Elvira", "OpenMarkov reads it; from there pgmpy writes BIF, which fgrn reads."),
}
"""Extensions of formats that are not read: what each is, and which program converts it."""

TEXT_LIMIT = 2**29
"""The most bytes of text in a file, unpacked. Set it higher for a larger file that you trust."""

PLAIN_LIMIT = 2**25
PACKED_LIMIT = 200
"""Above PLAIN_LIMIT bytes a gzipped file may unpack to this many times its size: networks need about 30."""

UNPACK_BYTES = 2**20

# the accepted ones of Python's codecs: some others do not decode to text, and some take quadratic time
_ENCODINGS = ("utf-8", "utf-16", "ascii", "iso8859", "cp", "koi8", "mac", "gb", "big5", "euc", "shift")

_BLANKS_AND_COMMENTS = rf"(?:\s|{PERCENT}\n|{SLASHES}\n|{STARS})*+"
_BEGINNINGS = (
    ("uai", re.compile(r"\s*(?:BAYES|MARKOV)\b", re.I)),
    ("net", re.compile(_BLANKS_AND_COMMENTS + r"(?:net|class|node|potential)\b", re.S)),
    ("dne", re.compile(_BLANKS_AND_COMMENTS + r"bnet\b", re.S)),
    ("dsc", re.compile(_BLANKS_AND_COMMENTS + r"(?:belief|diagnostic|trouble)\s+network\b", re.S | re.I)),
    ("bif", re.compile(_BLANKS_AND_COMMENTS + r"(?:network|variable|probability)\b", re.S)),
)


def read_document(
    path: str | os.PathLike[str], format: str | None = None, *, rescale: bool | float = RESCALE
) -> Document:
    """Return the network in a file as a Document.

    Args:
        path: the path of the file; gzipped files are unpacked.
        format: "bif", "xmlbif", "net", "xdsl", "uai", "dsc" or "dne"; None for the one that the extension of the name
            or the content of the file indicates.
        rescale: the largest accepted difference between the sum of a row and one. Rows that differ by at most 0.0001
            were rounded, and are kept as they are; rows that differ by at most this are divided by their sum, with a
            warning; others are an error. True accepts any sum, as in tables of counts; False accepts none.
    """
    place = Path(path)
    _check_format(format, (*FORMATS, *READ_ONLY))
    if not isinstance(rescale, bool):
        number("rescale", rescale)
    ending = _suffix(place)
    if format is None and ending in UNREADABLE:
        what, remedy = UNREADABLE[ending]
        raise _cannot_be_read(place, f"it is {what}. {remedy}")
    data = _read_bytes(place)
    kind = format or READABLE.get(ending)
    text = _decode_text(data, place, kind)
    if not text.strip():
        raise _cannot_be_read(place, "it is empty.")
    kind = kind or _detect_format(text[: 2**16])
    if kind is None:
        choose = Remedy(f"state it ({', '.join((*FORMATS, *READ_ONLY))})", format=...)
        raise _cannot_be_read(place, "its format is not known.", choose)
    bound = (math.inf if rescale else 0.0) if isinstance(rescale, bool) else float(rescale)
    try:
        document: Document = _module(kind).parse(text, place.name, bound)
    except MemoryError:
        raise _cannot_be_read(place, "there is too little memory for it.") from None
    return document


def format_to_write(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the format of a network to be written: as given, or by the extension of the file name."""
    place = Path(path)
    _check_format(format, FORMATS)
    kind = format or EXTENSIONS.get(_suffix(place))
    if kind is None:
        endings = ", ".join(EXTENSIONS)
        only = f"{_suffix(place)} can be read but not written; " if _suffix(place) in READABLE else ""
        told = f"{only}the format must be given by the extension of the name ({endings})."
        own = f"a model file of fgrn is written by save: model.save({str(place)!r})"
        remedies = [own] if _suffix(place) == ".fgrn" else [Remedy("state it", format=...)]
        raise NetworkFileError(told, file=repr(str(place)), remedies=remedies)
    return kind


def write_document(document: Document, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a network to a file, completely or not at all.

    Args:
        document: the network.
        path: the path of the file; gzipped if its name ends in .gz.
        format: as for `read_document`; None for the one that the extension of the name indicates.
    """
    place, kind = Path(path), format_to_write(path, format)
    check_document(document)
    if (document.decisions or document.utilities) and kind not in WITH_DECISIONS:
        raise NetworkFileError(
            f"{kind.upper()} cannot hold decisions and utilities.",
            file=repr(str(place)),
            remedies="write XDSL (.xdsl) or Hugin NET (.net)",
        )
    data = _module(kind).serialise(document).encode("utf-8")
    # the same document gives the same bytes at any time
    write_file(str(place), gzip.compress(data, mtime=0) if _is_packed_name(place) else data, NetworkFileError)


def read_evidence(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the evidence in a UAI evidence file, by variable, as `propagate` takes it.

    One sample gives a state for each observed variable, {"x3": 1}; several give a list for each variable, with None
    where a sample has no evidence on it. No evidence is an empty mapping.
    """
    from .uai import parse_evidence

    place = Path(path)
    return parse_evidence(_decode_text(_read_bytes(place), place, "uai"), place.name)


def _module(kind: str) -> Any:
    return import_module(f".{kind}", __name__)


def _check_format(format: str | None, known: tuple[str, ...]) -> None:
    if format is not None:
        choice("format", format, known)


def _is_packed_name(place: Path) -> bool:
    return place.suffix.lower() == ".gz"


def _suffix(place: Path) -> str:
    return (place.with_suffix("") if _is_packed_name(place) else place).suffix.lower()


def _cannot_be_read(place: Path, why: str, remedy: Remedy | str = "") -> NetworkFileError:
    return NetworkFileError(f"{str(place)!r} cannot be read: {why}", value=str(place), remedies=remedy)


def _detect_format(text: str) -> str | None:
    """Return the format of a text, recognised by its beginning; None if unknown."""
    if text.lstrip().startswith("<"):
        return "xdsl" if "<smile" in text else "xmlbif"
    return next((kind for kind, sign in _BEGINNINGS if sign.match(text)), None)


# Bytes


def _read_bytes(place: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzipped."""
    try:
        with open_regular_file(place) as file:
            data = _check_limit(place, file.read(TEXT_LIMIT + 1))
            if not data.startswith(b"\x1f\x8b"):
                if _is_packed_name(place) and data:
                    raise _cannot_be_read(place, "its name ends in .gz, but it is not gzipped. Rename it.")
                return data
            return _unpack(place, data)
    except Refused as problem:
        raise _cannot_be_read(place, problem.what) from problem
    except FgrnError:
        raise
    except FileNotFoundError as error:
        raise NetworkFileError(
            f"There is no file {str(place)!r}.", value=str(place), remedies="check the name and the folder"
        ) from error
    except OSError as error:
        raise _cannot_be_read(place, f"{reason_of(error)}. Check the name and the permissions.") from error


def _check_limit(place: Path, data: bytes) -> bytes:
    """Return the data; an error if it is larger than TEXT_LIMIT."""
    if len(data) > TEXT_LIMIT:
        remedy = f"If you trust it, set {__name__}.TEXT_LIMIT higher."
        raise _cannot_be_read(place, f"it holds more than {TEXT_LIMIT:,} bytes of text, the limit. {remedy}")
    return data


def _unpack(place: Path, data: bytes) -> bytes:
    """Return the content of a gzip file, unpacked in pieces so that a small file cannot fill the memory."""
    pieces: list[bytes] = []
    size, rest = 0, data
    try:
        while rest:
            unpacker = zlib.decompressobj(wbits=31)
            while not unpacker.eof:
                piece = unpacker.decompress(rest, UNPACK_BYTES)
                rest = unpacker.unconsumed_tail
                if not piece and not rest and not unpacker.eof:
                    raise _cannot_be_read(place, "it is a gzip file that was cut short. Take it from a copy.")
                pieces.append(piece)
                size += len(piece)
                if size > TEXT_LIMIT:
                    _check_limit(place, b"".join(pieces))
                if size > max(PLAIN_LIMIT, PACKED_LIMIT * len(data)):
                    much = f"{len(data):,} bytes unpack to more than {size:,}, which is not a network"
                    raise _cannot_be_read(place, f"{much}. If you trust it, unpack it first.")
            rest = unpacker.unused_data
            if rest and not rest.startswith(b"\x1f\x8b"):
                break  # padding follows the last member
    except zlib.error as error:
        raise _cannot_be_read(place, f"it is a damaged gzip file ({error}). Take it from a copy.") from None
    return b"".join(pieces)


def _decode_text(data: bytes, place: Path, kind: str | None) -> str:
    """Return the text of a file, with a line feed at the end of each line."""
    encoding = "utf-8"
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            encoding = name
            break
    else:
        if b"\x00" in data[:4096]:
            if _suffix(place) == ".fgrn":
                own = Remedy("load it", f"fgrn.load({str(place)!r})", model_file=...)
                raise _cannot_be_read(place, "it is a model file of fgrn.", own)
            raise _cannot_be_read(place, "it is not a text file.")
        if data.lstrip()[:5] == b"<?xml":
            encoding = declared_encoding(data[:200].decode("latin-1")) or encoding
    try:
        if not codecs.lookup(encoding).name.startswith(_ENCODINGS):
            raise LookupError(encoding)
        text = data.decode(encoding)
    except LookupError:
        raise _cannot_be_read(place, f"it claims the encoding {encoding[:40]!r}, which is not known.") from None
    except UnicodeDecodeError as error:
        if kind not in ("net", *READ_ONLY):  # these programs write Latin-1
            line = data.count(b"\n", 0, error.start) + 1
            raise NetworkFileError(
                f"the bytes there are not text in {encoding.upper()}.",
                file=place.name,
                line=line,
                remedies="save it as UTF-8",
            ) from None
        text = data.decode("latin-1")
    except UnicodeError as error:  # such as UTF-16 without a byte order mark
        raise _cannot_be_read(place, f"it is not text in {encoding} ({error}).") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
