"""Interventions: networks in which some variables are set, and adjustment sets (Pearl, 2009)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, FgrnWarning, Remedy, warn
from ..core.labels import Label, is_number
from ..core.settings import Name
from ..tables import frames
from .directed_graph import DirectedGraph, children_of, closure, d_connected

if TYPE_CHECKING:
    from .bayesian import BayesianNetwork

MOST_SETS = 10_000
"""Sets of variables that are tried, smallest first."""


class Interventions(DirectedGraph):
    """Queries about interventions on a Bayesian network, whose arcs are taken as causal."""

    def do(self, states: Mapping[Any, Label] | None = None, /, **more: Label) -> BayesianNetwork:
        """Return the network after an intervention: some variables are set to states, and the arcs to them are cut.

        `net.do(treatment="yes").posterior({"age": "old"}, "recovers")` is the distribution of an effect among the old
        under the intervention. Evidence holds after it.

        Args:
            states: the state of each variable that is set, as a mapping by name.
            more: the same as keyword arguments, for names that are Python identifiers.
        """
        from .bayesian import BayesianNetwork

        given = settings.by_name(states, self.variable)
        twice = next((name for name in more if name in given), None)
        if twice is not None:
            raise FgrnError(f"{twice!r} is set twice.", value=twice, remedies="leave out one of them")
        given |= more
        if not given:
            raise FgrnError("An intervention sets at least one variable.", remedies="name it: do(x='yes')")
        whole = self._network()
        codes = {self.variable(name).name: self.variable(name).code(state) for name, state in given.items()}
        parents = {name: () if name in codes else some for name, some in self.parents_of_all.items()}
        tables = {
            name: np.eye(self.variable(name).cardinality)[[codes[name]]] if name in codes else whole.table(name)
            for name in self.names
        }
        ties = {part.name: part.tie for part in whole._given if part.tie is not None and part.name not in codes}
        changed = BayesianNetwork(
            whole.variables, parents, tables, ties=ties, name=whole.name, properties=whole.properties
        )
        changed.memory_limit = whole.memory_limit
        counts = {name: whole._row_totals(name) for name in self.names if name not in codes}
        changed._restore_counts({name: some for name, some in counts.items() if some is not None})
        changed._learnt_by = whole
        return changed

    def _network(self) -> BayesianNetwork:
        return self  # type: ignore[return-value]  # it is a part of that class

    def adjustment_sets(
        self, cause: Name, effect: Name, *, observed: Collection[Name] | None = None, most: int = 10
    ) -> list[frozenset[str]]:
        """Return the smallest sets of variables that block all backdoor paths from a cause to an effect.

        Adjusting for such a set gives the effect of the cause from observations: none of it descends from the cause,
        and it d-separates the two where the arcs out of the cause are cut. Sets that hold a smaller one are left out.
        An empty list: there is no such set among the observed variables. A warning tells if there are so many sets that
        not all were tried; one set that works is found nevertheless.

        If a set works at all, all observed ancestors of cause or effect do that do not descend from the cause; and sets
        without needless variables consist of such ancestors (van der Zander et al., 2014).

        Args:
            cause: the variable that is set.
            effect: the variable that may change.
            observed: variables that can be adjusted for; all others unless given.
            most: how many sets to return.
        """
        one, other = self._two(cause, effect)
        settings.whole("most", most, 1)
        above = {*self.ancestors(one), *self.ancestors(other)}
        allowed = self._allowed(observed) & above - {one, other} - set(self.descendants(one))
        cut = {name: tuple(p for p in some if p != one) for name, some in self.parents_of_all.items()}

        def works(some: frozenset[str]) -> bool:
            return other not in d_connected(cut, [one], some)

        whole = frozenset(allowed)
        return self._smallest_sets(allowed, most, works, whole) if works(whole) else []

    def frontdoor_sets(
        self, cause: Name, effect: Name, *, observed: Collection[Name] | None = None, most: int = 10
    ) -> list[frozenset[str]]:
        """Return the smallest sets that carry the whole effect of a cause, without open backdoor paths.

        Args:
            cause: the variable that is set.
            effect: the variable that may change.
            observed: variables that can be in a set; all others unless given.
            most: how many sets to return.
        """
        one, other = self._two(cause, effect)
        settings.whole("most", most, 1)
        between = set(self.descendants(one)) & set(self.ancestors(other)) & self._allowed(observed)
        parents = self.parents_of_all

        def works(some: frozenset[str]) -> bool:
            children = children_of({name: () if name in some else above for name, above in parents.items()})
            if not some or other in closure([one], children):
                return False  # a directed path that misses the set
            cut = {name: tuple(p for p in above if p != one) for name, above in parents.items()}
            if some & d_connected(cut, [one], ()):
                return False
            below = {name: tuple(p for p in above if p not in some) for name, above in parents.items()}
            return other not in d_connected(below, some, [one])

        return self._smallest_sets(between, most, works)

    def average_effect(self, cause: Name, effect: Name, given: frames.Data = None) -> np.ndarray:
        """Return the distribution of an effect for each state that a cause is set to: (cause states, effect states).

        Args:
            cause: the variable that is set.
            effect: the variable that may change.
            given: one row of evidence, which holds after the intervention; see `do`.
        """
        one, other = self._two(cause, effect)
        rows = [self.do({one: label}).posterior(given, other) for label in self.variable(one).labels]
        if any(len(row) != 1 for row in rows):
            raise FgrnError("The average effect is computed given one row of evidence.", remedies="give one value each")
        return np.concatenate(rows)

    def average_treatment_effect(
        self, cause: Name, effect: Name, states: tuple[Label, Label] | None = None, given: frames.Data = None
    ) -> float:
        """Return the expected change of a numeric effect if a cause is set to one state instead of another.

        Labels of the effect that are numbers count as these, others as 0, 1, 2, ...

        Args:
            cause: the variable that is set.
            effect: the variable that may change.
            states: the state it is set to, and the one to compare with; its last and its first unless given.
            given: one row of evidence.
        """
        variable, target = self.variable(cause), self.variable(effect)
        labels = target.labels
        if states is not None and (not isinstance(states, (tuple, list)) or len(states) != 2):
            raise FgrnError(
                f"'states' are two states of {variable.name!r}: the one it is set to, and one to compare with. "
                f"Got {states!r}.",
                remedies=Remedy("name evidence", given=...),
            )
        values = [float(x) for x in labels] if all(map(is_number, labels)) else range(len(labels))
        to, against = (variable.labels[-1], variable.labels[0]) if states is None else states
        means = self.average_effect(cause, effect, given) @ np.array(values)
        return float(means[variable.code(to)] - means[variable.code(against)])

    def _two(self, cause: Name, effect: Name) -> tuple[str, str]:
        one, other = self.variable(cause).name, self.variable(effect).name
        if one == other:
            raise FgrnError(f"Cause and effect are both {one!r}.", remedies="name two variables")
        return one, other

    def _allowed(self, observed: Collection[Name] | None) -> set[str]:
        return set(self.names) if observed is None else self._several(observed)

    def _smallest_sets(
        self, allowed: Collection[str], most: int, works: Any, known: frozenset[str] | None = None
    ) -> list[frozenset[str]]:
        """Return the minimal sets that satisfy a condition; warns if not all could be tried.

        If none of those that were tried works, it is the set known to work less all that it does not need.
        """
        names = [name for name in self.names if name in allowed]
        found: list[frozenset[str]] = []
        tried = 0
        for size in range(len(names) + 1):
            for some in map(frozenset, combinations(names, size)):
                if any(smaller <= some for smaller in found):
                    continue
                if tried >= MOST_SETS:
                    return self._cut_list(found, works, known)
                tried += 1
                if works(some):
                    found.append(some)
                if len(found) >= most:
                    return found
        return found

    def _cut_list(self, found: list[frozenset[str]], works: Any, known: frozenset[str] | None) -> list[frozenset[str]]:
        """Return the sets found when the search is ended early, or one set known to work, with a warning."""
        remedy = Remedy("name the variables that can be in a set", observed=...)
        if not found and known is None:
            raise FgrnError(f"None of the {MOST_SETS:,} smallest sets is valid; no more are tried.", remedies=remedy)
        warn(
            f"Only the {MOST_SETS:,} smallest sets of variables were tried: there may be further valid sets.",
            FgrnWarning,
            remedies=remedy,
        )
        if not found and known is not None:
            for name in self.names:
                if name in known and works(known - {name}):
                    known -= {name}
            found = [known]
        return found
