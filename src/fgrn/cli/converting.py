"""The command `convert`: a network in the format of another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..core.exceptions import counted, visible
from ..files.formats import EXTENSIONS, FORMATS, READ_ONLY, RESCALE
from . import output_files, shared_options, terminal
from .networks import any_model_of, check_own_format, ending, format_option
from .terminal import print_text

if TYPE_CHECKING:
    from ..bayes.bayesian import BayesianNetwork


@click.command(epilog="\b\nExamples\n  fgrn convert alarm.bif alarm.xdsl\n  fgrn convert alarm.net.gz alarm.uai")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@format_option("from", "IN", (*FORMATS, *READ_ONLY))
@format_option("to", "OUT", FORMATS)
@shared_options.rescale_option
@shared_options.json_option
def convert(source: str, target: str, from_: str | None, to_: str | None, rescale: bool, as_json: bool) -> None:
    """Write a network in the format of another program.

    IN and OUT are BIF, XMLBIF, Hugin NET, XDSL or UAI files, gzipped where the name ends in .gz; IN may also be a DSC,
    DNE or flat OOBN file, or a model file (.fgrn) with a network: a dynamic network is written as two slices, in which
    x0 is x in the first slice and xt in a later one. Numbers stay the same to the last bit, unless a row has to be
    divided by its sum. A name that a format cannot represent is an error; properties that it cannot represent are left
    out and reported.
    """
    from ..files.formats import read_document, write_document

    if to_ is None and ending(target) not in EXTENSIONS:
        ends = ", ".join(EXTENSIONS)
        raise click.UsageError(
            f"OUT is {target!r}: its format must be given by the extension of its name ({ends}), or by --to."
        )
    output_files.check_other(target, {"IN": source}, "OUT")
    check_own_format(source, from_, rescale)
    if source.endswith(".fgrn"):
        document = (_two_slices(source) or any_model_of(source)).to_document()
    else:
        document = read_document(source, from_, rescale=rescale or RESCALE)
    write_document(document, target, to_)
    back = read_document(target, to_)
    lost = []
    if list(back.states.items()) != list(document.states.items()):
        lost.append("names and labels: there variables are x0, x1, ..., and states 0, 1, ..., in the same order")
    if document.name and back.name != document.name:
        lost.append(f"the name of the network, {document.name!r}")
    gone = sum(
        back.properties.get(name, {}).get(key) != value
        for name, some in document.properties.items()
        for key, value in some.items()
    )
    if gone:
        lost.append(f"{gone:,} {'property' if gone == 1 else 'properties'}")
    if as_json:
        terminal.print_json(
            {"written": target, "variables": len(document.states), "tables": len(document.factors), "left_out": lost}
        )
        return
    print_text(
        f"written: {target} ({counted(len(document.states), 'variable')}, {counted(len(document.factors), 'table')})",
        err=True,
    )
    for one in lost:
        print_text(visible(f"left out: {one}"), err=True)


def _two_slices(path: str) -> BayesianNetwork | None:
    """Return the network of two slices of a dynamic network in a model file; None for another model."""
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..files.model_file import load

    model = load(path)
    return model.two_slices() if isinstance(model, DynamicBayesianNetwork) else None
