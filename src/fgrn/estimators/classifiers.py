"""Classifiers: a hidden variable, or several layers of them, over the columns and the class."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, column_or_1d

from .. import frames, structures
from ..criteria import Selection
from ..em import History
from ..explanation import Explanation
from ..labels import Label
from ..network import Network
from ..schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._choosing import Choosing
from ._tables import Classes


class LatentClassifierBase(ClassifierMixin, LatentEstimator):  # type: ignore[misc]
    """What classifiers share: classes in, classes out."""

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Learn from a table and the class of each row.

        Args:
            X: the table: any dataframe, a mapping of columns or an array, of words, numbers and holes. Or what is not
                in memory: a path, a glob, a dataset of Arrow, batches of rows, or a `Stream`; y and sample_weight are
                then names of its columns.
            y: the classes, also as a table of one column, which names them. Where it is None or NaN the class of a row
                is not known; the row still teaches what goes with what.
            sample_weight: one weight per row; a row of weight 0 is as if it were not there.
            executor: a client of dask.distributed, whose workers keep the rows and count them; X is then a Dask
                dataframe, or Parquet files that every worker can read, and y and sample_weight names of columns.

        If it fails, the model is as it was before.
        """
        self._validate_params()
        if executor is not None or frames.is_source(X):
            return self._fit_stream(X, sample_weight, y, executor)
        return self._fit(X, sample_weight, self._classes(y))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from rows that are seen once: a step of online EM, see `fgrn.online`.

        The first batch is learnt as `fit` would, and decides what the columns mean, unless a `schema` is given.

        Args:
            X: the rows; or a path, a glob, an iterator of frames, or a `Stream`, which is read once, and of which every
                batch (`Stream(..., rows=)`) is a step; y and sample_weight are then names of its columns.
            y: their classes; where they are None or NaN they are not known, in all rows of a later batch if need be.
            classes: all classes there will be; needed in the first call, unless X is read in batches: then those of the
                first one are taken.
            sample_weight: one weight per row.
        """
        self._validate_params()
        if frames.is_source(X):
            return self._partial_fit_stream(X, sample_weight, y, classes)
        name, labels, known = self._labels(y, getattr(self, "classes_", None))
        if not hasattr(self, "network_"):
            if classes is None:
                raise ValueError("The first call of partial_fit needs all classes there will be: classes=[...].")
            every = np.unique(column_or_1d(classes))
        else:
            name, every = self._y_name, self.classes_
            if classes is not None and not np.array_equal(np.unique(column_or_1d(classes)), every):
                raise ValueError(f"These classes are not those of the first call, {every.tolist()}.")
        strange = np.setdiff1d(labels[known], every)
        if len(strange):
            raise ValueError(f"The class {strange[0]!r} is not among those of the first call, {every.tolist()}.")
        return self._partial_fit(X, sample_weight, Classes(name, every, labels, known))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The distribution of the class in each row, in the order of `classes_`.

        That of a row of probability zero, which only tables with zeros know, is what it is where nothing is known, with
        a warning that names the row.

        Args:
            X: the table.
        """
        return self._posterior(X, self._class_name)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row.

        Args:
            X: the table.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        found: np.ndarray = self.classes_[codes]
        return found

    def explain(self, row: Any, target: Any = None) -> Explanation:
        """How much each value of a row speaks for a class, in nats of log-odds that sum to those of the row.

        Args:
            row: a mapping of values, or a table of one row.
            target: the class to explain, the likeliest unless given.
        """
        check_is_fitted(self)
        state = None if target is None else self._class_labels()[self._code(target)]
        return self._explain(row, self._class_name(), state)

    @property
    def prototypes_(self) -> dict[Any, dict[str, dict[Label, float]]]:
        """For each class the distribution of every column, by level."""
        check_is_fitted(self, "network_")
        return dict(zip(self.classes_, self._prototypes(self._class_name()), strict=True))

    def _code(self, target: Any) -> int:
        found = np.flatnonzero(self.classes_ == target)
        if not len(found):
            raise ValueError(f"There is no class {target!r}. Known: {self.classes_.tolist()}.")
        return int(found[0])

    def _classes(self, y: Any) -> Classes:
        """The classes of a whole table."""
        name, labels, known = self._labels(y)
        return Classes(name, np.unique(labels[known]), labels, known)

    def _labels(self, y: Any, every: np.ndarray | None = None) -> tuple[str, np.ndarray, np.ndarray]:
        """What the class is called, the classes as an array, and which of them are known.

        None of them may be, once it is known which there are, `every` one.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if isinstance(y, Mapping) or (frames.is_frame(y) and len(frames.columns(y)) == 1):
            (name, values), *more = frames.columns(y).items()
            if more:
                raise ValueError(f"The class is one column. Got {len(more) + 1} of them.")
        else:
            name = str(getattr(y, "name", None) or "class")
            values = frames.plain(y, "y") if hasattr(y, "to_numpy") or isinstance(y, list) else y
        if isinstance(values, np.ndarray) and values.dtype.kind in "Mm":
            raise ValueError("Classes are words, numbers or truth values. Got dates; turn them into words.")
        known = _known(values)
        if known.all():
            labels = _check_y(values, estimator=self)
            check_classification_targets(labels)
            return name, labels, np.ones(len(labels), dtype=bool)
        if not known.any():
            if every is None:
                raise ValueError("The class of no row is known.")
            return name, np.full(len(known), every[0], dtype=every.dtype), known
        some = _check_y(
            np.array([value for value in frames.listed(values) if not frames.is_unknown(value)]), estimator=self
        )
        check_classification_targets(some)
        labels = np.full(len(known), some[0], dtype=some.dtype)
        labels[known] = some
        return name, labels, known

    def _know(self, classes: Classes) -> None:
        self._y_name, self.classes_ = classes.name, classes.every

    def _class_name(self) -> str:
        return self._free(self._y_name)

    def _class_labels(self) -> list[Label]:
        return [value.item() if isinstance(value, np.generic) else value for value in self.classes_]

    def _observed(self) -> dict[str, list[Label]]:
        return {**self.schema_.states, self._class_name(): self._class_labels()}


def _known(values: Any) -> np.ndarray:
    """Which classes are known, of what may be a column."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind not in "OUS":
        known: np.ndarray = values == values  # NaN is not
        return known
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "O":
        values = values.tolist()
    if not isinstance(values, list):
        return np.ones(1, dtype=bool)
    return np.array([not frames.is_unknown(value) for value in values], dtype=bool)


class LatentClassifier(Choosing, LatentClassifierBase):
    """One hidden variable explains the columns and the class: the Latent Variable Model as a classifier.

    Args:
        n_hidden: the states of the hidden variable, or "auto": as many as the criterion says.
        n_epochs: the most epochs of EM.
        cycles: updates of each table per epoch; 1 is the incremental algorithm, more the batch one.
        smoothing: a Dirichlet count for every cell of every table; priors are as counted.
        n_init: random starts, of which the best is kept.
        tol: learning ends when an epoch gains less log-likelihood per row.
        learn_prior: whether the prior of the hidden variable is learnt.
        criterion: for n_hidden="auto": "bic", "aic" or "held_out".
        max_hidden: for n_hidden="auto": the most states to try.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN.
        schema: what the columns mean, if that is not to be found in the table.
        unseen: what a level, or a column of a mapping, is that was not seen in training: "unknown", with a warning, or
            an "error".
        effective_size: for `partial_fit`, how many rows of today those before stand for, at most, where what is learnt
            changes with time; None if it does not.
        engine: "auto", "cpu" or "reference".
        random_state: for the random starts.
        checkpoint: a file, or a `Checkpoint`, to keep how far `fit` has come in, so that it can be resumed.
        verbose: whether to show progress.

    Attributes:
        network_: the Network.
        schema_: what the columns mean.
        classes_: the classes.
        prototypes_: for each class the distribution of every column.
        history_: what happened in learning.
        n_hidden_: the states of the hidden variable.
        selection_: what was tried, with n_hidden="auto".
    """

    def __init__(
        self,
        n_hidden: int | str = 8,
        *,
        n_epochs: int = 100,
        cycles: int = 1,
        smoothing: float = 0.5,
        n_init: int = 3,
        tol: float = 1e-5,
        learn_prior: bool = True,
        criterion: str = "held_out",
        max_hidden: int = 64,
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        effective_size: float | None = None,
        engine: str = "auto",
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.cycles = cycles
        self.smoothing = smoothing
        self.n_init = n_init
        self.tol = tol
        self.learn_prior = learn_prior
        self.criterion = criterion
        self.max_hidden = max_hidden
        self.n_bins = n_bins
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.effective_size = effective_size
        self.engine = engine
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def compare(self, X: Any, y: Any, sizes: Any = None, sample_weight: Any = None) -> Selection:
        """Try several numbers of hidden states on a table, without changing this model.

        Args:
            X: the table, in memory or not, as for `fit`.
            y: the class of each row, or the name of that column.
            sizes: the numbers to try, all of them; unless given, more and more until the criterion gets worse.
            sample_weight: one weight per row, or the name of that column.
        """
        if frames.is_source(X):
            return self._compared(X, sizes, sample_weight, target=y)
        return self._compared(X, sizes, sample_weight, self._classes(y))


class NaiveBayesClassifier(LatentClassifierBase):
    """The hidden variable is the class: naive Bayes, with holes, unknown classes, and any columns.

    Args:
        smoothing: a Dirichlet count for every cell of every table; priors are as counted.
        n_epochs: the most epochs of EM, which matter only where classes or values are unknown.
        tol: learning ends when an epoch gains less log-likelihood per row.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN.
        schema: what the columns mean, if that is not to be found in the table.
        unseen: what a level, or a column of a mapping, is that was not seen in training: "unknown", with a warning, or
            an "error".
        effective_size: for `partial_fit`, how many rows of today those before stand for, at most, where what is learnt
            changes with time; None if it does not.
        engine: "auto", "cpu" or "reference".
        random_state: for the start where classes are unknown.
        checkpoint: a file, or a `Checkpoint`, to keep how far `fit` has come in, so that it can be resumed.
        verbose: whether to show progress.

    Attributes:
        network_: the Network.
        schema_: what the columns mean.
        classes_: the classes.
        prototypes_: for each class the distribution of every column.
        history_: what happened in learning.
    """

    cycles = 1
    n_init = 1
    n_hidden = None
    _power = 1.0  # nothing hidden, nothing to forget: batches add up to the whole table

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: rule
        for name, rule in LatentEstimator._parameter_constraints.items()
        if name not in ("cycles", "n_init", "n_hidden")
    }

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        n_epochs: int = 20,
        tol: float = 1e-5,
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        effective_size: float | None = None,
        engine: str = "auto",
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.smoothing = smoothing
        self.n_epochs = n_epochs
        self.tol = tol
        self.n_bins = n_bins
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.effective_size = effective_size
        self.engine = engine
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _network(self, n_hidden: None) -> Network:
        return structures.naive_bayes(self._observed(), self._class_name(), name=self._hidden_name())


class DeepLatentClassifier(LatentClassifierBase):
    """Layers of hidden variables: each over a group of columns, others over these, the class on top of all.

    Args:
        n_hidden: the states of the hidden variables of each layer, the lowest first; two layers or more.
        groups: how many columns, or hidden variables, share one above them.
        n_epochs: the most epochs of EM for each layer, and then for all together.
        cycles: updates of each table per epoch.
        smoothing: a Dirichlet count for every cell of every table; priors are as counted.
        n_init: random starts of each layer, of which the best is kept.
        tol: learning ends when an epoch gains less log-likelihood per row.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN.
        schema: what the columns mean, if that is not to be found in the table.
        unseen: what a level, or a column of a mapping, is that was not seen in training: "unknown", with a warning, or
            an "error".
        effective_size: for `partial_fit`, how many rows of today those before stand for, at most, where what is learnt
            changes with time; None if it does not.
        engine: "auto", "cpu" or "reference".
        random_state: for the random starts.
        checkpoint: a file, or a `Checkpoint`, to keep how far `fit` has come in, so that it can be resumed.
        verbose: whether to show progress.

    Attributes:
        network_: the Network.
        schema_: what the columns mean.
        classes_: the classes.
        prototypes_: for each class the distribution of every column.
        history_: what happened in learning all layers together.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentEstimator._parameter_constraints,
        "n_hidden": ["array-like"],
        "groups": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_hidden: Any = (4, 8),
        *,
        groups: int = 3,
        n_epochs: int = 50,
        cycles: int = 1,
        smoothing: float = 0.5,
        n_init: int = 1,
        tol: float = 1e-5,
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        effective_size: float | None = None,
        engine: str = "auto",
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.groups = groups
        self.n_epochs = n_epochs
        self.cycles = cycles
        self.smoothing = smoothing
        self.n_init = n_init
        self.tol = tol
        self.n_bins = n_bins
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.effective_size = effective_size
        self.engine = engine
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _hidden(self) -> list[str]:
        return [f"{self._hidden_name()}{len(self.n_hidden)}"]

    _hidden_name = LatentEstimator._hidden_prefix

    def _network(self, n_hidden: Any) -> Network:
        return structures.stack(
            self._observed(),
            [int(states) for states in n_hidden],
            groups=int(self.groups),
            class_variable=self._class_name(),
            name=self._hidden_name(),
        )

    def _teach(self, net: Network, data: Any, weights: np.ndarray | None, what: str = "") -> History:
        options = self._options(weights, what)
        with options["watch"]:
            return net.learn_by_layer(data, together=self.n_epochs, **options)[-1]
