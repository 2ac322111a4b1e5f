"""The documentation: what its pages show runs, and nothing public is left out of the reference."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import fgrn
from fgrn import plots
from fgrn.cli import COMMANDS, main

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "_pictures" not in path.parts)


def read(page: str) -> str:
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside these tests")
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES or ["index.md"])
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = read(page)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page}
    for block in BLOCK.finditer(text):
        kind, code = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        if kind == "python":  # as far down as on the page, so that a traceback names the line
            exec(compile("\n" * line + code, str(DOCS / page), "exec"), namespace)
        elif kind == "console":
            for command in re.findall(r"^\$ fgrn (.*)$", code, re.M):
                assert main(shlex.split(command)) == 0, f"{page}, line {line}: fgrn {command}"


def test_the_reference_has_every_public_name() -> None:
    text = read("reference.md")
    named = set(re.findall(r"^\.\. auto\w+:: fgrn\.([\w.]+)$", text, re.M))
    assert {name for name in fgrn.__all__ if name != "__version__"} <= named
    assert {f"plots.{name}" for name in plots.__all__} <= named


def test_the_page_on_the_command_line_has_every_command() -> None:
    text = read("command-line.md")
    assert set(re.findall(r"^### `fgrn (\w+)`$", text, re.M)) == set(COMMANDS)


def test_the_gallery_has_every_picture() -> None:
    text = read("gallery.md")
    assert {name for name in plots.__all__ if name != "save"} <= set(re.findall(r"_pictures/(\w+)\.svg", text))
