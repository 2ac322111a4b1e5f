"""Analyses of a fitted latent class model: report, standard errors, goodness of fit, tests.

The rows it was fitted on are kept as codes, so that nothing has to be given again; of a table that is too large for
that, or of a model from a file, the table is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import settings
from ..core.exceptions import LearningError, Remedy, counted
from ..graph.network import Network
from ..graph.relabelled import with_states_ordered
from ..statistics.alignment import SolutionComparison, class_order
from ..statistics.bootstrap import Bootstrap, BootstrapTest, bootstrap, bootstrap_fit, bootstrap_test, one_class_more
from ..statistics.error_warnings import warnings_of_information
from ..statistics.fisher_information import MOST_FREE
from ..statistics.fit import BivariateResiduals, GoodnessOfFit, bivariate_residuals, goodness_of_fit
from ..statistics.groups import GroupComparison, compare_groups
from ..statistics.latent_classes import LatentClasses, Patterns
from ..statistics.latent_profiles import ProfileErrors, profile_errors
from ..statistics.profile_likelihood import Held, ProfileIntervals, profile_intervals
from ..statistics.profile_report import LatentProfileReport, latent_profile_report
from ..statistics.report import LatentClassReport, latent_class_report
from ..statistics.standard_errors import ErrorKind, StandardErrors, standard_errors
from ..statistics.vuong import VuongTest, vuong_test
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from ._kept_rows import KeptRows

PROFILE_TOLERANCE = 1e-11
"""Gain per row below which a fit for the profile likelihood has converged."""

SAME_ROWS = 1e-3
"""Log-likelihood per row that rows may differ by from those of the fit; the last epoch was before the last update."""

MOST_SAVED_WORK = 4e9
"""Multiplications of a report that is made for the model file: about a second."""


class ClassAnalysis(KeptRows):
    """The statistics of a latent class model."""

    _saved_report: LatentClassReport | LatentProfileReport | None = None
    constraints: Any = None

    def _train(self, table: EncodedTable) -> None:
        if self.constraints and self.n_hidden == "auto":
            raise LearningError(
                "must be a number under constraints, which name classes by their number.",
                setting="n_hidden",
                value="auto",
            )
        for entry in self.constraints or ():
            if isinstance(entry, (list, tuple)) and len(entry) > 3 and entry[2] is None:
                raise LearningError(
                    f"hold a class size in {entry!r}; probabilities of columns may be held.",
                    setting="constraints",
                    value=entry,
                )
        super()._train(table)

    def _options(self, what: str = "") -> dict[str, Any]:
        return super()._options(what) | {"constraints": list(self.constraints or ())}

    def _parameter_count(self, net: Network) -> int:
        return net._free_parameters_under(self.constraints) if self.constraints else net.free_parameters

    def _estimates_of(self, net: Network) -> LatentClasses:
        found = super()._estimates_of(net)
        if not self.constraints:
            return found
        held, leader = net._constrained_cells(self.constraints, found.names)
        numbers = found.numbers
        if numbers is not None:
            numbers = replace(numbers, constraints=net._constrained_moments(self.constraints))
        return replace(found, held=held.astype(bool), leader=leader, numbers=numbers)

    def _refuse_constraints(self, what: str, instead: str = "fit a model without them") -> None:
        """Raise an error if there are constraints, which a method does not support; `instead` is the advice."""
        if self.constraints:
            raise LearningError(f"are not met by {what}.", setting="constraints", remedies=instead)

    def _fit_table(self, kind: str, table: EncodedTable, batch: bool = False) -> Self:
        super()._fit_table(kind, table, batch)
        self._saved_report = None
        return self

    def _step(self, table: Evidence) -> Self:
        self._refuse_constraints("learning in batches")
        self._saved_report = None
        return super()._step(table)

    def report(self, X: Any = None, sample_weight: Any = None) -> LatentClassReport | LatentProfileReport:
        """Return the full report of a latent class analysis, with warnings: text, or HTML in a notebook.

        Class sizes, item-response probabilities with standard errors, log-likelihood, criteria, entropy, average
        posterior probabilities, tests of fit, how many starts found the best likelihood. `frames` has all of it as data
        frames. With continuous columns it is a `LatentProfileReport`: with means and variances, without tests of fit.

        Args:
            X: the table it was fitted on; not needed right after `fit`, or of a model file that has a report.
            sample_weight: one weight per row of X.
        """
        check_is_fitted(self)
        if X is None and sample_weight is None and self._kept is None and self._saved_report is not None:
            return self._saved_report
        found = self._report_on(*self._analysed(X, sample_weight))
        if X is None or self._are_those_of_the_fit(found):
            return found
        told = (
            f"These rows (weight {found.weight:,.6g}, log-likelihood {found.log_likelihood:,.4f}) are not those that "
            f"the model was fitted on (weight {self.weight_:,.6g}): standard errors, criteria and tests are not those "
            "of an estimate."
        )
        errors = found.errors.of_levels if isinstance(found, LatentProfileReport) else found.errors
        misleading = warnings_of_information(errors)  # of other rows an estimate need not be a maximum
        left = (one for one in found.warnings if one not in misleading)
        return replace(found, warnings=(told, *left), other_rows=told)

    def _are_those_of_the_fit(self, found: LatentClassReport | LatentProfileReport) -> bool:
        """Return whether rows have the weight and the likelihood of the training rows, as far as known."""
        if self._online is not None:
            return True  # learnt in batches: all rows were never there at once
        if not np.isclose(found.weight, self.weight_, rtol=1e-9):
            return False
        if self._kept is not None:
            model, rows = self._analysed(None, None)
            return bool(np.isclose(found.log_likelihood, rows.weights @ model.posterior(rows)[1], rtol=1e-9))
        if self._saved_report is not None:
            return bool(np.isclose(found.log_likelihood, self._saved_report.log_likelihood, rtol=1e-9))
        apart = abs(found.log_likelihood - self.history_.log_likelihood[-1])
        return not self.history_.converged or bool(apart <= SAME_ROWS * found.weight)

    def _report_on(self, model: LatentClasses, rows: Patterns) -> LatentClassReport | LatentProfileReport:
        made = latent_class_report if model.numbers is None else latent_profile_report
        return made(model, rows, self.history_, self._parameter_count(self.network_))

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
    ) -> StandardErrors | ProfileErrors:
        """Return standard errors and confidence intervals of class sizes and item-response probabilities.

        From second derivatives of the log-likelihood (with those of the smoothing), which are computed exactly. An
        estimate on the boundary (probability 0 or 1) has no standard error, and says so.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            kind: "observed" information, "robust" (sandwich), or "outer" (squared scores).
            level: of the confidence intervals.
            weights: "frequency" if a row of weight 2 is two equal rows; "sampling" if the weight says how many people
                the row stands for: the errors are then robust, and the scale of the weights does not matter.
            clusters: the cluster of each row, if rows were drawn in clusters: the errors are robust.
            strata: the stratum of each row.
        """
        check_is_fitted(self)
        grouped = clusters is not None or strata is not None
        model, rows = self._analysed(X, sample_weight, merge=not grouped)
        how = ErrorKind.of(len(rows.codes), kind, weights, clusters, strata)
        model, rows = how.in_rows(model, rows)
        return (standard_errors if model.numbers is None else profile_errors)(model, rows, how, level)

    def profile_intervals(
        self, which: Any = None, X: Any = None, sample_weight: Any = None, *, level: float = 0.95
    ) -> ProfileIntervals:
        """Return confidence intervals from the profile likelihood, also valid for estimates on the boundary.

        Each limit takes some fits with one probability held; the likelihood is that without smoothing.

        Args:
            which: None for all estimates on the boundary (probability 0 or 1); "class sizes"; the name of a column; or
                a list of (column, class, level).
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            level: of the intervals.
        """
        model, rows = self._analysed(X, sample_weight)
        own = list(self.constraints or ())

        def fit(start: LatentClasses, some: Patterns, held: Held | None) -> LatentClasses:
            entries = own
            if held is not None:
                item, k, word, value = held
                place = (item, k, word) if item else (self._hidden_of(start), None, k)
                entries = [*own, ("fixed", *place, value)]
            tight = {"constraints": entries, "tolerance": min(self.tol, PROFILE_TOLERANCE)}
            return self._fit_from(start, some, 0.0, 0, **tight)

        return profile_intervals(model, rows, which, fit, level)

    def goodness_of_fit(
        self, X: Any = None, sample_weight: Any = None, *, n_bootstrap: int = 0, n_init: int | None = None
    ) -> GoodnessOfFit:
        """Return tests of fit to the table of all answer patterns: likelihood ratio, Pearson, Cressie-Read.

        Rows with missing values are compared with rows that have the same items observed, which is stated.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            n_bootstrap: the number of tables drawn from the model, for p-values that are valid in sparse tables too; 0
                for those of the chi-square distribution.
            n_init: starts for each of them, the first from the estimate; those of the model unless given.
        """
        self._refuse_numbers("Goodness of fit is", "compare numbers of classes: compare, bootstrap_lrt")
        model, rows = self._analysed(X, sample_weight)
        count = self._parameter_count(self.network_)
        if not n_bootstrap:
            return goodness_of_fit(model, rows, count)
        return bootstrap_fit(model, rows, self._refit(n_init), count, n_bootstrap, self._seed())

    def bivariate_residuals(self, X: Any = None, sample_weight: Any = None) -> BivariateResiduals:
        """Return the association of each pair of items that the classes do not explain; `plots.residuals` draws it.

        With continuous columns it is of the pairs of other items, by the classes of the whole model.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
        """
        check_is_fitted(self)
        if self.schema_.continuous and len(self.schema_.states) < 2:
            self._refuse_numbers("Bivariate residuals are", "compare numbers of classes: compare, bootstrap_lrt")
        return bivariate_residuals(*self._analysed(X, sample_weight))

    def bootstrap(
        self,
        X: Any = None,
        sample_weight: Any = None,
        *,
        n_bootstrap: int = 200,
        kind: str = "non-parametric",
        n_init: int | None = None,
        level: float = 0.95,
    ) -> Bootstrap:
        """Return standard errors and percentile intervals from resampled tables, with classes in the same order.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            n_bootstrap: how many tables are drawn.
            kind: "non-parametric", from the rows with replacement; or "parametric", from the model.
            n_init: starts for each, the first from the estimate; those of the model unless given.
            level: of the intervals.
        """
        model, rows = self._analysed(X, sample_weight)
        return bootstrap(model, rows, self._refit(n_init), n_bootstrap, kind, level, self._seed())

    def bootstrap_lrt(
        self,
        X: Any = None,
        sample_weight: Any = None,
        *,
        n_bootstrap: int = 100,
        n_init: int | None = None,
        sizes: Any = None,
    ) -> BootstrapTest:
        """Test by a parametric bootstrap of the likelihood ratio whether one more class fits better.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            n_bootstrap: how many tables are drawn from the model with fewer classes.
            n_init: starts for each fit; those of the model unless given.
            sizes: numbers of classes to test against one more, in this order, until one is not significantly worse;
                that of this model alone unless given.
        """
        _, rows = self._analysed(X, sample_weight)
        tried = [self.n_hidden_] if sizes is None else settings.one_or_more("sizes", sizes, LearningError)
        return bootstrap_test(rows, self._refit(n_init), tried, n_bootstrap, self._seed())

    def vuong_lrt(self, X: Any = None, sample_weight: Any = None, *, n_init: int | None = None) -> VuongTest:
        """Test by Vuong, Lo, Mendell and Rubin whether one more class fits better; `bootstrap_lrt` is more reliable.

        Args:
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            n_init: starts of both fits, those of `bootstrap_lrt`; as many as the model has unless given.
        """
        model, rows = self._analysed(X, sample_weight)
        most = self._parameter_count(self._network(model.n_classes + 1))
        if most >= rows.weight:
            raise LearningError(
                f"The model with {model.n_classes + 1} classes has {counted(most, 'free parameter')}, and the rows are "
                f"{rows.weight:,g} in all: this test needs many more rows than parameters.",
                remedies=("compare models with fewer classes", "use `bootstrap_lrt`"),
            )
        pair = one_class_more(rows, self._refit(n_init), model.n_classes, self._seed())
        return vuong_test(*pair, rows, most - self._parameter_count(self.network_))

    def compare_groups(
        self,
        groups: Any,
        X: Any = None,
        sample_weight: Any = None,
        *,
        items: Any = None,
        n_init: int | None = None,
    ) -> GroupComparison:
        """Test whether groups of rows have the same item-response probabilities, and the same class sizes.

        Likelihood-ratio tests of models with equal and with free probabilities in the groups: of all items at once, of
        each item alone, and of the class sizes. This model is not changed.

        Args:
            groups: a value for each row of X, such as a country; rows where it is missing are left out.
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            items: the columns that are tested alone; all unless given.
            n_init: starts of the models, the first from the estimate; those of the model unless given.
        """
        self._refuse_constraints(
            "groups, whose item-response probabilities are equal or free", "compare groups of a model without them"
        )
        if not self.learn_prior:
            raise LearningError(
                "must be True to compare groups, whose class sizes are estimated.",
                setting="learn_prior",
                value=False,
                remedies="fit a model with it",
            )
        starts = self.n_init if n_init is None else n_init
        settings.whole("n_init", starts, 1, LearningError)
        model, rows = self._analysed(X, sample_weight, merge=False)
        tried = None if items is None else settings.one_or_more("items", items, LearningError)
        return compare_groups(model, rows, groups, self._fit_from, tried, starts)

    def relabel(self, by: Any = "size") -> Self:
        """Put the classes in another order, in this model and all later results.

        Args:
            by: "size", the largest first; a pair (column, level), the class that has the level most often first; or a
                list of the present numbers of the classes in their new order.
        """
        self._refuse_constraints(
            "another order of the classes, which they number", "number the classes in them as you want to have them"
        )
        model = self._estimates()
        order = class_order(model, by)
        self.network_ = with_states_ordered(self.network_, order)
        place = {int(old): new for new, old in enumerate(order)}
        lost = {
            name: tuple(sorted(place[row] for row in some)) if name in model.names else some
            for name, some in self.history_.not_estimated.items()
        }
        self.history_ = replace(self.history_, not_estimated=lost)
        if self._saved_report is not None:
            self._saved_report = self._saved_report.ordered(order, self.history_)
        return self

    def agreement(self, other: ClassAnalysis, X: Any = None, sample_weight: Any = None) -> SolutionComparison:
        """Compare this solution with another one: matching of classes, agreement table, adjusted Rand index.

        Args:
            other: another model of the same columns.
            X: the table to assign; the one this model was fitted on unless given.
            sample_weight: one weight per row of X.
        """
        model, rows = self._analysed(X, sample_weight)
        theirs = other._estimates()
        same = theirs.names == model.names and theirs.levels == model.levels
        if not same or other.schema_.continuous != self.schema_.continuous:
            raise LearningError("Two solutions to compare must have the same columns with the same levels.")
        first, second = (one.posterior(rows)[0].argmax(axis=1) for one in (model, theirs))
        return SolutionComparison.of(first, second, rows.weights, (model.n_classes, theirs.n_classes))

    def _refuse_numbers(self, what: str, instead: str) -> None:
        """Raise an error if there are continuous columns, which an analysis does not support."""
        check_is_fitted(self)
        if self.schema_.continuous:
            raise LearningError(
                f"{what} computed from tables of levels, and continuous columns have none.",
                column=self.schema_.continuous[0],
                remedies=(instead, Remedy("put the numbers into bins", continuous=None)),
            )

    def _analysed(self, X: Any, sample_weight: Any, merge: bool = True) -> tuple[LatentClasses, Patterns]:
        """Return the estimates, and the rows on which they are evaluated."""
        model = self._estimates()
        rows = self._rows_of(X, sample_weight)
        if rows is self._kept and not merge:
            return model, self._as_given(rows)
        return model, Patterns.of(rows, model.names, merge)

    def _rows_of(self, X: Any, sample_weight: Any) -> Evidence:
        """Return the rows of a table; those of the fit if none is given."""
        if X is None and sample_weight is not None:
            raise LearningError(
                "is of the rows of a table, and none is given; the rows of the fit have their own weights.",
                setting="sample_weight",
                remedies="give the table as X too, or leave the weights out",
            )
        if X is not None:
            data = self._coded(X)
            return self._encoded(data, self._weights(sample_weight, frames.row_count(data)))
        if self._kept is not None:
            return self._kept
        raise LearningError(
            "The rows that this model was fitted on are not kept with it: they were too many, came in batches, or "
            "the model is from a file.",
            remedies="give the table as X",
        )

    def _report_to_save(self) -> LatentClassReport | LatentProfileReport | None:
        """Return the report for the model file; None if it would take too long, or there are no rows."""
        if self._kept is None:
            return self._saved_report
        return None if self._report_takes_long else self._report_on(*self._analysed(None, None))

    @property
    def _report_takes_long(self) -> bool:
        """Return whether there are too many parameters and rows to compute standard errors for a model file."""
        count = self._parameter_count(self.network_)
        return count > MOST_FREE or self.n_rows_ * float(count) ** 2 > MOST_SAVED_WORK
