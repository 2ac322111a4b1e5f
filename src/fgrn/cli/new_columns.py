"""Names of the columns that a command adds to a table."""

from __future__ import annotations

from collections.abc import Collection

from .terminal import print_message


class NewColumns:
    """The columns that a command adds to a table; names already in use get underscores, which is reported once."""

    def __init__(self) -> None:
        self._renamed: dict[str, str] = {}

    def unused_name(self, name: str, taken: Collection[str]) -> str:
        """Return a name that the table does not have."""
        found = name
        while found in taken:
            found += "_"
        if found != name:
            self._renamed[name] = found
        return found

    def print_renamed(self) -> None:
        """Print which columns were written under other names."""
        if self._renamed:
            pairs = ", ".join(f"{name!r} is written as {found!r}" for name, found in self._renamed.items())
            print_message(f"The table has columns of these names already: {pairs}.")
