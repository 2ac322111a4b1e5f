"""The oracle for tests: exact answers for small networks, by enumeration of all assignments.

One assignment gives every variable a state. Its weight is the product of

- prior[x] of every Source and table[x_in, x_out] of every SISO,
- [the outputs of a Diverter are the product-space index of its inputs, first input slowest],
- 1 / cardinality for every variable that no block drives (an open input is uniform),
- evidence[x] of every variable that has some.

All answers are sums of such weights. Only the classes of blocks are imported from the library, for the wiring; the
numbers are in two dicts: `tables` by the name of the SISO's output, `priors` by the name of the Source's variable. A
row of impossible evidence has log-likelihood -inf, beliefs of NaN, and is ignored in learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrn.graph.blocks import SISO, Block, Diverter, Source, Variable

Array: TypeAlias = NDArray[np.float64]
States: TypeAlias = dict[str, NDArray[np.intp]]
Node: TypeAlias = int | str  # the graph's nodes: blocks by their number, variables by their name
Holes: TypeAlias = Literal["expect", "ignore"]
Parameters: TypeAlias = tuple[dict[str, Array], dict[str, Array]]


def assignments(blocks: Iterable[Block], variables: Iterable[Variable]) -> States:
    """Return every assignment that the Diverters allow: for each variable its states, (assignments,)."""
    waiting = [block for block in blocks if isinstance(block, Diverter)]
    decided = {output.name for diverter in waiting for output in diverter.outputs}
    free = [variable for variable in variables if variable.name not in decided]
    grid = np.indices([variable.cardinality for variable in free]).reshape(len(free), -1)
    states: States = {variable.name: row for variable, row in zip(free, grid, strict=True)}
    while waiting:
        ready = [diverter for diverter in waiting if all(one.name in states for one in diverter.inputs)]
        if not ready:
            raise ValueError("Diverters that decide each other in a circle cannot be enumerated this way.")
        for diverter in ready:
            index = np.zeros(grid.shape[1], dtype=np.intp)
            for one in diverter.inputs:  # first input slowest
                index = index * one.cardinality + states[one.name]
            states.update({output.name: index for output in diverter.outputs})
            waiting.remove(diverter)
    return states


def normalised(values: Array) -> Array:
    """Return each row divided by its sum; NaN where the sum is zero."""
    with np.errstate(invalid="ignore"):
        quotient: Array = values / values.sum(axis=-1, keepdims=True)
    return quotient


@dataclass(frozen=True)
class Oracle:
    """A network with its tables and priors, and the evidence of some rows.

    `evidence` maps a name to weights of shape (rows, cardinality); a variable without an entry is not observed. `known`
    maps a name to booleans (rows,): where the variable counts as observed for holes="ignore"; nowhere without an entry.
    `rows` is needed only if `evidence` is empty.
    """

    blocks: Sequence[Block]
    tables: Mapping[str, Array]
    priors: Mapping[str, Array]
    evidence: Mapping[str, Array]
    known: Mapping[str, NDArray[np.bool_]] | None = None
    rows: int | None = None

    # Beliefs

    def forward(self, name: str) -> Array:
        """Return the forward message, without the variable's own evidence: (rows, states)."""
        return normalised(self._side(name, self._drivers.get(name)))

    def backward(self, name: str) -> Array:
        """Return the backward message, including the variable's own evidence: (rows, states)."""
        return normalised(self._side(name, self._readers.get(name)) * self._evidence_on(name))

    def marginal(self, name: str) -> Array:
        """Return the posterior of the variable: (rows, states)."""
        return normalised(self._summed(self._joint, self._states[name], self._variables[name].cardinality))

    @property
    def log_likelihood(self) -> Array:
        """The log of the sum over all assignments: (rows,)."""
        with np.errstate(divide="ignore"):
            logarithm: Array = np.log(self._joint.sum(axis=1))
        return logarithm

    # Counts

    def table_counts(self, weights: ArrayLike | None = None, holes: Holes = "expect") -> dict[str, Array]:
        """Return the expected counts (input states, output states) of every SISO, by its output's name."""
        counts = {}
        for number, block in self._sisos:
            size = block.input.cardinality * block.output.cardinality
            pair = self._states[block.input.name] * block.output.cardinality + self._states[block.output.name]
            sums = self._row_weights(weights, number, holes) @ self._summed(self._posterior, pair, size)
            counts[block.output.name] = sums.reshape(block.input.cardinality, block.output.cardinality)
        return counts

    def prior_counts(self, weights: ArrayLike | None = None) -> dict[str, Array]:
        """Return the expected counts (states,) of every Source, by its variable's name."""
        counts = {}
        for block in self._sources:
            name, size = block.variable.name, block.variable.cardinality
            beliefs = self._summed(self._posterior, self._states[name], size)
            counts[name] = self._row_weights(weights) @ beliefs
        return counts

    # Learning

    def em_step(self, weights: ArrayLike | None = None, smoothing: float = 0.0, holes: Holes = "expect") -> Parameters:
        """Return the tables and priors after one step of EM."""
        counts = self.table_counts(weights, holes)
        return self._new_tables(counts, self.tables, smoothing), self._new_priors(weights)

    def epoch(
        self, cycles: int, weights: ArrayLike | None = None, smoothing: float = 0.0, holes: Holes = "expect"
    ) -> Parameters:
        """Return the tables and priors after one epoch of the paper, on a tree: `cycles` updates on held messages.

        The messages into a SISO are f, its input's forward times the evidence on the input, and b, its
        output's backward. The scale of a message does not matter here, so they are not normalised.
        """
        held = []
        for number, block in self._sisos:
            f = self._side(block.input.name, self._drivers.get(block.input.name))
            f = f * self._evidence_on(block.input.name)
            b = self._side(block.output.name, self._readers.get(block.output.name))
            b = b * self._evidence_on(block.output.name)
            held.append((block.output.name, f, b, self._row_weights(weights, number, holes)))
        tables = dict(self.tables)
        for _ in range(cycles):
            counts = {}
            for name, f, b, row_weights in held:
                counts[name] = np.zeros_like(tables[name])
                for row in np.flatnonzero(row_weights):
                    term = tables[name] * np.outer(f[row], b[row])
                    counts[name] += row_weights[row] * term / (f[row] @ tables[name] @ b[row])
            tables = self._new_tables(counts, tables, smoothing)
        return tables, self._new_priors(weights)

    def _new_tables(
        self, counts: Mapping[str, Array], tables: Mapping[str, Array], smoothing: float
    ) -> dict[str, Array]:
        new = dict(tables)
        for _, block in self._sisos:
            if block.learn:
                name = block.output.name
                total = counts[name] + smoothing * (1 if block.support is None else block.support)
                for _, other in self._sisos:
                    if other is not block and block.tie is not None and other.tie == block.tie:
                        total = total + counts[other.output.name]
                new[name] = _distributions(total, tables[name])
        return new

    def _new_priors(self, weights: ArrayLike | None) -> dict[str, Array]:
        new = dict(self.priors)
        counts = self.prior_counts(weights)
        for block in self._sources:
            if block.learn:
                name = block.variable.name
                new[name] = _distributions(counts[name], self.priors[name])
        return new

    def _row_weights(self, weights: ArrayLike | None, siso: int | None = None, holes: Holes = "expect") -> Array:
        """Return the weight of each row in counts: 0 if impossible, or if missing for this SISO and ignored."""
        result = np.ones(self._row_count) if weights is None else np.array(weights, dtype=np.float64)
        result[self._joint.sum(axis=1) == 0] = 0
        if holes == "ignore" and siso is not None:
            if self.known is None:
                raise ValueError("holes='ignore' needs to be told what is known.")
            seen = np.zeros(self._row_count, dtype=bool)
            for node in self._reachable(self._siso_at(siso).output.name, without=siso):
                if isinstance(node, str):
                    seen |= self.known.get(node, False)
            result[~seen] = 0
        return result

    # Sums over assignments

    def _side(self, name: str, block: int | None) -> Array:
        """Return the sum over all assignments of the part of the network on `block`'s side: (rows, states)."""
        variable = self._variables[name]
        if block is None:
            return np.ones((self._row_count, variable.cardinality))
        nodes = self._reachable(block, without=name)
        other_end = self._readers.get(name) if block == self._drivers.get(name) else self._drivers.get(name)
        if other_end in nodes:
            raise ValueError(f"{name!r} is on a loop: it does not cut the network in two.")
        blocks = [one for number, one in enumerate(self.blocks) if number in nodes]
        states = assignments(blocks, [one for one in self._variables.values() if one.name in nodes | {name}])
        return self._summed(self._weights(nodes, states), states[name], variable.cardinality)

    @cached_property
    def _states(self) -> States:
        return assignments(self.blocks, self._variables.values())

    @cached_property
    def _joint(self) -> Array:
        return self._weights({*range(len(self.blocks)), *self._variables}, self._states)

    @cached_property
    def _posterior(self) -> Array:
        """The joint given the evidence; zero in impossible rows."""
        total = self._joint.sum(axis=1, keepdims=True)
        posterior: Array = self._joint / np.where(total > 0, total, 1)
        return posterior

    def _weights(self, nodes: set[Node], states: States) -> Array:
        """Return the weight of every assignment, restricted to some blocks and variables: (rows, assignments)."""
        weight = np.ones(len(next(iter(states.values()))))
        for number, block in enumerate(self.blocks):
            if number in nodes and isinstance(block, Source):
                weight *= self.priors[block.variable.name][states[block.variable.name]]
            elif number in nodes and isinstance(block, SISO):
                weight *= self.tables[block.output.name][states[block.input.name], states[block.output.name]]
        for name, variable in self._variables.items():
            if name in nodes and name not in self._drivers:
                weight /= variable.cardinality
        weights = np.tile(weight, (self._row_count, 1))
        for name, evidence in self.evidence.items():
            if name in nodes:
                weights *= evidence[:, states[name]]
        return weights

    def _summed(self, weights: Array, states: NDArray[np.intp], size: int) -> Array:
        """Return the weights of the assignments summed by state: (rows, size)."""
        return np.stack([np.bincount(states, row, minlength=size) for row in weights])

    def _evidence_on(self, name: str) -> Array:
        unknown = np.ones((self._row_count, self._variables[name].cardinality))
        return self.evidence.get(name, unknown)

    # The graph

    def _reachable(self, start: Node, without: Node) -> set[Node]:
        """Return the blocks and variables connected with `start` after `without` is removed."""
        found, queue = {start}, [start]
        while queue:
            here = queue.pop()
            near = [b if here == v else v for b, v in self._joints if here in (b, v)]
            fresh = {node for node in near if node != without} - found
            found |= fresh
            queue.extend(fresh)
        return found

    @cached_property
    def _joints(self) -> list[tuple[int, str]]:
        """Pairs of a block and a variable that it drives or reads."""
        return [(number, name) for side in (self._drivers, self._readers) for name, number in side.items()]

    @cached_property
    def _variables(self) -> dict[str, Variable]:
        return {one.name: one for block in self.blocks for one in _inputs(block) + _outputs(block)}

    @cached_property
    def _drivers(self) -> dict[str, int]:
        return {one.name: number for number, block in enumerate(self.blocks) for one in _outputs(block)}

    @cached_property
    def _readers(self) -> dict[str, int]:
        return {one.name: number for number, block in enumerate(self.blocks) for one in _inputs(block)}

    @cached_property
    def _sisos(self) -> list[tuple[int, SISO]]:
        return [(number, block) for number, block in enumerate(self.blocks) if isinstance(block, SISO)]

    def _siso_at(self, number: int) -> SISO:
        return dict(self._sisos)[number]

    @cached_property
    def _sources(self) -> list[Source]:
        return [block for block in self.blocks if isinstance(block, Source)]

    @cached_property
    def _row_count(self) -> int:
        if self.rows is not None:
            return self.rows
        return len(next(iter(self.evidence.values())))


def _inputs(block: Block) -> tuple[Variable, ...]:
    if isinstance(block, Source):
        return ()
    return (block.input,) if isinstance(block, SISO) else tuple(block.inputs)


def _outputs(block: Block) -> tuple[Variable, ...]:
    if isinstance(block, Source):
        return (block.variable,)
    return (block.output,) if isinstance(block, SISO) else tuple(block.outputs)


def _distributions(counts: Array, old: Array) -> Array:
    """Return counts as distributions along the last axis; where all counts are zero, the old distribution."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), old)
