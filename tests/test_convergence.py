"""Learning that reaches its limit of epochs before it converges warns, if the limit was not chosen."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrn
from fgrn.cli import main
from fgrn.tables import table_file

STATES = {"a": ["no", "yes"], "b": ["no", "yes"], "c": ["no", "yes"]}
ARCS = {"a": ["h"], "b": ["h"], "c": ["h"]}


def answers(rows: int = 300) -> dict[str, list[Any]]:
    """Return three answers of each person, which depend on a type that is not in the table."""
    rng = np.random.default_rng(0)
    kind = rng.random(rows) < 0.4
    drawn = {name: rng.random(rows) < np.where(kind, 0.75, 0.3) for name in "abc"}
    return {name: np.where(column, "yes", "no").tolist() for name, column in drawn.items()}


@pytest.fixture
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_network_with_a_hidden_variable_warns_after_the_default_epochs() -> None:
    asks = r"Learning in 20 epochs, the default, did not converge: the last epoch still gained .* per row, more than "
    with pytest.warns(
        fgrn.ConvergenceWarning, match=asks + r"1e-05\. .*epochs=1000, tolerance=1e-06.*epochs=20"
    ) as told:
        fgrn.BayesianNetwork.from_data(ARCS, answers(), states={"h": 2}, seed=1)
    assert len(told) == 1
    assert told[0].filename == __file__
    with pytest.warns(fgrn.ConvergenceWarning, match=r"more than 1e-09\. .*tolerance=1e-09"):
        fgrn.BayesianNetwork({**STATES, "h": 2}, ARCS).learn(answers(), tolerance=1e-9)
    with pytest.warns(fgrn.ConvergenceWarning, match="epochs=1000"):
        fgrn.lvm(STATES, hidden=2).learn(answers())


@pytest.mark.usefixtures("no_warning")
def test_epochs_that_were_asked_for_are_enough() -> None:
    fgrn.BayesianNetwork.from_data(ARCS, answers(), states={"h": 2}, epochs=20)
    fgrn.lvm(STATES, hidden=2).learn(answers(), 20)
    fgrn.BayesianNetwork.from_data(ARCS, answers(), states={"h": 2}, epochs=1000, tolerance=1e-6)


@pytest.mark.usefixtures("no_warning")
def test_learning_that_converged_or_ends_by_another_rule_does_not_warn() -> None:
    table = answers()
    history = fgrn.BayesianNetwork(STATES, {"b": ["a"]}).learn(table)
    assert history.epochs == 20
    table["a"][::10] = [None] * 30  # little is missing: converges in a few epochs
    fgrn.BayesianNetwork.from_data({"b": ["a"]}, table)
    net = fgrn.lvm(STATES, hidden=2)
    net.learn(table, validation=0.2)
    net.learn(table, batch_size=100)
    net.learn(table, watch=lambda start, epoch, value: epoch == 3)


def test_dynamic_networks_warn_too() -> None:
    table = {"sequence": [row // 30 for row in range(300)], **answers()}
    net = fgrn.DynamicBayesianNetwork({"h": 2, "a": ["no", "yes"]}, {"a": ["h"]}, {"h": ["h"]})
    with pytest.warns(fgrn.ConvergenceWarning, match="Learning in 20 epochs, the default"):
        net.learn({name: table[name] for name in ("sequence", "a")})


def test_a_search_warns_of_tables_that_did_not_converge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"hidden": {"h": 2}, "required": [("h", name) for name in "abc"], "rounds": 1}
    asks = r"The tables of the network did not converge within 100 epochs\. Learn them further with net\.learn\(data, "
    with pytest.warns(fgrn.ConvergenceWarning, match=asks) as told:
        fgrn.search(answers(60), smoothing=0.0, **given)
    assert len(told) == 1
    table_file.write(answers(60), tmp_path / "answers.csv")
    options = [f"--required={parent}>{child}" for parent, child in given["required"]]
    command = ["search", str(tmp_path / "answers.csv"), "--hidden", "h=2", "--rounds", "1", "--smoothing", "0"]
    assert main([*command, *options]) == 0
    found = re.findall("fgrn: .*did not converge.*", capsys.readouterr().err)
    assert found == ["fgrn: The tables of the network did not converge within 100 epochs."]


def test_trees_of_tables_with_missing_values_warn() -> None:
    table = answers()
    for name, first in (("a", 0), ("b", 1), ("c", 2)):
        table[name] = [None if row % 3 == first else value for row, value in enumerate(table[name])]
    with pytest.warns(fgrn.ConvergenceWarning, match=r"The tree .* Allow more epochs with epochs=1000"):
        fgrn.chow_liu(table, epochs=3)


def test_tracking_warns_and_names_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {"sequence": [row // 30 for row in range(300)], "a": answers()["a"]}
    table_file.write(table, tmp_path / "rows.csv")
    net = fgrn.DynamicBayesianNetwork({"h": 2, "a": ["no", "yes"]}, {"a": ["h"]}, {"h": ["h"]})
    net.save(tmp_path / "net.fgrn")
    command = ["track", tmp_path / "net.fgrn", tmp_path / "rows.csv", "--learn", tmp_path / "new.fgrn"]
    assert main([*map(str, command), "--sequence", "sequence", "--epochs", "4", "-o", str(tmp_path / "o.csv")]) == 0
    assert re.search(r"did not converge: .* Allow more epochs with --epochs 1000", capsys.readouterr().err)
