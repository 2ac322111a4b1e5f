"""Standard errors of a latent class model with continuous columns (latent profile analysis), exactly, from every row.

Parameters are the logits of class sizes and item-response probabilities, means m and logarithms of variances v. With
p_ik the membership of row i in class k and s_ik the gradient of log P(row i, k), the information is

    I = - sum_i w_i [ sum_k p_ik (H_ik + s_ik s_ik') - s_i s_i' ],   s_i = sum_k p_ik s_ik          (Louis 1982)

where for an observed number x with z = (x - m) / sqrt(v)

    s: z / sqrt(v) by m and (z^2 - 1) / 2 by log v;   -H: 1 / v, z / sqrt(v) and z^2 / 2

No derivative is approximated. Variances that are shared are one parameter. Probabilities near 0, variances at their
limit and classes without rows are held fixed. Intervals are symmetric in logits, means and logarithms of variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..core.labels import Label
from ..core.printing import html_table, text_table
from ..flow.gaussian_leaves import GaussianLeaves, Moments
from ..tables.frames import UNKNOWN
from ..tables.outputs import frame_of_records
from .fisher_information import LEAST_EXPECTED, Inverse
from .latent_classes import CELLS_AT_ONCE, LatentClasses

UNDETERMINED = 1e-6
"""How far an estimate may move along a direction that the rows do not determine, to be determined itself."""


@dataclass(frozen=True, eq=False)
class ProfileRows:
    """Rows of levels and numbers.

    codes     (rows, items): the level of each item, UNKNOWN where it is missing
    numbers   (rows, columns): NaN where one is missing
    weights   (rows,)
    """

    codes: np.ndarray
    numbers: np.ndarray
    weights: np.ndarray

    def blocks(self, width: int) -> Iterator[ProfileRows]:
        """The rows in blocks such that `width` numbers for each row are few."""
        step = max(1, CELLS_AT_ONCE // max(width, 1))
        for first in range(0, len(self.weights), step):
            part = slice(first, first + step)
            yield ProfileRows(self.codes[part], self.numbers[part], self.weights[part])


@dataclass(frozen=True, eq=False)
class LatentProfiles:
    """The estimates of a latent class model with continuous columns.

    items       class sizes, and the tables of the other columns, of which there may be none
    columns     the names of the continuous columns
    moments     their means and variances, each (classes, columns)
    covariance  which variances are equal: see `GaussianLeaves`
    at_limit    (classes, columns): which variances are at their limit
    """

    items: LatentClasses
    columns: tuple[str, ...]
    moments: Moments
    covariance: str
    at_limit: np.ndarray

    @classmethod
    def of(cls, items: LatentClasses, moments: Moments, leaves: GaussianLeaves | None) -> LatentProfiles:
        """From the parts of a network."""
        if leaves is None:
            raise LearningError("The model has no continuous columns.")
        return cls(items, leaves.columns, moments, leaves.covariance, leaves.at_limit(moments))

    def posterior(self, rows: ProfileRows) -> tuple[np.ndarray, np.ndarray]:
        """The class memberships of each row, (rows, K), and its log-likelihood, (rows,)."""
        shares, levels = self.items.posterior(rows.codes)
        with np.errstate(divide="ignore"):
            joint = np.log(shares) + levels[:, None]
        for k, (means, variances) in enumerate(zip(*self.moments, strict=True)):
            dense = -0.5 * ((rows.numbers - means) ** 2 / variances + np.log(2 * np.pi * variances))
            joint[:, k] += np.where(np.isnan(dense), 0.0, dense).sum(axis=1)
        most = joint.max(axis=1)
        shares = np.exp(joint - most[:, None])
        total = shares.sum(axis=1)
        return shares / total[:, None], most + np.log(total)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the parameters stand in one vector: logits of the prior, of each item by class, means, log-variances."""

    classes: int
    sizes: tuple[int, ...]
    columns: int

    @property
    def count(self) -> int:
        return self.classes * (1 + sum(self.sizes) + 2 * self.columns)

    def item(self, number: int) -> np.ndarray:
        """(classes, levels)."""
        first = self.classes * (1 + sum(self.sizes[:number]))
        return first + np.arange(self.classes * self.sizes[number]).reshape(self.classes, -1)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and log-variances, each (classes, columns)."""
        first = self.classes * (1 + sum(self.sizes))
        found = first + np.arange(2 * self.classes * self.columns).reshape(2, self.classes, -1)
        return found[0], found[1]

    def of_class(self, k: int) -> np.ndarray:
        """The prior, and the parameters of one class."""
        items = [self.item(number)[k] for number in range(len(self.sizes))]
        return np.concatenate([np.arange(self.classes), *items, *(part[k] for part in self.numbers())])


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over rows: squared scores, E[s s'] within rows, and minus the second derivatives of the complete data."""

    outer: np.ndarray
    within: np.ndarray
    complete: np.ndarray
    expected: np.ndarray

    @property
    def information(self) -> np.ndarray:
        found: np.ndarray = self.complete - self.within + self.outer
        return found


def _sums(model: LatentProfiles, rows: ProfileRows, places: _Places) -> _Sums:
    """The sums of one table; `expected` has the expected rows of each parameter."""
    count, prior = places.count, model.items.prior
    outer, within, complete = (np.zeros((count, count)) for _ in range(3))
    expected = np.zeros(count)
    for block in rows.blocks(count):
        posterior, _ = model.posterior(block)
        scores = np.zeros((len(block.weights), count))
        for k in range(places.classes):
            mine, share = places.of_class(k), posterior[:, k] * block.weights
            gradient, met = _gradient(model, block, k)
            scores[:, mine] += posterior[:, [k]] * gradient
            within[np.ix_(mine, mine)] += gradient.T @ (gradient * share[:, None])
            expected[mine[places.classes :]] += share @ met
            expected[k] += share.sum()
            _add_curvature(complete, places, model, block, k, share)
        outer += scores.T @ (scores * block.weights[:, None])
    for lines, table in zip(map(places.item, range(len(places.sizes))), model.items.tables, strict=True):
        for line, row in zip(lines, table, strict=True):
            weight = expected[line].sum() + model.items.smoothing * len(line)
            complete[np.ix_(line, line)] += weight * (np.diag(row) - np.outer(row, row))
    total = expected[: places.classes].sum()
    complete[: places.classes, : places.classes] += total * (np.diag(prior) - np.outer(prior, prior))
    return _Sums(outer, within, complete, expected)


def _gradient(model: LatentProfiles, rows: ProfileRows, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of log P(row, k) by the prior's logits and class k's parameters; and which cells each row meets."""
    count = len(rows.weights)
    parts = [np.tile((np.arange(model.items.n_classes) == k) - model.items.prior, (count, 1))]
    met = []
    for number, table in enumerate(model.items.tables):
        codes = rows.codes[:, number]
        level = (codes[:, None] == np.arange(table.shape[1])).astype(np.float64)
        parts.append(level - (codes != UNKNOWN)[:, None] * table[k])
        met.append(level)
    away, variances = rows.numbers - model.moments.means[k], model.moments.variances[k]
    known = ~np.isnan(away)
    away = np.where(known, away, 0.0)
    parts += [away / variances, 0.5 * (away**2 / variances - known)]
    return np.concatenate(parts, axis=1), np.concatenate([*met, known, known], axis=1)


def _add_curvature(
    complete: np.ndarray, places: _Places, model: LatentProfiles, rows: ProfileRows, k: int, share: np.ndarray
) -> None:
    """Add minus the second derivatives by means and log-variances of class k."""
    away, variances = rows.numbers - model.moments.means[k], model.moments.variances[k]
    known = ~np.isnan(away)
    away = np.where(known, away, 0.0)
    means, logs = (part[k] for part in places.numbers())
    complete[means, means] += share @ known / variances
    crossed = share @ away / variances
    complete[means, logs] += crossed
    complete[logs, means] += crossed
    complete[logs, logs] += 0.5 * (share @ away**2) / variances


def _free_directions(model: LatentProfiles, sums: _Sums, places: _Places) -> tuple[np.ndarray, np.ndarray]:
    """(parameters, free): what each free parameter moves; and which parameters are on the boundary."""
    expected, classes = sums.expected, places.classes
    empty = expected[:classes] < LEAST_EXPECTED
    boundary = np.zeros(places.count, dtype=bool)
    boundary[:classes] = empty
    columns: list[np.ndarray] = []

    def add(*moved: int) -> None:
        column = np.zeros(places.count)
        column[list(moved)] = 1.0
        columns.append(column)

    lines = [(np.arange(classes), model.items.prior, model.items.learns_prior)]
    for number, table in enumerate(model.items.tables):
        cells = places.item(number)
        boundary[cells] = (expected[cells] < LEAST_EXPECTED) | empty[:, None]
        lines += [(line, row, True) for line, row in zip(cells, table, strict=True)]
    for line, row, is_learnt in lines:
        moving = line[~boundary[line]]
        if is_learnt and len(moving) > 1:
            reference = moving[np.argmax(row[~boundary[line]])]
            for cell in moving[moving != reference]:
                add(int(cell))
    means, logs = places.numbers()
    boundary[logs] = model.at_limit | empty[:, None]
    boundary[means] = (expected[means] < LEAST_EXPECTED) | empty[:, None]
    for cell in means[~boundary[means]]:
        add(int(cell))
    groups = {"diagonal": logs.reshape(-1, 1), "spherical": logs, "tied": logs.T}[model.covariance]
    for group in groups:
        moving = group[~boundary[group]]
        if len(moving):
            add(*moving.tolist())
    return (np.stack(columns, axis=1) if columns else np.zeros((places.count, 0))), boundary


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error and confidence interval.

    what       "size", "probability", "mean" or "variance"; `column` and `level` say of what
    error      0 for an estimate on the boundary, infinite for one that the rows do not determine
    boundary   whether it is held fixed: a probability near 0, a variance at its limit, a class without rows
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

    def as_dict(self) -> dict[str, Any]:
        """The estimate by the names of a data frame."""
        return {
            "item": self.column or "class size", "class": self.number, "what": self.what,
            "level": "" if self.level is None else str(self.level), "estimate": self.value,
            "standard_error": self.error, "low": self.low, "high": self.high, "boundary": self.boundary,
            "identified": self.identified,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """The estimate with its standard error, or a mark: b on the boundary, ? if it is not determined."""
        mark = "b" if self.boundary else "?" if not self.identified else f"{self.error:.3g}"
        shown = f"{self.value:.3f}" if self.what in ("size", "probability") else f"{self.value:.4g}"
        return f"{shown} ({mark})"


@dataclass(frozen=True, eq=False)
class ProfileErrors:
    """Standard errors and confidence intervals of class sizes, probabilities, means and variances.

    Attributes:
        kind: "observed", "robust" or "outer".
        level: of the confidence intervals.
        estimates: all of them, as `Estimate`.
        n_free: parameters that are not on the boundary, and `rank`: how many of them the rows determine.
        concave: whether the estimate is a maximum in every direction.
    """

    kind: str
    level: float
    estimates: tuple[Estimate, ...]
    n_free: int
    rank: int
    concave: bool

    def of(self, what: str, column: str = "") -> list[Estimate]:
        """The estimates of one kind, "size", "probability", "mean" or "variance", of all columns or of one."""
        return [one for one in self.estimates if one.what == what and column in ("", one.column)]

    def as_dicts(self) -> list[dict[str, Any]]:
        """One mapping for each estimate."""
        return [one.as_dict() for one in self.estimates]

    def to_frame(self) -> Any:
        """All estimates as a pandas data frame."""
        return frame_of_records(self.as_dicts())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["item", "what", "level", "class", "estimate (s.e.)", "low", "high"]
        rows = [
            [
                str(cells["item"]),
                one.what,
                cells["level"],
                str(one.number),
                one.text,
                f"{one.low:.4g}",
                f"{one.high:.4g}",
            ]
            for one, cells in zip(self.estimates, self.as_dicts(), strict=True)
        ]
        return heads, rows

    def __str__(self) -> str:
        return text_table(*self._rows(), left=3)

    def _repr_html_(self) -> str:
        return html_table(f"Standard errors ({self.kind})", *self._rows())


def profile_errors(
    model: LatentProfiles, rows: ProfileRows, kind: str = "observed", level: float = 0.95
) -> ProfileErrors:
    """The standard errors of a model on the rows that it was learnt from."""
    settings.choice("kind", kind, ("observed", "robust", "outer"), LearningError)
    if not isinstance(level, float) or not 0 < level < 1:
        raise LearningError("is between 0 and 1.", setting="level", value=level)
    places = _Places(model.items.n_classes, model.items.sizes, len(model.columns))
    sums = _sums(model, rows, places)
    moved, boundary = _free_directions(model, sums, places)
    bread = Inverse.of(moved.T @ (sums.outer if kind == "outer" else sums.information) @ moved)
    matrix = bread.matrix
    if kind == "robust":
        matrix = matrix @ (moved.T @ sums.outer @ moved) @ matrix
    found = _Described(model, places, moved @ matrix @ moved.T, moved @ bread.undetermined, boundary, level)
    return ProfileErrors(kind, level, tuple(found.estimates()), moved.shape[1], bread.rank, bread.concave)


@dataclass(frozen=True, eq=False)
class _Described:
    """Estimates with their standard errors, from the covariance matrix of all parameters."""

    model: LatentProfiles
    places: _Places
    covariance: np.ndarray
    undetermined: np.ndarray
    boundary: np.ndarray
    level: float

    def estimates(self) -> Iterator[Estimate]:
        """All estimates, in the order of the parameters."""
        items = self.model.items
        yield from self._line("size", "", 0, np.arange(self.places.classes), items.prior, items.learns_prior)
        for number, name in enumerate(items.names):
            for k, line in enumerate(self.places.item(number)):
                yield from self._line("probability", name, k, line, items.tables[number][k])
        means, logs = self.places.numbers()
        for place, column in enumerate(self.model.columns):
            for k in range(self.places.classes):
                cell = means[k, place]
                yield self._number("mean", column, k, cell, self.model.moments.means[k, place])
            for k in range(self.places.classes):
                yield self._number("variance", column, k, logs[k, place], self.model.moments.variances[k, place])

    @property
    def _wide(self) -> float:
        from scipy.special import ndtri

        return float(ndtri((1 + self.level) / 2))

    def _line(
        self, what: str, column: str, k: int, line: np.ndarray, row: np.ndarray, is_learnt: bool = True
    ) -> Iterator[Estimate]:
        """The probabilities of one distribution: the delta method from logits, and intervals on that scale."""
        from scipy.special import expit, logit

        jacobian = np.diag(row) - np.outer(row, row)
        errors = np.sqrt(np.maximum(np.diag(jacobian @ self.covariance[np.ix_(line, line)] @ jacobian), 0.0))
        lost = np.abs(jacobian @ self.undetermined[line]).max(axis=1, initial=0.0) > UNDETERMINED
        levels = self.model.items.levels[self.model.items.names.index(column)] if column else (None,) * len(line)
        for place, (level, value) in enumerate(zip(levels, row.tolist(), strict=True)):
            bound = bool(self.boundary[line[place]]) and is_learnt
            error = 0.0 if bound or not is_learnt else np.inf if lost[place] else float(errors[place])
            low, high = (0.0, 1.0) if bound or lost[place] else (value, value)
            if error and np.isfinite(error) and 0 < value < 1:
                half = self._wide * error / (value * (1 - value))
                low, high = float(expit(logit(value) - half)), float(expit(logit(value) + half))
            number = place if what == "size" else k
            yield Estimate(what, column, level, number, value, error, low, high, bound, not lost[place])

    def _number(self, what: str, column: str, k: int, cell: int, value: float) -> Estimate:
        lost = bool(np.abs(self.undetermined[cell]).max(initial=0.0) > UNDETERMINED)
        bound = bool(self.boundary[cell])
        error = float(np.sqrt(max(self.covariance[cell, cell], 0.0)))
        if what == "mean":
            low, high = value - self._wide * error, value + self._wide * error
        else:
            low, high = value * np.exp(-self._wide * error), value * np.exp(self._wide * error)
            error *= value
        error = 0.0 if bound else np.inf if lost else error
        return Estimate(what, column, None, k, float(value), error, float(low), float(high), bound, not lost)
