"""The command `complete`: a table with its missing values imputed, once or in several draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor, log10
from typing import Any

import click
import numpy as np

from ..core.exceptions import FgrnError
from ..core.labels import plain_number
from ..tables import table_file
from ..tables.missing import is_missing_value
from ..tables.writer import table_writer
from . import input_files, model_rows, output_files, shared_options, terminal
from .new_columns import NewColumns
from .predicting import output_option, sequence_and_time


@click.command(epilog="\b\nExample\n  fgrn complete people.fgrn holes.csv -o full.csv")
@click.argument("model")
@click.argument("data")
@output_option
@click.option(
    "--proba",
    is_flag=True,
    help="Also write the probability of each value, as columns 'P(name)'; 0 for a value the model does not know.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    metavar="M",
    help="Complete the table M times, by drawing (multiple imputation); the column 'draw' has the number.",
)
@click.option(
    "--no-uncertainty",
    is_flag=True,
    help="With --draws: draw all tables from the estimate, as if it were certain. Otherwise a model is fitted for each "
    "of them to rows drawn from DATA, which must be the table that MODEL was fitted on.",
)
@shared_options.unseen_option
@shared_options.reading
@shared_options.json_option
def complete(
    model: str, data: str, output: str, proba: bool, draws: int | None, no_uncertainty: bool, unseen: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Impute the missing values of a table: the most probable level, or the expected number.

    MODEL is a file written by `fgrn fit`; DATA a CSV, TSV or Parquet file, a folder or a 'glob*' of such, or - for
    standard input. Rows are read and written in batches, in their order, so that they need not fit into memory.
    The class, where DATA has it, is a column like the others. Columns the model does not know stay as they are, and so
    do values that it does not know: for the other columns they are unknown. The output has the columns of DATA: to
    impute one that it lacks, add an empty column of this name.
    """
    import pyarrow as pa

    output_files.check_table(output, as_json)
    output_files.check_other(output, {"DATA": data, "MODEL": model})
    if no_uncertainty and draws is None:
        raise click.UsageError("--no-uncertainty is for tables that are drawn: add --draws M.")
    estimator = input_files.estimator(model, unseen)
    if hasattr(estimator, "forecast"):
        _complete_sequences(estimator, input_files.read_for(estimator, data, **options), output, proba, draws, as_json)
        return
    if draws is not None:
        if proba:
            raise click.UsageError("--draws has no probabilities: leave out --proba, or leave out --draws.")
        table = input_files.read_for(estimator, data, **options)
        _write_draws(estimator, table, draws, not no_uncertainty, output, as_json)
        return
    if as_json:
        table = input_files.read_for(estimator, data, **options)
        remarks = model_rows.Remarks(kept=True)
        known = _with_class(estimator, table, model_rows.matching(estimator, table, remarks))
        remarks.print_collected()
        filled, sure = estimator.complete(known, return_proba=True)
        words = _words(table, known)
        values = pa.table(_replaced(estimator, table, filled, words)).to_pylist()
        missing = {name: column.is_missing for name, column in estimator.schema_.items()}
        open_rows = {
            name: [missing.get(name, is_missing_value)(value) for value in known[name].to_pylist()]
            for name in _columns_in_both(table, known).values()
        }
        filled_in = [
            {
                name: sure[row, place]
                for place, name in _columns_in_both(table, known).items()
                if open_rows[name][row] and not (name in words and words[name][row])
            }
            for row in range(len(values))
        ]
        terminal.print_json([{"values": row, "filled": new} for row, new in zip(values, filled_in, strict=True)])
        return
    source = input_files.stream_for(estimator, data, **options).again()
    broken, worded = _with_fractions(estimator, source) if table_file.format_of(output) == "parquet" else ((), ())
    written, beside = 0, NewColumns()
    with table_writer(output) as out:
        for table, features in model_rows.matched(estimator, source, kept=True):
            known = _with_class(estimator, table, features)
            filled, sure = estimator.complete(known, return_proba=True)
            words = _words(table, known, worded)
            columns = _replaced(estimator, table, filled, words)
            columns |= {name: columns[name].cast(pa.float64()) for name in broken}
            for place, name in enumerate(known.column_names):
                sure[words.get(name, ()), place] = 0.0
            if proba:
                columns |= {
                    beside.unused_name(f"P({name})", columns): sure[:, k]
                    for k, name in _columns_in_both(table, known).items()
                }
            out.write(columns)
            written += table.num_rows
    beside.print_renamed()
    output_files.confirm(output, written)


def _complete_sequences(estimator: Any, table: Any, output: str, proba: bool, draws: int | None, as_json: bool) -> None:
    """Write a table of sequences with missing values imputed, given the whole sequence of each row."""
    import pyarrow as pa

    if draws is not None:
        raise click.UsageError("--draws is for clusters; of sequences the likeliest values are imputed. Leave it out.")
    known = model_rows.matching(estimator, table)
    filled, sure = estimator.complete(known, return_proba=True, **sequence_and_time(estimator, table))
    columns = _replaced(estimator, table, filled, _words(table, known))
    if as_json:
        likely = [{name: row[place] for place, name in _columns_in_both(table, known).items()} for row in sure.tolist()]
        rows = zip(pa.table(columns).to_pylist(), likely, strict=True)
        terminal.print_json([{"values": row} | ({"probabilities": one} if proba else {}) for row, one in rows])
        return
    beside = NewColumns()
    if proba:
        columns |= {
            beside.unused_name(f"P({name})", columns): sure[:, k] for k, name in _columns_in_both(table, known).items()
        }
    with table_writer(output) as out:
        out.write(columns)
    output_files.confirm(output, table.num_rows)


def _write_draws(estimator: Any, table: Any, draws: int, uncertainty: bool, output: str, as_json: bool) -> None:
    """Write a table completed several times, one below the other, with the number of the draw."""
    import pyarrow as pa

    if not hasattr(estimator, "draws"):
        raise FgrnError(f"A {type(estimator).__name__} draws no values; clusters do: fgrn fit without --target.")
    known = model_rows.matching(estimator, table)
    drawn = estimator.draws(known, draws, uncertainty=uncertainty)
    tables = [_replaced(estimator, table, one, _words(table, known)) for one in drawn]
    if as_json:
        terminal.print_json([pa.table(columns).to_pylist() for columns in tables])
        return
    beside = NewColumns()
    with table_writer(output) as out:
        for number, columns in enumerate(tables):
            out.write({beside.unused_name("draw", columns): np.full(table.num_rows, number + 1), **columns})
    beside.print_renamed()
    output_files.confirm(output, draws * table.num_rows)


def _with_class(estimator: Any, table: Any, known: Any) -> Any:
    """Return the columns of a model, and the column of the class if the table has it."""
    name = getattr(estimator, "_y_name", None)
    here = name in table.column_names and name not in known.column_names
    return known.append_column(name, table[name]) if here else known


def _columns_in_both(table: Any, known: Any) -> dict[int, str]:
    """Return the columns of a model that a table has, each with its place among those of the model."""
    return {place: name for place, name in enumerate(known.column_names) if name in table.column_names}


def _words(table: Any, known: Any, always: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return by column which values are words, in columns of text that are numbers for the model."""
    import pyarrow as pa

    found = {}
    for name in known.column_names:
        if name not in table.column_names or known[name].type == table[name].type:
            continue
        given = table[name].is_valid().to_numpy()
        if pa.types.is_string(table[name].type) and (given.any() or name in always):
            found[name] = given & known[name].is_null().to_numpy()
    return found


def _replaced(estimator: Any, table: Any, filled: Any, words: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the columns of a table, and no others, with imputed values; `words` among numbers stay as they are."""
    import pyarrow as pa

    columns: dict[str, Any] = {name: table[name] for name in table.column_names}
    for place, name in _columns_in_both(table, filled).items():
        column, meant = filled.column(place), estimator.schema_.get(name)
        is_rounded = meant is not None and meant.centers and pa.types.is_floating(column.type)
        columns[name] = _rounded(column, table[name], meant.centers) if is_rounded else column
    for name in words:
        pairs = zip(table[name].to_pylist(), columns[name].to_pylist(), strict=True)
        columns[name] = pa.array([plain_number(new, 17) if old is None else old for old, new in pairs], pa.string())
    return columns


def _rounded(column: Any, given: Any, centers: Sequence[float]) -> Any:
    """Return a column of numbers in which those that were not given have the digits that its bins can tell.

    That is a hundredth of the least distance between the centres of its bins.
    """
    import pyarrow as pa

    gap = float(np.diff(centers).min(initial=np.inf))
    new = given.is_null().to_numpy()
    if not (new.any() and 0 < gap < np.inf):
        return column
    numbers = column.to_numpy().copy()
    numbers[new] = np.round(numbers[new], max(0, 2 - floor(log10(gap))))
    return pa.chunked_array([pa.array(numbers, from_pandas=True)])


def _with_fractions(estimator: Any, source: Any) -> tuple[Collection[str], Collection[str]]:
    """Return the columns of whole numbers with missing values, and those of text with a word in some batch.

    Missing values of the former are imputed with expected numbers, which have fractions.
    """
    import pyarrow as pa

    found, worded = set(), set()
    for table in source:
        for name, column in zip(table.column_names, table.columns, strict=True):
            meant = estimator.schema_.get(name)
            whole = meant is not None and (meant.centers or meant.continuous) and pa.types.is_integer(column.type)
            if whole and any(map(meant.is_missing, column.unique().to_pylist())):
                found.add(name)
            if pa.types.is_string(column.type) and column.null_count < len(column):
                worded.add(name)
    return found, worded
