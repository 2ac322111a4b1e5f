"""Warnings about tables: words taken as missing values, a row read as names, invalid text."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import fgrn
from fgrn import LatentClassifier, LatentClassModel, Schema, TableWarning
from fgrn.cli import main
from fgrn.tables import table_file
from fgrn.tables.missing import MISSING

WORK = {"work": ["state", "?", "private", "?"] * 5, "sex": ["f", "m"] * 10}


def small(**settings: Any) -> LatentClassModel:
    return LatentClassModel(n_hidden=2, n_epochs=3, n_init=1, random_state=0, **settings)


# Words for missing values


def test_a_file_and_a_frame_have_the_same_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "work.csv"
    pd.DataFrame(WORK).to_csv(path, index=False)
    frame = pd.read_csv(path, keep_default_na=False)
    with pytest.warns(TableWarning, match=r"column 'work': '\?' in 10 rows.*missing_values=\(\)"):
        in_memory = small().fit(frame)
    with pytest.warns(TableWarning, match=r"column 'work': '\?' in 10 rows.*missing_values=\(\)") as told:
        from_file = small().fit(str(path))
    assert [one.category for one in told].count(TableWarning) == 1
    assert in_memory.schema_.states == from_file.schema_.states == {"work": ["private", "state"], "sex": ["f", "m"]}
    assert np.allclose(in_memory.network_.table("work"), from_file.network_.table("work"))
    assert np.array_equal(in_memory.predict(frame), in_memory.predict(frame.replace("?", None)))


def test_words_for_missing_in_files_are_told_once_by_everything_that_learns(tmp_path: Path) -> None:
    path = tmp_path / "work.csv"
    lines = ["work,sex,note", *("?,f,NA", "state,m,", "N/A,f,x", "private,m,y") * 5]
    path.write_text("\n".join(lines) + "\n")
    text = r"column 'work': '\?', 'N/A' in 10 rows; column 'note': 'NA' in 5 rows"
    rows = fgrn.Stream(path)
    with pytest.warns(TableWarning, match=text) as told:
        small().fit(rows)
        small().fit(rows)
    assert [one.category for one in told].count(TableWarning) == 1
    assert {name: dict(words) for name, words in rows.missing_words.items()} == {
        "work": {"?": 5, "N/A": 5},
        "note": {"NA": 5},
    }
    with pytest.warns(TableWarning, match=text):
        small().partial_fit(str(path))
    with pytest.warns(TableWarning, match=text):
        fgrn.BayesianNetwork.from_data([("sex", "work")], str(path))
    with pytest.warns(TableWarning, match=text):
        table_file.read(path)
    with pytest.warns(TableWarning, match=r"column 'work': '\?', 'N/A' in 10 rows\. Keep"):
        fgrn.lvm({"work": ["private", "state"], "sex": ["f", "m"]}, hidden=2).learn(fgrn.Stream(path, drop=["note"]))
    given = fgrn.Stream(path, missing=MISSING)  # given words are no surprise
    assert table_file.read(path, missing=MISSING)["work"].null_count == 10
    assert small().fit(given).schema_.states["work"] == ["private", "state"]
    assert small(missing_values=()).fit(str(path)).schema_.states["work"] == ["?", "N/A", "private", "state"]


@pytest.mark.parametrize("word", [*MISSING, " ?", "NA "])
@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table, lambda data: pd.DataFrame(data, dtype="category")])
def test_every_word_for_missing_is_one_in_every_kind_of_table(word: str, kind: Any) -> None:
    table = kind({"a": ["x", word, "y"], "b": ["p", "q", "q"]})
    with pytest.warns(TableWarning, match=r"column 'a': .* in 1 row"):
        schema = Schema.infer(table)
    assert schema["a"].levels == ("x", "y")
    assert schema["a"].missing == (word,)
    assert Schema.infer(table, missing=())["a"].missing == ()
    assert word in Schema.infer(table, missing=())["a"].levels
    assert schema.codes(table)["a"].codes.tolist() == [0, -1, 1]


@pytest.mark.parametrize("trained", ["", "?"])
@pytest.mark.parametrize("new", ["?", "NA", " NA ", ""])
def test_words_for_missing_are_missing_whether_or_not_training_had_them(trained: str, new: str, tmp_path: Path) -> None:
    words = {**WORK, "work": ["state", "private"] * 10, "age": [*range(19), 19.5]}
    table = {**words, "work": [*words["work"][1:], trained or "state"]}
    with pytest.warns(TableWarning) if trained else nullcontext():
        model = small(unseen="error").fit(pa.table(table))
    model.save(tmp_path / "m.fgrn")
    asked = pd.DataFrame({"work": [new, "state"], "sex": ["f", new], "age": [new, "3"]}, dtype=object)
    asked.to_csv(tmp_path / "asked.csv", index=False)
    for one in (model, fgrn.load(tmp_path / "m.fgrn")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = one.predict_proba(asked.replace(new, None))
            assert np.array_equal(one.predict_proba(asked), expected)
            one.partial_fit(asked)
        full = model.complete(asked)
        assert full["work"][0] in ("state", "private")
        assert full["sex"][1] in ("f", "m")
    files = [str(tmp_path / name) for name in ("m.fgrn", "asked.csv", "out.csv")]
    assert main(["predict", *files[:2], "-o", files[2]]) == 0
    assert pd.read_csv(files[2])["predicted cluster"].tolist() == expected.argmax(axis=1).tolist()


def test_a_model_of_the_command_line_knows_words_for_missing_in_python(tmp_path: Path) -> None:
    path, model = tmp_path / "work.csv", str(tmp_path / "m.fgrn")
    pd.DataFrame({**WORK, "age": [*range(10, 29), -9]}).to_csv(path, index=False)
    fit = ["fit", str(path), "--hidden", "2", "-o", model]
    assert main(fit) == 0
    assert fgrn.load(model).schema_.codes({"work": ["?", "state"]}, unseen="error")["work"].codes.tolist() == [-1, 1]
    assert main([*fit, "--missing", "-9", "--missing", "?"]) == 0
    found = fgrn.load(model).schema_
    assert found.codes({"work": ["?", "-9", "state"]}, unseen="error")["work"].codes.tolist() == [-1, -1, 1]
    assert found.codes({"age": [-9, 10]}, unseen="error")["age"].codes.tolist() == [-1, 0]
    assert found.codes({"age": ["-9", "?"]}, unseen="error")["age"].codes.tolist() == [-1, -1]


def test_codes_for_missing_are_kept_by_columns_that_had_none() -> None:
    schema = Schema.infer({"a": [1, 2, 3] * 4, "b": range(12), "c": ["x", "y", "z"] * 4}, missing=[-9, "-"])
    for values in ([-9], ["-9"], ["-"], np.array([-9.0])):
        for name in schema:
            assert schema.codes({name: values}, unseen="error")[name].codes.tolist() == [-1], (name, values)


def test_a_level_is_never_a_word_for_missing() -> None:
    schema = Schema.infer({"a": ["x", "None"]}, categories={"a": ["None", "x"]})
    assert schema.codes({"a": ["None", "NA", "x"]}, unseen="error")["a"].codes.tolist() == [0, -1, 1]
    unused = pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["NA", "x", "y"])})
    assert Schema.infer(unused)["a"].levels == ("x", "y")
    assert Schema.infer(unused, missing=())["a"].levels == ("NA", "x", "y")


def test_schemas_of_older_model_files_stay_as_they_were() -> None:
    schema = Schema.from_dict([{"name": "a", "levels": ["x", "y"], "missing": ["?"]}])
    with pytest.raises(fgrn.SchemaError, match="'NA' not seen in training"):
        schema.codes({"a": ["?", "NA"]}, unseen="error")
    assert Schema.from_dict(schema.as_dict()) == schema
    new = Schema.infer({"a": ["x", "y"]})
    assert Schema.from_dict(new.as_dict()) == new


def test_what_is_named_as_missing_is_all_that_is() -> None:
    table = {"a": ["x", "?", "none"]}
    assert Schema.infer(table, missing=["none"])["a"].levels == ("?", "x")
    assert small(missing_values=()).fit(WORK).schema_["work"].levels == ("?", "private", "state")
    given = Schema.infer({"a": ["x", "None"]}, categories={"a": ["None", "x"]})
    assert given["a"].levels == ("None", "x")


def test_a_saved_model_reads_tables_as_it_did(tmp_path: Path) -> None:
    small(missing_values=()).fit(WORK).save(tmp_path / "m.fgrn")
    model = fgrn.load(tmp_path / "m.fgrn")
    assert model.schema_["work"].levels == ("?", "private", "state")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(WORK)
    path = tmp_path / "work.csv"
    pd.DataFrame(WORK).to_csv(path, index=False)
    assert main(["predict", str(tmp_path / "m.fgrn"), str(path), "-o", str(tmp_path / "out.csv")]) == 0
    assert pd.read_csv(tmp_path / "out.csv")["predicted cluster"].tolist() == model.predict(WORK).tolist()


def test_a_word_for_missing_is_no_class() -> None:
    X, y = {"a": ["x", "y"] * 10}, ["no", "yes", "?", "yes"] * 5
    model = LatentClassifier(n_hidden=2, n_epochs=3, n_init=1, random_state=0)
    with pytest.warns(TableWarning, match=r"'\?' in 5 rows taken as missing.*missing_values=\(\)"):
        model.fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    same = LatentClassifier(n_hidden=2, n_epochs=3, n_init=1, random_state=0)
    same.fit(X, [None if one == "?" else one for one in y])
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    assert len(model.set_params(missing_values=()).fit(X, y).classes_) == 3
    model.set_params(missing_values=None).__dict__.pop("network_")
    assert model.partial_fit(X, y, classes=["?", "no", "yes"]).classes_.tolist() == ["?", "no", "yes"]


def test_classes_in_a_tuple_are_those_in_a_list() -> None:
    X, y = {"a": ["x", "y"] * 10}, ("no", "yes", "?", None) * 5
    model = LatentClassifier(n_hidden=2, n_epochs=3, n_init=1, random_state=0)
    with pytest.warns(TableWarning, match=r"'\?' in 5 rows taken as missing"):
        assert model.fit(X, y).classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("classes", [None, ["no", "yes"], ["?", "no", "yes"]])
def test_words_for_missing_classes_of_a_stream_are_counted_in_rows(learn: str, classes: Any) -> None:
    frame = {"a": ["x", "y"] * 60, "t": ["no", "yes", "?", "NA"] * 30}
    model = LatentClassifier(n_hidden=2, n_epochs=3, n_init=1, random_state=0)
    more = {} if classes is None or learn == "fit" else {"classes": classes}
    rows = 30 if more and "?" in classes else 60
    told = "'NA'" if rows == 30 else r"'\?', 'NA'"
    for _ in range(2):  # the second time the classes are known
        with pytest.warns(TableWarning, match=rf"Column 't': {told} in {rows} rows taken as missing") as caught:
            getattr(model, learn)(fgrn.Stream(lambda: iter([frame]), rows=50), "t", **more)
        assert len([one for one in caught if one.category is TableWarning]) == 1
        assert model.classes_.tolist() == (["?", "no", "yes"] if rows == 30 else ["no", "yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = LatentClassifier(n_hidden=2, n_epochs=3, n_init=1, tol=0, missing_values=["?", "NA"], random_state=0)
        getattr(fresh, learn)(fgrn.Stream(lambda: iter([frame])), "t")


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_path_is_read_with_the_codes_of_the_estimator(learn: str, tmp_path: Path) -> None:
    path = tmp_path / "work.csv"
    pd.DataFrame({**WORK, "age": [1, None, 2, -9] * 5}).to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        found = getattr(small(missing_values=()), learn)(path).schema_
        assert found["work"].levels == ("?", "private", "state")
        assert found["age"].levels == (-9, 1, 2)  # an empty cell is missing in any file
        assert getattr(small(missing_values=-9), learn)(path).schema_["age"].levels == (1, 2)
        mine = getattr(small(missing_values=()), learn)(fgrn.Stream(path, missing=["?", ""]))
        assert mine.schema_["work"].levels == ("private", "state")
    small(missing_values=[-9]).fit(path).save(tmp_path / "m.fgrn")
    assert (
        main(["predict", str(tmp_path / "m.fgrn"), str(path), "--unseen", "error", "-o", str(tmp_path / "o.csv")]) == 0
    )


def test_the_command_line_says_how_to_keep_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work.parquet"
    parquet.write_table(pa.table(WORK), path)
    assert main(["fit", str(path), "--hidden", "2", "-o", str(tmp_path / "m.fgrn")]) == 0
    assert "with --missing ''" in capsys.readouterr().err
    assert main(["fit", str(path), "--hidden", "2", "--missing", "", "-o", str(tmp_path / "m.fgrn")]) == 0
    assert fgrn.load(tmp_path / "m.fgrn").schema_["work"].levels == ("?", "private", "state")


def test_inspect_says_what_is_taken_as_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work.csv"
    pd.DataFrame(WORK).to_csv(path, index=False)
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "50.0%" in out
    assert "Taken as missing: empty cells, '?', 'NA'" in out
    assert main(["inspect", str(path), "--missing", "f"]) == 0
    assert "Taken as missing: 'f'. --missing" in capsys.readouterr().out
    assert main(["inspect", str(path), "--missing", "-9"]) == 0
    assert "Taken as missing" not in capsys.readouterr().out


@pytest.mark.parametrize("more", [[], ["--stream"], ["--online"]])
def test_fit_says_what_is_taken_as_missing_if_something_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    path, model = tmp_path / "t.csv", str(tmp_path / "m.fgrn")
    for text, told in (("a,b\nx,1\ny,2\n", False), ("a,b\nx,1\ny,\n", True), ("a,b\nx,1\n?,2\n", True)):
        path.write_text(text + "x,1\ny,2\n" * 6)
        assert main(["fit", str(path), "--hidden", "1", "-o", model, *more]) == 0
        assert ("Taken as missing" in capsys.readouterr().out) == told


def test_inspect_and_fit_agree_on_a_column_without_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = tmp_path / "t.csv", str(tmp_path / "m.fgrn")
    path.write_text("a,b\n" + "x,\ny,\n" * 6)
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("b")] == [["b", "empty"]]
    assert "b: no value is known: nothing is learnt of it" in out
    assert main(["fit", str(path), "--hidden", "1", "-o", model]) == 0
    assert "  b  0  empty   (nothing known)" in capsys.readouterr().out
    assert main(["inspect", model]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("b")] == [["b", "empty"]]


def test_whole_numbers_that_are_too_long_for_bins_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = 10**18 + np.arange(200)
    table = {"a": ["x", "y"] * 100, "big": numbers, "small": numbers - 10**18}
    with pytest.warns(fgrn.LongNumbersWarning, match="200 different ones become 3 in bins") as caught:
        schema = fgrn.Schema.infer(table)
    assert [(one.message.column, one.message.value) for one in caught] == [("big", 10**18)]
    assert [len(schema[name].levels) for name in ("big", "small")] == [3, 5]
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    assert main(["inspect", str(tmp_path / "t.csv")]) == 0
    assert "big: its whole numbers are beyond 2^53" in capsys.readouterr().out
    with pytest.warns(fgrn.LongNumbersWarning):
        fgrn.Schema.infer(tmp_path / "t.csv")


# A row as names


HEADLESS = "39,State-gov,Male\n50,?,Male\n38,Private,Female\n53,State-gov,Male\n" + "28,Private,Female\n" * 9


def test_a_row_that_was_read_as_names_is_doubted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "adult.csv"
    path.write_text(HEADLESS)
    for command in (["inspect"], ["fit", "--hidden", "2", "-o", str(tmp_path / "m.fgrn")]):
        assert main([command[0], str(path), *command[1:]]) == 0
        out, err = capsys.readouterr()
        assert "--no-header" in out + err, command
        assert "39, State-gov, Male" in out + err
        assert main([command[0], str(path), "--no-header", *command[1:]]) == 0
        assert "--no-header" not in "".join(capsys.readouterr())
    with pytest.warns(TableWarning, match=r"pandas: header=None"):
        small().fit(pd.read_csv(path, keep_default_na=True, na_values="?"))


@pytest.mark.parametrize(
    "table",
    [
        {"yes": ["yes", "no"] * 4, "no": ["no", "yes"] * 4},
        {"1": [1, 2, 3, 1], "3": [3, 1, 1, 2], "2": [1, 2, 2, 2]},
        {"5.1": np.linspace(4, 8, 50), "3.5": np.linspace(2, 4, 50), "red": ["red", "blue"] * 25},
        {"a": ["a", "b"] * 4, "a.1": ["b", "a"] * 4},
        {"True": [True, False] * 4, "b": ["b", "a"] * 4},
    ],
)
def test_names_that_are_values_are_doubted(table: dict[str, Any]) -> None:
    with pytest.warns(TableWarning, match="look like a row"):
        Schema.infer(table)


@pytest.mark.parametrize(
    "table",
    [
        {"0": [0, 1, 2, 0], "1": [1, 0, 2, 2], "2": [2, 2, 1, 0]},  # columns that are counted
        {"1990": np.linspace(0, 4000, 50), "1991": np.linspace(0, 4000, 50)},  # years
        {"a": ["a", "b"] * 4, "other": ["c", "d"] * 4},
        {"a": ["a", "b"] * 4},
        {"5.1": np.linspace(400, 800, 50), "b": ["b", "c"] * 25},
    ],
)
def test_other_names_are_not_doubted(table: dict[str, Any]) -> None:
    Schema.infer(table)


# What cannot be kept


@pytest.mark.parametrize("values", [[1e19, 2e19], [2**64, 2**70], [-1e300, 1.5]])
def test_large_numbers_are_learnt_and_saved(values: list[float], tmp_path: Path) -> None:
    table = {"a": values * 10, "b": ["x", "y"] * 10}
    model = small().fit(table)
    model.save(tmp_path / "m.fgrn")
    again = fgrn.load(tmp_path / "m.fgrn")
    assert again.schema_ == model.schema_
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))
    assert sorted(model.schema_["a"].levels) == sorted(values)


def test_a_level_of_too_many_bits_is_found_before_learning() -> None:
    with pytest.raises(fgrn.SchemaError, match=r"'a'.*more than 64 bits.*words"):
        small().fit({"a": [10**30, 1] * 10, "b": ["x", "y"] * 10})


@pytest.mark.parametrize("size", [400, 5000])
def test_a_number_larger_than_any_is_named(size: int) -> None:
    bins = {"a": [*range(40), 10**size], "b": ["x"] * 41}
    with pytest.raises(fgrn.SchemaError, match=f"Row 40, 'a': a whole number of {size + 1:,} digits"):
        Schema.infer(bins)
    with pytest.raises(fgrn.SchemaError, match="Row 1, 'a': a whole number"):
        Schema.infer({"a": [1, 10**size]})
    model = small().fit({"a": [k // 2 for k in range(40)], "b": ["x", "y"] * 20})
    with pytest.raises(fgrn.SchemaError, match="Row 1, 'a': a whole number"):
        model.predict({"a": [3, 10**size], "b": ["x", "y"]})


def test_half_of_a_pair_of_surrogates_is_named() -> None:
    with pytest.raises(fgrn.SchemaError, match=r"Row 1, 'a': '\\ud800b' is not text"):
        Schema.infer({"a": ["x", "\ud800b"]})
    with pytest.raises(fgrn.SchemaError, match=r"'a\\ud800', the name of a column, is not text"):
        Schema.infer({"a\ud800": [1, 2]})
    with pytest.raises(fgrn.SchemaError, match=r"Row 1, 'class': the class '\\ud800'"):
        LatentClassifier().fit({"a": ["x", "y"]}, ["b", "\ud800"])
    assert Schema.infer({"é\U0001f600": ["ü", "\U0001f600"]})["é\U0001f600"].levels == ("ü", "\U0001f600")


def test_numbers_that_are_text_are_told() -> None:
    column = {"age": [f"{number / 7:.6f}" for number in range(200)], "x": ["a", "b"] * 100}
    with pytest.raises(
        fgrn.SchemaError, match=r"200 distinct values in 200 rows are numbers written as text. Turn them"
    ):
        fgrn.Schema.infer(column)
    with pytest.warns(fgrn.FgrnWarning, match="100 levels are many, and are numbers written as text.* Turn them into"):
        fgrn.Schema.infer({"age": [str(number) for number in range(100)] * 3})
    with pytest.raises(fgrn.SchemaError, match="looks like an identifier"):
        fgrn.Schema.infer({"code": [f"{number:05}" for number in range(200)]})


def test_names_in_the_first_row_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ages.csv"
    path.write_text("age,sex\n" + "".join(f"{number / 7},{'mf'[number % 2]}\n" for number in range(90)))
    assert main(["fit", str(path), "--no-header", "-o", str(tmp_path / "m.fgrn")]) == 1
    err = capsys.readouterr().err
    assert "if the first row has the names of the columns, read the table without --no-header" in err
    assert "--missing" not in err


def test_files_of_two_kinds_in_a_folder_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.csv", "b.parquet"):
        table_file.write({"a": ["x", "y"]}, tmp_path / name)
    assert main(["fit", str(tmp_path), "-o", str(tmp_path / "m.fgrn")]) == 1
    assert "Name the files of one kind, by a pattern such as 'folder/*.csv'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["{:04}-{:02}-{:02}", "{2:02}.{1:02}.{0}", "{1}/{2}/{0}"])
def test_dates_are_called_dates(form: str) -> None:
    days = [form.format(2000 + year, month, 3) for year in range(10) for month in range(1, 13)]
    with pytest.raises(fgrn.SchemaError, match="120 distinct values in 120 rows are dates"):
        fgrn.Schema.infer({"day": days})


def test_inspect_tells_of_codes_and_spellings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {"score": [-99, 3, 4, 5, 0] * 8, "sex": ["F", "f", "M", "m", "M"] * 8, "degrees": [-9, -3, 4, 5, 0] * 8}
    table |= {"income": [9999999, 20000, 60000, 31000, 7000] * 8}
    table |= {"age": [999, 18, 89, 40, 33] * 8, "centred": [-999, 0.5, -1.5, 2, 1] * 8, "year": [99, 98, 97, 1, 2] * 8}
    table_file.write(table, tmp_path / "t.csv")
    assert main(["inspect", str(tmp_path / "t.csv")]) == 0
    out = capsys.readouterr().out
    assert "score: -99 is the only number below 0: if it means missing, add --missing -99 --missing ''" in out
    assert "sex: 'F' and 'f', 'M' and 'm' differ in upper and lower case alone" in out
    assert "age: 999 occurs 8 times, far from all other numbers (18 to 89): if it means missing, add" in out
    assert "centred: -999 occurs 8 times, far from all other numbers (-1.5 to 2)" in out
    assert "income: 9999999 occurs 8 times, far from all other numbers (7000 to 60000)" in out
    assert "--missing 9999999" in out
    assert "degrees:" not in out
    assert "year:" not in out


def test_advice_on_a_missing_word_keeps_the_usual_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ages = [*map(str, range(20, 90)), "unknown", "", "NA"]
    table_file.write({"age": ages, "sex": [*"mf" * 36, "m"]}, tmp_path / "t.csv")
    command = ["fit", str(tmp_path / "t.csv"), "--hidden", "1", "-o", str(tmp_path / "m.fgrn")]
    assert main(command) == 1
    advice = "--missing unknown --missing '' --missing NA"
    assert advice in capsys.readouterr().err
    assert main([*command, "--missing", "unknown", "--missing", "", "--missing", "NA"]) == 0
    assert "(missing: unknown, '', NA)" in capsys.readouterr().out


def test_points_beside_decimal_commas_are_no_decimals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("income;height\n" + "1.200;1,72\n2.500,5;1,80\n900;1,6\n" * 3)
    table = table_file.read(path, decimal=",", delimiter=";")
    assert table["income"].to_pylist()[:3] == ["1.200", "2.500,5", "900"]
    assert table["height"].to_pylist()[:3] == [1.72, 1.8, 1.6]
    assert main(["inspect", str(path), "--decimal", ",", "--delimiter", ";"]) == 0
    out = capsys.readouterr().out
    told = "income: numbers with thousands separators, such as '1.200', are taken as words. Remove the separators"
    assert told in out
    assert "height:" not in out


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t.sav"])
def test_tables_of_other_programs_are_to_be_saved_as_csv(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(fgrn.FgrnError, match=r"files are not read\. Save the table as a CSV or Parquet file"):
        table_file.read(tmp_path / name)


# Identifiers in small tables


IDENTIFIERS = [
    [f"p{k}" for k in range(40)],
    [None, *(f"p{k}" for k in range(39))],
    ["p1", *(f"p{k}" for k in range(39))],
]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_an_identifier_in_a_small_table_is_warned_of_as_inspect_does(
    identifier: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"id": identifier, "a": ["x", "y"] * 20, "b": ["u", "v", "v", "v"] * 10}
    classes = ["p", "q"] * 20
    for fit in (
        lambda: fgrn.LatentClassModel(2, n_epochs=1).fit(table),
        lambda: fgrn.LatentClassifier(random_state=0).fit(table, classes),
    ):
        with pytest.warns(fgrn.TableWarning, match="value is different: an identifier") as told:
            fit()
        (one,) = [each.message for each in told if isinstance(each.message, fgrn.TableWarning)]
        assert isinstance(one, fgrn.TableWarning)
        assert one.column == "id"
    path = tmp_path / "rows.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    assert main(["fit", str(path), "--hidden", "2", "-o", str(tmp_path / "m.fgrn")]) == 0
    err = capsys.readouterr().err
    assert "value is different: an identifier? If so, leave it out with --drop id." in err
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    told_by_inspect = out[out.index("id: ") :].splitlines()[0]
    assert told_by_inspect.removeprefix("id: ") in err
    assert main(["fit", str(path), "--drop", "id", "--hidden", "2", "-o", str(tmp_path / "m.fgrn")]) == 0
    assert "identifier" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "column",
    [
        [k / 7 for k in range(40)],  # measured
        [k // 2 for k in range(40)],  # repeated
        ["x", "y"] * 20,
    ],
)
def test_other_columns_of_small_tables_are_no_identifiers(column: list[Any]) -> None:
    table = {"c": column, "a": ["x", "y"] * 20}
    with warnings.catch_warnings():
        warnings.simplefilter("error", fgrn.TableWarning)
        warnings.simplefilter("ignore", fgrn.ConvergenceWarning)
        fgrn.LatentClassModel(2, n_epochs=1).fit(table)
        few = {name: [f"{value}{place}" for place, value in enumerate(values)][:20] for name, values in table.items()}
        fgrn.LatentClassModel(2, n_epochs=1).fit(few)  # so few rows may well differ
        schema = fgrn.Schema.infer({"id": IDENTIFIERS[0]})  # the user has decided
        fgrn.LatentClassModel(2, n_epochs=1, schema=schema).fit({"id": IDENTIFIERS[0]})


@pytest.mark.parametrize("first", [0, 1, 1000])
def test_numbers_that_count_the_rows_are_warned_of(first: int) -> None:
    numbers = np.random.default_rng(0).permutation(np.arange(first, first + 300))
    table = {"a": ["x", "y", "y"] * 100, "n": numbers}
    with pytest.warns(
        fgrn.TableWarning, match="'n': its whole numbers count the rows: an identifier\\? If so, leave it"
    ):
        fgrn.NaiveBayesClassifier().fit(table, ["p", "q"] * 150)


@pytest.mark.parametrize(
    "numbers",
    [np.arange(300) / 10, np.arange(300) * 2, np.arange(300) % 299, [None, *range(299)], np.r_[np.nan, np.arange(299)]],
)
def test_other_numbers_are_measured(numbers: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fgrn.NaiveBayesClassifier().fit({"a": ["x", "y", "y"] * 100, "n": numbers}, ["p", "q"] * 150)


def test_levels_that_end_with_a_space_are_warned_of() -> None:
    table = {"x": ["no", "no "] * 30, "y": [" a", "b", "c"] * 20, "z": ["u v", "w"] * 30}
    told = (
        "Column 'x': 'no ' begins or ends with a space, and is not the same word as without it. 1 more column has such"
    )
    with pytest.warns(fgrn.TableWarning, match=told):
        fgrn.NaiveBayesClassifier().fit(table, ["p", "q"] * 30)


def test_many_dates_that_repeat_are_called_dates() -> None:
    days = [f"2024-{month:02}-{day:02}" for month in range(1, 7) for day in range(1, 21)] * 5
    with pytest.warns(fgrn.ManyLevelsWarning, match="levels are many, and are dates.*Make a number or a part of them"):
        fgrn.NaiveBayesClassifier().fit({"day": days}, ["p", "q"] * 300)
