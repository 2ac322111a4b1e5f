"""Hidden Markov models of tables whose rows are steps of sequences: logs, visits, machine readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..core import settings
from ..core.exceptions import LearningError, Remedy
from ..flow.em import History
from ..flow.gaussian_leaves import GaussianLeaves
from ..graph import structures
from ..graph.chain import Chain
from ..graph.network import Network
from ..learning.criteria import HELD_OUT, Candidate, Fit, Selection, aic, bic, select, sizes
from ..queries.completion import impute
from ..queries.forecasts import Forecast, stationary
from ..queries.prototypes import Prototypes
from ..tables import frames, outputs
from ..tables.encoded import EncodedTable, Evidence
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._continuous import ContinuousColumns
from ._sequence_tables import SequenceTables


class HiddenMarkovModel(DensityMixin, SequenceTables):  # type: ignore[misc]
    """A hidden Markov model: a hidden state changes from row to row, and explains the columns of each row.

    Rows may come in any order, and those of several sequences mixed: `sequence` identifies the sequence of a row, and
    `time` its time, each as the name of a column or as one value per row. The names are stored, so that they need not
    be given again for later tables with these columns.

    Args:
        n_hidden: the number of states of the hidden variable, their labels, or "auto": chosen by the criterion.
            Default: 2.
        n_epochs: the maximum number of epochs of EM (the algorithm of Baum and Welch). Default: 500.
        smoothing: a Dirichlet count that is added to every cell of every table; the distribution of the first state is
            not smoothed. Default: 0.01.
        n_init: the number of random starts (initialisations), of which the best is kept. Default: 4.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs). A ConvergenceWarning says if n_epochs is reached first. Default: 1e-06.
        tables: initial tables, which give the labels of states their meaning: by the name of a column P(level | state),
            a row for each state with levels in the order of `schema_`; for a continuous column its mean in each state.
            Random if None. Default: None.
        step: the time between two rows; for dates a timedelta (or nanoseconds). Missing steps are inserted as rows
            without values; "auto" finds the step in whole numbers and dates, None takes rows as consecutive steps,
            whatever the time. Default: "auto".
        criterion: for n_hidden="auto": "bic", "aic" or "held_out", by sequences that are held out. Default: "bic".
        max_hidden: for n_hidden="auto": the largest number of states to try. Default: 16.
        continuous: the numeric columns that are normally distributed in each state: names, or numbers of the columns
            of an array; "auto" for all columns with many distinct numbers. Unless given, these are put into bins.
            Default: None.
        covariance: the variances of continuous columns: "diagonal": one per state and column; "spherical": one per
            state; "tied": one per column, equal in all states. Within a state columns are independent. A
            variance is at least a millionth of that of the whole column. Default: "diagonal".
        n_bins: the number of bins of a column with many distinct numbers. Default: 5.
        max_levels: the maximum number of levels of a text or categorical column; the rarest others become one level.
            Default: 50.
        missing_values: a value, or a list of values, that means "missing", besides None and NaN. Default: None.
        schema: the levels and bins of the columns; inferred from the table unless given. Default: None.
        unseen: how to treat a level that did not occur in training: "unknown", as a missing value with a warning, or
            "error". Default: "unknown".
        engine: "auto", "cpu", "reference" or "torch". Default: "auto".
        random_state: the seed, or a `numpy.random.RandomState`, of the random starts, and of `sample`. Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed.
            Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Chain.
        schema_: the levels and bins of the columns.
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
        n_hidden_: the number of states.
        initial_: P(state) of the first row of a sequence.
        transitions_: (states, states) P(state of the next row | state).
        prototypes_: for each state the distribution of every column.
        continuous_: the names of the continuous columns; `means_` and `variances_` are theirs, (states, columns).
        selection_: the numbers of states that were compared, with n_hidden="auto".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: rules
            for name, rules in LatentEstimator._parameter_constraints.items()
            if name not in ("cycles", "effective_size")
        },
        "n_hidden": [Interval(Integral, 1, None, closed="left"), "array-like", StrOptions({"auto"})],
        "tables": [dict, None],
        "step": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), timedelta, np.timedelta64, None],
        "criterion": [StrOptions({"bic", "aic", "held_out"})],
        "max_hidden": [Interval(Integral, 1, None, closed="left")],
        **ContinuousColumns._continuous_constraints,
    }

    cycles = 1  # Baum and Welch
    effective_size = None

    def __init__(
        self,
        n_hidden: Any = 2,
        *,
        n_epochs: int = 500,
        smoothing: float = 0.01,
        n_init: int = 4,
        tol: float = 1e-6,
        tables: Mapping[str, Any] | None = None,
        step: Any = "auto",
        criterion: str = "bic",
        max_hidden: int = 16,
        continuous: Any = None,
        covariance: str = "diagonal",
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        engine: str = "auto",
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.smoothing = smoothing
        self.n_init = n_init
        self.tol = tol
        self.tables = tables
        self.step = step
        self.criterion = criterion
        self.max_hidden = max_hidden
        self.continuous = continuous
        self.covariance = covariance
        self.n_bins = n_bins
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.engine = engine
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    # Learning

    def fit(self, X: Any, y: Any = None, *, sequence: Any = None, time: Any = None) -> Self:
        """Learn from a table of sequences.

        Args:
            X: the table: any dataframe, a mapping of columns or an array; in any order if `time` is given. Or a path, a
                glob, a dataset of Arrow, batches of rows or a `Stream`, read in batches of which codes, and numbers of
                continuous columns, are kept in memory, since rows of a sequence may be anywhere.
            y: not used.
            sequence: which sequence each row belongs to: the name of a column of X, or one value per row. All rows are
                one sequence unless given.
            time: when each row was: the name of a column of X, or one value per row. Rows are in order unless given.
        """
        self._validate_params()
        with self._or_as_before():
            self.beside_ = tuple(one if isinstance(one, str) else None for one in (sequence, time))
            kind = "pyarrow" if frames.is_source(X) else frames.kind_of(X)
            self._fit_table(kind, self._in_order(X, sequence, time))
            self.n_rows_ = round(self.weight_)  # those of the table, without steps that were inserted
            return self

    def _train(self, table: EncodedTable) -> None:
        rows = table.local_rows()
        if not isinstance(self.n_hidden, str):
            self.__dict__.pop("selection_", None)
            self.network_, self.history_ = self._learnt(self.n_hidden, rows)
        else:
            trained: dict[int, tuple[Network, History]] = {}
            self.selection_ = self._compare(rows, sizes(self.max_hidden), trained, patient=True)
            best = self.selection_.best.n_hidden
            again = self.criterion == "held_out"  # it has not seen all sequences yet
            self.network_, self.history_ = self._learnt(best, rows) if again else trained[best]
        self.n_hidden_ = self.network_.variable(self._hidden_name()).cardinality

    def _learnt(self, hidden: Any, rows: Evidence) -> tuple[Network, History]:
        net = self._network(hidden)
        return net, self._learn_network(net, rows)

    def _states_asked(self) -> int:
        is_number = isinstance(self.n_hidden, (str, Integral))
        return super()._states_asked() if is_number else len(self.n_hidden)

    def _network(self, n_hidden: Any) -> Network:
        hidden = int(n_hidden) if isinstance(n_hidden, Integral) else list(n_hidden)
        names = self.schema_.continuous
        tables = {name: np.asarray(one) for name, one in (self.tables or {}).items() if name not in names}
        name, column = self._hidden_name(), self._free("sequence")
        leaves = self._leaves_of(hidden if isinstance(hidden, int) else len(hidden))
        return structures.hmm(self._observed(), hidden, name=name, sequence=column, tables=tables, leaves=leaves)

    def _start_of_means(self, leaves: GaussianLeaves) -> tuple[tuple[float, ...], ...] | None:
        """See `ContinuousColumns`: the means in `tables`; columns not given there start at their mean."""
        given = {name: one for name, one in (self.tables or {}).items() if name in leaves.columns}
        if not given:
            return None
        columns = []
        for name, centre in zip(leaves.columns, leaves.centres, strict=True):
            means = np.full(leaves.states, centre) if name not in given else np.asarray(given[name], dtype=np.float64)
            if means.shape != (leaves.states,) or not np.isfinite(means).all():
                raise LearningError(
                    f"has for a continuous column a mean for each of the {leaves.states} states.",
                    setting="tables",
                    column=name,
                )
            columns.append(means)
        return tuple(tuple(row) for row in np.stack(columns, axis=1).tolist())

    def compare(self, X: Any, sizes: Any, *, sequence: Any = None, time: Any = None) -> Selection:
        """Compare several numbers of states on a table, without changing this model.

        Args:
            X: the table, as for `fit`.
            sizes: the numbers to try.
            sequence: as for `fit`.
            time: as for `fit`.
        """
        from sklearn.base import clone

        other = clone(self)
        other._validate_params()
        other.beside_ = (None, None)
        found: Selection = other._compare(other._in_order(X, sequence, time), list(sizes), {}, patient=False)
        return found

    def _compare(
        self, rows: Evidence, tried: Any, trained: dict[int, tuple[Network, History]], patient: bool
    ) -> Selection:
        every, held_out = np.arange(rows.rows), np.zeros(0, dtype=np.intp)
        if self.criterion == "held_out":
            every, held_out = _split_sequences(rows)
        learnt = rows.take(every)
        name = self._hidden_name()

        def fit_of(net: Network, some: np.ndarray) -> Fit:
            ask: dict[str, Any] = {"keep": [name], "parts": ["marginal", "likelihood"], "engine": self.engine}
            seen = rows.take(some)
            found = net.propagate(seen, **ask)
            return Fit.of(found.log_likelihood, found.marginal(name), seen.given_weights)

        def fit(size: int) -> Candidate:
            net, _ = trained[size] = self._learnt(size, learnt)
            held = fit_of(net, held_out) if len(held_out) else None
            mean = np.nan if held is None else held.log_likelihood / held.weight
            return Candidate.of(fit_of(net, every), net.free_parameters, mean)

        return select(fit, tried, self.criterion, patient, self._stopped)

    # Public queries

    @property
    def initial_(self) -> np.ndarray:
        """P(state) of the first row of a sequence."""
        check_is_fitted(self, "network_")
        return self.network_.prior(self._hidden_name())

    @property
    def transitions_(self) -> np.ndarray:
        """(states, states): P(state of the next row | state)."""
        check_is_fitted(self, "network_")
        return self.network_.table(f"{self._hidden_name()} next")

    @property
    def states_(self) -> np.ndarray:
        """The labels of the states."""
        check_is_fitted(self, "network_")
        return np.array(self.network_.variable(self._hidden_name()).labels)

    @property
    def prototypes_(self) -> Prototypes[Any]:
        """The distribution of every column, by level, for each state: a dict, with long-run `shares`."""
        check_is_fitted(self, "network_")
        tables = {name: (self.network_.table(name), levels) for name, levels in self.schema_.states.items()}
        profiles = [
            {name: dict(zip(levels, table[k].tolist(), strict=True)) for name, (table, levels) in tables.items()}
            for k in range(self.n_hidden_)
        ]
        shares = stationary(self.transitions_, self.initial_)
        return Prototypes(self.states_.tolist(), profiles, shares, numbers=self._numbers_of_states())

    def predict(self, X: Any, *, sequence: Any = None, time: Any = None, method: str = "viterbi") -> np.ndarray:
        """Return the state of each row (decoding), in the order of the table.

        Args:
            X: the table, or a path, a glob or batches of rows, which are read into memory.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
            method: "viterbi", the most probable path of states, with missing values summed out; or "posterior", the
                most probable state of each row.
        """
        settings.choice("method", method, ("viterbi", "posterior"))
        if method == "posterior":
            likeliest = self.predict_proba(X, sequence=sequence, time=time).argmax(axis=1)
            found: np.ndarray = self.states_[likeliest]
            return found
        rows, order, _ = self._ordered(X, sequence, time)
        return order.restored(cast(Chain, self.network_).decode(rows, engine=self.engine))

    def predict_proba(self, X: Any, *, sequence: Any = None, time: Any = None) -> np.ndarray:
        """Return the probability of each state in each row given its whole sequence, (rows, states).

        Args:
            X: the table.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        rows, order, _ = self._ordered(X, sequence, time)
        name = self._hidden_name()
        found = self.network_.propagate(rows, keep=[name], parts=["marginal"], engine=self.engine)
        return order.restored(found.marginal(name))

    def score_samples(self, X: Any, *, sequence: Any = None, time: Any = None) -> np.ndarray:
        """Return the log-likelihood of each row given the rows before it in its sequence; -inf if impossible.

        Args:
            X: the table.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        rows, order, _ = self._ordered(X, sequence, time)
        ask: dict[str, Any] = {"keep": [], "parts": ["likelihood"], "impossible": "mark"}
        found = self.network_.propagate(rows, engine=self.engine, **ask)
        return order.restored(found.log_likelihood)

    def score(self, X: Any, y: Any = None, *, sequence: Any = None, time: Any = None) -> float:
        """Return the mean log-likelihood per row.

        Args:
            X: the table.
            y: not used.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        scores = self.score_samples(X, sequence=sequence, time=time)
        return float(np.add.reduce(scores)) / len(scores)

    def aic(self, X: Any, *, sequence: Any = None, time: Any = None) -> float:
        """Return Akaike's criterion (AIC) on a table; smaller is better. The arguments are those of `score`."""
        total = float(self.score_samples(X, sequence=sequence, time=time).sum())
        return aic(total, self.network_.free_parameters)

    def bic(self, X: Any, *, sequence: Any = None, time: Any = None) -> float:
        """Return the Bayesian information criterion (BIC) on a table; smaller is better. Arguments as for `score`."""
        scores = self.score_samples(X, sequence=sequence, time=time)
        return bic(float(scores.sum()), self.network_.free_parameters, len(scores))

    def forecast(self, X: Any, steps: int = 1, *, sequence: Any = None, time: Any = None) -> Forecast:
        """Forecast the next steps of each sequence: probabilities of the states, and of the levels of every column.

        Args:
            X: the table with the sequences to continue.
            steps: the number of steps.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        settings.whole("steps", steps, 1, LearningError)
        rows, order, _ = self._ordered(X, sequence, time)
        name = self._hidden_name()
        found = self.network_.propagate(rows, keep=[name], parts=["marginal"], engine=self.engine).marginal(name)
        levels = {column: tuple(some) for column, some in self.schema_.states.items()}
        tables = {column: self.network_.table(column) for column in levels}
        labels = self.network_.variable(name).labels
        numbers = {one: self.network_.moments.of_column(k) for k, one in enumerate(self.schema_.continuous)}
        last, heading = found[order.ends], sequence if isinstance(sequence, str) else self.beside_[0]
        return Forecast.of(order.names, last, self.transitions_, int(steps), labels, tables, levels, numbers, heading)

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Draw a new sequence, as a table of the kind used for training, and the state of each row.

        Args:
            n_samples: the number of rows.
        """
        check_is_fitted(self)
        name = self._hidden_name()
        drawn = self.network_.sample(n_samples, seed=self._seed(), names=[*self.schema_.states, name])
        states = np.asarray(drawn.pop(name))
        place = {label: number for number, label in enumerate(self.states_.tolist())}
        numbers = self._drawn_numbers(np.array([place[one] for one in states.tolist()], dtype=np.intp))
        values = {
            key: [column.value(v) for v in drawn[key].tolist()]
            if column.levels
            else numbers.get(key, [None] * n_samples)
            for key, column in self.schema_.items()
        }
        return outputs.table_like(self._kind, values), states

    def complete(self, X: Any, return_proba: bool = False, *, sequence: Any = None, time: Any = None) -> Any:
        """Return the table with missing values imputed, given the whole sequence; see `LatentClassModel.complete`.

        Args:
            X: the table.
            return_proba: also return how likely the level of each value is, (rows, columns of training).
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        X = self._in_memory(X)
        rows, order, features = self._ordered(X, sequence, time)
        columns, data = self._read(features, kept=True)

        def marginals(names: Sequence[str]) -> dict[str, np.ndarray]:
            found = self.network_.propagate(rows, keep=names, parts=["marginal"], engine=self.engine)
            return {name: order.restored(found.marginal(name)) for name in names}

        hidden = self._hidden_name()
        filled, sure = impute(columns, data, self.schema_, marginals)
        filled, sure = self._with_numbers(filled, sure, columns, data, lambda: marginals([hidden])[hidden])
        plain = frames.columns(X) if isinstance(X, Mapping) else {}
        out = self._imputed(X, plain, filled)
        return (out, sure) if return_proba else out

    def embed(self, X: Any, *, sequence: Any = None, time: Any = None) -> np.ndarray:
        """Return the probability of each state given the whole sequence, the same as `predict_proba`.

        Args:
            X: the table.
            sequence: as for `fit`; the column of that name, if there was one, unless given.
            time: the same.
        """
        return self.predict_proba(X, sequence=sequence, time=time)


def _split_sequences(rows: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of sequences to learn from, and those of every fifth sequence, which is held out."""
    number = np.cumsum(rows.begins) - 1
    if number[-1] + 1 < HELD_OUT:
        raise LearningError(
            f"To hold sequences out, a table has at least {HELD_OUT} of them. Got {int(number[-1]) + 1}.",
            remedies=Remedy("choose another criterion", criterion="bic"),
        )
    held_out = number % HELD_OUT == HELD_OUT - 1
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
