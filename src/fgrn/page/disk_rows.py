"""The rows of a table file, read when a page requests them, so that the table need not fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..tables.stream import Stream


class RowsOnDisk:
    """The rows of a CSV, TSV or Parquet file by number; the batch of the last row stays in memory.

    Text is read once, into the cache of `Stream`. What a word means, missing or a label, the page decides by the model.
    """

    def __init__(self, source: str) -> None:
        self.name = Path(source).name
        self._stream = Stream(source, missing=())
        self.columns = list(self._stream.names)
        self.count = sum(batch.num_rows for batch in self._stream)
        self._first = 0
        self._batch: Any = None

    def about(self) -> dict[str, Any]:
        """Return the description of the table that a page has before it requests rows."""
        return {"name": self.name, "columns": self.columns, "count": self.count}

    def row(self, number: int) -> list[str]:
        """Return the values of a row as texts, "" for missing ones."""
        if not 0 <= number < self.count:
            raise IndexError(f"There is no row {number}; there are {self.count:,}, counted from 0.")
        if self._batch is None or not self._first <= number < self._first + self._batch.num_rows:
            self._seek(number)
        values = self._batch.slice(number - self._first, 1).to_pydict()
        return [_as_text(values[name][0]) for name in self.columns]

    def _seek(self, number: int) -> None:
        """Read up to the batch that contains a row."""
        first = 0
        for batch in self._stream:
            self._first, self._batch = first, batch
            first += batch.num_rows
            if number < first:
                return


def _as_text(value: Any) -> str:
    return "" if value is None or value != value else str(value)
