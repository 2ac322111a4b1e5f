"""The documentation: its code runs and prints what the pages show, and the reference has every public name."""

from __future__ import annotations

import difflib
import json
import re
import sys
from pathlib import Path

import pytest

import fgrn
from fgrn import plots
from fgrn.cli import COMMANDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STANDARD_WORDS = {
    "howto/missing-values.md": ["missing values", "missing at random", "impute"],
    "howto/complete.md": ["imputation", "impute", "multiple imputation"],
    "howto/sequences.md": ["hidden Markov model", "Viterbi", "decode", "forward-backward", "Baum-Welch"],
    "howto/classify.md": ["calibration", "calibrated", "class profile"],
    "howto/networks.md": ["junction tree", "clique", "belief propagation"],
    "howto/smoothing-and-starts.md": ["initialisation", "pseudo-count", "converge"],
    "howto/how-many-states.md": ["latent class analysis", "model selection", "cross-validation"],
    "coming/stepmix.md": ["latent class analysis", "item-response probabilities"],
}
"""The words of the field that a reader may search for, and the page that has to have them."""


outputs = None
if DOCS.is_dir():
    sys.path.append(str(DOCS))
    import outputs
PAGES = outputs.pages() if outputs else []
REFERENCE = [page for page in PAGES if page.startswith("reference/") and page != "reference/index.md"]


@pytest.fixture(autouse=True)
def beside() -> None:
    if outputs is None:
        pytest.skip("the documentation is not beside these tests")


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if outputs.FENCE.search(read(page))] or ["index.md"])
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", outputs.COLUMNS)  # and as it was before, afterwards
    for ran in outputs.run(read(page), page):
        if ran.span is not None and not outputs.same(ran.shown, ran.real):
            change = "\n".join(difflib.ndiff(ran.shown.splitlines(), ran.real.splitlines()))
            pytest.fail(f"{page}, line {ran.line} (make outputs writes it anew):\n{change}", pytrace=False)


def test_a_page_may_have_no_code() -> None:
    assert list(outputs.run("# A list of pages\n", "a page")) == []


def test_outputs_are_compared_by_words_and_to_the_last_digit() -> None:
    assert outputs.same("accuracy 61.3% of 300\n", "accuracy  61.4% of 300")
    assert not outputs.same("accuracy 61.3% of 300", "accuracy 61.5% of 300")
    assert not outputs.same("accuracy 61.3% of 300", "accuracy 61.3% of 301")
    assert not outputs.same("{'no': 0.2}", "{'yes': 0.2}")
    assert outputs.same("[1.25e-03 -2.]", "[1.26e-03 -2.]")
    assert not outputs.same("[1.25e-03]", "[1.27e-03]")
    assert outputs.same("0.11198346090423568", "0.11198346090423512")


def test_an_output_is_written_below_its_block_and_keeps_its_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", outputs.COLUMNS)
    page = (
        "```python\nx = 2\nprint(x)\nx + 1\n```\n\n```text\n```\n\n```python\nfor i in range(9):\n    print(i)\n```\n"
    )
    page += "\n```text\nold\n...\nold\nold\n```\n\n```console\n$ fgrn --version\nold\n```\n\n```python\nx\n```\n"
    new = outputs.rewritten(page, "a page")
    assert "```text\n2\n3\n```" in new
    assert "```text\n0\n...\n7\n8\n```" in new
    assert re.search(rf"```console\n\$ fgrn --version\n.*{re.escape(fgrn.__version__)}\n```", new)
    assert new.endswith("```python\nx\n```\n")
    assert outputs.rewritten(new, "a page") == new


def test_the_reference_has_every_public_name_once() -> None:
    named = [name for page in REFERENCE for name in re.findall(r"^\.\. auto\w+:: fgrn\.([\w.]+)", read(page), re.M)]
    assert len(named) == len(set(named))
    assert {name for name in fgrn.__all__ if name != "__version__"} <= set(named)
    assert {f"plots.{name}" for name in plots.__all__} <= set(named)


@pytest.mark.parametrize("page", REFERENCE or ["reference/index.md"])
def test_a_page_of_the_reference_has_an_example_with_its_output(page: str) -> None:
    assert re.search(r"^```text\n.+?^```$", read(page), re.M | re.S)
    assert f"({page.removeprefix('reference/')})" in read("reference/index.md")


@pytest.mark.parametrize("page", STANDARD_WORDS)
def test_a_page_has_the_words_of_the_field(page: str) -> None:
    text = " ".join(read(page).lower().split())
    assert [word for word in STANDARD_WORDS[page] if word.lower() not in text] == []


def test_the_page_on_the_command_line_has_every_command() -> None:
    assert set(re.findall(r"^### `fgrn (\w+)`$", read("command-line.md"), re.M)) == set(COMMANDS)


def test_the_gallery_has_every_picture() -> None:
    text = read("gallery.md")
    sections = re.findall(r"^!\[.*\]\(_pictures/([\w-]+)\.svg\)$", text, re.M)
    assert {name for name in plots.__all__ if name != "save"} <= set(sections)
    thumbnails = re.findall(r"^:img-top: _pictures/([\w-]+)\.svg$", text, re.M)
    assert {name for name in plots.__all__ if name != "save"} <= set(thumbnails)


def test_the_page_on_speed_has_the_figures_that_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import measure, report

    page = tmp_path / "speed.md"
    page.write_text(read("speed.md"), encoding="utf-8")
    report.fill(page, *measure.read(ROOT / "benchmarks" / "results.json"))
    assert page.read_text(encoding="utf-8") == read("speed.md")


def test_the_page_on_inference_has_the_figures_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import inference

    figures = json.loads(inference.FIGURES.read_text(encoding="utf-8"))
    assert inference.page(figures, read("inference.md")) == read("inference.md")
