"""Options and tables at the command line that would have no effect, or not the expected one, are reported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.cli import main
from fgrn.tables import table_file

pytestmark = pytest.mark.usefixtures("quick_choice")


def told(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> tuple[str, str]:
    """Run a command; returns what it prints on standard output and error, without line breaks in the latter."""
    capsys.readouterr()
    found = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert found == status, err
    assert "Traceback" not in err
    return out, re.sub(r"\s+", " ", err)


def answers(rows: int = 80, seed: int = 0) -> dict[str, list[Any]]:
    """Return four answers of each person."""
    rng = np.random.default_rng(seed)
    kind = rng.random(rows) < 0.4
    drawn = {name: rng.random(rows) < np.where(kind, 0.8, 0.25) for name in "abcd"}
    return {name: np.where(column, "yes", "no").tolist() for name, column in drawn.items()}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file with the answers."""
    table_file.write(answers(), tmp_path / "answers.csv")
    return tmp_path / "answers.csv"


def test_tiers_that_rule_nothing_out_are_reported(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = told(capsys, "search", table, "--tier", "a,b")
    assert "--tier has one tier only, which rules out no arc" in err
    assert "Put other columns in a second tier" in err
    _, err = told(capsys, "search", table, "--tier", "a", "--tier", "b")
    assert "in no --tier, so that their arcs may have any direction: 'c', 'd'." in err
    _, err = told(capsys, "search", table, "--tier", "a", "--tier", "b,c,d")
    assert "tier" not in err
    with pytest.warns(fgrn.FgrnWarning, match=r"The 'tiers' has one tier only"):
        fgrn.search(answers(), tiers=[["a", "b"]])


def test_a_report_on_another_table_than_that_of_the_model_says_so(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a model that did not converge, whose last epoch does not tell the likelihood of its rows."""
    model, other = tmp_path / "m.fgrn", tmp_path / "other.csv"
    table_file.write(answers(80, seed=1), other)
    told(capsys, "fit", table, "--hidden", 2, "--epochs", 2, "-o", model)
    assert "are not those that" not in told(capsys, "report", model, table)[0]
    assert "These rows (weight 80, " in told(capsys, "report", model, other)[0]
    assert "are not those that the model was fitted on" in told(capsys, "report", model, other, "--json")[1]


def test_reports_and_draws_read_folders_and_globs(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, model = tmp_path / "parts", tmp_path / "m.fgrn"
    folder.mkdir()
    rows = answers()
    rows["a"][3] = rows["a"][70] = None
    table_file.write(rows, table)
    for name, part in (("1", slice(0, 50)), ("2", slice(50, 80))):
        table_file.write({column: values[part] for column, values in rows.items()}, folder / f"{name}.csv")
    told(capsys, "fit", table, "--hidden", 2, "-o", model)
    whole = told(capsys, "report", model, table)[0]
    drawn = told(capsys, "complete", model, table, "--draws", 3)[0]
    for source in (folder, folder / "*.csv"):
        assert told(capsys, "report", model, source)[0] == whole
        assert told(capsys, "complete", model, source, "--draws", 3)[0] == drawn
        assert told(capsys, "search", source)[0] == told(capsys, "search", table)[0]
        assert told(capsys, "inspect", source)[0].replace(str(source), str(table)) == told(capsys, "inspect", table)[0]
    _, err = told(capsys, "report", model, folder / "*.tsv", status=1)
    assert "No file is called like" in err


@pytest.mark.parametrize("model", ["clusters", "ica", "tree"])
def test_held_out_rows_without_a_class_have_their_likelihood(
    model: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--test without --target held rows out, and did not say what for."""
    hidden = "2,2" if model == "ica" else "2"
    command = ["fit", table, "--model", model, "--hidden", hidden, "--test", 0.25, "-o", tmp_path / "m.fgrn"]
    found = json.loads(told(capsys, *command, "--json")[0])
    back = np.random.default_rng(0).permutation(80)[:20]
    rows = {name: np.array(values)[np.sort(back)].tolist() for name, values in answers().items()}
    expected = fgrn.load(tmp_path / "m.fgrn").score(rows)
    assert found["log_likelihood_per_row_on_rows_kept_back"] == pytest.approx(expected)
    assert found["impossible_rows_kept_back"] == 0
    text = told(capsys, *command)[0]
    assert f"log-likelihood of 20 held-out rows: {expected:.4f} per row\n" in text


def test_held_out_rows_are_weighted_and_may_be_impossible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"a": ["x"] * 40 + ["y"] * 40, "b": ["u"] * 40 + ["v"] * 40, "w": [1, 3] * 40}
    for name in "ab":  # one row that no other is like
        rows[name][int(np.random.default_rng(0).permutation(80)[0])] = "y" if name == "a" else "u"
    table_file.write(rows, tmp_path / "t.csv")
    command = ["fit", tmp_path / "t.csv", "--hidden", 2, "--test", 0.25, "--weights", "w", "-o", tmp_path / "m.fgrn"]
    zeros = ["--constraints", "zero a 0 y", "--constraints", "zero b 1 u"]
    out, _ = told(capsys, *command, *zeros)
    assert "held-out rows: -inf per row (1 of them impossible under the model)" in out
    found = json.loads(told(capsys, *command, *zeros, "--json")[0])
    assert (found["impossible_rows_kept_back"], found["log_likelihood_per_row_on_rows_kept_back"]) == (1, None)
    found = json.loads(told(capsys, *command, "--json")[0])
    back = np.sort(np.random.default_rng(0).permutation(80)[:20])
    scores = fgrn.load(tmp_path / "m.fgrn").score_samples({name: np.array(rows[name])[back].tolist() for name in "ab"})
    expected = np.average(scores, weights=np.array(rows["w"])[back])
    assert found["log_likelihood_per_row_on_rows_kept_back"] == pytest.approx(expected)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a network, models of them and a dynamic network; not to be changed."""
    folder = tmp_path_factory.mktemp("files")
    table_file.write(answers(), folder / "t.csv")
    table_file.write(answers(), folder / "t.parquet")
    net = fgrn.BayesianNetwork.from_data({"b": ["a"]}, {name: answers()[name] for name in "ab"}, smoothing=1.0)
    fgrn.write(net, folder / "n.bif")
    net.save(folder / "n.fgrn")
    fgrn.LatentClassModel(2, n_epochs=2, tol=0.0, random_state=0).fit(answers()).save(folder / "m.fgrn")
    chain = fgrn.DynamicBayesianNetwork({"h": 2, "a": ["no", "yes"]}, {"a": ["h"]}, {"h": ["h"]})
    chain.save(folder / "d.fgrn")
    return folder


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("fit t.csv -o x.fgrn --every 5", "--every"),
        ("fit t.csv -o x.fgrn --target a --model naive-bayes --starts 4", "--starts"),
        ("fit t.csv -o x.fgrn --target a --model naive-bayes --cycles 4", "--cycles"),
        ("fit t.parquet -o x.fgrn --no-header", "--no-header"),
        ("search t.csv --alpha 0.1", "--alpha"),
        ("search t.csv --equivalent-size 3", "--equivalent-size"),
        ("search t.csv --held-out 0.3", "--held-out"),
        ("search t.csv --method exact --restarts 3", "--restarts"),
        ("search t.csv --method pc --start n.bif", "--start"),
        ("search t.parquet --delimiter tab", "--delimiter"),
        ("query n.bif --seed 3", "--seed"),
        ("query n.bif --format csv", "--format"),
        ("query n.fgrn --from bif", "--from"),
        ("query n.fgrn --rescale", "--rescale"),
        ("convert n.fgrn x.bif --rescale", "--rescale"),
        ("explore m.fgrn --from bif", "--from"),
        ("draw m.fgrn -o x.svg --rescale", "--rescale"),
        ("report m.fgrn --weights w", "--weights"),
        ("report m.fgrn --drop a", "--drop"),
        ("prototypes m.fgrn --most 3 --json", "--most"),
        ("predict m.fgrn t.csv --keep --json", "--keep"),
        ("explain m.fgrn --set a=yes --row 3", "--row"),
        ("track d.fgrn t.csv --epochs 3", "--epochs"),
        ("forecast d.fgrn t.csv --unseen error", "--unseen"),
        ("inspect n.bif --bins 3", "--bins"),
        ("inspect m.fgrn --missing x", "--missing"),
        ("inspect t.csv --rescale", "--rescale"),
    ],
)
def test_options_without_an_effect_are_refused(
    command: str, option: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    _, err = told(capsys, *command.split(), status=2)
    assert option in err
    assert re.search("leave it out|are for", err)
    assert not list(files.glob("x.*"))


def test_options_whose_effect_depends_on_the_table_are_reported(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = told(capsys, "search", table, "--rounds", 3, "--draws", 5)
    assert "--rounds has no effect: no value is missing" in err
    assert "--draws has no effect" in err
    _, err = told(capsys, "fit", table, "--continuous", "auto", "--hidden", 2, "-o", tmp_path / "m.fgrn")
    assert "--continuous auto: no column has many different numbers" in err


def test_json_has_probabilities_if_they_are_asked_for(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "predict", files / "m.fgrn", files / "t.csv", "--json")[0])
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)
    found = json.loads(told(capsys, "predict", files / "m.fgrn", files / "t.csv", "--json", "--no-proba")[0])
    assert list(found[0]) == ["predicted"]


def test_printed_results_say_what_they_are(files: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(r"; bic score -[\d.,]+ \(larger is better\)\n", told(capsys, "search", table)[0])
    found = told(capsys, "compare", table, "--sizes", "1,2", "--starts", "1")[0]
    assert re.search(r"<- best BIC\n.*larger ones may be better still", found)
    found = told(capsys, "compare", table, "--sizes", "2,1,6", "--criterion", "aic", "--starts", "1")[0]
    assert "<- best AIC\n" in found
    assert "larger ones" not in found
    found = told(capsys, "inspect", files / "m.fgrn")[0]
    assert "To see what it has learnt: `fgrn prototypes`, `fgrn report` and `fgrn draw`. To ask it:" in found


def test_a_folder_whose_files_have_other_types_is_refused_in_words(tmp_path: Path, capsys: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "rows").mkdir()
    for name, column in (("a", [1, 2]), ("b", ["red", "blue"])):
        parquet.write_table(pa.table({"x": column, "y": [1, 2]}), tmp_path / "rows" / f"{name}.parquet")
    assert main(["inspect", str(tmp_path / "rows")]) == 1
    told = capsys.readouterr().err
    assert "column 'x' has the types int64 and string" in told
    assert "should not happen" not in told


def test_a_target_that_is_dropped_is_a_contradiction(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = told(capsys, "fit", table, "--target", "a", "--drop", "a", "-o", table.parent / "m.fgrn", status=2)
    assert "'a' cannot be --target and --drop at once." in err


def test_a_model_may_lie_in_the_folder_it_is_learnt_from(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        told(capsys, "fit", table.parent, "--hidden", "2", "-o", table.parent / "m.fgrn")
    assert fgrn.load(table.parent / "m.fgrn").n_hidden_ == 2


def test_two_values_of_one_name_are_refused(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, network = tmp_path / "model.fgrn", tmp_path / "network.bif"
    told(capsys, "fit", table, "--target", "d", "-o", model)
    told(capsys, "search", table, "-o", network)
    twice = ["explain", model, "--set", "a=yes", "--set"]
    _, err = told(capsys, *twice, "a=no", status=2)
    assert "--set gives 'a' two values, yes and no. Leave one of them out." in err
    told(capsys, *twice, "a=yes")  # the same one again is no contradiction
    _, err = told(capsys, "query", network, "--voi", "d", "--cost", "a=1", "--cost", "a=2", status=2)
    assert "--cost gives 'a' two values, 1 and 2." in err


def test_numbers_in_a_column_of_words_are_kept_beside_the_words_that_are_imputed(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column of nothing but numbers is read as numbers, and is to hold a word as well."""
    model, other, full = tmp_path / "model.fgrn", tmp_path / "other.csv", tmp_path / "full.csv"
    told(capsys, "fit", table, "--hidden", "2", "-o", model)
    other.write_text("a,b,c,d\n1.5,yes,no,no\n,yes,yes,yes\n7,no,no,no\n")
    told(capsys, "complete", model, other, "-o", full)
    rows = [line.split(",") for line in full.read_text().replace('"', "").splitlines()]
    assert [row[0] for row in rows[1:]] in (["1.5", "yes", "7"], ["1.5", "no", "7"])
    assert [row[1:] for row in rows[1:]] == [["yes", "no", "no"], ["yes", "yes", "yes"], ["no", "no", "no"]]
