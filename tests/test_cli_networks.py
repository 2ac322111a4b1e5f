"""Network files of other programs on the command line: query, convert, inspect and draw."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from models import chest, circle
from test_cli import said

import fgrn
from fgrn import BayesianNetwork
from fgrn.bayes.climbing import Climb
from fgrn.bayes.structure_search import SearchPlan
from fgrn.bayes.tree_mixture import own_names, own_table
from fgrn.cli import main
from fgrn.cli.answers import plain
from fgrn.tables import table_file


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "chest.bif"
    fgrn.write(chest(), path)
    return path


def asked(capsys: Any, network: Path, *arguments: str) -> Any:
    return json.loads(said(capsys, "query", network, *arguments, "--json"))


# query


def test_posteriors_are_those_of_the_model(network: Path, capsys: Any) -> None:
    told = asked(capsys, network, "--given", "smoke=yes", "--given", "xray!=no", "--given", "dysp=[.3,.7]")
    seen = chest().propagate({"smoke": ["yes"], "xray": [[1, 0]], "dysp": [[0.3, 0.7]]})
    assert told["log_probability"] == pytest.approx(seen.log_likelihood[0])
    assert told["probability"] == pytest.approx(np.exp(seen.log_likelihood[0]))
    assert list(told["posterior"]) == list(chest().names)
    for name, beliefs in told["posterior"].items():
        assert beliefs == pytest.approx(seen.belief(name))
    few = asked(capsys, network, "--target", "lung")
    assert few["posterior"] == {"lung": pytest.approx(chest().propagate().belief("lung"))}
    assert few["log_probability"] == pytest.approx(0, abs=1e-12)


def test_posteriors_are_shown_with_bars(network: Path, capsys: Any) -> None:
    text = said(capsys, "query", network, "--given", "smoke=yes", "--target", "smoke", "--target", "lung")
    assert "probability of the evidence: 0.4 (log -0.916291)" in text
    assert "smoke (given)" in text
    lines = {line.split()[-3]: line for line in text.splitlines() if "█" in line}
    assert text.count("█" * 24) == 1
    assert any("0.120000" in line for line in lines.values())
    assert said(capsys, "query", network, "--target", "lung").startswith("variable")


def test_what_is_said_of_one_variable_holds_together(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "dice.bif"
    labels = ["1", "2", "3", "a=b", "None"]
    fgrn.write(BayesianNetwork({"x=y": labels}, (), {"x=y": [[0.1, 0.2, 0.3, 0.2, 0.2]]}), path)
    told = asked(capsys, path, "--given", "x=y!=1", "--given", "x=y!=3", "--given", "x=y=[1,1,1,1,0]")
    assert told["posterior"]["x=y"] == pytest.approx({"1": 0, "2": 0.5, "3": 0, "a=b": 0.5, "None": 0})
    assert told["probability"] == pytest.approx(0.4)
    assert asked(capsys, path, "--given", "x=y=a=b")["probability"] == pytest.approx(0.2)
    assert asked(capsys, path, "--given", "x=y=2", "--given", "x=y!=3")["probability"] == pytest.approx(0.2)


def test_the_likeliest_states_together(network: Path, capsys: Any) -> None:
    told = asked(capsys, network, "--given", "dysp=yes", "--most-probable")
    labels, logarithm = chest().most_probable({"dysp": "yes"})
    assert told["labels"] == labels
    assert told["log_probability"] == pytest.approx(logarithm)
    text = said(capsys, "query", network, "--given", "dysp=yes", "--most-probable")
    given = logarithm - chest().propagate({"dysp": "yes"}).log_likelihood[0]
    assert f"given the evidence: {np.exp(given):.6g}" in text
    assert "given the evidence" not in said(capsys, "query", network, "--most-probable")


def test_joint_distributions(network: Path, tmp_path: Path, capsys: Any) -> None:
    told = asked(capsys, network, "--given", "dysp=yes", "--joint", "lung,bronc")
    table = chest().joint({"dysp": ["yes"]}, ["lung", "bronc"])[0]
    assert [cell["probability"] for cell in told["joint"]] == pytest.approx(table.ravel().tolist())
    assert told["joint"][1]["lung"] == "yes" and told["joint"][1]["bronc"] == "no"
    assert "bronc" in said(capsys, "query", network, "--joint", "lung,bronc").splitlines()[0]
    said(capsys, "query", network, "--joint", "lung,bronc", "-o", tmp_path / "joint.csv")
    assert table_file.read(tmp_path / "joint.csv").column_names == ["lung", "bronc", "probability"]


def test_samples_are_those_of_the_model(network: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.csv"
    said(capsys, "query", network, "--given", "dysp=yes", "--sample", "20", "--seed", "3", "-o", path)
    drawn = {name: column.tolist() for name, column in chest().sample(20, {"dysp": ["yes"]}, seed=3).items()}
    assert table_file.read(path).to_pydict() == drawn
    told = asked(capsys, network, "--sample", "2", "--target", "lung")
    assert [list(row) for row in told] == [["lung"], ["lung"]]


def test_rows_of_a_table_have_an_answer_each(network: Path, tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text('smoke,xray,either\nyes,yes,\n,"[.3,.7]",!=no\nno,,yes\n', encoding="utf-8")
    said(capsys, "query", network, "--evidence", rows, "--given", "dysp=yes", "-o", tmp_path / "answers.parquet")
    found = parquet.read_table(tmp_path / "answers.parquet")
    evidence = {
        "smoke": ["yes", None, "no"], "xray": ["yes", [0.3, 0.7], None], "either": [None, [1, 0], "yes"],
        "dysp": ["yes"] * 3,
    }  # fmt: skip
    seen = chest().propagate(evidence)
    np.testing.assert_allclose(found["log-probability"], seen.log_likelihood)
    for name in chest().names:
        np.testing.assert_allclose(found[f"P({name} = yes)"], seen.marginal(name)[:, 0], atol=1e-12)
    many = asked(capsys, network, "--evidence", str(rows), "--target", "lung")
    assert len(many) == 3
    likely = said(capsys, "query", network, "--evidence", rows, "--most-probable", "--target", "lung").splitlines()
    assert likely[0] == '"lung","log-probability"' and len(likely) == 4
    drawn = said(capsys, "query", network, "--evidence", rows, "--sample", "2").splitlines()
    assert len(drawn) == 7


def test_parquet_may_hold_weights(network: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"xray": [[0.3, 0.7], None], "smoke": [None, "yes"]}), path)
    told = asked(capsys, network, "--evidence", str(path), "--target", "lung")
    seen = chest().propagate({"xray": [[0.3, 0.7], None], "smoke": [None, "yes"]})
    assert [one["posterior"]["lung"]["yes"] for one in told] == pytest.approx(seen.marginal("lung")[:, 0].tolist())


def test_impossible_rows_have_no_answer_and_are_named(network: Path, tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("either,lung\nno,yes\nyes,yes\n", encoding="utf-8")
    from fgrn.cli import main

    for extra in ([], ["--joint", "lung,tub"]):
        assert main(["query", str(network), "--evidence", str(rows), *extra]) == 0
        out, err = capsys.readouterr()
        assert "Row 0: evidence of probability zero" in err
        assert set(out.splitlines()[1].split(",")[:-1]) == {""} and out.splitlines()[1].endswith("-inf")
        assert "" not in out.splitlines()[2].split(",")
    told = asked(capsys, network, "--evidence", str(rows))
    assert told[0]["posterior"] is None and told[0]["log_probability"] is None and told[1]["posterior"]
    text = said(capsys, "query", network, "--given", "either=no", "--given", "lung=yes", status=1)
    assert "'lung' = yes cannot go with 'either' = no" in text and "propagate" not in text


@pytest.mark.parametrize("extra", [["--method", "sampling"], ["--interval", "0.9"]])
def test_impossible_rows_have_no_error_or_interval(extra: list[str], tmp_path: Path, capsys: Any) -> None:
    path, rows = tmp_path / "net.fgrn", tmp_path / "rows.csv"
    net = BayesianNetwork({"a": ["y", "n"], "b": ["y", "n"]}, [("a", "b")], {"a": [1, 0]}, frozen=["a"])
    net.learn({"a": ["y"] * 4, "b": ["y", "y", "n", "y"]}, smoothing=0.1)
    net.save(path)
    rows.write_text("a\nn\ny\n", encoding="utf-8")
    assert main(["query", str(path), "--evidence", str(rows), "--target", "b", *extra]) == 0
    out, err = capsys.readouterr()
    assert "Row 0: " in err and "without an answer" in err
    assert set(out.splitlines()[1].split(",")) == {""} and "" not in out.splitlines()[2].split(",")
    told = asked(capsys, path, "--evidence", str(rows), "--target", "b", *extra)
    assert told[0]["posterior"] is None and set(told[1]["posterior"]["b"]) == {"y", "n"}
    rows.write_text("a\nn\n", encoding="utf-8")
    assert asked(capsys, path, "--evidence", str(rows), "--target", "b", *extra)[0]["posterior"] is None
    said(capsys, "query", path, "--given", "a=n", "--target", "b", *extra, status=1)


def test_the_number_of_samples_is_an_option(network: Path, capsys: Any) -> None:
    arguments = ("--method", "sampling", "--samples", "50", "--target", "lung")
    assert asked(capsys, network, *arguments)["samples"] == 50
    impossible = ("--given", "either=no", "--given", "lung=yes")
    assert "--samples N" in said(capsys, "query", network, *arguments, *impossible, status=1)
    assert "--method sampling" in said(capsys, "query", network, "--samples", "50", status=2)


def test_uai_evidence_and_partition_functions(tmp_path: Path, capsys: Any) -> None:
    path, evidence = tmp_path / "c.uai", tmp_path / "c.uai.evid"
    model = circle()
    fgrn.write(model, path)
    evidence.write_text("1 0 1", encoding="utf-8")
    told = asked(capsys, path, "--evidence", str(evidence))
    seen = model.propagate({"a": 1})
    assert told["log_probability"] == pytest.approx(seen.log_likelihood[0])
    assert told["posterior"]["x1"]["0"] == pytest.approx(seen.marginal("b")[0, 0])
    assert "sum of all products" in said(capsys, "query", path, "--given", "x0=1")
    evidence.write_text("2\n1 0 1\n1 1 0\n", encoding="utf-8")
    assert len(asked(capsys, path, "--evidence", str(evidence))) == 2
    evidence.write_text("1 0 5", encoding="utf-8")
    assert "column 'x0': it has no state 5: its states are 0 to 1" in said(
        capsys, "query", path, "--evidence", evidence, status=1
    )
    evidence.write_text("1 9 0", encoding="utf-8")
    assert "'x9'" in said(capsys, "query", path, "--evidence", evidence, status=1)


def test_loopy_answers_are_called_approximations(network: Path, capsys: Any) -> None:
    text = said(capsys, "query", network, "--given", "dysp=yes", "--method", "loopy")
    assert "approximation: messages converged after" in text and "about" in text
    told = asked(capsys, network, "--given", "dysp=yes", "--method", "loopy")
    assert told["converged"] and told["rounds"] > 1


def test_a_network_that_is_too_wide_names_the_way_out(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "wide.uai"
    names = [f"x{number}" for number in range(30)]
    pairs = [(one, other) for one in names for other in names if one < other]
    model = fgrn.MarkovNetwork(dict.fromkeys(names, 2), [(pair, np.ones((2, 2))) for pair in pairs])
    fgrn.write(model, path)
    text = said(capsys, "query", path, status=1)
    assert "1,073,741,824 joint states" in text and "--method loopy" in text
    said(capsys, "query", path, "--method", "loopy", "--target", "x0")
    assert "--method loopy" in said(capsys, "inspect", path)
    assert "--method loopy" in said(capsys, "draw", path, "-o", tmp_path / "w.svg", status=1)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--given", "lungs=yes"], 1, ["--given lungs=yes", "'lung'"]),
        (["--given", "lungs!=yes"], 1, ["no variable 'lungs'"]),
        (["--given", "lung=maybe"], 1, ["--given lung=maybe", "yes, no"]),
        (["--given", "lung!=maybe"], 1, ["yes, no"]),
        (["--given", "lung"], 2, ["NAME=STATE"]),
        (["--given", "lung=[1,2,3]"], 1, ["3 weights, for 2 states"]),
        (["--given", "lung=[1,x]"], 1, ["not a list of numbers"]),
        (["--given", "lung=[-1,2]"], 1, ["not negative"]),
        (["--given", "lung=[0,0]"], 1, ["not all zero"]),
        (["--given", "lung=yes", "--given", "lung=no"], 1, ["contradicts"]),
        (["--target", "lungs"], 1, ["Did you mean 'lung'"]),
        (["--joint", "lung,bronk"], 1, ["Did you mean 'bronc'"]),
        (["--joint", "lung,lung"], 1, ["must be named once"]),
        (["--joint", "lung,bronc", "--most-probable"], 2, ["one at a time"]),
        (["--most-probable", "--method", "loopy"], 2, ["--method exact"]),
        (["--json", "-o", "x.csv"], 2, ["leave out"]),
        (["--evidence", "none.csv"], 1, ["no file 'none.csv'"]),
        (["--evidence", "OTHER"], 1, ["column 'smok'", "'smoke'", "--no-header"]),
        (["--evidence", "WRONG"], 1, ["Row 1, 'smoke'", "'perhaps'"]),
        (["--evidence", "RIGHT", "--given", "smoke=yes"], 2, ["--evidence and in --given"]),
        (["-o", "x.doc"], 2, [".doc"]),
        (["--sample", "0"], 2, ["0"]),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], status: int, words: list[str], network: Path, tmp_path: Path, capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    files = {}
    for name, text in (("OTHER", "smok\nyes\n"), ("WRONG", "smoke\nyes\nperhaps\n"), ("RIGHT", "smoke\nyes\n")):
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    told = said(capsys, "query", network, *(files.get(one, one) for one in arguments), status=status)
    for word in words:
        assert word in told, told
    assert sorted(tmp_path.iterdir()) == before


def test_states_called_none_are_not_missing(tmp_path: Path, capsys: Any) -> None:
    path, rows = tmp_path / "n.bif", tmp_path / "rows.csv"
    fgrn.write(BayesianNetwork({"flow": ["None", "some"]}, (), {"flow": [[0.25, 0.75]]}), path)
    rows.write_text("flow\nNone\nsome\nNA\n", encoding="utf-8")
    told = asked(capsys, path, "--evidence", str(rows))
    assert [one["probability"] for one in told] == pytest.approx([0.25, 0.75, 1])


def test_labels_that_are_numbers_are_found_however_they_are_written(tmp_path: Path, capsys: Any) -> None:
    path, rows = tmp_path / "n.bif", tmp_path / "rows.csv"
    fgrn.write(BayesianNetwork({"dose": ["0.50", "1.0"]}, (), {"dose": [[0.25, 0.75]]}), path)
    rows.write_text("dose\n0.50\n1.0\n\n", encoding="utf-8")
    told = asked(capsys, path, "--evidence", str(rows))
    assert [one["probability"] for one in told][:2] == pytest.approx([0.25, 0.75])
    assert asked(capsys, path, "--given", "dose=.5")["probability"] == pytest.approx(0.25)


@pytest.mark.parametrize("logarithm", [0.0, -1.0, -20.0, -700.0, -5000.0, 3000.0, -np.inf])
def test_probabilities_of_any_size_are_written(logarithm: float) -> None:
    from decimal import Decimal

    expected = Decimal(logarithm).exp() if np.isfinite(logarithm) else Decimal(0)
    assert abs(Decimal(plain(logarithm)) - expected) <= expected * Decimal("1e-4")


# convert


def test_all_formats_are_converted_into_each_other(network: Path, tmp_path: Path, capsys: Any) -> None:
    last = network
    for number, suffix in enumerate(("xdsl", "net", "xml.gz", "bif.gz", "bifxml", "bif")):
        path = tmp_path / f"{number}.{suffix}"
        told = json.loads(said(capsys, "convert", last, path, "--json"))
        assert told == {"written": str(path), "variables": 8, "tables": 8, "left_out": []}
        last = path
    assert fgrn.read(last) == chest()
    plain_ = json.loads(said(capsys, "convert", last, tmp_path / "c.uai", "--json"))
    assert any("x0, x1" in one for one in plain_["left_out"])
    np.testing.assert_array_equal(fgrn.read(tmp_path / "c.uai").table("x3"), chest().table("lung"))


def test_formats_may_be_named(network: Path, tmp_path: Path, capsys: Any) -> None:
    other = tmp_path / "chest.txt"
    said(capsys, "convert", network, other, "--to", "net")
    said(capsys, "convert", other, tmp_path / "again.bif", "--from", "net")
    assert fgrn.read(tmp_path / "again.bif") == chest()
    assert asked(capsys, other, "--from", "net", "--target", "lung")["posterior"]
    text = said(capsys, "convert", network, tmp_path / "chest.doc", status=2)
    assert "--to" in text and ".bif" in text


def test_properties_that_are_left_out_are_told(tmp_path: Path, capsys: Any) -> None:
    from fgrn.cli import main

    path = tmp_path / "p.bif"
    model = BayesianNetwork({"a": ["no", "yes"]}, properties={"a": {"colour": "red"}}, name="told")
    fgrn.write(model, path)
    assert main(["convert", str(path), str(tmp_path / "p.uai")]) == 0
    err = capsys.readouterr().err
    assert "1 property" in err and "'told'" in err


@pytest.mark.parametrize(
    ("model", "suffix", "words"),
    [
        (circle(), "bif", ["factors without a direction", "UAI"]),
        (BayesianNetwork({"a b": ["no", "yes"]}), "net", ["'a b'"]),
        (BayesianNetwork({"a": [" no way", "yes"]}), "xml", ["' no way'"]),
    ],
)
def test_what_a_format_cannot_carry_is_told(
    model: Any, suffix: str, words: list[str], tmp_path: Path, capsys: Any
) -> None:
    source = tmp_path / ("m.uai" if suffix == "bif" else "m.bif")
    fgrn.write(model, source)
    text = said(capsys, "convert", source, tmp_path / f"out.{suffix}", status=1)
    assert all(word in text for word in words), text
    assert not (tmp_path / f"out.{suffix}").exists()


def test_bad_files_are_told_with_their_line(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "bad.bif"
    path.write_text("network x {\n}\nvariable a {\n type discrete [ 2 ] { y };\n}\n", encoding="utf-8")
    for command, *rest in ["query"], ["inspect"], ["convert", tmp_path / "o.net"], ["draw", "-o", "a.svg"]:
        assert "bad.bif, line 4" in said(capsys, str(command), path, *rest, status=1)
    unknown = tmp_path / "data.what"
    unknown.write_text("hello", encoding="utf-8")
    assert "--from" in said(capsys, "query", unknown, status=1)
    table = fgrn.NaiveBayesClassifier().fit({"a": ["x", "y"] * 5}, ["u", "v"] * 5)
    table.save(tmp_path / "people.fgrn")
    assert "fgrn predict" in said(capsys, "query", tmp_path / "people.fgrn", status=1)


def test_networks_in_model_files_are_asked_too(tmp_path: Path, capsys: Any) -> None:
    model = fgrn.BayesianNetwork({"a": ["x", "y"], "b": 2}, [("a", "b")], {"a": [0.25, 0.75], "b": [[1, 0], [0, 1]]})
    path = tmp_path / "m.fgrn"
    model.save(path)
    found = json.loads(said(capsys, "query", path, "--given", "b=1", "--json"))
    assert found["posterior"]["a"] == {"x": 0, "y": 1}
    said(capsys, "draw", path, "-o", tmp_path / "m.svg")
    assert "fgrn query" in said(capsys, "predict", path, tmp_path / "m.svg", status=1)
    assert json.loads(said(capsys, "inspect", path, "--json"))["arcs"] == 1


# inspect and draw


def test_networks_are_inspected(network: Path, tmp_path: Path, capsys: Any) -> None:
    text = said(capsys, "inspect", network)
    assert "8 variables with 16 states" in text and "8 arcs, at most 2 parents" in text and "bronc, either" in text
    told = json.loads(said(capsys, "inspect", network, "--json"))
    assert told["parameters"] == chest().free_parameters and told["exact"]
    assert told["joint_states"] == max(chest().tree.states)
    assert told["listed"][1] == {"name": "tub", "states": ["yes", "no"], "parents": ["travel"]}
    fgrn.write(circle(), tmp_path / "c.uai")
    assert "7 factors with 28 numbers" in said(capsys, "inspect", tmp_path / "c.uai")


@pytest.mark.parametrize("options", [[], ["--given", "smoke=yes", "--given", "xray!=no"], ["--only", "lung"],
                                     ["--detail", "names"], ["--method", "loopy"]])  # fmt: skip
def test_networks_are_drawn(options: list[str], network: Path, tmp_path: Path, capsys: Any) -> None:
    for suffix in ("svg", "png"):
        path = tmp_path / f"chest.{suffix}"
        said(capsys, "draw", network, *options, "-o", path)
        assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_drawing_says_what_is_wrong(network: Path, tmp_path: Path, capsys: Any) -> None:
    assert "Did you mean 'lung'" in said(capsys, "draw", network, "--only", "lungs", "-o", "a.svg", status=1)
    assert ".doc" in said(capsys, "draw", network, "-o", "a.doc", status=1)
    assert "--only" in said(capsys, "draw", "m.fgrn", "--only", "a", "-o", "a.svg", status=2)


def test_what_new_users_found(tmp_path: Path, capsys: Any) -> None:
    model = fgrn.BayesianNetwork(
        {"a": ["x", "y"], "b": ["u", "v"]}, [("a", "b")], {"a": [0.25, 0.75], "b": [[1, 0], [0, 1]]}
    )
    path = tmp_path / "m.bif"
    fgrn.write(model, path)
    before = path.read_bytes()
    assert "one file" in said(capsys, "convert", path, path, status=2)
    assert path.read_bytes() == before
    hard_and_soft = json.loads(said(capsys, "query", path, "--given", "a=x", "--given", "a=[.2,.8]", "--json"))
    assert hard_and_soft["probability"] == pytest.approx(0.05)
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\nx,u\nx,v\ny,\n", encoding="utf-8")
    found = json.loads(said(capsys, "query", path, "--evidence", rows, "--most-probable", "--json"))
    assert [row["labels"] for row in found] == [{"a": "x", "b": "u"}, None, {"a": "y", "b": "v"}]
    joint = json.loads(said(capsys, "query", path, "--evidence", rows, "--joint", "a,b", "--json"))
    assert joint[1]["joint"] is None
    drawn = json.loads(said(capsys, "query", path, "--evidence", rows, "--sample", "2", "--json"))
    assert [row["a"] for row in drawn] == ["x", "x", None, None, "y", "y"]
    blank = tmp_path / "blank.csv"
    blank.write_text("a\nx\n\ny\n", encoding="utf-8")
    assert len(json.loads(said(capsys, "query", path, "--evidence", blank, "--json"))) == 3
    model.save(tmp_path / "m.fgrn")
    said(capsys, "convert", tmp_path / "m.fgrn", tmp_path / "m.net")
    assert fgrn.read(tmp_path / "m.net") == model
    fgrn.plots.graph(model, {"a": fgrn.Not("x")})
    fgrn.plots.graph(model, {"a": [fgrn.Not("x")]})
    with pytest.raises(KeyError, match="Did you mean 'a'"):
        model.most_probable({}, names=["A"])
    zeros = tmp_path / "zeros.uai"
    zeros.write_text("MARKOV\n1\n2\n1\n1 0\n2\n0 0\n", encoding="utf-8")
    with pytest.raises(fgrn.NetworkFileError, match=r"zeros\.uai.*not all zero"):
        fgrn.read(zeros)


# search


def test_search_says_that_missing_values_are_averaged_over_in_rounds(tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "x,u\ny,v\nx,\n,v\n" * 10)
    assert main(["search", str(rows), "--method", "exact"]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    assert "of structural EM, each of which is exact, the whole is not" in told
    rows.write_text("a,b\n" + "x,u\ny,v\n" * 10)
    assert main(["search", str(rows), "--method", "exact"]) == 0
    assert "structural EM" not in capsys.readouterr().out


def test_search_writes_the_network_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    rows = [f"{a},{b},{c}" for k in range(60) for a in (0, 1) for b, c in [(a, k % 2)]]
    table.write_text("a,b,c\n" + "\n".join(rows) + "\n")
    out = tmp_path / "net.bif"
    assert (
        main(
            ["search", str(table), "-o", str(out), "--tier", "b", "--tier", "a,c", "--picture", str(tmp_path / "n.svg")]
        )
        == 0
    )
    assert "b" in capsys.readouterr().out
    assert fgrn.read(out).arcs == (("b", "a"),)  # type: ignore[attr-defined]
    assert main(["search", str(table), "--start", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arcs"] == [{"parent": "b", "child": "a"}]
    assert main(["search", str(table), "--start", str(out), "--forbidden", "b>a"]) == 1
    assert "The start has the arc 'b' -> 'a'" in capsys.readouterr().err
    assert main(["search", str(table), "--confidence", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {found["arcs"][0]["parent"], found["arcs"][0]["child"]} == {"a", "b"}
    assert found["arcs"][0]["strength"] == 1.0


def test_an_interrupted_search_writes_the_best_network_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "net.bif"
    table.write_text("a,b,c,d\n" + "0,0,1,1\n1,1,0,0\n0,0,0,0\n" * 30)
    go = Climb._go

    def interrupted(self: Climb, *move: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        go(self, *move)

    monkeypatch.setattr(Climb, "_go", interrupted)
    assert main(["search", str(table), "-o", str(out)]) == 130
    told = capsys.readouterr()
    assert "stopping after this move" in told.err
    assert "interrupted: this is the best network found so far" in told.out
    assert len(fgrn.read(out).arcs) == 1  # type: ignore[attr-defined]
    table.write_text("a,b,c,d\n" + "0,0,1,1\n1,1,0,\n0,0,0,0\n" * 30)
    assert main(["search", str(table), "--draws", "2", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["rounds"] == 1


def test_an_interrupted_search_keeps_the_confidences_of_finished_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out, run = tmp_path / "table.csv", tmp_path / "net.bif", SearchPlan.run
    table.write_text("a,b\n" + "0,0\n1,1\n" * 20)
    samples, last = 0, 3

    def interrupted(self: SearchPlan, drawn: Any) -> Any:
        nonlocal samples
        samples += 1
        if samples == last:
            signal.raise_signal(signal.SIGINT)
        return run(self, drawn)

    monkeypatch.setattr(SearchPlan, "run", interrupted)
    for method, finished in (("order", 2), ("exact", 3)):  # one has moves to stop at, the other has none
        samples = 0
        assert main(["search", str(table), "--confidence", "9", "--method", method, "-o", str(out)]) == 130
        told = f"interrupted: the confidences were not finished, and are those of {finished} of 9 samples"
        assert told in capsys.readouterr().out
        assert len(fgrn.read(out).arcs) == 1  # type: ignore[attr-defined]
    samples, last = 0, 10  # in the search among the arcs that the samples have, which goes on
    assert main(["search", str(table), "--confidence", "9", "-o", str(out)]) == 130
    assert "interrupted: after the last of 9 samples, so that nothing is missing" in capsys.readouterr().out
    assert len(fgrn.read(out).arcs) == 1  # type: ignore[attr-defined]
    samples, last = 0, 1
    assert main(["search", str(table), "--confidence", "9", "--json"]) == 130
    assert "stopped before its first sample was finished" in capsys.readouterr().err


def test_search_with_a_hidden_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b\n" + "0,0\n1,1\n1,0\n" * 20)
    arcs = ["--required", "h>a", "--required", "h>b"]
    settings = ["--hidden", "h=2", "--draws", "2", "--rounds", "1", "--json"]
    assert main(["search", str(table), *arcs, *settings]) == 0
    assert json.loads(capsys.readouterr().out)["variables"] == 3
    assert main(["search", str(table), "--score", "log_likelihood", "--held-out", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["score_name"] == "log_likelihood"


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        (["--hidden", "h"], 2, "NAME=STATES"),
        (["--hidden", "h=3"], 1, "Give it arcs with --required 'h>a'."),
        (
            ["--hidden", "h=1", "--required", "h>a"],
            1,
            "'h' has one state, which it has in every row: nothing can "
            "depend on it. Give it two states or more with --hidden h=2.",
        ),
        (["--hidden", "h=2"], 1, "has no arc at the start"),
        (["--required", "a>z"], 1, "there is no column 'z' here"),
        (["--required", "ab"], 2, "PARENT>CHILD"),
        (["--required", "a>b", "--forbidden", "a>b"], 1, "is required, and it is forbidden"),
        (["--required", "a>b", "--max-parents", "0"], 1, "1 required parent, and a column may have 0 at most"),
        (["--required", "a>b", "--max-parents", "0"], 1, "allow more with --max-parents 1"),
        (["-o", "net.txt"], 2, "must be that of a format"),
    ],
)
def test_search_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], status: int, expected: str
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b\n0,1\n1,0\n0,1\n")
    assert main(["search", str(table), *options]) == status
    assert expected in capsys.readouterr().err


def test_a_page_that_is_served_ends_well_with_an_interruption(
    network: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupted)
    assert main(["explore", str(network), "--serve", "--json"]) == 0
    assert "http://127.0.0.1" in capsys.readouterr().out


# Questions beyond posteriors


def test_query_tells_which_numbers_matter_most(network: Path, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "tornado.svg"
    asking = ["query", str(network), "--sensitivity", "lung=yes"]
    assert main([*asking, "--given", "dysp=yes", "--picture", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "each number 10% smaller and larger" in told
    assert picture.read_text().startswith("<?xml")
    assert main([*asking, "--spread", "0.5", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["numbers"]
    found = chest().sensitivities(("lung", "yes"), spread=0.5)
    assert [one["smaller"] for one in numbers] == [pytest.approx(one.low, abs=1e-6) for one in found]
    assert main(["query", str(network), "--spread", "0.5"]) == 2
    assert "goes with --sensitivity" in capsys.readouterr().err
    assert main(["query", str(network), "--sensitivity", "lung=maybe"]) == 1
    assert "--sensitivity lung=maybe" in capsys.readouterr().err


def test_query_has_map_interventions_and_values_of_asking(network: Path, capsys: Any) -> None:
    model = chest()
    told = asked(capsys, network, "--given", "dysp=yes", "--map", "lung,smoke")
    found = model.map(["lung", "smoke"], {"dysp": "yes"})
    assert told["labels"] == found.labels
    assert told["log_probability"] == pytest.approx(found.log_probability)
    told = asked(capsys, network, "--do", "smoke=yes", "--given", "dysp=yes", "--target", "lung")
    expected = model.do(smoke="yes").posterior({"dysp": "yes"}, "lung")[0]
    assert list(told["posterior"]["lung"].values()) == pytest.approx(expected.tolist())
    told = asked(capsys, network, "--given", "dysp=yes", "--voi", "lung", "--cost", "xray=0.01")
    expected_order = model.value_of_asking("lung", {"dysp": "yes"}, costs={"xray": 0.01})
    assert [one["name"] for one in told["asked"]] == [one.name for one in expected_order]
    assert told["asked"][0]["value"] == pytest.approx(expected_order[0].value)
    told = asked(capsys, network, "--do", "smoke=yes", "--voi", "lung")
    assert {one["name"] for one in told["asked"]} == {*model.names} - {"lung", "smoke"}
    assert "most valuable first" in said(capsys, "query", network, "--voi", "lung")
    assert "probability given the evidence" in said(capsys, "query", network, "--map", "lung")


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        (["--do", "smoke=often"], 1, "--do smoke=often"),
        (["--do", "smok=yes"], 1, "Did you mean 'smoke'"),
        (["--do", "smoke=yes", "--do", "smoke=no"], 2, "twice"),
        (["--map", "lung", "--voi", "lung"], 2, "different questions"),
        (["--map", "lung", "--target", "smoke"], 2, "--map and --target are different questions. Ask one at a time."),
        (["--voi", "lung", "--cost", "xray=dear"], 2, "NAME=NUMBER"),
        (["--voi", "lungs"], 1, "Did you mean 'lung'"),
        (["--voi", "lung", "--target", "lung"], 1, "--target has 'lung', which is to be known itself. Leave it out."),
        (["--voi", "lung", "--do", "lung=yes"], 1, "The target 'lung' is known already"),
        (["--map", "lung,lung"], 1, "must be named once; 'lung' is named twice. Leave out one of them."),
        (["--do", "smoke=no", "--given", "smoke=yes"], 2, "--do sets 'smoke' to no, and --given says something else"),
        (["--do", "smoke=no", "--given", "smoke!=no"], 2, "--do sets 'smoke' to no, and --given says something else"),
    ],
)
def test_query_says_what_cannot_be_asked(
    network: Path, capsys: Any, options: list[str], status: int, expected: str
) -> None:
    assert main(["query", str(network), *options]) == status
    assert expected in capsys.readouterr().err


# models of other kinds


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dynamic network, a mixture of trees and an influence diagram."""
    folder = tmp_path_factory.mktemp("others")
    fgrn.DynamicBayesianNetwork({"s": 2, "o": 2}, [("s", "o")], {"s": ["s"]}).save(folder / "dynamic.fgrn")
    tree = fgrn.hidden_tree({name: [0, 1] * 10 for name in "abc"}, hidden=2)
    tree.learn({name: [0, 1] * 10 for name in "abc"}, epochs=1)
    own = {name: own_table(tree._spec.layout, tree._parameters.values, name)[None] for name in own_names(tree)}
    fgrn.TreeMixture(tree, [1.0], own).save(folder / "mixture.fgrn")
    utility = {"U": (["a", "D"], [[1, 0], [0, 1]])}
    fgrn.InfluenceDiagram(BayesianNetwork({"a": 2}), {"D": []}, utility, actions={"D": 2}).save(folder / "diagram.fgrn")
    return folder


@pytest.mark.parametrize("name", ["dynamic", "mixture", "diagram"])
def test_other_models_are_described_and_drawn(others: Path, name: str, tmp_path: Path, capsys: Any) -> None:
    path = others / f"{name}.fgrn"
    told = said(capsys, "inspect", path)
    assert repr(fgrn.load(path)) in told
    assert json.loads(said(capsys, "inspect", path, "--json"))["kind"] == type(fgrn.load(path)).__name__
    assert "`fgrn draw`" in told
    assert main(["draw", str(path), "-o", str(tmp_path / "picture.svg")]) == 0
    for refused in (["predict", path, path], ["prototypes", path], ["report", path], ["query", path]):
        capsys.readouterr()
        assert main(list(map(str, refused))) == 1
        words = capsys.readouterr().err
        assert "`fgrn draw`" in words
        assert "fgrn query" not in words
        assert "fgrn predict" not in words


def test_the_first_slices_of_a_dynamic_network_are_drawn(others: Path, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "picture.svg"
    told = said(capsys, "draw", others / "dynamic.fgrn", "-o", picture, "--given", "o[0]=1", "--json")
    assert list(json.loads(told)["beliefs"]) == ["s[0]", "o[0]", "s[1]", "o[1]"]


@pytest.mark.parametrize("name", ["dynamic", "diagram"])
def test_a_page_of_other_models_is_refused(others: Path, name: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["explore", str(others / f"{name}.fgrn"), "-o", str(tmp_path / "page.html")]) == 1
    assert "`fgrn draw`" in capsys.readouterr().err


def test_costs_go_with_the_value_of_asking(network: Path, capsys: Any) -> None:
    assert main(["query", str(network), "--cost", "smoke=3"]) == 2
    assert "--voi" in capsys.readouterr().err


def test_numbers_are_put_in_their_bins(tmp_path: Path, capsys: Any) -> None:
    ages = BayesianNetwork({"age": ["< 28.5", "28.5 to 40.5", ">= 40.5"], "b": 2}, [("age", "b")])
    ages.save(tmp_path / "ages.fgrn")
    (tmp_path / "rows.csv").write_text("age\n31\n99\n")
    told = asked(capsys, tmp_path / "ages.fgrn", "--given", "age=31")
    assert told["posterior"]["age"]["28.5 to 40.5"] == 1
    rows = asked(capsys, tmp_path / "ages.fgrn", "--evidence", str(tmp_path / "rows.csv"), "--target", "age")
    assert "None" not in str(rows)


def test_a_dynamic_network_is_converted_as_two_slices(tmp_path: Path, capsys: Any) -> None:
    model = fgrn.DynamicBayesianNetwork(
        {"w": ["dry", "wet"], "u": ["no", "yes"]},
        {"u": ["w"]},
        {"w": ["w"]},
        {"w": [[0.8, 0.2], [0.3, 0.7]], "u": [[0.9, 0.1], [0.2, 0.8]]},
        {"w": [[0.5, 0.5]]},
    )
    path, target = tmp_path / "d.fgrn", tmp_path / "d.bif"
    model.save(path)
    said(capsys, "convert", path, target)
    again = fgrn.DynamicBayesianNetwork.of_two_slices(fgrn.read(target))
    rows = {"u": ["yes", "no", "yes"]}
    np.testing.assert_allclose(again.smooth(rows).marginal("w"), model.smooth(rows).marginal("w"), rtol=1e-12)
    log = tmp_path / "log.csv"
    log.write_text("u,note\nyes,1\nno,2\n")
    for network in (path, target):
        for command in ("track", "forecast"):
            assert main([command, str(network), str(log)]) == 0
            assert "'note' is not a variable of the network: left out." in capsys.readouterr().err


def test_columns_that_are_no_variables_are_left_out_and_named(network: Path, tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("smoke,id,xrayy\nyes,1,no\n")
    assert main(["query", str(network), "--evidence", str(rows), "--target", "lung", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "'id', 'xrayy' are not variables of the network: left out. Did you mean 'xray' instead of 'xrayy'?" in err
    assert (
        json.loads(out)[0]["posterior"]
        == asked(capsys, network, "--given", "smoke=yes", "--target", "lung")["posterior"]
    )
    rows.write_text("id,age\n1,2\n")
    assert "no column is a variable" in said(capsys, "query", network, "--evidence", rows, status=1)


def test_the_model_of_a_table_is_described(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "m.fgrn"
    table = {"a": ["x", "y"] * 10, "b": ["u", "v"] * 10}
    fgrn.LatentClassModel(n_hidden=2, n_init=1, n_epochs=3, tol=0).fit(table).save(path)
    text = said(capsys, "inspect", path)
    assert "LatentClassModel, learnt from a table: 2 columns, 2 hidden states" in text
    assert "fgrn predict" in text
    told = json.loads(said(capsys, "inspect", path, "--json"))
    assert [one["levels"] for one in told["columns"]] == [["x", "y"], ["u", "v"]]


def test_variables_with_the_names_of_result_columns_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable called probability lost its states to the probabilities."""
    variables = {"probability": ["low", "high"], "log-probability": ["low", "high"]}
    net = fgrn.BayesianNetwork(variables, tables={"probability": [0.3, 0.7], "log-probability": [0.4, 0.6]})
    fgrn.write(net, tmp_path / "net.bif")
    joint = ["query", str(tmp_path / "net.bif"), "--joint", "probability,log-probability"]
    assert main([*joint, "-o", str(tmp_path / "joint.csv")]) == 0
    assert "'probability' is written as 'probability_'" in capsys.readouterr().err
    found = fgrn.tables.table_file.read(tmp_path / "joint.csv").to_pydict()
    assert found["probability"] == ["low", "low", "high", "high"]
    assert found["probability_"] == pytest.approx([0.12, 0.18, 0.28, 0.42])
    assert main([*joint, "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["joint"]
    assert cells[0] == {"probability": "low", "log-probability": "low", "probability_": pytest.approx(0.12)}
    for question in (["--map", "log-probability"], ["--most-probable"]):
        assert main([*joint[:2], *question, "-o", str(tmp_path / "map.csv")]) == 0
        assert "'log-probability' is written as 'log-probability_'" in capsys.readouterr().err
        found = fgrn.tables.table_file.read(tmp_path / "map.csv").to_pydict()
        assert found["log-probability"] == ["high"]
        assert found["log-probability_"][0] < 0


def test_a_list_of_states_that_is_cut_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, and parents, that do not fit into a column are counted."""
    monkeypatch.setenv("COLUMNS", "120")
    towns = ["Amsterdam Centrum", "Rotterdam Zuidoost", "Den Haag Scheveningen", "Utrecht"]
    parents = [f"a variable with a long name {number}" for number in range(4)]
    states: dict[str, list[str]] = {"town": towns, "y": ["no", "yes"]}
    model = fgrn.BayesianNetwork(states | {name: ["a", "b"] for name in parents}, {"y": parents})
    fgrn.write(model, tmp_path / "towns.bif")
    assert main(["inspect", str(tmp_path / "towns.bif")]) == 0
    out = capsys.readouterr().out
    assert "Amsterdam Centrum, ... (3 more)" in out
    assert f"{parents[0]}, ... (3 more)" in out
