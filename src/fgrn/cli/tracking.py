"""The command `track`: inference of the variables of a dynamic network along sequences; and `forecast` for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..core.exceptions import FgrnError, counted, unknown_name
from ..files.formats import READABLE
from ..tables.missing import MISSING
from ..tables.writer import table_writer
from . import input_files, output_files, shared_options, terminal
from .given import column_of, known_columns
from .predicting import output_option
from .terminal import print_message
from .without_effect import refuse_without_effect

if TYPE_CHECKING:
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..tables.time_order import TimeOrder

TOLERANCE = 1e-6
"""The gain per row at which `--learn` ends."""

METHODS = ("smooth", "filter", "path")


def dynamic_of(path: str) -> DynamicBayesianNetwork | None:
    """Return the dynamic network of a model file, or of a file with a two-slice network; None for others."""
    from .. import load, read
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..bayes.two_slices import is_two_slices

    if path.endswith(".fgrn"):
        model = load(path)
        return model if isinstance(model, DynamicBayesianNetwork) else None
    if Path(path.removesuffix(".gz")).suffix.lower() not in READABLE:
        return None
    network: Any = read(path)
    return DynamicBayesianNetwork.of_two_slices(network) if is_two_slices(network) else None


class TrackedRows:
    """A table of sequences for a dynamic network: its rows by sequence and time, and the column names."""

    def __init__(
        self, model: DynamicBayesianNetwork, path: str, sequence: str | None, time: str | None, options: dict[str, Any]
    ) -> None:
        from ..tables.time_order import TimeOrder, check_two_columns

        labels = {str(label) for variable in model.variables for label in variable.labels}
        options["missing"] = options["missing"] or tuple(code for code in MISSING if code not in labels)
        table = input_files.read(path, **options)
        named = sequence if sequence is not None or model.sequence not in table.column_names else model.sequence
        check_two_columns(named, time)
        self._title = "sequence" if named is None or named in ("step", *model.names) else named
        beside = {}
        for name in (named, time):
            if name is not None and name not in table.column_names:
                raise unknown_name("column", name, table.column_names)
            beside[name] = None if name is None else table[name].to_pylist()
        use = "" if named and time else " --sequence and --time name the columns of sequences and times."
        others = [name for name in table.column_names if name not in beside]
        known_columns(others, model.names, path, use)
        self.order: TimeOrder = TimeOrder.of(table.num_rows, beside[named], beside[time], None)
        ordered = table.take(self.order.rows)
        self.columns: dict[str, Any] = {
            name: column_of(model.variable(name), ordered[name]) for name in model.names if name in table.column_names
        }
        self.columns[model.sequence] = (np.cumsum(self.order.begins) - 1).tolist()

    def records(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results for each row, with the name of its sequence, in the order of the table."""
        records = np.array([*self.named(found), None], dtype=object)[:-1]
        found_in_order: list[dict[str, Any]] = self.order.restored(records).tolist()
        return found_in_order

    def named(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results for each row, in the order of sequences, whose names are in their original column."""
        names = [self.order.names[one.pop("sequence")] for one in found]
        return [{self._title: name, **one} for name, one in zip(names, found, strict=True)]

    def path(self, labels: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
        """Return the states of each row, in the order of sequences, with the numbers of sequences and steps."""
        begins = self.order.begins
        numbers = np.cumsum(begins) - 1
        steps = np.arange(len(begins)) - np.flatnonzero(begins)[numbers]
        columns = {"sequence": numbers, "step": steps, **labels}
        rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def write_records(records: list[dict[str, Any]], output: str, as_json: bool) -> None:
    """Write the results for each row, as a table or as JSON."""
    if as_json:
        terminal.print_json(records)
        return
    with table_writer(output) as out:
        out.write({name: [one[name] for one in records] for name in records[0]} if records else {})
    output_files.confirm(output, len(records))


@click.command(epilog="\b\nExamples\n  fgrn track machine.fgrn log.csv --sequence machine --time hour -o states.csv\n"
               "  fgrn track machine.bif log.csv --learn m.fgrn  (x0, xt: two slices)")  # fmt: skip
@click.argument("network")
@click.argument("data")
@click.option("--method", type=click.Choice(METHODS), default="smooth", show_default=True,
              help="smooth: given the whole sequence; filter: given the rows so far; path: the most probable joint "
              "states.")  # fmt: skip
@click.option("--sequence", metavar="COLUMN", help="The column that identifies sequences. [as in NETWORK]")
@click.option(
    "--time", metavar="COLUMN", help="The column by which rows of a sequence are ordered. [the order of the table]"
)
@click.option("--learn", "learnt", metavar="MODEL", help="First learn the tables from DATA, and write MODEL (.fgrn).")
@click.option(
    "--epochs", type=click.IntRange(1), default=50, show_default=True, help="With --learn: the limit of epochs."
)
@click.option("--smoothing", type=shared_options.FiniteRange(0, shared_options.MOST_SMOOTHING), default=0.01,
              show_default=True, help="With --learn: count added to every cell of every table.")  # fmt: skip
@output_option
@shared_options.reading
@shared_options.json_option
def track(
    network: str, data: str, method: str, sequence: str | None, time: str | None, learnt: str | None, epochs: int,
    smoothing: float, output: str, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Infer the variables of a dynamic network in each row of sequences.

    NETWORK is a .fgrn file, or a network of two slices in any format: x0 is x in the first slice, xt in a later one.
    DATA is a table with a row for each slice; values may be missing. Each state has its probability beside it.
    `fgrn forecast` predicts the slices after the last rows.
    """
    refuse_without_effect(("epochs smoothing", learnt is not None, "--learn"))
    output_files.check_table(output, as_json)
    output_files.check_other(output, {"DATA": data, "NETWORK": network})
    if learnt is not None:
        output_files.check_place(learnt, option="--learn")
        output_files.check_other(learnt, {"DATA": data, "-o": output}, "--learn")
    model = dynamic_of(network)
    if model is None:
        raise FgrnError(
            f"{network!r} holds no dynamic network.",
            remedies="name the variables of two slices x0 and xt, or ask it with `fgrn query` or `fgrn predict`",
        )
    rows = TrackedRows(model, data, sequence, time, options)
    if learnt is not None:
        from ..learning.convergence import warn_if_gaining

        history = model.learn(rows.columns, epochs=epochs, smoothing=smoothing, tolerance=TOLERANCE, accelerate=True)
        model.save(learnt)
        warn_if_gaining("Learning", history, epochs, TOLERANCE, span=3)
        print_message(
            f"written: {learnt} ({counted(history.epochs, 'epoch')}, log-likelihood {history.per_row[-1]:.4f} per row)"
        )
    if method == "path":
        found = rows.path(model.most_probable(rows.columns).labels)
    else:
        found = (model.smooth if method == "smooth" else model.filter)(rows.columns).as_dicts()
    write_records(rows.records(found), output, as_json)
