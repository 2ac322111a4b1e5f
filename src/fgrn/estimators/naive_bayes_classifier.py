"""The naive Bayes classifier, which has no hidden variable but the class itself."""

from __future__ import annotations

from typing import Any, ClassVar

from ..graph import structures
from ..graph.network import Network
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._class_labels import LatentClassifierBase


class NaiveBayesClassifier(LatentClassifierBase):
    """Naive Bayes classifier, with missing values, rows without a class, and columns of any kind.

    Args:
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. Default: 1.0.
        n_epochs: the maximum number of epochs of EM, which matter only where classes or values are unknown.
            Default: 100.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs; one if cycles > 1). A ConvergenceWarning says if n_epochs is reached first.
            Default: 1e-05.
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
        random_state: for the start where classes are unknown. Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed.
            Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Network.
        schema_: the levels and bins of the columns.
        classes_: the classes.
        prototypes_: for each class the distribution of every column (its profile); a dict with `shares` and `baseline`.
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
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
