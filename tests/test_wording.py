"""Texts for people: invisible characters are escaped, and words agree with numbers."""

from __future__ import annotations

import ast
import json
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrn
from fgrn.cli import main
from fgrn.core.exceptions import HIDDEN, FgrnError, FgrnWarning, UnknownNameError, counted, visible, warn
from fgrn.core.printing import text_table

NAME = "tall\x1b[31m\u202e\u200b\nname"
VALUES = ["\x1b]0;title\x07yes", "\x9b2Jno"]
SHOWN = r"tall\x1b[31m\u202e\u200b\nname"


def is_letter(text: str) -> bool:
    return bool(text) and unicodedata.category(text)[0] in "LM"


def hidden(text: str) -> set[str]:
    joined = {
        place
        for place, letter in enumerate(text)
        if letter in "\u200c\u200d" and is_letter(text[place - 1 : place]) and is_letter(text[place + 1 : place + 2])
    }
    return {
        letter
        for place, letter in enumerate(text)
        if unicodedata.category(letter) in HIDDEN and letter != "\n" and place not in joined
    }


@given(st.one_of(st.text(st.characters(), max_size=40), st.text("a\u0645\u094d\u200c\u200d\u202e ", max_size=8)))
def test_nothing_hidden_is_left_and_letters_stay(text: str) -> None:
    shown = visible(text)
    assert not hidden(shown)
    assert "\n" not in shown
    assert visible(shown) == shown
    assert visible(text, lines=True).count("\n") == text.count("\n")
    kept = "".join(letter for letter in text if unicodedata.category(letter) not in HIDDEN)
    assert visible(kept) == kept


@pytest.mark.parametrize("word", ["\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0915\u094d\u200d\u0937", "Auf\u200clage"])
def test_joiners_between_letters_are_part_of_a_word(word: str) -> None:
    assert visible(word) == word
    assert str(FgrnError(f"There is no {word}.")) == f"There is no {word}."
    for joiner in ("\u200c", "\u200d"):
        if joiner in word:
            escaped = repr(joiner)[1:-1]
            assert visible(f"{joiner}{word}{joiner}") == f"{escaped}{word}{escaped}"
            assert visible(word.replace(joiner, f"{joiner}\u202e")).count(escaped) == 1
            assert visible(word.replace(joiner, joiner * 2)) == word.replace(joiner, escaped * 2)


@pytest.mark.parametrize("kind", [FgrnError, UnknownNameError, fgrn.SchemaError, fgrn.TableFileError, FgrnWarning])
def test_errors_and_warnings_show_what_is_hidden(kind: type[Exception]) -> None:
    assert str(kind(f"There is no {NAME}.")) == f"There is no {SHOWN}."


def test_a_warning_is_shown_without_what_is_hidden() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(NAME, FgrnWarning)
    assert SHOWN in warnings.formatwarning(caught[0].message, FgrnWarning, "file", 1)


def test_tables_tell_names_apart_that_differ_in_what_is_hidden() -> None:
    lines = text_table([], [["a\tb"], ["a b"], ["a\u200bb"]]).split("\n")
    assert lines == [r"a\tb", "a b", r"a\u200bb"]


def models(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A table, a model of it, and a network, whose names and values a terminal would obey."""
    table = tmp_path / "table.parquet"
    columns = {NAME: [VALUES[row % 2] for row in range(24)], "other": [row % 3 for row in range(24)]}
    columns["class"] = ["\x1bc0" if row % 2 else "\x1bc1" for row in range(24)]
    parquet.write_table(pa.table(columns), table)
    model = tmp_path / "model.fgrn"
    assert main(["fit", str(table), "--target", "class", "--hidden", "2", "-o", str(model), "--json"]) == 0
    network = tmp_path / "net.fgrn"
    fgrn.BayesianNetwork({NAME: VALUES, "b": 2}, [(NAME, "b")], name=NAME).save(network)
    return table, model, network


def test_no_command_prints_what_a_terminal_would_obey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model, network = models(tmp_path)
    strange = tmp_path / "strange.parquet"
    parquet.write_table(pa.table({NAME: ["\x1b[2Jmaybe"], "\x1bmore": [1], "other": [1]}), strange)
    other = tmp_path / "other.fgrn"
    said = []
    for arguments in (
        ["inspect", table],
        ["fit", table, "--target", "class", "--hidden", "2", "-o", other],
        ["fit", table, "--drop", "\x1bnone", "-o", other],
        ["compare", table, "--sizes", "1,2", "--starts", "1"],
        ["predict", model, strange, "-o", tmp_path / "out.csv"],
        ["explain", model, table, "--row", "1"],
        ["prototypes", model],
        ["inspect", network],
        ["query", network],
        ["query", network, "--most-probable"],
        ["query", network, "--joint", f"{NAME},b"],
        ["query", network, "--evidence", strange],
    ):
        main([str(one) for one in arguments])
        out, err = capsys.readouterr()
        assert not hidden(out + err), arguments
        assert "tall\n" not in out + err
        said.append(out + err)
    assert all(r"\x1b" in text for place, text in enumerate(said) if place != 3)  # `compare` names nothing


def test_json_and_tables_stay_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model, network = models(tmp_path)
    capsys.readouterr()
    assert main(["inspect", str(table), "--json"]) == 0
    text = capsys.readouterr().out
    assert not hidden(text)
    assert json.loads(text)["columns"][0]["column"] == NAME
    assert main(["query", str(network), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["posterior"][NAME]) == set(VALUES)
    assert main(["predict", str(model), str(table)]) == 0
    assert NAME in capsys.readouterr().out


def test_a_network_prints_nothing_hidden() -> None:
    models: list[Any] = [
        fgrn.lvm({NAME: VALUES, "b": 2}, hidden=2),
        fgrn.BayesianNetwork({NAME: VALUES, "b": 2}, [(NAME, "b")]),
        fgrn.MarkovNetwork({NAME: VALUES, "b": 2}, [((NAME, "b"), [[1, 2], [3, 4]])]),
        fgrn.Schema.infer({NAME: VALUES}),
    ]
    assert not any(hidden(repr(model)) for model in models)
    assert all(SHOWN in repr(model) for model in models)
    assert not hidden(models[-1]._repr_html_())


def test_the_command_line_prints_in_one_place() -> None:
    """Where names and values are escaped; JSON, which escapes in its own way, apart."""
    found = {
        (path.stem, node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
        for path in (Path(fgrn.__file__).parent / "cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, (ast.Attribute, ast.Name))
        and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id) in ("echo", "secho", "print")
    }
    assert found == {("terminal", "echo")}


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2000, ("row",), "2,000 rows"),
        (1, ("batch", "batches"), "1 batch"),
        (3, ("batch", "batches"), "3 batches"),
    ],
)
def test_things_are_counted(count: int, words: tuple[str, ...], text: str) -> None:
    assert counted(count, *words) == text


# What is said


def test_a_part_of_the_likeliest_states_is_told_from_the_likeliest_of_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = {"a": [[0.6, 0.4]], "b": [[0.4, 0.3, 0.3], [1, 0, 0]]}
    pair = fgrn.BayesianNetwork({"a": ["p", "q"], "b": ["u", "v", "w"], "c": 2}, [("a", "b")], tables)
    with pytest.warns(fgrn.FgrnWarning, match="a part of the most probable assignment"):
        assert pair.most_probable(names=["a"]).labels == {"a": "q"}
    with pytest.warns(fgrn.FgrnWarning, match=r"c is left out.*joint\(evidence, \['a', 'b'\]\)"):
        assert pair.most_probable(names=["a", "b"]).labels == {"a": "q", "b": "u"}
    assert pair.posterior(None, "a").argmax() == 0
    pair.save(tmp_path / "pair.fgrn")
    asked = ["query", str(tmp_path / "pair.fgrn"), "--most-probable"]
    for more, words in (
        (["--target", "a"], "leave out --most-probable"),
        (["--target", "a", "--target", "b", "--json"], "--joint a,b"),
    ):
        assert main([*asked, *more]) == 0
        assert words in capsys.readouterr().err
    assert main(asked) == 0
    assert not capsys.readouterr().err


def clusters(rows: int = 60) -> dict[str, list[str]]:
    """Rows of three clear clusters."""
    return {name: ["pqr"[row % 3] for row in range(rows)] for name in "abcd"}


def test_auto_says_when_it_ends_at_the_most_it_may_try() -> None:
    settings: dict[str, Any] = {"n_hidden": "auto", "n_init": 1, "n_epochs": 20, "random_state": 0}
    with pytest.warns(FgrnWarning, match=r"largest that was tried, 2, .* Try more with max_hidden=4"):
        fgrn.LatentClassModel(max_hidden=2, **settings).fit(clusters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fgrn.LatentClassModel(max_hidden=6, **settings).fit(clusters())
    assert model.n_hidden_ == 3


def test_criteria_say_of_which_rows_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table(clusters()), path)
    for criterion, held in (("bic", False), ("held_out", True)):
        assert main(["compare", str(path), "--sizes", "1,2", "--starts", "1", "--criterion", criterion]) == 0
        text = capsys.readouterr().out
        assert ("held out" in text) == held
        assert ("of the 80% of the rows that were learnt from" in text) == held


def test_one_level_that_has_nearly_all_values_has_not_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": ["x"] * 4999 + ["y"], "b": ["p", "q"] * 2500}), path)
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "one level has more than 99.9% of all values" in text
    assert "100.0%" not in text


def test_what_is_written_is_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model, network = models(tmp_path)
    out = tmp_path / "out.csv"
    for arguments, rows in (
        (["predict", model, table, "-o", out], " (24 rows)"),
        (["complete", model, table, "-o", out], " (24 rows)"),
        (["query", network, "--target", "b", "-o", out], " (2 rows)"),
        (["prototypes", model, "--picture", tmp_path / "p.svg"], ""),
    ):
        capsys.readouterr()
        assert main([str(one) for one in arguments]) == 0
        assert f"written: {arguments[-1]}{rows}\n" in capsys.readouterr().err
    assert main(["predict", str(model), str(table)]) == 0
    assert "written" not in capsys.readouterr().err


def test_rows_of_later_batches_are_counted_from_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fgrn.tables import stream as batches

    model, table = tmp_path / "m.fgrn", tmp_path / "t.csv"
    rows = {"a": ["x", "y"] * 10, "b": ["p", "q"] * 10}
    fgrn.NaiveBayesClassifier(smoothing=0.0).fit(rows, ["yes", "no"] * 10).save(model)
    table.write_text("a,b\n" + "x,p\n" * 11 + "x,q\n")
    monkeypatch.setattr(batches, "BATCH", 5)
    assert main(["predict", str(model), str(table), "-o", str(tmp_path / "out.csv")]) == 0
    err = capsys.readouterr().err
    assert "in rows 10 to 11: Row 11" in err


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (fgrn.BayesianNetwork({"a": 2, "b": 2}, [("a", "b")]), "2 variables and 1 arc"),
        (fgrn.BayesianNetwork({"a": 2}, []), "1 variable and 0 arcs"),
        (fgrn.Schema.infer({"a": ["x", "y"]}), "Schema of 1 column\n"),
        (fgrn.lvm({"a": 1}, hidden=1).propagate({"a": [0]}), "1 row "),
    ],
)
def test_one_thing_is_not_several(thing: Any, text: str) -> None:
    assert text in repr(thing)
