"""The command `explore`: a page that shows a model and infers in the browser."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..core.exceptions import FgrnError
from ..files.formats import FORMATS, READ_ONLY
from . import input_files, networks, output_files, shared_options, terminal
from .terminal import print_text

EXAMPLES = """\b
Examples
  fgrn explore alarm.bif
  fgrn explore people.fgrn -o people.html
  fgrn explore people.fgrn people.csv --serve"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@click.argument("data", required=False)
@click.option(
    "-o", "--output", metavar="FILE", help="The page to write, an .html file. [MODEL's name with .html, in this folder]"
)
@click.option("--title", help="Title of the page. [the name of MODEL]")
@click.option(
    "--serve", is_flag=True, help="Serve the page on this machine only, with inference in Python; for large models."
)
@networks.format_option("from", "MODEL", (*FORMATS, *READ_ONLY))
@shared_options.rescale_option
@shared_options.json_option
def explore(
    model: str,
    data: str | None,
    output: str | None,
    title: str | None,
    serve: bool,
    from_: str | None,
    rescale: bool,
    as_json: bool,
) -> None:
    """Write a page on which evidence is set by clicks and beliefs are updated.

    MODEL is a file written by `fgrn fit` or `save`, or a BIF, XMLBIF, Hugin NET, XDSL or UAI file. The page is one HTML
    file that infers in the browser: it needs no server, no network and no installation, and can be mailed. A model that
    is too large for that is shown with --serve: the page is then at an address of this machine, until Ctrl-C. DATA,
    with --serve, is a CSV, TSV or Parquet file of any size whose rows the page walks through.
    """
    name = Path(model.removesuffix(".gz")).stem
    if serve and output is not None:
        raise click.UsageError("--serve writes no file: leave out -o, or leave out --serve.")
    if data is not None and not serve:
        raise click.UsageError("DATA is read by Python: add --serve, or open the file on the page.")
    if serve:
        _serve(_load_model(model, from_, rescale), title or name, model, data, as_json)
    else:
        place = output or f"{name}.html"
        output_files.check_place(place, "a page, such as page.html")
        output_files.check_other(place, {"MODEL": model})
        if output is None:
            _check_page_is_of(model, place)
        _write(_load_model(model, from_, rescale), place, title or name, model, as_json)


def _check_page_is_of(model: str, place: str) -> None:
    """Raise an error if a file that nobody named would be replaced, and is not a page of the same model file."""
    from ..page.page import source_of_page

    if not Path(place).exists():
        return
    source = source_of_page(place)
    if source and Path(source).absolute() == Path(model).absolute():
        return
    was = f"was made from {source!r}" if source else f"was not made from {model!r}"
    raise click.UsageError(
        f"{place!r} {was}, and the page of {model!r} would replace it. Name another file with -o, or the same file "
        "to replace it."
    )


def _write(model: Any, place: str, title: str, source: str, as_json: bool) -> None:
    """Write the page of a model, and report it."""
    from ..page.page import explore as explored

    page = explored(model, place, title=title, source=source)
    if as_json:
        terminal.print_json({"written": place, "bytes": page.size})
    else:
        print_text(f"written: {place} ({page.size / 1000:,.0f} kB); open it in a browser", err=True)


def _serve(model: Any, title: str, source: str, data: str | None, as_json: bool) -> None:
    """Serve the page of a model until the user interrupts it."""
    from ..page.disk_rows import RowsOnDisk
    from ..page.server import server_of

    rows = None if data is None else RowsOnDisk(data)
    server, address = server_of(model, title, source, rows=rows)
    with server:
        if as_json:
            terminal.print_json({"address": address})
        else:
            print_text(f"open {address} in a browser; Ctrl-C ends it", err=True)
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _load_model(path: str, format: str | None, rescale: bool) -> Any:
    from .. import load
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..graph.chain import Chain

    if not path.endswith(".fgrn") or networks.is_network(path):
        return networks.model_of(path, format, rescale)
    networks.check_own_format(path, format, rescale)
    model = load(path)
    if isinstance(model, DynamicBayesianNetwork):
        raise FgrnError(
            f"A page shows no dynamic network, which {path!r} holds.", remedies=str(input_files.use_of(path, model))
        )
    if isinstance(getattr(model, "network_", model), Chain):
        raise FgrnError(
            f"A page shows one row, and {path!r} holds a model of sequences of rows.",
            remedies=input_files.use_of(path, model)
            or "draw it with `fgrn draw`, or see its states with `fgrn prototypes`",
        )
    if hasattr(model, "mixture_"):
        raise FgrnError(
            f"A page shows one network, and {path!r} holds a mixture of trees that share tables.",
            remedies="draw it with `fgrn draw`, or fit one tree, with a number of states such as `--hidden 3`",
        )
    return model
