"""The command `search`: find a Bayesian network in a table, and write it to a file."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.exceptions import FgrnError, LearningError, counted, nearest, shortened, visible
from ..files.formats import EXTENSIONS
from . import input_files, networks, output_files, shared_options, terminal
from .compiling import compile_for_table
from .signals import Stop, stoppable
from .terminal import print_message, print_text
from .without_effect import refuse_without_effect

if TYPE_CHECKING:
    from ..bayes.arc_confidence import ArcConfidence
    from ..bayes.bayesian import BayesianNetwork

SEARCH_OPTIONS = (
    "score", "method", "required", "forbidden", "roots", "max_parents", "restarts", "alpha", "equivalent_size",
    "smoothing", "seed", "held_out", "rounds", "draws",
)  # fmt: skip
"""Options that are handed on to `fgrn.search` by their names."""

PATHS = ("hill_climbing", "tabu", "order")
"""Methods that go from one structure to a better one, so that an interrupted search has found something."""


@click.command(epilog="\b\nExamples\n  fgrn search people.csv -o people.bif\n"
               "  fgrn search people.csv --tier age,sex --tier income --forbidden 'sex>age'\n"
               "  fgrn search people.csv --score bdeu --method exact\n"
               "  fgrn search people.csv --confidence 100 --picture arcs.svg")  # fmt: skip
@click.argument("data")
@click.option("-o", "--output", metavar="FILE",
              help="Write the network: .fgrn, or BIF, XMLBIF, NET, XDSL or UAI by its name.")  # fmt: skip
@click.option("--score", type=click.Choice(["bic", "aic", "bdeu", "k2", "log_likelihood"]), default="bic",
              show_default=True, help="The score of a structure; log_likelihood is that of held-out rows.")  # fmt: skip
@click.option("--method", type=click.Choice(["hill_climbing", "tabu", "order", "exact", "pc"]),
              default="order", show_default=True,
              help="order: over orders of the columns, after hill climbing and a tabu search; exact: the best of all "
                   "structures, of up to 20 columns; pc: by tests of independence.")  # fmt: skip
@click.option("--alpha", type=shared_options.FiniteRange(0, 1, max_open=True), default=0.05, show_default=True,
              metavar="P", help="For pc: columns are independent above this p-value.")  # fmt: skip
@click.option(
    "--required", multiple=True, metavar="ARC", help="An arc that must be there, 'PARENT>CHILD' in quotes. Repeatable."
)
@click.option(
    "--forbidden", multiple=True, metavar="ARC", help="An arc that must not be there, in the same form. Repeatable."
)
@click.option("--tier", "tiers", multiple=True, metavar="A,B,...",
              help="Columns, causes first: no arc leads from a later tier to an earlier one. Repeatable.")  # fmt: skip
@click.option("--root", "roots", multiple=True, metavar="COLUMN", help="A column without parents. Repeatable.")
@click.option(
    "--max-parents", type=click.IntRange(0), metavar="NUMBER", help="The largest number of parents of a column."
)
@click.option("--start", metavar="NETWORK", help="A file with a network whose arcs the search starts from.")
@click.option("--restarts", type=click.IntRange(0), metavar="NUMBER",
              help="Number of restarts from the best structure after random moves. [order: up to 8, others: 0]",
              )  # fmt: skip
@click.option("--equivalent-size", type=shared_options.FiniteRange(0, min_open=True), default=1.0, show_default=True,
              help="The equivalent sample size of bdeu.")  # fmt: skip
@click.option("--smoothing", type=shared_options.FiniteRange(0, shared_options.MOST_SMOOTHING), default=1.0,
              show_default=True, metavar="COUNT", help="Count added to every cell of every table.")  # fmt: skip
@click.option("--held-out", type=shared_options.FiniteRange(0, 1, min_open=True, max_open=True), default=0.2,
              show_default=True, metavar="SHARE", help="The share of rows that log_likelihood holds out.")  # fmt: skip
@click.option("--hidden", multiple=True, metavar="NAME=STATES",
              help="A hidden variable and its number of states; connect it by --required arcs. "
                   "Repeatable.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True,
              help="With missing values: the most rounds of structural EM.")  # fmt: skip
@click.option("--draws", type=click.IntRange(1), default=10, show_default=True,
              help="With missing values: the number of draws in a round.")  # fmt: skip
@click.option("--confidence", type=click.IntRange(1), metavar="SAMPLES",
              help="Search in this number of bootstrap samples, and then in all rows, among the arcs in half "
                   "of the samples.")  # fmt: skip
@click.option("--picture", metavar="FILE", help="Also draw it, to this file (.svg, .png, .pdf).")
@shared_options.schema
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@shared_options.reading
@shared_options.json_option
def search(data: str, output: str | None, tiers: tuple[str, ...], start: str | None, hidden: tuple[str, ...],
           confidence: int | None, picture: str | None, bins: int, max_levels: int, as_json: bool,
           **options: Any) -> None:  # fmt: skip
    """Find a Bayesian network in a table: which columns depend on which, and the tables.

    DATA is a CSV, TSV or Parquet file, or a folder or a 'glob*' of such. Columns with many distinct numbers are put in
    bins. Missing values are averaged over (structural EM), in rounds: --method exact is exact within a round only, and
    --method pc refuses them. Ctrl-C ends a search with the best network found so far, which is written; with
    --confidence, that of the samples which were finished.
    """
    output_files.check_picture(picture)
    method, score = options["method"], options["score"]
    refuse_without_effect(
        ("alpha", method == "pc", "--method pc"),
        ("restarts", method in PATHS, "--method hill_climbing, tabu and order"),
        ("start", method != "pc", "methods that search for the best score"),
        ("equivalent_size", score == "bdeu", "--score bdeu"),
        ("held_out", score == "log_likelihood", "--score log_likelihood"),
    )
    if output:
        output_files.check_place(output, "a network, such as people.bif")
        output_files.check_other(output, {"DATA": data})
        if Path(output.removesuffix(".gz")).suffix.lower() not in (*EXTENSIONS, ".fgrn"):
            raise click.UsageError(
                f"-o is {output!r}: the extension of its name must be that of a format: .fgrn, {', '.join(EXTENSIONS)}."
            )
    compile_for_table(data, "families")
    from ..bayes.arc_confidence import arc_confidence
    from ..bayes.structure_search import search as search_table
    from ..core.progress import ReadingProgress
    from ..tables.schema import Schema

    how = {name: options.pop(name) for name in SEARCH_OPTIONS}
    how["start"] = None if start is None else _arcs_of(start)
    table = input_files.read(data, **options)
    input_files.check_finite(table, data)
    schema = Schema.infer(table, bins=bins, max_levels=max_levels, keep_empty=True)
    codes, states = schema.codes(table), schema.states
    how["hidden"] = dict(_hidden(text) for text in hidden)
    if not hidden and all((column.codes >= 0).all() for column in codes.values()):
        for option in filter(shared_options.is_given, ("rounds", "draws")):
            print_message(f"--{option} has no effect: no value is missing, and no variable hidden.")
    names = [*states, *how["hidden"]]
    for name in ("required", "forbidden"):
        how[name] = [_arc(name, text, names) for text in how[name]]
    how["tiers"] = [_columns(text, names) for text in tiers] or None
    free = [name for name in names if len(tiers) > 1 and not any(name in tier for tier in how["tiers"])]
    if free:
        print_message(f"in no --tier, so that their arcs may have any direction: {shortened(map(repr, free))}.")
    path = how["method"] in PATHS
    signals = stoppable("move" if path else "sample") if path or confidence is not None else nullcontext(Stop())
    with ReadingProgress(not as_json) as reporter, signals as stopped:
        moves = count(1)

        def watch(*_: Any) -> bool:
            reporter("moves", next(moves), 0)
            return stopped()

        how["watch"] = watch
        try:
            sure = None if confidence is None else arc_confidence(codes, confidence, states=states, **how)
        except LearningError as error:
            if stopped():  # in the first sample: there is nothing to write
                print_message(error)
                stopped.end()
            raise
        network = search_table(codes, states=states, **how) if sure is None else sure.network()
    if output:
        _write_network(network, output)
    if picture:
        from .. import plots

        plots.save(plots.graph(network, strength=sure), picture)
    _tell_found(network, sure, [one for one in (output, picture) if one], as_json, _so_far(sure, confidence, stopped()))
    stopped.end()


def _so_far(sure: ArcConfidence | None, samples: int | None, interrupted: bool) -> str:
    """Report the result of an interrupted search; nothing for a complete one."""
    if not interrupted:
        return ""
    if sure is None:
        return "this is the best network found so far"
    if sure.samples == samples:
        return f"after the last of {counted(sure.samples, 'sample')}, so that nothing is missing"
    return f"the confidences were not finished, and are those of {sure.samples:,} of {samples:,} samples"


def _hidden(text: str) -> tuple[str, int]:
    """Return the name of a hidden variable and its number of states, from NAME=STATES."""
    name, sign, states = text.rpartition("=")
    if not (name and sign and states.isdecimal() and int(states) > 0):
        raise click.UsageError(f"--hidden is NAME=STATES, such as --hidden type=3. Got {text!r}.")
    return name, int(states)


def _arcs_of(path: str) -> tuple[tuple[str, str], ...]:
    """Return the arcs of the network in a file."""
    from ..bayes.bayesian import BayesianNetwork

    model = networks.model_of(path)
    if not isinstance(model, BayesianNetwork):
        raise FgrnError(f"--start is {path!r}, in which no arcs are: give a Bayesian network.")
    return model.arcs


def _arc(option: str, text: str, names: list[str]) -> tuple[str, str]:
    """Return the two columns of PARENT>CHILD or PARENT->CHILD; names that are known may contain these signs."""
    places = [at for at, letter in enumerate(text) if letter == ">"]
    splits = [(text[:at], text[at + 1 :]) for at in places]
    splits += [(parent[:-1], child) for parent, child in splits if parent.endswith("-")]
    splits += [(parent.strip(), child.strip()) for parent, child in splits]
    arcs = list(dict.fromkeys(arc for arc in splits if set(arc) <= set(names)))
    if len(arcs) > 1:
        meanings = " or ".join(f"from {parent!r} to {child!r}" for parent, child in arcs)
        raise click.UsageError(f"--{option} {text!r} may be the arc {meanings}. Rename a column.")
    if arcs:
        return arcs[0]
    if len(places) != 1:
        several = "one arc, " if places else ""
        raise click.UsageError(f"--{option} is {several}PARENT>CHILD, in quotes for a shell. Got {text!r}.")
    wrong = next(name for name in splits[-1] if name not in names)
    raise LearningError(f"there is no column {wrong!r} here. {nearest(wrong, names)}", file=f"--{option} {text}")


def _columns(text: str, names: list[str]) -> list[str]:
    """Return the columns of a comma-separated list; a name that contains a comma must be the only one."""
    return [text] if text in names else [part.strip() for part in text.split(",")]


def _write_network(network: BayesianNetwork, path: str) -> None:
    from .. import write

    if path.endswith(".fgrn"):
        network.save(path)
    else:
        write(network, path)


def _tell_found(
    network: BayesianNetwork, sure: ArcConfidence | None, written: list[str], as_json: bool, interrupted: str
) -> None:
    """Print the arcs, the score, what was interrupted (empty: nothing), and the file written."""
    record = network.search_record
    arcs: list[dict[str, Any]] = [{"parent": parent, "child": child} for parent, child in network.arcs]
    found: dict[str, Any] = {"variables": len(network.names), "arcs": arcs, "parameters": network.free_parameters}
    if sure is not None:
        found |= {"samples": sure.samples, "interrupted": bool(interrupted)}
        for arc in arcs:
            one = sure.arc(arc["parent"], arc["child"])
            arc |= {"strength": one.strength, "direction": one.direction}
    if record is not None:
        found |= {"score": record.score, "score_name": record.rule.name, "moves": len(record.moves),
                  "rounds": len(record.rounds), "interrupted": bool(interrupted)}  # fmt: skip
    if as_json:
        terminal.print_json({**found, "written": written})
        return
    averaged = ""
    if record is not None and record.rounds:
        averaged = f"; missing values averaged over in {counted(len(record.rounds), 'round')} of structural EM"
        averaged += ", each of which is exact, the whole is not" if record.method == "exact" else ""
    scored = "" if record is None else f"; {record.rule.name} score {record.score:,.2f} (larger is better)"
    print_text(visible(f"{counted(len(network.names), 'column')}, {counted(len(arcs), 'arc')}, "
                f"{counted(network.free_parameters, 'free parameter')}"
                + scored + averaged))  # fmt: skip
    if interrupted:
        print_text(f"interrupted: {interrupted}")
    heads = ["column", "depends on"] if sure is None else ["parent", "child", "strength", "direction"]
    rows = (
        [[name, ", ".join(network.parents(name)) or "-"] for name in network.names]
        if sure is None
        else [[arc["parent"], arc["child"], f"{arc['strength']:.2f}", f"{arc['direction']:.2f}"] for arc in arcs]
    )
    print_text(terminal.aligned(heads, rows, left=2))
    for path in written:
        output_files.confirm(path)
