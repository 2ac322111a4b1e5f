"""Credible intervals of the answers of a Bayesian network, from the counts its tables were learnt from.

Each row of a table that was learnt has a Dirichlet distribution, whose parameters are its counts with their smoothing;
rows are independent (Spiegelhalter and Lauritzen, 1990). How far a posterior probability varies with them is found by
the delta method (Van Allen, Singh, Greiner and Hooper, 2008) or by drawing tables. Where values were missing the counts
are expected ones, as if they had been seen, and rows of tables depend on each other: tables are then drawn given the
rows themselves (`augmentation`), for both methods. A table that was given is taken as certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, FgrnError, FgrnWarning, LearningError, Remedy, warn
from ..core.settings import Name
from ..flow.evidence import encode
from ..flow.marginals import refuse_impossible
from ..flow.mstep import Smoothing
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from .augmentation import IncompleteRows, drawn_rows, drawn_tables
from .elimination import PrunedModel, hard_and_soft
from .table_numbers import TableNumbers

if TYPE_CHECKING:
    from ..flow.parameters import Specification
    from .bayesian import BayesianNetwork

INTERVAL_METHODS = ("delta", "draws")

MOST_KEPT_BYTES = 2**26
"""Of rows with missing values that a network keeps after it was learnt from them, as codes: 64 MB."""

DrawnTables = Mapping[str, np.ndarray]
"""Tables that were drawn together, (draws, rows, states) by name."""


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


class _KeptDraws(NamedTuple):
    """Tables that were drawn, and what they depend on: parameters, rows, and the number of draws and their seed."""

    parameters: Any
    source: Any
    asked: tuple[int, int]
    tables: DrawnTables


class UncertainQueries:
    """Queries about the uncertainty of the tables and answers of a Bayesian network."""

    _row_counts: np.ndarray | None = None  # the total count of each row of the tables; infinite where it was given
    _incomplete: IncompleteRows | None = None  # what the tables were learnt from, if values were missing
    _learnt_by: BayesianNetwork | None = None  # of a network after an intervention: the one before it
    _kept_draws: _KeptDraws | None = None  # those of the last call

    def dirichlet_counts(self, name: Name) -> np.ndarray:
        """Return the counts that a table was learnt from, with smoothing, (rows, states): Dirichlet parameters.

        A row without any has a count of 1 for each state, shared out as its probabilities are. Infinite for a table
        that was given and not learnt. Where values were missing the counts are expected ones, as if these were seen.
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
        learnt_from: frames.Data = None,
    ) -> CredibleInterval:
        """Return the posterior of a variable in each row, with a credible interval for each probability.

        The tables must have been learnt (`learn`, `from_data`, `fgrn.search`): their counts tell how sure they are. If
        values were missing, tables are drawn given the rows that they were learnt from (data augmentation: Tanner and
        Wong, 1987), once for all questions with the same `draws` and `seed`, and both methods use these draws. A
        network that was learnt from a table in memory, up to 64 MB of codes, keeps its rows for this; else a warning
        says that the intervals are too narrow, unless the rows are given.

        Args:
            data: the evidence, see `propagate`.
            name: the variable.
            level: the probability of each interval.
            method: "delta", from the derivatives of the probability, on the scale of log-odds; or "draws", quantiles of
                the answers of tables that are drawn, which is slower and better where counts are few.
            draws: how many tables are drawn.
            seed: of the draws.
            learnt_from: the table that the network was learnt from, if values are missing in it and the network has
                not kept it: after it was read from a file, or learnt from a stream.
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
        drawn_together = self._drawn_together(draws, seed, learnt_from)
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
                    errors[row] = np.sqrt(_variances(network, near, one, target, shares[row], totals, drawn_together))
                    lower[row], upper[row] = _on_log_odds(shares[row], errors[row], level)
                else:
                    random = np.random.default_rng([seed, row])
                    tables = drawn_together or _drawn_apart(network, near, totals, draws, random)
                    drawn = _drawn_answers(network, near, one, target, tables)
                    errors[row] = drawn.std(axis=0, ddof=1)
                    lower[row], upper[row] = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return CredibleInterval(shares, lower, upper, errors, level, method)

    def _keep_counts(
        self,
        counts: np.ndarray,
        spec: Specification,
        smoothing: float | Mapping[str, Any],
        incomplete: EncodedTable | None = None,
    ) -> None:
        """Store the total count of each row of the learnt tables; those of other tables are unchanged.

        And the rows in which values are missing, if they were learnt from such, and are in memory and not too many.
        """
        layout = spec.layout
        self._learnt_by = self._kept_draws = self._incomplete = None
        if isinstance(incomplete, Evidence) and incomplete.in_memory and incomplete.codes.nbytes <= MOST_KEPT_BYTES:
            self._incomplete = _incomplete_rows(incomplete, spec, smoothing)
        if len(counts) != len(layout.lines):  # of learning that was interrupted, or on another device
            self._row_counts = None
            return
        cells = Smoothing.of(spec, smoothing).cells
        total = counts if cells is None else counts + np.add.reduceat(cells, layout.lines)
        is_learnt = layout.spread(spec.learnt_tables, spec.learnt_priors, np.bool_)[layout.lines]
        before = np.full(len(total), np.inf) if self._row_counts is None else self._row_counts
        self._row_counts = np.where(is_learnt, total, before)

    def _drawn_together(self, draws: int, seed: int, learnt_from: frames.Data) -> DrawnTables | None:
        """Tables drawn given the rows that they were learnt from; None if no value was missing in these."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        if self._learnt_by is not None:  # tables that an intervention set are not among them
            found = self._learnt_by._drawn_together(draws, seed, learnt_from)
            own = [name for name in network.names if self._row_totals(name) is not None]
            return None if found is None else {name: found[name] for name in own if name in found}
        record = network.trained[-1] if network.trained else {}
        rows = self._incomplete
        if learnt_from is not None:
            rows = self._given_rows(learnt_from, record)
        elif rows is None and record.get("engine") is not None:  # without missing values there is no engine
            warn(
                "The network was learnt from a table with missing values, which is not at hand: their expected counts "
                "stand for them, and the intervals are too narrow.",
                FgrnWarning,
                remedies=Remedy("give the table that it was learnt from", learnt_from=...),
            )
        if rows is None:
            return None
        asked, source = (draws, seed), rows.rows if learnt_from is None else learnt_from
        kept = self._kept_draws
        if kept and kept.asked == asked and kept.parameters is network._parameters and kept.source is source:
            return kept.tables
        layout = network._spec.layout
        tables = drawn_tables(network, rows, self._totals(), draws, seed)
        found = {part.name: tables[layout.table_number(part.name)] for part in network._given}
        self._kept_draws = _KeptDraws(network._parameters, source, asked, found)
        return found

    def _given_rows(self, learnt_from: frames.Data, record: Mapping[str, Any]) -> IncompleteRows | None:
        """The rows of a table that the network was learnt from; None if no value is missing."""
        network: BayesianNetwork = self  # type: ignore[assignment]
        rows = encode(network, network._checked(learnt_from))
        if rows.rows != record.get("rows", rows.rows) or not np.isclose(rows.weight, record.get("weight", rows.weight)):
            raise EvidenceError(
                f"The network was learnt from {record['rows']:,} rows of total weight {record['weight']:,.6g}, and "
                f"this table has {rows.rows:,} of total weight {rows.weight:,.6g}.",
                remedies="give the table that it was learnt from",
            )
        if network._is_complete(rows):
            return None
        return _incomplete_rows(rows, network._spec, record.get("smoothing", 0.0))

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


def _incomplete_rows(rows: Evidence, spec: Specification, smoothing: float | Mapping[str, Any]) -> IncompleteRows:
    cells = Smoothing.of(spec, smoothing).cells
    learnt = frozenset(np.flatnonzero(spec.learnt_tables).tolist())
    return IncompleteRows(rows, np.zeros(spec.layout.size) if cells is None else cells, learnt)


def _variances(
    network: BayesianNetwork,
    near: PrunedModel,
    one: Evidence,
    target: str,
    share: np.ndarray,
    totals: list[np.ndarray],
    drawn_together: DrawnTables | None,
) -> np.ndarray:
    """Return the variance of the posterior probability of each state, by the delta method.

    With h = P(target, cell | evidence) - P(target | evidence) P(cell | evidence), which is a cell's probability times
    the derivative by it, a row adds (sum h^2 / probability - (sum h)^2) / (count + 1). Of tables that were drawn
    together it is the variance of the sum of h / probability times the number drawn.
    """
    layout, arrays = network._spec.layout, network._arrays.tables
    axis = near.variables[target].cardinality
    given: dict[str, np.ndarray] = {}  # by the first of the tables that are tied: (states of the target, rows, states)
    for state in np.flatnonzero(share > 0).tolist():
        masked = arrays[target] * (np.arange(axis) == state)
        cells = near.families(network.index, arrays.with_changed({target: masked}), one)
        for part, found in zip(near.parts, cells, strict=True):
            number = layout.table_number(part.name)
            if np.isinf(totals[number]).all():
                continue
            mine = given.setdefault(layout.table_names[number][0], np.zeros((axis, *layout.table_shapes[number])))
            mine[state] += found.reshape(mine.shape[1:])
    out, sums = np.zeros(axis), list[np.ndarray]()
    for name, cells_of in given.items():
        number = layout.table_number(name)
        table = layout.table(network._parameters.values, number)
        h = share[:, None, None] * (cells_of - np.tensordot(share, cells_of, axes=1))
        if drawn_together is not None and name in drawn_together:
            slopes = np.divide(h, table, out=np.zeros_like(h), where=table > 0)
            sums.append(np.tensordot(drawn_together[name], slopes, axes=([1, 2], [1, 2])))
            continue
        squares = np.divide(h**2, table, out=np.zeros_like(h), where=table > 0).sum(axis=2) - h.sum(axis=2) ** 2
        out += (squares / (totals[number] + 1)).sum(axis=1)
    if sums:
        out += np.sum(sums, axis=0).var(axis=0, ddof=1)
    return np.maximum(out, 0.0)


def _on_log_odds(share: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of intervals that are symmetric in log-odds; for certain probabilities, the number itself."""
    inside = (share > 0) & (share < 1)
    p = np.where(inside, share, 0.5)
    width = NormalDist().inv_cdf((1 + level) / 2) * error / (p * (1 - p))
    odds = np.log(p) - np.log1p(-p)
    lower, upper = (1 / (1 + np.exp(-(odds + sign * width))) for sign in (-1, 1))
    return np.where(inside, lower, share), np.where(inside, upper, share)


def _drawn_apart(
    network: BayesianNetwork, near: PrunedModel, totals: list[np.ndarray], draws: int, random: np.random.Generator
) -> DrawnTables:
    """Tables drawn from the Dirichlet distributions of their rows; certain rows stay as they are."""
    layout = network._spec.layout
    numbers = {part.name: layout.table_number(part.name) for part in near.parts}
    found: dict[int, list[np.ndarray]] = {number: [] for number in numbers.values()}
    for _ in range(draws):
        for number, drawn in found.items():
            table, certain = layout.table(network._parameters.values, number), np.isinf(totals[number])[:, None]
            counts = np.where(certain, 1.0, totals[number][:, None]) * table
            drawn.append(np.where(certain, table, drawn_rows(counts, table, random)))
    tables = {number: np.array(drawn) for number, drawn in found.items()}
    return {name: tables[number] for name, number in numbers.items()}


def _drawn_answers(
    network: BayesianNetwork, near: PrunedModel, one: Evidence, target: str, tables: DrawnTables
) -> np.ndarray:
    """Return the posterior under drawn tables, (draws, states); impossible draws are left out."""
    arrays = network._arrays.tables
    found = []
    for draw in range(len(next(iter(tables.values())))):
        numbers = TableNumbers(
            (
                part.name,
                tables[part.name][draw].reshape(arrays[part.name].shape) if part.name in tables else arrays[part.name],
            )
            for part in near.parts
        )
        found.append(near.joint(network.index, numbers, one, (target,))[0][0])
    answers = np.array(found)
    return answers[answers.any(axis=1)]
