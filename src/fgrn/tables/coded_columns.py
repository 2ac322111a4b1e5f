"""Columns as codes: each row has the position of its value. Series are encoded by value by their own library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .missing import is_missing_value

UNKNOWN = -1
"""The code of a missing value."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of codes: the position of each row's state, or UNKNOWN."""

    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def unknown(self) -> np.ndarray:
        """Which rows have a missing value: (rows,) of bool."""
        unknown: np.ndarray = self.codes == UNKNOWN
        return unknown


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A dictionary-encoded column: its distinct values, and for each row the position of its value.

    Attributes:
        codes: the position of each row's value, UNKNOWN where the column has none. Some of the values may be missing
            values, too.
        values: the distinct values; of a categorical column also the categories that no row has.
        categorical: whether the column came with its categories in order.
        ordered: whether the categories are ordered (ordinal).
    """

    codes: np.ndarray
    values: Sequence[Any]
    categorical: bool = False
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of rows that have each value."""
        return np.bincount(self.codes - UNKNOWN, minlength=len(self.values) + 1)[1:]

    @property
    def unknown(self) -> np.ndarray:
        """Which rows have a missing value: (rows,) of bool."""
        return self.spread([is_missing_value(value) for value in self.values], True, bool)

    @property
    def found(self) -> list[Any]:
        """The values that occur in some row."""
        return [value for value, count in zip(self.values, self.counts.tolist(), strict=True) if count]

    def spread(self, values: Sequence[Any] | np.ndarray, unknown: Any, kind: Any) -> np.ndarray:
        """Return an array (rows,) from one item per distinct value; `unknown` where a row has no value."""
        table = np.empty(len(self.values) + 1, dtype=kind)
        table[:-1] = values
        table[UNKNOWN] = unknown  # the last item, as UNKNOWN is -1
        out: np.ndarray = table[self.codes]
        return out

    def tolist(self) -> list[Any]:
        """Return the value of each row, None where it has none."""
        found = np.empty(len(self.values), dtype=object)
        found[:] = self.values
        return list(self.spread(found, None, object))


def series_by_value(series: Any) -> DictionaryColumn | None:
    """Return a narwhals series as a `DictionaryColumn`, encoded by its own library; None if that is not possible."""
    import narwhals.stable.v1 as nw

    native = series.to_native()
    if series.implementation.is_pandas() and hasattr(native.dtype, "pyarrow_dtype"):  # also dictionaries of Arrow
        return pandas_by_value(native)
    is_categorical = series.dtype in (nw.Categorical, nw.Enum)
    by_appearance = series.implementation.is_polars() and series.dtype == nw.Categorical  # an order until polars 1.32
    ordered = is_categorical and not by_appearance and nw.is_ordered_categorical(series)
    if series.implementation.is_pandas():
        if is_categorical:
            return DictionaryColumn(native.cat.codes.to_numpy(), native.cat.categories.tolist(), True, ordered)
        return pandas_by_value(native)
    import pyarrow as pa

    return _arrow_by_value(native if isinstance(native, pa.ChunkedArray) else series.to_arrow(), ordered)


def pandas_by_value(series: Any) -> DictionaryColumn | None:
    """Return a pandas series that is not categorical as a `DictionaryColumn`; None if that is not possible."""
    if getattr(series.dtype, "storage", None) == "pyarrow" or hasattr(series.dtype, "pyarrow_dtype"):
        import pyarrow as pa

        array = pa.array(series)
        return _arrow_by_value(array, pa.types.is_dictionary(array.type) and array.type.ordered)
    try:
        codes, values = series.factorize()
    except (TypeError, ValueError):  # lists, arrays
        return None
    found = values.tolist()
    mixed = series.dtype == object and any(value in (0, 1) for value in found if isinstance(value, (int, float)))
    return None if mixed else DictionaryColumn(codes, found)  # the library may have merged True and 1


def _arrow_by_value(array: Any, ordered: bool = False) -> DictionaryColumn | None:
    """Return an array of Arrow, in one chunk or several, as a `DictionaryColumn`; None if that is not possible."""
    import pyarrow as pa

    try:
        array = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        array = array.chunk(0) if array.num_chunks == 1 else array.unify_dictionaries().combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    indices = array.indices
    plain = indices.type == pa.int32() and not indices.null_count
    codes = (indices if plain else indices.cast(pa.int64()).fill_null(UNKNOWN)).to_numpy()
    return DictionaryColumn(codes, array.dictionary.to_pylist(), ordered, ordered)
