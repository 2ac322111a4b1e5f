"""Functions that several commands share: options, reading tables and models, checking and printing results."""

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
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import numpy as np

from ..core import printing
from ..core.exceptions import EvidenceError, FgrnError, SchemaError, counted, shortened, visible
from ..tables import table_file
from ..tables.missing import MISSING
from ..tables.stream_source import is_many
from .wording import say, tell

if TYPE_CHECKING:
    from ..estimators._base import LatentEstimator
    from ..tables.stream import Stream
    from ..tables.text_reader import BadRow

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_SMOOTHING = 1e100
"""The largest smoothing; the estimators refuse more, too."""


MOST_HIDDEN = 1_000_000
"""The most hidden states: each has a row in the table of every column."""


class FiniteRange(click.FloatRange):
    """A range of finite numbers: NaN and infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise an error that names the option."""
        found = super().convert(value, param, ctx)
        return found if isfinite(found) else self.fail(f"{value} is not a finite number.", param, ctx)


_BIN_COUNT = click.IntRange(2)

DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Names of delimiters that need no quotes in a shell."""

unseen_option = click.option(
    "--unseen",
    type=click.Choice(["unknown", "error"]),
    help="Treat a level that was not in the training data as unknown or as an error. [as the model was fitted]",
)
stream_option = click.option(
    "--stream",
    "streamed",
    is_flag=True,
    help="Read the table in batches and keep it on disk: for tables larger than memory.",
)
rescale_option = click.option("--rescale", is_flag=True, help="Divide each row of a network's tables by its sum.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def reading(command: Command) -> Command:
    """Add the options of every command that reads a table."""
    options = [
        click.option(
            "--format",
            "format_",
            type=click.Choice(["csv", "tsv", "parquet"]),
            help="Format of the table. [by its name]",
        ),
        click.option(
            "--delimiter",
            help="Delimiter of a text file: a character, or tab, space, comma, semicolon. [detected]",
        ),
        click.option("--encoding", help="Encoding of a text file, such as cp1252. [by its first bytes, or UTF-8]"),
        click.option("--decimal", default=".", show_default=True, help="Decimal mark of numbers: . or a comma."),
        click.option(
            "--no-header", is_flag=True, help="The first line is data, not names; columns are called x0, x1, ..."
        ),
        click.option(
            "--missing",
            multiple=True,
            metavar="CODE",
            help="A word for a missing value; may be repeated. It replaces the default (empty cells, ?, NA, N/A, "
            "NaN, null, None, #N/A), which are then values unless given as well: '' for empty cells.",
        ),
        click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated."),
        click.option(
            "--on-bad",
            type=click.Choice(["error", "skip"]),
            default="error",
            show_default=True,
            help="What to do about rows that cannot be read: stop, or skip and count them.",
        ),
        click.option("--cache", metavar="FOLDER", help="Folder for data kept on disk. [that of temporary files]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def schema(command: Command, bins: click.ParamType = _BIN_COUNT, more: str = ". [5]") -> Command:  # type: ignore[type-arg]
    """Add the options of every command that infers a schema; `bins` is the type of --bins, and `more` ends its help."""
    options = [
        click.option(
            "--bins",
            type=bins,
            default=5,
            help=f"Number of bins of a column with many different numbers{more}",
        ),
        click.option(
            "--max-levels",
            type=click.IntRange(1),
            default=50,
            show_default=True,
            help="The largest number of levels of a text column.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def is_given(option: str) -> bool:
    """Return whether the user has given an option of the running command."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


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
    tell_left_out(rows)
    return one_table(tables, rows.called)


def tell_left_out(rows: Stream) -> None:
    """Report how many rows were left out, and why."""
    if rows.left_out:
        tell(f"{rows.called}: {rows.report()}")


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


def state_count_of(text: str, option: str = "--hidden") -> int:
    """Return a number of hidden states; one that is too large is refused before anything is read."""
    if text.isdecimal() and 0 < int(text) <= MOST_HIDDEN:
        return int(text)
    raise click.UsageError(
        f"{option}: the number of states must be a whole number from 1 to {MOST_HIDDEN:,}. Got {text!r}."
    )


def check_place(path: str, what: str = "a model file, such as people.fgrn", option: str = "-o") -> None:
    """Raise an error if a file cannot be written; called before anything else is done."""
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
    """Raise an error if a table cannot be written to this file, or not together with JSON."""
    if path == "-":
        return
    if as_json:
        raise click.UsageError("--json prints to standard output; leave out -o, or leave out --json.")
    check_place(path, "a table, such as answers.csv")
    if table_file.format_by_name(path) is None:
        raise click.UsageError(
            f"-o must be a table with the extension of its format ({', '.join(table_file.FORMATS)}). Got {path!r}."
        )


def check_other(path: str, sources: Mapping[str, str | None], option: str = "-o") -> None:
    """Raise an error if the output is one of the input files, under any name or link.

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
    """Return the existing files of a path, a folder or a glob."""
    if source is None or source == "-":
        return []
    if Path(source).exists() and not Path(source).is_dir():
        return [source]
    with suppress(FgrnError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader reports problems itself
        from ..tables.stream import Stream

        return Stream(source, format="csv").files if is_many(source) else []
    return []


def check_picture(path: str | None) -> None:
    """Raise an error if a picture cannot be saved to this file."""
    if path is not None:
        from ..plots.style import check_picture_path

        check_picture_path(path)


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


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: int = 0, bars: bool = False
) -> str:
    """Return rows as aligned columns, no wider than the terminal."""
    return printing.text_table(heads, rows, left, indent, printing.terminal_width(), bars)


def confirm(path: str, rows: int | None = None) -> None:
    """Report on stderr that a file was written, and how many rows it has; nothing for standard output."""
    if path != "-":
        say(visible(f"written: {path}" + ("" if rows is None else f" ({counted(rows, 'row')})")), err=True)


def as_json(value: Any) -> None:
    """Print a value as JSON: NaN and infinity as null, invisible characters escaped."""
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
    """Return the settings that are not None; for the others the estimator has defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def missing_told(codes: Sequence[str] | None) -> str:
    """Return the line that says which words are taken as missing values, and how to choose them."""
    usual = [*{word.lower(): word for word in reversed(MISSING)}.values()][::-1]
    shown, others = (
        shortened([repr(word) if word else "empty cells" for word in words])
        for words in (codes or usual, [word for word in usual if codes and word not in codes])
    )
    chosen = f"--missing is given, so these are values: {others}." if others else "Choose others with --missing CODE."
    return visible(f"Taken as missing: {shown}. {chosen}")
