"""Text tables and numbers for people."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from sklearn.base import clone

import fgrn
from fgrn.core import progress
from fgrn.core.labels import plain_number, shown_number
from fgrn.core.printing import WIDEST_COLUMN, equations, listed, memory_size, shortened_to_cells, text_table
from fgrn.learning.criteria import ClassCandidate, ClassSelection
from fgrn.tables.columns import bin_labels


@given(st.floats(-1e14, 1e14).filter(lambda x: x == 0 or abs(x) > 1e-4), st.integers(2, 15))
def test_numbers_are_written_plainly(value: float, digits: int) -> None:
    text = plain_number(value, digits)
    assert re.fullmatch(r"-?\d+(\.\d*[1-9])?", text)
    assert float(text) == float(f"{value:.{digits}g}")


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(2, 17))
def test_numbers_come_back(value: float, digits: int) -> None:
    text = plain_number(value, digits)
    assert float(text) == float(f"{value:.{digits}g}")
    assert "e+" not in text
    assert "e-0" not in text


@given(st.integers(-(10**14), 10**14))
def test_whole_numbers_are_not_rounded(value: int) -> None:
    assert shown_number(float(value)) == str(value)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=6, unique=True).map(sorted))
def test_names_of_bins_are_readable_and_apart(edges: list[float]) -> None:
    labels = bin_labels(edges)
    assert len(set(labels)) == len(edges) + 1
    if all(x == 0 or abs(x) >= 1e-4 for x in edges):
        assert not any("e" in label for label in labels)


def test_bins_of_thousands() -> None:
    (column,) = fgrn.Schema.infer({"pay": [float(x) for x in range(0, 100_000, 37)]}).values()
    assert not any("e+" in str(level) for level in column.levels)
    assert bin_labels([1100.0, 23000.0]) == ["< 1100", "1100 to 23000", ">= 23000"]


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\u00a6"), max_size=30)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=6))
def test_columns_begin_at_the_same_cell(rows: list[tuple[str, str, str]]) -> None:
    marked = [[f"{a}\u00a6", f"\u00a6{b}", f"{c}\u00a6"] for a, b, c in rows]
    lines = text_table(["one", "two", "three"], marked, left=2, room=None).split("\n")
    assert len(lines) == len(rows) + 2
    assert len({cell_len(line) for line in lines[2:]}) == 1
    second = [[mark.start() for mark in re.finditer("\u00a6", line)][1] for line in lines[2:]]
    assert len({cell_len(line[:at]) for line, at in zip(lines[2:], second, strict=True)}) == 1


@given(st.lists(words, min_size=1, max_size=6, unique=True), st.integers(4, 40))
def test_shortened_names_fit(names: list[str], room: int) -> None:
    found = shortened_to_cells(names, room)
    assert all(cell_len(text) <= room for text in found)
    assert all(
        short == " ".join(name.split())
        for name, short in zip(names, found, strict=True)
        if "…" not in short + name and name.isprintable()
    )


@pytest.mark.parametrize(("before", "after"), [(0, 60), (30, 30), (60, 0)])
def test_names_that_differ_in_one_place_stay_apart(before: int, after: int) -> None:
    names = [f"{'b' * before}{what}{'a' * after}" for what in ("one", "two", "six")]
    found = shortened_to_cells(names, 20)
    assert len(set(found)) == 3
    assert all(one != other for one, other in pairwise(found))
    assert all(what in text for what, text in zip(("one", "two", "six"), found, strict=True))


def test_names_that_differ_in_two_places_stay_apart() -> None:
    names = [f"{'b' * 60}{first}{'m' * 60}{second}{'a' * 60}" for first, second in ("px", "py", "qv", "qw")]
    assert len(set(shortened_to_cells(names, 20))) == 4


SENTENCE = "which the interviewer wrote down as a whole sentence, and which nobody has shortened since: "


def test_long_labels_do_not_widen_tables_without_a_terminal() -> None:
    labels = [f"{SENTENCE}{answer}, at least in the last twelve months" for answer in ("yes", "no", "perhaps")]
    assert min(map(len, labels)) > WIDEST_COLUMN
    lines = text_table(["level", "rows"], [[label, "3"] for label in labels]).split("\n")
    assert max(map(cell_len, lines)) <= WIDEST_COLUMN + 6
    assert len(set(lines)) == 5
    (shown,) = equations([("answer", labels[0])], None, [("answer", label) for label in labels[1:]])
    assert shown.startswith("answer = …yes, at least")
    assert equations([("answer", "yes")], None, [("answer", label) for label in labels]) == ["answer = yes"]


@given(st.lists(words, max_size=9, unique=True), st.integers(1, 6), st.integers(40, 100))
def test_lists_fit(items: list[str], most: int, room: int) -> None:
    assert cell_len(listed(items, most, room)) <= room


def test_long_labels_are_listed_side_by_side() -> None:
    labels = [f"{SENTENCE}{answer}, at least" for answer in ("yes", "no", "perhaps")]
    assert listed(labels) == "…yes, at least, …no, at least, …perhaps…least"
    assert listed([*labels, "sometimes", "never"], room=60).endswith(", ... (2 more)")
    assert listed(["no", *labels]) == "no, ... (3 more)"  # whole, if one is


def test_sizes_of_memory_have_the_unit_that_suits_them() -> None:
    sizes = [0, 1023, 2**10, 1.5 * 2**20, 2**30, 3 * 2**40]
    assert [memory_size(size) for size in sizes] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "1.0 GiB", "3,072.0 GiB",
    ]  # fmt: skip


def test_notes_of_what_was_tried_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = [ClassCandidate("per_class", 2, 4, "fit", 1.0, 0.5, 0.01, 100) for _ in range(3)]
    selection = ClassSelection(tuple(tried), dropped=2, unfinished=("per_class",))
    monkeypatch.delenv("COLUMNS", raising=False)
    long = str(selection)
    monkeypatch.setenv("COLUMNS", "80")
    notes = str(selection).partition("log-loss: ")[2]
    assert max(map(len, notes.splitlines())) <= 80 < max(map(len, long.splitlines()))
    assert str(selection).split() == long.split()


@pytest.mark.parametrize("model", [fgrn.LatentClassifier(), fgrn.LatentClassModel(2), fgrn.LatentClassModel("auto")])
def test_verbose_learning_tells_a_log_how_far_it_is(
    model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in progress.LIKE_A_TERMINAL:
        monkeypatch.delenv(name, raising=False)
    table = {"a": ["x", "y", "z", "x"] * 20, "b": ["p", "q"] * 40}
    for pause in (progress.LOG_PAUSE, 0.0):
        monkeypatch.setattr(progress, "LOG_PAUSE", pause)
        capsys.readouterr()
        clone(model).set_params(verbose=1, random_state=0).fit(table, ["u", "v", "v", "u"] * 20)
        said = capsys.readouterr().err
        assert ("log-likelihood" in said or "tried; now" in said) == (pause == 0)
        clone(model).set_params(random_state=0).fit(table, ["u", "v", "v", "u"] * 20)
        assert not capsys.readouterr().err
