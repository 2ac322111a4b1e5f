"""Standard errors and confidence intervals of class sizes and item-response probabilities.

    observed   inverse of the observed information (Efron and Hinkley 1978)
    robust     inverse * (sum of squared scores) * inverse, the sandwich (Huber 1967, White 1982): valid even
               if the model is wrong; with clusters the scores of a cluster are added before they are squared, and
               within strata they are taken around their mean (Binder 1983)
    outer      inverse of the sum of squared scores (Berndt, Hall, Hall and Hausman 1974)

The covariance matrix of the logits becomes that of the probabilities by the delta method. Intervals stay between 0 and
1: see `intervals`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..core.labels import Label
from ..core.printing import html_table, text_table
from ..tables.missing import is_missing_value
from .fisher_information import Estimates, Information, Inverse, information
from .intervals import check_level, probability_limits
from .latent_classes import ClassLogits, LatentClasses, Patterns
from .results import Result

ERROR_KINDS = ("observed", "robust", "outer")


@dataclass(frozen=True, eq=False)
class StandardErrors(Result):
    """Standard errors and confidence intervals of all probabilities of a latent class model.

    Attributes:
        kind: "observed", "robust" or "outer".
        level: of the confidence intervals, such as 0.95.
        estimates: (C,) the class sizes, then the item-response probabilities of class 0, of class 1, ...
        errors: (C,) their standard errors; 0 for an estimate on the boundary, infinite for one that the rows do not
            determine.
        low: (C,) lower limits of the confidence intervals.
        high: (C,) upper limits.
        boundary: (C,) which estimates are 0, or 1 since all other levels are 0, or of a class that no row has;
            intervals from the information are not valid there, and the limits are those of a binomial proportion in as
            many rows as the class has.
        identified: (C,) which estimates the rows determine.
        rank: the rank of the information matrix, of `n_free` parameters that are not on the boundary.
        concave: whether the estimate is a maximum in every direction.
        frames: everything as pandas data frames, by name: "estimates", "notes".
    """

    kind: str
    level: float
    model: LatentClasses
    estimates: np.ndarray
    errors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    boundary: np.ndarray
    identified: np.ndarray
    n_free: int
    rank: int
    concave: bool
    covariance: np.ndarray

    def of_item(self, name: str) -> np.ndarray:
        """Return the standard errors of P(level | class) of one item, (classes, levels)."""
        return self._table(self.errors, name)

    @property
    def of_sizes(self) -> np.ndarray:
        """Return the standard errors of the class sizes, (classes,)."""
        return self.errors[: self.model.n_classes]

    def _table(self, values: np.ndarray, name: str) -> np.ndarray:
        settings.choice("name", name, self.model.names)
        item = self.model.names.index(name)
        first = self.model.starts[item]
        cells = values[self.model.n_classes :].reshape(self.model.n_classes, -1)
        return cells[:, first : first + self.model.sizes[item]]

    def ordered(self, order: np.ndarray) -> StandardErrors:
        """Return the standard errors with the classes reordered: class k is the old class `order[k]`."""
        model, width = self.model.ordered(order), self.model.cells.shape[1]
        cells = np.concatenate([order, model.n_classes + (order[:, None] * width + np.arange(width)).ravel()])
        spread = self.covariance[np.ix_(cells, cells)] if self.covariance.size else self.covariance
        return replace(
            self, model=model, estimates=self.estimates[cells], errors=self.errors[cells], low=self.low[cells],
            high=self.high[cells], boundary=self.boundary[cells], identified=self.identified[cells], covariance=spread,
        )  # fmt: skip

    @cached_property
    def held(self) -> np.ndarray:
        """(C,): which estimates are fixed by constraints, or determined by fixed ones."""
        model = self.model
        if model.held is None:
            return np.zeros(model.n_classes + model.cells.size, dtype=bool)
        given = np.repeat(np.add.reduceat(model.held, model.starts, axis=1, dtype=int), model.sizes, axis=1)
        own = model.held | (given == np.repeat(model.sizes, model.sizes) - 1) & (given > 0)
        return np.concatenate([np.zeros(model.n_classes, dtype=bool), own.ravel()])

    @cached_property
    def labels(self) -> list[tuple[str, int, Label | None]]:
        """The item ("" for a class size), the class and the level of every estimate."""
        classes = range(self.model.n_classes)
        levels = [
            (name, level) for name, some in zip(self.model.names, self.model.levels, strict=True) for level in some
        ]
        return [("", k, None) for k in classes] + [(name, k, level) for k in classes for name, level in levels]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per estimate."""
        columns = (self.labels, self.estimates, self.errors, self.low, self.high, self.boundary, self.identified)
        return [
            {
                "item": item or "class size", "class": k, "level": "" if level is None else str(level),
                "estimate": float(value), "standard_error": float(error), "low": float(low), "high": float(high),
                "boundary": bool(bound), "identified": bool(known),
            }
            for (item, k, level), value, error, low, high, bound, known in zip(*columns, strict=True)
        ]  # fmt: skip

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["item", "level", "class", "estimate", "s.e.", "low", "high", ""]
        found = []
        for one, held in zip(self.as_dicts(), self.held, strict=True):
            known = one["identified"] and not held and not one["boundary"] and one["standard_error"] > 0
            error = f"{one['standard_error']:.4f}" if known else "-"
            note = "boundary" if one["boundary"] else "" if one["identified"] else "not identified"
            note = "certain" if not note and one["standard_error"] == 0 else note
            note = "fixed" if held else note
            numbers = [f"{one[key]:.4f}" for key in ("low", "high")]
            found.append(
                [one["item"], one["level"], str(one["class"]), f"{one['estimate']:.4f}", error, *numbers, note]
            )
        return heads, found

    @property
    def notes(self) -> list[str]:
        """Cautions about these numbers, in sentences."""
        found = [f"{self.kind} information; {self.level:.0%} confidence intervals on the logit scale"]
        if self.boundary.any():
            found.append(
                "boundary: the estimate is 0 or 1 (or the class is empty) and was held fixed; Wald intervals are not "
                "valid there, and the limits are those of a binomial proportion in as many rows as the class has; "
                "profile_intervals() has those of the likelihood"
            )
        return found

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows(), left=2, bars=True), *self.notes])

    def _repr_html_(self) -> str:
        return html_table("Standard errors: " + "; ".join(self.notes), *self._rows())


@dataclass(frozen=True, eq=False)
class Design:
    """The sampling design of a survey: the numbers of the cluster and of the stratum of each row."""

    clusters: np.ndarray
    strata: np.ndarray

    @classmethod
    def of(cls, rows: int, clusters: Any, strata: Any) -> Design | None:
        """Return the design from values for each row; by default each row is a cluster, and all are one stratum."""
        if clusters is None and strata is None:
            return None
        numbers = [_numbered("clusters", clusters, rows), _numbered("strata", strata, rows)]
        first = np.arange(rows) if clusters is None else numbers[0]
        second = np.zeros(rows, dtype=np.intp) if strata is None else numbers[1]
        pairs = np.stack([second, first], axis=1)  # clusters may be numbered anew in every stratum
        distinct, cluster = np.unique(pairs, axis=0, return_inverse=True)
        alone = np.bincount(distinct[:, 0])
        if (alone == 1).any():
            raise LearningError(
                "A stratum has one cluster only, from which no variance can be estimated.",
                remedies="join it with another stratum",
            )
        return cls(cluster.reshape(-1), second)

    def of_rows(self, kept: np.ndarray) -> Design:
        """Return the design of some of the rows; a stratum left with one cluster then adds nothing."""
        return Design(np.unique(self.clusters[kept], return_inverse=True)[1].reshape(-1), self.strata[kept])

    def variance(self, scores: np.ndarray) -> np.ndarray:
        """Return the sum of squared cluster totals around the mean of their stratum, (F, F)."""
        clusters = int(self.clusters.max()) + 1
        totals = np.zeros((clusters, scores.shape[1]))
        np.add.at(totals, self.clusters, scores)
        stratum = np.zeros(clusters, dtype=np.intp)
        stratum[self.clusters] = self.strata
        size = np.bincount(stratum)
        means = np.zeros((len(size), scores.shape[1]))
        np.add.at(means, stratum, totals)
        around = totals - (means / np.maximum(size, 1)[:, None])[stratum]
        return (around * (size / np.maximum(size - 1, 1))[stratum][:, None]).T @ around


@dataclass(frozen=True, eq=False)
class ErrorKind:
    """The method by which standard errors are computed.

    name      "observed", "robust" or "outer"
    sampling  whether weights are sampling weights, which say how many people a row stands for; else a row of weight 2
              is two equal rows
    design    clusters and strata of the rows, which are then not merged; None if there are none
    """

    name: str = "observed"
    sampling: bool = False
    design: Design | None = None

    def __post_init__(self) -> None:
        settings.choice("kind", self.name, ERROR_KINDS, LearningError)

    @classmethod
    def of(cls, rows: int, kind: str, weights: str, clusters: Any, strata: Any) -> ErrorKind:
        """Return the method from settings by name; sampling weights, clusters and strata make errors robust."""
        settings.choice("weights", weights, ("frequency", "sampling"), LearningError)
        design = Design.of(rows, clusters, strata)
        sampling = weights == "sampling"
        settings.choice("kind", kind, ERROR_KINDS, LearningError)
        return cls("robust" if sampling or design is not None else kind, sampling, design)

    def of_rows(self, kept: np.ndarray) -> ErrorKind:
        """Return the same method for some of the rows."""
        return self if self.design is None else replace(self, design=self.design.of_rows(kept))

    def meat(self, scores: np.ndarray, weights: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return the variance of the sum of the scores of weighted rows, and sums of squared weights, (F, F)."""
        if self.design is not None:
            return self.design.variance(scores * weights[:, None])
        found: np.ndarray = scores.T @ (scores * (squares if self.sampling else weights)[:, None])
        return found

    def in_rows(self, model: LatentClasses, rows: Patterns) -> tuple[LatentClasses, Patterns]:
        """Return the estimates and rows, with sampling weights scaled to the effective number of rows (Kish 1965).

        What is counted in rows, such as what is on the boundary, then does not depend on the scale of sampling weights.
        Smoothing is scaled with them, so that the estimates stay the maximum.
        """
        if not self.sampling:
            return model, rows
        unit = rows.weight / float(rows.squares.sum())
        scaled = replace(rows, weights=rows.weights * unit, squares=rows.squares * unit**2)
        return replace(model, smoothing=model.smoothing * unit), scaled

    def counted(self, weights: np.ndarray) -> np.ndarray:
        """Return weights as numbers of rows: sampling weights are scaled to the effective number (Kish 1965)."""
        if not self.sampling and self.design is None:
            return weights
        found: np.ndarray = weights * (weights.sum() / (weights**2).sum())
        return found


def parameter_covariance(found: Information, rows: Patterns, kind: ErrorKind) -> tuple[Inverse, np.ndarray]:
    """Return the inverse of the information matrix, and the covariance matrix of the parameters, (F, F)."""
    inverse = Inverse.of(found.outer if kind.name == "outer" else found.information)
    if kind.name != "robust":
        return inverse, inverse.matrix
    return inverse, inverse.matrix @ kind.meat(found.scores, rows.weights, rows.squares) @ inverse.matrix


def standard_errors(
    model: LatentClasses,
    rows: Patterns,
    kind: ErrorKind | None = None,
    level: float = 0.95,
    logits: ClassLogits | None = None,
) -> StandardErrors:
    """Return the standard errors of a model fitted to some rows.

    Args:
        model: the estimates.
        rows: what they were estimated from.
        kind: how they are computed; from the observed information unless given.
        level: of the confidence intervals.
        logits: class sizes that depend on covariates of the rows; those of the result are means over the rows, whose
            covariates are taken as given.
    """
    return errors_by(errors_of, model, rows, kind, level, logits)


Errors = TypeVar("Errors")


def errors_by(
    make: Callable[[LatentClasses, Patterns, Information, Inverse, np.ndarray, str, float], Errors],
    model: LatentClasses,
    rows: Patterns,
    kind: ErrorKind | None,
    level: float,
    logits: ClassLogits | None,
) -> Errors:
    """Standard errors that `make` puts together from the information matrix, its inverse, and the covariance."""
    kind = kind or ErrorKind()
    check_level(level)
    found = information(model, rows, logits)
    inverse, covariance = parameter_covariance(found, rows, kind)
    return make(model, rows, found, inverse, covariance, kind.name, level)


def errors_of(
    model: LatentClasses,
    rows: Patterns,
    found: Information,
    inverse: Inverse,
    parameters: np.ndarray,
    kind: str,
    level: float,
) -> StandardErrors:
    """Return the standard errors of probabilities from the covariance matrix of the parameters, (F, F)."""
    from scipy.sparse import csr_array

    cells = found.cells
    jacobian = found.jacobian()
    few = csr_array(jacobian)  # a probability depends on the logits of its own row of a table alone
    covariance = few @ (few @ parameters).T
    moved = np.abs(few @ inverse.undetermined).max(axis=1, initial=0.0)
    identified = moved <= 1e-6 * np.maximum(np.abs(jacobian).max(axis=1, initial=0.0), 1e-300)
    errors = np.where(identified, np.sqrt(np.maximum(np.diag(covariance), 0.0)), np.inf)
    ones = _all_others_are_zero(cells)
    sizes = np.concatenate([np.full(model.n_classes, rows.weight), _rows_of_cells(model, rows)])
    low, high = probability_limits(cells.probability, errors, cells.boundary, ones, sizes, level)
    low, high = np.where(cells.given, cells.probability, [low, high])
    boundary = (cells.boundary & ~cells.given) | ones
    return StandardErrors(
        kind, float(level), model, cells.probability, errors, low, high, boundary, identified,
        len(inverse.matrix), inverse.rank, inverse.concave, covariance,
    )  # fmt: skip


def _numbered(name: str, values: Any, rows: int) -> np.ndarray:
    """Return the number of the distinct value of each row."""
    if values is None:
        return np.zeros(rows, dtype=np.intp)
    given = list(values)
    missing = [row for row, one in enumerate(given) if is_missing_value(one)]
    if missing:
        raise LearningError(
            "must be known for each row, and is missing here.",
            setting=name,
            rows=missing[:8],
            remedies="leave these rows out, or give them a value of their own",
        )
    array = np.array([str(one) for one in given])
    if array.shape != (rows,):
        raise LearningError(
            f"must have one value for each of the {rows:,} rows. Got {len(array):,}.", setting=name, value=len(array)
        )
    return np.unique(array, return_inverse=True)[1].reshape(-1)


def _rows_of_cells(model: LatentClasses, rows: Patterns) -> np.ndarray:
    """Return, for each item-response probability, the number of rows of its class, (K M,)."""
    return np.repeat(rows.weight * model.prior, model.cells.shape[1])


def _all_others_are_zero(cells: Estimates) -> np.ndarray:
    """Return which estimates, (C,), are 1 because all others of their distribution are on the boundary."""
    inner = np.bincount(cells.line, ~cells.boundary)[cells.line]
    found = np.bincount(cells.line, cells.boundary & ~cells.given)[cells.line] > 0
    alone: np.ndarray = ~cells.boundary & (inner == 1) & found
    return alone
