"""Parquet files in parts of about equal size, each of some row groups of some files, which are read separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..core.exceptions import Remedy, TableFileError, first_line
from .table_file import format_of, name_in_errors, names_without_index
from .text_header import check_unique_names

FEWEST_PARTS, MOST_PARTS = 16, 256
"""The number of parts of a small table, enough for many workers, and the most parts of a large one."""

FEWEST_ROWS, MOST_ROWS = 2**20, 2**25
"""The rows of a part: with fewer a task costs more than its rows, with more it takes long to repeat."""


class RowGroups(NamedTuple):
    """Some row groups of a file, the number of their first row in it, and their number of rows."""

    file: str
    groups: tuple[int, ...]
    first: int
    rows: int


def row_groups_of(files: Sequence[str], kind: str | None) -> tuple[list[str], list[RowGroups]]:
    """Return the columns of the first file, and every row group of all files."""
    import pyarrow.parquet as parquet

    names: list[str] = []
    found: list[RowGroups] = []
    for file in files:
        if format_of(file, kind) != "parquet":
            raise TableFileError(
                "this is a text file, and on a cluster files are Parquet.",
                file=name_in_errors(file),
                remedies=(
                    "turn it into Parquet",
                    Remedy("read it into a Dask dataframe", "dask.dataframe.read_csv", dataframe=...),
                ),
            )
        if file.endswith(".gz"):
            why = "it is packed, and on a cluster files are read in parts."
            raise TableFileError(why, file=name_in_errors(file), remedies="unpack it")
        try:
            about = parquet.read_metadata(file)
        except Exception as error:  # pyarrow raises several kinds
            why = f"it cannot be read as parquet: {first_line(error)}"
            raise TableFileError(why, file=name_in_errors(file)) from error
        if not names:
            names = names_without_index(about.schema.to_arrow_schema().names)
            check_unique_names(names, name_in_errors(file))
        first = 0
        for group in range(about.num_row_groups):
            rows = about.row_group(group).num_rows
            found.append(RowGroups(file, (group,), first, rows))
            first += rows
    return names, found


def rows_of_a_part(total: int) -> int:
    """Return the approximate number of rows of each part."""
    return min(MOST_ROWS, max(-(-total // MOST_PARTS), min(-(-total // FEWEST_PARTS), FEWEST_ROWS)))


def parts_of(shares: Sequence[RowGroups]) -> Iterator[list[RowGroups]]:
    """Yield parts of about equal numbers of rows, in order; consecutive row groups of a file are joined."""
    enough = rows_of_a_part(sum(share.rows for share in shares))
    part: list[RowGroups] = []
    for share in shares:
        if part and part[-1].file == share.file:
            before = part.pop()
            share = before._replace(groups=before.groups + share.groups, rows=before.rows + share.rows)
        part.append(share)
        if sum(one.rows for one in part) >= enough:
            yield part
            part = []
    if part:
        yield part
