"""`search`: learns the arcs of a Bayesian network from a table, by the score of the structure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnWarning, LearningError, Remedy, warn
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode
from ..learning.convergence import warn_of_record
from ..learning.encoding import checked_weight_name, rows_of_source, table_elsewhere
from ..tables import frames
from ..tables.encoded import Evidence
from .arc_rules import ArcRules, arc_pairs
from .bayesian import Arcs, BayesianNetwork
from .climbing import ArcMove, Climb, Parents, StructureWatcher
from .exact_search import best_structure
from .independence_search import IndependenceRecord, IndependenceTests, refuse_missing, structure_by_tests
from .order_search import OrderSearch
from .scores import FamilyScores, ScoreRule, refuse_large_families
from .structural_em import EPOCHS, TOLERANCE, StructuralEM
from .tree_learning import TreeTable, column_states

SEARCHES = ("hill_climbing", "tabu", "order", "exact", "pc")


@dataclass(frozen=True)
class SearchRecord:
    """The record of a structure search: `BayesianNetwork.search_record` after `fgrn.search`.

    Attributes:
        rule: the score and its settings.
        method: of the search.
        score: of the structure found.
        moves: the path of hill climbing, a tabu search or an order search; empty for other methods. The arcs that
            differ after an order search come last. With missing values, the path of the last round.
        families: how many families were counted.
        rounds: of structural EM, with the score after each; empty where nothing is missing.
        independence: what the tests of method "pc" found; None for other methods.
    """

    rule: ScoreRule
    method: str
    score: float
    moves: tuple[ArcMove, ...]
    families: int
    rounds: tuple[float, ...] = ()
    independence: IndependenceRecord | None = None


@dataclass
class StoppingWatch:
    """A watcher of searches that records whether it requested the end of one."""

    watch: StructureWatcher
    stopped: bool = False

    def __call__(self, moves: int, score: float) -> bool:
        """See `StructureWatcher`."""
        self.stopped = self.stopped or self.watch(moves, score) is True
        return self.stopped


@dataclass(frozen=True)
class SearchMethod:
    """The method of a search; see `search`."""

    name: str = "order"
    restarts: int | None = None
    seed: int = 0
    threads: int | None = None
    watch: StructureWatcher | None = None
    rounds: int = 10
    draws: int = 10
    alpha: float = 0.05

    def __post_init__(self) -> None:
        settings.choice("method", self.name, SEARCHES, LearningError)
        if self.restarts is not None:
            settings.whole("restarts", self.restarts, 0, LearningError)
        settings.whole("rounds", self.rounds, 1, LearningError)
        settings.whole("draws", self.draws, 1, LearningError)
        settings.whole("seed", self.seed, 0, LearningError)
        settings.number("alpha", self.alpha, LearningError, 1.0)
        if self.threads is not None:
            settings.whole("threads", self.threads, 1, LearningError)

    def run(self, scores: FamilyScores, rules: ArcRules, start: Parents) -> tuple[Parents, tuple[ArcMove, ...]]:
        """Return the structure with the highest score found, and the path to it."""
        if self.name == "exact":
            return best_structure(scores, rules), ()
        climb = Climb(scores, rules, self.watch)
        if self.name == "hill_climbing":
            found = climb.hill_climbing(start, self.restarts or 0, self.seed)
        else:
            found = climb.tabu(start)
        if self.name == "order" and not climb.stopped:
            orders = OrderSearch(scores, rules, self.watch, climb.steps)
            first, found = found, orders.run(found, self.restarts, self.seed)
            climb.straight_to(first, found)
        elif self.name == "tabu" and self.restarts:
            found = climb.hill_climbing(found, self.restarts, self.seed)
        return found, tuple(climb.moves)


@dataclass(frozen=True)
class SearchSettings:
    """All settings of `search`, by its argument names."""

    score: str = "bic"
    method: str = "order"
    required: Arcs = ()
    forbidden: Arcs = ()
    tiers: Iterable[Collection[Name]] | None = None
    roots: Collection[Name] = ()
    max_parents: int | None = None
    start: BayesianNetwork | Arcs | None = None
    restarts: int | None = None
    alpha: float = 0.05
    states: Mapping[str, Any] | None = None
    hidden: Mapping[str, Any] | None = None
    weights: Any = None
    smoothing: float = 1.0
    equivalent_size: float = 1.0
    held_out: float = 0.2
    rounds: int = 10
    draws: int = 10
    seed: int = 0
    threads: int | None = None
    watch: StructureWatcher | None = None

    def prepared(self, data: frames.Data) -> tuple[StructureTable, SearchPlan]:
        """Return the rows of a table as codes, and a search that is ready to run on them; checks the settings."""
        table = StructureTable.of(data, self.states, self.weights, self.hidden)
        rules = ArcRules.of(table.names, self.required, self.forbidden, self.tiers, self.roots, self.max_parents)
        rule = ScoreRule(self.score, self.equivalent_size, self.held_out, self.smoothing, self.seed)
        method = SearchMethod(
            self.method, self.restarts, self.seed, self.threads, self.watch, self.rounds, self.draws, self.alpha
        )
        return table, SearchPlan.of(table, rule, rules, method, self.start)


def search(
    data: frames.Data,
    score: str = "bic",
    method: str = "order",
    *,
    required: Arcs = (),
    forbidden: Arcs = (),
    tiers: Iterable[Collection[Name]] | None = None,
    roots: Collection[Name] = (),
    max_parents: int | None = None,
    start: BayesianNetwork | Arcs | None = None,
    restarts: int | None = None,
    alpha: float = 0.05,
    states: Mapping[str, Any] | None = None,
    hidden: Mapping[str, Any] | None = None,
    weights: Any = None,
    smoothing: float = 1.0,
    equivalent_size: float = 1.0,
    held_out: float = 0.2,
    rounds: int = 10,
    draws: int = 10,
    seed: int = 0,
    threads: int | None = None,
    watch: StructureWatcher | None = None,
) -> BayesianNetwork:
    """Find a Bayesian network in a table: which columns depend on which, with the tables learnt from the rows.

    The structure with the highest score that was found is returned; its `search_record` has the score and the path of
    moves. Missing values are averaged over by structural EM (Friedman, 1998): in each round they are
    drawn from their distribution under the network so far, the structure of the highest expected score is searched,
    and its tables are learnt by EM from the rows as they are; the score is then that of the observed values (Cheeseman
    and Stutz, 1996).

    Args:
        data: the rows: a mapping of columns, any dataframe, or a file or stream larger than memory. Columns of
            measurements are put in bins first, see `Schema`.
        score: "bic", "aic", "bdeu" or "k2"; or "log_likelihood", that of held-out rows.
        method: "hill_climbing"; "tabu", which continues from its result; "order" (over orders of the columns), which
            continues from that of a tabu search (its score is never lower, if nothing is missing); "exact": the best of
            all structures, for up to 20 columns; or "pc": by independence tests instead of a score.
        required: arcs that the structure must have, as pairs (parent, child) or the parents of each child.
        forbidden: arcs that it must not have.
        tiers: lists of columns, causes first: no arc leads from a later tier to an earlier one. A column in no tier is
            not restricted.
        roots: columns without parents.
        max_parents: the most parents of a column; any number unless given. For "pc" also the most columns of a set
            given which two others are tested.
        start: the structure with which the search begins: a network, or arcs. No arcs but the required ones unless
            given.
        restarts: the number of restarts from the best structure, or order, after some random moves. Unless given, none
            for the first two methods; for "order" 8, or fewer if that takes as long as all before.
        alpha: for "pc", the p-value above which two columns count as independent.
        states: of columns that have states no row has, or more of them than are taken for a category.
        hidden: hidden variables with their states; give arcs to and from them by `start` or `required`.
        weights: the number of equal rows that each row represents; the name of a column for a stream.
        smoothing: a Dirichlet count for each cell of the tables, and of those that held-out rows are scored under.
        equivalent_size: the equivalent sample size of "bdeu".
        held_out: the share of rows that "log_likelihood" holds out.
        rounds: the most rounds of structural EM.
        draws: the number of draws of the missing values of a row in a round.
        seed: of everything random.
        threads: the number of threads; all processors unless given. The result does not depend on it.
        watch: called after each move with the number of moves and the score; the search ends when it returns True.
    """
    table, plan = SearchSettings(
        score, method, required, forbidden, tiers, roots, max_parents, start, restarts, alpha, states, hidden, weights,
        smoothing, equivalent_size, held_out, rounds, draws, seed, threads, watch,
    ).prepared(data)  # fmt: skip
    network = plan.run(table)
    warn_of_record(network.trained[-1], EPOCHS)
    return network


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """A search that is ready to run on a table or on samples of it: score, rules, method and initial structure."""

    rule: ScoreRule
    rules: ArcRules
    method: SearchMethod
    start: Parents
    started: bool  # whether a start was given, or required arcs

    @classmethod
    def of(
        cls,
        table: StructureTable,
        rule: ScoreRule,
        rules: ArcRules,
        method: SearchMethod,
        start: BayesianNetwork | Arcs | None = None,
    ) -> SearchPlan:
        """Return the search; an error if its initial structure is not valid."""
        first = rules.checked(table.structure(start), "The start")
        refuse_large_families(table.names, table.sizes, first, "take some of these arcs out of 'start' and 'required'")
        table.refuse_hidden_without_arcs(first)
        return cls(rule, rules, method, first, start is not None or bool(rules.required.any()))

    def among(self, arcs: np.ndarray) -> SearchPlan:
        """Return the same search among some arcs only, (parents, children), to its end; required arcs stay."""
        rules = replace(self.rules, allowed=self.rules.allowed & (arcs | self.rules.required))
        start = tuple(
            frozenset(parent for parent in some if rules.allowed[parent, child])
            for child, some in enumerate(self.start)
        )
        return replace(self, rules=rules, method=replace(self.method, watch=None), start=start)

    def run(self, table: StructureTable) -> BayesianNetwork:
        """Return the network found in a table."""
        if table.complete:
            scores = FamilyScores.of(table.evidence, table.sizes, self.rule, self.method.threads)
            if self.method.name == "pc":
                tests = IndependenceTests.of(scores.table, self.method.alpha)
                found, independence = structure_by_tests(tests, self.rules)
                refuse_large_families(table.names, table.sizes, found, "allow fewer parents with 'max_parents'")
                moves: tuple[ArcMove, ...] = ()
            else:
                found, moves = self.method.run(scores, self.rules, self.start)
                independence = None
            network = self.learnt(table, found)
            record = SearchRecord(
                self.rule, self.method.name, scores.total(found), moves, scores.counted, independence=independence
            )
        elif self.method.name == "pc":
            raise refuse_missing()
        else:
            watch = None if self.method.watch is None else StoppingWatch(self.method.watch)
            method = replace(self.method, watch=watch)
            em = StructuralEM(
                table, self.rule, self.rules, method.run, method.rounds, method.draws, method.threads,
                lambda: watch is not None and watch.stopped,
            )  # fmt: skip
            network, parts = em.run(self.start if self.started else None)
            record = SearchRecord(self.rule, self.method.name, **parts)
        network.search_record = record
        return network

    def learnt(self, table: StructureTable, parents: Parents) -> BayesianNetwork:
        """Return the network of a structure, with tables learnt from all rows."""
        network = table.network(parents)
        if table.complete:
            network.learn(table.evidence, epochs=1, smoothing=self.rule.smoothing)
        else:
            network.learn(
                table.evidence, epochs=EPOCHS, tolerance=TOLERANCE, smoothing=self.rule.smoothing, seed=self.rule.seed
            )
        return network


@dataclass(frozen=True, eq=False)
class StructureTable:
    """The rows of a structure search: variables in the order of the columns, hidden ones last, and codes."""

    blank: BayesianNetwork  # the variables, without arcs
    evidence: Evidence

    @classmethod
    def of(cls, data: frames.Data, states: Any, weights: Any, hidden: Any = None) -> StructureTable:
        """Read a table; an error if it has fewer than two rows, or a column has too many states."""
        if frames.is_source(data):
            from ..tables.stream import stream_of

            data = stream_of(data).again()
            found = rows_of_source(data).distinct(checked_weight_name(weights))
            labels = column_states({name: one.values for name, one in found.items()}, states)
            blank = BayesianNetwork([Variable(name, some) for name, some in labels.items()])
            evidence = encoded_rows(blank, data, weights)
        else:
            table = TreeTable.of(data, states, weights)
            blank, evidence = table.blank, table.evidence
        if (evidence.row_weights > 0).sum() < 2:
            raise LearningError("One row does not show any dependence.", remedies="give a table of two rows or more")
        if (evidence.row_weights != np.round(evidence.row_weights)).any():
            warn(
                "The weights are not whole numbers, and a weight is taken for a number of equal rows: the table counts "
                f"as {evidence.weight:,.6g} rows.",
                FgrnWarning,
                remedies="scale them so that their sum is the number of rows that they are worth",
            )
        if not hidden:
            return cls(blank, evidence)
        more = [Variable(name, some) for name, some in settings.by_name(hidden).items()]
        for variable in more:
            if variable.name in blank.names:
                raise LearningError(
                    f"{variable.name!r} is hidden, and a column of the table.",
                    remedies="rename one of them",
                )
            if variable.cardinality < 2:
                raise LearningError(
                    f"The hidden variable {variable.name!r} has one state, which it has in every row: nothing can "
                    "depend on it.",
                    value=variable.name,
                    remedies=Remedy("give it two states or more", hidden={variable.name: 2}),
                )
        whole = BayesianNetwork([*blank.variables, *more])
        return cls(whole, evidence.numbered_by(whole))

    def weighted(self, weights: np.ndarray) -> StructureTable:
        """Return the same rows with other weights."""
        return replace(self, evidence=replace(self.evidence, row_weights=weights))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.blank.names

    @property
    def sizes(self) -> list[int]:
        """The number of states of each variable."""
        return [variable.cardinality for variable in self.blank.variables]

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return len(self.evidence.columns) == len(self.names) and self.evidence.complete

    def structure(self, given: BayesianNetwork | Arcs | None) -> Parents:
        """Return the parents of each variable in a network or a list of arcs; no parents if nothing is given."""
        arcs = given.arcs if isinstance(given, BayesianNetwork) else () if given is None else given
        parents: list[frozenset[int]] = [frozenset()] * len(self.names)
        for parent, child in arc_pairs("start", arcs, self.names):
            parents[self.blank.index[child]] |= {self.blank.index[parent]}
        return tuple(parents)

    def refuse_hidden_without_arcs(self, parents: Parents) -> None:
        """Raise an error if a hidden variable has no arc, because then no row carries information about it."""
        for name in self.names:
            number = self.blank.index[name]
            if name not in self.evidence.columns and not parents[number] and not any(number in one for one in parents):
                raise LearningError(
                    f"The hidden variable {name!r} has no arc at the start, so that nothing can be learnt about it.",
                    value=name,
                    remedies=Remedy("give it arcs", required=[(name, self.evidence.columns[0])]),
                )

    def network(self, parents: Parents, tables: Mapping[str, np.ndarray] | None = None) -> BayesianNetwork:
        """Return the network of a structure."""
        arcs = {name: [self.names[one] for one in sorted(some)] for name, some in zip(self.names, parents, strict=True)}
        return BayesianNetwork(self.blank.variables, arcs, tables)


def score_of(network: BayesianNetwork, data: frames.Data, rule: ScoreRule, weights: Any = None) -> float:
    """Return the score of the structure of a network on a complete table."""
    evidence = encoded_rows(network, data, weights)
    if evidence.rows < 1:
        raise LearningError("There are no rows to score the structure on.")
    unseen = [name for name in network.names if name not in evidence.columns]
    if unseen:
        raise LearningError(
            f"The table has no column {unseen[0]!r}, and a structure is scored on all of its variables.",
            remedies="add the column",
        )
    if not evidence.complete:
        raise LearningError(
            "Some values are missing, and the score needs complete rows.",
            remedies=("impute them (`complete`)", "find a structure with `fgrn.search`, which tells its score"),
        )
    order = [evidence.columns.index(name) for name in network.names]
    ordered = replace(evidence, codes=np.asfortranarray(evidence.codes[:, order]), columns=network.names).numbered_by(
        network
    )
    sizes = [variable.cardinality for variable in network.variables]
    parents = [frozenset(network.index[one] for one in network.parents(name)) for name in network.names]
    refuse_large_families(network.names, sizes, parents, "score a structure with fewer parents, or fewer states")
    return FamilyScores.of(ordered, sizes, rule).total(parents)


def encoded_rows(network: BayesianNetwork, data: frames.Data, weights: Any) -> Evidence:
    """Return the rows of a table or a stream as codes of the variables of a network."""
    elsewhere = table_elsewhere(network, data, weights)
    return encode(network, data, weights) if elsewhere is None else elsewhere.local_rows()
