"""Labels of states: which values are labels, when a number is a position, and how numbers are printed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

Label: TypeAlias = str | int | float | bool
Labels: TypeAlias = tuple[Label, ...] | range

PLAIN = (1e-5, 1e15)
"""The range of absolute values that are printed without an exponent: from the first, and below the second."""


def takes_codes(labels: Labels) -> bool:
    """Return whether an integer can mean the position of a state: only where it cannot be taken for a label.

    It cannot where labels are numbers, or numbers written as text: with the labels "1", "2", "3" the position 1 would
    be the second state and the label 1 the first. With "0", "1", "2" both readings agree.
    """
    if isinstance(labels, range):
        return False
    return all(label == str(position) or not is_number(label) for position, label in enumerate(labels))


def is_text(value: str) -> bool:
    """Return whether a string can be encoded as UTF-8, that is, has no lone surrogate."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_binned(labels: Labels) -> bool:
    """Return whether the labels are names of bins, as `bin_names` makes them."""
    return len(labels) > 1 and str(labels[0]).startswith("< ") and str(labels[-1]).startswith(">= ")


def bin_names(edges: Sequence[str]) -> list[str]:
    """Return a label for each bin between edges that are written as texts."""
    return [f"< {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f">= {edges[-1]}"]


def bin_of(labels: Labels, number: float) -> int | None:
    """Return the position of the bin that holds a number, from the labels of bins; None if there is none.

    The labels have the edges as they are shown, with few digits.
    """
    if not is_binned(labels) or not isfinite(number):
        return None
    shown = [str(labels[0]).removeprefix("< "), *(str(label).rpartition(" to ")[2] for label in labels[1:-1])]
    if list(labels) != bin_names(shown) or not all(map(is_number, shown)):
        return None
    return bisect_right([float(edge) for edge in shown], number)


def is_number(label: Label) -> bool:
    """Return whether a label is a number or a text that can be read as one."""
    try:
        float(label)
    except ValueError:
        return False
    except OverflowError:  # an integer beyond the range of float
        return True
    return True


def labels_of_codes(labels: Labels, codes: np.ndarray) -> np.ndarray:
    """Return the label of each code, as an array of their common type or, for mixed types, of objects."""
    if isinstance(labels, range):
        return np.asarray(codes, dtype=np.int64)
    alike = len({type(label) for label in labels}) == 1
    names = np.array(labels) if alike else np.array([*labels, None], dtype=object)[:-1]
    out: np.ndarray = names[codes]
    return out


@lru_cache(maxsize=1024)
def codes_of_labels(labels: Labels) -> dict[Any, int]:
    """Return the code of every label and, if labels are words, of every code itself."""
    table: dict[Any, int] = {label: code for code, label in enumerate(labels)}
    if takes_codes(labels):
        table.update((code, code) for code in range(len(labels)))
    return table


def code_type(most: int) -> type[np.signedinteger[Any]]:
    """Return the narrowest integer type that holds the codes of `most` states."""
    return np.int8 if most <= 2**7 else np.int16 if most <= 2**15 else np.int32


def plain_number(value: float, digits: int) -> str:
    """Return a number rounded to `digits` significant digits, without an exponent in the range `PLAIN`."""
    text = f"{value:.{digits}g}"
    rounded = float(text)
    if not rounded or PLAIN[0] <= abs(rounded) < PLAIN[1]:
        return str(np.format_float_positional(rounded or 0.0, trim="-"))
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def shown_number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, or more if its integer part has more."""
    whole = len(str(int(abs(value)))) if abs(value) < PLAIN[1] else 0
    return plain_number(value, max(digits, whole))
