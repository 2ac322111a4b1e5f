"""Types of text columns: values are trimmed, missing values found, and columns of numbers converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

WHOLE_NUMBERS, NUMBERS, TEXT = range(3)
"""The types of columns, from special to general; a column with values of two types has the more general one."""


def encode_text(column: Any, missing: Any) -> tuple[Any, Counter[str]]:
    """Return a column of text as an Arrow dictionary of its distinct values, and the words for missing values in it.

    Values are trimmed, and null if they are missing. The words are counted in rows; an empty cell is not a word.

    Args:
        column: an Arrow array of strings.
        missing: an Arrow array of the words for missing values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = column.dictionary_encode()
    values = pc.utf8_trim_whitespace(coded.dictionary)
    is_missing = pc.is_in(values, value_set=missing)
    if values.equals(coded.dictionary) and not pc.any(is_missing).as_py():
        return coded, Counter()
    again = pc.if_else(is_missing, pa.scalar(None, pa.string()), values).dictionary_encode()
    out = pa.DictionaryArray.from_arrays(again.indices.take(coded.indices), again.dictionary)
    return out, _count_missing(coded.indices, values, is_missing)


def _count_missing(indices: Any, values: Any, is_missing: Any) -> Counter[str]:
    """Return the words for missing values, and the number of rows of each; an empty cell is not a word."""
    words = {place: values[place].as_py() for place in np.flatnonzero(is_missing.to_numpy(zero_copy_only=False))}
    if not any(words.values()):
        return Counter()
    rows = np.bincount(indices.drop_null().to_numpy(), minlength=len(values))
    met: Counter[str] = Counter()
    for place, word in words.items():
        met[word] += int(rows[place])
    del met[""]
    return met


def missing_values(missing: Sequence[str]) -> Any:
    """Return the words for missing values as an Arrow array, for `encode_text`."""
    import pyarrow as pa

    return pa.array(missing, pa.string())


def type_of(values: Any, decimal: str) -> int:
    """Return the type of distinct values; codes such as 007 and 0x10, and long identifiers, are text.

    So are numbers with points if the decimal mark is a comma: 1.200 is then more likely 1200 than 1.2.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(values, r"^[+-]?0[0-9xX]")).as_py():
        return TEXT
    if decimal == "," and pc.any(pc.match_substring(values, ".")).as_py():
        return TEXT
    with suppress(pa.ArrowInvalid):
        as_type(values, WHOLE_NUMBERS, decimal)
        return WHOLE_NUMBERS
    with suppress(pa.ArrowInvalid):
        as_type(values, NUMBERS, decimal)
        digits = values.filter(pc.match_substring_regex(values, r"^[+-]?[0-9]{19,}$"))
        as_type(
            pc.utf8_ltrim(digits, "+"), WHOLE_NUMBERS, decimal
        )  # as floats, different long identifiers would be equal
        return NUMBERS
    return TEXT


def as_type(values: Any, kind: int, decimal: str) -> Any:
    """Return text as integers, as numbers, or unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == TEXT:
        return values
    digits = pc.replace_substring(values, ",", ".") if decimal == "," else values
    return digits.cast(pa.float64() if kind == NUMBERS else pa.int64())


class ColumnTypes:
    """The types of the columns of text files in the rows read so far; see `type_of`."""

    def __init__(self, decimal: str) -> None:
        self.decimal = decimal
        self._types: dict[str, int] = {}
        self._known: set[str] = set()  # columns with a value that is not missing

    def see(self, table: Any) -> None:
        """Take a batch into account; its columns are Arrow dictionaries."""
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._types.get(name, WHOLE_NUMBERS)
            for part in column.chunks if kind < TEXT else ():
                if len(part.dictionary):
                    self._known.add(name)
                    kind = max(kind, type_of(part.dictionary, self.decimal))
            self._types[name] = kind

    def typed(self, table: Any) -> Any:
        """Return a batch with its columns converted to the types found so far; text stays in dictionaries."""
        import pyarrow as pa

        columns = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._types[name] if name in self._known else TEXT
            if kind != TEXT:
                parts = [as_type(part.dictionary, kind, self.decimal).take(part.indices) for part in column.chunks]
                column = pa.chunked_array(parts)
            columns.append(column)
        return pa.table(columns, names=table.column_names)
