"""Scores of structures (BIC, AIC, BDeu, K2, held-out log-likelihood), as sums over families.

With N rows, N_ijk of them in which variable i has state k and its parents joint state j, N_ij = sum over k, r_i states
and q_i joint states of the parents, in natural logarithms:

    bic              sum N_ijk log(N_ijk / N_ij) - log(N) / 2 * sum q_i (r_i - 1)              Schwarz (1978)
    aic              sum N_ijk log(N_ijk / N_ij) - sum q_i (r_i - 1)                           Akaike (1974)
    bdeu             sum log Gamma(a / q_i) - log Gamma(N_ij + a / q_i)
                     + sum log Gamma(N_ijk + a / (q_i r_i)) - log Gamma(a / (q_i r_i))         Heckerman et al. (1995)
    k2               the same with prior counts of 1 for a cell and r_i for a joint state      Cooper, Herskovits (1992)
    log_likelihood   sum M_ijk log((N_ijk + s) / (N_ij + s r_i)): of rows M held out, under tables of the others

a is the equivalent sample size, s the smoothing. Structures are equally probable a priori.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, prod

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError
from ..engines.family_table import FamilyTable
from ..flow.equal_rows import merged
from ..tables.encoded import Evidence

SCORES = ("bic", "aic", "bdeu", "k2", "log_likelihood")

MOST_FAMILY_CELLS = 2**24
"""The most cells of the table of a variable given its parents (128 MB); larger families are not considered."""

NO_COLUMN = np.array([-1])


@dataclass(frozen=True)
class ScoreRule:
    """The score and its settings; the formulas are in the module docstring.

    Attributes:
        name: one of SCORES.
        equivalent_size: a of "bdeu": how many rows the prior stands for.
        held_out: the share of the rows that "log_likelihood" holds out, drawn at random.
        smoothing: s of "log_likelihood", there more than 0; and of the tables that are learnt.
        seed: of the draw.
    """

    name: str = "bic"
    equivalent_size: float = 1.0
    held_out: float = 0.2
    smoothing: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        settings.choice("score", self.name, SCORES, LearningError)
        for name, value, below in (
            ("equivalent_size", self.equivalent_size, np.inf),
            ("held_out", self.held_out, 1.0),
            ("smoothing", self.smoothing, np.inf),
        ):
            settings.number(name, value, LearningError, below)
            if not value and (name != "smoothing" or self.name == "log_likelihood"):
                raise LearningError("must be more than 0.", setting=name, value=value)
        settings.whole("seed", self.seed, 0, LearningError)

    @property
    def term(self) -> str:
        """The term that is summed over cells; see `fgrn.engines.family_table`."""
        if self.name == "log_likelihood":
            return "held out"
        return "likelihood" if self.name in ("bic", "aic") else "dirichlet"

    def penalty(self, weight: float) -> float:
        """The penalty for every free parameter."""
        return {"bic": max(0.0, log(weight) / 2), "aic": 1.0}.get(self.name, 0.0)

    def cell_priors(self, cells: np.ndarray) -> np.ndarray:
        """Return the prior count of each cell of tables with these numbers of cells."""
        if self.name == "bdeu":
            return self.equivalent_size / cells
        return np.full(len(cells), self.smoothing if self.name == "log_likelihood" else 1.0)


def refuse_large_families(
    names: Sequence[str], sizes: Sequence[int], parents: Sequence[frozenset[int]], remedy: str
) -> None:
    """Raise an error if a column has too many joint states with its parents to be counted."""
    for child, some in enumerate(parents):
        cells = prod(sizes[one] for one in (child, *some))
        if cells > MOST_FAMILY_CELLS:
            raise LearningError(
                f"The table of {names[child]!r} given {', '.join(repr(names[one]) for one in sorted(some))} would have "
                f"{cells:,} cells, and at most {MOST_FAMILY_CELLS:,} are counted.",
                value=names[child],
                remedies=remedy,
            )


class FamilyScores:
    """Scores of families (a child and its parents) on the rows of a table; each is computed once and cached."""

    def __init__(self, table: FamilyTable, rule: ScoreRule, weight: float) -> None:
        self.table, self.rule = table, rule
        self.sizes = table.sizes
        self.penalty = rule.penalty(weight)
        self._one: dict[tuple[int, frozenset[int]], float] = {}
        self._more: dict[tuple[int, frozenset[int]], np.ndarray] = {}
        self.counted = 0

    @classmethod
    def of(cls, evidence: Evidence, sizes: Sequence[int], rule: ScoreRule, threads: int | None = None) -> FamilyScores:
        """Return the scores of a complete table of codes, stored by column; `sizes` are the numbers of states."""
        if rule.name != "log_likelihood":
            evidence = merged(evidence) or evidence
        order = np.flatnonzero(evidence.row_weights > 0)
        train = len(order)
        if rule.name == "log_likelihood":
            order = np.random.default_rng(rule.seed).permutation(order)
            train -= max(1, round(rule.held_out * len(order)))
        all_rows = len(order) == evidence.rows and train == len(order)
        codes = np.ascontiguousarray((evidence.codes if all_rows else evidence.codes[order]).T)
        weights = evidence.row_weights[order]
        equal = len(weights) and (weights == weights[0]).all()
        table = FamilyTable(
            codes, np.array(sizes, dtype=np.int64), weights[:1].copy() if equal else np.ascontiguousarray(weights),
            train, rule.term, threads,
        )  # fmt: skip
        return cls(table, rule, evidence.weight)

    def parent_states(self, parents: frozenset[int]) -> int:
        """Return the number of joint states of some columns."""
        return prod(self.sizes[list(parents)].tolist())

    def score(self, child: int, parents: frozenset[int]) -> float:
        """Return the score of a family; minus infinity if its table would be too large."""
        key = child, parents
        if key not in self._one:
            for last in parents:  # counted already as one parent more than the others
                beside = self._more.get((child, parents - {last}))
                if beside is not None and beside[last] > -np.inf:
                    self._one[key] = float(beside[last])
                    return self._one[key]
            states = self.parent_states(parents)
            cells = states * self.sizes[child]
            if cells > MOST_FAMILY_CELLS:
                return -np.inf
            found = self.table.scores(child, sorted(parents), NO_COLUMN, self.rule.cell_priors(np.array([cells])))[0]
            self.counted += 1
            self._one[key] = float(found) - self.penalty * states * (self.sizes[child] - 1)
        return self._one[key]

    def with_one_more(self, child: int, parents: frozenset[int], allowed: np.ndarray) -> np.ndarray:
        """Return the scores of a family with each column as another parent, (columns,); -inf if not allowed.

        `allowed` depends on the child alone.
        """
        key = child, parents
        if key not in self._more:
            out = np.full(len(self.sizes), -np.inf)
            states = float(self.parent_states(parents)) * self.sizes
            cells = states * self.sizes[child]
            possible = allowed & (cells <= MOST_FAMILY_CELLS)
            possible[[child, *parents]] = False
            columns = np.flatnonzero(possible)
            if len(columns):
                priors = self.rule.cell_priors(cells[columns])
                found = self.table.scores(child, sorted(parents), columns, priors)
                out[columns] = found - self.penalty * states[columns] * (self.sizes[child] - 1)
                self.counted += len(columns)
            self._more[key] = out
        return self._more[key]

    def total(self, parents: Sequence[frozenset[int]]) -> float:
        """Return the score of a structure, given by the parents of each column."""
        return float(sum(self.score(child, some) for child, some in enumerate(parents)))
