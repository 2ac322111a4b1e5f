"""Confidence intervals from the profile likelihood, also for estimates on the boundary, where Wald's are not valid.

The interval of a probability holds all values v for which the model, with this probability held at v and all others
estimated anew, is not much worse than the estimate:

    2 (log-likelihood of the estimate - largest log-likelihood with v) <= quantile of chi-square with 1 df

(Venzon and Moolgavkar 1988). At an estimate of 0 or 1 the quantile is on the safe side: the interval holds the truth
at least as often as it says (Self and Liang 1987). The likelihood is that without smoothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import ImpossibleEvidence, LearningError, Remedy, unknown_name
from ..core.labels import Label
from ..core.printing import html_table, text_table
from .alignment import nearest_order
from .intervals import check_level, normal_limit
from .latent_classes import LatentClasses, Patterns
from .results import Result
from .standard_errors import ErrorKind, standard_errors

Held = tuple[str, int, Label | None, float]
"""A probability and the value it is held at: item ("" for a class size), class, level, value."""

FitHeld = Callable[[LatentClasses, Patterns, Held | None], LatentClasses]
"""Fits a model without smoothing, with one probability held, from given estimates."""

SIZES = "class sizes"

CLOSE, STEPS, NARROW = 1e-4, 60, 1e-7
"""Steps end when the deviance is this close to its quantile, in square roots, or the limit is known this well."""

ROUNDED = 1e-12
"""Estimates that are this close to 0, or to the largest value, are there."""

INEXACT = 1e-2
"""Square roots of the deviance that are further from what is sought, at a limit, are not those of inexact fits."""

BETTER = 1e-2
"""A gain of log-likelihood above this means that the estimate was not the maximum."""


@dataclass(frozen=True)
class ProfileInterval:
    """A profile-likelihood interval of a probability; of a class size if `level` is None."""

    item: str
    number: int
    level: Label | None
    estimate: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        """Return the interval as a mapping with the column names of data frames."""
        return {
            "item": self.item or "class size", "class": self.number,
            "level": "" if self.level is None else str(self.level), "estimate": self.estimate, "low": self.low,
            "high": self.high,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProfileIntervals(Result):
    """Confidence intervals from the profile likelihood.

    Attributes:
        level: of the intervals, such as 0.95.
        intervals: all of them, as `ProfileInterval`.
        frames: everything as pandas data frames, by name: "intervals", "notes".
    """

    _table_name = "intervals"

    level: float
    intervals: tuple[ProfileInterval, ...]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per interval."""
        return [one.as_dict() for one in self.intervals]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [one["item"], one["level"], str(one["class"]), *(f"{one[key]:.4f}" for key in ("estimate", "low", "high"))]
            for one in self.as_dicts()
        ]
        return ["item", "level", "class", "estimate", "low", "high"], rows

    @property
    def notes(self) -> list[str]:
        """The method of computation, in sentences."""
        if not self.intervals:
            return ["no estimate on the boundary"]
        return [f"{self.level:.0%} confidence intervals from the profile likelihood, without smoothing"]

    def __str__(self) -> str:
        return "\n".join([*([text_table(*self._rows(), left=2)] if self.intervals else []), *self.notes])

    def _repr_html_(self) -> str:
        return html_table(self.notes[0], *self._rows())


def profile_intervals(
    model: LatentClasses, rows: Patterns, which: Any, fit: FitHeld, level: float = 0.95
) -> ProfileIntervals:
    """Return the intervals of some probabilities.

    Args:
        model: the estimates.
        rows: what they were estimated from.
        which: None for all on the boundary; "class sizes"; the name of an item; or a list of (item, class, level).
        fit: how a model with one probability held is fitted.
        level: of the intervals.
    """
    check_level(level)
    cells = _profiled_cells(model, rows, which)
    best = fit(model, rows, None) if cells else model
    value, most = _log_likelihood_of(best, rows), normal_limit(level)
    found = []
    for cell in cells:
        top = _largest_value(best, cell)
        one = _Profile(best, rows, fit, value, cell, 1.0 if top is None else top)
        ends = (one.estimate, one.estimate) if top is None else (one.limit(0.0, most), one.limit(top, most))
        found.append(ProfileInterval(*cell, one.estimate, *ends))
    return ProfileIntervals(float(level), tuple(found))


def _largest_value(model: LatentClasses, cell: tuple[str, int, Label | None]) -> float | None:
    """Return the largest value a probability can have; None if constraints determine it."""
    item, k, level = cell
    if not item:
        return 1.0 if model.learns_prior else None
    place = model.names.index(item)
    some = slice(model.starts[place], model.starts[place] + model.sizes[place])
    free = np.ones(model.sizes[place], dtype=bool) if model.held is None else ~model.held[k, some]
    if not free[model.levels[place].index(level)] or free.sum() < 2:
        return None
    return 1.0 - float(model.cells[k, some][~free].sum())


def _profiled_cells(model: LatentClasses, rows: Patterns, which: Any) -> list[tuple[str, int, Label | None]]:
    """Return the item ("" for a class size), class and level of the requested probabilities."""
    errors = standard_errors(model, rows, ErrorKind())
    every = errors.labels
    if which is None:
        return [label for label, bound, held in zip(every, errors.boundary, errors.held, strict=True) if bound & ~held]
    if isinstance(which, str):
        if which != SIZES and which not in model.names:
            raise unknown_name("column", which, [*model.names, SIZES])
        if which == SIZES and model.n_classes == 1:
            raise LearningError(
                "must be a column or a list of (column, class, level): the size of the one class is 1.",
                setting="which",
                value=which,
            )
        return [label for label in every if label[0] == ("" if which == SIZES else which)]
    places = {(item, k, str(level)): (item, k, level) for item, k, level in every}
    asked = settings.one_or_more("which", which, LearningError)
    if not asked:
        raise LearningError(
            "is an empty list.",
            setting="which",
            value=which,
            remedies=("give one or more (column, class, level)", Remedy("take all on the boundary", which=None)),
        )
    found = []
    for one in asked:
        parts: Sequence[Any] = one if isinstance(one, (list, tuple)) else ()
        key = (parts[0], parts[1], str(parts[2])) if len(parts) == 3 else None
        if key not in places:
            raise LearningError(
                f"has {one!r}, which is not one of the model; write (column, class, level), such as "
                f"({model.names[0]!r}, 0, {model.levels[0][0]!r}).",
                setting="which",
                value=one,
            )
        found.append(places[key])
    return found


def _log_likelihood_of(model: LatentClasses, rows: Patterns) -> float:
    return float(rows.weights @ model.posterior(rows)[1])


@dataclass(eq=False)
class _Profile:
    """The profile likelihood of one probability from 0 to `top`; fits start from the nearest earlier one.

    Those at 0 and at `top` are no starts: a probability that is 0 there would stay 0.
    """

    best: LatentClasses
    rows: Patterns
    fit: FitHeld
    value: float
    cell: tuple[str, int, Label | None]
    top: float

    def __post_init__(self) -> None:
        self._tried: dict[float, tuple[float, LatentClasses]] = {self.estimate: (0.0, self.best)}

    @property
    def estimate(self) -> float:
        """The estimate without smoothing."""
        item, k, level = self.cell
        if not item:
            return float(self.best.prior[k])
        place = self.best.names.index(item)
        return float(self.best.tables[place][k, self.best.levels[place].index(level)])

    def root(self, held: float) -> float:
        """Return the square root of the deviance with the probability fixed at this value.

        It is infinite if rows are impossible, or classes have changed places, so that another one is held.
        """
        if held not in self._tried:
            inside = [one for one in self._tried if 0 < one < self.top] or [self.estimate]
            near = min(inside, key=lambda one: abs(one - held))
            start = self._tried[near][1]
            try:
                found = self.fit(start, self.rows, (*self.cell, held))
                gain = _log_likelihood_of(found, self.rows) - self.value
            except ImpossibleEvidence:
                return np.inf
            if (nearest_order(found, self.best) != np.arange(found.n_classes)).any():
                return np.inf
            if gain > BETTER:
                raise LearningError(
                    "A better maximum was found with one probability held: the estimate is not the best one.",
                    remedies="fit with more starts (n_init)",
                )
            self._tried[held] = (float(np.sqrt(max(-2 * gain, 0.0))), found)
        return self._tried[held][0]

    def limit(self, end: float, most: float) -> float:
        """Return where the root of the deviance reaches `most`, between estimate and end; the end if it never does.

        It is nearly a straight line: the rule of false position, with a step of halving after every second one.
        """
        near, near_root = self.estimate, 0.0
        if abs(end - near) <= ROUNDED or self.root(end) <= most:
            return end
        far, far_root = end, self.root(end)
        for step in range(STEPS):
            share = (most - near_root) / (far_root - near_root) if np.isfinite(far_root) and step % 3 < 2 else 0.5
            tried = near + (far - near) * float(np.clip(share, 0.02, 0.98))
            found = self.root(tried)
            if abs(found - most) < CLOSE:
                return tried
            near, near_root, far, far_root = (
                (tried, found, far, far_root) if found < most else (near, near_root, tried, found)
            )
            if abs(far - near) < NARROW:
                break
        if min(abs(near_root - most), abs(far_root - most)) > INEXACT:
            item, k, level = self.cell
            what = f"P({item} = {level} | class {k})" if item else f"the size of class {k}"
            raise LearningError(
                f"The likelihood jumps where {what} is held at {near:.4f}, between two of its maxima: the interval has "
                "no limit there.",
                remedies="leave this one out of which, or use fewer classes",
            )
        return near
