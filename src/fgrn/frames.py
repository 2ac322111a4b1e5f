"""Any table in, the same kind of table out: a mapping of columns, or any dataframe narwhals knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .exceptions import EvidenceError

Data: TypeAlias = Any
"""A mapping of names to columns (lists, arrays, series, or one value for every row), or a dataframe."""


def columns(data: Data) -> dict[str, Any]:
    """The columns by name, each a list, an array, or one bare value that stands for every row."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        named = {_checked_name(name): _plain(column) for name, column in data.items()}
    elif isinstance(data, np.ndarray) and data.dtype.names:
        named = {name: data[name] for name in data.dtype.names}
    else:
        frame = _narwhals_frame(data)
        named = {_checked_name(name): _series_values(frame[name]) for name in frame.columns}
    return named


def replaced(data: Data, filled: Mapping[str, Sequence[Any]]) -> Data:
    """The table with some columns replaced, as the kind it came in: lists stay lists, frames stay frames."""
    if isinstance(data, Mapping):
        return {name: _like(column, filled.get(name)) for name, column in data.items()}
    if isinstance(data, np.ndarray):
        return {name: _like(data[name], filled.get(name)) for name in data.dtype.names or ()}
    import narwhals.stable.v1 as nw

    frame = _narwhals_frame(data)
    new = [
        nw.new_series(name=name, values=list(values), backend=frame.implementation) for name, values in filled.items()
    ]
    if frame.implementation.is_pandas():  # positions, not index labels, say which row is which
        native = frame.to_native().copy()
        for series in new:
            native[series.name] = series.to_native().to_numpy()
        return native
    return frame.with_columns(*new).to_native()


def is_distribution(value: object) -> bool:
    """Whether one value of a column is a sequence of weights and not a state."""
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def is_unknown(value: object) -> bool:
    """None, NaN, NaT, pandas' NA and NumPy's masked value all say that nothing is known."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise EvidenceError(f"Columns are found by name, and {name!r} is not a string. Rename it first.")
    return name


def _plain(column: Any) -> Any:
    if column is None or isinstance(column, (list, str, int, float, bool, np.ndarray, np.generic)):
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
        raise EvidenceError(
            f"Data is a mapping of columns or a dataframe. Got {type(data).__name__} instead. For an array, name "
            "its columns: dict(zip(names, array.T))."
        ) from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _series_values(series: Any) -> Any:
    if series.dtype.is_numeric() and not series.is_null().any():
        return series.to_numpy()
    return series.to_list()


def _like(column: Any, values: Sequence[Any] | None) -> Any:
    if values is None:
        return column
    if isinstance(column, np.ndarray):
        return np.array(values) if len({type(v) for v in values}) <= 1 else np.array(values, dtype=object)
    return list(values)
