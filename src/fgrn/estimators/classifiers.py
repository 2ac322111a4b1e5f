"""Classifiers: a hidden variable, or several layers of them, over the columns and the class."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..flow.em import History
from ..graph import structures
from ..graph.network import Network
from ..learning.criteria import Selection
from ..tables import frames
from ..tables.encoded import EncodedTable
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._choosing import Choosing
from ._classes import LatentClassifierBase


class LatentClassifier(Choosing, LatentClassifierBase):
    """One hidden variable explains the columns and the class: the Latent Variable Model as a classifier.

    Args:
        n_hidden: the states of the hidden variable, or "auto": as many as the criterion says.
        n_epochs: the most epochs of EM.
        cycles: updates of each table per epoch; 1 is the incremental algorithm, more the batch one.
        smoothing: a Dirichlet count for every cell of every table; priors are as counted.
        n_init: random starts, of which the best is kept.
        tol: learning has converged when a round of accelerated EM (three epochs; one if cycles > 1) gains no more
            log-likelihood per row. A ConvergenceWarning tells if n_epochs end it before.
        learn_prior: whether the prior of the hidden variable is learnt.
        criterion: for n_hidden="auto": "bic", "aic" or "held_out".
        max_hidden: for n_hidden="auto": the most states to try.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN. Unless given, words
            such as "?", "NA" and "" do, as in files, with a warning; () keeps them as levels.
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
        prototypes_: for each class the distribution of every column (its profile); a dict with `shares` and `baseline`.
        history_: what happened in learning.
        n_hidden_: the states of the hidden variable.
        selection_: what was tried, with n_hidden="auto".
    """

    def __init__(
        self,
        n_hidden: int | str = 8,
        *,
        n_epochs: int = 500,
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
            return self._compared(X, sizes, sample_weight, target=self._column(y))
        return self._compared(X, sizes, sample_weight, self._classes(y))


class NaiveBayesClassifier(LatentClassifierBase):
    """The hidden variable is the class: naive Bayes, with holes, unknown classes, and any columns.

    Args:
        smoothing: a Dirichlet count for every cell of every table; priors are as counted.
        n_epochs: the most epochs of EM, which matter only where classes or values are unknown.
        tol: learning has converged when a round of accelerated EM (three epochs; one if cycles > 1) gains no more
            log-likelihood per row. A ConvergenceWarning tells if n_epochs end it before.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN. Unless given, words
            such as "?", "NA" and "" do, as in files, with a warning; () keeps them as levels.
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
        prototypes_: for each class the distribution of every column (its profile); a dict with `shares` and `baseline`.
        history_: what happened in learning.
    """

    cycles = 1
    n_init = 1
    n_hidden = None
    _power = 1.0  # nothing hidden, nothing to forget: batches add up to the whole table
    _least_prior = 1e-100  # a class that was announced may still come

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: rule
        for name, rule in LatentEstimator._parameter_constraints.items()
        if name not in ("cycles", "n_init", "n_hidden")
    }

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        n_epochs: int = 100,
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
        tol: learning has converged when a round of accelerated EM (three epochs; one if cycles > 1) gains no more
            log-likelihood per row. A ConvergenceWarning tells if n_epochs end it before.
        n_bins: bins of a column with many different numbers.
        max_levels: the most levels of a column of words or categories.
        missing_values: a value that means "unknown", or a list of them, beside None and NaN. Unless given, words
            such as "?", "NA" and "" do, as in files, with a warning; () keeps them as levels.
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
        prototypes_: for each class the distribution of every column (its profile); a dict with `shares` and `baseline`.
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
        n_epochs: int = 200,
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

    def _teach(self, net: Network, table: EncodedTable, what: str = "") -> History:
        options = self._options(what)
        with options["watch"]:
            return net.learn_by_layer(table, together=self.n_epochs, **options)[-1]
