"""What looks odd in a table that is about to be learnt from: words for missing values, a row as names, no text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ..core.exceptions import SchemaError, TableWarning, counted, shortened, warn
from ..core.labels import is_missing_word, is_number, is_text
from . import frames
from .columns import Column, row_of, told_apart
from .distinct import Distinct

MOST_TOLD = 3
"""Columns of which one warning tells."""


def tell_missing(words: Mapping[str, Mapping[Any, int | None]]) -> None:
    """Warn that some words of a table were taken as missing values, and say how to keep them as levels.

    Args:
        words: by column, the words, and in how many rows each is, None where that is not known.
    """
    told = []
    for name, rows in words.items():
        known = [count for count in rows.values() if count is not None]
        where = f" in {counted(sum(known), 'row')}" if known else ""
        told.append(f"column {name!r}: {shortened([repr(word) for word in rows], 4)}{where}")
    if told:
        more = [counted(len(told) - MOST_TOLD, "more column")] if len(told) > MOST_TOLD else []
        warn(
            f"Words taken as missing values: {'; '.join([*told[:MOST_TOLD], *more])}. To keep them as levels, set "
            "missing=() (of an estimator, missing_values=()).",
            TableWarning,
        )


def words_as_missing(found: Mapping[str, Column], values: Mapping[str, Any]) -> dict[str, dict[Any, int | None]]:
    """By column of a schema, the words taken as missing values, and in how many rows each is, if that is known.

    Args:
        found: the columns of the schema.
        values: the same columns as they were read.
    """
    words: dict[str, dict[Any, int | None]] = {}
    for name, column in found.items():
        if column.missing:
            rows: dict[Any, int] = {}
            if not isinstance(values[name], Distinct):
                apart = told_apart(values[name], name)
                rows = dict(zip(apart.values, apart.counts.tolist(), strict=True))
            words[name] = {word: rows.get(word) for word in column.missing}
    return words


def words_among_numbers(counts: Mapping[Any, float]) -> list[str]:
    """The values that are no numbers, in a column where nearly all are: at most one of twenty, by how often they are.

    Args:
        counts: the different known values of a column, and how often each is there.
    """
    words = [value for value in counts if isinstance(value, str) and not is_number(value)]
    few = 20 * sum(counts[word] for word in words) <= sum(counts.values())
    return words if few and len(counts) > len(words) + 1 else []


def tell_missing_classes(name: str, found: Mapping[Any, int]) -> None:
    """Say which words of a column of classes were taken for missing values, in how many rows, and how to keep them."""
    warn(
        f"Class {name!r}: {shortened([repr(word) for word in found], 4)} in {counted(sum(found.values()), 'row')} "
        "taken as missing. To keep it as a class, set missing_values=().",
        TableWarning,
    )


def missing_words(values: Any, column: Column) -> dict[Any, int]:
    """The words of a column that were taken for missing values, and how often each is there."""
    if frames.is_numbers(values):
        return {}
    apart = told_apart(values, column.name)
    counts = zip(apart.values, apart.counts.tolist(), strict=True)
    return {word: n for word, n in counts if n and is_missing_word(word) and column.is_missing(word)}


def doubt_names(columns: Iterable[Column]) -> None:
    """Warn of names of columns that look like a row."""
    known = list(columns)
    if names_are_values(known):
        warn(
            f"The names of the columns look like a row: each is a value of its own column "
            f"({shortened([column.name for column in known], 4)}). If the first line of the table is a row, read it "
            "with header=False (pandas: header=None).",
            TableWarning,
        )


def names_are_values(columns: Iterable[Column]) -> bool:
    """Whether the name of every column looks like a value of it, as where a row was read as the line of names."""
    known = [column for column in columns if column.levels]
    numbers = [int(column.name) for column in known if column.name.strip().isdecimal()]
    numbered = len(numbers) == len(known) and len({b - a for a, b in pairwise(numbers)}) <= 1  # counted, or years
    return len(known) > 1 and not numbered and all(map(_is_value_of_itself, known))


def _is_value_of_itself(column: Column) -> bool:
    """Whether the name of a column is one of its values; pandas makes equal names different by ".1", ".2", ..."""
    shorter = column.name.rpartition(".")[0] or column.name
    return is_missing_word(column.name) or _is_value(column, column.name) or _is_value(column, shorter)


def _is_value(column: Column, name: str) -> bool:
    if not column.is_numeric:
        _, unseen = column.codes([name])
        return not unseen
    if not column.is_binned:
        numbers = [float(level) for level in column.levels]
        return is_number(name) and min(numbers) <= float(name) <= max(numbers)
    low, high = column.edges[0], column.edges[-1]
    room = 1.5 * (high - low) or abs(low)  # around the edges, where nearly all values are
    return is_number(name) and low - room <= float(name) <= high + room


def check_text(column: frames.Factored, name: str, rows: bool) -> None:
    """Refuse words that are no text, naming the row where `rows` are those of the table: no file could hold them."""
    for place, value in enumerate(column.values):
        if isinstance(value, str) and not is_text(value):
            raise _no_text(f"Row {row_of(column, place)}, {name!r}" if rows else f"Column {name!r}", value)


def check_name(name: str) -> None:
    """Refuse the name of a column, if it is no text."""
    if not is_text(name):
        raise _no_text("The name of a column", name)


def _no_text(where: str, value: str) -> SchemaError:
    return SchemaError(
        f"{where}: {value!r} is no text, for it holds half of a pair of surrogates, which no file can. Replace it."
    )
