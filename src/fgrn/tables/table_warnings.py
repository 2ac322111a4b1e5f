"""Warnings about tables to learn from: words taken as missing values, a first row taken as names, identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.exceptions import LongNumbersWarning, Remedy, SchemaError, TableWarning, counted, shortened, warn
from ..core.labels import is_number, is_text
from . import frames
from .columns import Column, checked_dictionary, row_of
from .distinct_values import Distinct
from .missing import is_missing_value, is_missing_word
from .number_spelling import number_spelling

DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?!\d)")
"""How a date begins: 2024-03-01, 1.3.2024 or 03/01/2024."""

PART_OF_DATE = "make a number or a part of them a column, such as the year, the month or the weekday"
"""What to do with a column of dates."""

MOST_LISTED = 3
"""The most columns that one warning lists."""

FEW_ROWS, DIFFERENT = 20, 0.9
"""In a table of more rows than FEW_ROWS, a column in which a larger share of the values is different looks like an
identifier."""

MOST_NAMED = 20
"""The most columns of one kind that the error for unfit columns names."""


def warn_of_missing_words(words: Mapping[str, Mapping[Any, int | None]]) -> None:
    """Warn which words were taken as missing values, in how many rows, and how to keep them as levels.

    Args:
        words: by column the words, and the number of rows of each, None if not known.
    """
    parts = []
    for name, rows in words.items():
        known = [count for count in rows.values() if count is not None]
        where = f" in {counted(sum(known), 'row')}" if known else ""
        parts.append(f"column {name!r}: {shortened([repr(word) for word in rows], 4)}{where}")
    if parts:
        more = [counted(len(parts) - MOST_LISTED, "more column")] if len(parts) > MOST_LISTED else []
        warn(
            f"Words taken as missing values: {'; '.join([*parts[:MOST_LISTED], *more])}.",
            TableWarning,
            value=next(iter(next(iter(words.values())))),
            remedies=Remedy("keep them as levels", "missing=() (of an estimator, missing_values=())", missing=()),
        )


def words_as_missing(found: Mapping[str, Column], values: Mapping[str, Any]) -> dict[str, dict[Any, int | None]]:
    """Return by column the words taken as missing values, and the number of rows of each, None if not known.

    Args:
        found: the columns of the schema.
        values: the same columns as they were read.
    """
    words: dict[str, dict[Any, int | None]] = {}
    for name, column in found.items():
        if column.missing:
            rows: dict[Any, int] = {}
            if not isinstance(values[name], Distinct):
                apart = checked_dictionary(values[name], name)
                rows = dict(zip(apart.values, apart.counts.tolist(), strict=True))
            words[name] = {word: rows.get(word) for word in column.missing}
    return words


def words_among_numbers(counts: Mapping[Any, float]) -> list[str]:
    """Return the values that are not numbers if they are at most 5 % of a column of numbers, else none.

    Args:
        counts: the distinct values of a column, and how often each occurs.
    """
    words = [value for value in counts if isinstance(value, str) and not is_number(value)]
    few = 20 * sum(counts[word] for word in words) <= sum(counts.values())
    return words if few and len(counts) > len(words) + 1 else []


def warn_of_missing_classes(name: str, found: Mapping[Any, int]) -> None:
    """Warn which words of the class column were taken as missing values, and how to keep them."""
    warn(
        f"{shortened([repr(word) for word in found], 4)} in {counted(sum(found.values()), 'row')} taken as missing: "
        "the class of these rows is unknown.",
        TableWarning,
        column=name,
        value=next(iter(found)),
        remedies=Remedy("keep it as a class", missing_values=()),
    )


def count_missing_words(values: Any, column: Column) -> dict[Any, int]:
    """Return the words of a column that were taken as missing values, and how often each occurs."""
    if frames.is_numbers(values):
        return {}
    apart = checked_dictionary(values, column.name)
    counts = zip(apart.values, apart.counts.tolist(), strict=True)
    return {word: n for word, n in counts if n and is_missing_word(word) and column.is_missing(word)}


def count_values(values: Any) -> dict[Any, int]:
    """Return the distinct known values of a column, and how often each occurs."""
    if frames.is_numbers(values):
        found, often = np.unique(values[values == values], return_counts=True)
        return dict(zip(found.tolist(), often.tolist(), strict=True))
    apart = frames.dictionary_encoded(values)
    if not isinstance(apart, frames.DictionaryColumn):  # no values of a table, but they can be counted by their text
        apart = frames.dictionary_encoded(
            [None if is_missing_value(value) else str(value) for value in frames.as_list(values)]
        )
    pairs = zip(apart.values, apart.counts.tolist(), strict=True)
    return {value: count for value, count in pairs if count and not is_missing_value(value)}


def identifier_warning(name: str, counts: Mapping[Any, int], rows: int) -> TableWarning | None:
    """Return the warning of a column that looks like an identifier, as nearly every value is different; else None.

    Args:
        name: of the column.
        counts: its known values, and how often each occurs.
        rows: of the table.
    """
    known = sum(counts.values())
    if rows <= FEW_ROWS or len(counts) <= DIFFERENT * known or any(map(_is_measured, counts)):
        return None
    return _identifier(name, f"{'every' if len(counts) == known else 'nearly every'} value is different")


def _identifier(name: str, why: str) -> TableWarning:
    """Return the warning of a column that may be an identifier."""
    return TableWarning(f"{why}: an identifier?", column=name, remedies=Remedy("if so, leave it out", "", drop=name))


def _counts_rows(values: Any) -> bool:
    """Return whether a column of numbers is 1, 2, 3, ... from some number on, in any order, without missing values."""
    if not frames.is_numbers(values) or len(values) <= FEW_ROWS:
        return False
    low, high = values.min(), values.max()
    whole = high - low == len(values) - 1 and bool((values == np.round(values)).all())  # False with NaN
    return whole and len(np.unique(values)) == len(values)


def _is_measured(value: Any) -> bool:
    """Return whether a value is a number with a fraction, which no identifier has."""
    return isinstance(value, (float, np.floating)) and not float(value).is_integer()


def warn_of_identifiers(found: Iterable[Column], values: Mapping[str, Any], few: int) -> None:
    """Warn of columns that look like identifiers, and are learnt: of few words, or numbers that count the rows.

    Other numbers in bins, of which nearly all are different, may be measured.

    Args:
        found: the columns of the schema.
        values: the same columns as they were read.
        few: the rows of a table, at most, in which all words may be different; of more rows they are refused.
    """
    for column in found:
        if not column.levels or isinstance(values[column.name], Distinct):
            continue
        if column.is_binned:
            if _counts_rows(values[column.name]):
                warn(_identifier(column.name, "its whole numbers count the rows"), TableWarning)
        elif frames.row_count(values) <= few:
            counts = count_values(values[column.name])
            known = {value: count for value, count in counts.items() if not column.is_missing(value)}
            warning = identifier_warning(column.name, known, frames.row_count(values))
            if warning is not None:
                warn(warning, TableWarning)


def warn_of_spaces(found: Iterable[Column]) -> None:
    """Warn of levels that begin or end with a space, which cannot be seen where they are shown."""
    spaced = {
        column.name: [level for level in column.levels if isinstance(level, str) and level != level.strip()]
        for column in found
    }
    spaced = {name: levels for name, levels in spaced.items() if levels}
    if not spaced:
        return
    (name, levels), *others = spaced.items()
    more = counted(len(others), "more column has such levels.", "more columns have such levels.")
    what = "begins or ends with a space, and is" if len(levels) == 1 else "begin or end with a space, and are"
    same = "the same word" if len(levels) == 1 else "the same words"
    warn(
        f"{shortened([repr(level) for level in levels], 4)} {what} not {same} as without it."
        f"{f' {more}' if others else ''}",
        TableWarning,
        column=name,
        value=levels[0],
        remedies="strip them (pandas: frame[column].str.strip()), in training and in prediction",
    )


def warn_of_names_like_values(columns: Iterable[Column]) -> None:
    """Warn if the names of the columns look like a row of the table."""
    known = list(columns)
    if names_are_values(known):
        warn(
            f"The names of the columns look like a row: each is a value of its own column "
            f"({shortened([column.name for column in known], 4)}).",
            TableWarning,
            remedies=Remedy("if the first line is a row, read it", "header=False (pandas: header=None)", header=False),
        )


def names_are_values(columns: Iterable[Column]) -> bool:
    """Return whether the name of every column looks like one of its values, as if a row was read as names."""
    known = [column for column in columns if column.levels]
    numbers = [int(column.name) for column in known if column.name.strip().isdecimal()]
    # names such as 1, 2, 3, ... or years are not values
    numbered = len(numbers) == len(known) and len({b - a for a, b in pairwise(numbers)}) <= 1
    return len(known) > 1 and not numbered and all(map(_is_value_of_itself, known))


def _is_value_of_itself(column: Column) -> bool:
    """Return whether the name of a column is one of its values, also without the ".1" pandas appends."""
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
    margin = 1.5 * (high - low) or abs(low)  # nearly all values are that close to the edges
    return is_number(name) and low - margin <= float(name) <= high + margin


def check_text(column: frames.DictionaryColumn, name: str, rows: bool) -> None:
    """Raise SchemaError for words that no file can hold; the error names the row if `rows` is true."""
    for place, value in enumerate(column.values):
        if isinstance(value, str) and not is_text(value):
            raise _no_text(value, row=row_of(column, place) if rows else None, column=name)


def check_column_name(name: str) -> None:
    """Raise SchemaError if the name of a column is not valid text."""
    if not is_text(name):
        raise _no_text(name)


def _no_text(value: str, **place: Any) -> SchemaError:
    """Return the error for a string with a lone surrogate."""
    what = f"{value!r}{'' if place else ', the name of a column,'} is not text"
    return SchemaError(
        f"{what}: it holds half of a pair of surrogates, which no file can hold.",
        value=value,
        remedies="replace it",
        **place,
    )


def are_dates(levels: Iterable[Any]) -> bool:
    """Return whether all levels are words that begin with a date."""
    return all(isinstance(level, str) and DATE.match(level) for level in levels)


def too_many_levels(name: str, levels: Sequence[Any], rows: int, what: str, unused: bool) -> SchemaError:
    """Return the error for a column of words with more levels than are allowed.

    They may be dates, numbers written as text, an identifier, or just many levels.

    Args:
        name: of the column.
        levels: its distinct values.
        rows: of the table.
        what: the values are called.
        unused: whether no row has some of them.
    """
    many, out = f"{len(levels):,} {what} in {counted(rows, 'row')}", Remedy("leave it out", "", drop=name)
    if are_dates(levels):
        return SchemaError(f"{many} are dates.", column=name, remedies=(PART_OF_DATE, out))
    if (spelt := number_spelling(levels)) is not None:
        return SchemaError(
            f"{many} are {spelt.what}.",
            column=name,
            remedies=(spelt.remedy, out, Remedy("allow so many levels", max_levels=len(levels))),
        )
    return SchemaError(
        f"{many} {'looks like an identifier' if len(levels) > rows / 2 else 'are many levels'}.",
        column=name,
        remedies=(
            out,
            "leave out the categories that no row has" if unused else "",
            Remedy("allow so many levels", max_levels=len(levels)),
        ),
    )


def one_error_of_columns(errors: Sequence[SchemaError]) -> SchemaError:
    """Return the errors of several columns as one, so that all of them can be put right at once.

    Columns with the same remedies share them: "leave them out with --drop a --drop b".
    """
    kinds: dict[tuple[str, ...], list[SchemaError]] = {}
    for error in errors:
        texts = [one if isinstance(one, str) else one.text for one in error.remedies]
        kinds.setdefault(tuple(texts), []).append(error)
    first, *others = [_error_of_kind(alike) for alike in kinds.values()]
    return first.changed(others=others) if others else first


def _error_of_kind(errors: Sequence[SchemaError]) -> SchemaError:
    """Return the error of columns whose remedies are the same but for the names and values in their settings."""
    first = errors[0]
    if len(errors) == 1:
        return first
    rest = [f"{one.place}: {one.message}" for one in errors[1:MOST_LISTED]]
    if more := errors[MOST_LISTED:]:
        names = shortened([repr(one.column) for one in more], MOST_NAMED - MOST_LISTED)
        rest.append(f"The same holds for {'column' if len(more) == 1 else 'columns'} {names}.")
    remedies = [_shared_remedy(alike) for alike in zip(*(one.remedies for one in errors), strict=True)]
    return first.changed(message=" ".join([first.message, *rest]), remedies=remedies)


def _shared_remedy(alike: Sequence[Remedy | str]) -> Remedy | str:
    """Return one remedy for several columns, from that of each: all names, and the largest number of levels."""
    first = alike[0]
    if isinstance(first, str):
        return first
    settings: dict[str, Any] = {}
    for setting in first.settings:
        values = list(dict.fromkeys(one.settings[setting] for one in alike if isinstance(one, Remedy)))
        several: Any = max(values) if setting == "max_levels" else ... if len(values) > MOST_NAMED else values
        settings[setting] = several if len(values) > 1 else values[0]
    text = re.sub(r"\bit holds\b", "they hold", first.text)
    return Remedy(re.sub(r"\bit\b", "them", text), first.python, **settings)


def warn_of_long_numbers(name: str, levels: Sequence[Any], numbers: np.ndarray) -> None:
    """Warn if whole numbers that go into bins are too long to be told apart as float64: `levels` as `numbers`."""
    if not len(numbers) or np.abs(numbers).max() < 2.0**53:
        return
    apart = len(np.unique(numbers))
    if 1 < apart < len(levels):  # one is an error
        warn(
            f"its whole numbers are beyond 2^53, where they are told apart to 16 digits only: {len(levels):,} "
            f"different ones become {apart:,} in bins.",
            LongNumbersWarning,
            column=name,
            value=next(level for level in levels if abs(level) >= 2**53),
            remedies=(
                Remedy("if it holds identifiers, leave it out", "", drop=name),
                "subtract their smallest from all of them",
            ),
        )
