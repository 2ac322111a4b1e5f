"""What the README shows runs, and the demonstration does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fgrn
from fgrn import demo

README = Path(__file__).parents[1] / "README.md"


def test_the_code_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not README.is_file():
        pytest.skip("the README is not beside these tests")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 3
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    belief = namespace["seen"].belief("asbestos")
    assert {state: round(share, 2) for state, share in belief.items()} == {0: 0.27, 1: 0.73}
    completed = fgrn.load("flu.fgrn").complete(namespace["table"])
    assert completed["fever"].tolist()[4] == "high"
    assert completed["cough"].tolist()[6] == "yes"
    assert fgrn.load("flu.fgrn").classify({"cough": ["yes"], "fever": [None]}, "flu").tolist() == ["yes"]


def test_the_demonstration_learns_compares_draws_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    assert demo.main(["--output", str(tmp_path / "pictures"), "--hidden", "40", "--epochs", "15"]) == 0
    said = capsys.readouterr().out
    ours, theirs = (float(share) for share in re.findall(r"(\d+\.\d)%", said))
    assert ours > theirs > 80
    for name in ("prototypes.png", "completed.png"):
        picture = tmp_path / "pictures" / name
        assert str(picture) in said
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_demonstration_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    file = tmp_path / "file"
    file.write_text("in the way")
    assert demo.main(["--output", str(file), "--hidden", "2", "--epochs", "1"]) == 1
    assert str(file) in capsys.readouterr().err
    assert demo.main(["--output", str(tmp_path), "--hidden", "0"]) == 1
    assert "at least one state" in capsys.readouterr().err


def test_digits_are_quantised_to_whole_shades() -> None:
    pytest.importorskip("sklearn")
    images, digits = demo._digits()
    assert images.shape == (1797, 64)
    assert set(np.unique(images)) == {0, 1, 2, 3}
    assert set(digits) == set(range(10))
