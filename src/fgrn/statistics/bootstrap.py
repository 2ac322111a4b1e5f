"""Bootstrap of latent class models: refits to resampled tables, and the likelihood-ratio test of one class more.

    parametric       rows are drawn from the model; values are missing where they were in the table
    non-parametric   rows are drawn from the table with replacement (Efron 1979)

Drawn rows are merged to patterns with weights before they are fitted; with continuous columns they are not. Classes of
every replicate are put in the order of the estimate before anything is computed of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..core.printing import html_table, text_table
from ..queries.sampling import draw_states
from ..tables.frames import UNKNOWN
from ..tables.outputs import frame_of_records
from .alignment import in_order_of
from .fit import GoodnessOfFit, goodness_of_fit
from .intervals import check_level
from .latent_classes import LatentClasses, Patterns, distinct_rows
from .latent_profiles import MomentErrors, ProfileErrors
from .results import Result
from .standard_errors import StandardErrors

Refit = Callable[[Patterns, int, int], LatentClasses]
"""Fits a model to rows: (rows, number of classes, seed) -> estimates."""

BOOTSTRAPS = ("parametric", "non-parametric")

SIGNIFICANT = 0.05
"""The p-value below which k + 1 classes are better than k in the sequential procedure."""

SAME_MAXIMUM = 1e-6
"""Relative difference up to which two log-likelihoods count as the same maximum."""


def drawn_from_model(model: LatentClasses, rows: Patterns, generator: np.random.Generator) -> Patterns:
    """Return as many rows as given, drawn from a model, with the same pattern of missing values."""
    which = _drawn_rows(rows, generator)
    count = len(which)
    classes = draw_states(model.prior[None], np.zeros(count, dtype=np.intp), generator)
    codes = np.empty((count, len(model.names)), dtype=rows.codes.dtype)
    for item, table in enumerate(model.tables):
        codes[:, item] = draw_states(table, classes, generator)
    codes[rows.codes[which] == UNKNOWN] = UNKNOWN
    if model.numbers is not None:
        numbers = model.numbers.drawn(classes, generator)
        numbers[np.isnan(rows.numbers[which])] = np.nan
        return Patterns(codes, np.ones(count), np.ones(count), count, numbers)
    distinct, number = distinct_rows(codes)
    weights = np.bincount(number, minlength=len(distinct)).astype(np.float64)
    return Patterns.of_codes(distinct, weights, weights, count)


def drawn_from_rows(rows: Patterns, generator: np.random.Generator) -> Patterns:
    """Return as many rows as given, drawn from them with replacement."""
    count = _count(rows)
    weights = generator.multinomial(count, rows.weights / rows.weight).astype(np.float64)
    kept = np.flatnonzero(weights)
    return Patterns(rows.codes[kept], weights[kept], weights[kept], count, rows.numbers[kept])


def _count(rows: Patterns) -> int:
    return max(1, round(rows.weight))


def _drawn_rows(rows: Patterns, generator: np.random.Generator) -> np.ndarray:
    """Return the pattern of each row whose missing values are copied: each row itself if weights are integers."""
    whole = np.round(rows.weights)
    if np.array_equal(whole, rows.weights):
        return np.repeat(np.arange(len(whole)), whole.astype(np.intp))
    return generator.choice(len(whole), _count(rows), p=rows.weights / rows.weight)


@dataclass(frozen=True, eq=False)
class Bootstrap(Result):
    """Estimates from resampled tables, with classes in the order of the original estimate.

    Attributes:
        kind: "parametric" or "non-parametric".
        level: of the intervals.
        estimates: (C,) the estimate itself, in the order of `StandardErrors.estimates`; with continuous columns their
            means, then their variances, class by class, follow.
        replicates: (replicates, C) the estimates from drawn rows.
        errors: (C,) the standard deviation of the replicates.
        low: (C,) lower limits of percentile intervals, and `high` the upper ones.
    """

    kind: str
    level: float
    model: LatentClasses
    replicates: np.ndarray

    @property
    def estimates(self) -> np.ndarray:
        """The original estimates: class sizes, item-response probabilities class by class, means, variances."""
        return self.model.values

    @cached_property
    def errors(self) -> np.ndarray:
        """The standard deviation of the replicates."""
        found: np.ndarray = self.replicates.std(axis=0, ddof=1)
        return found

    @cached_property
    def low(self) -> np.ndarray:
        """The lower limits of percentile intervals."""
        found: np.ndarray = np.quantile(self.replicates, (1 - self.level) / 2, axis=0)
        return found

    @cached_property
    def high(self) -> np.ndarray:
        """The upper limits of percentile intervals."""
        found: np.ndarray = np.quantile(self.replicates, (1 + self.level) / 2, axis=0)
        return found

    @property
    def _as_errors(self) -> StandardErrors | ProfileErrors:
        """Return the bootstrap errors and limits in the form of `StandardErrors`."""
        plain, width = np.zeros(len(self.estimates), dtype=bool), self.model.prior.size + self.model.cells.size
        first, rest = slice(width), slice(width, None)
        found = StandardErrors(
            f"{self.kind} bootstrap", self.level, self.model, self.estimates[first], self.errors[first],
            self.low[first], self.high[first], plain[first], ~plain[first], 0, 0, True, np.zeros((0, 0)),
        )  # fmt: skip
        if self.model.numbers is None:
            return found
        moments = MomentErrors(self.errors[rest], self.low[rest], self.high[rest], plain[rest], ~plain[rest])
        return ProfileErrors(found, moments)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per estimate: standard error and interval."""
        return [
            {key: value for key, value in one.items() if key not in ("boundary", "identified")}
            for one in self._as_errors.as_dicts()
        ]

    @property
    def notes(self) -> list[str]:
        """The method of the computation, in sentences."""
        return [f"{self.kind} bootstrap, {len(self.replicates):,} replicates; {self.level:.0%} percentile intervals"]

    def __str__(self) -> str:
        return "\n".join([text_table(*self._rows(), left=2), *self.notes])

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        errors = self._as_errors
        heads, rows = errors._rows()
        if isinstance(errors, ProfileErrors):
            return heads, rows
        return heads[:-1], [row[:-1] for row in rows]  # no boundary

    def _repr_html_(self) -> str:
        return html_table("; ".join(self.notes), *self._rows())


def bootstrap(
    model: LatentClasses,
    rows: Patterns,
    refit: Refit,
    replicates: int,
    kind: str = "non-parametric",
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Fit a model to a number of resampled tables."""
    settings.choice("kind", kind, BOOTSTRAPS, LearningError)
    settings.whole("n_bootstrap", replicates, 2, LearningError)
    check_level(level)
    generator = np.random.default_rng(seed)
    found = np.empty((replicates, len(model.values)))
    for number in range(replicates):
        parametric = kind == "parametric"
        drawn = drawn_from_model(model, rows, generator) if parametric else drawn_from_rows(rows, generator)
        found[number] = in_order_of(refit(drawn, model.n_classes, _seed(generator)), model).values
    return Bootstrap(kind, float(level), model, found)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31 - 1))


def bootstrap_fit(
    model: LatentClasses, rows: Patterns, refit: Refit, parameters: int, replicates: int, seed: int = 0
) -> GoodnessOfFit:
    """Return the fit of a model with p-values from tables drawn from it, to which it is refitted.

    They do not need many rows in each cell (Langeheine, Pannekoek and van de Pol 1996).
    """
    settings.whole("n_bootstrap", replicates, 1, LearningError)
    generator = np.random.default_rng(seed)
    found = goodness_of_fit(model, rows, parameters)
    larger = np.zeros(len(found.statistics))
    for _ in range(replicates):
        drawn = drawn_from_model(model, rows, generator)
        other = goodness_of_fit(refit(drawn, model.n_classes, _seed(generator)), drawn, parameters)
        larger += [a.value >= b.value for a, b in zip(other.statistics, found.statistics, strict=True)]
    p = ((1 + larger) / (1 + replicates)).tolist()
    tested = tuple(replace(one, drawn=chance) for one, chance in zip(found.statistics, p, strict=True))
    return replace(found, statistics=tested, replicates=replicates)


@dataclass(frozen=True)
class LikelihoodRatio:
    """The test of k against k + 1 classes: twice the difference of log-likelihoods, and its bootstrap p-value.

    p is (1 + replicates with at least this ratio) / (1 + replicates) (Davison and Hinkley 1997).
    """

    classes: int
    more: int
    log_likelihood: float
    log_likelihood_more: float
    ratio: float
    mean_ratio: float
    """Of the replicates, in which k classes are right."""
    p: float


@dataclass(frozen=True)
class BootstrapTest(Result):
    """Bootstrap likelihood-ratio tests of k against k + 1 classes (McLachlan 1987), smallest k first.

    Attributes:
        tests: a `LikelihoodRatio` for each k.
        replicates: tables that were drawn for each.
        ratios: for each test the ratios of the replicates.
        frames: everything as pandas data frames, by name: "tests", "ratios", "notes".
    """

    _table_name = "tests"

    tests: tuple[LikelihoodRatio, ...]
    replicates: int
    ratios: tuple[tuple[float, ...], ...]

    @property
    def p(self) -> float:
        """The p-value of the last test."""
        return self.tests[-1].p

    @property
    def ratio(self) -> float:
        """The likelihood ratio of the last test."""
        return self.tests[-1].ratio

    @property
    def _has_enough(self) -> bool:
        """Whether there are so many replicates that a p-value can be significant."""
        return 1 / (1 + self.replicates) < SIGNIFICANT

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why the tests may be unreliable, in sentences."""
        found = [below_fewer(one.classes, one.log_likelihood, one.log_likelihood_more) for one in self.tests]
        if not self._has_enough:
            found.append(
                f"with {self.replicates:,} replicates no p-value can be below {SIGNIFICANT:g}, so that no number of "
                f"classes is chosen: draw at least {round(1 / SIGNIFICANT)}, better 100 or more"
            )
        return tuple(filter(None, found))

    @property
    def chosen(self) -> int | None:
        """The number of classes: the first that is not significantly worse than one more; else the largest tried.

        None if there are so few replicates that no p-value can be significant.
        """
        if not self._has_enough:
            return None
        return next((one.classes for one in self.tests if one.p >= SIGNIFICANT), self.tests[-1].more)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per test."""
        return [asdict(one) for one in self.tests]

    def _other_frames(self) -> dict[str, Any]:
        records = [
            {"classes": one.classes, "replicate": number, "ratio": ratio}
            for one, ratios in zip(self.tests, self.ratios, strict=True)
            for number, ratio in enumerate(ratios)
        ]
        return {"ratios": frame_of_records(records)}

    @property
    def notes(self) -> list[str]:
        """The number of resampled tables, the number of classes chosen, and warnings, in sentences."""
        told = f"bootstrap likelihood-ratio test, {self.replicates:,} replicates"
        return [f"{told}; chosen: {self.chosen}" if self._has_enough else told, *self.warnings]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["classes", "log-likelihood", "one more", "ratio", "mean of replicates", "p"]
        rows = [
            [
                f"{one.classes} against {one.more}", f"{one.log_likelihood:,.2f}", f"{one.log_likelihood_more:,.2f}",
                f"{one.ratio:.2f}", f"{one.mean_ratio:.2f}", f"{one.p:.4f}",
            ]
            for one in self.tests
        ]  # fmt: skip
        return heads, rows

    def __str__(self) -> str:
        told = self.notes[0] + "".join(f"\nwarning: {one}" for one in self.warnings)
        return f"{text_table(*self._rows())}\n{told}"

    def _repr_html_(self) -> str:
        return html_table("; ".join(self.notes), *self._rows())


def likelihood(model: LatentClasses, rows: Patterns) -> float:
    """Return the log-likelihood of some rows."""
    return float(rows.weights @ model.posterior(rows)[1])


def one_class_more(rows: Patterns, refit: Refit, size: int, seed: int) -> tuple[LatentClasses, LatentClasses]:
    """Return the two fitted models of a likelihood-ratio test, the same in all tests: with k classes, and one more.

    The model that is tested starts from its own estimates, so that its maximum is never below the one at hand.
    """
    return refit(rows, size, seed), refit(rows, size + 1, seed)


def below_fewer(size: int, low: float, high: float) -> str:
    """Return a warning if the fit with one class more is less likely, and so has not reached its maximum; else ""."""
    if high >= low - SAME_MAXIMUM * abs(low):
        return ""
    return (
        f"the log-likelihood with {size + 1} classes ({high:,.2f}) is below that with {size} ({low:,.2f}), so that "
        "the fit has not reached its maximum: use more random starts (n_init)"
    )


def bootstrap_test(rows: Patterns, refit: Refit, sizes: Sequence[int], replicates: int, seed: int = 0) -> BootstrapTest:
    """Test each number of classes against one more, until the difference is not significant.

    The null model is fitted to the rows, tables are drawn from it, and both models are fitted to each of them.
    """
    settings.whole("n_bootstrap", replicates, 1, LearningError)
    if not sizes:
        raise LearningError("must contain at least one number of classes.", setting="sizes", value=sizes)
    for size in sizes:
        settings.whole("sizes", size, 1, LearningError)
    generator = np.random.default_rng(seed)
    tests, ratios = [], []
    for size in sizes:
        fewer, more = one_class_more(rows, refit, size, seed)
        low, high = likelihood(fewer, rows), likelihood(more, rows)
        found = []
        for _ in range(replicates):
            drawn = drawn_from_model(fewer, rows, generator)
            both = [likelihood(refit(drawn, number, _seed(generator)), drawn) for number in (size, size + 1)]
            found.append(max(0.0, 2 * (both[1] - both[0])))
        ratio = max(0.0, 2 * (high - low))
        p = (1 + sum(one >= ratio for one in found)) / (1 + replicates)
        tests.append(LikelihoodRatio(size, size + 1, low, high, ratio, float(np.mean(found)), p))
        ratios.append(tuple(found))
        if p >= SIGNIFICANT:
            break
    return BootstrapTest(tuple(tests), replicates, tuple(ratios))
