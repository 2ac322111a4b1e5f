"""Commands that tell what is in a table: `inspect`, and `compare` for its hidden states."""

from __future__ import annotations

import re
from typing import Any

import click
import numpy as np

from .. import printing
from ..exceptions import SchemaError, shortened
from ..io.batches import is_many
from . import common
from .signals import stoppable
from .wording import spoken

MOST_CELLS = 48
"""How wide the levels of a column are shown."""

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@click.command(epilog="\b\nExamples\n  fgrn inspect people.csv --drop id\n  fgrn inspect alarm.bif")
@click.argument("data")
@common.schema
@common.reading
@common.json_option
def inspect(data: str, bins: int, max_levels: int, as_json: bool, **options: Any) -> None:
    """What is in a table: columns, levels, holes, and what looks odd; or in a Bayesian network.

    DATA is a CSV, TSV or Parquet file, or - for standard input; or a network: BIF, XMLBIF, NET, XDSL or UAI.
    """
    from . import networks

    if networks.is_network(data) and options["format_"] is None:
        networks.summary(data, as_json)
        return
    from .. import frames
    from ..schema import Schema

    table = common.read(data, **options)
    rows = table.num_rows
    found: list[dict[str, Any]] = []
    for name in table.column_names:
        values = frames.columns(table.select([name]))[name]
        known = [value for value in frames.listed(values) if not frames.is_unknown(value)]
        holes, distinct = rows - len(known), len(set(map(str, known)))
        record: dict[str, Any] = {"column": name, "distinct": distinct, "missing": holes, "missing_share": holes / rows}
        try:
            column = Schema.infer({name: values}, bins=bins, max_levels=max_levels)[name]
            record |= {"kind": "bins" if column.is_binned else "levels", "levels": list(column.levels)}
        except SchemaError as problem:
            record |= {"kind": "unfit", "levels": [], "problem": spoken(problem)}
        record["remarks"] = _remarks(record, known, rows)
        found.append(record)
    if as_json:
        common.as_json({"rows": rows, "columns": found})
        return
    click.echo(f"{rows:,} {'row' if rows == 1 else 'rows'}, {len(found)} {'column' if len(found) == 1 else 'columns'}")
    lines = [
        [
            record["column"],
            record["kind"],
            _levels(record["levels"]),
            f"{record['distinct']:,}",
            f"{record['missing_share']:.1%}" if record["missing"] else "",
        ]
        for record in found
    ]
    click.echo(common.aligned(["column", "kind", "levels", "distinct", "missing"], lines, left=3))
    remarks = [f"  {record['column']}: {remark}" for record in found for remark in record["remarks"]]
    if remarks:
        click.echo("\nLook at\n" + "\n".join(remarks))


def _is_measured(value: Any) -> bool:
    """Whether a value is a number that is not whole, as no identifier is."""
    return isinstance(value, (float, np.floating)) and not float(value).is_integer()


def _levels(levels: list[Any]) -> str:
    """As many of the levels as there is room for."""
    texts = (shortened(levels, most) for most in range(5, 0, -1))
    return next(
        (text for text in texts if len(text) <= MOST_CELLS), printing.fitted([shortened(levels, 1)], MOST_CELLS)[0]
    )


def _remarks(record: dict[str, Any], known: list[Any], rows: int) -> list[str]:
    """What looks odd in a column."""
    if not known:
        return ["no value is known; leave it out with --drop"]
    out = []
    if record["kind"] == "unfit":
        out.append(record["problem"].removeprefix(f"Column {record['column']!r}: "))
    elif record["distinct"] > 0.9 * len(known) and rows > 20 and not any(map(_is_measured, known)):
        which = "every value is" if record["distinct"] == len(known) else "nearly every value is"
        out.append(f"{which} different: an identifier? leave it out with --drop")
    if all(isinstance(value, str) and DECIMAL_COMMA.fullmatch(value) for value in known):
        out.append(f"numbers such as {known[0]!r}, taken for words: say --decimal ,")
    if record["distinct"] == 1:
        out.append(f"always {known[0]!r}: says nothing")
    elif record["kind"] == "levels":
        most = max(known.count(level) for level in record["levels"]) if len(record["levels"]) <= 60 else 0
        if most > 0.98 * len(known):
            out.append(f"one level has {most / len(known):.1%} of all values")
    if record["missing_share"] > 0.5:
        out.append(f"{record['missing_share']:.0%} are missing")
    return out


@click.command(epilog="\b\nExample\n  fgrn compare answers.csv --sizes 1,2,3,4,5,6 --starts 4")
@click.argument("data")
@click.option("--sizes", help="Numbers of hidden states to try, with commas; else more and more until it gets worse.")
@click.option(
    "--criterion", type=click.Choice(["bic", "aic", "held_out"]), default="bic", show_default=True, help="What decides."
)
@click.option("--epochs", type=click.IntRange(1), default=200, show_default=True, help="The most epochs of learning.")
@click.option(
    "--smoothing",
    type=click.FloatRange(0),
    default=0.01,
    show_default=True,
    help="Count added to every cell of every table.",
)
@click.option(
    "--starts", type=click.IntRange(1), default=4, show_default=True, help="Random starts of each; the best is kept."
)
@common.schema
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For random starts.")
@click.option("--weights", metavar="COLUMN", help="The column with the weight of each row.")
@click.option("--picture", metavar="FILE", help="Draw it, too (.svg, .png, .pdf).")
@common.stream_option
@common.reading
@common.json_option
def compare(data: str, sizes: str | None, criterion: str, epochs: int, smoothing: float, starts: int, bins: int,
            max_levels: int, seed: int, weights: str | None, picture: str | None, streamed: bool, as_json: bool,
            **options: Any) -> None:  # fmt: skip
    """How many hidden states a table asks for: likelihood, AIC, BIC, relative entropy, class sizes.

    DATA is a CSV, TSV or Parquet file, or - for standard input; a folder or a 'glob*' of files is read in batches, and
    so is one with --stream. Ctrl-C ends it and shows what was tried so far.
    """
    from ..estimators import LatentClassModel

    common.check_picture(picture)
    table: Any
    weight: Any = weights
    if streamed or is_many(data):
        table = common.stream(data, **options)
    else:
        table, weight = common.weighted(common.read(data, **options), weights)
    tried = None if sizes is None else [common.whole(part, "--sizes") for part in sizes.split(",")]
    model = LatentClassModel(
        n_epochs=epochs, smoothing=smoothing, n_init=starts, criterion=criterion, n_bins=bins, max_levels=max_levels,
        random_state=seed, verbose=0 if as_json else 1,
    )  # fmt: skip
    with stoppable() as stopped:
        model._stop = stopped
        found = model.compare(table, tried, weight)
        interrupted = stopped()
    if picture:
        from .. import plots

        plots.save(plots.selection(found), picture)
    if as_json:
        best = found.best.n_hidden
        common.as_json({"criterion": criterion, "best": best, "interrupted": interrupted, "tried": found.as_dicts()})
    else:
        click.echo(str(found))
    stopped.end()
