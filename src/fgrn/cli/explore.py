"""The command `explore`: a page that shows a model and infers in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..files.formats import FORMATS, READ_ONLY
from . import common, networks
from .wording import say


@click.command(epilog="\b\nExamples\n  fgrn explore alarm.bif\n  fgrn explore people.fgrn -o people.html")
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", help="The page, an .html file; else MODEL's name with .html, here.")
@click.option("--title", help="Over the page; else the name of MODEL.")
@networks.format_option("from", "MODEL", (*FORMATS, *READ_ONLY))
@common.rescale_option
@common.json_option
def explore(model: str, output: str | None, title: str | None, from_: str | None, rescale: bool, as_json: bool) -> None:
    """Write a page on which evidence is set with a click and beliefs follow.

    MODEL is a file written by `fgrn fit` or `save`, or a BIF, XMLBIF, Hugin NET, XDSL or UAI file. The page is one HTML
    file that infers in the browser: it needs no server, no network and no installation, and can be mailed.
    """
    from .. import explore as explored

    name = Path(model.removesuffix(".gz")).stem
    place = output or f"{name}.html"
    common.check_place(place, "a page, such as page.html")
    common.check_other(place, {"MODEL": model})
    page = explored(_loaded(model, from_, rescale), place, title=title or name, source=model)
    if as_json:
        common.as_json({"written": place, "bytes": page.size})
    else:
        say(f"written: {place} ({page.size / 1000:,.0f} kB); open it in a browser", err=True)


def _loaded(path: str, format: str | None, rescale: bool) -> Any:
    from .. import load

    return load(path) if path.endswith(".fgrn") else networks.model_of(path, format, rescale)
