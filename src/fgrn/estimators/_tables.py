"""Tables in memory, weights and classes as arguments of estimators, checked and read by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..core.exceptions import EvidenceError, SchemaError, TableWarning, UnseenLevelWarning, nearest, shortened, warn
from ..tables import frames, one_row, outputs
from ..tables.columns import STOP_AT_UNSEEN
from ..tables.encoded import checked_weights
from ..tables.frames import Coded

Columns = dict[str, Any]

NO_COLUMN = "The table is empty: it has no column, and a minimum of 1 is required."


class Classes(NamedTuple):
    """The class of each row: the name of the class, all labels, those of the rows, and which rows have one."""

    name: str
    every: np.ndarray
    labels: np.ndarray
    known: np.ndarray

    @property
    def coded(self) -> Coded:
        """Return the position of each row's class."""
        codes = np.full(len(self.labels), frames.UNKNOWN, dtype=np.int32)
        codes[self.known] = np.searchsorted(self.every, self.labels[self.known])
        return Coded(codes)

    def take(self, rows: np.ndarray) -> Classes:
        """Return the classes of some of the rows."""
        return self._replace(labels=self.labels[rows], known=self.known[rows])


def _warn_of_numbers_as_names(names: list[Any]) -> None:
    """Warn that column names that are not text are replaced by x0, x1, ..., unless they are 0, 1, ..."""
    if names != list(range(len(names))):
        warn(
            f"The names of the columns are not text ({shortened(names, 3)}): in the model they are x0, x1, x2, ..., by "
            "their places.",
            TableWarning,
            value=names[0],
            remedies="turn them into words to keep them (in pandas: table.columns = table.columns.astype(str))",
        )


class TableEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Base class of estimators that take a table of any kind: arrays, mappings, dataframes.

    A frame or an array must have the training columns in order, as scikit-learn requires. A mapping may have them
    in any order; one that is not there is unknown, and one that was not there in training is ignored, with a warning.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _html_repr(self) -> str:
        """Return the HTML for notebooks: the settings and, once fitted, the network and a button for its page."""
        settings: str = super()._html_repr()
        if not hasattr(self, "network_"):
            return settings
        from ..page.notebook import notebook_html

        return (notebook_html(self) or "") + settings

    @contextmanager
    def _or_as_before(self) -> Iterator[None]:
        """Restore the estimator, with the model it had, if learning fails or is interrupted."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _columns(self, X: Any, *, reset: bool) -> Columns:
        """Return the columns of a table by name and by value; those of an array are named x0, x1, ..."""
        if type(X) is dict:
            return self._mapping(X, reset)
        row = None if reset else one_row.named_row(X)
        X = frames.collected(X) if row is None else row
        if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # some sparse matrices are mappings
            return self._mapping(X, reset)
        if isinstance(X, np.ndarray) and X.dtype.names:
            return self._mapping({name: X[name] for name in X.dtype.names}, reset)
        _refuse_flat(X)
        if frames.is_frame(X):
            if reset and not len(X.columns):
                raise EvidenceError(NO_COLUMN)
            is_known = not reset and self._has_columns_of_training(X)
            if not is_known:
                frames.check_unique_columns(X)
                validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and not hasattr(self, "feature_names_in_"):
                _warn_of_numbers_as_names(list(X.columns))
            if hasattr(self, "feature_names_in_"):
                columns = one_row.values_of_few_rows(X) if is_known else None
                columns = frames.columns(X, by_value=True) if columns is None else columns
                frames.row_count(columns, least=1)
                return columns
            X = frames.as_objects(X)
        if reset or not self._is_array_of_training(X):
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        return {name: frames.dictionary_encoded(X[:, position]) for position, name in enumerate(self._names())}

    def _has_columns_of_training(self, X: Any) -> bool:
        """Return whether a pandas frame has the training columns in order, so that no validation is needed."""
        names = getattr(self, "feature_names_in_", None)
        return names is not None and frames.kind_of(X) == "pandas" and X.columns.tolist() == names.tolist()

    def _is_array_of_training(self, X: Any) -> bool:
        """Return whether a numeric array has as many columns as in training, so that no validation is needed."""
        if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "biuf" or not len(X):
            return False
        is_finite = X.dtype.kind != "f" or not np.isinf(X).any()
        return is_finite and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")

    def _mapping(self, X: Mapping[str, Any], reset: bool) -> Columns:
        columns = frames.columns(X, by_value=True)
        rows = frames.row_count(columns, least=1)
        columns = {name: frames.repeat_bare_value(column, rows) for name, column in columns.items()}
        if reset:
            if not columns:
                raise EvidenceError(NO_COLUMN)
            self.n_features_in_ = len(columns)
            self.feature_names_in_ = np.array(list(columns), dtype=object)
            return columns
        names = self._names()
        strange = [name for name in columns if name not in names and name != getattr(self, "_y_name", None)]
        if strange:
            told = " ".join(f"There is no column {name!r} here. {nearest(name, names)}" for name in strange[:3])
            told = f"{told} {len(strange) - 3:,} more are not known either." if strange[3:] else told
            if self.unseen == "error" or len(strange) == len(columns):
                raise SchemaError(told, value=strange[0])
            warn(f"{told} Ignored.", UnseenLevelWarning, value=strange[0], remedies=STOP_AT_UNSEEN)
        return {name: columns[name] if name in columns else frames.missing_column(rows) for name in names}

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{number}" for number in range(self.n_features_in_)] if names is None else list(names)

    def _imputed(self, X: Any, plain: Columns, filled: Mapping[str, list[Any]]) -> Any:
        """Return a table of the same kind as the given one, with imputed columns.

        Those of a frame whose names are not those of training, such as whole numbers, are found by their place.
        """
        if is_array(X):
            return array_like(X, filled, self._names())
        names = frames.narwhals_frame(X).columns if frames.is_frame(X) else []
        if names and (not hasattr(self, "feature_names_in_") or any(name not in names for name in filled)):
            class_name = getattr(self, "_y_name", None)
            place = dict(zip(self._names(), (name for name in names if name != class_name), strict=False))
            filled = {place.get(name, name): values for name, values in filled.items()}
        return outputs.with_columns_replaced(X, plain, filled)

    def _weights(self, sample_weight: Any, rows: int) -> np.ndarray | None:
        if sample_weight is None:
            return None
        return checked_weights([sample_weight] * rows if isinstance(sample_weight, Number) else sample_weight, rows)

    def _training_columns(
        self, X: Any, sample_weight: Any, classes: Classes | None = None
    ) -> tuple[Columns, np.ndarray | None, Classes | None]:
        """Return the columns, weights and classes of a table to learn from, without rows of weight 0."""
        columns = self._columns(X, reset=True)
        rows = frames.row_count(columns)
        check_lengths(rows, classes)
        weights = self._weights(sample_weight, rows)
        if weights is None or weights.all():
            return columns, weights, classes
        kept = np.flatnonzero(weights)
        columns = {name: frames.select_rows(column, kept) for name, column in columns.items()}
        return columns, weights[kept], None if classes is None else classes.take(kept)


def _refuse_flat(X: Any) -> None:
    """Raise an error if a single row or value is given instead of a table."""
    if isinstance(X, PathLike) or hasattr(X, "batches") or (isinstance(X, str) and "." in X):
        raise ValueError(
            "Expected a 2D table in memory. Read a file first, such as with pandas.read_csv; or go through it batch by "
            "batch: for rows in fgrn.Stream(path)."
        )
    first = X[0] if isinstance(X, (list, tuple)) and X else [()]
    if isinstance(first, Mapping):
        raise ValueError(
            "Expected a 2D table, got a list of mappings. A table is a mapping of columns, an array or a frame, such "
            "as pandas.DataFrame(rows)."
        )
    shape = getattr(X, "shape", None)
    dimensions = len(shape) if isinstance(shape, tuple) else 2
    if X is None or isinstance(X, (str, bytes, Number)):
        dimensions = 0
    elif first is None or isinstance(first, (str, bytes, Number)):
        dimensions = 1
    if dimensions < 2:
        got = "one value" if dimensions == 0 else "a 1D array"
        raise ValueError(
            f"Expected 2D array, got {got} instead. Reshape your data: a table of one row is [[value, value, ...]], "
            "one of a single column [[value], [value], ...]; or name the values, {name: value, ...}."
        )


def check_lengths(rows: int, classes: Classes | None) -> None:
    """Raise an error unless there is one class for each row."""
    if classes is not None and len(classes.labels) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, len(classes.labels)]}")


def is_array(X: Any) -> bool:
    """Return whether a table is an array, whose columns have no names, and not a mapping or frame."""
    structured = isinstance(X, np.ndarray) and X.dtype.names
    return not isinstance(X, Mapping) and not frames.is_frame(X) and not structured


def array_like(X: Any, filled: Mapping[str, list[Any]], names: list[str]) -> np.ndarray:
    """Return an array of the type of the given one, with imputed values."""
    array = np.array(X, dtype=None if isinstance(X, np.ndarray) else object)
    if array.dtype.kind not in "biufO":
        array = array.astype(object)
    if array.dtype.kind in "biu" and any(value != int(value) for values in filled.values() for value in values):
        array = array.astype(np.float64)
    for position, name in enumerate(names):
        if name in filled:
            array[:, position] = filled[name]
    return array
