"""Tables as results: a table with some columns replaced, of the same kind as the input and, if possible, its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..core.arrays import is_masked
from ..core.exceptions import FgrnError
from ..core.labels import plain_number
from ..core.settings import name_of
from .frames import Data, as_list, is_bare, is_batch, narwhals_frame


def with_columns_replaced(data: Data, plain: Mapping[str, Any], filled: Mapping[str, Sequence[Any]]) -> Data:
    """Return a table with some columns replaced, of the same kind: lists stay lists, frames stay frames.

    `plain` has the columns as they were read: an iterator in `data` is exhausted by then.
    """
    if isinstance(data, Mapping):
        kept = {
            name: as_list(plain[name_of(name)]) if isinstance(column, Iterator) else column
            for name, column in data.items()
        }
        values = {name: filled[name_of(name)] for name in data if name_of(name) in filled}
        if all(map(is_bare, plain.values())):  # one row written without lists
            return {name: values[name][0] if name in values else column for name, column in kept.items()}
        return {name: _column_like(column, values[name]) if name in values else column for name, column in kept.items()}
    if isinstance(data, np.ndarray):
        return _structured_like(data, {name: _column_like(data[name], values) for name, values in filled.items()})
    import narwhals.stable.v1 as nw

    frame = narwhals_frame(data)
    if frame.implementation.is_pandas():
        out = frame.to_native().copy()
        for name in filled:  # names need not be text
            out[name] = _column_like(out[name], filled[name])
        return out
    new = {name: _column_like(frame[name].to_native(), values) for name, values in filled.items()}
    series = [nw.from_native(column, series_only=True).alias(name) for name, column in new.items()]
    native = frame.with_columns(*series).to_native()
    if is_batch(data):
        return native.combine_chunks().to_batches()[0]
    return native.lazy() if isinstance(nw.from_native(data), nw.LazyFrame) else native


def _structured_like(data: np.ndarray, new: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return a structured array with new columns, whose types may differ from the old ones."""
    columns = {name: new.get(name, data[name]) for name in data.dtype.names or ()}
    kinds = [(name, column.dtype, column.shape[1:]) for name, column in columns.items()]
    out = np.empty(data.shape, dtype=kinds)
    for name, column in columns.items():
        out[name] = column
    return out if is_masked(data) else out.view(type(data))


def as_array(columns: Sequence[Any]) -> np.ndarray:
    """Return columns side by side as an array: of numbers if all columns are, else of objects."""
    arrays = [np.asarray(as_list(column)) for column in columns]
    if all(array.dtype.kind in "biuf" for array in arrays):
        return np.stack(arrays, axis=1)
    out = np.empty((len(arrays[0]), len(arrays)), dtype=object)
    for position, column in enumerate(columns):
        out[:, position] = as_list(column)
    return out


def frame_of(library: str, columns: Mapping[str, Any]) -> Any:
    """Return columns as a frame of "pandas", "polars" or "pyarrow"."""
    import narwhals.stable.v1 as nw

    try:
        backend: Any = nw.Implementation.from_string(library)
        return nw.from_dict(dict(columns), backend=backend).to_native()
    except ImportError as error:
        raise FgrnError(f"The frame is one of {library}, which is not installed: pip install {library}.") from error
    except (AttributeError, ValueError, TypeError, AssertionError) as error:  # the last is that of narwhals 2.0
        raise FgrnError(
            f"The 'backend' is the name of a library of frames: 'pandas', 'polars', 'pyarrow'. Got {library!r}."
        ) from error


def table_like(kind: str, columns: Mapping[str, Any]) -> Data:
    """Return columns as a table of a kind given by `frames.kind_of`; a mapping if its library is not installed."""
    if kind == "array":
        return as_array(list(columns.values()))
    if kind == "mapping":
        return dict(columns)
    with suppress(FgrnError):
        return frame_of(kind, columns)
    return dict(columns)


def frame_of_records(records: Sequence[Mapping[str, Any]]) -> Data:
    """Return records, mappings with the same keys, as a pandas data frame with a row for each."""
    names = list(records[0]) if records else []
    return table_like("pandas", {name: [record[name] for record in records] for name in names})


def _column_like(column: Any, values: Sequence[Any]) -> Any:
    """Return new values for a column as the same kind of container and, where they fit, of the same type."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if isinstance(column, np.ndarray):
        return _array_like(column, values)
    if isinstance(column, tuple):
        return tuple(values)
    rebuild = {"pandas": _pandas_like, "polars": _polars_like, "pyarrow": _arrow_like}
    library = type(column).__module__.split(".")[0]
    return rebuild[library](column, values) if library in rebuild else values


def _array_like(column: np.ndarray, values: list[Any]) -> np.ndarray:
    kinds = {type(value) for value in values}
    if column.ndim == 1 and column.dtype.kind in "biuf" and kinds <= {bool, int, float}:
        whole = column.dtype.kind == "f" or all(value == int(value) for value in values)
        return np.array(values, dtype=column.dtype if whole else np.float64)
    if len(kinds) > 1 or (column.ndim == 1 and column.dtype.kind == "O"):
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out
    return np.array(values) if values else np.array(values, dtype=column.dtype)


def _pandas_like(column: Any, values: list[Any]) -> Any:
    import pandas as pd

    if not isinstance(column, pd.Series):
        return values
    categories = getattr(column.dtype, "categories", None)
    if categories is None or set(values) <= set(categories):
        try:
            return pd.Series(values, index=column.index, dtype=column.dtype, name=column.name)
        except Exception:  # dtypes of pandas come from several libraries with different errors
            pass
    return pd.Series(values, index=column.index, name=column.name)


def _polars_like(column: Any, values: list[Any]) -> Any:
    import polars as pl

    if column.dtype != pl.Null:  # the type of a column without values, which holds no value
        with suppress(TypeError, pl.exceptions.PolarsError):
            return pl.Series(column.name, values, dtype=column.dtype)
    return pl.Series(column.name, values, strict=False)


def _arrow_like(column: Any, values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        new = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # words among numbers, which a column of Arrow cannot hold
        new = pa.array([value if value is None or isinstance(value, str) else _as_word(value) for value in values])
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        new = new.cast(column.type)
    return pa.chunked_array([new]) if isinstance(column, pa.ChunkedArray) else new


def _as_word(value: Any) -> str:
    """Return a value as text; a number without an exponent."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_number(value, 17) if is_number else str(value)
