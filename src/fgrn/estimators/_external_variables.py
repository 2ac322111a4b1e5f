"""Covariates of the classes and distal outcomes of a latent class model, in one, two or three steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import settings
from ..core.exceptions import LearningError, counted
from ..statistics.distal_outcomes import (
    DistalOutcome,
    assigned_outcome,
    corrected_means,
    joint_outcome,
    later_outcome,
)
from ..statistics.first_step import Uncertainty
from ..statistics.latent_classes import LatentClasses, Patterns
from ..statistics.membership import MembershipRegression, three_step_regression, two_step_regression
from ..statistics.one_step import RowSizes, one_step_regression
from ..statistics.standard_errors import ERROR_KINDS, ErrorKind
from ..statistics.three_step import AssignedRows
from ..tables import frames
from ._class_analysis import ClassAnalysis
from ._outcomes import fit_outcome
from ._regression import REGRESSION_TOLERANCE, fit_with_sizes
from ._tables import is_array


class ExternalVariables(ClassAnalysis):
    """The methods that relate the classes to variables that are not items of the model."""

    def _refuse_swapped(self, given: Any, X: Any, what: str) -> None:
        """Raise an error if the two arguments seem to be exchanged: the first is the table of the model."""
        names = set(self.schema_)
        if X is None or not names <= set(_columns_with_names(given)) or names <= set(_columns_with_names(X)):
            return
        if not is_array(X) or np.ndim(X) < 2:  # columns of an array have no names
            raise LearningError(
                "The first argument has the columns of the model, and the second one, the table, lacks them. The order "
                f"is: first {what}, then the table.",
                remedies="swap the two",
            )

    def _refuse_other_length(self, values: Any, rows: Patterns, X: Any, what: str) -> None:
        """Raise an error if there are not as many values as rows that the model was fitted on and has kept.

        Of rows in memory those of weight 0 have kept their place. Of rows in files and batches they have not, and it is
        not known where they were.
        """
        if X is not None or not self._fitted_on_stream:
            return
        count = len(frames.as_list(frames.as_column(values)))
        if count != len(rows.codes):
            raise LearningError(
                f"{what} {counted(count, 'value')}, and the model was fitted on {counted(len(rows.codes), 'row')}: "
                "rows of weight 0, and rows that could not be read and were skipped, are not among these.",
                remedies=("leave out the values of these rows", "read the whole table and give it as X"),
            )

    def membership_regression(
        self,
        covariates: Any,
        X: Any = None,
        sample_weight: Any = None,
        *,
        steps: int = 3,
        kind: str = "observed",
        level: float = 0.95,
        weights: str = "frequency",
        clusters: Any = None,
        strata: Any = None,
        n_init: int | None = None,
    ) -> MembershipRegression:
        """Regress class membership on covariates: a multinomial logit, in one, two or three steps.

        One step estimates the classes anew, together with the coefficients (latent class regression); its result has
        the item-response probabilities, memberships and criteria of that model. Two steps leave the item-response
        probabilities as they are. Three steps use the class that each row is assigned to, corrected for wrong
        assignments. Standard errors contain the uncertainty of the classes. This model is not changed.

        Args:
            covariates: a mapping of columns or a dataframe, a row for each row of X; words are compared with their
                first level in the order of the alphabet. Rows with a missing covariate are left out.
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            steps: 1, 2 or 3.
            kind: of the standard errors: "observed" information, or "robust" (sandwich), which are right also where
                the classes do not explain all of what the items have in common.
            level: of the confidence intervals.
            weights: "frequency" or "sampling", as in `standard_errors`.
            clusters: the cluster of each row: the errors are robust.
            strata: the stratum of each row.
            n_init: starts of one step, the first from the estimate; those of the model unless given.
        """
        check_is_fitted(self)
        settings.choice("steps", steps, (1, 2, 3), LearningError)
        if self.n_hidden_ == 1:
            raise LearningError(
                "The model has only one class, so that there is no membership to regress.",
                remedies="fit at least two classes",
            )
        self._refuse_swapped(covariates, X, "covariates")
        model, given = self._analysed(X, sample_weight, merge=False)
        for name, column in _columns_with_names(covariates).items():
            self._refuse_other_length(column, given, X, f"The covariate {name!r} has")
        how = ErrorKind.of(len(given.codes), kind, weights, clusters, strata)
        model, rows = how.in_rows(model, given)
        scale = given.weight / rows.weight
        if steps == 1:
            starts = self.n_init if n_init is None else n_init
            settings.whole("n_init", starts, 1, LearningError)
            free = self._parameter_count(self.network_) - (self.n_hidden_ - 1) * bool(self.learn_prior)
            options = self._options("regression") | {
                "checkpoint": None,
                "tolerance": REGRESSION_TOLERANCE,
                "accelerate": True,
            }
            options |= {"cycles": 1, "smoothing": model.smoothing}

            def fit(sizes: RowSizes, some: Patterns) -> tuple[LatentClasses, np.ndarray]:
                with options["watch"]:
                    return fit_with_sizes(options, sizes, some, starts, self._hidden_of(model))

            joint = one_step_regression(model, rows, covariates, fit, free, how, level)
            return replace(joint, log_likelihood=joint.log_likelihood * scale, weight=joint.weight * scale)
        if steps == 2:
            found = two_step_regression(model, rows, covariates, how, level)
        else:
            found = three_step_regression(AssignedRows.of(model, rows), covariates, how, level)
        return replace(found, log_likelihood=found.log_likelihood * scale)

    def distal_outcome(
        self,
        outcome: Any,
        X: Any = None,
        sample_weight: Any = None,
        *,
        steps: int = 3,
        correction: str = "bch",
        kind: str = "robust",
        level: float = 0.95,
        weights: str = "frequency",
        clusters: Any = None,
        strata: Any = None,
        n_init: int | None = None,
    ) -> DistalOutcome:
        """Estimate the mean of an outcome in each class, or the probabilities of its levels, and test equality.

        Three steps use the class that each row is assigned to, corrected for wrong assignments. Two steps leave class
        sizes and item-response probabilities as they are, one step estimates them anew with the outcome as one more
        column; this model is not changed. A number is normally distributed in each class, except with "bch", which
        assumes no distribution. Standard errors are robust (sandwich) and contain the uncertainty of the classes.

        Args:
            outcome: a number or a word for each row of X; for 0 and 1 the mean is reported. Rows where it is missing
                are not used for it.
            X: the table it was fitted on; not needed right after `fit`.
            sample_weight: one weight per row of X.
            steps: 1, 2 or 3.
            correction: of three steps: "bch" (Bolck, Croon and Hagenaars) or "ml" (maximum likelihood).
            kind: of the standard errors: "robust" (sandwich), valid even if the model of the outcome is wrong;
                "observed" information, or "outer", valid only if it is right, and not available with "bch".
            level: of the confidence intervals.
            weights: "frequency" or "sampling", as in `standard_errors`.
            clusters: the cluster of each row: the errors are robust.
            strata: the stratum of each row.
            n_init: starts of one step, the first from the estimate; those of the model unless given.
        """
        check_is_fitted(self)
        settings.choice("steps", steps, (1, 2, 3), LearningError)
        settings.choice("correction", correction, ("bch", "ml"), LearningError)
        self._refuse_swapped(outcome, X, "the outcome")
        by_means = steps == 3 and correction == "bch"
        if by_means and kind in ERROR_KINDS and kind != "robust":
            raise LearningError(
                "must be 'robust' with the correction 'bch', which supposes no distribution of the outcome. "
                f"Got {kind!r} instead.",
                setting="kind",
                value=kind,
                remedies='choose correction="ml" or steps=2, which have other kinds',
            )
        model, rows = self._analysed(X, sample_weight, merge=False)
        self._refuse_other_length(outcome, rows, X, "The outcome has")
        how = ErrorKind.of(len(rows.codes), kind, weights, clusters, strata)
        model, rows = how.in_rows(model, rows)
        options = self._options() | {"checkpoint": None, "watch": None}
        if by_means:
            return corrected_means(AssignedRows.of(model, rows), outcome, how, level)
        if steps == 3:
            return assigned_outcome(AssignedRows.of(model, rows), outcome, partial(fit_outcome, options), how, level)
        if steps == 2:
            first = Uncertainty.of(model, rows)
            return later_outcome(model, rows, first, outcome, partial(fit_outcome, options), how, level)
        self._refuse_constraints("one step", "take steps=2 or steps=3, which keep the classes as they are")
        starts = self.n_init if n_init is None else n_init
        settings.whole("n_init", starts, 1, LearningError)

        def fit(start: LatentClasses, table: Patterns) -> LatentClasses:
            smoothing = {name: model.smoothing if name in model.names else 0.0 for name in start.names}
            return self._fit_from(start, table, smoothing, starts - 1)

        return joint_outcome(model, rows, outcome, fit, how, level)


def _columns_with_names(table: Any) -> Mapping[str, Any]:
    """Return the columns of a mapping or a dataframe; none for anything else."""
    return frames.columns(table) if isinstance(table, Mapping) or frames.is_frame(table) else {}
