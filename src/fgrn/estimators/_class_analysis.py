"""What is asked of a latent class model after it was fitted: report, standard errors, fit.

The rows it was fitted on are kept as codes, so that nothing has to be given again; of a table that is too large for
that, or of a model from a file, the table is given.
"""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import LearningError
from ..statistics.fit import BivariateResiduals, GoodnessOfFit, bivariate_residuals, goodness_of_fit
from ..statistics.latent_classes import LatentClasses, Patterns
from ..statistics.report import LatentClassReport, latent_class_report
from ..statistics.standard_errors import Design, StandardErrors, standard_errors
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from ._state_count import Choosing

MOST_KEPT_CELLS = 2**24
"""Cells of a table that are kept with the model, a byte each."""

MOST_SAVED_WORK = 4e9
"""Multiplications of a report that is made for the model file: about a second."""


class ClassAnalysis(Choosing):
    """The statistics of a latent class model."""

    _kept: Evidence | None = None
    _saved_report: LatentClassReport | None = None

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        super()._fit_table(kind, table, batch)
        small = isinstance(table, Evidence) and table.in_memory and table.codes.size <= MOST_KEPT_CELLS
        self._kept = table if small and isinstance(table, Evidence) and not batch else None
        self._saved_report = None
        return self

    def _step(self, table: Evidence) -> Self:
        self._kept = self._saved_report = None  # a batch is not all rows
        return super()._step(table)

    def report(self, X: Any = None, sample_weight: Any = None) -> LatentClassReport:
        """All that is usually reported of a latent class analysis, with warnings: print it, or show it in a notebook.

        Class sizes, item-response probabilities with standard errors, log-likelihood, criteria, entropy, average
        posterior probabilities, tests of fit, how many starts found the best likelihood. `frames` has all of it as data
        frames.

        Args:
            X: the table it was fitted on; not needed right after `fit`, or of a model file that has a report.
            sample_weight: one weight per row of X.
        """
        check_is_fitted(self)
        if X is None and self._kept is None and self._saved_report is not None:
            return self._saved_report
        model, rows = self._analysed(X, sample_weight)
        return latent_class_report(model, rows, self.history_, self.network_.free_parameters)

    def standard_errors(
        self,
        X: Any = None,
        sample_weight: Any = None,
        *,
        kind: str = "observed",
        level: float = 0.95,
        weights: str = "frequency",
        clusters: Any = None,
        strata: Any = None,
    ) -> StandardErrors:
        """Standard errors and confidence intervals of class sizes and item-response probabilities.

        From second derivatives of the log-likelihood (with those of the smoothing), which are computed exactly. An
        estimate on the boundary (probability 0) has no standard error, and says so.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            kind: "observed" information, "robust" (sandwich), or "outer" (squared scores).
            level: of the confidence intervals.
            weights: "frequency" if a row of weight 2 is two equal rows; "sampling" if the weight says how many people
                the row stands for: the errors are then robust.
            clusters: the cluster of each row of X, if rows were drawn in clusters: the errors are robust.
            strata: the stratum of each row of X.
        """
        if weights not in ("frequency", "sampling"):
            raise LearningError(
                f"must be 'frequency' or 'sampling'. Got {weights!r} instead.", setting="weights", value=weights
            )
        grouped = clusters is not None or strata is not None
        if grouped and X is None:
            raise LearningError(
                "Clusters and strata are of the rows of a table: give it, and its weights, as X and sample_weight."
            )
        model, rows = self._analysed(X, sample_weight, merge=not grouped)
        sampling = weights == "sampling"
        kind = "robust" if grouped or sampling else kind
        return standard_errors(model, rows, kind, level, sampling, Design.of(len(rows.codes), clusters, strata))

    def goodness_of_fit(self, X: Any = None, sample_weight: Any = None) -> GoodnessOfFit:
        """Tests of fit to the table of all patterns of answers: likelihood ratio, Pearson, Cressie-Read.

        Rows with missing values are compared with rows that have the same items observed, which is stated.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
        """
        return goodness_of_fit(*self._analysed(X, sample_weight), self.network_.free_parameters)

    def bivariate_residuals(self, X: Any = None, sample_weight: Any = None) -> BivariateResiduals:
        """How far each pair of items is associated beyond what the classes explain; `plots.residuals` draws it.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
        """
        return bivariate_residuals(*self._analysed(X, sample_weight))

    def _estimates(self) -> LatentClasses:
        """The estimates as arrays."""
        check_is_fitted(self)
        states = self.schema_.states
        prior = self.network_.prior(self._hidden_name())
        tables = tuple(self.network_.table(name) for name in states)
        levels = tuple(map(tuple, states.values()))
        return LatentClasses(tuple(states), levels, prior, tables, float(self.smoothing), bool(self.learn_prior))

    def _analysed(self, X: Any, sample_weight: Any, merge: bool = True) -> tuple[LatentClasses, Patterns]:
        """The estimates, and the rows they are judged on."""
        model = self._estimates()
        if X is not None:
            data = self._coded(X)
            rows = self._encoded(data, self._weights(sample_weight, frames.row_count(data)))
        elif self._kept is not None:
            rows = self._kept
        else:
            raise LearningError(
                "The rows that this model was fitted on are not kept with it: they were too many, came in batches, or "
                "the model is from a file.",
                remedies="give the table as X",
            )
        return model, Patterns.of(rows, model.names, merge)

    def _report_to_save(self) -> LatentClassReport | None:
        """The report that goes into the model file; None if it would take long, or the rows are not there."""
        if self._kept is None:
            return self._saved_report
        work = self._kept.rows * float(self.network_.free_parameters) ** 2
        return self.report() if work <= MOST_SAVED_WORK else None
