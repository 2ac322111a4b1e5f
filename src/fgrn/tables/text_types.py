"""Columns of text: trimmed, missing values found, and turned into numbers where all their values are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

WHOLE_NUMBERS, NUMBERS, TEXT = range(3)
"""What a column holds; a column that holds two of them holds the later one."""


def encode(column: Any, missing: Any) -> tuple[Any, Counter[str]]:
    """A column of text as an Arrow dictionary of its distinct values, and the words for missing values met in it.

    Values are trimmed, and null where they are missing. The words are counted by row; an empty cell is not a word.

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
    return out, _words_met(coded.indices, values, is_missing)


def _words_met(indices: Any, values: Any, is_missing: Any) -> Counter[str]:
    """The words for missing values, and in how many rows each is; an empty cell is not a word."""
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
    """The words for missing values, as `encode` takes them."""
    import pyarrow as pa

    return pa.array(missing, pa.string())


def type_of(values: Any, decimal: str) -> int:
    """What distinct values are: whole numbers, numbers, or text, as codes like 007, 0x10 and long identifiers are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(values, r"^[+-]?0[0-9xX]")).as_py():
        return TEXT
    with suppress(pa.ArrowInvalid):
        as_type(values, WHOLE_NUMBERS, decimal)
        return WHOLE_NUMBERS
    with suppress(pa.ArrowInvalid):
        as_type(values, NUMBERS, decimal)
        digits = values.filter(pc.match_substring_regex(values, r"^[+-]?[0-9]{19,}$"))
        as_type(pc.utf8_ltrim(digits, "+"), WHOLE_NUMBERS, decimal)  # as floats, long identifiers would be equal
        return NUMBERS
    return TEXT


def as_type(values: Any, kind: int, decimal: str) -> Any:
    """Text as whole numbers, as numbers, or as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == TEXT:
        return values
    digits = pc.replace_substring(values, ",", ".") if decimal == "," else values
    return digits.cast(pa.float64() if kind == NUMBERS else pa.int64())


class ColumnTypes:
    """What the columns of text files hold, as seen so far: numbers if all known values are; see `type_of`."""

    def __init__(self, decimal: str) -> None:
        self.decimal = decimal
        self._types: dict[str, int] = {}
        self._known: set[str] = set()  # columns with a value that is not missing

    def see(self, table: Any) -> None:
        """Take a batch into account, whose columns of text are Arrow dictionaries."""
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._types.get(name, WHOLE_NUMBERS)
            for part in column.chunks if kind < TEXT else ():
                if len(part.dictionary):
                    self._known.add(name)
                    kind = max(kind, type_of(part.dictionary, self.decimal))
            self._types[name] = kind

    def typed(self, table: Any) -> Any:
        """A batch with its columns in the types that were found; text stays as dictionaries."""
        import pyarrow as pa

        columns = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = self._types[name] if name in self._known else TEXT
            if kind != TEXT:
                parts = [as_type(part.dictionary, kind, self.decimal).take(part.indices) for part in column.chunks]
                column = pa.chunked_array(parts)
            columns.append(column)
        return pa.table(columns, names=table.column_names)
