"""Example tables by name: two that need no network access, and the three of the paper.

`names()` lists them and `load(name)` reads one. The digits come with scikit-learn and the survey is generated here; the
files of the paper are searched in folders, then downloaded once. The package itself contains no tables.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from ..core.exceptions import FgrnError, Remedy, TableFileError, counted, unknown_name

Value: TypeAlias = str | int | None
Fetch: TypeAlias = Callable[[str], bytes]
"""A function from an address to the bytes at it, which raises OSError if it fails."""

FOLDER_VARIABLE = "FGRN_DATA"
SHARED = Path("shared", "data", "uci")
ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"
DOWNLOAD_LIMIT = 2**20
"""The most bytes of a file: many times more than any of these has."""
TIMEOUT = 30.0
"""Seconds to wait for an answer of a server."""

SHADES = 4
SIDE = 8
SURVEY_ROWS = 1200
SURVEY_SEED = 1


@dataclass(frozen=True)
class Dataset:
    """A table with values by column, one of which is the class.

    Attributes:
        name: the name for `load`.
        columns: the values by name of the column, None for a missing value.
        target: the name of the class column.
        description: what a row is, and notes on the columns.
        source: where the table comes from.
        levels: the words of each column that has words; ordinal columns have them in order.
    """

    name: str
    columns: Mapping[str, list[Any]]
    target: str
    description: str
    source: str
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def features(self) -> dict[str, list[Any]]:
        """The columns without the class."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def classes(self) -> list[Any]:
        """The class column."""
        return self.columns[self.target]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.classes)

    @property
    def unknown(self) -> int:
        """The number of missing values."""
        return sum(value is None for column in self.columns.values() for value in column)

    def frame(self, backend: str = "pandas") -> Any:
        """Return the columns, with the class, as a dataframe of "pandas", "polars" or "pyarrow".

        Args:
            backend: the name of the library.
        """
        from ..tables.outputs import frame_of

        return frame_of(backend, self.columns)

    def __repr__(self) -> str:
        missing = f", {counted(self.unknown, 'value')} unknown" if self.unknown else ""
        return (
            f"Dataset {self.name!r}: {counted(self.rows, 'row')}, "
            f"{counted(len(self.columns), 'column')}{missing}; class {self.target!r}"
        )


def names() -> dict[str, str]:
    """Return the names of the tables, with a line on each."""
    return {
        "digits": "1,797 handwritten digits of 8 x 8 pixels in 4 shades of grey (with scikit-learn)",
        "survey": "1,200 people asked how they travel, 12 questions with missing values (generated)",
        **{name: table.line for name, table in _ARCHIVE_TABLES.items()},
    }


def load(name: str, folder: str | Path | None = None, *, fetch: Fetch | None = None) -> Dataset:
    """Return a table by name.

    The three tables of the paper are files. They are searched in `folder`, in the folder named by the environment
    variable FGRN_DATA, in shared/data/uci of the current folder or of one above it, and in the user's cache; otherwise
    they are downloaded into that cache. A file that differs from the one in the archive is an error.

    Args:
        name: one of `names()`.
        folder: the first folder to search.
        fetch: downloads a file: a function from an https address to bytes.
    """
    if name == "digits":
        return _digits()
    if name == "survey":
        return _survey()
    if not isinstance(name, str) or name not in _ARCHIVE_TABLES:
        raise unknown_name("table", name, names())
    return _ARCHIVE_TABLES[name].read(name, _archive_text(_ARCHIVE_TABLES[name], folder, fetch or download))


def download(url: str) -> bytes:
    """Return the bytes at an https address, at most a little more than DOWNLOAD_LIMIT."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    if not url.startswith("https://"):
        raise TableFileError(f"Only https addresses are downloaded from. Got {url} instead.")
    try:
        with urlopen(Request(url, headers={"User-Agent": "fgrn"}), timeout=TIMEOUT) as answer:
            if not answer.geturl().startswith("https://"):
                raise TableFileError(f"{url} leads to {answer.geturl()}, which is not an https address.")
            data: bytes = answer.read(DOWNLOAD_LIMIT + 1)
    except HTTPException as error:
        raise TableFileError(f"{url} was answered in a way that is not HTTP: {error!r}.") from error
    return data


# The three tables of the paper


@dataclass(frozen=True)
class _ArchiveTable:
    """A file of the archive: its columns in order, each with the words for its codes, if it has words.

    A column named None is left out. The last column is the class.
    """

    line: str
    address: str
    md5: str
    columns: Sequence[tuple[str | None, Mapping[str, str]]]
    description: str
    source: str

    @property
    def file(self) -> str:
        return self.address.rsplit("/", 1)[1]

    def read(self, name: str, text: str) -> Dataset:
        rows = [row for row in csv.reader(text.splitlines()) if row]
        columns: dict[str, list[Any]] = {}
        for position, (title, words) in enumerate(self.columns):
            if title is not None:
                columns[title] = [_parse_value(row[position], words) for row in rows]
        levels = {title: tuple(words.values()) for title, words in self.columns if title is not None and words}
        return Dataset(name, columns, list(columns)[-1], self.description, self.source, levels)


def _parse_value(text: str, words: Mapping[str, str]) -> Value:
    if text == "?":
        return None
    return words[text] if words else int(text)


def _levels_by_code(*levels: str, first: int = 1) -> dict[str, str]:
    """Return the levels by their codes in the file, which count from `first`."""
    return {str(number): level for number, level in enumerate(levels, start=first)}


def _archive_text(table: _ArchiveTable, folder: str | Path | None, fetch: Fetch) -> str:
    """Return the text of a file, from the first folder that has it, or downloaded."""
    looked = []
    for place in _folders(folder):
        path = place / table.file
        looked.append(str(path))
        data = _bytes_if_there(path)
        if data is not None:
            _check_md5(table, data, str(path), "Delete it, or name another folder; a fresh one is then looked for.")
            return data.decode("ascii")
    url = f"{ARCHIVE}/{table.address}"
    try:
        data = fetch(url)
    except (OSError, ValueError) as error:
        raise TableFileError(
            f"There is no {', no '.join(looked)}, and downloading {url} failed ({error}).",
            value=url,
            remedies=(
                Remedy(f"put {table.file} in a folder and name that", f"'folder' or in {FOLDER_VARIABLE}", folder=...),
                "try again with a network",
            ),
        ) from error
    _check_md5(table, data, url, f"Take {table.file} from elsewhere, and name its folder in {FOLDER_VARIABLE}.")
    _write_to_cache(table.file, data)
    return data.decode("ascii")


def _folders(folder: str | Path | None) -> Iterator[Path]:
    """Yield the folders to search, in order."""
    if folder is not None:
        yield Path(folder)
    if os.environ.get(FOLDER_VARIABLE):
        yield Path(os.environ[FOLDER_VARIABLE])
    with suppress(OSError):  # the current folder may have been removed
        here = Path.cwd()
        yield from (above / SHARED for above in (here, *here.parents) if (above / SHARED).is_dir())
    cache = _cache_folder()
    if cache is not None:
        yield cache


def _cache_folder() -> Path | None:
    """Return the folder for downloaded files; None for a user without a home folder."""
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "fgrn"
    try:
        return Path.home() / ".cache" / "fgrn"
    except RuntimeError:
        return None


def _bytes_if_there(path: Path) -> bytes | None:
    """Return the content of a file, cut a little above the limit; None if there is no such file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(DOWNLOAD_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise TableFileError(f"{path} cannot be read: {error}. Give yourself the right to, or remove it.") from error


def _check_md5(table: _ArchiveTable, data: bytes, where: str, remedy: str) -> None:
    """Raise TableFileError unless the data has the MD5 sum of the file in the archive."""
    found = md5(data, usedforsecurity=False).hexdigest()
    if found != table.md5:
        size = f"more than {DOWNLOAD_LIMIT:,}" if len(data) > DOWNLOAD_LIMIT else f"{len(data):,}"
        raise TableFileError(
            f"{where} is not the {table.file} of the UCI archive: it has {size} bytes and the md5 sum {found}, where "
            f"{table.md5} is expected. It was cut short or changed. {remedy}"
        )


def _write_to_cache(file: str, data: bytes) -> None:
    """Write a file to the cache; if that is not allowed, it will be downloaded again next time."""
    from ..core.whole_file import write_whole

    cache = _cache_folder()
    if cache is not None:
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            write_whole(cache / file, data)


_CELLS = (
    "clump_thickness", "cell_size_uniformity", "cell_shape_uniformity", "marginal_adhesion", "epithelial_cell_size",
    "bare_nuclei", "bland_chromatin", "normal_nucleoli", "mitoses",
)  # fmt: skip
_NO_WORDS: dict[str, str] = {}

_ARCHIVE_TABLES = {
    "breast-cancer": _ArchiveTable(
        "699 biopsies, 9 properties of cells from 1 to 10, benign or malignant (UCI)",
        "breast-cancer-wisconsin/breast-cancer-wisconsin.data",
        "52b89051b9bd37a91a54e8570b963719",
        [
            (None, _NO_WORDS),
            *((cell, _NO_WORDS) for cell in _CELLS),
            ("class", {"2": "benign", "4": "malignant"}),
        ],
        "One row per biopsy. Nine properties of the cells, each judged from 1 to 10, and whether the tumour is benign "
        "or malignant. 16 values of bare_nuclei are unknown. The number of the sample is left out.",
        "Breast Cancer Wisconsin (Original), O. L. Mangasarian and W. H. Wolberg, "
        "UCI Machine Learning Repository, 1992",
    ),
    "mammographic": _ArchiveTable(
        "961 mammographic masses, 5 properties with 162 missing values, benign or malignant (UCI)",
        "mammographic-masses/mammographic_masses.data",
        "092741936ce0ab11844502b6ec9db89b",
        [
            ("bi_rads", _NO_WORDS),
            ("age", _NO_WORDS),
            ("shape", _levels_by_code("round", "oval", "lobular", "irregular")),
            ("margin", _levels_by_code("circumscribed", "microlobulated", "obscured", "ill-defined", "spiculated")),
            ("density", _levels_by_code("high", "iso", "low", "fat-containing")),
            ("severity", _levels_by_code("benign", "malignant", first=0)),
        ],
        "One row per mass seen in a mammogram: the BI-RADS assessment of a physician, the age of the patient, three "
        "properties of the mass, and whether it proved malignant. bi_rads is meant to be 1 to 5; the file also holds "
        "0, 6 and one 55, which are given as they are. 162 values are unknown.",
        "Mammographic Mass, M. Elter, R. Schulz-Wendtland and T. Wittenberg, UCI Machine Learning Repository, 2007",
    ),
    "contraceptive": _ArchiveTable(
        "1,473 married women in Indonesia, 9 answers, and which contraceptive method they use (UCI)",
        "cmc/cmc.data",
        "c9be855c8ebdb27377721199837e4f07",
        [
            ("wife_age", _NO_WORDS),
            ("wife_education", _NO_WORDS),
            ("husband_education", _NO_WORDS),
            ("children", _NO_WORDS),
            ("wife_religion", _levels_by_code("not Islam", "Islam", first=0)),
            ("wife_works", _levels_by_code("yes", "no", first=0)),
            ("husband_occupation", _NO_WORDS),
            ("living_standard", _NO_WORDS),
            ("media_exposure", _levels_by_code("good", "not good", first=0)),
            ("method", _levels_by_code("none", "long-term", "short-term")),
        ],
        "One row per married woman who was not known to be pregnant. Education and living_standard are 1 (low) to 4 "
        "(high); the occupations 1 to 4 have no names in the file. Nothing is unknown.",
        "Contraceptive Method Choice, T.-S. Lim, a part of the 1987 National Indonesia Contraceptive Prevalence "
        "Survey, UCI Machine Learning Repository, 1997",
    ),
}


# Tables without files


def _digits() -> Dataset:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise FgrnError("The digits come with scikit-learn, which is not here: pip install scikit-learn.") from error
    found = load_digits()
    shades = (found.data.astype(int) * SHADES // 17).T.tolist()  # from 17 shades, 0 to 16
    pixels = [f"pixel {row} {column}" for row in range(SIDE) for column in range(SIDE)]
    return Dataset(
        "digits",
        {**dict(zip(pixels, shades, strict=True)), "digit": found.target.tolist()},
        "digit",
        f"One row per handwritten digit: {SIDE} x {SIDE} pixels in {SHADES} shades from 0 (white) to {SHADES - 1}, row "
        "by row, and the digit that was meant.",
        "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, "
        "as it comes with scikit-learn",
    )


_GROUPS = {"young in town": 24, "family": 30, "commuter": 22, "retired": 24}
_AGES = ((18, 34), (27, 58), (23, 64), (58, 91))
_QUESTIONS: dict[str, dict[str, tuple[int, int, int, int]]] = {  # percentages of the answers in each group
    "residence": {"centre": (74, 18, 3, 38), "suburb": (22, 66, 12, 37), "village": (4, 16, 85, 25)},
    "household": {
        "alone": (36, 3, 16, 44), "couple": (18, 7, 39, 50), "family": (6, 88, 42, 4), "shared flat": (40, 2, 3, 2),
    },
    "occupation": {
        "employed": (34, 66, 78, 5), "self-employed": (7, 13, 16, 4), "student": (51, 2, 2, 0),
        "at home": (8, 19, 4, 6), "retired": (0, 0, 0, 85),
    },
    "cars": {"none": (71, 4, 2, 34), "one": (27, 55, 39, 60), "several": (2, 41, 59, 6)},
    "bicycle": {"yes": (83, 85, 52, 41), "no": (17, 15, 48, 59)},
    "ticket": {
        "none": (14, 57, 71, 29), "single": (21, 27, 13, 38), "monthly": (30, 9, 7, 13), "yearly": (35, 7, 9, 20),
    },
    "distance": {
        "under 2 km": (33, 14, 2, 51), "2 to 10 km": (53, 47, 12, 36), "10 to 30 km": (11, 31, 47, 10),
        "over 30 km": (3, 8, 39, 3),
    },
    "income": {
        "low": (58, 14, 11, 33), "medium": (31, 38, 40, 46), "high": (9, 34, 36, 16), "very high": (2, 14, 13, 5),
    },
    "travels_by": {
        "on foot": (18, 8, 1, 34), "bicycle": (38, 20, 3, 13), "bus or train": (39, 10, 14, 32), "car": (5, 62, 82, 21),
    },
    "satisfaction": {
        "very low": (3, 5, 14, 3), "low": (11, 15, 27, 8), "fair": (29, 36, 33, 24), "high": (40, 33, 20, 42),
        "very high": (17, 11, 6, 23),
    },
    "would_change": {"no": (27, 31, 40, 68), "perhaps": (38, 44, 36, 23), "yes": (35, 25, 24, 9)},
}  # fmt: skip
_REFUSALS = {"low": 0.04, "medium": 0.06, "high": 0.19, "very high": 0.5}
_FORGOTTEN = 0.015


def _survey() -> Dataset:
    random = Random(SURVEY_SEED)  # random() of the standard library is the same in all versions
    people = [_person(random) for _ in range(SURVEY_ROWS)]
    return Dataset(
        "survey",
        {question: [person[question] for person in people] for question in ("age", *_QUESTIONS)},
        "travels_by",
        "One row per person asked how they travel. Nobody was: the answers are generated, the same ones every time, "
        f"from {len(_GROUPS)} groups of people that are not in the table ({', '.join(_GROUPS)}). Who earns more is "
        "less willing to say so: income is unknown for about one in eight, and not at random. A few other answers are "
        "missing at random. distance, income and satisfaction have an order.",
        "generated by fgrn.showcase.datasets",
        {question: tuple(answers) for question, answers in _QUESTIONS.items()},
    )


def _person(random: Random) -> dict[str, Value]:
    group = list(_GROUPS).index(_draw(random, _GROUPS))
    youngest, oldest = _AGES[group]
    person: dict[str, Value] = {"age": int(youngest + (oldest - youngest) * (random.random() + random.random()) / 2)}
    for question, answers in _QUESTIONS.items():
        weights = {answer: float(shares[group]) for answer, shares in answers.items()}
        if question == "travels_by":  # few people without a car drive, or ride without a bicycle
            weights["car"] *= 0.1 if person["cars"] == "none" else 1
            weights["bicycle"] *= 0.1 if person["bicycle"] == "no" else 1
        person[question] = _draw(random, weights)
    refused = random.random() < _REFUSALS[str(person["income"])]
    for question in _QUESTIONS:
        forgotten = random.random() < _FORGOTTEN and question not in ("income", "travels_by")
        if forgotten or (question == "income" and refused):
            person[question] = None
    return person


def _draw(random: Random, weights: Mapping[str, float]) -> str:
    """Draw one of the words with probabilities proportional to the weights."""
    at = random.random() * sum(weights.values())
    for word, weight in weights.items():
        at -= weight
        if at < 0:
            return word
    return word
