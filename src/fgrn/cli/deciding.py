"""The command `solve`: the best decisions of an influence diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..core.exceptions import FgrnError, visible
from ..files.formats import FORMATS, READ_ONLY
from . import shared_options, terminal
from .given import given_help, known_of
from .networks import any_model_of, costs_of, format_option
from .terminal import print_text

if TYPE_CHECKING:
    from ..bayes.influence import InfluenceDiagram


@click.command(epilog="\b\nExamples\n  fgrn solve oil.xdsl\n  fgrn solve oil.xdsl --given Test=positive\n"
               "  fgrn solve oil.net --voi Drill --cost Seismic=10  (what to learn first)")  # fmt: skip
@click.argument("diagram")
@click.option("--given", "given", multiple=True, metavar="NAME=STATE", help=given_help)
@click.option(
    "--voi",
    metavar="DECISION",
    help="Value of information: what it is worth to know each variable before this decision.",
)
@click.option("--cost", "costs", multiple=True, metavar="NAME=NUMBER",
              help="With --voi: what observing a variable costs, in units of utility. Repeatable.")  # fmt: skip
@click.option("--limited-memory", is_flag=True,
              help="Each decision knows only its own parents, and forgets earlier information (LIMID).")  # fmt: skip
@format_option("from", "DIAGRAM", (*FORMATS, *READ_ONLY))
@shared_options.rescale_option
@shared_options.json_option
def solve(
    diagram: str, given: tuple[str, ...], voi: str | None, costs: tuple[str, ...], limited_memory: bool,
    from_: str | None, rescale: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find the best decisions of an influence diagram: the policy of each, and the expected utility.

    DIAGRAM is an XDSL, Hugin NET or .fgrn file with decisions and utilities. What is --given is known before all
    decisions; a decision that is given has been made already.
    """
    model = _diagram_of(diagram, from_, rescale)
    known: Any = known_of(model, given) or None
    if voi and limited_memory:
        raise click.UsageError("--voi supposes that nothing is forgotten: leave out --limited-memory.")
    if voi:
        found = model.value_of_information(voi, known, costs=costs_of(model, costs))
        if as_json:
            terminal.print_json([one._asdict() for one in found])
            return
        rows = [[one.name, f"{one.gain:.6g}", f"{one.cost:.6g}", f"{one.value:.6g}"] for one in found]
        print_text(
            terminal.aligned(["variable", "gain", "cost", "value"], rows) if rows else "all is known, or known too late"
        )
        return
    if costs:
        raise click.UsageError("--cost goes with --voi.")
    solution = model.solve(known, limited_memory=limited_memory)
    if as_json:
        policies = {name: one.as_dicts() for name, one in solution.policies.items()}
        told = {"expected_utility": solution.expected_utility, "exact": solution.exact, "policies": policies}
        terminal.print_json(told)
        return
    print_text(visible(str(solution), lines=True))


def _diagram_of(path: str, format: str | None, rescale: bool) -> InfluenceDiagram:
    from ..bayes.influence import InfluenceDiagram

    model = any_model_of(path, format, rescale)
    if not isinstance(model, InfluenceDiagram):
        raise FgrnError(f"{path!r} has no decisions and no utilities. Ask it with `fgrn query`.")
    return model
