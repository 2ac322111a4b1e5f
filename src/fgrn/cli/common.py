"""What commands share: options, reading tables and models, showing results to people and programs."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..exceptions import FgrnError, SchemaError
from ..io import table_file

if TYPE_CHECKING:
    from ..columns import Column
    from ..estimators._base import LatentEstimator

Command = TypeVar("Command", bound=Callable[..., Any])

DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Delimiters by names that a shell does not take apart."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table for people.")


def reading(command: Command) -> Command:
    """The options of every command that reads a table."""
    options = [
        click.option(
            "--format", "format_", type=click.Choice(["csv", "tsv", "parquet"]), help="Of DATA; else by its name."
        ),
        click.option(
            "--delimiter",
            help="Between values of a text file: one character, or tab, space, comma, semicolon; else it is seen.",
        ),
        click.option("--encoding", help="Of a text file, such as cp1252 or utf-16; else by its first bytes, or UTF-8."),
        click.option("--no-header", is_flag=True, help="The first line is a row; columns are called x0, x1, ..."),
        click.option(
            "--missing", multiple=True, metavar="CODE", help="What stands for unknown, such as ?; repeat for more."
        ),
        click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read(
    data: str,
    format_: str | None,
    delimiter: str | None,
    encoding: str | None,
    no_header: bool,
    missing: tuple[str, ...],
    drop: tuple[str, ...],
) -> Any:
    """The table a command was given, as an Arrow table."""
    table = table_file.read(
        data,
        format=format_,
        missing=missing or table_file.MISSING,
        header=not no_header,
        delimiter=None if delimiter is None else DELIMITERS.get(delimiter, delimiter),
        encoding=encoding,
    )
    for column in drop:
        if column not in table.column_names:
            from ..exceptions import unknown_name

            raise unknown_name("column", column, table.column_names)
    return table.drop_columns(list(drop))


def read_for(model: LatentEstimator, data: str, **options: Any) -> Any:
    """The table for a model, as an Arrow table; what stood for unknown when it was learnt does so again."""
    if not options["missing"] and model.missing_values is not None:
        options["missing"] = tuple(str(code) for code in model.missing_values)
    return read(data, **options)


def check_place(path: str) -> None:
    """Refuse, before anything is learnt, a place where no model can be written."""
    place = Path(path)
    if path == "-" or place.is_dir():
        raise click.UsageError(f"-o is the name of a model file, such as people.fgrn. Got {path!r}.")
    if not place.parent.is_dir():
        raise FgrnError(f"{path!r} cannot be written: there is no folder {str(place.parent)!r}.")
    if not os.access(place.parent, os.W_OK):
        raise FgrnError(f"{path!r} cannot be written: the folder {str(place.parent)!r} is read-only.")


def taken_out(table: Any, column: str | None) -> tuple[Any, list[Any] | None]:
    """A table without one of its columns, and the values of that."""
    if column is None:
        return table, None
    if column not in table.column_names:
        from ..exceptions import unknown_name

        raise unknown_name("column", column, table.column_names)
    return table.drop_columns([column]), table[column].to_pylist()


def estimator(path: str) -> LatentEstimator:
    """The estimator in a model file."""
    from ..io.model_file import load
    from ..network import Network

    model = load(path)
    if isinstance(model, Network):
        raise FgrnError(
            f"{path!r} holds a network without a schema, so tables cannot be read for it. Learn one with `fgrn fit`, "
            "or use it from Python: fgrn.load."
        )
    return model


def matching(model: LatentEstimator, table: Any) -> Any:
    """The columns of a table that a model knows, in its order; one that is missing is unknown everywhere."""
    import pyarrow as pa

    names = list(model.schema_)
    if not set(names) & set(table.column_names):
        from ..exceptions import shortened

        raise SchemaError(
            f"This table has none of the columns of the model ({shortened(names)}). Is its first line a row? Then say "
            "--no-header."
        )
    gone = [name for name in names if name not in table.column_names]
    if gone:
        from ..exceptions import shortened

        click.echo(f"fgrn: {shortened(gone)} not in this table: taken as unknown.", err=True)
    return pa.table(
        {
            name: _as_learnt(table[name], model.schema_[name])
            if name in table.column_names
            else pa.nulls(table.num_rows)
            for name in names
        }
    )


def _as_learnt(values: Any, column: Column) -> Any:
    """A column of a file as the model knows it: one file may have only numbers where another has words, too."""
    import pyarrow as pa

    if not column.is_numeric and pa.types.is_integer(values.type):
        return values.cast(pa.string())
    if not column.is_numeric or not pa.types.is_string(values.type):
        return values
    numbers, words = [], []
    for value in values.to_pylist():
        try:
            numbers.append(None if value is None else float(value))
        except ValueError:
            numbers.append(None)
            words.append(value)
    if words:
        count = "once" if len(words) == 1 else f"{len(words):,} times"
        click.echo(f"fgrn: {words[0]!r} in column {column.name!r} is no number: taken as unknown, {count}.", err=True)
    return pa.array(numbers, pa.float64())


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns for people: the first `left` of them on the left, numbers on the right."""
    wide = [max([len(head), *(len(row[k]) for row in rows)]) for k, head in enumerate(heads)]
    lines = []
    for row in [list(heads), ["-" * width for width in wide], *map(list, rows)]:
        cells = [
            f"{cell:<{w}}" if k < left else f"{cell:>{w}}" for k, (cell, w) in enumerate(zip(row, wide, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C end learning after the epoch it is in; the second one stops everything."""
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        print("stopping after this epoch; once more to stop at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
