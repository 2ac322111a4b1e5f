"""Options that several commands have, and their types."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar

import click

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


unseen_option = click.option(
    "--unseen",
    type=click.Choice(["unknown", "error"]),
    help="Treat a level that was not in the training data, or a word among numbers, as unknown or as an error. "
    "[as the model was fitted]",
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


def those_given(**settings: Any) -> dict[str, Any]:
    """Return the settings that are not None; for the others the estimator has defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def state_count_of(text: str, option: str = "--hidden") -> int:
    """Return a number of hidden states; one that is too large is refused before anything is read."""
    if text.isdecimal() and 0 < int(text) <= MOST_HIDDEN:
        return int(text)
    raise click.UsageError(
        f"{option}: the number of states must be a whole number from 1 to {MOST_HIDDEN:,}. Got {text!r}."
    )
