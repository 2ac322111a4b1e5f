"""What commands share: options, reading tables and models, showing results to people and programs."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..core import labels, printing
from ..core.exceptions import EvidenceError, FgrnError, SchemaError, TableFileError, counted, shortened, visible
from ..tables import table_file
from .wording import say, tell

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator
    from ..tables.stream import Stream

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_SMOOTHING = 1e100
"""More of it leaves nothing of the counts, and is refused by the estimators, too."""


class FiniteRange(click.FloatRange):
    """A finite number of a range; click lets NaN through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or an error that names the option."""
        found = super().convert(value, param, ctx)
        return found if isfinite(found) else self.fail(f"{value} is no finite number.", param, ctx)


DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Delimiters by names that a shell does not take apart."""

unseen_option = click.option(
    "--unseen",
    type=click.Choice(["unknown", "error"]),
    help="What a level is that was not seen in training; else what the model says.",
)
stream_option = click.option(
    "--stream",
    "streamed",
    is_flag=True,
    help="Read in batches, from disk in every epoch: for tables larger than memory.",
)
rescale_option = click.option(
    "--rescale", is_flag=True, help="Divide each row of a network's tables by its sum, whatever that is."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table for people.")


def reading(command: Command) -> Command:
    """The options of every command that reads a table."""
    options = [
        click.option(
            "--format", "format_", type=click.Choice(["csv", "tsv", "parquet"]), help="Of the table; else by its name."
        ),
        click.option(
            "--delimiter",
            help="Between values of a text file: one character, or tab, space, comma, semicolon; else it is seen.",
        ),
        click.option("--encoding", help="Of a text file, such as cp1252 or utf-16; else by its first bytes, or UTF-8."),
        click.option(
            "--decimal", default=".", show_default=True, help="Before the fraction of a number: . or a comma."
        ),
        click.option("--no-header", is_flag=True, help="The first line is a row; columns are called x0, x1, ..."),
        click.option(
            "--missing",
            multiple=True,
            metavar="CODE",
            help="What stands for unknown; repeat for more. Else nothing, ?, NA, N/A, NaN, null, None and #N/A do.",
        ),
        click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated."),
        click.option(
            "--on-bad",
            type=click.Choice(["error", "skip"]),
            default="error",
            show_default=True,
            help="What to do with rows that cannot be read: stop, or leave them out and count them.",
        ),
        click.option("--cache", metavar="FOLDER", help="For what has to wait on disk; else that of temporary files."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def schema(command: Command) -> Command:
    """The options of every command that finds out what the columns of a table mean."""
    options = [
        click.option(
            "--bins",
            type=click.IntRange(2),
            default=5,
            show_default=True,
            help="Bins of a column with many different numbers.",
        ),
        click.option(
            "--max-levels",
            type=click.IntRange(1),
            default=50,
            show_default=True,
            help="The most levels of a column of words.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def stream(
    data: str,
    format_: str | None,
    delimiter: str | None,
    encoding: str | None,
    decimal: str,
    no_header: bool,
    missing: tuple[str, ...],
    drop: tuple[str, ...],
    on_bad: str,
    cache: str | None,
    batch: int | None = None,
) -> Stream:
    """The rows a command was given, to be walked through: files, folders and globs that need not fit into memory."""
    from ..tables.stream import BATCH, Stream

    return Stream(
        data,
        drop=drop,
        rows=BATCH if batch is None else batch,
        cache=cache,
        on_bad=on_bad,
        format=format_,
        missing=missing or table_file.MISSING,
        header=not no_header,
        delimiter=None if delimiter is None else DELIMITERS.get(delimiter, delimiter),
        encoding=encoding,
        decimal=decimal,
    )


def read(
    data: str,
    format_: str | None,
    delimiter: str | None,
    encoding: str | None,
    decimal: str,
    no_header: bool,
    missing: tuple[str, ...],
    drop: tuple[str, ...],
    on_bad: str = "error",
    cache: str | None = None,
    known: Collection[str] | None = None,
) -> Any:
    """The table a command was given, as an Arrow table; `known` are the columns that matter, all unless given."""
    if on_bad == "skip":
        source = stream(data, format_, delimiter, encoding, decimal, no_header, missing, drop, on_bad, cache)
        return _what_can_be_read(source, known)
    table = table_file.read(
        data,
        format=format_,
        missing=missing or table_file.MISSING,
        header=not no_header,
        delimiter=None if delimiter is None else DELIMITERS.get(delimiter, delimiter),
        encoding=encoding,
        decimal=decimal,
    )
    for column in drop:
        if column not in table.column_names:
            from ..core.exceptions import unknown_name

            raise unknown_name("column", column, table.column_names)
    return without(table, drop) if drop else table


def finite(rows: Stream, known: Collection[str] | None = None) -> Iterator[Any]:
    """The batches of a stream, without rows that hold infinite numbers in columns that are `known`, all unless given.

    Such a row is bad: it is left out and counted, or an error that names it, as the stream says.
    """
    from ..tables.spool import without_dictionaries
    from ..tables.text_reader import infinite

    for batch in rows.batches():
        table, good = batch.frame, np.ones(len(batch.numbers), dtype=bool)
        for name, row, value in _infinite(table, known):
            if good[row]:
                rows.bad(batch.where, infinite(int(batch.numbers[row]), name, value))
            good[row] = False
        table = table if good.all() else table.filter(good)
        if table.num_rows:
            yield without_dictionaries(table)


def check_finite(table: Any, data: str, known: Collection[str] | None = None) -> None:
    """Refuse infinite numbers in a table that was read as a whole, as a stream does."""
    from ..tables.text_reader import bad_row_error, infinite

    for name, row, value in _infinite(table, known):
        raise bad_row_error(table_file.name_in_errors(data), infinite(row, name, value))


def _infinite(table: Any, known: Collection[str] | None) -> Iterator[tuple[str, int, float]]:
    """The infinite numbers of an Arrow table: column, row and value."""
    import pyarrow as pa

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type) and (known is None or name in known):
            numbers = column.to_numpy()
            for row in np.flatnonzero(np.isinf(numbers)).tolist():
                yield name, row, float(numbers[row])


def _what_can_be_read(rows: Stream, known: Collection[str] | None) -> Any:
    """The rows of a stream as one Arrow table, and how many were left out, told."""
    import pyarrow as pa

    tables = list(finite(rows, known))
    tell_left_out(rows)
    if not tables:
        raise TableFileError(f"{rows.called} holds no rows that can be read.")
    return pa.concat_tables(tables, promote_options="permissive")


def tell_left_out(rows: Stream) -> None:
    """Say how many rows were left out, and why."""
    if rows.left_out:
        tell(f"{rows.called}: {rows.report()}")


def read_for(model: LatentEstimator, data: str, **options: Any) -> Any:
    """The table for a model, as an Arrow table; what stood for unknown when it was learnt does so again."""
    table = read(data, **_as_learnt_options(model, options), known=model.schema_)
    check_finite(table, data, model.schema_)
    return table


def stream_for(model: LatentEstimator, data: str, **options: Any) -> Stream:
    """The rows for a model, to be walked through; what stood for unknown when it was learnt does so again."""
    return stream(data, **_as_learnt_options(model, options))


def _as_learnt_options(model: LatentEstimator, options: dict[str, Any]) -> dict[str, Any]:
    codes = model._missing_codes()
    if not options["missing"] and codes is not None:
        is_level = any("" in column.levels for column in model.schema_.values())
        options["missing"] = (*map(str, codes), *([] if is_level and codes else [""]))
    return options


def whole(text: str, option: str = "--hidden") -> int:
    """A number of states."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise click.UsageError(f"{option}: a number of states is a whole number from 1 on. Got {text!r}.")


def check_place(path: str, what: str = "a model file, such as people.fgrn", option: str = "-o") -> None:
    """Refuse, before anything is done, a place where nothing can be written."""
    place = Path(path)
    if place.is_dir():
        raise click.UsageError(f"{option} is the name of {what}, and {path!r} is a folder. Name a file in it.")
    if path == "-" or (place.exists() and not place.is_file()):
        raise click.UsageError(f"{option} is the name of {what}. Got {path!r}.")
    if not place.parent.is_dir():
        raise FgrnError(f"{path!r} cannot be written: there is no folder {str(place.parent)!r}.")
    if not os.access(place.parent, os.W_OK):
        raise FgrnError(f"{path!r} cannot be written: the folder {str(place.parent)!r} is read-only.")


def check_table(path: str, as_json: bool) -> None:
    """Refuse, before anything is done, a table that cannot be written there, or beside JSON."""
    if path == "-":
        return
    if as_json:
        raise click.UsageError("--json prints to standard output; leave out -o, or leave out --json.")
    check_place(path, "a table, such as answers.csv")
    if table_file.format_by_name(path) is None:
        raise click.UsageError(
            f"-o is the name of a table, and its end ({', '.join(table_file.FORMATS)}) tells the format. Got {path!r}."
        )


def check_other(path: str, sources: Mapping[str, str | None], option: str = "-o") -> None:
    """Refuse, before anything is done, to write over a file that is read, by whatever name or link.

    Args:
        path: of what will be written.
        sources: what is read, by the name that the help gives it: files, folders and globs.
        option: that has the path.
    """
    if path == "-" or not Path(path).exists():
        return
    for what, source in sources.items():
        if any(Path(path).samefile(file) for file in _files_of(source)):
            raise click.UsageError(
                f"{what} and {option} are one file, {path!r}, which would be overwritten. Name another {option}."
            )


def _files_of(source: str | None) -> list[str]:
    """The files that a path, a folder or a glob stands for, as far as they are there."""
    if source is None or source == "-":
        return []
    if Path(source).exists() and not Path(source).is_dir():
        return [source]
    with suppress(FgrnError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who reads them says what there is to say
        from ..tables.stream import Stream, is_many

        return Stream(source, format="csv").files if is_many(source) else []
    return []


def check_picture(path: str | None) -> None:
    """Refuse, before anything is done, a picture that cannot be saved there."""
    if path is not None:
        from ..plots.style import check_picture_path

        check_picture_path(path)


def taken_out(table: Any, column: str | None) -> tuple[Any, list[Any] | None]:
    """A table without one of its columns, and the values of that."""
    if column is None:
        return table, None
    if column not in table.column_names:
        from ..core.exceptions import unknown_name

        raise unknown_name("column", column, table.column_names)
    values = table[column].to_pylist()
    return without(table, [column]), values


def without(table: Any, columns: Sequence[str]) -> Any:
    """A table without some of its columns; one at least is left."""
    if not set(table.column_names) - set(columns):
        names = " and ".join(repr(column) for column in columns)
        raise SchemaError(f"There is no column left to learn from: the table has only {names}.")
    return table.drop_columns(list(columns))


def weighted(table: Any, column: str | None) -> tuple[Any, np.ndarray | None]:
    """A table without the column of weights, and the weights."""
    from ..tables.encoded import checked_weights

    table, values = taken_out(table, column)
    if values is None:
        return table, None
    weights = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            weights[row] = float(value)
        except (TypeError, ValueError):
            what = "is unknown" if value is None else f"{value!r} is no number"
            raise EvidenceError(
                f"Row {row}, {column!r}: the weight {what}. --weights wants a number for each row."
            ) from None
    try:
        return table, checked_weights(weights, len(weights))
    except EvidenceError as error:
        raise EvidenceError(f"Column {column!r}, of --weights: {error}") from None


def estimator(path: str, unseen: str | None = None) -> LatentEstimator:
    """The estimator in a model file; what an unseen level is, it says itself unless given."""
    from ..bayes.factored import FactoredModel
    from ..files.model_file import load
    from ..graph.network import Network

    model = load(path)
    if isinstance(model, FactoredModel):
        raise FgrnError(f"{path!r} holds a network and not a model of a table. Ask it with `fgrn query`.")
    if isinstance(model, Network):
        raise FgrnError(
            f"{path!r} holds a network without a schema, so tables cannot be read for it. Learn one with `fgrn fit`, "
            "or use it from Python: fgrn.load."
        )
    if unseen is not None:
        model.unseen = unseen
    return model


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: int = 0, bars: bool = False
) -> str:
    """Columns for people, no wider than the terminal."""
    return printing.text_table(heads, rows, left, indent, printing.terminal_width(), bars)


def confirm(path: str, rows: int | None = None) -> None:
    """Say, beside the output, that a file was written, and how many rows it has; - is standard output."""
    if path != "-":
        say(visible(f"written: {path}" + ("" if rows is None else f" ({counted(rows, 'row')})")), err=True)


def as_json(value: Any) -> None:
    """Print a value as JSON; a number that is none, or infinite, is null. What cannot be seen is escaped."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=1, allow_nan=False)
    click.echo(re.sub(r"[^\n -~]", lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, NoneType)) else str(value)


def those_given(**settings: Any) -> dict[str, Any]:
    """The settings that were given at the command line; the others are as the estimator has them."""
    return {name: value for name, value in settings.items() if value is not None}


def missing_told(codes: Sequence[str] | None) -> str:
    """Which words of a text file are taken as missing values, and how to choose them."""
    words = codes or [*{word.lower(): word for word in reversed(labels.MISSING)}.values()][::-1]
    shown = [repr(word) if word else "empty cells" for word in words]
    return visible(f"Taken as missing: {shortened(shown)}. --missing CODE chooses.")
