"""Bootstrap confidence of arcs: the share of resampled tables in which each arc is found.

Samples have as many rows as the table, drawn with replacement (Friedman, Goldszmidt and Wyner, 1999). An arc that may
have either direction in the equivalence class of the structure found, and by the rules for arcs, counts half for each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core import printing, settings
from ..core.exceptions import LearningError, counted, visible
from ..core.settings import Name
from ..learning.convergence import warn_of_record
from ..tables import frames
from .bayesian import BayesianNetwork
from .directed_graph import equivalence_class
from .structural_em import EPOCHS
from .structure_search import SearchPlan, SearchSettings, StoppingWatch, StructureTable

DECIDED = 0.75
"""The share of directions from which an arc has this direction in the network: that of an arc with it in half of the
samples, and without a direction in the others."""


class ArcShare(NamedTuple):
    """An arc, the share of samples in which its ends are neighbours, and the share of these with this direction."""

    parent: str
    child: str
    strength: float
    direction: float


@dataclass(frozen=True, eq=False)
class ArcConfidence:
    """The bootstrap confidence of every possible arc; `network()` returns the network of the frequent arcs.

    Attributes:
        names: of the variables.
        shares: (parents, children) the share of the samples with this arc.
        samples: how many samples the shares are of: fewer than were asked for if `watch` ended the search.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    samples: int
    _table: StructureTable = field(repr=False)
    _plan: SearchPlan = field(repr=False)

    def strength(self, one: Name, other: Name) -> float:
        """Return the share of the samples in which two variables are neighbours."""
        a, b = self._number(one), self._number(other)
        return float(self.shares[a, b] + self.shares[b, a])

    def arc(self, parent: Name, child: Name) -> ArcShare:
        """Return the confidence of one arc; the share of its direction is 0.5 where no sample has its ends joined."""
        one, other = (self._table.blank.variable(name).name for name in (parent, child))
        strength = self.strength(one, other)
        share = self.shares[self._table.blank.index[one], self._table.blank.index[other]]
        return ArcShare(one, other, strength, float(share / strength) if strength else 0.5)

    def arcs(self, threshold: float = 0.5) -> list[ArcShare]:
        """Return the arcs between neighbours in at least a share of the samples, in their more frequent direction.

        The strongest come first. An arc that would close a circle with stronger ones, or give its child more than
        `max_parents`, has the other direction, or is left out where that is not allowed either. A direction of share
        0.5 is not determined by the samples, and `network` may have the other one.
        """
        kept = self._plan.rules.without_cycles(self._frequent_arcs(threshold))
        return [self.arc(self.names[one], self.names[other]) for one, other in kept]

    def network(self, threshold: float = 0.5) -> BayesianNetwork:
        """Return the averaged network: its arcs join neighbours in at least a share of the samples.

        Where three quarters of the directions agree, an arc has this direction. The method of the samples determines
        the others: it searches the best network on the whole table, with the same rules, among these arcs (method "pc"
        makes no new collider). Arcs that it leaves out are added in the direction that makes the smaller table. `watch`
        is not called.
        """
        frequent = self._frequent_arcs(threshold)
        allowed = np.zeros(self.shares.shape, dtype=bool)
        for one, other in frequent:
            allowed[one, other] = allowed[other, one] = True
        direction = [self.arc(self.names[one], self.names[other]).direction for one, other in frequent]
        decided = [arc for arc, share in zip(frequent, direction, strict=True) if round(share, 12) >= DECIDED]
        for one, other in {*decided} & {*self._plan.rules.without_cycles(decided)}:
            allowed[other, one] = False
        network = self._plan.among(allowed).run(self._table)
        found = [(self._number(parent), self._number(child)) for parent, child in network.arcs]
        left = [arc for arc in frequent if arc not in found and arc[::-1] not in found]
        if left:
            parents = self._with_arcs(found, left, {*decided})
            network = self._plan.learnt(self._table, parents)
        warn_of_record(network.trained[-1], EPOCHS)
        return network

    def _number(self, name: Name) -> int:
        """Return the number of a variable."""
        return self._table.blank.index[self._table.blank.variable(name).name]

    def _with_arcs(
        self, found: Sequence[tuple[int, int]], more: Sequence[tuple[int, int]], decided: Collection[tuple[int, int]]
    ) -> tuple[frozenset[int], ...]:
        """Return the parents of all variables with more arcs, the smaller table of both directions if undecided."""
        sizes = [self._table.blank.variable(name).cardinality for name in self.names]
        kept = list(found)
        for one, other in more:
            cells = [
                sizes[child] * prod(sizes[a] for a, b in [*kept, (parent, child)] if b == child)
                for parent, child in ((one, other), (other, one))
            ]
            turned = (one, other) not in decided and cells[1] < cells[0]
            kept = self._plan.rules.without_cycles([*kept, (other, one) if turned else (one, other)])
        return tuple(
            frozenset(parent for parent, child in kept if child == number) for number in range(len(self.names))
        )

    def _frequent_arcs(self, threshold: float) -> list[tuple[int, int]]:
        """Return the more frequent arc of all pairs that reach a threshold: required ones, then the strongest first."""
        settings.number("threshold", threshold, LearningError)
        if threshold > 1:
            raise LearningError(
                f"is a share of the samples, from 0 to 1. Got {threshold!r} instead.",
                setting="threshold",
                value=threshold,
            )
        both = np.round(self.shares + self.shares.T, 12)
        pairs = [
            (a, b) for a in range(len(both)) for b in range(a + 1, len(both)) if both[a, b] >= max(threshold, 1e-12)
        ]
        required = self._plan.rules.required
        must = required | required.T  # these come first, so that no other takes their place
        pairs.sort(key=lambda pair: (not must[pair], -both[pair], pair))
        return [(a, b) if self.shares[a, b] >= self.shares[b, a] else (b, a) for a, b in pairs]

    def __repr__(self) -> str:
        rows = [[one.parent, "->", one.child, f"{one.strength:.2f}", f"{one.direction:.2f}"] for one in self.arcs()]
        heading = f"Arcs in half of {counted(self.samples, 'sample')} or more"
        table = printing.text_table(
            ["parent", "", "child", "strength", "direction"], rows, 5, 2, printing.terminal_width()
        )
        return visible(f"{heading}\n{table}" if rows else f"{heading}: none", lines=True)


def arc_confidence(
    data: frames.Data,
    samples: int = 100,
    score: str = "bic",
    method: str = "order",
    *,
    seed: int = 0,
    **options: Any,
) -> ArcConfidence:
    """Estimate the confidence of each arc by searching structures in samples of the rows, drawn with replacement.

    Args:
        data: the rows, see `search`.
        samples: how many samples are drawn. Rows are drawn as often as their weights say.
        score: of structures.
        method: of the search.
        seed: of everything random.
        **options: the other settings of `search`. `watch` is called after each sample, too; when it returns True, the
            confidence is that of the samples that were finished.
    """
    settings.whole("samples", samples, 1, LearningError)
    for name in options.keys() - SearchSettings.__dataclass_fields__.keys():
        raise TypeError(f"arc_confidence() got an unexpected keyword argument {name!r}")
    table, plan = SearchSettings(score=score, method=method, seed=seed, **options).prepared(data)
    random = np.random.default_rng(seed)
    share = table.evidence.row_weights / table.evidence.weight
    rows = max(2, round(table.evidence.weight))
    total = np.zeros((len(table.names),) * 2)
    watch = StoppingWatch(plan.method.watch or (lambda *_: None))
    searching = replace(plan, method=replace(plan.method, watch=watch))
    finished = 0
    for _ in range(samples):
        drawn = table.weighted(random.multinomial(rows, share).astype(np.float64))
        network = searching.run(drawn)
        if watch.stopped:  # it is not finished
            break
        graph = equivalence_class(network.parents_of_all)
        for arc in network.arcs:
            one, other = (network.index[end] for end in arc)
            fixed = arc in graph.arcs or plan.rules.required[one, other] or not plan.rules.allowed[other, one]
            total[one, other] += 1.0 if fixed else 0.5
            total[other, one] += 0.0 if fixed else 0.5
        finished += 1
        record = network.search_record
        if record is not None and watch(len(record.moves), record.score):
            break
    if not finished:
        raise LearningError(
            "The search was stopped before its first sample was finished, and confidences are shares of samples.",
            remedies="let it finish one or more",
        )
    return ArcConfidence(table.names, total / finished, finished, table, plan)
