"""The examples of the README run, and the demonstration gives its results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fgrn
from fgrn.cli import main

README = Path(__file__).parents[1] / "README.md"


def test_the_code_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not README.is_file():
        pytest.skip("the README is not beside these tests")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 4
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    belief = namespace["seen"].belief("asbestos")
    assert {state: round(share, 2) for state, share in belief.items()} == {0: 0.27, 1: 0.73}
    completed = fgrn.load("flu.fgrn").complete(namespace["table"][["fever", "cough", "age"]])
    assert completed["fever"].tolist()[4] == "high"
    assert completed["cough"].tolist()[6] == "yes"
    assert namespace["model"].predict({"fever": [None], "cough": ["yes"], "age": [60]}).tolist() == ["yes"]
    states = ["well", "well", "worn", "worn", "well", "well", "well"]
    assert namespace["chain"].most_probable(namespace["log"]).labels["S"].tolist() == states
    assert Path("flu.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.filterwarnings("ignore::fgrn.UnseenLevelWarning")  # shades that held-out rows have alone
def test_the_demonstration_learns_compares_draws_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    assert main(["demo", "--output", str(folder), "--hidden", "4"]) == 0
    said = capsys.readouterr().out
    ours, forest, naive_bayes = (float(share) for share in re.findall(r"  (\d+\.\d)%", said))
    assert ours > forest - 3 > naive_bayes > 80
    pictures = sorted(path.name for path in folder.glob("*.png"))
    assert pictures == ["completed.png", "confusion.png", "convergence.png", "explained.png", "prototypes.png"]
    for name in pictures:
        assert str(folder / name) in said
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert said.endswith(f"open it in a browser:\n  {folder / 'digits.html'}\n"), "the page is named last"
    command = re.findall(r"or with this one: fgrn (.*)", said)[0]
    assert main(command.split()) == 0
    assert "held-out" in capsys.readouterr().out


def test_the_demonstration_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    assert main(["demo", "--output", str(file), "--hidden", "2", "--epochs", "1"]) == 1
    assert str(file) in capsys.readouterr().err
    assert main(["demo", "--output", str(tmp_path), "--hidden", "0"]) == 2
    assert "--hidden" in capsys.readouterr().err


def test_the_demonstration_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", str(tmp_path), "--hidden", "2", "--epochs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epochs"] == 1
    assert sorted(found["files"]) == sorted(str(path) for path in tmp_path.iterdir())
    assert found["files"][-1] == str(tmp_path / "digits.html")
