"""First uses of the command line and the estimators, each as it should be."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fgrn
from fgrn.cli import main
from fgrn.tables import table_file

QUICK = {"n_epochs": 3, "tol": 0.0, "random_state": 0}


def shops(rows: int = 60) -> dict[str, list[Any]]:
    """A small table: two columns of words, one of numbers, and who buys."""
    buys = [("yes", "no")[row % 2] for row in range(rows)]
    colour = [("red", "blue")[(row % 2) ^ (row % 7 == 0)] for row in range(rows)]
    age = [30 + 20 * (row % 2) + row % 13 for row in range(rows)]
    return {"colour": colour, "age": age, "buys": buys}


def rain() -> fgrn.BayesianNetwork:
    """Rain makes the street wet; nothing else does."""
    return fgrn.BayesianNetwork(
        {"rain": ["no", "yes"], "wet": ["no", "yes"]},
        {"wet": ["rain"]},
        tables={"rain": [0.7, 0.3], "wet": [[1.0, 0.0], [0.1, 0.9]]},
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    found = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert found == status, err
    assert "Traceback" not in err
    return out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, people.csv, and a model of it, people.fgrn; not to be changed."""
    place = tmp_path_factory.mktemp("shop")
    table_file.write(shops(), place / "people.csv")
    given = [str(place / "people.csv"), "-o", str(place / "people.fgrn"), "--target", "buys", "--hidden", "2"]
    assert main(["fit", *given, "--starts", "1", "--json"]) == 0
    return place


@pytest.mark.parametrize("name", ["S", "S->colour", "S1", "S2"])
@pytest.mark.parametrize(
    "model",
    [
        fgrn.LatentClassifier(n_hidden=2, n_init=1, **QUICK),
        fgrn.NaiveBayesClassifier(**QUICK),
        fgrn.DeepLatentClassifier(n_hidden=[2, 2], **QUICK),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_class_may_be_called_like_the_hidden_variable(name: str, model: Any, tmp_path: Path) -> None:
    table = shops()
    classes = table.pop("buys")
    called = model.fit(table, {name: classes})
    found = called.predict_proba(table)
    assert called.network_.variable(name).cardinality == 2
    np.testing.assert_array_equal(found, model.fit(table, {"buys": classes}).predict_proba(table))
    model.fit(table, {name: classes}).save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    np.testing.assert_array_equal(again.predict_proba(table), found)
    np.testing.assert_array_equal(again.embed(table), model.embed(table))


@pytest.mark.parametrize("way", ["name", "link", "hard link", "folder", "glob"])
@pytest.mark.parametrize("command", ["predict", "complete"])
def test_no_command_writes_over_what_it_reads(
    command: str, way: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "people.csv"
    source.write_bytes((folder / "people.csv").read_bytes())
    target = tmp_path / ("answers.csv" if "link" in way else "people.csv")
    if way == "link":
        target.symlink_to(source)
    elif way == "hard link":
        target.hardlink_to(source)
    data = {"folder": str(tmp_path), "glob": str(tmp_path / "*.csv")}.get(way, str(source))
    before = source.read_bytes()
    _, err = said(capsys, command, folder / "people.fgrn", data, "-o", target, status=2)
    assert "DATA and -o are one file" in err
    assert source.read_bytes() == before


def test_models_and_checkpoints_do_not_replace_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = folder / "people.csv", folder / "people.fgrn"
    before = table.read_bytes(), model.read_bytes()
    assert "DATA and -o" in said(capsys, "fit", table, "-o", table, status=2)[1]
    assert "DATA and --ch" in said(capsys, "fit", table, "-o", folder / "m", "--checkpoint", table, status=2)[1]
    assert "-o and --ch" in said(capsys, "fit", table, "-o", model, "--checkpoint", model, status=2)[1]
    assert (table.read_bytes(), model.read_bytes()) == before


def test_query_does_not_replace_its_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, rows = tmp_path / "rain.bif", tmp_path / "rows.csv"
    fgrn.write(rain(), net)
    rows.write_text("wet\nyes\n")
    assert "--evidence and -o" in said(capsys, "query", net, "--evidence", rows, "-o", rows, status=2)[1]
    assert rows.read_text() == "wet\nyes\n"


def test_a_folder_is_no_file_to_write(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.csv").mkdir()
    _, err = said(capsys, "predict", folder / "people.fgrn", folder / "people.csv", "-o", tmp_path / "d.csv", status=2)
    assert "is a folder" in err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("command", ["predict", "complete", "inspect"])
def test_pipes_with_a_name_are_read(
    command: str, kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_file.write(shops(), tmp_path / f"people.{kind}")
    os.mkfifo(tmp_path / "pipe")
    feeder = threading.Thread(
        target=lambda: (tmp_path / "pipe").write_bytes((tmp_path / f"people.{kind}").read_bytes())
    )
    feeder.start()
    model = [] if command == "inspect" else [folder / "people.fgrn"]
    out, _ = said(capsys, command, *model, tmp_path / "pipe", "--format", kind)
    feeder.join()
    assert out == said(capsys, command, *model, tmp_path / f"people.{kind}")[0]


def with_holes() -> dict[str, list[Any]]:
    table = shops(12)
    table["buys"][0] = table["buys"][3] = table["colour"][1] = table["age"][2] = None
    return table


def frames_of(table: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "mapping": table,
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "lazy": pl.LazyFrame(table),
        "arrow": pa.table(table),
    }


def listed(table: Any) -> dict[str, list[Any]]:
    table = table.collect() if isinstance(table, pl.LazyFrame) else table
    table = table.to_arrow() if isinstance(table, pl.DataFrame) else table
    table = table if isinstance(table, dict) else pa.table(table).to_pydict()
    return {name: list(column) for name, column in table.items()}


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "lazy", "arrow"])
def test_the_class_is_completed_like_a_column(kind: str, folder: Path) -> None:
    model, table = fgrn.load(folder / "people.fgrn"), with_holes()
    full, sure = model.complete(frames_of(table)[kind], return_proba=True)
    found = listed(full)
    assert [one for row, one in enumerate(found["buys"]) if row not in (0, 3)] == shops(12)["buys"][1:3] + shops(12)[
        "buys"
    ][4:]
    believed = model.predict_proba({name: table[name] for name in ("colour", "age")})
    assert [found["buys"][row] for row in (0, 3)] == model.classes_[believed.argmax(axis=1)][[0, 3]].tolist()
    np.testing.assert_allclose(sure[[0, 3], 2], believed.max(axis=1)[[0, 3]])
    assert (sure[[1, 2, 4], 2] == 1).all()
    seen = model.network_.propagate(
        {"buys": [table["buys"][1]], "age": model.schema_.codes({"age": [table["age"][1]]})["age"]}
    )
    assert found["colour"][1] == model.schema_["colour"].levels[seen.marginal("colour")[0].argmax()]
    assert sure[1, 0] == pytest.approx(seen.marginal("colour")[0].max())


def test_rows_and_classes_alone_are_completed(folder: Path) -> None:
    model = fgrn.load(folder / "people.fgrn")
    row = pd.Series({"colour": "red", "age": 31.0, "buys": None}, name=7)
    assert model.complete(row)["buys"] == model.predict({"colour": ["red"], "age": [31.0]})[0]
    assert model.complete({"buys": [None, "yes"]})["buys"][1] == "yes"
    with pytest.warns(fgrn.UnseenLevelWarning, match="Kept unchanged"):
        full, sure = model.complete({"colour": ["red"], "buys": ["maybe"]}, return_proba=True)
    assert full["buys"] == ["maybe"]
    assert sure[0].tolist()[0::2] == [1.0, 0.0]


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_complete_keeps_what_the_model_does_not_know(
    form: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "odd.csv"
    table.write_text("colour,age,buys\nred,31,\npink,45,yes\n,oops,no\nblue,,maybe\n")
    model = fgrn.load(folder / "people.fgrn")
    target = ["--json"] if form == "json" else ["--proba", "-o", tmp_path / f"full.{form}"]
    out, err = said(capsys, "complete", folder / "people.fgrn", table, *target)
    assert "'oops' in column 'age' is not a number: taken as unknown for the other columns, and kept as it is" in err
    assert "'pink'" in err
    assert "Kept unchanged" in err
    if form == "json":
        records = json.loads(out)
        assert [set(one["filled"]) for one in records] == [{"buys"}, set(), {"colour"}, {"age"}]
        rows = [one["values"] for one in records]
    else:
        rows = table_file.read(tmp_path / f"full.{form}").to_pylist()
        assert [row["P(age)"] for row in rows[:3]] == [1, 1, 0]
        assert [row["P(colour)"] for row in rows[:2]] == [1, 0]
        assert [row["P(buys)"] for row in rows[1:]] == [1, 1, 0]
    assert [row["age"] for row in rows[:3]] == ["31", "45", "oops"]
    expected = model.complete({"colour": ["blue"], "age": [None]})["age"][0]
    assert float(rows[3]["age"]) == round(expected, 2), "as many digits as bins of some years can tell"
    assert [row["colour"] for row in rows[:2]] == ["red", "pink"]
    assert rows[2]["colour"] == model.complete({"colour": [None], "age": [None], "buys": ["no"]})["colour"][0]
    assert [row["buys"] for row in rows] == [model.predict({"colour": ["red"], "age": [31]})[0], "yes", "no", "maybe"]


FITS = [
    ["fit", "DATA", "--hidden", "2", "--starts", "1", "-o", "OUT"],
    ["fit", "DATA", "--hidden", "2", "--starts", "1", "-o", "OUT", "--target", "buys"],
    ["fit", "DATA", "--hidden", "2", "--starts", "1", "-o", "OUT", "--stream"],
    ["fit", "DATA", "--hidden", "2", "--starts", "1", "-o", "OUT", "--stream", "--target", "buys"],
    ["fit", "DATA", "--hidden", "2", "-o", "OUT", "--online", "--target", "buys"],
    ["compare", "DATA", "--sizes", "1", "--starts", "1"],
    ["predict", "MODEL", "DATA"],
    ["predict", "MODEL", "DATA", "--json"],
    ["complete", "MODEL", "DATA"],
    ["complete", "MODEL", "DATA", "--json"],
]


@pytest.mark.parametrize("arguments", FITS, ids=" ".join)
def test_infinite_numbers_have_one_fate(
    arguments: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = shops()
    rows["age"] = [age + 0.5 for age in rows["age"]]
    rows["age"][4] = float("-inf")
    table_file.write(rows, tmp_path / "odd.csv")
    table_file.write(
        {n: [v for r, v in enumerate(column) if r != 4] for n, column in rows.items()}, tmp_path / "ok.csv"
    )
    places = {"MODEL": folder / "people.fgrn", "OUT": tmp_path / "m.fgrn"}

    def run(data: str, *more: str, status: int = 0) -> tuple[str, str]:
        given = [str({**places, "DATA": tmp_path / data}.get(one, one)) for one in arguments]
        return said(capsys, *given, *more, status=status)

    _, err = run("odd.csv", status=1)
    assert "row 4, column 'age': -inf is not a finite number." in err
    assert "--on-bad skip" in err
    assert not (tmp_path / "m.fgrn").exists()
    out, err = run("odd.csv", "--on-bad", "skip")
    assert err.count("1 row was left out: 1 (not a finite number, column 'age')") == 1
    assert out == run("ok.csv", "--on-bad", "skip")[0]


def test_infinite_numbers_are_named_in_python() -> None:
    with pytest.raises(fgrn.SchemaError, match=r"Row 1, 'age': inf is not a finite number"):
        fgrn.Schema.infer({"age": [1.0, float("inf"), 2.0]})


@pytest.mark.parametrize(
    ("values", "told", "untold"),
    [
        (["1,234", "10,000", "999", "1,234,567"], "thousands separators", "--decimal"),
        (["1,234", "10,000"], "thousands separators", "--decimal"),
        (["1,5", "10,000"], "--decimal ','.", "thousands"),
        (["0,123", "10,000"], "--decimal ','.", "thousands"),
        (["$23,000", "$1,500.50", "$0"], "numbers with a sign or a unit, such as '$23,000'", "--decimal"),
        (["1.234 €", "12 €", "0,5 €"], "Write them with digits and a decimal point alone", "--decimal"),
        (["12%", "7.5%", "100%"], "such as '12%', are taken as words", "--decimal"),
        (["5 USD", "5 apples", "7 USD"], "", "as words"),
        ([str(row % 5) for row in range(40)] + ["oops"], "'oops' is not a number, and all other", "thousands"),
        ([f"{row}.5" for row in range(70)] + ["oops"] + ["80.5"] * 3, "Row 70: 'oops' is not a number", "identifier"),
        (["a", "b", "c", "4"] * 5, "", "is not a number"),
    ],
)
def test_inspect_tells_what_numbers_look_like(
    values: list[str], told: str, untold: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_file.write(
        {"x": values, "y": ["a", "b"] * (len(values) // 2) + ["a"] * (len(values) % 2)}, tmp_path / "t.csv"
    )
    out, _ = said(capsys, "inspect", tmp_path / "t.csv")
    assert told in out
    assert untold not in out


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([f"{row % 9},5" for row in range(60)], "numbers with a decimal comma, such as '0,5', are taken as words. "),
        ([f"{row},5" for row in range(60)], "60 rows are numbers with a decimal comma, such as '0,5'. "),
        ([f"{row % 30},5" for row in range(60)], "30 levels are many, and are numbers with a decimal comma, such as "),
    ],
)
def test_fit_tells_how_numbers_with_a_decimal_comma_are_read(
    values: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_file.write({"x": values, "y": ["a", "b"] * 30}, tmp_path / "t.csv")
    arguments = [tmp_path / "t.csv", "-o", tmp_path / "m.fgrn", "--max-levels", "20", "--hidden", "2"]
    _, err = said(capsys, "fit", *arguments, status=int(len(set(values)) == 60))
    assert f"Column 'x': {told}" in err or f"Column 'x': 60 distinct values in {told}" in err
    assert "Read the file with --decimal ','" in err
    _, err = said(capsys, "fit", *arguments, "--decimal", ",")
    assert "decimal" not in err


def test_inspect_names_the_row_of_an_infinite_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_file.write({"x": [2.5, 1.5, float("inf"), -float("inf")]}, tmp_path / "t.csv")
    told = "inf is not a finite number. Rows are counted from 0. Leave such rows out with --on-bad skip."
    assert f"x: Row 2: {told}" in said(capsys, "inspect", tmp_path / "t.csv")[0]
    assert main(["fit", str(tmp_path / "t.csv"), "-o", str(tmp_path / "m.fgrn")]) == 1
    assert f"row 2, column 'x': {told}" in capsys.readouterr().err
    with pytest.raises(fgrn.SchemaError, match="Row 2, 'x': inf is not"):
        fgrn.Schema.infer({"x": [2.5, 1.5, float("inf"), -float("inf")]})


def test_one_word_among_numbers_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"x": [f"{row}.5" for row in range(300)], "y": ["a", "b"] * 150}
    rows["x"][17] = "oops"
    table_file.write(rows, tmp_path / "t.csv")
    given = ["fit", tmp_path / "t.csv", "-o", tmp_path / "m.fgrn", "--hidden", "2"]
    _, err = said(capsys, *given, status=1)
    assert "Row 17, 'x': 'oops' is not a number; the other 299 distinct values are" in err
    assert "--missing" in err
    assert "'oops' is not a number" in said(capsys, *given, "--stream", status=1)[1]


@pytest.mark.parametrize("as_json", [False, True])
def test_samples_stay_beside_their_evidence(as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, rows = tmp_path / "rain.bif", tmp_path / "rows.csv"
    fgrn.write(rain(), net)
    for text, given in (("no,yes\nyes,yes\nno,no\n", [None, "yes", "no"]), ("no,yes\n", [None])):
        rows.write_text(f"rain,wet\n{text}")
        arguments = ["query", net, "--evidence", rows, "--sample", "2"]
        if as_json:
            found = [row["wet"] for row in json.loads(said(capsys, *arguments, "--json")[0])]
        else:
            said(capsys, *arguments, "-o", tmp_path / "drawn.csv")
            found = table_file.read(tmp_path / "drawn.csv")["wet"].to_pylist()
        assert found == [one for one in given for _ in range(2)]


@pytest.mark.parametrize("option", ["--smoothing", "--tolerance"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_are_none_are_refused_by_their_option(
    option: str, value: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = said(capsys, "fit", folder / "people.csv", "-o", tmp_path / "m.fgrn", option, value, status=2)
    assert option in err
    assert "LatentClass" not in err


def test_classes_are_shown_as_they_are_written(folder: Path) -> None:
    model = fgrn.load(folder / "people.fgrn")
    with pytest.raises(ValueError, match="The class 'maybe' is not among"):
        model.partial_fit({"colour": ["red"], "age": [31]}, ["maybe"])
    with pytest.raises(ValueError, match="There is no class 'maybe'"):
        model.explain({"colour": "red"}, np.str_("maybe"))


def test_too_many_hidden_states_are_called_so() -> None:
    with pytest.raises(fgrn.WiringError, match="cannot have as many as 100,000,000 states"):
        fgrn.lvm({"a": 2}, hidden=100_000_000)


def test_a_model_is_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "inspect", folder / "people.fgrn")[0]
    assert "learnt from a table" in shown and "`fgrn predict`" in shown


def test_a_packed_table_without_its_ending_is_called_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert "is packed by gzip" in said(capsys, "inspect", tmp_path / "t.csv", status=1)[1]


def test_the_formats_of_tables_are_named_by_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.doc").write_text("a\n1\n")
    assert "(csv, tsv, parquet) with --format NAME." in said(capsys, "inspect", tmp_path / "t.doc", status=1)[1]
    assert "Of DATA" not in said(capsys, "query", "--help")[0]


def test_columns_that_are_alike_have_one_line_where_there_are_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, names = tmp_path / "t.csv", [f"q{number}" for number in range(50)]
    lines = [",".join(["yes" if (row + at) % 3 else "no" for at in range(50)] + ["abc"[row % 3]]) for row in range(12)]
    path.write_text("\n".join([",".join([*names, "town"]), *lines]) + "\n")
    out, _ = said(capsys, "fit", path, "--hidden", "2", "-o", tmp_path / "m.fgrn")
    assert out.startswith(
        "Schema of 51 columns, those with the same levels in one line\n  50 columns  q0, q1, ... (48 more)"
    )
    assert "  1 column    town" in out
    assert "105 free parameters are more than the 12 rows" in out
    shown = said(capsys, "fit", path, "--hidden", "2", "-o", tmp_path / "m.fgrn", "--json")[0]
    assert json.loads(shown)["parameters"] == 2 * (50 + 2) + 1


def test_people_are_told_once_that_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """As a warning of the logger, which Python writes to standard error where no logging is set up."""
    from fgrn.engines.kernels import cache

    context = SimpleNamespace(refresh=lambda: None, codegen=lambda: SimpleNamespace(magic_tuple=lambda: ()))
    monkeypatch.setattr(cache, "folders", lambda: [tmp_path])
    monkeypatch.setattr(cache._Said, "compiling", False)
    for kernel in (rain, shops):
        assert cache.KernelCache(kernel).load_overload("signature", context) is None
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1 and "rain, ...), each once on this machine" in told[0]


def test_more_hidden_states_than_can_be_learnt_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    for asked in (["fit", path, "--hidden", "60000000", "-o", tmp_path / "m.fgrn"],
                  ["fit", path, "--model", "deep", "--target", "a", "--hidden", "4,60000000", "-o", tmp_path / "m"],
                  ["compare", path, "--sizes", "1,60000000"]):  # fmt: skip
        assert "from 1 to 1,000,000. Got '60000000'" in said(capsys, *asked, status=2)[1]


def test_codes_for_missing_values_say_that_the_usual_words_are_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\n-,2\nNA,1\nx,2\n" * 3)
    text = "Taken as missing: '-', 'NA'. --missing is given, so these are values: empty cells, '?', 'N/A'"
    assert text in said(capsys, "inspect", path, "--missing", "-", "--missing", "NA")[0]
    fit = ["fit", path, "--hidden", "1", "-o", tmp_path / "m.fgrn"]
    assert text in said(capsys, *fit, "--missing", "-", "--missing", "NA")[0]
    assert "Choose others with --missing CODE." in said(capsys, *fit)[0]


def test_inspect_and_fit_call_columns_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("word,few,many\n" + "".join(f"{'xy'[row % 2]},{row % 3},{row / 7}\n" for row in range(60)))
    out, _ = said(capsys, "inspect", path, "--json")
    kinds = {record["column"]: record["kind"] for record in json.loads(out)["columns"]}
    assert kinds == {"word": "levels", "few": "ordered", "many": "bins"}
    out, _ = said(capsys, "fit", path, "--hidden", "1", "-o", tmp_path / "m.fgrn")
    assert all(line.split()[2] == kinds[line.split()[0]] for line in out.splitlines()[1:4])


def test_the_two_kinds_of_files_name_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rain().save(tmp_path / "rain.fgrn")
    fgrn.write(rain(), tmp_path / "rain.bif")
    with pytest.raises(
        fgrn.NetworkFileError, match=r"it is a model file of fgrn\. Load it with fgrn\.load\('.*rain\.fgrn'\)"
    ):
        fgrn.read(tmp_path / "rain.fgrn")
    with pytest.raises(
        fgrn.ModelFileError, match=r"Read a network of another program with fgrn\.read\('.*rain\.bif'\)"
    ):
        fgrn.load(tmp_path / "rain.bif")
    assert (
        "network of another program with `fgrn query`"
        in said(capsys, "predict", tmp_path / "rain.bif", tmp_path / "rain.bif", status=1)[1]
    )
    assert "(.fgrn)" in said(capsys, "query", "--help")[0]


def test_evidence_against_an_intervention_names_it() -> None:
    changed = rain().do(rain="yes")
    for ask in (
        lambda: changed.posterior({"rain": ["no"]}, "wet"),
        lambda: changed.most_probable({"rain": ["no"]}),
        lambda: changed.propagate({"rain": ["yes", "no"]}),
    ):
        with pytest.raises(fgrn.ImpossibleEvidence, match=r"'rain' = no cannot be, since it is always yes, by .*do\)"):
            ask()


def signs() -> dict[str, list[str]]:
    """A table whose names contain the signs of options: equals signs and arrows."""
    rows = range(40)
    return {
        "a=b": [("yes", "no")[row % 2] for row in rows],
        "x->y": [("up", "down")[row % 3 > 0] for row in rows],
        "kind": [("p", "q")[row % 2] for row in rows],
    }


def test_names_with_equals_signs_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = tmp_path / "signs.csv", tmp_path / "signs.fgrn"
    table_file.write(signs(), table)
    said(capsys, "fit", table, "--target", "kind", "--hidden", "2", "-o", model)
    out, _ = said(capsys, "explain", model, "--set", "a=b=yes", "--set", "x->y=up")
    assert "a=b = yes" in out and "x->y = up" in out
    said(capsys, "draw", model, "--given", "a=b=no", "-o", tmp_path / "m.svg")
    _, err = said(capsys, "explain", model, "--set", "a=yes", status=1)
    assert "there is no column 'a'" in err
    fgrn.LatentClassModel(1).fit({"a": ["b=c", "d"] * 5, "a=b": ["c", "e"] * 5}).save(model)
    _, err = said(capsys, "explain", model, "--set", "a=b=c", status=2)
    assert "may be read as 'a' and the value 'b=c' or 'a=b' and the value 'c'" in err


@pytest.mark.parametrize(
    ("arc", "status", "told"),
    [
        ("kind>x->y", 0, "x->y    kind"),
        ("kind->x->y", 0, "x->y    kind"),
        ("x->y > kind", 0, "kind    x->y"),
        ("x->y", 1, "there is no column 'x' here"),
        ("kind>a=b>x->y", 2, "--required is one arc, PARENT>CHILD"),
        ("kind", 2, "--required is PARENT>CHILD"),
    ],
)
def test_arcs_are_given_by_arrows(
    arc: str, status: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_file.write(signs(), tmp_path / "signs.csv")
    found = said(capsys, "search", tmp_path / "signs.csv", "--required", arc, status=status)
    assert told in " ".join(found)


def test_a_fitted_model_is_not_queried_but_told_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, "query", folder / "people.fgrn", status=1)
    for command in ("fgrn predict", "fgrn complete", "fgrn explain", "fgrn explore", "fgrn search"):
        assert command in err


def test_a_mixture_of_trees_has_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = fgrn.HiddenTreeModel(2, n_trees=2, share_tables=True, n_epochs=1, validation=None, random_state=0)
    model.fit(shops()).save(tmp_path / "trees.fgrn")
    _, err = said(capsys, "explore", tmp_path / "trees.fgrn", status=1)
    assert "a mixture of trees" in err and "`fgrn draw`" in err and "share_tables" not in err and "network_" not in err
    with pytest.raises(fgrn.FgrnError, match=r"Explore its `network_`.* with share_tables=False"):
        fgrn.explore(model)


def test_settings_without_an_effect_are_told() -> None:
    table = {name: values for name, values in shops().items() if name != "age"}
    columns, buys = {"colour": table["colour"]}, table["buys"]
    quick = {**QUICK, "tol": 1e-3}
    for setting, model in (
        ("criterion", fgrn.LatentClassModel(2, criterion="aic", **quick)),
        ("criterion", fgrn.HiddenMarkovModel(2, criterion="aic", **quick)),
    ):
        with pytest.warns(fgrn.FgrnWarning, match=f"'{setting}' has no effect on fit.* n_hidden=2") as told:
            model.fit(table)
        assert told[0].message.setting == setting  # type: ignore[union-attr]
    with pytest.warns(fgrn.FgrnWarning, match="'max_seconds' has no effect.* n_hidden=2"):
        fgrn.LatentClassifier(2, max_seconds=5, **quick).fit(columns, buys)
    fgrn.LatentClassModel(2, criterion="aic", **quick).compare(table, [1, 2])  # which uses it
    network = fgrn.lvm({"colour": ["red", "blue"]}, hidden=2)
    with pytest.raises(fgrn.LearningError, match="The 'every' is the number of epochs between two checkpoints"):
        network.learn(columns, every=2)


def test_a_truth_value_is_no_number_of_starts() -> None:
    with pytest.raises(ValueError, match=r"The .n_init. parameter of LatentClassModel must be a number. Got True"):
        fgrn.LatentClassModel(2, n_init=True).fit(shops())


def test_a_cache_is_for_tables_in_batches(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people, model = folder / "people.csv", tmp_path / "m.fgrn"
    _, err = said(capsys, "fit", people, "-o", model, "--cache", tmp_path, status=2)
    assert "--cache is for tables that are read in batches" in err
    said(capsys, "fit", people, "-o", model, "--hidden", "2", "--starts", "1", "--cache", tmp_path, "--stream")


def test_what_a_selection_prints_can_be_read_alone() -> None:
    from fgrn.learning.criteria import ClassCandidate, ClassSelection

    found = ClassSelection((ClassCandidate("tan", 2, 4, "independence", 3.0, 0.5, 0.01, 20),), dropped=1)
    text = " ".join(str(found).split())
    assert "1 more candidate was dropped" in text
    assert "tables that do not depend on the class (independence)" in text
    assert "refined:" not in str(ClassSelection((ClassCandidate("tan", 2, 4, "", 0.0, 0.5, 0.01, 20),)))


def test_a_selection_says_why_the_least_log_loss_is_not_the_best() -> None:
    from fgrn.learning.criteria import EQUAL, ClassCandidate, ClassSelection

    def selection(*losses: float) -> ClassSelection:
        sizes = (ClassCandidate("tan", 2**k, 2 * 2**k, "", 0.0, loss, 0.01, 20) for k, loss in enumerate(losses))
        return ClassSelection(tuple(sizes))

    near = selection(0.5, 0.5 * (1 - EQUAL / 2))
    assert near.best.size == 1
    assert f"smaller by less than {EQUAL:.1%} do not count" in str(near)
    assert "fewest states" in near._repr_html_()
    for others in ((0.5, 0.4), (0.5, 0.50001), (0.5, 0.49999)):  # as printed, no other is smaller than the best
        assert "do not count" not in str(selection(*others))


@pytest.mark.parametrize("command", ["predict", "complete"])
def test_a_word_among_numbers_is_an_error_if_unseen_values_are(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "odd.csv"
    table.write_text("colour,age\nred,31\nblue,medium\n")
    _, err = said(capsys, command, folder / "people.fgrn", table, "--unseen", "error", status=1)
    assert "Row 1, 'age': 'medium' is not a number. Add it to the codes for missing values with --missing medium" in err
    assert "take words as unknown with --unseen unknown" in err
    monkeypatch.setattr("fgrn.tables.stream.BATCH", 100)
    table.write_text("colour,age\n" + 250 * "red,31\n" + "blue,medium\n")
    _, err = said(capsys, command, folder / "people.fgrn", table, "--unseen", "error", status=1)
    assert "Row 250, 'age': 'medium' is not a number." in err


def test_a_remark_counts_the_words_that_it_names(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "odd.csv"
    for words, told in (
        (["old"], "'old' in column 'age' is not a number: taken as unknown, once."),
        (["old", "old"], "'old' in column 'age' is not a number: taken as unknown, 2 times."),
        (["old", "new", "old"], "'old', 'new' in column 'age' are not numbers: taken as unknown, 3 times in all."),
        (list("abcdea"), "'a', 'b', 'c' and other words in column 'age' are not numbers: taken as unknown, 6 times in"),
    ):
        table.write_text("colour,age\nred,31\n" + "".join(f"blue,{word}\n" for word in words))
        _, err = said(capsys, "predict", folder / "people.fgrn", table)
        assert told in err


def test_a_word_given_for_a_number_is_told_to_be_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder / "people.fgrn"
    for word in ("abc", "inf"):
        _, err = said(capsys, "explain", model, "--set", f"age={word}", status=1)
        assert f"--set age={word}: the values of 'age' are numbers, and '{word}' is none. Give a number, such as" in err
        assert "--missing" not in err
    advised = err.rpartition(" ")[2].strip().removesuffix(".")
    said(capsys, "explain", model, "--set", advised)
    assert "age" not in said(capsys, "explain", model, "--set", "age=NA", "--set", "colour=red")[0]
    _, err = said(capsys, "draw", model, "-o", tmp_path / "m.svg", "--given", "age=abc", status=1)
    assert "--given age=abc: the values of 'age' are numbers" in err


def test_a_suggested_name_says_instead_of_which(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("color,agee,other\nred,31,x\n")
    (tmp_path / "u.csv").write_text("colour,agee\nred,31\n")
    _, err = said(capsys, "predict", folder / "people.fgrn", tmp_path / "u.csv")
    assert "age not in this table: taken as unknown. Did you mean 'age' instead of 'agee'?" in err
    _, err = said(capsys, "predict", folder / "people.fgrn", tmp_path / "t.csv", status=1)
    assert "This table has none of the columns of the model (colour, age)." in err
    (tmp_path / "t.csv").write_text("colr,age,bys\nred,31,x\n")
    _, err = said(capsys, "complete", folder / "people.fgrn", tmp_path / "t.csv")
    assert "Did you mean 'colour' instead of 'colr'?" in err


@pytest.mark.parametrize("form", ["csv", "proba", "json"])
def test_complete_writes_the_columns_of_the_table_alone(
    form: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column of the model that the table lacks is imputed only where it is added, empty."""
    (tmp_path / "t.csv").write_text("age,other\n31,x\n,y\n")
    (tmp_path / "empty.csv").write_text("age,other,colour\n31,x,\n,y,\n")
    option = [] if form == "csv" else [f"--{form}"]
    for name, columns in (("t.csv", ["age", "other"]), ("empty.csv", ["age", "other", "colour"])):
        out, err = said(capsys, "complete", folder / "people.fgrn", tmp_path / name, *option)
        assert ("colour not in this table" in err) == (name == "t.csv")
        if form == "json":
            records = json.loads(out)
            assert [list(one["values"]) for one in records] == [columns] * 2
            assert [set(one["filled"]) for one in records] == [{*columns} - {"age", "other"}, {*columns} - {"other"}]
            continue
        known = ["age", "colour"] if "colour" in columns else ["age"]
        more = [f"P({column})" for column in sorted(known, reverse=True)] if form == "proba" else []
        assert out.splitlines()[0] == ",".join(f'"{column}"' for column in [*columns, *more])
        assert ",," not in out


def test_fit_names_all_unfit_columns_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {"id": [f"i{row}" for row in range(60)], "name": [f"n{row}" for row in range(60)], "x": ["a", "b"] * 30}
    words = [str(row) for row in range(60)]
    table |= {"u": ["oops", *words[1:]], "v": ["?!", *words[1:]]}
    table_file.write(table, tmp_path / "t.csv")
    told = said(capsys, "fit", tmp_path / "t.csv", "-o", tmp_path / "m.fgrn", status=1)[1]
    assert "Leave them out with --drop id --drop name, or allow so many levels with --max-levels 60." in told
    assert "--missing oops --missing '?!' --missing '' --missing NA" in told


def test_search_leaves_out_an_empty_column_as_fit_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,empty,y\n" + "a,,u\nb,,v\n" * 30)
    out, err = said(capsys, "search", path, "--json")
    assert json.loads(out)["variables"] == 2
    assert "Column 'empty' has no known value, so nothing is learnt about it." in err


@pytest.mark.parametrize("action", ["unknown", "error"])
def test_predict_tells_how_numbers_with_a_decimal_comma_are_read(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points, commas = tmp_path / "points.csv", tmp_path / "commas.csv"
    points.write_text("x;y\n" + "".join(f"{row}.5;{'uv'[row > 20]}\n" for row in range(40)))
    commas.write_text(points.read_text().replace(".", ","))
    model = tmp_path / "m.fgrn"
    said(capsys, "fit", points, "--target", "y", "--model", "naive-bayes", "--unseen", action, "-o", model)
    err = said(capsys, "predict", model, commas, status=int(action == "error"))[1]
    assert "Read the file with --decimal ','" in err
    assert "decimal" not in said(capsys, "predict", model, commas, "--decimal", ",")[1]


@pytest.mark.parametrize("rows", [10, 11, 20])
@pytest.mark.parametrize("settings", [{}, {"n_hidden": 4}, {"structure": "tan"}, {"refine": False}])
def test_classes_of_one_row_each_are_learnt(rows: int, settings: dict[str, Any]) -> None:
    """Nothing can be held out to choose by: the rows held out first would be all of them."""
    model = fgrn.LatentClassifier(random_state=0, **settings).fit({"a": (["x", "y"] * 10)[:rows]}, list(range(rows)))
    found = model.predict_proba({"a": ["x", None]})
    assert found.sum(axis=1) == pytest.approx([1, 1])
    assert found[0, ::2].sum() > found[0, 1::2].sum()  # the rows of "x"


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda values: np.array(values, dtype=object),
        lambda values: pd.Series(values, dtype=object),
        lambda values: pl.Series(values, dtype=pl.Object),
    ],
)
def test_classes_that_are_words_and_numbers_are_refused(make: Any) -> None:
    """NumPy would make one class of 1 and "1"."""
    y = make([1, "1", "x"] * 20)
    with pytest.raises(ValueError, match="some classes are words, such as '1', and others are not, such as 1"):
        fgrn.LatentClassifier().fit({"a": list("xyz") * 20}, y)
    known = fgrn.NaiveBayesClassifier().fit({"a": list("xyz") * 20}, ["u", "v", None] * 20)
    assert known.classes_.tolist() == ["u", "v"]


def test_columns_without_values_are_not_called_continuous(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "empty.csv"
    table.write_text("a,b,class\n" + ",x,yes\n,y,no\n" * 30)
    said(capsys, "fit", table, "--hidden", "2", "-o", tmp_path / "empty.fgrn")
    _, err = said(capsys, "draw", tmp_path / "empty.fgrn", "-o", tmp_path / "empty.svg")
    assert "leaves out a: without values, and only variables with states are drawn" in err


def test_a_tree_that_no_page_shows_has_a_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = tmp_path / "people.csv", tmp_path / "tree.fgrn"
    fgrn.datasets.load("survey").frame().head(300).to_csv(table, index=False)
    said(capsys, "fit", table, "--model", "tree", "--epochs", "2", "-o", model)
    _, err = said(capsys, "explore", model, "-o", tmp_path / "tree.html", status=1)
    assert "--hidden 3" in err
    said(capsys, "fit", table, "--model", "tree", "--hidden", "3", "--epochs", "2", "-o", model)
    said(capsys, "explore", model, "-o", tmp_path / "tree.html")
