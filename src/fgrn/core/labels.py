"""The names of states: what they may be, and when a number may stand for one."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Label: TypeAlias = str | int | float | bool
Labels: TypeAlias = tuple[Label, ...] | range

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Words that stand for unknown in tables, in files and in memory alike, unless said otherwise."""

PLAIN = (1e-5, 1e15)
"""Numbers that are written without an exponent: from the first on, below the second."""


def takes_codes(labels: Labels) -> bool:
    """Whether a number may stand for the position of a state: only where it cannot be meant as a label.

    Not where labels are numbers, and not where they are numbers written as text: 1 would be taken for the second of
    "1", "2", "3". Of "0", "1", "2" it is the second either way.
    """
    if isinstance(labels, range):
        return False
    return all(label == str(position) or not is_number(label) for position, label in enumerate(labels))


def is_missing_word(value: object) -> bool:
    """Whether a value of a table is a word that stands for unknown, blanks around it apart."""
    return isinstance(value, str) and value.strip() in MISSING


def is_text(value: str) -> bool:
    """Whether a word can be written to a file: it has no half of a pair of surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_binned(labels: Labels) -> bool:
    """Whether these are the names of bins, as `columns.bin_labels` makes them."""
    return len(labels) > 1 and str(labels[0]).startswith("< ") and str(labels[-1]).startswith(">= ")


def is_number(label: Label) -> bool:
    """Whether a label is a number, or a word that reads as one."""
    try:
        float(label)
    except ValueError:
        return False
    except OverflowError:  # a whole number that no float can hold
        return True
    return True


def named(labels: Labels, codes: np.ndarray) -> np.ndarray:
    """The labels of codes, as an array of their common type, or of objects."""
    if isinstance(labels, range):
        return np.asarray(codes, dtype=np.int64)
    alike = len({type(label) for label in labels}) == 1
    names = np.array(labels) if alike else np.array([*labels, None], dtype=object)[:-1]
    out: np.ndarray = names[codes]
    return out


def plain_number(value: float, digits: int) -> str:
    """A number rounded to so many digits, without an exponent where people read it more easily so."""
    text = f"{value:.{digits}g}"
    rounded = float(text)
    if not rounded or PLAIN[0] <= abs(rounded) < PLAIN[1]:
        return str(np.format_float_positional(rounded or 0.0, trim="-"))
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def shown_number(value: float, digits: int = 4) -> str:
    """A number with so many digits, and more if its whole part has more."""
    whole = len(str(int(abs(value)))) if abs(value) < PLAIN[1] else 0
    return plain_number(value, max(digits, whole))
