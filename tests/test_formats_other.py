"""Formats that are read and not written, DSC and DNE, and formats that are recognised and not read."""

from __future__ import annotations

import gzip
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from documents import TEXTS, example

import fgrn
from fgrn.bayes.document import Document, WrittenTable
from fgrn.cli import main
from fgrn.core.exceptions import FgrnError, NetworkFileError
from fgrn.files.formats import EXTENSIONS, READ_ONLY, READABLE, UNREADABLE, dne, dsc, read_document, write_document

MODULES: dict[str, Any] = {name: import_module(f"fgrn.files.formats.{name}") for name in READ_ONLY}


def renamed(document: Document, old: str, new: str) -> Document:
    """A document with another label for one of the states of xray."""
    states = {**document.states, "xray": tuple(new if label == old else label for label in document.states["xray"])}
    return Document(states, document.factors, document.directed, document.name, document.properties)


def test_dsc() -> None:
    document = dsc.parse(TEXTS["dsc"], "chest.dsc")
    assert document.properties == {"smoke": {"label": "Smokes?", "position": "(25, 275)", "category": "habit"}}
    plain = renamed(document, "good; {really}", "good")
    assert Document(plain.states, plain.factors, True, plain.name) == Document(
        example().states, example().factors, True, "chest"
    )


def test_dne() -> None:
    document = dne.parse(TEXTS["dne"], "chest.dne")
    assert document.properties == {
        "": {"title": "A chest"},
        "smoke": {"label": "Smokes?", "comment": 'he said "never", and\tcoughed;', "position": "(25, 275)"},
    }
    assert Document(document.states, document.factors, True, document.name) == Document(
        example().states, example().factors, True, "chest"
    )


def test_functions_levels_and_numbers_of_states_in_dne() -> None:
    text = """bnet n {
    node A { kind = NATURE; discrete = FALSE; levels = (-INFINITY, 0, 2.5, INFINITY); probs = (0.2, 0.3, 0.5); };
    node B { discrete = TRUE; levels = (1, 0); parents = (A); chance = DETERMIN; functable = (1, #1, #0); };
    node C { discrete = TRUE; numstates = 2; parents = (); probs = (0.25, 0.75); };
    node D { states = (only); evidence = only; };
    node E { states = (x, y); parents = (C); probs = ((0.1, 0.9), (@imposs, @imposs)); };
    };"""
    document = dne.parse(text, "n.dne")
    assert document.states == {
        "A": ("-INFINITY to 0", "0 to 2.5", "2.5 to INFINITY"),
        "B": ("1", "0"),
        "C": ("s0", "s1"),
        "D": ("only",),
        "E": ("x", "y"),
    }
    assert document.factors[1] == WrittenTable(("A", "B"), document.factors[1].values)
    assert document.factors[1].values.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert document.factors[3].values.tolist() == [1]
    assert document.factors[4].values.tolist() == [[0.1, 0.9], [0.5, 0.5]]


@pytest.mark.parametrize("format", READ_ONLY)
def test_the_format_is_found_by_the_name_or_the_content(format: str, tmp_path: Path) -> None:
    document = MODULES[format].parse(TEXTS[format], "file")
    for name, data in (
        (f"a.{format}", TEXTS[format].encode()),
        (f"a.{format}.gz", gzip.compress(TEXTS[format].encode())),
        ("a", TEXTS[format].encode("utf-16")),
        ("a.txt", TEXTS[format].encode()),
    ):
        (tmp_path / name).write_bytes(data)
        assert read_document(tmp_path / name) == document
    (tmp_path / f"b.{format}").write_bytes(TEXTS[format].replace("Smokes?", "Fumé?").encode("latin-1"))
    assert read_document(tmp_path / f"b.{format}").properties["smoke"]["label"] == "Fumé?"
    with pytest.raises(NetworkFileError, match=rf"\.{format} can be read but not written"):
        write_document(document, tmp_path / f"new.{format}")
    with pytest.raises(FgrnError, match="'format' must be one of"):
        write_document(document, tmp_path / "new", format)


@pytest.mark.parametrize(
    ("format", "old", "new", "line", "said"),
    [
        ("dsc", "(1, 2): 1.0", "(1, 3): 1.0", 15, "'3' is not a state of 'lung'; these are 0 to 2"),
        ("dsc", "(1, 2): 1.0", "(1, yes): 1.0", 15, "'yes' is not a state of 'lung'"),
        ("dsc", "(1, 2): 1.0", "(1): 1.0", 15, "'1' are 1 states, but there are 2 parents"),
        ("dsc", "(1, 2): 1.0", "(0, 0): 1.0", 17, r"two rows for \(0, 0\)"),
        ("dsc", "(1, 2): 1.0", "1, 2: 1.0", 15, "a row is written"),
        ("dsc", "default:", "function: max; default:", 16, "given by a function, 'max'"),
        ("dsc", "    default: 0.5, 0.5;\n", "", 13, "5 rows of 6; there is none for smoke=no, lung=b"),
        ("dsc", "discrete[2] = { bad", "discrete[3] = { bad", 12, "should have '3' states, but 2 are named"),
        ("dsc", "discrete[2] = { bad", "real[2] = { bad", 12, "is 'real'; only discrete"),
        ("dsc", "{ 0.5, 0.5; }", "{ 0.5; 0.5; }", 21, "has 2 rows; of a variable without parents it has one"),
        ("dsc", "{ 0.5, 0.5; }", "{ 0.5, 0.5 }", 21, "found '}' where ';' was expected"),
        ("dsc", "smoke, lung", "smoke lung", 13, "found 'lung' where ',' was expected"),
        ("dne", "bnet chest", "net chest", 4, "begins with 'net', not with 'bnet'"),
        ("dne", "kind = NATURE", "kind = DECISION", 9, "node 'smoke' is a decision; only nodes of nature"),
        ("dne", "kind = NATURE", "kind = OTHER", 9, "node 'smoke' is of the kind 'OTHER'"),
        ("dne", "    states = (yes, no);\n", "", 9, "node 'smoke' has no states"),
        ("dne", "parents = (smoke, lung)", "parents = (smoke, lungs)", 32, "names 'lungs'.*Did you mean 'lung'"),
        ("dne", "(0.5,   0.5)", "(0.5,   half)", 17, "'half' is not a number"),
        ("dne", "probs = (0.1", "equation = \"x\"; prob = (0.1", 30, "node 'xray' has an equation and no probs"),
        ("dne", "kind = CONSTANT", "kind = NATURE", 34, "variable 'Note' has no table|node 'Note' has no table"),
        ("dne", "node Note {", "param Note {", 34, "'Note' stands for a parent that is in another network"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(format: str, old: str, new: str, line: int, said: str) -> None:
    assert old in TEXTS[format]
    with pytest.raises(NetworkFileError, match=said) as caught:
        MODULES[format].parse(TEXTS[format].replace(old, new, 1), f"net.{format}")
    assert str(caught.value).startswith(f"net.{format}, line {line}: ")


@pytest.mark.parametrize("ending", UNREADABLE)
def test_formats_that_are_not_read_are_named_with_the_way_out(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"file{ending}"
    path.write_bytes(b"\x00 whatever it is")
    what, remedy = UNREADABLE[ending]
    with pytest.raises(NetworkFileError) as caught:
        read_document(path)
    assert what in str(caught.value)
    assert remedy in str(caught.value)
    for command in ("query", "inspect"):
        assert main([command, str(path)]) == 1
        assert remedy in capsys.readouterr().err


def test_the_command_reads_them_and_writes_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(EXTENSIONS) < set(READABLE)
    for format, text in TEXTS.items():
        path, target = tmp_path / f"chest.{format}", tmp_path / f"{format}.bif"
        path.write_text(text)
        assert main(["convert", str(path), str(target)]) == 0
        assert read_document(target).factors == example().factors
        assert main(["query", str(path), "--from", format, "--target", "lung"]) == 0
        assert main(["convert", str(target), str(path)]) == 2
        assert "given by the extension of its name (.bif, " in capsys.readouterr().err
        assert path.read_text() == text


@pytest.mark.parametrize("name", ['a"b', "a\tb", " a", "a b", "a\x7f"])
def test_advice_about_names_leads_to_a_format_that_carries_them(name: str, tmp_path: Path) -> None:
    """BIF advised XMLBIF for a name with a tab, and XMLBIF advised BIF."""
    net = fgrn.BayesianNetwork({name: ["no", name]})
    for kind in ("bif", "xmlbif", "net"):
        try:
            fgrn.write(net, tmp_path / "n.x", format=kind)
        except fgrn.NetworkFileError as error:
            assert "or write XDSL (.xdsl), which carries any name." in str(error)
    fgrn.write(net, tmp_path / "n.xdsl")
    assert fgrn.read(tmp_path / "n.xdsl").names == (name,)
