"""Errors and warnings as data: their parts are attributes, and Python and the command line word them from these."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import fgrn
from fgrn.cli import COMMANDS, cli, main
from fgrn.cli.wording import OPTIONS, Options, spoken
from fgrn.core import exceptions
from fgrn.core.exceptions import PYTHON, FgrnError, FgrnWarning, Remedy, Report
from fgrn.tables import table_file

OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*(?![\w.])")
SETTING = re.compile(r"(?<![\w=])[a-z_]{3,}=(?!=)")

QUICK: dict[str, Any] = {"n_epochs": 3, "n_init": 1, "tol": 0.0, "random_state": 0}


# How the parts become a text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "it is bad."),
        ({"row": 3}, "Row 3: it is bad."),
        ({"rows": [3, 5]}, "Rows 3, 5: it is bad."),
        ({"column": "a"}, "Column 'a': it is bad."),
        ({"row": 3, "column": "a", "value": 7}, "Row 3, 'a': it is bad."),
        ({"file": "'t.csv'"}, "'t.csv': it is bad."),
        (
            {"file": "'t.csv'", "row": 1234, "line": 1236, "column": "a"},
            "'t.csv', row 1,234, line 1236, column 'a': it is bad.",
        ),
        ({"setting": "bins"}, "The 'bins' it is bad."),
        ({"remedies": "mend it"}, "it is bad. Mend it."),
        ({"remedies": ("a b", "c d", "e f")}, "it is bad. A b, c d, or e f."),
        ({"remedies": ("did you mean 'b'?", "leave it out")}, "it is bad. Did you mean 'b'? Leave it out."),
        ({"remedies": Remedy("allow more", bins=9, tol=...)}, "it is bad. Allow more with bins=9, tol=..."),
        ({"remedies": Remedy("if so, say {}", header=False)}, "it is bad. If so, say header=False."),
        ({"remedies": Remedy("leave it out", "", drop="a")}, "it is bad. Leave it out."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [FgrnError, fgrn.TableFileError, fgrn.UnknownNameError, FgrnWarning])
def test_a_text_is_made_of_its_parts(kind: type[Report], parts: dict[str, Any], text: str) -> None:
    error = kind("it is bad.", **parts)
    assert str(error) == text
    assert error.message == "it is bad."
    for name, value in parts.items():
        assert getattr(error, name) == value or name in ("rows", "remedies")
    assert error.rows == tuple(parts.get("rows", [parts["row"]] if "row" in parts else []))


def test_parts_can_be_changed_and_sent_elsewhere() -> None:
    error = fgrn.ImpossibleEvidence("it is bad.", rows=[1, 2], column="a", remedies=Remedy("say", bins=2))
    moved = error.shifted(10).changed(file="'t.csv'")
    assert str(moved) == "'t.csv', rows 11, 12, column 'a': it is bad. Say with bins=2."
    assert error.rows == (1, 2)
    for other in (pickle.loads(pickle.dumps(moved)), copy.copy(moved)):
        assert type(other) is fgrn.ImpossibleEvidence
        assert other.parts == moved.parts
    strange = pickle.loads(pickle.dumps(FgrnError("it is bad.", value=lambda: None)))  # what cannot be sent is told
    assert "lambda" in strange.value


# The options of a command


def test_every_option_is_one_of_a_command() -> None:
    """And every parameter with an option is one of the package."""
    commands = [command for name in COMMANDS if (command := cli.get_command(click.Context(cli), name))]
    real = {option for command in commands for one in command.params for option in one.opts}
    assert {option.split(" ")[0] for option in OPTIONS.values()} <= real


def of_command(name: str, error: Report) -> str:
    return spoken(error, cli.get_command(click.Context(cli), name))


def test_an_option_that_a_command_has_not_is_not_advised() -> None:
    error = FgrnError("it is bad.", remedies=("mend it", Remedy("learn anew", smoothing=0.5), Remedy("wait", rounds=9)))
    assert of_command("fit", error) == "it is bad. Mend it, or learn anew with --smoothing 0.5."
    assert of_command("predict", error) == "it is bad. Mend it, or learn anew with `fgrn fit --smoothing 0.5`."
    assert of_command("query", error) == "it is bad. Mend it."
    wide = FgrnError("it is wide.", remedies=Remedy("approximate", method="loopy"))
    assert of_command("query", wide) == "it is wide. Approximate with --method loopy."
    assert of_command("inspect", wide) == "it is wide. Approximate with `fgrn query --method loopy`."
    none = FgrnError("must be so.", setting="n_bins", value=0, remedies=Remedy("keep them", missing=()))
    assert of_command("fit", none) == "--bins must be so. Keep them with --missing ''."
    assert str(none) == "The 'n_bins' must be so. Keep them with missing=()."
    assert of_command("fit", FgrnError("must be so.", setting="holes")) == "The 'holes' must be so."
    quoted = FgrnError("it is bad.", remedies=Remedy("leave it out", drop=["my id", "b"]))
    assert of_command("fit", quoted) == "it is bad. Leave it out with --drop 'my id' --drop b."
    unknown = fgrn.NetworkFileError("it is bad.", remedies=Remedy("state it", format=...))
    assert of_command("query", unknown) == "it is bad. State it with --from NAME."
    assert Options(None).subject("tol") == "--tolerance"
    assert PYTHON.subject("tol") == "The 'tol'"


# What Python says


def table(rows: int = 30) -> dict[str, list[Any]]:
    return {"a": ["x", "y", "z"] * (rows // 3), "n": [row % 7 for row in range(rows)]}


def small() -> fgrn.Network:
    return fgrn.lvm({"a": ["x", "y", "z"], "n": 7}, hidden=2)


def certain() -> fgrn.BayesianNetwork:
    tables = {"a": [[1.0, 0.0]], "b": [[1.0, 0.0], [0.0, 1.0]]}
    return fgrn.BayesianNetwork({"a": 2, "b": 2}, [("a", "b")], tables)


def csv(folder: Path, text: str | bytes, name: str = "t.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def given(row: int | None = None, column: str | None = None, value: Any = None, setting: str | None = None) -> Any:
    return {"row": row, "column": column, "value": value, "setting": setting}


PROVOKED: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "a strange value": (lambda _: small().posterior({"a": ["x", "q"]}, "S"), given(1, "a", "q")),
    "a missing word": (lambda _: small().posterior({"a": ["?"]}, "S"), given(0, "a", "?")),
    "a strange column": (lambda _: small().posterior({"b": ["x"]}, "S"), given(None, "b")),
    "a bad distribution": (lambda _: small().posterior({"a": [[1, -1, 0]]}, "S"), given(0, "a", [1, -1, 0])),
    "impossible rows": (lambda _: certain().posterior({"a": [0, 1, 1]}, "b"), given(1)),
    "a bad weight": (lambda _: small().learn(table(), weights=[1.0] * 29 + [-1.0]), given(29, None, -1.0)),
    "a word among numbers": (
        lambda _: fgrn.Schema.infer({"n": [str(row) for row in range(70)] + ["oops"]}, max_levels=20),
        given(70, "n", "oops"),
    ),
    "many levels": (lambda _: fgrn.Schema.infer({"id": [f"i{row}" for row in range(90)]}), given(None, "id")),
    "infinity": (lambda _: fgrn.Schema.infer({"n": [1.0, np.inf]}), given(1, "n", np.inf)),
    "no text": (lambda _: fgrn.Schema.infer({"a": ["x", "\ud800"]}), given(1, "a", "\ud800")),
    "an unseen level": (
        lambda _: fgrn.Schema.infer(table()).codes({"a": ["x", "new"]}, unseen="error"), given(None, "a", "new")
    ),
    "a warning of an unseen level": (
        lambda _: fgrn.Schema.infer(table()).codes({"a": ["x", "new"]}), given(None, "a", "new")
    ),
    "words for missing": (lambda _: fgrn.Schema.infer({"a": ["x", "y", "?"] * 9}), given(None, None, "?")),
    "names that are a row": (lambda _: fgrn.Schema.infer({"x": ["x", "y"], "y": ["y", "z"]}), given()),
    "a wrong choice": (lambda _: small().learn(table(), holes="no"), given(None, None, "no", "holes")),
    "a wrong number": (lambda _: small().learn(table(), epochs=0), given(None, None, 0, "epochs")),
    "an unknown name": (lambda _: small().posterior(table(), "Q"), given(None, None, "Q")),
    "a file that is not there": (lambda at: table_file.read(at / "no.csv"), given(None, None, "PATH")),
    "a ragged line": (lambda at: table_file.read(csv(at, "a,b\n1,2\n3\n")), given(1)),
    "a value that is not UTF-8": (lambda at: table_file.read(csv(at, b"a,b\n\xe9,2\n")), given(0, "a", b"\xe9")),
    "names that are not UTF-8": (lambda at: table_file.read(csv(at, b"a,\xe9\n1,2\n")), given(None, None, b"\xe9")),
    "an odd delimiter": (lambda at: table_file.read(csv(at, "a;b\n1;2\n3;4\n")), given(None, None, ";")),
    "blanks": (lambda at: table_file.read(csv(at, "a b\nx 1\ny 2\n")), given()),
    "runs of blanks": (lambda at: table_file.read(csv(at, "a  b\nx 1\ny 2\n")), given()),
    "a comment": (lambda at: table_file.read(csv(at, "# ours\na;b\n1;2\n")), given(None, None, "# ours")),
    "a comment over two columns": (lambda at: table_file.read(csv(at, "#ours\na,b\n1,2\n")), given(0)),
    "a delimiter that is none": (
        lambda at: table_file.read(csv(at, "a\n1\n"), delimiter="ab"), given(None, None, "ab", "delimiter")
    ),
    "an encoding that is none": (
        lambda at: table_file.read(csv(at, "a\n1\n"), encoding="xx"), given(None, None, "xx", "encoding")
    ),
    "names twice": (lambda at: table_file.read(csv(at, "a,a\n1,2\n")), given(None, None, "a")),
    "numbers as names": (lambda at: table_file.read(csv(at, "1,2\n1,2\n")), given(None, None, ("1", "2"))),
    "no format": (lambda at: table_file.read(csv(at, "a\n1\n", "t.odd")), given()),
    "a file of bytes": (lambda at: table_file.read(csv(at, b"a,b\n\0\0")), given()),
    "a later column": (
        lambda at: list(fgrn.Stream([csv(at, "a\n1\n", "1.csv"), csv(at, "a,b\n1,2\n", "2.csv")])), given(None, "b")
    ),
    "a bad row of a stream": (
        lambda at: small().learn(csv(at, "a,n\nx,1\nq,2\n")), given(1, "a", "q")
    ),
    "no convergence": (
        lambda _: fgrn.LatentClassModel(n_hidden=3, n_epochs=3, n_init=1).fit(table()), given()
    ),
    "no more hidden states": (
        lambda _: fgrn.LatentClassModel(n_hidden="auto", max_hidden=2, **QUICK).fit({n: [*"pqr"] * 20 for n in "abcd"}),
        given(None, None, 2),
    ),
    "too few rows to hold out": (
        lambda _: fgrn.LatentClassModel(n_hidden="auto", criterion="held_out", **QUICK).fit({"a": ["p", "q", "r"]}),
        given(),
    ),
    "a checkpoint without a file": (lambda _: small().learn(table(), resume=True), given()),
    "a checkpoint that is there": (
        lambda at: small().learn(table(), checkpoint=csv(at, "", "c.ckpt")), given(None, None, "PATH")
    ),
    "a network that is too wide": (
        lambda _: fgrn.MarkovNetwork(
            {f"v{i}": 2 for i in range(30)},
            [((f"v{i}", f"v{j}"), np.ones((2, 2))) for i in range(30) for j in range(i)],
        ).posterior(None, "v0"),
        given(),
    ),
    "a table that sums to two": (
        lambda at: fgrn.read(csv(at, 'network n { }\nvariable a { type discrete [ 2 ] { x, y }; }\n'
                                 'probability ( a ) { table 1, 1; }\n', "n.bif")), given()
    ),
    "a network of no format": (lambda at: fgrn.read(csv(at, "what", "n.what")), given(None, None, "PATH")),
    "no model file": (lambda at: fgrn.load(csv(at, "a,b\n1,2\n")), given(None, None, "PATH")),
    "messages that do not converge": (
        lambda _: certain_loop().propagate({"a": [0]}, method="loopy", rounds=1, tolerance=0.0), given(0)
    ),
}  # fmt: skip


def certain_loop() -> fgrn.MarkovNetwork:
    pair = [[0.9, 0.1], [0.2, 0.8]]
    return fgrn.MarkovNetwork(dict.fromkeys("abc", 2), [(("a", "b"), pair), (("b", "c"), pair), (("c", "a"), pair)])


def provoked(make: Callable[[Path], Any], folder: Path) -> Report:
    """The error, or else the first warning, of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            make(folder)
        except FgrnError as error:
            return error
    return next(one.message for one in caught if isinstance(one.message, FgrnWarning))


@pytest.mark.parametrize("name", PROVOKED)
def test_python_names_settings_and_no_options(name: str, tmp_path: Path) -> None:
    make, parts = PROVOKED[name]
    error = provoked(make, tmp_path)
    text = str(error)
    assert not OPTION.search(text.replace(str(tmp_path), "")), text
    for part, value in parts.items():
        found = getattr(error, part)
        assert str(tmp_path) in found if value == "PATH" else found == value, (part, text)
    if error.row is not None:
        assert re.search(rf"\b[Rr]ows? {error.row}\b", text)
    if error.column is not None:
        assert repr(error.column) in text
    for remedy in error.remedies:
        assert remedy if isinstance(remedy, str) else remedy.worded() in text or remedy.worded()[1:] in text


# What the command line says

NETWORK = "network n {{ }}\nvariable a {{ type discrete [ 2 ] {{ x, y }}; }}\nprobability ( a ) {{ table {}; }}\n"

ASKED: dict[str, tuple[list[str], dict[str, str | bytes], str]] = {
    "a ragged line": (["inspect", "t.csv"], {"t.csv": "a,b\n1,2\n3\n"}, "with --on-bad skip"),
    "no UTF-8": (["inspect", "t.csv"], {"t.csv": b"a,b\n\xe9,2\n"}, "with --encoding NAME"),
    "an encoding": (["inspect", "t.csv", "--encoding", "xx"], {"t.csv": "a\n1\n"}, "--encoding must name"),
    "a delimiter": (["inspect", "t.csv", "--delimiter", "ab"], {"t.csv": "a\n1\n"}, "--delimiter is one plain"),
    "semicolons": (["inspect", "t.csv"], {"t.csv": "a;b\n1;2\n3;4\n"}, "with --delimiter CHARACTER"),
    "blanks": (["inspect", "t.csv"], {"t.csv": "a b\nx 1\ny 2\n"}, "If spaces separate values, use --delimiter ' '."),
    "a comment": (["fit", "t.csv", "-o", "m.fgrn"], {"t.csv": "#ours\na,b\n1,2\n"}, "if it is a comment, as its '#'"),
    "no format": (["inspect", "t.odd"], {"t.odd": "a\n1\n"}, "with --format NAME"),
    "bytes": (["inspect", "t.csv"], {"t.csv": b"a,b\n\0\0"}, "--format parquet, or if it is text with two"),
    "numbers as names": (["inspect", "t.csv"], {"t.csv": "1,2\n1,2\n"}, "use --no-header"),
    "names twice": (["inspect", "t.csv"], {"t.csv": "a,a\n1,2\n"}, "use --no-header"),
    "many levels": (
        ["fit", "t.csv", "-o", "m.fgrn"],
        {"t.csv": "id,b\n" + "".join(f"i{row},{row % 2}\n" for row in range(90))},
        "with --drop id, or allow so many levels with --max-levels 90",
    ),
    "a word among numbers": (
        ["fit", "t.csv", "-o", "m.fgrn"],
        {"t.csv": "n,b\n" + "".join(f"{row if row != 17 else 'oops'},{row % 2}\n" for row in range(90))},
        "with --missing oops",
    ),
    "no known value": (["fit", "t.csv", "-o", "m.fgrn"], {"t.csv": "a,b\n,\n,\n"}, "with --drop COLUMN"),
    "no convergence": (
        ["fit", "t.csv", "-o", "m.fgrn", "--hidden", "2", "--epochs", "2", "--starts", "1"],
        {"t.csv": "a,b\n" + "x,y\ny,x\ny,y\n" * 9},
        "more epochs with --epochs 4",
    ),
    "too few rows to hold out": (
        ["compare", "t.csv", "--criterion", "held_out"], {"t.csv": "a,b\nx,y\ny,x\n"}, "with --criterion bic"
    ),
    "no cache": (
        ["fit", "t.csv", "--stream", "--cache", "nowhere", "--hidden", "2", "-o", "m.fgrn"],
        {"t.csv": "a,b\nx,y\ny,x\n"},
        "another folder with --cache FOLDER",
    ),
    "a column that comes later": (
        ["fit", "d", "--hidden", "2", "-o", "m.fgrn"], {"d/1.csv": "a\nx\ny\n", "d/2.csv": "a,b\nx,y\n"}, "--drop b"
    ),
    "a checkpoint that is there": (
        ["fit", "t.csv", "--hidden", "2", "--checkpoint", "c.ckpt", "-o", "m.fgrn"],
        {"t.csv": "a,b\nx,y\ny,x\n", "c.ckpt": ""},
        "Go on from it with --resume",
    ),
    "no model": (["predict", "t.csv", "t.csv"], {"t.csv": "a,b\n1,2\n"}, "written by `fgrn fit`"),
    "a network of no format": (["query", "n.what"], {"n.what": "what"}, "with --from NAME"),
    "a table that sums to two": (["query", "n.bif"], {"n.bif": NETWORK.format("1, 1")}, "with --rescale"),
    "an impossible row": (["query", "n.bif", "--given", "a=y"], {"n.bif": NETWORK.format("1, 0")}, "out a value."),
    "a state that is none": (["query", "n.bif", "--given", "a=z"], {"n.bif": NETWORK.format("1, 0")}, "--given a=z: "),
    "a column that is none": (
        ["query", "n.bif", "--evidence", "t.csv"], {"n.bif": NETWORK.format("1, 0"), "t.csv": "b\nx\n"}, "--no-header"
    ),
    "a wide network": (
        ["query", "w.uai"],
        {"w.uai": "MARKOV\n30\n" + "2 " * 30 + "\n435\n"
                  + "".join(f"2 {i} {j}\n" for i in range(30) for j in range(i)) + "4 1 1 1 1\n" * 435},
        "with --method loopy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_the_command_line_names_options_and_no_settings(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, files, words = ASKED[name]
    (tmp_path / "d").mkdir()
    for file, content in files.items():
        (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    main(arguments)
    text = capsys.readouterr().err
    assert words in text
    assert not SETTING.search(text.replace(" ".join(arguments[2:]), "")), text
    assert "fgrn." not in text.replace("m.fgrn", "")


def test_rows_of_errors_are_those_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An impossible row that is explained is named as it was asked for, and so is none."""
    model, rows = tmp_path / "m.fgrn", tmp_path / "t.csv"
    fgrn.NaiveBayesClassifier(smoothing=0.0).fit({"a": ["x", "y"] * 9, "b": ["p", "q"] * 9}, ["u", "v"] * 9).save(model)
    rows.write_text("a,b\nx,p\nx,p\nx,q\n")
    assert main(["explain", str(model), str(rows), "--row", "2"]) == 1
    text = capsys.readouterr().err
    assert "fgrn: Row 2: this evidence has probability zero" in text
    assert "with `fgrn fit --smoothing COUNT`" in text
    assert main(["explain", str(model), "--set", "a=x", "--set", "b=q"]) == 1
    assert "fgrn: this evidence has probability zero" in capsys.readouterr().err


def test_no_text_of_ours_is_searched_or_replaced() -> None:
    """An error is asked for its parts: nothing looks into the text of one, but for those of others (`first_line`)."""
    text = r"str\((?:error|problem|found|warning|message)\)"
    looked = re.compile(rf".*(?:{text}\.(?:re|find|index|split|r?partition|starts|ends)| in {text}).*")
    sources = [path for path in Path(fgrn.__file__).parent.rglob("*.py") if path.name != "exceptions.py"]
    assert not [one for path in sources for one in looked.findall(path.read_text(encoding="utf-8"))]


def test_every_error_and_warning_is_public_and_documented() -> None:
    kinds = [one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Report)]
    names = {one.__name__ for one in kinds} - {"Report"}
    assert names <= set(fgrn.__all__)
    assert all(f" {name} " in str(exceptions.__doc__) for name in names - {"FgrnError", "FgrnWarning"})
    page = Path(__file__).parents[1] / "docs" / "reference" / "exceptions.md"
    if not page.exists():
        pytest.skip("the documentation is not beside these tests")
    assert names == set(re.findall(r"autoexception:: fgrn\.(\w+)", page.read_text(encoding="utf-8")))
