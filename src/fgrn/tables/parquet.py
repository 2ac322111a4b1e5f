"""Parquet files in parts that can be read by themselves: some row groups of some files, of about as many rows each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..core.exceptions import Remedy, TableFileError, first_line
from .table_file import called, data_names, format_of
from .text_header import check_names

FEW, MANY = 16, 256
"""Parts of a small table, so that many workers have some, and of a large one, whatever the number of workers."""

ENOUGH, MOST = 2**20, 2**25
"""Rows of a part: with fewer its task costs more than its rows, with more it takes long to read again."""


class Share(NamedTuple):
    """Some row groups of a file, and the number of their first row in it."""

    file: str
    groups: tuple[int, ...]
    first: int
    rows: int


def shares_of(files: Sequence[str], kind: str | None) -> tuple[list[str], list[Share]]:
    """The columns of the first file, and every row group of all of them."""
    import pyarrow.parquet as parquet

    names: list[str] = []
    found: list[Share] = []
    for file in files:
        if format_of(file, kind) != "parquet":
            raise TableFileError(
                "this is a text file, and on a cluster files are Parquet.",
                file=called(file),
                remedies=(
                    "turn it into Parquet",
                    Remedy("read it into a Dask dataframe", "dask.dataframe.read_csv", dataframe=...),
                ),
            )
        if file.endswith(".gz"):
            raise TableFileError(
                "it is packed, and on a cluster files are read in parts.", file=called(file), remedies="unpack it"
            )
        try:
            about = parquet.read_metadata(file)
        except Exception as error:  # pyarrow has several
            why = f"it cannot be read as parquet: {first_line(error)}"
            raise TableFileError(why, file=called(file)) from error
        if not names:
            names = data_names(about.schema.to_arrow_schema().names)
            check_names(names, called(file))
        first = 0
        for group in range(about.num_row_groups):
            rows = about.row_group(group).num_rows
            found.append(Share(file, (group,), first, rows))
            first += rows
    return names, found


def rows_of_a_part(total: int) -> int:
    """About how many rows each part has."""
    return min(MOST, max(-(-total // MANY), min(-(-total // FEW), ENOUGH)))


def parted(shares: Sequence[Share]) -> Iterator[list[Share]]:
    """Parts of about as many rows, in order; row groups of one file that follow each other are one share."""
    enough = rows_of_a_part(sum(share.rows for share in shares))
    part: list[Share] = []
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
