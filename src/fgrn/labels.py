"""The names of states: what they may be, and when a number may stand for one."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Label: TypeAlias = str | int | float | bool
Labels: TypeAlias = tuple[Label, ...] | range


def takes_codes(labels: Labels) -> bool:
    """Whether a number may stand for the position of a state: only where it cannot be meant as a label.

    Not where labels are numbers, and not where they are numbers written as text: 1 would be taken for the second of
    "1", "2", "3". Of "0", "1", "2" it is the second either way.
    """
    if isinstance(labels, range):
        return False
    return all(label == str(position) or not is_number(label) for position, label in enumerate(labels))


def is_number(label: Label) -> bool:
    """Whether a label is a number, or a word that reads as one."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def named(labels: Labels, codes: np.ndarray) -> np.ndarray:
    """The labels of codes, as an array of their common type, or of objects."""
    if isinstance(labels, range):
        return np.asarray(codes, dtype=np.int64)
    alike = len({type(label) for label in labels}) == 1
    names = np.array(labels) if alike else np.array([*labels, None], dtype=object)[:-1]
    out: np.ndarray = names[codes]
    return out
