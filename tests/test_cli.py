"""The command line as users call it: output, files, errors and exit codes."""

from __future__ import annotations

import importlib
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import fgrn
from fgrn.cli import COMMANDS, SUMMARIES, main
from fgrn.tables import table_file

pytestmark = pytest.mark.usefixtures("quick_choice")


def rows(count: int = 200, seed: int = 0) -> dict[str, list[Any]]:
    """Return people who buy or not, which depends on colour and age; with missing values."""
    rng = np.random.default_rng(seed)
    buys = rng.random(count) < 0.5
    colour = np.where(rng.random(count) < np.where(buys, 0.9, 0.2), "red", "blue").tolist()
    age = np.round(rng.normal(np.where(buys, 60, 30), 8)).tolist()
    for row in range(0, count, 7):
        colour[row] = None
    for row in range(3, count, 9):
        age[row] = None
    return {"colour": colour, "age": age, "buys": np.where(buys, "yes", "no").tolist()}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    table_file.write(rows(), path)
    return path


@pytest.fixture
def model(people: Path, tmp_path: Path) -> Path:
    path = tmp_path / "people.fgrn"
    assert main(["fit", str(people), "--target", "buys", "-o", str(path), "--hidden", "3", "--json"]) == 0
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> str:
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == status
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out if status == 0 else err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = said(capsys, command, "--help")
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "Example" in text
    assert f"fgrn {command}" in text
    first = text.split("\n\n")[1].strip().split(".")[0].replace("\n ", "")
    assert SUMMARIES[command]
    assert len(first) > 10


def test_the_list_of_commands_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--help")
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert "Exit codes" in text
    assert set(COMMANDS) == set(SUMMARIES)
    assert fgrn.__version__ in said(capsys, "--version")


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from fgrn.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numba", "sklearn", "pyarrow", "matplotlib", "rich", "pandas"}


def test_commands_do_not_import_what_they_do_not_use(people: Path, model: Path) -> None:
    code = """
import sys
from fgrn.__main__ import entry
assert not {"numpy", "click"} & set(sys.modules)  # Ctrl-C in these imports is for the command to handle
try:
    entry()
except SystemExit as end:
    assert end.code == 0
print(*sys.modules)
import scipy, sklearn.utils.fixes
assert scipy.stats.norm.sf(0.0) == 0.5
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", str(model), str(people)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "sklearn" in loaded
    later = "scipy.stats.distributions"  # `scipy.stats` itself is there, but not loaded
    assert not loaded & {"pandas", later, "scipy.optimize", "numba", "matplotlib"}


def test_an_interruption_while_modules_are_imported_is_told(monkeypatch: Any, capsys: Any) -> None:
    from fgrn.__main__ import entry

    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr("fgrn.cli.main", interrupted)
    with pytest.raises(SystemExit) as end:
        entry()
    assert (end.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_a_file_that_is_not_there_is_told_before_estimators_are_imported() -> None:
    code = "import sys; from fgrn.cli import main; main(['fit', 'nope.csv', '-o', 'm.fgrn']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "There is no file 'nope.csv'" in done.stderr
    assert "sklearn" not in done.stdout.split()


def test_fit_predict_complete_and_explain(people: Path, model: Path, tmp_path: Path, capsys: Any) -> None:
    fitted = fgrn.load(model)
    assert isinstance(fitted, fgrn.LatentClassifier)
    said(capsys, "predict", model, people, "-o", tmp_path / "answers.csv")
    answers = table_file.read(tmp_path / "answers.csv")
    assert answers.column_names == ["colour", "age", "buys", "predicted buys", "P(buys = no)", "P(buys = yes)"]
    table = table_file.read(people)
    np.testing.assert_allclose(
        answers["P(buys = yes)"].to_numpy(), fitted.predict_proba(table.select(["colour", "age"]))[:, 1]
    )
    main(["predict", str(model), str(tmp_path / "answers.csv"), "-o", str(tmp_path / "again.csv"), "--no-proba"])
    assert "'predicted buys' is written as 'predicted buys_'." in capsys.readouterr().err
    assert table_file.read(tmp_path / "again.csv").column_names[-1] == "predicted buys_"
    truth = np.array(answers["predicted buys"].to_pylist()) == np.array(answers["buys"].to_pylist())
    assert truth.mean() > 0.9
    said(capsys, "complete", model, people, "-o", tmp_path / "full.parquet", "--proba")
    full = parquet.read_table(tmp_path / "full.parquet")
    assert full["colour"].null_count == full["age"].null_count == 0
    assert full["buys"].to_pylist() == table["buys"].to_pylist()
    known = np.array([value is not None for value in table["age"].to_pylist()])
    assert (full["P(age)"].to_numpy()[known] == 1).all()
    told = json.loads(said(capsys, "explain", model, people, "--row", "1", "--json"))
    assert told["variable"] == "buys"
    assert told["prior"] + sum(told["contributions"].values()) == pytest.approx(told["log_odds"])
    assert "total" in said(capsys, "explain", model, "--set", "age=70", "--class", "yes")
    assert "times the baseline" in said(capsys, "prototypes", model)
    assert set(json.loads(said(capsys, "prototypes", model, "--json"))) == {"no", "yes"}


def test_pictures(model: Path, people: Path, tmp_path: Path, capsys: Any) -> None:
    for number, arguments in enumerate(
        (
            ["draw", model, "--set", "age=70", "-o"],
            ["explain", model, people, "--picture"],
            ["prototypes", model, "--picture"],
            ["compare", people, "--sizes", "1,2", "--starts", "1", "--picture"],
        )
    ):
        for suffix in ("svg", "png"):
            path = tmp_path / f"{number}.{suffix}"
            said(capsys, *arguments, path)
            assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_clusters_and_how_many(people: Path, tmp_path: Path, capsys: Any) -> None:
    found = json.loads(said(capsys, "compare", people, "--sizes", "1,2,3", "--starts", "2", "--json"))
    assert [one["n_hidden"] for one in found["tried"]] == [1, 2, 3]
    assert found["best"] == 2
    assert "<- best" in said(capsys, "compare", people, "--sizes", "1,2", "--starts", "1")
    path = tmp_path / "types.fgrn"
    said(capsys, "fit", people, "-o", path, "--hidden", "2")
    out = said(capsys, "predict", path, people, "--no-keep")
    assert out.splitlines()[0] == '"predicted cluster","P(cluster = 0)","P(cluster = 1)"'
    for kind, hidden in {"naive-bayes": "", "deep": "2,3", "tan": "1", "tree": "2"}.items():
        states = ["--hidden", hidden] if hidden else []
        said(capsys, "fit", people, "--target", "buys", "--model", kind, *states, "-o", path)
        said(capsys, "predict", path, people)
    said(capsys, "fit", people, "--model", "ica", "--hidden", "2,2", "-o", path)
    assert "no classes" in said(capsys, "predict", path, people, status=1)


def test_a_hidden_tree_fills_in_any_column(people: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "tree.fgrn"
    text = said(capsys, "fit", people, "--model", "tree", "-o", path)
    assert "HiddenTreeModel: 200 rows" in text
    assert "held-out likelihood best after" in text
    said(capsys, "fit", people, "--model", "tree", "--hidden", "2", "--epochs", "3", "--stream", "-o", path)
    filled = said(capsys, "complete", path, people)
    assert len(filled.splitlines()) == 201
    assert "fgrn complete" in said(capsys, "predict", path, people, status=1)


def test_inspect(people: Path, tmp_path: Path, capsys: Any) -> None:
    table = rows()
    table["id"] = [f"p{k}" for k in range(200)]
    table["always"] = ["x"] * 200
    table["never"] = [None] * 200
    path = tmp_path / "odd.csv"
    table_file.write({k: pa.array(v, pa.string()) if k == "never" else v for k, v in table.items()}, path)
    text = said(capsys, "inspect", path)
    assert "200 rows, 6 columns" in text
    assert "id: 200 distinct values in 200 rows looks like an identifier" in text
    assert "always: always 'x'" in text
    assert "never: no value is known" in text
    found = {one["column"]: one for one in json.loads(said(capsys, "inspect", path, "--json"))["columns"]}
    assert found["colour"]["levels"] == ["blue", "red"]
    assert found["age"]["kind"] == "bins"
    assert found["colour"]["missing"] == 29


def test_pipes(people: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    class Piped(io.StringIO):
        buffer = io.BytesIO(people.read_bytes())

    monkeypatch.setattr(sys, "stdin", Piped())
    out = said(capsys, "predict", model, "-")
    assert len(out.splitlines()) == 201


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["fit", "NOTHING.csv", "-o", "m.fgrn"], 1, ["no file 'NOTHING.csv'"]),
        (["fit", "DATA", "--target", "buy", "-o", "m.fgrn"], 1, ["no column 'buy'", "'buys'"]),
        (["fit", "DATA", "--model", "latent", "-o", "m.fgrn"], 2, ["needs --target"]),
        (["fit", "DATA", "--target", "buys", "--hidden", "many", "-o", "m.fgrn"], 2, ["--hidden", "'many'"]),
        (["fit", "DATA", "--target", "buys", "-o", "nowhere/m.fgrn"], 1, ["nowhere", "folder"]),
        (["fit", "DATA", "--target", "buys", "--smoothing", "-1", "-o", "m.fgrn"], 2, ["--smoothing", "-1"]),
        (["fit", "DATA", "--target", "buys", "--hidden", "0", "-o", "m.fgrn"], 2, ["--hidden", "'0'"]),
        (["fit", "DATA", "--target", "buys", "--hidden", "4,8", "-o", "m.fgrn"], 2, ["--model deep"]),
        (["fit", "DATA", "--model", "ica", "--hidden", "auto", "-o", "m.fgrn"], 2, ["4,8"]),
        (["fit", "DATA", "--model", "ica", "--target", "buys", "-o", "m.fgrn"], 2, ["takes no --target"]),
        (["fit", "DATA", "--model", "tree", "--target", "buys", "--starts", "3", "-o", "m.fgrn"], 2, ["one start;"]),
        (["fit", "DATA", "--model", "tree", "--starts", "3", "-o", "m.fgrn"], 2, ["leave out --starts"]),
        (["fit", "DATA", "--model", "tree", "--cycles", "3", "-o", "m.fgrn"], 2, ["leave out --cycles"]),
        (
            ["fit", "DATA", "--target", "buys", "--model", "naive-bayes", "--hidden", "4", "-o", "m.fgrn"],
            2,
            ["no hidden"],
        ),
        (["compare", "DATA", "--sizes", "a"], 2, ["--sizes"]),
        (["fit", "DATA"], 2, ["--output"]),
        (["fit", "DATA", "-o", "-"], 2, ["name of a model file"]),
        (["fit", "DATA", "-o", "."], 2, ["name of a model file"]),
        (["fit", "DATA", "--target", "buys", "--test", "0.001", "-o", "m.fgrn"], 2, ["nothing to test on"]),
        (["predict", "MODEL", "DATA", "--json", "-o", "x.json"], 2, ["--json"]),
        (["predict", "DATA", "DATA"], 1, ["people.csv", "model file"]),
        (["predict", "MODEL", "OTHER"], 1, ["none of the columns", "colour"]),
        (["explain", "MODEL", "DATA", "--row", "200"], 1, ["no row 200", "200"]),
        (["explain", "MODEL", "DATA", "--row", "-1"], 2, ["--row"]),
        (["explain", "MODEL"], 2, ["--set"]),
        (["explain", "MODEL", "--set", "age"], 2, ["COLUMN=VALUE"]),
        (["explain", "MODEL", "--set", "ages=3"], 1, ["'ages'", "'age'"]),
        (["explain", "MODEL", "--set", "age=3", "--class", "maybe"], 1, ["'maybe'", "no, yes"]),
        (
            ["explain", "MODEL", "--set", "colour=green"],
            1,
            ["--set colour=green: There is no level of 'colour' called"],
        ),
        (["draw", "MODEL", "--given", "colour=green", "-o", "m.svg"], 1, ["--given colour=green: There is no level"]),
        (["draw", "MODEL", "--given", "colour", "-o", "m.svg"], 2, ["--given is COLUMN=VALUE"]),
        (["draw", "MODEL", "-o", "m.doc"], 1, [".doc"]),
        (["frit", "DATA"], 2, ["no command 'frit'", "'fit'"]),
        (["inspect", "BINARY"], 1, ["BINARY", "not a text file"]),
        (["inspect", "RAGGED"], 1, ["RAGGED", "line 3: 3 values"]),
        (["inspect", "EMPTY"], 1, ["EMPTY", "empty"]),
        (["inspect", "DATA", "--drop", "x"], 1, ["no column 'x'"]),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], status: int, words: list[str], people: Path, model: Path, tmp_path: Path, capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    files = {"DATA": people, "MODEL": model}
    for name, content in (
        ("BINARY", b"\x00\x01" * 50),
        ("RAGGED", b"a,b\n1,2\n1,2,3\n"),
        ("EMPTY", b"\n"),
        ("OTHER", b"q\n1\n"),
    ):
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_bytes(content)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    text = said(capsys, *(files.get(argument, argument) for argument in arguments), status=status)
    for word in words:
        assert word in text, text
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_files_of_all_kinds_say_the_same(tmp_path: Path) -> None:
    table = {
        "word": ["a", None, 'x "y", z'],
        "number": [1, 2, None],
        "float": [0.5, None, 2.0],
        "code": ["007", "010", None],
    }
    for suffix in ("csv", "tsv", "parquet", "csv.gz", "tsv.gz"):
        path = tmp_path / f"t.{suffix}"
        table_file.write(table, path)
        assert table_file.read(path).to_pydict() == table, suffix


def test_text_is_trimmed_and_missing_codes_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "adult.data"
    path.write_text("39, State-gov, ?\n50, ?, 3\n", encoding="utf-8")
    with pytest.warns(fgrn.TableWarning, match=r"column 'x1': '\?' in 1 row; column 'x2': '\?' in 1 row"):
        found = table_file.read(path, header=False).to_pydict()
    assert found == {"x0": [39, 50], "x1": ["State-gov", None], "x2": [None, 3]}
    kept = table_file.read(path, header=False, missing=["none"]).to_pydict()
    assert kept["x1"] == ["State-gov", "?"]


def test_an_unwritable_place_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    table_file.write({"a": [1]}, path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(fgrn.TableFileError, match="no space left"):
        table_file.write({"a": [2]}, path)
    monkeypatch.undo()
    assert table_file.read(path).to_pydict() == {"a": [1]}
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_doctor_and_bench(capsys: Any) -> None:
    found = json.loads(said(capsys, "doctor", "--warm", "--json"))
    assert all(one["fine"] for one in found)
    assert {"kernels", "all kernels", "kernel cache"} <= {one["what"] for one in found}
    text = said(capsys, "bench", "--rows", "2000", "--epochs", "2")
    assert "rows per second" in text


def test_doctor_goes_on_where_a_package_cannot_be_imported(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without_a_folder(name: str, package: str | None = None) -> Any:
        if name == "matplotlib":
            raise OSError("Matplotlib requires access to a writable cache directory")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without_a_folder)
    assert main(["doctor", "--json"]) == 1
    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert not found["matplotlib"]["fine"]
    assert "writable cache directory" in found["matplotlib"]["says"]
    assert found["kernels"]["fine"]


def test_a_table_is_read_as_the_model_learnt_it(tmp_path: Path, capsys: Any) -> None:
    learnt, new, model = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "m.fgrn"
    table_file.write({"v": ["1", "2", "x"] * 20, "n": [1, -9, 3] * 20, "c": ["p", "q", "q"] * 20}, learnt)
    said(capsys, "fit", learnt, "--target", "c", "--hidden", "3", "--missing", "-9", "-o", model)
    table_file.write({"v": [1, 2], "n": ["-9", "3"]}, new)
    assert main(["predict", str(model), str(new)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[1].split(",")[2] == '"p"'
    table_file.write({"v": ["1"], "n": ["three"]}, new)
    assert main(["predict", str(model), str(new)]) == 0
    assert "'three' in column 'n' is not a number" in capsys.readouterr().err
    table_file.write({"V": ["1"], "n": [3]}, new)
    assert main(["predict", str(model), str(new)]) == 0
    assert "v not in this table: taken as unknown. Did you mean 'v' instead of 'V'?" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "kept"), [(0.25, 50), (0.4, 80), (0.9, 180)])
def test_so_many_rows_are_held_out(share: float, kept: int, people: Path, tmp_path: Path, capsys: Any) -> None:
    fit = ("fit", people, "--target", "buys", "--hidden", "2", "-o", tmp_path / "m.fgrn")
    text = said(capsys, *fit, "--test", str(share), "--json")
    assert json.loads(text)["rows"] == 200 - kept


def test_held_out_rows_are_drawn_not_counted_off(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "ordered.csv"
    table_file.write({"a": ["p", "q"] * 100, "b": ["u", "v"] * 100}, path)
    text = said(capsys, "fit", path, "--target", "b", "--hidden", "2", "--test", "0.5", "-o", tmp_path / "m.fgrn")
    assert "accuracy on 100 held-out rows: 100.0%" in text


def test_a_column_of_lists_is_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "lists.parquet"
    parquet.write_table(pa.table({"a": [[1, 2], [3]], "b": [1, 2]}), path)
    assert "a: " in said(capsys, "inspect", path)
    assert "'a'" in said(capsys, "fit", path, "-o", tmp_path / "m.fgrn", status=1)


def test_an_unexpected_error_prints_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ArithmeticError("seven")

    monkeypatch.setattr(table_file, "read", broken)
    assert "ArithmeticError: seven" in said(capsys, "inspect", "x.csv", status=1)
    monkeypatch.setenv("FGRN_DEBUG", "1")
    with pytest.raises(ArithmeticError):
        main(["inspect", "x.csv"])


@pytest.mark.parametrize(
    ("name", "between"), [("tab", "\t"), ("\\t", "\t"), (";", ";"), ("semicolon", ";"), ("space", " ")]
)
def test_delimiters_have_names(name: str, between: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "".join(f"{between.join(line)}\n" for line in (["a", "b"], ["p", "q"], ["r", "s"])), encoding="utf-8"
    )
    found = json.loads(said(capsys, "inspect", path, "--delimiter", name, "--json"))
    assert [one["column"] for one in found["columns"]] == ["a", "b"]
    assert "one plain character" in said(capsys, "inspect", path, "--delimiter", "ab", status=1)


def test_another_encoding(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("name,n\nandré,2\n".encode("latin-1"))
    assert "line 2" in said(capsys, "inspect", path, status=1)
    assert "andré" in said(capsys, "inspect", path, "--encoding", "latin-1")


# What is said names options


def columns_of(tmp_path: Path, **columns: list[Any]) -> Path:
    path = tmp_path / "columns.csv"
    table_file.write(columns, path)
    return path


PYTHON_WORDS = (
    "max_levels",
    "n_bins",
    "unseen=",
    "criterion=",
    "sample_weight",
    "n_hidden",
    "propagate(",
    "smoothing)",
)


def assert_speaks_of_options(text: str) -> None:
    for word in PYTHON_WORDS:
        assert word not in text.replace("--smoothing)", ""), text


def test_many_levels_are_told_with_the_option(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, zip=[f"z{k % 70}" for k in range(200)], a=["p", "q"] * 100)
    for command in (["inspect", path], ["fit", path, "-o", tmp_path / "m.fgrn"], ["compare", path]):
        assert main([*map(str, command)]) == 0
        text = "".join(capsys.readouterr())
        assert "rarest" in text
        assert "--max-levels 70" in text
        assert_speaks_of_options(text)
    assert "--max-levels" not in said(capsys, "inspect", path, "--max-levels", "70")
    (found, _) = json.loads(said(capsys, "inspect", path, "--json"))["columns"]
    assert "--max-levels 70" in found["problem"]


def test_unseen_levels_are_told_with_the_option(model: Path, tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, colour=["green", "red"], age=[30, 40])
    for command in ("predict", "complete", "explain"):
        assert main([command, str(model), str(path)]) == 0
        told = capsys.readouterr().err
        assert "'green' not seen" in told
        assert "--unseen error" in told
        assert_speaks_of_options(told)
        assert "'green' not seen" in said(capsys, command, model, path, "--unseen", "error", status=1)


def test_a_model_remembers_what_an_unseen_level_is(people: Path, tmp_path: Path, capsys: Any) -> None:
    model, path = tmp_path / "strict.fgrn", columns_of(tmp_path, colour=["green"], age=[30])
    said(capsys, "fit", people, "--target", "buys", "--hidden", "2", "--unseen", "error", "-o", model)
    for command in ("predict", "complete", "explain"):
        said(capsys, command, model, path, status=1)
        said(capsys, command, model, path, "--unseen", "unknown")


def test_impossible_rows_are_told_with_options(tmp_path: Path, capsys: Any) -> None:
    model = tmp_path / "m.fgrn"
    table = {"a": ["p", "q"] * 50, "b": ["u", "v"] * 50, "c": ["x", "y"] * 50}
    fit = [
        "fit",
        columns_of(tmp_path, **table),
        "--target",
        "c",
        "--model",
        "naive-bayes",
        "--smoothing",
        "0",
        "-o",
        model,
    ]
    said(capsys, *fit)
    path = columns_of(tmp_path, a=["p", "q", "p", "p"], b=["u", "v", "u", "v"])
    assert main(["predict", str(model), str(path)]) == 0
    text = capsys.readouterr().err
    assert "Row 3" in text
    assert "smoothing" in text
    assert_speaks_of_options(text)
    assert "Row 3: " in said(capsys, "explain", model, path, "--row", "3", status=1)
    text = said(capsys, "explain", model, "--set", "a=p", "--set", "b=v", status=1)
    assert "Row" not in text
    assert "'a' = p" in text
    few = columns_of(tmp_path, a=["p", "q"])
    assert_speaks_of_options(said(capsys, "compare", few, "--criterion", "held_out", status=1))


@pytest.mark.parametrize(
    ("weights", "row", "words"),
    [
        (["1", "x", "2"], 1, "'x' is not a number"),
        ([1.0, 2.0, None], 2, "unknown"),
        ([1, 2, -3], 2, "-3"),
        ([1.0, float("inf"), 1.0], 1, "inf"),
        ([0, 0, 0], None, "zero"),
    ],
)
def test_weights_are_told_with_column_and_row(
    weights: list[Any], row: int | None, words: str, tmp_path: Path, capsys: Any
) -> None:
    path = columns_of(tmp_path, a=["p", "q", "p"], w=weights)
    for command in (["fit", path, "-o", tmp_path / "m.fgrn"], ["compare", path]):
        text = said(capsys, *command, "--weights", "w", status=1)
        assert "'w'" in text
        assert words in text
        if row is not None:
            assert f"Row {row}" in text
    assert "no column 'v'" in said(capsys, "compare", path, "--weights", "v", status=1)


def test_weights_count_rows(tmp_path: Path, capsys: Any) -> None:
    twice = columns_of(tmp_path, a=["p", "q", "p"], b=["u", "v", "v"], w=[2, 1, 3])
    one = json.loads(said(capsys, "compare", twice, "--weights", "w", "--sizes", "1", "--json"))
    longer = columns_of(tmp_path, a=["p", "p", "q", "p", "p", "p"], b=["u", "u", "v", "v", "v", "v"])
    other = json.loads(said(capsys, "compare", longer, "--sizes", "1", "--json"))
    assert one["tried"][0]["log_likelihood"] == pytest.approx(other["tried"][0]["log_likelihood"], rel=1e-3)


@pytest.mark.parametrize(
    "target", [[0.5, 1.25, 2.75] * 10, list(range(100)), [f"id{k}" for k in range(60)], [None] * 9]
)
def test_a_target_that_is_no_class_is_named(target: list[Any], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"a": ["p", "q", "p"] * (len(target) // 3) + ["p"] * (len(target) % 3), "cost": target}), path
    )
    text = said(capsys, "fit", path, "--target", "cost", "-o", tmp_path / "m.fgrn", status=1)
    assert "'cost'" in text
    assert "--" in text or "Choose another column" in text
    assert_speaks_of_options(text)


def test_so_many_classes_are_allowed_when_asked_for(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, a=["p", "q"] * 180, c=[f"c{k % 60}" for k in range(360)])
    said(capsys, "fit", path, "--target", "c", "-o", tmp_path / "m.fgrn", status=1)
    said(capsys, "fit", path, "--target", "c", "--max-levels", "60", "-o", tmp_path / "m.fgrn")


def test_a_table_without_columns_to_learn_from(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, c=["p", "q"])
    for command in (
        ["fit", path, "--target", "c", "-o", tmp_path / "m.fgrn"],
        ["fit", path, "--drop", "c", "-o", tmp_path / "m.fgrn"],
        ["compare", path, "--weights", "c"],
        ["inspect", path, "--drop", "c"],
    ):
        text = said(capsys, *command, status=1)
        assert "no column" in text
        assert "left" in text


# JSON everywhere


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json(command: str, capsys: Any) -> None:
    assert "--json" in said(capsys, command, "--help")


def test_complete_as_json(model: Path, people: Path, tmp_path: Path, capsys: Any) -> None:
    found = json.loads(said(capsys, "complete", model, people, "--json"))
    table = table_file.read(people).to_pylist()
    assert len(found) == len(table)
    for one, row in zip(found, table, strict=True):
        assert list(one["values"]) == list(row)
        assert set(one["filled"]) == {name for name, value in row.items() if value is None}
        assert all(0 < share <= 1 for share in one["filled"].values())
        assert all(one["values"][name] == value for name, value in row.items() if value is not None)
    assert "--json" in said(capsys, "complete", model, people, "--json", "-o", tmp_path / "x.csv", status=2)


def test_draw_as_json(model: Path, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "m.svg"
    found = json.loads(said(capsys, "draw", model, "-o", picture, "--set", "age=70", "--json"))
    assert found["file"] == str(picture)
    assert sum(found["beliefs"]["buys"].values()) == pytest.approx(1)
    assert found["beliefs"]["buys"]["yes"] > 0.8


def test_a_picture_says_what_is_predicted_where_that_differs(tmp_path: Path, capsys: Any) -> None:
    """The picture is of the network of all columns, and refined tables predict the class."""
    rng = np.random.default_rng(0)
    kind = rng.random(300) < 0.5
    alike = np.where(rng.random(300) < np.where(kind, 0.8, 0.2), "p", "q").tolist()
    rows = columns_of(tmp_path, a=alike, b=alike, c=alike, kind=np.where(kind, "one", "other").tolist())
    file, picture = tmp_path / "kinds.fgrn", tmp_path / "m.svg"
    said(capsys, "fit", rows, "--target", "kind", "--seed", "0", "-o", file)
    given = ["--given", "a=p", "--given", "b=p", "--given", "c=p"]
    predicted = fgrn.load(file).predict_proba({name: ["p"] for name in "abc"})[0]
    assert main(["draw", str(file), "-o", str(picture), *given]) == 0
    assert f"predict 'one' ({predicted[0]:.1%})" in capsys.readouterr().err
    found = json.loads(said(capsys, "draw", file, "-o", picture, *given, "--json"))
    assert list(found["predicted"]["kind"].values()) == pytest.approx(predicted)
    assert found["predicted"]["kind"] != found["beliefs"]["kind"]
    assert main(["draw", str(file), "-o", str(picture)]) == 0
    assert "refined" not in capsys.readouterr().err


def test_json_is_json(tmp_path: Path, capsys: Any) -> None:
    from fgrn.cli import terminal

    terminal.print_json({"a": float("nan"), "b": [float("-inf"), np.float64("nan"), 1], "c": np.array([np.nan, 2.0])})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert json.loads(capsys.readouterr().out, parse_constant=refuse) == {
        "a": None,
        "b": [None, None, 1],
        "c": [None, 2.0],
    }


# Pictures of what was asked for


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A model of 50 columns and a class."""
    rng = np.random.default_rng(0)
    kind = rng.random(100) < 0.5
    table = {f"v{k}": np.where(rng.random(100) < np.where(kind, 0.9, 0.1), "p", "q").tolist() for k in range(50)}
    path = columns_of(tmp_path, **table, kind=np.where(kind, "one", "other").tolist())
    assert (
        main(["fit", str(path), "--target", "kind", "--hidden", "2", "-o", str(tmp_path / "wide.fgrn"), "--json"]) == 0
    )
    return tmp_path / "wide.fgrn"


def test_the_class_and_what_is_known_are_drawn(wide: Path, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "m.svg"
    said(capsys, "draw", wide, "-o", picture)
    assert 'id="belief kind"' in picture.read_text(encoding="utf-8")
    said(capsys, "draw", wide, "-o", picture, "--set", "v49=p", "--set", "kind=one")
    drawn = picture.read_text(encoding="utf-8")
    assert 'id="belief kind"' in drawn
    assert 'id="belief v49"' in drawn
    found = json.loads(said(capsys, "draw", wide, "-o", picture, "--set", "kind=one", "--json"))["beliefs"]
    assert found["kind"] == {"one": 1, "other": 0}
    expected = fgrn.load(wide).prototypes_["one"]
    assert found["v3"] == pytest.approx(expected["v3"])
    text = said(capsys, "draw", wide, "-o", picture, "--set", "kind=none", status=1)
    assert "'none'" in text
    assert "one" in text
    assert "'kind'" in said(capsys, "draw", wide, "-o", picture, "--set", "kinds=one", status=1)


def test_the_class_is_explained_and_not_set(wide: Path, capsys: Any) -> None:
    assert "--class one" in said(capsys, "explain", wide, "--set", "v1=p", "--set", "kind=one", status=2)


@pytest.mark.parametrize("interrupted_at", [1, 3])
def test_an_interrupt_shows_what_was_compared(
    interrupted_at: int, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    network = fgrn.LatentClassModel._network

    def interrupting(self: Any, size: int) -> Any:
        if size == interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return network(self, size)

    command = ["compare", str(people), "--sizes", "1,2,3,4", "--starts", "2"]
    whole = json.loads(said(capsys, *command, "--json"))
    assert not whole["interrupted"]
    monkeypatch.setattr(fgrn.LatentClassModel, "_network", interrupting)
    assert main([*command, "--json"]) == 130
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["interrupted"]
    assert "stopping" in err
    if interrupted_at == 1:  # not much, and all there is
        assert [one["n_hidden"] for one in found["tried"]] == [1]
    else:
        assert found["tried"] == whole["tried"][:2]
    assert main([*command, "--picture", str(tmp_path / "sizes.svg")]) == 130
    text = capsys.readouterr().out
    assert "<- best" in text and "interrupted: not all candidates were tried" in text
    assert (tmp_path / "sizes.svg").exists()


def test_an_interrupted_choice_is_said(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    network, told = fgrn.LatentClassModel._network, "interrupted: not all candidates were tried"

    def interrupting(self: Any, size: int) -> Any:
        if size == 3:
            signal.raise_signal(signal.SIGINT)
        return network(self, size)

    command = ["fit", str(people), "-o", str(tmp_path / "m.fgrn"), "--starts", "1"]
    assert told not in said(capsys, *command)
    monkeypatch.setattr(fgrn.LatentClassModel, "_network", interrupting)
    assert main(command) == 130
    out = capsys.readouterr().out
    assert told in out and "<- best BIC" in out


def test_more_hidden_states_than_rows_are_told_before_they_are_learnt(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    told: list[str] = []
    network = fgrn.LatentClassModel._network

    def interrupted(self: Any, size: int) -> Any:
        told.append(capsys.readouterr().err)
        signal.raise_signal(signal.SIGINT)
        return network(self, size)

    monkeypatch.setattr(fgrn.LatentClassModel, "_network", interrupted)
    command = ["fit", str(people), "-o", str(tmp_path / "m.fgrn"), "--hidden", "5000"]
    assert main(command) == 130
    assert "Traceback" not in capsys.readouterr().err
    assert "fgrn: --hidden asks for 5,000 hidden states, more than the" in told[0]
    assert "--hidden auto" in told[0]


# Tables on a terminal


def test_wide_letters_are_aligned(tmp_path: Path, capsys: Any) -> None:
    from rich.cells import cell_len

    names = ["氏名", "age", "住所と電話番号", "🙂"]
    path = columns_of(tmp_path, **{name: ["東京", "x"] * 10 for name in names})
    for command in (["inspect", path], ["fit", path, "--hidden", "2", "-o", tmp_path / "m.fgrn"]):
        lines = said(capsys, *command).splitlines()
        places = {cell_len(line[: line.index("levels")]) for line in lines if any(name in line for name in names)}
        assert len(places) == 1
    lines = said(capsys, "explain", tmp_path / "m.fgrn", path).splitlines()[1:]
    assert len({cell_len(line) for line in lines}) == 1


LONG = [f"How satisfied were you with {what} of our service in the last twelve months?" for what in ("speed", "price")]


def test_long_names_fit_the_terminal_and_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = columns_of(tmp_path, **{name: ["very", "not at all"] * 10 for name in [*LONG, "other"]})
    whole = said(capsys, "inspect", path)
    assert all(name in whole for name in LONG)
    monkeypatch.setenv("COLUMNS", "60")
    said(capsys, "fit", path, "--target", "other", "--hidden", "2", "-o", tmp_path / "m.fgrn")
    for command in (["inspect", path], ["explain", tmp_path / "m.fgrn", path], ["prototypes", tmp_path / "m.fgrn"]):
        lines = said(capsys, *command).splitlines()
        assert max(map(len, lines)) <= 60, lines
        for word in ("spe", "pri"):
            assert any(word in line for line in lines), lines


@pytest.mark.parametrize("width", ["", "80"])
def test_long_levels_do_not_break_tables(
    width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    levels = [
        f"{'The interviewer wrote: ' * 6}{answer}, at least in the last twelve months"
        for answer in ("never", "often", "twice")
    ]
    path = columns_of(tmp_path, asked=levels * 20, age=["young", "old", "old"] * 20, other=["p", "q", "q"] * 20)
    model = tmp_path / "m.fgrn"
    tables = [
        said(capsys, *command)
        for command in (
            ["fit", path, "--target", "other", "--hidden", "2", "-o", model],
            ["inspect", path],
            ["prototypes", model],
        )
    ]
    for text in tables:
        assert max(map(len, text.replace(str(model), "").splitlines())) <= 120, text
        assert all(answer[:2] in text for answer in ("never", "often", "twice")), text
    for row, answer in enumerate(("never", "often", "twice")):  # also where the other levels are not shown
        text = said(capsys, "explain", model, path, "--row", str(row))
        assert f"asked = …{answer}" in text
        assert max(map(len, text.splitlines())) <= 80
    assert levels[0] in said(capsys, "explain", model, path, "--json")
    assert '"levels": {' not in said(capsys, "explain", model, path, "--json")
    said(capsys, "fit", path, "--target", "asked", "--hidden", "3", "-o", model)  # as classes
    for command in (["prototypes", model], ["explain", model, path], ["inspect", model]):
        text = said(capsys, *command)
        assert max(map(len, text.splitlines())) <= 150, text


def test_names_of_several_lines_are_one_line(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, **{"a\nb\tc": ["p", "q"] * 10})
    assert "\na\\nb\\tc " in said(capsys, "inspect", path)


# What goes wrong outside


def test_a_closed_pipe_is_no_error(model: Path, people: Path) -> None:
    for command in (
        ["prototypes", model],
        ["predict", model, people],
        ["inspect", people],
        ["predict", model, people, "--json"],
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "fgrn", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b""), command


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_said_in_words(people: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fgrn", "inspect", str(people)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"Errno" not in done.stderr
    assert b"o space left" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["inspect", "TWICE"], 1, ["several columns called 'p'", "--no-header"]),
        (["predict", "MODEL", "DATA", "-o", "x.xyz"], 2, ["x.xyz", ".csv", "-o"]),
        (["predict", "MODEL", "NOTHING", "-o", "nowhere/x.csv"], 1, ["nowhere", "folder"]),
        (["complete", "MODEL", "NOTHING", "-o", "."], 2, ["-o"]),
        (["compare", "NOTHING", "--picture", "x.doc"], 1, ["x.doc", ".svg"]),
        (["explain", "MODEL", "NOTHING", "--picture", "nowhere/x.svg"], 1, ["nowhere", "folder"]),
        (["prototypes", "NOTHING", "--picture", "x.doc"], 1, ["x.doc", ".svg"]),
        (["draw", "NOTHING", "-o", "x.doc"], 1, ["x.doc", ".svg"]),
        (["fit", "NOTHING", "-o", "nowhere/m.fgrn"], 1, ["nowhere"]),
        (["predict", "DATA", "DATA"], 1, ["`fgrn fit`"]),
        (["bench", "--epochs", "0"], 2, ["--epochs"]),
        (["bench", "--rows", "0"], 2, ["--rows"]),
        (["demo", "--hidden", "0"], 2, ["--hidden"]),
        (["paper", "--splits", "0"], 2, ["--splits"]),
        (["paper", "--folder", "nowhere"], 2, ["--folder", "nowhere"]),
        (["fit", "DATA", "--target", "buys", "--weights", "buys", "-o", "m.fgrn"], 2, ["--weights", "--target"]),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_done(
    arguments: list[str], status: int, words: list[str], people: Path, model: Path, tmp_path: Path, capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "twice.csv").write_text("p,q,p\n1,2,3\n", encoding="utf-8")
    files = {"DATA": people, "MODEL": model, "TWICE": tmp_path / "twice.csv"}
    monkeypatch.chdir(tmp_path)
    text = said(capsys, *(files.get(argument, argument) for argument in arguments), status=status)
    for word in words:
        assert word in text, text


def test_a_first_line_of_numbers_is_doubted(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("1,2.5\n3,4\n5,6\n", encoding="utf-8")
    assert main(["inspect", str(path)]) == 0
    assert "--no-header" in capsys.readouterr().err
    assert main(["inspect", str(path), "--no-header"]) == 0
    assert capsys.readouterr().err == ""


def test_numbers_that_look_like_identifiers_are_remarked(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, id=[1000 + k for k in range(100)], a=["p", "q"] * 50, age=[k % 60 for k in range(100)])
    text = said(capsys, "inspect", path)
    assert "id: " in text
    assert "identifier" in text
    assert "age: " not in text
    assert "identifier" in said(capsys, "inspect", columns_of(tmp_path, name=[f"p{k}" for k in range(30)]))


def test_a_value_that_is_set_may_be_unknown(model: Path, capsys: Any) -> None:
    known = json.loads(said(capsys, "explain", model, "--set", "colour=red", "--set", "age=?", "--json"))
    assert set(known["contributions"]) == {"colour"}


def test_holes_are_counted_whatever_they_are(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"f": [0.5, float("nan"), None, 1.5]}), path)
    text = said(capsys, "inspect", path)
    assert "4 rows, 1 column\n" in text
    assert "50.0%" in text


def test_decimal_commas_are_seen(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f"{k},5;x\n" for k in range(40)), encoding="utf-8")
    assert "--decimal ','" in said(capsys, "inspect", path)
    found = json.loads(said(capsys, "inspect", path, "--decimal", ",", "--json"))["columns"]
    assert found[0]["kind"] == "bins"


def test_truth_values_are_written_as_people_do(tmp_path: Path, capsys: Any) -> None:
    path, model = tmp_path / "t.parquet", tmp_path / "m.fgrn"
    parquet.write_table(pa.table({"a": ["p", "q"] * 20, "c": [True, False] * 20}), path)
    said(capsys, "fit", path, "--target", "c", "--hidden", "2", "-o", model)
    for word in ("true", "True"):
        assert json.loads(said(capsys, "explain", model, path, "--class", word, "--json"))["state"] is True
        said(capsys, "draw", model, "--set", f"c={word}", "-o", tmp_path / "m.svg")


def test_codes_for_missing_values_are_filled_in(tmp_path: Path, capsys: Any) -> None:
    path, model = tmp_path / "t.parquet", tmp_path / "m.fgrn"
    table = {"n": [1, 2, -9] * 20, "a": ["p", "q", "p"] * 20}
    parquet.write_table(pa.table(table), path)
    fgrn.LatentClassModel(missing_values=[-9], random_state=0).fit(table).save(model)
    found = json.loads(said(capsys, "complete", model, path, "--json"))
    assert [set(one["filled"]) for one in found[:3]] == [set(), set(), {"n"}]
    assert found[2]["values"]["n"] in (1, 2)


@pytest.mark.parametrize("how", [[], ["--stream"]])
def test_accuracy_is_that_of_rows_with_a_class(how: list[str], tmp_path: Path, capsys: Any) -> None:
    path, options = (
        tmp_path / "t.csv",
        ["--target", "y", "--model", "naive-bayes", "-o", str(tmp_path / "m.fgrn"), *how],
    )
    path.write_text("x,y\n" + "a,1\nb,0\na,\n" * 5)
    assert main(["fit", str(path), *options]) == 0
    printed = capsys.readouterr()
    assert "accuracy on 10 training rows: 100.0%" in printed.out
    assert "; 5 rows without a class" in printed.out
    assert "same one" not in printed.err
    path.write_text("x,y\n" + "a,no\nb,no\n" * 3)
    assert main(["fit", str(path), *options]) == 0
    printed = capsys.readouterr()
    assert "accuracy on 6 training rows" in printed.out
    assert "without a class" not in printed.out
    assert "All rows with a class have the same one, 'no'" in printed.err


def test_a_strict_model_reports_on_held_out_rows(tmp_path: Path, capsys: Any) -> None:
    path = columns_of(tmp_path, a=["p", "q"] * 15 + [f"only{k}" for k in range(10)], c=["x", "y"] * 20)
    model = tmp_path / "m.fgrn"
    fit = ["fit", path, "--target", "c", "--hidden", "2", "--test", "0.5", "--unseen", "error", "-o", model]
    assert "held-out" in said(capsys, *fit)
    assert fgrn.load(model).unseen == "error"


def test_what_a_picture_a_page_or_a_report_cannot_show_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    table = {"sound": rng.choice(["hum", "rattle"], 40).tolist(), "heat": rng.normal(size=40).tolist()}
    chain, types, few = (str(tmp_path / name) for name in ("chain.fgrn", "types.fgrn", "few.csv"))
    fgrn.HiddenMarkovModel(2, continuous=["heat"], random_state=0, n_init=1, n_epochs=3).fit(table).save(chain)
    assert main(["draw", chain, "-o", str(tmp_path / "chain.svg")]) == 0
    assert "leaves out heat: continuous" in capsys.readouterr().err
    assert main(["explore", chain, "-o", str(tmp_path / "chain.html")]) == 1
    message = capsys.readouterr().err
    assert "sequences of rows" in message and "`fgrn draw`" in message and "fgrn.hmm" not in message
    items = {name: rng.choice(["n", "y"], 40).tolist() for name in "abc"}
    fgrn.LatentClassModel(1, random_state=0).fit(items).save(types)
    table_file.write({"a": items["a"]}, few)
    assert main(["report", types, few, "--residuals"]) == 1
    assert "needs all items of the model; b, c not in" in capsys.readouterr().err
