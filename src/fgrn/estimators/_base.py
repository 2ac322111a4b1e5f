"""What all estimators do: read a table by a schema, teach a network, remember what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import frames
from ..em import History
from ..engines import NAMES
from ..explanation import Explanation
from ..frames import Coded
from ..labels import Label
from ..network import Network
from ..online import POWER, Online
from ..progress import Progress
from ..schema import UNSEEN, Schema

Columns = dict[str, Any]


class Classes(NamedTuple):
    """The class of each row: what it is called, all classes there are, those of the rows, and which are known."""

    name: str
    every: np.ndarray
    labels: np.ndarray
    known: np.ndarray

    @property
    def coded(self) -> Coded:
        """The position of each row's class."""
        codes = np.full(len(self.labels), -1, dtype=np.int32)
        codes[self.known] = np.searchsorted(self.every, self.labels[self.known])
        return Coded(codes)

    def take(self, rows: np.ndarray) -> Classes:
        """Those of some of the rows."""
        return self._replace(labels=self.labels[rows], known=self.known[rows])


class LatentEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """A network behind a scikit-learn estimator."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "cycles": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, 1e100, closed="both")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
        "missing_values": ["array-like", None],
        "schema": [Schema, None],
        "unseen": [StrOptions(set(UNSEEN))],
        "engine": [StrOptions({"auto", *NAMES})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    _stop: Callable[[], bool] | None = None  # asked after every epoch
    _power = POWER
    _online: Online | None
    network_: Network
    schema_: Schema
    history_: History

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    # Tables in

    def _columns(self, X: Any, *, reset: bool) -> Columns:
        """The columns of a table by name; those of an array are called x0, x1, ..."""
        if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # some sparse matrices are mappings
            return self._mapping(X, reset)
        if frames.is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if hasattr(self, "feature_names_in_"):
                columns = frames.columns(X)
                frames.row_count(columns, least=1)
                return columns
            X = frames.as_objects(X)
        X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        return {name: X[:, position] for position, name in enumerate(self._names())}

    def _mapping(self, X: Mapping[str, Any], reset: bool) -> Columns:
        columns = frames.columns(X)
        frames.row_count(columns, least=1)
        if reset:
            self.n_features_in_ = len(columns)
            self.feature_names_in_ = np.array(list(columns), dtype=object)
        elif list(columns) != self._names():
            raise ValueError(
                f"The columns of a table are those of training, in the same order: {', '.join(self._names())}. Got "
                f"{', '.join(columns)} instead."
            )
        return columns

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{number}" for number in range(self.n_features_in_)] if names is None else list(names)

    def _weights(self, sample_weight: Any, columns: Columns) -> np.ndarray | None:
        if sample_weight is None:
            return None
        rows = np.empty((frames.row_count(columns), 0))
        weights: np.ndarray = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("All sample weights are zero, so there is nothing to learn from.")
        return weights

    def _coded(self, X: Any) -> dict[str, Coded]:
        """A table to be asked about, as codes."""
        check_is_fitted(self)
        return self.schema_.codes(self._columns(X, reset=False), self.unseen)

    # Learning

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read_schema(self, X: Any, columns: Columns, weights: np.ndarray | None) -> Schema:
        if self.schema is not None:
            for name in columns:
                self.schema[name]
            return Schema(self.schema[name] for name in columns)
        return Schema.infer(
            columns,
            missing=() if self.missing_values is None else self.missing_values,
            bins=self.n_bins,
            max_levels=self.max_levels,
            weights=weights,
            categories=frames.categories(X) if hasattr(self, "feature_names_in_") else {},
        )

    def _options(self, weights: np.ndarray | None, what: str = "") -> dict[str, Any]:
        return {
            "epochs": self.n_epochs,
            "cycles": self.cycles,
            "smoothing": self.smoothing,
            "weights": weights,
            "seed": self._seed(),
            "starts": self.n_init,
            "tolerance": self.tol,
            "engine": self.engine,
            "watch": Progress.of(self.verbose, self.n_epochs, self.n_init, what, self._stop),
        }

    def _teach(self, net: Network, data: Mapping[str, Coded], weights: np.ndarray | None, what: str = "") -> History:
        """Learn the tables of a network; stacks do it layer by layer."""
        options = self._options(weights, what)
        with options["watch"]:
            return net.learn(data, **options)

    def _fit(self, X: Any, sample_weight: Any, classes: Classes | None = None) -> Self:
        """Read the table, choose a network, teach it."""
        columns, weights, classes = self._taken(X, sample_weight, classes)
        self._kind = frames.kind_of(X)
        if classes is not None:
            self._know(classes)
        self.schema_ = self._read_schema(X, columns, weights)
        data = self.schema_.codes(columns, self.unseen)
        if classes is not None:
            data = {**data, self._class_name(): classes.coded}
        self._online = None
        self.n_rows_ = frames.row_count(columns)
        self.weight_ = float(self.n_rows_ if weights is None else weights.sum())
        self._choose(data, weights)
        self.n_iter_ = self.history_.epochs
        return self

    def _taken(
        self, X: Any, sample_weight: Any, classes: Classes | None = None
    ) -> tuple[Columns, np.ndarray | None, Classes | None]:
        """The columns, weights and classes of a table to learn from; a row of weight 0 is as if it were not there."""
        columns = self._columns(X, reset=True)
        _check_lengths(columns, classes)
        weights = self._weights(sample_weight, columns)
        if weights is None or weights.all():
            return columns, weights, classes
        kept = np.flatnonzero(weights)
        columns = {name: frames.taken(column, kept) for name, column in columns.items()}
        return columns, weights[kept], None if classes is None else classes.take(kept)

    def _know(self, classes: Classes) -> None:
        """Remember what the classes are."""

    def _choose(self, data: dict[str, Coded], weights: np.ndarray | None) -> None:
        """The network for this table, taught."""
        self.network_ = self._network(self.n_hidden)
        self.history_ = self._teach(self.network_, data, weights)

    def _network(self, n_hidden: Any) -> Network:
        raise NotImplementedError

    def _free(self, wanted: str) -> str:
        """A name no column has."""
        taken = set(self._names())
        while wanted in taken or any(name.startswith(f"{wanted}->") for name in taken):
            wanted += "_"
        return wanted

    def _hidden_name(self) -> str:
        return self._free("S")

    def _hidden_prefix(self) -> str:
        """What hidden variables that are numbered begin with: as no column does."""
        wanted = "S"
        while any(name.startswith(wanted) for name in self._names()):
            wanted += "_"
        return wanted

    def _class_name(self) -> str:
        return self._free("class")

    def _hidden(self) -> list[str]:
        return [self._hidden_name()]

    def _observed(self) -> dict[str, list[Label]]:
        """The variables and states of the network."""
        return self.schema_.states

    # A batch at a time

    def _partial_fit(self, X: Any, sample_weight: Any, classes: Classes | None = None) -> Self:
        """One step of online EM; the first batch is learnt like a table."""
        first = not hasattr(self, "network_")
        if first:
            self._fit(X, sample_weight, classes)
        data = self._coded(X)
        _check_lengths(data, classes)
        if classes is not None:
            data = {**data, self._class_name(): classes.coded}
        weights = self._weights(sample_weight, data)
        if self._online is None:  # after the first batch from what it counts, after `fit` from what the model expects
            self._online = self.network_.online(0.0 if first else self.weight_, self._power)
        self.history_ = self.network_.learn(
            data, epochs=1, smoothing=self.smoothing, weights=weights, engine=self.engine, online=self._online
        )
        self.n_rows_ += 0 if first else frames.row_count(data)
        self.weight_ = self._online.weight
        self.n_iter_ += 1
        return self

    def save(self, path: Any) -> None:
        """Write the fitted estimator to a model file (`.fgrn`); `fgrn.load` reads it back.

        Args:
            path: of the file.
        """
        from ..io.model_file import save

        check_is_fitted(self)
        save(self, path)

    # What everybody may ask

    def _posterior(self, data: Mapping[str, Coded], name: str) -> np.ndarray:
        return self.network_.posterior(data, name, engine=self.engine)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log-likelihood of each row; what is unknown in it is summed out.

        Args:
            X: the table.
        """
        data = self._coded(X)
        return self.network_.propagate(data, keep=[], engine=self.engine).log_likelihood

    def complete(self, X: Any, return_proba: bool = False) -> Any:
        """The same table with every unknown value filled in: the likeliest level, or the expected number.

        Args:
            X: the table.
            return_proba: also return how likely the level of each value is, (rows, columns); 1 where it was known.
        """
        data = self._coded(X)
        filled, sure = self._filled(self._columns(X, reset=False), data)
        out = frames.replaced(X, frames.columns(X), filled) if not _is_array(X) else _array(X, filled, self._names())
        return (out, sure) if return_proba else out

    def _filled(self, columns: Columns, data: Mapping[str, Coded]) -> tuple[dict[str, list[Any]], np.ndarray]:
        """The columns with holes, filled; and how likely the level of each value is."""
        open_ones = [name for name, column in data.items() if (column.codes < 0).any()]
        found = self.network_.propagate(data, keep=open_ones, parts=["marginal"], engine=self.engine)
        sure = np.ones((frames.row_count(columns), len(columns)))
        filled: dict[str, list[Any]] = {}
        for position, name in enumerate(data):
            if name not in open_ones:
                continue
            column, belief, old = self.schema_[name], found.marginal(name), frames.listed(columns[name])
            unknown = data[name].codes < 0
            for row in np.flatnonzero(unknown).tolist():  # a level that was not seen in training is known all the same
                unknown[row] = frames.is_unknown(old[row]) or old[row] in column.missing
            best = belief.argmax(axis=1)
            sure[unknown, position] = belief[unknown, best[unknown]]
            if column.centers:
                new: list[Any] = (belief @ np.array(column.centers)).tolist()
            else:
                new = [column.levels[code] for code in best.tolist()]
            filled[name] = [n if is_open else o for n, is_open, o in zip(new, unknown, old, strict=True)]
        return filled, sure

    def _by_level(self, beliefs: Mapping[str, np.ndarray]) -> dict[str, dict[Any, float]]:
        """Distributions of columns, by level."""
        return {
            name: dict(zip(column.levels, beliefs[name].tolist(), strict=True)) for name, column in self.schema_.items()
        }

    def _explain(self, row: Any, name: str, state: Any = None) -> Explanation:
        """Why a variable is in a state in one row, a mapping or a table of one row."""
        one = row if isinstance(row, Mapping) else frames.only_row(row, self._names() if _is_array(row) else None)
        known = {key: value for key, value in one.items() if key in self.schema_}
        unknown = [key for key in one if key not in self.schema_ and key != name]
        if unknown:
            self.schema_[unknown[0]]
        known = {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in known.items()
        }
        codes = self.schema_.codes({key: [value] for key, value in known.items()}, self.unseen)
        return self.network_.explain(codes, name, state, values=known, engine=self.engine)


def _check_lengths(columns: Mapping[str, Any], classes: Classes | None) -> None:
    rows = frames.row_count(columns)
    if classes is not None and len(classes.labels) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, len(classes.labels)]}")


def _is_array(X: Any) -> bool:
    return not isinstance(X, Mapping) and not frames.is_frame(X)


def _array(X: Any, filled: Mapping[str, list[Any]], names: list[str]) -> np.ndarray:
    """An array like the one that came, with the unknown filled in."""
    array = np.array(X, dtype=None if isinstance(X, np.ndarray) else object)
    if array.dtype.kind not in "biufO":
        array = array.astype(object)
    if array.dtype.kind in "biu" and any(value != int(value) for values in filled.values() for value in values):
        array = array.astype(np.float64)
    for position, name in enumerate(names):
        if name in filled:
            array[:, position] = filled[name]
    return array
