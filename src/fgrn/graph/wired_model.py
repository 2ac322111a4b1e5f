"""WiredModel: connected blocks with parameters and plans; base class of Network, without inference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..core import settings
from ..core.exceptions import FgrnError, LearningError, WiringError, counted, unknown_name, visible
from ..core.settings import Name
from ..core.variable import Variable
from ..flow.constraints import Constraints
from ..flow.evidence import encode
from ..flow.gaussian_leaves import GaussianLeaves, LogDensities, Moments
from ..flow.messages import RoundRule
from ..flow.moment_constraints import MomentConstraints
from ..flow.parameters import Parameters, Specification, free_parameters, initial
from ..plan.plan import Plan
from ..plan.schedule import MOST_PROGRAMS, Programs, special_edges
from ..tables import frames
from ..tables.encoded import EncodedTable, Evidence
from .blocks import SISO, Block
from .supervisor import layers_of, make_plan, specification_of
from .wiring import Wiring

if TYPE_CHECKING:
    from ..flow.online import Online

LOOP_ROUNDS = 500
"""Parallel rounds on a loop, at most, unless given."""


class WiredModel:
    """Connected blocks, their parameters, the training record, and the plans that engines run."""

    _row_cost: ClassVar[int] = 1  # how much longer the reference engine takes for a row than for one of a network
    _preferred_engine: str | None = None  # see `engine_for`
    _queried_by: str | None = None  # kernels of queries, a key of `second_process.KERNELS`, to compile while it learns
    _cannot: ClassVar[Mapping[str, str]] = {}
    """The operations that this kind of network does not support, with the reason as text."""

    def __init__(self, blocks: Iterable[Block], *, leaves: GaussianLeaves | None = None) -> None:
        if isinstance(blocks, Block) or not isinstance(blocks, Iterable):
            raise WiringError(f"A Network is made of a list of blocks. Got {blocks!r} instead.")
        self._wiring = Wiring(tuple(blocks))
        self._spec = replace(specification_of(self._wiring.blocks), leaves=leaves)
        if leaves is not None:
            self._check_leaves(leaves)
        self._parameters = initial(self._spec)
        self._plans: dict[frozenset[str], Plan] = {}
        self._trained: tuple[dict[str, Any], ...] = ()
        self._counted: tuple[Parameters, Online] | None = None  # in batches, and the tables that were made of it
        self._programs: dict[tuple[frozenset[str], frozenset[int]], Programs] = {}
        self._densities: tuple[Parameters, LogDensities] | None = None  # of the leaves, and what they were made of

    def _check_leaves(self, leaves: GaussianLeaves) -> None:
        """Raise an error for continuous columns that do not fit the variables."""
        if self.variable(leaves.variable).cardinality != leaves.states:
            raise WiringError(f"{leaves.variable!r} does not have {leaves.states} states, as its leaves have it.")
        twice = [name for name in leaves.columns if name in self._wiring.variables]
        if twice or len(set(leaves.columns)) < len(leaves.columns):
            raise WiringError(f"Two variables or columns have the same name: {(twice or list(leaves.columns))[0]!r}.")

    # Properties

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks as given, with their initial tables instead of the learnt ones."""
        return self._wiring.blocks

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, in the order of the blocks."""
        return tuple(self._wiring.variables.values())

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the variables that leave the graph: driven by a block and read by none."""
        return tuple(name for name in self._wiring.variables if name not in self._wiring.readers)

    def variable(self, name: Name) -> Variable:
        """Return a variable by name."""
        try:
            found = self._wiring.variables[settings.name_of(name)]
        except (KeyError, TypeError):
            raise unknown_name("variable", name, self._wiring.variables) from None
        settings.check_states(name, found.labels)
        return found

    @property
    def is_tree(self) -> bool:
        """Whether the graph has no loop, so that two sweeps are exact."""
        return self._wiring.is_tree

    @property
    def diameter(self) -> int:
        """The largest number of blocks between two variables, the number of parallel rounds that suffice on a tree."""
        return self._wiring.diameter

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The names of tables and priors by layer, lowest first, as `learn_by_layer` learns them."""
        return layers_of(self._wiring)

    def table(self, name: Name) -> np.ndarray:
        """Return the table of the SISO block with this output, (input states, output states); read-only."""
        return self._spec.layout.table(
            self._parameters.values, self._spec.layout.table_number(settings.name_of(name, self.variable))
        )

    def prior(self, name: Name) -> np.ndarray:
        """Return the prior of the Source of this variable, (states,); read-only."""
        return self._spec.layout.prior(
            self._parameters.values, self._spec.layout.prior_number(settings.name_of(name, self.variable))
        )

    @property
    def leaves(self) -> GaussianLeaves | None:
        """The continuous columns, which are normally distributed in each state of a variable; None without any."""
        return self._spec.leaves

    @property
    def moments(self) -> Moments:
        """The means and variances of the continuous columns, each (states, columns)."""
        if self.leaves is None:
            raise FgrnError("This network has no continuous columns, and so no means and variances.")
        return self.leaves.estimates(self._parameters.values[self._spec.layout.size :])

    def _with_moments(self, running: np.ndarray, marginal: Callable[[str], np.ndarray]) -> np.ndarray:
        """Return expected counts per row, with those of continuous columns appended, if there are any."""
        if self.leaves is None:
            return running
        shares = marginal(self.leaves.variable)[0]
        return np.concatenate([running, self.leaves.expected_counts(shares, self.moments)])

    def _start_from_moments(self, moments: Moments) -> None:
        """Set the means and variances of the continuous columns, as initial values of learning."""
        if self.leaves is not None:
            values = np.concatenate([self._tables, self.leaves.parameters_of(moments)])
            self._parameters = replace(self._parameters, values=values)

    @property
    def trained(self) -> tuple[dict[str, Any], ...]:
        """The training record: one mapping per call of `learn`, with rows, settings, likelihood and execution.

        "engine" and "merge" are the chosen ones if they were not given, "kernel" is the method of the engine. A merge
        of None means that merging was decided by a sample of the rows; an engine of None that no value was missing, so
        that rows were only counted.
        """
        return self._trained

    @property
    def free_parameters(self) -> int:
        """The number of free parameters: cells of tables and priors, less one for every row."""
        return free_parameters(self._spec)

    def _free_parameters_under(self, constraints: Sequence[Any]) -> int:
        """Return the number of free parameters under constraints, given as for `learn`."""
        return free_parameters(self._constrained(self._spec, constraints))

    def _constrained_cells(self, constraints: Sequence[Any], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return which cells of tables are fixed by constraints, and the cell to which each cell is equal.

        Both are (rows, cells in a row of all tables) for tables with the same number of rows; places count along rows.
        """
        found = self._constrained(self._spec, constraints).constraints
        layout, places = self._spec.layout, np.arange(self._spec.layout.size)
        free, leader = (places < 0, places) if found is None else (found.is_free, found.leader)
        numbers = [layout.table_number(name) for name in names]
        nothing = np.zeros((self.leaves.states if self.leaves is not None else 0, 0), dtype=np.intp)
        held, first, own = (
            np.concatenate([layout.table(values, number) for number in numbers] or [nothing], axis=1)
            for values in (~free, leader, places)
        )
        among = np.zeros(layout.size, dtype=np.intp)
        among[own.ravel()] = np.arange(own.size)
        return held, among[first]

    def _constrained_moments(self, constraints: Sequence[Any]) -> MomentConstraints | None:
        """Return the constraints on means and variances of continuous columns, if there are any."""
        found = self._constrained(self._spec, constraints).constraints
        return None if found is None else found.moments

    def _code_of_level(self, name: str, level: Any) -> int:
        """Return the number of a level, which may be given as text."""
        variable = self.variable(name)
        words = [str(label) for label in variable.labels]
        named = isinstance(level, str) and level not in variable.labels and words.count(level) == 1
        return words.index(level) if named else variable.code(level)

    def _constrained(self, spec: Specification, constraints: Sequence[Any]) -> Specification:
        """Return the specification of learning under constraints on rows of tables."""
        if not constraints:
            return spec
        if spec.forms:
            raise LearningError("are for networks all of whose tables are free.", setting="constraints")
        found = Constraints.of(constraints, spec.layout, self._code_of_level, spec.leaves)
        frozen = np.flatnonzero(found.constrained & ~spec.learnt)
        if len(frozen):
            from ..flow.mstep import named_lines

            name = next(iter(named_lines(spec.layout, [int(spec.layout.line_of[frozen[0]])])))
            raise LearningError(
                f"name the table of {name!r}, which is not learnt.",
                setting="constraints",
                value=name,
                remedies="leave it out of them, or learn it too",
            )
        return replace(spec, constraints=found)

    def _restricted(
        self, only: Collection[Name] | None, paused: Collection[str], constraints: Sequence[Any], cycles: int
    ) -> Specification:
        """Return the specification for learning only some tables, under constraints and with `cycles` per epoch."""
        if constraints and cycles > 1:
            raise LearningError(
                "must be 1 under constraints, which are met once in each epoch.", setting="cycles", value=cycles
            )
        spec = self._spec
        if only is not None:
            spec = spec.restricted(settings.variable_names("only", only, own=self.variable))
        return self._constrained(spec.without(paused), constraints)

    def copy(self) -> Self:
        """Return a copy with the same blocks and parameters, to be learnt further."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def _with_parameters(self, parameters: Parameters, trained: tuple[dict[str, Any], ...] = ()) -> Self:
        """Return a model of the same blocks with other parameters and training record, which shares its plans."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._parameters, other._trained, other._counted = parameters, trained, None
        return other

    def reset(self) -> None:
        """Reset all parameters to those given by the blocks."""
        self._parameters, self._trained = initial(self._spec), ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WiredModel) or type(other) is not type(self):
            return NotImplemented
        same = self.blocks == other.blocks and self.leaves == other.leaves
        return same and self._parameters == other._parameters

    __hash__ = None  # type: ignore[assignment]  # learning changes it

    def __getstate__(self) -> tuple[Any, ...]:
        return self.blocks, self._parameters, self._trained, self._counted, self.leaves

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(state[0], leaves=state[4])  # type: ignore[misc]
        self._parameters, self._trained, self._counted = state[1:4]

    def __repr__(self) -> str:
        shape = f"tree of diameter {self.diameter}" if self.is_tree else "with loops"
        lines = [
            f"Network of {counted(len(self.variables), 'variable')} and {counted(len(self.blocks), 'block')}, {shape}"
        ]
        lines += [f"  {block._line}" for block in self.blocks[:40]]
        if len(self.blocks) > 40:
            lines.append(f"  ... {counted(len(self.blocks) - 40, 'more block')}")
        if self.leaves is not None:
            lines.append(f"  Gaussian  {self.leaves.variable} -> {', '.join(self.leaves.columns)}")
        return "\n".join(map(visible, lines))

    @property
    def online_state(self) -> Online | None:
        """A copy of the running counts of online learning, to continue with `learn(online=)`; None without any.

        It is saved with the network. None after any other way of learning.
        """
        if self._counted is None or self._counted[0] is not self._parameters:
            return None
        return replace(self._counted[1])

    # Private helpers

    @property
    def _continuous(self) -> tuple[str, ...]:
        """The names of the continuous columns."""
        return () if self.leaves is None else self.leaves.columns

    @property
    def _tables(self) -> np.ndarray:
        """All tables and priors as one vector, without the parameters of continuous columns.

        Without such columns it is the same object at every call: engines keep what they made of it.
        """
        values = self._parameters.values
        return values if self.leaves is None else values[: self._spec.layout.size]

    def _plan(self, paused: Collection[str] = ()) -> Plan:
        """Return the plan of the graph, cut at the SISO blocks whose outputs are `paused`."""
        for name in paused:
            self._spec.layout.table_number(name)
            driver = self._wiring.drivers.get(name)
            if driver is not None and not isinstance(self._wiring.blocks[driver], SISO):
                raise FgrnError(f"{name!r} is not the output of a SISO block, and only those can pause.")
        key = frozenset(paused)
        if key not in self._plans:
            self._plans[key] = make_plan(self._wiring, key)
        return self._plans[key]

    def _programs_for(self, plan: Plan, paused: Collection[str], table: EncodedTable) -> Programs:
        """Return the programs for evidence on the variables of this table."""
        key = (frozenset(paused), special_edges(plan, table.slot, table.soft_edges()))
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            self._programs[key] = Programs(plan, key[1])
        return self._programs[key]

    def _encode(self, plan: Plan, data: frames.Data) -> Evidence:
        """Return the evidence in a table; continuous columns become soft evidence on their hidden variable."""
        rows, leaves = self._encode_rows(plan, data), self.leaves
        if leaves is None:
            return rows
        from ..flow.leaf_estep import with_messages

        made = self._densities
        if made is None or made[0] is not self._parameters:
            rest = self._parameters.values[self._spec.layout.size :]
            made = self._densities = self._parameters, leaves.log_densities(rest)
        return with_messages(leaves, made[1], plan.edge(leaves.variable), rows)

    def _encoded_rows(self, data: frames.Data) -> Evidence:
        """Return the rows of a table as codes, which every network of the same variables takes as evidence."""
        return encode(self._plan(), data, continuous=self._continuous)

    def _encode_rows(self, plan: Plan, data: frames.Data, weights: Any = None) -> Evidence:
        """Return the rows of a table as codes, with the numbers of continuous columns unchanged."""
        return encode(plan, data, weights, continuous=self._continuous).scaled(self._wiring.log_scale)

    def _table(self, plan: Plan, data: Any, weights: Any = None, executor: Any = None) -> EncodedTable:
        """Return the rows of a table as codes, in memory, on disk or on workers."""
        from ..learning.encoding import table_elsewhere

        elsewhere = table_elsewhere(plan, data, weights, executor, self._continuous)
        return self._encode_rows(plan, data, weights) if elsewhere is None else elsewhere.scaled(self._wiring.log_scale)

    def _assigned_names(self, plan: Plan) -> list[str]:
        """Return the variables of a joint assignment: those of Sources and tables, without the copies at Diverters."""
        layout = self._spec.layout
        named = (*layout.prior_names, *(name for group in layout.table_names for name in group), *self.observed)
        return [name for name in named if name in plan.index]

    def _rounds_needed(self, plan: Plan) -> int:
        """Return the number of parallel rounds until all messages have arrived; paused blocks may increase it."""
        return self.diameter if plan is self._plans.get(frozenset()) else plan.reach

    def _round_rule(self, plan: Plan, rounds: int | None, damping: float | None, tolerance: float) -> RoundRule:
        """How parallel rounds are run; a number of them and a damping are chosen unless they are given."""
        rest = (0.0 if plan.is_tree else 0.5) if damping is None else damping
        settings.number("damping", rest, below=1)
        if rounds is not None:
            settings.whole("rounds", rounds, 0)
        needed = self._rounds_needed(plan) if plan.is_tree and rest == 0 else None
        usual = LOOP_ROUNDS if needed is None else needed
        return RoundRule(usual if rounds is None else rounds, rest, tolerance, needed)

    def _require(self, ability: str, kind: type[FgrnError] = FgrnError) -> None:
        """Raise an error for an operation that this kind of network does not support."""
        if ability in self._cannot:
            raise kind(self._cannot[ability])

    def _paused(self, paused: Collection[Name], kind: type[FgrnError] = FgrnError) -> tuple[str, ...]:
        """Return the outputs of SISO blocks to pause, by name; an error of this kind if no block can pause."""
        found = settings.variable_names("paused", paused, own=self.variable)
        if found:
            self._require("pauses", kind)
        return tuple(found)

    def _paused_in_learning(self, paused: Collection[Name]) -> tuple[str, ...]:
        """Return the outputs of SISO blocks to pause in learning, by name; none if there are continuous columns."""
        found = self._paused(paused, LearningError)
        if found and self.leaves is not None:
            raise LearningError("must be left out with continuous columns.", setting="paused", value=found)
        return found
