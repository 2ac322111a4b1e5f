"""Classifiers with one hidden variable, or a tree of hidden variables, over the columns and the class."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from math import ceil
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..bayes.class_trees import (
    HiddenTreeFamily,
    class_hidden_tree,
    class_tree_mixture,
    smoothing_of_class_tree,
    tree_of_columns,
)
from ..core.exceptions import FgrnWarning, LearningError, Remedy, counted, warn
from ..core.progress import LearningProgress, ReadingProgress, TimedProgress
from ..core.refined_weight import RefinedWeight
from ..graph import structures
from ..graph.class_family import ClassFamily
from ..graph.network import Network
from ..learning.choice_budget import Budget
from ..learning.class_trials import refined
from ..learning.classifier_choice import STRENGTHS, ClassSearch
from ..learning.criteria import ClassCandidate
from ..learning.cross_validation import PartedRows
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from ..tables.schema import MOST_LEVELS, Schema
from ._bin_choice import ChoosingBins
from ._class_labels import LatentClassifierBase
from ._convergence import FitConvergenceWarning
from ._state_count import Choosing
from ._tables import Classes

USUAL_SECONDS = 5.0
"""The approximate time of choosing a classifier on one processor, unless seconds are given."""

LEAST_EPOCHS = 9
"""Epochs of learning from all rows even if the time is over: three rounds of accelerated EM, which come close to the
end where that takes 15 to 40 epochs."""

SECONDS_AFTER_STOP = 2.0
"""After an interruption of the choice, the best candidate so far is learnt from all rows for so long: with the tables
of a single epoch it would predict far worse."""


class LatentClassifier(ChoosingBins, Choosing, LatentClassifierBase):
    """Classifier by a Latent Variable Model: one hidden variable explains the columns and the class.

    By default, the model that predicts the class of held-out rows best is chosen: each class has hidden states of its
    own, one (naive Bayes) or more, and the tables are refined to predict the class (see `decision_network_`), if that
    helps. With a number as `n_hidden` it is the model of the paper, whose hidden states are shared by all classes.

    Args:
        n_hidden: the number of states of the hidden variable (of each one, in a tree), per class if each class has its
            own; or "auto": chosen by the criterion. With a number, structure="auto" means "shared". Default: "auto".
        structure: "shared" (the paper): the class depends on the hidden variable as the columns do. "per_class": each
            class has hidden states of its own, see `fgrn.class_mixture`. "tan": the same, and each column also depends
            on one other column, if that gains more log-likelihood than it adds parameters, see `fgrn.tan`. "tree": each
            class has a hidden tree, with one hidden variable per column, connected by the dependence of the columns
            given the class, see `fgrn.hidden_tree`; for wide tables, such as images. "auto": the better of "per_class"
            and "tan" with n_hidden="auto" and criterion="log_loss", else "shared"; never "tree", which takes longer on
            most tables, and had the smaller log-loss on few of those that were tried. Default: "auto".
        refine: whether to try tables that are learnt again to predict the class, beside those that describe the rows;
            they are used if that reduces the log-loss of held-out rows. "auto": yes, but not with "tree", where only a
            temperature is fitted, and not with shared states, with which True or a number is an error. A number is the
            one strength to try of the penalty that shrinks them to tables that do not depend on the class; otherwise
            several strengths are compared. Default: "auto".
        n_epochs: the maximum number of epochs of EM. Default: 500.
        cycles: updates of each table per epoch; 1 is the incremental algorithm of the paper, more the batch algorithm.
            Default: 1.
        smoothing: a Dirichlet count that is added to every cell of every table; priors are not smoothed. "auto": 1 /
            levels of the column, so that each row of a table gets one count in all, however many levels there are.
            Default: "auto".
        n_init: the number of random starts (initialisations), of which the best is kept; a tree has one start.
            Default: 3.
        tol: learning has converged when the log-likelihood per row increases by no more than this in a round of
            accelerated EM (three epochs; one if cycles > 1). A ConvergenceWarning says if n_epochs is reached first.
            Default: 1e-05.
        learn_prior: whether the prior of the hidden variable is learnt. Default: True.
        criterion: for n_hidden="auto": "log_loss" of the class in held-out rows; or, for shared states,
            "bic", "aic" or "held_out", which measure how well all columns are described. Default: "log_loss".
        max_hidden: for n_hidden="auto": the largest number of states to try. Default: 64.
        max_seconds: the approximate time of `fit` after the table is read: choosing, calibrating and learning from all
            rows. The first candidate is always tried, the best one is learnt for nine epochs at least, and a refinement
            that was begun is finished, but for rows with missing values only as time allows. None for a limit of work
            that does not depend on the clock: up to 3 s of CPU time for a few hundred rows, 7 s for 10,000, and as long
            as it takes to learn from more than 20,000. Default: None.
        n_bins: the number of bins of a column with many distinct numbers; "auto": 10, or 5 with fewer than 100 rows,
            unless another of 5, 10 and 20 has a smaller held-out log-loss by three standard errors; not tried on
            tables that are not in memory. Default: "auto".
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
        history_: the History of learning: log-likelihood per epoch, convergence, execution.
        n_hidden_: the total number of states of the hidden variable, over all classes.
        structure_: "shared", "per_class", "tan" or "tree".
        decision_network_: the Network that predicts the class, only if tables were refined for it: `network_` with
            these. Everything else (class profiles, imputed rows, likelihoods) is computed by `network_`.
        second_decision_network_: another one, refined in the other way, if the geometric mean of both predictions was
            better: a prediction then uses both, and takes twice the time.
        decision_weight_: how much they count in a row of `known` values beside `network_`, in a geometric mean: with
            the weight min(1, known / usual) ** power. A row of as many values as `usual` in training has weight 1.
        selection_: the candidates that were compared, if something was chosen.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Choosing._parameter_constraints,
        "structure": [StrOptions({"auto", "shared", "per_class", "tan", "tree"})],
        "refine": ["boolean", StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "smoothing": [*Choosing._parameter_constraints["smoothing"], StrOptions({"auto"})],
        "criterion": [StrOptions({"log_loss", "bic", "aic", "held_out"})],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "n_bins": [*Choosing._parameter_constraints["n_bins"], StrOptions({"auto"})],
    }

    structure_: str
    decision_network_: Network
    second_decision_network_: Network
    decision_weight_: RefinedWeight

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        structure: str = "auto",
        refine: bool | float | str = "auto",
        n_epochs: int = 500,
        cycles: int = 1,
        smoothing: float | str = "auto",
        n_init: int = 3,
        tol: float = 1e-5,
        learn_prior: bool = True,
        criterion: str = "log_loss",
        max_hidden: int = 64,
        max_seconds: float | None = None,
        n_bins: int | str = "auto",
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
        self.structure = structure
        self.refine = refine
        self.n_epochs = n_epochs
        self.cycles = cycles
        self.smoothing = smoothing
        self.n_init = n_init
        self.tol = tol
        self.learn_prior = learn_prior
        self.criterion = criterion
        self.max_hidden = max_hidden
        self.max_seconds = max_seconds
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

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.refine != "auto" and self.refine and self._structures() == ["shared"]:
            name = "structure" if self.structure != "auto" else "n_hidden" if self.n_hidden != "auto" else "criterion"
            raise LearningError(
                f"is for states that each class has of its own: {name}={getattr(self, name)!r} has them shared.",
                setting="refine",
                value=self.refine,
                remedies=(
                    Remedy("give each class its own", 'structure="per_class", "tan" or "tree"', structure=...),
                    Remedy("leave the tables as they are", refine="auto"),
                ),
            )

    def _structures(self) -> list[str]:
        """Return the structures to try, in order."""
        if self.structure != "auto":
            return [self.structure]
        return ["per_class", "tan"] if self.n_hidden == "auto" and self.criterion == "log_loss" else ["shared"]

    @property
    def _is_tree(self) -> bool:
        """Return whether each class has a hidden tree, which is not compared with other structures."""
        return getattr(self, "structure_", self.structure) == "tree"

    def _smoothing(self) -> Any:
        """Return smoothing by column except for shared states, because in a tree the hidden prior is a table too."""
        found = super()._smoothing()
        if isinstance(found, dict) or self._structures() == ["shared"]:
            return found
        return dict.fromkeys(self._observed(), found)

    def _learning_smoothing(self) -> Any:
        if not self._is_tree:
            return super()._learning_smoothing()
        by_column = self._smoothing() if self.smoothing == "auto" else float(self.smoothing)
        return smoothing_of_class_tree(self.network_, by_column)

    def _hidden_name(self) -> str:
        """Return the name of the hidden variable; for hidden trees, also a prefix that no column has."""
        found = super()._hidden_name()
        while self._is_tree and any(name.startswith(f"{found}:") for name in self._observed()):
            found += "_"
        return found

    @property
    def _starts(self) -> int:
        """Return the number of random starts of learning from all rows."""
        return 1 if self._is_tree else int(self.n_init)

    def _options(self, what: str = "") -> dict[str, Any]:
        return super()._options(what) | {"starts": self._starts}

    def _train_within(self, budget: Budget | None, table: EncodedTable) -> None:
        self._decision.keep(())
        self.structure_ = self._structures()[0]
        is_density = self.n_hidden != "auto" or self.criterion != "log_loss"
        if self.structure_ == "shared" and is_density:
            super()._train_within(budget, table)
            return
        here = table.local_rows()
        search = self._search(here, budget)
        if search.rows.can_be_parted and (search.families[0].temper or self.n_hidden == "auto"):
            with self._ending_if_interrupted("while candidates were compared", lambda: bool(search.tried)):
                search.search(self._sizes())
                search.average()
                search.calibrate()
                search.weigh_incomplete_rows()
        family, size = search.families[0], 1 if self.n_hidden == "auto" else int(self.n_hidden)
        self.__dict__.pop("selection_", None)
        if search.tried:
            self.selection_, family, size = search.selection, search.best_family, search.best.size
            search.reserve_for_refining()
            self._warn_if_at_the_edge(search)
        self.structure_ = family.structure
        self.network_ = family.new_model(size, here)
        self.n_hidden_ = self.network_.variable(self._hidden_name()).cardinality
        if self._stopped():  # the best candidate so far is still learnt from all rows, if that is quick
            ends = time.monotonic() + SECONDS_AFTER_STOP
            search.budget = Budget(None, lambda: time.monotonic() > ends)
        self._learn_in_time(table, search)
        if search.tried and not search.recipe.changes_nothing and not search.budget.stopped():
            with self._ending_if_interrupted("while tables were refined", lambda: True):
                self._decision.keep(refined(family, self.network_, here, search.recipe, search.budget), search.weight)

    def _learn_in_time(self, table: EncodedTable, search: ClassSearch) -> None:
        """Learn the tables of the network; when the time is over, stop with a warning and keep them.

        The first start has some epochs in any case: all that follows depends on its tables. After an interruption of
        the choice nothing is written to a checkpoint: the choice is run again when it is resumed, to its end.
        """
        budget = search.budget
        settings: dict[str, Any] = {}
        stopped = self._stopped
        if self._stopped():
            stopped, settings = budget.stopped, {"checkpoint": None}
        shown = LearningProgress.of(self.verbose, self.n_epochs, self._starts, stop=stopped)
        watch = TimedProgress(shown, lambda: not budget.has_time, LEAST_EPOCHS)
        self.history_ = self._learn_network(self.network_, table, watch=watch, **settings)
        is_counting = self.n_hidden_ == len(self.classes_) and search.rows.is_complete  # an epoch is enough for that
        if not (self.history_.converged or is_counting or budget.has_time or self._stopped()):
            seconds = float(self.max_seconds or USUAL_SECONDS)
            warn(
                f"ended learning from all rows after {counted(self.history_.epochs, 'epoch')}, before it converged.",
                FitConvergenceWarning,
                setting="max_seconds",
                value=seconds,
                remedies=Remedy("allow more time", max_seconds=2 * seconds),
            )

    def _search(self, table: Evidence, budget: Budget | None) -> ClassSearch:
        """Return the search over candidates on a table, before its first trial, with what is left of a budget."""
        seed = self._seed()
        rows = self._parted(table, seed)
        is_chosen = isinstance(self.refine, str | bool | np.bool_)
        strengths = STRENGTHS if is_chosen else (float(self.refine),)
        return self._search_of(rows, self._structures(), seed, strengths, budget or self._new_budget(rows))

    def _search_of(
        self, rows: PartedRows, structures: Sequence[str], seed: int, strengths: Sequence[float], budget: Budget
    ) -> ClassSearch:
        families = [self._family(structure, rows, seed) for structure in structures]
        return ClassSearch(rows, families, budget, ReadingProgress(self.verbose), strengths, self._starts)

    def _family(self, structure: str, rows: PartedRows, seed: int) -> ClassFamily:
        """Return the networks of a structure, in all sizes."""
        target, hidden, observed = self._class_name(), self._hidden_name(), self._observed()
        tree = cache(lambda table: tree_of_columns(observed, target, table, "aic"))  # the same for all sizes

        @cache
        def built_alike(size: int, columns: tuple[str, ...]) -> Network:
            """Return a network that is the same whatever the rows are: their parts share its plans."""
            if structure == "shared":
                return self._network(size)
            known = {name: observed[name] for name in columns}
            return structures.class_mixture(known, target, rows.states(size, len(self.classes_)), name=hidden)

        def built(size: int, table: Evidence) -> Network:
            if structure in ("shared", "per_class"):
                alike = built_alike(size, table.columns)
                return alike._with_parameters(alike._parameters)
            states, known = rows.states(size, len(self.classes_)), {name: observed[name] for name in table.columns}
            if structure == "tree":
                return class_hidden_tree(known, target, states, table, seed=seed, name=hidden)
            return class_tree_mixture(known, target, states, tree(table), name=hidden)

        temper = bool(self.refine) and structure != "shared" and not self._is_first_batch
        refine = temper and (structure != "tree" or self.refine != "auto")
        kind = HiddenTreeFamily if structure == "tree" else ClassFamily
        return kind(
            structure, built, target, hidden, self._smoothing(), self.engine, seed, refine, self._ordered(), temper
        )

    def _compare_rows(self, X: Any, sample_weight: Any, classes: Classes | None, tried: Any, patient: bool) -> Any:
        table, budget = self._learnable_in_bins(X, sample_weight, classes)
        return self._compare(table, tried, {}, patient, budget)

    def _compare(
        self,
        table: Evidence,
        tried: Any,
        trained: dict[int, Any],
        patient: bool = True,
        budget: Budget | None = None,
    ) -> Any:
        if self.criterion != "log_loss":
            return super()._compare(table, tried, trained, patient)
        search = self._search(table, budget)
        if not search.rows.can_be_parted:
            raise LearningError(
                "To compare classifiers, some rows are held out: a table has at least 10 rows of known class, and "
                "more than one class."
            )
        search.search(self._doubling() if patient else [int(size) for size in tried], patient)
        return search.selection

    def _sizes(self) -> list[int]:
        """Return the sizes to try: doubling ones, or the one that is given."""
        return self._doubling() if self.n_hidden == "auto" else [int(self.n_hidden)]

    def _doubling(self) -> list[int]:
        return [2**power for power in range(int(self.max_hidden).bit_length())]

    def _ordered(self) -> list[str]:
        """Return the columns with ordered levels, if these are three or more; two levels carry no order."""
        return [name for name, column in self.schema_.items() if column.ordered and len(column.levels) > 2]

    def _warn_if_at_the_edge(self, search: ClassSearch) -> None:
        best, most = search.best, max(self._sizes())
        if self.n_hidden == "auto" and best.size == most > 1 and not self._stopped():
            warn(
                f"The best number of hidden states is the largest that was tried, {best.size} for each class, so that "
                "more may be better.",
                FgrnWarning,
                value=best.size,
                remedies=Remedy("try more", max_hidden=2 * self.max_hidden),
            )
        if search.edge and not self._stopped():
            self._warn_of_the_penalty(best, search)

    def _warn_of_the_penalty(self, best: ClassCandidate, search: ClassSearch) -> None:
        is_short = best.structure in search.unfinished
        when = " before the budget ended" if is_short else ""
        beyond = best.strength * (0.1 if search.edge == "weakest" else 10)
        # without a limit of seconds: clearly more than it took, in tens
        usual = max(USUAL_SECONDS, 5.0 * ceil(search.budget.elapsed * 0.3))
        more = Remedy("allow more time", max_seconds=2 * (self.max_seconds or usual))
        warn(
            f"The best penalty on refined tables is the {search.edge} that was tried{when}, {best.strength:g}, so that "
            f"a {'weaker' if search.edge == 'weakest' else 'stronger'} one may be better.",
            FgrnWarning,
            value=best.strength,
            remedies=more if is_short else Remedy("set it", refine=float(f"{beyond:g}")),
        )

    def compare(self, X: Any, y: Any, sizes: Any = None, sample_weight: Any = None) -> Any:
        """Compare several numbers of hidden states on a table, without changing this model.

        Args:
            X: the table, in memory or not, as for `fit`.
            y: the class of each row, or the name of that column.
            sizes: the numbers to try, all of them; unless given, more and more until the criterion gets worse.
            sample_weight: one weight per row, or the name of that column.
        """
        if frames.is_source(X):
            return self._compared(X, sizes, sample_weight, target=self._column(y))
        return self._compared(X, sizes, sample_weight, self._classes(y))
