"""Commands that report on a learnt model: `report`, with standard errors and tests of fit, and `prototypes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..core import printing
from ..core.exceptions import FgrnError, SchemaError, counted, shortened
from ..core.whole_file import reason_of, write_whole
from . import input_files, model_rows, output_files, shared_options, terminal
from .terminal import print_message, print_text
from .without_effect import READING, refuse_without_effect

TITLES = {"residuals": "Bivariate residuals", "profile": "Estimates on the boundary"}


@click.command(epilog="\b\nExamples\n  fgrn report types.fgrn\n  fgrn report types.fgrn people.csv --html report.html")
@click.argument("model")
@click.argument("data", required=False)
@click.option("--weights", metavar="COLUMN", help="The column of DATA that holds the weight of each row.")
@click.option("--residuals", is_flag=True, help="Also show the residuals of each pair of items; needs DATA.")
@click.option("--profile", is_flag=True, help="Also show intervals from the profile likelihood of estimates on the "
              "boundary; needs DATA.")  # fmt: skip
@click.option("--html", metavar="FILE", help="Also write the report as an HTML page.")
@shared_options.reading
@shared_options.json_option
def report(
    model: str,
    data: str | None,
    weights: str | None,
    residuals: bool,
    profile: bool,
    html: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Report a latent class analysis: class sizes, item-response probabilities, standard errors, criteria, fit.

    MODEL is a file written by `fgrn fit` without a target. The report is about the training rows, and is
    stored in the file; for a large table it is not, and DATA, the table, is needed: a CSV, TSV or Parquet file, or a
    folder or a 'glob*' of such.
    """
    refuse_without_effect((f"weights {READING}", data is not None, "DATA"))
    if html is not None:
        output_files.check_place(html, "a page, such as report.html", "--html")
        output_files.check_other(html, {"DATA": data, "MODEL": model}, "--html")
    estimator: Any = input_files.estimator(model)
    if not hasattr(estimator, "report"):
        raise FgrnError(
            f"{model!r} is a {type(estimator).__name__}, of which there is no report.",
            remedies=(
                "see its profiles with `fgrn prototypes`",
                "fit clusters, which have a report: `fgrn fit` without --target and --model",
            ),
        )
    table, weight = None, None
    if data is not None:
        table, weight = input_files.weighted(input_files.read_for(estimator, data, **options), weights)
        gone = [name for name in estimator.schema_ if name not in table.column_names]
        if gone:
            raise SchemaError(f"A report needs all items of the model; {shortened(gone)} not in {data!r}.")
        table = model_rows.matching(estimator, table)
    elif residuals or profile:
        option = "--residuals" if residuals else "--profile"
        raise click.UsageError(f"{option} needs DATA, the table: fgrn report MODEL DATA {option}.")
    elif estimator._saved_report is None:
        count = estimator._parameter_count(estimator.network_)
        many = f"the standard errors of {count:,} parameters from {counted(estimator.n_rows_, 'row')} take long"
        why = many if estimator._report_takes_long else "the table was large or came in batches"
        raise FgrnError(
            f"{model!r} does not hold its report, as {why}, and the table that it was learnt from is needed.",
            remedies="give it: fgrn report MODEL DATA",
        )
    found = estimator.report(table, weight)
    more = {"residuals": estimator.bivariate_residuals(table, weight)} if residuals else {}
    more |= {"profile": estimator.profile_intervals(None, table, weight)} if profile else {}
    if found.other_rows and (as_json or html is not None):  # the text begins with it
        print_message(found.other_rows)
    if html is not None:
        _write_page(html, found._repr_html_() + "".join(one._repr_html_() for one in more.values()))
        output_files.confirm(html)
    if as_json:
        terminal.print_json(found.as_dict() | {name: one.as_dicts() for name, one in more.items()})
        return
    print_text(str(found))
    for name, one in more.items():
        print_text(f"\n{TITLES[name]}\n{one}")


def _write_page(place: str, body: str) -> None:
    """Write an HTML page with these tables."""
    text = f'<!doctype html>\n<meta charset="utf-8">\n<title>Latent class analysis</title>\n{body}\n'
    try:
        write_whole(Path(place), text.encode())
    except OSError as error:
        raise FgrnError(f"{place!r} cannot be written: {reason_of(error)}.") from error


@click.command(epilog="\b\nExample\n  fgrn prototypes people.fgrn --picture prototypes.svg")
@click.argument("model")
@click.option(
    "--most", type=click.IntRange(1), default=12, show_default=True, help="Number of values to show for each."
)
@click.option("--picture", metavar="FILE", help="Also draw them, to this file (.svg, .png, .pdf).")
@shared_options.json_option
def prototypes(model: str, most: int, picture: str | None, as_json: bool) -> None:
    """Show the profile of each class or cluster: values more frequent there than in the baseline, largest effect first.

    The baseline is the distribution of a column over all of them, weighted by their shares. Of continuous columns the
    mean and the standard deviation are shown. MODEL is a file written by `fgrn fit`.
    """
    refuse_without_effect(("most", not as_json, "text, not JSON"))
    output_files.check_picture(picture)
    estimator = input_files.estimator(model)
    found = getattr(estimator, "prototypes_", None)
    if found is None:
        raise FgrnError(f"{model!r} is a {type(estimator).__name__}, which has no classes or clusters.")
    if picture:
        from .. import plots

        plots.save(plots.prototypes(found), picture)
        output_files.confirm(picture)
    if as_json:
        numbers = {
            state: {name: one._asdict() for name, one in columns.items()} for state, columns in found.numbers.items()
        }
        terminal.print_json({str(state): {**columns, **numbers.get(state, {})} for state, columns in found.items()})
        return
    room = printing.terminal_width()
    for state in found:
        print_text(found.heading(state, room))
        values = found.typical(state, most)
        told = zip(found.names_of(values, room), values, strict=True)
        shown = [[name, f"{one.probability:.1%}", f"{one.lift:.2f}"] for name, one in told]
        numbers = found.told_numbers(state)
        if shown:
            print_text(terminal.aligned(["value", "here", "times the baseline"], shown, indent=2))
        elif not numbers:
            print_text(f"  {found.without_typical(state)}")
        print_text("\n".join(f"  {one}" for one in [*numbers, ""]).rstrip(" "))
