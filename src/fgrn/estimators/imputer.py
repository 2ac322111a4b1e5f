"""LatentImputer: imputation of missing values, for use in pipelines."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._set_output import _get_output_config

from ..core.exceptions import FgrnError, unknown_name
from ..learning.criteria import HELD_OUT
from ..tables import frames, outputs
from ..tables.encoded import EncodedTable
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._continuous import ContinuousColumns
from ._kept_rows import KeptRows
from .latent import ChoosingTransformer


class LatentImputer(OneToOneFeatureMixin, ContinuousColumns, KeptRows, ChoosingTransformer):  # type: ignore[misc]
    """Imputes missing values by the most probable level, or the expected number, given the known values of the row.

    Args:
        n_hidden: the number of states of the hidden variable, or "auto": chosen by the criterion. Default: "auto".
        n_epochs: the maximum number of epochs of EM. Default: 500.
        cycles: updates of each table per epoch. Default: 1.
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. Default: 0.1.
        n_init: the number of random starts (initialisations), of which the best is kept. Default: 2.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs; one if cycles > 1). A ConvergenceWarning says if n_epochs is reached first.
            Default: 1e-05.
        learn_prior: whether the prior of the hidden variable is learnt. Default: True.
        criterion: for n_hidden="auto": "bic", "aic" or "held_out". Default: "held_out".
        max_hidden: for n_hidden="auto": the largest number of states to try. Default: 64.
        n_bins: the number of bins of a column with many distinct numbers. Default: 5.
        continuous: the numeric columns that are normally distributed in each state: names, or numbers of the columns
            of an array, or "auto" for all that would be put into bins. Others are put into bins. Default: None.
        covariance: the variances of continuous columns: "diagonal": one per state and column; "spherical": one per
            state; "tied": one per column, equal in all states. Default: "diagonal".
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
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ChoosingTransformer._parameter_constraints,
        **ContinuousColumns._continuous_constraints,
    }

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        n_epochs: int = 500,
        cycles: int = 1,
        smoothing: float = 0.1,
        n_init: int = 2,
        tol: float = 1e-5,
        learn_prior: bool = True,
        criterion: str = "held_out",
        max_hidden: int = 64,
        n_bins: int = BINS,
        continuous: Any = None,
        covariance: str = "diagonal",
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
        self.continuous = continuous
        self.covariance = covariance
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.effective_size = effective_size
        self.engine = engine
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _train(self, table: EncodedTable) -> None:
        if self.n_hidden == "auto" and self.criterion == "held_out" and self.n_rows_ < HELD_OUT:
            self.n_hidden_ = 1  # too few rows to hold some out
            self.network_, self.history_ = self._learnt(self.n_hidden_, table)
            self.__dict__.pop("selection_", None)
        else:
            super()._train(table)

    def transform(self, X: Any) -> Any:
        """Return the table with imputed values, as an array or, after `set_output`, as a frame with its types.

        A column of which nothing was known in training stays as it is.

        Args:
            X: the table.
        """
        columns, data, schema = self._completable(X)
        filled, _ = self._filled(columns, data, schema)
        wanted = _get_output_config("transform", self)["dense"]
        if wanted == "default":
            return outputs.as_array([filled.get(name, column) for name, column in columns.items()])
        if frames.kind_of(X) == wanted:
            return self._imputed(frames.collected(X), {}, filled)
        return outputs.table_like(wanted, {n: filled.get(n) or frames.as_list(column) for n, column in columns.items()})

    def predict_proba(self, X: Any, column: str | None = None) -> np.ndarray:
        """Return the probability of each level of a column in each row, given its known values; 1 where it is known.

        Args:
            X: the table.
            column: its name; the levels of all columns side by side unless given, in the order of `schema_.states`.
        """
        data = self._coded(X)
        names = list(self.schema_.states)
        if column in self.schema_.continuous:
            raise FgrnError(
                "it is continuous, and has a density instead of probabilities.",
                column=column,
                remedies="use transform for the expected number, or draws",
            )
        if column is not None and column not in names:
            raise unknown_name("column", column, names)
        wanted = names if column is None else [column]
        found = self._variable_messages(data, wanted)
        return np.concatenate([found[name] for name in wanted], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns, which are those of the input.

        Args:
            input_features: the names, if they are not known from training.
        """
        names: np.ndarray = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return names
