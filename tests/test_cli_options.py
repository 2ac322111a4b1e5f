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
