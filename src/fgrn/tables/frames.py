"""Tables in memory: columns from a mapping, a structured array or any dataframe that narwhals supports."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..core.arrays import is_masked
from ..core.exceptions import EvidenceError, counted
from ..core.settings import by_name, name_of
from .coded_columns import UNKNOWN as UNKNOWN
from .coded_columns import Coded as Coded
from .coded_columns import DictionaryColumn as DictionaryColumn
from .coded_columns import pandas_by_value, series_by_value
from .equal_values import distinct
from .missing import is_missing_value

FEW_ROWS_OF_PANDAS = 64
"""A pandas frame of at most so many rows is read value by value, which is faster than through narwhals."""

SHORT = 32
"""Shorter lists are read value by value: dictionary encoding would take longer than it saves."""

Data: TypeAlias = Any
"""A mapping of names to columns (lists, arrays, series, or one value for all rows), or a dataframe."""


def columns(data: Data, *, by_value: bool = False) -> dict[str, Any]:
    """Return the columns by name, each a list, an array, or one bare value that applies to every row.

    Args:
        data: the table.
        by_value: whether to return columns that are not arrays of numbers as `DictionaryColumn`, where possible, using
            the codes of categorical columns; lists of a few values stay lists.
    """
    if data is None:
        return {}
    if isinstance(data, Mapping):
        if any(type(name) is not str for name in data):  # Variables, or names that are refused
            for name in data:
                checked_name(name)
            data = by_name(data, error=EvidenceError)
        found = {name: as_column(column, name, by_value) for name, column in data.items()}
    elif isinstance(data, np.ndarray) and data.dtype.names:
        found = {name: np.asanyarray(data[name]) for name in data.dtype.names}
    elif kind_of(data) == "pandas":
        check_unique_columns(data)
        found = {checked_name(name): _pandas_values(series, by_value) for name, series in data.items()}
    else:
        frame = narwhals_frame(data)
        found = {checked_name(name): _series_values(frame[name], by_value) for name in frame.columns}
    if not by_value:
        return found
    return {
        name: column
        if type(column) is Coded or is_short_list(column) or is_numbers(column)
        else dictionary_encoded(column)
        for name, column in found.items()
    }


def collected(data: Data) -> Data:
    """Return a frame in memory: a lazy one is collected, and an Arrow record batch becomes a table."""
    if is_batch(data):
        import pyarrow as pa

        return pa.Table.from_batches([data])
    if not is_frame(data) or kind_of(data) in ("pandas", "pyarrow"):
        return data
    import narwhals.stable.v1 as nw

    frame = nw.from_native(data, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def is_batch(data: Data) -> bool:
    """Return whether this is a record batch of Arrow, which narwhals does not support."""
    return type(data).__name__ == "RecordBatch" and type(data).__module__.split(".")[0] == "pyarrow"


def repeat_bare_value(column: Any, rows: int) -> Any:
    """Return a column as it is, or one that has a bare value in every row."""
    if not is_bare(column):
        return column
    value = as_list(column)
    return value * rows if rows < SHORT else DictionaryColumn(np.zeros(rows, dtype=np.int32), value)


def missing_column(rows: int) -> Any:
    """Return a column in which every value is missing."""
    return [None] * rows if rows < SHORT else DictionaryColumn(np.full(rows, UNKNOWN, dtype=np.int32), [])


def dictionary_encoded(column: Any) -> Any:
    """Return a column as a `DictionaryColumn`; as it is, if it holds numbers or unhashable values."""
    if is_numbers(column) or isinstance(column, (Coded, DictionaryColumn)) or is_bare(column):
        return column
    if isinstance(column, np.ndarray) and column.dtype.kind not in "biufOUS":
        return column
    values = as_list(column)
    kinds = set(map(type, values))
    keys = values if bool not in kinds or kinds <= {bool, str, type(None)} else [(type(v), v) for v in values]
    try:  # the types are part of the keys because True == 1
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    except TypeError:
        return column
    codes = np.fromiter(map(places.__getitem__, keys), dtype=np.int32, count=len(keys))
    return DictionaryColumn(codes, list(places) if keys is values else [value for _, value in places])


def is_numbers(column: Any) -> bool:
    """Return whether a column is an array of numbers or booleans."""
    plain = isinstance(column, np.ndarray) and not is_masked(column)
    return plain and column.dtype.kind in "biuf"


def rows_without_columns(data: Data) -> int:
    """Return the number of rows of a table without columns: that of a frame, and 1 for a mapping."""
    if data is None or isinstance(data, Mapping):
        return 1
    return len(data) if isinstance(data, np.ndarray) else len(narwhals_frame(data))


def is_bare(column: Any) -> bool:
    """Return whether a column is a single value that applies to every row."""
    if type(column) is list or type(column) is Coded:
        return False
    if isinstance(column, np.ndarray):
        return column.ndim == 0
    return not isinstance(column, (list, Coded, DictionaryColumn))


def is_short_list(column: Any) -> bool:
    """Return whether a column is a list that is short enough to be read value by value."""
    return type(column) is list and len(column) < SHORT


def is_one_row(data: Data) -> bool:
    """Return whether this is None, or a mapping of single values instead of columns."""
    return data is None or (isinstance(data, Mapping) and all(is_bare(column) for column in columns(data).values()))


def is_frame(data: Data) -> bool:
    """Return whether this is a dataframe of some library, and not an array, a list or a mapping."""
    if isinstance(data, (np.ndarray, list, tuple, Mapping)) or data is None:
        return False
    if hasattr(type(data), "columns"):  # a class is asked first: `columns` of a lazy frame is costly
        return True
    return hasattr(data, "collect_schema") or hasattr(data, "columns")


def is_source(data: Any) -> bool:
    """Return whether this is a `Stream` or can be made one, and is not a table in memory."""
    if data is None or isinstance(data, (Mapping, np.ndarray, list, tuple)) or is_frame(data):
        return False
    if isinstance(data, (str, os.PathLike, Iterator)) or (callable(data) and not hasattr(data, "__array__")):
        return True
    return any(hasattr(data, name) for name in ("batches", "get_fragments", "read_next_batch"))


def check_unique_columns(data: Data) -> None:
    """Raise EvidenceError if two columns of a frame have the same name."""
    names = getattr(data, "column_names", None) or data.columns  # `columns` of an Arrow table are not names
    twice = sorted(str(name) for name, count in Counter(names).items() if count > 1)
    if twice:
        raise EvidenceError(
            f"There are several columns called {', '.join(map(repr, twice))}.",
            value=twice[0],
            remedies=("rename them", "leave some out"),
        )


def row_count(columns: Mapping[str, Any], least: int = 0) -> int:
    """Return the number of rows of columns; EvidenceError if columns differ, or if there are fewer than `least`."""
    lengths = {name: len(column) for name, column in columns.items() if not is_bare(column)}
    rows = next(iter(lengths.values()), 1)
    for name, length in lengths.items():
        if length != rows:
            first = next(iter(lengths))
            raise EvidenceError(
                f"Columns of one table have equally many rows, but {first!r} has {rows:,} and {name!r} has {length:,}.",
                value=name,
            )
    if rows < least:
        raise EvidenceError(f"Found a table with {counted(rows, 'row')} while a minimum of {least} is required.")
    return rows


def select_rows(column: Any, rows: np.ndarray) -> Any:
    """Return a column with some of its rows, given by their positions."""
    if isinstance(column, (Coded, DictionaryColumn)):
        return replace(column, codes=column.codes[rows])
    if is_bare(column):
        return column
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows.tolist()]


def as_list(column: Any) -> list[Any]:
    """Return the values of a column as a list; a bare value gives a list of one."""
    if is_bare(column):
        return [column.item() if isinstance(column, np.ndarray) else column]
    return column if isinstance(column, list) else column.tolist()  # masked values become None


def as_objects(data: Data) -> np.ndarray:
    """Return a frame whose columns have no names as an array of objects."""
    array: np.ndarray = np.asarray(data, dtype=object)
    return array


def kind_of(data: Data) -> str:
    """Return the kind of a table: "mapping", "array", or the name of the library of a frame."""
    if isinstance(data, Mapping):
        return "mapping"
    return type(data).__module__.split(".")[0] if is_frame(data) else "array"


def states(data: Data) -> dict[str, list[Any]]:
    """Return the states found in each column of a table, in order, as the ready-made networks take `observed`.

    Missing values are left out. Numbers and words are sorted; a categorical column keeps its order.
    """
    found: dict[str, list[Any]] = {}
    for name, column in columns(data, by_value=True).items():
        if is_numbers(column) and column.ndim == 1:
            column = np.unique(column)
        values = column.found if isinstance(column, DictionaryColumn) else as_list(column)
        if any(is_distribution(value) for value in values):
            raise EvidenceError("it holds distributions, which do not say what its states are called.", column=name)
        known = [
            value.item() if isinstance(value, np.generic) else value for value in values if not is_missing_value(value)
        ]
        if not known:
            raise EvidenceError(
                "it has no known value, so its states cannot be found.", column=name, remedies="leave it out"
            )
        in_order = isinstance(column, DictionaryColumn) and column.categorical
        try:
            once = distinct(known, name)
            found[name] = list(once) if in_order else sorted(once, key=lambda v: (isinstance(v, str), v))
        except TypeError:
            kinds = sorted({type(value).__name__ for value in known})
            raise EvidenceError(f"Column {name!r}: states are words and numbers. Got {', '.join(kinds)}.") from None
    return found


@dataclass(frozen=True, init=False)
class Not:
    """Evidence that a variable is in none of the given states: `{"smoker": fgrn.Not("yes")}`."""

    states: tuple[Any, ...]

    def __init__(self, *states: Any) -> None:
        object.__setattr__(self, "states", states)

    def __repr__(self) -> str:
        return f"Not({', '.join(map(repr, self.states))})"


def is_distribution(value: object) -> bool:
    """Return whether a value is a sequence of weights or a `Not`, and not a single state."""
    return isinstance(value, (list, tuple, Not)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def checked_name(name: object) -> str:
    """Return the name of a column given by name or Variable; EvidenceError if it is not a string."""
    known = name_of(name)
    if not isinstance(known, str):
        raise EvidenceError(
            f"Columns are found by name, and {name!r} is not a string.",
            value=name,
            remedies="rename it first (in pandas: table.columns = table.columns.astype(str))",
        )
    return known


def as_column(column: Any, name: object = "weights", by_value: bool = False) -> Any:
    """Return a column as a list, an array or one bare value; `by_value` as for `columns`."""
    if type(column) in (np.ndarray, list, Coded):  # what most are
        return column
    if column is None or (is_masked(column) and column is np.ma.masked):
        return None
    if isinstance(column, (list, str, int, float, np.ndarray, np.generic, Coded, DictionaryColumn)):
        return column
    if isinstance(column, (Mapping, Set)) or hasattr(column, "columns"):
        kind = type(column).__name__
        raise EvidenceError(f"it is a {kind}. A column is a list, an array or a series.", column=str(name))
    if isinstance(column, (tuple, range)):
        return list(column)
    if hasattr(column, "__arrow_c_stream__") or hasattr(column, "to_numpy"):
        import narwhals.stable.v1 as nw

        try:
            return _series_values(nw.from_native(column, series_only=True), by_value)
        except TypeError:
            pass
    if hasattr(column, "__array__"):
        return np.asarray(column)
    try:
        return list(column)
    except TypeError:
        return column  # one bare value of another type, which is an error when it is read as evidence


def has_column(data: Data, name: str) -> bool:
    """Return whether a table in memory has a column of this name; an array without names has none."""
    if is_frame(data):
        return name in narwhals_frame(data).columns
    return name in (data if isinstance(data, Mapping) else getattr(getattr(data, "dtype", None), "names", None) or ())


def column(data: Data, name: str) -> Any:
    """Return one column of a table in memory, by value."""
    one = narwhals_frame(data).select(name).to_native() if is_frame(data) else {name: data[name]}
    return columns(one, by_value=True)[name]


def without_column(data: Data, name: str) -> Data:
    """Return a frame or a mapping without one of its columns."""
    if isinstance(data, Mapping):
        return {key: column for key, column in data.items() if key != name}
    return narwhals_frame(data).drop(name).to_native()


def narwhals_frame(data: Any) -> Any:
    """Return a dataframe as one of narwhals; EvidenceError for anything else."""
    import narwhals.stable.v1 as nw

    data = collected(data)
    if is_frame(data):
        check_unique_columns(data)
    try:
        frame = nw.from_native(data)
    except TypeError:
        frame = None
    except Exception as error:  # narwhals raises several kinds
        raise EvidenceError(f"This {type(data).__name__} cannot be read: {error}") from error
    if frame is None or getattr(frame, "_level", "full") == "interchange":
        raise EvidenceError(
            f"Data is a mapping of columns or a dataframe. Got {type(data).__name__} instead. For an array, name "
            "its columns: dict(zip(names, array.T))."
        ) from None
    return frame


def _pandas_values(series: Any, by_value: bool) -> Any:
    """Return the values of a pandas series as `_series_values` does, faster for numbers, words and objects."""
    kind = series.dtype
    if isinstance(kind, np.dtype) and kind.kind in "iuf":
        return series.to_numpy()
    if kind == np.dtype(object) or kind.name in ("str", "string"):
        encoded = pandas_by_value(series) if by_value and len(series) > FEW_ROWS_OF_PANDAS else None
        return series.tolist() if encoded is None else encoded
    import narwhals.stable.v1 as nw

    return _series_values(nw.from_native(series, series_only=True), by_value)


def _series_values(series: Any, by_value: bool = False) -> Any:
    """Return the values of a narwhals series as an array, a list or a `DictionaryColumn`."""
    if series.dtype.is_float() or (series.dtype.is_numeric() and not series.is_null().any()):
        return series.to_numpy()  # null becomes NaN
    return (series_by_value(series) if by_value else None) or series.to_list()
