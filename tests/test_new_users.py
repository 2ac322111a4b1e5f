"""What people met in their first hour with the command line and the estimators, each as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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
