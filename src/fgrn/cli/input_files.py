"""Tables and models that commands read: by the options of the command, and as the model was fitted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np

from ..core.exceptions import EvidenceError, FgrnError, SchemaError, shortened, visible
from ..tables import table_file
from ..tables.missing import MISSING
from ..tables.stream_source import is_many
from .terminal import print_message

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator
    from ..tables.stream import Stream
    from ..tables.text_reader import BadRow


DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Names of delimiters that need no quotes in a shell."""


def _file_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `table_file.read` and `Stream` for the options of `reading`."""
    delimiter = options["delimiter"]
    return {
        "format": options["format_"],
        "missing": options["missing"] or MISSING,
        "header": not options["no_header"],
        "delimiter": DELIMITERS.get(delimiter, delimiter),
        "encoding": options["encoding"],
        "decimal": options["decimal"],
    }


def _check_text_options(data: str, options: Mapping[str, Any]) -> None:
    """Raise an error if an option of text files is given with a Parquet file."""
    if (options["format_"] or table_file.format_by_name(data)) != "parquet":
        return
    usual = {"delimiter": None, "encoding": None, "decimal": ".", "no_header": False}
    given = [name for name, value in usual.items() if options[name] != value]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is for text files, and {data!r} is Parquet: leave it out.")


def stream(data: str, batch: int | None = None, **options: Any) -> Stream:
    """Return the rows of files, folders or globs as a stream, which need not fit into memory.

    Args:
        data: the path.
        batch: rows that are read at a time.
        **options: those of `reading`.
    """
    from ..tables.stream import BATCH, Stream

    _check_text_options(data, options)
    more = {name: options[name] for name in ("drop", "cache", "on_bad")}
    return Stream(data, rows=BATCH if batch is None else batch, **more, **_file_settings(options))


def read(data: str, known: Collection[str] | None = None, **options: Any) -> Any:
    """Return the table of a file, or of all files of a folder or a glob, as an Arrow table.

    Args:
        data: the path.
        known: the columns that matter, all unless given.
        **options: those of `reading`.
    """
    if options["on_bad"] == "skip" or is_many(data):
        return _what_can_be_read(stream(data, **options), known)
    if options["cache"] is not None:
        raise click.UsageError(
            "--cache is for tables that are read in batches, such as a folder, a 'glob*' or a file with --stream, and "
            "has no effect here: leave it out."
        )
    _check_text_options(data, options)
    table = table_file.read(data, **_file_settings(options))
    drop = options["drop"]
    for column in drop:
        if column not in table.column_names:
            from ..core.exceptions import unknown_name

            raise unknown_name("column", column, table.column_names)
    return without(table, drop) if drop else table


def finite(rows: Stream, known: Collection[str] | None = None) -> Iterator[Any]:
    """Yield the batches of a stream without rows that hold infinite numbers in the `known` columns (default: all).

    Such a row is bad: it is left out and counted, or an error that names it, as the stream says.
    """
    from ..tables.spool import without_dictionaries

    for batch in rows.batches():
        table, good = batch.frame, np.ones(len(batch.numbers), dtype=bool)
        for bad in _infinite(table, known):
            if good[bad.row]:
                rows.bad(batch.where, bad._replace(row=int(batch.numbers[bad.row])))
            good[bad.row] = False
        table = table if good.all() else table.filter(good)
        if table.num_rows:
            yield without_dictionaries(table)


def check_finite(table: Any, data: str, known: Collection[str] | None = None) -> None:
    """Raise an error if a table in memory holds infinite numbers."""
    from ..tables.text_reader import bad_row_error

    for bad in _infinite(table, known):
        raise bad_row_error(table_file.name_in_errors(data), bad)


def _infinite(table: Any, known: Collection[str] | None) -> Iterator[BadRow]:
    """Yield each infinite number of an Arrow table in the `known` columns."""
    import pyarrow as pa

    from ..tables.text_reader import infinite

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type) and (known is None or name in known):
            numbers = column.to_numpy()
            for row in np.flatnonzero(np.isinf(numbers)).tolist():
                yield infinite(row, name, float(numbers[row]))


def _what_can_be_read(rows: Stream, known: Collection[str] | None) -> Any:
    """Return the readable rows of a stream as one Arrow table, and report how many were left out."""
    from ..tables.spool import one_table

    tables = list(finite(rows, known))
    report_left_out(rows)
    return one_table(tables, rows.called)


def report_left_out(rows: Stream) -> None:
    """Report how many rows were left out, and why."""
    if rows.left_out:
        print_message(f"{rows.called}: {rows.report()}")


def read_for(model: LatentEstimator, data: str, **options: Any) -> Any:
    """Return a table for a model, read with the codes for missing values that it was fitted with."""
    table = read(data, **_as_learnt_options(model, options), known=model.schema_)
    check_finite(table, data, model.schema_)
    return table


def stream_for(model: LatentEstimator, data: str, **options: Any) -> Stream:
    """Return a stream for a model, read with the codes for missing values that it was fitted with."""
    return stream(data, **_as_learnt_options(model, options))


def _as_learnt_options(model: LatentEstimator, options: dict[str, Any]) -> dict[str, Any]:
    codes = model._missing_codes()
    if not options["missing"] and codes is not None:
        is_level = any("" in column.levels for column in model.schema_.values())
        options["missing"] = (*map(str, codes), *([] if is_level and codes else [""]))
    return options


def taken_out(table: Any, column: str | None) -> tuple[Any, list[Any] | None]:
    """Return a table without one of its columns, and the values of that column."""
    if column is None:
        return table, None
    if column not in table.column_names:
        from ..core.exceptions import unknown_name

        raise unknown_name("column", column, table.column_names)
    values = table[column].to_pylist()
    return without(table, [column]), values


def without(table: Any, columns: Sequence[str]) -> Any:
    """Return a table without some of its columns; raise an error if none is left."""
    if not set(table.column_names) - set(columns):
        names = " and ".join(repr(column) for column in columns)
        raise SchemaError(f"There is no column left to learn from: the table has only {names}.")
    return table.drop_columns(list(columns))


def weighted(table: Any, column: str | None) -> tuple[Any, np.ndarray | None]:
    """Return a table without the column of weights, and the weights."""
    from ..tables.encoded import checked_weights

    table, values = taken_out(table, column)
    if values is None:
        return table, None
    weights = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            weights[row] = float(value)
        except (TypeError, ValueError):
            what = "is unknown" if value is None else f"{value!r} is not a number"
            text = f"the weight {what}. --weights needs a number for each row."
            raise EvidenceError(text, row=row, column=column, value=value) from None
    try:
        return table, checked_weights(weights, len(weights))
    except EvidenceError as error:
        raise error.changed(column=column) from None


def estimator(path: str, unseen: str | None = None) -> LatentEstimator:
    """Return the estimator of a model file; `unseen` replaces its own setting if given."""
    from ..files.model_file import load

    model: Any = load(path)
    use = use_of(path, model)
    if use is not None:
        raise FgrnError(
            f"{path!r} holds a model of the class {type(model).__name__}, not one fitted to a table.", remedies=use
        )
    if unseen is not None:
        model.unseen = unseen
    return cast("LatentEstimator", model)


def use_of(path: str, model: Any) -> str | None:
    """Return advice for a model of a file that has no schema, and so cannot read tables; None for an estimator."""
    from ..bayes.dynamic import DynamicBayesianNetwork
    from ..bayes.factored import FactoredModel
    from ..bayes.influence import InfluenceDiagram
    from ..bayes.tree_mixture import TreeMixture
    from ..graph.network import Network

    if isinstance(model, FactoredModel):
        return "ask it with `fgrn query`"
    if isinstance(model, InfluenceDiagram):
        return "solve it with `fgrn solve`, or draw it with `fgrn draw`"
    if isinstance(model, DynamicBayesianNetwork):
        return "ask it with `fgrn track` or `fgrn forecast`, or draw it with `fgrn draw`"
    if isinstance(model, (Network, TreeMixture)):
        return f"draw it with `fgrn draw`, or use it from Python: fgrn.load({path!r})"
    return None


def missing_codes_line(codes: Sequence[str] | None) -> str:
    """Return the line that says which words are taken as missing values, and how to choose them."""
    usual = [*{word.lower(): word for word in reversed(MISSING)}.values()][::-1]
    shown, others = (
        shortened([repr(word) if word else "empty cells" for word in words])
        for words in (codes or usual, [word for word in usual if codes and word not in codes])
    )
    chosen = f"--missing is given, so these are values: {others}." if others else "Choose others with --missing CODE."
    return visible(f"Taken as missing: {shown}. {chosen}")
