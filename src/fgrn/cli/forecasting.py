"""The command `forecast`: the predicted next steps of sequences."""

from __future__ import annotations

from typing import Any

import click

from ..core.exceptions import FgrnError
from . import input_files, model_rows, output_files, shared_options
from .predicting import output_option, sequence_and_time
from .tracking import TrackedRows, dynamic_of, write_records
from .without_effect import refuse_without_effect


@click.command(epilog="\b\nExample\n  fgrn forecast machines.fgrn log.csv --steps 3 -o next.csv")
@click.argument("model")
@click.argument("data")
@click.option("--steps", type=click.IntRange(1), default=1, show_default=True, help="Number of steps to forecast.")
@click.option("--sequence", metavar="COLUMN", help="For a dynamic network: the column that identifies sequences.")
@click.option("--time", metavar="COLUMN", help="For a dynamic network: the column by which rows are ordered.")
@output_option
@shared_options.unseen_option
@shared_options.reading
@shared_options.json_option
def forecast(
    model: str, data: str, steps: int, sequence: str | None, time: str | None, output: str, unseen: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Forecast the next steps of each sequence: the likeliest state and levels, and expected numbers.

    MODEL is a file written by `fgrn fit --model hmm`, or a dynamic network as for `fgrn track`; DATA the table of
    sequences to continue, or - for standard input.
    Each level has its probability beside it, 'P(name)', and each expected number its standard deviation, 'sd(name)'.
    """
    output_files.check_table(output, as_json)
    output_files.check_other(output, {"DATA": data, "MODEL": model})
    network = dynamic_of(model)
    if network is not None:
        refuse_without_effect(("unseen", False, "models of `fgrn fit`"))
        rows = TrackedRows(network, data, sequence, time, options)
        write_records(rows.named(network.predict(rows.columns, steps).as_dicts()), output, as_json)
        return
    if sequence is not None or time is not None:
        raise click.UsageError("--sequence and --time are for dynamic networks: a model of `fgrn fit` knows its own.")
    estimator: Any = input_files.estimator(model, unseen)
    if not hasattr(estimator, "forecast"):
        raise FgrnError(
            f"{model!r} is a {type(estimator).__name__}, which is not a model of sequences.",
            remedies="learn a model of sequences with `fgrn fit --model hmm`",
        )
    table = input_files.read_for(estimator, data, **options)
    known = model_rows.matching(estimator, table)
    found = estimator.forecast(known, steps, **sequence_and_time(estimator, table)).as_dicts()
    write_records(found, output, as_json)
