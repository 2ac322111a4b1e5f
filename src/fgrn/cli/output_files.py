"""Files that commands write: checked before anything is computed, and confirmed once they are there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from ..core.exceptions import FgrnError, counted, visible
from ..tables import table_file
from ..tables.stream_source import is_many
from .terminal import print_text


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
        if source is not None and Path(source).is_dir() and table_file.format_by_name(path) is None:
            continue  # of a folder only tables are read
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


def confirm(path: str, rows: int | None = None) -> None:
    """Report on stderr that a file was written, and how many rows it has; nothing for standard output."""
    if path != "-":
        print_text(visible(f"written: {path}" + ("" if rows is None else f" ({counted(rows, 'row')})")), err=True)
