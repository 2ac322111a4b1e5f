"""The common interface of analysis results: a table, sentences about it, and both as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from ..tables.outputs import frame_of_records, table_like


def sentences_frame(sentences: Iterable[str], name: str = "note") -> Any:
    """Return sentences as a pandas data frame with one column, which may be empty."""
    return table_like("pandas", {name: list(sentences)})


class Result:
    """Base class of results: a table with a row for each mapping of `as_dicts`, and `notes`."""

    _table_name: ClassVar[str] = "estimates"

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per row of the table."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return frame_of_records(self.as_dicts())

    @property
    def notes(self) -> Sequence[str]:
        """Explanations and cautions, in sentences."""
        return ()

    @property
    def frames(self) -> dict[str, Any]:
        """Return all results as pandas data frames, by name; "notes" are the sentences printed below the table."""
        return {self._table_name: self.to_frame(), **self._other_frames(), "notes": sentences_frame(self.notes)}

    def _other_frames(self) -> dict[str, Any]:
        """Return further data frames, by name."""
        return {}
