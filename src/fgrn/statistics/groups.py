"""Latent classes in several groups: tests of equal measurement (invariance) and of equal class sizes.

    P(y | g) = sum_k P(k | g) * product over the items j of P(y_j | k, g)

Item-response probabilities, and means and variances of continuous columns, are equal in all groups, or free in each of
them; so are class sizes. With spherical variances, which are one for all columns, the means alone are free. A model in
which they are equal is nested in one in which they are free, and twice the difference of the log-likelihoods has, if
they are equal, a chi-square distribution (Clogg and Goodman 1985). The group is learnt as one more item, and an item
that is free has a column for each group, missing in the rows of other groups; the likelihood is that given the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..core.exceptions import LearningError, counted, unknown_name
from ..core.printing import html_table, text_table
from ..learning.criteria import all_criteria
from ..tables import frames
from ..tables.frames import UNKNOWN
from ..tables.missing import is_missing_value
from ..tables.outputs import frame_of_records
from .alignment import nearest_order
from .bootstrap import likelihood
from .chi_square import chi_square_tail
from .continuous_items import ContinuousItems
from .latent_classes import LatentClasses, Patterns, distinct_rows
from .results import sentences_frame

FitFrom = Callable[[LatentClasses, Patterns, Mapping[str, float], int], LatentClasses]
"""Fits a model that starts from given estimates to rows: (start, rows, smoothing by column, random starts besides)."""

GROUP = "group"

MOST_TABLES = 2000
"""Groups times columns: the tables of the model in which all is free, some seconds of work."""


@dataclass(frozen=True)
class GroupModel:
    """One of the compared models: what is free in each group, and its fit.

    The log-likelihood is that of the answers given the groups.
    """

    name: str
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float
    caic: float
    sabic: float


@dataclass(frozen=True)
class GroupTest:
    """A likelihood-ratio test that some parameters are equal in all groups."""

    name: str
    ratio: float
    df: int
    p: float


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """Latent classes in groups: tests of equal measurement and of equal class sizes.

    Attributes:
        groups: their labels, as they were given.
        rows: (groups,) the weight of the rows of each.
        left_out: how many rows had no group.
        models: `GroupModel`, from the one in which groups do not differ to the one in which all differs.
        tests: `GroupTest`: "measurement" (all item-response probabilities equal, against all free), "item ..." (those
            of one item equal, against free for that item alone), "class sizes" (equal, against free; measurement is
            equal in both).
        sizes: (groups, classes) class sizes, with equal measurement; classes are numbered as in the model of all rows.
        equal: item-response probabilities with equal measurement.
        free: of each group, item-response probabilities where all are free.
        free_sizes: (groups, classes) class sizes where all is free.
    """

    groups: tuple[Any, ...]
    rows: np.ndarray
    left_out: int
    models: tuple[GroupModel, ...]
    tests: tuple[GroupTest, ...]
    sizes: np.ndarray
    equal: LatentClasses
    free: tuple[LatentClasses, ...]
    free_sizes: np.ndarray

    def test(self, name: str) -> GroupTest:
        """Return a test by its name, such as "measurement" or "class sizes", or the name of an item."""
        for one in self.tests:
            if one.name in (name, f"item {name}"):
                return one
        raise unknown_name("test", name, [one.name for one in self.tests])

    @property
    def frames(self) -> dict[str, Any]:
        """Return all results as pandas data frames, by name: "models", "tests", "sizes", "items", "notes"."""
        sizes = [
            {"group": group, "class": k, "size": float(self.sizes[g, k]), "size_if_free": float(self.free_sizes[g, k])}
            for g, group in enumerate(self.groups)
            for k in range(self.equal.n_classes)
        ]
        items = [
            {"item": name, "level": str(level), "class": k, "group": group,
             "equal": float(self.equal.tables[item][k, place]), "free": float(self.free[g].tables[item][k, place])}
            for item, name in enumerate(self.equal.names)
            for place, level in enumerate(self.equal.levels[item])
            for k in range(self.equal.n_classes)
            for g, group in enumerate(self.groups)
        ]  # fmt: skip
        items += self._number_records()
        return {
            "models": frame_of_records([asdict(one) for one in self.models]),
            "tests": frame_of_records([asdict(one) for one in self.tests]),
            "sizes": frame_of_records(sizes),
            "items": frame_of_records(items),
            "notes": sentences_frame(self.notes),
        }

    def _number_records(self) -> list[dict[str, Any]]:
        """Return means and variances of continuous columns, in the form of item-response probabilities."""
        if self.equal.numbers is None:
            return []
        return [
            {"item": name, "level": what, "class": k, "group": group,
             "equal": float(getattr(self.equal.continuous_items, part)[k, place]),
             "free": float(getattr(self.free[g].continuous_items, part)[k, place])}
            for place, name in enumerate(self.equal.numbers.names)
            for what, part in (("mean", "means"), ("variance", "variances"))
            for k in range(self.equal.n_classes)
            for g, group in enumerate(self.groups)
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """Return the tests as a pandas data frame."""
        return self.frames["tests"]

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        models = [
            [
                one.name,
                f"{one.log_likelihood:,.4f}",
                str(one.n_parameters),
                *(f"{value:,.2f}" for value in (one.aic, one.bic, one.caic, one.sabic)),
            ]
            for one in self.models
        ]
        tests = [[one.name, f"{one.ratio:.3f}", str(one.df), f"{one.p:.4f}"] for one in self.tests]
        heads = [f"class {k}" for k in range(self.equal.n_classes)]
        sizes = [
            [str(group), f"{self.rows[g]:,.0f}", *(f"{share:.3f}" for share in self.sizes[g])]
            for g, group in enumerate(self.groups)
        ]
        return [
            ("Models", ["free in each group", "log-likelihood", "parameters", "AIC", "BIC", "CAIC", "SABIC"], models),
            ("Tests that groups are equal", ["equal", "ratio", "df", "p"], tests),
            ("Class sizes, with equal measurement", ["group", "rows", *heads], sizes),
        ]

    @property
    def notes(self) -> list[str]:
        """Cautions about the results, in sentences."""
        found = [f"{counted(self.left_out, 'row')} without a group left out"] if self.left_out else []
        few = int((self.rows < self.models[-1].n_parameters / len(self.groups)).sum())
        if few:
            found.append(
                f"{counted(few, 'group')} with fewer rows than parameters of its own: the chi-square distribution is a "
                "poor approximation"
            )
        return found

    def __str__(self) -> str:
        head = f"Latent classes in {len(self.groups)} groups, {counted(self.equal.n_classes, 'class', 'classes')}"
        tables = [f"{title}\n{text_table(heads, rows, indent=2)}" for title, heads, rows in self._tables()]
        return "\n\n".join([head, *tables, *self.notes])

    def _repr_html_(self) -> str:
        notes = "".join(f"; {note}" for note in self.notes)
        return "".join(html_table(f"{title}{notes}", heads, rows) for title, heads, rows in self._tables())


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows of several groups.

    labels   of the groups
    number   (rows,): the group of each row
    rows     the rows that have a group, not merged
    left_out how many rows have none
    """

    labels: tuple[Any, ...]
    number: np.ndarray
    rows: Patterns
    left_out: int

    @classmethod
    def of(cls, rows: Patterns, groups: Any) -> GroupedRows:
        """Return the rows with a group for each; rows whose group is missing are left out."""
        values = frames.as_list(frames.as_column(groups, "groups"))
        if len(values) != len(rows.codes):
            raise LearningError(
                f"must have one value for each of the {len(rows.codes):,} rows. Got {len(values):,}.",
                setting="groups",
                value=len(values),
            )
        known = np.array([not is_missing_value(value) for value in values], dtype=bool)
        kept = known & (rows.weights > 0)
        present = [values[row] for row in np.flatnonzero(kept)]
        labels = _sorted({str(value): value for value in reversed(present)})
        place = {str(value): g for g, value in enumerate(labels)}
        number = np.array([place[str(value)] for value in present], dtype=np.intp)
        if len(labels) < 2:
            raise LearningError(
                f"must have at least two different values among the rows. Got {len(labels)}.",
                setting="groups",
                value=len(labels),
            )
        left_out = int(((rows.weights > 0) & ~known).sum())
        return cls(labels, number, rows.at(kept), left_out)

    @property
    def weights(self) -> np.ndarray:
        """(groups,): the weight of each group."""
        return np.bincount(self.number, self.rows.weights)

    def split(self, items: Sequence[int]) -> Patterns:
        """Return the rows with the group as first column, and each of some items split into one column per group.

        The numbers of continuous columns follow those of the items.
        """
        columns, count = [self.number.astype(np.int32)], len(self.labels)
        for item, codes in enumerate(self.rows.codes.T):
            if item in items:
                columns += [np.where(self.number == g, codes, UNKNOWN) for g in range(count)]
            else:
                columns.append(codes)
        table = np.stack(columns, axis=1).astype(np.int32)
        width, numbers = self.rows.codes.shape[1], []
        for place, values in enumerate(self.rows.numbers.T):
            if width + place in items:
                numbers += [np.where(self.number == g, values, np.nan) for g in range(count)]
            else:
                numbers.append(values)
        if numbers:
            return replace(self.rows, codes=table, numbers=np.stack(numbers, axis=1))
        distinct, number = distinct_rows(table)
        weights = np.bincount(number, self.rows.weights, minlength=len(distinct))
        return Patterns.of_codes(distinct, weights, weights, len(table))


def compare_groups(
    model: LatentClasses, rows: Patterns, groups: Any, fit: FitFrom, items: Sequence[str] | None, starts: int
) -> GroupComparison:
    """Fit latent classes with measurement equal in all groups, free for one item at a time, and free for all.

    Args:
        model: the classes of all rows, where the fits start.
        rows: not merged.
        groups: a value for each row.
        fit: how a model is fitted.
        items: those that are freed one at a time; all unless given.
        starts: of the models in which all is equal or all is free; the first is `model`.
    """
    given = GroupedRows.of(rows, groups)
    names = model.names if model.numbers is None else (*model.names, *model.numbers.names)
    for name in items or ():
        if name not in names:
            raise unknown_name("column", name, names)
    alone = [names.index(name) for name in (names if items is None else items)]
    if len(given.labels) * len(names) > MOST_TABLES:
        raise LearningError(
            f"has {len(given.labels):,} different values: with {len(names)} columns free in each of them there are "
            f"{len(given.labels) * len(names):,} tables, and {MOST_TABLES:,} are allowed.",
            setting="groups",
            value=len(given.labels),
            remedies=("join groups", "regress class sizes on it as a covariate: membership_regression"),
        )
    joint = _JointModels(model, given, fit)
    equal, equal_value = joint.fitted(joint.start(model), (), starts - 1)
    equal = equal.ordered(nearest_order(joint.without_group(equal, model), model))  # another start may have won
    shared = joint.without_group(equal, model)
    every = tuple(range(len(names)))
    free, free_value = joint.fitted(joint.start(shared, equal.tables[0], equal.prior, every), every, starts - 1)
    free_tables, free_sizes = joint.by_group(free, shared)
    same_value = joint.value_without_groups(shared, starts - 1)
    found = [
        joint.model("nothing", same_value, (), False),
        joint.model("class sizes", equal_value, (), True),
        joint.model("all", free_value, every, True),
    ]
    tests = [_tested("measurement", found[1], found[2]), _tested("class sizes", found[0], found[1])]
    for item in alone:
        start = joint.start(shared, equal.tables[0], equal.prior, (item,))
        value = joint.fitted(start, (item,), 0)[1]
        tests.append(_tested(f"item {names[item]}", found[1], joint.model("", value, (item,), True)))
    return GroupComparison(
        given.labels, given.weights, given.left_out, tuple(found), tuple(tests),
        _sizes_by_group(equal.prior, equal.tables[0]), shared, free_tables, free_sizes,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _JointModels:
    """Models of the groups and the items of rows."""

    base: LatentClasses
    given: GroupedRows
    fit: FitFrom

    def start(
        self,
        model: LatentClasses,
        of_group: np.ndarray | None = None,
        prior: np.ndarray | None = None,
        split: Sequence[int] = (),
    ) -> LatentClasses:
        """Return initial estimates: the group as first item, equal tables for all columns of a split item."""
        count = len(self.given.labels)
        shares = self.given.weights / self.given.weights.sum()
        names, tables = [GROUP], [np.tile(shares, (model.n_classes, 1)) if of_group is None else of_group]
        levels: list[tuple[Any, ...]] = [tuple(range(count))]
        for item, table in enumerate(model.tables):
            times = count if item in split else 1
            names += [f"item {item} {number}" for number in range(times)]
            tables += [table] * times
            levels += [tuple(range(len(model.levels[item])))] * times
        return replace(
            model,
            names=tuple(names),
            levels=tuple(levels),
            tables=tuple(tables),
            prior=model.prior if prior is None else prior,
            learns_prior=True,
            numbers=self._split_numbers(model, split),
        )

    def _split_numbers(self, model: LatentClasses, split: Sequence[int]) -> ContinuousItems | None:
        """Return the continuous columns, with equal means and variances for all columns of a split one."""
        if model.numbers is None:
            return None
        columns = self._columns(split)
        return model.numbers.at(columns, [f"number {place}" for place in range(len(columns))])

    def _columns(self, split: Sequence[int]) -> list[int]:
        """Return, for each column, the continuous column it was split from."""
        first, count = len(self.base.names), len(self.given.labels)
        places = range(self.given.rows.numbers.shape[1])
        return [place for place in places for _ in range(count if first + place in split else 1)]

    def without_group(self, found: LatentClasses, like: LatentClasses) -> LatentClasses:
        """Return the items of a model without split items, under their own names."""
        numbers = like.numbers
        if numbers is not None and found.numbers is not None:
            numbers = found.numbers.at(range(len(numbers.names)), numbers.names)
        return replace(like, tables=found.tables[1:], numbers=numbers)

    def fitted(self, start: LatentClasses, split: Sequence[int], random: int) -> tuple[LatentClasses, float]:
        """Return the model fitted to rows with some items split, and its log-likelihood given the groups."""
        rows = self.given.split(split)
        smoothing = dict.fromkeys(start.names[1:], self.base.smoothing)
        found = self.fit(start, rows, smoothing, random)
        weights = self.given.weights
        of_groups = float(weights @ np.log(weights / weights.sum()))
        return found, likelihood(found, rows) - of_groups

    def value_without_groups(self, model: LatentClasses, random: int) -> float:
        """Return the log-likelihood of the model of the items alone."""
        rows = self.given.split(())
        start = self.start(model)
        start = replace(start, names=start.names[1:], levels=start.levels[1:], tables=start.tables[1:])
        items = replace(rows, codes=rows.codes[:, 1:])
        found = self.fit(start, items, dict.fromkeys(start.names, self.base.smoothing), random)
        return likelihood(found, items)

    def by_group(self, found: LatentClasses, like: LatentClasses) -> tuple[tuple[LatentClasses, ...], np.ndarray]:
        """Return item-response probabilities and class sizes by group, from a model whose items are all split.

        If all is free, the classes of different groups are matched by their profiles.
        """
        count = len(self.given.labels)
        sizes = _sizes_by_group(found.prior, found.tables[0])
        out, ordered = [], []
        for g in range(count):
            own = replace(like, tables=tuple(found.tables[1 + g :: count]), prior=sizes[g])
            if like.numbers is not None and found.numbers is not None:
                columns = range(g, len(found.numbers.names), count)
                own = replace(own, numbers=found.numbers.at(columns, like.numbers.names))
            own = own.ordered(nearest_order(own, like))
            out.append(own)
            ordered.append(own.prior)
        return tuple(out), np.array(ordered)

    def model(self, name: str, value: float, split: Sequence[int], free_sizes: bool) -> GroupModel:
        """Return a model with its criteria."""
        count, classes = len(self.given.labels), self.base.n_classes
        tables = sum(
            classes * (size - 1) * (count if item in split else 1) for item, size in enumerate(self.base.sizes)
        )
        numbers = self._split_numbers(self.base, split)
        tables += 0 if numbers is None else numbers.leaves.free_parameters
        parameters = tables + (classes - 1) * (count if free_sizes else 1)
        weight = float(self.given.weights.sum())
        return GroupModel(name, value, parameters, *all_criteria(value, parameters, weight).values())


def _sorted(value_of: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return distinct values, given by their texts, sorted; sorted as texts if they have no order."""
    try:
        return tuple(sorted(value_of.values()))
    except TypeError:
        return tuple(value_of[text] for text in sorted(value_of))


def _sizes_by_group(prior: np.ndarray, of_group: np.ndarray) -> np.ndarray:
    """Return P(class | group), (groups, classes), from P(class) and P(group | class)."""
    joint = (prior[:, None] * of_group).T
    found: np.ndarray = joint / joint.sum(axis=1, keepdims=True)
    return found


def _tested(name: str, fewer: GroupModel, more: GroupModel) -> GroupTest:
    ratio = max(0.0, 2 * (more.log_likelihood - fewer.log_likelihood))
    df = more.n_parameters - fewer.n_parameters
    return GroupTest(name, ratio, df, chi_square_tail(ratio, df) if df else 1.0)
