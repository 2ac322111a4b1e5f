"""The definition of a missing value: None, NaN and similar values in any table, and words such as "?" and "NA"."""

from __future__ import annotations

import numpy as np

from ..core.arrays import is_masked

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Words that mean a missing value in tables, in files and in memory alike, unless the user lists others.

A `Column` knows whether they do for its values, and which other values mean a missing one.
"""


def is_missing_value(value: object) -> bool:
    """Return whether a value is missing: None, NaN, NaT, NA of pandas, or the masked value of NumPy."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType") or (is_masked(value) and value is np.ma.masked)


def is_missing_word(value: object) -> bool:
    """Return whether a value is one of the words that mean a missing value, ignoring spaces around it."""
    return isinstance(value, str) and value.strip() in MISSING
