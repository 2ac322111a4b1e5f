"""Completed tables, as a step of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._set_output import _get_output_config

from ..core.exceptions import unknown_name
from ..learning.criteria import HELD_OUT
from ..tables import frames, outputs
from ..tables.encoded import EncodedTable
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._kept_rows import KeptRows
from .latent import ChoosingTransformer


class LatentImputer(OneToOneFeatureMixin, KeptRows, ChoosingTransformer):  # type: ignore[misc]
    """Fills the holes of a table: the likeliest level, or the expected number, given all that is known of the row.

    Args:
        n_hidden: the states of the hidden variable, or "auto": as many as the criterion says.
        n_epochs: the most epochs of EM.
        cycles: updates of each table per epoch.
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
        history_: what happened in learning.
    """

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

    def _train(self, table: EncodedTable) -> None:
        if self.n_hidden == "auto" and self.criterion == "held_out" and self.n_rows_ < HELD_OUT:
            self.n_hidden_ = 1  # too few rows to keep some back
            self.network_, self.history_ = self._learnt(self.n_hidden_, table)
            self.__dict__.pop("selection_", None)
        else:
            super()._train(table)

    def transform(self, X: Any) -> Any:
        """The table with its holes filled, as an array; as a frame whose columns keep their types after `set_output`.

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
            return outputs.with_columns_replaced(frames.collected(X), {}, filled)
        return outputs.table_like(wanted, {n: filled.get(n) or frames.as_list(column) for n, column in columns.items()})

    def predict_proba(self, X: Any, column: str | None = None) -> np.ndarray:
        """How likely each level of a column is in each row, given all that is known of the row; 1 where it is known.

        Args:
            X: the table.
            column: its name; the levels of all columns side by side unless given, in the order of `schema_.states`.
        """
        data = self._coded(X)
        names = list(self.schema_.states)
        if column is not None and column not in names:
            raise unknown_name("column", column, names)
        wanted = names if column is None else [column]
        found = self._asked(data, wanted)
        return np.concatenate([found[name] for name in wanted], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which stay as they are.

        Args:
            input_features: the names, if they are not known from training.
        """
        names: np.ndarray = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return names
