"""Standard errors of a latent class model with continuous columns (latent profile analysis).

They follow from the same information matrix as those of other models (`fisher_information`). Probabilities near 0,
variances at their limit and classes without rows are held fixed. Intervals are symmetric in logits, means and
logarithms of variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.labels import Label
from ..core.printing import html_table, text_table
from .continuous_items import ContinuousItems
from .fisher_information import Information, Inverse
from .intervals import normal_limit
from .latent_classes import ClassLogits, LatentClasses, Patterns
from .results import Result
from .standard_errors import ErrorKind, StandardErrors, errors_by, errors_of

UNDETERMINED = 1e-6
"""How far an estimate may move along a direction that the rows do not determine, to be determined itself."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error and confidence interval.

    what       "size", "probability", "mean" or "variance"; `column` and `level` say of what
    error      0 for an estimate on the boundary, infinite for one that the rows do not determine
    boundary   whether it is held fixed: a probability near 0, a variance at its limit, a class without rows
    held       whether it was given by constraints
    """

    what: str
    column: str
    level: Label | None
    number: int
    value: float
    error: float
    low: float
    high: float
    boundary: bool
    identified: bool
    held: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as a mapping with the column names of data frames."""
        return {
            "item": self.column or "class size", "class": self.number, "what": self.what,
            "level": "" if self.level is None else str(self.level), "estimate": self.value,
            "standard_error": self.error, "low": self.low, "high": self.high, "boundary": self.boundary,
            "identified": self.identified,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """The estimate with its standard error, or a mark: b on the boundary, ? if not identified, fixed, certain."""
        form = ".3f" if self.what in ("size", "probability") else ".4g"
        mark = f"{self.error:{form}}" if self.error > 0 else "certain"
        mark = "fixed" if self.held else "b" if self.boundary else mark if self.identified else "?"
        return f"{self.value:{form}} ({mark})"


@dataclass(frozen=True, eq=False)
class ProfileErrors(Result):
    """Standard errors and confidence intervals of class sizes, probabilities, means and variances.

    Attributes:
        kind: "observed", "robust" or "outer"; or that of a bootstrap.
        level: of the confidence intervals.
        estimates: all of them, as `Estimate`.
        n_free: parameters that are not on the boundary, and `rank`: how many of them the rows determine.
        concave: whether the estimate is a maximum in every direction.
        of_levels: those of class sizes and probabilities, a `StandardErrors`.
        of_numbers: those of means and variances as arrays, a `MomentErrors`.
        frames: everything as pandas data frames, by name: "estimates", "notes".
    """

    of_levels: StandardErrors
    of_numbers: MomentErrors

    @property
    def kind(self) -> str:
        """The method by which they were computed."""
        return self.of_levels.kind

    @property
    def level(self) -> float:
        """The level of the confidence intervals."""
        return self.of_levels.level

    @property
    def n_free(self) -> int:
        """The number of parameters that are not on the boundary."""
        return self.of_levels.n_free

    @property
    def rank(self) -> int:
        """The number of parameters that the rows determine."""
        return self.of_levels.rank

    @property
    def concave(self) -> bool:
        """Whether the estimate is a maximum in every direction."""
        return self.of_levels.concave

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """All estimates: class sizes, probabilities item by item, then means and variances column by column."""
        return (*_of_levels(self.of_levels), *self.of_numbers.estimates(self.of_levels.model.continuous_items))

    def ordered(self, order: np.ndarray) -> ProfileErrors:
        """Return the standard errors with the classes reordered: class k is the old class `order[k]`."""
        return ProfileErrors(self.of_levels.ordered(order), self.of_numbers.ordered(order))

    def of(self, what: str, column: str = "") -> list[Estimate]:
        """Return the estimates of one kind, "size", "probability", "mean" or "variance", of all columns or one."""
        return [one for one in self.estimates if one.what == what and column in ("", one.column)]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per estimate."""
        return [one.as_dict() for one in self.estimates]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["item", "what", "level", "class", "estimate (s.e.)", "low", "high"]
        rows = [
            [str(cells["item"]), one.what, cells["level"], str(one.number), one.text, f"{one.low:.4g}",
             f"{one.high:.4g}"]
            for one, cells in zip(self.estimates, self.as_dicts(), strict=True)
        ]  # fmt: skip
        return heads, rows

    @property
    def notes(self) -> list[str]:
        """Cautions about these numbers, in sentences."""
        found = self.of_levels.notes
        if self.of_numbers.boundary.any():
            found.append(
                "b of a variance: it is at its limit, a millionth of that of the column, and was held fixed; b of a "
                "mean: no row of the class has a number"
            )
        return found

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows(), left=3), *self.notes])

    def _repr_html_(self) -> str:
        return html_table("Standard errors: " + "; ".join(self.notes), *self._rows())


@dataclass(frozen=True, eq=False)
class MomentErrors:
    """Standard errors and limits of means, then of variances, each (2 K D,)."""

    errors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    boundary: np.ndarray
    identified: np.ndarray

    @classmethod
    def of(
        cls, items: ContinuousItems, found: Information, inverse: Inverse, covariance: np.ndarray, level: float
    ) -> MomentErrors:
        """Return standard errors from the covariance matrix of the parameters, (F, F)."""
        jacobian, wide = found.moment_jacobian(), normal_limit(level)
        spread = np.sqrt(np.maximum(np.einsum("cf,fg,cg->c", jacobian, covariance, jacobian, optimize=True), 0.0))
        lost = np.abs(jacobian @ inverse.undetermined).max(axis=1, initial=0.0) > UNDETERMINED
        values, half = items.values, items.means.size
        low, high = values - wide * spread, values + wide * spread
        far = np.minimum(wide * spread[half:], 700.0)
        low[half:], high[half:] = values[half:] * np.exp(-far), values[half:] * np.exp(far)
        spread[half:] *= values[half:]
        boundary = np.zeros(len(values), dtype=bool) if found.moments is None else found.moments.boundary
        return cls(np.where(lost, np.inf, spread), low, high, boundary, ~lost)

    def ordered(self, order: np.ndarray) -> MomentErrors:
        """Return the standard errors of means and variances with the classes in another order."""
        places = np.arange(len(self.errors)).reshape(2, len(order), -1)[:, order].ravel()
        return MomentErrors(
            self.errors[places], self.low[places], self.high[places], self.boundary[places], self.identified[places]
        )

    def estimates(self, items: ContinuousItems) -> Iterator[Estimate]:
        """Yield the estimates by column: the means of all classes, then the variances."""
        places = np.arange(2 * items.means.size).reshape(2, *items.means.shape)
        for column, name in enumerate(items.names):
            for what, part in (("mean", places[0]), ("variance", places[1])):
                for k, cell in enumerate(part[:, column]):
                    yield Estimate(
                        what, name, None, k, float(items.values[cell]), float(self.errors[cell]),
                        float(self.low[cell]), float(self.high[cell]), bool(self.boundary[cell]),
                        bool(self.identified[cell]), bool(items.fixed[cell]),
                    )  # fmt: skip


def _of_levels(plain: StandardErrors) -> Iterator[Estimate]:
    """Return class sizes, and the probabilities of each item class by class."""
    places = {name: place for place, name in enumerate(("", *plain.model.names))}
    for place in sorted(range(len(plain.labels)), key=lambda cell: places[plain.labels[cell][0]]):
        item, k, level = plain.labels[place]
        yield Estimate(
            "probability" if item else "size", item, level, k, float(plain.estimates[place]),
            float(plain.errors[place]), float(plain.low[place]), float(plain.high[place]),
            bool(plain.boundary[place]), bool(plain.identified[place]), bool(plain.held[place]),
        )  # fmt: skip


def profile_errors(
    model: LatentClasses,
    rows: Patterns,
    kind: ErrorKind | None = None,
    level: float = 0.95,
    logits: ClassLogits | None = None,
) -> ProfileErrors:
    """Return the standard errors of a model on the rows it was learnt from; see `standard_errors`."""
    return errors_by(profile_errors_of, model, rows, kind, level, logits)


def profile_errors_of(
    model: LatentClasses,
    rows: Patterns,
    found: Information,
    inverse: Inverse,
    covariance: np.ndarray,
    kind: str,
    level: float,
) -> ProfileErrors:
    """Return standard errors from the covariance matrix of the parameters, (F, F)."""
    plain = errors_of(model, rows, found, inverse, covariance, kind, level)
    return ProfileErrors(plain, MomentErrors.of(model.continuous_items, found, inverse, covariance, level))
