"""Output in notebooks, with a real kernel: pictures without magics, and progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="notebooks need ipykernel, of the extra `test`")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of the kernel's own libraries

SETUP = """
import fgrn
from fgrn import plots
rows = {"a": [0, 1, 1, 0, 1, 0] * 4, "b": [0, 1, 0, 0, 1, 1] * 4}
settings = dict(n_epochs=7, n_init=2, tol=0, random_state=0, engine="reference", verbose=1)
"""
Run = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Executes a cell and returns its outputs."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(startup_timeout=120)

    def cell(code: str) -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = []

        def keep(message: dict[str, Any]) -> None:
            if message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                outputs.append({"kind": message["msg_type"], **message["content"]})

        reply = client.execute_interactive(code, output_hook=keep, timeout=120)
        assert reply["content"]["status"] == "ok", outputs
        return outputs

    try:
        cell(f"import sys\nsys.path[:] = {sys.path!r}\n{SETUP}")
        yield cell
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def pictures(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["data"] for one in outputs if "image/png" in one.get("data", {})]


def said(outputs: list[dict[str, Any]]) -> str:
    return "".join(one["text"] for one in outputs if one["kind"] == "stream")


def test_a_picture_is_shown_as_it_is_once_and_without_a_magic(run: Run) -> None:
    for code in ("plots.confusion([0, 1], [0, 1])", "plots.network(fgrn.lvm({'a': 2, 'b': 2}, hidden=2))"):
        outputs = run(code)
        assert [one["kind"] for one in outputs] == ["execute_result"]
        (picture,) = pictures(outputs)
        assert picture["image/png"].startswith("iVBOR")  # PNG in base64
        assert len(picture["image/png"]) > 4000
    assert run("'matplotlib.pyplot' in sys.modules")[0]["data"]["text/plain"] == "False"
    assert not run("figure = plots.confusion([0], [0])")


def test_learning_tells_how_far_it_has_come(run: Run) -> None:
    outputs = run("fgrn.LatentClassModel(2, **settings).fit(rows);")
    assert {one["kind"] for one in outputs} == {"stream"}
    last = said(outputs).rstrip().splitlines()[-1].split("\r")[-1]
    assert last.startswith("learning: start 2 of 2, epoch 7 of at most 7, log-likelihood -")
    assert said(outputs).endswith("\n")
    assert not run("settings['verbose'] = 0; model = fgrn.LatentClassModel(2, **settings).fit(rows)")


def test_reading_tells_how_far_it_has_come(run: Run) -> None:
    code = """
    from fgrn.core.progress import ReadingProgress
    for verbose in (0, 1):
        with ReadingProgress(verbose) as told:
            told("rows read", 5, 0)
            told("rows read", 1234, 0)
            told.note("two files")
            told("looking at columns", 1, 2)
            told("looking at columns", 2, 2)
    """
    lines = [line.split("\r")[-1].rstrip() for line in said(run(dedent(code))).rstrip().split("\n")]
    assert lines == ["1,234 rows read", "two files", "looking at columns: 2 of 2"]


def test_with_the_inline_backend_a_picture_is_still_shown_once(run: Run) -> None:
    run("%matplotlib inline")
    assert len(pictures(run("plots.confusion([0, 1], [0, 1])"))) == 1
    outputs = run("import matplotlib.pyplot as plt\nplots.confusion([0, 1], [0, 1], ax=plt.figure().add_subplot());")
    assert len(pictures(outputs)) == 1
