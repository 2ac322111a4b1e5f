"""InfluenceDiagram: a Bayesian network with decisions and utilities, and its optimal policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import settings
from ..core.distributions import frozen_array
from ..core.exceptions import (
    EvidenceError,
    TableError,
    WiringError,
    counted,
    unknown_name,
    visible,
)
from ..core.labels import Label
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.evidence import encode
from ..flow.history import History
from ..tables import frames
from .bayesian import BayesianNetwork
from .decision_elimination import DecisionStage, DecisionTable, EliminationResult, TableRoom, eliminate
from .decision_order import check_order_of_time, in_order_of_time, with_actions, with_open_decisions
from .directed_graph import children_of, closure
from .document import Document, WrittenTable
from .elimination import hard_and_soft
from .limited_memory import LimitedMemory, LimitedSolution
from .policies import InformationValue, Policy, Solution

Utilities = Mapping[str, tuple[Sequence[Name], ArrayLike]]
"""By name: the variables that a utility depends on, and its values, with an axis for each of them."""


class InfluenceDiagram:
    """A Bayesian network with decisions and utilities; the total utility is the sum of all utilities.

    What is known at a decision is known at all later ones, and so are earlier decisions (no forgetting), unless `solve`
    is called with `limited_memory`.

    Args:
        network: the chance variables, and decisions that they depend on. The table of a decision, and arcs to it, are
            left out.
        decisions: in the order of time, by name: the variables that become known before each decision.
        utilities: by name: the variables that each depends on, and its values, an axis for each of these.
        actions: the states of decisions that are not in the network.
    """

    def __init__(
        self,
        network: BayesianNetwork,
        decisions: Mapping[Any, Sequence[Name]],
        utilities: Utilities,
        *,
        actions: Mapping[str, int | Sequence[Label]] | None = None,
    ) -> None:
        if not isinstance(network, BayesianNetwork):
            raise WiringError(
                f"An InfluenceDiagram is made of a BayesianNetwork. Got a {type(network).__name__}.",
                remedies="put the chance variables and their tables into one",
            )
        if not isinstance(decisions, Mapping):
            raise WiringError(
                f"The decisions are given by name, in the order of time. Got {decisions!r} instead.",
                remedies="write {'decision': ['what becomes known before it'], ...}",
            )
        if not isinstance(utilities, Mapping):
            raise WiringError(
                f"The utilities are given by name. Got {utilities!r} instead.",
                remedies="write {'utility': (['a', 'b'], [[...], ...]), ...}",
            )
        named = settings.by_name(decisions, error=WiringError)
        if not named and not utilities:
            raise WiringError("An InfluenceDiagram needs a decision or a utility.", remedies="use the network alone")
        variables = with_actions(network, named, actions)
        self._seen = {
            name: settings.variable_names(f"decisions[{name!r}]", seen, WiringError) for name, seen in named.items()
        }
        for seen in self._seen.values():
            for name in seen:
                if name not in variables:
                    raise unknown_name("variable", name, variables)
        self.network = with_open_decisions(network, variables, self._seen)
        self._utilities = {name: self._checked_utility(name, given) for name, given in utilities.items()}
        check_order_of_time(self.network, self._seen)

    # Properties

    @property
    def name(self) -> str:
        """The name of the network."""
        return self.network.name

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, including decisions."""
        return self.network.variables

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variables, including decisions."""
        return self.network.names

    def variable(self, name: Name) -> Variable:
        """Return a variable or decision by name."""
        return self.network.variable(name)

    @property
    def decisions(self) -> tuple[str, ...]:
        """The names of the decisions, in the order of time."""
        return tuple(self._seen)

    @property
    def utilities(self) -> Mapping[str, DecisionTable]:
        """The utilities by name, each with its `scope` and `values`."""
        return dict(self._utilities)

    def information(self, decision: Name) -> tuple[str, ...]:
        """Return what is known at a decision: earlier observations and earlier decisions."""
        name = self._decision(decision)
        known: dict[str, None] = {}
        for one, seen in self._seen.items():
            known |= dict.fromkeys(seen)
            if one == name:
                break
            known[one] = None
        return tuple(known)

    def _decision(self, name: Name) -> str:
        found = self.variable(name).name
        if found not in self._seen:
            raise unknown_name("decision", found, self._seen)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InfluenceDiagram):
            return NotImplemented
        mine, theirs = self._utilities, other._utilities
        return (
            self.network == other.network
            and list(self._seen.items()) == list(other._seen.items())
            and list(mine) == list(theirs)
            and all(
                mine[name].scope == theirs[name].scope and np.array_equal(mine[name].values, theirs[name].values)
                for name in mine
            )
        )

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def __repr__(self) -> str:
        title = f"InfluenceDiagram {self.name!r}" if self.name else "InfluenceDiagram"
        chance = len(self.names) - len(self._seen)
        lines = [f"{title} of {counted(chance, 'chance variable')}, {counted(len(self._seen), 'decision')} and "
                 f"{counted(len(self._utilities), 'utility', 'utilities')}"]  # fmt: skip
        for name in self.names:
            if name not in self._seen and len(lines) < 40:
                above = ", ".join(self.network.parents(name))
                lines.append(f"  P({name} | {above})" if above else f"  P({name})")
        for name, seen in self._seen.items():
            lines.append(f"  decision {name}, after {', '.join(seen)}" if seen else f"  decision {name}")
        lines += [f"  utility {name}({', '.join(one.scope)})" for name, one in self._utilities.items()]
        return "\n".join(map(visible, lines))

    def _checked_utility(self, name: str, given: Any) -> DecisionTable:
        if not isinstance(name, str) or not name.strip() or name in self.network.names:
            raise WiringError(f"A utility must have a name that no variable has. Got {name!r}.", remedies="rename it")
        if not isinstance(given, Sequence) or len(given) != 2:
            raise TableError(
                f"The utility {name!r} is a pair: the variables it depends on, and its values. Got {given!r}.",
                remedies="write (['a', 'b'], [[...], ...])",
            )
        scope = settings.variable_names(f"utilities[{name!r}]", given[0], WiringError)
        sizes = tuple(self.variable(one).cardinality for one in scope)
        if len(set(scope)) < len(scope):
            raise WiringError(f"The utility {name!r} names a variable twice.", remedies="name each once")
        values = frozen_array(given[1], f"The utility {name!r}")
        if (
            values is None
            or values.size != np.prod(sizes, dtype=np.int64)
            or values.shape not in (sizes, (values.size,))
        ):
            raise TableError(
                f"The utility {name!r} must have the shape {sizes}, an axis for each of {', '.join(scope)}. "
                f"Got {np.shape(given[1])} instead."
            )
        if not np.isfinite(values).all():
            raise TableError(f"The utility {name!r} has a value that is not finite.", remedies="use a large number")
        return DecisionTable(scope, values.reshape(sizes))

    # Queries

    def solve(
        self, given: frames.Data = None, *, limited_memory: bool = False, starts: int = 10, seed: int = 0
    ) -> Solution:
        """Return the policies with the largest expected utility, and that utility.

        With nothing forgotten the solution is exact. With `limited_memory` it is where few policies are possible, or
        nothing that is forgotten matters; else a local optimum by single policy updating (Lauritzen and Nilsson, 2001):
        `Solution.exact` says which, and `Solution.bound` what could be reached at most.

        Args:
            given: one row of evidence, known before all decisions. A decision in it has been made already, and what
                depends on it may then be given, too.
            limited_memory: whether each decision knows only what is listed for it, and forgets what was known before
                (LIMID).
            starts: the number of initialisations of single policy updating.
            seed: of these.
        """
        settings.whole("starts", starts, 1)
        settings.whole("seed", seed, 0)
        states, weights = self._evidence(given)
        if limited_memory:
            found, bound = self._limited(states, weights, starts, seed)
        else:
            whole = self._eliminated(states, weights, self._seen)
            found, bound = LimitedSolution(whole.utility, whole.decisions, True), whole.utility
        policies = {
            name: Policy(self.variable(name), tuple(map(self.variable, one.scope[:-1])), one.values)
            for name, one in found.decisions.items()
        }
        ordered = {name: policies[name] for name in self._seen if name in policies}
        made = {name: self.variable(name).labels[states[name]] for name in self._seen if name in states}
        return Solution(found.utility, ordered, self.with_policies({**ordered, **made}), found.exact, bound)

    def _limited(
        self, states: Mapping[str, int], weights: Mapping[str, np.ndarray], starts: int, seed: int
    ) -> tuple[LimitedSolution, float | None]:
        """Return the best policies with limited memory, and the expected utility with perfect memory, if known."""
        free = {
            name: tuple(one for one in seen if one not in states)
            for name, seen in self._seen.items()
            if name not in states
        }
        bound = None
        with suppress(WiringError):  # its tables may be too large where those of single decisions are not
            whole = self._eliminated(states, weights, self._seen)
            bound = whole.utility
            if all(set(one.scope[:-1]) <= set(free[name]) for name, one in whole.decisions.items()):
                return LimitedSolution(bound, whole.decisions, True), bound
        chance = frozenset(name for name in self.names if name not in self._seen and name not in states)
        found = LimitedMemory(*self._tables(states, weights), free, chance).solve(starts, seed)
        reached = bound is not None and found.utility >= bound - 1e-9 * (1 + abs(bound))
        return found._replace(exact=found.exact or reached), bound

    def _tables(
        self, states: Mapping[str, int], weights: Mapping[str, np.ndarray]
    ) -> tuple[TableRoom, list[DecisionTable], list[DecisionTable]]:
        """Return the number of states of each variable, and the probabilities and utilities at known states."""
        sizes = {variable.name: variable.cardinality for variable in self.variables}
        probabilities = [
            DecisionTable(
                self.network.scope(name),
                self.network.table(name).reshape([sizes[one] for one in self.network.scope(name)]),
            )
            for name in self.names
            if name not in self._seen
        ]
        probabilities += [DecisionTable((name,), one) for name, one in weights.items()]
        room = TableRoom(sizes, self.network.memory_limit)
        return room, [one.at(states) for one in probabilities], [one.at(states) for one in self._utilities.values()]

    def _eliminated(
        self, states: Mapping[str, int], weights: Mapping[str, np.ndarray], seen: Mapping[str, Sequence[str]]
    ) -> EliminationResult:
        chance = [name for name in self.names if name not in self._seen]
        stages, known = [], set(states)
        before: str | None = None
        new: set[str] = set()
        for name, some in seen.items():
            new |= {one for one in some if one not in self._seen and one not in known}
            if name in states:
                continue  # made already: what was known at it is known at the next one
            stages.append(DecisionStage(before, frozenset(new)))
            known |= {*new, name}
            before, new = name, set()
        stages.append(DecisionStage(before, frozenset(set(chance) - known)))
        return eliminate(*self._tables(states, weights), stages)

    def _evidence(self, given: frames.Data) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """Return the states of one row of evidence by variable, and soft evidence; an error on decisions."""
        rows = encode(self.network, self.network._checked(given))
        if rows.rows != 1:
            raise EvidenceError(
                f"This query takes one row of evidence. Got {rows.rows:,} rows.",
                remedies="give one value for each variable",
            )
        _, hard, soft = hard_and_soft(rows, self.names)[0]
        index = self.network.index
        states = {name: int(rows.codes[0, rows.slot[index[name]]]) for name in self.names if name in hard}
        weights = {
            name: np.asarray(rows.weights(index[name], self.variable(name).cardinality)[0])
            for name in self.names
            if name in soft
        }
        free = [name for name in self._seen if name not in states]
        for name in free:
            if name in weights:
                raise EvidenceError(f"The decision {name!r} has one action.", column=name, remedies="name it")
            below = closure([name], children_of(self.network.parents_of_all)) - {name}
            for child in sorted(below & {*states, *weights}):
                raise EvidenceError(
                    f"it depends on the decision {name!r}, which is not made yet.",
                    column=child,
                    remedies=("give the decision, too", "leave it out"),
                )
        return states, weights

    def action_values(self, decision: Name, given: frames.Data = None) -> dict[Label, float]:
        """Return the expected utility of each action of a decision, if all other decisions are optimal.

        Args:
            decision: its name.
            given: one row of evidence, known before all decisions; see `solve`.
        """
        name = self._decision(decision)
        states, weights = self._evidence(given)
        if name in states:
            raise EvidenceError(f"The decision {name!r} is given already.", column=name, remedies="leave it out")
        return {
            label: float(self._eliminated({**states, name: code}, weights, self._seen).utility)
            for code, label in enumerate(self.variable(name).labels)
        }

    def value_of_information(
        self,
        decision: Name,
        given: frames.Data = None,
        *,
        candidates: Collection[Name] | None = None,
        costs: Mapping[Any, float] | None = None,
    ) -> list[InformationValue]:
        """Return the value of knowing each variable before a decision, most valuable first.

        The gain is the expected utility with the variable known at this decision and all later ones, less that
        without: never negative. Variables that depend on the decision cannot be known before it. Decisions forget
        nothing here: for those of limited memory (LIMID), compare `solve` of the diagram with and without the arc.

        Args:
            decision: its name.
            given: one row of evidence, known before all decisions; see `solve`.
            candidates: variables that can be observed; all that are neither known nor depend on the decision unless
                given.
            costs: of observing a variable, in units of utility; 0 unless given.
        """
        name = self._decision(decision)
        states, weights = self._evidence(given)
        prices = settings.by_name(costs, self.variable)
        for one, price in prices.items():
            self.variable(one)
            settings.number(f"costs[{one!r}]", price, EvidenceError)
        later = list(self._seen)[list(self._seen).index(name) :]
        behind = closure(later, children_of(self.network.parents_of_all))
        known = {*states, *self.information(name), *self._seen}
        listed = [one for one in self.names if one not in known and one not in behind]
        if candidates is not None:
            listed = list(settings.variable_names("candidates", candidates, own=self.variable))
        base = self._eliminated(states, weights, self._seen).utility
        found = []
        for one in listed:
            self.variable(one)
            if one in known or one in behind:
                why = "known already" if one in known else f"known only after the decision {name!r}"
                raise EvidenceError(
                    f"has {one!r}, which is {why}.", setting="candidates", value=one, remedies="leave it out"
                )
            more = {**self._seen, name: (*self._seen[name], one)}
            gain = max(0.0, float(self._eliminated(states, weights, more).utility - base))
            cost = float(prices.get(one, 0.0))
            found.append(InformationValue(one, gain, cost, gain - cost))
        return sorted(found, key=lambda one: -one.value)

    def with_policies(self, policies: Mapping[Any, Policy | Label]) -> BayesianNetwork:
        """Return the Bayesian network in which each decision follows a policy or a fixed action.

        Args:
            policies: by decision; actions of decisions that are not named have equal probabilities.
        """
        named = settings.by_name(policies, self.variable)
        parents = {name: tuple(some) for name, some in self.network.parents_of_all.items()}
        tables: dict[str, Any] = {name: self.network.table(name) for name in self.names}
        for name, policy in named.items():
            variable = self.variable(self._decision(name))
            if isinstance(policy, Policy):
                parents[name] = tuple(one.name for one in policy.depends_on)
                tables[name] = policy.table
            else:
                tables[name] = np.eye(variable.cardinality)[[variable.code(policy)]]
        changed = BayesianNetwork(self.variables, parents, tables, name=self.name, properties=self.network.properties)
        changed.memory_limit = self.network.memory_limit
        return changed

    def expected_utility(self, policies: Mapping[Any, Policy | Label], given: frames.Data = None) -> float:
        """Return the expected utility of given policies or actions.

        Args:
            policies: by decision, see `with_policies`.
            given: one row of evidence.
        """
        network = self.with_policies(policies)
        total = 0.0
        for one in self._utilities.values():
            if not one.scope:
                total += float(one.values)
                continue
            joint = network.joint(given, one.scope)
            if len(joint) != 1:
                raise EvidenceError("The expected utility needs one row of evidence.", remedies="give one row")
            total += float((joint[0] * one.values).sum())
        return total

    def learn(self, data: frames.Data, **options: Any) -> History:
        """Learn the tables of the chance variables from rows of past decisions; see `BayesianNetwork.learn`."""
        return self.network.learn(data, **options)

    # Files

    def save(self, path: str | Path) -> None:
        """Write the diagram to a model file (`.fgrn`); `fgrn.load` reads it back. For other programs: `fgrn.write`."""
        from ..files.model_file import save

        save(self, path)

    def to_document(self) -> Document:
        """Return the diagram as the content of a network file."""
        whole = self.network.to_document()
        factors = tuple(factor for factor in whole.factors if factor.scope[-1] not in self._seen)
        utilities = {name: WrittenTable(one.scope, one.values) for name, one in self._utilities.items()}
        seen: dict[str, tuple[str, ...]] = {}
        earlier: tuple[str, ...] = ()
        for name, some in self._seen.items():  # the order of time is that of the arcs
            seen[name] = (*some, *(one for one in earlier if one not in some))
            earlier = (name,)
        compact = {name: record for name, record in whole.compact.items() if name not in self._seen}
        return Document(whole.states, factors, True, whole.name, whole.properties, compact, seen, utilities)

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Return the diagram that a document describes, with its decisions in the order of its arcs.

        Where these do not tell which decision comes first, it is that of the document, with a warning.
        """
        uniform = [
            WrittenTable((name,), np.full(len(document.states[name]), 1 / len(document.states[name])))
            for name in document.decisions
        ]
        tables = {factor.scope[-1]: factor for factor in (*document.factors, *uniform)}
        chance = Document(
            document.states,
            tuple(tables[name] for name in document.states),
            True,
            document.name,
            document.properties,
            document.compact,
        )
        utilities = {name: (one.scope, one.values) for name, one in document.utilities.items()}
        return cls(BayesianNetwork.from_document(chance), in_order_of_time(document), utilities)
