"""A classifier with several layers of hidden variables."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..flow.em import History
from ..graph import structures
from ..graph.network import Network
from ..tables.encoded import EncodedTable
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from ._class_labels import LatentClassifierBase


class DeepLatentClassifier(LatentClassifierBase):
    """Classifier with layers of hidden variables: each over a group of columns or lower ones, the class on top.

    Args:
        n_hidden: the states of the hidden variables of each layer, the lowest first; two layers or more.
            Default: (4, 8).
        groups: the number of columns, or hidden variables, that share one hidden variable above them. Default: 3.
        n_epochs: the maximum number of epochs of EM for each layer, and then for all together. Default: 200.
        cycles: updates of each table per epoch. Default: 1.
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. Default: 0.5.
        n_init: random starts of each layer, of which the best is kept. Default: 1.
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
        random_state: the seed, or a `numpy.random.RandomState`, of the random starts. Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed.
            Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Network.
        schema_: the levels and bins of the columns.
        classes_: the classes.
        prototypes_: for each class the distribution of every column (its profile); a dict with `shares` and `baseline`.
        history_: the History of learning all layers together.
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

    def _states_asked(self) -> int:
        return max(map(int, self.n_hidden))

    def _network(self, n_hidden: Any) -> Network:
        return structures.stack(
            self._observed(),
            [int(states) for states in n_hidden],
            groups=int(self.groups),
            class_variable=self._class_name(),
            name=self._hidden_name(),
        )

    def _learn_network(self, net: Network, table: EncodedTable, what: str = "", **settings: Any) -> History:
        options = self._options(what) | settings
        with options["watch"]:
            return net.learn_by_layer(table, together=self.n_epochs, **options)[-1]
