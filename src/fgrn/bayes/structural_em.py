"""Structural EM: learning a structure from rows with missing values or hidden variables (Friedman, 1998).

For "bic" and "aic" the score of a structure is the log-likelihood of the observed values, under the tables t that were
learnt, less the penalty. For "bdeu" and "k2" it is approximated (Cheeseman and Stutz, 1996) by

    score of the drawn rows - log-likelihood of the drawn rows under t + log-likelihood of the observed values under t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.exceptions import LearningError, Remedy
from ..core.labels import code_type
from ..tables.encoded import Evidence
from .arc_rules import ArcRules
from .bayesian import BayesianNetwork
from .climbing import ArcMove, Parents
from .pair_scores import ColumnPairs, score_of_edges
from .scores import FamilyScores, ScoreRule
from .tree_learning import heaviest_forest, parents_from

if TYPE_CHECKING:
    from .structure_search import StructureTable

EPOCHS, TOLERANCE = 100, 1e-6
"""Limits of learning the tables in each round: the most epochs, and the least gain in log-likelihood per row."""

Runner = Callable[[FamilyScores, ArcRules, Parents], tuple[Parents, tuple[ArcMove, ...]]]


@dataclass(frozen=True, eq=False)
class StructuralEM:
    """Structural EM: draws missing values, searches a structure for these rows, learns its tables, and repeats."""

    table: StructureTable
    rule: ScoreRule
    rules: ArcRules
    search: Runner
    rounds: int
    draws: int
    threads: int | None = None
    stopped: Callable[[], bool] = lambda: False  # whether no further round is to begin

    def run(self, start: Parents | None) -> tuple[BayesianNetwork, dict[str, Any]]:
        """Return the best network of all rounds, and the parts of its `SearchRecord`."""
        if self.rule.name == "log_likelihood":
            raise LearningError(
                "Some values are missing or hidden, and held-out rows are scored only if they are complete.",
                remedies=Remedy("score the observed values", score="bic"),
            )
        now = self._forest() if start is None else start
        network = self._learnt(now)
        best = network
        values, families = list[float](), 0
        path = moves = tuple[ArcMove, ...]()
        for number in range(self.rounds):
            drawn = self._imputed_rows(network, number)
            scores = FamilyScores.of(drawn, self.table.sizes, self.rule, self.threads)
            value = self._value(network, now, scores, drawn)
            worse = bool(values) and value <= max(values)
            values.append(value)
            if worse:
                break
            best, path = network, moves
            found, moves = self.search(scores, self.rules, now)
            families += scores.counted
            if found == now or self.stopped():
                break
            now, network = found, self._learnt(found)
        return best, {"score": max(values), "moves": path, "families": families, "rounds": tuple(values)}

    def _learnt(self, parents: Parents) -> BayesianNetwork:
        """Return the network of a structure, with tables learnt by EM from the rows with missing values."""
        network = self.table.network(parents)
        network.learn(
            self.table.evidence, epochs=EPOCHS, tolerance=TOLERANCE, smoothing=self.rule.smoothing, seed=self.rule.seed
        )
        return network

    def _forest(self) -> Parents:
        """Return the Chow-Liu forest of the known values of each pair, as far as the rules allow its arcs."""
        known = len(self.table.evidence.columns)
        sizes = self.table.sizes[:known]
        evidence = self.table.evidence
        pairs = ColumnPairs(sizes, [(np.asfortranarray(evidence.codes), np.asarray(evidence.row_weights))])
        rate = max(1.0, self.rule.penalty(evidence.weight))
        above = parents_from(heaviest_forest(score_of_edges(pairs, rate)), known, 0)
        parents = [frozenset[int]() if one < 0 else frozenset([one]) for one in above]
        parents += [frozenset[int]()] * (len(self.table.names) - known)
        kept = [
            frozenset(one for one in some if self.rules.allowed[one, child]) if self.rules.most else frozenset[int]()
            for child, some in enumerate(parents)
        ]
        return tuple(kept)

    def _imputed_rows(self, network: BayesianNetwork, number: int) -> Evidence:
        """Return complete rows: missing values are drawn several times, each with a share of the weight."""
        evidence = self.table.evidence
        open_rows = np.flatnonzero((evidence.codes < 0).any(axis=1)) if self._all_seen else np.arange(evidence.rows)
        closed = np.setdiff1d(np.arange(evidence.rows), open_rows, assume_unique=True)
        generator = np.random.default_rng([self.rule.seed, number])
        tree = network._tree_network()
        edges = [tree._plan().edge(name) for name in network.names]
        codes = tree._assignments(evidence.take(open_rows)).sampled(edges, self.draws, generator)
        weights = np.concatenate(
            [evidence.row_weights[closed], np.repeat(evidence.row_weights[open_rows] / self.draws, self.draws)]
        )
        known = evidence.codes[closed].astype(codes.dtype) if self._all_seen else codes[:0]
        whole = np.asfortranarray(np.concatenate([known, codes]))
        return Evidence.of_codes(self.table.names, whole.astype(code_type(max(self.table.sizes))), weights)

    @property
    def _all_seen(self) -> bool:
        """Whether no variable is hidden."""
        return len(self.table.evidence.columns) == len(self.table.names)

    def _value(self, network: BayesianNetwork, parents: Parents, scores: FamilyScores, drawn: Evidence) -> float:
        """Return the score of the observed values under a structure with its tables."""
        tree, weights = network._tree_network(), self.table.evidence.row_weights
        seen = tree.propagate(self.table.evidence, keep=[], parts=["likelihood"]).log_likelihood
        observed = float(weights[weights > 0] @ seen[weights > 0])
        if scores.penalty:
            return observed - scores.penalty * sum(
                scores.parent_states(some) * (size - 1) for some, size in zip(parents, self.table.sizes, strict=True)
            )
        return scores.total(parents) - self._likelihood_of_drawn(network, drawn) + observed

    def _likelihood_of_drawn(self, network: BayesianNetwork, drawn: Evidence) -> float:
        """Return the log-likelihood of complete rows under the tables of a network."""
        total = 0.0
        for name in network.names:
            scope = [network.index[one] for one in network.scope(name)]
            shape = [self.table.sizes[one] for one in scope]
            cells = np.ravel_multi_index(tuple(drawn.codes[:, one].astype(np.int64) for one in scope), shape)
            counts = np.bincount(cells, drawn.row_weights, minlength=prod(shape))
            table = network.table(name).ravel()
            total += float(counts[counts > 0] @ np.log(table[counts > 0]))
        return total
