"""Example tables by name: their contents, the folders that are searched, and files that are refused; no downloads."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.client import BadStatusLine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.core.exceptions import FgrnError, TableFileError, UnknownNameError
from fgrn.showcase import datasets

FORGED = b"1,5,?\n2,7,0\n3,5,1\n"
PAPER = ("breast-cancer", "mammographic", "contraceptive")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all folders of this machine and the network."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a test tried to reach the network")

    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")


@pytest.fixture
def forged(monkeypatch: pytest.MonkeyPatch) -> datasets._ArchiveTable:
    """Register a table of three rows as if it were in the archive."""
    table = datasets._ArchiveTable(
        "three rows",
        "forged/forged.data",
        hashlib.md5(FORGED, usedforsecurity=False).hexdigest(),
        [(None, {}), ("number", {}), ("class", {"0": "no", "1": "yes"})],
        "What a forger makes.",
        "a test",
    )
    monkeypatch.setitem(datasets._ARCHIVE_TABLES, "forged", table)
    return table


def offline(url: str) -> bytes:
    raise OSError("no route to host")


class Archive:
    """Answers like the archive, and records its requests."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        return self.data


def written(folder: Path, data: bytes = FORGED) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "forged.data").write_bytes(data)
    return folder


# What they are


def test_every_name_is_listed_with_a_line() -> None:
    listed = datasets.names()
    assert list(listed) == ["digits", "survey", *PAPER]
    for line in listed.values():
        assert line
        assert "\n" not in line


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(UnknownNameError, match="'mammographic'"):
        datasets.load("mammografic")
    with pytest.raises(UnknownNameError):
        datasets.load(["digits"])


def test_a_file_becomes_words_numbers_and_holes(forged: datasets._ArchiveTable, tmp_path: Path) -> None:
    table = datasets.load("forged", written(tmp_path / "data"))
    assert table.columns == {"number": [5, 7, 5], "class": [None, "no", "yes"]}
    assert table.target == "class"
    assert table.features == {"number": [5, 7, 5]}
    assert table.classes == [None, "no", "yes"]
    assert (table.rows, table.unknown) == (3, 1)
    assert table.levels == {"class": ("no", "yes")}
    assert "3 rows" in repr(table)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "other"


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_holds_the_columns(backend: str) -> None:
    pytest.importorskip(backend)
    table = datasets.load("survey")
    frame = table.frame(backend)
    assert type(frame).__module__.split(".")[0] == backend
    read = {name: list(column) for name, column in fgrn.tables.frames.columns(frame).items()}
    for name, column in table.columns.items():
        assert [None if fgrn.tables.missing.is_missing_value(value) else value for value in read[name]] == column


@pytest.mark.parametrize("backend", ["nonsense", 3])
def test_a_frame_of_an_unknown_library(backend: Any) -> None:
    with pytest.raises(FgrnError, match="'pandas', 'polars'"):
        datasets.load("survey").frame(backend)


def test_digits_are_those_of_scikit_learn_in_four_shades() -> None:
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    table = datasets.load("digits")
    assert len(table.features) == 64
    pixels = np.array(list(table.features.values())).T
    assert pixels.shape == bunch.data.shape
    assert set(np.unique(pixels)) == {0, 1, 2, 3}
    order = np.argsort(bunch.data, axis=None, kind="stable")
    assert (np.diff(pixels.ravel()[order]) >= 0).all()  # a darker pixel is never a lighter shade
    assert table.classes == bunch.target.tolist()
    assert table.columns["pixel 3 4"] == pixels.reshape(-1, 8, 8)[:, 3, 4].tolist()


def test_the_survey_is_the_same_every_time_and_says_that_it_is_generated() -> None:
    table, again = datasets.load("survey"), datasets.load("survey")
    assert table == again
    assert table.columns is not again.columns
    assert "generated" in table.description
    assert "generated" in table.source


def test_the_survey_looks_like_one() -> None:
    table = datasets.load("survey")
    assert (table.rows, len(table.columns)) == (1200, 12)
    assert all(isinstance(age, int) and 18 <= age < 100 for age in table.columns["age"])
    assert set(table.levels) == set(table.columns) - {"age"}
    for name, levels in table.levels.items():
        assert {value for value in table.columns[name] if value is not None} == set(levels)
    holes = {name: column.count(None) / table.rows for name, column in table.columns.items()}
    assert 0.10 <= holes.pop("income") <= 0.15
    assert holes[table.target] == 0
    assert 0 < max(holes.values()) < 0.05


def test_incomes_are_not_missing_at_random() -> None:
    """Fewer of the given incomes are very high than in the groups."""
    named = [income for income in datasets.load("survey").columns["income"] if income is not None]
    sizes = np.array(list(datasets._GROUPS.values())) / sum(datasets._GROUPS.values())
    expected = sizes @ np.array(datasets._QUESTIONS["income"]["very high"]) / 100
    spread = np.sqrt(expected * (1 - expected) / len(named))
    assert named.count("very high") / len(named) < expected - 3 * spread


def test_the_answers_of_a_group_are_shares_of_a_hundred() -> None:
    for answers in datasets._QUESTIONS.values():
        assert np.sum(list(answers.values()), axis=0).tolist() == [100] * len(datasets._GROUPS)


def test_the_survey_has_four_groups() -> None:
    """Other numbers of hidden states than four have a lower held-out likelihood."""
    table = datasets.load("survey")
    columns = {name: column for name, column in table.columns.items() if name != "age"}
    held = np.arange(table.rows) % 3 == 0
    train = {name: [v for v, out in zip(column, held, strict=True) if not out] for name, column in columns.items()}
    test = {name: [v for v, out in zip(column, held, strict=True) if out] for name, column in columns.items()}

    def score(hidden: int) -> float:
        net = fgrn.lvm(table.levels, hidden=hidden)
        net.learn(train, epochs=60, smoothing=0.5, starts=3)
        return float(net.propagate(test, keep=[]).log_likelihood.mean())

    scores = {hidden: score(hidden) for hidden in (1, 2, 3, 4, 12)}
    assert max(scores, key=lambda hidden: scores[hidden]) == 4, scores


# Where files are looked for


def test_a_missing_file_names_every_place_and_what_to_do(
    forged: datasets._ArchiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path / "named"))
    (tmp_path / datasets.SHARED).mkdir(parents=True)
    with pytest.raises(TableFileError) as caught:
        datasets.load("forged", tmp_path / "given", fetch=offline)
    message = str(caught.value)
    for folder in (tmp_path / "given", tmp_path / "named", tmp_path / datasets.SHARED, tmp_path / "cache" / "fgrn"):
        assert str(folder / "forged.data") in message
    assert f"{datasets.ARCHIVE}/forged/forged.data" in message
    assert "no route to host" in message
    assert datasets.FOLDER_VARIABLE in message
    assert isinstance(caught.value, OSError)


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], Path]] = {
    "given": lambda root, _: root / "given",
    "variable": lambda root, patch: (patch.setenv(datasets.FOLDER_VARIABLE, str(root / "named")), root / "named")[1],
    "here": lambda root, _: root / "here" / "below" / datasets.SHARED,
    "above": lambda root, _: root / datasets.SHARED,
    "cache": lambda root, _: root / "cache" / "fgrn",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_file_is_found(
    place: str, forged: datasets._ArchiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(PLACES[place](tmp_path, monkeypatch))
    assert datasets.load("forged", tmp_path / "given", fetch=offline).rows == 3


def test_folders_are_searched_in_order(
    forged: datasets._ArchiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong file in every folder: the first is an error; without it, the next one."""
    folders = [written(place(tmp_path, monkeypatch), b"x" * 10) for place in PLACES.values()]
    for folder in folders:
        with pytest.raises(TableFileError, match=re.escape(str(folder / "forged.data"))):
            datasets.load("forged", tmp_path / "given", fetch=offline)
        (folder / "forged.data").unlink()


def test_a_file_is_downloaded_once(forged: datasets._ArchiveTable, tmp_path: Path) -> None:
    archive = Archive(FORGED)
    assert datasets.load("forged", fetch=archive) == datasets.load("forged", fetch=archive)
    assert archive.asked == [f"{datasets.ARCHIVE}/forged/forged.data"]
    assert [path.name for path in (tmp_path / "cache" / "fgrn").iterdir()] == ["forged.data"]
    assert datasets.load("forged", fetch=offline).rows == 3


def test_a_cache_that_cannot_be_written_is_done_without(forged: datasets._ArchiveTable, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    assert datasets.load("forged", fetch=Archive(FORGED)).rows == 3


def test_a_user_without_a_home_folder_needs_a_folder_or_a_download(
    forged: datasets._ArchiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("LOCALAPPDATA", "relative")
    monkeypatch.setattr(Path, "home", homeless)
    assert datasets.load("forged", fetch=Archive(FORGED)).rows == 3
    assert datasets.load("forged", written(tmp_path / "given"), fetch=offline).rows == 3
    with pytest.raises(TableFileError, match="no route"):
        datasets.load("forged", fetch=offline)


# Which files are refused


@pytest.mark.parametrize(
    "data",
    [FORGED[:-1], FORGED.replace(b"5", b"6"), b"", FORGED + b"4,5,1\n", FORGED.replace(b"\n", b"\r\n"), b"x" * 2**21],
    ids=["cut short", "changed", "empty", "longer", "other line ends", "huge"],
)
def test_another_file_of_the_name_is_refused(data: bytes, forged: datasets._ArchiveTable, tmp_path: Path) -> None:
    folder = written(tmp_path / "given", data)
    with pytest.raises(TableFileError) as caught:
        datasets.load("forged", folder, fetch=Archive(FORGED))
    assert str(folder / "forged.data") in str(caught.value)
    assert forged.md5 in str(caught.value)
    assert "elete it" in str(caught.value)

    with pytest.raises(TableFileError, match=re.escape(datasets.ARCHIVE)):
        datasets.load("forged", fetch=Archive(data))
    assert not (tmp_path / "cache").exists()


def test_a_file_that_may_not_be_read(
    forged: datasets._ArchiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "given")

    def denied(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(TableFileError, match="Permission denied"):
        datasets.load("forged", folder)


# Downloading


class Answer(io.BytesIO):
    def __init__(self, data: bytes, url: str) -> None:
        super().__init__(data)
        self.url = url

    def geturl(self) -> str:
        return self.url


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Answer]) -> None:
    def opened(request: urllib.request.Request, timeout: float) -> Answer:
        assert timeout > 0
        return answer(request.full_url)

    monkeypatch.setattr(urllib.request, "urlopen", opened)


def test_downloads_take_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, lambda url: Answer(b"x" * (2 * datasets.DOWNLOAD_LIMIT), url))
    assert len(datasets.download("https://example.org/a")) == datasets.DOWNLOAD_LIMIT + 1


def test_downloads_stay_on_https(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, lambda url: Answer(b"x", url.replace("https", "http")))
    with pytest.raises(TableFileError, match=r"http://example\.org/a"):
        datasets.download("https://example.org/a")
    for url in ("http://example.org/a", "file:///a"):
        with pytest.raises(TableFileError, match="https"):
            datasets.download(url)


def test_an_answer_that_is_not_http_is_an_error(
    monkeypatch: pytest.MonkeyPatch, forged: datasets._ArchiveTable
) -> None:
    def broken(url: str) -> Answer:
        raise BadStatusLine("gibberish")

    answering(monkeypatch, broken)
    with pytest.raises(TableFileError, match="gibberish"):
        datasets.load("forged")


def test_the_archive_is_asked_over_https() -> None:
    assert datasets.ARCHIVE.startswith("https://archive.ics.uci.edu/")


# The three tables of the paper, where they are


def described(shared_data: Path, file: str) -> str:
    return (shared_data / "uci" / file).read_text(encoding="latin-1")


def test_breast_cancer_is_as_it_is_described(shared_data: Path) -> None:
    table = datasets.load("breast-cancer", shared_data / "uci")
    text = described(shared_data, "breast-cancer-wisconsin.names")
    assert table.rows == int(re.search(r"Number of Instances: (\d+)", text)[1])
    counts = {word: int(re.search(rf"{word}: (\d+) \(", text)[1]) for word in ("Benign", "Malignant")}
    assert Counter(table.classes) == {word.lower(): count for word, count in counts.items()}
    assert table.unknown == int(re.search(r"Missing attribute values: (\d+)", text)[1])
    assert len(table.columns) == 10
    for column in table.features.values():
        assert {value for value in column if value is not None} <= set(range(1, 11))


def test_mammographic_is_as_it_is_described(shared_data: Path) -> None:
    table = datasets.load("mammographic", shared_data / "uci")
    text = described(shared_data, "mammographic_masses.names")
    assert table.rows == int(re.search(r"Number of Instances: (\d+)", text)[1])
    holes = [int(found) for found in re.findall(r"- [\w-]+(?: assessment)?: +(\d+)", text)]
    assert [column.count(None) for column in table.columns.values()] == holes
    counts = re.search(r"benign: (\d+); malignant: (\d+)", text)
    assert Counter(table.classes) == {"benign": int(counts[1]), "malignant": int(counts[2])}
    for name, words in table.levels.items():
        for code, word in enumerate(words, start=0 if name == "severity" else 1):
            assert f"{word}={code}" in text
    assert table.columns["bi_rads"].count(55) == 1


def test_contraceptive_is_as_it_is_described(shared_data: Path) -> None:
    table = datasets.load("contraceptive", shared_data / "uci")
    text = described(shared_data, "cmc.names")
    assert table.rows == int(re.search(r"Number of Instances: (\d+)", text)[1])
    assert len(table.columns) == int(re.search(r"Number of Attributes: (\d+)", text)[1])
    assert table.unknown == 0
    first = (shared_data / "uci" / "cmc.data").read_text().splitlines()[0].split(",")
    assert [int(first[0]), int(first[3])] == [table.columns["wife_age"][0], table.columns["children"][0]]
    assert table.classes[0] == table.levels["method"][int(first[-1]) - 1]


@pytest.mark.parametrize("name", PAPER)
def test_the_lines_say_how_many_rows_there_are(name: str, shared_data: Path) -> None:
    table = datasets.load(name, shared_data / "uci")
    assert datasets.names()[name].startswith(f"{table.rows:,} ")
    assert table.source
    assert table.target == list(table.columns)[-1]
