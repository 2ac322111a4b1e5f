"""Unsupervised models: latent class analysis (clusters), embeddings, discrete independent components."""

from __future__ import annotations

from math import prod
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import DensityMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..graph import structures
from ..graph.network import Network
from ..learning.criteria import Selection, aic, bic, relative_entropy
from ..queries.explanation import Explanation
from ..queries.prototypes import Prototypes
from ..tables import frames, outputs
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._continuous import ContinuousColumns
from ._external_variables import ExternalVariables
from ._state_count import Choosing


class LatentTransformer(TransformerMixin, LatentEstimator):  # type: ignore[misc]
    """Base class of unsupervised models."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Learn from a table.

        Args:
            X: the table: any dataframe, a mapping of columns or an array, of words, numbers and missing values. Or what
                is not in memory: a path, a glob, a dataset of Arrow, batches of rows, or a `Stream`.
            y: not used.
            sample_weight: one weight per row, the name of a column where X is not in memory; a row of weight 0 is as if
                it were not there.
            executor: a client of dask.distributed, whose workers keep the rows and count them; X is then a Dask
                dataframe, or Parquet files that every worker can read.

        If it fails, the model is as it was before. If it is interrupted, by Ctrl-C, the best model so far is kept, with
        a warning; before the end of the first epoch, or interrupted once more, the model is as it was before.
        """
        self._validate_params()
        if executor is not None or frames.is_source(X):
            return self._fit_stream(X, sample_weight, executor=executor)
        return self._fit(X, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Continue learning from rows that are seen once: a step of online EM, see `fgrn.flow.online`.

        The first batch is learnt as `fit` would, and decides what the columns mean, unless a `schema` is given.

        Args:
            X: the rows; or a path, a glob, an iterator of frames, or a `Stream`, which is read once, and of which every
                batch (`Stream(..., rows=)`) is a step.
            y: not used.
            sample_weight: one weight per row; the name of a column where X is not in memory.
        """
        self._validate_params()
        if frames.is_source(X):
            return self._partial_fit_stream(X, sample_weight)
        return self._partial_fit(X, sample_weight)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood per row.

        Args:
            X: the table.
            y: not used.
        """
        return float(self.score_samples(X).mean())

    def transform(self, X: Any) -> np.ndarray:
        """Return the embedding of each row: the backward messages of all hidden variables, side by side.

        Args:
            X: the table.
        """
        return self.embed(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns, such as "S=0".

        Args:
            input_features: the names of the columns of training, or nothing.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = [f"{name}={label}" for name in self._hidden() for label in self.network_.variable(name).labels]
        return np.array(names, dtype=object)


class ChoosingTransformer(Choosing, LatentTransformer):
    """Base class of unsupervised models with one hidden variable."""

    def compare(self, X: Any, sizes: Any = None, sample_weight: Any = None) -> Selection:
        """Compare several numbers of hidden states on a table, without changing this model.

        Args:
            X: the table, in memory or not, as for `fit`.
            sizes: the numbers to try, all of them; unless given, more and more until the criterion gets worse.
            sample_weight: one weight per row, or the name of that column.
        """
        return self._compared(X, sizes, sample_weight)


class LatentClassModel(DensityMixin, ContinuousColumns, ExternalVariables, ChoosingTransformer):  # type: ignore[misc]
    """Latent class analysis: one hidden variable explains all columns; its states are the clusters.

    Args:
        n_hidden: the number of states of the hidden variable, or "auto": chosen by the criterion. Default: 2.
        n_epochs: the maximum number of epochs of EM. Default: 1000.
        cycles: updates of each table per epoch; 1 is the incremental algorithm of the paper, more the batch algorithm.
            Default: 1.
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. Default: 0.01.
        n_init: the number of random starts (initialisations), of which the best is kept. Default: 4.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs; one if cycles > 1). A ConvergenceWarning says if n_epochs is reached first.
            Default: 1e-08.
        learn_prior: whether the prior of the hidden variable is learnt. Default: True.
        criterion: for n_hidden="auto": "bic", "aic", "caic", "sabic" or "held_out". Default: "bic".
        max_hidden: for n_hidden="auto": the largest number of states to try. Default: 64.
        continuous: the numeric columns that are normally distributed in each state (latent profile analysis): names,
            or numbers of the columns of an array; "auto" for all columns with many distinct numbers. Unless given,
            such columns are put into bins. Default: None.
        covariance: the variances of continuous columns: "diagonal": one per state and column; "spherical": one per
            state; "tied": one per column, equal in all states. Within a state columns are independent. A
            variance is at least a millionth of that of the whole column. Default: "diagonal".
        n_bins: the number of bins of a column with many distinct numbers. Default: 5.
        max_levels: the maximum number of levels of a text or categorical column; the rarest others become one level.
            Default: 50.
        missing_values: a value, or a list of values, that means "missing", besides None and NaN. Unless given, words
            such as "?", "NA" and "" do, as in files, with a warning; () keeps them as levels. Default: None.
        schema: the levels and bins of the columns; inferred from the table unless given. Default: None.
        unseen: how to treat a level, or a column of a mapping, that did not occur in training: "unknown", as a missing
            value with a warning, or "error". Default: "unknown".
        effective_size: for `partial_fit`: the largest total weight of all earlier rows, in rows, so that the model
            follows data that change with time; None for no limit. Default: None.
        constraints: fixed or equal item-response probabilities, as a list of ("fixed", item, class, level, value),
            ("zero", item, class, level), ("equal", item, item, ...) for items with the same probabilities in every
            class, and ("equal", (item, class), (item, class), ...). Classes are numbered from 0, items are columns. Of
            continuous columns: ("fixed", column, class, "mean", value), or "variance", and
            ("equal", (column, class, "mean"), (column, class, "mean"), ...). Default: None.
        engine: "auto", "cpu", "reference" or "torch". Default: "auto".
        random_state: the seed, or a `numpy.random.RandomState`, of the random starts. Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed.
            Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Network.
        schema_: the levels and bins of the columns.
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
        n_hidden_: the number of states of the hidden variable.
        weights_: the share of each state.
        prototypes_: for each state the distribution of every column (its class profile); a dict, with `shares` and
            `baseline`.
        continuous_: the names of the continuous columns; `means_` and `variances_` are theirs, (states, columns).
        selection_: the numbers of states that were compared, with n_hidden="auto".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChoosingTransformer._parameter_constraints,
        **ContinuousColumns._continuous_constraints,
        "constraints": [list, tuple, None],
    }

    def __init__(
        self,
        n_hidden: int | str = 2,
        *,
        n_epochs: int = 1000,
        cycles: int = 1,
        smoothing: float = 0.01,
        n_init: int = 4,
        tol: float = 1e-8,
        learn_prior: bool = True,
        criterion: str = "bic",
        max_hidden: int = 64,
        continuous: Any = None,
        covariance: str = "diagonal",
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        effective_size: float | None = None,
        constraints: Any = None,
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
        self.constraints = constraints
        self.learn_prior = learn_prior
        self.criterion = criterion
        self.max_hidden = max_hidden
        self.continuous = continuous
        self.covariance = covariance
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

    score = LatentTransformer.score  # that of DensityMixin has no answer

    @property
    def weights_(self) -> np.ndarray:
        """The share of each hidden state."""
        check_is_fitted(self, "network_")
        return self.network_.prior(self._hidden_name())

    @property
    def prototypes_(self) -> Prototypes[int]:
        """The distribution of every column, by level, for each hidden state: a dict with `shares` and `baseline`."""
        check_is_fitted(self, "network_")
        return self._prototypes(self._hidden_name(), range(self.n_hidden_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each cluster in each row.

        A row of probability zero, which only tables with zeros have, gets the probabilities without any evidence, with
        a warning that names the row.

        Args:
            X: the table.
        """
        return self._posterior(X, self._hidden_name)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable cluster of each row.

        Args:
            X: the table.
        """
        clusters: np.ndarray = self.predict_proba(X).argmax(axis=1)
        return clusters

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Learn from a table and return the cluster of each row.

        Args:
            X: the table.
            y: not used.
            sample_weight: one weight per row.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def explain(self, row: Any, target: int | None = None) -> Explanation:
        """Return how much each value of a row adds to the log-odds of a cluster, in nats.

        Args:
            row: a mapping of values, or a table of one row.
            target: the cluster to explain, the most probable one unless given.
        """
        check_is_fitted(self)
        return self._explain(row, self._hidden_name(), target)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's criterion (AIC) on a table; smaller is better.

        Args:
            X: the table.
            sample_weight: one weight per row.
        """
        scores = self.score_samples(X)
        return aic(float(self._weight_of(scores, sample_weight) @ scores), self._parameter_count(self.network_))

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion (BIC) on a table; smaller is better.

        Args:
            X: the table.
            sample_weight: one weight per row.
        """
        scores = self.score_samples(X)
        weights = self._weight_of(scores, sample_weight)
        return bic(float(weights @ scores), self._parameter_count(self.network_), float(weights.sum()))

    def relative_entropy(self, X: Any, sample_weight: Any = None) -> float:
        """Return how clearly the rows of a table belong to one cluster: from 0, not at all, to 1.

        Args:
            X: the table.
            sample_weight: one weight per row.
        """
        posterior = self.predict_proba(X)
        return relative_entropy(posterior, self._weight_of(posterior, sample_weight))

    def _weight_of(self, rows: np.ndarray, sample_weight: Any) -> np.ndarray:
        weights = self._weights(sample_weight, len(rows))
        return np.ones(len(rows)) if weights is None else weights

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Draw new rows, as a table of the kind used for training, and the cluster of each.

        With a number as `random_state` every call gives the same rows, as the mixtures of scikit-learn do; for others
        each time, give it a `numpy.random.RandomState`, or None. A column of which nothing was known stays empty.

        Args:
            n_samples: the number of rows.
        """
        check_is_fitted(self)
        names = [*self.schema_.states, self._hidden_name()]
        drawn = self.network_.sample(n_samples, seed=self._seed(), names=names)
        clusters = drawn.pop(self._hidden_name())
        numbers = self._drawn_numbers(np.asarray(clusters))
        values = {
            name: [column.value(v) for v in drawn[name].tolist()]
            if column.levels
            else numbers.get(name, [None] * n_samples)
            for name, column in self.schema_.items()
        }
        return outputs.table_like(self._kind, values), clusters


class DiscreteICA(LatentTransformer):
    """Discrete independent component analysis: combinations of independent hidden variables explain all columns.

    Args:
        n_hidden: the states of each hidden variable. Default: (2, 2).
        n_epochs: the maximum number of epochs of EM. Default: 1000.
        cycles: updates of each table per epoch; 1 is the incremental algorithm of the paper, more the batch algorithm.
            Default: 1.
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. Default: 0.01.
        n_init: the number of random starts (initialisations), of which the best is kept. Default: 4.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs; one if cycles > 1). A ConvergenceWarning says if n_epochs is reached first.
            Default: 1e-08.
        n_bins: the number of bins of a column with many distinct numbers. Default: 5.
        max_levels: the maximum number of levels of a text or categorical column; the rarest others become one level.
            Default: 50.
        missing_values: a value, or a list of values, that means "missing", besides None and NaN. Unless given, words
            such as "?", "NA" and "" do, as in files, with a warning; () keeps them as levels. Default: None.
        schema: the levels and bins of the columns; inferred from the table unless given. Default: None.
        unseen: how to treat a level, or a column of a mapping, that did not occur in training: "unknown", as a missing
            value with a warning, or "error". Default: "unknown".
        effective_size: for `partial_fit`: the largest total weight of all earlier rows, in rows, so that the model
            follows data that change with time; None for no limit. Default: None.
        engine: "auto", "cpu", "reference" or "torch". Default: "auto".
        random_state: the seed, or a `numpy.random.RandomState`, of the random starts. Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed.
            Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Network, with the hidden variables "S1", "S2", ...
        schema_: the levels and bins of the columns.
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentEstimator._parameter_constraints,
        "n_hidden": ["array-like", Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_hidden: Any = (2, 2),
        *,
        n_epochs: int = 1000,
        cycles: int = 1,
        smoothing: float = 0.01,
        n_init: int = 4,
        tol: float = 1e-8,
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

    def _sizes(self) -> list[int]:
        return [int(states) for states in np.atleast_1d(self.n_hidden)]

    def _states_asked(self) -> int:
        return prod(self._sizes())  # of the product space

    def _hidden(self) -> list[str]:
        return [f"{self._hidden_name()}{number}" for number in range(1, len(self._sizes()) + 1)]

    _hidden_name = LatentEstimator._hidden_prefix

    def _network(self, n_hidden: Any) -> Network:
        return structures.dica(self.schema_.states, hidden=self._sizes(), name=self._hidden_name())

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable state of each hidden variable, (rows, hidden variables).

        Args:
            X: the table.
        """
        found = self._variable_messages(self._coded(X), self._hidden())
        return np.stack([belief.argmax(axis=1) for belief in found.values()], axis=1)
