"""The base class of all estimators: reads a table by a schema, learns a network, and computes predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..bayes.tree_mixture import TreeMixture
from ..core.exceptions import FgrnWarning, InterruptedWarning, LearningError, Remedy, warn
from ..core.labels import Label
from ..core.learning_defaults import ONLINE_POWER
from ..core.progress import LearningProgress, ReadingProgress
from ..engines import engine_names
from ..flow.em import History
from ..flow.evidence import encode
from ..flow.online import Online
from ..graph.network import Network
from ..learning.checkpoints import Checkpoint, Journal, Returned, open_journal
from ..queries.completion import impute
from ..queries.explanation import Explanation
from ..queries.opinion_pool import OpinionPool
from ..queries.prototypes import MeanAndSpread, Prototypes
from ..queries.questions import explained_by
from ..tables import frames, one_row
from ..tables.encoded import EncodedTable, Evidence, NamedStates
from ..tables.frames import Coded
from ..tables.schema import MOST_LEVELS, UNSEEN, Schema
from ..tables.table_warnings import warn_of_identifiers, warn_of_spaces
from ._convergence import warn_if_not_converged
from ._decision import Decision
from ._hidden_names import HiddenNames
from ._many_states import warn_of_many_states
from ._streams import encoded_stream, online_batches
from ._tables import Classes, Columns, check_lengths, is_array
from ._without_effect import warn_without_effect

FAINTEST_STATE = 1e-9
"""A hidden state of smaller probability does not belong to a class."""


class LatentEstimator(HiddenNames):
    """Base class of scikit-learn estimators that fit a network to a table."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "cycles": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, 1e100, closed="both")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
        "missing_values": ["array-like", str, Real, None],
        "schema": [Schema, None],
        "unseen": [StrOptions(set(UNSEEN))],
        "effective_size": [Interval(Real, 0, None, closed="neither"), None],
        "engine": [StrOptions({"auto", *engine_names()})],
        "random_state": ["random_state"],
        "checkpoint": [str, PathLike, Checkpoint, None],
        "verbose": ["verbose"],
    }

    _stop: Callable[[], bool] | None = None  # asked after every epoch
    _power = ONLINE_POWER
    _least_prior = 0.0  # of a state that no row has had yet, in learning from batches
    _journal: Journal | None = None  # while `fit` runs
    _is_first_batch = False  # while the first of many batches is learnt, whose tables change with the next one
    network_: Network
    schema_: Schema
    history_: History

    def _validate_params(self) -> None:
        super()._validate_params()
        for name, allowed in self._parameter_constraints.items():
            value = getattr(self, name, None)
            is_number = any(isinstance(one, Interval) for one in allowed) and "boolean" not in allowed
            if is_number and isinstance(value, bool):  # which scikit-learn takes for 0 and 1
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be a number. Got {value!r} instead."
                )

    # Reading tables

    def _coded(self, X: Any) -> dict[str, Coded]:
        """Return the columns of a table for prediction, as codes."""
        return self._read(X)[1]

    def _read(self, X: Any, kept: bool = False) -> tuple[Columns, dict[str, Coded]]:
        """Return the columns of a table for prediction, by value and as codes; `kept` as in `Schema.codes`."""
        if "network_" not in self.__dict__:
            check_is_fitted(self)
        columns = self._columns(X, reset=False)
        return columns, self.schema_.codes(columns, self.unseen, kept)

    # Learning

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _missing_codes(self) -> list[Any] | None:
        """Return the values that mean "missing"; None for the default words of files."""
        given = self.missing_values
        return None if given is None else np.atleast_1d(np.array(given, dtype=object)).tolist()

    def _read_schema(self, columns: Columns, weights: np.ndarray | None) -> Schema:
        """Return the schema of columns: the one given, or inferred."""
        if self.schema is not None:
            for name in columns:
                self.schema[name]
            return Schema(self.schema[name] for name in columns)
        return Schema.infer(
            columns,
            missing=self._missing_codes(),
            bins=self._bins(columns, weights),
            max_levels=self.max_levels,
            weights=weights,
            keep_empty=True,
            continuous=self._continuous_columns(self._names()),
        )

    def _continuous_columns(self, names: Sequence[str]) -> list[str] | str:
        """Return which columns are continuous, and get no bins; "auto" for all columns that would get bins."""
        return []

    def _bins(self, columns: Columns, weights: np.ndarray | None) -> int:
        """Return the number of bins of a column with many distinct numbers."""
        return int(self.n_bins)

    def _options(self, what: str = "") -> dict[str, Any]:
        return {
            "epochs": self.n_epochs,
            "cycles": self.cycles,
            "smoothing": self._learning_smoothing(),
            "seed": self._seed(),
            "starts": self.n_init,
            "tolerance": self.tol,
            "accelerate": self.cycles == 1,
            "engine": self.engine,
            "checkpoint": self._journal,
            "watch": LearningProgress.of(self.verbose, self.n_epochs, self.n_init, what, self._stopped),
        }

    def _learn_network(self, net: Network, table: EncodedTable, what: str = "", **settings: Any) -> History:
        """Learn the tables of a network, with changed settings if given; stacks are learnt layer by layer."""
        options = self._options(what) | settings
        with options["watch"]:
            history = net.learn(table, **options)
        if self.verbose > 1:
            ReadingProgress(self.verbose).note(history.execution)
        return history

    def _fit(self, X: Any, sample_weight: Any, classes: Classes | None = None, batch: bool = False) -> Self:
        """Read the table, choose a network and learn it; without a checkpoint for the first of many batches."""
        with self._or_as_before():
            return self._fit_table(frames.kind_of(X), self._learnable(X, sample_weight, classes), batch)

    def _fit_stream(self, X: Any, sample_weight: Any, target: Any = None, executor: Any = None) -> Self:
        """Fit rows that are not in memory; the class and the weights are among their columns."""
        with self._or_as_before():
            return self._fit_table("pyarrow", encoded_stream(self, X, sample_weight, target, executor))

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        """Choose a network for an encoded table, and learn its tables."""
        return self._fit_by(self._train, kind, table, batch)

    def _fit_by(self, train: Callable[[EncodedTable], None], kind: str, table: EncodedTable, batch: bool) -> Self:
        """Fit rows whose columns are known; `train` chooses a network for them, and learns its tables."""
        if self.checkpoint is not None and not isinstance(self.random_state, Integral):
            raise LearningError(
                "must be a number if there is a checkpoint, so that random starts can be repeated.",
                setting="random_state",
                value=self.random_state,
            )
        if not batch:
            warn_without_effect(self)
            warn_of_many_states(self, table.rows)
        self._kind = kind
        self.n_rows_, self.weight_ = table.rows, table.weight
        self._is_first_batch = batch
        try:
            with nullcontext() if batch else open_journal(self.checkpoint, interruptible=True) as self._journal:
                train(table)
            interruption = "" if self._journal is None else self._journal.interruption
        finally:
            self._journal, self._is_first_batch = None, False
        self.n_iter_ = self.history_.epochs
        if batch:  # it comes again, to be counted
            self.n_rows_, self.weight_ = 0, 0.0
        elif interruption:
            warn(self._interrupted(interruption), InterruptedWarning)
        else:
            warn_if_not_converged(self)
        return self

    def _stopped(self) -> bool:
        """Return whether learning should end soon: a callback requested it, or the user interrupted."""
        asked = self._stop is not None and self._stop()
        return asked or (self._journal is not None and bool(self._journal.interruption))

    @contextmanager
    def _ending_if_interrupted(self, when: str, has_result: Callable[[], bool]) -> Iterator[None]:
        """End a step of `fit` early if the user interrupts it, and continue with its result so far, if it has one."""
        try:
            yield
        except KeyboardInterrupt:
            if self._journal is None or self._journal.interruption or not has_result():
                raise
            self._journal.interruption = when

    def _finished(self, work: Callable[[], Returned]) -> Returned:
        """Return the result of a step of `fit` that must be completed: it is run again after an interruption."""
        return work() if self._journal is None else self._journal.finished(work)

    def _interrupted(self, when: str) -> InterruptedWarning:
        if self.checkpoint is None:
            remedy = Remedy("to be able to continue next time, fit", "checkpoint='run.ckpt'", checkpoint=...)
        else:
            path = str(self.checkpoint.path if isinstance(self.checkpoint, Checkpoint) else self.checkpoint)
            python = f"checkpoint=fgrn.Checkpoint({path!r}, resume=True)"
            remedy = Remedy("to continue, fit", python, checkpoint=path, resume=True)
        return InterruptedWarning(f"fit was interrupted {when}; the best model so far is kept.", remedies=remedy)

    def _learnable(self, X: Any, sample_weight: Any, classes: Classes | None) -> Evidence:
        """Return the codes and weights of a table to learn from; sets the columns and classes of the model."""
        return self._learnable_columns(*self._training_columns(X, sample_weight, classes))

    def _learnable_columns(self, columns: Columns, weights: np.ndarray | None, classes: Classes | None) -> Evidence:
        """Infer the schema of columns to learn from, and return their codes."""
        if classes is not None:
            self._set_classes(classes)
        self.schema_ = self._read_schema(columns, weights)
        if self.schema is None:
            warn_of_identifiers(self.schema_.values(), columns, MOST_LEVELS)
            warn_of_spaces(self.schema_.values())
        table = self._encoded(self.schema_.codes(columns, self.unseen, learning=True), weights, classes)
        self._take_units(table)
        return table

    def _take_units(self, table: EncodedTable) -> None:
        """Take the units of continuous columns from a table to learn from."""

    def _encoded(
        self, data: Mapping[str, Coded], weights: np.ndarray | None, classes: Classes | None = None
    ) -> Evidence:
        """Return the codes of rows and of their classes, with their weights, as one table."""
        states = self._observed()
        variables = NamedStates(tuple(states), tuple(map(tuple, states.values())))
        rows = data if classes is None else {**data, self._class_name(): classes.coded}
        return encode(variables, rows, weights, continuous=self.schema_.continuous)

    def _set_classes(self, classes: Classes) -> None:
        """Set the classes of the model from a table to learn from."""

    def _train(self, table: EncodedTable) -> None:
        """Choose a network for this table, and learn its tables."""
        self.network_ = self._network(self.n_hidden)
        self.history_ = self._learn_network(self.network_, table)

    def _network(self, n_hidden: Any) -> Network:
        raise NotImplementedError

    def _states_asked(self) -> int:
        """Return the number of states that the user wants the largest hidden variable to have; 0 if it is chosen."""
        given = getattr(self, "n_hidden", None)
        return int(given) if isinstance(given, Integral) else 0

    def _observed(self) -> dict[str, list[Label]]:
        """Return the observed variables of the network with their states."""
        return self.schema_.states

    def _smoothing(self) -> Any:
        """Return the counts added to each cell: one number or, for "auto", 1 / levels for each column's table."""
        if self.smoothing != "auto":
            return self.smoothing
        return {name: 1 / len(levels) for name, levels in self._observed().items()}

    def _learning_smoothing(self) -> Any:
        """Return the smoothing in the form of `Network.learn`, adapted to the tables of the network."""
        return self._smoothing()

    # Online learning, batch by batch

    def _partial_fit(self, X: Any, sample_weight: Any, classes: Classes | None = None) -> Self:
        """Run one step of online EM; the first batch is fitted like a table."""
        if not hasattr(self, "network_"):
            with self._or_as_before():
                return self._fit(X, sample_weight, classes, batch=True)._partial_fit(X, sample_weight, classes)
        data = self._coded(X)
        rows = frames.row_count(data)
        check_lengths(rows, classes)
        return self._step(self._encoded(data, self._weights(sample_weight, rows), classes))

    def _partial_fit_stream(self, X: Any, sample_weight: Any, target: Any = None, classes: Any = None) -> Self:
        """Run a step of online EM for each batch; if a batch fails, the batches before it have been learnt."""
        with (
            closing(online_batches(self, X, sample_weight, target, classes)) as batches,
            ReadingProgress(self.verbose) as reporter,
        ):
            if not hasattr(self, "network_"):
                with self._or_as_before():
                    first = next(batches)
                    self._take_units(first)
                    self._fit_table("pyarrow", first, batch=True)._step(first)
            while not self._stopped():
                reporter("rows learnt", self.n_rows_, 0)
                found = next(batches, None)
                if found is None:
                    break
                self._step(found)
        return self

    def _step(self, table: Evidence) -> Self:
        """Run a step of online EM; the first one after `fit` starts from the counts that the model expects."""
        state = self._online or self.network_.online(self.weight_, self._power, self.effective_size)
        state.effective_size = self.effective_size
        smoothing = self._learning_smoothing()
        if self._least_prior:
            layout = self.network_._spec.layout
            smoothing = dict.fromkeys(layout.prior_names, self._least_prior)
            smoothing |= {group[0]: self.smoothing for group in layout.table_names}
        self.history_ = self.network_.learn(table, epochs=1, smoothing=smoothing, engine=self.engine, online=state)
        self.n_rows_ += int(np.count_nonzero(table.row_weights))
        self.weight_ = state.weight
        self.n_iter_ += 1
        if self._decision.refined:  # for the tables of before
            warn(
                "partial_fit has dropped the tables that `fit` had refined to predict the class: from now on the class "
                "is predicted by the tables that describe the rows, which may be worse. Fit all rows again to refine "
                "them.",
                FgrnWarning,
            )
        self._decision.keep(())
        return self

    @property
    def _online(self) -> Online | None:
        """Return the running counts, if the model was learnt in batches."""
        return self.network_.online_state

    def save(self, path: Any) -> None:
        """Write the fitted estimator to a model file (`.fgrn`); `fgrn.load` reads it back.

        Args:
            path: of the file.
        """
        from ..files.model_file import save

        check_is_fitted(self)
        save(self, path)

    # Public queries

    @property
    def _decision(self) -> Decision:
        """The networks that are asked for the class."""
        return Decision(self)

    def _joint_model(self) -> Network | TreeMixture:
        """The model of the joint distribution: the fitted network, or a mixture of trees learnt from it."""
        found: Network | TreeMixture = getattr(self, "mixture_", self.network_)
        return found

    def _variable_messages(
        self, data: Mapping[str, Coded], names: Sequence[str], way: str = "marginal"
    ) -> dict[str, np.ndarray]:
        """Return messages on some variables, (rows, states); for an impossible row, those without any evidence."""
        return OpinionPool((self._joint_model(),)).messages(data, names, way, self.engine)

    def _posterior(self, X: Any, name_of: Callable[[], str]) -> np.ndarray:
        """Return the posterior distribution of one variable in each row."""
        data, name = self._coded(X), name_of()
        found = self._decision.pool.messages(data, [name], engine=self.engine)[name]
        chances: np.ndarray = np.minimum(found, 1.0)  # rounded: metrics refuse a probability above 1
        return chances

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each row, summed over missing values; -inf for an impossible row.

        Args:
            X: the table.
        """
        data = self._coded(X)
        return self._joint_model().propagate(data, keep=[], engine=self.engine, impossible="mark").log_likelihood

    def embed(self, X: Any) -> np.ndarray:
        """Return the embedding of each row: the backward messages of all hidden variables, side by side.

        Args:
            X: the table.
        """
        return np.concatenate(
            list(self._variable_messages(self._coded(X), self._hidden(), "backward").values()), axis=1
        )

    def complete(self, X: Any, return_proba: bool = False) -> Any:
        """Return the table with missing values imputed: the most probable level, or the expected number.

        The network of a classifier was chosen to predict the class, and describes the other columns less well than
        that of `LatentClassModel` or `LatentImputer`.

        An expected number need not be whole: a column of whole numbers then becomes one of floats.
        A column without known values in training is unchanged, and so is a level that was not seen there; for the
        other columns it counts as missing. A table with names may also have the class of a classifier as a column: it
        is imputed as `predict` says where it is missing, and used as evidence where it is known.

        Args:
            X: the table, or one row of values with names.
            return_proba: also return the probability of each value, (rows, columns of training), and of the class
                last, if X has it; 1 where it was known, 0 for a level that was not seen in training.
        """
        row = one_row.named_row(X)
        if row is not None:
            new, likely = self.complete(row, return_proba=True)
            series = type(X)(new, name=X.name)
            return (series, likely) if return_proba else series
        plain = frames.columns(X) if isinstance(X, Mapping) else {}
        filled, sure = self._filled(*self._completable(plain or X))
        out = self._imputed(X, plain, filled)
        return (out, sure) if return_proba else out

    def _completable(self, X: Any) -> tuple[Columns, dict[str, Coded], Schema]:
        """Return the columns of a table to be imputed, by value and as codes, and their schema."""
        columns, data = self._read(X, kept=True)
        return columns, data, self.schema_

    def _filled(
        self, columns: Columns, data: Mapping[str, Coded], schema: Schema
    ) -> tuple[dict[str, list[Any]], np.ndarray]:
        """Return the columns with missing values, imputed, and the probability of each imputed value."""
        return impute(columns, data, schema, lambda names: self._variable_messages(data, names))

    def _prototypes(self, name: str, states: Iterable[Any]) -> Prototypes[Any]:
        """Return, for each state of a variable, the distribution of every column by level; `states` are their names."""
        check_is_fitted(self, "network_")
        found, labels, hidden = [], list(self.network_.variable(name).labels), self._hidden()
        for state in labels:
            beliefs = self.network_.prototype(name, state)
            levels = self.schema_.states.items()
            found.append({key: dict(zip(names, beliefs[key].tolist(), strict=True)) for key, names in levels})
        given = self.network_.propagate({name: labels}, keep=hidden, parts=["marginal"], impossible="mark")
        tables = np.max([(given.marginal(one) > FAINTEST_STATE).sum(axis=1) for one in hidden], axis=0)
        smoothing = self._smoothing()
        counts = smoothing if isinstance(smoothing, Mapping) else dict.fromkeys(self.schema_.states, smoothing)
        smoothed = [{key: int(number) * count for key, count in counts.items()} for number in tables]
        shares = self.network_.propagate(None, keep=[name]).marginal(name)[0]
        return Prototypes(states, found, shares, self.weight_ or np.inf, smoothed, self._numbers_of_states())

    def _numbers_of_states(self) -> list[dict[str, MeanAndSpread]]:
        """Return the mean and standard deviation of continuous columns by state; none in this base class."""
        return []

    def _explain(self, row: Any, name: str, state: Any = None) -> Explanation:
        """Explain why a variable is in a state in one row, which is a mapping or a table of one row."""
        one = row if isinstance(row, Mapping) else one_row.only_row(row, self._names() if is_array(row) else None)
        for key in one:
            if key != name:
                self.schema_[key]
        known = {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value
            for key, value in one.items()
            if key in self.schema_.states or self.schema_[key].continuous
        }
        codes = self.schema_.codes({key: [value] for key, value in known.items()}, self.unseen)
        sequence = list(self.schema_)
        return explained_by(
            self._decision.pool, codes, name, state, values=known, sequence=sequence, engine=self.engine
        )
