"""Any table in: a mapping of columns, or any dataframe narwhals knows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ..core.exceptions import EvidenceError, counted
from ..core.settings import by_name, name_of

UNKNOWN = -1
"""The code of a value of which nothing is known."""

FEW = 64
"""Rows of a frame that are read value by value: asking another library for each column would take longer."""

Data: TypeAlias = Any
"""A mapping of names to columns (lists, arrays, series, or one value for every row), or a dataframe."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column that has been read already: the position of each row's state, or UNKNOWN."""

    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def unknown(self) -> np.ndarray:
        """Which rows say nothing."""
        unknown: np.ndarray = self.codes == UNKNOWN
        return unknown


@dataclass(frozen=True, eq=False)
class Factored:
    """A column by its distinct values, so that each is looked at once: the positions, and what is at each of them.

    Attributes:
        codes: the position of each row's value, UNKNOWN where there is none. A value that is there may still mean
            "unknown".
        values: the distinct values; of a categorical column also those that no row has.
        categorical: whether the order of the values was given with the column.
        ordered: whether that order means something.
    """

    codes: np.ndarray
    values: list[Any]
    categorical: bool = False
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> np.ndarray:
        """How many rows have each value."""
        return np.bincount(self.codes - UNKNOWN, minlength=len(self.values) + 1)[1:]

    @property
    def unknown(self) -> np.ndarray:
        """Which rows say nothing."""
        return self.spread([is_unknown(value) for value in self.values], True, bool)

    @property
    def found(self) -> list[Any]:
        """The values that some row has."""
        return [value for value, count in zip(self.values, self.counts.tolist(), strict=True) if count]

    def spread(self, values: Sequence[Any] | np.ndarray, unknown: Any, kind: Any) -> np.ndarray:
        """An array with something for each distinct value at the rows that have it, `unknown` at the others."""
        table = np.empty(len(self.values) + 1, dtype=kind)
        table[:-1] = values
        table[UNKNOWN] = unknown  # the last
        out: np.ndarray = table[self.codes]
        return out

    def tolist(self) -> list[Any]:
        """The value of each row, None where there is none."""
        found = np.empty(len(self.values), dtype=object)
        found[:] = self.values
        return list(self.spread(found, None, object))


def columns(data: Data, *, by_value: bool = False) -> dict[str, Any]:
    """The columns by name, each a list, an array, or one bare value that stands for every row.

    Args:
        data: the table.
        by_value: whether columns of anything but plain numbers shall be `Factored`, where they can be: read by the
            codes or the dictionary they come with, if they do.
    """
    if data is None:
        return {}
    if isinstance(data, Mapping):
        for name in data:
            checked_name(name)
        given = by_name(data, error=EvidenceError)
        found = {name: plain(column, name, by_value) for name, column in given.items()}
    elif isinstance(data, np.ndarray) and data.dtype.names:
        found = {name: np.asanyarray(data[name]) for name in data.dtype.names}
    elif kind_of(data) == "pandas" and len(data) <= FEW:
        check_names(data)
        found = {checked_name(name): _few_values(series, by_value) for name, series in data.items()}
    else:
        frame = narwhals_frame(data)
        found = {checked_name(name): _series_values(frame[name], by_value) for name in frame.columns}
    return {name: factored(column) for name, column in found.items()} if by_value else found


def gathered(data: Data) -> Data:
    """A frame that is there: a lazy one is collected, and a batch of Arrow is a table of one batch."""
    if is_batch(data):
        import pyarrow as pa

        return pa.Table.from_batches([data])
    if not is_frame(data) or kind_of(data) in ("pandas", "pyarrow"):
        return data
    import narwhals.stable.v1 as nw

    frame = nw.from_native(data, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def is_batch(data: Data) -> bool:
    """Whether this is a record batch of Arrow, which narwhals does not know."""
    return type(data).__name__ == "RecordBatch" and type(data).__module__.split(".")[0] == "pyarrow"


def repeated(column: Any, rows: int) -> Any:
    """A column as it was read, one bare value in every row."""
    return Factored(np.zeros(rows, dtype=np.int32), listed(column)) if is_bare(column) else column


def nothing(rows: int) -> Factored:
    """A column of which nothing is known."""
    return Factored(np.full(rows, UNKNOWN, dtype=np.int32), [])


def factored(column: Any) -> Any:
    """A column, as it was read, by its distinct values; as it is, if it holds plain numbers or cannot be told apart."""
    if isinstance(column, (Coded, Factored)) or is_bare(column) or is_numbers(column):
        return column
    if isinstance(column, np.ndarray) and column.dtype.kind not in "biufOUS":
        return column
    values = listed(column)
    kinds = set(map(type, values))
    keys = values if bool not in kinds or kinds <= {bool, str, type(None)} else [(type(v), v) for v in values]
    try:  # in a mapping, True would be 1
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    except TypeError:
        return column
    codes = np.fromiter(map(places.__getitem__, keys), dtype=np.int32, count=len(keys))
    return Factored(codes, list(places) if keys is values else [value for _, value in places])


def is_numbers(column: Any) -> bool:
    """Whether a column, as it was read, is an array of plain numbers or truth values."""
    return isinstance(column, np.ndarray) and column.dtype.kind in "biuf" and not np.ma.isMaskedArray(column)


def rows_without_columns(data: Data) -> int:
    """How many rows a table without any column has: one, unless it is a frame, which knows."""
    if data is None or isinstance(data, Mapping):
        return 1
    return len(data) if isinstance(data, np.ndarray) else len(narwhals_frame(data))


def is_bare(column: Any) -> bool:
    """Whether a column, as it was read, is one value that stands for every row."""
    if isinstance(column, np.ndarray):
        return column.ndim == 0
    return not isinstance(column, (list, Coded, Factored))


def is_short(data: Data) -> bool:
    """Whether this is a mapping of a few values each, which are read one by one sooner than they are told apart."""
    return isinstance(data, Mapping) and all(type(column) is list and len(column) < 32 for column in data.values())


def is_one_row(data: Data) -> bool:
    """Whether this is one row of plain values, or nothing at all, and not a table."""
    return data is None or (isinstance(data, Mapping) and all(is_bare(column) for column in columns(data).values()))


def is_frame(data: Data) -> bool:
    """Whether this is a dataframe of some library, and not an array, a list or a mapping."""
    if isinstance(data, (np.ndarray, list, tuple, Mapping)) or data is None:
        return False
    return hasattr(data, "collect_schema") or hasattr(data, "columns")  # to ask a lazy one for its columns is costly


def is_source(data: Any) -> bool:
    """Whether this is a `Stream`, or what can be made one, and no table in memory."""
    if data is None or isinstance(data, (Mapping, np.ndarray, list, tuple)) or is_frame(data):
        return False
    if isinstance(data, (str, os.PathLike, Iterator)) or (callable(data) and not hasattr(data, "__array__")):
        return True
    return any(hasattr(data, name) for name in ("batches", "get_fragments", "read_next_batch"))


def check_names(data: Data) -> None:
    """Refuse a frame with two columns of one name."""
    names = getattr(data, "column_names", None) or data.columns  # the columns of a table of Arrow are not their names
    twice = sorted(repr(name) for name, count in Counter(names).items() if count > 1)
    if twice:
        raise EvidenceError(f"There are several columns called {', '.join(twice)}. Rename them, or leave some out.")


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
        raise EvidenceError(f"Found a table with {counted(rows, 'row')} while a minimum of {least} is required.")
    return rows


def taken(column: Any, rows: np.ndarray) -> Any:
    """Some of the rows of a column as it was read."""
    if isinstance(column, (Coded, Factored)):
        return replace(column, codes=column.codes[rows])
    if is_bare(column):
        return column
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows.tolist()]


def listed(column: Any) -> list[Any]:
    """The values of a column as it was read; of one bare value, only that."""
    if is_bare(column):
        return [column.item() if isinstance(column, np.ndarray) else column]
    return column if isinstance(column, list) else column.tolist()  # of a masked array, None where it is masked


def as_objects(data: Data) -> np.ndarray:
    """A frame whose columns have no names, as an array of objects."""
    array: np.ndarray = np.asarray(data, dtype=object)
    return array


def kind_of(data: Data) -> str:
    """What kind of table this is: "mapping", "array", or the library of a frame."""
    if isinstance(data, Mapping):
        return "mapping"
    return type(data).__module__.split(".")[0] if is_frame(data) else "array"


def named_row(data: Data) -> dict[str, Any] | None:
    """The values of one row by name, if this is a series of pandas whose index has the names of columns; else None."""
    index = getattr(data, "index", None)
    if kind_of(data) != "array" or type(data).__name__ != "Series" or index is None:
        return None
    names = list(index)
    return dict(zip(names, data.tolist(), strict=True)) if names and all(isinstance(n, str) for n in names) else None


def only_row(data: Data, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The values of a table of one row, or of a list of values whose names are given."""
    row = named_row(data)
    if row is not None:
        return row
    if names is not None:
        array = np.asarray(data, dtype=object)
        if array.size != len(names):
            raise EvidenceError(f"One row has {counted(len(names), 'value')}. Got {array.size} instead.")
        return dict(zip(names, array.ravel().tolist(), strict=True))
    found = columns(data)
    if row_count(found) != 1:
        raise EvidenceError(f"One row is wanted here. This table has {row_count(found):,}.")
    return {name: column if is_bare(column) else column[0] for name, column in found.items()}


def states(data: Data) -> dict[str, list[Any]]:
    """The states found in each column of a table, in order: what the ready-made networks take as `observed`.

    Unknown values are left out. Numbers and words are sorted; the order of a categorical column is kept.
    """
    found: dict[str, list[Any]] = {}
    for name, column in columns(data, by_value=True).items():
        if is_numbers(column) and column.ndim == 1:
            column = np.unique(column)
        values = column.found if isinstance(column, Factored) else listed(column)
        if any(is_distribution(value) for value in values):
            raise EvidenceError(f"Column {name!r} holds distributions, which do not say what its states are called.")
        known = [value.item() if isinstance(value, np.generic) else value for value in values if not is_unknown(value)]
        if not known:
            raise EvidenceError(f"Column {name!r} has no known value, so its states cannot be found. Leave it out.")
        in_order = isinstance(column, Factored) and column.categorical
        try:
            distinct = dict.fromkeys(known)
            found[name] = list(distinct) if in_order else sorted(distinct, key=lambda v: (isinstance(v, str), v))
        except TypeError:
            kinds = sorted({type(value).__name__ for value in known})
            raise EvidenceError(f"Column {name!r}: states are words and numbers. Got {', '.join(kinds)}.") from None
    return found


@dataclass(frozen=True, init=False)
class Not:
    """Evidence that a variable is in none of these states, given by their labels: `{"smoker": fgrn.Not("yes")}`."""

    states: tuple[Any, ...]

    def __init__(self, *states: Any) -> None:
        object.__setattr__(self, "states", states)

    def __repr__(self) -> str:
        return f"Not({', '.join(map(repr, self.states))})"


def is_distribution(value: object) -> bool:
    """Whether one value of a column is a sequence of weights, or rules states out, and is not a state."""
    return isinstance(value, (list, tuple, Not)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def is_unknown(value: object) -> bool:
    """None, NaN, NaT, pandas' NA and NumPy's masked value all say that nothing is known."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def checked_name(name: object) -> str:
    """The name of a column, if it can be one, or that of a Variable."""
    known = name_of(name)
    if not isinstance(known, str):
        raise EvidenceError(f"Columns are found by name, and {name!r} is not a string. Rename it first.")
    return known


def plain(column: Any, name: object = "weights", by_value: bool = False) -> Any:
    """A column as a list, an array, or one bare value; `by_value` as `columns` has it."""
    if column is np.ma.masked:
        return None
    if isinstance(column, (Mapping, Set)) or hasattr(column, "columns"):
        kind = type(column).__name__
        raise EvidenceError(f"Column {name!r} is a {kind}. A column is a list, an array or a series.")
    if column is None or isinstance(column, (list, str, int, float, bool, np.ndarray, np.generic, Coded, Factored)):
        return column
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
        return column  # one bare value of a type nobody expects: the evidence room refuses it with its name


def has_column(data: Data, name: str) -> bool:
    """Whether a table that is there has a column of this name; an array without names has none."""
    if is_frame(data):
        return name in narwhals_frame(data).columns
    return name in (data if isinstance(data, Mapping) else getattr(getattr(data, "dtype", None), "names", None) or ())


def column(data: Data, name: str) -> Any:
    """One column of a table that is there, by value."""
    one = narwhals_frame(data).select(name).to_native() if is_frame(data) else {name: data[name]}
    return columns(one, by_value=True)[name]


def without_column(data: Data, name: str) -> Data:
    """A frame but for one column."""
    return narwhals_frame(data).drop(name).to_native()


def narwhals_frame(data: Any) -> Any:
    """A dataframe as narwhals has it; anything else is an error."""
    import narwhals.stable.v1 as nw

    data = gathered(data)
    if is_frame(data):
        check_names(data)
    try:
        frame = nw.from_native(data)
    except TypeError:
        frame = None
    except Exception as error:  # narwhals has several
        raise EvidenceError(f"This {type(data).__name__} cannot be read: {error}") from error
    if frame is None or getattr(frame, "_level", "full") == "interchange":
        raise EvidenceError(
            f"Data is a mapping of columns or a dataframe. Got {type(data).__name__} instead. For an array, name "
            "its columns: dict(zip(names, array.T))."
        ) from None
    return frame


def _few_values(series: Any, by_value: bool) -> Any:
    """The values of a short series of pandas, as `_series_values` has them."""
    kind = series.dtype
    if kind == np.dtype(object) or kind == "string":
        return series.tolist()
    if isinstance(kind, np.dtype) and kind.kind in "iuf":
        return series.to_numpy()
    import narwhals.stable.v1 as nw

    return _series_values(nw.from_native(series, series_only=True), by_value)


def _series_values(series: Any, by_value: bool = False) -> Any:
    if series.dtype.is_float() or (series.dtype.is_numeric() and not series.is_null().any()):
        return series.to_numpy()  # of a float that is null, NaN
    return (_by_value(series) if by_value else None) or series.to_list()


def _by_value(series: Any) -> Factored | None:
    """A series by its distinct values, as its own library tells them apart; None if it cannot."""
    import narwhals.stable.v1 as nw

    native = series.to_native()
    is_categorical = series.dtype in (nw.Categorical, nw.Enum)
    by_appearance = series.implementation.is_polars() and series.dtype == nw.Categorical  # an order until polars 1.32
    ordered = is_categorical and not by_appearance and nw.is_ordered_categorical(series)
    if series.implementation.is_pandas():
        if is_categorical:
            return Factored(native.cat.codes.to_numpy(), native.cat.categories.tolist(), True, ordered)
        try:
            codes, values = native.factorize()
        except (TypeError, ValueError):  # lists, arrays
            return None
        found = values.tolist()
        mixed = native.dtype == object and any(value in (0, 1) for value in found if isinstance(value, (int, float)))
        return None if mixed else Factored(codes, found)  # True may have been taken for 1
    import pyarrow as pa

    try:
        array = native if isinstance(native, pa.ChunkedArray) else pa.chunked_array([series.to_arrow()])
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        array = array.unify_dictionaries().combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    codes = array.indices.cast(pa.int64()).fill_null(UNKNOWN).to_numpy()
    return Factored(codes, array.dictionary.to_pylist(), ordered, ordered)
