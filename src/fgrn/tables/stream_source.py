"""Sources of streams: which files a path, a folder or a glob means, and which sources can be read only once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.exceptions import FgrnWarning, Remedy, TableFileError, warn
from . import table_file
from .text_source import no_file


def is_many(name: str) -> bool:
    """Return whether a path means several files: a folder, or a glob that is not the name of a file."""
    return name != "-" and (Path(name).is_dir() or (glob.has_magic(name) and not Path(name).exists()))


def is_path(source: Any) -> bool:
    """Return whether a source is the path of a file, a folder or a glob."""
    return isinstance(source, (str, os.PathLike))


def is_list_of_paths(source: Any) -> bool:
    """Return whether a source is a list of paths."""
    return isinstance(source, (list, tuple)) and bool(source) and all(map(is_path, source))


def is_read_once(source: Any) -> bool:
    """Return whether a source can be iterated only once."""
    if is_path(source) or is_list_of_paths(source) or hasattr(source, "get_fragments"):
        return False
    return not callable(source)


def expanded_path(name: str, kind: str | None) -> list[str]:
    """Return the files of a path, a folder or a glob, sorted by name."""
    if name == "-" or (Path(name).exists() and not Path(name).is_dir()):  # a file or a named pipe
        return [name]
    if Path(name).is_dir():
        inside = sorted(
            str(path) for path in Path(name).rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        )
        files = [one for one in inside if kind is not None or table_file.format_by_name(one) is not None]
        if not files:
            raise TableFileError(f"The folder {name!r} has no table in it ({', '.join(table_file.FORMATS)}).")
        if any("=" in part for file in files for part in Path(file).relative_to(name).parts[:-1]):
            python = f"pyarrow.dataset.dataset({name!r}, partitioning='hive')"
            told = "its folders are named like values of a column (partitions), and that column is not read."
            remedy = Remedy("read that, too,", python, partitioning="hive")
            warn(told, FgrnWarning, file=repr(name), remedies=remedy)
        return files
    files = sorted(one for one in glob.glob(name, recursive=True) if Path(one).is_file())  # noqa: PTH207
    if not files and glob.has_magic(name):
        raise TableFileError(f"No file is called like {name!r}. Check the folder and the pattern.")
    if not files:
        raise no_file(name)
    return files


def fragments_of(dataset: Any) -> Iterator[Any]:
    """Yield the fragments of an Arrow dataset; those of a filtered one, which has none, are made from batches."""
    import pyarrow as pa
    import pyarrow.dataset as arrow

    try:
        yield from dataset.get_fragments()
    except (ValueError, pa.ArrowInvalid):
        for batch in dataset.to_batches():
            yield from arrow.dataset(pa.Table.from_batches([batch])).get_fragments()
