"""The hidden Chow-Liu tree as a model of wide tables: density, imputation and sampling."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..bayes.hidden_trees import counts_of_prior, hidden_tree
from ..bayes.mixture_learning import TREE_EPOCHS, mean_log_likelihood, tree_mixture
from ..bayes.tree_defaults import FIRST_AND_LAST_STEP, MOST_EPOCHS, PATIENCE, TreeSizes, default_batch_size
from ..bayes.tree_mixture import TreeMixture, copied_variables
from ..core.exceptions import LearningError, Remedy
from ..core.progress import LearningProgress
from ..flow.em import History
from ..graph.blocks import SISO
from ..graph.network import Network
from ..learning.validation import split_off
from ..tables import frames, outputs
from ..tables.encoded import EncodedTable, Evidence
from ..tables.schema import BINS, MOST_LEVELS, Schema
from ._base import LatentEstimator
from .latent import LatentTransformer

FEWEST_HELD_OUT = 20
"""If the fraction to hold out is fewer rows than this, none are held out."""


@dataclass(frozen=True, eq=False)
class _LearntTrees:
    """The trees learnt with one choice of sizes, and their score on held-out rows."""

    network: Network
    history: History
    mixture: TreeMixture | None
    states: int
    trees: int
    score: float


class HiddenTreeModel(DensityMixin, LatentTransformer):  # type: ignore[misc]
    """A hidden Chow-Liu tree, or a mixture of several: one hidden variable per column, connected as a tree.

    It describes wide tables, such as the pixels of images, in which neighbours depend on each other (Liu and Van den
    Broeck, 2021). It is learnt by mini-batch EM; some rows are held out to decide when to stop.

    Args:
        n_hidden: the number of states of each hidden variable in each tree, or "auto": by the mean number of levels.
            Default: "auto".
        n_trees: the number of trees in the mixture, or "auto". They have the same edges, and differ in their tables.
            Default: "auto".
        share_tables: whether the trees share the tables of columns, with separate tables between hidden variables: one
            tree is learnt first, and the others near it, see `tree_mixture`. "auto": if n_hidden is 64 or more, as for
            pixels.
            If all three are "auto" and n_hidden would be smaller, both are learnt, and the one with the larger held-out
            likelihood is kept: trees that share nothing, with 4 states for each level, at least 8, and 64 states in
            all, at most one for 25 rows; and trees that share tables, with 16 states for each level, from 8 to 128, at
            most one for 50 rows, one tree for 2,000 rows, from 4 to 16. Default: "auto".
        n_epochs: the maximum number of epochs of EM. Default: 30.
        batch_size: the number of rows between two updates of the tables, or "auto": a 16th of the rows, from 400 to
            1,000; None for all rows at once. With small batches, one tree may by chance get the rows of all others.
            Default: "auto".
        step: the weight of a batch in the decayed counts: the first, and the last, to which it falls over all epochs.
            Default: (0.55, 0.03).
        smoothing: the strength of the prior. At 1 each hidden state has one additional row for every 8 levels of its
            column, at most 20, with the level shares of the whole table, half a row between hidden variables, and one
            row for each tree. Default: 1.0.
        validation: the fraction of the rows that is held out, a table of other rows, or None. Default: 0.1.
        patience: the number of epochs without a better held-out likelihood after which learning ends.
            Default: 5.
        penalty: the gain that an edge of the tree must have, see `hidden_tree`. Default: None.
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
        engine: "auto", or the name of an engine. Default: "auto".
        device: the device that the engine computes on, such as "cuda", if it has a choice. Default: None.
        precision: the floating-point type of the engine, such as "float32", if it has a choice. Default: None.
        random_state: the seed, or a `numpy.random.RandomState`, of the random start, the batches and the held-out rows.
            Default: None.
        checkpoint: a file, or a `Checkpoint`, that stores the progress of `fit`, so that it can be resumed; trees that
            share tables are stored up to 1 GiB, see `tree_mixture`. Default: None.
        verbose: whether to show progress. Default: 0.

    Attributes:
        network_: the Network; the hidden variable of column "a" is called "S:a".
        mixture_: the TreeMixture used for all queries, if trees share the tables of columns; `network_` is then the
            tree that was learnt first.
        schema_: the levels and bins of the columns.
        history_: the History of learning: log-likelihood per epoch, convergence, execution; `history_.validation` is
            the held-out log-likelihood.
        n_hidden_: the states of each hidden variable in each tree.
        n_trees_: the number of trees.
        root_: the column whose hidden variable is the root of the tree.
        arcs_: the pairs (parent, child) of columns whose hidden variables are connected.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentEstimator._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_trees": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "share_tables": ["boolean", StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "step": [Interval(Real, 0, 1, closed="right"), tuple, list],
        "validation": [Interval(Real, 0, 1, closed="neither"), "array-like", None],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "penalty": [Interval(Real, 0, None, closed="left"), StrOptions({"aic", "bic"}), None],
        "device": [str, None],
        "precision": [str, None],
    }  # fmt: skip
    for _name in ("cycles", "n_init", "tol"):  # it has none of these
        del _parameter_constraints[_name]

    cycles, n_init, tol = 1, 1, 0.0
    n_hidden_: int
    n_trees_: int
    mixture_: TreeMixture
    _in_batches = False  # whether rows are seen once

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        n_trees: int | str = "auto",
        share_tables: bool | str = "auto",
        n_epochs: int = MOST_EPOCHS,
        batch_size: int | str | None = "auto",
        step: Any = FIRST_AND_LAST_STEP,
        smoothing: float = 1.0,
        validation: Any = 0.1,
        patience: int | None = PATIENCE,
        penalty: float | str | None = None,
        n_bins: int = BINS,
        max_levels: int = MOST_LEVELS,
        missing_values: Any = None,
        schema: Schema | None = None,
        unseen: str = "unknown",
        effective_size: float | None = None,
        engine: str = "auto",
        device: str | None = None,
        precision: str | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_trees = n_trees
        self.share_tables = share_tables
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.step = step
        self.smoothing = smoothing
        self.validation = validation
        self.patience = patience
        self.penalty = penalty
        self.n_bins = n_bins
        self.max_levels = max_levels
        self.missing_values = missing_values
        self.schema = schema
        self.unseen = unseen
        self.effective_size = effective_size
        self.engine = engine
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    score = LatentTransformer.score  # that of DensityMixin has no answer

    @property
    def root_(self) -> str:
        """The column whose hidden variable is the root of the tree."""
        check_is_fitted(self, "network_")
        return self._hidden()[0].split(":", 1)[1]

    @property
    def arcs_(self) -> list[tuple[str, str]]:
        """The pairs (parent, child) of columns whose hidden variables are connected."""
        check_is_fitted(self, "network_")
        column = {f"{self._prefix()}:{name}": name for name in self.schema_.states}
        copies = copied_variables(self.network_)
        blocks = (block for block in self.network_.blocks if isinstance(block, SISO) and block.output.name in column)
        return [(column[copies.get(block.input.name, block.input.name)], column[block.output.name]) for block in blocks]

    # Learning

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        self._in_batches = batch
        return super()._fit_table(kind, table, batch)

    def _train(self, table: EncodedTable) -> None:
        seed, rows = self._seed(), table.rows
        table, held_out = split_off(table, self._validation(), seed, lambda other: other)
        found: list[_LearntTrees] = []
        for sizes in self._sizes(rows, held_out is not None):
            if not found or not self._stopped():
                found.append(self._learnt(sizes, table, held_out, seed))
        best = max(found, key=lambda one: one.score)
        self.network_, self.history_ = best.network, best.history
        self.n_hidden_, self.n_trees_ = best.states, best.trees
        self.__dict__.pop("mixture_", None)
        if best.mixture is not None:
            self.mixture_ = best.mixture

    def _learnt(self, sizes: TreeSizes, table: EncodedTable, held_out: EncodedTable | None, seed: int) -> _LearntTrees:
        """Learn one tree, or several that share its tables if that increases the held-out likelihood."""
        trees = 1 if sizes.shared else sizes.trees
        network = hidden_tree(
            table.local_rows(), sizes.states, penalty=self.penalty, trees=trees, states=self.schema_.states, seed=seed,
            name=self._prefix(), engine=self.engine, device=self.device,
        )  # fmt: skip
        smoothing = counts_of_prior(network, table.local_rows(), self.smoothing, trees) if self.smoothing else 0.0
        options = {**self._options(), "seed": seed, "smoothing": smoothing, "validation": held_out}
        with options["watch"]:
            history = network.learn(table, patience=None if held_out is None else self.patience, **options)
        score = -np.inf if held_out is None else float(max(history.validation))
        if not sizes.shared or sizes.trees == 1 or self._in_batches or self._stopped():
            return _LearntTrees(network, history, None, sizes.states, trees, score)
        with LearningProgress.of(self.verbose, TREE_EPOCHS, sizes.trees, "trees", self._stopped) as watch:
            mixture = tree_mixture(
                network, table, sizes.trees, validation=held_out, seed=seed, watch=watch, checkpoint=self._journal,
                engine=self.engine, **self._where(),
            )  # fmt: skip
        if mixture.trees == 1:
            return _LearntTrees(network, history, None, sizes.states, 1, score)
        if held_out is not None:
            score = mean_log_likelihood(mixture, held_out.local_rows(), engine=self.engine, **self._where())
        return _LearntTrees(network, history, mixture, sizes.states, mixture.trees, score)

    def _step(self, table: Evidence) -> Self:
        if hasattr(self, "mixture_"):
            raise LearningError(
                "Trees that share tables cannot be learnt online, from batches that are seen once.",
                remedies=Remedy("learn one tree", n_trees=1),
            )
        return super()._step(table)

    def _sizes(self, rows: int, choice: bool) -> list[TreeSizes]:
        """Return the sizes to try; `choice`: whether held-out rows can tell which is better."""
        levels = float(np.mean([len(levels) for levels in self.schema_.states.values()]))
        states, trees, shared = (
            None if given == "auto" else int(given) for given in (self.n_hidden, self.n_trees, self.share_tables)
        )
        return TreeSizes.to_try(levels, rows, states, trees, None if shared is None else bool(shared), choice)

    def _validation(self) -> Any:
        """Return the fraction of rows to hold out, if it makes at least one; or other rows, encoded."""
        if self.validation is None:
            return None
        if isinstance(self.validation, Real):
            return None if float(self.validation) * self.n_rows_ < FEWEST_HELD_OUT else float(self.validation)
        return self._encoded(self._coded_for_learning(self.validation), None)

    def _options(self, what: str = "") -> dict[str, Any]:
        size = self.batch_size
        if size == "auto":
            size = default_batch_size(self.n_rows_)
        return {
            "epochs": self.n_epochs,
            "batch_size": size,
            "step": None if size is None else self.step,
            "engine": self.engine,
            "checkpoint": self._journal,
            "watch": LearningProgress.of(self.verbose, self.n_epochs, 1, what, self._stopped),
            **self._where(),
        }

    def _where(self) -> dict[str, Any]:
        """Return the device and the precision of the engine, if they were given."""
        given = {"device": self.device, "precision": self.precision}
        return {name: value for name, value in given.items() if value is not None}

    def _coded_for_learning(self, X: Any) -> Any:
        """Return the codes of the held-out rows, by the columns of the training rows."""
        return self.schema_.codes(self._columns(X, reset=False), self.unseen)

    def _smoothing(self) -> Any:
        """Return the smoothing for online batches: as many counts per cell as in the first fit, on average."""
        return self.network_.trained[0]["smoothing"] if self.network_.trained else 0.0

    # Names

    def _prefix(self) -> str:
        """Return a prefix for the names of hidden variables, with which no column begins."""
        wanted = "S"
        while any(name.startswith((f"{wanted}:", f"{wanted}->")) for name in self._names()):
            wanted += "_"
        return wanted

    def _hidden(self) -> list[str]:
        return list(self.network_._spec.layout.prior_names)

    def _network(self, n_hidden: Any) -> Network:
        return self.network_

    # Public queries

    def embed(self, X: Any) -> np.ndarray:
        """Return the embedding of each row: the backward message at the hidden variable of the root.

        Args:
            X: the table.
        """
        if not hasattr(self, "mixture_"):
            return super().embed(X)
        (root,) = self._hidden()
        return self.mixture_.root_message(self._variable_messages(self._coded(X), [root])[root])

    def transform(self, X: Any) -> np.ndarray:
        """Return the embedding of each row: the backward message at the hidden variable of the root.

        Args:
            X: the table.
        """
        return self.embed(X)

    def sample(self, n_samples: int = 1, given: Any = None) -> Any:
        """Draw new rows, as a table of the kind used for training.

        With a number as `random_state` every call gives the same rows; for others each time, give it a
        `numpy.random.RandomState`, or None. A column of which nothing was known stays empty.

        Args:
            n_samples: how many; with `given`, how many for each of its rows, one after the other.
            given: rows with missing values, which are drawn given the values that are known.
        """
        check_is_fitted(self)
        evidence = {} if given is None else self._coded(given)
        names = list(self.schema_.states)
        drawn = self._joint_model().sample(n_samples, evidence or None, seed=self._seed(), names=names)
        rows = n_samples * frames.row_count(evidence) if evidence else n_samples
        values = {
            name: [column.value(v) for v in drawn[name].tolist()] if column.levels else [None] * rows
            for name, column in self.schema_.items()
        }
        return outputs.table_like(self._kind, values)
