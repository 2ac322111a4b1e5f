"""Marginal MAP (the most probable states of some variables, summing over the others), and the k best assignments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import EvidenceError, ImpossibleEvidence, Remedy
from ..core.labels import labels_of_codes
from ..core.settings import Name
from ..core.variable import Variable
from ..queries.questions import MostProbable
from ..tables import frames
from ..tables.missing import is_missing_value

MOST_JOINT_STATES = 2**26
"""Joint states of the variables whose most probable states are asked for."""


class AssignmentQueries:
    """Queries for the most probable states of a model."""

    @abstractmethod
    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""

    @abstractmethod
    def joint(self, evidence: frames.Data, names: Sequence[Name]) -> np.ndarray:
        """Return the joint distribution of some variables in each row."""

    @abstractmethod
    def most_probable(self, evidence: frames.Data = None, *, names: Collection[Name] | None = None) -> MostProbable:
        """Return the most probable joint states of all variables."""

    def map(self, targets: Name | Sequence[Name], given: frames.Data = None) -> MostProbable:
        """Return the most probable joint states of some variables, summed over the others (marginal MAP).

        For one row of plain values the answer has plain labels, for a table a column of each. The log-probability is
        that of these states given the evidence. `most_probable` is another question: the states of all variables.

        Args:
            targets: the variables, or one of them.
            given: the evidence, see `propagate`.
        """
        names = [targets] if isinstance(targets, (str, Variable)) else list(targets)
        wanted = [self.variable(name) for name in names]
        states = prod(variable.cardinality for variable in wanted)
        if states > MOST_JOINT_STATES:
            raise EvidenceError(
                f"The {len(wanted)} variables have {states:,} joint states, and the most probable of at most "
                f"{MOST_JOINT_STATES:,} can be found.",
                remedies=("ask for fewer", "ask for the most probable states of all variables (`most_probable`)"),
            )
        belief = self.joint(given, [variable.name for variable in wanted])
        flat = belief.reshape(len(belief), states)
        best = flat.argmax(axis=1)
        codes = np.unravel_index(best, belief.shape[1:])
        logarithm = np.log(flat[np.arange(len(belief)), best])
        labels: dict[str, Any] = {
            variable.name: labels_of_codes(variable.labels, column)
            for variable, column in zip(wanted, codes, strict=True)
        }
        if frames.is_one_row(given):
            return MostProbable({name: column.tolist()[0] for name, column in labels.items()}, float(logarithm[0]))
        return MostProbable(labels, logarithm)

    def most_probable_k(self, k: int, evidence: frames.Data = None) -> list[MostProbable]:
        """Return the k most probable assignments of all unknown variables, most probable first (Nilsson, 1998).

        There are fewer of them if fewer are possible. The log-probability is that of the assignment with the evidence.

        Args:
            k: how many.
            evidence: one row; see `propagate`.
        """
        settings.whole("k", k, 1)
        if not frames.is_one_row(evidence):
            raise EvidenceError(
                "The k most probable assignments are computed for one row of evidence.",
                remedies=Remedy("give one value for each variable", "{'a': 'yes'}"),
            )
        given = frames.columns(evidence)
        names = list(self.most_probable(evidence).labels)
        free = [name for name in names if name not in given or is_missing_value(given[name])]
        ticket = count()  # of equals the first that was found comes first
        heap: list[tuple[float, int, int, MostProbable, dict[str, np.ndarray]]] = []

        def push(limits: dict[str, np.ndarray], begin: int) -> None:
            """Add the best assignment among those that the evidence weights allow."""
            try:
                found = self.most_probable({name: [value] for name, value in {**given, **limits}.items()} or None)
            except ImpossibleEvidence:  # nothing is left
                return
            labels = {name: np.ravel(column)[0:1].tolist()[0] for name, column in found.labels.items()}
            value = float(np.ravel(found.log_probability)[0])
            heappush(heap, (-value, next(ticket), begin, MostProbable(labels, value), limits))

        push({}, 0)
        out: list[MostProbable] = []
        while heap and len(out) < k:
            _, _, begin, found, limits = heappop(heap)
            out.append(found)
            fixed = dict(limits)
            for place in range(begin, len(free)):  # the others: equal up to a variable, and different there
                variable = self.variable(free[place])
                code = variable.code(found.labels[variable.name])
                weights = limits.get(variable.name, np.ones(variable.cardinality)).copy()
                weights[code] = 0
                if weights.any():
                    push({**fixed, variable.name: weights}, place)
                fixed[variable.name] = np.eye(variable.cardinality)[code]
        return out
