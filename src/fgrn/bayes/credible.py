"""Credible intervals of the answers of a Bayesian network, from the counts its tables were learnt from.

Each row of a table that was learnt has a Dirichlet distribution, whose parameters are its counts with their smoothing;
rows are independent (Spiegelhalter and Lauritzen, 1990). How far a posterior probability varies with them is found by
the delta method (Van Allen, Singh, Greiner and Hooper, 2008) or by drawing tables. Where values were missing the counts
are expected ones, as if they had been seen: intervals are then too narrow. A table that was given is taken as certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, LearningError, Remedy
from ..core.settings import Name
from ..flow.evidence import encode
from ..flow.marginals import refuse_impossible
from ..flow.mstep import Smoothing
from ..tables import frames
from .elimination import PrunedModel, hard_and_soft
from .table_numbers import TableNumbers

if TYPE_CHECKING:
    from ..flow.parameters import Specification
    from ..tables.encoded import Evidence
    from .bayesian import BayesianNetwork

INTERVAL_METHODS = ("delta", "draws")


class CredibleInterval(NamedTuple):
    """Posterior probabilities with credible intervals.

    Attributes:
        probabilities: (rows, states) as `posterior` returns them, from the tables as they are.
        lower: (rows, states) the lower ends.
        upper: (rows, states) the upper ends.
        standard_errors: (rows, states) how far the probabilities vary with the tables.
        level: the probability of each interval.
        method: how they were found, "delta" or "draws".
    """

    probabilities: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    standard_errors: np.ndarray
    level: float
    method: str


class UncertainQueries:
    """Queries about the uncertainty of the tables and answers of a Bayesian network."""

    _row_counts: np.ndarray | None = None  # the total count of each row of the tables; infinite where it was given

    def dirichlet_counts(self, name: Name) -> np.ndarray:
        """Return the counts that a table was learnt from, with smoothing, (rows, states): Dirichlet parameters.

        A row without any has a count of 1 for each state, shared out as its probabilities are. Infinite for a table
        that was given and not learnt.
        """
        network: BayesianNetwork = self  # type: ignore[assignment]  # it is a part of that class
        child = network.variable(name).name
        totals = self._totals()[network._spec.layout.table_number(child)]
        table = network.table(child)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(totals)[:, None], np.inf, totals[:, None] * table)

    def credible_interval(
        self,
        data: frames.Data,
        name: Name,
        *,
        level: float = 0.95,
        method: str = "delta",
        draws: int = 1_000,
        seed: int = 0,
    ) -> CredibleInterval:
        """Return the posterior of a variable in each row, with a credible interval for each probability.

        The tables must have been learnt (`learn`, `from_data`, `fgrn.search`): their counts tell how sure they are.

        Args:
            data: the evidence, see `propagate`.
            name: the variable.
            level: the probability of each interval.
            method: "delta", from the derivatives of the probability, on the scale of log-odds; or "draws", quantiles of
                the answers of tables that are drawn, which is slower and better where counts are few.
            draws: how many tables are drawn.
            seed: of the draws.
        """
        network: BayesianNetwork = self  # type: ignore[assignment]
        settings.choice("method", method, INTERVAL_METHODS)
        settings.whole("draws", draws, 2)
        settings.whole("seed", seed, 0)
        settings.number("level", level)
        if not 0 < level < 1:
            raise FgrnError(f"'level' is the probability of the interval, between 0 and 1. Got {level!r}.")
        target = network.variable(name).name
        totals = self._totals()
        network._checked(data)
        evidence = encode(network, data)
        shape = (evidence.rows, network.variable(target).cardinality)
        shares, lower, upper, errors = (np.zeros(shape) for _ in range(4))
        for rows, known, weighted in hard_and_soft(evidence, network.names):
            near = network._near((target,), known, weighted)
            self._refuse_compact(near)
            some = evidence.take(rows)
            shares[rows], logs = network._joint(some, (target,), known, weighted, {}, likelihood=False)
            refuse_impossible(rows[np.isneginf(logs)])
            for row in rows.tolist():
                one = evidence.take(slice(row, row + 1))
                if target in known or not near.parts:
                    lower[row] = upper[row] = shares[row]
                elif method == "delta":
                    errors[row] = np.sqrt(_variances(network, near, one, target, shares[row], totals))
                    lower[row], upper[row] = _on_log_odds(shares[row], errors[row], level)
                else:
                    drawn = _drawn_answers(
                        network, near, one, target, totals, draws, np.random.default_rng([seed, row])
                    )
                    errors[row] = drawn.std(axis=0, ddof=1)
                    lower[row], upper[row] = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return CredibleInterval(shares, lower, upper, errors, level, method)

    def _keep_counts(self, counts: np.ndarray, spec: Specification, smoothing: float | Mapping[str, Any]) -> None:
        """Store the total count of each row of the learnt tables; those of other tables are unchanged."""
        layout = spec.layout
        if len(counts) != len(layout.lines):  # of learning that was interrupted, or on another device
            self._row_counts = None
            return
        cells = Smoothing.of(spec, smoothing).cells
        total = counts if cells is None else counts + np.add.reduceat(cells, layout.lines)
        is_learnt = layout.spread(spec.learnt_tables, spec.learnt_priors, np.bool_)[layout.lines]
        before = np.full(len(total), np.inf) if self._row_counts is None else self._row_counts
        self._row_counts = np.where(is_learnt, total, before)

    def _row_totals(self, name: str) -> np.ndarray | None:
        """Return the total count of each row of a table, for files; None if it was not learnt."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        if self._row_counts is None:
            return None
        found = self._split(self._row_counts)[network._spec.layout.table_number(name)]
        return None if np.isinf(found).any() else found

    def _restore_counts(self, counts: Mapping[str, np.ndarray]) -> None:
        """Set the total counts of rows of some tables from a file; the other tables are certain."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        if not counts:
            return
        layout = network._spec.layout
        every = np.full(len(layout.lines), np.inf)
        parts = self._split(every)
        for name, some in counts.items():
            parts[layout.table_number(name)][:] = some.reshape(-1)
        self._row_counts = every

    def _split(self, lines: np.ndarray) -> list[np.ndarray]:
        """Return numbers for each row of all tables as views, one per table."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        rows = [count for count, _ in network._spec.layout.table_shapes]
        return np.split(lines[: sum(rows)], np.cumsum(rows)[:-1])

    def _totals(self) -> list[np.ndarray]:
        """Return the total Dirichlet count of each row, by the number of the table."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        if self._row_counts is None:
            raise LearningError(
                "This network has no counts, from which the uncertainty of its tables follows.",
                remedies=("learn it from data", Remedy("load a model file, which has them", "fgrn.load('net.fgrn')")),
            )
        layout = network._spec.layout
        sizes = [columns for _, columns in layout.table_shapes]
        parts = zip(self._split(self._row_counts), sizes, strict=True)
        return [np.where(part > 0, part, size) for part, size in parts]

    def _refuse_compact(self, near: PrunedModel) -> None:
        for part in near.parts:
            if part.form is not None and part.learn:
                raise FgrnError(
                    f"The table of {part.name!r} is a compact table, for whose parameters there are no counts.",
                    value=part.name,
                    remedies="give the full table, as an array, before the network is learnt",
                )


def _variances(
    network: BayesianNetwork,
    near: PrunedModel,
    one: Evidence,
    target: str,
    share: np.ndarray,
    totals: list[np.ndarray],
) -> np.ndarray:
    """Return the variance of the posterior probability of each state, by the delta method.

    With h = P(target, cell | evidence) - P(target | evidence) P(cell | evidence), which is a cell's probability times
    the derivative by it, a row adds (sum h^2 / probability - (sum h)^2) / (count + 1).
    """
    layout, arrays = network._spec.layout, network._arrays.tables
    axis = near.variables[target].cardinality
    given: dict[int, np.ndarray] = {}  # by table: (states of the target, rows, states)
    for state in np.flatnonzero(share > 0).tolist():
        masked = arrays[target] * (np.arange(axis) == state)
        cells = near.families(network.index, arrays.with_changed({target: masked}), one)
        for part, found in zip(near.parts, cells, strict=True):
            number = layout.table_number(part.name)
            if np.isinf(totals[number]).all():
                continue
            mine = given.setdefault(number, np.zeros((axis, *layout.table_shapes[number])))
            mine[state] += found.reshape(mine.shape[1:])
    out = np.zeros(axis)
    for number, cells_of in given.items():
        table = layout.table(network._parameters.values, number)
        h = share[:, None, None] * (cells_of - np.tensordot(share, cells_of, axes=1))
        squares = np.divide(h**2, table, out=np.zeros_like(h), where=table > 0).sum(axis=2) - h.sum(axis=2) ** 2
        out += (squares / (totals[number] + 1)).sum(axis=1)
    return np.maximum(out, 0.0)


def _on_log_odds(share: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of intervals that are symmetric in log-odds; for certain probabilities, the number itself."""
    inside = (share > 0) & (share < 1)
    p = np.where(inside, share, 0.5)
    width = NormalDist().inv_cdf((1 + level) / 2) * error / (p * (1 - p))
    odds = np.log(p) - np.log1p(-p)
    lower, upper = (1 / (1 + np.exp(-(odds + sign * width))) for sign in (-1, 1))
    return np.where(inside, lower, share), np.where(inside, upper, share)


def _drawn_answers(
    network: BayesianNetwork,
    near: PrunedModel,
    one: Evidence,
    target: str,
    totals: list[np.ndarray],
    draws: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the posterior under randomly drawn tables, (draws, states); impossible draws are left out."""
    layout, arrays = network._spec.layout, network._arrays.tables
    numbers = {part.name: layout.table_number(part.name) for part in near.parts}
    found = []
    for _ in range(draws):
        drawn = {
            number: _drawn_table(layout.table(network._parameters.values, number), totals[number], random)
            for number in dict.fromkeys(numbers.values())
        }
        tables = TableNumbers((name, drawn[number].reshape(arrays[name].shape)) for name, number in numbers.items())
        found.append(near.joint(network.index, tables, one, (target,))[0][0])
    answers = np.array(found)
    return answers[answers.any(axis=1)]


def _drawn_table(table: np.ndarray, totals: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a table with rows drawn from Dirichlet distributions; rows without uncertainty are unchanged."""
    certain = np.isinf(totals)
    gamma = random.standard_gamma(np.where(certain, 1.0, totals)[:, None] * table)
    sums = gamma.sum(axis=1, keepdims=True)
    keep = certain[:, None] | (sums == 0)
    found: np.ndarray = np.where(keep, table, gamma / np.where(sums > 0, sums, 1))
    return found
