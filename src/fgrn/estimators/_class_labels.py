"""The base class of classifiers: converts between labels of classes and states of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, column_or_1d

from ..core.exceptions import SchemaError
from ..core.labels import Label, is_text
from ..queries.explanation import Explanation
from ..queries.prototypes import Prototypes
from ..tables import frames
from ..tables.columns import Column
from ..tables.frames import Coded
from ..tables.missing import MISSING, is_missing_value, is_missing_word
from ..tables.schema import Schema
from ..tables.table_warnings import warn_of_missing_classes
from ._base import LatentEstimator
from ._tables import Classes, Columns


class LatentClassifierBase(ClassifierMixin, LatentEstimator):  # type: ignore[misc]
    """Base class of classifiers: converts labels of classes to states of the network, and back."""

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Learn from a table and the class of each row.

        Args:
            X: the table: any dataframe, a mapping of columns or an array, of words, numbers and missing values. Or what
                is not in memory: a path, a glob, a dataset of Arrow, batches of rows, or a `Stream`; y and
                sample_weight are then names of its columns.
            y: the classes, also as a table of one column, whose name is that of the class. None or NaN means that the
                class of a row is unknown; the row is still used to learn the other columns.
            sample_weight: one weight per row; a row of weight 0 is ignored.
            executor: a client of dask.distributed, whose workers keep the rows and count them; X is then a Dask
                dataframe, or Parquet files that every worker can read, and y and sample_weight names of columns.

        If it fails, the model is as it was before. If it is interrupted, by Ctrl-C, the best model so far is kept, with
        a warning; before the end of the first epoch, or interrupted once more, the model is as it was before.
        """
        self._validate_params()
        if executor is not None or frames.is_source(X):
            return self._fit_stream(X, sample_weight, self._column(y), executor)
        return self._fit(X, sample_weight, self._classes(y))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue learning from rows that are seen once: a step of online EM, see `fgrn.flow.online`.

        The first batch is learnt as `fit` would, and decides what the columns mean, unless a `schema` is given.

        Args:
            X: the rows; or a path, a glob, an iterator of frames, or a `Stream`, which is read once, and of which every
                batch (`Stream(..., rows=)`) is a step; y and sample_weight are then names of its columns.
            y: their classes; None or NaN if unknown, which may be so in all rows of a later batch.
            classes: all classes that will occur; needed in the first call, unless X is read in batches: then those of
                the first batch are used.
            sample_weight: one weight per row.
        """
        self._validate_params()
        first = not hasattr(self, "network_")
        given = None if classes is None else np.unique(column_or_1d(classes))
        if not first and given is not None and not np.array_equal(given, self.classes_):
            raise ValueError(f"These classes are not those of the first call, {self.classes_.tolist()}.")
        if frames.is_source(X):
            return self._partial_fit_stream(X, sample_weight, self._column(y), given)
        name, labels, known = self._labels(y, getattr(self, "classes_", given))
        if given is None and first:
            raise ValueError("The first call of partial_fit needs all classes there will be: classes=[...].")
        if first and not known.any():
            raise ValueError("The class of no row is known.")
        every = given if given is not None and first else self.classes_
        name = name if first else self._y_name
        strange = np.setdiff1d(labels[known], every)
        if len(strange):
            raise ValueError(
                f"The class {strange[:1].tolist()[0]!r} is not among those of the first call, {every.tolist()}."
            )
        return self._partial_fit(X, sample_weight, Classes(name, every, labels, known))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class in each row, in the order of `classes_`.

        A row of probability zero, which only tables with zeros have, gets the probabilities without any evidence, with
        a warning that names the row.

        Args:
            X: the table.
        """
        return self._posterior(X, self._class_name)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Args:
            X: the table.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        found: np.ndarray = self.classes_[codes]
        return found

    def explain(self, row: Any, target: Any = None) -> Explanation:
        """Return how much each value of a row adds to the log-odds of a class, in nats.

        Args:
            row: a mapping of values, or a table of one row.
            target: the class to explain, the most probable one unless given.
        """
        check_is_fitted(self)
        state = None if target is None else self._class_labels()[self._code(target)]
        return self._explain(row, self._class_name(), state)

    @property
    def prototypes_(self) -> Prototypes[Any]:
        """The distribution of every column, by level, for each class: a dict with `shares` and `baseline`."""
        check_is_fitted(self, "network_")
        is_plain = self.classes_.dtype.kind in "biufU"  # numbers and words of Python print better than those of NumPy
        return self._prototypes(self._class_name(), self.classes_.tolist() if is_plain else self.classes_)

    def _completable(self, X: Any) -> tuple[Columns, dict[str, Coded], Schema]:
        X = frames.collected(X)
        name = self._y_name if frames.has_column(X, self._y_name) and self._class_name() == self._y_name else None
        if name is None or name in self._names():
            return super()._completable(X)
        columns, data, schema = super()._completable(frames.without_column(X, name) if frames.is_frame(X) else X)
        classes = frames.repeat_bare_value(frames.column(X, name), frames.row_count(columns))
        codes = self._missing_codes()
        words = [word for word in (MISSING if codes is None else codes) if word not in self._class_labels()]
        one = Schema([Column(name, tuple(self._class_labels()), missing=tuple(words))])
        return (
            {**columns, name: classes},
            {**data, **one.codes({name: classes}, self.unseen, kept=True)},
            Schema([*schema.values(), *one.values()]),
        )

    def _variable_messages(
        self, data: Mapping[str, Coded], names: Sequence[str], way: str = "marginal"
    ) -> dict[str, np.ndarray]:
        name = self._class_name()
        if way != "marginal" or name not in names:
            return super()._variable_messages(data, names, way)
        others = [one for one in names if one != name]
        found = super()._variable_messages(data, others) if others else {}
        return found | self._decision.pool.messages(data, [name], way, self.engine)  # as `predict` says

    def _code(self, target: Any) -> int:
        found = np.flatnonzero(self.classes_ == target)
        if not len(found):
            shown = target.item() if isinstance(target, np.generic) else target
            raise ValueError(f"There is no class {shown!r}. Known: {self.classes_.tolist()}.")
        return int(found[0])

    def _column(self, y: Any) -> str:
        """Return the name of the class column, for a table that is not in memory."""
        if not isinstance(y, str):
            got = "None" if y is None else type(y).__name__
            raise ValueError(f"The class of rows that are not in memory is one of their columns: y='name'. Got {got}.")
        return y

    def _classes(self, y: Any, every: np.ndarray | None = None) -> Classes:
        """Return the classes of a table; a word in `every` is a class even if it usually means a missing value."""
        name, labels, known = self._labels(y, every)
        return Classes(name, np.unique(labels[known]), labels, known)

    def _labels(self, y: Any, every: np.ndarray | None = None) -> tuple[str, np.ndarray, np.ndarray]:
        """Return the name of the class, the class of each row, and which rows have one.

        No row needs to have a class if `every` class is known already.
        """
        if isinstance(y, str):
            raise ValueError(
                f"y={y!r} names a column of a table that is not in memory, and this one is. Give the values; or a "
                "path, a Stream, iter([...]) of frames, or, with a Dask dataframe, executor=client."
            )
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if isinstance(y, Mapping) or (frames.is_frame(y) and len(frames.columns(y)) == 1):
            (name, values), *more = frames.columns(y).items()
            if more:
                raise ValueError(f"The class is one column. Got {len(more) + 1} of them.")
        else:
            name = str(getattr(y, "name", None) or "class")
            y = list(y) if isinstance(y, tuple) else y
            values = frames.as_column(y, "y") if hasattr(y, "to_numpy") or isinstance(y, list) else y
        values = self._unless_missing(values, name, every)
        _check_one_kind(values)
        if isinstance(values, np.ndarray) and values.dtype.kind in "Mm":
            raise ValueError("Classes are words, numbers or truth values. Got dates; turn them into words.")
        known = _has_class(values)
        if known.all():
            labels = _check_y(values, estimator=self)
            check_classification_targets(labels)
            return name, labels, np.ones(len(labels), dtype=bool)
        if not known.any():
            if every is None:
                raise ValueError("The class of no row is known.")
            return name, np.full(len(known), every[0], dtype=every.dtype), known
        some = _check_y(
            np.array([value for value in frames.as_list(values) if not is_missing_value(value)]), estimator=self
        )
        check_classification_targets(some)
        labels = np.full(len(known), some[0], dtype=some.dtype)
        labels[known] = some
        return name, labels, known

    def _unless_missing(self, values: Any, name: str, every: np.ndarray | None) -> Any:
        """Return the classes, with None for a word that means a missing value and is not in `every`."""
        if not isinstance(values, list) and not (isinstance(values, np.ndarray) and values.dtype.kind in "OUS"):
            return values
        codes, classes = self._missing_codes(), set() if every is None else set(every.tolist())
        given = values if isinstance(values, list) else values.tolist()
        words = [one for one in given if isinstance(one, str) and one not in classes]
        found = Counter(one for one in words if (is_missing_word(one) if codes is None else one in codes))
        bad = next((one for one in words if not is_text(one)), None)
        if bad is not None:
            raise SchemaError(
                f"the class {bad!r} is not text, so no file can hold it.", row=given.index(bad), column=name, value=bad
            )
        if found and codes is None:
            warn_of_missing_classes(name, found)
        return [None if isinstance(one, str) and one in found else one for one in given] if found else values

    def _set_classes(self, classes: Classes) -> None:
        self._y_name, self.classes_ = classes.name, classes.every

    def _class_name(self) -> str:
        return self._free(self._y_name)

    def _class_names(self) -> list[str]:
        return [self._class_name()]

    def _class_labels(self) -> list[Label]:
        return [value.item() if isinstance(value, np.generic) else value for value in self.classes_]

    def _observed(self) -> dict[str, list[Label]]:
        return {**self.schema_.states, self._class_name(): self._class_labels()}


def _check_one_kind(values: Any) -> None:
    """Raise an error if some classes are words and others are not: NumPy would make 1 and "1" one class."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "O" and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list) or len(set(map(type, values))) < 2:
        return
    known = [value for value in values if not is_missing_value(value)]
    word = next((value for value in known if isinstance(value, str)), None)
    other = next((value for value in known if isinstance(value, (int, float, np.number, np.bool_))), None)
    if word is not None and other is not None:
        raise ValueError(
            f"Unknown label type: some classes are words, such as {word!r}, and others are not, such as {other!r}. "
            "Turn all of them into words, or all into numbers."
        )


def _has_class(values: Any) -> np.ndarray:
    """Return which rows have a class."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind not in "OUS":
        known: np.ndarray = values == values  # NaN is not
        return known
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "O":
        values = values.tolist()
    if not isinstance(values, list):
        return np.ones(1, dtype=bool)
    return np.array([not is_missing_value(value) for value in values], dtype=bool)
