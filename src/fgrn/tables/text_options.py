"""How text tables are written: the checked options for reading them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import SchemaError, TableFileError
from .columns import plain_value
from .missing import MISSING


@dataclass(frozen=True)
class TextOptions:
    """How text tables are written; see `table_file.read`. Invalid options are a TableFileError.

    Attributes:
        missing: the words that mean a missing value; given as a word, a number, a list, or None for the usual words.
        missing_by_default: whether it was None, so that a warning lists the words that occurred.
        header: whether the first line has the names of the columns.
        delimiter: the character between values; None to find it in the first lines.
        encoding: the encoding of the text; None for that of the byte order mark, or UTF-8.
        decimal: the decimal mark of numbers.
    """

    missing: Any = None
    header: bool = True
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    missing_by_default: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing_by_default", self.missing is None)
        object.__setattr__(self, "missing", _missing_as_words(self.missing))
        if not isinstance(self.header, (bool, np.bool_)):
            raise TableFileError(
                f"is True if the first line names the columns, or else False. Got {self.header!r} instead.",
                setting="header",
                value=self.header,
            )
        between = self.delimiter
        is_plain = isinstance(between, str) and len(between) == 1 and between.isascii() and between not in '\r\n"\0'
        if between is not None and not is_plain:
            raise TableFileError(
                f"is one plain character between values. Got {between!r}.", setting="delimiter", value=between
            )
        if self.encoding is not None and not isinstance(self.encoding, str):
            raise TableFileError(
                f"is the name of an encoding, such as 'cp1252'. Got {self.encoding!r} instead.",
                setting="encoding",
                value=self.encoding,
            )
        if not isinstance(self.decimal, str) or self.decimal not in (".", ","):
            raise TableFileError(
                f"is the decimal mark of numbers: . or a comma. Got {self.decimal!r}.",
                setting="decimal",
                value=self.decimal,
            )


def _missing_as_words(missing: Any) -> tuple[str, ...]:
    """Return the words that mean a missing value in a text; numbers are converted to words."""
    if missing is None:
        return MISSING
    try:
        values = [plain_value(value, "missing") for value in settings.one_or_more("missing", missing, TableFileError)]
    except SchemaError as error:
        raise TableFileError(
            f"is a list of words and numbers. Got {missing!r} instead.", setting="missing", value=missing
        ) from error
    return tuple(str(value).strip() for value in values if value is not None)
