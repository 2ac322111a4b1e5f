"""Any table in, the same kind of table out: a mapping of columns, or any dataframe narwhals knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .exceptions import EvidenceError

Data: TypeAlias = Any
"""A mapping of names to columns (lists, arrays, series, or one value for every row), or a dataframe."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column that has been read already: the position of each row's state, -1 where it is unknown."""

    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)


def columns(data: Data) -> dict[str, Any]:
    """The columns by name, each a list, an array, or one bare value that stands for every row."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return {_checked_name(name): plain(column, name) for name, column in data.items()}
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: np.asanyarray(data[name]) for name in data.dtype.names}
    frame = _narwhals_frame(data)
    return {_checked_name(name): _series_values(frame[name]) for name in frame.columns}


def rows_without_columns(data: Data) -> int:
    """How many rows a table without any column has: one, unless it is a frame, which knows."""
    if data is None or isinstance(data, Mapping):
        return 1
    return len(data) if isinstance(data, np.ndarray) else len(_narwhals_frame(data))


def replaced(data: Data, plain: Mapping[str, Any], filled: Mapping[str, Sequence[Any]]) -> Data:
    """The table with some columns replaced, as the kind it came in: lists stay lists, frames stay frames.

    `plain` are its columns as they were read: an iterator among them has been used up.
    """
    if isinstance(data, Mapping):
        kept = {name: plain[name] if isinstance(column, Iterator) else column for name, column in data.items()}
        if all(map(is_bare, plain.values())):  # one row written without lists
            return {name: filled[name][0] if name in filled else column for name, column in kept.items()}
        return {name: _like(column, filled[name]) if name in filled else column for name, column in kept.items()}
    if isinstance(data, np.ndarray):
        return _structured_like(data, {name: _like(data[name], values) for name, values in filled.items()})
    import narwhals.stable.v1 as nw

    frame = _narwhals_frame(data)
    new = {name: _like(frame[name].to_native(), values) for name, values in filled.items()}
    if frame.implementation.is_pandas():
        return frame.to_native().assign(**new)
    series = [nw.from_native(column, series_only=True).alias(name) for name, column in new.items()]
    native = frame.with_columns(*series).to_native()
    return native.lazy() if isinstance(nw.from_native(data), nw.LazyFrame) else native


def _structured_like(data: np.ndarray, new: Mapping[str, np.ndarray]) -> np.ndarray:
    columns = {name: new.get(name, data[name]) for name in data.dtype.names or ()}
    kinds = [(name, column.dtype, column.shape[1:]) for name, column in columns.items()]
    out = np.empty(data.shape, dtype=kinds)
    for name, column in columns.items():
        out[name] = column
    return out if np.ma.isMaskedArray(data) else out.view(type(data))


def is_bare(column: Any) -> bool:
    """Whether a column, as it was read, is one value that stands for every row."""
    return not isinstance(column, (list, np.ndarray, Coded)) or (isinstance(column, np.ndarray) and column.ndim == 0)


def is_one_row(data: Data) -> bool:
    """Whether this is one row of plain values, or nothing at all, and not a table."""
    return data is None or (isinstance(data, Mapping) and all(is_bare(column) for column in columns(data).values()))


def is_frame(data: Data) -> bool:
    """Whether this is a dataframe of some library, and not an array, a list or a mapping."""
    if isinstance(data, (np.ndarray, list, tuple, Mapping)) or data is None:
        return False
    return hasattr(data, "columns") or hasattr(data, "collect_schema")


def row_count(columns: Mapping[str, Any], least: int = 0) -> int:
    """The rows of columns as they were read, which all have as many."""
    lengths = {name: len(column) for name, column in columns.items() if not is_bare(column)}
    rows = next(iter(lengths.values()), 1)
    for name, length in lengths.items():
        if length != rows:
            first = next(iter(lengths))
            raise EvidenceError(
                f"Columns of one table have equally many rows, but {first!r} has {rows:,} and {name!r} has {length:,}."
            )
    if rows < least:
        raise EvidenceError(f"Found a table with {rows} rows while a minimum of {least} is required.")
    return rows


def taken(column: Any, rows: np.ndarray) -> Any:
    """Some of the rows of a column as it was read."""
    if isinstance(column, Coded):
        return Coded(column.codes[rows])
    if is_bare(column):
        return column
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows.tolist()]


def listed(column: Any) -> list[Any]:
    """The values of a column as it was read."""
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def as_objects(data: Data) -> np.ndarray:
    """A frame whose columns have no names, as an array of objects."""
    array: np.ndarray = np.asarray(data, dtype=object)
    return array


def as_array(columns: Sequence[Any]) -> np.ndarray:
    """Columns side by side: numbers if all are, else objects."""
    arrays = [np.asarray(listed(column)) for column in columns]
    if all(array.dtype.kind in "biuf" for array in arrays):
        return np.stack(arrays, axis=1)
    out = np.empty((len(arrays[0]), len(arrays)), dtype=object)
    for position, column in enumerate(columns):
        out[:, position] = listed(column)
    return out


def kind_of(data: Data) -> str:
    """What kind of table this is: "mapping", "array", or the library of a frame."""
    if isinstance(data, Mapping):
        return "mapping"
    return type(data).__module__.split(".")[0] if is_frame(data) else "array"


def table_like(kind: str, columns: Mapping[str, Any]) -> Data:
    """Columns as a table of some kind; a mapping where its library is not there."""
    if kind == "array":
        return as_array(list(columns.values()))
    if kind == "mapping":
        return dict(columns)
    import narwhals.stable.v1 as nw

    try:
        backend: Any = nw.Implementation.from_string(kind)
        return nw.from_dict(dict(columns), backend=backend).to_native()
    except (ImportError, ValueError):
        return dict(columns)


def only_row(data: Data, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The values of a table of one row, or of a list of values whose names are given."""
    if names is not None:
        array = np.asarray(data, dtype=object)
        if array.size != len(names):
            raise EvidenceError(f"One row has {len(names)} values. Got {array.size} instead.")
        return dict(zip(names, array.ravel().tolist(), strict=True))
    if hasattr(data, "index") and not hasattr(data, "columns"):  # a row of a frame of pandas
        return {_checked_name(name): value for name, value in data.items()}
    found = columns(data)
    if row_count(found) != 1:
        raise EvidenceError(f"One row is wanted here. This table has {row_count(found):,}.")
    return {name: column if is_bare(column) else column[0] for name, column in found.items()}


def categories(data: Data) -> dict[str, list[Any]]:
    """The categories, in their order, of the categorical columns of a frame."""
    if not is_frame(data):
        return {}
    frame = _narwhals_frame(data)
    found = {str(name): _categories(frame[name].to_native()) for name in frame.columns}
    return {name: levels for name, levels in found.items() if levels}


def states(data: Data) -> dict[str, list[Any]]:
    """The states found in each column of a table, in order: what the ready-made networks take as `observed`.

    Unknown values are left out. Numbers and words are sorted; the order of a categorical column is kept.
    """
    found: dict[str, list[Any]] = {}
    for name, column in columns(data).items():
        values = [column] if is_bare(column) else (column.tolist() if isinstance(column, np.ndarray) else column)
        if any(is_distribution(value) for value in values):
            raise EvidenceError(f"Column {name!r} holds distributions, which do not say what its states are called.")
        distinct = dict.fromkeys(v.item() if isinstance(v, np.generic) else v for v in values if not is_unknown(v))
        given = _categories(data[name]) if not isinstance(column, np.ndarray) and data is not None else []
        order = {value: position for position, value in enumerate(given)}
        found[name] = sorted(distinct, key=lambda v: (order.get(v, len(order)), isinstance(v, str), v))
        if not distinct:
            raise EvidenceError(f"Column {name!r} has no known value, so its states cannot be found. Leave it out.")
    return found


def _categories(column: Any) -> list[Any]:
    """The categories of a categorical column that has an order of its own; none for any other."""
    categories = getattr(getattr(column, "dtype", None), "categories", None)  # of pandas, and of an Enum of polars
    return [] if categories is None else list(categories)


def is_distribution(value: object) -> bool:
    """Whether one value of a column is a sequence of weights and not a state."""
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def is_unknown(value: object) -> bool:
    """None, NaN, NaT, pandas' NA and NumPy's masked value all say that nothing is known."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise EvidenceError(f"Columns are found by name, and {name!r} is not a string. Rename it first.")
    return name


def plain(column: Any, name: object = "weights") -> Any:
    """A column as a list, an array, or one bare value."""
    if column is np.ma.masked:
        return None
    if isinstance(column, (Mapping, Set)) or hasattr(column, "columns"):
        kind = type(column).__name__
        raise EvidenceError(f"Column {name!r} is a {kind}. A column is a list, an array or a series.")
    if column is None or isinstance(column, (list, str, int, float, bool, np.ndarray, np.generic, Coded)):
        return column
    if isinstance(column, (tuple, range)):
        return list(column)
    if hasattr(column, "__arrow_c_stream__") or hasattr(column, "to_numpy"):
        import narwhals.stable.v1 as nw

        try:
            return _series_values(nw.from_native(column, series_only=True))
        except TypeError:
            pass
    if hasattr(column, "__array__"):
        return np.asarray(column)
    try:
        return list(column)
    except TypeError:
        return column  # one bare value of a type nobody expects: the evidence room refuses it with its name


def _narwhals_frame(data: Any) -> Any:
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        frame = None
    except Exception as error:  # narwhals has several: columns of one name, for example
        raise EvidenceError(f"This {type(data).__name__} cannot be read: {error}") from error
    if frame is None or getattr(frame, "_level", "full") == "interchange":
        raise EvidenceError(
            f"Data is a mapping of columns or a dataframe. Got {type(data).__name__} instead. For an array, name "
            "its columns: dict(zip(names, array.T))."
        ) from None
    frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    names = Counter(getattr(data, "column_names", frame.columns))
    twice = sorted(str(name) for name, count in names.items() if count > 1)
    if twice:
        raise EvidenceError(f"There are several columns called {', '.join(map(repr, twice))}.")
    return frame


def _series_values(series: Any) -> Any:
    if series.dtype.is_numeric() and not series.is_null().any():
        return series.to_numpy()
    return series.to_list()


def _like(column: Any, values: Sequence[Any]) -> Any:
    """New values for a column in the kind and, where they fit, the type it came in."""
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
        except Exception:  # the dtypes of pandas come from several libraries, each with errors of its own
            pass
    return pd.Series(values, index=column.index, name=column.name)


def _polars_like(column: Any, values: list[Any]) -> Any:
    import polars as pl

    if column.dtype != pl.Null:  # a column of nothing has a type of its own, into which nothing fits
        with suppress(TypeError, pl.exceptions.PolarsError):
            return pl.Series(column.name, values, dtype=column.dtype)
    return pl.Series(column.name, values, strict=False)


def _arrow_like(column: Any, values: list[Any]) -> Any:
    import pyarrow as pa

    new = pa.array(values)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        new = new.cast(column.type)
    return pa.chunked_array([new]) if isinstance(column, pa.ChunkedArray) else new
