"""Exact search: the structure with the highest score, by dynamic programming (Silander and Myllymäki, 2006).

Some column comes last in the order of the best structure; it has the best parents among all others, and these have the
best structure of their own. For a subset S of the columns

    best(S) = max over v in S of best(S - v) + score of v with its best parents in S - v

Subsets are numbers with a bit for each column. Scores of families are differences of sums over joint states of subsets
(`fgrn.engines.family_table`), so that 2 ** columns tables are counted, and not one for every family.
"""

from __future__ import annotations

import numpy as np

from ..core.exceptions import LearningError, Remedy
from .arc_rules import ArcRules
from .climbing import Parents
from .scores import MOST_FAMILY_CELLS, FamilyScores

MOST_COLUMNS = 20
"""The most columns of an exact search: the arrays for more take over a gigabyte."""


def best_structure(scores: FamilyScores, rules: ArcRules) -> Parents:
    """Return the parents of each column in the structure with the highest score under rules on arcs."""
    count = len(scores.sizes)
    if count > MOST_COLUMNS:
        raise LearningError(
            f"An exact search goes through all subsets of columns, of which there are too many: {count} columns, and "
            f"at most {MOST_COLUMNS} are possible.",
            remedies=Remedy("search step by step", method="order"),
        )
    families = _best_families(scores, rules, count)
    best, last = np.full(2**count, -np.inf), np.full(2**count, -1, dtype=np.int8)
    best[0] = 0.0
    sizes = np.bitwise_count(np.arange(2**count))
    for size in range(1, count + 1):
        subsets = np.flatnonzero(sizes == size)
        for column in range(count):
            mine = subsets[(subsets >> column) & 1 == 1]
            rest = mine ^ (1 << column)
            found = best[rest] + families[column][rest]
            better = found > best[mine]
            best[mine[better]], last[mine[better]] = found[better], column
    if not np.isfinite(best[-1]):
        raise LearningError("No structure keeps all rules for arcs with tables of a size that can be counted.")
    parents: list[frozenset[int]] = [frozenset()] * count
    subset = 2**count - 1
    while subset:
        column = int(last[subset])
        subset ^= 1 << column
        parents[column] = _smallest_parents(families[column], subset)
    return tuple(parents)


def _best_families(scores: FamilyScores, rules: ArcRules, count: int) -> list[np.ndarray]:
    """Return, for each column and subset, the score of the best parents within the subset; -inf if there are none."""
    rule, sizes = scores.rule, scores.sizes
    kinds = sorted(set(sizes.tolist()))
    equivalent = rule.name == "bdeu"
    own = 0 if rule.term == "likelihood" or equivalent else 1  # else the prior of joint states depends on the child
    prior = rule.equivalent_size if equivalent else float(rule.cell_priors(np.ones(1))[0])
    priors = np.array([prior, *([prior * kind for kind in kinds] if own else [])])
    sums = scores.table.subsets(priors, equivalent, min(count, rules.most + 1))
    every = np.arange(2**count)
    states = np.ones(2**count)
    for column in range(count):
        states[(every >> column) & 1 == 1] *= sizes[column]
    size = np.bitwise_count(every)
    found = []
    for column in range(count):
        bit = 1 << column
        allowed = sum(1 << int(parent) for parent in np.flatnonzero(rules.allowed[:, column]))
        required = sum(1 << int(parent) for parent in np.flatnonzero(rules.required[:, column]))
        joint = sums[1 + kinds.index(int(sizes[column])) if own else 0]
        best = sums[0][every | bit] - joint - scores.penalty * states * (sizes[column] - 1)
        wrong = (every & ~allowed != 0) | (every & required != required) | (size > rules.most)
        best[wrong | (states * sizes[column] > MOST_FAMILY_CELLS)] = -np.inf
        shaped = best.reshape([2] * count)  # the first axis is that of the last column
        for axis in range(count):
            with_it = shaped.swapaxes(0, axis)
            np.maximum(with_it[1], with_it[0], out=with_it[1])
        found.append(best)
    return found


def _smallest_parents(best: np.ndarray, subset: int) -> frozenset[int]:
    """Return the smallest subset whose score is that of the best one within a subset."""
    bits = [bit for bit in range(subset.bit_length()) if subset >> bit & 1]
    for bit in bits:
        if best[subset ^ 1 << bit] == best[subset]:
            subset ^= 1 << bit
    return frozenset(bit for bit in bits if subset >> bit & 1)
